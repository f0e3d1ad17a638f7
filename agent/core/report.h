/* report.h -- the agent's groups, engines and outcomes in the words of the session.
 *
 * Depends on: state.h.  Threads: one.  Ownership: what is built is scratch: until the next step. */
#ifndef AGENT_CORE_REPORT_H
#define AGENT_CORE_REPORT_H

#include "agent/core/state.h"

/* All that the agent knows, for a new session. */
/* Pushes STATUS: all groups, for an operator at this node. */
void report_status(struct agent *agent);
void report_hello(struct agent *agent);

/* The engines of a group, those of its followers included, and what they say together. */
void report_engines(struct agent *agent, const struct group *group, struct agent_group_report *out);

/* What changed since the last report. */
void report_changes(struct agent *agent);

#endif /* report.h */
