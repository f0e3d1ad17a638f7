/* verbs.c -- what operators do to a running roll: Advance, Promote, Retry; and the roll's own
 * history of who did what to it, and why. */
#include <string.h>

#include "controller/core/core.h"

void roll_note_verb(struct controller *core, struct roll *roll, const char *verb, const char *by,
                    const char *reason)
{
    struct roll_record *r = &roll->r;
    if (r->verbs_count == BATON_ROLL_VERBS_MAX) {
        memmove(&r->verbs[0], &r->verbs[1], sizeof(r->verbs) - sizeof(r->verbs[0]));
        r->verbs_count--;
    }
    struct verb_record *record = &r->verbs[r->verbs_count++];
    memset(record, 0, sizeof(*record));
    text_copy(record->verb, sizeof(record->verb), verb);
    text_copy(record->by, sizeof(record->by), by);
    text_copy(record->reason, sizeof(record->reason), reason);
    record->at_wall_ns = core->wall_ns;
    marks_put(core, RECORD_ROLL, roll);
}

static struct baton_status refuse_advance(const struct controller *core, const struct model *model)
{
    char text[BATON_TEXT_BYTES];
    canary_explain(core, model, text);
    if (text[0] == '\0') {
        return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE,
                                 "roll %s-%llu has no canary step left to advance past",
                                 model->r.name, (unsigned long long)model->active->r.number);
    }
    return baton_status_hint(
        baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE,
                          "%.180s, which Advance does not skip", text),
        "wait for it, or skip all that is left: batonctl roll promote model/%s", model->r.name);
}

struct baton_status rolls_advance(struct controller *core, struct call *call)
{
    struct model *model = NULL;
    struct baton_status st = roll_active_of_call(core, call, &model);
    if (!baton_ok(&st)) {
        return st;
    }
    struct roll *roll = model->active;
    bool manual = roll->wait == CANARY_WAIT_CHECK && checks_wait_for_people(model, roll);
    if (roll->r.state != ROLL_STATE_PROGRESSING || (roll->wait != CANARY_WAIT_HOLD && !manual)) {
        return refuse_advance(core, model);
    }
    roll_note_verb(core, roll, "advance", call_by(call), call->request->options.reason);
    log_add(core, &call->answer, "RollAdvanced", call_by(call), "past canary step %u",
            roll->r.canary_step + 1);
    canary_next(core, model);
    return st;
}

struct baton_status rolls_promote(struct controller *core, struct call *call)
{
    struct model *model = NULL;
    struct baton_status st = roll_active_of_call(core, call, &model);
    if (!baton_ok(&st) || model->active->r.promoted) {
        return st;
    }
    struct roll *roll = model->active;
    roll->r.promoted = true;
    roll->r.canary_passed = true;
    roll->wait = CANARY_WAIT_NONE;
    roll_note_verb(core, roll, "promote", call_by(call), call->request->options.reason);
    log_add(core, &call->answer, "RollPromoted", call_by(call),
            "version %llu is current; the checks that are left are skipped",
            (unsigned long long)roll->r.to_seq);
    roll_promote(core, model, roll->r.to_seq);
    roll_note_progress(core, model);
    model_touch(model);
    return st;
}

static bool retry_group(struct controller *core, struct group *group)
{
    bool waits = group->r.failures != 0 || group->retry_ns != 0;
    group->retry_ns = 0;
    if (group->r.failures != 0) {
        group->r.failures = 0;
        marks_put(core, RECORD_GROUP, group);
    }
    return waits;
}

static struct baton_status check_retry(struct controller *core, struct call *call,
                                       const struct model *model, struct roll **out)
{
    const char *name = call->request->body.retry.group;
    const struct group *group = group_find(core, name);
    *out = model->active != NULL
               ? model->active
               : rolls_at(core, rolls_place(core, model->r.name, 0), model->r.name);
    if (*out == NULL) {
        return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE,
                                 "model %s never had a roll", model->r.name);
    }
    if (!text_is_empty(name) && (group == NULL || !text_equal(group->r.model, model->r.name))) {
        return baton_status_make(BATON_NOT_FOUND, BATON_REASON_NONE,
                                 "group: model %s has no group %.63s", model->r.name, name);
    }
    return call_expects(call, (*out)->r.revision, "the roll");
}

struct baton_status rolls_retry(struct controller *core, struct call *call)
{
    struct model *model = NULL;
    struct roll *roll = NULL;
    struct baton_status st = model_of_call(core, call, &model);
    if (baton_ok(&st)) {
        st = check_retry(core, call, model, &roll);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    const char *name = call->request->body.retry.group;
    uint32_t retried = 0;
    uint32_t place = groups_first(core, model->r.name);
    for (struct group *group; (group = groups_at(core, place, model->r.name)) != NULL; place++) {
        if (text_is_empty(name) || text_equal(group->r.name, name)) {
            retried += retry_group(core, group);
        }
    }
    call->answer = ref_roll(roll);
    roll_note_verb(core, roll, "retry", call_by(call), call->request->options.reason);
    log_add(core, &call->answer, "RollRetried", call_by(call), "%u groups need not wait any more",
            retried);
    roll_note_progress(core, model);
    model_touch(model);
    return st;
}
