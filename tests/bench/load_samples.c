/* load_samples.c -- see load_samples.h. */
#include "tests/bench/load_samples.h"

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
