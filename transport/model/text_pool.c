/* text_pool.c -- blocks of text, filled from the front. */
#include "transport/model/text_pool.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 64 << 10 };

struct text_block {
    struct text_block *older;
    size_t capacity;
    size_t used;
    char text[];
};

static struct text_block *block_create(struct text_block *older, size_t capacity)
{
    struct text_block *block = malloc(sizeof(*block) + capacity);
    if (block != NULL) {
        block->older = older;
        block->capacity = capacity;
        block->used = 0;
    }
    return block;
}

const char *text_pool_copy(struct text_pool *pool, const char *text, size_t size)
{
    struct text_block *block = pool->newest;
    if (block == NULL || block->capacity - block->used <= size) {
        block = block_create(pool->newest, size < BLOCK_BYTES ? BLOCK_BYTES : size + 1);
        if (block == NULL) {
            return NULL;
        }
        pool->newest = block;
    }
    char *copy = block->text + block->used;
    memcpy(copy, text, size);
    copy[size] = '\0';
    block->used += size + 1;
    return copy;
}

void text_pool_deinit(struct text_pool *pool)
{
    while (pool->newest != NULL) {
        struct text_block *older = pool->newest->older;
        free(pool->newest);
        pool->newest = older;
    }
}
