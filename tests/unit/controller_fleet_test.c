/* controller_fleet_test.c -- what operators do to groups, versions and agents: cordon, drain, pin,
 * quarantine, retire; massLoss; groups that vanish, move and change. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/controller_world.h"

/* So many groups on version 1, 'away' of which may be away. */
static struct world *serving(uint32_t groups, const char *away)
{
    struct world *world = world_new();
    struct policy_spec spec = { .max_unavailable = away };
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st));
    cr_assert_eq(world_publish(world, "m"), 1);
    world_fleet(world, "m", groups);
    world_play(world);
    return world;
}

static struct baton_status group_verb(struct world *world, enum request_kind kind,
                                      const char *group)
{
    struct request request = { .kind = kind, .group = group, .options = { .reason = "why not" } };
    return world_call(world, &request);
}

static void must_group(struct world *world, enum request_kind kind, const char *group)
{
    struct baton_status st = group_verb(world, kind, group);
    cr_assert(baton_ok(&st), "%s", st.message);
}

static struct baton_status retire(struct world *world, const char *group, bool attest)
{
    struct request request = { .kind = REQUEST_GROUP_RETIRE,
                               .group = group,
                               .body.retire = { attest } };
    return world_call(world, &request);
}

static void must_retire(struct world *world, const char *group)
{
    struct baton_status st = retire(world, group, true);
    cr_assert(baton_ok(&st), "%s", st.message);
}

static struct baton_status quarantine(struct world *world, uint64_t seq, bool evict)
{
    struct request request = { .kind = REQUEST_VERSION_QUARANTINE,
                               .model = "m",
                               .to_seq = seq,
                               .options = { .reason = "NaN" },
                               .body.quarantine = { evict } };
    return world_call(world, &request);
}

static void must_quarantine(struct world *world, uint64_t seq, bool evict)
{
    struct baton_status st = quarantine(world, seq, evict);
    cr_assert(baton_ok(&st), "%s", st.message);
}

static const struct model_record *model(const struct world *world)
{
    return view_model_find(world->core, "m");
}

static struct group_status status(const struct world *world, const char *group)
{
    struct group_status out;
    view_group_status(world->core, world_record(world, group), world->wall_ns, &out);
    return out;
}

static void silence(struct world *world, const char *agent)
{
    world_disconnect(world, world_agent(world, agent));
    world_pass(world, 11 * SEC);
}

/* A pause outlives cordons and later publishes: what stands apart would follow past it. */
Test(fleet, paused_roll_does_not_complete_without_its_cordoned_groups)
{
    struct world *world = serving(1, "1");
    cr_assert_eq(world_publish(world, "m"), 2);
    struct baton_status st = world_verb(world, REQUEST_ROLL_PAUSE, "m", 0);
    cr_assert(baton_ok(&st));
    must_group(world, REQUEST_GROUP_CORDON, "g0");
    cr_assert_eq(world_publish(world, "m"), 3);
    cr_assert_eq(world_roll(world, "m", 0)->state, ROLL_STATE_PAUSED);
    cr_assert_eq(model(world)->promoted_seq, 1, "nobody serves another one");
    must_group(world, REQUEST_GROUP_UNCORDON, "g0");
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 1);
    st = world_verb(world, REQUEST_ROLL_RESUME, "m", 0);
    cr_assert(baton_ok(&st));
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 3);
    world_free(world);
}

/* A cordoned group gets no ticket and holds nobody up: the roll completes without it, and a wait for
 * convergence is met.  Uncordoned it catches up with what was promoted meanwhile. */
Test(fleet, cordoned_group_is_left_out_and_catches_up)
{
    struct world *world = serving(3, "1");
    must_group(world, REQUEST_GROUP_CORDON, "g1");
    cr_assert_eq(world_publish(world, "m"), 2);
    uint64_t wait = world_wait(world, "m", 2);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_GROUP_CORDONED);
    cr_assert_str_eq(status(world, "g1").blocked_message,
                     "it was cordoned: why not; batonctl uncordon group/g1");
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 2);
    cr_assert_eq(world_committed(world, "g2"), 2);
    cr_assert_eq(world_committed(world, "g1"), 1, "no ticket");
    cr_assert_eq(world_roll(world, "m", 0)->state, ROLL_STATE_COMPLETED);
    cr_assert_eq(world_roll(world, "m", 0)->groups_done, 2);
    cr_assert_eq(world_wait_end(world, wait)->outcome, WAIT_OUTCOME_MET);
    world_restart(world);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert(world_connect(world, &world->agents[i]));
    }
    world_play(world);
    cr_assert_eq(world_committed(world, "g1"), 1, "a cordon is durable");
    must_group(world, REQUEST_GROUP_UNCORDON, "g1");
    world_play(world);
    cr_assert_eq(world_committed(world, "g1"), 2);
    world_free(world);
}

/* Invariant 4: a cordoned group that serves costs no slot; one that does not serve does. */
Test(fleet, cordoned_group_counts_only_while_it_does_not_serve)
{
    struct world *world = serving(3, "1");
    must_group(world, REQUEST_GROUP_CORDON, "g0");
    cr_assert_not(status(world, "g0").counted);
    struct played_group *group = world_group(world, "g0");
    group->report.state = GROUP_STATE_OUT;
    group->report.gate_open = false;
    world_report(world, world_agent(world, "a0"), NULL, 0);
    cr_assert(status(world, "g0").counted);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_GROUP_CORDONED, "no rejoin either");
    cr_assert_not(group->has_ticket);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    cr_assert_eq(world_committed(world, "g1"), 1, "the slot is taken");
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_BUDGET_FULL);
    must_group(world, REQUEST_GROUP_UNCORDON, "g0");
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 2);
    cr_assert_eq(world_committed(world, "g2"), 2);
    world_free(world);
}

/* A ticket that was issued before the cordon ends by itself. */
Test(fleet, open_ticket_survives_a_cordon)
{
    struct world *world = serving(2, "1");
    cr_assert_eq(world_publish(world, "m"), 2);
    world_report(world, world_agent(world, "a0"), NULL, 0);
    cr_assert(world_group(world, "g0")->has_ticket);
    must_group(world, REQUEST_GROUP_CORDON, "g0");
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 2);
    cr_assert_eq(world_roll(world, "m", 0)->state, ROLL_STATE_COMPLETED);
    world_free(world);
}

/* All groups of an agent at once; an unknown agent or group is refused with the command that lists
 * them. */
Test(fleet, verbs_name_a_group_or_an_agent)
{
    struct world *world = serving(1, "1");
    (void)world_add_group(world_agent(world, "a0"), "h0", "m");
    cr_assert(world_connect(world, world_agent(world, "a0")));
    struct request request = { .kind = REQUEST_GROUP_CORDON, .agent = "a0" };
    struct baton_status st = world_call(world, &request);
    cr_assert(baton_ok(&st));
    cr_assert(world_record(world, "g0")->cordoned && world_record(world, "h0")->cordoned);
    request.agent = "a9";
    st = world_call(world, &request);
    cr_assert_eq(st.code, BATON_NOT_FOUND);
    st = group_verb(world, REQUEST_GROUP_CORDON, "g9");
    cr_assert_eq(st.code, BATON_NOT_FOUND);
    st = group_verb(world, REQUEST_GROUP_CORDON, "");
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    cr_assert_str_eq(world->reply.field, "group");
    world_free(world);
}

/* The goals tell the leader to shut the gate and to open it again. */
Test(fleet, drained_group_is_told_to_shut)
{
    struct world *world = serving(2, "1");
    must_group(world, REQUEST_GROUP_DRAIN, "g0");
    world_play(world);
    cr_assert(world_group(world, "g0")->goal.drain);
    cr_assert_eq(status(world, "g0").state, GROUP_STATE_OUT);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_GROUP_CORDONED);
    must_group(world, REQUEST_GROUP_CORDON, "g0");
    cr_assert(world_record(world, "g0")->drained, "a cordon does not undrain");
    must_group(world, REQUEST_GROUP_UNCORDON, "g0");
    world_play(world);
    cr_assert_not(world_group(world, "g0")->goal.drain);
    cr_assert(status(world, "g0").report->gate_open);
    world_free(world);
}

/* A pinned group stays where it is; the roll completes without it; a wait for it cannot come true and
 * says so. */
Test(fleet, pinned_group_stays)
{
    struct world *world = serving(2, "1");
    must_group(world, REQUEST_GROUP_PIN, "g0");
    cr_assert_eq(world_publish(world, "m"), 2);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_GROUP_PINNED);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 1);
    cr_assert_eq(world_committed(world, "g1"), 2);
    cr_assert_eq(world_roll(world, "m", 0)->state, ROLL_STATE_COMPLETED);
    const struct action_wait_done *end = world_wait_end(world, world_wait(world, "m", 2));
    cr_assert_eq(end->outcome, WAIT_OUTCOME_HELD);
    cr_assert_str_eq(end->message, "group g0 is pinned to version 1; batonctl unpin group/g0");
    /* It may come back to its own version. */
    world_group(world, "g0")->report.state = GROUP_STATE_OUT;
    world_group(world, "g0")->report.gate_open = false;
    world_report(world, world_agent(world, "a0"), NULL, 0);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 1);
    cr_assert(status(world, "g0").report->gate_open);
    must_group(world, REQUEST_GROUP_UNPIN, "g0");
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 2);
    world_free(world);
}

/* Rule 9: nothing waits for a retired group.  Its ticket closes as LOST; its slot is free. */
Test(fleet, retired_group_does_not_block_completion)
{
    struct world *world = serving(3, "1");
    cr_assert_eq(world_publish(world, "m"), 2);
    world_report(world, world_agent(world, "a0"), NULL, 0);
    cr_assert(world_group(world, "g0")->has_ticket);
    silence(world, "a0");
    world_agent(world, "a0")->by_hand = true;
    world_play(world);
    cr_assert_eq(world_committed(world, "g1"), 1, "the budget is taken by the lost one");
    cr_assert_eq(world_roll(world, "m", 0)->state, ROLL_STATE_PROGRESSING);
    struct baton_status st = retire(world, "g0", false);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION, "nobody attested");
    cr_assert(strstr(st.hint, "--attest-dead") != NULL);
    must_retire(world, "g0");
    cr_assert_eq(world_record(world, "g0")->last_swap.outcome, SWAP_OUTCOME_LOST);
    cr_assert_not(world_record(world, "g0")->ticket_open);
    cr_assert_eq(status(world, "g0").state, GROUP_STATE_RETIRED);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_NONE);
    world_play(world);
    cr_assert_eq(world_roll(world, "m", 0)->state, ROLL_STATE_COMPLETED);
    cr_assert_eq(world_roll(world, "m", 0)->groups_total, 2);
    struct model_status numbers;
    view_model_status(world->core, model(world), world->wall_ns, &numbers);
    cr_assert_eq(numbers.groups, 2);
    cr_assert_eq(numbers.groups_unavailable, 0);
    world_free(world);
}

/* A group that serves is not retired: it would serve beside the fleet. */
Test(fleet, serving_group_is_not_retired)
{
    struct world *world = serving(2, "1");
    struct baton_status st = retire(world, "g0", true);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION);
    must_group(world, REQUEST_GROUP_DRAIN, "g0");
    world_play(world);
    st = retire(world, "g0", false);
    cr_assert(baton_ok(&st), "a gate that was read back shut needs no attest: %s", st.message);
    cr_assert(world_record(world, "g0")->drained, "and stays shut while its agent lives");
    world_disconnect(world, world_agent(world, "a0"));
    cr_assert(world_connect(world, world_agent(world, "a0")));
    cr_assert(world_record(world, "g0")->retired);
    must_group(world, REQUEST_GROUP_UNCORDON, "g0");
    world_play(world);
    cr_assert_not(world_record(world, "g0")->retired);
    cr_assert(status(world, "g0").report->gate_open);
    world_free(world);
}

/* What was attested dead and comes back alive: its gate is shut first, under a higher owner term;
 * then it joins as new, at the promoted version, and no lost ticket of it counts. */
Test(fleet, retired_group_returns_shut_and_joins_as_new)
{
    struct world *world = serving(2, "1");
    silence(world, "a0");
    uint64_t term = world_record(world, "g0")->owner_term;
    char uid[BATON_UID_TEXT_BYTES];
    memcpy(uid, world_record(world, "g0")->uid, sizeof(uid));
    must_retire(world, "g0");
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    cr_assert_eq(model(world)->promoted_seq, 2);
    struct played_group *group = world_group(world, "g0");
    cr_assert(group->report.gate_open, "it went on serving");
    world_agent(world, "a0")->by_hand = true;
    cr_assert(world_connect(world, world_agent(world, "a0")));
    cr_assert_not(world_record(world, "g0")->retired);
    cr_assert(group->goal.drain, "shut first");
    cr_assert_gt(group->goal.owner_term, term);
    cr_assert_str_neq(uid, world_record(world, "g0")->uid);
    cr_assert_not(status(world, "g0").counted, "a newcomer takes no slot");
    cr_assert_not(group->has_ticket);
    world_agent(world, "a0")->by_hand = false;
    group->report.state = GROUP_STATE_OUT;
    group->report.gate_open = false;
    world_report(world, world_agent(world, "a0"), NULL, 0);
    cr_assert_not(group->goal.drain);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 2);
    cr_assert_not(world_record(world, "g0")->as_new);
    world_free(world);
}

/* An agent that is gone for good: its groups, and what it may have seen, are waited for no more. */
Test(fleet, retired_agent_does_not_hold_the_floors)
{
    struct world *world = serving(2, "1");
    silence(world, "a0");
    struct request request = { .kind = REQUEST_GROUP_RETIRE,
                               .agent = "a0",
                               .body.retire = { true } };
    struct baton_status st = world_call(world, &request);
    cr_assert(baton_ok(&st), "%s", st.message);
    world_restart_generation(world);
    cr_assert(view_floors_pending(world->core));
    cr_assert(world_connect(world, world_agent(world, "a1")));
    cr_assert_not(view_floors_pending(world->core));
    cr_assert_eq(world_publish(world, "m"), 2);
    world_free(world);
}

/* A group that its agent no longer names is not forgotten: it counts, and says what to do. */
Test(fleet, vanished_group_is_shown)
{
    struct world *world = serving(2, "1");
    struct played_agent *agent = world_agent(world, "a0");
    agent->groups_count = 0;
    cr_assert(world_connect(world, agent));
    cr_assert(status(world, "g0").counted);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_AGENT_UNKNOWN);
    cr_assert(strstr(status(world, "g0").blocked_message, "no longer names it") != NULL);
    must_retire(world, "g0");
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    cr_assert_eq(world_roll(world, "m", 0)->state, ROLL_STATE_COMPLETED);
    world_free(world);
}

/* Two agents never lead one group: another claim is refused until the leader came back without it;
 * then the group moves, under a higher owner term. */
Test(fleet, group_moves_to_another_agent)
{
    struct world *world = serving(2, "1");
    uint64_t term = world_record(world, "g0")->owner_term;
    struct played_agent *from = world_agent(world, "a0");
    struct played_agent *to = world_agent(world, "b0");
    from->groups_count = 0;
    struct played_group *moved = world_add_group(to, "g0", "m");
    cr_assert_not(world_connect(world, to), "its leader still has it");
    cr_assert(world_connect(world, from));
    cr_assert(world_connect(world, to), "%s", to->closed.message);
    cr_assert_str_eq(world_record(world, "g0")->agent, "b0");
    world_play(world);
    cr_assert_gt(moved->goal.owner_term, term);
    cr_assert_eq(world_committed(world, "g0"), 1);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 2);
    world_free(world);
}

/* Until its gate is seen shut it is away by what was said of it, not by the budget. */
Test(fleet, returning_group_says_why)
{
    struct world *world = serving(2, "1");
    silence(world, "a0");
    must_retire(world, "g0");
    cr_assert_eq(world_publish(world, "m"), 2);
    struct played_group *group = world_group(world, "g0");
    world_agent(world, "a0")->by_hand = true;
    cr_assert(world_connect(world, world_agent(world, "a0")));
    cr_assert(group->report.gate_open);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_GROUP_CORDONED);
    cr_assert(strstr(status(world, "g0").blocked_message, "came back") != NULL);
    world_agent(world, "a0")->by_hand = false;
    group->report.state = GROUP_STATE_OUT;
    group->report.gate_open = false;
    world_report(world, world_agent(world, "a0"), NULL, 0);
    world_play(world);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_NONE);
    cr_assert_eq(world_committed(world, "g0"), 2);
    world_free(world);
}

/* A retired group may come back with another agent. */
Test(fleet, retired_group_returns_elsewhere)
{
    struct world *world = serving(2, "1");
    silence(world, "a0");
    must_retire(world, "g0");
    world_agent(world, "a0")->groups_count = 0;
    (void)world_add_group(world_agent(world, "b0"), "g0", "m");
    cr_assert(world_connect(world, world_agent(world, "b0")));
    world_play(world);
    cr_assert_str_eq(world_record(world, "g0")->agent, "b0");
    cr_assert_eq(world_committed(world, "g0"), 1);
    cr_assert_not(world_record(world, "g0")->as_new);
    world_free(world);
}

/* A ticket was granted to the group as it was: if it comes back with other engines before it began,
 * the ticket is asked back. */
Test(fleet, resize_waits_for_the_ticket)
{
    struct world *world = serving(2, "1");
    cr_assert_eq(world_publish(world, "m"), 2);
    struct played_agent *agent = world_agent(world, "a0");
    world_report(world, agent, NULL, 0);
    struct played_group *group = world_group(world, "g0");
    cr_assert(group->has_ticket);
    (void)strcpy(group->engine.name, "e9");
    cr_assert(world_connect(world, agent));
    cr_assert(group->revoked);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 2, "by the next ticket");
    world_free(world);
}

/* Retired groups make room when the table is full; others are never forgotten. */
Test(fleet, retired_groups_make_room)
{
    struct controller_limits limits = world_limits();
    limits.groups = 3;
    struct world *world = world_new_limited(&limits);
    world_fleet(world, "m", 3);
    silence(world, "a1");
    must_retire(world, "g1");
    struct played_agent *agent = world_agent(world, "b0");
    (void)world_add_group(agent, "h0", "m");
    cr_assert_not(world_connect(world, agent));
    cr_assert_eq(agent->closed.code, BATON_RESOURCE_EXHAUSTED);
    cr_assert(world_connect(world, agent), "%s", agent->closed.message);
    cr_assert_null(view_group_find(world->core, "g1"));
    (void)world_add_group(agent, "h1", "m");
    cr_assert_not(world_connect(world, agent));
    cr_assert_not(world_connect(world, agent), "nobody else is retired");
    world_free(world);
}

/* A quarantined version is a target of nothing: not of rolls, not of groups that come back. */
Test(fleet, quarantined_version_is_no_target)
{
    struct world *world = serving(2, "1");
    cr_assert_eq(world_publish(world, "m"), 2);
    world_report(world, world_agent(world, "a0"), NULL, 0);
    world_finish(world, "g0", SWAP_OUTCOME_COMMITTED);
    must_quarantine(world, 2, false);
    world_play(world);
    cr_assert_eq(world_committed(world, "g1"), 1);
    cr_assert_eq(world_committed(world, "g0"), 2, "evicted only if asked");
    cr_assert_eq(world_group(world, "g0")->goal_target_seq, 1);
    cr_assert_eq(world_group(world, "g0")->goal_restore_seq, 2, "what it serves can be put back");
    cr_assert_eq(world_group(world, "g1")->goal_restore_seq, 0, "its target is what it serves");
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_VERSION_QUARANTINED);
    cr_assert(strstr(status(world, "g1").blocked_message, "version 2 is quarantined: NaN") != NULL);
    const struct action_wait_done *end = world_wait_end(world, world_wait(world, "m", 2));
    cr_assert_eq(end->outcome, WAIT_OUTCOME_QUARANTINED);
    struct baton_status st = world_verb(world, REQUEST_ROLL_START, "m", 2);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION);
    /* It comes back on the promoted version. */
    world_group(world, "g0")->report.state = GROUP_STATE_OUT;
    world_group(world, "g0")->report.gate_open = false;
    world_report(world, world_agent(world, "a0"), NULL, 0);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 1);
    /* The next publish is rolled as ever. */
    cr_assert_eq(world_publish(world, "m"), 3);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 3);
    cr_assert_eq(world_committed(world, "g1"), 3);
    world_free(world);
}

/* Evict: a running roll is undone; groups on a promoted version go to the one before it. */
Test(fleet, evicted_groups_go_back)
{
    struct world *world = serving(2, "1");
    struct baton_status st = quarantine(world, 1, true);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION, "there is nothing to go to");
    cr_assert_not(view_version_find(world->core, "m", 1)->quarantined, "and nothing was changed");
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    cr_assert_eq(model(world)->promoted_seq, 2);
    must_quarantine(world, 2, true);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 1);
    cr_assert_eq(world_committed(world, "g1"), 1);
    cr_assert_eq(model(world)->promoted_seq, 1);
    cr_assert_not(model(world)->held, "a quarantine holds no model");
    struct request request = { .kind = REQUEST_VERSION_UNQUARANTINE, .model = "m", .to_seq = 2 };
    st = world_call(world, &request);
    cr_assert(baton_ok(&st));
    st = world_verb(world, REQUEST_ROLL_START, "m", 2);
    cr_assert(baton_ok(&st));
    world_play(world);
    cr_assert_eq(world_committed(world, "g1"), 2);
    world_free(world);
}

/* A ticket to it that nobody began is asked back. */
Test(fleet, quarantine_revokes_tickets)
{
    struct world *world = serving(2, "1");
    cr_assert_eq(world_publish(world, "m"), 2);
    world_report(world, world_agent(world, "a0"), NULL, 0);
    must_quarantine(world, 2, false);
    cr_assert(world_group(world, "g0")->revoked);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 1);
    cr_assert_eq(world_tickets(world), 0);
    world_free(world);
}

/* A pinned version outlives retention. */
Test(fleet, pinned_version_is_kept)
{
    struct controller_limits limits = world_limits();
    limits.versions_kept = 2;
    struct world *world = world_new_limited(&limits);
    struct baton_status st = world_apply(world, "m", NULL);
    cr_assert(baton_ok(&st));
    cr_assert_eq(world_publish(world, "m"), 1);
    cr_assert_eq(world_publish(world, "m"), 2);
    struct request request = { .kind = REQUEST_VERSION_PIN, .model = "m", .to_seq = 2 };
    st = world_call(world, &request);
    cr_assert(baton_ok(&st), "%s", st.message);
    for (uint64_t seq = 3; seq < 9; seq++) {
        cr_assert_eq(world_publish(world, "m"), seq);
    }
    cr_assert_null(view_version_find(world->core, "m", 1));
    cr_assert_not_null(view_version_find(world->core, "m", 2));
    request.kind = REQUEST_VERSION_UNPIN;
    st = world_call(world, &request);
    cr_assert(baton_ok(&st));
    cr_assert_eq(world_publish(world, "m"), 9);
    cr_assert_null(view_version_find(world->core, "m", 2));
    world_free(world);
}

/* massLoss: with too many lost the roll stands still, although the budget would allow more; those
 * that come back get their rejoin tickets, and then it goes on. */
Test(fleet, mass_loss_stops_roll_tickets)
{
    struct world *world = world_new();
    struct policy_spec spec = { .max_unavailable = "4", .mass_loss = "1" };
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st));
    cr_assert_eq(world_publish(world, "m"), 1);
    world_fleet(world, "m", 4);
    world_play(world);
    for (uint32_t i = 0; i < 2; i++) {
        world->agents[i].groups[0].report.state = GROUP_STATE_OUT;
        world->agents[i].groups[0].report.gate_open = false;
        world->agents[i].by_hand = true;
        world_report(world, &world->agents[i], NULL, 0);
    }
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    cr_assert_eq(world_committed(world, "g2"), 1);
    cr_assert_eq(world_blocked(world, "g2"), BLOCKED_MASS_LOSS);
    cr_assert(strstr(status(world, "g2").blocked_message, "2 of 4 groups are OUT or UNKNOWN") !=
              NULL);
    cr_assert(world->agents[0].groups[0].has_ticket, "a rejoin is how it ends");
    world->agents[0].by_hand = false;
    world->agents[1].by_hand = false;
    world->agents[0].dirty = world->agents[1].dirty = true;
    world_play(world);
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert_eq(world_committed(world, world->agents[i].groups[0].report.group), 2);
    }
    spec.mass_loss = "none";
    st = world_apply(world, "m", &spec);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    cr_assert_str_eq(world->reply.field, "spec.update.massLoss");
    world_free(world);
}

/* Drained groups are away by intent: they are no loss. */
Test(fleet, drained_groups_are_no_loss)
{
    struct world *world = world_new();
    struct policy_spec spec = { .max_unavailable = "4", .mass_loss = "1" };
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st));
    cr_assert_eq(world_publish(world, "m"), 1);
    world_fleet(world, "m", 4);
    world_play(world);
    must_group(world, REQUEST_GROUP_DRAIN, "g0");
    must_group(world, REQUEST_GROUP_DRAIN, "g1");
    world_play(world);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    cr_assert_eq(world_committed(world, "g2"), 2);
    cr_assert_eq(world_committed(world, "g3"), 2);
    world_free(world);
}

/* Invariant 4: a policy that is widened while tickets of a narrower one are open does not let more
 * go than those allowed. */
Test(fleet, strictest_active_budget_counts)
{
    struct world *world = serving(4, "1");
    cr_assert_eq(world_publish(world, "m"), 2);
    for (uint32_t i = 0; i < 4; i++) {
        world->agents[i].by_hand = false;
        world_report(world, &world->agents[i], NULL, 0);
    }
    cr_assert_eq(world_tickets(world), 1);
    struct policy_spec spec = { .max_unavailable = "3" };
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st));
    cr_assert_eq(world_tickets(world), 1, "the open ticket was issued under 1");
    world_finish(world, "g0", SWAP_OUTCOME_COMMITTED);
    cr_assert_eq(world_tickets(world), 3);
    world_free(world);
}

/* Each model of a fleet has its own budget, also on one agent. */
Test(fleet, models_have_budgets_of_their_own)
{
    struct world *world = world_new();
    struct policy_spec spec = { .max_unavailable = "1" };
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st));
    st = world_apply(world, "n", &spec);
    cr_assert(baton_ok(&st));
    struct played_agent *agent = world_agent(world, "a0");
    (void)world_add_group(agent, "m0", "m");
    (void)world_add_group(agent, "n0", "n");
    (void)world_add_group(agent, "m1", "m");
    (void)world_add_group(agent, "n1", "n");
    cr_assert_eq(world_publish(world, "m"), 1);
    cr_assert_eq(world_publish(world, "n"), 1);
    cr_assert(world_connect(world, agent));
    world_play(world);
    must_group(world, REQUEST_GROUP_DRAIN, "m0");
    world_play(world);
    cr_assert_eq(world_publish(world, "m"), 2);
    cr_assert_eq(world_publish(world, "n"), 2);
    world_play(world);
    cr_assert_eq(world_committed(world, "m1"), 1, "m's only slot is m0's");
    cr_assert_eq(world_blocked(world, "m1"), BLOCKED_BUDGET_FULL);
    cr_assert_eq(world_committed(world, "n0"), 2);
    cr_assert_eq(world_committed(world, "n1"), 2);
    world_free(world);
}
