/* stream.c -- a client's stream: opening, reading, the end; see stream.h. */
#include "api/rpc/stream.h"

#include <stdlib.h>

/* --- references --- */

static void unref(struct rpc_stream *stream)
{
    if (atomic_fetch_sub_explicit(&stream->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    client_call_free_metadata(&stream->call);
    grpc_metadata_array_destroy(&stream->headers);
    client_end_deinit(&stream->end);
    baton_wire_free(stream->ready);
    pthread_cond_destroy(&stream->changed);
    pthread_mutex_destroy(&stream->mutex);
    free(stream);
}

static void ref(struct rpc_stream *stream)
{
    atomic_fetch_add_explicit(&stream->references, 1, memory_order_relaxed);
}

struct rpc_stream *rpc_stream_ref(struct rpc_stream *stream)
{
    atomic_fetch_add_explicit(&stream->user_references, 1, memory_order_relaxed);
    ref(stream);
    return stream;
}

void rpc_stream_unref(struct rpc_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    if (atomic_fetch_sub_explicit(&stream->user_references, 1, memory_order_acq_rel) == 1) {
        rpc_stream_cancel(stream);
    }
    unref(stream);
}

void rpc_stream_cancel(struct rpc_stream *stream)
{
    pthread_mutex_lock(&stream->mutex);
    atomic_store(&stream->entry.is_cancelled, true);
    if (!stream->is_over) {
        (void)grpc_call_cancel(stream->call.core, NULL);
    }
    pthread_mutex_unlock(&stream->mutex);
}

static void cancel_entry(struct client_entry *entry)
{
    rpc_stream_cancel(RPC_CONTAINER(entry, struct rpc_stream, entry));
}

/* --- the end --- */

void stream_batch_begin(struct rpc_stream *stream)
{
    stream->pending++;
    ref(stream);
}

static void end(struct rpc_stream *stream)
{
    client_call_close(&stream->call);
    if (stream->events.on_end != NULL) {
        stream->events.on_end(stream, &stream->status, stream->context);
    }
    client_leave(stream->client, &stream->entry);
    unref(stream); /* The library's. */
}

void stream_batch_end(struct rpc_stream *stream)
{
    pthread_mutex_lock(&stream->mutex);
    stream->pending--;
    bool is_end = stream->pending == 0 && stream->is_ended && !stream->is_over;
    if (is_end) {
        stream->is_over = true;
        stream_drop_queue(stream);
        stream->status = baton_ok(&stream->failure)
                             ? client_end_status(&stream->end, stream->client, &stream->call,
                                                 atomic_load(&stream->entry.is_cancelled))
                             : stream->failure;
    }
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->mutex);
    if (is_end) {
        end(stream);
    }
    unref(stream);
}

static void on_ended(struct rpc_tag *tag, bool ok)
{
    (void)ok;
    struct rpc_stream *stream = RPC_CONTAINER(tag, struct rpc_stream, end_tag);
    pthread_mutex_lock(&stream->mutex);
    stream->is_ended = true;
    stream_drop_queue(stream);
    pthread_mutex_unlock(&stream->mutex);
    stream_batch_end(stream);
}

/* --- messages in --- */

void stream_read(struct rpc_stream *stream)
{
    if (stream->is_over || stream->is_ended || stream->is_reading || stream->is_read_done) {
        return;
    }
    grpc_op op = { .op = GRPC_OP_RECV_MESSAGE };
    op.data.recv_message.recv_message = &stream->incoming;
    stream->is_reading = true;
    stream_batch_begin(stream);
    rpc_batch(stream->call.core, &op, 1, &stream->read_tag);
}

void rpc_stream_read_next(struct rpc_stream *stream)
{
    pthread_mutex_lock(&stream->mutex);
    stream_read(stream);
    pthread_mutex_unlock(&stream->mutex);
}

static ProtobufCMessage *decode(struct rpc_stream *stream, grpc_byte_buffer *buffer)
{
    ProtobufCMessage *message = NULL;
    struct baton_status st = rpc_buffer_decode(buffer, stream->call.method->output,
                                               stream->client->options.message_bytes_max, &message);
    grpc_byte_buffer_destroy(buffer);
    if (!baton_ok(&st)) {
        pthread_mutex_lock(&stream->mutex);
        stream->failure = baton_status_in(st, "a message of %s", stream->call.address);
        pthread_mutex_unlock(&stream->mutex);
        rpc_stream_cancel(stream);
    }
    return message;
}

static void note_open(struct rpc_stream *stream)
{
    if (!stream->is_open && stream->events.on_open != NULL) {
        stream->events.on_open(stream, stream->context);
    }
    stream->is_open = true;
}

static void give(struct rpc_stream *stream, ProtobufCMessage *message)
{
    if (message == NULL) {
        return;
    }
    note_open(stream);
    if (!stream->has_events) {
        pthread_mutex_lock(&stream->mutex);
        stream->ready = message;
        pthread_mutex_unlock(&stream->mutex);
    } else if (stream->events.on_message != NULL) {
        stream->events.on_message(stream, message, stream->context);
    } else {
        baton_wire_free(message);
    }
}

static void on_read(struct rpc_tag *tag, bool ok)
{
    struct rpc_stream *stream = RPC_CONTAINER(tag, struct rpc_stream, read_tag);
    grpc_byte_buffer *buffer = stream->incoming;
    stream->incoming = NULL;
    ProtobufCMessage *message = ok && buffer != NULL ? decode(stream, buffer) : NULL;
    pthread_mutex_lock(&stream->mutex);
    stream->is_reading = false;
    stream->is_read_done = buffer == NULL;
    pthread_mutex_unlock(&stream->mutex);
    give(stream, message);
    stream_batch_end(stream);
}

static void on_headers(struct rpc_tag *tag, bool ok)
{
    struct rpc_stream *stream = RPC_CONTAINER(tag, struct rpc_stream, headers_tag);
    bool is_accepted = false;
    for (size_t i = 0; ok && i < stream->headers.count; i++) {
        is_accepted =
            is_accepted || rpc_slice_is(stream->headers.metadata[i].key, RPC_ACCEPTED_KEY);
    }
    if (is_accepted) {
        note_open(stream);
    }
    stream_batch_end(stream);
}

/* --- opening --- */

static void start(struct rpc_stream *stream)
{
    grpc_op headers = { .op = GRPC_OP_RECV_INITIAL_METADATA };
    headers.data.recv_initial_metadata.recv_initial_metadata = &stream->headers;
    grpc_op last = client_end_op(&stream->end);
    stream_batch_begin(stream);
    rpc_batch(stream->call.core, &last, 1, &stream->end_tag);
    stream_pump(stream);
    stream_batch_begin(stream);
    rpc_batch(stream->call.core, &headers, 1, &stream->headers_tag);
    if (stream->has_events) {
        stream_read(stream);
    }
}

static struct rpc_stream *create(struct rpc_client *client, const char *method,
                                 const struct rpc_call_options *options)
{
    struct rpc_stream *stream = calloc(1, sizeof(*stream));
    baton_assert(stream != NULL);
    atomic_init(&stream->references, 2); /* The caller's and the library's. */
    atomic_init(&stream->user_references, 1);
    stream->client = client;
    stream->entry.cancel = cancel_entry;
    stream->send_tag.run = stream_on_sent;
    stream->headers_tag.run = on_headers;
    stream->read_tag.run = on_read;
    stream->end_tag.run = on_ended;
    stream->failure = baton_status_ok();
    client_call_open(client, method, options, RPC_NO_TIMEOUT, &stream->call);
    grpc_metadata_array_init(&stream->headers);
    client_end_init(&stream->end);
    pthread_mutex_init(&stream->mutex, NULL);
    client_condition_init(&stream->changed);
    return stream;
}

struct rpc_stream *rpc_stream_open(struct rpc_client *client, const char *method,
                                   const void *request, const struct rpc_call_options *options,
                                   const struct rpc_stream_events *events, void *context)
{
    struct rpc_stream *stream = create(client, method, options);
    if (events != NULL) {
        stream->has_events = true;
        stream->events = *events;
        stream->context = context;
    }
    bool is_closing = !client_enter(client, &stream->entry);
    if (is_closing) {
        atomic_store(&stream->entry.is_cancelled, true);
    }
    pthread_mutex_lock(&stream->mutex);
    if (request != NULL) {
        stream_push(stream, request);
    }
    stream->is_send_done = !stream->call.method->client_streams;
    client_call_check(&stream->call, is_closing);
    start(stream);
    pthread_mutex_unlock(&stream->mutex);
    return stream;
}

/* --- pulling --- */

static bool has_news(const struct rpc_stream *stream)
{
    return stream->ready != NULL || stream->is_over;
}

struct rpc_next rpc_stream_next(struct rpc_stream *stream, uint64_t timeout_ns)
{
    baton_assert(!rpc_is_loop_thread() && !stream->has_events);
    uint64_t deadline_ns = rpc_deadline_after(timeout_ns);
    struct rpc_next next = { .kind = RPC_NEXT_TIMEOUT, .status = baton_status_ok() };
    bool in_time = true;
    pthread_mutex_lock(&stream->mutex);
    if (stream->ready == NULL) {
        stream_read(stream);
    }
    while (in_time && !has_news(stream)) {
        in_time = client_condition_wait(&stream->changed, &stream->mutex, deadline_ns);
    }
    if (stream->ready != NULL) {
        next.kind = RPC_NEXT_MESSAGE;
        next.message = stream->ready;
        stream->ready = NULL;
    } else if (stream->is_over) {
        next.kind = RPC_NEXT_END;
        next.status = stream->status;
    }
    pthread_mutex_unlock(&stream->mutex);
    return next;
}
