/* controller_staleness_test.c -- staleness of a fleet: stories, and random worlds in which the numbers that are kept
 * up to date must equal a recomputation from groups and parents.  Also: who is ready for which query. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/random.h"
#include "controller/core/admission.h"
#include "controller/core/staleness.h"
#include "tests/unit/controller_world.h"

/* --- a recomputation that shares nothing with the product --- */

enum { NAIVE_GROUPS = 32 };

struct naive {
    uint32_t groups, current, behind, unrelated, without, ready;
    uint64_t lags[NAIVE_GROUPS];
    uint32_t lags_count;
};

/* As seen when they were published: records are pruned. */
static uint64_t parents[512];

static void see_parents(const struct world *world)
{
    for (uint32_t i = 0; i < view_versions_count(world->core); i++) {
        const struct version_record *version = view_version_at(world->core, i);
        parents[version->seq] = version->parent_seq;
    }
}

static bool naive_distance(uint64_t served, uint64_t head, uint64_t *out)
{
    *out = 0;
    for (uint64_t at = head; at != 0; at = parents[at]) {
        if (at == served) {
            return true;
        }
        *out += 1;
    }
    return false;
}

static bool naive_ready(const struct world *world, const struct group_record *group)
{
    struct group_status status;
    view_group_status(world->core, group, world->wall_ns, &status);
    const struct group_report *report = status.report;
    bool open = report != NULL && report->gate_open &&
                (report->state == GROUP_STATE_SERVING || report->state == GROUP_STATE_STAGING ||
                 report->state == GROUP_STATE_STAGED || report->state == GROUP_STATE_STAGE_FAILED);
    return open && !group->ticket_open && report->committed_seq != 0 && report->engines_count > 0 &&
           report->engines[0].reachable && report->verify_level != VERIFY_LEVEL_NONE;
}

static int by_lag(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static struct naive recompute(const struct world *world)
{
    struct naive out = { 0 };
    const struct model_record *model = view_model_find(world->core, "m");
    for (uint32_t i = 0; i < view_groups_count(world->core); i++) {
        const struct group_record *group = view_group_at(world->core, i);
        uint64_t lag = 0;
        uint64_t seq = world_committed(world, group->name);
        out.groups++;
        out.ready += naive_ready(world, group);
        if (seq == 0) {
            out.without++;
        } else if (!naive_distance(seq, model->newest_seq, &lag)) {
            out.unrelated++;
        } else {
            out.current += lag == 0;
            out.behind += lag > 0;
            out.lags[out.lags_count++] = lag;
        }
    }
    qsort(out.lags, out.lags_count, sizeof(out.lags[0]), by_lag);
    return out;
}

static uint64_t naive_percentile(const struct naive *naive, uint32_t percent)
{
    uint32_t rank = (naive->lags_count * percent + 99) / 100;
    return naive->lags[rank - 1];
}

static void compare(struct world *world, void *context)
{
    (void)context;
    const struct model_record *model = view_model_find(world->core, "m");
    if (!view_is_started(world->core) || model == NULL) {
        return;
    }
    see_parents(world);
    struct naive naive = recompute(world);
    struct staleness_summary summary;
    view_staleness_summary(world->core, model, world->wall_ns, &summary);
    const struct lag_statistics *lag = &summary.lags[LAG_PUBLISHES];
    cr_assert_eq(summary.groups, naive.groups);
    cr_assert_eq(summary.groups_current, naive.current);
    cr_assert_eq(summary.groups_behind, naive.behind);
    cr_assert_eq(summary.groups_unrelated, naive.unrelated);
    cr_assert_eq(summary.groups_without_version, naive.without);
    cr_assert_eq(lag->groups, naive.lags_count);
    if (naive.lags_count > 0) {
        cr_assert_eq(lag->max, naive.lags[naive.lags_count - 1]);
        cr_assert_eq(lag->p50, naive_percentile(&naive, 50));
        cr_assert_eq(lag->p90, naive_percentile(&naive, 90));
        cr_assert_eq(lag->p99, naive_percentile(&naive, 99));
    }
    struct admission_query any = { .model = "m" };
    cr_assert_eq(view_admission_count(world->core, &any), naive.ready);
}

/* --- the world --- */

static void make_routable(struct world *world)
{
    for (uint32_t i = 0; i < world->agents_count; i++) {
        for (uint32_t k = 0; k < world->agents[i].groups_count; k++) {
            struct played_group *group = &world->agents[i].groups[k];
            group->engine.reachable = true;
            group->report.verify_level = VERIFY_LEVEL_RESIDENT;
        }
    }
}

static struct world *start(const struct policy_spec *spec, uint32_t groups)
{
    struct world *world = world_new();
    memset(parents, 0, sizeof(parents));
    struct baton_status st = world_apply(world, "m", spec);
    cr_assert(baton_ok(&st), "%s", st.message);
    world->after_step = compare;
    cr_assert_eq(world_publish(world, "m"), 1);
    world_fleet(world, "m", groups);
    make_routable(world);
    world_play(world);
    for (uint32_t i = 0; i < world->agents_count; i++) {
        world_report(world, &world->agents[i], NULL, 0);
    }
    return world;
}

static struct staleness_summary summary_of(const struct world *world)
{
    struct staleness_summary summary;
    view_staleness_summary(world->core, view_model_find(world->core, "m"), world->wall_ns,
                           &summary);
    return summary;
}

/* Publishes a version whose parent is 'parent' and whose step is 'step'. */
static uint64_t publish_from(struct world *world, uint64_t parent, uint64_t step)
{
    static uint64_t contents = 1 << 20;
    char digest[BATON_DIGEST_TEXT_BYTES], uid[BATON_UID_TEXT_BYTES];
    (void)snprintf(digest, sizeof(digest), "%032llx", (unsigned long long)++contents);
    struct request open = { .kind = REQUEST_VERSION_OPEN, .model = "m" };
    open.body.open.parent_seq = parent;
    open.body.open.optimizer_step = step;
    open.body.open.samples_trained = step * 100;
    struct baton_status st = world_call(world, &open);
    cr_assert(baton_ok(&st), "%s", st.message);
    memcpy(uid, world->reply.object.uid, sizeof(uid));
    struct request manifest = { .kind = REQUEST_VERSION_MANIFEST, .version_uid = uid };
    manifest.body.manifest = (struct request_version_manifest){ .digest = digest, .tensors = 1 };
    st = world_call(world, &manifest);
    cr_assert(baton_ok(&st));
    struct request seal = { .kind = REQUEST_VERSION_SEAL, .version_uid = uid };
    seal.body.seal = (struct request_version_seal){ .digest = digest, .bytes = 10 };
    st = world_call(world, &seal);
    cr_assert(baton_ok(&st));
    st = world_publish_uid(world, uid, NULL);
    return baton_ok(&st) ? view_version_find_uid(world->core, uid)->seq : 0;
}

/* --- stories --- */

Test(staleness, rises_with_a_publish_and_falls_with_a_swap)
{
    struct policy_spec spec = { .max_unavailable = "1", .trigger = "Manual" };
    struct world *world = start(&spec, 4);
    (void)world_verb(world, REQUEST_ROLL_START, "m", 0);
    world_play(world);
    cr_assert_eq(summary_of(world).groups_current, 4);
    world_pass(world, 7 * SEC);
    cr_assert_eq(publish_from(world, 0, 20), 2);
    world_pass(world, 5 * SEC);
    cr_assert_eq(publish_from(world, 0, 30), 3);
    struct staleness_summary summary = summary_of(world);
    cr_assert_eq(summary.groups_behind, 4);
    cr_assert_eq(summary.lags[LAG_PUBLISHES].max, 2);
    cr_assert_eq(summary.lags[LAG_SECONDS].max, 12, "from its publish to the newest one's");
    cr_assert_eq(summary.lags[LAG_OPTIMIZER_STEPS].groups, 0, "version 1 named no step");
    world_pass(world, 100 * SEC);
    summary = summary_of(world);
    cr_assert_eq(summary.lags[LAG_SECONDS].max, 12, "lag waits for publishes");
    cr_assert_eq(summary.age.max, 112, "age does not");
    (void)world_verb(world, REQUEST_ROLL_START, "m", 2);
    world_play(world);
    summary = summary_of(world);
    cr_assert_eq(summary.lags[LAG_PUBLISHES].max, 1);
    cr_assert_eq(summary.lags[LAG_OPTIMIZER_STEPS].max, 10);
    cr_assert_eq(summary.lags[LAG_SAMPLES].p50, 1000);
    world_restart(world);
    summary = summary_of(world);
    cr_assert_eq(summary.groups_unknown, 4);
    cr_assert_eq(summary.lags[LAG_PUBLISHES].max, 1, "by what they committed, as stored");
    world_free(world);
}

/* After an undo the next publish branches off: who stayed on the undone version is unrelated, and
 * goes first when the roll begins. */
Test(staleness, of_an_undone_branch)
{
    struct policy_spec spec = { .max_unavailable = "1" };
    struct world *world = start(&spec, 3);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    cr_assert_eq(world_publish(world, "m"), 3);
    world_play(world);
    struct baton_status st = world_verb(world, REQUEST_ROLL_UNDO, "m", 0);
    cr_assert(baton_ok(&st), "%s", st.message);
    world_report(world, world_agent(world, "a0"), NULL, 0);
    const struct staleness_record *record =
        view_staleness_record(world->core, view_model_find(world->core, "m"));
    cr_assert(lineage_is_undone(&record->lineage, 3));
    cr_assert_eq(publish_from(world, 2, 0), 4);
    struct staleness_summary summary = summary_of(world);
    cr_assert_eq(summary.groups_unrelated, 3, "all serve 3, and 4 came from 2");
    world_play(world); /* The undo's roll goes on. */
    summary = summary_of(world);
    cr_assert_eq(summary.lags[LAG_PUBLISHES].max, 1, "from 2 to 4 it is one publish, not two");
    cr_assert_eq(summary.groups_behind, 3);
    (void)world_verb(world, REQUEST_MODEL_RESUME, "m", 0);
    st = world_verb(world, REQUEST_ROLL_START, "m", 3);
    cr_assert_not(lineage_is_undone(&record->lineage, 3), "an operator wants it after all: %s",
                  st.message);
    world_free(world);
}

Test(staleness, limits_degrade_and_are_checked)
{
    struct policy_spec spec = { .trigger = "Manual",
                                .staleness_bounded = true,
                                .staleness_bound = 1,
                                .staleness_warned = true,
                                .staleness_warn = 0 };
    struct world *world = start(&spec, 2);
    (void)world_verb(world, REQUEST_ROLL_START, "m", 0);
    world_play(world);
    struct model_status status;
    const struct model_record *model = view_model_find(world->core, "m");
    cr_assert_eq(world_publish(world, "m"), 2);
    cr_assert_eq(summary_of(world).groups_over_warn, 2);
    cr_assert_eq(summary_of(world).groups_over_bound, 0);
    view_model_status(world->core, model, world->wall_ns, &status);
    cr_assert_str_eq(status.conditions.degraded.status, "False");
    cr_assert_eq(world_publish(world, "m"), 3);
    cr_assert_eq(summary_of(world).groups_over_bound, 2);
    view_model_status(world->core, model, world->wall_ns, &status);
    cr_assert_str_eq(status.conditions.degraded.status, "True");
    cr_assert_str_eq(status.conditions.degraded.reason, "StalenessBoundExceeded");
    struct group_status group;
    view_group_status(world->core, world_record(world, "g0"), world->wall_ns, &group);
    cr_assert_str_eq(group.conditions.degraded.reason, "StalenessBoundExceeded");
    spec.staleness_warn = 2;
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    cr_assert_str_eq(world->reply.field, "spec.update.staleness.warn");
    spec.staleness_unit = "Furlongs";
    st = world_apply(world, "m", &spec);
    cr_assert_str_eq(world->reply.field, "spec.update.staleness.unit");
    world_free(world);
}

Test(staleness, histogram_counts_each_group_once)
{
    struct policy_spec spec = { .trigger = "Manual" };
    struct world *world = start(&spec, 3);
    for (uint64_t seq = 2; seq <= 6; seq++) {
        cr_assert_eq(world_publish(world, "m"), seq);
    }
    (void)world_verb(world, REQUEST_ROLL_START, "m", 1);
    world_play(world);
    struct lag_histogram histogram;
    view_staleness_histogram(world->core, view_model_find(world->core, "m"), LAG_PUBLISHES,
                             &histogram);
    cr_assert_eq(histogram.groups[lag_bucket(LAG_PUBLISHES, 5)], 3);
    cr_assert_eq(histogram.edges[lag_bucket(LAG_PUBLISHES, 5)], 4);
    view_staleness_histogram(world->core, view_model_find(world->core, "m"), LAG_SAMPLES,
                             &histogram);
    cr_assert_eq(histogram.groups_unmeasured, 3, "no version named its samples");
    cr_assert_eq(lag_bucket(LAG_SECONDS, UINT64_MAX), LAG_BUCKETS - 1);
    cr_assert_eq(lag_bucket(LAG_SECONDS, 0), 0);
    world_free(world);
}

/* --- admission --- */

static uint32_t ready(const struct world *world, const struct admission_query *query)
{
    return view_admission_count(world->core, query);
}

Test(admission, gives_ready_groups_and_never_an_older_version)
{
    struct policy_spec spec = { .max_unavailable = "1" };
    struct world *world = start(&spec, 2);
    struct admission_query any = { .model = "m" };
    struct admission_query second = { .model = "m", .exact_seq = 2 };
    struct admission_query least = { .model = "m", .min_seq = 2 };
    struct admission_query fresh = { .model = "m", .has_max_lag = true, .unit = LAG_PUBLISHES };
    cr_assert_eq(ready(world, &any), 2);
    cr_assert_eq(ready(world, &fresh), 2);
    world_agent(world, "a0")->by_hand = true;
    world_agent(world, "a1")->by_hand = true;
    cr_assert_eq(world_publish(world, "m"), 2);
    cr_assert_eq(ready(world, &fresh), 0, "both serve 1 now that 2 is out");
    cr_assert_eq(ready(world, &second), 0);
    uint64_t retry_ns = 1;
    struct baton_status st = view_admission_refusal(world->core, &second, &retry_ns);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION);
    cr_assert_eq(st.reason, BATON_REASON_VERSION_NOT_READY);
    cr_assert_eq(retry_ns, 0, "no swap was measured yet: no estimate is invented");
    struct played_group *g0 = world_group(world, "g0");
    g0->report.state = GROUP_STATE_STAGED;
    g0->report.staging_seq = 2;
    g0->report.staged_bytes = 1000;
    g0->report.can_restore = true;
    world_report(world, world_agent(world, "a0"), NULL, 0);
    cr_assert(g0->has_ticket);
    cr_assert_eq(ready(world, &any), 1, "its leader may commit before we hear of it");
    world_finish(world, "g0", SWAP_OUTCOME_COMMITTED);
    cr_assert_eq(ready(world, &second), 1);
    cr_assert_eq(ready(world, &least), 1);
    cr_assert_eq(ready(world, &any), 2);
    cr_assert_eq(view_admission_next(world->core, &any, UINT64_MAX), 2, "newest first");
    cr_assert_eq(view_admission_next(world->core, &any, 2), 1);
    cr_assert_eq(view_admission_next(world->core, &any, 1), 0);
    g0->engine.reachable = false;
    world_report(world, world_agent(world, "a0"), NULL, 0);
    cr_assert_eq(ready(world, &second), 0, "an engine that is not reachable takes no request");
    world_free(world);
}

Test(admission, refuses_queries_by_field)
{
    struct world *world = start(NULL, 1);
    const char *field = NULL;
    struct admission_query query = { .model = "m", .exact_seq = 1, .min_seq = 1 };
    struct baton_status st = view_admission_check(world->core, &query, &field);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    cr_assert_str_eq(field, "exact_seq");
    query = (struct admission_query){ .model = "m", .has_max_lag = true, .unit = LAG_UNITS_END };
    st = view_admission_check(world->core, &query, &field);
    cr_assert_str_eq(field, "max_lag.unit");
    query = (struct admission_query){ .model = "other" };
    st = view_admission_check(world->core, &query, &field);
    cr_assert_eq(st.code, BATON_NOT_FOUND);
    world_free(world);
}

/* --- random worlds --- */

static void fate(struct world *world, struct baton_random *random)
{
    struct played_agent *agent = &world->agents[baton_random_below(random, world->agents_count)];
    const struct model_record *model = view_model_find(world->core, "m");
    uint64_t dice = baton_random_below(random, 100);
    if (dice < 15) {
        uint64_t parent = baton_random_below(random, 3) == 0 ? model->promoted_seq : 0;
        (void)publish_from(world, parent, 10 * model->newest_seq + 10);
    } else if (dice < 25) {
        (void)world_verb(world, dice < 20 ? REQUEST_ROLL_UNDO : REQUEST_MODEL_RESUME, "m", 0);
    } else if (dice < 55 && agent->session != 0) {
        world_report(world, agent, NULL, 0);
    } else if (dice < 65) {
        world_play(world);
    } else if (dice < 72) {
        (void)world_connect(world, agent);
    } else if (dice < 76 && agent->session != 0) {
        world_disconnect(world, agent);
    } else if (dice < 80) {
        world_pass_silent(world, 11 * SEC);
    } else if (dice < 85 && agent->session != 0 && !agent->groups[0].has_ticket) {
        agent->groups[0].report.state = GROUP_STATE_OUT;
        agent->groups[0].report.gate_open = false;
        world_report(world, agent, NULL, 0);
    } else if (dice < 88) {
        world_restart(world);
    } else if (dice < 92) {
        agent->groups[0].engine.reachable = !agent->groups[0].engine.reachable;
    } else {
        world_pass(world, baton_random_below(random, 5 * SEC));
    }
}

Test(staleness, equals_a_recomputation_in_random_worlds, .timeout = 120)
{
    for (uint64_t seed = 1; seed <= 25; seed++) {
        struct baton_random random;
        struct policy_spec spec = { .max_unavailable = "2" };
        baton_random_seed(&random, seed);
        struct world *world = start(&spec, 5);
        world->check_every = 7;
        for (int step = 0; step < 150; step++) {
            fate(world, &random);
        }
        world_free(world);
    }
}
