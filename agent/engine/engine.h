/* engine.h -- what the agent asks of one serving engine, whatever its kind.
 *
 * An adapter (vllm, sglang) fills the table of operations.  Each operation blocks on its caller's worker
 * thread, never longer than 'deadline_ns' (monotonic), and reports what was *read back*: a 200 alone
 * proves nothing (deploy/docs/engine-contract.md).  After an operation that may have changed the
 * engine got no answer, 'answered' is false: the caller must treat the engine's state as unknown.
 *
 * It decides nothing: order, retries, restore and recreate are agent/core's.
 *
 * Depends on: api/base, guard_page.h.
 * Threads: one operation at a time for each engine; engine_abort() may be called from any thread.
 * Ownership: strings in results live inside the result; the adapter keeps copies of its options. */
#ifndef AGENT_ENGINE_ENGINE_H
#define AGENT_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/engine/guard_page.h"
#include "api/base/limits.h"
#include "api/base/status.h"

enum engine_way_in {
    ENGINE_WAY_IN_NONE = 0,
    ENGINE_WAY_IN_PLUGIN, /* The 'baton' weight-transfer backend. */
    ENGINE_WAY_IN_RELOAD, /* The engine's own reload, from the landing. */
};

enum engine_level {
    ENGINE_LEVEL_NONE = 0,
    ENGINE_LEVEL_LANDED,
    ENGINE_LEVEL_COPIED,
    ENGINE_LEVEL_RESIDENT,
};

enum engine_in_flight { ENGINE_IN_FLIGHT_KEEP, ENGINE_IN_FLIGHT_WAIT, ENGINE_IN_FLIGHT_ABORT };

/* Compared member by member in this order; see design 3, rule 2. */
struct engine_fence {
    uint64_t generation;
    uint64_t n;
    uint64_t owner_term;
    uint64_t ticket;
    uint64_t step;
};

struct engine_options {
    char name[BATON_NAME_BYTES];
    char url[BATON_PATH_BYTES];          /* "http://127.0.0.1:8000" */
    char guard_page[BATON_PATH_BYTES];   /* Empty: no guard is expected (advisory). */
    char token_file[BATON_PATH_BYTES];   /* Empty: none. */
    char served_model[BATON_PATH_BYTES]; /* For probes; empty: asked from /v1/models. */
};

/* What attach found. */
struct engine_facts {
    char software[BATON_NAME_BYTES]; /* "0.32.0" */
    char incarnation
        [BATON_UID_TEXT_BYTES]; /* The guard's bootId; without a page, the server's instance id. */
    uint64_t boots;
    uint32_t world_size;
    uint32_t ranks_all; /* With those of data-parallel replicas inside the engine. */
    enum engine_way_in way_in;
    char way_in_reason[BATON_TEXT_BYTES];
    bool guarded;
    bool salt;                          /* The guard salts requests by version. */
    bool sleep_mode;                    /* It can release its memory. */
    bool external_kv;                   /* KV leaves the engine: a connector is configured. */
    bool compiled_on_cpu;               /* Its compiled code may hold packed weights of its own. */
    bool named_by_path;                 /* Clients call its model by the directory of its start. */
    bool live;                          /* It takes prepare and swap_live. */
    char live_reason[BATON_TEXT_BYTES]; /* Why it does or does not. */
    enum guard_gate gate;               /* As the guard reads it. */
    char label[BATON_TEXT_BYTES];       /* "-": it has none. */
    bool paused;
    bool sleeping;
    bool session_open;         /* A weight update was begun and not finished. */
    struct engine_fence fence; /* Highest that all ranks have seen. */
    char resident_digest
        [BATON_DIGEST_TEXT_BYTES]; /* Last verified by the engine itself; empty: none. */
    enum engine_level level;
};

/* One engine's part of a weight update or a read-back. */
struct engine_update {
    bool answered; /* False: a mutating call got no answer. */
    bool ok;       /* All ranks: resident is 'digest'. */
    bool restored; /* Not ok, and every rank put its old tensors back. */
    bool in_step;  /* False: answers or ranks belong to other calls; recreate the engine. */
    enum engine_level level;
    char error_code[BATON_NAME_BYTES]; /* As in engine-contract.md; empty when ok. */
    char error_tensor[BATON_TENSOR_NAME_BYTES];
    int32_t error_rank; /* -1: none. */
    uint64_t stage_ns;
    uint64_t load_ns;
    uint64_t finalize_ns;
    uint64_t verify_ns;
};

struct engine_probe {
    bool ok;
    uint64_t version; /* x-baton-version of the answer; 0: none. */
    uint32_t tokens_count;
    double logprob_sum;
    char text[BATON_TEXT_BYTES];
};

/* Token ids, and how many tokens should follow. */
struct engine_prompt {
    const uint32_t *ids;
    uint32_t ids_count;
    uint32_t tokens;
};

struct engine_gate_state {
    enum guard_gate gate; /* As the guard itself answered, not as the page was written. */
    uint64_t boots;
    char incarnation[BATON_UID_TEXT_BYTES];
    uint64_t version;
    bool salt;
    uint32_t held;
    uint32_t active;
};

struct engine_gate_order {
    enum guard_gate gate;
    uint64_t version;
    uint64_t boots; /* The incarnation that it is for. */
    uint32_t hold_max;
    uint64_t hold_ms;
    bool salt; /* Each request gets a cache salt of the version. */
};

struct engine;

/* An adapter.  All operations: a status that is not OK says what was not done or not confirmed; the
 * result is written as far as it is known. */
struct engine_adapter {
    const char *kind;
    struct baton_status (*open)(const struct engine_options *options, struct engine **out);
    void (*close)(struct engine *engine);
    /* Reachable?  Which incarnation, which capabilities, what state.  Changes nothing.  One that fails
     * leaves later operations to go by what the last good one found. */
    struct baton_status (*attach)(struct engine *engine, uint64_t deadline_ns,
                                  struct engine_facts *facts);
    /* Cheap liveness and incarnation check.  Changes nothing. */
    struct baton_status (*health)(struct engine *engine, uint64_t deadline_ns,
                                  struct engine_gate_state *state);
    /* Writes the gate into the page and reads it back through the guard.  The page is written even where
     * the read-back then fails.  UNIMPLEMENTED: the engine has no page. */
    struct baton_status (*set_gate)(struct engine *engine, const struct engine_gate_order *order,
                                    uint64_t deadline_ns, struct engine_gate_state *state);
    /* Raises the fence on all ranks; confirmed by their report. */
    struct baton_status (*raise_fence)(struct engine *engine, const struct engine_fence *fence,
                                       uint64_t deadline_ns);
    /* Pauses; under WAIT drains.  OK only if read back as paused (and, under WAIT, drained).
     * 'clear_cache' drops KV together with the pause.  After DEADLINE_EXCEEDED the pause may be in
     * force ('hint' says what was read back).  Under ABORT, too, nobody may be left behind the guard.  With several ranks their channel is tried first:
     * ENGINE_LIED means that it is out of step (recreate) or that the engine is not paused. */
    struct baton_status (*pause)(struct engine *engine, enum engine_in_flight mode,
                                 bool clear_cache, uint64_t deadline_ns);
    /* Brings the version in 'landing' into the paused engine and verifies it there.  'fence' is not
     * below the one that was raised last, and no earlier update had it: reports of ranks are told
     * apart by it. */
    struct baton_status (*update)(struct engine *engine, const char *landing, const char *digest,
                                  const struct engine_fence *fence, uint64_t deadline_ns,
                                  struct engine_update *result);
    /* Has every rank hold the version in 'landing' beside the one that it serves, checked, for
     * swap_live.  The engine serves on; no weight is touched.  OK: all ranks hold it under 'fence'. */
    struct baton_status (*prepare)(struct engine *engine, const char *landing, const char *digest,
                                   const struct engine_fence *fence, uint64_t deadline_ns,
                                   struct engine_update *result);
    /* Makes what was prepared resident, in one call between two steps of the serving engine: all ranks
     * do or none does.  'fence' is one of the same ticket, above that of prepare.  Not OK and
     * 'restored': all ranks are as before; an engine that can be neither ends its process. */
    struct baton_status (*swap_live)(struct engine *engine, const char *digest,
                                     const struct engine_fence *fence, uint64_t deadline_ns,
                                     struct engine_update *result);
    /* Compares the resident weights with 'landing'.  Changes nothing. */
    struct baton_status (*readback)(struct engine *engine, const char *landing, const char *digest,
                                    uint64_t deadline_ns, struct engine_update *result);
    /* Drops all KV and prefix caches; OK only if the engine confirmed it. */
    struct baton_status (*invalidate)(struct engine *engine, uint64_t deadline_ns);
    /* Writes the label and reads it back.  UNIMPLEMENTED: the engine has no labels. */
    struct baton_status (*label)(struct engine *engine, const char *label, uint64_t deadline_ns);
    /* Resumes; OK only if read back as not paused. */
    struct baton_status (*resume)(struct engine *engine, uint64_t deadline_ns);
    /* One greedy generation with the token, under a fresh cache salt.  'check_kv': and a long prompt
     * twice, under a fresh salt and without one; ENGINE_LIED if their log-probabilities differ, since
     * then KV of other weights was found.  Shows it for sure only after warm(). */
    struct baton_status (*probe)(struct engine *engine, bool check_kv, uint64_t deadline_ns,
                                 struct engine_probe *result);
    /* The log-probabilities of the tokens that follow the prompt greedily, with the token and under a
     * fresh cache salt. */
    struct baton_status (*continuation)(struct engine *engine, const struct engine_prompt *prompt,
                                        uint64_t deadline_ns, double *logprobs);
    /* Through the open gate as everybody: leaves the long prompt of probe() in the prefix cache. */
    struct baton_status (*warm)(struct engine *engine, uint64_t deadline_ns);
    /* Waits up to 'drain_ns' for requests inside, then releases weights and KV: they are gone.  OK only if
     * read back as asleep, with nobody behind a shut guard.  FAILED_PRECONDITION: it was started without sleep
     * mode, and would only say so; or without a guard, and would serve what is left after a wake. */
    struct baton_status (*sleep)(struct engine *engine, uint64_t drain_ns, uint64_t deadline_ns);
    /* Memory again, with weights that count for nothing; OK only if read back as awake.  Of one that is
     * awake nothing changes, but that it is not paused. */
    struct baton_status (*wake)(struct engine *engine, uint64_t deadline_ns);
    /* Ends the operation under way, which then returns CANCELLED.  Any thread. */
    void (*abort)(struct engine *engine);
};

/* The adapter of this kind ("vllm", "sglang"), or null. */
const struct engine_adapter *engine_adapter_find(const char *kind);

#endif /* engine.h */
