/* controller_rolls_test.c -- publishes, rolls, tickets and budget, as stories on virtual time. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/controller_world.h"

static void apply(struct world *world, const char *max_unavailable)
{
    struct policy_spec spec = { .max_unavailable = max_unavailable };
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st), "%s", st.message);
}

/* A fleet of 'groups' that serves version 1. */
static struct world *serving(uint32_t groups, const char *max_unavailable)
{
    struct world *world = world_new();
    apply(world, max_unavailable);
    cr_assert_eq(world_publish(world, "m"), 1);
    world_fleet(world, "m", groups);
    world_play(world);
    for (uint32_t i = 0; i < groups; i++) {
        char name[] = { 'g', (char)('0' + i), '\0' };
        cr_assert_eq(world_committed(world, name), 1, "%s is not up", name);
    }
    world->most_away = 0;
    return world;
}

/* A roll without groups has nothing to do: the version is promoted at once, so groups join at it.
 */
Test(rolls, zero_groups_complete_at_once)
{
    struct world *world = world_new();
    apply(world, NULL);
    cr_assert_eq(world_publish(world, "m"), 1);
    cr_assert_eq(world_roll(world, "m", 1)->state, ROLL_STATE_COMPLETED);
    cr_assert_eq(view_model_find(world->core, "m")->promoted_seq, 1);
    world_free(world);
}

/* The first fleet comes up all at once: groups that never served cost no budget. */
Test(rolls, first_bring_up_is_not_serialised)
{
    struct world *world = world_new();
    apply(world, "1");
    world_fleet(world, "m", 5);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_NO_VERSION);
    cr_assert_eq(world_publish(world, "m"), 1);
    for (uint32_t i = 0; i < 5; i++) {
        world_report(world, &world->agents[i], NULL, 0);
    }
    cr_assert_eq(world_tickets(world), 5);
    world_play(world);
    cr_assert_eq(world_roll(world, "m", 1)->state, ROLL_STATE_COMPLETED);
    cr_assert_eq(view_model_find(world->core, "m")->promoted_seq, 1);
    world_free(world);
}

/* The budget is percent of the groups, rounded down; the whole roll keeps within it. */
Test(rolls, rolls_within_the_budget)
{
    struct world *world = serving(8, "25%");
    cr_assert_eq(world_publish(world, "m"), 2);
    for (uint32_t i = 0; i < 8; i++) {
        world_report(world, &world->agents[i], NULL, 0);
    }
    cr_assert_eq(world_tickets(world), 2);
    cr_assert_eq(world_blocked(world, "g5"), BLOCKED_BUDGET_FULL);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_NONE);
    world_play(world);
    cr_assert_eq(world->most_away, 2);
    const struct roll_record *roll = world_roll(world, "m", 0);
    cr_assert_eq(roll->state, ROLL_STATE_COMPLETED);
    cr_assert_eq(roll->groups_done, 8);
    world_free(world);
}

/* At least one group may go away, however small the fleet. */
Test(rolls, budget_is_at_least_one)
{
    struct world *world = serving(3, "25%");
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    cr_assert_eq(world->most_away, 1);
    cr_assert_eq(world_committed(world, "g2"), 2);
    world_free(world);
}

/* OUT and UNKNOWN groups use up the budget: no ticket while they are away. */
Test(rolls, out_and_unknown_count_against_the_budget)
{
    struct world *world = serving(4, "2");
    struct played_group *lost = world_group(world, "g0");
    lost->report.state = GROUP_STATE_OUT;
    lost->report.gate_open = false;
    strcpy(lost->report.blocked, "ENGINE_NEEDS_RECREATE");
    world_report(world, world_agent(world, "a0"), NULL, 0);
    world_disconnect(world, world_agent(world, "a1"));
    world_pass(world, 11 * SEC);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_report(world, world_agent(world, "a2"), NULL, 0);
    world_report(world, world_agent(world, "a3"), NULL, 0);
    cr_assert_eq(world_tickets(world), 0);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_ENGINE_NEEDS_RECREATE);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_AGENT_UNKNOWN);
    cr_assert_eq(world_blocked(world, "g2"), BLOCKED_BUDGET_FULL);
    cr_assert(world_connect(world, world_agent(world, "a1")));
    world_play(world);
    cr_assert_eq(world_committed(world, "g1"), 2);
    cr_assert_eq(world_committed(world, "g3"), 2);
    world_free(world);
}

/* An OUT group has a free rejoin ticket to its target, also when the budget is full. */
Test(rolls, rejoin_ticket_is_free)
{
    struct world *world = serving(2, "1");
    struct played_agent *a1 = world_agent(world, "a1");
    a1->by_hand = true;
    cr_assert_eq(world_publish(world, "m"), 2);
    world_report(world, world_agent(world, "a0"), NULL, 0);
    cr_assert(world_record(world, "g0")->ticket_open);
    struct played_group *g1 = world_group(world, "g1");
    g1->report.state = GROUP_STATE_OUT;
    g1->report.gate_open = false;
    world_report(world, a1, NULL, 0);
    cr_assert(world_record(world, "g1")->ticket_open);
    cr_assert(world_record(world, "g1")->ticket.rejoin);
    cr_assert_eq(world_record(world, "g1")->ticket.to_seq, 1); /* Its target, not the roll's. */
    a1->by_hand = false;
    world_play(world);
    cr_assert_eq(world_committed(world, "g1"), 2);
    world_free(world);
}

/* A burst of publishes: groups without a ticket are re-aimed, ticketed ones are not, all end at the
 * newest version. */
Test(rolls, burst_of_publishes_supersedes)
{
    struct world *world = serving(4, "1");
    cr_assert_eq(world_publish(world, "m"), 2);
    for (uint32_t i = 0; i < 4; i++) {
        world_report(world, &world->agents[i], NULL, 0);
    }
    cr_assert_eq(world_record(world, "g0")->ticket.to_seq, 2);
    for (uint64_t seq = 3; seq <= 21; seq++) {
        cr_assert_eq(world_publish(world, "m"), seq);
    }
    cr_assert_eq(world_record(world, "g0")->ticket.to_seq, 2, "a ticketed group was re-aimed");
    cr_assert_eq(world_group(world, "g0")->goal_stage_seq, 2);
    cr_assert_eq(world_group(world, "g1")->goal_stage_seq, 21);
    world_finish(world, "g0", SWAP_OUTCOME_COMMITTED);
    cr_assert_eq(world_committed(world, "g0"), 2);
    world_play(world);
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert_eq(world_committed(world, world->agents[i].groups[0].report.group), 21);
    }
    cr_assert_eq(world_roll(world, "m", 20)->state, ROLL_STATE_SUPERSEDED);
    cr_assert_eq(world_roll(world, "m", 21)->state, ROLL_STATE_COMPLETED);
    cr_assert_eq(world->most_away, 1);
    world_free(world);
}

/* The stalest group goes first; equals by name. */
Test(rolls, stalest_group_goes_first)
{
    struct world *world = serving(3, "1");
    struct played_agent *a2 = world_agent(world, "a2");
    world_disconnect(world, a2);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_pass(world, 11 * SEC); /* g2 is UNKNOWN now and holds the only slot. */
    a2->by_hand = true;          /* It will serve, but not land version 2 yet. */
    cr_assert(world_connect(world, a2));
    for (int i = 0; i < 2; i++) {
        world_report(world, &world->agents[i], NULL, 0);
    }
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 2);
    cr_assert_eq(world_committed(world, "g1"), 2);
    cr_assert_eq(world_committed(world, "g2"), 1);
    /* All three are staged for version 3 before the slot is free: hold it with a pause. */
    cr_assert_eq(world_publish(world, "m"), 3);
    struct baton_status st = world_verb(world, REQUEST_ROLL_PAUSE, "m", 0);
    cr_assert(baton_ok(&st));
    a2->by_hand = false;
    cr_assert(world_connect(world, a2));
    world_play(world);
    st = world_verb(world, REQUEST_ROLL_RESUME, "m", 0);
    cr_assert(baton_ok(&st));
    cr_assert(world_record(world, "g2")->ticket_open, "the stalest group waits");
    cr_assert_not(world_record(world, "g0")->ticket_open);
    world_free(world);
}

/* A paused roll issues nothing new and lets open tickets end; a publish does not lift the pause. */
Test(rolls, pause_and_resume)
{
    struct world *world = serving(2, "1");
    cr_assert_eq(world_publish(world, "m"), 2);
    world_report(world, world_agent(world, "a0"), NULL, 0);
    struct baton_status st = world_verb(world, REQUEST_ROLL_PAUSE, "m", 0);
    cr_assert(baton_ok(&st));
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 2);
    cr_assert_eq(world_committed(world, "g1"), 1);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_ROLL_PAUSED);
    cr_assert_eq(world_publish(world, "m"), 3);
    cr_assert_eq(world_roll(world, "m", 0)->state, ROLL_STATE_PAUSED);
    world_play(world);
    cr_assert_eq(world_committed(world, "g1"), 1);
    st = world_verb(world, REQUEST_ROLL_RESUME, "m", 0);
    cr_assert(baton_ok(&st));
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 3);
    cr_assert_eq(world_committed(world, "g1"), 3);
    world_free(world);
}

/* A failed swap frees the slot, is shown, and is tried again after a pause. */
Test(rolls, failed_swap_backs_off)
{
    struct world *world = serving(2, "1");
    cr_assert_eq(world_publish(world, "m"), 2);
    world_report(world, world_agent(world, "a0"), NULL, 0);
    world_finish(world, "g0", SWAP_OUTCOME_APPLY_FAILED);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_SWAP_FAILED);
    cr_assert_eq(world_record(world, "g0")->last_swap.outcome, SWAP_OUTCOME_APPLY_FAILED);
    cr_assert_eq(world_tickets(world), 0);
    world_report(world, world_agent(world, "a1"), NULL, 0);
    cr_assert(world_record(world, "g1")->ticket_open, "the others go on");
    world_finish(world, "g1", SWAP_OUTCOME_COMMITTED);
    cr_assert_not(world_record(world, "g0")->ticket_open);
    world_pass(world, 2 * SEC);
    cr_assert(world_record(world, "g0")->ticket_open);
    cr_assert_eq(world_record(world, "g0")->attempts, 2);
    world_play(world);
    cr_assert_eq(world_record(world, "g0")->failures, 0);
    cr_assert_eq(world_roll(world, "m", 0)->state, ROLL_STATE_COMPLETED);
    world_free(world);
}

/* The pause between tries grows and stays within a minute. */
Test(rolls, backoff_is_bounded)
{
    struct world *world = serving(1, "1");
    cr_assert_eq(world_publish(world, "m"), 2);
    world_report(world, world_agent(world, "a0"), NULL, 0);
    for (int i = 0; i < 10; i++) {
        world_finish(world, "g0", SWAP_OUTCOME_PAUSE_TIMEOUT);
        cr_assert_not(world_record(world, "g0")->ticket_open);
        world_pass(world, 61 * SEC);
        cr_assert(world_record(world, "g0")->ticket_open, "try %d", i);
    }
    cr_assert_eq(world_record(world, "g0")->failures, 10);
    world_free(world);
}

/* No progress for the policy's time degrades the roll; the clock stops while it is paused. */
Test(rolls, progress_deadline)
{
    struct world *world = world_new();
    struct policy_spec spec = { .max_unavailable = "1", .progress_deadline_ms = 60000 };
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st));
    cr_assert_eq(world_publish(world, "m"), 1);
    world_fleet(world, "m", 1);
    world_play(world);
    world_agent(world, "a0")->by_hand = true;
    cr_assert_eq(world_publish(world, "m"), 2);
    world_pass(world, 40 * SEC);
    st = world_verb(world, REQUEST_ROLL_PAUSE, "m", 0);
    world_pass(world, 100 * SEC);
    cr_assert_not(world_roll(world, "m", 0)->degraded);
    st = world_verb(world, REQUEST_ROLL_RESUME, "m", 0);
    world_pass(world, 19 * SEC);
    cr_assert_not(world_roll(world, "m", 0)->degraded);
    world_pass(world, 2 * SEC);
    cr_assert(world_roll(world, "m", 0)->degraded);
    world_agent(world, "a0")->by_hand = false;
    cr_assert(world_connect(world, world_agent(world, "a0")));
    world_play(world);
    cr_assert_not(world_roll(world, "m", 0)->degraded);
    cr_assert_eq(world_roll(world, "m", 0)->state, ROLL_STATE_COMPLETED);
    world_free(world);
}

/* The controller was kept from its timers: whoever resumes a late roll just then is not paused at once. */
Test(rolls, resumed_before_it_was_seen_to_be_late)
{
    struct world *world = world_new();
    struct policy_spec spec = { .max_unavailable = "1", .progress_deadline_ms = 60000 };
    spec.roll.progress_action = "pause";
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st));
    cr_assert_eq(world_publish(world, "m"), 1);
    world_fleet(world, "m", 1);
    world_play(world);
    world_agent(world, "a0")->by_hand = true;
    cr_assert_eq(world_publish(world, "m"), 2);
    world_pass(world, 40 * SEC);
    world->now_ns += 30 * SEC;
    world->wall_ns += 30 * SEC;
    st = world_verb(world, REQUEST_ROLL_RESUME, "m", 0);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(world_roll(world, "m", 0)->state, ROLL_STATE_PROGRESSING);
    world_pass(world, 59 * SEC);
    cr_assert_eq(world_roll(world, "m", 0)->state, ROLL_STATE_PROGRESSING);
    world_pass(world, 2 * SEC);
    cr_assert_eq(world_roll(world, "m", 0)->state, ROLL_STATE_PAUSED);
    world_free(world);
}

static uint64_t shown_from(const struct world *world, const char *group)
{
    struct roll_group_status status;
    cr_assert(view_roll_group_status(world->core, world_roll(world, "m", 0),
                                     world_record(world, group), &status));
    return status.from_seq;
}

/* A group that committed is still shown as swapping from its old version, until its ticket has its outcome. */
Test(rolls, from_is_shown_until_the_outcome)
{
    struct world *world = serving(2, "1");
    cr_assert_eq(world_publish(world, "m"), 2);
    world_report(world, world_agent(world, "a0"), NULL, 0);
    struct played_group *group = world_group(world, "g0");
    cr_assert(group->has_ticket);
    cr_assert_eq(shown_from(world, "g0"), 1);
    group->report.state = GROUP_STATE_RESUMING;
    group->report.gate_open = false;
    group->report.committed_seq = 2;
    strcpy(group->report.committed_digest, group->ticket.to_digest);
    world_report(world, world_agent(world, "a0"), NULL, 0);
    cr_assert_eq(shown_from(world, "g0"), 1);
    world_finish(world, "g0", SWAP_OUTCOME_COMMITTED);
    cr_assert_eq(shown_from(world, "g0"), 2);
    world_free(world);
}

/* Without a restore source there is no ticket, unless the policy says that there need be none. */
Test(rolls, no_ticket_without_a_restore_source)
{
    struct world *world = serving(1, "1");
    world_group(world, "g0")->report.can_restore = false;
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_NO_RESTORE_SOURCE);
    struct policy_spec spec = { .max_unavailable = "1", .allow_recreate = true };
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st));
    cr_assert(world_record(world, "g0")->ticket.policy.allow_recreate);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 2);
    world_free(world);
}

/* Manual: a publish is only stored; Start rolls, to the newest or to a named version. */
Test(rolls, manual_trigger)
{
    struct world *world = world_new();
    struct policy_spec spec = { .trigger = "Manual" };
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert_eq(world_publish(world, "m"), 1);
    cr_assert_eq(view_rolls_count(world->core), 0);
    world_fleet(world, "m", 2);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_NO_VERSION);
    st = world_verb(world, REQUEST_ROLL_START, "m", 0);
    cr_assert(baton_ok(&st));
    world_play(world);
    cr_assert_eq(world_committed(world, "g1"), 1);
    cr_assert_eq(world_publish(world, "m"), 2);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_NONE);
    st = world_verb(world, REQUEST_ROLL_START, "m", 7);
    cr_assert_eq(st.code, BATON_NOT_FOUND);
    st = world_verb(world, REQUEST_ROLL_START, "m", 2);
    world_play(world);
    cr_assert_eq(world_committed(world, "g1"), 2);
    world_free(world);
}

/* Records of versions and rolls that nothing needs any more are deleted; those in use stay. */
Test(rolls, old_records_are_pruned)
{
    struct world *world = serving(2, "1");
    struct played_agent *a1 = world_agent(world, "a1");
    world_disconnect(world, a1); /* g1 stays on version 1, and so version 1 stays known. */
    world->check_off = true;
    for (int i = 0; i < 40; i++) {
        cr_assert_neq(world_publish(world, "m"), 0);
    }
    world->check_off = false;
    cr_assert_not_null(view_version_find(world->core, "m", 1));
    cr_assert_null(view_version_find(world->core, "m", 20));
    cr_assert_leq(view_versions_count(world->core), 9);
    cr_assert_leq(view_rolls_count(world->core), 11);
    cr_assert(world_connect(world, a1));
    world_play(world);
    cr_assert_eq(world_committed(world, "g1"), 41);
    world_free(world);
}

/* A router that did not drain is the reason while the next try waits; it is not touched, so it stays
 * in service. */
Test(rolls, router_not_drained)
{
    struct world *world = serving(2, "1");
    cr_assert_eq(world_publish(world, "m"), 2);
    world_report(world, world_agent(world, "a0"), NULL, 0);
    struct played_group *group = world_group(world, "g0");
    struct ticket_outcome told = world_outcome(group, SWAP_OUTCOME_PAUSE_TIMEOUT);
    told.record.router_not_drained = true;
    strcpy(told.record.message, "http://router/drain: it answered 503");
    group->report.highest_ticket = group->ticket.number;
    group->has_ticket = false;
    world_report(world, world_agent(world, "a0"), &told, 1);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_ROUTER_NOT_DRAINED);
    cr_assert_eq(world_record(world, "g0")->last_swap.kv, POLICY_KV_FLUSH);
    cr_assert_eq(world_record(world, "g0")->last_swap.in_flight, POLICY_IN_FLIGHT_KEEP);
    world_pass(world, 5 * SEC);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 2);
    world_free(world);
}
