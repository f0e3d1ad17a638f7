/* local_protocol_fuzz.c -- any bytes as a conversation: the codec never reads beyond, and what it takes
 * it writes again byte for byte. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/client/local_protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_again(const struct local_message *message, const uint8_t *frame, size_t size)
{
    static uint8_t again[LOCAL_MESSAGE_BYTES_MAX];
    size_t again_bytes = local_message_encode(message, again);
    bool is_data = message->kind == LOCAL_KIND_DATA;
    if (again_bytes != (is_data ? (size_t)LOCAL_HEADER_BYTES : size) ||
        memcmp(again, frame, again_bytes) != 0) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct local_message message;
    size_t at = 0;
    while (size - at >= LOCAL_HEADER_BYTES) {
        struct local_header header;
        struct baton_status st = local_header_decode(data + at, &header);
        if (!baton_ok(&st) || header.body_bytes > size - at - LOCAL_HEADER_BYTES) {
            return 0;
        }
        struct baton_bytes body = { data + at + LOCAL_HEADER_BYTES, header.body_bytes };
        st = local_message_decode(header.kind, body, &message);
        if (!baton_ok(&st)) {
            return 0;
        }
        check_again(&message, data + at, LOCAL_HEADER_BYTES + body.size);
        at += LOCAL_HEADER_BYTES + body.size;
    }
    return 0;
}
