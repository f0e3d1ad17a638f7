/* staleness.h -- how stale a model's groups are: numbers for answers and dashboards.
 *
 * The groups are never looked at one by one: each version record counts the groups that committed
 * it, kept up to date as groups change, and all numbers come from those counts.  So a publish,
 * which changes the lag of every group, costs nothing, and a summary costs O(versions that are
 * kept * branches), whatever the number of groups.
 *
 * Percentiles are by nearest rank: the smallest value that at least p % of the groups do not
 * exceed.  A group counts by what its leader's journal committed, as reported, else (agent silent)
 * as stored.  A group whose version is on another branch, or is not one of ours, is in no
 * statistic: it is counted as unrelated, and as over every limit.
 *
 * Depends on: view.h, lag.h.  Threads: that of controller_step().  Ownership: the caller's structs. */
#ifndef CONTROLLER_CORE_STALENESS_H
#define CONTROLLER_CORE_STALENESS_H

#include "controller/core/lag.h"
#include "controller/core/view.h"

/* One unit over all groups in which it is known. */
struct lag_statistics {
    uint32_t groups;
    double mean;
    uint64_t max;
    uint64_t p50;
    uint64_t p90;
    uint64_t p99;
};

struct staleness_summary {
    uint64_t newest_seq; /* 0: nothing was published, and what follows is of no use. */
    uint64_t newest_published_wall_ns;
    uint32_t groups;
    uint32_t groups_current;
    uint32_t groups_behind;
    uint32_t groups_unrelated;
    uint32_t groups_without_version; /* Never committed any. */
    uint32_t groups_unknown;         /* Of all of them: not restated in this epoch. */
    struct lag_statistics lags[LAG_UNITS_END];
    struct lag_statistics age; /* Seconds since the served version was published; UNRELATED, too. */
    struct staleness_policy policy; /* Its unit is never 0. */
    uint32_t groups_over_warn;
    uint32_t groups_over_bound;
};

void view_staleness_summary(const struct controller *core, const struct model_record *model,
                            uint64_t wall_ns, struct staleness_summary *out);

enum { LAG_BUCKETS = 10 };

/* Groups by lag: bucket i holds lags from edges[i] up to, not including, edges[i + 1]; the last one
 * is open. */
struct lag_histogram {
    uint64_t edges[LAG_BUCKETS];
    uint32_t groups[LAG_BUCKETS];
    uint32_t groups_unrelated;
    uint32_t groups_unmeasured; /* No version, or a version that does not tell this unit. */
};

void view_staleness_histogram(const struct controller *core, const struct model_record *model,
                              enum lag_unit unit, struct lag_histogram *out);

/* The bucket of a lag; its edges are the histogram's. */
uint32_t lag_bucket(enum lag_unit unit, uint64_t lag);
uint64_t lag_bucket_edge(enum lag_unit unit, uint32_t bucket);

/* One group.  '*age_s': seconds since its version was published; 0: not known. */
struct lag view_group_lag(const struct controller *core, const struct group_record *group,
                          uint64_t wall_ns, uint64_t *age_s);

/* Lag of a version, by its record; null gives NONE. */
struct lag view_version_lag(const struct controller *core, const struct version_record *version);

/* Samples as they were reported. */
struct sample_counter view_sample_counter(const struct controller *core,
                                          const struct model_record *model,
                                          enum sample_stage stage);

/* What keeping up costs, over a window of at most an hour; cost.c. */
struct sync_cost {
    double window_s;
    uint32_t swaps; /* Committed swaps of rolls. */
    uint32_t publishes;
    double mean_shut_s;
    double gpu_s_per_hour;       /* Ranks times shut time; 0: no group tells its ranks. */
    double tokens_lost_per_hour; /* 0: no tokens were reported (stage COMPLETION). */
    double publish_interval_s;   /* 0: fewer than two publishes. */
    double sync_share;           /* mean_shut_s / publish_interval_s */
    double mean_delay_s;         /* From publish to commit. */
    struct {
        double mean_s;
        double gpu_s_per_hour;
        double tokens_lost_per_hour;
    } phases[COST_PHASES];
};

/* What another publish interval would give: see deploy/docs/staleness.md. */
struct cost_forecast {
    double interval_s;
    double gpu_s_per_hour;
    double sync_share;
    double mean_age_s;
    double mean_lag_publishes;
};

/* False: no swap was measured. */
bool view_sync_cost(const struct controller *core, const struct model_record *model,
                    uint64_t wall_ns, struct sync_cost *out);
/* With 'factor' times the present interval, which must be known.  Pure. */
struct cost_forecast cost_forecast_of(const struct sync_cost *cost, double factor);
const char *cost_phase_word(uint32_t phase);

/* What is stored of it; for tests and diagnosis. */
const struct staleness_record *view_staleness_record(const struct controller *core,
                                                     const struct model_record *model);

#endif /* staleness.h */
