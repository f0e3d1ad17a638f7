/* kv.h -- the blocks of the KV cache: who uses one, and what a free one still remembers.
 *
 * A block holds the keys and values of KV_BLOCK_TOKENS positions.  A full block may be *published*
 * under a key made of all tokens up to its end and the request's cache salt; a later request with
 * the same beginning finds it there.  Keys know nothing of weights: that is exactly why a cache
 * that is not reset after a swap gives stale results, as in vLLM.
 *
 * This module does the bookkeeping only; the floats belong to each rank's model.
 *
 * Depends on: xxhash.  Threads: one caller.  Ownership: kv_init takes memory, kv_deinit gives it
 * back. */
#ifndef TESTS_MINIENGINE_KV_H
#define TESTS_MINIENGINE_KV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KV_BLOCK_TOKENS = 16 };
#define KV_NONE UINT32_MAX

/* What a published block is found by; all zero is "the beginning". */
struct kv_key {
    uint64_t high;
    uint64_t low;
};

struct kv_block;

struct kv_pool {
    struct kv_block *blocks;
    uint32_t *buckets; /* First block of each chain, KV_NONE if empty. */
    uint32_t count;
    uint32_t used;       /* Blocks with at least one user. */
    uint32_t free_first; /* Least recently released: taken first. */
    uint32_t free_last;
};

bool kv_init(struct kv_pool *pool, uint32_t count);
void kv_deinit(struct kv_pool *pool);

/* The key of the block that follows 'parent' and holds these KV_BLOCK_TOKENS tokens.  'salt' may
 * be empty, not null. */
struct kv_key kv_key_next(struct kv_key parent, const uint32_t *tokens, const char *salt);

/* A published block as one more user's, or KV_NONE. */
uint32_t kv_find(struct kv_pool *pool, struct kv_key key);

/* A block for new tokens (the longest-unused free one; what it had published is forgotten), or
 * KV_NONE if all are in use. */
uint32_t kv_take(struct kv_pool *pool);

/* Makes a full block findable.  Where the key is taken already, the earlier block stays. */
void kv_publish(struct kv_pool *pool, uint32_t block, struct kv_key key);

/* One user fewer.  The last one leaves the block free, still findable until it is taken. */
void kv_release(struct kv_pool *pool, uint32_t block);

/* Forgets everything published.  False, and nothing changes, while any block is in use. */
bool kv_reset(struct kv_pool *pool);

#endif /* kv.h */
