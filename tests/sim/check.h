/* check.h -- the truth: what must hold after every step, by code that shares nothing with the cores.
 *
 * It sees what really is (which rank of which engine holds what, which gates are open, what bytes
 * journals and store hold, which packets arrived) and keeps its own books of it in struct world.
 * Numbers 1 to 12 are the invariants of the design.
 *
 * Depends on: world.h.  Ownership: none. */
#ifndef TESTS_SIM_CHECK_H
#define TESTS_SIM_CHECK_H

#include "tests/sim/world.h"

enum check {
    CHECK_ASSERT = 0,    /* A core's own assertion. */
    CHECK_MIXED = 1,     /* 1: an open gate serves exactly what was committed. */
    CHECK_ALL_RANKS = 2, /* 2: no gate opens before all ranks are there. */
    CHECK_COMMIT = 3,    /* 3: the version changes at COMMIT only; labels follow. */
    CHECK_BUDGET = 4,
    CHECK_VERIFIED = 5, /* 5: nothing serves that was not verified in its present life. */
    CHECK_RETENTION = 6,
    CHECK_OLD_OR_NEW = 7, /* 7: an outcome tells what the ranks hold. */
    CHECK_MONOTONE = 8,
    CHECK_FENCING = 9,
    CHECK_INTENT = 10, /* 10: no acknowledged publish or verb is lost. */
    CHECK_PAUSE = 11,  /* 11: no pause beyond its bounds. */
    CHECK_AIM = 12,    /* 12: a ticket is never re-aimed; it starts from the reported version. */
    CHECK_KV,          /* Part of 1: cached KV is of the weights that serve. */
    CHECK_ORDER,       /* Rule 1: journal before effect; store before message. */
    CHECK_OUTCOME,     /* A ticket's outcome arrives as it was. */
    CHECK_REASON,      /* A waiting group has a blocked reason, and it is true. */
    CHECK_STALENESS,   /* Lag equals what the published versions say. */
    CHECK_ADMISSION,   /* A group that is said to be ready serves what is said, or nobody. */
    CHECK_SLEEP,       /* Who is said to sleep released its memory. */
    CHECK_ROUTER,      /* Routers acknowledge before a pause, and are told of each way back. */
    CHECK_PROGRESS,    /* Once faults cease, everything converges. */
    CHECK_STORE,       /* Store, core and rebuilt core agree. */
    CHECK_SAMPLES,     /* Samples are judged, and counted once. */
    CHECK_MODELS,      /* Nothing of one model reaches the other. */
    CHECK_TIME,        /* No core asks for a time that has passed, for ever. */
    CHECK_COUNT
};

const char *check_name(int check);

/* After every step. */
void check_world(struct world *world);
/* A record reached the journal's disk. */
void check_journal(struct world *world, struct node *node, const struct journal_record *record);
/* The agent begins an operation. */
void check_op(struct world *world, struct node *node, const struct agent_op *op);
/* A member tells its leader that it carried out the command of this step. */
void check_obeyed(struct world *world, const struct node *node, struct group_model *group,
                  uint64_t step);
/* A gate was just opened in truth. */
void check_opened(struct world *world, struct group_model *group, struct engine_model *engine);
/* Within a barrier it was just opened: no answer of the new version is given while another group may
 * still give one of the old. */
void check_barrier(struct world *world, const struct open_ticket *ticket, const char *name);
/* How far its engines are asleep was written. */
void check_slept(struct world *world, struct group_model *group,
                 const struct journal_record *record);
/* A client is told that all of its model who are to sleep do. */
void check_asleep(struct world *world, uint32_t model);
/* What routers are asked, and how far that came before a pause, or before it is over. */
void check_hooks_accepted(struct open_ticket *open, const struct agent_ticket *ticket);
void check_hook_called(struct world *world, const struct node *node,
                       const struct agent_hook_call *call);
void check_hook_ended(struct world *world, struct node *node, uint64_t id, bool ok);
void check_drained(struct world *world, const struct group_model *group, const char *name);
void check_routers_told(struct world *world, const struct group_model *group, const char *name);
/* An agent deletes a version. */
void check_drop(struct world *world, struct node *node, uint32_t content);
/* An agent's message goes out. */
/* The journal is lost, and the open ticket with it; but what a live swap left resident stays so. */
void check_lost(struct group_model *group);
void check_told(struct world *world, struct node *node, const struct agent_group_report *report);
/* An agent took goals of this epoch over. */
void check_goals(struct world *world, struct node *node, const struct agent_goals *goals);
/* A transaction is about to be applied to the store; 'head' wrote it. */
void check_transaction(struct world *world, struct head *head,
                       const struct transaction *transaction);
/* It was applied. */
void check_committed(struct world *world, struct head *head, const struct transaction *transaction);
/* A controller sends. */
void check_send(struct world *world, struct head *head, const struct action_send *send);
/* After each step of a controller. */
void check_head(struct world *world, struct head *head);
/* A state of a group in which it answers requests. */
bool check_serves(enum group_state state);
/* Why it says that a group waits. */
void check_reason(struct world *world, const struct head *head, const struct group_record *group,
                  const struct group_status *status);
/* What it shows of staleness, and of who is ready. */
void check_lag(struct world *world, const struct group_record *group,
               const struct group_status *status);
void check_summary(struct world *world, const struct head *head, uint32_t of);
void check_admission(struct world *world, const struct head *head,
                     const struct group_record *group);
/* A session was sent to the groups of this version. */
void check_session(struct world *world, const struct call *call, uint64_t seq);
/* What an operator at a node is told. */
void check_status(struct world *world, const struct node *node,
                  const struct agent_node_status *status);
/* A controller heard a packet: our books of what it knows. */
void check_heard(struct head *head, uint32_t node, const struct event *event, uint64_t now_ns);
/* A controller answered a client with success. */
void check_answer(struct world *world, const struct call *call, const struct action_reply *reply);
/* Publishes from one version back to another one, parent by parent; false: not on that way. */
struct check_path {
    uint64_t newest;
    uint64_t served;
};
bool check_publishes(const struct world *world, uint32_t model, const struct check_path *path,
                     uint64_t *out);
/* A client asks what to think of samples, and then reports them. */
void check_judged(struct world *world, const struct head *head, const struct call *call);
/* A call about samples or slots was stored; a version was published; the counts were stored. */
void check_counted(struct world *world, const struct call *call);
void check_consumed(struct world *world, uint32_t model);
void check_counts(struct world *world, const struct transaction *transaction);
/* Nothing of one model reaches the other: versions, tickets, verbs, answers, slots. */
void check_models_sent(struct world *world, const struct action_send *send);
void check_models_op(struct world *world, const struct agent_group_config *config,
                     const struct agent_op *op);
void check_models_told(struct world *world, const struct agent_group_report *report);
void check_models_journal(struct world *world, const struct node *node,
                          const struct journal_record *record);
/* A controller begins a step; and what it stores in it. */
void check_models_asked(const struct world *world, struct head *head, const struct event *event);
void check_models_stored(struct world *world, const struct head *head,
                         const struct transaction *transaction);
void check_models_answer(struct world *world, const struct call *call,
                         const struct object_ref *object);
void check_models_refused(const struct world *world, const struct call *call);
void check_models_shown(struct world *world, const struct head *head);
/* All quiet: everything must have converged.  Returns true, or false and why not yet. */
bool check_converged(struct world *world, char *why, size_t why_bytes);
/* All quiet without an operator: whatever waits says truly why. */
void check_quiet(struct world *world);
/* Our own reckoning of groups of one model that are away; 'max': what the policy allows. */
uint32_t check_away(const struct world *world, const struct head *head, uint32_t model,
                    uint32_t *max);

/* By our own reckoning of what this controller was told. */
bool check_sleeps(const struct world *world, const struct head *head,
                  const struct group_record *group);
/* Life that an incarnation's text names; 0: none. */
uint32_t check_life(const char *incarnation);
struct ticket_book *check_ticket_book(struct world *world, const char *uid);

#endif /* check.h */
