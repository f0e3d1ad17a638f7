/* ops.c -- see ops.h. */
#include "agent/core/ops.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/flow.h"
#include "api/base/mutant.h"

/* Between two tries of one operation. */
#define RETRY_NS UINT64_C(100000000)

void group_trouble(struct group *group, const char *fmt, ...)
{
    if (group->message[0] != '\0') {
        return;
    }
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(group->message, sizeof group->message, fmt, args);
    va_end(args);
}

bool ops_is_idle(const struct engine *engine)
{
    return engine->op.kind == AGENT_OP_NONE;
}

static uint64_t add_ns(uint64_t a, uint64_t b)
{
    return a > AGENT_NEVER - b ? AGENT_NEVER : a + b;
}

/* How long one try of an operation may take; within a swap its own deadline binds besides. */
static uint64_t limit_ns(const struct agent *agent, const struct group *group,
                         enum agent_op_kind kind)
{
    const struct agent_times *times = &agent->config.times;
    const struct agent_policy *policy = &group->ledger->ticket.policy;
    switch (kind) {
    case AGENT_OP_NONE:
    case AGENT_OP_HEALTH:
    case AGENT_OP_SET_GATE:
    case AGENT_OP_RAISE_FENCE:
    case AGENT_OP_LABEL:
    case AGENT_OP_WARM:
    case AGENT_OP_RESUME: return times->op_short;
    case AGENT_OP_ATTACH:
    case AGENT_OP_INVALIDATE:
    case AGENT_OP_PROBE: return times->op_long;
    case AGENT_OP_PAUSE:
        return flow_in_flight(group) == AGENT_IN_FLIGHT_WAIT && policy->drain_deadline_ns > 0
                   ? policy->drain_deadline_ns
                   : AGENT_NEVER;
    case AGENT_OP_SLEEP:
    case AGENT_OP_WAKE:
    case AGENT_OP_PREPARE:
    case AGENT_OP_LIVE:
    case AGENT_OP_UPDATE: return AGENT_NEVER;
    case AGENT_OP_READBACK: return times->readback;
    }
    return times->op_short;
}

/* The version that the phase's UPDATE or READBACK is about. */
static const char *digest_of_phase(const struct group *group)
{
    switch (phase_row(group->phase)->state) {
    case AGENT_GROUP_JOINING: return group->goal.target.digest;
    case AGENT_GROUP_RESTORING: return group->ledger->ticket.from.digest;
    case AGENT_GROUP_APPLYING: return group->ledger->ticket.to.digest;
    case AGENT_GROUP_SERVING:
    case AGENT_GROUP_STAGING:
    case AGENT_GROUP_STAGED:
    case AGENT_GROUP_PAUSING:
    case AGENT_GROUP_RESUMING:
    case AGENT_GROUP_OUT:
    case AGENT_GROUP_STAGE_FAILED:
    case AGENT_GROUP_ASLEEP: break;
    }
    return group->ledger->committed.digest;
}

static void fill_gate(const struct agent *agent, const struct group *group,
                      const struct engine *engine, struct agent_op *op)
{
    const struct agent_policy *policy = &group->ledger->ticket.policy;
    op->gate = phase_row(group->phase)->to_gate;
    bool shuts = policy->arrivals == AGENT_ARRIVALS_REFUSE ||
                 (group->phase == PHASE_MARK && group->ledger->ticket.rejoin);
    if (op->gate == AGENT_GATE_HOLD && shuts) {
        op->gate = AGENT_GATE_SHUT;
    }
    op->gate_version = group->ledger->committed.seq;
    op->gate_boots = engine->facts.boots;
    op->salt = group->ledger->salted;
    op->hold_max = group->config->hold_max;
    uint64_t waits_ns = flow_barrier_takes_part(group)
                            ? 5 * policy->barrier_deadline_ns + policy->swap_deadline_ns
                            : 0;
    op->hold_ms =
        (policy->swap_deadline_ns + waits_ns + agent->config.times.restore_bound) / 1000000;
}

static void fill(const struct agent *agent, const struct group *group, const struct engine *engine,
                 struct agent_op *op)
{
    const struct ledger_group *ledger = group->ledger;
    if (op->kind == AGENT_OP_SET_GATE) {
        fill_gate(agent, group, engine, op);
    }
    op->in_flight = flow_in_flight(group);
    op->drain_ns = op->kind == AGENT_OP_SLEEP ? group->goal.sleep_drain_ns : 0;
    op->check_kv = ledger->ticket.uid[0] != '\0' && ledger->ticket.policy.kv != AGENT_KV_KEEP;
    (void)baton_text_copy(op->digest, sizeof op->digest, digest_of_phase(group));
    op->fence = (struct agent_fence){ ledger->ticket.epoch, ledger->ticket.owner_term,
                                      ledger->ticket.number, ledger->step };
    uint64_t seq = MUTANT(LABEL_EARLY) ? group->goal.stage.seq : ledger->committed.seq;
    text_print(op->label, sizeof op->label, "%llu", (unsigned long long)seq);
}

static void push(struct agent *agent, struct engine *engine)
{
    engine->op.id = ++agent->next_op_id;
    engine->op.engine = engine->id;
    struct agent_op *op = agent_scratch(agent, 1, sizeof *op);
    *op = engine->op;
    agent_push(agent, AGENT_ACTION_ENGINE_OP)->op = op;
}

void ops_start_part(struct agent *agent, struct group *group, struct engine *engine)
{
    struct agent_op *op = &engine->op;
    memset(op, 0, sizeof *op);
    op->kind = phase_row(group->phase)->op;
    fill(agent, group, engine, op);
    op->deadline_ns = add_ns(agent->now_ns, limit_ns(agent, group, op->kind));
    if (op->deadline_ns > group->deadline_ns) {
        op->deadline_ns = group->deadline_ns;
    }
    baton_assert(op->deadline_ns != AGENT_NEVER);
    if (op->kind == AGENT_OP_SET_GATE && op->gate == AGENT_GATE_OPEN) {
        engine->maybe_open = true;
    }
    if (op->kind == AGENT_OP_UPDATE || op->kind == AGENT_OP_LIVE) {
        engine->touched = true;
        engine->restored = false;
        engine->resident[0] = '\0';
        engine->level = AGENT_LEVEL_NONE;
    }
    engine->op_aside = false;
    engine->part = PART_RUNNING;
    engine->tries++;
    push(agent, engine);
}

void ops_start_aside(struct agent *agent, struct engine *engine, enum agent_op_kind kind)
{
    struct group *group = &agent->groups[engine->id.group];
    struct agent_op *op = &engine->op;
    memset(op, 0, sizeof *op);
    op->kind = kind;
    (void)baton_text_copy(op->digest, sizeof op->digest, group->ledger->committed.digest);
    /* Of a known engine an attach is a health check that asks more. */
    bool known = kind == AGENT_OP_ATTACH && engine->known;
    op->deadline_ns =
        add_ns(agent->now_ns, known ? agent->config.times.op_short : limit_ns(agent, group, kind));
    engine->op_aside = true;
    engine->next_look_ns = agent->now_ns + agent->config.times.health_interval;
    push(agent, engine);
}

/* The part's operation failed: it is tried again as far as its phase allows, unless nobody knows
 * what the call did or will still do; a label is the same whenever it arrives. */
static void fail_part(struct agent *agent, struct group *group, struct engine *engine,
                      const struct agent_op *op, enum fate fate, const char *why)
{
    bool again = fate == FATE_REFUSED || (fate == FATE_SILENT && op->kind == AGENT_OP_LABEL);
    if (again && engine->tries < phase_row(group->phase)->tries) {
        engine->part = PART_WAITING;
        engine->retry_ns = agent->now_ns + RETRY_NS;
        return;
    }
    group_trouble(group, "engine %s: %s: %s", engine->config->name, agent_op_name(op->kind), why);
    engine->part = PART_FAILED;
    if (fate > engine->fate) {
        engine->fate = fate;
    }
}

void ops_lose(struct agent *agent, struct group *group, struct engine *engine, const char *why)
{
    group_trouble(group, "engine %s: %s", engine->config->name, why);
    if (!ops_is_idle(engine)) {
        ops_abandon(agent, group, engine, why);
    }
    engine->known = false;
    engine->resident[0] = '\0';
    engine->level = AGENT_LEVEL_NONE;
    engine->fate = FATE_GONE;
    engine->next_look_ns = agent->now_ns;
    if (engine->part == PART_WAITING) {
        engine->part = PART_FAILED;
    }
    group->changed = true;
    group->entered = true;
}

/* A mutating call that may still take effect later is the fate to fear (rule 2). */
static enum fate fate_of_silence(enum agent_op_kind kind)
{
    return agent_op_is_mutating(kind) ? FATE_SILENT : FATE_REFUSED;
}

void ops_abandon(struct agent *agent, struct group *group, struct engine *engine, const char *why)
{
    struct agent_action *action = agent_push(agent, AGENT_ACTION_ENGINE_ABANDON);
    action->abandon.id = engine->op.id;
    action->abandon.engine = engine->id;
    engine->pause_doubt |= engine->op.kind == AGENT_OP_PAUSE;
    if (!engine->op_aside) {
        fail_part(agent, group, engine, &engine->op, fate_of_silence(engine->op.kind), why);
    }
    engine->op.kind = AGENT_OP_NONE;
}

void ops_expire(struct agent *agent, struct group *group)
{
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        struct engine *engine = &group->engines[i];
        if (!ops_is_idle(engine) &&
            agent->now_ns >= add_ns(engine->op.deadline_ns, agent->config.times.op_grace)) {
            engine->reachable = false;
            ops_abandon(agent, group, engine, "no answer by the deadline");
        }
    }
}

static bool is_unreachable(const struct baton_status *status)
{
    return status->code == BATON_UNAVAILABLE || status->code == BATON_DEADLINE_EXCEEDED ||
           status->reason == BATON_REASON_ENGINE_UNREACHABLE;
}

/* Takes over what ATTACH found. */
static void absorb_attach(struct group *group, struct engine *engine,
                          const struct agent_engine_facts *facts)
{
    const char *taint = group->ledger->taints[engine->id.engine];
    if (strcmp(engine->facts.incarnation, facts->incarnation) != 0) {
        engine->resident[0] = '\0';
        engine->label[0] = '\0';
        engine->level = AGENT_LEVEL_NONE;
        /* An earlier life of the agent may have left one on its way. */
        engine->pause_doubt = engine->facts.incarnation[0] == '\0';
        engine->failures = 0;
    }
    group->changed |= !engine->known || engine->facts.paused != facts->paused;
    engine->facts = *facts;
    engine->known = true;
    engine->exited = false;
    engine->boot_by_ns = 0;
    engine->maybe_open = facts->guarded && facts->gate == AGENT_GATE_OPEN;
    engine->needs_recreate = taint[0] != '\0' && strcmp(taint, facts->incarnation) == 0;
}

/* Takes over what HEALTH and SET_GATE read; another incarnation loses the engine. */
static bool absorb_gate(struct agent *agent, struct group *group, struct engine *engine,
                        const struct agent_engine_facts *facts)
{
    if (strcmp(engine->facts.incarnation, facts->incarnation) != 0) {
        engine->maybe_open = false; /* The page's gate was opened for the one that is dead. */
        ops_lose(agent, group, engine, "it was restarted: another incarnation answers");
        return false;
    }
    if (engine->facts.gate != facts->gate) {
        group->changed = true;
    }
    engine->facts.gate = facts->gate;
    engine->facts.gate_version = facts->gate_version;
    engine->facts.salt = facts->salt;
    engine->facts.held = facts->held;
    engine->facts.active = facts->active;
    if (group->closed_ns != 0 && facts->held > group->held) {
        group->held = facts->held;
    }
    return true;
}

/* What sleeps without it must begin again: it holds memory. */
static bool lose_started(struct agent *agent, struct group *group, struct engine *engine)
{
    if (group->phase == PHASE_ATTACH || group->phase == PHASE_OUT) {
        return false; /* It is waited for. */
    }
    ops_lose(agent, group, engine, "somebody started its process");
    return true;
}

/* Takes over what an operation read of the engine itself; false: another incarnation answers. */
static bool absorb(struct agent *agent, struct group *group, struct engine *engine,
                   const struct agent_op *op, const struct agent_op_result *result)
{
    bool attach = op->kind == AGENT_OP_ATTACH;
    if (attach && !engine->known) {
        bool left_dead = flow_is_left_dead(group, engine);
        absorb_attach(group, engine, &result->facts);
        return !left_dead || !lose_started(agent, group, engine);
    }
    if (!attach && op->kind != AGENT_OP_HEALTH && op->kind != AGENT_OP_SET_GATE) {
        return true;
    }
    if (!absorb_gate(agent, group, engine, &result->facts)) {
        return false;
    }
    if (attach) {
        absorb_attach(group, engine, &result->facts);
    }
    return true;
}

/* UPDATE and READBACK: what is resident now, as far as it was verified. */
static enum fate judge_update(struct engine *engine, const struct agent_op *op,
                              const struct agent_op_result *result)
{
    if (!result->update.in_step && result->answered && result->status.code != BATON_UNIMPLEMENTED) {
        return FATE_STRAY;
    }
    if (op->kind == AGENT_OP_READBACK && result->status.code == BATON_UNIMPLEMENTED) {
        bool told = strcmp(engine->resident, op->digest) == 0;
        return told ? FATE_NONE : FATE_REFUSED;
    }
    if (!baton_ok(&result->status) || !result->update.ok) {
        engine->resident[0] = '\0';
        engine->level = AGENT_LEVEL_NONE;
        engine->restored = op->kind != AGENT_OP_READBACK && result->update.restored;
        return FATE_REFUSED;
    }
    memcpy(engine->resident, op->digest, sizeof engine->resident);
    engine->level = result->update.level;
    return FATE_NONE;
}

/* Nothing is resident that was not before. */
static enum fate judge_prepare(const struct agent_op_result *result)
{
    if (!result->update.in_step && result->answered && result->status.code != BATON_UNIMPLEMENTED) {
        return FATE_STRAY;
    }
    return baton_ok(&result->status) && result->update.ok ? FATE_NONE : FATE_REFUSED;
}

static enum fate judge_gate(struct engine *engine, const struct agent_op *op,
                            const struct agent_op_result *result)
{
    if (!baton_ok(&result->status) || result->facts.gate != op->gate ||
        result->facts.gate_version != op->gate_version || result->facts.salt != op->salt) {
        return FATE_REFUSED;
    }
    engine->maybe_open = op->gate == AGENT_GATE_OPEN;
    return FATE_NONE;
}

static enum fate judge_label(struct engine *engine, const struct agent_op *op,
                             const struct agent_op_result *result)
{
    if (result->status.code == BATON_UNIMPLEMENTED) {
        (void)baton_text_copy(engine->label, sizeof engine->label, "-");
        return FATE_NONE;
    }
    if (!baton_ok(&result->status)) {
        engine->label[0] = '\0';
        return FATE_REFUSED;
    }
    memcpy(engine->label, op->label, sizeof engine->label);
    return FATE_NONE;
}

/* Text and sum are the first engine's; of references, all engines' count. */
static void note_probe(struct group *group, const struct engine *engine,
                       const struct agent_op_result *result)
{
    struct agent_probe_result before = group->probe;
    if (!baton_ok(&result->status) || !result->probe.ok || group->phase == PHASE_BACK_PROBE) {
        return; /* The record tells of the version that was to come. */
    }
    if (engine->id.engine == 0) {
        group->probe = result->probe;
    }
    const struct agent_probe_result *worse =
        before.references_missed > result->probe.references_missed ||
                (before.references_missed == result->probe.references_missed &&
                 before.reference_away > result->probe.reference_away)
            ? &before
            : &result->probe;
    group->probe.references = result->probe.references;
    group->probe.references_missed = worse->references_missed;
    group->probe.reference_away = worse->reference_away;
    memcpy(group->probe.reference_message, worse->reference_message,
           sizeof group->probe.reference_message);
}

/* On the way back no more references may be missed than were when the version began to serve. */
static enum fate judge_probe(const struct group *group, struct engine *engine,
                             const struct agent_op *op, const struct agent_op_result *result)
{
    if (!baton_ok(&result->status) || !result->probe.ok) {
        return FATE_REFUSED;
    }
    if (group->phase == PHASE_BACK_PROBE) {
        bool known = strcmp(engine->probed, op->digest) == 0;
        bool worse = known && result->probe.references_missed > engine->probed_missed;
        return worse ? FATE_REFUSED : FATE_NONE;
    }
    memcpy(engine->probed, op->digest, sizeof engine->probed);
    engine->probed_missed = result->probe.references_missed;
    return FATE_NONE;
}

/* Whether the operation did what was asked, by what was read back. */
static enum fate judge(struct agent *agent, struct engine *engine, const struct agent_op *op,
                       const struct agent_op_result *result)
{
    struct group *group = &agent->groups[engine->id.group];
    if (!result->answered && agent_op_is_mutating(op->kind)) {
        return FATE_SILENT;
    }
    switch (op->kind) {
    case AGENT_OP_SET_GATE: return judge_gate(engine, op, result);
    case AGENT_OP_UPDATE:
    case AGENT_OP_LIVE:
    case AGENT_OP_READBACK: return judge_update(engine, op, result);
    case AGENT_OP_PREPARE: return judge_prepare(result);
    case AGENT_OP_LABEL: return judge_label(engine, op, result);
    case AGENT_OP_PROBE:
        note_probe(group, engine, result);
        return judge_probe(group, engine, op, result);
    case AGENT_OP_PAUSE:
        engine->facts.paused = true; /* Also if it failed: it may have, or will. */
        engine->pause_doubt |= !baton_ok(&result->status);
        break;
    case AGENT_OP_SLEEP: engine->facts.paused = true; break;
    case AGENT_OP_WAKE:
    case AGENT_OP_RESUME: engine->facts.paused = !baton_ok(&result->status); break;
    case AGENT_OP_NONE:
    case AGENT_OP_ATTACH:
    case AGENT_OP_HEALTH:
    case AGENT_OP_RAISE_FENCE:
    case AGENT_OP_WARM:
    case AGENT_OP_INVALIDATE: break;
    }
    return baton_ok(&result->status) ? FATE_NONE : FATE_REFUSED;
}

static void raise_to(uint64_t *value, uint64_t to)
{
    *value = to > *value ? to : *value;
}

static void note_times(struct group *group, const struct agent_op_result *result,
                       enum agent_op_kind kind)
{
    if (result->ended_ns > result->started_ns) {
        raise_to(&group->phase_engine_ns, result->ended_ns - result->started_ns);
    }
    if ((kind == AGENT_OP_UPDATE && group->phase == PHASE_UPDATE) || kind == AGENT_OP_LIVE) {
        raise_to(&group->phases.apply_ns, result->update.stage_ns + result->update.load_ns);
        raise_to(&group->phases.finalize_ns, result->update.finalize_ns);
        raise_to(&group->phases.verify_ns, result->update.verify_ns);
    }
}

static void end_part(struct agent *agent, struct group *group, struct engine *engine,
                     const struct agent_op *op, const struct agent_op_result *result)
{
    enum fate fate = judge(agent, engine, op, result);
    note_times(group, result, op->kind);
    if (fate == FATE_NONE) {
        engine->part = PART_DONE;
        return;
    }
    fail_part(agent, group, engine, op, fate,
              result->status.message[0] != '\0' ? result->status.message
                                                : "what was read back does not match");
}

/* A background read-back of what the group serves on its journal's word. */
static void end_background(struct agent *agent, struct group *group, struct engine *engine,
                           const struct agent_op_result *result)
{
    bool stray = result->answered && !result->update.in_step;
    bool silent = is_unreachable(&result->status);
    if (result->status.code == BATON_UNIMPLEMENTED || silent) {
        engine->unproved = silent;
        return;
    }
    if (baton_ok(&result->status) && result->update.ok && !stray) {
        engine->level = result->update.level;
        return;
    }
    group_note(agent, group, true, "ResidentMismatch",
               "engine %s does not hold version %llu any more: %s", engine->config->name,
               (unsigned long long)group->ledger->committed.seq, result->status.message);
    ops_lose(agent, group, engine,
             stray ? "its answers belong to other calls" : "its weights are not those it serves");
    engine->fate = stray ? FATE_STRAY : FATE_GONE;
}

void ops_on_ended(struct agent *agent, const struct agent_op_result *result)
{
    if (result->engine.group >= agent->config.groups_count ||
        result->engine.engine >= agent->groups[result->engine.group].config->engines_count) {
        return;
    }
    struct group *group = &agent->groups[result->engine.group];
    struct engine *engine = &group->engines[result->engine.engine];
    if (ops_is_idle(engine) || engine->op.id != result->id) {
        return;
    }
    struct agent_op op = engine->op;
    engine->op.kind = AGENT_OP_NONE;
    engine->reachable = !is_unreachable(&result->status);
    if (engine->reachable) {
        engine->heard_ns = agent->now_ns;
    }
    if (baton_ok(&result->status) && !absorb(agent, group, engine, &op, result)) {
        engine->part = engine->op_aside ? engine->part : PART_FAILED;
        return;
    }
    if (!engine->op_aside) {
        end_part(agent, group, engine, &op, result);
    } else if (op.kind == AGENT_OP_READBACK) {
        end_background(agent, group, engine, result);
    }
}
