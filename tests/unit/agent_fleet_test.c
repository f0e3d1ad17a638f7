/* agent_fleet_test.c -- groups of several agents (rule 4): stories. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/agent_fleet.h"

static void expect_peace(const struct fleet *fleet, uint64_t seq)
{
    const struct world_group *group = &fleet->worlds[0]->groups[0];
    cr_assert(fleet->violation[0] == '\0', "%s", fleet->violation);
    cr_assert(fleet_serves(fleet, seq), "%s, %s: %s", agent_group_state_name(group->report.state),
              group->blocked, group->message);
    cr_assert_not(group->ticket_open);
}

static struct fleet *serving(uint32_t agents, uint32_t engines)
{
    struct fleet *fleet = fleet_create(agents, engines, 1);
    fleet_serve(fleet, 1);
    expect_peace(fleet, 1);
    return fleet;
}

/* --- the good case --- */

Test(fleet, joins_and_swaps)
{
    struct fleet *fleet = serving(3, 2);
    fleet_swap(fleet, 2);
    fleet_run(fleet, 5 * S);
    expect_peace(fleet, 2);
    cr_assert_eq(fleet->worlds[0]->groups[0].outcome.outcome, AGENT_OUTCOME_COMMITTED);
    cr_assert_eq(fleet->worlds[0]->groups[0].outcome.level, AGENT_LEVEL_RESIDENT);
    /* What must be durable at a follower was. */
    const struct world *follower = fleet->worlds[2];
    cr_assert_eq(follower->journal_counts[JOURNAL_ACCEPT], 2); /* Rejoin and swap. */
    cr_assert_eq(follower->journal_counts[JOURNAL_INTENT], 2);
    cr_assert_eq(follower->journal_counts[JOURNAL_COMMIT], 2);
    cr_assert_eq(follower->journal_counts[JOURNAL_OUTCOME], 2);
    /* Its leader tells, not it. */
    cr_assert_eq(follower->outcomes_told, 0);
    fleet_destroy(fleet);
}

/* The first gate opens last, and no gate before every member has committed. */
Test(fleet, gates_open_after_all_have_committed)
{
    struct fleet *fleet = serving(2, 2);
    struct world *leader = fleet->worlds[0];
    fleet_swap(fleet, 2);
    for (int i = 0; i < 20000 && leader->groups[0].ticket_open; i++) {
        fleet_run(fleet, MS / 10);
        bool rest_open =
            world_engine_is_open(&leader->engines[0][1]) && leader->engines[0][1].gate_version == 2;
        bool first_open =
            world_engine_is_open(&leader->engines[0][0]) && leader->engines[0][0].gate_version == 2;
        cr_assert(!rest_open || world_committed(fleet->worlds[1], 0) == 2);
        cr_assert(!first_open || world_serves(fleet->worlds[1], 0, 2));
    }
    expect_peace(fleet, 2);
    fleet_destroy(fleet);
}

/* --- what fails before COMMIT is undone everywhere --- */

static void expect_undone(enum agent_op_kind kind, enum fault fault, uint32_t agent,
                          enum agent_outcome outcome)
{
    struct fleet *fleet = serving(3, 1);
    const struct world_group *group = &fleet->worlds[0]->groups[0];
    fleet_swap(fleet, 2);
    world_fault(&fleet->worlds[agent]->engines[0][0], kind, fault, 1);
    for (int i = 0; i < 60000 && group->ticket_open; i++) {
        fleet_run(fleet, MS);
    }
    enum agent_outcome ended = group->outcome.outcome;
    fleet_run(fleet, 60 * S);
    expect_peace(fleet, 1);
    cr_assert_eq(ended, outcome, "agent %u: %s: %s", agent, agent_outcome_name(ended),
                 group->outcome.message);
    fleet_destroy(fleet);
}

Test(fleet, a_pause_that_fails_reopens)
{
    expect_undone(AGENT_OP_PAUSE, FAULT_FAIL, 0, AGENT_OUTCOME_PAUSE_TIMEOUT);
    expect_undone(AGENT_OP_PAUSE, FAULT_FAIL, 1, AGENT_OUTCOME_PAUSE_TIMEOUT);
    expect_undone(AGENT_OP_PAUSE, FAULT_HANG, 2, AGENT_OUTCOME_PAUSE_TIMEOUT);
}

Test(fleet, an_update_that_fails_restores)
{
    expect_undone(AGENT_OP_UPDATE, FAULT_FAIL_BACK, 0, AGENT_OUTCOME_APPLY_FAILED);
    expect_undone(AGENT_OP_UPDATE, FAULT_FAIL_BACK, 1, AGENT_OUTCOME_APPLY_FAILED);
    expect_undone(AGENT_OP_UPDATE, FAULT_SILENT, 2, AGENT_OUTCOME_APPLY_FAILED);
    expect_undone(AGENT_OP_READBACK, FAULT_FAIL, 2, AGENT_OUTCOME_APPLY_FAILED);
}

/* A member's engine without read-back fails its update; 'lies': told to go back it says yes and does not. */
static enum agent_outcome go_back(bool old_members, bool lies)
{
    struct fleet *fleet = serving(3, 1);
    const struct world_group *group = &fleet->worlds[0]->groups[0];
    struct world_engine *engine = &fleet->worlds[1]->engines[0][0];
    uint32_t updates = engine->calls[AGENT_OP_UPDATE];
    engine->plugin = false;
    fleet->old_members = old_members;
    world_fault(engine, AGENT_OP_UPDATE, FAULT_FAIL, 1);
    fleet_swap(fleet, 2);
    for (int i = 0; i < 60000 && group->ticket_open; i++) {
        fleet_run(fleet, MS);
        if (lies && engine->calls[AGENT_OP_UPDATE] == updates + 1) {
            world_fault(engine, AGENT_OP_UPDATE, FAULT_LIE, 1);
            lies = false;
        }
    }
    enum agent_outcome ended = group->outcome.outcome;
    cr_assert_gt(fleet->sent[AGENT_PEER_BACK_PROBE], 0);
    fleet_run(fleet, 60 * S);
    expect_peace(fleet, 1);
    fleet_destroy(fleet);
    return ended;
}

Test(fleet, the_way_back_of_a_member_is_probed)
{
    cr_assert_eq(go_back(false, true), AGENT_OUTCOME_OUT);
    cr_assert_eq(go_back(false, false), AGENT_OUTCOME_APPLY_FAILED);
}

Test(fleet, members_of_a_release_without_that_probe_reopen)
{
    cr_assert_eq(go_back(true, false), AGENT_OUTCOME_APPLY_FAILED);
}

Test(fleet, an_engine_that_dies_takes_the_group_out)
{
    expect_undone(AGENT_OP_UPDATE, FAULT_DIE, 1, AGENT_OUTCOME_OUT);
    expect_undone(AGENT_OP_PAUSE, FAULT_DIE, 2, AGENT_OUTCOME_OUT);
}

/* --- staging --- */

Test(fleet, is_staged_when_all_have_landed)
{
    struct fleet *fleet = serving(2, 1);
    struct world *leader = fleet->worlds[0];
    fleet->worlds[1]->landing_fails[2] = 2;
    world_goals(leader, 0, 1, 2);
    fleet_run(fleet, S);
    cr_assert(leader->landed[2]);
    cr_assert_eq(leader->groups[0].report.state, AGENT_GROUP_STAGING);
    world_ticket(leader, 0, 2, false);
    fleet_run(fleet, S);
    cr_assert_eq(leader->groups[0].outcome.outcome, AGENT_OUTCOME_REFUSED);
    fleet_run(fleet, 20 * S);
    cr_assert_eq(leader->groups[0].report.state, AGENT_GROUP_STAGED);
    cr_assert(leader->groups[0].report.can_restore);
    fleet_destroy(fleet);
}

Test(fleet, a_member_that_cannot_land_is_named)
{
    struct fleet *fleet = serving(2, 1);
    struct world *leader = fleet->worlds[0];
    fleet->worlds[1]->landing_fails[2] = 1000;
    fleet->worlds[1]->no_room = true;
    world_goals(leader, 0, 1, 2);
    fleet_run(fleet, 60 * S);
    cr_assert_eq(leader->groups[0].report.state, AGENT_GROUP_STAGE_FAILED);
    cr_assert_str_eq(leader->groups[0].blocked, "NO_MEMORY");
    cr_assert_not_null(strstr(leader->groups[0].message, "member a1"));
    cr_assert(fleet_serves(fleet, 1));
    fleet_destroy(fleet);
}

/* An engine whose ranks span nodes: the other nodes' agents land, verify and commit only. */
Test(fleet, a_member_without_engines_stages_only)
{
    struct fleet *fleet = fleet_create(2, 1, 1);
    fleet->worlds[1]->groups_config[0].engines_count = 0;
    fleet_serve(fleet, 1);
    expect_peace(fleet, 1);
    fleet_swap(fleet, 2);
    fleet_run(fleet, 5 * S);
    expect_peace(fleet, 2);
    cr_assert(fleet->worlds[1]->landed[2]);
    cr_assert_eq(fleet->worlds[1]->journal_counts[JOURNAL_COMMIT], 2);
    fleet_destroy(fleet);
}

/* --- crashes --- */

/* One agent dies at its n-th durable write, call or message of a swap, and comes back after a while: the
 * group is wholly old or wholly new, and serves again by itself. */
static bool crash_at(uint32_t agent, enum crash_mode mode, uint32_t at)
{
    struct fleet *fleet = serving(2, 1);
    struct world *world = fleet->worlds[agent];
    world_goals(fleet->worlds[0], 0, 1, 2);
    fleet_run(fleet, 5 * S);
    world->crash_mode = mode;
    world->crash_at = at;
    world->boundaries = 0;
    world->counting = true;
    world_ticket(fleet->worlds[0], 0, 2, false);
    fleet_run(fleet, 8 * S);
    bool crashed = world->crashed;
    cr_assert(fleet->violation[0] == '\0', "agent %u, mode %d, at %u: %s", agent, mode, at,
              fleet->violation);
    fleet_start(fleet, agent);
    fleet_run(fleet, 120 * S);
    uint64_t seq = world_committed(fleet->worlds[0], 0);
    cr_assert(seq == 1 || seq == 2);
    cr_assert(fleet->violation[0] == '\0' && fleet_serves(fleet, seq),
              "agent %u, mode %d, at %u: %s; %llu: %s, %s", agent, mode, at, fleet->violation,
              (unsigned long long)seq, fleet->worlds[0]->groups[0].blocked,
              fleet->worlds[0]->groups[0].message);
    cr_assert_not(fleet->worlds[0]->groups[0].ticket_open);
    fleet_destroy(fleet);
    return crashed;
}

static void crash_everywhere(uint32_t agent)
{
    for (enum crash_mode mode = CRASH_BEFORE; mode <= CRASH_AFTER_LATE; mode++) {
        uint32_t at = 1;
        while (crash_at(agent, mode, at)) {
            at++;
        }
        cr_assert_geq(at, 25); /* The swap has at least so many points. */
    }
}

Test(fleet, leader_crashes_everywhere)
{
    crash_everywhere(0);
}

Test(fleet, follower_crashes_everywhere)
{
    crash_everywhere(1);
}

/* --- in doubt --- */

/* The leader dies where 'verb' has just been answered, and loses its disk. */
static struct fleet *doubtful(enum agent_peer_verb verb)
{
    struct fleet *fleet = serving(3, 1);
    fleet->worlds[0]->groups[0].auto_rejoin = false;
    fleet_swap(fleet, 2);
    uint32_t before = fleet->sent[verb];
    for (int i = 0; i < 200000 && fleet->sent[verb] < before + 2; i++) {
        fleet_run(fleet, MS / 10);
    }
    fleet_run(fleet, 2 * MS); /* Both have got it; its row may still run. */
    fleet_crash(fleet, 0);
    fleet_run(fleet, 30 * S);
    return fleet;
}

/* In doubt means shut, however long it takes, and it is said. */
Test(fleet, a_prepared_follower_stays_shut)
{
    struct fleet *fleet = doubtful(AGENT_PEER_UPDATE);
    cr_assert(fleet_is_shut(fleet));
    cr_assert(world_noted(fleet->worlds[1], "InDoubt"));
    fleet_run(fleet, 3600 * S);
    cr_assert(fleet_is_shut(fleet));
    /* Its restart changes nothing. */
    fleet_crash(fleet, 1);
    fleet_start(fleet, 1);
    fleet_run(fleet, 60 * S);
    cr_assert(world_is_shut(fleet->worlds[1], 0));
    fleet_destroy(fleet);
}

/* A leader with its journal needs nobody's help. */
Test(fleet, the_leaders_journal_settles_it)
{
    struct fleet *fleet = doubtful(AGENT_PEER_UPDATE);
    fleet_start(fleet, 0);
    fleet_run(fleet, 30 * S);
    expect_peace(fleet, 1);
    cr_assert_eq(fleet->worlds[0]->groups[0].outcome.outcome, AGENT_OUTCOME_APPLY_FAILED);
    cr_assert_eq(fleet->sent[AGENT_PEER_ASK], 0);
    fleet_destroy(fleet);
}

static void expect_resolved(struct fleet *fleet, uint64_t seq)
{
    struct world *leader = fleet->worlds[0];
    fleet_lose_disk(fleet, 0);
    fleet_start(fleet, 0);
    fleet_run(fleet, 30 * S);
    cr_assert_str_eq(leader->groups[0].blocked, "IN_DOUBT");
    cr_assert_eq(leader->groups[0].report.state, AGENT_GROUP_OUT);
    cr_assert(world_is_shut(fleet->worlds[1], 0) && world_is_shut(fleet->worlds[2], 0));
    leader->groups[0].auto_rejoin = true;
    fleet_run(fleet, 60 * S);
    cr_assert_eq(fleet->sent[AGENT_PEER_ASK], 2);
    expect_peace(fleet, seq);
    fleet_destroy(fleet);
}

Test(fleet, nobody_committed_so_it_is_the_old_version)
{
    expect_resolved(doubtful(AGENT_PEER_CONFIRM), 1);
}

Test(fleet, any_commit_wins)
{
    struct fleet *fleet = doubtful(AGENT_PEER_COMMIT);
    cr_assert_eq(world_committed(fleet->worlds[1], 0), 2);
    expect_resolved(fleet, 2);
}

/* Its gate cannot be proved shut: the group stays in doubt until the member is back. */
Test(fleet, a_silent_member_keeps_it_in_doubt)
{
    struct fleet *fleet = doubtful(AGENT_PEER_CONFIRM);
    struct world_group *group = &fleet->worlds[0]->groups[0];
    fleet_lose_disk(fleet, 0);
    fleet_break(fleet, 2, true);
    fleet_start(fleet, 0);
    fleet_run(fleet, 30 * S);
    world_resolve(fleet->worlds[0], 0);
    fleet_run(fleet, 60 * S);
    cr_assert_eq(group->outcome.outcome, AGENT_OUTCOME_REFUSED);
    cr_assert_not_null(strstr(group->outcome.message, "member a2"));
    cr_assert_not_null(strstr(group->outcome.message, "take it out of the group's members"));
    cr_assert(fleet_is_shut(fleet));
    fleet_mend(fleet, 2);
    group->auto_rejoin = true;
    fleet_run(fleet, 120 * S);
    expect_peace(fleet, 1);
    fleet_destroy(fleet);
}

/* What members say belongs to the ticket that asks them: no other one is taken meanwhile. */
Test(fleet, an_asking_leader_takes_no_other_ticket)
{
    struct fleet *fleet = doubtful(AGENT_PEER_CONFIRM);
    struct world *leader = fleet->worlds[0];
    struct world_group *group = &leader->groups[0];
    fleet_lose_disk(fleet, 0);
    fleet_break(fleet, 2, true);
    fleet_start(fleet, 0);
    fleet_run(fleet, 30 * S);
    world_resolve(leader, 0);
    fleet_run(fleet, S / 4);
    cr_assert(world_noted(leader, "Resolving"));
    cr_assert_eq(group->outcome.outcome, AGENT_OUTCOME_NONE);
    world_ticket(leader, 0, group->target_seq, true); /* By a store that forgot the other one. */
    fleet_run(fleet, S / 4);
    cr_assert_eq(group->outcome.outcome, AGENT_OUTCOME_REFUSED);
    cr_assert_str_eq(group->outcome.message, "another ticket is open");
    fleet_mend(fleet, 2);
    group->auto_rejoin = true;
    fleet_run(fleet, 120 * S);
    expect_peace(fleet, 1);
    fleet_destroy(fleet);
}

/* Being asked fences: a command of the lost swap that arrives later is refused. */
Test(fleet, an_asked_member_obeys_no_earlier_ticket)
{
    struct fleet *fleet = doubtful(AGENT_PEER_CONFIRM);
    struct world *follower = fleet->worlds[1];
    struct agent_peer_command late = { .verb = AGENT_PEER_COMMIT,
                                       .leader = "a0",
                                       .group = "g0",
                                       .model = "m",
                                       .ticket = fleet->worlds[0]->groups[0].ticket,
                                       .version = world_version(2) };
    late.fence = (struct agent_fence){ { 1, 1 }, 1, late.ticket.number, UINT64_C(9) << 32 };
    struct agent_peer_command ask = late;
    ask.verb = AGENT_PEER_ASK;
    ask.fence.ticket++;
    memset(&ask.ticket, 0, sizeof ask.ticket);
    world_event(follower,
                (struct agent_event){ .kind = AGENT_EVENT_PEER_COMMAND, .command = &ask });
    late.fence.step++;
    world_event(follower,
                (struct agent_event){ .kind = AGENT_EVENT_PEER_COMMAND, .command = &late });
    cr_assert_eq(world_committed(follower, 0), 1);
    /* Also after a restart: the fence is durable. */
    fleet_crash(fleet, 1);
    fleet_start(fleet, 1);
    fleet_run(fleet, S);
    late.fence.step++;
    world_event(follower,
                (struct agent_event){ .kind = AGENT_EVENT_PEER_COMMAND, .command = &late });
    cr_assert_eq(world_committed(follower, 0), 1);
    fleet_destroy(fleet);
}

/* The leader's engine dies unseen while it waits for the member's after a restart: a dead gate that it shut again
 * and again would keep its heartbeats from the member, which needs the target to start its engine on. */
Test(fleet, a_dead_gate_does_not_keep_the_target_from_a_member)
{
    struct fleet *fleet = fleet_create(2, 1, 1);
    struct world *leader = fleet->worlds[0];
    fleet->worlds[1]->engines_config[0][0].boots_from_landing = true;
    fleet_serve(fleet, 1);
    world_kill(fleet->worlds[1], 0, 0, false);
    fleet_run(fleet, 3 * S);
    fleet_crash(fleet, 0);
    leader->controller_up = false;
    fleet_run(fleet, 3 * S); /* The member is out by then. */
    fleet_start(fleet, 0);
    fleet_run(fleet, S);
    world_kill(leader, 0, 0, false);
    fleet_run(fleet, 10 * S);
    leader->controller_up = true;
    fleet_run(fleet, 300 * S);
    expect_peace(fleet, 1);
    fleet_destroy(fleet);
}

/* A follower whose disk is lost joins again; the leader's journal is what counts. */
Test(fleet, a_follower_that_lost_its_disk_rejoins)
{
    struct fleet *fleet = serving(2, 1);
    fleet_crash(fleet, 1);
    fleet_lose_disk(fleet, 1);
    fleet_start(fleet, 1);
    fleet_run(fleet, 60 * S);
    expect_peace(fleet, 1);
    cr_assert_eq(world_committed(fleet->worlds[1], 0), 1);
    fleet_destroy(fleet);
}

/* The leader's disk is lost and the store went back: the member alone knows how far the numbers had come. */
Test(fleet, a_member_tells_the_numbers_that_nobody_else_knows)
{
    struct fleet *fleet = fleet_create(2, 1, 1);
    struct world_group *group = &fleet->worlds[0]->groups[0];
    group->owner_term = 5;
    group->number = 7;
    fleet_serve(fleet, 1);
    uint64_t number = group->number;
    fleet_crash(fleet, 0);
    fleet_lose_disk(fleet, 0);
    fleet->worlds[0]->floors_count = 0;
    group->owner_term = 1;
    group->number = 1;
    fleet_start(fleet, 0);
    fleet_run(fleet, 30 * S);
    cr_assert_eq(group->report.owner_term, 5);
    cr_assert_geq(group->report.highest_ticket, number);
    group->owner_term = 6; /* As the controller answers it. */
    group->number = group->report.highest_ticket;
    group->ticket_open = false;
    world_goals(fleet->worlds[0], 0, 1, 0);
    fleet_run(fleet, 120 * S);
    expect_peace(fleet, 1);
    fleet_destroy(fleet);
}

static struct agent_peer_command watch_of(struct agent_epoch epoch, uint64_t step)
{
    return (struct agent_peer_command){ .verb = AGENT_PEER_WATCH,
                                        .leader = "a0",
                                        .group = "g0",
                                        .model = "m",
                                        .fence = { epoch, 1, 1, UINT64_C(9) << 32 | step } };
}

/* The leader tells to land 'stage_seq' beside what is served; 0: nothing. */
static void tell_watch(struct world *follower, struct agent_peer_command watch, uint64_t stage_seq)
{
    static const struct agent_source source = { "file", "/checkpoint", "a0" };
    struct agent_version_goal goals[2] = { { .version = world_version(1) },
                                           { .version = world_version(stage_seq) } };
    for (int i = 0; i < 2; i++) {
        goals[i].sources = &source;
        goals[i].sources_count = 1;
    }
    watch.target = &goals[0];
    watch.stage = stage_seq == 0 ? NULL : &goals[1];
    world_event(follower,
                (struct agent_event){ .kind = AGENT_EVENT_PEER_COMMAND, .command = &watch });
}

/* A leader's word of an earlier leadership comes late: the store may have gone back since, and the seq be given
 * again, as nobody had told of it. */
Test(fleet, goals_of_an_earlier_leadership_name_nothing_new)
{
    struct fleet *fleet = serving(2, 1);
    struct world *follower = fleet->worlds[1];
    struct agent_epoch before = follower->epoch;
    struct agent_epoch now = { before.generation + 1, 0 };
    fleet_break(fleet, 1, true);
    world_event(follower,
                (struct agent_event){ .kind = AGENT_EVENT_WELCOME, .welcome = { .epoch = now } });
    tell_watch(follower, watch_of(before, 1), 3);
    cr_assert_eq(follower->journal_last[JOURNAL_SEQ].seq.version.seq, 1);
    cr_assert_eq(follower->lands[3], 0);
    cr_assert(world_noted(follower, "GoalsOutdated"));
    tell_watch(follower, watch_of(now, 2), 3);
    cr_assert_eq(follower->journal_last[JOURNAL_SEQ].seq.version.seq, 3);
    cr_assert_eq(follower->lands[3], 1);
    /* What was seen may be named by anybody. */
    tell_watch(follower, watch_of(now, 3), 0);
    cr_assert_eq(follower->cancels[3], 1);
    tell_watch(follower, watch_of(before, 4), 3);
    cr_assert_eq(follower->lands[3], 2);
    fleet_destroy(fleet);
}

/* A Hello waits for a controller; what the leader tells meanwhile is not in it, so it is said again. */
Test(fleet, a_hello_that_is_outdated_is_said_again)
{
    struct fleet *fleet = serving(2, 1);
    struct world *follower = fleet->worlds[1];
    uint32_t closes = follower->closes;
    fleet_break(fleet, 1, true);
    for (uint64_t seq = 2; seq < 4; seq++) {
        follower->controller_up = false;
        world_event(follower, (struct agent_event){ .kind = AGENT_EVENT_SESSION_CLOSED });
        world_event(follower, (struct agent_event){ .kind = AGENT_EVENT_SESSION_OPENED });
        cr_assert(follower->welcome_due);
        uint32_t hellos = follower->hellos;
        cr_assert_eq(follower->hello_seq, 1);
        if (seq == 3) {
            tell_watch(follower, watch_of(follower->epoch, seq), 3);
        }
        follower->controller_up = true;
        world_run(follower, 30 * S);
        cr_assert_eq(follower->closes, closes + (seq == 3));
        cr_assert_eq(follower->hellos, hellos + (seq == 3));
        cr_assert_eq(follower->hello_seq, seq == 3 ? 3 : 1);
        cr_assert(follower->session_open && !follower->welcome_due);
    }
    fleet_destroy(fleet);
}

/* --- links and restarts --- */

Test(fleet, a_short_break_disturbs_nobody)
{
    struct fleet *fleet = serving(2, 1);
    fleet_break(fleet, 1, false);
    fleet_run(fleet, 3 * S);
    cr_assert(fleet_serves(fleet, 1));
    fleet_crash(fleet, 1);
    fleet_run(fleet, 2 * S);
    fleet_start(fleet, 1);
    fleet_run(fleet, 3 * S);
    cr_assert(fleet_serves(fleet, 1));
    cr_assert_not(world_noted(fleet->worlds[0], "GroupOut"));
    fleet_destroy(fleet);
}

/* A command that was lost with its link is sent again, and done once. */
Test(fleet, a_swap_survives_breaks)
{
    for (int at = 0; at < 40; at++) {
        struct fleet *fleet = serving(2, 1);
        fleet_swap(fleet, 2);
        fleet_run(fleet, (uint64_t)at * 5 * MS);
        fleet_break(fleet, 1, false);
        fleet_run(fleet, 20 * S);
        expect_peace(fleet, 2);
        fleet_destroy(fleet);
    }
}

Test(fleet, a_silent_member_takes_the_group_out_and_back)
{
    struct fleet *fleet = serving(2, 1);
    struct world *leader = fleet->worlds[0];
    fleet_break(fleet, 1, true);
    fleet_run(fleet, 20 * S);
    cr_assert_eq(leader->groups[0].report.state, AGENT_GROUP_OUT);
    cr_assert_str_eq(leader->groups[0].blocked, "RANK_MISSING");
    cr_assert_not_null(strstr(leader->groups[0].message, "member a1"));
    cr_assert(world_is_shut(leader, 0));
    fleet_mend(fleet, 1);
    fleet_run(fleet, 60 * S);
    expect_peace(fleet, 1);
    fleet_destroy(fleet);
}

/* --- mismatches are refused by name --- */

Test(fleet, a_leader_that_is_not_the_members_is_refused)
{
    struct fleet *fleet = fleet_create(2, 1, 1);
    strcpy(fleet->worlds[1]->groups_config[0].leader, "a7");
    fleet_serve(fleet, 1);
    fleet_run(fleet, 30 * S);
    const struct world_group *group = &fleet->worlds[0]->groups[0];
    cr_assert_not_null(
        strstr(group->message, "agent a1 has agent a7 as leader of group g0, not a0"), "%s",
        group->message);
    cr_assert(fleet_is_shut(fleet));
    fleet_destroy(fleet);
}

Test(fleet, another_model_is_refused)
{
    struct fleet *fleet = fleet_create(2, 1, 1);
    strcpy(fleet->worlds[1]->groups_config[0].model, "other");
    fleet_serve(fleet, 1);
    fleet_run(fleet, 30 * S);
    const struct world_group *group = &fleet->worlds[0]->groups[0];
    cr_assert_not_null(strstr(group->message, "agent a1 has model other for group g0, not m"), "%s",
                       group->message);
    fleet_destroy(fleet);
}

Test(fleet, engines_of_one_name_are_refused)
{
    struct fleet *fleet = fleet_create(2, 1, 1);
    strcpy(fleet->worlds[1]->engines_config[0][0].name, "a0e0");
    fleet_serve(fleet, 1);
    fleet_run(fleet, 30 * S);
    const struct world_group *group = &fleet->worlds[0]->groups[0];
    cr_assert_not_null(strstr(group->message, "member a1 has an engine a0e0, and so has another"),
                       "%s", group->message);
    cr_assert(fleet_is_shut(fleet));
    fleet_destroy(fleet);
}

/* --- asleep --- */

/* It dies of the call, before the next heartbeat says that the group is to sleep. */
Test(fleet, a_member_that_falls_asleep_leaves_its_dead_engine_alone)
{
    struct fleet *fleet = serving(2, 2);
    struct world *leader = fleet->worlds[0];
    struct world *follower = fleet->worlds[1];
    world_fault(&follower->engines[0][1], AGENT_OP_SLEEP, FAULT_DIE, 1);
    leader->groups[0].sleep = true;
    world_goals(leader, 0, 1, 0);
    for (int i = 0; i < 10000 && follower->engines[0][1].up; i++) {
        fleet_run(fleet, MS);
    }
    world_kill(follower, 0, 1, true);
    fleet_run(fleet, 300 * S);
    cr_assert_not(follower->engines[0][1].up);
    cr_assert_eq(leader->groups[0].report.state, AGENT_GROUP_ASLEEP);
    cr_assert(follower->engines[0][0].asleep);
    leader->groups[0].sleep = false;
    world_goals(leader, 0, 1, 0);
    fleet_run(fleet, 120 * S);
    expect_peace(fleet, 1);
    fleet_destroy(fleet);
}

/* A member's process that ends in its sleep is not started on the device of the trainer; also not where
 * the member's agent was restarted since.  Woken it starts. */
Test(fleet, a_sleeping_member_leaves_its_dead_engine_alone)
{
    for (int restarted = 0; restarted < 2; restarted++) {
        struct fleet *fleet = serving(2, 2);
        struct world *leader = fleet->worlds[0];
        struct world *follower = fleet->worlds[1];
        leader->groups[0].sleep = true;
        world_goals(leader, 0, 1, 0);
        fleet_run(fleet, 10 * S);
        cr_assert_eq(leader->groups[0].report.state, AGENT_GROUP_ASLEEP);
        cr_assert(follower->engines[0][1].asleep);
        if (restarted == 1) {
            fleet_crash(fleet, 1);
            world_kill(follower, 0, 1, false);
            fleet_start(fleet, 1);
        } else {
            world_kill(follower, 0, 1, true);
        }
        fleet_run(fleet, 300 * S);
        cr_assert_not(follower->engines[0][1].up, "restarted %d", restarted);
        cr_assert_eq(follower->engines[0][1].lives, 1);
        cr_assert_eq(leader->groups[0].report.state, AGENT_GROUP_ASLEEP, "restarted %d: %s",
                     restarted, leader->groups[0].message);
        leader->groups[0].sleep = false;
        world_goals(leader, 0, 1, 0);
        fleet_run(fleet, 120 * S);
        expect_peace(fleet, 1);
        fleet_destroy(fleet);
    }
}
