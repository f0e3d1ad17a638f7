/* arena_test.c -- bounded memory: aligned, zeroed, refused when full, also where sizes overflow. */
#include "api/base/arena.h"

#include <criterion/criterion.h>
#include <string.h>

Test(arena, gives_aligned_zeroed_memory_until_it_is_full)
{
    static _Alignas(max_align_t) uint8_t memory[256];
    memset(memory, 0xff, sizeof(memory));
    struct baton_arena arena = baton_arena_of(memory, sizeof(memory));
    uint8_t *one = baton_arena_take(&arena, 1, 1);
    uint64_t *two = baton_arena_take(&arena, 4, sizeof(uint64_t));
    cr_assert_not_null(one);
    cr_assert_not_null(two);
    cr_assert_eq((uintptr_t)two % _Alignof(max_align_t), 0);
    cr_assert_eq(two[0] | two[3] | *one, 0);
    cr_assert_null(baton_arena_take(&arena, 1, sizeof(memory)));
    cr_assert_null(baton_arena_take(&arena, SIZE_MAX / 2, 4), "the product overflows");
    baton_arena_reset(&arena);
    cr_assert_not_null(baton_arena_take(&arena, 1, sizeof(memory)));
}
