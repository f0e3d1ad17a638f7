/* daemon.c -- life of the controller's process; see daemon.h. */
#include "controller/shell/daemon.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/base/log.h"
#include "controller/dashboard/dashboard.h"
#include "controller/shell/endpoints.h"
#include "controller/shell/fleet_stats.h"
#include "controller/shell/grants.h"
#include "controller/shell/perform.h"
#include "controller/shell/prometheus.h"
#include "controller/shell/routes.h"
#include "controller/shell/service.h"
#include "controller/shell/session.h"
#include "controller/shell/standby.h"
#include "controller/shell/summaries.h"
#include "controller/shell/watch.h"

/* A watch of a large fleet begins with all its objects at once, before the network takes the first. */
enum {
    DRAIN_GRACE_S = 5,
    STORE_RETRY_MS = 1000,
    STANDBY_LOOK_MS = 200,
    BOOKMARK_S = 10,
    SEND_QUEUE_BYTES_MAX = 16 << 20
};

/* A session of each agent, and as many watches and calls as before. */
enum { CALLS_MAX = BATON_AGENTS_MAX + 16384 };

/* --- the core --- */

static struct baton_status load_record(void *context, struct record_ref record)
{
    return core_room_load(context, record);
}

static void take_limit(uint32_t *limit, uint32_t given)
{
    *limit = given != 0 ? given : *limit;
}

struct controller_limits daemon_limits(const struct daemon_options *options)
{
    struct controller_limits limits = controller_limits_default();
    const struct controller_limits *given = options->limits;
    take_limit(&limits.swaps_kept, options->swaps_kept);
    if (given != NULL) {
        take_limit(&limits.models, given->models);
        take_limit(&limits.versions, given->versions);
        take_limit(&limits.versions_kept, given->versions_kept);
        take_limit(&limits.rolls, given->rolls);
        take_limit(&limits.rolls_kept, given->rolls_kept);
        take_limit(&limits.groups, given->groups);
        take_limit(&limits.agents, given->agents);
        take_limit(&limits.request_ids, given->request_ids);
        take_limit(&limits.waits, given->waits);
        limits.open_kept_ms = given->open_kept_ms != 0 ? given->open_kept_ms : limits.open_kept_ms;
        limits.unknown_kept_ms =
            given->unknown_kept_ms != 0 ? given->unknown_kept_ms : limits.unknown_kept_ms;
    }
    return limits;
}

static void drop_core(struct daemon *daemon)
{
    core_room_drop(&daemon->room);
    daemon->core = NULL;
}

static struct baton_status load_core(struct daemon *daemon, struct store_start *start)
{
    struct controller_limits limits = daemon_limits(&daemon->options);
    struct baton_status st = core_room_make(&daemon->room, &limits);
    daemon->core = daemon->room.core;
    if (baton_ok(&st)) {
        st = store_acquire_epoch(daemon->store, start);
    }
    if (baton_ok(&st)) {
        st = store_load(daemon->store, load_record, &daemon->room);
    }
    return st;
}

/* Builds the core from the store and starts it under a new epoch. */
static struct baton_status build_core(struct daemon *daemon)
{
    struct store_start start;
    daemon->rebuild = false;
    daemon->deferred = false;
    struct baton_status st = load_core(daemon, &start);
    if (!baton_ok(&st)) {
        daemon->core = NULL;
        return st;
    }
    struct event event = { .kind = EVENT_STARTED,
                           .body.started = { start.epoch, start.revision, start.log_next_number } };
    daemon_step(daemon, &event);
    daemon->past_count = 0;
    daemon->past_base = view_revision(daemon->core);
    struct baton_log_field fields[] = { BATON_LOG_NUMBER("generation", start.epoch.generation),
                                        BATON_LOG_NUMBER("epoch", start.epoch.n),
                                        BATON_LOG_NUMBER("revision", start.revision) };
    baton_log_fields(BATON_LOG_INFO, "controller", "core started", fields, 3);
    stats_leads(daemon->stats, true, start.epoch.generation, start.epoch.n);
    return st;
}

/* Without a core, as long as another controller leads.  Its process is well all the same, and says so of service "". */
static void stand_by(struct daemon *daemon)
{
    drop_core(daemon);
    daemon->deferred = false;
    daemon->rebuild = true;
    daemon->retry_ns = baton_clock_monotonic_ns() + STANDBY_LOOK_MS * BATON_NS_PER_MS;
    if (!daemon->stands_by) {
        daemon->stands_by = true;
        standby_show(daemon, true);
        rpc_health_set_all(daemon->server, RPC_HEALTH_NOT_SERVING);
        rpc_health_set(daemon->server, "", RPC_HEALTH_SERVING);
    }
}

/* The core ran ahead of what is stored: everybody who waits is told, and the truth is read again. */
static void rebuild(struct daemon *daemon)
{
    if (daemon->core != NULL) {
        perform_fail_all(daemon, &daemon->store_status);
        watch_end_all(daemon, &daemon->store_status);
    }
    stats_leads(daemon->stats, false, 0, 0);
    if (!standby_look(daemon)) {
        stand_by(daemon);
        return;
    }
    daemon->stands_by = false;
    standby_show(daemon, false);
    rpc_health_set_all(daemon->server, RPC_HEALTH_NOT_SERVING);
    struct baton_status st = build_core(daemon);
    if (perform_is_deposed(&st)) { /* Somebody led since it acquired its epoch, or leads now. */
        perform_deposed(daemon, &st);
    } else if (!baton_ok(&st)) {
        daemon->store_status = st;
        daemon->rebuild = true;
        baton_log_status(BATON_LOG_ERROR, "controller", "cannot read the store; trying again", &st);
    }
    if (daemon->rebuild) { /* Also when the new core's first change was refused. */
        daemon->retry_ns = baton_clock_monotonic_ns() + STORE_RETRY_MS * BATON_NS_PER_MS;
    } else {
        rpc_health_set_all(daemon->server, RPC_HEALTH_SERVING);
    }
}

void daemon_step(struct daemon *daemon, struct event *event)
{
    daemon->deferred = false;
    if (daemon->core == NULL || daemon->rebuild || !standby_may_act(daemon)) {
        return;
    }
    daemon->deferred = event->more;
    daemon->deferred_count = event->more ? daemon->deferred_count + 1 : 0;
    event->now_ns = baton_clock_monotonic_ns();
    event->wall_ns = baton_clock_wall_ns();
    event->behind = baton_mailbox_taken(daemon->mailbox) < daemon->behind_until;
    struct actions actions = controller_step(daemon->core, event);
    for (size_t i = 0; i < actions.count && !daemon->rebuild; i++) {
        perform(daemon, &actions.items[i]);
    }
    if (!daemon->deferred) { /* Else the core knows what may not be shown yet. */
        watch_step_ended(daemon);
    }
}

bool daemon_is_ready(struct daemon *daemon, struct rpc_call *call)
{
    if (daemon->core != NULL && !daemon->rebuild && standby_may_act(daemon)) {
        return true;
    }
    return standby_answers(daemon, call);
}

void daemon_answered(struct daemon *daemon)
{
    daemon->core = daemon->stands_by ? NULL : daemon->core;
}

static struct pending *pend(struct daemon *daemon, struct rpc_call *call, struct request *request,
                            pending_answer_fn *answer)
{
    struct pending *pending = calloc(1, sizeof(*pending));
    baton_assert(pending != NULL);
    pending->handle = ++daemon->last_handle;
    pending->call = call;
    pending->answer = answer;
    pending->note = service_audit_begin(daemon, call, request);
    pending->next = daemon->pendings;
    daemon->pendings = pending;
    request->handle = pending->handle;
    return pending;
}

void daemon_pend(struct daemon *daemon, struct rpc_call *call, struct request *request,
                 pending_answer_fn *answer)
{
    (void)pend(daemon, call, request, answer);
}

void daemon_request(struct daemon *daemon, struct rpc_call *call, struct request *request,
                    pending_answer_fn *answer, void *data)
{
    if (!service_may_change(daemon, call, request)) {
        free(data);
        return;
    }
    pend(daemon, call, request, answer)->data = data;
    struct event event = { .kind = EVENT_REQUEST, .body.request = *request };
    daemon_step(daemon, &event);
}

/* --- posting --- */

bool daemon_post_any(struct daemon *daemon, baton_mailbox_work_fn *run, void *argument)
{
    return baton_mailbox_post(daemon->mailbox, run, argument);
}

void daemon_post(struct daemon *daemon, struct rpc_call *call, baton_mailbox_work_fn *run)
{
    struct rpc_call *held = rpc_call_ref(call);
    if (!baton_mailbox_post(daemon->mailbox, run, held)) {
        struct baton_status st =
            baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                              "the controller has %d calls waiting", DAEMON_MAILBOX);
        rpc_finish(call, &st);
        rpc_call_unref(held);
    }
}

/* --- the loop --- */

static uint64_t next_deadline(const struct daemon *daemon)
{
    if (daemon->deposed) {
        return UINT64_MAX;
    }
    if (daemon->rebuild || daemon->core == NULL) {
        return daemon->retry_ns;
    }
    uint64_t bookmark = daemon->watchers != NULL || daemon->endpoint_watchers != NULL
                            ? baton_clock_monotonic_ns() + BOOKMARK_S * BATON_NS_PER_S
                            : UINT64_MAX;
    uint64_t core = controller_deadline_ns(daemon->core);
    uint64_t endpoints = endpoints_deadline_ns(daemon);
    uint64_t first = core < bookmark ? core : bookmark;
    uint64_t summaries = summaries_deadline_ns(daemon);
    uint64_t rolls = watch_rolls_deadline_ns(daemon);
    first = first < summaries ? first : summaries;
    first = first < rolls ? first : rolls;
    uint64_t metrics = prometheus_deadline_ns(daemon->prometheus);
    first = first < metrics ? first : metrics;
    uint64_t look =
        daemon->fleet_stats != NULL ? fleet_stats_deadline_ns(daemon->fleet_stats) : UINT64_MAX;
    first = first < look ? first : look;
    return first < endpoints ? first : endpoints;
}

static void run_due(struct daemon *daemon)
{
    uint64_t now = baton_clock_monotonic_ns();
    if (daemon->deposed) {
        return;
    }
    if ((daemon->rebuild || daemon->core == NULL) && now >= daemon->retry_ns) {
        rebuild(daemon);
    } else if (daemon->core != NULL && now >= controller_deadline_ns(daemon->core)) {
        struct event event = { .kind = EVENT_TIMER };
        daemon_step(daemon, &event);
    }
    watch_rolls_run(daemon);
    if (daemon->core != NULL && !daemon->rebuild) {
        prometheus_run(daemon->prometheus, now);
    }
    watch_send_bookmarks(daemon, now, BOOKMARK_S * BATON_NS_PER_S);
    if (daemon->fleet_stats != NULL) {
        fleet_stats_run(daemon->fleet_stats, daemon->rebuild ? NULL : daemon->core, now);
    }
    summaries_run(daemon, now);
    endpoints_run(daemon, now, BOOKMARK_S * BATON_NS_PER_S);
}

static void stop_work(void *target, void *argument)
{
    (void)argument;
    ((struct daemon *)target)->stopping = true;
}

void daemon_stop(struct daemon *daemon)
{
    baton_mailbox_post_sure(daemon->mailbox, stop_work, NULL);
}

/* Ends what does not end by itself, while the loop still answers. */
static void *drain_thread(void *argument)
{
    struct daemon *daemon = argument;
    rpc_server_drain(daemon->server, DRAIN_GRACE_S * BATON_NS_PER_S);
    baton_mailbox_post_sure(daemon->mailbox, stop_work, NULL);
    return NULL;
}

/* Nobody may see what the core has only taken in: unless another report is at hand, what follows is done now. */
static void end_deferral(struct daemon *daemon)
{
    if (daemon->deferred && !session_is_next(daemon)) {
        struct event event = { .kind = EVENT_TIMER };
        daemon_step(daemon, &event);
    }
}

static void loop(struct daemon *daemon)
{
    daemon->stopping = false;
    while (!daemon->stopping) {
        struct baton_mailbox_item item;
        if (baton_mailbox_take(daemon->mailbox, next_deadline(daemon), &item)) {
            item.run(daemon, item.argument);
        }
        end_deferral(daemon);
        if (!daemon->deferred) {
            run_due(daemon);
        }
    }
}

void daemon_run(struct daemon *daemon)
{
    pthread_t thread;
    rpc_server_start(daemon->server);
    struct baton_status st = standby_start(daemon);
    baton_assert(baton_ok(&st)); /* A process that gets no thread at its start. */
    rebuild(daemon);
    if (!daemon->deposed) { /* Its first change may have been refused already. */
        loop(daemon);
    }
    baton_log(BATON_LOG_INFO, "controller", "draining");
    if (daemon->deposed) {
        perform_fail_all(daemon, &daemon->store_status);
        watch_end_all(daemon, &daemon->store_status);
    }
    standby_stop(daemon); /* The next one begins while this one drains. */
    perform_end_waits(daemon);
    if (pthread_create(&thread, NULL, drain_thread, daemon) == 0) {
        loop(daemon);
        (void)pthread_join(thread, NULL);
    } else { /* No thread left: nobody answers meanwhile, but all calls come back. */
        (void)drain_thread(daemon);
        loop(daemon);
    }
    baton_log(BATON_LOG_INFO, "controller", "stopped");
}

/* --- create and destroy --- */

static struct baton_status create_prometheus(struct daemon *daemon)
{
    static const struct prometheus_options none = { .interval_ns = 15 * BATON_NS_PER_S };
    const struct prometheus_options *given = daemon->options.prometheus;
    return prometheus_create(given != NULL ? given : &none, daemon, &daemon->prometheus);
}

static struct baton_status create_server(struct daemon *daemon)
{
    struct rpc_server_options options = { .routes = routes_all(),
                                          .routes_count = routes_count(),
                                          .context = daemon,
                                          .admit = service_admit,
                                          .on_refused = service_refused,
                                          .ended = service_ended,
                                          .authorize = service_authorize,
                                          .handshake_ns = daemon->options.connections.handshake_ns,
                                          .connection_idle_ns = daemon->options.connections.idle_ns,
                                          .connections_per_address_max =
                                              daemon->options.connections.per_address_max,
                                          .listeners = daemon->options.listeners,
                                          .listeners_count = daemon->options.listeners_count,
                                          .calls_max = CALLS_MAX,
                                          .send_queue_bytes_max = SEND_QUEUE_BYTES_MAX };
    return rpc_server_create(&options, &daemon->server);
}

/* Of each listener, its own and the authority's. */
static struct baton_status create_metrics(struct daemon *daemon)
{
    const struct daemon_options *options = &daemon->options;
    for (size_t i = 0; i < options->listeners_count; i++) {
        if (options->listeners[i].tls != NULL) {
            stats_add_certificate(daemon->stats, options->listeners[i].tls->cert_file);
            stats_add_certificate(daemon->stats, options->listeners[i].tls->ca_file);
        }
    }
    if (options->metrics_listen == NULL) {
        return baton_status_ok();
    }
    daemon->fleet_stats = fleet_stats_create();
    stats_set_fleet(daemon->stats, daemon->fleet_stats);
    struct metrics_options metrics = { options->metrics_listen, stats_collect, daemon->stats };
    return metrics_create(&metrics, &daemon->metrics);
}

static struct baton_status create_dashboard(struct daemon *daemon)
{
    const struct dashboard_options options = { .listen = daemon->options.dashboard_listen,
                                               .insecure = daemon->options.insecure,
                                               .server = daemon->server,
                                               .routes = routes_all(),
                                               .routes_count = routes_count() };
    return options.listen != NULL ? dashboard_create(&options, &daemon->dashboard)
                                  : baton_status_ok();
}

struct baton_status daemon_create(const struct daemon_options *options, struct daemon **out)
{
    struct daemon *daemon = calloc(1, sizeof(*daemon));
    baton_assert(daemon != NULL);
    daemon->options = *options;
    daemon->access = options->access != NULL ? *options->access : access_default();
    daemon->rates = rates_create(options->rates);
    daemon->stats = stats_create(daemon->rates);
    daemon->past = calloc(DAEMON_PAST_CHANGES, sizeof(*daemon->past));
    baton_assert(daemon->past != NULL);
    daemon->store_status = baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
                                             "the controller is starting");
    struct baton_status st = baton_mailbox_create(DAEMON_MAILBOX, &daemon->mailbox);
    if (baton_ok(&st)) {
        st = standby_open_store(daemon);
    }
    if (baton_ok(&st) && options->tokens_file != NULL) {
        st = rpc_tokens_open(options->tokens_file, &daemon->tokens);
    }
    if (baton_ok(&st) && options->accounts != NULL) {
        st = rpc_accounts_open(options->accounts, &daemon->accounts);
    }
    if (baton_ok(&st)) {
        daemon->grants = grants_create();
        st = audit_create(options->audit, &daemon->audit);
    }
    if (baton_ok(&st)) {
        st = create_server(daemon);
    }
    if (baton_ok(&st)) {
        st = create_prometheus(daemon);
    }
    if (baton_ok(&st)) {
        st = standby_create(daemon);
    }
    if (baton_ok(&st)) {
        st = create_metrics(daemon);
    }
    if (baton_ok(&st)) {
        st = create_dashboard(daemon);
    }
    if (!baton_ok(&st)) {
        daemon_destroy(daemon);
        return st;
    }
    *out = daemon;
    return st;
}

void daemon_destroy(struct daemon *daemon)
{
    struct baton_mailbox_item item;
    if (daemon == NULL) {
        return;
    }
    if (daemon->server != NULL) {
        perform_fail_all(daemon, &daemon->store_status);
        watch_end_all(daemon, &daemon->store_status);
    }
    dashboard_destroy(daemon->dashboard);
    metrics_destroy(daemon->metrics);
    prometheus_destroy(daemon->prometheus);
    standby_close(daemon);
    standby_show(daemon, false);
    /* What was posted after the loop's end still holds calls; it finds no core and lets them go. */
    daemon->core = NULL;
    while (daemon->mailbox != NULL && baton_mailbox_take(daemon->mailbox, 0, &item)) {
        item.run(daemon, item.argument);
    }
    grants_destroy(daemon->grants);
    audit_destroy(daemon->audit); /* After the last call that it answers. */
    rpc_server_destroy(daemon->server);
    store_close(daemon->store);
    baton_mailbox_destroy(daemon->mailbox);
    standby_destroy(daemon);
    core_room_drop(&daemon->room);
    stats_destroy(daemon->stats);
    fleet_stats_destroy(daemon->fleet_stats);
    rates_destroy(daemon->rates);
    rpc_tokens_close(daemon->tokens);
    rpc_accounts_close(daemon->accounts);
    free(daemon->batch);
    free(daemon->late_rolls);
    for (uint32_t i = 0; i < daemon->sessions_places; i++) {
        grants_forget(&daemon->sessions[i]);
    }
    free(daemon->sessions);
    free(daemon->past);
    free(daemon);
}
