/* agent_fleet_barrier_test.c -- a group of several agents in a barrier: its followers' gates, too, open on the controller's word
 * only, whichever agent dies in between. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/agent_fleet.h"

enum { AGENTS = 3 };

static struct world *leader(const struct fleet *fleet)
{
    return fleet->worlds[0];
}

static enum agent_barrier_stand stand(const struct fleet *fleet)
{
    return leader(fleet)->groups[0].report.barrier;
}

/* All agents serve version 1; the group promised to be shut, and the other groups of the barrier are not there yet. */
static struct fleet *promised(void)
{
    struct fleet *fleet = fleet_create(AGENTS, 1, 1);
    fleet_serve(fleet, 1);
    leader(fleet)->barrier.by_hand = true;
    world_goals(leader(fleet), 0, 1, 2);
    fleet_run(fleet, 3 * S);
    world_barrier(leader(fleet), 2);
    fleet_run(fleet, S);
    cr_assert_eq(stand(fleet), AGENT_BARRIER_STAND_SHUT);
    return fleet;
}

/* No gate of any agent is open at any time. */
static void run_shut(struct fleet *fleet, uint64_t duration_ns)
{
    for (uint64_t gone = 0; gone < duration_ns; gone += 5 * MS) {
        cr_assert(fleet_is_shut(fleet), "a gate opened without a word");
        fleet_run(fleet, 5 * MS);
    }
    cr_assert(fleet->violation[0] == '\0', "%s", fleet->violation);
}

/* Dies, and comes back after a while. */
static void restart(struct fleet *fleet, uint32_t agent)
{
    fleet_crash(fleet, agent);
    run_shut(fleet, S);
    fleet_start(fleet, agent);
    run_shut(fleet, S);
}

/* The other groups committed: what is out by now joins at the new version. */
static void open_all(struct fleet *fleet)
{
    world_barrier_say(leader(fleet), 0, AGENT_BARRIER_WORD_OPEN);
    world_goals(leader(fleet), 0, 2, 0);
    fleet_run(fleet, 60 * S);
    cr_assert(fleet->violation[0] == '\0', "%s", fleet->violation);
    cr_assert(fleet_serves(fleet, 2), "%s: %s",
              agent_group_state_name(leader(fleet)->groups[0].report.state),
              leader(fleet)->groups[0].message);
    fleet_destroy(fleet);
}

Test(fleet_barrier, all_members_wait_for_each_word)
{
    struct fleet *fleet = promised();
    run_shut(fleet, 2 * S);
    for (uint32_t i = 0; i < AGENTS; i++) {
        cr_assert_eq(world_committed(fleet->worlds[i], 0), 1, "nothing is touched before GO");
    }
    world_barrier_say(leader(fleet), 0, AGENT_BARRIER_WORD_GO);
    run_shut(fleet, 2 * S);
    cr_assert_eq(stand(fleet), AGENT_BARRIER_STAND_COMMITTED);
    for (uint32_t i = 0; i < AGENTS; i++) {
        cr_assert_eq(world_committed(fleet->worlds[i], 0), 2, "every member committed");
    }
    run_shut(fleet, 2 * S);
    open_all(fleet);
}

/* CANCEL: all members serve the old version again. */
Test(fleet_barrier, cancelled)
{
    struct fleet *fleet = promised();
    world_barrier_say(leader(fleet), 0, AGENT_BARRIER_WORD_CANCEL);
    fleet_run(fleet, 5 * S);
    cr_assert(fleet_serves(fleet, 1));
    cr_assert_eq(leader(fleet)->groups[0].outcome.outcome, AGENT_OUTCOME_PAUSE_TIMEOUT);
    fleet_destroy(fleet);
}

Test(fleet_barrier, a_member_dies_while_all_shut)
{
    for (uint32_t agent = 0; agent < AGENTS; agent++) {
        struct fleet *fleet = promised();
        restart(fleet, agent);
        world_barrier_say(leader(fleet), 0, AGENT_BARRIER_WORD_GO);
        run_shut(fleet, 5 * S);
        open_all(fleet);
    }
}

Test(fleet_barrier, a_member_dies_between_go_and_open)
{
    for (uint32_t agent = 0; agent < AGENTS; agent++) {
        for (uint64_t after_ns = 5 * MS; after_ns < 200 * MS; after_ns += 10 * MS) {
            struct fleet *fleet = promised();
            world_barrier_say(leader(fleet), 0, AGENT_BARRIER_WORD_GO);
            run_shut(fleet, after_ns);
            restart(fleet, agent);
            run_shut(fleet, 5 * S);
            open_all(fleet);
        }
    }
}
