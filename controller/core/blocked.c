/* blocked.c -- why a group waits: always exactly one reason, the first that applies of:
 *
 *   0. (none)                  it is retired
 *   1. AGENT_UNKNOWN           nobody is there who could do anything
 *   2. (none)                  it has a ticket, or its agent is at work without one
 *   2a. GROUP_ASLEEP           an operator or trainer put it to sleep
 *   3. NO_VERSION              there is nothing to bring it to
 *   4. SOAKING                 it was swapped and keeps its slot for a while
 *   5. (none)                  it serves what it should
 *   6. STORE_FLOORS_UNKNOWN    the whole store waits
 *   7. MODEL_SUSPENDED         the whole model waits
 *   8. GROUP_CORDONED          an operator took it out
 *   9. VERSION_QUARANTINED     what it serves, or should get, is no target
 *  10. GROUP_PINNED            an operator keeps it where it is
 *  11. the agent's own word    RANK_MISSING, ENGINE_UNREACHABLE, NO_MEMORY, ...
 *  12. MODEL_HELD              no roll, because of a hold
 *  13. ROLL_PAUSED             the whole roll waits
 *  14. STAGE_FAILED            the bytes could not be landed
 *  15. STAGING                 the bytes are being landed
 *  16. SWAP_FAILED             the last ticket failed; the next one waits
 *  17. NO_RESTORE_SOURCE       a failure could not be undone (rule 7)
 *  17a. LIVE_IMPOSSIBLE        the policy says live, and it cannot
 *  18. SESSION_LEASES          sessions need it as it is (for a time)
 *  19. MASS_LOSS               too many others are lost, although the budget would have room
 *  20. SOAKING, CHECK_PENDING, CHECK_FAILED, CANARY_HOLD
 *                              the canary step lets no more groups go, by what it waits for; or
 *                              a group that was named to go before it is still to go
 *  21. BARRIER_WAITING         everything is ready; other groups of the barrier are not
 *  22. BUDGET_FULL             everything is ready; the others are away
 *
 * So what concerns more groups comes first, and what is left at the end is the budget. */
#include <string.h>

#include "api/base/mutant.h"
#include "controller/core/fleet.h"
#include "controller/core/text.h"
#include "controller/core/words.h"

static bool has_session(const struct controller *core, const struct group *group)
{
    const struct agent *agent = group_agent(core, group);
    return group->known && agent != NULL && agent->session != 0;
}

static bool joins(const struct group *group)
{
    return group->live.state == GROUP_STATE_JOINING || group->live.state == GROUP_STATE_OUT;
}

/* Whether it serves something else than it should serve some time. */
static bool is_behind(const struct controller *core, const struct model *model,
                      const struct group *group)
{
    if (quarantine_holds(core, model->r.name, group->live.committed_seq)) {
        return true;
    }
    bool apart = group->r.cordoned || group->r.pinned;
    if (model->active == NULL && apart && model->r.promoted_seq != 0 &&
        !group_is_on(core, group, model->r.promoted_seq)) {
        return true;
    }
    if (model->active != NULL) {
        return !group_is_on(core, group, model->active->r.to_seq);
    }
    bool stopped = model->r.held || model->r.suspended;
    return late_is_behind(core, model, group) || (stopped && order_lag(model, group) > 0);
}

/* Of words that the agent used; one that this build does not know says no more than "not yet". */
static enum blocked_reason reason_told(const struct group *group)
{
    uint32_t number = BLOCKED_STAGING;
    (void)words_find(&words_blocked, group->live.blocked, &number);
    return (enum blocked_reason)number;
}

static enum blocked_reason reason_of_bytes(const struct group *group, uint64_t seq)
{
    if (group->live.state == GROUP_STATE_STAGE_FAILED) {
        return BLOCKED_STAGE_FAILED;
    }
    bool staged = group->live.state == GROUP_STATE_STAGED && group->live.staging_seq == seq;
    return staged ? BLOCKED_NONE : BLOCKED_STAGING;
}

static enum blocked_reason reason_of_join(const struct controller *core, const struct model *model,
                                          const struct group *group)
{
    if (model->barrier != NULL) {
        return BLOCKED_BARRIER_WAITING;
    }
    return core->now_ns < group->retry_ns ? BLOCKED_SWAP_FAILED : BLOCKED_STAGING;
}

static enum blocked_reason reason_of_step(const struct controller *core, const struct model *model,
                                          const struct group *group)
{
    if (order_waits_for(core, model, group) != NULL) {
        return BLOCKED_CANARY_HOLD;
    }
    if (model->active->room > 0) {
        return BLOCKED_BUDGET_FULL;
    }
    switch (model->active->wait) {
    case CANARY_WAIT_SOAK: return BLOCKED_SOAKING;
    case CANARY_WAIT_CHECK: return BLOCKED_CHECK_PENDING;
    case CANARY_WAIT_FAILED: return BLOCKED_CHECK_FAILED;
    case CANARY_WAIT_NONE:
    case CANARY_WAIT_GROUPS:
    case CANARY_WAIT_HOLD: break;
    }
    return BLOCKED_CANARY_HOLD;
}

static enum blocked_reason reason_in_roll(const struct controller *core, const struct model *model,
                                          const struct group *group)
{
    const struct roll *roll = model->active;
    if (roll == NULL) {
        return BLOCKED_MODEL_HELD;
    }
    if (roll->r.state == ROLL_STATE_PAUSED) {
        return MUTANT(BLOCKED_LIES) ? BLOCKED_BUDGET_FULL : BLOCKED_ROLL_PAUSED;
    }
    enum blocked_reason bytes = reason_of_bytes(group, roll->r.to_seq);
    if (bytes != BLOCKED_NONE) {
        return bytes;
    }
    if (core->now_ns < group->retry_ns) {
        return group->r.last_swap.router_not_drained ? BLOCKED_ROUTER_NOT_DRAINED
                                                     : BLOCKED_SWAP_FAILED;
    }
    bool restorable = group->live.can_restore || model->r.policy.swap.allow_recreate;
    if (!restorable) {
        return BLOCKED_NO_RESTORE_SOURCE;
    }
    if (group_lacks_live(model, group)) {
        return BLOCKED_LIVE_IMPOSSIBLE;
    }
    if (sessions_hold(core, model, group)) {
        return BLOCKED_SESSION_LEASES;
    }
    bool barrier = model->r.policy.strategy == POLICY_STRATEGY_BARRIER;
    if (loss_is_mass(model)) {
        return barrier || budget_has_room(model) ? BLOCKED_MASS_LOSS : BLOCKED_BUDGET_FULL;
    }
    return barrier ? BLOCKED_BARRIER_WAITING : reason_of_step(core, model, group);
}

static enum blocked_reason reason_of_no_target(const struct controller *core,
                                               const struct model *model, const struct group *group)
{
    bool bad = model != NULL && quarantine_holds(core, model->r.name, group_committed(group));
    bool other = model != NULL && quarantine_holds(core, model->r.name, model->r.promoted_seq);
    return bad || other ? BLOCKED_VERSION_QUARANTINED : BLOCKED_NO_VERSION;
}

/* What an operator said of the group or of a version.  One that returned is away like a drained one until its gate is
 * seen shut, but its agent may know better why. */
static enum blocked_reason reason_of_operator(const struct controller *core,
                                              const struct model *model, const struct group *group,
                                              bool away)
{
    if (group->r.cordoned || (group->r.returning && group->live.blocked[0] == '\0')) {
        return BLOCKED_GROUP_CORDONED;
    }
    if (away) {
        return BLOCKED_NONE;
    }
    uint64_t wanted = model->active != NULL ? model->active->r.to_seq : 0;
    bool stands = quarantine_holds(core, model->r.name, wanted);
    bool stuck = wanted == 0 && quarantine_holds(core, model->r.name, group->live.committed_seq);
    if (stands || stuck) {
        return BLOCKED_VERSION_QUARANTINED;
    }
    return group->r.pinned ? BLOCKED_GROUP_PINNED : BLOCKED_NONE;
}

enum blocked_reason blocked_reason_of(const struct controller *core, const struct model *model,
                                      const struct group *group)
{
    if (group->r.retired) {
        return BLOCKED_NONE;
    }
    if (!has_session(core, group)) {
        return BLOCKED_AGENT_UNKNOWN;
    }
    bool away = joins(group);
    if (group_sleeps(group)) {
        return BLOCKED_GROUP_ASLEEP;
    }
    if (group->r.ticket_open || (!away && !group_is_available(group))) {
        return BLOCKED_NONE;
    }
    if (model == NULL || (away && group_target(core, model, group) == 0)) {
        return reason_of_no_target(core, model, group);
    }
    if (!away && group->r.soaking) {
        return BLOCKED_SOAKING;
    }
    if (!away && !is_behind(core, model, group)) {
        return BLOCKED_NONE;
    }
    if (core->cluster.floors_pending) {
        return BLOCKED_STORE_FLOORS_UNKNOWN;
    }
    if (model->r.suspended) {
        return BLOCKED_MODEL_SUSPENDED;
    }
    enum blocked_reason operators = reason_of_operator(core, model, group, away);
    if (operators != BLOCKED_NONE) {
        return operators;
    }
    if (group->live.blocked[0] != '\0') {
        return reason_told(group);
    }
    return away ? reason_of_join(core, model, group) : reason_in_roll(core, model, group);
}

static void explain_budget(const struct model *model, char out[BATON_TEXT_BYTES])
{
    text_format(out, BATON_TEXT_BYTES,
                "%u of %u groups that may be away are away; the next one that returns unblocks it",
                model->groups_counted, model->max_unavailable);
}

static void explain_swap(const struct controller *core, const struct group *group,
                         char out[BATON_TEXT_BYTES])
{
    const struct swap_record *last = &group->r.last_swap;
    uint64_t left_ns = group->retry_ns > core->now_ns ? group->retry_ns - core->now_ns : 0;
    text_format(out, BATON_TEXT_BYTES, "%s%s%.150s; the next try is in %llu s",
                words_get(&words_swap_outcome, last->outcome), last->message[0] == '\0' ? "" : ": ",
                last->message, (unsigned long long)(left_ns / S_NS + 1));
}

static void explain_staging(const struct group *group, char out[BATON_TEXT_BYTES])
{
    const char *message = group->live.message;
    if (message[0] != '\0') {
        text_copy(out, BATON_TEXT_BYTES, message);
        return;
    }
    text_format(out, BATON_TEXT_BYTES, "agent %s lands the bytes (%llu so far)", group->r.agent,
                (unsigned long long)group->live.staged_bytes);
}

static void explain_model(const struct model *model, const struct group *group,
                          enum blocked_reason reason, char out[BATON_TEXT_BYTES])
{
    if (reason == BLOCKED_NO_VERSION && model == NULL) {
        text_format(out, BATON_TEXT_BYTES,
                    "model %s does not exist; create it: batonctl apply -f model.yaml",
                    group->r.model);
    } else if (reason == BLOCKED_NO_VERSION && model->r.newest_seq != 0) {
        text_format(out, BATON_TEXT_BYTES,
                    "no version of model %s was rolled yet; start one: batonctl roll start "
                    "model/%s",
                    group->r.model, group->r.model);
    } else if (reason == BLOCKED_NO_VERSION) {
        text_format(out, BATON_TEXT_BYTES,
                    "model %s has no published version; publish one: batonctl publish DIR --model "
                    "%s",
                    group->r.model, group->r.model);
    } else if (reason == BLOCKED_MODEL_HELD) {
        text_format(out, BATON_TEXT_BYTES, "%.150s; batonctl resume model/%s", model->r.hold_reason,
                    group->r.model);
    } else {
        text_format(out, BATON_TEXT_BYTES, "model %s is suspended; batonctl resume model/%s",
                    group->r.model, group->r.model);
    }
}

static void explain_loss(const struct model *model, char out[BATON_TEXT_BYTES])
{
    const struct update_policy *policy = &model->r.policy;
    bool given = policy->mass_loss != 0;
    text_format(out, BATON_TEXT_BYTES,
                "%u of %u groups are OUT or UNKNOWN, more than massLoss (%u%s) allows; bring them "
                "back: batonctl get groups -m %s",
                model->groups_lost, model->groups_count, given ? policy->mass_loss : 50,
                !given || policy->mass_loss_is_percent ? "%" : "", model->r.name);
}

static void explain_quarantine(const struct controller *core, const struct model *model,
                               const struct group *group, char out[BATON_TEXT_BYTES])
{
    uint64_t seq = model->active != NULL ? model->active->r.to_seq : group_committed(group);
    if (!quarantine_holds(core, model->r.name, seq)) {
        seq = quarantine_holds(core, model->r.name, group_committed(group)) ? group_committed(group)
                                                                            : model->r.promoted_seq;
    }
    const struct version *version = version_find(core, model->r.name, seq);
    const char *why = version == NULL ? "" : version->r.quarantine_reason;
    text_format(out, BATON_TEXT_BYTES,
                "version %llu is quarantined%s%.90s; batonctl roll undo %s, or batonctl roll start "
                "%s --to another, or batonctl unquarantine %s@%llu",
                (unsigned long long)seq, why[0] == '\0' ? "" : ": ", why, model->r.name,
                model->r.name, model->r.name, (unsigned long long)seq);
}

/* What an operator said; the reason is theirs. */
static void explain_operator(const struct group *group, enum blocked_reason reason,
                             char out[BATON_TEXT_BYTES])
{
    bool pinned = reason == BLOCKED_GROUP_PINNED;
    if (group->r.returning && !group->r.cordoned && !pinned) {
        text_copy(out, BATON_TEXT_BYTES,
                  "it was retired and came back: its gate is shut first, then it joins as new");
        return;
    }
    const char *why = pinned ? group->r.pin_reason : group->r.cordon_reason;
    const char *how = pinned ? "pinned" : group->r.drained ? "drained" : "cordoned";
    text_format(out, BATON_TEXT_BYTES, "it was %s%s%.120s; batonctl %s group/%s", how,
                why[0] == '\0' ? "" : ": ", why, pinned ? "unpin" : "uncordon", group->r.name);
}

static void explain_agent(const struct controller *core, const struct group *group,
                          char out[BATON_TEXT_BYTES])
{
    const struct agent *agent = agent_find(core, group->r.agent);
    if (agent != NULL && agent->session != 0) {
        text_format(out, BATON_TEXT_BYTES,
                    "agent %s no longer names it: put it back in its configuration, or batonctl "
                    "retire group/%s --attest-dead",
                    group->r.agent, group->r.name);
        return;
    }
    text_format(out, BATON_TEXT_BYTES, "agent %s has no session; start or reconnect it",
                group->r.agent);
}

/* The agent's own words, where it has any. */
static void explain_told(const struct group *group, enum blocked_reason reason,
                         char out[BATON_TEXT_BYTES])
{
    if (group->live.message[0] != '\0') {
        text_copy(out, BATON_TEXT_BYTES, group->live.message);
    } else if (reason == BLOCKED_NO_RESTORE_SOURCE) {
        text_copy(out, BATON_TEXT_BYTES,
                  "its present version could not be put back after a failure; land it on the "
                  "agent, or set spec.update.allowRecreate");
    } else {
        text_format(out, BATON_TEXT_BYTES, "agent %s reports %s; see its log", group->r.agent,
                    words_get(&words_blocked, reason));
    }
}

static void explain_hold(const struct controller *core, const struct model *model,
                         const struct group *group, char out[BATON_TEXT_BYTES])
{
    const struct group *first = order_waits_for(core, model, group);
    if (first != NULL) {
        text_format(out, BATON_TEXT_BYTES, "group %s was named to go before it", first->r.name);
    } else {
        canary_explain(core, model, out);
    }
}

static void explain_sessions(const struct controller *core, const struct group *group,
                             char out[BATON_TEXT_BYTES])
{
    const struct model *model = model_find(core, group->r.model);
    const struct version *version = version_find(core, group->r.model, group->counted_seq);
    text_format(out, BATON_TEXT_BYTES,
                "%u sessions hold version %llu, and no other group is ready with it; their end "
                "unblocks it, at the latest %llu s after they began to hold it (sessions.maxHold)",
                version == NULL ? 0 : version->sessions, (unsigned long long)group->counted_seq,
                (unsigned long long)(model->r.policy.sessions.max_hold_ms / 1000));
}

static void explain_live(const struct group *group, char out[BATON_TEXT_BYTES])
{
    const char *why = group->live.live_reason;
    text_format(out, BATON_TEXT_BYTES,
                "%.170s; it is not paused instead: set spec.update.swapMode: pause",
                why[0] != '\0' ? why : "its agent does not say that it can swap live");
}

void blocked_explain(const struct controller *core, const struct group *group,
                     enum blocked_reason reason, char out[BATON_TEXT_BYTES])
{
    const struct model *model = model_find(core, group->r.model);
    switch (reason) {
    case BLOCKED_NONE: text_copy(out, BATON_TEXT_BYTES, ""); return;
    case BLOCKED_BUDGET_FULL: explain_budget(model, out); return;
    case BLOCKED_BARRIER_WAITING: barrier_explain(core, model, out); return;
    case BLOCKED_SESSION_LEASES: explain_sessions(core, group, out); return;
    case BLOCKED_ROUTER_NOT_DRAINED:
    case BLOCKED_SWAP_FAILED: explain_swap(core, group, out); return;
    case BLOCKED_STAGING: explain_staging(group, out); return;
    case BLOCKED_AGENT_UNKNOWN: explain_agent(core, group, out); return;
    case BLOCKED_GROUP_ASLEEP: sleep_explain(group, out); return;
    case BLOCKED_LIVE_IMPOSSIBLE: explain_live(group, out); return;
    case BLOCKED_GROUP_CORDONED:
    case BLOCKED_GROUP_PINNED: explain_operator(group, reason, out); return;
    case BLOCKED_MASS_LOSS: explain_loss(model, out); return;
    case BLOCKED_VERSION_QUARANTINED: explain_quarantine(core, model, group, out); return;
    case BLOCKED_NO_VERSION:
    case BLOCKED_MODEL_HELD:
    case BLOCKED_MODEL_SUSPENDED: explain_model(model, group, reason, out); return;
    case BLOCKED_SOAKING:
        if (group->r.soaking) {
            soak_explain(core, model, group, out);
            return;
        }
        canary_explain(core, model, out);
        return;
    case BLOCKED_CANARY_HOLD: explain_hold(core, model, group, out); return;
    case BLOCKED_CHECK_PENDING:
    case BLOCKED_CHECK_FAILED: canary_explain(core, model, out); return;
    case BLOCKED_ROLL_PAUSED:
        text_format(out, BATON_TEXT_BYTES, "roll %s-%llu is paused; batonctl roll resume model/%s",
                    group->r.model, (unsigned long long)model->r.active_roll, group->r.model);
        return;
    case BLOCKED_STORE_FLOORS_UNKNOWN:
        text_copy(out, BATON_TEXT_BYTES,
                  "the store went back and not all agents have restated what they have seen; bring "
                  "all agents up");
        return;
    case BLOCKED_NO_RESTORE_SOURCE:
    case BLOCKED_STAGE_FAILED:
    case BLOCKED_RANK_MISSING:
    case BLOCKED_NO_MEMORY:
    case BLOCKED_NO_TRANSPORT:
    case BLOCKED_INCOMPATIBLE_LAYOUT:
    case BLOCKED_STORE_UNAVAILABLE:
    case BLOCKED_ENGINE_UNREACHABLE:
    case BLOCKED_ENGINE_NEEDS_RECREATE:
    case BLOCKED_ENGINE_UNGUARDED:
    case BLOCKED_IN_DOUBT:
    case BLOCKED_REASONS_END: break;
    }
    explain_told(group, reason, out);
}
