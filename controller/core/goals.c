/* goals.c -- what each agent should have: targets, versions to land, and what it may delete.
 *
 * Goals are state of the world: rendered anew after every change that may concern an agent, and
 * sent only when they differ from the last ones.
 *
 * Droppable (rule 7, invariant 6) is a landed digest whose versions are all published and none of
 * them needed: committed, target, from or to of a ticket, or to be landed by a group of that agent
 * (by any group, if the agent is a source of the version); promoted, promoted before, the active
 * roll's, or one of the newest two of its model.  A digest that the store does not know: see strays.c. */
#include <string.h>

#include "controller/core/fleet.h"
#include "controller/core/holders.h"
#include "controller/core/text.h"

enum { NEWEST_KEPT = 2 };

static bool model_keeps(const struct controller *core, const struct model *model,
                        const struct version *version)
{
    uint64_t seq = version->r.seq;
    const struct model_record *r = &model->r;
    if (seq == r->promoted_seq || seq == r->previous_promoted_seq) {
        return true;
    }
    if (model->active != NULL &&
        (seq == model->active->r.to_seq || seq == model->active->r.promoted_seq)) {
        return true;
    }
    uint32_t first = versions_place(core, r->name, 0, "");
    for (uint32_t i = 0; i < NEWEST_KEPT; i++) {
        if (versions_at(core, first + i, r->name) == version) {
            return true;
        }
    }
    return false;
}

static bool group_keeps(const struct controller *core, const struct model *model,
                        const struct group *group, const struct version *version)
{
    const struct group_record *r = &group->r;
    uint64_t seq = version->r.seq;
    if ((r->retired && !group->known) || strcmp(r->model, version->r.model) != 0) {
        return false;
    }
    bool ticketed = r->ticket_open && (r->ticket.from_seq == seq || r->ticket.to_seq == seq);
    return ticketed || seq == r->committed_seq || seq == r->target_seq ||
           seq == group_committed(group) || group_stage(core, model, group) == version;
}

bool agent_is_source(const struct agent *agent, const struct version *version)
{
    for (uint32_t i = 0; i < version->r.sources_count; i++) {
        if (strcmp(version->r.sources[i].agent, agent->r.name) == 0) {
            return true;
        }
    }
    return false;
}

static bool any_group_keeps(const struct controller *core, const struct model *model,
                            const struct version *version)
{
    uint32_t place = groups_first(core, model->r.name);
    for (struct group *group; (group = groups_at(core, place, model->r.name)) != NULL; place++) {
        if (group_keeps(core, model, group, version)) {
            return true;
        }
    }
    return false;
}

bool goals_keep(const struct controller *core, const struct agent *agent,
                const struct version *version)
{
    const struct model *model = model_find(core, version->r.model);
    if (model == NULL || version->r.state != VERSION_STATE_PUBLISHED ||
        model_keeps(core, model, version)) {
        return true;
    }
    for (uint32_t i = 0; i < agent->groups_count; i++) {
        if (group_keeps(core, model, agent->groups[i], version)) {
            return true;
        }
    }
    return agent_is_source(agent, version) &&
           (version->r.pinned || any_group_keeps(core, model, version));
}

/* Whether the agent's i-th landed digest may go. */
static bool is_droppable(struct controller *core, struct agent *agent, uint32_t i)
{
    const struct index *index = &core->versions_digest;
    const char *digest = agent->landed[i];
    bool known = false;
    for (uint32_t place = index_lower_bound(index, digest); place < index->count; place++) {
        const struct version *version = index->objects[place];
        if (strcmp(version->r.digest, digest) != 0) {
            break;
        }
        known = true;
        agent->landed_unknown_ns[i] = 0;
        if (goals_keep(core, agent, version)) {
            return false;
        }
    }
    return known || stray_may_go(core, agent, i);
}

static size_t render_droppable(struct controller *core, struct agent *agent,
                               char (*out)[BATON_DIGEST_TEXT_BYTES])
{
    size_t count = 0;
    agent->landed_due_ns = 0;
    for (uint32_t i = 0; i < agent->landed_count; i++) {
        if (is_droppable(core, agent, i)) {
            memcpy(out[count], agent->landed[i], BATON_DIGEST_TEXT_BYTES);
            count++;
        }
    }
    return count;
}

/* A quarantined version is no target, but while it serves it is what a failed swap goes back to. */
const struct version *group_restore(const struct controller *core, const struct group *group,
                                    const struct version *target)
{
    const struct version *serves = version_find(core, group->r.model, group_committed(group));
    bool ours = serves != NULL && text_equal(serves->r.digest, group->live.committed_digest);
    return ours && serves != target && group_is_available(group) ? serves : NULL;
}

static void render_holders(const struct controller *core, const struct agent *agent,
                           const struct version *const versions[3], struct group_goal *goal)
{
    struct holders *const out[3] = { &goal->target_holders, &goal->stage_holders,
                                     &goal->restore_holders };
    for (size_t i = 0; i < 3; i++) {
        out[i]->count = 0;
        if (versions[i] != NULL) {
            holders_of(core, agent, versions[i], out[i]);
        }
    }
}

static size_t render_groups(const struct controller *core, const struct agent *agent,
                            struct group_goal *out)
{
    size_t count = 0;
    for (uint32_t i = 0; i < agent->groups_count; i++) {
        const struct group *group = agent->groups[i];
        if (!group->known) {
            continue; /* The agent does not lead it any more. */
        }
        const struct model *model = model_find(core, group->r.model);
        struct group_goal *goal = &out[count++];
        *goal = (struct group_goal){ .group = group->r.name,
                                     .model = group->r.model,
                                     .owner_term = group->r.owner_term,
                                     .drain = retire_wants_shut(group),
                                     .sleep = group_sleeps(group) };
        if (model == NULL || group->r.retired) {
            continue;
        }
        goal->sleep_drain_ms = goal->sleep ? sleep_drain_ms(model) : 0;
        const struct version *target =
            version_find(core, model->r.name, group_target(core, model, group));
        const struct version *stage = group_stage(core, model, group);
        const struct version *restore = group_restore(core, group, target);
        goal->target = target == NULL ? NULL : &target->r;
        goal->restore = restore == NULL ? NULL : &restore->r;
        goal->stage = stage == NULL ? NULL : &stage->r;
        render_holders(core, agent, (const struct version *const[3]){ target, stage, restore },
                       goal);
    }
    return count;
}

static void print_holders(struct fingerprint *print, const struct holders *holders)
{
    for (uint32_t i = 0; i < holders->count; i++) {
        fingerprint_add_text(print, holders->items[i].agent);
        fingerprint_add_text(print, holders->items[i].address);
        fingerprint_add_number(print, holders->items[i].last);
    }
}

static uint64_t print_goals(const struct goals *goals)
{
    struct fingerprint print = fingerprint_of(goals->groups_count);
    for (size_t i = 0; i < goals->groups_count; i++) {
        const struct group_goal *goal = &goals->groups[i];
        fingerprint_add_text(&print, goal->group);
        fingerprint_add_text(&print, goal->target == NULL ? "" : goal->target->uid);
        fingerprint_add_text(&print, goal->stage == NULL ? "" : goal->stage->uid);
        fingerprint_add_text(&print, goal->restore == NULL ? "" : goal->restore->uid);
        fingerprint_add_number(&print, goal->owner_term);
        fingerprint_add_number(&print, goal->drain);
        fingerprint_add_number(&print, goal->sleep);
        fingerprint_add_number(&print, goal->sleep_drain_ms);
        print_holders(&print, &goal->target_holders);
        print_holders(&print, &goal->stage_holders);
        print_holders(&print, &goal->restore_holders);
    }
    for (size_t i = 0; i < goals->droppable_count; i++) {
        fingerprint_add_text(&print, goals->droppable[i]);
    }
    for (size_t i = 0; i < goals->follows_count; i++) {
        fingerprint_add_text(&print, goals->follows[i].version->uid);
        print_holders(&print, &goals->follows[i].holders);
    }
    return print.a | 1; /* 0 means: none was sent. */
}

/* Only what an agent says after it took these over tells that they sleep (sleep.c). */
static void note_sleepers(struct agent *agent)
{
    for (uint32_t i = 0; i < agent->groups_count; i++) {
        struct group *group = agent->groups[i];
        if (group->known && group_sleeps(group) && group->sleep_revision == 0) {
            group->sleep_revision = agent->goals_revision;
        }
    }
}

bool goals_render(struct controller *core, struct agent *agent, struct goals *out)
{
    struct group_goal *groups = core->goals_groups + core->out.goals_groups_count;
    char(*droppable)[BATON_DIGEST_TEXT_BYTES] =
        core->goals_droppable + core->out.goals_droppable_count;
    *out = (struct goals){ .epoch = core->epoch, .groups = groups };
    out->groups_count = render_groups(core, agent, groups);
    out->droppable_count = render_droppable(core, agent, droppable);
    out->droppable = (const char(*)[BATON_DIGEST_TEXT_BYTES])droppable;
    out->follows = core->goals_follows + core->out.goals_follows_count;
    out->follows_count =
        follow_render(core, agent, core->goals_follows + core->out.goals_follows_count);
    uint64_t print = print_goals(out);
    if (print == agent->goals_print) {
        note_sleepers(agent);
        return false;
    }
    core->out.goals_groups_count += out->groups_count;
    core->out.goals_droppable_count += out->droppable_count;
    core->out.goals_follows_count += out->follows_count;
    agent->goals_print = print;
    /* Above any that was sent before, also by an earlier controller. */
    agent->goals_revision =
        core->revision > agent->goals_revision ? core->revision : agent->goals_revision + 1;
    out->revision = agent->goals_revision;
    note_sleepers(agent);
    return true;
}
