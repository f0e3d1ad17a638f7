/* order.c -- who goes first: the groups that the roll or the policy names, in their order; then the
 * stalest group along the lineage (or by name, if the policy says so); equals by name.
 *
 * Groups that wait for the budget alone are kept sorted, so that a slot that becomes free finds its group without a look at the
 * others. */
#include <string.h>

#include "controller/core/core.h"

uint64_t order_lag(const struct model *model, const struct group *group)
{
    uint64_t committed = group_committed(group);
    return model->r.newest_seq > committed ? model->r.newest_seq - committed : 0;
}

/* What is on another branch is worth nothing to the trainer: it goes before everything else. */
static uint64_t rank(const struct model *model, const struct group *group)
{
    uint64_t publishes = 0;
    uint64_t committed = group_committed(group);
    bool related =
        lineage_distance(&model->staleness->r.lineage, committed, model->r.newest_seq, &publishes);
    return related ? publishes : UINT64_MAX;
}

/* Place of 'name' in a list with commas between; UINT32_MAX: not in it. */
static uint32_t rank_in(const char *list, const char *name)
{
    size_t length = strlen(name);
    uint32_t rank = 0;
    for (const char *at = list; *at != '\0'; rank++) {
        size_t item = text_length_until(at, ',');
        if (item == length && memcmp(at, name, length) == 0) {
            return rank;
        }
        at += at[item] == ',' ? item + 1 : item;
    }
    return UINT32_MAX;
}

static bool is_before(const struct model *model, const char *list, const struct group *a,
                      const struct group *b)
{
    uint32_t rank_a = rank_in(list, a->r.name);
    uint32_t rank_b = rank_in(list, b->r.name);
    if (rank_a != rank_b) {
        return rank_a < rank_b;
    }
    uint64_t lag_a = rank(model, a);
    uint64_t lag_b = rank(model, b);
    if (lag_a != lag_b && model->r.policy.roll.order != POLICY_ORDER_NAME) {
        return lag_a > lag_b;
    }
    return strcmp(a->r.name, b->r.name) < 0;
}

static const char *list_of(const struct model *model, const char *list)
{
    return list[0] != '\0' ? list : model->r.policy.roll.order_list;
}

/* Binary insertion: few candidates in practice, no recursion, no scratch. */
void order_groups(const struct model *model, const char *list, struct group **items, uint32_t count)
{
    const char *first = list_of(model, list);
    for (uint32_t i = 1; i < count; i++) {
        struct group *item = items[i];
        uint32_t low = 0;
        uint32_t high = i;
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            if (is_before(model, first, item, items[middle])) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        memmove(items + low + 1, items + low, (i - low) * sizeof(struct group *));
        items[low] = item;
    }
}

/* It will have its ticket, if nothing happens to it. */
static bool is_on_its_way(const struct controller *core, const struct model *model,
                          const struct group *group)
{
    bool out_of_it = group->r.ticket_open || group->r.cordoned || group->r.pinned ||
                     group->r.retired || group->r.asleep ||
                     group_is_on(core, group, model->active->r.to_seq);
    bool restorable = group->live.can_restore || model->r.policy.swap.allow_recreate;
    return !out_of_it && group_is_available(group) && restorable &&
           !group_lacks_live(model, group) && group->live.state != GROUP_STATE_STAGE_FAILED &&
           group->live.blocked[0] == '\0' && core->now_ns >= group->retry_ns;
}

const struct group *order_first(const struct controller *core, const struct model *model)
{
    char key[ORDER_KEY_BYTES];
    order_key_write_name(key, model->r.name, "");
    uint32_t place = index_lower_bound(&core->named, key);
    const struct group *group = place < core->named.count ? core->named.objects[place] : NULL;
    return group != NULL && group->model == model ? group : NULL;
}

const struct group *order_waits_for(const struct controller *core, const struct model *model,
                                    const struct group *group)
{
    const char *list = list_of(model, model->active->r.order_list);
    const struct group *first = list[0] == '\0' ? NULL : order_first(core, model);
    bool waits = first != NULL && rank_in(list, first->r.name) < rank_in(list, group->r.name);
    return waits ? first : NULL;
}

void order_forget(struct controller *core, struct group *group)
{
    if (group->named_key[0] != '\0') {
        index_remove(&core->named, group);
        group->named_key[0] = '\0';
    }
}

/* Enters the group among those that were named to go first and will, or takes it out. */
static void update_named(struct controller *core, const struct model *model, struct group *group)
{
    char key[ORDER_KEY_BYTES] = "";
    const char *list = model->active == NULL ? "" : list_of(model, model->active->r.order_list);
    uint32_t rank = list[0] == '\0' ? UINT32_MAX : rank_in(list, group->r.name);
    if (rank != UINT32_MAX && is_on_its_way(core, model, group)) {
        order_key_write_turn(key, model->r.name, rank, 0, group->r.name);
    }
    if (strcmp(key, group->named_key) == 0) {
        return;
    }
    order_forget(core, group);
    if (key[0] != '\0') {
        memcpy(group->named_key, key, sizeof(key));
        index_insert(&core->named, group);
    }
}

static void write_key(const struct model *model, const struct group *group,
                      char out[ORDER_KEY_BYTES])
{
    const char *list = list_of(model, model->active->r.order_list);
    bool by_name = model->r.policy.roll.order == POLICY_ORDER_NAME;
    order_key_write_turn(out, model->r.name, rank_in(list, group->r.name),
                         by_name ? 0 : rank(model, group), group->r.name);
}

void order_update(struct controller *core, const struct model *model, struct group *group)
{
    char key[ORDER_KEY_BYTES] = "";
    bool ready = ticket_is_ready(core, model, group);
    update_named(core, model, group);
    if (!ready && !group->ready) {
        return;
    }
    if (ready) {
        write_key(model, group, key);
    }
    if (ready && group->ready && strcmp(key, group->ready_key) == 0) {
        return;
    }
    if (group->ready) {
        index_remove(&core->ready, group);
    }
    group->ready = ready;
    if (ready) {
        memcpy(group->ready_key, key, sizeof(key));
        index_insert(&core->ready, group);
    }
}

struct group *order_at(const struct controller *core, const struct model *model, uint32_t i)
{
    char key[ORDER_KEY_BYTES];
    order_key_write_name(key, model->r.name, "");
    uint32_t place = index_lower_bound(&core->ready, key) + i;
    if (place >= core->ready.count) {
        return NULL;
    }
    struct group *group = core->ready.objects[place];
    return group->model == model ? group : NULL;
}

/* Whether groups wait for the roll's step, and for which one that was named to go first. */
static uint32_t gate_of(const struct model *model, const struct group *first)
{
    const struct roll *roll = model->active;
    if (roll == NULL) {
        return 0;
    }
    return (uint32_t)roll->wait << 2 | (uint32_t)(roll->room > 0) << 1 | (uint32_t)(first != NULL);
}

void order_show(struct controller *core, struct model *model)
{
    const struct group *first = order_first(core, model);
    uint32_t gate = gate_of(model, first);
    if (gate != model->gate_shown) {
        groups_enlist_all(core, model);
    } else if (first != NULL && first != model->first_shown) {
        group_enlist(model, group_find(core, first->r.name)); /* Its turn has come. */
    }
    model->gate_shown = gate;
    model->first_shown = first;
}
