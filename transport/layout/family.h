/* family.h -- tensors and rules of the usual model families, from the numbers of a config.json.
 *
 * Tensors have the names that Hugging Face checkpoints have.  The style says what locals are called
 * and how they are fused: 'hf' (as the checkpoint), 'vllm' (qkv_proj, gate_up_proj, w13 and w2 of
 * all experts of a rank), 'megatron' (linear_qkv group by group, linear_fc1, each expert apart).
 * The axes that the rules cut along are "tp" and, for experts in a mesh of their own, "etp".
 *
 * Depends on: rules.h.  Pure: all memory from the given arena.  Threads: an object belongs to one
 * thread.  Ownership: what is filled in belongs to the arena. */
#ifndef TRANSPORT_LAYOUT_FAMILY_H
#define TRANSPORT_LAYOUT_FAMILY_H

#include "transport/layout/rules.h"

enum layout_kind {
    LAYOUT_KIND_DENSE, /* Llama, Qwen2, Qwen3. */
    LAYOUT_KIND_MOE,   /* Qwen3-MoE, GLM-4.5: attention as above, routed and shared experts. */
    LAYOUT_KIND_MLA,   /* DeepSeek-V3, Kimi-K2: latent attention, routed and shared experts. */
};

enum layout_style {
    LAYOUT_STYLE_HF,
    LAYOUT_STYLE_VLLM,
    LAYOUT_STYLE_MEGATRON,
};

struct layout_family {
    enum layout_kind kind;
    enum layout_style style;
    enum tensor_dtype dtype;
    uint32_t layers;
    uint32_t dense_layers; /* The first ones, without experts (MoE and MLA). */
    uint32_t hidden;
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim; /* 0: hidden / heads. */
    uint32_t intermediate;
    uint32_t vocab;
    uint32_t vocab_padded; /* Rows of the padded vocabulary; 0: none. */
    uint32_t experts;
    uint32_t expert_intermediate;
    uint32_t shared_intermediate; /* 0: no shared expert. */
    uint32_t q_lora;              /* MLA; 0: q_proj. */
    uint32_t kv_lora;
    uint32_t nope_dim;
    uint32_t rope_dim;
    uint32_t v_dim;
    uint32_t block; /* FP8 values in square blocks of so many, F32 scales; 0: not quantised. */
    bool is_tied;   /* lm_head shares embed_tokens. */
    bool has_qkv_bias;
    bool has_qk_norm;
    bool has_router_bias;
};

/* Fills tensors, rules, layers and experts of 'spec'; its mesh, axes and maps stay as they are.
 * Refuses numbers that are missing or do not go together, by name. */
BATON_MUST_USE struct baton_status layout_family_fill(const struct layout_family *family,
                                                      struct baton_arena *arena,
                                                      struct layout_spec *spec);

#endif /* family.h */
