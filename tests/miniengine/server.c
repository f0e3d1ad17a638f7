/* server.c -- see server.h. */
#include "tests/miniengine/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/miniengine/reply.h"

enum { HOLD_POLL_MS = 2, BACKLOG = 256 };

static uint64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000U + (uint64_t)now.tv_nsec / 1000000U;
}

static const char *header(const struct exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

static enum MHD_Result describe_guard(struct exchange *exchange)
{
    char text[512];
    guard_describe(exchange->server->guard, text, sizeof text);
    return reply_text(exchange, 200, "application/json", text);
}

/* 'known' becomes true if the path exists under another method. */
static server_handler_fn *find_in(const struct server_route *routes,
                                  const struct exchange *exchange, bool *known)
{
    for (size_t i = 0; routes[i].path != NULL; i++) {
        if (strcmp(routes[i].path, exchange->path) != 0) {
            continue;
        }
        if (strcmp(routes[i].method, exchange->method) == 0) {
            return routes[i].run;
        }
        *known = true;
    }
    return NULL;
}

static enum MHD_Result run_route(struct exchange *exchange)
{
    bool known = false;
    if (exchange->too_long) {
        return reply_error(exchange, 413, NULL, "the body is longer than %d bytes",
                           SERVER_BODY_BYTES_MAX);
    }
    server_handler_fn *run = find_in(server_public_routes, exchange, &known);
    if (run == NULL) {
        run = find_in(server_control_routes, exchange, &known);
    }
    if (run != NULL) {
        return run(exchange);
    }
    return known ? reply_detail(exchange, 405, "Method Not Allowed")
                 : reply_detail(exchange, 404, "Not Found");
}

/* Asks the guard until it has decided; a client that leaves meanwhile frees its place. */
static enum MHD_Result pass_guard(struct exchange *exchange)
{
    struct guard *guard = exchange->server->guard;
    const struct guard_request request = {
        .method = exchange->method,
        .path = exchange->path,
        .token = header(exchange, "x-baton-token"),
        .min_version = header(exchange, "x-baton-min-version"),
        .exact_version = header(exchange, "x-baton-exact-version"),
    };
    enum guard_verdict verdict = guard_ask(guard, &request, now_ms(), &exchange->ticket);
    while (verdict == GUARD_WAITS) {
        reply_wait(exchange, -1, HOLD_POLL_MS);
        if (reply_client_gone(exchange) || atomic_load(&exchange->server->stopping)) {
            return MHD_NO;
        }
        verdict = guard_ask(guard, &request, now_ms(), &exchange->ticket);
    }
    if (verdict == GUARD_REFUSES) {
        return reply_refusal(exchange);
    }
    return verdict == GUARD_ANSWERS ? describe_guard(exchange) : run_route(exchange);
}

static struct exchange *exchange_create(struct server *server, struct MHD_Connection *connection,
                                        const char *method, const char *path)
{
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (exchange != NULL) {
        exchange->server = server;
        exchange->connection = connection;
        exchange->method = method;
        exchange->path = path;
        (void)atomic_fetch_add(&server->active, 1);
    }
    return exchange;
}

static void add_body(struct exchange *exchange, const char *data, size_t bytes)
{
    if (exchange->too_long || exchange->body_bytes + bytes > SERVER_BODY_BYTES_MAX) {
        exchange->too_long = true;
        return;
    }
    char *body = realloc(exchange->body, exchange->body_bytes + bytes + 1);
    if (body == NULL) {
        exchange->too_long = true;
        return;
    }
    memcpy(body + exchange->body_bytes, data, bytes);
    exchange->body = body;
    exchange->body_bytes += bytes;
    body[exchange->body_bytes] = '\0';
}

/* The library's shape of a handler; it fixes the number of parameters. */
static enum MHD_Result on_request(void *self, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_bytes, void **state)
{
    (void)version;
    if (*state == NULL) {
        *state = exchange_create(self, connection, method, path);
        return *state != NULL ? MHD_YES : MHD_NO;
    }
    struct exchange *exchange = *state;
    if (*data_bytes > 0) {
        add_body(exchange, data, *data_bytes);
        *data_bytes = 0;
        return MHD_YES;
    }
    return pass_guard(exchange);
}

static void on_end(void *self, struct MHD_Connection *connection, void **state,
                   enum MHD_RequestTerminationCode reason)
{
    (void)self;
    (void)connection;
    (void)reason;
    struct exchange *exchange = *state;
    if (exchange == NULL) {
        return;
    }
    guard_leave(exchange->server->guard, &exchange->ticket);
    (void)atomic_fetch_sub(&exchange->server->active, 1);
    free(exchange->body);
    free(exchange);
    *state = NULL;
}

static int listen_on(const char *host, uint16_t port, struct trouble *why)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    int one = 1;
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1) {
        (void)trouble_set(why, "BAD_REQUEST", NULL, "--host %s is not an IPv4 address", host);
        return -1;
    }
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, BACKLOG) != 0) {
        (void)trouble_set(why, "INTERNAL", NULL, "listen on %s:%u: %s; choose another --port", host,
                          port, strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* Inherited on accept. */
    return fd;
}

uint16_t server_start(struct server *server, const char *host, uint16_t port, struct trouble *why)
{
    int fd = listen_on(host, port, why);
    struct sockaddr_in bound;
    socklen_t bound_bytes = sizeof bound;
    if (fd < 0 || getsockname(fd, (struct sockaddr *)&bound, &bound_bytes) != 0) {
        return 0;
    }
    server->daemon =
        MHD_start_daemon(MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
                             MHD_USE_POLL | MHD_USE_ITC,
                         port, NULL, NULL, on_request, server, MHD_OPTION_LISTEN_SOCKET, fd,
                         MHD_OPTION_NOTIFY_COMPLETED, on_end, NULL, MHD_OPTION_CONNECTION_LIMIT,
                         1024U, MHD_OPTION_THREAD_STACK_SIZE, (size_t)(512 << 10), MHD_OPTION_END);
    if (server->daemon == NULL) {
        close(fd);
        (void)trouble_set(why, "INTERNAL", NULL, "the HTTP server does not start: %s",
                          strerror(errno));
        return 0;
    }
    return ntohs(bound.sin_port);
}

void server_quiesce(struct server *server)
{
    MHD_socket fd = MHD_quiesce_daemon(server->daemon);
    if (fd != MHD_INVALID_SOCKET) {
        close(fd);
    }
}
