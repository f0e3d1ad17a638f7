/* schema.c -- the keys of a layout file; see schema.h. */
#include "transport/layout_file/schema.h"

#define TEXT(key, type, member)                                                                    \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, member, 0, 511)
#define NAME(key, type, member)                                                                    \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER, type, member, 1, 511)
#define NUMBER(key, type, member) CYAML_FIELD_UINT(key, CYAML_FLAG_OPTIONAL, type, member)
#define FLAG(key, type, member)   CYAML_FIELD_BOOL(key, CYAML_FLAG_OPTIONAL, type, member)
#define LIST(key, type, member, entry, max)                                                        \
    CYAML_FIELD_SEQUENCE(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, member, entry, 0, max)

enum { SLOTS_MAX = 1 << 16, STAGES_MAX = 1 << 12, RULES_MAX = 1024, TENSORS_MAX = 1 << 16 };

static const cyaml_schema_value_t u32_schema = { CYAML_VALUE_UINT(CYAML_FLAG_DEFAULT, uint32_t) };
static const cyaml_schema_value_t u64_schema = { CYAML_VALUE_UINT(CYAML_FLAG_DEFAULT, uint64_t) };
static const cyaml_schema_value_t i32_schema = { CYAML_VALUE_INT(CYAML_FLAG_DEFAULT, int32_t) };
static const cyaml_schema_value_t text_schema = { CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char *, 1,
                                                                     511) };

static const cyaml_schema_field_t axis_fields[] = {
    NAME("axis", struct file_axis, axis),
    CYAML_FIELD_UINT("size", CYAML_FLAG_DEFAULT, struct file_axis, size), CYAML_FIELD_END
};
static const cyaml_schema_value_t axis_schema = { CYAML_VALUE_MAPPING(
    CYAML_FLAG_DEFAULT, struct file_axis, axis_fields) };

static const cyaml_schema_field_t family_fields[] = {
    NAME("kind", struct file_family, kind),
    TEXT("style", struct file_family, style),
    TEXT("dtype", struct file_family, dtype),
    NUMBER("layers", struct file_family, layers),
    NUMBER("denseLayers", struct file_family, dense_layers),
    NUMBER("hidden", struct file_family, hidden),
    NUMBER("heads", struct file_family, heads),
    NUMBER("kvHeads", struct file_family, kv_heads),
    NUMBER("headDim", struct file_family, head_dim),
    NUMBER("intermediate", struct file_family, intermediate),
    NUMBER("vocab", struct file_family, vocab),
    NUMBER("vocabPadded", struct file_family, vocab_padded),
    NUMBER("experts", struct file_family, experts),
    NUMBER("expertIntermediate", struct file_family, expert_intermediate),
    NUMBER("sharedIntermediate", struct file_family, shared_intermediate),
    NUMBER("qLora", struct file_family, q_lora),
    NUMBER("kvLora", struct file_family, kv_lora),
    NUMBER("nopeDim", struct file_family, nope_dim),
    NUMBER("ropeDim", struct file_family, rope_dim),
    NUMBER("vDim", struct file_family, v_dim),
    NUMBER("block", struct file_family, block),
    FLAG("tied", struct file_family, tied),
    FLAG("qkvBias", struct file_family, qkv_bias),
    FLAG("qkNorm", struct file_family, qk_norm),
    FLAG("routerBias", struct file_family, router_bias),
    CYAML_FIELD_END
};

static const cyaml_schema_field_t tensor_fields[] = {
    NAME("name", struct file_tensor, name),
    NAME("dtype", struct file_tensor, dtype),
    CYAML_FIELD_SEQUENCE("shape", CYAML_FLAG_POINTER, struct file_tensor, shape, &u64_schema, 0,
                         BATON_TENSOR_RANK_MAX),
    NUMBER("layers", struct file_tensor, layers),
    NUMBER("experts", struct file_tensor, experts),
    TEXT("atomic", struct file_tensor, atomic),
    TEXT("tied", struct file_tensor, tied),
    TEXT("scale", struct file_tensor, scale),
    LIST("block", struct file_tensor, block, &u32_schema, 2),
    CYAML_FIELD_END
};
static const cyaml_schema_value_t tensor_schema = { CYAML_VALUE_MAPPING(
    CYAML_FLAG_DEFAULT, struct file_tensor, tensor_fields) };

static const cyaml_schema_field_t rule_fields[] = { NAME("match", struct file_rule, match),
                                                    TEXT("into", struct file_rule, into),
                                                    TEXT("fuse", struct file_rule, fuse),
                                                    TEXT("shard", struct file_rule, shard),
                                                    TEXT("stage", struct file_rule, stage),
                                                    TEXT("atomic", struct file_rule, atomic),
                                                    NUMBER("order", struct file_rule, order),
                                                    NUMBER("groups", struct file_rule, groups),
                                                    NUMBER("dim", struct file_rule, dim),
                                                    NUMBER("unit", struct file_rule, unit),
                                                    NUMBER("padTo", struct file_rule, pad_to),
                                                    FLAG("expert", struct file_rule, expert),
                                                    FLAG("stacked", struct file_rule, stacked),
                                                    FLAG("copied", struct file_rule, copied),
                                                    FLAG("cast", struct file_rule, cast),
                                                    FLAG("keep", struct file_rule, keep),
                                                    CYAML_FIELD_END };
static const cyaml_schema_value_t rule_schema = { CYAML_VALUE_MAPPING(
    CYAML_FLAG_DEFAULT, struct file_rule, rule_fields) };

static const cyaml_schema_field_t map_fields[] = {
    CYAML_FIELD_UINT_PTR("layer", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct file_map, layer),
    CYAML_FIELD_SEQUENCE("slots", CYAML_FLAG_POINTER, struct file_map, slots, &i32_schema, 1,
                         SLOTS_MAX),
    CYAML_FIELD_END
};
static const cyaml_schema_value_t map_schema = { CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT,
                                                                     struct file_map, map_fields) };

static const cyaml_schema_field_t experts_fields[] = {
    TEXT("axis", struct file_experts, axis), NUMBER("count", struct file_experts, count),
    LIST("maps", struct file_experts, maps, &map_schema, STAGES_MAX), CYAML_FIELD_END
};

static const cyaml_schema_field_t stages_fields[] = {
    TEXT("axis", struct file_stages, axis),
    LIST("layers", struct file_stages, layers, &u32_schema, STAGES_MAX), CYAML_FIELD_END
};

static const cyaml_schema_field_t fsdp_fields[] = { NAME("axis", struct file_fsdp, axis),
                                                    TEXT("mode", struct file_fsdp, mode),
                                                    CYAML_FIELD_END };

static const cyaml_schema_field_t rename_fields[] = { NAME("match", struct file_rename, match),
                                                      NAME("into", struct file_rename, into),
                                                      CYAML_FIELD_END };
static const cyaml_schema_value_t rename_schema = { CYAML_VALUE_MAPPING(
    CYAML_FLAG_DEFAULT, struct file_rename, rename_fields) };

static const cyaml_schema_field_t metadata_fields[] = {
    CYAML_FIELD_STRING_PTR("name", CYAML_FLAG_POINTER, struct file_metadata, name, 1, 63),
    CYAML_FIELD_END
};

static const cyaml_schema_field_t layout_fields[] = {
    TEXT("apiVersion", struct file_layout, api_version),
    TEXT("kind", struct file_layout, kind),
    CYAML_FIELD_MAPPING("metadata", CYAML_FLAG_DEFAULT, struct file_layout, metadata,
                        metadata_fields),
    LIST("mesh", struct file_layout, mesh, &axis_schema, LAYOUT_AXES_MAX),
    LIST("expertMesh", struct file_layout, expert_mesh, &axis_schema, LAYOUT_AXES_MAX),
    NUMBER("ranksPerLink", struct file_layout, ranks_per_link),
    CYAML_FIELD_MAPPING_PTR("family", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct file_layout,
                            family, family_fields),
    LIST("tensors", struct file_layout, tensors, &tensor_schema, TENSORS_MAX),
    LIST("rules", struct file_layout, rules, &rule_schema, RULES_MAX),
    LIST("rename", struct file_layout, renames, &rename_schema, RULES_MAX),
    LIST("drop", struct file_layout, drops, &text_schema, RULES_MAX),
    CYAML_FIELD_MAPPING("experts", CYAML_FLAG_OPTIONAL, struct file_layout, experts,
                        experts_fields),
    CYAML_FIELD_MAPPING("stages", CYAML_FLAG_OPTIONAL, struct file_layout, stages, stages_fields),
    CYAML_FIELD_MAPPING("fsdp", CYAML_FLAG_OPTIONAL, struct file_layout, fsdp, fsdp_fields),
    CYAML_FIELD_END
};

const cyaml_schema_value_t layout_file_schema = { CYAML_VALUE_MAPPING(
    CYAML_FLAG_POINTER, struct file_layout, layout_fields) };
