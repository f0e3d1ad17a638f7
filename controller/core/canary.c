/* canary.c -- the steps of a roll: so many groups, then their soak, then checks, then a hold.
 *
 * A step's 'groups' counts from the roll's start.  When that many groups are done, they soak; then
 * the step's checks must pass; then a hold waits for Advance.  After the last step the other groups
 * follow without steps.  Steps do not apply to a model's first roll (nobody serves yet), nor to one
 * that takes a version back, nor to one of the promoted version, which passed its own.
 *
 * Stored: the step, and whether its groups have soaked.  Not stored: since when, as in soak.c. */
#include "controller/core/core.h"

static const struct canary_step *step_of(const struct model *model, const struct roll *roll)
{
    return &model->r.policy.roll.canary[roll->r.canary_step];
}

void canary_begin(const struct model *model, struct roll_record *roll)
{
    bool back = roll->cause == ROLL_CAUSE_UNDO || roll->cause == ROLL_CAUSE_ABORT ||
                roll->cause == ROLL_CAUSE_ROLLBACK;
    bool passed = model->r.promoted_seq == 0 || model->r.promoted_seq == roll->to_seq;
    roll->canary_passed = back || passed || model->r.policy.roll.canary_count == 0;
}

bool canary_is_over(const struct model *model, const struct roll *roll)
{
    return roll->r.canary_passed || model->r.policy.strategy == POLICY_STRATEGY_BARRIER ||
           roll->r.canary_step >= model->r.policy.roll.canary_count;
}

uint32_t canary_groups(const struct canary_step *step, uint32_t total)
{
    uint64_t groups = step->groups;
    if (step->groups_is_percent) {
        groups = groups * total / 100;
        groups = groups == 0 ? 1 : groups;
    }
    return groups < total ? (uint32_t)groups : total;
}

static bool has_soaked(struct controller *core, struct model *model, struct roll *roll)
{
    uint64_t soak_ns = step_of(model, roll)->soak_ms * MS_NS;
    roll->soak_since_ns = roll->soak_since_ns == 0 ? core->now_ns : roll->soak_since_ns;
    if (core->now_ns - roll->soak_since_ns >= soak_ns) {
        return true;
    }
    model_wake_at(core, model, roll->soak_since_ns + soak_ns);
    return false;
}

/* Why the present step is not over. */
static enum canary_wait wait_of(struct controller *core, struct model *model, uint32_t total)
{
    struct roll *roll = model->active;
    const struct canary_step *step = step_of(model, roll);
    if (!roll->r.canary_soaked) {
        if (model->groups_serving < canary_groups(step, total)) {
            roll->soak_since_ns = 0;
            return CANARY_WAIT_GROUPS;
        }
        if (!has_soaked(core, model, roll)) {
            return CANARY_WAIT_SOAK;
        }
        roll->r.canary_soaked = true;
        checks_begin(model, roll);
        marks_put(core, RECORD_ROLL, roll);
        roll_note_progress(core, model);
    }
    enum check_state verdict = checks_verdict(core, model);
    if (verdict != CHECK_STATE_PASSED) {
        return verdict == CHECK_STATE_FAILED ? CANARY_WAIT_FAILED : CANARY_WAIT_CHECK;
    }
    return step->hold ? CANARY_WAIT_HOLD : CANARY_WAIT_NONE;
}

void canary_next(struct controller *core, struct model *model)
{
    struct roll *roll = model->active;
    roll->r.canary_step++;
    roll->r.canary_soaked = false;
    roll->r.canary_passed = roll->r.canary_step >= model->r.policy.roll.canary_count;
    roll->soak_since_ns = 0;
    roll->wait = CANARY_WAIT_NONE;
    checks_clear(roll);
    marks_put(core, RECORD_ROLL, roll);
    model_touch(model);
    struct object_ref ref = ref_roll(roll);
    log_add(core, &ref, "CanaryStepPassed", NULL, "step %u of %u is over", roll->r.canary_step,
            model->r.policy.roll.canary_count);
    roll_note_progress(core, model);
}

static void log_wait(struct controller *core, struct model *model)
{
    struct roll *roll = model->active;
    struct object_ref ref = ref_roll(roll);
    char text[BATON_TEXT_BYTES];
    canary_explain(core, model, text);
    if (roll->wait == CANARY_WAIT_FAILED) {
        log_warn(core, &ref, "CheckFailed", "%s", text);
    } else if (roll->wait == CANARY_WAIT_HOLD || roll->wait == CANARY_WAIT_CHECK) {
        log_add(core, &ref, "CanaryWaits", NULL, "%s", text);
    }
}

void canary_settle(struct controller *core, struct model *model, uint32_t total)
{
    struct roll *roll = model->active;
    if (roll->r.state != ROLL_STATE_PROGRESSING || core->cluster.floors_pending) {
        return;
    }
    enum canary_wait before = roll->wait;
    enum canary_wait now = CANARY_WAIT_NONE;
    while (!canary_is_over(model, roll) && total != 0) {
        now = wait_of(core, model, total);
        if (now != CANARY_WAIT_NONE) {
            break;
        }
        canary_next(core, model);
    }
    roll->wait = now;
    if (before != now) {
        marks_change(core, RECORD_ROLL, roll);
        log_wait(core, model);
    }
}

void canary_count_room(struct model *model)
{
    struct roll *roll = model->active;
    roll->room = UINT32_MAX;
    if (canary_is_over(model, roll)) {
        return;
    }
    uint32_t begun = model->groups_begun;
    uint32_t allowed = canary_groups(step_of(model, roll), model->groups_count);
    roll->room = begun < allowed ? allowed - begun : 0;
}

bool canary_stops_clock(const struct model *model, const struct roll *roll)
{
    switch (roll->wait) {
    case CANARY_WAIT_SOAK:
    case CANARY_WAIT_HOLD: return true;
    case CANARY_WAIT_CHECK: return checks_wait_for_people(model, roll);
    case CANARY_WAIT_NONE:
    case CANARY_WAIT_GROUPS:
    case CANARY_WAIT_FAILED: break;
    }
    return false;
}

static void explain_wait(const struct controller *core, const struct model *model,
                         char out[BATON_TEXT_BYTES])
{
    const struct roll *roll = model->active;
    const struct canary_step *step = step_of(model, roll);
    uint64_t soak_ns = step->soak_ms * MS_NS;
    uint64_t gone_ns = roll->soak_since_ns == 0 ? 0 : core->now_ns - roll->soak_since_ns;
    switch (roll->wait) {
    case CANARY_WAIT_SOAK:
        text_format(
            out, BATON_TEXT_BYTES, "its groups soak; %llu s are left",
            (unsigned long long)((soak_ns - (gone_ns < soak_ns ? gone_ns : soak_ns)) / S_NS));
        return;
    case CANARY_WAIT_CHECK: checks_explain(model, roll, CHECK_STATE_PENDING, out); return;
    case CANARY_WAIT_FAILED: checks_explain(model, roll, CHECK_STATE_FAILED, out); return;
    case CANARY_WAIT_HOLD:
        text_format(out, BATON_TEXT_BYTES, "it holds; batonctl roll advance model/%s",
                    model->r.name);
        return;
    case CANARY_WAIT_NONE:
    case CANARY_WAIT_GROUPS: break;
    }
    text_format(out, BATON_TEXT_BYTES, "its %u%s groups go first", step->groups,
                step->groups_is_percent ? " percent of the" : "");
}

void canary_explain(const struct controller *core, const struct model *model,
                    char out[BATON_TEXT_BYTES])
{
    char text[BATON_TEXT_BYTES];
    out[0] = '\0';
    if (model->active != NULL && !canary_is_over(model, model->active)) {
        explain_wait(core, model, text);
        text_format(out, BATON_TEXT_BYTES, "canary step %u of %u: %.180s",
                    model->active->r.canary_step + 1, model->r.policy.roll.canary_count, text);
    }
}
