/* pause, resume and invalidate: what an engine says of these is read back.
 *
 * Of SGLang's modes "in_place" is never used: with a request inside, the cache can then not be flushed, and an update
 * says no after it moved the weights.  "retract" puts requests back into the queue; they go on with KV of the weights
 * that are there after the resume. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/engine/sglang.h"
#include "api/base/clock.h"

/* A part of the time is kept to read back what a pause that did not answer has done. */
#define READ_BACK_NS  (500 * BATON_NS_PER_MS)
#define FLUSH_STEP_NS (50 * BATON_NS_PER_MS)

enum { FLUSH_TRIES = 20 };

/* With time t left, a quarter of it is kept, but no more than READ_BACK_NS. */
static uint64_t call_deadline(uint64_t deadline_ns)
{
    uint64_t now = baton_clock_monotonic_ns();
    uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
    return deadline_ns - (left / 4 < READ_BACK_NS ? left / 4 : READ_BACK_NS);
}

static struct baton_status lied(bool paused)
{
    return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_ENGINE_LIED,
                             "it answered yes and reads back as %s",
                             paused ? "paused" : "not paused");
}

/* The call got no answer: it may be in force.  Says which, within the time that was kept. */
static struct baton_status after_silence(struct engine *engine, struct baton_status st,
                                         uint64_t deadline_ns)
{
    bool paused = false;
    if (st.code == BATON_CANCELLED || engine->exchange.answer.outcome != HTTP_NO_ANSWER) {
        return st;
    }
    struct baton_status read = sglang_is_paused(engine, deadline_ns, &paused);
    return baton_status_hint(st, "%s",
                             !baton_ok(&read) ? "whether it is paused is unknown"
                             : paused         ? "it is paused, perhaps not drained"
                                              : "it is not paused");
}

/* SGLang has no pause that waits, and its own counts stand still in one: the guard's count is the only
 * proof, and only behind a gate that lets nobody in. */
static struct baton_status drain(struct engine *engine, uint64_t deadline_ns)
{
    struct engine_gate_state state = { .gate = GUARD_GATE_OPEN };
    if (!engine->found.guarded) {
        return baton_status_hint(
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                              "without a guard nobody knows when its requests have ended"),
            "start it with the guard (deploy/docs/sglang.md), or use inFlight: keep or abort");
    }
    struct baton_status st = gate_read(&engine->exchange, deadline_ns, &state);
    if (!baton_ok(&st)) {
        return st;
    }
    if (state.gate == GUARD_GATE_OPEN) {
        return baton_status_hint(baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_HELD,
                                                   "the gate is open: a drain would not end"),
                                 "shut or hold the gate first, or pause with \"abort\"");
    }
    return gate_empty(&engine->exchange, &state, deadline_ns);
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

static struct baton_status pause_do(struct engine *engine, enum engine_in_flight mode,
                                    uint64_t deadline_ns)
{
    bool paused = false;
    const char *body =
        mode == ENGINE_IN_FLIGHT_KEEP ? "{\"mode\":\"retract\"}" : "{\"mode\":\"abort\"}";
    struct baton_status st = mode == ENGINE_IN_FLIGHT_WAIT
                                 ? drain(engine, call_deadline(deadline_ns))
                                 : baton_status_ok();
    if (!baton_ok(&st)) {
        return st;
    }
    st = exchange_post(&engine->exchange, "/pause_generation", body, call_deadline(deadline_ns));
    if (!baton_ok(&st)) {
        return after_silence(engine, st, deadline_ns);
    }
    st = sglang_is_paused(engine, deadline_ns, &paused);
    if (baton_ok(&st) && !paused) {
        st = lied(paused);
    }
    if (baton_ok(&st) && mode == ENGINE_IN_FLIGHT_ABORT) {
        st = aborted_check(engine, deadline_ns);
    }
    return st;
}

/* Without its parameter "timeout": that waits for an empty queue, too, and a pause has none.  A batch that
 * just ended is still in the way for a moment. */
static struct baton_status flush(struct engine *engine, uint64_t deadline_ns)
{
    struct exchange *exchange = &engine->exchange;
    struct baton_status st = exchange_post(exchange, "/flush_cache", NULL, deadline_ns);
    for (unsigned i = 0; i < FLUSH_TRIES && st.code == BATON_INVALID_ARGUMENT; i++) {
        uint64_t again_ns = baton_clock_monotonic_ns() + FLUSH_STEP_NS;
        if (again_ns >= deadline_ns || http_aborted(exchange->http)) {
            break;
        }
        http_wait(exchange->http, again_ns);
        st = exchange_post(exchange, "/flush_cache", NULL, deadline_ns);
    }
    return baton_status_in(sglang_tell(st), "the cache was not flushed");
}

struct baton_status sglang_pause(struct engine *engine, enum engine_in_flight mode,
                                 bool clear_cache, uint64_t deadline_ns)
{
    http_begin(engine->exchange.http);
    struct baton_status st = pause_do(engine, mode, deadline_ns);
    if (baton_ok(&st) && clear_cache) {
        st = flush(engine, deadline_ns);
    }
    return baton_status_in(sglang_tell(st), "pause %s", engine->options.name);
}

/* Somebody's /health that came while it was paused makes /ready say no until one succeeds. */
static struct baton_status ready_again(struct engine *engine, uint64_t deadline_ns)
{
    bool paused = false;
    struct baton_status st = sglang_is_paused(engine, deadline_ns, &paused);
    if (baton_ok(&st) && paused) {
        st = exchange_get(&engine->exchange, "/health", deadline_ns);
        if (engine->exchange.answer.outcome == HTTP_ANSWERED) {
            st = sglang_is_paused(engine, deadline_ns, &paused);
        }
    }
    return baton_ok(&st) && paused ? lied(paused) : st;
}

struct baton_status sglang_resume(struct engine *engine, uint64_t deadline_ns)
{
    http_begin(engine->exchange.http);
    struct baton_status st =
        exchange_post(&engine->exchange, "/continue_generation", "{}", call_deadline(deadline_ns));
    st = baton_ok(&st) ? ready_again(engine, deadline_ns) : after_silence(engine, st, deadline_ns);
    return baton_status_in(sglang_tell(st), "resume %s", engine->options.name);
}

struct baton_status sglang_invalidate(struct engine *engine, uint64_t deadline_ns)
{
    http_begin(engine->exchange.http);
    return baton_status_in(flush(engine, deadline_ns), "invalidate %s", engine->options.name);
}
