/* world.c -- a world's time and life; see world.h. */
#include "tests/sim/world.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/check.h"
#include "tests/sim/packet.h"
#include "tests/sim/plan.h"

#define WALL_NS UINT64_C(1700000000000000000)

enum { STEPS_MAX = 400000, CALM_S = 900, QUIET_MS = 1500 };

uint32_t world_below(struct baton_random *random, uint64_t bound)
{
    return (uint32_t)baton_random_below(random, bound);
}

uint64_t world_wall_ns(const struct world *world, int64_t skew_ns)
{
    return WALL_NS + world->now_ns + (uint64_t)skew_ns;
}

void tell(struct world *world, const char *fmt, ...)
{
    if (world->story == NULL) {
        return;
    }
    va_list args;
    va_start(args, fmt);
    fprintf(world->story, "  %9.3f s  ", (double)world->now_ns / 1e9);
    (void)vfprintf(world->story, fmt, args);
    fputc('\n', world->story);
    va_end(args);
}

void world_break(struct world *world, int check, const char *fmt, ...)
{
    if (world->broken != NULL || (world->checks_off >> check & 1U) != 0) {
        return;
    }
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(world->why, sizeof(world->why), fmt, args);
    va_end(args);
    world->broken = check_name(check);
    tell(world, "BROKEN (%s): %s", world->broken, world->why);
}

/* --- contents --- */

void content_digest(uint32_t content, char out[BATON_DIGEST_TEXT_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    memset(out, '0', BATON_DIGEST_TEXT_BYTES - 1);
    out[BATON_DIGEST_TEXT_BYTES - 1] = '\0';
    for (int i = BATON_DIGEST_TEXT_BYTES - 2; content != 0; i--) {
        out[i] = digits[content & 15U];
        content >>= 4;
    }
}

uint32_t content_of(const char *digest)
{
    unsigned long value = digest[0] == '\0' ? 0 : strtoul(digest + 16, NULL, 16);
    return value < SIM_CONTENTS ? (uint32_t)value : 0;
}

uint32_t content_of_seq(const struct world *world, uint32_t model, uint64_t seq)
{
    for (uint32_t i = world->contents; i > 0 && seq != 0; i--) {
        const struct version_model *version = &world->versions[i];
        if (version->seq == seq && version->model == model && !version->lost) {
            return i;
        }
    }
    return 0;
}

struct group_model *world_group(struct world *world, const char *name, uint32_t *node)
{
    uint32_t number = (uint32_t)(name[1] - '0'); /* "g3": node 1, group 1. */
    uint32_t place = number / SIM_GROUPS;
    if (place >= world->nodes_count || number % SIM_GROUPS >= world->nodes[place].led_count) {
        return NULL;
    }
    if (node != NULL) {
        *node = place;
    }
    return &world->nodes[place].groups[number % SIM_GROUPS];
}

/* --- the heap of what will happen --- */

/* A commit's answer comes before what waited for it: else what came last could overtake the rest of its stream. */
static bool is_before(const struct item *a, const struct item *b)
{
    bool a_answers = a->kind == ITEM_COMMIT_ENDS;
    bool b_answers = b->kind == ITEM_COMMIT_ENDS;
    if (a->due_ns != b->due_ns) {
        return a->due_ns < b->due_ns;
    }
    return a_answers != b_answers ? a_answers : a->order < b->order;
}

static uint32_t sift_up(struct world *world, uint32_t place)
{
    struct item *heap = world->heap;
    while (place > 0 && is_before(&heap[place], &heap[(place - 1) / 2])) {
        struct item swap = heap[place];
        heap[place] = heap[(place - 1) / 2];
        heap[(place - 1) / 2] = swap;
        place = (place - 1) / 2;
    }
    return place;
}

static void sift_down(struct world *world)
{
    struct item *heap = world->heap;
    uint32_t place = 0;
    for (;;) {
        uint32_t least = place;
        for (uint32_t child = 2 * place + 1; child <= 2 * place + 2; child++) {
            if (child < world->heap_count && is_before(&heap[child], &heap[least])) {
                least = child;
            }
        }
        if (least == place) {
            return;
        }
        struct item swap = heap[place];
        heap[place] = heap[least];
        heap[least] = swap;
        place = least;
    }
}

static struct item *push(struct world *world, const struct item *item)
{
    if (world->heap_count == world->heap_capacity) {
        world->heap_capacity = 2 * world->heap_capacity + 256;
        world->heap = realloc(world->heap, world->heap_capacity * sizeof(struct item));
        baton_assert(world->heap != NULL);
    }
    world->heap[world->heap_count] = *item;
    return &world->heap[sift_up(world, world->heap_count++)];
}

/* The caller fills in the rest at once: neither time nor order may change any more. */
struct item *world_post(struct world *world, uint64_t due_ns, enum item_kind kind, uint32_t who)
{
    struct item item = { .due_ns = due_ns > world->now_ns ? due_ns : world->now_ns,
                         .order = ++world->orders,
                         .kind = kind,
                         .who = who };
    return push(world, &item);
}

static struct item pop(struct world *world)
{
    struct item item = world->heap[0];
    world->heap_count--;
    world->heap[0] = world->heap[world->heap_count];
    sift_down(world);
    return item;
}

static void discard(struct item *item)
{
    if (item->kind == ITEM_PACKET_UP || item->kind == ITEM_PACKET_DOWN) {
        packet_free(item->payload);
    } else {
        free(item->payload);
    }
    item->payload = NULL;
}

/* --- one thing happens --- */

static bool is_for_node(const struct item *item)
{
    return item->kind == ITEM_PACKET_DOWN || item->kind == ITEM_NEWS_NODE ||
           item->kind == ITEM_OP_END || item->kind == ITEM_LANDING ||
           item->kind == ITEM_RECREATED || item->kind == ITEM_SYNCED ||
           item->kind == ITEM_NODE_SPACE || item->kind == ITEM_MESH_TRY ||
           item->kind == ITEM_MESH_NEWS || item->kind == ITEM_MESH_UP ||
           item->kind == ITEM_MESH_DOWN || item->kind == ITEM_ROUTER;
}

static bool is_for_head(const struct item *item)
{
    return item->kind == ITEM_PACKET_UP || item->kind == ITEM_NEWS_HEAD ||
           item->kind == ITEM_CALL_ARRIVES;
}

static const struct wire *wire_of(struct world *world, const struct item *item)
{
    return net_wire(world, item->a);
}

/* A stopped process finds it all when it goes on, in the order in which it came: also what waited already when
 * another stop began. */
static uint64_t stopped_until(struct world *world, const struct item *item)
{
    if (is_for_node(item)) {
        return world->nodes[item->who].stopped_until_ns;
    }
    if (is_for_head(item)) {
        uint32_t index = item->who;
        if (item->kind != ITEM_CALL_ARRIVES) {
            const struct wire *wire = wire_of(world, item);
            index = wire != NULL ? wire->head : 0;
        } else {
            index = item->a;
        }
        const struct head *head = &world->heads[index];
        uint64_t busy_ns = head->waits && head->busy_until_ns <= world->now_ns
                               ? world->now_ns + 1 /* The answer comes first. */
                               : head->busy_until_ns;
        return head->stopped_until_ns > busy_ns ? head->stopped_until_ns : busy_ns;
    }
    if (item->kind == ITEM_COMMIT_ENDS) {
        return world->heads[item->who].stopped_until_ns;
    }
    return 0;
}

static void start_head(struct world *world, const struct item *item)
{
    struct head *head = &world->heads[item->who];
    if (!head->up && !head->loading && head->life == item->life) {
        head_start(world, head);
    }
}

static void kill_head(struct world *world, const struct item *item)
{
    struct head *head = &world->heads[item->who];
    if (head->life == item->life) {
        head_crash(world, head, "killed while a commit is on its way",
                   world_below(&world->random, 3000) * MS);
    }
}

static void start_node(struct world *world, const struct item *item)
{
    struct node *node = &world->nodes[item->who];
    if (!node->up && node->life == item->life) {
        node_start(world, node);
    }
}

static void synced(struct world *world, const struct item *item)
{
    struct node *node = &world->nodes[item->who];
    if (node->up && node->life == item->life) {
        struct agent_event event = { .kind = AGENT_EVENT_JOURNAL_SYNCED };
        event.synced.kind = (enum journal_kind)item->a;
        event.synced.group = node->groups_config[item->b].name;
        event.synced.took_ns = MS;
        node_event(world, node, &event);
    }
}

static void cut(struct world *world, const struct item *item)
{
    struct wire *wire = net_wire(world, item->a);
    if (wire != NULL) {
        net_cut(world, wire, MS, MS);
    }
}

static void happen(struct world *world, struct item *item)
{
    switch (item->kind) {
    case ITEM_FATE: plan_strike(world, item->who); break;
    case ITEM_CALM: plan_calm(world); break;
    case ITEM_PACKET_UP: net_packet_up(world, item); break;
    case ITEM_PACKET_DOWN: net_packet_down(world, item); break;
    case ITEM_NEWS_NODE: net_news_node(world, item); break;
    case ITEM_NEWS_HEAD: net_news_head(world, item); break;
    case ITEM_CUT: cut(world, item); break;
    case ITEM_OP_WORK: engine_work(world, item); break;
    case ITEM_OP_END: engine_end(world, item); break;
    case ITEM_LANDING: node_landing(world, item); break;
    case ITEM_RECREATED: engine_recreated(world, item); break;
    case ITEM_NODE_START: start_node(world, item); break;
    case ITEM_NODE_SPACE:
        node_set_space(world, &world->nodes[item->who], (enum agent_journal_space)item->a);
        break;
    case ITEM_HEAD_START: start_head(world, item); break;
    case ITEM_HEAD_KILLED: kill_head(world, item); break;
    case ITEM_HEAD_LOAD: head_load(world, item); break;
    case ITEM_COMMIT_ARRIVES: delivery_arrives(world, item); break;
    case ITEM_COMMIT_ENDS: head_goes_on(world, item); break;
    case ITEM_CALL_TRY: people_try(world, item); break;
    case ITEM_CALL_ARRIVES: people_arrive(world, item); break;
    case ITEM_CALL_TIMEOUT: people_timeout(world, item); break;
    case ITEM_SYNCED: synced(world, item); break;
    case ITEM_MESH_TRY: mesh_try(world, item); break;
    case ITEM_MESH_NEWS: mesh_news(world, item); break;
    case ITEM_MESH_UP: mesh_up(world, item); break;
    case ITEM_MESH_DOWN: mesh_down(world, item); break;
    case ITEM_ROUTER: router_answers(world, item); break;
    case ITEM_KINDS: break;
    }
}

/* --- timers --- */

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t node_due(const struct node *node)
{
    uint64_t due = UINT64_MAX;
    if (node->up) {
        due = node->deadline_ns;
        if (node->session_wanted && node->wire == 0 && node->try_ns < due) {
            due = node->try_ns;
        }
        due = due == UINT64_MAX ? due : later(due, node->stopped_until_ns);
    }
    return due;
}

static uint64_t head_due(const struct head *head)
{
    if (!head->up || head->waits || head->deadline_ns == UINT64_MAX) {
        return UINT64_MAX;
    }
    return later(head->deadline_ns, later(head->stopped_until_ns, head->busy_until_ns));
}

static void ring_node(struct world *world, struct node *node)
{
    if (node->session_wanted && node->wire == 0 && node->try_ns <= world->now_ns) {
        net_connect(world, node);
        return;
    }
    struct agent_event event = { .kind = AGENT_EVENT_TIMER };
    node_event(world, node, &event);
}

/* The earliest timer; delivers it if 'at_ns' is its time. */
static uint64_t timers(struct world *world, uint64_t at_ns)
{
    uint64_t next = UINT64_MAX;
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        uint64_t due = node_due(&world->nodes[i]);
        if (due <= at_ns && at_ns != 0) {
            ring_node(world, &world->nodes[i]);
            return 0;
        }
        next = due < next ? due : next;
    }
    for (uint32_t i = 0; i < SIM_HEADS; i++) {
        uint64_t due = head_due(&world->heads[i]);
        if (due <= at_ns && at_ns != 0) {
            struct event event = { .kind = EVENT_TIMER };
            head_event(world, &world->heads[i], &event);
            return 0;
        }
        next = due < next ? due : next;
    }
    return next;
}

/* --- a life --- */

/* Lets one thing happen; false at the end of time. */
static bool advance(struct world *world)
{
    uint64_t timer_ns = timers(world, 0);
    uint64_t item_ns = world->heap_count > 0 ? world->heap[0].due_ns : UINT64_MAX;
    uint64_t next_ns = timer_ns < item_ns ? timer_ns : item_ns;
    if (next_ns > world->end_ns) {
        world->now_ns = world->end_ns;
        return false;
    }
    world->now_ns = later(world->now_ns, next_ns);
    world->steps++;
    if (timer_ns < item_ns) {
        (void)timers(world, world->now_ns);
        return true;
    }
    struct item item = pop(world);
    uint64_t until_ns = stopped_until(world, &item);
    if (until_ns > world->now_ns) {
        item.due_ns = until_ns;
        item.order = item.waited ? item.order : ++world->orders;
        item.waited = true;
        (void)push(world, &item);
        return true;
    }
    happen(world, &item);
    discard(&item);
    return true;
}

static void run_until(struct world *world, uint64_t end_ns)
{
    world->end_ns = end_ns;
    while (world->broken == NULL && world->steps <= STEPS_MAX + 1 && advance(world)) {
        check_world(world);
        if (world->steps > STEPS_MAX) {
            world_break(world, CHECK_TIME, "time does not pass: %llu steps",
                        (unsigned long long)world->steps);
        }
    }
}

/* In the calm nothing disturbs any more; it ends as soon as all have converged for a while. */
static void run_calm(struct world *world)
{
    char why[SIM_WHY] = "";
    uint64_t end_ns = world->now_ns + CALM_S * S;
    uint64_t since_ns = 0;
    while (world->broken == NULL && world->now_ns < end_ns && world->steps <= STEPS_MAX) {
        run_until(world, world->now_ns + 250 * MS);
        people_walk(world);
        if (world->broken != NULL) {
            return;
        }
        if (!check_converged(world, why, sizeof(why))) {
            since_ns = 0;
        } else if (since_ns == 0) {
            since_ns = world->now_ns;
        } else if (world->now_ns - since_ns >= QUIET_MS * MS) {
            return;
        }
    }
    world_break(world, CHECK_PROGRESS, "after %d s of calm: %s", CALM_S, why);
}

static void begin(struct world *world, uint64_t seed, FILE *story)
{
    const struct script *script = world->script;
    struct item *heap = world->heap;
    struct kept_record *kept[] = { world->disk.kept, world->backup.kept };
    size_t capacities[] = { world->disk.capacity, world->backup.capacity };
    uint32_t heap_capacity = world->heap_capacity;
    uint32_t checks_off = world->checks_off;
    memset(world, 0, sizeof(*world));
    world->heap = heap;
    world->heap_capacity = heap_capacity;
    world->disk.kept = kept[0];
    world->disk.capacity = capacities[0];
    world->backup.kept = kept[1];
    world->backup.capacity = capacities[1];
    world->checks_off = checks_off;
    world->script = script;
    world->seed = seed;
    world->story = story;
    world->now_ns = S;
    baton_random_seed(&world->random, seed);
}

static void shape(struct world *world, const bool *mask)
{
    models_draw(world, mask);
    world->nodes_count = world->script != NULL ? 1 : 1 + world_below(&world->random, SIM_AGENTS);
    world->use_codec = world_below(&world->random, 16) == 0;
    world->calm_verbs = world_below(&world->random, 4) != 0;
    world->together = world->script == NULL && world_below(&world->random, 2) == 0;
    world->disk.epoch.generation = 1000;
    world->disk.log_next = 1;
    for (uint32_t i = 0; i < SIM_HEADS; i++) {
        world->heads[i].index = i;
        world->heads[i].deadline_ns = UINT64_MAX;
    }
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        node_init(world, i);
    }
    node_span(world);
    people_init(world);
    if (world->script == NULL) {
        plan_draw(world);
    }
}

/* The first version is served after a while; then the second one and the verb come. */
static void shape_small(struct world *world)
{
    world->calm_verbs = true;
    world->nodes[0].crash_in = world->script->harm == HARM_NODE_DIES ? world->script->at : 0;
    world->heads[0].crash_in = world->script->harm == HARM_HEAD_DIES ? world->script->at : 0;
    world->fates_count = 2;
    world->fates[0] =
        (struct fate){ .at_ns = 3 * S, .kind = plan_find("a publish"), .b = 1, .c = 5 };
    world->fates[1] = (struct fate){ .at_ns = 3 * S + 200 * MS,
                                     .kind = plan_find("an operator's verb"),
                                     .a = world->script->verb };
    world->storm_end_ns = 5 * S;
}

static void live(struct world *world, const bool *mask)
{
    shape(world, mask);
    if (world->script != NULL) {
        shape_small(world);
    }
    for (uint32_t i = 0; i < world->fates_count; i++) {
        world->fates[i].masked = mask != NULL && mask[i];
        if (!world->fates[i].masked) {
            (void)world_post(world, world->fates[i].at_ns, ITEM_FATE, i);
        }
    }
    head_start(world, &world->heads[0]);
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        node_start(world, &world->nodes[i]);
    }
    run_until(world, world->storm_end_ns);
    if (world->broken == NULL) {
        plan_calm(world);
        /* Agents come back first: a group that is new to the store after its last roll keeps what it serves. */
        run_until(world, world->now_ns + (world->calm_verbs ? 10 : 60) * S);
        if (!world->calm_verbs) {
            check_quiet(world);
        }
        people_calm(world);
        run_calm(world);
    }
}

static void end(struct world *world)
{
    torn_forget(world);
    while (world->heap_count > 0) {
        world->heap_count--;
        discard(&world->heap[world->heap_count]);
    }
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        free(world->nodes[i].memory);
        free(world->nodes[i].journal);
    }
    for (uint32_t i = 0; i < SIM_HEADS; i++) {
        free(world->heads[i].memory);
    }
}

struct world *volatile world_running;

static const char *run(struct world *world, uint64_t seed, const bool *mask, FILE *story)
{
    begin(world, seed, story);
    world_running = world;
    if (setjmp(world->out) == 0) {
        live(world, mask);
    }
    world_running = NULL;
    end(world);
    return world->broken;
}

const char *world_run(struct world *world, uint64_t seed, const bool *mask, FILE *story)
{
    world->script = NULL;
    return run(world, seed, mask, story);
}

const char *world_run_script(struct world *world, const struct script *script, FILE *story)
{
    world->script = script;
    return run(world, 1, NULL, story);
}

void world_release(struct world *world)
{
    free(world->heap);
    disk_free(&world->disk);
    disk_free(&world->backup);
}
