/* Batches, pauses and the prefix cache, with logits that the test makes up. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/miniengine/scheduler.h"

enum { VOCAB = 8, LAST = 7 };

static struct scheduler s;
static struct model_batch batch;
static struct scheduler_plan plan;
static struct model_config config = { .vocab = VOCAB, .eos = { LAST }, .eos_count = 1 };

static void setup(void)
{
    cr_assert(scheduler_init(&s, 16, &config));
}

static void teardown(void)
{
    scheduler_deinit(&s);
}

TestSuite(scheduler, .init = setup, .fini = teardown);

/* A request with 'prompt' equal tokens; the caller keeps one reference. */
static struct request *add(uint32_t prompt, uint32_t tokens_max, const char *salt)
{
    uint32_t tokens[256];
    struct request_params params = { .tokens_max = tokens_max, .logprobs = -1 };
    for (uint32_t i = 0; i < prompt; i++) {
        tokens[i] = 3;
    }
    struct request *request = request_create(&params, tokens, prompt, salt);
    cr_assert_not_null(request);
    cr_assert(scheduler_add_take(&s, request_retain(request)));
    return request;
}

/* One step in which every sampled token is 'token'.  Returns the rows computed. */
static uint32_t step(uint32_t token)
{
    static float logits[MODEL_SEQUENCES_MAX * VOCAB];
    memset(logits, 0, sizeof logits);
    for (uint32_t i = 0; i < MODEL_SEQUENCES_MAX; i++) {
        logits[i * VOCAB + token] = 5.0F;
    }
    if (!scheduler_plan(&s, &batch, &plan)) {
        return 0;
    }
    scheduler_commit(&s, &batch, &plan, logits);
    return batch.rows_count;
}

Test(scheduler, a_request_runs_to_its_length_and_gives_its_blocks_back)
{
    struct request *request = add(20, 3, "");
    cr_assert_eq(step(1), 20, "the prompt at once");
    cr_assert_eq(step(1), 1);
    cr_assert_eq(request->state, REQUEST_GOES);
    cr_assert_eq(step(1), 1);
    cr_assert_eq(request->state, REQUEST_LENGTH);
    cr_assert_eq(request_generated(request), 3);
    cr_assert_eq(s.pool.used, 0);
    cr_assert_eq(step(1), 0);
    request_release(request);
}

Test(scheduler, the_end_token_ends)
{
    struct request *request = add(4, 50, "");
    (void)step(LAST);
    cr_assert_eq(request->state, REQUEST_STOPPED);
    cr_assert_eq(request_generated(request), 1);
    request_release(request);
}

Test(scheduler, a_second_request_computes_only_what_is_new)
{
    request_release(add(40, 1, ""));
    cr_assert_eq(step(1), 40);
    request_release(add(40, 1, ""));
    cr_assert_eq(step(1), 40 - 32, "two whole blocks were there");
    cr_assert_eq(s.prefix_hits, 32);
    request_release(add(40, 1, "salt"));
    cr_assert_eq(step(1), 40);
    request_release(add(32, 1, ""));
    cr_assert_eq(step(1), 16, "one token at least is computed, so one block");
}

Test(scheduler, frozen_computes_nothing_and_goes_on)
{
    struct request *request = add(4, 5, "");
    (void)step(1);
    s.pause = SCHEDULER_FROZEN;
    cr_assert_not(scheduler_has_work(&s));
    cr_assert_eq(step(1), 0);
    scheduler_preempt_all(&s);
    cr_assert(kv_reset(&s.pool));
    s.pause = SCHEDULER_OPEN;
    cr_assert_eq(step(2), 5, "prompt and output are computed again");
    cr_assert_eq(request->tokens[4], 1, "what was told stays");
    cr_assert_eq(request->tokens[5], 2);
    request_release(request);
}

Test(scheduler, closed_ends_what_began_and_admits_nothing)
{
    struct request *first = add(4, 3, "");
    (void)step(1);
    struct request *second = add(4, 3, "");
    s.pause = SCHEDULER_CLOSED;
    scheduler_preempt_all(&s);
    while (step(1) > 0) {
    }
    cr_assert_eq(first->state, REQUEST_LENGTH);
    cr_assert_eq(second->state, REQUEST_GOES);
    cr_assert_eq(request_generated(second), 0);
    cr_assert_not(scheduler_has_work(&s));
    s.pause = SCHEDULER_OPEN;
    cr_assert_eq(step(1), 4);
    request_release(first);
    request_release(second);
}

/* 16 blocks for three requests that end with 6 each: the latest is pushed out, nobody is lost. */
Test(scheduler, too_few_blocks_push_out_the_latest)
{
    struct request *requests[3];
    for (int i = 0; i < 3; i++) {
        requests[i] = add(70, 26, i == 0 ? "a" : i == 1 ? "b" : "c");
    }
    bool pushed = false;
    for (int i = 0; i < 200 && step(1) > 0; i++) {
        cr_assert_eq(requests[0]->state == REQUEST_GOES && requests[0]->blocks_count == 0, false);
        pushed |= requests[2]->started && requests[2]->state == REQUEST_GOES &&
                  requests[2]->blocks_count == 0;
    }
    cr_assert(pushed);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(requests[i]->state, REQUEST_LENGTH, "request %d", i);
        request_release(requests[i]);
    }
    cr_assert_eq(s.pool.used, 0);
}

/* More rows than a batch holds: pieces, and no logits before the last. */
Test(scheduler, long_prompts_come_in_pieces)
{
    scheduler_deinit(&s);
    cr_assert(scheduler_init(&s, 64, &config));
    struct request *one = add(200, 1, "a");
    struct request *two = add(50, 1, "b");
    struct request *three = add(10, 1, "c");
    cr_assert_eq(step(1), MODEL_ROWS_MAX);
    cr_assert_eq(one->state, REQUEST_LENGTH);
    cr_assert_eq(two->state, REQUEST_LENGTH);
    cr_assert_eq(request_generated(three), 0);
    cr_assert_eq(step(1), 260 - MODEL_ROWS_MAX);
    cr_assert_eq(three->state, REQUEST_LENGTH);
    request_release(one);
    request_release(two);
    request_release(three);
}

static bool is_second(const struct request *request, const void *self)
{
    return request == self;
}

Test(scheduler, ending_some_leaves_the_others)
{
    struct request *first = add(4, 5, "");
    struct request *second = add(4, 5, "");
    (void)step(1);
    cr_assert_eq(scheduler_end(&s, REQUEST_ABORTED, is_second, second), 1);
    cr_assert_eq(second->state, REQUEST_ABORTED);
    cr_assert_eq(step(1), 1);
    cr_assert_eq(first->state, REQUEST_GOES);
    request_release(first);
    request_release(second);
}
