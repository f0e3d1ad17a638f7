/* schema.h -- a layout file as libcyaml reads it; for layout_file.c and convert.c.
 *
 * Depends on: api/config. */
#ifndef TRANSPORT_LAYOUT_FILE_SCHEMA_H
#define TRANSPORT_LAYOUT_FILE_SCHEMA_H

#include "api/config/config.h"
#include "transport/layout/rules.h"

struct file_axis {
    char *axis;
    uint32_t size;
};

struct file_family {
    char *kind, *style, *dtype;
    uint32_t layers, dense_layers, hidden, heads, kv_heads, head_dim, intermediate;
    uint32_t vocab, vocab_padded, experts, expert_intermediate, shared_intermediate;
    uint32_t q_lora, kv_lora, nope_dim, rope_dim, v_dim, block;
    bool tied, qkv_bias, qk_norm, router_bias;
};

struct file_tensor {
    char *name, *dtype, *atomic, *tied, *scale;
    uint64_t *shape;
    uint32_t shape_count;
    uint32_t *block;
    uint32_t block_count;
    uint32_t layers, experts;
};

struct file_rule {
    char *match, *into, *fuse, *shard, *stage, *atomic;
    uint32_t order, groups, dim, unit, pad_to;
    bool expert, stacked, copied, cast, keep;
};

struct file_map {
    uint32_t *layer; /* Null: all layers. */
    int32_t *slots;
    uint32_t slots_count;
};

struct file_experts {
    char *axis;
    uint32_t count;
    struct file_map *maps;
    uint32_t maps_count;
};

struct file_stages {
    char *axis;
    uint32_t *layers;
    uint32_t layers_count;
};

struct file_fsdp {
    char *axis, *mode;
};

struct file_rename {
    char *match, *into;
};

struct file_metadata {
    char *name;
};

struct file_layout {
    char *api_version, *kind;
    struct file_metadata metadata;
    struct file_axis *mesh, *expert_mesh;
    uint32_t mesh_count, expert_mesh_count;
    uint32_t ranks_per_link;
    struct file_family *family;
    struct file_tensor *tensors;
    struct file_rule *rules;
    struct file_rename *renames;
    char **drops;
    uint32_t tensors_count, rules_count, renames_count, drops_count;
    struct file_experts experts;
    struct file_stages stages;
    struct file_fsdp fsdp;
};

extern const cyaml_schema_value_t layout_file_schema;

/* convert.c: from the file to a sealed layout. */
BATON_MUST_USE struct baton_status layout_file_convert(const struct file_layout *file,
                                                       struct baton_arena *arena,
                                                       struct layout **out);

#endif /* schema.h */
