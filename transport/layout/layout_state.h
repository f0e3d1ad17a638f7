/* layout_state.h -- the inside of a layout: for layout.c, seal.c and check.c only.
 *
 * Depends on: layout.h, pool.h. */
#ifndef TRANSPORT_LAYOUT_LAYOUT_STATE_H
#define TRANSPORT_LAYOUT_LAYOUT_STATE_H

#include "transport/layout/layout.h"
#include "transport/layout/pool.h"

struct layout_pad {
    uint64_t offset;
    uint64_t elements;
    uint32_t local;
    uint32_t next; /* Of the same local. */
};

struct layout_name_rule_row {
    uint32_t kind;
    uint32_t match;
    uint32_t into;
};

struct layout {
    struct baton_arena *arena;
    const char *name;
    struct intern texts;
    struct intern shapes;   /* struct tensor_shape */
    struct intern boxes;    /* struct box */
    struct intern sets;     /* uint32_t ranks */
    struct intern patterns; /* uint32_t boxes */
    struct pool tensors;
    struct pool locals;
    struct pool added; /* Pieces in the order in which they came. */
    struct pool pads;
    struct pool rules;
    uint64_t elements; /* Of all locals, each counted once. */
    uint32_t ranks_count;
    bool is_gathered;

    /* After sealing. */
    struct layout_piece *pieces; /* By tensor, box, order. */
    struct layout_holding *holdings;
    uint32_t holdings_count;
    struct digest digest;
    bool is_sealed;

    /* While building: by text's number, kept in step with 'texts'. */
    struct pool tensor_by_text;
};

BATON_MUST_USE struct baton_status layout_full(const struct layout *layout);
/* Groups pieces into holdings. */
BATON_MUST_USE struct baton_status layout_group(struct layout *layout);
/* Proves the three claims. */
BATON_MUST_USE struct baton_status layout_check(struct layout *layout);

#endif /* layout_state.h */
