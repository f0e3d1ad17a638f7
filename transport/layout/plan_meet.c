/* plan_meet.c -- target boxes cut by source boxes, once for all tensors that are cut alike. */
#include <string.h>

#include "transport/layout/cover.h"
#include "transport/layout/plan_state.h"

static struct baton_status gap(const struct layout_plan *plan, uint32_t t, uint32_t holding,
                               uint32_t rank, const struct box *box)
{
    const struct layout_tensor *target = layout_tensor_get(plan->target, t);
    const struct layout_holding *where =
        layout_holding_get(plan->target, target->first_holding + holding);
    char text[BOX_TEXT_BYTES];
    box_format(rank, box, text);
    return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                             "plan from %.60s to %.60s: gap: %.90s: %.60s, which rank %u needs, is "
                             "on no source rank",
                             layout_name(plan->source), layout_name(plan->target),
                             layout_text(plan->target, target->name), text,
                             layout_set(plan->target, where->set).ranks[0]);
}

/* Appends the fragments of one target box. */
static bool add_fragments(struct layout_plan *plan, const struct cover *cover, uint32_t holding,
                          struct pool *fragments)
{
    for (uint32_t i = 0; i < cover->count; i++) {
        const struct cover_part *part = &cover->parts[i];
        struct fragment *fragment = pool_add(fragments);
        size_t size;
        const uint32_t *list = intern_get(&plan->lists, part->list, &size);
        if (fragment == NULL) {
            return false;
        }
        *fragment = (struct fragment){
            .volume = box_volume(cover->rank, &part->box),
            .box = intern_add(&plan->boxes, &part->box, sizeof(part->box)),
            .target_holding = holding,
            .list = part->list,
            .only = size == sizeof(*list) ? list[0] : LAYOUT_NONE,
        };
        if (fragment->box == POOL_NONE) {
            return false;
        }
    }
    return true;
}

/* Cuts one target box by all boxes of the source. */
static struct baton_status cut_box(struct layout_plan *plan, uint32_t t, uint32_t holding,
                                   struct pool *fragments)
{
    const struct layout_tensor *target = layout_tensor_get(plan->target, t);
    const struct layout_tensor *source = layout_tensor_get(plan->source, plan->partners[t]);
    const struct layout_holding *where =
        layout_holding_get(plan->target, target->first_holding + holding);
    struct cover cover = { .arena = plan->arena, .lists = &plan->lists };
    bool fits = cover_begin(&cover, layout_shape(plan->target, target->shape)->rank,
                            layout_box(plan->target, where->box));
    for (uint32_t s = 0; s < source->holdings_count && fits; s++) {
        const struct layout_holding *from =
            layout_holding_get(plan->source, source->first_holding + s);
        fits = cover_cut(&cover, layout_box(plan->source, from->box), s);
    }
    for (uint32_t i = 0; i < cover.count && fits; i++) {
        if (cover.parts[i].list == POOL_NONE) {
            return gap(plan, t, holding, cover.rank, &cover.parts[i].box);
        }
    }
    fits = fits && add_fragments(plan, &cover, holding, fragments);
    return fits ? baton_status_ok() : plan_full(plan);
}

/* Makes the meeting of a tensor's two patterns. */
static struct baton_status make_meeting(struct layout_plan *plan, uint32_t t,
                                        struct meeting *meeting)
{
    const struct layout_tensor *target = layout_tensor_get(plan->target, t);
    struct pool fragments;
    struct baton_status st = baton_status_ok();
    pool_init(&fragments, plan->arena, sizeof(struct fragment));
    for (uint32_t h = 0; h < target->holdings_count && baton_ok(&st); h++) {
        st = cut_box(plan, t, h, &fragments);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    meeting->fragments =
        baton_arena_take(plan->arena, fragments.count, sizeof(*meeting->fragments));
    if (meeting->fragments == NULL) {
        return plan_full(plan);
    }
    for (uint32_t i = 0; i < fragments.count; i++) {
        const struct fragment *fragment = pool_get(&fragments, i);
        meeting->fragments[i] = *fragment;
    }
    meeting->count = fragments.count;
    return st;
}

struct baton_status plan_meet(struct layout_plan *plan)
{
    struct baton_status st = baton_status_ok();
    for (uint32_t i = 0; i < plan->order_count && baton_ok(&st); i++) {
        uint32_t t = plan->order[i];
        const struct layout_tensor *target = layout_tensor_get(plan->target, t);
        const struct layout_tensor *source = layout_tensor_get(plan->source, plan->partners[t]);
        uint32_t key[3] = { target->pattern, source->pattern, target->shape };
        uint32_t number = intern_add(&plan->meeting_keys, key, sizeof(key));
        plan->met[t] = number;
        if (number == POOL_NONE) {
            return plan_full(plan);
        }
        if (number == plan->meetings.count) {
            struct meeting *meeting = pool_add(&plan->meetings);
            st = meeting != NULL ? make_meeting(plan, t, meeting) : plan_full(plan);
        }
    }
    return st;
}

/* --- choices --- */

/* The links of these ranks, ascending, each once. */
static uint32_t choice_of_ranks(struct layout_plan *plan, const uint64_t *ranks, size_t count)
{
    size_t used = plan->arena->used;
    uint32_t *links = baton_arena_take(plan->arena, count, sizeof(*links));
    uint32_t links_count = 0;
    if (links == NULL) {
        return LAYOUT_NONE;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t link = (uint32_t)ranks[i] / plan->options.source_ranks_per_link;
        if (links_count == 0 || links[links_count - 1] != link) {
            links[links_count++] = link;
        }
    }
    uint32_t number = intern_find(&plan->choice_keys, links, links_count * sizeof(*links));
    if (number != POOL_NONE) {
        plan->arena->used = used;
        return number;
    }
    number = intern_add(&plan->choice_keys, links, links_count * sizeof(*links));
    return number != POOL_NONE && pool_add(&plan->choices) != NULL ? number : LAYOUT_NONE;
}

/* All ranks of the listed holdings, sorted. */
static uint32_t choice_of_list(struct layout_plan *plan, const struct layout_tensor *source,
                               const uint32_t *list, size_t count)
{
    size_t used = plan->arena->used;
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t set = layout_holding_get(plan->source, source->first_holding + list[i])->set;
        total += layout_set(plan->source, set).count;
    }
    uint64_t *ranks = baton_arena_take(plan->arena, total, sizeof(*ranks));
    if (ranks == NULL) {
        return LAYOUT_NONE;
    }
    total = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t number = layout_holding_get(plan->source, source->first_holding + list[i])->set;
        struct layout_ranks set = layout_set(plan->source, number);
        for (size_t r = 0; r < set.count; r++) {
            ranks[total++] = set.ranks[r];
        }
    }
    sort_u64(ranks, total);
    uint32_t before = intern_count(&plan->choice_keys);
    uint32_t choice = choice_of_ranks(plan, ranks, total);
    if (before == intern_count(&plan->choice_keys)) {
        plan->arena->used = used;
    }
    return choice;
}

uint32_t plan_choice(struct layout_plan *plan, const struct layout_tensor *source,
                     const struct fragment *fragment)
{
    size_t size;
    const uint32_t *list = intern_get(&plan->lists, fragment->list, &size);
    if (fragment->only == LAYOUT_NONE) {
        return choice_of_list(plan, source, list, size / sizeof(*list));
    }
    uint32_t set = layout_holding_get(plan->source, source->first_holding + fragment->only)->set;
    uint32_t *known = &plan->choice_of_set[set];
    if (*known == LAYOUT_NONE) {
        *known = choice_of_list(plan, source, &fragment->only, 1);
    }
    return *known;
}
