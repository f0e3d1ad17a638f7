/* sglang.h -- internal to the adapter "sglang": its state, and the calls that its parts share.
 *
 * SGLang's own HTTP routes, release 0.5.23; what it was seen to answer is in tests/engines/sglang/traps_test.py.
 * One file a subject: sglang_attach, sglang_dialect, sglang_pause, sglang_update, sglang_label, sglang_sleep; what a
 * landing must be, and what its residents hash to, is in sglang_landing.h, answers in sglang_answer.h; sglang.c holds
 * the table.
 *
 * Depends on: api/base, engine.h, exchange.h, gate.h, probe.h, guard.h.  Included by: sglang*.c.
 * Threads and ownership: as in engine.h. */
#ifndef AGENT_ENGINE_SGLANG_H
#define AGENT_ENGINE_SGLANG_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/engine/engine.h"
#include "agent/engine/exchange.h"
#include "agent/engine/gate.h"
#include "agent/engine/guard.h"
#include "agent/engine/sglang_answer.h"
#include "api/base/status.h"

/* What an attach found, for later operations to go by; 'way_in' NONE before the first. */
struct sglang_found {
    enum engine_way_in way_in;
    struct sglang_server server;
    bool guarded; /* The guard that answers is the one of our page. */
    bool summed;  /* Residents can be verified: one rank, plain weights, sums of a known kind. */
    char incarnation[BATON_UID_TEXT_BYTES];
};

struct engine {
    struct engine_options options;
    struct exchange exchange;
    struct engine_guard *guard; /* Null: advisory. */
    struct sglang_found found;  /* By the last attach that succeeded. */
    /* The incarnation whose memory we released: to resume what was not released ends the server. */
    char asleep[BATON_UID_TEXT_BYTES];
};

/* GET /server_info: answered by the scheduler, so it also shows that that lives. */
struct baton_status sglang_server(struct engine *engine, uint64_t deadline_ns,
                                  struct sglang_server *out);
/* Still the incarnation that was attached to?  ABORTED if not. */
struct baton_status sglang_same_life(struct engine *engine, uint64_t deadline_ns);
/* By /ready, which says no of a pause at once.  It also says no after a failed /health. */
struct baton_status sglang_is_paused(struct engine *engine, uint64_t deadline_ns, bool *out);
/* A text of GET /model_info. */
struct baton_status sglang_model_info(struct engine *engine, const char *key, uint64_t deadline_ns,
                                      char *out, size_t out_bytes);
/* The failure without what looks like a path: SGLang's messages show the server's own. */
struct baton_status sglang_tell(struct baton_status st);

/* The operations of the table. */
struct baton_status sglang_attach(struct engine *engine, uint64_t deadline_ns,
                                  struct engine_facts *facts);
struct baton_status sglang_health(struct engine *engine, uint64_t deadline_ns,
                                  struct engine_gate_state *state);
struct baton_status sglang_pause(struct engine *engine, enum engine_in_flight mode,
                                 bool clear_cache, uint64_t deadline_ns);
struct baton_status sglang_resume(struct engine *engine, uint64_t deadline_ns);
struct baton_status sglang_invalidate(struct engine *engine, uint64_t deadline_ns);
struct baton_status sglang_update(struct engine *engine, const char *landing, const char *digest,
                                  const struct engine_fence *fence, uint64_t deadline_ns,
                                  struct engine_update *result);
struct baton_status sglang_readback(struct engine *engine, const char *landing, const char *digest,
                                    uint64_t deadline_ns, struct engine_update *result);
struct baton_status sglang_label(struct engine *engine, const char *label, uint64_t deadline_ns);
struct baton_status sglang_probe(struct engine *engine, bool check_kv, uint64_t deadline_ns,
                                 struct engine_probe *result);
struct baton_status sglang_continuation(struct engine *engine, const struct engine_prompt *prompt,
                                        uint64_t deadline_ns, double *logprobs);
struct baton_status sglang_warm(struct engine *engine, uint64_t deadline_ns);
struct baton_status sglang_sleep(struct engine *engine, uint64_t drain_ns, uint64_t deadline_ns);
struct baton_status sglang_wake(struct engine *engine, uint64_t deadline_ns);

#endif /* sglang.h */
