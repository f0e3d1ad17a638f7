#include "agent/engine/sglang.h"

#include <stdlib.h>
#include <string.h>

static void sglang_close(struct engine *engine)
{
    if (engine == NULL) {
        return;
    }
    exchange_close(&engine->exchange);
    engine_guard_close(engine->guard);
    free(engine);
}

static struct baton_status sglang_open(const struct engine_options *options, struct engine **out)
{
    struct engine *engine = calloc(1, sizeof *engine);
    if (engine == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT, "no memory");
    }
    engine->options = *options;
    struct baton_status st = exchange_open(options, true, &engine->exchange);
    if (baton_ok(&st) && options->guard_page[0] != '\0') {
        st = engine_guard_open(options->guard_page, &engine->guard);
    }
    if (!baton_ok(&st)) {
        sglang_close(engine);
        return baton_status_in(st, "engine %s", options->name);
    }
    *out = engine;
    return st;
}

static void sglang_abort(struct engine *engine)
{
    http_abort(engine->exchange.http);
}

static struct baton_status sglang_set_gate(struct engine *engine,
                                           const struct engine_gate_order *order,
                                           uint64_t deadline_ns, struct engine_gate_state *state)
{
    http_begin(engine->exchange.http);
    struct baton_status st = gate_set(&engine->exchange, engine->guard, order, deadline_ns, state);
    return baton_status_in(st, "gate of %s", engine->options.name);
}

static struct baton_status sglang_raise_fence(struct engine *engine,
                                              const struct engine_fence *fence,
                                              uint64_t deadline_ns)
{
    (void)fence;
    (void)deadline_ns;
    return baton_status_make(BATON_UNIMPLEMENTED, BATON_REASON_INCOMPATIBLE,
                             "engine %s: SGLang has no fences", engine->options.name);
}

static struct baton_status no_live(const struct engine *engine, struct engine_update *result)
{
    *result = (struct engine_update){
        .answered = true, .in_step = true, .restored = true, .error_rank = -1
    };
    return baton_status_make(BATON_UNIMPLEMENTED, BATON_REASON_INCOMPATIBLE,
                             "engine %s: SGLang cannot change weights between two steps",
                             engine->options.name);
}

static struct baton_status sglang_prepare(struct engine *engine, const char *landing,
                                          const char *digest, const struct engine_fence *fence,
                                          uint64_t deadline_ns, struct engine_update *result)
{
    (void)landing;
    (void)digest;
    (void)fence;
    (void)deadline_ns;
    return no_live(engine, result);
}

static struct baton_status sglang_swap_live(struct engine *engine, const char *digest,
                                            const struct engine_fence *fence, uint64_t deadline_ns,
                                            struct engine_update *result)
{
    (void)digest;
    (void)fence;
    (void)deadline_ns;
    return no_live(engine, result);
}

extern const struct engine_adapter engine_adapter_sglang;

const struct engine_adapter engine_adapter_sglang = {
    .kind = "sglang",
    .open = sglang_open,
    .close = sglang_close,
    .attach = sglang_attach,
    .health = sglang_health,
    .set_gate = sglang_set_gate,
    .raise_fence = sglang_raise_fence,
    .pause = sglang_pause,
    .update = sglang_update,
    .prepare = sglang_prepare,
    .swap_live = sglang_swap_live,
    .readback = sglang_readback,
    .invalidate = sglang_invalidate,
    .label = sglang_label,
    .resume = sglang_resume,
    .probe = sglang_probe,
    .continuation = sglang_continuation,
    .warm = sglang_warm,
    .sleep = sglang_sleep,
    .wake = sglang_wake,
    .abort = sglang_abort,
};
