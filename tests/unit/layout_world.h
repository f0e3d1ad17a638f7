/* layout_world.h -- small random layouts, and what an element-by-element reading says of them.
 *
 * The oracle shares nothing with the planner but the meaning of a piece: it lays every element of
 * every rank out in real memory, and looks at each.  It decides by itself whether a layout holds,
 * performs a plan's copies, and compares every target element.
 *
 * Depends on: transport/layout.  Threads: one. */
#ifndef TESTS_UNIT_LAYOUT_WORLD_H
#define TESTS_UNIT_LAYOUT_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "api/base/random.h"
#include "transport/layout/layout.h"
#include "transport/layout/plan.h"

enum { WORLD_TENSORS_MAX = 4, WORLD_PIECES_MAX = 256, WORLD_LOCALS_MAX = 128 };

/* What is said of a layout, kept beside it. */
struct world_side {
    struct layout_tensor_options tensors[WORLD_TENSORS_MAX];
    uint32_t tensors_count;
    struct {
        uint64_t elements;
        uint32_t ranks[16];
        uint32_t ranks_count;
        enum tensor_dtype dtype;
    } locals[WORLD_LOCALS_MAX];
    uint32_t locals_count;
    struct layout_piece_options pieces[WORLD_PIECES_MAX];
    uint32_t pieces_count;
    struct {
        uint32_t local;
        uint64_t offset;
        uint64_t elements;
    } pads[WORLD_LOCALS_MAX];
    uint32_t pads_count;
};

/* Tensors that both sides of a world share. */
void world_tensors(struct baton_random *random, struct world_side *side);
/* Ranks, locals and pieces at random for the side's tensors. */
void world_cut(struct baton_random *random, struct world_side *side);
/* Breaks something at random, or not. */
void world_damage(struct baton_random *random, struct world_side *side);
/* True if every element of every tensor is somewhere, and every element of every local belongs to
 * one. */
bool world_holds(const struct world_side *side);
/* Builds and seals. */
struct baton_status world_build(const struct world_side *side, const char *name,
                                struct baton_arena *arena, struct layout **out);

/* Performs a plan's copies between memory that is laid out by the layouts; null if every target
 * element is right and written once, else what is wrong. */
const char *world_perform(const struct layout *source, const struct layout *target,
                          const struct layout_plan *plan);

enum { WORLD_CONTENTS_BYTES = 512, WORLD_ELEMENTS_MAX = 1 << 13 };

/* An element of a local: of which tensor (LAYOUT_NONE: padding), and its number in it. */
struct world_element {
    uint32_t tensor;
    uint64_t element;
};
/* The elements of a rank's local of this name, in order; returns how many (0: it has none). */
uint64_t world_elements(const struct layout *layout, uint32_t rank, const char *local,
                        struct world_element out[WORLD_ELEMENTS_MAX]);
/* What a rank has in its local of this name, element by element: a tensor's name and the element's
 * number, "." for padding, "-" if the rank does not have it.  "q0 q1 k0 ." */
const char *world_contents(const struct layout *layout, uint32_t rank, const char *local,
                           char out[WORLD_CONTENTS_BYTES]);

#endif /* layout_world.h */
