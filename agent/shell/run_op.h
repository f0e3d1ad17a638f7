/* run_op.h -- one operation of the core, carried out by an adapter: the map between the two words.
 *
 * Depends on: agent/core/op.h, agent/engine/engine.h.  Threads: the engine's worker.
 * Ownership: all borrowed. */
#ifndef AGENT_SHELL_RUN_OP_H
#define AGENT_SHELL_RUN_OP_H

#include "agent/core/op.h"
#include "agent/engine/engine.h"

/* Blocks until the operation's deadline at most. 'landing' is the directory of op->digest. */
void run_op(const struct engine_adapter *adapter, struct engine *engine, const struct agent_op *op,
            const char *landing, struct agent_op_result *out);

#endif /* run_op.h */
