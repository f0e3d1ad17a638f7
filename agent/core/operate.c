/* operate.c -- see operate.h. */
#include "agent/core/operate.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/flow.h"
#include "agent/core/ops.h"
#include "agent/core/report.h"
#include "agent/core/tickets.h"

/* Of a rejoin that no policy was given for. */
#define REJOIN_DEADLINE_NS (UINT64_C(60) * 1000000000)

BATON_PRINTF(3, 4)
static void answer(struct agent *agent, bool ok, const char *fmt, ...)
{
    struct agent_operated *operated = agent_scratch(agent, 1, sizeof *operated);
    operated->ok = ok;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(operated->message, sizeof operated->message, fmt, args);
    va_end(args);
    agent_push(agent, AGENT_ACTION_OPERATED)->operated = operated;
}

/* Before its effect, with who asked. */
static void audit(struct agent *agent, const struct group *group,
                  const struct agent_operate *operate)
{
    struct journal_record record = group_record(group, JOURNAL_OPERATE);
    record.operate.verb = operate->verb;
    record.operate.wall_ns = agent->wall_ns;
    (void)baton_text_copy(record.operate.by, sizeof record.operate.by, operate->by);
    agent_write(agent, &record);
    group_note(agent, group, true, "BreakGlass", "%s, asked at this node by %s",
               agent_verb_name(operate->verb), operate->by);
}

static bool serves(const struct group *group)
{
    return group->phase == PHASE_SERVING || group->phase == PHASE_SETTLE;
}

/* What speaks against a resume; null: nothing. */
static const char *resume_objection(const struct agent *agent, const struct group *group)
{
    const struct ledger_group *ledger = group->ledger;
    if (ledger->open) {
        return "a swap is open; `restore` sends it back";
    }
    if (flow_wants_sleep(group) && agent->welcomed) {
        return "it is asleep by the controller's order; `batonctl wake` ends that";
    }
    if (ledger->committed.seq == 0 && !ledger->detached) {
        return "it never committed a version";
    }
    if (agent->space != AGENT_JOURNAL_ROOM) {
        return "the disk of the agent's journal is full";
    }
    if (!ledger->detached && !landings_has(&agent->landings, ledger->committed.digest)) {
        return "the version that it committed is not landed on this node, so that nothing can be "
               "compared with it";
    }
    return NULL;
}

/* Attaches anew: what serves by the journal goes on serving, the rest joins. */
static void attach(struct agent *agent, struct group *group)
{
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        struct engine *engine = &group->engines[i];
        engine->known = false;
        engine->fate = FATE_NONE;
        engine->heard_ns = agent->now_ns;
        engine->next_look_ns = agent->now_ns;
    }
    group->message[0] = '\0';
    group->blocked = "";
    group->deadline_ns = agent->now_ns + agent->config.times.engine_lost;
    phase_enter(agent, group, PHASE_ATTACH);
}

/* The goal of a resume is the agent's own; the controller tells its goals again with a new session. */
static void ask_for_goals(struct agent *agent)
{
    if (agent->session_open) {
        agent_push(agent, AGENT_ACTION_CLOSE_SESSION)->text =
            "an operator at this node resumed a group: its goals are to be told again";
    }
}

static void resume(struct agent *agent, struct group *group, const struct agent_operate *operate)
{
    const char *objection = resume_objection(agent, group);
    if (objection != NULL) {
        answer(agent, false, "group %s: %s", group->config->name, objection);
        return;
    }
    if (serves(group)) {
        answer(agent, true, "group %s serves already", group->config->name);
        return;
    }
    bool detached = group->ledger->detached;
    audit(agent, group, operate);
    group->changed = true;
    if (group->ledger->committed.seq ==
        0) { /* Detached before it ever served: it joins as its goals say. */
        attach(agent, group);
        answer(agent, true, "group %s: its agent drives it again", group->config->name);
        ask_for_goals(agent);
        return;
    }
    group->goal = (struct group_goal){ .given = true, .target = group->ledger->committed };
    group->resuming = true;
    if (detached) {
        attach(agent, group);
    }
    answer(agent, true,
           "group %s: its weights are compared with version %llu, which it committed; it opens if "
           "they are equal or once they were brought back",
           group->config->name, (unsigned long long)group->ledger->committed.seq);
    ask_for_goals(agent);
}

bool operate_rejoin(struct agent *agent, struct group *group)
{
    const struct ledger_group *ledger = group->ledger;
    bool same = agent_version_equal(&group->goal.target, &ledger->committed);
    if (!group->resuming || !same || ledger->committed.seq == 0) {
        return false;
    }
    struct agent_ticket *ticket = &group->offer;
    memset(ticket, 0, sizeof *ticket);
    text_print(ticket->uid, sizeof ticket->uid, "%016llx%016llx",
               (unsigned long long)baton_random_u64(&agent->random),
               (unsigned long long)baton_random_u64(&agent->random));
    memcpy(ticket->group, group->config->name, sizeof ticket->group);
    ticket->number = ledger->highest_ticket + 1;
    ticket->epoch = agent->ledger.epoch;
    ticket->owner_term = ledger->owner_term;
    ticket->from = ledger->committed;
    ticket->to = ledger->committed;
    ticket->policy = ledger->ticket.policy;
    ticket->rejoin = true;
    if (ticket->policy.swap_deadline_ns == 0) {
        ticket->policy.in_flight = AGENT_IN_FLIGHT_KEEP;
        ticket->policy.arrivals = AGENT_ARRIVALS_HOLD;
        ticket->policy.swap_deadline_ns = REJOIN_DEADLINE_NS;
    }
    group->offered = true;
    group->resuming = false; /* Once: what is refused or fails is told, and asked for again. */
    return tickets_consider(agent, group);
}

static void restore(struct agent *agent, struct group *group, const struct agent_operate *operate)
{
    const struct ledger_group *ledger = group->ledger;
    enum agent_group_state state = phase_row(group->phase)->state;
    if (!ledger->open || ledger->ticket_committed) {
        answer(agent, false, "group %s: %s", group->config->name,
               ledger->open ? "its swap has committed and cannot go back" : "no swap is open");
        return;
    }
    if (state == AGENT_GROUP_RESTORING) {
        answer(agent, true, "group %s: it is on its way back already", group->config->name);
        return;
    }
    if (group->phase == PHASE_ATTACH) {
        answer(agent, false, "group %s: its engines are not attached yet", group->config->name);
        return;
    }
    if (group->phase == PHASE_BARRIER_SHUT) {
        answer(agent, false,
               "group %s: it waits in a barrier that others may have passed; it is OUT when nobody "
               "tells it more in time, and `resume` brings it back then",
               group->config->name);
        return;
    }
    bool waits = group->phase == PHASE_SETTLE || group->phase == PHASE_DRAIN;
    audit(agent, group, operate);
    group_trouble(group, "an operator at this node asked for the restore");
    group->go_back = true;
    if (ledger->ticket.rejoin && waits) {
        flow_out(agent, group); /* It served nothing that could be opened again. */
    } else if (group->phase == PHASE_SETTLE) {
        flow_reopen(agent, group, AGENT_OUTCOME_PAUSE_TIMEOUT);
    } else if (group->phase == PHASE_DRAIN) {
        flow_stay_open(agent, group, AGENT_OUTCOME_PAUSE_TIMEOUT);
    } else {
        /* The swap's own deadline has come: what follows is its own way back. */
        group->deadline_ns = agent->now_ns;
        for (uint32_t i = 0; i < group->config->engines_count; i++) {
            struct agent_op *op = &group->engines[i].op;
            op->deadline_ns = op->deadline_ns < agent->now_ns ? op->deadline_ns : agent->now_ns;
        }
    }
    answer(agent, true, "group %s: version %llu is put back", group->config->name,
           (unsigned long long)ledger->ticket.from.seq);
}

/* Also after a restart: the journal remembers who asked. */
static void show_detached(struct group *group)
{
    if (strcmp(group->blocked, "GROUP_CORDONED") != 0) {
        text_print(group->message, sizeof group->message,
                   "detached at its node by %s: nobody drives it; at its node: batonctl --agent "
                   "unix:PATH resume group/%s",
                   group->ledger->operated_by, group->config->name);
        group->blocked = "GROUP_CORDONED";
        group->changed = true;
    }
}

static void detach(struct agent *agent, struct group *group, const struct agent_operate *operate)
{
    if (group->ledger->open || group->offered) {
        answer(agent, false, "group %s: a swap is open; wait for its end, or `restore` it",
               group->config->name);
        return;
    }
    if (group->ledger->detached) {
        answer(agent, true, "group %s is detached already", group->config->name);
        return;
    }
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        struct engine *engine = &group->engines[i];
        if (!ops_is_idle(engine) && !engine->op_aside) {
            answer(agent, false, "group %s: engine %s is being called; ask again",
                   group->config->name, engine->config->name);
            return;
        }
    }
    audit(agent, group, operate);
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        if (!ops_is_idle(&group->engines[i])) {
            ops_abandon(agent, group, &group->engines[i], "the group is detached");
        }
    }
    group->deadline_ns = AGENT_NEVER;
    show_detached(group);
    phase_enter(agent, group, PHASE_DETACHED);
    answer(agent, true, "group %s: its engines and gates are left as they are",
           group->config->name);
}

void operate_detached_wait(struct agent *agent, struct group *group)
{
    if (!group->ledger->detached) {
        group_note(agent, group, false, "Attached", "a higher owner term was granted");
        attach(agent, group);
        return;
    }
    if (group->offered) {
        tickets_refuse_offer(agent, group, "the group is detached");
    }
    show_detached(group);
}

void operate_on_event(struct agent *agent, const struct agent_operate *operate)
{
    if (operate->verb == AGENT_VERB_STATUS) {
        report_status(agent);
        return;
    }
    struct group *group = agent_group_find(agent, operate->group);
    if (group == NULL || !agent->started) {
        answer(agent, false, group == NULL ? "this agent has no group %s" : "group %s: not yet",
               operate->group);
        return;
    }
    switch (operate->verb) {
    case AGENT_VERB_RESUME: resume(agent, group, operate); break;
    case AGENT_VERB_RESTORE: restore(agent, group, operate); break;
    case AGENT_VERB_DETACH: detach(agent, group, operate); break;
    case AGENT_VERB_STATUS: break;
    }
}
