/* state.h -- the core's own structs, shared by its files; nobody else includes this.
 *
 * Three kinds of facts: durable ones (ledger), what was seen of engines since the start (struct
 * engine), and where each group stands in its phase (struct group).  A crash keeps the first only.
 *
 * Depends on: the public headers, ledger.h, landings.h, phase.h.  Threads: one.
 * Ownership: all memory is the arena's given to agent_init(); what actions point to is in
 * 'scratch', which is emptied by the next step. */
#ifndef AGENT_CORE_STATE_H
#define AGENT_CORE_STATE_H

#include "agent/core/agent.h"
#include "agent/core/landings.h"
#include "agent/core/ledger.h"
#include "agent/core/phase.h"
#include "api/base/arena.h"
#include "api/base/backoff.h"
#include "api/base/random.h"

enum { AGENT_EVENTS_KEPT = 16 };
#define AGENT_NEVER UINT64_MAX

/* An engine's part in its group's phase. */
enum part {
    PART_NONE,    /* Takes no part, or has none yet. */
    PART_WAITING, /* Its operation starts when the engine is idle and 'retry_ns' has come. */
    PART_RUNNING,
    PART_DONE,
    PART_FAILED, /* For good; 'fate' says how. */
};

/* Why an engine's part failed; a later one is worse and decides. */
enum fate {
    FATE_NONE,
    FATE_REFUSED, /* It said no, or its answer did not hold. */
    FATE_SILENT,  /* A mutating call got no answer: nobody knows what it did or will do. */
    FATE_STRAY,   /* Its answers belong to other calls. */
    FATE_GONE,    /* Its process ended, or another incarnation answers. */
};

struct engine {
    const struct agent_engine_config *config;
    struct agent_engine_id id;

    /* What is known of it. */
    struct agent_engine_facts facts;
    bool known;        /* Attached since it was last lost; 'facts' are of this incarnation. */
    bool reachable;    /* The last call was answered. */
    uint64_t heard_ns; /* Last answer, or when it was first looked for; own absence is added. */
    char label[BATON_NAME_BYTES]; /* Written and read back in this incarnation; empty: none. */
    bool maybe_open;              /* A gate that was opened and has not been read back as closed. */
    char resident[BATON_DIGEST_TEXT_BYTES]; /* Verified in this incarnation; empty: not known. */
    enum agent_level level;
    char probed[BATON_DIGEST_TEXT_BYTES]; /* Version whose probe it passed last, to serve it. */
    uint32_t probed_missed;               /* References that it missed then. */
    bool unproved; /* 'resident' is the journal's word; to be read back when there is time. */

    /* The operation under way; kind NONE: idle. */
    struct agent_op op;
    bool op_aside;         /* Health, attach and background read-back: not the phase's. */
    uint64_t next_look_ns; /* Of the next health check or attach. */
    uint32_t looks;
    bool pause_doubt; /* A pause got no answer in this incarnation: it may come to work late. */

    /* Its part in the phase. */
    enum part part;
    enum fate fate;
    uint32_t tries;
    uint64_t retry_ns;

    /* Its part in the open swap. */
    bool touched;  /* UPDATE was called, or may have been before a restart of the agent. */
    bool restored; /* It failed, and all ranks said that they put their tensors back. */

    /* Recreation. */
    uint32_t failures; /* That took the group out, in a row, although it answered. */
    bool needs_recreate;
    bool exited;
    bool recreating;
    uint32_t attempts; /* In a row. */
    uint32_t recreates;
    uint64_t recreate_at_ns; /* Next attempt; while recreating: when it is late; NEVER: it is. */
    uint64_t boot_by_ns;     /* A recreated engine that has not answered by then failed. */
    struct baton_backoff backoff;
};

/* What a group was told to serve and land; sources are with the landings. */
struct group_goal {
    bool given;
    struct agent_epoch epoch; /* Of the leadership that gave it. */
    struct agent_version target;
    struct agent_version stage;
    struct agent_version restore; /* Seq 0: the target is it. */
    bool drain;                   /* The gate is to be shut, and to stay so. */
    bool sleep;                   /* Its engines are to sleep. */
    uint64_t sleep_drain_ns;
};

/* A follower of a group, as its leader knows it. */
struct peer {
    const struct agent_member_config *config;
    bool up;                       /* The link is. */
    bool known;                    /* 'state' came over it. */
    uint64_t heard_ns;             /* Its last word; at the start: when it was first looked for. */
    uint64_t good_ns;              /* When it was last as its group needs it. */
    uint64_t watch_ns;             /* Next heartbeat. */
    struct agent_peer_state state; /* Its engines are the arrays below. */
    struct agent_engine_report *engines;
    struct peer_engine *engine_texts;
    char trouble[BATON_TEXT_BYTES]; /* Why it refuses what it is told. */

    /* Its part in the phase. */
    enum part part;
    bool gone;
    uint64_t step; /* Of the command under way. */
    uint64_t give_up_ns;
    enum agent_peer_outcome asked;
};

/* What the reports of a follower's engine point to. */
struct peer_engine {
    struct agent_engine_config config;
    struct agent_engine_facts facts;
    char label[BATON_TEXT_BYTES];
    char gate[BATON_NAME_BYTES];
};

/* This agent's part in a group that another one leads. */
struct member {
    bool busy; /* A command's row is running. */
    enum agent_peer_verb verb;
    uint64_t step;                 /* Of the last command with a row. */
    uint64_t seen;                 /* Highest step of all. */
    struct agent_peer_result last; /* Answer to it, once it is not busy. */
    struct agent_update_result times;
    enum agent_peer_outcome asked; /* Of the last command, if it was ASK. */
    uint64_t heard_ns;             /* Of the leader. */
    uint64_t told_ns;              /* When the state was last told. */
    bool alone_noted;
    bool outdated_noted; /* That the leader's goals are of before. */
};

/* The hooks of a phase: which one's turn it is, and its call. */
struct group_hooks {
    uint32_t index;       /* In the policy's list. */
    uint64_t call_id;     /* Of the call under way; 0: none. */
    uint64_t deadline_ns; /* Of this hook; 0: not begun. */
    uint64_t retry_ns;    /* It failed and is called again then; 0: no. */
    bool ended;           /* The call's end is in 'ok' and 'why'. */
    bool ok;
    char why[BATON_TEXT_BYTES];
};

struct group {
    const struct agent_group_config *config;
    struct ledger_group *ledger;
    struct engine *engines; /* config->engines_count of them. */
    struct group_goal goal;
    bool sleep_doubt; /* An earlier life of the agent told engines to sleep or to wake. */
    bool resuming;    /* An operator at this node asked: no controller's ticket is needed. */

    enum phase phase;
    uint64_t phase_began_ns;
    uint64_t phase_engine_ns; /* Longest operation of the phase. */
    uint64_t deadline_ns; /* Operations end by then; AGENT_NEVER: no swap or recovery is open. */
    bool entered;         /* A phase was entered since phase_advance() last ran it. */
    bool recovering;      /* Its ticket was accepted by an earlier life of the agent. */
    enum agent_outcome verdict;    /* Of the swap, once the old version serves again. */
    struct agent_version compared; /* Target that the residents were compared with. */

    /* A ticket that waits for the end of a phase which is about to end by itself. */
    bool offered;
    struct agent_ticket offer;

    /* Out of service. */
    struct baton_backoff rest;
    uint64_t rest_until_ns;
    uint64_t shut_again_ns; /* Of a gate found open while OUT: not before. */
    uint64_t serving_since_ns;

    /* The open swap's record. */
    uint64_t closed_ns; /* Gate's closing; 0: not closed by a swap. */
    struct agent_phases phases;
    uint32_t held;
    uint32_t inside;  /* Requests behind the gates when they closed; of them: */
    uint32_t kept;    /* Still there at COMMIT. */
    uint32_t aborted; /* Ended by the swap. */
    struct group_hooks hooks;
    bool not_drained;    /* A hook before the pause failed. */
    bool stays_open;     /* The swap ends before its gates were closed. */
    bool go_back;        /* An operator at the node asked for the restore. */
    bool drain_expired;  /* Its expiry action is under way or done. */
    uint64_t barrier_ns; /* Waited for the other groups of a barrier. */
    bool live_doubted;   /* It was asked once what a live swap left behind. */
    struct agent_probe_result probe;

    char unfit_digest[BATON_DIGEST_TEXT_BYTES]; /* See agent_group_is_unfit(). */
    char unfit_with[BATON_DIGEST_TEXT_BYTES];
    char unfit_message[BATON_TEXT_BYTES];
    const char *blocked;            /* See agent_group_report. */
    char message[BATON_TEXT_BYTES]; /* Why it is not serving, or what went wrong last. */
    bool changed;                   /* Since the last report. */
    bool progressed;                /* Only numbers. */
    enum agent_group_state reported;

    /* Several agents (rule 4). */
    struct peer *peers; /* config->followers_count of them. */
    struct member member;
    bool in_doubt;  /* A follower has a ticket open of which this journal knows nothing. */
    bool resolving; /* 'offer' is a resolving ticket under way. */
    char asked[BATON_UID_TEXT_BYTES]; /* The ticket that it asks about; may be empty. */
};

struct agent {
    struct agent_config config; /* Its arrays are in the arena. */
    uint64_t now_ns;
    uint64_t wall_ns;
    bool started;
    bool shutting_down;
    bool done;
    enum agent_journal_space space;
    struct baton_random random;
    uint64_t next_op_id;
    uint32_t peer_steps;                 /* Of this life as leader. */
    char refused_peer[BATON_TEXT_BYTES]; /* What was told last to a leader that is none. */

    struct ledger ledger;
    struct landings landings;
    struct group *groups;

    /* Session. */
    bool session_wanted;
    bool session_open;
    bool welcomed;
    bool hello_outdated; /* A higher seq was seen since it; it is not answered yet. */
    struct agent_epoch session_epoch;
    uint64_t goals_revision; /* Of this epoch. */
    uint64_t lease_ns;
    uint64_t report_ns; /* When the last one was sent. */
    bool report_due;    /* Landings changed. */
    struct agent_log_event events[AGENT_EVENTS_KEPT];
    uint32_t events_count;

    /* This step's output. */
    struct baton_arena scratch;
    struct agent_action *actions;
    uint32_t actions_count;
    uint32_t actions_max;
};

/* Room for one more action; asserts that the step's bound holds. */
struct agent_action *agent_push(struct agent *agent, enum agent_action_kind kind);
/* Zeroed memory that lives until the next step; asserts that the step's bound holds. */
void *agent_scratch(struct agent *agent, size_t count, size_t size);
/* Makes 'record' durable: pushes JOURNAL and applies it to the ledger. */
void agent_write(struct agent *agent, const struct journal_record *record);
/* A record about 'group', zeroed besides. */
struct journal_record group_record(const struct group *group, enum journal_kind kind);
/* One line for the log and the next report; 'object' is "group/g0". */
BATON_PRINTF(5, 6)
void agent_note(struct agent *agent, bool warning, const char *object, const char *reason,
                const char *fmt, ...);
/* As agent_note() about a group. */
BATON_PRINTF(5, 6)
void group_note(struct agent *agent, const struct group *group, bool warning, const char *reason,
                const char *fmt, ...);
/* Prints into 'out', cut where it does not fit. */
BATON_PRINTF(3, 4) void text_print(char *out, size_t out_bytes, const char *fmt, ...);

/* The group of this name; null if there is none. */
struct group *agent_group_find(struct agent *agent, const char *name);

/* Whether a layout was found that engines which hold what the group has committed cannot take.  What was
 * found beside another committed version says nothing any more. */
bool agent_group_is_unfit(const struct group *group, const char *digest);

#endif /* state.h */
