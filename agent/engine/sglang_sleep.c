/* sleep and wake: memory for somebody else.
 *
 * Released with a request inside, and resumed without having been released, SGLang ends.  No route tells whether memory
 * is released: only who released it in this incarnation knows, and after a restart of the agent nobody does. */
#include <string.h>

#include "agent/engine/sglang.h"
#include "api/base/clock.h"

#define TAGS "{\"tags\":[\"kv_cache\",\"weights\"]}"

static struct baton_status fit_check(struct engine *engine, uint64_t deadline_ns)
{
    struct sglang_server server = { .memory_saver = false };
    if (!engine->found.guarded) {
        return baton_status_hint(
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                              "it runs without a guard: a request that comes while its memory is "
                              "released ends it"),
            "start it with the guard, see deploy/docs/sglang.md");
    }
    struct baton_status st = sglang_server(engine, deadline_ns, &server);
    if (baton_ok(&st) && !server.memory_saver) {
        st = baton_status_hint(baton_status_make(BATON_FAILED_PRECONDITION,
                                                 BATON_REASON_INCOMPATIBLE,
                                                 "it was started without a memory saver: it would "
                                                 "say yes and release nothing"),
                               "start it with --enable-memory-saver, on a platform that has it");
    }
    return st;
}

/* Nobody is inside behind a gate that is shut; whom the drain leaves is aborted. */
static struct baton_status empty(struct engine *engine, uint64_t drain_ns, uint64_t deadline_ns)
{
    struct engine_gate_state state = { .gate = GUARD_GATE_OPEN };
    uint64_t until_ns = baton_clock_monotonic_ns() + drain_ns;
    struct baton_status st = gate_read(&engine->exchange, deadline_ns, &state);
    if (baton_ok(&st) && state.gate == GUARD_GATE_OPEN) {
        st = baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_HELD,
                               "the gate is open: a request that came in would end the engine");
    }
    if (!baton_ok(&st)) {
        return st;
    }
    st = gate_empty(&engine->exchange, &state, until_ns < deadline_ns ? until_ns : deadline_ns);
    if (!baton_ok(&st) && st.code != BATON_DEADLINE_EXCEEDED) {
        return st;
    }
    st = exchange_post(&engine->exchange, "/pause_generation", "{\"mode\":\"abort\"}", deadline_ns);
    return baton_ok(&st) ? gate_empty(&engine->exchange, &state, deadline_ns) : st;
}

struct baton_status sglang_sleep(struct engine *engine, uint64_t drain_ns, uint64_t deadline_ns)
{
    http_begin(engine->exchange.http);
    struct baton_status st = fit_check(engine, deadline_ns);
    if (baton_ok(&st)) {
        st = sglang_same_life(engine, deadline_ns);
    }
    bool asleep = strcmp(engine->asleep, engine->found.incarnation) == 0;
    if (baton_ok(&st) && !asleep) {
        st = empty(engine, drain_ns, deadline_ns);
    }
    if (baton_ok(&st) && !asleep) {
        st = exchange_post(&engine->exchange, "/release_memory_occupation", TAGS, deadline_ns);
        if (baton_ok(&st)) {
            memcpy(engine->asleep, engine->found.incarnation, sizeof engine->asleep);
        }
    }
    return baton_status_in(sglang_tell(st), "sleep %s", engine->options.name);
}

/* Awake, or asleep by our own hand; what an earlier life of the agent did to it cannot be asked. */
static struct baton_status memory_back(struct engine *engine, uint64_t deadline_ns)
{
    if (strcmp(engine->asleep, engine->found.incarnation) != 0) {
        return engine->found.server.memory_saver
                   ? baton_status_hint(
                         baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE,
                                           "this agent did not put it to sleep: to resume memory "
                                           "that was not released would end it"),
                         "recreate the engine")
                   : baton_status_ok();
    }
    struct baton_status st =
        exchange_post(&engine->exchange, "/resume_memory_occupation", TAGS, deadline_ns);
    if (baton_ok(&st)) {
        engine->asleep[0] = '\0';
    }
    return st;
}

struct baton_status sglang_wake(struct engine *engine, uint64_t deadline_ns)
{
    bool paused = false;
    http_begin(engine->exchange.http);
    struct baton_status st = sglang_same_life(engine, deadline_ns);
    if (baton_ok(&st)) {
        st = memory_back(engine, deadline_ns);
    }
    if (baton_ok(&st)) {
        st = exchange_post(&engine->exchange, "/continue_generation", "{}", deadline_ns);
    }
    if (baton_ok(&st)) {
        st = sglang_is_paused(engine, deadline_ns, &paused);
    }
    if (baton_ok(&st) && paused) {
        st = baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_ENGINE_LIED,
                               "it answered yes and reads back as paused");
    }
    return baton_status_in(sglang_tell(st), "wake %s", engine->options.name);
}
