/* action.h -- everything that an agent's core can ask its shell to do.
 *
 * Actions are performed in their order.  JOURNAL is a barrier: the record is on stable storage
 * before any later action is begun.  If that fails the shell performs no further action and ends
 * the process at once: what follows would be an effect without its record, and a restart recovers
 * from the journal.
 *
 * Depends on: event.h, config.h.  Threads: values only.
 * Ownership: an action and all that it points to belongs to the core, until the next agent_step().
 * */
#ifndef AGENT_CORE_ACTION_H
#define AGENT_CORE_ACTION_H

#include <stddef.h>

#include "agent/core/config.h"
#include "agent/core/event.h"

enum agent_action_kind {
    AGENT_ACTION_JOURNAL,       /* Append and fsync 'journal'. */
    AGENT_ACTION_OPEN_SESSION,  /* From now on keep a session; once, after recovery. */
    AGENT_ACTION_CLOSE_SESSION, /* End the stream, for 'text'; reconnect later. */
    AGENT_ACTION_HELLO,
    AGENT_ACTION_ACK,
    AGENT_ACTION_NACK,
    AGENT_ACTION_REPORT,
    AGENT_ACTION_LAND,           /* Bring a version here; answered by LANDING events. */
    AGENT_ACTION_LAND_CANCEL,    /* Stop and delete what came; late LANDING events are ignored. */
    AGENT_ACTION_DROP,           /* Delete a landed version. */
    AGENT_ACTION_ENGINE_OP,      /* Run on the engine's worker; answered by OP_ENDED. */
    AGENT_ACTION_ENGINE_ABANDON, /* Abort it; a later ENGINE_OP waits for its end. */
    AGENT_ACTION_RECREATE,       /* Prove the old process dead, start anew: RECREATED. */
    AGENT_ACTION_HOOK,           /* POST it to a router, beside everything else: HOOK_ENDED. */
    AGENT_ACTION_LOG,            /* One line of log; also in the next report's events. */
    AGENT_ACTION_OPERATED,       /* The answer to an OPERATE. */
    AGENT_ACTION_STATUS,         /* The answer to an OPERATE that asks for the status. */
    AGENT_ACTION_DONE,           /* SHUTDOWN is complete: close the session and leave. */
    AGENT_ACTION_PEER_SEND,      /* To a follower, if its link is up; else it is lost. */
    AGENT_ACTION_PEER_ANSWER,    /* To the leader of a group, over its present link. */
};

/* One engine as the controller sees it. */
struct agent_engine_report {
    const struct agent_engine_config *config;
    const struct agent_engine_facts *facts; /* Last known. */
    const char *label;                      /* "-": none known. */
    const char *gate;                       /* "open", "hold", "shut", "none". */
    uint64_t owner_term;
    uint32_t recreates;
    bool reachable;
    const char *agent; /* Of another agent of the group; null: this one's. */
};

struct agent_group_report {
    const char *group;
    const char *model;
    enum agent_group_state state;
    const char *message;
    struct agent_version committed;
    uint64_t staging_seq;
    uint64_t staged_bytes;
    bool gate_open;
    enum agent_level level;
    const struct agent_version_goal *committed_goal; /* In a HELLO; null: no more is known. */
    const char *ticket_uid;                          /* Empty: none. */
    uint64_t highest_ticket;
    uint64_t owner_term;
    const struct agent_engine_report *engines;
    uint32_t engines_count;
    const char *blocked; /* A name of baton.v1.BlockedReason without prefix; empty: not blocked. */
    bool can_restore;
    bool advisory;
    bool can_swap_live;
    const char *live_reason; /* Why it can or cannot. */
    enum agent_barrier_stand barrier;
    const struct agent_member_config *members; /* Those that follow. */
    uint32_t members_count;
};

struct agent_seq_floor {
    const char *model;
    struct agent_version version;
};

struct agent_hello {
    const char *agent;
    const char *software;
    const char *journal_incarnation;
    struct agent_epoch highest_epoch;
    const struct agent_group_report *groups;
    uint32_t groups_count;
    const struct agent_seq_floor *seq_floors;
    uint32_t seq_floors_count;
    const char *address;
    const char *peer_address;
    const char *peer_zone;
    uint64_t landing_budget_bytes;
    const char *const *follows; /* Groups. */
    uint32_t follows_count;
};

struct agent_outcome_report {
    const char *group;
    const struct agent_swap_record *record;
};

struct agent_log_event {
    bool warning;
    char object[BATON_NAME_BYTES + 16]; /* "group/g0". */
    char reason[BATON_NAME_BYTES];      /* CamelCase. */
    char message[BATON_TEXT_BYTES];
};

struct agent_report {
    const struct agent_group_report *groups;
    uint32_t groups_count;
    const struct agent_outcome_report *outcomes;
    uint32_t outcomes_count;
    const char *const *landed_digests; /* All of them, in each report. */
    uint32_t landed_digests_count;
    uint64_t landing_used_bytes;
    const struct agent_log_event *events;
    uint32_t events_count;
};

/* How an operator's wish went. */
struct agent_operated {
    bool ok;
    char message[BATON_TEXT_BYTES];
};

/* One group in full, for the operator at this node. */
struct agent_group_status {
    struct agent_group_report report;
    const char *phase;
    bool detached;
    const struct agent_swap_record *last_swap; /* By the journal; null: none. */
    const char *operated;                      /* Last verb carried out; empty: none. */
    const char *operated_by;
    uint64_t operated_wall_ns;
};

struct agent_node_status {
    bool welcomed; /* A controller answers. */
    struct agent_epoch epoch;
    const struct agent_group_status *groups;
    uint32_t groups_count;
};

/* One call of one hook. */
struct agent_hook_call {
    uint64_t id; /* Never reused within the life of a core. */
    const struct agent_group_config *group;
    const char *url;
    enum agent_hook_when when;
    uint64_t deadline_ns; /* Absolute, of the clock of the events. */
    uint64_t from_seq;
    uint64_t to_seq;
    uint64_t serves_seq; /* What the group serves, or is about to. */
    const char *ticket_uid;
};

struct agent_action {
    enum agent_action_kind kind;
    union {
        const struct journal_record *journal;
        const char *text; /* CLOSE_SESSION. */
        const struct agent_hello *hello;
        uint64_t ack; /* Revision. */
        struct {
            uint64_t revision;
            const char *message;
        } nack;
        const struct agent_report *report;
        const struct agent_version_goal *land;
        const char *digest; /* LAND_CANCEL, DROP. */
        const struct agent_op *op;
        const struct agent_hook_call *hook;
        struct {
            uint64_t id;
            struct agent_engine_id engine;
        } abandon;
        struct agent_engine_id recreate;
        const struct agent_log_event *log;
        struct {
            const char *agent;
            const struct agent_peer_command *command;
        } peer_send;
        struct {
            const char *leader;
            const struct agent_peer_result *result;
        } peer_answer;
        const struct agent_operated *operated;
        const struct agent_node_status *status;
    };
};

struct agent_actions {
    const struct agent_action *items;
    size_t count;
};

#endif /* action.h */
