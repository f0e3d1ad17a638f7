/* plan_state.h -- the inside of a plan: for plan*.c only.
 *
 * Depends on: plan.h, pool.h. */
#ifndef TRANSPORT_LAYOUT_PLAN_STATE_H
#define TRANSPORT_LAYOUT_PLAN_STATE_H

#include "transport/layout/plan.h"
#include "transport/layout/pool.h"

/* A part of a target box: which source holdings have it. */
struct fragment {
    uint64_t volume;
    uint32_t box;            /* Number in the plan's boxes. */
    uint32_t target_holding; /* From the tensor's first. */
    uint32_t list;           /* Source holdings, from the tensor's first: number in 'lists'. */
    uint32_t only;           /* The source holding, if it is the only one; else LAYOUT_NONE. */
};

/* How any two tensors that are cut like these meet; computed once. */
struct meeting {
    struct fragment *fragments;
    uint32_t count;
};

/* Source links that hold the same elements, and what they have to share. */
struct choice {
    uint64_t bytes;   /* Of all fragments that these links hold. */
    uint64_t *quotas; /* One for each link; null for a single link. */
    uint32_t cursor;  /* The link that is served now, while copies are written. */
    uint32_t unused;
};

struct layout_plan {
    const struct layout *source;
    const struct layout *target;
    struct layout_plan_options options;
    struct baton_arena *arena;
    struct intern boxes;
    struct intern lists;
    struct intern meeting_keys;
    struct pool meetings;
    struct intern choice_keys; /* uint32_t links, ascending */
    struct pool choices;
    uint32_t *choice_of_set; /* By the source's set; LAYOUT_NONE: not asked yet. */
    uint64_t *egress;
    uint64_t *ingress;
    uint32_t source_links;
    uint32_t target_links;

    /* By target tensor. */
    uint32_t *partners; /* Source tensor, or LAYOUT_NONE. */
    uint32_t *met;      /* Number of the meeting. */
    uint32_t *order;    /* Tensors in the order in which they travel; atomic sets together. */
    uint32_t order_count;

    struct layout_copy *copies;
    uint32_t copies_count;
    uint32_t copies_capacity;
    struct pool buckets;
    struct layout_plan_figures figures;
};

BATON_MUST_USE struct baton_status plan_full(const struct layout_plan *plan);
/* Bytes of so many elements of a source tensor; never cuts a byte. */
uint64_t plan_bytes(const struct layout_plan *plan, uint32_t source_tensor, uint64_t elements);

/* plan_match.c: finds the partner of each target tensor and the order of travel; refuses what has
 * none. */
BATON_MUST_USE struct baton_status plan_match(struct layout_plan *plan);
/* plan_meet.c: cuts the target boxes of each tensor by the source's. */
BATON_MUST_USE struct baton_status plan_meet(struct layout_plan *plan);
/* The links that hold a fragment of this source tensor, as a choice; LAYOUT_NONE: arena full. */
uint32_t plan_choice(struct layout_plan *plan, const struct layout_tensor *source,
                     const struct fragment *fragment);
/* plan_balance.c: sums up what links must and may send, gives quotas, computes the lower bound. */
BATON_MUST_USE struct baton_status plan_balance(struct layout_plan *plan);
/* plan_emit.c: writes copies and buckets. */
BATON_MUST_USE struct baton_status plan_emit(struct layout_plan *plan);

#endif /* plan_state.h */
