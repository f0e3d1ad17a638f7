/* table.h -- bounded pools of records, and sorted indexes over them.
 *
 * A table is a fixed array of slots with a free list; a slot is zeroed when it is taken, so pages
 * of slots that were never needed are never touched.  An index keeps pointers to objects sorted by
 * a text inside them: lookup by binary search, iteration in order, the same order whatever the
 * history.
 *
 * Depends on: nothing.  Threads: an object belongs to one thread.  Ownership: the core's arena. */
#ifndef CONTROLLER_CORE_TABLE_H
#define CONTROLLER_CORE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Hands out parts of one block, or measures what they would take ('block' null). */
struct layout {
    uint8_t *block;
    size_t used;
};

/* Aligned for any type and not touched; null while measuring. */
void *layout_take(struct layout *layout, size_t count, size_t size);

struct table {
    uint8_t *slots;
    size_t slot_bytes;
    uint32_t capacity;
    uint32_t high;  /* Slots that were ever taken. */
    uint32_t count; /* Slots in use. */
    void *free;     /* First of a list through the slots' first bytes. */
};

void table_init(struct table *table, struct layout *layout, uint32_t capacity, size_t slot_bytes);
bool table_is_full(const struct table *table);
/* A zeroed slot; null if the table is full. */
void *table_take(struct table *table);
void table_give(struct table *table, void *slot);
/* Place of a slot in the table. */
uint32_t table_place(const struct table *table, const void *slot);

struct index {
    void **objects;
    uint32_t count;
    uint32_t capacity;
    size_t key_offset; /* Of the text in each object. */
};

void index_init(struct index *index, struct layout *layout, uint32_t capacity, size_t key_offset);
/* Place of the first object whose key is not below 'key'. */
uint32_t index_lower_bound(const struct index *index, const char *key);
/* Null if there is none. */
void *index_find(const struct index *index, const char *key);
/* The key must not be there yet. */
void index_insert(struct index *index, void *object);
void index_remove(struct index *index, const void *object);

#endif /* table.h */
