/* hello.c -- the first message of a session: who may have one, and what it changes.
 *
 * Everything is checked before anything is changed.  A group belongs to the agent and model that it
 * was first told with; another claim is refused, because two agents that drive one engine could mix
 * it -- unless its leader came back without it, or it was retired (retire.c).  Owner terms rise with each new life of the journal and are stored before they are sent. */
#include <string.h>

#include "api/base/mutant.h"
#include "controller/core/fleet.h"
#include "controller/core/holders.h"
#include "controller/core/text.h"

static struct baton_status refuse(enum baton_code code, enum baton_reason reason, const char *agent,
                                  const char *what)
{
    return baton_status_make(code, reason, "agent %.63s: %s", agent == NULL ? "" : agent, what);
}

static struct baton_status check_sender(const struct controller *core,
                                        const struct session_hello *hello)
{
    if (!text_is_name(hello->agent)) {
        return refuse(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD, hello->agent,
                      "agent: not a name (1 to 63 characters of a-z, 0-9, '-', '.')");
    }
    if (hello->protocol < CONTROLLER_PROTOCOL_OLDEST || hello->protocol > CONTROLLER_PROTOCOL) {
        return baton_status_make(
            BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
            "agent %s speaks protocol %u, this controller %d to %d: upgrade the %s", hello->agent,
            hello->protocol, CONTROLLER_PROTOCOL_OLDEST, CONTROLLER_PROTOCOL,
            hello->protocol > CONTROLLER_PROTOCOL ? "controller first" : "agent");
    }
    size_t length =
        text_is_empty(hello->journal_incarnation) ? 0 : strlen(hello->journal_incarnation);
    if (length == 0 || length >= BATON_NAME_BYTES) {
        return refuse(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD, hello->agent,
                      "journal_incarnation: empty or longer than 63 characters");
    }
    struct baton_status st = told_check_hello(core, hello);
    return baton_ok(&st) ? st : baton_status_in(st, "agent %s", hello->agent);
}

static struct baton_status check_group(const struct controller *core,
                                       const struct session_hello *hello, size_t i)
{
    const struct group_report *told = &hello->groups[i];
    struct baton_status st = told_check_group(core, told);
    if (!baton_ok(&st)) {
        return baton_status_in(st, "agent %s", hello->agent);
    }
    for (size_t before = 0; before < i; before++) {
        if (strcmp(hello->groups[before].group, told->group) == 0) {
            return refuse(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD, hello->agent,
                          "groups: a group is named twice");
        }
    }
    const struct group *group = group_find(core, told->group);
    bool other = group != NULL && strcmp(group->r.agent, hello->agent) != 0;
    if (other && !retire_may_move(core, group)) {
        return baton_status_hint(
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_IN_USE,
                              "group %s is led by agent %s; agent %s claims it too", told->group,
                              group->r.agent, hello->agent),
            "give the group another name, take it out of agent %s's configuration, or, if that "
            "agent "
            "is gone for good: batonctl retire group/%s --attest-dead",
            group->r.agent, group->r.name);
    }
    if (group != NULL && strcmp(group->r.model, told->model) != 0) {
        return baton_status_hint(
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_IN_USE,
                              "group %s belongs to model %s; agent %s says model %s", told->group,
                              group->r.model, hello->agent, told->model),
            "give the group another name in the agent's configuration");
    }
    return baton_status_ok();
}

static size_t count_new_groups(const struct controller *core, const struct session_hello *hello)
{
    size_t count = 0;
    for (size_t i = 0; i < hello->groups_count; i++) {
        count += group_find(core, hello->groups[i].group) == NULL;
    }
    return count;
}

/* Groups that another agent led. */
static size_t count_moved_groups(const struct controller *core, const struct session_hello *hello)
{
    size_t count = 0;
    for (size_t i = 0; i < hello->groups_count; i++) {
        const struct group *group = group_find(core, hello->groups[i].group);
        count += group != NULL && strcmp(group->r.agent, hello->agent) != 0;
    }
    return count;
}

static struct baton_status check_room(const struct controller *core,
                                      const struct session_hello *hello)
{
    const struct agent *agent = agent_find(core, hello->agent);
    size_t added = count_new_groups(core, hello);
    size_t led =
        added + count_moved_groups(core, hello) + (agent == NULL ? 0 : agent->groups_count);
    if (led > BATON_GROUPS_PER_AGENT_MAX) {
        return refuse(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT, hello->agent,
                      "it leads more than 64 groups, which is the limit");
    }
    if (core->groups_table.count + added > core->limits.groups) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "agent %s: there are %u groups, which is the limit", hello->agent,
                                 core->limits.groups);
    }
    if (agent == NULL && table_is_full(&core->agents_table)) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "agent %s: there are %u agents, which is the limit", hello->agent,
                                 core->limits.agents);
    }
    return baton_status_ok();
}

struct baton_status hello_check(const struct controller *core, const struct session_hello *hello)
{
    struct baton_status st = check_sender(core, hello);
    for (size_t i = 0; baton_ok(&st) && i < hello->groups_count; i++) {
        if (i == BATON_GROUPS_PER_AGENT_MAX) {
            return refuse(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT, hello->agent,
                          "it leads more than 64 groups, which is the limit");
        }
        st = check_group(core, hello, i);
    }
    if (baton_ok(&st)) {
        st = check_room(core, hello);
    }
    return st;
}

static bool is_above(struct epoch a, struct epoch b)
{
    return a.generation != b.generation ? a.generation > b.generation : a.n > b.n;
}

/* Whatever an agent has seen was stored before it was sent.  A store that was put back within one
 * leadership shows no higher epoch, but higher numbers (tests/model/restored.pml). */
static bool knows_more(const struct controller *core, const struct session_hello *hello)
{
    if (core->cluster.floors_pending) {
        return false; /* Known already; this is how the numbers are learnt again. */
    }
    for (size_t i = 0; i < hello->groups_count; i++) {
        const struct group *group = group_find(core, hello->groups[i].group);
        if (group != NULL && (hello->groups[i].highest_ticket > group->r.ticket_number ||
                              hello->groups[i].owner_term > group->r.owner_term)) {
            return true;
        }
    }
    for (size_t i = 0; i < hello->floors_count; i++) {
        const struct model *model = model_find(core, hello->floors[i].model);
        if (model != NULL && hello->floors[i].seq > model->r.seq_floor &&
            told_has_model(core, hello, model->r.name)) {
            return true;
        }
    }
    return false;
}

/* Rule 5: an agent that obeyed a later leadership than ours, or saw higher numbers than were ever
 * stored, proves that our store went back. */
static void fence(struct controller *core, const struct session_hello *hello)
{
    struct object_ref ref = { .kind = OBJECT_AGENT };
    text_copy(ref.name, sizeof(ref.name), hello->agent);
    log_warn(core, &ref, "StoreWentBack",
             "it has seen more than was stored: epoch %llu/%llu, ours %llu/%llu, or higher numbers",
             (unsigned long long)hello->highest_epoch.generation,
             (unsigned long long)hello->highest_epoch.n, (unsigned long long)core->epoch.generation,
             (unsigned long long)core->epoch.n);
    core->out.new_generation = true;
    core->out.generation_floor = hello->highest_epoch.generation;
    core->phase = CORE_FENCED;
    session_close(core, hello->session,
                  baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STALE_EPOCH,
                                    "the controller's store went back; it takes a new generation"));
}

static struct agent *find_or_add_agent(struct controller *core, const struct session_hello *hello)
{
    struct agent *agent = agent_find(core, hello->agent);
    if (agent != NULL) {
        return agent;
    }
    struct agent_record record = { .created_wall_ns = core->wall_ns };
    text_copy(record.name, sizeof(record.name), hello->agent);
    uid_make(core, record.uid);
    agent = agent_add(core, &record);
    agent->marks.added = true;
    return agent;
}

/* Takes over what the record keeps; true if its journal is another one than before. */
static bool update_agent(struct controller *core, struct agent *agent,
                         const struct session_hello *hello)
{
    struct agent_record *r = &agent->r;
    bool known = r->journal_incarnation[0] != '\0';
    bool new_life = !text_equal(r->journal_incarnation, hello->journal_incarnation);
    struct agent_record before = *r;
    text_copy(r->journal_incarnation, sizeof(r->journal_incarnation), hello->journal_incarnation);
    text_copy(r->software, sizeof(r->software), hello->software);
    text_copy(r->address, sizeof(r->address), hello->address);
    r->retired = false;
    if (memcmp(&before, r, sizeof(before)) != 0) {
        marks_put(core, RECORD_AGENT, agent);
    }
    marks_change(core, RECORD_AGENT, agent);
    return known && new_life;
}

static void replace_session(struct controller *core, struct agent *agent,
                            const struct session_hello *hello)
{
    if (agent->session != 0) {
        session_close(core, agent->session,
                      baton_status_make(BATON_ABORTED, BATON_REASON_IN_USE,
                                        "a newer session of agent %s took its place",
                                        agent->r.name));
        agent_drop_session(core, agent);
    }
    agent_add_session(core, agent, hello->session);
    agent->heard_ns = core->now_ns;
    agent->seen_wall_ns = core->wall_ns;
    agent->landing_budget_bytes = hello->landing_budget_bytes;
    text_copy(agent->peer_address, sizeof(agent->peer_address), hello->peer_address);
    holders_place(core, agent, hello->peer_zone);
    agent->landed_count = 0; /* Its first report tells. */
    goals_touch(core, agent);
    agent->goals_print = 0;
    agent->goals_refusal[0] = '\0';
    wake_first(core, &core->agents_due_ns, core->now_ns + CONTROLLER_LEASE_MS * MS_NS);
}

/* The verb went with a store that was lost: its goals may not wake it on a device that is in use. */
static void keep_asleep(struct group_record *record, const struct group_report *told)
{
    if (sleep_is_told(told)) {
        record->asleep = true;
        text_copy(record->sleep_reason, sizeof(record->sleep_reason), "as its agent restated");
    }
}

static struct group *find_or_add_group(struct controller *core, struct agent *agent,
                                       const struct group_report *told)
{
    struct group *group = group_find(core, told->group);
    if (group != NULL) {
        if (strcmp(group->r.agent, agent->r.name) != 0) {
            retire_move(core, group, agent);
        }
        if (group->r.retired && !group->r.drained) {
            retire_return(core, group);
        }
        return group;
    }
    struct group_record record = { .created_wall_ns = core->wall_ns };
    text_copy(record.name, sizeof(record.name), told->group);
    text_copy(record.model, sizeof(record.model), told->model);
    text_copy(record.agent, sizeof(record.agent), agent->r.name);
    uid_make(core, record.uid);
    keep_asleep(&record, told);
    group = group_add(core, &record);
    group->marks.added = true;
    late_note(core, group);
    agent_link(agent, group);
    marks_put(core, RECORD_GROUP, group);
    struct object_ref ref = ref_group(group);
    log_add(core, &ref, "GroupAdded", NULL, "agent %s leads it for model %s", agent->r.name,
            record.model);
    return group;
}

static void add_floor(struct controller *core, const struct group *group)
{
    struct group_floor *floor = &core->out.floors[core->out.floors_count++];
    text_copy(floor->group, sizeof(floor->group), group->r.name);
    floor->ticket_number = group->r.ticket_number;
    floor->owner_term = group->r.owner_term;
}

/* Rule 6: the lost journal's numbers are told before any command; the new one gets a higher term.
 */
static void take_new_life(struct controller *core, struct agent *agent)
{
    struct object_ref ref = ref_agent(agent);
    log_warn(core, &ref, "JournalLost", "its journal is a new one");
    for (uint32_t i = 0; i < agent->groups_count; i++) {
        struct group *group = agent->groups[i];
        add_floor(core, group);
        ticket_close_lost(core, group, SWAP_OUTCOME_OUT,
                          "the agent's journal was lost; the group joins anew");
        group->r.owner_term++;
        marks_put(core, RECORD_GROUP, group);
    }
}

static bool is_told(const struct session_hello *hello, const struct group *group)
{
    for (size_t i = 0; i < hello->groups_count; i++) {
        if (strcmp(hello->groups[i].group, group->r.name) == 0) {
            return true;
        }
    }
    return false;
}

static void take_groups(struct controller *core, struct agent *agent,
                        const struct session_hello *hello)
{
    for (uint32_t i = 0; i < agent->groups_count; i++) {
        if (!is_told(hello, agent->groups[i])) {
            retire_vanished(core, agent->groups[i]);
        }
    }
    for (size_t i = 0; i < hello->groups_count; i++) {
        struct group *group = find_or_add_group(core, agent, &hello->groups[i]);
        if (group->r.owner_term == 0) {
            group->r.owner_term = 1;
            marks_put(core, RECORD_GROUP, group);
        }
        group_take_report(core, group, &hello->groups[i]);
        retire_note_members(core, group);
        retire_settle(core, group);
        group->send_ticket = group->r.ticket_open;
        group->send_revoke = group->r.ticket_open && group->r.ticket.revoked;
        barrier_tell(core, group);
        if (group->send_ticket &&
            !MUTANT(TICKET_NOT_RESENT)) { /* Also of a group that has nothing new to say. */
            marks_change(core, RECORD_GROUP, group);
        }
        group_touch(core, group);
    }
}

static void take_floors(struct controller *core, struct agent *agent,
                        const struct session_hello *hello)
{
    agent->floors_count = 0;
    for (size_t i = 0; i < hello->floors_count && agent->floors_count < core->limits.models; i++) {
        /* After the store went back, also of a model of which it only follows a group: a Hello does not name those, and
         * the leader's disk may be lost. */
        if (!core->cluster.floors_pending && !told_has_model(core, hello, hello->floors[i].model)) {
            continue;
        }
        agent->floors[agent->floors_count++] = hello->floors[i];
        struct model *model = model_find(core, hello->floors[i].model);
        if (model != NULL) {
            model_raise_floor(core, model, hello->floors[i].seq);
        }
    }
}

static void accept(struct controller *core, const struct session_hello *hello)
{
    struct agent *agent = find_or_add_agent(core, hello);
    struct object_ref ref = ref_agent(agent);
    log_add(core, &ref, "AgentConnected", NULL, "software %s, %zu groups",
            text_is_empty(hello->software) ? "unknown" : hello->software, hello->groups_count);
    replace_session(core, agent, hello);
    if (update_agent(core, agent, hello)) {
        take_new_life(core, agent);
    }
    take_floors(core, agent, hello);
    follow_take(core, agent, hello);
    take_groups(core, agent, hello);
    holders_note(core, agent);
    core->out.welcome = agent;
}

void agents_hello(struct controller *core, const struct session_hello *hello)
{
    struct baton_status st = hello_check(core, hello);
    struct epoch told = hello->highest_epoch;
    if (baton_ok(&st) && (is_above(told, core->epoch) || knows_more(core, hello))) {
        fence(core, hello);
    } else if (baton_ok(&st)) {
        accept(core, hello);
    } else {
        if (st.code == BATON_RESOURCE_EXHAUSTED) {
            retire_make_room(core, (uint32_t)count_new_groups(core, hello));
        }
        session_close(core, hello->session, st);
    }
}
