/* flow_hooks.c -- routers are told: before a gate closes, and when it is about to open.
 *
 * Hooks are called one after another, by the shell, beside everything else; each has a deadline of
 * its own.  One before the pause that fails ends the swap before anything was touched.  One after
 * the probe is called again until its deadline, and then the gates open all the same: a router that
 * cannot be reached shall not keep a verified group away.  Routers that were asked to drain are told
 * of every way back, too. */
#include <string.h>

#include "agent/core/flow.h"
#include "agent/core/ops.h"
#include "api/base/mutant.h"

/* Between two calls of one hook; and after its deadline, until the shell's answer is given up. */
#define HOOK_RETRY_NS UINT64_C(500000000)
#define HOOK_GRACE_NS UINT64_C(500000000)

static enum agent_hook_when when_of(enum phase phase)
{
    return phase == PHASE_DRAIN ? AGENT_HOOK_BEFORE_PAUSE : AGENT_HOOK_AFTER_PROBE;
}

static bool is_hook_phase(enum phase phase)
{
    return phase == PHASE_DRAIN || phase == PHASE_TELL || phase == PHASE_BACK_TELL;
}

enum phase flow_hooks_first(const struct group *group)
{
    const struct agent_policy *policy = &group->ledger->ticket.policy;
    for (uint32_t i = 0; i < policy->hooks_count && !group->ledger->ticket.rejoin; i++) {
        if (policy->hooks[i].when == AGENT_HOOK_BEFORE_PAUSE) {
            return PHASE_DRAIN;
        }
    }
    return PHASE_SETTLE;
}

/* The gates' way goes on after the hooks, with as much time as it had. */
void flow_hooks_enter(struct agent *agent, struct group *group, enum phase phase)
{
    const struct agent_policy *policy = &group->ledger->ticket.policy;
    uint64_t budget_ns = agent->config.times.restore_bound;
    memset(&group->hooks, 0, sizeof group->hooks);
    for (uint32_t i = 0; i < policy->hooks_count; i++) {
        budget_ns += policy->hooks[i].deadline_ns + HOOK_GRACE_NS;
    }
    group->deadline_ns = agent->now_ns + budget_ns;
    phase_enter(agent, group, phase);
}

static void call(struct agent *agent, struct group *group, const struct agent_hook *hook)
{
    const struct ledger_group *ledger = group->ledger;
    struct agent_hook_call *call = agent_scratch(agent, 1, sizeof *call);
    *call = (struct agent_hook_call){ .id = ++agent->next_op_id,
                                      .group = group->config,
                                      .url = hook->url,
                                      .when = hook->when,
                                      .deadline_ns = group->hooks.deadline_ns,
                                      .from_seq = ledger->ticket.from.seq,
                                      .to_seq = ledger->ticket.to.seq,
                                      .serves_seq = ledger->committed.seq,
                                      .ticket_uid = ledger->ticket.uid };
    group->hooks.call_id = call->id;
    group->hooks.ended = false;
    group->hooks.retry_ns = 0;
    agent_push(agent, AGENT_ACTION_HOOK)->hook = call;
}

static void fail(struct group_hooks *hooks, const char *why)
{
    hooks->call_id = 0;
    hooks->ended = true;
    hooks->ok = false;
    text_print(hooks->why, sizeof hooks->why, "%s", why);
}

void flow_on_hook(struct agent *agent, const struct agent_event *event)
{
    for (uint32_t i = 0; i < agent->config.groups_count; i++) {
        struct group_hooks *hooks = &agent->groups[i].hooks;
        if (hooks->call_id != event->hook.id || event->hook.id == 0) {
            continue;
        }
        if (baton_ok(event->hook.status)) {
            hooks->call_id = 0;
            hooks->ended = true;
            hooks->ok = true;
        } else {
            fail(hooks, event->hook.status->message);
        }
    }
}

uint64_t flow_hooks_deadline_ns(const struct group *group)
{
    const struct group_hooks *hooks = &group->hooks;
    if (!is_hook_phase(group->phase) || hooks->deadline_ns == 0) {
        return AGENT_NEVER;
    }
    return hooks->retry_ns != 0 ? hooks->retry_ns : hooks->deadline_ns + HOOK_GRACE_NS;
}

enum turn { TURN_WAITS, TURN_OVER, TURN_FAILED };

/* A hook's turn: called, called again where that makes sense, or over. */
static enum turn take_turn(struct agent *agent, struct group *group, const struct agent_hook *hook)
{
    struct group_hooks *hooks = &group->hooks;
    bool begins = hooks->deadline_ns == 0;
    bool again = hooks->retry_ns != 0 && agent->now_ns >= hooks->retry_ns;
    if (begins) {
        hooks->deadline_ns = agent->now_ns + hook->deadline_ns;
    }
    if (begins || again) {
        call(agent, group, hook);
        return TURN_WAITS;
    }
    if (hooks->call_id != 0 && agent->now_ns >= hooks->deadline_ns + HOOK_GRACE_NS) {
        fail(hooks, "no answer by its deadline");
    }
    if (!hooks->ended) {
        return TURN_WAITS;
    }
    if (hooks->ok) {
        return TURN_OVER;
    }
    if (hook->when == AGENT_HOOK_AFTER_PROBE &&
        agent->now_ns + HOOK_RETRY_NS < hooks->deadline_ns) {
        hooks->retry_ns = agent->now_ns + HOOK_RETRY_NS;
        hooks->ended = false;
        return TURN_WAITS;
    }
    return TURN_FAILED;
}

/* Goes through the phase's hooks; 'failed' names the last one that failed, or is null. */
static enum turn run(struct agent *agent, struct group *group, const struct agent_hook **failed)
{
    const struct agent_policy *policy = &group->ledger->ticket.policy;
    struct group_hooks *hooks = &group->hooks;
    *failed = NULL;
    for (; hooks->index < policy->hooks_count; hooks->index++) {
        const struct agent_hook *hook = &policy->hooks[hooks->index];
        if (hook->when != when_of(group->phase)) {
            continue;
        }
        enum turn turn = take_turn(agent, group, hook);
        if (turn == TURN_FAILED) {
            *failed = hook;
            group_note(agent, group, true, "HookFailed", "%.120s: %.100s", hook->url, hooks->why);
        }
        if (turn == TURN_WAITS || (turn == TURN_FAILED && group->phase == PHASE_DRAIN)) {
            return turn;
        }
        hooks->deadline_ns = 0;
        hooks->retry_ns = 0;
        hooks->ended = false;
    }
    return TURN_OVER;
}

void flow_stay_open(struct agent *agent, struct group *group, enum agent_outcome verdict)
{
    group->verdict = verdict;
    group->stays_open = true;
    flow_hooks_enter(agent, group, PHASE_BACK_TELL);
}

void flow_drain_wait(struct agent *agent, struct group *group)
{
    const struct agent_hook *failed;
    enum turn turn = run(agent, group, &failed);
    if (turn == TURN_FAILED && !MUTANT(ROUTER_UNHEARD)) {
        group->not_drained = true;
        group_trouble(group,
                      "a router did not acknowledge that it sends nobody any more: %.100s: %.80s",
                      failed->url, group->hooks.why);
        flow_stay_open(agent, group, AGENT_OUTCOME_PAUSE_TIMEOUT);
    } else if (turn != TURN_WAITS) {
        group->deadline_ns = AGENT_NEVER;
        phase_enter(agent, group, PHASE_SETTLE);
    } else {
        flow_look(agent, group);
    }
}

static void refresh(struct agent *agent, struct group *group)
{
    group->deadline_ns = agent->now_ns + agent->config.times.restore_bound;
}

void flow_tell_wait(struct agent *agent, struct group *group)
{
    const struct agent_hook *failed;
    if (run(agent, group, &failed) == TURN_OVER) {
        refresh(agent, group);
        phase_enter(agent, group, PHASE_OPEN_REST);
    } else {
        flow_look(agent, group);
    }
}

/* Where the gates are open still, nothing is left to do. */
void flow_back_tell_wait(struct agent *agent, struct group *group)
{
    const struct agent_hook *failed;
    if (!MUTANT(ROUTER_UNTOLD) && run(agent, group, &failed) != TURN_OVER) {
        flow_look(agent, group);
    } else if (group->stays_open) {
        flow_end_ticket(agent, group, group->verdict);
        flow_serve(agent, group);
    } else {
        refresh(agent, group);
        phase_enter(agent, group, PHASE_REOPEN_REST);
    }
}
