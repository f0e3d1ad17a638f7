/* ratio.h -- figures as ratios: ours and an anchor measured in turn, medians, one JSON line.
 *
 * Depends on: the C library.  Threads: one.  Aborts on failure: a bench without its anchor shows
 * nothing. */
#ifndef TESTS_BENCH_RATIO_H
#define TESTS_BENCH_RATIO_H

#include <stdint.h>

enum { RATIO_PAIRS_MAX = 64 };

struct ratio {
    const char *name;
    const char *unit;   /* Of value and anchor_value: more is better. */
    const char *anchor; /* What the anchor is. */
    double target;      /* Of value / anchor_value. */
    double values[RATIO_PAIRS_MAX];
    double anchors[RATIO_PAIRS_MAX];
    unsigned pairs;
};

/* Adds one pair of measurements. */
void ratio_add(struct ratio *ratio, double value, double anchor);
/* Prints {"name", "value", "unit", "anchor", "anchor_value", "ratio", "target", "met"}: medians of
 * the values, and the median of the pairs' ratios.  Returns 0 if the target is met, else 1. */
int ratio_print(const struct ratio *ratio);

double ratio_now_s(void);
/* Runs a command (null-terminated words) with its output thrown away; the seconds it took. */
double ratio_time_command(const char *const *words);

/* A new directory on tmpfs, or on the disk of temporary files; removed by ratio_remove(). */
char *ratio_directory(void);
char *ratio_directory_on_disk(void);
void ratio_remove(char *dir);
/* "<dir>/<name>" on the heap. */
char *ratio_join(const char *dir, const char *name);

#endif /* ratio.h */
