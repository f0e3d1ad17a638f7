/* converge.c -- whether a model's rolls keep up with its publishes.
 *
 *   S   a slot's time: median of the last swaps (ticket to outcome), and the policy's soak
 *   P   between rolls: the mean of the last publishes' gaps (or since the last one, if that is
 *       longer), times what the trigger skips
 *   T   a pass over all groups: ceil(groups / maxUnavailable) x S
 *
 *   T <= P   every version reaches all groups before the next one comes.
 *   T >  P   never: rolls supersede each other, most stale group first, and each group is swapped
 *            once in T.  Right before its commit it is behind by all that was published since its
 *            last ticket: about the steady lag k = ceil((T + S) / gap).  The least maxUnavailable that
 *            keeps up is n = ceil(groups / floor(P / S)); if S > P no number does.
 *
 * Landing runs beside serving, but a group that lands longer than P never finishes a version before
 * the next one takes its place: that cannot converge either, whatever the budget. */
#include "controller/core/core.h"

enum { GAPS_MIN = 3, GAPS_MAX = 8 };

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

/* Mean gap between the last publishes; 0: too few of them.  '*steps' and '*iterations' are how much
 * training lies between two. */
static uint64_t gap_of(const struct controller *core, const struct model *model, uint64_t wall_ns,
                       uint64_t *steps, uint64_t *iterations)
{
    const struct version *newest = NULL;
    const struct version *oldest = NULL;
    uint64_t gaps = 0;
    uint32_t place = versions_place(core, model->r.name, 0, "");
    for (struct version *version; (version = versions_at(core, place, model->r.name)) != NULL &&
                                  version->r.seq != 0 && gaps < GAPS_MAX;
         place++) {
        newest = newest == NULL ? version : newest;
        oldest = version;
        gaps = newest->r.seq - oldest->r.seq; /* Records between may be gone. */
    }
    if (gaps < GAPS_MIN || newest->r.published_wall_ns < oldest->r.published_wall_ns) {
        return 0;
    }
    uint64_t mean = (newest->r.published_wall_ns - oldest->r.published_wall_ns) / gaps;
    uint64_t since =
        wall_ns > newest->r.published_wall_ns ? wall_ns - newest->r.published_wall_ns : 0;
    *steps = (newest->r.optimizer_step - oldest->r.optimizer_step) / gaps;
    *iterations = (newest->r.rollout_iteration - oldest->r.rollout_iteration) / gaps;
    return mean > since ? mean : since;
}

/* Publishes that one roll stands for under Interval. */
static uint64_t publishes_of(const struct roll_policy *policy, uint64_t steps, uint64_t iterations)
{
    switch (policy->every_unit) {
    case POLICY_UNIT_PUBLISHES: return policy->every_n;
    case POLICY_UNIT_OPTIMIZER_STEPS: return steps == 0 ? 1 : divide_up(policy->every_n, steps);
    case POLICY_UNIT_ROLLOUT_ITERATIONS:
        return iterations == 0 ? 1 : divide_up(policy->every_n, iterations);
    case POLICY_UNIT_SECONDS: break;
    }
    return 1;
}

/* Between two rolls; 0: they do not keep coming by themselves. */
static uint64_t interval_of(const struct model *model, uint64_t gap_ns, uint64_t steps,
                            uint64_t iterations)
{
    const struct roll_policy *policy = &model->r.policy.roll;
    switch (model->r.policy.trigger) {
    case POLICY_TRIGGER_ON_PUBLISH: return gap_ns;
    case POLICY_TRIGGER_INTERVAL:
        if (policy->every_unit == POLICY_UNIT_SECONDS) {
            uint64_t every_ns = policy->every_n * S_NS;
            return gap_ns > every_ns ? gap_ns : every_ns;
        }
        return gap_ns * publishes_of(policy, steps, iterations);
    case POLICY_TRIGGER_MANUAL:
    case POLICY_TRIGGER_MAX_LAG: break;
    }
    return 0;
}

static void judge(const struct model *model, uint64_t gap_ns, struct convergence *out)
{
    uint64_t groups = model->groups_count;
    uint64_t slots = model->max_unavailable < groups ? model->max_unavailable : groups;
    out->pass_ns = divide_up(groups, slots) * out->swap_ns;
    if (out->stage_ns > out->interval_ns) {
        out->will_not = true;
        text_format(out->message, sizeof(out->message),
                    "WillNotConverge: landing takes %.1f s, longer than the %.1f s between rolls",
                    (double)out->stage_ns / 1e9, (double)out->interval_ns / 1e9);
        return;
    }
    if (out->pass_ns <= out->interval_ns) {
        return;
    }
    out->will_not = true;
    out->steady_lag = divide_up(out->pass_ns + out->swap_ns, gap_ns);
    uint64_t turns = out->interval_ns / out->swap_ns;
    if (turns == 0) {
        text_format(out->message, sizeof(out->message),
                    "WillNotConverge: steady lag %llu; a swap takes %.1f s, longer than the %.1f s "
                    "between rolls: roll less often",
                    (unsigned long long)out->steady_lag, (double)out->swap_ns / 1e9,
                    (double)out->interval_ns / 1e9);
        return;
    }
    out->needs_max_unavailable = (uint32_t)divide_up(groups, turns);
    text_format(out->message, sizeof(out->message),
                "WillNotConverge: steady lag %llu; needs maxUnavailable %u",
                (unsigned long long)out->steady_lag, out->needs_max_unavailable);
}

void converge_of(const struct controller *core, const struct model *model, uint64_t wall_ns,
                 struct convergence *out)
{
    uint64_t steps = 0;
    uint64_t iterations = 0;
    uint64_t gap_ns = gap_of(core, model, wall_ns, &steps, &iterations);
    uint64_t slot_ns = model->measure.slot_ns;
    *out = (struct convergence){ .interval_ns = interval_of(model, gap_ns, steps, iterations),
                                 .pause_ns = model->measure.pause_ns,
                                 .stage_ns = model->measure.stage_ns };
    out->swap_ns = slot_ns == 0 ? 0 : slot_ns + model->r.policy.roll.soak_ms * MS_NS;
    out->known = out->interval_ns != 0 && out->swap_ns != 0 && model->groups_count != 0 &&
                 model->max_unavailable != 0;
    if (out->known) {
        judge(model, gap_ns, out);
    }
}

void converge_settle(struct controller *core, struct model *model)
{
    struct convergence now;
    converge_of(core, model, core->wall_ns, &now);
    if (now.will_not == model->late_shown) {
        return;
    }
    model->late_shown = now.will_not;
    struct object_ref ref = ref_model(model);
    if (now.will_not) {
        log_warn(core, &ref, "WillNotConverge", "%s", now.message);
    } else {
        log_add(core, &ref, "Converges", NULL, "rolls keep up with the publishes");
    }
    marks_change(core, RECORD_MODEL, model);
}
