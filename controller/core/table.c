/* table.c -- see table.h. */
#include "controller/core/table.h"

#include <string.h>

#include "api/base/status.h"

enum { ALIGNMENT = _Alignof(max_align_t) };

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void *layout_take(struct layout *layout, size_t count, size_t size)
{
    size_t bytes;
    baton_assert(!__builtin_mul_overflow(count, size, &bytes));
    uint8_t *taken = layout->block == NULL ? NULL : layout->block + layout->used;
    layout->used += aligned(bytes);
    return taken;
}

void table_init(struct table *table, struct layout *layout, uint32_t capacity, size_t slot_bytes)
{
    *table = (struct table){ .slot_bytes = aligned(slot_bytes), .capacity = capacity };
    table->slots = layout_take(layout, capacity, table->slot_bytes);
}

bool table_is_full(const struct table *table)
{
    return table->count == table->capacity;
}

void *table_take(struct table *table)
{
    void *slot = table->free;
    if (slot != NULL) {
        memcpy(&table->free, slot, sizeof(table->free));
    } else if (table->high < table->capacity) {
        slot = table->slots + (size_t)table->high * table->slot_bytes;
        table->high++;
    } else {
        return NULL;
    }
    table->count++;
    return memset(slot, 0, table->slot_bytes);
}

void table_give(struct table *table, void *slot)
{
    memcpy(slot, &table->free, sizeof(table->free));
    table->free = slot;
    table->count--;
}

uint32_t table_place(const struct table *table, const void *slot)
{
    size_t offset = (size_t)((const uint8_t *)slot - table->slots);
    return (uint32_t)(offset / table->slot_bytes);
}

void index_init(struct index *index, struct layout *layout, uint32_t capacity, size_t key_offset)
{
    *index = (struct index){ .capacity = capacity, .key_offset = key_offset };
    index->objects = layout_take(layout, capacity, sizeof(void *));
}

static const char *key_of(const struct index *index, const void *object)
{
    return (const char *)object + index->key_offset;
}

uint32_t index_lower_bound(const struct index *index, const char *key)
{
    uint32_t low = 0;
    uint32_t high = index->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (strcmp(key_of(index, index->objects[middle]), key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void *index_find(const struct index *index, const char *key)
{
    uint32_t place = index_lower_bound(index, key);
    if (place == index->count || strcmp(key_of(index, index->objects[place]), key) != 0) {
        return NULL;
    }
    return index->objects[place];
}

void index_insert(struct index *index, void *object)
{
    uint32_t place = index_lower_bound(index, key_of(index, object));
    baton_assert(index->count < index->capacity);
    baton_assert(place == index->count ||
                 strcmp(key_of(index, index->objects[place]), key_of(index, object)) != 0);
    memmove(index->objects + place + 1, index->objects + place,
            (index->count - place) * sizeof(void *));
    index->objects[place] = object;
    index->count++;
}

void index_remove(struct index *index, const void *object)
{
    uint32_t place = index_lower_bound(index, key_of(index, object));
    baton_assert(place < index->count && index->objects[place] == object);
    index->count--;
    memmove(index->objects + place, index->objects + place + 1,
            (index->count - place) * sizeof(void *));
}
