/* json.h -- pieces of the JSON mapping that both directions share; private to api/wire.
 *
 * Depends on: wire.h, path.h.  Threads: any.  Ownership: stated per function. */
#ifndef BATON_WIRE_JSON_H
#define BATON_WIRE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/wire/path.h"
#include "api/wire/wire.h"

enum json_special { JSON_PLAIN, JSON_TIMESTAMP, JSON_DURATION, JSON_ANY };

/* Whether the mapping has a form of its own for this type. */
enum json_special wire_json_special(const ProtobufCMessageDescriptor *type);

/* True for a field that protoc made of a map: repeated entries with 'key' = 1 and 'value' = 2 whose
 * type is named after the field.  protobuf-c keeps no mark of it. */
bool wire_json_is_map(const ProtobufCFieldDescriptor *field);

/* The member of 'message', and its count, has- or case-word. */
void *wire_json_member(const void *message, const ProtobufCFieldDescriptor *field);
void *wire_json_quantifier(const void *message, const ProtobufCFieldDescriptor *field);

/* Bytes of one value of this type inside a repeated field. */
size_t wire_json_element_bytes(ProtobufCType type);

/* "2026-11-29T22:41:07.123Z", "1.5s" with 0, 3, 6 or 9 digits of fraction; 'out' holds 48 bytes. */
enum { JSON_TIME_BYTES = 48 };
void wire_json_timestamp_text(int64_t seconds, int32_t nanos, char out[JSON_TIME_BYTES]);
void wire_json_duration_text(int64_t seconds, int32_t nanos, char out[JSON_TIME_BYTES]);
/* RFC 3339 with any offset, years 0001 to 9999; false if it is not one. */
bool wire_json_parse_timestamp(const char *text, int64_t *seconds, int32_t *nanos);
/* "1.5s", "-2s"; also "250ms", "5m", "2h" as people write them in files. */
bool wire_json_parse_duration(const char *text, int64_t *seconds, int32_t *nanos);

/* Standard base64 with padding.  The text is allocated with malloc; null if there is no memory. */
char *wire_json_base64(const uint8_t *data, size_t size);
/* Takes both alphabets, with or without padding.  'out' holds 3 * (length / 4 + 1) bytes. */
bool wire_json_parse_base64(const char *text, uint8_t *out, size_t *size);

/* The number that 'text' names in this enum: a value's name, or its name without the enum's prefix in
 * UpperCamelCase. */
bool wire_json_parse_enum(const ProtobufCEnumDescriptor *type, const char *text, int *out);

#endif /* json.h */
