/* agent_drain_test.c -- stories of groups that an operator drains: shut, untouched, and back. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/agent_world.h"

static void drain(struct world *world, bool drained)
{
    world->groups[0].drain = drained;
    world_goals(world, 0, world->groups[0].target_seq, world->groups[0].stage_seq);
    world_run(world, 2 * S);
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
}

static void expect_drained(const struct world *world)
{
    cr_assert(world_is_shut(world, 0));
    cr_assert_eq(world->groups[0].report.state, AGENT_GROUP_OUT);
    cr_assert_str_eq(world->groups[0].message, "drained");
    cr_assert_str_eq(world->groups[0].blocked, "GROUP_CORDONED");
}

/* The gate is shut, no engine is paused or changed; undrained it serves the same weights again after
 * they were read back, without a ticket. */
Test(agent_drain, shuts_and_comes_back_by_itself)
{
    struct world *world = world_create(1, 2, 1);
    world_serve(world, 1);
    uint32_t updates = world->engines[0][0].calls[AGENT_OP_UPDATE];
    uint32_t pauses = world->engines[0][0].calls[AGENT_OP_PAUSE];
    drain(world, true);
    expect_drained(world);
    world_run(world, 60 * S);
    expect_drained(world);
    uint32_t readbacks = world->engines[0][0].calls[AGENT_OP_READBACK];
    world->groups[0].auto_rejoin = false;
    drain(world, false);
    cr_assert(world_serves(world, 0, 1));
    cr_assert_eq(world->groups[0].report.state, AGENT_GROUP_SERVING);
    cr_assert_eq(world->engines[0][0].calls[AGENT_OP_UPDATE], updates);
    cr_assert_eq(world->engines[0][0].calls[AGENT_OP_PAUSE], pauses);
    cr_assert_gt(world->engines[0][0].calls[AGENT_OP_READBACK], readbacks);
    world_destroy(world);
}

/* It stays shut through the agent's restart, also while no controller answers. */
Test(agent_drain, survives_a_restart)
{
    struct world *world = world_create(1, 1, 1);
    world_serve(world, 1);
    drain(world, true);
    world_crash(world);
    world->controller_up = false;
    world_start(world);
    world_run(world, 30 * S);
    cr_assert(world_is_shut(world, 0));
    world->controller_up = true;
    world_run(world, 30 * S);
    expect_drained(world);
    drain(world, false);
    cr_assert(world_serves(world, 0, 1));
    world_destroy(world);
}

/* A drain never cuts a swap: it comes after it. */
Test(agent_drain, waits_for_the_swap)
{
    struct world *world = world_create(1, 1, 1);
    world_serve(world, 1);
    world_goals(world, 0, 1, 2);
    world_run(world, 5 * S);
    world_ticket(world, 0, 2, false);
    world_run(world, MS);
    cr_assert_eq(world->journal_counts[JOURNAL_ACCEPT], 2);
    drain(world, true);
    cr_assert_eq(world_committed(world, 0), 2);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_COMMITTED);
    expect_drained(world);
    world_destroy(world);
}

/* A ticket for a drained group is refused for good, so that the controller knows. */
Test(agent_drain, refuses_tickets)
{
    struct world *world = world_create(1, 1, 1);
    world_serve(world, 1);
    world_goals(world, 0, 1, 2);
    world_run(world, 5 * S);
    drain(world, true);
    world_ticket(world, 0, 2, true);
    world_run(world, S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_REFUSED);
    cr_assert_str_eq(world->groups[0].outcome.message, "the group is drained");
    expect_drained(world);
    world_destroy(world);
}

/* An engine that dies meanwhile is brought back, and the group stays shut. */
Test(agent_drain, lost_engine_changes_nothing)
{
    struct world *world = world_create(1, 2, 1);
    world_serve(world, 1);
    drain(world, true);
    world_kill(world, 0, 1, true);
    world_run(world, 120 * S);
    cr_assert(world_is_shut(world, 0));
    cr_assert(world->engines[0][1].up);
    expect_drained(world);
    drain(world, false);
    world_run(world, 30 * S);
    cr_assert(world_serves(world, 0, 1));
    world_destroy(world);
}
