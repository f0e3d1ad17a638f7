/* wire_json_test.c -- messages as JSON and back; see api/wire/wire.h. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "api/wire/json.h"
#include "api/wire/wire.h"
#include "baton/v1/common.pb-c.h"
#include "baton/v1/models.pb-c.h"
#include "baton/v1/versions.pb-c.h"
#include "google/protobuf/descriptor.pb-c.h"
#include "google/rpc/error_details.pb-c.h"
#include "google/rpc/status.pb-c.h"
#include "grpc/health/v1/health.pb-c.h"
#include "grpc/reflection/v1/reflection.pb-c.h"

/* The text of a message's JSON; to be freed. */
static char *text_of(const void *message)
{
    json_t *json = NULL;
    struct baton_status st = baton_wire_to_json(message, &json);
    cr_assert(baton_ok(&st), "%s", st.message);
    char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(json);
    return text;
}

static struct baton_status parse(const ProtobufCMessageDescriptor *type, const char *text,
                                 ProtobufCMessage **out)
{
    json_error_t error;
    json_t *json = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    cr_assert_not_null(json, "%s: %s", text, error.text);
    struct baton_status st = baton_wire_from_json(type, json, out);
    json_decref(json);
    return st;
}

/* Reads 'in' as 'type' and asserts that it is written as 'out'. */
static void assert_becomes(const ProtobufCMessageDescriptor *type, const char *in, const char *out)
{
    ProtobufCMessage *message = NULL;
    struct baton_status st = parse(type, in, &message);
    cr_assert(baton_ok(&st), "%s: %s", in, st.message);
    char *text = text_of(message);
    cr_assert_str_eq(text, out, "%s became %s", in, text);
    free(text);
    baton_wire_free(message);
}

struct pair {
    const char *in;
    const char *out;
};

/* A model as people write it: both spellings, numbers as text or not, durations, defaults left out. */
Test(wire_json, models)
{
    static const struct pair CASES[] = {
        { "{}", "{}" },
        { "{\"meta\":{\"name\":\"m\"}}", "{\"meta\":{\"name\":\"m\"}}" },
        { "{\"meta\":{\"name\":\"\"},\"spec\":null}", "{\"meta\":{}}" },
        { "{\"meta\":{\"revision\":7}}", "{\"meta\":{\"revision\":\"7\"}}" },
        { "{\"meta\":{\"revision\":\"18446744073709551615\"}}",
          "{\"meta\":{\"revision\":\"18446744073709551615\"}}" },
        { "{\"meta\":{\"revision\":2.0}}", "{\"meta\":{\"revision\":\"2\"}}" },
        { "{\"meta\":{\"created_at\":\"2026-11-29T22:41:07.5+01:00\"}}",
          "{\"meta\":{\"createdAt\":\"2026-11-29T21:41:07.500Z\"}}" },
        { "{\"meta\":{\"createdAt\":\"1969-12-31T23:59:59.000000001Z\"}}",
          "{\"meta\":{\"createdAt\":\"1969-12-31T23:59:59.000000001Z\"}}" },
        { "{\"meta\":{\"createdAt\":\"2000-02-29T00:00:00Z\"}}",
          "{\"meta\":{\"createdAt\":\"2000-02-29T00:00:00Z\"}}" },
        { "{\"spec\":{\"update\":{\"maxUnavailable\":1,\"progressDeadline\":\"10m\"}}}",
          "{\"spec\":{\"update\":{\"maxUnavailable\":\"1\",\"progressDeadline\":\"600s\"}}}" },
        { "{\"spec\":{\"update\":{\"swap_deadline\":\"250ms\",\"drainDeadline\":\"-1.5s\"}}}",
          "{\"spec\":{\"update\":{\"drainDeadline\":\"-1.500s\",\"swapDeadline\":\"0.250s\"}}}" },
        { "{\"spec\":{\"update\":{\"allowRecreate\":true}}}",
          "{\"spec\":{\"update\":{\"allowRecreate\":true}}}" },
    };
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        assert_becomes(&baton__v1__model__descriptor, CASES[i].in, CASES[i].out);
    }
}

/* Bytes, enums in every form, maps, oneofs, lists. */
Test(wire_json, other_kinds)
{
    assert_becomes(&baton__v1__add_manifest_part_request__descriptor, "{\"part\":\"aGk_\"}",
                   "{\"part\":\"aGk/\"}");
    assert_becomes(&baton__v1__add_manifest_part_request__descriptor, "{\"part\":\"aA\"}",
                   "{\"part\":\"aA==\"}");
    static const char *const ENUMS[] = { "\"WATCH_EVENT_TYPE_ADDED\"", "\"Added\"", "1", "\"1\"" };
    for (size_t i = 0; i < sizeof(ENUMS) / sizeof(ENUMS[0]); i++) {
        char in[64];
        (void)snprintf(in, sizeof(in), "{\"type\":%s}", ENUMS[i]);
        assert_becomes(&baton__v1__watch_models_response__descriptor, in,
                       "{\"type\":\"WATCH_EVENT_TYPE_ADDED\"}");
    }
    assert_becomes(&grpc__health__v1__health_check_response__descriptor,
                   "{\"status\":\"NotServing\"}", "{\"status\":\"NOT_SERVING\"}");
    assert_becomes(&google__rpc__error_info__descriptor, "{\"metadata\":{\"a\":\"1\",\"b\":\"\"}}",
                   "{\"metadata\":{\"a\":\"1\",\"b\":\"\"}}");
    assert_becomes(&grpc__reflection__v1__server_reflection_request__descriptor,
                   "{\"listServices\":\"\"}", "{\"listServices\":\"\"}");
    assert_becomes(&grpc__reflection__v1__extension_number_response__descriptor,
                   "{\"extensionNumber\":[1,-2,\"3\"]}", "{\"extensionNumber\":[1,-2,3]}");
    assert_becomes(&google__rpc__bad_request__descriptor,
                   "{\"fieldViolations\":[{\"field\":\"a\"},{}]}",
                   "{\"fieldViolations\":[{\"field\":\"a\"},{}]}");
    assert_becomes(&google__protobuf__uninterpreted_option__descriptor,
                   "{\"doubleValue\":\"-Infinity\",\"negativeIntValue\":\"-5\"}",
                   "{\"doubleValue\":\"-Infinity\",\"negativeIntValue\":\"-5\"}");
}

struct refusal {
    const ProtobufCMessageDescriptor *type;
    const char *in;
    const char *start; /* Of the message. */
};

/* Refusals name the path of the field and what it wants. */
Test(wire_json, refusals)
{
    const ProtobufCMessageDescriptor *model = &baton__v1__model__descriptor;
    const struct refusal CASES[] = {
        { model, "[]", "value: must be an object" },
        { model, "{\"colour\":1}", "colour: there is no such field" },
        { model, "{\"spec\":{\"update\":{\"strategie\":\"\"}}}",
          "spec.update.strategie: there is no such field" },
        { model, "{\"spec\":[]}", "spec: must be an object, not a list" },
        { model, "{\"meta\":{\"name\":{}}}", "meta.name: must be text, not an object" },
        { model, "{\"meta\":{\"name\":\"a\\u0000b\"}}", "meta.name: must be text without" },
        { model, "{\"meta\":{\"revision\":-1}}", "meta.revision: must be an integer from 0" },
        { model, "{\"meta\":{\"revision\":1.5}}", "meta.revision: must be an integer from 0" },
        { model, "{\"meta\":{\"revision\":\"1x\"}}", "meta.revision: must be an integer from 0" },
        { model, "{\"meta\":{\"revision\":\"\"}}", "meta.revision: must be an integer from 0" },
        { model, "{\"meta\":{\"revision\":\"18446744073709551616\"}}", "meta.revision: " },
        { model, "{\"meta\":{\"createdAt\":\"yesterday\"}}", "meta.createdAt: must be a time" },
        { model, "{\"meta\":{\"createdAt\":\"2026-02-29T00:00:00Z\"}}", "meta.createdAt: " },
        { model, "{\"meta\":{\"createdAt\":\"2026-13-01T00:00:00Z\"}}", "meta.createdAt: " },
        { model, "{\"meta\":{\"createdAt\":\"2026-01-01T00:00:00\"}}", "meta.createdAt: " },
        { model, "{\"spec\":{\"update\":{\"swapDeadline\":5}}}",
          "spec.update.swapDeadline: must be a duration" },
        { model, "{\"spec\":{\"update\":{\"swapDeadline\":\"5 s\"}}}",
          "spec.update.swapDeadline: " },
        { model, "{\"spec\":{\"update\":{\"allowRecreate\":1}}}",
          "spec.update.allowRecreate: must be true or false" },
        { &baton__v1__watch_models_response__descriptor, "{\"type\":\"Gone\"}",
          "type: must be one of WATCH_EVENT_TYPE_UNSPECIFIED" },
        { &baton__v1__watch_models_response__descriptor, "{\"type\":99}", "type: must be one of" },
        { &baton__v1__add_manifest_part_request__descriptor, "{\"part\":\"a\"}",
          "part: must be base64" },
        { &baton__v1__add_manifest_part_request__descriptor, "{\"index\":4294967296}",
          "index: must be an integer from 0 to 4294967295" },
        { &google__rpc__error_info__descriptor, "{\"metadata\":{\"a\":{}}}",
          "metadata[\"a\"]: must be text" },
        { &google__rpc__bad_request__descriptor, "{\"fieldViolations\":[{},{\"field\":[]}]}",
          "fieldViolations[1].field: must be text" },
        { &google__rpc__bad_request__descriptor, "{\"fieldViolations\":{}}",
          "fieldViolations: must be a list" },
        { &grpc__reflection__v1__server_reflection_request__descriptor,
          "{\"listServices\":\"\",\"fileByFilename\":\"f\"}", "fileByFilename: cannot be given" },
    };
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        ProtobufCMessage *message = NULL;
        struct baton_status st = parse(CASES[i].type, CASES[i].in, &message);
        cr_assert_eq(st.code, BATON_INVALID_ARGUMENT, "%s", CASES[i].in);
        cr_assert_eq(st.reason, BATON_REASON_BAD_FIELD, "%s", CASES[i].in);
        cr_assert_eq(strncmp(st.message, CASES[i].start, strlen(CASES[i].start)), 0, "%s: %s",
                     CASES[i].in, st.message);
        cr_assert_null(message);
    }
}

/* An unknown key's hint lists the known ones. */
Test(wire_json, hint_of_unknown_key)
{
    ProtobufCMessage *message = NULL;
    struct baton_status st = parse(&baton__v1__model__descriptor, "{\"x\":1}", &message);
    cr_assert_str_eq(st.hint, "fields here: meta, spec, status");
}

/* Details of an error are shown as their fields, foreign ones as bytes. */
Test(wire_json, any)
{
    Google__Rpc__ErrorInfo info;
    google__rpc__error_info__init(&info);
    info.reason = "HELD";
    Google__Rpc__Status *root = baton_wire_new(&google__rpc__status__descriptor);
    root->details = baton_wire_take(root, 2, sizeof(*root->details));
    root->n_details = 2;
    for (size_t i = 0; i < 2; i++) {
        root->details[i] = baton_wire_part(root, baton_wire_find_message("google.protobuf.Any"));
        root->details[i]->value.len = baton_wire_size(&info);
        root->details[i]->value.data = baton_wire_take(root, baton_wire_size(&info), 1);
        baton_wire_encode(&info, root->details[i]->value.data);
    }
    root->details[0]->type_url = baton_wire_text(root, "type.googleapis.com/google.rpc.ErrorInfo");
    root->details[1]->type_url = baton_wire_text(root, "type.googleapis.com/other.Thing");
    char *text = text_of(root);
    cr_assert_str_eq(
        text, "{\"details\":[{\"@type\":\"type.googleapis.com/google.rpc.ErrorInfo\",\"reason\":"
              "\"HELD\"},{\"@type\":\"type.googleapis.com/other.Thing\",\"value\":\"CgRIRUxE\"}]}");
    free(text);
    baton_wire_free(root);
}

/* The whole descriptor set, which has every kind of field, becomes JSON and comes back the same. */
Test(wire_json, descriptor_set_round_trip)
{
    const ProtobufCMessageDescriptor *type = &google__protobuf__file_descriptor_set__descriptor;
    struct baton_bytes bytes = baton_wire_descriptor_set();
    ProtobufCMessage *set = NULL;
    struct baton_status st = baton_wire_decode(type, bytes, NULL, &set);
    cr_assert(baton_ok(&st), "%s", st.message);
    json_t *json = NULL;
    st = baton_wire_to_json(set, &json);
    cr_assert(baton_ok(&st), "%s", st.message);
    ProtobufCMessage *back = NULL;
    st = baton_wire_from_json(type, json, &back);
    cr_assert(baton_ok(&st), "%s", st.message);
    json_decref(json);
    size_t size = baton_wire_size(back);
    cr_assert_eq(size, bytes.size);
    uint8_t *again = malloc(size);
    baton_wire_encode(back, again);
    cr_assert_arr_eq(again, bytes.data, size);
    free(again);
    baton_wire_free(back);
    baton_wire_free(set);
}

/* Base64 of every length up to a few groups. */
Test(wire_json, base64)
{
    uint8_t data[32];
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)(i * 37 + 200);
    }
    for (size_t size = 0; size <= sizeof(data); size++) {
        char *text = wire_json_base64(data, size);
        uint8_t back[64];
        size_t back_size = 99;
        cr_assert(wire_json_parse_base64(text, back, &back_size));
        cr_assert_eq(back_size, size);
        cr_assert_arr_eq(back, data, size);
        free(text);
    }
    static const char *const BAD[] = { "a", "ab=c", "a===", "????", "aaaaa", "aa=a=" };
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
        uint8_t back[64];
        size_t size;
        cr_assert_not(wire_json_parse_base64(BAD[i], back, &size), "%s", BAD[i]);
    }
}
