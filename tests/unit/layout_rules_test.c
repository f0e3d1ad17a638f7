/* layout_rules_test.c -- rules by name against contents written down by hand. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/layout_world.h"
#include "transport/layout/rules.h"

enum { ARENA_BYTES = 8 << 20 };

static struct baton_arena arena_make(void)
{
    return baton_arena_of(malloc(ARENA_BYTES), ARENA_BYTES);
}

#define VECTOR(text, size)                                                                         \
    {                                                                                              \
        .name = (text), .dtype = TENSOR_DTYPE_BF16, .shape = { 1, { (size) } }                     \
    }
#define MATRIX(text, rows, columns)                                                                \
    {                                                                                              \
        .name = (text), .dtype = TENSOR_DTYPE_BF16, .shape = { 2, { (rows), (columns) } }          \
    }
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct layout *expand(struct baton_arena *arena, const struct layout_spec *spec)
{
    struct layout *layout = NULL;
    struct baton_status st = layout_expand(spec, arena, &layout);
    cr_assert(baton_ok(&st), "%s", st.message);
    return layout;
}

/* What ranks 0, 1, ... hold of a local; 'expected' ends with a null. */
static void expect_contents(const struct layout *layout, const char *local,
                            const char *const *expected)
{
    for (uint32_t r = 0; expected[r] != NULL; r++) {
        char text[WORLD_CONTENTS_BYTES];
        cr_expect_str_eq(world_contents(layout, r, local, text), expected[r], "rank %u: %s", r,
                         text);
    }
}

/* From one to the other and back, every element. */
static void expect_plans(struct baton_arena *arena, const struct layout *a, const struct layout *b)
{
    static const struct layout_plan_options options;
    const struct layout *pairs[2][2] = { { a, b }, { b, a } };
    for (int i = 0; i < 2; i++) {
        struct layout_plan *plan = NULL;
        struct baton_status st =
            layout_plan_create(pairs[i][0], pairs[i][1], &options, arena, &plan);
        cr_assert(baton_ok(&st), "%s", st.message);
        cr_expect_null(world_perform(pairs[i][0], pairs[i][1], plan));
    }
}

/* Bug report C5: one value a head, fewer KV heads than ranks. */
Test(layout_rules, shares_kv_heads)
{
    struct baton_arena arena = arena_make();
    const struct layout_tensor_options one[] = { VECTOR("q", 4), VECTOR("k", 1), VECTOR("v", 1) };
    const struct layout_tensor_options two[] = { VECTOR("q", 4), VECTOR("k", 2), VECTOR("v", 2) };
    struct layout_rule grouped[] = {
        { .match = "q", .into = "qkv", .fuse = LAYOUT_FUSE_GROUPED, .groups = 1, .shard = "tp" },
        { .match = "k",
          .into = "qkv",
          .fuse = LAYOUT_FUSE_GROUPED,
          .groups = 1,
          .shard = "tp",
          .order = 1 },
        { .match = "v",
          .into = "qkv",
          .fuse = LAYOUT_FUSE_GROUPED,
          .groups = 1,
          .shard = "tp",
          .order = 2 },
    };
    const struct layout_rule engine[] = {
        { .match = "v", .into = "qkv", .shard = "tp", .unit = 1, .order = 2 },
        { .match = "q", .into = "qkv", .shard = "tp", .unit = 1 },
        { .match = "k", .into = "qkv", .shard = "tp", .unit = 1, .order = 1 },
    };
    struct layout_spec trainer = { .name = "trainer",
                                   .mesh = { { { "tp", 2 } }, 1 },
                                   .tensors = one,
                                   .tensors_count = 3,
                                   .rules = grouped,
                                   .rules_count = 3 };
    struct layout_spec wanted = trainer;
    wanted.name = "engine";
    wanted.rules = engine;
    struct layout *a = expand(&arena, &trainer);
    struct layout *b = expand(&arena, &wanted);
    expect_contents(a, "qkv", (const char *[]){ "q0 q1 q2", "q3 k0 v0", "-", NULL });
    expect_contents(b, "qkv", (const char *[]){ "q0 q1 k0 v0", "q2 q3 k0 v0", NULL });
    expect_plans(&arena, a, b);
    trainer.tensors = wanted.tensors = two;
    wanted.mesh.count = trainer.mesh.count = 0;
    for (int i = 0; i < 3; i++) {
        grouped[i].groups = 2;
    }
    a = expand(&arena, &trainer);
    b = expand(&arena, &wanted);
    expect_contents(a, "qkv", (const char *[]){ "q0 q1 k0 v0 q2 q3 k1 v1", NULL });
    expect_contents(b, "qkv", (const char *[]){ "q0 q1 q2 q3 k0 k1 v0 v1", NULL });
    expect_plans(&arena, a, b);
    free(arena.data);
}

static const struct layout_tensor_options gate_up[] = { VECTOR("gate", 4), VECTOR("up", 4) };

/* Bug report C7: each half is cut, then they follow each other; or their rows take turns. */
Test(layout_rules, cuts_gate_and_up_apart)
{
    struct baton_arena arena = arena_make();
    struct layout_rule rules[] = {
        { .match = "gate", .into = "gate_up", .shard = "tp" },
        { .match = "up", .into = "gate_up", .shard = "tp", .order = 1 },
    };
    struct layout_spec spec = { .name = "s",
                                .mesh = { { { "tp", 2 } }, 1 },
                                .tensors = gate_up,
                                .tensors_count = 2,
                                .rules = rules,
                                .rules_count = 2 };
    struct layout *concat = expand(&arena, &spec);
    expect_contents(concat, "gate_up",
                    (const char *[]){ "gate0 gate1 up0 up1", "gate2 gate3 up2 up3", NULL });
    rules[0].fuse = rules[1].fuse = LAYOUT_FUSE_PAIRED;
    struct layout *paired = expand(&arena, &spec);
    expect_contents(paired, "gate_up",
                    (const char *[]){ "gate0 up0 gate1 up1", "gate2 up2 gate3 up3", NULL });
    expect_plans(&arena, concat, paired);
    spec.mesh = (struct layout_mesh){ { { "fsdp", 3 } }, 1 };
    spec.fsdp_axis = "fsdp"; /* By rows: pairs stay together; the last chunk is empty. */
    struct layout *rows = expand(&arena, &spec);
    expect_contents(rows, "gate_up",
                    (const char *[]){ "gate0 up0 gate1 up1", "gate2 up2 gate3 up3", "-", NULL });
    expect_plans(&arena, concat, rows);
    spec.fsdp = LAYOUT_FSDP_FLAT;
    struct layout *flat;
    struct baton_status st = layout_expand(&spec, &arena, &flat);
    cr_expect_str_eq(st.message, "layout s: gate: FSDP would cut between rows that take turns");
    free(arena.data);
}

/* Experts in slots, by a map, hot ones twice, one map for one layer; three experts with their
 * halves in front. */
Test(layout_rules, puts_experts_where_the_map_says)
{
    struct baton_arena arena = arena_make();
    struct layout_tensor_options tensors[16];
    char names[16][32];
    for (int t = 0; t < 16; t++) {
        (void)snprintf(names[t], sizeof(names[t]), "layers.%d.experts.%d.w", t / 8, t % 8);
        tensors[t] = (struct layout_tensor_options)VECTOR(names[t], 1);
    }
    const struct layout_rule rule = {
        .match = "*.experts.*.w", .into = "$1.experts.w", .is_expert = true, .is_stacked = true
    };
    const uint32_t robin[] = { 0, 2, 4, 6, 1, 3, 5, 7 };
    const uint32_t hot[] = { 0, 1, LAYOUT_NONE, 2, 3, 3, 3, 4, 5, 6, 7, LAYOUT_NONE };
    const struct layout_experts maps[] = { { LAYOUT_NONE, 4, robin, 8 }, { 1, 6, hot, 12 } };
    struct layout_spec spec = { .name = "s",
                                .mesh = { { { "ep", 2 }, { "dp", 1 } }, 2 },
                                .tensors = tensors,
                                .tensors_count = 16,
                                .rules = &rule,
                                .rules_count = 1,
                                .maps = maps,
                                .maps_count = 2,
                                .experts = 8 };
    struct layout *mapped = expand(&arena, &spec);
    char text[WORLD_CONTENTS_BYTES];
    cr_expect_str_eq(world_contents(mapped, 0, "layers.0.experts.w", text),
                     "layers.0.exp0 layers.0.exp0 layers.0.exp0 layers.0.exp0");
    const uint32_t wanted[2][2] = { { 4, 4 }, { 6, 6 } }; /* Empty slots take room. */
    uint64_t elements[2][2] = { { 0 } };
    for (uint32_t l = 0; l < layout_locals_count(mapped); l++) {
        const struct layout_local *local = layout_local_get(mapped, l);
        uint32_t layer = strncmp(layout_text(mapped, local->name), "layers.1", 8) == 0;
        elements[layer][layout_set(mapped, local->set).ranks[0]] = local->elements;
    }
    for (int layer = 0; layer < 2; layer++) {
        cr_expect_eq(elements[layer][0], wanted[layer][0]);
        cr_expect_eq(elements[layer][1], wanted[layer][1]);
    }
    uint32_t six = layout_tensor_find(mapped, "layers.0.experts.6.w");
    const struct layout_tensor *tensor = layout_tensor_get(mapped, six);
    const struct layout_holding *holding = layout_holding_get(mapped, tensor->first_holding);
    cr_expect_eq(layout_set(mapped, holding->set).ranks[0], 0);
    cr_expect_eq(layout_piece_get(mapped, holding->first_piece)->offset, 3, "expert 6: slot 3");
    tensor = layout_tensor_get(mapped, layout_tensor_find(mapped, "layers.1.experts.3.w"));
    holding = layout_holding_get(mapped, tensor->first_holding);
    cr_expect_eq(holding->pieces_count, 3, "in three slots");
    cr_expect_eq(layout_set(mapped, holding->set).count, 2, "of two ranks");
    tensor = layout_tensor_get(mapped, layout_tensor_find(mapped, "layers.1.experts.2.w"));
    holding = layout_holding_get(mapped, tensor->first_holding);
    cr_expect_eq(layout_piece_get(mapped, holding->first_piece)->offset, 3, "behind an empty slot");
    spec.maps_count = 0;
    struct layout *runs = expand(&arena, &spec);
    expect_plans(&arena, mapped, runs);
    const struct layout_plan_options options = { 0 };
    cr_expect_not(digest_equal(layout_plan_key(runs, mapped, &options),
                               layout_plan_key(runs, runs, &options)),
                  "another map is another plan");
    const struct layout_experts lacking[] = { { LAYOUT_NONE, 3, robin, 6 } };
    spec.maps = lacking;
    spec.maps_count = 1;
    struct layout *none;
    struct baton_status st = layout_expand(&spec, &arena, &none);
    cr_expect_str_eq(st.message, "layout s: gap: layers.0.experts.5.w: [0:1] is on no rank");
    free(arena.data);
}

/* Bug report C8: five words; eight rows here, six there; the padding is nobody's. */
Test(layout_rules, pads_the_vocabulary_once)
{
    struct baton_arena arena = arena_make();
    const struct layout_tensor_options embed = VECTOR("e", 5);
    struct layout_rule rule = { .match = "e", .shard = "tp", .pad_to = 8 };
    struct layout_spec spec = { .name = "s",
                                .mesh = { { { "tp", 2 } }, 1 },
                                .tensors = &embed,
                                .tensors_count = 1,
                                .rules = &rule,
                                .rules_count = 1 };
    struct layout *eight = expand(&arena, &spec);
    expect_contents(eight, "e", (const char *[]){ "e0 e1 e2 e3", "e4 . . .", NULL });
    rule.pad_to = 6;
    struct layout *six = expand(&arena, &spec);
    expect_contents(six, "e", (const char *[]){ "e0 e1 e2", "e3 e4 .", NULL });
    expect_plans(&arena, eight, six);
    rule.pad_to = 16;
    spec.mesh.axes[0].size = 4;
    struct layout *wide = expand(&arena, &spec); /* Whole ranks of padding. */
    expect_contents(wide, "e",
                    (const char *[]){ "e0 e1 e2 e3", "e4 . . .", ". . . .", ". . . .", NULL });
    expect_plans(&arena, six, wide);
    rule.pad_to = 0;
    struct layout *odd;
    struct baton_status st = layout_expand(&spec, &arena, &odd);
    cr_expect_str_eq(st.message, "layout s: e: 5 units of 1 do not go evenly into 4 shards (say "
                                 "unit or padTo)");
    free(arena.data);
}

/* FSDP by rows (torch.chunk: 5 rows over 4 are 2, 2, 1, 0) and flat (padded), after TP's columns. */
Test(layout_rules, cuts_for_fsdp)
{
    struct baton_arena arena = arena_make();
    const struct layout_tensor_options w = MATRIX("w", 5, 4);
    const struct layout_rule rule = { .match = "w", .shard = "tp", .dim = 1 };
    struct layout_spec spec = { .name = "s",
                                .mesh = { { { "fsdp", 4 }, { "tp", 2 } }, 2 },
                                .tensors = &w,
                                .tensors_count = 1,
                                .rules = &rule,
                                .rules_count = 1,
                                .fsdp_axis = "fsdp" };
    struct layout *rows = expand(&arena, &spec);
    expect_contents(rows, "w",
                    (const char *[]){ "w0 w1 w4 w5", "w2 w3 w6 w7", "w8 w9 w12 w13",
                                      "w10 w11 w14 w15", "w16 w17", "w18 w19", "-", "-", NULL });
    spec.fsdp = LAYOUT_FSDP_FLAT;
    struct layout *flat = expand(&arena, &spec);
    expect_contents(flat, "w",
                    (const char *[]){ "w0 w1 w4", "w2 w3 w6", "w5 w8 w9", "w7 w10 w11",
                                      "w12 w13 w16", "w14 w15 w18", "w17 . .", "w19 . .", NULL });
    expect_plans(&arena, rows, flat);
    spec.mesh = (struct layout_mesh){ { { "dp", 2 } }, 1 };
    struct layout *whole = expand(&arena, &spec);
    expect_plans(&arena, flat, whole);
    free(arena.data);
}

/* A flat parameter of several tensors, as FSDP1 makes of a layer. */
Test(layout_rules, flattens_a_whole_unit)
{
    struct baton_arena arena = arena_make();
    const struct layout_tensor_options unit[] = { MATRIX("a", 2, 3), VECTOR("b", 2) };
    const struct layout_rule rules[] = { { .match = "*", .into = "flat" } };
    const struct layout_spec spec = { .name = "s",
                                      .mesh = { { { "fsdp", 3 } }, 1 },
                                      .tensors = unit,
                                      .tensors_count = 2,
                                      .rules = rules,
                                      .rules_count = 1,
                                      .fsdp_axis = "fsdp",
                                      .fsdp = LAYOUT_FSDP_FLAT };
    struct layout *flat = expand(&arena, &spec);
    expect_contents(flat, "flat", (const char *[]){ "a0 a1 a2", "a3 a4 a5", "b0 b1 .", NULL });
    free(arena.data);
}

/* Layers go to stages, the rest to the first, the last, or all. */
Test(layout_rules, stages_hold_their_layers)
{
    struct baton_arena arena = arena_make();
    const struct layout_tensor_options tensors[] = {
        VECTOR("e", 1),          VECTOR("layers.0.w", 1), VECTOR("layers.1.w", 1),
        VECTOR("layers.2.w", 1), VECTOR("n", 1),          VECTOR("r", 1)
    };
    const struct layout_rule rules[] = { { .match = "e", .stage = LAYOUT_STAGE_FIRST },
                                         { .match = "n", .stage = LAYOUT_STAGE_LAST } };
    struct layout_spec spec = { .name = "s",
                                .mesh = { { { "pp", 2 } }, 1 },
                                .tensors = tensors,
                                .tensors_count = COUNT(tensors),
                                .rules = rules,
                                .rules_count = 2,
                                .layers = 3 };
    struct layout *even = expand(&arena, &spec);
    expect_contents(even, "e", (const char *[]){ "e0", "-", NULL });
    expect_contents(even, "layers.1.w", (const char *[]){ "layers.1.w0", "-", NULL });
    expect_contents(even, "layers.2.w", (const char *[]){ "-", "layers.2.w0", NULL });
    expect_contents(even, "n", (const char *[]){ "-", "n0", NULL });
    expect_contents(even, "r", (const char *[]){ "r0", "r0", NULL });
    spec.stage_layers = (const uint32_t[]){ 1, 2 };
    struct layout *uneven = expand(&arena, &spec);
    expect_contents(uneven, "layers.1.w", (const char *[]){ "-", "layers.1.w0", NULL });
    expect_plans(&arena, even, uneven);
    spec.stage_layers = (const uint32_t[]){ 1, 1 };
    struct layout *none;
    struct baton_status st = layout_expand(&spec, &arena, &none);
    cr_expect_str_eq(st.message,
                     "layout s: layers.2.w: layer 2 is on no stage: there are 2 layers");
    free(arena.data);
}

/* Experts have a mesh of their own over the same ranks. */
Test(layout_rules, folds_two_meshes)
{
    struct baton_arena arena = arena_make();
    const struct layout_tensor_options tensors[] = { VECTOR("o", 4), VECTOR("experts.0.w", 2),
                                                     VECTOR("experts.1.w", 2) };
    const struct layout_rule rules[] = {
        { .match = "experts.*", .is_expert = true, .shard = "etp" },
        { .match = "o", .shard = "tp" },
    };
    struct layout_spec spec = { .name = "s",
                                .mesh = { { { "tp", 4 } }, 1 },
                                .expert_mesh = { { { "ep", 2 }, { "etp", 2 } }, 2 },
                                .tensors = tensors,
                                .tensors_count = 3,
                                .rules = rules,
                                .rules_count = 2,
                                .experts = 2 };
    struct layout *folded = expand(&arena, &spec);
    expect_contents(folded, "o", (const char *[]){ "o0", "o1", "o2", "o3", NULL });
    expect_contents(folded, "experts.1.w",
                    (const char *[]){ "-", "-", "experts.1.w0", "experts.1.w1", NULL });
    spec.expert_mesh.axes[0].size = 3;
    struct layout *none;
    struct baton_status st = layout_expand(&spec, &arena, &none);
    cr_expect_str_eq(st.message, "layout s: expertMesh: not as many ranks as the mesh has");
    free(arena.data);
}

/* Bug report D7: 1000 rows in blocks of 128 have 8 scale rows; a rank whose rows begin within a
 * block holds that block's scales, too. */
Test(layout_rules, scales_follow_their_values)
{
    struct baton_arena arena = arena_make();
    struct layout_tensor_options tensors[] = { MATRIX("w", 1000, 128), MATRIX("w_scale", 8, 1) };
    tensors[0].scale = "w_scale";
    tensors[0].block[0] = tensors[0].block[1] = 128;
    struct layout_rule rules[] = { { .match = "w", .shard = "tp" }, { .match = "w_scale" } };
    struct layout_spec spec = { .name = "s",
                                .mesh = { { { "tp", 2 } }, 1 },
                                .tensors = tensors,
                                .tensors_count = 2,
                                .rules = rules,
                                .rules_count = 2 };
    (void)expand(&arena, &spec);
    rules[1].shard = "tp"; /* Rows 500 to 511 belong to block 3, which is then on rank 0 alone. */
    struct layout *none;
    struct baton_status st = layout_expand(&spec, &arena, &none);
    cr_expect_str_eq(st.message, "layout s: rank 1 holds values of w without the scales [3:4, 0:1] "
                                 "of w_scale");
    free(arena.data);
}

/* What is read from the first rule of a local is said alike by all of them. */
Test(layout_rules, refuses_rules_of_one_local_that_differ)
{
    static const struct {
        struct layout_rule a, b;
        const char *what;
    } rows[] = {
        { { .shard = "tp" }, { .shard = NULL }, "shard" },
        { { .shard = NULL }, { .shard = "tp" }, "shard" },
        { { .shard = "tp" }, { .shard = "pp" }, "shard" },
        { { .stage = LAYOUT_STAGE_FIRST }, { .stage = LAYOUT_STAGE_LAST }, "stage" },
        { { .is_expert = true }, { .is_expert = false }, "expert" },
        { { .is_stacked = true }, { .is_stacked = false }, "stacked" },
        { { .fuse = LAYOUT_FUSE_PAIRED }, { .fuse = LAYOUT_FUSE_CONCAT }, "fuse" },
        { { .fuse = LAYOUT_FUSE_GROUPED, .groups = 2 },
          { .fuse = LAYOUT_FUSE_GROUPED, .groups = 1 },
          "groups" },
    };
    struct baton_arena arena = arena_make();
    struct layout_tensor_options tensors[] = { MATRIX("experts.0.a", 4, 2),
                                               MATRIX("experts.0.b", 4, 2) };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct layout_rule rules[] = { rows[i].a, rows[i].b };
        rules[0].match = "*.a";
        rules[1].match = "*.b";
        rules[0].into = rules[1].into = "ab";
        struct layout_spec spec = { .name = "s",
                                    .mesh = { { { "pp", 2 }, { "tp", 2 } }, 2 },
                                    .experts = 1,
                                    .tensors = tensors,
                                    .tensors_count = 2,
                                    .rules = rules,
                                    .rules_count = 2 };
        struct layout *none;
        baton_arena_reset(&arena);
        struct baton_status st = layout_expand(&spec, &arena, &none);
        char what[32];
        (void)snprintf(what, sizeof(what), "another '%s'", rows[i].what);
        cr_expect(!baton_ok(&st) && strstr(st.message, what) != NULL, "row %zu: %s", i, st.message);
    }
    free(arena.data);
}

/* No rows: nothing to divide by. */
Test(layout_rules, takes_tensors_without_rows)
{
    struct baton_arena arena = arena_make();
    struct layout_tensor_options tensors[] = { MATRIX("a", 0, 4), MATRIX("b", 4, 1) };
    static const struct layout_rule both[] = {
        { .fuse = LAYOUT_FUSE_GROUPED, .groups = 2 },
        { .unit = 2 },
    };
    for (size_t i = 0; i < COUNT(both); i++) {
        struct layout_rule rule = both[i];
        rule.match = "*";
        rule.into = "ab";
        rule.shard = "tp";
        struct layout_spec spec = { .name = "s",
                                    .mesh = { { { "tp", 2 } }, 1 },
                                    .tensors = tensors,
                                    .tensors_count = 2,
                                    .rules = &rule,
                                    .rules_count = 1 };
        baton_arena_reset(&arena);
        expect_contents(expand(&arena, &spec), "ab", (const char *[]){ "b0 b1", "b2 b3", NULL });
    }
    free(arena.data);
}

/* Ties end at memory, of their own shape and dtype. */
Test(layout_rules, refuses_ties_that_do_not_end)
{
    struct baton_arena arena = arena_make();
    struct layout_tensor_options tensors[] = { MATRIX("a", 4, 2), MATRIX("b", 4, 2),
                                               MATRIX("c", 4, 2) };
    struct layout_spec spec = { .name = "s", .tensors = tensors, .tensors_count = 3 };
    struct layout *none;
    tensors[1].tied = "a";
    tensors[2].tied = "b"; /* By b to a, which has memory. */
    (void)expand(&arena, &spec);
    tensors[0].tied = "c";
    struct baton_status st = layout_expand(&spec, &arena, &none);
    cr_expect_str_eq(st.message, "layout s: a is tied to c, and that to it");
    tensors[0].tied = "a";
    st = layout_expand(&spec, &arena, &none);
    cr_expect_str_eq(st.message, "layout s: a is tied to a, and that to it");
    tensors[0].tied = NULL;
    tensors[1].shape.dims[0] = 3;
    st = layout_expand(&spec, &arena, &none);
    cr_expect_str_eq(st.message, "layout s: b is tied to a, which has another shape or dtype");
    tensors[1].shape.dims[0] = 4;
    tensors[1].dtype = TENSOR_DTYPE_F32;
    st = layout_expand(&spec, &arena, &none);
    cr_expect_str_eq(st.message, "layout s: b is tied to a, which has another shape or dtype");
    free(arena.data);
}

/* Tensors without elements and scalars have partners like any other. */
Test(layout_rules, takes_empty_tensors_and_scalars)
{
    struct baton_arena arena = arena_make();
    const struct layout_tensor_options tensors[] = {
        MATRIX("empty", 0, 4),
        { .name = "scalar", .dtype = TENSOR_DTYPE_F32, .shape = { 0, { 0 } } },
        VECTOR("v", 4),
    };
    const struct layout_rule rules[] = { { .match = "v", .shard = "tp" },
                                         { .match = "empty", .shard = "tp" } };
    struct layout_spec spec = { .name = "s",
                                .mesh = { { { "tp", 2 } }, 1 },
                                .tensors = tensors,
                                .tensors_count = 3,
                                .rules = rules,
                                .rules_count = 2,
                                .fsdp_axis = "fsdp" };
    struct layout *cut = expand(&arena, &spec);
    expect_contents(cut, "empty", (const char *[]){ "-", "-", NULL });
    expect_contents(cut, "scalar", (const char *[]){ "scalar0", "scalar0", NULL });
    spec.mesh = (struct layout_mesh){ { { "fsdp", 3 } }, 1 };
    struct layout *sharded = expand(&arena, &spec);
    expect_contents(sharded, "scalar", (const char *[]){ "scalar0", "-", "-", NULL });
    expect_plans(&arena, cut, sharded);
    free(arena.data);
}
