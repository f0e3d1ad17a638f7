/* completion.c -- see completion.h. */
#include "tests/miniengine/completion.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

__attribute__((format(printf, 4, 5))) static bool refuse(struct completion_error *error,
                                                         unsigned status, const char *param,
                                                         const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(error->message, sizeof error->message, fmt, args);
    va_end(args);
    error->status = status;
    error->param = param;
    return false;
}

static const json_t *field(const json_t *body, const char *name)
{
    const json_t *value = json_object_get(body, name);
    return json_is_null(value) ? NULL : value;
}

static bool read_integer(const json_t *body, const char *name, int64_t min, int64_t max,
                         int64_t *value, struct completion_error *error)
{
    const json_t *number = field(body, name);
    if (number == NULL) {
        return true;
    }
    *value = json_integer_value(number);
    if (!json_is_integer(number) || *value < min || *value > max) {
        return refuse(error, 400, name, "%s must be a whole number from %lld to %lld", name,
                      (long long)min, (long long)max);
    }
    return true;
}

static bool read_real(const json_t *body, const char *name, double min, double max, double *value,
                      struct completion_error *error)
{
    const json_t *number = field(body, name);
    if (number == NULL) {
        return true;
    }
    *value = json_number_value(number);
    if (!json_is_number(number) || *value < min || *value > max) {
        return refuse(error, 400, name, "%s must be a number from %g to %g", name, min, max);
    }
    return true;
}

static bool read_sampling(const struct server *server, const json_t *body, struct completion *out,
                          struct completion_error *error)
{
    struct request_params *p = &out->params;
    int64_t tokens_max = 16;
    int64_t top_k = 0;
    int64_t logprobs = -1;
    int64_t seed = 0;
    if (field(body, "seed") == NULL && getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed) {
        seed = (int64_t)(uintptr_t)body;
    }
    p->temperature = 1.0;
    p->top_p = 1.0;
    if (!read_integer(body, "max_tokens", 1, server->length_max, &tokens_max, error) ||
        !read_integer(body, "top_k", -1, 1 << 30, &top_k, error) ||
        !read_integer(body, "logprobs", 0, REQUEST_TOPS_MAX, &logprobs, error) ||
        !read_integer(body, "seed", INT64_MIN, INT64_MAX, &seed, error) ||
        !read_real(body, "temperature", 0, 100, &p->temperature, error) ||
        !read_real(body, "top_p", 1e-6, 1, &p->top_p, error)) {
        return false;
    }
    p->tokens_max = (uint32_t)tokens_max;
    p->top_k = top_k > 0 ? (uint32_t)top_k : 0;
    p->logprobs = (int)logprobs;
    p->seed = (uint64_t)seed;
    p->ignore_eos = json_is_true(field(body, "ignore_eos"));
    return true;
}

static bool read_ids(const struct server *server, const json_t *prompt, struct completion *out,
                     struct completion_error *error)
{
    for (uint32_t i = 0; i < out->prompt_count; i++) {
        const json_t *id = json_array_get(prompt, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= (json_int_t)server->vocab) {
            return refuse(error, 400, "prompt",
                          "prompt[%u] is no token id below %u (one prompt a request: text or a "
                          "list of token ids)",
                          i, server->vocab);
        }
        out->prompt[i] = (uint32_t)json_integer_value(id);
    }
    return true;
}

static bool read_prompt(const struct server *server, const json_t *body, struct completion *out,
                        struct completion_error *error)
{
    const json_t *prompt = field(body, "prompt");
    size_t count = json_is_string(prompt) ? json_string_length(prompt) : json_array_size(prompt);
    if (count == 0) {
        return refuse(error, 400, "prompt",
                      "prompt must be a text or a list of token ids, and "
                      "not empty");
    }
    if (count + out->params.tokens_max > server->length_max) {
        return refuse(error, 400, "max_tokens",
                      "This model's maximum context length is %u tokens. However, you requested "
                      "%u output tokens and your prompt contains %zu tokens.",
                      server->length_max, out->params.tokens_max, count);
    }
    out->prompt_count = (uint32_t)count;
    out->prompt = calloc(count, sizeof *out->prompt);
    if (out->prompt == NULL) {
        return refuse(error, 500, NULL, "out of memory");
    }
    if (json_is_string(prompt)) {
        tokenizer_encode(server->tokenizer, json_string_value(prompt), count, out->prompt);
        return true;
    }
    return read_ids(server, prompt, out, error);
}

/* What this engine does not do is refused by name rather than ignored. */
static bool refuse_unknown(const json_t *body, struct completion_error *error)
{
    static const char *const ones[] = { "n", "best_of" };
    for (size_t i = 0; i < 2; i++) {
        const json_t *value = field(body, ones[i]);
        if (value != NULL && json_integer_value(value) != 1) {
            return refuse(error, 400, ones[i], "%s must be 1", ones[i]);
        }
    }
    if (json_is_true(field(body, "echo"))) {
        return refuse(error, 400, "echo", "echo is not supported");
    }
    const json_t *stop = field(body, "stop");
    if (json_is_string(stop) || json_array_size(stop) > 0) {
        return refuse(error, 400, "stop", "stop is not supported");
    }
    return true;
}

static bool read_salt(const json_t *body, struct completion *out, struct completion_error *error)
{
    const json_t *salt = field(body, "cache_salt");
    if (salt != NULL && json_string_length(salt) == 0) {
        return refuse(error, 400, "cache_salt", "cache_salt must be a non-empty string");
    }
    out->salt = strdup(salt != NULL ? json_string_value(salt) : "");
    return out->salt != NULL || refuse(error, 500, NULL, "out of memory");
}

bool completion_parse(const struct server *server, const json_t *body, struct completion *out,
                      struct completion_error *error)
{
    memset(out, 0, sizeof *out);
    const json_t *model = field(body, "model");
    if (model != NULL &&
        (!json_is_string(model) || strcmp(json_string_value(model), server->model) != 0)) {
        return refuse(error, 404, "model", "The model `%.100s` does not exist.",
                      json_is_string(model) ? json_string_value(model) : "?");
    }
    out->stream = json_is_true(field(body, "stream"));
    out->include_usage = json_is_true(field(field(body, "stream_options"), "include_usage"));
    out->return_token_ids = json_is_true(field(body, "return_token_ids"));
    out->tokens_as_ids = json_is_true(field(body, "return_tokens_as_token_ids"));
    return refuse_unknown(body, error) && read_sampling(server, body, out, error) &&
           read_prompt(server, body, out, error) && read_salt(body, out, error);
}

bool completion_salt(struct completion *completion, uint64_t version)
{
    size_t bytes = strlen(completion->salt) + 32;
    char *salt = malloc(bytes);
    if (salt == NULL) {
        return false;
    }
    (void)snprintf(salt, bytes, "baton-%" PRIu64 "%s%s", version,
                   completion->salt[0] != '\0' ? "." : "", completion->salt);
    free(completion->salt);
    completion->salt = salt;
    return true;
}

void completion_deinit(struct completion *completion)
{
    free(completion->prompt);
    free(completion->salt);
    memset(completion, 0, sizeof *completion);
}
