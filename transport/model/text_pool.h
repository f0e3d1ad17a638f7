/* text_pool.h -- copies of many small strings that are freed together.
 *
 * Depends on: nothing.  Allocates: not for cores.  Threads: an object belongs to one thread.
 * Ownership: what text_pool_copy() returns belongs to the pool and lives as long as it. */
#ifndef TRANSPORT_MODEL_TEXT_POOL_H
#define TRANSPORT_MODEL_TEXT_POOL_H

#include <stddef.h>

struct text_block;

struct text_pool {
    struct text_block *newest; /* Null: empty. */
};

/* A terminated copy of 'size' bytes; null without memory. */
const char *text_pool_copy(struct text_pool *pool, const char *text, size_t size);
/* Frees all strings; the pool is empty and may be used again. */
void text_pool_deinit(struct text_pool *pool);

#endif /* text_pool.h */
