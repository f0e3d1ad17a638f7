/* sglang_landing.h -- whether a landing may be shown to an SGLang server at all, and what its residents then hash to.
 *
 * A file that ends early, and a tensor of another shape, end the server; a tensor that is missing is not noticed.  So
 * everything is looked at here first: headers, sizes, the manifest, every byte against its digests, and the layout
 * against the checkpoint that the server serves now.
 *
 * Depends on: api/base, api/http (an abort), transport/model, sglang_answer.h.  Does I/O.  Threads: an object belongs to one thread.
 * Ownership: sglang_landing_open/close. */
#ifndef AGENT_ENGINE_SGLANG_LANDING_H
#define AGENT_ENGINE_SGLANG_LANDING_H

#include <stdint.h>

#include "api/base/bytes.h"
#include "api/base/limits.h"
#include "api/base/status.h"
#include "api/http/http.h"

struct sglang_landing;

/* Bytes of tens of GB are read: until when, and who may end it. */
struct sglang_limit {
    uint64_t deadline_ns;    /* Monotonic. */
    const struct http *http; /* Its http_abort() ends the reading, too; null: nobody's. */
};

/* What is wrong, by the error codes of deploy/docs/engine-contract.md. */
struct sglang_fault {
    char code[BATON_NAME_BYTES];
    char tensor[BATON_TENSOR_NAME_BYTES]; /* Empty: not of one tensor. */
};

/* Opens 'path' and checks everything that it says of itself: 'digest' is the version that it must hold.
 * 'fault' is written where the status is not OK.  'limit' holds for the comparison, too: past it,
 * DEADLINE_EXCEEDED or CANCELLED, which says nothing of the landing. */
BATON_MUST_USE struct baton_status sglang_landing_open(const char *path, const char *digest,
                                                       const struct sglang_limit *limit,
                                                       struct sglang_landing **out,
                                                       struct sglang_fault *fault);
void sglang_landing_close(struct sglang_landing *landing);

/* Has it the tensors, dtypes and shapes of the checkpoint at 'serving'?  A path that cannot be read here
 * is a refusal, too: then nobody knows what the model consists of. */
BATON_MUST_USE struct baton_status sglang_landing_fits(const struct sglang_landing *landing,
                                                       const char *serving,
                                                       struct sglang_fault *fault);

/* Compares what /weights_checker answered with the landing's bytes.  OK: every tensor of the engine is
 * made of the landing's, and every one of the landing's is in it.  DATA_LOSS (ENGINE_LIED): one differs,
 * 'fault' names it.  UNIMPLEMENTED: none differs of those that could be compared, but one is of a name
 * that is not known here, or one of the landing's is told of nowhere. */
BATON_MUST_USE struct baton_status sglang_landing_compare(const struct sglang_landing *landing,
                                                          struct baton_bytes answer,
                                                          struct sglang_fault *fault);

#endif /* sglang_landing.h */
