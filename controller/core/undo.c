/* undo.c -- taking a version back: Undo, Abort, and the rollback of a roll that is late.
 *
 * Each is a new roll that goes back, and a hold.  Undo of a running roll: back to the promoted
 * version (groups that were not swapped yet are on it already); of a completed roll: to the version
 * promoted before, which becomes promoted when the new roll completes.  Abort: as Undo of a running
 * roll, and the version is quarantined; where nothing was promoted before, there is nothing to go
 * back to and the roll just ends; so does one that only lets groups catch up with what is promoted.
 * Tickets of the old roll are asked back; those that were begun end by themselves, and their groups
 * come back with the new roll (invariant 12: a ticket is never re-aimed). */
#include <string.h>

#include "api/base/mutant.h"
#include "controller/core/fleet.h"

static bool is_quarantined(const struct controller *core, const struct model *model, uint64_t seq)
{
    const struct version *version = version_find(core, model->r.name, seq);
    return version != NULL && version->r.quarantined;
}

uint64_t undo_target(const struct controller *core, const struct model *model)
{
    const struct model_record *r = &model->r;
    bool already = model->active != NULL && model->active->r.to_seq == r->promoted_seq;
    bool before = model->active == NULL || already || is_quarantined(core, model, r->promoted_seq);
    uint64_t seq = before ? r->previous_promoted_seq : r->promoted_seq;
    return is_quarantined(core, model, seq) ? 0 : seq;
}

static struct baton_status refuse(const struct model *model, const char *why)
{
    return baton_status_hint(baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE,
                                               "model %s: %s", model->r.name, why),
                             "name a version with --to (batonctl get versions)");
}

static struct baton_status check_room(struct controller *core)
{
    if (!rolls_make_room(core)) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "all %u rolls that are kept run", core->limits.rolls);
    }
    return floors_refusal(core);
}

static struct baton_status check_version(struct controller *core, const struct model *model,
                                         uint64_t to_seq)
{
    const struct version *version = version_find(core, model->r.name, to_seq);
    if (version == NULL) {
        return baton_status_make(BATON_NOT_FOUND, BATON_REASON_NONE,
                                 "to_seq: model %s has no version %llu, or no longer keeps it",
                                 model->r.name, (unsigned long long)to_seq);
    }
    return is_quarantined(core, model, to_seq) ? refuse(model, "that version is quarantined")
                                               : baton_status_ok();
}

static struct baton_status check(struct controller *core, struct call *call,
                                 const struct model *model, uint64_t to_seq)
{
    struct baton_status st = call_expects(call, model->r.revision, "the model");
    if (!baton_ok(&st)) {
        return st;
    }
    if (to_seq == 0) {
        return refuse(model, model->active != NULL
                                 ? "no version was promoted before this roll"
                                 : "no other version was promoted before the present one");
    }
    st = check_version(core, model, to_seq);
    if (!baton_ok(&st)) {
        return st;
    }
    if (model->active != NULL && model->active->r.to_seq == to_seq) {
        return refuse(model, "the active roll goes to that version already");
    }
    if (model->active == NULL && model->r.promoted_seq == to_seq) {
        return refuse(model, "that version is the promoted one already");
    }
    return check_room(core);
}

void undo_revoke_tickets(struct controller *core, const struct model *model, uint64_t to_seq)
{
    uint32_t place = groups_first(core, model->r.name);
    for (struct group *group; (group = groups_at(core, place, model->r.name)) != NULL; place++) {
        const struct ticket_record *ticket = &group->r.ticket;
        if (group->r.ticket_open && !ticket->rejoin && ticket->to_seq == to_seq) {
            group->r.ticket.revoked = true;
            group->send_revoke = true;
            marks_put(core, RECORD_GROUP, group);
        }
    }
}

/* What happened to the old roll, in a verb and for those who wait. */
static const char *word_of(enum roll_cause cause, enum wait_outcome *outcome)
{
    switch (cause) {
    case ROLL_CAUSE_ABORT: *outcome = WAIT_OUTCOME_ABORTED; return "aborted";
    case ROLL_CAUSE_ROLLBACK: *outcome = WAIT_OUTCOME_ROLLED_BACK; return "rolled back";
    case ROLL_CAUSE_UNDO:
    case ROLL_CAUSE_PUBLISH:
    case ROLL_CAUSE_START:
    case ROLL_CAUSE_TRIGGER: break;
    }
    *outcome = WAIT_OUTCOME_UNDONE;
    return "undone";
}

static void hold(struct controller *core, struct model *model, const struct go_back *how,
                 uint64_t from_seq)
{
    char reason[BATON_TEXT_BYTES];
    const char *word = word_of(how->cause, &model->undone_as);
    bool empty = text_is_empty(how->reason);
    text_format(reason, sizeof(reason), "version %llu was %s%s%.120s", (unsigned long long)from_seq,
                word, empty ? "" : ": ", empty ? "" : how->reason);
    if (!MUTANT(UNDO_WITHOUT_HOLD)) {
        model_hold(core, model, how->by, reason);
    }
}

struct roll *undo_go_back(struct controller *core, struct model *model, const struct go_back *how)
{
    bool runs = model->active != NULL;
    uint64_t from_seq = runs ? model->active->r.to_seq : model->r.promoted_seq;
    if (runs) {
        undo_revoke_tickets(core, model, from_seq);
        roll_note_verb(core, model->active, words_get(&words_roll_cause, how->cause), how->by,
                       how->reason);
    }
    hold(core, model, how, from_seq);
    struct roll_request request = { .cause = how->cause, .by = how->by, .reason = how->reason };
    return roll_begin(core, model, how->to_seq, &request);
}

struct baton_status rolls_undo(struct controller *core, struct call *call)
{
    struct model *model = NULL;
    struct baton_status st = model_of_call(core, call, &model);
    if (!baton_ok(&st)) {
        return st;
    }
    uint64_t to_seq = call->request->to_seq != 0 ? call->request->to_seq : undo_target(core, model);
    st = check(core, call, model, to_seq);
    if (!baton_ok(&st)) {
        return st;
    }
    struct go_back how = { ROLL_CAUSE_UNDO, to_seq, call_by(call), call->request->options.reason };
    call->answer = ref_roll(undo_go_back(core, model, &how));
    return st;
}

static void quarantine(struct controller *core, struct call *call, struct model *model,
                       uint64_t seq)
{
    struct version *version = version_find(core, model->r.name, seq);
    const char *reason = call->request->options.reason;
    baton_assert(version != NULL);
    version->r.quarantined = true;
    text_copy(version->r.quarantine_reason, sizeof(version->r.quarantine_reason),
              text_is_empty(reason) ? "its roll was aborted" : reason);
    marks_put(core, RECORD_VERSION, version);
    struct object_ref ref = ref_version(version);
    log_add(core, &ref, "VersionQuarantined", call_by(call), "version %llu of model %s: %.150s",
            (unsigned long long)seq, model->r.name, version->r.quarantine_reason);
}

/* There is nothing to go back to: the roll ends where it is. */
static void abort_in_place(struct controller *core, struct call *call, struct model *model,
                           const struct go_back *how)
{
    struct roll *roll = model->active;
    undo_revoke_tickets(core, model, roll->r.to_seq);
    roll_note_verb(core, roll, "abort", how->by, how->reason);
    hold(core, model, how, roll->r.to_seq);
    roll_end(core, model, ROLL_STATE_ABORTED);
    call->answer = ref_roll(roll);
}

struct baton_status rolls_abort(struct controller *core, struct call *call)
{
    struct model *model = NULL;
    struct baton_status st = roll_active_of_call(core, call, &model);
    if (baton_ok(&st) && roll_goes_back(model->active)) {
        return refuse(model, "the active roll takes a version back already");
    }
    if (baton_ok(&st)) {
        st = check_room(core);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    uint64_t from_seq = model->active->r.to_seq;
    struct go_back how = { ROLL_CAUSE_ABORT, undo_target(core, model), call_by(call),
                           call->request->options.reason };
    if (model->active->r.catches_up) {
        abort_in_place(core, call, model, &how);
        return st; /* The version stays promoted: most groups serve it. */
    }
    if (version_find(core, model->r.name, how.to_seq) == NULL) {
        abort_in_place(core, call, model, &how);
    } else {
        call->answer = ref_roll(undo_go_back(core, model, &how));
    }
    quarantine(core, call, model, from_seq);
    return st;
}
