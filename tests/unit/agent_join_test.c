/* agent_join_test.c -- stories of groups that come into service: new, restarted, or known before.
 * */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/agent_world.h"

static void expect_state(const struct world *world, enum agent_group_state state)
{
    const struct world_group *group = &world->groups[0];
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
    cr_assert_eq(group->report.state, state, "%s: %s", agent_group_state_name(group->report.state),
                 group->message);
}

static void restart(struct world *world, uint64_t later_ns)
{
    world_crash(world);
    world_run(world, later_ns);
    world_start(world);
}

/* Nothing was published: the gate stays shut, and the report says why. */
Test(agent_join, without_a_version_stays_shut)
{
    struct world *world = world_create(1, 2, 1);
    world_start(world);
    world_run(world, 5 * S);
    expect_state(world, AGENT_GROUP_JOINING);
    cr_assert_str_eq(world->groups[0].blocked, "NO_VERSION");
    cr_assert(world_is_shut(world, 0));
    world_destroy(world);
}

/* A new group needs a ticket even if its engines hold the target: it was never committed. Their
 * weights are left alone, since they were read back as equal. */
Test(agent_join, equal_weights_need_a_ticket_and_no_update)
{
    struct world *world = world_create(1, 2, 1);
    world->groups[0].auto_rejoin = false;
    world_goals(world, 0, 1, 0);
    world_start(world);
    world_run(world, 5 * S);
    expect_state(world, AGENT_GROUP_JOINING);
    cr_assert(world_is_shut(world, 0));
    cr_assert_str_eq(world->groups[0].message, "waits for a rejoin ticket");
    world_ticket(world, 0, 1, true);
    world_run(world, S);
    expect_state(world, AGENT_GROUP_SERVING);
    cr_assert(world_serves(world, 0, 1));
    cr_assert_eq(world->engines[0][0].calls[AGENT_OP_UPDATE], 0);
    cr_assert_eq(world->groups[0].outcome.phases.shut_ns, 0, "a join closes no gate");
    world_destroy(world);
}

/* Other weights are brought to the target with the gate shut. */
Test(agent_join, other_weights_are_updated)
{
    struct world *world = world_create(1, 2, 7);
    world_serve(world, 1);
    expect_state(world, AGENT_GROUP_SERVING);
    cr_assert(world_serves(world, 0, 1));
    cr_assert_eq(world->engines[0][1].calls[AGENT_OP_UPDATE], 1);
    world_destroy(world);
}

/* A rejoin that fails closes its ticket as OUT, and the next one succeeds. */
Test(agent_join, failed_rejoin_is_tried_with_a_new_ticket)
{
    struct world *world = world_create(1, 2, 7);
    world_fault(&world->engines[0][0], AGENT_OP_UPDATE, FAULT_FAIL_BACK, 1);
    world_serve(world, 1);
    world_run(world, 10 * S);
    expect_state(world, AGENT_GROUP_SERVING);
    cr_assert_eq(world->groups[0].outcomes, 2);
    cr_assert(world_serves(world, 0, 1));
    world_destroy(world);
}

/* An agent's restart is not noticed by anybody who is served: no gate moves, nothing is paused. */
Test(agent_join, agent_restart_disturbs_nobody)
{
    struct world *world = world_create(2, 2, 1);
    world_serve(world, 1);
    uint32_t gates = world->engines[0][0].calls[AGENT_OP_SET_GATE];
    uint32_t pauses = world->engines[0][0].calls[AGENT_OP_PAUSE];
    for (int i = 0; i < 3; i++) {
        world_crash(world);
        world_start(world);
        uint64_t end_ns = world->now_ns + 3 * S;
        while (world->now_ns < end_ns) {
            world_run(world, 10 * MS);
            cr_assert(world_serves(world, 0, 1) && world_serves(world, 1, 1));
        }
        expect_state(world, AGENT_GROUP_SERVING);
    }
    cr_assert_eq(world->engines[0][0].calls[AGENT_OP_SET_GATE], gates);
    cr_assert_eq(world->engines[0][0].calls[AGENT_OP_PAUSE], pauses);
    /* But its residents are read back in the background. */
    cr_assert_geq(world->engines[0][0].calls[AGENT_OP_READBACK], 2 + 3);
    world_destroy(world);
}

/* ... also while the controller is away. */
Test(agent_join, agent_restart_without_controller_serves)
{
    struct world *world = world_create(1, 1, 1);
    world_serve(world, 1);
    world->controller_up = false;
    restart(world, S);
    world_run(world, 30 * S);
    cr_assert(world_serves(world, 0, 1));
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
    world_destroy(world);
}

/* The background read-back finds weights that are not those of the journal: out, then back. */
Test(agent_join, background_readback_finds_other_weights)
{
    struct world *world = world_create(1, 2, 1);
    world_serve(world, 1);
    world_crash(world);
    world->blind = true;
    memcpy(world->engines[0][1].resident, world_version(5).digest, BATON_DIGEST_TEXT_BYTES);
    world_start(world);
    world_run(world, 100 * MS);
    cr_assert(world_noted(world, "ResidentMismatch"));
    cr_assert(world_is_shut(world, 0));
    world->blind = false;
    world_run(world, 10 * S);
    expect_state(world, AGENT_GROUP_SERVING);
    cr_assert(world_serves(world, 0, 1));
    world_destroy(world);
}

/* A live swap may end after COMMIT with a label that was not written, behind open gates (rule 10). */
Test(agent_join, a_label_of_before_is_written_after_a_restart)
{
    struct world *world = world_create(1, 1, 1);
    world_serve(world, 1);
    strcpy(world->engines[0][0].label, "7");
    restart(world, S);
    world_run(world, 60 * S);
    cr_assert(world_serves(world, 0, 1));
    cr_assert_str_eq(world->engines[0][0].label, "1");
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
    world_destroy(world);
}

/* Engines that were restarted while the agent was down boot shut, and join with a ticket. */
Test(agent_join, restarted_engine_rejoins)
{
    struct world *world = world_create(1, 2, 7);
    world_serve(world, 1);
    world_crash(world);
    world_boot(world, 0, 1);
    world->groups[0].auto_rejoin = false;
    world_start(world);
    world_run(world, 5 * S);
    expect_state(world, AGENT_GROUP_JOINING);
    cr_assert(world_is_shut(world, 0), "the other engine's gate is shut too");
    world->groups[0].auto_rejoin = true;
    world_run(world, 5 * S);
    cr_assert(world_serves(world, 0, 1));
    world_destroy(world);
}

/* A lost journal: the gates of engines that serve are shut until they are verified, and what the
 * lost one had promised is durable before any ticket is taken. */
Test(agent_join, lost_journal_gets_floors)
{
    struct world *world = world_create(1, 2, 1);
    world_serve(world, 1);
    world_crash(world);
    struct journal_record record = { .kind = JOURNAL_INCARNATION,
                                     .incarnation = "ffffffffffffffffffffffffffffffff" };
    world->journal_index = 0;
    world->journal_size = JOURNAL_HEADER_BYTES;
    world->journal_size += journal_record_encode(&record, ++world->journal_index,
                                                 world->journal + world->journal_size, 4096);
    world->groups[0].auto_rejoin = false;
    (void)snprintf(world->floors[0].group, sizeof world->floors[0].group, "g0");
    world->floors[0].ticket_number = 41;
    world->floors[0].owner_term = 3;
    world->floors_count = 1;
    world->groups[0].owner_term = 3;
    world_start(world);
    world_run(world, 5 * S);
    cr_assert_str_eq(world->hello_incarnation, record.incarnation);
    cr_assert(world_is_shut(world, 0));
    cr_assert_geq(world->journal_counts[JOURNAL_FLOORS], 1);
    world_ticket(world, 0, 1, true); /* Number 2: the store went back. */
    world_run(world, S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_REFUSED);
    world->groups[0].number = 41;
    world_ticket(world, 0, 1, true);
    world_run(world, S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_COMMITTED, "%s",
                 world->groups[0].outcome.message);
    cr_assert(world_serves(world, 0, 1));
    world_destroy(world);
}

/* Engines without a guard: the group serves, and says that this is not ensured. */
Test(agent_join, without_guard_is_advisory)
{
    struct world *world = world_create(1, 1, 1);
    world->engines[0][0].guarded = false;
    world_serve(world, 1);
    expect_state(world, AGENT_GROUP_SERVING);
    cr_assert(world->groups[0].report.advisory);
    cr_assert_eq(world->engines[0][0].calls[AGENT_OP_SET_GATE], 0);
    world_destroy(world);
}

/* A ticket that comes while the group is still looking at its engines waits for that. */
Test(agent_join, early_ticket_waits)
{
    struct world *world = world_create(1, 1, 7);
    world->landed[1] = true;
    world->groups[0].auto_rejoin = false;
    world_goals(world, 0, 1, 0);
    world_start(world);
    world_run(world, 3 * MS); /* Attached; the gate is being shut. */
    world_ticket(world, 0, 1, true);
    world_run(world, S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_COMMITTED, "%s",
                 world->groups[0].outcome.message);
    world_destroy(world);
}

/* Without a guard only the incarnation tells that an engine was restarted behind the agent's back. */
Test(agent_join, restarted_engine_without_guard_is_not_trusted)
{
    struct world *world = world_create(1, 1, 7);
    world->engines[0][0].guarded = false;
    world_serve(world, 1);
    cr_assert(world_serves(world, 0, 1));
    world_crash(world);
    world_boot(world, 0, 0);
    world_start(world);
    world_run(world, 10 * MS);
    expect_state(world, AGENT_GROUP_JOINING);
    world_run(world, 5 * S);
    expect_state(world, AGENT_GROUP_SERVING);
    cr_assert(world_serves(world, 0, 1), "it was brought back to what the group serves");
    world_destroy(world);
}

/* Residents in doubt by the journal: equal weights and open gates are not enough. */
Test(agent_join, doubt_is_settled_by_a_ticket_only)
{
    struct world *world = world_create(1, 2, 1);
    world_serve(world, 1);
    world_crash(world);
    struct journal_record doubt = world->journal_last[JOURNAL_OUTCOME];
    doubt.outcome.needs_ticket = true;
    world->journal_size += journal_record_encode(&doubt, ++world->journal_index,
                                                 world->journal + world->journal_size, 4096);
    world->groups[0].auto_rejoin = false;
    world_start(world);
    world_run(world, 5 * S);
    expect_state(world, AGENT_GROUP_JOINING);
    cr_assert(world_is_shut(world, 0));
    world->groups[0].auto_rejoin = true;
    world_run(world, 5 * S);
    cr_assert(world_serves(world, 0, 1));
    world_destroy(world);
}

/* A rejoin raises the fence even where no update is needed: a call of an earlier ticket that wakes up
 * later does nothing. */
Test(agent_join, late_call_of_an_earlier_rejoin_is_fenced)
{
    struct world *world = world_create(1, 1, 2);
    world->groups[0].auto_rejoin = false;
    world->engines[0][0].late_ns = 40 * S;
    world_fault(&world->engines[0][0], AGENT_OP_UPDATE, FAULT_LATE, 1);
    world_goals(world, 0, 1, 0);
    world_start(world);
    world_run(world, 5 * S);
    world_ticket(world, 0, 1, true);
    world_run(world, 20 * S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_OUT);
    world_goals(world, 0, 2, 0); /* What it booted with. */
    world_run(world, 5 * S);
    world_ticket(world, 0, 2, true);
    world_run(world, 30 * S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_COMMITTED, "%s",
                 world->groups[0].outcome.message);
    cr_assert_eq(world->engines[0][0].calls[AGENT_OP_UPDATE], 1);
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
    cr_assert(world_serves(world, 0, 2));
    world_destroy(world);
}

/* ... and is refused if a later leadership came meanwhile (invariant 9). */
Test(agent_join, waiting_ticket_of_an_earlier_epoch)
{
    struct world *world = world_create(1, 1, 1);
    world->landed[1] = true;
    world->controller_up = false;
    world_start(world);
    world_run(world, 3 * MS); /* Attached; the gate is being shut. */
    struct agent_ticket ticket = { .uid = "00000000000000000000000000000009",
                                   .number = 9,
                                   .epoch = { 1, 1 },
                                   .owner_term = 1,
                                   .group = "g0",
                                   .to = world_version(1),
                                   .policy = { .swap_deadline_ns = 10 * S },
                                   .rejoin = true };
    world_event(world, (struct agent_event){ .kind = AGENT_EVENT_SESSION_OPENED });
    world_event(world, (struct agent_event){ .kind = AGENT_EVENT_WELCOME,
                                             .welcome = { { 1, 1 }, 6 * S, NULL, 0 } });
    world_event(world, (struct agent_event){ .kind = AGENT_EVENT_TICKET, .ticket = &ticket });
    cr_assert_eq(world->journal_counts[JOURNAL_ACCEPT] + world->journal_counts[JOURNAL_REFUSE], 0,
                 "it waits until the engines were looked at");
    world_event(world, (struct agent_event){ .kind = AGENT_EVENT_WELCOME,
                                             .welcome = { { 1, 2 }, 6 * S, NULL, 0 } });
    world_run(world, 2 * S);
    cr_assert_eq(world->journal_counts[JOURNAL_ACCEPT], 0);
    cr_assert_eq(world->journal_counts[JOURNAL_REFUSE], 1);
    const char *why = world->journal_last[JOURNAL_REFUSE].outcome.record.message;
    cr_assert(strstr(why, "epoch") != NULL, "%s", why);
    world_destroy(world);
}
