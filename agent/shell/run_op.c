/* run_op.c -- see run_op.h. */
#include "agent/shell/run_op.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/base/bytes.h"
#include "api/base/clock.h"
#include "transport/model/references.h"

_Static_assert((int)AGENT_GATE_HOLD == (int)GUARD_GATE_HOLD, "gates are copied by number");
_Static_assert((int)AGENT_WAY_IN_RELOAD == (int)ENGINE_WAY_IN_RELOAD, "ways are copied by number");
_Static_assert((int)AGENT_LEVEL_RESIDENT == (int)ENGINE_LEVEL_RESIDENT, "levels likewise");
_Static_assert((int)AGENT_IN_FLIGHT_ABORT == (int)ENGINE_IN_FLIGHT_ABORT, "modes likewise");

/* What one run works with. */
struct run {
    const struct engine_adapter *adapter;
    struct engine *engine;
    const struct agent_op *op;
    const char *landing;
    struct agent_op_result *out;
};

static struct engine_fence fence_of(const struct agent_fence *fence)
{
    return (struct engine_fence){ fence->epoch.generation, fence->epoch.n, fence->owner_term,
                                  fence->ticket, fence->step };
}

static struct agent_fence fence_from(const struct engine_fence *fence)
{
    return (struct agent_fence){
        { fence->generation, fence->n }, fence->owner_term, fence->ticket, fence->step
    };
}

static void take_gate(const struct engine_gate_state *state, struct agent_engine_facts *facts)
{
    (void)baton_text_copy(facts->incarnation, sizeof(facts->incarnation), state->incarnation);
    facts->boots = state->boots;
    facts->gate = (enum agent_gate)state->gate;
    facts->gate_version = state->version;
    facts->salt = state->salt;
    facts->held = state->held;
    facts->active = state->active;
}

static void take_facts(const struct engine_facts *from, struct agent_engine_facts *facts)
{
    (void)baton_text_copy(facts->incarnation, sizeof(facts->incarnation), from->incarnation);
    (void)baton_text_copy(facts->software, sizeof(facts->software), from->software);
    (void)baton_text_copy(facts->way_in_reason, sizeof(facts->way_in_reason), from->way_in_reason);
    (void)baton_text_copy(facts->label, sizeof(facts->label), from->label);
    (void)baton_text_copy(facts->resident_digest, sizeof(facts->resident_digest),
                          from->resident_digest);
    facts->boots = from->boots;
    facts->gate = (enum agent_gate)from->gate;
    facts->world_size = from->world_size;
    facts->way_in = (enum agent_way_in)from->way_in;
    facts->guarded = from->guarded;
    facts->salt = from->salt;
    facts->external_kv = from->external_kv;
    facts->live = from->live;
    (void)baton_text_copy(facts->live_reason, sizeof(facts->live_reason), from->live_reason);
    facts->paused = from->paused;
    facts->fence = fence_from(&from->fence);
    facts->level = (enum agent_level)from->level;
}

static void take_update(const struct engine_update *from, struct agent_op_result *out)
{
    out->answered = from->answered;
    out->update = (struct agent_update_result){ .ok = from->ok,
                                                .restored = from->restored,
                                                .in_step = from->in_step,
                                                .level = (enum agent_level)from->level,
                                                .stage_ns = from->stage_ns,
                                                .load_ns = from->load_ns,
                                                .finalize_ns = from->finalize_ns,
                                                .verify_ns = from->verify_ns };
}

static void run_attach(const struct run *run)
{
    struct engine_facts facts;
    memset(&facts, 0, sizeof(facts));
    run->out->status = run->adapter->attach(run->engine, run->op->deadline_ns, &facts);
    take_facts(&facts, &run->out->facts);
}

static void run_health(const struct run *run)
{
    struct engine_gate_state state;
    memset(&state, 0, sizeof(state));
    run->out->status = run->adapter->health(run->engine, run->op->deadline_ns, &state);
    take_gate(&state, &run->out->facts);
}

static void run_set_gate(const struct run *run)
{
    const struct agent_op *op = run->op;
    struct engine_gate_order order = { .gate = (enum guard_gate)op->gate,
                                       .version = op->gate_version,
                                       .boots = op->gate_boots,
                                       .hold_max = op->hold_max,
                                       .hold_ms = op->hold_ms,
                                       .salt = op->salt };
    struct engine_gate_state state;
    memset(&state, 0, sizeof(state));
    run->out->status = run->adapter->set_gate(run->engine, &order, op->deadline_ns, &state);
    take_gate(&state, &run->out->facts);
}

static void run_update(const struct run *run)
{
    struct engine_fence fence = fence_of(&run->op->fence);
    struct engine_update update = { .answered = true, .in_step = true };
    if (run->op->kind == AGENT_OP_UPDATE) {
        run->out->status = run->adapter->update(run->engine, run->landing, run->op->digest, &fence,
                                                run->op->deadline_ns, &update);
    } else if (run->op->kind == AGENT_OP_PREPARE) {
        run->out->status = run->adapter->prepare(run->engine, run->landing, run->op->digest, &fence,
                                                 run->op->deadline_ns, &update);
    } else if (run->op->kind == AGENT_OP_LIVE) {
        run->out->status = run->adapter->swap_live(run->engine, run->op->digest, &fence,
                                                   run->op->deadline_ns, &update);
    } else {
        run->out->status = run->adapter->readback(run->engine, run->landing, run->op->digest,
                                                  run->op->deadline_ns, &update);
    }
    take_update(&update, run->out);
}

/* One of the trainer's references; what is not within its tolerance, or not answered, is missed. */
static void ask_reference(const struct run *run, const struct references *references, size_t item)
{
    const struct reference *reference = &references->items[item];
    struct agent_probe_result *out = &run->out->probe;
    struct engine_prompt prompt = { reference->prompt, reference->prompt_count,
                                    reference->logprobs_count };
    double logprobs[REFERENCE_LOGPROBS_MAX];
    char missed[BATON_TEXT_BYTES] = "";
    struct baton_status st =
        run->adapter->continuation(run->engine, &prompt, run->op->deadline_ns, logprobs);
    for (uint32_t i = 0; baton_ok(&st) && i < reference->logprobs_count; i++) {
        double away = fabs(logprobs[i] - reference->logprobs[i]);
        out->reference_away = away > out->reference_away ? away : out->reference_away;
        if (away > reference->tolerance && missed[0] == '\0') {
            (void)snprintf(missed, sizeof(missed),
                           "reference %zu, token %u: log-probability %.4f, the trainer's is %.4f "
                           "(tolerance %.4g)",
                           item, i, logprobs[i], reference->logprobs[i], reference->tolerance);
        }
    }
    if (!baton_ok(&st)) {
        (void)snprintf(missed, sizeof(missed), "reference %zu: %.200s", item, st.message);
    }
    out->references++;
    if (missed[0] != '\0' && out->references_missed++ == 0) {
        memcpy(out->reference_message, missed, sizeof(missed));
    }
}

/* They say nothing about whether the engine may serve: a canary's check decides about that. */
static void ask_references(const struct run *run)
{
    struct references *references = NULL;
    struct baton_status st = references_load(run->landing, &references);
    for (size_t i = 0; baton_ok(&st) && i < references->count; i++) {
        ask_reference(run, references, i);
    }
    references_destroy(references);
}

static void run_probe(const struct run *run)
{
    struct engine_probe probe;
    memset(&probe, 0, sizeof(probe));
    run->out->status =
        run->adapter->probe(run->engine, run->op->check_kv, run->op->deadline_ns, &probe);
    run->out->probe.ok = probe.ok;
    run->out->probe.logprob_sum = probe.logprob_sum;
    (void)baton_text_copy(run->out->probe.text, sizeof(run->out->probe.text), probe.text);
    if (probe.ok && run->landing[0] != '\0') {
        ask_references(run);
    }
}

/* Mutating calls whose only result is a status: without an answer their effect is unknown. */
static void note_answered(const struct run *run)
{
    enum baton_code code = run->out->status.code;
    run->out->answered = code != BATON_DEADLINE_EXCEEDED && code != BATON_CANCELLED &&
                         code != BATON_UNKNOWN && code != BATON_UNAVAILABLE;
}

static void dispatch(const struct run *run)
{
    const struct agent_op *op = run->op;
    struct engine_fence fence = fence_of(&op->fence);
    const struct engine_adapter *adapter = run->adapter;
    switch (op->kind) {
    case AGENT_OP_NONE: break;
    case AGENT_OP_ATTACH: run_attach(run); break;
    case AGENT_OP_HEALTH: run_health(run); break;
    case AGENT_OP_SET_GATE: run_set_gate(run); break;
    case AGENT_OP_RAISE_FENCE:
        run->out->status = adapter->raise_fence(run->engine, &fence, op->deadline_ns);
        break;
    case AGENT_OP_PAUSE:
        run->out->status = adapter->pause(run->engine, (enum engine_in_flight)op->in_flight, false,
                                          op->deadline_ns);
        note_answered(run);
        break;
    case AGENT_OP_UPDATE:
    case AGENT_OP_PREPARE:
    case AGENT_OP_LIVE:
    case AGENT_OP_READBACK: run_update(run); break;
    case AGENT_OP_INVALIDATE:
        run->out->status = adapter->invalidate(run->engine, op->deadline_ns);
        note_answered(run);
        break;
    case AGENT_OP_LABEL:
        run->out->status = adapter->label(run->engine, op->label, op->deadline_ns);
        note_answered(run);
        break;
    case AGENT_OP_RESUME:
        run->out->status = adapter->resume(run->engine, op->deadline_ns);
        note_answered(run);
        break;
    case AGENT_OP_SLEEP:
        run->out->status = adapter->sleep(run->engine, op->drain_ns, op->deadline_ns);
        note_answered(run);
        break;
    case AGENT_OP_WAKE:
        run->out->status = adapter->wake(run->engine, op->deadline_ns);
        note_answered(run);
        break;
    case AGENT_OP_PROBE: run_probe(run); break;
    case AGENT_OP_WARM: run->out->status = adapter->warm(run->engine, op->deadline_ns); break;
    }
}

void run_op(const struct engine_adapter *adapter, struct engine *engine, const struct agent_op *op,
            const char *landing, struct agent_op_result *out)
{
    struct run run = { adapter, engine, op, landing, out };
    out->id = op->id;
    out->engine = op->engine;
    out->answered = true;
    out->status = baton_status_ok();
    out->started_ns = baton_clock_monotonic_ns();
    dispatch(&run);
    out->ended_ns = baton_clock_monotonic_ns();
}
