/* agent_fleet.c -- see agent_fleet.h. */
#include "tests/unit/agent_fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/agent_world_engine.h"

#define BACK_NS (500 * MS) /* A link that broke is up again after. */

struct fleet_message {
    uint64_t due_ns;
    uint32_t follower; /* Of the link. */
    bool down;         /* A command; else a result. */
    struct agent_peer_command command;
    struct agent_version_goal goals[3];
    struct agent_source sources[3][BATON_SOURCES_PER_VERSION_MAX];
    struct agent_peer_result result;
    struct agent_engine_report engines[WORLD_ENGINES];
    struct agent_engine_config configs[WORLD_ENGINES];
    struct agent_engine_facts facts[WORLD_ENGINES];
};

static void violate(struct fleet *fleet, const char *what)
{
    if (fleet->violation[0] == '\0') {
        (void)snprintf(fleet->violation, sizeof fleet->violation, "%.200s at %llu ms", what,
                       (unsigned long long)(fleet->now_ns / MS));
    }
}

/* --- what no world can see alone --- */

static void check_open(struct fleet *fleet, const struct world_engine *engine, const char **version)
{
    if (!engine->guarded || !world_engine_is_open(engine)) {
        return;
    }
    if (*version != NULL && strcmp(*version, engine->resident) != 0) {
        violate(fleet, "open gates of two agents serve different versions");
    }
    *version = engine->resident;
}

static void check(struct fleet *fleet)
{
    const char *version = NULL;
    for (uint32_t i = 0; i < fleet->count; i++) {
        const struct world *world = fleet->worlds[i];
        for (uint32_t k = 0; k < world->groups_config[0].engines_count; k++) {
            check_open(fleet, &world->engines[0][k], &version);
        }
        if (world->violation[0] != '\0') {
            violate(fleet, world->violation);
        }
    }
    for (uint32_t i = 0; i < fleet->count && version != NULL; i++) {
        fleet->lost_disk[i] &= fleet->worlds[i]->committed[0] == 0;
        if (!fleet->lost_disk[i] &&
            strcmp(world_version(fleet->worlds[i]->committed[0]).digest, version) != 0) {
            violate(fleet, "a gate is open for what a member has not committed");
        }
    }
}

/* --- links --- */

static uint32_t index_of(const struct fleet *fleet, const struct world *world)
{
    uint32_t i = 0;
    while (i + 1 < fleet->count && fleet->worlds[i] != world) {
        i++;
    }
    return i;
}

static struct fleet_message *add(struct fleet *fleet, uint32_t follower, bool down)
{
    if (fleet->messages_count == FLEET_MESSAGES) {
        abort();
    }
    struct fleet_message *message = calloc(1, sizeof *message);
    message->due_ns = fleet->now_ns + fleet->delay_ns;
    message->follower = follower;
    message->down = down;
    fleet->messages[fleet->messages_count++] = message;
    return message;
}

static const struct agent_version_goal *keep_goal(struct fleet_message *message, int i,
                                                  const struct agent_version_goal *goal)
{
    if (goal == NULL) {
        return NULL;
    }
    message->goals[i] = *goal;
    memcpy(message->sources[i], goal->sources, goal->sources_count * sizeof *goal->sources);
    message->goals[i].sources = message->sources[i];
    message->goals[i].holders_count = 0; /* The wire between agents has none. */
    return &message->goals[i];
}

static void send_command(struct fleet *fleet, const struct agent_action *action)
{
    uint32_t follower = (uint32_t)strtoul(action->peer_send.agent + 1, NULL, 10);
    if (!fleet->links[follower].up) {
        return;
    }
    struct fleet_message *message = add(fleet, follower, true);
    message->command = *action->peer_send.command;
    message->command.target = keep_goal(message, 0, message->command.target);
    message->command.stage = keep_goal(message, 1, message->command.stage);
    message->command.restore = keep_goal(message, 2, message->command.restore);
    fleet->sent[message->command.verb]++;
    if (fleet->old_members && message->command.verb == AGENT_PEER_BACK_PROBE) {
        message->command.verb = AGENT_PEER_PROBE;
    }
}

static void send_result(struct fleet *fleet, uint32_t follower, const struct agent_action *action)
{
    if (!fleet->links[follower].up) {
        return;
    }
    struct fleet_message *message = add(fleet, follower, false);
    message->result = *action->peer_answer.result;
    struct agent_peer_state *state = &message->result.state;
    for (uint32_t i = 0; i < state->engines_count; i++) {
        message->engines[i] = state->engines[i];
        message->configs[i] = *state->engines[i].config;
        message->facts[i] = *state->engines[i].facts;
        message->engines[i].config = &message->configs[i];
        message->engines[i].facts = &message->facts[i];
        message->engines[i].label = "-";
    }
    state->engines = message->engines;
}

static void on_peer(struct world *world, const struct agent_action *action)
{
    struct fleet *fleet = world->fleet;
    if (action->kind == AGENT_ACTION_PEER_SEND) {
        send_command(fleet, action);
    } else {
        send_result(fleet, index_of(fleet, world), action);
    }
}

static void drop_messages(struct fleet *fleet, uint32_t follower)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < fleet->messages_count; i++) {
        if (fleet->messages[i]->follower == follower) {
            free(fleet->messages[i]);
        } else {
            fleet->messages[kept++] = fleet->messages[i];
        }
    }
    fleet->messages_count = kept;
}

static void step(struct fleet *fleet, uint32_t agent, struct agent_event event)
{
    fleet->worlds[agent]->now_ns = fleet->now_ns;
    world_event(fleet->worlds[agent], event);
    check(fleet);
}

void fleet_break(struct fleet *fleet, uint32_t follower, bool cut)
{
    struct fleet_link *link = &fleet->links[follower];
    link->cut = cut;
    link->up_ns = fleet->now_ns + BACK_NS;
    drop_messages(fleet, follower);
    if (link->up) {
        link->up = false;
        step(fleet, 0,
             (struct agent_event){ .kind = AGENT_EVENT_PEER_DOWN,
                                   .peer = fleet->members[follower - 1].agent });
    }
}

void fleet_mend(struct fleet *fleet, uint32_t follower)
{
    fleet->links[follower].cut = false;
}

static void join_links(struct fleet *fleet)
{
    for (uint32_t i = 1; i < fleet->count; i++) {
        struct fleet_link *link = &fleet->links[i];
        bool both = fleet->worlds[0]->running && fleet->worlds[i]->running;
        if (link->up && !both) {
            fleet_break(fleet, i, link->cut);
        } else if (!link->up && both && !link->cut && fleet->now_ns >= link->up_ns) {
            link->up = true;
            step(fleet, 0,
                 (struct agent_event){ .kind = AGENT_EVENT_PEER_UP,
                                       .peer = fleet->members[i - 1].agent });
        }
    }
}

static void deliver(struct fleet *fleet)
{
    struct fleet_message *message = fleet->messages[0];
    memmove(&fleet->messages[0], &fleet->messages[1],
            --fleet->messages_count * sizeof fleet->messages[0]);
    if (message->down) {
        step(
            fleet, message->follower,
            (struct agent_event){ .kind = AGENT_EVENT_PEER_COMMAND, .command = &message->command });
    } else {
        step(fleet, 0,
             (struct agent_event){ .kind = AGENT_EVENT_PEER_RESULT,
                                   .peer_result = { fleet->members[message->follower - 1].agent,
                                                    &message->result } });
    }
    free(message);
}

/* --- time --- */

/* Runs the one world that has something due first; false: nothing is before 'end_ns'. */
static bool run_once(struct fleet *fleet, uint64_t end_ns)
{
    uint64_t at_ns = fleet->messages_count > 0 ? fleet->messages[0]->due_ns : UINT64_MAX;
    uint32_t first = fleet->count;
    for (uint32_t i = 0; i < fleet->count; i++) {
        uint64_t due_ns = world_due_ns(fleet->worlds[i]);
        if (due_ns < at_ns) {
            at_ns = due_ns;
            first = i;
        }
    }
    for (uint32_t i = 1; i < fleet->count; i++) {
        const struct fleet_link *link = &fleet->links[i];
        if (!link->up && !link->cut && link->up_ns > fleet->now_ns && link->up_ns < at_ns) {
            at_ns = link->up_ns;
            first = FLEET_AGENTS;
        }
    }
    if (at_ns > end_ns) {
        return false;
    }
    fleet->now_ns = at_ns > fleet->now_ns ? at_ns : fleet->now_ns;
    for (uint32_t i = 0; i < fleet->count; i++) {
        fleet->worlds[i]->now_ns = fleet->now_ns;
    }
    if (first < fleet->count) {
        world_do_due(fleet->worlds[first]);
        check(fleet);
    } else if (first == fleet->count) {
        deliver(fleet);
    }
    return true;
}

void fleet_run(struct fleet *fleet, uint64_t duration_ns)
{
    uint64_t end_ns = fleet->now_ns + duration_ns;
    for (uint32_t steps = 0; steps < 2000000 && fleet->violation[0] == '\0'; steps++) {
        for (uint32_t i = 0; i < fleet->count; i++) {
            world_controller_run(fleet->worlds[i]);
        }
        join_links(fleet);
        check(fleet);
        if (!run_once(fleet, end_ns)) {
            fleet->now_ns = end_ns;
            for (uint32_t i = 0; i < fleet->count; i++) {
                fleet->worlds[i]->now_ns = end_ns;
            }
            return;
        }
    }
    violate(fleet, "time does not pass");
}

/* --- agents --- */

void fleet_crash(struct fleet *fleet, uint32_t agent)
{
    if (fleet->worlds[agent]->running) {
        world_crash(fleet->worlds[agent]);
    }
    join_links(fleet);
}

void fleet_start(struct fleet *fleet, uint32_t agent)
{
    struct world *world = fleet->worlds[agent];
    join_links(fleet); /* A link of its earlier life is gone. */
    world->now_ns = fleet->now_ns;
    world->crashed = false;
    world->counting = false;
    if (!world->running) {
        world_start(world);
    }
}

void fleet_lose_disk(struct fleet *fleet, uint32_t agent)
{
    struct world *world = fleet->worlds[agent];
    struct world_group *group = &world->groups[0];
    world_new_journal(world);
    memset(world->landed, 0, sizeof world->landed);
    fleet->lost_disk[agent] = true;
    if (agent == 0) { /* Rule 6. */
        struct agent_group_floor *floor = &world->floors[0];
        (void)snprintf(floor->group, sizeof floor->group, "g0");
        floor->ticket_number = group->number;
        floor->owner_term = group->owner_term++;
        world->floors_count = 1;
        group->ticket_open = false;
        group->ticket_due = false;
    }
}

static struct world *create_world(struct fleet *fleet, uint32_t index, uint32_t engines,
                                  uint64_t boot_seq)
{
    struct world *world = world_create(1, engines, boot_seq);
    struct agent_group_config *group = &world->groups_config[0];
    (void)snprintf(world->config.agent, sizeof world->config.agent, "a%u", index);
    for (uint32_t i = 0; i < engines; i++) { /* Unique in the group. */
        (void)snprintf(world->engines_config[0][i].name, BATON_NAME_BYTES, "a%ue%u", index, i);
    }
    world->on_peer = on_peer;
    world->fleet = fleet;
    world->follows = index > 0;
    if (index > 0) {
        (void)snprintf(group->leader, sizeof group->leader, "a0");
        struct agent_member_config *member = &fleet->members[index - 1];
        (void)snprintf(member->agent, sizeof member->agent, "a%u", index);
        (void)snprintf(member->address, sizeof member->address, "node%u:7071", index);
    }
    return world;
}

struct fleet *fleet_create(uint32_t agents, uint32_t engines, uint64_t boot_seq)
{
    struct fleet *fleet = calloc(1, sizeof *fleet);
    fleet->count = agents;
    fleet->delay_ns = MS;
    fleet->now_ns = S;
    for (uint32_t i = 0; i < agents; i++) {
        fleet->worlds[i] = create_world(fleet, i, engines, boot_seq);
    }
    fleet->worlds[0]->groups_config[0].followers = fleet->members;
    fleet->worlds[0]->groups_config[0].followers_count = agents - 1;
    return fleet;
}

void fleet_destroy(struct fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->messages_count; i++) {
        free(fleet->messages[i]);
    }
    for (uint32_t i = 0; i < fleet->count; i++) {
        world_destroy(fleet->worlds[i]);
    }
    free(fleet);
}

void fleet_serve(struct fleet *fleet, uint64_t seq)
{
    world_goals(fleet->worlds[0], 0, seq, 0);
    for (uint32_t i = 0; i < fleet->count; i++) {
        fleet_start(fleet, i);
    }
    fleet_run(fleet, 10 * S);
}

void fleet_swap(struct fleet *fleet, uint64_t seq)
{
    world_goals(fleet->worlds[0], 0, fleet->worlds[0]->groups[0].target_seq, seq);
    fleet_run(fleet, 5 * S);
    world_ticket(fleet->worlds[0], 0, seq, false);
}

bool fleet_serves(const struct fleet *fleet, uint64_t seq)
{
    bool serves = true;
    for (uint32_t i = 0; i < fleet->count; i++) {
        serves &=
            world_serves(fleet->worlds[i], 0, seq) && world_committed(fleet->worlds[i], 0) == seq;
    }
    return serves;
}

bool fleet_is_shut(const struct fleet *fleet)
{
    bool shut = true;
    for (uint32_t i = 0; i < fleet->count; i++) {
        shut &= world_is_shut(fleet->worlds[i], 0);
    }
    return shut;
}
