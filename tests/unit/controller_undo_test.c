/* controller_undo_test.c -- Undo of running and completed rolls, the hold that follows, suspend. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/controller_world.h"

/* Two groups on version 1, one may be away. */
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

static const struct model_record *model(const struct world *world)
{
    return view_model_find(world->core, "m");
}

static void must(struct world *world, enum request_kind kind, uint64_t to_seq)
{
    struct baton_status st = world_verb(world, kind, "m", to_seq);
    cr_assert(baton_ok(&st), "%s", st.message);
}

/* Undo of a running roll: swapped groups go back to the promoted version, the others never leave
 * it; the model is held, so the next publish is stored and not rolled. */
Test(undo, running_roll)
{
    struct world *world = serving();
    cr_assert_eq(world_publish(world, "m"), 2);
    world_report(world, world_agent(world, "a0"), NULL, 0);
    world_finish(world, "g0", SWAP_OUTCOME_COMMITTED);
    cr_assert_eq(world_committed(world, "g0"), 2);
    cr_assert_eq(world_committed(world, "g1"), 1);
    must(world, REQUEST_ROLL_UNDO, 0);
    cr_assert_eq(world_roll(world, "m", 2)->state, ROLL_STATE_UNDONE);
    cr_assert_eq(world_roll(world, "m", 3)->cause, ROLL_CAUSE_UNDO);
    cr_assert(model(world)->held);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 1);
    cr_assert_eq(world_committed(world, "g1"), 1);
    cr_assert_eq(world_roll(world, "m", 3)->state, ROLL_STATE_COMPLETED);
    cr_assert_eq(model(world)->promoted_seq, 1);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_MODEL_HELD);
    cr_assert_eq(world_publish(world, "m"), 3);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 1);
    must(world, REQUEST_MODEL_RESUME, 0);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 3);
    cr_assert_eq(world_committed(world, "g1"), 3);
    world_free(world);
}

/* Undo of a completed roll: to the version promoted before, which is promoted when the new roll
 * completes.  Resume alone does not bring the undone version back. */
Test(undo, completed_roll)
{
    struct world *world = serving();
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    cr_assert_eq(model(world)->promoted_seq, 2);
    cr_assert_eq(model(world)->previous_promoted_seq, 1);
    must(world, REQUEST_ROLL_UNDO, 0);
    cr_assert_eq(model(world)->promoted_seq, 2, "promoted changes at the end");
    world_play(world);
    cr_assert_eq(model(world)->promoted_seq, 1);
    cr_assert_eq(world_committed(world, "g1"), 1);
    must(world, REQUEST_MODEL_RESUME, 0);
    world_play(world);
    cr_assert_eq(world_committed(world, "g1"), 1);
    cr_assert_null(strstr(world_roll(world, "m", 0)->reason, "published"));
    must(world, REQUEST_ROLL_START, 2);
    world_play(world);
    cr_assert_eq(world_committed(world, "g1"), 2);
    world_free(world);
}

/* --to names any retained version. */
Test(undo, to_a_named_version)
{
    struct world *world = serving();
    for (uint64_t seq = 2; seq <= 4; seq++) {
        cr_assert_eq(world_publish(world, "m"), seq);
        world_play(world);
    }
    struct baton_status st = world_verb(world, REQUEST_ROLL_UNDO, "m", 9);
    cr_assert_eq(st.code, BATON_NOT_FOUND);
    must(world, REQUEST_ROLL_UNDO, 1);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 1);
    cr_assert_eq(model(world)->promoted_seq, 1);
    world_free(world);
}

/* A ticket of the undone roll is asked back; when it was begun already it ends by itself, and its
 * group goes back with the new roll. */
Test(undo, open_ticket_is_revoked_not_re_aimed)
{
    struct world *world = serving();
    cr_assert_eq(world_publish(world, "m"), 2);
    world_report(world, world_agent(world, "a0"), NULL, 0);
    must(world, REQUEST_ROLL_UNDO, 0);
    cr_assert(world_group(world, "g0")->revoked);
    cr_assert_eq(world_record(world, "g0")->ticket.to_seq, 2);
    world_finish(world, "g0", SWAP_OUTCOME_COMMITTED); /* Too late to be taken back. */
    cr_assert_eq(world_committed(world, "g0"), 2);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 1);
    world_free(world);
}

/* A ticket that was given back costs no waiting time. */
Test(undo, revoked_ticket_that_was_refused_does_not_back_off)
{
    struct world *world = serving();
    cr_assert_eq(world_publish(world, "m"), 2);
    world_report(world, world_agent(world, "a0"), NULL, 0);
    must(world, REQUEST_ROLL_UNDO, 0);
    world_finish(world, "g0", SWAP_OUTCOME_REFUSED);
    cr_assert_eq(world_record(world, "g0")->failures, 0);
    cr_assert_eq(world_roll(world, "m", 0)->state, ROLL_STATE_COMPLETED);
    world_free(world);
}

/* There must be something to go back to. */
Test(undo, refusals)
{
    struct world *world = serving();
    struct baton_status st = world_verb(world, REQUEST_ROLL_UNDO, "m", 0);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION);
    st = world_verb(world, REQUEST_ROLL_UNDO, "m", 1);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION);
    st = world_verb(world, REQUEST_ROLL_UNDO, "nobody", 0);
    cr_assert_eq(st.code, BATON_NOT_FOUND);
    st = world_verb(world, REQUEST_ROLL_PAUSE, "m", 0);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION);
    cr_assert_eq(world_publish(world, "m"), 2);
    must(world, REQUEST_ROLL_UNDO, 0);
    st = world_verb(world, REQUEST_ROLL_UNDO, "m", 0);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION, "it goes back already");
    st = world_verb(world, REQUEST_ROLL_START, "m", 2);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION);
    cr_assert_eq(st.reason, BATON_REASON_HELD);
    cr_assert_neq(st.hint[0], '\0');
    world_free(world);
}

/* Suspend: no new ticket, open ones end; publishes are stored; Resume rolls the newest. */
Test(undo, suspend_and_resume)
{
    struct world *world = serving();
    cr_assert_eq(world_publish(world, "m"), 2);
    world_report(world, world_agent(world, "a0"), NULL, 0);
    must(world, REQUEST_MODEL_SUSPEND, 0);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 2);
    cr_assert_eq(world_committed(world, "g1"), 1);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_MODEL_SUSPENDED);
    cr_assert_eq(world_publish(world, "m"), 3);
    cr_assert_eq(world_roll(world, "m", 0)->to_seq, 2);
    must(world, REQUEST_MODEL_RESUME, 0);
    cr_assert_eq(world_roll(world, "m", 0)->to_seq, 3);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 3);
    cr_assert_eq(world_committed(world, "g1"), 3);
    world_free(world);
}
