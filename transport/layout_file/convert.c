/* convert.c -- from a parsed file to a layout; words are checked here, by key. */
#include <stdio.h>
#include <string.h>

#include "transport/layout/family.h"
#include "transport/layout_file/schema.h"

/* A conversion under way: what the spec points to lies in the arena. */
struct conversion {
    const struct file_layout *file;
    struct baton_arena *arena;
    struct layout_spec spec;
    struct layout_tensor_options *tensors;
    size_t tensors_count;
};

static struct baton_status bad_word(const char *key, const char *word, const char *words)
{
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                             "%s: '%.60s' is unknown; write %s", key, word, words);
}

static struct baton_status full(const struct conversion *c)
{
    return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                             "the layout's memory of %zu bytes is full", c->arena->capacity);
}

/* The number of a word among 'words', "a, b or c"; null gives 'otherwise'. */
static struct baton_status word_of(const char *key, const char *text, const char *words,
                                   int otherwise, int *out)
{
    size_t size = text != NULL ? strlen(text) : 0;
    int number = 0;
    *out = otherwise;
    for (const char *at = words; text != NULL && *at != '\0'; number++) {
        size_t length = strcspn(at, ", ");
        if (length == size && strncmp(at, text, size) == 0) {
            *out = number;
            return baton_status_ok();
        }
        at += length;
        at += strspn(at, ", ");
        at += strncmp(at, "or ", 3) == 0 ? 3 : 0;
    }
    return text == NULL ? baton_status_ok() : bad_word(key, text, words);
}

static struct baton_status dtype_of(const char *key, const char *text, enum tensor_dtype *out)
{
    return tensor_dtype_parse(baton_bytes_of(text), out)
               ? baton_status_ok()
               : bad_word(key, text, "a name as safetensors has it, such as BF16 or F8_E4M3");
}

/* --- tensors --- */

/* 'text' with {layer} and {expert} replaced, in the arena; null stays null. */
static const char *name_of(struct conversion *c, const char *text, uint32_t layer, uint32_t expert)
{
    char out[BATON_TENSOR_NAME_BYTES + 32];
    size_t used = 0;
    if (text == NULL) {
        return NULL;
    }
    for (const char *at = text; *at != '\0' && used < BATON_TENSOR_NAME_BYTES;) {
        if (strncmp(at, "{layer}", 7) == 0) {
            used += (size_t)snprintf(out + used, sizeof(out) - used, "%u", layer);
            at += 7;
        } else if (strncmp(at, "{expert}", 8) == 0) {
            used += (size_t)snprintf(out + used, sizeof(out) - used, "%u", expert);
            at += 8;
        } else {
            out[used++] = *at++;
        }
    }
    char *copy = baton_arena_take(c->arena, used + 1, 1);
    return copy != NULL ? memcpy(copy, out, used) : NULL;
}

static struct baton_status add_tensor(struct conversion *c, const struct file_tensor *file,
                                      enum tensor_dtype dtype, uint32_t layer, uint32_t expert)
{
    struct layout_tensor_options tensor = { .dtype = dtype,
                                            .name = name_of(c, file->name, layer, expert),
                                            .atomic = name_of(c, file->atomic, layer, expert),
                                            .tied = name_of(c, file->tied, layer, expert),
                                            .scale = name_of(c, file->scale, layer, expert) };
    if (tensor.name == NULL || (tensor.atomic == NULL) != (file->atomic == NULL) ||
        (tensor.tied == NULL) != (file->tied == NULL) ||
        (tensor.scale == NULL) != (file->scale == NULL)) {
        return full(c);
    }
    tensor.shape.rank = file->shape_count;
    for (uint32_t i = 0; i < file->shape_count; i++) { /* Of a scalar there is no array. */
        tensor.shape.dims[i] = file->shape[i];
    }
    for (uint32_t i = 0; i < file->block_count; i++) {
        tensor.block[i] = file->block[i];
    }
    c->tensors[c->tensors_count++] = tensor;
    return baton_status_ok();
}

static uint64_t copies_of(const struct file_tensor *tensor)
{
    return (uint64_t)(tensor->layers > 0 ? tensor->layers : 1) *
           (tensor->experts > 0 ? tensor->experts : 1);
}

/* The family's tensors, then the file's own. */
static struct baton_status fill_tensors(struct conversion *c)
{
    uint64_t total = c->spec.tensors_count;
    struct baton_status st = baton_status_ok();
    for (uint32_t i = 0; i < c->file->tensors_count; i++) {
        total += copies_of(&c->file->tensors[i]);
        if (total > BATON_TENSORS_MAX) {
            return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                     "tensors: more than %d", BATON_TENSORS_MAX);
        }
    }
    c->tensors = baton_arena_take(c->arena, total, sizeof(*c->tensors));
    if (c->tensors == NULL) {
        return full(c);
    }
    c->tensors_count = c->spec.tensors_count;
    if (c->tensors_count > 0) {
        memcpy(c->tensors, c->spec.tensors, c->tensors_count * sizeof(*c->tensors));
    }
    for (uint32_t i = 0; i < c->file->tensors_count && baton_ok(&st); i++) {
        const struct file_tensor *file = &c->file->tensors[i];
        uint32_t experts = file->experts > 0 ? file->experts : 1;
        enum tensor_dtype dtype;
        st = dtype_of("tensors.dtype", file->dtype, &dtype);
        for (uint64_t n = 0; n < copies_of(file) && baton_ok(&st); n++) {
            st = add_tensor(c, file, dtype, (uint32_t)(n / experts), (uint32_t)(n % experts));
        }
    }
    c->spec.tensors = c->tensors;
    c->spec.tensors_count = c->tensors_count;
    return st;
}

/* --- family --- */

static struct baton_status fill_family(struct conversion *c)
{
    const struct file_family *f = c->file->family;
    int kind = 0, style = 0;
    if (f == NULL) {
        return baton_status_ok();
    }
    struct layout_family family = { .dtype = TENSOR_DTYPE_BF16,
                                    .layers = f->layers,
                                    .dense_layers = f->dense_layers,
                                    .hidden = f->hidden,
                                    .heads = f->heads,
                                    .kv_heads = f->kv_heads,
                                    .head_dim = f->head_dim,
                                    .intermediate = f->intermediate,
                                    .vocab = f->vocab,
                                    .vocab_padded = f->vocab_padded,
                                    .experts = f->experts,
                                    .expert_intermediate = f->expert_intermediate,
                                    .shared_intermediate = f->shared_intermediate,
                                    .q_lora = f->q_lora,
                                    .kv_lora = f->kv_lora,
                                    .nope_dim = f->nope_dim,
                                    .rope_dim = f->rope_dim,
                                    .v_dim = f->v_dim,
                                    .block = f->block,
                                    .is_tied = f->tied,
                                    .has_qkv_bias = f->qkv_bias,
                                    .has_qk_norm = f->qk_norm,
                                    .has_router_bias = f->router_bias };
    struct baton_status st = word_of("family.kind", f->kind, "dense, moe or mla", 0, &kind);
    if (baton_ok(&st)) {
        st = word_of("family.style", f->style, "hf, vllm or megatron", 0, &style);
    }
    if (baton_ok(&st) && f->dtype != NULL) {
        st = dtype_of("family.dtype", f->dtype, &family.dtype);
    }
    family.kind = (enum layout_kind)kind;
    family.style = (enum layout_style)style;
    return baton_ok(&st) ? layout_family_fill(&family, c->arena, &c->spec) : st;
}

/* --- rules --- */

static struct baton_status fill_rule(const struct file_rule *file, struct layout_rule *rule)
{
    int fuse = 0, stage = 0;
    struct baton_status st =
        word_of("rules.fuse", file->fuse, "concat, grouped or paired", 0, &fuse);
    if (baton_ok(&st)) {
        st = word_of("rules.stage", file->stage, "layer, first, last or every", 0, &stage);
    }
    *rule = (struct layout_rule){ .match = file->match,
                                  .into = file->into,
                                  .order = file->order,
                                  .fuse = (enum layout_fuse)fuse,
                                  .groups = file->groups,
                                  .shard = file->shard,
                                  .dim = file->dim,
                                  .unit = file->unit,
                                  .pad_to = file->pad_to,
                                  .is_expert = file->expert,
                                  .is_stacked = file->stacked,
                                  .is_copied = file->copied,
                                  .stage = (enum layout_stage)stage,
                                  .atomic = file->atomic,
                                  .flags = (file->cast ? (uint32_t)LAYOUT_CAST : 0) |
                                           (file->keep ? (uint32_t)LAYOUT_KEEP : 0) };
    return st;
}

/* The file's own rules, then the family's. */
static struct baton_status fill_rules(struct conversion *c)
{
    size_t own = c->file->rules_count;
    struct layout_rule *rules =
        baton_arena_take(c->arena, own + c->spec.rules_count, sizeof(*rules));
    struct baton_status st = rules != NULL ? baton_status_ok() : full(c);
    for (size_t i = 0; i < own && baton_ok(&st); i++) {
        st = fill_rule(&c->file->rules[i], &rules[i]);
    }
    if (baton_ok(&st)) {
        if (c->spec.rules_count > 0) {
            memcpy(rules + own, c->spec.rules, c->spec.rules_count * sizeof(*rules));
        }
        c->spec.rules = rules;
        c->spec.rules_count += own;
    }
    return st;
}

static struct baton_status fill_changes(struct conversion *c)
{
    size_t count = (size_t)c->file->renames_count + c->file->drops_count;
    struct layout_name_change *changes = baton_arena_take(c->arena, count, sizeof(*changes));
    if (changes == NULL) {
        return full(c);
    }
    for (uint32_t i = 0; i < c->file->renames_count; i++) {
        changes[i] = (struct layout_name_change){ LAYOUT_RULE_RENAME, c->file->renames[i].match,
                                                  c->file->renames[i].into };
    }
    for (uint32_t i = 0; i < c->file->drops_count; i++) {
        changes[c->file->renames_count + i] =
            (struct layout_name_change){ LAYOUT_RULE_DROP, c->file->drops[i], NULL };
    }
    c->spec.changes = changes;
    c->spec.changes_count = count;
    return baton_status_ok();
}

/* --- mesh, stages, experts --- */

static void fill_mesh(const struct file_axis *axes, uint32_t count, struct layout_mesh *mesh)
{
    mesh->count = count;
    for (uint32_t a = 0; a < count; a++) {
        mesh->axes[a] = (struct layout_axis){ axes[a].axis, axes[a].size };
    }
}

static uint32_t axis_size(const struct layout_mesh *mesh, const char *name)
{
    for (uint32_t a = 0; a < mesh->count; a++) {
        if (strcmp(mesh->axes[a].name, name) == 0) {
            return mesh->axes[a].size;
        }
    }
    return 1;
}

static struct baton_status fill_maps(struct conversion *c)
{
    const struct file_experts *file = &c->file->experts;
    const struct layout_mesh *mesh =
        c->spec.expert_mesh.count > 0 ? &c->spec.expert_mesh : &c->spec.mesh;
    uint32_t ranks = axis_size(mesh, c->spec.expert_axis);
    struct layout_experts *maps = baton_arena_take(c->arena, file->maps_count, sizeof(*maps));
    if (maps == NULL) {
        return full(c);
    }
    for (uint32_t m = 0; m < file->maps_count; m++) {
        const struct file_map *from = &file->maps[m];
        uint32_t *slots = baton_arena_take(c->arena, from->slots_count, sizeof(*slots));
        if (slots == NULL) {
            return full(c);
        }
        if (ranks == 0 || from->slots_count % ranks != 0) {
            return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                     "experts.maps[%u].slots: %u slots do not go evenly into %u "
                                     "ranks",
                                     m, from->slots_count, ranks);
        }
        for (uint32_t s = 0; s < from->slots_count; s++) {
            slots[s] = from->slots[s] >= 0 ? (uint32_t)from->slots[s] : LAYOUT_NONE;
        }
        maps[m] =
            (struct layout_experts){ .layer = from->layer != NULL ? *from->layer : LAYOUT_NONE,
                                     .per_rank = from->slots_count / ranks,
                                     .slots = slots,
                                     .slots_count = from->slots_count };
    }
    c->spec.maps = maps;
    c->spec.maps_count = file->maps_count;
    return baton_status_ok();
}

static struct baton_status fill_stages(struct conversion *c)
{
    const struct file_stages *file = &c->file->stages;
    uint32_t stages = axis_size(&c->spec.mesh, c->spec.stage_axis);
    if (file->layers_count > 0 && file->layers_count != stages) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "stages.layers: %u numbers for %u stages", file->layers_count,
                                 stages);
    }
    c->spec.stage_layers = file->layers_count > 0 ? file->layers : NULL;
    return baton_status_ok();
}

/* How many layers and experts there are, where no family says it: as the tensors have. */
static struct baton_status fill_counts(struct conversion *c)
{
    bool has_family = c->file->family != NULL;
    for (uint32_t i = 0; i < c->file->tensors_count && !has_family; i++) {
        const struct file_tensor *tensor = &c->file->tensors[i];
        c->spec.layers = tensor->layers > c->spec.layers ? tensor->layers : c->spec.layers;
        c->spec.experts = tensor->experts > c->spec.experts ? tensor->experts : c->spec.experts;
    }
    if (c->file->experts.count > 0) {
        c->spec.experts = c->file->experts.count;
    }
    return baton_status_ok();
}

static struct baton_status fill_mesh_and_places(struct conversion *c)
{
    const struct file_layout *file = c->file;
    int mode = 0;
    fill_mesh(file->mesh, file->mesh_count, &c->spec.mesh);
    fill_mesh(file->expert_mesh, file->expert_mesh_count, &c->spec.expert_mesh);
    c->spec.stage_axis = file->stages.axis != NULL ? file->stages.axis : "pp";
    c->spec.expert_axis = file->experts.axis != NULL ? file->experts.axis : "ep";
    c->spec.fsdp_axis = file->fsdp.axis;
    struct baton_status st = word_of("fsdp.mode", file->fsdp.mode, "rows or flat", 0, &mode);
    c->spec.fsdp = (enum layout_fsdp)mode;
    return st;
}

static struct baton_status check_head(const struct file_layout *file)
{
    if (file->api_version != NULL && strcmp(file->api_version, "baton/v1") != 0) {
        return bad_word("apiVersion", file->api_version, "baton/v1");
    }
    if (file->kind != NULL && strcmp(file->kind, "Layout") != 0) {
        return bad_word("kind", file->kind, "Layout");
    }
    if (file->ranks_per_link > LAYOUT_RANKS_MAX) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "ranksPerLink: %u is more than %d", file->ranks_per_link,
                                 LAYOUT_RANKS_MAX);
    }
    return baton_status_ok();
}

typedef struct baton_status step_fn(struct conversion *c);

struct baton_status layout_file_convert(const struct file_layout *file, struct baton_arena *arena,
                                        struct layout **out)
{
    static step_fn *const steps[] = { fill_mesh_and_places, fill_family, fill_tensors, fill_rules,
                                      fill_changes,         fill_stages, fill_counts,  fill_maps };
    struct conversion c = { .file = file, .arena = arena, .spec = { .name = file->metadata.name } };
    struct baton_status st = check_head(file);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && baton_ok(&st); i++) {
        st = steps[i](&c);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    return layout_expand(&c.spec, arena, out);
}
