/* random.c -- xoshiro256**; see random.h.  The kernel's generator is in random_secure.c, so that a
 * core that links this file links no system call. */
#include "api/base/random.h"

static uint64_t rotate_left(uint64_t value, int bits)
{
    return (value << bits) | (value >> (64 - bits));
}

void baton_random_seed(struct baton_random *random, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        seed += UINT64_C(0x9e3779b97f4a7c15);
        uint64_t z = seed;
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        random->state[i] = z ^ (z >> 31);
    }
}

uint64_t baton_random_u64(struct baton_random *random)
{
    uint64_t *s = random->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t baton_random_below(struct baton_random *random, uint64_t bound)
{
    if (bound == 0) {
        return 0;
    }
    uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
    uint64_t value;
    do {
        value = baton_random_u64(random);
    } while (value >= limit);
    return value % bound;
}
