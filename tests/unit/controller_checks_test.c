/* controller_checks_test.c -- checks of what the source saw in a version's values, and the refusal of
 * weights that are not finite. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/controller_world.h"

/* Two groups that serve version 1; the next ones go to one group first, under the check. */
static struct world *serving(const struct check_spec *check)
{
    static const char *names[1];
    static struct canary_spec step;
    names[0] = check->name;
    step = (struct canary_spec){ .groups = "1", .checks = names, .checks_count = 1 };
    struct policy_spec spec = { .max_unavailable = "2" };
    spec.roll.canary = &step;
    spec.roll.canary_count = 1;
    spec.roll.checks = check;
    spec.roll.checks_count = 1;
    struct world *world = world_new();
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(world_publish(world, "m"), 1);
    world_fleet(world, "m", 2);
    world_play(world);
    return world;
}

static void restart(struct world *world)
{
    world_restart(world);
    for (uint32_t i = 0; i < world->agents_count; i++) {
        cr_assert(world_connect(world, &world->agents[i]));
    }
    world_play(world);
}

static void expect_serving(struct world *world, uint64_t seq)
{
    world_play(world);
    cr_assert(world_committed(world, "g0") == seq && world_committed(world, "g1") == seq);
}

/* Publishes the next version with these values; what came of the seal. */
static struct baton_status publish_with(struct world *world, const struct version_values *values)
{
    char uid[BATON_UID_TEXT_BYTES];
    struct baton_status st = world_seal_values(world, "m", values, uid);
    return baton_ok(&st) ? world_publish_uid(world, uid, NULL) : st;
}

static const struct version_values changed_well = {
    .compared = true,
    .base_seq = 1,
    .changed = 9,
    .unchanged = 1,
    .largest_count = 1,
    .largest = { { "up.weight", 0.25 } },
};

/* A change within its bounds passes by itself; one that exploded names the tensor, and the same
 * weights again are found too. */
Test(checks, change_check)
{
    const struct check_spec check = {
        .name = "delta", .kind = "Change", .max_change = 0.5, .min_changed = 2
    };
    struct world *world = serving(&check);
    struct baton_status st = publish_with(world, &changed_well);
    cr_assert(baton_ok(&st), "%s", st.message);
    expect_serving(world, 2);

    struct version_values values = changed_well;
    values.largest[0].change = 60;
    st = publish_with(world, &values);
    cr_assert(baton_ok(&st), "%s", st.message);
    world_play(world);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_CHECK_FAILED);
    const struct check_record *record = &world_roll(world, "m", 0)->checks[0];
    cr_assert_not_null(strstr(record->message, "up.weight"), "%s", record->message);
    cr_assert_eq(record->value, 60);
    restart(world);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_CHECK_FAILED);
    struct request told = { .kind = REQUEST_ROLL_REPORT_CHECK, .model = "m" };
    told.body.check =
        (struct request_report_check){ .check = "delta", .verdict = CHECK_STATE_PASSED };
    cr_assert_eq(world_call(world, &told).code, BATON_INVALID_ARGUMENT);

    values = (struct version_values){ .compared = true, .base_seq = 3, .unchanged = 10 };
    st = publish_with(world, &values);
    cr_assert(baton_ok(&st), "%s", st.message);
    world_play(world);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_CHECK_FAILED, "nothing was trained");
    world_free(world);
}

/* What was not compared is never passed silently: it waits, with the reason, for Promote. */
Test(checks, change_check_without_a_comparison)
{
    const struct check_spec check = { .name = "delta", .kind = "Change", .min_changed = 1 };
    struct world *world = serving(&check);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_CHECK_PENDING);
    cr_assert_not_null(strstr(world_roll(world, "m", 0)->checks[0].message, "not compared"));
    struct baton_status st = world_verb(world, REQUEST_ROLL_PROMOTE, "m", 0);
    cr_assert(baton_ok(&st), "%s", st.message);
    expect_serving(world, 2);
    world_free(world);
}

/* Weights that are not finite become no version, unless the policy lets them. */
Test(checks, non_finite_weights)
{
    const struct version_values bad = {
        .nans = 3, .infs = 1, .bad_tensors = 2, .first_bad = "down.weight"
    };
    const struct check_spec check = { .name = "delta", .kind = "Change", .min_changed = 1 };
    struct policy_spec spec = { .non_finite = "allow" };
    struct world *world = serving(&check);
    struct baton_status st = publish_with(world, &bad);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION);
    cr_assert_eq(st.reason, BATON_REASON_NON_FINITE);
    cr_assert_not_null(strstr(st.message, "down.weight"), "%s", st.message);
    cr_assert_eq(view_model_find(world->core, "m")->newest_seq, 1);
    st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = publish_with(world, &bad);
    cr_assert(baton_ok(&st), "%s", st.message);
    restart(world);
    cr_assert_eq(view_version_find(world->core, "m", 2)->values.nans, 3);
    cr_assert(view_version_find(world->core, "m", 2)->values.scanned);
    world_free(world);
}

/* --- queries --- */

static void measure(struct world *world, bool answered, double value, const char *why)
{
    struct event event = { .kind = EVENT_METRIC };
    event.body.metric = (struct metric_answer){
        .model = "m",
        .roll = view_model_find(world->core, "m")->active_roll,
        .check = "fast",
        .answered = answered,
        .value = value,
        .why = why,
    };
    world_step(world, &event);
}

static size_t asked(const struct world *world)
{
    struct metric_query queries[4];
    size_t count = view_metric_queries(world->core, queries, 4);
    cr_assert(count == 0 || strcmp(queries[0].query, "max(ttft)") == 0);
    return count;
}

static const struct check_spec fast = { .name = "fast",
                                        .kind = "Metric",
                                        .compare = "<",
                                        .threshold = 1,
                                        .window_ms = 30000,
                                        .query = "max(ttft)" };

/* Asked from the step's soak on; silence is no verdict, tells why, and begins the window anew. */
Test(checks, query_passes_after_its_window)
{
    struct world *world = serving(&fast);
    cr_assert_eq(asked(world), 0, "no roll");
    cr_assert_eq(world_publish(world, "m"), 2);
    cr_assert_eq(asked(world), 0, "its groups do not serve yet");
    world_play(world);
    cr_assert_eq(asked(world), 1);
    measure(world, false, 0, "no answer");
    world_pass(world, 60 * SEC);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_CHECK_PENDING);
    const struct check_record *record = &world_roll(world, "m", 0)->checks[0];
    cr_assert_str_eq(record->message, "no verdict yet: no answer");
    measure(world, true, 0.5, NULL);
    world_pass(world, 20 * SEC);
    measure(world, false, 0, "no answer");
    restart(world);
    world_pass(world, 20 * SEC);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_CHECK_PENDING, "the window was broken");
    measure(world, true, 0.7, NULL);
    world_pass(world, 31 * SEC);
    expect_serving(world, 2);
    cr_assert_eq(asked(world), 0);
    measure(world, true, 5, NULL); /* Too late to matter. */
    expect_serving(world, 2);
    world_free(world);
}

/* A number that breaks the threshold stops the roll, and its recovery does not restart it by itself. */
Test(checks, query_fails_until_a_person_says_otherwise)
{
    struct world *world = serving(&fast);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    measure(world, true, 2.5, NULL);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_CHECK_FAILED);
    cr_assert_eq(asked(world), 0);
    measure(world, true, 0.1, NULL);
    world_pass(world, 60 * SEC);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_CHECK_FAILED);
    struct request told = { .kind = REQUEST_ROLL_REPORT_CHECK, .model = "m" };
    told.body.check = (struct request_report_check){ .check = "fast", .value = 0.2 };
    struct baton_status st = world_call(world, &told);
    cr_assert(baton_ok(&st), "%s", st.message);
    world_pass(world, 31 * SEC);
    expect_serving(world, 2);
    world_free(world);
}

/* An answer for another roll, another check or a model that is gone changes nothing. */
Test(checks, query_of_another_roll)
{
    struct world *world = serving(&fast);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    struct event event = { .kind = EVENT_METRIC };
    event.body.metric = (struct metric_answer){
        .model = "m", .roll = 1, .check = "fast", .answered = true, .value = 9
    };
    world_step(world, &event);
    event.body.metric.model = "nobody";
    world_step(world, &event);
    event.body.metric.model = "m";
    event.body.metric.roll = view_model_find(world->core, "m")->active_roll;
    event.body.metric.check = "slow";
    world_step(world, &event);
    event.body.metric.check = "fast";
    event.body.metric.step = 1; /* It has one: 0. */
    world_step(world, &event);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_CHECK_PENDING);
    world_free(world);
}

Test(checks, query_refusals)
{
    struct world *world = serving(&fast);
    struct check_spec check = { .name = "c", .kind = "Probe", .query = "up" };
    struct policy_spec spec = { .roll = { .checks = &check, .checks_count = 1 } };
    cr_assert_eq(world_apply(world, "m", &spec).code, BATON_INVALID_ARGUMENT);
    cr_assert_str_eq(world->reply.field, "spec.update.checks.query");
    char longer[BATON_QUERY_BYTES + 1];
    memset(longer, 'x', BATON_QUERY_BYTES);
    longer[BATON_QUERY_BYTES] = '\0';
    check = fast;
    check.query = longer;
    cr_assert_eq(world_apply(world, "m", &spec).code, BATON_INVALID_ARGUMENT);
    cr_assert_str_eq(world->reply.field, "spec.update.checks.query");
    world_free(world);
}

/* --- references --- */

static void swap_with_references(struct world *world, const char *group, uint32_t missed)
{
    struct played_group *played = world_group(world, group);
    struct played_agent *agent = world_agent(world, world_record(world, group)->agent);
    cr_assert(played->has_ticket, "%s has no ticket", group);
    struct ticket_outcome outcome = world_outcome(played, SWAP_OUTCOME_COMMITTED);
    strcpy(outcome.record.probe_text, "hello");
    outcome.record.references = 2;
    outcome.record.references_missed = missed;
    outcome.record.reference_away = missed > 0 ? 3 : 0.01;
    strcpy(outcome.record.reference_message, missed > 0 ? "reference 1, token 0: far" : "");
    outcome.record.verify_level = VERIFY_LEVEL_LANDED;
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
    static const struct check_spec same = { .name = "same", .kind = "Probe", .tolerance = 0.01 };
    struct world *world = serving(&same);
    cr_assert_eq(world_publish(world, "m"), 2);
    for (uint32_t i = 0; i < 2; i++) {
        world_report(world, &world->agents[i], NULL, 0);
        world->agents[i].by_hand = true;
    }
    return world;
}

/* The trainer's references stand in for a group that was verified resident. */
Test(checks, references_that_hold_pass_a_probe)
{
    struct world *world = probed();
    swap_with_references(world, "g0", 0);
    cr_assert_str_eq(world_roll(world, "m", 0)->checks[0].name, "");
    swap_with_references(world, "g1", 0);
    cr_assert_eq(world_roll(world, "m", 0)->state, ROLL_STATE_COMPLETED);
    world_free(world);
}

Test(checks, a_missed_reference_fails_a_probe)
{
    struct world *world = probed();
    swap_with_references(world, "g0", 1);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_CHECK_FAILED);
    const struct check_record *record = &world_roll(world, "m", 0)->checks[0];
    cr_assert_str_eq(record->message, "group g0: reference 1, token 0: far");
    cr_assert_eq(record->value, 3);
    restart(world);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_CHECK_FAILED);
    world_free(world);
}
