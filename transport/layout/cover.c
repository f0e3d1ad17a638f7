/* cover.c -- see cover.h. */
#include "transport/layout/cover.h"

#include <string.h>

enum { PARTS_FIRST = 32 };

static bool make_room(struct cover *cover, uint32_t more)
{
    uint32_t capacity = cover->capacity == 0 ? PARTS_FIRST : cover->capacity;
    while (capacity < cover->count + more) {
        capacity *= 2;
    }
    if (capacity == cover->capacity) {
        return true;
    }
    struct cover_part *parts = capacity <= COVER_PARTS_MAX
                                   ? baton_arena_take(cover->arena, capacity, sizeof(*parts))
                                   : NULL;
    if (parts == NULL) {
        return false;
    }
    if (cover->count > 0) {
        memcpy(parts, cover->parts, cover->count * sizeof(*parts));
    }
    cover->parts = parts;
    cover->capacity = capacity;
    return true;
}

bool cover_begin(struct cover *cover, uint32_t rank, const struct box *box)
{
    cover->rank = rank;
    cover->count = 0;
    if (!make_room(cover, 1)) {
        return false;
    }
    cover->parts[cover->count++] = (struct cover_part){ *box, POOL_NONE };
    return true;
}

/* The list with 'number' behind its end. */
static uint32_t longer_list(struct cover *cover, uint32_t list, uint32_t number)
{
    size_t size = 0;
    const void *old = list != POOL_NONE ? intern_get(cover->lists, list, &size) : NULL;
    size_t used = cover->arena->used;
    uint8_t *numbers = baton_arena_take(cover->arena, size + sizeof(number), 1);
    if (numbers == NULL) {
        return POOL_NONE;
    }
    if (size > 0) {
        memcpy(numbers, old, size);
    }
    memcpy(numbers + size, &number, sizeof(number));
    uint32_t known = intern_find(cover->lists, numbers, size + sizeof(number));
    if (known != POOL_NONE) {
        cover->arena->used = used;
        return known;
    }
    return intern_add(cover->lists, numbers, size + sizeof(number));
}

/* Replaces part 'i' by what lies outside 'common' and, with lists, by 'common' itself. */
static bool cut_part(struct cover *cover, uint32_t i, const struct box *common, uint32_t number)
{
    struct box rest[BOX_REST_MAX];
    struct cover_part part = cover->parts[i];
    uint32_t rest_count = box_subtract(cover->rank, &part.box, common, rest);
    if (!make_room(cover, rest_count)) {
        return false;
    }
    for (uint32_t r = 0; r < rest_count; r++) {
        cover->parts[cover->count++] = (struct cover_part){ rest[r], part.list };
    }
    if (cover->lists == NULL) {
        cover->parts[i] = cover->parts[--cover->count];
        return true;
    }
    cover->parts[i] = (struct cover_part){ *common, longer_list(cover, part.list, number) };
    return cover->parts[i].list != POOL_NONE;
}

bool cover_cut(struct cover *cover, const struct box *box, uint32_t number)
{
    /* From the end: what a cut appends lies outside 'box', and a dropped part's place is taken by
     * one that was looked at already. */
    for (uint32_t i = cover->count; i > 0; i--) {
        struct box common;
        if (box_intersect(cover->rank, &cover->parts[i - 1].box, box, &common) &&
            !cut_part(cover, i - 1, &common, number)) {
            return false;
        }
    }
    return true;
}
