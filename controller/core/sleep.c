/* sleep.c -- groups that give their device to somebody else, such as a colocated trainer.
 *
 * A verb names a group, an agent or a model; every group is checked before any is changed.  One that is
 * to sleep gets no ticket any more; once its open one has ended it leaves the denominator of the budget,
 * routing, staleness, rolls and waits.  Its target follows what is promoted, unless it is
 * pinned: what its engines held is gone, so there is no reason to bring the old version back. */
#include "api/base/mutant.h"
#include "controller/core/fleet.h"

#include "controller/core/text.h"
#include "controller/core/words.h"

bool group_sleeps(const struct group *group)
{
    return group->r.asleep && !group->r.ticket_open && !group_swaps_unknown(group);
}

bool sleep_is_told(const struct group_report *report)
{
    return report->state == GROUP_STATE_ASLEEP ||
           text_equal(report->blocked, words_get(&words_blocked, BLOCKED_GROUP_ASLEEP));
}

static bool fall_asleep(const struct call *call, struct group *group)
{
    if (group->r.asleep) {
        return false;
    }
    group->r.asleep = true;
    group->sleep_revision = 0;
    group->r.soaking = false;
    text_copy(group->r.sleep_reason, sizeof(group->r.sleep_reason), call->request->options.reason);
    return true;
}

/* One whose gate is still open goes on with what it serves; one whose ticket is still open never slept. */
static bool wake_up(const struct call *call, struct group *group)
{
    (void)call;
    if (!group->r.asleep) {
        return false;
    }
    bool slept = group_sleeps(group) || MUTANT(WOKEN_AS_NEW);
    bool gave_up = slept && !group_is_available(group);
    group->r.asleep = false;
    group->r.as_new = group->r.as_new || (!group->r.pinned && gave_up);
    text_copy(group->r.sleep_reason, sizeof(group->r.sleep_reason), "");
    return true;
}

struct sleep_verb {
    bool (*change)(const struct call *call, struct group *group);
    const char *reason; /* Of the log. */
    const char *what;
};

static void change(struct controller *core, const struct call *call, struct group *group,
                   const struct sleep_verb *verb)
{
    struct object_ref ref = ref_group(group);
    const char *why = call->request->options.reason;
    if (group->r.retired || !verb->change(call, group)) {
        return;
    }
    fleet_changed(core, group);
    log_add(core, &ref, verb->reason, call_by(call), "%s%s%.160s", verb->what,
            text_is_empty(why) ? "" : ": ", text_is_empty(why) ? "" : why);
}

static struct baton_status apply_model(struct controller *core, struct call *call,
                                       const struct sleep_verb *verb)
{
    struct model *model = NULL;
    const struct request *request = call->request;
    if (!text_is_empty(request->group) || !text_is_empty(request->agent)) {
        return call_bad_field(call, "model", "give a group, an agent or a model, only one of them");
    }
    struct baton_status st = model_of_call(core, call, &model);
    if (!baton_ok(&st)) {
        return st;
    }
    call->answer = ref_model(model);
    st = call_expects(call, model->r.revision, "the model");
    for (uint32_t i = 0; MUTANT(SLEEP_OF_ALL) && i < core->groups.count; i++) {
        change(core, call, core->groups.objects[i], verb);
    }
    uint32_t place = groups_first(core, model->r.name);
    for (struct group *group;
         baton_ok(&st) && (group = groups_at(core, place, model->r.name)) != NULL; place++) {
        change(core, call, group, verb);
    }
    return st;
}

static struct baton_status apply_groups(struct controller *core, struct call *call,
                                        const struct sleep_verb *verb)
{
    struct selection selection;
    struct baton_status st = fleet_select(core, call, &selection);
    if (baton_ok(&st) && selection.agent == NULL && selection.groups[0]->r.retired) {
        st = baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE, "group %s is retired",
                               selection.groups[0]->r.name);
    }
    for (uint32_t i = 0; baton_ok(&st) && i < selection.count; i++) {
        change(core, call, selection.groups[i], verb);
    }
    return st;
}

static struct baton_status apply(struct controller *core, struct call *call,
                                 const struct sleep_verb *verb)
{
    return text_is_empty(call->request->model) ? apply_groups(core, call, verb)
                                               : apply_model(core, call, verb);
}

struct baton_status fleet_sleep(struct controller *core, struct call *call)
{
    static const struct sleep_verb verb = { fall_asleep, "GroupPutToSleep",
                                            "its device is wanted for something else" };
    return apply(core, call, &verb);
}

struct baton_status fleet_wake(struct controller *core, struct call *call)
{
    static const struct sleep_verb verb = { wake_up, "GroupWoken",
                                            "it serves again once its weights are verified" };
    return apply(core, call, &verb);
}

/* What runs may end by itself for as long as a swap of the model would let it; kept it cannot be, as KV
 * goes with the weights. */
uint64_t sleep_drain_ms(const struct model *model)
{
    const struct swap_policy *policy = &model->r.policy.swap;
    return policy->in_flight == POLICY_IN_FLIGHT_ABORT ? 0 : policy->drain_deadline_ms;
}

void sleep_explain(const struct group *group, char out[BATON_TEXT_BYTES])
{
    const char *why = group->r.sleep_reason;
    bool asleep = group->live.state == GROUP_STATE_ASLEEP;
    text_format(out, BATON_TEXT_BYTES, "%s%s%.40s%s%.130s; batonctl wake group/%s",
                asleep ? "it is asleep" : "it is to sleep", why[0] == '\0' ? "" : ": ", why,
                asleep || group->live.message[0] == '\0' ? "" : "; ",
                asleep ? "" : group->live.message, group->r.name);
}

/* An agent tells its groups' states each time that it takes goals over.  Before that, ASLEEP may be
 * the word of an earlier sleep, from which it wakes up by now. */
bool sleep_is_reached(const struct controller *core, const struct group *group)
{
    const struct agent *agent = group_agent(core, group);
    bool told = agent != NULL &&
                ((group->sleep_revision != 0 && agent->goals_acked >= group->sleep_revision) ||
                 MUTANT(ASLEEP_OF_BEFORE));
    return !group->r.asleep || group->r.retired ||
           (told && group_sleeps(group) && group->known && group->live.state == GROUP_STATE_ASLEEP);
}
