/* trigger.c -- when published versions start a roll by themselves.
 *
 *   OnPublish   each publish does (versions.c).
 *   Interval    so many publishes, steps or iterations after the newest version of the last roll's
 *               beginning, or so many seconds after that beginning, if there is something newer.
 *   MaxLag      as soon as the most stale group (that a roll could bring on) lags so far behind the
 *               newest version; in seconds:
 *               since the first version that the group does not serve was published.
 *
 * The first version rolls at once: groups wait for something to serve.  A version that a roll went
 * away from does not come back by itself: only one that was published after the last roll began
 * counts.  Seconds run on the monotonic clock; over a restart the time that the wall clock says has
 * passed is taken over, so a jump moves one roll and costs no safety. */
#include "controller/core/core.h"

static bool counts(const struct model *model)
{
    return model->r.policy.trigger == POLICY_TRIGGER_INTERVAL ||
           model->r.policy.trigger == POLICY_TRIGGER_MAX_LAG;
}

void trigger_note(struct controller *core, struct model *model)
{
    const struct version *newest = version_find(core, model->r.name, model->r.newest_seq);
    model->r.trigger_seq = model->r.newest_seq;
    model->r.trigger_step = newest == NULL ? 0 : newest->r.optimizer_step;
    model->r.trigger_iteration = newest == NULL ? 0 : newest->r.rollout_iteration;
    model->r.trigger_wall_ns = core->wall_ns;
    model->trigger_ns = core->now_ns;
}

void trigger_load(const struct controller *core, struct model *model)
{
    uint64_t then = model->r.trigger_wall_ns;
    uint64_t gone = core->wall_ns > then ? core->wall_ns - then : 0;
    model->trigger_ns = core->now_ns > gone ? core->now_ns - gone : 0;
}

static uint64_t above(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* 'n' seconds after 'since_ns'; looks again then. */
static bool is_time(struct controller *core, struct model *model, uint64_t since_ns, uint64_t n)
{
    uint64_t due_ns = since_ns + n * S_NS;
    if (core->now_ns < due_ns) {
        model_wake_at(core, model, due_ns);
    }
    return core->now_ns >= due_ns;
}

static bool is_interval_over(struct controller *core, struct model *model,
                             const struct version *newest)
{
    const struct roll_policy *policy = &model->r.policy.roll;
    uint64_t n = policy->every_n;
    switch (policy->every_unit) {
    case POLICY_UNIT_PUBLISHES: return above(newest->r.seq, model->r.trigger_seq) >= n;
    case POLICY_UNIT_OPTIMIZER_STEPS:
        return above(newest->r.optimizer_step, model->r.trigger_step) >= n;
    case POLICY_UNIT_ROLLOUT_ITERATIONS:
        return above(newest->r.rollout_iteration, model->r.trigger_iteration) >= n;
    case POLICY_UNIT_SECONDS: return is_time(core, model, model->trigger_ns, n);
    }
    return false;
}

/* Monotonic time at which the first version that 'group' does not serve was published. */
static uint64_t behind_since(const struct controller *core, const struct model *model,
                             const struct group *group)
{
    const struct version *first = NULL;
    uint64_t seq = group_committed(group);
    uint32_t place = versions_place(core, model->r.name, 0, "");
    for (struct version *version;
         (version = versions_at(core, place, model->r.name)) != NULL && version->r.seq > seq;
         place++) {
        first = version;
    }
    uint64_t gone = first == NULL ? 0 : above(core->wall_ns, first->r.published_wall_ns);
    return above(core->now_ns, gone);
}

static bool lags(struct controller *core, struct model *model, const struct group *group,
                 const struct version *newest)
{
    const struct roll_policy *policy = &model->r.policy.roll;
    uint64_t n = policy->every_n;
    const struct version *served = version_find(core, model->r.name, group_committed(group));
    uint64_t step = served == NULL ? 0 : served->r.optimizer_step;
    uint64_t iteration = served == NULL ? 0 : served->r.rollout_iteration;
    switch (policy->every_unit) {
    case POLICY_UNIT_PUBLISHES: return order_lag(model, group) >= n;
    case POLICY_UNIT_OPTIMIZER_STEPS: return above(newest->r.optimizer_step, step) >= n;
    case POLICY_UNIT_ROLLOUT_ITERATIONS: return above(newest->r.rollout_iteration, iteration) >= n;
    case POLICY_UNIT_SECONDS: return is_time(core, model, behind_since(core, model, group), n);
    }
    return false;
}

static bool is_lag_reached(struct controller *core, struct model *model,
                           const struct version *newest)
{
    uint32_t place = groups_first(core, model->r.name);
    bool reached = false;
    for (struct group *group; (group = groups_at(core, place, model->r.name)) != NULL; place++) {
        bool apart = group->r.cordoned || group->r.pinned || group->r.retired || group->r.asleep;
        bool serves = !apart && group_committed(group) != 0 && order_lag(model, group) > 0;
        reached = reached || (serves && lags(core, model, group, newest));
    }
    return reached;
}

static bool is_due(struct controller *core, struct model *model, const struct version *newest)
{
    if (model->r.promoted_seq == 0 && model->active == NULL) {
        return true;
    }
    return model->r.policy.trigger == POLICY_TRIGGER_INTERVAL
               ? is_interval_over(core, model, newest)
               : is_lag_reached(core, model, newest);
}

void trigger_settle(struct controller *core, struct model *model)
{
    bool stopped = model->r.held || model->r.suspended || core->cluster.floors_pending;
    const struct version *newest = version_find(core, model->r.name, model->r.newest_seq);
    if (!counts(model) || stopped || newest == NULL || newest->r.quarantined ||
        newest->r.seq <= model->r.trigger_seq || newest->r.seq <= model->r.promoted_seq ||
        !is_due(core, model, newest)) {
        return;
    }
    if (!rolls_make_room(core)) {
        model_wake_at(core, model, core->now_ns + S_NS);
        return;
    }
    char reason[BATON_TEXT_BYTES];
    text_format(reason, sizeof(reason), "%s of %llu %s",
                words_get(&words_trigger, model->r.policy.trigger),
                (unsigned long long)model->r.policy.roll.every_n,
                words_get(&words_unit, model->r.policy.roll.every_unit));
    struct roll_request request = { .cause = ROLL_CAUSE_TRIGGER, .by = "", .reason = reason };
    (void)roll_begin(core, model, newest->r.seq, &request);
}
