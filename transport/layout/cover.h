/* cover.h -- one box, cut by others: which part of it each of them covers, and what none does.
 *
 * Start with the box that must be covered, cut it by each box that is there.  The parts stay
 * disjoint and together are the box.  With a table of lists, each part knows the numbers of all
 * boxes that hold it (equal sources); without, covered parts are dropped and what is left is the
 * gap.
 *
 * Depends on: box.h, pool.h.  Pure.  Threads: an object belongs to one thread.  Ownership: memory
 * is the arena's. */
#ifndef TRANSPORT_LAYOUT_COVER_H
#define TRANSPORT_LAYOUT_COVER_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/layout/box.h"
#include "transport/layout/pool.h"

/* More parts of one box than this are refused: no real layout comes near. */
enum { COVER_PARTS_MAX = 1 << 17 };

struct cover_part {
    struct box box;
    uint32_t list; /* Number of an ascending uint32_t list in 'lists'; POOL_NONE: nobody. */
};

struct cover {
    struct baton_arena *arena;
    struct intern *lists; /* Null: covered parts are dropped. */
    uint32_t rank;
    uint32_t count;
    uint32_t capacity;
    struct cover_part *parts;
};

/* Begins with the whole of 'box' covered by nobody; false if the arena is full. */
bool cover_begin(struct cover *cover, uint32_t rank, const struct box *box);
/* Cuts by a box whose number is above those given before; false if there is no room. */
bool cover_cut(struct cover *cover, const struct box *box, uint32_t number);

#endif /* cover.h */
