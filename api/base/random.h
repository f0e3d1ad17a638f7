/* random.h -- a seeded generator whose whole state is in the caller's struct.
 *
 * xoshiro256** (Blackman and Vigna, 2018), seeded by SplitMix64.  Not for secrets: tokens and uids
 * come from baton_random_secure(), which asks the kernel and is not for cores.
 *
 * Depends on: status.h.  Threads: an object belongs to one thread.  Ownership: none. */
#ifndef BATON_BASE_RANDOM_H
#define BATON_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct baton_random {
    uint64_t state[4];
};

void baton_random_seed(struct baton_random *random, uint64_t seed);
uint64_t baton_random_u64(struct baton_random *random);
/* Even in [0, bound); 0 for bound 0. */
uint64_t baton_random_below(struct baton_random *random, uint64_t bound);

/* Fills 'out' from the kernel (getrandom); aborts where the kernel has none. */
void baton_random_secure(void *out, size_t size);

#endif /* random.h */
