/* boxes.h -- a plan's copies as the boxes that the CUDA plug-in copies.
 *
 * Levels that continue one another become one, so that most copies are a run,
 * or rows of runs; a copy that still has more levels than a box becomes several
 * boxes.
 *
 * Depends on: cuda_plugin.h, transport/layout/plan.h.  Pure.  Threads: an
 * object belongs to one thread.  Ownership: the caller's array. */
#ifndef TRANSPORT_CUDA_BOXES_H
#define TRANSPORT_CUDA_BOXES_H

#include "api/base/status.h"
#include "transport/cuda/cuda_plugin.h"
#include "transport/layout/plan.h"

struct boxes {
    struct baton_cuda_box *items;
    uint32_t count;
    uint32_t capacity;
    uint64_t tiles; /* Of all items: what copy_boxes() is told. */
};

/* Adds one copy; 'source' and 'target' are the first bytes of the two locals.
 * Nothing to copy adds nothing.  INVALID_ARGUMENT: a cast, or runs that are not
 * whole bytes; RESOURCE_EXHAUSTED LIMIT: no room, and then nothing was added.
 */
BATON_MUST_USE struct baton_status boxes_add(struct boxes *boxes,
                                             const struct layout_strides *strides,
                                             const void *source, void *target);

#endif /* boxes.h */
