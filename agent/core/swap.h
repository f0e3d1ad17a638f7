/* swap.h -- the words of a swap: versions, tickets, how they end, and where the time went.
 *
 * Plain values, mirrored from baton.v1 (rolls.proto, fleet.proto); the shell translates.  Nothing
 * here decides anything.
 *
 * Depends on: api/base.  Threads: values only.  Ownership: none. */
#ifndef AGENT_CORE_SWAP_H
#define AGENT_CORE_SWAP_H

#include <stdbool.h>
#include <stdint.h>

#include "api/base/limits.h"

/* The controller's leadership; compared generation first. */
struct agent_epoch {
    uint64_t generation;
    uint64_t n;
};

/* A published version; seq 0 and an empty digest: none. */
struct agent_version {
    uint64_t seq;
    char digest[BATON_DIGEST_TEXT_BYTES];
};

/* Same members as engine_in_flight. */
enum agent_in_flight {
    AGENT_IN_FLIGHT_KEEP,
    AGENT_IN_FLIGHT_WAIT,
    AGENT_IN_FLIGHT_ABORT,
};

/* What becomes of a drain that takes too long. */
enum agent_drain_expiry {
    AGENT_DRAIN_GIVE_UP, /* The swap gives up; the old version serves on. */
    AGENT_DRAIN_ABORT,   /* Those that are left end with what they have. */
    AGENT_DRAIN_KEEP,    /* Those that are left freeze and go on under the new version. */
};

/* What becomes of KV that the old weights made. */
enum agent_kv {
    AGENT_KV_FLUSH, /* Dropped, and it is tried that it is gone. */
    AGENT_KV_SALT, /* Stays, and is never matched: each version's requests have a salt of its own. */
    AGENT_KV_KEEP, /* Is used on. */
};

/* What becomes of requests that arrive during a swap. */
enum agent_arrivals {
    AGENT_ARRIVALS_HOLD,
    AGENT_ARRIVALS_REFUSE,
};

/* How far resident weights were verified; same order as engine_level, weakest first. */
enum agent_level {
    AGENT_LEVEL_NONE = 0,
    AGENT_LEVEL_LANDED,
    AGENT_LEVEL_COPIED,
    AGENT_LEVEL_RESIDENT,
};

/* When a hook is called: before the gates close, and when they are about to open. */
enum agent_hook_when { AGENT_HOOK_BEFORE_PAUSE, AGENT_HOOK_AFTER_PROBE };

/* A router that wants to know; it answers 2xx within the deadline. */
struct agent_hook {
    enum agent_hook_when when;
    char url[BATON_HOOK_URL_BYTES];
    uint64_t deadline_ns;
};

/* Where a group stands in the barrier of its open ticket; same numbers as baton.v1.BarrierStand. */
enum agent_barrier_stand {
    AGENT_BARRIER_STAND_NONE = 0,
    AGENT_BARRIER_STAND_SHUT = 1,      /* Promised: it opens only by an order. */
    AGENT_BARRIER_STAND_GOING = 2,     /* GO is durable. */
    AGENT_BARRIER_STAND_COMMITTED = 3, /* It waits for OPEN. */
};

/* What the controller says to the groups of a barrier; same numbers as baton.v1.BarrierWord. */
enum agent_barrier_word {
    AGENT_BARRIER_WORD_NONE = 0,
    AGENT_BARRIER_WORD_GO = 1,     /* Enough groups are shut: swap. */
    AGENT_BARRIER_WORD_CANCEL = 2, /* They are not: serve the old version again. */
    AGENT_BARRIER_WORD_OPEN = 3,   /* All that go committed: open. */
};

enum { AGENT_UNREADABLE_BYTES = 128 };

/* How the swap is to be done; fixed when the ticket was stored. */
struct agent_policy {
    enum agent_in_flight in_flight;
    enum agent_arrivals arrivals;
    uint64_t swap_deadline_ns;  /* From the gate's closing to COMMIT. */
    uint64_t drain_deadline_ns; /* Longest drain under WAIT. */
    bool allow_recreate;        /* May be swapped without a restore source. */
    enum agent_drain_expiry drain_expiry;
    enum agent_kv kv;
    uint32_t hooks_count;
    struct agent_hook hooks[BATON_HOOKS_MAX];
    uint64_t barrier_deadline_ns; /* Of a barrier: to be shut; twice as long for each word. */
    bool live; /* The gate stays open; of a rejoin it says nothing.  See flow_live.c. */
    /* What this agent cannot read of it (a newer controller's word); such a ticket is refused. */
    char unreadable[AGENT_UNREADABLE_BYTES];
};

/* The controller's durable, fenced permission for one swap. */
struct agent_ticket {
    char uid[BATON_UID_TEXT_BYTES];
    uint64_t number;
    struct agent_epoch epoch;
    uint64_t owner_term;
    char group[BATON_NAME_BYTES];
    struct agent_version from; /* seq 0: a join. */
    struct agent_version to;
    struct agent_policy policy;
    bool rejoin;
    bool barrier; /* Swaps together with others: see flow_barrier.c. */
    bool resolve; /* Asks the members of an IN_DOUBT group; moves no weights.  Never accepted. */
    uint64_t queue_ns; /* Ticket stored to ticket received; wall clocks, so only for the record. */
};

/* Same numbers as baton.v1.SwapOutcome. */
enum agent_outcome {
    AGENT_OUTCOME_NONE = 0,
    AGENT_OUTCOME_COMMITTED = 1,
    AGENT_OUTCOME_REFUSED = 2,
    AGENT_OUTCOME_PAUSE_TIMEOUT = 3,
    AGENT_OUTCOME_APPLY_FAILED = 4,
    AGENT_OUTCOME_OUT = 5,
};

/* What an operator at the agent's node may ask for (operate.h).  Never renumbered: journaled. */
enum agent_verb {
    AGENT_VERB_STATUS = 0, /* Changes nothing and is not journaled. */
    AGENT_VERB_RESUME,
    AGENT_VERB_RESTORE,
    AGENT_VERB_DETACH,
};

/* As baton.v1.SwapPhases; nanoseconds, 0: not reached. */
struct agent_phases {
    uint64_t queue_ns;
    uint64_t stage_ns;
    uint64_t pause_ns;
    uint64_t apply_ns;
    uint64_t finalize_ns;
    uint64_t verify_ns;
    uint64_t invalidate_ns;
    uint64_t commit_ns;
    uint64_t label_ns;
    uint64_t probe_ns;
    uint64_t open_ns;
    uint64_t shut_ns;
    uint64_t engine_ns;
    uint64_t journal_ns;
};

/* How a ticket ended. */
struct agent_swap_record {
    char ticket_uid[BATON_UID_TEXT_BYTES];
    uint64_t ticket_number; /* 0: refused on a revoke, before the ticket came. */
    struct agent_epoch epoch;
    struct agent_version from;
    struct agent_version to;
    enum agent_outcome outcome;
    char message[BATON_TEXT_BYTES];
    struct agent_phases phases;
    uint64_t bytes;
    enum agent_level level;
    uint64_t ended_wall_ns;
    uint32_t requests_held;
    double probe_logprob;
    char probe_text[BATON_TEXT_BYTES];
    struct agent_version committed; /* What the group has committed after it. */
    uint32_t requests_inside;       /* When the gates closed. */
    uint32_t requests_kept;         /* Of them: still there at COMMIT; they go on after it. */
    uint32_t requests_aborted;      /* Of them: ended by the swap. */
    bool router_not_drained;        /* It gave up because a hook before the pause failed. */
    bool drain_expired;             /* The drain took too long; its expiry action was done. */
    uint32_t references;            /* Of the trainer, asked of the group's engines here. */
    uint32_t references_missed;
    double reference_away;                    /* The largest difference of a log-probability. */
    char reference_message[BATON_TEXT_BYTES]; /* Of one that was missed. */
    uint64_t barrier_ns; /* Of its time shut: waiting for the others of a barrier. */
};

/* Same numbers as baton.v1.GroupState. */
enum agent_group_state {
    AGENT_GROUP_JOINING = 1,
    AGENT_GROUP_SERVING = 2,
    AGENT_GROUP_STAGING = 3,
    AGENT_GROUP_STAGED = 4,
    AGENT_GROUP_PAUSING = 5,
    AGENT_GROUP_APPLYING = 6,
    AGENT_GROUP_RESUMING = 7,
    AGENT_GROUP_RESTORING = 8,
    AGENT_GROUP_OUT = 9,
    AGENT_GROUP_STAGE_FAILED = 11,
    AGENT_GROUP_ASLEEP = 13,
};

/* Below 0: 'a' is lower than 'b'; 0: equal; above 0: higher. */
int agent_epoch_compare(struct agent_epoch a, struct agent_epoch b);

/* True if both name the same bytes; no version equals no version. */
bool agent_version_equal(const struct agent_version *a, const struct agent_version *b);

/* Names as in the proto, without prefix: "SERVING", "APPLY_FAILED". */
const char *agent_group_state_name(enum agent_group_state state);
const char *agent_verb_name(enum agent_verb verb);
const char *agent_outcome_name(enum agent_outcome outcome);

#endif /* swap.h */
