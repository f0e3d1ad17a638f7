/* sampler.h -- from logits to the next token, and the log-probabilities that are told.
 *
 * Log-probabilities are those of the model itself (before temperature, top-k and top-p), as vLLM
 * tells them.  Random choices come from the request's own seeded state.
 *
 * Depends on: request.h, kernels.h.  Threads: pure but for the request.  Ownership: none. */
#ifndef TESTS_MINIENGINE_SAMPLER_H
#define TESTS_MINIENGINE_SAMPLER_H

#include "tests/miniengine/request.h"

/* Chooses the next token of 'request' and appends it with its log-probabilities.  There must be
 * room (tokens_max).  False: out of memory. */
bool sampler_append(struct request *request, const float *logits, uint32_t vocab);

#endif /* sampler.h */
