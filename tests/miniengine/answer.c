/* answer.c -- see answer.h. */
#include "tests/miniengine/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *reason_of(enum request_state state)
{
    switch (state) {
    case REQUEST_STOPPED: return "stop";
    case REQUEST_LENGTH: return "length";
    case REQUEST_ABORTED: return "abort";
    case REQUEST_GOES:
    case REQUEST_FAILED: return NULL;
    }
    return NULL;
}

static uint32_t token_at(const struct answer *answer, uint32_t index)
{
    return answer->request->tokens[answer->request->prompt_count + index];
}

static uint32_t characters(const char *text)
{
    uint32_t count = 0;
    for (; *text != '\0'; text++) {
        count += ((unsigned char)*text & 0xC0U) != 0x80U ? 1U : 0U;
    }
    return count;
}

/* How one token is named in log-probabilities. */
static void token_name(const struct answer *answer, uint32_t token, char *out, size_t out_bytes)
{
    char bytes[TOKENIZER_SPECIAL_BYTES];
    char text[3 * TOKENIZER_SPECIAL_BYTES + 1];
    if (answer->tokens_as_ids) {
        (void)snprintf(out, out_bytes, "token_id:%u", token);
        return;
    }
    size_t count = tokenizer_decode(answer->server->tokenizer, token, true, bytes);
    (void)tokenizer_to_utf8(bytes, count, true, text);
    (void)snprintf(out, out_bytes, "%s", text);
}

static json_t *tops_json(const struct answer *answer, uint32_t index)
{
    const struct request *request = answer->request;
    uint32_t count = (uint32_t)request->params.logprobs;
    char name[160];
    json_t *tops = json_object();
    for (uint32_t i = 0; i < count; i++) {
        const struct request_top *top = &request->tops[index * count + i];
        token_name(answer, top->token, name, sizeof name);
        (void)json_object_set_new(tops, name, json_real((double)top->logprob));
    }
    token_name(answer, token_at(answer, index), name, sizeof name);
    (void)json_object_set_new(tops, name, json_real((double)request->logprobs[index]));
    return tops;
}

static json_t *logprobs_json(const struct answer *answer, uint32_t generated)
{
    const struct request *request = answer->request;
    if (request->params.logprobs < 0) {
        return json_null();
    }
    json_t *offsets = json_array();
    json_t *values = json_array();
    json_t *names = json_array();
    json_t *tops = json_array();
    uint32_t offset = answer->text_offset;
    for (uint32_t i = answer->told; i < generated; i++) {
        char name[160];
        token_name(answer, token_at(answer, i), name, sizeof name);
        (void)json_array_append_new(offsets, json_integer(offset));
        (void)json_array_append_new(values, json_real((double)request->logprobs[i]));
        (void)json_array_append_new(names, json_string(name));
        (void)json_array_append_new(tops, tops_json(answer, i));
        offset += characters(name);
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "text_offset", offsets, "token_logprobs", values,
                     "tokens", names, "top_logprobs", tops);
}

/* The text of the tokens since the last call, after what was kept back. */
static json_t *text_json(struct answer *answer, uint32_t generated, bool final)
{
    size_t room =
        answer->pending_bytes + (size_t)(generated - answer->told) * TOKENIZER_SPECIAL_BYTES;
    char *bytes = malloc(room + 1);
    char *text = malloc(3 * room + 1);
    if (bytes == NULL || text == NULL) {
        free(bytes);
        free(text);
        return json_string("");
    }
    size_t count = answer->pending_bytes;
    if (count > 0) {
        memcpy(bytes, answer->pending, count);
    }
    for (uint32_t i = answer->told; i < generated; i++) {
        count +=
            tokenizer_decode(answer->server->tokenizer, token_at(answer, i), false, bytes + count);
    }
    size_t used = tokenizer_to_utf8(bytes, count, final, text);
    json_t *json = json_string(text);
    answer->text_offset += characters(text);
    free(text);
    memmove(bytes, bytes + used, count - used);
    free(answer->pending);
    answer->pending = bytes;
    answer->pending_bytes = count - used;
    return json;
}

static json_t *ids_json(const struct answer *answer, uint32_t generated)
{
    json_t *ids = json_array();
    for (uint32_t i = answer->told; i < generated; i++) {
        (void)json_array_append_new(ids, json_integer(token_at(answer, i)));
    }
    return ids;
}

static json_t *usage_json(const struct answer *answer, uint32_t generated)
{
    uint32_t prompt = answer->request->prompt_count;
    return json_pack("{s:i, s:i, s:i, s:n}", "prompt_tokens", (int)prompt, "total_tokens",
                     (int)(prompt + generated), "completion_tokens", (int)generated,
                     "prompt_tokens_details");
}

static json_t *envelope(const struct answer *answer, json_t *choices)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:o}", "id", answer->request->id, "object",
                     "text_completion", "created", (json_int_t)answer->created, "model",
                     answer->server->model, "choices", choices);
}

json_t *answer_body(struct answer *answer, uint32_t generated, enum request_state state, bool usage)
{
    json_t *logprobs = logprobs_json(answer, generated);
    json_t *ids = answer->return_token_ids ? ids_json(answer, generated) : NULL;
    json_t *text = text_json(answer, generated, state != REQUEST_GOES);
    json_t *choice = json_pack("{s:i, s:o, s:o, s:s?, s:n}", "index", 0, "text", text, "logprobs",
                               logprobs, "finish_reason", reason_of(state), "stop_reason");
    if (ids != NULL) {
        (void)json_object_set_new(choice, "token_ids", ids);
    }
    json_t *body = envelope(answer, json_pack("[o]", choice));
    if (usage) {
        (void)json_object_set_new(body, "usage", usage_json(answer, generated));
    }
    answer->told = generated;
    return body;
}

json_t *answer_usage(const struct answer *answer, uint32_t generated)
{
    json_t *body = envelope(answer, json_array());
    (void)json_object_set_new(body, "usage", usage_json(answer, generated));
    return body;
}

void answer_deinit(struct answer *answer)
{
    free(answer->pending);
    answer->pending = NULL;
}
