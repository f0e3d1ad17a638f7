/* call.c -- a server call from accept to its end; see server.h. */
#include <stdlib.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/base/log.h"
#include "api/rpc/server.h"

/* --- references --- */

struct rpc_call *rpc_call_ref(struct rpc_call *call)
{
    atomic_fetch_add_explicit(&call->references, 1, memory_order_relaxed);
    return call;
}

void rpc_call_unref(struct rpc_call *call)
{
    if (call == NULL ||
        atomic_fetch_sub_explicit(&call->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    baton_wire_free(call->request);
    free(call->peer);
    grpc_call_details_destroy(&call->details);
    grpc_metadata_array_destroy(&call->metadata);
    grpc_slice_unref(call->final_message);
    grpc_slice_unref(call->final_details);
    grpc_slice_unref(call->stored[0]);
    grpc_slice_unref(call->stored[1]);
    pthread_mutex_destroy(&call->mutex);
    struct rpc_server *server = call->server;
    free(call);
    atomic_fetch_sub(&server->objects, 1);
}

static void on_accepted(struct rpc_tag *tag, bool ok);
static void on_closed(struct rpc_tag *tag, bool ok);
static void on_read(struct rpc_tag *tag, bool ok);

static struct rpc_call *create(struct rpc_server *server, struct rpc_loop *loop)
{
    struct rpc_call *call = calloc(1, sizeof(*call));
    baton_assert(call != NULL);
    atomic_init(&call->references, 1);
    call->server = server;
    call->loop = loop;
    call->accept_tag.run = on_accepted;
    call->close_tag.run = on_closed;
    call->read_tag.run = on_read;
    call->send_tag.run = call_on_sent;
    call->final_message = grpc_empty_slice();
    call->final_details = grpc_empty_slice();
    call->stored[0] = grpc_empty_slice();
    call->stored[1] = grpc_empty_slice();
    grpc_call_details_init(&call->details);
    grpc_metadata_array_init(&call->metadata);
    pthread_mutex_init(&call->mutex, NULL);
    atomic_fetch_add(&server->objects, 1);
    return call;
}

/* --- accept --- */

void call_accept_next(struct rpc_server *server, struct rpc_loop *loop)
{
    struct rpc_call *call = create(server, loop);
    pthread_mutex_lock(&server->mutex);
    bool is_stopping = server->is_stopping;
    if (!is_stopping) {
        server->accepts++;
        rpc_tag_released(&call->accept_tag);
        grpc_call_error error =
            grpc_server_request_call(server->core, &call->accepted, &call->details, &call->metadata,
                                     loop->queue, loop->queue, &call->accept_tag);
        baton_assert(error == GRPC_CALL_OK);
    }
    pthread_mutex_unlock(&server->mutex);
    if (is_stopping) {
        rpc_call_unref(call);
    }
}

/* Notes that an accept came back; with a call it enters the list, which has the first reference. */
static void leave_accepts(struct rpc_call *call, bool ok)
{
    struct rpc_server *server = call->server;
    pthread_mutex_lock(&server->mutex);
    server->accepts--;
    if (ok) {
        call->next = server->calls;
        if (call->next != NULL) {
            call->next->previous = call;
        }
        server->calls = call;
    }
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->mutex);
}

static int compare_route(const void *key, const void *item)
{
    const struct rpc_method *method = key;
    const struct route_state *state = item;
    return strcmp(method->name, state->method->name);
}

static void find_route(struct rpc_call *call)
{
    const char *path = (const char *)GRPC_SLICE_START_PTR(call->details.method);
    const struct rpc_method *method =
        rpc_method_find(path, GRPC_SLICE_LENGTH(call->details.method));
    if (method != NULL) {
        call->route = bsearch(method, call->server->routes, call->server->routes_count,
                              sizeof(*call->server->routes), compare_route);
    }
}

static void read_metadata(struct rpc_call *call)
{
    call->deadline_ns = rpc_time_ns(call->details.deadline);
    struct baton_bytes id = rpc_call_metadata(call, "x-baton-request-id");
    if (id.data != NULL) {
        size_t size = id.size < sizeof(call->request_id) ? id.size : sizeof(call->request_id) - 1;
        memcpy(call->request_id, id.data, size);
    }
}

static struct baton_status unimplemented(const struct rpc_call *call)
{
    char path[160];
    rpc_slice_text(call->details.method, path, sizeof(path));
    struct baton_status st = baton_status_make(BATON_UNIMPLEMENTED, BATON_REASON_INCOMPATIBLE,
                                               "there is no method %s here", path);
    return baton_status_hint(st, "use a server that has it, or list what this one has by "
                                 "reflection");
}

static struct baton_status too_many(const char *limit, unsigned calls_max)
{
    struct baton_status st = baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                               "%s: all %u calls are in use", limit, calls_max);
    return baton_status_hint(st, "try again later");
}

/* Counts the call in where the limits allow it. */
static struct baton_status admit(struct rpc_call *call)
{
    struct rpc_server *server = call->server;
    struct route_state *route = call->route;
    unsigned own_max = route->route.calls_max;
    if (!route->is_built_in && atomic_load(&server->admitted) >= server->options.calls_max) {
        return too_many("calls_max", server->options.calls_max);
    }
    if (own_max > 0 && atomic_load(&route->open) >= own_max) {
        return too_many(route->method->name, own_max);
    }
    call->is_admitted = true;
    atomic_fetch_add(&server->admitted, 1);
    atomic_fetch_add(&route->open, 1);
    return baton_status_ok();
}

static struct baton_status authorize(struct rpc_call *call)
{
    const struct rpc_server_options *options = &call->server->options;
    return options->authorize != NULL && !call->route->is_built_in
               ? options->authorize(call, options->context)
               : baton_status_ok();
}

/* Asks the owner of the server whether this caller may come in now. */
static struct baton_status ask_owner(struct rpc_call *call, struct rpc_error_details *details)
{
    const struct rpc_server_options *options = &call->server->options;
    call->was_seen = true;
    return options->admit != NULL ? options->admit(call, options->context, details)
                                  : baton_status_ok();
}

/* What stands in the way of this call, as far as is known without its request; OK if nothing. */
static struct baton_status check(struct rpc_call *call, struct rpc_error_details *details)
{
    struct rpc_server *server = call->server;
    if (atomic_load(&server->is_draining)) {
        struct baton_status st = baton_status_make(BATON_UNAVAILABLE, BATON_REASON_SHUTTING_DOWN,
                                                   "the server is shutting down");
        return baton_status_hint(st, "retry: another server, or this one after its restart");
    }
    if (call->route == NULL) {
        return unimplemented(call);
    }
    struct baton_status st = ask_owner(call, details);
    if (baton_ok(&st)) {
        st = admit(call);
    }
    return baton_ok(&st) && call->route->method->client_streams ? authorize(call) : st;
}

void call_start_close(struct rpc_call *call)
{
    if (call->has_close || call->core == NULL) {
        return;
    }
    grpc_op op = { .op = GRPC_OP_RECV_CLOSE_ON_SERVER };
    op.data.recv_close_on_server.cancelled = &call->close_word;
    call->has_close = true;
    call_batch_begin(call);
    rpc_batch(call->core, &op, 1, &call->close_tag);
}

static void watch_close(struct rpc_call *call)
{
    pthread_mutex_lock(&call->mutex);
    call_start_close(call);
    pthread_mutex_unlock(&call->mutex);
}

/* From here on the call takes part in the world. */
static void begin(struct rpc_call *call)
{
    pthread_mutex_lock(&call->mutex);
    call->core = call->accepted;
    if (rpc_call_is_stream(call)) {
        call_start_close(call);
    }
    pthread_mutex_unlock(&call->mutex);
}

static void start_read(struct rpc_call *call)
{
    pthread_mutex_lock(&call->mutex);
    bool can_read = call->core != NULL && !call->is_reading && !call->is_half_closed &&
                    !call->is_closed && !call->has_sent_status;
    if (can_read) {
        grpc_op op = { .op = GRPC_OP_RECV_MESSAGE };
        op.data.recv_message.recv_message = &call->incoming;
        call->is_reading = true;
        call_batch_begin(call);
        rpc_batch(call->core, &op, 1, &call->read_tag);
    }
    pthread_mutex_unlock(&call->mutex);
}

static void run_handler(struct rpc_call *call)
{
    call->route->route.handler(call, call->request, call->route->context);
}

static void on_accepted(struct rpc_tag *tag, bool ok)
{
    struct rpc_call *call = RPC_CONTAINER(tag, struct rpc_call, accept_tag);
    if (ok) {
        find_route(call);
    }
    leave_accepts(call, ok);
    if (!ok) {
        rpc_call_unref(call);
        return;
    }
    call_accept_next(call->server, call->loop);
    call->began_ns = baton_clock_monotonic_ns();
    read_metadata(call);
    call_read_peer(call);
    begin(call);
    struct rpc_error_details details = { .subject = NULL };
    struct baton_status st = check(call, &details);
    if (!baton_ok(&st)) {
        rpc_finish_with(call, &st, &details);
    } else if (call->route->method->client_streams) {
        run_handler(call);
    } else {
        start_read(call);
    }
}

/* --- messages in --- */

static void give_request(struct rpc_call *call, ProtobufCMessage *message)
{
    call->request = message;
    struct baton_status st = authorize(call);
    if (baton_ok(&st)) {
        run_handler(call);
    } else {
        rpc_finish(call, &st);
    }
}

static void give_message(struct rpc_call *call, ProtobufCMessage *message)
{
    if (call->receiver.on_message != NULL) {
        call->receiver.on_message(call, message, call->receiver_context);
    } else {
        baton_wire_free(message);
    }
}

/* Takes a message that arrived; a bad one ends the call. */
static void take_message(struct rpc_call *call, grpc_byte_buffer *buffer)
{
    const struct rpc_method *method = call->route->method;
    ProtobufCMessage *message = NULL;
    struct baton_status st =
        rpc_buffer_decode(buffer, method->input, call->server->options.message_bytes_max, &message);
    grpc_byte_buffer_destroy(buffer);
    if (!baton_ok(&st)) {
        rpc_finish(call, &st);
    } else if (method->client_streams) {
        give_message(call, message);
    } else {
        give_request(call, message);
    }
}

/* The client has no more messages, or is gone; 'is_broken' tells, as both look the same here. */
static void take_end(struct rpc_call *call, bool is_broken)
{
    if (is_broken) {
        watch_close(call); /* It says so. */
        return;
    }
    if (!call->route->method->client_streams) {
        struct baton_status st =
            baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_TRUNCATED,
                              "%s: the call carries no request", call->route->method->name);
        rpc_finish(call, &st);
        return;
    }
    if (call->receiver.on_half_close != NULL) {
        call->receiver.on_half_close(call, call->receiver_context);
    }
}

static void on_read(struct rpc_tag *tag, bool ok)
{
    struct rpc_call *call = RPC_CONTAINER(tag, struct rpc_call, read_tag);
    pthread_mutex_lock(&call->mutex);
    grpc_byte_buffer *buffer = call->incoming;
    call->incoming = NULL;
    call->is_reading = false;
    bool is_broken = !ok || call->is_cancelled;
    if (buffer == NULL) {
        is_broken = is_broken || grpc_call_failed_before_recv_message(call->core) != 0;
        call->is_half_closed = true;
    }
    bool is_finished = call->is_finished;
    pthread_mutex_unlock(&call->mutex);
    if (is_finished) {
        if (buffer != NULL) {
            grpc_byte_buffer_destroy(buffer);
        }
    } else if (buffer != NULL) {
        take_message(call, buffer);
    } else {
        take_end(call, is_broken);
    }
    call_batch_end(call);
}

void rpc_call_receive(struct rpc_call *call, const struct rpc_receiver *receiver, void *context)
{
    call->receiver = *receiver;
    call->receiver_context = context;
    watch_close(call);
    if (call->route->method->client_streams) {
        pthread_mutex_lock(&call->mutex);
        call_send_headers(call);
        pthread_mutex_unlock(&call->mutex);
        start_read(call);
    }
}

void rpc_call_read_next(struct rpc_call *call)
{
    start_read(call);
}

/* --- the end --- */

static void on_closed(struct rpc_tag *tag, bool ok)
{
    (void)ok;
    struct rpc_call *call = RPC_CONTAINER(tag, struct rpc_call, close_tag);
    pthread_mutex_lock(&call->mutex);
    call->is_closed = true;
    call->is_cancelled = call->close_word != 0;
    if (call->is_cancelled) {
        call_drop_queue(call);
    }
    pthread_mutex_unlock(&call->mutex);
    call_batch_end(call);
}

static void leave_list(struct rpc_call *call)
{
    struct rpc_server *server = call->server;
    if (call->is_admitted) {
        atomic_fetch_sub(&server->admitted, 1);
        atomic_fetch_sub(&call->route->open, 1);
    }
    pthread_mutex_lock(&server->mutex);
    *(call->previous == NULL ? &server->calls : &call->previous->next) = call->next;
    if (call->next != NULL) {
        call->next->previous = call->previous;
    }
    if (server->is_stopping) {
        pthread_cond_broadcast(&server->changed);
    }
    pthread_mutex_unlock(&server->mutex);
}

/* The call is over: nothing of it is with the core any more. */
static void end(struct rpc_call *call, grpc_call *core, bool is_cancelled)
{
    const struct rpc_server_options *options = &call->server->options;
    grpc_call_unref(core);
    if (call->was_seen && options->ended != NULL) {
        options->ended(call,
                       call->is_finished ? (enum baton_code)call->final_code : BATON_CANCELLED,
                       options->context);
    }
    if (call->receiver.on_done != NULL) {
        call->receiver.on_done(call, is_cancelled, call->receiver_context);
    }
    leave_list(call);
    rpc_call_unref(call); /* The list's. */
}

void call_batch_begin(struct rpc_call *call)
{
    call->pending++;
    rpc_call_ref(call);
}

void call_batch_end(struct rpc_call *call)
{
    grpc_call *core = NULL;
    pthread_mutex_lock(&call->mutex);
    call->pending--;
    if (call->pending == 0 && call->is_closed && call->core != NULL) {
        core = call->core;
        call->core = NULL;
        call_drop_queue(call);
    }
    bool is_cancelled = call->is_cancelled;
    pthread_mutex_unlock(&call->mutex);
    if (core != NULL) {
        end(call, core, is_cancelled);
    }
    rpc_call_unref(call);
}
