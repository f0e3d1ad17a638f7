/* controller_fleet_stats_test.c -- whose swaps the metrics page counts; see controller/shell/fleet_stats.h. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/metrics/metrics_page.h"
#include "controller/shell/fleet_stats.h"
#include "tests/unit/controller_world.h"

static void look(struct fleet_stats *stats, const struct controller *core)
{
    fleet_stats_run(stats, core, fleet_stats_deadline_ns(stats));
}

static void expect_committed(struct fleet_stats *stats, unsigned count)
{
    char line[80];
    struct metrics_page page = { .is_openmetrics = false };
    (void)snprintf(line, sizeof(line), "baton_controller_swaps_total{outcome=\"COMMITTED\"} %u\n",
                   count);
    fleet_stats_collect(&page, stats);
    cr_assert_not_null(strstr(page.text, line), "%s in: %s", line, page.text);
    page_free(&page);
}

static void swap_once(struct world *world)
{
    world_pass(world, SEC); /* No two swaps end at one time. */
    cr_assert_neq(world_publish(world, "m"), 0);
    world_play(world);
}

/* A leader that comes back does not count what the one between has counted: a sum over all would have it twice, and an alert
 * fire for what is long over. */
Test(controller_fleet_stats, swaps_count_once_whoever_leads)
{
    struct world *world = world_new();
    struct policy_spec spec = { .max_unavailable = "1" };
    struct fleet_stats *stats = fleet_stats_create();
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st), "%s", st.message);
    world_fleet(world, "m", 1);
    swap_once(world);
    look(stats, world->core);
    expect_committed(stats, 0);
    swap_once(world);
    look(stats, world->core);
    look(stats, world->core);
    expect_committed(stats, 1);
    look(stats, NULL);
    swap_once(world); /* Of another leader, from whose store this one then goes on. */
    look(stats, NULL);
    look(stats, world->core);
    expect_committed(stats, 1);
    world->wall_ns = baton_clock_wall_ns() + 60 * SEC;
    swap_once(world);
    look(stats, world->core);
    expect_committed(stats, 2);
    fleet_stats_destroy(stats);
    world_free(world);
}
