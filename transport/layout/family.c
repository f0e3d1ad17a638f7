/* family.c -- the tensors of a family; see family.h. */
#include "transport/layout/family.h"

#include <stdio.h>
#include <string.h>

#include "transport/layout/family_rules.h"
#include "transport/layout/pool.h"

enum { PER_EXPERT = 6, PER_LAYER = 40, OUTSIDE = 4 };

/* Tensors as they are made. */
struct maker {
    const struct layout_family *family;
    struct baton_arena *arena;
    struct layout_tensor_options *tensors;
    size_t count;
    size_t capacity;
    bool is_full;
    struct layout_tensor_options spare; /* Takes what does not fit. */
};

static const char *copy_text(struct maker *maker, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = baton_arena_take(maker->arena, bytes, 1);
    if (copy == NULL) {
        maker->is_full = true;
        return "";
    }
    return memcpy(copy, text, bytes);
}

static struct layout_tensor_options *add(struct maker *maker, const char *name,
                                         enum tensor_dtype dtype, uint64_t rows, uint64_t columns)
{
    if (maker->count == maker->capacity) {
        maker->is_full = true;
        return &maker->spare;
    }
    struct layout_tensor_options *tensor = &maker->tensors[maker->count++];
    *tensor = (struct layout_tensor_options){ .name = copy_text(maker, name), .dtype = dtype };
    tensor->shape.rank = columns > 0 ? 2 : 1;
    tensor->shape.dims[0] = rows;
    tensor->shape.dims[1] = columns;
    return tensor;
}

/* A weight of a linear layer: quantised, if the family is, with its scales as one atomic set. */
static void add_linear(struct maker *maker, const char *prefix, const char *name, uint64_t rows,
                       uint64_t columns)
{
    char text[BATON_TENSOR_NAME_BYTES];
    uint32_t block = maker->family->block;
    (void)snprintf(text, sizeof(text), "%s%s.weight", prefix, name);
    struct layout_tensor_options *value =
        add(maker, text, block > 0 ? TENSOR_DTYPE_F8_E4M3 : maker->family->dtype, rows, columns);
    if (block == 0) {
        return;
    }
    (void)snprintf(text, sizeof(text), "%s%s.weight_scale_inv", prefix, name);
    struct layout_tensor_options *scale = add(
        maker, text, TENSOR_DTYPE_F32, (rows + block - 1) / block, (columns + block - 1) / block);
    value->scale = scale->name;
    value->block[0] = value->block[1] = block;
    value->atomic = scale->atomic = value->name;
}

static void add_vector(struct maker *maker, const char *prefix, const char *name, uint64_t size)
{
    char text[BATON_TENSOR_NAME_BYTES];
    (void)snprintf(text, sizeof(text), "%s%s", prefix, name);
    (void)add(maker, text, maker->family->dtype, size, 0);
}

static void add_attention(struct maker *maker, const char *prefix)
{
    const struct layout_family *f = maker->family;
    uint64_t q = (uint64_t)f->heads * f->head_dim;
    uint64_t kv = (uint64_t)f->kv_heads * f->head_dim;
    add_linear(maker, prefix, "self_attn.q_proj", q, f->hidden);
    add_linear(maker, prefix, "self_attn.k_proj", kv, f->hidden);
    add_linear(maker, prefix, "self_attn.v_proj", kv, f->hidden);
    if (f->has_qkv_bias) {
        add_vector(maker, prefix, "self_attn.q_proj.bias", q);
        add_vector(maker, prefix, "self_attn.k_proj.bias", kv);
        add_vector(maker, prefix, "self_attn.v_proj.bias", kv);
    }
    if (f->has_qk_norm) {
        add_vector(maker, prefix, "self_attn.q_norm.weight", f->head_dim);
        add_vector(maker, prefix, "self_attn.k_norm.weight", f->head_dim);
    }
    add_linear(maker, prefix, "self_attn.o_proj", f->hidden, q);
}

static void add_latent_attention(struct maker *maker, const char *prefix)
{
    const struct layout_family *f = maker->family;
    uint64_t q = (uint64_t)f->heads * (f->nope_dim + f->rope_dim);
    if (f->q_lora > 0) {
        add_linear(maker, prefix, "self_attn.q_a_proj", f->q_lora, f->hidden);
        add_vector(maker, prefix, "self_attn.q_a_layernorm.weight", f->q_lora);
        add_linear(maker, prefix, "self_attn.q_b_proj", q, f->q_lora);
    } else {
        add_linear(maker, prefix, "self_attn.q_proj", q, f->hidden);
    }
    add_linear(maker, prefix, "self_attn.kv_a_proj_with_mqa", f->kv_lora + f->rope_dim, f->hidden);
    add_vector(maker, prefix, "self_attn.kv_a_layernorm.weight", f->kv_lora);
    add_linear(maker, prefix, "self_attn.kv_b_proj", (uint64_t)f->heads * (f->nope_dim + f->v_dim),
               f->kv_lora);
    add_linear(maker, prefix, "self_attn.o_proj", f->hidden, (uint64_t)f->heads * f->v_dim);
}

static void add_mlp(struct maker *maker, const char *prefix, const char *where, uint64_t width)
{
    char text[BATON_TENSOR_NAME_BYTES];
    (void)snprintf(text, sizeof(text), "%s%s", prefix, where);
    add_linear(maker, text, "gate_proj", width, maker->family->hidden);
    add_linear(maker, text, "up_proj", width, maker->family->hidden);
    add_linear(maker, text, "down_proj", maker->family->hidden, width);
}

static void add_experts(struct maker *maker, const char *prefix)
{
    const struct layout_family *f = maker->family;
    char text[BATON_TENSOR_NAME_BYTES];
    (void)snprintf(text, sizeof(text), "%smlp.gate.weight", prefix);
    (void)add(maker, text, f->dtype, f->experts, f->hidden); /* Never quantised. */
    if (f->has_router_bias) {
        (void)snprintf(text, sizeof(text), "%smlp.gate.e_score_correction_bias", prefix);
        (void)add(maker, text, TENSOR_DTYPE_F32, f->experts, 0);
    }
    for (uint32_t e = 0; e < f->experts && !maker->is_full; e++) {
        (void)snprintf(text, sizeof(text), "mlp.experts.%u.", e);
        add_mlp(maker, prefix, text, f->expert_intermediate);
    }
    if (f->shared_intermediate > 0) {
        add_mlp(maker, prefix, "mlp.shared_experts.", f->shared_intermediate);
    }
}

static void add_layer(struct maker *maker, uint32_t layer)
{
    const struct layout_family *f = maker->family;
    char prefix[40];
    (void)snprintf(prefix, sizeof(prefix), "model.layers.%u.", layer);
    add_vector(maker, prefix, "input_layernorm.weight", f->hidden);
    if (f->kind == LAYOUT_KIND_MLA) {
        add_latent_attention(maker, prefix);
    } else {
        add_attention(maker, prefix);
    }
    add_vector(maker, prefix, "post_attention_layernorm.weight", f->hidden);
    if (f->kind == LAYOUT_KIND_DENSE || layer < f->dense_layers) {
        add_mlp(maker, prefix, "mlp.", f->intermediate);
    } else {
        add_experts(maker, prefix);
    }
}

static void add_all(struct maker *maker)
{
    const struct layout_family *f = maker->family;
    (void)add(maker, "model.embed_tokens.weight", f->dtype, f->vocab, f->hidden);
    for (uint32_t l = 0; l < f->layers && !maker->is_full; l++) {
        add_layer(maker, l);
    }
    add_vector(maker, "model.", "norm.weight", f->hidden);
    struct layout_tensor_options *head =
        add(maker, "lm_head.weight", f->dtype, f->vocab, f->hidden);
    head->tied = f->is_tied ? "model.embed_tokens.weight" : NULL;
}

static struct baton_status missing(const char *number)
{
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                             "family.%s: must be given, and not be 0", number);
}

static struct baton_status check(const struct layout_family *f)
{
    bool is_mla = f->kind == LAYOUT_KIND_MLA;
    bool has_experts = f->kind != LAYOUT_KIND_DENSE && f->dense_layers < f->layers;
    bool has_mlp = f->kind == LAYOUT_KIND_DENSE || f->dense_layers > 0;
    const struct {
        bool is_needed;
        uint32_t number;
        const char *name;
    } rows[] = {
        { true, f->layers, "layers" },
        { true, f->hidden, "hidden" },
        { true, f->heads, "heads" },
        { true, f->vocab, "vocab" },
        { !is_mla, f->kv_heads, "kvHeads" },
        { !is_mla, f->head_dim, "headDim" },
        { has_mlp, f->intermediate, "intermediate" },
        { has_experts, f->experts, "experts" },
        { has_experts, f->expert_intermediate, "expertIntermediate" },
        { is_mla, f->kv_lora, "kvLora" },
        { is_mla, f->nope_dim, "nopeDim" },
        { is_mla, f->rope_dim, "ropeDim" },
        { is_mla, f->v_dim, "vDim" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].is_needed && rows[i].number == 0) {
            return missing(rows[i].name);
        }
    }
    if (f->layers > BATON_TENSORS_MAX || f->experts > BATON_TENSORS_MAX) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "family: more than a million layers or experts");
    }
    if (!is_mla && f->heads % f->kv_heads != 0) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "family.kvHeads: %u heads are not evenly shared by %u", f->heads,
                                 f->kv_heads);
    }
    return baton_status_ok();
}

struct baton_status layout_family_fill(const struct layout_family *family,
                                       struct baton_arena *arena, struct layout_spec *spec)
{
    struct layout_family *kept = baton_arena_take(arena, 1, sizeof(*kept));
    struct maker maker = { .arena = arena };
    if (kept != NULL) {
        *kept = *family;
        kept->head_dim =
            kept->head_dim == 0 && kept->heads > 0 ? kept->hidden / kept->heads : kept->head_dim;
        struct baton_status st = check(kept);
        if (!baton_ok(&st)) {
            return st;
        }
        maker.family = kept;
        uint64_t capacity =
            OUTSIDE + (uint64_t)kept->layers * (PER_LAYER + (uint64_t)PER_EXPERT * kept->experts);
        maker.capacity = capacity < BATON_TENSORS_MAX ? capacity : BATON_TENSORS_MAX;
        maker.tensors = baton_arena_take(arena, maker.capacity, sizeof(*maker.tensors));
    }
    if (maker.tensors != NULL) {
        add_all(&maker);
        spec->tensors = maker.tensors;
        spec->tensors_count = maker.count;
        spec->layers = kept->layers;
        spec->experts = kept->experts;
        spec->rules = family_rules(kept, spec, arena, &spec->rules_count);
    }
    if (maker.tensors == NULL || maker.is_full || spec->rules == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "family: more than a million tensors, or its memory of %zu bytes "
                                 "is full",
                                 arena->capacity);
    }
    return baton_status_ok();
}
