/* agents.c -- agents: sessions and leases, reports.
 *
 * A session that ends does not make its groups UNKNOWN at once: they stay as last reported until
 * the lease runs out (a reconnect is quick), but get no ticket meanwhile.  Silence for a lease ends
 * the session. */
#include <string.h>

#include "controller/core/fleet.h"
#include "controller/core/holders.h"
#include "controller/core/text.h"

#define LEASE_NS (CONTROLLER_LEASE_MS * MS_NS)

struct agent *agent_add(struct controller *core, const struct agent_record *record)
{
    struct agent *agent = table_take(&core->agents_table);
    if (agent == NULL) {
        return NULL;
    }
    size_t place = table_place(&core->agents_table, agent);
    agent->r = *record;
    agent->landed = core->landed + place * core->limits.landed;
    agent->landed_unknown_ns = core->landed_unknown_ns + place * core->limits.landed;
    agent->groups = core->agent_groups + place * BATON_GROUPS_PER_AGENT_MAX;
    agent->follows = core->follows + place * BATON_GROUPS_PER_AGENT_MAX;
    agent->floors = core->floors + place * core->limits.models;
    index_insert(&core->agents, agent);
    holders_place(core, agent, "");
    return agent;
}

struct agent *agent_find(const struct controller *core, const char *name)
{
    return index_find(&core->agents, name == NULL ? "" : name);
}

void agent_link(struct agent *agent, struct group *group)
{
    uint32_t place = agent->groups_count;
    baton_assert(place < BATON_GROUPS_PER_AGENT_MAX);
    while (place > 0 && strcmp(agent->groups[place - 1]->r.name, group->r.name) > 0) {
        agent->groups[place] = agent->groups[place - 1];
        place--;
    }
    agent->groups[place] = group;
    agent->groups_count++;
    group->agent = agent;
}

/* Place of the first session whose id is not below 'id'. */
static uint32_t session_place(const struct controller *core, uint64_t id)
{
    uint32_t low = 0;
    uint32_t high = core->sessions_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (core->sessions[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void agent_unlink(struct agent *agent, struct group *group)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < agent->groups_count; i++) {
        if (agent->groups[i] != group) {
            agent->groups[kept++] = agent->groups[i];
        }
    }
    agent->groups_count = kept;
}

struct agent *agent_of_session(const struct controller *core, uint64_t session)
{
    uint32_t place = session_place(core, session);
    bool found = place < core->sessions_count && core->sessions[place].id == session;
    return found ? core->sessions[place].agent : NULL;
}

void agent_add_session(struct controller *core, struct agent *agent, uint64_t session)
{
    uint32_t place = session_place(core, session);
    struct session *at = core->sessions + place;
    baton_assert(core->sessions_count < core->limits.agents);
    memmove(at + 1, at, (core->sessions_count - place) * sizeof(*at));
    *at = (struct session){ session, agent };
    core->sessions_count++;
    agent->session = session;
}

static void touch_groups(struct controller *core, const struct agent *agent)
{
    for (uint32_t i = 0; i < agent->groups_count; i++) {
        group_touch(core, agent->groups[i]);
    }
}

void agent_drop_session(struct controller *core, struct agent *agent)
{
    if (agent->session != 0) {
        uint32_t place = session_place(core, agent->session);
        struct session *at = core->sessions + place;
        core->sessions_count--;
        memmove(at, at + 1, (core->sessions_count - place) * sizeof(*at));
    }
    agent->session = 0;
    agent->goals_print = 0;
    marks_change(core, RECORD_AGENT, agent);
    touch_groups(core, agent);
}

struct group *agent_group(const struct agent *agent, const char *name)
{
    uint32_t low = 0;
    uint32_t high = agent->groups_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strcmp(agent->groups[middle]->r.name, name);
        if (order == 0) {
            return agent->groups[middle];
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return NULL;
}

bool agent_has_landed(const struct agent *agent, const char *digest)
{
    for (uint32_t i = 0; i < agent->landed_count; i++) {
        if (strcmp(agent->landed[i], digest) == 0) {
            return true;
        }
    }
    return false;
}

static struct baton_status check_report(const struct controller *core, const struct agent *agent,
                                        const struct session_report *report)
{
    for (size_t i = 0; i < report->groups_count; i++) {
        const struct group_report *told = &report->groups[i];
        struct baton_status st = told_check_group(core, told);
        if (!baton_ok(&st)) {
            return baton_status_in(st, "agent %s", agent->r.name);
        }
        const struct group *group = agent_group(agent, told->group);
        if (group == NULL || strcmp(group->r.model, told->model) != 0) {
            return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                     "report of group %.63s of model %.63s, which the Hello of "
                                     "agent %s did not name",
                                     told->group, told->model, agent->r.name);
        }
    }
    for (size_t i = 0; i < report->outcomes_count; i++) {
        struct baton_status st = told_check_outcome(core, &report->outcomes[i]);
        if (!baton_ok(&st)) {
            return baton_status_in(st, "agent %s", agent->r.name);
        }
    }
    return baton_status_ok();
}

static bool landed_equal(const struct agent *agent, const struct session_report *report)
{
    if (agent->landed_count != report->landed_count) {
        return false;
    }
    for (size_t i = 0; i < report->landed_count; i++) {
        if (strcmp(agent->landed[i], report->landed_digests[i]) != 0) {
            return false;
        }
    }
    return true;
}

/* Since when the digest is unknown; 0: it is not, or was not landed before. */
static uint64_t unknown_since(const struct agent *agent, const char *digest)
{
    for (uint32_t i = 0; i < agent->landed_count; i++) {
        if (text_equal(agent->landed[i], digest)) {
            return agent->landed_unknown_ns[i];
        }
    }
    return 0;
}

static void take_landed(struct controller *core, struct agent *agent,
                        const struct session_report *report)
{
    uint64_t since_ns[CONTROLLER_LANDED_MAX];
    uint32_t count = 0;
    for (; count < report->landed_count && count < core->limits.landed; count++) {
        since_ns[count] = unknown_since(agent, report->landed_digests[count]);
    }
    for (uint32_t i = 0; i < count; i++) {
        text_copy(agent->landed[i], BATON_DIGEST_TEXT_BYTES, report->landed_digests[i]);
    }
    memcpy(agent->landed_unknown_ns, since_ns, count * sizeof(since_ns[0]));
    agent->landed_count = count;
}

static void take_landing(struct controller *core, struct agent *agent,
                         const struct session_report *report)
{
    agent->landing_used_bytes = report->landing_used_bytes;
    if (landed_equal(agent, report)) {
        return;
    }
    take_landed(core, agent, report);
    goals_touch(core, agent);
    marks_change(core, RECORD_AGENT, agent);
    touch_groups(core, agent);
}

/* It speaks again only after the Welcome: our epoch is durable there, so it takes nothing from before any more, and what it
 * took until then it would have told by another Hello. */
static void renew(struct controller *core, struct agent *agent)
{
    agent->restated = true;
    agent->heard_ns = core->now_ns;
    agent->seen_wall_ns = core->wall_ns;
}

void agents_report(struct controller *core, const struct session_report *report)
{
    struct agent *agent = agent_of_session(core, report->session);
    if (agent == NULL) {
        return; /* It was ended; the stream is about to close. */
    }
    renew(core, agent);
    struct baton_status st = check_report(core, agent, report);
    if (!baton_ok(&st)) {
        session_close(core, report->session, st);
        agent_drop_session(core, agent);
        return;
    }
    if (report->landing_told) {
        take_landing(core, agent, report);
    }
    for (size_t i = 0; i < report->groups_count; i++) {
        group_take_report(core, agent_group(agent, report->groups[i].group), &report->groups[i]);
    }
    for (size_t i = 0; i < report->outcomes_count; i++) {
        tickets_take_outcome(core, agent, &report->outcomes[i]);
    }
    told_log(core, agent, report);
}

/* What was said before of one that is to sleep holds from now on. */
static void touch_sleepers(struct controller *core, const struct agent *agent)
{
    for (uint32_t i = 0; i < agent->groups_count; i++) {
        if (agent->groups[i]->r.asleep) {
            group_touch(core, agent->groups[i]);
        }
    }
}

void agents_ack(struct controller *core, const struct session_ack *ack)
{
    struct agent *agent = agent_of_session(core, ack->session);
    if (agent == NULL) {
        return;
    }
    renew(core, agent);
    if (!ack->refused) {
        agent->goals_acked = ack->revision;
        agent->goals_refusal[0] = '\0';
        touch_sleepers(core, agent);
        return;
    }
    text_copy(agent->goals_refusal, sizeof(agent->goals_refusal),
              text_is_empty(ack->message) ? "refused without a reason" : ack->message);
    marks_change(core, RECORD_AGENT, agent);
    struct object_ref ref = ref_agent(agent);
    log_warn(core, &ref, "GoalsRefused", "revision %llu: %s", (unsigned long long)ack->revision,
             agent->goals_refusal);
}

void agents_gone(struct controller *core, uint64_t session)
{
    struct agent *agent = agent_of_session(core, session);
    if (agent == NULL) {
        return;
    }
    agent_drop_session(core, agent);
    struct object_ref ref = ref_agent(agent);
    log_add(core, &ref, "AgentDisconnected", NULL, "its session ended");
}

static bool is_watched(const struct agent *agent)
{
    bool watched = agent->session != 0;
    for (uint32_t i = 0; i < agent->groups_count; i++) {
        watched = watched || agent->groups[i]->known;
    }
    return watched;
}

static void expire(struct controller *core, struct agent *agent)
{
    struct object_ref ref = ref_agent(agent);
    log_warn(core, &ref, "AgentLost", "not heard for %d s", CONTROLLER_LEASE_MS / 1000);
    if (agent->session != 0) {
        session_close(
            core, agent->session,
            baton_status_hint(baton_status_make(BATON_DEADLINE_EXCEEDED, BATON_REASON_NONE,
                                                "agent %s was silent for its lease", agent->r.name),
                              "open a new session"));
        agent_drop_session(core, agent);
    }
    for (uint32_t i = 0; i < agent->groups_count; i++) {
        group_forget(core, agent->groups[i]);
    }
}

void agents_expire(struct controller *core)
{
    if (!wake_is_due(core, &core->agents_due_ns)) {
        return;
    }
    for (uint32_t i = 0; i < core->agents.count; i++) {
        struct agent *agent = core->agents.objects[i];
        if (!is_watched(agent)) {
            continue;
        }
        uint64_t due_ns = agent->heard_ns + LEASE_NS;
        if (core->now_ns >= due_ns) {
            expire(core, agent);
        } else {
            wake_first(core, &core->agents_due_ns, due_ns);
        }
    }
}
