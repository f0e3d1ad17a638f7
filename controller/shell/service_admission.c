/* service_admission.c -- baton.v1.Admission: endpoints; see endpoints.h for their watch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/wire/wire.h"
#include "controller/core/leases.h"
#include "controller/shell/batch.h"
#include "controller/shell/endpoints.h"
#include "controller/shell/render_stale.h"
#include "controller/shell/routes.h"
#include "controller/shell/service.h"

SERVICE_HANDLER(serve_admission_resolve, Baton__V1__ResolveRequest)
SERVICE_STREAM_HANDLER(serve_admission_watch_endpoints, Baton__V1__WatchEndpointsRequest)

static void read_max_lag(const Baton__V1__MaxLag *max_lag, struct admission_query *query)
{
    if (max_lag != NULL) {
        query->has_max_lag = true;
        query->max_lag = max_lag->bound;
        query->unit = max_lag->unit == 0 ? LAG_PUBLISHES : (enum lag_unit)max_lag->unit;
    }
}

static bool refuse_query(struct daemon *daemon, struct rpc_call *call,
                         const struct admission_query *query)
{
    const char *field = NULL;
    struct baton_status st = view_admission_check(daemon->core, query, &field);
    if (baton_ok(&st)) {
        return false;
    }
    if (field != NULL) {
        st = rpc_status_field(field, "%s", st.message + strlen(field) + 2);
    }
    service_fail(call, st);
    return true;
}

/* Where a page begins.  Of each version, groups come from the one after 'turn' on, round to it: another 'turn' with each
 * first page, so that callers who take the first ones spread over all. */
struct cursor {
    uint64_t seq;     /* Of the last endpoint before it; UINT64_MAX: none yet. */
    const char *turn; /* Name of a group; empty: the first one is first. */
    const char *last; /* Of the last endpoint before it. */
};

/* A page under way. */
struct resolve {
    const struct controller *core;
    const struct admission_query *query;
    Baton__V1__ResolveResponse *reply;
    struct service_page page;
    struct cursor at;
    bool full;
};

static void add_endpoint(struct resolve *resolve, const struct group_record *group,
                         const struct version_record *version)
{
    Baton__V1__ResolveResponse *reply = resolve->reply;
    struct cursor *at = &resolve->at;
    Baton__V1__Endpoint *item = render_endpoint(resolve->core, group, version, reply);
    if (service_page_add(&resolve->page, item)) {
        reply->endpoints[reply->n_endpoints++] = item;
        at->seq = version->seq;
        at->last = group->name;
        return;
    }
    resolve->full = true;
    reply->next_page_token =
        baton_wire_textf(reply, "%llu/%s/%s", (unsigned long long)at->seq, at->turn, at->last);
}

/* Groups on one version that meet the query: all, or those after the cursor. */
static void add_endpoints(struct resolve *resolve, uint64_t seq, bool goes_on)
{
    const struct controller *core = resolve->core;
    const char *model = resolve->query->model;
    uint32_t first = view_groups_lower_bound(core, model, "");
    uint32_t count = view_groups_of_model(core, model);
    uint32_t turn = view_groups_lower_bound(core, model, resolve->at.turn) - first;
    uint32_t from = turn;
    uint32_t left = count;
    if (goes_on && count != 0) {
        from = view_groups_lower_bound(core, model, resolve->at.last) - first;
        left = (turn + count - from) % count;
    }
    for (uint32_t i = 0; i < left && !resolve->full; i++) {
        const struct group_record *group = view_group_at(core, first + (from + i) % count);
        const struct version_record *version = NULL;
        if (view_admission_group(core, resolve->query, group, &version) && version->seq == seq) {
            add_endpoint(resolve, group, version);
        }
    }
}

/* Newest version first. */
static void fill_endpoints(struct resolve *resolve)
{
    uint64_t seq = resolve->at.seq;
    if (seq != UINT64_MAX) {
        add_endpoints(resolve, seq, true);
    }
    while (!resolve->full && (seq = view_admission_next(resolve->core, resolve->query, seq)) != 0) {
        add_endpoints(resolve, seq, false);
    }
}

/* The first page's: begins at another group with each call. */
static struct cursor first_cursor(struct daemon *daemon, const char *model)
{
    uint32_t count = view_groups_of_model(daemon->core, model);
    uint32_t turn = count == 0 ? 0 : (uint32_t)(daemon->resolves++ % count);
    uint32_t first = view_groups_lower_bound(daemon->core, model, "");
    return (struct cursor){ UINT64_MAX,
                            turn == 0 ? "" : view_group_at(daemon->core, first + turn - 1)->name,
                            "" };
}

static struct cursor read_cursor(char *token)
{
    const char *parts[3];
    service_token_split(token, parts, 3);
    return (struct cursor){ strtoull(parts[0], NULL, 10), parts[1], parts[2] };
}

/* An answer of this request; its page token is cut in pieces on the way. */
static void *render_resolve(struct daemon *daemon, const struct admission_query *query,
                            const Baton__V1__ResolveRequest *request)
{
    const struct controller *core = daemon->core;
    Baton__V1__ResolveResponse *reply = baton_wire_new(&baton__v1__resolve_response__descriptor);
    struct resolve resolve = {
        .core = core, .query = query, .reply = reply, .page = service_page_begin(request->limit)
    };
    bool first = request->page_token[0] == '\0';
    resolve.at = first ? first_cursor(daemon, query->model)
                       : read_cursor(baton_wire_text(reply, request->page_token));
    reply->model = baton_wire_text(reply, query->model);
    reply->revision = view_revision(core);
    reply->endpoints_total = view_admission_count(core, query);
    reply->newest_seq = view_model_find(core, query->model)->newest_seq;
    reply->endpoints = baton_wire_take(reply, resolve.page.items_max, sizeof(*reply->endpoints));
    fill_endpoints(&resolve);
    return reply;
}

static Baton__V1__SessionLease *render_session(const struct controller *core, const char *model,
                                               const char *name, void *root)
{
    const struct session_lease_record *lease = view_session_find(core, model, name);
    Baton__V1__SessionLease *message = baton_wire_part(root, &baton__v1__session_lease__descriptor);
    message->session = baton_wire_text(root, name);
    message->seq = lease->seq;
    message->expires_at = baton_wire_timestamp(root, view_session_expires_wall_ns(core, lease));
    message->created = lease->created_wall_ns == view_wall_ns(core);
    return message;
}

/* The lease is stored: groups on its version. */
static void answer_session(struct daemon *daemon, struct pending *pending,
                           const struct action_reply *reply)
{
    const Baton__V1__ResolveRequest *request = rpc_call_request(pending->call);
    struct admission_query query = { .model = request->model, .exact_seq = reply->object.number };
    Baton__V1__ResolveResponse *message = render_resolve(daemon, &query, request);
    message->session = render_session(daemon->core, request->model, request->session, message);
    rpc_reply(pending->call, message);
    baton_wire_free(message);
}

static void resolve_session(struct daemon *daemon, struct rpc_call *call,
                            const Baton__V1__ResolveRequest *request,
                            const struct admission_query *query)
{
    uint64_t ttl_ns = 0;
    struct baton_status st = baton_wire_duration_ns(request->session_ttl, "session_ttl", &ttl_ns);
    if (baton_ok(&st) && request->session_ttl != NULL && ttl_ns < BATON_NS_PER_MS) {
        st = rpc_status_field("session_ttl", "must be at least 1 ms");
    }
    if (!baton_ok(&st)) {
        service_fail(call, st);
        return;
    }
    struct request mutation = { .kind = REQUEST_SESSION_RESOLVE,
                                .model = request->model,
                                .body.session = { .query = *query,
                                                  .name = request->session,
                                                  .ttl_ms = ttl_ns / BATON_NS_PER_MS,
                                                  .restart = request->restart_session } };
    batch_add(daemon, call, request->options, &mutation, answer_session);
}

static void refuse_unready(struct daemon *daemon, struct rpc_call *call,
                           const struct admission_query *query)
{
    char subject[RECORD_WORD_BYTES + BATON_NAME_BYTES];
    struct rpc_error_details details = { .subject = subject };
    (void)snprintf(subject, sizeof(subject), "model/%.63s", query->model);
    struct baton_status st = view_admission_refusal(daemon->core, query, &details.retry_after_ns);
    rpc_finish_with(call, &st, &details);
    rpc_call_unref(call);
}

static void serve_admission_resolve_work(struct daemon *daemon, struct rpc_call *call,
                                         const Baton__V1__ResolveRequest *request)
{
    struct admission_query query = { .model = request->model,
                                     .min_seq = request->min_seq,
                                     .exact_seq = request->exact_seq };
    read_max_lag(request->max_lag, &query);
    if (refuse_query(daemon, call, &query)) {
        return;
    }
    if (request->page_token[0] != '\0' && strtoull(request->page_token, NULL, 10) == 0) {
        service_fail(call, rpc_status_field("page_token", "is not one of an earlier answer"));
    } else if (request->session[0] != '\0') {
        resolve_session(daemon, call, request, &query);
    } else if (view_admission_count(daemon->core, &query) == 0) {
        refuse_unready(daemon, call, &query);
    } else {
        service_reply(call, render_resolve(daemon, &query, request));
    }
}

static void serve_admission_watch_endpoints_work(struct daemon *daemon, struct rpc_call *call,
                                                 const Baton__V1__WatchEndpointsRequest *request)
{
    struct admission_query query = { .model = request->model,
                                     .min_seq = request->min_seq,
                                     .exact_seq = request->exact_seq };
    read_max_lag(request->max_lag, &query);
    if (!refuse_query(daemon, call, &query)) {
        endpoints_watch(daemon, call, &query, request->from_revision);
    }
}
