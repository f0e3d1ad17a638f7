/* agent_barrier_test.c -- stories of groups that swap together: shut, commit, open, and what
 * happens when a word does not come. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/agent_world.h"

/* Two groups of two engines serve version 1; version 2 is staged. */
static struct world *staged(void)
{
    struct world *world = world_create(2, 2, 1);
    world_serve(world, 1);
    for (uint32_t i = 0; i < 2; i++) {
        world_goals(world, i, 1, 2);
    }
    world_run(world, 2 * S);
    return world;
}

static struct world *begun_by_hand(void)
{
    struct world *world = staged();
    world->barrier.by_hand = true;
    world_barrier(world, 2);
    world_run(world, S);
    return world;
}

static void expect_sound(const struct world *world)
{
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
}

static void say_all(struct world *world, enum agent_barrier_word word)
{
    for (uint32_t i = 0; i < 2; i++) {
        world_barrier_say(world, i, word);
    }
}

/* All groups shut, all commit, then all open; no group goes before the others are shut, or opens
 * before they committed. */
Test(agent_barrier, all_shut_all_commit_all_open)
{
    struct world *world = begun_by_hand();
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_eq(world->groups[i].report.barrier, AGENT_BARRIER_STAND_SHUT);
        cr_assert_eq(world->groups[i].report.state, AGENT_GROUP_PAUSING);
        cr_assert(world_is_shut(world, i));
        cr_assert_eq(world_committed(world, i), 1);
    }
    cr_assert_eq(world->journal_counts[JOURNAL_INTENT], 0 + 2, "those of the two joins");
    say_all(world, AGENT_BARRIER_WORD_GO);
    world_run(world, S);
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_eq(world->groups[i].report.barrier, AGENT_BARRIER_STAND_COMMITTED);
        cr_assert_eq(world_committed(world, i), 2);
        cr_assert(world_is_shut(world, i));
        cr_assert(world->engines[i][0].paused, "nothing is generated before OPEN");
        cr_assert(world->groups[i].ticket_open);
    }
    say_all(world, AGENT_BARRIER_WORD_OPEN);
    world_run(world, S);
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert(world_serves(world, i, 2));
        cr_assert_eq(world->groups[i].outcome.outcome, AGENT_OUTCOME_COMMITTED);
        cr_assert_gt(world->groups[i].outcome.barrier_ns, S);
    }
    expect_sound(world);
    world_destroy(world);
}

/* CANCEL: the old version serves again, no weight was touched. */
Test(agent_barrier, cancelled)
{
    struct world *world = begun_by_hand();
    uint32_t updates = world->engines[0][0].calls[AGENT_OP_UPDATE];
    say_all(world, AGENT_BARRIER_WORD_CANCEL);
    world_run(world, S);
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert(world_serves(world, i, 1));
        cr_assert_eq(world->groups[i].outcome.outcome, AGENT_OUTCOME_PAUSE_TIMEOUT);
        cr_assert_not_null(strstr(world->groups[i].outcome.message, "cancelled"));
    }
    cr_assert_eq(world->engines[0][0].calls[AGENT_OP_UPDATE], updates);
    expect_sound(world);
    world_destroy(world);
}

/* Routers that were asked to send nobody are told that the gates stay open. */
Test(agent_barrier, cancelled_while_routers_drain)
{
    struct world *world = staged();
    world->barrier.by_hand = true;
    for (uint32_t i = 0; i < 2; i++) {
        struct agent_policy *policy = &world->groups[i].ticket.policy;
        policy->hooks_count = 2;
        policy->hooks[0] =
            (struct agent_hook){ AGENT_HOOK_AFTER_PROBE, "http://router/open", 2 * S };
        policy->hooks[1] =
            (struct agent_hook){ AGENT_HOOK_BEFORE_PAUSE, "http://router/drain", 2 * S };
    }
    world_barrier(world, 2);
    world_run(world, 5 * MS);
    cr_assert_eq(world->hooks[AGENT_HOOK_BEFORE_PAUSE], 2);
    say_all(world, AGENT_BARRIER_WORD_CANCEL);
    world_run(world, S);
    cr_assert_eq(world->hooks[AGENT_HOOK_AFTER_PROBE], 2);
    cr_assert_eq(world->hook_serves, 1);
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert(world_serves(world, i, 1));
        cr_assert_eq(world->groups[i].outcome.outcome, AGENT_OUTCOME_PAUSE_TIMEOUT);
        cr_assert_not(world->groups[i].outcome.router_not_drained);
    }
    expect_sound(world);
    world_destroy(world);
}

/* Words that are repeated, out of order, of a lower epoch or about another ticket do nothing. */
Test(agent_barrier, stray_words)
{
    struct world *world = begun_by_hand();
    world_event(world, (struct agent_event){ .kind = AGENT_EVENT_BARRIER,
                                             .barrier = { "g0", "0000000000000000000000000000beef",
                                                          world->epoch, AGENT_BARRIER_WORD_GO } });
    world_event(
        world,
        (struct agent_event){
            .kind = AGENT_EVENT_BARRIER,
            .barrier = { "g0", world->groups[0].ticket.uid, { 0, 9 }, AGENT_BARRIER_WORD_GO } });
    world_event(world,
                (struct agent_event){ .kind = AGENT_EVENT_BARRIER,
                                      .barrier = { "g0", world->groups[0].ticket.uid, world->epoch,
                                                   AGENT_BARRIER_WORD_OPEN } });
    world_run(world, S);
    cr_assert_eq(world->groups[0].report.barrier, AGENT_BARRIER_STAND_SHUT);
    world_barrier_say(world, 0, AGENT_BARRIER_WORD_GO);
    uint32_t marks = world->journal_counts[JOURNAL_BARRIER];
    world->barrier.cancelled = false;
    world_event(world,
                (struct agent_event){ .kind = AGENT_EVENT_BARRIER,
                                      .barrier = { "g0", world->groups[0].ticket.uid, world->epoch,
                                                   AGENT_BARRIER_WORD_CANCEL } });
    world_barrier_say(world, 0, AGENT_BARRIER_WORD_GO);
    world_run(world, S);
    cr_assert_eq(world->journal_counts[JOURNAL_BARRIER], marks);
    cr_assert_eq(world_committed(world, 0), 2, "after GO there is no way back");
    cr_assert(world_is_shut(world, 0));
    expect_sound(world);
    world_destroy(world);
}

/* Nothing is heard while it is shut: bounded, then OUT in doubt.  It does not open by itself, also
 * not when its engines are as they were; a rejoin ticket resolves it, to either version. */
Test(agent_barrier, silence_while_shut_is_in_doubt)
{
    for (uint64_t to = 1; to <= 2; to++) {
        struct world *world = begun_by_hand();
        world->controller_up = false;
        world_event(world, (struct agent_event){ .kind = AGENT_EVENT_SESSION_CLOSED });
        world->session_open = false;
        world_run(world, 13 * S);
        cr_assert(world_is_shut(world, 0));
        cr_assert(world->journal_last[JOURNAL_OUTCOME].outcome.needs_ticket);
        cr_assert_not_null(
            strstr(world->journal_last[JOURNAL_OUTCOME].outcome.record.message, "in doubt"));
        world_run(world, 60 * S);
        cr_assert(world_is_shut(world, 0) && world_is_shut(world, 1));
        expect_sound(world);
        world->barrier.open = to == 2;
        world->barrier.cancelled = to == 1;
        world->controller_up = true;
        for (uint32_t i = 0; i < 2; i++) {
            world_goals(world, i, to, 0);
        }
        world_run(world, 60 * S);
        cr_assert(world_serves(world, 0, to) && world_serves(world, 1, to), "%s: %s",
                  agent_group_state_name(world->groups[0].report.state), world->groups[0].message);
        expect_sound(world);
        world_destroy(world);
    }
}

/* Committed, and OPEN does not come: bounded, then OUT in doubt, on the new version. */
Test(agent_barrier, silence_after_commit_is_in_doubt)
{
    struct world *world = begun_by_hand();
    say_all(world, AGENT_BARRIER_WORD_GO);
    world_run(world, 23 * S);
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_eq(world->groups[i].outcome.outcome, AGENT_OUTCOME_OUT);
        cr_assert_eq(world->groups[i].outcome.committed.seq, 2);
        cr_assert(world_is_shut(world, i));
    }
    world_run(world, 30 * S);
    cr_assert(world_is_shut(world, 0) && world_is_shut(world, 1));
    expect_sound(world);
    world->barrier.open = true;
    world_run(world, 30 * S);
    cr_assert(world_serves(world, 0, 2) && world_serves(world, 1, 2));
    expect_sound(world);
    world_destroy(world);
}

/* Before it told that it is shut a group gives up by itself; the other hears CANCEL. */
Test(agent_barrier, gives_up_before_the_promise)
{
    struct world *world = staged();
    world_fault(&world->engines[1][1], AGENT_OP_PAUSE, FAULT_FAIL, 1);
    world_barrier(world, 2);
    world_run(world, 5 * S);
    cr_assert(world->barrier.cancelled);
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert(world_serves(world, i, 1));
        cr_assert_eq(world->groups[i].outcome.outcome, AGENT_OUTCOME_PAUSE_TIMEOUT);
    }
    expect_sound(world);
    world_destroy(world);
}

/* A group that fails after GO is a straggler: OUT, never the old version again; the others open. */
Test(agent_barrier, straggler_is_out)
{
    struct world *world = staged();
    world_fault(&world->engines[1][1], AGENT_OP_UPDATE, FAULT_FAIL, 1);
    world_barrier(world, 2);
    world_run(world, 600 * MS);
    cr_assert(world_serves(world, 0, 2));
    cr_assert_eq(world->groups[1].outcome.outcome, AGENT_OUTCOME_OUT);
    cr_assert_eq(world->groups[1].outcome.committed.seq, 1);
    cr_assert(world_is_shut(world, 1));
    world_run(world, 30 * S);
    cr_assert(world_serves(world, 1, 2), "%s", world->groups[1].message);
    expect_sound(world);
    world_destroy(world);
}

/* An engine that dies while its group waits takes only its group out. */
Test(agent_barrier, engine_dies_while_shut)
{
    struct world *world = begun_by_hand();
    world_kill(world, 1, 0, true);
    world_run(world, S);
    cr_assert_eq(world->groups[1].outcome.outcome, AGENT_OUTCOME_OUT);
    cr_assert(world->journal_last[JOURNAL_OUTCOME].outcome.needs_ticket);
    cr_assert_eq(world->groups[0].report.barrier, AGENT_BARRIER_STAND_SHUT);
    expect_sound(world);
    world_destroy(world);
}

/* A ticket without the deadline is refused by name. */
Test(agent_barrier, needs_a_deadline)
{
    struct world *world = staged();
    world_ticket(world, 0, 2, false);
    world->groups[0].ticket.barrier = true;
    world_run(world, S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_REFUSED);
    cr_assert_not_null(strstr(world->groups[0].outcome.message, "barrier_deadline_ms"));
    world_destroy(world);
}

/* Runs a barrier with a crash of the agent at boundary 'at' (0: none), with what 'spoil' breaks;
 * returns how many boundaries there were. */
static uint32_t run(uint32_t at, enum crash_mode mode, void (*spoil)(struct world *world))
{
    struct world *world = staged();
    spoil(world);
    world->counting = true;
    world->crash_mode = mode;
    world->crash_at = at;
    world_barrier(world, 2);
    world_run(world, 20 * S);
    uint32_t boundaries = world->boundaries;
    if (world->crashed) {
        world->crashed = false;
        world->counting = false;
        world_run(world, S);
        world_start(world);
    }
    world_run(world, 150 * S);
    cr_assert(world->violation[0] == '\0', "crash %u of mode %d: %s", at, mode, world->violation);
    cr_assert_eq(world->hello_open_tickets, 0, "crash %u of mode %d: session before outcome", at,
                 mode);
    cr_assert(world->barrier.open || world->barrier.cancelled, "crash %u of mode %d: undecided", at,
              mode);
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert(!world->groups[i].ticket_open, "crash %u of mode %d: no outcome", at, mode);
        cr_assert(world_serves(world, i, world->barrier.open ? 2 : 1),
                  "crash %u of mode %d: group %u does not serve %d: %s: %s", at, mode, i,
                  world->barrier.open ? 2 : 1,
                  agent_group_state_name(world->groups[i].report.state), world->groups[i].message);
    }
    world_destroy(world);
    return boundaries;
}

static void crash_everywhere(void (*spoil)(struct world *world))
{
    uint32_t boundaries = run(0, CRASH_NEVER, spoil);
    cr_assert_gt(boundaries, 40, "only %u boundaries", boundaries);
    uint32_t last = boundaries < 100 ? boundaries : 100;
    for (uint32_t at = 1; at <= last; at++) {
        run(at, CRASH_BEFORE, spoil);
        run(at, CRASH_AFTER, spoil);
        run(at, CRASH_AFTER_LATE, spoil);
    }
}

static void nothing(struct world *world)
{
    (void)world;
}

static void update_fails(struct world *world)
{
    world_fault(&world->engines[1][1], AGENT_OP_UPDATE, FAULT_FAIL, 1);
}

/* The agent dies at every journal record and operation of a barrier: all groups end on one version,
 * and no gate opens before its time. */
Test(agent_barrier, crash_anywhere)
{
    crash_everywhere(nothing);
}

Test(agent_barrier, crash_anywhere_with_a_straggler)
{
    crash_everywhere(update_fails);
}
