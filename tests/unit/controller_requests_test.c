/* controller_requests_test.c -- applies, publishes, request ids, revisions, limits: what is refused
 * and how, and that a retried or raced call does what it should exactly once. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/controller_world.h"

static struct world *with_model(void)
{
    struct world *world = world_new();
    struct baton_status st = world_apply(world, "m", NULL);
    cr_assert(baton_ok(&st), "%s", st.message);
    return world;
}

/* What is not given takes the documented default. */
Test(requests, policy_defaults)
{
    struct world *world = with_model();
    const struct update_policy *policy = &view_model_find(world->core, "m")->policy;
    cr_assert_eq(policy->trigger, POLICY_TRIGGER_ON_PUBLISH);
    cr_assert_eq(policy->strategy, POLICY_STRATEGY_ROLLING);
    cr_assert_eq(policy->max_unavailable, 25);
    cr_assert(policy->max_unavailable_is_percent);
    cr_assert_eq(policy->progress_deadline_ms, 600000);
    cr_assert_eq(policy->swap.in_flight, POLICY_IN_FLIGHT_KEEP);
    cr_assert_eq(policy->swap.arrivals, POLICY_ARRIVALS_HOLD);
    cr_assert_eq(policy->swap.swap_deadline_ms, 60000);
    cr_assert_eq(policy->swap.drain_deadline_ms, 30000);
    cr_assert_not(policy->swap.allow_recreate);
    world_free(world);
}

struct bad_policy {
    struct policy_spec spec;
    const char *field;
    const char *says;
};

/* A word that is not supported is refused by field, with the words that are. */
Test(requests, policy_words_are_refused_by_name)
{
    static const struct bad_policy rows[] = {
        { { .trigger = "Sometimes" }, "spec.update.trigger", "\"Interval\" or \"MaxLag\"" },
        { { .trigger = "onpublish" }, "spec.update.trigger", "OnPublish" },
        { { .strategy = "barrier" }, "spec.update.strategy", "\"Rolling\" or \"Barrier\"" },
        { { .max_unavailable = "0" }, "spec.update.maxUnavailable", "at least 1" },
        { { .max_unavailable = "0%" }, "spec.update.maxUnavailable", "at least 1" },
        { { .max_unavailable = "101%" }, "spec.update.maxUnavailable", "100%" },
        { { .max_unavailable = "-1" }, "spec.update.maxUnavailable", "-1" },
        { { .max_unavailable = "many" }, "spec.update.maxUnavailable", "many" },
        { { .max_unavailable = "%" }, "spec.update.maxUnavailable", "%" },
        { { .max_unavailable = "9999999" }, "spec.update.maxUnavailable", "9999999" },
        { { .in_flight = "drain" }, "spec.update.inFlight", "\"keep\", \"wait\" or \"abort\"" },
        { { .kv = "melt" }, "spec.update.kv", "\"flush\", \"salt\" or \"keep\"" },
        { { .kv = "keep", .in_flight = "wait" }, "spec.update.kv", "inFlight \"keep\"" },
        { { .kv = "salt" }, "spec.update.kv", "inFlight \"wait\" or \"abort\"" },
        { { .kv = "salt", .in_flight = "wait", .drain_expiry = "keep" }, "spec.update.kv", "keep" },
        { { .drain_expiry = "stop" }, "spec.update.drainExpiry", "\"giveUp\", \"abort\"" },
        { { .in_flight = "wait", .drain_expiry = "abort", .swap_deadline_ms = 1000 },
          "spec.update.drainDeadline",
          "below swapDeadline" },
        { { .swap_mode = "hot" }, "spec.update.swapMode", "\"pause\" or \"live\"" },
        { { .swap_mode = "live" }, "spec.update.swapMode", "kv \"keep\" only" },
        { { .swap_mode = "live", .in_flight = "wait" }, "spec.update.swapMode", "inFlight" },
        { { .swap_mode = "live", .kv = "keep", .strategy = "Barrier" },
          "spec.update.swapMode",
          "Barrier" },
        { { .arrivals = "drop" }, "spec.update.arrivals", "\"hold\" or \"refuse\"" },
        { { .swap_deadline_ms = -5 }, "spec.update.swapDeadline", "-5 ms" },
        { { .drain_deadline_ms = 1 }, "spec.update.drainDeadline", "100 ms" },
        { { .progress_deadline_ms = 90000000 }, "spec.update.progressDeadline", "24 h" },
    };
    struct world *world = with_model();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct baton_status st = world_apply(world, "m", &rows[i].spec);
        cr_assert_eq(st.code, BATON_INVALID_ARGUMENT, "row %zu", i);
        cr_assert_eq(st.reason, BATON_REASON_BAD_FIELD);
        cr_assert_str_eq(world->reply.field, rows[i].field);
        cr_assert_not_null(strstr(st.message, rows[i].says), "row %zu: %s", i, st.message);
    }
    cr_assert_eq(view_model_find(world->core, "m")->generation, 1);
    world_free(world);
}

/* Hooks are parsed one by one, kept in their order, and copied into each ticket. */
Test(requests, hooks)
{
    static const struct policy_hook_spec good[] = {
        { "beforePause", "http://router:8080/drain", 500 },
        { "afterProbe", "https://router:8080/open", 0 },
    };
    static const struct {
        struct policy_hook_spec hook;
        const char *field;
    } bad[] = {
        { { NULL, "http://r/x", 0 }, "spec.update.hooks.when" },
        { { "later", "http://r/x", 0 }, "spec.update.hooks.when" },
        { { "afterProbe", "ftp://r/x", 0 }, "spec.update.hooks.url" },
        { { "afterProbe", NULL, 0 }, "spec.update.hooks.url" },
        { { "afterProbe", "http://r/x", 1 }, "spec.update.hooks.deadline" },
    };
    struct world *world = with_model();
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct policy_spec spec = { .hooks = &bad[i].hook, .hooks_count = 1 };
        struct baton_status st = world_apply(world, "m", &spec);
        cr_assert_eq(st.code, BATON_INVALID_ARGUMENT, "row %zu", i);
        cr_assert_str_eq(world->reply.field, bad[i].field);
    }
    /* More are refused before they are looked at: the caller has room for so many only. */
    static const struct policy_hook_spec most[BATON_HOOKS_MAX];
    struct request many = { .kind = REQUEST_MODEL_APPLY, .model = "m" };
    many.body.apply = (struct policy_spec){ .hooks = most, .hooks_count = BATON_HOOKS_MAX + 1 };
    many.options.request_id = "apply-1";
    struct baton_status st = world_call(world, &many);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    cr_assert_str_eq(world->reply.field, "spec.update.hooks");
    struct policy_spec spec = { .hooks = good, .hooks_count = 2 };
    st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(view_model_find(world->core, "m")->generation, 2);
    st = world_apply(world, "m", &spec);
    cr_assert_eq(view_model_find(world->core, "m")->generation, 2, "nothing changed");
    const struct swap_policy *swap = &view_model_find(world->core, "m")->policy.swap;
    cr_assert_eq(swap->hooks_count, 2);
    cr_assert_str_eq(swap->hooks[1].url, good[1].url);
    cr_assert_eq(swap->hooks[0].deadline_ms, 500);
    cr_assert_eq(swap->hooks[1].deadline_ms, 10000);
    world_free(world);
}

/* Names follow one rule. */
Test(requests, bad_names)
{
    static const char *const names[] = {
        "",   "M",   "a_b", "-a",
        "a-", "a/b", "a b", "a123456789a123456789a123456789a123456789a123456789a123456789a123",
        NULL,
    };
    struct world *world = world_new();
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct baton_status st = world_apply(world, names[i], NULL);
        cr_assert_eq(st.code, BATON_INVALID_ARGUMENT, "name %zu", i);
        cr_assert_str_eq(world->reply.field, "model");
    }
    struct baton_status st = world_apply(world, "qwen3-8b.grpo", NULL);
    cr_assert(baton_ok(&st));
    world_free(world);
}

/* Applying the same spec again changes nothing; another one raises the generation. */
Test(requests, apply_is_idempotent)
{
    struct world *world = with_model();
    uint32_t persists = world->persists;
    struct baton_status st = world_apply(world, "m", NULL);
    cr_assert(baton_ok(&st));
    cr_assert_eq(world->persists, persists);
    struct policy_spec spec = { .max_unavailable = "3" };
    st = world_apply(world, "m", &spec);
    cr_assert_eq(view_model_find(world->core, "m")->generation, 2);
    world_free(world);
}

/* expected_revision: the object must be as the caller saw it. */
Test(requests, stale_revision_is_aborted)
{
    struct world *world = with_model();
    uint64_t revision = view_model_find(world->core, "m")->revision;
    struct policy_spec spec = { .max_unavailable = "3" };
    struct request request = { .kind = REQUEST_MODEL_APPLY, .model = "m" };
    request.body.apply = spec;
    request.options.expected_revision = revision + 1;
    struct baton_status st = world_call(world, &request);
    cr_assert_eq(st.code, BATON_ABORTED);
    cr_assert_eq(st.reason, BATON_REASON_STALE_REVISION);
    request.options.expected_revision = revision;
    st = world_call(world, &request);
    cr_assert(baton_ok(&st));
    st = world_call(world, &request);
    cr_assert_eq(st.code, BATON_ABORTED, "it changed meanwhile");
    request.model = "other";
    st = world_call(world, &request);
    cr_assert_eq(st.code, BATON_ABORTED, "a model that does not exist has no revision");
    world_free(world);
}

/* The same request id gives the same answer and one version, also after a restart. */
Test(requests, retried_publish_yields_one_version)
{
    struct world *world = with_model();
    char uid[BATON_UID_TEXT_BYTES];
    world_seal(world, "m", uid);
    struct baton_status st = world_publish_uid(world, uid, "publish-1");
    cr_assert(baton_ok(&st));
    st = world_publish_uid(world, uid, "publish-1");
    cr_assert(baton_ok(&st));
    cr_assert_str_eq(world->reply.object.uid, uid);
    world_restart(world);
    st = world_publish_uid(world, uid, "publish-1");
    cr_assert(baton_ok(&st));
    cr_assert_eq(view_model_find(world->core, "m")->newest_seq, 1);
    cr_assert_eq(view_rolls_count(world->core), 1);
    world_free(world);
}

/* Open without a body of its own is protected too: a retry finds the version of the first try. */
Test(requests, retried_open_yields_one_version)
{
    struct world *world = with_model();
    struct request open = { .kind = REQUEST_VERSION_OPEN, .model = "m" };
    open.options.request_id = "open-1";
    struct baton_status st = world_call(world, &open);
    cr_assert(baton_ok(&st));
    struct object_ref first = world->reply.object;
    st = world_call(world, &open);
    cr_assert(baton_ok(&st));
    cr_assert_str_eq(world->reply.object.uid, first.uid);
    open.body.open.optimizer_step = 7;
    st = world_call(world, &open);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT, "same id, other content");
    cr_assert_str_eq(world->reply.field, "options.request_id");
    cr_assert_eq(view_versions_count(world->core), 1);
    world_free(world);
}

/* Else whoever repeats an id by mistake is told that a policy holds which was never stored. */
Test(requests, retried_apply_says_the_same_in_every_field)
{
    static const struct policy_hook_spec hooks[] = { { "beforePause", "http://router/drain", 500 },
                                                     { "afterProbe", "http://router/open", 500 } };
    static const struct policy_hook_spec others[] = { { "beforePause", "http://router/drain", 900 },
                                                      { "afterProbe", "http://router/open", 500 } };
    const struct policy_spec same = { .hooks = hooks, .hooks_count = 2 };
    struct policy_spec other[] = { same, same, same, same, same, same };
    other[0].barrier_quorum = "50%";
    other[1].barrier_deadline_ms = 7000;
    other[2].drain_expiry = "abort";
    other[3].swap_mode = "live";
    other[4].hooks_count = 0;
    other[5].hooks = others;
    struct world *world = world_new();
    struct request apply = { .kind = REQUEST_MODEL_APPLY, .model = "m", .body.apply = same };
    apply.options.request_id = "apply-1";
    struct baton_status st = world_call(world, &apply);
    cr_assert(baton_ok(&st), "%s", st.message);
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
        apply.body.apply = other[i];
        st = world_call(world, &apply);
        cr_assert_eq(st.code, BATON_INVALID_ARGUMENT, "policy %zu: %s", i, st.message);
        cr_assert_str_eq(world->reply.field, "options.request_id");
    }
    world_free(world);
}

/* A refused call leaves its request id free. */
Test(requests, refused_call_keeps_no_request_id)
{
    struct world *world = with_model();
    struct request start = { .kind = REQUEST_ROLL_START, .model = "m" };
    start.options.request_id = "start-1";
    struct baton_status st = world_call(world, &start);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION);
    cr_assert_eq(view_requests_count(world->core), 0);
    cr_assert_eq(world_publish(world, "m"), 1);
    st = world_call(world, &start);
    cr_assert(baton_ok(&st), "%s", st.message);
    world_free(world);
}

/* Ids are kept for 24 h, then forgotten; a full table refuses with the limit's name. */
Test(requests, ids_are_bounded_and_expire)
{
    struct world *world = with_model();
    char id[BATON_REQUEST_ID_BYTES];
    struct request suspend = { .kind = REQUEST_MODEL_SUSPEND, .model = "m" };
    suspend.options.request_id = id;
    struct baton_status st = baton_status_ok();
    for (uint32_t i = 0; i < world->limits.request_ids; i++) {
        (void)snprintf(id, sizeof(id), "id-%u", i);
        st = world_call(world, &suspend);
        cr_assert(baton_ok(&st));
    }
    (void)snprintf(id, sizeof(id), "one-more");
    st = world_call(world, &suspend);
    cr_assert_eq(st.code, BATON_RESOURCE_EXHAUSTED);
    cr_assert_eq(st.reason, BATON_REASON_LIMIT);
    world_pass(world, UINT64_C(23) * 3600 * SEC);
    cr_assert_eq(view_requests_count(world->core), world->limits.request_ids);
    world_pass(world, UINT64_C(2) * 3600 * SEC);
    cr_assert_eq(view_requests_count(world->core), 0);
    st = world_call(world, &suspend);
    cr_assert(baton_ok(&st));
    memset(id, 'x', sizeof(id) - 1);
    id[sizeof(id) - 1] = '\0';
    st = world_call(world, &suspend);
    cr_assert(baton_ok(&st), "63 characters fit");
    world_free(world);
}

/* Two publishers at once: two seqs, none lost, the later one is the newest; parents are right. */
Test(requests, two_publishers_race)
{
    struct world *world = with_model();
    char one[BATON_UID_TEXT_BYTES];
    char two[BATON_UID_TEXT_BYTES];
    world_seal(world, "m", one);
    world_seal(world, "m", two);
    struct baton_status st = world_publish_uid(world, two, "t");
    cr_assert(baton_ok(&st));
    st = world_publish_uid(world, one, "o");
    cr_assert(baton_ok(&st));
    cr_assert_eq(view_version_find_uid(world->core, two)->seq, 1);
    cr_assert_eq(view_version_find_uid(world->core, one)->seq, 2);
    cr_assert_eq(view_version_find_uid(world->core, one)->parent_seq, 1);
    cr_assert_eq(view_version_find(world->core, "m", 0)->seq, 2);
    cr_assert_eq(view_roll_find(world->core, "m", 0)->to_seq, 2);
    world_free(world);
}

/* Open, manifest, seal, publish: each step demands the one before. */
Test(requests, publish_steps_in_order)
{
    struct world *world = with_model();
    const char *digest = "0123456789abcdef0123456789abcdef";
    struct request open = { .kind = REQUEST_VERSION_OPEN, .model = "m" };
    struct baton_status st = world_call(world, &open);
    char uid[BATON_UID_TEXT_BYTES];
    memcpy(uid, world->reply.object.uid, sizeof(uid));
    st = world_publish_uid(world, uid, NULL);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION);
    struct request seal = { .kind = REQUEST_VERSION_SEAL, .version_uid = uid };
    seal.body.seal = (struct request_version_seal){ .digest = digest, .bytes = 100 };
    st = world_call(world, &seal);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION, "no manifest");
    struct request manifest = { .kind = REQUEST_VERSION_MANIFEST, .version_uid = uid };
    manifest.body.manifest =
        (struct request_version_manifest){ "00000000000000000000000000000000", 3, 1, 0 };
    st = world_call(world, &manifest);
    cr_assert(baton_ok(&st));
    st = world_call(world, &seal);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION);
    cr_assert_eq(st.reason, BATON_REASON_DIGEST_MISMATCH);
    manifest.body.manifest.digest = digest;
    st = world_call(world, &manifest);
    world_restart(world); /* What was read of the manifest survives. */
    st = world_call(world, &seal);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = world_call(world, &manifest);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION, "sealed is sealed");
    struct request publish = { .kind = REQUEST_VERSION_PUBLISH, .version_uid = uid };
    st = world_call(world, &publish);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    cr_assert_str_eq(world->reply.field, "sources");
    st = world_publish_uid(world, uid, NULL);
    cr_assert(baton_ok(&st));
    st = world_publish_uid(world, "feedfeedfeedfeedfeedfeedfeedfeed", NULL);
    cr_assert_eq(st.code, BATON_NOT_FOUND);
    st = world_publish_uid(world, "x", NULL);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    world_free(world);
}

/* A partial version needs a parent, and fixes it when it is opened. */
Test(requests, partial_version_needs_a_parent)
{
    struct world *world = with_model();
    struct request open = { .kind = REQUEST_VERSION_OPEN, .model = "m" };
    open.body.open.partial = true;
    struct baton_status st = world_call(world, &open);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION);
    cr_assert_eq(world_publish(world, "m"), 1);
    st = world_call(world, &open);
    cr_assert(baton_ok(&st));
    cr_assert_eq(view_version_find_uid(world->core, world->reply.object.uid)->parent_seq, 1);
    open.body.open.parent_seq = 5;
    st = world_call(world, &open);
    cr_assert_str_eq(world->reply.field, "parent_seq");
    world_free(world);
}

/* A version that is announced and never published is dropped after 24 h. */
Test(requests, open_version_expires)
{
    struct world *world = with_model();
    char uid[BATON_UID_TEXT_BYTES];
    world_seal(world, "m", uid);
    world_pass(world, UINT64_C(23) * 3600 * SEC);
    cr_assert_not_null(view_version_find_uid(world->core, uid));
    world_pass(world, UINT64_C(2) * 3600 * SEC);
    cr_assert_null(view_version_find_uid(world->core, uid));
    world_free(world);
}

/* ... or after as long as the controller's file says. */
Test(requests, open_version_expires_as_configured)
{
    struct controller_limits limits = world_limits();
    limits.open_kept_ms = 10 * 60 * 1000;
    struct world *world = world_new_limited(&limits);
    struct baton_status st = world_apply(world, "m", NULL);
    cr_assert(baton_ok(&st));
    char uid[BATON_UID_TEXT_BYTES];
    world_seal(world, "m", uid);
    world_pass(world, 9 * 60 * SEC);
    cr_assert_not_null(view_version_find_uid(world->core, uid));
    world_pass(world, 3 * 60 * SEC);
    cr_assert_null(view_version_find_uid(world->core, uid));
    world_free(world);
}

/* Progress of a source is shown and not stored. */
Test(requests, progress_is_shown)
{
    struct world *world = with_model();
    struct request open = { .kind = REQUEST_VERSION_OPEN, .model = "m" };
    struct baton_status st = world_call(world, &open);
    char uid[BATON_UID_TEXT_BYTES];
    memcpy(uid, world->reply.object.uid, sizeof(uid));
    open.body.open.bytes = 0;
    uint32_t persists = world->persists;
    struct request progress = { .kind = REQUEST_VERSION_PROGRESS, .version_uid = uid };
    progress.body.progress = (struct request_version_progress){ 400, 0 };
    st = world_call(world, &progress);
    cr_assert(baton_ok(&st));
    struct version_status status;
    view_version_status(world->core, view_version_find_uid(world->core, uid), &status);
    cr_assert_eq(status.bytes_ready, 400);
    cr_assert_eq(world->persists, persists);
    world_free(world);
}

/* Full tables refuse by name and change nothing. */
Test(requests, full_tables_refuse)
{
    struct controller_limits limits = world_limits();
    limits.models = 2;
    limits.versions = 3;
    limits.versions_kept = 1;
    struct world *world = world_new_limited(&limits);
    struct baton_status st = world_apply(world, "m", NULL);
    st = world_apply(world, "n", NULL);
    cr_assert(baton_ok(&st));
    st = world_apply(world, "o", NULL);
    cr_assert_eq(st.code, BATON_RESOURCE_EXHAUSTED);
    cr_assert_not_null(strstr(st.message, "2 models"));
    struct request open = { .kind = REQUEST_VERSION_OPEN, .model = "m" };
    for (int i = 0; i < 3; i++) {
        st = world_call(world, &open);
        cr_assert(baton_ok(&st));
    }
    st = world_call(world, &open);
    cr_assert_eq(st.code, BATON_RESOURCE_EXHAUSTED);
    cr_assert_eq(st.reason, BATON_REASON_LIMIT);
    world_free(world);
}
