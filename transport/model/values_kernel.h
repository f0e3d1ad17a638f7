/* values_kernel.h -- the loops of values.c compiled for one instruction set; private to values.c.
 *
 * As digest_kernel.h: values_kernel.c is built once per set under another name, and values.c picks.
 *
 * Threads: pure functions.  Ownership: none. */
#ifndef TRANSPORT_MODEL_VALUES_KERNEL_H
#define TRANSPORT_MODEL_VALUES_KERNEL_H

#include <stddef.h>

#include "transport/model/values.h"

struct values_kernel {
    /* The largest (byte ^ flip) & mask. */
    uint8_t (*largest8)(const void *data, size_t count, uint8_t flip, uint8_t mask);
    /* 'inf' is infinity's pattern without the sign: what is above it is NaN. */
    void (*scan16)(const void *data, size_t count, uint16_t inf, struct values_found *found);
    void (*scan32)(const void *data, size_t count, struct values_found *found);
    void (*scan64)(const void *data, size_t count, struct values_found *found);
    /* Both arrays hold 'count' elements of 'dtype'; 'table' has the values of an 8-bit one. */
    void (*compare)(enum tensor_dtype dtype, const uint8_t *now, const uint8_t *base, size_t count,
                    const float *table, struct values_change *change);
};

extern const struct values_kernel values_kernel_base;
#if defined(__x86_64__)
extern const struct values_kernel values_kernel_avx2;
extern const struct values_kernel values_kernel_avx512;
#endif

#endif /* values_kernel.h */
