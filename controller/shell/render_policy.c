/* render_policy.c -- the part of an update policy that says when and how versions roll; and what a
 * roll's checks and history say.  See render.h. */
#include "api/base/clock.h"
#include "api/wire/wire.h"
#include "controller/core/words.h"
#include "controller/shell/render.h"

static Google__Protobuf__Duration *duration(void *root, uint64_t ms)
{
    return ms != 0 ? baton_wire_duration(root, ms * BATON_NS_PER_MS) : NULL;
}

static Baton__V1__Check *render_check(const struct check_policy *check, void *root)
{
    Baton__V1__Check *message = baton_wire_part(root, &baton__v1__check__descriptor);
    message->name = baton_wire_text(root, check->name);
    message->kind = baton_wire_text(root, words_get(&words_check_kind, check->kind));
    message->compare = baton_wire_text(root, words_get(&words_compare, check->compare));
    message->threshold = check->threshold;
    message->window = duration(root, check->window_ms);
    message->tolerance = check->tolerance;
    message->max_change = check->max_change;
    message->min_changed = check->min_changed;
    message->query = baton_wire_text(root, check->query);
    return message;
}

static Baton__V1__CanaryStep *render_step(const struct roll_policy *policy,
                                          const struct canary_step *step, void *root)
{
    Baton__V1__CanaryStep *message = baton_wire_part(root, &baton__v1__canary_step__descriptor);
    message->groups =
        baton_wire_textf(root, "%u%s", step->groups, step->groups_is_percent ? "%" : "");
    message->soak = duration(root, step->soak_ms);
    message->hold = step->hold;
    message->checks = baton_wire_take(root, policy->checks_count, sizeof(*message->checks));
    for (uint32_t i = 0; i < policy->checks_count; i++) {
        if ((step->checks & 1U << i) != 0) {
            message->checks[message->n_checks++] = baton_wire_text(root, policy->checks[i].name);
        }
    }
    return message;
}

static void render_every(const struct roll_policy *policy, Baton__V1__UpdatePolicy *message,
                         void *root)
{
    if (policy->every_n == 0) {
        return;
    }
    message->every = baton_wire_part(root, &baton__v1__trigger_every__descriptor);
    message->every->n = policy->every_n;
    message->every->unit = baton_wire_text(root, words_get(&words_unit, policy->every_unit));
}

void render_policy_roll(const struct roll_policy *policy, Baton__V1__UpdatePolicy *message,
                        void *root)
{
    const char *order =
        policy->order_list[0] != '\0' ? policy->order_list : words_get(&words_order, policy->order);
    render_every(policy, message, root);
    message->order = baton_wire_text(root, order);
    message->progress_action =
        baton_wire_text(root, words_get(&words_progress_action, policy->progress_action));
    message->soak = duration(root, policy->soak_ms);
    message->n_checks = policy->checks_count;
    message->checks = baton_wire_take(root, policy->checks_count, sizeof(*message->checks));
    for (uint32_t i = 0; i < policy->checks_count; i++) {
        message->checks[i] = render_check(&policy->checks[i], root);
    }
    message->n_canary = policy->canary_count;
    message->canary = baton_wire_take(root, policy->canary_count, sizeof(*message->canary));
    for (uint32_t i = 0; i < policy->canary_count; i++) {
        message->canary[i] = render_step(policy, &policy->canary[i], root);
    }
}

Google__Protobuf__Duration *render_measured(void *root, uint64_t ns)
{
    return ns != 0 ? baton_wire_duration(root, ns) : NULL;
}

void render_convergence(const struct convergence *convergence, Baton__V1__ModelStatus *message,
                        void *root)
{
    message->will_not_converge = convergence->will_not;
    message->steady_lag = convergence->steady_lag;
    message->needs_max_unavailable = convergence->needs_max_unavailable;
    message->roll_interval = render_measured(root, convergence->interval_ns);
    message->swap_time = render_measured(root, convergence->swap_ns);
    message->convergence_message = baton_wire_text(root, convergence->message);
}

static Baton__V1__RollCheck *render_roll_check(const struct check_record *check, void *root)
{
    Baton__V1__RollCheck *message = baton_wire_part(root, &baton__v1__roll_check__descriptor);
    message->name = baton_wire_text(root, check->name);
    message->verdict = (Baton__V1__CheckVerdict)check->state;
    message->value = check->value;
    message->message = baton_wire_text(root, check->message);
    message->by = baton_wire_text(root, check->by);
    message->reported_at = baton_wire_timestamp(root, check->reported_wall_ns);
    return message;
}

static Baton__V1__RollVerb *render_verb(const struct verb_record *verb, void *root)
{
    Baton__V1__RollVerb *message = baton_wire_part(root, &baton__v1__roll_verb__descriptor);
    message->verb = baton_wire_text(root, verb->verb);
    message->by = baton_wire_text(root, verb->by);
    message->reason = baton_wire_text(root, verb->reason);
    message->at = baton_wire_timestamp(root, verb->at_wall_ns);
    return message;
}

void render_roll_course(const struct roll_record *roll, const struct roll_status *status,
                        Baton__V1__Roll *message, void *root)
{
    message->canary_steps = status->canary_steps;
    message->canary_step = status->canary_steps != 0 ? roll->canary_step + 1 : 0;
    message->canary_wait =
        baton_wire_text(root, words_get(&words_canary_wait, status->canary_wait));
    message->canary_message = baton_wire_text(root, status->canary_message);
    message->convergence_message = baton_wire_text(root, status->convergence_message);
    message->promoted = roll->promoted;
    message->order = baton_wire_text(root, roll->order_list);
    message->checks = baton_wire_take(root, roll->checks_count, sizeof(*message->checks));
    for (uint32_t i = 0; i < roll->checks_count; i++) {
        if (roll->checks[i].name[0] != '\0') {
            message->checks[message->n_checks++] = render_roll_check(&roll->checks[i], root);
        }
    }
    message->n_verbs = roll->verbs_count;
    message->verbs = baton_wire_take(root, roll->verbs_count, sizeof(*message->verbs));
    for (uint32_t i = 0; i < roll->verbs_count; i++) {
        message->verbs[i] = render_verb(&roll->verbs[i], root);
    }
}
