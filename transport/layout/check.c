/* check.c -- sealing, second half: no gap in a tensor, no overlap or gap in a local, scales beside
 * their values, ties that end. */
#include <string.h>

#include "transport/layout/cover.h"
#include "transport/layout/layout_state.h"

/* No real layout has a tie to a tied tensor; a few are harmless. */
enum { LOCAL_PIECES_MAX = 1 << 16, TIES_MAX = 16 };

static struct box whole_of(const struct tensor_shape *shape)
{
    struct box box;
    memset(&box, 0, sizeof(box));
    for (uint32_t d = 0; d < shape->rank; d++) {
        box.extent[d] = (uint32_t)shape->dims[d];
    }
    return box;
}

/* --- tensors: every element is on some rank --- */

static struct baton_status check_gap(struct layout *layout, const struct layout_tensor *tensor)
{
    const struct tensor_shape *shape = layout_shape(layout, tensor->shape);
    struct cover cover = { .arena = layout->arena };
    struct box whole = whole_of(shape);
    bool fits = box_volume(shape->rank, &whole) == 0 || cover_begin(&cover, shape->rank, &whole);
    for (uint32_t h = 0; fits && h < tensor->holdings_count && cover.count > 0; h++) {
        const struct layout_holding *holding = &layout->holdings[tensor->first_holding + h];
        fits = cover_cut(&cover, layout_box(layout, holding->box), h);
    }
    if (!fits) {
        return layout_full(layout);
    }
    if (cover.count > 0) {
        char text[BOX_TEXT_BYTES];
        box_format(shape->rank, &cover.parts[0].box, text);
        return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                                 "layout %.80s: gap: %.120s: %.90s is on no rank", layout->name,
                                 layout_text(layout, tensor->name), text);
    }
    return baton_status_ok();
}

/* Tensors that are cut alike are checked once. */
static struct baton_status check_gaps(struct layout *layout)
{
    struct intern checked;
    struct baton_status st = baton_status_ok();
    intern_init(&checked, layout->arena);
    for (uint32_t t = 0; t < layout->tensors.count && baton_ok(&st); t++) {
        const struct layout_tensor *tensor = pool_get(&layout->tensors, t);
        uint32_t key[2] = { tensor->pattern, tensor->shape };
        bool may_be_nowhere = tensor->tied != LAYOUT_NONE || (tensor->flags & LAYOUT_KEEP) != 0;
        if (may_be_nowhere && tensor->holdings_count == 0) {
            continue; /* Shares the other's memory, or is the engine's own affair. */
        }
        if (intern_find(&checked, key, sizeof(key)) == POOL_NONE) {
            size_t used = layout->arena->used;
            st = check_gap(layout, tensor);
            layout->arena->used = used;
            if (baton_ok(&st) && intern_add(&checked, key, sizeof(key)) == POOL_NONE) {
                st = layout_full(layout);
            }
        }
    }
    return st;
}

/* --- locals: every element belongs to one piece or pad --- */

/* What lies in a local: a piece, or a pad. */
struct stretch {
    uint64_t begin;
    uint64_t row;   /* Elements in a row. */
    uint64_t pitch; /* From row to row; equal to 'row' if they follow each other. */
    uint64_t span;
    uint32_t tensor; /* LAYOUT_NONE: a pad. */
};

static struct stretch stretch_of(const struct layout *layout, uint32_t i)
{
    if (i >= layout->added.count) {
        const struct layout_pad *pad = pool_get(&layout->pads, i - layout->added.count);
        return (struct stretch){ pad->offset, pad->elements, pad->elements, pad->elements,
                                 LAYOUT_NONE };
    }
    const struct layout_piece *piece = &layout->pieces[i];
    const struct layout_tensor *tensor = pool_get(&layout->tensors, piece->tensor);
    const struct box *box = layout_box(layout, piece->box);
    uint64_t volume = box_volume(layout_shape(layout, tensor->shape)->rank, box);
    struct stretch out = { piece->offset, volume, volume, volume, piece->tensor };
    if (piece->pitch != 0 && box->extent[0] > 1) {
        out.row = volume / box->extent[0];
        out.pitch = piece->pitch;
        out.span = (box->extent[0] - 1) * out.pitch + out.row;
    }
    return out;
}

/* True if the two, which overlap in their spans, certainly share no element: rows of one pitch that
 * lie beside each other. */
static bool are_interleaved(const struct stretch *a, const struct stretch *b)
{
    uint64_t x = a->begin % a->pitch;
    uint64_t y = b->begin % a->pitch;
    if (a->pitch != b->pitch || a->span == a->row || b->span == b->row) {
        return false;
    }
    uint64_t apart = y >= x ? y - x : y + a->pitch - x; /* From a row of 'a' to the next of 'b'. */
    return apart >= a->row && a->pitch - apart >= b->row;
}

static struct baton_status overlap(const struct layout *layout, const struct layout_local *local,
                                   const struct stretch *a, const struct stretch *b)
{
    const char *names[2] = { "padding", "padding" };
    const struct stretch *both[2] = { a, b };
    for (int i = 0; i < 2; i++) {
        if (both[i]->tensor != LAYOUT_NONE) {
            const struct layout_tensor *tensor = pool_get(&layout->tensors, both[i]->tensor);
            names[i] = layout_text(layout, tensor->name);
        }
    }
    return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                             "layout %.40s: overlap: rank %u: %.70s: from element %llu on it holds "
                             "both %.70s and %.70s",
                             layout->name, layout_set(layout, local->set).ranks[0],
                             layout_text(layout, local->name), (unsigned long long)b->begin,
                             names[0], names[1]);
}

/* Sorted by begin: each is compared with those that begin inside of it. */
static struct baton_status check_stretches(struct layout *layout, const struct layout_local *local,
                                           const uint64_t *keys, const uint32_t *order,
                                           uint32_t count)
{
    uint64_t filled = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct stretch a = stretch_of(layout, order[(uint32_t)keys[i]]);
        filled += a.tensor == LAYOUT_NONE
                      ? a.span
                      : (a.span == a.row ? a.row : ((a.span - a.row) / a.pitch + 1) * a.row);
        for (uint32_t k = i + 1; k < count; k++) {
            struct stretch b = stretch_of(layout, order[(uint32_t)keys[k]]);
            if (b.begin >= a.begin + a.span) {
                break;
            }
            if (!are_interleaved(&a, &b)) {
                return overlap(layout, local, &a, &b);
            }
        }
    }
    if (filled != local->elements) {
        return baton_status_make(
            BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
            "layout %.80s: gap: rank %u: %.120s: %llu of %llu elements belong "
            "to no tensor and no padding",
            layout->name, layout_set(layout, local->set).ranks[0], layout_text(layout, local->name),
            (unsigned long long)(local->elements - filled), (unsigned long long)local->elements);
    }
    return baton_status_ok();
}

/* Pieces and pads by local: 'starts' and 'order' as in counting sort. */
static bool order_by_local(struct layout *layout, uint32_t **starts_out, uint32_t **order_out)
{
    uint32_t total = layout->added.count + layout->pads.count;
    uint32_t locals = layout->locals.count;
    uint32_t *starts = baton_arena_take(layout->arena, (size_t)locals + 2, sizeof(*starts));
    uint32_t *order = baton_arena_take(layout->arena, total, sizeof(*order));
    if (starts == NULL || order == NULL) {
        return false;
    }
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < total; i++) {
            uint32_t local =
                i < layout->added.count
                    ? layout->pieces[i].local
                    : ((struct layout_pad *)pool_get(&layout->pads, i - layout->added.count))
                          ->local;
            if (pass == 0) {
                starts[local + 2]++;
            } else {
                order[starts[local + 1]++] = i; /* Ends as the start of the next local. */
            }
        }
        for (uint32_t l = 0; pass == 0 && l < locals; l++) {
            starts[l + 2] += starts[l + 1];
        }
    }
    *starts_out = starts;
    *order_out = order;
    return true;
}

static struct baton_status check_locals(struct layout *layout)
{
    uint32_t *starts, *order;
    struct baton_status st = baton_status_ok();
    size_t used = layout->arena->used;
    if (!order_by_local(layout, &starts, &order)) {
        return layout_full(layout);
    }
    for (uint32_t l = 0; l < layout->locals.count && baton_ok(&st); l++) {
        size_t mark = layout->arena->used;
        uint32_t count = starts[l + 1] - starts[l];
        uint64_t *keys = baton_arena_take(layout->arena, count, sizeof(*keys));
        if (count > LOCAL_PIECES_MAX || keys == NULL) {
            return layout_full(layout);
        }
        for (uint32_t i = 0; i < count; i++) { /* An offset has 48 bits, so 16 are free. */
            keys[i] = stretch_of(layout, order[starts[l] + i]).begin << 16 | i;
        }
        sort_u64(keys, count);
        for (uint32_t i = 0; i < count; i++) {
            keys[i] &= 0xffff;
        }
        st = check_stretches(layout, pool_get(&layout->locals, l), keys, order + starts[l], count);
        layout->arena->used = mark;
    }
    layout->arena->used = used;
    return st;
}

/* --- scales: who holds a value holds the scales of its blocks --- */

static bool is_subset(struct layout_ranks inner, struct layout_ranks outer)
{
    for (size_t i = 0; i < inner.count; i++) {
        if (!layout_ranks_have(outer, inner.ranks[i])) {
            return false;
        }
    }
    return true;
}

/* The box of scales of a box of values: blocks of the last two dimensions. */
static struct box blocks_of(const struct layout_tensor *tensor, uint32_t rank,
                            const struct box *value)
{
    struct box out = *value;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t d = rank - 2 + i;
        uint32_t end = value->begin[d] + value->extent[d] - 1;
        out.begin[d] = value->begin[d] / tensor->block[i];
        out.extent[d] = end / tensor->block[i] - out.begin[d] + 1;
    }
    return out;
}

static struct baton_status check_scale(struct layout *layout, const struct layout_tensor *tensor,
                                       const struct layout_tensor *scale)
{
    const struct tensor_shape *shape = layout_shape(layout, tensor->shape);
    const struct tensor_shape *scale_shape = layout_shape(layout, scale->shape);
    struct box whole = whole_of(shape);
    struct box grid = blocks_of(tensor, shape->rank, &whole);
    struct box scale_whole = whole_of(scale_shape);
    if (shape->rank != scale_shape->rank || !box_equal(shape->rank, &grid, &scale_whole)) {
        char text[TENSOR_SHAPE_TEXT_BYTES];
        tensor_shape_format(scale_shape, text);
        return baton_status_make(
            BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
            "layout %.80s: %.120s: blocks of %ux%u do not give scales of shape "
            "%.60s",
            layout->name, layout_text(layout, tensor->name), tensor->block[0], tensor->block[1],
            text);
    }
    for (uint32_t h = 0; h < tensor->holdings_count && !layout->is_gathered; h++) {
        const struct layout_holding *holding = &layout->holdings[tensor->first_holding + h];
        struct box need = blocks_of(tensor, shape->rank, layout_box(layout, holding->box));
        struct cover cover = { .arena = layout->arena };
        size_t used = layout->arena->used;
        bool fits = cover_begin(&cover, shape->rank, &need);
        for (uint32_t s = 0; fits && s < scale->holdings_count; s++) {
            const struct layout_holding *other = &layout->holdings[scale->first_holding + s];
            if (is_subset(layout_set(layout, holding->set), layout_set(layout, other->set))) {
                fits = cover_cut(&cover, layout_box(layout, other->box), s);
            }
        }
        layout->arena->used = used;
        if (!fits) {
            return layout_full(layout);
        }
        if (cover.count > 0) {
            char text[BOX_TEXT_BYTES];
            box_format(shape->rank, &cover.parts[0].box, text);
            return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                                     "layout %.60s: rank %u holds values of %.90s without the "
                                     "scales %.60s of %.60s",
                                     layout->name, layout_set(layout, holding->set).ranks[0],
                                     layout_text(layout, tensor->name), text,
                                     layout_text(layout, scale->name));
        }
    }
    return baton_status_ok();
}

/* The tensor that a text names; LAYOUT_NONE: none. */
static uint32_t linked(const struct layout *layout, uint32_t text)
{
    return text != LAYOUT_NONE ? *(uint32_t *)pool_get(&layout->tensor_by_text, text) : LAYOUT_NONE;
}

static struct baton_status bad_tie(const struct layout *layout, const struct layout_tensor *tensor,
                                   const char *what)
{
    return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                             "layout %.80s: %.100s is tied to %.100s%s", layout->name,
                             layout_text(layout, tensor->name), layout_text(layout, tensor->tied),
                             what);
}

/* Ties end: at a tensor without one, which check_gaps found on some rank (or it is kept). */
static struct baton_status check_tie(const struct layout *layout,
                                     const struct layout_tensor *tensor)
{
    const struct layout_tensor *end = tensor;
    for (uint32_t steps = 0; end->tied != LAYOUT_NONE; steps++) {
        uint32_t next = linked(layout, end->tied);
        if (next == LAYOUT_NONE) {
            break; /* Refused at the tensor that names it. */
        }
        end = pool_get(&layout->tensors, next);
        if (end == tensor || steps == TIES_MAX) {
            return bad_tie(layout, tensor,
                           end == tensor ? ", and that to it" : " over too many others");
        }
        if (end->shape != tensor->shape || end->dtype != tensor->dtype) {
            return bad_tie(layout, tensor, ", which has another shape or dtype");
        }
    }
    return baton_status_ok();
}

static struct baton_status check_links(struct layout *layout)
{
    struct baton_status st = baton_status_ok();
    for (uint32_t t = 0; t < layout->tensors.count && baton_ok(&st); t++) {
        const struct layout_tensor *tensor = pool_get(&layout->tensors, t);
        const uint32_t links[2] = { tensor->scale, tensor->tied };
        for (int i = 0; i < 2 && baton_ok(&st); i++) {
            if (links[i] != LAYOUT_NONE && linked(layout, links[i]) == LAYOUT_NONE) {
                st = baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                                       "layout %.80s: %.100s needs %.100s, which is not there",
                                       layout->name, layout_text(layout, tensor->name),
                                       layout_text(layout, links[i]));
            }
        }
        if (baton_ok(&st) && tensor->scale != LAYOUT_NONE) {
            st = check_scale(layout, tensor,
                             pool_get(&layout->tensors, linked(layout, tensor->scale)));
        }
        if (baton_ok(&st)) {
            st = check_tie(layout, tensor);
        }
    }
    return st;
}

struct baton_status layout_check(struct layout *layout)
{
    struct baton_status st = check_gaps(layout);
    if (baton_ok(&st)) {
        st = check_locals(layout);
    }
    return baton_ok(&st) ? check_links(layout) : st;
}
