/* controller_fleet_stats_test.c -- which swaps and agents the metrics page counts; see controller/shell/fleet_stats.h. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/metrics/metrics_page.h"
#include "controller/shell/fleet_stats.h"
#include "tests/unit/controller_world.h"

#define COMMITTED "swaps_total{outcome=\"COMMITTED\"}"

static void look(struct fleet_stats *stats, const struct controller *core)
{
    fleet_stats_run(stats, core, fleet_stats_deadline_ns(stats));
}

static void expect(struct fleet_stats *stats, const char *name, unsigned value)
{
    char line[96];
    struct metrics_page page = { .is_openmetrics = false };
    (void)snprintf(line, sizeof(line), "\nbaton_controller_%s %u\n", name, value);
    fleet_stats_collect(&page, stats);
    cr_assert_not_null(strstr(page.text, line), "%s in: %s", line, page.text);
    page_free(&page);
}

static struct world *start(uint32_t groups)
{
    struct world *world = world_new();
    struct policy_spec spec = { .max_unavailable = "1" };
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st), "%s", st.message);
    world_fleet(world, "m", groups);
    return world;
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
    struct world *world = start(1);
    struct fleet_stats *stats = fleet_stats_create();
    swap_once(world);
    look(stats, world->core);
    expect(stats, COMMITTED, 0);
    swap_once(world);
    look(stats, world->core);
    look(stats, world->core);
    expect(stats, COMMITTED, 1);
    look(stats, NULL);
    swap_once(world); /* Of another leader, from whose store this one then goes on. */
    look(stats, NULL);
    look(stats, world->core);
    expect(stats, COMMITTED, 1);
    world->wall_ns = baton_clock_wall_ns() + 60 * SEC;
    swap_once(world);
    look(stats, world->core);
    expect(stats, COMMITTED, 2);
    fleet_stats_destroy(stats);
    world_free(world);
}

/* Else the alert for silent agents would never end. */
Test(controller_fleet_stats, an_agent_that_was_retired_counts_nowhere)
{
    struct world *world = start(2);
    struct fleet_stats *stats = fleet_stats_create();
    world_disconnect(world, world_agent(world, "a0"));
    look(stats, world->core);
    expect(stats, "agents", 2);
    expect(stats, "agents_connected", 1);
    struct request request = { .kind = REQUEST_GROUP_RETIRE,
                               .agent = "a0",
                               .body.retire = { .attest_dead = true } };
    struct baton_status st = world_call(world, &request);
    cr_assert(baton_ok(&st), "%s", st.message);
    look(stats, world->core);
    expect(stats, "agents", 1);
    expect(stats, "agents_connected", 1);
    fleet_stats_destroy(stats);
    world_free(world);
}
