/* controller_sleep_test.c -- groups that give their device away for a while: sleep, wake, and who counts. */
#include <criterion/criterion.h>
#include <string.h>

#include "controller/core/admission.h"
#include "tests/unit/controller_world.h"

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

static struct baton_status verb(struct world *world, enum request_kind kind, const char *group,
                                const char *model)
{
    struct request request = {
        .kind = kind, .group = group, .model = model, .options = { .reason = "train step 7" }
    };
    return world_call(world, &request);
}

static void must(struct world *world, enum request_kind kind, const char *group, const char *model)
{
    struct baton_status st = verb(world, kind, group, model);
    cr_assert(baton_ok(&st), "%s", st.message);
    world_play(world);
}

static struct group_status status(const struct world *world, const char *group)
{
    struct group_status out;
    view_group_status(world->core, world_record(world, group), world->wall_ns, &out);
    return out;
}

static uint64_t wait_asleep(struct world *world)
{
    struct request request = { .kind = REQUEST_WAIT, .model = "m", .body.wait = { "asleep", 0 } };
    (void)world_call(world, &request);
    return request.handle;
}

/* A sleeper is in no roll, wait, budget and denominator; its engines are told, and waked it comes at
 * what is promoted by then. */
Test(sleep, sleeper_is_left_out_and_wakes_at_the_promoted_version)
{
    struct world *world = serving(3, "1");
    must(world, REQUEST_GROUP_SLEEP, "g1", NULL);
    cr_assert(world_group(world, "g1")->goal.sleep);
    struct group_status g1 = status(world, "g1");
    cr_assert_eq(g1.state, GROUP_STATE_ASLEEP);
    cr_assert_not(g1.counted);
    cr_assert_eq(g1.blocked_reason, BLOCKED_GROUP_ASLEEP);
    cr_assert_str_eq(g1.blocked_message, "it is asleep: train step 7; batonctl wake group/g1");
    cr_assert_str_eq(g1.conditions.ready.status, "False");
    cr_assert_str_eq(g1.conditions.ready.reason, "Asleep");
    cr_assert_eq(world_publish(world, "m"), 2);
    uint64_t wait = world_wait(world, "m", 2);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 2);
    cr_assert_eq(world_committed(world, "g2"), 2);
    cr_assert_eq(world_committed(world, "g1"), 1);
    cr_assert_eq(world_roll(world, "m", 0)->state, ROLL_STATE_COMPLETED);
    cr_assert_eq(world_roll(world, "m", 0)->groups_total, 2);
    cr_assert_eq(world_wait_end(world, wait)->outcome, WAIT_OUTCOME_MET);
    cr_assert_eq(world_group(world, "g1")->goal_target_seq, 2, "landed before it wakes");
    must(world, REQUEST_GROUP_WAKE, "g1", NULL);
    cr_assert_eq(world_committed(world, "g1"), 2);
    cr_assert_eq(world_record(world, "g1")->last_swap.to_seq, 2);
    cr_assert_eq(status(world, "g1").blocked_reason, BLOCKED_NONE);
    cr_assert_not(world_record(world, "g1")->as_new);
    world_free(world);
}

/* Colocated training: the whole model sleeps; what is published meanwhile is promoted, as nobody is
 * there to be rolled, and all wake up with it.  It is durable. */
Test(sleep, whole_model)
{
    struct world *world = serving(3, "1");
    must(world, REQUEST_GROUP_SLEEP, NULL, "m");
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(world->agents[i].groups[0].report.state, GROUP_STATE_ASLEEP);
    }
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    cr_assert_eq(view_model_find(world->core, "m")->promoted_seq, 2);
    world_restart(world);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert(world_connect(world, &world->agents[i]));
    }
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 1);
    must(world, REQUEST_GROUP_WAKE, NULL, "m");
    cr_assert_eq(world_committed(world, "g0"), 2);
    cr_assert_eq(world_committed(world, "g2"), 2);
    world_free(world);
}

/* A pinned group wakes up where it is pinned. */
Test(sleep, pinned_group_keeps_its_version)
{
    struct world *world = serving(2, "1");
    must(world, REQUEST_GROUP_PIN, "g1", NULL);
    must(world, REQUEST_GROUP_SLEEP, "g1", NULL);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    must(world, REQUEST_GROUP_WAKE, "g1", NULL);
    cr_assert_eq(world_committed(world, "g1"), 1);
    cr_assert_eq(world_record(world, "g1")->last_swap.to_seq, 1, "its weights were brought back");
    world_free(world);
}

/* Invariant 4: the denominator has awake groups only, so a percentage allows no more than of these. */
Test(sleep, sleepers_are_no_part_of_the_denominator)
{
    struct world *world = serving(4, "50%");
    must(world, REQUEST_GROUP_SLEEP, "g0", NULL);
    must(world, REQUEST_GROUP_SLEEP, "g1", NULL);
    struct model_status model;
    view_model_status(world->core, view_model_find(world->core, "m"), world->wall_ns, &model);
    cr_assert_eq(model.max_unavailable, 1, "half of two");
    cr_assert_eq(model.groups, 2);
    world_free(world);
}

/* The trainer may take the device once it is released, and is told at once when nobody was asked. */
Test(sleep, wait_for_asleep)
{
    struct world *world = serving(2, "1");
    uint64_t nobody = wait_asleep(world);
    cr_assert_eq(world_wait_end(world, nobody)->outcome, WAIT_OUTCOME_HELD);
    world_agent(world, "a1")->by_hand = true;
    must(world, REQUEST_GROUP_SLEEP, NULL, "m");
    uint64_t wait = wait_asleep(world);
    cr_assert_null(world_wait_end(world, wait), "g1 does not sleep yet");
    cr_assert_str_eq(status(world, "g1").conditions.ready.reason, "FallsAsleep");
    world_group(world, "g1")->report.state = GROUP_STATE_ASLEEP;
    world_group(world, "g1")->report.gate_open = false;
    world_report(world, world_agent(world, "a1"), NULL, 0);
    cr_assert_eq(world_wait_end(world, wait)->outcome, WAIT_OUTCOME_MET);
    world_free(world);
}

/* Woken and put to sleep again before its agent was heard of: its ASLEEP is of the earlier sleep. */
Test(sleep, word_of_an_earlier_sleep_does_not_count)
{
    struct world *world = serving(1, "1");
    must(world, REQUEST_GROUP_SLEEP, "g0", NULL);
    world_agent(world, "a0")->by_hand = true;
    must(world, REQUEST_GROUP_WAKE, "g0", NULL);
    must(world, REQUEST_GROUP_SLEEP, "g0", NULL);
    uint64_t wait = wait_asleep(world);
    cr_assert_null(world_wait_end(world, wait), "by now it may wake up");
    cr_assert_str_eq(status(world, "g0").conditions.ready.reason, "FallsAsleep");
    world_report(world, world_agent(world, "a0"), NULL, 0);
    cr_assert_eq(world_wait_end(world, wait)->outcome, WAIT_OUTCOME_MET);
    world_free(world);
}

/* It is routable no more from the verb on, and a ticket that is open ends first. */
Test(sleep, open_ticket_ends_first)
{
    struct world *world = serving(2, "1");
    world_agent(world, "a0")->by_hand = true;
    world_agent(world, "a1")->by_hand = true;
    cr_assert_eq(world_publish(world, "m"), 2);
    struct played_group *group = world_group(world, "g0");
    group->report.state = GROUP_STATE_STAGED;
    group->report.staging_seq = 2;
    world_report(world, world_agent(world, "a0"), NULL, 0);
    cr_assert(world_record(world, "g0")->ticket_open);
    struct baton_status st = verb(world, REQUEST_GROUP_SLEEP, "g0", NULL);
    cr_assert(baton_ok(&st));
    cr_assert_not(group->goal.sleep, "not before its ticket has ended");
    cr_assert(status(world, "g0").counted, "and it keeps its slot so long");
    cr_assert_not(
        admission_group_is_ready(world->core, (const struct group *)world_record(world, "g0")));
    world_free(world);
}

/* g0 tells of a swap of which the store knows nothing, as after it was put back to a backup. */
static struct world *swaps_unknown(void)
{
    struct world *world = serving(2, "1");
    struct played_group *g0 = world_group(world, "g0");
    world_agent(world, "a0")->by_hand = true;
    world_agent(world, "a1")->by_hand = true;
    strcpy(g0->report.ticket_uid, "ticket-that-was-forgotten");
    g0->report.state = GROUP_STATE_APPLYING;
    g0->report.gate_open = false;
    world_report(world, world_agent(world, "a0"), NULL, 0);
    return world;
}

/* A swap that the store forgot is a swap: it ends before the group sleeps, and counts so long. */
Test(sleep, forgotten_ticket_ends_first)
{
    struct world *world = swaps_unknown();
    struct played_group *g0 = world_group(world, "g0");
    must(world, REQUEST_GROUP_SLEEP, "g0", NULL);
    uint64_t wait = wait_asleep(world);
    cr_assert_null(world_wait_end(world, wait));
    cr_assert_not(g0->goal.sleep, "not before that swap has ended");
    cr_assert(status(world, "g0").counted);
    strcpy(g0->report.ticket_uid, "");
    world_report(world, world_agent(world, "a0"), NULL, 0);
    cr_assert(g0->goal.sleep, "whatever else did not change");
    cr_assert_not(status(world, "g0").counted);
    world_free(world);
}

/* Nor does a wake make it one that joins: it never slept, and nobody else may go meanwhile. */
Test(sleep, woken_within_a_swap_counts_on)
{
    struct world *world = swaps_unknown();
    struct played_group *g1 = world_group(world, "g1");
    must(world, REQUEST_GROUP_SLEEP, NULL, "m");
    must(world, REQUEST_GROUP_WAKE, NULL, "m");
    cr_assert_not(world_record(world, "g0")->as_new);
    cr_assert(status(world, "g0").counted);
    cr_assert_eq(world_publish(world, "m"), 2);
    g1->report.state = GROUP_STATE_STAGED;
    g1->report.staging_seq = 2;
    world_report(world, world_agent(world, "a1"), NULL, 0);
    cr_assert_not(world_record(world, "g1")->ticket_open);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_BUDGET_FULL);
    world_free(world);
}

/* The same of a ticket that the store knows: a swap that failed leaves a group that is away. */
Test(sleep, woken_within_its_ticket_counts_when_it_fails)
{
    struct world *world = serving(2, "1");
    world_agent(world, "a0")->by_hand = true;
    world_agent(world, "a1")->by_hand = true;
    cr_assert_eq(world_publish(world, "m"), 2);
    struct played_group *g0 = world_group(world, "g0");
    g0->report.state = GROUP_STATE_STAGED;
    g0->report.staging_seq = 2;
    world_report(world, world_agent(world, "a0"), NULL, 0);
    cr_assert(world_record(world, "g0")->ticket_open);
    g0->report.state = GROUP_STATE_PAUSING;
    g0->report.gate_open = false;
    world_report(world, world_agent(world, "a0"), NULL, 0);
    must(world, REQUEST_GROUP_SLEEP, "g0", NULL);
    must(world, REQUEST_GROUP_WAKE, "g0", NULL);
    world_finish(world, "g0", SWAP_OUTCOME_OUT);
    cr_assert_not(world_record(world, "g0")->ticket_open);
    cr_assert(status(world, "g0").counted, "it is OUT, and did not sleep");
    world_free(world);
}

/* Routers that watch or resolve find it. */
static bool is_routed(const struct world *world, const char *group)
{
    const struct admission_query any = { .model = "m" };
    const struct version_record *version = NULL;
    return view_admission_group(world->core, &any, world_record(world, group), &version);
}

Test(sleep, sleeper_is_routed_no_more)
{
    struct world *world = serving(2, "1");
    world_group(world, "g1")->engine.reachable = true;
    world_group(world, "g1")->report.verify_level = VERIFY_LEVEL_RESIDENT;
    world_report(world, world_agent(world, "a1"), NULL, 0);
    cr_assert(is_routed(world, "g1"));
    must(world, REQUEST_GROUP_SLEEP, "g1", NULL);
    cr_assert_not(is_routed(world, "g1"));
    world_free(world);
}

/* Its leader lost its journal: it is asked what it holds once it is woken, and not before. */
Test(sleep, sleeper_in_doubt_gets_no_ticket)
{
    struct world *world = serving(2, "1");
    must(world, REQUEST_GROUP_SLEEP, "g0", NULL);
    struct played_group *group = world_group(world, "g0");
    world_agent(world, "a0")->by_hand = true;
    group->report.state = GROUP_STATE_OUT;
    strcpy(group->report.blocked, "IN_DOUBT");
    world_report(world, world_agent(world, "a0"), NULL, 0);
    cr_assert_not(world_record(world, "g0")->ticket_open);
    must(world, REQUEST_GROUP_WAKE, "g0", NULL);
    cr_assert(world_record(world, "g0")->ticket_open);
    cr_assert(world_record(world, "g0")->ticket.resolve);
    world_free(world);
}

/* Exactly one of the three names. */
Test(sleep, names)
{
    struct world *world = serving(1, "1");
    struct baton_status st = verb(world, REQUEST_GROUP_SLEEP, "g0", "m");
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    st = verb(world, REQUEST_GROUP_SLEEP, NULL, "nobody");
    cr_assert_eq(st.code, BATON_NOT_FOUND);
    st = verb(world, REQUEST_GROUP_WAKE, NULL, NULL);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    world_free(world);
}
