/* arena.h -- a bounded bump allocator inside memory that the caller gives.
 *
 * Cores take all their memory from one arena at init; a full arena is a refusal (null), never an
 * abort.  Nothing is freed one by one: reset drops everything.
 *
 * Depends on: nothing.  Threads: an object belongs to one thread.  Ownership: the caller owns the
 * memory and outlives the arena. */
#ifndef BATON_BASE_ARENA_H
#define BATON_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct baton_arena {
    uint8_t *data;
    size_t capacity;
    size_t used;
};

struct baton_arena baton_arena_of(void *memory, size_t capacity);
/* 'count' zeroed records of 'size' bytes, aligned for any type; null if they do not fit. */
void *baton_arena_take(struct baton_arena *arena, size_t count, size_t size);
void baton_arena_reset(struct baton_arena *arena);

#endif /* arena.h */
