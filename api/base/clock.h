/* clock.h -- monotonic and wall time; the only place that reads a clock.
 *
 * Cores never include this header: time reaches them inside events (lint).
 *
 * Depends on: nothing.  Threads: any.  Ownership: none. */
#ifndef BATON_BASE_CLOCK_H
#define BATON_BASE_CLOCK_H

#include <stdint.h>

#define BATON_NS_PER_US UINT64_C(1000)
#define BATON_NS_PER_MS UINT64_C(1000000)
#define BATON_NS_PER_S  UINT64_C(1000000000)

/* Nanoseconds of CLOCK_MONOTONIC.  For deadlines and durations. */
uint64_t baton_clock_monotonic_ns(void);

/* Nanoseconds since 1970-01-01 UTC.  For records that people read; never compared for order. */
uint64_t baton_clock_wall_ns(void);

/* Sleeps for at most 'duration_ns'; returns early on a signal.  Not for synchronisation. */
void baton_clock_sleep_ns(uint64_t duration_ns);

/* Bytes of "2026-11-29T22:41:07.123Z" with its end. */
enum { BATON_CLOCK_TEXT_BYTES = 25 };

/* Writes wall time as RFC 3339 UTC with milliseconds. */
void baton_clock_format(uint64_t wall_ns, char out[BATON_CLOCK_TEXT_BYTES]);

#endif /* clock.h */
