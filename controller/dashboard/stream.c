/* stream.c -- streams of messages as server-sent events; see bridge.h.
 *
 * The next message is asked for only when the caller took most of what is there, so that a slow one is cut by the server, which
 * has the bounds, and costs nothing here. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "controller/dashboard/bridge.h"

/* Held by the stream until its end, and by the caller's connection until its. */
struct exchange {
    atomic_uint references;
    struct web_request *request; /* Referenced. */
    struct rpc_stream *stream;   /* Referenced; the web server's thread's. */
    atomic_bool may_read;        /* A message was handled, and the next one not asked for. */
};

static void release(struct exchange *exchange)
{
    if (atomic_fetch_sub(&exchange->references, 1) == 1) {
        web_request_unref(exchange->request);
        rpc_stream_unref(exchange->stream);
        free(exchange);
    }
}

static void read_next(struct exchange *exchange, struct rpc_stream *stream)
{
    if (atomic_exchange(&exchange->may_read, false)) {
        rpc_stream_read_next(stream);
    }
}

static void on_drained(void *context)
{
    struct exchange *exchange = context;
    read_next(exchange, exchange->stream);
}

static void on_left(void *context)
{
    struct exchange *exchange = context;
    rpc_stream_cancel(exchange->stream);
    release(exchange);
}

/* Takes the text. */
static bool push(struct exchange *exchange, char *text)
{
    struct baton_bytes piece = { (const uint8_t *)text, strlen(text) };
    bool is_there = web_stream_push(exchange->request, piece);
    free(text);
    return is_there;
}

static void on_message(struct rpc_stream *stream, void *message, void *context)
{
    struct exchange *exchange = context;
    atomic_store(&exchange->may_read, true); /* Before the push: what it wakes may look at once. */
    bool is_there = push(exchange, bridge_event_text(message));
    baton_wire_free(message);
    if (!is_there) {
        rpc_stream_cancel(stream);
    } else if (web_stream_has_room(exchange->request)) {
        read_next(exchange, stream); /* The exchange may not know its stream yet. */
    }
}

static void on_end(struct rpc_stream *stream, const struct baton_status *status, void *context)
{
    struct exchange *exchange = context;
    (void)stream;
    /* A failure before the first message is an answer of its own. */
    if (baton_ok(status) || !bridge_answer_failure(exchange->request, status)) {
        (void)push(exchange, bridge_end_text(status));
        web_stream_finish(exchange->request);
    }
    release(exchange);
}

void bridge_stream(struct dashboard *dashboard, struct web_request *request,
                   struct bridge_call *call)
{
    static const struct web_field fields[] = { { "Cache-Control", "no-store" },
                                               { "X-Accel-Buffering", "no" } };
    static const struct web_answer head = { .type = "text/event-stream",
                                            .fields = fields,
                                            .fields_count = 2 };
    static const struct web_stream_events pieces = { on_drained, on_left };
    static const struct rpc_stream_events events = { .on_message = on_message, .on_end = on_end };
    const struct rpc_call_options options = { .metadata = call->pairs,
                                              .metadata_count = call->pairs_count };
    struct exchange *exchange = calloc(1, sizeof(*exchange));
    baton_assert(exchange != NULL);
    atomic_init(&exchange->references, 3); /* The stream's, the connection's, this function's. */
    exchange->request = web_request_ref(request);
    web_stream_offer(request, &head, &pieces, exchange);
    exchange->stream = rpc_stream_open(dashboard->client, call->method, call->message, &options,
                                       &events, exchange);
    baton_wire_free(call->message);
    release(exchange);
}
