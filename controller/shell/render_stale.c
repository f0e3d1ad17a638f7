/* render_stale.c -- staleness and endpoints as messages; see render.h. */
#include "controller/shell/render_stale.h"

#include <stdlib.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/wire/wire.h"
#include "controller/core/words.h"
#include "controller/shell/render.h"

/* --- the policy's part --- */

void render_stale_policy(const struct update_policy *policy, Baton__V1__UpdatePolicy *message,
                         void *root)
{
    const struct staleness_policy *limits = &policy->staleness;
    Baton__V1__StalenessPolicy *staleness =
        baton_wire_part(root, &baton__v1__staleness_policy__descriptor);
    Baton__V1__SessionPolicy *sessions =
        baton_wire_part(root, &baton__v1__session_policy__descriptor);
    Baton__V1__SlotPolicy *slots = baton_wire_part(root, &baton__v1__slot_policy__descriptor);
    staleness->unit = baton_wire_text(
        root, words_get(&words_lag_unit, limits->unit != 0 ? limits->unit : LAG_PUBLISHES));
    if (limits->bounded) {
        staleness->_bound_case = BATON__V1__STALENESS_POLICY___BOUND_BOUND;
        staleness->bound = limits->bound;
    }
    if (limits->warned) {
        staleness->_warn_case = BATON__V1__STALENESS_POLICY___WARN_WARN;
        staleness->warn = limits->warn;
    }
    sessions->max_hold = baton_wire_duration(root, policy->sessions.max_hold_ms * BATON_NS_PER_MS);
    sessions->ttl = baton_wire_duration(root, policy->sessions.ttl_ms * BATON_NS_PER_MS);
    slots->samples_per_publish = policy->slots.samples_per_publish;
    slots->max_held = policy->slots.max_held;
    slots->ttl = baton_wire_duration(root, policy->slots.ttl_ms * BATON_NS_PER_MS);
    message->staleness = staleness;
    message->sessions = sessions;
    message->slots = slots;
}

static struct baton_status read_ms(const Google__Protobuf__Duration *duration, const char *field,
                                   int64_t *out_ms)
{
    uint64_t ns = 0;
    struct baton_status st = baton_wire_duration_ns(duration, field, &ns);
    if (baton_ok(&st) && duration != NULL && ns < BATON_NS_PER_MS) {
        st = rpc_status_field(field, "must be at least 1 ms");
    }
    *out_ms = (int64_t)(ns / BATON_NS_PER_MS);
    return st;
}

struct baton_status read_stale_policy(const Baton__V1__UpdatePolicy *from, struct policy_spec *out)
{
    const Baton__V1__StalenessPolicy *staleness = from->staleness;
    struct baton_status st = baton_status_ok();
    if (staleness != NULL) {
        out->staleness_unit = staleness->unit;
        out->staleness_bounded =
            staleness->_bound_case == BATON__V1__STALENESS_POLICY___BOUND_BOUND;
        out->staleness_bound = out->staleness_bounded ? staleness->bound : 0;
        out->staleness_warned = staleness->_warn_case == BATON__V1__STALENESS_POLICY___WARN_WARN;
        out->staleness_warn = out->staleness_warned ? staleness->warn : 0;
    }
    if (from->sessions != NULL) {
        st = read_ms(from->sessions->max_hold, "spec.update.sessions.max_hold",
                     &out->sessions_max_hold_ms);
    }
    if (baton_ok(&st) && from->sessions != NULL) {
        st = read_ms(from->sessions->ttl, "spec.update.sessions.ttl", &out->sessions_ttl_ms);
    }
    if (baton_ok(&st) && from->slots != NULL) {
        out->slots_samples_per_publish = from->slots->samples_per_publish;
        out->slots_max_held = from->slots->max_held;
        st = read_ms(from->slots->ttl, "spec.update.slots.ttl", &out->slots_ttl_ms);
    }
    return st;
}

/* --- staleness --- */

static Baton__V1__LagStatistics *render_statistics(const struct lag_statistics *from,
                                                   Baton__V1__LagUnit unit, void *root)
{
    Baton__V1__LagStatistics *message =
        baton_wire_part(root, &baton__v1__lag_statistics__descriptor);
    message->unit = unit;
    message->groups = from->groups;
    message->mean = from->mean;
    message->max = from->max;
    message->p50 = from->p50;
    message->p90 = from->p90;
    message->p99 = from->p99;
    return message;
}

static void render_limits(const struct staleness_summary *from,
                          Baton__V1__StalenessSummary *message)
{
    message->unit = (Baton__V1__LagUnit)from->policy.unit;
    if (from->policy.warned) {
        message->_warn_case = BATON__V1__STALENESS_SUMMARY___WARN_WARN;
        message->warn = from->policy.warn;
    }
    if (from->policy.bounded) {
        message->_bound_case = BATON__V1__STALENESS_SUMMARY___BOUND_BOUND;
        message->bound = from->policy.bound;
    }
    message->groups_over_warn = from->groups_over_warn;
    message->groups_over_bound = from->groups_over_bound;
}

static Baton__V1__IntervalForecast *render_forecast(const struct sync_cost *cost, double factor,
                                                    void *root)
{
    struct cost_forecast forecast = cost_forecast_of(cost, factor);
    Baton__V1__IntervalForecast *message =
        baton_wire_part(root, &baton__v1__interval_forecast__descriptor);
    message->interval_seconds = forecast.interval_s;
    message->gpu_seconds_per_hour = forecast.gpu_s_per_hour;
    message->sync_share = forecast.sync_share;
    message->mean_age_seconds = forecast.mean_age_s;
    message->mean_lag_publishes = forecast.mean_lag_publishes;
    return message;
}

static Baton__V1__SyncCost *render_cost(const struct sync_cost *cost, void *root)
{
    static const double factors[] = { 0.5, 1, 2 };
    Baton__V1__SyncCost *message = baton_wire_part(root, &baton__v1__sync_cost__descriptor);
    message->window_seconds = cost->window_s;
    message->swaps = cost->swaps;
    message->publishes = cost->publishes;
    message->mean_shut_seconds = cost->mean_shut_s;
    message->gpu_seconds_per_hour = cost->gpu_s_per_hour;
    message->tokens_lost_per_hour = cost->tokens_lost_per_hour;
    message->publish_interval_seconds = cost->publish_interval_s;
    message->sync_share = cost->sync_share;
    message->mean_delay_seconds = cost->mean_delay_s;
    message->phases = baton_wire_take(root, COST_PHASES, sizeof(*message->phases));
    for (uint32_t i = 0; i < COST_PHASES; i++) {
        Baton__V1__PhaseCost *phase = baton_wire_part(root, &baton__v1__phase_cost__descriptor);
        phase->phase = baton_wire_text(root, cost_phase_word(i));
        phase->mean_seconds = cost->phases[i].mean_s;
        phase->gpu_seconds_per_hour = cost->phases[i].gpu_s_per_hour;
        phase->tokens_lost_per_hour = cost->phases[i].tokens_lost_per_hour;
        message->phases[message->n_phases++] = phase;
    }
    message->forecasts = baton_wire_take(root, 3, sizeof(*message->forecasts));
    for (size_t i = 0; i < 3 && cost->publish_interval_s > 0; i++) {
        message->forecasts[message->n_forecasts++] = render_forecast(cost, factors[i], root);
    }
    return message;
}

static Baton__V1__SampleLag *render_samples(const struct sample_counter *counter,
                                            enum sample_stage stage, void *root)
{
    Baton__V1__SampleLag *message = baton_wire_part(root, &baton__v1__sample_lag__descriptor);
    message->stage = (Baton__V1__SampleStage)stage;
    message->samples = counter->samples;
    message->tokens = counter->tokens;
    message->max_lag_publishes = counter->max_lag;
    message->unrelated = counter->unrelated;
    message->n_buckets = SAMPLE_BUCKETS;
    message->buckets = baton_wire_take(root, SAMPLE_BUCKETS, sizeof(*message->buckets));
    memcpy(message->buckets, counter->buckets, sizeof(counter->buckets));
    return message;
}

static void render_costs(const struct controller *core, const struct model_record *model,
                         Baton__V1__StalenessSummary *message, void *root)
{
    struct sync_cost cost;
    if (view_sync_cost(core, model, baton_clock_wall_ns(), &cost)) {
        message->sync_cost = render_cost(&cost, root);
    }
    message->samples = baton_wire_take(root, SAMPLE_STAGES_END, sizeof(*message->samples));
    for (uint32_t i = SAMPLE_STAGE_DISPATCH; i < SAMPLE_STAGES_END; i++) {
        struct sample_counter counter = view_sample_counter(core, model, (enum sample_stage)i);
        if (counter.samples > 0) {
            message->samples[message->n_samples++] =
                render_samples(&counter, (enum sample_stage)i, root);
        }
    }
}

Baton__V1__StalenessSummary *render_staleness(const struct controller *core,
                                              const struct model_record *model, void *root)
{
    struct staleness_summary summary;
    Baton__V1__StalenessSummary *message =
        render_new(root, &baton__v1__staleness_summary__descriptor);
    root = root != NULL ? root : message;
    view_staleness_summary(core, model, baton_clock_wall_ns(), &summary);
    message->model = baton_wire_text(root, model->name);
    message->revision = view_revision(core);
    message->newest_seq = summary.newest_seq;
    message->newest_published_at = baton_wire_timestamp(root, summary.newest_published_wall_ns);
    message->groups = summary.groups;
    message->groups_current = summary.groups_current;
    message->groups_behind = summary.groups_behind;
    message->groups_unrelated = summary.groups_unrelated;
    message->groups_without_version = summary.groups_without_version;
    message->groups_unknown = summary.groups_unknown;
    message->lags = baton_wire_take(root, LAG_UNITS_END, sizeof(*message->lags));
    for (uint32_t unit = LAG_PUBLISHES; unit < LAG_UNITS_END; unit++) {
        message->lags[message->n_lags++] =
            render_statistics(&summary.lags[unit], (Baton__V1__LagUnit)unit, root);
    }
    message->age = render_statistics(&summary.age, BATON__V1__LAG_UNIT__LAG_UNIT_SECONDS, root);
    render_limits(&summary, message);
    render_costs(core, model, message, root);
    return message;
}

static Baton__V1__StalenessPoint *render_point(const struct series_point *from, uint64_t period_ns,
                                               void *root)
{
    Baton__V1__StalenessPoint *message =
        baton_wire_part(root, &baton__v1__staleness_point__descriptor);
    message->at = baton_wire_timestamp(root, from->slot * period_ns);
    message->groups = from->groups;
    message->newest_seq = from->newest_seq;
    message->max_publishes = from->max_publishes;
    message->mean_publishes = from->mean_publishes;
    message->max_optimizer_steps = from->max_optimizer_steps;
    message->max_samples = from->max_samples;
    message->max_seconds = from->max_seconds;
    message->max_age_seconds = from->max_age_seconds;
    message->groups_over_bound = from->groups_over_bound;
    return message;
}

Baton__V1__StalenessSeriesResponse *render_series(const struct controller *core,
                                                  const struct model_record *model, uint32_t tier,
                                                  uint64_t since_wall_ns)
{
    uint64_t period_ns = series_period_s(tier) * BATON_NS_PER_S;
    Baton__V1__StalenessSeriesResponse *message =
        baton_wire_new(&baton__v1__staleness_series_response__descriptor);
    struct series_point *points = malloc(series_points_max(tier) * sizeof(*points));
    baton_assert(points != NULL);
    uint32_t count = view_series(core, model, tier, since_wall_ns, points);
    message->model = baton_wire_text(message, model->name);
    message->revision = view_revision(core);
    message->period = baton_wire_duration(message, period_ns);
    message->points = baton_wire_take(message, count, sizeof(*message->points));
    for (; message->n_points < count; message->n_points++) {
        message->points[message->n_points] =
            render_point(&points[message->n_points], period_ns, message);
    }
    free(points);
    return message;
}

Baton__V1__StalenessHistogramResponse *render_histogram(const struct controller *core,
                                                        const struct model_record *model,
                                                        enum lag_unit unit)
{
    struct lag_histogram histogram;
    Baton__V1__StalenessHistogramResponse *message =
        baton_wire_new(&baton__v1__staleness_histogram_response__descriptor);
    view_staleness_histogram(core, model, unit, &histogram);
    message->model = baton_wire_text(message, model->name);
    message->unit = (Baton__V1__LagUnit)unit;
    message->revision = view_revision(core);
    message->groups_unrelated = histogram.groups_unrelated;
    message->groups_unmeasured = histogram.groups_unmeasured;
    message->n_buckets = LAG_BUCKETS;
    message->buckets = baton_wire_take(message, LAG_BUCKETS, sizeof(*message->buckets));
    for (uint32_t i = 0; i < LAG_BUCKETS; i++) {
        message->buckets[i] = baton_wire_part(message, &baton__v1__lag_bucket__descriptor);
        message->buckets[i]->from = histogram.edges[i];
        message->buckets[i]->below = i + 1 < LAG_BUCKETS ? histogram.edges[i + 1] : 0;
        message->buckets[i]->groups = histogram.groups[i];
    }
    return message;
}

/* --- endpoints --- */

static void render_addresses(const struct group_report *report, Baton__V1__Endpoint *message,
                             void *root)
{
    message->engines = baton_wire_take(root, report->engines_count, sizeof(*message->engines));
    for (uint32_t i = 0; i < report->engines_count; i++) {
        const struct engine_info *engine = &report->engines[i];
        Baton__V1__EngineAddress *address =
            baton_wire_part(root, &baton__v1__engine_address__descriptor);
        address->name = baton_wire_text(root, engine->name);
        address->endpoint = baton_wire_text(root, engine->endpoint);
        address->incarnation = baton_wire_text(root, engine->incarnation);
        message->engines[message->n_engines++] = address;
    }
}

Baton__V1__Endpoint *render_endpoint(const struct controller *core,
                                     const struct group_record *group,
                                     const struct version_record *version, void *root)
{
    const struct group_report *report = view_group_report(core, group);
    struct lag lag = view_version_lag(core, version);
    Baton__V1__Endpoint *message = baton_wire_part(root, &baton__v1__endpoint__descriptor);
    message->group = baton_wire_text(root, group->name);
    message->seq = version->seq;
    message->digest = baton_wire_text(root, version->digest);
    message->verify_level = (Baton__V1__VerifyLevel)report->verify_level;
    message->lag_publishes = lag.units[LAG_PUBLISHES];
    message->relation = (Baton__V1__LineageRelation)lag.relation;
    render_addresses(report, message, root);
    return message;
}
