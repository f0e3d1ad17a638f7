/* controller_trigger_test.c -- when publishes start rolls: Interval and MaxLag in each unit, and
 * bursts, as stories on virtual time. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/controller_world.h"

static struct policy_spec every(const char *trigger, uint64_t n, const char *unit)
{
    struct policy_spec spec = { .trigger = trigger, .max_unavailable = "1" };
    spec.roll.every_n = n;
    spec.roll.every_unit = unit;
    return spec;
}

static struct world *serving(const struct policy_spec *spec)
{
    struct world *world = world_new();
    struct baton_status st = world_apply(world, "m", spec);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(world_publish_at(world, "m", 10, 10), 1);
    world_fleet(world, "m", 2);
    world_play(world);
    cr_assert_eq(world_committed(world, "g1"), 1, "the first version rolls at once");
    return world;
}

static uint64_t served(struct world *world)
{
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), world_committed(world, "g1"));
    return world_committed(world, "g0");
}

Test(trigger, interval_of_publishes)
{
    struct policy_spec spec = every("Interval", 3, "Publishes");
    struct world *world = serving(&spec);
    cr_assert_eq(world_publish(world, "m"), 2);
    cr_assert_eq(world_publish(world, "m"), 3);
    cr_assert_eq(served(world), 1);
    world_restart(world);
    cr_assert(world_connect(world, &world->agents[0]));
    cr_assert(world_connect(world, &world->agents[1]));
    cr_assert_eq(world_publish(world, "m"), 4);
    cr_assert_eq(served(world), 4);
    cr_assert_eq(world_roll(world, "m", 0)->cause, ROLL_CAUSE_TRIGGER);
    cr_assert_eq(world_publish(world, "m"), 5);
    cr_assert_eq(served(world), 4);
    world_free(world);
}

Test(trigger, interval_of_steps_and_iterations)
{
    static const char *const units[] = { "OptimizerSteps", "RolloutIterations" };
    for (int i = 0; i < 2; i++) {
        struct policy_spec spec = every("Interval", 10, units[i]);
        struct world *world = serving(&spec);
        cr_assert_eq(world_publish_at(world, "m", 15, 15), 2);
        cr_assert_eq(served(world), 1);
        cr_assert_eq(world_publish_at(world, "m", i == 0 ? 20 : 16, i == 0 ? 16 : 20), 3);
        cr_assert_eq(served(world), 3);
        world_free(world);
    }
}

/* Seconds: nothing newer, nothing to do; something newer rolls when the time is over, also when a
 * restart falls between. */
Test(trigger, interval_of_seconds)
{
    struct policy_spec spec = every("Interval", 60, "Seconds");
    struct world *world = serving(&spec);
    world_pass(world, 100 * SEC);
    cr_assert_eq(view_rolls_count(world->core), 1);
    cr_assert_eq(world_publish(world, "m"), 2);
    cr_assert_eq(served(world), 2, "the time was over already");
    cr_assert_eq(world_publish(world, "m"), 3);
    world_pass(world, 30 * SEC);
    cr_assert_eq(served(world), 2);
    world_restart(world);
    cr_assert(world_connect(world, &world->agents[0]));
    cr_assert(world_connect(world, &world->agents[1]));
    world_pass(world, 31 * SEC);
    cr_assert_eq(served(world), 3);
    world_free(world);
}

Test(trigger, max_lag_in_each_unit)
{
    static const char *const units[] = { "Publishes", "OptimizerSteps", "RolloutIterations" };
    for (int i = 0; i < 3; i++) {
        struct policy_spec spec = every("MaxLag", i == 0 ? 2 : 20, units[i]);
        struct world *world = serving(&spec);
        cr_assert_eq(world_publish_at(world, "m", 20, 20), 2);
        cr_assert_eq(served(world), 1);
        cr_assert_eq(world_publish_at(world, "m", 30, 30), 3);
        cr_assert_eq(served(world), 3, "unit %s", units[i]);
        world_free(world);
    }
}

/* In seconds a group lags since the first version that it does not serve was published. */
Test(trigger, max_lag_in_seconds)
{
    struct policy_spec spec = every("MaxLag", 60, "Seconds");
    struct world *world = serving(&spec);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_pass(world, 40 * SEC);
    cr_assert_eq(world_publish(world, "m"), 3);
    cr_assert_eq(served(world), 1);
    world_pass(world, 21 * SEC);
    cr_assert_eq(served(world), 3);
    world_free(world);
}

/* A held model waits; what an undo went away from does not come back by itself. */
Test(trigger, hold_and_undo)
{
    struct policy_spec spec = every("MaxLag", 1, "Publishes");
    struct world *world = serving(&spec);
    cr_assert_eq(world_publish(world, "m"), 2);
    cr_assert_eq(served(world), 2);
    struct baton_status st = world_verb(world, REQUEST_ROLL_UNDO, "m", 0);
    cr_assert(baton_ok(&st));
    cr_assert_eq(served(world), 1);
    st = world_verb(world, REQUEST_MODEL_RESUME, "m", 0);
    cr_assert(baton_ok(&st));
    cr_assert_eq(served(world), 1);
    st = world_verb(world, REQUEST_MODEL_SUSPEND, "m", 0);
    cr_assert(baton_ok(&st));
    cr_assert_eq(world_publish(world, "m"), 3);
    cr_assert_eq(served(world), 1);
    st = world_verb(world, REQUEST_MODEL_RESUME, "m", 0);
    cr_assert(baton_ok(&st));
    cr_assert_eq(served(world), 3);
    world_free(world);
}
