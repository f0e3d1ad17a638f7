/* listen.c -- binding addresses, with errors that say what to do; see server.h. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "api/rpc/server.h"

struct host_port {
    char host[256];
    char port[8];
};

/* "host:port" or "[v6]:port" in its parts. */
static struct baton_status split(const char *address, struct host_port *out)
{
    const char *colon = strrchr(address, ':');
    const char *host = address;
    size_t length = colon == NULL ? 0 : (size_t)(colon - address);
    if (length >= 2 && address[0] == '[' && address[length - 1] == ']') {
        host = address + 1;
        length -= 2;
    } else if (colon != NULL && memchr(address, ':', length) != NULL) {
        length = 0; /* A bare IPv6 address: where it ends is unclear. */
    }
    char *end = NULL;
    long port = colon == NULL ? -1 : strtol(colon + 1, &end, 10);
    if (length == 0 || length >= sizeof(out->host) || end == colon + 1 || *end != '\0' ||
        port < 0 || port > 65535) {
        struct baton_status st = baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                                   "listen address \"%s\": is none", address);
        return baton_status_hint(st, "write host:port, [v6address]:port or unix:/path");
    }
    (void)snprintf(out->host, sizeof(out->host), "%.*s", (int)length, host);
    (void)snprintf(out->port, sizeof(out->port), "%ld", port);
    return baton_status_ok();
}

static int try_bind(const struct addrinfo *item)
{
    int fd = socket(item->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    bool is_bound = bind(fd, item->ai_addr, item->ai_addrlen) == 0 && listen(fd, 1) == 0;
    int error = is_bound ? 0 : errno;
    (void)close(fd);
    return error;
}

/* Binds for a moment, to learn what the core does not say: why it cannot, or that only one of a name's
 * addresses is free (it would take that one and be content).  'only_taken': other troubles do not
 * count.  0 if nothing stands in the way. */
static int bind_error(const struct host_port *at, bool only_taken)
{
    struct addrinfo hints = { .ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM };
    struct addrinfo *list = NULL;
    if (getaddrinfo(at->host, at->port, &hints, &list) != 0) {
        return only_taken ? 0 : EADDRNOTAVAIL;
    }
    int error = 0;
    for (const struct addrinfo *item = list; item != NULL && error == 0; item = item->ai_next) {
        int here = try_bind(item);
        error = only_taken && here != EADDRINUSE ? 0 : here;
    }
    freeaddrinfo(list);
    return error;
}

static struct baton_status in_use(const char *address)
{
    struct baton_status st = baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_IN_USE,
                                               "listen %s: another process has it", address);
    return baton_status_hint(st, "stop that process, or choose another address");
}

static struct baton_status explain(const char *address, const struct host_port *at)
{
    int error = bind_error(at, false);
    if (error == EADDRINUSE) {
        return in_use(address);
    }
    struct baton_status st = baton_status_errno(error == 0 ? EIO : error, "listen", address);
    return baton_status_hint(st, "the host must be an address of this machine, the port one that "
                                 "this user may open");
}

/* Whether somebody answers behind the socket file.  The core would take the path away from them. */
static struct baton_status check_unix(const char *address, const char *path)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    if (path[0] == '\0' || strlen(path) >= sizeof(at.sun_path)) {
        struct baton_status st = baton_status_make(
            BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
            "listen address \"%s\": the path of a Unix socket has 1 to %zu characters", address,
            sizeof(at.sun_path) - 1);
        return baton_status_hint(st, "choose a shorter path");
    }
    memcpy(at.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return baton_status_errno(errno, "socket", address);
    }
    bool is_taken = connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0 || errno == EAGAIN;
    (void)close(fd);
    return is_taken ? in_use(address) : baton_status_ok();
}

static struct baton_status check_address(const char *address, struct host_port *at)
{
    *at = (struct host_port){ .host = "" };
    if (strncmp(address, "unix:", 5) == 0) {
        return check_unix(address, address + 5);
    }
    struct baton_status st = split(address, at);
    if (baton_ok(&st) && strcmp(at->port, "0") != 0 && bind_error(at, true) != 0) {
        return in_use(address);
    }
    return st;
}

struct baton_status server_listen(struct rpc_server *server, size_t index,
                                  const struct rpc_listener *listener)
{
    struct host_port at;
    struct baton_status st = check_address(listener->address, &at);
    if (!baton_ok(&st)) {
        return st;
    }
    grpc_server_credentials *credentials = NULL;
    if (listener->tls != NULL) {
        st = tls_server_credentials(listener->tls, server->connections, &server->tls[index],
                                    &credentials);
        if (!baton_ok(&st)) {
            return st;
        }
    } else {
        credentials = grpc_insecure_server_credentials_create();
    }
    rpc_core_hush(true);
    int port = grpc_server_add_http2_port(server->core, listener->address, credentials);
    rpc_core_hush(false);
    grpc_server_credentials_release(credentials);
    if (port == 0 && at.host[0] != '\0') {
        return explain(listener->address, &at);
    }
    if (port == 0) {
        st = baton_status_make(BATON_INTERNAL, BATON_REASON_IO,
                               "listen %s: the socket cannot be made", listener->address);
        return baton_status_hint(st, "its folder must exist and be writable");
    }
    server->ports[index] = at.host[0] == '\0' ? 0 : (uint16_t)port;
    return baton_status_ok();
}
