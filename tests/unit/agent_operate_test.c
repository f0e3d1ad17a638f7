/* agent_operate_test.c -- break-glass stories: resume, restore, detach at the agent's own node, while
 * the controller is gone. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/agent_world.h"

static bool operate(struct world *world, enum agent_verb verb)
{
    struct agent_event event = { .kind = AGENT_EVENT_OPERATE,
                                 .operate = { verb, "g0", "root (pid 1)" } };
    memset(&world->operated, 0, sizeof world->operated);
    world_event(world, event);
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
    return world->operated.ok;
}

static void expect_refusal(struct world *world, enum agent_verb verb, const char *part)
{
    uint32_t before = world->journal_counts[JOURNAL_OPERATE];
    cr_assert_not(operate(world, verb));
    cr_assert(strstr(world->operated.message, part) != NULL, "%s", world->operated.message);
    cr_assert_eq(world->journal_counts[JOURNAL_OPERATE], before, "nothing was carried out");
}

/* One group of two engines that serves version 1; then the controller dies. */
static struct world *alone(void)
{
    struct world *world = world_create(1, 2, 1);
    world_serve(world, 1);
    world->controller_up = false;
    world_run(world, S);
    return world;
}

/* An engine dies and comes back while no controller lives: its group waits for a ticket that cannot
 * come.  Resume makes one here, journaled like any other, and the group serves what it committed. */
Test(agent_operate, resume_brings_a_lost_group_back)
{
    struct world *world = alone();
    world_kill(world, 0, 1, true);
    world_run(world, 60 * S);
    cr_assert(world_is_shut(world, 0));
    uint32_t accepts = world->journal_counts[JOURNAL_ACCEPT];
    uint64_t number = world->journal_last[JOURNAL_ACCEPT].accept.ticket.number;
    cr_assert(operate(world, AGENT_VERB_RESUME), "%s", world->operated.message);
    cr_assert_str_eq(world->journal_last[JOURNAL_OPERATE].operate.by, "root (pid 1)");
    world_run(world, 30 * S);
    cr_assert(world_serves(world, 0, 1), "%s", world->groups[0].message);
    cr_assert_eq(world->journal_counts[JOURNAL_ACCEPT], accepts + 1);
    const struct agent_ticket *ticket = &world->journal_last[JOURNAL_ACCEPT].accept.ticket;
    cr_assert_eq(ticket->number, number + 1, "fenced");
    cr_assert(ticket->rejoin);
    cr_assert_eq(world_committed(world, 0), 1);
    /* The controller comes back, hears of the ticket, and goes on above its number. */
    world->controller_up = true;
    world_run(world, 30 * S);
    cr_assert_eq(world->groups[0].report.highest_ticket, number + 1);
    cr_assert(world_serves(world, 0, 1));
    world_destroy(world);
}

/* A drained group whose controller is gone: the bytes are compared before a gate opens. */
Test(agent_operate, resume_of_a_drained_group_compares_first)
{
    struct world *world = world_create(1, 2, 1);
    world_serve(world, 1);
    world->groups[0].drain = true;
    world_goals(world, 0, 1, 0);
    world_run(world, 2 * S);
    cr_assert(world_is_shut(world, 0));
    world->controller_up = false;
    world_run(world, S);
    /* Somebody changed one engine behind everybody's back. */
    struct agent_version other = world_version(7);
    memcpy(world->engines[0][1].resident, other.digest, sizeof other.digest);
    uint32_t updates = world->engines[0][1].calls[AGENT_OP_UPDATE];
    cr_assert(operate(world, AGENT_VERB_RESUME), "%s", world->operated.message);
    world_run(world, 30 * S);
    cr_assert(world_serves(world, 0, 1));
    cr_assert_eq(world->engines[0][1].calls[AGENT_OP_UPDATE], updates + 1, "it was brought back");
    world_destroy(world);
}

/* Put to sleep by a controller that is gone since: whoever knows that the device is free wakes the group
 * here, also after a restart of the agent, when nobody has told any goals.  While the controller is
 * there the verb is its own. */
Test(agent_operate, resume_wakes_a_sleeper)
{
    for (int restarted = 0; restarted < 2; restarted++) {
        struct world *world = world_create(1, 2, 1);
        world_serve(world, 1);
        world->groups[0].sleep = true;
        world_goals(world, 0, 1, 0);
        world_run(world, 5 * S);
        cr_assert(world->engines[0][1].asleep);
        expect_refusal(world, AGENT_VERB_RESUME, "batonctl wake");
        world->controller_up = false;
        world->session_open = false;
        world_event(world, (struct agent_event){ .kind = AGENT_EVENT_SESSION_CLOSED });
        if (restarted == 1) {
            world_crash(world);
            world_start(world);
        }
        world_run(world, 30 * S);
        cr_assert(world->engines[0][1].asleep, "nobody asked");
        uint32_t updates = world->engines[0][1].calls[AGENT_OP_UPDATE];
        cr_assert(operate(world, AGENT_VERB_RESUME), "%s", world->operated.message);
        world_run(world, 30 * S);
        cr_assert_not(world->engines[0][1].asleep);
        cr_assert(world_serves(world, 0, 1), "%s", world->groups[0].message);
        cr_assert_eq(world->engines[0][1].calls[AGENT_OP_UPDATE], updates + 1);
        world_destroy(world);
    }
}

/* Nothing to compare with, nothing to do, unknown groups: refused or answered, and not journaled. */
Test(agent_operate, refusals)
{
    struct world *world = world_create(1, 1, 1);
    world_start(world);
    world_run(world, 5 * S);
    expect_refusal(world, AGENT_VERB_RESUME, "never committed");
    expect_refusal(world, AGENT_VERB_RESTORE, "no swap is open");
    world_goals(world, 0, 1, 0);
    world_run(world, 10 * S);
    cr_assert(operate(world, AGENT_VERB_RESUME), "%s", world->operated.message);
    cr_assert(strstr(world->operated.message, "serves already") != NULL);
    cr_assert_eq(world->journal_counts[JOURNAL_OPERATE], 0);
    struct agent_event event = { .kind = AGENT_EVENT_OPERATE,
                                 .operate = { AGENT_VERB_DETACH, "nobody", "root" } };
    world_event(world, event);
    cr_assert_not(world->operated.ok);
    cr_assert(strstr(world->operated.message, "no group nobody") != NULL);
    world_destroy(world);
}

/* A swap that hangs in an update: restore ends it now, by its own way back. */
Test(agent_operate, restore_sends_an_open_swap_back)
{
    struct world *world = world_create(1, 2, 1);
    world_serve(world, 1);
    world_goals(world, 0, 1, 2);
    world_run(world, 5 * S);
    world_fault(&world->engines[0][1], AGENT_OP_UPDATE, FAULT_HANG, 1);
    world_ticket(world, 0, 2, false);
    world_run(world, 3 * S);
    cr_assert_eq(world->groups[0].report.state, AGENT_GROUP_APPLYING);
    world->controller_up = false;
    expect_refusal(world, AGENT_VERB_DETACH, "a swap is open");
    expect_refusal(world, AGENT_VERB_RESUME, "a swap is open");
    uint64_t asked_ns = world->now_ns;
    cr_assert(operate(world, AGENT_VERB_RESTORE), "%s", world->operated.message);
    while (!world_serves(world, 0, 1) && world->now_ns < asked_ns + 120 * S) {
        world_run(world, 100 * MS);
    }
    cr_assert(world_serves(world, 0, 1));
    cr_assert_eq(world_committed(world, 0), 1);
    cr_assert_eq(world->journal_last[JOURNAL_OUTCOME].outcome.record.outcome,
                 AGENT_OUTCOME_APPLY_FAILED);
    world_destroy(world);
}

/* Before any weight is touched it reopens. */
Test(agent_operate, restore_before_intent_reopens)
{
    struct world *world = world_create(1, 1, 1);
    world_serve(world, 1);
    world_goals(world, 0, 1, 2);
    world_run(world, 5 * S);
    world_fault(&world->engines[0][0], AGENT_OP_PAUSE, FAULT_HANG, 1);
    world_ticket(world, 0, 2, false);
    world_run(world, S);
    cr_assert_eq(world->groups[0].report.state, AGENT_GROUP_PAUSING);
    cr_assert(operate(world, AGENT_VERB_RESTORE), "%s", world->operated.message);
    world_run(world, 30 * S);
    cr_assert(world_serves(world, 0, 1));
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_PAUSE_TIMEOUT);
    world_destroy(world);
}

/* While routers drain it stays open, and they are told so. */
Test(agent_operate, restore_while_routers_drain)
{
    struct world *world = world_create(1, 1, 1);
    world_serve(world, 1);
    world_goals(world, 0, 1, 2);
    world_run(world, 5 * S);
    struct agent_policy *policy = &world->groups[0].ticket.policy;
    policy->hooks_count = 2;
    policy->hooks[0] = (struct agent_hook){ AGENT_HOOK_AFTER_PROBE, "http://router/open", 2 * S };
    policy->hooks[1] = (struct agent_hook){ AGENT_HOOK_BEFORE_PAUSE, "http://router/drain", 2 * S };
    world_ticket(world, 0, 2, false);
    world_run(world, 5 * MS);
    cr_assert_eq(world->hooks[AGENT_HOOK_BEFORE_PAUSE], 1);
    cr_assert(operate(world, AGENT_VERB_RESTORE), "%s", world->operated.message);
    world_run(world, 5 * S);
    cr_assert_eq(world->hooks[AGENT_HOOK_AFTER_PROBE], 1);
    cr_assert(world_serves(world, 0, 1));
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_PAUSE_TIMEOUT);
    world_destroy(world);
}

/* Detached: engines and gates stay as they are, through the agent's restart too; tickets are refused;
 * resume attaches again and disturbs nobody. */
Test(agent_operate, detach_leaves_everything_as_it_is)
{
    struct world *world = alone();
    cr_assert(operate(world, AGENT_VERB_DETACH), "%s", world->operated.message);
    uint32_t health = world->engines[0][0].calls[AGENT_OP_HEALTH];
    uint32_t gates = world->engines[0][0].calls[AGENT_OP_SET_GATE];
    world_run(world, 60 * S);
    cr_assert(world_serves(world, 0, 1));
    world_crash(world);
    world_start(world);
    world->controller_up = true;
    world_run(world, 60 * S);
    cr_assert(world_serves(world, 0, 1));
    cr_assert_eq(world->groups[0].report.state, AGENT_GROUP_OUT);
    cr_assert_eq(world->engines[0][0].calls[AGENT_OP_HEALTH], health, "nobody looks at it");
    world_ticket(world, 0, 1, true);
    world_run(world, S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_REFUSED);
    cr_assert(strstr(world->groups[0].outcome.message, "detached") != NULL);
    cr_assert(operate(world, AGENT_VERB_RESUME), "%s", world->operated.message);
    world_run(world, 10 * S);
    cr_assert(world_serves(world, 0, 1));
    cr_assert_eq(world->groups[0].report.state, AGENT_GROUP_SERVING);
    cr_assert_eq(world->engines[0][0].calls[AGENT_OP_SET_GATE], gates);
    world_destroy(world);
}

/* The controller may take it back: a higher owner term ends the detachment, for good. */
Test(agent_operate, higher_owner_term_attaches)
{
    struct world *world = world_create(1, 1, 1);
    world_serve(world, 1);
    cr_assert(operate(world, AGENT_VERB_DETACH), "%s", world->operated.message);
    world_run(world, 5 * S);
    cr_assert_eq(world->groups[0].report.state, AGENT_GROUP_OUT);
    world->groups[0].owner_term++;
    world_goals(world, 0, 1, 0);
    world_run(world, 10 * S);
    cr_assert_eq(world->groups[0].report.state, AGENT_GROUP_SERVING);
    world_crash(world);
    world_start(world);
    world_run(world, 10 * S);
    cr_assert_eq(world->groups[0].report.state, AGENT_GROUP_SERVING);
    world_destroy(world);
}

/* Status changes nothing and takes nothing away from the next report. */
Test(agent_operate, status_is_silent)
{
    struct world *world = alone();
    uint32_t records = world->journal_counts[JOURNAL_OPERATE];
    (void)operate(world, AGENT_VERB_STATUS);
    cr_assert_eq(world->statuses, 1);
    cr_assert_eq(world->status.report.committed.seq, 1);
    cr_assert_eq(world->status.report.state, AGENT_GROUP_SERVING);
    cr_assert(world->status.report.gate_open);
    cr_assert_eq(world->journal_counts[JOURNAL_OPERATE], records);
    world_destroy(world);
}
