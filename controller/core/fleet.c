/* fleet.c -- what operators do to groups: cordon, drain, pin, and back.
 *
 * A verb names one group, or an agent for all groups that it leads.  Every group is checked before
 * any is changed.  Cordoned: no ticket at all, not even to come back (but one that asks members in doubt, and moves nothing); it counts against the budget
 * only while it does not serve.  Drained: cordoned, and its leader is told to shut its gate.
 * Pinned: no roll ticket; it stays at its version.  Retiring is retire.c. */
#include "controller/core/fleet.h"

#include "api/base/mutant.h"
#include "controller/core/text.h"

static struct baton_status find_group(const struct controller *core, struct call *call,
                                      struct selection *out)
{
    const char *name = call->request->group;
    struct group *group = group_find(core, name);
    if (group == NULL) {
        return baton_status_hint(
            baton_status_make(BATON_NOT_FOUND, BATON_REASON_NONE, "there is no group %.63s", name),
            "`batonctl get groups` lists them");
    }
    out->groups[out->count++] = group;
    call->answer = ref_group(group);
    return call_expects(call, group->r.revision, "the group");
}

static struct baton_status find_agent(const struct controller *core, struct call *call,
                                      struct selection *out)
{
    const char *name = call->request->agent;
    struct agent *agent = agent_find(core, name);
    if (agent == NULL) {
        return baton_status_hint(
            baton_status_make(BATON_NOT_FOUND, BATON_REASON_NONE, "there is no agent %.63s", name),
            "`batonctl get agents` lists them");
    }
    out->agent = agent;
    for (uint32_t i = 0; i < agent->groups_count; i++) {
        out->groups[out->count++] = agent->groups[i];
    }
    call->answer = ref_agent(agent);
    return call_expects(call, agent->r.revision, "the agent");
}

struct baton_status fleet_select(const struct controller *core, struct call *call,
                                 struct selection *out)
{
    bool group = !text_is_empty(call->request->group);
    bool agent = !text_is_empty(call->request->agent);
    *out = (struct selection){ 0 };
    if (group == agent) {
        return call_bad_field(call, "group",
                              group ? "give a group or an agent, not both"
                                    : "give a group, or an agent for all of its own");
    }
    return group ? find_group(core, call, out) : find_agent(core, call, out);
}

void fleet_changed(struct controller *core, struct group *group)
{
    struct model *model = model_find(core, group->r.model);
    if (!MUTANT(CHANGE_UNMARKED)) {
        marks_put(core, RECORD_GROUP, group);
    }
    goals_touch_group(core, group);
    if (model != NULL) {
        model->goals_dirty = true;
        model_touch(model);
    }
}

static void log_verb(struct controller *core, const struct call *call, const struct group *group,
                     const char *reason, const char *what)
{
    struct object_ref ref = ref_group(group);
    const char *why = call->request->options.reason;
    log_add(core, &ref, reason, call_by(call), "%s%s%.180s", what, text_is_empty(why) ? "" : ": ",
            text_is_empty(why) ? "" : why);
}

/* One verb: what it does to one group; false if the group is so already. */
struct verb {
    bool (*change)(struct controller *core, const struct call *call, struct group *group);
    const char *reason; /* Of the log. */
    const char *what;
    bool of_retired; /* It may be done to a retired group. */
};

static struct baton_status check(const struct selection *selection, const struct verb *verb)
{
    for (uint32_t i = 0; i < selection->count; i++) {
        const struct group *group = selection->groups[i];
        if (group->r.retired && !verb->of_retired && selection->agent == NULL) {
            return baton_status_hint(baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE,
                                                       "group %s is retired", group->r.name),
                                     "it joins as new when its agent names it again");
        }
    }
    return baton_status_ok();
}

static struct baton_status apply(struct controller *core, struct call *call,
                                 const struct verb *verb)
{
    struct selection selection;
    struct baton_status st = fleet_select(core, call, &selection);
    if (baton_ok(&st)) {
        st = check(&selection, verb);
    }
    for (uint32_t i = 0; baton_ok(&st) && i < selection.count; i++) {
        struct group *group = selection.groups[i];
        if ((!group->r.retired || verb->of_retired) && verb->change(core, call, group)) {
            fleet_changed(core, group);
            log_verb(core, call, group, verb->reason, verb->what);
        }
    }
    return st;
}

static bool set_cordon(const struct call *call, struct group *group, bool drained)
{
    if (group->r.cordoned && group->r.drained == drained) {
        return false;
    }
    group->r.cordoned = true;
    group->r.drained = drained;
    text_copy(group->r.cordon_reason, sizeof(group->r.cordon_reason),
              call->request->options.reason);
    return true;
}

static bool cordon(struct controller *core, const struct call *call, struct group *group)
{
    (void)core;
    return !group->r.cordoned && set_cordon(call, group, false);
}

static bool drain(struct controller *core, const struct call *call, struct group *group)
{
    (void)core;
    return set_cordon(call, group, true);
}

static bool uncordon(struct controller *core, const struct call *call, struct group *group)
{
    (void)call;
    if (!group->r.cordoned) {
        return false;
    }
    group->r.cordoned = false;
    group->r.drained = false;
    text_copy(group->r.cordon_reason, sizeof(group->r.cordon_reason), "");
    if (group->r.retired && group->known) {
        retire_return(core, group);
        retire_settle(core, group);
    }
    return true;
}

static bool pin(struct controller *core, const struct call *call, struct group *group)
{
    (void)core;
    if (group->r.pinned) {
        return false;
    }
    group->r.pinned = true;
    text_copy(group->r.pin_reason, sizeof(group->r.pin_reason), call->request->options.reason);
    return true;
}

static bool unpin(struct controller *core, const struct call *call, struct group *group)
{
    (void)core;
    (void)call;
    bool was = group->r.pinned;
    group->r.pinned = false;
    text_copy(group->r.pin_reason, sizeof(group->r.pin_reason), "");
    return was;
}

/* What was rolled while the group was left out is rolled for it now. */
static void catch_up(struct controller *core, const struct call *call, const struct group *group)
{
    struct model *model = model_find(core, group->r.model);
    uint64_t to_seq = model == NULL ? 0 : quarantine_fallback(core, model);
    bool stays = group->r.cordoned || group->r.pinned || group->r.retired || group->r.as_new;
    if (to_seq == 0 || stays || model->active != NULL || group_is_on(core, group, to_seq) ||
        version_find(core, model->r.name, to_seq) == NULL || !rolls_make_room(core)) {
        return;
    }
    struct roll_request request = { .cause = ROLL_CAUSE_START,
                                    .by = call_by(call),
                                    .reason = "a group that was left out catches up" };
    (void)roll_begin(core, model, to_seq, &request);
}

/* Applies a verb that lets groups take part again. */
static struct baton_status apply_back(struct controller *core, struct call *call,
                                      const struct verb *verb)
{
    struct selection selection;
    struct baton_status st = apply(core, call, verb);
    if (baton_ok(&st)) {
        st = fleet_select(core, call, &selection);
    }
    for (uint32_t i = 0; baton_ok(&st) && i < selection.count; i++) {
        catch_up(core, call, selection.groups[i]);
    }
    return st;
}

struct baton_status fleet_cordon(struct controller *core, struct call *call)
{
    static const struct verb verb = { cordon, "GroupCordoned", "no ticket until it is uncordoned",
                                      false };
    return apply(core, call, &verb);
}

struct baton_status fleet_drain(struct controller *core, struct call *call)
{
    static const struct verb verb = { drain, "GroupDrained",
                                      "its gate is to be shut until it is uncordoned", false };
    return apply(core, call, &verb);
}

struct baton_status fleet_uncordon(struct controller *core, struct call *call)
{
    static const struct verb verb = { uncordon, "GroupUncordoned", "it may have tickets again",
                                      true };
    return apply_back(core, call, &verb);
}

struct baton_status fleet_pin(struct controller *core, struct call *call)
{
    static const struct verb verb = { pin, "GroupPinned", "it stays at its version", false };
    return apply(core, call, &verb);
}

struct baton_status fleet_unpin(struct controller *core, struct call *call)
{
    static const struct verb verb = { unpin, "GroupUnpinned", "it follows rolls again", true };
    return apply_back(core, call, &verb);
}
