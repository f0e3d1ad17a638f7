/* pool.h -- growing tables inside an arena: records by index, byte strings by content, sorting.
 *
 * A pool's records never move: it grows by blocks, each twice as long as the one before.  An intern
 * keeps each byte string once and gives it a small number.  Both refuse once the arena is full;
 * their memory goes back with the arena's.
 *
 * Depends on: api/base, transport/model/digest.h.  Pure.  Threads: an object belongs to one thread.
 * Ownership: all memory is the arena's. */
#ifndef TRANSPORT_LAYOUT_POOL_H
#define TRANSPORT_LAYOUT_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "api/base/arena.h"

#define POOL_NONE UINT32_MAX

enum { POOL_BLOCKS_MAX = 26, POOL_FIRST_SHIFT = 6 };

struct pool {
    struct baton_arena *arena;
    size_t record_bytes;
    uint32_t count;
    void *blocks[POOL_BLOCKS_MAX];
};

struct intern {
    struct pool entries;
    uint32_t *slots; /* Index + 1; 0: empty. */
    uint32_t slots_count;
};

void pool_init(struct pool *pool, struct baton_arena *arena, size_t record_bytes);
/* A new zeroed record at index 'count' - 1; null if the arena is full. */
void *pool_add(struct pool *pool);
/* The record at an index below 'count'. */
void *pool_get(const struct pool *pool, uint32_t index);

void intern_init(struct intern *table, struct baton_arena *arena);
/* The number of these bytes, new or known; POOL_NONE if the arena is full.  Known bytes take nothing
 * from the arena. */
uint32_t intern_add(struct intern *table, const void *data, size_t size);
/* The number of these bytes, or POOL_NONE if they are not there. */
uint32_t intern_find(const struct intern *table, const void *data, size_t size);
/* The bytes of a number; aligned for any type.  'size' may be null. */
const void *intern_get(const struct intern *table, uint32_t number, size_t *size);
uint32_t intern_count(const struct intern *table);

/* Sorts ascending, in place, without memory of its own. */
void sort_u64(uint64_t *keys, size_t count);

#endif /* pool.h */
