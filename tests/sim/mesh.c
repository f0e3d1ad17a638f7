/* mesh.c -- streams between the agents of one group: a leader's commands, its followers' answers.
 *
 * As agent/shell/peer_link.c and peer_server.c: the leader dials; a stream is ordered and loses
 * nothing while it lives; the follower answers over the present one.  What was on its way when a
 * stream ended is lost, or, of commands, comes long afterwards from the old one's buffers. */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/check.h"
#include "tests/sim/cover.h"

struct mesh_message {
    struct agent_peer_command command;
    struct agent_version_goal goals[3];
    struct agent_source sources[3][BATON_SOURCES_PER_VERSION_MAX];
    struct agent_peer_result result;
    struct agent_engine_report engines[SIM_ENGINES];
    struct agent_engine_config configs[SIM_ENGINES];
    struct agent_engine_facts facts[SIM_ENGINES];
    char labels[SIM_ENGINES][BATON_NAME_BYTES];
    char gates[SIM_ENGINES][BATON_NAME_BYTES];
    bool twice;
    bool survives; /* The end of its stream; then it comes late. */
};

static struct mesh_link *link_of(struct world *world, uint32_t leader, uint32_t follower)
{
    return &world->links[leader][follower];
}

static uint32_t number_of(const char *agent)
{
    return (uint32_t)(agent[1] - '0');
}

static void try_in(struct world *world, uint32_t leader, uint32_t follower, uint64_t delay_ns)
{
    struct item *item = world_post(world, world->now_ns + delay_ns, ITEM_MESH_TRY, leader);
    item->life = world->nodes[leader].life;
    item->a = follower;
}

static uint64_t soon_ns(struct node *node)
{
    return 5 * MS + world_below(&node->random, 900) * MS;
}

void mesh_start(struct world *world, const struct node *node)
{
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        if (world->links[node->index][i].wanted) {
            try_in(world, node->index, i, soon_ns(&world->nodes[node->index]));
        }
    }
}

void mesh_break(struct world *world, uint32_t leader, uint32_t follower, uint64_t blocked_ns)
{
    struct mesh_link *link = link_of(world, leader, follower);
    struct node *node = &world->nodes[leader];
    link->blocked_ns = world->now_ns + blocked_ns;
    if (!link->up) {
        return;
    }
    link->up = false;
    tell(world, "the stream of a%u to a%u ends", leader, follower);
    uint64_t unseen_ns = world_below(&node->random, 4) == 0 ? 8 * S : 50 * MS;
    struct item *item = world_post(world, world->now_ns + world_below(&node->random, unseen_ns),
                                   ITEM_MESH_NEWS, leader);
    item->life = node->life;
    item->a = follower;
    item->b = link->stream;
}

void mesh_gone(struct world *world, const struct node *node)
{
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        mesh_break(world, i, node->index, 0);
        world->links[node->index][i].up = false;
    }
}

void mesh_calm(struct world *world)
{
    memset(&world->noisy_ns, 0, sizeof(world->noisy_ns));
    for (uint32_t i = 0; i < SIM_AGENTS; i++) {
        for (uint32_t k = 0; k < SIM_AGENTS; k++) {
            world->links[i][k].blocked_ns = 0;
        }
    }
}

void mesh_try(struct world *world, const struct item *item)
{
    struct node *leader = &world->nodes[item->who];
    struct mesh_link *link = link_of(world, item->who, item->a);
    if (!leader->up || leader->life != item->life || link->up) {
        return;
    }
    if (!world->nodes[item->a].up || link->blocked_ns > world->now_ns) {
        try_in(world, item->who, item->a, 200 * MS + soon_ns(leader));
        return;
    }
    link->up = true;
    link->stream++;
    tell(world, "a%u has a stream to a%u", item->who, item->a);
    struct agent_event event = { .kind = AGENT_EVENT_PEER_UP,
                                 .peer = world->nodes[item->a].config.agent };
    node_event(world, leader, &event);
}

void mesh_news(struct world *world, const struct item *item)
{
    struct node *leader = &world->nodes[item->who];
    const struct mesh_link *link = link_of(world, item->who, item->a);
    if (!leader->up || leader->life != item->life || link->stream != item->b) {
        return;
    }
    struct agent_event event = { .kind = AGENT_EVENT_PEER_DOWN,
                                 .peer = world->nodes[item->a].config.agent };
    try_in(world, item->who, item->a, soon_ns(leader));
    node_event(world, leader, &event);
}

/* --- messages --- */

static uint64_t arrival_ns(struct world *world, struct node *from, uint64_t *last_ns)
{
    uint64_t slow_ns =
        world_below(&from->random, 30) == 0 ? world_below(&from->random, 300) * MS : 0;
    uint64_t at_ns = world->now_ns + MS / 2 + world_below(&from->random, 4) * MS + slow_ns;
    *last_ns = at_ns > *last_ns ? at_ns : *last_ns + 1;
    return *last_ns;
}

static void post(struct world *world, struct mesh_message *message, struct item where)
{
    struct item *item = world_post(world, where.due_ns, where.kind, where.who);
    item->life = world->nodes[where.who].life;
    item->a = where.a;
    item->b = where.b;
    item->payload = message;
}

static const struct agent_version_goal *keep_goal(struct mesh_message *message, int i,
                                                  const struct agent_version_goal *goal)
{
    if (goal == NULL) {
        return NULL;
    }
    message->goals[i] = *goal;
    memcpy(message->sources[i], goal->sources, goal->sources_count * sizeof(*goal->sources));
    message->goals[i].sources = message->sources[i];
    message->goals[i].holders_count = 0; /* The wire between agents has none. */
    return &message->goals[i];
}

void mesh_send(struct world *world, struct node *node, const struct agent_action *action)
{
    uint32_t follower = number_of(action->peer_send.agent);
    struct mesh_link *link = link_of(world, node->index, follower);
    if (!link->up || node_boundary(world, node, "before it commands a member")) {
        return;
    }
    struct mesh_message *message = calloc(1, sizeof(*message));
    baton_assert(message != NULL);
    message->command = *action->peer_send.command;
    message->command.target = keep_goal(message, 0, message->command.target);
    message->command.stage = keep_goal(message, 1, message->command.stage);
    message->command.restore = keep_goal(message, 2, message->command.restore);
    bool noisy = world->noisy_ns > world->now_ns;
    message->twice = noisy && world_below(&node->random, 4) == 0;
    message->survives = world_below(&node->random, noisy ? 2 : 8) == 0;
    uint64_t at_ns = arrival_ns(world, node, &link->down_ns);
    post(world, message,
         (struct item){ at_ns, 0, ITEM_MESH_DOWN, follower, 0, node->index, link->stream, NULL,
                        false });
}

void mesh_answer(struct world *world, struct node *node, const struct agent_action *action)
{
    uint32_t leader = number_of(action->peer_answer.leader);
    struct mesh_link *link = link_of(world, leader, node->index);
    if (!link->up || node_boundary(world, node, "before it answers its leader")) {
        return;
    }
    struct mesh_message *message = calloc(1, sizeof(*message));
    baton_assert(message != NULL);
    message->result = *action->peer_answer.result;
    struct group_model *group = node_part(node, message->result.group);
    if (message->result.ok && group != NULL) {
        check_obeyed(world, node, group, message->result.step);
    }
    struct agent_peer_state *state = &message->result.state;
    for (uint32_t i = 0; i < state->engines_count; i++) {
        const struct agent_engine_report *from = &state->engines[i];
        message->engines[i] = *from;
        message->configs[i] = *from->config;
        message->facts[i] = *from->facts;
        (void)snprintf(message->labels[i], sizeof(message->labels[i]), "%s", from->label);
        (void)snprintf(message->gates[i], sizeof(message->gates[i]), "%s", from->gate);
        message->engines[i].config = &message->configs[i];
        message->engines[i].facts = &message->facts[i];
        message->engines[i].label = message->labels[i];
        message->engines[i].gate = message->gates[i];
    }
    state->engines = message->engines;
    message->twice = world->noisy_ns > world->now_ns && world_below(&node->random, 4) == 0;
    uint64_t at_ns = arrival_ns(world, node, &link->up_ns);
    post(
        world, message,
        (struct item){ at_ns, 0, ITEM_MESH_UP, leader, 0, node->index, link->stream, NULL, false });
}

void mesh_up(struct world *world, struct item *item)
{
    struct node *leader = &world->nodes[item->who];
    const struct mesh_link *link = link_of(world, item->who, item->a);
    const struct mesh_message *message = item->payload;
    struct agent_event event = { .kind = AGENT_EVENT_PEER_RESULT };
    event.peer_result.agent = world->nodes[item->a].config.agent;
    event.peer_result.result = &message->result;
    for (int i = 0; i < 1 + message->twice; i++) {
        if (link->up && link->stream == item->b && leader->life == item->life) {
            node_event(world, leader, &event);
        }
    }
}

/* What a follower is told to land is also what its engines may boot from. */
static void note_watch(struct node *node, const struct agent_peer_command *command)
{
    struct group_model *group = node_part(node, command->group);
    if (command->verb == AGENT_PEER_WATCH && group != NULL) {
        group->goal_target =
            command->target != NULL ? content_of(command->target->version.digest) : 0;
    }
}

static void arrive_down(struct world *world, struct node *node, const struct item *item)
{
    const struct mesh_message *message = item->payload;
    const struct agent_peer_command *command = &message->command;
    struct agent_event event = { .kind = AGENT_EVENT_PEER_COMMAND, .command = command };
    if (!node->up || node->life != item->life ||
        node_boundary(world, node, "when a command arrived")) {
        return;
    }
    cover(COVER_PEER, (uint32_t)command->verb);
    if (command->verb != AGENT_PEER_WATCH) {
        tell(world, "%s is told %s of %s, step %llu.%llu", node->config.agent,
             agent_peer_verb_name(command->verb), command->group,
             (unsigned long long)(command->fence.step >> 32),
             (unsigned long long)(command->fence.step & UINT32_MAX));
    }
    note_watch(node, command);
    node_event(world, node, &event);
}

void mesh_down(struct world *world, struct item *item)
{
    struct node *node = &world->nodes[item->who];
    const struct mesh_link *link = link_of(world, item->a, item->who);
    struct mesh_message *message = item->payload;
    bool lives = link->up && link->stream == item->b;
    if (!lives && message->survives && node->up) {
        uint64_t at_ns = world->now_ns + world_below(&node->random, 6000) * MS;
        message->survives = false;
        message->twice = false;
        item->payload = NULL;
        post(world, message,
             (struct item){ at_ns, 0, ITEM_MESH_DOWN, item->who, 0, item->a, SIM_NOBODY, NULL,
                            false });
        return;
    }
    if (!lives && item->b != SIM_NOBODY) {
        return;
    }
    for (int i = 0; i < 1 + message->twice; i++) {
        arrive_down(world, node, item);
    }
}
