/* boxes.c -- folding levels, choosing units, counting tiles. */
#include "transport/cuda/boxes.h"

#include <string.h>

enum { LEVELS = BATON_CUDA_BOX_LEVELS, UNIT_MAX = 16 };

/* A copy in bytes; levels outermost first. */
struct folded {
    uint64_t run_bytes;
    uint32_t levels;
    uint64_t counts[BATON_TENSOR_RANK_MAX];
    uint64_t source_steps[BATON_TENSOR_RANK_MAX];
    uint64_t target_steps[BATON_TENSOR_RANK_MAX];
};

static void push_level(struct folded *folded, uint64_t count, uint64_t source, uint64_t target)
{
    folded->counts[folded->levels] = count;
    folded->source_steps[folded->levels] = source;
    folded->target_steps[folded->levels] = target;
    folded->levels++;
}

/* A level's steps are those of the level inside it, times its count: they are
 * one. */
static bool continues(const struct folded *folded, uint64_t source, uint64_t target)
{
    uint32_t inner = folded->levels - 1;
    return folded->levels > 0 && source == folded->source_steps[inner] * folded->counts[inner] &&
           target == folded->target_steps[inner] * folded->counts[inner];
}

/* Innermost first, which is how they fold. */
static struct folded fold(const struct layout_strides *strides)
{
    struct folded folded = { .run_bytes = strides->run_elements * strides->source_bits / 8 };
    for (uint32_t level = strides->levels; level-- > 0;) {
        uint64_t count = strides->counts[level];
        uint64_t source = strides->source_steps[level];
        uint64_t target = strides->target_steps[level];
        if (count == 1) {
            continue;
        }
        if (folded.levels == 0 && source == folded.run_bytes && target == folded.run_bytes) {
            folded.run_bytes *= count;
        } else if (continues(&folded, source, target)) {
            folded.counts[folded.levels - 1] *= count;
        } else {
            push_level(&folded, count, source, target);
        }
    }
    return folded;
}

static uint64_t unit_of(const struct baton_cuda_box *box)
{
    uint64_t all = (uintptr_t)box->source | (uintptr_t)box->target | box->run_bytes | UNIT_MAX;
    for (uint32_t level = 0; level < LEVELS; level++) {
        all |= box->source_steps[level] | box->target_steps[level];
    }
    return all & (0 - all);
}

static void push_box(struct boxes *boxes, struct baton_cuda_box box)
{
    box.unit_bytes = unit_of(&box);
    box.first_tile = boxes->tiles;
    uint64_t units = box.run_bytes / box.unit_bytes * box.counts[0] * box.counts[1] * box.counts[2];
    boxes->tiles += (units + BATON_CUDA_BOX_TILE - 1) / BATON_CUDA_BOX_TILE;
    boxes->items[boxes->count] = box;
    boxes->count++;
}

/* How many boxes: the product of the counts that no box has a level for. */
static uint64_t boxes_of(const struct folded *folded)
{
    uint64_t count = 1;
    for (uint32_t level = LEVELS; level < folded->levels; level++) {
        if (folded->counts[level] > UINT32_MAX / count) {
            return UINT32_MAX;
        }
        count *= folded->counts[level];
    }
    return count;
}

static struct baton_cuda_box inner_box(const struct folded *folded)
{
    struct baton_cuda_box box = { .counts = { 1, 1, 1 }, .run_bytes = folded->run_bytes };
    for (uint32_t level = 0; level < folded->levels && level < LEVELS; level++) {
        uint32_t at = LEVELS - 1 - level;
        box.counts[at] = folded->counts[level];
        box.source_steps[at] = folded->source_steps[level];
        box.target_steps[at] = folded->target_steps[level];
    }
    return box;
}

static void push_all(struct boxes *boxes, const struct folded *folded, const uint8_t *source,
                     uint8_t *target)
{
    uint64_t count = boxes_of(folded);
    for (uint64_t i = 0; i < count; i++) {
        struct baton_cuda_box box = inner_box(folded);
        uint64_t rest = i;
        uint64_t from = 0;
        uint64_t to = 0;
        for (uint32_t level = LEVELS; level < folded->levels; level++) {
            from += rest % folded->counts[level] * folded->source_steps[level];
            to += rest % folded->counts[level] * folded->target_steps[level];
            rest /= folded->counts[level];
        }
        box.source = source + from;
        box.target = target + to;
        push_box(boxes, box);
    }
}

static bool is_nothing(const struct layout_strides *strides)
{
    for (uint32_t level = 0; level < strides->levels; level++) {
        if (strides->counts[level] == 0) {
            return true;
        }
    }
    return strides->run_elements == 0;
}

struct baton_status boxes_add(struct boxes *boxes, const struct layout_strides *strides,
                              const void *source, void *target)
{
    if (strides->source_bits != strides->target_bits ||
        strides->run_elements * strides->source_bits % 8 != 0) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "a copy of elements of %u bits to %u bits, in runs of %llu: not "
                                 "one of bytes",
                                 strides->source_bits, strides->target_bits,
                                 (unsigned long long)strides->run_elements);
    }
    if (is_nothing(strides)) {
        return baton_status_ok();
    }
    struct folded folded = fold(strides);
    if (boxes_of(&folded) > boxes->capacity - boxes->count) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "%u boxes are too few for this plan", boxes->capacity);
    }
    push_all(boxes, &folded, (const uint8_t *)source + strides->source_offset,
             (uint8_t *)target + strides->target_offset);
    return baton_status_ok();
}
