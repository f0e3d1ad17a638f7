/* weights.c -- see weights.h. */
#include "tests/miniengine/weights.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/miniengine/kernels.h"

static size_t reserve(struct weights_layout *layout, size_t floats)
{
    size_t offset = layout->floats;
    layout->floats += (floats + 15U) & ~(size_t)15U;
    return offset;
}

__attribute__((format(printf, 3, 4))) static struct weights_tensor *tensor_add(
    struct weights_layout *layout, uint32_t rank, const char *fmt, ...)
{
    struct weights_tensor *tensor = &layout->tensors[layout->tensors_count++];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(tensor->name, sizeof tensor->name, fmt, args);
    va_end(args);
    tensor->rank = rank;
    return tensor;
}

static void box_add(struct weights_tensor *tensor, struct weights_box box)
{
    tensor->boxes[tensor->boxes_count++] = box;
}

static void vector_add(struct weights_layout *layout, size_t offset, uint32_t count, uint32_t layer,
                       const char *name)
{
    struct weights_tensor *tensor = tensor_add(layout, 1, "model.layers.%u.%s.weight", layer, name);
    tensor->shape[0] = count;
    box_add(tensor, (struct weights_box){ .offset = offset, .rows = 1, .columns = count });
}

/* A matrix of [out][in] of which this rank keeps 'box' (row, rows, column, columns), packed. */
static void matrix_add(struct weights_layout *layout, uint64_t out, uint64_t in,
                       struct weights_box box, const char *name)
{
    struct weights_tensor *tensor = tensor_add(layout, 2, "%s", name);
    tensor->shape[0] = out;
    tensor->shape[1] = in;
    box.transposed = true;
    box_add(tensor, box);
}

static void name_of(char *name, uint32_t layer, const char *part)
{
    (void)snprintf(name, WEIGHTS_NAME_MAX, "model.layers.%u.%s.weight", layer, part);
}

static void attention_add(struct weights_layout *layout, uint32_t index)
{
    const struct model_config *c = &layout->config;
    struct weights_layer *layer = &layout->layers[index];
    uint32_t q = layout->heads * c->head_dim;
    uint32_t kv = layout->kv_heads * c->head_dim;
    size_t stride = q + 2U * (size_t)kv;
    layer->qkv = reserve(layout, c->hidden * stride);
    layer->o = reserve(layout, (size_t)q * c->hidden);
    const struct {
        const char *name;
        uint32_t rows, heads;
        size_t start;
    } parts[] = { { "self_attn.q_proj", q, c->heads, 0 },
                  { "self_attn.k_proj", kv, c->kv_heads, q },
                  { "self_attn.v_proj", kv, c->kv_heads, (size_t)q + kv } };
    char name[WEIGHTS_NAME_MAX];
    for (size_t i = 0; i < 3; i++) {
        struct weights_box box = { .offset = layer->qkv + parts[i].start,
                                   .stride = stride,
                                   .row = layout->rank * parts[i].rows,
                                   .rows = parts[i].rows,
                                   .columns = c->hidden };
        name_of(name, index, parts[i].name);
        matrix_add(layout, (uint64_t)parts[i].heads * c->head_dim, c->hidden, box, name);
    }
    struct weights_box box = { .offset = layer->o,
                               .stride = c->hidden,
                               .rows = c->hidden,
                               .column = layout->rank * q,
                               .columns = q };
    name_of(name, index, "self_attn.o_proj");
    matrix_add(layout, c->hidden, (uint64_t)c->heads * c->head_dim, box, name);
}

static void mlp_add(struct weights_layout *layout, uint32_t index)
{
    const struct model_config *c = &layout->config;
    struct weights_layer *layer = &layout->layers[index];
    uint32_t part = layout->intermediate;
    size_t stride = 2U * (size_t)part;
    layer->gate_up = reserve(layout, c->hidden * stride);
    layer->down = reserve(layout, (size_t)part * c->hidden);
    static const char *const names[] = { "mlp.gate_proj", "mlp.up_proj" };
    char name[WEIGHTS_NAME_MAX];
    for (size_t i = 0; i < 2; i++) {
        struct weights_box box = { .offset = layer->gate_up + i * part,
                                   .stride = stride,
                                   .row = layout->rank * part,
                                   .rows = part,
                                   .columns = c->hidden };
        name_of(name, index, names[i]);
        matrix_add(layout, c->intermediate, c->hidden, box, name);
    }
    struct weights_box box = { .offset = layer->down,
                               .stride = c->hidden,
                               .rows = c->hidden,
                               .column = layout->rank * part,
                               .columns = part };
    name_of(name, index, "mlp.down_proj");
    matrix_add(layout, c->hidden, c->intermediate, box, name);
}

static void layer_add(struct weights_layout *layout, uint32_t index)
{
    const struct model_config *c = &layout->config;
    struct weights_layer *layer = &layout->layers[index];
    layer->input_norm = reserve(layout, c->hidden);
    layer->q_norm = reserve(layout, c->head_dim);
    layer->k_norm = reserve(layout, c->head_dim);
    layer->post_norm = reserve(layout, c->hidden);
    vector_add(layout, layer->input_norm, c->hidden, index, "input_layernorm");
    vector_add(layout, layer->q_norm, c->head_dim, index, "self_attn.q_norm");
    vector_add(layout, layer->k_norm, c->head_dim, index, "self_attn.k_norm");
    vector_add(layout, layer->post_norm, c->hidden, index, "post_attention_layernorm");
    attention_add(layout, index);
    mlp_add(layout, index);
}

/* The embedding keeps its rows as they are (they are looked up, not multiplied); the output layer
 * is packed.  A tied model fills both from one tensor. */
static void vocabulary_add(struct weights_layout *layout)
{
    const struct model_config *c = &layout->config;
    uint32_t share = (c->vocab + layout->ranks - 1) / layout->ranks;
    layout->vocab_first = layout->rank * share;
    layout->vocab = c->vocab - layout->vocab_first < share ? c->vocab - layout->vocab_first : share;
    layout->embedding = reserve(layout, (size_t)layout->vocab * c->hidden);
    layout->head = reserve(layout, (size_t)layout->vocab * c->hidden);
    layout->final_norm = reserve(layout, c->hidden);
    struct weights_box rows = { .offset = layout->embedding,
                                .stride = c->hidden,
                                .row = layout->vocab_first,
                                .rows = layout->vocab,
                                .columns = c->hidden };
    struct weights_box packed = rows;
    packed.offset = layout->head;
    packed.stride = layout->vocab;
    packed.transposed = true;
    struct weights_tensor *embedding = tensor_add(layout, 2, "model.embed_tokens.weight");
    embedding->shape[0] = c->vocab;
    embedding->shape[1] = c->hidden;
    box_add(embedding, rows);
    if (c->tied) {
        box_add(embedding, packed);
    } else {
        matrix_add(layout, c->vocab, c->hidden, packed, "lm_head.weight");
    }
    struct weights_tensor *norm = tensor_add(layout, 1, "model.norm.weight");
    norm->shape[0] = c->hidden;
    box_add(norm,
            (struct weights_box){ .offset = layout->final_norm, .rows = 1, .columns = c->hidden });
}

static int tensor_order(const void *a, const void *b)
{
    return strcmp(((const struct weights_tensor *)a)->name,
                  ((const struct weights_tensor *)b)->name);
}

bool weights_init(struct weights_layout *layout, const struct model_config *config, uint32_t rank,
                  uint32_t ranks, struct trouble *why)
{
    memset(layout, 0, sizeof *layout);
    layout->config = *config;
    layout->rank = rank;
    layout->ranks = ranks;
    if (config->kv_heads % ranks != 0 || config->intermediate % ranks != 0 ||
        (config->vocab + ranks - 1) / ranks * (ranks - 1) >= config->vocab) {
        return trouble_set(why, "BAD_REQUEST", NULL,
                           "%u ranks must divide num_key_value_heads %u and intermediate_size %u",
                           ranks, config->kv_heads, config->intermediate);
    }
    layout->heads = config->heads / ranks;
    layout->kv_heads = config->kv_heads / ranks;
    layout->intermediate = config->intermediate / ranks;
    layout->layers = calloc(config->layers, sizeof *layout->layers);
    layout->tensors = calloc(config->layers * 11U + 3U, sizeof *layout->tensors);
    if (layout->layers == NULL || layout->tensors == NULL) {
        weights_deinit(layout);
        return trouble_set(why, "INTERNAL", NULL, "out of memory for the weights' layout");
    }
    for (uint32_t i = 0; i < config->layers; i++) {
        layer_add(layout, i);
    }
    vocabulary_add(layout);
    qsort(layout->tensors, layout->tensors_count, sizeof *layout->tensors, tensor_order);
    return true;
}

void weights_deinit(struct weights_layout *layout)
{
    free(layout->layers);
    free(layout->tensors);
    memset(layout, 0, sizeof *layout);
}

const struct weights_tensor *weights_find(const struct weights_layout *layout, const char *name)
{
    struct weights_tensor key = { .rank = 0 };
    if (strlen(name) >= sizeof key.name) {
        return NULL;
    }
    memcpy(key.name, name, strlen(name) + 1);
    return bsearch(&key, layout->tensors, layout->tensors_count, sizeof key, tensor_order);
}

size_t weights_dtype_bytes(const char *dtype)
{
    if (strcmp(dtype, "F32") == 0) {
        return 4;
    }
    return strcmp(dtype, "BF16") == 0 || strcmp(dtype, "F16") == 0 ? 2 : 0;
}

bool weights_dtype_known(const char *dtype)
{
    return weights_dtype_bytes(dtype) != 0;
}

/* The kinds of words, told apart once a box rather than once a word. */
enum words { WORDS_F32, WORDS_BF16, WORDS_F16 };

static enum words words_of(const char *dtype)
{
    if (strcmp(dtype, "F32") == 0) {
        return WORDS_F32;
    }
    return strcmp(dtype, "BF16") == 0 ? WORDS_BF16 : WORDS_F16;
}

static float word_at(const void *data, enum words kind, size_t index)
{
    if (kind == WORDS_F32) {
        float value;
        memcpy(&value, (const char *)data + index * sizeof value, sizeof value);
        return value;
    }
    uint16_t word;
    memcpy(&word, (const char *)data + index * sizeof word, sizeof word);
    return kind == WORDS_BF16 ? kernels_from_bf16(word) : kernels_from_f16(word);
}

/* The float of a set that holds element (r, c) of a box. */
static size_t place_of(const struct weights_box *box, uint32_t r, uint32_t c)
{
    return box->transposed ? box->offset + (size_t)c * box->stride + r
                           : box->offset + (size_t)r * box->stride + c;
}

static uint64_t columns_of(const struct weights_tensor *tensor)
{
    return tensor->rank == 2 ? tensor->shape[1] : tensor->shape[0];
}

void weights_load(const struct weights_tensor *tensor, struct weights_source source, float *set)
{
    enum words kind = words_of(source.dtype);
    for (uint32_t i = 0; i < tensor->boxes_count; i++) {
        const struct weights_box *box = &tensor->boxes[i];
        for (uint32_t r = 0; r < box->rows; r++) {
            size_t first = (size_t)(box->row + r) * columns_of(tensor) + box->column;
            for (uint32_t c = 0; c < box->columns; c++) {
                set[place_of(box, r, c)] = word_at(source.data, kind, first + c);
            }
        }
    }
}

static bool row_equal(const struct weights_tensor *tensor, const struct weights_box *box,
                      struct weights_source source, const float *set, uint32_t r)
{
    enum words kind = words_of(source.dtype);
    size_t first = (size_t)(box->row + r) * columns_of(tensor) + box->column;
    for (uint32_t c = 0; c < box->columns; c++) {
        float expected = word_at(source.data, kind, first + c);
        if (memcmp(&expected, &set[place_of(box, r, c)], sizeof expected) != 0) {
            return false;
        }
    }
    return true;
}

bool weights_equal(const struct weights_tensor *tensor, struct weights_source source,
                   const float *set)
{
    for (uint32_t i = 0; i < tensor->boxes_count; i++) {
        for (uint32_t r = 0; r < tensor->boxes[i].rows; r++) {
            if (!row_equal(tensor, &tensor->boxes[i], source, set, r)) {
                return false;
            }
        }
    }
    return true;
}
