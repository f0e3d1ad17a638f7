/* memory.h -- the blocks behind one message root; private to api/wire.
 *
 * A root message stands right behind its 'struct wire_memory', so the root's address is enough to
 * find all of it.  Small pieces are bumped from blocks and live until the end; large ones have a
 * block of their own and can be given back early (protobuf-c's scratch slabs).
 *
 * Depends on: libc.  Threads: one at a time per root.  Ownership: wire_memory_destroy frees all. */
#ifndef BATON_WIRE_MEMORY_H
#define BATON_WIRE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wire_block;

struct wire_memory {
    _Alignas(16) struct wire_block *blocks; /* All further blocks, newest first. */
    uint8_t *at;                            /* Free bytes of the current block. */
    size_t left;
    size_t taken; /* Of the budget. */
    size_t budget;
    size_t next_bytes; /* Of the next shared block. */
    uint32_t magic;
    bool exhausted; /* A piece was refused for the budget. */
};
_Static_assert(sizeof(struct wire_memory) % 16 == 0, "the root behind it is aligned");

/* Memory whose first block holds 'first_bytes'; the first piece taken from it, which must fit, is the
 * root.  Null if the kernel has no memory. */
struct wire_memory *wire_memory_create(size_t first_bytes, size_t budget);
void wire_memory_destroy(struct wire_memory *memory);
/* The memory that this root stands in; asserts that it is one. */
struct wire_memory *wire_memory_of(void *root);
/* An uninitialised piece, aligned to 16; null if the budget or the kernel refuses. */
void *wire_memory_take(struct wire_memory *memory, size_t size);
/* Gives a large piece back; small ones stay. */
void wire_memory_give(struct wire_memory *memory, void *piece);

#endif /* memory.h */
