/* json_shared.c -- what both directions of the JSON mapping need; see json.h. */
#include <ctype.h>
#include <string.h>

#include "api/wire/json.h"
#include "google/protobuf/any.pb-c.h"
#include "google/protobuf/duration.pb-c.h"
#include "google/protobuf/timestamp.pb-c.h"

enum json_special wire_json_special(const ProtobufCMessageDescriptor *type)
{
    if (type == &google__protobuf__timestamp__descriptor) {
        return JSON_TIMESTAMP;
    }
    if (type == &google__protobuf__duration__descriptor) {
        return JSON_DURATION;
    }
    return type == &google__protobuf__any__descriptor ? JSON_ANY : JSON_PLAIN;
}

bool wire_json_is_map(const ProtobufCFieldDescriptor *field)
{
    if (field->label != PROTOBUF_C_LABEL_REPEATED || field->type != PROTOBUF_C_TYPE_MESSAGE) {
        return false;
    }
    const ProtobufCMessageDescriptor *entry = field->descriptor;
    char name[WIRE_NAME_BYTES];
    wire_camel(field->name, name, sizeof(name) - sizeof("Entry"));
    name[0] = (char)toupper((unsigned char)name[0]);
    strcat(name, "Entry");
    return entry->n_fields == 2 && strcmp(entry->short_name, name) == 0 &&
           strcmp(entry->fields[0].name, "key") == 0 && entry->fields[0].id == 1 &&
           strcmp(entry->fields[1].name, "value") == 0 && entry->fields[1].id == 2;
}

void *wire_json_member(const void *message, const ProtobufCFieldDescriptor *field)
{
    return (uint8_t *)(uintptr_t)message + field->offset;
}

void *wire_json_quantifier(const void *message, const ProtobufCFieldDescriptor *field)
{
    return (uint8_t *)(uintptr_t)message + field->quantifier_offset;
}

size_t wire_json_element_bytes(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_ENUM: return 4;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return 8;
    case PROTOBUF_C_TYPE_BOOL: return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_BYTES: return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE: break;
    }
    return sizeof(void *);
}

/* "ON_PUBLISH" as "OnPublish". */
static void upper_camel(const char *name, char *out, size_t out_bytes)
{
    size_t size = 0;
    bool raise = true;
    for (; *name != '\0' && size + 1 < out_bytes; name++) {
        if (*name == '_') {
            raise = true;
            continue;
        }
        out[size++] = raise ? *name : (char)tolower((unsigned char)*name);
        raise = false;
    }
    out[size] = '\0';
}

/* What follows the enum's own name in a value's name: for "WatchEventType" and
 * "WATCH_EVENT_TYPE_ADDED" "ADDED"; the whole name if the prefix is another. */
static const char *without_prefix(const char *enum_name, const char *value_name)
{
    const char *rest = value_name;
    for (const char *at = enum_name; *at != '\0'; at++) {
        if (at != enum_name && isupper((unsigned char)*at) && *rest == '_') {
            rest++;
        }
        if (toupper((unsigned char)*at) != *rest) {
            return value_name;
        }
        rest++;
    }
    return *rest == '_' ? rest + 1 : value_name;
}

bool wire_json_parse_enum(const ProtobufCEnumDescriptor *type, const char *text, int *out)
{
    for (unsigned i = 0; i < type->n_values; i++) {
        const char *name = type->values[i].name;
        char word[WIRE_NAME_BYTES];
        upper_camel(without_prefix(type->short_name, name), word, sizeof(word));
        if (strcmp(text, name) == 0 || strcmp(text, word) == 0) {
            *out = type->values[i].value;
            return true;
        }
    }
    return false;
}
