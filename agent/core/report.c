/* report.c -- see report.h. */
#include "agent/core/report.h"

#include <string.h>

#include "agent/core/flow.h"
#include "agent/core/member.h"
#include "agent/core/tickets.h"
#include "api/base/mutant.h"

static const char *gate_text(const struct engine *engine)
{
    if (!engine->facts.guarded) {
        return "none";
    }
    switch (engine->facts.gate) {
    case AGENT_GATE_SHUT: return "shut";
    case AGENT_GATE_OPEN: return "open";
    case AGENT_GATE_HOLD: return "hold";
    }
    return "none";
}

static void fill_engine(const struct group *group, const struct engine *engine,
                        struct agent_engine_report *out)
{
    out->config = engine->config;
    out->facts = &engine->facts;
    out->label = engine->label[0] != '\0'         ? engine->label
                 : engine->facts.label[0] != '\0' ? engine->facts.label
                                                  : "-";
    out->gate = gate_text(engine);
    out->owner_term = group->ledger->owner_term;
    out->recreates = engine->recreates;
    out->reachable = engine->known && engine->reachable;
}

static bool serves(const struct group *group)
{
    if (flow_live_is_open(group)) {
        return true;
    }
    return group->phase == PHASE_SERVING || group->phase == PHASE_DRAIN ||
           group->phase == PHASE_SETTLE || group->phase == PHASE_WARM;
}

/* The controller takes so many engines of a group as one agent may have. */
static void append_members(const struct group *group, struct agent_engine_report *engines,
                           struct agent_group_report *out)
{
    for (uint32_t i = 0; i < group->config->followers_count; i++) {
        const struct agent_peer_state *state = &group->peers[i].state;
        bool known = group->peers[i].known;
        out->level = state->level < out->level || !known ? state->level : out->level;
        out->gate_open &= known && state->serving;
        out->advisory |= known && state->advisory;
        for (uint32_t k = 0;
             k < state->engines_count && out->engines_count < BATON_ENGINES_PER_GROUP_MAX; k++) {
            engines[out->engines_count] = state->engines[k];
            engines[out->engines_count].owner_term = group->ledger->owner_term;
            engines[out->engines_count++].reachable &= known;
        }
    }
}

void report_engines(struct agent *agent, const struct group *group, struct agent_group_report *out)
{
    uint32_t count = group->config->engines_count;
    struct agent_engine_report *engines =
        agent_scratch(agent, BATON_ENGINES_PER_GROUP_MAX, sizeof *engines);
    out->level = AGENT_LEVEL_RESIDENT;
    out->gate_open = serves(group);
    for (uint32_t i = 0; i < count; i++) {
        const struct engine *engine = &group->engines[i];
        fill_engine(group, engine, &engines[i]);
        out->level = engine->level < out->level ? engine->level : out->level;
        out->gate_open &= !engine->facts.guarded || engine->facts.gate == AGENT_GATE_OPEN;
        out->advisory |= engine->known && !engine->facts.guarded;
    }
    out->engines = engines;
    out->engines_count = count;
    append_members(group, engines, out);
}

/* The version that is being landed: the next one, else the target. */
static void fill_staging(const struct agent *agent, const struct group *group,
                         struct agent_group_report *out)
{
    const struct agent_version *version =
        group->goal.stage.seq != 0 ? &group->goal.stage : &group->goal.target;
    const struct landing *row = landings_find(&agent->landings, version->digest);
    if (version->seq != 0 && row != NULL) {
        out->staging_seq = version->seq;
        out->staged_bytes = row->landed_bytes;
    }
}

static void fill_group(struct agent *agent, struct group *group, struct agent_group_report *out)
{
    const struct ledger_group *ledger = group->ledger;
    out->group = group->config->name;
    out->model = group->config->model;
    out->state = group_state(agent, group);
    out->message = group->message;
    out->committed = ledger->committed;
    out->ticket_uid = ledger->open ? ledger->ticket.uid : "";
    out->highest_ticket = ledger->highest_ticket;
    out->owner_term = ledger->owner_term;
    out->blocked = group->blocked;
    out->barrier = flow_barrier_stand(group);
    out->members = group->config->followers;
    out->members_count = group->config->followers_count;
    out->can_restore =
        tickets_can_restore(agent, group, &ledger->committed) && peers_can_restore(group);
    const char *obstacle = flow_live_obstacle(group);
    out->can_swap_live = obstacle == NULL;
    out->live_reason = obstacle != NULL ? obstacle : group->engines[0].facts.live_reason;
    fill_staging(agent, group, out);
    report_engines(agent, group, out);
    group->changed = false;
    group->progressed = false;
}

static const char *verb_of(const struct ledger_group *ledger)
{
    return ledger->operated == AGENT_VERB_STATUS ? "" : agent_verb_name(ledger->operated);
}

static void fill_status(struct agent *agent, struct group *group, struct agent_group_status *out)
{
    const struct ledger_group *ledger = group->ledger;
    bool changed = group->changed;
    bool progressed = group->progressed;
    fill_group(agent, group, &out->report);
    group->changed = changed; /* The controller has not been told. */
    group->progressed = progressed;
    out->phase = phase_row(group->phase)->name;
    out->detached = ledger->detached;
    out->operated = verb_of(ledger);
    out->operated_by = ledger->operated_by;
    out->operated_wall_ns = ledger->operated_wall_ns;
    if (ledger->outcomes_count > 0) {
        out->last_swap = &ledger->outcomes[ledger->outcomes_count - 1].record;
    }
}

void report_status(struct agent *agent)
{
    uint32_t count = agent->config.groups_count;
    struct agent_node_status *status = agent_scratch(agent, 1, sizeof *status);
    struct agent_group_status *groups = agent_scratch(agent, count, sizeof *groups);
    for (uint32_t i = 0; i < count; i++) {
        fill_status(agent, &agent->groups[i], &groups[i]);
    }
    *status = (struct agent_node_status){ agent->welcomed, agent->ledger.epoch, groups, count };
    agent_push(agent, AGENT_ACTION_STATUS)->status = status;
}

void report_hello(struct agent *agent)
{
    uint32_t count = agent->config.groups_count;
    struct agent_hello *hello = agent_scratch(agent, 1, sizeof *hello);
    struct agent_group_report *groups = agent_scratch(agent, count, sizeof *groups);
    struct agent_seq_floor *floors = agent_scratch(agent, agent->ledger.seqs_count, sizeof *floors);
    const char **follows = agent_scratch(agent, count, sizeof *follows);
    uint32_t led = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (member_follows(&agent->groups[i])) {
            follows[i - led] = agent->groups[i].config->name;
            continue;
        }
        struct agent_group_report *report = &groups[led++];
        fill_group(agent, &agent->groups[i], report);
        const struct landing *row = landings_find(&agent->landings, report->committed.digest);
        bool told = row != NULL && row->goal.uid[0] != '\0';
        report->committed_goal = told ? &row->goal : NULL;
    }
    for (uint32_t i = 0; i < agent->ledger.seqs_count; i++) {
        floors[i].model = agent->ledger.seqs[i].model;
        floors[i].version = agent->ledger.seqs[i].version;
    }
    *hello = (struct agent_hello){
        .agent = agent->config.agent,
        .software = agent->config.software,
        .journal_incarnation = agent->ledger.incarnation,
        .highest_epoch = agent->ledger.epoch,
        .groups = groups,
        .groups_count = led,
        .seq_floors = floors,
        .seq_floors_count = agent->ledger.seqs_count,
        .address = agent->config.address,
        .peer_address = agent->config.peer_address,
        .peer_zone = agent->config.peer_zone,
        .landing_budget_bytes = agent->config.landing_budget_bytes,
        .follows = follows,
        .follows_count = count - led,
    };
    agent_push(agent, AGENT_ACTION_HELLO)->hello = hello;
}

static void fill_outcomes(struct agent *agent, struct agent_report *report)
{
    struct agent_outcome_report *outcomes = agent_scratch(
        agent, (size_t)agent->config.groups_count * LEDGER_OUTCOMES_MAX, sizeof *outcomes);
    report->outcomes = outcomes;
    for (uint32_t i = 0; i < agent->config.groups_count; i++) {
        struct ledger_group *ledger = agent->groups[i].ledger;
        if (member_follows(&agent->groups[i])) {
            continue;
        }
        for (uint32_t k = 0; k < ledger->outcomes_count; k++) {
            struct ledger_outcome *outcome = &ledger->outcomes[k];
            if (outcome->told) {
                continue;
            }
            outcome->told = true;
            if (MUTANT(OUTCOME_UNTOLD)) {
                continue;
            }
            struct agent_swap_record *record = agent_scratch(agent, 1, sizeof *record);
            *record = outcome->record;
            outcomes[report->outcomes_count++] =
                (struct agent_outcome_report){ agent->groups[i].config->name, record };
        }
    }
}

static void fill_landed(struct agent *agent, struct agent_report *report)
{
    const char **digests = agent_scratch(agent, agent->landings.rows_max, sizeof *digests);
    for (uint32_t i = 0; i < agent->landings.rows_max; i++) {
        const struct landing *row = &agent->landings.rows[i];
        if (row->state == LANDING_HERE) {
            digests[report->landed_digests_count++] = row->goal.version.digest;
        }
    }
    report->landed_digests = digests;
    report->landing_used_bytes = agent->landings.used_bytes;
}

void report_changes(struct agent *agent)
{
    struct agent_report *report = agent_scratch(agent, 1, sizeof *report);
    struct agent_group_report *groups =
        agent_scratch(agent, agent->config.groups_count, sizeof *groups);
    for (uint32_t i = 0; i < agent->config.groups_count; i++) {
        struct group *group = &agent->groups[i];
        if (!member_follows(group) && (group->changed || group->progressed)) {
            fill_group(agent, group, &groups[report->groups_count++]);
        }
    }
    report->groups = groups;
    fill_outcomes(agent, report);
    fill_landed(agent, report);
    struct agent_log_event *events = agent_scratch(agent, agent->events_count, sizeof *events);
    memcpy(events, agent->events, agent->events_count * sizeof *events);
    report->events = events;
    report->events_count = agent->events_count;
    agent->events_count = 0;
    agent->report_due = false;
    agent->report_ns = agent->now_ns;
    agent_push(agent, AGENT_ACTION_REPORT)->report = report;
}
