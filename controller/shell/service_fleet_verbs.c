/* service_fleet_verbs.c -- baton.v1.Fleet: what operators do to groups and agents. */
#include <string.h>

#include "api/wire/wire.h"
#include "baton/v1/fleet.pb-c.h"
#include "controller/shell/routes.h"
#include "controller/shell/service.h"

SERVICE_HANDLER(serve_fleet_cordon, Baton__V1__CordonRequest)
SERVICE_HANDLER(serve_fleet_uncordon, Baton__V1__UncordonRequest)
SERVICE_HANDLER(serve_fleet_drain, Baton__V1__DrainRequest)
SERVICE_HANDLER(serve_fleet_sleep, Baton__V1__SleepRequest)
SERVICE_HANDLER(serve_fleet_wake, Baton__V1__WakeRequest)
SERVICE_HANDLER(serve_fleet_retire, Baton__V1__RetireRequest)
SERVICE_HANDLER(serve_fleet_pin, Baton__V1__PinGroupRequest)
SERVICE_HANDLER(serve_fleet_unpin, Baton__V1__UnpinGroupRequest)

/* The names of the groups that the call was about. */
static void answer_change(struct daemon *daemon, struct pending *pending,
                          const struct action_reply *reply)
{
    Baton__V1__FleetChange *message = baton_wire_new(&baton__v1__fleet_change__descriptor);
    uint32_t count = view_groups_count(daemon->core);
    message->groups = baton_wire_take(message, count, sizeof(*message->groups));
    message->revision = view_revision(daemon->core);
    for (uint32_t i = 0; i < count; i++) {
        const struct group_record *group = view_group_at(daemon->core, i);
        const char *name = reply->object.kind == OBJECT_AGENT   ? group->agent
                           : reply->object.kind == OBJECT_MODEL ? group->model
                                                                : group->name;
        if (strcmp(name, reply->object.name) == 0) {
            message->groups[message->n_groups++] = baton_wire_text(message, group->name);
        }
    }
    rpc_reply(pending->call, message);
    baton_wire_free(message);
}

static void change(struct daemon *daemon, struct rpc_call *call,
                   const Baton__V1__MutationOptions *options, struct request *request)
{
    struct rpc_peer peer;
    request->options = service_options(call, options, &peer);
    daemon_request(daemon, call, request, answer_change, NULL);
}

static void serve_fleet_cordon_work(struct daemon *daemon, struct rpc_call *call,
                                    const Baton__V1__CordonRequest *request)
{
    struct request mutation = { .kind = REQUEST_GROUP_CORDON,
                                .group = request->group,
                                .agent = request->agent };
    change(daemon, call, request->options, &mutation);
}

static void serve_fleet_uncordon_work(struct daemon *daemon, struct rpc_call *call,
                                      const Baton__V1__UncordonRequest *request)
{
    struct request mutation = { .kind = REQUEST_GROUP_UNCORDON,
                                .group = request->group,
                                .agent = request->agent };
    change(daemon, call, request->options, &mutation);
}

static void serve_fleet_drain_work(struct daemon *daemon, struct rpc_call *call,
                                   const Baton__V1__DrainRequest *request)
{
    struct request mutation = { .kind = REQUEST_GROUP_DRAIN,
                                .group = request->group,
                                .agent = request->agent };
    change(daemon, call, request->options, &mutation);
}

static void serve_fleet_sleep_work(struct daemon *daemon, struct rpc_call *call,
                                   const Baton__V1__SleepRequest *request)
{
    struct request mutation = { .kind = REQUEST_GROUP_SLEEP,
                                .group = request->group,
                                .agent = request->agent,
                                .model = request->model };
    change(daemon, call, request->options, &mutation);
}

static void serve_fleet_wake_work(struct daemon *daemon, struct rpc_call *call,
                                  const Baton__V1__WakeRequest *request)
{
    struct request mutation = { .kind = REQUEST_GROUP_WAKE,
                                .group = request->group,
                                .agent = request->agent,
                                .model = request->model };
    change(daemon, call, request->options, &mutation);
}

static void serve_fleet_retire_work(struct daemon *daemon, struct rpc_call *call,
                                    const Baton__V1__RetireRequest *request)
{
    struct request mutation = { .kind = REQUEST_GROUP_RETIRE,
                                .group = request->group,
                                .agent = request->agent,
                                .body.retire = { request->attest_dead } };
    change(daemon, call, request->options, &mutation);
}

static void serve_fleet_pin_work(struct daemon *daemon, struct rpc_call *call,
                                 const Baton__V1__PinGroupRequest *request)
{
    struct request mutation = { .kind = REQUEST_GROUP_PIN,
                                .group = request->group,
                                .agent = request->agent };
    change(daemon, call, request->options, &mutation);
}

static void serve_fleet_unpin_work(struct daemon *daemon, struct rpc_call *call,
                                   const Baton__V1__UnpinGroupRequest *request)
{
    struct request mutation = { .kind = REQUEST_GROUP_UNPIN,
                                .group = request->group,
                                .agent = request->agent };
    change(daemon, call, request->options, &mutation);
}
