/* plan_emit.c -- copies and buckets, in the order of travel. */
#include <string.h>

#include "transport/layout/plan_state.h"

/* A tensor whose copies are being written. */
struct emission {
    const struct layout_tensor *source;
    const struct layout_tensor *target;
    const struct fragment *fragment;
    uint32_t rank;
    uint32_t bits;
    struct box box; /* What is left of the fragment. */
};

/* The first of a set's ranks on this link; LAYOUT_NONE: none. */
static uint32_t rank_on_link(const struct layout_plan *plan, struct layout_ranks set, uint32_t link)
{
    uint32_t per_link = plan->options.source_ranks_per_link;
    size_t low = 0;
    size_t high = set.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set.ranks[middle] / per_link < link) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < set.count && set.ranks[low] / per_link == link ? set.ranks[low] : LAYOUT_NONE;
}

/* The rank and its piece that have the fragment and send over this link. */
static void find_sender(const struct layout_plan *plan, const struct emission *emission,
                        uint32_t link, struct layout_copy *copy)
{
    size_t size;
    const uint32_t *list = intern_get(&plan->lists, emission->fragment->list, &size);
    for (size_t i = 0; i < size / sizeof(*list); i++) {
        const struct layout_holding *holding =
            layout_holding_get(plan->source, emission->source->first_holding + list[i]);
        for (uint32_t p = 0; p < holding->pieces_count; p++) {
            const struct layout_piece *piece =
                layout_piece_get(plan->source, holding->first_piece + p);
            uint32_t set = layout_local_get(plan->source, piece->local)->set;
            copy->source_rank = rank_on_link(plan, layout_set(plan->source, set), link);
            if (copy->source_rank != LAYOUT_NONE) {
                copy->source_piece = holding->first_piece + p;
                return;
            }
        }
    }
    baton_assert(false && "a choice's link has no rank that holds the fragment");
}

/* Writes one copy; 'box' is its number. */
static bool write_copy(struct layout_plan *plan, const struct emission *emission, uint32_t link,
                       uint32_t box, uint64_t bytes)
{
    if (plan->copies_count == plan->copies_capacity || box == POOL_NONE) {
        return false;
    }
    struct layout_copy *copy = &plan->copies[plan->copies_count++];
    copy->target_holding = emission->target->first_holding + emission->fragment->target_holding;
    copy->box = box;
    plan->egress[link] += bytes;
    if (emission->fragment->only != LAYOUT_NONE && plan->options.source_ranks_per_link == 1) {
        const struct layout_holding *holding = layout_holding_get(
            plan->source, emission->source->first_holding + emission->fragment->only);
        if (holding->pieces_count == 1) { /* The usual case, without a search. */
            copy->source_rank = link;
            copy->source_piece = holding->first_piece;
            return true;
        }
    }
    find_sender(plan, emission, link, copy);
    return true;
}

/* The dimension along which a box may be cut; the rank's number if there is none. */
static uint32_t cut_dimension(const struct emission *emission)
{
    uint32_t d = 0;
    while (d < emission->rank && emission->box.extent[d] == 1) {
        d++;
    }
    return d;
}

/* How many rows of what is left the current link still owes: all, if it is the last one, if they
 * fit, or if nothing can be cut. */
static uint32_t rows_for(const struct emission *emission, const struct choice *choice,
                         uint32_t dimension, bool is_last)
{
    uint32_t rows = dimension < emission->rank ? emission->box.extent[dimension] : 1;
    uint64_t bits = box_volume(emission->rank, &emission->box) * emission->bits;
    uint64_t row_bits = bits / rows;
    uint64_t owed = choice->quotas[choice->cursor];
    if (is_last || owed >= bits / 8) {
        return rows;
    }
    if (rows == 1 || row_bits % 8 != 0) {
        return owed * 2 >= bits / 8 ? rows : 0;
    }
    uint64_t fit = (owed + row_bits / 16) / (row_bits / 8); /* Rounded to the nearest row. */
    return fit < rows ? (uint32_t)fit : rows;
}

/* Gives the fragment to the links of its choice, one after the other, as their quotas last. */
static bool share(struct layout_plan *plan, struct emission *emission, uint32_t number)
{
    struct choice *choice = pool_get(&plan->choices, number);
    size_t count;
    const uint32_t *links = intern_get(&plan->choice_keys, number, &count);
    count /= sizeof(*links);
    uint32_t box = emission->fragment->box;
    if (count == 1) {
        return write_copy(plan, emission, links[0], box,
                          emission->fragment->volume * emission->bits / 8);
    }
    emission->box = *layout_plan_box(plan, box);
    for (;;) {
        bool is_last = choice->cursor + 1 == count;
        uint32_t d = cut_dimension(emission);
        uint32_t rows = rows_for(emission, choice, d, is_last);
        uint32_t all = d < emission->rank ? emission->box.extent[d] : 1;
        if (rows == 0) {
            choice->cursor++;
            continue;
        }
        struct box part = emission->box;
        if (rows < all) {
            part.extent[d] = rows;
        }
        uint64_t bytes = box_volume(emission->rank, &part) * emission->bits / 8;
        choice->quotas[choice->cursor] -=
            bytes < choice->quotas[choice->cursor] ? bytes : choice->quotas[choice->cursor];
        if (!write_copy(plan, emission, links[choice->cursor],
                        intern_add(&plan->boxes, &part, sizeof(part)), bytes)) {
            return false;
        }
        if (rows == all) {
            return true;
        }
        emission->box.begin[d] += rows;
        emission->box.extent[d] -= rows;
        choice->cursor++;
    }
}

/* Writes all copies of a tensor. */
static bool emit_tensor(struct layout_plan *plan, uint32_t t)
{
    const struct meeting *meeting = pool_get(&plan->meetings, plan->met[t]);
    struct emission emission = { .source = layout_tensor_get(plan->source, plan->partners[t]),
                                 .target = layout_tensor_get(plan->target, t) };
    emission.rank = layout_shape(plan->source, emission.source->shape)->rank;
    emission.bits = tensor_dtype_bits((enum tensor_dtype)emission.source->dtype);
    for (uint32_t f = 0; f < meeting->count; f++) {
        emission.fragment = &meeting->fragments[f];
        uint32_t choice = plan_choice(plan, emission.source, emission.fragment);
        if (choice == LAYOUT_NONE || !share(plan, &emission, choice)) {
            return false;
        }
    }
    return true;
}

/* What a tensor's copies carry. */
static uint64_t tensor_bytes(const struct layout_plan *plan, uint32_t t)
{
    const struct meeting *meeting = pool_get(&plan->meetings, plan->met[t]);
    uint64_t volume = 0;
    for (uint32_t f = 0; f < meeting->count; f++) {
        volume += meeting->fragments[f].volume;
    }
    return plan_bytes(plan, plan->partners[t], volume);
}

/* Tensors of 'order' from 'i' on that must stay together: one, or an atomic set. */
static uint32_t unit_size(const struct layout_plan *plan, uint32_t i)
{
    uint32_t atomic = layout_tensor_get(plan->target, plan->order[i])->atomic;
    uint32_t size = 1;
    while (atomic != LAYOUT_NONE && i + size < plan->order_count &&
           layout_tensor_get(plan->target, plan->order[i + size])->atomic == atomic) {
        size++;
    }
    return size;
}

static bool emit_unit(struct layout_plan *plan, uint32_t i, uint32_t size)
{
    struct layout_bucket *bucket =
        plan->buckets.count > 0 ? pool_get(&plan->buckets, plan->buckets.count - 1) : NULL;
    uint64_t bytes = 0;
    for (uint32_t m = 0; m < size; m++) {
        bytes += tensor_bytes(plan, plan->order[i + m]);
    }
    if (bucket == NULL ||
        (bucket->tensors_count > 0 && bucket->bytes + bytes > plan->options.bucket_bytes)) {
        bucket = pool_add(&plan->buckets);
        if (bucket == NULL) {
            return false;
        }
        bucket->first_copy = plan->copies_count;
    }
    for (uint32_t m = 0; m < size; m++) {
        if (!emit_tensor(plan, plan->order[i + m])) {
            return false;
        }
    }
    bucket->bytes += bytes;
    bucket->tensors_count += size;
    bucket->copies_count = plan->copies_count - bucket->first_copy;
    if (bucket->bytes > plan->figures.bucket_bytes_max) {
        plan->figures.bucket_bytes_max = bucket->bytes;
    }
    return true;
}

static void find_bottleneck(struct layout_plan *plan)
{
    struct layout_plan_figures *figures = &plan->figures;
    for (uint32_t l = 0; l < plan->source_links; l++) {
        if (plan->egress[l] > figures->egress_max) {
            figures->egress_max = plan->egress[l];
            figures->bottleneck_link = l;
            figures->bottleneck_is_source = true;
        }
    }
    figures->bottleneck = figures->egress_max;
    for (uint32_t l = 0; l < plan->target_links; l++) {
        if (plan->ingress[l] > figures->bottleneck) {
            figures->bottleneck = plan->ingress[l];
            figures->bottleneck_link = l;
            figures->bottleneck_is_source = false;
        }
    }
}

struct baton_status plan_emit(struct layout_plan *plan)
{
    plan->copies = baton_arena_take(plan->arena, plan->copies_capacity, sizeof(*plan->copies));
    if (plan->copies == NULL) {
        return plan_full(plan);
    }
    for (uint32_t i = 0; i < plan->order_count;) {
        uint32_t size = unit_size(plan, i);
        if (!emit_unit(plan, i, size)) {
            return plan_full(plan);
        }
        i += size;
    }
    find_bottleneck(plan);
    return baton_status_ok();
}
