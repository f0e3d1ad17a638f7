/* probe.h -- what an engine makes of its weights: completions over /v1/completions, which all adapters share.
 *
 * Requests carry the agent's token and a cache salt of their own, but for probe_warm().  What each is for: the
 * operations probe, continuation and warm of engine.h.
 *
 * Depends on: exchange.h, answer.h, jansson.  Threads and ownership: the exchange's. */
#ifndef AGENT_ENGINE_PROBE_H
#define AGENT_ENGINE_PROBE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/engine/engine.h"
#include "agent/engine/exchange.h"
#include "api/base/status.h"

/* Sends 'root' and releases it; null, or a text in it that is not UTF-8, is INVALID_ARGUMENT. */
BATON_MUST_USE struct baton_status probe_post(struct exchange *exchange, const char *path,
                                              json_t *root, uint64_t deadline_ns);

/* 'model' is the name that the engine serves under. */
BATON_MUST_USE struct baton_status probe_run(struct exchange *exchange, const char *model,
                                             bool check_kv, uint64_t deadline_ns,
                                             struct engine_probe *result);
BATON_MUST_USE struct baton_status probe_continuation(struct exchange *exchange, const char *model,
                                                      const struct engine_prompt *prompt,
                                                      uint64_t deadline_ns, double *logprobs);
BATON_MUST_USE struct baton_status probe_warm(struct exchange *exchange, const char *model,
                                              uint64_t deadline_ns);

#endif /* probe.h */
