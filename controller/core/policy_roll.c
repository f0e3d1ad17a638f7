/* policy_roll.c -- the keys of an update policy that say when versions roll, who goes first, and
 * what must be shown on the way; what does not fit together is refused by field. */
#include <string.h>

#include "controller/core/core.h"

enum { SOAK_MS_MAX = 24 * 3600 * 1000, EVERY_MAX = 1000000000 };

static struct baton_status parse_duration(struct call *call, const char *field, int64_t given_ms,
                                          uint64_t *out_ms)
{
    if (given_ms < 0 || given_ms > SOAK_MS_MAX) {
        return call_bad_field(call, field, "%lld ms is outside of 0 to 24 h", (long long)given_ms);
    }
    *out_ms = (uint64_t)given_ms;
    return baton_status_ok();
}

static struct baton_status parse_every(struct call *call, enum policy_trigger trigger,
                                       struct roll_policy *out)
{
    const struct roll_spec *spec = &call->request->body.apply.roll;
    bool needed = trigger == POLICY_TRIGGER_INTERVAL || trigger == POLICY_TRIGGER_MAX_LAG;
    if (!needed && (spec->every_n != 0 || !text_is_empty(spec->every_unit))) {
        return call_bad_field(call, "spec.update.every",
                              "only trigger Interval or MaxLag counts; leave it out");
    }
    if (!needed) {
        return baton_status_ok();
    }
    if (spec->every_n == 0 || spec->every_n > EVERY_MAX) {
        return call_bad_field(call, "spec.update.every.n", "%llu is outside of 1 to %d",
                              (unsigned long long)spec->every_n, EVERY_MAX);
    }
    uint32_t unit = POLICY_UNIT_PUBLISHES;
    struct baton_status st =
        policy_parse_word(call, "spec.update.every.unit", &words_unit, spec->every_unit, &unit);
    out->every_n = spec->every_n;
    out->every_unit = (enum policy_unit)unit;
    return st;
}

struct baton_status policy_check_order(struct call *call, const char *field, const char *list)
{
    if (strlen(list) >= BATON_PATH_BYTES) {
        return call_bad_field(call, field, "longer than %d characters", BATON_PATH_BYTES - 1);
    }
    for (const char *at = list; *at != '\0';) {
        char name[BATON_NAME_BYTES];
        size_t length = text_length_until(at, ',');
        size_t kept = length < sizeof(name) ? length : sizeof(name) - 1;
        memcpy(name, at, kept);
        name[kept] = '\0';
        bool last = at[length] == '\0';
        if (length >= sizeof(name) || !text_is_name(name) || (!last && at[length + 1] == '\0')) {
            return call_bad_field(call, field,
                                  "\"%.60s\" is no group's name; use \"MostStale\", \"Name\" or "
                                  "names with commas between",
                                  name);
        }
        at += last ? length : length + 1;
    }
    return baton_status_ok();
}

static struct baton_status parse_order(struct call *call, struct roll_policy *out)
{
    const char *order = call->request->body.apply.roll.order;
    uint32_t number = POLICY_ORDER_MOST_STALE;
    out->order = POLICY_ORDER_MOST_STALE;
    if (text_is_empty(order)) {
        return baton_status_ok();
    }
    if (words_find(&words_order, order, &number)) {
        out->order = (enum policy_order)number;
        return baton_status_ok();
    }
    struct baton_status st = policy_check_order(call, "spec.update.order", order);
    text_copy(out->order_list, sizeof(out->order_list), order);
    return st;
}

static struct baton_status check_numbers(struct call *call, const struct check_spec *spec,
                                         const struct check_policy *check)
{
    bool metric = check->kind == CHECK_KIND_METRIC;
    bool change = check->kind == CHECK_KIND_CHANGE;
    size_t query_bytes = text_is_empty(spec->query) ? 0 : strlen(spec->query);
    if (query_bytes >= sizeof(check->query) || (query_bytes > 0 && !metric)) {
        return call_bad_field(call, "spec.update.checks.query",
                              "%s is no Metric, or its query is longer than %zu bytes", check->name,
                              sizeof(check->query) - 1);
    }
    if (change && spec->max_change == 0 && spec->min_changed == 0) {
        return call_bad_field(call, "spec.update.checks.maxChange",
                              "Change %s must say maxChange, minChanged or both", check->name);
    }
    if (!__builtin_isfinite(spec->max_change) || spec->max_change < 0) {
        return call_bad_field(call, "spec.update.checks.maxChange",
                              "that of %s must be finite and not below 0", check->name);
    }
    if (metric && check->compare == 0) {
        return call_bad_field(call, "spec.update.checks.compare",
                              "Metric %s must say <, <=, > or >=", check->name);
    }
    if (!__builtin_isfinite(spec->threshold) || !__builtin_isfinite(spec->tolerance) ||
        spec->tolerance < 0) {
        return call_bad_field(
            call, "spec.update.checks",
            "threshold and tolerance of %s must be finite, the latter not below 0", check->name);
    }
    return baton_status_ok();
}

static struct baton_status parse_check(struct call *call, const struct check_spec *spec,
                                       struct check_policy *out)
{
    uint32_t kind = 0;
    uint32_t compare = 0;
    if (!text_is_name(spec->name)) {
        return call_bad_field(call, "spec.update.checks.name", "\"%.60s\" is not a name",
                              spec->name == NULL ? "" : spec->name);
    }
    text_copy(out->name, sizeof(out->name), spec->name);
    struct baton_status st =
        policy_parse_word(call, "spec.update.checks.kind", &words_check_kind,
                          text_is_empty(spec->kind) ? "none" : spec->kind, &kind);
    if (baton_ok(&st)) {
        st = policy_parse_word(call, "spec.update.checks.compare", &words_compare, spec->compare,
                               &compare);
    }
    if (baton_ok(&st)) {
        st = parse_duration(call, "spec.update.checks.window", spec->window_ms, &out->window_ms);
    }
    out->kind = (enum check_kind)kind;
    out->compare = (enum check_compare)compare;
    out->threshold = spec->threshold;
    out->tolerance = spec->tolerance;
    out->max_change = spec->max_change;
    out->min_changed = spec->min_changed;
    if (baton_ok(&st)) {
        st = check_numbers(call, spec, out);
    }
    text_copy(out->query, sizeof(out->query), baton_ok(&st) ? spec->query : NULL);
    return st;
}

/* Place of the check in the policy; checks_count: none. */
static uint32_t find_check(const struct roll_policy *policy, const char *name)
{
    uint32_t i = 0;
    while (i < policy->checks_count && !text_equal(policy->checks[i].name, name)) {
        i++;
    }
    return i;
}

static struct baton_status parse_checks(struct call *call, struct roll_policy *out)
{
    const struct roll_spec *spec = &call->request->body.apply.roll;
    if (spec->checks_count > BATON_CHECKS_MAX) {
        return call_bad_field(call, "spec.update.checks", "%zu checks; a model has at most %d",
                              spec->checks_count, BATON_CHECKS_MAX);
    }
    for (size_t i = 0; i < spec->checks_count; i++) {
        struct baton_status st = parse_check(call, &spec->checks[i], &out->checks[i]);
        if (baton_ok(&st) && find_check(out, out->checks[i].name) < out->checks_count) {
            st = call_bad_field(call, "spec.update.checks.name", "two checks are called %s",
                                out->checks[i].name);
        }
        if (!baton_ok(&st)) {
            return st;
        }
        out->checks_count++;
    }
    return baton_status_ok();
}

static struct baton_status parse_step_checks(struct call *call, const struct canary_spec *spec,
                                             const struct roll_policy *policy,
                                             struct canary_step *out)
{
    for (size_t i = 0; i < spec->checks_count; i++) {
        uint32_t place = find_check(policy, spec->checks[i]);
        if (place == policy->checks_count) {
            return call_bad_field(call, "spec.update.canary.checks",
                                  "spec.update.checks has no \"%.60s\"", spec->checks[i]);
        }
        out->checks |= 1U << place;
    }
    return baton_status_ok();
}

static struct baton_status parse_step(struct call *call, const struct canary_spec *spec,
                                      const struct roll_policy *policy, struct canary_step *out)
{
    if (!policy_read_groups(spec->groups, &out->groups, &out->groups_is_percent)) {
        return call_bad_field(call, "spec.update.canary.groups",
                              "\"%.40s\" is neither a number of groups (at least 1) nor a "
                              "percentage (1%% to 100%%)",
                              spec->groups == NULL ? "" : spec->groups);
    }
    struct baton_status st =
        parse_duration(call, "spec.update.canary.soak", spec->soak_ms, &out->soak_ms);
    out->hold = spec->hold;
    return baton_ok(&st) ? parse_step_checks(call, spec, policy, out) : st;
}

static struct baton_status check_steps(struct call *call, const struct roll_policy *policy)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < policy->canary_count; i++) {
        const struct canary_step *step = &policy->canary[i];
        bool same_kind = i > 0 && step->groups_is_percent == step[-1].groups_is_percent;
        used |= step->checks;
        if (same_kind && step->groups < step[-1].groups) {
            return call_bad_field(call, "spec.update.canary.groups",
                                  "step %u has fewer groups than the step before; they count from "
                                  "the roll's start",
                                  i + 1);
        }
    }
    for (uint32_t i = 0; i < policy->checks_count; i++) {
        if ((used & 1U << i) == 0) {
            return call_bad_field(call, "spec.update.checks",
                                  "no canary step names %s, so it would never be looked at",
                                  policy->checks[i].name);
        }
    }
    return baton_status_ok();
}

static struct baton_status parse_canary(struct call *call, struct roll_policy *out)
{
    const struct roll_spec *spec = &call->request->body.apply.roll;
    if (spec->canary_count > BATON_CANARY_STEPS_MAX) {
        return call_bad_field(call, "spec.update.canary", "%zu steps; a roll has at most %d",
                              spec->canary_count, BATON_CANARY_STEPS_MAX);
    }
    for (size_t i = 0; i < spec->canary_count; i++) {
        struct baton_status st = parse_step(call, &spec->canary[i], out, &out->canary[i]);
        if (!baton_ok(&st)) {
            return st;
        }
        out->canary_count++;
    }
    return check_steps(call, out);
}

static struct baton_status parse_times(struct call *call, const struct update_policy *policy,
                                       struct roll_policy *out)
{
    const struct roll_spec *spec = &call->request->body.apply.roll;
    uint32_t action = POLICY_PROGRESS_REPORT;
    struct baton_status st = policy_parse_word(
        call, "spec.update.progressAction", &words_progress_action, spec->progress_action, &action);
    out->progress_action = (enum policy_progress_action)action;
    if (baton_ok(&st)) {
        st = parse_duration(call, "spec.update.soak", spec->soak_ms, &out->soak_ms);
    }
    if (baton_ok(&st) && out->soak_ms >= policy->progress_deadline_ms) {
        st = call_bad_field(call, "spec.update.soak",
                            "%llu ms is not below progressDeadline (%llu ms): every roll would be "
                            "late",
                            (unsigned long long)out->soak_ms,
                            (unsigned long long)policy->progress_deadline_ms);
    }
    return st;
}

struct baton_status policy_parse_roll(struct call *call, struct update_policy *out)
{
    struct roll_policy *roll = &out->roll;
    struct baton_status st = parse_every(call, out->trigger, roll);
    if (baton_ok(&st)) {
        st = parse_order(call, roll);
    }
    if (baton_ok(&st)) {
        st = parse_times(call, out, roll);
    }
    if (baton_ok(&st)) {
        st = parse_checks(call, roll);
    }
    if (baton_ok(&st) && out->strategy == POLICY_STRATEGY_BARRIER &&
        call->request->body.apply.roll.canary_count != 0) {
        st = call_bad_field(call, "spec.update.canary",
                            "strategy Barrier swaps all groups together; it has no steps");
    }
    return baton_ok(&st) ? parse_canary(call, roll) : st;
}

static bool checks_equal(const struct check_policy *a, const struct check_policy *b)
{
    return text_equal(a->name, b->name) && a->kind == b->kind && a->compare == b->compare &&
           memcmp(&a->threshold, &b->threshold, sizeof(a->threshold)) == 0 &&
           a->window_ms == b->window_ms &&
           memcmp(&a->tolerance, &b->tolerance, sizeof(a->tolerance)) == 0 &&
           memcmp(&a->max_change, &b->max_change, sizeof(a->max_change)) == 0 &&
           a->min_changed == b->min_changed && text_equal(a->query, b->query);
}

static bool steps_equal(const struct canary_step *a, const struct canary_step *b)
{
    return a->groups == b->groups && a->groups_is_percent == b->groups_is_percent &&
           a->soak_ms == b->soak_ms && a->checks == b->checks && a->hold == b->hold;
}

bool policy_roll_equal(const struct roll_policy *a, const struct roll_policy *b)
{
    bool equal = a->every_n == b->every_n && a->every_unit == b->every_unit &&
                 a->order == b->order && text_equal(a->order_list, b->order_list) &&
                 a->progress_action == b->progress_action && a->soak_ms == b->soak_ms &&
                 a->checks_count == b->checks_count && a->canary_count == b->canary_count;
    for (uint32_t i = 0; equal && i < a->checks_count; i++) {
        equal = checks_equal(&a->checks[i], &b->checks[i]);
    }
    for (uint32_t i = 0; equal && i < a->canary_count; i++) {
        equal = steps_equal(&a->canary[i], &b->canary[i]);
    }
    return equal;
}

static void print_check(struct fingerprint *print, const struct check_spec *check)
{
    fingerprint_add_text(print, check->name);
    fingerprint_add_text(print, check->kind);
    fingerprint_add_text(print, check->compare);
    fingerprint_add_bytes(print, &check->threshold, sizeof(check->threshold));
    fingerprint_add_number(print, (uint64_t)check->window_ms);
    fingerprint_add_bytes(print, &check->tolerance, sizeof(check->tolerance));
    fingerprint_add_bytes(print, &check->max_change, sizeof(check->max_change));
    fingerprint_add_number(print, check->min_changed);
    fingerprint_add_text(print, check->query);
}

static void print_step(struct fingerprint *print, const struct canary_spec *step)
{
    fingerprint_add_text(print, step->groups);
    fingerprint_add_number(print, (uint64_t)step->soak_ms);
    for (size_t i = 0; i < step->checks_count; i++) {
        fingerprint_add_text(print, step->checks[i]);
    }
    fingerprint_add_number(print, step->hold);
}

void policy_roll_print(struct fingerprint *print, const struct roll_spec *spec)
{
    fingerprint_add_number(print, spec->every_n);
    fingerprint_add_text(print, spec->every_unit);
    fingerprint_add_text(print, spec->order);
    fingerprint_add_text(print, spec->progress_action);
    fingerprint_add_number(print, (uint64_t)spec->soak_ms);
    for (size_t i = 0; i < spec->checks_count; i++) {
        print_check(print, &spec->checks[i]);
    }
    for (size_t i = 0; i < spec->canary_count; i++) {
        print_step(print, &spec->canary[i]);
    }
}
