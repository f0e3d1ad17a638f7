/* late.c -- groups that are new to the store after their model's last roll: nobody would bring them to its version.
 *
 * A node that was replaced may come with an older version.  One that does not serve joins at what its model promoted (groups.c),
 * a pinned one at its own; one that serves is brought there by a roll of that version, which all others are on already: it has its
 * ticket as any other group, within the budget, and shows why it waits.
 *
 * A model without a roll in this store says nothing about what its groups should serve: what the store knows was told by agents
 * (rebuild.c), and a group that is new to it may only not have restated yet. */
#include "controller/core/fleet.h"
#include "controller/core/text.h"

void late_note(const struct controller *core, struct group *group)
{
    const struct model *model = model_find(core, group->r.model);
    group->r.late = model != NULL && model->r.last_roll_number != 0;
}

bool late_is_behind(const struct controller *core, const struct model *model,
                    const struct group *group)
{
    uint64_t promoted = group->r.late ? quarantine_fallback(core, model) : 0;
    uint64_t committed = group_committed(group);
    return promoted != 0 && committed != 0 && committed <= promoted &&
           version_find(core, model->r.name, promoted) != NULL &&
           !group_is_on(core, group, promoted);
}

bool late_joins(const struct controller *core, const struct model *model, const struct group *group)
{
    if (group->r.pinned || !late_is_behind(core, model, group)) {
        return false;
    }
    /* Of one that nobody heard of yet: what was stored. */
    return group->known ? !group_is_available(group)
                        : group->r.target_seq == quarantine_fallback(core, model);
}

/* A roll concerns it as any other group, whatever comes of it. */
static void forget(struct controller *core, struct group *group)
{
    group->r.late = false;
    marks_put(core, RECORD_GROUP, group);
}

static bool may_roll(struct controller *core, const struct model *model)
{
    bool stopped = model->r.held || model->r.suspended || core->cluster.floors_pending;
    return model->active == NULL && !stopped && rolls_make_room(core);
}

static void settle_group(struct controller *core, struct model *model, struct group *group)
{
    bool stays = group->r.cordoned || group->r.pinned || group->r.asleep || group->r.ticket_open;
    if (!late_is_behind(core, model, group)) {
        forget(core, group);
    } else if (!stays && group_is_available(group) && may_roll(core, model)) {
        char reason[BATON_TEXT_BYTES];
        text_format(reason, sizeof(reason), "group %s is new and catches up", group->r.name);
        struct roll_request request = { .cause = ROLL_CAUSE_START, .by = "", .reason = reason };
        (void)roll_begin(core, model, quarantine_fallback(core, model), &request);
    }
}

void late_settle(struct controller *core, struct model *model)
{
    for (struct group *group = model->touched_first; group != NULL; group = group->touched_next) {
        if (group->r.late && group->known && model->active == NULL) {
            settle_group(core, model, group);
        }
    }
}
