/* apply.h -- how a rank changes its resident weights, and how it proves what they are.
 *
 * Depends on: worker.h.  Threads: one.  Ownership: none beyond the worker's. */
#ifndef TESTS_MINIENGINE_APPLY_H
#define TESTS_MINIENGINE_APPLY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct landing;
struct transfer_fence;
struct trouble;
struct worker;

struct apply_comparison {
    uint32_t tensors;   /* Compared. */
    json_t *mismatched; /* Their names; the caller's. */
};

struct apply_outcome {
    bool ok;
    const char *digest;
    uint32_t tensors;
    json_t *mismatched; /* Taken. */
    double seconds;
    const struct trouble *why; /* Null or empty: no error. */
    uint32_t rank;
};

/* Seconds of a clock that does not jump. */
double apply_clock(void);

/* Applies what is staged, together with the other ranks, and records the outcome.  False: a peer
 * is gone, and with it the engine. */
bool apply_staged(struct worker *worker);

/* Compares every tensor of the layout with the floats that the kernels use.  False: a tensor could
 * not be read. */
bool apply_compare(struct worker *worker, struct landing *landing, struct apply_comparison *out,
                   struct trouble *why);

json_t *apply_readback_json(const struct apply_outcome *outcome);

/* Shared with transfer.c. */
int transfer_fence_order(const struct transfer_fence *a, const struct transfer_fence *b);
json_t *transfer_fence_json(const struct transfer_fence *fence);
json_t *transfer_trouble_json(const struct trouble *why, uint32_t rank);
void transfer_replace(json_t **part, json_t *value_taken);

#endif /* apply.h */
