/* digest_kernel.h -- XXH3-128 compiled for one instruction set; private to digest.c.
 *
 * digest_kernel.c is built once per set (baseline, AVX2, AVX-512) under another name; digest.c
 * picks the best that the processor has.  All of them give the same digests and share one state.
 *
 * Threads: pure functions.  Ownership: none. */
#ifndef TRANSPORT_MODEL_DIGEST_KERNEL_H
#define TRANSPORT_MODEL_DIGEST_KERNEL_H

#include <stddef.h>
#include <stdint.h>

struct digest_kernel {
    void (*hash)(const void *data, size_t size, uint8_t out[16]);
    void (*reset)(void *state);
    void (*update)(void *state, const void *data, size_t size);
    void (*finish)(const void *state, uint8_t out[16]);
};

extern const struct digest_kernel digest_kernel_base;
#if defined(__x86_64__)
extern const struct digest_kernel digest_kernel_avx2;
extern const struct digest_kernel digest_kernel_avx512;
#endif

#endif /* digest_kernel.h */
