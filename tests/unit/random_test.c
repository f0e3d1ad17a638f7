/* random_test.c -- the generator is a function of its seed; bounds hold; streams of seeds differ. */
#include "api/base/random.h"

#include <criterion/criterion.h>
#include <string.h>

Test(random, equal_seeds_give_equal_streams)
{
    struct baton_random a, b, c;
    baton_random_seed(&a, 42);
    baton_random_seed(&b, 42);
    baton_random_seed(&c, 43);
    unsigned same = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t value = baton_random_u64(&a);
        cr_assert_eq(value, baton_random_u64(&b));
        same += value == baton_random_u64(&c);
    }
    cr_assert_eq(same, 0);
}

Test(random, below_reaches_every_value_and_never_the_bound)
{
    struct baton_random random;
    unsigned seen[7] = { 0 };
    baton_random_seed(&random, 1);
    for (int i = 0; i < 7000; i++) {
        uint64_t value = baton_random_below(&random, 7);
        cr_assert_lt(value, 7);
        seen[value]++;
    }
    for (int i = 0; i < 7; i++) {
        cr_assert(seen[i] > 800 && seen[i] < 1200, "value %d came %u times of 7000", i, seen[i]);
    }
    cr_assert_eq(baton_random_below(&random, 0), 0);
    cr_assert_eq(baton_random_below(&random, 1), 0);
}

Test(random, the_kernels_bytes_differ)
{
    uint8_t a[32], b[32];
    baton_random_secure(a, sizeof(a));
    baton_random_secure(b, sizeof(b));
    cr_assert_neq(memcmp(a, b, sizeof(a)), 0);
}
