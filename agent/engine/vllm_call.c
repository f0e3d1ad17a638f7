/* The calls that all operations share. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/engine/vllm.h"

enum { RPC_BODY_BYTES = 2 * BATON_PATH_BYTES };

static struct baton_status rpc(struct engine *engine, const char *method, const char *kwargs,
                               bool repeatable, uint64_t deadline_ns)
{
    char body[RPC_BODY_BYTES];
    int length = kwargs == NULL ? snprintf(body, sizeof body, "{\"method\":\"%s\"}", method)
                                : snprintf(body, sizeof body, "{\"method\":\"%s\",\"kwargs\":%s}",
                                           method, kwargs);
    if (length < 0 || (size_t)length >= sizeof body) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "%s: the request is longer than %d bytes", method, RPC_BODY_BYTES);
    }
    struct exchange *exchange = &engine->exchange;
    struct baton_status st = repeatable
                                 ? exchange_ask(exchange, "/collective_rpc", body, deadline_ns)
                                 : exchange_post(exchange, "/collective_rpc", body, deadline_ns);
    return baton_status_in(st, "%s", method);
}

struct baton_status vllm_rpc(struct engine *engine, const char *method, const char *kwargs,
                             uint64_t deadline_ns)
{
    return rpc(engine, method, kwargs, false, deadline_ns);
}

/* A method that never raises was answered with an error: with several ranks, it is another call's. */
static struct baton_status others_error(const struct engine *engine, struct baton_status st)
{
    if (baton_ok(&st) || engine->found.world_size < 2 ||
        engine->exchange.answer.outcome != HTTP_ANSWERED || engine->exchange.answer.code < 500) {
        return st;
    }
    return baton_status_hint(baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_ENGINE_LIED,
                                               "the engine's reply channel is out of step: %.200s",
                                               st.message),
                             "recreate the engine");
}

struct baton_status vllm_report(struct engine *engine, uint64_t deadline_ns)
{
    struct baton_status st = rpc(engine, "baton_report", NULL, true, deadline_ns);
    if (!baton_ok(&st)) {
        return others_error(engine, st);
    }
    st = answer_report(exchange_body(&engine->exchange), engine->found.world_size, &engine->report);
    return baton_status_in(st, "baton_report");
}

/* The first of the two calls: any that every rank answers with something and that raises nowhere. */
static struct baton_status ask_something(struct engine *engine, uint64_t deadline_ns)
{
    if (engine->found.way_in == ENGINE_WAY_IN_PLUGIN) {
        return vllm_report(engine, deadline_ns);
    }
    return others_error(engine, rpc(engine, "compute_weight_checksums", NULL, true, deadline_ns));
}

struct baton_status vllm_in_step(struct engine *engine, uint64_t deadline_ns)
{
    if (engine->found.world_size < 2) {
        return baton_status_ok();
    }
    struct baton_status st = ask_something(engine, deadline_ns);
    if (baton_ok(&st)) {
        st = others_error(engine, rpc(engine, "check_health", NULL, true, deadline_ns));
    }
    if (baton_ok(&st)) {
        st = answer_nulls(exchange_body(&engine->exchange), engine->found.world_size);
    }
    return baton_status_in(st, "reply channel");
}

struct baton_status vllm_refused(struct engine *engine, struct baton_status st,
                                 uint64_t deadline_ns)
{
    if (baton_ok(&st) || engine->found.world_size < 2 ||
        engine->exchange.answer.outcome != HTTP_ANSWERED || engine->exchange.answer.code < 500) {
        return st;
    }
    struct baton_status step = vllm_in_step(engine, deadline_ns);
    return step.reason == BATON_REASON_ENGINE_LIED ? step : st;
}

struct baton_status vllm_server(struct engine *engine, uint64_t deadline_ns,
                                struct answer_server *out)
{
    struct baton_status st =
        exchange_get(&engine->exchange, "/server_info?config_format=json", deadline_ns);
    if (!baton_ok(&st)) {
        return st;
    }
    return baton_status_in(answer_server(exchange_body(&engine->exchange), out),
                           "GET /server_info");
}

static struct baton_status incarnation_now(struct engine *engine, uint64_t deadline_ns,
                                           char out[BATON_UID_TEXT_BYTES])
{
    if (engine->found.guarded) {
        struct engine_gate_state state;
        struct baton_status st = gate_read(&engine->exchange, deadline_ns, &state);
        if (baton_ok(&st)) {
            memcpy(out, state.incarnation, sizeof state.incarnation);
        }
        return st;
    }
    struct answer_server server;
    struct baton_status st = vllm_server(engine, deadline_ns, &server);
    if (baton_ok(&st)) {
        memcpy(out, server.instance, sizeof server.instance);
    }
    return st;
}

struct baton_status vllm_same_life(struct engine *engine, uint64_t deadline_ns)
{
    char now[BATON_UID_TEXT_BYTES];
    struct baton_status st = incarnation_now(engine, deadline_ns, now);
    if (!baton_ok(&st)) {
        return st;
    }
    if (strcmp(now, engine->found.incarnation) != 0) {
        return baton_status_make(BATON_ABORTED, BATON_REASON_STALE_EPOCH,
                                 "the engine was restarted: incarnation %s, not %s", now,
                                 engine->found.incarnation);
    }
    return st;
}

struct baton_status vllm_is_paused(struct engine *engine, uint64_t deadline_ns, bool *out)
{
    struct baton_status st = exchange_get(&engine->exchange, "/is_paused", deadline_ns);
    if (!baton_ok(&st)) {
        return st;
    }
    return baton_status_in(answer_bool(exchange_body(&engine->exchange), "is_paused", out),
                           "GET /is_paused");
}
