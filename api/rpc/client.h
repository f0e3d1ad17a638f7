/* client.h -- the inside of a client; private to api/rpc.
 *
 * A client is a channel for each of its addresses (targets.h) and one loop.  Everything that is open on
 * it stands in a list; the client goes only when the list is empty.
 *
 * Depends on: core.h, methods.h, rpc.h.  Threads: the mutex guards the list, another one the addresses;
 * each entry has its own.
 * Ownership: entries take themselves off the list at their end. */
#ifndef BATON_RPC_CLIENT_H
#define BATON_RPC_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/rpc/core.h"
#include "api/rpc/methods.h"
#include "api/rpc/rpc.h"
#include "api/rpc/targets.h"

/* Something open. */
struct client_entry {
    struct client_entry *previous;
    struct client_entry *next;
    void (*cancel)(struct client_entry *entry);
    atomic_bool is_cancelled; /* By us. */
};

struct rpc_client {
    struct rpc_client_options options; /* With the defaults filled in; 'target' is null. */
    grpc_channel_credentials *credentials;
    char *server_name;   /* Null: the target's. */
    char *authorization; /* "Bearer ..."; null: none. */
    pthread_mutex_t targets_mutex;
    struct targets targets; /* Under it. */
    struct rpc_loop loop;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Under the mutex. */
    struct client_entry *entries;
    bool is_closing; /* What enters is cancelled. */
};

/* False if the client closes: the entry is in, but must be cancelled at once. */
bool client_enter(struct rpc_client *client, struct client_entry *entry);
void client_leave(struct rpc_client *client, struct client_entry *entry);

/* The start of a call: the core's call with its deadline, and the metadata to send. */
struct client_call {
    const struct rpc_method *method;
    grpc_call *core;
    grpc_channel *own; /* Of a call inside the process; else null. */
    uint64_t turn;     /* Of the address that it goes to. */
    char address[TARGET_BYTES];
    grpc_metadata *metadata; /* Freed by client_call_free_metadata(). */
    size_t metadata_count;
    uint32_t flags;              /* For SEND_INITIAL_METADATA. */
    struct baton_status refusal; /* OK, or why client_call_check() will end it. */
};
/* A method that no proto has is a programming mistake. */
void client_call_open(struct rpc_client *client, const char *method,
                      const struct rpc_call_options *options, uint64_t default_timeout_ns,
                      struct client_call *out);
/* Before the first batch: ends a call that may not go on, so that refusals come the same way as
 * failures, never from inside the function that starts it. */
void client_call_check(struct client_call *call, bool is_closing);
void client_call_free_metadata(struct client_call *call);
/* Gives the core's call back. */
void client_call_close(struct client_call *call);

/* What the server or the core said at the end of a call. */
struct client_end {
    grpc_status_code code;
    grpc_slice message;
    grpc_metadata_array trailers;
};
void client_end_init(struct client_end *end);
void client_end_deinit(struct client_end *end);
/* What the server said of its answer. */
struct rpc_stored client_end_stored(const struct client_end *end);
grpc_op client_end_op(struct client_end *end);
/* As our status; 'call' names what failed where the peer did not.  CANCELLED that is not ours
 * ('is_cancelled') is a server that goes away: UNAVAILABLE.  The client learns from it where its next
 * call goes. */
struct baton_status client_end_status(const struct client_end *end, struct rpc_client *client,
                                      const struct client_call *call, bool is_cancelled);

/* A condition on the monotonic clock, and waiting on it until then; false if time ran out. */
void client_condition_init(pthread_cond_t *condition);
bool client_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t deadline_ns);

#endif /* client.h */
