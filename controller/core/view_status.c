/* view_status.c -- see view.h: what is computed from records and reports. */
#include <string.h>

#include "controller/core/fleet.h"
#include "controller/core/staleness.h"
#include "controller/core/text.h"

/* Of a core that only shows: groups of a model that are part of the fleet, that were committed to 'seq' when that was
 * last stored, and that had a ticket then. */
struct stored_counts {
    uint32_t groups;
    uint32_t done;
    uint32_t swapping;
};

static bool stored_done(const struct group *group, uint64_t seq)
{
    return !group->r.ticket_open && !group->r.soaking && group_committed(group) == seq;
}

static struct stored_counts count_stored(const struct controller *core, const char *model,
                                         uint64_t seq)
{
    struct stored_counts counts = { 0 };
    uint32_t place = groups_first(core, model);
    for (struct group *group; (group = groups_at(core, place, model)) != NULL; place++) {
        if (!group->r.retired && !group_sleeps(group)) {
            counts.groups++;
            counts.done += stored_done(group, seq);
            counts.swapping += group->r.ticket_open;
        }
    }
    return counts;
}

void view_model_status(const struct controller *core, const struct model_record *model,
                       uint64_t wall_ns, struct model_status *out)
{
    const struct model *object = (const struct model *)model;
    memset(out, 0, sizeof(*out));
    if (object->active != NULL) {
        text_format(out->active_roll, sizeof(out->active_roll), "%s-%llu", model->name,
                    (unsigned long long)model->active_roll);
    }
    if (core->phase == CORE_SHOWN) {
        out->groups = count_stored(core, model->name, 0).groups;
        return;
    }
    out->groups = object->groups_count;
    out->groups_converged = object->groups_converged;
    out->groups_unavailable = object->groups_counted;
    out->max_unavailable = object->max_unavailable;
    struct staleness_summary staleness;
    view_staleness_summary(core, model, wall_ns, &staleness);
    out->max_lag_publishes = staleness.lags[LAG_PUBLISHES].max;
    converge_of(core, object, wall_ns, &out->convergence);
    conditions_of_model(core, object, &out->conditions);
    conditions_stamp(&object->conditions, &out->conditions);
}

void view_version_status(const struct controller *core, const struct version_record *version,
                         struct version_status *out)
{
    const struct version *object = (const struct version *)version;
    *out = (struct version_status){ .bytes_ready = version->state == VERSION_STATE_OPEN
                                                       ? object->bytes_ready
                                                       : version->bytes };
    if (version->seq == 0) {
        return;
    }
    uint32_t place = groups_first(core, version->model);
    for (struct group *group; (group = groups_at(core, place, version->model)) != NULL; place++) {
        out->groups_serving +=
            !group->r.retired && !group_sleeps(group) && group_is_on(core, group, version->seq);
    }
}

void view_roll_status(const struct controller *core, const struct roll_record *roll,
                      struct roll_status *out)
{
    const struct roll *object = (const struct roll *)roll;
    *out = (struct roll_status){ .groups_total = roll->groups_total,
                                 .groups_done = roll->groups_done };
    if (roll->ended_wall_ns != 0) {
        return;
    }
    if (core->phase == CORE_SHOWN) {
        struct stored_counts counts = count_stored(core, roll->model, roll->to_seq);
        *out = (struct roll_status){ .groups_total = counts.groups,
                                     .groups_done = counts.done,
                                     .groups_swapping = counts.swapping };
        return;
    }
    const struct model *model = model_find(core, roll->model);
    *out = (struct roll_status){ .groups_total = model->groups_count,
                                 .groups_done = model->groups_done,
                                 .groups_swapping = model->groups_swapping };
    struct convergence convergence;
    converge_of(core, model, core->wall_ns, &convergence);
    text_copy(out->convergence_message, sizeof(out->convergence_message), convergence.message);
    if (!canary_is_over(model, object)) {
        out->canary_steps = model->r.policy.roll.canary_count;
        out->canary_wait = object->wait;
        canary_explain(core, model, out->canary_message);
    }
    uint32_t place = groups_first(core, roll->model);
    for (struct group *group; roll->barrier_stage != BARRIER_STAGE_NONE &&
                              (group = groups_at(core, place, roll->model)) != NULL;
         place++) {
        out->groups_shut += barrier_is_shut(core, object, group);
    }
}

static enum roll_group_state stored_part_of(const struct roll *roll, const struct group *group)
{
    if (group->r.ticket_open) {
        return ROLL_GROUP_STATE_SWAPPING;
    }
    return stored_done(group, roll->r.to_seq) ? ROLL_GROUP_STATE_DONE : ROLL_GROUP_STATE_WAITING;
}

static enum roll_group_state part_of(const struct controller *core, const struct roll *roll,
                                     const struct group *group)
{
    if (core->phase == CORE_SHOWN) {
        return stored_part_of(roll, group);
    }
    if (roll_group_done(core, roll, group)) {
        return ROLL_GROUP_STATE_DONE;
    }
    if (group->known && group->live.state == GROUP_STATE_OUT) {
        return ROLL_GROUP_STATE_OUT;
    }
    if (group->r.ticket_open) {
        return ROLL_GROUP_STATE_SWAPPING;
    }
    if (group->r.failures > 0 || (group->known && group->live.state == GROUP_STATE_STAGE_FAILED)) {
        return ROLL_GROUP_STATE_FAILED;
    }
    bool lands = group->known && group->live.staging_seq == roll->r.to_seq;
    if (lands && group->live.state == GROUP_STATE_STAGED) {
        return ROLL_GROUP_STATE_STAGED;
    }
    return lands && group->live.state == GROUP_STATE_STAGING ? ROLL_GROUP_STATE_STAGING
                                                             : ROLL_GROUP_STATE_WAITING;
}

bool view_roll_group_status(const struct controller *core, const struct roll_record *roll,
                            const struct group_record *group, struct roll_group_status *out)
{
    const struct group *object = (const struct group *)group;
    if (roll->ended_wall_ns != 0 || group->retired || group_sleeps(object) ||
        strcmp(roll->model, group->model) != 0) {
        return false;
    }
    *out = (struct roll_group_status){
        .state = part_of(core, (const struct roll *)roll, object),
        .from_seq = group->ticket_open ? group->ticket.from_seq : group_committed(object),
        .attempts = group->attempts_roll == roll->number ? group->attempts : 0,
        .swapped_here = group->swapped && group->attempts_roll == roll->number &&
                        group->last_swap.to_seq == roll->to_seq,
        .staged_bytes = object->known ? object->live.staged_bytes : 0,
    };
    if (core->phase != CORE_SHOWN) {
        const struct model *model = model_find(core, group->model);
        out->blocked_reason = blocked_reason_of(core, model, object);
        blocked_explain(core, object, out->blocked_reason, out->blocked_message);
    }
    return true;
}

static void fill_lag(const struct controller *core, const struct group *group, uint64_t wall_ns,
                     struct group_status *out)
{
    struct lag lag = view_group_lag(core, &group->r, wall_ns, &out->age_seconds);
    out->relation = lag.relation;
    out->lag_publishes = lag.units[LAG_PUBLISHES];
    out->lag_optimizer_steps = lag.units[LAG_OPTIMIZER_STEPS];
    out->lag_samples = lag.units[LAG_SAMPLES];
    out->lag_seconds = lag.units[LAG_SECONDS];
}

void view_group_status(const struct controller *core, const struct group_record *group,
                       uint64_t wall_ns, struct group_status *out)
{
    const struct group *object = (const struct group *)group;
    memset(out, 0, sizeof(*out));
    out->report = object->known ? &object->live : NULL;
    out->state = object->known ? object->live.state : GROUP_STATE_UNKNOWN;
    out->state = group->retired ? GROUP_STATE_RETIRED : out->state;
    out->committed_seq = group_committed(object);
    out->committed_digest = object->known ? object->live.committed_digest : group->committed_digest;
    if (core->phase == CORE_SHOWN) {
        return;
    }
    const struct version *staging =
        object->known ? version_find(core, group->model, object->live.staging_seq) : NULL;
    out->staging_bytes = staging == NULL ? 0 : staging->r.bytes;
    fill_lag(core, object, wall_ns, out);
    out->counted = budget_counts(object);
    out->blocked_reason = blocked_reason_of(core, model_find(core, group->model), object);
    blocked_explain(core, object, out->blocked_reason, out->blocked_message);
    conditions_of_group(core, object, &out->conditions);
    conditions_stamp(&object->conditions, &out->conditions);
}

void view_agent_status(const struct controller *core, const struct agent_record *agent,
                       struct agent_status *out)
{
    const struct agent *object = (const struct agent *)agent;
    (void)core;
    *out = (struct agent_status){
        .connected = object->session != 0,
        .session = object->session,
        .last_seen_wall_ns = object->seen_wall_ns,
        .groups = object->groups_count,
        .landing_used_bytes = object->landing_used_bytes,
        .landing_budget_bytes = object->landing_budget_bytes,
        .landed_count = object->landed_count,
        .landed = (const char(*)[BATON_DIGEST_TEXT_BYTES])object->landed,
        .goals_revision = object->goals_revision,
        .goals_acked = object->goals_acked,
        .goals_refusal = object->goals_refusal,
    };
}
