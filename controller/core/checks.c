/* checks.c -- the quality conditions that canary steps name.
 *
 *   Manual   a person says so: ReportCheck with a verdict, or Advance.
 *   Metric   ReportCheck with a number, or the answer of Prometheus to its query.  A number that breaks the threshold fails it at once; good
 *            ones pass it when none broke it for the window, counted from the first good one after
 *            the step's soak.  A later good number begins another window.
 *   Probe    computed here: each group that this version reached must give the same log-probability
 *            for the probe as the first that was verified 'resident', within the tolerance; and
 *            must hold the references that the trainer gave with the version, if it gave some.
 *   Change   computed here, of what the source recorded with the version: how far its tensors are
 *            from their parent's.
 *
 * The states are stored with the roll; the window's begin is monotonic time of this life, so a
 * restart begins the window anew. */
#include <string.h>

#include "controller/core/core.h"

static bool is_finite(double number)
{
    return __builtin_isfinite(number);
}

static const struct roll_policy *policy_of(const struct model *model)
{
    return &model->r.policy.roll;
}

static uint32_t mask_of(const struct model *model, const struct roll *roll)
{
    return canary_is_over(model, roll) ? 0 : policy_of(model)->canary[roll->r.canary_step].checks;
}

/* What is stored of the policy's check 'i'; null: nothing was reported, or of another policy. */
static const struct check_record *known(const struct model *model, const struct roll *roll,
                                        uint32_t i)
{
    const struct check_record *record = &roll->r.checks[i];
    bool same =
        i < roll->r.checks_count && text_equal(record->name, policy_of(model)->checks[i].name);
    return same ? record : NULL;
}

static enum check_state state_of(const struct model *model, const struct roll *roll, uint32_t i)
{
    const struct check_record *record = known(model, roll, i);
    return record == NULL ? CHECK_STATE_PENDING : record->state;
}

static struct check_record *take(const struct model *model, struct roll *roll, uint32_t i)
{
    struct check_record *record = &roll->r.checks[i];
    if (roll->r.checks_count <= i) {
        roll->r.checks_count = i + 1;
    }
    if (!text_equal(record->name, policy_of(model)->checks[i].name)) {
        memset(record, 0, sizeof(*record));
        text_copy(record->name, sizeof(record->name), policy_of(model)->checks[i].name);
        record->state = CHECK_STATE_PENDING;
    }
    return record;
}

void checks_clear(struct roll *roll)
{
    memset(roll->r.checks, 0, sizeof(roll->r.checks));
    memset(roll->good_since_ns, 0, sizeof(roll->good_since_ns));
    roll->r.checks_count = 0;
}

void checks_begin(const struct model *model, struct roll *roll)
{
    for (uint32_t i = 0; i < roll->r.checks_count; i++) {
        bool metric = policy_of(model)->checks[i].kind == CHECK_KIND_METRIC;
        if (metric && roll->r.checks[i].state != CHECK_STATE_FAILED) {
            memset(&roll->r.checks[i], 0, sizeof(roll->r.checks[i]));
            roll->good_since_ns[i] = 0;
        }
    }
}

static bool is_good(const struct check_policy *check, double value)
{
    switch (check->compare) {
    case CHECK_COMPARE_BELOW: return value < check->threshold;
    case CHECK_COMPARE_AT_MOST: return value <= check->threshold;
    case CHECK_COMPARE_ABOVE: return value > check->threshold;
    case CHECK_COMPARE_AT_LEAST: return value >= check->threshold;
    }
    return false;
}

/* A metric whose reports were good so far passes when its window is over. */
static enum check_state settle_metric(struct controller *core, struct model *model, uint32_t i)
{
    struct roll *roll = model->active;
    uint64_t window_ns = policy_of(model)->checks[i].window_ms * MS_NS;
    if (known(model, roll, i) == NULL || roll->r.checks[i].state != CHECK_STATE_PENDING ||
        roll->r.checks[i].unanswered) {
        return state_of(model, roll, i);
    }
    uint64_t since_ns = roll->good_since_ns[i] == 0 ? core->now_ns : roll->good_since_ns[i];
    roll->good_since_ns[i] = since_ns;
    if (core->now_ns - since_ns < window_ns) {
        model_wake_at(core, model, since_ns + window_ns);
        return CHECK_STATE_PENDING;
    }
    roll->r.checks[i].state = CHECK_STATE_PASSED;
    marks_put(core, RECORD_ROLL, roll);
    return CHECK_STATE_PASSED;
}

static bool brought(const struct group *group, uint64_t seq)
{
    const struct swap_record *swap = &group->r.last_swap;
    return group->r.swapped && group->r.committed_seq == seq && swap->to_seq == seq &&
           swap->outcome == SWAP_OUTCOME_COMMITTED;
}

/* The group that others are compared with: the first that was verified resident. */
static const struct group *reference_of(const struct controller *core, const struct model *model)
{
    const struct group *first = NULL;
    uint32_t place = groups_first(core, model->r.name);
    for (struct group *group; (group = groups_at(core, place, model->r.name)) != NULL; place++) {
        const struct swap_record *swap = &group->r.last_swap;
        bool usable = brought(group, model->active->r.to_seq) && swap->probe_text[0] != '\0' &&
                      swap->verify_level == VERIFY_LEVEL_RESIDENT;
        if (usable && (first == NULL || swap->ended_wall_ns < first->r.last_swap.ended_wall_ns)) {
            first = group;
        }
    }
    return first;
}

static double distance(double a, double b)
{
    return a > b ? a - b : b - a;
}

/* A group that the version reached and that missed one of the trainer's references; null: none.
 * 'all_asked': all that it reached were asked. */
static const struct group *missing_reference(const struct controller *core,
                                             const struct model *model, bool *all_asked)
{
    uint32_t reached = 0;
    uint32_t asked = 0;
    uint32_t place = groups_first(core, model->r.name);
    *all_asked = false;
    for (struct group *group; (group = groups_at(core, place, model->r.name)) != NULL; place++) {
        if (!brought(group, model->active->r.to_seq)) {
            continue;
        }
        if (group->r.last_swap.references_missed > 0) {
            return group;
        }
        reached++;
        asked += group->r.last_swap.references > 0;
    }
    *all_asked = reached > 0 && asked == reached;
    return NULL;
}

/* The trainer's references, where the version has some: true if they decided. */
static bool judge_references(const struct controller *core, const struct model *model,
                             struct check_record *out)
{
    bool all_asked = false;
    const struct group *missed = missing_reference(core, model, &all_asked);
    if (missed != NULL) {
        out->state = CHECK_STATE_FAILED;
        out->value = missed->r.last_swap.reference_away;
        text_format(out->message, sizeof(out->message), "group %s: %.170s", missed->r.name,
                    missed->r.last_swap.reference_message);
        return true;
    }
    if (all_asked && reference_of(core, model) == NULL) {
        out->state = CHECK_STATE_PASSED;
        text_copy(out->message, sizeof(out->message), "as the trainer's references");
        return true;
    }
    return false;
}

/* Fills 'out' with the verdict of a probe check. */
static void probe(const struct controller *core, const struct model *model, double tolerance,
                  struct check_record *out)
{
    const struct group *reference = reference_of(core, model);
    if (judge_references(core, model, out)) {
        return;
    }
    out->state = CHECK_STATE_PENDING;
    if (reference == NULL) {
        text_copy(out->message, sizeof(out->message),
                  "no group on this version was verified resident with a probe");
        return;
    }
    out->state = CHECK_STATE_PASSED;
    out->value = 0;
    text_format(out->message, sizeof(out->message), "as group %s", reference->r.name);
    uint32_t place = groups_first(core, model->r.name);
    for (struct group *group; (group = groups_at(core, place, model->r.name)) != NULL; place++) {
        const struct swap_record *swap = &group->r.last_swap;
        if (!brought(group, model->active->r.to_seq)) {
            continue;
        }
        double away = distance(swap->probe_logprob, reference->r.last_swap.probe_logprob);
        bool asked = swap->probe_text[0] != '\0' && is_finite(away);
        if (!asked && out->state == CHECK_STATE_PASSED) {
            out->state = CHECK_STATE_PENDING;
            text_format(out->message, sizeof(out->message), "group %s brought no probe",
                        group->r.name);
        } else if (asked && away > tolerance) {
            out->state = CHECK_STATE_FAILED;
            out->value = away;
            text_format(out->message, sizeof(out->message),
                        "group %s is %.6g away from group %s, more than %.6g", group->r.name, away,
                        reference->r.name, tolerance);
            return;
        }
        out->value = asked && away > out->value ? away : out->value;
    }
}

/* Fills 'out' with the verdict of a change check: the same for as long as the version is. */
static void change(const struct controller *core, const struct model *model,
                   const struct check_policy *check, struct check_record *out)
{
    const struct version *version = version_find(core, model->r.name, model->active->r.to_seq);
    const struct version_values *values = &version->r.values;
    const struct tensor_change *largest = &values->largest[0];
    out->state = CHECK_STATE_PENDING;
    if (!values->compared) {
        text_copy(out->message, sizeof(out->message),
                  "it was not compared: its parent does not lie where it was published");
        return;
    }
    out->state = CHECK_STATE_FAILED;
    out->value = values->largest_count > 0 ? largest->change : 0;
    unsigned long long base = (unsigned long long)values->base_seq;
    if (values->changed + values->added < check->min_changed) {
        text_format(out->message, sizeof(out->message),
                    "%llu of %llu tensors differ from version %llu, at least %llu must",
                    (unsigned long long)(values->changed + values->added),
                    (unsigned long long)version->r.tensors, base,
                    (unsigned long long)check->min_changed);
    } else if (check->max_change != 0 && out->value > check->max_change) {
        text_format(out->message, sizeof(out->message),
                    "change %.4g against version %llu, at most %.4g may be, of %.100s", out->value,
                    base, check->max_change, largest->name);
    } else {
        out->state = CHECK_STATE_PASSED;
        text_format(out->message, sizeof(out->message),
                    "%llu of %llu tensors differ from version %llu, by %.4g at most",
                    (unsigned long long)(values->changed + values->added),
                    (unsigned long long)version->r.tensors, base, out->value);
    }
}

/* A check that is decided here. */
static enum check_state settle_computed(struct controller *core, struct model *model, uint32_t i)
{
    struct roll *roll = model->active;
    const struct check_policy *check = &policy_of(model)->checks[i];
    const struct check_record *before = known(model, roll, i);
    struct check_record now = { 0 };
    text_copy(now.name, sizeof(now.name), check->name);
    if (check->kind == CHECK_KIND_CHANGE) {
        change(core, model, check, &now);
    } else {
        probe(core, model, check->tolerance, &now);
    }
    bool same =
        before != NULL && before->state == now.state && text_equal(before->message, now.message);
    if (!same) {
        now.reported_wall_ns = core->wall_ns;
        *take(model, roll, i) = now;
        marks_put(core, RECORD_ROLL, roll);
    }
    return now.state;
}

static enum check_state settle_one(struct controller *core, struct model *model, uint32_t i)
{
    switch (policy_of(model)->checks[i].kind) {
    case CHECK_KIND_METRIC: return settle_metric(core, model, i);
    case CHECK_KIND_PROBE:
    case CHECK_KIND_CHANGE: return settle_computed(core, model, i);
    case CHECK_KIND_MANUAL: break;
    }
    return state_of(model, model->active, i);
}

enum check_state checks_verdict(struct controller *core, struct model *model)
{
    uint32_t mask = mask_of(model, model->active);
    enum check_state verdict = CHECK_STATE_PASSED;
    for (uint32_t i = 0; i < policy_of(model)->checks_count; i++) {
        if ((mask & 1U << i) == 0) {
            continue;
        }
        enum check_state state = settle_one(core, model, i);
        bool worse = state == CHECK_STATE_FAILED ||
                     (state == CHECK_STATE_PENDING && verdict == CHECK_STATE_PASSED);
        verdict = worse ? state : verdict;
    }
    return verdict;
}

bool checks_wait_for_people(const struct model *model, const struct roll *roll)
{
    uint32_t mask = mask_of(model, roll);
    for (uint32_t i = 0; i < policy_of(model)->checks_count; i++) {
        bool machine = policy_of(model)->checks[i].kind != CHECK_KIND_MANUAL;
        bool passed = state_of(model, roll, i) == CHECK_STATE_PASSED;
        if ((mask & 1U << i) != 0 && machine && !passed) {
            return false;
        }
    }
    return true;
}

void checks_explain(const struct model *model, const struct roll *roll, enum check_state state,
                    char out[BATON_TEXT_BYTES])
{
    uint32_t mask = mask_of(model, roll);
    out[0] = '\0';
    for (uint32_t i = 0; i < policy_of(model)->checks_count; i++) {
        const struct check_policy *check = &policy_of(model)->checks[i];
        if ((mask & 1U << i) == 0 || state_of(model, roll, i) != state) {
            continue;
        }
        const struct check_record *record = known(model, roll, i);
        const char *said = record == NULL ? "" : record->message;
        const char *colon = said[0] == '\0' ? "" : ": ";
        if (state == CHECK_STATE_FAILED) {
            text_format(out, BATON_TEXT_BYTES,
                        "check %s failed%s%.90s; batonctl roll abort model/%s, or report it anew",
                        check->name, colon, said, model->r.name);
        } else {
            text_format(out, BATON_TEXT_BYTES,
                        "check %s is pending%s%.90s; batonctl roll check model/%s %s", check->name,
                        colon, said, model->r.name, check->name);
        }
        return;
    }
}

/* --- Rolls.ReportCheck --- */

static struct baton_status find_check(struct call *call, const struct model *model, uint32_t *out)
{
    const char *name = call->request->body.check.check;
    const struct roll_policy *policy = policy_of(model);
    char list[BATON_TEXT_BYTES] = "";
    for (uint32_t i = 0; i < policy->checks_count; i++) {
        if (text_equal(policy->checks[i].name, name)) {
            *out = i;
            return baton_status_ok();
        }
        size_t used = strlen(list);
        text_format(list + used, sizeof(list) - used, "%s%s", i == 0 ? "" : ", ",
                    policy->checks[i].name);
    }
    return call_bad_field(call, "check", "model %s has no check \"%.60s\"; it has: %.100s",
                          model->r.name, name == NULL ? "" : name, list[0] == '\0' ? "none" : list);
}

static struct baton_status check_report(struct call *call, const struct model *model,
                                        const struct check_policy *check)
{
    const struct request_report_check *report = &call->request->body.check;
    uint64_t to_seq = model->active->r.to_seq;
    bool verdict = report->verdict == CHECK_STATE_PASSED || report->verdict == CHECK_STATE_FAILED;
    if (report->seq != 0 && report->seq != to_seq) {
        return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_STALE_REVISION,
                                 "seq: the active roll goes to version %llu, not to %llu",
                                 (unsigned long long)to_seq, (unsigned long long)report->seq);
    }
    if (check->kind == CHECK_KIND_PROBE || check->kind == CHECK_KIND_CHANGE) {
        return call_bad_field(call, "check", "%s is a %s: the controller decides it", check->name,
                              words_get(&words_check_kind, check->kind));
    }
    if (check->kind == CHECK_KIND_MANUAL && !verdict) {
        return call_bad_field(call, "verdict", "%s is Manual: say PASSED or FAILED", check->name);
    }
    if (check->kind == CHECK_KIND_METRIC && verdict) {
        return call_bad_field(call, "verdict", "%s is a Metric: report its value", check->name);
    }
    if (check->kind == CHECK_KIND_METRIC && !is_finite(report->value)) {
        return call_bad_field(call, "value", "not a finite number");
    }
    return baton_status_ok();
}

/* A number for a metric, by whomever. */
static void take_number(struct controller *core, struct roll *roll, uint32_t i,
                        const struct check_policy *check, double value)
{
    struct check_record *record = &roll->r.checks[i];
    record->value = value;
    record->reported_wall_ns = core->wall_ns;
    record->unanswered = false;
    if (!is_good(check, value)) {
        record->state = CHECK_STATE_FAILED;
        roll->good_since_ns[i] = 0;
    } else if (record->state != CHECK_STATE_PASSED) {
        record->state = CHECK_STATE_PENDING; /* Until its window is over. */
    }
}

static void explain_number(struct check_record *record, const struct check_policy *check)
{
    text_format(record->message, sizeof(record->message), "%.6g, wanted %s %.6g", record->value,
                words_get(&words_compare, check->compare), check->threshold);
}

static void fill_report(struct controller *core, struct call *call, struct model *model, uint32_t i)
{
    const struct request_report_check *report = &call->request->body.check;
    const struct check_policy *check = &policy_of(model)->checks[i];
    struct roll *roll = model->active;
    struct check_record *record = take(model, roll, i);
    record->value = report->value;
    record->reported_wall_ns = core->wall_ns;
    text_copy(record->by, sizeof(record->by), call_by(call));
    text_copy(record->message, sizeof(record->message), report->message);
    if (check->kind == CHECK_KIND_MANUAL) {
        record->state = report->verdict;
        return;
    }
    take_number(core, roll, i, check, report->value);
    if (text_is_empty(report->message)) {
        explain_number(record, check);
    }
}

struct baton_status checks_report(struct controller *core, struct call *call)
{
    struct model *model = NULL;
    uint32_t i = 0;
    struct baton_status st = roll_active_of_call(core, call, &model);
    if (baton_ok(&st)) {
        st = find_check(call, model, &i);
    }
    if (baton_ok(&st)) {
        st = check_report(call, model, &policy_of(model)->checks[i]);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    fill_report(core, call, model, i);
    marks_put(core, RECORD_ROLL, model->active);
    model_touch(model);
    const struct check_record *record = &model->active->r.checks[i];
    log_add(core, &call->answer, "CheckReported", call_by(call), "%s: %.150s", record->name,
            record->message);
    return st;
}

/* --- Prometheus --- */

/* A metric that was not decided yet.  One that failed is not asked for again: a value that has become
 * good by itself is no reason to go on. */
static bool is_asked(const struct model *model, uint32_t i)
{
    const struct roll *roll = model->active;
    const struct check_policy *check = &policy_of(model)->checks[i];
    return (mask_of(model, roll) & 1U << i) != 0 && check->query[0] != '\0' &&
           state_of(model, roll, i) == CHECK_STATE_PENDING;
}

static bool is_waiting(const struct model *model)
{
    const struct roll *roll = model->active;
    return roll != NULL && roll->r.state == ROLL_STATE_PROGRESSING &&
           !canary_is_over(model, roll) && roll->r.canary_soaked;
}

size_t view_metric_queries(const struct controller *core, struct metric_query *out, size_t max)
{
    size_t count = 0;
    for (uint32_t m = 0; m < view_models_count(core); m++) {
        const struct model *model = (const struct model *)view_model_at(core, m);
        for (uint32_t i = 0; is_waiting(model) && i < policy_of(model)->checks_count; i++) {
            if (is_asked(model, i) && count < max) {
                const struct check_policy *check = &policy_of(model)->checks[i];
                out[count++] = (struct metric_query){ model->r.name,
                                                      model->active->r.number,
                                                      model->active->r.canary_step,
                                                      model->active->r.to_seq,
                                                      check->name,
                                                      check->query };
            }
        }
    }
    return count;
}

/* No number: the window begins anew with the next one, for nobody knows what happened meanwhile. */
static void take_silence(struct controller *core, struct model *model, uint32_t i, const char *why)
{
    struct check_record *record = take(model, model->active, i);
    char message[BATON_TEXT_BYTES];
    text_format(message, sizeof(message), "no verdict yet: %.200s", why == NULL ? "" : why);
    if (record->unanswered && text_equal(record->message, message)) {
        return;
    }
    record->unanswered = true;
    record->reported_wall_ns = core->wall_ns;
    model->active->good_since_ns[i] = 0;
    text_copy(record->message, sizeof(record->message), message);
    text_copy(record->by, sizeof(record->by), "prometheus");
    marks_put(core, RECORD_ROLL, model->active);
    model_touch(model);
}

void checks_measured(struct controller *core, const struct metric_answer *answer)
{
    struct model *model = model_find(core, answer->model);
    if (model == NULL || !is_waiting(model) || model->active->r.number != answer->roll ||
        model->active->r.canary_step != answer->step) {
        return;
    }
    for (uint32_t i = 0; i < policy_of(model)->checks_count; i++) {
        const struct check_policy *check = &policy_of(model)->checks[i];
        if (!text_equal(check->name, answer->check) || !is_asked(model, i)) {
            continue;
        }
        if (!answer->answered || !is_finite(answer->value)) {
            take_silence(core, model, i, answer->answered ? "it is not finite" : answer->why);
            return;
        }
        struct check_record *record = take(model, model->active, i);
        take_number(core, model->active, i, check, answer->value);
        explain_number(record, check);
        text_copy(record->by, sizeof(record->by), "prometheus");
        marks_put(core, RECORD_ROLL, model->active);
        model_touch(model);
        return;
    }
}
