/* net.c -- sessions as ordered streams: delay, partitions, cuts, and who notices when.
 *
 * A stream loses nothing while it lives; what is lost is lost by its end.  A partition holds packets
 * back; a long one ends the stream. */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/check.h"
#include "tests/sim/cover.h"
#include "tests/sim/packet.h"

enum { TOGETHER_MS = 3, TOGETHER_MAX = 4 };

struct wire *net_wire(struct world *world, uint64_t id)
{
    struct wire *wire = &world->wires[id % SIM_WIRES];
    return id != 0 && wire->id == id ? wire : NULL;
}

static uint64_t latency_ns(struct node *node)
{
    uint64_t slow = world_below(&node->random, 20) == 0 ? world_below(&node->random, 400) * MS : 0;
    return MS / 2 + world_below(&node->random, 5) * MS + slow;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t latest(uint64_t a, uint64_t b, uint64_t c)
{
    return later(later(a, b), c);
}

/* Whom a new session reaches: mostly the one that leads; a stale address leads to the deposed one. */
static struct head *route(struct world *world, struct node *node)
{
    for (uint32_t i = 0; i < SIM_HEADS; i++) {
        struct head *head = &world->heads[i];
        if (head->up && head->deposed && world_below(&node->random, 3) == 0) {
            return head;
        }
    }
    struct head *lead = &world->heads[world->lead];
    return lead->up ? lead : NULL;
}

void net_connect(struct world *world, struct node *node)
{
    struct head *head = route(world, node);
    bool blocked = node->blocked_up_ns > world->now_ns || node->blocked_down_ns > world->now_ns;
    node->try_ns = world->now_ns + 200 * MS + world_below(&node->random, 1000) * MS;
    if (head == NULL || blocked) {
        return;
    }
    uint32_t id = ++world->wires_last;
    struct wire *wire = &world->wires[id % SIM_WIRES];
    *wire = (struct wire){ .id = id,
                           .node = node->index,
                           .node_life = node->life,
                           .head = head->index,
                           .head_life = head->life,
                           .node_open = true,
                           .head_open = true };
    node->wire = id;
    tell(world, "%s opens a session with controller %llu.%llu%s", node->config.agent,
         (unsigned long long)head->epoch.generation, (unsigned long long)head->epoch.n,
         head->deposed ? ", which was deposed" : "");
    struct agent_event event = { .kind = AGENT_EVENT_SESSION_OPENED };
    node_event(world, node, &event);
}

void net_cut(struct world *world, struct wire *wire, uint64_t node_ns, uint64_t head_ns)
{
    if (wire->cut) {
        return;
    }
    wire->cut = true;
    struct item *item = world_post(world, world->now_ns + node_ns, ITEM_NEWS_NODE, wire->node);
    item->life = wire->node_life;
    item->a = wire->id;
    item = world_post(world, world->now_ns + head_ns, ITEM_NEWS_HEAD, wire->node);
    item->life = wire->head_life;
    item->a = wire->id;
}

/* A small world loses or doubles one message. */
static void harm(struct world *world, struct wire *wire, struct packet *packet)
{
    world->packets++;
    if (world->script == NULL || world->packets != world->script->at) {
        return;
    }
    if (world->script->harm == HARM_PACKET_LOST) {
        tell(world, "%s is lost, and with it its stream", packet_name(packet));
        net_cut(world, wire, 2 * MS, 2 * MS);
        world->struck = true;
    } else if (world->script->harm == HARM_PACKET_TWICE) {
        tell(world, "%s arrives twice", packet_name(packet));
        packet->twice = true;
        world->struck = true;
    }
}

/* --- up --- */

void net_send_up(struct world *world, struct node *node, struct packet *packet)
{
    struct wire *wire = net_wire(world, node->wire);
    if (wire == NULL || wire->cut || !wire->node_open) {
        packet_free(packet);
        return;
    }
    if (node_boundary(world, node, "before it sends")) {
        packet_free(packet);
        return;
    }
    uint64_t blocked_ns = later(node->blocked_up_ns, wire->blocked_up_ns);
    wire->up_ns = latest(world->now_ns + latency_ns(node), wire->up_ns + 1, blocked_ns);
    struct item *item = world_post(world, wire->up_ns, ITEM_PACKET_UP, node->index);
    item->a = wire->id;
    item->payload = packet;
    harm(world, wire, packet);
}

/* The next message from an agent that is about to reach this controller; null: none.  It is taken out of the heap. */
static struct packet *next_up(struct world *world, const struct head *head, struct item *out)
{
    struct item *next = NULL;
    for (uint32_t i = 0; i < world->heap_count; i++) {
        struct item *item = &world->heap[i];
        const struct wire *wire = item->kind == ITEM_PACKET_UP ? net_wire(world, item->a) : NULL;
        bool ours = wire != NULL && wire->head == head->index &&
                    item->due_ns <= world->now_ns + TOGETHER_MS * MS;
        bool before = next == NULL || item->due_ns < next->due_ns ||
                      (item->due_ns == next->due_ns && item->order < next->order);
        next = ours && before ? item : next;
    }
    if (next == NULL) {
        return NULL;
    }
    *out = *next;
    next->kind = ITEM_KINDS; /* Nothing happens then any more. */
    next->payload = NULL;
    return out->payload;
}

static bool arrive_up(struct world *world, const struct item *item, bool more)
{
    struct wire *wire = net_wire(world, item->a);
    struct packet *packet = item->payload;
    struct head *head = wire != NULL ? &world->heads[wire->head] : NULL;
    if (wire == NULL || wire->cut || !wire->head_open || !head->up ||
        head->life != wire->head_life) {
        cover(COVER_PACKET_LOST, packet->up.kind);
        return false;
    }
    bool hello = packet->up.kind == EVENT_SESSION_HELLO;
    if (hello == wire->hello_seen) { /* A second hello, or none before this. */
        net_cut(world, wire, 2 * MS, 2 * MS);
        return false;
    }
    wire->hello_seen = true;
    if (hello) {
        packet->up.body.hello.session = wire->id;
    } else if (packet->up.kind == EVENT_SESSION_REPORT) {
        packet->up.body.report.session = wire->id;
    } else {
        packet->up.body.ack.session = wire->id;
    }
    packet->up.more = more && !hello;
    check_heard(head, wire->node, &packet->up, world->now_ns);
    head_event(world, head, &packet->up);
    return true;
}

/* Messages that wait already may share a transaction, as in controller/shell/session.c. */
static bool deliver(struct world *world, const struct item *item, uint32_t count)
{
    const struct packet *packet = item->payload;
    const struct wire *wire = net_wire(world, item->a);
    struct head *head = wire != NULL ? &world->heads[wire->head] : NULL;
    struct item next = { .payload = NULL };
    bool stopped = head == NULL || head->stopped_until_ns > world->now_ns ||
                   head->busy_until_ns > world->now_ns;
    if (!world->together || stopped || packet->twice || count == TOGETHER_MAX ||
        next_up(world, head, &next) == NULL) {
        return arrive_up(world, item, false);
    }
    uint32_t life = head->life;
    bool arrived = arrive_up(world, item, true);
    bool deferred = arrived && head->up && head->life == life;
    cover(COVER_TOGETHER, count);
    if (head->waits) { /* The one before: this one waits as well. */
        struct item *later = world_post(world, world->now_ns, ITEM_PACKET_UP, next.who);
        later->life = next.life;
        later->a = next.a;
        later->payload = next.payload;
        return true;
    }
    if (!deliver(world, &next, count + 1) && deferred && head->up && head->life == life) {
        struct event event = { .kind = EVENT_TIMER };
        head_event(world, head, &event);
    }
    packet_free(next.payload);
    return true;
}

void net_packet_up(struct world *world, struct item *item)
{
    const struct packet *packet = item->payload;
    bool twice = packet->twice;
    (void)deliver(world, item, 1);
    if (twice) {
        (void)arrive_up(world, item, false);
    }
}

/* --- down --- */

void net_send_down(struct world *world, struct head *head, uint64_t session, struct packet *packet)
{
    struct wire *wire = net_wire(world, session);
    if (wire == NULL || wire->cut || !wire->head_open || wire->head != head->index) {
        packet_free(packet);
        return;
    }
    struct node *node = &world->nodes[wire->node];
    uint64_t blocked_ns = later(node->blocked_down_ns, wire->blocked_down_ns);
    wire->down_ns = latest(world->now_ns + latency_ns(node), wire->down_ns + 1, blocked_ns);
    struct item *item = world_post(world, wire->down_ns, ITEM_PACKET_DOWN, wire->node);
    item->life = wire->node_life;
    item->a = wire->id;
    item->payload = packet;
    harm(world, wire, packet);
}

/* What was sent before still arrives. */
void net_close_down(struct world *world, struct head *head, uint64_t session)
{
    struct wire *wire = net_wire(world, session);
    if (wire == NULL || !wire->head_open || wire->head != head->index) {
        return;
    }
    net_send_down(world, head, session, packet_of_close());
    wire->head_open = false;
    struct item *item = world_post(world, world->now_ns + MS, ITEM_NEWS_HEAD, wire->node);
    item->life = wire->head_life;
    item->a = wire->id;
}

static void arrive_down(struct world *world, struct item *item)
{
    struct wire *wire = net_wire(world, item->a);
    struct packet *packet = item->payload;
    struct node *node = &world->nodes[item->who];
    if (wire == NULL || wire->cut || !wire->node_open || !node->up || node->life != item->life) {
        cover(COVER_PACKET_LOST, 16U + (uint32_t)packet->down.kind);
        return;
    }
    if (node_boundary(world, node, "when a message arrived")) {
        return;
    }
    if (packet->is_close) {
        net_cut(world, wire, 0, 0);
        return;
    }
    tell(world, "%s gets %s", node->config.agent, packet_name(packet));
    node_event(world, node, &packet->down);
}

void net_packet_down(struct world *world, struct item *item)
{
    const struct packet *packet = item->payload;
    arrive_down(world, item);
    if (packet->twice) {
        arrive_down(world, item);
    }
}

/* --- ends --- */

void net_news_node(struct world *world, struct item *item)
{
    struct wire *wire = net_wire(world, item->a);
    struct node *node = &world->nodes[item->who];
    if (wire == NULL || !wire->node_open) {
        return;
    }
    wire->node_open = false;
    if (!node->up || node->life != item->life || node->wire != wire->id) {
        return;
    }
    node->wire = 0;
    node->try_ns = world->now_ns + 200 * MS + world_below(&node->random, 2000) * MS;
    struct agent_event event = { .kind = AGENT_EVENT_SESSION_CLOSED };
    node_event(world, node, &event);
}

void net_news_head(struct world *world, struct item *item)
{
    struct wire *wire = net_wire(world, item->a);
    if (wire == NULL || wire->id == 0) {
        return;
    }
    struct head *head = &world->heads[wire->head];
    wire->head_open = false;
    if (head->up && head->life == item->life && wire->hello_seen) {
        struct event event = { .kind = EVENT_SESSION_GONE, .body.session_gone = wire->id };
        head_event(world, head, &event);
    }
}

void net_node_gone(struct world *world, struct node *node)
{
    struct wire *wire = net_wire(world, node->wire);
    node->wire = 0;
    if (wire != NULL) {
        /* A machine without power tells nobody: the lease does. */
        bool silent = world_below(&node->random, 4) == 0;
        wire->node_open = false;
        net_cut(world, wire, 0, silent ? 20 * S : 3 * MS);
    }
}

void net_head_gone(struct world *world, struct head *head)
{
    for (uint32_t i = 0; i < SIM_WIRES; i++) {
        struct wire *wire = &world->wires[i];
        if (wire->id != 0 && wire->head == head->index && wire->head_life == head->life &&
            !wire->cut) {
            struct node *node = &world->nodes[wire->node];
            wire->head_open = false;
            net_cut(world, wire, MS + world_below(&node->random, 2000) * MS, 0);
        }
    }
}
