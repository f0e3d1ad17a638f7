/* pool.c -- see pool.h. */
#include "transport/layout/pool.h"

#include <string.h>

#include "api/base/bytes.h"
#include "transport/model/digest.h"

enum { SLOTS_FIRST = 64 };

struct entry {
    const void *data;
    uint32_t size;
    uint32_t hash;
};

void pool_init(struct pool *pool, struct baton_arena *arena, size_t record_bytes)
{
    *pool = (struct pool){ .arena = arena, .record_bytes = record_bytes };
}

/* Block k holds 64 << k records, so the number of the block is the logarithm of what lies before. */
static uint32_t block_of(uint32_t index)
{
    return 31 - (uint32_t)__builtin_clz((index >> POOL_FIRST_SHIFT) + 1);
}

static uint32_t first_of(uint32_t block)
{
    return ((UINT32_C(1) << block) - 1) << POOL_FIRST_SHIFT;
}

void *pool_get(const struct pool *pool, uint32_t index)
{
    uint32_t block = block_of(index);
    return (uint8_t *)pool->blocks[block] + (index - first_of(block)) * pool->record_bytes;
}

void *pool_add(struct pool *pool)
{
    uint32_t block = block_of(pool->count);
    if (block >= POOL_BLOCKS_MAX) {
        return NULL;
    }
    if (pool->blocks[block] == NULL) {
        pool->blocks[block] = baton_arena_take(pool->arena, (size_t)1 << (block + POOL_FIRST_SHIFT),
                                               pool->record_bytes);
        if (pool->blocks[block] == NULL) {
            return NULL;
        }
    }
    pool->count++;
    return pool_get(pool, pool->count - 1);
}

void intern_init(struct intern *table, struct baton_arena *arena)
{
    pool_init(&table->entries, arena, sizeof(struct entry));
    table->slots = NULL;
    table->slots_count = 0;
}

static uint32_t hash_of(const void *data, size_t size)
{
    struct digest digest = digest_of((struct baton_bytes){ data, size });
    uint32_t hash;
    memcpy(&hash, digest.bytes, sizeof(hash));
    return hash;
}

static uint32_t find_slot(const struct intern *table, const void *data, size_t size, uint32_t hash)
{
    uint32_t mask = table->slots_count - 1;
    uint32_t at = hash & mask;
    for (; table->slots[at] != 0; at = (at + 1) & mask) {
        const struct entry *entry = pool_get(&table->entries, table->slots[at] - 1);
        if (entry->hash == hash && entry->size == size && memcmp(entry->data, data, size) == 0) {
            break;
        }
    }
    return at;
}

/* Keeps at least half of the slots empty. */
static bool make_room(struct intern *table)
{
    if ((uint64_t)table->entries.count * 2 < table->slots_count) {
        return true;
    }
    uint32_t count = table->slots_count == 0 ? SLOTS_FIRST : table->slots_count * 2;
    uint32_t *slots = baton_arena_take(table->entries.arena, count, sizeof(*slots));
    if (slots == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < table->entries.count; i++) {
        const struct entry *entry = pool_get(&table->entries, i);
        uint32_t at = entry->hash & (count - 1);
        while (slots[at] != 0) {
            at = (at + 1) & (count - 1);
        }
        slots[at] = i + 1;
    }
    table->slots = slots;
    table->slots_count = count;
    return true;
}

uint32_t intern_add(struct intern *table, const void *data, size_t size)
{
    uint32_t known = intern_find(table, data, size);
    if (known != POOL_NONE || !make_room(table)) {
        return known;
    }
    uint32_t hash = hash_of(data, size);
    uint32_t at = find_slot(table, data, size, hash);
    void *copy = baton_arena_take(table->entries.arena, size + 1, 1); /* Ends texts. */
    struct entry *entry = copy != NULL ? pool_add(&table->entries) : NULL;
    if (entry == NULL) {
        return POOL_NONE;
    }
    if (size > 0) {
        memcpy(copy, data, size);
    }
    *entry = (struct entry){ copy, (uint32_t)size, hash };
    table->slots[at] = table->entries.count;
    return table->entries.count - 1;
}

uint32_t intern_find(const struct intern *table, const void *data, size_t size)
{
    if (table->slots_count == 0) {
        return POOL_NONE;
    }
    uint32_t at = find_slot(table, data, size, hash_of(data, size));
    return table->slots[at] != 0 ? table->slots[at] - 1 : POOL_NONE;
}

const void *intern_get(const struct intern *table, uint32_t number, size_t *size)
{
    const struct entry *entry = pool_get(&table->entries, number);
    if (size != NULL) {
        *size = entry->size;
    }
    return entry->data;
}

uint32_t intern_count(const struct intern *table)
{
    return table->entries.count;
}

static void sift_down(uint64_t *keys, size_t root, size_t count)
{
    uint64_t key = keys[root];
    for (size_t child = 2 * root + 1; child < count; child = 2 * root + 1) {
        child += child + 1 < count && keys[child + 1] > keys[child];
        if (keys[child] <= key) {
            break;
        }
        keys[root] = keys[child];
        root = child;
    }
    keys[root] = key;
}

void sort_u64(uint64_t *keys, size_t count)
{
    size_t sorted = 1; /* What comes from rules is mostly in order already. */
    while (sorted < count && keys[sorted - 1] <= keys[sorted]) {
        sorted++;
    }
    if (sorted >= count) {
        return;
    }
    for (size_t i = count / 2; i > 0; i--) {
        sift_down(keys, i - 1, count);
    }
    for (size_t end = count - 1; end > 0; end--) {
        uint64_t largest = keys[0];
        keys[0] = keys[end];
        keys[end] = largest;
        sift_down(keys, 0, end);
    }
}
