/* controller_leases_test.c -- sessions that keep their version, slots that bound what is on the way, verdicts on
 * samples, and what survives a restart of the controller. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "api/base/random.h"
#include "controller/core/judge.h"
#include "controller/core/leases.h"
#include "controller/core/staleness.h"
#include "tests/unit/controller_world.h"

static struct world *start(const struct policy_spec *spec, uint32_t groups)
{
    struct world *world = world_new();
    struct baton_status st = world_apply(world, "m", spec);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(world_publish(world, "m"), 1);
    world_fleet(world, "m", groups);
    for (uint32_t i = 0; i < world->agents_count; i++) {
        world->agents[i].groups[0].engine.reachable = true;
        world->agents[i].groups[0].report.verify_level = VERIFY_LEVEL_RESIDENT;
    }
    world_play(world);
    for (uint32_t i = 0; i < world->agents_count; i++) {
        world_report(world, &world->agents[i], NULL, 0);
    }
    return world;
}

/* --- sessions --- */

static struct baton_status resolve(struct world *world, const char *session, uint64_t ttl_ms,
                                   bool restart)
{
    struct request request = { .kind = REQUEST_SESSION_RESOLVE, .model = "m" };
    request.body.session = (struct request_session){
        .query = { .model = "m" }, .name = session, .ttl_ms = ttl_ms, .restart = restart
    };
    return world_call(world, &request);
}

static uint64_t version_of(struct world *world, const char *session)
{
    struct baton_status st = resolve(world, session, 0, false);
    cr_assert(baton_ok(&st), "%s", st.message);
    return world->reply.object.number;
}

/* A controller that restarts does not begin to count anew how long sessions held the roll back. */
Test(sessions, hold_no_longer_over_restarts)
{
    struct policy_spec spec = { .max_unavailable = "1", .sessions_max_hold_ms = 20000 };
    struct world *world = start(&spec, 2);
    cr_assert_eq(version_of(world, "talk"), 1);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    const char *stays = world_committed(world, "g0") == 1 ? "g0" : "g1";
    for (int life = 0; life < 2; life++) {
        cr_assert_eq(world_blocked(world, stays), BLOCKED_SESSION_LEASES);
        world_pass(world, 8 * SEC);
        world_restart(world);
        for (uint32_t i = 0; i < world->agents_count; i++) {
            cr_assert(world_connect(world, &world->agents[i]));
        }
        world_play(world);
    }
    cr_assert_eq(world_committed(world, stays), 1);
    world_pass(world, 5 * SEC);
    world_play(world);
    cr_assert_eq(world_committed(world, stays), 2);
    world_free(world);
}

Test(sessions, keep_their_version_while_a_roll_goes_on)
{
    struct policy_spec spec = { .max_unavailable = "1", .sessions_max_hold_ms = 20000 };
    struct world *world = start(&spec, 2);
    cr_assert_eq(version_of(world, "talk"), 1);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    int on_old = (world_committed(world, "g0") == 1) + (world_committed(world, "g1") == 1);
    cr_assert_eq(on_old, 1, "one group stays for the session");
    const char *stays = world_committed(world, "g0") == 1 ? "g0" : "g1";
    cr_assert_eq(world_blocked(world, stays), BLOCKED_SESSION_LEASES);
    cr_assert_eq(version_of(world, "talk"), 1, "the next turn gets the same version");
    cr_assert_eq(version_of(world, "new"), 2, "another session gets the newest");
    world_pass(world, 21 * SEC);
    world_play(world);
    cr_assert_eq(world_committed(world, stays), 2, "not longer than maxHold");
    struct baton_status st = resolve(world, "talk", 0, false);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION);
    cr_assert_eq(st.reason, BATON_REASON_SESSION_EXPIRED);
    cr_assert_not_null(strstr(st.message, "EXPIRED"));
    st = resolve(world, "talk", 0, false);
    cr_assert_eq(st.reason, BATON_REASON_SESSION_EXPIRED, "and again, should the answer be lost");
    st = resolve(world, "talk", 0, true);
    cr_assert(baton_ok(&st));
    cr_assert_eq(world->reply.object.number, 2);
    cr_assert_eq(version_of(world, "new"), 2);
    world_free(world);
}

Test(sessions, end_when_nobody_renews)
{
    struct policy_spec spec = { .max_unavailable = "1", .sessions_max_hold_ms = 3600000 };
    struct world *world = start(&spec, 2);
    struct baton_status st = resolve(world, "quiet", 5000, false);
    cr_assert(baton_ok(&st));
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    cr_assert_eq(view_roll_find(world->core, "m", 0)->state, ROLL_STATE_PROGRESSING);
    world_pass(world, 9 * SEC);
    world_play(world);
    cr_assert_eq(view_roll_find(world->core, "m", 0)->state, ROLL_STATE_COMPLETED,
                 "the lease ran out, and the roll went on by itself");
    st = resolve(world, "quiet", 0, false);
    cr_assert_eq(st.reason, BATON_REASON_SESSION_EXPIRED);
    world_pass(world, (SESSION_TOLD_S + 5) * SEC);
    cr_assert_eq(view_sessions_count(world->core), 0, "its end is forgotten in the end");
    world_free(world);
}

Test(sessions, live_through_a_restart_at_least_as_promised)
{
    struct policy_spec spec = { .max_unavailable = "1" };
    struct world *world = start(&spec, 2);
    struct baton_status st = resolve(world, "talk", 60000, false);
    cr_assert(baton_ok(&st));
    uint32_t persists = world->persists;
    for (int i = 0; i < 20; i++) {
        world_pass(world, SEC);
        uint32_t before = world->persists;
        st = resolve(world, "talk", 60000, false);
        cr_assert(baton_ok(&st));
        persists += world->persists - before;
    }
    cr_assert_leq(persists, 21, "most renewals need no write");
    uint64_t promised =
        view_session_expires_wall_ns(world->core, view_session_find(world->core, "m", "talk"));
    world_restart(world);
    const struct session_lease_record *lease = view_session_find(world->core, "m", "talk");
    cr_assert_not_null(lease);
    cr_assert_not(lease->expired);
    cr_assert_geq(view_session_expires_wall_ns(world->core, lease), promised);
    cr_assert_leq(view_session_expires_wall_ns(world->core, lease), promised + 30 * SEC);
    world_free(world);
}

Test(sessions, do_not_hold_an_undo)
{
    struct policy_spec spec = { .max_unavailable = "1", .sessions_max_hold_ms = 3600000 };
    struct world *world = start(&spec, 2);
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    cr_assert_eq(version_of(world, "talk"), 2);
    struct baton_status st = world_verb(world, REQUEST_ROLL_UNDO, "m", 0);
    cr_assert(baton_ok(&st), "%s", st.message);
    world_report(world, world_agent(world, "a0"), NULL, 0);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 1);
    cr_assert_eq(world_committed(world, "g1"), 1);
    st = resolve(world, "talk", 0, false);
    cr_assert_eq(st.reason, BATON_REASON_VERSION_NOT_READY, "never another version");
    world_free(world);
}

Test(sessions, are_bounded_and_checked)
{
    struct world *world = start(NULL, 1);
    struct baton_status st = baton_status_ok();
    char name[16];
    uint32_t begun = 0;
    for (; baton_ok(&st) && begun < 1000; begun++) {
        (void)snprintf(name, sizeof(name), "s%u", begun);
        st = resolve(world, name, 0, false);
    }
    cr_assert_eq(st.code, BATON_RESOURCE_EXHAUSTED);
    cr_assert_eq(begun - 1, world->limits.sessions / 2, "half of the table for one model");
    cr_assert_eq(version_of(world, "s0"), 1, "who has a lease goes on");
    st = resolve(world, "two words", 0, false);
    cr_assert_str_eq(world->reply.field, "session");
    st = resolve(world, "s0", 25 * 3600 * 1000, false);
    cr_assert_str_eq(world->reply.field, "session_ttl");
    world_free(world);
}

/* --- slots --- */

static struct baton_status acquire(struct world *world, uint32_t count, bool partial,
                                   const char *lease, char out[BATON_UID_TEXT_BYTES])
{
    struct request request = { .kind = REQUEST_SLOTS_ACQUIRE, .model = "m" };
    request.body.acquire = (struct request_acquire){
        .count = count, .partial = partial, .lease = lease, .holder = "pool-1", .ttl_ms = 60000
    };
    struct baton_status st = world_call(world, &request);
    if (baton_ok(&st) && out != NULL) {
        memcpy(out, world->reply.object.uid, BATON_UID_TEXT_BYTES);
    }
    return st;
}

static struct baton_status release(struct world *world, const char *lease, uint32_t consumed,
                                   uint32_t dropped)
{
    struct request request = { .kind = REQUEST_SLOTS_RELEASE, .model = "m" };
    request.body.release = (struct request_release){ lease, consumed, dropped };
    return world_call(world, &request);
}

static struct slots_status slots(const struct world *world)
{
    struct slots_status status;
    struct baton_status st =
        view_slots_status(world->core, view_model_find(world->core, "m"), &status);
    cr_assert(baton_ok(&st), "%s", st.message);
    return status;
}

static struct policy_spec slot_policy(uint64_t bound, uint32_t per_publish)
{
    return (struct policy_spec){ .staleness_bounded = true,
                                 .staleness_bound = bound,
                                 .slots_samples_per_publish = per_publish };
}

Test(slots, bound_what_is_on_the_way)
{
    struct policy_spec spec = slot_policy(1, 10);
    struct world *world = start(&spec, 1);
    char lease[BATON_UID_TEXT_BYTES], other[BATON_UID_TEXT_BYTES];
    struct baton_status st = acquire(world, 15, false, NULL, lease);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(slots(world).room, 5);
    st = acquire(world, 6, false, NULL, other);
    cr_assert_eq(st.code, BATON_RESOURCE_EXHAUSTED);
    cr_assert_eq(st.reason, BATON_REASON_SLOTS_FULL);
    st = acquire(world, 6, true, NULL, other);
    cr_assert(baton_ok(&st));
    cr_assert_eq(world->reply.object.number, 5, "as many as there is room for");
    world_restart(world);
    cr_assert_eq(slots(world).room, 0, "a restart does not let a burst through");
    st = release(world, lease, 10, 0);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(slots(world).room, 0, "consumed samples still count until the publish they make");
    cr_assert_eq(world_publish(world, "m"), 2);
    cr_assert_eq(slots(world).room, 10);
    st = release(world, other, 0, 5);
    cr_assert(baton_ok(&st));
    cr_assert_eq(slots(world).room, 15, "what is dropped is free at once");
    st = release(world, other, 0, 1);
    cr_assert_eq(st.code, BATON_NOT_FOUND, "that lease was released whole");
    st = release(world, lease, 3, 3);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT, "more than it holds");
    world_free(world);
}

Test(slots, of_a_dead_client_return)
{
    struct policy_spec spec = slot_policy(0, 8);
    struct world *world = start(&spec, 1);
    char lease[BATON_UID_TEXT_BYTES];
    struct baton_status st = acquire(world, 8, false, NULL, lease);
    cr_assert(baton_ok(&st));
    world_pass(world, 40 * SEC);
    st = acquire(world, 0, false, lease, NULL);
    cr_assert(baton_ok(&st), "renewed: %s", st.message);
    world_pass(world, 59 * SEC);
    cr_assert_eq(slots(world).held, 8);
    world_pass(world, 2 * SEC);
    cr_assert_eq(slots(world).held, 0);
    cr_assert_eq(view_slot_leases_count(world->core), 0);
    cr_assert_eq(slots(world).room, 8);
    world_free(world);
}

Test(slots, same_request_same_grant)
{
    struct policy_spec spec = slot_policy(0, 8);
    struct world *world = start(&spec, 1);
    char first[BATON_UID_TEXT_BYTES];
    for (int i = 0; i < 3; i++) {
        struct request request = { .kind = REQUEST_SLOTS_ACQUIRE, .model = "m" };
        request.options.request_id = "acquire-1";
        request.body.acquire = (struct request_acquire){ .count = 5 };
        struct baton_status st = world_call(world, &request);
        cr_assert(baton_ok(&st), "%s", st.message);
        cr_assert_eq(world->reply.object.number, 5);
        if (i == 0) {
            memcpy(first, world->reply.object.uid, sizeof(first));
        }
        cr_assert_str_eq(world->reply.object.uid, first);
    }
    cr_assert_eq(slots(world).held, 5);
    world_free(world);
}

Test(slots, need_a_policy)
{
    struct world *world = start(NULL, 1);
    struct baton_status st = acquire(world, 1, false, NULL, NULL);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION);
    cr_assert_not_null(strstr(st.message, "samplesPerPublish"));
    struct policy_spec spec = { .slots_samples_per_publish = 4 };
    st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st));
    st = acquire(world, 1, false, NULL, NULL);
    cr_assert_not_null(strstr(st.message, "bound"));
    spec = slot_policy(1, 4);
    spec.staleness_unit = "Seconds";
    st = world_apply(world, "m", &spec);
    st = acquire(world, 1, false, NULL, NULL);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION, "seconds cannot be told in publishes");
    world_free(world);
}

/* Many grants in one event are one transaction, and never more than there is room for. */
Test(slots, are_granted_in_batches)
{
    struct policy_spec spec = slot_policy(0, 100);
    struct world *world = start(&spec, 1);
    struct request requests[30];
    for (size_t i = 0; i < 30; i++) {
        requests[i] = (struct request){ .handle = 1000 + i,
                                        .kind = REQUEST_SLOTS_ACQUIRE,
                                        .model = "m",
                                        .body.acquire = { .count = 7 } };
    }
    struct event event = { .kind = EVENT_REQUESTS, .body.requests = { requests, 30 } };
    uint32_t before = world->persists;
    world->batch_replies = 0;
    world->in_batch = true;
    world_step(world, &event);
    world->in_batch = false;
    cr_assert_eq(world->persists, before + 1);
    cr_assert_eq(world->batch_replies, 30, "each has its own answer");
    cr_assert_eq(world->batch_ok, 14);
    cr_assert_eq(slots(world).held, 98);
    world_free(world);
}

/* First in, first out, with random publishes in step: no sample is ever consumed above the bound. */
Test(slots, keep_the_bound_in_order_of_dispatch, .timeout = 60)
{
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct baton_random random;
        baton_random_seed(&random, seed);
        uint64_t bound = baton_random_below(&random, 3);
        struct policy_spec spec = slot_policy(bound, 4);
        struct world *world = start(&spec, 1);
        world->check_every = 50;
        static struct {
            char lease[BATON_UID_TEXT_BYTES];
            uint64_t seq;
        } queue[4096];
        uint32_t head = 0, tail = 0, consumed = 0;
        uint64_t newest = 1;
        for (int i = 0; i < 300; i++) {
            struct baton_status st = acquire(world, 1, false, NULL, queue[tail].lease);
            if (baton_ok(&st)) {
                queue[tail++].seq = newest;
            } else if (head < tail) {
                cr_assert_leq(newest - queue[head].seq, bound, "a sample is too stale");
                st = release(world, queue[head++].lease, 1, 0);
                cr_assert(baton_ok(&st));
                consumed++;
                if (consumed % 4 == 0) {
                    newest = world_publish(world, "m");
                }
            }
        }
        cr_assert_gt(consumed, 50);
        world_free(world);
    }
}

/* --- verdicts --- */

Test(judge, spans_by_table)
{
    static const struct judge_rule bound2 = { LAG_PUBLISHES, true, 2 };
    static const struct judge_rule steps = { LAG_OPTIMIZER_STEPS, true, 10 };
    static const struct judge_rule none = { LAG_PUBLISHES, false, 0 };
    struct lag behind = { .relation = LAG_RELATION_BEHIND, .known = { [LAG_PUBLISHES] = true } };
    behind.units[LAG_PUBLISHES] = 3;
    struct lag current = { .relation = LAG_RELATION_CURRENT };
    struct lag apart = { .relation = LAG_RELATION_UNRELATED };
    const struct {
        struct judge_facts facts;
        const struct judge_rule *rule;
        uint32_t faults;
    } cases[] = {
        { { .known = true, .lag = current }, &bound2, 0 },
        { { .known = true, .lag = behind }, &none, 0 },
        { { .known = true, .lag = behind }, &bound2, 1u << SAMPLE_TOO_STALE },
        { { .known = true, .lag = behind }, &steps, 1u << SAMPLE_UNIT_UNKNOWN },
        { { .known = true, .lag = apart }, &none, 1u << SAMPLE_UNRELATED },
        { { .known = true, .later = true, .lag = apart }, &none, 1u << SAMPLE_LATER_THAN_CONSUMER },
        { { .known = false }, &none, 1u << SAMPLE_VERSION_UNKNOWN },
        { { .known = true, .undone = true, .lag = current }, &bound2, 1u << SAMPLE_UNDONE },
        { { .known = true, .quarantined = true, .undone = true, .lag = behind },
          &bound2,
          1u << SAMPLE_QUARANTINED | 1u << SAMPLE_UNDONE | 1u << SAMPLE_TOO_STALE },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cr_assert_eq(judge_span(&cases[i].facts, cases[i].rule), cases[i].faults, "case %zu", i);
    }
}

Test(judge, samples_of_a_fleet)
{
    struct policy_spec spec = { .staleness_bounded = true, .staleness_bound = 1 };
    struct world *world = start(&spec, 1);
    const struct model_record *model = view_model_find(world->core, "m");
    cr_assert_eq(world_publish(world, "m"), 2);
    cr_assert_eq(world_publish(world, "m"), 3);
    world_play(world);
    struct judge_rule rule = view_judge_rule(model);
    struct sample_span spans[] = { { 2, 120 }, { 3, 30 } };
    struct sample sample = { spans, 2, 0 };
    struct sample_verdict verdict = view_judge_sample(world->core, model, &sample, 0, &rule);
    cr_assert_eq(verdict.faults, 0);
    cr_assert_eq(verdict.max_lag, 1);
    cr_assert_float_eq(verdict.mean_lag, 0.8, 1e-9, "120 of 150 tokens lag 1");
    cr_assert_eq(verdict.oldest_seq, 2);
    spans[0].seq = 1;
    verdict = view_judge_sample(world->core, model, &sample, 0, &rule);
    cr_assert_eq(verdict.faults, 1u << SAMPLE_TOO_STALE);
    verdict = view_judge_sample(world->core, model, &sample, 2, &rule);
    cr_assert_eq(verdict.faults, 1u << SAMPLE_LATER_THAN_CONSUMER, "3 is later than 2");
    spans[0].tokens = spans[1].tokens = 0;
    verdict = view_judge_sample(world->core, model, &sample, 0, &rule);
    cr_assert_eq(verdict.faults, 1u << SAMPLE_NO_SPANS);
    struct baton_status st = world_verb(world, REQUEST_ROLL_UNDO, "m", 1);
    cr_assert(baton_ok(&st), "%s", st.message);
    spans[1].tokens = 5;
    verdict = view_judge_sample(world->core, model, &sample, 3, &rule);
    cr_assert_eq(verdict.faults, 1u << SAMPLE_UNDONE);
    char sentence[BATON_TEXT_BYTES];
    judge_explain(&verdict, &rule, sentence);
    cr_assert_not_null(strstr(sentence, "undone"));
    world_free(world);
}

Test(samples, are_counted_by_their_oldest_token)
{
    struct world *world = start(NULL, 1);
    cr_assert_eq(world_publish(world, "m"), 2);
    struct sample_span spans[] = { { 1, 10 }, { 2, 90 } };
    struct sample samples[] = { { spans, 2, 0 }, { spans + 1, 1, 0 }, { NULL, 0, 0 } };
    struct request request = { .kind = REQUEST_SAMPLES_REPORT, .model = "m" };
    request.body.samples = (struct request_samples){ SAMPLE_STAGE_COMPLETION, samples, 3, 0 };
    struct baton_status st = world_call(world, &request);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(world->reply.object.number, 3);
    const struct model_record *model = view_model_find(world->core, "m");
    struct sample_counter counter =
        view_sample_counter(world->core, model, SAMPLE_STAGE_COMPLETION);
    cr_assert_eq(counter.samples, 3);
    cr_assert_eq(counter.tokens, 190);
    cr_assert_eq(counter.buckets[0], 1);
    cr_assert_eq(counter.buckets[1], 1);
    cr_assert_eq(counter.max_lag, 1);
    cr_assert_eq(counter.unrelated, 1);
    request.options.request_id = "report-1";
    st = world_call(world, &request);
    st = world_call(world, &request);
    cr_assert(baton_ok(&st));
    counter = view_sample_counter(world->core, model, SAMPLE_STAGE_COMPLETION);
    cr_assert_eq(counter.samples, 6, "sent twice under one id, counted once");
    request.body.samples.consumer_seq = 1;
    st = world_call(world, &request);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT, "the same samples for another consumer");
    request.body.samples.consumer_seq = 0;
    world_restart(world);
    counter = view_sample_counter(world->core, view_model_find(world->core, "m"),
                                  SAMPLE_STAGE_COMPLETION);
    cr_assert_eq(counter.samples, 6, "a report with an id is stored before it is answered");
    request.options.request_id = NULL;
    request.body.samples.stage = 9;
    st = world_call(world, &request);
    cr_assert_str_eq(world->reply.field, "stage");
    world_free(world);
}
