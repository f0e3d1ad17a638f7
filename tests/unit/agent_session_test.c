/* agent_session_test.c -- stories between agent and controller: tickets, goals, landings,
 * reports. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/agent_world.h"

static struct world *staged(void)
{
    struct world *world = world_create(1, 2, 1);
    world_serve(world, 1);
    world_goals(world, 0, 1, 2);
    world_run(world, 2 * S);
    cr_assert_eq(world->groups[0].report.state, AGENT_GROUP_STAGED);
    return world;
}

static void expect_refused(struct world *world, const char *why)
{
    world_run(world, 100 * MS);
    const struct agent_swap_record *record = &world->groups[0].outcome;
    cr_assert_eq(record->outcome, AGENT_OUTCOME_REFUSED, "%s", agent_outcome_name(record->outcome));
    cr_assert(strstr(record->message, why) != NULL, "%s", record->message);
    cr_assert(world_serves(world, 0, 1));
    cr_assert_eq(record->committed.seq, 1);
}

/* The same ticket once more is answered by its outcome; nothing happens twice. */
Test(agent_session, repeated_ticket_is_answered)
{
    struct world *world = staged();
    world->groups[0].withhold_stored = true;
    world_ticket(world, 0, 2, false);
    world_run(world, 2 * S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_COMMITTED);
    uint32_t updates = world->engines[0][0].calls[AGENT_OP_UPDATE];
    uint32_t records = (uint32_t)world->journal_index;
    world->groups[0].ticket_open = true; /* The controller lost the outcome. */
    memset(&world->groups[0].outcome, 0, sizeof world->groups[0].outcome);
    world_resend(world, 0);
    world_run(world, S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_COMMITTED);
    cr_assert_eq(world->engines[0][0].calls[AGENT_OP_UPDATE], updates);
    cr_assert_eq(world->journal_index, records);
    world_destroy(world);
}

/* ... also while it is worked on, and after a restart of the agent. */
Test(agent_session, repeated_ticket_is_known_across_lives)
{
    struct world *world = staged();
    world_ticket(world, 0, 2, false);
    world_run(world, 20 * MS);
    world_resend(world, 0);
    world_run(world, 20 * MS);
    cr_assert_eq(world->journal_counts[JOURNAL_ACCEPT], 2); /* The join's and this one. */
    world->groups[0].withhold_stored = true;
    world_run(world, 2 * S);
    world->groups[0].ticket_open = true;
    world_crash(world);
    world_start(world);
    world_run(world, 2 * S);
    cr_assert(!world->groups[0].ticket_open);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_COMMITTED);
    cr_assert_eq(world->journal_counts[JOURNAL_ACCEPT], 2);
    world_destroy(world);
}

/* Invariants 8 and 9: what is lower than anything seen is refused for good, each by its reason. */
Test(agent_session, stale_tickets_are_refused)
{
    struct world *world = staged();
    world->epoch.n = 5;
    world_crash(world);
    world_start(world);
    world_run(world, S);
    world->epoch.n = 4; /* A leader that does not know that it was replaced. */
    world_ticket(world, 0, 2, false);
    expect_refused(world, "epoch");
    world->epoch.n = 5;
    world->groups[0].number = 0;
    world_ticket(world, 0, 2, false);
    world->groups[0].ticket.uid[0] = 'f'; /* Not the join's. */
    expect_refused(world, "number does not rise");
    world->groups[0].number = 100;
    world->groups[0].owner_term = 7;
    world_goals(world, 0, 1, 2);
    world_run(world, 100 * MS);
    world->groups[0].owner_term = 6;
    world_ticket(world, 0, 2, false);
    expect_refused(world, "owner term");
    world->groups[0].owner_term = 7;
    world_ticket(world, 0, 2, false);
    world_run(world, 2 * S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_COMMITTED);
    world_destroy(world);
}

/* A ticket that does not fit what the group is or has: refused before anything is touched. */
Test(agent_session, hopeless_tickets_are_refused)
{
    struct world *world = staged();
    world_ticket(world, 0, 3, false);
    expect_refused(world, "not landed");
    world_ticket(world, 0, 2, false);
    world->groups[0].ticket.from = world_version(9);
    expect_refused(world, "swap from");
    world_ticket(world, 0, 2, true);
    expect_refused(world, "rejoin");
    world_ticket(world, 0, 2, false);
    (void)snprintf(world->groups[0].ticket.policy.unreadable,
                   sizeof world->groups[0].ticket.policy.unreadable, "policy.kv: \"melt\"");
    expect_refused(world, "policy.kv: \"melt\"");
    world->groups[0].ticket.policy.unreadable[0] = '\0';
    cr_assert_eq(world->journal_counts[JOURNAL_REFUSE], 4, "durable");
    world_event(world, (struct agent_event){
                           .kind = AGENT_EVENT_UNFIT,
                           .unfit = { "g0", world_version(2).digest, world_version(3).digest,
                                      "compared with what the group does not hold" } });
    world_run(world, 100 * MS);
    cr_assert_eq(world->groups[0].report.state, AGENT_GROUP_STAGED);
    world_event(world, (struct agent_event){
                           .kind = AGENT_EVENT_UNFIT,
                           .unfit = { "g0", world_version(2).digest, world_version(1).digest,
                                      "model.norm.weight: shape [64], the engine has [128]" } });
    world_run(world, 100 * MS);
    cr_assert_eq(world->groups[0].report.state, AGENT_GROUP_STAGE_FAILED);
    cr_assert_str_eq(world->groups[0].blocked, "INCOMPATIBLE_LAYOUT");
    world_ticket(world, 0, 2, false);
    expect_refused(world, "does not fit");
    cr_assert_eq(world->journal_counts[JOURNAL_ACCEPT], 1); /* The join's. */
    world_destroy(world);
}

static void revoke(struct world *world, const char *uid)
{
    world_event(world, (struct agent_event){ .kind = AGENT_EVENT_REVOKE,
                                             .revoke = { "g0", uid, world->epoch } });
}

/* A revoke before the ticket came is remembered; one after ACCEPT changes nothing. */
Test(agent_session, revoke_is_honoured_before_accept_only)
{
    struct world *world = staged();
    world_ticket(world, 0, 2, false);
    world->groups[0].ticket_due = false;
    revoke(world, world->groups[0].ticket.uid);
    world_run(world, 100 * MS);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_REFUSED);
    world_crash(world);
    world_start(world);
    world_run(world, S);
    world->groups[0].ticket_open = true;
    world_resend(world, 0); /* It was under way all the time. */
    world_run(world, S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_REFUSED);
    cr_assert(world_serves(world, 0, 1));

    world_ticket(world, 0, 2, false);
    world_run(world, 10 * MS);
    revoke(world, world->groups[0].ticket.uid);
    world_run(world, 2 * S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_COMMITTED);
    world_destroy(world);
}

/* A controller with a lower epoch is not listened to. */
Test(agent_session, lower_epoch_is_hung_up_on)
{
    struct world *world = world_create(1, 1, 1);
    world->epoch.n = 9;
    world_serve(world, 1);
    world_crash(world);
    world->epoch.n = 8;
    world_start(world);
    world_run(world, 5 * S);
    cr_assert_geq(world->closes, 1);
    cr_assert(world_noted(world, "StaleEpoch"));
    cr_assert(world_serves(world, 0, 1));
    world->epoch.generation = 2;
    world->epoch.n = 1;
    world_run(world, 5 * S);
    cr_assert(world->session_open);
    cr_assert_geq(world->journal_counts[JOURNAL_EPOCH], 2);
    world_destroy(world);
}

/* Goals that name what is not there are refused whole; the last good ones stay. */
Test(agent_session, bad_goals_are_refused)
{
    struct world *world = staged();
    struct agent_group_goal goal = { .owner_term = 1 };
    struct agent_goals goals = {
        .revision = 50, .epoch = world->epoch, .groups = &goal, .groups_count = 1
    };
    (void)snprintf(goal.group, sizeof goal.group, "unknown");
    world_event(world, (struct agent_event){ .kind = AGENT_EVENT_GOALS, .goals = &goals });
    cr_assert_eq(world->nacks, 1);
    (void)snprintf(goal.group, sizeof goal.group, "g0");
    goal.stage.version.seq = 4;
    (void)snprintf(goal.stage.version.digest, sizeof goal.stage.version.digest, "not a digest");
    world_event(world, (struct agent_event){ .kind = AGENT_EVENT_GOALS, .goals = &goals });
    cr_assert_eq(world->nacks, 2);
    goals.epoch.n = 0;
    world_event(world, (struct agent_event){ .kind = AGENT_EVENT_GOALS, .goals = &goals });
    cr_assert_eq(world->nacks, 3);
    world_run(world, S);
    cr_assert_eq(world->groups[0].report.state, AGENT_GROUP_STAGED);
    world_destroy(world);
}

/* A newer version replaces one that is still being landed. */
Test(agent_session, superseded_landing_is_cancelled)
{
    struct world *world = world_create(1, 1, 1);
    world_serve(world, 1);
    world_goals(world, 0, 1, 2);
    world_run(world, 50 * MS);
    cr_assert_eq(world->lands[2], 1);
    world_goals(world, 0, 1, 3);
    world_run(world, S);
    cr_assert_eq(world->cancels[2], 1);
    cr_assert_eq(world->lands[3], 1);
    cr_assert(!world->landed[2]);
    cr_assert_eq(world->groups[0].report.state, AGENT_GROUP_STAGED);
    world_destroy(world);
}

/* What it serves need not be its target (it may be quarantined): it is landed again all the same, also by a
 * new life of the agent, because a failed swap goes back to it. */
Test(agent_session, lost_restore_source_is_landed_again)
{
    struct world *world = staged();
    world->groups[0].restore_seq = 1;
    world_goals(world, 0, 3, 2);
    world_run(world, S);
    cr_assert(world->groups[0].report.can_restore);
    world_crash(world);
    world->landed[1] = false;
    uint32_t lands = world->lands[1];
    world_start(world);
    world_run(world, 5 * S);
    cr_assert_eq(world->lands[1], lands + 1);
    cr_assert(world->groups[0].report.can_restore);
    world_ticket(world, 0, 2, false);
    world_run(world, 2 * S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_COMMITTED);
    world_destroy(world);
}

/* Landings that fail are tried again with backoff; after some it is shown; it never costs
 * service. */
Test(agent_session, landing_is_retried)
{
    struct world *world = world_create(1, 1, 1);
    world_serve(world, 1);
    world->landing_fails[2] = 5;
    world_goals(world, 0, 1, 2);
    bool failed = false;
    for (int i = 0; i < 600; i++) {
        world_run(world, 100 * MS);
        failed |= world->groups[0].report.state == AGENT_GROUP_STAGE_FAILED;
        cr_assert(world_serves(world, 0, 1));
    }
    cr_assert(failed);
    cr_assert_eq(world->lands[2], 6);
    cr_assert_eq(world->groups[0].report.state, AGENT_GROUP_STAGED);
    cr_assert_str_eq(world->groups[0].blocked, "");
    world_destroy(world);
}

/* No room is told apart from damage: it takes somebody else to mend it. */
Test(agent_session, no_room_is_named)
{
    struct world *world = world_create(1, 1, 1);
    world_serve(world, 1);
    world->landing_fails[2] = 6;
    world_goals(world, 0, 1, 2);
    world_run(world, 5 * S);
    cr_assert_str_eq(world->groups[0].blocked, "STAGE_FAILED");
    world->no_room = true;
    world_run(world, 10 * S);
    cr_assert_str_eq(world->groups[0].blocked, "NO_MEMORY");
    world_run(world, 100 * S);
    cr_assert_str_eq(world->groups[0].blocked, "");
    cr_assert(world->landed[2]);
    world_destroy(world);
}

/* Rule 7: only what the controller lists goes, and nothing that the agent itself still names. */
Test(agent_session, drops_only_what_nobody_names)
{
    struct world *world = staged();
    for (int i = 1; i < 16; i++) {
        world->droppable[i] = true;
    }
    world->goals_due = true;
    world_run(world, S);
    cr_assert(world->landed[1] && world->landed[2], "committed and next");
    world_ticket(world, 0, 2, false);
    world_goals(world, 0, 2, 0);
    world_run(world, 20 * MS);
    cr_assert(world->landed[1], "needed for the restore");
    world_run(world, 2 * S);
    cr_assert_eq(world_committed(world, 0), 2);
    cr_assert(!world->landed[1]);
    cr_assert_eq(world->drops[1], 1);
    cr_assert(world->landed[2]);
    world_destroy(world);
}

/* Progress alone is told at most each report_interval; silence is broken each third of the lease.
 * */
Test(agent_session, reports_are_coalesced)
{
    struct world *world = world_create(1, 1, 1);
    world_serve(world, 1);
    world_run(world, 10 * S);
    uint32_t reports = world->reports;
    world_run(world, 20 * S);
    cr_assert_eq(world->reports - reports, 10); /* lease 6 s */
    world_goals(world, 0, 1, 2);
    world_run(world, 10 * MS);
    reports = world->reports;
    struct agent_landing_event progress = { .state = AGENT_LANDING_PROGRESS };
    memcpy(progress.digest, world_version(2).digest, sizeof progress.digest);
    for (uint64_t i = 1; i <= 100; i++) {
        progress.bytes = i;
        world_event(world,
                    (struct agent_event){ .kind = AGENT_EVENT_LANDING, .landing = &progress });
        world_run(world, MS);
    }
    cr_assert_leq(world->reports - reports, 3);
    cr_assert_geq(world->reports - reports, 1);
    cr_assert_gt(world->groups[0].report.staged_bytes, 0);
    world_destroy(world);
}

/* SIGTERM in the middle of a swap: it is ended first, and gates are left as they are. */
Test(agent_session, shutdown_ends_the_swap_first)
{
    struct world *world = staged();
    world_ticket(world, 0, 2, false);
    world_run(world, 20 * MS);
    world_event(world, (struct agent_event){ .kind = AGENT_EVENT_SHUTDOWN });
    cr_assert(!world->done);
    world_run(world, 2 * S);
    cr_assert(world->done);
    cr_assert(world_serves(world, 0, 2));
    cr_assert(!world->groups[0].ticket_open, "the outcome is told before the end");
    uint32_t accepts = world->journal_counts[JOURNAL_ACCEPT];
    world_ticket(world, 0, 1, false);
    world_run(world, S);
    cr_assert_eq(world->journal_counts[JOURNAL_ACCEPT], accepts, "no new one is begun");
    world_destroy(world);
}

/* A full disk: what serves goes on, an open swap ends, new tickets are refused. */
Test(agent_session, full_disk_refuses_tickets)
{
    struct world *world = staged();
    world_event(world, (struct agent_event){ .kind = AGENT_EVENT_JOURNAL_SPACE,
                                             .space = AGENT_JOURNAL_LOW });
    world_ticket(world, 0, 2, false);
    expect_refused(world, "disk");
    world_event(world, (struct agent_event){ .kind = AGENT_EVENT_JOURNAL_SPACE,
                                             .space = AGENT_JOURNAL_NONE });
    uint64_t records = world->journal_index;
    world_ticket(world, 0, 2, false);
    world_run(world, S);
    cr_assert(world->groups[0].ticket_open);
    cr_assert_leq(world->journal_index, records + 1); /* OUTCOME_STORED of the one before. */
    world_event(world, (struct agent_event){ .kind = AGENT_EVENT_JOURNAL_SPACE,
                                             .space = AGENT_JOURNAL_ROOM });
    world_resend(world, 0);
    world_run(world, 2 * S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_COMMITTED);
    world_destroy(world);
}

/* The records of a snapshot rebuild the same durable state: its own snapshot is the same. */
Test(agent_session, snapshot_rebuilds_the_state)
{
    struct world *world = world_create(2, 2, 1);
    world_serve(world, 1);
    world_goals(world, 0, 1, 2);
    world_fault(&world->engines[0][1], AGENT_OP_UPDATE, FAULT_FAIL, 2);
    world_run(world, S);
    world_ticket(world, 0, 2, false);
    world_run(world, 3 * S);
    world_goals(world, 1, 1, 2);
    world_ticket(world, 1, 2, false);
    world_run(world, 20 * MS);
    cr_assert_eq(agent_open_swaps(world->agent), 1);

    void *memory = malloc(agent_size(&world->config));
    struct agent *twin = agent_init(memory, &world->config, 1);
    struct journal_record record;
    uint32_t count = 0;
    for (; agent_snapshot(world->agent, count, &record); count++) {
        (void)agent_step(
            twin, &(struct agent_event){ .kind = AGENT_EVENT_RECOVERED, .recovered = &record });
    }
    cr_assert_gt(count, 10);
    cr_assert_lt(count, world->journal_index);
    uint8_t left[4096];
    uint8_t right[4096];
    for (uint32_t i = 0; i <= count; i++) {
        struct journal_record again;
        bool more = agent_snapshot(world->agent, i, &record);
        cr_assert_eq(agent_snapshot(twin, i, &again), more);
        if (more) {
            size_t size = journal_record_encode(&record, 1, left, sizeof left);
            cr_assert_eq(journal_record_encode(&again, 1, right, sizeof right), size);
            cr_assert_eq(memcmp(left, right, size), 0, "%s", journal_kind_name(record.kind));
        }
    }
    free(memory);
    world_destroy(world);
}

/* A group that recovers slowly holds the session back, but only until its bound. */
Test(agent_session, recovery_holds_the_session_back_for_its_bound)
{
    struct world *world = world_create(2, 1, 1);
    world_serve(world, 1);
    world_goals(world, 0, 1, 2);
    world_run(world, S);
    world_ticket(world, 0, 2, false);
    world_run(world, 30 * MS);
    world_crash(world);
    world->engines_config[0][0].recreate = AGENT_RECREATE_NONE;
    world_kill(world, 0, 0, false);
    uint32_t hellos = world->hellos;
    world_start(world);
    world_run(world, 19 * S);
    cr_assert_eq(world->hellos, hellos, "rule 1: first the outcome");
    cr_assert(world_serves(world, 1, 1), "the other group is not touched");
    world_run(world, 3 * S);
    cr_assert_eq(world->hellos, hellos + 1);
    cr_assert_eq(world->hello_open_tickets, 0);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_OUT);
    world_destroy(world);
}

/* What the controller has stored is not told again by a later life. */
Test(agent_session, stored_outcome_is_not_told_again)
{
    struct world *world = staged();
    world_ticket(world, 0, 2, false);
    world_run(world, 2 * S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_COMMITTED);
    uint32_t told = world->outcomes_told;
    world_crash(world);
    world_start(world);
    world_run(world, 5 * S);
    cr_assert_eq(world->outcomes_told, told);
    world_destroy(world);
}

/* An agent beside a trainer leads no group; it keeps its session, and ends when it is told to. */
Test(agent_session, agent_without_groups_keeps_a_session)
{
    struct world *world = world_create(0, 0, 1);
    struct baton_status st = agent_config_check(&world->config);
    cr_assert(baton_ok(&st), "%s", st.message);
    world_start(world);
    world_run(world, 3 * S);
    cr_assert(world->session_open);
    cr_assert(world->agent != NULL);
    uint32_t reports = world->reports;
    world_run(world, 20 * S);
    cr_assert_gt(world->reports, reports, "it renews its lease");
    world_event(world, (struct agent_event){ .kind = AGENT_EVENT_SHUTDOWN });
    cr_assert(world->done);
    world_destroy(world);
}
