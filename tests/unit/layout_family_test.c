/* layout_family_test.c -- the usual families in all styles and meshes, planned into each other. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/layout_world.h"
#include "transport/layout/family.h"

enum { ARENA_BYTES = 64 << 20 };

static const struct layout_family dense = { .kind = LAYOUT_KIND_DENSE,
                                            .dtype = TENSOR_DTYPE_BF16,
                                            .layers = 3,
                                            .hidden = 8,
                                            .heads = 4,
                                            .kv_heads = 2,
                                            .head_dim = 2,
                                            .intermediate = 8,
                                            .vocab = 10,
                                            .vocab_padded = 16,
                                            .has_qkv_bias = true,
                                            .has_qk_norm = true,
                                            .is_tied = true };
static const struct layout_family moe = { .kind = LAYOUT_KIND_MOE,
                                          .dtype = TENSOR_DTYPE_BF16,
                                          .layers = 3,
                                          .dense_layers = 1,
                                          .hidden = 4,
                                          .heads = 4,
                                          .kv_heads = 2,
                                          .intermediate = 8,
                                          .vocab = 8,
                                          .experts = 8,
                                          .expert_intermediate = 4,
                                          .shared_intermediate = 4,
                                          .has_router_bias = true };
static const struct layout_family mla = { .kind = LAYOUT_KIND_MLA,
                                          .dtype = TENSOR_DTYPE_BF16,
                                          .layers = 2,
                                          .dense_layers = 1,
                                          .hidden = 16,
                                          .heads = 8,
                                          .intermediate = 16,
                                          .vocab = 8,
                                          .experts = 4,
                                          .expert_intermediate = 8,
                                          .shared_intermediate = 8,
                                          .q_lora = 6,
                                          .kv_lora = 4,
                                          .nope_dim = 2,
                                          .rope_dim = 2,
                                          .v_dim = 2,
                                          .block = 2,
                                          .has_router_bias = true };

/* Meshes for dense layers and experts, and how FSDP cuts. */
struct shape {
    const char *name;
    enum layout_style style;
    struct layout_mesh mesh;
    struct layout_mesh expert_mesh;
    const char *fsdp_axis;
    enum layout_fsdp fsdp;
};
static const struct shape shapes[] = {
    { "checkpoint", LAYOUT_STYLE_HF, { .count = 0 }, { .count = 0 }, NULL, LAYOUT_FSDP_ROWS },
    { "vllm tp4",
      LAYOUT_STYLE_VLLM,
      { { { "tp", 4 } }, 1 },
      { .count = 0 },
      NULL,
      LAYOUT_FSDP_ROWS },
    { "vllm tp2 dp2 ep4",
      LAYOUT_STYLE_VLLM,
      { { { "dp", 2 }, { "tp", 2 } }, 2 },
      { { { "ep", 4 } }, 1 },
      NULL,
      LAYOUT_FSDP_ROWS },
    { "megatron pp2 tp2 ep2",
      LAYOUT_STYLE_MEGATRON,
      { { { "pp", 2 }, { "dp", 2 }, { "tp", 2 } }, 3 },
      { { { "pp", 2 }, { "ep", 2 }, { "etp", 2 } }, 3 },
      NULL,
      LAYOUT_FSDP_ROWS },
    { "hf fsdp rows",
      LAYOUT_STYLE_HF,
      { { { "dp", 2 }, { "fsdp", 3 } }, 2 },
      { { { "ep", 2 }, { "fsdp", 3 } }, 2 },
      "fsdp",
      LAYOUT_FSDP_ROWS },
    { "hf fsdp flat",
      LAYOUT_STYLE_HF,
      { { { "fsdp", 4 } }, 1 },
      { .count = 0 },
      "fsdp",
      LAYOUT_FSDP_FLAT },
};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

static struct layout *make(const struct layout_family *family, const struct shape *shape,
                           struct baton_arena *arena)
{
    struct layout_spec spec = { .name = shape->name,
                                .mesh = shape->mesh,
                                .expert_mesh = shape->expert_mesh,
                                .fsdp_axis = shape->fsdp_axis,
                                .fsdp = shape->fsdp };
    struct layout_family styled = *family;
    struct layout *layout = NULL;
    styled.style = shape->style;
    struct baton_status st = layout_family_fill(&styled, arena, &spec);
    if (baton_ok(&st)) {
        st = layout_expand(&spec, arena, &layout);
    }
    cr_assert(baton_ok(&st), "%s: %s", shape->name, st.message);
    return layout;
}

/* Every pair of shapes: each target element arrives once and is the right one. */
static void plan_all(const struct layout_family *family)
{
    static const struct layout_plan_options options;
    struct baton_arena arena = baton_arena_of(malloc(ARENA_BYTES), ARENA_BYTES);
    for (int a = 0; a < SHAPES; a++) {
        for (int b = 0; b < SHAPES; b++) {
            baton_arena_reset(&arena);
            struct layout *source = make(family, &shapes[a], &arena);
            struct layout *target = make(family, &shapes[b], &arena);
            struct layout_plan *plan = NULL;
            struct baton_status st = layout_plan_create(source, target, &options, &arena, &plan);
            cr_assert(baton_ok(&st), "%s", st.message);
            const char *fault = world_perform(source, target, plan);
            cr_expect_null(fault, "%s to %s: %s", shapes[a].name, shapes[b].name, fault);
        }
    }
    free(arena.data);
}

Test(layout_family, dense_goes_everywhere)
{
    plan_all(&dense);
}

Test(layout_family, moe_goes_everywhere)
{
    plan_all(&moe);
}

/* Also quantised: scales lie where their values lie in every mesh. */
Test(layout_family, mla_goes_everywhere)
{
    plan_all(&mla);
}

/* Miles issue 14178: q_a and kv_a, which engines fuse, travel in one bucket, with their scales. */
Test(layout_family, latent_projections_are_one_set)
{
    struct baton_arena arena = baton_arena_of(malloc(ARENA_BYTES), ARENA_BYTES);
    struct layout *layout = make(&mla, &shapes[1], &arena);
    static const char *const names[] = { "model.layers.1.self_attn.q_a_proj.weight",
                                         "model.layers.1.self_attn.q_a_proj.weight_scale_inv",
                                         "model.layers.1.self_attn.kv_a_proj_with_mqa.weight" };
    for (int i = 0; i < 3; i++) {
        uint32_t number = layout_tensor_find(layout, names[i]);
        cr_assert_neq(number, LAYOUT_NONE, "%s", names[i]);
        uint32_t atomic = layout_tensor_get(layout, number)->atomic;
        cr_assert_neq(atomic, LAYOUT_NONE);
        cr_expect_str_eq(layout_text(layout, atomic), "model.layers.1.self_attn.fused_qkv_a_proj");
    }
    free(arena.data);
}

/* Tied heads share the embedding's memory; with several stages the last one has a copy, filled from
 * the embedding. */
Test(layout_family, tied_heads_are_copies_on_the_last_stage)
{
    static const struct layout_plan_options options;
    struct baton_arena arena = baton_arena_of(malloc(ARENA_BYTES), ARENA_BYTES);
    struct layout *whole = make(&dense, &shapes[0], &arena);
    struct layout *staged = make(&dense, &shapes[3], &arena);
    struct world_element elements[WORLD_ELEMENTS_MAX];
    cr_expect_eq(world_elements(whole, 0, "lm_head.weight", elements), 0);
    cr_expect_eq(world_elements(staged, 0, "output_layer.weight", elements), 0, "the first stage");
    cr_expect_eq(world_elements(staged, 4, "output_layer.weight", elements), 8 * 8);
    struct layout_plan *plan = NULL;
    struct baton_status st = layout_plan_create(whole, staged, &options, &arena, &plan);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect_null(world_perform(whole, staged, plan));
    cr_expect_eq(layout_plan_figures(plan)->dropped, 1, "the checkpoint's own head");
    free(arena.data);
}

/* The bytes of a rank of real models: Qwen3-8B on TP 2, against vLLM's own count of a rank
 * (parameters of config.json, tied heads apart). */
Test(layout_family, counts_as_the_config_does)
{
    const struct layout_family qwen = { .kind = LAYOUT_KIND_DENSE,
                                        .style = LAYOUT_STYLE_VLLM,
                                        .dtype = TENSOR_DTYPE_BF16,
                                        .layers = 36,
                                        .hidden = 4096,
                                        .heads = 32,
                                        .kv_heads = 8,
                                        .head_dim = 128,
                                        .intermediate = 12288,
                                        .vocab = 151936,
                                        .has_qk_norm = true };
    const struct shape tp2 = { "tp2", LAYOUT_STYLE_VLLM, { { { "tp", 2 } }, 1 }, { .count = 0 },
                               NULL,  LAYOUT_FSDP_ROWS };
    struct baton_arena arena = baton_arena_of(malloc(ARENA_BYTES), ARENA_BYTES);
    struct layout *layout = make(&qwen, &tp2, &arena);
    uint64_t layer = (4096ull + 2 * 1024) * 4096 + 4096ull * 4096 + 3ull * 12288 * 4096;
    uint64_t vectors = 36 * (2 * 4096 + 2 * 128) + 4096;
    uint64_t expected = 2 * ((36 * layer + 2ull * 151936 * 4096) / 2 + vectors);
    cr_expect_eq(layout_rank_bytes(layout, 0), expected, "%llu",
                 (unsigned long long)layout_rank_bytes(layout, 0));
    cr_expect_eq(layout_rank_bytes(layout, 1), expected);
    cr_expect_eq(layout_tensors_count(layout), 36 * 11 + 3);
    free(arena.data);
}

Test(layout_family, asks_for_what_is_missing)
{
    struct baton_arena arena = baton_arena_of(malloc(ARENA_BYTES), ARENA_BYTES);
    struct layout_family lacking = moe;
    struct layout_spec spec = { .name = "s" };
    lacking.experts = 0;
    struct baton_status st = layout_family_fill(&lacking, &arena, &spec);
    cr_expect_str_eq(st.message, "family.experts: must be given, and not be 0");
    lacking = moe;
    lacking.kv_heads = 3;
    st = layout_family_fill(&lacking, &arena, &spec);
    cr_expect_str_eq(st.message, "family.kvHeads: 4 heads are not evenly shared by 3");
    free(arena.data);
}
