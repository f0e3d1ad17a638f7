/* main.c -- starts the ranks, the engine, the guard and the HTTP server, and ends them.
 *
 * The main thread owns the signals: SIGTERM and SIGINT drain, SIGCHLD means that a rank died, and
 * with it the engine: what waits gets its error, then the process ends, as a server of vLLM does. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/miniengine/options.h"
#include "tests/miniengine/server.h"

/* How long a dead engine still answers 500 before the process ends. */
enum { DEATH_MS = 300, POLL_MS = 5 };

/* Everything of a server process. */
struct process {
    struct options options;
    struct faults faults;
    struct ranks ranks;
    struct worker worker;
    struct engine engine;
    struct guard guard;
    struct tokenizer tokenizer;
    struct server server;
    int signal_fd;
};

static int complain(const struct trouble *why)
{
    (void)fprintf(stderr, "miniengine: %s%s%s\n", why->message, why->tensor[0] != '\0' ? ": " : "",
                  why->tensor);
    return 1;
}

static void sleep_ms(long ms)
{
    struct timespec wait = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
    (void)nanosleep(&wait, NULL);
}

static struct worker_options worker_options(const struct options *o)
{
    return (struct worker_options){ .dir = o->model,
                                    .rank = o->worker,
                                    .ranks_count = o->ranks,
                                    .blocks_count = o->blocks,
                                    .backend = o->backend[0] != '\0' };
}

static _Noreturn void die_at_once(void *self)
{
    (void)self;
    (void)raise(SIGKILL);
    abort();
}

/* The life of a rank above 0. */
static int run_worker(struct process *p)
{
    struct trouble why = { .code = "" };
    int faults_fd = -1;
    /* A signal to the whole process group is the server's business: it ends the ranks itself. */
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGTERM, SIG_IGN);
    if (!ranks_attach(&p->ranks, p->options.worker, p->options.ranks, &faults_fd)) {
        (void)fprintf(stderr, "miniengine: --worker is for the server itself\n");
        return 1;
    }
    if (faults_fd >= 0 && !faults_attach(&p->faults, faults_fd)) {
        return 1;
    }
    p->faults.die = die_at_once;
    struct worker_options options = worker_options(&p->options);
    bool ok = worker_open(&p->worker, &options, &p->ranks, &p->faults, &why);
    json_t *reply =
        ok ? json_pack("{s:s}", "result", "ready") : json_pack("{s:s}", "raised", why.message);
    ok = ranks_send_reply(&p->ranks, reply) && ok;
    json_decref(reply);
    int status = ok ? worker_run(&p->worker) : 1;
    worker_close(&p->worker);
    return status;
}

static bool open_signals(struct process *p)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGCHLD);
    (void)signal(SIGPIPE, SIG_IGN);
    p->signal_fd = pthread_sigmask(SIG_BLOCK, &set, NULL) == 0
                       ? signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC)
                       : -1;
    return p->signal_fd >= 0;
}

static bool open_faults(struct process *p, struct trouble *why)
{
    if (!p->options.faults) {
        return true;
    }
    if (!faults_create(&p->faults)) {
        return trouble_set(why, "INTERNAL", NULL, "shared memory: %s", strerror(errno));
    }
    for (uint32_t i = 0; i < p->options.fault_count; i++) {
        json_t *fault = json_loads(p->options.fault[i], 0, NULL);
        bool added = faults_add(&p->faults, fault, p->options.ranks, why);
        json_decref(fault);
        if (!added) {
            return false;
        }
    }
    return true;
}

static bool await_ranks(struct process *p, struct trouble *why)
{
    for (uint32_t rank = 1; rank < p->options.ranks; rank++) {
        json_t *reply = NULL;
        if (!ranks_read_reply(&p->ranks, rank, &reply)) {
            return trouble_set(why, "INTERNAL", NULL, "rank %u ended while it started", rank);
        }
        const char *raised = json_string_value(json_object_get(reply, "raised"));
        if (raised != NULL) {
            (void)trouble_set(why, "INTERNAL", NULL, "rank %u: %s", rank, raised);
        }
        json_decref(reply);
        if (raised != NULL) {
            return false;
        }
    }
    return true;
}

static bool start_ranks(struct process *p, char **argv, struct trouble *why)
{
    struct worker_options options = worker_options(&p->options);
    int faults_fd = p->faults.table != NULL ? p->faults.fd : -1;
    return (ranks_start(&p->ranks, p->options.ranks, argv, faults_fd) ||
            trouble_set(why, "INTERNAL", NULL, "starting the ranks: %s", strerror(errno))) &&
           worker_open(&p->worker, &options, &p->ranks, &p->faults, why) && await_ranks(p, why) &&
           tokenizer_load(p->options.model, &p->tokenizer, why);
}

static bool start_guard(struct process *p, struct trouble *why)
{
    const char *page = getenv("BATON_GUARD_PAGE");
    return page == NULL || page[0] == '\0' ||
           guard_open(&p->guard, page, getenv("BATON_GUARD_TOKEN_FILE"), why);
}

static uint32_t length_max(const struct process *p)
{
    uint32_t max = p->worker.config.positions_max;
    uint32_t pool = p->options.blocks * KV_BLOCK_TOKENS;
    max = max < MODEL_BLOCKS_MAX * KV_BLOCK_TOKENS ? max : MODEL_BLOCKS_MAX * KV_BLOCK_TOKENS;
    max = max < pool ? max : pool;
    return p->options.length_max != 0 && p->options.length_max < max ? p->options.length_max : max;
}

static bool start_server(struct process *p, struct trouble *why)
{
    struct server *s = &p->server;
    const struct options *o = &p->options;
    uint32_t random = 0;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) {
        return trouble_set(why, "INTERNAL", NULL, "no random numbers: %s", strerror(errno));
    }
    (void)snprintf(s->model, sizeof s->model, "%s",
                   o->served_name != NULL ? o->served_name : o->model);
    (void)snprintf(s->dir, sizeof s->dir, "%s", o->model);
    (void)snprintf(s->instance_id, sizeof s->instance_id, "%05x", random & 0xFFFFFU);
    (void)snprintf(s->backend, sizeof s->backend, "%s", o->backend);
    s->sleep_mode = o->sleep_mode;
    s->engine = &p->engine;
    s->guard = &p->guard;
    s->faults = p->faults.table != NULL ? &p->faults : NULL;
    s->tokenizer = &p->tokenizer;
    s->ranks = o->ranks;
    s->vocab = p->worker.config.vocab;
    s->length_max = length_max(p);
    s->created = (int64_t)time(NULL);
    uint16_t port = server_start(s, o->host, (uint16_t)o->port, why);
    if (port == 0) {
        return false;
    }
    (void)printf("listening on %s:%u\n", o->host, port);
    (void)fflush(stdout);
    return true;
}

/* Waits for a signal or the engine's death.  True: asked to end. */
static bool serve(struct process *p)
{
    struct pollfd fds[2] = { { .fd = p->signal_fd, .events = POLLIN },
                             { .fd = p->engine.death_fd, .events = POLLIN } };
    for (;;) {
        (void)poll(fds, 2, -1);
        struct signalfd_siginfo info;
        while (read(p->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
            if (info.ssi_signo != SIGCHLD) {
                return true;
            }
            while (waitpid(-1, NULL, WNOHANG) > 0) {
                engine_die(&p->engine);
            }
        }
        if ((fds[1].revents & POLLIN) != 0) {
            return false;
        }
    }
}

static void await_idle(struct process *p, long ms)
{
    for (long waited = 0; waited < ms && atomic_load(&p->server.active) > 0; waited += POLL_MS) {
        sleep_ms(POLL_MS);
    }
}

/* No new connections; what runs may finish within the bound, then everything is told. */
static void drain(struct process *p)
{
    server_quiesce(&p->server);
    atomic_store(&p->server.stopping, true);
    await_idle(p, (long)p->options.drain_seconds * 1000);
    engine_stop(&p->engine);
    await_idle(p, 1000);
}

static int run_server(struct process *p, char **argv)
{
    struct trouble why = { .code = "" };
    if (!open_signals(p) || !open_faults(p, &why) || !start_ranks(p, argv, &why) ||
        !start_guard(p, &why) ||
        !engine_start(&p->engine, &p->worker, &p->ranks, &p->faults, p->options.blocks) ||
        !start_server(p, &why)) {
        ranks_stop(&p->ranks);
        return complain(&why);
    }
    bool asked = serve(p);
    if (asked) {
        drain(p);
    } else {
        (void)fprintf(stderr, "miniengine: %s\n", engine_dead_message);
        sleep_ms(DEATH_MS);
    }
    ranks_stop(&p->ranks);
    return asked ? 0 : 1;
}

int main(int argc, char **argv)
{
    static struct process process;
    options_parse(&process.options, argc, argv);
    int status = process.options.worker > 0 ? run_worker(&process) : run_server(&process, argv);
    /* Threads may still sit in calls that never return; nothing is left to be written. */
    (void)fflush(NULL);
    _exit(status);
}
