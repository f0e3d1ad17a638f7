/* values.h -- what the numbers of a tensor are like: how many are NaN or infinite, and how far they
 * are from those of another version.
 *
 * Made for one pass beside the digest: a chunk that is in the cache already.  Sums of chunks add up
 * to those of the tensor.  Every floating-point dtype of safetensors with whole bytes is known, C64
 * as pairs; integers are neither NaN nor infinite, and only their digest tells a change.
 *
 * Depends on: dtype.h.  Pure: nothing here allocates.  Threads: an object belongs to one thread.
 * Ownership: none. */
#ifndef TRANSPORT_MODEL_VALUES_H
#define TRANSPORT_MODEL_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "api/base/bytes.h"
#include "transport/model/dtype.h"

struct values_found {
    uint64_t nans;
    uint64_t infs;
};

/* Sums of squares: of the differences, and of the base alone. */
struct values_change {
    double delta;
    double base;
};

/* The change of a tensor that has none to measure by: see values_change_relative(). */
#define VALUES_CHANGE_MAX 1.7976931348623157e308

/* True if a tensor of this dtype can hold NaN or infinity, and its change can be measured. */
bool values_are_float(enum tensor_dtype dtype);

/* Adds what 'bytes' (whole elements, at any alignment) hold; nothing for other dtypes. */
void values_scan(enum tensor_dtype dtype, struct baton_bytes bytes, struct values_found *found);

/* Adds the change from 'base' to 'bytes', of equal size; nothing for other dtypes. */
void values_compare(enum tensor_dtype dtype, struct baton_bytes bytes, struct baton_bytes base,
                    struct values_change *change);

/* ||now - base|| / ||base|| in the 2-norm: 0 is the same, 1 is as large as the tensor itself.  From a
 * tensor that was all zero any change counts as 1.  Where a value is not finite:
 * VALUES_CHANGE_MAX. */
double values_change_relative(const struct values_change *change);

#endif /* values.h */
