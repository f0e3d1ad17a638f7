/* json_out.c -- messages as JSON; see wire.h and the protobuf documentation, "ProtoJSON". */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire/json.h"
#include "google/protobuf/any.pb-c.h"
#include "google/protobuf/duration.pb-c.h"
#include "google/protobuf/timestamp.pb-c.h"

/* All functions here give a new reference, or null if jansson refuses (no memory, text that is not
 * UTF-8). */

static json_t *message_json(const ProtobufCMessage *message);

static json_t *bytes_json(const ProtobufCBinaryData *bytes)
{
    char *text = wire_json_base64(bytes->data, bytes->len);
    json_t *json = text == NULL ? NULL : json_string(text);
    free(text);
    return json;
}

static json_t *double_json(double value)
{
    if (isnan(value)) {
        return json_string("NaN");
    }
    if (isinf(value)) {
        return json_string(value > 0 ? "Infinity" : "-Infinity");
    }
    return json_real(value);
}

static json_t *integer_text_json(bool is_signed, uint64_t value)
{
    char text[24];
    if (is_signed) {
        (void)snprintf(text, sizeof(text), "%lld", (long long)value);
    } else {
        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    }
    return json_string(text);
}

static json_t *enum_json(const ProtobufCEnumDescriptor *type, int value)
{
    const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(type, value);
    return found != NULL ? json_string(found->name) : json_integer(value);
}

static json_t *text_json(const char *text)
{
    return json_string(text == NULL ? "" : text);
}

/* The value that stands at 'at'. */
static json_t *value_json(const ProtobufCFieldDescriptor *field, const void *at)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32: return json_integer(*(const int32_t *)at);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32: return json_integer(*(const uint32_t *)at);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64: return integer_text_json(true, *(const uint64_t *)at);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64: return integer_text_json(false, *(const uint64_t *)at);
    case PROTOBUF_C_TYPE_FLOAT: return double_json((double)*(const float *)at);
    case PROTOBUF_C_TYPE_DOUBLE: return double_json(*(const double *)at);
    case PROTOBUF_C_TYPE_BOOL: return json_boolean(*(const protobuf_c_boolean *)at);
    case PROTOBUF_C_TYPE_ENUM: return enum_json(field->descriptor, *(const int *)at);
    case PROTOBUF_C_TYPE_STRING: return text_json(*(char *const *)at);
    case PROTOBUF_C_TYPE_BYTES: return bytes_json(at);
    case PROTOBUF_C_TYPE_MESSAGE: break;
    }
    return message_json(*(ProtobufCMessage *const *)at);
}

/* Text of a map's key. */
static void key_text(const ProtobufCFieldDescriptor *field, const void *at, char out[24])
{
    json_t *json = value_json(field, at);
    if (json_is_boolean(json)) {
        (void)snprintf(out, 24, "%s", json_is_true(json) ? "true" : "false");
    } else if (json_is_integer(json)) {
        (void)snprintf(out, 24, "%lld", (long long)json_integer_value(json));
    } else {
        (void)snprintf(out, 24, "%s", json_string_value(json));
    }
    json_decref(json);
}

static int map_entry(json_t *object, const ProtobufCMessage *entry)
{
    const ProtobufCFieldDescriptor *key = &entry->descriptor->fields[0];
    const ProtobufCFieldDescriptor *value = &entry->descriptor->fields[1];
    const void *value_at = wire_json_member(entry, value);
    json_t *json = NULL;
    if (value->type == PROTOBUF_C_TYPE_MESSAGE && *(void *const *)value_at == NULL) {
        json = json_object(); /* An entry without value: the empty message. */
    } else {
        json = value_json(value, value_at);
    }
    const void *key_at = wire_json_member(entry, key);
    if (key->type == PROTOBUF_C_TYPE_STRING) {
        const char *text = *(char *const *)key_at;
        return json_object_set_new(object, text == NULL ? "" : text, json);
    }
    char text[24];
    key_text(key, key_at, text);
    return json_object_set_new(object, text, json);
}

static json_t *map_json(const ProtobufCMessage *const *entries, size_t count)
{
    json_t *object = json_object();
    for (size_t i = 0; object != NULL && i < count; i++) {
        if (map_entry(object, entries[i]) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static json_t *repeated_json(const ProtobufCFieldDescriptor *field, const uint8_t *items,
                             size_t count)
{
    size_t step = wire_json_element_bytes(field->type);
    json_t *array = json_array();
    for (size_t i = 0; array != NULL && i < count; i++) {
        if (json_array_append_new(array, value_json(field, items + i * step)) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

static bool is_zero(const ProtobufCFieldDescriptor *field, const void *at)
{
    static const uint8_t ZEROS[sizeof(ProtobufCBinaryData)];
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING: {
        const char *text = *(char *const *)at;
        return text == NULL || text[0] == '\0';
    }
    case PROTOBUF_C_TYPE_BYTES: return ((const ProtobufCBinaryData *)at)->len == 0;
    case PROTOBUF_C_TYPE_MESSAGE: return *(void *const *)at == NULL;
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_BOOL:
    case PROTOBUF_C_TYPE_ENUM: break;
    }
    return memcmp(at, ZEROS, wire_json_element_bytes(field->type)) == 0;
}

/* True if the field is to be written. */
static bool is_present(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const void *at = wire_json_member(message, field);
    const void *quantifier = wire_json_quantifier(message, field);
    if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0) {
        bool has_pointer = field->type != PROTOBUF_C_TYPE_MESSAGE || *(void *const *)at != NULL;
        return *(const uint32_t *)quantifier == field->id && has_pointer;
    }
    switch (field->label) {
    case PROTOBUF_C_LABEL_REPEATED: return *(const size_t *)quantifier > 0;
    case PROTOBUF_C_LABEL_REQUIRED: return true;
    case PROTOBUF_C_LABEL_NONE: return !is_zero(field, at);
    case PROTOBUF_C_LABEL_OPTIONAL: break;
    }
    if (field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_MESSAGE) {
        const void *pointer = *(void *const *)at;
        return pointer != NULL && pointer != field->default_value;
    }
    return *(const protobuf_c_boolean *)quantifier != 0;
}

static json_t *field_json(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const void *at = wire_json_member(message, field);
    if (field->label != PROTOBUF_C_LABEL_REPEATED) {
        return value_json(field, at);
    }
    size_t count = *(const size_t *)wire_json_quantifier(message, field);
    if (wire_json_is_map(field)) {
        return map_json(*(const ProtobufCMessage *const *const *)at, count);
    }
    return repeated_json(field, *(const uint8_t *const *)at, count);
}

/* An Any of a type that this build knows as its fields, else as bytes. */
static json_t *any_json(const Google__Protobuf__Any *any)
{
    const char *slash = any->type_url == NULL ? NULL : strrchr(any->type_url, '/');
    const ProtobufCMessageDescriptor *type =
        slash == NULL ? NULL : baton_wire_find_message(slash + 1);
    ProtobufCMessage *inner = NULL;
    json_t *object = NULL;
    if (type != NULL && wire_json_special(type) == JSON_PLAIN) {
        struct baton_bytes bytes = { any->value.data, any->value.len };
        struct baton_status st = baton_wire_decode(type, bytes, NULL, &inner);
        object = baton_ok(&st) ? message_json(inner) : NULL;
        baton_wire_free(inner);
    }
    if (object == NULL) {
        object = json_object();
        (void)json_object_set_new(object, "value", bytes_json(&any->value));
    }
    (void)json_object_set_new(object, "@type", text_json(any->type_url));
    return object;
}

static json_t *special_json(const ProtobufCMessage *message, enum json_special special)
{
    char text[JSON_TIME_BYTES];
    if (special == JSON_ANY) {
        return any_json((const Google__Protobuf__Any *)message);
    }
    if (special == JSON_TIMESTAMP) {
        const Google__Protobuf__Timestamp *timestamp = (const void *)message;
        wire_json_timestamp_text(timestamp->seconds, timestamp->nanos, text);
    } else {
        const Google__Protobuf__Duration *duration = (const void *)message;
        wire_json_duration_text(duration->seconds, duration->nanos, text);
    }
    return json_string(text);
}

static json_t *message_json(const ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    enum json_special special = wire_json_special(type);
    if (special != JSON_PLAIN) {
        return special_json(message, special);
    }
    json_t *object = json_object();
    for (unsigned i = 0; object != NULL && i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        char name[WIRE_NAME_BYTES];
        wire_camel(field->name, name, sizeof(name));
        if (is_present(message, field) &&
            json_object_set_new(object, name, field_json(message, field)) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

struct baton_status baton_wire_to_json(const void *message, json_t **out)
{
    json_t *json = message_json(message);
    if (json == NULL) {
        return baton_status_make(BATON_INTERNAL, BATON_REASON_MALFORMED,
                                 "%s: has text that is not UTF-8, or there is no memory",
                                 ((const ProtobufCMessage *)message)->descriptor->name);
    }
    *out = json;
    return baton_status_ok();
}
