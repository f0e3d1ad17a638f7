/* rpc_fixture.c -- see rpc_fixture.h. */
#include "tests/unit/rpc_fixture.h"

#include <stdio.h>
#include <string.h>

#include "api/base/clock.h"
#include "baton/v1/agent_session.pb-c.h"
#include "baton/v1/fleet.pb-c.h"
#include "baton/v1/models.pb-c.h"
#include "baton/v1/versions.pb-c.h"

#define WAIT_S 20

static void count(struct rpc_fixture *fixture, unsigned *counter)
{
    pthread_mutex_lock(&fixture->mutex);
    (*counter)++;
    pthread_cond_broadcast(&fixture->changed);
    pthread_mutex_unlock(&fixture->mutex);
}

static struct timespec wait_end(void)
{
    struct timespec end;
    (void)clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += WAIT_S;
    return end;
}

bool rpc_fixture_wait(struct rpc_fixture *fixture, const unsigned *counter, unsigned wanted)
{
    struct timespec end = wait_end();
    int error = 0;
    pthread_mutex_lock(&fixture->mutex);
    while (*counter < wanted && error == 0) {
        error = pthread_cond_timedwait(&fixture->changed, &fixture->mutex, &end);
    }
    bool is_there = *counter >= wanted;
    pthread_mutex_unlock(&fixture->mutex);
    return is_there;
}

struct rpc_call *rpc_fixture_take_held(struct rpc_fixture *fixture)
{
    struct timespec end = wait_end();
    int error = 0;
    pthread_mutex_lock(&fixture->mutex);
    while (fixture->held == NULL && error == 0) {
        error = pthread_cond_timedwait(&fixture->changed, &fixture->mutex, &end);
    }
    struct rpc_call *held = fixture->held;
    fixture->held = NULL;
    pthread_mutex_unlock(&fixture->mutex);
    return held;
}

/* --- handlers --- */

static void reply_model(struct rpc_call *call, const char *name)
{
    Baton__V1__Model *model = baton_wire_new(&baton__v1__model__descriptor);
    model->meta = baton_wire_part(model, &baton__v1__object_meta__descriptor);
    model->meta->name = baton_wire_text(model, name);
    rpc_reply(call, model);
    baton_wire_free(model);
}

/* "held": every kind of detail; "field": a wrong field; "peer", "id", "metadata", "deadline": what
 * the call knows; "big": a reply above the client's limit; else the name comes back. */
static void get_model(struct rpc_call *call, const void *request, void *context)
{
    const char *name = ((const Baton__V1__GetModelRequest *)request)->name;
    struct rpc_fixture *fixture = context;
    count(fixture, &fixture->requests);
    char text[RPC_IDENTITY_BYTES + 64] = "";
    if (strcmp(name, "held") == 0) {
        struct baton_status st =
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_HELD, "model m is held");
        st = baton_status_hint(st, "resume it");
        struct rpc_error_details details = { .subject = "model/m", .retry_after_ns = 1500000000 };
        rpc_finish_with(call, &st, &details);
        return;
    }
    if (strcmp(name, "field") == 0) {
        struct baton_status st = rpc_status_field("update.maxUnavailable", "must be above 0");
        rpc_finish(call, &st);
        return;
    }
    if (strcmp(name, "peer") == 0) {
        struct rpc_peer peer;
        rpc_call_peer(call, &peer);
        (void)snprintf(text, sizeof(text), "%d %zu %s", (int)peer.principal, peer.names_count,
                       peer.identity);
    } else if (strcmp(name, "id") == 0) {
        (void)snprintf(text, sizeof(text), "%s", rpc_call_request_id(call));
    } else if (strcmp(name, "deadline") == 0) {
        uint64_t left_ns = rpc_call_deadline_ns(call) - baton_clock_monotonic_ns();
        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)left_ns);
    } else {
        (void)snprintf(text, sizeof(text), "%s", name);
    }
    reply_model(call, text);
}

static void on_done(struct rpc_call *call, bool cancelled, void *context)
{
    (void)call;
    struct rpc_fixture *fixture = context;
    if (cancelled) {
        count(fixture, &fixture->cancels);
    }
    count(fixture, &fixture->dones);
}

static const struct rpc_receiver ONLY_DONE = { .on_done = on_done };

/* Kept for the test; with a name that begins with 'w' it watches for its end. */
static void suspend_model(struct rpc_call *call, const void *request, void *context)
{
    struct rpc_fixture *fixture = context;
    if (((const Baton__V1__SuspendModelRequest *)request)->name[0] == 'w') {
        rpc_call_receive(call, &ONLY_DONE, context);
    }
    pthread_mutex_lock(&fixture->mutex);
    fixture->held = rpc_call_ref(call);
    pthread_cond_broadcast(&fixture->changed);
    pthread_mutex_unlock(&fixture->mutex);
}

static void send_flood(struct rpc_call *call)
{
    static char text[1024];
    memset(text, 'x', sizeof(text) - 1);
    Baton__V1__Event event;
    baton__v1__event__init(&event);
    event.message = text;
    struct baton_status st = baton_status_ok();
    while (baton_ok(&st)) {
        st = rpc_send(call, &event);
    }
}

/* The same bytes so often, and they are given up before they went out. */
static void send_shared(struct rpc_call *call, uint64_t times)
{
    Baton__V1__Event event;
    baton__v1__event__init(&event);
    event.number = 7;
    struct rpc_encoded *encoded = rpc_encode(&event);
    for (uint64_t i = 0; i < times; i++) {
        (void)rpc_send_encoded(call, encoded);
    }
    rpc_encoded_free(encoded);
    struct baton_status ok = baton_status_ok();
    rpc_finish(call, &ok);
}

static void events(struct rpc_call *call, const void *request, void *context)
{
    const Baton__V1__EventsRequest *asked = request;
    struct rpc_fixture *fixture = context;
    rpc_call_receive(call, &ONLY_DONE, context);
    if (strcmp(asked->object, "quiet") == 0) {
        count(fixture, &fixture->quiets);
        return;
    }
    if (strcmp(asked->object, "flood") == 0) {
        send_flood(call);
        return;
    }
    if (strcmp(asked->object, "shared") == 0) {
        send_shared(call, asked->after);
        return;
    }
    for (uint64_t i = 0; i < asked->after; i++) {
        Baton__V1__Event event;
        baton__v1__event__init(&event);
        event.number = i + 1;
        (void)rpc_send(call, &event);
    }
    struct baton_status ok = baton_status_ok();
    rpc_finish(call, &ok);
}

static void on_part(struct rpc_call *call, void *message, void *context)
{
    (void)context;
    const Baton__V1__AddManifestPartRequest *part = message;
    uintptr_t parts = (uintptr_t)rpc_call_data(call) + 1;
    rpc_call_set_data(call, (void *)parts);
    bool is_refused = strcmp(part->version_uid, "refuse") == 0;
    baton_wire_free(message);
    if (is_refused) {
        struct baton_status st = rpc_status_field("versionUid", "there is no such version");
        rpc_finish(call, &st);
        return;
    }
    rpc_call_read_next(call);
}

static void on_parts_end(struct rpc_call *call, void *context)
{
    struct rpc_fixture *fixture = context;
    count(fixture, &fixture->half_closes);
    Baton__V1__AddManifestPartResponse reply;
    baton__v1__add_manifest_part_response__init(&reply);
    reply.parts = (uint32_t)(uintptr_t)rpc_call_data(call);
    rpc_reply(call, &reply);
}

static void add_parts(struct rpc_call *call, const void *request, void *context)
{
    static const struct rpc_receiver RECEIVER = { .on_message = on_part,
                                                  .on_half_close = on_parts_end,
                                                  .on_done = on_done };
    (void)request;
    rpc_call_receive(call, &RECEIVER, context);
}

static void on_session_message(struct rpc_call *call, void *message, void *context)
{
    (void)context;
    const Baton__V1__SessionRequest *request = message;
    bool is_report = request->message_case == BATON__V1__SESSION_REQUEST__MESSAGE_REPORT;
    baton_wire_free(message);
    if (is_report) {
        struct baton_status st =
            baton_status_make(BATON_ABORTED, BATON_REASON_STALE_EPOCH, "a newer session came");
        rpc_finish(call, &st);
        return;
    }
    Baton__V1__SessionResponse *reply = baton_wire_new(&baton__v1__session_response__descriptor);
    reply->message_case = BATON__V1__SESSION_RESPONSE__MESSAGE_WELCOME;
    reply->welcome = baton_wire_part(reply, &baton__v1__welcome__descriptor);
    (void)rpc_send(call, reply);
    baton_wire_free(reply);
    rpc_call_read_next(call);
}

static void on_session_end(struct rpc_call *call, void *context)
{
    struct rpc_fixture *fixture = context;
    count(fixture, &fixture->half_closes);
    struct baton_status ok = baton_status_ok();
    rpc_finish(call, &ok);
}

static void session(struct rpc_call *call, const void *request, void *context)
{
    static const struct rpc_receiver RECEIVER = { .on_message = on_session_message,
                                                  .on_half_close = on_session_end,
                                                  .on_done = on_done };
    (void)request;
    rpc_call_receive(call, &RECEIVER, context);
}

const struct rpc_route rpc_fixture_routes[] = {
    { "baton.v1.Models/Get", get_model, 0 },
    { "baton.v1.Models/Suspend", suspend_model, 1 },
    { "baton.v1.Fleet/Events", events, 0 },
    { "baton.v1.Versions/AddManifestPart", add_parts, 0 },
    { "baton.v1.AgentSession/Session", session, 0 },
};
const size_t rpc_fixture_routes_count = sizeof(rpc_fixture_routes) / sizeof(rpc_fixture_routes[0]);

/* --- life --- */

void rpc_fixture_start_with(struct rpc_fixture *fixture, struct rpc_server_options options,
                            struct rpc_client_options client_options)
{
    static const struct rpc_listener LISTENER = { .address = "127.0.0.1:0" };
    *fixture = (struct rpc_fixture){ .held = NULL };
    pthread_mutex_init(&fixture->mutex, NULL);
    pthread_cond_init(&fixture->changed, NULL);
    options.routes = rpc_fixture_routes;
    options.routes_count = rpc_fixture_routes_count;
    options.context = fixture;
    if (options.listeners == NULL) {
        options.listeners = &LISTENER;
        options.listeners_count = 1;
    }
    struct baton_status st = rpc_server_create(&options, &fixture->server);
    baton_assert(baton_ok(&st));
    rpc_server_start(fixture->server);
    (void)snprintf(fixture->address, sizeof(fixture->address), "127.0.0.1:%u",
                   (unsigned)rpc_server_port(fixture->server, 0));
    if (client_options.target == NULL) {
        client_options.target = fixture->address;
    }
    st = rpc_client_create(&client_options, &fixture->client);
    baton_assert(baton_ok(&st));
}

void rpc_fixture_start(struct rpc_fixture *fixture)
{
    rpc_fixture_start_with(fixture, (struct rpc_server_options){ .threads = 0 },
                           (struct rpc_client_options){ .target = NULL });
}

void rpc_fixture_stop(struct rpc_fixture *fixture)
{
    rpc_client_destroy(fixture->client);
    rpc_call_unref(fixture->held);
    rpc_server_destroy(fixture->server);
    pthread_cond_destroy(&fixture->changed);
    pthread_mutex_destroy(&fixture->mutex);
}

/* --- calls --- */

struct rpc_result rpc_fixture_get(struct rpc_fixture *fixture, const char *name,
                                  const struct rpc_call_options *options)
{
    Baton__V1__GetModelRequest request;
    baton__v1__get_model_request__init(&request);
    request.name = (char *)(uintptr_t)name;
    return rpc_unary(fixture->client, "baton.v1.Models/Get", &request, options);
}

struct rpc_stream *rpc_fixture_events(struct rpc_fixture *fixture, const char *object,
                                      uint64_t number, const struct rpc_stream_events *handlers,
                                      void *context)
{
    Baton__V1__EventsRequest request;
    baton__v1__events_request__init(&request);
    request.object = (char *)(uintptr_t)object;
    request.after = number;
    return rpc_stream_open(fixture->client, "baton.v1.Fleet/Events", &request, NULL, handlers,
                           context);
}
