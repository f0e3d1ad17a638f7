/* load_samples.h -- numbers of one kind, and their percentiles.
 *
 * Depends on: the C library.  Threads: one.  Ownership: the caller frees 'values'. */
#ifndef TESTS_BENCH_LOAD_SAMPLES_H
#define TESTS_BENCH_LOAD_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>

struct samples {
    double *values;
    size_t count;
    size_t capacity;
};

void samples_add(struct samples *samples, double value);
/* 'part' from 0 to 1; sorts the values.  There is at least one. */
double samples_percentile(struct samples *samples, double part);

/* A line of latencies beside those of an anchor. */
struct samples_line {
    const char *name;
    const char *more; /* Further members, each with a comma and a space behind it; or "". */
    struct samples *samples;
    const char *anchor; /* What the anchor is. */
    struct samples *anchors;
    double target_ms; /* Of the 99th percentile; 0: none. */
};

/* Prints the line, from seconds; returns whether the target was met. */
bool samples_print(const struct samples_line *line);

/* The machine's load average of the last minute; -1: not known. */
double samples_machine_load(void);

#endif /* load_samples.h */
