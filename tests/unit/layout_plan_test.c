/* layout_plan_test.c -- plans, performed element by element; what is refused; fair shares. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/layout_world.h"
#include "transport/layout/plan_cache.h"

enum { ARENA_BYTES = 16 << 20, WORLDS = 10000 };

/* Copies are in buckets without a rest, and no atomic set is in two of them. */
static void check_buckets(const struct layout *target, const struct layout_plan *plan)
{
    uint32_t next = 0;
    uint32_t seen[64], bucket_of[64];
    uint32_t seen_count = 0;
    for (uint32_t b = 0; b < layout_plan_buckets_count(plan); b++) {
        const struct layout_bucket *bucket = layout_plan_bucket(plan, b);
        cr_assert_eq(bucket->first_copy, next);
        next += bucket->copies_count;
        for (uint32_t c = bucket->first_copy; c < next; c++) {
            uint32_t holding = layout_plan_copy(plan, c)->target_holding;
            uint32_t piece = layout_holding_get(target, holding)->first_piece;
            uint32_t tensor = layout_piece_get(target, piece)->tensor;
            uint32_t atomic = layout_tensor_get(target, tensor)->atomic;
            uint32_t i = 0;
            while (i < seen_count && seen[i] != atomic) {
                i++;
            }
            cr_assert(atomic == LAYOUT_NONE || i == seen_count || bucket_of[i] == b);
            seen[i] = atomic;
            bucket_of[i] = b;
            seen_count += i == seen_count;
        }
    }
    cr_assert_eq(next, layout_plan_copies_count(plan));
}

/* Ten thousand pairs of random layouts: each target element arrives once, and is the right one. */
Test(layout_plan, moves_every_element_once)
{
    void *memory = malloc(ARENA_BYTES);
    struct baton_arena arena = baton_arena_of(memory, ARENA_BYTES);
    uint64_t copies = 0;
    for (uint64_t seed = 1; seed <= WORLDS; seed++) {
        struct baton_random random;
        struct world_side from, to;
        struct layout *source, *target;
        struct layout_plan *plan;
        struct layout_plan_options options = { .bucket_bytes = 1 + seed % 100,
                                               .source_ranks_per_link = 1 + (uint32_t)(seed % 3),
                                               .target_ranks_per_link = 1 + (uint32_t)(seed % 2) };
        baton_random_seed(&random, seed);
        world_tensors(&random, &from);
        to = from;
        world_cut(&random, &from);
        world_cut(&random, &to);
        baton_arena_reset(&arena);
        struct baton_status st = world_build(&from, "from", &arena, &source);
        cr_assert(baton_ok(&st), "seed %llu: %s", (unsigned long long)seed, st.message);
        st = world_build(&to, "to", &arena, &target);
        cr_assert(baton_ok(&st), "seed %llu: %s", (unsigned long long)seed, st.message);
        st = layout_plan_create(source, target, &options, &arena, &plan);
        cr_assert(baton_ok(&st), "seed %llu: %s", (unsigned long long)seed, st.message);
        const char *fault = world_perform(source, target, plan);
        cr_assert_null(fault, "seed %llu: %s", (unsigned long long)seed, fault);
        const struct layout_plan_figures *figures = layout_plan_figures(plan);
        cr_assert_leq(figures->lower_bound, figures->bottleneck);
        cr_assert_leq(figures->egress_bound, figures->egress_max);
        check_buckets(target, plan);
        copies += layout_plan_copies_count(plan);
    }
    cr_expect_gt(copies, 10 * WORLDS);
    free(memory);
}

/* --- hand-made --- */

struct rig {
    void *memory;
    struct baton_arena arena;
};

static struct rig rig_make(void)
{
    struct rig rig = { .memory = malloc(ARENA_BYTES) };
    rig.arena = baton_arena_of(rig.memory, ARENA_BYTES);
    return rig;
}

/* Each tensor whole on each of 'ranks' ranks. */
static struct layout *whole(struct rig *rig, const char *name, uint32_t ranks,
                            const struct layout_tensor_options *tensors, uint32_t count)
{
    struct layout *layout = layout_create(&rig->arena, name);
    uint32_t numbers[64], set, local, tensor;
    for (uint32_t r = 0; r < ranks; r++) {
        numbers[r] = r;
    }
    struct baton_status st = layout_add_set(layout, (struct layout_ranks){ numbers, ranks }, &set);
    for (uint32_t t = 0; t < count && baton_ok(&st); t++) {
        struct layout_piece_options piece = { 0 };
        uint64_t elements = 1;
        for (uint32_t d = 0; d < tensors[t].shape.rank; d++) {
            piece.box.extent[d] = (uint32_t)tensors[t].shape.dims[d];
            elements *= tensors[t].shape.dims[d];
        }
        st = layout_add_tensor(layout, &tensors[t], &tensor);
        if (baton_ok(&st)) {
            st = layout_add_local(layout, tensors[t].name, tensors[t].dtype, elements, set, &local);
        }
        if (baton_ok(&st) && (tensors[t].flags & LAYOUT_KEEP) == 0) {
            piece.tensor = tensor;
            piece.local = local;
            st = layout_add_piece(layout, &piece);
        } else if (baton_ok(&st)) {
            st = layout_add_pad(layout, local, 0, elements);
        }
    }
    cr_assert(baton_ok(&st), "%s", st.message);
    return layout;
}

static void seal(struct layout *layout)
{
    struct baton_status st = layout_seal(layout);
    cr_assert(baton_ok(&st), "%s", st.message);
}

static struct baton_status plan_of(struct rig *rig, const struct layout *source,
                                   const struct layout *target, struct layout_plan **plan)
{
    static const struct layout_plan_options options;
    return layout_plan_create(source, target, &options, &rig->arena, plan);
}

#define MATRIX(text, rows, columns)                                                                \
    {                                                                                              \
        .name = (text), .dtype = TENSOR_DTYPE_BF16, .shape = { 2, { (rows), (columns) } }          \
    }

/* One large tensor that four hold and eight need: rows are cut so that each sends a quarter, and
 * one copy serves all eight. */
Test(layout_plan, equal_sources_share_a_tensor)
{
    struct rig rig = rig_make();
    const struct layout_tensor_options big = MATRIX("w", 1000, 64);
    struct layout *source = whole(&rig, "four", 4, &big, 1);
    struct layout *target = whole(&rig, "eight", 8, &big, 1);
    struct layout_plan *plan;
    seal(source);
    seal(target);
    struct baton_status st = plan_of(&rig, source, target, &plan);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect_eq(layout_plan_copies_count(plan), 4);
    for (uint32_t l = 0; l < 4; l++) {
        cr_expect_eq(layout_plan_egress(plan, l), 250 * 64 * 2);
    }
    const struct layout_plan_figures *figures = layout_plan_figures(plan);
    cr_expect_eq(figures->bytes, 128000);
    cr_expect_eq(figures->delivered_bytes, 8 * 128000);
    cr_expect_eq(figures->egress_max, 32000);
    cr_expect_eq(figures->egress_bound, 32000);
    cr_expect_eq(figures->bottleneck, 128000, "each target takes all of it");
    cr_expect_eq(figures->lower_bound, 128000);
    cr_expect_not(figures->bottleneck_is_source);
    cr_expect_null(world_perform(source, target, plan));
    free(rig.memory);
}

enum { SHARED = 6, LINKS = 6, ROWS = 4096 };

/* Tensors that random sets of six ranks hold. */
static struct layout *random_holders(struct rig *rig, struct baton_random *random,
                                     const struct layout_tensor_options *tensors,
                                     uint32_t holders[SHARED])
{
    struct layout *layout = layout_create(&rig->arena, "holders");
    for (uint32_t t = 0; t < SHARED; t++) {
        uint32_t ranks[LINKS], count = 0, set, local, tensor;
        holders[t] = 1 + (uint32_t)baton_random_below(random, (1 << LINKS) - 1);
        for (uint32_t r = 0; r < LINKS; r++) {
            if ((holders[t] >> r & 1) != 0) {
                ranks[count++] = r;
            }
        }
        uint32_t rows = (uint32_t)tensors[t].shape.dims[0];
        struct baton_status st = layout_add_tensor(layout, &tensors[t], &tensor);
        cr_assert(baton_ok(&st));
        st = layout_add_set(layout, (struct layout_ranks){ ranks, count }, &set);
        cr_assert(baton_ok(&st));
        st = layout_add_local(layout, "l", TENSOR_DTYPE_BF16, rows, set, &local);
        cr_assert(baton_ok(&st));
        struct layout_piece_options piece = { tensor, local, { { 0 }, { rows, 1 } }, 0, 0 };
        st = layout_add_piece(layout, &piece);
        cr_assert(baton_ok(&st));
    }
    seal(layout);
    return layout;
}

/* What the busiest of the links must carry at least: for each set of links, what only they hold. */
static uint64_t exact_bound(const struct layout_tensor_options *tensors,
                            const uint32_t holders[SHARED])
{
    uint64_t bound = 0;
    for (uint32_t set = 1; set < 1 << LINKS; set++) {
        uint64_t bytes = 0;
        for (uint32_t t = 0; t < SHARED; t++) {
            bytes += (holders[t] & ~set) == 0 ? tensors[t].shape.dims[0] * 2 : 0;
        }
        uint64_t each = bytes / (uint64_t)__builtin_popcount(set);
        bound = each > bound ? each : bound;
    }
    return bound;
}

/* Any sets, not only those of a mesh: the busiest link carries what it must, within a per cent and a
 * row a tensor, and the bound that is reported is as sharp. */
Test(layout_plan, shares_are_as_fair_as_can_be)
{
    static const char *const names[SHARED] = { "a", "b", "c", "d", "e", "f" };
    struct rig rig = rig_make();
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct baton_random random;
        struct layout_tensor_options tensors[SHARED];
        uint32_t holders[SHARED];
        struct layout_plan *plan;
        baton_random_seed(&random, seed);
        baton_arena_reset(&rig.arena);
        for (uint32_t t = 0; t < SHARED; t++) {
            tensors[t] = (struct layout_tensor_options)MATRIX(
                names[t], 1 + baton_random_below(&random, ROWS), 1);
        }
        struct layout *source = random_holders(&rig, &random, tensors, holders);
        struct layout *target = whole(&rig, "target", 1, tensors, SHARED);
        seal(target);
        struct baton_status st = plan_of(&rig, source, target, &plan);
        cr_assert(baton_ok(&st), "%s", st.message);
        const struct layout_plan_figures *figures = layout_plan_figures(plan);
        uint64_t exact = exact_bound(tensors, holders);
        cr_assert_leq(figures->egress_max * 100, exact * 101 + 100 * 2 * SHARED,
                      "seed %llu: %llu, %llu", (unsigned long long)seed,
                      (unsigned long long)figures->egress_max, (unsigned long long)exact);
        cr_assert_leq(figures->egress_bound, exact + 2);
        cr_assert_geq(figures->egress_bound * 101, exact * 100 - 200 * SHARED);
    }
    free(rig.memory);
}

/* A rank that alone holds something else gets less of what others hold, too. */
Test(layout_plan, forced_bytes_count_first)
{
    struct rig rig = rig_make();
    const struct layout_tensor_options tensors[] = { MATRIX("alone", 300, 10),
                                                     MATRIX("shared", 600, 10) };
    struct layout *source = layout_create(&rig.arena, "source");
    struct layout *target = whole(&rig, "target", 1, tensors, 2);
    struct layout_plan *plan;
    const uint32_t ranks[] = { 0, 1, 2 };
    for (uint32_t t = 0; t < 2; t++) {
        uint32_t set, local, tensor;
        struct baton_status st = layout_add_tensor(source, &tensors[t], &tensor);
        cr_assert(baton_ok(&st));
        st = layout_add_set(source, (struct layout_ranks){ ranks, t == 0 ? 1 : 3 }, &set);
        cr_assert(baton_ok(&st));
        uint64_t rows = tensors[t].shape.dims[0];
        st = layout_add_local(source, "l", TENSOR_DTYPE_BF16, rows * 10, set, &local);
        cr_assert(baton_ok(&st));
        struct layout_piece_options piece = {
            tensor, local, { { 0 }, { (uint32_t)rows, 10 } }, 0, 0
        };
        st = layout_add_piece(source, &piece);
        cr_assert(baton_ok(&st));
    }
    seal(source);
    seal(target);
    struct baton_status st = plan_of(&rig, source, target, &plan);
    cr_assert(baton_ok(&st), "%s", st.message);
    for (uint32_t l = 0; l < 3; l++) {
        cr_expect_eq(layout_plan_egress(plan, l), 6000, "link %u: %llu", l,
                     (unsigned long long)layout_plan_egress(plan, l));
    }
    cr_expect_null(world_perform(source, target, plan));
    free(rig.memory);
}

/* Plans 'have' to 'want' after both are sealed; gives the refusal. */
static struct baton_status attempt(struct rig *rig, struct layout *have, struct layout *want,
                                   struct layout_plan **plan)
{
    seal(have);
    seal(want);
    return plan_of(rig, have, want, plan);
}

static void expect_refused(struct baton_status st, const char *message)
{
    cr_expect(!baton_ok(&st) && st.reason == BATON_REASON_INCOMPATIBLE);
    cr_expect_str_eq(st.message, message);
}

/* Names without a partner, shapes and types that differ: refused by name. */
Test(layout_plan, refuses_what_does_not_fit)
{
    struct rig rig = rig_make();
    struct layout_plan *plan;
    const struct layout_tensor_options two[] = { MATRIX("a", 2, 2), MATRIX("b", 2, 2) };
    struct layout_tensor_options other = two[0];
    expect_refused(attempt(&rig, whole(&rig, "s", 1, two, 1), whole(&rig, "t", 1, two, 2), &plan),
                   "plan from s to t: b: the source has no tensor of this name, and no rule keeps "
                   "it");
    expect_refused(attempt(&rig, whole(&rig, "s", 1, two, 2), whole(&rig, "t", 1, two, 1), &plan),
                   "plan from s to t: b: the target has no tensor of this name (1 such), and no "
                   "rule drops it");
    other.shape.dims[0] = 3;
    expect_refused(
        attempt(&rig, whole(&rig, "s", 1, &other, 1), whole(&rig, "t", 1, two, 1), &plan),
        "plan from s to t: a: shape [3, 2] here, [2, 2] there");
    other = two[0];
    other.dtype = TENSOR_DTYPE_F32;
    expect_refused(
        attempt(&rig, whole(&rig, "s", 1, two, 1), whole(&rig, "t", 1, &other, 1), &plan),
        "plan from s to t: a: dtype BF16 here, F32 there, and no rule casts it");
    other.flags = LAYOUT_CAST;
    struct layout *source = whole(&rig, "s", 1, two, 1);
    struct layout *target = whole(&rig, "t", 1, &other, 1);
    struct baton_status st = attempt(&rig, source, target, &plan);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect_eq(layout_plan_figures(plan)->cast, 1);
    cr_expect_eq(layout_plan_figures(plan)->bytes, 8, "the source's bytes travel");
    cr_expect_null(world_perform(source, target, plan));
    free(rig.memory);
}

/* Bug report B2 and B3: renames and drops belong to the target, and nothing is skipped silently. */
Test(layout_plan, renames_and_drops_by_rule)
{
    struct rig rig = rig_make();
    struct layout_plan *plan;
    const struct layout_tensor_options have[] = { MATRIX("a.to_q", 2, 2), MATRIX("a.to_k", 2, 2),
                                                  MATRIX("b", 2, 2) };
    const struct layout_tensor_options want[] = { MATRIX("a.q_proj", 2, 2),
                                                  MATRIX("a.k_proj", 2, 2) };
    for (int rules = 2; rules >= 1; rules--) {
        struct layout *source = whole(&rig, "s", 1, have, 3);
        struct layout *target = whole(&rig, "t", 1, want, 2);
        struct baton_status st =
            layout_add_name_rule(target, LAYOUT_RULE_RENAME, "*.to_q", "$1.q_proj");
        cr_assert(baton_ok(&st));
        st = layout_add_name_rule(target, LAYOUT_RULE_DROP, "b", NULL);
        cr_assert(baton_ok(&st));
        if (rules == 2) {
            st = layout_add_name_rule(target, LAYOUT_RULE_RENAME, "*.to_k", "$1.k_proj");
            cr_assert(baton_ok(&st));
        }
        st = attempt(&rig, source, target, &plan);
        if (rules == 2) {
            cr_assert(baton_ok(&st), "%s", st.message);
            cr_expect_eq(layout_plan_figures(plan)->tensors, 2);
            cr_expect_eq(layout_plan_figures(plan)->dropped, 1);
        } else {
            expect_refused(st, "plan from s to t: a.k_proj: the source has no tensor of this name, "
                               "and no rule keeps it");
        }
    }
    free(rig.memory);
}

/* Bug reports C1, C2, C4: what is tied follows the other; what is not needs its own. */
Test(layout_plan, follows_ties)
{
    struct rig rig = rig_make();
    struct layout_plan *plan;
    const struct layout_tensor_options have[] = { MATRIX("embed", 2, 2), MATRIX("head", 2, 2) };
    struct layout_tensor_options want[] = { MATRIX("embed", 2, 2), MATRIX("head", 2, 2) };
    expect_refused(attempt(&rig, whole(&rig, "s", 1, have, 1), whole(&rig, "t", 1, want, 2), &plan),
                   "plan from s to t: head: the source has no tensor of this name, and no rule "
                   "keeps it");
    want[1].tied = "embed";
    for (uint32_t sent = 1; sent <= 2; sent++) { /* The embedding alone, or a copy of it, too. */
        struct layout *source = whole(&rig, "s", 1, have, sent);
        struct layout *target = whole(&rig, "t", 1, want, 2);
        struct baton_status st = attempt(&rig, source, target, &plan);
        cr_assert(baton_ok(&st), "%s", st.message);
        cr_expect_eq(layout_plan_figures(plan)->dropped, sent - 1);
        cr_expect_eq(layout_plan_figures(plan)->bytes, 16, "both places are written");
        cr_expect_null(world_perform(source, target, plan));
    }
    free(rig.memory);
}

/* Bug report E3: what is kept is asked of nobody and not touched. */
Test(layout_plan, keeps_what_is_kept)
{
    struct rig rig = rig_make();
    struct layout_plan *plan;
    struct layout_tensor_options want[] = { MATRIX("w", 2, 2), MATRIX("rope", 2, 2) };
    want[1].flags = LAYOUT_KEEP;
    struct layout *source = whole(&rig, "s", 1, want, 1);
    struct layout *target = whole(&rig, "t", 1, want, 2);
    struct baton_status st = attempt(&rig, source, target, &plan);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect_eq(layout_plan_figures(plan)->kept, 1);
    cr_expect_eq(layout_plan_copies_count(plan), 1);
    free(rig.memory);
}

/* Bug reports D1 and D7: scales come with their values; a last partial block has a scale. */
Test(layout_plan, scales_and_values_are_one)
{
    struct rig rig = rig_make();
    struct layout_plan *plan;
    struct layout_tensor_options tensors[] = {
        { .name = "w",
          .dtype = TENSOR_DTYPE_F8_E4M3,
          .shape = { 2, { 1000, 256 } },
          .atomic = "w",
          .scale = "w_scale",
          .block = { 128, 128 } },
        { .name = "w_scale", .dtype = TENSOR_DTYPE_F32, .shape = { 2, { 8, 2 } }, .atomic = "w" },
    };
    expect_refused(
        attempt(&rig, whole(&rig, "s", 1, tensors + 1, 1), whole(&rig, "t", 1, tensors, 2), &plan),
        "plan from s to t: w: the source has no tensor of this name, and no rule keeps "
        "it");
    struct layout_tensor_options plain[] = { tensors[0], tensors[1] };
    plain[0].scale = NULL;
    expect_refused(
        attempt(&rig, whole(&rig, "s", 1, tensors, 2), whole(&rig, "t", 1, plain, 2), &plan),
        "plan from s to t: w: the source has scales of it, and here it does not have the same");
    struct baton_status good =
        attempt(&rig, whole(&rig, "s", 1, tensors, 2), whole(&rig, "t", 1, tensors, 2), &plan);
    cr_expect(baton_ok(&good), "%s", good.message);
    struct layout *alone = whole(&rig, "s", 1, tensors, 1);
    expect_refused(layout_seal(alone), "layout s: w needs w_scale, which is not there");
    tensors[1].shape.dims[0] = 7;
    struct layout *small = whole(&rig, "s", 1, tensors, 2);
    struct baton_status st = layout_seal(small);
    cr_expect_str_eq(st.message,
                     "layout s: w: blocks of 128x128 do not give scales of shape [7, 2]");
    free(rig.memory);
}

/* Any number of ranks may share a link: then all do. */
Test(layout_plan, counts_links_without_wrapping)
{
    struct rig rig = rig_make();
    const struct layout_tensor_options one[] = { MATRIX("a", 2, 2) };
    const struct layout_plan_options options = { .source_ranks_per_link = UINT32_MAX,
                                                 .target_ranks_per_link = UINT32_MAX };
    struct layout *source = whole(&rig, "s", 3, one, 1), *target = whole(&rig, "t", 3, one, 1);
    struct layout_plan *plan;
    seal(source);
    seal(target);
    struct baton_status st = layout_plan_create(source, target, &options, &rig.arena, &plan);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect_eq(layout_plan_egress(plan, 0), layout_plan_figures(plan)->bytes);
    free(rig.memory);
}

/* Equal layouts have equal keys; an expert map, a bucket size, a rank more changes the key. */
Test(layout_plan, keys_follow_what_matters)
{
    struct rig rig = rig_make();
    const struct layout_tensor_options w = MATRIX("w", 4, 4);
    struct layout_plan_options options = { 0 };
    struct layout *a = whole(&rig, "a", 2, &w, 1);
    struct layout *b = whole(&rig, "b", 2, &w, 1);
    struct layout *c = whole(&rig, "c", 3, &w, 1);
    seal(a);
    seal(b);
    seal(c);
    cr_expect(digest_equal(layout_digest(a), layout_digest(b)));
    cr_expect_not(digest_equal(layout_digest(a), layout_digest(c)));
    struct digest key = layout_plan_key(a, b, &options);
    cr_expect_not(digest_equal(key, layout_plan_key(a, c, &options)));
    options.bucket_bytes = UINT64_C(1) << 30; /* What 0 stands for. */
    cr_expect(digest_equal(key, layout_plan_key(a, b, &options)));
    options.bucket_bytes = 1;
    cr_expect_not(digest_equal(key, layout_plan_key(a, b, &options)));
    free(rig.memory);
}

/* --- cache --- */

/* Found again by key; the one that was not asked for longest makes room, and its memory comes back. */
Test(layout_plan, cache_keeps_what_is_asked_for)
{
    struct layout_plan_cache cache = { .count = 0 };
    struct digest keys[LAYOUT_PLAN_CACHE_MAX + 1] = { { { 0 } } };
    const struct layout_plan *plans[LAYOUT_PLAN_CACHE_MAX + 1];
    char bodies[LAYOUT_PLAN_CACHE_MAX + 1];
    for (size_t i = 0; i <= LAYOUT_PLAN_CACHE_MAX; i++) {
        keys[i].bytes[0] = (uint8_t)(i + 1);
        plans[i] = (const struct layout_plan *)&bodies[i];
    }
    for (size_t i = 0; i < LAYOUT_PLAN_CACHE_MAX; i++) {
        cr_expect_null(layout_plan_cache_find(&cache, keys[i]));
        cr_expect_null(layout_plan_cache_put(&cache, keys[i], plans[i]));
    }
    cr_expect_eq(layout_plan_cache_find(&cache, keys[0]), plans[0]);
    cr_expect_eq(
        layout_plan_cache_put(&cache, keys[LAYOUT_PLAN_CACHE_MAX], plans[LAYOUT_PLAN_CACHE_MAX]),
        plans[1], "0 was asked for since");
    cr_expect_null(layout_plan_cache_find(&cache, keys[1]));
    cr_expect_eq(layout_plan_cache_find(&cache, keys[0]), plans[0]);
    cr_expect_eq(layout_plan_cache_find(&cache, keys[LAYOUT_PLAN_CACHE_MAX]),
                 plans[LAYOUT_PLAN_CACHE_MAX]);
}
