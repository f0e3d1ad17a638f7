/* agent_fleet_peers_test.c -- a follower's leader says what to land, the controller from whom. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "tests/unit/agent_fleet.h"

/* Two agents of a group; the second, which follows, serves peers, and its leader is out of reach. */
static struct fleet *following(void)
{
    struct fleet *fleet = fleet_create(2, 1, 1);
    struct world *follower = fleet->worlds[1];
    (void)snprintf(follower->config.peer_address, sizeof follower->config.peer_address, "a1:7072");
    fleet_crash(fleet, 1);
    fleet_start(fleet, 1);
    fleet_serve(fleet, 1);
    fleet_run(fleet, 5 * S);
    cr_assert_eq(world_committed(follower, 0), 1);
    cr_assert(follower->session_open);
    fleet_break(fleet, 1, true);
    return fleet;
}

static void tell_stage(struct world *follower, uint64_t seq)
{
    static const struct agent_source source = { "file", "/checkpoint", "a0" };
    struct agent_version_goal stage = { .version = world_version(seq),
                                        .sources = &source,
                                        .sources_count = 1 };
    struct agent_version_goal target = { .version = world_version(1) };
    struct agent_peer_command watch = { .verb = AGENT_PEER_WATCH,
                                        .leader = "a0",
                                        .group = "g0",
                                        .model = "m",
                                        .fence = { follower->epoch, 1, 1,
                                                   UINT64_C(9) << 32 | follower->now_ns },
                                        .target = &target,
                                        .stage = &stage };
    world_event(follower,
                (struct agent_event){ .kind = AGENT_EVENT_PEER_COMMAND, .command = &watch });
}

static void tell_holders(struct world *follower, uint64_t seq, uint32_t count)
{
    static const struct agent_holder holders[2] = { { "a0", "a0:7072", true },
                                                    { "a2", "a2:7072", false } };
    struct agent_version_goal follow = { .version = world_version(seq),
                                         .holders = holders,
                                         .holders_count = count };
    struct agent_goals goals = { .revision = ++follower->goals_revision,
                                 .epoch = follower->epoch,
                                 .follows = &follow,
                                 .follows_count = 1 };
    world_event(follower, (struct agent_event){ .kind = AGENT_EVENT_GOALS, .goals = &goals });
}

/* Whoever of them speaks first: the version is asked of peers. */
Test(fleet_peers, the_controller_says_from_whom)
{
    struct fleet *fleet = following();
    struct world *follower = fleet->worlds[1];
    tell_holders(follower, 2, 2);
    tell_stage(follower, 2);
    cr_assert_eq(follower->lands[2], 1);
    cr_assert_eq(follower->land_holders[2], 2);
    world_run(follower, S);
    cr_assert(follower->landed[2]);
    tell_stage(follower, 3);
    cr_assert_eq(follower->lands[3], 0, "the controller's word is on its way");
    tell_holders(follower, 3, 1);
    cr_assert_eq(follower->lands[3], 1);
    cr_assert_eq(follower->land_holders[3], 1);
    fleet_destroy(fleet);
}

/* Without a word of the controller the sources are read, a moment later. */
Test(fleet_peers, a_silent_controller_is_not_waited_for)
{
    struct fleet *fleet = following();
    struct world *follower = fleet->worlds[1];
    tell_stage(follower, 3);
    cr_assert_eq(follower->lands[3], 0);
    world_run(follower, 2 * S);
    cr_assert_eq(follower->lands[3], 1);
    cr_assert_eq(follower->land_holders[3], 0);
    fleet_destroy(fleet);
}

/* A failed landing waits for its turn, however often the leader names the version. */
Test(fleet_peers, hints_do_not_hurry_what_failed)
{
    struct fleet *fleet = following();
    struct world *follower = fleet->worlds[1];
    follower->landing_fails[2] = 100;
    tell_holders(follower, 2, 2);
    tell_stage(follower, 2);
    for (int i = 0; i < 600; i++) {
        world_run(follower, 100 * MS);
        tell_stage(follower, 2);
    }
    cr_assert_gt(follower->lands[2], 2);
    cr_assert_lt(follower->lands[2], 20, "%u tries in a minute", follower->lands[2]);
    fleet_destroy(fleet);
}

/* Goals whose hints name no digest are refused whole. */
Test(fleet_peers, bad_hints_are_refused)
{
    struct fleet *fleet = following();
    struct world *follower = fleet->worlds[1];
    struct agent_version_goal follow = { .version = { .seq = 2, .digest = "none" } };
    struct agent_goals goals = { .revision = ++follower->goals_revision,
                                 .epoch = follower->epoch,
                                 .follows = &follow,
                                 .follows_count = 1 };
    uint32_t nacks = follower->nacks;
    world_event(follower, (struct agent_event){ .kind = AGENT_EVENT_GOALS, .goals = &goals });
    cr_assert_eq(follower->nacks, nacks + 1);
    tell_holders(follower, 0, BATON_HOLDERS_MAX + 1);
    cr_assert_eq(follower->nacks, nacks + 2, "a goal without seq is not looked through");
    fleet_destroy(fleet);
}
