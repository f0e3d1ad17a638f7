/* group.c -- sealing, first half: pieces sorted by tensor and box, equal boxes made one holding. */
#include <string.h>

#include "transport/layout/layout_state.h"

/* Where each tensor's pieces begin, by counting; 'starts' has one entry more than there are
 * tensors. */
static void count_pieces(const struct layout *layout, uint32_t *starts)
{
    for (uint32_t i = 0; i < layout->added.count; i++) {
        const struct layout_piece *piece = pool_get(&layout->added, i);
        starts[piece->tensor + 1]++;
    }
    for (uint32_t t = 0; t < layout->tensors.count; t++) {
        starts[t + 1] += starts[t];
    }
}

/* Keys of all pieces, by tensor: box above, the order in which they came below. */
static void place_keys(const struct layout *layout, const uint32_t *starts, uint32_t *filled,
                       uint64_t *keys)
{
    for (uint32_t i = 0; i < layout->added.count; i++) {
        const struct layout_piece *piece = pool_get(&layout->added, i);
        keys[starts[piece->tensor] + filled[piece->tensor]++] = (uint64_t)piece->box << 32 | i;
    }
}

/* All ranks of all pieces of a holding as one set. */
static uint32_t union_set(struct layout *layout, const struct layout_holding *holding)
{
    const struct layout_piece *pieces = &layout->pieces[holding->first_piece];
    const struct layout_local *first = pool_get(&layout->locals, pieces[0].local);
    size_t total = 0;
    for (uint32_t p = 0; p < holding->pieces_count; p++) {
        const struct layout_local *local = pool_get(&layout->locals, pieces[p].local);
        total += layout_set(layout, local->set).count;
    }
    if (holding->pieces_count == 1) {
        return first->set;
    }
    uint64_t *keys = baton_arena_take(layout->arena, total, sizeof(*keys));
    uint32_t *ranks = baton_arena_take(layout->arena, total, sizeof(*ranks));
    if (keys == NULL || ranks == NULL) {
        return LAYOUT_NONE;
    }
    size_t count = 0;
    for (uint32_t p = 0; p < holding->pieces_count; p++) {
        const struct layout_local *local = pool_get(&layout->locals, pieces[p].local);
        struct layout_ranks set = layout_set(layout, local->set);
        for (size_t r = 0; r < set.count; r++) {
            keys[count++] = set.ranks[r];
        }
    }
    sort_u64(keys, count);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || ranks[kept - 1] != keys[i]) {
            ranks[kept++] = (uint32_t)keys[i];
        }
    }
    return intern_add(&layout->sets, ranks, kept * sizeof(*ranks));
}

/* Makes the holdings of one tensor from its sorted pieces, and its pattern. */
static bool group_tensor(struct layout *layout, uint32_t t, uint32_t begin, uint32_t end)
{
    struct layout_tensor *tensor = pool_get(&layout->tensors, t);
    size_t used = layout->arena->used;
    uint32_t *boxes = baton_arena_take(layout->arena, end - begin, sizeof(*boxes));
    if (boxes == NULL) {
        return false;
    }
    tensor->first_holding = layout->holdings_count;
    for (uint32_t i = begin; i < end;) {
        struct layout_holding *holding = &layout->holdings[layout->holdings_count++];
        *holding = (struct layout_holding){ .box = layout->pieces[i].box, .first_piece = i };
        while (i < end && layout->pieces[i].box == holding->box) {
            holding->pieces_count++;
            i++;
        }
        boxes[tensor->holdings_count++] = holding->box;
        holding->set = union_set(layout, holding);
        if (holding->set == LAYOUT_NONE) {
            return false;
        }
    }
    uint32_t patterns = intern_count(&layout->patterns);
    uint32_t sets = intern_count(&layout->sets);
    tensor->pattern = intern_add(&layout->patterns, boxes, tensor->holdings_count * sizeof(*boxes));
    if (patterns == intern_count(&layout->patterns) && sets == intern_count(&layout->sets) &&
        tensor->holdings_count == end - begin) {
        layout->arena->used = used; /* Nothing was kept of what was taken here. */
    }
    return tensor->pattern != LAYOUT_NONE;
}

struct baton_status layout_group(struct layout *layout)
{
    uint32_t tensors = layout->tensors.count;
    uint32_t count = layout->added.count;
    layout->pieces = baton_arena_take(layout->arena, count, sizeof(*layout->pieces));
    layout->holdings = baton_arena_take(layout->arena, count, sizeof(*layout->holdings));
    uint32_t *starts = baton_arena_take(layout->arena, tensors + 1, sizeof(*starts));
    uint32_t *filled = baton_arena_take(layout->arena, tensors, sizeof(*filled));
    size_t used = layout->arena->used;
    uint64_t *keys = baton_arena_take(layout->arena, count, sizeof(*keys));
    if (layout->pieces == NULL || layout->holdings == NULL || starts == NULL || filled == NULL ||
        keys == NULL) {
        return layout_full(layout);
    }
    count_pieces(layout, starts);
    place_keys(layout, starts, filled, keys);
    for (uint32_t t = 0; t < tensors; t++) {
        sort_u64(keys + starts[t], starts[t + 1] - starts[t]);
        for (uint32_t i = starts[t]; i < starts[t + 1]; i++) {
            const struct layout_piece *piece = pool_get(&layout->added, (uint32_t)keys[i]);
            layout->pieces[i] = *piece;
        }
    }
    layout->arena->used = used; /* The keys are not needed any more. */
    for (uint32_t t = 0; t < tensors; t++) {
        if (!group_tensor(layout, t, starts[t], starts[t + 1])) {
            return layout_full(layout);
        }
    }
    return baton_status_ok();
}
