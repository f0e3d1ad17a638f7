/* retire.c -- rule 9: a group that is gone for good, and groups that come back, move or change.
 *
 * Retired: its ticket is closed as LOST, and it is in no denominator, no budget and no routing.  Its
 * record stays, because numbers that only rise must not begin anew.  When its agent names it again
 * it is a new group under a higher owner term: 'returning' until its gate was seen shut (the agent
 * gets a drain goal), 'as_new' until it serves; on another version it then catches up (late.c).  A group that was
 * drained when it was retired stays retired, and shut, until it is uncordoned. */
#include <string.h>

#include "controller/core/fleet.h"
#include "controller/core/text.h"

static bool has_session(const struct controller *core, const struct group *group)
{
    const struct agent *agent = agent_find(core, group->r.agent);
    return group->known && agent != NULL && agent->session != 0;
}

static struct baton_status refuse(const struct group *group, const char *why, const char *hint)
{
    return baton_status_hint(baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE,
                                               "group %s: %s", group->r.name, why),
                             "%s", hint);
}

static struct baton_status check(const struct controller *core, const struct call *call,
                                 const struct group *group)
{
    if (group->r.retired) {
        return baton_status_ok();
    }
    if (has_session(core, group) && group->live.gate_open) {
        return refuse(group, "its gate is open", "batonctl drain group/NAME, then retire it");
    }
    if (has_session(core, group) && group->r.ticket_open) {
        return refuse(group, "its swap is under way", "wait until it has ended, then retire it");
    }
    if (!has_session(core, group) && !call->request->body.retire.attest_dead) {
        return refuse(group, "nothing proves that its engines are dead",
                      "make sure of it, then say so with --attest-dead");
    }
    return baton_status_ok();
}

static void retire(struct controller *core, const struct call *call, struct group *group)
{
    bool shut = has_session(core, group);
    struct object_ref ref = ref_group(group);
    const char *why = call->request->options.reason;
    ticket_close_lost(core, group, SWAP_OUTCOME_LOST, "the group was retired");
    group->r.retired = true;
    group->r.retired_wall_ns = core->wall_ns;
    text_copy(group->r.retire_reason, sizeof(group->r.retire_reason), why);
    group->r.owner_term++;
    group->r.returning = false;
    group->r.as_new = false;
    group->r.failures = 0;
    group->retry_ns = 0;
    group->r.cordoned = group->r.cordoned || shut;
    group->r.drained = group->r.drained || shut; /* Its agent lives: it must not open again. */
    if (!shut) {
        group_forget(core, group);
        group->r.cordoned = false;
        group->r.drained = false;
        group->r.asleep = false;
    }
    fleet_changed(core, group);
    log_add(core, &ref, "GroupRetired", call_by(call), "%s%s%.160s",
            shut ? "its gate is shut" : "its engines were attested dead",
            text_is_empty(why) ? "" : ": ", text_is_empty(why) ? "" : why);
}

static void retire_agent(struct controller *core, const struct call *call, struct agent *agent)
{
    struct object_ref ref = ref_agent(agent);
    if (agent->r.retired || agent->session != 0) {
        return;
    }
    agent->r.retired = true;
    marks_put(core, RECORD_AGENT, agent);
    log_add(core, &ref, "AgentRetired", call_by(call), "nothing waits for what it has seen");
}

struct baton_status fleet_retire(struct controller *core, struct call *call)
{
    struct selection selection;
    struct baton_status st = fleet_select(core, call, &selection);
    for (uint32_t i = 0; baton_ok(&st) && i < selection.count; i++) {
        st = check(core, call, selection.groups[i]);
    }
    bool alone = selection.agent != NULL && selection.agent->session == 0;
    if (baton_ok(&st) && alone && !call->request->body.retire.attest_dead) {
        st = baton_status_hint(baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE,
                                                 "agent %s: nothing proves that it is gone",
                                                 selection.agent->r.name),
                               "make sure of it, then say so with --attest-dead");
    }
    for (uint32_t i = 0; baton_ok(&st) && i < selection.count; i++) {
        if (!selection.groups[i]->r.retired) {
            retire(core, call, selection.groups[i]);
        }
    }
    if (baton_ok(&st) && selection.agent != NULL) {
        retire_agent(core, call, selection.agent);
    }
    return st;
}

void retire_return(struct controller *core, struct group *group)
{
    struct object_ref ref = ref_group(group);
    group->r.retired = false;
    text_copy(group->r.retire_reason, sizeof(group->r.retire_reason), "");
    uid_make(core, group->r.uid);
    group->r.created_wall_ns = core->wall_ns;
    group->r.owner_term++;
    group->r.returning = true;
    group->r.asleep = false;
    group->r.as_new = true;
    group->r.swapped = false;
    memset(&group->r.last_swap, 0, sizeof(group->r.last_swap));
    fleet_changed(core, group);
    log_add(core, &ref, "GroupReturned", NULL,
            "it was retired and is named by agent %s again: its gate is shut, then it joins as new",
            group->r.agent);
}

bool retire_wants_shut(const struct group *group)
{
    return group->r.drained || group->r.returning;
}

/* JOINING is also said while gates are only being looked at: then each must have been read as shut.  An engine without a
 * gate has none to read: invariant 1 is not claimed for its group. */
static bool is_seen_shut(const struct group *group)
{
    if (!group->known || group->live.gate_open) {
        return false;
    }
    bool shut = true;
    for (uint32_t i = 0; i < group->live.engines_count; i++) {
        const char *gate = group->engines[i].gate;
        bool may_open = text_equal(gate, "open") || text_equal(gate, "hold");
        bool none = group->live.advisory && text_equal(gate, "none");
        bool read = none || text_equal(gate, "shut");
        shut = shut && (group->live.state == GROUP_STATE_OUT ? !may_open : read);
    }
    return shut &&
           (group->live.state == GROUP_STATE_OUT || group->live.state == GROUP_STATE_JOINING);
}

void retire_settle(struct controller *core, struct group *group)
{
    if (group->r.returning && is_seen_shut(group)) {
        group->r.returning = false;
        fleet_changed(core, group);
    }
    if (group->r.as_new && !group->r.returning && group_is_available(group)) {
        group->r.as_new = false;
        if (group->live.committed_seq != group->r.target_seq) {
            late_note(core, group); /* An operator at its node opened it, or more was promoted. */
        }
        fleet_changed(core, group);
    }
}

bool retire_may_move(const struct controller *core, const struct group *group)
{
    const struct agent *leader = agent_find(core, group->r.agent);
    bool given_up = leader == NULL || (leader->session != 0 && !group->known);
    return group->r.retired || (given_up && !group->r.ticket_open);
}

void retire_move(struct controller *core, struct group *group, struct agent *agent)
{
    struct agent *before = agent_find(core, group->r.agent);
    struct object_ref ref = ref_group(group);
    if (before != NULL) {
        agent_unlink(before, group);
        goals_touch(core, before);
    }
    log_add(core, &ref, "GroupMoved", NULL, "agent %s leads it; before: agent %s", agent->r.name,
            group->r.agent);
    text_copy(group->r.agent, sizeof(group->r.agent), agent->r.name);
    agent_link(agent, group);
    group->r.owner_term++;
    marks_put(core, RECORD_GROUP, group);
}

void retire_vanished(struct controller *core, struct group *group)
{
    struct object_ref ref = ref_group(group);
    if (!group->r.retired) {
        log_warn(core, &ref, "GroupVanished",
                 "agent %s no longer names it; put it back in its configuration, or batonctl "
                 "retire group/%s --attest-dead",
                 group->r.agent, group->r.name);
    }
    group_forget(core, group);
}

static void print_members(const struct group *group, char out[BATON_DIGEST_TEXT_BYTES])
{
    struct fingerprint print = fingerprint_of(group->live.engines_count);
    for (uint32_t i = 0; i < group->live.engines_count; i++) {
        fingerprint_add_text(&print, group->engines[i].name);
    }
    fingerprint_write(&print, out);
}

void retire_note_members(struct controller *core, struct group *group)
{
    char now[BATON_DIGEST_TEXT_BYTES];
    print_members(group, now);
    if (text_equal(now, group->r.members)) {
        return;
    }
    bool resized = group->r.members[0] != '\0';
    struct object_ref ref = ref_group(group);
    bool begun = text_equal(group->live.ticket_uid, group->r.ticket.uid);
    if (resized && group->r.ticket_open && !begun && !group->r.ticket.revoked) {
        /* It was granted to the group as it was. */
        group->r.ticket.revoked = true;
        group->send_revoke = true;
    }
    if (resized) {
        log_add(core, &ref, "GroupResized", NULL, "it has %u engines now",
                group->live.engines_count);
    }
    text_copy(group->r.members, sizeof(group->r.members), now);
    marks_put(core, RECORD_GROUP, group);
}

static struct group *longest_retired(const struct controller *core)
{
    struct group *oldest = NULL;
    for (uint32_t i = 0; i < core->groups.count; i++) {
        struct group *group = core->groups.objects[i];
        bool gone = group->r.retired && !group->known;
        if (gone && (oldest == NULL || group->r.retired_wall_ns < oldest->r.retired_wall_ns)) {
            oldest = group;
        }
    }
    return oldest;
}

/* A slot that is given up can be taken in the next step only, so a refused agent finds room when it
 * tries again. */
bool retire_make_room(struct controller *core, uint32_t needed)
{
    if (core->groups_table.count + needed <= core->limits.groups) {
        return true;
    }
    for (uint32_t i = 0; i < needed; i++) {
        struct group *group = longest_retired(core);
        if (group == NULL) {
            break;
        }
        struct agent *agent = agent_find(core, group->r.agent);
        if (agent != NULL) {
            agent_unlink(agent, group);
        }
        group_remove(core, group);
    }
    return false;
}
