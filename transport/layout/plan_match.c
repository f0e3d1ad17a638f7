/* plan_match.c -- partners by name, and the order of travel. */
#include <stdio.h>
#include <string.h>

#include "transport/layout/names.h"
#include "transport/layout/plan_state.h"

/* The source's tensors under the names that the target uses. */
struct renamed {
    struct intern names;
    struct pool tensors; /* uint32_t: the source's tensor, by number of the name. */
    uint8_t *used;       /* By source tensor. */
};

static struct baton_status refuse(const struct layout_plan *plan, const char *tensor,
                                  const char *what)
{
    return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                             "plan from %.60s to %.60s: %.110s: %.80s", layout_name(plan->source),
                             layout_name(plan->target), tensor, what);
}

/* The name of a source tensor in the target's words: the first rename rule that fits. */
static bool rename_tensor(const struct layout_plan *plan, const char *name, char *out)
{
    const char *match, *into;
    for (uint32_t i = 0; layout_name_rule_get(plan->target, LAYOUT_RULE_RENAME, i, &match, &into);
         i++) {
        struct name_match stars;
        if (names_match(match, name, &stars)) {
            return names_write(into, &stars, out, BATON_TENSOR_NAME_BYTES);
        }
    }
    return baton_text_copy(out, BATON_TENSOR_NAME_BYTES, name);
}

static struct baton_status collect(struct layout_plan *plan, struct renamed *renamed)
{
    uint32_t count = layout_tensors_count(plan->source);
    intern_init(&renamed->names, plan->arena);
    pool_init(&renamed->tensors, plan->arena, sizeof(uint32_t));
    renamed->used = baton_arena_take(plan->arena, count, 1);
    if (renamed->used == NULL) {
        return plan_full(plan);
    }
    for (uint32_t t = 0; t < count; t++) {
        const char *name = layout_text(plan->source, layout_tensor_get(plan->source, t)->name);
        char text[BATON_TENSOR_NAME_BYTES];
        if (!rename_tensor(plan, name, text)) {
            return refuse(plan, name, "a rename rule gives it no name");
        }
        uint32_t number = intern_add(&renamed->names, text, strlen(text));
        if (number == POOL_NONE) {
            return plan_full(plan);
        }
        if (number < renamed->tensors.count) {
            return refuse(plan, name, "another source tensor gets the same name by rename rules");
        }
        uint32_t *tensor = pool_add(&renamed->tensors);
        if (tensor == NULL) {
            return plan_full(plan);
        }
        *tensor = t;
    }
    return baton_status_ok();
}

static uint32_t find_source(const struct renamed *renamed, const char *name)
{
    uint32_t number = intern_find(&renamed->names, name, strlen(name));
    return number != POOL_NONE ? *(uint32_t *)pool_get(&renamed->tensors, number) : LAYOUT_NONE;
}

/* A partner must have the same shape, and the same dtype unless the target casts. */
static struct baton_status check_partner(const struct layout_plan *plan, uint32_t target,
                                         uint32_t source)
{
    const struct layout_tensor *to = layout_tensor_get(plan->target, target);
    const struct layout_tensor *from = layout_tensor_get(plan->source, source);
    const struct tensor_shape *want = layout_shape(plan->target, to->shape);
    const struct tensor_shape *have = layout_shape(plan->source, from->shape);
    char what[2 * TENSOR_SHAPE_TEXT_BYTES + 64];
    if (!tensor_shape_equal(want, have)) {
        char a[TENSOR_SHAPE_TEXT_BYTES], b[TENSOR_SHAPE_TEXT_BYTES];
        tensor_shape_format(have, a);
        tensor_shape_format(want, b);
        (void)snprintf(what, sizeof(what), "shape %s here, %s there", a, b);
        return refuse(plan, layout_text(plan->target, to->name), what);
    }
    if (from->dtype != to->dtype && (to->flags & LAYOUT_CAST) == 0) {
        (void)snprintf(what, sizeof(what), "dtype %s here, %s there, and no rule casts it",
                       tensor_dtype_name((enum tensor_dtype)from->dtype),
                       tensor_dtype_name((enum tensor_dtype)to->dtype));
        return refuse(plan, layout_text(plan->target, to->name), what);
    }
    return baton_status_ok();
}

/* The source tensor of a target tensor: itself, or what it is tied to.  Tied: the tie decides, even
 * if the source sends a copy of its own (it is left out). */
static uint32_t partner_of(const struct layout_plan *plan, struct renamed *renamed,
                           const struct layout_tensor *tensor)
{
    uint32_t own = find_source(renamed, layout_text(plan->target, tensor->name));
    uint32_t base = tensor->tied != LAYOUT_NONE
                        ? find_source(renamed, layout_text(plan->target, tensor->tied))
                        : LAYOUT_NONE;
    if (own != LAYOUT_NONE) {
        renamed->used[own] = base == LAYOUT_NONE ? 1 : 2;
    }
    return base != LAYOUT_NONE ? base : own;
}

static struct baton_status match_tensor(struct layout_plan *plan, struct renamed *renamed,
                                        uint32_t t)
{
    const struct layout_tensor *tensor = layout_tensor_get(plan->target, t);
    uint32_t partner = partner_of(plan, renamed, tensor);
    plan->partners[t] = LAYOUT_NONE;
    if ((tensor->flags & LAYOUT_KEEP) != 0) {
        if (partner != LAYOUT_NONE) {
            renamed->used[partner] = 2;
        }
        plan->figures.kept++;
        return baton_status_ok();
    }
    if (tensor->tied != LAYOUT_NONE && tensor->holdings_count == 0) {
        plan->figures.tied++; /* The other tensor's copies fill the memory that they share. */
        return baton_status_ok();
    }
    if (partner == LAYOUT_NONE) {
        return refuse(plan, layout_text(plan->target, tensor->name),
                      "the source has no tensor of this name, and no rule keeps it");
    }
    struct baton_status st = check_partner(plan, t, partner);
    if (!baton_ok(&st)) {
        return st;
    }
    if (renamed->used[partner] == 0) {
        renamed->used[partner] = 1;
    }
    plan->partners[t] = partner;
    plan->figures.tensors++;
    plan->figures.cast += layout_tensor_get(plan->source, partner)->dtype != tensor->dtype;
    return st;
}

/* Values whose source has scales are nothing without them: the target must have both, linked alike. */
static struct baton_status check_scales(const struct layout_plan *plan)
{
    struct baton_status st = baton_status_ok();
    for (uint32_t t = 0; t < layout_tensors_count(plan->target) && baton_ok(&st); t++) {
        if (plan->partners[t] == LAYOUT_NONE) {
            continue;
        }
        const struct layout_tensor *to = layout_tensor_get(plan->target, t);
        const struct layout_tensor *from = layout_tensor_get(plan->source, plan->partners[t]);
        if (from->scale == LAYOUT_NONE) {
            continue;
        }
        uint32_t want = layout_tensor_find(plan->source, layout_text(plan->source, from->scale));
        uint32_t have = to->scale != LAYOUT_NONE
                            ? layout_tensor_find(plan->target, layout_text(plan->target, to->scale))
                            : LAYOUT_NONE;
        if (have == LAYOUT_NONE || plan->partners[have] != want ||
            memcmp(to->block, from->block, sizeof(to->block)) != 0) {
            st = refuse(plan, layout_text(plan->target, to->name),
                        "the source has scales of it, and here it does not have the same");
        }
    }
    return st;
}

static bool is_dropped(const struct layout_plan *plan, const char *name)
{
    const char *match, *into;
    for (uint32_t i = 0; layout_name_rule_get(plan->target, LAYOUT_RULE_DROP, i, &match, &into);
         i++) {
        struct name_match stars;
        if (names_match(match, name, &stars)) {
            return true;
        }
    }
    return false;
}

/* Source tensors that nobody took must be named by a drop rule. */
static struct baton_status check_unused(struct layout_plan *plan, const struct renamed *renamed)
{
    const char *first = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < renamed->tensors.count; i++) {
        uint32_t t = *(uint32_t *)pool_get(&renamed->tensors, i);
        const char *name = intern_get(&renamed->names, i, NULL);
        if (renamed->used[t] == 2 || (renamed->used[t] == 0 && is_dropped(plan, name))) {
            plan->figures.dropped++;
        } else if (renamed->used[t] == 0) {
            first = first == NULL ? name : first;
            count++;
        }
    }
    if (count > 0) {
        char what[96];
        (void)snprintf(what, sizeof(what),
                       "the target has no tensor of this name (%u such), and no rule drops it",
                       count);
        return refuse(plan, first, what);
    }
    return baton_status_ok();
}

/* Tensors as they stand in the target; those of an atomic set follow its first one. */
static struct baton_status put_in_order(struct layout_plan *plan)
{
    uint32_t count = layout_tensors_count(plan->target);
    size_t used = plan->arena->used;
    uint32_t *next = baton_arena_take(plan->arena, count, sizeof(*next));
    uint8_t *is_placed = baton_arena_take(plan->arena, count, 1);
    struct intern sets;
    struct pool lasts; /* uint32_t: the last member so far, by number of the set. */
    intern_init(&sets, plan->arena);
    pool_init(&lasts, plan->arena, sizeof(uint32_t));
    if (next == NULL || is_placed == NULL) {
        return plan_full(plan);
    }
    for (uint32_t t = 0; t < count; t++) {
        uint32_t atomic = layout_tensor_get(plan->target, t)->atomic;
        next[t] = LAYOUT_NONE;
        if (atomic == LAYOUT_NONE) {
            continue;
        }
        uint32_t set = intern_add(&sets, &atomic, sizeof(atomic));
        bool is_first = set == lasts.count;
        uint32_t *last = set == POOL_NONE ? NULL
                         : is_first       ? pool_add(&lasts)
                                          : pool_get(&lasts, set);
        if (last == NULL) {
            return plan_full(plan);
        }
        if (!is_first) {
            next[*last] = t;
        }
        *last = t;
    }
    for (uint32_t t = 0; t < count; t++) {
        for (uint32_t m = t; m != LAYOUT_NONE && is_placed[m] == 0; m = next[m]) {
            is_placed[m] = 1;
            if (plan->partners[m] != LAYOUT_NONE) {
                plan->order[plan->order_count++] = m;
            }
        }
    }
    plan->arena->used = used;
    return baton_status_ok();
}

struct baton_status plan_match(struct layout_plan *plan)
{
    struct renamed renamed;
    struct baton_status st = collect(plan, &renamed);
    for (uint32_t t = 0; t < layout_tensors_count(plan->target) && baton_ok(&st); t++) {
        st = match_tensor(plan, &renamed, t);
    }
    if (baton_ok(&st)) {
        st = check_scales(plan);
    }
    if (baton_ok(&st)) {
        st = check_unused(plan, &renamed);
    }
    return baton_ok(&st) ? put_in_order(plan) : st;
}
