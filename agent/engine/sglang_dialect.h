/* sglang_dialect.h -- the ways in which SGLang servers of different makes take new weights.
 *
 * A table, each row with where it was found, and why Baton does not drive it where it does not.  Pure: an answer of
 * /openapi.json in, a row out.
 *
 * Depends on: sglang_answer.h.  Threads: values only. */
#ifndef AGENT_ENGINE_SGLANG_DIALECT_H
#define AGENT_ENGINE_SGLANG_DIALECT_H

#include <stdbool.h>
#include <stddef.h>

#include "api/base/bytes.h"

enum { SGLANG_DIALECT_ROUTES_MAX = 4 };

struct sglang_dialect {
    const char *name;
    const char *routes[SGLANG_DIALECT_ROUTES_MAX]; /* All must be there; ends with null. */
    const char *lacks;                             /* A route that a newer form has; may be null. */
    const char *why_not;                           /* Null: Baton drives it. */
    const char *source;                            /* Where it was seen. */
};

/* The rows; '*count' is set. */
const struct sglang_dialect *sglang_dialects(size_t *count);
/* Does a server with these routes speak it? */
bool sglang_dialect_fits(const struct sglang_dialect *dialect, struct baton_bytes openapi);
/* Puts into 'reason' which dialects are there, and why the others than the one returned are not used.
 * Null: none that Baton drives. */
const struct sglang_dialect *sglang_dialect_choose(struct baton_bytes openapi, char *reason,
                                                   size_t reason_bytes);

#endif /* sglang_dialect.h */
