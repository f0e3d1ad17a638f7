/* wire.h -- protobuf messages in and out: bytes, JSON, and the memory that they live in.
 *
 * The only way from foreign bytes to a generated message: a scan driven by the type's descriptor
 * bounds size, depth and memory and checks every string before protobuf-c sees a byte (protobuf-c
 * itself recurses without bound and takes any text).  A message that this header made lives in one
 * block chain: everything inside it is freed by one baton_wire_free() of the root.
 *
 * Not here: what a message means.  Range checks of fields belong to whoever handles the request.
 *
 * Depends on: api/base, protobuf-c, jansson.  Threads: any; a message belongs to one thread at a
 * time.  Ownership: stated per function; 'root' is always a message made by this header.
 *
 * 'message' and 'root' parameters are pointers to generated structs (Baton__V1__Model and so on);
 * they are void here so that callers need no cast. */
#ifndef BATON_WIRE_WIRE_H
#define BATON_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>

#include "api/base/bytes.h"
#include "api/base/limits.h"
#include "api/base/status.h"

struct baton_wire_limits {
    size_t bytes_max;   /* Of the encoded message. */
    size_t memory_max;  /* Of the decoded message with all its parts. */
    uint32_t depth_max; /* Messages inside messages; the root is 1. */
};

/* BATON_MESSAGE_BYTES_MAX, 16 times as much memory, BATON_MESSAGE_DEPTH_MAX. */
struct baton_wire_limits baton_wire_limits_default(void);

/* --- bytes --- */

/* Decodes 'bytes' as a message of 'type'.  'limits' may be null for the defaults.  On success '*out'
 * is a new root (free it with baton_wire_free); on failure it is untouched.
 *
 * INVALID_ARGUMENT MALFORMED: not this message; BAD_FIELD: a string that is not UTF-8 or has a zero
 * byte; RESOURCE_EXHAUSTED LIMIT: too large, too deep, too much memory.  The message names the path
 * of the field. */
BATON_MUST_USE struct baton_status baton_wire_decode(const ProtobufCMessageDescriptor *type,
                                                     struct baton_bytes bytes,
                                                     const struct baton_wire_limits *limits,
                                                     ProtobufCMessage **out);

/* Bytes that baton_wire_encode() writes for this message. */
size_t baton_wire_size(const void *message);

/* Writes the message to 'out', which must hold baton_wire_size(message) bytes; returns the size. */
size_t baton_wire_encode(const void *message, uint8_t *out);

/* Frees a root with all its parts; null is fine.  Never for a message on the stack. */
void baton_wire_free(void *root);

/* --- building --- */

/* A new empty message of 'type'.  These functions never return null: memory that the kernel refuses
 * ends the process, as the sizes here are bounded by what the callers build. */
void *baton_wire_new(const ProtobufCMessageDescriptor *type);

/* A new empty message that lives inside 'root'; for sub-messages. */
void *baton_wire_part(void *root, const ProtobufCMessageDescriptor *type);

/* 'count' zeroed records of 'size' bytes inside 'root'; for arrays of pointers and scalars. */
void *baton_wire_take(void *root, size_t count, size_t size);

/* Copies inside 'root'.  Texts may come from engines or were cut to fit: what is not UTF-8 is copied as '?',
 * since a receiver would refuse the whole message for it. */
char *baton_wire_text(void *root, const char *text);
BATON_PRINTF(2, 3) char *baton_wire_textf(void *root, const char *fmt, ...);
ProtobufCBinaryData baton_wire_bytes(void *root, const void *data, size_t size);

/* A deep copy as a new root. */
void *baton_wire_copy(const void *message);

/* --- time, uids, digests --- */

struct Google__Protobuf__Timestamp;
struct Google__Protobuf__Duration;

/* Wall time in nanoseconds since 1970 as a part of 'root'; 0 gives null (unset). */
struct Google__Protobuf__Timestamp *baton_wire_timestamp(void *root, uint64_t wall_ns);
struct Google__Protobuf__Duration *baton_wire_duration(void *root, uint64_t ns);

/* The reverse.  Unset gives 0.  'field' is named in the refusal (INVALID_ARGUMENT BAD_FIELD) of
 * negative or unnormalised values and of what does not fit. */
BATON_MUST_USE struct baton_status baton_wire_timestamp_ns(
    const struct Google__Protobuf__Timestamp *timestamp, const char *field, uint64_t *out);
BATON_MUST_USE struct baton_status baton_wire_duration_ns(
    const struct Google__Protobuf__Duration *duration, const char *field, uint64_t *out);

/* A uid or a digest as lower-case hexadecimal text inside 'root'. */
char *baton_wire_hex(void *root, const uint8_t *data, size_t size);

/* Reads such text into exactly 'size' bytes; BAD_FIELD names 'field'. */
BATON_MUST_USE struct baton_status baton_wire_from_hex(const char *text, const char *field,
                                                       uint8_t *out, size_t size);

/* --- JSON (the proto3 mapping) --- */

/* Any message as JSON: lowerCamelCase names, 64-bit integers as strings, bytes as base64, enums by
 * name, Timestamp as RFC 3339, Duration as "1.5s", maps as objects; fields without presence are left
 * out when they have their default.  '*out' is a new reference. */
BATON_MUST_USE struct baton_status baton_wire_to_json(const void *message, json_t **out);

/* JSON (or YAML that became json_t) as a new root of 'type'.  Field names are taken as lowerCamelCase
 * or as written in the proto; integers as number or string; text also as an integer; enums as value name, number, or the
 * short form without the prefix in UpperCamelCase ("OnPublish" for TRIGGER_ON_PUBLISH).  Unknown keys,
 * wrong types and values out of range are refused: INVALID_ARGUMENT BAD_FIELD, the message begins
 * with the path of the field ("update.maxUnavailable: ..."). */
BATON_MUST_USE struct baton_status baton_wire_from_json(const ProtobufCMessageDescriptor *type,
                                                        const json_t *json, ProtobufCMessage **out);

/* --- what this build knows --- */

/* By full proto name ("baton.v1.Model", "baton.v1.Models"); null if there is none. */
const ProtobufCMessageDescriptor *baton_wire_find_message(const char *full_name);
const ProtobufCServiceDescriptor *baton_wire_find_service(const char *full_name);

/* All message types, sorted by name. */
const ProtobufCMessageDescriptor *const *baton_wire_messages(size_t *count);
/* All services, sorted by name. */
const ProtobufCServiceDescriptor *const *baton_wire_services(size_t *count);

/* The encoded google.protobuf.FileDescriptorSet of all protos with their imports. */
struct baton_bytes baton_wire_descriptor_set(void);

#endif /* wire.h */
