/* controller_shell_endpoints_test.c -- Resolve and the watches of endpoints and staleness, over a real controller: begun, coalesced, resumed,
 * and ended; slots of many callers at once. */
#include <criterion/criterion.h>
#include <string.h>

#include "api/wire/wire.h"
#include "baton/v1/admission.pb-c.h"
#include "baton/v1/staleness.pb-c.h"
#include "tests/unit/controller_shell_fixture.h"

/* What a leader says of its group "<agent>-0", which serves a version. */
struct told {
    const char *agent;
    uint64_t seq;
    const char *digest;
    bool gate_open;
};

static void fill_report(void *root, Baton__V1__GroupReport *group, const struct told *told)
{
    Baton__V1__Engine *engine = baton_wire_part(root, &baton__v1__engine__descriptor);
    group->group = baton_wire_textf(root, "%s-0", told->agent);
    group->model = baton_wire_text(root, "m");
    group->state = BATON__V1__GROUP_STATE__GROUP_STATE_SERVING;
    group->committed_seq = told->seq;
    group->committed_digest = baton_wire_text(root, told->digest);
    group->gate_open = told->gate_open;
    group->verify_level = BATON__V1__VERIFY_LEVEL__VERIFY_LEVEL_RESIDENT;
    engine->name = baton_wire_text(root, "e0");
    engine->endpoint = baton_wire_text(root, "http://127.0.0.1:8000");
    engine->incarnation = baton_wire_text(root, "boot-1");
    engine->reachable = true;
    group->n_engines = 1;
    group->engines = baton_wire_take(root, 1, sizeof(*group->engines));
    group->engines[0] = engine;
}

static void report(struct rpc_stream *session, const struct told *told)
{
    Baton__V1__SessionRequest *request = baton_wire_new(&baton__v1__session_request__descriptor);
    Baton__V1__Report *message = baton_wire_part(request, &baton__v1__report__descriptor);
    Baton__V1__GroupReport *group = baton_wire_part(request, &baton__v1__group_report__descriptor);
    request->message_case = BATON__V1__SESSION_REQUEST__MESSAGE_REPORT;
    request->report = message;
    fill_report(request, group, told);
    message->n_groups = 1;
    message->groups = baton_wire_take(request, 1, sizeof(*message->groups));
    message->groups[0] = group;
    struct baton_status st = rpc_stream_send(session, request);
    cr_assert(baton_ok(&st), "%s", st.message);
    baton_wire_free(request);
}

static Baton__V1__ResolveRequest *resolve_request(uint64_t exact_seq)
{
    Baton__V1__ResolveRequest *request = baton_wire_new(&baton__v1__resolve_request__descriptor);
    request->model = baton_wire_text(request, "m");
    request->exact_seq = exact_seq;
    return request;
}

static struct rpc_stream *watch(struct controller_fixture *fixture, uint64_t from, bool fresh)
{
    Baton__V1__WatchEndpointsRequest *request =
        baton_wire_new(&baton__v1__watch_endpoints_request__descriptor);
    request->model = baton_wire_text(request, "m");
    request->from_revision = from;
    request->max_lag = fresh ? baton_wire_part(request, &baton__v1__max_lag__descriptor) : NULL;
    return controller_fixture_open(fixture, "baton.v1.Admission/WatchEndpoints", request);
}

/* The next message that says something; its parts are counted, its revision given. */
struct heard {
    uint64_t revision, newest_seq, seq;
    size_t endpoints, removed;
    bool reset;
};

static struct heard hear(struct rpc_stream *stream)
{
    Baton__V1__WatchEndpointsResponse *message = controller_fixture_next(stream);
    struct heard heard = { .revision = message->revision,
                           .newest_seq = message->newest_seq,
                           .endpoints = message->n_endpoints,
                           .removed = message->n_removed,
                           .reset = message->reset };
    heard.seq = message->n_endpoints > 0 ? message->endpoints[0]->seq : 0;
    baton_wire_free(message);
    return heard;
}

static void digest_of(struct controller_fixture *fixture, uint64_t seq, char *out)
{
    Baton__V1__GetVersionRequest *request =
        baton_wire_new(&baton__v1__get_version_request__descriptor);
    request->model = baton_wire_text(request, "m");
    request->seq = seq;
    Baton__V1__Version *version =
        controller_fixture_call(fixture, "baton.v1.Versions/Get", request);
    (void)baton_text_copy(out, BATON_DIGEST_TEXT_BYTES, version->digest);
    baton_wire_free(version);
}

struct stage {
    struct controller_fixture fixture;
    struct rpc_stream *session;
    char digest[BATON_DIGEST_TEXT_BYTES];
};

static void start(struct stage *stage)
{
    controller_fixture_start(&stage->fixture);
    controller_fixture_apply(&stage->fixture, "m");
    cr_assert_eq(controller_fixture_publish(&stage->fixture, "m"), 1);
    digest_of(&stage->fixture, 1, stage->digest);
    stage->session = controller_fixture_hello(&stage->fixture, "a", 1,
                                              BATON__V1__GROUP_STATE__GROUP_STATE_JOINING);
}

static void stop(struct stage *stage)
{
    rpc_stream_unref(stage->session);
    controller_fixture_stop(&stage->fixture);
}

Test(controller_shell_endpoints, watch_tells_what_changed_and_resumes)
{
    struct stage stage;
    start(&stage);
    struct rpc_stream *stream = watch(&stage.fixture, 0, false);
    struct heard heard = hear(stream);
    cr_assert(heard.reset && heard.endpoints == 0 && heard.newest_seq == 1);
    uint64_t before = heard.revision;
    report(stage.session, &(struct told){ "a", 1, stage.digest, true });
    heard = hear(stream);
    cr_assert(!heard.reset && heard.endpoints == 1 && heard.seq == 1);
    uint64_t with = heard.revision;
    report(stage.session, &(struct told){ "a", 1, stage.digest, false });
    heard = hear(stream);
    cr_assert(heard.removed == 1 && heard.endpoints == 0);
    rpc_stream_unref(stream);
    stream = watch(&stage.fixture, with, false);
    heard = hear(stream);
    cr_assert(!heard.reset && heard.removed == 1 && heard.endpoints == 0, "gone since");
    rpc_stream_unref(stream);
    report(stage.session, &(struct told){ "a", 1, stage.digest, true });
    stream = watch(&stage.fixture, before, false);
    for (heard = hear(stream); heard.endpoints == 0; heard = hear(stream)) {
        cr_assert_not(heard.reset);
    }
    cr_assert_eq(heard.seq, 1);
    rpc_stream_unref(stream);
    stream = watch(&stage.fixture, UINT64_MAX / 2, false);
    cr_assert(hear(stream).reset, "a revision of another store: from the start");
    rpc_stream_unref(stream);
    stop(&stage);
}

/* A publish makes what is served too old for a watch by lag, without any change of the group. */
Test(controller_shell_endpoints, watch_by_lag_hears_of_a_publish)
{
    struct stage stage;
    start(&stage);
    report(stage.session, &(struct told){ "a", 1, stage.digest, true });
    struct rpc_stream *stream = watch(&stage.fixture, 0, true);
    struct heard heard = hear(stream);
    while (heard.endpoints == 0) {
        heard = hear(stream);
    }
    cr_assert_eq(controller_fixture_publish(&stage.fixture, "m"), 2);
    heard = hear(stream);
    cr_assert_eq(heard.removed, 1);
    cr_assert_eq(heard.newest_seq, 2);
    rpc_stream_unref(stream);
    stop(&stage);
}

Test(controller_shell_endpoints, resolve_answers_or_refuses)
{
    struct stage stage;
    start(&stage);
    struct baton_status st =
        controller_fixture_try(&stage.fixture, "baton.v1.Admission/Resolve", resolve_request(0));
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION);
    cr_assert_eq(st.reason, BATON_REASON_VERSION_NOT_READY);
    struct rpc_stream *stream = watch(&stage.fixture, 0, false);
    report(stage.session, &(struct told){ "a", 1, stage.digest, true });
    while (hear(stream).endpoints == 0) {
    }
    Baton__V1__ResolveResponse *reply =
        controller_fixture_call(&stage.fixture, "baton.v1.Admission/Resolve", resolve_request(1));
    cr_assert_eq(reply->n_endpoints, 1);
    cr_assert_str_eq(reply->endpoints[0]->engines[0]->endpoint, "http://127.0.0.1:8000");
    cr_assert_str_eq(reply->endpoints[0]->digest, stage.digest);
    cr_assert_gt(reply->revision, 0);
    baton_wire_free(reply);
    Baton__V1__ResolveRequest *both = resolve_request(1);
    both->min_seq = 1;
    st = controller_fixture_try(&stage.fixture, "baton.v1.Admission/Resolve", both);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT, "%s", st.message);
    Baton__V1__ResolveRequest *talk = resolve_request(0);
    talk->session = baton_wire_text(talk, "talk");
    reply = controller_fixture_call(&stage.fixture, "baton.v1.Admission/Resolve", talk);
    cr_assert(reply->session != NULL && reply->session->created && reply->session->seq == 1);
    baton_wire_free(reply);
    rpc_stream_unref(stream);
    stop(&stage);
}

Test(controller_shell_endpoints, summaries_come_when_they_change)
{
    struct stage stage;
    start(&stage);
    Baton__V1__WatchStalenessSummaryRequest *request =
        baton_wire_new(&baton__v1__watch_staleness_summary_request__descriptor);
    request->model = baton_wire_text(request, "m");
    request->min_interval = baton_wire_duration(request, 100000000);
    struct rpc_stream *stream =
        controller_fixture_open(&stage.fixture, "baton.v1.Staleness/WatchSummary", request);
    Baton__V1__StalenessSummary *summary = controller_fixture_next(stream);
    cr_assert_eq(summary->groups_without_version, 1);
    baton_wire_free(summary);
    report(stage.session, &(struct told){ "a", 1, stage.digest, true });
    summary = controller_fixture_next(stream);
    cr_assert_eq(summary->groups_current, 1);
    cr_assert_eq(summary->n_lags, 4);
    baton_wire_free(summary);
    rpc_stream_unref(stream);
    request = baton_wire_new(&baton__v1__watch_staleness_summary_request__descriptor);
    request->model = baton_wire_text(request, "m");
    request->min_interval = baton_wire_duration(request, 1000);
    stream = controller_fixture_open(&stage.fixture, "baton.v1.Staleness/WatchSummary", request);
    cr_assert_eq(controller_fixture_end(stream).code, BATON_INVALID_ARGUMENT);
    rpc_stream_unref(stream);
    stop(&stage);
}
