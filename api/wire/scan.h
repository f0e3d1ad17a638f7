/* scan.h -- checks encoded bytes against a type before protobuf-c may see them; private to api/wire.
 *
 * Depends on: api/base, protobuf-c.  Threads: any.  Ownership: all borrowed. */
#ifndef BATON_WIRE_SCAN_H
#define BATON_WIRE_SCAN_H

#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "api/base/bytes.h"
#include "api/base/status.h"

/* True for UTF-8 (RFC 3629: shortest form, no surrogates) without a zero byte. */
bool wire_text_is_valid(struct baton_bytes text);

/* Makes it so: what is no UTF-8 becomes '?'; a character that is cut at the end goes. */
void wire_text_clean(char *text);

/* Checks tags, lengths, wire types, depth and strings of all fields that 'type' knows.  '*memory' is
 * about what the decoded message takes. */
BATON_MUST_USE struct baton_status wire_scan(const ProtobufCMessageDescriptor *type,
                                             struct baton_bytes bytes, uint32_t depth_max,
                                             size_t *memory);

#endif /* scan.h */
