/* unary.c -- one request, one reply, from the client's side; see rpc.h. */
#include <stdlib.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/rpc/client.h"

#define UNARY_TIMEOUT_NS (10 * BATON_NS_PER_S)

struct unary {
    struct client_entry entry;
    struct rpc_client *client;
    struct client_call call;
    struct rpc_tag tag;
    grpc_byte_buffer *request;
    grpc_byte_buffer *reply;
    grpc_metadata_array headers;
    struct client_end end;
    rpc_done_fn *done;
    void *context;
};

static void cancel(struct client_entry *entry)
{
    struct unary *unary = RPC_CONTAINER(entry, struct unary, entry);
    atomic_store(&entry->is_cancelled, true);
    (void)grpc_call_cancel(unary->call.core, NULL);
}

static void destroy(struct unary *unary)
{
    client_call_close(&unary->call);
    client_call_free_metadata(&unary->call);
    grpc_byte_buffer_destroy(unary->request);
    if (unary->reply != NULL) {
        grpc_byte_buffer_destroy(unary->reply);
    }
    grpc_metadata_array_destroy(&unary->headers);
    client_end_deinit(&unary->end);
    free(unary);
}

static void read_result(struct unary *unary, struct rpc_result *out)
{
    out->message = NULL;
    out->stored = client_end_stored(&unary->end);
    out->status = client_end_status(&unary->end, unary->client, &unary->call,
                                    atomic_load(&unary->entry.is_cancelled));
    if (!baton_ok(&out->status)) {
        return;
    }
    if (unary->reply == NULL) {
        out->status =
            baton_status_make(BATON_INTERNAL, BATON_REASON_TRUNCATED,
                              "%s: the server said OK without a reply", unary->call.method->name);
        return;
    }
    ProtobufCMessage *message = NULL;
    out->status = rpc_buffer_decode(unary->reply, unary->call.method->output,
                                    unary->client->options.message_bytes_max, &message);
    out->message = message;
}

static void on_done(struct rpc_tag *tag, bool ok)
{
    (void)ok; /* The status says it. */
    struct unary *unary = RPC_CONTAINER(tag, struct unary, tag);
    struct rpc_client *client = unary->client;
    struct rpc_result result;
    read_result(unary, &result);
    unary->done(&result, unary->context);
    client_leave(client, &unary->entry);
    destroy(unary);
}

static void start(struct unary *unary)
{
    grpc_op ops[6] = {
        { .op = GRPC_OP_SEND_INITIAL_METADATA, .flags = unary->call.flags },
        { .op = GRPC_OP_SEND_MESSAGE },
        { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT },
        { .op = GRPC_OP_RECV_INITIAL_METADATA },
        { .op = GRPC_OP_RECV_MESSAGE },
    };
    ops[0].data.send_initial_metadata.metadata = unary->call.metadata;
    ops[0].data.send_initial_metadata.count = unary->call.metadata_count;
    ops[1].data.send_message.send_message = unary->request;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &unary->headers;
    ops[4].data.recv_message.recv_message = &unary->reply;
    ops[5] = client_end_op(&unary->end);
    rpc_batch(unary->call.core, ops, 6, &unary->tag);
}

void rpc_unary_start(struct rpc_client *client, const char *method, const void *request,
                     const struct rpc_call_options *options, rpc_done_fn *done, void *context)
{
    struct unary *unary = calloc(1, sizeof(*unary));
    baton_assert(unary != NULL);
    client_call_open(client, method, options, UNARY_TIMEOUT_NS, &unary->call);
    unary->client = client;
    unary->entry.cancel = cancel;
    unary->tag.run = on_done;
    unary->request = rpc_buffer_of(request);
    unary->done = done;
    unary->context = context;
    grpc_metadata_array_init(&unary->headers);
    client_end_init(&unary->end);
    bool is_closing = !client_enter(client, &unary->entry);
    if (is_closing) {
        atomic_store(&unary->entry.is_cancelled, true);
    }
    client_call_check(&unary->call, is_closing);
    start(unary);
}

/* --- waiting --- */

struct waiter {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct rpc_result result;
    bool is_done;
};

static void wake(const struct rpc_result *result, void *context)
{
    struct waiter *waiter = context;
    pthread_mutex_lock(&waiter->mutex);
    waiter->result = *result;
    waiter->is_done = true;
    pthread_cond_signal(&waiter->changed);
    pthread_mutex_unlock(&waiter->mutex);
}

struct rpc_result rpc_unary(struct rpc_client *client, const char *method, const void *request,
                            const struct rpc_call_options *options)
{
    baton_assert(!rpc_is_loop_thread());
    struct waiter waiter = { .is_done = false };
    pthread_mutex_init(&waiter.mutex, NULL);
    pthread_cond_init(&waiter.changed, NULL);
    rpc_unary_start(client, method, request, options, wake, &waiter);
    pthread_mutex_lock(&waiter.mutex);
    while (!waiter.is_done) { /* The core ends the call at its deadline. */
        (void)pthread_cond_wait(&waiter.changed, &waiter.mutex);
    }
    pthread_mutex_unlock(&waiter.mutex);
    pthread_cond_destroy(&waiter.changed);
    pthread_mutex_destroy(&waiter.mutex);
    return waiter.result;
}
