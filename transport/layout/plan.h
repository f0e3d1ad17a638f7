/* plan.h -- from a source layout to a target layout: which rank sends which box to whom.
 *
 * Every box that target ranks hold is intersected with what source ranks hold.  One copy serves all
 * target ranks that hold the same box.  Where several source ranks hold the same elements, their
 * links get equal shares as far as what each must send alone allows: quotas by water-filling, the
 * sets with the fewest ranks first; a box is cut by rows where a quota ends.
 *
 * Refused before the first byte moves, naming tensor, rank and range: a gap, a name without a
 * partner (unless a drop or keep rule names it), another shape, another dtype (unless the target
 * casts), a value without the scales that its source has.
 *
 * Bytes are the source's: a cast is done where the bytes land.
 *
 * Depends on: layout.h.  Pure: all memory from the given arena.  Threads: an object belongs to one
 * thread, or to many readers once built.  Ownership: a plan borrows both layouts. */
#ifndef TRANSPORT_LAYOUT_PLAN_H
#define TRANSPORT_LAYOUT_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/layout/layout.h"

struct layout_plan_options {
    uint64_t bucket_bytes;          /* 0: 1 GiB. */
    uint32_t source_ranks_per_link; /* Ranks n * k to n * k + k - 1 share link n; 0: 1. */
    uint32_t target_ranks_per_link;
};

struct layout_copy {
    uint32_t source_piece; /* Of the source layout; 'source_rank' has it. */
    uint32_t source_rank;
    uint32_t target_holding; /* Of the target layout: all its pieces get these elements. */
    uint32_t box;            /* layout_plan_box() */
};

struct layout_bucket {
    uint64_t bytes;
    uint32_t first_copy;
    uint32_t copies_count;
    uint32_t tensors_count;
    uint32_t unused;
};

struct layout_plan_figures {
    uint64_t bytes;           /* Sent: each copy once. */
    uint64_t delivered_bytes; /* Each copy once for every rank that gets it. */
    uint64_t bottleneck;      /* Most bytes over one link. */
    uint64_t lower_bound;     /* No choice of sources has less. */
    uint64_t egress_max;      /* Of all source links. */
    uint64_t egress_bound;    /* No choice of sources has a lower 'egress_max'. */
    uint64_t ingress_max;     /* Of all target links. */
    uint64_t bucket_bytes_max;
    uint32_t bottleneck_link;
    bool bottleneck_is_source;
    uint32_t tensors; /* With copies. */
    uint32_t cast;
    uint32_t tied; /* Target tensors that share another's memory. */
    uint32_t kept;
    uint32_t dropped; /* Source tensors that a rule or a tie left out. */
};

struct layout_plan;

/* Both layouts must be sealed.  RESOURCE_EXHAUSTED LIMIT: the arena is full. */
BATON_MUST_USE struct baton_status layout_plan_create(const struct layout *source,
                                                      const struct layout *target,
                                                      const struct layout_plan_options *options,
                                                      struct baton_arena *arena,
                                                      struct layout_plan **out);

const struct layout_plan_figures *layout_plan_figures(const struct layout_plan *plan);
uint32_t layout_plan_copies_count(const struct layout_plan *plan);
const struct layout_copy *layout_plan_copy(const struct layout_plan *plan, uint32_t copy);
uint32_t layout_plan_buckets_count(const struct layout_plan *plan);
const struct layout_bucket *layout_plan_bucket(const struct layout_plan *plan, uint32_t bucket);
const struct box *layout_plan_box(const struct layout_plan *plan, uint32_t box);
/* Bytes that leave a source link. */
uint64_t layout_plan_egress(const struct layout_plan *plan, uint32_t link);
/* What the plan depends on: both layouts and the options.  Equal keys, equal plans. */
struct digest layout_plan_key(const struct layout *source, const struct layout *target,
                              const struct layout_plan_options *options);

/* One copy as nested loops over bytes: for each level, 'count' times, 'source_step' and
 * 'target_step' bytes apart; innermost 'run' bytes in one piece.  With a cast, source and target
 * have runs of equally many elements. */
struct layout_strides {
    uint64_t source_offset; /* From the first byte of the source's local. */
    uint64_t target_offset;
    uint64_t run_elements;
    uint32_t source_bits; /* Of an element. */
    uint32_t target_bits;
    uint32_t levels; /* Outermost first. */
    uint64_t counts[BATON_TENSOR_RANK_MAX];
    uint64_t source_steps[BATON_TENSOR_RANK_MAX];
    uint64_t target_steps[BATON_TENSOR_RANK_MAX];
};

/* How a copy lands in one of its target pieces (first_piece .. of its target holding). */
struct layout_strides layout_plan_strides(const struct layout_plan *plan, uint32_t copy,
                                          uint32_t target_piece);

#endif /* plan.h */
