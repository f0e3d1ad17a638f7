/* wire_test.c -- decoding under bounds, building, times; see api/wire/wire.h. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire/wire.h"
#include "baton/v1/agent_session.pb-c.h"
#include "baton/v1/common.pb-c.h"
#include "baton/v1/models.pb-c.h"
#include "google/protobuf/descriptor.pb-c.h"
#include "google/protobuf/duration.pb-c.h"
#include "google/protobuf/timestamp.pb-c.h"
#include "google/rpc/error_details.pb-c.h"

static struct baton_bytes bytes_of(const void *data, size_t size)
{
    return (struct baton_bytes){ data, size };
}

static struct baton_status decode_model(const void *data, size_t size, Baton__V1__Model **out)
{
    ProtobufCMessage *message = NULL;
    struct baton_status st =
        baton_wire_decode(&baton__v1__model__descriptor, bytes_of(data, size), NULL, &message);
    *out = (void *)message;
    return st;
}

static Baton__V1__Model *sample(void)
{
    Baton__V1__Model *model = baton_wire_new(&baton__v1__model__descriptor);
    model->meta = baton_wire_part(model, &baton__v1__object_meta__descriptor);
    model->meta->name = baton_wire_textf(model, "qwen%d", 3);
    model->meta->revision = UINT64_MAX;
    model->meta->created_at = baton_wire_timestamp(model, 1700000000123456789);
    model->spec = baton_wire_part(model, &baton__v1__model_spec__descriptor);
    model->spec->update = baton_wire_part(model, &baton__v1__update_policy__descriptor);
    model->spec->update->trigger = baton_wire_text(model, "Manual");
    model->spec->update->progress_deadline = baton_wire_duration(model, 1500000000);
    return model;
}

/* What is built comes back the same, alone and as a copy. */
Test(wire, round_trip)
{
    Baton__V1__Model *model = sample();
    uint8_t bytes[512];
    size_t size = baton_wire_size(model);
    cr_assert_leq(size, sizeof(bytes));
    cr_assert_eq(baton_wire_encode(model, bytes), size);
    Baton__V1__Model *copy = baton_wire_copy(model);
    baton_wire_free(model);
    cr_assert_str_eq(copy->meta->name, "qwen3");
    cr_assert_eq(copy->meta->revision, UINT64_MAX);
    cr_assert_str_eq(copy->spec->update->trigger, "Manual");
    baton_wire_free(copy);
    Baton__V1__Model *decoded = NULL;
    struct baton_status st = decode_model(bytes, size, &decoded);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(decoded->meta->created_at->nanos, 123456789);
    baton_wire_free(decoded);
    baton_wire_free(NULL);
}

/* No bytes are a message of defaults. */
Test(wire, empty)
{
    Baton__V1__Model *model = NULL;
    struct baton_status st = decode_model("", 0, &model);
    cr_assert(baton_ok(&st));
    cr_assert_null(model->meta);
    baton_wire_free(model);
}

struct bad {
    const char *name;
    const char *bytes;
    size_t size;
    enum baton_reason reason;
    const char *part; /* Of the message. */
};
#define BAD(name_, bytes_, reason_, part_)                                                         \
    {                                                                                              \
        name_, bytes_, sizeof(bytes_) - 1, BATON_REASON_##reason_, part_                           \
    }

/* Each kind of wrong bytes, with the place that the refusal names. */
Test(wire, bad_bytes)
{
    static const struct bad CASES[] = {
        BAD("cut tag", "\xFF", MALFORMED, "baton.v1.Model"),
        BAD("field 0", "\x02\x00", MALFORMED, "baton.v1.Model"),
        BAD("group", "\x0B\x0C", MALFORMED, "baton.v1.Model"),
        BAD("wire type 7", "\x0F", MALFORMED, "baton.v1.Model"),
        BAD("long varint", "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", MALFORMED, ""),
        BAD("tag above 32 bits", "\x80\x80\x80\x80\x80\x01", MALFORMED, ""),
        BAD("longer than the rest", "\x0A\x05\x0A", MALFORMED, "baton.v1.Model"),
        BAD("inner longer", "\x0A\x02\x0A\x05", MALFORMED, "meta"),
        BAD("length of 2^64", "\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", MALFORMED, ""),
        BAD("message as a number", "\x08\x01", MALFORMED, "meta"),
        BAD("text as a number", "\x0A\x02\x08\x01", MALFORMED, "meta.name"),
        BAD("number as text", "\x0A\x03\x1A\x01\x01", MALFORMED, "meta.revision"),
        BAD("unknown field cut", "\x9A\x06\x05", MALFORMED, ""),
        BAD("bad UTF-8", "\x0A\x03\x0A\x01\xFF", BAD_FIELD, "meta.name"),
        BAD("short form", "\x0A\x04\x0A\x02\xC0\xAF", BAD_FIELD, "meta.name"),
        BAD("surrogate", "\x0A\x05\x0A\x03\xED\xA0\x80", BAD_FIELD, "meta.name"),
        BAD("above U+10FFFF", "\x0A\x06\x0A\x04\xF4\x90\x80\x80", BAD_FIELD, "meta.name"),
        BAD("sequence cut", "\x0A\x04\x0A\x02\xE2\x82", BAD_FIELD, "meta.name"),
        BAD("zero byte",
            "\x0A\x05\x0A\x03"
            "a\0b",
            BAD_FIELD, "meta.name"),
        BAD("zero byte far",
            "\x0A\x0E\x0A\x0C"
            "abcdefghijk\0",
            BAD_FIELD, "meta.name"),
    };
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        Baton__V1__Model *model = NULL;
        struct baton_status st = decode_model(CASES[i].bytes, CASES[i].size, &model);
        cr_assert_eq(st.code, BATON_INVALID_ARGUMENT, "%s", CASES[i].name);
        cr_assert_eq(st.reason, CASES[i].reason, "%s", CASES[i].name);
        cr_assert_not_null(strstr(st.message, CASES[i].part), "%s: %s", CASES[i].name, st.message);
        cr_assert_null(model);
    }
}

/* Valid text of every length of sequence, with ASCII around it. */
Test(wire, good_text)
{
    static const char BYTES[] = "\x0A\x15\x0A\x13"
                                "abcdefgh\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80zz";
    Baton__V1__Model *model = NULL;
    struct baton_status st = decode_model(BYTES, sizeof(BYTES) - 1, &model);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_str_eq(model->meta->name, BYTES + 4);
    baton_wire_free(model);
}

/* Nested 'depth' messages of a type that contains itself. */
static size_t nest(uint8_t *out, size_t capacity, size_t depth)
{
    enum { NESTED_TYPE = 3 << 3 | 2 };
    size_t size = 0;
    for (size_t i = 1; i < depth; i++) {
        uint8_t length[5];
        size_t used = 0;
        size_t rest = size;
        do {
            length[used++] = (uint8_t)((rest & 0x7F) | (rest > 0x7F ? 0x80 : 0));
            rest >>= 7;
        } while (rest > 0);
        cr_assert_leq(size + used + 1, capacity);
        memmove(out + used + 1, out, size);
        out[0] = NESTED_TYPE;
        memcpy(out + 1, length, used);
        size += used + 1;
    }
    return size;
}

/* A message that would crash protobuf-c's recursion is refused by its depth, at any depth. */
Test(wire, depth)
{
    static uint8_t bytes[1 << 17];
    const ProtobufCMessageDescriptor *type = &google__protobuf__descriptor_proto__descriptor;
    ProtobufCMessage *message = NULL;
    size_t size = nest(bytes, sizeof(bytes), BATON_MESSAGE_DEPTH_MAX);
    struct baton_status st = baton_wire_decode(type, bytes_of(bytes, size), NULL, &message);
    cr_assert(baton_ok(&st), "%s", st.message);
    baton_wire_free(message);
    size = nest(bytes, sizeof(bytes), BATON_MESSAGE_DEPTH_MAX + 1);
    st = baton_wire_decode(type, bytes_of(bytes, size), NULL, &message);
    cr_assert_eq(st.code, BATON_RESOURCE_EXHAUSTED);
    cr_assert_eq(st.reason, BATON_REASON_LIMIT);
    cr_assert_not_null(strstr(st.message, "nestedType.nestedType"), "%s", st.message);
    size = nest(bytes, sizeof(bytes), 20000);
    st = baton_wire_decode(type, bytes_of(bytes, size), NULL, &message);
    cr_assert_eq(st.reason, BATON_REASON_LIMIT);
    struct baton_wire_limits limits = baton_wire_limits_default();
    limits.depth_max = UINT32_MAX; /* Even who asks for it gets no unbounded recursion. */
    st = baton_wire_decode(type, bytes_of(bytes, size), &limits, &message);
    cr_assert_eq(st.reason, BATON_REASON_LIMIT);
}

/* Bytes and memory are bounded: a megabyte of empty parts is not fifty megabytes of structs. */
Test(wire, size_and_memory)
{
    enum { SIZE = 1 << 20 };
    uint8_t *bytes = malloc(SIZE + 1);
    cr_assert_not_null(bytes);
    for (size_t i = 0; i < SIZE; i += 2) {
        bytes[i] = 6 << 3 | 2; /* hello.groups */
        bytes[i + 1] = 0;
    }
    const ProtobufCMessageDescriptor *type = &baton__v1__hello__descriptor;
    ProtobufCMessage *message = NULL;
    struct baton_status st = baton_wire_decode(type, bytes_of(bytes, SIZE), NULL, &message);
    cr_assert_eq(st.code, BATON_RESOURCE_EXHAUSTED);
    cr_assert_not_null(strstr(st.message, "memory"), "%s", st.message);
    st = baton_wire_decode(type, bytes_of(bytes, SIZE + 1), NULL, &message);
    cr_assert_eq(st.code, BATON_RESOURCE_EXHAUSTED);
    cr_assert_not_null(strstr(st.message, "1048577"), "%s", st.message);
    cr_assert_null(message);
    free(bytes);
}

/* Every budget from nothing upward fails cleanly until one is enough. */
Test(wire, every_budget)
{
    Baton__V1__Model *model = sample();
    uint8_t bytes[512];
    size_t size = baton_wire_encode(model, bytes);
    baton_wire_free(model);
    struct baton_wire_limits limits = baton_wire_limits_default();
    struct baton_status st = baton_status_ok();
    ProtobufCMessage *message = NULL;
    limits.memory_max = 0;
    do {
        limits.memory_max++;
        st = baton_wire_decode(&baton__v1__model__descriptor, bytes_of(bytes, size), &limits,
                               &message);
        cr_assert(baton_ok(&st) || st.reason == BATON_REASON_LIMIT);
    } while (!baton_ok(&st) && limits.memory_max < 4096);
    cr_assert(baton_ok(&st));
    cr_assert_gt(limits.memory_max, 256);
    baton_wire_free(message);
}

/* Fields of a newer peer survive a pass through this build. */
Test(wire, unknown_fields_survive)
{
    static const uint8_t BYTES[] = { 0x0A, 0x03, 0x0A, 0x01, 'm', 0x9A, 0x06, 0x02, 'h', 'i' };
    Baton__V1__Model *model = NULL;
    struct baton_status st = decode_model(BYTES, sizeof(BYTES), &model);
    cr_assert(baton_ok(&st));
    uint8_t again[sizeof(BYTES)];
    cr_assert_eq(baton_wire_size(model), sizeof(BYTES));
    baton_wire_encode(model, again);
    cr_assert_arr_eq(again, BYTES, sizeof(BYTES));
    baton_wire_free(model);
}

/* Many pieces of all sizes live in one root and go with it. */
Test(wire, building_blocks)
{
    Baton__V1__Model *model = baton_wire_new(&baton__v1__model__descriptor);
    for (size_t size = 0; size < 20000; size += 37) {
        uint8_t *piece = baton_wire_take(model, size, 1);
        cr_assert_eq((uintptr_t)piece % 16, 0);
        for (size_t i = 0; i < size; i++) {
            cr_assert_eq(piece[i], 0);
        }
        memset(piece, 0xAA, size);
    }
    ProtobufCBinaryData bytes = baton_wire_bytes(model, "abc", 3);
    cr_assert_arr_eq(bytes.data, "abc", 3);
    cr_assert_null(baton_wire_bytes(model, "", 0).data);
    baton_wire_free(model);
}

/* Times: both ways, unset, and what is refused. */
Test(wire, times)
{
    Baton__V1__Model *root = baton_wire_new(&baton__v1__model__descriptor);
    uint64_t ns = 7;
    cr_assert_null(baton_wire_timestamp(root, 0));
    struct baton_status st = baton_wire_timestamp_ns(NULL, "at", &ns);
    cr_assert(baton_ok(&st) && ns == 0);
    st = baton_wire_timestamp_ns(baton_wire_timestamp(root, 1234567890123456789), "at", &ns);
    cr_assert(baton_ok(&st) && ns == 1234567890123456789);
    st = baton_wire_duration_ns(baton_wire_duration(root, 999999999), "wait", &ns);
    cr_assert(baton_ok(&st) && ns == 999999999);
    static const struct {
        int64_t seconds;
        int32_t nanos;
    } BAD_TIMES[] = { { -1, 0 }, { 0, -1 }, { 0, 1000000000 }, { INT64_MAX, 0 } };
    for (size_t i = 0; i < sizeof(BAD_TIMES) / sizeof(BAD_TIMES[0]); i++) {
        Google__Protobuf__Duration duration;
        google__protobuf__duration__init(&duration);
        duration.seconds = BAD_TIMES[i].seconds;
        duration.nanos = BAD_TIMES[i].nanos;
        st = baton_wire_duration_ns(&duration, "update.swapDeadline", &ns);
        cr_assert_eq(st.reason, BATON_REASON_BAD_FIELD, "%zu", i);
        cr_assert_not_null(strstr(st.message, "update.swapDeadline"));
    }
    baton_wire_free(root);
}

/* Digests and uids as text. */
Test(wire, hex)
{
    uint8_t digest[BATON_DIGEST_BYTES] = { 0xde, 0xad, 0xbe, 0xef };
    Baton__V1__Model *root = baton_wire_new(&baton__v1__model__descriptor);
    char *text = baton_wire_hex(root, digest, sizeof(digest));
    cr_assert_str_eq(text, "deadbeef000000000000000000000000");
    uint8_t back[BATON_DIGEST_BYTES];
    struct baton_status st = baton_wire_from_hex(text, "digest", back, sizeof(back));
    cr_assert(baton_ok(&st));
    cr_assert_arr_eq(back, digest, sizeof(back));
    st = baton_wire_from_hex("deadbeef", "digest", back, sizeof(back));
    cr_assert_eq(st.reason, BATON_REASON_BAD_FIELD);
    st = baton_wire_from_hex(NULL, "digest", back, sizeof(back));
    cr_assert_eq(st.reason, BATON_REASON_BAD_FIELD);
    baton_wire_free(root);
}

/* Every message and service of the build is found by its name; lists are sorted. */
Test(wire, registry)
{
    size_t count = 0;
    const ProtobufCMessageDescriptor *const *all = baton_wire_messages(&count);
    cr_assert_gt(count, 50);
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(baton_wire_find_message(all[i]->name), all[i]);
        cr_assert(i == 0 || strcmp(all[i - 1]->name, all[i]->name) < 0);
    }
    cr_assert_null(baton_wire_find_message("baton.v1.Nothing"));
    const ProtobufCServiceDescriptor *const *services = baton_wire_services(&count);
    cr_assert_geq(count, 5);
    cr_assert_eq(baton_wire_find_service(services[0]->name), services[0]);
    cr_assert_null(baton_wire_find_service("Models"));
}

/* A text of an engine, or one that was cut: the message must be one that receivers take. */
Test(wire, texts_are_made_utf_8)
{
    static const struct {
        const char *text, *wanted;
    } rows[] = {
        { "", "" },
        { "plain, 8 and more bytes", "plain, 8 and more bytes" },
        { "\xe4\xb8\xad\xf0\x9f\x98\x80", "\xe4\xb8\xad\xf0\x9f\x98\x80" },
        { "cut \xe4\xb8", "cut " },
        { "cut \xf0\x9f\x98", "cut " },
        { "cut \xc3", "cut " },
        { "bad \xff\xe4\xb8 inside", "bad ??? inside" },
        { "\x80\xc0\xaf", "???" },
        { "surrogate \xed\xa0\x80 here", "surrogate ??? here" },
    };
    void *root = baton_wire_new(&baton__v1__ack__descriptor);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        cr_assert_str_eq(baton_wire_text(root, rows[i].text), rows[i].wanted, "row %zu", i);
        cr_assert_str_eq(baton_wire_textf(root, "%s", rows[i].text), rows[i].wanted, "row %zu", i);
    }
    baton_wire_free(root);
}
