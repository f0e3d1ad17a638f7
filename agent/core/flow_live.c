/* flow_live.c -- a swap with open gates: one call between two steps of the engine; see flow.h and the
 * table in phase.c.
 *
 * From LIVE_INTENT on the engine's ranks hold 'from' or 'to', all the same one: that is what the call
 * promises, and an engine that could not keep it ends itself.  Which of both is read back, never
 * assumed: after the call, after a call without an answer, after a restart of this agent. */
#include <string.h>

#include "agent/core/flow.h"
#include "agent/core/member.h"
#include "agent/core/ops.h"
#include "api/base/mutant.h"

bool flow_is_live(const struct group *group)
{
    const struct ledger_group *ledger = group->ledger;
    return ledger->open && ledger->ticket.policy.live && !ledger->ticket.rejoin;
}

const char *flow_live_obstacle(const struct group *group)
{
    const struct engine *engine = &group->engines[0];
    if (group->config->followers_count > 0 || member_follows(group)) {
        return "several agents drive its engines: they cannot change between the same two steps";
    }
    if (group->config->engines_count != 1) {
        return "it has several engines: they cannot change between the same two steps";
    }
    if (!engine->known) {
        return "its engine is not attached";
    }
    if (!engine->facts.guarded) {
        return "its engine has no guard";
    }
    if (engine->facts.external_kv) {
        return "its engine has a KV tier outside of itself, and a live swap keeps KV";
    }
    if (!engine->facts.live || engine->facts.way_in != AGENT_WAY_IN_PLUGIN) {
        return engine->facts.live_reason[0] != '\0' ? engine->facts.live_reason
                                                    : "its engine takes no live swap";
    }
    return NULL;
}

bool flow_live_is_open(const struct group *group)
{
    const struct phase_row *row = phase_row(group->phase);
    bool resumes = row->state == AGENT_GROUP_RESUMING && group->ledger->ticket_committed;
    return flow_is_live(group) &&
           (row->gate == PHASE_GATE_LIVE || group->phase == PHASE_LIVE_PREPARE || resumes);
}

void flow_live_begin(struct agent *agent, struct group *group)
{
    group->live_doubted = false;
    group->deadline_ns = agent->now_ns + group->ledger->ticket.policy.swap_deadline_ns;
    phase_enter(agent, group, PHASE_LIVE_PREPARE);
}

/* Nothing but memory beside the model was touched. */
void flow_live_unready(struct agent *agent, struct group *group)
{
    flow_end_ticket(agent, group, AGENT_OUTCOME_APPLY_FAILED);
    flow_serve(agent, group);
}

/* LIVE_INTENT: before the call, and before each fence that makes a call of before void. */
static void intend(struct agent *agent, struct group *group)
{
    const struct ledger_group *ledger = group->ledger;
    struct journal_record record = group_record(group, JOURNAL_LIVE_INTENT);
    if (MUTANT(LIVE_UNJOURNALED)) {
        return;
    }
    memcpy(record.intent.ticket_uid, ledger->ticket.uid, sizeof record.intent.ticket_uid);
    record.intent.step = ledger->step + 1;
    record.intent.from = ledger->ticket.from;
    record.intent.to = ledger->ticket.to;
    agent_write(agent, &record);
}

void flow_live_prepared(struct agent *agent, struct group *group)
{
    if (agent->now_ns >= group->deadline_ns) {
        group_trouble(group, "the swap's deadline passed before its one call");
        flow_live_unready(agent, group);
        return;
    }
    group->inside = 0;
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        group->inside += group->engines[i].facts.active;
    }
    intend(agent, group);
    phase_enter(agent, group, PHASE_LIVE_SWAP);
}

void flow_live_swapped(struct agent *agent, struct group *group)
{
    phase_enter(agent, group, MUTANT(LIVE_UNREAD) ? PHASE_LIVE_CONFIRM : PHASE_LIVE_VERIFY);
}

/* Whatever the engines hold, it counts as touched. */
static void believe_nothing(struct group *group)
{
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        group->engines[i].touched = true;
        group->engines[i].restored = false;
    }
}

/* The ordinary way back: the gate shuts first, since what is resident is neither of both, or cannot be
 * known. */
static void shut_and_restore(struct agent *agent, struct group *group)
{
    believe_nothing(group);
    group_note(agent, group, true, "LiveSwapShut", "its gate shuts after all: %s", group->message);
    group->closed_ns = agent->now_ns;
    flow_restore(agent, group);
}

void flow_live_verified(struct agent *agent, struct group *group)
{
    if (group->go_back) {
        shut_and_restore(agent, group);
        return;
    }
    phase_enter(agent, group, PHASE_LIVE_CONFIRM);
}

void flow_live_confirmed(struct agent *agent, struct group *group)
{
    if (group->go_back) {
        shut_and_restore(agent, group);
        return;
    }
    if (agent->now_ns >= group->deadline_ns) {
        group_trouble(group, "the swap's deadline passed before COMMIT");
        flow_live_doubted(agent, group);
        return;
    }
    group->message[0] = '\0'; /* Of a doubt that was resolved. */
    flow_commit(agent, group);
}

/* It is asked once; an engine that then cannot be brought to COMMIT is not asked for ever. */
void flow_live_doubted(struct agent *agent, struct group *group)
{
    if (group->live_doubted) {
        shut_and_restore(agent, group);
        return;
    }
    group->live_doubted = true;
    intend(agent, group);
    group->deadline_ns = agent->now_ns + agent->config.times.restore_bound;
    phase_enter(agent, group, PHASE_LIVE_FENCE);
}

void flow_live_fenced(struct agent *agent, struct group *group)
{
    phase_enter(agent, group, PHASE_LIVE_KNOW_TO);
}

void flow_live_not_to(struct agent *agent, struct group *group)
{
    phase_enter(agent, group, PHASE_LIVE_KNOW_FROM);
}

void flow_live_kept(struct agent *agent, struct group *group)
{
    baton_assert(flow_all_resident(group, group->ledger->ticket.from.digest));
    flow_end_ticket(agent, group, AGENT_OUTCOME_APPLY_FAILED);
    flow_serve(agent, group);
}

void flow_live_unknown(struct agent *agent, struct group *group)
{
    shut_and_restore(agent, group);
}

void flow_live_recover(struct agent *agent, struct group *group)
{
    group_trouble(group, "the agent was restarted in the middle of a live swap");
    believe_nothing(group);
    group->live_doubted = false;
    if (flow_live_obstacle(group) != NULL || !flow_all_gates_open(group)) {
        shut_and_restore(agent, group);
    } else {
        flow_live_doubted(agent, group);
    }
}
