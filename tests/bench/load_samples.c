/* load_samples.c -- see load_samples.h. */
#include "tests/bench/load_samples.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/load_must.h"

void samples_add(struct samples *samples, double value)
{
    if (samples->count == samples->capacity) {
        samples->capacity = samples->capacity * 2 + 64;
        samples->values = realloc(samples->values, samples->capacity * sizeof(double));
        load_must(samples->values != NULL, "no memory");
    }
    samples->values[samples->count++] = value;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double samples_percentile(struct samples *samples, double part)
{
    load_must(samples->count > 0, "nothing was measured");
    qsort(samples->values, samples->count, sizeof(*samples->values), compare);
    size_t at = (size_t)(part * (double)samples->count);
    return samples->values[at < samples->count ? at : samples->count - 1];
}

double samples_machine_load(void)
{
    double load[1] = { 0 };
    return getloadavg(load, 1) == 1 ? load[0] : -1;
}

bool samples_print(const struct samples_line *line)
{
    double p50 = samples_percentile(line->samples, 0.5) * 1e3;
    double p99 = samples_percentile(line->samples, 0.99) * 1e3;
    double anchor_p50 = samples_percentile(line->anchors, 0.5) * 1e3;
    double anchor_p99 = samples_percentile(line->anchors, 0.99) * 1e3;
    bool met = line->target_ms == 0 || p99 <= line->target_ms;
    (void)printf(
        "{\"name\": \"%s\", %s\"value\": %.3f, \"p50\": %.3f, \"unit\": \"ms\", "
        "\"anchor\": \"%s\", \"anchor_value\": %.3f, \"anchor_p50\": %.3f, "
        "\"ratio\": %.2f, \"samples\": %zu, \"target\": %.0f, \"met\": %s, \"load\": %.2f}\n",
        line->name, line->more, p99, p50, line->anchor, anchor_p99, anchor_p50, p50 / anchor_p50,
        line->samples->count, line->target_ms, met ? "true" : "false", samples_machine_load());
    (void)fflush(stdout);
    return met;
}
