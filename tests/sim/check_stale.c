/* check_stale.c -- the truth about how stale a model's groups are together: each number of the summary
 * and of the histograms once more, from the groups one by one, whose own lags check_shown.c counts from what
 * was published; see check.h. */
#include <string.h>

#include "tests/sim/check.h"

/* One number of all groups for which it is known, least first. */
struct tally {
    uint64_t values[SIM_AGENTS * SIM_GROUPS];
    uint32_t count;
};

/* All of a model's groups. */
struct census {
    uint32_t groups;
    uint32_t unknown;
    uint32_t relations[LAG_RELATION_UNRELATED + 1];
    struct tally lags[LAG_UNITS_END];
    struct tally ages;
};

static void put(struct tally *tally, uint64_t value)
{
    uint32_t at = tally->count++;
    while (at > 0 && tally->values[at - 1] > value) {
        tally->values[at] = tally->values[at - 1];
        at--;
    }
    tally->values[at] = value;
}

static uint64_t at_percent(const struct tally *tally, uint32_t percent)
{
    return tally->count == 0 ? 0 : tally->values[(tally->count * percent + 99) / 100 - 1];
}

static double mean_of(const struct tally *tally)
{
    double sum = 0;
    for (uint32_t i = 0; i < tally->count; i++) {
        sum += (double)tally->values[i];
    }
    return tally->count == 0 ? 0 : sum / tally->count;
}

/* Whether both versions tell the unit, and in this order. */
static bool is_told(enum lag_unit unit, const struct version_model *served,
                    const struct version_model *newest)
{
    switch (unit) {
    case LAG_OPTIMIZER_STEPS: return served->step != 0 && newest->step >= served->step;
    case LAG_SAMPLES: return served->samples != 0 && newest->samples >= served->samples;
    case LAG_SECONDS:
        return served->published_ns != 0 && newest->published_ns >= served->published_ns;
    case LAG_PUBLISHES:
    case LAG_UNITS_END: break;
    }
    return true;
}

static void count_group(const struct world *world, uint32_t of, uint64_t newest_seq,
                        const struct group_status *status, struct census *census)
{
    const uint64_t told[LAG_UNITS_END] = { [LAG_PUBLISHES] = status->lag_publishes,
                                           [LAG_OPTIMIZER_STEPS] = status->lag_optimizer_steps,
                                           [LAG_SAMPLES] = status->lag_samples,
                                           [LAG_SECONDS] = status->lag_seconds };
    const struct version_model *served =
        &world->versions[content_of_seq(world, of, status->committed_seq)];
    const struct version_model *newest = &world->versions[content_of_seq(world, of, newest_seq)];
    bool behind =
        status->relation == LAG_RELATION_CURRENT || status->relation == LAG_RELATION_BEHIND;
    census->groups++;
    census->unknown += status->report == NULL;
    census->relations[status->relation]++;
    for (enum lag_unit unit = LAG_PUBLISHES; behind && unit < LAG_UNITS_END; unit++) {
        if (is_told(unit, served, newest)) {
            put(&census->lags[unit], told[unit]);
        }
    }
    if (behind) {
        put(&census->ages, status->age_seconds);
    }
}

static void take_census(const struct world *world, const struct head *head, uint32_t of,
                        const struct model_record *model, struct census *census)
{
    memset(census, 0, sizeof(*census));
    for (uint32_t i = 0; i < view_groups_count(head->core); i++) {
        const struct group_record *group = view_group_at(head->core, i);
        struct group_status status;
        bool other = model_of_name(group->model) != of;
        if (other || group->retired || check_sleeps(world, head, group)) {
            continue;
        }
        view_group_status(head->core, group, world_wall_ns(world, head->skew_ns), &status);
        count_group(world, of, model->newest_seq, &status, census);
    }
}

static void check_relations(struct world *world, const struct staleness_summary *told,
                            const struct census *census)
{
    const uint32_t *relations = census->relations;
    if (told->groups != census->groups || told->groups_current != relations[LAG_RELATION_CURRENT] ||
        told->groups_behind != relations[LAG_RELATION_BEHIND] ||
        told->groups_unrelated != relations[LAG_RELATION_UNRELATED] ||
        told->groups_without_version != relations[LAG_RELATION_NONE] ||
        told->groups_unknown != census->unknown) {
        world_break(
            world, CHECK_STALENESS,
            "the summary says %u groups, %u current, %u behind, %u unrelated, %u without, %u "
            "unknown; there are %u, %u, %u, %u, %u, %u",
            told->groups, told->groups_current, told->groups_behind, told->groups_unrelated,
            told->groups_without_version, told->groups_unknown, census->groups,
            relations[LAG_RELATION_CURRENT], relations[LAG_RELATION_BEHIND],
            relations[LAG_RELATION_UNRELATED], relations[LAG_RELATION_NONE], census->unknown);
    }
}

static void check_statistics(struct world *world, const char *what,
                             const struct lag_statistics *told, const struct tally *tally)
{
    double mean = mean_of(tally);
    double off = told->mean > mean ? told->mean - mean : mean - told->mean;
    if (told->groups != tally->count || told->max != at_percent(tally, 100) ||
        told->p50 != at_percent(tally, 50) || told->p90 != at_percent(tally, 90) ||
        told->p99 != at_percent(tally, 99) || off > 1e-6 * (mean + 1)) {
        world_break(world, CHECK_STALENESS,
                    "%s of %u groups: the summary says mean %.3f, p50 %llu, p90 %llu, p99 %llu, at "
                    "most %llu; it is %.3f, %llu, %llu, %llu, %llu of %u",
                    what, told->groups, told->mean, (unsigned long long)told->p50,
                    (unsigned long long)told->p90, (unsigned long long)told->p99,
                    (unsigned long long)told->max, mean, (unsigned long long)at_percent(tally, 50),
                    (unsigned long long)at_percent(tally, 90),
                    (unsigned long long)at_percent(tally, 99),
                    (unsigned long long)at_percent(tally, 100), tally->count);
    }
}

static void check_histogram(struct world *world, const struct lag_histogram *told,
                            const struct census *census, const struct tally *tally)
{
    uint32_t unrelated = census->relations[LAG_RELATION_UNRELATED];
    for (uint32_t bucket = 0; bucket < LAG_BUCKETS; bucket++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < tally->count; i++) {
            bool below = bucket + 1 < LAG_BUCKETS && tally->values[i] >= told->edges[bucket + 1];
            count += tally->values[i] >= told->edges[bucket] && !below;
        }
        if (count != told->groups[bucket]) {
            world_break(world, CHECK_STALENESS,
                        "the histogram has %u groups from a lag of %llu on; there are %u",
                        told->groups[bucket], (unsigned long long)told->edges[bucket], count);
        }
    }
    if (told->groups_unrelated != unrelated ||
        told->groups_unmeasured != census->groups - unrelated - tally->count) {
        world_break(world, CHECK_STALENESS,
                    "the histogram has %u groups unrelated and %u unmeasured; there are %u, %u",
                    told->groups_unrelated, told->groups_unmeasured, unrelated,
                    census->groups - unrelated - tally->count);
    }
}

void check_summary(struct world *world, const struct head *head, uint32_t of)
{
    static const char *const units[LAG_UNITS_END] = { "", "lag in publishes",
                                                      "lag in optimizer steps", "lag in samples",
                                                      "lag in seconds" };
    const struct model_record *model = view_model_find(head->core, model_name(of));
    struct staleness_summary told;
    struct lag_histogram histogram;
    struct census census;
    if (model == NULL || model->newest_seq == 0) {
        return;
    }
    take_census(world, head, of, model, &census);
    view_staleness_summary(head->core, model, world_wall_ns(world, head->skew_ns), &told);
    check_relations(world, &told, &census);
    if (world->went_back) {
        return; /* What versions said of themselves may be lost, and our books are of before. */
    }
    for (enum lag_unit unit = LAG_PUBLISHES; unit < LAG_UNITS_END; unit++) {
        check_statistics(world, units[unit], &told.lags[unit], &census.lags[unit]);
        view_staleness_histogram(head->core, model, unit, &histogram);
        check_histogram(world, &histogram, &census, &census.lags[unit]);
    }
    if (census.relations[LAG_RELATION_UNRELATED] == 0) { /* Of those some have no version's age. */
        check_statistics(world, "age", &told.age, &census.ages);
    }
}
