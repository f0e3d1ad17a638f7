/* plan_balance.c -- fair shares: quotas by water-filling, and what no choice can go below.
 *
 * Sets of links that hold the same bytes are served from the smallest on, so that what only few can
 * send is placed before what many can.  Where sets lie within each other, as those of a mesh do,
 * that is optimal. */
#include <string.h>

#include "transport/layout/plan_state.h"

/* Sets that are compared with each other for the lower bound; more, and only each by itself. */
enum { NESTED_MAX = 1024 };

/* Adds up what each choice must send in all, and what each target link must take. */
static struct baton_status add_up(struct layout_plan *plan, uint64_t *by_target_set)
{
    for (uint32_t i = 0; i < plan->order_count; i++) {
        uint32_t t = plan->order[i];
        const struct layout_tensor *source = layout_tensor_get(plan->source, plan->partners[t]);
        const struct layout_tensor *target = layout_tensor_get(plan->target, t);
        const struct meeting *meeting = pool_get(&plan->meetings, plan->met[t]);
        uint32_t bits = tensor_dtype_bits((enum tensor_dtype)source->dtype);
        for (uint32_t f = 0; f < meeting->count; f++) {
            const struct fragment *fragment = &meeting->fragments[f];
            uint32_t number = plan_choice(plan, source, fragment);
            if (number == LAYOUT_NONE) {
                return plan_full(plan);
            }
            struct choice *choice = pool_get(&plan->choices, number);
            uint64_t bytes = fragment->volume * bits / 8;
            choice->bytes += bytes;
            plan->figures.bytes += bytes;
            by_target_set[layout_holding_get(plan->target,
                                             target->first_holding + fragment->target_holding)
                              ->set] += bytes;
        }
    }
    plan->copies_capacity = 0;
    for (uint32_t i = 0; i < plan->order_count; i++) {
        const struct meeting *meeting = pool_get(&plan->meetings, plan->met[plan->order[i]]);
        plan->copies_capacity += meeting->count;
    }
    return baton_status_ok();
}

/* What a set of target ranks takes crosses each of its links once. */
static void add_ingress(struct layout_plan *plan, const uint64_t *by_target_set)
{
    for (uint32_t s = 0; s < layout_sets_count(plan->target); s++) {
        struct layout_ranks set = layout_set(plan->target, s);
        uint32_t last = LAYOUT_NONE;
        plan->figures.delivered_bytes += by_target_set[s] * set.count;
        for (size_t r = 0; r < set.count && by_target_set[s] > 0; r++) {
            uint32_t link = set.ranks[r] / plan->options.target_ranks_per_link;
            if (link != last) {
                plan->ingress[link] += by_target_set[s];
            }
            last = link;
        }
    }
}

static const uint32_t *links_of(const struct layout_plan *plan, uint32_t choice, size_t *count)
{
    const uint32_t *links = intern_get(&plan->choice_keys, choice, count);
    *count /= sizeof(*links);
    return links;
}

/* Raises the lowest links to one level until 'choice' is served; remembers each link's quota. */
static bool fill(struct layout_plan *plan, uint32_t number)
{
    struct choice *choice = pool_get(&plan->choices, number);
    size_t count;
    const uint32_t *links = links_of(plan, number, &count);
    if (count == 1) {
        plan->egress[links[0]] += choice->bytes;
        return true;
    }
    choice->quotas = baton_arena_take(plan->arena, count, sizeof(*choice->quotas));
    size_t used = plan->arena->used;
    uint64_t *loads = baton_arena_take(plan->arena, count, sizeof(*loads));
    if (choice->quotas == NULL || loads == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        loads[i] = plan->egress[links[i]];
    }
    sort_u64(loads, count);
    uint64_t below = loads[0]; /* Of those links that will be filled. */
    size_t filled = 1;
    while (filled < count && choice->bytes + below > loads[filled] * filled) {
        below += loads[filled++];
    }
    uint64_t level = (choice->bytes + below) / filled;
    uint64_t left = choice->bytes;
    for (size_t i = 0; i < count; i++) {
        uint64_t load = plan->egress[links[i]];
        uint64_t quota = level > load ? level - load : 0;
        choice->quotas[i] = quota < left ? quota : left;
        left -= choice->quotas[i];
    }
    for (size_t i = 0; i < count; i++) { /* What rounding left goes to the first that gets any. */
        if (choice->quotas[i] > 0 || i + 1 == count) {
            choice->quotas[i] += left;
            left = 0;
        }
        plan->egress[links[i]] += choice->quotas[i];
    }
    plan->arena->used = used;
    return true;
}

static bool is_subset(const uint32_t *inner, size_t inner_count, const uint32_t *outer,
                      size_t outer_count)
{
    size_t at = 0;
    for (size_t i = 0; i < inner_count; i++) {
        while (at < outer_count && outer[at] < inner[i]) {
            at++;
        }
        if (at == outer_count || outer[at] != inner[i]) {
            return false;
        }
    }
    return true;
}

static void raise_bound(struct layout_plan *plan, uint64_t bytes, size_t links)
{
    uint64_t bound = (bytes + links - 1) / links;
    if (bound > plan->figures.lower_bound) {
        plan->figures.lower_bound = bound;
    }
}

/* Links that alone hold some bytes must send them: for each choice, all that lies within it, over
 * its links.  'order' is by size. */
static void bound_choices(struct layout_plan *plan, const uint64_t *order, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        size_t outer_count, inner_count;
        const uint32_t *outer = links_of(plan, (uint32_t)order[i], &outer_count);
        uint64_t bytes = 0;
        if (outer_count == 1 || count > NESTED_MAX) {
            bytes = ((const struct choice *)pool_get(&plan->choices, (uint32_t)order[i]))->bytes;
        }
        for (uint32_t k = 0; k < count && outer_count > 1 && count <= NESTED_MAX; k++) {
            const uint32_t *inner = links_of(plan, (uint32_t)order[k], &inner_count);
            if (inner_count > outer_count) {
                break;
            }
            if (is_subset(inner, inner_count, outer, outer_count)) {
                bytes +=
                    ((const struct choice *)pool_get(&plan->choices, (uint32_t)order[k]))->bytes;
            }
        }
        raise_bound(plan, bytes, outer_count);
    }
}

static void bound_rest(struct layout_plan *plan)
{
    if (plan->source_links > 0) {
        raise_bound(plan, plan->figures.bytes, plan->source_links);
    }
    plan->figures.egress_bound = plan->figures.lower_bound;
    for (uint32_t l = 0; l < plan->target_links; l++) {
        raise_bound(plan, plan->ingress[l], 1);
        if (plan->ingress[l] > plan->figures.ingress_max) {
            plan->figures.ingress_max = plan->ingress[l];
        }
    }
}

struct baton_status plan_balance(struct layout_plan *plan)
{
    uint64_t *by_target_set =
        baton_arena_take(plan->arena, layout_sets_count(plan->target), sizeof(*by_target_set));
    if (by_target_set == NULL) {
        return plan_full(plan);
    }
    struct baton_status st = add_up(plan, by_target_set);
    if (!baton_ok(&st)) {
        return st;
    }
    uint32_t count = plan->choices.count;
    uint64_t *order = baton_arena_take(plan->arena, count, sizeof(*order));
    if (order == NULL) {
        return plan_full(plan);
    }
    for (uint32_t i = 0; i < count; i++) {
        size_t links;
        (void)links_of(plan, i, &links);
        order[i] = (uint64_t)links << 32 | i;
        plan->copies_capacity += links > 1 ? (uint32_t)links : 0;
    }
    sort_u64(order, count);
    for (uint32_t i = 0; i < count; i++) {
        if (!fill(plan, (uint32_t)order[i])) {
            return plan_full(plan);
        }
    }
    add_ingress(plan, by_target_set);
    bound_choices(plan, order, count);
    bound_rest(plan);
    memset(plan->egress, 0, plan->source_links * sizeof(*plan->egress)); /* Now the real copies. */
    return st;
}
