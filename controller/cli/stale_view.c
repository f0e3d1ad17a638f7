/* stale_view.c -- see stale_view.h. */
#include "controller/cli/stale_view.h"

#include <stdio.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/wire/wire.h"

#define CELL(out, ...) ((void)snprintf((out), CLI_CELL_BYTES, __VA_ARGS__))

enum { BAR_WIDTH = 40, SPARKS_MAX = 72 };

typedef const Baton__V1__StalenessSummary *summary_t;

static const struct {
    const char *words[3];
    Baton__V1__LagUnit unit;
} units[] = {
    { { "publishes", "Publishes", "publish" }, BATON__V1__LAG_UNIT__LAG_UNIT_PUBLISHES },
    { { "steps", "OptimizerSteps", "optimizer-steps" },
      BATON__V1__LAG_UNIT__LAG_UNIT_OPTIMIZER_STEPS },
    { { "samples", "Samples", "sample" }, BATON__V1__LAG_UNIT__LAG_UNIT_SAMPLES },
    { { "seconds", "Seconds", "s" }, BATON__V1__LAG_UNIT__LAG_UNIT_SECONDS },
};

bool stale_view_unit(const char *word, Baton__V1__LagUnit *out)
{
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        for (size_t k = 0; k < 3; k++) {
            if (strcmp(units[i].words[k], word) == 0) {
                *out = units[i].unit;
                return true;
            }
        }
    }
    return false;
}

const char *stale_view_unit_word(Baton__V1__LagUnit unit)
{
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (units[i].unit == unit) {
            return units[i].words[0];
        }
    }
    return units[0].words[0];
}

/* --- the table --- */

static const Baton__V1__LagStatistics *lag_in(summary_t summary, Baton__V1__LagUnit unit)
{
    for (size_t i = 0; i < summary->n_lags; i++) {
        if (summary->lags[i]->unit == unit && summary->lags[i]->groups > 0) {
            return summary->lags[i];
        }
    }
    return NULL;
}

static void cell_max(summary_t summary, Baton__V1__LagUnit unit, char *out)
{
    const Baton__V1__LagStatistics *lag = lag_in(summary, unit);
    if (lag != NULL) {
        CELL(out, "%llu", (unsigned long long)lag->max);
    }
}

static void summary_model(const void *item, char *out)
{
    CELL(out, "%s", ((summary_t)item)->model);
}

static void summary_newest(const void *item, char *out)
{
    cli_text_seq(((summary_t)item)->newest_seq, out);
}

static void summary_groups(const void *item, char *out)
{
    CELL(out, "%u", ((summary_t)item)->groups);
}

static void summary_current(const void *item, char *out)
{
    CELL(out, "%u", ((summary_t)item)->groups_current);
}

static void summary_behind(const void *item, char *out)
{
    CELL(out, "%u", ((summary_t)item)->groups_behind);
}

static void summary_unrelated(const void *item, char *out)
{
    CELL(out, "%u", ((summary_t)item)->groups_unrelated);
}

static void summary_unknown(const void *item, char *out)
{
    CELL(out, "%u", ((summary_t)item)->groups_unknown);
}

static void summary_max(const void *item, char *out)
{
    cell_max(item, BATON__V1__LAG_UNIT__LAG_UNIT_PUBLISHES, out);
}

static void summary_mean(const void *item, char *out)
{
    const Baton__V1__LagStatistics *lag = lag_in(item, BATON__V1__LAG_UNIT__LAG_UNIT_PUBLISHES);
    if (lag != NULL) {
        CELL(out, "%.2f", lag->mean);
    }
}

static void summary_percentiles(const void *item, char *out)
{
    const Baton__V1__LagStatistics *lag = lag_in(item, BATON__V1__LAG_UNIT__LAG_UNIT_PUBLISHES);
    if (lag != NULL) {
        CELL(out, "%llu/%llu/%llu", (unsigned long long)lag->p50, (unsigned long long)lag->p90,
             (unsigned long long)lag->p99);
    }
}

static void summary_steps(const void *item, char *out)
{
    cell_max(item, BATON__V1__LAG_UNIT__LAG_UNIT_OPTIMIZER_STEPS, out);
}

static void summary_samples(const void *item, char *out)
{
    cell_max(item, BATON__V1__LAG_UNIT__LAG_UNIT_SAMPLES, out);
}

static void summary_seconds(const void *item, char *out)
{
    cell_max(item, BATON__V1__LAG_UNIT__LAG_UNIT_SECONDS, out);
}

static void summary_age(const void *item, char *out)
{
    summary_t summary = item;
    if (summary->age != NULL && summary->age->groups > 0) {
        cli_text_duration(summary->age->max * BATON_NS_PER_S, out);
    }
}

static void summary_bound(const void *item, char *out)
{
    summary_t summary = item;
    if (summary->_bound_case == BATON__V1__STALENESS_SUMMARY___BOUND_BOUND) {
        CELL(out, "%u > %llu %s", summary->groups_over_bound, (unsigned long long)summary->bound,
             stale_view_unit_word(summary->unit));
    }
}

static void summary_warn(const void *item, char *out)
{
    summary_t summary = item;
    if (summary->_warn_case == BATON__V1__STALENESS_SUMMARY___WARN_WARN) {
        CELL(out, "%u > %llu %s", summary->groups_over_warn, (unsigned long long)summary->warn,
             stale_view_unit_word(summary->unit));
    }
}

static void summary_sync(const void *item, char *out)
{
    summary_t summary = item;
    if (summary->sync_cost != NULL && summary->sync_cost->sync_share > 0) {
        CELL(out, "%.2f%%", 100 * summary->sync_cost->sync_share);
    }
}

static const struct cli_column summary_columns[] = {
    { "MODEL", false, summary_model },
    { "NEWEST", false, summary_newest },
    { "GROUPS", false, summary_groups },
    { "CURRENT", false, summary_current },
    { "BEHIND", false, summary_behind },
    { "UNRELATED", false, summary_unrelated },
    { "MAX-LAG", false, summary_max },
    { "MEAN", false, summary_mean },
    { "P50/P90/P99", false, summary_percentiles },
    { "STEPS", false, summary_steps },
    { "SECONDS", false, summary_seconds },
    { "OLDEST", false, summary_age },
    { "OVER-BOUND", false, summary_bound },
    { "OVER-WARN", true, summary_warn },
    { "SAMPLES", true, summary_samples },
    { "UNKNOWN", true, summary_unknown },
    { "SYNC-SHARE", true, summary_sync },
};

const struct cli_kind stale_view_summaries = {
    .plural = "models",
    .singular = "model",
    .columns = summary_columns,
    .columns_count = sizeof(summary_columns) / sizeof(summary_columns[0]),
};

/* --- bars --- */

static void bar_label(const Baton__V1__LagBucket *bucket, char *out)
{
    if (bucket->below == 0) {
        CELL(out, "%llu or more", (unsigned long long)bucket->from);
    } else if (bucket->below == bucket->from + 1) {
        CELL(out, "%llu", (unsigned long long)bucket->from);
    } else {
        CELL(out, "%llu to %llu", (unsigned long long)bucket->from,
             (unsigned long long)bucket->below - 1);
    }
}

void stale_view_histogram(const Baton__V1__StalenessHistogramResponse *histogram)
{
    uint32_t most = 1;
    for (size_t i = 0; i < histogram->n_buckets; i++) {
        most = histogram->buckets[i]->groups > most ? histogram->buckets[i]->groups : most;
    }
    (void)printf("groups of model %s by lag in %s, revision %llu\n", histogram->model,
                 stale_view_unit_word(histogram->unit), (unsigned long long)histogram->revision);
    for (size_t i = 0; i < histogram->n_buckets; i++) {
        const Baton__V1__LagBucket *bucket = histogram->buckets[i];
        char label[CLI_CELL_BYTES];
        bar_label(bucket, label);
        size_t width = ((size_t)bucket->groups * BAR_WIDTH + most - 1) / most;
        (void)printf("%20s  %6u  ", label, bucket->groups);
        for (size_t k = 0; k < width; k++) {
            (void)fputs("#", stdout);
        }
        (void)fputs("\n", stdout);
    }
    if (histogram->groups_unrelated > 0) {
        (void)printf("%20s  %6u\n", "another branch", histogram->groups_unrelated);
    }
    if (histogram->groups_unmeasured > 0) {
        (void)printf("%20s  %6u\n", "not measured", histogram->groups_unmeasured);
    }
}

static uint64_t point_value(const Baton__V1__StalenessPoint *point, Baton__V1__LagUnit unit)
{
    if (unit == BATON__V1__LAG_UNIT__LAG_UNIT_OPTIMIZER_STEPS) {
        return point->max_optimizer_steps;
    }
    if (unit == BATON__V1__LAG_UNIT__LAG_UNIT_SAMPLES) {
        return point->max_samples;
    }
    bool seconds = unit == BATON__V1__LAG_UNIT__LAG_UNIT_SECONDS;
    return seconds ? point->max_seconds : point->max_publishes;
}

void stale_view_series(const Baton__V1__StalenessSeriesResponse *series, Baton__V1__LagUnit unit)
{
    static const char *const sparks[] = { "\u2581", "\u2582", "\u2583", "\u2584",
                                          "\u2585", "\u2586", "\u2587", "\u2588" };
    char from[BATON_CLOCK_TEXT_BYTES] = "", to[BATON_CLOCK_TEXT_BYTES] = "";
    uint64_t most = 0, ns = 0;
    size_t first = series->n_points > SPARKS_MAX ? series->n_points - SPARKS_MAX : 0;
    if (series->n_points == 0) {
        (void)fprintf(stderr, "no points yet; the first one comes within 10 s\n");
        return;
    }
    for (size_t i = first; i < series->n_points; i++) {
        uint64_t value = point_value(series->points[i], unit);
        most = value > most ? value : most;
    }
    if (baton_wire_timestamp_ns(series->points[first]->at, "at", &ns).code == BATON_OK) {
        baton_clock_format(ns, from);
    }
    if (baton_wire_timestamp_ns(series->points[series->n_points - 1]->at, "at", &ns).code ==
        BATON_OK) {
        baton_clock_format(ns, to);
    }
    (void)printf("largest lag of model %s in %s, %s to %s, most %llu\n", series->model,
                 stale_view_unit_word(unit), from, to, (unsigned long long)most);
    for (size_t i = first; i < series->n_points; i++) {
        uint64_t value = point_value(series->points[i], unit);
        (void)fputs(most == 0 ? sparks[0] : sparks[value * 7 / most], stdout);
    }
    (void)fputs("\n", stdout);
}

/* --- cost --- */

void stale_view_cost(const Baton__V1__StalenessSummary *summary)
{
    const Baton__V1__SyncCost *cost = summary->sync_cost;
    if (cost == NULL) {
        return;
    }
    (void)printf("\ncost of keeping up, over the last %.0f s: %u swaps of %.3f s, %.1f GPU-seconds "
                 "an hour\n",
                 cost->window_seconds, cost->swaps, cost->mean_shut_seconds,
                 cost->gpu_seconds_per_hour);
    for (size_t i = 0; i < cost->n_phases; i++) {
        const Baton__V1__PhaseCost *phase = cost->phases[i];
        (void)printf("  %-11s %9.4f s   %9.2f GPU-s/h", phase->phase, phase->mean_seconds,
                     phase->gpu_seconds_per_hour);
        if (cost->tokens_lost_per_hour > 0) {
            (void)printf("   %12.0f tokens/h", phase->tokens_lost_per_hour);
        }
        (void)fputs("\n", stdout);
    }
    for (size_t i = 0; i < cost->n_forecasts; i++) {
        const Baton__V1__IntervalForecast *forecast = cost->forecasts[i];
        (void)printf("  a publish every %8.1f s: %9.1f GPU-s/h, shut %6.2f %%, mean age %8.1f s, "
                     "mean lag %6.2f publishes\n",
                     forecast->interval_seconds, forecast->gpu_seconds_per_hour,
                     100 * forecast->sync_share, forecast->mean_age_seconds,
                     forecast->mean_lag_publishes);
    }
}
