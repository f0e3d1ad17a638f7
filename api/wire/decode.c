/* decode.c -- bytes to messages and back; see wire.h. */
#include <string.h>

#include "api/wire/memory.h"
#include "api/wire/scan.h"
#include "api/wire/wire.h"

/* Room beyond what the scan counted, for protobuf-c's scratch. */
enum { SCRATCH_BYTES = 256 };

struct baton_wire_limits baton_wire_limits_default(void)
{
    return (struct baton_wire_limits){
        .bytes_max = BATON_MESSAGE_BYTES_MAX,
        .memory_max = (size_t)BATON_MESSAGE_BYTES_MAX * 16,
        .depth_max = BATON_MESSAGE_DEPTH_MAX,
    };
}

static void *take(void *memory, size_t size)
{
    return wire_memory_take(memory, size);
}

static void give(void *memory, void *piece)
{
    wire_memory_give(memory, piece);
}

static struct baton_status too_much_memory(const ProtobufCMessageDescriptor *type,
                                           const struct baton_wire_limits *limits)
{
    return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                             "%s: needs more than %zu bytes of memory when decoded", type->name,
                             limits->memory_max);
}

/* Unpacks what the scan found good.  The first thing that protobuf-c takes is the root itself. */
static struct baton_status unpack(const ProtobufCMessageDescriptor *type, struct baton_bytes bytes,
                                  const struct baton_wire_limits *limits, size_t estimate,
                                  ProtobufCMessage **out)
{
    size_t first = estimate < limits->memory_max ? estimate : limits->memory_max;
    struct wire_memory *memory = wire_memory_create(first + SCRATCH_BYTES, limits->memory_max);
    if (memory == NULL) {
        return too_much_memory(type, limits);
    }
    ProtobufCAllocator allocator = { .alloc = take, .free = give, .allocator_data = memory };
    ProtobufCMessage *message = protobuf_c_message_unpack(type, &allocator, bytes.size, bytes.data);
    if (message == NULL) {
        bool exhausted = memory->exhausted;
        wire_memory_destroy(memory);
        return exhausted ? too_much_memory(type, limits)
                         : baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                             "%s: the bytes are not such a message", type->name);
    }
    baton_assert((void *)message == (void *)(memory + 1));
    *out = message;
    return baton_status_ok();
}

struct baton_status baton_wire_decode(const ProtobufCMessageDescriptor *type,
                                      struct baton_bytes bytes,
                                      const struct baton_wire_limits *limits,
                                      ProtobufCMessage **out)
{
    struct baton_wire_limits defaults = baton_wire_limits_default();
    limits = limits == NULL ? &defaults : limits;
    if (bytes.size > limits->bytes_max) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "%s: %zu bytes are more than the limit of %zu", type->name,
                                 bytes.size, limits->bytes_max);
    }
    size_t estimate = 0;
    struct baton_status st = wire_scan(type, bytes, limits->depth_max, &estimate);
    if (!baton_ok(&st)) {
        return st;
    }
    return unpack(type, bytes, limits, estimate, out);
}

size_t baton_wire_size(const void *message)
{
    return protobuf_c_message_get_packed_size(message);
}

size_t baton_wire_encode(const void *message, uint8_t *out)
{
    return protobuf_c_message_pack(message, out);
}

void baton_wire_free(void *root)
{
    if (root != NULL) {
        wire_memory_destroy(wire_memory_of(root));
    }
}
