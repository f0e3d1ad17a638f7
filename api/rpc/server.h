/* server.h -- the inside of a server and its calls; private to api/rpc.
 *
 * A call's life: ACCEPT (the core gives it) -> admitted or refused -> messages in (READ) and out
 * (SEND, one batch at a time) -> CLOSE (always comes, at the latest with the status).  It is over when CLOSE came and no batch is
 * pending; only then the core's call is given back and on_done runs.
 *
 * Depends on: core.h, methods.h, rpc.h.  Threads: a call's mutex guards what its comment says; the
 * rest is written by the loop's thread before anybody else knows the call.
 * Ownership: the server owns all but the references to calls that handlers took. */
#ifndef BATON_RPC_SERVER_H
#define BATON_RPC_SERVER_H

#include <pthread.h>
#include <stdatomic.h>

#include <grpc/grpc_security.h>

#include "api/rpc/core.h"
#include "api/rpc/methods.h"
#include "api/rpc/rpc.h"

struct connections;
struct health_table;
struct tls_files;

enum { SERVER_THREADS_MAX = 16, SERVER_LISTENERS_MAX = 8 };

struct route_state {
    const struct rpc_method *method;
    struct rpc_route route;
    void *context;
    bool is_built_in; /* Health and reflection: no authorize hook, no limit of calls. */
    atomic_uint open; /* Admitted calls that are not over. */
};

struct rpc_server {
    struct rpc_server_options options; /* With the defaults filled in. */
    grpc_server *core;
    struct rpc_loop loops[SERVER_THREADS_MAX];
    struct route_state *routes; /* Sorted by method name. */
    size_t routes_count;
    struct health_table *health;
    struct connections *connections;
    struct tls_files *tls[SERVER_LISTENERS_MAX];
    uint16_t ports[SERVER_LISTENERS_MAX];
    atomic_bool is_started;
    struct rpc_tag shutdown_tag;
    atomic_bool is_draining;    /* New calls are refused. */
    atomic_uint admitted;       /* Calls that count against calls_max. */
    atomic_uint objects;        /* Calls that exist, waiting ones included. */
    atomic_size_t queued_bytes; /* Of all calls' send queues. */

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Under the mutex. */
    struct rpc_call *calls; /* Accepted and not over. */
    unsigned accepts;       /* Handed to the core for calls to come. */
    bool is_stopping;       /* No more accepts. */
    bool is_shut_down;      /* The core said so. */
};

struct outgoing {
    struct outgoing *next;
    grpc_byte_buffer *buffer;
    size_t bytes;
};

struct rpc_call {
    atomic_uint references;
    struct rpc_server *server;
    struct rpc_loop *loop;
    struct rpc_call *previous; /* In the server's list, under its mutex. */
    struct rpc_call *next;

    /* From the core's accept. */
    grpc_call *accepted;
    grpc_call_details details;
    grpc_metadata_array metadata;
    uint64_t deadline_ns;
    uint64_t began_ns;
    char request_id[BATON_REQUEST_ID_BYTES];
    struct rpc_peer *peer; /* Only as much as its names_count says. */

    struct rpc_tag accept_tag;
    struct rpc_tag close_tag;
    struct rpc_tag read_tag;
    struct rpc_tag send_tag;

    struct route_state *route; /* Null for an unknown method. */
    bool is_admitted;
    bool was_seen; /* By the 'admit' hook: 'ended' is told. */
    uint32_t mark;
    ProtobufCMessage *request;
    struct rpc_receiver receiver; /* Set in the handler. */
    void *receiver_context;
    _Atomic(void *) data;
    int close_word; /* Written by the core. */
    grpc_byte_buffer *incoming;

    pthread_mutex_t mutex;
    /* Under the mutex. */
    grpc_call *core;          /* Null when over. */
    unsigned pending;         /* Batches that the core has. */
    bool has_close;           /* RECV_CLOSE is with the core. */
    bool is_close_sent_along; /* ... in the batch of SEND. */
    bool is_closed;           /* CLOSE came. */
    bool is_cancelled;
    bool is_reading;
    bool is_half_closed;
    bool is_sending;
    bool has_sent_initial;
    bool is_finished; /* 'final' counts. */
    bool is_cut;      /* What of it still flies is on its way back. */
    bool has_sent_status;
    struct outgoing *first;
    struct outgoing *last;
    struct outgoing *flying; /* In the core's hands. */
    size_t queued_bytes;
    grpc_status_code final_code;
    grpc_slice final_message;
    grpc_slice final_details; /* Empty: none. */
    grpc_metadata final_metadata[3];
    grpc_slice stored[2]; /* Revision and age; empty: not marked. */
    grpc_metadata headers;
};

/* --- listen.c --- */

/* Binds one listener. */
BATON_MUST_USE struct baton_status server_listen(struct rpc_server *server, size_t index,
                                                 const struct rpc_listener *listener);

/* --- inside.c --- */

/* A channel of its own to a server of this process; never null.  Who makes it destroys it after its call. */
grpc_channel *inside_channel(struct rpc_server *server, grpc_channel_credentials *credentials,
                             const grpc_channel_args *args);
/* Whether a peer's address is that of such a channel; nobody outside can have one. */
bool inside_is_address(const char *address);

/* --- tls.c --- */

/* Credentials of a listener that follow its files; '*files' lives as long as the server. */
BATON_MUST_USE struct baton_status tls_server_credentials(const struct rpc_tls *tls,
                                                          struct connections *connections,
                                                          struct tls_files **files,
                                                          grpc_server_credentials **out);
void tls_files_destroy(struct tls_files *files);
BATON_MUST_USE struct baton_status tls_client_credentials(const struct rpc_tls *tls,
                                                          grpc_channel_credentials **out);

/* --- expiry.c --- */

/* Seconds until the first certificate of a PEM text ends; false: it holds none. */
bool expiry_of_pem(const char *text, size_t size, int64_t *seconds);

/* --- peer.c --- */

/* Notes who called, once, while the core still knows. */
void call_read_peer(struct rpc_call *call);

/* --- call.c --- */

/* Asks for CLOSE, unless that was done; with the call's mutex.  Streams ask at once; a unary call only
 * with its status (one batch less), unless its handler wants on_done. */
void call_start_close(struct rpc_call *call);
/* Gives the core one more call to fill, unless the server stops. */
void call_accept_next(struct rpc_server *server, struct rpc_loop *loop);

/* --- call_send.c --- */

/* Starts what can be sent; with the call's mutex. */
void call_pump(struct rpc_call *call);
/* Tells the client at once that its stream was accepted; with the call's mutex. */
void call_send_headers(struct rpc_call *call);
/* Drops what is queued; with the call's mutex. */
void call_drop_queue(struct rpc_call *call);
/* Takes one more batch into account; with the call's mutex.  Its tag ends in call_batch_end(). */
void call_batch_begin(struct rpc_call *call);
/* Without the mutex, on the loop's thread: notes the end of a batch; the last one ends the call. */
void call_batch_end(struct rpc_call *call);
void call_on_sent(struct rpc_tag *tag, bool ok);

/* --- health.c, reflection.c --- */

enum { HEALTH_ROUTES = 2, REFLECTION_ROUTES = 2 };
extern const struct rpc_route health_routes[HEALTH_ROUTES];
extern const struct rpc_route reflection_routes[REFLECTION_ROUTES];

/* All services of the routes and "", NOT_SERVING. */
struct health_table *health_create(const struct rpc_server *server);
void health_destroy(struct health_table *table);
/* Everything is NOT_SERVING from now on; watchers hear it and are finished with 'status'. */
void health_stop(struct health_table *table, const struct baton_status *status);

#endif /* server.h */
