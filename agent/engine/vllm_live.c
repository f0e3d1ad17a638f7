/* prepare and swap_live: the plug-in's two calls beside a serving engine.
 *
 * Both run on the worker's thread between two steps, so the engine is neither paused nor told of a
 * session: nothing of its own is open while requests run. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "agent/engine/vllm.h"

/* {"landing":…,"version_digest":…,"fence":[…]}; without a landing where that is null. */
static char *live_kwargs(const char *landing, const char *digest, const struct engine_fence *fence)
{
    json_t *root = json_pack("{s:s*, s:s, s:[I, I, I, I, I]}", "landing", landing, "version_digest",
                             digest, "fence", (json_int_t)fence->generation, (json_int_t)fence->n,
                             (json_int_t)fence->owner_term, (json_int_t)fence->ticket,
                             (json_int_t)fence->step);
    char *kwargs = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return kwargs;
}

/* The call, and the report in its answer.  What a call without an answer did is unknown, and a
 * refusal with several ranks may have left answers behind. */
static struct baton_status ask(struct engine *engine, const char *method, const char *kwargs,
                               uint64_t deadline_ns, struct engine_update *result)
{
    struct baton_status st = vllm_rpc(engine, method, kwargs, deadline_ns);
    if (baton_ok(&st)) {
        st = answer_report(exchange_body(&engine->exchange), engine->found.world_size,
                           &engine->report);
        result->in_step = st.reason != BATON_REASON_ENGINE_LIED;
        return st;
    }
    result->answered = engine->exchange.answer.outcome != HTTP_NO_ANSWER;
    if (engine->exchange.answer.outcome == HTTP_ANSWERED) {
        struct baton_status step = vllm_in_step(engine, deadline_ns);
        result->in_step = step.reason != BATON_REASON_ENGINE_LIED;
    }
    return st;
}

static struct baton_status check(struct engine *engine, uint64_t deadline_ns)
{
    if (engine->found.way_in != ENGINE_WAY_IN_PLUGIN) {
        return baton_status_make(BATON_UNIMPLEMENTED, BATON_REASON_INCOMPATIBLE,
                                 "without the plug-in weights cannot change between two steps");
    }
    return vllm_same_life(engine, deadline_ns);
}

struct baton_status vllm_prepare(struct engine *engine, const char *landing, const char *digest,
                                 const struct engine_fence *fence, uint64_t deadline_ns,
                                 struct engine_update *result)
{
    http_begin(engine->exchange.http);
    *result = (struct engine_update){ .answered = true, .in_step = true, .error_rank = -1 };
    char *kwargs = live_kwargs(landing, digest, fence);
    struct baton_status st = check(engine, deadline_ns);
    if (baton_ok(&st) && kwargs == NULL) {
        st = baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                               "the landing's path is not UTF-8");
    }
    if (baton_ok(&st)) {
        st = ask(engine, "baton_prepare", kwargs, deadline_ns, result);
    }
    if (baton_ok(&st)) {
        st = answer_sum(&engine->report, ANSWER_STAGED, digest, fence, result);
    }
    free(kwargs);
    return vllm_conclude(engine, st, "prepare", result);
}

struct baton_status vllm_swap_live(struct engine *engine, const char *digest,
                                   const struct engine_fence *fence, uint64_t deadline_ns,
                                   struct engine_update *result)
{
    http_begin(engine->exchange.http);
    *result = (struct engine_update){ .answered = true, .in_step = true, .error_rank = -1 };
    char *kwargs = live_kwargs(NULL, digest, fence);
    struct baton_status st = check(engine, deadline_ns);
    if (baton_ok(&st)) {
        baton_assert(kwargs != NULL); /* A digest and numbers. */
        st = ask(engine, "baton_live", kwargs, deadline_ns, result);
    }
    if (baton_ok(&st)) {
        st = answer_sum(&engine->report, ANSWER_APPLIED, digest, fence, result);
    }
    free(kwargs);
    return vllm_conclude(engine, st, "swap live", result);
}
