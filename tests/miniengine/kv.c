/* kv.c -- see kv.h.  Chains of a hash table and the list of free blocks run through the blocks. */
#include "tests/miniengine/kv.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct kv_block {
    struct kv_key key;
    uint32_t users;
    bool published;
    uint32_t chain_next;
    uint32_t free_previous;
    uint32_t free_next;
};

static void free_append(struct kv_pool *pool, uint32_t index)
{
    struct kv_block *block = &pool->blocks[index];
    block->free_previous = pool->free_last;
    block->free_next = KV_NONE;
    if (pool->free_last != KV_NONE) {
        pool->blocks[pool->free_last].free_next = index;
    } else {
        pool->free_first = index;
    }
    pool->free_last = index;
}

static void free_remove(struct kv_pool *pool, uint32_t index)
{
    struct kv_block *block = &pool->blocks[index];
    if (block->free_previous != KV_NONE) {
        pool->blocks[block->free_previous].free_next = block->free_next;
    } else {
        pool->free_first = block->free_next;
    }
    if (block->free_next != KV_NONE) {
        pool->blocks[block->free_next].free_previous = block->free_previous;
    } else {
        pool->free_last = block->free_previous;
    }
}

bool kv_init(struct kv_pool *pool, uint32_t count)
{
    memset(pool, 0, sizeof *pool);
    pool->blocks = calloc(count, sizeof *pool->blocks);
    pool->buckets = calloc(count, sizeof *pool->buckets);
    if (pool->blocks == NULL || pool->buckets == NULL || count == 0) {
        kv_deinit(pool);
        return false;
    }
    pool->count = count;
    pool->free_first = KV_NONE;
    pool->free_last = KV_NONE;
    for (uint32_t i = 0; i < count; i++) {
        pool->buckets[i] = KV_NONE;
        free_append(pool, i);
    }
    return true;
}

void kv_deinit(struct kv_pool *pool)
{
    free(pool->blocks);
    free(pool->buckets);
    memset(pool, 0, sizeof *pool);
}

struct kv_key kv_key_next(struct kv_key parent, const uint32_t *tokens, const char *salt)
{
    struct {
        struct kv_key parent;
        uint32_t tokens[KV_BLOCK_TOKENS];
        uint64_t salt;
    } input = { .parent = parent, .salt = XXH3_64bits(salt, strlen(salt)) };
    memcpy(input.tokens, tokens, sizeof input.tokens);
    XXH128_hash_t hash = XXH3_128bits(&input, sizeof input);
    return (struct kv_key){ .high = hash.high64, .low = hash.low64 };
}

static uint32_t *chain_of(struct kv_pool *pool, struct kv_key key)
{
    return &pool->buckets[key.low % pool->count];
}

static uint32_t chain_find(struct kv_pool *pool, struct kv_key key)
{
    uint32_t index = *chain_of(pool, key);
    while (index != KV_NONE &&
           (pool->blocks[index].key.high != key.high || pool->blocks[index].key.low != key.low)) {
        index = pool->blocks[index].chain_next;
    }
    return index;
}

static void forget(struct kv_pool *pool, uint32_t index)
{
    struct kv_block *block = &pool->blocks[index];
    if (!block->published) {
        return;
    }
    uint32_t *link = chain_of(pool, block->key);
    while (*link != index) {
        link = &pool->blocks[*link].chain_next;
    }
    *link = block->chain_next;
    block->published = false;
}

uint32_t kv_find(struct kv_pool *pool, struct kv_key key)
{
    uint32_t index = chain_find(pool, key);
    if (index == KV_NONE) {
        return KV_NONE;
    }
    if (pool->blocks[index].users == 0) {
        free_remove(pool, index);
        pool->used++;
    }
    pool->blocks[index].users++;
    return index;
}

uint32_t kv_take(struct kv_pool *pool)
{
    uint32_t index = pool->free_first;
    if (index == KV_NONE) {
        return KV_NONE;
    }
    free_remove(pool, index);
    forget(pool, index);
    pool->blocks[index].users = 1;
    pool->used++;
    return index;
}

void kv_publish(struct kv_pool *pool, uint32_t block, struct kv_key key)
{
    if (pool->blocks[block].published || chain_find(pool, key) != KV_NONE) {
        return;
    }
    uint32_t *chain = chain_of(pool, key);
    pool->blocks[block].key = key;
    pool->blocks[block].published = true;
    pool->blocks[block].chain_next = *chain;
    *chain = block;
}

void kv_release(struct kv_pool *pool, uint32_t block)
{
    pool->blocks[block].users--;
    if (pool->blocks[block].users == 0) {
        pool->used--;
        free_append(pool, block);
    }
}

bool kv_reset(struct kv_pool *pool)
{
    if (pool->used != 0) {
        return false;
    }
    for (uint32_t i = 0; i < pool->count; i++) {
        pool->blocks[i].published = false;
        pool->buckets[i] = KV_NONE;
    }
    return true;
}
