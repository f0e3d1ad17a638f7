/* session.c -- see session.h. */
#include "agent/core/session.h"

#include <string.h>

#include "agent/core/member.h"
#include "agent/core/report.h"

void session_raise_epoch(struct agent *agent, struct agent_epoch epoch)
{
    if (agent_epoch_compare(epoch, agent->ledger.epoch) > 0) {
        struct journal_record record = { .kind = JOURNAL_EPOCH, .epoch = epoch };
        agent_write(agent, &record);
    }
}

void session_on_opened(struct agent *agent)
{
    agent->session_open = true;
    agent->welcomed = false;
    agent->hello_outdated = false;
    report_hello(agent);
}

void session_on_closed(struct agent *agent)
{
    agent->session_open = false;
    agent->welcomed = false;
}

/* Rule 6: what a lost journal had seen is durable here before any command is obeyed. */
static void take_floors(struct agent *agent, const struct agent_event *event)
{
    for (uint32_t i = 0; i < event->welcome.floors_count; i++) {
        const struct agent_group_floor *floor = &event->welcome.floors[i];
        struct group *group = agent_group_find(agent, floor->group);
        if (group == NULL || (floor->ticket_number <= group->ledger->highest_ticket &&
                              floor->owner_term <= group->ledger->owner_term)) {
            continue;
        }
        struct journal_record record = group_record(group, JOURNAL_FLOORS);
        record.floors.ticket_number = floor->ticket_number;
        record.floors.owner_term = floor->owner_term;
        agent_write(agent, &record);
    }
}

void session_on_welcome(struct agent *agent, const struct agent_event *event)
{
    struct agent_epoch epoch = event->welcome.epoch;
    if (!agent->session_open) {
        return;
    }
    if (agent_epoch_compare(epoch, agent->ledger.epoch) < 0) {
        agent_push(agent, AGENT_ACTION_CLOSE_SESSION)->text =
            "the controller's epoch is lower than one seen before";
        agent_note(agent, true, "agent/session", "StaleEpoch",
                   "the controller greets with epoch %llu.%llu; %llu.%llu was seen before",
                   (unsigned long long)epoch.generation, (unsigned long long)epoch.n,
                   (unsigned long long)agent->ledger.epoch.generation,
                   (unsigned long long)agent->ledger.epoch.n);
        return;
    }
    session_raise_epoch(agent, epoch);
    if (agent->hello_outdated) {
        agent_push(agent, AGENT_ACTION_CLOSE_SESSION)->text =
            "a higher version was seen since this session's hello, which has to name it";
        return;
    }
    take_floors(agent, event);
    agent->welcomed = true;
    agent->session_epoch = epoch;
    agent->goals_revision = 0;
    agent->lease_ns = event->welcome.lease_ns;
    agent->report_due = true;
    landings_allow_drop(&agent->landings, NULL, 0);
    for (uint32_t i = 0; i < agent->config.groups_count; i++) {
        for (uint32_t k = 0; k < agent->groups[i].ledger->outcomes_count; k++) {
            struct ledger_outcome *outcome = &agent->groups[i].ledger->outcomes[k];
            outcome->told = outcome->stored;
        }
    }
}

static bool version_is_valid(const struct agent_version_goal *goal)
{
    uint8_t digest[BATON_DIGEST_BYTES];
    return goal->version.seq == 0 ||
           (goal->sources_count <= BATON_SOURCES_PER_VERSION_MAX &&
            goal->holders_count <= BATON_HOLDERS_MAX &&
            baton_hex_decode(goal->version.digest, digest, sizeof digest));
}

/* What is wrong with one group's goal, into 'why'; false if nothing is. */
static bool is_bad_goal(struct agent *agent, const struct agent_group_goal *goal, char *why,
                        size_t why_bytes)
{
    struct group *group = agent_group_find(agent, goal->group);
    if (group == NULL || member_follows(group)) {
        text_print(why, why_bytes, "groups: this agent leads no group %s", goal->group);
    } else if (!version_is_valid(&goal->target) || !version_is_valid(&goal->stage) ||
               !version_is_valid(&goal->restore)) {
        text_print(why, why_bytes,
                   "group %s: a digest is not 32 hexadecimal digits, or there are more than %d "
                   "sources",
                   goal->group, BATON_SOURCES_PER_VERSION_MAX);
    } else if (goal->owner_term < group->ledger->owner_term) {
        text_print(why, why_bytes, "group %s: owner term %llu is lower than %llu, seen before",
                   goal->group, (unsigned long long)goal->owner_term,
                   (unsigned long long)group->ledger->owner_term);
    } else {
        return false;
    }
    return true;
}

static bool are_bad_goals(struct agent *agent, const struct agent_goals *goals, char *why,
                          size_t why_bytes)
{
    if (agent_epoch_compare(goals->epoch, agent->ledger.epoch) < 0) {
        text_print(why, why_bytes, "epoch: lower than one seen before");
        return true;
    }
    if (goals->revision < agent->goals_revision) {
        text_print(why, why_bytes, "revision: lower than %llu, seen before",
                   (unsigned long long)agent->goals_revision);
        return true;
    }
    for (uint32_t i = 0; i < goals->groups_count; i++) {
        if (is_bad_goal(agent, &goals->groups[i], why, why_bytes)) {
            return true;
        }
    }
    for (uint32_t i = 0; i < goals->follows_count; i++) {
        if (goals->follows[i].version.seq == 0 || !version_is_valid(&goals->follows[i])) {
            text_print(why, why_bytes,
                       "follows: no seq, a digest is not 32 hexadecimal digits, or there are more "
                       "than %d holders",
                       BATON_HOLDERS_MAX);
            return true;
        }
    }
    return false;
}

static bool is_news(const struct agent *agent, const struct group *group,
                    const struct agent_version *version)
{
    const struct ledger_seq *seq = ledger_seq_find(&agent->ledger, group->config->model);
    return version->seq != 0 && (seq == NULL || version->seq > seq->version.seq);
}

/* The highest seq of each model is durable, so that a store that went back can be told (rule 5).  A
 * Hello may wait long for a controller; what its group's leader tells a follower meanwhile is not in it. */
static void note_seq(struct agent *agent, const struct group *group,
                     const struct agent_version *version)
{
    if (!is_news(agent, group, version)) {
        return;
    }
    agent->hello_outdated |= agent->session_open && !agent->welcomed;
    struct journal_record record = { .kind = JOURNAL_SEQ };
    memcpy(record.seq.model, group->config->model, sizeof record.seq.model);
    record.seq.version = *version;
    agent_write(agent, &record);
}

static void take_version(struct agent *agent, const struct group *group,
                         const struct agent_version_goal *goal)
{
    note_seq(agent, group, &goal->version);
    if (goal->version.seq != 0) {
        bool hinted = member_follows(group) && agent->welcomed &&
                      agent->config.peer_address[0] != '\0' && goal->holders_count == 0;
        (void)landings_want(agent, goal, hinted);
    }
}

/* Rule 5: a controller may give a seq again that no agent had seen when it greeted them.  What a leader was told by an earlier one
 * comes late to a follower: it must not be the first that it hears of a seq. */
static bool is_outdated(const struct agent *agent, const struct group *group,
                        const struct agent_group_goal *goal, struct agent_epoch epoch)
{
    bool news = is_news(agent, group, &goal->target.version) ||
                is_news(agent, group, &goal->stage.version) ||
                is_news(agent, group, &goal->restore.version);
    return news && agent_epoch_compare(epoch, agent->ledger.epoch) < 0;
}

bool session_take_goal(struct agent *agent, const struct agent_group_goal *goal,
                       struct agent_epoch epoch)
{
    struct group *group = agent_group_find(agent, goal->group);
    if (is_outdated(agent, group, goal, epoch)) {
        return false;
    }
    if (goal->owner_term > group->ledger->owner_term) {
        struct journal_record record = group_record(group, JOURNAL_FLOORS);
        record.floors.owner_term = goal->owner_term;
        agent_write(agent, &record);
    }
    group->resuming = false; /* Whoever drives the fleet is back. */
    group->goal = (struct group_goal){ .given = true,
                                       .epoch = epoch,
                                       .target = goal->target.version,
                                       .stage = goal->stage.version,
                                       .restore = goal->restore.version,
                                       .drain = goal->drain,
                                       .sleep = goal->sleep,
                                       .sleep_drain_ns = goal->sleep_drain_ns };
    take_version(agent, group, &goal->target);
    take_version(agent, group, &goal->stage);
    take_version(agent, group, &goal->restore);
    group->changed = true;
    return true;
}

void session_on_goals(struct agent *agent, const struct agent_goals *goals)
{
    char *why = agent_scratch(agent, 1, BATON_TEXT_BYTES);
    if (!agent->welcomed) {
        return;
    }
    if (are_bad_goals(agent, goals, why, BATON_TEXT_BYTES)) {
        struct agent_action *action = agent_push(agent, AGENT_ACTION_NACK);
        action->nack.revision = goals->revision;
        action->nack.message = why;
        return;
    }
    session_raise_epoch(agent, goals->epoch);
    agent->goals_revision = goals->revision;
    for (uint32_t i = 0; i < goals->groups_count; i++) {
        (void)session_take_goal(agent, &goals->groups[i], goals->epoch);
    }
    landings_allow_drop(&agent->landings, goals->droppable, goals->droppable_count);
    landings_take_hints(agent, goals->follows, goals->follows_count);
    agent_push(agent, AGENT_ACTION_ACK)->ack = goals->revision;
}

/* Rule 1: every ACCEPT of an earlier life has its outcome before the agent opens its session.  Each
 * recovery is bounded by restore_bound, so no group holds the others for longer. */
static bool is_recovering(const struct agent *agent)
{
    for (uint32_t i = 0; i < agent->config.groups_count; i++) {
        const struct group *group = &agent->groups[i];
        if (!member_follows(group) && group->recovering && group->ledger->open) {
            return true;
        }
    }
    return false;
}

static bool has_untold_outcome(const struct group *group)
{
    if (member_follows(group)) {
        return false; /* Its leader tells. */
    }
    for (uint32_t i = 0; i < group->ledger->outcomes_count; i++) {
        if (!group->ledger->outcomes[i].told) {
            return true;
        }
    }
    return false;
}

static bool has_progress(const struct agent *agent)
{
    for (uint32_t i = 0; i < agent->config.groups_count; i++) {
        if (agent->groups[i].progressed) {
            return true;
        }
    }
    return false;
}

static bool is_report_due(const struct agent *agent)
{
    bool due =
        agent->report_due || agent->events_count > 0 || agent->now_ns >= session_deadline_ns(agent);
    for (uint32_t i = 0; i < agent->config.groups_count; i++) {
        due |= agent->groups[i].changed || has_untold_outcome(&agent->groups[i]);
    }
    return due;
}

void session_advance(struct agent *agent)
{
    if (!agent->session_wanted && !is_recovering(agent)) {
        agent->session_wanted = true;
        agent_push(agent, AGENT_ACTION_OPEN_SESSION);
    }
    if (agent->welcomed && is_report_due(agent)) {
        report_changes(agent);
    }
}

uint64_t session_deadline_ns(const struct agent *agent)
{
    if (!agent->welcomed) {
        return AGENT_NEVER;
    }
    uint64_t beat = agent->report_ns + agent->lease_ns / 3;
    uint64_t progress = agent->report_ns + agent->config.times.report_interval;
    return has_progress(agent) && progress < beat ? progress : beat;
}
