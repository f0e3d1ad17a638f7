/* agent_world_engine.h -- between the files of the agent's test world only; see agent_world.h. */
#ifndef TESTS_UNIT_AGENT_WORLD_ENGINE_H
#define TESTS_UNIT_AGENT_WORLD_ENGINE_H

#include "tests/unit/agent_world.h"

/* The operation's effect on the engine, and what the adapter would answer. */
void world_engine_perform(struct world_engine *engine, const struct agent_op *op, enum fault fault,
                          struct agent_op_result *result);
/* A new incarnation, on the boot weights, not paused, gate shut. */
void world_engine_boot(struct world_engine *engine);
/* Sends and receives for the controller; see agent_world_controller.c. */
void world_controller_perform(struct world *world, const struct agent_action *action);
/* The session's next step, if there is one. */
void world_controller_run(struct world *world);
/* The barrier's next words; see agent_world_barrier.c. */
void world_barrier_run(struct world *world);
/* No gate of the group may open yet. */
bool world_barrier_forbids(const struct world *world, uint32_t group);

#endif /* agent_world_engine.h */
