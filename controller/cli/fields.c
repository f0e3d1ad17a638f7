/* fields.c -- fields of messages by name, through the descriptors; see print.h. */
#include "controller/cli/print.h"

#include <string.h>

#define MEMBER(type, message, offset) ((type *)(void *)((char *)(message) + (offset)))

static const ProtobufCFieldDescriptor *find(const void *message, const char *field)
{
    const ProtobufCMessage *base = message;
    return protobuf_c_message_descriptor_get_field_by_name(base->descriptor, field);
}

void cli_set_text(void *message, const char *field, const char *text)
{
    const ProtobufCFieldDescriptor *f = find(message, field);
    if (f != NULL && f->type == PROTOBUF_C_TYPE_STRING && text != NULL) {
        /* The generated struct has char *, but encoding only reads it. */
        *MEMBER(const char *, message, f->offset) = text;
    }
}

void cli_set_u64(void *message, const char *field, uint64_t value)
{
    const ProtobufCFieldDescriptor *f = find(message, field);
    if (f != NULL && f->type == PROTOBUF_C_TYPE_UINT64) {
        *MEMBER(uint64_t, message, f->offset) = value;
    }
}

void cli_set_bool(void *message, const char *field, bool value)
{
    const ProtobufCFieldDescriptor *f = find(message, field);
    if (f != NULL && f->type == PROTOBUF_C_TYPE_BOOL) {
        *MEMBER(protobuf_c_boolean, message, f->offset) = value;
    }
}

void cli_set_part(void *message, const char *field, void *part)
{
    const ProtobufCFieldDescriptor *f = find(message, field);
    if (f != NULL && f->type == PROTOBUF_C_TYPE_MESSAGE) {
        *MEMBER(void *, message, f->offset) = part;
    }
}

const char *cli_get_text(const void *message, const char *field)
{
    const ProtobufCFieldDescriptor *f = find(message, field);
    if (f == NULL || f->type != PROTOBUF_C_TYPE_STRING || f->label == PROTOBUF_C_LABEL_REPEATED) {
        return "";
    }
    return *MEMBER(const char *const, message, f->offset);
}

uint64_t cli_get_u64(const void *message, const char *field)
{
    const ProtobufCFieldDescriptor *f = find(message, field);
    return f != NULL && f->type == PROTOBUF_C_TYPE_UINT64
               ? *MEMBER(const uint64_t, message, f->offset)
               : 0;
}

void *cli_get_part(const void *message, const char *field)
{
    const ProtobufCFieldDescriptor *f = find(message, field);
    if (f == NULL || f->type != PROTOBUF_C_TYPE_MESSAGE || f->label == PROTOBUF_C_LABEL_REPEATED) {
        return NULL;
    }
    return *MEMBER(void *const, message, f->offset);
}

void **cli_get_items(const void *message, size_t *count)
{
    const ProtobufCMessageDescriptor *descriptor = ((const ProtobufCMessage *)message)->descriptor;
    *count = 0;
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &descriptor->fields[i];
        if (f->label == PROTOBUF_C_LABEL_REPEATED && f->type == PROTOBUF_C_TYPE_MESSAGE) {
            *count = *MEMBER(const size_t, message, f->quantifier_offset);
            return *MEMBER(void **const, message, f->offset);
        }
    }
    return NULL;
}
