/* server.c -- the HTTP server: its life, its requests, its ticker; see web.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/web/web_server.h"

enum {
    CONNECTIONS_MAX = 32,
    CONNECTIONS_OF_ONE_MAX = 8,
    BODY_BYTES_MAX = 1024,
    STREAM_BYTES_MAX = 1 << 20,
    IDLE_S = 15,
    HEAD_BYTES_MAX = 16 << 10,
    TICK_S = 10
};

/* --- requests --- */

static void enter(struct web_server *server, struct web_request *request)
{
    pthread_mutex_lock(&server->mutex);
    request->is_stopping = server->is_stopping;
    request->next = server->requests;
    if (request->next != NULL) {
        request->next->previous = request;
    }
    server->requests = request;
    pthread_mutex_unlock(&server->mutex);
}

static void leave(struct web_server *server, struct web_request *request)
{
    pthread_mutex_lock(&server->mutex);
    *(request->previous == NULL ? &server->requests : &request->previous->next) = request->next;
    if (request->next != NULL) {
        request->next->previous = request->previous;
    }
    pthread_cond_broadcast(&server->left);
    pthread_mutex_unlock(&server->mutex);
}

static struct web_request *request_create(struct web_server *server,
                                          struct MHD_Connection *connection)
{
    struct web_request *request = calloc(1, sizeof(*request));
    baton_assert(request != NULL);
    atomic_init(&request->references, 1);
    request->server = server;
    request->connection = connection;
    pthread_mutex_init(&request->mutex, NULL);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    web_address_write(info != NULL ? info->client_addr : NULL, request->peer);
    enter(server, request);
    return request;
}

/* libmicrohttpd's last word on a request. */
static void on_completed(void *context, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode why)
{
    struct web_server *server = context;
    struct web_request *request = *state;
    (void)connection;
    (void)why;
    *state = NULL;
    if (request == NULL) {
        return;
    }
    pthread_mutex_lock(&request->mutex);
    request->connection = NULL;
    bool is_stream = request->is_stream;
    struct MHD_Response *left[] = { request->response, request->offered };
    request->response = NULL; /* Of streams they hold the request. */
    request->offered = NULL;
    pthread_mutex_unlock(&request->mutex);
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
        if (left[i] != NULL) {
            MHD_destroy_response(left[i]);
        }
    }
    if (is_stream && request->events.ended != NULL) {
        request->events.ended(request->context);
    }
    leave(server, request); /* Who waits for that knows that the owner was told. */
    web_request_unref(request);
}

/* Whether the caller says that its body will be too large. */
static bool says_too_large(const struct web_server *server, struct MHD_Connection *connection)
{
    const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
    return length != NULL && strtoull(length, NULL, 10) > server->options.body_bytes_max;
}

/* False: it is larger than it may be, and did not say so before. */
static bool add_body(struct web_request *request, const char *data, size_t size)
{
    if (size > request->server->options.body_bytes_max - request->body_bytes) {
        return false;
    }
    uint8_t *body = realloc(request->body, request->body_bytes + size);
    baton_assert(body != NULL);
    memcpy(body + request->body_bytes, data, size);
    request->body = body;
    request->body_bytes += size;
    return true;
}

/* Hands an answer that is there to libmicrohttpd; else the connection stands still until there is one. */
static enum MHD_Result queue_or_wait(struct web_request *request)
{
    enum MHD_Result result = MHD_YES;
    pthread_mutex_lock(&request->mutex);
    struct MHD_Response *response = request->response;
    request->response = NULL;
    if (response == NULL && !request->is_stopping) {
        request->is_suspended = true;
        MHD_suspend_connection(request->connection);
    } else if (response == NULL) {
        result = MHD_NO;
    }
    struct MHD_Connection *connection = request->connection;
    unsigned code = request->code;
    pthread_mutex_unlock(&request->mutex);
    if (response != NULL) {
        result = MHD_queue_response(connection, code, response);
        MHD_destroy_response(response);
    }
    return result;
}

static void handle(struct web_request *request, const char *method, const char *path)
{
    request->was_handled = true;
    request->method = method;
    request->path = path;
    request->server->options.handler(request, request->server->options.context);
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
                                  const char *path, const char *method, const char *version,
                                  const char *data, size_t *size, void **state)
{
    struct web_server *server = context;
    struct web_request *request = *state;
    (void)version;
    if (request == NULL) {
        *state = request = request_create(server, connection);
        if (says_too_large(server, connection)) {
            request->was_handled = true;
            web_answer_text(request, MHD_HTTP_CONTENT_TOO_LARGE, "the body is too large\n");
            return queue_or_wait(request);
        }
        return MHD_YES;
    }
    if (*size > 0) {
        bool fits = add_body(request, data, *size);
        *size = 0;
        return fits ? MHD_YES : MHD_NO;
    }
    if (!request->was_handled) {
        handle(request, method, path);
    }
    return queue_or_wait(request);
}

const char *web_method(const struct web_request *request)
{
    return request->method;
}

const char *web_path(const struct web_request *request)
{
    return request->path;
}

const char *web_header(const struct web_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

struct baton_bytes web_body(const struct web_request *request)
{
    return (struct baton_bytes){ request->body, request->body_bytes };
}

const char *web_peer(const struct web_request *request)
{
    return request->peer;
}

/* --- the ticker --- */

static struct timespec time_of(uint64_t ns)
{
    return (struct timespec){ .tv_sec = (time_t)(ns / BATON_NS_PER_S),
                              .tv_nsec = (long)(ns % BATON_NS_PER_S) };
}

static void *tick(void *argument)
{
    struct web_server *server = argument;
    pthread_mutex_lock(&server->mutex);
    while (!server->is_stopping) {
        const struct timespec until = time_of(baton_clock_monotonic_ns() + TICK_S * BATON_NS_PER_S);
        if (pthread_cond_timedwait(&server->changed, &server->mutex, &until) != ETIMEDOUT) {
            continue;
        }
        for (struct web_request *at = server->requests; at != NULL; at = at->next) {
            web_tick(at);
        }
    }
    pthread_mutex_unlock(&server->mutex);
    return NULL;
}

static void start_ticker(struct web_server *server)
{
    if (server->options.alive != NULL) {
        int failed = pthread_create(&server->ticker, NULL, tick, server);
        baton_assert(failed == 0); /* A process that gets no thread at its start. */
        server->has_ticker = true;
    }
}

/* Nothing stands still any more. */
static void stop_requests(struct web_server *server)
{
    pthread_mutex_lock(&server->mutex);
    server->is_stopping = true;
    pthread_cond_signal(&server->changed);
    for (struct web_request *at = server->requests; at != NULL; at = at->next) {
        pthread_mutex_lock(&at->mutex);
        at->is_stopping = true;
        web_wake(at);
        pthread_mutex_unlock(&at->mutex);
    }
    pthread_mutex_unlock(&server->mutex);
}

/* --- life --- */

static struct baton_status cannot_listen(const struct web_options *options, int error)
{
    struct baton_status st =
        error == EADDRINUSE
            ? baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_IN_USE,
                                "%s %.80s: another process has it", options->field, options->listen)
            : baton_status_in(
                  baton_status_errno(error != 0 ? error : EIO, "listen", options->listen), "%s",
                  options->field);
    return baton_status_hint(st, "choose another address, or leave that section out");
}

static struct baton_status start(struct web_server *server, const struct web_address *address)
{
    const struct web_options *options = &server->options;
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME |
                     (address->is_v6 ? MHD_USE_IPv6 : 0);
    errno = 0;
    server->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, server, MHD_OPTION_SOCK_ADDR, &address->at,
        MHD_OPTION_CONNECTION_LIMIT, options->connections_max, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        options->connections_of_one_max, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)2 * HEAD_BYTES_MAX, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, server, MHD_OPTION_END);
    if (server->daemon == NULL) {
        return cannot_listen(options, errno);
    }
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT);
    server->port = info != NULL ? info->port : 0;
    return baton_status_ok();
}

static unsigned or_default(unsigned given, unsigned fallback)
{
    return given != 0 ? given : fallback;
}

static struct web_server *server_make(const struct web_options *options)
{
    struct web_server *server = calloc(1, sizeof(*server));
    baton_assert(server != NULL);
    server->options = *options;
    struct web_options *own = &server->options;
    own->connections_max = or_default(own->connections_max, CONNECTIONS_MAX);
    own->connections_of_one_max = or_default(own->connections_of_one_max, CONNECTIONS_OF_ONE_MAX);
    own->body_bytes_max = own->body_bytes_max != 0 ? own->body_bytes_max : BODY_BYTES_MAX;
    own->stream_bytes_max = own->stream_bytes_max != 0 ? own->stream_bytes_max : STREAM_BYTES_MAX;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&server->changed, &attributes);
    pthread_cond_init(&server->left, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&server->mutex, NULL);
    return server;
}

struct baton_status web_create(const struct web_options *options, struct web_server **out)
{
    struct web_address address;
    *out = NULL;
    if (!web_address_parse(options->listen, &address)) {
        return baton_status_hint(baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                                   "%s: '%.80s' is no address", options->field,
                                                   options->listen),
                                 "write 127.0.0.1:PORT, 0.0.0.0:PORT or [v6 address]:PORT");
    }
    struct web_server *server = server_make(options);
    struct baton_status st = start(server, &address);
    if (!baton_ok(&st)) {
        web_destroy(server);
        return st;
    }
    start_ticker(server);
    *out = server;
    return st;
}

uint16_t web_port(const struct web_server *server)
{
    return server->port;
}

void web_drain(struct web_server *server, uint64_t timeout_ns)
{
    const struct timespec until = time_of(baton_clock_monotonic_ns() + timeout_ns);
    int failed = 0;
    pthread_mutex_lock(&server->mutex);
    while (server->requests != NULL && failed == 0) {
        failed = pthread_cond_timedwait(&server->left, &server->mutex, &until);
    }
    pthread_mutex_unlock(&server->mutex);
}

void web_destroy(struct web_server *server)
{
    if (server == NULL) {
        return;
    }
    stop_requests(server);
    if (server->has_ticker) {
        (void)pthread_join(server->ticker, NULL);
    }
    if (server->daemon != NULL) {
        MHD_stop_daemon(server->daemon);
    }
    pthread_cond_destroy(&server->changed);
    pthread_cond_destroy(&server->left);
    pthread_mutex_destroy(&server->mutex);
    free(server);
}
