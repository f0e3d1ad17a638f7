/* json_in.c -- JSON as messages; see wire.h and the protobuf documentation, "ProtoJSON". */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire/json.h"
#include "api/wire/scan.h"
#include "google/protobuf/duration.pb-c.h"
#include "google/protobuf/timestamp.pb-c.h"

/* Where a value goes and how errors name it. */
struct place {
    void *root;
    const ProtobufCFieldDescriptor *field;
    const struct wire_path *path;
    unsigned depth;
};

static struct baton_status fill(void *root, ProtobufCMessage *message, const json_t *json,
                                const struct wire_path *path, unsigned depth);

static const char *kind_name(const json_t *json)
{
    switch (json_typeof(json)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "a list";
    case JSON_STRING: return "text";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "true or false";
    case JSON_NULL: break;
    }
    return "null";
}

static struct baton_status wanted(const struct place *place, const json_t *json, const char *what)
{
    if (json_is_string(json)) {
        return wire_path_status(place->path, "value", BATON_INVALID_ARGUMENT,
                                BATON_REASON_BAD_FIELD, "must be %s, not \"%.60s\"", what,
                                json_string_value(json));
    }
    return wire_path_status(place->path, "value", BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                            "must be %s, not %s", what, kind_name(json));
}

/* --- numbers --- */

static bool text_to_signed(const char *text, int64_t *out)
{
    char *end = NULL;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && strchr("-0123456789", text[0]) != NULL;
}

static bool text_to_unsigned(const char *text, uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && strchr("0123456789", text[0]) != NULL;
}

/* 2.0 counts as an integer, 2.5 does not. */
static bool real_to_signed(double value, int64_t *out)
{
    if (!(value >= -9007199254740992.0 && value <= 9007199254740992.0) || trunc(value) != value) {
        return false;
    }
    *out = (int64_t)value;
    return true;
}

static bool read_signed(const json_t *json, int64_t low, int64_t high, int64_t *out)
{
    bool is_read = false;
    if (json_is_integer(json)) {
        *out = json_integer_value(json);
        is_read = true;
    } else if (json_is_real(json)) {
        is_read = real_to_signed(json_real_value(json), out);
    } else if (json_is_string(json)) {
        is_read = text_to_signed(json_string_value(json), out);
    }
    return is_read && *out >= low && *out <= high;
}

static bool read_unsigned(const json_t *json, uint64_t high, uint64_t *out)
{
    if (json_is_string(json)) {
        return text_to_unsigned(json_string_value(json), out) && *out <= high;
    }
    int64_t value;
    if (!read_signed(json, 0, INT64_MAX, &value)) {
        return false;
    }
    *out = (uint64_t)value;
    return *out <= high;
}

static bool read_double(const json_t *json, double *out)
{
    if (json_is_number(json)) {
        *out = json_number_value(json);
        return true;
    }
    const char *text = json_string_value(json);
    if (text == NULL) {
        return false;
    }
    if (strcmp(text, "NaN") == 0 || strcmp(text, "Infinity") == 0 ||
        strcmp(text, "-Infinity") == 0) {
        *out = text[0] == 'N' ? (double)NAN : text[0] == 'I' ? HUGE_VAL : -HUGE_VAL;
        return true;
    }
    char *end = NULL;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*out) &&
           strspn(text, "+-.0123456789eE") == strlen(text);
}

static struct baton_status put_int32(const struct place *place, const json_t *json, void *at)
{
    int64_t value;
    if (!read_signed(json, INT32_MIN, INT32_MAX, &value)) {
        return wanted(place, json, "an integer of 32 bits");
    }
    *(int32_t *)at = (int32_t)value;
    return baton_status_ok();
}

static struct baton_status put_uint32(const struct place *place, const json_t *json, void *at)
{
    uint64_t value;
    if (!read_unsigned(json, UINT32_MAX, &value)) {
        return wanted(place, json, "an integer from 0 to 4294967295");
    }
    *(uint32_t *)at = (uint32_t)value;
    return baton_status_ok();
}

static struct baton_status put_int64(const struct place *place, const json_t *json, void *at)
{
    int64_t value;
    if (!read_signed(json, INT64_MIN, INT64_MAX, &value)) {
        return wanted(place, json, "an integer of 64 bits");
    }
    *(int64_t *)at = value;
    return baton_status_ok();
}

static struct baton_status put_uint64(const struct place *place, const json_t *json, void *at)
{
    uint64_t value;
    if (!read_unsigned(json, UINT64_MAX, &value)) {
        return wanted(place, json, "an integer from 0 to 18446744073709551615");
    }
    *(uint64_t *)at = value;
    return baton_status_ok();
}

static struct baton_status put_real(const struct place *place, const json_t *json, void *at)
{
    double value;
    if (!read_double(json, &value)) {
        return wanted(place, json, "a number");
    }
    if (place->field->type == PROTOBUF_C_TYPE_DOUBLE) {
        *(double *)at = value;
        return baton_status_ok();
    }
    if (isfinite(value) && fabs(value) > 3.4028234663852886e38) {
        return wanted(place, json, "a number that fits a float");
    }
    *(float *)at = (float)value;
    return baton_status_ok();
}

/* --- other values --- */

static struct baton_status put_bool(const struct place *place, const json_t *json, void *at)
{
    bool is_true = json_is_true(json);
    if (json_is_string(json)) {
        is_true = strcmp(json_string_value(json), "true") == 0;
        if (!is_true && strcmp(json_string_value(json), "false") != 0) {
            return wanted(place, json, "true or false");
        }
    } else if (!json_is_boolean(json)) {
        return wanted(place, json, "true or false");
    }
    *(protobuf_c_boolean *)at = is_true;
    return baton_status_ok();
}

/* "A, B or C": what a value of this enum may be, in the short form where there is one. */
static void enum_choices(const ProtobufCEnumDescriptor *type, char *out, size_t out_bytes)
{
    out[0] = '\0';
    for (unsigned i = 0; i < type->n_values; i++) {
        const char *name = type->values[i].name;
        size_t used = strlen(out);
        if (used + strlen(name) + 5 > out_bytes) {
            return;
        }
        strcat(out, i == 0 ? "one of " : ", ");
        strcat(out, name);
    }
}

static struct baton_status put_enum(const struct place *place, const json_t *json, void *at)
{
    const ProtobufCEnumDescriptor *type = place->field->descriptor;
    const char *text = json_string_value(json);
    int64_t number;
    int value;
    if (text != NULL && wire_json_parse_enum(type, text, &value)) {
        *(int *)at = value;
        return baton_status_ok();
    }
    if (read_signed(json, INT32_MIN, INT32_MAX, &number) &&
        protobuf_c_enum_descriptor_get_value(type, (int)number) != NULL) {
        *(int *)at = (int)number;
        return baton_status_ok();
    }
    char choices[160];
    enum_choices(type, choices, sizeof(choices));
    return wanted(place, json, choices);
}

static struct baton_status put_text(const struct place *place, const json_t *json, void *at)
{
    if (json_is_integer(json)) { /* YAML's "maxUnavailable: 1". */
        *(char **)at = baton_wire_textf(place->root, "%lld", (long long)json_integer_value(json));
        return baton_status_ok();
    }
    const char *text = json_string_value(json);
    if (text == NULL) {
        return wanted(place, json, "text");
    }
    if (strlen(text) != json_string_length(json)) {
        return wanted(place, json, "text without zero bytes");
    }
    *(char **)at = baton_wire_text(place->root, text);
    return baton_status_ok();
}

static struct baton_status put_bytes(const struct place *place, const json_t *json, void *at)
{
    const char *text = json_string_value(json);
    if (text == NULL) {
        return wanted(place, json, "base64 text");
    }
    ProtobufCBinaryData bytes;
    bytes.data = baton_wire_take(place->root, strlen(text) / 4 + 1, 3);
    if (!wire_json_parse_base64(text, bytes.data, &bytes.len)) {
        return wanted(place, json, "base64 text");
    }
    *(ProtobufCBinaryData *)at = bytes;
    return baton_status_ok();
}

static struct baton_status put_time(const struct place *place, const json_t *json, void *message,
                                    enum json_special special)
{
    const char *text = json_string_value(json);
    if (special == JSON_TIMESTAMP) {
        Google__Protobuf__Timestamp *timestamp = message;
        if (text == NULL ||
            !wire_json_parse_timestamp(text, &timestamp->seconds, &timestamp->nanos)) {
            return wanted(place, json, "a time like 2026-01-31T12:00:00Z");
        }
        return baton_status_ok();
    }
    Google__Protobuf__Duration *duration = message;
    if (text == NULL || !wire_json_parse_duration(text, &duration->seconds, &duration->nanos)) {
        return wanted(place, json, "a duration like 1.5s, 250ms, 5m or 2h");
    }
    return baton_status_ok();
}

static struct baton_status put_message(const struct place *place, const json_t *json, void *at)
{
    const ProtobufCMessageDescriptor *type = place->field->descriptor;
    ProtobufCMessage *part = baton_wire_part(place->root, type);
    *(ProtobufCMessage **)at = part;
    enum json_special special = wire_json_special(type);
    if (special == JSON_TIMESTAMP || special == JSON_DURATION) {
        return put_time(place, json, part, special);
    }
    if (special == JSON_ANY) {
        return wanted(place, json, "left out: a google.protobuf.Any is not read from JSON");
    }
    return fill(place->root, part, json, place->path, place->depth + 1);
}

static struct baton_status put_value(const struct place *place, const json_t *json, void *at)
{
    switch (place->field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32: return put_int32(place, json, at);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32: return put_uint32(place, json, at);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64: return put_int64(place, json, at);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64: return put_uint64(place, json, at);
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE: return put_real(place, json, at);
    case PROTOBUF_C_TYPE_BOOL: return put_bool(place, json, at);
    case PROTOBUF_C_TYPE_ENUM: return put_enum(place, json, at);
    case PROTOBUF_C_TYPE_STRING: return put_text(place, json, at);
    case PROTOBUF_C_TYPE_BYTES: return put_bytes(place, json, at);
    case PROTOBUF_C_TYPE_MESSAGE: break;
    }
    return put_message(place, json, at);
}

/* --- fields --- */

static struct baton_status put_list(const struct place *place, const json_t *json,
                                    ProtobufCMessage *message)
{
    if (!json_is_array(json)) {
        return wanted(place, json, "a list");
    }
    size_t count = json_array_size(json);
    size_t step = wire_json_element_bytes(place->field->type);
    uint8_t *items = baton_wire_take(place->root, count, step);
    for (size_t i = 0; i < count; i++) {
        struct wire_path path = { place->path->up, place->path->name, NULL, i + 1 };
        struct place item = { place->root, place->field, &path, place->depth };
        struct baton_status st = put_value(&item, json_array_get(json, i), items + i * step);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    *(uint8_t **)wire_json_member(message, place->field) = items;
    *(size_t *)wire_json_quantifier(message, place->field) = count;
    return baton_status_ok();
}

static struct baton_status put_entry(const struct place *place, const char *key,
                                     const json_t *value, ProtobufCMessage *entry)
{
    struct wire_path path = { place->path->up, place->path->name, key, 0 };
    const ProtobufCFieldDescriptor *fields = entry->descriptor->fields;
    json_t *key_json = json_string(key);
    baton_assert(key_json != NULL);
    struct place at = { place->root, &fields[0], &path, place->depth };
    struct baton_status st = put_value(&at, key_json, wire_json_member(entry, &fields[0]));
    json_decref(key_json);
    if (!baton_ok(&st)) {
        return st;
    }
    at.field = &fields[1];
    return put_value(&at, value, wire_json_member(entry, &fields[1]));
}

static struct baton_status put_map(const struct place *place, const json_t *json,
                                   ProtobufCMessage *message)
{
    if (!json_is_object(json)) {
        return wanted(place, json, "an object");
    }
    size_t count = 0;
    ProtobufCMessage **entries =
        baton_wire_take(place->root, json_object_size(json), sizeof(*entries));
    const char *key;
    json_t *value;
    /* Jansson's walk takes a plain pointer but changes nothing. */
    json_object_foreach((json_t *)(uintptr_t)json, key, value)
    {
        entries[count] = baton_wire_part(place->root, place->field->descriptor);
        struct baton_status st = put_entry(place, key, value, entries[count]);
        if (!baton_ok(&st)) {
            return st;
        }
        count++;
    }
    *(ProtobufCMessage ***)wire_json_member(message, place->field) = entries;
    *(size_t *)wire_json_quantifier(message, place->field) = count;
    return baton_status_ok();
}

static struct baton_status put_single(const struct place *place, const json_t *json,
                                      ProtobufCMessage *message)
{
    const ProtobufCFieldDescriptor *field = place->field;
    void *quantifier = wire_json_quantifier(message, field);
    if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0) {
        if (*(uint32_t *)quantifier != 0) {
            return wire_path_status(place->path, "value", BATON_INVALID_ARGUMENT,
                                    BATON_REASON_BAD_FIELD,
                                    "cannot be given together with another choice");
        }
        *(uint32_t *)quantifier = field->id;
    } else if (field->label == PROTOBUF_C_LABEL_OPTIONAL && field->type != PROTOBUF_C_TYPE_STRING &&
               field->type != PROTOBUF_C_TYPE_MESSAGE) {
        *(protobuf_c_boolean *)quantifier = 1;
    }
    return put_value(place, json, wire_json_member(message, field));
}

/* The field that a key names, in either spelling. */
static const ProtobufCFieldDescriptor *field_of_key(const ProtobufCMessageDescriptor *type,
                                                    const char *key)
{
    for (unsigned i = 0; i < type->n_fields; i++) {
        char name[WIRE_NAME_BYTES];
        wire_camel(type->fields[i].name, name, sizeof(name));
        if (strcmp(key, name) == 0 || strcmp(key, type->fields[i].name) == 0) {
            return &type->fields[i];
        }
    }
    return NULL;
}

static struct baton_status unknown_key(const ProtobufCMessageDescriptor *type, const char *key,
                                       const struct wire_path *path)
{
    char known[BATON_STATUS_HINT_BYTES] = "";
    for (unsigned i = 0; i < type->n_fields; i++) {
        char name[WIRE_NAME_BYTES];
        wire_camel(type->fields[i].name, name, sizeof(name));
        if (strlen(known) + strlen(name) + 3 < sizeof(known) - 16) {
            strcat(known, i == 0 ? "" : ", ");
            strcat(known, name);
        }
    }
    struct wire_path here = { .up = path, .name = key };
    struct baton_status st = wire_path_status(&here, NULL, BATON_INVALID_ARGUMENT,
                                              BATON_REASON_BAD_FIELD, "there is no such field");
    return baton_status_hint(st, "fields here: %s", known);
}

static struct baton_status put_key(void *root, ProtobufCMessage *message, const char *key,
                                   const json_t *value, const struct place *outer)
{
    const ProtobufCFieldDescriptor *field = field_of_key(message->descriptor, key);
    if (field == NULL) {
        return unknown_key(message->descriptor, key, outer->path);
    }
    if (json_is_null(value)) {
        return baton_status_ok();
    }
    struct wire_path path = { .up = outer->path, .name = field->name };
    struct place place = { root, field, &path, outer->depth };
    if (field->label != PROTOBUF_C_LABEL_REPEATED) {
        return put_single(&place, value, message);
    }
    return wire_json_is_map(field) ? put_map(&place, value, message)
                                   : put_list(&place, value, message);
}

static struct baton_status fill(void *root, ProtobufCMessage *message, const json_t *json,
                                const struct wire_path *path, unsigned depth)
{
    struct place outer = { root, NULL, path, depth };
    if (depth > BATON_MESSAGE_DEPTH_MAX) {
        return wanted(&outer, json, "nested less deeply");
    }
    if (!json_is_object(json)) {
        return wanted(&outer, json, "an object");
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)json, key, value)
    {
        struct baton_status st = put_key(root, message, key, value, &outer);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    return baton_status_ok();
}

struct baton_status baton_wire_from_json(const ProtobufCMessageDescriptor *type, const json_t *json,
                                         ProtobufCMessage **out)
{
    if (wire_json_special(type) != JSON_PLAIN) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "%s: cannot stand alone", type->name);
    }
    ProtobufCMessage *message = baton_wire_new(type);
    struct baton_status st = fill(message, message, json, NULL, 1);
    if (!baton_ok(&st)) {
        baton_wire_free(message);
        return st;
    }
    *out = message;
    return baton_status_ok();
}
