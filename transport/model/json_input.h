/* json_input.h -- reading foreign JSON strictly: bounded depth, no double keys, named fields.
 *
 * Depends on: api/base, jansson.  Allocates: not for cores.  Threads: any.
 * Ownership: json_input_parse() gives the caller a new reference (json_decref()). */
#ifndef TRANSPORT_MODEL_JSON_INPUT_H
#define TRANSPORT_MODEL_JSON_INPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/base/bytes.h"
#include "api/base/status.h"

/* Parses one JSON value that fills 'text' up to trailing white space.  Double keys, invalid UTF-8,
 * zero bytes in strings, and nesting deeper than 'depth_max' are refused, saying where. */
BATON_MUST_USE struct baton_status json_input_parse(struct baton_bytes text, unsigned depth_max,
                                                    json_t **out);

/* An integer in [0, INT64_MAX]; false for anything else, reals included. */
bool json_input_u64(const json_t *value, uint64_t *out);

/* The first key of 'object' that is not in 'known' (ended by a null), or null. */
const char *json_input_unknown_key(json_t *object, const char *const *known);

/* The text of a string value as a view; false for another type. */
bool json_input_text(const json_t *value, struct baton_bytes *out);

#endif /* json_input.h */
