/* retention.c -- which records of versions and rolls are kept.
 *
 * A version record is kept while a group may need it (committed, target, ticket), while its model
 * may (newest, promoted, promoted before, the active roll's), or while it is among the newest
 * 'versions_kept' of its model, or while an operator pins it.  Ended rolls: the newest 'rolls_kept' of each model. */
#include <string.h>

#include "api/base/mutant.h"
#include "controller/core/core.h"

static bool group_needs(const struct group *group, uint64_t seq)
{
    const struct group_record *r = &group->r;
    if (r->retired || MUTANT(VERSION_FORGOTTEN)) {
        return false;
    }
    bool ticketed = r->ticket_open && (r->ticket.from_seq == seq || r->ticket.to_seq == seq);
    return ticketed || r->committed_seq == seq || r->target_seq == seq ||
           (group->known && group->live.committed_seq == seq);
}

static bool model_needs(const struct model *model, uint64_t seq)
{
    const struct model_record *r = &model->r;
    return r->newest_seq == seq || r->promoted_seq == seq || r->previous_promoted_seq == seq ||
           (model->active != NULL &&
            (model->active->r.to_seq == seq || model->active->r.promoted_seq == seq));
}

static bool is_needed(const struct controller *core, const struct model *model, uint64_t seq)
{
    if (model_needs(model, seq)) {
        return true;
    }
    uint32_t place = groups_first(core, model->r.name);
    for (struct group *group; (group = groups_at(core, place, model->r.name)) != NULL; place++) {
        if (group_needs(group, seq)) {
            return true;
        }
    }
    return false;
}

void versions_prune(struct controller *core, struct model *model)
{
    uint32_t place = versions_place(core, model->r.name, 0, "");
    uint32_t kept = 0;
    struct version *version;
    while ((version = versions_at(core, place, model->r.name)) != NULL && version->r.seq != 0) {
        kept++;
        if (version->r.pinned || kept <= core->limits.versions_kept ||
            is_needed(core, model, version->r.seq)) {
            place++;
        } else {
            version_remove(core, version); /* The next one moves to this place. */
        }
    }
}

static void remove_roll(struct controller *core, struct roll *roll)
{
    baton_assert(roll->r.ended_wall_ns != 0);
    index_remove(&core->rolls, roll);
    marks_remove(core, RECORD_ROLL, roll);
}

void rolls_prune(struct controller *core, struct model *model)
{
    uint32_t place = rolls_place(core, model->r.name, 0);
    uint32_t kept = 0;
    struct roll *roll;
    while ((roll = rolls_at(core, place, model->r.name)) != NULL) {
        kept++;
        if (kept <= core->limits.rolls_kept || roll == model->active || barrier_needs(core, roll)) {
            place++;
        } else {
            remove_roll(core, roll);
        }
    }
}

static struct roll *oldest_ended(const struct controller *core)
{
    struct roll *oldest = NULL;
    for (uint32_t i = 0; i < core->rolls.count; i++) {
        struct roll *roll = core->rolls.objects[i];
        bool ended = roll->r.ended_wall_ns != 0 && !barrier_needs(core, roll);
        if (ended && (oldest == NULL || roll->r.ended_wall_ns < oldest->r.ended_wall_ns)) {
            oldest = roll;
        }
    }
    return oldest;
}

/* One place stays free at all times: a slot that is given up here can be taken in the next step
 * only, because its record is still named by this step's actions. */
bool rolls_make_room(struct controller *core)
{
    if (core->rolls_table.count + 1 >= core->limits.rolls) {
        struct roll *roll = oldest_ended(core);
        if (roll != NULL) {
            remove_roll(core, roll);
        }
    }
    return !table_is_full(&core->rolls_table);
}

void versions_expire(struct controller *core)
{
    for (uint32_t i = core->versions.count; i > 0; i--) {
        struct version *version = core->versions.objects[i - 1];
        bool old = core->wall_ns > version->r.created_wall_ns &&
                   core->wall_ns - version->r.created_wall_ns > core->limits.open_kept_ms * MS_NS;
        if (version->r.state == VERSION_STATE_PUBLISHED || !old) {
            continue;
        }
        struct object_ref ref = ref_version(version);
        log_warn(core, &ref, "VersionDropped", "it was not published within %llu s",
                 (unsigned long long)(core->limits.open_kept_ms / 1000));
        version_remove(core, version);
    }
}
