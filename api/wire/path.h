/* path.h -- where in a message an error is; private to api/wire.
 *
 * A path is a chain of stack records from a field up to the root, turned into text only when an
 * error needs it: "spec.update.maxUnavailable", "groups[3].name".
 *
 * Depends on: api/base.  Threads: any.  Ownership: records on the callers' stacks. */
#ifndef BATON_WIRE_PATH_H
#define BATON_WIRE_PATH_H

#include <stddef.h>

#include "api/base/status.h"

enum { WIRE_PATH_BYTES = 200, WIRE_NAME_BYTES = 96 };

struct wire_path {
    const struct wire_path *up; /* Null at the root. */
    const char *name;           /* As in the proto; null for the root. */
    const char *key;            /* Of a map entry; else null. */
    size_t index;               /* Of an element + 1; 0: the field itself. */
};

/* "max_unavailable" as "maxUnavailable"; cut if it does not fit. */
void wire_camel(const char *name, char *out, size_t out_bytes);

/* The path as text; a long one is cut at its front. */
void wire_path_text(const struct wire_path *path, char out[WIRE_PATH_BYTES]);

/* A refusal that begins with the path; without path with 'type'. */
BATON_MUST_USE BATON_PRINTF(5, 6) struct baton_status
    wire_path_status(const struct wire_path *path, const char *type, enum baton_code code,
                     enum baton_reason reason, const char *fmt, ...);

#endif /* path.h */
