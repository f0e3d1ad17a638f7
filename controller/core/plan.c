/* plan.c -- what a roll would do now, without doing it: order, waves, what stops whom, memory,
 * restore source, times.  See view.h.
 *
 * Times come from each group's own last swap, else from the model's medians; what was never
 * measured is unknown, not guessed. */
#include <string.h>

#include "controller/core/core.h"
#include "controller/core/holders.h"

/* Members that say where in the roll the next group comes. */
struct walk {
    const struct model *model;
    uint32_t total;
    uint32_t begun;   /* Groups on the version, or before this one. */
    uint32_t step;    /* Canary step of the last one; canary_count: after all. */
    uint32_t in_wave; /* Groups of the present wave. */
    uint32_t wave;
};

static void next_wave(struct walk *walk, struct plan_group *item)
{
    const struct roll_policy *policy = &walk->model->r.policy.roll;
    uint32_t steps = walk->model->r.promoted_seq == 0 ? 0 : policy->canary_count;
    uint32_t step = walk->step;
    while (step < steps && walk->begun >= canary_groups(&policy->canary[step], walk->total)) {
        step++;
    }
    bool full = walk->in_wave >= walk->model->max_unavailable;
    if (walk->wave == 0 || full || step != walk->step) {
        walk->wave++;
        walk->in_wave = 0;
    }
    walk->step = step;
    walk->in_wave++;
    walk->begun++;
    item->wave = walk->wave;
    item->step = step < steps ? step + 1 : 0;
}

static enum plan_memory memory_of(const struct controller *core, const struct group *group,
                                  const struct version *version, uint64_t *out_free)
{
    const struct agent *agent = agent_find(core, group->r.agent);
    if (agent == NULL || agent->session == 0 || agent->landing_budget_bytes == 0) {
        return PLAN_MEMORY_UNKNOWN;
    }
    uint64_t used = agent->landing_used_bytes;
    *out_free = agent->landing_budget_bytes > used ? agent->landing_budget_bytes - used : 0;
    if (agent_has_landed(agent, version->r.digest)) {
        return PLAN_MEMORY_LANDED;
    }
    return version->r.bytes <= *out_free ? PLAN_MEMORY_FITS : PLAN_MEMORY_LACKS;
}

static enum plan_restore restore_of(const struct model *model, const struct group *group)
{
    if (!group->known) {
        return PLAN_RESTORE_UNKNOWN;
    }
    if (group->live.can_restore) {
        return PLAN_RESTORE_LANDED;
    }
    return model->r.policy.swap.allow_recreate ? PLAN_RESTORE_RECREATE : PLAN_RESTORE_NONE;
}

static void explain(const struct controller *core, const struct group *group,
                    struct plan_group *item)
{
    if (item->blocked_reason == BLOCKED_NO_MEMORY && item->memory == PLAN_MEMORY_LACKS) {
        text_format(item->blocked_message, sizeof(item->blocked_message),
                    "the landing of agent %s has %llu bytes free now; it may free more",
                    group->r.agent, (unsigned long long)item->free_bytes);
    } else {
        blocked_explain(core, group, item->blocked_reason, item->blocked_message);
    }
}

/* As blocked.c would say if the roll ran; what it says already stands. */
static void fill_blocked(const struct controller *core, const struct model *model,
                         const struct group *group, struct plan_group *item)
{
    enum blocked_reason now = blocked_reason_of(core, model, group);
    bool passing = now == BLOCKED_NONE || now == BLOCKED_STAGING || now == BLOCKED_BUDGET_FULL ||
                   now == BLOCKED_CANARY_HOLD || now == BLOCKED_MODEL_HELD;
    item->blocked_reason = passing ? BLOCKED_NONE : now;
    if (passing && item->memory == PLAN_MEMORY_LACKS) {
        item->blocked_reason = BLOCKED_NO_MEMORY;
    } else if (passing && item->restore == PLAN_RESTORE_NONE && group_committed(group) != 0) {
        item->blocked_reason = BLOCKED_NO_RESTORE_SOURCE;
    } else if (passing && group_committed(group) != 0 && group_lacks_live(model, group)) {
        item->blocked_reason = BLOCKED_LIVE_IMPOSSIBLE;
    }
    explain(core, group, item);
}

static void fill_times(const struct model *model, const struct group *group,
                       struct plan_group *item)
{
    const struct swap_record *last = &group->r.last_swap;
    bool own =
        group->r.swapped && last->outcome == SWAP_OUTCOME_COMMITTED && last->phases.shut_ns != 0;
    bool live = item->mode == POLICY_MODE_LIVE; /* Nothing is shut. */
    item->pause_ns = live ? 0 : own ? last->phases.shut_ns : model->measure.pause_ns;
    item->stage_ns = own ? last->phases.stage_ns : model->measure.stage_ns;
    item->estimated_by_model = !own && item->pause_ns != 0;
}

static void fill_group(const struct controller *core, const struct model *model,
                       const struct group *group, const struct version *version,
                       struct plan_group *item)
{
    *item = (struct plan_group){ .group = &group->r, .from_seq = group_committed(group) };
    item->memory = memory_of(core, group, version, &item->free_bytes);
    item->restore = restore_of(model, group);
    item->mode = item->from_seq != 0 && model->r.policy.swap.mode == POLICY_MODE_LIVE
                     ? POLICY_MODE_LIVE
                     : POLICY_MODE_PAUSE;
    fill_times(model, group, item);
    holders_explain(core, agent_find(core, group->r.agent), version, item->route);
    if (!group_is_on(core, group, version->r.seq)) {
        fill_blocked(core, model, group, item);
    }
}

static void refuse(const struct model *model, const struct version *version, struct plan *out)
{
    if (version == NULL) {
        text_copy(out->refusal, sizeof(out->refusal), "there is no such version, or none at all");
    } else if (version->r.quarantined) {
        text_format(out->refusal, sizeof(out->refusal), "the version is quarantined: %.180s",
                    version->r.quarantine_reason);
    } else if (model->r.held) {
        text_format(out->refusal, sizeof(out->refusal), "the model is held: %.180s",
                    model->r.hold_reason);
    } else if (model->r.suspended) {
        text_copy(out->refusal, sizeof(out->refusal), "the model is suspended");
    }
}

/* Landing of the first, then the waves one after another, then what the steps soak. */
static uint64_t total_of(const struct model *model, const struct plan *plan, bool steps)
{
    const struct roll_policy *policy = &model->r.policy.roll;
    uint64_t total = plan->convergence.stage_ns + plan->waves * plan->convergence.swap_ns;
    for (uint32_t i = 0; steps && i < policy->canary_count; i++) {
        total += policy->canary[i].soak_ms * MS_NS;
    }
    return plan->convergence.swap_ns == 0 ? 0 : total;
}

/* The model's groups: those that are done first, then in the order in which they would go. */
static uint32_t gather(const struct controller *core, const struct model *model, uint64_t seq,
                       struct group **items, uint32_t items_max, uint32_t *out_done)
{
    uint32_t count = 0;
    uint32_t place = groups_first(core, model->r.name);
    *out_done = 0;
    for (struct group *group;
         count < items_max && (group = groups_at(core, place, model->r.name)) != NULL; place++) {
        items[count] = group;
        if (group_is_on(core, group, seq)) {
            items[count] = items[*out_done];
            items[*out_done] = group;
            *out_done += 1;
        }
        count++;
    }
    return count;
}

void view_plan(const struct controller *core, const struct model_record *model,
               const struct plan_request *request, struct plan *out, struct plan_group *items,
               uint32_t items_max)
{
    const struct model *object = (const struct model *)model;
    uint64_t seq = request->to_seq != 0 ? request->to_seq : model->newest_seq;
    const struct version *version = version_find(core, model->name, seq);
    uint32_t done = 0;
    memset(out, 0, sizeof(*out));
    refuse(object, version, out);
    converge_of(core, object, core->wall_ns, &out->convergence);
    out->max_unavailable = object->max_unavailable;
    if (version == NULL) {
        return;
    }
    struct group **groups = core->candidates; /* Scratch; nothing of the core changes. */
    uint32_t room = items_max < core->limits.groups ? items_max : core->limits.groups;
    out->version = &version->r;
    out->groups = gather(core, object, seq, groups, room, &done);
    order_groups(object, text_is_empty(request->order_list) ? "" : request->order_list,
                 groups + done, out->groups - done);
    struct walk walk = { .model = object, .total = object->groups_count, .begun = done };
    for (uint32_t i = 0; i < out->groups; i++) {
        fill_group(core, object, groups[i], version, &items[i]);
        if (i >= done) {
            next_wave(&walk, &items[i]);
        }
    }
    out->waves = walk.wave;
    out->total_ns = total_of(object, out, model->promoted_seq != 0);
}
