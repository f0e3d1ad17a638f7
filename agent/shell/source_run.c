/* source_run.c -- the working thread of a publish, what it says meanwhile, and its place in the queue. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "agent/shell/source_work.h"
#include "api/base/clock.h"
#include "api/client/baton.h"

enum { STACK_BYTES = 2 << 20 };

static const uint64_t report_ns = 100 * BATON_NS_PER_MS;
/* The controller shows progress; once a second is enough for it. */
static const uint64_t announce_ns = 1000 * BATON_NS_PER_MS;

void source_set_phase(struct source_work *work, uint32_t phase)
{
    atomic_store(&work->phase, phase);
}

struct baton_status source_check_cancel(const struct source_work *work)
{
    if (atomic_load(&work->progress.cancel)) {
        return baton_status_make(BATON_CANCELLED, BATON_REASON_NONE,
                                 "the publish was cancelled by its client or by the agent's stop");
    }
    return baton_status_ok();
}

/* --- the queue --- */

static struct source_slot *find_slot(struct source *source, const struct local_publish *request)
{
    struct source_slot *free_slot = NULL;
    for (uint32_t i = 0; i < source->publishes_max; i++) {
        struct source_slot *slot = &source->slots[i];
        if (!slot->is_used) {
            free_slot = free_slot != NULL ? free_slot : slot;
        } else if (strcmp(slot->model, request->model) == 0 &&
                   strcmp(slot->request_id, request->request_id) == 0) {
            return NULL;
        }
    }
    return free_slot;
}

/* Waits for a change for at most 'report_ns', so that a cancel is seen. */
static void wait_briefly(pthread_cond_t *condition, pthread_mutex_t *lock)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)report_ns;
    if (until.tv_nsec >= (long)BATON_NS_PER_S) {
        until.tv_nsec -= (long)BATON_NS_PER_S;
        until.tv_sec += 1;
    }
    (void)pthread_cond_timedwait(condition, lock, &until);
}

struct baton_status source_enter(struct source_work *work)
{
    struct source *source = work->source;
    struct baton_status st = baton_status_ok();
    (void)pthread_mutex_lock(&source->lock);
    struct source_slot *slot = find_slot(source, work->request);
    while (slot == NULL && baton_ok(&st)) {
        wait_briefly(&source->changed, &source->lock);
        slot = find_slot(source, work->request);
        st = source_check_cancel(work);
    }
    if (baton_ok(&st)) {
        slot->is_used = true;
        memcpy(slot->model, work->request->model, sizeof(slot->model));
        memcpy(slot->request_id, work->request->request_id, sizeof(slot->request_id));
    }
    (void)pthread_mutex_unlock(&source->lock);
    return st;
}

void source_leave(struct source_work *work)
{
    struct source *source = work->source;
    (void)pthread_mutex_lock(&source->lock);
    for (uint32_t i = 0; i < source->publishes_max; i++) {
        struct source_slot *slot = &source->slots[i];
        if (slot->is_used && strcmp(slot->model, work->request->model) == 0 &&
            strcmp(slot->request_id, work->request->request_id) == 0) {
            slot->is_used = false;
        }
    }
    (void)pthread_cond_broadcast(&source->changed);
    (void)pthread_mutex_unlock(&source->lock);
}

/* --- the thread --- */

struct run {
    struct source_work *work;
    source_step_fn *step;
};

static void *run_step(void *argument)
{
    struct run *run = argument;
    struct source_work *work = run->work;
    work->status = run->step(work);
    (void)pthread_mutex_lock(&work->lock);
    work->is_done = true;
    (void)pthread_cond_signal(&work->done_changed);
    (void)pthread_mutex_unlock(&work->lock);
    return NULL;
}

static int start_thread(struct run *run, pthread_t *out)
{
    pthread_attr_t attributes;
    int result = pthread_attr_init(&attributes);
    if (result != 0) {
        return result;
    }
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    result = pthread_create(out, &attributes, run_step, run);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return result;
}

/* One look at the work from outside: to the client always, to the controller now and then. */
static void look(struct source_work *work, const struct local_feedback *feedback,
                 uint64_t *announced_ns)
{
    uint32_t phase = atomic_load(&work->phase);
    uint64_t done = atomic_load(&work->progress.bytes_done);
    uint64_t total = atomic_load(&work->progress.bytes_total);
    if (phase == BATON_PHASE_COPYING && total > 0 && done >= total) {
        phase =
            BATON_PHASE_SEALING; /* All bytes are written; what remains is to sync and rename. */
    }
    if (!feedback->report(feedback->context, phase, done, total, NULL)) {
        atomic_store(&work->progress.cancel, true);
    }
    uint64_t now_ns = baton_clock_monotonic_ns();
    if (atomic_load(&work->is_announced) && total > 0 && now_ns - *announced_ns >= announce_ns) {
        *announced_ns = now_ns;
        source_report_progress(work->source, work->uid, done, total);
    }
}

static void watch(struct source_work *work, const struct local_feedback *feedback)
{
    uint64_t announced_ns = baton_clock_monotonic_ns();
    (void)pthread_mutex_lock(&work->lock);
    while (!work->is_done) {
        wait_briefly(&work->done_changed, &work->lock);
        bool is_done = work->is_done;
        (void)pthread_mutex_unlock(&work->lock);
        if (!is_done) {
            look(work, feedback, &announced_ns);
        }
        (void)pthread_mutex_lock(&work->lock);
    }
    (void)pthread_mutex_unlock(&work->lock);
}

static void init_waiting(struct source_work *work)
{
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&work->lock, NULL);
    (void)pthread_cond_init(&work->done_changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    work->is_done = false;
}

struct baton_status source_run(struct source_work *work, source_step_fn *step,
                               const struct local_feedback *feedback, struct local_result *out)
{
    init_waiting(work);
    struct run run = { work, step };
    pthread_t thread;
    int result = start_thread(&run, &thread);
    if (result == 0) {
        watch(work, feedback);
        (void)pthread_join(thread, NULL);
    } else {
        work->status = baton_status_errno(result, "pthread_create", "publish");
    }
    (void)pthread_cond_destroy(&work->done_changed);
    (void)pthread_mutex_destroy(&work->lock);
    if (baton_ok(&work->status) && out != NULL) {
        *out = work->result;
    }
    return work->status;
}
