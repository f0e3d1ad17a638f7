/* lag_test.c -- lineages: distances by table, and against a walk through every parent. */
#include <criterion/criterion.h>
#include <string.h>

#include "api/base/random.h"
#include "controller/core/lag.h"

struct distance_case {
    uint64_t ancestor, descendant;
    bool known;
    uint64_t distance;
};

static void expect_distances(const struct lineage *lineage, const struct distance_case *cases,
                             size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t distance = UINT64_MAX;
        bool known = lineage_distance(lineage, cases[i].ancestor, cases[i].descendant, &distance);
        cr_assert_eq(known, cases[i].known, "case %zu", i);
        if (known) {
            cr_assert_eq(distance, cases[i].distance, "case %zu: %llu", i,
                         (unsigned long long)distance);
        }
    }
}

/* 1 2 3 4 5 in a row; 6 7 on top of 5 were undone; 8 branches off 5; the store was lost, so 12 follows 8. */
static struct lineage branched(void)
{
    struct lineage lineage = { 0 };
    static const uint64_t versions[][2] = { { 1, 0 }, { 2, 1 }, { 3, 2 }, { 4, 3 },  { 5, 4 },
                                            { 6, 5 }, { 7, 6 }, { 8, 5 }, { 12, 8 }, { 13, 12 } };
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        lineage_add(&lineage, versions[i][0], versions[i][1], i == 0 ? 0 : versions[i - 1][0]);
    }
    return lineage;
}

Test(lag, counts_on_the_path)
{
    struct lineage lineage = branched();
    static const struct distance_case cases[] = {
        { 5, 5, true, 0 },   { 1, 5, true, 4 },    { 5, 7, true, 2 },   { 7, 8, false, 0 },
        { 6, 13, false, 0 }, { 5, 8, true, 1 },    { 1, 8, true, 5 },   { 8, 13, true, 2 },
        { 5, 13, true, 3 },  { 13, 8, false, 0 },  { 0, 8, false, 0 },  { 9, 13, false, 0 },
        { 8, 12, true, 1 },  { 14, 13, false, 0 }, { 13, 13, true, 0 },
    };
    expect_distances(&lineage, cases, sizeof(cases) / sizeof(cases[0]));
    cr_assert_eq(lineage.jumps_count, 2, "only 8 and 12 are not the next of the one before");
}

Test(lag, says_what_each_unit_is)
{
    struct lineage lineage = branched();
    struct version_point head = { 13, 130, 1300, 2000000000000 };
    struct version_point five = { 5, 50, 0, 1990500000000 };
    struct lag lag = lag_between(&lineage, &five, &head);
    cr_assert_eq(lag.relation, LAG_RELATION_BEHIND);
    cr_assert_eq(lag.units[LAG_PUBLISHES], 3);
    cr_assert(lag.known[LAG_OPTIMIZER_STEPS] && lag.units[LAG_OPTIMIZER_STEPS] == 80);
    cr_assert_not(lag.known[LAG_SAMPLES], "the served version did not name its samples");
    cr_assert_eq(lag.units[LAG_SECONDS], 9, "whole seconds");
    cr_assert_not(lag_is_above(&lag, LAG_PUBLISHES, 3));
    cr_assert(lag_is_above(&lag, LAG_PUBLISHES, 2));
    cr_assert(lag_is_above(&lag, LAG_SAMPLES, 2), "by publishes where the unit is not known");
    struct version_point seven = { 7, 70, 700, 1 };
    lag = lag_between(&lineage, &seven, &head);
    cr_assert_eq(lag.relation, LAG_RELATION_UNRELATED);
    cr_assert(lag_is_above(&lag, LAG_SECONDS, UINT64_MAX));
    lag = lag_between(&lineage, &head, &head);
    cr_assert_eq(lag.relation, LAG_RELATION_CURRENT);
    cr_assert_not(lag_is_above(&lag, LAG_PUBLISHES, 0));
    struct version_point none = { 0 };
    cr_assert_eq(lag_between(&lineage, &none, &head).relation, LAG_RELATION_NONE);
}

/* A trainer that started again below its own steps: the difference is not told rather than wrong. */
Test(lag, steps_that_went_back)
{
    struct lineage lineage = branched();
    struct version_point head = { 13, 40, 0, 0 };
    struct version_point five = { 5, 50, 0, 0 };
    struct lag lag = lag_between(&lineage, &five, &head);
    cr_assert_eq(lag.relation, LAG_RELATION_BEHIND);
    cr_assert_not(lag.known[LAG_OPTIMIZER_STEPS]);
    cr_assert_eq(lag.units[LAG_OPTIMIZER_STEPS], 0);
}

Test(lag, remembers_what_was_undone)
{
    struct lineage lineage = { 0 };
    lineage_undo(&lineage, 7);
    lineage_undo(&lineage, 7);
    lineage_undo(&lineage, 0);
    cr_assert_eq(lineage.undone_count, 1);
    cr_assert(lineage_is_undone(&lineage, 7));
    lineage_redo(&lineage, 7);
    cr_assert_not(lineage_is_undone(&lineage, 7));
    cr_assert_eq(lineage.undone[0].seq, 0, "what is stored of it has no rest");
    for (uint64_t seq = 1; seq <= LAG_UNDONE_MAX + 1; seq++) {
        lineage_undo(&lineage, seq);
    }
    cr_assert_not(lineage_is_undone(&lineage, 1), "the oldest one is forgotten");
    cr_assert(lineage_is_undone(&lineage, LAG_UNDONE_MAX + 1));
}

enum { VERSIONS = 400 };

/* Naively: from parent to parent. */
static bool walk(const uint64_t *parents, uint64_t ancestor, uint64_t from, uint64_t *out)
{
    *out = 0;
    for (uint64_t at = from; at != 0; at = parents[at]) {
        if (at == ancestor) {
            return true;
        }
        *out += 1;
    }
    return false;
}

Test(lag, agrees_with_a_walk)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct baton_random random;
        struct lineage lineage = { 0 };
        uint64_t parents[VERSIONS + 1] = { 0 };
        baton_random_seed(&random, seed);
        for (uint64_t seq = 1; seq <= VERSIONS; seq++) {
            bool branch = seq > 1 && lineage.jumps_count < LAG_JUMPS_MAX &&
                          baton_random_below(&random, 8) == 0;
            parents[seq] = branch ? 1 + baton_random_below(&random, seq - 1) : seq - 1;
            lineage_add(&lineage, seq, parents[seq], seq - 1);
        }
        for (int i = 0; i < 4000; i++) {
            uint64_t a = 1 + baton_random_below(&random, VERSIONS);
            uint64_t b = 1 + baton_random_below(&random, VERSIONS);
            uint64_t want = 0, got = 0;
            bool is = walk(parents, a, b, &want);
            cr_assert_eq(lineage_distance(&lineage, a, b, &got), is, "%llu of %llu",
                         (unsigned long long)a, (unsigned long long)b);
            cr_assert(!is || got == want);
        }
    }
}

/* More branches than are kept: what lies before is not known, and nothing is told wrong. */
Test(lag, forgets_the_oldest_branches)
{
    struct lineage lineage = { 0 };
    uint64_t distance = 0;
    lineage_add(&lineage, 1, 0, 0);
    for (uint64_t seq = 2; seq <= 2 * (LAG_JUMPS_MAX + 3); seq++) {
        bool branch = seq % 2 == 0;
        lineage_add(&lineage, seq, branch && seq > 2 ? seq - 2 : seq - 1, seq - 1);
    }
    uint64_t last = 2 * (LAG_JUMPS_MAX + 3);
    cr_assert_eq(lineage.jumps_count, LAG_JUMPS_MAX);
    cr_assert(lineage_distance(&lineage, last - 2, last, &distance));
    cr_assert_eq(distance, 1);
    cr_assert_not(lineage_distance(&lineage, last - 1, last, &distance), "a dead branch");
    cr_assert_not(lineage_distance(&lineage, 1, last, &distance), "before what is remembered");
    cr_assert(lineage_distance(&lineage, lineage.base_seq, last, &distance));
}
