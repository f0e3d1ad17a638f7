/* attach and health: who is there, and what can it do? */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/engine/vllm.h"
#include "agent/engine/vllm_versions.h"

BATON_PRINTF(2, 3)
static void reason_set(struct engine_facts *facts, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(facts->way_in_reason, sizeof facts->way_in_reason, fmt, args);
    va_end(args);
}

/* A refusal makes the engine unusable, which is a finding; no answer makes attach fail. */
static bool is_finding(const struct engine *engine, const struct baton_status *st)
{
    return engine->exchange.answer.outcome == HTTP_ANSWERED && st->code != BATON_CANCELLED;
}

/* Turns an answered refusal into the reason why there is no way in. */
static struct baton_status finding(const struct engine *engine, struct baton_status st,
                                   struct engine_facts *facts)
{
    if (!is_finding(engine, &st)) {
        return st;
    }
    reason_set(facts, "%s%s%s", st.message, st.hint[0] != '\0' ? "; " : "", st.hint);
    return baton_status_ok();
}

static struct baton_status find_guard(struct engine *engine, uint64_t deadline_ns,
                                      struct engine_facts *facts)
{
    struct baton_status st =
        gate_find(&engine->exchange, engine->guard, engine->options.guard_page, deadline_ns, facts);
    engine->found.guarded = facts->guarded;
    return st;
}

static struct baton_status find_software(struct engine *engine, uint64_t deadline_ns,
                                         struct engine_facts *facts)
{
    struct baton_status st = exchange_get(&engine->exchange, "/version", deadline_ns);
    if (baton_ok(&st)) {
        st = answer_text(exchange_body(&engine->exchange), "version", facts->software,
                         sizeof facts->software);
    }
    if (!baton_ok(&st)) {
        return finding(engine, st, facts);
    }
    engine->found.checksums = vllm_has(facts->software, VLLM_CHECKSUMS);
    if (vllm_minor(facts->software) < VLLM_MINOR_OLDEST) {
        reason_set(facts,
                   "version %s is too old; 0.%d or newer is needed: it has no label to read back",
                   facts->software, VLLM_MINOR_OLDEST);
    }
    return baton_status_ok();
}

static struct baton_status world_get(struct engine *engine, const char *path, uint64_t deadline_ns,
                                     uint32_t *out)
{
    struct baton_status st = exchange_get(&engine->exchange, path, deadline_ns);
    if (!baton_ok(&st)) {
        return st;
    }
    return baton_status_in(answer_count(exchange_body(&engine->exchange), "world_size", out), "%s",
                           path);
}

static struct baton_status find_world(struct engine *engine, uint64_t deadline_ns,
                                      struct engine_facts *facts)
{
    uint32_t all = 0;
    struct baton_status st =
        world_get(engine, "/get_world_size?include_dp=false", deadline_ns, &facts->world_size);
    if (baton_ok(&st)) {
        st = world_get(engine, "/get_world_size?include_dp=true", deadline_ns, &all);
    }
    if (!baton_ok(&st)) {
        return finding(engine, st, facts);
    }
    facts->ranks_all = all;
    if (facts->world_size == 0 || facts->world_size > ANSWER_RANKS_MAX) {
        reason_set(facts, "an engine of %" PRIu32 " ranks; 1 to %d are possible", facts->world_size,
                   ANSWER_RANKS_MAX);
    } else if (all != facts->world_size) {
        reason_set(facts,
                   "data parallel replicas inside one engine (%" PRIu32 " ranks of %" PRIu32
                   "); start one engine a replica",
                   facts->world_size, all);
    }
    engine->found.world_size = facts->world_size;
    return baton_status_ok();
}

static struct baton_status find_label(struct engine *engine, uint64_t deadline_ns,
                                      struct engine_facts *facts)
{
    struct baton_status st = exchange_get(&engine->exchange, "/weight_info", deadline_ns);
    if (baton_ok(&st)) {
        st = answer_text(exchange_body(&engine->exchange), "weight_version", facts->label,
                         sizeof facts->label);
    }
    if (!baton_ok(&st)) {
        (void)snprintf(facts->label, sizeof facts->label, "-");
        return is_finding(engine, &st) ? baton_status_ok() : st;
    }
    return st;
}

/* Paused shows as sleeping too; only an engine that is not paused can really be asleep. */
static struct baton_status find_activity(struct engine *engine, uint64_t deadline_ns,
                                         struct engine_facts *facts)
{
    bool sleeping = false;
    struct baton_status st = vllm_is_paused(engine, deadline_ns, &facts->paused);
    if (!baton_ok(&st)) {
        return finding(engine, st, facts);
    }
    st = exchange_get(&engine->exchange, "/is_sleeping", deadline_ns);
    if (baton_ok(&st)) {
        st = answer_bool(exchange_body(&engine->exchange), "is_sleeping", &sleeping);
    }
    facts->sleeping = sleeping && !facts->paused;
    return baton_ok(&st) || is_finding(engine, &st) ? baton_status_ok() : st;
}

static bool fence_below(const struct engine_fence *a, const struct engine_fence *b)
{
    const uint64_t left[] = { a->generation, a->n, a->owner_term, a->ticket, a->step };
    const uint64_t right[] = { b->generation, b->n, b->owner_term, b->ticket, b->step };
    for (unsigned i = 0; i < sizeof left / sizeof left[0]; i++) {
        if (left[i] != right[i]) {
            return left[i] < right[i];
        }
    }
    return false;
}

/* What holds for all ranks: the lowest fence, one digest or none, the weakest level. */
static void facts_from_report(const struct answer_report *report, struct engine_facts *facts)
{
    const struct answer_rank *first = &report->ranks[0];
    facts->fence = first->fence;
    facts->level = first->resident_level;
    facts->live = first->live;
    memcpy(facts->live_reason, first->live_why, sizeof facts->live_reason);
    memcpy(facts->resident_digest, first->resident_digest, sizeof facts->resident_digest);
    for (uint32_t i = 0; i < report->ranks_count; i++) {
        const struct answer_rank *rank = &report->ranks[i];
        facts->session_open = facts->session_open || rank->session;
        if (facts->live && !rank->live) {
            facts->live = false;
            memcpy(facts->live_reason, rank->live_why, sizeof facts->live_reason);
        }
        facts->fence = fence_below(&rank->fence, &facts->fence) ? rank->fence : facts->fence;
        facts->level = rank->resident_level < facts->level ? rank->resident_level : facts->level;
        if (strcmp(rank->resident_digest, facts->resident_digest) != 0) {
            facts->resident_digest[0] = '\0';
        }
    }
    if (facts->resident_digest[0] == '\0') {
        facts->level = ENGINE_LEVEL_NONE;
    }
}

/* The plug-in is there; it must also answer, and in step. */
static struct baton_status try_plugin(struct engine *engine, uint64_t deadline_ns,
                                      struct engine_facts *facts)
{
    struct baton_status st = vllm_report(engine, deadline_ns);
    if (!baton_ok(&st)) {
        return finding(engine, st, facts);
    }
    facts_from_report(&engine->report, facts);
    engine->found.way_in = ENGINE_WAY_IN_PLUGIN;
    st = vllm_in_step(engine, deadline_ns);
    if (!baton_ok(&st)) {
        engine->found.way_in = ENGINE_WAY_IN_NONE;
        return finding(engine, st, facts);
    }
    reason_set(facts, "weight-transfer backend baton, protocol %d", ANSWER_PROTOCOL);
    return st;
}

/* Without the plug-in, ranks can only be watched by checksums: see vllm_in_step. */
static struct baton_status try_reload(struct engine *engine, const struct answer_server *server,
                                      uint64_t deadline_ns, struct engine_facts *facts)
{
    if (engine->found.world_size > 1 && !engine->found.checksums) {
        reason_set(facts,
                   "version %s with %" PRIu32 " ranks and without the plug-in: it cannot be "
                   "seen whether its ranks answer in step",
                   facts->software, engine->found.world_size);
        return baton_status_ok();
    }
    /* Paused may mean asleep: checksums of memory that was released would end the engine. */
    struct baton_status st = facts->paused ? baton_status_ok() : vllm_in_step(engine, deadline_ns);
    if (!baton_ok(&st)) {
        return finding(engine, st, facts);
    }
    engine->found.way_in = ENGINE_WAY_IN_RELOAD;
    (void)snprintf(facts->live_reason, sizeof facts->live_reason,
                   "the engine has no weight-transfer backend baton");
    vllm_reload_reason(facts->software, server->backend, facts->way_in_reason,
                       sizeof facts->way_in_reason);
    return st;
}

static struct baton_status find_way_in(struct engine *engine, uint64_t deadline_ns,
                                       struct engine_facts *facts)
{
    struct answer_server server;
    struct baton_status st = vllm_server(engine, deadline_ns, &server);
    if (!baton_ok(&st)) {
        return finding(engine, st, facts);
    }
    facts->external_kv = server.external_kv;
    facts->sleep_mode = server.sleep_mode;
    engine->found.external_kv = server.external_kv;
    if (facts->incarnation[0] == '\0') {
        memcpy(facts->incarnation, server.instance, sizeof facts->incarnation);
    }
    facts->compiled_on_cpu = server.compiled_on_cpu;
    facts->named_by_path = server.named_by_path;
    if (strcmp(server.backend, "baton") == 0) {
        return try_plugin(engine, deadline_ns, facts);
    }
    return try_reload(engine, &server, deadline_ns, facts);
}

static struct baton_status find_model(struct engine *engine, uint64_t deadline_ns)
{
    if (engine->options.served_model[0] != '\0') {
        (void)baton_text_copy(engine->model, sizeof engine->model, engine->options.served_model);
        return baton_status_ok();
    }
    struct baton_status st = exchange_get(&engine->exchange, "/v1/models", deadline_ns);
    if (!baton_ok(&st)) {
        return st;
    }
    st = answer_model(exchange_body(&engine->exchange), engine->model, sizeof engine->model);
    return baton_status_in(st, "GET /v1/models");
}

typedef struct baton_status (*find_fn)(struct engine *engine, uint64_t deadline_ns,
                                       struct engine_facts *facts);

/* In this order; the first that finds a reason against the engine ends the search. */
static struct baton_status find_all(struct engine *engine, uint64_t deadline_ns,
                                    struct engine_facts *facts)
{
    static const find_fn STEPS[] = { find_guard, find_software, find_world,
                                     find_label, find_activity, find_way_in };
    struct baton_status st = find_model(engine, deadline_ns);
    for (unsigned i = 0; i < sizeof STEPS / sizeof STEPS[0] && baton_ok(&st); i++) {
        if (facts->way_in_reason[0] == '\0') {
            st = STEPS[i](engine, deadline_ns, facts);
        }
    }
    return st;
}

/* An attach that fails leaves the engine as the last good one found it: it may be a look at an engine
 * in use, ended by its deadline or for a swap. */
struct baton_status vllm_attach(struct engine *engine, uint64_t deadline_ns,
                                struct engine_facts *facts)
{
    const struct vllm_found before = engine->found;
    http_begin(engine->exchange.http);
    *facts = (struct engine_facts){ .label = "-" };
    engine->found = (struct vllm_found){ .way_in = ENGINE_WAY_IN_NONE };
    struct baton_status st = find_all(engine, deadline_ns, facts);
    if (!baton_ok(&st)) {
        engine->found = before;
        return baton_status_in(st, "attach to %s", engine->options.name);
    }
    facts->way_in = engine->found.way_in;
    memcpy(engine->found.incarnation, facts->incarnation, sizeof engine->found.incarnation);
    return st;
}

struct baton_status vllm_health(struct engine *engine, uint64_t deadline_ns,
                                struct engine_gate_state *state)
{
    http_begin(engine->exchange.http);
    *state = (struct engine_gate_state){ 0 };
    struct baton_status st = exchange_get(&engine->exchange, "/health", deadline_ns);
    if (baton_ok(&st) && engine->found.guarded) {
        st = gate_read(&engine->exchange, deadline_ns, state);
    } else if (baton_ok(&st)) {
        struct answer_server server;
        st = vllm_server(engine, deadline_ns, &server);
        if (baton_ok(&st)) {
            memcpy(state->incarnation, server.instance, sizeof state->incarnation);
        }
    }
    return baton_status_in(st, "health of %s", engine->options.name);
}
