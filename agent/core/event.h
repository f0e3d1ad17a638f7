/* event.h -- everything that can happen to an agent's core.
 *
 * Depends on: op.h, journal.h.  Threads: values only.
 * Ownership: an event and all that it points to is read only during agent_step(). */
#ifndef AGENT_CORE_EVENT_H
#define AGENT_CORE_EVENT_H

#include "agent/core/journal.h"
#include "agent/core/op.h"
#include "agent/core/peer.h"

enum agent_event_kind {
    AGENT_EVENT_RECOVERED,      /* One record of the journal, in order, before STARTED. */
    AGENT_EVENT_STARTED,        /* Recovery is complete; engines may be asked now. */
    AGENT_EVENT_TIMER,          /* agent_deadline_ns() was reached. */
    AGENT_EVENT_SESSION_OPENED, /* A stream to the controller is up; answered by HELLO. */
    AGENT_EVENT_SESSION_CLOSED, /* It is gone; the shell reconnects with backoff. */
    AGENT_EVENT_WELCOME,        /* First message down. */
    AGENT_EVENT_GOALS,          /* Answered by ACK or NACK. */
    AGENT_EVENT_TICKET,         /* Answered by an outcome, some time. */
    AGENT_EVENT_REVOKE,
    AGENT_EVENT_OUTCOME_STORED,
    AGENT_EVENT_BARRIER,        /* A word about the barrier of an open ticket; may be repeated. */
    AGENT_EVENT_LANDING,        /* Progress or end of a LAND; or what was found at start. */
    AGENT_EVENT_UNFIT,          /* A landed version does not fit the engines of a group. */
    AGENT_EVENT_OP_ENDED,       /* One for each ENGINE_OP, unless it was abandoned. */
    AGENT_EVENT_HOOK_ENDED,     /* One for each HOOK, at the latest a little after its deadline. */
    AGENT_EVENT_RECREATED,      /* One for each RECREATE. */
    AGENT_EVENT_ENGINE_EXITED,  /* Its process is gone (EXEC: also at start, if none lives). */
    AGENT_EVENT_JOURNAL_SYNCED, /* How long a JOURNAL action took; for the swap's record. */
    AGENT_EVENT_JOURNAL_SPACE,  /* The journal's reserve changed. */
    AGENT_EVENT_OPERATE,        /* Break-glass; answered by OPERATED or STATUS. */
    AGENT_EVENT_SHUTDOWN,       /* End open swaps, then DONE. */
    AGENT_EVENT_PEER_UP,        /* A link to a follower is up. */
    AGENT_EVENT_PEER_DOWN,      /* It is gone, with all that was on its way. */
    AGENT_EVENT_PEER_COMMAND,   /* From a group's leader; answered by a PEER_ANSWER. */
    AGENT_EVENT_PEER_RESULT,    /* From a follower, over the present link. */
};

/* Highest numbers of a group that its lost journal had seen. */
struct agent_group_floor {
    char group[BATON_NAME_BYTES];
    uint64_t ticket_number;
    uint64_t owner_term;
};

struct agent_source {
    char backend[BATON_NAME_BYTES];
    char location[BATON_PATH_BYTES];
    char agent[BATON_NAME_BYTES];
};

/* A peer that has the version, or gets it before this agent. */
struct agent_holder {
    char agent[BATON_NAME_BYTES];
    char address[BATON_ADDRESS_BYTES];
    bool last; /* Only while no other can give it. */
};

/* A version that the agent should have. */
struct agent_version_goal {
    struct agent_version version; /* seq 0: none. */
    char uid[BATON_UID_TEXT_BYTES];
    uint64_t bytes;
    const struct agent_source *sources; /* In order of preference. */
    uint32_t sources_count;             /* At most BATON_SOURCES_PER_VERSION_MAX. */
    const struct agent_holder *holders; /* Asked first, in this order. */
    uint32_t holders_count;             /* At most BATON_HOLDERS_MAX. */
};

struct agent_group_goal {
    char group[BATON_NAME_BYTES];
    struct agent_version_goal target;
    struct agent_version_goal stage;
    struct agent_version_goal restore; /* What it serves, unless that is the target: kept landed. */
    uint64_t owner_term;
    bool drain;              /* The gate is to be shut, and to stay so. */
    bool sleep;              /* Its engines are to sleep, behind shut gates. */
    uint64_t sleep_drain_ns; /* How long requests may go on before that. */
};

struct agent_goals {
    uint64_t revision;
    struct agent_epoch epoch;
    const struct agent_group_goal *groups;
    uint32_t groups_count;
    const char (*droppable)[BATON_DIGEST_TEXT_BYTES];
    uint32_t droppable_count;
    const struct agent_version_goal
        *follows; /* Holders of what followed groups land; no sources. */
    uint32_t follows_count;
};

enum agent_landing_state {
    AGENT_LANDING_PROGRESS, /* 'bytes' so far. */
    AGENT_LANDING_DONE,     /* Landed, verified, sealed; also for each one found at start. */
    AGENT_LANDING_FAILED,   /* Nothing of it counts; 'status' says why.  The core retries. */
    AGENT_LANDING_GONE,     /* A landed version was lost (somebody else removed it). */
};

struct agent_landing_event {
    char digest[BATON_DIGEST_TEXT_BYTES];
    enum agent_landing_state state;
    uint64_t bytes;
    uint64_t used_bytes; /* Of the whole landing, after it. */
    struct baton_status status;
};

/* How much of its disk the journal still has in reserve. */
enum agent_journal_space {
    AGENT_JOURNAL_ROOM, /* Enough for the swaps of all groups. */
    AGENT_JOURNAL_LOW,  /* Open swaps can end; new tickets are refused. */
    AGENT_JOURNAL_NONE, /* Open swaps can end; new tickets cannot even be refused durably. */
};

/* What an operator at this node asks for; see operate.h. */
struct agent_operate {
    enum agent_verb verb;
    const char *group; /* All but STATUS. */
    const char *by;    /* Who, for the audit. */
};

struct agent_event {
    enum agent_event_kind kind;
    uint64_t now_ns;  /* Monotonic, never going back. */
    uint64_t wall_ns; /* For records that people read. */
    union {
        const struct journal_record *recovered;
        struct {
            struct agent_epoch epoch;
            uint64_t lease_ns;
            const struct agent_group_floor *floors;
            uint32_t floors_count;
        } welcome;
        const struct agent_goals *goals;
        const struct agent_ticket *ticket;
        struct {
            const char *group;
            const char *ticket_uid;
            struct agent_epoch epoch;
        } revoke;
        struct {
            const char *group;
            const char *ticket_uid;
        } outcome_stored;
        struct {
            const char *group;
            const char *ticket_uid;
            struct agent_epoch epoch;
            enum agent_barrier_word word;
        } barrier;
        const struct agent_landing_event *landing;
        struct {
            const char *group;
            const char *digest;
            const char *committed; /* What it was compared with; counts while that is committed. */
            const char *message;
        } unfit;
        const struct agent_op_result *op;
        struct {
            uint64_t id;
            const struct baton_status *status; /* OK: answered 2xx in time. */
        } hook;
        struct {
            struct agent_engine_id engine;
            const struct baton_status *status; /* OK: old one proved dead, new one started. */
        } recreated;
        struct agent_engine_id exited;
        struct agent_operate operate;
        struct {
            enum journal_kind kind;
            const char *group; /* Empty: of no group. */
            uint64_t took_ns;
        } synced;
        enum agent_journal_space space;
        const char *peer; /* PEER_UP, PEER_DOWN: the follower's agent. */
        const struct agent_peer_command *command;
        struct {
            const char *agent;
            const struct agent_peer_result *result;
        } peer_result;
    };
};

#endif /* event.h */
