/* head.c -- a controller's process: its shell around the core; see world.h. */
#include <stdlib.h>
#include <string.h>

#include "api/base/arena.h"
#include "api/base/mutant.h"
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

/* Its epoch is durable: whoever led before is deposed, and does not know. */
static void acquire(struct world *world, struct head *head)
{
    for (uint32_t i = 0; i < SIM_HEADS; i++) {
        world->heads[i].deposed =
            &world->heads[i] != head && (world->heads[i].up || world->heads[i].loading);
    }
    if (head->returns) {
        cover(COVER_DELIVERY, DELIVERY_TAKEN_BACK);
    }
    head->returns = false;
    world->lead = head->index;
    world->disk.epoch.n++;
    head->epoch = world->disk.epoch;
    torn_finish(world, true);
    if (world->parts_left) { /* Without a mark: they were not decided, and never will be. */
        cover(COVER_DELIVERY, DELIVERY_TORN_DROPPED);
        world->parts_left = false;
    }
}

static void make_core(struct world *world, struct head *head)
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
}

bool head_is_cut(const struct world *world, const struct head *head)
{
    return world->away_until_ns > world->now_ns || head->cut_until_ns > world->now_ns;
}

static void load(struct world *world, struct head *head)
{
    if (!disk_is_at(&world->disk, head->epoch)) {
        cover(COVER_DELIVERY, DELIVERY_LOAD_OVERTAKEN);
        head_crash(world, head, "somebody else leads since it began to read", 0);
        return;
    }
    head->up = true;
    head->loading = false;
    make_core(world, head);
    if (!disk_load(world, head)) {
        return;
    }
    tell(world, "controller %llu.%llu starts", (unsigned long long)head->epoch.generation,
         (unsigned long long)head->epoch.n);
    struct event event = { .kind = EVENT_STARTED };
    event.body.started =
        (struct started){ head->epoch, world->disk.revision, world->disk.log_next };
    head_event(world, head, &event);
}

void head_load(struct world *world, const struct item *item)
{
    struct head *head = &world->heads[item->who];
    if (head->loading && head->life == item->life) {
        load(world, head);
    }
}

void head_start(struct world *world, struct head *head)
{
    if (head_is_cut(world, head)) {
        cover(COVER_DELIVERY, DELIVERY_START_AWAY);
        world_post(world, world->now_ns + S, ITEM_HEAD_START, head->index)->life = head->life;
        return;
    }
    head->stopped_until_ns = 0;
    head->busy_until_ns = 0;
    head->waits = false;
    memset(head->known, 0, sizeof(head->known));
    acquire(world, head);
    if (head->load_ns == 0) {
        load(world, head);
        return;
    }
    cover(COVER_DELIVERY, DELIVERY_SLOW_LOAD);
    head->loading = true;
    world_post(world, world->now_ns + head->load_ns, ITEM_HEAD_LOAD, head->index)->life =
        head->life;
    head->load_ns = 0;
}

void head_crash(struct world *world, struct head *head, const char *how, uint64_t down_ns)
{
    if (!head->up && !head->loading) {
        return;
    }
    if (head->waits) {
        cover(COVER_DELIVERY, DELIVERY_DIED);
    }
    tell(world, "controller %llu.%llu dies: %s", (unsigned long long)head->epoch.generation,
         (unsigned long long)head->epoch.n, how);
    net_head_gone(world, head);
    torn_stop(world, head);
    head->up = false;
    head->loading = false;
    head->waits = false;
    head->life++;
    head->crash_in = 0;
    head->stopped_until_ns = 0;
    head->deadline_ns = UINT64_MAX;
    if (head->index == world->lead || head->returns) {
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
    world->struck = true;
    head_crash(world, head, where, 100 * MS + world_below(&world->random, 3000) * MS);
    return true;
}

/* The core ran ahead of the store: the shell builds a new one from what is there. */
static void rebuild(struct world *world, struct head *head, const char *why)
{
    tell(world, "controller %llu.%llu: %s", (unsigned long long)head->epoch.generation,
         (unsigned long long)head->epoch.n, why);
    people_failed(world, head);
    if (head->outcome == COMMIT_STALE) {
        head_crash(world, head, "somebody else leads", 0);
        return;
    }
    /* One that was deposed, and does not know: it ends, or takes the lead back (controller/shell). */
    head->returns = head->deposed && !world->calm && world_below(&world->random, 2) == 0;
    head_crash(world, head, "it reads the store again", 5 * MS);
}

/* It has the store's answer, or gave up waiting for it. */
static void answered(struct world *world, struct head *head)
{
    head->waits = false;
    if (head->outcome == COMMIT_STALE && !MUTANT(DEPOSED_GOES_ON)) {
        if (!head->deposed) {
            world_break(world, CHECK_FENCING, "the store refuses the epoch that it gave last");
        }
        cover(COVER_DELIVERY, DELIVERY_DEPOSED_LEARNS);
        rebuild(world, head, "the store refuses its epoch");
    } else if (head->outcome == COMMIT_UNANSWERED && !MUTANT(DOUBT_BELIEVED)) {
        rebuild(world, head, "it does not know whether a write was done");
    } else {
        (void)dies_at(world, head, "after a write to the store");
    }
}

static void persist(struct world *world, struct head *head, const struct transaction *transaction)
{
    if (dies_at(world, head, "before a write to the store")) {
        return;
    }
    struct way way = delivery_way(world, head);
    head->outcome = COMMIT_UNANSWERED;
    if (way.fault == SF_REFUSED || way.fault == SF_FULL) {
        rebuild(world, head, "a write to the store failed");
    } else if (delivery_send(world, head, transaction, &way)) {
        answered(world, head);
    }
}

static void send(struct world *world, struct head *head, const struct action_send *send)
{
    if (dies_at(world, head, "before it sends")) {
        return;
    }
    if (head->deposed) {
        cover(COVER_DELIVERY, DELIVERY_DEPOSED_SENDS);
    }
    check_send(world, head, send);
    net_send_down(world, head, send->session, packet_of_send(send));
}

/* Agents have seen more than the store: it went back, or somebody else leads and only they know. */
static void raise_generation(struct world *world, struct head *head, uint64_t floor)
{
    struct epoch *epoch = &world->disk.epoch;
    bool leads = disk_is_at(&world->disk, head->epoch);
    bool cut = head_is_cut(world, head);
    head->outcome = leads || cut ? COMMIT_UNANSWERED : COMMIT_STALE;
    if (leads && !cut) {
        epoch->generation = (floor > epoch->generation ? floor : epoch->generation) + 1;
        epoch->n = 0;
    }
    rebuild(world, head, "an agent has seen more than the store");
}

/* Of "number 5 to version 1: OUT: its process has ended" the outcome. */
static void note_outcome(struct world *world, const char *message)
{
    const char *at = strstr(message, ": ");
    char word[RECORD_WORD_BYTES] = "";
    uint32_t outcome;
    size_t length = at == NULL ? 0 : strcspn(at + 2, ":");
    if (length > 0 && length < sizeof(word)) {
        memcpy(word, at + 2, length);
    }
    if (words_find(&words_swap_outcome, word, &outcome)) {
        world->outcomes |= UINT32_C(1) << outcome;
    }
}

/* Of "SERVING -> STAGING: why" both states. */
static void note_transition(const char *message)
{
    static const char arrow[] = " -> ";
    char words[2][RECORD_WORD_BYTES] = { "", "" };
    uint32_t states[2] = { 0, 0 };
    const char *at = strstr(message, arrow);
    baton_assert(at != NULL);
    const char *begins[2] = { message, at + sizeof(arrow) - 1 };
    for (int i = 0; i < 2; i++) {
        size_t length = strcspn(begins[i], " :");
        baton_assert(length < sizeof(words[i]));
        memcpy(words[i], begins[i], length);
        baton_assert(words_find(&words_group_state, words[i], &states[i]));
    }
    cover(COVER_TRANSITION, states[0] * COVER_STATES + states[1]);
}

/* What a controller logs of its groups is what real fleets show, too. */
static void note_log(struct world *world, const struct log_entry *entry)
{
    if (strncmp(entry->object, "group/", 6) != 0 || entry->by[0] != '\0') {
        return; /* An agent's own words are others. */
    }
    if (strcmp(entry->reason, "GroupState") == 0) {
        note_transition(entry->message);
    } else if (strcmp(entry->reason, "SwapEnded") == 0 ||
               strcmp(entry->reason, "SwapFailed") == 0) {
        note_outcome(world, entry->message);
    }
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
        note_log(world, action->body.log);
        break;
    case ACTION_WAIT_DONE: people_wait_done(world, head, action->body.wait_done); break;
    case ACTION_NEW_GENERATION: raise_generation(world, head, action->body.generation_floor); break;
    }
}

/* What is left of the step; again later if it has to wait for the store. */
static void go_on(struct world *world, struct head *head)
{
    uint32_t life = head->life;
    while (head->up && head->life == life && head->next_action < head->actions.count &&
           (!head->waits || MUTANT(UNANSWERED_SENT))) {
        const struct action *action = &head->actions.items[head->next_action++];
        if (action->kind == ACTION_PERSIST && head->next_action != 1) {
            world_break(world, CHECK_ORDER, "a transaction is not the first action of its step");
        }
        perform(world, head, action);
    }
    if (!head->up || head->life != life || head->waits) {
        return;
    }
    if (head->more) {
        (void)dies_at(world, head, "with messages whose effects wait for the next");
    } else {
        head->deadline_ns = controller_deadline_ns(head->core);
        check_head(world, head);
    }
}

void head_goes_on(struct world *world, const struct item *item)
{
    struct head *head = &world->heads[item->who];
    if (!head->up || head->life != item->life || !head->waits) {
        return;
    }
    answered(world, head);
    if (head->up && head->life == item->life) {
        go_on(world, head);
    }
}

void head_event(struct world *world, struct head *head, struct event *event)
{
    if (!head->up) {
        return;
    }
    baton_assert(!head->waits); /* Its loop is blocked. */
    event->now_ns = world->now_ns;
    event->wall_ns = world_wall_ns(world, head->skew_ns);
    head->in_request = event->kind == EVENT_REQUEST;
    head->request = head->in_request ? event->body.request.kind : (enum request_kind)0;
    check_models_asked(world, head, event);
    head->actions = controller_step(head->core, event);
    head->next_action = 0;
    head->more = event->more;
    go_on(world, head);
}
