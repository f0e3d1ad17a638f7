/* rpc_test.c -- unary calls, servers' life, limits, listeners; see api/rpc/rpc.h. */
#include <criterion/criterion.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "baton/v1/models.pb-c.h"
#include "baton/v1/rolls.pb-c.h"
#include "tests/unit/rpc_fixture.h"

#define MS BATON_NS_PER_MS

static const char *model_name(const struct rpc_result *result)
{
    const Baton__V1__Model *model = result->message;
    return model == NULL || model->meta == NULL ? "" : model->meta->name;
}

/* Starts Models/Suspend, which the server holds. */
static void suspend(struct rpc_fixture *fixture, uint64_t timeout_ns, rpc_done_fn *done,
                    void *context)
{
    Baton__V1__SuspendModelRequest request;
    baton__v1__suspend_model_request__init(&request);
    request.name = timeout_ns == 0 ? "m" : "watched";
    struct rpc_call_options options = { .timeout_ns = timeout_ns };
    rpc_unary_start(fixture->client, "baton.v1.Models/Suspend", &request, &options, done, context);
}

struct outcome {
    struct rpc_fixture *fixture;
    struct baton_status status;
    unsigned count;
};

static void note(const struct rpc_result *result, void *context)
{
    struct outcome *outcome = context;
    baton_wire_free(result->message);
    pthread_mutex_lock(&outcome->fixture->mutex);
    outcome->status = result->status;
    outcome->count++;
    pthread_cond_broadcast(&outcome->fixture->changed);
    pthread_mutex_unlock(&outcome->fixture->mutex);
}

/* A request reaches the handler as a message and its reply comes back as one. */
Test(rpc, unary_round_trip)
{
    struct rpc_fixture fixture;
    rpc_fixture_start(&fixture);
    struct rpc_result result = rpc_fixture_get(&fixture, "qwen3", NULL);
    cr_assert(baton_ok(&result.status), "%s", result.status.message);
    cr_assert_str_eq(model_name(&result), "qwen3");
    baton_wire_free(result.message);
    rpc_fixture_stop(&fixture);
}

/* Code, reason, message and hint cross the wire. */
Test(rpc, failure_keeps_reason_and_hint)
{
    struct rpc_fixture fixture;
    rpc_fixture_start(&fixture);
    struct rpc_result result = rpc_fixture_get(&fixture, "held", NULL);
    cr_assert_eq(result.status.code, BATON_FAILED_PRECONDITION);
    cr_assert_eq(result.status.reason, BATON_REASON_HELD);
    cr_assert_str_eq(result.status.message, "model m is held");
    cr_assert_str_eq(result.status.hint, "resume it");
    cr_assert_null(result.message);
    result = rpc_fixture_get(&fixture, "field", NULL);
    cr_assert_eq(result.status.code, BATON_INVALID_ARGUMENT);
    cr_assert_eq(result.status.reason, BATON_REASON_BAD_FIELD);
    cr_assert_str_eq(result.status.message, "update.maxUnavailable: must be above 0");
    rpc_fixture_stop(&fixture);
}

/* A reply given by another thread, after the handler is gone, arrives. */
Test(rpc, reply_from_another_thread)
{
    struct rpc_fixture fixture;
    rpc_fixture_start(&fixture);
    struct outcome outcome = { .fixture = &fixture };
    suspend(&fixture, 0, note, &outcome);
    struct rpc_call *held = rpc_fixture_take_held(&fixture);
    cr_assert_not_null(held);
    cr_assert_str_eq(rpc_call_method(held), "baton.v1.Models/Suspend");
    cr_assert_not_null(rpc_call_request(held));
    Baton__V1__Model model;
    baton__v1__model__init(&model);
    rpc_reply(held, &model);
    rpc_call_unref(held);
    cr_assert(rpc_fixture_wait(&fixture, &outcome.count, 1));
    cr_assert(baton_ok(&outcome.status), "%s", outcome.status.message);
    rpc_fixture_stop(&fixture);
}

/* The first answer wins; later ones change nothing and harm nothing. */
Test(rpc, second_answer_is_ignored)
{
    struct rpc_fixture fixture;
    rpc_fixture_start(&fixture);
    struct outcome outcome = { .fixture = &fixture };
    suspend(&fixture, 0, note, &outcome);
    struct rpc_call *held = rpc_fixture_take_held(&fixture);
    struct baton_status st = baton_status_make(BATON_ABORTED, BATON_REASON_STALE_REVISION, "first");
    rpc_finish(held, &st);
    Baton__V1__Model model;
    baton__v1__model__init(&model);
    rpc_reply(held, &model);
    rpc_finish(held, &st);
    cr_assert(rpc_fixture_wait(&fixture, &outcome.count, 1));
    cr_assert_eq(outcome.status.code, BATON_ABORTED);
    struct baton_status late = rpc_send(held, &model);
    cr_assert_eq(late.code, BATON_CANCELLED);
    rpc_call_unref(held);
    rpc_fixture_stop(&fixture);
}

/* The client's deadline ends the wait, and the server's call hears of it. */
Test(rpc, deadline_ends_both_sides)
{
    struct rpc_fixture fixture;
    rpc_fixture_start(&fixture);
    struct outcome outcome = { .fixture = &fixture };
    suspend(&fixture, 100 * MS, note, &outcome);
    struct rpc_call *held = rpc_fixture_take_held(&fixture);
    cr_assert(rpc_fixture_wait(&fixture, &outcome.count, 1));
    cr_assert_eq(outcome.status.code, BATON_DEADLINE_EXCEEDED);
    cr_assert_not_null(strstr(outcome.status.message, "baton.v1.Models/Suspend"));
    cr_assert(rpc_fixture_wait(&fixture, &fixture.cancels, 1));
    cr_assert(rpc_call_is_cancelled(held));
    rpc_call_unref(held);
    rpc_fixture_stop(&fixture);
}

/* The handler sees how much time the client gives. */
Test(rpc, deadline_reaches_the_handler)
{
    struct rpc_fixture fixture;
    rpc_fixture_start(&fixture);
    struct rpc_call_options options = { .timeout_ns = 5000 * MS };
    struct rpc_result result = rpc_fixture_get(&fixture, "deadline", &options);
    uint64_t left_ns = strtoull(model_name(&result), NULL, 10);
    cr_assert(left_ns > 1000 * MS && left_ns <= 5100 * MS, "%s", model_name(&result));
    baton_wire_free(result.message);
    rpc_fixture_stop(&fixture);
}

/* Metadata arrives; bytes that no header can carry are refused before they are sent. */
Test(rpc, metadata)
{
    struct rpc_fixture fixture;
    rpc_fixture_start(&fixture);
    struct rpc_metadata pair = { "x-baton-request-id", "abc-1" };
    struct rpc_call_options options = { .metadata = &pair, .metadata_count = 1 };
    struct rpc_result result = rpc_fixture_get(&fixture, "id", &options);
    cr_assert_str_eq(model_name(&result), "abc-1");
    baton_wire_free(result.message);
    pair.value = "line\nbreak";
    result = rpc_fixture_get(&fixture, "id", &options);
    cr_assert_eq(result.status.code, BATON_INVALID_ARGUMENT, "%d", result.status.code);
    cr_assert_not_null(strstr(result.status.message, "x-baton-request-id"));
    rpc_fixture_stop(&fixture);
}

/* A method that the server has no route for. */
Test(rpc, unimplemented)
{
    struct rpc_fixture fixture;
    rpc_fixture_start(&fixture);
    Baton__V1__GetRollRequest request;
    baton__v1__get_roll_request__init(&request);
    struct rpc_result result = rpc_unary(fixture.client, "baton.v1.Rolls/Get", &request, NULL);
    cr_assert_eq(result.status.code, BATON_UNIMPLEMENTED);
    cr_assert_eq(result.status.reason, BATON_REASON_INCOMPATIBLE);
    cr_assert_not_null(strstr(result.status.message, "baton.v1.Rolls/Get"));
    rpc_fixture_stop(&fixture);
}

/* Nobody listens: a plain sentence with the address, at once; with wait_for_ready at the deadline. */
Test(rpc, nobody_listens)
{
    struct rpc_client_options options = { .target = "127.0.0.1:1" };
    struct rpc_fixture fixture = { .client = NULL };
    struct baton_status st = rpc_client_create(&options, &fixture.client);
    cr_assert(baton_ok(&st));
    struct rpc_result result = rpc_fixture_get(&fixture, "m", NULL);
    cr_assert_eq(result.status.code, BATON_UNAVAILABLE);
    cr_assert_not_null(strstr(result.status.message, "127.0.0.1:1"));
    cr_assert_not_null(strstr(result.status.hint, "127.0.0.1:1"));
    struct rpc_call_options waiting = { .timeout_ns = 100 * MS, .wait_for_ready = true };
    result = rpc_fixture_get(&fixture, "m", &waiting);
    cr_assert_eq(result.status.code, BATON_DEADLINE_EXCEEDED);
    rpc_client_destroy(fixture.client);
}

/* Requests above the limit are refused by the server, replies above it by the client. */
Test(rpc, message_limits)
{
    struct rpc_fixture fixture;
    rpc_fixture_start_with(&fixture, (struct rpc_server_options){ .message_bytes_max = 4096 },
                           (struct rpc_client_options){ .message_bytes_max = 1024 });
    char name[8192];
    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    struct rpc_result result = rpc_fixture_get(&fixture, name, NULL);
    cr_assert_eq(result.status.code, BATON_RESOURCE_EXHAUSTED);
    cr_assert_eq(result.status.reason, BATON_REASON_LIMIT);
    cr_assert_eq(fixture.requests, 0);
    name[300] = '\0';
    result = rpc_fixture_get(&fixture, name, NULL);
    cr_assert(baton_ok(&result.status));
    baton_wire_free(result.message);
    rpc_fixture_stop(&fixture);
}

/* A route's own limit refuses the call that is too many, and only while it is. */
Test(rpc, calls_of_a_route_are_limited)
{
    struct rpc_fixture fixture;
    rpc_fixture_start(&fixture);
    struct outcome first = { .fixture = &fixture };
    struct outcome second = { .fixture = &fixture };
    suspend(&fixture, 0, note, &first);
    struct rpc_call *held = rpc_fixture_take_held(&fixture);
    suspend(&fixture, 0, note, &second);
    cr_assert(rpc_fixture_wait(&fixture, &second.count, 1));
    cr_assert_eq(second.status.code, BATON_RESOURCE_EXHAUSTED);
    cr_assert_eq(second.status.reason, BATON_REASON_LIMIT);
    cr_assert_not_null(strstr(second.status.message, "Models/Suspend"));
    Baton__V1__Model model;
    baton__v1__model__init(&model);
    rpc_reply(held, &model);
    rpc_call_unref(held);
    cr_assert(rpc_fixture_wait(&fixture, &first.count, 1));
    cr_assert(baton_ok(&first.status));
    rpc_fixture_stop(&fixture);
}

/* The server's limit of open calls. */
Test(rpc, all_calls_are_limited)
{
    struct rpc_fixture fixture;
    rpc_fixture_start_with(&fixture, (struct rpc_server_options){ .calls_max = 1 },
                           (struct rpc_client_options){ .target = NULL });
    struct outcome first = { .fixture = &fixture };
    suspend(&fixture, 0, note, &first);
    struct rpc_call *held = rpc_fixture_take_held(&fixture);
    struct rpc_result result = rpc_fixture_get(&fixture, "m", NULL);
    cr_assert_eq(result.status.code, BATON_RESOURCE_EXHAUSTED);
    cr_assert_not_null(strstr(result.status.message, "calls_max"));
    rpc_call_unref(held);
    rpc_fixture_stop(&fixture);
}

static struct baton_status refuse(struct rpc_call *call, void *context)
{
    const Baton__V1__GetModelRequest *request = rpc_call_request(call);
    (void)context;
    cr_assert_str_eq(request->name, "m", "the hook sees the request");
    return rpc_call_metadata(call, "x-role").data != NULL
               ? baton_status_ok()
               : baton_status_make(BATON_PERMISSION_DENIED, BATON_REASON_NONE, "no role");
}

/* The authorize hook stands before the handler. */
Test(rpc, authorize_hook)
{
    struct rpc_fixture fixture;
    rpc_fixture_start_with(&fixture, (struct rpc_server_options){ .authorize = refuse },
                           (struct rpc_client_options){ .target = NULL });
    struct rpc_result result = rpc_fixture_get(&fixture, "m", NULL);
    cr_assert_eq(result.status.code, BATON_PERMISSION_DENIED);
    cr_assert_eq(fixture.requests, 0);
    struct rpc_metadata pair = { "x-role", "operator" };
    struct rpc_call_options options = { .metadata = &pair, .metadata_count = 1 };
    result = rpc_fixture_get(&fixture, "m", &options);
    cr_assert(baton_ok(&result.status));
    baton_wire_free(result.message);
    rpc_fixture_stop(&fixture);
}

/* What the hooks around a call saw; each test is a process of its own. */
static atomic_uint ended_ok;
static atomic_uint ended_exhausted;

static struct baton_status admit_marked(struct rpc_call *call, void *context,
                                        struct rpc_error_details *details)
{
    (void)context;
    cr_assert_null(rpc_call_request(call), "it is asked before the request is read");
    rpc_call_set_mark(call, 7);
    if (rpc_call_metadata(call, "x-again").data == NULL) {
        return baton_status_ok();
    }
    details->retry_after_ns = 250 * MS;
    return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT, "called too often");
}

static void count_ended(struct rpc_call *call, enum baton_code code, void *context)
{
    (void)context;
    cr_assert_eq(rpc_call_mark(call), 7);
    atomic_fetch_add(code == BATON_OK ? &ended_ok : &ended_exhausted, 1);
}

static void wait_for_count(atomic_uint *counter, unsigned wanted)
{
    uint64_t end = baton_clock_monotonic_ns() + 20 * BATON_NS_PER_S;
    while (atomic_load(counter) < wanted && baton_clock_monotonic_ns() < end) {
        (void)usleep(1000);
    }
    cr_assert_eq(atomic_load(counter), wanted);
}

/* The admit hook stands before the request, also of health; its refusal says when to try again; each end is told. */
Test(rpc, admit_and_ended_hooks)
{
    struct rpc_fixture fixture;
    rpc_fixture_start_with(
        &fixture, (struct rpc_server_options){ .admit = admit_marked, .ended = count_ended },
        (struct rpc_client_options){ .target = NULL });
    struct rpc_metadata pair = { "x-again", "1" };
    struct rpc_call_options options = { .metadata = &pair, .metadata_count = 1 };
    struct rpc_result result = rpc_fixture_get(&fixture, "m", &options);
    cr_assert_eq(result.status.code, BATON_RESOURCE_EXHAUSTED);
    cr_assert_eq(fixture.requests, 0);
    result = rpc_fixture_get(&fixture, "m", NULL);
    cr_assert(baton_ok(&result.status), "%s", result.status.message);
    baton_wire_free(result.message);
    wait_for_count(&ended_ok, 1);
    wait_for_count(&ended_exhausted, 1);
    rpc_fixture_stop(&fixture);
}

/* --- listeners --- */

static struct baton_status listen_on(const char *address)
{
    struct rpc_listener listener = { .address = address };
    struct rpc_server_options options = { .listeners = &listener, .listeners_count = 1 };
    struct rpc_server *server = NULL;
    struct baton_status st = rpc_server_create(&options, &server);
    rpc_server_destroy(server);
    return st;
}

/* A taken port is an error that says what to do, never a shared port. */
Test(rpc, port_taken)
{
    struct rpc_fixture fixture;
    rpc_fixture_start(&fixture);
    struct baton_status st = listen_on(fixture.address);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION, "%s", st.message);
    cr_assert_eq(st.reason, BATON_REASON_IN_USE);
    cr_assert_not_null(strstr(st.message, fixture.address));
    cr_assert_neq(st.hint[0], '\0');
    rpc_fixture_stop(&fixture);
}

/* Addresses that are none. */
Test(rpc, bad_addresses)
{
    static const char *const BAD[] = { "",       "localhost", ":80",  "host:", "host:http",
                                       "::1:80", "h:70000",   "h:-1", "unix:", "h:8 " };
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
        struct baton_status st = listen_on(BAD[i]);
        cr_assert_eq(st.code, BATON_INVALID_ARGUMENT, "\"%s\"", BAD[i]);
        cr_assert_neq(st.hint[0], '\0', "\"%s\"", BAD[i]);
    }
}

/* Two listeners of one server; a live Unix socket is not taken away, a dead one is replaced. */
Test(rpc, unix_socket)
{
    char folder[] = "/tmp/baton-rpc-XXXXXX";
    cr_assert_not_null(mkdtemp(folder));
    char address[64];
    (void)snprintf(address, sizeof(address), "unix:%s/s", folder);
    struct rpc_listener listeners[] = { { .address = "127.0.0.1:0" }, { .address = address } };
    struct rpc_fixture fixture;
    rpc_fixture_start_with(
        &fixture, (struct rpc_server_options){ .listeners = listeners, .listeners_count = 2 },
        (struct rpc_client_options){ .target = address });
    struct rpc_result result = rpc_fixture_get(&fixture, "peer", NULL);
    cr_assert(baton_ok(&result.status), "%s", result.status.message);
    cr_assert_str_eq(model_name(&result), "1 0 local");
    baton_wire_free(result.message);
    struct baton_status st = listen_on(address);
    cr_assert_eq(st.reason, BATON_REASON_IN_USE, "%s", st.message);
    result = rpc_fixture_get(&fixture, "still there", NULL);
    cr_assert(baton_ok(&result.status), "%s", result.status.message);
    baton_wire_free(result.message);
    rpc_fixture_stop(&fixture);
    st = listen_on(address);
    cr_assert(baton_ok(&st), "%s", st.message);
    (void)unlink(address + 5);
    (void)rmdir(folder);
}

/* A route that no proto has, or that comes twice, stops the server before it starts. */
Test(rpc, wrong_routes)
{
    struct rpc_listener listener = { .address = "127.0.0.1:0" };
    struct rpc_route routes[2] = { rpc_fixture_routes[0], rpc_fixture_routes[0] };
    struct rpc_server_options options = {
        .routes = routes, .routes_count = 2, .listeners = &listener, .listeners_count = 1
    };
    struct rpc_server *server = NULL;
    struct baton_status st = rpc_server_create(&options, &server);
    cr_assert_eq(st.code, BATON_INTERNAL);
    cr_assert_not_null(strstr(st.message, "twice"));
    routes[1].method = "baton.v1.Models/Nothing";
    st = rpc_server_create(&options, &server);
    cr_assert_not_null(strstr(st.message, "baton.v1.Models/Nothing"));
}

/* --- drain --- */

struct drainer {
    struct rpc_server *server;
    uint64_t grace_ns;
    pthread_t thread;
};

static void *drain(void *argument)
{
    struct drainer *drainer = argument;
    rpc_server_drain(drainer->server, drainer->grace_ns);
    return NULL;
}

/* A unary call in progress may end while the server drains; the connection takes no new one. */
Test(rpc, drain_lets_calls_end)
{
    struct rpc_fixture fixture;
    rpc_fixture_start(&fixture);
    struct outcome outcome = { .fixture = &fixture };
    suspend(&fixture, 0, note, &outcome);
    struct rpc_call *held = rpc_fixture_take_held(&fixture);
    struct drainer drainer = { .server = fixture.server, .grace_ns = 20 * BATON_NS_PER_S };
    cr_assert_eq(pthread_create(&drainer.thread, NULL, drain, &drainer), 0);
    struct rpc_result result = { .message = NULL };
    do { /* Until the drain began. */
        baton_wire_free(result.message);
        result = rpc_fixture_get(&fixture, "m", NULL);
    } while (baton_ok(&result.status));
    cr_assert_eq(result.status.code, BATON_UNAVAILABLE, "%s", result.status.message);
    Baton__V1__Model model;
    baton__v1__model__init(&model);
    rpc_reply(held, &model);
    rpc_call_unref(held);
    cr_assert_eq(pthread_join(drainer.thread, NULL), 0);
    cr_assert(rpc_fixture_wait(&fixture, &outcome.count, 1));
    cr_assert(baton_ok(&outcome.status), "%s", outcome.status.message);
    rpc_fixture_stop(&fixture);
}

/* What does not end within the grace is cut. */
Test(rpc, drain_cuts_what_stays)
{
    struct rpc_fixture fixture;
    rpc_fixture_start(&fixture);
    struct outcome outcome = { .fixture = &fixture };
    suspend(&fixture, 0, note, &outcome);
    struct rpc_call *held = rpc_fixture_take_held(&fixture);
    rpc_server_drain(fixture.server, 50 * MS);
    cr_assert(rpc_call_is_cancelled(held));
    cr_assert(rpc_fixture_wait(&fixture, &outcome.count, 1));
    cr_assert_eq(outcome.status.code, BATON_UNAVAILABLE, "%s", outcome.status.message);
    rpc_call_unref(held);
    rpc_fixture_stop(&fixture);
}

/* A client finds a server that went away and came back at the same address. */
Test(rpc, client_reconnects)
{
    struct rpc_fixture fixture;
    rpc_fixture_start(&fixture);
    struct rpc_result result = rpc_fixture_get(&fixture, "before", NULL);
    cr_assert(baton_ok(&result.status));
    baton_wire_free(result.message);
    struct rpc_client *client = fixture.client;
    fixture.client = NULL;
    struct rpc_fixture second;
    rpc_server_destroy(fixture.server);
    struct rpc_listener listener = { .address = fixture.address };
    rpc_fixture_start_with(
        &second, (struct rpc_server_options){ .listeners = &listener, .listeners_count = 1 },
        (struct rpc_client_options){ .target = NULL });
    rpc_client_destroy(second.client);
    second.client = client;
    struct rpc_call_options options = { .timeout_ns = 20 * BATON_NS_PER_S, .wait_for_ready = true };
    result = rpc_fixture_get(&second, "after", &options);
    cr_assert(baton_ok(&result.status), "%s", result.status.message);
    baton_wire_free(result.message);
    rpc_fixture_stop(&second);
}

/* Destroying a client ends what it has open: the callback still comes, once. */
Test(rpc, client_destroy_ends_calls)
{
    struct rpc_fixture fixture;
    rpc_fixture_start(&fixture);
    struct outcome outcome = { .fixture = &fixture };
    suspend(&fixture, 0, note, &outcome);
    struct rpc_call *held = rpc_fixture_take_held(&fixture);
    rpc_client_destroy(fixture.client);
    fixture.client = NULL;
    cr_assert_eq(outcome.count, 1);
    cr_assert_eq(outcome.status.code, BATON_CANCELLED);
    rpc_call_unref(held);
    rpc_fixture_stop(&fixture);
}
