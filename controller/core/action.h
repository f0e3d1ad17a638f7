/* action.h -- all outputs of the controller's core.
 *
 * The shell performs the actions of a step strictly in their order.  A step has at most one
 * PERSIST, and it comes first: what follows it (in this step and in later ones) may be performed
 * only once that transaction is durable, because answers and messages tell the world what the core
 * has only decided.  When a PERSIST fails the shell drops the rest, answers every pending request
 * with UNAVAILABLE, closes the sessions and builds a new core from the store; the core itself never
 * undoes a step.
 *
 * Everything that an action points to belongs to the core and lives until the next
 * controller_step().
 *
 * Depends on: record.h, event.h, api/base/status.h.  Threads: plain data. */
#ifndef CONTROLLER_CORE_ACTION_H
#define CONTROLLER_CORE_ACTION_H

#include "api/base/status.h"
#include "controller/core/event.h"

enum action_kind {
    ACTION_PERSIST = 1,   /* Commit one transaction. */
    ACTION_REPLY,         /* Answer a request. */
    ACTION_SEND,          /* A message down a session. */
    ACTION_CLOSE_SESSION, /* End a session with a status. */
    ACTION_CHANGED,       /* An object changed, for watches. */
    ACTION_LOG, /* A line was added to the event log (the PERSIST stored it), for followers. */
    ACTION_WAIT_DONE,      /* Answer a wait. */
    ACTION_NEW_GENERATION, /* The store went back: raise its generation above this, then build a new
                              core. */
};

/* The answer: a failure, or the object that the shell renders from view.h (OBJECT_NONE: nothing).
 */
struct action_reply {
    uint64_t handle;
    struct baton_status status;
    struct object_ref object;
    /* Of a BAD_FIELD refusal: path of the field ("spec.update.strategy"), for
     * google.rpc.BadRequest. */
    char field[RECORD_WORD_BYTES];
    uint64_t retry_ns; /* Of a refusal: when to try again; 0: not known. */
};

struct group_floor {
    char group[BATON_NAME_BYTES];
    uint64_t ticket_number;
    uint64_t owner_term;
};

struct welcome {
    struct epoch epoch;
    uint64_t lease_ms;
    const struct group_floor *floors; /* Only for a new journal incarnation. */
    size_t floors_count;
};

/* An agent that serves a version to its peers. */
struct holder {
    const char *agent;
    const char *address;
    bool last; /* It reads from the source that all share: only while no other can give it. */
};

struct holders {
    struct holder items[BATON_HOLDERS_MAX];
    uint32_t count;
};

struct group_goal {
    const char *group;
    const char *model;
    const struct version_record *target; /* Null: none. */
    const struct version_record *stage;  /* Null: none. */
    /* What it serves, to be kept landed so that a failed swap can be undone (rule 7); null: it is
     * the target, or no version of ours. */
    const struct version_record *restore;
    struct holders target_holders; /* Whom to pull each of them from; none: from its sources. */
    struct holders stage_holders;
    struct holders restore_holders;
    uint64_t owner_term;
    bool drain; /* The gate is to be shut, and to stay so. */
    bool sleep; /* Its engines are to sleep, behind shut gates. */
    uint64_t sleep_drain_ms;
};

/* A version that a group's leader tells a follower to land, and whom the follower may pull it from. */
struct follow_goal {
    const struct version_record *version;
    struct holders holders;
};

/* State of the world for one agent: a later one replaces an earlier one. */
struct goals {
    uint64_t revision;
    struct epoch epoch;
    const struct group_goal *groups; /* By name. */
    size_t groups_count;
    const char (*droppable)[BATON_DIGEST_TEXT_BYTES];
    size_t droppable_count;
    const struct follow_goal *follows; /* Each version once. */
    size_t follows_count;
};

struct ticket_send {
    const char *group;
    const struct ticket_record *ticket;
};

struct ticket_revoke {
    const char *group;
    char ticket_uid[BATON_UID_TEXT_BYTES];
    struct epoch epoch;
};

/* What is said to a group of a barrier; numbers as in api/proto BarrierWord. */
enum barrier_word { BARRIER_WORD_NONE, BARRIER_WORD_GO, BARRIER_WORD_CANCEL, BARRIER_WORD_OPEN };

struct barrier_order {
    const char *group;
    char ticket_uid[BATON_UID_TEXT_BYTES];
    struct epoch epoch;
    enum barrier_word word;
};

struct outcome_stored {
    char group[BATON_NAME_BYTES];
    char ticket_uid[BATON_UID_TEXT_BYTES];
};

enum send_kind {
    SEND_WELCOME = 1,
    SEND_GOALS,
    SEND_TICKET,
    SEND_REVOKE,
    SEND_OUTCOME_STORED,
    SEND_BARRIER
};

struct action_send {
    uint64_t session;
    enum send_kind kind;
    union {
        struct welcome welcome;
        struct goals goals;
        struct ticket_send ticket;
        struct ticket_revoke revoke;
        struct outcome_stored stored;
        struct barrier_order barrier;
    } message;
};

struct action_close {
    uint64_t session;
    struct baton_status status;
};

/* Numbers as in api/proto WatchEventType. */
enum change_kind { CHANGE_ADDED = 1, CHANGE_MODIFIED, CHANGE_DELETED };

struct action_changed {
    enum change_kind change;
    struct object_ref object;
    uint64_t revision;
    /* The record as it was, when DELETED (the view no longer has it); else the record. */
    struct record_ref record;
};

/* Numbers as in api/proto WaitOutcome. */
enum wait_outcome {
    WAIT_OUTCOME_MET = 1,
    WAIT_OUTCOME_HELD,
    WAIT_OUTCOME_SUSPENDED,
    WAIT_OUTCOME_UNDONE,
    WAIT_OUTCOME_ABORTED,
    WAIT_OUTCOME_QUARANTINED,
    WAIT_OUTCOME_ROLLED_BACK
};

struct action_wait_done {
    uint64_t handle;
    enum wait_outcome outcome;
    char message[BATON_TEXT_BYTES];
    uint64_t seq;
};

struct action {
    enum action_kind kind;
    union {
        struct transaction persist;
        const struct action_reply *reply;
        struct action_send send;
        const struct action_close *close;
        struct action_changed changed;
        const struct log_entry *log;
        const struct action_wait_done *wait_done;
        uint64_t generation_floor;
    } body;
};

#endif /* action.h */
