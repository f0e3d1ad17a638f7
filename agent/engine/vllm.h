/* vllm.h -- internal to the adapter "vllm": its state, and the calls that its parts share.
 *
 * The adapter speaks the HTTP contract of vLLM in development mode, which tests/miniengine keeps too
 * (deploy/docs/engine-contract.md).  One file a subject: vllm_attach, vllm_pause, vllm_update, vllm_live,
 * vllm_reload, vllm_label; vllm.c holds the table.
 *
 * Depends on: api/base, engine.h, exchange.h, gate.h, probe.h, answer.h, guard.h.  Included by: vllm*.c.
 * Threads and ownership: as in engine.h. */
#ifndef AGENT_ENGINE_VLLM_H
#define AGENT_ENGINE_VLLM_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/engine/answer.h"
#include "agent/engine/engine.h"
#include "agent/engine/exchange.h"
#include "agent/engine/gate.h"
#include "agent/engine/guard.h"
#include "api/base/bytes.h"
#include "api/base/status.h"

/* What an attach found, for later operations to go by; 'way_in' NONE before the first. */
struct vllm_found {
    enum engine_way_in way_in;
    uint32_t world_size;
    bool checksums;   /* The worker method compute_weight_checksums exists (0.32 on). */
    bool external_kv; /* A KV connector is configured. */
    bool guarded;     /* The guard that answers is the one of our page. */
    bool initialised; /* init_weight_transfer_engine was answered by this incarnation. */
    char incarnation[BATON_UID_TEXT_BYTES];
};

struct engine {
    struct engine_options options;
    struct exchange exchange;
    struct engine_guard *guard; /* Null: advisory. */

    struct vllm_found found; /* By the last attach that succeeded. */
    char model[BATON_PATH_BYTES];

    struct answer_report report; /* Of the last report. */
};

/* POST /collective_rpc; 'kwargs' is JSON or null. */
struct baton_status vllm_rpc(struct engine *engine, const char *method, const char *kwargs,
                             uint64_t deadline_ns);
/* baton_report of all ranks into engine->report. */
struct baton_status vllm_report(struct engine *engine, uint64_t deadline_ns);

/* With several ranks: asks for something and then for nothing, and fails (ENGINE_LIED) if the second
 * answer is the first one's.  With one rank there is no channel that could lose step: OK. */
struct baton_status vllm_in_step(struct engine *engine, uint64_t deadline_ns);

/* After a call: an error of the server's own (5xx) with several ranks may be the sign of a channel out
 * of step, and may have put it there; returns that failure, else 'st'. */
struct baton_status vllm_refused(struct engine *engine, struct baton_status st,
                                 uint64_t deadline_ns);

/* Still the incarnation that was attached to?  ABORTED if not. */
struct baton_status vllm_same_life(struct engine *engine, uint64_t deadline_ns);
/* Server's instance id and backend. */
struct baton_status vllm_server(struct engine *engine, uint64_t deadline_ns,
                                struct answer_server *out);
struct baton_status vllm_is_paused(struct engine *engine, uint64_t deadline_ns, bool *out);

/* Never both "ok" and a failure: a caller that looks at one of them sees the truth. */
struct baton_status vllm_conclude(struct engine *engine, struct baton_status st, const char *what,
                                  struct engine_update *result);

/* The operations of the table. */
struct baton_status vllm_attach(struct engine *engine, uint64_t deadline_ns,
                                struct engine_facts *facts);
struct baton_status vllm_health(struct engine *engine, uint64_t deadline_ns,
                                struct engine_gate_state *state);
struct baton_status vllm_set_gate(struct engine *engine, const struct engine_gate_order *order,
                                  uint64_t deadline_ns, struct engine_gate_state *state);
struct baton_status vllm_raise_fence(struct engine *engine, const struct engine_fence *fence,
                                     uint64_t deadline_ns);
struct baton_status vllm_pause(struct engine *engine, enum engine_in_flight mode, bool clear_cache,
                               uint64_t deadline_ns);
struct baton_status vllm_update(struct engine *engine, const char *landing, const char *digest,
                                const struct engine_fence *fence, uint64_t deadline_ns,
                                struct engine_update *result);
struct baton_status vllm_prepare(struct engine *engine, const char *landing, const char *digest,
                                 const struct engine_fence *fence, uint64_t deadline_ns,
                                 struct engine_update *result);
struct baton_status vllm_swap_live(struct engine *engine, const char *digest,
                                   const struct engine_fence *fence, uint64_t deadline_ns,
                                   struct engine_update *result);
struct baton_status vllm_readback(struct engine *engine, const char *landing, const char *digest,
                                  uint64_t deadline_ns, struct engine_update *result);
struct baton_status vllm_invalidate(struct engine *engine, uint64_t deadline_ns);
struct baton_status vllm_label(struct engine *engine, const char *label, uint64_t deadline_ns);
struct baton_status vllm_resume(struct engine *engine, uint64_t deadline_ns);
struct baton_status vllm_probe(struct engine *engine, bool check_kv, uint64_t deadline_ns,
                               struct engine_probe *result);
struct baton_status vllm_continuation(struct engine *engine, const struct engine_prompt *prompt,
                                      uint64_t deadline_ns, double *logprobs);
struct baton_status vllm_warm(struct engine *engine, uint64_t deadline_ns);
struct baton_status vllm_sleep(struct engine *engine, uint64_t drain_ns, uint64_t deadline_ns);
struct baton_status vllm_wake(struct engine *engine, uint64_t deadline_ns);

/* The way in without the plug-in; 'result' is zeroed by the caller. */
struct baton_status vllm_reload(struct engine *engine, const char *landing, const char *digest,
                                uint64_t deadline_ns, struct engine_update *result);

#endif /* vllm.h */
