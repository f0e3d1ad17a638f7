/* check.c -- see check.h. */
#include "agent/core/check.h"

#include <string.h>

#include "agent/core/flow.h"
#include "agent/core/member.h"
#include "agent/core/ops.h"

struct check_before check_begin(const struct agent *agent)
{
    struct check_before before = { .epoch = agent->ledger.epoch };
    for (uint32_t i = 0; i < agent->config.groups_count; i++) {
        before.highest_tickets[i] = agent->groups[i].ledger->highest_ticket;
        before.owner_terms[i] = agent->groups[i].ledger->owner_term;
    }
    return before;
}

/* Every engine holds the committed version, verified; one that was lost cannot serve, and its group
 * is on its way out. */
static bool all_hold_committed(const struct group *group)
{
    bool hold = true;
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        const struct engine *engine = &group->engines[i];
        hold &= engine->fate == FATE_GONE ||
                strcmp(engine->resident, group->ledger->committed.digest) == 0;
    }
    return hold;
}

/* 1, of a live swap: LIVE_INTENT is durable, and what was read back is one of both or not known yet. */
static void check_live(const struct group *group)
{
    const struct ledger_group *ledger = group->ledger;
    const struct engine *engine = &group->engines[0];
    baton_assert(flow_is_live(group) && ledger->live && !ledger->ticket_committed);
    baton_assert(group->config->engines_count == 1 && group->config->followers_count == 0);
    baton_assert(engine->resident[0] == '\0' ||
                 strcmp(engine->resident, ledger->ticket.from.digest) == 0 ||
                 strcmp(engine->resident, ledger->ticket.to.digest) == 0);
}

/* 1 and 2: a gate that is open, or being opened, means that every engine of the group was verified
 * to hold the committed version. */
static void check_gates(const struct group *group)
{
    bool open = false;
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        open |= group->engines[i].maybe_open;
    }
    enum phase_gate gate = phase_row(group->phase)->gate;
    if (!open || gate == PHASE_GATE_UNKNOWN) {
        return;
    }
    if (gate == PHASE_GATE_LIVE) {
        check_live(group);
        return;
    }
    baton_assert(gate == PHASE_GATE_MAY_OPEN);
    baton_assert(all_hold_committed(group));
}

/* 7: between INTENT and COMMIT the group can only be on its way to one of both, or out; a follower waits
 * for its leader's word besides, with shut gates. */
static void check_swap(const struct group *group)
{
    const struct ledger_group *ledger = group->ledger;
    enum agent_group_state state = phase_row(group->phase)->state;
    bool changing = ledger->open && ledger->step > 0 && !ledger->ticket_committed;
    if (changing && member_follows(group)) {
        baton_assert(group->phase != PHASE_SERVING && state != AGENT_GROUP_RESUMING);
    } else if (changing) {
        baton_assert(state == AGENT_GROUP_APPLYING || state == AGENT_GROUP_RESTORING ||
                     group->phase == PHASE_ATTACH);
    }
    if (state == AGENT_GROUP_PAUSING || state == AGENT_GROUP_APPLYING) {
        baton_assert(ledger->open && !ledger->ticket_committed);
    }
    /* No service while residents are in doubt. */
    baton_assert(!(group->phase == PHASE_SERVING && (ledger->needs_ticket || ledger->open)));
    bool swaps = state == AGENT_GROUP_PAUSING || state == AGENT_GROUP_APPLYING ||
                 state == AGENT_GROUP_RESTORING;
    if (swaps && ledger->open && !ledger->ticket.rejoin && !ledger->ticket_committed) {
        baton_assert(agent_version_equal(&ledger->committed, &ledger->ticket.from));
    }
}

/* 2, of a barrier: from the promise to be shut until a word of the controller, no gate is open. */
static void check_barrier(const struct group *group)
{
    enum phase_gate gate = phase_row(group->phase)->gate;
    if (!flow_barrier_binds(group) || gate == PHASE_GATE_UNKNOWN) {
        return;
    }
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        baton_assert(!group->engines[i].maybe_open);
    }
    baton_assert(phase_row(group->phase)->state != AGENT_GROUP_RESTORING);
    baton_assert(group->phase < PHASE_RESUME || group->phase > PHASE_OPEN_FIRST);
}

/* 11: whatever shuts a gate has a deadline, and nothing of the group is still under way after it.
 * */
static void check_bounds(const struct agent *agent, const struct group *group)
{
    const struct phase_row *row = phase_row(group->phase);
    bool bounded = row->state == AGENT_GROUP_APPLYING || row->state == AGENT_GROUP_RESUMING ||
                   row->state == AGENT_GROUP_RESTORING || group->phase == PHASE_PAUSE ||
                   group->phase == PHASE_CLOSE || group->phase == PHASE_BARRIER_SHUT;
    if (!bounded) {
        return;
    }
    baton_assert(group->deadline_ns != AGENT_NEVER);
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        const struct engine *engine = &group->engines[i];
        if (!ops_is_idle(engine) && !engine->op_aside) {
            baton_assert(engine->op.deadline_ns <= group->deadline_ns);
        }
        baton_assert(ops_is_idle(engine) ||
                     agent->now_ns < engine->op.deadline_ns + agent->config.times.op_grace);
    }
}

void check_end(const struct agent *agent, const struct check_before *before)
{
    baton_assert(agent_epoch_compare(agent->ledger.epoch, before->epoch) >= 0); /* 8, 9 */
    for (uint32_t i = 0; i < agent->config.groups_count; i++) {
        const struct group *group = &agent->groups[i];
        baton_assert(group->ledger->highest_ticket >= before->highest_tickets[i]);
        baton_assert(group->ledger->owner_term >= before->owner_terms[i]);
        if (agent->started) {
            check_gates(group);
            check_swap(group);
            check_barrier(group);
            check_bounds(agent, group);
        }
    }
}
