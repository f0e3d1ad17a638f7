/* set_gate and raise_fence: who may generate, and whose calls still count. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/engine/vllm.h"

struct baton_status vllm_set_gate(struct engine *engine, const struct engine_gate_order *order,
                                  uint64_t deadline_ns, struct engine_gate_state *state)
{
    http_begin(engine->exchange.http);
    struct baton_status st = gate_set(&engine->exchange, engine->guard, order, deadline_ns, state);
    return baton_status_in(st, "gate of %s", engine->options.name);
}

/* Equal is the proof; a higher one means that somebody else drives this engine. */
static struct baton_status fence_check(const struct answer_report *report,
                                       const struct engine_fence *fence)
{
    for (uint32_t i = 0; i < report->ranks_count; i++) {
        if (memcmp(&report->ranks[i].fence, fence, sizeof *fence) != 0) {
            const struct engine_fence *found = &report->ranks[i].fence;
            return baton_status_make(BATON_ABORTED, BATON_REASON_STALE_TICKET,
                                     "rank %" PRIu32 " has the fence [%" PRIu64 ",%" PRIu64
                                     ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]",
                                     i, found->generation, found->n, found->owner_term,
                                     found->ticket, found->step);
        }
    }
    return baton_status_ok();
}

struct baton_status vllm_raise_fence(struct engine *engine, const struct engine_fence *fence,
                                     uint64_t deadline_ns)
{
    char kwargs[BATON_TEXT_BYTES];
    http_begin(engine->exchange.http);
    if (engine->found.way_in != ENGINE_WAY_IN_PLUGIN) {
        return baton_status_make(BATON_UNIMPLEMENTED, BATON_REASON_INCOMPATIBLE,
                                 "engine %s has no fences without the plug-in",
                                 engine->options.name);
    }
    (void)snprintf(kwargs, sizeof kwargs,
                   "{\"fence\":[%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]}",
                   fence->generation, fence->n, fence->owner_term, fence->ticket, fence->step);
    struct baton_status st = vllm_rpc(engine, "baton_fence", kwargs, deadline_ns);
    if (baton_ok(&st)) {
        st = vllm_report(engine, deadline_ns);
    }
    if (baton_ok(&st)) {
        st = fence_check(&engine->report, fence);
    }
    st = vllm_refused(engine, st, deadline_ns);
    return baton_status_in(st, "fence of %s", engine->options.name);
}
