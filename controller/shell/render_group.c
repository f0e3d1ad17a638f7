/* render_group.c -- groups, engines, tickets, swaps and rolls; see render.h. */
#include "controller/shell/render.h"

#include "api/base/clock.h"
#include "api/wire/wire.h"
#include "controller/core/words.h"

/* A group's part has at most about 550 bytes, or 130 without texts and phases. */
enum { ROLL_GROUPS_IN_FULL = 1024, ROLL_GROUPS_MAX = 8000 };
_Static_assert(ROLL_GROUPS_IN_FULL * 550 < BATON_MESSAGE_BYTES_MAX, "a roll is one message");
_Static_assert(ROLL_GROUPS_MAX * 130 < BATON_MESSAGE_BYTES_MAX, "the largest one, too");

Baton__V1__RouterHook **render_hooks(const struct swap_policy *policy, size_t *count, void *root)
{
    Baton__V1__RouterHook **hooks = baton_wire_take(root, policy->hooks_count, sizeof(*hooks));
    *count = policy->hooks_count;
    for (uint32_t i = 0; i < policy->hooks_count; i++) {
        hooks[i] = baton_wire_part(root, &baton__v1__router_hook__descriptor);
        hooks[i]->when = baton_wire_text(root, words_get(&words_hook_when, policy->hooks[i].when));
        hooks[i]->url = baton_wire_text(root, policy->hooks[i].url);
        hooks[i]->deadline =
            baton_wire_duration(root, policy->hooks[i].deadline_ms * BATON_NS_PER_MS);
    }
    return hooks;
}

const char *render_mode(enum policy_mode mode)
{
    return words_get(&words_swap_mode,
                     mode == POLICY_MODE_LIVE ? POLICY_MODE_LIVE : POLICY_MODE_PAUSE);
}

static Baton__V1__SwapPolicy *render_swap_policy(const struct swap_policy *policy, void *root)
{
    Baton__V1__SwapPolicy *message = baton_wire_part(root, &baton__v1__swap_policy__descriptor);
    message->in_flight = baton_wire_text(root, words_get(&words_in_flight, policy->in_flight));
    message->kv = baton_wire_text(root, words_get(&words_kv, policy->kv));
    message->arrivals = baton_wire_text(root, words_get(&words_arrivals, policy->arrivals));
    message->swap_deadline_ms = policy->swap_deadline_ms;
    message->drain_deadline_ms = policy->drain_deadline_ms;
    message->allow_recreate = policy->allow_recreate;
    message->barrier_deadline_ms = policy->barrier_deadline_ms;
    message->drain_expiry =
        baton_wire_text(root, words_get(&words_drain_expiry, policy->drain_expiry));
    message->mode = baton_wire_text(root, render_mode(policy->mode));
    message->hooks = render_hooks(policy, &message->n_hooks, root);
    return message;
}

Baton__V1__Ticket *render_ticket(const char *group, const struct ticket_record *ticket, void *root)
{
    Baton__V1__Ticket *message = render_new(root, &baton__v1__ticket__descriptor);
    root = root != NULL ? root : message;
    message->uid = baton_wire_text(root, ticket->uid);
    message->number = ticket->number;
    message->epoch = render_epoch(ticket->epoch, root);
    message->owner_term = ticket->owner_term;
    message->group = baton_wire_text(root, group);
    message->from_seq = ticket->from_seq;
    message->from_digest = baton_wire_text(root, ticket->from_digest);
    message->to_seq = ticket->to_seq;
    message->to_digest = baton_wire_text(root, ticket->to_digest);
    message->policy = render_swap_policy(&ticket->policy, root);
    message->issued_at = baton_wire_timestamp(root, ticket->issued_wall_ns);
    message->rejoin = ticket->rejoin;
    message->barrier = ticket->barrier;
    message->resolve = ticket->resolve;
    return message;
}

static Baton__V1__SwapPhases *render_phases(const struct swap_phases *phases, void *root)
{
    Baton__V1__SwapPhases *message = baton_wire_part(root, &baton__v1__swap_phases__descriptor);
    message->queue_ns = phases->queue_ns;
    message->stage_ns = phases->stage_ns;
    message->pause_ns = phases->pause_ns;
    message->apply_ns = phases->apply_ns;
    message->finalize_ns = phases->finalize_ns;
    message->verify_ns = phases->verify_ns;
    message->invalidate_ns = phases->invalidate_ns;
    message->commit_ns = phases->commit_ns;
    message->label_ns = phases->label_ns;
    message->probe_ns = phases->probe_ns;
    message->open_ns = phases->open_ns;
    message->shut_ns = phases->shut_ns;
    message->engine_ns = phases->engine_ns;
    message->journal_ns = phases->journal_ns;
    message->barrier_ns = phases->barrier_ns;
    return message;
}

Baton__V1__SwapRecord *render_swap(const struct swap_record *swap, void *root)
{
    Baton__V1__SwapRecord *message = baton_wire_part(root, &baton__v1__swap_record__descriptor);
    message->ticket_uid = baton_wire_text(root, swap->ticket_uid);
    message->ticket_number = swap->ticket_number;
    message->from_seq = swap->from_seq;
    message->to_seq = swap->to_seq;
    message->outcome = (Baton__V1__SwapOutcome)swap->outcome;
    message->message = baton_wire_text(root, swap->message);
    message->phases = render_phases(&swap->phases, root);
    message->bytes = swap->bytes;
    message->verify_level = (Baton__V1__VerifyLevel)swap->verify_level;
    message->ended_at = baton_wire_timestamp(root, swap->ended_wall_ns);
    message->requests_held = swap->requests_held;
    message->probe_text = baton_wire_text(root, swap->probe_text);
    message->probe_logprob = swap->probe_logprob;
    message->references = swap->references;
    message->references_missed = swap->references_missed;
    message->reference_away = swap->reference_away;
    message->reference_message = baton_wire_text(root, swap->reference_message);
    message->requests_inside = swap->requests_inside;
    message->requests_kept = swap->requests_kept;
    message->requests_aborted = swap->requests_aborted;
    message->drain_expired = swap->drain_expired;
    message->router_not_drained = swap->router_not_drained;
    message->in_flight = baton_wire_text(root, words_get(&words_in_flight, swap->in_flight));
    message->kv = baton_wire_text(root, words_get(&words_kv, swap->kv));
    message->mode = baton_wire_text(root, swap->mode == 0 ? "" : render_mode(swap->mode));
    return message;
}

Baton__V1__Engine *render_engine(const struct group_record *group, const struct engine_info *engine,
                                 void *root)
{
    Baton__V1__Engine *message = baton_wire_part(root, &baton__v1__engine__descriptor);
    message->name = baton_wire_text(root, engine->name);
    message->group = baton_wire_text(root, group->name);
    message->agent = baton_wire_text(root, engine->agent[0] != '\0' ? engine->agent : group->agent);
    message->kind = baton_wire_text(root, engine->kind);
    message->endpoint = baton_wire_text(root, engine->endpoint);
    message->software = baton_wire_text(root, engine->software);
    message->world_size = engine->world_size;
    message->way_in = baton_wire_text(root, engine->way_in);
    message->way_in_reason = baton_wire_text(root, engine->way_in_reason);
    message->incarnation = baton_wire_text(root, engine->incarnation);
    message->label = baton_wire_text(root, engine->label);
    message->gate = baton_wire_text(root, engine->gate);
    message->owner_term = group->owner_term;
    message->recreate = baton_wire_text(root, engine->recreate);
    message->recreates = engine->recreates;
    message->reachable = engine->reachable;
    return message;
}

/* The parts of a group that only its leader's report knows. */
static void render_report(const struct group_record *group, const struct group_report *report,
                          Baton__V1__Group *message, void *root)
{
    message->state_message = baton_wire_text(root, report->message);
    message->staging_seq = report->staging_seq;
    message->staged_bytes = report->staged_bytes;
    message->gate_open = report->gate_open;
    message->verify_level = (Baton__V1__VerifyLevel)report->verify_level;
    message->advisory = report->advisory;
    message->can_swap_live = report->can_swap_live;
    message->live_reason = baton_wire_text(root, report->live_reason);
    message->n_engines = report->engines_count;
    message->engines = baton_wire_take(root, report->engines_count, sizeof(*message->engines));
    for (uint32_t i = 0; i < report->engines_count; i++) {
        message->engines[i] = render_engine(group, &report->engines[i], root);
    }
}

static void render_group_status(const struct controller *core, const struct group_record *group,
                                Baton__V1__Group *message, void *root)
{
    struct group_status status;
    view_group_status(core, group, baton_clock_wall_ns(), &status);
    message->state = (Baton__V1__GroupState)status.state;
    message->committed_seq = status.committed_seq;
    message->committed_digest =
        baton_wire_text(root, status.committed_digest != NULL ? status.committed_digest : "");
    message->staging_bytes = status.staging_bytes;
    message->lag_publishes = status.lag_publishes;
    message->lag_optimizer_steps = status.lag_optimizer_steps;
    message->lag_seconds = status.lag_seconds;
    message->lag_samples = status.lag_samples;
    message->age_seconds = status.age_seconds;
    message->lineage_relation = (Baton__V1__LineageRelation)status.relation;
    message->blocked_reason = (Baton__V1__BlockedReason)status.blocked_reason;
    message->blocked_message = baton_wire_text(root, status.blocked_message);
    message->conditions = render_conditions(&status.conditions, &message->n_conditions, root);
    if (status.report != NULL) {
        render_report(group, status.report, message, root);
    }
}

Baton__V1__Group *render_group(const struct controller *core, const struct group_record *group,
                               void *root)
{
    Baton__V1__Group *message = render_new(root, &baton__v1__group__descriptor);
    root = root != NULL ? root : message;
    message->meta =
        render_meta(&(struct render_meta_facts){ group->name, group->uid, group->revision, 1,
                                                 group->created_wall_ns },
                    root);
    message->model = baton_wire_text(root, group->model);
    message->agent = baton_wire_text(root, group->agent);
    message->cordoned = group->cordoned;
    message->drained = group->drained;
    message->cordon_reason = baton_wire_text(root, group->cordon_reason);
    message->pinned = group->pinned;
    message->pin_reason = baton_wire_text(root, group->pin_reason);
    message->retired = group->retired;
    message->asleep = group->asleep;
    message->sleep_reason = baton_wire_text(root, group->sleep_reason);
    message->target_seq = group->target_seq;
    message->ticket = group->ticket_open ? render_ticket(group->name, &group->ticket, root) : NULL;
    message->last_swap = group->swapped ? render_swap(&group->last_swap, root) : NULL;
    render_group_status(core, group, message, root);
    return message;
}

static Baton__V1__RollGroup *render_roll_group(const struct controller *core,
                                               const struct roll_record *roll,
                                               const struct group_record *group, bool brief,
                                               void *root)
{
    struct roll_group_status status;
    struct group_status whole;
    if (!view_roll_group_status(core, roll, group, &status)) {
        return NULL;
    }
    view_group_status(core, group, baton_clock_wall_ns(), &whole);
    Baton__V1__RollGroup *message = baton_wire_part(root, &baton__v1__roll_group__descriptor);
    message->group = baton_wire_text(root, group->name);
    message->state = (Baton__V1__RollGroupState)status.state;
    message->from_seq = status.from_seq;
    message->blocked_reason = (Baton__V1__BlockedReason)status.blocked_reason;
    message->attempts = status.attempts;
    message->staged_bytes = status.staged_bytes;
    message->staging_bytes = whole.staging_bytes;
    if (!brief) {
        message->blocked_message = baton_wire_text(root, status.blocked_message);
    }
    if (status.swapped_here && !brief) {
        message->phases = render_phases(&group->last_swap.phases, root);
    }
    return message;
}

static void render_roll_groups(const struct controller *core, const struct roll_record *roll,
                               Baton__V1__Roll *message, void *root)
{
    uint32_t first = view_groups_lower_bound(core, roll->model, "");
    uint32_t end = first;
    uint32_t count = view_groups_count(core);
    for (const char *model = roll->model;
         end < count && baton_bytes_equal(baton_bytes_of(view_group_at(core, end)->model),
                                          baton_bytes_of(model));) {
        end++;
    }
    bool brief = end - first > ROLL_GROUPS_IN_FULL;
    bool some = end - first > ROLL_GROUPS_MAX;
    uint32_t room = some ? ROLL_GROUPS_MAX : end - first;
    message->groups = baton_wire_take(root, room, sizeof(*message->groups));
    for (uint32_t i = first; i < end && message->n_groups < room; i++) {
        Baton__V1__RollGroup *part =
            render_roll_group(core, roll, view_group_at(core, i), brief, root);
        bool done =
            part != NULL && part->state == BATON__V1__ROLL_GROUP_STATE__ROLL_GROUP_STATE_DONE;
        if (part != NULL && !(some && done)) {
            message->groups[message->n_groups++] = part;
        }
    }
}

Baton__V1__Roll *render_roll(const struct controller *core, const struct roll_record *roll,
                             bool with_groups, void *root)
{
    struct roll_status status;
    Baton__V1__Roll *message = render_new(root, &baton__v1__roll__descriptor);
    root = root != NULL ? root : message;
    view_roll_status(core, roll, &status);
    const char *name =
        baton_wire_textf(root, "%s-%llu", roll->model, (unsigned long long)roll->number);
    message->meta = render_meta(
        &(struct render_meta_facts){ name, roll->uid, roll->revision, 1, roll->started_wall_ns },
        root);
    message->model = baton_wire_text(root, roll->model);
    message->number = roll->number;
    message->to_seq = roll->to_seq;
    message->promoted_seq = roll->promoted_seq;
    message->state = (Baton__V1__RollState)roll->state;
    message->degraded = roll->degraded;
    message->cause = baton_wire_text(root, words_get(&words_roll_cause, roll->cause));
    message->requested_by = baton_wire_text(root, roll->requested_by);
    message->reason = baton_wire_text(root, roll->reason);
    message->started_at = baton_wire_timestamp(root, roll->started_wall_ns);
    message->ended_at = baton_wire_timestamp(root, roll->ended_wall_ns);
    message->groups_total = status.groups_total;
    message->groups_done = status.groups_done;
    message->groups_swapping = status.groups_swapping;
    message->barrier_stage = (Baton__V1__BarrierStage)roll->barrier_stage;
    message->barrier_tries = roll->barrier_tries;
    message->groups_shut = status.groups_shut;
    render_roll_course(roll, &status, message, root);
    if (with_groups) {
        render_roll_groups(core, roll, message, root);
    }
    return message;
}
