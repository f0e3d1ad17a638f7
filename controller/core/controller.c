/* controller.c -- see controller.h: the core's memory, and which handler takes which event. */
#include "controller/core/controller.h"

#include <stddef.h>
#include <string.h>

#include "api/base/arena.h"
#include "api/base/mutant.h"
#include "controller/core/core.h"
#include "controller/core/leases.h"
#include "controller/core/series.h"

enum { WAITS_MAX = 1024, VERSIONS_KEPT = 50, ROLLS_KEPT = 100 };

#define OPEN_KEPT_MS    (UINT64_C(24) * 3600 * 1000)
#define UNKNOWN_KEPT_MS (UINT64_C(3600) * 1000)

struct controller_limits controller_limits_default(void)
{
    return (struct controller_limits){
        .models = BATON_MODELS_MAX,
        .versions = BATON_VERSIONS_MAX,
        .versions_kept = VERSIONS_KEPT,
        .rolls = BATON_ROLLS_MAX,
        .rolls_kept = ROLLS_KEPT,
        .groups = BATON_GROUPS_MAX,
        .agents = BATON_AGENTS_MAX,
        .landed = CONTROLLER_LANDED_MAX,
        .request_ids = BATON_REQUEST_IDS_MAX,
        .waits = WAITS_MAX,
        .open_kept_ms = OPEN_KEPT_MS,
        .unknown_kept_ms = UNKNOWN_KEPT_MS,
        .swaps = BATON_SWAPS_MAX + 2 * CONTROLLER_SWAPS_A_STEP,
        .swaps_kept = CONTROLLER_SWAPS_KEPT,
        .sessions = BATON_SESSIONS_MAX,
        .slot_leases = BATON_SLOT_LEASES_MAX,
    };
}

static void lay_out_tables(struct controller *core, struct layout *layout)
{
    const struct controller_limits *max = &core->limits;
    table_init(&core->models_table, layout, max->models, sizeof(struct model));
    table_init(&core->versions_table, layout, max->versions, sizeof(struct version));
    table_init(&core->rolls_table, layout, max->rolls, sizeof(struct roll));
    table_init(&core->groups_table, layout, max->groups, sizeof(struct group));
    table_init(&core->agents_table, layout, max->agents, sizeof(struct agent));
    table_init(&core->requests_table, layout, max->request_ids, sizeof(struct request_entry));
    table_init(&core->staleness_table, layout, max->models, sizeof(struct staleness));
    table_init(&core->swaps_table, layout, max->swaps, sizeof(struct swap_entry));
    index_init(&core->swaps, layout, max->swaps, offsetof(struct swap_entry, order_key));
    table_init(&core->session_leases_table, layout, max->sessions, sizeof(struct session_lease));
    table_init(&core->slot_leases_table, layout, max->slot_leases, sizeof(struct slot_lease));
    table_init(&core->series_table, layout, max->models, sizeof(struct series));
    index_init(&core->session_leases, layout, max->sessions, offsetof(struct session_lease, key));
    index_init(&core->slot_leases, layout, max->slot_leases, offsetof(struct slot_lease, r.id));
    index_init(&core->series, layout, max->models, offsetof(struct series, model));
    index_init(&core->models, layout, max->models, offsetof(struct model, r.name));
    index_init(&core->versions, layout, max->versions, offsetof(struct version, order_key));
    index_init(&core->versions_uid, layout, max->versions, offsetof(struct version, r.uid));
    index_init(&core->versions_digest, layout, max->versions, offsetof(struct version, digest_key));
    index_init(&core->rolls, layout, max->rolls, offsetof(struct roll, order_key));
    index_init(&core->groups, layout, max->groups, offsetof(struct group, r.name));
    index_init(&core->groups_ordered, layout, max->groups, offsetof(struct group, order_key));
    index_init(&core->ready, layout, max->groups, offsetof(struct group, ready_key));
    index_init(&core->named, layout, max->groups, offsetof(struct group, named_key));
    index_init(&core->soaking, layout, max->groups, offsetof(struct group, soak_key));
    index_init(&core->agents, layout, max->agents, offsetof(struct agent, r.name));
    index_init(&core->line, layout, max->agents, offsetof(struct agent, line_key));
    index_init(&core->requests, layout, max->request_ids, offsetof(struct request_entry, r.id));
    index_init(&core->staleness, layout, max->models, offsetof(struct staleness, r.model));
}

static void lay_out_pools(struct controller *core, struct layout *layout)
{
    const struct controller_limits *max = &core->limits;
    size_t groups = max->groups;
    size_t agents = max->agents;
    core->engines =
        layout_take(layout, groups * BATON_ENGINES_PER_GROUP_MAX, sizeof(struct engine_info));
    core->landed = layout_take(layout, agents * max->landed, BATON_DIGEST_TEXT_BYTES);
    core->landed_unknown_ns = layout_take(layout, agents * max->landed, sizeof(uint64_t));
    core->agent_groups =
        layout_take(layout, agents * BATON_GROUPS_PER_AGENT_MAX, sizeof(struct group *));
    core->follows = layout_take(layout, agents * BATON_GROUPS_PER_AGENT_MAX, sizeof(struct follow));
    core->floors = layout_take(layout, agents * max->models, sizeof(struct seq_floor));
    core->restated = layout_take(layout, REBUILD_VERSIONS_MAX, sizeof(struct version_record));
    core->sessions = layout_take(layout, agents, sizeof(struct session));
    core->waits = layout_take(layout, max->waits, sizeof(struct wait));
    core->touched_capacity = (2 + SERIES_CHUNKS) * max->models + 6 * STEP_LEASES_MAX +
                             max->versions + max->rolls + groups + agents +
                             STEP_REQUESTS_EXPIRED_MAX + 2 * CONTROLLER_SWAPS_A_STEP + 8;
    core->touched = layout_take(layout, core->touched_capacity, sizeof(struct touched));
    core->ops = layout_take(layout, core->touched_capacity, sizeof(struct record_op));
    core->candidates = layout_take(layout, groups, sizeof(struct group *));
    core->series_chunks =
        layout_take(layout, (size_t)max->models * SERIES_CHUNKS, sizeof(struct series_chunk));
    core->replies = layout_take(layout, EVENT_REQUESTS_MAX, sizeof(struct action_reply));
    core->closes = layout_take(layout, agents + 2, sizeof(struct action_close));
    core->wait_dones = layout_take(layout, max->waits, sizeof(struct action_wait_done));
    core->entries_capacity = 2 * groups + 2 * agents + 4 * max->models + 128;
    core->entries = layout_take(layout, core->entries_capacity, sizeof(struct log_entry));
    core->goals_groups = layout_take(layout, groups, sizeof(struct group_goal));
    core->goals_follows =
        layout_take(layout, agents * BATON_FOLLOWED_VERSIONS_MAX, sizeof(struct follow_goal));
    core->goals_droppable = layout_take(layout, agents * max->landed, BATON_DIGEST_TEXT_BYTES);
    /* One for each change, log entry, wait and close; three for each group; one goals an agent. */
    core->actions_capacity = core->touched_capacity + core->entries_capacity + max->waits +
                             EVENT_REQUESTS_MAX + 2 * agents + 3 * groups +
                             BATON_GROUPS_PER_AGENT_MAX + 8;
    core->actions = layout_take(layout, core->actions_capacity, sizeof(struct action));
}

size_t controller_bytes(const struct controller_limits *limits)
{
    struct layout layout = { 0 };
    struct controller measured = { .limits = *limits };
    (void)layout_take(&layout, 1, sizeof(struct controller));
    lay_out_tables(&measured, &layout);
    lay_out_pools(&measured, &layout);
    return layout.used;
}

static uint64_t seed_word(const uint8_t *bytes)
{
    uint64_t word = 0;
    for (int i = 7; i >= 0; i--) {
        word = word << 8 | bytes[i];
    }
    return word;
}

struct controller *controller_init(struct baton_arena *arena,
                                   const struct controller_limits *limits,
                                   const uint8_t seed[CONTROLLER_SEED_BYTES])
{
    baton_assert(limits->landed <= CONTROLLER_LANDED_MAX);
    size_t align = _Alignof(max_align_t);
    size_t start = (arena->used + align - 1) / align * align;
    size_t bytes = controller_bytes(limits);
    if (start > arena->capacity || bytes > arena->capacity - start) {
        return NULL;
    }
    arena->used = start + bytes;
    /* Not baton_arena_take(): that would touch every page. */
    struct layout layout = { .block = arena->data + start };
    struct controller *core = layout_take(&layout, 1, sizeof(struct controller));
    memset(core, 0, sizeof(*core));
    core->limits = *limits;
    lay_out_tables(core, &layout);
    lay_out_pools(core, &layout);
    core->phase = CORE_LOADING;
    core->load_status = baton_status_ok();
    core->wake_ns = UINT64_MAX;
    core->leases_due_ns = UINT64_MAX;
    core->agents_due_ns = UINT64_MAX;
    core->retry_due_ns = UINT64_MAX;
    core->strays_due_ns = UINT64_MAX;
    baton_random_seed(&core->uid_random[0], seed_word(seed));
    baton_random_seed(&core->uid_random[1], seed_word(seed + 8));
    baton_random_seed(&core->jitter, seed_word(seed) ^ seed_word(seed + 8));
    return core;
}

static void handle_running(struct controller *core, const struct event *event)
{
    switch (event->kind) {
    case EVENT_TIMER: break; /* settle_timers() runs in every step. */
    case EVENT_LOAD:
    case EVENT_STARTED: baton_assert(false); /* The shell's mistake: only before STARTED. */
    case EVENT_REQUEST: requests_handle(core, &event->body.request); break;
    case EVENT_REQUESTS: requests_handle_batch(core, &event->body.requests); break;
    case EVENT_WAIT_CANCEL: waits_cancel(core, event->body.wait_handle); break;
    case EVENT_SESSION_HELLO: agents_hello(core, &event->body.hello); break;
    case EVENT_SESSION_REPORT: agents_report(core, &event->body.report); break;
    case EVENT_SESSION_ACK: agents_ack(core, &event->body.ack); break;
    case EVENT_SESSION_GONE: agents_gone(core, event->body.session_gone); break;
    case EVENT_METRIC: checks_measured(core, &event->body.metric); break;
    case EVENT_FLOORS_GIVEN: floors_given(core); break;
    }
    if (core->phase == CORE_RUNNING) {
        settle_timers(core, !event->behind);
        settle(core);
        invariants_check(core);
    }
}

/* Before STARTED and once fenced nothing is decided: callers are told to come back. */
static void handle_idle(struct controller *core, const struct event *event)
{
    const char *why = core->phase == CORE_FENCED
                          ? "the store went back: the controller takes a new generation"
                          : "the controller is starting";
    struct baton_status st = baton_status_hint(
        baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE, "%s", why),
        "try again in a second");
    if (event->kind == EVENT_REQUEST) {
        (void)requests_reply(core, event->body.request.handle, st);
    } else if (event->kind == EVENT_REQUESTS) {
        for (size_t i = 0; i < event->body.requests.count; i++) {
            (void)requests_reply(core, event->body.requests.items[i].handle, st);
        }
    } else if (event->kind == EVENT_SESSION_HELLO) {
        session_close(core, event->body.hello.session, st);
    }
}

/* Takes a report or an ack and leaves what follows from it to the next step; so that the step's swaps stay within their bound,
 * not too many outcomes. */
static bool defer(struct controller *core, const struct event *event)
{
    bool report = event->kind == EVENT_SESSION_REPORT;
    size_t outcomes = core->out.stored_count + (report ? event->body.report.outcomes_count : 0);
    bool may = event->more && (report || event->kind == EVENT_SESSION_ACK) &&
               core->phase == CORE_RUNNING && outcomes <= CONTROLLER_SWAPS_A_STEP / 2;
    if (may && report) {
        agents_report(core, &event->body.report);
    } else if (may) {
        agents_ack(core, &event->body.ack);
    }
    core->deferred = core->deferred || may;
    return may;
}

/* What it tells counts before anything follows from what was deferred: no ticket is issued on older news. */
static bool tells_of_groups(const struct event *event)
{
    return event->kind == EVENT_SESSION_HELLO || event->kind == EVENT_SESSION_REPORT ||
           event->kind == EVENT_SESSION_ACK || event->kind == EVENT_SESSION_GONE ||
           event->kind == EVENT_TIMER; /* It finds who is silent. */
}

struct actions controller_step(struct controller *core, const struct event *event)
{
    if (!core->deferred) {
        emit_begin(core);
    }
    baton_assert(event->now_ns >= core->now_ns);
    core->now_ns = event->now_ns;
    core->wall_ns = event->wall_ns;
    if (defer(core, event)) {
        return (struct actions){ core->actions, 0 };
    }
    if (core->deferred && !tells_of_groups(event)) {
        settle(core);
    }
    core->deferred = false;
    if (core->phase == CORE_LOADING && event->kind == EVENT_LOAD) {
        core->load_status = load_record(core, event->body.load);
    } else if (core->phase == CORE_LOADING && event->kind == EVENT_STARTED) {
        load_started(core, &event->body.started);
        settle(core);
        invariants_check(core);
    } else if (core->phase == CORE_RUNNING) {
        handle_running(core, event);
    } else {
        handle_idle(core, event);
    }
    return emit_end(core);
}

void controller_show(struct controller *core, const struct started *started)
{
    baton_assert(core->phase == CORE_LOADING && baton_ok(&core->load_status));
    load_shown(core, started);
}

struct baton_status controller_load_status(const struct controller *core)
{
    return core->load_status;
}

uint64_t controller_deadline_ns(const struct controller *core)
{
    if (MUTANT(TIMER_STUCK)) {
        return core->now_ns;
    }
    return core->phase == CORE_RUNNING ? core->wake_ns : UINT64_MAX;
}
