/* Blocks of the KV cache: who uses one, what a free one remembers, and what makes it forget. */
#include <criterion/criterion.h>

#include "tests/miniengine/kv.h"

static uint32_t tokens[2 * KV_BLOCK_TOKENS];
static const struct kv_key beginning;

static struct kv_key key_of(uint32_t first, const char *salt)
{
    tokens[0] = first;
    return kv_key_next(beginning, tokens, salt);
}

Test(kv, a_key_depends_on_everything_before)
{
    struct kv_key a = key_of(1, "");
    struct kv_key again = key_of(1, "");
    cr_assert_eq(a.low, again.low);
    cr_assert_neq(a.low, key_of(2, "").low, "other tokens");
    cr_assert_neq(a.low, key_of(1, "s").low, "another salt");
    cr_assert_neq(kv_key_next(a, tokens, "").low, kv_key_next(beginning, tokens, "").low,
                  "another beginning");
}

Test(kv, a_released_block_is_found_until_it_is_taken)
{
    struct kv_pool pool;
    cr_assert(kv_init(&pool, 2));
    struct kv_key key = key_of(1, "");
    cr_assert_eq(kv_find(&pool, key), KV_NONE);
    uint32_t block = kv_take(&pool);
    kv_publish(&pool, block, key);
    kv_release(&pool, block);
    cr_assert_eq(pool.used, 0);
    cr_assert_eq(kv_find(&pool, key), block);
    cr_assert_eq(kv_find(&pool, key), block, "two users");
    kv_release(&pool, block);
    cr_assert_eq(pool.used, 1, "one is left");
    uint32_t other = kv_take(&pool);
    cr_assert_neq(other, block, "a used block is not given away");
    cr_assert_eq(kv_take(&pool), KV_NONE, "all in use");
    kv_release(&pool, block);
    cr_assert_eq(kv_take(&pool), block);
    cr_assert_eq(kv_find(&pool, key), KV_NONE, "taken: forgotten");
    kv_deinit(&pool);
}

Test(kv, the_longest_unused_block_goes_first)
{
    struct kv_pool pool;
    cr_assert(kv_init(&pool, 3));
    uint32_t blocks[3];
    for (uint32_t i = 0; i < 3; i++) {
        blocks[i] = kv_take(&pool);
        kv_publish(&pool, blocks[i], key_of(i, ""));
    }
    for (uint32_t i = 0; i < 3; i++) {
        kv_release(&pool, blocks[i]);
    }
    uint32_t found = kv_find(&pool, key_of(0, ""));
    kv_release(&pool, found);
    cr_assert_eq(kv_take(&pool), blocks[1], "block 0 was used after it");
    cr_assert_eq(kv_find(&pool, key_of(0, "")), blocks[0]);
    kv_deinit(&pool);
}

Test(kv, the_first_of_two_equal_blocks_stays)
{
    struct kv_pool pool;
    cr_assert(kv_init(&pool, 2));
    uint32_t first = kv_take(&pool);
    uint32_t second = kv_take(&pool);
    kv_publish(&pool, first, key_of(1, ""));
    kv_publish(&pool, second, key_of(1, ""));
    cr_assert_eq(kv_find(&pool, key_of(1, "")), first);
    kv_deinit(&pool);
}

/* A chain of the hash table with several blocks survives the removal of its middle. */
Test(kv, chains_hold_together)
{
    enum { COUNT = 64 };
    struct kv_pool pool;
    cr_assert(kv_init(&pool, COUNT));
    uint32_t blocks[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        blocks[i] = kv_take(&pool);
        kv_publish(&pool, blocks[i], key_of(i, ""));
    }
    for (uint32_t i = 0; i < COUNT; i += 2) {
        kv_release(&pool, blocks[i]);
    }
    for (uint32_t i = 0; i < COUNT / 2; i++) {
        cr_assert_neq(kv_take(&pool), KV_NONE);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        cr_assert_eq(kv_find(&pool, key_of(i, "")), i % 2 == 0 ? KV_NONE : blocks[i], "block %u",
                     i);
    }
    kv_deinit(&pool);
}

Test(kv, a_reset_is_refused_while_a_block_is_in_use)
{
    struct kv_pool pool;
    cr_assert(kv_init(&pool, 2));
    uint32_t block = kv_take(&pool);
    kv_publish(&pool, block, key_of(1, ""));
    cr_assert_not(kv_reset(&pool));
    kv_release(&pool, block);
    cr_assert_eq(kv_find(&pool, key_of(1, "")), block, "nothing was forgotten");
    kv_release(&pool, block);
    cr_assert(kv_reset(&pool));
    cr_assert_eq(kv_find(&pool, key_of(1, "")), KV_NONE);
    kv_deinit(&pool);
}
