/* service_store.c -- baton.v1.Fleet: what operators do after a store was lost. */
#include "api/wire/wire.h"
#include "baton/v1/fleet.pb-c.h"
#include "controller/shell/routes.h"
#include "controller/shell/service.h"

SERVICE_HANDLER(serve_fleet_rebuild_store, Baton__V1__RebuildStoreRequest)
SERVICE_HANDLER(serve_fleet_attest_floors, Baton__V1__AttestFloorsRequest)

static void answer_rebuild(struct daemon *daemon, struct pending *pending,
                           const struct action_reply *reply)
{
    Baton__V1__RebuildStoreResponse *message =
        baton_wire_new(&baton__v1__rebuild_store_response__descriptor);
    message->versions = reply->object.number;
    message->floors_pending = view_floors_pending(daemon->core);
    message->revision = view_revision(daemon->core);
    rpc_reply(pending->call, message);
    baton_wire_free(message);
}

static void serve_fleet_rebuild_store_work(struct daemon *daemon, struct rpc_call *call,
                                           const Baton__V1__RebuildStoreRequest *request)
{
    struct rpc_peer peer;
    struct request mutation = { .kind = REQUEST_STORE_REBUILD, .dry_run = request->dry_run };
    mutation.options = service_options(call, request->options, &peer);
    daemon_request(daemon, call, &mutation, answer_rebuild, NULL);
}

static void answer_floors(struct daemon *daemon, struct pending *pending,
                          const struct action_reply *reply)
{
    Baton__V1__AttestFloorsResponse *message =
        baton_wire_new(&baton__v1__attest_floors_response__descriptor);
    (void)reply;
    message->revision = view_revision(daemon->core);
    rpc_reply(pending->call, message);
    baton_wire_free(message);
}

static void serve_fleet_attest_floors_work(struct daemon *daemon, struct rpc_call *call,
                                           const Baton__V1__AttestFloorsRequest *request)
{
    struct rpc_peer peer;
    struct request mutation = { .kind = REQUEST_STORE_FLOORS };
    mutation.options = service_options(call, request->options, &peer);
    daemon_request(daemon, call, &mutation, answer_floors, NULL);
}
