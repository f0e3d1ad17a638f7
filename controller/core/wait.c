/* wait.c -- Rolls.Wait: converged(model, seq), asleep(model).
 *
 * Converged: every group that is neither retired nor cordoned nor asleep has committed 'seq' or a later
 * version, is known in this epoch, and its gate is open.  A wait that cannot be met for now ends at once: the roll was taken back, the
 * version is quarantined, or the model is held or suspended (unless the roll that runs under a hold
 * goes to what is waited for).  Asleep: every group that was put to sleep released its memory. */
#include "controller/core/fleet.h"
#include "controller/core/text.h"

bool wait_group_converged(const struct group *group, uint64_t seq)
{
    return group_is_available(group) && group->live.committed_seq >= seq;
}

/* Retired, cordoned and sleeping groups are not waited for. */
static bool is_behind(const struct group *group, uint64_t seq)
{
    bool apart = group->r.retired || group->r.cordoned || group->r.asleep;
    return !apart && !wait_group_converged(group, seq);
}

/* Looks first where the last look ended, so that a wait costs little while that group stays behind. */
static bool is_converged(const struct controller *core, const struct model *model,
                         struct wait *wait)
{
    uint32_t first = groups_first(core, model->r.name);
    const struct group *last = groups_at(core, first + wait->behind, model->r.name);
    if (last != NULL && is_behind(last, wait->seq)) {
        return false;
    }
    const struct group *group;
    for (uint32_t i = 0; (group = groups_at(core, first + i, model->r.name)) != NULL; i++) {
        if (is_behind(group, wait->seq)) {
            wait->behind = i;
            return false;
        }
    }
    return model->r.newest_seq >= wait->seq;
}

static void done(struct controller *core, const struct wait *wait, enum wait_outcome outcome,
                 const char *message)
{
    struct action_wait_done *action = &core->wait_dones[core->out.waits_count++];
    *action =
        (struct action_wait_done){ .handle = wait->handle, .outcome = outcome, .seq = wait->seq };
    text_copy(action->message, sizeof(action->message), message);
}

/* Whether a roll is on its way to that version or a later one. */
static bool goes_to(const struct controller *core, const struct model *model, uint64_t seq)
{
    const struct roll *roll = model->active;
    return roll != NULL && roll->r.to_seq >= seq &&
           !quarantine_holds(core, model->r.name, roll->r.to_seq);
}

/* Says which pinned group keeps the wait from being met, if one does. */
static bool say_pinned(const struct controller *core, const struct model *model, uint64_t seq,
                       char message[BATON_TEXT_BYTES])
{
    uint32_t place = groups_first(core, model->r.name);
    for (struct group *group; (group = groups_at(core, place, model->r.name)) != NULL; place++) {
        bool counts =
            !group->r.retired && !group->r.cordoned && !group->r.asleep && !group->r.ticket_open;
        if (counts && group->r.pinned && group_committed(group) < seq) {
            text_format(message, BATON_TEXT_BYTES,
                        "group %s is pinned to version %llu; batonctl unpin group/%s",
                        group->r.name, (unsigned long long)group_committed(group), group->r.name);
            return true;
        }
    }
    return false;
}

/* One that has yet to end its ticket before it sleeps is waited for, too. */
static bool decide_asleep(struct controller *core, const struct model *model,
                          const struct wait *wait)
{
    uint32_t asked = 0;
    uint32_t place = groups_first(core, model->r.name);
    for (struct group *group; (group = groups_at(core, place, model->r.name)) != NULL; place++) {
        asked += group->r.asleep && !group->r.retired;
        if (!sleep_is_reached(core, group)) {
            return false;
        }
    }
    if (asked == 0) {
        done(core, wait, WAIT_OUTCOME_HELD, "no group is to sleep; batonctl sleep first");
        return true;
    }
    done(core, wait, WAIT_OUTCOME_MET, "all groups that are to sleep released their memory");
    return true;
}

/* Ends the wait if it is decided; false if it goes on. */
static bool decide(struct controller *core, const struct model *model, struct wait *wait)
{
    char message[BATON_TEXT_BYTES];
    if (wait->asleep) {
        return decide_asleep(core, model, wait);
    }
    if (is_converged(core, model, wait)) {
        text_format(message, sizeof(message), "all groups serve version %llu or a later one",
                    (unsigned long long)wait->seq);
        done(core, wait, WAIT_OUTCOME_MET, message);
        return true;
    }
    if (model->undone_as != 0) {
        done(core, wait, model->undone_as, model->r.hold_reason);
        return true;
    }
    const struct version *version = version_find(core, model->r.name, wait->seq);
    if (version != NULL && version->r.quarantined) {
        done(core, wait, WAIT_OUTCOME_QUARANTINED, version->r.quarantine_reason);
        return true;
    }
    if (model->r.suspended) {
        done(core, wait, WAIT_OUTCOME_SUSPENDED, "the model is suspended");
        return true;
    }
    if (say_pinned(core, model, wait->seq, message)) {
        done(core, wait, WAIT_OUTCOME_HELD, message);
        return true;
    }
    bool goes_there = goes_to(core, model, wait->seq);
    if (model->r.held && !goes_there) {
        done(core, wait, WAIT_OUTCOME_HELD, model->r.hold_reason);
        return true;
    }
    return false;
}

static struct wait *free_place(struct controller *core)
{
    for (uint32_t i = 0; i < core->waits_count; i++) {
        if (core->waits[i].handle == 0) {
            return &core->waits[i];
        }
    }
    return core->waits_count == core->limits.waits ? NULL : &core->waits[core->waits_count++];
}

static struct baton_status check(struct call *call, const struct model *model)
{
    const char *condition = call->request->body.wait.condition;
    if (text_equal(condition, "asleep")) {
        return baton_status_ok();
    }
    if (!text_is_empty(condition) && !text_equal(condition, "converged")) {
        return call_bad_field(call, "condition",
                              "\"%.40s\" is not known here; use \"converged\" or \"asleep\"",
                              condition);
    }
    if (call->request->body.wait.seq == 0 && model->r.newest_seq == 0) {
        return baton_status_hint(baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE,
                                                   "model %s has no published version to wait for",
                                                   model->r.name),
                                 "publish one, or name the seq to wait for");
    }
    return baton_status_ok();
}

struct baton_status waits_register(struct controller *core, struct call *call)
{
    struct model *model = NULL;
    struct baton_status st = model_of_call(core, call, &model);
    if (baton_ok(&st)) {
        st = check(call, model);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    struct wait *place = free_place(core);
    if (place == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "%u calls wait already, which is the limit", core->limits.waits);
    }
    uint64_t seq = call->request->body.wait.seq;
    *place = (struct wait){ .handle = call->request->handle,
                            .seq = seq != 0 ? seq : model->r.newest_seq,
                            .asleep = text_equal(call->request->body.wait.condition, "asleep") };
    text_copy(place->model, sizeof(place->model), model->r.name);
    call->deferred = true;
    model_touch(model); /* settle.c decides. */
    return st;
}

void waits_cancel(struct controller *core, uint64_t handle)
{
    for (uint32_t i = 0; i < core->waits_count; i++) {
        if (core->waits[i].handle == handle) {
            core->waits[i].handle = 0;
        }
    }
}

void waits_settle(struct controller *core, struct model *model)
{
    for (uint32_t i = 0; i < core->waits_count; i++) {
        struct wait *wait = &core->waits[i];
        if (wait->handle != 0 && text_equal(wait->model, model->r.name) &&
            decide(core, model, wait)) {
            wait->handle = 0;
        }
    }
    model->undone_as = 0;
}
