/* agent_hooks_test.c -- stories of routers that are told: before the gates close, and before they open. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/agent_world.h"

enum { BEFORE = AGENT_HOOK_BEFORE_PAUSE, AFTER = AGENT_HOOK_AFTER_PROBE };

static struct world *staged(void)
{
    struct world *world = world_create(1, 2, 1);
    world_serve(world, 1);
    world_goals(world, 0, 1, 2);
    world_run(world, S);
    struct agent_policy *policy = &world->groups[0].ticket.policy;
    policy->hooks_count = 2;
    policy->hooks[0] = (struct agent_hook){ AGENT_HOOK_AFTER_PROBE, "http://router/open", 2 * S };
    policy->hooks[1] = (struct agent_hook){ AGENT_HOOK_BEFORE_PAUSE, "http://router/drain", 2 * S };
    return world;
}

static const struct agent_swap_record *swap(struct world *world, uint64_t for_ns)
{
    world_ticket(world, 0, 2, false);
    world_run(world, for_ns);
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
    cr_assert(!world->groups[0].ticket_open, "the ticket has no outcome");
    return &world->groups[0].outcome;
}

/* Each is called once: the first with the gates open and the old version served, the second before
 * they open. */
Test(agent_hooks, called_in_their_places)
{
    struct world *world = staged();
    world_ticket(world, 0, 2, false);
    world_run(world, 5 * MS);
    cr_assert_eq(world->hooks[BEFORE], 1);
    cr_assert_eq(world->hook_serves, 1);
    cr_assert(world_serves(world, 0, 1), "it serves while the router drains");
    while (world->hooks[AFTER] == 0) {
        world_run(world, MS);
    }
    cr_assert_eq(world->hook_serves, 2);
    cr_assert(world_is_shut(world, 0));
    world_run(world, S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_COMMITTED);
    cr_assert(world_serves(world, 0, 2));
    cr_assert_eq(world->hooks[BEFORE], 1);
    cr_assert_eq(world->hooks[AFTER], 1);
    world_destroy(world);
}

/* A router that refuses, or never answers: nothing is touched, and it is told that all is as before. */
Test(agent_hooks, not_drained)
{
    for (int hang = 0; hang < 2; hang++) {
        struct world *world = staged();
        world->hooks_fail[BEFORE] = hang ? 0 : 1;
        world->hooks_hang[BEFORE] = hang ? 1 : 0;
        uint32_t pauses = world->engines[0][0].calls[AGENT_OP_PAUSE];
        const struct agent_swap_record *record = swap(world, 3 * S);
        cr_assert_eq(record->outcome, AGENT_OUTCOME_PAUSE_TIMEOUT);
        cr_assert(record->router_not_drained);
        cr_assert_not_null(strstr(record->message, "http://router/drain"));
        cr_assert_eq(world->engines[0][0].calls[AGENT_OP_PAUSE], pauses);
        cr_assert(world_serves(world, 0, 1));
        cr_assert_eq(world->hooks[AFTER], 1, "the router learns that it is served on");
        cr_assert_eq(world->hook_serves, 1);
        world_destroy(world);
    }
}

/* A router that cannot be told afterwards holds the gates up to the hook's deadline only. */
Test(agent_hooks, opens_all_the_same)
{
    for (int hang = 0; hang < 2; hang++) {
        struct world *world = staged();
        world->hooks_fail[AFTER] = hang ? 0 : 100;
        world->hooks_hang[AFTER] = hang ? 100 : 0;
        world_ticket(world, 0, 2, false);
        uint64_t began_ns = world->now_ns;
        while (!world_serves(world, 0, 2) && world->now_ns < began_ns + 10 * S) {
            world_run(world, 10 * MS);
        }
        cr_assert_lt(world->now_ns - began_ns, 3500 * MS);
        cr_assert(world_noted(world, "HookFailed"));
        cr_assert(hang == 1 || world->hooks[AFTER] > 2, "it is called again");
        world_run(world, S);
        cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_COMMITTED);
        cr_assert(world->violation[0] == '\0', "%s", world->violation);
        world_destroy(world);
    }
}

/* One that fails once is told by the second call. */
Test(agent_hooks, told_at_the_second_call)
{
    struct world *world = staged();
    world->hooks_fail[AFTER] = 1;
    cr_assert_eq(swap(world, 3 * S)->outcome, AGENT_OUTCOME_COMMITTED);
    cr_assert_eq(world->hooks[AFTER], 2);
    world_destroy(world);
}

/* A swap that goes back tells the routers that it drained: also when the agent died in between. */
Test(agent_hooks, told_of_the_way_back)
{
    for (int crash = 0; crash < 2; crash++) {
        struct world *world = staged();
        world_fault(&world->engines[0][1], AGENT_OP_PAUSE, crash ? FAULT_HANG : FAULT_FAIL, 1);
        world_ticket(world, 0, 2, false);
        world_run(world, S);
        if (crash) {
            world_crash(world);
            world_start(world);
        }
        world_run(world, 5 * S);
        cr_assert(world->violation[0] == '\0', "%s", world->violation);
        cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_PAUSE_TIMEOUT);
        cr_assert_not(world->groups[0].outcome.router_not_drained);
        cr_assert(world_serves(world, 0, 1));
        cr_assert_eq(world->hooks[AFTER], 1);
        cr_assert_eq(world->hook_serves, 1);
        world_destroy(world);
    }
}

/* An engine that dies while routers drain takes its group out; the ticket ends. */
Test(agent_hooks, engine_dies_while_routers_drain)
{
    struct world *world = staged();
    world->hooks_hang[BEFORE] = 1;
    world_ticket(world, 0, 2, false);
    world_run(world, 500 * MS);
    world_kill(world, 0, 1, true);
    world_run(world, S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_OUT);
    world_run(world, 60 * S);
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
    cr_assert(world_serves(world, 0, 1));
    world_destroy(world);
}
