/* agent_world.c -- time, the journal, and what becomes of actions; see agent_world.h. */
#include "tests/unit/agent_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/agent_world_engine.h"

static void violate(struct world *world, const char *what, const char *where)
{
    if (world->violation[0] == '\0') {
        (void)snprintf(world->violation, sizeof world->violation, "%s: %.180s at %llu ms", where,
                       what, (unsigned long long)(world->now_ns / MS));
    }
}

/* What clients could see: checked from the engines and the journal alone. */
static void check(struct world *world)
{
    for (uint32_t i = 0; i < world->config.groups_count && !world->blind; i++) {
        const char *name = world->groups_config[i].name;
        struct agent_version committed = world_version(world->committed[i]);
        if (committed.seq == 0 && world->journals > 1) {
            continue; /* A gate that was opened by a life whose journal is lost. */
        }
        for (uint32_t k = 0; k < world->groups_config[i].engines_count; k++) {
            const struct world_engine *engine = &world->engines[i][k];
            if (!world_engine_is_open(engine) || !engine->guarded) {
                continue;
            }
            if (world_barrier_forbids(world, i)) {
                violate(world, "a gate opened in a barrier without a word", name);
            }
            bool window = world->live_to[i].seq != 0 &&
                          strcmp(engine->resident, world->live_to[i].digest) == 0;
            if (strcmp(engine->resident, committed.digest) != 0 && !window) {
                violate(world, "an open gate serves what was not committed", name);
            }
            bool follows = world->live_from[i] != 0 && engine->gate_version == world->live_from[i];
            if (engine->gate_version != committed.seq && !follows) {
                violate(world, "an open gate shows another version", name);
            }
            if (engine->kv[0] != '\0' && !engine->gate_salt && !world->kv_kept &&
                strcmp(engine->kv, engine->resident) != 0) {
                violate(world, "an open gate serves KV of other weights", name);
            }
        }
    }
}

static struct world_pending *add_pending(struct world *world, uint64_t due_ns, int kind)
{
    for (uint32_t i = 0; i < WORLD_PENDING; i++) {
        if (world->pending[i].due_ns == 0) {
            memset(&world->pending[i], 0, sizeof world->pending[i]);
            world->pending[i].due_ns = due_ns;
            world->pending[i].kind = kind;
            world->pending[i].of_core = true;
            return &world->pending[i];
        }
    }
    abort();
}

static struct world_engine *engine_of(struct world *world, struct agent_engine_id id)
{
    return &world->engines[id.group][id.engine];
}

static void note_group(struct world *world, uint32_t group, const struct journal_record *record)
{
    if (record->kind == JOURNAL_COMMIT) {
        world->committed[group] = record->commit.version.seq;
    }
    if (record->kind == JOURNAL_LIVE_INTENT) {
        world->live_to[group] = record->intent.to;
        world->live_from[group] = record->intent.from.seq;
    } else if (record->kind == JOURNAL_COMMIT || record->kind == JOURNAL_INTENT) {
        world->live_to[group].seq = 0;
    } else if (record->kind == JOURNAL_OUTCOME &&
               record->outcome.record.outcome != AGENT_OUTCOME_OUT) {
        world->live_to[group].seq = 0; /* OUT: the gate is shut next. */
        world->live_from[group] = 0;
    }
}

static void append(struct world *world, const struct journal_record *record)
{
    size_t size = journal_record_encode(record, world->journal_index + 1,
                                        world->journal + world->journal_size,
                                        sizeof world->journal - world->journal_size);
    if (size == 0) {
        violate(world, "a record does not fit", journal_kind_name(record->kind));
        return;
    }
    world->journal_index++;
    world->journal_size += size;
    world->journal_counts[record->kind]++;
    world->journal_last[record->kind] = *record;
    for (uint32_t i = 0; i < world->config.groups_count; i++) {
        if (strcmp(record->group, world->groups_config[i].name) == 0) {
            note_group(world, i, record);
        }
    }
}

static uint64_t duration_ns(enum agent_op_kind kind)
{
    return kind == AGENT_OP_UPDATE || kind == AGENT_OP_PREPARE ? 50 * MS
           : kind == AGENT_OP_READBACK                         ? 20 * MS
                                                               : 2 * MS;
}

static enum fault take_fault(struct world_engine *engine, enum agent_op_kind kind)
{
    engine->calls[kind]++;
    if (engine->faults_left[kind] == 0) {
        return FAULT_NONE;
    }
    engine->faults_left[kind]--;
    return engine->faults[kind];
}

static void lose_answer(struct world *world, struct world_pending *pending)
{
    pending->due_ns =
        pending->op.deadline_ns > world->now_ns ? pending->op.deadline_ns : world->now_ns + 1;
    pending->result.answered = false;
    pending->result.status = baton_status_make(
        BATON_DEADLINE_EXCEEDED, BATON_REASON_ENGINE_UNREACHABLE, "no answer within the deadline");
}

static void start_op(struct world *world, const struct agent_op *op)
{
    struct world_engine *engine = engine_of(world, op->engine);
    enum fault fault = take_fault(engine, op->kind);
    struct world_pending *pending =
        add_pending(world, world->now_ns + duration_ns(op->kind), PENDING_ANSWER);
    pending->op = *op;
    pending->result.id = op->id;
    pending->result.engine = op->engine;
    pending->result.started_ns = world->now_ns;
    pending->ok = true; /* The effect is still to come. */
    pending->version.seq = fault;
    bool silent =
        fault == FAULT_HANG || fault == FAULT_LATE || fault == FAULT_SILENT || fault == FAULT_STUCK;
    if (!silent) {
        return;
    }
    if (fault == FAULT_SILENT) {
        struct agent_op_result ignored = { .id = op->id };
        world_engine_perform(engine, op, FAULT_NONE, &ignored);
    } else if (fault == FAULT_LATE) {
        struct world_pending *late =
            add_pending(world, world->now_ns + engine->late_ns, PENDING_EFFECT);
        late->op = *op;
        late->of_core = false;
        late->version.seq = engine->lives;
    }
    pending->ok = false;
    lose_answer(world, pending);
    if (fault == FAULT_STUCK) {
        pending->due_ns = UINT64_MAX;
    }
}

static void abandon(struct world *world, uint64_t id)
{
    for (uint32_t i = 0; i < WORLD_PENDING; i++) {
        struct world_pending *pending = &world->pending[i];
        if (pending->due_ns != 0 && pending->kind == PENDING_ANSWER && pending->op.id == id) {
            pending->due_ns = 0;
        }
    }
}

static void land(struct world *world, const struct agent_version_goal *goal)
{
    const struct agent_version *version = &goal->version;
    world->lands[version->seq]++;
    world->land_holders[version->seq] = goal->holders_count;
    struct world_pending *pending = add_pending(world, world->now_ns + 200 * MS, PENDING_LANDED);
    pending->version = *version;
    pending->ok = world->landing_fails[version->seq] == 0;
    world->landing_fails[version->seq] -= pending->ok ? 0 : 1;
}

static uint64_t seq_of(const char *digest)
{
    return strtoull(digest + 16, NULL, 16);
}

static void stop_landing(struct world *world, const char *digest)
{
    for (uint32_t i = 0; i < WORLD_PENDING; i++) {
        struct world_pending *pending = &world->pending[i];
        if (pending->due_ns != 0 && pending->kind == PENDING_LANDED &&
            strcmp(pending->version.digest, digest) == 0) {
            pending->due_ns = 0;
        }
    }
    world->cancels[seq_of(digest)]++;
}

static void note(struct world *world, const char *reason)
{
    (void)snprintf(world->notes[world->notes_count++ % WORLD_NOTES], BATON_NAME_BYTES, "%s",
                   reason);
}

/* BATON_WORLD_TRACE: what the agents do, as a story. */
static void trace(const struct world *world, const struct agent_action *action)
{
    double at = (double)(world->now_ns / MS) / 1000;
    const char *agent = world->config.agent;
    if (!world->traced) {
        return;
    }
    if (action->kind == AGENT_ACTION_JOURNAL) {
        (void)printf("%8.3f %s journal %s\n", at, agent, journal_kind_name(action->journal->kind));
    } else if (action->kind == AGENT_ACTION_LOG) {
        (void)printf("%8.3f %s %s: %s\n", at, agent, action->log->reason, action->log->message);
    } else if (action->kind == AGENT_ACTION_ENGINE_OP && action->op->kind > AGENT_OP_HEALTH) {
        (void)printf("%8.3f %s e%u %s\n", at, agent, action->op->engine.engine,
                     agent_op_name(action->op->kind));
    } else if (action->kind == AGENT_ACTION_PEER_SEND &&
               action->peer_send.command->verb != AGENT_PEER_WATCH) {
        (void)printf("%8.3f %s -> %s %s %llx\n", at, agent, action->peer_send.agent,
                     agent_peer_verb_name(action->peer_send.command->verb),
                     (unsigned long long)action->peer_send.command->fence.step);
    } else if (action->kind == AGENT_ACTION_PEER_ANSWER && action->peer_answer.result->step != 0) {
        (void)printf("%8.3f %s answers %llx %s %s\n", at, agent,
                     (unsigned long long)action->peer_answer.result->step,
                     action->peer_answer.result->ok ? "ok" : "failed",
                     action->peer_answer.result->message);
    }
}

/* A router answers after 10 ms; one that hangs, at the deadline. */
static void call_hook(struct world *world, const struct agent_hook_call *call)
{
    int when = (int)call->when;
    bool hangs = world->hooks_hang[when] > 0;
    bool fails = !hangs && world->hooks_fail[when] > 0;
    world->hooks[when]++;
    world->hook_serves = call->serves_seq;
    world->hooks_hang[when] -= hangs;
    world->hooks_fail[when] -= fails;
    struct world_pending *pending =
        add_pending(world, hangs ? call->deadline_ns : world->now_ns + 10 * MS, PENDING_HOOK);
    pending->op.id = call->id;
    pending->ok = !hangs && !fails;
}

static void hook_ended(struct world *world, const struct world_pending *pending)
{
    struct baton_status status =
        pending->ok ? baton_status_ok()
                    : baton_status_make(BATON_UNAVAILABLE, BATON_REASON_NONE, "answered 503");
    world_event(world, (struct agent_event){ .kind = AGENT_EVENT_HOOK_ENDED,
                                             .hook = { pending->op.id, &status } });
}

static void perform(struct world *world, const struct agent_action *action)
{
    trace(world, action);
    switch (action->kind) {
    case AGENT_ACTION_JOURNAL: append(world, action->journal); break;
    case AGENT_ACTION_ENGINE_OP: start_op(world, action->op); break;
    case AGENT_ACTION_ENGINE_ABANDON: abandon(world, action->abandon.id); break;
    case AGENT_ACTION_LAND: land(world, action->land); break;
    case AGENT_ACTION_LAND_CANCEL: stop_landing(world, action->digest); break;
    case AGENT_ACTION_DROP:
        world->landed[seq_of(action->digest)] = false;
        world->drops[seq_of(action->digest)]++;
        break;
    case AGENT_ACTION_RECREATE:
        engine_of(world, action->recreate)->up = false;
        add_pending(world, world->now_ns + 2 * S, PENDING_RECREATED)->engine = action->recreate;
        break;
    case AGENT_ACTION_HOOK: call_hook(world, action->hook); break;
    case AGENT_ACTION_LOG: note(world, action->log->reason); break;
    case AGENT_ACTION_OPERATED: world->operated = *action->operated; break;
    case AGENT_ACTION_STATUS:
        world->status = action->status->groups[0];
        world->statuses += action->status->groups_count;
        break;
    case AGENT_ACTION_DONE: world->done = true; break;
    case AGENT_ACTION_OPEN_SESSION:
    case AGENT_ACTION_CLOSE_SESSION:
    case AGENT_ACTION_HELLO:
    case AGENT_ACTION_ACK:
    case AGENT_ACTION_NACK:
    case AGENT_ACTION_REPORT: world_controller_perform(world, action); break;
    case AGENT_ACTION_PEER_SEND:
    case AGENT_ACTION_PEER_ANSWER:
        if (world->on_peer != NULL) {
            world->on_peer(world, action);
        }
        break;
    }
}

/* True if the agent dies at this action. */
static bool crashes_at(struct world *world, const struct agent_action *action)
{
    bool boundary =
        action->kind == AGENT_ACTION_JOURNAL || action->kind == AGENT_ACTION_ENGINE_OP ||
        action->kind == AGENT_ACTION_PEER_SEND || action->kind == AGENT_ACTION_PEER_ANSWER;
    if (!world->counting || !boundary || ++world->boundaries != world->crash_at ||
        world->crash_mode == CRASH_NEVER) {
        return false;
    }
    if (world->crash_mode != CRASH_BEFORE) {
        perform(world, action);
    }
    world->crashed = true;
    return true;
}

void world_event(struct world *world, struct agent_event event)
{
    if (!world->running) {
        return;
    }
    event.now_ns = world->now_ns;
    event.wall_ns = world->now_ns + 1000 * S;
    struct agent_actions actions = agent_step(world->agent, &event);
    for (size_t i = 0; i < actions.count; i++) {
        if (crashes_at(world, &actions.items[i])) {
            world_crash(world);
            break;
        }
        perform(world, &actions.items[i]);
    }
    check(world);
    if (world->running && agent_deadline_ns(world->agent) <= world->now_ns) {
        violate(world, "the core asks for a time that has passed", "deadline");
    }
}

static void forget_core(struct world *world)
{
    free(world->memory);
    world->memory = NULL;
    world->agent = NULL;
    world->running = false;
    world->session_open = false;
    world->session_wanted = false;
    world->welcome_due = false;
}

/* An operation that was under way: its answer has nobody to go to; its effect is the mode's. */
static void orphan(struct world *world, struct world_pending *pending)
{
    struct world_engine *engine = engine_of(world, pending->op.engine);
    bool at_once = world->crash_mode == CRASH_AFTER ||
                   (world->crash_mode == CRASH_AFTER_LATE && pending->op.kind == AGENT_OP_SET_GATE);
    if (pending->kind == PENDING_ANSWER && pending->ok && at_once) {
        world_engine_perform(engine, &pending->op, (enum fault)pending->version.seq,
                             &pending->result);
    }
    if (pending->kind == PENDING_ANSWER && pending->ok && !at_once &&
        world->crash_mode == CRASH_AFTER_LATE) {
        pending->kind = PENDING_EFFECT;
        pending->of_core = false;
        pending->version.seq = engine->lives;
        pending->due_ns = world->now_ns + 3 * S;
        return;
    }
    pending->due_ns = 0;
}

void world_crash(struct world *world)
{
    if (world->traced) {
        (void)printf("%8.3f %s crashes\n", (double)(world->now_ns / MS) / 1000,
                     world->config.agent);
    }
    for (uint32_t i = 0; i < WORLD_PENDING; i++) {
        if (world->pending[i].due_ns != 0 && world->pending[i].of_core) {
            orphan(world, &world->pending[i]);
        }
    }
    forget_core(world);
    check(world);
}

static void replay(struct world *world)
{
    struct journal_cursor cursor;
    struct journal_record record;
    bool more = true;
    struct baton_status st =
        journal_cursor_init(&cursor, (struct baton_bytes){ world->journal, world->journal_size });
    while (baton_ok(&st) && more) {
        st = journal_cursor_next(&cursor, &record, &more);
        if (baton_ok(&st) && more) {
            world_event(
                world, (struct agent_event){ .kind = AGENT_EVENT_RECOVERED, .recovered = &record });
        }
    }
    if (!baton_ok(&st)) {
        violate(world, st.message, "journal");
    }
}

static void tell_found(struct world *world)
{
    for (uint64_t seq = 1; seq < 16; seq++) {
        if (world->landed[seq]) {
            struct agent_landing_event landing = { .state = AGENT_LANDING_DONE, .bytes = 1000 };
            memcpy(landing.digest, world_version(seq).digest, sizeof landing.digest);
            world_event(world,
                        (struct agent_event){ .kind = AGENT_EVENT_LANDING, .landing = &landing });
        }
    }
    for (uint32_t i = 0; i < world->config.groups_count; i++) {
        for (uint32_t k = 0; k < world->groups_config[i].engines_count; k++) {
            bool exec = world->engines_config[i][k].recreate == AGENT_RECREATE_EXEC;
            if (exec && !world->engines[i][k].up) {
                world_event(world, (struct agent_event){ .kind = AGENT_EVENT_ENGINE_EXITED,
                                                         .exited = { i, k } });
            }
        }
    }
}

void world_start(struct world *world)
{
    size_t size = agent_size(&world->config);
    world->memory = malloc(size);
    world->agent = agent_init(world->memory, &world->config, ++world->lives);
    world->running = true;
    world->done = false;
    replay(world);
    tell_found(world);
    world_event(world, (struct agent_event){ .kind = AGENT_EVENT_STARTED });
}

static void deliver_answer(struct world *world, struct world_pending *pending)
{
    struct world_engine *engine = engine_of(world, pending->op.engine);
    enum fault fault = (enum fault)pending->version.seq;
    if (pending->ok && fault == FAULT_DIE) {
        engine->up = false;
        pending->result.answered = false;
        pending->result.status = baton_status_make(
            BATON_UNAVAILABLE, BATON_REASON_ENGINE_UNREACHABLE, "connection reset by peer");
    } else if (pending->ok) {
        world_engine_perform(engine, &pending->op, fault, &pending->result);
    }
    struct agent_op_result result = pending->result;
    result.ended_ns = world->now_ns;
    world_event(world, (struct agent_event){ .kind = AGENT_EVENT_OP_ENDED, .op = &result });
}

/* A call that nobody waits for any more; the incarnation that got it may be gone. */
static void late_effect(struct world *world, struct world_pending *pending)
{
    struct world_engine *engine = engine_of(world, pending->op.engine);
    struct agent_op_result ignored = { .id = 0 };
    if (engine->lives == pending->version.seq && engine->up) {
        world_engine_perform(engine, &pending->op, FAULT_LATE, &ignored);
    }
    check(world);
}

static void landed(struct world *world, const struct world_pending *pending)
{
    struct agent_landing_event event = { .state = AGENT_LANDING_DONE,
                                         .bytes = 1000,
                                         .used_bytes = 1000 };
    memcpy(event.digest, pending->version.digest, sizeof event.digest);
    if (!pending->ok && world->no_room) {
        event.state = AGENT_LANDING_FAILED;
        event.status = baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_NO_SPACE,
                                         "needs 1000 bytes, 0 are free");
    } else if (!pending->ok) {
        event.state = AGENT_LANDING_FAILED;
        event.status = baton_status_make(BATON_DATA_LOSS, BATON_REASON_DIGEST_MISMATCH,
                                         "chunk 3 of model.norm.weight");
    } else {
        world->landed[pending->version.seq] = true;
    }
    world_event(world, (struct agent_event){ .kind = AGENT_EVENT_LANDING, .landing = &event });
}

static void recreated(struct world *world, struct agent_engine_id id)
{
    struct world_engine *engine = engine_of(world, id);
    struct baton_status status = baton_status_ok();
    if (engine->recreate_fails) {
        status = baton_status_make(BATON_INTERNAL, BATON_REASON_IO, "exec: no such file");
    } else {
        world_engine_boot(engine);
    }
    world_event(
        world, (struct agent_event){ .kind = AGENT_EVENT_RECREATED, .recreated = { id, &status } });
}

static void deliver(struct world *world, struct world_pending *pending)
{
    struct world_pending copy = *pending;
    pending->due_ns = 0;
    switch (copy.kind) {
    case PENDING_ANSWER: deliver_answer(world, &copy); break;
    case PENDING_EFFECT: late_effect(world, &copy); break;
    case PENDING_LANDED: landed(world, &copy); break;
    case PENDING_RECREATED: recreated(world, copy.engine); break;
    case PENDING_HOOK: hook_ended(world, &copy); break;
    }
}

static struct world_pending *next_pending(struct world *world)
{
    struct world_pending *next = NULL;
    for (uint32_t i = 0; i < WORLD_PENDING; i++) {
        struct world_pending *pending = &world->pending[i];
        if (pending->due_ns != 0 && (next == NULL || pending->due_ns < next->due_ns)) {
            next = pending;
        }
    }
    return next;
}

uint64_t world_due_ns(struct world *world)
{
    const struct world_pending *next = next_pending(world);
    uint64_t due_ns = next != NULL ? next->due_ns : UINT64_MAX;
    uint64_t timer_ns = world->running ? agent_deadline_ns(world->agent) : UINT64_MAX;
    return due_ns < timer_ns ? due_ns : timer_ns;
}

void world_do_due(struct world *world)
{
    struct world_pending *next = next_pending(world);
    uint64_t timer_ns = world->running ? agent_deadline_ns(world->agent) : UINT64_MAX;
    if (next != NULL && next->due_ns <= timer_ns) {
        deliver(world, next);
    } else {
        world_event(world, (struct agent_event){ .kind = AGENT_EVENT_TIMER });
    }
}

void world_run(struct world *world, uint64_t duration)
{
    uint64_t end_ns = world->now_ns + duration;
    for (uint32_t steps = 0; steps < 1000000; steps++) {
        world_controller_run(world);
        if (world->crashed) {
            return; /* The test decides when the agent starts again. */
        }
        uint64_t at_ns = world_due_ns(world);
        if (at_ns > end_ns || world->violation[0] != '\0') {
            world->now_ns = end_ns;
            return;
        }
        world->now_ns = at_ns > world->now_ns ? at_ns : world->now_ns;
        world_do_due(world);
    }
    violate(world, "time does not pass", "loop");
}

static void init_group(struct world *world, uint32_t index, uint32_t engines, uint64_t boot_seq)
{
    struct agent_group_config *config = &world->groups_config[index];
    struct world_group *group = &world->groups[index];
    (void)snprintf(config->name, sizeof config->name, "g%u", index);
    (void)snprintf(config->model, sizeof config->model, "m");
    config->engines = world->engines_config[index];
    config->engines_count = engines;
    config->hold_max = 64;
    group->auto_rejoin = true;
    group->owner_term = 1;
    group->ticket.policy =
        (struct agent_policy){ .swap_deadline_ns = 10 * S, .drain_deadline_ns = 5 * S };
    for (uint32_t i = 0; i < engines; i++) {
        struct agent_engine_config *engine = &world->engines_config[index][i];
        (void)snprintf(engine->name, sizeof engine->name, "e%u", i);
        engine->recreate = AGENT_RECREATE_EXEC;
        world->engines[index][i] = (struct world_engine){ .plugin = true,
                                                          .guarded = true,
                                                          .level = AGENT_LEVEL_RESIDENT,
                                                          .boot_seq = boot_seq,
                                                          .late_ns = 15 * S };
        world_engine_boot(&world->engines[index][i]);
    }
}

void world_new_journal(struct world *world)
{
    struct journal_record record = { .kind = JOURNAL_INCARNATION };
    (void)snprintf(record.incarnation, sizeof record.incarnation, "%032x", ++world->journals);
    memset(world->journal, 0, sizeof world->journal);
    memset(world->committed, 0, sizeof world->committed);
    world->journal_index = 0;
    journal_header_encode(world->journal);
    world->journal_size = JOURNAL_HEADER_BYTES;
    append(world, &record);
}

struct world *world_create(uint32_t groups, uint32_t engines, uint64_t boot_seq)
{
    struct world *world = calloc(1, sizeof *world);
    (void)snprintf(world->config.agent, sizeof world->config.agent, "a0");
    world->traced = getenv("BATON_WORLD_TRACE") != NULL;
    world->config.recreate_attempts = 5;
    world->config.groups = world->groups_config;
    world->config.groups_count = groups;
    world->config.times = agent_times_default();
    world->config.times.restore_bound = 20 * S;
    world->now_ns = S;
    world->controller_up = true;
    world->epoch = (struct agent_epoch){ 1, 1 };
    for (uint32_t i = 0; i < groups; i++) {
        init_group(world, i, engines, boot_seq);
    }
    world_new_journal(world);
    return world;
}

void world_destroy(struct world *world)
{
    if (world != NULL) {
        free(world->memory);
        free(world);
    }
}

void world_serve(struct world *world, uint64_t seq)
{
    for (uint32_t i = 0; i < world->config.groups_count; i++) {
        world_goals(world, i, seq, 0);
    }
    world_start(world);
    world_run(world, 5 * S);
}

void world_kill(struct world *world, uint32_t group, uint32_t engine, bool told)
{
    world->engines[group][engine].up = false;
    if (told) {
        world_event(world, (struct agent_event){ .kind = AGENT_EVENT_ENGINE_EXITED,
                                                 .exited = { group, engine } });
    }
}

void world_boot(struct world *world, uint32_t group, uint32_t engine)
{
    world_engine_boot(&world->engines[group][engine]);
}

uint64_t world_committed(const struct world *world, uint32_t group)
{
    return world->committed[group];
}

bool world_serves(const struct world *world, uint32_t group, uint64_t seq)
{
    struct agent_version version = world_version(seq);
    bool serves = true;
    for (uint32_t i = 0; i < world->groups_config[group].engines_count; i++) {
        const struct world_engine *engine = &world->engines[group][i];
        serves &= world_engine_is_open(engine) && !engine->paused &&
                  strcmp(engine->resident, version.digest) == 0 &&
                  (!engine->guarded || engine->gate_version == seq);
    }
    return serves;
}

bool world_is_shut(const struct world *world, uint32_t group)
{
    bool shut = true;
    for (uint32_t i = 0; i < world->groups_config[group].engines_count; i++) {
        shut &= !world_engine_is_open(&world->engines[group][i]);
    }
    return shut;
}

bool world_noted(const struct world *world, const char *reason)
{
    for (uint32_t i = 0; i < world->notes_count && i < WORLD_NOTES; i++) {
        if (strcmp(world->notes[i], reason) == 0) {
            return true;
        }
    }
    return false;
}
