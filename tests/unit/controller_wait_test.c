/* controller_wait_test.c -- Rolls.Wait: when it is met, and when it ends at once without. */
#include <criterion/criterion.h>

#include "tests/unit/controller_world.h"

static struct world *serving(void)
{
    struct world *world = world_new();
    struct policy_spec spec = { .max_unavailable = "1" };
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st));
    cr_assert_eq(world_publish(world, "m"), 1);
    world_fleet(world, "m", 2);
    world_play(world);
    return world;
}

static void verb(struct world *world, enum request_kind kind)
{
    struct baton_status st = world_verb(world, kind, "m", 0);
    cr_assert(baton_ok(&st), "%s", st.message);
}

static void expect(const struct world *world, uint64_t handle, enum wait_outcome outcome)
{
    const struct action_wait_done *done = world_wait_end(world, handle);
    cr_assert_not_null(done, "the wait goes on");
    cr_assert_eq(done->outcome, outcome, "ended as %d", (int)done->outcome);
    cr_assert_neq(done->message[0], '\0');
}

/* What holds already is answered at once; the default is the newest version at the start. */
Test(wait, met)
{
    struct world *world = serving();
    expect(world, world_wait(world, "m", 0), WAIT_OUTCOME_MET);
    cr_assert_eq(world_publish(world, "m"), 2);
    uint64_t handle = world_wait(world, "m", 0);
    cr_assert_null(world_wait_end(world, handle));
    uint64_t later = world_wait(world, "m", 3);
    world_play(world);
    expect(world, handle, WAIT_OUTCOME_MET);
    cr_assert_eq(world_wait_end(world, handle)->seq, 2);
    cr_assert_null(world_wait_end(world, later));
    cr_assert_eq(world_publish(world, "m"), 3);
    world_play(world);
    expect(world, later, WAIT_OUTCOME_MET);
    world_free(world);
}

/* A later version than the awaited one is as good; a shut gate or an unknown group is not. */
Test(wait, needs_open_gates_everywhere)
{
    struct world *world = serving();
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    expect(world, world_wait(world, "m", 1), WAIT_OUTCOME_MET);
    world_disconnect(world, world_agent(world, "a1"));
    world_pass(world, 11 * SEC);
    uint64_t handle = world_wait(world, "m", 1);
    cr_assert_null(world_wait_end(world, handle));
    cr_assert(world_connect(world, world_agent(world, "a1")));
    expect(world, handle, WAIT_OUTCOME_MET);
    world_free(world);
}

/* Undone, held, suspended: the wait ends at once with a word of its own. */
Test(wait, ends_when_it_cannot_be_met)
{
    struct world *world = serving();
    cr_assert_eq(world_publish(world, "m"), 2);
    uint64_t handle = world_wait(world, "m", 2);
    verb(world, REQUEST_ROLL_UNDO);
    expect(world, handle, WAIT_OUTCOME_UNDONE);
    expect(world, world_wait(world, "m", 2), WAIT_OUTCOME_HELD);
    world_play(world);
    verb(world, REQUEST_MODEL_RESUME);
    verb(world, REQUEST_MODEL_SUSPEND);
    expect(world, world_wait(world, "m", 2), WAIT_OUTCOME_SUSPENDED);
    world_free(world);
}

/* A wait ends when it is suspended half way; a cancelled one says nothing more. */
Test(wait, suspended_half_way_and_cancelled)
{
    struct world *world = serving();
    cr_assert_eq(world_publish(world, "m"), 2);
    uint64_t handle = world_wait(world, "m", 2);
    uint64_t cancelled = world_wait(world, "m", 2);
    struct event event = { .kind = EVENT_WAIT_CANCEL };
    event.body.wait_handle = cancelled;
    world_step(world, &event);
    verb(world, REQUEST_MODEL_SUSPEND);
    expect(world, handle, WAIT_OUTCOME_SUSPENDED);
    cr_assert_null(world_wait_end(world, cancelled));
    world_free(world);
}

/* Bad calls are refused; the table of waits is bounded. */
Test(wait, refusals)
{
    struct world *world = serving();
    struct request request = { .kind = REQUEST_WAIT, .model = "m" };
    request.body.wait = (struct request_wait){ "Ready", 0 };
    struct baton_status st = world_call(world, &request);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    cr_assert_str_eq(world->reply.field, "condition");
    request.model = "nobody";
    st = world_call(world, &request);
    cr_assert_eq(st.code, BATON_NOT_FOUND);
    for (uint32_t i = 0; i < world->limits.waits; i++) {
        cr_assert_null(world_wait_end(world, world_wait(world, "m", 9)));
    }
    (void)world_wait(world, "m", 9);
    cr_assert_eq(world->reply.status.code, BATON_RESOURCE_EXHAUSTED);
    st = world_apply(world, "empty", NULL);
    (void)world_wait(world, "empty", 0);
    cr_assert_eq(world->reply.status.code, BATON_FAILED_PRECONDITION);
    world_free(world);
}
