/* update and readback through the plug-in: stage, verdict, apply, verdict. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "agent/engine/vllm.h"
#include "api/base/bytes.h"

/* One update under way. */
struct update {
    struct engine *engine;
    const char *landing;
    const char *digest;
    const struct engine_fence *fence;
    uint64_t deadline_ns;
    struct engine_update *result;
};

/* A mutating call.  What it changed is unknown where no answer came, and a refusal with several ranks
 * may have left answers behind. */
static struct baton_status mutate(struct update *update, const char *path, const char *body)
{
    struct engine *engine = update->engine;
    struct baton_status st = exchange_post(&engine->exchange, path, body, update->deadline_ns);
    if (baton_ok(&st)) {
        return st;
    }
    if (engine->exchange.answer.outcome == HTTP_NO_ANSWER) {
        update->result->answered = false;
        return st;
    }
    if (engine->exchange.answer.outcome == HTTP_ANSWERED) {
        struct baton_status step = vllm_in_step(engine, update->deadline_ns);
        update->result->in_step = step.reason != BATON_REASON_ENGINE_LIED;
    }
    return st;
}

/* The ranks' reports; an answer that is another call's shows here first. */
static struct baton_status report(struct update *update)
{
    struct baton_status st = vllm_report(update->engine, update->deadline_ns);
    if (st.reason == BATON_REASON_ENGINE_LIED) {
        update->result->in_step = false;
    }
    return st;
}

static struct baton_status initialise(struct update *update)
{
    if (update->engine->found.initialised) {
        return baton_status_ok();
    }
    struct baton_status st =
        mutate(update, "/init_weight_transfer_engine", "{\"init_info\":{\"protocol\":1}}");
    update->engine->found.initialised = baton_ok(&st);
    return st;
}

/* How many ranks have a session open, by the last report. */
static uint32_t sessions_count(const struct answer_report *found)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < found->ranks_count; i++) {
        count += found->ranks[i].session ? 1 : 0;
    }
    return count;
}

/* A session that an interrupted update left open is used again: staging starts afresh in it, and a
 * second start would be an error. */
static struct baton_status session_open(struct update *update)
{
    const struct answer_report *found = &update->engine->report;
    struct baton_status st = report(update);
    if (!baton_ok(&st)) {
        return st;
    }
    uint32_t open = sessions_count(found);
    if (open != 0 && open != found->ranks_count) {
        /* No call can mend it: each one would raise on some rank. */
        update->result->in_step = false;
        return baton_status_hint(
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_ENGINE_REFUSED,
                              "an update is open on %" PRIu32 " of %" PRIu32 " ranks", open,
                              found->ranks_count),
            "recreate the engine");
    }
    return open > 0 ? baton_status_ok() : mutate(update, "/start_weight_update", NULL);
}

static char *stage_body(const struct update *update)
{
    const struct engine_fence *fence = update->fence;
    json_t *root =
        json_pack("{s:{s:s, s:s, s:[I, I, I, I, I]}}", "update_info", "landing", update->landing,
                  "version_digest", update->digest, "fence", (json_int_t)fence->generation,
                  (json_int_t)fence->n, (json_int_t)fence->owner_term, (json_int_t)fence->ticket,
                  (json_int_t)fence->step);
    char *body = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return body;
}

static struct baton_status stage(struct update *update)
{
    char *body = stage_body(update);
    if (body == NULL) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "the landing's path is not UTF-8");
    }
    struct baton_status st = mutate(update, "/update_weights", body);
    free(body);
    if (baton_ok(&st)) {
        st = report(update);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    st = answer_sum(&update->engine->report, ANSWER_STAGED, update->digest, update->fence,
                    update->result);
    return baton_status_in(st, "stage");
}

static struct baton_status apply(struct update *update)
{
    struct baton_status st = mutate(update, "/finish_weight_update", NULL);
    /* An answered refusal: what the ranks say of it decides. */
    if (!baton_ok(&st) && (!update->result->answered || !update->result->in_step)) {
        return st;
    }
    struct baton_status read = report(update);
    if (!baton_ok(&read)) {
        return baton_ok(&st) ? read : st;
    }
    read = answer_sum(&update->engine->report, ANSWER_APPLIED, update->digest, update->fence,
                      update->result);
    return baton_status_in(read, "apply");
}

/* Ends the session of a failed staging: with ranks that did not all stage, finish touches nothing.  It
 * is sent only where all ranks have a session: elsewhere it would raise.  The staging's error stays
 * the update's; whether the old tensors are all there is asked again. */
static void stage_give_up(struct update *update)
{
    struct engine_update staging = *update->result;
    const struct answer_report *found = &update->engine->report;
    struct baton_status st = report(update);
    uint32_t open = baton_ok(&st) ? sessions_count(found) : 0;
    if (baton_ok(&st) && open == found->ranks_count) {
        st = apply(update);
    } else if (baton_ok(&st) && open == 0) {
        st = answer_sum(found, ANSWER_APPLIED, update->digest, update->fence, update->result);
    }
    /* "Failed" is what is expected of both; only what they found out counts. */
    staging.answered = update->result->answered;
    staging.in_step = update->result->in_step;
    staging.restored = update->result->restored && !baton_ok(&st);
    *update->result = staging;
}

static struct baton_status run(struct update *update)
{
    struct baton_status st = initialise(update);
    if (baton_ok(&st)) {
        st = session_open(update);
    }
    if (!baton_ok(&st)) {
        /* It answers, and no rank was asked to load anything yet. */
        update->result->restored = update->engine->exchange.answer.outcome == HTTP_ANSWERED;
        return st;
    }
    st = stage(update);
    if (baton_ok(&st)) {
        return apply(update);
    }
    if (update->result->answered && update->result->in_step) {
        stage_give_up(update);
    }
    return st;
}

/* Generation between start and finish would kill the engine, and a restarted one is another. */
static struct baton_status ready_check(struct engine *engine, uint64_t deadline_ns)
{
    bool paused = false;
    struct baton_status st = vllm_same_life(engine, deadline_ns);
    if (baton_ok(&st)) {
        st = vllm_is_paused(engine, deadline_ns, &paused);
    }
    if (baton_ok(&st) && !paused) {
        st = baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_HELD,
                               "the engine is not paused");
    }
    return st;
}

struct baton_status vllm_conclude(struct engine *engine, struct baton_status st, const char *what,
                                  struct engine_update *result)
{
    if (!baton_ok(&st)) {
        result->ok = false;
        result->level = ENGINE_LEVEL_NONE;
        if (result->error_code[0] == '\0') {
            (void)baton_text_copy(result->error_code, sizeof result->error_code, "INTERNAL");
        }
    }
    if (!result->answered || !result->in_step) {
        result->restored = false;
    }
    return baton_status_in(st, "%s %s", what, engine->options.name);
}

struct baton_status vllm_update(struct engine *engine, const char *landing, const char *digest,
                                const struct engine_fence *fence, uint64_t deadline_ns,
                                struct engine_update *result)
{
    struct update update = { engine, landing, digest, fence, deadline_ns, result };
    http_begin(engine->exchange.http);
    *result = (struct engine_update){ .answered = true, .in_step = true, .error_rank = -1 };
    struct baton_status st = ready_check(engine, deadline_ns);
    if (!baton_ok(&st)) {
        result->restored = st.reason == BATON_REASON_HELD;
        return vllm_conclude(engine, st, "update", result);
    }
    switch (engine->found.way_in) {
    case ENGINE_WAY_IN_PLUGIN: st = run(&update); break;
    case ENGINE_WAY_IN_RELOAD:
        st = vllm_reload(engine, landing, digest, deadline_ns, result);
        break;
    case ENGINE_WAY_IN_NONE:
        result->restored = true;
        st = baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                               "the engine has no way in; attach says why");
        break;
    }
    return vllm_conclude(engine, st, "update", result);
}

static char *readback_kwargs(const char *landing, const char *digest)
{
    json_t *root = json_pack("{s:s, s:s}", "landing", landing, "version_digest", digest);
    char *body = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return body;
}

static struct baton_status readback_do(struct engine *engine, const char *landing,
                                       const char *digest, uint64_t deadline_ns,
                                       struct engine_update *result)
{
    char *kwargs = readback_kwargs(landing, digest);
    if (kwargs == NULL) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "the landing's path is not UTF-8");
    }
    struct baton_status st = vllm_rpc(engine, "baton_readback", kwargs, deadline_ns);
    free(kwargs);
    result->answered = engine->exchange.answer.outcome != HTTP_NO_ANSWER;
    if (baton_ok(&st)) {
        st = answer_report(exchange_body(&engine->exchange), engine->found.world_size,
                           &engine->report);
        result->in_step = st.reason != BATON_REASON_ENGINE_LIED;
    }
    if (baton_ok(&st)) {
        st = answer_sum(&engine->report, ANSWER_READBACK, digest, NULL, result);
    }
    return st;
}

struct baton_status vllm_readback(struct engine *engine, const char *landing, const char *digest,
                                  uint64_t deadline_ns, struct engine_update *result)
{
    http_begin(engine->exchange.http);
    *result = (struct engine_update){ .answered = true, .in_step = true, .error_rank = -1 };
    if (engine->found.way_in != ENGINE_WAY_IN_PLUGIN) {
        return vllm_conclude(engine,
                             baton_status_make(BATON_UNIMPLEMENTED, BATON_REASON_INCOMPATIBLE,
                                               "weights cannot be read back without the plug-in"),
                             "read back", result);
    }
    struct baton_status st = vllm_same_life(engine, deadline_ns);
    if (baton_ok(&st)) {
        st = readback_do(engine, landing, digest, deadline_ns, result);
    }
    return vllm_conclude(engine, st, "read back", result);
}
