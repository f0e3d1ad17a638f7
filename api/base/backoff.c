/* backoff.c -- see backoff.h. */
#include "api/base/backoff.h"

#include "api/base/random.h"

struct baton_backoff baton_backoff_of(uint64_t first_ns, uint64_t max_ns)
{
    return (struct baton_backoff){ first_ns, max_ns, 0 };
}

uint64_t baton_backoff_next_ns(struct baton_backoff *backoff, struct baton_random *random)
{
    uint64_t step = backoff->first_ns;
    for (uint32_t i = 0; i < backoff->failures && step < backoff->max_ns; i++) {
        step *= 2;
    }
    if (step > backoff->max_ns) {
        step = backoff->max_ns;
    }
    if (backoff->failures < UINT32_MAX) {
        backoff->failures++;
    }
    return step - baton_random_below(random, step / 2 + 1);
}

void baton_backoff_reset(struct baton_backoff *backoff)
{
    backoff->failures = 0;
}
