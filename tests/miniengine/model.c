/* model.c -- see model.h.  Qwen3 dense: RMSNorm, fused qkv, q and k norms, rotary positions,
 * grouped-query attention, SwiGLU. */
#include "tests/miniengine/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/miniengine/kernels.h"
#include "tests/miniengine/kv.h"

/* The arrays of one step, cut from 'scratch'. */
struct work {
    float *hidden; /* [rows][hidden] */
    float *normed; /* [rows][hidden] */
    float *fused;  /* [rows][qkv or gate_up] */
    float *mixed;  /* [rows][attention or intermediate] */
    float *angles; /* [rows][dim] */
    float *scores; /* [positions] */
    size_t rows;
};

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t fused_width(const struct weights_layout *l)
{
    size_t qkv = (size_t)(l->heads + 2 * l->kv_heads) * l->config.head_dim;
    return max_size(qkv, 2U * (size_t)l->intermediate);
}

static size_t mixed_width(const struct weights_layout *l)
{
    return max_size((size_t)l->heads * l->config.head_dim, l->intermediate);
}

static size_t scratch_floats(const struct weights_layout *l)
{
    size_t row =
        2U * (size_t)l->config.hidden + fused_width(l) + mixed_width(l) + l->config.head_dim;
    return MODEL_ROWS_MAX * row + (size_t)MODEL_BLOCKS_MAX * KV_BLOCK_TOKENS;
}

static size_t kv_width(const struct weights_layout *l)
{
    return (size_t)l->kv_heads * l->config.head_dim;
}

void model_release_kv(struct model *model)
{
    free(model->keys);
    free(model->values);
    model->keys = NULL;
    model->values = NULL;
}

bool model_take_kv(struct model *model)
{
    const struct weights_layout *layout = model->layout;
    size_t floats =
        (size_t)layout->config.layers * model->blocks_count * KV_BLOCK_TOKENS * kv_width(layout);
    model->keys = calloc(floats, sizeof(float));
    model->values = calloc(floats, sizeof(float));
    return model->keys != NULL && model->values != NULL;
}

bool model_init(struct model *model, const struct weights_layout *layout, uint32_t blocks_count)
{
    memset(model, 0, sizeof *model);
    model->layout = layout;
    model->blocks_count = blocks_count;
    model->scratch = calloc(scratch_floats(layout), sizeof(float));
    if (!model_take_kv(model) || model->scratch == NULL) {
        model_deinit(model);
        return false;
    }
    return true;
}

void model_deinit(struct model *model)
{
    model_release_kv(model);
    free(model->scratch);
    memset(model, 0, sizeof *model);
}

static struct work work_cut(const struct model *model, size_t rows)
{
    const struct weights_layout *l = model->layout;
    struct work w = { .hidden = model->scratch, .rows = rows };
    w.normed = w.hidden + MODEL_ROWS_MAX * (size_t)l->config.hidden;
    w.fused = w.normed + MODEL_ROWS_MAX * (size_t)l->config.hidden;
    w.mixed = w.fused + MODEL_ROWS_MAX * fused_width(l);
    w.angles = w.mixed + MODEL_ROWS_MAX * mixed_width(l);
    w.scores = w.angles + MODEL_ROWS_MAX * (size_t)l->config.head_dim;
    return w;
}

static bool join(struct model *model, float *values, size_t count)
{
    return model->join == NULL || model->join(model->join_self, values, count);
}

/* Only the rank that holds a token's row of the table contributes; the others add zero. */
static bool embed(struct model *model, const struct model_batch *batch, struct work *w)
{
    const struct weights_layout *l = model->layout;
    size_t width = l->config.hidden;
    for (size_t r = 0; r < w->rows; r++) {
        uint32_t token = batch->rows[r].token;
        float *out = w->hidden + r * width;
        if (token >= l->vocab_first && token - l->vocab_first < l->vocab) {
            memcpy(out, model->set + l->embedding + (token - l->vocab_first) * width,
                   width * sizeof(float));
        } else {
            memset(out, 0, width * sizeof(float));
        }
        kernels_rope_angles(w->angles + r * l->config.head_dim, l->config.head_dim,
                            batch->rows[r].position, l->config.rope_theta);
    }
    return join(model, w->hidden, w->rows * width);
}

static void norm_rows(const struct model *model, const struct work *w, size_t gain)
{
    size_t width = model->layout->config.hidden;
    for (size_t r = 0; r < w->rows; r++) {
        kernels_norm(w->hidden + r * width, model->set + gain, width,
                     model->layout->config.norm_epsilon, w->normed + r * width);
    }
}

/* Floats from the start of 'keys' or 'values' to one position of one sequence. */
static size_t kv_place(const struct model *model, uint32_t layer, const uint32_t *blocks,
                       uint32_t position)
{
    size_t block = (size_t)layer * model->blocks_count + blocks[position / KV_BLOCK_TOKENS];
    return (block * KV_BLOCK_TOKENS + position % KV_BLOCK_TOKENS) * kv_width(model->layout);
}

/* Normalises and rotates the heads of one row, and stores its key and value. */
static void prepare_row(struct model *model, const struct model_batch *batch, struct work *w,
                        uint32_t layer, size_t r)
{
    const struct weights_layout *l = model->layout;
    const struct weights_layer *parts = &l->layers[layer];
    size_t dim = l->config.head_dim;
    float *row = w->fused + r * (l->heads + 2U * (size_t)l->kv_heads) * dim;
    for (size_t h = 0; h < (size_t)l->heads + l->kv_heads; h++) {
        size_t gain = h < l->heads ? parts->q_norm : parts->k_norm;
        kernels_norm(row + h * dim, model->set + gain, dim, l->config.norm_epsilon, row + h * dim);
        kernels_rope(row + h * dim, w->angles + r * dim, dim);
    }
    size_t place =
        kv_place(model, layer, batch->blocks[batch->rows[r].sequence], batch->rows[r].position);
    memcpy(model->keys + place, row + l->heads * dim, kv_width(l) * sizeof(float));
    memcpy(model->values + place, row + (l->heads + (size_t)l->kv_heads) * dim,
           kv_width(l) * sizeof(float));
}

/* One query head of one row over all positions up to its own. */
static void attend_head(const struct model *model, const struct model_batch *batch,
                        const struct work *w, uint32_t layer, size_t r, size_t h)
{
    const struct weights_layout *l = model->layout;
    size_t dim = l->config.head_dim;
    size_t kv_head = h / (l->heads / l->kv_heads);
    const uint32_t *blocks = batch->blocks[batch->rows[r].sequence];
    uint32_t count = batch->rows[r].position + 1;
    const float *query = w->fused + r * (l->heads + 2U * (size_t)l->kv_heads) * dim + h * dim;
    float scale = 1.0F / sqrtf((float)dim);
    for (uint32_t p = 0; p < count; p++) {
        const float *key = model->keys + kv_place(model, layer, blocks, p) + kv_head * dim;
        w->scores[p] = kernels_dot(query, key, dim) * scale;
    }
    (void)kernels_softmax(w->scores, count);
    float *out = w->mixed + r * l->heads * dim + h * dim;
    memset(out, 0, dim * sizeof(float));
    for (uint32_t p = 0; p < count; p++) {
        const float *value = model->values + kv_place(model, layer, blocks, p) + kv_head * dim;
        kernels_add_scaled(out, value, w->scores[p], dim);
    }
}

/* Adds 'normed' (the output of a row-parallel matrix, joined over the ranks) to the hidden rows. */
static bool add_residual(struct model *model, struct work *w)
{
    size_t count = w->rows * model->layout->config.hidden;
    if (!join(model, w->normed, count)) {
        return false;
    }
    kernels_add_scaled(w->hidden, w->normed, 1.0F, count);
    return true;
}

static struct kernels_matrix matrix(const struct model *model, size_t offset, size_t in, size_t out)
{
    return (struct kernels_matrix){ .packed = model->set + offset, .in = in, .out = out };
}

static bool attention(struct model *model, const struct model_batch *batch, struct work *w,
                      uint32_t layer)
{
    const struct weights_layout *l = model->layout;
    const struct weights_layer *parts = &l->layers[layer];
    size_t dim = l->config.head_dim;
    norm_rows(model, w, parts->input_norm);
    kernels_matmul(
        w->normed, w->rows,
        matrix(model, parts->qkv, l->config.hidden, (l->heads + 2U * (size_t)l->kv_heads) * dim),
        w->fused);
    for (size_t r = 0; r < w->rows; r++) {
        prepare_row(model, batch, w, layer, r);
    }
    for (size_t r = 0; r < w->rows; r++) {
        for (size_t h = 0; h < l->heads; h++) {
            attend_head(model, batch, w, layer, r, h);
        }
    }
    kernels_matmul(w->mixed, w->rows, matrix(model, parts->o, l->heads * dim, l->config.hidden),
                   w->normed);
    return add_residual(model, w);
}

static bool mlp(struct model *model, struct work *w, uint32_t layer)
{
    const struct weights_layout *l = model->layout;
    const struct weights_layer *parts = &l->layers[layer];
    size_t width = l->intermediate;
    norm_rows(model, w, parts->post_norm);
    kernels_matmul(w->normed, w->rows, matrix(model, parts->gate_up, l->config.hidden, 2 * width),
                   w->fused);
    for (size_t r = 0; r < w->rows; r++) {
        kernels_swiglu(w->fused + r * 2 * width, width, w->mixed + r * width);
    }
    kernels_matmul(w->mixed, w->rows, matrix(model, parts->down, width, l->config.hidden),
                   w->normed);
    return add_residual(model, w);
}

/* Each rank knows the logits of its own part of the vocabulary; the rest is zero until joined. */
static bool output(struct model *model, const struct model_batch *batch, struct work *w,
                   float *logits)
{
    const struct weights_layout *l = model->layout;
    size_t width = l->config.hidden;
    size_t wanted = 0;
    for (size_t r = 0; r < w->rows; r++) {
        if (batch->rows[r].wanted == 0) {
            continue;
        }
        float *out = logits + wanted * l->config.vocab;
        memset(out, 0, l->config.vocab * sizeof(float));
        kernels_norm(w->hidden + r * width, model->set + l->final_norm, width,
                     l->config.norm_epsilon, w->normed);
        kernels_matmul(w->normed, 1, matrix(model, l->head, width, l->vocab), out + l->vocab_first);
        wanted++;
    }
    return wanted == 0 || join(model, logits, wanted * l->config.vocab);
}

bool model_forward(struct model *model, const struct model_batch *batch, float *logits)
{
    struct work w = work_cut(model, batch->rows_count);
    if (!embed(model, batch, &w)) {
        return false;
    }
    for (uint32_t layer = 0; layer < model->layout->config.layers; layer++) {
        if (!attention(model, batch, &w, layer) || !mlp(model, &w, layer)) {
            return false;
        }
    }
    return output(model, batch, &w, logits);
}
