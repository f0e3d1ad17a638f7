/* pause, resume and invalidate: what an engine says of these is read back. */
#include <stdio.h>
#include <string.h>

#include "agent/engine/vllm.h"
#include "api/base/clock.h"

/* A part of the time is kept to read back what a pause that did not answer has done. */
#define READ_BACK_NS (500 * BATON_NS_PER_MS)

static const char *mode_name(enum engine_in_flight mode)
{
    switch (mode) {
    case ENGINE_IN_FLIGHT_KEEP: break;
    case ENGINE_IN_FLIGHT_WAIT: return "wait";
    case ENGINE_IN_FLIGHT_ABORT: return "abort";
    }
    return "keep";
}

/* With time t left, a quarter of it is kept, but no more than READ_BACK_NS. */
static uint64_t call_deadline(uint64_t deadline_ns)
{
    uint64_t now = baton_clock_monotonic_ns();
    uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
    return deadline_ns - (left / 4 < READ_BACK_NS ? left / 4 : READ_BACK_NS);
}

/* Asleep looks like paused once it is paused, so it is asked before. */
static struct baton_status awake_check(struct engine *engine, uint64_t deadline_ns)
{
    bool sleeping = false;
    struct baton_status st = exchange_get(&engine->exchange, "/is_sleeping", deadline_ns);
    if (st.code == BATON_UNIMPLEMENTED) {
        return baton_status_ok();
    }
    if (baton_ok(&st)) {
        st = answer_bool(exchange_body(&engine->exchange), "is_sleeping", &sleeping);
    }
    if (baton_ok(&st) && sleeping) {
        st = baton_status_hint(
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_HELD, "the engine sleeps"),
            "wake it up with POST /wake_up");
    }
    return st;
}

static struct baton_status paused_check(struct engine *engine, uint64_t deadline_ns, bool wanted)
{
    bool paused = false;
    struct baton_status st = vllm_is_paused(engine, deadline_ns, &paused);
    if (baton_ok(&st) && paused != wanted) {
        st = baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_ENGINE_LIED,
                               "it answered yes and reads back as %s",
                               paused ? "paused" : "not paused");
    }
    return st;
}

/* The pause got no answer: it may be in force.  Says which, within the time that was kept. */
static struct baton_status after_silence(struct engine *engine, struct baton_status st,
                                         uint64_t deadline_ns)
{
    bool paused = false;
    if (st.code == BATON_CANCELLED || engine->exchange.answer.outcome != HTTP_NO_ANSWER) {
        return st;
    }
    struct baton_status read = vllm_is_paused(engine, deadline_ns, &paused);
    return baton_status_hint(st, "%s",
                             !baton_ok(&read) ? "whether it is paused is unknown"
                             : paused         ? "it is paused, perhaps not drained"
                                              : "it is not paused");
}

/* An aborted request ends with what it has.  Answers that are being sent count as inside. */
static struct baton_status aborted_check(struct engine *engine, uint64_t deadline_ns)
{
    struct engine_gate_state state = { .gate = GUARD_GATE_OPEN };
    if (engine->found.guarded) {
        struct baton_status st = gate_read(&engine->exchange, deadline_ns, &state);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    return state.gate == GUARD_GATE_OPEN ? baton_status_ok()
                                         : gate_empty(&engine->exchange, &state, deadline_ns);
}

/* An answered "wait" proves a drain only if the engine was running before.  The guard's count proves it
 * always: nobody who passed the gate is left inside. */
static struct baton_status drained_check(struct engine *engine, bool was_paused,
                                         uint64_t deadline_ns)
{
    struct engine_gate_state state = { .gate = GUARD_GATE_OPEN };
    if (engine->found.guarded) {
        struct baton_status st = gate_read(&engine->exchange, deadline_ns, &state);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    /* Behind an open gate new arrivals are counted too, and they wait for the resume. */
    if (state.gate == GUARD_GATE_OPEN) {
        return was_paused ? baton_status_hint(
                                baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_HELD,
                                                  "it was paused before: \"wait\" proves no drain"),
                                "shut or hold the gate first, or pause with \"abort\"")
                          : baton_status_ok();
    }
    return gate_empty(&engine->exchange, &state, deadline_ns);
}

/* What must hold before the pause: not asleep, and ranks that answer in step. */
static struct baton_status ready_check(struct engine *engine, uint64_t deadline_ns,
                                       bool *was_paused)
{
    struct baton_status st = vllm_is_paused(engine, deadline_ns, was_paused);
    if (baton_ok(&st) && !*was_paused) {
        st = awake_check(engine, deadline_ns);
    }
    if (baton_ok(&st)) {
        st = vllm_in_step(engine, deadline_ns);
    }
    return st;
}

static struct baton_status pause_do(struct engine *engine, enum engine_in_flight mode,
                                    bool clear_cache, uint64_t deadline_ns)
{
    bool was_paused = false;
    char path[BATON_NAME_BYTES];
    struct baton_status st = ready_check(engine, deadline_ns, &was_paused);
    if (!baton_ok(&st)) {
        return st;
    }
    (void)snprintf(path, sizeof path, "/pause?mode=%s&clear_cache=%s", mode_name(mode),
                   clear_cache ? "true" : "false");
    st = exchange_post(&engine->exchange, path, NULL, call_deadline(deadline_ns));
    if (!baton_ok(&st)) {
        return after_silence(engine, st, deadline_ns);
    }
    st = paused_check(engine, deadline_ns, true);
    if (baton_ok(&st) && mode == ENGINE_IN_FLIGHT_WAIT) {
        st = drained_check(engine, was_paused, deadline_ns);
    }
    if (baton_ok(&st) && mode == ENGINE_IN_FLIGHT_ABORT) {
        st = aborted_check(engine, deadline_ns);
    }
    return st;
}

struct baton_status vllm_pause(struct engine *engine, enum engine_in_flight mode, bool clear_cache,
                               uint64_t deadline_ns)
{
    http_begin(engine->exchange.http);
    struct baton_status st = pause_do(engine, mode, clear_cache, deadline_ns);
    st = vllm_refused(engine, st, deadline_ns);
    return baton_status_in(st, "pause %s", engine->options.name);
}

struct baton_status vllm_resume(struct engine *engine, uint64_t deadline_ns)
{
    http_begin(engine->exchange.http);
    struct baton_status st =
        exchange_post(&engine->exchange, "/resume", NULL, call_deadline(deadline_ns));
    if (baton_ok(&st)) {
        st = paused_check(engine, deadline_ns, false);
    } else {
        st = after_silence(engine, st, deadline_ns);
    }
    st = vllm_refused(engine, st, deadline_ns);
    return baton_status_in(st, "resume %s", engine->options.name);
}

/* Caches that an engine of text alone need not have. */
static struct baton_status reset_optional(struct engine *engine, const char *path,
                                          uint64_t deadline_ns)
{
    struct baton_status st = exchange_post(&engine->exchange, path, NULL, deadline_ns);
    return st.code == BATON_UNIMPLEMENTED ? baton_status_ok() : st;
}

struct baton_status vllm_invalidate(struct engine *engine, uint64_t deadline_ns)
{
    bool success = false;
    http_begin(engine->exchange.http);
    const char *path = engine->found.external_kv
                           ? "/reset_prefix_cache?reset_running_requests=true&reset_external=true"
                           : "/reset_prefix_cache?reset_running_requests=true";
    struct baton_status st = exchange_post(&engine->exchange, path, NULL, deadline_ns);
    if (baton_ok(&st)) {
        st = answer_bool(exchange_body(&engine->exchange), "success", &success);
    }
    if (baton_ok(&st) && !success) {
        st = baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_ENGINE_REFUSED,
                               "the engine did not drop its prefix cache");
    }
    if (baton_ok(&st)) {
        /* Holds outputs of weights that are gone, as the prefix cache does. */
        st = reset_optional(engine, "/reset_encoder_cache", deadline_ns);
    }
    st = vllm_refused(engine, st, deadline_ns);
    return baton_status_in(st, "invalidate %s", engine->options.name);
}
