/* worker.c -- see worker.h. */
#include "agent/shell/worker.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "agent/shell/run_op.h"
#include "api/base/clock.h"

enum { QUEUE_MAX = 8, KILL_GRACE_S = 3, KILL_S = 20, JOIN_MS = 50 };

struct job {
    bool recreate;
    struct agent_op op;
    char path[BATON_PATH_BYTES]; /* Landing or checkpoint. */
    uint64_t deadline_ns;        /* Of a recreate. */
};

struct worker {
    struct worker_options options;
    struct engine *engine;
    struct process *process; /* Null: not ours to start. */
    pthread_t thread;
    int wake_fd;

    pthread_mutex_t lock;
    struct job jobs[QUEUE_MAX]; /* Under the lock, as the next four; oldest first. */
    unsigned count;
    uint64_t running; /* Id of the operation under way; 0: none. */
    bool stop;

    bool was_alive; /* The thread's own: to tell an exit once. */
};

/* --- telling the loop --- */

static void tell(struct worker *worker, struct worker_event *event)
{
    event->engine = worker->options.engine;
    baton_mailbox_post_sure(worker->options.mailbox, worker->options.tell, event);
}

static struct worker_event *new_event(enum worker_news news)
{
    struct worker_event *event = calloc(1, sizeof(*event));
    baton_assert(event != NULL);
    event->news = news;
    return event;
}

/* --- the thread --- */

static enum process_phase phase_of(struct worker *worker)
{
    struct process_state state;
    if (worker->process == NULL) {
        return PROCESS_RUNNING;
    }
    process_look(worker->process, &state);
    return state.phase;
}

/* What its leader leaves behind serves nobody and may hold the device's memory: an exit is told when
 * nothing is left. */
static bool is_gone(struct worker *worker)
{
    enum process_phase phase = phase_of(worker);
    if (phase != PROCESS_REMAINS) {
        return phase == PROCESS_NONE;
    }
    uint64_t until_ns = baton_clock_monotonic_ns() + KILL_S * BATON_NS_PER_S;
    struct baton_status st = process_kill(worker->process, 0, until_ns);
    return baton_ok(&st); /* Else it is tried again; a recreation tells why. */
}

static void watch_process(struct worker *worker)
{
    if (worker->was_alive && is_gone(worker)) {
        worker->was_alive = false;
        tell(worker, new_event(WORKER_EXITED));
    }
}

static struct baton_status recreate(struct worker *worker, const struct job *job)
{
    uint64_t now = baton_clock_monotonic_ns();
    uint64_t kill_ns = now + KILL_S * BATON_NS_PER_S;
    if (worker->process == NULL) {
        return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE,
                                 "the engine has no exec action");
    }
    worker->was_alive = false; /* Its end is our doing. */
    struct baton_status st = process_kill(worker->process, KILL_GRACE_S * BATON_NS_PER_S,
                                          kill_ns < job->deadline_ns ? kill_ns : job->deadline_ns);
    if (baton_ok(&st)) {
        st = process_start(worker->process, job->path, job->deadline_ns);
    }
    worker->was_alive = baton_ok(&st);
    return st;
}

static void run_job(struct worker *worker, const struct job *job)
{
    if (job->recreate) {
        struct worker_event *event = new_event(WORKER_RECREATED);
        event->status = recreate(worker, job);
        tell(worker, event);
        return;
    }
    struct worker_event *event = new_event(WORKER_OP_ENDED);
    run_op(worker->options.setup->adapter, worker->engine, &job->op, job->path, &event->result);
    tell(worker, event);
}

static bool take_job(struct worker *worker, struct job *out, bool *stop)
{
    (void)pthread_mutex_lock(&worker->lock);
    bool taken = worker->count > 0;
    if (taken) {
        *out = worker->jobs[0];
        worker->count--;
        memmove(worker->jobs, worker->jobs + 1, worker->count * sizeof(*worker->jobs));
    }
    worker->running = taken && !out->recreate ? out->op.id : 0;
    *stop = worker->stop;
    (void)pthread_mutex_unlock(&worker->lock);
    return taken;
}

/* Until work comes, or the engine's process ends. */
static void wait_for_work(struct worker *worker)
{
    int process = worker->process != NULL && worker->was_alive ? process_fd(worker->process) : -1;
    struct pollfd fds[2] = { { worker->wake_fd, POLLIN, 0 }, { process, POLLIN, 0 } };
    uint64_t count;
    (void)poll(fds, 2, -1);
    if ((fds[0].revents & POLLIN) != 0 && read(worker->wake_fd, &count, sizeof(count)) < 0) {
        baton_assert(errno == EAGAIN || errno == EINTR);
    }
}

static void *run(void *argument)
{
    struct worker *worker = argument;
    struct job job;
    bool stop = false;
    while (!stop) {
        if (take_job(worker, &job, &stop)) {
            if (!stop) {
                run_job(worker, &job);
            }
        } else if (!stop) {
            wait_for_work(worker);
            watch_process(worker);
        }
    }
    return NULL;
}

/* --- the loop's side --- */

static void wake(struct worker *worker)
{
    uint64_t one = 1;
    ssize_t written = write(worker->wake_fd, &one, sizeof(one));
    (void)written; /* A full counter wakes as well. */
}

static void put_job(struct worker *worker, const struct job *job)
{
    (void)pthread_mutex_lock(&worker->lock);
    baton_assert(worker->count < QUEUE_MAX); /* The core keeps one operation at a time. */
    worker->jobs[worker->count++] = *job;
    (void)pthread_mutex_unlock(&worker->lock);
    wake(worker);
}

void worker_submit(struct worker *worker, const struct agent_op *op, const char *landing)
{
    struct job job = { .op = *op };
    memcpy(job.path, landing, strlen(landing) + 1);
    put_job(worker, &job);
}

/* With the lock held: an operation that waits behind a hanging one must never run late. */
static void forget_job(struct worker *worker, uint64_t op_id)
{
    for (unsigned i = 0; i < worker->count; i++) {
        if (!worker->jobs[i].recreate && worker->jobs[i].op.id == op_id) {
            worker->count--;
            memmove(worker->jobs + i, worker->jobs + i + 1,
                    (worker->count - i) * sizeof(*worker->jobs));
            return;
        }
    }
}

void worker_abandon(struct worker *worker, uint64_t op_id)
{
    (void)pthread_mutex_lock(&worker->lock);
    forget_job(worker, op_id);
    if (worker->running == op_id) {
        worker->options.setup->adapter->abort(worker->engine);
    }
    (void)pthread_mutex_unlock(&worker->lock);
}

void worker_recreate(struct worker *worker, const char *checkpoint, uint64_t deadline_ns)
{
    struct job job = { .recreate = true, .deadline_ns = deadline_ns };
    memcpy(job.path, checkpoint, strlen(checkpoint) + 1);
    put_job(worker, &job);
}

static struct baton_status open_parts(struct worker *worker)
{
    const struct engine_setup *setup = worker->options.setup;
    struct baton_status st = setup->adapter->open(&setup->options, &worker->engine);
    if (baton_ok(&st) && setup->exec) {
        st = process_open(&setup->process, &worker->process);
    }
    return st;
}

struct baton_status worker_create(const struct worker_options *options, struct worker **out,
                                  bool *alive)
{
    struct worker *worker = calloc(1, sizeof(*worker));
    baton_assert(worker != NULL);
    worker->options = *options;
    worker->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)pthread_mutex_init(&worker->lock, NULL);
    struct baton_status st =
        worker->wake_fd >= 0 ? open_parts(worker) : baton_status_errno(errno, "eventfd", "worker");
    if (baton_ok(&st)) {
        worker->was_alive = phase_of(worker) != PROCESS_NONE;
        *alive = worker->was_alive;
        int error = pthread_create(&worker->thread, NULL, run, worker);
        st = error == 0 ? st : baton_status_errno(error, "pthread_create", "worker");
    }
    if (!baton_ok(&st)) {
        process_close(worker->process);
        if (worker->engine != NULL) {
            options->setup->adapter->close(worker->engine);
        }
        (void)close(worker->wake_fd);
        free(worker);
        return baton_status_in(st, "engine %s", options->setup->options.name);
    }
    *out = worker;
    return st;
}

/* An operation that just begins forgets an earlier abort, so it is asked until the thread is gone. */
static void join_thread(struct worker *worker)
{
    int error;
    do {
        struct timespec until;
        worker->options.setup->adapter->abort(worker->engine);
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += JOIN_MS * (long)BATON_NS_PER_MS;
        until.tv_sec += until.tv_nsec / (long)BATON_NS_PER_S;
        until.tv_nsec %= (long)BATON_NS_PER_S;
        error = pthread_clockjoin_np(worker->thread, NULL, CLOCK_MONOTONIC, &until);
    } while (error == ETIMEDOUT);
}

void worker_destroy(struct worker *worker, bool kill)
{
    if (worker == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&worker->lock);
    worker->stop = true;
    (void)pthread_mutex_unlock(&worker->lock);
    wake(worker);
    join_thread(worker);
    if (kill && worker->process != NULL) {
        uint64_t deadline_ns = baton_clock_monotonic_ns() + KILL_S * BATON_NS_PER_S;
        struct baton_status st =
            process_kill(worker->process, KILL_GRACE_S * BATON_NS_PER_S, deadline_ns);
        (void)st; /* It was the last that we can do. */
    }
    process_close(worker->process);
    worker->options.setup->adapter->close(worker->engine);
    (void)close(worker->wake_fd);
    (void)pthread_mutex_destroy(&worker->lock);
    free(worker);
}
