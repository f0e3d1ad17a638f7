/* schedule.h -- which groups an event concerns, why they wait, how many may be away, who goes first, and their tickets; steps,
 * checks and soaks.
 *
 * A part of core.h, which includes it after the objects.
 *
 * Depends on: core.h.  Threads: one.  Ownership: everything is the core's. */
#ifndef CONTROLLER_CORE_SCHEDULE_H
#define CONTROLLER_CORE_SCHEDULE_H

/* --- touch.c --- */
/* Null if its model does not exist. */
struct model *group_model(const struct controller *core, struct group *group);
/* The agent that leads it; null if there is none. */
struct agent *group_agent(const struct controller *core, const struct group *group);
/* The model or its roll changed: all its groups are looked at. */
void model_touch(struct model *model);
/* Facts of this group alone changed. */
void group_touch(struct controller *core, struct group *group);
/* Adds to the groups that are looked at, without asking for another look at the model. */
void group_enlist(struct model *model, struct group *group);
void groups_enlist_all(struct controller *core, struct model *model);
/* The goals of 'agent' may have changed; null is fine. */
void goals_touch(struct controller *core, struct agent *agent);
/* What the group's members are to land may have changed. */
void goals_touch_group(struct controller *core, const struct group *group);

/* --- blocked.c --- */
enum blocked_reason blocked_reason_of(const struct controller *core, const struct model *model,
                                      const struct group *group);
void blocked_explain(const struct controller *core, const struct group *group,
                     enum blocked_reason reason, char out[BATON_TEXT_BYTES]);

/* --- wait.c --- */
bool wait_group_converged(const struct group *group, uint64_t seq);
struct baton_status waits_register(struct controller *core, struct call *call);
void waits_cancel(struct controller *core, uint64_t handle);
void waits_settle(struct controller *core, struct model *model);

/* --- budget.c --- */
bool budget_counts(const struct group *group);
/* Brings the group's part in its model's counts up to date. */
void budget_recount(const struct controller *core, struct model *model, struct group *group);
/* Groups that may be away: the strictest of the policy and of the open tickets' ones. */
uint32_t budget_limit(const struct controller *core, const struct model *model);
/* Whether the counts are what counting all groups gives. */
bool budget_is_right(const struct controller *core, const struct model *model);
/* Whether one more available group may go away. */
bool budget_has_room(const struct model *model);

/* --- order.c --- */
/* Publishes between what the group serves and the newest version. */
uint64_t order_lag(const struct model *model, const struct group *group);
/* Sorts groups of a model: those of 'list' in its order, the others by the policy. */
void order_groups(const struct model *model, const char *list, struct group **items,
                  uint32_t count);
/* A group that was named to go before this one in the active roll, and will; null: none. */
const struct group *order_waits_for(const struct controller *core, const struct model *model,
                                    const struct group *group);
/* Enters the group among those that are ready for a ticket of the roll, or takes it out. */
void order_update(struct controller *core, const struct model *model, struct group *group);
/* Of the groups that were named to go first in the active roll, and will, the first one; null: none. */
const struct group *order_first(const struct controller *core, const struct model *model);
/* What holds all groups of the active roll back may have changed: those whose reason did are shown. */
void order_show(struct controller *core, struct model *model);
/* The group goes. */
void order_forget(struct controller *core, struct group *group);
/* The ready one that goes i-th, from 0; null: there are not so many. */
struct group *order_at(const struct controller *core, const struct model *model, uint32_t i);

/* --- tickets.c --- */
/* Whether the group waits for nothing but the budget. */
bool ticket_is_ready(const struct controller *core, const struct model *model,
                     const struct group *group);
bool ticket_is_rejoin_ready(const struct controller *core, const struct model *model,
                            const struct group *group);
/* A ticket of a roll's barrier. */
void ticket_issue_barrier(struct controller *core, struct model *model, struct group *group);
/* Issues all tickets that may be issued now. */
void tickets_issue(struct controller *core, struct model *model);
void tickets_take_outcome(struct controller *core, struct agent *agent,
                          const struct ticket_outcome *outcome);
/* No outcome can come any more (the agent's journal was lost, the group retired). */
void ticket_close_lost(struct controller *core, struct group *group, enum swap_outcome outcome,
                       const char *why);
uint64_t ticket_fingerprint(const struct ticket_record *ticket);

/* --- barrier.c --- */
/* Issues the tickets of the active roll's barrier once all groups are ready. */
void barrier_begin(struct controller *core, struct model *model);
/* Decides what the groups' reports allow to decide. */
void barrier_settle(struct controller *core, struct model *model);
/* Tells the group what was decided for it, if anything was. */
void barrier_tell(struct controller *core, struct group *group);
/* After a start: finds the barriers that are under way. */
void barrier_load(struct controller *core, struct model *model);
/* The version that a group which is away joins at because of a barrier; 0: none. */
uint64_t barrier_target(const struct controller *core, const struct model *model,
                        const struct group *group);
/* Whether the group is shut in the barrier of 'roll'. */
bool barrier_is_shut(const struct controller *core, const struct roll *roll,
                     const struct group *group);
/* Whether an ended roll is still needed for its barrier. */
bool barrier_needs(const struct controller *core, const struct roll *roll);
void barrier_explain(const struct controller *core, const struct model *model,
                     char out[BATON_TEXT_BYTES]);
/* What the group adds to its model's 'together'. */
struct barrier_count barrier_part_of(const struct controller *core, const struct model *model,
                                     const struct group *group);
void barrier_check(const struct model *model);
void barrier_check_group(const struct controller *core, const struct group *group);

/* --- canary.c: the steps of a roll --- */
/* Sets the canary members of a roll that begins. */
void canary_begin(const struct model *model, struct roll_record *roll);
bool canary_is_over(const struct model *model, const struct roll *roll);
/* Goes as far as the active roll of 'total' groups may. */
void canary_settle(struct controller *core, struct model *model, uint32_t total);
/* Groups of 'total' that may have begun by the end of a step. */
uint32_t canary_groups(const struct canary_step *step, uint32_t total);
/* Passes the present step whatever it waits for. */
void canary_next(struct controller *core, struct model *model);
/* Counts how many more groups may begin ('room' of the active roll). */
void canary_count_room(struct model *model);
/* Whether the roll waits for people or for time, so that it cannot be late. */
bool canary_stops_clock(const struct model *model, const struct roll *roll);
void canary_explain(const struct controller *core, const struct model *model,
                    char out[BATON_TEXT_BYTES]);

/* --- checks.c: the quality conditions of a step --- */
/* Forgets what was reported: another step begins. */
void checks_clear(struct roll *roll);
/* The step's groups serve from now on: good numbers from before say nothing about them. */
void checks_begin(const struct model *model, struct roll *roll);
/* Verdict of the checks of the present step. */
enum check_state checks_verdict(struct controller *core, struct model *model);
/* Whether a person must decide, and nothing else is pending. */
bool checks_wait_for_people(const struct model *model, const struct roll *roll);
void checks_explain(const struct model *model, const struct roll *roll, enum check_state state,
                    char out[BATON_TEXT_BYTES]);
struct baton_status checks_report(struct controller *core, struct call *call);
void checks_measured(struct controller *core, const struct metric_answer *answer);

/* --- soak.c: a swapped group keeps its slot until it has served for a while --- */
void soak_begin(struct controller *core, const struct model *model, struct group *group);
void soak_settle(struct controller *core, struct model *model);
/* Looks at groups whose soak is over by now. */
void soak_check(struct controller *core);
/* The group goes. */
void soak_forget(struct controller *core, struct group *group);
void soak_explain(const struct controller *core, const struct model *model,
                  const struct group *group, char out[BATON_TEXT_BYTES]);

#endif /* schedule.h */
