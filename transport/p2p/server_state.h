/* server_state.h -- what server.c and server_serve.c share.
 *
 * Depends on: server.h.  Threads, ownership: as server.h. */
#ifndef TRANSPORT_P2P_SERVER_STATE_H
#define TRANSPORT_P2P_SERVER_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "transport/p2p/server.h"

/* One node that pulls. */
struct p2p_connection {
    struct p2p_server *server;
    struct p2p_connection *next;
    struct channel *channel;
    char node[BATON_NAME_BYTES]; /* Under the lock; empty: not known yet. */
};

struct p2p_server {
    struct p2p_server_options options;
    int listen_fd;
    int stop_fd; /* Readable: end. */
    pthread_t thread;
    bool started;
    _Atomic uint64_t accepted, refused, chunks, bytes;

    pthread_mutex_t lock;
    pthread_cond_t ended;
    /* Under the lock. */
    struct p2p_connection *connections;
    uint32_t connections_count;
    bool stopping;
};

/* Serves one connection to its end. */
void p2p_serve(struct p2p_connection *connection);
/* Notes whose it is; false: that node has too many. */
bool p2p_connection_name(struct p2p_connection *connection, const char *node);
bool p2p_is_stopping(struct p2p_server *server);

#endif /* server_state.h */
