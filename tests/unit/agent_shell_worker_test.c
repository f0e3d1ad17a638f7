/* agent_shell_worker_test.c -- a worker with an engine that hangs: abandoning ends that operation and no other. */
#include "agent/shell/worker.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/engine/process_proc.h"
#include "api/base/clock.h"

/* An engine whose health hangs until it is aborted as often as 'stubborn' says, and whose read-back ends
 * at once. */
struct engine {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned started; /* Health calls that began. */
    unsigned stubborn;
    unsigned aborts;
    unsigned readbacks;
};

static struct engine the_engine = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 1, 0, 0
};

static struct baton_status engine_open(const struct engine_options *options, struct engine **out)
{
    (void)options;
    *out = &the_engine;
    return baton_status_ok();
}

static void engine_close(struct engine *engine)
{
    (void)engine;
}

static struct baton_status engine_health(struct engine *engine, uint64_t deadline_ns,
                                         struct engine_gate_state *state)
{
    (void)deadline_ns;
    (void)state;
    (void)pthread_mutex_lock(&engine->lock);
    engine->aborts = 0; /* As the adapters do: an abort before the beginning is forgotten. */
    engine->started++;
    (void)pthread_cond_broadcast(&engine->changed);
    while (engine->aborts < engine->stubborn) {
        (void)pthread_cond_wait(&engine->changed, &engine->lock);
    }
    (void)pthread_mutex_unlock(&engine->lock);
    return baton_status_make(BATON_CANCELLED, BATON_REASON_NONE, "aborted");
}

static struct baton_status engine_readback(struct engine *engine, const char *landing,
                                           const char *digest, uint64_t deadline_ns,
                                           struct engine_update *result)
{
    (void)landing;
    (void)digest;
    (void)deadline_ns;
    (void)result;
    (void)pthread_mutex_lock(&engine->lock);
    engine->readbacks++;
    bool aborted = engine->aborts > 0;
    (void)pthread_mutex_unlock(&engine->lock);
    return aborted ? baton_status_make(BATON_CANCELLED, BATON_REASON_NONE, "not meant")
                   : baton_status_ok();
}

static void engine_abort(struct engine *engine)
{
    (void)pthread_mutex_lock(&engine->lock);
    engine->aborts++;
    (void)pthread_cond_broadcast(&engine->changed);
    (void)pthread_mutex_unlock(&engine->lock);
}

static const struct engine_adapter adapter = { .kind = "hanging",
                                               .open = engine_open,
                                               .close = engine_close,
                                               .health = engine_health,
                                               .readback = engine_readback,
                                               .abort = engine_abort };
static const struct engine_setup setup = { .adapter = &adapter };

static void on_worker(void *target, void *argument)
{
    (void)target;
    (void)argument;
}

static struct baton_mailbox *mailbox;

static struct worker *make_of(const struct engine_setup *of, bool *alive)
{
    struct worker *worker = NULL;
    struct baton_status st = baton_mailbox_create(64, &mailbox);
    cr_assert(baton_ok(&st));
    struct worker_options options = { { 0, 0 }, of, mailbox, on_worker };
    st = worker_create(&options, &worker, alive);
    cr_assert(baton_ok(&st), "%s", st.message);
    return worker;
}

static struct worker *make(void)
{
    bool alive = false;
    struct worker *worker = make_of(&setup, &alive);
    cr_assert(alive, "an engine that is not ours to start counts as alive");
    return worker;
}

static void submit(struct worker *worker, uint64_t id, enum agent_op_kind kind)
{
    struct agent_op op = { .id = id, .kind = kind };
    worker_submit(worker, &op, "");
}

static void wait_started(unsigned count)
{
    (void)pthread_mutex_lock(&the_engine.lock);
    while (the_engine.started < count) {
        (void)pthread_cond_wait(&the_engine.changed, &the_engine.lock);
    }
    (void)pthread_mutex_unlock(&the_engine.lock);
}

static void expect_end(uint64_t id, enum baton_code code)
{
    struct baton_mailbox_item item;
    uint64_t deadline_ns = baton_clock_monotonic_ns() + 20 * BATON_NS_PER_S;
    cr_assert(baton_mailbox_take(mailbox, deadline_ns, &item));
    struct worker_event *event = item.argument;
    cr_assert_eq(event->news, WORKER_OP_ENDED);
    cr_assert_eq(event->result.id, id, "operation %llu ended",
                 (unsigned long long)event->result.id);
    cr_assert_eq(event->result.status.code, code, "%s", event->result.status.message);
    free(event);
}

static void finish(struct worker *worker)
{
    worker_destroy(worker, false);
    struct baton_mailbox_item item;
    while (baton_mailbox_take(mailbox, 0, &item)) {
        free(item.argument);
    }
    baton_mailbox_destroy(mailbox);
}

/* One that waits behind a hanging call must not run late, when the core has given it up long ago. */
Test(agent_shell_worker, abandoned_before_it_began_never_runs)
{
    struct worker *worker = make();
    submit(worker, 1, AGENT_OP_HEALTH);
    wait_started(1);
    submit(worker, 2, AGENT_OP_READBACK);
    worker_abandon(worker, 2);
    worker_abandon(worker, 1);
    expect_end(1, BATON_CANCELLED);
    submit(worker, 3, AGENT_OP_HEALTH);
    wait_started(2);
    worker_abandon(worker, 3);
    expect_end(3, BATON_CANCELLED);
    cr_assert_eq(the_engine.readbacks, 0);
    finish(worker);
}

/* The core gives up again and again while the engine hangs: the queue must not fill. */
Test(agent_shell_worker, hanging_engine_fills_no_queue)
{
    struct worker *worker = make();
    submit(worker, 1, AGENT_OP_HEALTH);
    wait_started(1);
    for (uint64_t id = 2; id < 100; id++) {
        submit(worker, id, AGENT_OP_READBACK);
        worker_abandon(worker, id);
    }
    worker_abandon(worker, 1);
    expect_end(1, BATON_CANCELLED);
    cr_assert_eq(the_engine.readbacks, 0);
    finish(worker);
}

/* An abandon that comes after the end must not hit the next operation. */
Test(agent_shell_worker, late_abandon_hits_no_other)
{
    struct worker *worker = make();
    submit(worker, 1, AGENT_OP_READBACK);
    expect_end(1, BATON_OK);
    submit(worker, 2, AGENT_OP_HEALTH);
    wait_started(1);
    worker_abandon(worker, 1);
    (void)pthread_mutex_lock(&the_engine.lock);
    cr_assert_eq(the_engine.aborts, 0);
    (void)pthread_mutex_unlock(&the_engine.lock);
    worker_abandon(worker, 2);
    expect_end(2, BATON_CANCELLED);
    finish(worker);
}

/* An operation that begins just then forgets the first aborts; the agent's end must not wait for it. */
Test(agent_shell_worker, end_does_not_wait_for_a_hanging_call)
{
    struct worker *worker = make();
    the_engine.stubborn = 3;
    submit(worker, 1, AGENT_OP_HEALTH);
    wait_started(1);
    finish(worker);
}

static void expect_news(enum worker_news news)
{
    struct baton_mailbox_item item;
    uint64_t deadline_ns = baton_clock_monotonic_ns() + 20 * BATON_NS_PER_S;
    cr_assert(baton_mailbox_take(mailbox, deadline_ns, &item));
    struct worker_event *event = item.argument;
    cr_assert_eq(event->news, news, "%s", event->status.message);
    free(event);
}

/* A rank that outlives its leader may hold the device's memory: the exit is told once it is gone, too. */
Test(agent_shell_worker, exit_is_told_when_no_rank_is_left)
{
    static const char *const ARGV[] = { "/bin/sh", "-c", "sleep 600 & echo $! > rank; sleep 0.2",
                                        NULL };
    struct engine_setup exec = { .adapter = &adapter, .exec = true };
    struct proc_info info;
    char text[32] = "";
    bool alive = true;
    char directory[] = "/tmp/baton-worker-XXXXXX";
    cr_assert_not_null(mkdtemp(directory));
    exec.process = (struct process_options){ .name = "e0", .argv = ARGV };
    (void)snprintf(exec.process.directory, sizeof exec.process.directory, "%s", directory);
    (void)snprintf(exec.process.pid_file, sizeof exec.process.pid_file, "%s/pid", directory);
    (void)snprintf(exec.process.log_file, sizeof exec.process.log_file, "%s/log", directory);
    struct worker *worker = make_of(&exec, &alive);
    cr_assert_not(alive);
    worker_recreate(worker, "", baton_clock_monotonic_ns() + 20 * BATON_NS_PER_S);
    expect_news(WORKER_RECREATED);
    expect_news(WORKER_EXITED);
    cr_assert_eq(chdir(directory), 0);
    FILE *file = fopen("rank", "r");
    cr_assert_not_null(file);
    cr_assert_not_null(fgets(text, sizeof text, file));
    (void)fclose(file);
    cr_assert(!proc_read((pid_t)atoi(text), &info) || !info.alive, "rank %s", text);
    finish(worker);
    (void)unlink("rank");
    (void)unlink("pid");
    (void)unlink("log");
    cr_assert_eq(rmdir(directory), 0);
}
