/* scheduler.h -- which tokens of which requests go into the next step, and what a pause means.
 *
 * Continuous batching: running requests first, then waiting ones as long as rows and blocks are
 * left; a request that finds no block pushes out the latest one, which starts over.  The prefix
 * cache is asked when a request is admitted.
 *
 * Pauses as vLLM 0.32's scheduler knows them: FROZEN schedules nothing; CLOSED goes on with what
 * has begun and admits nothing new.
 *
 * Depends on: request.h, kv.h, model.h, sampler.h.  Threads: one, or under the engine's lock.
 * Ownership: scheduler_init/deinit; holds one reference of each request that it was given. */
#ifndef TESTS_MINIENGINE_SCHEDULER_H
#define TESTS_MINIENGINE_SCHEDULER_H

#include "tests/miniengine/kv.h"
#include "tests/miniengine/model.h"
#include "tests/miniengine/request.h"

enum { SCHEDULER_WAITING_MAX = 4096 };

enum scheduler_pause {
    SCHEDULER_OPEN,
    SCHEDULER_CLOSED, /* After 'wait' and 'abort'. */
    SCHEDULER_FROZEN, /* After 'keep'. */
};

struct scheduler {
    struct kv_pool pool;
    enum scheduler_pause pause;
    struct request *running[MODEL_SEQUENCES_MAX];
    uint32_t running_count;
    struct request *waiting[SCHEDULER_WAITING_MAX]; /* First come first. */
    uint32_t waiting_count;
    uint64_t arrivals;
    uint64_t prefix_queries, prefix_hits; /* Tokens. */
    uint64_t prompt_tokens, generated_tokens;
    uint32_t vocab;
    const uint32_t *eos;
    uint32_t eos_count;
};

/* What scheduler_plan chose; the batch's sequence i is requests[i]. */
struct scheduler_plan {
    struct request *requests[MODEL_SEQUENCES_MAX];
    uint32_t rows[MODEL_SEQUENCES_MAX];
};

bool scheduler_init(struct scheduler *s, uint32_t blocks_count, const struct model_config *config);
void scheduler_deinit(struct scheduler *s);

/* Takes the reference.  False, and nothing taken, if too many wait. */
bool scheduler_add_take(struct scheduler *s, struct request *request);

/* Fills the next batch; false if there is nothing to compute now. */
bool scheduler_plan(struct scheduler *s, struct model_batch *batch, struct scheduler_plan *plan);

/* After the step: appends the sampled tokens, publishes full blocks, ends what is done. */
void scheduler_commit(struct scheduler *s, const struct model_batch *batch,
                      const struct scheduler_plan *plan, const float *logits);

/* Ends requests: all, or those for which 'chosen' says so. */
uint32_t scheduler_end(struct scheduler *s, enum request_state state,
                       bool (*chosen)(const struct request *request, const void *self),
                       const void *self);

/* Drops the KV of all running requests; they compute it again when they run on. */
void scheduler_preempt_all(struct scheduler *s);

/* Whether scheduler_plan would find something to compute. */
bool scheduler_has_work(const struct scheduler *s);

/* Running requests that arrived before 'arrival'. */
uint32_t scheduler_running_before(const struct scheduler *s, uint64_t arrival);

#endif /* scheduler.h */
