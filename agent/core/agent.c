/* agent.c -- see agent.h: memory, and one event in, its actions out. */
#include "agent/core/agent.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/check.h"
#include "agent/core/flow.h"
#include "agent/core/member.h"
#include "agent/core/operate.h"
#include "agent/core/ops.h"
#include "agent/core/session.h"
#include "agent/core/tickets.h"

/* Landed versions of a group: committed, target, next, one more; and some that nobody names yet. */
enum { LANDINGS_PER_GROUP = 4, LANDINGS_SPARE = 32 };
/* Most actions and bytes of one step: taints, outcome, refusal, notes and an operation an engine.
 * */
enum {
    ACTIONS_PER_GROUP = 32,
    ACTIONS_PER_ENGINE = 8,
    ACTIONS_PER_FOLLOWER = 4,
    ACTIONS_SPARE = 128,
    SCRATCH_PER_GROUP = 32 << 10,
    SCRATCH_PER_ENGINE = 8 << 10,
    SCRATCH_PER_FOLLOWER = 24 << 10, /* Commands, and its engines in reports. */
    SCRATCH_SPARE = 128 << 10,
};

static uint32_t count_engines(const struct agent_config *config)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < config->groups_count; i++) {
        count += config->groups[i].engines_count;
    }
    return count;
}

static uint32_t count_followers(const struct agent_config *config)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < config->groups_count; i++) {
        count += config->groups[i].followers_count;
    }
    return count;
}

static uint32_t landings_max(const struct agent_config *config)
{
    return config->groups_count * LANDINGS_PER_GROUP + LANDINGS_SPARE;
}

static uint32_t actions_max(const struct agent_config *config)
{
    return config->groups_count * ACTIONS_PER_GROUP + count_engines(config) * ACTIONS_PER_ENGINE +
           count_followers(config) * ACTIONS_PER_FOLLOWER + landings_max(config) + ACTIONS_SPARE;
}

static size_t scratch_bytes(const struct agent_config *config)
{
    return (size_t)config->groups_count * SCRATCH_PER_GROUP +
           (size_t)count_engines(config) * SCRATCH_PER_ENGINE +
           (size_t)count_followers(config) * SCRATCH_PER_FOLLOWER + landings_max(config) * 64U +
           SCRATCH_SPARE;
}

/* A block of the arena, with room for its alignment. */
static size_t block(size_t count, size_t size)
{
    return count * size + sizeof(max_align_t);
}

/* What a leader knows of its followers. */
static size_t followers_bytes(const struct agent_config *config)
{
    uint32_t followers = count_followers(config);
    size_t engines = (size_t)followers * BATON_ENGINES_PER_GROUP_MAX;
    size_t blocks = (size_t)config->groups_count * 2U + (size_t)followers * 2U;
    return followers * (sizeof(struct agent_member_config) + sizeof(struct peer)) +
           engines * (sizeof(struct agent_engine_report) + sizeof(struct peer_engine)) +
           blocks * sizeof(max_align_t);
}

size_t agent_size(const struct agent_config *config)
{
    uint32_t groups = config->groups_count;
    uint32_t engines = count_engines(config);
    return block(1, sizeof(struct agent)) + block(groups, sizeof(struct agent_group_config)) +
           block(engines, sizeof(struct agent_engine_config)) + sizeof(max_align_t) * groups * 2U +
           block(groups, sizeof(struct group)) + block(groups, sizeof(struct ledger_group)) +
           block(engines, sizeof(struct engine)) +
           block(landings_max(config), sizeof(struct landing)) +
           block(actions_max(config), sizeof(struct agent_action)) + followers_bytes(config) +
           block(1, scratch_bytes(config)) + sizeof(max_align_t);
}

static void *take(struct baton_arena *arena, size_t count, size_t size)
{
    void *memory = baton_arena_take(arena, count, size);
    baton_assert(memory != NULL); /* agent_size() counted it. */
    return memory;
}

static void init_engine(struct agent *agent, struct engine *engine,
                        const struct agent_engine_config *config, struct agent_engine_id id)
{
    const struct agent_times *times = &agent->config.times;
    engine->config = config;
    engine->id = id;
    engine->backoff = baton_backoff_of(times->retry_first, times->retry_max);
}

static void init_followers(struct baton_arena *arena, struct group *group,
                           struct agent_group_config *config)
{
    uint32_t count = config->followers_count;
    struct agent_member_config *followers = take(arena, count, sizeof *followers);
    if (count > 0) {
        memcpy(followers, config->followers, count * sizeof *followers);
    }
    config->followers = followers;
    group->peers = take(arena, count, sizeof *group->peers);
    for (uint32_t i = 0; i < count; i++) {
        struct peer *peer = &group->peers[i];
        peer->config = &followers[i];
        peer->engines = take(arena, BATON_ENGINES_PER_GROUP_MAX, sizeof *peer->engines);
        peer->engine_texts = take(arena, BATON_ENGINES_PER_GROUP_MAX, sizeof *peer->engine_texts);
    }
}

static void init_group(struct agent *agent, struct baton_arena *arena, uint32_t index,
                       struct agent_group_config *config)
{
    struct group *group = &agent->groups[index];
    const struct agent_times *times = &agent->config.times;
    struct agent_engine_config *engines = take(arena, config->engines_count, sizeof *engines);
    if (config->engines_count > 0) { /* A follower may have none. */
        memcpy(engines, config->engines, config->engines_count * sizeof *engines);
    }
    config->engines = engines;
    init_followers(arena, group, config);
    group->config = config;
    group->ledger = &agent->ledger.groups[index];
    group->ledger->config = config;
    group->engines = take(arena, config->engines_count, sizeof *group->engines);
    group->rest = baton_backoff_of(times->retry_first, times->retry_max);
    group->deadline_ns = AGENT_NEVER;
    group->blocked = "";
    group->reported = AGENT_GROUP_JOINING;
    for (uint32_t i = 0; i < config->engines_count; i++) {
        init_engine(agent, &group->engines[i], &engines[i], (struct agent_engine_id){ index, i });
    }
}

struct agent *agent_init(void *memory, const struct agent_config *config, uint64_t seed)
{
    struct baton_arena arena = baton_arena_of(memory, agent_size(config));
    struct agent *agent = take(&arena, 1, sizeof *agent);
    uint32_t count = config->groups_count;
    agent->config = *config;
    struct agent_group_config *groups = take(&arena, count, sizeof *groups);
    if (count > 0) {
        memcpy(groups, config->groups, count * sizeof *groups);
    }
    agent->config.groups = groups;
    agent->groups = take(&arena, count, sizeof *agent->groups);
    agent->ledger.groups = take(&arena, count, sizeof *agent->ledger.groups);
    agent->ledger.groups_count = count;
    for (uint32_t i = 0; i < count; i++) {
        init_group(agent, &arena, i, &groups[i]);
    }
    agent->landings.rows_max = landings_max(config);
    agent->landings.rows = take(&arena, agent->landings.rows_max, sizeof(struct landing));
    agent->actions_max = actions_max(config);
    agent->actions = take(&arena, agent->actions_max, sizeof *agent->actions);
    agent->scratch = baton_arena_of(take(&arena, 1, scratch_bytes(config)), scratch_bytes(config));
    baton_random_seed(&agent->random, seed);
    return agent;
}

struct agent_action *agent_push(struct agent *agent, enum agent_action_kind kind)
{
    baton_assert(agent->actions_count < agent->actions_max);
    struct agent_action *action = &agent->actions[agent->actions_count++];
    memset(action, 0, sizeof *action);
    action->kind = kind;
    return action;
}

void *agent_scratch(struct agent *agent, size_t count, size_t size)
{
    void *memory = baton_arena_take(&agent->scratch, count, size);
    baton_assert(memory != NULL);
    return memory;
}

void agent_write(struct agent *agent, const struct journal_record *record)
{
    struct journal_record *copy = agent_scratch(agent, 1, sizeof *copy);
    *copy = *record;
    agent_push(agent, AGENT_ACTION_JOURNAL)->journal = copy;
    (void)ledger_apply(&agent->ledger, record);
}

struct journal_record group_record(const struct group *group, enum journal_kind kind)
{
    struct journal_record record = { .kind = kind };
    memcpy(record.group, group->config->name, sizeof record.group);
    return record;
}

void text_print(char *out, size_t out_bytes, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(out, out_bytes, fmt, args);
    va_end(args);
}

static void note(struct agent *agent, struct agent_log_event *event)
{
    agent_push(agent, AGENT_ACTION_LOG)->log = event;
    if (agent->events_count == AGENT_EVENTS_KEPT) {
        memmove(&agent->events[0], &agent->events[1],
                (AGENT_EVENTS_KEPT - 1) * sizeof agent->events[0]);
        agent->events_count--;
    }
    agent->events[agent->events_count++] = *event;
}

void agent_note(struct agent *agent, bool warning, const char *object, const char *reason,
                const char *fmt, ...)
{
    struct agent_log_event *event = agent_scratch(agent, 1, sizeof *event);
    event->warning = warning;
    (void)baton_text_copy(event->object, sizeof event->object, object);
    (void)baton_text_copy(event->reason, sizeof event->reason, reason);
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(event->message, sizeof event->message, fmt, args);
    va_end(args);
    note(agent, event);
}

void group_note(struct agent *agent, const struct group *group, bool warning, const char *reason,
                const char *fmt, ...)
{
    struct agent_log_event *event = agent_scratch(agent, 1, sizeof *event);
    event->warning = warning;
    text_print(event->object, sizeof event->object, "group/%s", group->config->name);
    (void)baton_text_copy(event->reason, sizeof event->reason, reason);
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(event->message, sizeof event->message, fmt, args);
    va_end(args);
    note(agent, event);
}

struct group *agent_group_find(struct agent *agent, const char *name)
{
    for (uint32_t i = 0; i < agent->config.groups_count; i++) {
        if (strcmp(agent->groups[i].config->name, name) == 0) {
            return &agent->groups[i];
        }
    }
    return NULL;
}

static struct engine *find_engine(struct agent *agent, struct agent_engine_id id)
{
    if (id.group >= agent->config.groups_count ||
        id.engine >= agent->groups[id.group].config->engines_count) {
        return NULL;
    }
    return &agent->groups[id.group].engines[id.engine];
}

static void start_engine(const struct agent *agent, struct engine *engine)
{
    engine->heard_ns = agent->now_ns;
    engine->next_look_ns = agent->now_ns;
    engine->recreate_at_ns = agent->now_ns;
    if (engine->config->recreate == AGENT_RECREATE_EXEC && !engine->exited) {
        engine->boot_by_ns = agent->now_ns + agent->config.times.boot;
    }
}

static void on_started(struct agent *agent)
{
    const struct agent_times *times = &agent->config.times;
    agent->started = true;
    for (uint32_t i = 0; i < agent->config.groups_count; i++) {
        struct group *group = &agent->groups[i];
        for (uint32_t k = 0; k < group->config->engines_count; k++) {
            start_engine(agent, &group->engines[k]);
        }
        group->recovering = group->ledger->open;
        group->sleep_doubt = group->ledger->sleep == JOURNAL_SLEEP_FALLING ||
                             group->ledger->sleep == JOURNAL_SLEEP_WAKING;
        group->deadline_ns =
            agent->now_ns + (group->recovering ? times->restore_bound : times->engine_lost);
        phase_enter(agent, group, group->ledger->detached ? PHASE_DETACHED : PHASE_ATTACH);
    }
    peers_start(agent);
}

static void on_landing(struct agent *agent, const struct agent_landing_event *event)
{
    landings_on_event(agent, event);
    for (uint32_t i = 0; i < agent->config.groups_count; i++) {
        struct group *group = &agent->groups[i];
        group->progressed |= strcmp(group->goal.stage.digest, event->digest) == 0 ||
                             strcmp(group->goal.target.digest, event->digest) == 0;
    }
}

bool agent_group_is_unfit(const struct group *group, const char *digest)
{
    return strcmp(group->unfit_digest, digest) == 0 &&
           strcmp(group->unfit_with, group->ledger->committed.digest) == 0;
}

static void on_unfit(struct agent *agent, const struct agent_event *event)
{
    struct group *group = agent_group_find(agent, event->unfit.group);
    if (group == NULL) {
        return;
    }
    (void)baton_text_copy(group->unfit_digest, sizeof group->unfit_digest, event->unfit.digest);
    (void)baton_text_copy(group->unfit_with, sizeof group->unfit_with, event->unfit.committed);
    text_print(group->unfit_message, sizeof group->unfit_message, "%s", event->unfit.message);
    group->changed = true;
}

static void on_recreated(struct agent *agent, const struct agent_event *event)
{
    struct engine *engine = find_engine(agent, event->recreated.engine);
    if (engine != NULL) {
        flow_on_recreated(agent, &agent->groups[engine->id.group], engine, event->recreated.status);
    }
}

static void on_exited(struct agent *agent, const struct agent_event *event)
{
    struct engine *engine = find_engine(agent, event->exited);
    if (engine != NULL) {
        flow_on_exited(agent, &agent->groups[engine->id.group], engine);
    }
}

static void on_synced(struct agent *agent, const struct agent_event *event)
{
    struct group *group = agent_group_find(agent, event->synced.group);
    if (group == NULL || group->closed_ns == 0) {
        return;
    }
    group->phases.journal_ns += event->synced.took_ns;
    if (event->synced.kind == JOURNAL_COMMIT) {
        group->phases.commit_ns += event->synced.took_ns;
    }
}

static void on_recovered(struct agent *agent, const struct journal_record *record)
{
    if (!ledger_apply(&agent->ledger, record)) {
        agent_note(agent, true, "agent/journal", "RecordDropped",
                   "a record %s of group %s is dropped: the configuration does not have it",
                   journal_kind_name(record->kind), record->group);
    }
}

static void apply(struct agent *agent, const struct agent_event *event)
{
    switch (event->kind) {
    case AGENT_EVENT_RECOVERED: on_recovered(agent, event->recovered); break;
    case AGENT_EVENT_STARTED: on_started(agent); break;
    case AGENT_EVENT_TIMER: break;
    case AGENT_EVENT_SESSION_OPENED: session_on_opened(agent); break;
    case AGENT_EVENT_SESSION_CLOSED: session_on_closed(agent); break;
    case AGENT_EVENT_WELCOME: session_on_welcome(agent, event); break;
    case AGENT_EVENT_GOALS: session_on_goals(agent, event->goals); break;
    case AGENT_EVENT_TICKET: tickets_on_ticket(agent, event->ticket); break;
    case AGENT_EVENT_REVOKE:
        tickets_on_revoke(agent, event->revoke.group, event->revoke.ticket_uid,
                          event->revoke.epoch);
        break;
    case AGENT_EVENT_OUTCOME_STORED:
        tickets_on_stored(agent, event->outcome_stored.group, event->outcome_stored.ticket_uid);
        break;
    case AGENT_EVENT_BARRIER: flow_on_barrier(agent, event); break;
    case AGENT_EVENT_LANDING: on_landing(agent, event->landing); break;
    case AGENT_EVENT_UNFIT: on_unfit(agent, event); break;
    case AGENT_EVENT_OP_ENDED: ops_on_ended(agent, event->op); break;
    case AGENT_EVENT_HOOK_ENDED: flow_on_hook(agent, event); break;
    case AGENT_EVENT_RECREATED: on_recreated(agent, event); break;
    case AGENT_EVENT_ENGINE_EXITED: on_exited(agent, event); break;
    case AGENT_EVENT_JOURNAL_SYNCED: on_synced(agent, event); break;
    case AGENT_EVENT_JOURNAL_SPACE: agent->space = event->space; break;
    case AGENT_EVENT_OPERATE: operate_on_event(agent, &event->operate); break;
    case AGENT_EVENT_SHUTDOWN: agent->shutting_down = true; break;
    case AGENT_EVENT_PEER_UP: peers_on_link(agent, event->peer, true); break;
    case AGENT_EVENT_PEER_DOWN: peers_on_link(agent, event->peer, false); break;
    case AGENT_EVENT_PEER_COMMAND: member_on_command(agent, event->command); break;
    case AGENT_EVENT_PEER_RESULT:
        peers_on_result(agent, event->peer_result.agent, event->peer_result.result);
        break;
    }
}

/* Everything moves on as far as it goes; what is left waits for another event. */
static void advance(struct agent *agent)
{
    for (uint32_t i = 0; i < agent->config.groups_count; i++) {
        phase_advance(agent, &agent->groups[i]);
        peers_advance(agent, &agent->groups[i]);
        member_advance(agent, &agent->groups[i]);
    }
    landings_advance(agent);
    session_advance(agent);
    if (agent->shutting_down && !agent->done && agent_open_swaps(agent) == 0) {
        agent->done = true;
        agent_push(agent, AGENT_ACTION_DONE);
    }
}

/* A stopped process, or a machine that slept, looked at nobody: its own absence is not the engines'
 * silence. */
static void forgive_absence(struct agent *agent, uint64_t due_ns, uint64_t now_ns)
{
    uint64_t from_ns = due_ns > agent->now_ns ? due_ns : agent->now_ns;
    if (now_ns <= from_ns || now_ns - from_ns < agent->config.times.health_interval) {
        return;
    }
    for (uint32_t i = 0; i < agent->config.groups_count; i++) {
        for (uint32_t k = 0; k < agent->groups[i].config->engines_count; k++) {
            agent->groups[i].engines[k].heard_ns += now_ns - from_ns;
        }
    }
}

struct agent_actions agent_step(struct agent *agent, const struct agent_event *event)
{
    struct check_before before = check_begin(agent);
    baton_assert(event->now_ns >= agent->now_ns);
    forgive_absence(agent, agent_deadline_ns(agent), event->now_ns);
    baton_arena_reset(&agent->scratch);
    agent->actions_count = 0;
    agent->now_ns = event->now_ns;
    agent->wall_ns = event->wall_ns;
    apply(agent, event);
    if (agent->started) {
        advance(agent);
    }
    check_end(agent, &before);
    return (struct agent_actions){ agent->actions, agent->actions_count };
}

uint64_t agent_deadline_ns(const struct agent *agent)
{
    if (!agent->started) {
        return AGENT_NEVER;
    }
    uint64_t deadline = session_deadline_ns(agent);
    uint64_t landings = landings_deadline_ns(&agent->landings);
    if (!agent->shutting_down && landings < deadline) {
        deadline = landings;
    }
    for (uint32_t i = 0; i < agent->config.groups_count; i++) {
        uint64_t group = phase_deadline_ns(agent, &agent->groups[i]);
        deadline = group < deadline ? group : deadline;
    }
    return deadline;
}

bool agent_snapshot(const struct agent *agent, uint32_t index, struct journal_record *out)
{
    return ledger_snapshot(&agent->ledger, index, out);
}

uint32_t agent_open_swaps(const struct agent *agent)
{
    uint32_t open = 0;
    for (uint32_t i = 0; i < agent->config.groups_count; i++) {
        const struct group *group = &agent->groups[i];
        bool ends = !member_follows(group) || member_hears_leader(agent, group);
        open += group->ledger->open && ends ? 1 : 0;
    }
    return open;
}
