/* agent_restore_test.c -- stories of the way back, and of a restore that fails itself. */
#include <criterion/criterion.h>

#include "tests/unit/agent_world.h"

static struct world *staged(void)
{
    struct world *world = world_create(1, 2, 1);
    world_serve(world, 1);
    world_goals(world, 0, 1, 2);
    world_run(world, S);
    return world;
}

static void swap(struct world *world, uint64_t for_ns)
{
    world_ticket(world, 0, 2, false);
    world_run(world, for_ns);
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
    cr_assert(!world->groups[0].ticket_open, "the ticket has no outcome");
}

/* A rank that cannot load: all engines go back, each is read back, and the old version serves. */
Test(agent_restore, failed_update_goes_back)
{
    struct world *world = staged();
    world_fault(&world->engines[0][1], AGENT_OP_UPDATE, FAULT_FAIL, 1);
    swap(world, 3 * S);
    const struct agent_swap_record *record = &world->groups[0].outcome;
    cr_assert_eq(record->outcome, AGENT_OUTCOME_APPLY_FAILED);
    cr_assert_str_eq(record->message, "engine e1: UPDATE: rank 0: LOAD_FAILED");
    cr_assert_eq(record->committed.seq, 1);
    cr_assert(world_serves(world, 0, 1));
    cr_assert_eq(world->journal_counts[JOURNAL_TAINT], 0);
    cr_assert_gt(record->phases.shut_ns, 0);
    world_destroy(world);
}

/* Ranks that put their tensors back themselves are read back, not updated again. */
Test(agent_restore, ranks_that_went_back_are_only_read_back)
{
    struct world *world = staged();
    world_fault(&world->engines[0][0], AGENT_OP_UPDATE, FAULT_FAIL_BACK, 1);
    world_fault(&world->engines[0][1], AGENT_OP_UPDATE, FAULT_FAIL_BACK, 1);
    uint32_t readbacks = world->engines[0][0].calls[AGENT_OP_READBACK];
    swap(world, 3 * S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_APPLY_FAILED);
    cr_assert(world_serves(world, 0, 1));
    cr_assert_eq(world->engines[0][0].calls[AGENT_OP_UPDATE], 1);
    cr_assert_eq(world->engines[0][0].calls[AGENT_OP_READBACK], readbacks + 1);
    world_destroy(world);
}

/* "Restored", says the engine, and it is not true: found by the read-back, so it is recreated. */
Test(agent_restore, false_claim_of_a_restore_is_found)
{
    struct world *world = staged();
    world_fault(&world->engines[0][1], AGENT_OP_UPDATE, FAULT_FAIL_BACK, 1);
    world_ticket(world, 0, 2, false);
    world_run(world, 40 * MS);
    memcpy(world->engines[0][1].resident, world_version(9).digest, BATON_DIGEST_TEXT_BYTES);
    world_run(world, 2 * S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_OUT);
    world_run(world, 30 * S);
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
    cr_assert(world_serves(world, 0, 1));
    cr_assert_eq(world->engines[0][1].lives, 2);
    world_destroy(world);
}

/* The first update of e1 fails; 'then' is done before it is to take the old version back. */
static struct world *going_back(void (*then)(struct world_engine *engine), uint32_t missed)
{
    struct world *world = world_create(1, 2, 1);
    struct world_engine *engine = &world->engines[0][1];
    engine->plugin = false;
    engine->references_missed = missed;
    world_serve(world, 1);
    world_goals(world, 0, 1, 2);
    world_run(world, S);
    uint32_t updates = engine->calls[AGENT_OP_UPDATE];
    world_fault(engine, AGENT_OP_UPDATE, FAULT_FAIL, 1);
    world_ticket(world, 0, 2, false);
    while (engine->calls[AGENT_OP_UPDATE] == updates) {
        world_run(world, MS);
    }
    then(engine);
    world_run(world, 2 * S);
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
    cr_assert(!world->groups[0].ticket_open, "the ticket has no outcome");
    return world;
}

static void lies(struct world_engine *engine)
{
    world_fault(engine, AGENT_OP_UPDATE, FAULT_LIE, 1);
}

/* An engine whose weights cannot be read says that it took the old version back, and did not. */
Test(agent_restore, lie_about_the_way_back_is_found_by_the_probe)
{
    struct world *world = going_back(lies, 0);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_OUT);
    world_run(world, 30 * S);
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
    cr_assert(world_serves(world, 0, 1));
    cr_assert_eq(world->engines[0][1].lives, 2);
    world_destroy(world);
}

static void misses_one_more(struct world_engine *engine)
{
    engine->references_missed++;
}

/* The old version must meet the references that it met when it began to serve. */
Test(agent_restore, references_that_were_met_are_met_again)
{
    struct world *world = going_back(misses_one_more, 0);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_OUT);
    cr_assert_eq(world->groups[0].outcome.references, 0, "those of version 2 were not asked");
    world_destroy(world);
}

static void changes_nothing(struct world_engine *engine)
{
    (void)engine;
}

Test(agent_restore, references_that_were_missed_may_be_missed_again)
{
    struct world *world = going_back(changes_nothing, 1);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_APPLY_FAILED);
    cr_assert(world_serves(world, 0, 1));
    world_destroy(world);
}

/* A restore that fails is OUT; the engine that failed is recreated and joins at its target. */
Test(agent_restore, failed_restore_recreates)
{
    struct world *world = staged();
    world_fault(&world->engines[0][1], AGENT_OP_UPDATE, FAULT_FAIL, 2);
    swap(world, 2 * S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_OUT);
    cr_assert_eq(world->journal_counts[JOURNAL_TAINT], 1);
    cr_assert(world->journal_last[JOURNAL_OUTCOME].outcome.needs_ticket);
    cr_assert(world_is_shut(world, 0));
    world_run(world, 30 * S);
    cr_assert(world_serves(world, 0, 1), "%s", world->groups[0].message);
    world_destroy(world);
}

/* An engine whose fence cannot be raised any more cannot be restored: bounded, then recreated. */
Test(agent_restore, unreachable_fence_is_bounded)
{
    struct world *world = staged();
    world_fault(&world->engines[0][0], AGENT_OP_UPDATE, FAULT_FAIL, 1);
    world_fault(&world->engines[0][1], AGENT_OP_RAISE_FENCE, FAULT_NONE, 1);
    world_ticket(world, 0, 2, false);
    world_run(world, 20 * MS);
    world_fault(&world->engines[0][1], AGENT_OP_RAISE_FENCE, FAULT_HANG, 100);
    uint64_t began_ns = world->now_ns;
    while (world->groups[0].ticket_open && world->now_ns < began_ns + 60 * S) {
        world_run(world, 100 * MS);
    }
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_OUT);
    cr_assert_lt(world->now_ns - began_ns, 31 * S);
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
    world_destroy(world);
}

/* After COMMIT there is no way back: a probe that keeps failing takes the group out as the new
 * one. */
Test(agent_restore, nothing_goes_back_after_commit)
{
    struct world *world = staged();
    world_fault(&world->engines[0][1], AGENT_OP_PROBE, FAULT_LIE, 1); /* Does nothing to a probe. */
    world_fault(&world->engines[0][1], AGENT_OP_RESUME, FAULT_FAIL, 3);
    swap(world, 2 * S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_OUT);
    cr_assert_eq(world->groups[0].outcome.committed.seq, 2);
    cr_assert_eq(world_committed(world, 0), 2);
    world_run(world, 30 * S);
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
    cr_assert(world_serves(world, 0, 2), "%s", world->groups[0].message);
    world_destroy(world);
}

/* An agent that was restarted while weights were changing goes back behind the same gate: who waits
 * there goes on waiting, and is refused only where the policy refuses. */
Test(agent_restore, arrivals_wait_through_a_restart)
{
    for (int refuse = 0; refuse < 2; refuse++) {
        struct world *world = staged();
        world->groups[0].ticket.policy.arrivals =
            refuse != 0 ? AGENT_ARRIVALS_REFUSE : AGENT_ARRIVALS_HOLD;
        world_fault(&world->engines[0][1], AGENT_OP_UPDATE, FAULT_HANG, 1);
        world_ticket(world, 0, 2, false);
        world_run(world, S);
        world_crash(world);
        world_start(world);
        for (int i = 0; i < 3000 && !world_serves(world, 0, 1); i++) {
            world_run(world, MS);
            bool shut = world->engines[0][0].gate == AGENT_GATE_SHUT;
            cr_assert(refuse != 0 || !shut, "after %d ms", i);
        }
        cr_assert(world->violation[0] == '\0', "%s", world->violation);
        cr_assert(world_serves(world, 0, 1));
        cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_APPLY_FAILED);
        world_destroy(world);
    }
}
