/* ops.h -- operations on engines: starting, ending, giving up; and looking after idle engines.
 *
 * At most one operation is under way for each engine.  The phase's operations have a part in the
 * phase; health checks, attaches and background read-backs run aside, in waits only.
 *
 * Depends on: state.h.  Threads: one.  Ownership: none. */
#ifndef AGENT_CORE_OPS_H
#define AGENT_CORE_OPS_H

#include "agent/core/state.h"

/* Starts the phase's operation on an idle engine. */
void ops_start_part(struct agent *agent, struct group *group, struct engine *engine);

/* Starts HEALTH, ATTACH or a READBACK of the committed version beside the phase, on an idle
 * engine. */
void ops_start_aside(struct agent *agent, struct engine *engine, enum agent_op_kind kind);

/* Gives up an operation that is under way; its part fails. */
void ops_abandon(struct agent *agent, struct group *group, struct engine *engine, const char *why);

/* Gives up what is overdue. */
void ops_expire(struct agent *agent, struct group *group);

/* Applies an OP_ENDED event; one that was given up before is ignored. */
void ops_on_ended(struct agent *agent, const struct agent_op_result *result);

/* The engine's incarnation is gone or cannot be reached: what was known of it no longer counts. */
void ops_lose(struct agent *agent, struct group *group, struct engine *engine, const char *why);

/* True if the engine has nothing under way. */
bool ops_is_idle(const struct engine *engine);

/* Remembers the first trouble of a swap, in words. */
BATON_PRINTF(2, 3) void group_trouble(struct group *group, const char *fmt, ...);

#endif /* ops.h */
