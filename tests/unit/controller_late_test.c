/* controller_late_test.c -- groups that are new to the store after their model's last roll. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/controller_world.h"

static const struct model_record *model(const struct world *world)
{
    return view_model_find(world->core, "m");
}

static void must_group(struct world *world, enum request_kind kind, const char *group)
{
    struct request request = { .kind = kind, .group = group };
    struct baton_status st = world_call(world, &request);
    cr_assert(baton_ok(&st), "%s", st.message);
}

static struct world *two_rolled(void)
{
    struct world *world = world_new();
    struct policy_spec spec = { .max_unavailable = "1", .progress_deadline_ms = 60000 };
    spec.roll.progress_action = "rollback";
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st));
    cr_assert_eq(world_publish(world, "m"), 1);
    world_fleet(world, "m", 2);
    world_play(world);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    cr_assert_eq(world_roll(world, "m", 0)->state, ROLL_STATE_COMPLETED);
    return world;
}

/* A replaced node comes with version 1 long after version 2 was rolled. */
static struct played_group *come_late(struct world *world, enum group_state state)
{
    struct played_agent *agent = world_agent(world, "late");
    struct played_group *group = world_add_group(agent, "late", "m");
    group->report.state = state;
    group->report.gate_open = state == GROUP_STATE_SERVING;
    group->report.committed_seq = 1;
    memcpy(group->report.committed_digest, view_version_find(world->core, "m", 1)->digest,
           BATON_DIGEST_TEXT_BYTES);
    cr_assert(world_connect(world, agent), "%s", agent->closed.message);
    return group;
}

/* It has a roll of its own, within the budget, and says why it waits. */
Test(late, group_that_serves_catches_up)
{
    struct world *world = two_rolled();
    must_group(world, REQUEST_GROUP_DRAIN, "g0");
    world_play(world);
    struct played_group *group = come_late(world, GROUP_STATE_SERVING);
    cr_assert_neq(world_blocked(world, "late"), BLOCKED_NONE);
    world_play(world);
    cr_assert_eq(world_blocked(world, "late"), BLOCKED_BUDGET_FULL, "another group is away");
    cr_assert_eq(group->report.committed_seq, 1);
    must_group(world, REQUEST_GROUP_UNCORDON, "g0");
    world_play(world);
    cr_assert_eq(group->report.committed_seq, 2);
    cr_assert_eq(world_blocked(world, "late"), BLOCKED_NONE);
    cr_assert_eq(world_roll(world, "m", 0)->state, ROLL_STATE_COMPLETED);
    cr_assert_eq(model(world)->promoted_seq, 2);
    cr_assert_eq(model(world)->previous_promoted_seq, 1, "nothing new was promoted");
    cr_assert_not(world_record(world, "late")->late);
    world_free(world);
}

/* It does not serve the old version first. */
Test(late, group_joins_at_the_promoted_version)
{
    struct world *world = two_rolled();
    uint64_t rolls = model(world)->last_roll_number;
    struct played_group *group = come_late(world, GROUP_STATE_JOINING);
    cr_assert_eq(group->goal_target_seq, 2);
    world_play(world);
    cr_assert_eq(group->report.committed_seq, 2);
    cr_assert_eq(model(world)->last_roll_number, rolls, "by a rejoin ticket");
    world_free(world);
}

/* A pinned one that goes away comes back with what it is pinned at. */
Test(late, pinned_group_comes_back_as_it_was)
{
    struct world *world = two_rolled();
    must_group(world, REQUEST_GROUP_DRAIN, "g0"); /* So that it has no room to catch up yet. */
    world_play(world);
    struct played_group *group = come_late(world, GROUP_STATE_SERVING);
    must_group(world, REQUEST_GROUP_PIN, "late");
    group->report.state = GROUP_STATE_OUT;
    group->report.gate_open = false;
    world_report(world, world_agent(world, "late"), NULL, 0);
    cr_assert_eq(group->goal_target_seq, 1);
    world_play(world);
    cr_assert_eq(world_record(world, "late")->last_swap.to_seq, 1);
    cr_assert_eq(group->report.committed_seq, 1);
    world_free(world);
}

/* A hold keeps it where it is, and is shown; a restart of the controller forgets nothing. */
Test(late, group_waits_for_a_hold)
{
    struct world *world = two_rolled();
    struct request hold = { .kind = REQUEST_MODEL_HOLD,
                            .model = "m",
                            .options = { .reason = "an incident" } };
    struct baton_status st = world_call(world, &hold);
    cr_assert(baton_ok(&st), "%s", st.message);
    struct played_group *group = come_late(world, GROUP_STATE_SERVING);
    world_play(world);
    cr_assert_eq(world_blocked(world, "late"), BLOCKED_MODEL_HELD);
    world_restart(world);
    for (uint32_t i = 0; i < world->agents_count; i++) {
        cr_assert(world_connect(world, &world->agents[i]));
    }
    world_play(world);
    cr_assert_eq(group->report.committed_seq, 1);
    st = world_verb(world, REQUEST_MODEL_RESUME, "m", 0);
    cr_assert(baton_ok(&st), "%s", st.message);
    world_play(world);
    cr_assert_eq(group->report.committed_seq, 2);
    world_free(world);
}

/* One that cannot be brought there is no reason to take the others back, nor is giving it up. */
Test(late, catch_up_takes_nothing_back)
{
    struct world *world = two_rolled();
    world_agent(world, "late")->by_hand = true;
    (void)come_late(world, GROUP_STATE_SERVING);
    world_pass(world, 120 * SEC);
    const struct roll_record *roll = world_roll(world, "m", 0);
    cr_assert_eq(roll->state, ROLL_STATE_PROGRESSING);
    cr_assert(roll->catches_up);
    cr_assert(roll->degraded);
    cr_assert_not(model(world)->held);
    struct baton_status st = world_verb(world, REQUEST_ROLL_ABORT, "m", 0);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(world_roll(world, "m", 0)->state, ROLL_STATE_ABORTED);
    cr_assert_not(view_version_find(world->core, "m", 2)->quarantined);
    cr_assert(model(world)->held, "else it began anew at once");
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 2);
    cr_assert_eq(world_committed(world, "g1"), 2);
    world_free(world);
}
