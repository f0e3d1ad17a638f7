/* settle.c -- after an event: brings every touched model to rest, and does what is due. */
#include "controller/core/core.h"
#include "controller/core/fleet.h"
#include "controller/core/text.h"

enum { HOUSEKEEPING_S = 60, ROUNDS_MAX = 8 + BATON_CANARY_STEPS_MAX };

static void update_target(struct controller *core, const struct model *model, struct group *group)
{
    uint64_t target = group_target(core, model, group);
    if (target != group->r.target_seq) {
        group->r.target_seq = target;
        marks_put(core, RECORD_GROUP, group);
        goals_touch_group(core, group);
    }
}

static void update_groups(struct controller *core, struct model *model)
{
    if (model->all_touched) {
        groups_enlist_all(core, model);
    }
    for (struct group *group = model->touched_first; group != NULL; group = group->touched_next) {
        update_target(core, model, group);
        budget_recount(core, model, group);
    }
    model->max_unavailable = budget_limit(core, model);
    if (loss_is_mass(model) != model->mass_lost) { /* All groups wait for that, or no longer. */
        model->mass_lost = !model->mass_lost;
        groups_enlist_all(core, model);
    }
}

static void issue_tickets(struct controller *core, struct model *model)
{
    for (struct group *group = model->touched_first; group != NULL; group = group->touched_next) {
        order_update(core, model, group);
    }
    tickets_issue(core, model);
}

/* Watches hear of groups whose reason to wait changed by what happened to others. */
static void show_group(struct controller *core, const struct model *model, struct group *group)
{
    struct conditions now;
    enum blocked_reason blocked = blocked_reason_of(core, model, group);
    conditions_of_group(core, group, &now);
    bool changed = conditions_note(&group->conditions, &now, core->wall_ns);
    if (changed || blocked != group->blocked) {
        group->blocked = blocked;
        marks_change(core, RECORD_GROUP, group);
    }
}

static void show_groups(struct controller *core, struct model *model)
{
    struct group *next;
    for (struct group *group = model->touched_first; group != NULL; group = next) {
        next = group->touched_next;
        group->touched = false;
        group->touched_next = NULL;
        show_group(core, model, group);
    }
    model->touched_first = NULL;
}

static void show_model(struct controller *core, struct model *model)
{
    struct conditions now;
    conditions_of_model(core, model, &now);
    struct fingerprint print = fingerprint_of(model->groups_count);
    fingerprint_add_number(&print, model->groups_counted);
    fingerprint_add_number(&print, model->groups_converged);
    fingerprint_add_number(&print, model->groups_out);
    bool changed = conditions_note(&model->conditions, &now, core->wall_ns);
    if (changed || print.a != model->counts_shown) {
        model->counts_shown = print.a;
        marks_change(core, RECORD_MODEL, model);
    }
    if (model->active != NULL) {
        marks_change(core, RECORD_ROLL, model->active);
    }
}

static void settle_model(struct controller *core, struct model *model)
{
    for (int round = 0; model->touched; round++) {
        baton_assert(round < ROUNDS_MAX);
        model->touched = false;
        model->due_ns = 0;
        update_groups(core, model);
        trigger_settle(core, model);
        late_settle(core, model);
        if (model->touched) { /* A roll began: what is done was counted for the one before. */
            continue;
        }
        barrier_settle(core, model);
        soak_settle(core, model);
        roll_settle(core, model);
        if (!model->touched) {
            issue_tickets(core, model);
        }
    }
    history_measure(core, model);
    converge_settle(core, model);
    order_show(core, model);
    show_groups(core, model);
    show_model(core, model);
    waits_settle(core, model);
}

void settle(struct controller *core)
{
    floors_settle(core);
    staleness_note(core);
    history_settle(core);
    for (uint32_t i = 0; i < core->models.count; i++) {
        struct model *model = core->models.objects[i];
        if (model->touched) {
            settle_model(core, model);
        }
    }
}

static void retry_groups(struct controller *core)
{
    if (!wake_is_due(core, &core->retry_due_ns)) {
        return;
    }
    for (uint32_t i = 0; i < core->groups.count; i++) {
        struct group *group = core->groups.objects[i];
        if (group->retry_ns == 0) {
            continue;
        }
        if (core->now_ns < group->retry_ns) {
            wake_first(core, &core->retry_due_ns, group->retry_ns);
            continue;
        }
        group->retry_ns = 0;
        group_touch(core, group);
    }
}

static void check_barriers(struct controller *core)
{
    for (uint32_t i = 0; i < core->models.count; i++) {
        struct model *model = core->models.objects[i];
        if (model->barrier == NULL) {
            continue;
        }
        if (core->now_ns < model->barrier->barrier_due_ns) {
            wake_at(core, model->barrier->barrier_due_ns);
        } else {
            model->touched = true; /* Its time is over; nothing about its groups changed. */
        }
    }
}

static void check_rolls(struct controller *core)
{
    for (uint32_t i = 0; i < core->models.count; i++) {
        struct model *model = core->models.objects[i];
        roll_check_deadline(core, model);
        if (model->due_ns == 0) {
            continue;
        }
        if (core->now_ns >= model->due_ns) {
            model->due_ns = 0;
            model_touch(model);
        } else {
            wake_at(core, model->due_ns);
        }
    }
}

static void expire_leases(struct controller *core)
{
    if (!wake_is_due(core, &core->leases_due_ns)) {
        return;
    }
    sessions_expire(core);
    slots_expire(core);
}

void settle_timers(struct controller *core, bool heard)
{
    if (core->now_ns < core->wake_ns) {
        return;
    }
    core->wake_ns = UINT64_MAX;
    if (heard) {
        agents_expire(core);
    } else {
        wake_at(core, core->agents_due_ns);
    }
    strays_settle(core);
    retry_groups(core);
    soak_check(core);
    check_rolls(core);
    check_barriers(core);
    if (core->now_ns >= core->housekeep_ns) {
        requests_expire(core);
        versions_expire(core);
        core->housekeep_ns = core->now_ns + HOUSEKEEPING_S * S_NS;
    }
    wake_at(core, core->housekeep_ns);
    expire_leases(core);
    sessions_check_holds(core);
    series_run(core);
}
