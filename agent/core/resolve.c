/* resolve.c -- a group in doubt: what the members say of a ticket of which the leader knows nothing.
 *
 * The leader's journal was lost, or another agent leads now.  Every member is asked, and being asked
 * fences it durably, so that no command of an earlier ticket is obeyed any more.  Any COMMIT wins,
 * since the lost journal must have had it; else nobody has opened a gate for the new version
 * (followers commit before any gate opens), and the group is on the old one.  What was decided is
 * what the group committed; a rejoin ticket brings the weights. */
#include <string.h>

#include "agent/core/flow.h"
#include "agent/core/member.h"
#include "agent/core/ops.h"
#include "agent/core/tickets.h"
#include "api/base/mutant.h"

static bool is_unknown(const struct group *group, const char *uid)
{
    const struct ledger_group *ledger = group->ledger;
    return uid[0] != '\0' && !(ledger->open && strcmp(ledger->ticket.uid, uid) == 0) &&
           ledger_outcome_find(group->ledger, uid) == NULL;
}

static const struct peer *first_unknown(const struct group *group)
{
    for (uint32_t i = 0; i < group->config->followers_count; i++) {
        const struct peer *peer = &group->peers[i];
        if (peer->known && is_unknown(group, peer->state.open_uid)) {
            return peer;
        }
    }
    return NULL;
}

/* A journal that never had a ticket, beside a member that has committed something. */
static bool is_new_journal(const struct group *group)
{
    const struct ledger_group *ledger = group->ledger;
    bool committed = false;
    for (uint32_t i = 0; i < group->config->followers_count; i++) {
        const struct peer *peer = &group->peers[i];
        committed |= peer->known && peer->state.committed.seq != 0;
    }
    return committed && ledger->committed.seq == 0 && !ledger->open && ledger->outcomes_count == 0;
}

bool resolve_is_needed(const struct group *group)
{
    return first_unknown(group) != NULL || is_new_journal(group);
}

void resolve_begin(struct agent *agent, struct group *group)
{
    const struct peer *peer = first_unknown(group);
    struct journal_record record = group_record(group, JOURNAL_FLOORS);
    record.floors.ticket_number = group->offer.number;
    record.floors.owner_term = group->offer.owner_term;
    agent_write(agent, &record);
    group->offered = false;
    group->resolving = true;
    group->message[0] = '\0';
    group->blocked = "";
    (void)baton_text_copy(group->asked, sizeof group->asked,
                          peer != NULL ? peer->state.open_uid : "");
    group->deadline_ns = agent->now_ns + agent->config.times.restore_bound;
    group_note(agent, group, false, "Resolving", "ticket %llu asks %u members about ticket %s",
               (unsigned long long)group->offer.number, group->config->followers_count,
               group->asked[0] != '\0' ? group->asked : "(none is open)");
    phase_enter(agent, group, PHASE_ASK);
}

/* What the lost swap was about, by a member that has it open. */
static bool find_versions(const struct group *group, struct agent_version *from,
                          struct agent_version *to)
{
    for (uint32_t i = 0; i < group->config->followers_count; i++) {
        const struct agent_peer_state *state = &group->peers[i].state;
        if (group->asked[0] != '\0' && strcmp(state->open_uid, group->asked) == 0) {
            *from = state->open_from;
            *to = state->open_to;
            return true;
        }
    }
    return false;
}

/* A leader's journal that has a COMMIT had it before any member: then the ticket was only forgotten.
 * Else any member's COMMIT wins, else what was there before; of several words the first member's. */
static struct agent_version decide(const struct group *group, const struct agent_version *from)
{
    const struct agent_version *said = NULL;
    if (group->ledger->committed.seq != 0) {
        return group->ledger->committed;
    }
    if (MUTANT(DOUBT_GUESSED) && from->seq != 0) {
        return *from;
    }
    for (uint32_t i = 0; i < group->config->followers_count; i++) {
        const struct peer *peer = &group->peers[i];
        if (peer->asked == AGENT_PEER_OUTCOME_COMMITTED) {
            return peer->state.committed;
        }
        if (said == NULL && peer->state.committed.seq != 0) {
            said = &peer->state.committed;
        }
    }
    if (from->seq != 0) {
        return *from;
    }
    return said != NULL ? *said : (struct agent_version){ 0 };
}

static void write_commit(struct agent *agent, struct group *group,
                         const struct agent_version *version)
{
    struct journal_record record = group_record(group, JOURNAL_COMMIT);
    memcpy(record.commit.ticket_uid, group->offer.uid, sizeof record.commit.ticket_uid);
    record.commit.version = *version;
    record.commit.members = flow_members(group);
    agent_write(agent, &record);
}

/* Nobody has verified what is resident: only a rejoin ticket opens. */
static void write_outcome(struct agent *agent, struct group *group,
                          const struct agent_swap_record *ended)
{
    struct journal_record record = group_record(group, JOURNAL_OUTCOME);
    record.outcome.record = *ended;
    record.outcome.record.committed = group->ledger->committed;
    record.outcome.record.ended_wall_ns = agent->wall_ns;
    record.outcome.needs_ticket = true;
    agent_write(agent, &record);
}

static void end_asked(struct agent *agent, struct group *group, const struct agent_version *from,
                      const struct agent_version *to)
{
    struct agent_swap_record lost = { .outcome = AGENT_OUTCOME_OUT, .from = *from, .to = *to };
    memcpy(lost.ticket_uid, group->asked, sizeof lost.ticket_uid);
    text_print(lost.message, sizeof lost.message,
               "the leader's journal was lost; all members were asked: version %llu",
               (unsigned long long)group->ledger->committed.seq);
    write_outcome(agent, group, &lost);
}

void resolve_answered(struct agent *agent, struct group *group)
{
    struct agent_version from = { 0 };
    struct agent_version to = { 0 };
    bool asked = find_versions(group, &from, &to);
    struct agent_version version = decide(group, &from);
    struct agent_swap_record ended = { .ticket_number = group->offer.number,
                                       .epoch = group->offer.epoch,
                                       .from = group->offer.from,
                                       .to = group->offer.to,
                                       .outcome = AGENT_OUTCOME_COMMITTED };
    memcpy(ended.ticket_uid, group->offer.uid, sizeof ended.ticket_uid);
    if (!agent_version_equal(&version, &group->ledger->committed)) {
        write_commit(agent, group, &version);
    }
    if (asked) {
        end_asked(agent, group, &from, &to);
    }
    write_outcome(agent, group, &ended);
    group_note(agent, group, false, "Resolved",
               "all members were asked: the group is on version %llu",
               (unsigned long long)version.seq);
    group->resolving = false;
    group->in_doubt = false;
    group->deadline_ns = AGENT_NEVER;
    group->changed = true;
    group_trouble(group, "its outcome was resolved; the members' weights are to be verified");
    phase_enter(agent, group, PHASE_OUT_SHUT);
}

/* A silent member's gate cannot be proved shut. */
void resolve_failed(struct agent *agent, struct group *group)
{
    char why[BATON_TEXT_BYTES];
    text_print(why, sizeof why,
               "%.150s; bring its agent back, or take it out of the group's members",
               group->message);
    group->resolving = false;
    group->deadline_ns = AGENT_NEVER;
    tickets_refuse_offer(agent, group, why);
    phase_enter(agent, group, PHASE_OUT_SHUT);
}
