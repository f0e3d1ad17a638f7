/* main.c -- runs worlds: seeds A..B on N processes; small worlds; mutants; stories. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/check.h"
#include "tests/sim/cover.h"
#include "tests/sim/mutants.h"
#include "tests/sim/sim.h"

enum { JOBS_MAX = 64, FAILURES_MAX = 32 };

enum task { TASK_SEEDS, TASK_STORY, TASK_EXHAUST, TASK_MUTANTS, TASK_PREDICT };

struct options {
    enum task task;
    uint64_t first;
    uint64_t last;
    uint32_t jobs;
    bool whole;       /* A story with all that the seed holds. */
    bool no_story;    /* Of the first failing seed. */
    const char *only; /* Mutants. */
    uint32_t cover;   /* 1: what was never reached fails; 2: print all. */
};

/* What the workers share. */
struct shared {
    uint64_t counters[COVER_KINDS * COVER_VALUES];
    uint64_t seeds;
    uint64_t steps;
    uint32_t failures;
    uint64_t failed[FAILURES_MAX];
    char check[FAILURES_MAX][32];
    char why[FAILURES_MAX][SIM_WHY];
};

/* A core's assertion aborts; here it ends the world that it happened in. */
static void on_abort(int number)
{
    struct world *world = world_running;
    (void)number;
    if (world != NULL) {
        sigset_t set;
        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGABRT);
        (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
        world_break(world, CHECK_ASSERT, "a core's own assertion");
        longjmp(world->out, 1);
    }
}

static double seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static struct world *new_world(void)
{
    struct world *world = calloc(1, sizeof(*world));
    baton_assert(world != NULL);
    return world;
}

static void free_world(struct world *world)
{
    world_release(world);
    free(world);
}

static void note_failure(struct shared *shared, const struct world *world)
{
    uint32_t place = __atomic_fetch_add(&shared->failures, 1, __ATOMIC_SEQ_CST);
    if (place < FAILURES_MAX) {
        shared->failed[place] = world->seed;
        (void)snprintf(shared->check[place], sizeof(shared->check[place]), "%s", world->broken);
        (void)snprintf(shared->why[place], sizeof(shared->why[place]), "%s", world->why);
    }
}

static void work_seeds(struct shared *shared, const struct options *options, uint32_t job)
{
    struct world *world = new_world();
    for (uint64_t seed = options->first + job; seed <= options->last; seed += options->jobs) {
        if (world_run(world, seed, NULL, NULL) != NULL) {
            note_failure(shared, world);
        }
        __atomic_fetch_add(&shared->seeds, 1, __ATOMIC_SEQ_CST);
        __atomic_fetch_add(&shared->steps, world->steps, __ATOMIC_SEQ_CST);
    }
    for (size_t i = 0; i < COVER_KINDS * COVER_VALUES; i++) {
        __atomic_fetch_add(&shared->counters[i], cover_counters()[i], __ATOMIC_SEQ_CST);
    }
    free_world(world);
}

static void work_exhaust(struct shared *shared, const struct options *options, uint32_t job)
{
    struct world *world = new_world();
    uint64_t runs = 0;
    uint32_t failed = exhaust(world, &(struct share){ job, options->jobs, stdout }, &runs);
    (void)fflush(stdout);
    __atomic_fetch_add(&shared->failures, failed, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&shared->seeds, runs, __ATOMIC_SEQ_CST);
    free_world(world);
}

static void run_all(struct shared *shared, const struct options *options)
{
    pid_t pids[JOBS_MAX];
    (void)fflush(stdout);
    for (uint32_t job = 0; job < options->jobs; job++) {
        pids[job] = fork();
        if (pids[job] == 0) {
            (options->task == TASK_EXHAUST ? work_exhaust : work_seeds)(shared, options, job);
            _exit(0);
        }
    }
    for (uint32_t job = 0; job < options->jobs; job++) {
        int status = 0;
        (void)waitpid(pids[job], &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            printf("a worker ended badly (%d)\n", status);
            shared->failures++;
        }
    }
}

static int run_workers(const struct options *options)
{
    struct shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    baton_assert(shared != MAP_FAILED);
    double began = seconds();
    run_all(shared, options);
    double took = seconds() - began;
    bool seeds = options->task == TASK_SEEDS;
    for (uint32_t i = 0; seeds && i < shared->failures && i < FAILURES_MAX; i++) {
        printf("seed %llu: %s: %s\n", (unsigned long long)shared->failed[i], shared->check[i],
               shared->why[i]);
    }
    if (seeds && shared->failures > 0 && shared->failed[0] != 0 && !options->no_story) {
        struct world *world = new_world();
        (void)shrink_tell(world, shared->failed[0], false, stdout);
        free_world(world);
    }
    printf("%llu %s, %u failed, %.1f s, %.0f a second\n", (unsigned long long)shared->seeds,
           seeds ? "seeds" : "small worlds", shared->failures, took, (double)shared->seeds / took);
    uint32_t missing = 0;
    if (options->cover > 0) {
        memcpy(cover_counters(), shared->counters, sizeof(shared->counters));
        missing = cover_missing(stdout, options->cover > 1);
        printf("%u things were never reached\n", missing);
    }
    return shared->failures > 0 || missing > 0;
}

static const char usage[] =
    "usage: tests/sim/run --seeds A..B [-j N] [--no-story] [--coverage | --coverage-all]\n"
    "       tests/sim/run --seeds A --story [--whole]   one world, told; a failing one is shrunk "
    "first\n"
    "       tests/sim/run --exhaust [-j N]              all small worlds\n"
    "       tests/sim/run --predict                     what swaps come to when one daemon dies\n"
    "       tests/sim/run --mutants [--only NAME,...]   each protocol fault must be found\n";

static bool parse_flag(const char *flag, struct options *options)
{
    static const struct {
        const char *flag;
        enum task task;
    } tasks[] = { { "--story", TASK_STORY },
                  { "--exhaust", TASK_EXHAUST },
                  { "--predict", TASK_PREDICT },
                  { "--mutants", TASK_MUTANTS } };
    for (size_t i = 0; i < sizeof(tasks) / sizeof(tasks[0]); i++) {
        if (strcmp(flag, tasks[i].flag) == 0) {
            options->task = tasks[i].task;
            return true;
        }
    }
    if (strcmp(flag, "--whole") == 0) {
        options->whole = true;
    } else if (strcmp(flag, "--no-story") == 0) {
        options->no_story = true;
    } else if (strncmp(flag, "--coverage", 10) == 0) {
        options->cover = flag[10] == '\0' ? 1 : 2;
    } else {
        return false;
    }
    return true;
}

static bool parse(int argc, char **argv, struct options *options)
{
    *options = (struct options){ .first = 1, .last = 1000, .jobs = 1 };
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc) {
            char *end = NULL;
            options->first = strtoull(argv[++i], &end, 10);
            options->last =
                strncmp(end, "..", 2) == 0 ? strtoull(end + 2, NULL, 10) : options->first;
        } else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
            options->only = argv[++i];
        } else if (strcmp(argv[i], "-j") == 0 && i + 1 < argc) {
            options->jobs = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else if (!parse_flag(argv[i], options)) {
            fputs(usage, stderr);
            return false;
        }
    }
    options->jobs = options->jobs < 1 ? 1 : options->jobs > JOBS_MAX ? JOBS_MAX : options->jobs;
    return true;
}

int main(int argc, char **argv)
{
    struct options options;
    if (!parse(argc, argv, &options)) {
        return 2;
    }
    (void)signal(SIGABRT, on_abort);
    if (options.task == TASK_STORY) {
        struct world *world = new_world();
        bool held = shrink_tell(world, options.first, options.whole, stdout);
        free_world(world);
        return held ? 0 : 1;
    }
    if (options.task == TASK_PREDICT) {
        struct world *world = new_world();
        uint32_t failed = predict(world, stdout);
        free_world(world);
        return failed != 0;
    }
    if (options.task == TASK_MUTANTS) {
        return mutants_hunt(options.only, options.first, options.last, options.jobs);
    }
    return run_workers(&options);
}
