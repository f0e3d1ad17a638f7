/* health.c -- grpc.health.v1 over the server's own routes; see rpc.h. */
#include <stdlib.h>
#include <string.h>

#include "api/rpc/server.h"
#include "grpc/health/v1/health.pb-c.h"

enum { SERVICE_NAME_BYTES = 128, WATCHERS_MAX = 256 };

typedef Grpc__Health__V1__HealthCheckResponse response;
typedef Grpc__Health__V1__HealthCheckRequest request;

struct service {
    char name[SERVICE_NAME_BYTES];
    enum rpc_health health;
};

struct watcher {
    struct watcher *next;
    struct rpc_call *call;   /* A reference. */
    struct service *service; /* Null: there is no such service. */
};

struct health_table {
    pthread_mutex_t mutex;
    struct service *services; /* "" first. */
    size_t services_count;
    struct watcher *watchers;
    size_t watchers_count;
    bool is_stopped;
};

/* --- table --- */

static struct service *find(struct health_table *table, const char *name)
{
    for (size_t i = 0; i < table->services_count; i++) {
        if (strcmp(table->services[i].name, name) == 0) {
            return &table->services[i];
        }
    }
    return NULL;
}

static void add(struct health_table *table, const char *method)
{
    const char *slash = strchr(method, '/');
    size_t length = slash == NULL ? strlen(method) : (size_t)(slash - method);
    struct service *service = &table->services[table->services_count];
    baton_assert(length < sizeof(service->name));
    memcpy(service->name, method, length);
    service->name[length] = '\0';
    if (find(table, service->name) == NULL) {
        table->services_count++;
    }
}

struct health_table *health_create(const struct rpc_server *server)
{
    struct health_table *table = calloc(1, sizeof(*table));
    baton_assert(table != NULL);
    table->services = calloc(server->routes_count + 2, sizeof(*table->services));
    baton_assert(table->services != NULL);
    pthread_mutex_init(&table->mutex, NULL);
    table->services_count = 1; /* "" */
    for (size_t i = 0; i < server->routes_count; i++) {
        if (!server->routes[i].is_built_in) {
            add(table, server->routes[i].method->name);
        }
    }
    return table;
}

void health_destroy(struct health_table *table)
{
    if (table != NULL) {
        baton_assert(table->watchers == NULL);
        pthread_mutex_destroy(&table->mutex);
        free(table->services);
        free(table);
    }
}

/* --- answers --- */

static Grpc__Health__V1__HealthCheckResponse__ServingStatus serving_status(
    const struct service *service)
{
    if (service == NULL) {
        return GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN;
    }
    return service->health == RPC_HEALTH_SERVING
               ? GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
               : GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING;
}

static response answer(const struct service *service)
{
    response message;
    grpc__health__v1__health_check_response__init(&message);
    message.status = serving_status(service);
    return message;
}

static void set(struct health_table *table, struct service *service, enum rpc_health health)
{
    if (table->is_stopped || service->health == health) {
        return;
    }
    service->health = health;
    response message = answer(service);
    for (const struct watcher *at = table->watchers; at != NULL; at = at->next) {
        if (at->service == service) {
            (void)rpc_send(at->call, &message); /* A slow watcher is cut; on_done follows. */
        }
    }
}

void rpc_health_set(struct rpc_server *server, const char *name, enum rpc_health health)
{
    struct health_table *table = server->health;
    pthread_mutex_lock(&table->mutex);
    struct service *service = find(table, name);
    if (service != NULL) {
        set(table, service, health);
    }
    pthread_mutex_unlock(&table->mutex);
    baton_assert(service != NULL); /* Only services with routes have a health. */
}

void rpc_health_set_all(struct rpc_server *server, enum rpc_health health)
{
    struct health_table *table = server->health;
    pthread_mutex_lock(&table->mutex);
    for (size_t i = 0; i < table->services_count; i++) {
        set(table, &table->services[i], health);
    }
    pthread_mutex_unlock(&table->mutex);
}

void health_stop(struct health_table *table, const struct baton_status *status)
{
    pthread_mutex_lock(&table->mutex);
    for (size_t i = 0; i < table->services_count; i++) {
        set(table, &table->services[i], RPC_HEALTH_NOT_SERVING);
    }
    table->is_stopped = true;
    for (const struct watcher *at = table->watchers; at != NULL; at = at->next) {
        rpc_finish(at->call, status);
    }
    pthread_mutex_unlock(&table->mutex);
}

/* --- handlers; the context is the server --- */

static void check(struct rpc_call *call, const void *message, void *context)
{
    const request *asked = message;
    struct health_table *table = ((struct rpc_server *)context)->health;
    pthread_mutex_lock(&table->mutex);
    const struct service *service = find(table, asked->service);
    response reply = answer(service);
    pthread_mutex_unlock(&table->mutex);
    if (service != NULL) {
        rpc_reply(call, &reply);
        return;
    }
    struct baton_status st = baton_status_make(
        BATON_NOT_FOUND, BATON_REASON_NONE, "service: there is no \"%.100s\" here", asked->service);
    rpc_finish(call, &st);
}

static void on_watch_done(struct rpc_call *call, bool cancelled, void *context)
{
    (void)cancelled;
    struct health_table *table = context;
    struct watcher *found = NULL;
    pthread_mutex_lock(&table->mutex);
    for (struct watcher **at = &table->watchers; *at != NULL; at = &(*at)->next) {
        if ((*at)->call == call) {
            found = *at;
            *at = found->next;
            table->watchers_count--;
            break;
        }
    }
    pthread_mutex_unlock(&table->mutex);
    if (found != NULL) {
        rpc_call_unref(found->call);
        free(found);
    }
}

static void watch(struct rpc_call *call, const void *message, void *context)
{
    static const struct rpc_receiver RECEIVER = { .on_done = on_watch_done };
    const request *asked = message;
    struct health_table *table = ((struct rpc_server *)context)->health;
    struct watcher *watcher = calloc(1, sizeof(*watcher));
    baton_assert(watcher != NULL);
    struct baton_status st = baton_status_ok();
    pthread_mutex_lock(&table->mutex);
    if (table->is_stopped) {
        st = baton_status_make(BATON_UNAVAILABLE, BATON_REASON_SHUTTING_DOWN,
                               "the server is shutting down");
    } else if (table->watchers_count == WATCHERS_MAX) {
        st = baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                               "health: there are %d watchers already", WATCHERS_MAX);
    } else {
        watcher->call = rpc_call_ref(call);
        watcher->service = find(table, asked->service);
        watcher->next = table->watchers;
        table->watchers = watcher;
        table->watchers_count++;
        rpc_call_receive(call, &RECEIVER, table);
        response first = answer(watcher->service);
        (void)rpc_send(call, &first);
        watcher = NULL;
    }
    pthread_mutex_unlock(&table->mutex);
    free(watcher);
    if (!baton_ok(&st)) {
        rpc_finish(call, &st);
    }
}

const struct rpc_route health_routes[HEALTH_ROUTES] = {
    { "grpc.health.v1.Health/Check", check, 0 },
    { "grpc.health.v1.Health/Watch", watch, 0 },
};
