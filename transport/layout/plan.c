/* plan.c -- the planner's steps, and reading a plan; see plan.h. */
#include "transport/layout/plan.h"

#include <string.h>

#include "transport/layout/plan_state.h"

#define BUCKET_BYTES (UINT64_C(1) << 30)

struct baton_status plan_full(const struct layout_plan *plan)
{
    return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                             "plan from %.60s to %.60s: its memory of %zu bytes is full",
                             layout_name(plan->source), layout_name(plan->target),
                             plan->arena->capacity);
}

uint64_t plan_bytes(const struct layout_plan *plan, uint32_t source_tensor, uint64_t elements)
{
    const struct layout_tensor *tensor = layout_tensor_get(plan->source, source_tensor);
    return elements * tensor_dtype_bits((enum tensor_dtype)tensor->dtype) / 8;
}

static void fill_options(struct layout_plan_options *options)
{
    options->bucket_bytes = options->bucket_bytes == 0 ? BUCKET_BYTES : options->bucket_bytes;
    options->source_ranks_per_link += options->source_ranks_per_link == 0;
    options->target_ranks_per_link += options->target_ranks_per_link == 0;
}

/* Links of so many ranks; the bound of layout_plan_options is the caller's, the sum must not wrap. */
static uint32_t links_of(const struct layout *layout, uint32_t ranks_per_link)
{
    uint32_t ranks = layout_ranks_count(layout);
    return ranks == 0 ? 0 : (ranks - 1) / ranks_per_link + 1;
}

static bool init(struct layout_plan *plan, struct baton_arena *arena)
{
    uint32_t tensors = layout_tensors_count(plan->target);
    uint32_t sets = layout_sets_count(plan->source);
    fill_options(&plan->options);
    plan->arena = arena;
    intern_init(&plan->boxes, arena);
    intern_init(&plan->lists, arena);
    intern_init(&plan->meeting_keys, arena);
    intern_init(&plan->choice_keys, arena);
    pool_init(&plan->meetings, arena, sizeof(struct meeting));
    pool_init(&plan->choices, arena, sizeof(struct choice));
    pool_init(&plan->buckets, arena, sizeof(struct layout_bucket));
    plan->source_links = links_of(plan->source, plan->options.source_ranks_per_link);
    plan->target_links = links_of(plan->target, plan->options.target_ranks_per_link);
    plan->choice_of_set = baton_arena_take(arena, sets, sizeof(uint32_t));
    plan->egress = baton_arena_take(arena, plan->source_links, sizeof(uint64_t));
    plan->ingress = baton_arena_take(arena, plan->target_links, sizeof(uint64_t));
    plan->partners = baton_arena_take(arena, tensors, sizeof(uint32_t));
    plan->met = baton_arena_take(arena, tensors, sizeof(uint32_t));
    plan->order = baton_arena_take(arena, tensors, sizeof(uint32_t));
    if (plan->choice_of_set == NULL || plan->egress == NULL || plan->ingress == NULL ||
        plan->partners == NULL || plan->met == NULL || plan->order == NULL) {
        return false;
    }
    memset(plan->choice_of_set, 0xff, sets * sizeof(uint32_t));
    return true;
}

struct baton_status layout_plan_create(const struct layout *source, const struct layout *target,
                                       const struct layout_plan_options *options,
                                       struct baton_arena *arena, struct layout_plan **out)
{
    struct layout_plan on_stack = { .source = source, .target = target, .arena = arena };
    struct layout_plan *plan = baton_arena_take(arena, 1, sizeof(*plan));
    if (plan == NULL) {
        return plan_full(&on_stack);
    }
    *plan = on_stack;
    plan->options = *options;
    if (!init(plan, arena)) {
        return plan_full(plan);
    }
    struct baton_status st = plan_match(plan);
    if (baton_ok(&st)) {
        st = plan_meet(plan);
    }
    if (baton_ok(&st)) {
        st = plan_balance(plan);
    }
    if (baton_ok(&st)) {
        st = plan_emit(plan);
    }
    if (baton_ok(&st)) {
        *out = plan;
    }
    return st;
}

struct digest layout_plan_key(const struct layout *source, const struct layout *target,
                              const struct layout_plan_options *options)
{
    struct digest digests[2] = { layout_digest(source), layout_digest(target) };
    struct layout_plan_options filled = *options;
    fill_options(&filled);
    uint64_t numbers[3] = { filled.bucket_bytes, filled.source_ranks_per_link,
                            filled.target_ranks_per_link };
    struct digest_stream stream;
    digest_stream_init(&stream);
    digest_stream_add(&stream, (struct baton_bytes){ digests[0].bytes, sizeof(digests) });
    digest_stream_add(&stream, (struct baton_bytes){ (const uint8_t *)numbers, sizeof(numbers) });
    return digest_stream_finish(&stream);
}

const struct layout_plan_figures *layout_plan_figures(const struct layout_plan *plan)
{
    return &plan->figures;
}

uint32_t layout_plan_copies_count(const struct layout_plan *plan)
{
    return plan->copies_count;
}

const struct layout_copy *layout_plan_copy(const struct layout_plan *plan, uint32_t copy)
{
    return &plan->copies[copy];
}

uint32_t layout_plan_buckets_count(const struct layout_plan *plan)
{
    return plan->buckets.count;
}

const struct layout_bucket *layout_plan_bucket(const struct layout_plan *plan, uint32_t bucket)
{
    return pool_get(&plan->buckets, bucket);
}

const struct box *layout_plan_box(const struct layout_plan *plan, uint32_t box)
{
    return intern_get(&plan->boxes, box, NULL);
}

uint64_t layout_plan_egress(const struct layout_plan *plan, uint32_t link)
{
    return plan->egress[link];
}

/* --- strides --- */

/* One side of a copy: where a box lies in a piece, in elements. */
struct side {
    uint64_t offset;
    uint64_t steps[BATON_TENSOR_RANK_MAX];
};

static struct side side_of(const struct layout *layout, const struct layout_piece *piece,
                           uint32_t rank, const struct box *box)
{
    const struct box *whole = layout_box(layout, piece->box);
    struct side side = { .offset = piece->offset };
    uint64_t step = 1;
    for (uint32_t d = rank; d > 0; d--) {
        side.steps[d - 1] = d == 1 && piece->pitch != 0 ? piece->pitch : step;
        side.offset += (uint64_t)(box->begin[d - 1] - whole->begin[d - 1]) * side.steps[d - 1];
        step *= whole->extent[d - 1];
    }
    return side;
}

struct layout_strides layout_plan_strides(const struct layout_plan *plan, uint32_t copy,
                                          uint32_t target_piece)
{
    const struct layout_copy *row = &plan->copies[copy];
    const struct layout_piece *from = layout_piece_get(plan->source, row->source_piece);
    const struct layout_piece *to = layout_piece_get(plan->target, target_piece);
    const struct layout_tensor *source = layout_tensor_get(plan->source, from->tensor);
    const struct layout_tensor *target = layout_tensor_get(plan->target, to->tensor);
    uint32_t rank = layout_shape(plan->source, source->shape)->rank;
    const struct box *box = layout_plan_box(plan, row->box);
    struct side a = side_of(plan->source, from, rank, box);
    struct side b = side_of(plan->target, to, rank, box);
    struct layout_strides out = { .run_elements = 1,
                                  .source_bits =
                                      tensor_dtype_bits((enum tensor_dtype)source->dtype),
                                  .target_bits =
                                      tensor_dtype_bits((enum tensor_dtype)target->dtype) };
    uint32_t d = rank;
    while (d > 0 && (box->extent[d - 1] == 1 ||
                     (a.steps[d - 1] == out.run_elements && b.steps[d - 1] == out.run_elements))) {
        out.run_elements *= box->extent[d - 1]; /* Rows follow each other on both sides. */
        d--;
    }
    for (uint32_t i = 0; i < d; i++) {
        if (box->extent[i] > 1) {
            out.counts[out.levels] = box->extent[i];
            out.source_steps[out.levels] = a.steps[i] * out.source_bits / 8;
            out.target_steps[out.levels++] = b.steps[i] * out.target_bits / 8;
        }
    }
    out.source_offset = a.offset * out.source_bits / 8;
    out.target_offset = b.offset * out.target_bits / 8;
    return out;
}
