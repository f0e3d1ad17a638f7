/* See gate.h. */
#include "agent/engine/gate.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/engine/answer.h"
#include "api/base/clock.h"

#define DRAIN_STEP_NS (2 * BATON_NS_PER_MS)

struct baton_status gate_read(struct exchange *exchange, uint64_t deadline_ns,
                              struct engine_gate_state *state)
{
    struct answer_guard guard;
    struct baton_status st = exchange_get(exchange, "/baton/guard", deadline_ns);
    if (!baton_ok(&st)) {
        return st;
    }
    st = answer_guard(exchange_body(exchange), &guard);
    if (!baton_ok(&st)) {
        return baton_status_in(st, "GET /baton/guard");
    }
    *state = (struct engine_gate_state){ .gate = guard.gate,
                                         .boots = guard.boots,
                                         .version = guard.version,
                                         .salt = guard.salt,
                                         .held = guard.held,
                                         .active = guard.active };
    memcpy(state->incarnation, guard.incarnation, sizeof state->incarnation);
    return st;
}

static const char *gate_name(enum guard_gate gate)
{
    switch (gate) {
    case GUARD_GATE_SHUT: break;
    case GUARD_GATE_OPEN: return "open";
    case GUARD_GATE_HOLD: return "hold";
    }
    return "shut";
}

static struct baton_status gate_check(const struct engine_gate_order *order,
                                      const struct engine_gate_state *state)
{
    if (state->boots != order->boots) {
        return baton_status_make(BATON_ABORTED, BATON_REASON_STALE_EPOCH,
                                 "the engine was restarted: boot %" PRIu64 ", not %" PRIu64,
                                 state->boots, order->boots);
    }
    if (state->gate != order->gate || state->version != order->version) {
        return baton_status_make(
            BATON_FAILED_PRECONDITION, BATON_REASON_ENGINE_LIED,
            "the guard reads gate %s, version %" PRIu64 "; written were %s, %" PRIu64,
            gate_name(state->gate), state->version, gate_name(order->gate), order->version);
    }
    if (state->salt != order->salt) {
        return baton_status_hint(
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_ENGINE_REFUSED,
                              "the guard %s cache salts; asked for was the contrary",
                              state->salt ? "adds" : "does not add"),
            "start the engine with a guard of this version, or use kv: flush");
    }
    return baton_status_ok();
}

struct baton_status gate_set(struct exchange *exchange, struct engine_guard *guard,
                             const struct engine_gate_order *order, uint64_t deadline_ns,
                             struct engine_gate_state *state)
{
    *state = (struct engine_gate_state){ 0 };
    if (guard == NULL) {
        return baton_status_hint(baton_status_make(BATON_UNIMPLEMENTED, BATON_REASON_INCOMPATIBLE,
                                                   "the engine has no guard page"),
                                 "set guardPage and start the engine with the guard");
    }
    engine_guard_write(guard, order);
    struct baton_status st = gate_read(exchange, deadline_ns, state);
    return baton_ok(&st) ? gate_check(order, state) : st;
}

/* The guard that answers must be the one of our page: same count of boots, same boot. */
static void guard_compare(const struct engine_guard *guard, const struct engine_gate_state *state,
                          struct engine_facts *facts)
{
    struct engine_guard_view view;
    facts->gate = state->gate;
    facts->boots = state->boots;
    facts->salt = state->salt;
    if (guard == NULL) {
        return; /* Then the server itself must tell its lives apart. */
    }
    memcpy(facts->incarnation, state->incarnation, sizeof facts->incarnation);
    engine_guard_read(guard, &view);
    facts->guarded =
        view.boots == state->boots && strcmp(view.incarnation, state->incarnation) == 0;
}

BATON_PRINTF(2, 3)
static void reason_set(struct engine_facts *facts, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(facts->way_in_reason, sizeof facts->way_in_reason, fmt, args);
    va_end(args);
}

struct baton_status gate_find(struct exchange *exchange, struct engine_guard *guard,
                              const char *page, uint64_t deadline_ns, struct engine_facts *facts)
{
    struct engine_gate_state state;
    struct baton_status st = gate_read(exchange, deadline_ns, &state);
    bool answered = exchange->answer.outcome == HTTP_ANSWERED && st.code != BATON_CANCELLED;
    if (baton_ok(&st)) {
        guard_compare(guard, &state, facts);
        if (guard != NULL && !facts->guarded) {
            reason_set(facts,
                       "the engine's guard uses another page than %s; start the engine with "
                       "BATON_GUARD_PAGE set to it",
                       page);
        }
    } else if (answered && exchange->answer.code == 403) {
        reason_set(facts, "%s; %s", st.message, st.hint);
    } else if (!answered) {
        return st;
    }
    return baton_status_ok();
}

/* Behind a gate that lets nobody in, the guard's count says who is left inside. */
struct baton_status gate_empty(struct exchange *exchange, struct engine_gate_state *state,
                               uint64_t deadline_ns)
{
    while (state->active > 0) {
        if (http_aborted(exchange->http) || baton_clock_monotonic_ns() >= deadline_ns) {
            return baton_status_make(BATON_DEADLINE_EXCEEDED, BATON_REASON_ENGINE_REFUSED,
                                     "%u requests are still inside", state->active);
        }
        http_wait(exchange->http, baton_clock_monotonic_ns() + DRAIN_STEP_NS);
        struct baton_status st = gate_read(exchange, deadline_ns, state);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    return baton_status_ok();
}
