/* label and probe: what the engine calls its weights, and what it makes of them. */
#include <jansson.h>
#include <string.h>

#include "agent/engine/answer.h"
#include "agent/engine/probe.h"
#include "agent/engine/sglang.h"

/* Any does; the name that it serves under changes with each update. */
static const char MODEL[] = "default";

/* Its own default aborts whatever runs. */
static struct baton_status label_write(struct engine *engine, const char *label,
                                       uint64_t deadline_ns)
{
    bool success = false;
    json_t *request = json_pack("{s:s, s:b}", "new_version", label, "abort_all_requests", 0);
    struct baton_status st =
        probe_post(&engine->exchange, "/update_weight_version", request, deadline_ns);
    if (baton_ok(&st)) {
        st = answer_bool(exchange_body(&engine->exchange), "success", &success);
    }
    if (baton_ok(&st) && !success) {
        st = baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_ENGINE_REFUSED,
                               "the engine did not take the label");
    }
    return st;
}

struct baton_status sglang_label(struct engine *engine, const char *label, uint64_t deadline_ns)
{
    char found[BATON_TEXT_BYTES] = "";
    http_begin(engine->exchange.http);
    struct baton_status st = label_write(engine, label, deadline_ns);
    if (baton_ok(&st)) {
        st = sglang_model_info(engine, "weight_version", deadline_ns, found, sizeof found);
    }
    if (baton_ok(&st) && strcmp(found, label) != 0) {
        st = baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_ENGINE_LIED,
                               "written was \"%.64s\", read back is \"%.64s\"", label, found);
    }
    return baton_status_in(sglang_tell(st), "label of %s", engine->options.name);
}

struct baton_status sglang_probe(struct engine *engine, bool check_kv, uint64_t deadline_ns,
                                 struct engine_probe *result)
{
    http_begin(engine->exchange.http);
    struct baton_status st = probe_run(&engine->exchange, MODEL, check_kv, deadline_ns, result);
    return baton_status_in(sglang_tell(st), "probe of %s", engine->options.name);
}

struct baton_status sglang_continuation(struct engine *engine, const struct engine_prompt *prompt,
                                        uint64_t deadline_ns, double *logprobs)
{
    return sglang_tell(probe_continuation(&engine->exchange, MODEL, prompt, deadline_ns, logprobs));
}

struct baton_status sglang_warm(struct engine *engine, uint64_t deadline_ns)
{
    http_begin(engine->exchange.http);
    struct baton_status st = probe_warm(&engine->exchange, MODEL, deadline_ns);
    return baton_status_in(sglang_tell(st), "warm %s", engine->options.name);
}
