/* quarantine.c -- versions: no target any more (quarantine), and kept (pin).
 *
 * A quarantined version is the target of no group, roll or ticket.  Tickets to it that nobody began
 * are asked back; a roll to it stands still, until it is undone, superseded, or the quarantine is
 * lifted.  Groups that serve it go on serving it unless the call asks to evict: then a roll takes
 * them to the promoted version, or, if that is the quarantined one, to the one promoted before.  A
 * group that comes back from OUT does not return to it. */
#include "controller/core/fleet.h"
#include "controller/core/text.h"

bool quarantine_holds(const struct controller *core, const char *model, uint64_t seq)
{
    const struct version *version = version_find(core, model, seq);
    return version != NULL && version->r.quarantined;
}

struct baton_status quarantine_refusal(const struct controller *core, const struct model *model,
                                       uint64_t seq)
{
    const struct version *version = version_find(core, model->r.name, seq);
    if (version == NULL || !version->r.quarantined) {
        return baton_status_ok();
    }
    const char *why = version->r.quarantine_reason;
    return baton_status_hint(
        baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_HELD,
                          "version %llu of model %s is quarantined%s%.160s",
                          (unsigned long long)seq, model->r.name, why[0] == '\0' ? "" : ": ", why),
        "batonctl unquarantine %s@%llu", model->r.name, (unsigned long long)seq);
}

uint64_t quarantine_fallback(const struct controller *core, const struct model *model)
{
    const uint64_t choices[] = { model->r.promoted_seq, model->r.previous_promoted_seq };
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
        if (choices[i] != 0 && !quarantine_holds(core, model->r.name, choices[i])) {
            return choices[i];
        }
    }
    return 0;
}

static struct baton_status version_of_call(const struct controller *core, struct call *call,
                                           struct version **out)
{
    struct model *model = NULL;
    struct baton_status st = model_of_call(core, call, &model);
    if (!baton_ok(&st)) {
        return st;
    }
    struct version *version = version_find(core, model->r.name, call->request->to_seq);
    if (version == NULL) {
        return baton_status_hint(
            baton_status_make(BATON_NOT_FOUND, BATON_REASON_NONE,
                              "model %s has no version %llu, or no longer keeps it", model->r.name,
                              (unsigned long long)call->request->to_seq),
            "`batonctl get versions -m %s` lists them", model->r.name);
    }
    call->answer = ref_version(version);
    *out = version;
    return call_expects(call, version->r.revision, "the version");
}

static void changed(struct controller *core, const struct call *call, struct version *version,
                    const char *reason, const char *what)
{
    struct model *model = model_find(core, version->r.model);
    const char *why = call->request->options.reason;
    marks_put(core, RECORD_VERSION, version);
    model->goals_dirty = true;
    model_touch(model);
    log_add(core, &call->answer, reason, call_by(call), "version %llu of model %s %s%s%.150s",
            (unsigned long long)version->r.seq, version->r.model, what,
            text_is_empty(why) ? "" : ": ", text_is_empty(why) ? "" : why);
}

static struct baton_status set_pin(struct controller *core, struct call *call, bool pinned)
{
    struct version *version = NULL;
    struct baton_status st = version_of_call(core, call, &version);
    if (!baton_ok(&st) || version->r.pinned == pinned) {
        return st;
    }
    version->r.pinned = pinned;
    changed(core, call, version, pinned ? "VersionPinned" : "VersionUnpinned",
            pinned ? "is kept until it is unpinned" : "is kept no longer than others");
    return st;
}

struct baton_status versions_pin(struct controller *core, struct call *call)
{
    return set_pin(core, call, true);
}

struct baton_status versions_unpin(struct controller *core, struct call *call)
{
    return set_pin(core, call, false);
}

static bool anybody_is_on(const struct controller *core, const struct model *model, uint64_t seq)
{
    uint32_t place = groups_first(core, model->r.name);
    for (struct group *group; (group = groups_at(core, place, model->r.name)) != NULL; place++) {
        if (!group->r.retired && group_is_on(core, group, seq)) {
            return true;
        }
    }
    return false;
}

/* Where evicted groups go, once 'seq' is no target; 0: there is nothing. */
static uint64_t refuge(const struct controller *core, const struct model *model, uint64_t seq)
{
    const uint64_t choices[] = { model->r.promoted_seq, model->r.previous_promoted_seq };
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
        uint64_t choice = choices[i];
        bool usable = choice != 0 && choice != seq &&
                      version_find(core, model->r.name, choice) != NULL &&
                      !quarantine_holds(core, model->r.name, choice);
        if (usable) {
            return choice;
        }
    }
    return 0;
}

static bool is_under_way(const struct model *model, uint64_t seq)
{
    return model->active != NULL && model->active->r.to_seq == seq;
}

static struct baton_status check_evict(struct controller *core, const struct model *model,
                                       uint64_t seq)
{
    if (refuge(core, model, seq) == 0) {
        return baton_status_hint(
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE,
                              "model %s has no other version that was promoted", model->r.name),
            "quarantine it without evict, and roll to another: batonctl roll start %s --to SEQ",
            model->r.name);
    }
    if (!rolls_make_room(core)) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "all %u rolls that are kept run", core->limits.rolls);
    }
    return floors_refusal(core);
}

static void evict(struct controller *core, const struct call *call, struct model *model,
                  uint64_t seq)
{
    bool elsewhere = model->active != NULL && !is_under_way(model, seq);
    if (elsewhere || (!is_under_way(model, seq) && !anybody_is_on(core, model, seq))) {
        return; /* A roll takes them off it already, or nobody serves it. */
    }
    struct roll_request request = { .cause = ROLL_CAUSE_UNDO,
                                    .by = call_by(call),
                                    .reason = "the version is quarantined" };
    if (is_under_way(model, seq)) {
        model->undone_as = WAIT_OUTCOME_QUARANTINED;
    }
    (void)roll_begin(core, model, refuge(core, model, seq), &request);
}

struct baton_status versions_quarantine(struct controller *core, struct call *call)
{
    bool evicts = call->request->body.quarantine.evict;
    struct version *version = NULL;
    struct baton_status st = version_of_call(core, call, &version);
    if (!baton_ok(&st)) {
        return st;
    }
    uint64_t seq = version->r.seq;
    struct model *model = model_find(core, version->r.model);
    st = evicts ? check_evict(core, model, seq) : st;
    if (!baton_ok(&st)) {
        return st;
    }
    if (!version->r.quarantined) {
        version->r.quarantined = true;
        text_copy(version->r.quarantine_reason, sizeof(version->r.quarantine_reason),
                  call->request->options.reason);
        undo_revoke_tickets(core, model, seq);
        changed(core, call, version, "VersionQuarantined", "is no target any more");
    }
    if (evicts) {
        evict(core, call, model, seq);
    }
    return st;
}

struct baton_status versions_unquarantine(struct controller *core, struct call *call)
{
    struct version *version = NULL;
    struct baton_status st = version_of_call(core, call, &version);
    if (!baton_ok(&st) || !version->r.quarantined) {
        return st;
    }
    version->r.quarantined = false;
    text_copy(version->r.quarantine_reason, sizeof(version->r.quarantine_reason), "");
    changed(core, call, version, "VersionUnquarantined", "may be a target again");
    return st;
}
