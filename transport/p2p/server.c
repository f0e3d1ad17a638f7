/* server.c -- accepting and ending connections; see server.h. */
#include "transport/p2p/server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/p2p/server_state.h"

enum { STACK_BYTES = 512 << 10 };

/* --- a connection's life --- */

static void unlink_connection(struct p2p_server *server, struct p2p_connection *connection)
{
    for (struct p2p_connection **at = &server->connections; *at != NULL; at = &(*at)->next) {
        if (*at == connection) {
            *at = connection->next;
            return;
        }
    }
}

/* The channel goes only once nobody can stop it any more. */
static void end(struct p2p_connection *connection)
{
    struct p2p_server *server = connection->server;
    (void)pthread_mutex_lock(&server->lock);
    unlink_connection(server, connection);
    (void)pthread_mutex_unlock(&server->lock);
    channel_close(connection->channel);
    free(connection);
    (void)pthread_mutex_lock(&server->lock);
    server->connections_count--;
    (void)pthread_cond_broadcast(&server->ended);
    (void)pthread_mutex_unlock(&server->lock);
}

static void *run(void *argument)
{
    p2p_serve(argument);
    end(argument);
    return NULL;
}

bool p2p_connection_name(struct p2p_connection *connection, const char *node)
{
    struct p2p_server *server = connection->server;
    unsigned count = 0;
    (void)pthread_mutex_lock(&server->lock);
    for (const struct p2p_connection *c = server->connections; c != NULL; c = c->next) {
        count += strcmp(c->node, node) == 0;
    }
    bool fits = count < P2P_CONNECTIONS_PER_NODE_MAX;
    if (fits) {
        (void)snprintf(connection->node, sizeof(connection->node), "%.63s", node);
    }
    (void)pthread_mutex_unlock(&server->lock);
    return fits;
}

bool p2p_is_stopping(struct p2p_server *server)
{
    (void)pthread_mutex_lock(&server->lock);
    bool stopping = server->stopping;
    (void)pthread_mutex_unlock(&server->lock);
    return stopping;
}

/* --- accepting --- */

/* Up to the port. */
static size_t host_bytes(const char *remote)
{
    const char *colon = strrchr(remote, ':');
    return colon != NULL ? (size_t)(colon - remote) : strlen(remote);
}

/* Under the lock: connections of this one's address whose node is not known. */
static unsigned count_strangers(const struct p2p_server *server,
                                const struct p2p_connection *connection)
{
    const char *remote = channel_remote(connection->channel);
    size_t bytes = host_bytes(remote);
    unsigned count = 0;
    for (const struct p2p_connection *c = server->connections; c != NULL; c = c->next) {
        const char *other = channel_remote(c->channel);
        count +=
            c->node[0] == '\0' && host_bytes(other) == bytes && memcmp(other, remote, bytes) == 0;
    }
    return count;
}

/* False: too many, or it is ending. */
static bool enlist(struct p2p_server *server, struct p2p_connection *connection)
{
    (void)pthread_mutex_lock(&server->lock);
    bool fits = !server->stopping && server->connections_count < server->options.connections_max &&
                count_strangers(server, connection) < P2P_STRANGERS_PER_HOST_MAX;
    if (fits) {
        connection->next = server->connections;
        server->connections = connection;
        server->connections_count++;
    }
    (void)pthread_mutex_unlock(&server->lock);
    return fits;
}

static void start(struct p2p_server *server, int fd)
{
    pthread_t thread;
    pthread_attr_t attributes;
    struct p2p_connection *connection = calloc(1, sizeof(*connection));
    baton_assert(connection != NULL);
    connection->server = server;
    connection->channel = channel_of_socket(fd);
    if (!enlist(server, connection)) {
        channel_close(connection->channel);
        free(connection);
        return;
    }
    atomic_fetch_add(&server->accepted, 1);
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (pthread_create(&thread, &attributes, run, connection) != 0) {
        end(connection);
    }
    (void)pthread_attr_destroy(&attributes);
}

static void *accept_all(void *argument)
{
    struct p2p_server *server = argument;
    struct pollfd items[2] = { { .fd = server->listen_fd, .events = POLLIN },
                               { .fd = server->stop_fd, .events = POLLIN } };
    while (!p2p_is_stopping(server)) {
        if (poll(items, 2, -1) < 0 && errno != EINTR) {
            break;
        }
        int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            start(server, fd);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            (void)poll(&items[1], 1, 100); /* What is needed may become free. */
        }
    }
    return NULL;
}

struct baton_status p2p_server_create(const struct p2p_server_options *options,
                                      struct p2p_server **out)
{
    struct p2p_server *server = calloc(1, sizeof(*server));
    baton_assert(server != NULL && options->roots_count <= P2P_ROOTS_MAX);
    server->options = *options;
    if (server->options.connections_max == 0) {
        server->options.connections_max = P2P_CONNECTIONS_DEFAULT;
    }
    server->listen_fd = -1;
    (void)pthread_mutex_init(&server->lock, NULL);
    (void)pthread_cond_init(&server->ended, NULL);
    server->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct baton_status st = server->stop_fd >= 0
                                 ? channel_listen(options->listen, &server->listen_fd)
                                 : baton_status_errno(errno, "eventfd", "p2p");
    if (baton_ok(&st)) {
        int error = pthread_create(&server->thread, NULL, accept_all, server);
        server->started = error == 0;
        st = error == 0 ? st : baton_status_errno(error, "pthread_create", "p2p");
    }
    if (!baton_ok(&st)) {
        p2p_server_destroy(server);
        return baton_status_in(st, "peers.listen");
    }
    *out = server;
    return st;
}

static void stop_all(struct p2p_server *server)
{
    (void)pthread_mutex_lock(&server->lock);
    server->stopping = true;
    for (struct p2p_connection *c = server->connections; c != NULL; c = c->next) {
        channel_stop(c->channel);
    }
    (void)pthread_mutex_unlock(&server->lock);
    if (server->stop_fd >= 0) {
        (void)eventfd_write(server->stop_fd, 1);
    }
}

void p2p_server_destroy(struct p2p_server *server)
{
    if (server == NULL) {
        return;
    }
    stop_all(server);
    if (server->started) {
        (void)pthread_join(server->thread, NULL);
    }
    (void)pthread_mutex_lock(&server->lock);
    while (server->connections_count > 0) {
        (void)pthread_cond_wait(&server->ended, &server->lock);
    }
    (void)pthread_mutex_unlock(&server->lock);
    if (server->listen_fd >= 0) {
        close(server->listen_fd);
    }
    if (server->stop_fd >= 0) {
        close(server->stop_fd);
    }
    (void)pthread_mutex_destroy(&server->lock);
    (void)pthread_cond_destroy(&server->ended);
    free(server);
}

uint16_t p2p_server_port(const struct p2p_server *server)
{
    return channel_listen_port(server->listen_fd);
}

struct p2p_server_counts p2p_server_counts(struct p2p_server *server)
{
    struct p2p_server_counts counts = { .accepted = atomic_load(&server->accepted),
                                        .refused = atomic_load(&server->refused),
                                        .chunks = atomic_load(&server->chunks),
                                        .bytes = atomic_load(&server->bytes) };
    (void)pthread_mutex_lock(&server->lock);
    counts.connections = server->connections_count;
    (void)pthread_mutex_unlock(&server->lock);
    return counts;
}
