/* memory.c -- see memory.h. */
#include "api/wire/memory.h"

#include <stdlib.h>

#include "api/base/status.h"

enum { LARGE_BYTES = 4096, SHARED_BYTES_FIRST = 1024, SHARED_BYTES_MAX = 64 << 10 };
#define MEMORY_MAGIC UINT32_C(0x62776d31)

struct wire_block {
    _Alignas(16) struct wire_block *next;
    struct wire_block *previous; /* Null for the newest. */
    size_t size;
    bool is_large;
};
_Static_assert(sizeof(struct wire_block) % 16 == 0, "what follows is aligned");

static size_t rounded(size_t size)
{
    return (size + 15) & ~(size_t)15;
}

struct wire_memory *wire_memory_create(size_t first_bytes, size_t budget)
{
    if (first_bytes > SIZE_MAX / 2) {
        return NULL;
    }
    first_bytes = rounded(first_bytes);
    struct wire_memory *memory = malloc(sizeof(*memory) + first_bytes);
    if (memory == NULL) {
        return NULL;
    }
    *memory = (struct wire_memory){
        .at = (uint8_t *)(memory + 1),
        .left = first_bytes,
        .budget = budget,
        .next_bytes = SHARED_BYTES_FIRST,
        .magic = MEMORY_MAGIC,
    };
    return memory;
}

void wire_memory_destroy(struct wire_memory *memory)
{
    struct wire_block *block = memory->blocks;
    while (block != NULL) {
        struct wire_block *next = block->next;
        free(block);
        block = next;
    }
    memory->magic = 0;
    free(memory);
}

struct wire_memory *wire_memory_of(void *root)
{
    struct wire_memory *memory = (struct wire_memory *)root - 1;
    baton_assert(memory->magic == MEMORY_MAGIC);
    return memory;
}

static struct wire_block *add_block(struct wire_memory *memory, size_t size, bool is_large)
{
    struct wire_block *block = malloc(sizeof(*block) + size);
    if (block == NULL) {
        return NULL;
    }
    *block = (struct wire_block){ .next = memory->blocks, .size = size, .is_large = is_large };
    if (memory->blocks != NULL) {
        memory->blocks->previous = block;
    }
    memory->blocks = block;
    return block;
}

static void *bump(struct wire_memory *memory, size_t size)
{
    void *piece = memory->at;
    memory->at += size;
    memory->left -= size;
    return piece;
}

static bool add_shared(struct wire_memory *memory)
{
    struct wire_block *block = add_block(memory, memory->next_bytes, false);
    if (block == NULL) {
        return false;
    }
    memory->at = (uint8_t *)(block + 1);
    memory->left = block->size;
    if (memory->next_bytes < SHARED_BYTES_MAX) {
        memory->next_bytes *= 2;
    }
    return true;
}

void *wire_memory_take(struct wire_memory *memory, size_t size)
{
    if (size > memory->budget - memory->taken) {
        memory->exhausted = true;
        return NULL;
    }
    size_t bytes = rounded(size);
    memory->taken += size;
    if (bytes <= memory->left) {
        return bump(memory, bytes);
    }
    if (bytes > LARGE_BYTES || bytes > memory->next_bytes) {
        struct wire_block *block = add_block(memory, bytes, true);
        return block == NULL ? NULL : block + 1;
    }
    return add_shared(memory) ? bump(memory, bytes) : NULL;
}

void wire_memory_give(struct wire_memory *memory, void *piece)
{
    if (piece == NULL) {
        return;
    }
    for (struct wire_block *block = memory->blocks; block != NULL; block = block->next) {
        if ((void *)(block + 1) == piece && block->is_large) {
            *(block->previous == NULL ? &memory->blocks : &block->previous->next) = block->next;
            if (block->next != NULL) {
                block->next->previous = block->previous;
            }
            memory->taken -= block->size < memory->taken ? block->size : memory->taken;
            free(block);
            return;
        }
    }
}
