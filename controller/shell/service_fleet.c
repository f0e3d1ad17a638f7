/* service_fleet.c -- baton.v1.Fleet. */
#include <string.h>

#include "api/wire/wire.h"
#include "controller/shell/routes.h"
#include "controller/shell/service.h"
#include "controller/shell/session.h"

SERVICE_HANDLER(serve_fleet_list_groups, Baton__V1__ListGroupsRequest)
SERVICE_HANDLER(serve_fleet_get_group, Baton__V1__GetGroupRequest)
SERVICE_STREAM_HANDLER(serve_fleet_watch, Baton__V1__WatchGroupsRequest)
SERVICE_HANDLER(serve_fleet_list_agents, Baton__V1__ListAgentsRequest)
SERVICE_HANDLER(serve_fleet_list_engines, Baton__V1__ListEnginesRequest)
SERVICE_STREAM_HANDLER(serve_fleet_events, Baton__V1__EventsRequest)

static void serve_fleet_get_group_work(struct daemon *daemon, struct rpc_call *call,
                                       const Baton__V1__GetGroupRequest *request)
{
    const struct group_record *group = view_group_find(daemon->core, request->name);
    if (group == NULL) {
        service_not_found(call, "group", request->name);
        return;
    }
    service_reply(call, render_group(daemon->core, group, NULL));
}

static uint32_t groups_start(const struct controller *core, const Baton__V1__ListGroupsRequest *r)
{
    const char *parts[2];
    if (r->page_token[0] == '\0') {
        return r->model[0] != '\0' ? view_groups_lower_bound(core, r->model, "") : 0;
    }
    service_token_split(r->page_token, parts, 2);
    return view_groups_lower_bound(core, parts[0], parts[1]);
}

static void serve_fleet_list_groups_work(struct daemon *daemon, struct rpc_call *call,
                                         const Baton__V1__ListGroupsRequest *request)
{
    Baton__V1__ListGroupsResponse *reply =
        baton_wire_new(&baton__v1__list_groups_response__descriptor);
    struct service_page page = service_page_begin(request->page_size);
    uint32_t count = view_groups_count(daemon->core);
    const struct group_record *last = NULL;
    reply->groups = baton_wire_take(reply, page.items_max, sizeof(*reply->groups));
    reply->revision = view_revision(daemon->core);
    for (uint32_t index = groups_start(daemon->core, request); index < count; index++) {
        const struct group_record *group = view_group_at(daemon->core, index);
        if (request->model[0] != '\0' && strcmp(group->model, request->model) != 0) {
            break;
        }
        Baton__V1__Group *item = render_group(daemon->core, group, reply);
        if (!service_page_add(&page, item)) {
            reply->next_page_token = baton_wire_textf(reply, "%s/%s", last->model, last->name);
            break;
        }
        reply->groups[reply->n_groups++] = item;
        last = group;
    }
    service_reply(call, reply);
}

static void add_certificate(struct daemon *daemon, const struct agent_record *agent,
                            Baton__V1__Agent *item, void *root)
{
    struct agent_status status;
    view_agent_status(daemon->core, agent, &status);
    uint64_t ends_ns = session_certificate_ends(daemon, status.session);
    if (ends_ns != 0) {
        item->certificate_ends_at = baton_wire_timestamp(root, ends_ns);
    }
}

static void serve_fleet_list_agents_work(struct daemon *daemon, struct rpc_call *call,
                                         const Baton__V1__ListAgentsRequest *request)
{
    Baton__V1__ListAgentsResponse *reply =
        baton_wire_new(&baton__v1__list_agents_response__descriptor);
    struct service_page page = service_page_begin(request->page_size);
    uint32_t count = view_agents_count(daemon->core);
    uint32_t index = request->page_token[0] != '\0'
                         ? view_agents_lower_bound(daemon->core, request->page_token)
                         : 0;
    reply->agents = baton_wire_take(reply, page.items_max, sizeof(*reply->agents));
    reply->revision = view_revision(daemon->core);
    for (; index < count; index++) {
        const struct agent_record *agent = view_agent_at(daemon->core, index);
        Baton__V1__Agent *item = render_agent(daemon->core, agent, reply);
        add_certificate(daemon, agent, item, reply);
        if (!service_page_add(&page, item)) {
            reply->next_page_token =
                baton_wire_text(reply, view_agent_at(daemon->core, index - 1)->name);
            break;
        }
        reply->agents[reply->n_agents++] = item;
    }
    service_reply(call, reply);
}

/* Pages of engines are cut between groups: the token is the last group that was sent whole. */
static bool add_engines(struct daemon *daemon, const struct group_record *group,
                        Baton__V1__ListEnginesResponse *reply, struct service_page *page)
{
    struct group_status status;
    size_t before = reply->n_engines;
    view_group_status(daemon->core, group, 0, &status);
    for (uint32_t i = 0; status.report != NULL && i < status.report->engines_count; i++) {
        Baton__V1__Engine *item = render_engine(group, &status.report->engines[i], reply);
        if (!service_page_add(page, item)) {
            reply->n_engines = before;
            return false;
        }
        reply->engines[reply->n_engines++] = item;
    }
    return true;
}

static void serve_fleet_list_engines_work(struct daemon *daemon, struct rpc_call *call,
                                          const Baton__V1__ListEnginesRequest *request)
{
    Baton__V1__ListEnginesResponse *reply =
        baton_wire_new(&baton__v1__list_engines_response__descriptor);
    struct service_page page = service_page_begin(request->page_size);
    const struct group_record *last = NULL;
    const char *parts[2];
    uint32_t count = view_groups_count(daemon->core);
    uint32_t index = 0;
    if (page.items_max < BATON_ENGINES_PER_GROUP_MAX) {
        page.items_max = BATON_ENGINES_PER_GROUP_MAX; /* A group is never cut. */
    }
    if (request->page_token[0] != '\0') {
        service_token_split(request->page_token, parts, 2);
        index = view_groups_lower_bound(daemon->core, parts[0], parts[1]);
    }
    reply->engines = baton_wire_take(reply, page.items_max, sizeof(*reply->engines));
    reply->revision = view_revision(daemon->core);
    for (; index < count; index++) {
        const struct group_record *group = view_group_at(daemon->core, index);
        if (request->group[0] != '\0' && strcmp(group->name, request->group) != 0) {
            continue;
        }
        if (!add_engines(daemon, group, reply, &page)) {
            reply->next_page_token = baton_wire_textf(reply, "%s/%s", last->model, last->name);
            break;
        }
        last = group;
    }
    service_reply(call, reply);
}

static void serve_fleet_watch_work(struct daemon *daemon, struct rpc_call *call,
                                   const Baton__V1__WatchGroupsRequest *request)
{
    struct watch_request watch = { OBJECT_GROUP, request->from_revision, request->model };
    watch_start(daemon, call, &watch);
}

/* What is sent of the stored log to one call. */
struct log_reader {
    struct rpc_call *call;
    const char *object;
    bool cut;
};

static void send_entry(void *context, const struct log_entry *entry)
{
    struct log_reader *reader = context;
    if (reader->cut || (reader->object[0] != '\0' && strcmp(reader->object, entry->object) != 0)) {
        return;
    }
    void *message = render_event(entry, NULL);
    struct baton_status st = rpc_send(reader->call, message);
    baton_wire_free(message);
    reader->cut = !baton_ok(&st);
}

static void serve_fleet_events_work(struct daemon *daemon, struct rpc_call *call,
                                    const Baton__V1__EventsRequest *request)
{
    if (strlen(request->object) >= FOLLOWER_OBJECT_BYTES) {
        service_fail(call, rpc_status_field("object", "longer than %d characters",
                                            FOLLOWER_OBJECT_BYTES - 1));
        return;
    }
    struct log_reader reader = { call, request->object, false };
    struct baton_status st =
        store_list_log(daemon->store, request->after, BATON_EVENTS_KEPT_MAX, send_entry, &reader);
    if (!baton_ok(&st) || reader.cut || !request->follow) {
        service_fail(call, st); /* Also the good end of a stream. */
        return;
    }
    watch_follow(daemon, call, request->object);
}
