/* flow_restore.c -- back to the old version, when a swap failed before COMMIT; see flow.h. */
#include <string.h>

#include "agent/core/flow.h"
#include "agent/core/ops.h"
#include "api/base/mutant.h"

/* Requests did not end by themselves in the time that they had; the policy names what follows. */
static bool drain_expires(const struct agent *agent, const struct group *group)
{
    const struct agent_policy *policy = &group->ledger->ticket.policy;
    return group->phase == PHASE_PAUSE && policy->in_flight == AGENT_IN_FLIGHT_WAIT &&
           policy->drain_expiry != AGENT_DRAIN_GIVE_UP && !group->drain_expired &&
           agent->now_ns < group->deadline_ns;
}

void flow_pause_failed(struct agent *agent, struct group *group)
{
    if (drain_expires(agent, group)) {
        group_note(
            agent, group, true, "DrainExpired", "%s; those that are left are %s", group->message,
            group->ledger->ticket.policy.drain_expiry == AGENT_DRAIN_ABORT ? "ended" : "kept");
        group->message[0] = '\0';
        group->drain_expired = true;
        phase_enter(agent, group, PHASE_PAUSE);
        return;
    }
    if (group->ledger->ticket.rejoin) {
        flow_out(agent, group);
    } else {
        flow_reopen(agent, group, AGENT_OUTCOME_PAUSE_TIMEOUT);
    }
}

void flow_reopen(struct agent *agent, struct group *group, enum agent_outcome verdict)
{
    group->verdict = verdict;
    group->deadline_ns = agent->now_ns + agent->config.times.restore_bound;
    phase_enter(agent, group, PHASE_REOPEN_RESUME);
}

static bool any_touched(const struct group *group)
{
    bool touched = false;
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        touched |= group->engines[i].touched;
    }
    return touched;
}

/* The old bytes are not on this node: only a recreated engine gets them back, from its boot
 * checkpoint or, with allowRecreate, by a rejoin. */
static void give_up(struct agent *agent, struct group *group)
{
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        if (group->engines[i].touched) {
            flow_taint(agent, group, &group->engines[i]);
        }
    }
    flow_out(agent, group);
}

static void intend_back(struct agent *agent, struct group *group)
{
    const struct ledger_group *ledger = group->ledger;
    struct journal_record record = group_record(group, JOURNAL_INTENT);
    memcpy(record.intent.ticket_uid, ledger->ticket.uid, sizeof record.intent.ticket_uid);
    record.intent.step = ledger->step + (MUTANT(STEP_KEPT) ? 0 : 1);
    agent_write(agent, &record);
}

void flow_restore(struct agent *agent, struct group *group)
{
    const struct ledger_group *ledger = group->ledger;
    group->verdict = AGENT_OUTCOME_APPLY_FAILED;
    if (any_touched(group) && !landings_has(&agent->landings, ledger->ticket.from.digest)) {
        give_up(agent, group);
        return;
    }
    group->deadline_ns = agent->now_ns + agent->config.times.restore_bound;
    if (flow_is_live(group)) { /* Under LIVE_INTENT until its gate is shut. */
        phase_enter(agent, group, PHASE_BACK_SHUT);
        return;
    }
    intend_back(agent, group);
    phase_enter(agent, group, group->recovering ? PHASE_BACK_SHUT : PHASE_BACK_FENCE);
}

void flow_back_shut(struct agent *agent, struct group *group)
{
    phase_enter(agent, group, flow_is_live(group) ? PHASE_BACK_PAUSE : PHASE_BACK_FENCE);
}

void flow_back_paused(struct agent *agent, struct group *group)
{
    intend_back(agent, group);
    phase_enter(agent, group, PHASE_BACK_FENCE);
}

void flow_back_fenced(struct agent *agent, struct group *group)
{
    phase_enter(agent, group, PHASE_BACK_UPDATE);
}

void flow_back_updated(struct agent *agent, struct group *group)
{
    phase_enter(agent, group, PHASE_BACK_VERIFY);
}

void flow_back_verified(struct agent *agent, struct group *group)
{
    baton_assert(flow_all_resident(group, group->ledger->ticket.from.digest));
    flow_reopen(agent, group, AGENT_OUTCOME_APPLY_FAILED);
}

void flow_back_failed(struct agent *agent, struct group *group)
{
    flow_out_recreate(agent, group);
}

/* Where no weight was touched, nothing is to be proved.  What the WARM of before left in the caches was
 * made with the old weights: a request that finds it, and one that does not, agree only if they are
 * back; nothing else tells, of an engine whose weights cannot be read. */
void flow_reopen_resumed(struct agent *agent, struct group *group)
{
    if (group->verdict == AGENT_OUTCOME_APPLY_FAILED && !MUTANT(BACK_UNPROBED)) {
        phase_enter(agent, group, PHASE_BACK_PROBE);
    } else {
        flow_hooks_enter(agent, group, PHASE_BACK_TELL);
    }
}

void flow_back_probed(struct agent *agent, struct group *group)
{
    flow_hooks_enter(agent, group, PHASE_BACK_TELL);
}

void flow_reopened_rest(struct agent *agent, struct group *group)
{
    phase_enter(agent, group, PHASE_REOPEN_FIRST);
}

void flow_reopened(struct agent *agent, struct group *group)
{
    flow_end_ticket(agent, group,
                    MUTANT(OUTCOME_TURNED) ? AGENT_OUTCOME_COMMITTED : group->verdict);
    flow_serve(agent, group);
}
