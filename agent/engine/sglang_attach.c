/* attach and health: who is there, and what can it do?  And the questions that other parts ask, too. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/engine/answer.h"
#include "agent/engine/sglang.h"
#include "agent/engine/sglang_dialect.h"

BATON_PRINTF(2, 3)
static void reason_set(struct engine_facts *facts, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(facts->way_in_reason, sizeof facts->way_in_reason, fmt, args);
    va_end(args);
}

struct baton_status sglang_tell(struct baton_status st)
{
    char text[sizeof st.message];
    if (!baton_ok(&st)) {
        sglang_answer_hide_paths(st.message, text, sizeof text);
        memcpy(st.message, text, sizeof text);
    }
    return st;
}

struct baton_status sglang_server(struct engine *engine, uint64_t deadline_ns,
                                  struct sglang_server *out)
{
    struct baton_status st = exchange_get(&engine->exchange, "/server_info", deadline_ns);
    if (baton_ok(&st)) {
        st = sglang_answer_server(exchange_body(&engine->exchange), out);
    }
    return baton_status_in(st, "GET /server_info");
}

struct baton_status sglang_model_info(struct engine *engine, const char *key, uint64_t deadline_ns,
                                      char *out, size_t out_bytes)
{
    struct baton_status st = exchange_get(&engine->exchange, "/model_info", deadline_ns);
    if (baton_ok(&st)) {
        st = answer_text(exchange_body(&engine->exchange), key, out, out_bytes);
    }
    return baton_status_in(st, "GET /model_info");
}

struct baton_status sglang_is_paused(struct engine *engine, uint64_t deadline_ns, bool *out)
{
    struct baton_status st = exchange_get(&engine->exchange, "/ready", deadline_ns);
    bool no =
        engine->exchange.answer.outcome == HTTP_ANSWERED && engine->exchange.answer.code == 503;
    *out = no;
    return no ? baton_status_ok() : st;
}

static struct baton_status incarnation_now(struct engine *engine, uint64_t deadline_ns,
                                           char out[BATON_UID_TEXT_BYTES])
{
    struct engine_gate_state state;
    struct sglang_server server;
    if (!engine->found.guarded) {
        struct baton_status st = sglang_server(engine, deadline_ns, &server);
        if (baton_ok(&st)) {
            memcpy(out, server.incarnation, sizeof server.incarnation);
        }
        return st;
    }
    struct baton_status st = gate_read(&engine->exchange, deadline_ns, &state);
    if (baton_ok(&st)) {
        memcpy(out, state.incarnation, sizeof state.incarnation);
    }
    return st;
}

struct baton_status sglang_same_life(struct engine *engine, uint64_t deadline_ns)
{
    char now[BATON_UID_TEXT_BYTES] = "";
    struct baton_status st = incarnation_now(engine, deadline_ns, now);
    if (baton_ok(&st) && strcmp(now, engine->found.incarnation) != 0) {
        st = baton_status_make(BATON_ABORTED, BATON_REASON_STALE_EPOCH,
                               "the engine was restarted: incarnation %s, not %s", now,
                               engine->found.incarnation);
    }
    return st;
}

/* What of a server's set-up speaks against any way in; null: nothing. */
static const char *objection(const struct sglang_server *server)
{
    if (server->dp > 1) {
        return "data parallel replicas inside one engine; start one engine a replica";
    }
    if (server->pp > 1 || server->nodes > 1) {
        return "pipeline stages or several nodes; start it with --pp-size 1 --nnodes 1";
    }
    if (server->frontends > 1) {
        return "several tokenizer workers: a pause reaches one of them; start it with "
               "--tokenizer-worker-num 1";
    }
    if (server->draft) {
        return "a speculative draft model is not verified; start it without one";
    }
    if (server->disaggregated) {
        return "prefill and decode are apart: they cannot be swapped as one";
    }
    if (server->external_kv) {
        return "its flush leaves KV in the storage of --hicache-storage-backend; start it without";
    }
    return NULL;
}

static struct baton_status find_server(struct engine *engine, uint64_t deadline_ns,
                                       struct engine_facts *facts)
{
    struct sglang_server *server = &engine->found.server;
    struct baton_status st = sglang_server(engine, deadline_ns, server);
    if (!baton_ok(&st)) {
        return st;
    }
    memcpy(facts->software, server->software, sizeof facts->software);
    if (facts->incarnation[0] == '\0') {
        memcpy(facts->incarnation, server->incarnation, sizeof facts->incarnation);
    }
    facts->world_size = server->tp;
    facts->ranks_all = server->tp * server->dp * server->pp;
    facts->sleep_mode = server->memory_saver;
    facts->external_kv = server->external_kv;
    const char *against = objection(server);
    if (against != NULL) {
        reason_set(facts, "%s", against);
    }
    return st;
}

/* Without the key, control routes refuse: a body that lacks its field changes nothing, and is answered
 * 400 only to whoever may. */
static struct baton_status find_key(struct engine *engine, uint64_t deadline_ns,
                                    struct engine_facts *facts)
{
    struct baton_status st =
        exchange_ask(&engine->exchange, "/update_weight_version", "{}", deadline_ns);
    uint32_t code = engine->exchange.answer.code;
    if (engine->exchange.answer.outcome != HTTP_ANSWERED) {
        return st;
    }
    if (code == 401 || code == 403) {
        reason_set(facts, "it refuses the key in %.200s: start it with --admin-api-key, the same",
                   engine->options.token_file[0] != '\0' ? engine->options.token_file
                                                         : "tokenFile (none is set)");
    }
    return baton_status_ok();
}

static struct baton_status find_state(struct engine *engine, uint64_t deadline_ns,
                                      struct engine_facts *facts)
{
    struct baton_status st =
        sglang_model_info(engine, "weight_version", deadline_ns, facts->label, sizeof facts->label);
    if (baton_ok(&st)) {
        st = sglang_is_paused(engine, deadline_ns, &facts->paused);
    }
    facts->sleeping = engine->asleep[0] != '\0' && strcmp(engine->asleep, facts->incarnation) == 0;
    return st;
}

/* Why residents cannot be read back; null: they can. */
static const char *unsummed(const struct sglang_server *server)
{
    return server->tp > 1      ? "several ranks"
           : server->quantized ? "quantised weights"
           : !server->cpu      ? "sums that a GPU computes"
                               : NULL;
}

static struct baton_status find_way_in(struct engine *engine, uint64_t deadline_ns,
                                       struct engine_facts *facts)
{
    char dialects[BATON_TEXT_BYTES];
    struct baton_status st = exchange_get(&engine->exchange, "/openapi.json", deadline_ns);
    if (!baton_ok(&st)) {
        return st;
    }
    const struct sglang_dialect *dialect =
        sglang_dialect_choose(exchange_body(&engine->exchange), dialects, sizeof dialects);
    const char *why = unsummed(&engine->found.server);
    engine->found.summed = why == NULL;
    engine->found.way_in = dialect != NULL ? ENGINE_WAY_IN_RELOAD : ENGINE_WAY_IN_NONE;
    reason_set(facts, "%s%s%s%s", dialects, dialect != NULL ? "; residents: " : "",
               dialect == NULL ? ""
               : why == NULL   ? "verified"
                               : "not verified, ",
               dialect != NULL && why != NULL ? why : "");
    (void)snprintf(facts->live_reason, sizeof facts->live_reason,
                   "SGLang cannot change weights between two steps");
    return st;
}

typedef struct baton_status (*find_fn)(struct engine *engine, uint64_t deadline_ns,
                                       struct engine_facts *facts);

static struct baton_status find_guard(struct engine *engine, uint64_t deadline_ns,
                                      struct engine_facts *facts)
{
    struct baton_status st =
        gate_find(&engine->exchange, engine->guard, engine->options.guard_page, deadline_ns, facts);
    engine->found.guarded = facts->guarded;
    return st;
}

/* A refusal makes the engine unusable, which is a finding; no answer makes attach fail. */
static bool is_finding(const struct engine *engine, const struct baton_status *st)
{
    return engine->exchange.answer.outcome == HTTP_ANSWERED && st->code != BATON_CANCELLED;
}

/* In this order; the first that finds a reason against the engine ends the search. */
static struct baton_status find_all(struct engine *engine, uint64_t deadline_ns,
                                    struct engine_facts *facts)
{
    static const find_fn STEPS[] = { find_guard, find_server, find_state, find_key, find_way_in };
    for (unsigned i = 0; i < sizeof STEPS / sizeof STEPS[0]; i++) {
        struct baton_status st = STEPS[i](engine, deadline_ns, facts);
        if (!baton_ok(&st) && !is_finding(engine, &st)) {
            return st;
        }
        if (!baton_ok(&st)) {
            st = sglang_tell(st);
            reason_set(facts, "%s", st.message);
        }
        if (facts->way_in_reason[0] != '\0') {
            break;
        }
    }
    return baton_status_ok();
}

/* An attach that fails leaves the engine as the last good one found it: it may be a look at an engine
 * in use, ended by its deadline or for a swap. */
struct baton_status sglang_attach(struct engine *engine, uint64_t deadline_ns,
                                  struct engine_facts *facts)
{
    const struct sglang_found before = engine->found;
    http_begin(engine->exchange.http);
    *facts = (struct engine_facts){ .label = "-" };
    engine->found = (struct sglang_found){ .way_in = ENGINE_WAY_IN_NONE };
    struct baton_status st = find_all(engine, deadline_ns, facts);
    if (!baton_ok(&st)) {
        engine->found = before;
        return baton_status_in(st, "attach to %s", engine->options.name);
    }
    facts->way_in = engine->found.way_in;
    memcpy(engine->found.incarnation, facts->incarnation, sizeof engine->found.incarnation);
    return st;
}

/* /health would generate, wait a second at least, and, of a paused engine, 20 s to mark it unhealthy. */
struct baton_status sglang_health(struct engine *engine, uint64_t deadline_ns,
                                  struct engine_gate_state *state)
{
    struct sglang_server server;
    http_begin(engine->exchange.http);
    *state = (struct engine_gate_state){ 0 };
    struct baton_status st = sglang_server(engine, deadline_ns, &server);
    if (baton_ok(&st) && engine->found.guarded) {
        st = gate_read(&engine->exchange, deadline_ns, state);
    } else if (baton_ok(&st)) {
        memcpy(state->incarnation, server.incarnation, sizeof state->incarnation);
    }
    return baton_status_in(sglang_tell(st), "health of %s", engine->options.name);
}
