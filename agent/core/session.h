/* session.h -- what the agent and its controller say to each other.
 *
 * The last good goals stay when the controller goes away; nothing of a lower epoch is obeyed.
 * Reports carry what changed: at once for a change of state, at most each report_interval for
 * progress alone, at least each third of the lease.
 *
 * Depends on: state.h.  Threads: one.  Ownership: none. */
#ifndef AGENT_CORE_SESSION_H
#define AGENT_CORE_SESSION_H

#include "agent/core/state.h"

void session_on_opened(struct agent *agent);
void session_on_closed(struct agent *agent);
void session_on_welcome(struct agent *agent, const struct agent_event *event);
void session_on_goals(struct agent *agent, const struct agent_goals *goals);

/* Takes over what one group should serve and land; 'epoch': of the leadership that gave it.  False:
 * it is of an earlier leadership than was seen, and names a version that was not; nothing is taken. */
bool session_take_goal(struct agent *agent, const struct agent_group_goal *goal,
                       struct agent_epoch epoch);

/* Journals a higher epoch before anything of it is obeyed. */
void session_raise_epoch(struct agent *agent, struct agent_epoch epoch);

/* Asks for the session once recovery is over; sends the report that is due. */
void session_advance(struct agent *agent);

/* When session_advance() has something to send by itself. */
uint64_t session_deadline_ns(const struct agent *agent);

#endif /* session.h */
