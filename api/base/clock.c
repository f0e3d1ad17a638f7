/* clock.c -- clock_gettime behind names with units. */
#include "api/base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static uint64_t read_clock(clockid_t id)
{
    struct timespec ts;
    (void)clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * BATON_NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t baton_clock_monotonic_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t baton_clock_wall_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

void baton_clock_sleep_ns(uint64_t duration_ns)
{
    struct timespec ts = { .tv_sec = (time_t)(duration_ns / BATON_NS_PER_S),
                           .tv_nsec = (long)(duration_ns % BATON_NS_PER_S) };
    (void)nanosleep(&ts, NULL);
}

void baton_clock_format(uint64_t wall_ns, char out[BATON_CLOCK_TEXT_BYTES])
{
    time_t seconds = (time_t)(wall_ns / BATON_NS_PER_S);
    unsigned ms = (unsigned)(wall_ns % BATON_NS_PER_S / BATON_NS_PER_MS);
    struct tm tm;
    char date[20];
    if (gmtime_r(&seconds, &tm) == NULL || strftime(date, sizeof(date), "%FT%T", &tm) != 19) {
        memcpy(date, "0000-00-00T00:00:00", sizeof(date));
    }
    (void)snprintf(out, BATON_CLOCK_TEXT_BYTES, "%s.%03uZ", date, ms % 1000U);
}
