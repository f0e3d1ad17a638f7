/* tickets.c -- permissions to swap: when they are issued, and how they end.
 *
 * A roll ticket needs a slot of the budget; a rejoin ticket brings a group that is away to its
 * target and costs nothing (it is counted already, or never served).  A ticket is stored before it
 * is sent, sent again with each session, closed only by an outcome that names its uid. */
#include <string.h>

#include "api/base/mutant.h"
#include "controller/core/fleet.h"
#include "controller/core/text.h"
#include "controller/core/words.h"

enum { REFUSALS_COUNTED_MAX = 3 };

static bool may_have_ticket(const struct controller *core, const struct group *group)
{
    const struct agent *agent = group_agent(core, group);
    bool cordoned = group->r.cordoned && !MUTANT(CORDON_IGNORED);
    bool apart = cordoned || group->r.retired || group->r.returning ||
                 (group->r.asleep && !MUTANT(SLEEPER_TICKETED));
    return group->known && agent != NULL && agent->session != 0 && !group->r.ticket_open &&
           !apart && group->live.blocked[0] == '\0' && core->now_ns >= group->retry_ns;
}

bool ticket_is_ready(const struct controller *core, const struct model *model,
                     const struct group *group)
{
    const struct roll *roll = model->active;
    if (roll == NULL || group->r.pinned || !may_have_ticket(core, group) ||
        !group_is_available(group) || group->r.soaking) {
        return false;
    }
    /* Rule 7: no ticket unless 'from' can be put back, or the policy says that it need not. */
    bool restorable = group->live.can_restore || model->r.policy.swap.allow_recreate;
    return !group_lacks_live(model, group) && group->live.state == GROUP_STATE_STAGED &&
           group->live.staging_seq == roll->r.to_seq && restorable &&
           !group_is_on(core, group, roll->r.to_seq) &&
           version_find(core, model->r.name, roll->r.to_seq) != NULL &&
           !quarantine_holds(core, model->r.name, roll->r.to_seq);
}

static bool has_landed(const struct controller *core, const struct group *group,
                       const struct version *version)
{
    const struct agent *agent = group_agent(core, group);
    bool staged =
        group->live.staging_seq == version->r.seq && group->live.staged_bytes >= version->r.bytes;
    return staged || (agent != NULL && agent_has_landed(agent, version->r.digest));
}

bool ticket_is_rejoin_ready(const struct controller *core, const struct model *model,
                            const struct group *group)
{
    if (model->barrier != NULL) {
        return false; /* No gate opens while the groups of a barrier are shut. */
    }
    bool away = group->known &&
                (group->live.state == GROUP_STATE_JOINING || group->live.state == GROUP_STATE_OUT);
    if (!away || !may_have_ticket(core, group)) {
        return false;
    }
    const struct version *target =
        version_find(core, model->r.name, group_target(core, model, group));
    return target != NULL && has_landed(core, group, target);
}

/* Its leader says that it needs one: no other ticket helps before.  While a barrier is under way only its own tickets are open;
 * a sleeper has none before it wakes. */
static bool is_in_doubt(const struct controller *core, const struct model *model,
                        const struct group *group)
{
    const struct agent *agent = agent_find(core, group->r.agent);
    return model->barrier == NULL && !group->r.retired && !group->r.asleep && group->known &&
           agent != NULL && agent->session != 0 && !group->r.ticket_open &&
           group->live.state == GROUP_STATE_OUT && core->now_ns >= group->retry_ns &&
           strcmp(group->live.blocked, words_get(&words_blocked, BLOCKED_IN_DOUBT)) == 0 &&
           version_find(core, model->r.name, group_target(core, model, group)) != NULL;
}

uint64_t ticket_fingerprint(const struct ticket_record *ticket)
{
    struct fingerprint print = fingerprint_of(ticket->number);
    fingerprint_add_text(&print, ticket->uid);
    fingerprint_add_number(&print, ticket->epoch.generation);
    fingerprint_add_number(&print, ticket->epoch.n);
    fingerprint_add_number(&print, ticket->owner_term);
    fingerprint_add_number(&print, ticket->from_seq);
    fingerprint_add_text(&print, ticket->from_digest);
    fingerprint_add_number(&print, ticket->to_seq);
    fingerprint_add_text(&print, ticket->to_digest);
    return print.a;
}

static void fill(struct controller *core, const struct model *model, const struct group *group,
                 const struct version *to, struct ticket_record *ticket)
{
    memset(ticket, 0, sizeof(*ticket));
    uid_make(core, ticket->uid);
    ticket->number = group->r.ticket_number + (MUTANT(NUMBER_KEPT) ? 0 : 1);
    ticket->epoch = core->epoch;
    ticket->owner_term = group->r.owner_term;
    /* Invariant 12: from what the group reported, not from what we last asked for. */
    ticket->from_seq = MUTANT(FROM_STORED) ? group->r.committed_seq : group->live.committed_seq;
    text_copy(ticket->from_digest, sizeof(ticket->from_digest),
              group->live.committed_seq == 0 ? "" : group->live.committed_digest);
    ticket->to_seq = to->r.seq;
    text_copy(ticket->to_digest, sizeof(ticket->to_digest), to->r.digest);
    ticket->policy = model->r.policy.swap;
    ticket->issued_wall_ns = core->wall_ns;
    ticket->max_unavailable = model->r.policy.max_unavailable;
    ticket->max_unavailable_is_percent = model->r.policy.max_unavailable_is_percent;
}

static void issue(struct controller *core, struct model *model, struct group *group,
                  const struct version *to, uint64_t roll_number)
{
    fill(core, model, group, to, &group->r.ticket);
    group->r.ticket.roll_number = roll_number;
    group->r.ticket.rejoin = roll_number == 0;
    group->r.ticket.resolve = roll_number == 0 && is_in_doubt(core, model, group);
    baton_assert(group->r.ticket.number > group->live.highest_ticket);
    group->r.ticket_number = group->r.ticket.number;
    group->r.ticket_open = true;
    group->ticket_print = ticket_fingerprint(&group->r.ticket);
    if (roll_number != 0) {
        bool same = group->r.attempts_roll == roll_number;
        group->r.attempts = same ? group->r.attempts + 1 : 1;
        group->r.attempts_roll = roll_number;
    }
    group->send_ticket = true;
    group->issued_ns = core->now_ns;
    (MUTANT(TICKET_UNSTORED) ? marks_change : marks_put)(core, RECORD_GROUP, group);
    staleness_note_group(core, group); /* No longer ready: the next ticket counts on it. */
    group_enlist(model, group);
    if (!MUTANT(BUDGET_STALE)) {
        budget_recount(core, model, group);
    }
    order_update(core, model, group);
    struct object_ref ref = ref_group(group);
    log_add(core, &ref,
            group->r.ticket.resolve ? "ResolvingTicketIssued"
            : roll_number == 0      ? "RejoinTicketIssued"
                                    : "TicketIssued",
            NULL, "number %llu: version %llu -> %llu", (unsigned long long)group->r.ticket.number,
            (unsigned long long)group->r.ticket.from_seq,
            (unsigned long long)group->r.ticket.to_seq);
}

void ticket_issue_barrier(struct controller *core, struct model *model, struct group *group)
{
    const struct roll *roll = model->barrier;
    issue(core, model, group, version_find(core, model->r.name, roll->r.to_seq), roll->r.number);
    group->r.ticket.barrier = true;
}

static void issue_rejoins(struct controller *core, struct model *model)
{
    for (struct group *group = model->touched_first; group != NULL; group = group->touched_next) {
        if (!ticket_is_rejoin_ready(core, model, group) && !is_in_doubt(core, model, group)) {
            continue;
        }
        bool counted = budget_counts(group);
        bool first = group->r.committed_seq == 0 || group->r.as_new;
        baton_assert(counted || first); /* Invariant 4: it is free. */
        issue(core, model, group,
              version_find(core, model->r.name, group_target(core, model, group)), 0);
        baton_assert(budget_counts(group) == counted);
    }
}

static void issue_of_roll(struct controller *core, struct model *model)
{
    struct roll *roll = model->active;
    canary_count_room(model);
    const struct version *to = version_find(core, model->r.name, roll->r.to_seq);
    uint32_t place = 0;
    while (roll->room > 0 && budget_has_room(model)) {
        struct group *group = order_at(core, model, place);
        /* If the first one waits for a group that was named before it, so do the others. */
        if (group == NULL || order_waits_for(core, model, group) != NULL) {
            break;
        }
        baton_assert(!budget_counts(group));
        if (sessions_defer(core, model, group)) {
            place++;
            continue;
        }
        issue(core, model, group, to, roll->r.number);
        roll->room -= roll->room != UINT32_MAX;
        if (MUTANT(BUDGET_STALE)) {
            continue;
        }
        /* Invariant 4, counted anew after each ticket. */
        baton_assert(model->groups_counted <= model->max_unavailable);
    }
}

void tickets_issue(struct controller *core, struct model *model)
{
    if (model->r.suspended || core->cluster.floors_pending) {
        return;
    }
    issue_rejoins(core, model);
    bool rolls = model->active != NULL && model->active->r.state == ROLL_STATE_PROGRESSING;
    if (model->barrier != NULL || !rolls || loss_is_mass(model)) {
        return;
    }
    if (model->r.policy.strategy == POLICY_STRATEGY_BARRIER) {
        barrier_begin(core, model);
    } else {
        issue_of_roll(core, model);
    }
}

/* A refusal that is no failure: it was asked for, or the group came back without the ticket. */
static bool is_harmless(const struct group *group, const struct swap_record *record)
{
    bool moot = group->r.ticket.rejoin && group_is_available(group);
    return record->outcome == SWAP_OUTCOME_REFUSED && (group->r.ticket.revoked || moot);
}

/* Tickets in a row that did not commit.  A refusal touched nothing, so the next try stays near. */
static uint32_t count_failures(const struct group *group, const struct swap_record *record)
{
    uint32_t failures = group->r.failures;
    if (record->outcome == SWAP_OUTCOME_COMMITTED || is_harmless(group, record)) {
        return 0;
    }
    bool enough = record->outcome == SWAP_OUTCOME_REFUSED && failures >= REFUSALS_COUNTED_MAX;
    return enough ? failures : failures + 1;
}

static void close(struct controller *core, struct group *group, const struct swap_record *record)
{
    bool well = record->outcome == SWAP_OUTCOME_COMMITTED || is_harmless(group, record);
    history_add(core, group, record);
    group->r.failures = count_failures(group, record);
    cost_note_swap(core, group, record);
    group->r.ticket_open = false;
    group->ticket_print = 0;
    group->r.swapped = true;
    group->r.last_swap = *record;
    if (group->r.failures > 0) {
        group_back_off(core, group);
    }
    marks_put(core, RECORD_GROUP, group);
    group_touch(core, group);
    goals_touch_group(core, group);
    struct object_ref ref = ref_group(group);
    const char *word = words_get(&words_swap_outcome, record->outcome);
    const char *colon = record->message[0] == '\0' ? "" : ": ";
    if (well) {
        log_add(core, &ref, "SwapEnded", NULL, "number %llu to version %llu: %s%s%s",
                (unsigned long long)record->ticket_number, (unsigned long long)record->to_seq, word,
                colon, record->message);
    } else {
        log_warn(core, &ref, "SwapFailed", "number %llu to version %llu: %s%s%s",
                 (unsigned long long)record->ticket_number, (unsigned long long)record->to_seq,
                 word, colon, record->message);
    }
}

static void note_stored(struct controller *core, const struct agent *agent,
                        const struct ticket_outcome *outcome)
{
    if (core->out.stored_count == STEP_STORED_MAX) {
        return; /* The agent tells it again. */
    }
    struct stored_for *stored = &core->out.stored[core->out.stored_count++];
    *stored = (struct stored_for){ .session = agent->session };
    text_copy(stored->outcome.group, sizeof(stored->outcome.group), outcome->group);
    text_copy(stored->outcome.ticket_uid, sizeof(stored->outcome.ticket_uid),
              outcome->record.ticket_uid);
}

/* The ticket says what it was about; the agent says how it ended. */
static void close_with(struct controller *core, struct group *group,
                       const struct ticket_outcome *outcome)
{
    struct swap_record record = outcome->record;
    record.ticket_number = group->r.ticket.number;
    record.from_seq = group->r.ticket.from_seq;
    record.to_seq = group->r.ticket.to_seq;
    record.in_flight = group->r.ticket.policy.in_flight;
    record.kv = group->r.ticket.policy.kv;
    record.mode = group->r.ticket.rejoin ? POLICY_MODE_PAUSE : group->r.ticket.policy.mode;
    if (words_get(&words_swap_outcome, (uint32_t)record.outcome)[0] == '\0') {
        record.outcome = SWAP_OUTCOME_OUT; /* Unknown to us: the group counts until it serves. */
    }
    const struct model *model = model_find(core, group->r.model);
    /* An outcome of long ago, which a store that went back asks for, is older than the report. */
    bool is_old = outcome->record.ticket_number < group->live.highest_ticket;
    if (!is_old) {
        group_take_committed(core, group, outcome->committed_seq, outcome->committed_digest);
    }
    if (model != NULL && !group->r.ticket.rejoin && record.outcome == SWAP_OUTCOME_COMMITTED) {
        soak_begin(core, model, group);
    }
    close(core, group, &record);
}

void tickets_take_outcome(struct controller *core, struct agent *agent,
                          const struct ticket_outcome *outcome)
{
    struct group *group = group_find(core, outcome->group);
    const char *uid = outcome->record.ticket_uid;
    /* An outcome that is of no ticket of ours is also done with: the agent need not repeat it. */
    note_stored(core, agent, outcome);
    if (group == NULL || !text_equal(group->r.agent, agent->r.name)) {
        return;
    }
    if (MUTANT(OUTCOME_DROPPED)) {
        return;
    }
    if (group->r.ticket_open && text_equal(group->r.ticket.uid, uid)) {
        close_with(core, group, outcome);
        return;
    }
    bool again = group->r.swapped && text_equal(group->r.last_swap.ticket_uid, uid);
    if (!again) {
        struct object_ref ref = ref_group(group);
        log_warn(core, &ref, "StaleOutcome", "outcome of ticket %s, which is not the open one",
                 uid);
    }
}

void ticket_close_lost(struct controller *core, struct group *group, enum swap_outcome outcome,
                       const char *why)
{
    if (!group->r.ticket_open) {
        return;
    }
    struct swap_record record = { .outcome = outcome, .ended_wall_ns = core->wall_ns };
    text_copy(record.ticket_uid, sizeof(record.ticket_uid), group->r.ticket.uid);
    text_copy(record.message, sizeof(record.message), why);
    record.ticket_number = group->r.ticket.number;
    record.from_seq = group->r.ticket.from_seq;
    record.to_seq = group->r.ticket.to_seq;
    close(core, group, &record);
}
