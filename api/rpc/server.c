/* server.c -- making, starting, draining a server; see rpc.h. */
#include <stdlib.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/base/log.h"
#include "api/rpc/connections.h"
#include "api/rpc/server.h"

/* Calls that each loop has ready for the core to fill. */
enum { ACCEPTS_PER_LOOP = 64 };

/* How long the core may take to give back cancelled calls before we call it our bug. */
#define CANCEL_NS (60 * BATON_NS_PER_S)

/* --- options --- */

static void fill_defaults(struct rpc_server_options *options)
{
    if (options->threads == 0) {
        options->threads = 1;
    }
    if (options->calls_max == 0) {
        options->calls_max = 16384;
    }
    if (options->streams_per_connection_max == 0) {
        options->streams_per_connection_max = 4096;
    }
    if (options->message_bytes_max == 0) {
        options->message_bytes_max = BATON_MESSAGE_BYTES_MAX;
    }
    if (options->send_queue_bytes_max == 0) {
        options->send_queue_bytes_max = (size_t)4 << 20;
    }
    if (options->send_queues_bytes_max == 0) {
        options->send_queues_bytes_max = (size_t)256 << 20;
    }
}

static grpc_server *create_core(const struct rpc_server_options *options,
                                struct connections *connections)
{
    int ping_min_ms = rpc_ms(options->client_ping_min_ns, BATON_NS_PER_S);
    grpc_arg args[16];
    size_t count = 0;
    args[count++] = rpc_arg(GRPC_ARG_ALLOW_REUSEPORT, 0);
    args[count++] = rpc_arg(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    args[count++] = rpc_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)options->message_bytes_max);
    args[count++] =
        rpc_arg(GRPC_ARG_MAX_CONCURRENT_STREAMS, (int)options->streams_per_connection_max);
    args[count++] =
        rpc_arg(GRPC_ARG_KEEPALIVE_TIME_MS, rpc_ms(options->keepalive_ns, 20 * BATON_NS_PER_S));
    args[count++] = rpc_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                            rpc_ms(options->keepalive_timeout_ns, 10 * BATON_NS_PER_S));
    args[count++] = rpc_arg(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    args[count++] = rpc_arg(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, ping_min_ms);
    args[count++] = rpc_arg(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    args[count++] = rpc_arg(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                            rpc_ms(options->handshake_ns, 20 * BATON_NS_PER_S));
    if (options->connection_idle_ns > 0) {
        args[count++] =
            rpc_arg(GRPC_ARG_MAX_CONNECTION_IDLE_MS, rpc_ms(options->connection_idle_ns, 1));
    }
    if (options->connection_age_max_ns > 0) {
        args[count++] =
            rpc_arg(GRPC_ARG_MAX_CONNECTION_AGE_MS, rpc_ms(options->connection_age_max_ns, 1));
        args[count++] = rpc_arg(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                                rpc_ms(options->connection_age_grace_ns, 30 * BATON_NS_PER_S));
    }
    args[count] = connections_arg(connections);
    count += args[count].key != NULL;
    grpc_channel_args channel_args = { .num_args = count, .args = args };
    return grpc_server_create(&channel_args, NULL);
}

static struct baton_status check_options(const struct rpc_server_options *options)
{
    if (options->listeners_count == 0 || options->listeners_count > SERVER_LISTENERS_MAX) {
        return rpc_status_field("listeners", "there must be 1 to %d", SERVER_LISTENERS_MAX);
    }
    if (options->threads > SERVER_THREADS_MAX) {
        return rpc_status_field("threads", "must be at most %d", SERVER_THREADS_MAX);
    }
    if (options->message_bytes_max > INT32_MAX / 2) {
        return rpc_status_field("message_bytes_max", "must be at most %d", INT32_MAX / 2);
    }
    return baton_status_ok();
}

/* --- routes --- */

static int compare_states(const void *a, const void *b)
{
    const struct route_state *left = a;
    const struct route_state *right = b;
    return strcmp(left->method->name, right->method->name);
}

static struct baton_status add_routes(struct rpc_server *server, const struct rpc_route *routes,
                                      size_t count, bool is_built_in)
{
    for (size_t i = 0; i < count; i++) {
        const struct rpc_method *method =
            rpc_method_find(routes[i].method, strlen(routes[i].method));
        if (method == NULL) {
            return baton_status_make(BATON_INTERNAL, BATON_REASON_INCOMPATIBLE,
                                     "route %s: no proto has this method", routes[i].method);
        }
        server->routes[server->routes_count++] = (struct route_state){
            .method = method,
            .route = routes[i],
            .context = is_built_in ? server : server->options.context,
            .is_built_in = is_built_in,
        };
    }
    return baton_status_ok();
}

static struct baton_status make_routes(struct rpc_server *server)
{
    const struct rpc_server_options *options = &server->options;
    size_t count = options->routes_count + HEALTH_ROUTES + REFLECTION_ROUTES;
    server->routes = calloc(count, sizeof(*server->routes));
    baton_assert(server->routes != NULL);
    struct baton_status st = add_routes(server, options->routes, options->routes_count, false);
    if (baton_ok(&st)) {
        st = add_routes(server, health_routes, HEALTH_ROUTES, true);
    }
    if (baton_ok(&st) && !options->no_reflection) {
        st = add_routes(server, reflection_routes, REFLECTION_ROUTES, true);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    qsort(server->routes, server->routes_count, sizeof(*server->routes), compare_states);
    for (size_t i = 1; i < server->routes_count; i++) {
        if (server->routes[i].method == server->routes[i - 1].method) {
            return baton_status_make(BATON_INTERNAL, BATON_REASON_IN_USE, "route %s: comes twice",
                                     server->routes[i].method->name);
        }
    }
    return baton_status_ok();
}

/* --- create, start --- */

static void on_shut_down(struct rpc_tag *tag, bool ok)
{
    (void)ok;
    struct rpc_server *server = RPC_CONTAINER(tag, struct rpc_server, shutdown_tag);
    pthread_mutex_lock(&server->mutex);
    server->is_shut_down = true;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->mutex);
}

static void init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

static struct baton_status listen_all(struct rpc_server *server)
{
    struct baton_status st = baton_status_ok();
    for (size_t i = 0; i < server->options.listeners_count && baton_ok(&st); i++) {
        st = server_listen(server, i, &server->options.listeners[i]);
    }
    return st;
}

struct baton_status rpc_server_create(const struct rpc_server_options *options,
                                      struct rpc_server **out)
{
    struct baton_status st = check_options(options);
    if (!baton_ok(&st)) {
        return st;
    }
    rpc_core_acquire();
    struct rpc_server *server = calloc(1, sizeof(*server));
    baton_assert(server != NULL);
    server->options = *options;
    fill_defaults(&server->options);
    server->shutdown_tag.run = on_shut_down;
    pthread_mutex_init(&server->mutex, NULL);
    init_condition(&server->changed);
    server->connections = connections_create(&server->options);
    server->core = create_core(&server->options, server->connections);
    for (uint32_t i = 0; i < server->options.threads; i++) {
        rpc_loop_init(&server->loops[i]);
        grpc_server_register_completion_queue(server->core, server->loops[i].queue, NULL);
    }
    st = make_routes(server);
    if (baton_ok(&st)) {
        server->health = health_create(server);
        st = listen_all(server);
    }
    server->options.listeners = NULL; /* Not ours, and not needed any more. */
    if (!baton_ok(&st)) {
        rpc_server_destroy(server);
        return st;
    }
    *out = server;
    return st;
}

static void start_core(struct rpc_server *server)
{
    if (!atomic_load(&server->is_started)) {
        grpc_server_start(server->core);
        atomic_store(&server->is_started, true);
    }
}

void rpc_server_start(struct rpc_server *server)
{
    start_core(server);
    for (uint32_t i = 0; i < server->options.threads; i++) {
        for (int k = 0; k < ACCEPTS_PER_LOOP; k++) {
            call_accept_next(server, &server->loops[i]);
        }
        rpc_loop_start(&server->loops[i], "rpc-server");
    }
}

uint16_t rpc_server_port(const struct rpc_server *server, size_t index)
{
    return index < server->options.listeners_count ? server->ports[index] : 0;
}

/* --- drain, destroy --- */

/* Ends all calls that have no end of their own. */
static void finish_streams(struct rpc_server *server, const struct baton_status *status)
{
    size_t count = 0;
    pthread_mutex_lock(&server->mutex);
    for (struct rpc_call *call = server->calls; call != NULL; call = call->next) {
        count++;
    }
    struct rpc_call **calls = calloc(count + 1, sizeof(*calls));
    baton_assert(calls != NULL);
    count = 0;
    for (struct rpc_call *call = server->calls; call != NULL; call = call->next) {
        if (call->route != NULL && call->route->method->server_streams) {
            calls[count++] = rpc_call_ref(call);
        }
    }
    pthread_mutex_unlock(&server->mutex);
    for (size_t i = 0; i < count; i++) {
        rpc_finish(calls[i], status);
        rpc_call_unref(calls[i]);
    }
    free(calls);
}

/* Lets calls that nobody answered yet hear that they are cancelled. */
static void watch_calls(struct rpc_server *server)
{
    pthread_mutex_lock(&server->mutex);
    for (struct rpc_call *call = server->calls; call != NULL; call = call->next) {
        pthread_mutex_lock(&call->mutex);
        call_start_close(call);
        pthread_mutex_unlock(&call->mutex);
    }
    pthread_mutex_unlock(&server->mutex);
}

/* Waits until the core gave back everything or 'deadline_ns' came; true if it did. */
static bool wait_until_empty(struct rpc_server *server, uint64_t deadline_ns)
{
    struct timespec deadline = { .tv_sec = (time_t)(deadline_ns / BATON_NS_PER_S),
                                 .tv_nsec = (long)(deadline_ns % BATON_NS_PER_S) };
    int error = 0;
    pthread_mutex_lock(&server->mutex);
    bool is_empty = false;
    while (!is_empty && error == 0) {
        is_empty = server->is_shut_down && server->accepts == 0 && server->calls == NULL;
        if (!is_empty) {
            error = pthread_cond_timedwait(&server->changed, &server->mutex, &deadline);
        }
    }
    pthread_mutex_unlock(&server->mutex);
    return is_empty;
}

void rpc_server_drain(struct rpc_server *server, uint64_t grace_ns)
{
    baton_assert(!rpc_is_loop_thread());
    struct baton_status st = baton_status_make(BATON_UNAVAILABLE, BATON_REASON_SHUTTING_DOWN,
                                               "the server is shutting down");
    st =
        baton_status_hint(st, "connect again: to another server, or to this one after its restart");
    uint64_t deadline_ns = rpc_deadline_after(grace_ns < INT64_MAX / 2 ? grace_ns : INT64_MAX / 2);
    atomic_store(&server->is_draining, true);
    health_stop(server->health, &st);
    finish_streams(server, &st);
    pthread_mutex_lock(&server->mutex);
    server->is_stopping = true;
    pthread_mutex_unlock(&server->mutex);
    rpc_tag_released(&server->shutdown_tag);
    grpc_server_shutdown_and_notify(server->core, server->loops[0].queue, &server->shutdown_tag);
    if (wait_until_empty(server, deadline_ns)) {
        return;
    }
    grpc_server_cancel_all_calls(server->core);
    watch_calls(server);
    bool is_empty = wait_until_empty(server, rpc_deadline_after(CANCEL_NS));
    baton_assert(is_empty);
}

/* A server that never ran has no thread to take the core's answers: its queues do it. */
static void stop_unstarted(struct rpc_server *server)
{
    start_core(server); /* The core wants this before a shutdown. */
    server->is_stopping = true;
    grpc_server_shutdown_and_notify(server->core, server->loops[0].queue, &server->shutdown_tag);
}

static void free_parts(struct rpc_server *server)
{
    health_destroy(server->health);
    connections_end(server->connections);
    for (size_t i = 0; i < SERVER_LISTENERS_MAX; i++) {
        tls_files_destroy(server->tls[i]);
    }
    pthread_cond_destroy(&server->changed);
    pthread_mutex_destroy(&server->mutex);
    free(server->routes);
    free(server);
}

void rpc_server_destroy(struct rpc_server *server)
{
    if (server == NULL) {
        return;
    }
    if (!server->loops[0].has_thread) {
        stop_unstarted(server);
    } else if (!atomic_load(&server->is_draining)) {
        rpc_server_drain(server, 0);
    }
    for (uint32_t i = 0; i < server->options.threads; i++) {
        rpc_loop_deinit(&server->loops[i]);
    }
    grpc_server_destroy(server->core);
    baton_assert(atomic_load(&server->objects) == 0); /* Somebody still holds a call. */
    free_parts(server);
    rpc_core_release();
}
