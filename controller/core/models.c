/* models.c -- models: apply, suspend, resume; seq floors. */
#include "api/base/mutant.h"
#include "controller/core/fleet.h"
#include "controller/core/text.h"

struct model *model_find(const struct controller *core, const char *name)
{
    return index_find(&core->models, name == NULL ? "" : name);
}

struct model *model_add(struct controller *core, const struct model_record *record)
{
    struct model *model = table_take(&core->models_table);
    if (model != NULL) {
        model->r = *record;
        index_insert(&core->models, model);
    }
    return model;
}

struct baton_status model_of_call(const struct controller *core, struct call *call,
                                  struct model **out)
{
    const char *name = call->request->model;
    if (!text_is_name(name)) {
        return call_bad_field(call, "model",
                              "\"%.70s\" is not a name (1 to 63 characters of a-z, 0-9, '-', '.')",
                              name == NULL ? "" : name);
    }
    struct model *model = model_find(core, name);
    if (model == NULL) {
        return baton_status_hint(
            baton_status_make(BATON_NOT_FOUND, BATON_REASON_NONE, "there is no model %s", name),
            "create it: batonctl apply -f model.yaml");
    }
    *out = model;
    return baton_status_ok();
}

void model_wake_at(struct controller *core, struct model *model, uint64_t at_ns)
{
    if (model->due_ns == 0 || at_ns < model->due_ns) {
        model->due_ns = at_ns;
    }
    wake_at(core, at_ns);
}

void model_hold(struct controller *core, struct model *model, const char *by, const char *reason)
{
    model->r.held = true;
    text_copy(model->r.hold_reason, sizeof(model->r.hold_reason), reason);
    marks_put(core, RECORD_MODEL, model);
    model_touch(model);
    struct object_ref ref = ref_model(model);
    log_add(core, &ref, "ModelHeld", by, "%s", model->r.hold_reason);
}

void model_raise_floor(struct controller *core, struct model *model, uint64_t seq)
{
    if (seq > model->r.seq_floor) {
        model->r.seq_floor = seq;
        marks_put(core, RECORD_MODEL, model);
    }
}

struct baton_status model_create(struct controller *core, struct call *call,
                                 const struct update_policy *policy)
{
    struct baton_status st = call_expects(call, 0, "a model that does not exist");
    if (!baton_ok(&st)) {
        return st;
    }
    struct model_record record = { .generation = 1,
                                   .created_wall_ns = core->wall_ns,
                                   .policy = *policy };
    text_copy(record.name, sizeof(record.name), call->request->model);
    if (table_is_full(&core->models_table)) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "there are %u models, which is the limit", core->limits.models);
    }
    uid_make(core, record.uid);
    struct model *model = model_add(core, &record);
    model->marks.added = true;
    model->goals_dirty = true;
    marks_put(core, RECORD_MODEL, model);
    model_touch(model);
    floors_of_new_model(core, model);
    staleness_of_new_model(core, model);
    staleness_note_model(core, model);
    call->answer = ref_model(model);
    log_add(core, &call->answer, "ModelCreated", call_by(call), "model %s was created",
            record.name);
    return baton_status_ok();
}

static struct baton_status change(struct controller *core, struct call *call, struct model *model,
                                  const struct update_policy *policy)
{
    struct baton_status st = call_expects(call, model->r.revision, "the model");
    if (!baton_ok(&st)) {
        return st;
    }
    call->answer = ref_model(model);
    if (policy_equal(&model->r.policy, policy)) {
        return st;
    }
    model->r.policy = *policy;
    model->r.generation++;
    marks_put(core, RECORD_MODEL, model);
    model_touch(model);
    log_add(core, &call->answer, "ModelChanged", call_by(call),
            "the update policy of model %s changed (generation %llu)", model->r.name,
            (unsigned long long)model->r.generation);
    return st;
}

struct baton_status models_apply(struct controller *core, struct call *call)
{
    struct model *model = NULL;
    struct baton_status st = model_of_call(core, call, &model);
    if (!baton_ok(&st) && st.code != BATON_NOT_FOUND) {
        return st;
    }
    struct update_policy policy;
    st = policy_parse(call, &policy);
    if (!baton_ok(&st)) {
        return st;
    }
    return model == NULL ? model_create(core, call, &policy) : change(core, call, model, &policy);
}

/* The call's model, at the revision that the call expects. */
static struct baton_status expected_model(struct controller *core, struct call *call,
                                          struct model **out)
{
    struct baton_status st = model_of_call(core, call, out);
    if (baton_ok(&st)) {
        st = call_expects(call, (*out)->r.revision, "the model");
    }
    if (baton_ok(&st)) {
        call->answer = ref_model(*out);
    }
    return st;
}

struct baton_status models_suspend(struct controller *core, struct call *call)
{
    struct model *model = NULL;
    struct baton_status st = expected_model(core, call, &model);
    if (!baton_ok(&st) || model->r.suspended) {
        return st;
    }
    model->r.suspended = true;
    (MUTANT(SUSPEND_UNSTORED) ? marks_change : marks_put)(core, RECORD_MODEL, model);
    model_touch(model);
    log_add(core, &call->answer, "ModelSuspended", call_by(call),
            "no new ticket for model %s until it is resumed", model->r.name);
    return st;
}

/* A roll that runs goes on; what is published from now on waits for Resume. */
struct baton_status models_hold(struct controller *core, struct call *call)
{
    struct model *model = NULL;
    const char *reason = call->request->options.reason;
    struct baton_status st = expected_model(core, call, &model);
    if (!baton_ok(&st) || (model->r.held && text_equal(model->r.hold_reason, reason))) {
        return st;
    }
    if (text_is_empty(reason)) {
        return call_bad_field(call, "options.reason",
                              "a hold says why: --reason; others will read it");
    }
    model_hold(core, model, call_by(call), reason);
    return st;
}

/* What was published meanwhile is rolled now; what was published before is not: the version that an
 * undo went away from does not come back by itself. */
static void roll_pending(struct controller *core, struct model *model, const struct call *call)
{
    const struct version *newest = version_find(core, model->r.name, model->r.newest_seq);
    bool roll = model->r.roll_pending && model->r.policy.trigger == POLICY_TRIGGER_ON_PUBLISH &&
                newest != NULL && !newest->r.quarantined;
    model->r.roll_pending = false;
    if (roll) {
        struct roll_request request = { .cause = ROLL_CAUSE_PUBLISH,
                                        .by = call_by(call),
                                        .reason =
                                            "published while the model was held or suspended" };
        (void)roll_begin(core, model, model->r.newest_seq, &request);
    }
}

struct baton_status models_resume(struct controller *core, struct call *call)
{
    struct model *model = NULL;
    struct baton_status st = expected_model(core, call, &model);
    if (!baton_ok(&st) || (!model->r.suspended && !model->r.held)) {
        return st;
    }
    if (model->r.roll_pending && !rolls_make_room(core)) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "all %u rolls that are kept run", core->limits.rolls);
    }
    model->r.suspended = false;
    model->r.held = false;
    text_copy(model->r.hold_reason, sizeof(model->r.hold_reason), "");
    marks_put(core, RECORD_MODEL, model);
    model_touch(model);
    log_add(core, &call->answer, "ModelResumed", call_by(call), "model %s was resumed",
            model->r.name);
    roll_pending(core, model, call);
    return st;
}
