/* conditions.c -- Ready, Progressing and Degraded of models and groups. */
#include "controller/core/fleet.h"
#include "controller/core/staleness.h"
#include "controller/core/text.h"
#include "controller/core/words.h"

BATON_PRINTF(4, 5)
static void set(struct condition *condition, bool holds, const char *reason, const char *fmt, ...)
{
    *condition = (struct condition){ .status = holds ? "True" : "False", .reason = reason };
    va_list args;
    va_start(args, fmt);
    text_format_list(condition->message, sizeof(condition->message), fmt, args);
    va_end(args);
}

static void degraded_by_staleness(const struct controller *core, const struct model *model,
                                  struct condition *out)
{
    struct staleness_summary summary;
    view_staleness_summary(core, &model->r, core->wall_ns, &summary);
    bool stale = summary.groups_over_bound > 0;
    set(out, stale, stale ? "StalenessBoundExceeded" : "AsExpected",
        "%u of %u groups lag more than %llu %s", summary.groups_over_bound, summary.groups,
        (unsigned long long)summary.policy.bound, words_get(&words_lag_unit, summary.policy.unit));
}

static const char *word_of_wait(enum canary_wait wait)
{
    switch (wait) {
    case CANARY_WAIT_SOAK: return "CanarySoaking";
    case CANARY_WAIT_CHECK: return "CheckPending";
    case CANARY_WAIT_FAILED: return "CheckFailed";
    case CANARY_WAIT_HOLD: return "CanaryHold";
    case CANARY_WAIT_NONE:
    case CANARY_WAIT_GROUPS: break;
    }
    return "Rolling";
}

/* The first that applies: a check failed, the roll is late, groups are out. */
static const char *why_degraded(const struct model *model)
{
    const struct roll *roll = model->active;
    if (roll != NULL && roll->wait == CANARY_WAIT_FAILED) {
        return "CheckFailed";
    }
    if (roll != NULL && roll->r.degraded) {
        return "ProgressDeadlineExceeded";
    }
    return model->groups_out > 0 ? "GroupsOut" : NULL;
}

void conditions_of_model(const struct controller *core, const struct model *model,
                         struct conditions *out)
{
    const struct roll *roll = model->active;
    bool all = model->groups_counted == 0;
    set(&out->ready, all, all ? "GroupsAvailable" : "GroupsUnavailable", "%u of %u groups are away",
        model->groups_counted, model->groups_count);
    if (roll == NULL) {
        set(&out->progressing, false, "NoActiveRoll", "%s", "");
    } else {
        bool paused = roll->r.state == ROLL_STATE_PAUSED;
        struct convergence convergence;
        converge_of(core, model, core->wall_ns, &convergence);
        const char *how = convergence.will_not ? "WillNotConverge" : word_of_wait(roll->wait);
        set(&out->progressing, !paused, paused ? "RollPaused" : how,
            "roll %s-%llu to version %llu%s%.150s", model->r.name,
            (unsigned long long)roll->r.number, (unsigned long long)roll->r.to_seq,
            convergence.will_not ? "; " : "", convergence.message);
    }
    const char *why = why_degraded(model);
    if (why == NULL && model->r.policy.staleness.bounded) {
        degraded_by_staleness(core, model, &out->degraded);
        return;
    }
    set(&out->degraded, why != NULL, why != NULL ? why : "AsExpected",
        "%u groups are OUT or UNKNOWN", model->groups_out);
}

void conditions_of_group(const struct controller *core, const struct group *group,
                         struct conditions *out)
{
    if (group->r.retired) {
        set(&out->ready, false, "Retired", "%s", group->r.retire_reason);
    } else if (group_sleeps(group)) {
        bool asleep = sleep_is_reached(core, group);
        set(&out->ready, false, asleep ? "Asleep" : "FallsAsleep", "%s", group->r.sleep_reason);
    } else if (!group->known) {
        set(&out->ready, false, "AgentUnknown", "nothing is known of it in this epoch");
        out->ready.status = "Unknown";
    } else {
        bool serves = group_is_available(group);
        set(&out->ready, serves, serves ? "Serving" : "GateShut", "%s",
            words_get(&words_group_state, group->live.state));
    }
    bool staging = group->known && group->live.state == GROUP_STATE_STAGING;
    set(&out->progressing, group->r.ticket_open || staging,
        group->r.ticket_open ? "Swapping" : (staging ? "Staging" : "Idle"), "%s", "");
    bool lost = group->known && group->live.state == GROUP_STATE_OUT && !group_sleeps(group);
    bool failing =
        group->r.failures > 0 || (group->known && group->live.state == GROUP_STATE_STAGE_FAILED);
    const struct model *model = model_find(core, group->r.model);
    if (!lost && !failing && model != NULL && model->r.policy.staleness.bounded) {
        const struct staleness_policy *limits = &model->r.policy.staleness;
        struct lag lag = group_lag(core, group);
        bool stale = lag_is_above(&lag, limits->unit, limits->bound);
        set(&out->degraded, stale, stale ? "StalenessBoundExceeded" : "AsExpected", "%s",
            stale ? "what it serves lags more than the model's bound" : "");
        return;
    }
    set(&out->degraded, lost || failing, lost ? "Out" : (failing ? "SwapFailing" : "AsExpected"),
        "%s", group->known ? group->live.message : "");
}

bool conditions_note(struct condition_memory *memory, const struct conditions *now,
                     uint64_t wall_ns)
{
    const struct condition *list[CONDITIONS_COUNT] = { &now->ready, &now->progressing,
                                                       &now->degraded };
    bool changed = false;
    for (size_t i = 0; i < CONDITIONS_COUNT; i++) {
        bool same = text_equal(memory->status[i], list[i]->status);
        if (!same) {
            memory->status[i] = list[i]->status;
            memory->changed_wall_ns[i] = wall_ns;
            changed = true;
        }
    }
    return changed;
}

void conditions_stamp(const struct condition_memory *memory, struct conditions *out)
{
    out->ready.last_transition_wall_ns = memory->changed_wall_ns[0];
    out->progressing.last_transition_wall_ns = memory->changed_wall_ns[1];
    out->degraded.last_transition_wall_ns = memory->changed_wall_ns[2];
}
