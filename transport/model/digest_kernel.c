/* digest_kernel.c -- one instance of XXH3-128; DIGEST_KERNEL names it, the build sets the flags. */
#include "transport/model/digest_kernel.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(sizeof(XXH3_state_t) == 576, "digest.h reserves as much");
_Static_assert(_Alignof(XXH3_state_t) == 64, "digest.h aligns so");

static void put_canonical(XXH128_hash_t hash, uint8_t out[16])
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, hash);
    for (size_t i = 0; i < sizeof(canonical.digest); i++) {
        out[i] = canonical.digest[i];
    }
}

static void kernel_hash(const void *data, size_t size, uint8_t out[16])
{
    put_canonical(XXH3_128bits(data, size), out);
}

static void kernel_reset(void *state)
{
    /* xxhash's own initialiser: reset leaves one field of a fresh state alone. */
    XXH3_INITSTATE((XXH3_state_t *)state);
    (void)XXH3_128bits_reset(state);
}

static void kernel_update(void *state, const void *data, size_t size)
{
    (void)XXH3_128bits_update(state, data, size);
}

static void kernel_finish(const void *state, uint8_t out[16])
{
    put_canonical(XXH3_128bits_digest(state), out);
}

const struct digest_kernel DIGEST_KERNEL = {
    .hash = kernel_hash,
    .reset = kernel_reset,
    .update = kernel_update,
    .finish = kernel_finish,
};
