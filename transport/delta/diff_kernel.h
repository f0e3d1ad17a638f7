/* diff_kernel.h -- the loops over every byte, compiled for one instruction set; private to
 * encoder.c and decoder.c.
 *
 * As digest_kernel.h of transport/model: diff_kernel.c is built once for each set (baseline, AVX2,
 * AVX-512) under another name, delta_kernel() picks.  All give the same results.
 *
 * Threads: pure functions.  Ownership: none. */
#ifndef TRANSPORT_DELTA_DIFF_KERNEL_H
#define TRANSPORT_DELTA_DIFF_KERNEL_H

#include <stddef.h>
#include <stdint.h>

struct diff_kernel {
    /* out[i] = old[i] ^ now[i] for 'size' bytes; bit i % 64 of marks[i / 64] says whether it is not
     * zero.  Bits past the end are 0.  Returns how many are not zero. */
    size_t (*diff)(const uint8_t *old, const uint8_t *now, size_t size, uint8_t *out,
                   uint64_t *marks);
    /* bytes[i] ^= with[i]. */
    void (*patch)(uint8_t *bytes, const uint8_t *with, size_t size);
};

extern const struct diff_kernel diff_kernel_base;
#if defined(__x86_64__)
extern const struct diff_kernel diff_kernel_avx2;
extern const struct diff_kernel diff_kernel_avx512;
#endif

/* The best that this processor has. */
const struct diff_kernel *delta_kernel(void);

#endif /* diff_kernel.h */
