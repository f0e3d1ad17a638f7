/* controller_barrier_test.c -- strategy Barrier, as stories: all shut, all commit, all open; too few;
 * stragglers; a controller that dies at any step. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/controller_world.h"

static void apply(struct world *world, const char *strategy, const char *quorum)
{
    struct policy_spec spec = { .max_unavailable = "1",
                                .strategy = strategy,
                                .barrier_quorum = quorum,
                                .barrier_deadline_ms = 10000,
                                .swap_deadline_ms = 10000 };
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st), "%s", st.message);
}

/* From outside: no group opens the new version while another one of the barrier is still shut. */
static void check(struct world *world, void *context)
{
    bool opens = false;
    bool waits = false;
    (void)context;
    for (uint32_t i = 0; i < world->agents_count; i++) {
        bool connected = world->agents[i].session != 0;
        for (uint32_t k = 0; connected && k < world->agents[i].groups_count; k++) {
            const struct played_group *group = &world->agents[i].groups[k];
            opens |= group->has_ticket && group->word == BARRIER_WORD_OPEN;
            waits |= group->has_ticket && (group->report.barrier == BARRIER_STAND_SHUT ||
                                           group->report.barrier == BARRIER_STAND_GOING);
        }
    }
    cr_assert(!(opens && waits), "a gate may open while another group is shut");
}

/* 'groups' groups serve version 1; version 2 is published; nobody reported yet. */
static struct world *published(uint32_t groups, const char *quorum)
{
    struct world *world = world_new();
    apply(world, "Barrier", quorum);
    cr_assert_eq(world_publish(world, "m"), 1);
    world_fleet(world, "m", groups);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 1);
    world->after_step = check;
    cr_assert_eq(world_publish(world, "m"), 2);
    return world;
}

static void report_all(struct world *world)
{
    for (uint32_t i = 0; i < world->agents_count; i++) {
        world_report(world, &world->agents[i], NULL, 0);
    }
}

static struct world *ticketed(uint32_t groups, const char *quorum)
{
    struct world *world = published(groups, quorum);
    report_all(world);
    cr_assert_eq(world_tickets(world), groups);
    return world;
}

static enum barrier_stage stage(const struct world *world, uint64_t roll)
{
    return world_roll(world, "m", roll)->barrier_stage;
}

static enum barrier_word word(struct world *world, const char *group)
{
    return world_group(world, group)->word;
}

/* All tickets at once, whatever maxUnavailable says; GO when the last one is shut; OPEN when the
 * last one committed; only then is a wait met. */
Test(barrier, all_shut_all_commit_all_open)
{
    struct world *world = published(3, NULL);
    uint64_t handle = world_wait(world, "m", 2);
    world_report(world, world_agent(world, "a0"), NULL, 0);
    world_report(world, world_agent(world, "a1"), NULL, 0);
    cr_assert_eq(world_tickets(world), 0, "all are staged first");
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_BARRIER_WAITING);
    cr_assert_eq(world_blocked(world, "g2"), BLOCKED_STAGING);
    world_report(world, world_agent(world, "a2"), NULL, 0);
    cr_assert_eq(world_tickets(world), 3);
    cr_assert(world_record(world, "g1")->ticket.barrier);
    cr_assert_eq(stage(world, 0), BARRIER_STAGE_SHUTTING);
    world_stand(world, "g0", BARRIER_STAND_SHUT);
    world_stand(world, "g1", BARRIER_STAND_SHUT);
    cr_assert_eq(word(world, "g0"), BARRIER_WORD_NONE);
    world_stand(world, "g2", BARRIER_STAND_SHUT);
    cr_assert_eq(stage(world, 0), BARRIER_STAGE_GO);
    cr_assert_neq(world_roll(world, "m", 0)->barrier_decided_wall_ns, 0);
    const char *const names[] = { "g0", "g1", "g2" };
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(word(world, names[i]), BARRIER_WORD_GO);
        world_stand(world, names[i], BARRIER_STAND_GOING);
    }
    world_stand(world, "g0", BARRIER_STAND_COMMITTED);
    world_stand(world, "g1", BARRIER_STAND_COMMITTED);
    cr_assert_eq(word(world, "g0"), BARRIER_WORD_GO);
    world_stand(world, "g2", BARRIER_STAND_COMMITTED);
    cr_assert_eq(stage(world, 0), BARRIER_STAGE_OPEN);
    for (int i = 0; i < 3; i++) {
        cr_assert_null(world_wait_end(world, handle), "not all gates are open");
        cr_assert_eq(word(world, names[i]), BARRIER_WORD_OPEN);
        world_finish(world, names[i], SWAP_OUTCOME_COMMITTED);
    }
    const struct action_wait_done *done = world_wait_end(world, handle);
    cr_assert(done != NULL && done->outcome == WAIT_OUTCOME_MET);
    cr_assert_eq(world_roll(world, "m", 0)->state, ROLL_STATE_COMPLETED);
    world_free(world);
}

/* Too few are shut by the deadline: CANCEL, and the next try when all are ready again. */
Test(barrier, cancelled_at_the_deadline_and_tried_again)
{
    struct world *world = ticketed(3, NULL);
    world_stand(world, "g0", BARRIER_STAND_SHUT);
    world_stand(world, "g1", BARRIER_STAND_SHUT);
    world_pass(world, 9 * SEC);
    cr_assert_eq(stage(world, 0), BARRIER_STAGE_SHUTTING);
    world_pass(world, 2 * SEC);
    cr_assert_eq(stage(world, 0), BARRIER_STAGE_CANCELLED);
    cr_assert_eq(word(world, "g0"), BARRIER_WORD_CANCEL);
    cr_assert_eq(word(world, "g2"), BARRIER_WORD_CANCEL);
    for (int i = 0; i < 60 && world_committed(world, "g0") != 2; i++) {
        world_play(world);
        world_pass(world, SEC);
    }
    world_play(world);
    cr_assert_eq(world_roll(world, "m", 0)->state, ROLL_STATE_COMPLETED);
    cr_assert_eq(world_roll(world, "m", 0)->barrier_tries, 2);
    world_free(world);
}

/* One that gives up before it was shut cancels a full quorum at once. */
Test(barrier, cancelled_when_a_group_gives_up)
{
    struct world *world = ticketed(2, NULL);
    world_stand(world, "g0", BARRIER_STAND_SHUT);
    world_finish(world, "g1", SWAP_OUTCOME_PAUSE_TIMEOUT);
    cr_assert_eq(stage(world, 0), BARRIER_STAGE_CANCELLED);
    cr_assert_eq(word(world, "g0"), BARRIER_WORD_CANCEL);
    world_free(world);
}

/* A quorum of the groups: those that are not shut by the deadline are left out and follow. */
Test(barrier, quorum)
{
    struct world *world = ticketed(3, "60%");
    world_stand(world, "g0", BARRIER_STAND_SHUT);
    world_stand(world, "g1", BARRIER_STAND_SHUT);
    cr_assert_eq(stage(world, 0), BARRIER_STAGE_SHUTTING, "the third one has time");
    world_pass(world, 11 * SEC);
    cr_assert_eq(stage(world, 0), BARRIER_STAGE_GO);
    cr_assert_eq(word(world, "g0"), BARRIER_WORD_GO);
    cr_assert_eq(word(world, "g2"), BARRIER_WORD_CANCEL);
    world_stand(world, "g0", BARRIER_STAND_COMMITTED);
    world_stand(world, "g1", BARRIER_STAND_COMMITTED);
    cr_assert_eq(stage(world, 0), BARRIER_STAGE_GO, "the third one has not ended yet");
    world_finish(world, "g2", SWAP_OUTCOME_PAUSE_TIMEOUT);
    cr_assert_eq(stage(world, 0), BARRIER_STAGE_OPEN);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 2);
    world_pass(world, 5 * SEC);
    world_play(world);
    cr_assert_eq(world_committed(world, "g2"), 2);
    cr_assert_eq(world_roll(world, "m", 0)->barrier_tries, 2);
    world_free(world);
}

/* A straggler is out; it joins at the new version, and not before the others open. */
Test(barrier, straggler_joins_at_the_new_version)
{
    struct world *world = ticketed(2, NULL);
    world_stand(world, "g0", BARRIER_STAND_SHUT);
    world_stand(world, "g1", BARRIER_STAND_SHUT);
    world_stand(world, "g1", BARRIER_STAND_GOING);
    world_finish(world, "g1", SWAP_OUTCOME_OUT);
    world_pass(world, 5 * SEC);
    world_report(world, world_agent(world, "a1"), NULL, 0);
    cr_assert_not(world_record(world, "g1")->ticket_open, "no rejoin while the others are shut");
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_BARRIER_WAITING);
    cr_assert_eq(world_record(world, "g1")->target_seq, 2);
    world_stand(world, "g0", BARRIER_STAND_COMMITTED);
    cr_assert_eq(stage(world, 0), BARRIER_STAGE_OPEN);
    cr_assert(world_record(world, "g1")->ticket_open);
    cr_assert(world_record(world, "g1")->ticket.rejoin);
    cr_assert_eq(world_record(world, "g1")->ticket.to_seq, 2);
    world_play(world);
    cr_assert_eq(world_committed(world, "g1"), 2);
    cr_assert_eq(world_roll(world, "m", 0)->state, ROLL_STATE_COMPLETED);
    world_free(world);
}

/* An agent that is silent after GO holds the others up to the deadline only; back again, committed,
 * it is told to open. */
Test(barrier, silent_agent_is_waited_for_up_to_the_deadline)
{
    struct world *world = ticketed(2, NULL);
    world_stand(world, "g0", BARRIER_STAND_SHUT);
    world_stand(world, "g1", BARRIER_STAND_SHUT);
    world_stand(world, "g0", BARRIER_STAND_COMMITTED);
    world_disconnect(world, world_agent(world, "a1"));
    world_pass(world, 15 * SEC);
    cr_assert_eq(stage(world, 0), BARRIER_STAGE_GO);
    world_pass(world, 6 * SEC);
    cr_assert_eq(stage(world, 0), BARRIER_STAGE_OPEN);
    cr_assert_eq(word(world, "g0"), BARRIER_WORD_OPEN);
    world_finish(world, "g0", SWAP_OUTCOME_COMMITTED);
    world->after_step = NULL; /* It goes alone now. */
    cr_assert(world_connect(world, world_agent(world, "a1")));
    cr_assert_eq(word(world, "g1"), BARRIER_WORD_GO);
    world_play(world);
    cr_assert_eq(world_committed(world, "g1"), 2);
    cr_assert_eq(world_roll(world, "m", 0)->state, ROLL_STATE_COMPLETED);
    world_free(world);
}

/* A newer publish waits for the barrier that is under way, which ends as it began. */
Test(barrier, superseded_ends_first)
{
    struct world *world = ticketed(2, NULL);
    world_stand(world, "g0", BARRIER_STAND_SHUT);
    for (uint64_t seq = 3; seq <= 16; seq++) {
        cr_assert_eq(world_publish(world, "m"), seq);
    }
    cr_assert_eq(world_roll(world, "m", 2)->state, ROLL_STATE_SUPERSEDED);
    cr_assert_eq(stage(world, 2), BARRIER_STAGE_SHUTTING, "more rolls than are kept came since");
    world_stand(world, "g1", BARRIER_STAND_SHUT);
    cr_assert_eq(stage(world, 2), BARRIER_STAGE_GO);
    world_stand(world, "g0", BARRIER_STAND_COMMITTED);
    world_stand(world, "g1", BARRIER_STAND_COMMITTED);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 16);
    cr_assert_eq(world_committed(world, "g1"), 16);
    world_free(world);
}

/* Undo before the decision cancels; after it the barrier ends, and the way back is one of its own.
 */
Test(barrier, undo)
{
    for (int decided = 0; decided < 2; decided++) {
        struct world *world = ticketed(2, NULL);
        world_stand(world, "g0", BARRIER_STAND_SHUT);
        if (decided) {
            world_stand(world, "g1", BARRIER_STAND_SHUT);
        }
        struct baton_status st = world_verb(world, REQUEST_ROLL_UNDO, "m", 0);
        cr_assert(baton_ok(&st), "%s", st.message);
        cr_assert_eq(stage(world, 2), decided ? BARRIER_STAGE_GO : BARRIER_STAGE_CANCELLED);
        for (int i = 0; i < 30; i++) {
            world_play(world);
            world_pass(world, SEC);
        }
        cr_assert_eq(world_committed(world, "g0"), 1);
        cr_assert_eq(world_committed(world, "g1"), 1);
        cr_assert_eq(world_roll(world, "m", 3)->state, ROLL_STATE_COMPLETED);
        cr_assert_eq(world_roll(world, "m", 3)->barrier_tries, decided ? 1 : 0);
        world_free(world);
    }
}

/* A policy that becomes Rolling meanwhile changes nothing of what is under way. */
Test(barrier, policy_changes_on_the_way)
{
    struct world *world = ticketed(3, NULL);
    world_stand(world, "g0", BARRIER_STAND_SHUT);
    apply(world, "Rolling", NULL);
    world_finish(world, "g1", SWAP_OUTCOME_OUT);
    world_play(world);
    world_pass(world, 20 * SEC);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 2);
    cr_assert_eq(world_committed(world, "g1"), 2);
    world_free(world);
}

/* Plays 'rounds' single steps, each agent in turn. */
static void play_some(struct world *world, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++) {
        world_play_once(world, i % world->agents_count);
    }
}

/* The controller dies after any step of a barrier: the next one goes on where the store says, tells
 * nobody the contrary, and all groups end open on the new version. */
Test(barrier, controller_dies_anywhere)
{
    uint32_t whole = 0;
    for (uint32_t cut = 0; cut < 60 && whole < 3; cut++) {
        struct world *world = published(3, NULL);
        play_some(world, cut);
        whole += world_roll(world, "m", 2)->state == ROLL_STATE_COMPLETED;
        bool decided = world_roll(world, "m", 2)->barrier_decided_wall_ns != 0;
        world_restart(world);
        for (uint32_t i = 0; i < world->agents_count; i++) {
            cr_assert(world_connect(world, &world->agents[i]));
        }
        world_play(world);
        for (uint32_t i = 0; i < 3; i++) {
            cr_assert_eq(world_group(world, i == 0   ? "g0"
                                            : i == 1 ? "g1"
                                                     : "g2")
                             ->report.committed_seq,
                         2, "cut %u: group %u", cut, i);
        }
        cr_assert_eq(world_roll(world, "m", 2)->state, ROLL_STATE_COMPLETED, "cut %u", cut);
        cr_assert(!decided || world_roll(world, "m", 2)->barrier_tries == 1, "cut %u", cut);
        world_free(world);
    }
    cr_assert_eq(whole, 3, "the cuts did not reach the end");
}

/* Bad keys are refused by name. */
Test(barrier, refusals)
{
    struct world *world = world_new();
    struct policy_spec spec = { .strategy = "Barrier", .barrier_quorum = "0%" };
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    cr_assert_str_eq(world->reply.field, "spec.update.barrier.quorum");
    spec = (struct policy_spec){ .strategy = "Barrier", .barrier_deadline_ms = 5 };
    st = world_apply(world, "m", &spec);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    cr_assert_str_eq(world->reply.field, "spec.update.barrier.deadline");
    world_free(world);
}
