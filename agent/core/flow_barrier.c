/* flow_barrier.c -- a swap together with other groups: all shut, all commit, then all open.
 *
 * Three words of the controller move a group of a barrier on, and each is durable before it is
 * obeyed.  Until the group has told that it is shut it may give up by itself.  From then on it does
 * not serve the old version again unless it hears CANCEL, and after GO never; committed, it opens
 * only on OPEN.  Each wait is bounded (invariant 11): a group that hears nothing, or whose agent is
 * restarted in between, is OUT and in doubt, and only a rejoin ticket opens it, which the
 * controller gives when it knows what became of the barrier. */
#include <string.h>

#include "agent/core/flow.h"
#include "agent/core/ops.h"
#include "agent/core/session.h"
#include "agent/core/tickets.h"

bool flow_barrier_takes_part(const struct group *group)
{
    const struct ledger_group *ledger = group->ledger;
    return ledger->open && ledger->ticket.barrier && !ledger->ticket.rejoin;
}

bool flow_barrier_binds(const struct group *group)
{
    enum journal_barrier mark = group->ledger->barrier;
    return flow_barrier_takes_part(group) &&
           (mark == JOURNAL_BARRIER_SHUT || mark == JOURNAL_BARRIER_GO);
}

enum agent_barrier_stand flow_barrier_stand(const struct group *group)
{
    if (!flow_barrier_takes_part(group)) {
        return AGENT_BARRIER_STAND_NONE;
    }
    switch (group->ledger->barrier) {
    case JOURNAL_BARRIER_SHUT: return AGENT_BARRIER_STAND_SHUT;
    case JOURNAL_BARRIER_GO:
    case JOURNAL_BARRIER_OPEN:
        return group->ledger->ticket_committed ? AGENT_BARRIER_STAND_COMMITTED
                                               : AGENT_BARRIER_STAND_GOING;
    case JOURNAL_BARRIER_NONE:
    case JOURNAL_BARRIER_CANCEL: break;
    }
    return AGENT_BARRIER_STAND_NONE;
}

static void mark(struct agent *agent, struct group *group, enum journal_barrier mark)
{
    struct journal_record record = group_record(group, JOURNAL_BARRIER);
    memcpy(record.barrier.ticket_uid, group->ledger->ticket.uid, sizeof record.barrier.ticket_uid);
    record.barrier.mark = mark;
    agent_write(agent, &record);
    group->changed = true;
}

/* Twice the time in which the controller decides: its word needs time, too. */
static void wait_in(struct agent *agent, struct group *group, enum phase phase)
{
    const struct agent_policy *policy = &group->ledger->ticket.policy;
    uint64_t swap_ns = phase == PHASE_BARRIER_OPEN ? policy->swap_deadline_ns : 0;
    group->deadline_ns = agent->now_ns + swap_ns + 2 * policy->barrier_deadline_ns;
    group->changed = true;
    phase_enter(agent, group, phase);
}

static void cancel(struct agent *agent, struct group *group)
{
    group_trouble(group, "the barrier was cancelled: not enough groups were shut in time");
    flow_reopen(agent, group, AGENT_OUTCOME_PAUSE_TIMEOUT);
}

bool flow_barrier_gave_up(struct agent *agent, struct group *group)
{
    if (!flow_barrier_takes_part(group) || group->ledger->barrier != JOURNAL_BARRIER_CANCEL) {
        return false;
    }
    group_trouble(group, "the barrier was cancelled before the gate was shut");
    flow_stay_open(agent, group, AGENT_OUTCOME_PAUSE_TIMEOUT);
    return true;
}

void flow_barrier_shut(struct agent *agent, struct group *group)
{
    if (group->ledger->barrier == JOURNAL_BARRIER_CANCEL) {
        cancel(agent, group);
        return;
    }
    mark(agent, group, JOURNAL_BARRIER_SHUT);
    wait_in(agent, group, PHASE_BARRIER_SHUT);
}

void flow_barrier_committed(struct agent *agent, struct group *group)
{
    wait_in(agent, group, PHASE_BARRIER_OPEN);
}

static void note_wait(const struct agent *agent, struct group *group)
{
    group->barrier_ns += agent->now_ns - group->phase_began_ns;
}

/* Nobody said what became of the barrier.  Engines are looked at meanwhile. */
static void go_on_waiting(struct agent *agent, struct group *group, const char *what)
{
    if (agent->now_ns >= group->deadline_ns) {
        note_wait(agent, group);
        group_trouble(group, "in doubt: %s", what);
        flow_out(agent, group);
        return;
    }
    flow_look(agent, group);
}

void flow_barrier_shut_wait(struct agent *agent, struct group *group)
{
    if (group->ledger->barrier == JOURNAL_BARRIER_GO) {
        note_wait(agent, group);
        group->deadline_ns = agent->now_ns + group->ledger->ticket.policy.swap_deadline_ns;
        flow_intend(agent, group);
        phase_enter(agent, group, PHASE_FENCE);
    } else if (group->ledger->barrier == JOURNAL_BARRIER_CANCEL) {
        note_wait(agent, group);
        cancel(agent, group);
    } else {
        go_on_waiting(agent, group, "the controller did not say whether the barrier goes");
    }
}

void flow_barrier_open_wait(struct agent *agent, struct group *group)
{
    if (group->ledger->barrier == JOURNAL_BARRIER_OPEN) {
        note_wait(agent, group);
        group->deadline_ns = agent->now_ns + agent->config.times.restore_bound;
        phase_enter(agent, group, PHASE_RESUME);
    } else {
        go_on_waiting(agent, group, "the controller did not say that all groups committed");
    }
}

static void take_word(struct agent *agent, struct group *group, enum agent_barrier_word word)
{
    const struct ledger_group *ledger = group->ledger;
    bool early = ledger->barrier == JOURNAL_BARRIER_NONE;
    bool shut = ledger->barrier == JOURNAL_BARRIER_SHUT;
    if (word == AGENT_BARRIER_WORD_GO && shut) {
        mark(agent, group, JOURNAL_BARRIER_GO);
    } else if (word == AGENT_BARRIER_WORD_CANCEL && (early || shut)) {
        mark(agent, group, JOURNAL_BARRIER_CANCEL);
    } else if (word == AGENT_BARRIER_WORD_OPEN && ledger->ticket_committed &&
               ledger->barrier == JOURNAL_BARRIER_GO) {
        mark(agent, group, JOURNAL_BARRIER_OPEN);
    }
}

void flow_on_barrier(struct agent *agent, const struct agent_event *event)
{
    struct group *group = agent_group_find(agent, event->barrier.group);
    const char *uid = event->barrier.ticket_uid;
    if (group == NULL || agent_epoch_compare(event->barrier.epoch, agent->ledger.epoch) < 0) {
        return;
    }
    if (flow_barrier_takes_part(group) && strcmp(group->ledger->ticket.uid, uid) == 0) {
        session_raise_epoch(agent, event->barrier.epoch);
        take_word(agent, group, event->barrier.word);
        return;
    }
    if (group->offered && strcmp(group->offer.uid, uid) == 0 &&
        event->barrier.word == AGENT_BARRIER_WORD_CANCEL) {
        tickets_refuse_offer(agent, group, "the barrier was cancelled");
        return;
    }
    struct ledger_outcome *outcome = ledger_outcome_find(group->ledger, uid);
    if (outcome != NULL) {
        outcome->told = false;
    }
}
