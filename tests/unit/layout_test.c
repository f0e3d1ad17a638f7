/* layout_test.c -- what a layout promises, against an element-by-element reading; names. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/layout_world.h"
#include "transport/layout/names.h"
#include "transport/layout/pool.h"

enum { ARENA_BYTES = 8 << 20, LAYOUTS = 12000 };

/* A layout is sealed exactly if the oracle, which counts every element, says that it holds. */
Test(layout, holds_exactly_if_every_element_does)
{
    void *memory = malloc(ARENA_BYTES);
    struct baton_arena arena = baton_arena_of(memory, ARENA_BYTES);
    unsigned good = 0, refused = 0;
    for (uint64_t seed = 1; seed <= LAYOUTS; seed++) {
        struct baton_random random;
        struct world_side side;
        struct layout *layout;
        baton_random_seed(&random, seed);
        world_tensors(&random, &side);
        world_cut(&random, &side);
        if (seed % 2 == 0) {
            world_damage(&random, &side);
        }
        bool holds = world_holds(&side);
        baton_arena_reset(&arena);
        struct baton_status st = world_build(&side, "random", &arena, &layout);
        cr_assert_eq(baton_ok(&st), holds, "seed %llu: %s", (unsigned long long)seed, st.message);
        good += holds;
        refused += !holds;
    }
    cr_expect(good > LAYOUTS / 3 && refused > LAYOUTS / 4, "%u good, %u refused", good, refused);
    free(memory);
}

static struct layout *tp2(struct baton_arena *arena, uint64_t second_offset, uint32_t rows)
{
    struct layout *layout = layout_create(arena, "tp2");
    struct layout_tensor_options tensor = { .name = "w",
                                            .dtype = TENSOR_DTYPE_BF16,
                                            .shape = { 2, { 4, 3 } } };
    uint32_t w, set, local;
    struct baton_status st = layout_add_tensor(layout, &tensor, &w);
    cr_assert(baton_ok(&st));
    for (uint32_t r = 0; r < 2; r++) {
        st = layout_add_set(layout, (struct layout_ranks){ &r, 1 }, &set);
        cr_assert(baton_ok(&st));
        st = layout_add_local(layout, "w", TENSOR_DTYPE_BF16, 6, set, &local);
        cr_assert(baton_ok(&st));
        struct layout_piece_options piece = { w, local, { { 2 * r }, { 2, 3 } }, 0, 0 };
        if (r == 1) {
            piece.box.extent[0] = rows;
            piece.offset = second_offset;
        }
        st = layout_add_piece(layout, &piece);
        cr_assert(baton_ok(&st), "%s", st.message);
    }
    return layout;
}

/* Messages name layout, tensor, rank and range. */
Test(layout, says_what_is_missing)
{
    void *memory = malloc(ARENA_BYTES);
    struct baton_arena arena = baton_arena_of(memory, ARENA_BYTES);
    struct layout *layout = tp2(&arena, 0, 2);
    struct baton_status st = layout_seal(layout);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect_eq(layout_rank_bytes(layout, 1), 12);
    layout = tp2(&arena, 0, 1);
    st = layout_seal(layout);
    cr_expect_str_eq(st.message, "layout tp2: gap: w: [3:4, 0:3] is on no rank");
    layout = tp2(&arena, 0, 2);
    struct layout_piece_options again = { 0, 1, { { 2 }, { 1, 3 } }, 1, 0 };
    st = layout_add_piece(layout, &again);
    cr_assert(baton_ok(&st));
    st = layout_seal(layout);
    cr_expect_str_eq(st.message,
                     "layout tp2: overlap: rank 1: w: from element 1 on it holds both w and w");
    layout = tp2(&arena, 0, 2);
    struct layout_piece_options outside = { 0, 1, { { 2 }, { 3, 3 } }, 0, 0 };
    st = layout_add_piece(layout, &outside);
    cr_expect_str_eq(st.message,
                     "layout tp2: w: [2:5, 0:3] on rank 1 in w lies outside of the tensor");
    free(memory);
}

/* Packed types: a piece begins and ends with a byte. */
Test(layout, does_not_cut_bytes)
{
    void *memory = malloc(ARENA_BYTES);
    struct baton_arena arena = baton_arena_of(memory, ARENA_BYTES);
    struct layout *layout = layout_create(&arena, "f4");
    struct layout_tensor_options tensor = { .name = "w",
                                            .dtype = TENSOR_DTYPE_F4,
                                            .shape = { 2, { 2, 6 } } };
    uint32_t w, set, local, rank = 0;
    struct baton_status st = layout_add_tensor(layout, &tensor, &w);
    cr_assert(baton_ok(&st));
    st = layout_add_set(layout, (struct layout_ranks){ &rank, 1 }, &set);
    cr_assert(baton_ok(&st));
    st = layout_add_local(layout, "w", TENSOR_DTYPE_F4, 12, set, &local);
    cr_assert(baton_ok(&st));
    struct layout_piece_options odd = { w, local, { { 0, 0 }, { 2, 3 } }, 0, 0 };
    st = layout_add_piece(layout, &odd);
    cr_expect(!baton_ok(&st) && strstr(st.message, "within a byte") != NULL, "%s", st.message);
    free(memory);
}

/* A full arena is a refusal at every size, never a crash. */
Test(layout, bears_any_full_arena)
{
    struct baton_random random;
    struct world_side side;
    baton_random_seed(&random, 5);
    world_tensors(&random, &side);
    world_cut(&random, &side);
    uint8_t *memory = malloc(1 << 17);
    bool was_good = false;
    for (size_t bytes = 8192; bytes < (1 << 17) && !was_good; bytes += 512) {
        struct baton_arena arena = baton_arena_of(memory, bytes);
        struct layout *layout;
        struct baton_status st = world_build(&side, "small", &arena, &layout);
        was_good = baton_ok(&st);
        cr_assert(was_good || st.code == BATON_RESOURCE_EXHAUSTED, "%s", st.message);
    }
    cr_expect(was_good);
    free(memory);
}

Test(layout, matches_names)
{
    static const struct {
        const char *pattern, *name, *into, *out;
    } rows[] = {
        { "model.language_model.*", "model.language_model.layers.0.w", "model.$1",
          "model.layers.0.w" },
        { "*.experts.*.gate_proj.weight", "m.layers.3.mlp.experts.12.gate_proj.weight",
          "$1.experts.w13#$2", "m.layers.3.mlp.experts.w13#12" },
        { "a*b*c", "aXbYbZc", "$1|$2", "X|YbZ" },
        { "*", "", "<$1>", "<>" },
        { "a", "a", "b", "b" },
        { "a*", "b", "", NULL },
        { "a", "ab", "", NULL },
        { "*x", "y", "", NULL },
        { "a*", "ab", "$2", NULL },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct name_match match;
        char out[64];
        bool found = names_match(rows[i].pattern, rows[i].name, &match) &&
                     names_write(rows[i].into, &match, out, sizeof(out));
        cr_expect_eq(found, rows[i].out != NULL, "row %zu", i);
        cr_expect(!found || strcmp(out, rows[i].out) == 0, "row %zu: %s", i, out);
    }
    uint32_t number = 0;
    cr_expect(names_number("model.layers.17.mlp.experts.4.w", "layers.", &number) && number == 17);
    cr_expect(names_number("model.layers.17.mlp.experts.4.w", "experts.", &number) && number == 4);
    cr_expect_not(names_number("model.sublayers.1.w", "layers.", &number));
    cr_expect_not(names_number("model.layers.x", "layers.", &number));
}

Test(layout, sorts)
{
    struct baton_random random;
    uint64_t keys[200];
    baton_random_seed(&random, 3);
    for (size_t count = 0; count <= 200; count++) {
        for (size_t i = 0; i < count; i++) {
            keys[i] = baton_random_below(&random, 50);
        }
        sort_u64(keys, count);
        for (size_t i = 1; i < count; i++) {
            cr_assert_leq(keys[i - 1], keys[i]);
        }
    }
}

/* Who asks for what is there may give the arena's memory back to where it was. */
Test(layout, known_bytes_take_no_memory)
{
    void *memory = malloc(ARENA_BYTES);
    struct baton_arena arena = baton_arena_of(memory, ARENA_BYTES);
    struct intern table;
    intern_init(&table, &arena);
    for (uint32_t i = 0; i < 1000; i++) {
        cr_assert_eq(intern_add(&table, &i, sizeof(i)), i);
        size_t used = arena.used;
        for (uint32_t k = 0; k <= i; k += 1 + i / 8) {
            cr_assert_eq(intern_add(&table, &k, sizeof(k)), k);
        }
        cr_assert_eq(arena.used, used);
    }
    free(memory);
}
