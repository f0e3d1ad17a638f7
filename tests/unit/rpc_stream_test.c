/* rpc_stream_test.c -- server, client and bidi streams from both ends; see api/rpc/rpc.h. */
#include <criterion/criterion.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "api/base/clock.h"
#include "baton/v1/agent_session.pb-c.h"
#include "baton/v1/fleet.pb-c.h"
#include "baton/v1/versions.pb-c.h"
#include "tests/unit/rpc_fixture.h"

#define WAIT_NS (20 * BATON_NS_PER_S)

/* Reads to the end; gives the number of messages and how it ended. */
static unsigned read_all(struct rpc_stream *stream, struct baton_status *end)
{
    unsigned count = 0;
    for (;;) {
        struct rpc_next next = rpc_stream_next(stream, WAIT_NS);
        if (next.kind != RPC_NEXT_MESSAGE) {
            cr_assert_eq(next.kind, RPC_NEXT_END);
            *end = next.status;
            return count;
        }
        count++;
        baton_wire_free(next.message);
    }
}

/* All messages come in order, then OK, and OK again. */
Test(rpc_stream, server_stream)
{
    struct rpc_fixture fixture;
    rpc_fixture_start(&fixture);
    struct rpc_stream *stream = rpc_fixture_events(&fixture, "", 1000, NULL, NULL);
    for (uint64_t i = 1; i <= 1000; i++) {
        struct rpc_next next = rpc_stream_next(stream, WAIT_NS);
        cr_assert_eq(next.kind, RPC_NEXT_MESSAGE, "%s", next.status.message);
        cr_assert_eq(((Baton__V1__Event *)next.message)->number, i);
        baton_wire_free(next.message);
    }
    struct baton_status end;
    cr_assert_eq(read_all(stream, &end), 0);
    cr_assert(baton_ok(&end));
    cr_assert_eq(read_all(stream, &end), 0);
    rpc_stream_unref(stream);
    cr_assert(rpc_fixture_wait(&fixture, &fixture.dones, 1));
    cr_assert_eq(fixture.cancels, 0);
    rpc_fixture_stop(&fixture);
}

/* What was encoded once arrives whole each time. */
Test(rpc_stream, shared_bytes)
{
    struct rpc_fixture fixture;
    rpc_fixture_start(&fixture);
    struct rpc_stream *stream = rpc_fixture_events(&fixture, "shared", 50, NULL, NULL);
    for (int i = 0; i < 50; i++) {
        struct rpc_next next = rpc_stream_next(stream, WAIT_NS);
        cr_assert_eq(next.kind, RPC_NEXT_MESSAGE, "%s", next.status.message);
        cr_assert_eq(((Baton__V1__Event *)next.message)->number, 7);
        baton_wire_free(next.message);
    }
    struct baton_status end;
    cr_assert_eq(read_all(stream, &end), 0);
    cr_assert(baton_ok(&end));
    rpc_stream_unref(stream);
    rpc_fixture_stop(&fixture);
}

/* A timeout of the reader leaves the stream alone; dropping it tells the server, once. */
Test(rpc_stream, timeout_then_cancel)
{
    struct rpc_fixture fixture;
    rpc_fixture_start(&fixture);
    struct rpc_stream *stream = rpc_fixture_events(&fixture, "quiet", 0, NULL, NULL);
    struct rpc_next next = rpc_stream_next(stream, BATON_NS_PER_MS);
    cr_assert_eq(next.kind, RPC_NEXT_TIMEOUT);
    cr_assert(rpc_fixture_wait(&fixture, &fixture.quiets, 1));
    rpc_stream_cancel(stream);
    struct baton_status end;
    cr_assert_eq(read_all(stream, &end), 0);
    cr_assert_eq(end.code, BATON_CANCELLED);
    rpc_stream_unref(stream);
    cr_assert(rpc_fixture_wait(&fixture, &fixture.cancels, 1));
    rpc_fixture_stop(&fixture);
    cr_assert_eq(fixture.dones, 1);
}

/* A lost connection is a cancellation for the server's stream. */
Test(rpc_stream, client_goes_away)
{
    struct rpc_fixture fixture;
    rpc_fixture_start(&fixture);
    struct rpc_stream *stream = rpc_fixture_events(&fixture, "", 1, NULL, NULL);
    struct baton_status end;
    cr_assert_eq(read_all(stream, &end), 1);
    rpc_stream_unref(stream);
    stream = rpc_fixture_events(&fixture, "quiet", 0, NULL, NULL);
    cr_assert(rpc_fixture_wait(&fixture, &fixture.quiets, 1));
    rpc_client_destroy(fixture.client);
    fixture.client = NULL;
    cr_assert(rpc_fixture_wait(&fixture, &fixture.cancels, 1));
    cr_assert_eq(read_all(stream, &end), 0);
    cr_assert_eq(end.code, BATON_CANCELLED);
    rpc_stream_unref(stream);
    rpc_fixture_stop(&fixture);
    cr_assert_eq(fixture.dones, 2);
    cr_assert_eq(fixture.cancels, 1);
}

/* A reader that does not read is cut when the queue is full, with a code that says why. */
Test(rpc_stream, slow_reader_is_cut)
{
    struct rpc_fixture fixture;
    rpc_fixture_start_with(&fixture,
                           (struct rpc_server_options){ .send_queue_bytes_max = 256 << 10 },
                           (struct rpc_client_options){ .target = NULL });
    struct rpc_stream *stream = rpc_fixture_events(&fixture, "flood", 0, NULL, NULL);
    cr_assert(rpc_fixture_wait(&fixture, &fixture.cancels, 1));
    struct baton_status end;
    (void)read_all(stream, &end);
    cr_assert_eq(end.code, BATON_RESOURCE_EXHAUSTED, "%d %s", end.code, end.message);
    cr_assert_eq(end.reason, BATON_REASON_LIMIT);
    cr_assert_not_null(strstr(end.message, "slow"), "%s", end.message);
    rpc_stream_unref(stream);
    rpc_fixture_stop(&fixture);
    cr_assert_eq(fixture.dones, 1);
}

/* What waits for all readers together has a bound, too: who waits longest goes, whatever its own queue has left. */
Test(rpc_stream, the_slowest_of_many_readers_is_cut)
{
    struct rpc_fixture fixture;
    rpc_fixture_start_with(&fixture,
                           (struct rpc_server_options){ .send_queue_bytes_max = 4 << 20,
                                                        .send_queues_bytes_max = 512 << 10 },
                           (struct rpc_client_options){ .target = NULL });
    struct rpc_stream *stream = rpc_fixture_events(&fixture, "flood", 0, NULL, NULL);
    cr_assert(rpc_fixture_wait(&fixture, &fixture.cancels, 1));
    struct baton_status end;
    (void)read_all(stream, &end);
    cr_assert_eq(end.code, BATON_RESOURCE_EXHAUSTED, "%d %s", end.code, end.message);
    size_t waited = 0;
    cr_assert_eq(sscanf(end.message, "the stream's reader is too slow: %zu bytes", &waited), 1);
    cr_assert_leq(waited, 512 << 10, "the bound of its own queue cut it: %s", end.message);
    struct rpc_result result = rpc_fixture_get(&fixture, "qwen3", NULL);
    cr_assert(baton_ok(&result.status), "%s", result.status.message);
    baton_wire_free(result.message);
    rpc_stream_unref(stream);
    rpc_fixture_stop(&fixture);
}

/* A draining server finishes its streams and says why. */
Test(rpc_stream, drain_finishes_streams)
{
    struct rpc_fixture fixture;
    rpc_fixture_start(&fixture);
    struct rpc_stream *stream =
        rpc_stream_open(fixture.client, "baton.v1.AgentSession/Session", NULL, NULL, NULL, NULL);
    Baton__V1__SessionRequest hello;
    baton__v1__session_request__init(&hello);
    struct baton_status st = rpc_stream_send(stream, &hello);
    cr_assert(baton_ok(&st));
    struct rpc_next next = rpc_stream_next(stream, WAIT_NS);
    cr_assert_eq(next.kind, RPC_NEXT_MESSAGE);
    baton_wire_free(next.message);
    rpc_server_drain(fixture.server, WAIT_NS);
    struct baton_status end;
    (void)read_all(stream, &end);
    cr_assert_eq(end.code, BATON_UNAVAILABLE, "%s", end.message);
    cr_assert_eq(end.reason, BATON_REASON_SHUTTING_DOWN);
    rpc_stream_unref(stream);
    rpc_fixture_stop(&fixture);
    cr_assert_eq(fixture.dones, 1);
}

/* --- client stream --- */

static struct rpc_stream *open_parts(struct rpc_fixture *fixture)
{
    return rpc_stream_open(fixture->client, "baton.v1.Versions/AddManifestPart", NULL, NULL, NULL,
                           NULL);
}

static Baton__V1__AddManifestPartRequest part_of(const char *uid, uint8_t *bytes, size_t size)
{
    Baton__V1__AddManifestPartRequest part;
    baton__v1__add_manifest_part_request__init(&part);
    part.version_uid = (char *)(uintptr_t)uid;
    part.part = (ProtobufCBinaryData){ size, bytes };
    return part;
}

/* Far more bytes than the queue holds pass, by waiting for room; the reply comes at the end. */
Test(rpc_stream, client_stream)
{
    static uint8_t bytes[256 << 10];
    struct rpc_fixture fixture;
    rpc_fixture_start_with(&fixture, (struct rpc_server_options){ .threads = 0 },
                           (struct rpc_client_options){ .send_queue_bytes_max = 512 << 10 });
    struct rpc_stream *stream = open_parts(&fixture);
    Baton__V1__AddManifestPartRequest part = part_of("v", bytes, sizeof(bytes));
    for (int i = 0; i < 64; i++) {
        struct baton_status st = rpc_stream_send_wait(stream, &part, WAIT_NS);
        cr_assert(baton_ok(&st), "%s", st.message);
    }
    rpc_stream_send_done(stream);
    struct rpc_next next = rpc_stream_next(stream, WAIT_NS);
    cr_assert_eq(next.kind, RPC_NEXT_MESSAGE, "%s", next.status.message);
    cr_assert_eq(((Baton__V1__AddManifestPartResponse *)next.message)->parts, 64);
    baton_wire_free(next.message);
    next = rpc_stream_next(stream, WAIT_NS);
    cr_assert_eq(next.kind, RPC_NEXT_END);
    cr_assert(baton_ok(&next.status));
    rpc_stream_unref(stream);
    rpc_fixture_stop(&fixture);
    cr_assert_eq(fixture.half_closes, 1);
    cr_assert_eq(fixture.dones, 1);
}

/* A stream that broke off is not taken for a complete one. */
Test(rpc_stream, cancelled_upload_is_no_half_close)
{
    static uint8_t bytes[1024];
    struct rpc_fixture fixture;
    rpc_fixture_start(&fixture);
    struct rpc_stream *stream = open_parts(&fixture);
    Baton__V1__AddManifestPartRequest part = part_of("v", bytes, sizeof(bytes));
    struct baton_status st = rpc_stream_send(stream, &part);
    cr_assert(baton_ok(&st));
    /* A second call over the same connection: the first has arrived when it is answered. */
    baton_wire_free(rpc_fixture_get(&fixture, "m", NULL).message);
    rpc_stream_cancel(stream);
    cr_assert(rpc_fixture_wait(&fixture, &fixture.dones, 1));
    rpc_stream_unref(stream);
    rpc_fixture_stop(&fixture);
    cr_assert_eq(fixture.half_closes, 0);
    cr_assert_eq(fixture.cancels, 1);
}

/* The server may refuse before the client is done; a full queue without waiting is a refusal. */
Test(rpc_stream, refused_upload)
{
    static uint8_t bytes[1024];
    struct rpc_fixture fixture;
    rpc_fixture_start(&fixture);
    struct rpc_stream *stream = open_parts(&fixture);
    Baton__V1__AddManifestPartRequest part = part_of("refuse", bytes, sizeof(bytes));
    struct baton_status st = rpc_stream_send(stream, &part);
    cr_assert(baton_ok(&st));
    struct baton_status end;
    cr_assert_eq(read_all(stream, &end), 0);
    cr_assert_eq(end.code, BATON_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(end.message, "versionUid"));
    st = rpc_stream_send(stream, &part);
    cr_assert_eq(st.code, BATON_CANCELLED);
    rpc_stream_unref(stream);
    rpc_fixture_stop(&fixture);
}

/* A client whose queue is full is told so, and nothing is lost or cut. */
Test(rpc_stream, full_client_queue)
{
    static uint8_t bytes[128 << 10];
    struct rpc_client_options options = { .target = "127.0.0.1:1",
                                          .send_queue_bytes_max = 256 << 10 };
    struct rpc_fixture fixture = { .client = NULL };
    struct baton_status st = rpc_client_create(&options, &fixture.client);
    cr_assert(baton_ok(&st));
    struct rpc_call_options waiting = { .wait_for_ready = true };
    struct rpc_stream *stream = rpc_stream_open(fixture.client, "baton.v1.Versions/AddManifestPart",
                                                NULL, &waiting, NULL, NULL);
    Baton__V1__AddManifestPartRequest part = part_of("v", bytes, sizeof(bytes));
    unsigned sent = 0;
    do {
        st = rpc_stream_send(stream, &part);
        sent++;
    } while (baton_ok(&st));
    cr_assert_eq(st.code, BATON_RESOURCE_EXHAUSTED);
    cr_assert_leq(sent, 3);
    st = rpc_stream_send_wait(stream, &part, BATON_NS_PER_MS);
    cr_assert_eq(st.code, BATON_DEADLINE_EXCEEDED);
    rpc_stream_unref(stream);
    rpc_client_destroy(fixture.client);
}

/* --- bidi, with events --- */

struct session {
    struct rpc_fixture *fixture;
    unsigned opens;
    unsigned messages;
    unsigned ends;
    unsigned drains;
    unsigned after_end; /* Events behind the last one: must stay 0. */
    struct baton_status status;
};

static void count(struct session *session, unsigned *counter)
{
    pthread_mutex_lock(&session->fixture->mutex);
    session->after_end += session->ends;
    (*counter)++;
    pthread_cond_broadcast(&session->fixture->changed);
    pthread_mutex_unlock(&session->fixture->mutex);
}

static void on_open(struct rpc_stream *stream, void *context)
{
    (void)stream;
    struct session *session = context;
    count(session, &session->opens);
}

static void on_message(struct rpc_stream *stream, void *message, void *context)
{
    struct session *session = context;
    baton_wire_free(message);
    count(session, &session->messages);
    rpc_stream_read_next(stream);
}

static void on_drained(struct rpc_stream *stream, void *context)
{
    (void)stream;
    struct session *session = context;
    count(session, &session->drains);
}

static void on_end(struct rpc_stream *stream, const struct baton_status *status, void *context)
{
    (void)stream;
    struct session *session = context;
    session->status = *status;
    count(session, &session->ends);
}

static const struct rpc_stream_events EVENTS = {
    .on_open = on_open, .on_message = on_message, .on_drained = on_drained, .on_end = on_end
};

static struct rpc_stream *open_session(struct rpc_fixture *fixture, struct session *session)
{
    *session = (struct session){ .fixture = fixture };
    return rpc_stream_open(fixture->client, "baton.v1.AgentSession/Session", NULL, NULL, &EVENTS,
                           session);
}

static void send_session(struct rpc_stream *stream, Baton__V1__SessionRequest__MessageCase kind)
{
    Baton__V1__SessionRequest *request = baton_wire_new(&baton__v1__session_request__descriptor);
    request->message_case = kind;
    if (kind == BATON__V1__SESSION_REQUEST__MESSAGE_HELLO) {
        request->hello = baton_wire_part(request, &baton__v1__hello__descriptor);
    } else {
        request->report = baton_wire_part(request, &baton__v1__report__descriptor);
    }
    struct baton_status st = rpc_stream_send(stream, request);
    cr_assert(baton_ok(&st), "%s", st.message);
    baton_wire_free(request);
}

/* Accepted before any message, many messages both ways, then a clean end. */
Test(rpc_stream, session)
{
    struct rpc_fixture fixture;
    struct session session;
    rpc_fixture_start(&fixture);
    struct rpc_stream *stream = open_session(&fixture, &session);
    cr_assert(rpc_fixture_wait(&fixture, &session.opens, 1));
    for (int i = 0; i < 100; i++) {
        send_session(stream, BATON__V1__SESSION_REQUEST__MESSAGE_HELLO);
    }
    cr_assert(rpc_fixture_wait(&fixture, &session.messages, 100));
    rpc_stream_send_done(stream);
    cr_assert(rpc_fixture_wait(&fixture, &session.ends, 1));
    cr_assert(baton_ok(&session.status), "%s", session.status.message);
    cr_assert_geq(session.drains, 1);
    cr_assert_eq(session.opens, 1);
    rpc_stream_unref(stream);
    rpc_fixture_stop(&fixture);
    cr_assert_eq(session.ends, 1);
    cr_assert_eq(session.after_end, 0);
    cr_assert_eq(fixture.dones, 1);
}

/* The server ends the session with a reason. */
Test(rpc_stream, session_ended_by_server)
{
    struct rpc_fixture fixture;
    struct session session;
    rpc_fixture_start(&fixture);
    struct rpc_stream *stream = open_session(&fixture, &session);
    send_session(stream, BATON__V1__SESSION_REQUEST__MESSAGE_REPORT);
    cr_assert(rpc_fixture_wait(&fixture, &session.ends, 1));
    cr_assert_eq(session.status.code, BATON_ABORTED);
    cr_assert_eq(session.status.reason, BATON_REASON_STALE_EPOCH);
    rpc_stream_unref(stream);
    rpc_fixture_stop(&fixture);
    cr_assert_eq(session.after_end, 0);
}

/* Dropping the last reference cancels; the end still comes, once. */
Test(rpc_stream, session_dropped)
{
    struct rpc_fixture fixture;
    struct session session;
    rpc_fixture_start(&fixture);
    struct rpc_stream *stream = open_session(&fixture, &session);
    cr_assert(rpc_fixture_wait(&fixture, &session.opens, 1));
    rpc_stream_unref(stream);
    cr_assert(rpc_fixture_wait(&fixture, &session.ends, 1));
    cr_assert_eq(session.status.code, BATON_CANCELLED);
    cr_assert(rpc_fixture_wait(&fixture, &fixture.cancels, 1));
    rpc_fixture_stop(&fixture);
    cr_assert_eq(session.ends, 1);
    cr_assert_eq(fixture.dones, 1);
}

/* A refused stream never opens; its end carries the reason. */
Test(rpc_stream, session_refused)
{
    struct rpc_fixture fixture;
    struct session session;
    rpc_fixture_start_with(&fixture, (struct rpc_server_options){ .calls_max = 1 },
                           (struct rpc_client_options){ .target = NULL });
    struct session first;
    struct rpc_stream *occupier = open_session(&fixture, &first);
    cr_assert(rpc_fixture_wait(&fixture, &first.opens, 1));
    struct rpc_stream *stream = open_session(&fixture, &session);
    cr_assert(rpc_fixture_wait(&fixture, &session.ends, 1));
    cr_assert_eq(session.opens, 0);
    cr_assert_eq(session.status.code, BATON_RESOURCE_EXHAUSTED);
    cr_assert_eq(session.status.reason, BATON_REASON_LIMIT);
    rpc_stream_unref(stream);
    rpc_stream_unref(occupier);
    rpc_fixture_stop(&fixture);
}
