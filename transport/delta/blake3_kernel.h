/* blake3_kernel.h -- sixteen whole chunks at once; private to blake3.c, which picks the instance.
 *
 * Threads: pure functions.  Ownership: none. */
#ifndef TRANSPORT_DELTA_BLAKE3_KERNEL_H
#define TRANSPORT_DELTA_BLAKE3_KERNEL_H

#include <stdint.h>

enum { BLAKE3_LANES = 16 };

enum { BLAKE3_CHUNK_START = 1, BLAKE3_CHUNK_END = 2, BLAKE3_PARENT = 4, BLAKE3_ROOT = 8 };

static const uint32_t blake3_iv[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

/* Which word of the block each of a round's 16 inputs is. */
static const uint8_t blake3_schedule[7][16] = {
    { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 },
    { 2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8 },
    { 3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1 },
    { 10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6 },
    { 12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4 },
    { 9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7 },
    { 11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13 },
};

/* Chaining values of BLAKE3_LANES adjacent chunks, the first with this number. */
typedef void blake3_kernel_fn(const uint8_t *chunks, uint64_t first, uint32_t out[BLAKE3_LANES][8]);

extern blake3_kernel_fn blake3_kernel_base;
#if defined(__x86_64__)
extern blake3_kernel_fn blake3_kernel_avx2;
extern blake3_kernel_fn blake3_kernel_avx512;
#endif

#endif /* blake3_kernel.h */
