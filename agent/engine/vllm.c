#include "agent/engine/vllm.h"

#include <stdlib.h>

static struct baton_status parts_open(struct engine *engine)
{
    const struct engine_options *options = &engine->options;
    struct baton_status st = exchange_open(options, false, &engine->exchange);
    if (baton_ok(&st) && options->guard_page[0] != '\0') {
        st = engine_guard_open(options->guard_page, &engine->guard);
    }
    return st;
}

static void vllm_close(struct engine *engine)
{
    if (engine == NULL) {
        return;
    }
    exchange_close(&engine->exchange);
    engine_guard_close(engine->guard);
    free(engine);
}

static struct baton_status vllm_open(const struct engine_options *options, struct engine **out)
{
    struct engine *engine = calloc(1, sizeof *engine);
    if (engine == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT, "no memory");
    }
    engine->options = *options;
    struct baton_status st = parts_open(engine);
    if (!baton_ok(&st)) {
        vllm_close(engine);
        return baton_status_in(st, "engine %s", options->name);
    }
    *out = engine;
    return st;
}

static void vllm_abort(struct engine *engine)
{
    http_abort(engine->exchange.http);
}

extern const struct engine_adapter engine_adapter_vllm;

const struct engine_adapter engine_adapter_vllm = {
    .kind = "vllm",
    .open = vllm_open,
    .close = vllm_close,
    .attach = vllm_attach,
    .health = vllm_health,
    .set_gate = vllm_set_gate,
    .raise_fence = vllm_raise_fence,
    .pause = vllm_pause,
    .update = vllm_update,
    .prepare = vllm_prepare,
    .swap_live = vllm_swap_live,
    .readback = vllm_readback,
    .invalidate = vllm_invalidate,
    .label = vllm_label,
    .resume = vllm_resume,
    .probe = vllm_probe,
    .continuation = vllm_continuation,
    .warm = vllm_warm,
    .sleep = vllm_sleep,
    .wake = vllm_wake,
    .abort = vllm_abort,
};
