/* rules_state.h -- the inside of an expansion: for rules*.c only.
 *
 * rules.c collects the members of each local, rules_cut.c writes down what a coordinate holds as a
 * sequence of stretches, rules_place.c cuts that for FSDP and gives it to the ranks.
 *
 * Depends on: rules.h, pool.h. */
#ifndef TRANSPORT_LAYOUT_RULES_STATE_H
#define TRANSPORT_LAYOUT_RULES_STATE_H

#include "transport/layout/pool.h"
#include "transport/layout/rules.h"

/* A tensor that goes into a local. */
struct member {
    uint32_t tensor; /* Same number in the spec and in the layout. */
    uint32_t expert; /* LAYOUT_NONE: no expert's. */
    const struct layout_rule *rule;
    uint32_t next; /* Member of the same local. */
};

/* A local, as long as it is not placed. */
struct container {
    uint32_t name; /* In 'names'. */
    uint32_t first;
    uint32_t last;
    uint32_t count;
    uint32_t layer; /* LAYOUT_NONE: of no layer. */
};

/* Elements one after the other in a local: a box of a tensor, or padding. */
struct stretch {
    uint32_t tensor; /* LAYOUT_NONE: padding. */
    uint32_t pitch;
    uint64_t offset;
    uint64_t elements;
    struct box box;
};

/* Where a container is placed: its coordinates along the axes that matter. */
struct place {
    const struct layout_mesh *mesh;
    uint32_t fixed[LAYOUT_AXES_MAX]; /* By axis; LAYOUT_NONE: all. */
    uint32_t shard_axis;             /* Number of the axis; LAYOUT_NONE: not cut. */
    uint32_t fsdp_axis;
    uint32_t shard; /* Coordinate. */
    uint32_t shards;
};

struct expansion {
    const struct layout_spec *spec;
    struct layout *layout;
    struct baton_arena *arena;
    struct intern names;
    struct pool members;
    struct pool containers;

    /* Of the container at hand. */
    const struct member **order; /* By expert, then by the rule's order. */
    struct stretch *stretches;   /* Grows. */
    uint32_t stretches_count;
    uint32_t stretches_capacity;
    uint64_t elements; /* Of all stretches. */
    uint64_t row;      /* Elements that FSDP by rows keeps together. */
};

BATON_PRINTF(3, 4)
BATON_MUST_USE struct baton_status rules_refuse(const struct expansion *e, uint32_t tensor,
                                                const char *fmt, ...);
BATON_MUST_USE struct baton_status rules_full(const struct expansion *e);

/* The map of a layer; null: equal runs. */
const struct layout_experts *rules_map(const struct expansion *e, uint32_t layer);
/* Experts that a rank along the expert axis holds, and which is in a slot. */
uint32_t rules_slots(const struct expansion *e, uint32_t layer, uint32_t ranks);
uint32_t rules_expert_in(const struct expansion *e, uint32_t layer, uint32_t slot);

/* rules_cut.c: writes down what 'members' of a slot hold for one coordinate, behind what is
 * there. */
BATON_MUST_USE struct baton_status rules_cut(struct expansion *e, const struct member **members,
                                             uint32_t count, const struct place *place);
/* rules_place.c: all coordinates of a container. */
BATON_MUST_USE struct baton_status rules_place(struct expansion *e,
                                               const struct container *container);
/* Cuts the sequence for FSDP and gives it to the ranks of a place. */
BATON_MUST_USE struct baton_status rules_give(struct expansion *e, const char *name,
                                              const struct place *place);

#endif /* rules_state.h */
