/* stream_send.c -- a client stream's way out; see stream.h. */
#include <stdlib.h>

#include "api/rpc/stream.h"

static void free_outgoing(struct stream_outgoing *item)
{
    grpc_byte_buffer_destroy(item->buffer);
    free(item);
}

void stream_drop_queue(struct rpc_stream *stream)
{
    while (stream->first != NULL) {
        struct stream_outgoing *item = stream->first;
        stream->first = item->next;
        stream->queued_bytes -= item->bytes;
        free_outgoing(item);
    }
    stream->last = NULL;
}

void stream_push(struct rpc_stream *stream, const void *message)
{
    struct stream_outgoing *item = malloc(sizeof(*item));
    baton_assert(item != NULL);
    item->next = NULL;
    item->buffer = rpc_buffer_of(message);
    item->bytes = grpc_byte_buffer_length(item->buffer);
    *(stream->last == NULL ? &stream->first : &stream->last->next) = item;
    stream->last = item;
    stream->queued_bytes += item->bytes;
}

static bool has_something(const struct rpc_stream *stream)
{
    return !stream->has_sent_headers || stream->first != NULL ||
           (stream->is_send_done && !stream->has_sent_close);
}

static grpc_op headers_op(const struct rpc_stream *stream)
{
    grpc_op op = { .op = GRPC_OP_SEND_INITIAL_METADATA, .flags = stream->call.flags };
    op.data.send_initial_metadata.metadata = stream->call.metadata;
    op.data.send_initial_metadata.count = stream->call.metadata_count;
    return op;
}

void stream_pump(struct rpc_stream *stream)
{
    if (stream->is_over || stream->is_ended || stream->is_sending || !has_something(stream)) {
        return;
    }
    grpc_op ops[3];
    size_t count = 0;
    if (!stream->has_sent_headers) {
        stream->has_sent_headers = true;
        ops[count++] = headers_op(stream);
    }
    if (stream->first != NULL) {
        stream->flying = stream->first;
        stream->first = stream->flying->next;
        stream->last = stream->first == NULL ? NULL : stream->last;
        ops[count] = (grpc_op){ .op = GRPC_OP_SEND_MESSAGE };
        ops[count++].data.send_message.send_message = stream->flying->buffer;
    }
    if (stream->first == NULL && stream->is_send_done) {
        stream->has_sent_close = true;
        ops[count++] = (grpc_op){ .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT };
    }
    stream->is_sending = true;
    stream_batch_begin(stream);
    rpc_batch(stream->call.core, ops, count, &stream->send_tag);
}

void stream_on_sent(struct rpc_tag *tag, bool ok)
{
    struct rpc_stream *stream = RPC_CONTAINER(tag, struct rpc_stream, send_tag);
    pthread_mutex_lock(&stream->mutex);
    struct stream_outgoing *flown = stream->flying;
    stream->flying = NULL;
    stream->is_sending = false;
    if (flown != NULL) {
        stream->queued_bytes -= flown->bytes;
    }
    if (!ok) {
        stream_drop_queue(stream);
    } else {
        stream_pump(stream);
    }
    bool is_drained = ok && flown != NULL && stream->queued_bytes == 0;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->mutex);
    if (flown != NULL) {
        free_outgoing(flown);
    }
    if (is_drained && stream->events.on_drained != NULL) {
        stream->events.on_drained(stream, stream->context);
    }
    stream_batch_end(stream);
}

static struct baton_status stream_is_over(void)
{
    return baton_status_make(BATON_CANCELLED, BATON_REASON_NONE, "the stream is over");
}

/* With the mutex. */
static bool can_send(const struct rpc_stream *stream)
{
    return !stream->is_ended && !stream->is_over && !stream->is_send_done;
}

static bool has_room(const struct rpc_stream *stream, size_t bytes)
{
    return stream->queued_bytes == 0 ||
           stream->queued_bytes + bytes <= stream->client->options.send_queue_bytes_max;
}

struct baton_status rpc_stream_send(struct rpc_stream *stream, const void *message)
{
    struct baton_status st = baton_status_ok();
    size_t bytes = baton_wire_size(message);
    pthread_mutex_lock(&stream->mutex);
    if (!can_send(stream)) {
        st = stream_is_over();
    } else if (!has_room(stream, bytes)) {
        st = baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                               "the stream's send queue is full: %zu bytes wait",
                               stream->queued_bytes);
    } else {
        stream_push(stream, message);
        stream_pump(stream);
    }
    pthread_mutex_unlock(&stream->mutex);
    return st;
}

struct baton_status rpc_stream_send_wait(struct rpc_stream *stream, const void *message,
                                         uint64_t timeout_ns)
{
    baton_assert(!rpc_is_loop_thread());
    uint64_t deadline_ns = rpc_deadline_after(timeout_ns);
    size_t bytes = baton_wire_size(message);
    bool in_time = true;
    pthread_mutex_lock(&stream->mutex);
    while (in_time && can_send(stream) && !has_room(stream, bytes)) {
        in_time = client_condition_wait(&stream->changed, &stream->mutex, deadline_ns);
    }
    struct baton_status st = baton_status_ok();
    if (!can_send(stream)) {
        st = stream_is_over();
    } else if (!has_room(stream, bytes)) {
        st = baton_status_make(BATON_DEADLINE_EXCEEDED, BATON_REASON_LIMIT,
                               "the server did not take what was sent: %zu bytes wait",
                               stream->queued_bytes);
    } else {
        stream_push(stream, message);
        stream_pump(stream);
    }
    pthread_mutex_unlock(&stream->mutex);
    return st;
}

void rpc_stream_send_done(struct rpc_stream *stream)
{
    pthread_mutex_lock(&stream->mutex);
    stream->is_send_done = true;
    stream_pump(stream);
    pthread_mutex_unlock(&stream->mutex);
}
