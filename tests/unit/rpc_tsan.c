/* rpc_tsan.c -- many threads on one server and one client, for the thread sanitizer.
 *
 * A plain program, as Criterion cannot start under it.  Calls of every shape run at once, replies come
 * from another thread, health changes, streams are cancelled, and at the end the server drains while
 * all that still goes on.  Exits 0 when every call ended in a way that it may. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/base/clock.h"
#include "baton/v1/agent_session.pb-c.h"
#include "baton/v1/fleet.pb-c.h"
#include "baton/v1/models.pb-c.h"
#include "baton/v1/versions.pb-c.h"
#include "tests/unit/rpc_fixture.h"

enum { THREADS = 4, ROUNDS = 150 };

struct worker {
    pthread_t thread;
    struct rpc_fixture *fixture;
    atomic_bool *is_draining;
    unsigned ended; /* Streams whose end came. */
};

static void check(bool holds, const char *what)
{
    if (!holds) {
        (void)fprintf(stderr, "rpc_tsan: %s\n", what);
        exit(1);
    }
}

/* A failure is fine only while the server drains. */
static void check_status(const struct worker *worker, const struct baton_status *st)
{
    bool may_fail = atomic_load(worker->is_draining);
    check(baton_ok(st) || may_fail, st->message);
}

static void get(struct worker *worker)
{
    struct rpc_result result = rpc_fixture_get(worker->fixture, "m", NULL);
    check_status(worker, &result.status);
    baton_wire_free(result.message);
}

static void read_events(struct worker *worker, bool is_cancelled)
{
    struct rpc_stream *stream = rpc_fixture_events(worker->fixture, "", 20, NULL, NULL);
    struct rpc_next next;
    do {
        next = rpc_stream_next(stream, RPC_NO_TIMEOUT);
        baton_wire_free(next.message);
    } while (next.kind == RPC_NEXT_MESSAGE && !is_cancelled);
    if (!is_cancelled) {
        check_status(worker, &next.status);
    }
    rpc_stream_unref(stream);
}

static void upload(struct worker *worker)
{
    static uint8_t bytes[32 << 10];
    struct rpc_stream *stream = rpc_stream_open(
        worker->fixture->client, "baton.v1.Versions/AddManifestPart", NULL, NULL, NULL, NULL);
    Baton__V1__AddManifestPartRequest part;
    baton__v1__add_manifest_part_request__init(&part);
    part.part = (ProtobufCBinaryData){ sizeof(bytes), bytes };
    for (int i = 0; i < 4; i++) {
        struct baton_status st = rpc_stream_send_wait(stream, &part, RPC_NO_TIMEOUT);
        check_status(worker, &st);
    }
    rpc_stream_send_done(stream);
    struct rpc_next next = rpc_stream_next(stream, RPC_NO_TIMEOUT);
    check_status(worker, &next.status);
    baton_wire_free(next.message);
    rpc_stream_unref(stream);
}

static void on_message(struct rpc_stream *stream, void *message, void *context)
{
    (void)context;
    baton_wire_free(message);
    rpc_stream_send_done(stream);
    rpc_stream_read_next(stream);
}

static void on_end(struct rpc_stream *stream, const struct baton_status *status, void *context)
{
    (void)stream;
    struct worker *worker = context;
    check_status(worker, status);
    pthread_mutex_lock(&worker->fixture->mutex);
    worker->ended++;
    pthread_cond_broadcast(&worker->fixture->changed);
    pthread_mutex_unlock(&worker->fixture->mutex);
}

static void hold_session(struct worker *worker, unsigned round)
{
    static const struct rpc_stream_events EVENTS = { .on_message = on_message, .on_end = on_end };
    struct rpc_stream *stream = rpc_stream_open(
        worker->fixture->client, "baton.v1.AgentSession/Session", NULL, NULL, &EVENTS, worker);
    Baton__V1__SessionRequest request;
    baton__v1__session_request__init(&request);
    struct baton_status st = rpc_stream_send(stream, &request);
    check_status(worker, &st);
    check(rpc_fixture_wait(worker->fixture, &worker->ended, round + 1), "a session has no end");
    rpc_stream_unref(stream);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    for (unsigned round = 0; round < ROUNDS; round++) {
        get(worker);
        read_events(worker, round % 3 == 0);
        upload(worker);
        hold_session(worker, round);
    }
    return NULL;
}

/* Answers what Models/Suspend holds, as a daemon's control thread does. */
static void *answer(void *argument)
{
    struct rpc_fixture *fixture = argument;
    Baton__V1__Model model;
    baton__v1__model__init(&model);
    for (int round = 0; round < ROUNDS; round++) {
        struct rpc_call *held = rpc_fixture_take_held(fixture);
        check(held != NULL, "no call came to be answered");
        rpc_reply(held, &model);
        rpc_call_unref(held);
        rpc_health_set_all(fixture->server,
                           round % 2 == 0 ? RPC_HEALTH_SERVING : RPC_HEALTH_NOT_SERVING);
    }
    return NULL;
}

static void *suspend(void *argument)
{
    struct rpc_fixture *fixture = argument;
    Baton__V1__SuspendModelRequest request;
    baton__v1__suspend_model_request__init(&request);
    for (int done = 0; done < ROUNDS;) {
        struct rpc_result result =
            rpc_unary(fixture->client, "baton.v1.Models/Suspend", &request, NULL);
        /* One at a time: the one before may still count for a moment. */
        check(baton_ok(&result.status) || result.status.code == BATON_RESOURCE_EXHAUSTED,
              result.status.message);
        done += baton_ok(&result.status);
        baton_wire_free(result.message);
    }
    return NULL;
}

/* Runs the workers; with 'drain' the server goes away in their midst. */
static void run(bool drain)
{
    struct rpc_fixture fixture;
    struct worker workers[THREADS];
    atomic_bool is_draining = false;
    pthread_t pair[2];
    rpc_fixture_start_with(&fixture, (struct rpc_server_options){ .threads = 2 },
                           (struct rpc_client_options){ .target = NULL });
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .fixture = &fixture, .is_draining = &is_draining };
        check(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0, "no thread");
    }
    if (drain) {
        check(rpc_fixture_wait(&fixture, &fixture.dones, ROUNDS), "no progress");
        atomic_store(&is_draining, true);
        rpc_server_drain(fixture.server, BATON_NS_PER_S);
    } else {
        check(pthread_create(&pair[0], NULL, answer, &fixture) == 0, "no thread");
        check(pthread_create(&pair[1], NULL, suspend, &fixture) == 0, "no thread");
        (void)pthread_join(pair[0], NULL);
        (void)pthread_join(pair[1], NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(workers[i].thread, NULL);
    }
    rpc_fixture_stop(&fixture);
    check(fixture.dones >= fixture.cancels, "more cancels than ends");
}

int main(void)
{
    run(false);
    run(true);
    return 0;
}
