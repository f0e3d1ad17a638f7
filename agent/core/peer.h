/* peer.h -- what the agents of one group say to each other (design 3, rule 4).
 *
 * The leader runs the table of phase.c; each row that does something to engines goes to its
 * followers as one command, which they run on their own engines and answer.  A row ends when the
 * leader's engines and all followers have ended it.  A follower never opens a gate by itself once
 * it was shut: in doubt means shut.
 *
 * Every command carries a fence.  Epoch, owner term and ticket number are the ticket's (durable at
 * the follower with its ACCEPT, its PREPARED, or its FLOORS when it is asked); the step rises with
 * each command: the leader's life in the upper half, a counter in the lower.  A lower one is refused,
 * the last one is answered again.  WATCH's epoch is of the leadership that gave its goals: of an
 * earlier one than the follower has seen, they may name no version that it has not.
 *
 * Depends on: op.h, event.h's goals.  Threads: values only.
 * Ownership: texts live inside; what is pointed to is borrowed for the step. */
#ifndef AGENT_CORE_PEER_H
#define AGENT_CORE_PEER_H

#include "agent/core/config.h"
#include "agent/core/op.h"

struct agent_engine_report;
struct agent_version_goal;

/* One a row of the table, and three that are not about engines.  The wire has fewer (api/proto): it
 * tells a swap's from a restore's by their purpose. */
enum agent_peer_verb {
    AGENT_PEER_NONE = 0,
    AGENT_PEER_WATCH,  /* Heartbeat, with what to land; answered by the state alone. */
    AGENT_PEER_ASK,    /* Of a resolving ticket: fences durably, answers what became of 'asked'. */
    AGENT_PEER_END,    /* How a ticket ended that the follower still has open. */
    AGENT_PEER_COMMIT, /* The leader's COMMIT is durable; the follower's is before it answers. */
    AGENT_PEER_SHUT,
    AGENT_PEER_COMPARE,
    AGENT_PEER_CLOSE, /* Begins a swap: ACCEPT is durable before it. */
    AGENT_PEER_PAUSE, /* Begins a rejoin: likewise. */
    AGENT_PEER_FENCE, /* PREPARED is durable before it. */
    AGENT_PEER_KNOW,
    AGENT_PEER_UPDATE,
    AGENT_PEER_VERIFY,
    AGENT_PEER_INVALIDATE,
    AGENT_PEER_CONFIRM,
    AGENT_PEER_LABEL,
    AGENT_PEER_MARK,
    AGENT_PEER_RESUME,
    AGENT_PEER_PROBE,
    AGENT_PEER_OPEN, /* The ticket's OUTCOME is durable before it. */
    AGENT_PEER_BACK_SHUT,
    AGENT_PEER_BACK_FENCE,
    AGENT_PEER_BACK_UPDATE,
    AGENT_PEER_BACK_VERIFY,
    AGENT_PEER_REOPEN_RESUME,
    AGENT_PEER_BACK_PROBE,
    AGENT_PEER_REOPEN,
    AGENT_PEER_SLEEP, /* FALLING is durable before it. */
    AGENT_PEER_WAKE,  /* WAKING likewise. */
    AGENT_PEER_VERBS
};

/* What a member knows of a ticket.  Same numbers as baton.v1.PeerOutcome. */
enum agent_peer_outcome {
    AGENT_PEER_OUTCOME_NONE = 0,
    AGENT_PEER_OUTCOME_UNSEEN = 1,
    AGENT_PEER_OUTCOME_PREPARED = 2,
    AGENT_PEER_OUTCOME_COMMITTED = 3,
    AGENT_PEER_OUTCOME_RESTORED = 4,
};

/* Leader to follower. */
struct agent_peer_command {
    enum agent_peer_verb verb;
    char leader[BATON_NAME_BYTES]; /* Who speaks; refused by name if the follower has another. */
    char group[BATON_NAME_BYTES];
    char model[BATON_NAME_BYTES];
    struct agent_fence fence;
    uint64_t drain_ns;                /* SLEEP. */
    uint64_t timeout_ns;              /* For all of it; the follower's own clock. */
    struct agent_ticket ticket;       /* The open one, or END's; uid empty: none. */
    struct agent_version version;     /* COMPARE: the target.  COMMIT, END: what is committed. */
    enum agent_outcome outcome;       /* END, OPEN, REOPEN: how the ticket ended. */
    bool committed;                   /* END: it was committed, whatever came after. */
    char asked[BATON_UID_TEXT_BYTES]; /* ASK. */
    const struct agent_version_goal *target; /* WATCH; null: none. */
    const struct agent_version_goal *stage;
    const struct agent_version_goal *restore; /* Null: the target is it. */
    bool sleep;                               /* WATCH: the group is to sleep. */
};

/* A follower's part of the group, as it stands. */
struct agent_peer_state {
    bool known;               /* It follows this leader; else nothing else counts. */
    struct agent_fence fence; /* Highest ticket that it has seen; highest step of this life. */
    struct agent_version committed;
    bool needs_ticket;
    bool may_sleep;                      /* Its engines may be asleep. */
    char open_uid[BATON_UID_TEXT_BYTES]; /* Its open ticket; empty: none. */
    struct agent_version open_from;
    struct agent_version open_to;
    bool prepared;       /* PREPARED is durable for it. */
    bool open_committed; /* COMMIT is. */
    bool ready;          /* All its engines are attached and none must be recreated. */
    bool serving;        /* Its gates are open. */
    bool out;            /* It is out of service: an engine is lost, or must be recreated. */
    bool busy;           /* A read-back is under way; nothing can be begun at once. */
    bool can_restore;    /* Its committed version can be put back. */
    bool advisory;
    char landed[2][BATON_DIGEST_TEXT_BYTES]; /* Of target and stage, what is landed here. */
    uint64_t staged_bytes;
    enum agent_level level;         /* Weakest of its engines. */
    char blocked[BATON_NAME_BYTES]; /* As agent_group_report. */
    char message[BATON_TEXT_BYTES]; /* Why it is not ready, or cannot land. */
    const struct agent_engine_report *engines;
    uint32_t engines_count; /* 0: it only stages, for engines whose API is on another node. */
};

/* Follower to leader: the answer to a command, or a change of state. */
struct agent_peer_result {
    char group[BATON_NAME_BYTES];
    uint64_t step; /* Of the command; 0: none, only the state. */
    bool ok;       /* Done, and read back. */
    bool gone;     /* It failed, and the follower is out of service. */
    char message[BATON_TEXT_BYTES];
    enum agent_peer_outcome asked;    /* ASK. */
    struct agent_update_result times; /* UPDATE: longest of its engines. */
    uint32_t held;
    struct agent_peer_state state;
};

/* "UPDATE". */
const char *agent_peer_verb_name(enum agent_peer_verb verb);

#endif /* peer.h */
