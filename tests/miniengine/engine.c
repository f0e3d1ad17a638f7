/* engine.c -- see engine.h. */
#include "tests/miniengine/engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "tests/miniengine/engine_op.h"

const char engine_dead_message[] =
    "EngineCore encountered an issue. See stack trace (above) for the root cause.";

void engine_op_release(struct engine_op *op)
{
    if (atomic_fetch_sub(&op->references, 1) == 1) {
        json_decref(op->arguments);
        json_decref(op->result.result);
        free(op);
    }
}

void engine_op_complete(struct engine *engine, struct engine_op *op)
{
    (void)pthread_mutex_lock(&engine->lock);
    op->done = true;
    (void)pthread_cond_broadcast(&engine->done);
    (void)pthread_mutex_unlock(&engine->lock);
}

static bool is_cancelled(const struct request *request, const void *self)
{
    (void)self;
    return request->cancelled;
}

/* Waits until there is something to do.  Returns the next call, or null for a step. */
static struct engine_op *next_work(struct engine *engine)
{
    (void)pthread_mutex_lock(&engine->lock);
    (void)scheduler_end(&engine->scheduler, REQUEST_ABORTED, is_cancelled, NULL);
    while (!engine->stopping && !engine->dead && engine->first == NULL &&
           !scheduler_has_work(&engine->scheduler)) {
        (void)pthread_cond_wait(&engine->work, &engine->lock);
        (void)scheduler_end(&engine->scheduler, REQUEST_ABORTED, is_cancelled, NULL);
    }
    struct engine_op *op = engine->first;
    if (op != NULL) {
        engine->first = op->next;
        engine->last = engine->first == NULL ? NULL : engine->last;
    }
    (void)pthread_mutex_unlock(&engine->lock);
    return op;
}

static bool step(struct engine *engine)
{
    (void)pthread_mutex_lock(&engine->lock);
    bool planned = scheduler_plan(&engine->scheduler, engine->batch, &engine->plan);
    (void)pthread_mutex_unlock(&engine->lock);
    if (!planned) {
        return true;
    }
    if (!ranks_send_step(engine->ranks, engine->batch) ||
        !worker_step(engine->worker, engine->batch, engine->logits)) {
        return false;
    }
    (void)pthread_mutex_lock(&engine->lock);
    if (!engine->dead) {
        scheduler_commit(&engine->scheduler, engine->batch, &engine->plan, engine->logits);
    }
    (void)pthread_mutex_unlock(&engine->lock);
    return true;
}

static bool is_over(struct engine *engine)
{
    (void)pthread_mutex_lock(&engine->lock);
    bool over = engine->stopping || engine->dead;
    (void)pthread_mutex_unlock(&engine->lock);
    return over;
}

static void *engine_main(void *self)
{
    struct engine *engine = self;
    while (!is_over(engine)) {
        struct engine_op *op = next_work(engine);
        if (op != NULL && engine_call_run(engine, op)) {
            engine_op_complete(engine, op);
            engine_op_release(op);
        } else if (op == NULL && !step(engine)) {
            engine_die(engine);
        }
        engine_call_finish_waits(engine);
    }
    return NULL;
}

/* Everything that waits learns of the death now.  The engine's own lists stay as they are: its
 * thread may be in the middle of a step. */
static void fail_all(struct engine *engine)
{
    struct scheduler *s = &engine->scheduler;
    for (uint32_t i = 0; i < s->running_count; i++) {
        s->running[i]->state = REQUEST_FAILED;
        request_notify(s->running[i]);
    }
    for (uint32_t i = 0; i < s->waiting_count; i++) {
        s->waiting[i]->state = REQUEST_FAILED;
        request_notify(s->waiting[i]);
    }
    (void)pthread_cond_broadcast(&engine->done);
    (void)pthread_cond_broadcast(&engine->work);
}

void engine_die(struct engine *engine)
{
    (void)pthread_mutex_lock(&engine->lock);
    bool first = !engine->dead;
    engine->dead = true;
    fail_all(engine);
    (void)pthread_mutex_unlock(&engine->lock);
    uint64_t one = 1;
    if (first && write(engine->death_fd, &one, sizeof one) != (ssize_t)sizeof one) {
        abort(); /* An event counter at zero always takes one. */
    }
}

/* How rank 0 dies by a fault: the engine's thread ends where it stands. */
static void die_by_fault(void *self)
{
    engine_die(self);
    pthread_exit(NULL);
}

bool engine_start(struct engine *engine, struct worker *worker, struct ranks *ranks,
                  struct faults *faults, uint32_t blocks_count)
{
    memset(engine, 0, sizeof *engine);
    engine->worker = worker;
    engine->ranks = ranks;
    engine->faults = faults;
    faults->die = die_by_fault;
    faults->die_self = engine;
    (void)snprintf(engine->label, sizeof engine->label, "default");
    (void)pthread_mutex_init(&engine->lock, NULL);
    (void)pthread_cond_init(&engine->work, NULL);
    (void)pthread_cond_init(&engine->done, NULL);
    engine->death_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    engine->batch = calloc(1, sizeof *engine->batch);
    engine->logits =
        calloc((size_t)MODEL_SEQUENCES_MAX * worker->config.vocab, sizeof *engine->logits);
    return engine->death_fd >= 0 && engine->batch != NULL && engine->logits != NULL &&
           scheduler_init(&engine->scheduler, blocks_count, &worker->config) &&
           pthread_create(&engine->thread, NULL, engine_main, engine) == 0;
}

void engine_stop(struct engine *engine)
{
    (void)pthread_mutex_lock(&engine->lock);
    engine->stopping = true;
    engine->dead = true;
    fail_all(engine);
    (void)pthread_mutex_unlock(&engine->lock);
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    (void)pthread_timedjoin_np(engine->thread, NULL, &until);
}

bool engine_submit(struct engine *engine, struct request *request)
{
    (void)pthread_mutex_lock(&engine->lock);
    bool taken = !engine->dead && scheduler_add_take(&engine->scheduler, request);
    if (taken) {
        (void)request_retain(request);
        (void)pthread_cond_signal(&engine->work);
    }
    (void)pthread_mutex_unlock(&engine->lock);
    return taken;
}

void engine_cancel(struct engine *engine, struct request *request)
{
    (void)pthread_mutex_lock(&engine->lock);
    request->cancelled = true;
    (void)pthread_cond_signal(&engine->work);
    (void)pthread_mutex_unlock(&engine->lock);
}

static void wait_for(struct engine *engine, struct engine_op *op)
{
    (void)pthread_mutex_lock(&engine->lock);
    if (!engine->dead) {
        (void)atomic_fetch_add(&op->references, 1);
        if (engine->last != NULL) {
            engine->last->next = op;
        } else {
            engine->first = op;
        }
        engine->last = op;
        (void)pthread_cond_signal(&engine->work);
    }
    while (!op->done && !engine->dead) {
        (void)pthread_cond_wait(&engine->done, &engine->lock);
    }
    (void)pthread_mutex_unlock(&engine->lock);
}

struct engine_result engine_perform(struct engine *engine, enum engine_call call,
                                    json_t *arguments_taken)
{
    struct engine_result result = { .status = 500 };
    (void)snprintf(result.message, sizeof result.message, "%s", engine_dead_message);
    struct engine_op *op = calloc(1, sizeof *op);
    if (op == NULL) {
        json_decref(arguments_taken);
        return result;
    }
    op->call = call;
    op->arguments = arguments_taken;
    atomic_init(&op->references, 1);
    wait_for(engine, op);
    (void)pthread_mutex_lock(&engine->lock);
    if (op->done) {
        result = op->result;
        op->result.result = NULL;
    }
    (void)pthread_mutex_unlock(&engine->lock);
    engine_op_release(op);
    return result;
}

/* While paused, what is queued shows as neither running nor waiting, as measured. */
struct engine_counts engine_count(struct engine *engine)
{
    struct scheduler *s = &engine->scheduler;
    (void)pthread_mutex_lock(&engine->lock);
    uint32_t running = scheduler_running_before(s, UINT64_MAX);
    uint32_t all = s->running_count + s->waiting_count;
    struct engine_counts counts = {
        .running = running,
        .waiting = s->pause == SCHEDULER_OPEN ? all - running : 0,
        .prefix_queries = s->prefix_queries,
        .prefix_hits = s->prefix_hits,
        .prompt_tokens = s->prompt_tokens,
        .generated_tokens = s->generated_tokens,
        .dead = engine->dead,
    };
    (void)pthread_mutex_unlock(&engine->lock);
    return counts;
}
