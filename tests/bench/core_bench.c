/* core_bench.c -- how many events a second the controller's core takes on one core, and whether the cost of a group's part in a roll
 * stays the same from 100 to 10,000 groups.
 *
 * usage: core_bench [groups...]   default: 100 1000 10000
 *
 * Figures (one JSON object a line):
 *   core_heartbeat    lease renewals a second at the largest size; target 500,000
 *   core_report       reports of groups a second, half of them changed something; target 500,000
 *   core_roll_group   microseconds of a group's part in a roll (land, ticket, outcome) at the largest size; anchor: at the
 *                     smallest one; target: at most 1.3 times it
 *   core_roll_barrier, _soak, _sessions, _order, _canary   the same of rolls of other kinds */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/bench/core_fleet.h"

enum { GROUPS_PER_AGENT = 10, ROUNDS = 3, SIZES_MAX = 8, WORK_MIN = 100000 };

#define EVENTS_TARGET 500000.0
#define FLAT_TARGET   1.3

/* Rolls that make groups wait for each other, or for time. */
static const struct canary_spec canary[] = { { .groups = "10%", .soak_ms = 2 },
                                             { .groups = "50%", .soak_ms = 2 } };
static const struct kind {
    const char *name;
    struct policy_spec policy;
    uint32_t sessions;
} kinds[] = {
    { "barrier",
      { .strategy = "Barrier", .barrier_deadline_ms = 60000, .swap_deadline_ms = 60000 },
      0 },
    { "soak", { .max_unavailable = "25%", .roll = { .soak_ms = 2 } }, 0 },
    { "sessions", { .max_unavailable = "25%", .sessions_max_hold_ms = 100 }, 50 },
    { "order", { .max_unavailable = "25%", .roll = { .order = "g000007,g000003,g000005" } }, 0 },
    { "canary", { .max_unavailable = "25%", .roll = { .canary = canary, .canary_count = 2 } }, 0 },
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

struct measured {
    double heartbeat_s; /* Of one event, medians. */
    double report_s;
    double roll_group_s;
    double kind_s[KINDS];
};

typedef void part_fn(struct core_fleet *fleet);

/* Of this process: others on the machine do not count. */
static double processor_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median of the seconds that one unit takes; a unit is a step, or 'units' a call if that is not 0. */
static double time_part(struct core_fleet *fleet, part_fn *part, unsigned units)
{
    double seconds[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t done = 0;
        double began = processor_s();
        do {
            uint64_t before = core_fleet_steps(fleet);
            part(fleet);
            done += units != 0 ? units : core_fleet_steps(fleet) - before;
        } while (done < WORK_MIN / (units != 0 ? 10 : 1));
        seconds[round] = (processor_s() - began) / (double)done;
    }
    qsort(seconds, ROUNDS, sizeof(seconds[0]), compare);
    return seconds[ROUNDS / 2];
}

static struct measured measure(unsigned groups)
{
    struct core_fleet_options options = { .agents = groups / GROUPS_PER_AGENT,
                                          .groups_per_agent = GROUPS_PER_AGENT,
                                          .policy = { .max_unavailable = "25%" } };
    struct core_fleet *fleet = core_fleet_make(&options);
    struct measured found;
    found.heartbeat_s = time_part(fleet, core_fleet_heartbeat, 0);
    found.report_s = time_part(fleet, core_fleet_progress, 0);
    found.roll_group_s = time_part(fleet, core_fleet_roll, groups);
    core_fleet_free(fleet);
    (void)fprintf(stderr,
                  "%6u groups: heartbeat %.3f us, report %.3f us, group's part in a roll %.3f us\n",
                  groups, found.heartbeat_s * 1e6, found.report_s * 1e6, found.roll_group_s * 1e6);
    for (int i = 0; i < KINDS; i++) {
        options.policy = kinds[i].policy;
        options.sessions = kinds[i].sessions;
        fleet = core_fleet_make(&options);
        found.kind_s[i] = time_part(fleet, core_fleet_roll, groups);
        core_fleet_free(fleet);
        (void)fprintf(stderr, "%6u groups: %s %.3f us\n", groups, kinds[i].name,
                      found.kind_s[i] * 1e6);
    }
    return found;
}

static int print_rate(const char *name, double seconds)
{
    double rate = 1 / seconds;
    bool met = rate >= EVENTS_TARGET;
    (void)printf("{\"name\": \"%s\", \"value\": %.0f, \"unit\": \"events/s\", \"anchor\": \"aim\", "
                 "\"anchor_value\": %.0f, "
                 "\"ratio\": %.2f, \"target\": 1, \"met\": %s}\n",
                 name, rate, EVENTS_TARGET, rate / EVENTS_TARGET, met ? "true" : "false");
    return met ? 0 : 1;
}

static int print_flat(const char *name, double largest, double smallest)
{
    double ratio = largest / smallest;
    bool met = ratio <= FLAT_TARGET;
    (void)printf("{\"name\": \"core_roll_%s\", \"value\": %.3f, \"unit\": \"us\", \"anchor\": "
                 "\"the smallest fleet\", "
                 "\"anchor_value\": %.3f, \"ratio\": %.2f, \"target\": %.1f, \"met\": %s}\n",
                 name, largest * 1e6, smallest * 1e6, ratio, FLAT_TARGET, met ? "true" : "false");
    return met ? 0 : 1;
}

int main(int argc, char **argv)
{
    unsigned sizes[SIZES_MAX] = { 100, 1000, 10000 };
    int count = argc > 1 ? 0 : 3;
    struct measured found[SIZES_MAX];
    for (int i = 1; i < argc && count < SIZES_MAX; i++) {
        sizes[count] = (unsigned)strtoul(argv[i], NULL, 10);
        if (sizes[count] < GROUPS_PER_AGENT) {
            (void)fprintf(stderr, "core_bench: %s: give numbers of groups from %d on\n", argv[i],
                          GROUPS_PER_AGENT);
            return 2;
        }
        count++;
    }
    for (int i = 0; i < count; i++) {
        found[i] = measure(sizes[i]);
    }
    int missed = print_rate("core_heartbeat", found[count - 1].heartbeat_s);
    missed += print_rate("core_report", found[count - 1].report_s);
    missed += print_flat("group", found[count - 1].roll_group_s, found[0].roll_group_s);
    for (int i = 0; i < KINDS; i++) {
        missed += print_flat(kinds[i].name, found[count - 1].kind_s[i], found[0].kind_s[i]);
    }
    return missed == 0 ? 0 : 1;
}
