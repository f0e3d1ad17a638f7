/* plan.c -- the kinds of disturbances, each one function; see plan.h. */
#include "tests/sim/plan.h"

#include <string.h>

#include "tests/sim/cover.h"
#include "tests/sim/verbs.h"

static struct node *node_of(struct world *world, const struct fate *fate)
{
    return &world->nodes[fate->a % world->nodes_count];
}

static struct agent_engine_id engine_id(const struct node *node, const struct fate *fate)
{
    uint32_t g = fate->b % node->groups_count;
    g = node->groups[g].engines_count > 0 ? g : 0;
    return (struct agent_engine_id){ g, fate->b / 16 % node->groups[g].engines_count };
}

static struct engine_model *engine_of(struct world *world, const struct fate *fate)
{
    struct node *node = node_of(world, fate);
    struct agent_engine_id id = engine_id(node, fate);
    return &node->groups[id.group].engines[id.engine];
}

/* --- people --- */

/* It was there from the beginning: models.c. */
static void second_model(struct world *world, const struct fate *fate)
{
    (void)fate;
    tell(world, "the fleet has a second model");
}

static void publish(struct world *world, const struct fate *fate)
{
    (void)people_publish(world, models_of_dice(world, fate->a), fate->b % 12 == 0, 1 + fate->c % 6);
}

static void burst(struct world *world, const struct fate *fate)
{
    for (uint32_t i = 0; i < 20; i++) {
        (void)people_publish(world, models_of_dice(world, fate->a), false, 4);
    }
}

static void verb(struct world *world, const struct fate *fate)
{
    people_verb(world, fate->a % verbs_count(), fate->b);
}

/* The trainer dies in the middle; another one goes on with versions of its own. */
static void trainer_dies(struct world *world, const struct fate *fate)
{
    uint32_t model = models_of_dice(world, fate->a);
    for (uint32_t i = 0; i < world->calls_count; i++) {
        struct call *call = &world->calls[i];
        if (call->verb == SIM_NOBODY && call->model == model && !call->ended) {
            call->ended = true;
        }
    }
    (void)people_publish(world, model, false, 4);
}

/* --- network --- */

static void cut(struct world *world, const struct fate *fate)
{
    struct node *node = node_of(world, fate);
    struct wire *wire = net_wire(world, node->wire);
    if (wire != NULL) {
        net_cut(world, wire, fate->b % 5000 * MS, fate->c % 15000 * MS);
    }
}

static void block(struct world *world, const struct fate *fate, bool up, bool down)
{
    struct node *node = node_of(world, fate);
    uint64_t until_ns = world->now_ns + (100 + fate->b % 25000) * MS;
    node->blocked_up_ns = up ? until_ns : node->blocked_up_ns;
    node->blocked_down_ns = down ? until_ns : node->blocked_down_ns;
    if (fate->c % 3 == 0 && node->wire != 0) { /* Keep-alive gives the stream up. */
        world_post(world, world->now_ns + fate->c % 20000 * MS, ITEM_CUT, 0)->a = node->wire;
    }
}

static void partition(struct world *world, const struct fate *fate)
{
    block(world, fate, true, true);
}

static void partition_up(struct world *world, const struct fate *fate)
{
    block(world, fate, true, false);
}

static void partition_down(struct world *world, const struct fate *fate)
{
    block(world, fate, false, true);
}

/* Between two agents of one group. */
static void mesh_cut(struct world *world, const struct fate *fate)
{
    uint32_t leader = fate->a % world->nodes_count;
    uint32_t follower = fate->b % world->nodes_count;
    mesh_break(world, leader, follower, fate->c % 2 == 0 ? 0 : fate->c % 20000 * MS);
}

static void mesh_noise(struct world *world, const struct fate *fate)
{
    world->noisy_ns = world->now_ns + (1 + fate->b % 15) * S;
}

/* --- controllers --- */

static void head_dies(struct world *world, const struct fate *fate)
{
    head_crash(world, &world->heads[world->lead], "killed", (100 + fate->b % 4000) * MS);
}

static void head_dies_at(struct world *world, const struct fate *fate)
{
    world->heads[world->lead].crash_in = 1 + fate->b % 24;
}

/* A stop within a stop cannot end it early: what waits for the first end would be overtaken. */
static void stop_until(uint64_t *stopped_until_ns, uint64_t until_ns)
{
    *stopped_until_ns = until_ns > *stopped_until_ns ? until_ns : *stopped_until_ns;
}

static void head_stops(struct world *world, const struct fate *fate)
{
    struct head *head = &world->heads[world->lead];
    stop_until(&head->stopped_until_ns, world->now_ns + (100 + fate->b % 15000) * MS);
}

static void arm(struct world *world, enum store_fault fault, uint32_t arrives_ms, uint32_t ends_ms)
{
    world->heads[world->lead].way = (struct way){ fault, arrives_ms * MS, ends_ms * MS };
}

static void store_fails(struct world *world, const struct fate *fate)
{
    arm(world, fate->b % 2 == 0 ? SF_REFUSED : SF_FULL, 0, 0);
}

/* The controller waits as long as its patience lasts, at most twice four seconds. */
static void answer_lost(struct world *world, const struct fate *fate)
{
    uint32_t ends_ms = fate->c % 3 == 0 ? 0 : 1 + fate->c % 8000;
    arm(world, fate->b % 2 == 0 ? SF_LOST : SF_UNDONE, 0, ends_ms);
}

static void commit_slow(struct world *world, const struct fate *fate)
{
    uint32_t ends_ms = 1 + fate->b % (fate->b % 3 == 0 ? 25000 : 4000);
    arm(world, SF_SLOW, fate->c % ends_ms, ends_ms);
}

/* Its controller gives up on it, or dies while it is on its way. */
static void commit_late(struct world *world, const struct fate *fate)
{
    uint32_t ends_ms = 1 + fate->b % 8000;
    arm(world, SF_LATE, ends_ms + fate->c % (fate->c % 2 == 0 ? 30 : 10000), ends_ms);
    world->heads[world->lead].dies_waiting = fate->a % 2 == 0;
}

static void commit_twice(struct world *world, const struct fate *fate)
{
    arm(world, SF_TWICE, fate->b % 10000, 0);
}

/* Larger than a request: decided by one mark, applied afterwards; or not decided at all. */
static void commit_torn(struct world *world, const struct fate *fate)
{
    uint32_t ends_ms = 1 + fate->b % 6000;
    bool early = fate->a % 4 == 0; /* It is answered before all of it is applied. */
    arm(world, fate->a % 4 == 1 ? SF_PARTS : SF_TORN, early ? 20000 : ends_ms, early ? 0 : ends_ms);
    world->heads[world->lead].dies_waiting = fate->c % 2 == 0;
}

static void store_away(struct world *world, const struct fate *fate)
{
    world->away_until_ns = world->now_ns + (100 + fate->b % 15000) * MS;
}

/* The next time that the store is read; often that is now. */
static void load_slow(struct world *world, const struct fate *fate)
{
    world->heads[world->lead].load_ns = (1 + fate->b % 12000) * MS;
    if (fate->c % 2 == 0) {
        head_crash(world, &world->heads[world->lead], "killed", (100 + fate->c % 2000) * MS);
    }
}

/* It is stopped, or cut off from its store, from its agents, one way or both. */
static void isolate(struct world *world, struct head *old, const struct fate *fate)
{
    uint64_t until_ns = world->now_ns + (100 + fate->b % 20000) * MS;
    if (fate->a % 3 == 0) {
        stop_until(&old->stopped_until_ns, until_ns);
    }
    old->cut_until_ns = fate->a / 4 % 2 == 0 ? until_ns : 0;
    for (uint32_t i = 0; i < SIM_WIRES; i++) {
        struct wire *wire = &world->wires[i];
        if (wire->id != 0 && !wire->cut && wire->head == old->index) {
            wire->blocked_up_ns = fate->a / 8 % 4 == 0 ? until_ns : 0;
            wire->blocked_down_ns = fate->a / 32 % 4 == 0 ? until_ns : 0;
        }
    }
}

/* Another controller takes over while this one lives on and does not know. */
static void fail_over(struct world *world, const struct fate *fate)
{
    struct head *old = &world->heads[world->lead];
    struct head *next = &world->heads[1 - world->lead];
    if (!(old->up || old->loading) || next->up || next->loading || head_is_cut(world, next)) {
        return;
    }
    old->crash_in = 0;
    head_start(world, next);
    isolate(world, old, fate);
    for (uint32_t i = 0; i < SIM_WIRES; i++) {
        struct wire *wire = &world->wires[i];
        if (wire->id != 0 && !wire->cut && wire->head == old->index) {
            uint64_t at_ns = world->now_ns + fate->c % 8000 * MS + 200 * i * MS;
            world_post(world, at_ns, ITEM_CUT, 0)->a = wire->id;
        }
    }
}

static void back_up(struct world *world, const struct fate *fate)
{
    (void)fate;
    disk_copy(&world->backup, &world->disk);
    world->has_backup = true;
}

static void forget_later(struct world *world)
{
    for (uint32_t i = 1; i <= world->contents; i++) {
        struct version_model *version = &world->versions[i];
        if (version->seq != 0 && version->uid[0] != '\0' &&
            disk_find(&world->disk, RECORD_VERSION, version->uid) == NULL) {
            version->lost = true;
        }
    }
}

/* The controller's machine is set up again from its backup. */
static void go_back(struct world *world, const struct fate *fate)
{
    const struct head *other = &world->heads[1 - world->lead];
    if (!world->has_backup || other->up || other->loading) {
        return;
    }
    head_crash(world, &world->heads[world->lead], "its store is put back to a backup",
               (500 + fate->b % 3000) * MS);
    uint64_t generation = world->disk.epoch.generation;
    disk_copy(&world->disk, &world->backup);
    torn_forget(world);
    world->disk.epoch.generation = generation + 1;
    world->disk.epoch.n = 0;
    world->went_back = true;
    forget_later(world);
    for (uint32_t model = 0; model < world->models_count; model++) {
        (void)people_publish(world, model, false, 4); /* The trainers know nothing of it. */
    }
}

/* --- agents --- */

static void node_dies(struct world *world, const struct fate *fate)
{
    node_crash(world, node_of(world, fate), "killed", (50 + fate->b % 6000) * MS);
}

static void node_dies_at(struct world *world, const struct fate *fate)
{
    node_of(world, fate)->crash_in = 1 + fate->b % 40;
}

static void node_stops(struct world *world, const struct fate *fate)
{
    struct node *node = node_of(world, fate);
    if (node->up) {
        stop_until(&node->stopped_until_ns, world->now_ns + (100 + fate->b % 20000) * MS);
        node->restarted_ns = node->stopped_until_ns;
        tell(world, "%s is stopped for %u ms", node->config.agent, 100 + fate->b % 20000);
    }
}

static void node_ends(struct world *world, const struct fate *fate)
{
    struct node *node = node_of(world, fate);
    struct agent_event event = { .kind = AGENT_EVENT_SHUTDOWN };
    tell(world, "%s is asked to end", node->config.agent);
    node_event(world, node, &event);
}

static void disk_lost(struct world *world, const struct fate *fate)
{
    struct node *node = node_of(world, fate);
    node_crash(world, node, "its disk is lost", (500 + fate->b % 4000) * MS);
    node_lose_disk(world, node, fate->c % 2 == 0);
}

static void journal_full(struct world *world, const struct fate *fate)
{
    struct node *node = node_of(world, fate);
    enum agent_journal_space space = fate->b % 2 == 0 ? AGENT_JOURNAL_LOW : AGENT_JOURNAL_NONE;
    struct item *item = world_post(world, world->now_ns + (500 + fate->c % 9000) * MS,
                                   ITEM_NODE_SPACE, node->index);
    item->a = AGENT_JOURNAL_ROOM;
    node_set_space(world, node, space);
}

/* Break-glass, with or without a controller. */
static void break_glass(struct world *world, const struct fate *fate)
{
    struct node *node = node_of(world, fate);
    node_operate(world, node, fate->b % node->led_count,
                 (enum agent_verb)(fate->c % (AGENT_VERB_DETACH + 1)));
}

/* Wall clocks only: monotonic ones do not jump. */
static void clock_jumps(struct world *world, const struct fate *fate)
{
    int64_t jump_ns = ((int64_t)(fate->b % 7200) - 3600) * (int64_t)S;
    if (fate->c % 3 == 0) {
        world->heads[world->lead].skew_ns = jump_ns;
    } else {
        node_of(world, fate)->skew_ns = jump_ns;
    }
}

/* --- engines --- */

static void engine_fails(struct world *world, const struct fate *fate)
{
    /* Often, what few groups come to. */
    static const enum agent_op_kind kinds[] = {
        AGENT_OP_ATTACH,     AGENT_OP_HEALTH,   AGENT_OP_SET_GATE, AGENT_OP_RAISE_FENCE,
        AGENT_OP_PAUSE,      AGENT_OP_UPDATE,   AGENT_OP_UPDATE,   AGENT_OP_UPDATE,
        AGENT_OP_LABEL,      AGENT_OP_READBACK, AGENT_OP_RESUME,   AGENT_OP_PROBE,
        AGENT_OP_INVALIDATE, AGENT_OP_SLEEP,    AGENT_OP_SLEEP,    AGENT_OP_SLEEP,
        AGENT_OP_WAKE,       AGENT_OP_WAKE,     AGENT_OP_WAKE,     AGENT_OP_PREPARE,
        AGENT_OP_PREPARE,    AGENT_OP_PREPARE,  AGENT_OP_PREPARE,  AGENT_OP_PREPARE,
        AGENT_OP_PREPARE,    AGENT_OP_LIVE,     AGENT_OP_LIVE,     AGENT_OP_LIVE,
        AGENT_OP_LIVE,       AGENT_OP_LIVE,     AGENT_OP_LIVE
    };
    struct engine_model *engine = engine_of(world, fate);
    enum agent_op_kind kind = kinds[fate->c % (sizeof(kinds) / sizeof(kinds[0]))];
    enum engine_fault fault = (enum engine_fault)(EF_FAIL + fate->c / 16 % (EF_KINDS - EF_FAIL));
    bool update = kind == AGENT_OP_UPDATE || kind == AGENT_OP_LIVE;
    if (!update && (fault == EF_FAIL_BACK || (fault == EF_STRAY && kind != AGENT_OP_READBACK))) {
        fault = EF_FAIL;
    }
    engine->lies_back = kind == AGENT_OP_UPDATE && fate->b / 1024 % 3 == 0;
    engine->fault[kind] = engine->lies_back ? EF_FAIL : fault;
    engine->fault_left[kind] = engine->lies_back ? 1 : 1 + fate->b / 256 % 3;
}

static void engine_dies(struct world *world, const struct fate *fate)
{
    struct node *node = node_of(world, fate);
    engine_die(world, node, engine_id(node, fate), fate->c % 2 == 0);
}

/* By itself, or by somebody who did not tell; with the weights that it has on its disk. */
static void engine_restarts(struct world *world, const struct fate *fate)
{
    struct engine_model *engine = engine_of(world, fate);
    uint32_t old = engine->rank[0] != 0 ? engine->rank[0] : engine->boot_content;
    engine_boot(world, engine, fate->c % 3 == 0 ? old : engine->boot_content);
    engine->foreign_life = engine->life;
    tell(world, "an engine of a%u restarts by itself", fate->a % world->nodes_count);
}

static void recreate_fails(struct world *world, const struct fate *fate)
{
    engine_of(world, fate)->recreate_fails = true;
}

/* --- routers --- */

static void router_fails(struct world *world, const struct fate *fate)
{
    struct router *router = &world->routers[fate->a % SIM_ROUTERS];
    router->fault = (enum router_fault)(RF_REFUSES + fate->b % (RF_GONE - RF_REFUSES));
    router->fault_left = 1 + fate->c % 12;
}

static void router_dies(struct world *world, const struct fate *fate)
{
    struct router *router = &world->routers[fate->a % SIM_ROUTERS];
    router->down_until_ns = world->now_ns + (500 + fate->b % 30000) * MS;
}

/* --- landings --- */

static void landing_fails(struct world *world, const struct fate *fate)
{
    struct node *node = node_of(world, fate);
    node->landing_fails = 1 + fate->b % 5;
    node->no_room = fate->c % 2 == 0;
}

static void landing_lost(struct world *world, const struct fate *fate)
{
    struct node *node = node_of(world, fate);
    uint32_t content = world->contents > 0 ? 1 + fate->b % world->contents : 0;
    if (node->up && node->landing[content] == LANDING_LANDED) {
        struct item *item = world_post(world, world->now_ns, ITEM_LANDING, node->index);
        item->life = node->life;
        item->a = content;
        item->b = node->landing_life[content];
    }
}

/* --- the table --- */

struct kind {
    const char *name;
    uint32_t weight;
    void (*strike)(struct world *world, const struct fate *fate);
};

static const struct kind kinds[] = {
    { "a second model", 0, second_model },
    { "a publish", 60, publish },
    { "20 publishes at once", 4, burst },
    { "an operator's verb", 100, verb },
    { "the trainer fails over", 4, trainer_dies },
    { "a session is cut", 20, cut },
    { "a partition", 10, partition },
    { "a partition towards the controller", 6, partition_up },
    { "a partition towards the agent", 6, partition_down },
    { "a stream between agents ends", 25, mesh_cut },
    { "commands between agents come twice or late", 10, mesh_noise },
    { "the controller is killed", 12, head_dies },
    { "the controller dies at a step", 25, head_dies_at },
    { "the controller is stopped", 6, head_stops },
    { "a write to the store goes wrong", 12, store_fails },
    { "a commit's answer is lost", 12, answer_lost },
    { "a commit is slow", 12, commit_slow },
    { "a commit comes late", 12, commit_late },
    { "a commit comes twice", 6, commit_twice },
    { "a commit goes in parts", 12, commit_torn },
    { "the store is away", 6, store_away },
    { "the store is read slowly", 5, load_slow },
    { "a fail-over", 16, fail_over },
    { "a backup", 12, back_up },
    { "the store goes back", 8, go_back },
    { "an agent is killed", 15, node_dies },
    { "an agent dies at a step", 45, node_dies_at },
    { "an agent is stopped", 10, node_stops },
    { "an agent is asked to end", 5, node_ends },
    { "an agent loses its disk", 6, disk_lost },
    { "the journal's disk is full", 5, journal_full },
    { "an operator at a node", 15, break_glass },
    { "a clock jumps", 5, clock_jumps },
    { "an engine misbehaves", 140, engine_fails },
    { "an engine dies", 15, engine_dies },
    { "an engine restarts by itself", 12, engine_restarts },
    { "a recreation fails", 4, recreate_fails },
    { "a router misbehaves", 15, router_fails },
    { "a router dies", 8, router_dies },
    { "landings fail", 12, landing_fails },
    { "a landing is lost", 8, landing_lost },
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

const char *plan_name(uint32_t kind)
{
    return kinds[kind].name;
}

uint32_t plan_kinds(void)
{
    return KINDS;
}

uint32_t plan_find(const char *name)
{
    uint32_t kind = 0;
    while (kind < KINDS && strcmp(kinds[kind].name, name) != 0) {
        kind++;
    }
    return kind;
}

static uint32_t draw_kind(struct world *world)
{
    uint32_t total = 0;
    for (uint32_t i = 0; i < KINDS; i++) {
        total += kinds[i].weight;
    }
    uint32_t dice = world_below(&world->random, total);
    uint32_t kind = 0;
    while (dice >= kinds[kind].weight) {
        dice -= kinds[kind].weight;
        kind++;
    }
    return kind;
}

void plan_draw(struct world *world)
{
    uint64_t span_ns = world->storm_end_ns - world->now_ns;
    uint32_t count = 4 + world_below(&world->random, 56);
    for (uint32_t i = 0; i < count && i < SIM_FATES; i++) {
        struct fate *fate = &world->fates[world->fates_count++];
        fate->at_ns = world->now_ns + baton_random_below(&world->random, span_ns);
        fate->kind = draw_kind(world);
        fate->a = world_below(&world->random, UINT32_MAX);
        fate->b = world_below(&world->random, UINT32_MAX);
        fate->c = world_below(&world->random, UINT32_MAX);
    }
}

void plan_strike(struct world *world, uint32_t place)
{
    const struct fate *fate = &world->fates[place];
    cover(COVER_FATE, fate->kind);
    tell(world, "-- %s", kinds[fate->kind].name);
    kinds[fate->kind].strike(world, fate);
}

static void calm_node(struct world *world, struct node *node)
{
    node->blocked_up_ns = 0;
    node->blocked_down_ns = 0;
    node->landing_fails = 0;
    node->crash_in = world->script != NULL ? node->crash_in : 0; /* Small worlds: anywhere. */
    node_set_space(world, node, AGENT_JOURNAL_ROOM);
    for (uint32_t g = 0; g < node->groups_count; g++) {
        for (uint32_t e = 0; e < node->groups[g].engines_count; e++) {
            struct engine_model *engine = &node->groups[g].engines[e];
            memset(engine->fault_left, 0, sizeof(engine->fault_left));
            engine->lies_back = false;
            engine->recreate_fails = false;
        }
    }
}

void plan_calm(struct world *world)
{
    tell(world, "-- calm: nothing disturbs any more");
    world->calm = true;
    world->calm_ns = world->now_ns;
    world->away_until_ns = 0;
    for (uint32_t i = 0; i < SIM_HEADS; i++) {
        struct head *head = &world->heads[i];
        head->crash_in = world->script != NULL ? head->crash_in : 0;
        head->way = (struct way){ .fault = SF_NONE };
        head->load_ns = 0;
        head->cut_until_ns = 0;
        head->dies_waiting = false;
        if (head->deposed) {
            head_crash(world, head, "it was deposed", 0);
        }
        head->life += i != world->lead; /* It does not come back. */
    }
    mesh_calm(world);
    memset(world->routers, 0, sizeof(world->routers));
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        calm_node(world, &world->nodes[i]);
    }
}
