/* sleep and wake: memory for somebody else.
 *
 * Level 2 discards weights and KV.  /is_sleeping says yes of a pause, too, so it proves nothing:
 * waking the scheduler alone is answered with "sleeping" only while memory is released. */
#include <string.h>

#include "agent/engine/vllm.h"
#include "api/base/clock.h"

/* A wake resumes the scheduler over weights that count for nothing: only a shut gate keeps requests out
 * until they are verified. */
static struct baton_status guard_check(const struct engine *engine)
{
    if (engine->found.guarded) {
        return baton_status_ok();
    }
    return baton_status_hint(
        baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                          "it runs without a guard: awake, it would serve discarded weights"),
        "start it with the guard, see deploy/docs/vllm.md");
}

static struct baton_status mode_check(struct engine *engine, uint64_t deadline_ns)
{
    struct answer_server server = { .sleep_mode = false };
    struct baton_status st = vllm_server(engine, deadline_ns, &server);
    if (baton_ok(&st) && !server.sleep_mode) {
        st = baton_status_hint(baton_status_make(BATON_FAILED_PRECONDITION,
                                                 BATON_REASON_INCOMPATIBLE,
                                                 "it was started without sleep mode"),
                               "start it with --enable-sleep-mode, on a platform that has it");
    }
    return st;
}

/* Behind a shut gate nobody comes after; whom the drain leaves inside the sleep aborts. */
static struct baton_status drain(struct engine *engine, uint64_t drain_ns, uint64_t deadline_ns)
{
    struct engine_gate_state state = { .gate = GUARD_GATE_OPEN };
    uint64_t until_ns = baton_clock_monotonic_ns() + drain_ns;
    if (drain_ns == 0) {
        return baton_status_ok();
    }
    struct baton_status st = gate_read(&engine->exchange, deadline_ns, &state);
    if (!baton_ok(&st) || state.gate == GUARD_GATE_OPEN) {
        return st;
    }
    st = gate_empty(&engine->exchange, &state, until_ns < deadline_ns ? until_ns : deadline_ns);
    return st.code == BATON_DEADLINE_EXCEEDED ? baton_status_ok() : st;
}

static struct baton_status wake_answer(struct engine *engine, const char *wanted)
{
    char status[BATON_NAME_BYTES] = "";
    struct baton_status st =
        answer_text(exchange_body(&engine->exchange), "status", status, sizeof status);
    if (baton_ok(&st) && strcmp(status, wanted) != 0) {
        st = baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_ENGINE_LIED,
                               "it reads back as %.40s, not %s", status, wanted);
    }
    return st;
}

static struct baton_status asleep_check(struct engine *engine, uint64_t deadline_ns)
{
    struct engine_gate_state state = { .gate = GUARD_GATE_OPEN };
    struct baton_status st =
        exchange_post(&engine->exchange, "/wake_up?tags=scheduling", NULL, deadline_ns);
    if (baton_ok(&st)) {
        st = wake_answer(engine, "sleeping");
    }
    if (baton_ok(&st)) {
        st = gate_read(&engine->exchange, deadline_ns, &state);
    }
    return baton_ok(&st) && state.gate != GUARD_GATE_OPEN
               ? gate_empty(&engine->exchange, &state, deadline_ns)
               : st;
}

struct baton_status vllm_sleep(struct engine *engine, uint64_t drain_ns, uint64_t deadline_ns)
{
    bool paused = false;
    http_begin(engine->exchange.http);
    struct baton_status st = guard_check(engine);
    if (baton_ok(&st)) {
        st = mode_check(engine, deadline_ns);
    }
    if (baton_ok(&st)) {
        st = vllm_is_paused(engine, deadline_ns, &paused);
    }
    if (baton_ok(&st) && !paused) { /* Else it may be asleep already: see vllm_attach.c. */
        st = vllm_in_step(engine, deadline_ns);
    }
    if (baton_ok(&st)) {
        st = drain(engine, drain_ns, deadline_ns);
    }
    if (baton_ok(&st)) {
        st = exchange_post(&engine->exchange, "/sleep?level=2&mode=abort", NULL, deadline_ns);
    }
    if (baton_ok(&st)) {
        st = asleep_check(engine, deadline_ns);
    }
    return baton_status_in(st, "sleep %s", engine->options.name);
}

struct baton_status vllm_wake(struct engine *engine, uint64_t deadline_ns)
{
    bool paused = false;
    http_begin(engine->exchange.http);
    struct baton_status st = exchange_post(&engine->exchange, "/wake_up", NULL, deadline_ns);
    if (baton_ok(&st)) {
        st = wake_answer(engine, "awake");
    }
    if (baton_ok(&st)) {
        st = vllm_is_paused(engine, deadline_ns, &paused);
    }
    if (baton_ok(&st) && paused) {
        st = baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_ENGINE_LIED,
                               "it answered yes and reads back as paused");
    }
    st = vllm_refused(engine, st, deadline_ns);
    return baton_status_in(st, "wake %s", engine->options.name);
}
