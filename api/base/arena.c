/* arena.c -- see arena.h. */
#include "api/base/arena.h"

#include <string.h>

enum { ALIGNMENT = _Alignof(max_align_t) };

struct baton_arena baton_arena_of(void *memory, size_t capacity)
{
    return (struct baton_arena){ memory, capacity, 0 };
}

void *baton_arena_take(struct baton_arena *arena, size_t count, size_t size)
{
    size_t start = (arena->used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || start > arena->capacity ||
        bytes > arena->capacity - start) {
        return NULL;
    }
    arena->used = start + bytes;
    return memset(arena->data + start, 0, bytes);
}

void baton_arena_reset(struct baton_arena *arena)
{
    arena->used = 0;
}
