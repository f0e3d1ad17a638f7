/* update and readback: from the landing, by SGLang's own reload of a checkpoint directory.
 *
 * Nothing that could end the server, or that it would not notice, reaches it: sglang_landing.h.  What then is resident
 * is compared with the landing where the engine tells sums that can be computed here (level "resident"), else the level
 * is "landed".  There are no fences: no answer means that the engine must be recreated. */
#include <jansson.h>
#include <string.h>

#include "agent/engine/answer.h"
#include "agent/engine/probe.h"
#include "agent/engine/sglang.h"
#include "agent/engine/sglang_landing.h"
#include "api/base/clock.h"

static void blame(struct engine_update *result, const struct sglang_fault *fault)
{
    (void)baton_text_copy(result->error_code, sizeof result->error_code,
                          fault->code[0] != '\0' ? fault->code : "INTERNAL");
    (void)baton_text_copy(result->error_tensor, sizeof result->error_tensor, fault->tensor);
}

/* An engine that generates would wait for its requests; a restarted one is another. */
static struct baton_status ready_check(struct engine *engine, uint64_t deadline_ns)
{
    bool paused = false;
    struct baton_status st = sglang_same_life(engine, deadline_ns);
    if (baton_ok(&st)) {
        st = sglang_is_paused(engine, deadline_ns, &paused);
    }
    if (baton_ok(&st) && !paused) {
        st = baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_HELD,
                               "the engine is not paused");
    }
    if (baton_ok(&st) && engine->found.way_in == ENGINE_WAY_IN_NONE) {
        st = baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                               "the engine has no way in; attach says why");
    }
    return st;
}

/* The whole of what can be known before the engine hears of it. */
static struct baton_status stage(struct engine *engine, const char *path, const char *digest,
                                 uint64_t deadline_ns, struct sglang_landing **out,
                                 struct engine_update *result)
{
    char serving[BATON_PATH_BYTES] = "";
    struct sglang_fault fault = { .code = "" };
    struct sglang_landing *landing = NULL;
    const struct sglang_limit limit = { deadline_ns, engine->exchange.http };
    uint64_t began = baton_clock_monotonic_ns();
    struct baton_status st = ready_check(engine, deadline_ns);
    if (baton_ok(&st)) {
        st = sglang_model_info(engine, "model_path", deadline_ns, serving, sizeof serving);
    }
    if (baton_ok(&st)) {
        st = sglang_landing_open(path, digest, &limit, &landing, &fault);
    }
    if (baton_ok(&st)) {
        st = sglang_landing_fits(landing, serving, &fault);
    }
    result->stage_ns = baton_clock_monotonic_ns() - began;
    if (!baton_ok(&st)) {
        blame(result, &fault);
        sglang_landing_close(landing);
        return st;
    }
    *out = landing;
    return st;
}

/* The flush is a step of its own: asked for here, its failure comes after the weights moved.  Without a
 * label: that moves with the same call, whatever was loaded. */
static struct baton_status load(struct engine *engine, const char *path, uint64_t deadline_ns,
                                struct engine_update *result)
{
    bool success = false;
    uint64_t began = baton_clock_monotonic_ns();
    json_t *request =
        json_pack("{s:s, s:b, s:b}", "model_path", path, "flush_cache", 0, "abort_all_requests", 0);
    struct baton_status st =
        probe_post(&engine->exchange, "/update_weights_from_disk", request, deadline_ns);
    result->answered = engine->exchange.answer.outcome != HTTP_NO_ANSWER;
    result->restored = engine->exchange.answer.outcome == HTTP_NOT_SENT;
    result->load_ns = baton_clock_monotonic_ns() - began;
    if (baton_ok(&st)) {
        st = answer_bool(exchange_body(&engine->exchange), "success", &success);
    }
    if (baton_ok(&st) && !success) {
        st = baton_status_make(BATON_ABORTED, BATON_REASON_ENGINE_REFUSED,
                               "it answered 200 and says that it did not load");
    }
    if (!baton_ok(&st)) {
        (void)baton_text_copy(result->error_code, sizeof result->error_code, "LOAD_FAILED");
    }
    return st;
}

/* "landed" where the engine tells nothing that could be compared. */
static struct baton_status verify(struct engine *engine, const struct sglang_landing *landing,
                                  uint64_t deadline_ns, struct engine_update *result)
{
    struct sglang_fault fault = { .code = "" };
    uint64_t began = baton_clock_monotonic_ns();
    result->level = ENGINE_LEVEL_LANDED;
    if (!engine->found.summed) {
        return baton_status_ok();
    }
    struct baton_status st = exchange_ask(&engine->exchange, "/weights_checker",
                                          "{\"action\":\"checksum\"}", deadline_ns);
    if (baton_ok(&st)) {
        st = sglang_landing_compare(landing, exchange_body(&engine->exchange), &fault);
        result->level = baton_ok(&st) ? ENGINE_LEVEL_RESIDENT : ENGINE_LEVEL_LANDED;
        st = st.code == BATON_UNIMPLEMENTED ? baton_status_ok() : st;
    }
    if (!baton_ok(&st)) {
        blame(result, &fault);
    }
    result->verify_ns = baton_clock_monotonic_ns() - began;
    return st;
}

/* Never both "ok" and a failure: a caller that looks at one of them sees the truth. */
static struct baton_status conclude(const struct engine *engine, struct baton_status st,
                                    const char *what, struct engine_update *result)
{
    result->ok = baton_ok(&st);
    if (!result->ok) {
        result->level = ENGINE_LEVEL_NONE;
        if (result->error_code[0] == '\0') {
            (void)baton_text_copy(result->error_code, sizeof result->error_code, "INTERNAL");
        }
    }
    return baton_status_in(sglang_tell(st), "%s %s", what, engine->options.name);
}

struct baton_status sglang_update(struct engine *engine, const char *path, const char *digest,
                                  const struct engine_fence *fence, uint64_t deadline_ns,
                                  struct engine_update *result)
{
    struct sglang_landing *landing = NULL;
    (void)fence;
    http_begin(engine->exchange.http);
    *result = (struct engine_update){ .answered = true, .in_step = true, .error_rank = -1 };
    struct baton_status st = stage(engine, path, digest, deadline_ns, &landing, result);
    /* Of another incarnation, or one that does not answer, nobody knows what it has. */
    result->restored =
        st.reason != BATON_REASON_STALE_EPOCH && engine->exchange.answer.outcome == HTTP_ANSWERED;
    if (baton_ok(&st)) {
        st = load(engine, path, deadline_ns, result);
    }
    if (baton_ok(&st)) {
        st = verify(engine, landing, deadline_ns, result);
        /* The old weights are gone, and what does not answer now is not known to be whole. */
        result->restored = false;
    }
    sglang_landing_close(landing);
    return conclude(engine, st, "update", result);
}

struct baton_status sglang_readback(struct engine *engine, const char *path, const char *digest,
                                    uint64_t deadline_ns, struct engine_update *result)
{
    struct sglang_landing *landing = NULL;
    struct sglang_fault fault = { .code = "" };
    const struct sglang_limit limit = { deadline_ns, engine->exchange.http };
    http_begin(engine->exchange.http);
    *result = (struct engine_update){ .answered = true, .in_step = true, .error_rank = -1 };
    if (!engine->found.summed) {
        return conclude(engine,
                        baton_status_make(BATON_UNIMPLEMENTED, BATON_REASON_INCOMPATIBLE,
                                          "what is resident cannot be read back; attach says why"),
                        "read back", result);
    }
    struct baton_status st = sglang_same_life(engine, deadline_ns);
    if (baton_ok(&st)) {
        st = sglang_landing_open(path, digest, &limit, &landing, &fault);
    }
    if (baton_ok(&st)) {
        st = verify(engine, landing, deadline_ns, result);
    } else {
        blame(result, &fault);
    }
    /* Whether a name is known is seen only here: without it, nothing was read. */
    if (baton_ok(&st) && result->level != ENGINE_LEVEL_RESIDENT) {
        st = baton_status_make(BATON_UNIMPLEMENTED, BATON_REASON_INCOMPATIBLE,
                               "not all that is resident could be compared");
    }
    sglang_landing_close(landing);
    return conclude(engine, st, "read back", result);
}
