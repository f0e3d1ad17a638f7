/* model.h -- the forward pass of one rank over one batch.
 *
 * A batch is a list of rows; a row is one token of one sequence at one position.  Rows of several
 * sequences, and several rows of one sequence (prefill), go through together.  Keys and values are
 * kept in this rank's blocks; a sequence's block table says which.
 *
 * Several ranks: each computes with its own shard; sums and the logits are joined by 'join', which
 * the caller provides (ranks.h).
 *
 * Depends on: weights.h, kernels.h.  Threads: one caller.  Ownership: model_init/deinit; the
 * weights are borrowed and may be exchanged between two calls. */
#ifndef TESTS_MINIENGINE_MODEL_H
#define TESTS_MINIENGINE_MODEL_H

#include "tests/miniengine/weights.h"

enum { MODEL_ROWS_MAX = 256, MODEL_SEQUENCES_MAX = 32, MODEL_BLOCKS_MAX = 256 };

struct model_row {
    uint32_t token;
    uint32_t position;
    uint32_t sequence; /* Index of its block table. */
    uint32_t wanted;   /* 1: its logits are wanted. */
};

/* Plain data without pointers, so that it can be sent to other ranks as it is. */
struct model_batch {
    uint32_t rows_count;
    uint32_t sequences_count;
    uint32_t probe; /* 1: a request of an agent's probe is in it. */
    struct model_row rows[MODEL_ROWS_MAX];
    uint32_t blocks[MODEL_SEQUENCES_MAX][MODEL_BLOCKS_MAX];
};

/* Adds the ranks' 'values' up, in rank order, and gives every rank the sum.  False: a rank is gone,
 * the step is void. */
typedef bool model_join_fn(void *self, float *values, size_t count);

struct model {
    const struct weights_layout *layout;
    const float *set; /* The resident weights. */
    float *keys;      /* [layer][block][token][kv head][dim] */
    float *values;
    uint32_t blocks_count;
    float *scratch;
    model_join_fn *join; /* Null for one rank. */
    void *join_self;
};

bool model_init(struct model *model, const struct weights_layout *layout, uint32_t blocks_count);
void model_deinit(struct model *model);

/* Gives the KV cache's memory away, and takes new one; what it held is gone.  No step in between. */
void model_release_kv(struct model *model);
bool model_take_kv(struct model *model);

/* Computes the batch and writes the logits of the wanted rows, in order, to 'logits'
 * ([wanted][vocab]; every rank needs the room).  False as 'join' says. */
bool model_forward(struct model *model, const struct model_batch *batch, float *logits);

#endif /* model.h */
