/* service_version_verbs.c -- baton.v1.Versions: what operators do to published versions. */
#include "baton/v1/versions.pb-c.h"
#include "controller/shell/routes.h"
#include "controller/shell/service.h"

SERVICE_HANDLER(serve_versions_pin, Baton__V1__PinVersionRequest)
SERVICE_HANDLER(serve_versions_unpin, Baton__V1__UnpinVersionRequest)
SERVICE_HANDLER(serve_versions_quarantine, Baton__V1__QuarantineVersionRequest)
SERVICE_HANDLER(serve_versions_unquarantine, Baton__V1__UnquarantineVersionRequest)

static void serve_versions_pin_work(struct daemon *daemon, struct rpc_call *call,
                                    const Baton__V1__PinVersionRequest *request)
{
    struct request mutation = { .kind = REQUEST_VERSION_PIN,
                                .model = request->model,
                                .to_seq = request->seq };
    service_mutate(daemon, call, request->options, &mutation);
}

static void serve_versions_unpin_work(struct daemon *daemon, struct rpc_call *call,
                                      const Baton__V1__UnpinVersionRequest *request)
{
    struct request mutation = { .kind = REQUEST_VERSION_UNPIN,
                                .model = request->model,
                                .to_seq = request->seq };
    service_mutate(daemon, call, request->options, &mutation);
}

static void serve_versions_quarantine_work(struct daemon *daemon, struct rpc_call *call,
                                           const Baton__V1__QuarantineVersionRequest *request)
{
    struct request mutation = { .kind = REQUEST_VERSION_QUARANTINE,
                                .model = request->model,
                                .to_seq = request->seq,
                                .body.quarantine = { request->evict } };
    service_mutate(daemon, call, request->options, &mutation);
}

static void serve_versions_unquarantine_work(struct daemon *daemon, struct rpc_call *call,
                                             const Baton__V1__UnquarantineVersionRequest *request)
{
    struct request mutation = { .kind = REQUEST_VERSION_UNQUARANTINE,
                                .model = request->model,
                                .to_seq = request->seq };
    service_mutate(daemon, call, request->options, &mutation);
}
