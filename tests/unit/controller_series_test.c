/* controller_series_test.c -- lag over time, through restarts and set-back clocks; what keeping up costs. */
#include <criterion/criterion.h>
#include <string.h>

#include "controller/core/series.h"
#include "controller/core/staleness.h"
#include "tests/unit/controller_world.h"

static struct world *start(const char *trigger)
{
    struct world *world = world_new();
    struct policy_spec spec = { .trigger = trigger };
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st));
    cr_assert_eq(world_publish(world, "m"), 1);
    world_fleet(world, "m", 2);
    (void)world_verb(world, REQUEST_ROLL_START, "m", 0);
    world_play(world);
    world->check_every = 20;
    return world;
}

static uint32_t series(const struct world *world, uint32_t tier, struct series_point *out)
{
    return view_series(world->core, view_model_find(world->core, "m"), tier, 0, out);
}

Test(series, a_point_every_ten_seconds)
{
    static struct series_point points[4096];
    struct world *world = start("Manual");
    world_pass(world, 35 * SEC);
    uint32_t before = series(world, 0, points);
    cr_assert_geq(before, 3);
    cr_assert_leq(before, 4);
    cr_assert_eq(points[before - 1].max_publishes, 0);
    cr_assert_eq(points[before - 1].groups, 2);
    cr_assert_eq(world_publish(world, "m"), 2);
    cr_assert_eq(world_publish(world, "m"), 3);
    world_pass(world, 10 * SEC);
    uint32_t after = series(world, 0, points);
    cr_assert_eq(after, before + 1);
    cr_assert_eq(points[after - 1].max_publishes, 2);
    cr_assert_eq(points[after - 1].newest_seq, 3);
    for (uint32_t i = 1; i < after; i++) {
        cr_assert_gt(points[i].slot, points[i - 1].slot, "oldest first");
    }
    world_free(world);
}

/* An hour of 10 s points, then minutes: each holds the largest of its ten-second points. */
Test(series, is_bounded_and_coarser_behind)
{
    static struct series_point points[4096];
    struct world *world = start("Manual");
    world->check_every = 500;
    for (int hour = 0; hour < 3; hour++) {
        world_pass(world, 3600 * SEC);
        (void)world_publish(world, "m");
    }
    world_pass(world, 120 * SEC);
    uint32_t fine = series(world, 0, points);
    cr_assert_geq(fine, 350, "%u", fine);
    cr_assert_leq(fine, series_points_max(0));
    uint32_t minutes = series(world, 1, points);
    cr_assert_geq(minutes, 178, "%u", minutes);
    cr_assert_leq(minutes, 184);
    cr_assert_eq(points[0].max_publishes, 0);
    cr_assert_eq(points[minutes - 1].max_publishes, 3);
    cr_assert_geq(points[minutes - 1].max_age_seconds, 3 * 3600);
    uint32_t tens = series(world, 2, points);
    cr_assert_geq(tens, 17);
    cr_assert_leq(tens, 19);
    world_free(world);
}

Test(series, outlives_the_controller)
{
    static struct series_point before[4096], after[4096];
    struct world *world = start("Manual");
    world_pass(world, 125 * SEC);
    uint32_t count = series(world, 0, before);
    world_restart(world);
    uint32_t kept = series(world, 0, after);
    cr_assert_geq(kept + 6, count, "at most the points of a minute are lost: %u of %u", kept,
                  count);
    cr_assert_gt(kept, 0);
    cr_assert(memcmp(before, after, kept * sizeof(before[0])) == 0);
    world_connect(world, world_agent(world, "a0"));
    world_connect(world, world_agent(world, "a1"));
    world->wall_ns -= 60 * SEC; /* The clock is set back: no point comes twice. */
    world_pass(world, 30 * SEC);
    cr_assert_eq(series(world, 0, after), kept);
    world_pass(world, 120 * SEC);
    kept = series(world, 0, after);
    for (uint32_t i = 1; i < kept; i++) {
        cr_assert_gt(after[i].slot, after[i - 1].slot);
    }
    world_free(world);
}

Test(series, since_and_widths)
{
    static struct series_point points[4096];
    struct world *world = start("Manual");
    uint32_t tier = 9;
    world_pass(world, 100 * SEC);
    const struct model_record *model = view_model_find(world->core, "m");
    uint32_t recent = view_series(world->core, model, 0, world->wall_ns - 35 * SEC, points);
    cr_assert_geq(recent, 3);
    cr_assert_leq(recent, 4);
    cr_assert(series_tier_of(600, &tier) && tier == 2);
    cr_assert_not(series_tier_of(30, &tier));
    world_free(world);
}

/* Two groups of 4 ranks, shut for 2 s each by a swap; a publish every 100 s. */
Test(cost, of_swaps_and_of_another_interval)
{
    struct world *world = start("OnPublish");
    const struct model_record *model = view_model_find(world->core, "m");
    struct sync_cost cost;
    cr_assert_not(view_sync_cost(world->core, model, world->wall_ns, &cost), "joins are no cost");
    world_agent(world, "a0")->by_hand = true;
    world_agent(world, "a1")->by_hand = true;
    for (int i = 0; i < 4; i++) {
        uint64_t seq = world_publish(world, "m");
        world_pass(world, 10 * SEC);
        for (uint32_t g = 0; g < 2; g++) {
            const char *name = g == 0 ? "g0" : "g1";
            struct played_group *group = world_group(world, name);
            struct played_agent *agent = world_agent(world, g == 0 ? "a0" : "a1");
            group->engine.world_size = 4;
            group->report.state = GROUP_STATE_STAGED;
            group->report.staging_seq = seq;
            group->report.staged_bytes = 1000;
            group->report.can_restore = true;
            world_report(world, agent, NULL, 0);
            cr_assert(group->has_ticket, "%s", name);
            struct ticket_outcome outcome = world_outcome(group, SWAP_OUTCOME_COMMITTED);
            outcome.record.phases.pause_ns = SEC / 2;
            outcome.record.phases.apply_ns = 3 * SEC / 2;
            outcome.record.phases.shut_ns = 2 * SEC;
            group->has_ticket = false;
            group->report.state = GROUP_STATE_SERVING;
            group->report.committed_seq = seq;
            memcpy(group->report.committed_digest, outcome.committed_digest,
                   sizeof(outcome.committed_digest));
            world_report(world, agent, &outcome, 1);
        }
        world_pass(world, 90 * SEC);
    }
    cr_assert(view_sync_cost(world->core, model, world->wall_ns, &cost));
    cr_assert_eq(cost.swaps, 8);
    cr_assert_float_eq(cost.mean_shut_s, 2, 1e-9);
    cr_assert_float_eq(cost.phases[1].mean_s, 1.5, 1e-9);
    cr_assert_float_eq(cost.mean_delay_s, 10, 1e-6);
    cr_assert_float_eq(cost.gpu_s_per_hour, 8 * 2 * 4 * 3600 / cost.window_s, 1e-6);
    cr_assert_eq(cost.tokens_lost_per_hour, 0, "no tokens were reported, so none are told");
    cr_assert_float_eq(cost.publish_interval_s, cost.window_s / cost.publishes, 1e-9);
    struct cost_forecast half = cost_forecast_of(&cost, 0.5);
    struct cost_forecast same = cost_forecast_of(&cost, 1);
    cr_assert_float_eq(half.gpu_s_per_hour, 2 * same.gpu_s_per_hour, 1e-6);
    cr_assert_float_eq(half.sync_share, 2 * same.sync_share, 1e-9);
    cr_assert_float_eq(same.mean_age_s, 10 + cost.publish_interval_s / 2, 1e-6);
    cr_assert_float_eq(half.mean_lag_publishes, 2 * same.mean_lag_publishes, 1e-9);
    world_pass(world, 70 * SEC);
    world_restart(world);
    model = view_model_find(world->core, "m");
    struct sync_cost again;
    cr_assert(view_sync_cost(world->core, model, world->wall_ns, &again));
    cr_assert_eq(again.swaps, 8, "kept across a restart");
    world_pass(world, 2 * 3600 * SEC);
    cr_assert_not(view_sync_cost(world->core, model, world->wall_ns, &again), "an hour at most");
    world_free(world);
}
