/* head.c -- a controller's process: its shell around the core; see world.h. */
#include <stdlib.h>
#include <string.h>

#include "api/base/arena.h"
#include "tests/sim/check.h"
#include "tests/sim/cover.h"
#include "tests/sim/packet.h"

struct head *world_lead(struct world *world)
{
    struct head *head = &world->heads[world->lead];
    return head->up ? head : NULL;
}

static struct controller_limits limits(void)
{
    return (struct controller_limits){ .models = 2,
                                       .versions = SIM_CONTENTS + 8,
                                       .versions_kept = 6,
                                       .rolls = 24,
                                       .rolls_kept = 8,
                                       .groups = SIM_AGENTS * SIM_GROUPS,
                                       .agents = SIM_AGENTS,
                                       .landed = 64,
                                       .request_ids = SIM_CALLS,
                                       .waits = 8,
                                       .sessions = 16,
                                       .slot_leases = 16,
                                       .open_kept_ms = 24 * 3600 * 1000,
                                       .unknown_kept_ms = 5 * 1000 };
}

static bool build(struct world *world, struct head *head)
{
    uint8_t seed[CONTROLLER_SEED_BYTES];
    struct controller_limits max = limits();
    size_t bytes = controller_bytes(&max);
    if (head->memory == NULL) {
        head->memory = malloc(bytes);
        baton_assert(head->memory != NULL);
    }
    struct baton_arena arena = baton_arena_of(head->memory, bytes);
    for (size_t i = 0; i < sizeof(seed); i++) {
        seed[i] = (uint8_t)world_below(&world->random, 256);
    }
    head->core = controller_init(&arena, &max, seed);
    world->disk.epoch.n++;
    head->epoch = world->disk.epoch;
    return disk_load(world, head);
}

void head_start(struct world *world, struct head *head)
{
    head->up = true;
    head->deposed = false;
    head->failed = false;
    head->new_generation = 0;
    head->stopped_until_ns = 0;
    memset(head->known, 0, sizeof(head->known));
    if (!build(world, head)) {
        return;
    }
    tell(world, "controller %llu.%llu starts", (unsigned long long)head->epoch.generation,
         (unsigned long long)head->epoch.n);
    struct event event = { .kind = EVENT_STARTED };
    event.body.started =
        (struct started){ head->epoch, world->disk.revision, world->disk.log_next };
    head_event(world, head, &event);
}

void head_crash(struct world *world, struct head *head, const char *how, uint64_t down_ns)
{
    if (!head->up) {
        return;
    }
    tell(world, "controller %llu.%llu dies: %s", (unsigned long long)head->epoch.generation,
         (unsigned long long)head->epoch.n, how);
    net_head_gone(world, head);
    head->up = false;
    head->life++;
    head->crash_in = 0;
    head->stopped_until_ns = 0;
    head->deadline_ns = UINT64_MAX;
    if (head->index == world->lead) {
        struct item *item =
            world_post(world, world->now_ns + down_ns, ITEM_HEAD_START, head->index);
        item->life = head->life;
    }
}

/* An armed crash is due. */
static bool dies_at(struct world *world, struct head *head, const char *where)
{
    head->boundaries++;
    if (head->crash_in == 0 || --head->crash_in != 0) {
        return false;
    }
    head_crash(world, head, where, 100 * MS + world_below(&world->random, 3000) * MS);
    return true;
}

/* The core ran ahead of the store: the shell builds a new one from what is there.  A deposed one
 * finds that somebody else leads, and ends. */
static void rebuild(struct world *world, struct head *head, const char *why)
{
    tell(world, "controller %llu.%llu: %s", (unsigned long long)head->epoch.generation,
         (unsigned long long)head->epoch.n, why);
    head->failed = true;
    if (head->deposed) {
        head_crash(world, head, "somebody else leads", 0);
        return;
    }
    head_crash(world, head, "it reads the store again", 5 * MS);
}

static void persist(struct world *world, struct head *head, const struct transaction *transaction)
{
    if (dies_at(world, head, "before a write to the store")) {
        return;
    }
    enum store_fault fault = head->store_fault;
    head->store_fault = SF_NONE;
    world->writes++;
    if (world->script != NULL && world->script->at == world->writes) {
        fault = world->script->harm == HARM_STORE_FAILS  ? SF_REFUSED
                : world->script->harm == HARM_STORE_LOST ? SF_LOST
                                                         : fault;
    }
    if (fault == SF_REFUSED || fault == SF_FULL) {
        rebuild(world, head, "a write to the store failed");
        return;
    }
    bool leads = transaction->epoch.generation == world->disk.epoch.generation &&
                 transaction->epoch.n == world->disk.epoch.n;
    if (leads) { /* Else nothing of it comes to be. */
        check_transaction(world, head, transaction);
    }
    struct baton_status st = disk_commit(world, &world->disk, transaction);
    if (!baton_ok(&st)) {
        rebuild(world, head, "the store refuses its epoch");
        return;
    }
    check_committed(world, head, transaction);
    if (fault == SF_LOST) {
        rebuild(world, head, "a write was stored, and its answer lost");
        return;
    }
    if (fault == SF_SLOW) {
        head->busy_until_ns = world->now_ns + world_below(&world->random, 3000) * MS;
    }
    st = disk_commit(world, &world->disk, transaction);
    if (baton_ok(&st)) {
        world_break(world, CHECK_STORE, "the same transaction is taken twice");
    }
    (void)dies_at(world, head, "after a write to the store");
}

static void send(struct world *world, struct head *head, const struct action_send *send)
{
    if (dies_at(world, head, "before it sends")) {
        return;
    }
    check_send(world, head, send);
    net_send_down(world, head, send->session, packet_of_send(send));
}

static void perform(struct world *world, struct head *head, const struct action *action)
{
    switch (action->kind) {
    case ACTION_PERSIST: persist(world, head, &action->body.persist); break;
    case ACTION_REPLY:
        if (!dies_at(world, head, "before it answers")) {
            people_reply(world, head, action->body.reply);
        }
        break;
    case ACTION_SEND: send(world, head, &action->body.send); break;
    case ACTION_CLOSE_SESSION: net_close_down(world, head, action->body.close->session); break;
    case ACTION_CHANGED: break;
    case ACTION_LOG:
        tell(world, "controller: %s %s: %s", action->body.log->object, action->body.log->reason,
             action->body.log->message);
        break;
    case ACTION_WAIT_DONE: people_wait_done(world, head, action->body.wait_done); break;
    case ACTION_NEW_GENERATION:
        world->disk.epoch.generation = (action->body.generation_floor > world->disk.epoch.generation
                                            ? action->body.generation_floor
                                            : world->disk.epoch.generation) +
                                       1;
        world->disk.epoch.n = 0;
        rebuild(world, head, "the store went back: a new generation");
        break;
    }
}

void head_event(struct world *world, struct head *head, struct event *event)
{
    if (!head->up) {
        return;
    }
    uint32_t life = head->life;
    event->now_ns = world->now_ns;
    event->wall_ns = world_wall_ns(world, head->skew_ns);
    head->in_request = event->kind == EVENT_REQUEST;
    head->request = head->in_request ? event->body.request.kind : (enum request_kind)0;
    check_models_asked(world, head, event);
    struct actions actions = controller_step(head->core, event);
    for (size_t i = 0; i < actions.count && head->up && head->life == life; i++) {
        if (actions.items[i].kind == ACTION_PERSIST && i != 0) {
            world_break(world, CHECK_ORDER, "a transaction is not the first action of its step");
        }
        perform(world, head, &actions.items[i]);
    }
    if (event->more && head->up && head->life == life) {
        (void)dies_at(world, head, "with messages whose effects wait for the next");
    } else if (head->up && head->life == life) {
        head->deadline_ns = controller_deadline_ns(head->core);
        check_head(world, head);
    }
}
