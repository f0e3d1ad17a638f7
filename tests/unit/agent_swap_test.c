/* agent_swap_test.c -- stories of one swap: it goes well, or something in it hangs, fails or
 * lies. */
#include <criterion/criterion.h>

#include "tests/unit/agent_world.h"

static struct world *staged(uint32_t groups, uint32_t engines)
{
    struct world *world = world_create(groups, engines, 1);
    world_serve(world, 1);
    for (uint32_t i = 0; i < groups; i++) {
        world_goals(world, i, 1, 2);
    }
    world_run(world, 2 * S);
    for (uint32_t i = 0; i < groups; i++) {
        cr_assert(world_serves(world, i, 1));
        cr_assert_eq(world->groups[i].report.state, AGENT_GROUP_STAGED);
    }
    return world;
}

static void swap(struct world *world, uint64_t for_ns)
{
    world_ticket(world, 0, 2, false);
    world_run(world, for_ns);
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
    cr_assert(!world->groups[0].ticket_open, "the ticket has no outcome");
}

static void expect(const struct world *world, enum agent_outcome outcome, uint64_t serves)
{
    const struct world_group *group = &world->groups[0];
    cr_assert_eq(group->outcome.outcome, outcome, "%s: %s",
                 agent_outcome_name(group->outcome.outcome), group->outcome.message);
    cr_assert(world_serves(world, 0, serves), "%s: %s", agent_group_state_name(group->report.state),
              group->message);
    cr_assert_eq(world_committed(world, 0), serves);
    cr_assert_eq(group->outcome.committed.seq, serves);
}

/* The whole path: both engines change, KV is dropped, labels follow, and the record has the
 * times. */
Test(agent_swap, goes_well)
{
    struct world *world = staged(1, 2);
    world->engines[0][0].gate_version = 1;
    swap(world, 3 * S);
    expect(world, AGENT_OUTCOME_COMMITTED, 2);
    const struct agent_swap_record *record = &world->groups[0].outcome;
    cr_assert_eq(record->from.seq, 1);
    cr_assert_eq(record->to.seq, 2);
    cr_assert_eq(record->level, AGENT_LEVEL_RESIDENT);
    cr_assert_eq(record->bytes, 1000);
    cr_assert_eq(record->requests_held, 3);
    cr_assert_eq(record->phases.stage_ns, 200 * MS);
    cr_assert_eq(record->phases.apply_ns, 3 * MS);
    cr_assert_eq(record->phases.finalize_ns, 3 * MS);
    cr_assert_eq(record->phases.pause_ns, 4 * MS);
    cr_assert_eq(record->phases.shut_ns, record->phases.engine_ns);
    cr_assert_str_eq(record->probe_text, "text of 0002");
    cr_assert_str_eq(world->engines[0][0].label, "2");
    cr_assert_str_eq(world->engines[0][1].label, "2");
    cr_assert_eq(world->engines[0][0].calls[AGENT_OP_UPDATE], 1);
    cr_assert_str_eq(world->groups[0].message, "");
    world_destroy(world);
}

/* The journal's part of the pause is told apart: each fsync during the pause is counted. */
Test(agent_swap, journal_time_is_told_apart)
{
    struct world *world = staged(1, 1);
    world_ticket(world, 0, 2, false);
    world_run(world, 5 * MS); /* The gate is closed, INTENT is on its way. */
    world_event(world, (struct agent_event){ .kind = AGENT_EVENT_JOURNAL_SYNCED,
                                             .synced = { JOURNAL_INTENT, "g0", 2 * MS } });
    world_event(world, (struct agent_event){ .kind = AGENT_EVENT_JOURNAL_SYNCED,
                                             .synced = { JOURNAL_COMMIT, "g0", 3 * MS } });
    world_run(world, 2 * S);
    expect(world, AGENT_OUTCOME_COMMITTED, 2);
    cr_assert_eq(world->groups[0].outcome.phases.journal_ns, 5 * MS);
    cr_assert_eq(world->groups[0].outcome.phases.commit_ns, 3 * MS);
    world_destroy(world);
}

/* Arrivals wait at a held gate, or are refused by a shut one: as the policy says. */
Test(agent_swap, arrivals_follow_the_policy)
{
    const struct {
        enum agent_arrivals arrivals;
        enum agent_gate gate;
    } rows[] = { { AGENT_ARRIVALS_HOLD, AGENT_GATE_HOLD },
                 { AGENT_ARRIVALS_REFUSE, AGENT_GATE_SHUT } };
    for (int i = 0; i < 2; i++) {
        struct world *world = staged(1, 1);
        world->groups[0].ticket.policy.arrivals = rows[i].arrivals;
        world_ticket(world, 0, 2, false);
        world_run(world, 20 * MS);
        cr_assert_eq(world->engines[0][0].gate, rows[i].gate);
        cr_assert(world_is_shut(world, 0));
        world_run(world, 2 * S);
        expect(world, AGENT_OUTCOME_COMMITTED, 2);
        world_destroy(world);
    }
}

/* Nothing of the group opens before the last engine is ready, however slow that one is. */
Test(agent_swap, no_gate_opens_before_the_last_engine)
{
    struct world *world = staged(1, 3);
    world->engines[0][2].level = AGENT_LEVEL_COPIED; /* It is read back besides. */
    world_ticket(world, 0, 2, false);
    bool rest_came_first = false;
    for (int i = 0; i < 2000; i++) {
        world_run(world, MS);
        bool first = world_engine_is_open(&world->engines[0][0]);
        bool all = world_serves(world, 0, 1) || world_serves(world, 0, 2);
        bool new_one = world->committed[0] == 2;
        cr_assert(!(first && new_one) || all, "the first engine opens last");
        rest_came_first |= new_one && !first && world_engine_is_open(&world->engines[0][1]);
    }
    cr_assert(rest_came_first);
    expect(world, AGENT_OUTCOME_COMMITTED, 2);
    cr_assert_eq(world->engines[0][2].calls[AGENT_OP_READBACK],
                 3); /* Twice at the join, and now. */
    world_destroy(world);
}

/* An engine that says yes and lost half of the tensors is found out before COMMIT. */
Test(agent_swap, silent_loss_is_read_back)
{
    struct world *world = staged(1, 2);
    world_fault(&world->engines[0][1], AGENT_OP_UPDATE, FAULT_LIE, 1);
    swap(world, 5 * S);
    expect(world, AGENT_OUTCOME_APPLY_FAILED, 1);
    cr_assert_eq(world->journal_counts[JOURNAL_COMMIT], 1); /* The join's. */
    cr_assert(strstr(world->groups[0].outcome.message, "engine e1: READBACK") != NULL, "%s",
              world->groups[0].outcome.message);
    world_destroy(world);
}

/* A flush that says no leaves no stale KV behind: the old version serves on. */
Test(agent_swap, flush_that_fails_restores)
{
    struct world *world = staged(1, 2);
    world_fault(&world->engines[0][0], AGENT_OP_INVALIDATE, FAULT_FAIL, 9);
    swap(world, 5 * S);
    expect(world, AGENT_OUTCOME_APPLY_FAILED, 1);
    world_destroy(world);
}

/* A gate that does not close costs nothing: no weight is touched, and the old version serves. */
Test(agent_swap, gate_that_does_not_close_is_a_pause_timeout)
{
    struct world *world = staged(1, 2);
    world_fault(&world->engines[0][1], AGENT_OP_SET_GATE, FAULT_FAIL, 1);
    swap(world, 3 * S);
    expect(world, AGENT_OUTCOME_PAUSE_TIMEOUT, 1);
    cr_assert_eq(world->journal_counts[JOURNAL_INTENT], 1); /* The join's. */
    world_destroy(world);
}

/* A drain that takes longer than the policy allows gives up, and nobody waits for the swap's whole
 * deadline. */
Test(agent_swap, drain_is_bounded_by_its_own_deadline)
{
    struct world *world = staged(1, 1);
    world->groups[0].ticket.policy.in_flight = AGENT_IN_FLIGHT_WAIT;
    world_fault(&world->engines[0][0], AGENT_OP_PAUSE, FAULT_HANG, 1);
    uint64_t began_ns = world->now_ns;
    world_ticket(world, 0, 2, false);
    while (world->groups[0].ticket_open) {
        world_run(world, 10 * MS);
    }
    expect(world, AGENT_OUTCOME_PAUSE_TIMEOUT, 1);
    cr_assert_lt(world->now_ns - began_ns, 6 * S); /* drain 5 s, swap 10 s */
    world_destroy(world);
}

struct hang {
    enum agent_op_kind kind;
    enum agent_outcome outcome;
};

/* Inv. 11: an engine that hangs once, in any phase, shuts its group for the swap's deadline and the
 * restore bound at most, and another group of the same agent not at all. */
Test(agent_swap, hang_in_any_phase_is_bounded)
{
    const struct hang rows[] = {
        { AGENT_OP_SET_GATE, AGENT_OUTCOME_PAUSE_TIMEOUT },
        { AGENT_OP_PAUSE, AGENT_OUTCOME_PAUSE_TIMEOUT },
        { AGENT_OP_RAISE_FENCE, AGENT_OUTCOME_COMMITTED }, /* A second try answers. */
        { AGENT_OP_UPDATE, AGENT_OUTCOME_APPLY_FAILED },
        { AGENT_OP_INVALIDATE, AGENT_OUTCOME_APPLY_FAILED },
        { AGENT_OP_LABEL, AGENT_OUTCOME_COMMITTED },
        { AGENT_OP_RESUME, AGENT_OUTCOME_COMMITTED },
    };
    const enum fault faults[] = { FAULT_HANG, FAULT_STUCK };
    for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
        const struct hang *row = &rows[i / 2];
        struct world *world = staged(2, 2);
        world_fault(&world->engines[0][1], row->kind, faults[i % 2], 1);
        uint64_t began_ns = world->now_ns;
        world_ticket(world, 0, 2, false);
        while (!world->violation[0] && world->groups[0].ticket_open &&
               world->now_ns < began_ns + 60 * S) {
            world_run(world, 10 * MS);
            cr_assert(world_serves(world, 1, 1), "the other group is held up by %s",
                      agent_op_name(row->kind));
        }
        cr_assert(world->violation[0] == '\0', "%s", world->violation);
        cr_assert_lt(world->now_ns - began_ns, 31 * S, "%s", agent_op_name(row->kind));
        enum agent_outcome outcome = world->groups[0].outcome.outcome;
        cr_assert_eq(outcome, row->outcome, "%s: %s: %s", agent_op_name(row->kind),
                     agent_outcome_name(outcome), world->groups[0].outcome.message);
        world_run(world, 60 * S);
        cr_assert(world->violation[0] == '\0', "%s", world->violation);
        cr_assert(world_serves(world, 0, world_committed(world, 0)), "%s",
                  world->groups[0].message);
        world_destroy(world);
    }
}

/* A call that woke up after the restore does nothing: its step is lower than the restore's. */
Test(agent_swap, late_update_is_fenced)
{
    struct world *world = staged(1, 2);
    world_fault(&world->engines[0][0], AGENT_OP_UPDATE, FAULT_LATE, 1);
    swap(world, 40 * S);
    expect(world, AGENT_OUTCOME_APPLY_FAILED, 1);
    cr_assert_eq(world->engines[0][0].fence.step, 2);
    world_destroy(world);
}

/* Without the plug-in's fence nobody knows what the call will still do: that incarnation never
 * serves again, and the group comes back with a new one. */
Test(agent_swap, late_update_without_fence_recreates)
{
    struct world *world = world_create(1, 2, 1);
    for (int i = 0; i < 2; i++) {
        world->engines[0][i].plugin = false;
        world->engines[0][i].level = AGENT_LEVEL_LANDED;
    }
    world_serve(world, 1);
    world_goals(world, 0, 1, 2);
    world_run(world, 2 * S);
    world_fault(&world->engines[0][0], AGENT_OP_UPDATE, FAULT_LATE, 1);
    uint64_t lives = world->engines[0][0].lives;
    world_ticket(world, 0, 2, false);
    world_run(world, 11 * S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_OUT);
    cr_assert(world_is_shut(world, 0));
    world_run(world, 40 * S);
    cr_assert_gt(world->engines[0][0].lives, lives);
    cr_assert(world_serves(world, 0, 1), "%s", world->groups[0].message);
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
    world_destroy(world);
}

/* Answers that belong to other calls: the engine is not asked again, but recreated. */
Test(agent_swap, answers_out_of_step_recreate)
{
    struct world *world = staged(1, 2);
    uint64_t lives = world->engines[0][1].lives;
    world_fault(&world->engines[0][1], AGENT_OP_UPDATE, FAULT_STRAY, 1);
    world_ticket(world, 0, 2, false);
    world_run(world, S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_OUT);
    cr_assert_eq(world->journal_counts[JOURNAL_TAINT], 1);
    world_run(world, 20 * S);
    cr_assert_gt(world->engines[0][1].lives, lives);
    cr_assert(world_serves(world, 0, 1));
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
    world_destroy(world);
}
