/* endpoints.c -- see endpoints.h. */
#include "controller/shell/endpoints.h"

#include <stdlib.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/wire/wire.h"
#include "controller/core/text.h"
#include "controller/shell/render_stale.h"
#include "controller/shell/service.h"
#include "controller/shell/watch.h"

/* One endpoint as a watch was told of it. */
struct told {
    char group[BATON_NAME_BYTES];
    uint64_t print; /* Of version and addresses. */
};

struct endpoint_watcher {
    struct endpoint_watcher *next;
    struct rpc_call *call; /* Referenced. */
    struct admission_query query;
    char model[BATON_NAME_BYTES];
    uint64_t past;       /* Changes of the ring that it has seen. */
    uint64_t newest_seq; /* As told last. */
    uint64_t last_sent_ns;
    struct told *told; /* By name. */
    size_t told_count;
    size_t told_capacity;
};

/* A message under way; sent when it is full. */
struct outgoing {
    struct daemon *daemon;
    struct endpoint_watcher *watcher;
    Baton__V1__WatchEndpointsResponse *message;
    struct service_page page;
    bool reset;
    bool cut; /* The stream is gone. */
};

/* --- what was told --- */

static size_t told_place(const struct endpoint_watcher *watcher, const char *group)
{
    size_t low = 0;
    size_t high = watcher->told_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(watcher->told[middle].group, group) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct told *told_find(struct endpoint_watcher *watcher, const char *group)
{
    size_t place = told_place(watcher, group);
    bool there = place < watcher->told_count && strcmp(watcher->told[place].group, group) == 0;
    return there ? &watcher->told[place] : NULL;
}

static void told_set(struct endpoint_watcher *watcher, const char *group, uint64_t print)
{
    struct told *found = told_find(watcher, group);
    if (found != NULL) {
        found->print = print;
        return;
    }
    if (watcher->told_count == watcher->told_capacity) {
        watcher->told_capacity = 2 * watcher->told_capacity + 16;
        watcher->told = realloc(watcher->told, watcher->told_capacity * sizeof(struct told));
        baton_assert(watcher->told != NULL);
    }
    size_t place = told_place(watcher, group);
    memmove(watcher->told + place + 1, watcher->told + place,
            (watcher->told_count - place) * sizeof(struct told));
    watcher->told_count++;
    watcher->told[place].print = print;
    (void)baton_text_copy(watcher->told[place].group, BATON_NAME_BYTES, group);
}

static void told_remove(struct endpoint_watcher *watcher, struct told *told)
{
    size_t place = (size_t)(told - watcher->told);
    watcher->told_count--;
    memmove(told, told + 1, (watcher->told_count - place) * sizeof(struct told));
}

static uint64_t print_of(const struct controller *core, const struct group_record *group,
                         const struct version_record *version)
{
    const struct group_report *report = view_group_report(core, group);
    struct fingerprint print = fingerprint_of(version->seq);
    fingerprint_add_text(&print, version->digest);
    fingerprint_add_number(&print, report->verify_level);
    for (uint32_t i = 0; i < report->engines_count; i++) {
        fingerprint_add_text(&print, report->engines[i].name);
        fingerprint_add_text(&print, report->engines[i].endpoint);
        fingerprint_add_text(&print, report->engines[i].incarnation);
    }
    return print.a;
}

/* --- sending --- */

static void begin(struct outgoing *out)
{
    out->message = baton_wire_new(&baton__v1__watch_endpoints_response__descriptor);
    out->page = service_page_begin(0);
    out->message->endpoints =
        baton_wire_take(out->message, BATON_PAGE_ITEMS_MAX, sizeof(*out->message->endpoints));
    out->message->removed =
        baton_wire_take(out->message, BATON_PAGE_ITEMS_MAX, sizeof(*out->message->removed));
}

static void send(struct outgoing *out, bool more)
{
    Baton__V1__WatchEndpointsResponse *message = out->message;
    message->revision = view_revision(out->daemon->core);
    message->reset = out->reset;
    message->more = more;
    message->newest_seq = out->watcher->newest_seq;
    struct baton_status st = rpc_send(out->watcher->call, message);
    out->cut = out->cut || !baton_ok(&st);
    out->reset = false;
    out->watcher->last_sent_ns = baton_clock_monotonic_ns();
    baton_wire_free(message);
    out->message = NULL;
}

/* Room for one more item. */
static void make_room(struct outgoing *out)
{
    if (out->message == NULL) {
        begin(out);
    }
    Baton__V1__WatchEndpointsResponse *message = out->message;
    if (message->n_endpoints == BATON_PAGE_ITEMS_MAX ||
        message->n_removed == BATON_PAGE_ITEMS_MAX) {
        send(out, true);
        begin(out);
    }
}

static void add_endpoint(struct outgoing *out, const struct group_record *group,
                         const struct version_record *version)
{
    make_room(out);
    Baton__V1__Endpoint *endpoint =
        render_endpoint(out->daemon->core, group, version, out->message);
    if (!service_page_add(&out->page, endpoint)) {
        send(out, true);
        begin(out);
        endpoint = render_endpoint(out->daemon->core, group, version, out->message);
        (void)service_page_add(&out->page, endpoint);
    }
    out->message->endpoints[out->message->n_endpoints++] = endpoint;
}

static void add_removed(struct outgoing *out, const char *group)
{
    make_room(out);
    out->message->removed[out->message->n_removed++] = baton_wire_text(out->message, group);
}

/* Tells what is new about one group.  'sure': also a removal of what we did not tell ourselves. */
static void look_at(struct outgoing *out, const char *name, bool sure)
{
    const struct controller *core = out->daemon->core;
    const struct group_record *group = view_group_find(core, name);
    const struct version_record *version = NULL;
    struct told *told = told_find(out->watcher, name);
    if (group == NULL || !view_admission_group(core, &out->watcher->query, group, &version)) {
        if (told != NULL) {
            told_remove(out->watcher, told);
        }
        if (told != NULL || sure) {
            add_removed(out, name);
        }
        return;
    }
    uint64_t print = print_of(core, group, version);
    if (told == NULL || told->print != print) {
        told_set(out->watcher, name, print);
        add_endpoint(out, group, version);
    }
}

static void look_at_all(struct outgoing *out)
{
    const struct controller *core = out->daemon->core;
    const char *model = out->watcher->model;
    uint32_t first = view_groups_lower_bound(core, model, "");
    uint32_t count = view_groups_of_model(core, model);
    for (uint32_t i = 0; i < count; i++) {
        look_at(out, view_group_at(core, first + i)->name, false);
    }
}

static uint64_t oldest_kept(const struct daemon *daemon)
{
    return daemon->past_count > DAEMON_PAST_CHANGES ? daemon->past_count - DAEMON_PAST_CHANGES : 0;
}

static void look_at_past(struct outgoing *out, bool sure)
{
    struct daemon *daemon = out->daemon;
    for (uint64_t i = out->watcher->past; i < daemon->past_count; i++) {
        const struct past_change *past = &daemon->past[i % DAEMON_PAST_CHANGES];
        if (past->object.kind == OBJECT_GROUP && strcmp(past->model, out->watcher->model) == 0) {
            look_at(out, past->object.name, sure);
        }
    }
}

static uint64_t newest_of(const struct daemon *daemon, const struct endpoint_watcher *watcher)
{
    return view_model_find(daemon->core, watcher->model)->newest_seq;
}

static void finish(struct outgoing *out, bool always)
{
    out->watcher->past = out->daemon->past_count;
    if (out->message == NULL && always) {
        begin(out);
    }
    if (out->message != NULL) {
        send(out, false);
    }
}

static void flush(struct daemon *daemon, struct endpoint_watcher *watcher)
{
    struct outgoing out = { .daemon = daemon, .watcher = watcher };
    uint64_t newest = newest_of(daemon, watcher);
    bool published = newest != watcher->newest_seq;
    bool missed = watcher->past < oldest_kept(daemon);
    watcher->newest_seq = newest;
    if (missed || (published && watcher->query.has_max_lag)) {
        look_at_all(&out);
    } else {
        look_at_past(&out, false);
    }
    finish(&out, published);
}

/* --- the start --- */

/* The place in the ring after 'revision'; false if it does not reach back so far, or if a query by
 * lag changed its meaning since. */
static bool find_past(const struct daemon *daemon, const struct endpoint_watcher *watcher,
                      uint64_t revision, uint64_t *out)
{
    if (revision == 0 || !watch_covers(daemon, revision)) {
        return false;
    }
    uint64_t place = daemon->past_count;
    while (place > oldest_kept(daemon)) {
        const struct past_change *past = &daemon->past[(place - 1) % DAEMON_PAST_CHANGES];
        if (past->revision <= revision) {
            break;
        }
        if (past->object.kind == OBJECT_VERSION && watcher->query.has_max_lag &&
            strcmp(past->model, watcher->model) == 0) {
            return false;
        }
        place--;
    }
    *out = place;
    return true;
}

/* What did not change since is known to the caller. */
static void assume_told(struct daemon *daemon, struct endpoint_watcher *watcher)
{
    const struct controller *core = daemon->core;
    uint32_t first = view_groups_lower_bound(core, watcher->model, "");
    uint32_t count = view_groups_of_model(core, watcher->model);
    for (uint32_t i = 0; i < count; i++) {
        const struct group_record *group = view_group_at(core, first + i);
        const struct version_record *version = NULL;
        if (view_admission_group(core, &watcher->query, group, &version)) {
            told_set(watcher, group->name, print_of(core, group, version));
        }
    }
    for (uint64_t i = watcher->past; i < daemon->past_count; i++) {
        struct told *told = told_find(watcher, daemon->past[i % DAEMON_PAST_CHANGES].object.name);
        if (told != NULL) {
            told_remove(watcher, told);
        }
    }
}

void endpoints_watch(struct daemon *daemon, struct rpc_call *call,
                     const struct admission_query *query, uint64_t from_revision)
{
    struct endpoint_watcher *watcher = calloc(1, sizeof(*watcher));
    baton_assert(watcher != NULL);
    watcher->call = call;
    watcher->query = *query;
    (void)baton_text_copy(watcher->model, sizeof(watcher->model), query->model);
    watcher->query.model = watcher->model;
    watcher->newest_seq = newest_of(daemon, watcher);
    watcher->next = daemon->endpoint_watchers;
    daemon->endpoint_watchers = watcher;
    struct outgoing out = { .daemon = daemon, .watcher = watcher };
    if (find_past(daemon, watcher, from_revision, &watcher->past)) {
        assume_told(daemon, watcher);
        look_at_past(&out, true);
    } else {
        out.reset = true;
        look_at_all(&out);
    }
    finish(&out, true);
}

/* --- changes, silence, the end --- */

void endpoints_changed(struct daemon *daemon)
{
    if (daemon->endpoint_watchers != NULL && daemon->endpoints_due_ns == 0) {
        daemon->endpoints_due_ns =
            baton_clock_monotonic_ns() + ENDPOINTS_COALESCE_MS * BATON_NS_PER_MS;
    }
}

uint64_t endpoints_deadline_ns(const struct daemon *daemon)
{
    return daemon->endpoints_due_ns != 0 ? daemon->endpoints_due_ns : UINT64_MAX;
}

void endpoints_run(struct daemon *daemon, uint64_t now_ns, uint64_t silence_ns)
{
    bool due = daemon->endpoints_due_ns != 0 && now_ns >= daemon->endpoints_due_ns;
    daemon->endpoints_due_ns = due ? 0 : daemon->endpoints_due_ns;
    for (struct endpoint_watcher *w = daemon->endpoint_watchers;
         w != NULL && daemon->core != NULL && !daemon->rebuild; w = w->next) {
        if (due) {
            flush(daemon, w);
        }
        if (now_ns > w->last_sent_ns && now_ns - w->last_sent_ns >= silence_ns) {
            struct outgoing out = { .daemon = daemon, .watcher = w };
            look_at_past(&out, false); /* Its revision is the present one: leave nothing out. */
            finish(&out, true);
        }
    }
}

void endpoints_end(struct daemon *daemon, struct rpc_call *call)
{
    for (struct endpoint_watcher **at = &daemon->endpoint_watchers; *at != NULL;
         at = &(*at)->next) {
        if ((*at)->call == call) {
            struct endpoint_watcher *ended = *at;
            *at = ended->next;
            rpc_call_unref(ended->call);
            free(ended->told);
            free(ended);
            return;
        }
    }
}

void endpoints_end_all(struct daemon *daemon, const struct baton_status *status)
{
    while (daemon->endpoint_watchers != NULL) {
        rpc_finish(daemon->endpoint_watchers->call, status);
        endpoints_end(daemon, daemon->endpoint_watchers->call);
    }
    daemon->endpoints_due_ns = 0;
}
