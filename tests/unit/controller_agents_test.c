/* controller_agents_test.c -- sessions, leases, outcomes, epochs, lost journals, a store that went
 * back: the stories behind rules 1, 5 and 6 and invariants 4, 8, 9. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/controller_world.h"

static struct world *serving(uint32_t groups)
{
    struct world *world = world_new();
    struct policy_spec spec = { .max_unavailable = "1" };
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st));
    cr_assert_eq(world_publish(world, "m"), 1);
    world_fleet(world, "m", groups);
    world_play(world);
    return world;
}

/* A ticket is g0's: version 2 is published and g0 has landed it. */
static struct world *ticketed(void)
{
    struct world *world = serving(2);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_report(world, world_agent(world, "a0"), NULL, 0);
    cr_assert(world_record(world, "g0")->ticket_open);
    return world;
}

/* Reports that come together cost one transaction; no ticket is sent before it. */
Test(agents, reports_together)
{
    struct world *world = serving(3);
    struct policy_spec spec = { .max_unavailable = "3" };
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st));
    cr_assert_eq(world_publish(world, "m"), 2);
    uint32_t persists = world->persists;
    world->together = true;
    for (uint32_t i = 0; i < 3; i++) {
        world_report(world, &world->agents[i], NULL, 0);
    }
    cr_assert_eq(world->persists, persists);
    cr_assert_eq(world_tickets(world), 0);
    world_apart(world);
    cr_assert_eq(world->persists, persists + 1);
    cr_assert_eq(world_tickets(world), 3);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert(world->agents[i].groups[0].has_ticket);
    }
    world_free(world);
}

/* Nor is one issued before the last of them was heard: by it a group may be away. */
Test(agents, no_ticket_on_older_news)
{
    struct world *world = serving(2);
    cr_assert_eq(world_publish(world, "m"), 2);
    struct played_group *g1 = world_group(world, "g1");
    world->together = true;
    world_report(world, world_agent(world, "a0"), NULL, 0);
    world->together = false;
    g1->report.state = GROUP_STATE_OUT;
    g1->report.gate_open = false;
    struct event event = { .kind = EVENT_SESSION_REPORT };
    event.body.report = (struct session_report){ .session = world_agent(world, "a1")->session,
                                                 .groups = &g1->report,
                                                 .groups_count = 1 };
    world_step(world, &event);
    cr_assert_not(world_record(world, "g0")->ticket_open);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_BUDGET_FULL);
    world_free(world);
}

/* The same with an agent whose silence the timer finds in that step. */
Test(agents, no_ticket_beside_a_silent_agent)
{
    struct world *world = serving(2);
    cr_assert_eq(world_publish(world, "m"), 2);
    world->now_ns += 11 * SEC;
    world->together = true;
    world_report(world, world_agent(world, "a0"), NULL, 0);
    world->together = false;
    struct event event = { .kind = EVENT_TIMER };
    world_step(world, &event);
    cr_assert_not(world_record(world, "g0")->ticket_open);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_BUDGET_FULL);
    world_free(world);
}

/* The shell stood still for longer than a lease: what agents said meanwhile counts before any is called silent. */
Test(agents, those_that_wait_to_be_heard_are_not_silent)
{
    struct world *world = serving(2);
    struct played_agent *a0 = world_agent(world, "a0");
    world->now_ns += 11 * SEC;
    struct event event = { .kind = EVENT_SESSION_REPORT, .behind = true };
    event.body.report = (struct session_report){ .session = a0->session };
    world_step(world, &event);
    cr_assert_neq(world_agent(world, "a1")->session, 0);
    cr_assert_leq(controller_deadline_ns(world->core), world->now_ns, "it is to be judged later");
    event = (struct event){ .kind = EVENT_TIMER };
    world_step(world, &event);
    cr_assert_neq(a0->session, 0);
    cr_assert_eq(world_agent(world, "a1")->session, 0);
    world_free(world);
}

/* The same outcome twice: stored once, confirmed twice. */
Test(agents, duplicate_outcome)
{
    struct world *world = ticketed();
    struct played_agent *a0 = world_agent(world, "a0");
    struct ticket_outcome told = world_outcome(world_group(world, "g0"), SWAP_OUTCOME_COMMITTED);
    world_finish(world, "g0", SWAP_OUTCOME_COMMITTED);
    uint32_t stored = a0->outcomes_stored;
    uint64_t number = world_record(world, "g0")->ticket_number;
    world_report(world, a0, &told, 1);
    cr_assert_eq(a0->outcomes_stored, stored + 1);
    cr_assert_eq(world_record(world, "g0")->ticket_number, number);
    cr_assert_not(world_record(world, "g0")->ticket_open);
    world_free(world);
}

/* An outcome counts only if it names the open ticket. */
Test(agents, stale_outcome_changes_nothing)
{
    struct world *world = ticketed();
    struct played_agent *a0 = world_agent(world, "a0");
    struct ticket_outcome told = world_outcome(world_group(world, "g0"), SWAP_OUTCOME_COMMITTED);
    strcpy(told.record.ticket_uid, "00000000000000000000000000000bad");
    world_report(world, a0, &told, 1);
    cr_assert(world_record(world, "g0")->ticket_open);
    cr_assert_eq(world_committed(world, "g0"), 1);
    cr_assert_not_null(strstr(world->last_log, "StaleOutcome"));
    /* Also when another agent tells it. */
    told = world_outcome(world_group(world, "g0"), SWAP_OUTCOME_COMMITTED);
    world_report(world, world_agent(world, "a1"), &told, 1);
    cr_assert(world_record(world, "g0")->ticket_open);
    world_free(world);
}

/* An open ticket is sent again with each session, the same one; its outcome may come much later. */
Test(agents, ticket_is_sent_again)
{
    struct world *world = ticketed();
    struct played_agent *a0 = world_agent(world, "a0");
    struct played_group *g0 = world_group(world, "g0");
    uint64_t number = g0->ticket.number;
    world_disconnect(world, a0);
    world_pass(world, 60 * SEC);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_AGENT_UNKNOWN);
    cr_assert(world_connect(world, a0));
    cr_assert_eq(g0->tickets_seen, 3); /* The join's, the roll's, and the roll's again. */
    cr_assert_eq(g0->ticket.number, number);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 2);
    cr_assert_eq(world_committed(world, "g1"), 2);
    world_free(world);
}

/* A controller that dies after it stored a ticket: the next one knows it and sends it. */
Test(agents, ticket_survives_the_controller)
{
    struct world *world = ticketed();
    world_restart(world);
    cr_assert(world_record(world, "g0")->ticket_open);
    cr_assert(world_connect(world, world_agent(world, "a0")));
    cr_assert(world_connect(world, world_agent(world, "a1")));
    cr_assert_eq(world_record(world, "g0")->ticket.epoch.n, 1);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 2);
    cr_assert_eq(world_committed(world, "g1"), 2);
    cr_assert_leq(world->most_away, 2);
    world_free(world);
}

/* After an epoch change every group is UNKNOWN until it restated, and counts. */
Test(agents, epoch_change_makes_groups_unknown)
{
    struct world *world = serving(3);
    world_restart(world);
    cr_assert_eq(world_publish(world, "m"), 2);
    cr_assert(world_connect(world, world_agent(world, "a0")));
    cr_assert_eq(world_tickets(world), 0);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_BUDGET_FULL);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_AGENT_UNKNOWN);
    cr_assert(world_connect(world, world_agent(world, "a1")));
    cr_assert_eq(world_tickets(world), 0);
    cr_assert(world_connect(world, world_agent(world, "a2")));
    world_play(world);
    cr_assert_eq(world_committed(world, "g2"), 2);
    world_free(world);
}

/* Silence for a lease ends the session and makes the groups UNKNOWN; a renewal does not. */
Test(agents, lease)
{
    struct world *world = serving(1);
    world_pass(world, 60 * SEC);
    struct agent_status status;
    view_agent_status(world->core, view_agent_find(world->core, "a0"), &status);
    cr_assert(status.connected);
    world_pass_silent(world, 9 * SEC);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_NONE);
    world_pass_silent(world, 2 * SEC);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_AGENT_UNKNOWN);
    cr_assert_eq(world_agent(world, "a0")->closed.code, BATON_DEADLINE_EXCEEDED);
    struct group_status group;
    view_group_status(world->core, world_record(world, "g0"), world->wall_ns, &group);
    cr_assert_eq(group.state, GROUP_STATE_UNKNOWN);
    cr_assert_eq(group.committed_seq, 1, "what it committed is not forgotten");
    world_free(world);
}

/* A newer session of an agent ends the older one. */
Test(agents, newer_session_wins)
{
    struct world *world = serving(1);
    struct played_agent *a0 = world_agent(world, "a0");
    uint64_t old = a0->session;
    cr_assert(world_connect(world, a0));
    struct event event = { .kind = EVENT_SESSION_GONE };
    event.body.session_gone = old;
    world_step(world, &event);
    struct agent_status status;
    view_agent_status(world->core, view_agent_find(world->core, "a0"), &status);
    cr_assert(status.connected, "the end of the older session does not end the newer one");
    world_free(world);
}

/* Who may not have a session, and why: each is told. */
Test(agents, refused_sessions)
{
    struct world *world = serving(1);
    struct played_agent *thief = world_agent(world, "thief");
    struct played_group *group = world_add_group(thief, "g0", "m");
    cr_assert_not(world_connect(world, thief));
    cr_assert_eq(thief->closed.reason, BATON_REASON_IN_USE);
    cr_assert_not_null(strstr(thief->closed.message, "a0"));
    cr_assert_null(view_agent_find(world->core, "thief"), "nothing was stored");
    strcpy(group->report.group, "Bad Name");
    cr_assert_not(world_connect(world, thief));
    cr_assert_eq(thief->closed.code, BATON_INVALID_ARGUMENT);
    strcpy(group->report.group, "g9");
    group->report.state = GROUP_STATE_UNKNOWN;
    cr_assert_not(world_connect(world, thief));
    group->report.state = GROUP_STATE_JOINING;
    group->report.committed_seq = 3;
    cr_assert_not(world_connect(world, thief));
    cr_assert_not_null(strstr(thief->closed.message, "committed_digest"));
    group->report.committed_seq = 0;
    (void)world_add_group(thief, "g9", "m");
    cr_assert_not(world_connect(world, thief), "a group named twice");
    thief->groups_count = 1;
    strcpy(thief->incarnation, "");
    cr_assert_not(world_connect(world, thief));
    strcpy(thief->incarnation, "life-1");
    cr_assert(world_connect(world, thief));
    /* The model of a group is as fixed as its agent. */
    strcpy(group->report.model, "other");
    cr_assert_not(world_connect(world, thief));
    cr_assert_not_null(strstr(thief->closed.message, "model m"));
    world_free(world);
}

/* A report of a group that the Hello did not name ends the session. */
Test(agents, report_of_a_foreign_group)
{
    struct world *world = serving(2);
    struct played_agent *a0 = world_agent(world, "a0");
    strcpy(a0->groups[0].report.group, "g1");
    world_report(world, a0, NULL, 0);
    cr_assert_eq(a0->session, 0);
    cr_assert_eq(a0->closed.code, BATON_INVALID_ARGUMENT);
    cr_assert_eq(view_group_find(world->core, "g1")->committed_seq, 1);
    world_free(world);
}

/* Tables of agents and groups are bounded. */
Test(agents, full_tables_refuse)
{
    struct controller_limits limits = world_limits();
    limits.agents = 2;
    limits.groups = 2;
    struct world *world = world_new_limited(&limits);
    struct baton_status st = world_apply(world, "m", NULL);
    cr_assert(baton_ok(&st));
    world_fleet(world, "m", 2);
    struct played_agent *third = world_agent(world, "third");
    cr_assert_not(world_connect(world, third));
    cr_assert_eq(third->closed.code, BATON_RESOURCE_EXHAUSTED);
    cr_assert_not_null(strstr(third->closed.message, "2 agents"));
    struct played_agent *a1 = world_agent(world, "a1");
    (void)world_add_group(a1, "g7", "m");
    cr_assert_not(world_connect(world, a1));
    cr_assert_not_null(strstr(a1->closed.message, "2 groups"));
    world_free(world);
}

/* Rule 6: a new journal gets the floors and a higher owner term; the lost one's ticket is closed;
 * the group counts until it serves again at its target. */
Test(agents, lost_journal)
{
    struct world *world = ticketed();
    struct played_agent *a0 = world_agent(world, "a0");
    struct played_group *g0 = world_group(world, "g0");
    uint64_t number = world_record(world, "g0")->ticket_number;
    uint64_t term = world_record(world, "g0")->owner_term;
    world_disconnect(world, a0);
    strcpy(a0->incarnation, "life-2");
    struct played_group *fresh = g0;
    fresh->report.state = GROUP_STATE_JOINING;
    fresh->report.gate_open = false;
    fresh->report.committed_seq = 0;
    fresh->report.committed_digest[0] = '\0';
    fresh->report.highest_ticket = 0;
    fresh->report.owner_term = 0;
    fresh->has_ticket = false;
    a0->landed_count = 0;
    a0->by_hand = true;
    cr_assert(world_connect(world, a0));
    cr_assert_eq(a0->floors_told_count, 1);
    cr_assert_eq(a0->floors_told[0].ticket_number, number);
    cr_assert_eq(a0->floors_told[0].owner_term, term);
    cr_assert_gt(world_record(world, "g0")->owner_term, term);
    cr_assert_not(world_record(world, "g0")->ticket_open);
    cr_assert_eq(g0->goal_target_seq, 1, "its last committed version");
    world_report(world, world_agent(world, "a1"), NULL, 0);
    cr_assert_eq(world_tickets(world), 0, "g0 is away and holds the slot");
    a0->by_hand = false;
    world_pass(world, 2 * SEC); /* The lost ticket counts as a failure. */
    cr_assert(world_connect(world, a0));
    world_play(world);
    world_pass(world, 2 * SEC);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 2);
    cr_assert_eq(world_committed(world, "g1"), 2);
    world_free(world);
}

/* Rule 5: an agent that saw a later epoch fences the core; under a new generation nothing is
 * published and no ticket issued until all agents restated; then seq goes on above all that was
 * seen. */
Test(agents, store_went_back)
{
    struct world *world = serving(2);
    struct played_agent *a0 = world_agent(world, "a0");
    a0->highest_epoch = (struct epoch){ 7, 3 };
    strcpy(a0->floors[0].model, "m");
    a0->floors[0].seq = 9;
    a0->floors_count = 1;
    cr_assert_not(world_connect(world, a0));
    cr_assert_eq(world->generation_floor, 7);
    struct baton_status st = world_verb(world, REQUEST_MODEL_SUSPEND, "m", 0);
    cr_assert_eq(st.code, BATON_UNAVAILABLE);
    world_restart_generation(world);
    cr_assert_eq(view_epoch(world->core).generation, 8);
    cr_assert(view_floors_pending(world->core));
    char uid[BATON_UID_TEXT_BYTES];
    world_seal(world, "m", uid);
    st = world_publish_uid(world, uid, NULL);
    cr_assert_eq(st.code, BATON_UNAVAILABLE);
    cr_assert(world_connect(world, a0));
    cr_assert(view_floors_pending(world->core), "a1 has not restated");
    world_restart(world);
    cr_assert(view_floors_pending(world->core), "a restart does not forget that");
    cr_assert(world_connect(world, a0));
    cr_assert(world_connect(world, world_agent(world, "a1")));
    cr_assert_not(view_floors_pending(world->core));
    st = world_publish_uid(world, uid, NULL);
    cr_assert(baton_ok(&st));
    cr_assert_eq(view_version_find_uid(world->core, uid)->seq, 10);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 10);
    world_free(world);
}

/* The same within one leadership: no epoch shows it, but what an agent has seen was never stored. */
Test(agents, store_went_back_within_a_leadership)
{
    struct world *world = serving(2);
    struct played_agent *a0 = world_agent(world, "a0");
    strcpy(a0->floors[0].model, "m");
    a0->floors[0].seq = 9;
    a0->floors_count = 1;
    cr_assert_not(world_connect(world, a0), "seq 9 was never published here");
    world_restart_generation(world);
    cr_assert(view_floors_pending(world->core));
    cr_assert(world_connect(world, a0));
    cr_assert(world_connect(world, world_agent(world, "a1")));
    cr_assert_not(view_floors_pending(world->core));
    cr_assert_eq(world_publish(world, "m"), 10);

    uint64_t highest = world_record(world, "g0")->ticket_number + 3;
    a0->groups[0].report.highest_ticket = highest;
    cr_assert_not(world_connect(world, a0), "no such ticket was issued here");
    world_restart_generation(world);
    cr_assert(world_connect(world, a0));
    cr_assert(world_connect(world, world_agent(world, "a1")));
    cr_assert_not(view_floors_pending(world->core));
    cr_assert_geq(world_record(world, "g0")->ticket_number, highest);
    world_free(world);
}

/* While floors are missing a group waits for just that. */
Test(agents, floors_block_tickets)
{
    struct world *world = serving(2);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_restart_generation(world);
    cr_assert(world_connect(world, world_agent(world, "a0")));
    world_play(world);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_STORE_FLOORS_UNKNOWN);
    cr_assert_eq(world_tickets(world), 0);
    struct event event = { .kind = EVENT_FLOORS_GIVEN };
    world_step(world, &event);
    cr_assert_not(view_floors_pending(world->core));
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_BUDGET_FULL, "g1 is unknown");
    cr_assert(world_connect(world, world_agent(world, "a1")));
    world_play(world);
    cr_assert_eq(world_committed(world, "g1"), 2);
    world_free(world);
}

/* What agents know of a model that is applied later (the store was lost) is not forgotten. */
Test(agents, floors_of_a_model_that_comes_later)
{
    struct world *world = world_new();
    struct played_agent *a0 = world_agent(world, "a0");
    struct played_group *g0 = world_add_group(a0, "g0", "m");
    strcpy(a0->floors[0].model, "m");
    a0->floors[0].seq = 5;
    a0->floors_count = 1;
    g0->report.highest_ticket = 12;
    g0->report.owner_term = 4;
    cr_assert(world_connect(world, a0));
    cr_assert_gt(world_record(world, "g0")->owner_term, 4);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_NO_VERSION);
    struct baton_status st = world_apply(world, "m", NULL);
    cr_assert(baton_ok(&st));
    cr_assert_eq(world_publish(world, "m"), 6);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 6);
    cr_assert_eq(world_record(world, "g0")->ticket_number, 13);
    world_free(world);
}

/* A rejoin ticket that is refused because the group came back by itself is no failure; one that is
 * refused while the engine is away is tried again as soon as the leader says that it is ready. */
Test(agents, refused_rejoin_ticket)
{
    struct world *world = serving(2);
    struct played_group *g0 = world_group(world, "g0");
    struct played_agent *a0 = world_agent(world, "a0");
    g0->report.state = GROUP_STATE_OUT;
    g0->report.gate_open = false;
    world_report(world, a0, NULL, 0);
    cr_assert(g0->has_ticket);
    g0->report.state = GROUP_STATE_SERVING;
    world_finish(world, "g0", SWAP_OUTCOME_REFUSED);
    cr_assert_eq(world_record(world, "g0")->failures, 0);
    g0->report.state = GROUP_STATE_OUT;
    g0->report.gate_open = false;
    world_report(world, a0, NULL, 0);
    for (int i = 0; i < 8; i++) {
        struct ticket_outcome told = world_outcome(g0, SWAP_OUTCOME_REFUSED);
        g0->report.highest_ticket = g0->ticket.number;
        world_report(world, a0, &told, 1);
        world_pass(world, 5 * SEC); /* Refusals do not pile up to a minute. */
        cr_assert(world_record(world, "g0")->ticket_open, "try %d", i);
    }
    struct ticket_outcome told = world_outcome(g0, SWAP_OUTCOME_REFUSED);
    g0->report.highest_ticket = g0->ticket.number;
    world_report(world, a0, &told, 1);
    cr_assert_not(world_record(world, "g0")->ticket_open);
    g0->report.state = GROUP_STATE_JOINING;
    world_report(world, a0, NULL, 0);
    cr_assert(world_record(world, "g0")->ticket_open, "it is ready");
    world_free(world);
}

/* A ticket that was lost with its session is sent again, also to a group that has nothing new to
 * say. */
Test(agents, lost_ticket_is_sent_again)
{
    struct world *world = serving(2);
    struct played_group *g0 = world_group(world, "g0");
    struct played_agent *a0 = world_agent(world, "a0");
    a0->by_hand = true;
    g0->report.state = GROUP_STATE_OUT;
    g0->report.gate_open = false;
    world_report(world, a0, NULL, 0);
    uint32_t seen = g0->tickets_seen;
    cr_assert(world_record(world, "g0")->ticket_open);
    world_disconnect(world, a0);
    cr_assert(world_connect(world, a0));
    cr_assert_eq(g0->tickets_seen, seen + 1);
    world_free(world);
}

/* After the store went back, an outcome of long ago does not undo what the group reports now. */
Test(agents, old_outcome_is_older_than_the_report)
{
    struct world *world = serving(2);
    struct played_group *g0 = world_group(world, "g0");
    struct played_agent *a0 = world_agent(world, "a0");
    a0->by_hand = true;
    g0->report.state = GROUP_STATE_OUT;
    g0->report.gate_open = false;
    world_report(world, a0, NULL, 0);
    cr_assert(world_record(world, "g0")->ticket_open);
    struct ticket_outcome told = world_outcome(g0, SWAP_OUTCOME_REFUSED);
    told.record.ticket_number = g0->ticket.number;
    g0->report.highest_ticket = g0->ticket.number + 1; /* Of a ticket that this store forgot. */
    g0->report.committed_seq = 7;
    world_report(world, a0, &told, 1);
    cr_assert_eq(world_committed(world, "g0"), 7);
    cr_assert_eq(world_record(world, "g0")->committed_seq, 7);
    world_free(world);
}

/* Goals that an agent refuses are shown with its words. */
Test(agents, refused_goals_are_shown)
{
    struct world *world = serving(1);
    struct event event = { .kind = EVENT_SESSION_ACK };
    event.body.ack = (struct session_ack){ world_agent(world, "a0")->session, 4, true, "no room" };
    world_step(world, &event);
    struct agent_status status;
    view_agent_status(world->core, view_agent_find(world->core, "a0"), &status);
    cr_assert_str_eq(status.goals_refusal, "no room");
    world_free(world);
}

/* Droppable is what nothing needs any more; what is served, promoted or newest is kept. */
Test(agents, droppable)
{
    struct world *world = serving(2);
    world_agent(world, "a1")->by_hand = true; /* Stays on version 1. */
    struct played_agent *a0 = world_agent(world, "a0");
    char first[BATON_DIGEST_TEXT_BYTES];
    strcpy(first, view_version_find(world->core, "m", 1)->digest);
    for (uint64_t seq = 2; seq <= 6; seq++) {
        cr_assert_eq(world_publish(world, "m"), seq);
        world_play(world);
    }
    /* a0: version 1 is promoted still (a1 never swapped), 5 and 6 are the newest, 2 to 4 are gone.
     */
    cr_assert_eq(a0->landed_count, 3);
    cr_assert_str_eq(a0->landed[0], first);
    world_agent(world, "a1")->by_hand = false;
    cr_assert(world_connect(world, world_agent(world, "a1")));
    world_play(world);
    cr_assert_eq(world_committed(world, "g1"), 6);
    for (uint64_t seq = 7; seq <= 8; seq++) {
        cr_assert_eq(world_publish(world, "m"), seq);
        world_play(world);
    }
    cr_assert_eq(a0->landed_count, 2); /* 8 is promoted, 7 was before it; both are the newest. */
    world_free(world);
}

static void land_stray(struct played_agent *agent, char letter)
{
    memset(agent->landed[agent->landed_count], letter, BATON_DIGEST_TEXT_BYTES - 1);
    agent->landed_count++;
    agent->dirty = true;
}

static bool has_landed(const struct played_agent *agent, char letter)
{
    for (uint32_t i = 0; i < agent->landed_count; i++) {
        if (agent->landed[i][0] == letter && agent->landed[i][1] == letter) {
            return true;
        }
    }
    return false;
}

/* What another agent's group serves is no stray, though the store does not know it: it is to be rebuilt. */
Test(agents, bytes_that_another_agent_serves_stay)
{
    struct world *world = serving(2);
    struct played_agent *a0 = world_agent(world, "a0");
    struct played_agent *a1 = world_agent(world, "a1");
    struct group_report *report = &world_group(world, "g1")->report;
    report->committed_seq = 9;
    memset(report->committed_digest, 'e', BATON_DIGEST_TEXT_BYTES - 1);
    a1->by_hand = true;
    world_report(world, a1, NULL, 0);
    land_stray(a0, 'e');
    land_stray(a0, 'f');
    world_play(world);
    world_pass(world, 2 * 3600 * SEC);
    world_play(world);
    cr_assert(has_landed(a0, 'e'));
    cr_assert(has_landed(a0, 'f'), "another version may be of that store, too");
    world_free(world);
}

/* Bytes that are of no version in the store go after a time of grace, and only once nothing can make them one: no version is
 * open, and all agents restated in this leadership. */
Test(agents, unknown_bytes_may_go)
{
    struct world *world = serving(2);
    struct played_agent *a0 = world_agent(world, "a0");
    land_stray(a0, 'e');
    world_play(world);
    world_pass(world, 3500 * SEC);
    world_play(world);
    cr_assert(has_landed(a0, 'e'), "its time is not over");
    world_pass(world, 200 * SEC);
    world_play(world);
    cr_assert_not(has_landed(a0, 'e'));
    char uid[BATON_UID_TEXT_BYTES];
    struct request open = { .kind = REQUEST_VERSION_OPEN, .model = "m" };
    struct baton_status st = world_call(world, &open);
    cr_assert(baton_ok(&st));
    memcpy(uid, world->reply.object.uid, sizeof(uid));
    land_stray(a0, 'd');
    world_play(world);
    world_pass(world, 2 * 3600 * SEC);
    world_play(world);
    cr_assert(has_landed(a0, 'd'), "it may be what is published");
    struct request abandon = { .kind = REQUEST_VERSION_ABANDON, .version_uid = uid };
    st = world_call(world, &abandon);
    cr_assert(baton_ok(&st), "%s", st.message);
    world_pass(world, 120 * SEC);
    world_play(world);
    cr_assert_not(has_landed(a0, 'd'));
    land_stray(a0, 'f');
    world_restart(world);
    cr_assert(world_connect(world, a0));
    world_play(world);
    world_pass(world, 2 * 3600 * SEC);
    world_play(world);
    cr_assert(has_landed(a0, 'f'), "a1 did not restate");
    cr_assert(world_connect(world, world_agent(world, "a1")));
    world_play(world);
    world_pass(world, 120 * SEC);
    world_play(world);
    cr_assert_not(has_landed(a0, 'f'));
    world_free(world);
}

/* --- several agents of a group do not agree (rule 4) --- */

static void in_doubt(struct world *world, const char *blocked)
{
    struct played_agent *a0 = world_agent(world, "a0");
    struct played_group *group = world_group(world, "g0");
    a0->by_hand = true;
    group->report.state = GROUP_STATE_OUT;
    group->report.gate_open = false;
    strcpy(group->report.blocked, blocked);
    strcpy(group->report.message, "member b has ticket u open, without an outcome");
    world_report(world, a0, NULL, 0);
}

/* A group in doubt gets a resolving ticket and no other; once it is resolved, a rejoin ticket. */
Test(agents, resolving_ticket)
{
    struct world *world = serving(2);
    in_doubt(world, "IN_DOUBT");
    const struct group_record *record = world_record(world, "g0");
    cr_assert(record->ticket_open);
    cr_assert(record->ticket.resolve);
    cr_assert(record->ticket.rejoin);
    cr_assert_eq(record->ticket.roll_number, 0);
    cr_assert(world_group(world, "g0")->ticket.resolve, "it is sent as what it is");
    uint64_t number = record->ticket_number;
    /* Resolved: the members were on version 1. */
    struct ticket_outcome told = world_outcome(world_group(world, "g0"), SWAP_OUTCOME_COMMITTED);
    strcpy(world_group(world, "g0")->report.blocked, "");
    world_report(world, world_agent(world, "a0"), &told, 1);
    record = world_record(world, "g0");
    cr_assert(record->ticket_open, "a rejoin ticket follows");
    cr_assert_not(record->ticket.resolve);
    cr_assert(record->ticket.rejoin);
    cr_assert_eq(record->ticket_number, number + 1);
    world_free(world);
}

/* A member was silent: it is asked again after a while, and what waits says why. */
Test(agents, resolving_ticket_that_was_refused)
{
    struct world *world = serving(2);
    in_doubt(world, "IN_DOUBT");
    uint64_t number = world_record(world, "g0")->ticket_number;
    struct ticket_outcome told = world_outcome(world_group(world, "g0"), SWAP_OUTCOME_REFUSED);
    world_report(world, world_agent(world, "a0"), &told, 1);
    cr_assert_not(world_record(world, "g0")->ticket_open);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_IN_DOUBT);
    world_pass(world, 5 * SEC);
    cr_assert(world_record(world, "g0")->ticket.resolve);
    cr_assert_eq(world_record(world, "g0")->ticket_number, number + 1);
    world_free(world);
}
