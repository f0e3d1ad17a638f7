/* rpc_bare.c -- see rpc_bare.h. */
#include "tests/bench/rpc_bare.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>

#include "tests/bench/ratio.h"

enum { ACCEPTS = 64 };

struct tag {
    void (*run)(struct tag *tag, bool ok);
};

struct loop {
    grpc_completion_queue *queue;
    pthread_t thread;
};

struct bare {
    grpc_server *server;
    grpc_channel *channel;
    struct loop server_loop;
    struct loop client_loop;
    grpc_byte_buffer *request;
    grpc_byte_buffer *reply;
    bare_hand_over_fn *_Atomic hand_over;
    void *hop_context;
    struct tag shutdown_tag;
    atomic_bool is_running;
    atomic_uint open; /* Client calls. */
    uint64_t done;    /* By the client's thread. */
    pthread_mutex_t mutex;
    pthread_cond_t idle;
    bool is_shut_down;
};

static void must(bool holds, const char *what)
{
    if (!holds) {
        (void)fprintf(stderr, "rpc_bare: %s\n", what);
        abort();
    }
}

static void *run_loop(void *argument)
{
    struct loop *loop = argument;
    for (;;) {
        grpc_event event =
            grpc_completion_queue_next(loop->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN) {
            return NULL;
        }
        struct tag *tag = event.tag;
        tag->run(tag, event.success != 0);
    }
}

static void batch(grpc_call *call, const grpc_op *ops, size_t count, struct tag *tag)
{
    must(grpc_call_start_batch(call, ops, count, tag, NULL) == GRPC_CALL_OK, "batch");
}

/* --- server --- */

struct served {
    struct tag tag; /* One batch at a time. */
    struct bare *bare;
    grpc_call *call;
    grpc_call_details details;
    grpc_metadata_array metadata;
    grpc_byte_buffer *incoming;
    int cancelled;
};

static void accept_next(struct bare *bare);

static void on_answered(struct tag *tag, bool ok)
{
    (void)ok;
    struct served *served = (struct served *)tag;
    grpc_byte_buffer_destroy(served->incoming);
    grpc_call_details_destroy(&served->details);
    grpc_metadata_array_destroy(&served->metadata);
    grpc_call_unref(served->call);
    free(served);
}

void bare_answer(void *call)
{
    struct served *served = call;
    grpc_op ops[4] = { { .op = GRPC_OP_SEND_INITIAL_METADATA },
                       { .op = GRPC_OP_SEND_MESSAGE },
                       { .op = GRPC_OP_SEND_STATUS_FROM_SERVER },
                       { .op = GRPC_OP_RECV_CLOSE_ON_SERVER } };
    ops[1].data.send_message.send_message = served->bare->reply;
    ops[2].data.send_status_from_server.status = GRPC_STATUS_OK;
    ops[3].data.recv_close_on_server.cancelled = &served->cancelled;
    served->tag.run = on_answered;
    batch(served->call, ops, 4, &served->tag);
}

static void on_request(struct tag *tag, bool ok)
{
    struct served *served = (struct served *)tag;
    must(ok && served->incoming != NULL, "no request");
    bare_hand_over_fn *hand_over = atomic_load(&served->bare->hand_over);
    if (hand_over != NULL) {
        hand_over(served, served->bare->hop_context);
    } else {
        bare_answer(served);
    }
}

static void on_accepted(struct tag *tag, bool ok)
{
    struct served *served = (struct served *)tag;
    if (!ok) {
        grpc_call_details_destroy(&served->details);
        grpc_metadata_array_destroy(&served->metadata);
        free(served);
        return;
    }
    accept_next(served->bare);
    grpc_op op = { .op = GRPC_OP_RECV_MESSAGE };
    op.data.recv_message.recv_message = &served->incoming;
    served->tag.run = on_request;
    batch(served->call, &op, 1, &served->tag);
}

static void accept_next(struct bare *bare)
{
    struct served *served = calloc(1, sizeof(*served));
    must(served != NULL, "memory");
    served->bare = bare;
    served->tag.run = on_accepted;
    grpc_call_details_init(&served->details);
    grpc_metadata_array_init(&served->metadata);
    must(grpc_server_request_call(bare->server, &served->call, &served->details, &served->metadata,
                                  bare->server_loop.queue, bare->server_loop.queue,
                                  &served->tag) == GRPC_CALL_OK,
         "request_call");
}

/* --- client --- */

struct asked {
    struct tag tag;
    struct bare *bare;
    grpc_call *call;
    grpc_byte_buffer *reply;
    grpc_metadata_array headers;
    grpc_metadata_array trailers;
    grpc_status_code status;
    grpc_slice details;
};

static void on_reply(struct tag *tag, bool ok);

static void ask(struct bare *bare)
{
    struct asked *asked = calloc(1, sizeof(*asked));
    must(asked != NULL, "memory");
    asked->bare = bare;
    asked->tag.run = on_reply;
    asked->details = grpc_empty_slice();
    grpc_metadata_array_init(&asked->headers);
    grpc_metadata_array_init(&asked->trailers);
    asked->call = grpc_channel_create_call(
        bare->channel, NULL, GRPC_PROPAGATE_DEFAULTS, bare->client_loop.queue,
        grpc_slice_from_static_string("/baton.v1.Models/Get"), NULL,
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(10, GPR_TIMESPAN)), NULL);
    grpc_op ops[6] = {
        { .op = GRPC_OP_SEND_INITIAL_METADATA },  { .op = GRPC_OP_SEND_MESSAGE },
        { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT }, { .op = GRPC_OP_RECV_INITIAL_METADATA },
        { .op = GRPC_OP_RECV_MESSAGE },           { .op = GRPC_OP_RECV_STATUS_ON_CLIENT }
    };
    ops[1].data.send_message.send_message = bare->request;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &asked->headers;
    ops[4].data.recv_message.recv_message = &asked->reply;
    ops[5].data.recv_status_on_client.status = &asked->status;
    ops[5].data.recv_status_on_client.status_details = &asked->details;
    ops[5].data.recv_status_on_client.trailing_metadata = &asked->trailers;
    batch(asked->call, ops, 6, &asked->tag);
}

static void on_reply(struct tag *tag, bool ok)
{
    struct asked *asked = (struct asked *)tag;
    struct bare *bare = asked->bare;
    must(ok && asked->status == GRPC_STATUS_OK && asked->reply != NULL, "a call failed");
    grpc_byte_buffer_destroy(asked->reply);
    grpc_metadata_array_destroy(&asked->headers);
    grpc_metadata_array_destroy(&asked->trailers);
    grpc_slice_unref(asked->details);
    grpc_call_unref(asked->call);
    free(asked);
    bare->done++;
    if (atomic_load(&bare->is_running)) {
        ask(bare);
    } else if (atomic_fetch_sub(&bare->open, 1) == 1) {
        pthread_mutex_lock(&bare->mutex);
        pthread_cond_signal(&bare->idle);
        pthread_mutex_unlock(&bare->mutex);
    }
}

double bare_run(struct bare *bare, unsigned outstanding, double seconds)
{
    bare->done = 0;
    atomic_store(&bare->is_running, true);
    atomic_store(&bare->open, outstanding);
    double start = ratio_now_s();
    for (unsigned i = 0; i < outstanding; i++) {
        ask(bare);
    }
    struct timespec wait = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
    (void)nanosleep(&wait, NULL);
    atomic_store(&bare->is_running, false);
    pthread_mutex_lock(&bare->mutex);
    while (atomic_load(&bare->open) > 0) {
        (void)pthread_cond_wait(&bare->idle, &bare->mutex);
    }
    pthread_mutex_unlock(&bare->mutex);
    return (double)bare->done / (ratio_now_s() - start);
}

/* --- life --- */

static grpc_byte_buffer *buffer_of(const uint8_t *data, size_t size)
{
    grpc_slice slice = grpc_slice_from_copied_buffer((const char *)data, size);
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return buffer;
}

/* The one setting that changes the work of the network: no probing of the bandwidth, as in api/rpc. */
static grpc_arg no_probe(void)
{
    return (grpc_arg){ .type = GRPC_ARG_INTEGER,
                       .key = (char *)(uintptr_t)GRPC_ARG_HTTP2_BDP_PROBE,
                       .value.integer = 0 };
}

static int bind_server(struct bare *bare)
{
    grpc_server_credentials *credentials = grpc_insecure_server_credentials_create();
    int port = grpc_server_add_http2_port(bare->server, "127.0.0.1:0", credentials);
    grpc_server_credentials_release(credentials);
    must(port > 0, "no port");
    return port;
}

static void connect_client(struct bare *bare, int port)
{
    char target[32];
    (void)snprintf(target, sizeof(target), "127.0.0.1:%d", port);
    grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
    grpc_arg arg = no_probe();
    grpc_channel_args args = { .num_args = 1, .args = &arg };
    bare->channel = grpc_channel_create(target, credentials, &args);
    grpc_channel_credentials_release(credentials);
}

static void on_shut_down(struct tag *tag, bool ok)
{
    (void)ok;
    struct bare *bare = (struct bare *)(void *)((char *)tag - offsetof(struct bare, shutdown_tag));
    pthread_mutex_lock(&bare->mutex);
    bare->is_shut_down = true;
    pthread_cond_signal(&bare->idle);
    pthread_mutex_unlock(&bare->mutex);
}

struct bare *bare_create(const uint8_t *request, size_t request_bytes, const uint8_t *reply,
                         size_t reply_bytes)
{
    grpc_init();
    struct bare *bare = calloc(1, sizeof(*bare));
    must(bare != NULL, "memory");
    pthread_mutex_init(&bare->mutex, NULL);
    pthread_cond_init(&bare->idle, NULL);
    bare->shutdown_tag.run = on_shut_down;
    bare->request = buffer_of(request, request_bytes);
    bare->reply = buffer_of(reply, reply_bytes);
    grpc_arg arg = no_probe();
    grpc_channel_args args = { .num_args = 1, .args = &arg };
    bare->server = grpc_server_create(&args, NULL);
    bare->server_loop.queue = grpc_completion_queue_create_for_next(NULL);
    bare->client_loop.queue = grpc_completion_queue_create_for_next(NULL);
    grpc_server_register_completion_queue(bare->server, bare->server_loop.queue, NULL);
    int port = bind_server(bare);
    grpc_server_start(bare->server);
    for (int i = 0; i < ACCEPTS; i++) {
        accept_next(bare);
    }
    connect_client(bare, port);
    must(pthread_create(&bare->server_loop.thread, NULL, run_loop, &bare->server_loop) == 0 &&
             pthread_create(&bare->client_loop.thread, NULL, run_loop, &bare->client_loop) == 0,
         "no thread");
    return bare;
}

void bare_set_hop(struct bare *bare, bare_hand_over_fn *hand_over, void *context)
{
    bare->hop_context = context;
    atomic_store(&bare->hand_over, hand_over);
}

static void end_loop(struct loop *loop)
{
    grpc_completion_queue_shutdown(loop->queue);
    (void)pthread_join(loop->thread, NULL);
    grpc_completion_queue_destroy(loop->queue);
}

void bare_destroy(struct bare *bare)
{
    grpc_server_shutdown_and_notify(bare->server, bare->server_loop.queue, &bare->shutdown_tag);
    pthread_mutex_lock(&bare->mutex);
    while (!bare->is_shut_down) {
        (void)pthread_cond_wait(&bare->idle, &bare->mutex);
    }
    pthread_mutex_unlock(&bare->mutex);
    end_loop(&bare->server_loop);
    end_loop(&bare->client_loop);
    grpc_server_destroy(bare->server);
    grpc_channel_destroy(bare->channel);
    grpc_byte_buffer_destroy(bare->request);
    grpc_byte_buffer_destroy(bare->reply);
    pthread_cond_destroy(&bare->idle);
    pthread_mutex_destroy(&bare->mutex);
    free(bare);
    grpc_shutdown();
}
