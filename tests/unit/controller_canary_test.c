/* controller_canary_test.c -- canary steps, checks, soak and the verbs that go past them, as stories
 * on virtual time, with restarts of the controller in the middle of each state. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/unit/controller_world.h"

/* A fleet of 'groups' that serves version 1 under the policy. */
static struct world *serving(uint32_t groups, const struct policy_spec *spec)
{
    struct world *world = world_new();
    struct baton_status st = world_apply(world, "m", spec);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(world_publish(world, "m"), 1);
    world_fleet(world, "m", groups);
    world_play(world);
    cr_assert_eq(view_model_find(world->core, "m")->promoted_seq, 1, "no canary in the first roll");
    return world;
}

static struct policy_spec with_steps(const struct canary_spec *steps, size_t count)
{
    struct policy_spec spec = { .max_unavailable = "2" };
    spec.roll.canary = steps;
    spec.roll.canary_count = count;
    return spec;
}

static void restart(struct world *world)
{
    world_restart(world);
    for (uint32_t i = 0; i < world->agents_count; i++) {
        cr_assert(world_connect(world, &world->agents[i]));
    }
    world_play(world);
}

static uint32_t on(const struct world *world, uint64_t seq)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < view_groups_count(world->core); i++) {
        count += world_committed(world, view_group_at(world->core, i)->name) == seq;
    }
    return count;
}

static void must(struct world *world, enum request_kind kind)
{
    struct baton_status st = world_verb(world, kind, "m", 0);
    cr_assert(baton_ok(&st), "%s", st.message);
}

static void must_not(struct world *world, enum request_kind kind)
{
    struct baton_status st = world_verb(world, kind, "m", 0);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION, "%s", st.message);
}

static struct baton_status report(struct world *world, const char *check, double value,
                                  enum check_state verdict)
{
    struct request request = { .kind = REQUEST_ROLL_REPORT_CHECK, .model = "m" };
    request.options.requested_by = "judge";
    request.body.check =
        (struct request_report_check){ .check = check, .value = value, .verdict = verdict };
    return world_call(world, &request);
}

static void must_report(struct world *world, const char *check, double value,
                        enum check_state verdict)
{
    struct baton_status st = report(world, check, value, verdict);
    cr_assert(baton_ok(&st), "%s", st.message);
}

static enum roll_state state(const struct world *world)
{
    return world_roll(world, "m", 0)->state;
}

/* One group goes first and holds; Advance lets the next step's share go, and the last the rest. */
Test(canary, holds_and_advances)
{
    const struct canary_spec steps[] = { { .groups = "1", .hold = true },
                                         { .groups = "50%", .hold = true } };
    struct policy_spec spec = with_steps(steps, 2);
    struct world *world = serving(4, &spec);
    cr_assert_eq(world_publish(world, "m"), 2);
    must_not(world, REQUEST_ROLL_ADVANCE);
    world_play(world);
    cr_assert_eq(on(world, 2), 1);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_CANARY_HOLD);
    restart(world);
    cr_assert_eq(on(world, 2), 1, "a restart is no Advance");
    must(world, REQUEST_ROLL_ADVANCE);
    world_play(world);
    cr_assert_eq(on(world, 2), 2);
    cr_assert_eq(world_roll(world, "m", 0)->canary_step, 1);
    world_pass(world, 3600 * SEC);
    cr_assert_not(world_roll(world, "m", 0)->degraded, "a hold is not late");
    must(world, REQUEST_ROLL_ADVANCE);
    world_play(world);
    cr_assert_eq(on(world, 2), 4);
    cr_assert_eq(state(world), ROLL_STATE_COMPLETED);
    cr_assert_eq(world_roll(world, "m", 0)->verbs_count, 2);
    cr_assert_str_eq(world_roll(world, "m", 0)->verbs[0].verb, "advance");
    world_free(world);
}

/* The last group's hold keeps the version from being promoted. */
Test(canary, not_promoted_before_the_last_hold)
{
    const struct canary_spec steps[] = { { .groups = "100%", .hold = true } };
    struct policy_spec spec = with_steps(steps, 1);
    struct world *world = serving(2, &spec);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    cr_assert_eq(on(world, 2), 2);
    cr_assert_eq(state(world), ROLL_STATE_PROGRESSING);
    cr_assert_eq(view_model_find(world->core, "m")->promoted_seq, 1);
    must(world, REQUEST_ROLL_ADVANCE);
    cr_assert_eq(state(world), ROLL_STATE_COMPLETED);
    cr_assert_eq(view_model_find(world->core, "m")->promoted_seq, 2);
    world_free(world);
}

/* The step's soak counts serving time of this life: a restart and a jump of the wall clock begin it
 * anew, they never end it. */
Test(canary, soak_of_a_step_starts_anew_after_a_restart)
{
    const struct canary_spec steps[] = { { .groups = "1", .soak_ms = 60000 } };
    struct policy_spec spec = with_steps(steps, 1);
    struct world *world = serving(3, &spec);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    world_pass(world, 50 * SEC);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_SOAKING);
    world->wall_ns += 7200 * SEC;
    restart(world);
    world_pass(world, 50 * SEC);
    cr_assert_eq(on(world, 2), 1);
    world_pass(world, 11 * SEC);
    world_play(world);
    cr_assert_eq(on(world, 2), 3);
    cr_assert_eq(state(world), ROLL_STATE_COMPLETED);
    world_free(world);
}

/* A newer publish supersedes: its canary begins at the first step, with the most stale group. */
Test(canary, supersede_restarts_the_steps)
{
    const struct canary_spec steps[] = { { .groups = "1", .hold = true } };
    struct policy_spec spec = with_steps(steps, 1);
    struct world *world = serving(3, &spec);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    for (uint64_t seq = 3; seq <= 22; seq++) {
        cr_assert_eq(world_publish(world, "m"), seq);
    }
    cr_assert_eq(world_roll(world, "m", 0)->canary_step, 0);
    must(world, REQUEST_ROLL_PAUSE); /* Until all have landed it. */
    world_play(world);
    must(world, REQUEST_ROLL_RESUME);
    world_play(world);
    cr_assert_eq(on(world, 22), 1, "one roll to the newest");
    cr_assert_eq(world_committed(world, "g0"), 2, "the most stale group goes first");
    must(world, REQUEST_ROLL_ADVANCE);
    world_play(world);
    cr_assert_eq(on(world, 22), 3);
    world_free(world);
}

/* A manual check waits for a verdict; a bad one stops the roll until a good one comes. */
Test(canary, manual_check)
{
    static const char *const names[] = { "eval" };
    const struct check_spec checks[] = { { .name = "eval", .kind = "Manual" } };
    const struct canary_spec steps[] = { { .groups = "1", .checks = names, .checks_count = 1 } };
    struct policy_spec spec = with_steps(steps, 1);
    spec.roll.checks = checks;
    spec.roll.checks_count = 1;
    struct world *world = serving(2, &spec);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_CHECK_PENDING);
    restart(world);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_CHECK_PENDING);
    struct baton_status st = report(world, "eval", 0, 0);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    st = report(world, "none", 0, CHECK_STATE_PASSED);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    must_report(world, "eval", 0, CHECK_STATE_FAILED);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_CHECK_FAILED);
    struct model_status status;
    view_model_status(world->core, view_model_find(world->core, "m"), world->wall_ns, &status);
    cr_assert_str_eq(status.conditions.degraded.reason, "CheckFailed");
    cr_assert_str_eq(status.conditions.degraded.status, "True");
    restart(world);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_CHECK_FAILED);
    must_not(world, REQUEST_ROLL_ADVANCE);
    must_report(world, "eval", 0, CHECK_STATE_PASSED);
    world_play(world);
    cr_assert_eq(on(world, 2), 2);
    world_free(world);
}

/* Advance stands for a person's verdict, and for the hold behind it. */
Test(canary, advance_passes_a_manual_check)
{
    static const char *const names[] = { "eval" };
    const struct check_spec checks[] = { { .name = "eval", .kind = "Manual" } };
    const struct canary_spec steps[] = {
        { .groups = "1", .checks = names, .checks_count = 1, .hold = true }
    };
    struct policy_spec spec = with_steps(steps, 1);
    spec.roll.checks = checks;
    spec.roll.checks_count = 1;
    struct world *world = serving(2, &spec);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    must(world, REQUEST_ROLL_ADVANCE);
    world_play(world);
    cr_assert_eq(state(world), ROLL_STATE_COMPLETED);
    world_free(world);
}

static struct policy_spec with_metric(const struct canary_spec *step,
                                      const struct check_spec *check)
{
    struct policy_spec spec = with_steps(step, 1);
    spec.roll.checks = check;
    spec.roll.checks_count = 1;
    return spec;
}

/* A metric must keep its threshold for the whole window; numbers from before its groups served say
 * nothing, and a restart begins the window anew. */
Test(canary, metric_check_with_a_window)
{
    static const char *const names[] = { "reward" };
    const struct check_spec check = {
        .name = "reward", .kind = "Metric", .compare = ">=", .threshold = 0.5, .window_ms = 30000
    };
    const struct canary_spec step = { .groups = "1", .checks = names, .checks_count = 1 };
    struct policy_spec spec = with_metric(&step, &check);
    struct world *world = serving(2, &spec);
    cr_assert_eq(world_publish(world, "m"), 2);
    must_report(world, "reward", 0.9, 0);
    world_play(world);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_CHECK_PENDING);
    world_pass(world, 40 * SEC);
    cr_assert_eq(on(world, 2), 1, "that number was of the old version");
    must_report(world, "reward", 0.7, 0);
    world_pass(world, 20 * SEC);
    must_report(world, "reward", 0.4, 0);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_CHECK_FAILED);
    must_report(world, "reward", 0.6, 0);
    world_pass(world, 20 * SEC);
    restart(world);
    world_pass(world, 20 * SEC);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_CHECK_PENDING);
    world_pass(world, 11 * SEC);
    world_play(world);
    cr_assert_eq(on(world, 2), 2);
    cr_assert_eq(report(world, "reward", 1, 0).code, BATON_FAILED_PRECONDITION, "no roll");
    world_free(world);
}

/* Bad numbers are refused, and so are reports on another version than the roll's. */
Test(canary, report_refusals)
{
    static const char *const names[] = { "reward" };
    const struct check_spec check = {
        .name = "reward", .kind = "Metric", .compare = "<", .threshold = 1
    };
    const struct canary_spec step = { .groups = "1", .checks = names, .checks_count = 1 };
    struct policy_spec spec = with_metric(&step, &check);
    struct world *world = serving(2, &spec);
    cr_assert_eq(world_publish(world, "m"), 2);
    cr_assert_eq(report(world, "reward", NAN, 0).code, BATON_INVALID_ARGUMENT);
    cr_assert_eq(report(world, "reward", 0, CHECK_STATE_PASSED).code, BATON_INVALID_ARGUMENT);
    struct request request = { .kind = REQUEST_ROLL_REPORT_CHECK, .model = "m" };
    request.body.check = (struct request_report_check){ .check = "reward", .seq = 1 };
    cr_assert_eq(world_call(world, &request).code, BATON_FAILED_PRECONDITION);
    world_free(world);
}

static void swap_with_probe(struct world *world, const char *group, double logprob,
                            enum verify_level level)
{
    struct played_group *played = world_group(world, group);
    struct played_agent *agent = world_agent(world, world_record(world, group)->agent);
    cr_assert(played->has_ticket, "%s has no ticket", group);
    struct ticket_outcome outcome = world_outcome(played, SWAP_OUTCOME_COMMITTED);
    strcpy(outcome.record.probe_text, "hello");
    outcome.record.probe_logprob = logprob;
    outcome.record.verify_level = level;
    outcome.record.ended_wall_ns = world->wall_ns;
    played->has_ticket = false;
    played->report.state = GROUP_STATE_SERVING;
    played->report.gate_open = true;
    played->report.committed_seq = outcome.committed_seq;
    strcpy(played->report.committed_digest, outcome.committed_digest);
    world_report(world, agent, &outcome, 1);
    world_pass(world, 1 * SEC);
}

static struct world *probed(void)
{
    static const char *const names[] = { "same" };
    static const struct check_spec check = { .name = "same", .kind = "Probe", .tolerance = 0.01 };
    static const struct canary_spec step = { .groups = "2", .checks = names, .checks_count = 1 };
    struct policy_spec spec = with_metric(&step, &check);
    struct world *world = serving(3, &spec);
    cr_assert_eq(world_publish(world, "m"), 2);
    for (uint32_t i = 0; i < 3; i++) {
        world_report(world, &world->agents[i], NULL, 0);
        world->agents[i].by_hand = true;
    }
    return world;
}

/* A group whose probe is away from the first resident group's fails the check; one that is near
 * passes it. */
Test(canary, probe_check_compares_groups)
{
    struct world *world = probed();
    swap_with_probe(world, "g0", -12.5, VERIFY_LEVEL_RESIDENT);
    cr_assert_eq(world_blocked(world, "g2"), BLOCKED_CANARY_HOLD, "its groups are under way");
    swap_with_probe(world, "g1", -13.5, VERIFY_LEVEL_COPIED);
    cr_assert_eq(world_blocked(world, "g2"), BLOCKED_CHECK_FAILED);
    cr_assert_not_null(strstr(world_roll(world, "m", 0)->checks[0].message, "group g1 is 1 away"));
    world_free(world);

    world = probed();
    swap_with_probe(world, "g0", -12.505, VERIFY_LEVEL_COPIED);
    swap_with_probe(world, "g1", -12.5, VERIFY_LEVEL_COPIED);
    cr_assert_eq(world_blocked(world, "g2"), BLOCKED_CHECK_PENDING, "none is resident");
    must(world, REQUEST_ROLL_PROMOTE);
    cr_assert(world_record(world, "g2")->ticket_open, "Promote skips the checks");
    world_free(world);

    world = probed();
    swap_with_probe(world, "g0", -12.505, VERIFY_LEVEL_RESIDENT);
    swap_with_probe(world, "g1", -12.5, VERIFY_LEVEL_COPIED);
    cr_assert(world_record(world, "g2")->ticket_open, "they agree");
    world_free(world);
}

/* Promote makes the version current at once and swaps nothing by itself; the rest follows within
 * the budget, and Undo goes to the version from before. */
Test(canary, promote)
{
    const struct canary_spec steps[] = { { .groups = "1", .hold = true } };
    struct policy_spec spec = with_steps(steps, 1);
    spec.max_unavailable = "1";
    struct world *world = serving(3, &spec);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    must(world, REQUEST_ROLL_PROMOTE);
    const struct model_record *model = view_model_find(world->core, "m");
    cr_assert_eq(model->promoted_seq, 2);
    cr_assert_eq(model->previous_promoted_seq, 1);
    cr_assert_eq(on(world, 2), 1);
    cr_assert_eq(world_tickets(world), 1);
    restart(world);
    cr_assert_eq(state(world), ROLL_STATE_COMPLETED);
    cr_assert_eq(on(world, 2), 3);
    cr_assert_eq(view_model_find(world->core, "m")->promoted_seq, 2);
    must(world, REQUEST_ROLL_UNDO);
    world_play(world);
    cr_assert_eq(on(world, 1), 3);
    world_free(world);
}

/* Abort: swapped groups go back, the model is held, the version never comes back by itself. */
Test(canary, abort)
{
    const struct canary_spec steps[] = { { .groups = "1", .hold = true } };
    struct policy_spec spec = with_steps(steps, 1);
    struct world *world = serving(3, &spec);
    must_not(world, REQUEST_ROLL_ABORT);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    uint64_t wait = world_wait(world, "m", 2);
    must(world, REQUEST_ROLL_ABORT);
    cr_assert_eq(world_wait_end(world, wait)->outcome, WAIT_OUTCOME_ABORTED);
    cr_assert_eq(world_roll(world, "m", 2)->state, ROLL_STATE_ABORTED);
    cr_assert_eq(world_roll(world, "m", 3)->cause, ROLL_CAUSE_ABORT);
    must_not(world, REQUEST_ROLL_ABORT);
    restart(world);
    cr_assert_eq(on(world, 1), 3);
    const struct version_record *version = view_version_find(world->core, "m", 2);
    cr_assert(version->quarantined);
    cr_assert(view_model_find(world->core, "m")->held);
    must(world, REQUEST_MODEL_RESUME);
    world_play(world);
    cr_assert_eq(on(world, 1), 3);
    struct baton_status st = world_verb(world, REQUEST_ROLL_START, "m", 2);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION);
    st = world_verb(world, REQUEST_ROLL_UNDO, "m", 2);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION);
    wait = world_wait(world, "m", 2);
    cr_assert_eq(world_wait_end(world, wait)->outcome, WAIT_OUTCOME_QUARANTINED);
    cr_assert_eq(world_publish(world, "m"), 3);
    world_play(world);
    must(world, REQUEST_ROLL_ADVANCE);
    world_play(world);
    cr_assert_eq(on(world, 3), 3);
    world_free(world);
}

/* Nothing was promoted before: the roll ends, the model is held, the next publish brings all up. */
Test(canary, abort_of_the_first_roll)
{
    struct world *world = world_new();
    struct policy_spec spec = { .max_unavailable = "1" };
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st));
    world_fleet(world, "m", 2);
    world->agents[0].by_hand = true;
    world->agents[1].by_hand = true;
    cr_assert_eq(world_publish(world, "m"), 1);
    must(world, REQUEST_ROLL_ABORT);
    cr_assert_eq(state(world), ROLL_STATE_ABORTED);
    cr_assert_eq(view_model_find(world->core, "m")->active_roll, 0);
    world->agents[0].by_hand = false;
    world->agents[1].by_hand = false;
    must(world, REQUEST_MODEL_RESUME);
    cr_assert_eq(world_publish(world, "m"), 2);
    restart(world);
    cr_assert_eq(on(world, 2), 2);
    world_free(world);
}

/* A swapped group keeps its slot for the policy's soak: with one slot, groups follow at its pace. */
Test(canary, soak_keeps_the_slot)
{
    struct policy_spec spec = { .max_unavailable = "1" };
    spec.roll.soak_ms = 30000;
    struct world *world = serving(2, &spec);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    cr_assert_eq(on(world, 2), 1);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_SOAKING);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_BUDGET_FULL);
    world_pass(world, 25 * SEC);
    restart(world);
    world_pass(world, 25 * SEC);
    cr_assert_eq(on(world, 2), 1, "a restart begins the soak anew");
    world_pass(world, 6 * SEC);
    world_play(world);
    cr_assert_eq(on(world, 2), 2);
    cr_assert_eq(state(world), ROLL_STATE_PROGRESSING, "the last one soaks, too");
    world_pass(world, 31 * SEC);
    cr_assert_eq(state(world), ROLL_STATE_COMPLETED);
    cr_assert_eq(world->most_away, 2); /* While the fleet was UNKNOWN after the restart. */
    world_free(world);
}

/* Serving means without a break: a group that goes out soaks anew; one that is taken back does not
 * soak first. */
Test(canary, soak_is_without_a_break)
{
    struct policy_spec spec = { .max_unavailable = "1" };
    spec.roll.soak_ms = 30000;
    struct world *world = serving(2, &spec);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    world_pass(world, 20 * SEC);
    struct played_group *g0 = world_group(world, "g0");
    g0->report.state = GROUP_STATE_OUT;
    g0->report.gate_open = false;
    world_report(world, world_agent(world, "a0"), NULL, 0);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 2);
    world_pass(world, 20 * SEC);
    cr_assert_eq(on(world, 2), 1);
    must(world, REQUEST_ROLL_UNDO);
    world_play(world);
    cr_assert_eq(on(world, 1), 2);
    world_free(world);
}

/* progressAction pause: a late roll stops, and Resume gives it the whole time again. */
Test(canary, late_roll_pauses)
{
    struct policy_spec spec = { .max_unavailable = "1", .progress_deadline_ms = 60000 };
    spec.roll.progress_action = "pause";
    struct world *world = serving(2, &spec);
    world_agent(world, "a0")->by_hand = true;
    world_agent(world, "a1")->by_hand = true;
    cr_assert_eq(world_publish(world, "m"), 2);
    world_pass(world, 61 * SEC);
    cr_assert_eq(state(world), ROLL_STATE_PAUSED);
    cr_assert(world_roll(world, "m", 0)->degraded);
    must(world, REQUEST_ROLL_RESUME);
    cr_assert_eq(state(world), ROLL_STATE_PROGRESSING);
    world_pass(world, 59 * SEC);
    cr_assert_eq(state(world), ROLL_STATE_PROGRESSING);
    world_pass(world, 2 * SEC);
    cr_assert_eq(state(world), ROLL_STATE_PAUSED);
    world_free(world);
}

/* progressAction rollback: a late roll is taken back by itself, once. */
Test(canary, late_roll_rolls_back)
{
    struct policy_spec spec = { .max_unavailable = "1", .progress_deadline_ms = 60000 };
    spec.roll.progress_action = "rollback";
    struct world *world = serving(2, &spec);
    world_agent(world, "a1")->by_hand = true;
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    cr_assert_eq(on(world, 2), 1);
    uint64_t wait = world_wait(world, "m", 2);
    world_pass(world, 61 * SEC);
    cr_assert_eq(world_roll(world, "m", 2)->state, ROLL_STATE_ROLLED_BACK);
    cr_assert_eq(world_wait_end(world, wait)->outcome, WAIT_OUTCOME_ROLLED_BACK);
    cr_assert(view_model_find(world->core, "m")->held);
    world_play(world);
    cr_assert_eq(on(world, 1), 2);
    cr_assert_eq(state(world), ROLL_STATE_COMPLETED);
    cr_assert_not(view_version_find(world->core, "m", 2)->quarantined);
    world_free(world);
}

/* Retry: a group that failed need not wait for its next try. */
Test(canary, retry)
{
    struct policy_spec spec = { .max_unavailable = "1" };
    struct world *world = serving(2, &spec);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_report(world, world_agent(world, "a0"), NULL, 0);
    for (int i = 0; i < 5; i++) {
        world_finish(world, "g0", SWAP_OUTCOME_PAUSE_TIMEOUT);
        cr_assert_not(world_record(world, "g0")->ticket_open);
        struct request request = { .kind = REQUEST_ROLL_RETRY, .model = "m" };
        request.body.retry.group = "g0";
        struct baton_status st = world_call(world, &request);
        cr_assert(baton_ok(&st), "%s", st.message);
        cr_assert(world_record(world, "g0")->ticket_open);
    }
    cr_assert_eq(world_record(world, "g0")->failures, 0);
    struct request request = { .kind = REQUEST_ROLL_RETRY, .model = "m" };
    request.body.retry.group = "nobody";
    cr_assert_eq(world_call(world, &request).code, BATON_NOT_FOUND);
    world_free(world);
}

/* A given order goes before staleness; a group that is not the model's is refused by name. */
Test(canary, given_order)
{
    struct policy_spec spec = { .trigger = "Manual", .max_unavailable = "1" };
    struct world *world = world_new();
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st));
    world_fleet(world, "m", 3);
    cr_assert_eq(world_publish(world, "m"), 1);
    must(world, REQUEST_ROLL_START);
    world_play(world);
    cr_assert_eq(world_publish(world, "m"), 2);
    struct request request = { .kind = REQUEST_ROLL_START, .model = "m" };
    request.body.start.order = "g2,g9";
    cr_assert_eq(world_call(world, &request).code, BATON_INVALID_ARGUMENT);
    request.body.start.order = "g2,,g1";
    cr_assert_eq(world_call(world, &request).code, BATON_INVALID_ARGUMENT);
    request.body.start.order = "g2,g1";
    st = world_call(world, &request);
    cr_assert(baton_ok(&st), "%s", st.message);
    world_report(world, world_agent(world, "a0"), NULL, 0);
    world_report(world, world_agent(world, "a1"), NULL, 0);
    cr_assert_eq(world_tickets(world), 0, "g2 goes first and will come");
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_CANARY_HOLD);
    world_report(world, world_agent(world, "a2"), NULL, 0);
    cr_assert(world_record(world, "g2")->ticket_open);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_BUDGET_FULL);
    world_finish(world, "g2", SWAP_OUTCOME_APPLY_FAILED);
    cr_assert(world_record(world, "g1")->ticket_open, "nobody waits for one that failed");
    world_play(world);
    world_pass(world, 5 * SEC);
    world_play(world);
    cr_assert_eq(state(world), ROLL_STATE_COMPLETED);
    world_free(world);
}

/* Hold: publishes are stored; what rolls goes on; a hold says why. */
Test(canary, hold)
{
    struct policy_spec spec = { .max_unavailable = "1" };
    struct world *world = serving(2, &spec);
    struct request request = { .kind = REQUEST_MODEL_HOLD, .model = "m" };
    cr_assert_eq(world_call(world, &request).code, BATON_INVALID_ARGUMENT);
    cr_assert_eq(world_publish(world, "m"), 2);
    request.options.reason = "freeze";
    struct baton_status st = world_call(world, &request);
    cr_assert(baton_ok(&st), "%s", st.message);
    world_play(world);
    cr_assert_eq(on(world, 2), 2);
    cr_assert_eq(world_publish(world, "m"), 3);
    restart(world);
    cr_assert_eq(on(world, 2), 2);
    cr_assert_eq(world_blocked(world, "g0"), BLOCKED_MODEL_HELD);
    must(world, REQUEST_MODEL_RESUME);
    world_play(world);
    cr_assert_eq(on(world, 3), 2);
    world_free(world);
}

static void refuse(struct world *world, const struct policy_spec *spec, const char *field)
{
    struct baton_status st = world_apply(world, "m", spec);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT, "%s was taken", field);
    cr_assert_str_eq(world->reply.field, field);
}

/* What does not fit together is refused by field. */
Test(canary, policy_refusals)
{
    static const char *const none[] = { "none" };
    struct world *world = world_new();
    struct policy_spec spec = { .trigger = "Interval" };
    refuse(world, &spec, "spec.update.every.n");
    spec = (struct policy_spec){ .roll.every_n = 3 };
    refuse(world, &spec, "spec.update.every");
    spec = (struct policy_spec){ .roll.order = "g0,,g1" };
    refuse(world, &spec, "spec.update.order");
    spec = (struct policy_spec){ .roll.progress_action = "explode" };
    refuse(world, &spec, "spec.update.progressAction");
    spec = (struct policy_spec){ .progress_deadline_ms = 1000, .roll.soak_ms = 1000 };
    refuse(world, &spec, "spec.update.soak");
    struct canary_spec step = { .groups = "0" };
    spec = with_steps(&step, 1);
    refuse(world, &spec, "spec.update.canary.groups");
    step = (struct canary_spec){ .groups = "1", .checks = none, .checks_count = 1 };
    refuse(world, &spec, "spec.update.canary.checks");
    struct check_spec check = { .name = "c", .kind = "Metric" };
    spec = with_metric(&step, &check);
    refuse(world, &spec, "spec.update.checks.compare");
    check = (struct check_spec){ .name = "c", .kind = "Change" };
    refuse(world, &spec, "spec.update.checks.maxChange");
    check.max_change = -1;
    refuse(world, &spec, "spec.update.checks.maxChange");
    check = (struct check_spec){ .name = "c", .kind = "Manual" };
    step.checks_count = 0;
    refuse(world, &spec, "spec.update.checks");
    world_free(world);
}
