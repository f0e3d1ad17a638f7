/* scheduler.c -- see scheduler.h. */
#include "tests/miniengine/scheduler.h"

#include <string.h>

#include "tests/miniengine/sampler.h"

bool scheduler_init(struct scheduler *s, uint32_t blocks_count, const struct model_config *config)
{
    memset(s, 0, sizeof *s);
    s->vocab = config->vocab;
    s->eos = config->eos;
    s->eos_count = config->eos_count;
    return kv_init(&s->pool, blocks_count);
}

void scheduler_deinit(struct scheduler *s)
{
    (void)scheduler_end(s, REQUEST_ABORTED, NULL, NULL);
    kv_deinit(&s->pool);
}

bool scheduler_add_take(struct scheduler *s, struct request *request)
{
    if (s->waiting_count == SCHEDULER_WAITING_MAX) {
        return false;
    }
    request->number = s->arrivals++;
    s->waiting[s->waiting_count++] = request;
    return true;
}

/* From the last block on: the end of a prefix is forgotten before its beginning. */
static void drop_blocks(struct scheduler *s, struct request *request)
{
    while (request->blocks_count > 0) {
        kv_release(&s->pool, request->blocks[--request->blocks_count]);
    }
    request->computed = 0;
    request->published = 0;
    request->key[0] = 0;
    request->key[1] = 0;
}

static void running_remove(struct scheduler *s, uint32_t index)
{
    s->running_count--;
    memmove(&s->running[index], &s->running[index + 1],
            (s->running_count - index) * sizeof s->running[0]);
}

static void waiting_remove(struct scheduler *s, uint32_t index)
{
    s->waiting_count--;
    memmove(&s->waiting[index], &s->waiting[index + 1],
            (s->waiting_count - index) * sizeof s->waiting[0]);
}

/* Back to the head of the queue.  There is room: what runs has left it. */
static void preempt(struct scheduler *s, uint32_t index)
{
    struct request *request = s->running[index];
    drop_blocks(s, request);
    running_remove(s, index);
    if (s->waiting_count == SCHEDULER_WAITING_MAX) {
        struct request *last = s->waiting[--s->waiting_count];
        last->state = REQUEST_ABORTED;
        request_notify(last);
        request_release(last);
    }
    memmove(&s->waiting[1], &s->waiting[0], s->waiting_count * sizeof s->waiting[0]);
    s->waiting[0] = request;
    s->waiting_count++;
}

void scheduler_preempt_all(struct scheduler *s)
{
    while (s->running_count > 0) {
        preempt(s, s->running_count - 1);
    }
}

/* Takes blocks until 'tokens' fit. */
static bool grow(struct scheduler *s, struct request *request, uint32_t tokens)
{
    uint32_t needed = (tokens + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
    while (request->blocks_count < needed) {
        uint32_t block = kv_take(&s->pool);
        if (block == KV_NONE) {
            return false;
        }
        request->blocks[request->blocks_count++] = block;
    }
    return true;
}

static struct kv_key next_key(const struct request *request, uint32_t block)
{
    struct kv_key parent = { .high = request->key[0], .low = request->key[1] };
    return kv_key_next(parent, request->tokens + (size_t)block * KV_BLOCK_TOKENS, request->salt);
}

static void remember_key(struct request *request, struct kv_key key)
{
    request->key[0] = key.high;
    request->key[1] = key.low;
    request->published++;
}

/* Finds the longest published beginning.  At least one token is left to compute: its logits are
 * what the request came for. */
static void find_prefix(struct scheduler *s, struct request *request)
{
    uint32_t whole = (request->tokens_count - 1) / KV_BLOCK_TOKENS;
    for (uint32_t i = 0; i < whole; i++) {
        struct kv_key key = next_key(request, i);
        uint32_t block = kv_find(&s->pool, key);
        if (block == KV_NONE) {
            break;
        }
        request->blocks[request->blocks_count++] = block;
        remember_key(request, key);
    }
    request->computed = request->blocks_count * KV_BLOCK_TOKENS;
    if (!request->started) {
        s->prefix_queries += request->tokens_count;
        s->prefix_hits += request->computed;
        s->prompt_tokens += request->prompt_count;
    }
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Puts up to the rest of the batch's rows of one request into it.  Its blocks must be there. */
static void put_rows(struct model_batch *batch, struct scheduler_plan *plan,
                     struct request *request, uint32_t count)
{
    uint32_t sequence = batch->sequences_count++;
    memcpy(batch->blocks[sequence], request->blocks,
           request->blocks_count * sizeof request->blocks[0]);
    plan->requests[sequence] = request;
    plan->rows[sequence] = count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t position = request->computed + i;
        batch->rows[batch->rows_count++] =
            (struct model_row){ .token = request->tokens[position],
                                .position = position,
                                .sequence = sequence,
                                .wanted = position + 1 == request->tokens_count };
    }
    batch->probe |= request->params.probe && !request->started ? 1U : 0U;
    request->started = true;
}

/* Makes room for one running request, at the cost of the latest ones.  False if it was the latest
 * itself and is out now. */
static bool make_room(struct scheduler *s, uint32_t index, uint32_t count)
{
    struct request *request = s->running[index];
    while (!grow(s, request, request->computed + count)) {
        bool itself = index == s->running_count - 1;
        preempt(s, s->running_count - 1);
        if (itself) {
            return false;
        }
    }
    return true;
}

static void plan_running(struct scheduler *s, struct model_batch *batch,
                         struct scheduler_plan *plan)
{
    for (uint32_t i = 0; i < s->running_count && batch->rows_count < MODEL_ROWS_MAX; i++) {
        struct request *request = s->running[i];
        uint32_t count =
            min_u32(request->tokens_count - request->computed, MODEL_ROWS_MAX - batch->rows_count);
        if (make_room(s, i, count)) {
            put_rows(batch, plan, request, count);
        }
    }
}

static bool admit(struct scheduler *s, uint32_t index, struct model_batch *batch,
                  struct scheduler_plan *plan)
{
    struct request *request = s->waiting[index];
    find_prefix(s, request);
    uint32_t count =
        min_u32(request->tokens_count - request->computed, MODEL_ROWS_MAX - batch->rows_count);
    if (!grow(s, request, request->computed + count)) {
        drop_blocks(s, request);
        return false;
    }
    waiting_remove(s, index);
    s->running[s->running_count++] = request;
    put_rows(batch, plan, request, count);
    return true;
}

static void plan_waiting(struct scheduler *s, struct model_batch *batch,
                         struct scheduler_plan *plan)
{
    uint32_t index = 0;
    while (index < s->waiting_count && s->running_count < MODEL_SEQUENCES_MAX &&
           batch->rows_count < MODEL_ROWS_MAX) {
        if (s->pause == SCHEDULER_CLOSED && !s->waiting[index]->started) {
            index++;
        } else if (!admit(s, index, batch, plan)) {
            return;
        }
    }
}

bool scheduler_plan(struct scheduler *s, struct model_batch *batch, struct scheduler_plan *plan)
{
    batch->rows_count = 0;
    batch->sequences_count = 0;
    batch->probe = 0;
    if (s->pause == SCHEDULER_FROZEN) {
        return false;
    }
    uint32_t before = s->running_count;
    plan_running(s, batch, plan);
    if (s->running_count == before) { /* Nobody was pushed out: there may be room. */
        plan_waiting(s, batch, plan);
    }
    return batch->rows_count > 0;
}

static bool is_eos(const struct scheduler *s, uint32_t token)
{
    for (uint32_t i = 0; i < s->eos_count; i++) {
        if (s->eos[i] == token) {
            return true;
        }
    }
    return false;
}

static enum request_state state_after(const struct scheduler *s, const struct request *request)
{
    uint32_t last = request->tokens[request->tokens_count - 1];
    if (!request->params.ignore_eos && is_eos(s, last)) {
        return REQUEST_STOPPED;
    }
    return request_generated(request) >= request->params.tokens_max ? REQUEST_LENGTH : REQUEST_GOES;
}

static void publish_blocks(struct scheduler *s, struct request *request)
{
    while ((request->published + 1) * KV_BLOCK_TOKENS <= request->computed) {
        uint32_t index = request->published;
        struct kv_key key = next_key(request, index);
        kv_publish(&s->pool, request->blocks[index], key);
        remember_key(request, key);
    }
}

static void end_request(struct scheduler *s, struct request *request, enum request_state state)
{
    drop_blocks(s, request);
    request->state = state;
    request_notify(request);
    request_release(request);
}

static void finish_running(struct scheduler *s, struct request *request, enum request_state state)
{
    for (uint32_t i = 0; i < s->running_count; i++) {
        if (s->running[i] == request) {
            running_remove(s, i);
            end_request(s, request, state);
            return;
        }
    }
}

static void commit_one(struct scheduler *s, struct request *request, uint32_t rows,
                       const float **logits)
{
    request->computed += rows;
    publish_blocks(s, request);
    if (request->computed < request->tokens_count) {
        return;
    }
    bool sampled = sampler_append(request, *logits, s->vocab);
    *logits += s->vocab;
    if (!sampled) {
        finish_running(s, request, REQUEST_FAILED);
        return;
    }
    s->generated_tokens++;
    enum request_state state = state_after(s, request);
    if (state != REQUEST_GOES) {
        finish_running(s, request, state);
        return;
    }
    request_notify(request);
}

void scheduler_commit(struct scheduler *s, const struct model_batch *batch,
                      const struct scheduler_plan *plan, const float *logits)
{
    for (uint32_t i = 0; i < batch->sequences_count; i++) {
        commit_one(s, plan->requests[i], plan->rows[i], &logits);
    }
}

uint32_t scheduler_end(struct scheduler *s, enum request_state state,
                       bool (*chosen)(const struct request *request, const void *self),
                       const void *self)
{
    uint32_t ended = 0;
    for (uint32_t i = s->running_count; i > 0; i--) {
        struct request *request = s->running[i - 1];
        if (chosen == NULL || chosen(request, self)) {
            running_remove(s, i - 1);
            end_request(s, request, state);
            ended++;
        }
    }
    for (uint32_t i = s->waiting_count; i > 0; i--) {
        struct request *request = s->waiting[i - 1];
        if (chosen == NULL || chosen(request, self)) {
            waiting_remove(s, i - 1);
            end_request(s, request, state);
            ended++;
        }
    }
    return ended;
}

uint32_t scheduler_running_before(const struct scheduler *s, uint64_t arrival)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->running_count; i++) {
        count += s->running[i]->number < arrival ? 1U : 0U;
    }
    for (uint32_t i = 0; i < s->waiting_count; i++) {
        count += s->waiting[i]->started && s->waiting[i]->number < arrival ? 1U : 0U;
    }
    return count;
}

bool scheduler_has_work(const struct scheduler *s)
{
    if (s->pause == SCHEDULER_FROZEN) {
        return false;
    }
    if (s->running_count > 0 || (s->pause == SCHEDULER_OPEN && s->waiting_count > 0)) {
        return true;
    }
    return scheduler_running_before(s, UINT64_MAX) > 0;
}
