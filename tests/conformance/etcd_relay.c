/* etcd_relay.c -- a relay that delays requests and loses answers; see etcd_rig.h. */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "tests/conformance/etcd_rig.h"

enum { HELD_BYTES = 256 << 10, POLL_MS = 10, CONNECTIONS_MAX = 256 };

struct etcd_relay {
    int fd;
    int port;
    int target_port;
    pthread_t thread;
    _Atomic int mode;
    const char *_Atomic text; /* Only what has it is held; null: all. */
    _Atomic int held;
    _Atomic int late;
    _Atomic int dropped;
    _Atomic int slowed;
    _Atomic bool stopping;
    pthread_t connections[CONNECTIONS_MAX];
    int connections_count;
};

struct connection {
    struct etcd_relay *relay;
    int client; /* -1: hung up. */
    int server;
    size_t held_size;
    char held[HELD_BYTES];
};

static int connect_to(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static bool send_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        data += sent;
        size -= (size_t)sent;
    }
    return true;
}

static void hang_up(struct connection *connection)
{
    if (connection->client >= 0) {
        (void)close(connection->client);
        connection->client = -1;
    }
}

static bool is_held(const struct connection *connection, const char *data, size_t size)
{
    const char *text = atomic_load(&connection->relay->text);
    return atomic_load(&connection->relay->mode) == RELAY_HOLD &&
           (text == NULL || connection->held_size > 0 ||
            memmem(data, size, text, strlen(text)) != NULL);
}

/* False: the connection is over. */
static bool from_client(struct connection *connection)
{
    char data[16384];
    ssize_t size = recv(connection->client, data, sizeof(data), 0);
    if (size <= 0) {
        hang_up(connection);
        return connection->held_size > 0;
    }
    bool hold = is_held(connection, data, (size_t)size);
    if (hold && connection->held_size + (size_t)size <= HELD_BYTES) {
        atomic_fetch_add(&connection->relay->held, connection->held_size == 0);
        memcpy(connection->held + connection->held_size, data, (size_t)size);
        connection->held_size += (size_t)size;
        return true;
    }
    if (atomic_load(&connection->relay->mode) == RELAY_SLOW && size > 5 &&
        memcmp(data, "POST ", 5) == 0) {
        atomic_fetch_add(&connection->relay->slowed, 1);
        baton_clock_sleep_ns(RELAY_SLOW_MS * BATON_NS_PER_MS);
    }
    return send_all(connection->server, data, (size_t)size);
}

static bool from_server(struct connection *connection)
{
    char data[16384];
    ssize_t size = recv(connection->server, data, sizeof(data), 0);
    if (size <= 0) {
        return false;
    }
    if (atomic_load(&connection->relay->mode) == RELAY_DEAF) {
        atomic_fetch_add(&connection->relay->dropped, 1);
        hang_up(connection);
        return false;
    }
    return connection->client >= 0 && send_all(connection->client, data, (size_t)size);
}

static bool release(struct connection *connection)
{
    if (connection->held_size == 0 || atomic_load(&connection->relay->mode) == RELAY_HOLD) {
        return true;
    }
    bool ok = send_all(connection->server, connection->held, connection->held_size);
    struct pollfd answered = { connection->server, POLLIN, 0 };
    connection->held_size = 0;
    if (connection->client < 0) {
        (void)poll(&answered, 1, 5000); /* It took effect, or was refused. */
        atomic_fetch_add(&connection->relay->late, 1);
    }
    return ok;
}

static void *serve(void *argument)
{
    struct connection *connection = argument;
    bool open = connection->server >= 0;
    while (open && !atomic_load(&connection->relay->stopping)) {
        struct pollfd fds[2] = { { connection->server, POLLIN, 0 },
                                 { connection->client, POLLIN, 0 } };
        (void)poll(fds, 2, POLL_MS);
        if (atomic_load(&connection->relay->mode) ==
            RELAY_STALL) { /* Also what came in the poll. */
            (void)poll(NULL, 0, POLL_MS);
            continue;
        }
        open = release(connection);
        open = open && (fds[1].revents == 0 || from_client(connection));
        open = open && (fds[0].revents == 0 || from_server(connection));
    }
    hang_up(connection);
    if (connection->server >= 0) {
        (void)close(connection->server);
    }
    free(connection);
    return NULL;
}

static void *listen_thread(void *argument)
{
    struct etcd_relay *relay = argument;
    while (!atomic_load(&relay->stopping)) {
        struct pollfd fds = { relay->fd, POLLIN, 0 };
        if (poll(&fds, 1, POLL_MS) <= 0 || relay->connections_count == CONNECTIONS_MAX) {
            continue;
        }
        struct connection *connection = calloc(1, sizeof(*connection));
        if (connection == NULL) {
            abort();
        }
        connection->relay = relay;
        connection->client = accept(relay->fd, NULL, NULL);
        connection->server = connect_to(relay->target_port);
        pthread_t *place = &relay->connections[relay->connections_count++];
        if (pthread_create(place, NULL, serve, connection) != 0) {
            abort();
        }
    }
    return NULL;
}

struct etcd_relay *etcd_relay_start(int target_port)
{
    struct etcd_relay *relay = calloc(1, sizeof(*relay));
    struct sockaddr_in address = { .sin_family = AF_INET };
    if (relay == NULL) {
        abort();
    }
    relay->port = etcd_rig_free_port();
    relay->target_port = target_port;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)relay->port);
    relay->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (relay->fd < 0 || bind(relay->fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(relay->fd, 16) != 0 ||
        pthread_create(&relay->thread, NULL, listen_thread, relay) != 0) {
        perror("relay");
        exit(1);
    }
    return relay;
}

int etcd_relay_port(const struct etcd_relay *relay)
{
    return relay->port;
}

void etcd_relay_set(struct etcd_relay *relay, enum etcd_relay_mode mode)
{
    atomic_store(&relay->text, NULL);
    atomic_store(&relay->mode, (int)mode);
}

void etcd_relay_hold(struct etcd_relay *relay, const char *text)
{
    atomic_store(&relay->text, text);
    atomic_store(&relay->mode, (int)RELAY_HOLD);
}

int etcd_relay_held(const struct etcd_relay *relay)
{
    return atomic_load(&relay->held);
}

int etcd_relay_late(const struct etcd_relay *relay)
{
    return atomic_load(&relay->late);
}

int etcd_relay_dropped(const struct etcd_relay *relay)
{
    return atomic_load(&relay->dropped);
}

int etcd_relay_slowed(const struct etcd_relay *relay)
{
    return atomic_load(&relay->slowed);
}

void etcd_relay_stop(struct etcd_relay *relay)
{
    atomic_store(&relay->stopping, true);
    (void)pthread_join(relay->thread, NULL);
    for (int i = 0; i < relay->connections_count; i++) {
        (void)pthread_join(relay->connections[i], NULL);
    }
    (void)close(relay->fd);
    free(relay);
}
