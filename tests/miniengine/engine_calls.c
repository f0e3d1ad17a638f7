/* engine_calls.c -- what each call does; see engine_op.h.
 *
 * The order of things, and what is *not* done, follow vLLM 0.32: a collective call stops reading
 * replies at the first bad one, a pause synchronises the ranks after it took effect, and finishing
 * an update clears no cache. */
#include <stdio.h>
#include <string.h>

#include "tests/miniengine/engine_op.h"

static struct fault_place place_of(enum fault_phase phase)
{
    return (struct fault_place){ phase, 0, FAULTS_ANY };
}

/* Passes the phase; true if the call shall only be answered. */
static bool lies(struct engine *engine, enum fault_phase phase)
{
    struct fault_hit hit;
    faults_pass(engine->faults, place_of(phase));
    return faults_take(engine->faults, FAULT_LIE, place_of(phase), &hit);
}

static bool fail(struct engine_op *op, const char *raised)
{
    op->result.status = 500;
    (void)snprintf(op->result.message, sizeof op->result.message,
                   "Call to collective_rpc method failed: Worker failed with error '%s', please "
                   "check the stack trace above for the root cause",
                   raised);
    return false;
}

static bool broken(struct engine *engine, struct engine_op *op)
{
    op->result.status = 500;
    (void)snprintf(op->result.message, sizeof op->result.message, "%s", engine_dead_message);
    engine_die(engine);
    return false;
}

/* Reads one rank's next reply into 'results'. */
static bool take_reply(struct engine *engine, struct engine_op *op, uint32_t rank, json_t *results)
{
    json_t *reply = NULL;
    if (!ranks_read_reply(engine->ranks, rank, &reply)) {
        return broken(engine, op);
    }
    const char *raised = json_string_value(json_object_get(reply, "raised"));
    if (raised != NULL) {
        (void)fail(op, raised);
    } else {
        (void)json_array_append(results, json_object_get(reply, "result"));
    }
    json_decref(reply);
    return raised == NULL;
}

/* One call to all ranks, at the same time.  Fills the op's result with one value a rank, or with
 * the first error; replies after that stay unread, as there. */
static bool collective(struct engine *engine, struct engine_op *op, const char *method,
                       json_t *kwargs)
{
    json_t *call = json_pack("{s:s, s:O?}", "method", method, "kwargs", kwargs);
    bool sent = ranks_send_call(engine->ranks, call);
    json_decref(call);
    if (!sent) {
        return broken(engine, op);
    }
    struct worker_answer own = worker_call(engine->worker, method, kwargs);
    if (own.result == NULL) {
        return fail(op, own.raised);
    }
    json_t *results = json_array();
    (void)json_array_append_new(results, own.result);
    bool ok = true;
    for (uint32_t rank = 1; ok && rank < engine->ranks->count; rank++) {
        ok = take_reply(engine, op, rank, results);
    }
    if (ok) {
        op->result.result = results;
    } else {
        json_decref(results);
    }
    return ok;
}

static bool synchronize(struct engine *engine, struct engine_op *op)
{
    bool ok = collective(engine, op, "synchronize_device", NULL);
    json_decref(op->result.result);
    op->result.result = NULL;
    return ok;
}

static void freeze(struct engine *engine, bool clear)
{
    struct scheduler *s = &engine->scheduler;
    s->pause = SCHEDULER_FROZEN;
    if (clear) {
        scheduler_preempt_all(s);
        (void)kv_reset(&s->pool);
    }
}

static void abort_all(struct engine *engine, bool clear)
{
    struct scheduler *s = &engine->scheduler;
    (void)scheduler_end(s, REQUEST_ABORTED, NULL, NULL);
    s->pause = SCHEDULER_CLOSED;
    if (clear) {
        (void)kv_reset(&s->pool);
    }
}

/* True if the drain is over already (or will never come, because everything is frozen). */
static bool close_and_wait(struct engine *engine, struct engine_op *op)
{
    struct scheduler *s = &engine->scheduler;
    op->arrivals = s->arrivals;
    if (s->pause == SCHEDULER_FROZEN || engine->waits_count == ENGINE_WAITS_MAX) {
        return true;
    }
    s->pause = SCHEDULER_CLOSED;
    if (scheduler_running_before(s, op->arrivals) == 0) {
        if (op->clear_cache) {
            (void)kv_reset(&s->pool);
        }
        return true;
    }
    engine->waits[engine->waits_count++] = op;
    return false;
}

static bool run_pause(struct engine *engine, struct engine_op *op)
{
    struct fault_hit hit;
    const char *mode = json_string_value(json_object_get(op->arguments, "mode"));
    bool now = true;
    op->clear_cache = json_is_true(json_object_get(op->arguments, "clear_cache"));
    if (faults_take(engine->faults, FAULT_LIE, place_of(FAULT_PAUSE), &hit)) {
        return true;
    }
    (void)pthread_mutex_lock(&engine->lock);
    if (strcmp(mode, "keep") == 0) {
        freeze(engine, op->clear_cache);
    } else if (strcmp(mode, "wait") == 0) {
        now = close_and_wait(engine, op);
    } else {
        abort_all(engine, op->clear_cache);
    }
    (void)pthread_mutex_unlock(&engine->lock);
    if (now) {
        (void)synchronize(engine, op);
    }
    return now;
}

static bool run_resume(struct engine *engine, struct engine_op *op)
{
    if (engine->asleep) {
        op->result.status = 500;
        (void)snprintf(op->result.message, sizeof op->result.message,
                       "the engine sleeps: wake it up");
        return true;
    }
    if (!lies(engine, FAULT_RESUME)) {
        (void)pthread_mutex_lock(&engine->lock);
        engine->scheduler.pause = SCHEDULER_OPEN;
        (void)pthread_mutex_unlock(&engine->lock);
    }
    return true;
}

static bool run_is_paused(struct engine *engine, struct engine_op *op)
{
    op->result.result = json_boolean(engine->scheduler.pause != SCHEDULER_OPEN);
    return true;
}

/* Requests end, the ranks release their memory; level 0 is the pause alone. */
static bool run_sleep(struct engine *engine, struct engine_op *op)
{
    json_int_t level = json_integer_value(json_object_get(op->arguments, "level"));
    if (lies(engine, FAULT_SLEEP)) {
        return true;
    }
    (void)pthread_mutex_lock(&engine->lock);
    abort_all(engine, level > 0);
    (void)pthread_mutex_unlock(&engine->lock);
    engine->asleep |= level > 0 && collective(engine, op, "sleep", op->arguments);
    json_decref(op->result.result);
    op->result.result = NULL;
    return true;
}

/* Scheduling alone is resumed only where all memory is there. */
static bool run_wake(struct engine *engine, struct engine_op *op)
{
    bool all = json_is_true(json_object_get(op->arguments, "all"));
    if (all && engine->asleep && !lies(engine, FAULT_SLEEP)) {
        engine->asleep = !collective(engine, op, "wake_up", NULL);
        json_decref(op->result.result);
        op->result.result = NULL;
    }
    if (!engine->asleep) {
        (void)run_resume(engine, op);
    }
    op->result.result = json_boolean(!engine->asleep);
    return true;
}

static bool run_is_asleep(struct engine *engine, struct engine_op *op)
{
    op->result.result = json_boolean(engine->asleep || engine->scheduler.pause != SCHEDULER_OPEN);
    return true;
}

/* A request's id is "cmpl-<given or made>"; both forms name it. */
static bool is_listed(const struct request *request, const void *self)
{
    const json_t *ids = self;
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const char *id = json_string_value(json_array_get(ids, i));
        if (id != NULL && (strcmp(id, request->id) == 0 || strcmp(id, request->id + 5) == 0)) {
            return true;
        }
    }
    return false;
}

/* With a list, the answer is the list's length, however many there were: as measured. */
static bool run_abort(struct engine *engine, struct engine_op *op)
{
    const json_t *ids = json_object_get(op->arguments, "request_ids");
    (void)pthread_mutex_lock(&engine->lock);
    uint32_t ended = ids == NULL
                         ? scheduler_end(&engine->scheduler, REQUEST_ABORTED, NULL, NULL)
                         : scheduler_end(&engine->scheduler, REQUEST_ABORTED, is_listed, ids);
    (void)pthread_mutex_unlock(&engine->lock);
    op->result.result =
        json_integer(ids == NULL ? (json_int_t)ended : (json_int_t)json_array_size(ids));
    return true;
}

static bool run_reset(struct engine *engine, struct engine_op *op)
{
    if (lies(engine, FAULT_RESET)) {
        op->result.result = json_true();
        return true;
    }
    (void)pthread_mutex_lock(&engine->lock);
    if (json_is_true(json_object_get(op->arguments, "reset_running_requests"))) {
        scheduler_preempt_all(&engine->scheduler);
    }
    bool reset = kv_reset(&engine->scheduler.pool);
    (void)pthread_mutex_unlock(&engine->lock);
    op->result.result = json_boolean(reset);
    return true;
}

static bool run_collective(struct engine *engine, struct engine_op *op)
{
    (void)collective(engine, op, json_string_value(json_object_get(op->arguments, "method")),
                     json_object_get(op->arguments, "kwargs"));
    return true;
}

static void set_label(struct engine *engine, const json_t *value)
{
    (void)pthread_mutex_lock(&engine->lock);
    (void)snprintf(engine->label, sizeof engine->label, "%s", json_string_value(value));
    (void)pthread_mutex_unlock(&engine->lock);
}

static bool run_finish(struct engine *engine, struct engine_op *op)
{
    const json_t *label = json_object_get(op->arguments, "weight_version");
    if (collective(engine, op, "finish_weight_update", NULL) && json_is_string(label)) {
        set_label(engine, label);
    }
    return true;
}

static bool run_set_label(struct engine *engine, struct engine_op *op)
{
    if (!lies(engine, FAULT_LABEL)) {
        set_label(engine, json_object_get(op->arguments, "new_version"));
    }
    return true;
}

static bool run_get_label(struct engine *engine, struct engine_op *op)
{
    op->result.result = json_string(engine->label);
    return true;
}

bool engine_call_run(struct engine *engine, struct engine_op *op)
{
    op->result.status = 200;
    switch (op->call) {
    case ENGINE_PAUSE: return run_pause(engine, op);
    case ENGINE_RESUME: return run_resume(engine, op);
    case ENGINE_IS_PAUSED: return run_is_paused(engine, op);
    case ENGINE_ABORT: return run_abort(engine, op);
    case ENGINE_RESET: return run_reset(engine, op);
    case ENGINE_COLLECTIVE: return run_collective(engine, op);
    case ENGINE_FINISH: return run_finish(engine, op);
    case ENGINE_SET_LABEL: return run_set_label(engine, op);
    case ENGINE_GET_LABEL: return run_get_label(engine, op);
    case ENGINE_SLEEP: return run_sleep(engine, op);
    case ENGINE_WAKE: return run_wake(engine, op);
    case ENGINE_IS_ASLEEP: return run_is_asleep(engine, op);
    }
    return true;
}

/* The next wait that is over, taken out; null if none is. */
static struct engine_op *take_wait(struct engine *engine)
{
    struct engine_op *found = NULL;
    struct scheduler *s = &engine->scheduler;
    (void)pthread_mutex_lock(&engine->lock);
    for (uint32_t i = 0; found == NULL && i < engine->waits_count; i++) {
        if (s->pause == SCHEDULER_FROZEN ||
            scheduler_running_before(s, engine->waits[i]->arrivals) == 0) {
            found = engine->waits[i];
            engine->waits[i] = engine->waits[--engine->waits_count];
        }
    }
    if (found != NULL && found->clear_cache && s->pause == SCHEDULER_CLOSED) {
        (void)kv_reset(&s->pool);
    }
    (void)pthread_mutex_unlock(&engine->lock);
    return found;
}

void engine_call_finish_waits(struct engine *engine)
{
    struct engine_op *op = take_wait(engine);
    while (op != NULL) {
        (void)synchronize(engine, op);
        engine_op_complete(engine, op);
        engine_op_release(op);
        op = take_wait(engine);
    }
}
