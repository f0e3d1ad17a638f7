/* agent_world_engine.c -- the model of an engine and of its adapter; see agent_world.h. */
#include "tests/unit/agent_world_engine.h"

#include <stdio.h>
#include <string.h>

static const char TORN[] = "ffffffffffffffffffffffffffffffff";

bool world_engine_is_open(const struct world_engine *engine)
{
    return engine->up && (!engine->guarded ||
                          (engine->gate == AGENT_GATE_OPEN && engine->opened_for == engine->lives));
}

void world_fault(struct world_engine *engine, enum agent_op_kind kind, enum fault fault,
                 uint32_t times)
{
    engine->faults[kind] = fault;
    engine->faults_left[kind] = times;
}

static int compare_fence(const struct agent_fence *a, const struct agent_fence *b)
{
    int epoch = agent_epoch_compare(a->epoch, b->epoch);
    const uint64_t left[] = { a->owner_term, a->ticket, a->step };
    const uint64_t right[] = { b->owner_term, b->ticket, b->step };
    for (int i = 0; i < 3 && epoch == 0; i++) {
        epoch = (left[i] > right[i]) - (left[i] < right[i]);
    }
    return epoch;
}

static struct baton_status refused(const char *why)
{
    return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_ENGINE_REFUSED, "%s", why);
}

static void update(struct world_engine *engine, const struct agent_op *op, enum fault fault,
                   struct agent_op_result *result)
{
    result->update.in_step = fault != FAULT_STRAY;
    if (engine->plugin && compare_fence(&op->fence, &engine->fence) < 0) {
        result->status = refused("FENCED");
        return;
    }
    if (engine->asleep) {
        result->status = refused("the rank sleeps");
        return;
    }
    if (engine->plugin && !engine->paused && fault == FAULT_NONE) {
        result->status = refused("not paused");
        return;
    }
    if (engine->plugin) {
        engine->fence = op->fence;
    }
    if (fault == FAULT_FAIL_BACK) {
        result->update.restored = true;
        result->status = refused("rank 1: MISSING_TENSOR");
        return;
    }
    bool torn = fault == FAULT_FAIL || fault == FAULT_LIE;
    memcpy(engine->resident, torn ? TORN : op->digest, sizeof engine->resident);
    result->update.ok = fault != FAULT_FAIL;
    result->update.level = fault == FAULT_LIE ? AGENT_LEVEL_COPIED : engine->level;
    result->update.stage_ns = MS;
    result->update.load_ns = 2 * MS;
    result->update.finalize_ns = 3 * MS;
    result->update.verify_ns = 4 * MS;
    if (fault == FAULT_FAIL) {
        result->status = refused("rank 0: LOAD_FAILED");
    }
}

static void readback(const struct world_engine *engine, const struct agent_op *op, enum fault fault,
                     struct agent_op_result *result)
{
    result->update.in_step = fault != FAULT_STRAY;
    if (!engine->plugin) {
        result->status = baton_status_make(BATON_UNIMPLEMENTED, BATON_REASON_ENGINE_REFUSED,
                                           "no read-back without the plug-in");
        return;
    }
    result->update.ok = fault != FAULT_FAIL && strcmp(engine->resident, op->digest) == 0;
    result->update.level = result->update.ok ? AGENT_LEVEL_RESIDENT : AGENT_LEVEL_NONE;
}

static void prepare(struct world_engine *engine, const struct agent_op *op, enum fault fault,
                    struct agent_op_result *result)
{
    result->update.in_step = fault != FAULT_STRAY;
    if (engine->no_live || fault == FAULT_FAIL || compare_fence(&op->fence, &engine->fence) < 0) {
        result->status = refused("rank 1: MISSING_TENSOR");
        return;
    }
    engine->fence = op->fence;
    memcpy(engine->prepared, fault == FAULT_LIE ? "" : op->digest, fault == FAULT_LIE ? 1 : 33);
    engine->prepared_fence = op->fence;
    result->update.ok = true;
}

/* FAIL: neither done nor undone, so the process ends itself; FAIL_BACK: undone; LIE: says yes, did
 * nothing. */
static void swap_live(struct world_engine *engine, const struct agent_op *op, enum fault fault,
                      struct agent_op_result *result)
{
    bool passed = compare_fence(&op->fence, &engine->fence) < 0;
    bool same = strcmp(engine->prepared, op->digest) == 0 &&
                engine->prepared_fence.ticket == op->fence.ticket;
    result->update.in_step = fault != FAULT_STRAY;
    engine->fence = passed ? engine->fence : op->fence;
    if (fault == FAULT_LIE) {
        result->update.ok = true;
        result->update.level = AGENT_LEVEL_RESIDENT;
        return;
    }
    if (passed || !same || fault == FAULT_FAIL_BACK) {
        result->update.restored = true;
        result->status = refused("rank 1: PEER_FAILED");
        return;
    }
    engine->prepared[0] = '\0';
    if (fault == FAULT_FAIL) {
        engine->up = false;
        result->answered = false;
        result->status = baton_status_make(BATON_UNAVAILABLE, BATON_REASON_ENGINE_UNREACHABLE,
                                           "connection reset by peer");
        return;
    }
    memcpy(engine->resident, op->digest, sizeof engine->resident);
    result->update.ok = true;
    result->update.level = engine->level;
    result->update.load_ns = 2 * MS;
}

static void set_gate(struct world_engine *engine, const struct agent_op *op)
{
    engine->shuts += op->gate != AGENT_GATE_OPEN;
    engine->gate = op->gate;
    engine->gate_version = op->gate_version;
    engine->opened_for = op->gate_boots;
    engine->gate_salt = op->salt && !engine->no_salt;
    if (world_engine_is_open(engine) && !engine->paused && engine->kv[0] == '\0') {
        memcpy(engine->kv, engine->resident, sizeof engine->kv); /* Traffic fills it at once. */
    }
}

static void change(struct world_engine *engine, const struct agent_op *op)
{
    switch (op->kind) {
    case AGENT_OP_SET_GATE: set_gate(engine, op); break;
    case AGENT_OP_RAISE_FENCE:
        if (compare_fence(&op->fence, &engine->fence) > 0) {
            engine->fence = op->fence;
            engine->prepared[0] = '\0';
        }
        break;
    case AGENT_OP_PAUSE:
        engine->paused = true;
        if (op->in_flight == AGENT_IN_FLIGHT_ABORT) {
            engine->aborted += engine->active;
            engine->active = 0;
        }
        break;
    case AGENT_OP_INVALIDATE: engine->kv[0] = '\0'; break;
    case AGENT_OP_LABEL: memcpy(engine->label, op->label, sizeof engine->label); break;
    case AGENT_OP_RESUME: engine->paused = false; break;
    case AGENT_OP_SLEEP:
        engine->asleep = true;
        engine->paused = true;
        engine->aborted += engine->active;
        engine->active = 0;
        engine->kv[0] = '\0';
        memcpy(engine->resident, TORN, sizeof engine->resident);
        break;
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

static void read_facts(const struct world_engine *engine, struct agent_engine_facts *facts)
{
    memcpy(facts->label, engine->label, sizeof engine->label);
    (void)snprintf(facts->incarnation, sizeof facts->incarnation, "life-%llu",
                   (unsigned long long)engine->lives);
    facts->boots = engine->lives;
    facts->gate = world_engine_is_open(engine)                          ? AGENT_GATE_OPEN
                  : engine->opened_for == engine->lives && engine->gate ? engine->gate
                                                                        : AGENT_GATE_SHUT;
    facts->gate_version = engine->gate_version;
    facts->salt = engine->gate_salt;
    facts->external_kv = engine->external_kv;
    facts->live = engine->plugin && !engine->no_live;
    (void)snprintf(facts->live_reason, sizeof facts->live_reason, "%s",
                   facts->live ? "between two steps" : "its ranks form a pipeline");
    facts->active = engine->active;
    facts->held = facts->gate == AGENT_GATE_HOLD ? 3 : 0;
    facts->world_size = 2;
    facts->way_in = engine->plugin ? AGENT_WAY_IN_PLUGIN : AGENT_WAY_IN_RELOAD;
    facts->guarded = engine->guarded;
    facts->paused = engine->paused;
    (void)snprintf(facts->software, sizeof facts->software, "0.32.0");
}

void world_engine_perform(struct world_engine *engine, const struct agent_op *op, enum fault fault,
                          struct agent_op_result *result)
{
    result->status = baton_status_ok();
    result->answered = true;
    if (!engine->up) {
        result->status = baton_status_make(BATON_UNAVAILABLE, BATON_REASON_ENGINE_UNREACHABLE,
                                           "connect: connection refused");
        return;
    }
    if (op->kind == AGENT_OP_UPDATE) {
        update(engine, op, fault, result);
    } else if (op->kind == AGENT_OP_READBACK) {
        readback(engine, op, fault, result);
    } else if (op->kind == AGENT_OP_PREPARE) {
        prepare(engine, op, fault, result);
    } else if (op->kind == AGENT_OP_LIVE) {
        swap_live(engine, op, fault, result);
    } else if (op->kind == AGENT_OP_PAUSE && op->in_flight == AGENT_IN_FLIGHT_WAIT &&
               engine->active > 0) {
        change(engine, op);
        result->status = baton_status_make(BATON_DEADLINE_EXCEEDED, BATON_REASON_ENGINE_REFUSED,
                                           "%u requests are still inside", engine->active);
    } else if (op->kind == AGENT_OP_SLEEP && engine->sleepless) {
        result->status = refused("it was started without sleep mode");
    } else if (fault == FAULT_FAIL) {
        result->status = refused("500 Internal Server Error");
    } else if (fault != FAULT_LIE) {
        change(engine, op);
    }
    if (op->kind == AGENT_OP_PROBE) {
        /* Old KV is found by a request without a salt of its version. */
        bool stale = op->check_kv && !engine->gate_salt && engine->kv[0] != '\0' &&
                     strcmp(engine->kv, engine->resident) != 0;
        result->probe.ok = !engine->paused && strcmp(engine->resident, TORN) != 0 && !stale;
        result->probe.logprob_sum = -1.5;
        result->probe.references = 2;
        result->probe.references_missed = engine->references_missed;
        (void)snprintf(result->probe.text, sizeof result->probe.text, "text of %.4s",
                       engine->resident + 28);
    }
    read_facts(engine, &result->facts);
}

void world_engine_boot(struct world_engine *engine)
{
    struct agent_version version = world_version(engine->boot_seq);
    engine->up = true;
    engine->lives++;
    engine->paused = false;
    engine->asleep = false;
    engine->prepared[0] = '\0';
    engine->kv[0] = '\0';
    memset(&engine->fence, 0, sizeof engine->fence);
    memcpy(engine->resident, version.digest, sizeof engine->resident);
    (void)snprintf(engine->label, sizeof engine->label, "default");
}
