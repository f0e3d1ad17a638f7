/* tickets.c -- see tickets.h. */
#include "agent/core/tickets.h"

#include <string.h>

#include "agent/core/flow.h"
#include "agent/core/member.h"
#include "agent/core/session.h"
#include "api/base/mutant.h"

static const char EPOCH_PASSED[] = "its epoch is lower than one seen before";

bool tickets_can_restore(const struct agent *agent, const struct group *group,
                         const struct agent_version *version)
{
    if (landings_has(&agent->landings, version->digest) || MUTANT(RESTORE_UNCHECKED)) {
        return true;
    }
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        if (version->digest[0] == '\0' ||
            strcmp(group->config->engines[i].boot_digest, version->digest) != 0) {
            return false;
        }
    }
    return true;
}

static void refuse(struct agent *agent, struct group *group, const struct agent_ticket *ticket,
                   const char *why)
{
    struct journal_record record = group_record(group, JOURNAL_REFUSE);
    struct agent_swap_record *ended = &record.outcome.record;
    memcpy(ended->ticket_uid, ticket->uid, sizeof ended->ticket_uid);
    ended->ticket_number = ticket->number;
    ended->epoch = ticket->epoch;
    ended->from = ticket->from;
    ended->to = ticket->to;
    ended->outcome = AGENT_OUTCOME_REFUSED;
    ended->ended_wall_ns = agent->wall_ns;
    ended->committed = group->ledger->committed;
    text_print(ended->message, sizeof ended->message, "%s", why);
    agent_write(agent, &record);
    group->changed = true;
    group_note(agent, group, true, "TicketRefused", "ticket %llu: %s",
               (unsigned long long)ticket->number, why);
}

void tickets_refuse_offer(struct agent *agent, struct group *group, const char *why)
{
    struct agent_ticket ticket = group->offer;
    group->offered = false;
    refuse(agent, group, &ticket, why);
}

/* What speaks against any ticket; null: nothing. */
static const char *common_objection(const struct agent *agent, const struct group *group,
                                    const struct agent_ticket *ticket)
{
    /* Invariant 9 holds for one that had to wait, too: a later leadership may have come between. */
    bool passed = agent_epoch_compare(ticket->epoch, agent->ledger.epoch) < 0;
    if (passed && !MUTANT(WAITED_UNCHECKED) && !MUTANT(EPOCH_UNCHECKED)) {
        return EPOCH_PASSED;
    }
    if (ticket->policy.unreadable[0] != '\0' && !ticket->resolve) { /* Which moves nothing. */
        return ticket->policy.unreadable;
    }
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        const struct engine *engine = &group->engines[i];
        if (engine->known && engine->facts.way_in == AGENT_WAY_IN_NONE) {
            return "an engine has no way to take weights; see its wayInReason";
        }
        if (!engine->reachable) {
            return "an engine cannot be reached";
        }
        if (engine->facts.external_kv && ticket->policy.kv == AGENT_KV_KEEP) {
            return "policy.kv: keep is refused: an engine has a KV tier outside of itself, which "
                   "nobody "
                   "can tell apart by version";
        }
    }
    if (!landings_has(&agent->landings, ticket->to.digest)) {
        return "the version to swap to is not landed and verified here";
    }
    if (agent_group_is_unfit(group, ticket->to.digest)) {
        return "the version does not fit the engines; see the group's message";
    }
    if (ticket->policy.swap_deadline_ns == 0) {
        return "policy.swap_deadline_ms must be above 0";
    }
    if (ticket->policy.kv == AGENT_KV_KEEP && ticket->policy.in_flight != AGENT_IN_FLIGHT_KEEP) {
        return "policy.kv: keep is possible with in_flight keep only";
    }
    if (ticket->policy.kv == AGENT_KV_SALT && (ticket->policy.in_flight == AGENT_IN_FLIGHT_KEEP ||
                                               ticket->policy.drain_expiry == AGENT_DRAIN_KEEP)) {
        return "policy.kv: salt is not possible where requests in progress are kept: they would go "
               "on "
               "with KV of the old version";
    }
    if (ticket->barrier && ticket->policy.barrier_deadline_ns == 0) {
        return "policy.barrier_deadline_ms must be above 0 with a ticket of a barrier";
    }
    if (ticket->resolve) {
        return "the group is not in doubt";
    }
    return peers_objection(group, ticket);
}

static const char *rejoin_objection(const struct group *group)
{
    bool waits = group->phase == PHASE_AWAIT_TARGET || group->phase == PHASE_AWAIT_TICKET;
    return waits ? NULL : "a rejoin ticket is for a group that is OUT or JOINING; this one serves";
}

/* Never a pause instead: whoever names live does not want one. */
static const char *live_objection(const struct group *group, const struct agent_ticket *ticket)
{
    const struct agent_policy *policy = &ticket->policy;
    if (!policy->live) {
        return NULL;
    }
    if (policy->in_flight != AGENT_IN_FLIGHT_KEEP || policy->kv != AGENT_KV_KEEP) {
        return "policy.mode: live is possible with in_flight keep and kv keep only";
    }
    if (ticket->barrier) {
        return "policy.mode: live is not possible in a barrier, which shuts all groups";
    }
    if (policy->hooks_count > 0) {
        return "policy.mode: live is not possible with hooks: no gate shuts";
    }
    return flow_live_obstacle(group);
}

static const char *swap_objection(const struct agent *agent, const struct group *group,
                                  const struct agent_ticket *ticket)
{
    if (group->phase != PHASE_SERVING) {
        return "the group does not serve; it takes a rejoin ticket only";
    }
    if (!agent_version_equal(&group->ledger->committed, &ticket->from)) {
        return "the version to swap from is not the one that the group committed";
    }
    if (!tickets_can_restore(agent, group, &ticket->from) && !ticket->policy.allow_recreate) {
        return "no restore source: the version that is served is neither landed here nor the "
               "engines' boot checkpoint, and the policy does not say allowRecreate";
    }
    return live_objection(group, ticket);
}

bool tickets_consider(struct agent *agent, struct group *group)
{
    struct agent_ticket ticket = group->offer;
    const char *objection = common_objection(agent, group, &ticket);
    if (objection == NULL) {
        objection = ticket.rejoin ? rejoin_objection(group) : swap_objection(agent, group, &ticket);
    }
    if (objection != NULL) {
        tickets_refuse_offer(agent, group, objection);
        return false;
    }
    group->offered = false;
    flow_accept(agent, group, &ticket);
    return true;
}

/* Answers a ticket that is known already; false if it is new. */
static bool answer_known(struct group *group, const char *uid)
{
    struct ledger_outcome *outcome = ledger_outcome_find(group->ledger, uid);
    if (outcome != NULL) {
        outcome->told = false;
        return true;
    }
    bool open = group->ledger->open && strcmp(group->ledger->ticket.uid, uid) == 0;
    bool offered = group->offered && strcmp(group->offer.uid, uid) == 0;
    group->changed |= open;
    return open || offered;
}

/* Invariants 8 and 9: what is lower than anything seen is refused for good. */
static const char *stale(const struct agent *agent, const struct group *group,
                         const struct agent_ticket *ticket)
{
    const struct ledger_group *ledger = group->ledger;
    bool passed = agent_epoch_compare(ticket->epoch, agent->ledger.epoch) < 0;
    if (passed && !MUTANT(EPOCH_UNCHECKED)) {
        return EPOCH_PASSED;
    }
    if (ticket->number <= ledger->highest_ticket) {
        return "its number does not rise";
    }
    if (ticket->owner_term < ledger->owner_term) {
        return "its owner term is lower than one seen before";
    }
    if (ledger->open || group->offered || group->resolving) {
        return "another ticket is open";
    }
    if (agent->space != AGENT_JOURNAL_ROOM) {
        return "the disk of the agent's journal is full";
    }
    if (ticket->resolve && group->in_doubt) {
        return NULL;
    }
    if (group->phase == PHASE_DETACHED) {
        return "the group is detached: an operator at its node ended this agent's driving";
    }
    if (group->phase == PHASE_DRAIN_SHUT || group->phase == PHASE_DRAINED) {
        return "the group is drained";
    }
    if (group->phase == PHASE_OUT || group->phase == PHASE_OUT_SHUT) {
        return group->message[0] != '\0' ? group->message : "the group is out of service";
    }
    return NULL;
}

void tickets_on_ticket(struct agent *agent, const struct agent_ticket *ticket)
{
    struct group *group = agent_group_find(agent, ticket->group);
    if (group == NULL || member_follows(group)) {
        agent_note(agent, true, "agent/session", "UnknownGroup",
                   "a ticket names the group %s, which this agent does not lead", ticket->group);
        return;
    }
    bool asks = group->resolving && strcmp(group->offer.uid, ticket->uid) == 0;
    if (asks || answer_known(group, ticket->uid)) {
        return;
    }
    if (agent->shutting_down || agent->space == AGENT_JOURNAL_NONE) {
        group_note(agent, group, true, "TicketIgnored", "%s",
                   agent->shutting_down ? "the agent ends; its next life will take the ticket"
                                        : "the disk of the agent's journal is full");
        return;
    }
    const char *why = stale(agent, group, ticket);
    if (why != NULL) {
        refuse(agent, group, ticket, why);
        return;
    }
    session_raise_epoch(agent, ticket->epoch);
    group->offer = *ticket;
    group->offered = true;
}

void tickets_on_revoke(struct agent *agent, const char *group_name, const char *ticket_uid,
                       struct agent_epoch epoch)
{
    struct group *group = agent_group_find(agent, group_name);
    if (group == NULL || agent_epoch_compare(epoch, agent->ledger.epoch) < 0) {
        return;
    }
    if (group->offered && strcmp(group->offer.uid, ticket_uid) == 0) {
        tickets_refuse_offer(agent, group, "revoked");
        return;
    }
    if (group->resolving && strcmp(group->offer.uid, ticket_uid) == 0) {
        return; /* Members are asked already; it moves nothing and will say what came of it. */
    }
    if (answer_known(group, ticket_uid) || agent->space == AGENT_JOURNAL_NONE) {
        return;
    }
    struct agent_ticket ticket = { .epoch = epoch };
    if (baton_text_copy(ticket.uid, sizeof ticket.uid, ticket_uid)) {
        refuse(agent, group, &ticket, "revoked");
    }
}

void tickets_on_stored(struct agent *agent, const char *group_name, const char *ticket_uid)
{
    struct group *group = agent_group_find(agent, group_name);
    struct ledger_outcome *outcome =
        group != NULL ? ledger_outcome_find(group->ledger, ticket_uid) : NULL;
    if (outcome == NULL || outcome->stored) {
        return;
    }
    struct journal_record record = group_record(group, JOURNAL_OUTCOME_STORED);
    memcpy(record.ticket_uid, outcome->record.ticket_uid, sizeof record.ticket_uid);
    agent_write(agent, &record);
}
