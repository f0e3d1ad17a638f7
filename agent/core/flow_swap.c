/* flow_swap.c -- an accepted ticket, to COMMIT and open gates; see flow.h. */
#include <string.h>

#include "agent/core/flow.h"
#include "agent/core/member.h"
#include "agent/core/ops.h"
#include "api/base/mutant.h"

struct journal_members flow_members(const struct group *group)
{
    struct journal_members members = { .count = group->config->engines_count };
    for (uint32_t i = 0; i < members.count; i++) {
        memcpy(members.incarnations[i], group->engines[i].facts.incarnation,
               sizeof members.incarnations[i]);
    }
    return members;
}

static enum agent_level weakest(const struct group *group)
{
    enum agent_level level = AGENT_LEVEL_RESIDENT;
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        if (group->engines[i].level < level) {
            level = group->engines[i].level;
        }
    }
    return level;
}

void flow_accept(struct agent *agent, struct group *group, const struct agent_ticket *ticket)
{
    const struct landing *row = landings_find(&agent->landings, ticket->to.digest);
    struct journal_record record = group_record(group, JOURNAL_ACCEPT);
    record.accept.ticket = *ticket;
    record.accept.members = flow_members(group);
    agent_write(agent, &record);
    group->message[0] = '\0';
    group->blocked = "";
    group->verdict = AGENT_OUTCOME_NONE;
    group->held = 0;
    group->barrier_ns = 0;
    group->inside = 0;
    group->kept = 0;
    group->aborted = 0;
    group->drain_expired = false;
    group->not_drained = false;
    group->stays_open = false;
    group->go_back = false;
    group->deadline_ns = AGENT_NEVER;
    memset(&group->probe, 0, sizeof group->probe);
    memset(&group->phases, 0, sizeof group->phases);
    group->phases.queue_ns = ticket->queue_ns;
    group->phases.stage_ns = row != NULL ? row->took_ns : 0;
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        group->engines[i].touched = false;
        group->engines[i].restored = false;
    }
    group_note(agent, group, false, "TicketAccepted", "ticket %llu: version %llu to %llu%s",
               (unsigned long long)ticket->number, (unsigned long long)ticket->from.seq,
               (unsigned long long)ticket->to.seq, flow_is_live(group) ? ", live" : "");
    if (flow_hooks_first(group) == PHASE_DRAIN) {
        flow_hooks_enter(agent, group, PHASE_DRAIN);
    } else {
        phase_enter(agent, group, PHASE_SETTLE);
    }
}

static void fill_record(const struct agent *agent, const struct group *group,
                        enum agent_outcome outcome, struct agent_swap_record *record)
{
    const struct ledger_group *ledger = group->ledger;
    const struct landing *row = landings_find(&agent->landings, ledger->ticket.to.digest);
    memcpy(record->ticket_uid, ledger->ticket.uid, sizeof record->ticket_uid);
    record->ticket_number = ledger->ticket.number;
    record->epoch = ledger->ticket.epoch;
    record->from = ledger->ticket.from;
    record->to = ledger->ticket.to;
    record->outcome = outcome;
    record->phases = group->phases;
    record->bytes = row != NULL ? row->landed_bytes : 0;
    record->level = weakest(group);
    record->ended_wall_ns = agent->wall_ns;
    record->requests_held = group->held;
    record->requests_inside = group->inside;
    record->requests_kept = group->kept;
    record->requests_aborted = group->aborted;
    record->drain_expired = group->drain_expired;
    record->router_not_drained = group->not_drained || MUTANT(ROUTER_BLAMED);
    record->barrier_ns = group->barrier_ns;
    record->probe_logprob = group->probe.logprob_sum;
    record->references = group->probe.references;
    record->references_missed = group->probe.references_missed;
    record->reference_away = group->probe.reference_away;
    memcpy(record->reference_message, group->probe.reference_message,
           sizeof record->reference_message);
    record->committed = ledger->committed;
    memcpy(record->probe_text, group->probe.text, sizeof record->probe_text);
    if (outcome != AGENT_OUTCOME_COMMITTED) {
        memcpy(record->message, group->message, sizeof record->message);
    }
}

void flow_end_ticket(struct agent *agent, struct group *group, enum agent_outcome outcome)
{
    const struct ledger_group *ledger = group->ledger;
    struct journal_record record = group_record(group, JOURNAL_OUTCOME);
    if (group->closed_ns != 0) {
        group->phases.shut_ns = agent->now_ns - group->closed_ns;
    }
    fill_record(agent, group, outcome, &record.outcome.record);
    record.outcome.needs_ticket =
        outcome == AGENT_OUTCOME_OUT &&
        ((ledger->step > 0 && !ledger->ticket_committed) || flow_barrier_binds(group));
    group_note(agent, group, outcome != AGENT_OUTCOME_COMMITTED, "SwapEnded",
               "ticket %llu%s: %s%s%s", (unsigned long long)ledger->ticket.number,
               flow_is_live(group) ? ", live" : "", agent_outcome_name(outcome),
               record.outcome.record.message[0] != '\0' ? ": " : "", record.outcome.record.message);
    agent_write(agent, &record);
    group->changed = true;
}

/* Rule 1: before the first mutating call of this step is begun. */
void flow_intend(struct agent *agent, struct group *group)
{
    struct journal_record record = group_record(group, JOURNAL_INTENT);
    memcpy(record.intent.ticket_uid, group->ledger->ticket.uid, sizeof record.intent.ticket_uid);
    record.intent.step = group->ledger->step + 1;
    agent_write(agent, &record);
}

/* A barrier's groups must be shut by its own deadline; the swap's begins when it goes on. */
static uint64_t shut_within_ns(const struct group *group)
{
    const struct agent_policy *policy = &group->ledger->ticket.policy;
    return flow_barrier_takes_part(group) ? policy->barrier_deadline_ns : policy->swap_deadline_ns;
}

static uint64_t shut_by_ns(const struct group *group)
{
    return shut_within_ns(group) * (MUTANT(DEADLINE_FAR) ? 1000 : 1);
}

/* The gates close only when each engine can be told at once: a health check or read-back that is
 * still under way costs no availability. */
void flow_settle_wait(struct agent *agent, struct group *group)
{
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        if (!ops_is_idle(&group->engines[i])) {
            return;
        }
    }
    if (peers_are_busy(group)) {
        return;
    }
    if (flow_barrier_gave_up(agent, group)) {
        return;
    }
    if (group->ledger->ticket.rejoin) {
        group->deadline_ns = agent->now_ns + shut_by_ns(group);
        phase_enter(agent, group, PHASE_PAUSE);
        return;
    }
    if (flow_is_live(group)) {
        flow_live_begin(agent, group);
        return;
    }
    group->deadline_ns = agent->now_ns + agent->config.times.op_short;
    phase_enter(agent, group, PHASE_WARM);
}

/* Without it the probe shows less; that is no reason not to swap.  From here on nobody is served. */
void flow_warmed(struct agent *agent, struct group *group)
{
    if (group->go_back) {
        flow_reopen(agent, group, AGENT_OUTCOME_PAUSE_TIMEOUT);
        return;
    }
    group->message[0] = '\0';
    group->deadline_ns = agent->now_ns + shut_by_ns(group);
    group->closed_ns = agent->now_ns;
    phase_enter(agent, group, MUTANT(GATE_KEPT) ? PHASE_PAUSE : PHASE_CLOSE);
}

static uint32_t count_inside(const struct group *group)
{
    uint32_t inside = 0;
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        inside += group->engines[i].facts.active;
    }
    return inside;
}

void flow_closed(struct agent *agent, struct group *group)
{
    group->inside = count_inside(group);
    phase_enter(agent, group, PHASE_PAUSE);
}

void flow_paused(struct agent *agent, struct group *group)
{
    if (flow_barrier_takes_part(group)) {
        flow_barrier_shut(agent, group);
        return;
    }
    if (!MUTANT(INTENT_SKIPPED)) {
        flow_intend(agent, group);
    }
    phase_enter(agent, group, PHASE_FENCE);
}

void flow_fenced(struct agent *agent, struct group *group)
{
    phase_enter(agent, group, PHASE_KNOW);
}

/* What was read is in 'resident'; a difference is no trouble. */
void flow_known(struct agent *agent, struct group *group)
{
    group->message[0] = '\0';
    phase_enter(agent, group, PHASE_UPDATE);
}

void flow_updated(struct agent *agent, struct group *group)
{
    phase_enter(agent, group, MUTANT(VERIFY_SKIPPED) ? PHASE_INVALIDATE : PHASE_VERIFY);
}

void flow_verified(struct agent *agent, struct group *group)
{
    phase_enter(agent, group, MUTANT(KV_SKIPPED) ? PHASE_CONFIRM : PHASE_INVALIDATE);
}

void flow_invalidated(struct agent *agent, struct group *group)
{
    phase_enter(agent, group, PHASE_CONFIRM);
}

/* Requests that passed the gates are counted by the guards: who is left now goes on under the new
 * version; who is not ended by itself, or was ended. */
static void note_kept(struct group *group)
{
    enum agent_in_flight mode = flow_in_flight(group);
    uint32_t left = count_inside(group);
    group->kept = left < group->inside ? left : group->inside;
    group->aborted = mode == AGENT_IN_FLIGHT_ABORT ? group->inside - group->kept : 0;
}

enum agent_in_flight flow_in_flight(const struct group *group)
{
    const struct agent_policy *policy = &group->ledger->ticket.policy;
    if (!group->drain_expired) {
        return policy->in_flight;
    }
    return policy->drain_expiry == AGENT_DRAIN_ABORT ? AGENT_IN_FLIGHT_ABORT : AGENT_IN_FLIGHT_KEEP;
}

void flow_confirmed(struct agent *agent, struct group *group)
{
    if (agent->now_ns >= group->deadline_ns) {
        group_trouble(group, "the swap's deadline passed before COMMIT");
        flow_apply_failed(agent, group);
        return;
    }
    flow_commit(agent, group);
}

/* COMMIT: the group's version changes here and nowhere else.  The record names the incarnations
 * that were just read again; if it reaches the disk the group is new, if not it is old. */
void flow_commit(struct agent *agent, struct group *group)
{
    const struct ledger_group *ledger = group->ledger;
    baton_assert(ledger->open && ledger->step > 0 && !ledger->ticket_committed);
    baton_assert(flow_all_resident(group, ledger->ticket.to.digest));
    baton_assert(flow_same_incarnations(group, &ledger->ticket_members));
    struct journal_record record = group_record(group, JOURNAL_COMMIT);
    memcpy(record.commit.ticket_uid, ledger->ticket.uid, sizeof record.commit.ticket_uid);
    record.commit.version = ledger->ticket.to;
    record.commit.level = weakest(group);
    record.commit.members = flow_members(group);
    /* A live swap drops nothing: a version that was salted is followed by one that is. */
    record.commit.salted =
        flow_is_live(group) ? ledger->salted : ledger->ticket.policy.kv == AGENT_KV_SALT;
    note_kept(group);
    agent_write(agent, &record);
    group->changed = true;
    group->deadline_ns = agent->now_ns + agent->config.times.restore_bound;
    flow_resume(agent, group);
}

/* Rule 4: every follower has the COMMIT on its disk before any gate opens. */
void flow_resume(struct agent *agent, struct group *group)
{
    bool tells = group->config->followers_count > 0 && group->ledger->open;
    phase_enter(agent, group,
                tells                 ? PHASE_COMMIT
                : flow_is_live(group) ? PHASE_LIVE_MARK
                                      : PHASE_LABEL);
}

void flow_committed(struct agent *agent, struct group *group)
{
    phase_enter(agent, group, PHASE_LABEL);
}

void flow_labelled(struct agent *agent, struct group *group)
{
    phase_enter(agent, group, flow_is_live(group) ? PHASE_PROBE : PHASE_MARK);
}

/* The page, which answers name versions by, comes first: requests run all the while. */
void flow_live_marked(struct agent *agent, struct group *group)
{
    phase_enter(agent, group, PHASE_LABEL);
}

void flow_marked(struct agent *agent, struct group *group)
{
    if (flow_barrier_binds(group) && !MUTANT(BARRIER_OPENS_EARLY)) {
        flow_barrier_committed(agent, group);
        return;
    }
    phase_enter(agent, group, PHASE_RESUME);
}

void flow_resumed(struct agent *agent, struct group *group)
{
    phase_enter(agent, group, PHASE_PROBE);
}

void flow_probed(struct agent *agent, struct group *group)
{
    flow_hooks_enter(agent, group, PHASE_TELL);
}

void flow_opened_rest(struct agent *agent, struct group *group)
{
    phase_enter(agent, group, PHASE_OPEN_FIRST);
}

/* The gates' answers named the incarnations once more (rule 3), so the swap is over. */
void flow_opened(struct agent *agent, struct group *group)
{
    if (group->ledger->open) {
        flow_end_ticket(agent, group, AGENT_OUTCOME_COMMITTED);
    } else {
        group_note(agent, group, false, "Serving", "version %llu",
                   (unsigned long long)group->ledger->committed.seq);
    }
    flow_serve(agent, group);
}

void flow_apply_failed(struct agent *agent, struct group *group)
{
    if (MUTANT(FORGOT_RESTORE) && !group->ledger->ticket.rejoin) {
        flow_reopen(agent, group, AGENT_OUTCOME_APPLY_FAILED);
        return;
    }
    /* Once a barrier goes, the old version may not serve again: the group is a straggler. */
    if (group->ledger->ticket.rejoin || flow_barrier_binds(group)) {
        flow_out(agent, group);
    } else {
        flow_restore(agent, group);
    }
}
