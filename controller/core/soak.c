/* soak.c -- min-ready time: a group that a roll swapped keeps its slot of the budget until it has
 * served the new version without a break for the policy's soak.
 *
 * That it soaks is stored; since when is not: it is monotonic time of this life, so a jump of the
 * wall clock cannot end a soak early, and after a restart of the controller the soak begins anew. A
 * roll that takes the version back does not wait for it. */
#include "controller/core/core.h"

void soak_forget(struct controller *core, struct group *group)
{
    if (group->soak_key[0] != '\0') {
        index_remove(&core->soaking, group);
        group->soak_key[0] = '\0';
    }
}

/* Earliest first, so that a soak that is over is found without a look at the others. */
static void note_since(struct controller *core, const struct model *model, struct group *group,
                       uint64_t since_ns)
{
    if (group->soak_since_ns != since_ns) {
        soak_forget(core, group);
        group->soak_since_ns = since_ns;
    }
    if (since_ns != 0 && group->soak_key[0] == '\0') {
        order_key_write_turn(group->soak_key, model->r.name, 0, UINT64_MAX - since_ns,
                             group->r.name);
        index_insert(&core->soaking, group);
    }
}

void soak_begin(struct controller *core, const struct model *model, struct group *group)
{
    group->r.soaking = model->r.policy.roll.soak_ms != 0;
    note_since(core, model, group, 0);
}

static void end(struct controller *core, struct model *model, struct group *group)
{
    group->r.soaking = false;
    note_since(core, model, group, 0);
    marks_put(core, RECORD_GROUP, group);
    group_enlist(model, group);
    budget_recount(core, model, group);
    roll_note_progress(core, model);
}

static void settle_group(struct controller *core, struct model *model, struct group *group)
{
    uint64_t soak_ns = model->r.policy.roll.soak_ms * MS_NS;
    const struct roll *roll = model->active;
    bool taken_back =
        roll != NULL && roll_goes_back(roll) && !group_is_on(core, group, roll->r.to_seq);
    if (soak_ns == 0 || taken_back) {
        end(core, model, group);
        return;
    }
    if (!group_is_available(group)) {
        note_since(core, model, group, 0);
        return;
    }
    note_since(core, model, group, group->soak_since_ns == 0 ? core->now_ns : group->soak_since_ns);
    if (core->now_ns - group->soak_since_ns >= soak_ns) {
        end(core, model, group);
    } else {
        wake_at(core, group->soak_since_ns + soak_ns);
    }
}

void soak_settle(struct controller *core, struct model *model)
{
    struct group *next;
    for (struct group *group = model->touched_first; group != NULL; group = next) {
        next = group->touched_next;
        if (group->r.soaking) {
            settle_group(core, model, group);
        }
    }
}

static void check_model(struct controller *core, const struct model *model)
{
    char key[ORDER_KEY_BYTES];
    uint64_t soak_ns = model->r.policy.roll.soak_ms * MS_NS;
    order_key_write_name(key, model->r.name, "");
    for (uint32_t place = index_lower_bound(&core->soaking, key); place < core->soaking.count;
         place++) {
        struct group *group = core->soaking.objects[place];
        if (group->model != model) {
            return;
        }
        if (core->now_ns < group->soak_since_ns + soak_ns) {
            wake_at(core, group->soak_since_ns + soak_ns);
            return;
        }
        group_touch(core, group);
    }
}

void soak_check(struct controller *core)
{
    for (uint32_t i = 0; i < core->models.count; i++) {
        const struct model *model = core->models.objects[i];
        if (model->groups_soaking > 0) {
            check_model(core, model);
        }
    }
}

void soak_explain(const struct controller *core, const struct model *model,
                  const struct group *group, char out[BATON_TEXT_BYTES])
{
    uint64_t soak_ns = model->r.policy.roll.soak_ms * MS_NS;
    uint64_t served_ns = group->soak_since_ns == 0 ? 0 : core->now_ns - group->soak_since_ns;
    uint64_t left_ns = served_ns < soak_ns ? soak_ns - served_ns : 0;
    text_format(out, BATON_TEXT_BYTES,
                "it serves version %llu and keeps its slot until it has served for %llu s; %llu s "
                "are left",
                (unsigned long long)group_committed(group), (unsigned long long)(soak_ns / S_NS),
                (unsigned long long)((left_ns + S_NS - 1) / S_NS));
}
