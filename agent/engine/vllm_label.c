/* label and probe: what the engine calls its weights, and what it makes of them. */
#include <jansson.h>
#include <string.h>

#include "agent/engine/probe.h"
#include "agent/engine/vllm.h"

static struct baton_status label_write(struct engine *engine, const char *label,
                                       uint64_t deadline_ns)
{
    bool success = false;
    struct baton_status st = probe_post(&engine->exchange, "/update_weight_version",
                                        json_pack("{s:s}", "new_version", label), deadline_ns);
    if (baton_ok(&st)) {
        st = answer_bool(exchange_body(&engine->exchange), "success", &success);
    }
    if (baton_ok(&st) && !success) {
        st = baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_ENGINE_REFUSED,
                               "the engine did not take the label");
    }
    return st;
}

static struct baton_status label_check(struct engine *engine, const char *label,
                                       uint64_t deadline_ns)
{
    char found[BATON_TEXT_BYTES];
    struct baton_status st = exchange_get(&engine->exchange, "/weight_info", deadline_ns);
    if (baton_ok(&st)) {
        st = answer_text(exchange_body(&engine->exchange), "weight_version", found, sizeof found);
    }
    if (baton_ok(&st) && strcmp(found, label) != 0) {
        st = baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_ENGINE_LIED,
                               "written was \"%.64s\", read back is \"%.64s\"", label, found);
    }
    return st;
}

struct baton_status vllm_label(struct engine *engine, const char *label, uint64_t deadline_ns)
{
    http_begin(engine->exchange.http);
    struct baton_status st = label_write(engine, label, deadline_ns);
    if (baton_ok(&st)) {
        st = label_check(engine, label, deadline_ns);
    }
    return baton_status_in(st, "label of %s", engine->options.name);
}

struct baton_status vllm_probe(struct engine *engine, bool check_kv, uint64_t deadline_ns,
                               struct engine_probe *result)
{
    http_begin(engine->exchange.http);
    *result = (struct engine_probe){ 0 };
    if (engine->model[0] == '\0') {
        return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE,
                                 "probe of %s: attach first", engine->options.name);
    }
    struct baton_status st =
        probe_run(&engine->exchange, engine->model, check_kv, deadline_ns, result);
    return baton_status_in(st, "probe of %s", engine->options.name);
}

struct baton_status vllm_continuation(struct engine *engine, const struct engine_prompt *prompt,
                                      uint64_t deadline_ns, double *logprobs)
{
    return probe_continuation(&engine->exchange, engine->model, prompt, deadline_ns, logprobs);
}

struct baton_status vllm_warm(struct engine *engine, uint64_t deadline_ns)
{
    http_begin(engine->exchange.http);
    struct baton_status st = probe_warm(&engine->exchange, engine->model, deadline_ns);
    return baton_status_in(st, "warm %s", engine->options.name);
}
