/* local_server.c -- the listening socket, its lock, and the threads of its clients. */
#include "agent/shell/local_server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/shell/local_session.h"
#include "api/base/clock.h"
#include "api/base/log.h"
#include "api/client/local_channel.h"

static const char module[] = "local";

enum {
    CONNECTIONS_DEFAULT = 32,
    CONNECTIONS_MOST = 1024,
    /* Threads beyond the limit, which only answer that the limit is reached. */
    REFUSALS_MAX = 8,
    BACKLOG = 64,
    STACK_BYTES = 1 << 20,
    RETRY_MS = 50,
};

enum slot_state { SLOT_FREE, SLOT_RUNNING, SLOT_ENDED };

struct slot {
    struct local_server *server;
    pthread_t thread;
    _Atomic enum slot_state state; /* FREE and RUNNING by the accepting thread, ENDED by its own. */
    int fd;
    bool is_refused;
};

struct local_server {
    struct local_server_options options;
    char agent[BATON_NAME_BYTES];
    struct sockaddr_un address;
    int listen_fd;
    int lock_fd;
    int stop_fd;
    atomic_bool is_stopping;
    struct local_session_context context;
    pthread_t acceptor;
    bool has_acceptor;
    struct slot *slots; /* connections_max + REFUSALS_MAX. */
    uint32_t slots_count;
};

/* --- threads --- */

/* Starts a thread that gets no signals. */
static int start_thread(pthread_t *out, void *(*run)(void *), void *argument)
{
    pthread_attr_t attributes;
    int result = pthread_attr_init(&attributes);
    if (result != 0) {
        return result;
    }
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    result = pthread_create(out, &attributes, run, argument);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return result;
}

static void *run_session(void *argument)
{
    struct slot *slot = argument;
    local_session_run(&slot->server->context, slot->fd, slot->is_refused);
    atomic_store(&slot->state, SLOT_ENDED);
    return NULL;
}

/* Joins what ended, counts what runs, and returns a free slot or null. */
static struct slot *find_slot(struct local_server *server, uint32_t *running)
{
    struct slot *free_slot = NULL;
    *running = 0;
    for (uint32_t i = 0; i < server->slots_count; i++) {
        struct slot *slot = &server->slots[i];
        if (atomic_load(&slot->state) == SLOT_ENDED) {
            (void)pthread_join(slot->thread, NULL);
            atomic_store(&slot->state, SLOT_FREE);
        }
        if (atomic_load(&slot->state) == SLOT_RUNNING) {
            *running += 1;
        } else if (free_slot == NULL) {
            free_slot = slot;
        }
    }
    return free_slot;
}

static void start_session(struct local_server *server, int fd)
{
    uint32_t running = 0;
    struct slot *slot = find_slot(server, &running);
    if (slot == NULL) {
        (void)close(fd);
        return;
    }
    slot->fd = fd;
    slot->is_refused = running >= server->options.connections_max;
    atomic_store(&slot->state, SLOT_RUNNING);
    int result = start_thread(&slot->thread, run_session, slot);
    if (result != 0) {
        atomic_store(&slot->state, SLOT_FREE);
        (void)close(fd);
        struct baton_status st = baton_status_errno(result, "pthread_create", "local client");
        baton_log_status(BATON_LOG_ERROR, module, "a local client was turned away", &st);
    }
}

static void accept_one(struct local_server *server)
{
    int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
        start_session(server, fd);
        return;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
        struct baton_status st = baton_status_errno(errno, "accept", server->address.sun_path);
        baton_log_status(BATON_LOG_ERROR, module, "local clients must wait", &st);
        /* The connection stays in the queue: without a pause this would spin. */
        struct pollfd stop = { server->stop_fd, POLLIN, 0 };
        (void)poll(&stop, 1, RETRY_MS);
    }
}

static void *run_acceptor(void *argument)
{
    struct local_server *server = argument;
    while (!atomic_load(&server->is_stopping)) {
        struct pollfd fds[2] = { { server->listen_fd, POLLIN, 0 }, { server->stop_fd, POLLIN, 0 } };
        if (poll(fds, 2, -1) > 0 && fds[0].revents != 0 && fds[1].revents == 0) {
            accept_one(server);
        }
    }
    return NULL;
}

/* --- the socket --- */

static struct baton_status in_use(const char *path)
{
    struct baton_status st =
        baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_IN_USE,
                          "local socket %s: another agent listens there", path);
    return baton_status_hint(st, "Stop it, or give this agent another socket path");
}

/* Holds <path>.lock as long as the server lives: two agents that start at once cannot each remove
 * the other's socket. */
static struct baton_status take_lock(struct local_server *server)
{
    char path[sizeof(server->address.sun_path) + 8];
    (void)snprintf(path, sizeof(path), "%s.lock", server->address.sun_path);
    server->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (server->lock_fd < 0) {
        struct baton_status st = baton_status_errno(errno, "local socket: open", path);
        return baton_status_hint(st, "Make its directory, writable for the agent");
    }
    if (flock(server->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        return errno == EWOULDBLOCK ? in_use(server->address.sun_path)
                                    : baton_status_errno(errno, "flock", path);
    }
    return baton_status_ok();
}

/* Removes a socket file that nobody listens on; refuses what is no socket. */
static struct baton_status remove_stale(const struct sockaddr_un *address)
{
    struct stat info;
    if (lstat(address->sun_path, &info) != 0) {
        return errno == ENOENT ? baton_status_ok()
                               : baton_status_errno(errno, "stat", address->sun_path);
    }
    if (!S_ISSOCK(info.st_mode)) {
        struct baton_status st =
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_IN_USE,
                              "local socket %s: something else has this name", address->sun_path);
        return baton_status_hint(st, "Remove it, or give this agent another socket path");
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return baton_status_errno(errno, "socket", "AF_UNIX");
    }
    bool answered =
        connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 || errno == EAGAIN;
    (void)close(fd);
    if (answered) {
        return in_use(address->sun_path);
    }
    return unlink(address->sun_path) == 0 || errno == ENOENT
               ? baton_status_ok()
               : baton_status_errno(errno, "unlink", address->sun_path);
}

static struct baton_status bind_and_listen(struct local_server *server)
{
    const char *path = server->address.sun_path;
    server->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (server->listen_fd < 0) {
        return baton_status_errno(errno, "socket", "AF_UNIX");
    }
    const struct sockaddr *address = (const struct sockaddr *)&server->address;
    if (bind(server->listen_fd, address, sizeof(server->address)) != 0) {
        return baton_status_errno(errno, "local socket: bind", path);
    }
    if (chmod(path, 0660) != 0 || listen(server->listen_fd, BACKLOG) != 0) {
        return baton_status_errno(errno, "local socket: listen", path);
    }
    return baton_status_ok();
}

static struct baton_status open_socket(struct local_server *server)
{
    struct baton_status st = take_lock(server);
    if (baton_ok(&st)) {
        st = remove_stale(&server->address);
    }
    if (baton_ok(&st)) {
        st = bind_and_listen(server);
    }
    return st;
}

/* --- life --- */

static struct baton_status fill_options(struct local_server *server,
                                        const struct local_server_options *options)
{
    server->options = *options;
    struct local_server_options *own = &server->options;
    if (own->connections_max == 0) {
        own->connections_max = CONNECTIONS_DEFAULT;
    }
    if (own->connections_max > CONNECTIONS_MOST) {
        own->connections_max = CONNECTIONS_MOST;
    }
    own->idle_ns = own->idle_ns != 0 ? own->idle_ns : 600 * BATON_NS_PER_S;
    own->write_timeout_ns =
        own->write_timeout_ns != 0 ? own->write_timeout_ns : 10 * BATON_NS_PER_S;
    if (!baton_text_copy(server->agent, sizeof(server->agent), options->agent)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "agent name '%.100s' is too long", options->agent);
    }
    own->agent = server->agent;
    return local_address_parse(options->address, &server->address);
}

static struct baton_status prepare(struct local_server *server)
{
    server->slots_count = server->options.connections_max + REFUSALS_MAX;
    server->slots = calloc(server->slots_count, sizeof(*server->slots));
    server->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->slots == NULL || server->stop_fd < 0) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "no memory or descriptors for the local server");
    }
    for (uint32_t i = 0; i < server->slots_count; i++) {
        server->slots[i].server = server;
    }
    server->context =
        (struct local_session_context){ &server->options, server->stop_fd, &server->is_stopping };
    return baton_status_ok();
}

static struct baton_status start(struct local_server *server)
{
    int result = start_thread(&server->acceptor, run_acceptor, server);
    if (result != 0) {
        return baton_status_errno(result, "pthread_create", "local server");
    }
    server->has_acceptor = true;
    return baton_status_ok();
}

struct baton_status local_server_create(const struct local_server_options *options,
                                        struct local_server **out)
{
    struct local_server *server = calloc(1, sizeof(*server));
    if (server == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "no memory for the local server");
    }
    server->listen_fd = -1;
    server->lock_fd = -1;
    server->stop_fd = -1;
    struct baton_status st = fill_options(server, options);
    if (baton_ok(&st)) {
        st = prepare(server);
    }
    if (baton_ok(&st)) {
        st = open_socket(server);
    }
    if (baton_ok(&st)) {
        st = start(server);
    }
    if (!baton_ok(&st)) {
        local_server_destroy(server);
        return st;
    }
    *out = server;
    return st;
}

static void stop_threads(struct local_server *server)
{
    atomic_store(&server->is_stopping, true);
    uint64_t one = 1;
    if (server->stop_fd >= 0 && write(server->stop_fd, &one, sizeof(one)) != sizeof(one)) {
        baton_log(BATON_LOG_ERROR, module, "cannot wake the local server");
    }
    if (server->has_acceptor) {
        (void)pthread_join(server->acceptor, NULL);
    }
    for (uint32_t i = 0; i < server->slots_count && server->slots != NULL; i++) {
        if (atomic_load(&server->slots[i].state) != SLOT_FREE) {
            (void)pthread_join(server->slots[i].thread, NULL);
        }
    }
}

static void close_if_open(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}

void local_server_destroy(struct local_server *server)
{
    if (server == NULL) {
        return;
    }
    if (server->has_acceptor) {
        (void)unlink(server->address.sun_path); /* Only a server that listened owns the file. */
    }
    stop_threads(server);
    close_if_open(server->listen_fd);
    close_if_open(server->lock_fd);
    close_if_open(server->stop_fd);
    free(server->slots);
    free(server);
}
