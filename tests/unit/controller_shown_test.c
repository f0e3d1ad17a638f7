/* controller_shown_test.c -- a core that only shows what is stored: all that the records say, and nothing that only a
 * leader knows. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/controller_world.h"

/* A fleet of two that serves version 1, with a roll to version 2 of which one group is done and one has its ticket. */
static struct world *rolling(void)
{
    struct policy_spec spec = { .max_unavailable = "1" };
    struct world *world = world_new();
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(world_publish(world, "m"), 1);
    world_fleet(world, "m", 2);
    world_play(world);
    cr_assert_eq(world_publish(world, "m"), 2);
    for (int i = 0; i < 200 && world_committed(world, "g0") + world_committed(world, "g1") < 3;
         i++) {
        (void)world_play_once(world, (uint32_t)i % 2);
    }
    for (int i = 0; i < 200 && world_tickets(world) == 0; i++) {
        (void)world_play_once(world, (uint32_t)i % 2);
    }
    cr_assert_eq(world_tickets(world), 1);
    return world;
}

Test(controller_shown, records_are_as_the_leader_has_them)
{
    struct world *world = rolling();
    struct controller *shown = world_shown(world);
    cr_assert(!view_is_started(shown) && view_is_started(world->core));
    cr_assert_eq(view_revision(shown), world->revision);
    cr_assert_eq(controller_deadline_ns(shown), UINT64_MAX);
    const struct model_record *model = view_model_find(shown, "m");
    cr_assert_eq(model->newest_seq, 2);
    cr_assert_eq(model->promoted_seq, view_model_find(world->core, "m")->promoted_seq);
    cr_assert_eq(view_versions_count(shown), 2);
    cr_assert_eq(view_rolls_count(shown), view_rolls_count(world->core));
    cr_assert_eq(view_groups_count(shown), 2);
    cr_assert_eq(view_swaps_count(shown), view_swaps_count(world->core));
    for (uint32_t i = 0; i < 2; i++) {
        const struct group_record *ours = view_group_at(shown, i);
        const struct group_record *theirs = view_group_find(world->core, ours->name);
        cr_assert_eq(ours->committed_seq, theirs->committed_seq);
        cr_assert_eq(ours->ticket_open, theirs->ticket_open);
    }
    world_free(world);
}

/* The leader's view of the same moment has more: reports, lag, conditions, what blocks. */
Test(controller_shown, what_only_a_leader_knows_is_left_out)
{
    struct world *world = rolling();
    struct controller *shown = world_shown(world);
    struct model_status model;
    struct group_status group;
    view_model_status(world->core, view_model_find(world->core, "m"), world->wall_ns, &model);
    cr_assert(model.conditions.ready.status != NULL && model.max_unavailable == 1);
    view_model_status(shown, view_model_find(shown, "m"), world->wall_ns, &model);
    cr_assert_str_eq(model.active_roll, "m-2");
    cr_assert(model.groups == 2 && model.groups_converged == 0 && model.max_lag_publishes == 0);
    cr_assert_null(model.conditions.ready.status);
    for (uint32_t i = 0; i < 2; i++) {
        const struct group_record *record = view_group_at(shown, i);
        view_group_status(shown, record, world->wall_ns, &group);
        cr_assert_eq(group.state, GROUP_STATE_UNKNOWN);
        cr_assert_eq(group.committed_seq, record->committed_seq);
        cr_assert(group.report == NULL && group.conditions.ready.status == NULL);
        cr_assert(group.lag_publishes == 0 && group.relation == 0 && group.blocked_reason == 0);
    }
    world_free(world);
}

/* A roll's course as far as it is stored: one group's commit, another one's open ticket. */
Test(controller_shown, a_roll_goes_by_its_stored_commits)
{
    struct world *world = rolling();
    struct controller *shown = world_shown(world);
    struct roll_status status;
    struct roll_group_status part;
    uint32_t swapping = 0;
    const struct roll_record *roll = view_roll_find(shown, "m", 0);
    view_roll_status(shown, roll, &status);
    cr_assert(status.groups_total == 2 && status.groups_done == 1 && status.groups_swapping == 1);
    for (uint32_t i = 0; i < 2; i++) {
        const struct group_record *group = view_group_at(shown, i);
        cr_assert(view_roll_group_status(shown, roll, group, &part));
        cr_assert_eq(part.state,
                     group->ticket_open ? ROLL_GROUP_STATE_SWAPPING : ROLL_GROUP_STATE_DONE);
        cr_assert_eq(part.blocked_reason, BLOCKED_NONE);
        swapping += part.state == ROLL_GROUP_STATE_SWAPPING;
    }
    cr_assert_eq(swapping, 1);
    world_play(world);
    shown = world_shown(world);
    roll = view_roll_find(shown, "m", 0);
    view_roll_status(shown, roll, &status);
    cr_assert(roll->ended_wall_ns != 0 && status.groups_done == 2 && status.groups_swapping == 0);
    world_free(world);
}
