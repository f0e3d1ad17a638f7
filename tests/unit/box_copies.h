/* box_copies.h -- random copies with strides, and what they are by definition; shared by the unit test
 * of boxes and the GPU suite.
 *
 * Depends on: transport/cuda/boxes.h.  Threads: one.  Ownership: none. */
#ifndef TESTS_UNIT_BOX_COPIES_H
#define TESTS_UNIT_BOX_COPIES_H

#include "api/base/random.h"
#include "transport/cuda/boxes.h"

/* Bytes that any of these copies reads or writes, at most. */
enum { BOX_COPIES_BYTES = 1 << 18, BOX_COPIES_BOXES = 1 << 12 };

/* Levels, counts and gaps at random; no byte of the target is written twice. */
struct layout_strides box_copies_random(struct baton_random *random);
/* The definition. */
void box_copies_perform(const struct layout_strides *strides, const uint8_t *source,
                        uint8_t *target);

#endif /* box_copies.h */
