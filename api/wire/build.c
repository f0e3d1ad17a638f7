/* build.c -- making messages by hand; see wire.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire/memory.h"
#include "api/wire/scan.h"
#include "api/wire/wire.h"

enum { FIRST_BYTES = 256 };

void *baton_wire_new(const ProtobufCMessageDescriptor *type)
{
    struct wire_memory *memory =
        wire_memory_create(type->sizeof_message + FIRST_BYTES, SIZE_MAX / 2);
    baton_assert(memory != NULL);
    ProtobufCMessage *message = wire_memory_take(memory, type->sizeof_message);
    baton_assert((void *)message == (void *)(memory + 1));
    protobuf_c_message_init(type, message);
    return message;
}

static void *take(void *root, size_t size)
{
    void *piece = wire_memory_take(wire_memory_of(root), size);
    baton_assert(piece != NULL);
    return piece;
}

void *baton_wire_part(void *root, const ProtobufCMessageDescriptor *type)
{
    void *part = take(root, type->sizeof_message);
    protobuf_c_message_init(type, part);
    return part;
}

void *baton_wire_take(void *root, size_t count, size_t size)
{
    baton_assert(size == 0 || count <= SIZE_MAX / 4 / size);
    void *piece = take(root, count * size);
    memset(piece, 0, count * size);
    return piece;
}

char *baton_wire_text(void *root, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = take(root, size);
    memcpy(copy, text, size);
    wire_text_clean(copy);
    return copy;
}

char *baton_wire_textf(void *root, const char *fmt, ...)
{
    va_list args;
    va_list again;
    va_start(args, fmt);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    baton_assert(length >= 0);
    char *text = take(root, (size_t)length + 1);
    (void)vsnprintf(text, (size_t)length + 1, fmt, again);
    va_end(again);
    wire_text_clean(text);
    return text;
}

ProtobufCBinaryData baton_wire_bytes(void *root, const void *data, size_t size)
{
    ProtobufCBinaryData bytes = { .len = size, .data = NULL };
    if (size > 0) {
        bytes.data = take(root, size);
        memcpy(bytes.data, data, size);
    }
    return bytes;
}

char *baton_wire_hex(void *root, const uint8_t *data, size_t size)
{
    char *text = take(root, 2 * size + 1);
    baton_hex_encode(data, size, text);
    return text;
}

struct baton_status baton_wire_from_hex(const char *text, const char *field, uint8_t *out,
                                        size_t size)
{
    if (text == NULL || !baton_hex_decode(text, out, size)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "%s: must be %zu hexadecimal digits", field, 2 * size);
    }
    return baton_status_ok();
}

void *baton_wire_copy(const void *message)
{
    const ProtobufCMessage *source = message;
    size_t size = baton_wire_size(message);
    uint8_t *bytes = malloc(size > 0 ? size : 1);
    baton_assert(bytes != NULL);
    baton_wire_encode(message, bytes);
    struct baton_wire_limits limits = { .bytes_max = SIZE_MAX,
                                        .memory_max = SIZE_MAX / 4,
                                        .depth_max = BATON_MESSAGE_DEPTH_MAX };
    ProtobufCMessage *copy = NULL;
    struct baton_status st =
        baton_wire_decode(source->descriptor, (struct baton_bytes){ bytes, size }, &limits, &copy);
    free(bytes);
    baton_assert(baton_ok(&st)); /* Only what we built ourselves or checked on the way in. */
    return copy;
}
