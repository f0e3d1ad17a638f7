/* agent_world.h -- a small world around one agent's core: engines, a journal, a landing, a
 * controller.
 *
 * The core is the production one; everything else is a model on virtual time.  Engines are what the
 * core must not trust: they answer late, say yes and do nothing, lose tensors, die.  After each
 * step the world checks by itself, from the engines and the journal's bytes, that no open gate
 * serves a mixed group, a version that was not committed, or KV of another version.
 *
 * A crash keeps the journal's bytes and the engines, and forgets the core. */
#ifndef TESTS_UNIT_AGENT_WORLD_H
#define TESTS_UNIT_AGENT_WORLD_H

#include "agent/core/agent.h"

#define MS UINT64_C(1000000)
#define S  (UINT64_C(1000) * MS)

enum { WORLD_GROUPS = 2, WORLD_ENGINES = 3, WORLD_PENDING = 128, WORLD_OPS = 17, WORLD_NOTES = 64 };

enum fault {
    FAULT_NONE,
    FAULT_FAIL,      /* Answers with an error; an UPDATE leaves torn weights. */
    FAULT_FAIL_BACK, /* UPDATE: answers with an error after all ranks put their tensors back. */
    FAULT_HANG,      /* No answer by the deadline, and no effect, ever. */
    FAULT_LATE,      /* No answer by the deadline; it takes effect 'late_ns' after it was sent. */
    FAULT_SILENT,    /* It takes effect at once, and the answer is lost. */
    FAULT_STUCK,     /* As HANG, and the worker does not come back either. */
    FAULT_LIE,       /* Says yes; UPDATE loses half of the tensors, others do nothing. */
    FAULT_STRAY,     /* The answer belongs to another call. */
    FAULT_DIE,       /* The engine's process ends while it works on this. */
};

struct world_engine {
    bool up;
    bool plugin;
    bool guarded;
    enum agent_level level; /* What a good UPDATE reports. */
    uint64_t lives;         /* Rises with each start; also the guard's boots. */
    uint64_t boot_seq;      /* Weights after a start. */
    bool recreate_fails;
    char resident[BATON_DIGEST_TEXT_BYTES];
    char kv[BATON_DIGEST_TEXT_BYTES]; /* Weights that its cached KV was made with; empty: no KV. */
    enum agent_gate gate;
    uint64_t opened_for;
    uint64_t gate_version;
    bool gate_salt;
    bool no_salt; /* Its guard does not know salts. */
    bool external_kv;
    uint32_t active;  /* Requests inside; a drain does not end them by itself. */
    uint32_t aborted; /* Requests that a pause ended. */
    bool paused;
    bool asleep;    /* Weights and KV are gone. */
    bool sleepless; /* It was started without sleep mode. */
    struct agent_fence fence;
    bool no_live;                           /* It takes no live swap. */
    char prepared[BATON_DIGEST_TEXT_BYTES]; /* Weights beside the resident ones; empty: none. */
    struct agent_fence prepared_fence;
    uint32_t shuts; /* Orders to its gate that do not open it. */
    char label[BATON_NAME_BYTES];
    enum fault faults[WORLD_OPS]; /* By kind of operation. */
    uint32_t faults_left[WORLD_OPS];
    uint32_t calls[WORLD_OPS];
    uint64_t late_ns;
    uint32_t references_missed; /* Of two, by a probe. */
};

/* Something that will happen. */
struct world_pending {
    uint64_t due_ns; /* 0: free. */
    enum { PENDING_ANSWER, PENDING_EFFECT, PENDING_LANDED, PENDING_RECREATED, PENDING_HOOK } kind;
    struct agent_op op;
    struct agent_op_result result;
    struct agent_engine_id engine;
    struct agent_version version;
    bool ok;
    bool of_core; /* Lost with the core when that crashes. */
};

/* The controller's side of one group. */
struct world_group {
    uint64_t target_seq;
    uint64_t stage_seq;
    uint64_t restore_seq;
    bool drain;  /* Told with the next goals. */
    bool sleep;  /* Likewise. */
    bool as_new; /* Its target is the test's, whatever it committed. */
    struct agent_ticket ticket;
    bool ticket_open;
    bool ticket_due; /* To be sent. */
    bool stored_due; /* OUTCOME_STORED is to be sent. */
    bool withhold_stored;
    uint64_t number;
    uint64_t owner_term;
    bool auto_rejoin;
    struct agent_swap_record outcome; /* Last one of an open ticket. */
    uint32_t outcomes;                /* All that were received. */
    struct agent_group_report report; /* Last; its engines do not count. */
    char message[BATON_TEXT_BYTES];
    char blocked[BATON_NAME_BYTES];
};

/* The controller's side of a barrier over all groups, as tests/unit/agent_world_barrier.c plays it.
 */
struct world_barrier {
    bool on;
    bool by_hand; /* The test sends the words. */
    uint64_t to_seq;
    bool go;
    bool cancelled;
    bool open;
    bool promised[WORLD_GROUPS];     /* The group told that it is shut. */
    uint32_t answered[WORLD_GROUPS]; /* Stand and state that a word was said for; 0: none. */
};

enum crash_mode {
    CRASH_NEVER,
    CRASH_BEFORE,    /* The action is not performed. */
    CRASH_AFTER,     /* It is performed; an operation takes effect at once. */
    CRASH_AFTER_LATE /* An operation takes effect long after the restart. */
};

struct world {
    struct agent *agent;
    void *memory;
    struct agent_config config;
    struct agent_group_config groups_config[WORLD_GROUPS];
    struct agent_engine_config engines_config[WORLD_GROUPS][WORLD_ENGINES];

    uint64_t now_ns;
    uint32_t lives; /* Of the agent. */
    bool running;
    bool done;

    uint8_t journal[1 << 20];
    size_t journal_size;
    uint64_t journal_index;
    uint64_t committed[WORLD_GROUPS]; /* Last COMMIT of each group. */
    /* Of a live swap: what may be resident behind an open gate besides, from LIVE_INTENT to COMMIT or
     * INTENT; and what the page may still name, until the outcome. */
    struct agent_version live_to[WORLD_GROUPS];
    uint64_t live_from[WORLD_GROUPS];
    uint32_t journal_counts[JOURNAL_KIND_END];
    struct journal_record journal_last[JOURNAL_KIND_END]; /* Of each kind. */
    uint64_t journal_took_ns;
    uint32_t journals; /* Rises with each new one. */

    struct world_engine engines[WORLD_GROUPS][WORLD_ENGINES];
    struct world_pending pending[WORLD_PENDING];

    bool landed[16];            /* By seq. */
    uint32_t landing_fails[16]; /* So many times. */
    bool no_room;               /* Why they fail; else bytes are damaged. */
    uint32_t lands[16];
    uint32_t land_holders[16]; /* Peers that the last one was told of. */
    uint32_t cancels[16];
    uint32_t drops[16];

    bool controller_up;
    bool session_wanted;
    bool session_open;
    bool welcome_due;
    bool goals_due;
    /* Routers: calls of each kind; the next so many fail, or never answer. */
    uint32_t hooks[2];
    uint32_t hooks_fail[2];
    uint32_t hooks_hang[2];
    uint64_t hook_serves;         /* What the last call said. */
    uint64_t controller_wakes_ns; /* After it cut a session. */
    struct agent_epoch epoch;
    uint64_t goals_revision;
    bool droppable[16];
    struct world_group groups[WORLD_GROUPS];
    struct world_barrier barrier;
    struct agent_group_floor floors[WORLD_GROUPS];
    uint32_t floors_count;
    uint32_t hellos;
    uint32_t reports;
    uint32_t outcomes_told; /* Also those that nobody asked for. */
    uint32_t nacks;
    uint32_t closes;
    char hello_incarnation[BATON_UID_TEXT_BYTES];
    uint64_t hello_seq;          /* Floor of its first model; 0: none. */
    uint32_t hello_open_tickets; /* Tickets without outcome when the session opened. */

    enum crash_mode crash_mode;
    uint32_t crash_at; /* The n-th journal record or operation since arming; from 1. */
    uint32_t boundaries;
    bool counting;
    bool crashed;

    struct agent_operated operated;   /* Last answer to a break-glass verb. */
    struct agent_group_status status; /* Of the first group; its texts do not live on. */
    uint32_t statuses;

    char notes[WORLD_NOTES][BATON_NAME_BYTES]; /* Reasons of log actions, newest last. */
    uint32_t notes_count;
    char violation[BATON_TEXT_BYTES]; /* Of the world's own check; empty: none. */
    /* Several agents of one group: see agent_fleet.h. */
    bool follows; /* Its controller has a session with it and nothing to say to its groups. */
    void (*on_peer)(struct world *world, const struct agent_action *action);
    void *fleet;
    bool traced;  /* BATON_WORLD_TRACE is set. */
    bool kv_kept; /* The policy says that old KV is used on. */
    bool blind;   /* The test broke an engine behind the agent's back: no check for now. */
};

/* 'groups' groups of 'engines' engines with the plug-in, on 'boot_seq' weights, gates shut. */
struct world *world_create(uint32_t groups, uint32_t engines, uint64_t boot_seq);
void world_destroy(struct world *world);

/* Starts an agent on the journal; world_create() does not. */
void world_start(struct world *world);
/* Forgets the core; what the engines work on takes effect as the crash mode says. */
void world_crash(struct world *world);
/* Delivers one event of the test. */
void world_event(struct world *world, struct agent_event event);
/* Lets time pass; an armed crash ends it, until the test clears 'crashed'. */
void world_run(struct world *world, uint64_t duration_ns);

/* The agent's disk is lost: an empty journal. */
void world_new_journal(struct world *world);
/* When something is due by itself; UINT64_MAX: never. */
uint64_t world_due_ns(struct world *world);
/* Does the one thing that is due at that time. */
void world_do_due(struct world *world);

/* The controller says what a group should serve and land. */
void world_goals(struct world *world, uint32_t group, uint64_t target_seq, uint64_t stage_seq);
/* Issues a ticket from what the group reported; rejoin or swap. */
void world_ticket(struct world *world, uint32_t group, uint64_t to_seq, bool rejoin);
/* Tickets of one barrier for all groups. */
void world_barrier(struct world *world, uint64_t to_seq);
/* Says a word about the group's open ticket, or the last one. */
void world_barrier_say(struct world *world, uint32_t group, enum agent_barrier_word word);
/* Sends the open ticket again. */
void world_resend(struct world *world, uint32_t group);
/* As world_ticket(), for a group in doubt. */
void world_resolve(struct world *world, uint32_t group);
/* Brings all groups to serve 'seq', by rejoin tickets. */
void world_serve(struct world *world, uint64_t seq);

/* The next 'times' operations of this kind fail so. */
void world_fault(struct world_engine *engine, enum agent_op_kind kind, enum fault fault,
                 uint32_t times);
/* The process ends; 'told': the shell notices. */
void world_kill(struct world *world, uint32_t group, uint32_t engine, bool told);
/* It is started again by somebody else. */
void world_boot(struct world *world, uint32_t group, uint32_t engine);

struct agent_version world_version(uint64_t seq);
/* Version in the last COMMIT of the group in the journal's bytes; 0: none. */
uint64_t world_committed(const struct world *world, uint32_t group);
/* All engines' gates are open for 'seq', all hold it, none is paused. */
bool world_serves(const struct world *world, uint32_t group, uint64_t seq);
/* No gate of the group is open. */
bool world_is_shut(const struct world *world, uint32_t group);
bool world_engine_is_open(const struct world_engine *engine);
/* A log action with this reason was seen. */
bool world_noted(const struct world *world, const char *reason);

#endif /* agent_world.h */
