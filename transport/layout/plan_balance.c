/* plan_balance.c -- fair shares: quotas by water-filling, and what no choice can go below.
 *
 * Sets of links that hold the same bytes (choices) are served from the smallest on, then again in
 * rounds: each takes its bytes back and raises the lowest of its links anew.  Each step makes the sum
 * of squares of all loads as small as one choice can, so the rounds go to the fairest shares there
 * are; for sets that lie within each other, as those of a mesh do, the first round is that. */
#include <string.h>

#include "transport/layout/plan_state.h"

enum { ROUNDS_MAX = 64 };

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

/* The level up to which the lowest of these sorted loads must be raised to take 'bytes'. */
static uint64_t level_of(const uint64_t *loads, size_t count, uint64_t bytes)
{
    uint64_t below = loads[0]; /* Of those links that will be filled. */
    size_t filled = 1;
    while (filled < count && bytes + below > loads[filled] * filled) {
        below += loads[filled++];
    }
    return (bytes + below) / filled;
}

/* Takes back what 'choice' has, and raises the lowest of its links to one level until it is served
 * again.  Returns by how much its quotas changed. */
static uint64_t refill(struct layout_plan *plan, uint32_t number, uint64_t *loads)
{
    struct choice *choice = pool_get(&plan->choices, number);
    size_t count;
    const uint32_t *links = links_of(plan, number, &count);
    uint64_t changed = 0;
    for (size_t i = 0; i < count; i++) {
        plan->egress[links[i]] -= choice->quotas[i];
        loads[i] = plan->egress[links[i]];
    }
    sort_u64(loads, count);
    uint64_t level = level_of(loads, count, choice->bytes);
    uint64_t left = choice->bytes;
    for (size_t i = 0; i < count; i++) {
        uint64_t load = plan->egress[links[i]];
        uint64_t quota = level > load ? level - load : 0;
        quota = quota < left ? quota : left;
        left -= quota;
        loads[i] = quota;
    }
    for (size_t i = 0; i < count; i++) { /* What rounding left goes to the first that gets any. */
        uint64_t quota = loads[i];
        if (quota > 0 || i + 1 == count) {
            quota += left;
            left = 0;
        }
        changed += quota > choice->quotas[i] ? quota - choice->quotas[i] : 0;
        choice->quotas[i] = quota;
        plan->egress[links[i]] += quota;
    }
    return changed;
}

/* Serves all choices, the smallest first ('order'), in rounds until little changes. */
static bool fill(struct layout_plan *plan, const uint64_t *order, uint32_t count)
{
    uint64_t *loads = baton_arena_take(plan->arena, plan->source_links, sizeof(*loads));
    uint32_t singles = 0;
    if (loads == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct choice *choice = pool_get(&plan->choices, (uint32_t)order[i]);
        size_t links_count;
        const uint32_t *links = links_of(plan, (uint32_t)order[i], &links_count);
        if (links_count == 1) {
            plan->egress[links[0]] += choice->bytes;
            singles++;
            continue;
        }
        choice->quotas = baton_arena_take(plan->arena, links_count, sizeof(*choice->quotas));
        if (choice->quotas == NULL) {
            return false;
        }
    }
    uint64_t changed = plan->figures.bytes;
    for (uint32_t round = 0; round < ROUNDS_MAX && changed > plan->figures.bytes / 4096; round++) {
        changed = 0;
        for (uint32_t i = singles; i < count; i++) { /* Singles are the smallest, so the first. */
            changed += refill(plan, (uint32_t)order[i], loads);
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

/* Whatever links are chosen, these must send what they alone hold: a bound for any set of links.
 * With fair shares, those that carry most are the set that decides. */
static void bound_busiest(struct layout_plan *plan, uint64_t threshold)
{
    uint64_t bytes = 0;
    size_t busy = 0;
    for (uint32_t l = 0; l < plan->source_links; l++) {
        busy += plan->egress[l] >= threshold;
    }
    for (uint32_t c = 0; c < plan->choices.count && busy > 0; c++) {
        const struct choice *choice = pool_get(&plan->choices, c);
        size_t count;
        const uint32_t *links = links_of(plan, c, &count);
        bool is_inside = true;
        for (size_t i = 0; i < count && is_inside; i++) {
            is_inside = plan->egress[links[i]] >= threshold;
        }
        bytes += is_inside ? choice->bytes : 0;
    }
    if (busy > 0) {
        raise_bound(plan, bytes, busy);
    }
}

static void bound_choices(struct layout_plan *plan)
{
    static const uint32_t permille[] = { 1000, 999, 990, 950, 900, 0 };
    uint64_t most = 0;
    for (uint32_t l = 0; l < plan->source_links; l++) {
        most = plan->egress[l] > most ? plan->egress[l] : most;
    }
    for (size_t i = 0; i < sizeof(permille) / sizeof(permille[0]); i++) {
        bound_busiest(plan, most / 1000 * permille[i] + most % 1000 * permille[i] / 1000);
    }
}

static void bound_rest(struct layout_plan *plan)
{
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
    if (!fill(plan, order, count)) {
        return plan_full(plan);
    }
    add_ingress(plan, by_target_set);
    bound_choices(plan);
    bound_rest(plan);
    memset(plan->egress, 0, plan->source_links * sizeof(*plan->egress)); /* Now the real copies. */
    return st;
}
