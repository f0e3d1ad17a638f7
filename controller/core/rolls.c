/* rolls.c -- rolls: beginning, ending, pausing, and the progress clock.
 *
 * One active roll a model.  A roll that a publish starts while the active one is paused stays
 * paused: the operator's pause is not lifted by the trainer.  The progress clock stops while a roll
 * is paused and starts anew with each controller. */
#include <string.h>

#include "api/base/mutant.h"
#include "controller/core/fleet.h"
#include "controller/core/text.h"
#include "controller/core/words.h"

struct roll *roll_add(struct controller *core, const struct roll_record *record)
{
    struct roll *roll = table_take(&core->rolls_table);
    if (roll != NULL) {
        roll->r = *record;
        roll->progress_ns = core->now_ns;
        order_key_write(roll->order_key, record->model, record->number, "");
        index_insert(&core->rolls, roll);
    }
    return roll;
}

struct roll *roll_find(const struct controller *core, const char *model, uint64_t number)
{
    char key[ORDER_KEY_BYTES];
    order_key_write(key, model, number, "");
    return index_find(&core->rolls, key);
}

uint32_t rolls_place(const struct controller *core, const char *model, uint64_t number)
{
    char key[ORDER_KEY_BYTES];
    if (number == 0) {
        order_key_write_name(key, model, "");
        return index_lower_bound(&core->rolls, key);
    }
    order_key_write(key, model, number, "");
    uint32_t place = index_lower_bound(&core->rolls, key);
    const struct roll *roll = rolls_at(core, place, model);
    return roll != NULL && roll->r.number == number ? place + 1 : place;
}

struct roll *rolls_at(const struct controller *core, uint32_t place, const char *model)
{
    if (place >= core->rolls.count) {
        return NULL;
    }
    struct roll *roll = core->rolls.objects[place];
    return strcmp(roll->r.model, model) == 0 ? roll : NULL;
}

static const char *ending_reason(enum roll_state state)
{
    switch (state) {
    case ROLL_STATE_COMPLETED: return "RollCompleted";
    case ROLL_STATE_SUPERSEDED: return "RollSuperseded";
    case ROLL_STATE_UNDONE: return "RollUndone";
    case ROLL_STATE_ABORTED: return "RollAborted";
    case ROLL_STATE_ROLLED_BACK: return "RollRolledBack";
    case ROLL_STATE_PROGRESSING:
    case ROLL_STATE_PAUSED: break;
    }
    baton_assert(false);
    return "";
}

static void count_groups(const struct controller *core, const struct roll *roll, uint32_t *total,
                         uint32_t *done)
{
    *total = 0;
    *done = 0;
    uint32_t place = groups_first(core, roll->r.model);
    for (struct group *group; (group = groups_at(core, place, roll->r.model)) != NULL; place++) {
        bool counts = !group->r.retired && !group_sleeps(group);
        *total += counts;
        *done += counts && roll_group_done(core, roll, group);
    }
}

void roll_end(struct controller *core, struct model *model, enum roll_state state)
{
    struct roll *roll = model->active;
    count_groups(core, roll, &roll->r.groups_total, &roll->r.groups_done);
    roll->r.state = state;
    roll->r.ended_wall_ns = core->wall_ns;
    model->active = NULL;
    model->r.active_roll = 0;
    model->goals_dirty = true;
    marks_put(core, RECORD_ROLL, roll);
    marks_put(core, RECORD_MODEL, model);
    model_touch(model);
    struct object_ref ref = ref_roll(roll);
    log_add(core, &ref, ending_reason(state), NULL, "%u of %u groups serve version %llu",
            roll->r.groups_done, roll->r.groups_total, (unsigned long long)roll->r.to_seq);
}

static void fill(struct controller *core, const struct model *model, uint64_t to_seq,
                 const struct roll_request *request, struct roll_record *record)
{
    text_copy(record->model, sizeof(record->model), model->r.name);
    record->number = model->r.last_roll_number + 1;
    uid_make(core, record->uid);
    record->to_seq = to_seq;
    record->promoted_seq = model->r.promoted_seq;
    record->state = ROLL_STATE_PROGRESSING;
    record->cause = request->cause;
    text_copy(record->requested_by, sizeof(record->requested_by), request->by);
    text_copy(record->reason, sizeof(record->reason), request->reason);
    record->started_wall_ns = core->wall_ns;
    text_copy(record->order_list, sizeof(record->order_list), request->order_list);
    canary_begin(model, record);
}

/* What becomes of the roll that was active. */
static enum roll_state ending_of(enum roll_cause cause)
{
    switch (cause) {
    case ROLL_CAUSE_UNDO: return ROLL_STATE_UNDONE;
    case ROLL_CAUSE_ABORT: return ROLL_STATE_ABORTED;
    case ROLL_CAUSE_ROLLBACK: return ROLL_STATE_ROLLED_BACK;
    case ROLL_CAUSE_PUBLISH:
    case ROLL_CAUSE_START:
    case ROLL_CAUSE_TRIGGER: break;
    }
    return ROLL_STATE_SUPERSEDED;
}

bool roll_goes_back(const struct roll *roll)
{
    return roll->r.cause == ROLL_CAUSE_UNDO || roll->r.cause == ROLL_CAUSE_ABORT ||
           roll->r.cause == ROLL_CAUSE_ROLLBACK;
}

struct roll *roll_begin(struct controller *core, struct model *model, uint64_t to_seq,
                        const struct roll_request *request)
{
    struct roll_record record = { 0 };
    fill(core, model, to_seq, request, &record);
    staleness_roll_begins(core, model, to_seq, ending_of(request->cause) != ROLL_STATE_SUPERSEDED);
    if (model->active != NULL) {
        bool paused = model->active->r.state == ROLL_STATE_PAUSED && !MUTANT(PAUSE_FORGOTTEN);
        bool of_trainer =
            request->cause == ROLL_CAUSE_PUBLISH || request->cause == ROLL_CAUSE_TRIGGER;
        if (paused && of_trainer) {
            record.state = ROLL_STATE_PAUSED;
        }
        roll_end(core, model, ending_of(request->cause));
    }
    /* One of the promoted version only lets groups catch up: what was published since counts on. */
    bool repeats = request->cause == ROLL_CAUSE_START && to_seq == model->r.promoted_seq &&
                   model->active == NULL;
    record.catches_up = request->cause == ROLL_CAUSE_START && model->active == NULL &&
                        to_seq == quarantine_fallback(core, model);
    struct roll *roll = roll_add(core, &record);
    baton_assert(roll != NULL);
    model->active = roll;
    model->r.active_roll = record.number;
    model->r.last_roll_number = record.number;
    if (to_seq == model->r.newest_seq) {
        model->r.roll_pending = false;
    }
    if (!repeats) {
        trigger_note(core, model);
    }
    model->goals_dirty = true;
    roll->marks.added = true;
    marks_put(core, RECORD_ROLL, roll);
    marks_put(core, RECORD_MODEL, model);
    model_touch(model);
    struct object_ref ref = ref_roll(roll);
    log_add(core, &ref, "RollStarted", request->by, "%s: to version %llu",
            words_get(&words_roll_cause, record.cause), (unsigned long long)to_seq);
    rolls_prune(core, model);
    return roll;
}

bool roll_group_done(const struct controller *core, const struct roll *roll,
                     const struct group *group)
{
    /* What is stored is not what is served: its journal may be lost by now. */
    return group->known && !group->r.ticket_open && !group->r.soaking &&
           group_is_on(core, group, roll->r.to_seq);
}

void roll_promote(struct controller *core, struct model *model, uint64_t seq)
{
    if (seq == model->r.promoted_seq) {
        return;
    }
    model->r.previous_promoted_seq = model->r.promoted_seq;
    model->r.promoted_seq = seq;
    marks_put(core, RECORD_MODEL, model);
    struct object_ref ref = ref_model(model);
    log_add(core, &ref, "VersionPromoted", NULL, "version %llu of model %s is promoted",
            (unsigned long long)seq, model->r.name);
}

static void complete(struct controller *core, struct model *model)
{
    uint64_t to_seq = model->active->r.to_seq;
    model->active->r.degraded = false;
    roll_end(core, model, ROLL_STATE_COMPLETED);
    roll_promote(core, model, to_seq);
}

void roll_settle(struct controller *core, struct model *model)
{
    struct roll *roll = model->active;
    if (roll == NULL) {
        return;
    }
    uint32_t total = model->groups_count;
    uint32_t done = model->groups_done;
    uint32_t apart = model->groups_apart;
    canary_settle(core, model, total - apart);
    bool shown = total == apart || canary_is_over(model, roll);
    bool quarantined = quarantine_holds(core, model->r.name, roll->r.to_seq);
    bool all = total == done + apart || (MUTANT(ROLL_ENDS_EARLY) && done > 0);
    /* Groups that stand apart, asleep or not there yet would follow later, past the operator's pause. */
    bool waits = roll->r.state == ROLL_STATE_PAUSED && (apart > 0 || total == 0);
    if (all && !waits && shown && !quarantined && !core->cluster.floors_pending) {
        complete(core, model);
        return;
    }
    if (done != roll->done_last) {
        bool more = done > roll->done_last;
        roll->done_last = done;
        marks_change(core, RECORD_ROLL, roll);
        if (more) {
            roll_note_progress(core, model);
        }
    }
    roll_check_deadline(core, model);
}

void roll_note_progress(struct controller *core, struct model *model)
{
    struct roll *roll = model->active;
    if (roll == NULL) {
        return;
    }
    roll->progress_ns = core->now_ns;
    roll->paused_elapsed_ns = 0;
    if (roll->r.degraded) {
        roll->r.degraded = false;
        marks_put(core, RECORD_ROLL, roll);
        struct object_ref ref = ref_roll(roll);
        log_add(core, &ref, "RollRecovered", NULL, "it makes progress again");
    }
}

static void pause(struct controller *core, struct roll *roll)
{
    roll->r.state = ROLL_STATE_PAUSED;
    roll->paused_elapsed_ns = core->now_ns - roll->progress_ns;
    marks_put(core, RECORD_ROLL, roll);
}

/* The policy's answer to a roll that makes no progress; one that goes back is only reported. */
static void act_on_deadline(struct controller *core, struct model *model)
{
    static const char why[] = "no progress within progressDeadline";
    struct roll *roll = model->active;
    enum policy_progress_action action = model->r.policy.roll.progress_action;
    struct object_ref ref = ref_roll(roll);
    if (roll->r.catches_up) {
        return; /* All others are on its version already: it is neither theirs nor the trainer's fault. */
    }
    if (action == POLICY_PROGRESS_PAUSE) {
        pause(core, roll);
        roll_note_verb(core, roll, "pause", "", why);
        log_warn(core, &ref, "RollPaused", "%s; batonctl roll resume model/%s", why, model->r.name);
        return;
    }
    uint64_t to_seq = undo_target(core, model);
    bool can = !roll_goes_back(roll) && version_find(core, model->r.name, to_seq) != NULL &&
               rolls_make_room(core);
    if (action == POLICY_PROGRESS_ROLLBACK && can) {
        struct go_back how = { ROLL_CAUSE_ROLLBACK, to_seq, "", why };
        (void)undo_go_back(core, model, &how);
    }
}

static uint64_t deadline_of(const struct model *model, const struct roll *roll)
{
    return roll->progress_ns + model->r.policy.progress_deadline_ms * MS_NS;
}

void roll_check_deadline(struct controller *core, struct model *model)
{
    struct roll *roll = model->active;
    if (roll == NULL || roll->r.state != ROLL_STATE_PROGRESSING || roll->r.degraded) {
        return;
    }
    if (canary_stops_clock(model, roll)) {
        roll->progress_ns = core->now_ns;
        return;
    }
    uint64_t due_ns = deadline_of(model, roll);
    if (core->now_ns < due_ns) {
        wake_at(core, due_ns);
        return;
    }
    roll->r.degraded = true;
    marks_put(core, RECORD_ROLL, roll);
    struct object_ref ref = ref_roll(roll);
    log_warn(core, &ref, "RollDegraded", "no progress for %llu s; it goes on",
             (unsigned long long)model->r.policy.progress_deadline_ms / 1000);
    model_touch(model);
    act_on_deadline(core, model);
}

static struct baton_status refuse_held(const struct model *model)
{
    const char *how = model->r.suspended ? "suspended" : "held";
    return baton_status_hint(baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_HELD,
                                               "model %s is %s%s%s", model->r.name, how,
                                               model->r.held ? ": " : "", model->r.hold_reason),
                             "batonctl resume model/%s", model->r.name);
}

static struct baton_status check_start(struct controller *core, struct call *call,
                                       const struct model *model, uint64_t to_seq)
{
    struct baton_status st = call_expects(call, model->r.revision, "the model");
    if (!baton_ok(&st)) {
        return st;
    }
    if (model->r.held || model->r.suspended) {
        return refuse_held(model);
    }
    if (to_seq == 0) {
        return baton_status_hint(baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE,
                                                   "model %s has no published version",
                                                   model->r.name),
                                 "batonctl publish DIR --model %s", model->r.name);
    }
    if (version_find(core, model->r.name, to_seq) == NULL) {
        return baton_status_make(BATON_NOT_FOUND, BATON_REASON_NONE,
                                 "to_seq: model %s has no version %llu, or no longer keeps it",
                                 model->r.name, (unsigned long long)to_seq);
    }
    if (!rolls_make_room(core)) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "all %u rolls that are kept run", core->limits.rolls);
    }
    st = quarantine_refusal(core, model, to_seq);
    return baton_ok(&st) ? floors_refusal(core) : st;
}

/* Groups that a caller names exist. */
static struct baton_status check_order(const struct controller *core, struct call *call,
                                       const struct model *model, const char *list)
{
    struct baton_status st = policy_check_order(call, "order", list);
    for (const char *at = list; baton_ok(&st) && *at != '\0';) {
        char name[BATON_NAME_BYTES];
        size_t length = text_length_until(at, ',');
        text_format(name, sizeof(name), "%.*s", (int)length, at);
        const struct group *group = group_find(core, name);
        if (group == NULL || !text_equal(group->r.model, model->r.name)) {
            return call_bad_field(call, "order", "model %s has no group %s", model->r.name, name);
        }
        at += at[length] == ',' ? length + 1 : length;
    }
    return st;
}

struct baton_status rolls_start(struct controller *core, struct call *call)
{
    struct model *model = NULL;
    struct baton_status st = model_of_call(core, call, &model);
    if (!baton_ok(&st)) {
        return st;
    }
    uint64_t given = call->request->to_seq;
    uint64_t to_seq = given != 0 ? given : model->r.newest_seq;
    const char *given_order = call->request->body.start.order;
    const char *order = given_order == NULL ? "" : given_order;
    st = check_start(core, call, model, to_seq);
    if (baton_ok(&st)) {
        st = check_order(core, call, model, order);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    bool runs = model->active != NULL && model->active->r.to_seq == to_seq &&
                model->active->r.state == ROLL_STATE_PROGRESSING;
    struct roll_request request = { ROLL_CAUSE_START, call_by(call), call->request->options.reason,
                                    order };
    struct roll *roll = runs ? model->active : roll_begin(core, model, to_seq, &request);
    if (runs && order[0] != '\0') {
        text_copy(roll->r.order_list, sizeof(roll->r.order_list), order);
        model_touch(model);
        roll_note_verb(core, roll, "order", call_by(call), call->request->options.reason);
    }
    call->answer = ref_roll(roll);
    return st;
}

struct baton_status roll_active_of_call(struct controller *core, struct call *call,
                                        struct model **out)
{
    struct baton_status st = model_of_call(core, call, out);
    if (!baton_ok(&st)) {
        return st;
    }
    const struct roll *roll = (*out)->active;
    if (roll == NULL) {
        return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE,
                                 "model %s has no active roll", (*out)->r.name);
    }
    call->answer = ref_roll(roll);
    return call_expects(call, roll->r.revision, "the roll");
}

struct baton_status rolls_pause(struct controller *core, struct call *call)
{
    struct model *model = NULL;
    struct baton_status st = roll_active_of_call(core, call, &model);
    if (!baton_ok(&st) || model->active->r.state == ROLL_STATE_PAUSED) {
        return st;
    }
    pause(core, model->active);
    roll_note_verb(core, model->active, "pause", call_by(call), call->request->options.reason);
    model_touch(model);
    log_add(core, &call->answer, "RollPaused", call_by(call), "no new ticket until it is resumed");
    return st;
}

struct baton_status rolls_resume(struct controller *core, struct call *call)
{
    struct model *model = NULL;
    struct baton_status st = roll_active_of_call(core, call, &model);
    if (!baton_ok(&st)) {
        return st;
    }
    struct roll *roll = model->active;
    if (roll->r.state == ROLL_STATE_PROGRESSING) {
        if (!roll->r.degraded && core->now_ns >= deadline_of(model, roll)) {
            roll->progress_ns =
                core->now_ns; /* It was late, and nobody has seen it yet: likewise. */
        }
        return st;
    }
    roll->r.state = ROLL_STATE_PROGRESSING;
    /* A roll that the policy paused was late: it begins anew. */
    roll->progress_ns = core->now_ns - (roll->r.degraded ? 0 : roll->paused_elapsed_ns);
    roll->r.degraded = false;
    roll_note_verb(core, roll, "resume", call_by(call), call->request->options.reason);
    model_touch(model);
    log_add(core, &call->answer, "RollResumed", call_by(call), "it goes on");
    return st;
}
