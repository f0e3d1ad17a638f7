/* call_send.c -- a server call's way out: the queue, one batch at a time, the status; see server.h. */
#include <stdio.h>
#include <stdlib.h>

#include "api/rpc/details.h"
#include "api/rpc/server.h"

static void free_outgoing(struct outgoing *item)
{
    grpc_byte_buffer_destroy(item->buffer);
    free(item);
}

static void count_queued(struct rpc_call *call, size_t bytes)
{
    call->queued_bytes += bytes;
    atomic_fetch_add_explicit(&call->server->queued_bytes, bytes, memory_order_relaxed);
}

static void count_gone(struct rpc_call *call, size_t bytes)
{
    call->queued_bytes -= bytes;
    atomic_fetch_sub_explicit(&call->server->queued_bytes, bytes, memory_order_relaxed);
}

void call_drop_queue(struct rpc_call *call)
{
    while (call->first != NULL) {
        struct outgoing *item = call->first;
        call->first = item->next;
        count_gone(call, item->bytes);
        free_outgoing(item);
    }
    call->last = NULL;
}

static grpc_slice number_slice(uint64_t number)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
    return grpc_slice_from_copied_string(text);
}

void rpc_call_mark_stored(struct rpc_call *call, const struct rpc_stored *stored)
{
    pthread_mutex_lock(&call->mutex);
    if (stored->is_stored && !call->is_finished && GRPC_SLICE_LENGTH(call->stored[0]) == 0) {
        call->stored[0] = number_slice(stored->revision);
        call->stored[1] = number_slice(stored->age_ns / 1000000);
    }
    pthread_mutex_unlock(&call->mutex);
}

/* The pairs that go with the status; how many. */
static size_t fill_trailers(struct rpc_call *call)
{
    size_t count = 0;
    if (GRPC_SLICE_LENGTH(call->final_details) > 0) {
        call->final_metadata[count].key = grpc_slice_from_static_string(RPC_DETAILS_KEY);
        call->final_metadata[count++].value = call->final_details;
    }
    if (GRPC_SLICE_LENGTH(call->stored[0]) > 0) {
        call->final_metadata[count].key = grpc_slice_from_static_string(RPC_STORED_REVISION_KEY);
        call->final_metadata[count++].value = call->stored[0];
        call->final_metadata[count].key = grpc_slice_from_static_string(RPC_STORED_AGE_KEY);
        call->final_metadata[count++].value = call->stored[1];
    }
    return count;
}

static grpc_op status_op(struct rpc_call *call)
{
    grpc_op op = { .op = GRPC_OP_SEND_STATUS_FROM_SERVER };
    op.data.send_status_from_server.status = call->final_code;
    if (call->final_code != GRPC_STATUS_OK) {
        op.data.send_status_from_server.status_details = &call->final_message;
    }
    op.data.send_status_from_server.trailing_metadata = call->final_metadata;
    op.data.send_status_from_server.trailing_metadata_count = fill_trailers(call);
    return op;
}

/* Asks for CLOSE in the same batch where nobody asked before. */
static size_t add_close(struct rpc_call *call, grpc_op *op)
{
    if (call->has_close) {
        return 0;
    }
    call->has_close = true;
    call->is_close_sent_along = true;
    *op = (grpc_op){ .op = GRPC_OP_RECV_CLOSE_ON_SERVER };
    op->data.recv_close_on_server.cancelled = &call->close_word;
    return 1;
}

static bool has_something(const struct rpc_call *call)
{
    return call->first != NULL || (call->is_finished && !call->has_sent_status);
}

void call_pump(struct rpc_call *call)
{
    if (call->core == NULL || call->is_sending || call->is_cancelled || !has_something(call)) {
        return;
    }
    grpc_op ops[4];
    size_t count = 0;
    if (!call->has_sent_initial) {
        call->has_sent_initial = true;
        ops[count++] = (grpc_op){ .op = GRPC_OP_SEND_INITIAL_METADATA };
    }
    if (call->first != NULL) {
        call->flying = call->first;
        call->first = call->flying->next;
        call->last = call->first == NULL ? NULL : call->last;
        ops[count] = (grpc_op){ .op = GRPC_OP_SEND_MESSAGE };
        ops[count++].data.send_message.send_message = call->flying->buffer;
    }
    if (call->first == NULL && call->is_finished) {
        call->has_sent_status = true;
        ops[count++] = status_op(call);
        count += add_close(call, &ops[count]);
    }
    call->is_sending = true;
    call_batch_begin(call);
    rpc_batch(call->core, ops, count, &call->send_tag);
}

void call_send_headers(struct rpc_call *call)
{
    if (call->core == NULL || call->is_sending || call->is_cancelled || call->has_sent_initial) {
        return;
    }
    /* A pair of our own tells these headers from those of a refusal. */
    call->headers.key = grpc_slice_from_static_string(RPC_ACCEPTED_KEY);
    call->headers.value = grpc_slice_from_static_string("1");
    grpc_op op = { .op = GRPC_OP_SEND_INITIAL_METADATA };
    op.data.send_initial_metadata.metadata = &call->headers;
    op.data.send_initial_metadata.count = 1;
    call->has_sent_initial = true;
    call->is_sending = true;
    call_batch_begin(call);
    rpc_batch(call->core, &op, 1, &call->send_tag);
}

void call_on_sent(struct rpc_tag *tag, bool ok)
{
    struct rpc_call *call = RPC_CONTAINER(tag, struct rpc_call, send_tag);
    pthread_mutex_lock(&call->mutex);
    struct outgoing *flown = call->flying;
    call->flying = NULL;
    call->is_sending = false;
    if (flown != NULL) {
        count_gone(call, flown->bytes);
    }
    if (!ok) {
        call_drop_queue(call);
    }
    if (call->is_close_sent_along) {
        call->is_closed = true;
        call->is_cancelled = call->close_word != 0;
    }
    call_pump(call);
    pthread_mutex_unlock(&call->mutex);
    if (flown != NULL) {
        free_outgoing(flown);
    }
    call_batch_end(call);
}

struct rpc_encoded {
    grpc_byte_buffer *buffer;
    size_t bytes;
};

static struct outgoing *outgoing_of(grpc_byte_buffer *buffer)
{
    struct outgoing *item = malloc(sizeof(*item));
    baton_assert(item != NULL);
    item->next = NULL;
    item->buffer = buffer;
    item->bytes = grpc_byte_buffer_length(buffer);
    return item;
}

/* With the mutex. */
static void push(struct rpc_call *call, struct outgoing *item)
{
    *(call->last == NULL ? &call->first : &call->last->next) = item;
    call->last = item;
    count_queued(call, item->bytes);
}

static struct baton_status call_is_over(void)
{
    return baton_status_make(BATON_CANCELLED, BATON_REASON_NONE, "the call is over");
}

/* With the mutex: gives up a stream whose client does not take what we send.  The core writes the
 * status at once, past the data that waits for the client's window. */
static struct baton_status cut(struct rpc_call *call)
{
    struct baton_status st = baton_status_make(
        BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
        "the stream's reader is too slow: %zu bytes wait for it (at most %zu, and "
        "%zu for all readers)",
        call->queued_bytes, call->server->options.send_queue_bytes_max,
        call->server->options.send_queues_bytes_max);
    call->is_cut = true;
    call->is_finished = true;
    call->final_code = GRPC_STATUS_RESOURCE_EXHAUSTED;
    call->has_sent_status = true;
    call_start_close(call);
    call_drop_queue(call);
    (void)grpc_call_cancel_with_status(call->core, GRPC_STATUS_RESOURCE_EXHAUSTED, st.message,
                                       NULL);
    return st;
}

static size_t all_queued(struct rpc_server *server)
{
    return atomic_load_explicit(&server->queued_bytes, memory_order_relaxed);
}

/* With the server's mutex: how many bytes go with it.  What the core holds of a call that is cut comes back later, on the
 * loop's thread: it counts as gone here, also of those that were cut before, else all others were cut meanwhile. */
static size_t cut_if_behind(struct rpc_call *call)
{
    pthread_mutex_lock(&call->mutex);
    size_t bytes = call->queued_bytes;
    if (call->core != NULL && !call->is_cancelled && bytes > 0 && !call->is_cut) {
        (void)cut(call);
    }
    pthread_mutex_unlock(&call->mutex);
    return bytes;
}

/* Where too much waits for all readers together: those that have waited longest go, until a quarter is free.  What waits
 * for a reader that takes it is younger. */
static void make_room(struct rpc_server *server, size_t bytes)
{
    size_t most = server->options.send_queues_bytes_max;
    if (all_queued(server) + bytes <= most) {
        return;
    }
    pthread_mutex_lock(&server->mutex);
    size_t queued = all_queued(server) + bytes;
    size_t over = queued > most ? queued - most / 4 * 3 : 0;
    size_t freed = 0;
    struct rpc_call *call = server->calls;
    while (call != NULL && call->next != NULL) {
        call = call->next;
    }
    for (; call != NULL && freed < over; call = call->previous) {
        freed += cut_if_behind(call);
    }
    pthread_mutex_unlock(&server->mutex);
}

/* Takes the item. */
static struct baton_status send_item(struct rpc_call *call, struct outgoing *item)
{
    struct baton_status st = baton_status_ok();
    make_room(call->server, item->bytes);
    pthread_mutex_lock(&call->mutex);
    if (call->core == NULL || call->is_cancelled || call->is_finished) {
        st = call_is_over();
    } else if (call->queued_bytes > 0 &&
               call->queued_bytes + item->bytes > call->server->options.send_queue_bytes_max) {
        st = cut(call);
    } else {
        push(call, item);
        item = NULL;
        call_pump(call);
    }
    pthread_mutex_unlock(&call->mutex);
    if (item != NULL) {
        free_outgoing(item);
    }
    return st;
}

struct baton_status rpc_send(struct rpc_call *call, const void *message)
{
    return send_item(call, outgoing_of(rpc_buffer_of(message)));
}

struct rpc_encoded *rpc_encode(const void *message)
{
    struct rpc_encoded *encoded = malloc(sizeof(*encoded));
    baton_assert(encoded != NULL);
    encoded->buffer = rpc_buffer_of(message);
    encoded->bytes = grpc_byte_buffer_length(encoded->buffer);
    return encoded;
}

size_t rpc_encoded_bytes(const struct rpc_encoded *encoded)
{
    return encoded->bytes;
}

/* A copy of a buffer refers to the same slices. */
struct baton_status rpc_send_encoded(struct rpc_call *call, const struct rpc_encoded *encoded)
{
    return send_item(call, outgoing_of(grpc_byte_buffer_copy(encoded->buffer)));
}

void rpc_encoded_free(struct rpc_encoded *encoded)
{
    if (encoded != NULL) {
        grpc_byte_buffer_destroy(encoded->buffer);
        free(encoded);
    }
}

size_t rpc_call_queued_bytes(const struct rpc_call *call)
{
    struct rpc_call *locked = (struct rpc_call *)(uintptr_t)call;
    pthread_mutex_lock(&locked->mutex);
    size_t bytes = locked->queued_bytes;
    pthread_mutex_unlock(&locked->mutex);
    return bytes;
}

void rpc_reply(struct rpc_call *call, const void *message)
{
    struct outgoing *item = outgoing_of(rpc_buffer_of(message));
    make_room(call->server, item->bytes);
    pthread_mutex_lock(&call->mutex);
    if (call->core != NULL && !call->is_cancelled && !call->is_finished) {
        push(call, item);
        item = NULL;
        call->is_finished = true;
        call->final_code = GRPC_STATUS_OK;
        call_pump(call);
    }
    pthread_mutex_unlock(&call->mutex);
    if (item != NULL) {
        free_outgoing(item);
    }
}

void rpc_finish(struct rpc_call *call, const struct baton_status *status)
{
    rpc_finish_with(call, status, NULL);
}

void rpc_finish_with(struct rpc_call *call, const struct baton_status *status,
                     const struct rpc_error_details *details)
{
    pthread_mutex_lock(&call->mutex);
    if (call->core != NULL && !call->is_finished) {
        call->is_finished = true;
        call->final_code = (grpc_status_code)status->code;
        if (!baton_ok(status)) {
            call->final_message = grpc_slice_from_copied_string(status->message);
            call->final_details = rpc_details_encode(status, details);
        }
        call_pump(call);
    }
    pthread_mutex_unlock(&call->mutex);
}
