/* people.c -- trainers and operators: calls that are repeated under one request id until answered. */
#include <stdio.h>
#include <string.h>

#include "tests/sim/check.h"
#include "tests/sim/cover.h"
#include "tests/sim/verbs.h"

enum { TIMEOUT_MS = 3000, CALM_TRIES = 400, CONTENTS_SPARE = 4 };

static struct call *add_call(struct world *world, uint32_t tries)
{
    if (world->calls_count == SIM_CALLS) {
        return NULL;
    }
    struct call *call = &world->calls[world->calls_count++];
    call->tries_max = tries;
    (void)snprintf(call->request_id, sizeof(call->request_id), "call-%u", world->calls_count);
    return call;
}

static void try_at(struct world *world, const struct call *call, uint64_t delay_ns)
{
    (void)world_post(world, world->now_ns + delay_ns, ITEM_CALL_TRY,
                     (uint32_t)(call - world->calls));
}

/* What to ask for, of which model. */
struct wish {
    uint32_t model;
    uint32_t verb;
};

static struct call *begin_verb(struct world *world, struct wish wish, uint32_t random,
                               uint32_t tries)
{
    struct call *call = add_call(world, tries);
    if (call != NULL) {
        call->kind = verbs_at(wish.verb)->kind;
        call->model = wish.model;
        call->verb = wish.verb;
        uint64_t delay_ns = verbs_at(wish.verb)->fill(world, call, random);
        try_at(world, call, delay_ns);
    }
    return call;
}

void people_verb(struct world *world, uint32_t verb, uint32_t random)
{
    struct wish wish = { models_of_dice(world, random), verb };
    struct call *call = begin_verb(world, wish, random, 4);
    if (call != NULL) {
        call->lose_answer = random % 16 == 3;
    }
}

uint32_t people_publish(struct world *world, uint32_t model, bool unfit, uint32_t tries)
{
    bool room = world->contents + (tries == CALM_TRIES ? 1 : CONTENTS_SPARE) < SIM_CONTENTS;
    struct call *call = room ? add_call(world, tries) : NULL;
    if (call == NULL) {
        return 0;
    }
    struct version_model *version = &world->versions[++world->contents];
    uint64_t *step = &world->models[model].optimizer_step;
    *step += 1 + world_below(&world->random, 5);
    *version =
        (struct version_model){ .used = true, .model = model, .unfit = unfit, .step = *step };
    call->model = model;
    call->kind = REQUEST_VERSION_OPEN;
    call->verb = SIM_NOBODY;
    call->publish = world->contents;
    if (tries != CALM_TRIES && world_below(&world->random, 8) == 0) { /* A branch. */
        (void)verbs_to_any(world, call, 2 * world_below(&world->random, world->contents) + 1);
    }
    try_at(world, call, world_below(&world->random, 50) * MS);
    return world->contents;
}

void people_init(struct world *world)
{
    for (uint32_t model = 0; model < world->models_count; model++) {
        struct call *call = begin_verb(world, (struct wish){ model, VERB_APPLY }, 0, 8);
        bool plain = world_below(&world->random, 2) != 0;
        uint32_t any = plain ? 0 : world_below(&world->random, 1U << 20);
        call->word = world->script != NULL ? world->script->policy : any;
        (void)people_publish(world, model, false, 8);
    }
    world->storm_end_ns = world->now_ns + (20 + world_below(&world->random, 60)) * S;
}

/* --- a call --- */

static void fill_request(struct world *world, const struct call *call, struct request *request)
{
    static struct version_source source = { "file", "/shared/versions", "" };
    static char digest[BATON_DIGEST_TEXT_BYTES];
    *request =
        (struct request){ .kind = (enum request_kind)call->kind, .model = verbs_model(call) };
    request->handle = (uint64_t)(call - world->calls) + 1;
    request->options.request_id = call->request_id;
    request->options.requested_by = "sim";
    request->options.reason = "as the plan says";
    request->to_seq = call->to_seq;
    request->version_uid = call->uid;
    content_digest(call->publish, digest);
    if (call->verb != SIM_NOBODY) {
        verbs_ask(world, call, request);
    } else if (call->kind == REQUEST_VERSION_OPEN) {
        request->body.open.optimizer_step = world->versions[call->publish].step;
        request->body.open.samples_trained = world->versions[call->publish].samples;
        request->body.open.parent_seq = call->to_seq;
    } else if (call->kind == REQUEST_VERSION_MANIFEST) {
        request->body.manifest = (struct request_version_manifest){ digest, 10, 2, 1000 };
    } else if (call->kind == REQUEST_VERSION_SEAL) {
        request->body.seal = (struct request_version_seal){ .digest = digest, .bytes = 1000 };
    } else if (call->kind == REQUEST_VERSION_PUBLISH) {
        request->body.publish = (struct request_version_publish){ &source, 1 };
    }
}

static const char *name_of(const struct call *call)
{
    return call->verb != SIM_NOBODY                ? verbs_at(call->verb)->name
           : call->kind == REQUEST_VERSION_PUBLISH ? "publish"
           : call->kind == REQUEST_VERSION_OPEN    ? "open"
           : call->kind == REQUEST_VERSION_SEAL    ? "seal"
                                                   : "manifest";
}

void people_try(struct world *world, struct item *item)
{
    struct call *call = &world->calls[item->who];
    if (call->ended) {
        return;
    }
    call->tries++;
    struct item *arrival =
        world_post(world, world->now_ns + MS + world_below(&world->random, 20) * MS,
                   ITEM_CALL_ARRIVES, item->who);
    arrival->life = call->tries;
    arrival->a = world->lead;
    struct item *timeout =
        world_post(world, world->now_ns + TIMEOUT_MS * MS, ITEM_CALL_TIMEOUT, item->who);
    timeout->life = call->tries;
}

void people_arrive(struct world *world, struct item *item)
{
    struct call *call = &world->calls[item->who];
    struct head *head = &world->heads[item->a];
    struct event event = { .kind = EVENT_REQUEST };
    if (call->ended || !head->up || call->tries != item->life) {
        return;
    }
    tell(world, "a client asks for %s%s", name_of(call), call->tries > 1 ? ", again" : "");
    fill_request(world, call, &event.body.request);
    if (call->kind == REQUEST_SAMPLES_REPORT) {
        check_judged(world, head, call);
    }
    call->asked = head->index + 1;
    call->asked_life = head->life;
    call->asked_try = call->tries;
    head_event(world, head, &event);
}

static void end_call(struct world *world, struct call *call);

static void again(struct world *world, struct call *call, uint64_t delay_ns)
{
    if (call->tries >= call->tries_max) {
        end_call(world, call);
    } else {
        try_at(world, call, delay_ns);
    }
}

void people_timeout(struct world *world, struct item *item)
{
    struct call *call = &world->calls[item->who];
    if (call->ended || call->tries != item->life) {
        return;
    }
    if (call->kind == REQUEST_WAIT && world_lead(world) != NULL && world_lead(world)->waits) {
        world_post(world, world->now_ns + 100 * MS, ITEM_CALL_TIMEOUT, item->who)->life =
            item->life;
        return;
    }
    if (call->kind == REQUEST_WAIT && world_lead(world) != NULL) {
        struct event event = { .kind = EVENT_WAIT_CANCEL, .body.wait_handle = item->who + 1U };
        call->ended = true;
        head_event(world, world_lead(world), &event);
        return;
    }
    again(world, call, 100 * MS);
}

/* The calm's script of one model, one call after the other.  The last policy may pause a late roll until
 * another one is applied. */
static void follow(struct world *world, uint32_t model, uint32_t chain)
{
    static const uint32_t script[] = { VERB_WAKE, VERB_ROLL_RESUME, VERB_APPLY, VERB_RESUME,
                                       VERB_ROLL_RESUME };
    enum { STEPS = sizeof(script) / sizeof(script[0]) };
    uint32_t agents = 2 * world->nodes_count; /* Each is uncordoned, and unpinned. */
    struct call *call = NULL;
    if (chain < STEPS) {
        call = begin_verb(world, (struct wish){ model, script[chain] }, 0, CALM_TRIES);
    } else if (chain < STEPS + agents) {
        struct wish wish = { model, (chain - STEPS) % 2 == 0 ? VERB_UNCORDON : VERB_UNPIN };
        call = begin_verb(world, wish, 0, CALM_TRIES);
        if (call != NULL) {
            (void)snprintf(call->agent, sizeof(call->agent), "a%u", (chain - STEPS) / 2);
        }
    } else if (chain == STEPS + agents) {
        uint32_t final = people_publish(world, model, false, CALM_TRIES);
        world->models[model].final = final;
        call = final != 0 ? &world->calls[world->calls_count - 1] : NULL;
    }
    if (call != NULL) {
        call->chain = chain + 1;
        call->chain_model = model;
    }
}

/* Whoever still waits for an answer gives up. */
void people_calm(struct world *world)
{
    for (uint32_t i = 0; i < world->calls_count; i++) {
        world->calls[i].ended = true;
    }
    for (uint32_t model = 0; model < world->models_count; model++) {
        follow(world, model, 0);
    }
}

static void end_call(struct world *world, struct call *call)
{
    call->ended = true;
    if (call->chain != 0) {
        follow(world, call->chain_model, call->chain);
    }
}

/* A trainer that shares the device: it waits for the memory, works, and gives it back; some want it again
 * at once. */
static void train(struct world *world, const struct call *call)
{
    bool sleep = call->kind == REQUEST_GROUP_SLEEP;
    if (sleep) {
        (void)begin_verb(world, (struct wish){ call->model, VERB_WAIT_ASLEEP }, 0, 2);
    }
    struct wish wake = { call->model, VERB_WAKE };
    struct wish again = { call->model, VERB_SLEEP };
    struct call *next = sleep                      ? begin_verb(world, wake, call->word / 2, 6)
                        : call->word / 64 % 3 == 0 ? begin_verb(world, again, 0, 2)
                                                   : NULL;
    if (next != NULL) {
        next->model = call->model;
        memcpy(next->group, call->group, sizeof(next->group));
        memcpy(next->agent, call->agent, sizeof(next->agent));
        next->word = call->word / 2;
    }
}

/* Some clients die; some have the wrong model. */
static void give_back(struct world *world, const struct call *call, const char *lease)
{
    memcpy(world->models[call->model].lease, lease, sizeof(call->uid));
    if (call->word / 32 % 2 != 0 || world->calm) {
        return;
    }
    uint32_t model = (call->model + (call->word / 4096 % 4 == 0)) % world->models_count;
    struct call *next = begin_verb(world, (struct wish){ model, VERB_RELEASE }, call->word / 64, 4);
    if (next != NULL) {
        memcpy(next->uid, lease, sizeof(next->uid));
    }
}

static void go_on(struct world *world, struct call *call, const struct action_reply *reply)
{
    if (call->verb == SIM_NOBODY && call->kind != REQUEST_VERSION_PUBLISH) {
        memcpy(call->uid, call->kind == REQUEST_VERSION_OPEN ? reply->object.uid : call->uid,
               sizeof(call->uid));
        call->kind++; /* OPEN, MANIFEST, SEAL, PUBLISH. */
        call->tries = 0;
        (void)snprintf(call->request_id, sizeof(call->request_id), "call-%u-%u",
                       (uint32_t)(call - world->calls) + 1, call->kind);
        try_at(world, call, MS);
        return;
    }
    call->answered_ok = true;
    if (call->kind == REQUEST_SLOTS_ACQUIRE) {
        give_back(world, call, reply->object.uid);
    }
    bool sleeps = call->kind == REQUEST_GROUP_SLEEP || call->kind == REQUEST_GROUP_WAKE;
    if (sleeps && call->word / 8192 % 4 != 0 && !world->calm) {
        train(world, call);
    }
    cover(COVER_VERB, call->verb == SIM_NOBODY ? verbs_count() : call->verb);
    end_call(world, call);
}

/* It still waits for this controller's answer. */
static bool is_asked(const struct call *call, const struct head *head)
{
    return !call->ended && call->asked == head->index + 1 && call->asked_life == head->life &&
           call->asked_try == call->tries;
}

void people_reply(struct world *world, struct head *head, const struct action_reply *reply)
{
    struct call *call = &world->calls[reply->handle - 1];
    bool ok = baton_ok(&reply->status);
    bool listens = is_asked(call, head);
    call->asked = 0;
    if (!listens) {
        tell(world, "an answer comes after its client gave up");
        return;
    }
    tell(world, "the controller answers %s: %s", name_of(call),
         ok ? "done" : reply->status.message);
    if (ok) {
        check_answer(world, call, reply);
    }
    if (call->lose_answer) {
        call->lose_answer = false;
        tell(world, "the answer is lost");
    } else if (ok) {
        go_on(world, call, reply);
    } else if (reply->status.code == BATON_UNAVAILABLE) {
        again(world, call, (200 + world_below(&world->random, 1500)) * MS);
    } else {
        check_models_refused(world, call);
        end_call(world, call);
    }
}

void people_failed(struct world *world, const struct head *head)
{
    for (uint32_t i = 0; i < world->calls_count; i++) {
        struct call *call = &world->calls[i];
        if (is_asked(call, head)) {
            call->asked = 0;
            cover(COVER_DELIVERY, DELIVERY_TOLD);
            tell(world, "the controller does not know what became of %s", name_of(call));
            again(world, call, (200 + world_below(&world->random, 1500)) * MS);
        }
    }
}

void people_wait_done(struct world *world, struct head *head, const struct action_wait_done *done)
{
    struct call *call = &world->calls[done->handle - 1];
    call->ended = true;
    call->asked = 0;
    cover(COVER_VERB, call->verb);
    tell(world, "a wait ends: %s", done->message);
    if (call->verb == VERB_WAIT_ASLEEP && done->outcome == WAIT_OUTCOME_MET && !head->deposed) {
        check_asleep(world, call->model);
    }
}

static bool wants_recreation(const struct group_model *leader, const struct engine_model *engine)
{
    return !engine->up || strcmp(leader->told_blocked, "ENGINE_NEEDS_RECREATE") == 0;
}

/* A version that does not fit was promoted, and a group was to join at it: an operator promotes the
 * one that the roll goes to. */
static void promote_late(struct world *world, uint32_t model)
{
    struct model_book *book = &world->models[model];
    if (book->final != 0 && !book->promoted_late && world->now_ns > world->calm_ns + 300 * S) {
        book->promoted_late = true;
        (void)begin_verb(world, (struct wish){ model, VERB_ROLL_PROMOTE }, 0, CALM_TRIES);
    }
}

/* Whoever detached a group drives it no longer; its agent shall again. */
static void resume_detached(struct world *world)
{
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        struct node *node = &world->nodes[i];
        for (uint32_t g = 0; node->up && g < node->led_count; g++) {
            if (node->groups[g].detached && world->now_ns >= node->groups[g].resumed_ns + 5 * S) {
                node->groups[g].resumed_ns = world->now_ns;
                node_operate(world, node, g, AGENT_VERB_RESUME);
            }
        }
    }
}

/* Groups that came back asleep, to a store that did not know them. */
static void wake_late(struct world *world, uint32_t model)
{
    struct model_book *book = &world->models[model];
    bool asleep = false;
    for (size_t i = 0; i < world->disk.count; i++) {
        const struct kept_record *kept = &world->disk.kept[i];
        asleep |= kept->kind == RECORD_GROUP && kept->body.group.asleep &&
                  model_of_name(kept->body.group.model) == model;
    }
    if (asleep && book->final != 0 && world->now_ns > book->woken_ns + 30 * S) {
        book->woken_ns = world->now_ns;
        (void)begin_verb(world, (struct wish){ model, VERB_WAKE }, 0, CALM_TRIES);
    }
}

void people_walk(struct world *world)
{
    for (uint32_t model = 0; model < world->models_count; model++) {
        promote_late(world, model);
        wake_late(world, model);
    }
    resume_detached(world);
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        struct node *node = &world->nodes[i];
        for (uint32_t g = 0; g < node->groups_count; g++) {
            for (uint32_t e = 0; e < node->groups[g].engines_count; e++) {
                struct engine_model *engine = &node->groups[g].engines[e];
                bool none = node->engines_config[g][e].recreate == AGENT_RECREATE_NONE;
                bool young = world->now_ns < engine->ready_ns + 10 * S;
                const struct group_model *leader =
                    world_group(world, node->groups_config[g].name, NULL);
                if (none && wants_recreation(leader, engine) && !young) {
                    tell(world, "an operator restarts engine %s of %s",
                         node->engines_config[g][e].name, node->groups_config[g].name);
                    engine_boot(world, engine, engine->boot_content);
                    engine->foreign_life = engine->life;
                }
            }
        }
    }
}
