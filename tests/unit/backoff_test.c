/* backoff_test.c -- waits double up to the cap, jitter stays in the upper half, success resets. */
#include "api/base/backoff.h"
#include "api/base/random.h"

#include <criterion/criterion.h>

Test(backoff, doubles_up_to_the_cap_within_its_half)
{
    struct baton_random random;
    baton_random_seed(&random, 7);
    struct baton_backoff backoff = baton_backoff_of(100, 1000);
    const uint64_t steps[] = { 100, 200, 400, 800, 1000, 1000, 1000 };
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        uint64_t wait = baton_backoff_next_ns(&backoff, &random);
        cr_assert(wait >= steps[i] / 2 && wait <= steps[i], "try %zu waits %lu", i, wait);
    }
    baton_backoff_reset(&backoff);
    cr_assert_leq(baton_backoff_next_ns(&backoff, &random), 100);
}
