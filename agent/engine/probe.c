/* See probe.h. */
#include "agent/engine/probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/engine/answer.h"
#include "api/base/random.h"

/* The long prompt fills a block of any engine's prefix cache: 128 tokens on vLLM's CPU backend. */
enum { PROBE_TOKENS = 8, SALT_BYTES = 16, LONG_PROMPT_TOKENS = 144, LONG_PROMPT_FIRST_ID = 100 };
/* Two runs of one prompt on the same weights differ less, whatever was batched with them. */
#define KV_TOLERANCE 0.05

/* Any text does: its tokens matter only in that they are always the same. */
static const char PROBE_PROMPT[] = "The quick brown fox jumps over";

/* Sends 'root' and releases it. */
struct baton_status probe_post(struct exchange *exchange, const char *path, json_t *root,
                               uint64_t deadline_ns)
{
    char *body = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (body == NULL) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "%s: a text of the request is not UTF-8", path);
    }
    struct baton_status st = exchange_post(exchange, path, body, deadline_ns);
    free(body);
    return st;
}

/* A salt of its own keeps a request away from every cache entry, stale ones too. */
static void salt_add(json_t *request)
{
    uint8_t random[SALT_BYTES];
    char salt[2 * SALT_BYTES + 1];
    baton_random_secure(random, sizeof random);
    baton_hex_encode(random, sizeof random, salt);
    (void)json_object_set_new(request, "cache_salt", json_string(salt));
}

static json_t *completion(const char *model, json_t *prompt_taken, int tokens)
{
    return json_pack("{s:s, s:o, s:i, s:i, s:i, s:b}", "model", model, "prompt", prompt_taken,
                     "max_tokens", tokens, "temperature", 0, "logprobs", 1, "ignore_eos", 1);
}

/* By ids: as many tokens in every vocabulary. */
static json_t *long_prompt(const char *model)
{
    json_t *ids = json_array();
    for (int i = 0; i < LONG_PROMPT_TOKENS; i++) {
        (void)json_array_append_new(ids, json_integer(LONG_PROMPT_FIRST_ID + i));
    }
    return completion(model, ids, 1);
}

/* The header is the guard's; without one there is none. */
static uint64_t version_of(const char *text)
{
    char *end = NULL;
    uint64_t version = strtoull(text, &end, 10);
    return *end == '\0' && text[0] != '-' ? version : 0;
}

/* Its context is too short for the long prompt: then there is nothing to compare. */
static bool is_too_long(const struct exchange *exchange)
{
    return exchange->answer.outcome == HTTP_ANSWERED && exchange->answer.code == 400;
}

static struct baton_status long_run(struct exchange *exchange, const char *model, bool salted,
                                    uint64_t deadline_ns, double *logprob)
{
    struct engine_probe probe = { 0 };
    json_t *request = long_prompt(model);
    if (salted) {
        salt_add(request);
    }
    struct baton_status st = probe_post(exchange, "/v1/completions", request, deadline_ns);
    if (baton_ok(&st)) {
        st = answer_probe(exchange_body(exchange), &probe);
    }
    *logprob = probe.logprob_sum;
    return st;
}

/* What a reset says of itself is worth nothing: a request that may use the cache must find the same
 * as one that may not. */
static struct baton_status kv_check(struct exchange *exchange, const char *model,
                                    uint64_t deadline_ns)
{
    double fresh = 0;
    double cached = 0;
    struct baton_status st = long_run(exchange, model, true, deadline_ns, &fresh);
    if (!baton_ok(&st)) {
        return is_too_long(exchange) ? baton_status_ok() : st;
    }
    st = long_run(exchange, model, false, deadline_ns, &cached);
    if (baton_ok(&st) && fabs(fresh - cached) > KV_TOLERANCE) {
        st = baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_ENGINE_LIED,
                               "KV of other weights is still in use: log-probability %.4f with the "
                               "prefix cache, %.4f without",
                               cached, fresh);
    }
    return st;
}

struct baton_status probe_run(struct exchange *exchange, const char *model, bool check_kv,
                              uint64_t deadline_ns, struct engine_probe *result)
{
    *result = (struct engine_probe){ 0 };
    json_t *request = completion(model, json_string(PROBE_PROMPT), PROBE_TOKENS);
    salt_add(request);
    struct baton_status st = probe_post(exchange, "/v1/completions", request, deadline_ns);
    if (baton_ok(&st)) {
        result->version = version_of(exchange->answer.version);
        st = answer_probe(exchange_body(exchange), result);
    }
    if (baton_ok(&st) && check_kv) {
        st = kv_check(exchange, model, deadline_ns);
    }
    return st;
}

struct baton_status probe_continuation(struct exchange *exchange, const char *model,
                                       const struct engine_prompt *prompt, uint64_t deadline_ns,
                                       double *logprobs)
{
    json_t *ids = json_array();
    for (uint32_t i = 0; i < prompt->ids_count; i++) {
        (void)json_array_append_new(ids, json_integer(prompt->ids[i]));
    }
    json_t *request = completion(model, ids, (int)prompt->tokens);
    salt_add(request);
    struct baton_status st = probe_post(exchange, "/v1/completions", request, deadline_ns);
    return baton_ok(&st) ? answer_logprobs(exchange_body(exchange), prompt->tokens, logprobs) : st;
}

struct baton_status probe_warm(struct exchange *exchange, const char *model, uint64_t deadline_ns)
{
    json_t *request = long_prompt(model);
    char *body = json_dumps(request, JSON_COMPACT);
    json_decref(request);
    struct baton_status st = exchange_post_plain(exchange, "/v1/completions", body, deadline_ns);
    free(body);
    return is_too_long(exchange) ? baton_status_ok() : st;
}
