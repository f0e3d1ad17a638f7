/* node.c -- an agent's process: its shell, its journal's disk, its landing; see world.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/check.h"
#include "tests/sim/cover.h"
#include "tests/sim/packet.h"
#include "tests/sim/peek.h"

enum { JOURNAL_BYTES = 1 << 20, COMPACT_BYTES = 24 << 10, VERSION_BYTES = 1000 };

static struct agent_times times(void)
{
    struct agent_times times = agent_times_default();
    times.boot = 30 * S;
    times.recreate_deadline = 20 * S;
    times.retry_max = 8 * S;
    times.restore_bound = 20 * S;
    times.readback = 20 * S;
    times.steady = 30 * S;
    return times;
}

/* --- shape --- */

/* Small worlds have plain engines: plug-in, guard, a process of the agent's. */
static bool is_small(const struct world *world)
{
    return world->script != NULL;
}

static void init_engine(struct world *world, struct node *node, uint32_t g, uint32_t e)
{
    struct agent_engine_config *config = &node->engines_config[g][e];
    struct engine_model *engine = &node->groups[g].engines[e];
    baton_random_seed(&engine->random, baton_random_u64(&world->random));
    /* An engine's name says which one it is in the whole group. */
    (void)snprintf(config->name, sizeof(config->name), "e%u",
                   e + (node->groups[g].follows ? SIM_ENGINES * (node->index + 1) : 0));
    (void)snprintf(config->kind, sizeof(config->kind), "model");
    (void)snprintf(config->endpoint, sizeof(config->endpoint), "a%u-g%u-e%u", node->index, g, e);
    uint32_t boot = 1 + model_of_name(node->groups_config[g].model); /* Its trainer's first. */
    bool none = world_below(&world->random, 8) == 0 && !is_small(world);
    config->recreate = none ? AGENT_RECREATE_NONE : AGENT_RECREATE_EXEC;
    config->boots_from_landing = !none && world_below(&world->random, 6) == 0 && !is_small(world);
    engine->boot_content = boot;
    if (world_below(&world->random, 3) == 0) {
        content_digest(boot, config->boot_digest);
    }
    engine_boot(world, engine, boot);
    engine->ready_ns = 0;
}

static void init_part(struct world *world, struct node *node, uint32_t g, uint32_t engines)
{
    struct agent_group_config *config = &node->groups_config[g];
    struct group_model *group = &node->groups[g];
    bool plugin = world_below(&world->random, 8) != 0 || is_small(world);
    bool guarded = world_below(&world->random, 16) != 0 || is_small(world);
    config->engines = node->engines_config[g];
    config->engines_count = engines;
    config->hold_max = 64;
    group->engines_count = config->engines_count;
    group->state = AGENT_GROUP_JOINING;
    for (uint32_t e = 0; e < config->engines_count; e++) {
        group->engines[e].plugin = plugin;
        group->engines[e].guarded = guarded;
        init_engine(world, node, g, e);
    }
}

static void init_group(struct world *world, struct node *node, uint32_t g)
{
    struct agent_group_config *config = &node->groups_config[g];
    (void)snprintf(config->name, sizeof(config->name), "g%u", node->index * SIM_GROUPS + g);
    (void)snprintf(config->model, sizeof(config->model), "%s", model_name(models_pick(world)));
    init_part(world, node, g, is_small(world) ? 1 : 1 + world_below(&world->random, SIM_ENGINES));
}

/* One that only stages has no engine: the engine's API is on another node. */
static void follow(struct world *world, struct node *leader, uint32_t g, struct node *node)
{
    struct agent_group_config *led = &leader->groups_config[g];
    uint32_t slot = node->groups_count++;
    struct agent_group_config *config = &node->groups_config[slot];
    struct agent_member_config *member = &leader->members[g][led->followers_count++];
    *config = (struct agent_group_config){ 0 };
    memcpy(config->name, led->name, sizeof(config->name));
    memcpy(config->model, led->model, sizeof(config->model));
    memcpy(config->leader, leader->config.agent, sizeof(config->leader));
    struct group_model *whole = &leader->groups[g];
    whole->members[whole->members_count++] = &node->groups[slot];
    node->groups[slot].follows = true;
    bool stages = world_below(&world->random, 6) == 0;
    init_part(world, node, slot, stages ? 0 : 1 + world_below(&world->random, SIM_ENGINES));
    led->followers = leader->members[g];
    memcpy(member->agent, node->config.agent, sizeof(member->agent));
    (void)snprintf(member->address, sizeof(member->address), "node%u:7071", node->index);
    world->links[leader->index][node->index].wanted = true;
}

/* A group of this agent spans others. */
static void span(struct world *world, struct node *leader)
{
    uint32_t g = world_below(&world->random, leader->led_count);
    uint32_t first = 1 + world_below(&world->random, world->nodes_count - 1);
    uint32_t count = 1 + world_below(&world->random, world->nodes_count - 1);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t step = 1 + (first - 1 + i) % (world->nodes_count - 1);
        struct node *node = &world->nodes[(leader->index + step) % world->nodes_count];
        if (node->groups_count < SIM_SLOTS) {
            follow(world, leader, g, node);
        }
    }
}

static void build(struct world *world, struct node *node)
{
    node->config.groups_count = node->groups_count;
    struct baton_status st = agent_config_check(&node->config);
    if (!baton_ok(&st)) {
        world_break(world, CHECK_STORE, "%s: %s", node->config.agent, st.message);
    }
    node->memory_bytes = agent_size(&node->config);
    node->memory = malloc(node->memory_bytes);
    baton_assert(node->memory != NULL);
    node_lose_disk(world, node, true);
}

void node_span(struct world *world)
{
    uint32_t dice = is_small(world) || world->nodes_count < 2 ? 0 : world_below(&world->random, 6);
    uint32_t first = world_below(&world->random, world->nodes_count);
    for (uint32_t i = 0; i < (dice + 2) / 3 && i < world->nodes_count; i++) { /* 0, 1 or 2. */
        span(world, &world->nodes[(first + i) % world->nodes_count]);
    }
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        build(world, &world->nodes[i]);
    }
}

struct group_model *node_part(struct node *node, const char *group)
{
    for (uint32_t g = 0; g < node->groups_count; g++) {
        if (strcmp(node->groups_config[g].name, group) == 0) {
            return &node->groups[g];
        }
    }
    return NULL;
}

void node_init(struct world *world, uint32_t index)
{
    struct node *node = &world->nodes[index];
    node->index = index;
    node->led_count = is_small(world) ? SIM_GROUPS : 1 + world_below(&world->random, SIM_GROUPS);
    node->groups_count = node->led_count;
    baton_random_seed(&node->random, baton_random_u64(&world->random));
    node->journal = malloc(JOURNAL_BYTES);
    baton_assert(node->journal != NULL);
    (void)snprintf(node->config.agent, sizeof(node->config.agent), "a%u", index);
    (void)snprintf(node->config.software, sizeof(node->config.software), "sim");
    (void)snprintf(node->config.peer_address, sizeof(node->config.peer_address), "node%u:7072",
                   index);
    node->config.landing_budget_bytes = 1 << 30;
    node->config.recreate_attempts = 1000;
    node->config.groups = node->groups_config;
    node->config.times = times();
    for (uint32_t g = 0; g < node->led_count; g++) {
        init_group(world, node, g);
    }
}

/* --- the journal's disk --- */

static void append(struct world *world, struct node *node, const struct journal_record *record)
{
    size_t room = JOURNAL_BYTES - node->journal_size;
    size_t size = journal_record_encode(record, node->journal_index + 1,
                                        node->journal + node->journal_size, room);
    if (size == 0) {
        world_break(world, CHECK_STORE, "a journal record %s does not fit",
                    journal_kind_name(record->kind));
        return;
    }
    node->journal_index++;
    node->journal_size += size;
    cover(COVER_JOURNAL, record->kind);
}

void node_lose_disk(struct world *world, struct node *node, bool landings_too)
{
    struct journal_record record = { .kind = JOURNAL_INCARNATION };
    node->disks++;
    node->disk_ns = world->now_ns;
    (void)snprintf(record.incarnation, sizeof(record.incarnation), "%016x%016x", node->index,
                   node->disks);
    journal_header_encode(node->journal);
    node->journal_size = JOURNAL_HEADER_BYTES;
    node->journal_index = 0;
    append(world, node, &record);
    memset(&node->epoch, 0, sizeof(node->epoch));
    memset(node->top_seq, 0, sizeof(node->top_seq));
    for (uint32_t g = 0; g < node->groups_count; g++) {
        struct group_model *group = &node->groups[g];
        if (group->ticket.open) {
            memcpy(group->lost_uid, group->ticket.uid, sizeof(group->lost_uid));
        }
        group->journal_seq = 0;
        group->journal_content = 0;
        group->highest_ticket = 0;
        group->owner_term = 0;
        group->needs_ticket = false;
        group->unfit_told = 0;
        check_lost(group);
    }
    if (landings_too) {
        memset(node->landing, 0, sizeof(node->landing));
    }
}

/* A part of a frame reached the disk when the power went. */
static void tear(struct node *node, const struct journal_record *record)
{
    uint8_t frame[JOURNAL_RECORD_BYTES_MAX];
    size_t size = journal_record_encode(record, node->journal_index + 1, frame, sizeof(frame));
    size_t part = size == 0 ? 0 : baton_random_below(&node->random, size);
    memcpy(node->journal + node->journal_size, frame, part);
    node->journal_size += part;
}

static void replay(struct world *world, struct node *node)
{
    struct journal_cursor cursor;
    struct journal_record record;
    bool more = true;
    struct baton_status st =
        journal_cursor_init(&cursor, (struct baton_bytes){ node->journal, node->journal_size });
    while (baton_ok(&st) && more) {
        st = journal_cursor_next(&cursor, &record, &more);
        if (baton_ok(&st) && more) {
            struct agent_event event = { .kind = AGENT_EVENT_RECOVERED, .recovered = &record };
            node_event(world, node, &event);
        }
    }
    if (!baton_ok(&st)) {
        world_break(world, CHECK_STORE, "%s: the journal cannot be read: %s", node->config.agent,
                    st.message);
    }
    node->journal_size = cursor.offset; /* A torn frame is cut. */
    node->journal_index = cursor.index;
}

/* The journal is written anew from the core's own state, as the shell does when it is long. */
static void compact(struct world *world, struct node *node)
{
    struct journal_record record;
    if (node->journal_size < COMPACT_BYTES) {
        return;
    }
    node->journal_size = JOURNAL_HEADER_BYTES;
    node->journal_index = 0;
    for (uint32_t i = 0; agent_snapshot(node->agent, i, &record); i++) {
        append(world, node, &record);
    }
    node->snapshots++;
    tell(world, "%s compacts its journal", node->config.agent);
}

/* --- landings --- */

static void post_landing(struct world *world, struct node *node, uint32_t content)
{
    uint64_t delay = 20 * MS + world_below(&node->random, 300) * MS;
    struct item *item = world_post(world, world->now_ns + delay, ITEM_LANDING, node->index);
    item->life = node->life;
    item->a = content;
    item->b = node->landing_life[content];
}

static void land(struct world *world, struct node *node, const struct agent_version *version)
{
    uint32_t content = content_of(version->digest);
    if (content == 0) {
        world_break(world, CHECK_RETENTION, "%s is to land %s, which nobody published",
                    node->config.agent, version->digest);
        return;
    }
    node->landing[content] = LANDING_COMING;
    node->landing_life[content]++;
    post_landing(world, node, content);
}

static void stop_landing(struct node *node, uint32_t content)
{
    node->landing_life[content]++;
    if (node->landing[content] == LANDING_COMING) {
        node->landing[content] = LANDING_ABSENT;
    }
}

static void tell_landing(struct world *world, struct node *node, uint32_t content,
                         enum agent_landing_state state)
{
    struct agent_landing_event landing = { .state = state,
                                           .bytes = VERSION_BYTES,
                                           .used_bytes = VERSION_BYTES };
    struct agent_event event = { .kind = AGENT_EVENT_LANDING, .landing = &landing };
    content_digest(content, landing.digest);
    landing.status = baton_status_ok();
    if (state == AGENT_LANDING_FAILED && node->no_room) {
        landing.status = baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_NO_SPACE,
                                           "needs 1000 bytes, 0 are free");
    } else if (state == AGENT_LANDING_FAILED) {
        landing.status = baton_status_make(BATON_DATA_LOSS, BATON_REASON_DIGEST_MISMATCH,
                                           "chunk 3 of model.norm.weight");
    }
    node_event(world, node, &event);
}

/* As the shell does after goals, landings and commits: layouts that do not fit are told at once. */
static void tell_unfit(struct world *world, struct node *node)
{
    for (uint32_t g = 0; node->up && g < node->groups_count; g++) {
        struct group_model *group = &node->groups[g];
        uint32_t stage = group->goal_stage;
        if (stage == 0 || group->journal_content == 0 || stage == group->journal_content ||
            !world->versions[stage].unfit ||
            (group->unfit_told == stage && group->unfit_with == group->journal_content) ||
            node->landing[stage] != LANDING_LANDED ||
            node->landing[group->journal_content] != LANDING_LANDED) {
            continue;
        }
        char digest[BATON_DIGEST_TEXT_BYTES];
        char committed[BATON_DIGEST_TEXT_BYTES];
        content_digest(stage, digest);
        content_digest(group->journal_content, committed);
        group->unfit_told = stage;
        group->unfit_with = group->journal_content;
        struct agent_event event = { .kind = AGENT_EVENT_UNFIT };
        event.unfit.group = node->groups_config[g].name;
        event.unfit.digest = digest;
        event.unfit.committed = committed;
        event.unfit.message = "tensor lm_head.weight has another shape";
        node_event(world, node, &event);
    }
}

void node_landing(struct world *world, struct item *item)
{
    struct node *node = &world->nodes[item->who];
    uint32_t content = item->a;
    if (!node->up || node->life != item->life || node->landing_life[content] != item->b) {
        return;
    }
    if (node->landing[content] == LANDING_LANDED) { /* A fate: somebody removed it. */
        node->landing[content] = LANDING_ABSENT;
        tell_landing(world, node, content, AGENT_LANDING_GONE);
        return;
    }
    bool fails = node->landing_fails > 0;
    node->landing_fails -= fails ? 1 : 0;
    node->landing[content] = fails ? LANDING_ABSENT : LANDING_LANDED;
    tell(world, "%s %s v%llu", node->config.agent, fails ? "fails to land" : "has landed",
         (unsigned long long)world->versions[content].seq);
    tell_landing(world, node, content, fails ? AGENT_LANDING_FAILED : AGENT_LANDING_DONE);
    tell_unfit(world, node);
}

/* --- one step --- */

static void report(struct world *world, struct node *node, const struct agent_report *told)
{
    for (uint32_t i = 0; i < told->groups_count; i++) {
        check_told(world, node, &told->groups[i]);
    }
    net_send_up(world, node, packet_of_report(told));
}

static void hello(struct world *world, struct node *node, const struct agent_hello *told)
{
    for (uint32_t i = 0; i < told->groups_count; i++) {
        check_told(world, node, &told->groups[i]);
    }
    for (uint32_t g = 0; g < node->led_count; g++) {
        if (node->groups[g].ticket.open && !node->groups[g].ticket.committed &&
            node->groups[g].accepted_ns < node->started_ns) {
            world_break(world, CHECK_ORDER,
                        "%s opens its session before the ticket of %s has ended",
                        node->config.agent, node->groups_config[g].name);
        }
    }
    net_send_up(world, node, packet_of_hello(told));
}

static void journal(struct world *world, struct node *node, const struct journal_record *record)
{
    if (node_boundary(world, node, "before a journal record")) {
        return;
    }
    if (node->crash_in == 1) { /* The next boundary is within the write. */
        tear(node, record);
        (void)node_boundary(world, node, "within a journal record");
        return;
    }
    node->crash_in -= node->crash_in > 0 ? 1 : 0;
    node->boundaries++;
    append(world, node, record);
    tell(world, "%s journals %s %s", node->config.agent, journal_kind_name(record->kind),
         record->group);
    check_journal(world, node, record);
    if (record->kind == JOURNAL_COMMIT || record->kind == JOURNAL_ACCEPT) {
        const struct group_model *group = node_part(node, record->group);
        struct item *item = world_post(world, world->now_ns, ITEM_SYNCED, node->index);
        item->life = node->life;
        item->a = record->kind;
        item->b = (uint32_t)(group - node->groups);
    }
    (void)node_boundary(world, node, "after a journal record");
}

static void operate(struct world *world, struct node *node, const struct agent_op *op)
{
    if (!node_boundary(world, node, "before a call to an engine")) {
        check_op(world, node, op);
        engine_submit(world, node, op);
        (void)node_boundary(world, node, "after a call to an engine was sent");
    }
}

static void close_session(struct world *world, struct node *node, const char *why)
{
    struct wire *wire = net_wire(world, node->wire);
    tell(world, "%s ends its session: %s", node->config.agent, why);
    if (wire != NULL) {
        net_cut(world, wire, MS, 5 * MS);
    }
}

static void perform(struct world *world, struct node *node, const struct agent_action *action)
{
    switch (action->kind) {
    case AGENT_ACTION_JOURNAL: journal(world, node, action->journal); break;
    case AGENT_ACTION_ENGINE_OP: operate(world, node, action->op); break;
    case AGENT_ACTION_ENGINE_ABANDON:
        engine_abandon(world, node, action->abandon.engine, action->abandon.id);
        break;
    case AGENT_ACTION_LAND: land(world, node, &action->land->version); break;
    case AGENT_ACTION_LAND_CANCEL: stop_landing(node, content_of(action->digest)); break;
    case AGENT_ACTION_DROP:
        check_drop(world, node, content_of(action->digest));
        node->landing[content_of(action->digest)] = LANDING_ABSENT;
        break;
    case AGENT_ACTION_RECREATE: engine_recreate(world, node, action->recreate); break;
    case AGENT_ACTION_HOOK: router_call(world, node, action->hook); break;
    case AGENT_ACTION_LOG:
        tell(world, "%s: %s %s: %s", node->config.agent, action->log->object, action->log->reason,
             action->log->message);
        break;
    case AGENT_ACTION_PEER_SEND: mesh_send(world, node, action); break;
    case AGENT_ACTION_PEER_ANSWER: mesh_answer(world, node, action); break;
    case AGENT_ACTION_DONE: node_crash(world, node, "ends as asked", 2 * S); break;
    case AGENT_ACTION_OPEN_SESSION: node->session_wanted = true; break;
    case AGENT_ACTION_CLOSE_SESSION: close_session(world, node, action->text); break;
    case AGENT_ACTION_HELLO: hello(world, node, action->hello); break;
    case AGENT_ACTION_ACK: net_send_up(world, node, packet_of_ack(action->ack, NULL)); break;
    case AGENT_ACTION_NACK:
        net_send_up(world, node, packet_of_ack(action->nack.revision, action->nack.message));
        break;
    case AGENT_ACTION_REPORT: report(world, node, action->report); break;
    case AGENT_ACTION_OPERATED:
        tell(world, "%s answers its operator: %s", node->config.agent, action->operated->message);
        break;
    case AGENT_ACTION_STATUS: check_status(world, node, action->status); break;
    }
}

bool node_boundary(struct world *world, struct node *node, const char *where)
{
    node->boundaries++;
    if (node->crash_in == 0 || --node->crash_in != 0) {
        return false;
    }
    world->struck = true;
    node_crash(world, node, where, 50 * MS + world_below(&node->random, 3000) * MS);
    return true;
}

static void note_phases(const struct node *node, uint32_t *phases, bool before)
{
    for (uint32_t g = 0; g < node->groups_count; g++) {
        uint32_t phase = peek_phase(node->agent, g);
        if (!before && phase != phases[g]) {
            cover(COVER_PHASE, phases[g] * 64 + phase);
        }
        phases[g] = phase;
    }
}

static void note_goals(struct node *node, const struct agent_goals *goals)
{
    memset(node->droppable, 0, sizeof(node->droppable));
    for (uint32_t i = 0; i < goals->droppable_count; i++) {
        node->droppable[content_of(goals->droppable[i])] = true;
    }
    for (uint32_t i = 0; i < goals->groups_count; i++) {
        for (uint32_t g = 0; g < node->groups_count; g++) {
            if (strcmp(goals->groups[i].group, node->groups_config[g].name) == 0) {
                node->groups[g].goal_target = content_of(goals->groups[i].target.version.digest);
                node->groups[g].goal_stage = content_of(goals->groups[i].stage.version.digest);
            }
        }
    }
}

static bool is_taken(const struct agent_actions *actions, const struct agent_goals *goals)
{
    for (size_t i = 0; i < actions->count; i++) {
        if (actions->items[i].kind == AGENT_ACTION_ACK &&
            actions->items[i].ack == goals->revision) {
            return true;
        }
    }
    return false;
}

void node_event(struct world *world, struct node *node, struct agent_event *event)
{
    uint32_t phases[SIM_SLOTS] = { 0 };
    bool are_goals = event->kind == AGENT_EVENT_GOALS;
    if (!node->up) {
        return;
    }
    event->now_ns = world->now_ns;
    event->wall_ns = world_wall_ns(world, node->skew_ns);
    note_phases(node, phases, true);
    struct agent_actions actions = agent_step(node->agent, event);
    note_phases(node, phases, false);
    if (are_goals && is_taken(&actions, event->goals)) {
        check_goals(world, node, event->goals);
        note_goals(node, event->goals);
    }
    uint32_t life = node->life;
    for (size_t i = 0; i < actions.count && node->up && node->life == life; i++) {
        perform(world, node, &actions.items[i]);
    }
    if (node->up && node->life == life) {
        node->deadline_ns = agent_deadline_ns(node->agent);
        if (event->kind != AGENT_EVENT_RECOVERED) {
            compact(world, node);
            tell_unfit(world, node);
        }
    }
}

/* --- its life --- */

static void tell_found(struct world *world, struct node *node)
{
    for (uint32_t content = 1; content <= world->contents; content++) {
        if (node->landing[content] == LANDING_COMING) {
            node->landing[content] = LANDING_ABSENT;
        }
        if (node->landing[content] == LANDING_LANDED) {
            tell_landing(world, node, content, AGENT_LANDING_DONE);
        }
    }
    for (uint32_t g = 0; g < node->groups_count; g++) {
        for (uint32_t e = 0; e < node->groups[g].engines_count; e++) {
            bool exec = node->engines_config[g][e].recreate == AGENT_RECREATE_EXEC;
            if (exec && !node->groups[g].engines[e].up) {
                struct agent_event event = { .kind = AGENT_EVENT_ENGINE_EXITED,
                                             .exited = { g, e } };
                node_event(world, node, &event);
            }
        }
    }
}

void node_start(struct world *world, struct node *node)
{
    node->up = true;
    node->ending = false;
    node->started_ns = world->now_ns;
    node->restarted_ns = world->now_ns;
    node->space = AGENT_JOURNAL_ROOM;
    node->agent = agent_init(node->memory, &node->config, baton_random_u64(&node->random));
    node->deadline_ns = UINT64_MAX;
    for (uint32_t g = 0; g < node->groups_count; g++) {
        node->groups[g].unfit_told = 0;
        node->groups[g].goal_stage = 0;
        node->groups[g].goal_target = 0;
    }
    memset(node->droppable, 0, sizeof(node->droppable));
    tell(world, "%s starts", node->config.agent);
    replay(world, node);
    tell_found(world, node);
    struct agent_event event = { .kind = AGENT_EVENT_STARTED };
    node_event(world, node, &event);
    mesh_start(world, node);
}

void node_crash(struct world *world, struct node *node, const char *how, uint64_t down_ns)
{
    if (!node->up) {
        return;
    }
    tell(world, "%s dies: %s", node->config.agent, how);
    net_node_gone(world, node);
    mesh_gone(world, node);
    node->up = false;
    node->life++;
    node->session_wanted = false;
    node->stopped_until_ns = 0;
    node->crash_in = 0;
    struct item *item = world_post(world, world->now_ns + down_ns, ITEM_NODE_START, node->index);
    item->life = node->life;
}

void node_operate(struct world *world, struct node *node, uint32_t g, enum agent_verb verb)
{
    struct agent_event event = { .kind = AGENT_EVENT_OPERATE };
    event.operate.verb = verb;
    event.operate.group = node->groups_config[g].name;
    event.operate.by = "operator";
    tell(world, "an operator at %s asks for %s of %s", node->config.agent, agent_verb_name(verb),
         node->groups_config[g].name);
    cover(COVER_OPERATE, (uint32_t)verb);
    node->groups[g].operated_ns = world->now_ns;
    node_event(world, node, &event);
}

void node_set_space(struct world *world, struct node *node, enum agent_journal_space space)
{
    enum agent_journal_space before = node->space;
    if (!node->up || before == space) {
        return;
    }
    node->space = space;
    struct agent_event event = { .kind = AGENT_EVENT_JOURNAL_SPACE, .space = space };
    node_event(world, node, &event);
    if (before == AGENT_JOURNAL_NONE && node->up) {
        close_session(world, node, "the journal's disk has room again");
    }
}
