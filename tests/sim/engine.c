/* engine.c -- models of engines with their plug-in and guard, and of the workers that call them.
 *
 * A call is sent to the engine, works there after a while, and is answered: two items of the heap,
 * so that the agent, the engine or both may be gone in between.  The plug-in checks fences as the
 * real one does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/check.h"
#include "tests/sim/cover.h"

static struct engine_model *engine_of(struct node *node, struct agent_engine_id id)
{
    return &node->groups[id.group].engines[id.engine];
}

bool engine_answers(const struct world *world, const struct engine_model *engine)
{
    return engine->up && world->now_ns >= engine->ready_ns;
}

bool engine_is_open(const struct world *world, const struct engine_model *engine)
{
    return engine_answers(world, engine) &&
           (!engine->guarded ||
            (engine->gate == AGENT_GATE_OPEN && engine->opened_for == engine->life));
}

void engine_boot(struct world *world, struct engine_model *engine, uint32_t content)
{
    engine->up = true;
    engine->life++;
    engine->paused = false;
    engine->asleep = false;
    engine->kv = 0;
    engine->kv_kept = false;
    engine->prepared = 0;
    engine->ready_ns = world->now_ns + (1 + world_below(&engine->random, 30)) * 100 * MS;
    memset(&engine->fence, 0, sizeof(engine->fence));
    for (uint32_t r = 0; r < SIM_RANKS; r++) {
        engine->rank[r] = content;
    }
    (void)snprintf(engine->label, sizeof(engine->label), "default");
}

static bool holds(const struct engine_model *engine, uint32_t content)
{
    for (uint32_t r = 0; r < SIM_RANKS; r++) {
        if (engine->rank[r] != content) {
            return false;
        }
    }
    return content != 0;
}

static int compare_fences(const struct agent_fence *a, const struct agent_fence *b)
{
    const uint64_t left[] = { a->epoch.generation, a->epoch.n, a->owner_term, a->ticket, a->step };
    const uint64_t right[] = { b->epoch.generation, b->epoch.n, b->owner_term, b->ticket, b->step };
    for (int i = 0; i < 5; i++) {
        if (left[i] != right[i]) {
            return left[i] < right[i] ? -1 : 1;
        }
    }
    return 0;
}

static struct baton_status refused(const char *why)
{
    return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_ENGINE_REFUSED, "%s", why);
}

/* --- what a call does in the engine --- */

static void update(struct engine_model *engine, const struct agent_op *op, enum engine_fault fault,
                   struct agent_op_result *result)
{
    uint32_t content = content_of(op->digest);
    result->update.in_step = fault != EF_STRAY;
    if (engine->plugin && compare_fences(&op->fence, &engine->fence) < 0) {
        result->status = refused("FENCED");
        return;
    }
    if (engine->asleep || (engine->plugin && !engine->paused)) {
        result->status = refused(engine->asleep ? "it sleeps" : "not paused");
        return;
    }
    if (engine->plugin) {
        engine->fence = op->fence;
    }
    if (fault == EF_FAIL_BACK) {
        result->update.restored = true;
        result->status = refused("rank 1: MISSING_TENSOR");
        return;
    }
    bool torn = fault == EF_FAIL || fault == EF_LIE;
    engine->rank[0] = content;
    for (uint32_t r = 1; r < SIM_RANKS; r++) {
        engine->rank[r] = torn ? engine->rank[r] : content;
    }
    engine->rank[SIM_RANKS - 1] = fault == EF_FAIL ? 0 : engine->rank[SIM_RANKS - 1];
    result->update.ok = fault != EF_FAIL;
    result->update.level = fault == EF_LIE  ? AGENT_LEVEL_COPIED
                           : engine->plugin ? AGENT_LEVEL_RESIDENT
                                            : AGENT_LEVEL_LANDED;
    if (fault == EF_FAIL) {
        result->status = refused("rank 1: LOAD_FAILED");
    }
}

static void readback(struct engine_model *engine, const struct agent_op *op,
                     enum engine_fault fault, struct agent_op_result *result)
{
    uint32_t content = content_of(op->digest);
    result->update.in_step = fault != EF_STRAY;
    if (!engine->plugin) {
        result->status = baton_status_make(BATON_UNIMPLEMENTED, BATON_REASON_ENGINE_REFUSED,
                                           "no read-back without the plug-in");
        return;
    }
    result->update.ok = fault != EF_FAIL && fault != EF_LIE && holds(engine, content);
    result->update.level = result->update.ok ? AGENT_LEVEL_RESIDENT : AGENT_LEVEL_NONE;
    if (result->update.ok && fault != EF_STRAY) {
        engine->proved_life = engine->life;
        engine->proved_content = content;
    }
}

static bool same_ticket(const struct agent_fence *a, const struct agent_fence *b)
{
    struct agent_fence other = *b;
    other.step = a->step;
    return compare_fences(a, &other) == 0;
}

static void prepare(struct engine_model *engine, const struct agent_op *op, enum engine_fault fault,
                    struct agent_op_result *result)
{
    result->update.in_step = true;
    if (!engine->plugin || compare_fences(&op->fence, &engine->fence) < 0 || fault == EF_FAIL) {
        result->status = refused("FENCED, or it cannot");
        return;
    }
    engine->fence = op->fence;
    engine->prepared = fault == EF_LIE ? 0 : content_of(op->digest);
    engine->prepared_fence = op->fence;
    result->update.ok = true;
}

/* Between two steps: all ranks, or none; an engine that fails between the two ends its process, which
 * the caller sees to.  A lie is one that did nothing. */
static void swap_live(struct engine_model *engine, const struct agent_op *op,
                      enum engine_fault fault, struct agent_op_result *result)
{
    uint32_t content = content_of(op->digest);
    result->update.in_step = fault != EF_STRAY;
    bool passed = compare_fences(&op->fence, &engine->fence) < 0;
    engine->fence = passed ? engine->fence : op->fence;
    if (fault == EF_LIE) {
        result->update.ok = true;
        result->update.level = AGENT_LEVEL_COPIED;
        return;
    }
    if (passed || engine->prepared != content ||
        !same_ticket(&engine->prepared_fence, &op->fence) || fault == EF_FAIL_BACK ||
        engine->asleep) {
        engine->prepared = passed ? engine->prepared : 0;
        result->update.restored = true;
        result->status = refused("rank 1: PEER_FAILED");
        return;
    }
    for (uint32_t r = 0; r < SIM_RANKS; r++) {
        engine->rank[r] = content;
    }
    engine->prepared = 0;
    engine->kv_kept = true;
    result->update.ok = true;
    result->update.level = AGENT_LEVEL_RESIDENT;
}

static void set_gate(struct engine_model *engine, const struct agent_op *op)
{
    engine->gate = op->gate;
    engine->gate_version = op->gate_version;
    engine->opened_for = op->gate_boots;
}

/* What it held is gone, and does not come back with its memory. */
static void fall_asleep(struct engine_model *engine)
{
    engine->asleep = true;
    engine->paused = true;
    engine->kv = 0;
    engine->kv_kept = false;
    engine->prepared = 0;
    engine->proved_life = 0;
    memset(engine->rank, 0, sizeof(engine->rank));
}

static void change(struct engine_model *engine, const struct agent_op *op)
{
    switch (op->kind) {
    case AGENT_OP_SET_GATE: set_gate(engine, op); break;
    case AGENT_OP_RAISE_FENCE:
        if (compare_fences(&op->fence, &engine->fence) > 0) {
            engine->fence = op->fence;
            engine->prepared = 0;
        }
        break;
    case AGENT_OP_PAUSE: engine->paused = true; break;
    case AGENT_OP_INVALIDATE:
        engine->kv = 0;
        engine->kv_kept = false;
        break;
    case AGENT_OP_LABEL: memcpy(engine->label, op->label, sizeof(engine->label)); break;
    case AGENT_OP_RESUME: engine->paused = false; break;
    case AGENT_OP_SLEEP: fall_asleep(engine); break;
    case AGENT_OP_WAKE:
        engine->asleep = false;
        engine->paused = false;
        break;
    case AGENT_OP_NONE:
    case AGENT_OP_ATTACH:
    case AGENT_OP_HEALTH:
    case AGENT_OP_UPDATE:
    case AGENT_OP_READBACK:
    case AGENT_OP_WARM:
    case AGENT_OP_PREPARE:
    case AGENT_OP_LIVE:
    case AGENT_OP_PROBE: break;
    }
}

static void read_facts(const struct world *world, const struct engine_model *engine,
                       struct agent_engine_facts *facts)
{
    (void)snprintf(facts->incarnation, sizeof(facts->incarnation), "life-%u", engine->life);
    facts->boots = engine->life;
    memcpy(facts->label, engine->label, sizeof(engine->label));
    facts->gate = engine_is_open(world, engine) ? AGENT_GATE_OPEN
                  : engine->opened_for == engine->life && engine->gate != AGENT_GATE_OPEN
                      ? engine->gate
                      : AGENT_GATE_SHUT;
    facts->gate_version = engine->gate_version;
    facts->world_size = SIM_RANKS;
    facts->way_in = engine->plugin ? AGENT_WAY_IN_PLUGIN : AGENT_WAY_IN_RELOAD;
    facts->guarded = engine->guarded;
    facts->live = engine->plugin;
    (void)snprintf(facts->live_reason, sizeof(facts->live_reason), "%s",
                   engine->plugin ? "the plug-in" : "no plug-in");
    facts->paused = engine->paused;
    facts->held = facts->gate == AGENT_GATE_HOLD ? 3 : 0;
    (void)snprintf(facts->software, sizeof(facts->software), "0.32.0");
}

/* Adapters read back what they can: of these kinds, a lie shows as an error. */
static bool is_read_back(enum agent_op_kind kind)
{
    return kind == AGENT_OP_INVALIDATE || kind == AGENT_OP_PAUSE || kind == AGENT_OP_LABEL ||
           kind == AGENT_OP_RAISE_FENCE || kind == AGENT_OP_RESUME || kind == AGENT_OP_SLEEP ||
           kind == AGENT_OP_WAKE;
}

/* Awake without a gate, it would serve what is left; asleep, it cannot go on. */
static bool cannot(const struct engine_model *engine, enum agent_op_kind kind)
{
    return (kind == AGENT_OP_SLEEP && !engine->guarded) ||
           (kind == AGENT_OP_RESUME && engine->asleep);
}

static void serve_traffic(struct world *world, struct engine_model *engine)
{
    if (engine_is_open(world, engine) && !engine->paused && engine->kv == 0) {
        engine->kv = engine->rank[0];
    }
}

/* Tensors of another shape fit only an engine that booted with them. */
static bool takes(const struct world *world, const struct engine_model *engine,
                  const struct agent_op *op)
{
    uint32_t content = content_of(op->digest);
    return !world->versions[content].unfit || engine->rank[0] == content;
}

static void perform(struct world *world, struct engine_model *engine, const struct agent_op *op,
                    enum engine_fault fault, struct agent_op_result *result)
{
    result->status = baton_status_ok();
    result->answered = true;
    if (!engine_answers(world, engine)) {
        result->status = baton_status_make(BATON_UNAVAILABLE, BATON_REASON_ENGINE_UNREACHABLE,
                                           "connect: connection refused");
        return;
    }
    bool fits = takes(world, engine, op);
    if (op->kind == AGENT_OP_UPDATE && fits) {
        update(engine, op, fault, result);
    } else if ((op->kind == AGENT_OP_UPDATE || op->kind == AGENT_OP_PREPARE) && !fits) {
        result->update.in_step = fault != EF_STRAY;
        result->update.restored = true;
        result->status = refused("lm_head.weight: SHAPE_MISMATCH");
    } else if (op->kind == AGENT_OP_READBACK) {
        readback(engine, op, fault, result);
    } else if (op->kind == AGENT_OP_PREPARE) {
        prepare(engine, op, fault, result);
    } else if (op->kind == AGENT_OP_LIVE) {
        swap_live(engine, op, fault, result);
    } else if (fault == EF_FAIL || (fault == EF_LIE && is_read_back(op->kind)) ||
               cannot(engine, op->kind)) {
        result->status = refused("500 Internal Server Error");
    } else if (fault != EF_LIE) {
        change(engine, op);
    }
    if (op->kind == AGENT_OP_PROBE) {
        result->probe.ok = !engine->paused && holds(engine, engine->rank[0]);
        result->probe.logprob_sum = -1.5;
    }
    serve_traffic(world, engine);
    read_facts(world, engine, &result->facts);
}

/* --- the worker --- */

static uint64_t duration_ns(struct engine_model *engine, enum agent_op_kind kind)
{
    uint64_t base = kind == AGENT_OP_UPDATE || kind == AGENT_OP_PREPARE ? 60
                    : kind == AGENT_OP_READBACK                         ? 20
                                                                        : 3;
    return base * MS + world_below(&engine->random, base) * MS;
}

static enum engine_fault take_fault(struct engine_model *engine, enum agent_op_kind kind)
{
    if (engine->fault_left[kind] == 0 && kind == AGENT_OP_UPDATE && engine->lies_back) {
        engine->lies_back = false;
        return EF_LIE;
    }
    if (engine->fault_left[kind] == 0) {
        return EF_NONE;
    }
    engine->fault_left[kind]--;
    cover(COVER_ENGINE_FAULT, (uint32_t)kind * EF_KINDS + engine->fault[kind]);
    return engine->fault[kind];
}

static void fill_item(struct item *item, const struct node *node, struct work *work)
{
    work->disks = node->disks;
    item->life = node->life;
    item->a = work->op.engine.group;
    item->b = work->op.engine.engine;
    item->payload = work;
}

static struct work *new_work(const struct agent_op *op, enum engine_fault fault, uint32_t life)
{
    struct work *work = calloc(1, sizeof(*work));
    baton_assert(work != NULL);
    work->op = *op;
    work->fault = fault;
    work->engine_life = life;
    work->result.id = op->id;
    work->result.engine = op->engine;
    return work;
}

static bool is_unanswered(enum engine_fault fault)
{
    return fault == EF_HANG || fault == EF_LATE || fault == EF_SILENT || fault == EF_STUCK;
}

static uint64_t work_delay_ns(struct engine_model *engine, enum engine_fault fault,
                              uint64_t took_ns)
{
    if (fault == EF_LATE) {
        return took_ns + world_below(&engine->random, 40) * S;
    }
    return fault == EF_SLOW ? 30 * took_ns : took_ns;
}

static void submit_answer(struct world *world, struct node *node, const struct agent_op *op,
                          enum engine_fault fault, uint64_t took_ns)
{
    struct engine_model *engine = engine_of(node, op->engine);
    struct work *work = new_work(op, fault, engine->life);
    uint64_t due_ns = world->now_ns + (fault == EF_SLOW ? 30 * took_ns : took_ns);
    if (fault == EF_STUCK) {
        free(work);
        return;
    }
    if (is_unanswered(fault) || due_ns > op->deadline_ns) {
        due_ns = op->deadline_ns > world->now_ns ? op->deadline_ns : world->now_ns + MS;
        work->result.status =
            baton_status_make(BATON_DEADLINE_EXCEEDED, BATON_REASON_ENGINE_UNREACHABLE,
                              "no answer within the deadline");
        work->done = true;
    }
    work->result.started_ns = world->now_ns;
    fill_item(world_post(world, due_ns, ITEM_OP_END, node->index), node, work);
}

/* The effect is an item of its own only where it may differ from the answer's time. */
static bool has_own_effect(enum engine_fault fault, uint64_t took_ns, const struct agent_op *op,
                           uint64_t now_ns)
{
    bool late = fault == EF_LATE || fault == EF_SILENT;
    return late || (fault == EF_SLOW && now_ns + 30 * took_ns > op->deadline_ns);
}

void engine_submit(struct world *world, struct node *node, const struct agent_op *op)
{
    struct engine_model *engine = engine_of(node, op->engine);
    enum engine_fault fault = take_fault(engine, op->kind);
    if (fault == EF_FAIL && op->kind == AGENT_OP_LIVE) {
        fault = EF_DIE; /* It neither swapped nor put back: so it ends itself. */
    }
    uint64_t took_ns = duration_ns(engine, op->kind);
    uint64_t wait_ns =
        engine->busy_until_ns > world->now_ns ? engine->busy_until_ns - world->now_ns : 0;
    if (op->kind == AGENT_OP_SET_GATE && (fault == EF_LATE || fault == EF_SLOW)) {
        fault = EF_SILENT; /* The agent writes the page itself: at once, or never. */
    }
    if (fault != EF_NONE) {
        tell(world, "engine %s of %s: fault %d in %s",
             node->engines_config[op->engine.group][op->engine.engine].name,
             node->groups_config[op->engine.group].name, (int)fault, agent_op_name(op->kind));
    }
    if (has_own_effect(fault, took_ns, op, world->now_ns)) {
        struct work *work = new_work(op, EF_NONE, engine->life);
        uint64_t at_ns = world->now_ns + wait_ns + work_delay_ns(engine, fault, took_ns);
        fill_item(world_post(world, at_ns, ITEM_OP_WORK, node->index), node, work);
    }
    submit_answer(world, node, op, fault, took_ns + wait_ns);
}

/* Known and open: a new journal does not know that an engine may still work on a call of the lost one that
 * carries no fence, and takes the engine as it is. */
static bool is_forgotten(const struct node *node, const struct engine_model *engine,
                         const struct work *work)
{
    bool sleeps = work->op.kind == AGENT_OP_SLEEP || work->op.kind == AGENT_OP_WAKE;
    return (!engine->plugin || sleeps) && work->disks != node->disks;
}

/* A call works although nobody waits for it any more; the incarnation that got it may be gone. */
void engine_work(struct world *world, struct item *item)
{
    struct node *node = &world->nodes[item->who];
    struct work *work = item->payload;
    struct engine_model *engine = engine_of(node, work->op.engine);
    bool own = work->op.kind == AGENT_OP_SET_GATE && (!node->up || node->life != item->life);
    bool forgotten = is_forgotten(node, engine, work);
    if (engine->life == work->engine_life && engine_answers(world, engine) && !own && !forgotten) {
        tell(world, "a %s of before comes to work in %s of %s", agent_op_name(work->op.kind),
             node->engines_config[item->a][item->b].name, node->groups_config[item->a].name);
        perform(world, engine, &work->op, work->fault, &work->result);
        engine->late_label = work->op.kind == AGENT_OP_LABEL ? engine->life : engine->late_label;
    }
}

/* An abort is seldom in time to keep the engine from doing it. */
void engine_abandon(struct world *world, struct node *node, struct agent_engine_id id, uint64_t op)
{
    struct engine_model *engine = engine_of(node, id);
    for (uint32_t i = 0; i < world->heap_count; i++) {
        struct item *item = &world->heap[i];
        struct work *work = item->payload;
        if (item->kind != ITEM_OP_END || item->who != node->index || item->life != node->life ||
            work->op.id != op || work->op.engine.group != id.group ||
            work->op.engine.engine != id.engine) {
            continue;
        }
        bool works = !work->done && work->op.kind != AGENT_OP_SET_GATE && work->fault != EF_DIE &&
                     world_below(&engine->random, 2) == 0;
        item->life = works ? item->life : UINT32_MAX;
        item->kind = works ? ITEM_OP_WORK : ITEM_OP_END;
    }
    engine->busy_until_ns = world->now_ns + 2 * MS;
}

static void lose_answer(struct work *work)
{
    work->result.answered = false;
    work->result.status = baton_status_make(BATON_UNAVAILABLE, BATON_REASON_ENGINE_UNREACHABLE,
                                            "connection reset by peer");
}

/* The agent is gone: what its worker would have done is done or not, as it happens; if it had been stopped before,
 * then after its next life began. */
static void orphan(struct world *world, const struct node *node, struct engine_model *engine,
                   const struct item *item)
{
    struct work *work = item->payload;
    bool page = work->op.kind == AGENT_OP_SET_GATE || is_forgotten(node, engine, work);
    bool works = !work->done && engine->life == work->engine_life && work->fault != EF_DIE;
    if (works && !page && world_below(&engine->random, 2) == 0) {
        perform(world, engine, &work->op, work->fault, &work->result);
        bool next_life = node->up || node->life > item->life + 1;
        bool late = work->op.kind == AGENT_OP_LABEL && next_life;
        engine->late_label = late ? engine->life : engine->late_label;
    }
}

void engine_end(struct world *world, struct item *item)
{
    struct node *node = &world->nodes[item->who];
    struct work *work = item->payload;
    struct engine_model *engine = engine_of(node, work->op.engine);
    if (!node->up || node->life != item->life) {
        if (item->life != UINT32_MAX) {
            orphan(world, node, engine, item);
        }
        return;
    }
    bool sent = !work->done;
    if (sent && work->fault == EF_DIE && engine_answers(world, engine)) {
        engine_die(world, node, work->op.engine, false);
        lose_answer(work);
    } else if (sent && engine->life != work->engine_life && work->op.kind != AGENT_OP_HEALTH &&
               work->op.kind != AGENT_OP_ATTACH) {
        lose_answer(work);
    } else if (sent) {
        perform(world, engine, &work->op, work->fault, &work->result);
    }
    bool opened = sent && work->op.kind == AGENT_OP_SET_GATE && work->op.gate == AGENT_GATE_OPEN;
    if (opened && engine_is_open(world, engine)) {
        check_opened(world, &node->groups[item->a], engine);
    }
    work->result.ended_ns = world->now_ns;
    struct agent_event event = { .kind = AGENT_EVENT_OP_ENDED, .op = &work->result };
    node_event(world, node, &event);
}

/* --- processes --- */

void engine_die(struct world *world, struct node *node, struct agent_engine_id id, bool told)
{
    struct engine_model *engine = engine_of(node, id);
    if (!engine->up) {
        return;
    }
    engine->up = false;
    tell(world, "engine %s of %s dies%s", node->engines_config[id.group][id.engine].name,
         node->groups_config[id.group].name, told ? "" : ", unseen");
    if (told && node->up &&
        node->engines_config[id.group][id.engine].recreate == AGENT_RECREATE_EXEC) {
        struct agent_event event = { .kind = AGENT_EVENT_ENGINE_EXITED, .exited = id };
        node_event(world, node, &event);
    }
}

void engine_recreate(struct world *world, struct node *node, struct agent_engine_id id)
{
    engine_of(node, id)->up = false;
    struct item *item = world_post(world, world->now_ns + 200 * MS, ITEM_RECREATED, node->index);
    item->life = node->life;
    item->a = id.group;
    item->b = id.engine;
}

void engine_recreated(struct world *world, struct item *item)
{
    struct node *node = &world->nodes[item->who];
    struct agent_engine_id id = { item->a, item->b };
    struct engine_model *engine = engine_of(node, id);
    struct baton_status status = baton_status_ok();
    if (!node->up || node->life != item->life) {
        return;
    }
    uint32_t landed = node->groups[id.group].goal_target;
    bool boots_landed = node->engines_config[id.group][id.engine].boots_from_landing;
    if (engine->recreate_fails) {
        engine->recreate_fails = false;
        status = baton_status_make(BATON_INTERNAL, BATON_REASON_IO, "exec: no such file");
    } else if (boots_landed && (landed == 0 || node->landing[landed] != LANDING_LANDED)) {
        status = baton_status_make(BATON_UNAVAILABLE, BATON_REASON_NONE,
                                   "no version has landed yet that it could start from");
    } else {
        engine_boot(world, engine, boots_landed ? landed : engine->boot_content);
    }
    struct agent_event event = { .kind = AGENT_EVENT_RECREATED };
    event.recreated.engine = id;
    event.recreated.status = &status;
    node_event(world, node, &event);
}
