/* service_verbs.c -- baton.v1.Rolls: what operators and evaluators do to a running roll. */
#include "api/wire/wire.h"
#include "controller/shell/routes.h"
#include "controller/shell/service.h"

SERVICE_HANDLER(serve_rolls_advance, Baton__V1__AdvanceRollRequest)
SERVICE_HANDLER(serve_rolls_promote, Baton__V1__PromoteRollRequest)
SERVICE_HANDLER(serve_rolls_abort, Baton__V1__AbortRollRequest)
SERVICE_HANDLER(serve_rolls_retry, Baton__V1__RetryRollRequest)
SERVICE_HANDLER(serve_rolls_report_check, Baton__V1__ReportCheckRequest)

static void serve_rolls_advance_work(struct daemon *daemon, struct rpc_call *call,
                                     const Baton__V1__AdvanceRollRequest *request)
{
    struct request mutation = { .kind = REQUEST_ROLL_ADVANCE, .model = request->model };
    service_mutate(daemon, call, request->options, &mutation);
}

static void serve_rolls_promote_work(struct daemon *daemon, struct rpc_call *call,
                                     const Baton__V1__PromoteRollRequest *request)
{
    struct request mutation = { .kind = REQUEST_ROLL_PROMOTE, .model = request->model };
    service_mutate(daemon, call, request->options, &mutation);
}

static void serve_rolls_abort_work(struct daemon *daemon, struct rpc_call *call,
                                   const Baton__V1__AbortRollRequest *request)
{
    struct request mutation = { .kind = REQUEST_ROLL_ABORT, .model = request->model };
    service_mutate(daemon, call, request->options, &mutation);
}

static void serve_rolls_retry_work(struct daemon *daemon, struct rpc_call *call,
                                   const Baton__V1__RetryRollRequest *request)
{
    struct request mutation = { .kind = REQUEST_ROLL_RETRY,
                                .model = request->model,
                                .body.retry = { request->group } };
    service_mutate(daemon, call, request->options, &mutation);
}

static void serve_rolls_report_check_work(struct daemon *daemon, struct rpc_call *call,
                                          const Baton__V1__ReportCheckRequest *request)
{
    struct request mutation = { .kind = REQUEST_ROLL_REPORT_CHECK,
                                .model = request->model,
                                .body.check = { .check = request->check,
                                                .seq = request->seq,
                                                .value = request->value,
                                                .verdict = (enum check_state)request->verdict,
                                                .message = request->message } };
    service_mutate(daemon, call, request->options, &mutation);
}
