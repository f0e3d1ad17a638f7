/* load_samples.h -- numbers of one kind, and their percentiles.
 *
 * Depends on: the C library.  Threads: one.  Ownership: the caller frees 'values'. */
#ifndef TESTS_BENCH_LOAD_SAMPLES_H
#define TESTS_BENCH_LOAD_SAMPLES_H

#include <stddef.h>

struct samples {
    double *values;
    size_t count;
    size_t capacity;
};

void samples_add(struct samples *samples, double value);
/* 'part' from 0 to 1; sorts the values.  There is at least one. */
double samples_percentile(struct samples *samples, double part);

/* The machine's load average of the last minute; -1: not known. */
double samples_machine_load(void);

#endif /* load_samples.h */
