/* family_rules.c -- one table for all families and styles; see family_rules.h. */
#include "transport/layout/family_rules.h"

#include <string.h>

/* Which number of the family keeps rows together. */
enum unit {
    UNIT_NONE,
    UNIT_HEAD,   /* head_dim */
    UNIT_QUERY,  /* nope_dim + rope_dim */
    UNIT_KV_OUT, /* nope_dim + v_dim */
};

enum cut {
    CUT_NONE,
    CUT_ROWS,
    CUT_COLUMNS,
};

/* A row serves weights, biases and scales of the same layer: the last star. */
struct row {
    const char *match;
    const char *vllm;     /* Null: the tensor's own name. */
    const char *megatron; /* Likewise. */
    uint32_t order;
    enum cut cut;
    enum unit unit;
    bool is_qkv; /* Megatron: group by group. */
    bool is_expert;
    enum layout_stage stage;
    const char *atomic;
};

/* The first that fits counts. */
static const struct row rows[] = {
    { "*.mlp.experts.*.gate_proj.*", "$1.mlp.experts.w13_$3", "$1.mlp.experts.$2.linear_fc1.$3", 0,
      CUT_ROWS, UNIT_NONE, false, true, LAYOUT_STAGE_AUTO, NULL },
    { "*.mlp.experts.*.up_proj.*", "$1.mlp.experts.w13_$3", "$1.mlp.experts.$2.linear_fc1.$3", 1,
      CUT_ROWS, UNIT_NONE, false, true, LAYOUT_STAGE_AUTO, NULL },
    { "*.mlp.experts.*.down_proj.*", "$1.mlp.experts.w2_$3", "$1.mlp.experts.$2.linear_fc2.$3", 0,
      CUT_COLUMNS, UNIT_NONE, false, true, LAYOUT_STAGE_AUTO, NULL },
    { "*.self_attn.q_a_proj.*", "$1.self_attn.fused_qkv_a_proj.$2",
      "$1.self_attn.linear_q_down_proj.$2", 0, CUT_NONE, UNIT_NONE, false, false, LAYOUT_STAGE_AUTO,
      "$1.self_attn.fused_qkv_a_proj" },
    { "*.self_attn.kv_a_proj_with_mqa.*", "$1.self_attn.fused_qkv_a_proj.$2",
      "$1.self_attn.linear_kv_down_proj.$2", 1, CUT_NONE, UNIT_NONE, false, false,
      LAYOUT_STAGE_AUTO, "$1.self_attn.fused_qkv_a_proj" },
    { "*.self_attn.q_b_proj.*", NULL, "$1.self_attn.linear_q_up_proj.$2", 0, CUT_ROWS, UNIT_QUERY,
      false, false, LAYOUT_STAGE_AUTO, NULL },
    { "*.self_attn.kv_b_proj.*", NULL, "$1.self_attn.linear_kv_up_proj.$2", 0, CUT_ROWS,
      UNIT_KV_OUT, false, false, LAYOUT_STAGE_AUTO, NULL },
    { "*.self_attn.q_proj.*", "$1.self_attn.qkv_proj.$2", "$1.self_attn.linear_qkv.$2", 0, CUT_ROWS,
      UNIT_HEAD, true, false, LAYOUT_STAGE_AUTO, NULL },
    { "*.self_attn.k_proj.*", "$1.self_attn.qkv_proj.$2", "$1.self_attn.linear_qkv.$2", 1, CUT_ROWS,
      UNIT_HEAD, true, false, LAYOUT_STAGE_AUTO, NULL },
    { "*.self_attn.v_proj.*", "$1.self_attn.qkv_proj.$2", "$1.self_attn.linear_qkv.$2", 2, CUT_ROWS,
      UNIT_HEAD, true, false, LAYOUT_STAGE_AUTO, NULL },
    { "*.self_attn.o_proj.*", NULL, "$1.self_attn.linear_proj.$2", 0, CUT_COLUMNS, UNIT_NONE, false,
      false, LAYOUT_STAGE_AUTO, NULL },
    { "*.gate_proj.*", "$1.gate_up_proj.$2", "$1.linear_fc1.$2", 0, CUT_ROWS, UNIT_NONE, false,
      false, LAYOUT_STAGE_AUTO, NULL },
    { "*.up_proj.*", "$1.gate_up_proj.$2", "$1.linear_fc1.$2", 1, CUT_ROWS, UNIT_NONE, false, false,
      LAYOUT_STAGE_AUTO, NULL },
    { "*.down_proj.*", NULL, "$1.linear_fc2.$2", 0, CUT_COLUMNS, UNIT_NONE, false, false,
      LAYOUT_STAGE_AUTO, NULL },
    { "model.embed_tokens.weight", NULL, "embedding.word_embeddings.weight", 0, CUT_ROWS, UNIT_NONE,
      false, false, LAYOUT_STAGE_FIRST, NULL },
    { "lm_head.weight", NULL, "output_layer.weight", 0, CUT_ROWS, UNIT_NONE, false, false,
      LAYOUT_STAGE_LAST, NULL },
    { "model.norm.weight", NULL, "decoder.final_layernorm.weight", 0, CUT_NONE, UNIT_NONE, false,
      false, LAYOUT_STAGE_LAST, NULL },
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static uint32_t unit_of(const struct layout_family *family, enum unit unit)
{
    switch (unit) {
    case UNIT_HEAD:
        return family->kind == LAYOUT_KIND_MLA ? family->nope_dim + family->rope_dim
                                               : family->head_dim;
    case UNIT_QUERY: return family->nope_dim + family->rope_dim;
    case UNIT_KV_OUT: return family->nope_dim + family->v_dim;
    case UNIT_NONE: break;
    }
    return 0;
}

static bool has_stages(const struct layout_spec *spec)
{
    const char *name = spec->stage_axis != NULL ? spec->stage_axis : "pp";
    for (uint32_t a = 0; a < spec->mesh.count; a++) {
        if (strcmp(spec->mesh.axes[a].name, name) == 0) {
            return spec->mesh.axes[a].size > 1;
        }
    }
    return false;
}

static struct layout_rule rule_of(const struct layout_family *family, const struct row *row,
                                  const struct layout_spec *spec)
{
    bool is_latent = family->kind == LAYOUT_KIND_MLA;
    struct layout_rule rule = { .match = row->match,
                                .order = row->order,
                                .dim = row->cut == CUT_COLUMNS ? 1 : 0,
                                .unit = unit_of(family, row->unit),
                                .is_expert = row->is_expert,
                                .stage = row->stage,
                                .atomic = row->atomic };
    if (row->cut != CUT_NONE) {
        rule.shard = row->is_expert && spec->expert_mesh.count > 0 ? "etp" : "tp";
    }
    if (family->style == LAYOUT_STYLE_VLLM) {
        rule.into = row->is_qkv && is_latent ? NULL : row->vllm;
        rule.is_stacked = row->is_expert;
    } else if (family->style == LAYOUT_STYLE_MEGATRON) {
        rule.into = row->is_qkv && is_latent ? "$1.self_attn.linear_q_proj.$2" : row->megatron;
        if (row->is_qkv && !is_latent) {
            rule.fuse = LAYOUT_FUSE_GROUPED;
            rule.groups = family->kv_heads;
        }
    }
    if (row->stage != LAYOUT_STAGE_AUTO && row->cut == CUT_ROWS) {
        rule.pad_to = family->vocab_padded;
        rule.is_copied = has_stages(spec);
    }
    return rule;
}

/* 'into' of a weight's scales: its last star, "$2", is their name. */
static const char *scale_into(const char *into, struct baton_arena *arena, bool *fits)
{
    static const char name[] = "weight_scale_inv";
    size_t size = into != NULL ? strlen(into) - 2 : 0;
    char *text = into != NULL ? baton_arena_take(arena, size + sizeof(name), 1) : NULL;
    if (text == NULL) {
        *fits = *fits && into == NULL;
        return NULL;
    }
    memcpy(text, into, size);
    memcpy(text + size, name, sizeof(name));
    return text;
}

/* Scales are cut by blocks: where a head is whole blocks, heads stay together there, too. */
static bool add_scales(const struct layout_family *family, struct baton_arena *arena,
                       struct layout_rule *rules, size_t *count)
{
    static const char *const names[][2] = {
        { "*.self_attn.q_b_proj.*", "*.self_attn.q_b_proj.weight_scale_inv" },
        { "*.self_attn.kv_b_proj.*", "*.self_attn.kv_b_proj.weight_scale_inv" },
        { "*.self_attn.q_proj.*", "*.self_attn.q_proj.weight_scale_inv" },
        { "*.self_attn.k_proj.*", "*.self_attn.k_proj.weight_scale_inv" },
        { "*.self_attn.v_proj.*", "*.self_attn.v_proj.weight_scale_inv" },
    };
    size_t weights = family->block > 0 ? *count : 0;
    bool fits = true;
    for (size_t i = 0; i < weights; i++) {
        for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
            if (strcmp(rules[i].match, names[n][0]) == 0) {
                struct layout_rule *scale = &rules[(*count)++];
                *scale = rules[i];
                scale->match = names[n][1];
                scale->into = scale_into(rules[i].into, arena, &fits);
                scale->unit =
                    rules[i].unit % family->block == 0 ? rules[i].unit / family->block : 0;
            }
        }
    }
    return fits;
}

const struct layout_rule *family_rules(const struct layout_family *family,
                                       const struct layout_spec *spec, struct baton_arena *arena,
                                       size_t *count)
{
    struct layout_rule weights[2 * ROWS],
        *rules = baton_arena_take(arena, 2 * ROWS, sizeof(*rules));
    size_t all = ROWS;
    if (rules == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < ROWS; i++) {
        weights[i] = rule_of(family, &rows[i], spec);
    }
    if (!add_scales(family, arena, weights, &all)) {
        return NULL;
    }
    memcpy(rules, weights + ROWS, (all - ROWS) * sizeof(*rules)); /* Scales' rules come first. */
    memcpy(rules + (all - ROWS), weights, ROWS * sizeof(*rules));
    *count = all;
    return rules;
}
