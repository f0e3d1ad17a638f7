/* goals.h -- what agents should have and may delete, also those that follow in groups of others.
 *
 * A part of core.h, which includes it after the objects.
 *
 * Depends on: core.h.  Threads: one.  Ownership: everything is the core's. */
#ifndef CONTROLLER_CORE_GOALS_H
#define CONTROLLER_CORE_GOALS_H

/* --- goals.c --- */
/* Renders the goals of 'agent' into 'out'; false if they are the last ones sent. */
bool goals_render(struct controller *core, struct agent *agent, struct goals *out);
bool agent_is_source(const struct agent *agent, const struct version *version);

/* Whether a version's bytes are needed by 'agent'. */
bool goals_keep(const struct controller *core, const struct agent *agent,
                const struct version *version);

/* Version that it serves, to be kept landed as what a failed swap goes back to; null: it is the target, or no version
 * of ours. */
const struct version *group_restore(const struct controller *core, const struct group *group,
                                    const struct version *target);

/* --- strays.c: landed bytes that are of no version of ours --- */
/* Whether the agent's i-th landed digest, which is unknown, may go; looks again when its time is over. */
bool stray_may_go(struct controller *core, struct agent *agent, uint32_t i);
/* Its goals may be others by now. */
void strays_settle(struct controller *core);

/* --- follow.c --- */
/* Replaces the groups that the agent follows. */
void follow_take(struct controller *core, struct agent *agent, const struct session_hello *hello);
/* The group is known from now on; and no longer. */
void follow_note_group(struct controller *core, struct group *group);
void follow_forget_group(struct controller *core, struct group *group);
/* The group's leader names the agent as one that follows; its own word gives it no part in a group of others. */
bool follow_is_named(const struct group *group, const struct agent *agent);
/* The leader names other ones than before. */
void follow_note_members(struct controller *core, const struct group *group);
/* What the leaders of the groups that it follows tell it to land, of which peers have something; returns how many, at
 * most BATON_FOLLOWED_VERSIONS_MAX. */
size_t follow_render(const struct controller *core, const struct agent *agent,
                     struct follow_goal *out);

#endif /* goals.h */
