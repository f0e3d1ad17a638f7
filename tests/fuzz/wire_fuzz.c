/* wire_fuzz.c -- any bytes as any message type of the build, and as JSON of it.
 *
 * The first byte picks the type, the second the way in.  What decodes is written again: the second
 * encoding must equal the first, and its JSON must be written without a fault. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct encoded {
    uint8_t *data;
    size_t size;
};

static struct encoded encode(const void *message)
{
    struct encoded out = { .size = baton_wire_size(message) };
    out.data = malloc(out.size + 1);
    if (out.data == NULL || baton_wire_encode(message, out.data) != out.size) {
        abort();
    }
    return out;
}

static void check_message(ProtobufCMessage *message)
{
    struct encoded first = encode(message);
    struct baton_wire_limits limits = baton_wire_limits_default();
    limits.bytes_max = SIZE_MAX; /* Packed numbers may grow when they are written again. */
    limits.memory_max = SIZE_MAX / 4;
    ProtobufCMessage *again = NULL;
    struct baton_status st = baton_wire_decode(
        message->descriptor, (struct baton_bytes){ first.data, first.size }, &limits, &again);
    if (!baton_ok(&st)) {
        abort();
    }
    struct encoded second = encode(again);
    if (second.size != first.size || memcmp(second.data, first.data, first.size) != 0) {
        abort();
    }
    free(first.data);
    free(second.data);
    baton_wire_free(again);
    json_t *json = NULL;
    st = baton_wire_to_json(message, &json);
    if (!baton_ok(&st)) {
        abort();
    }
    json_decref(json);
}

static struct baton_status from_text(const ProtobufCMessageDescriptor *type,
                                     struct baton_bytes text, ProtobufCMessage **out)
{
    json_t *json =
        json_loadb((const char *)text.data, text.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (json == NULL) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED, "no JSON");
    }
    struct baton_status st = baton_wire_from_json(type, json, out);
    json_decref(json);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    size_t count;
    const ProtobufCMessageDescriptor *const *types = baton_wire_messages(&count);
    const ProtobufCMessageDescriptor *type = types[data[0] % count];
    struct baton_bytes rest = { data + 2, size - 2 };
    ProtobufCMessage *message = NULL;
    struct baton_status st = data[1] % 2 == 0 ? baton_wire_decode(type, rest, NULL, &message)
                                              : from_text(type, rest, &message);
    if (baton_ok(&st)) {
        check_message(message);
    }
    baton_wire_free(message);
    return 0;
}
