/* connections.c -- see connections.h. */
#include "api/rpc/connections.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <grpc/support/sync.h>

#include "api/base/clock.h"
#include "api/base/log.h"
#include "api/rpc/core.h"

enum { WHY_BYTES = 96, SLOTS_FIRST = 256, V6_PREFIX_BYTES = 8, LOG_EACH_S = 1 };

/* What grpc_version_string() says of the one whose mutator this is. */
static const char KNOWN_CORE[] = "29.0.0";

/* --- the core's socket mutator --- */

enum { USAGE_SERVER_CONNECTION = 2 };

struct mutated_socket {
    int fd;
    int usage;
};

struct mutator_methods {
    bool (*mutate)(int fd, grpc_socket_mutator *mutator);
    int (*compare)(grpc_socket_mutator *a, grpc_socket_mutator *b);
    void (*destroy)(grpc_socket_mutator *mutator);
    bool (*mutate_of_usage)(const struct mutated_socket *socket, grpc_socket_mutator *mutator);
};

struct grpc_socket_mutator {
    const struct mutator_methods *methods;
    gpr_refcount references;
};

/* --- ours --- */

/* Who is counted together. */
struct origin {
    int family;
    uint8_t bytes[sizeof(struct in6_addr)];
};

/* A descriptor that was accepted; inode 0: none, or it is closed. */
struct slot {
    ino_t inode;
    struct origin origin;
};

struct connections {
    struct grpc_socket_mutator mutator; /* First: the core knows us by it.  Its count is ours. */
    uint32_t per_address_max;           /* 0: not bounded. */
    bool is_told;                       /* Somebody wants to hear of refusals. */
    void *context;
    pthread_mutex_t mutex;
    /* Under the mutex. */
    void (*on_refused)(const struct rpc_refused *refused,
                       void *context); /* Null: the server is gone. */
    struct slot *slots;                /* By descriptor. */
    size_t slots_count;
};

/* Where the connection comes from that the core accepted last on this thread; "": it was taken. */
static _Thread_local char accepted[CONNECTIONS_ADDRESS_BYTES];

/* --- how many --- */

/* With the mutex. */
static struct slot *slot_of(struct connections *connections, int fd)
{
    size_t count = connections->slots_count;
    if ((size_t)fd >= count) {
        size_t wanted = count == 0 ? SLOTS_FIRST : count;
        while (wanted <= (size_t)fd) {
            wanted *= 2;
        }
        connections->slots = realloc(connections->slots, wanted * sizeof(*connections->slots));
        baton_assert(connections->slots != NULL);
        memset(connections->slots + count, 0, (wanted - count) * sizeof(*connections->slots));
        connections->slots_count = wanted;
    }
    return &connections->slots[fd];
}

static ino_t inode_of(int fd)
{
    struct stat found;
    return fstat(fd, &found) == 0 ? found.st_ino : 0;
}

/* With the mutex: how many sockets of this origin are open; forgets those that are not. */
static uint32_t count_open(struct connections *connections, const struct origin *origin)
{
    uint32_t open = 0;
    for (size_t fd = 0; fd < connections->slots_count; fd++) {
        struct slot *slot = &connections->slots[fd];
        if (slot->inode == 0 || memcmp(&slot->origin, origin, sizeof(*origin)) != 0) {
            continue;
        }
        if (inode_of((int)fd) == slot->inode) {
            open++;
        } else {
            slot->inode = 0;
        }
    }
    return open;
}

/* Whether this one may stay; notes it then. */
static bool admit(struct connections *connections, int fd, const struct origin *origin)
{
    pthread_mutex_lock(&connections->mutex);
    struct slot *slot = slot_of(connections, fd);
    slot->inode = 0; /* Who had this number has closed it. */
    bool fits = count_open(connections, origin) < connections->per_address_max;
    if (fits) {
        *slot = (struct slot){ inode_of(fd), *origin };
    }
    pthread_mutex_unlock(&connections->mutex);
    return fits;
}

/* --- from where --- */

static struct origin origin_v4(const void *address)
{
    struct origin origin = { .family = AF_INET };
    memcpy(origin.bytes, address, sizeof(struct in_addr));
    return origin;
}

/* Notes the address for people in 'accepted'; who is counted together with it. */
static struct origin note_address(const struct sockaddr_storage *at)
{
    char host[INET6_ADDRSTRLEN] = "";
    const struct sockaddr_in *v4 = (const void *)at;
    const struct sockaddr_in6 *v6 = (const void *)at;
    struct origin origin = { .family = AF_INET6 };
    if (at->ss_family == AF_INET) {
        (void)inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
        (void)snprintf(accepted, sizeof(accepted), "ipv4:%s:%u", host, ntohs(v4->sin_port));
        return origin_v4(&v4->sin_addr);
    }
    (void)inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
    if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
        (void)snprintf(accepted, sizeof(accepted), "ipv4:%s:%u", host + strlen("::ffff:"),
                       ntohs(v6->sin6_port));
        return origin_v4(v6->sin6_addr.s6_addr + sizeof(v6->sin6_addr) - sizeof(struct in_addr));
    }
    (void)snprintf(accepted, sizeof(accepted), "ipv6:[%s]:%u", host, ntohs(v6->sin6_port));
    memcpy(origin.bytes, &v6->sin6_addr, V6_PREFIX_BYTES);
    return origin;
}

static void refuse(struct connections *connections, int fd)
{
    char why[WHY_BYTES];
    struct rpc_refused refused = { .address = accepted, .name = "", .why = why, .is_limit = true };
    (void)snprintf(why, sizeof(why), "its address has %u connections here, as many as one may have",
                   connections->per_address_max);
    connections_refused(connections, &refused);
    (void)shutdown(fd, SHUT_RDWR);
    accepted[0] = '\0';
}

static bool note_socket(const struct mutated_socket *socket, grpc_socket_mutator *mutator)
{
    struct connections *connections = RPC_CONTAINER(mutator, struct connections, mutator);
    struct sockaddr_storage at = { .ss_family = AF_UNSPEC };
    socklen_t size = sizeof(at);
    accepted[0] = '\0';
    if (socket->usage == USAGE_SERVER_CONNECTION &&
        getpeername(socket->fd, (struct sockaddr *)&at, &size) == 0 &&
        (at.ss_family == AF_INET || at.ss_family == AF_INET6)) {
        struct origin origin = note_address(&at);
        if (connections->per_address_max > 0 && !admit(connections, socket->fd, &origin)) {
            refuse(connections, socket->fd);
        }
    }
    return true; /* Else the core gives the listener up. */
}

static int compare(grpc_socket_mutator *a, grpc_socket_mutator *b)
{
    return a == b ? 0 : a < b ? -1 : 1;
}

static void destroy(grpc_socket_mutator *mutator)
{
    struct connections *connections = RPC_CONTAINER(mutator, struct connections, mutator);
    pthread_mutex_destroy(&connections->mutex);
    free(connections->slots);
    free(connections);
}

static const struct mutator_methods methods = { .compare = compare,
                                                .destroy = destroy,
                                                .mutate_of_usage = note_socket };

static void *copy_arg(void *pointer)
{
    return connections_ref(pointer);
}

static void drop_arg(void *pointer)
{
    connections_unref(pointer);
}

static int compare_arg(void *a, void *b)
{
    return compare(a, b);
}

/* --- what the others call --- */

bool rpc_sees_connections(void)
{
    return strcmp(grpc_version_string(), KNOWN_CORE) == 0;
}

struct connections *connections_create(const struct rpc_server_options *options)
{
    struct connections *connections = calloc(1, sizeof(*connections));
    baton_assert(connections != NULL);
    connections->mutator.methods = &methods;
    gpr_ref_init(&connections->mutator.references, 1);
    connections->per_address_max = options->connections_per_address_max;
    connections->is_told = options->on_refused != NULL;
    connections->on_refused = options->on_refused;
    connections->context = options->context;
    pthread_mutex_init(&connections->mutex, NULL);
    if (connections->per_address_max > 0 && !rpc_sees_connections()) {
        struct baton_log_field fields[] = { BATON_LOG_TEXT("core", grpc_version_string()) };
        baton_log_fields(BATON_LOG_WARN, "rpc",
                         "connections of one address are not bounded with this version of gRPC",
                         fields, 1);
    }
    return connections;
}

struct connections *connections_ref(struct connections *connections)
{
    gpr_ref(&connections->mutator.references);
    return connections;
}

void connections_unref(struct connections *connections)
{
    if (gpr_unref(&connections->mutator.references) != 0) {
        destroy(&connections->mutator);
    }
}

void connections_end(struct connections *connections)
{
    pthread_mutex_lock(&connections->mutex);
    connections->on_refused = NULL;
    pthread_mutex_unlock(&connections->mutex);
    connections_unref(connections);
}

grpc_arg connections_arg(struct connections *connections)
{
    static const grpc_arg_pointer_vtable arg_methods = { copy_arg, drop_arg, compare_arg };
    if (!rpc_sees_connections()) {
        return (grpc_arg){ .key = NULL };
    }
    return (grpc_arg){ .type = GRPC_ARG_POINTER,
                       .key = (char *)(uintptr_t)GRPC_ARG_SOCKET_MUTATOR,
                       .value.pointer = { &connections->mutator, &arg_methods } };
}

void connections_refused(struct connections *connections, const struct rpc_refused *refused)
{
    pthread_mutex_lock(&connections->mutex);
    if (connections->on_refused != NULL) {
        connections->on_refused(refused, connections->context);
    }
    pthread_mutex_unlock(&connections->mutex);
}

bool connections_is_beginning(const struct connections *connections)
{
    return connections->is_told && accepted[0] != '\0';
}

void connections_take_address(char out[CONNECTIONS_ADDRESS_BYTES])
{
    memcpy(out, accepted, sizeof(accepted));
    accepted[0] = '\0';
}

void rpc_refused_log(const struct rpc_refused *refused, const char *component)
{
    static atomic_uint_fast64_t logged_ns;
    uint64_t now = baton_clock_monotonic_ns();
    uint64_t before = atomic_load(&logged_ns);
    bool is_due = before == 0 || now - before > LOG_EACH_S * BATON_NS_PER_S;
    if (is_due && atomic_compare_exchange_strong(&logged_ns, &before, now)) {
        struct baton_log_field fields[] = { BATON_LOG_TEXT("address", refused->address),
                                            BATON_LOG_TEXT("why", refused->why),
                                            BATON_LOG_TEXT("says", refused->name) };
        baton_log_fields(BATON_LOG_WARN, component, "a connection was refused", fields,
                         refused->name[0] != '\0' ? 3 : 2);
    }
}
