/* service_staleness.c -- baton.v1.Staleness. */
#include "api/base/clock.h"
#include "api/wire/wire.h"
#include "controller/core/series.h"
#include "controller/shell/render_stale.h"
#include "controller/shell/routes.h"
#include "controller/shell/service.h"
#include "controller/shell/summaries.h"

SERVICE_HANDLER(serve_staleness_summary, Baton__V1__StalenessSummaryRequest)
SERVICE_HANDLER(serve_staleness_histogram, Baton__V1__StalenessHistogramRequest)
SERVICE_HANDLER(serve_staleness_series, Baton__V1__StalenessSeriesRequest)
SERVICE_STREAM_HANDLER(serve_staleness_watch_summary, Baton__V1__WatchStalenessSummaryRequest)

static void serve_staleness_summary_work(struct daemon *daemon, struct rpc_call *call,
                                         const Baton__V1__StalenessSummaryRequest *request)
{
    const struct controller *core = daemon->core;
    const struct model_record *one =
        request->model[0] != '\0' ? view_model_find(core, request->model) : NULL;
    if (request->model[0] != '\0' && one == NULL) {
        service_not_found(call, "model", request->model);
        return;
    }
    Baton__V1__StalenessSummaryResponse *reply =
        baton_wire_new(&baton__v1__staleness_summary_response__descriptor);
    uint32_t count = one != NULL ? 1 : view_models_count(core);
    reply->revision = view_revision(core);
    reply->n_summaries = count;
    reply->summaries = baton_wire_take(reply, count, sizeof(*reply->summaries));
    for (uint32_t i = 0; i < count; i++) {
        const struct model_record *model = one != NULL ? one : view_model_at(core, i);
        reply->summaries[i] = render_staleness(core, model, reply);
    }
    service_reply(call, reply);
}

static void serve_staleness_histogram_work(struct daemon *daemon, struct rpc_call *call,
                                           const Baton__V1__StalenessHistogramRequest *request)
{
    const struct model_record *model = view_model_find(daemon->core, request->model);
    uint32_t unit = request->unit == 0 ? LAG_PUBLISHES : (uint32_t)request->unit;
    if (model == NULL) {
        service_not_found(call, "model", request->model);
    } else if (unit >= LAG_UNITS_END) {
        service_fail(call, rpc_status_field("unit", "not a unit of lag"));
    } else {
        service_reply(call, render_histogram(daemon->core, model, (enum lag_unit)unit));
    }
}

static struct baton_status read_series(const Baton__V1__StalenessSeriesRequest *request,
                                       uint32_t *tier, uint64_t *since_ns)
{
    uint64_t period_ns = 0;
    struct baton_status st = baton_wire_duration_ns(request->period, "period", &period_ns);
    if (baton_ok(&st)) {
        st = baton_wire_timestamp_ns(request->since, "since", since_ns);
    }
    *tier = 0;
    bool known =
        period_ns % BATON_NS_PER_S == 0 && series_tier_of(period_ns / BATON_NS_PER_S, tier);
    if (baton_ok(&st) && request->period != NULL && !known) {
        st = rpc_status_field("period", "points are 10 s, 1 min or 10 min wide");
    }
    return st;
}

static void serve_staleness_series_work(struct daemon *daemon, struct rpc_call *call,
                                        const Baton__V1__StalenessSeriesRequest *request)
{
    const struct model_record *model = view_model_find(daemon->core, request->model);
    uint32_t tier = 0;
    uint64_t since_ns = 0;
    struct baton_status st = read_series(request, &tier, &since_ns);
    if (!baton_ok(&st)) {
        service_fail(call, st);
    } else if (model == NULL) {
        service_not_found(call, "model", request->model);
    } else {
        service_reply(call, render_series(daemon->core, model, tier, since_ns));
    }
}

static void serve_staleness_watch_summary_work(
    struct daemon *daemon, struct rpc_call *call,
    const Baton__V1__WatchStalenessSummaryRequest *request)
{
    uint64_t interval_ns = SUMMARIES_INTERVAL_MS * BATON_NS_PER_MS;
    struct baton_status st = baton_status_ok();
    if (request->min_interval != NULL) {
        st = baton_wire_duration_ns(request->min_interval, "min_interval", &interval_ns);
    }
    if (baton_ok(&st) && interval_ns < SUMMARIES_INTERVAL_MS_MIN * BATON_NS_PER_MS) {
        st = rpc_status_field("min_interval", "must be at least %d ms", SUMMARIES_INTERVAL_MS_MIN);
    }
    if (!baton_ok(&st)) {
        service_fail(call, st);
    } else if (view_model_find(daemon->core, request->model) == NULL) {
        service_not_found(call, "model", request->model);
    } else {
        summaries_watch(daemon, call, request->model, interval_ns);
    }
}
