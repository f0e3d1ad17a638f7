/* touch.c -- what settle.c must look at after the event.
 *
 * A group whose own facts changed is touched alone; model_touch() is for what concerns the model, and then all its groups are
 * looked at.  So an event about one group costs the same in a fleet of ten and of ten thousand. */
#include "controller/core/core.h"
#include "controller/core/text.h"

struct model *group_model(const struct controller *core, struct group *group)
{
    if (group->model == NULL) {
        group->model = model_find(core, group->r.model);
    }
    return group->model;
}

struct agent *group_agent(const struct controller *core, const struct group *group)
{
    struct agent *agent = group->agent;
    bool still = agent != NULL && text_equal(agent->r.name, group->r.agent);
    return still ? agent : agent_find(core, group->r.agent);
}

void model_touch(struct model *model)
{
    model->touched = true;
    model->all_touched = true;
}

void group_enlist(struct model *model, struct group *group)
{
    if (!group->touched) {
        group->touched = true;
        group->touched_next = model->touched_first;
        model->touched_first = group;
    }
}

void group_touch(struct controller *core, struct group *group)
{
    struct model *model = group_model(core, group);
    if (model != NULL) {
        model->touched = true;
        group_enlist(model, group);
    }
}

void groups_enlist_all(struct controller *core, struct model *model)
{
    model->all_touched = false;
    uint32_t place = groups_first(core, model->r.name);
    for (struct group *group; (group = groups_at(core, place, model->r.name)) != NULL; place++) {
        group->model = model;
        group_enlist(model, group);
    }
}

void goals_touch_group(struct controller *core, const struct group *group)
{
    goals_touch(core, group_agent(core, group));
    for (const struct follow *follow = group->followers; follow != NULL; follow = follow->next) {
        goals_touch(core, follow->agent);
    }
}

void goals_touch(struct controller *core, struct agent *agent)
{
    if (agent != NULL && !agent->goals_touched) {
        agent->goals_touched = true;
        agent->goals_next = core->goals_touched_first;
        core->goals_touched_first = agent;
    }
}
