/* op.h -- operations on one engine: what the core asks for and what came back.
 *
 * Mirrors the table in agent/engine/engine.h, which a core does not include; the shell maps one to
 * one.  An operation runs on a worker thread of the shell, at most one at a time for each engine.
 *
 * Depends on: swap.h.  Threads: values only.  Ownership: texts live inside the structs. */
#ifndef AGENT_CORE_OP_H
#define AGENT_CORE_OP_H

#include "agent/core/swap.h"
#include "api/base/status.h"

/* An engine of the agent: indexes into agent_config. */
struct agent_engine_id {
    uint32_t group;
    uint32_t engine;
};

enum agent_op_kind {
    AGENT_OP_NONE = 0,
    AGENT_OP_ATTACH,
    AGENT_OP_HEALTH,
    AGENT_OP_SET_GATE,
    AGENT_OP_RAISE_FENCE,
    AGENT_OP_PAUSE, /* With clear_cache false: KV is dropped by INVALIDATE, after INTENT. */
    AGENT_OP_UPDATE,
    AGENT_OP_READBACK,
    AGENT_OP_INVALIDATE,
    AGENT_OP_LABEL,
    AGENT_OP_RESUME,
    AGENT_OP_PROBE,
    AGENT_OP_WARM,  /* Leaves a known prefix in the cache, made with the old weights, for PROBE. */
    AGENT_OP_SLEEP, /* Drains, then releases weights and KV; read back. */
    AGENT_OP_WAKE,  /* Memory again; what it holds counts for nothing. */
    AGENT_OP_PREPARE, /* All ranks hold a landed version beside the one that serves, checked. */
    AGENT_OP_LIVE, /* What was prepared becomes resident on all ranks between two steps, or nothing
                       * does; an engine that could end between the two ends itself. */
};

/* Same members as guard_gate. */
enum agent_gate {
    AGENT_GATE_SHUT = 0,
    AGENT_GATE_OPEN = 1,
    AGENT_GATE_HOLD = 2,
};

/* Same members as engine_way_in. */
enum agent_way_in {
    AGENT_WAY_IN_NONE = 0,
    AGENT_WAY_IN_PLUGIN,
    AGENT_WAY_IN_RELOAD,
};

/* Compared member by member in this order. */
struct agent_fence {
    struct agent_epoch epoch;
    uint64_t owner_term;
    uint64_t ticket;
    uint64_t step;
};

/* One operation to be done; only the members that its kind names are set. */
struct agent_op {
    uint64_t id; /* Never reused within the life of a core. */
    struct agent_engine_id engine;
    enum agent_op_kind kind;
    uint64_t deadline_ns; /* Absolute, of the clock of the events. */

    enum agent_gate gate; /* SET_GATE. */
    uint64_t gate_version;
    uint64_t gate_boots;
    uint32_t hold_max;
    uint64_t hold_ms;
    bool salt;                            /* Requests get the version's cache salt. */
    bool check_kv;                        /* PROBE: old KV must not be found. */
    enum agent_in_flight in_flight;       /* PAUSE. */
    uint64_t drain_ns;                    /* SLEEP: the longest drain; then an abort. */
    char digest[BATON_DIGEST_TEXT_BYTES]; /* UPDATE, READBACK, PREPARE, LIVE: a landed version. */
    struct agent_fence fence;             /* RAISE_FENCE, UPDATE, PREPARE, LIVE. */
    char label[BATON_NAME_BYTES];         /* LABEL. */
};

/* Of ATTACH; HEALTH and SET_GATE fill the members up to 'active'. */
struct agent_engine_facts {
    char incarnation[BATON_UID_TEXT_BYTES];
    uint64_t boots;
    enum agent_gate gate; /* As the guard reads it. */
    uint64_t gate_version;
    bool salt; /* As the guard reads it. */
    uint32_t held;
    uint32_t active;

    char software[BATON_NAME_BYTES];
    uint32_t world_size;
    enum agent_way_in way_in;
    char way_in_reason[BATON_TEXT_BYTES];
    bool guarded;
    bool external_kv;                   /* It has a KV tier outside of itself. */
    bool live;                          /* It takes PREPARE and LIVE. */
    char live_reason[BATON_TEXT_BYTES]; /* Why it does or does not. */
    char label[BATON_TEXT_BYTES];
    bool paused;
    struct agent_fence fence;
    char resident_digest[BATON_DIGEST_TEXT_BYTES];
    enum agent_level level;
};

/* Of UPDATE, READBACK, PREPARE (ok: prepared) and LIVE; as engine_update. */
struct agent_update_result {
    bool ok;
    bool restored;
    bool in_step; /* False: answers belong to other calls; the engine must be recreated. */
    enum agent_level level;
    uint64_t stage_ns;
    uint64_t load_ns;
    uint64_t finalize_ns;
    uint64_t verify_ns;
};

/* Of PROBE. */
struct agent_probe_result {
    bool ok;
    uint32_t references; /* Of the version's, asked; 0: it has none. */
    uint32_t references_missed;
    double reference_away;                    /* The largest difference of a log-probability. */
    char reference_message[BATON_TEXT_BYTES]; /* Of the first that was missed. */
    double logprob_sum;
    char text[BATON_TEXT_BYTES];
};

/* How an operation ended.  'facts', 'update', 'probe' count for their kinds only. */
struct agent_op_result {
    uint64_t id;
    struct agent_engine_id engine;
    struct baton_status status; /* UNIMPLEMENTED: the engine has no such thing. */
    bool answered;              /* False: a call was sent and its effect is unknown. */
    uint64_t started_ns;        /* On the worker; for the swap's record. */
    uint64_t ended_ns;
    struct agent_engine_facts facts;
    struct agent_update_result update;
    struct agent_probe_result probe;
};

/* "SET_GATE", "UPDATE". */
const char *agent_op_name(enum agent_op_kind kind);

/* True if it may change weights, KV or the label (design 3, rule 1). */
bool agent_op_is_mutating(enum agent_op_kind kind);

#endif /* op.h */
