/* weights.h -- one rank's resident weights, and how the checkpoint's tensors map into them.
 *
 * A *layout* is made once from the configuration and the rank: where in one array of floats every
 * matrix lies that the kernels use (fused qkv and gate/up, packed transposed, only this rank's
 * heads, rows or columns), and which boxes of which checkpoint tensor go there.  A *set* is one
 * such array.  Loading and reading back walk the same boxes, so "resident" means: the very floats
 * that the kernels multiply with.
 *
 * Tensor parallel, as in vLLM: q, k, v, gate, up and the vocabulary by rows; o and down by columns;
 * norms on every rank.
 *
 * Depends on: config.h, kernels.h.  Threads: a layout is read-only after init; a set has one
 * owner.  Ownership: weights_init/deinit; sets are weights_bytes() of the caller's memory. */
#ifndef TESTS_MINIENGINE_WEIGHTS_H
#define TESTS_MINIENGINE_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>

#include "tests/miniengine/config.h"

enum { WEIGHTS_NAME_MAX = 96, WEIGHTS_BOXES_MAX = 2 };

/* A box of a checkpoint tensor (rows x columns of the two-dimensional view; a vector is one row)
 * and where it goes. */
struct weights_box {
    size_t offset; /* First float in the set. */
    size_t stride; /* Floats between two packed rows. */
    uint32_t row, rows;
    uint32_t column, columns;
    bool transposed; /* Packed [in][out]. */
};

struct weights_tensor {
    char name[WEIGHTS_NAME_MAX]; /* The checkpoint's. */
    uint32_t rank;               /* Dimensions: 1 or 2. */
    uint64_t shape[2];           /* Global. */
    struct weights_box boxes[WEIGHTS_BOXES_MAX];
    uint32_t boxes_count; /* 0: nothing of this tensor is on this rank. */
};

/* Offsets of one layer's parts. */
struct weights_layer {
    size_t input_norm, q_norm, k_norm, post_norm;
    size_t qkv, o, gate_up, down;
};

struct weights_layout {
    struct model_config config;
    uint32_t rank, ranks;
    uint32_t heads, kv_heads, intermediate; /* Of this rank. */
    uint32_t vocab_first, vocab;            /* Rows of embedding and output layer of this rank. */
    struct weights_layer *layers;
    size_t embedding, final_norm, head;
    size_t floats;                  /* Of one set. */
    struct weights_tensor *tensors; /* Sorted bytewise by name. */
    uint32_t tensors_count;
};

/* Words of one tensor as they lie in a checkpoint. */
struct weights_source {
    const char *dtype; /* "BF16", "F16" or "F32". */
    const void *data;  /* Row-major, whole tensor; need not be aligned. */
};

/* False with BAD_REQUEST if the model cannot be cut into 'ranks'. */
bool weights_init(struct weights_layout *layout, const struct model_config *config, uint32_t rank,
                  uint32_t ranks, struct trouble *why);
void weights_deinit(struct weights_layout *layout);

/* Null if the model has no tensor of that name. */
const struct weights_tensor *weights_find(const struct weights_layout *layout, const char *name);

/* False for a dtype that is not computed. */
bool weights_dtype_known(const char *dtype);
size_t weights_dtype_bytes(const char *dtype);

/* Writes this rank's part of one tensor into a set. */
void weights_load(const struct weights_tensor *tensor, struct weights_source source, float *set);

/* True if this rank's part of the tensor is, bit for bit, what a set holds. */
bool weights_equal(const struct weights_tensor *tensor, struct weights_source source,
                   const float *set);

#endif /* weights.h */
