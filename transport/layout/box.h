/* box.h -- boxes of a tensor's elements: where they meet, and what is left of one outside another.
 *
 * A box is a begin and an extent for each dimension of its tensor; how many dimensions count is
 * given with each call.  Dimensions beyond are zero, so that equal boxes are equal bytes.
 *
 * Depends on: api/base.  Pure.  Threads: values only.  Ownership: none. */
#ifndef TRANSPORT_LAYOUT_BOX_H
#define TRANSPORT_LAYOUT_BOX_H

#include <stdbool.h>
#include <stdint.h>

#include "api/base/limits.h"

struct box {
    uint32_t begin[BATON_TENSOR_RANK_MAX];
    uint32_t extent[BATON_TENSOR_RANK_MAX];
};

/* What is left of a box outside another is at most two boxes a dimension. */
enum { BOX_REST_MAX = 2 * BATON_TENSOR_RANK_MAX, BOX_TEXT_BYTES = BATON_TENSOR_RANK_MAX * 24 + 3 };

/* The product of the extents; 1 for rank 0.  A box inside a tensor that was checked cannot
 * overflow. */
uint64_t box_volume(uint32_t rank, const struct box *box);
bool box_equal(uint32_t rank, const struct box *a, const struct box *b);
/* True if no element of 'inner' lies outside of 'outer'. */
bool box_contains(uint32_t rank, const struct box *outer, const struct box *inner);
/* What both have in common; false (and 'out' untouched) if that is nothing. */
bool box_intersect(uint32_t rank, const struct box *a, const struct box *b, struct box *out);
/* Disjoint boxes that hold what is in 'box' and not in 'inner', which must lie inside it; returns
 * how many. */
uint32_t box_subtract(uint32_t rank, const struct box *box, const struct box *inner,
                      struct box out[BOX_REST_MAX]);
/* "[0:4, 8:16]"; "[]" for rank 0. */
void box_format(uint32_t rank, const struct box *box, char out[BOX_TEXT_BYTES]);

#endif /* box.h */
