/* mutants.c -- each deliberate fault of api/base/mutant.h, and the check that finds it alone. */
#include "tests/sim/mutants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/base/mutant.h"
#include "tests/sim/check.h"
#include "tests/sim/sim.h"

#ifdef BATON_MUTANTS

int baton_mutant;

enum { SECONDS_OF_A_HUNT = 60, FALLS_MAX = 40, FATES_OF_A_LONG_STORY = 16 };

struct row {
    int mutant;
    const char *name;
    enum check check;
};

#define ROW(name_, check_)                                                                         \
    {                                                                                              \
        MUTANT_##name_, #name_, (check_)                                                           \
    }
static const struct row rows[] = {
    ROW(FORGOT_RESTORE, CHECK_MIXED),
    ROW(BACK_UNPROBED, CHECK_MIXED),
    ROW(KV_SKIPPED, CHECK_KV),
    ROW(VERIFY_SKIPPED, CHECK_COMMIT),
    ROW(ONE_ENGINE, CHECK_OLD_OR_NEW),
    ROW(GATE_KEPT, CHECK_ALL_RANKS),
    ROW(LABEL_EARLY, CHECK_COMMIT),
    ROW(STEP_KEPT, CHECK_MONOTONE),
    ROW(INTENT_SKIPPED, CHECK_ORDER),
    ROW(EPOCH_UNCHECKED, CHECK_FENCING),
    ROW(WAITED_UNCHECKED, CHECK_FENCING),
    ROW(OUTCOME_TURNED, CHECK_OUTCOME),
    ROW(OUTCOME_UNTOLD, CHECK_PROGRESS),
    ROW(RECOVERY_TRUSTS, CHECK_MIXED),
    ROW(JOIN_TRUSTS, CHECK_VERIFIED),
    ROW(DROP_NAMED, CHECK_RETENTION),
    ROW(RESTORE_UNCHECKED, CHECK_RETENTION),
    ROW(DEADLINE_FAR, CHECK_PAUSE),
    ROW(TAINT_FORGOTTEN, CHECK_MIXED),
    ROW(BARRIER_OPENS_EARLY, CHECK_ALL_RANKS),
    ROW(MEMBERS_NOT_AWAITED, CHECK_MIXED),
    ROW(MEMBER_STEP_FREE, CHECK_MONOTONE),
    ROW(DOUBT_GUESSED, CHECK_OLD_OR_NEW),
    ROW(SLEEP_BELIEVED, CHECK_SLEEP),
    ROW(ROUTER_UNHEARD, CHECK_ROUTER),
    ROW(ROUTER_UNTOLD, CHECK_ROUTER),
    ROW(ROUTER_BLAMED, CHECK_REASON),
    ROW(WAKE_TRUSTS, CHECK_VERIFIED),
    ROW(LIVE_UNREAD, CHECK_MIXED),
    ROW(LIVE_UNJOURNALED, CHECK_ORDER),
    ROW(TICKET_UNSTORED, CHECK_ORDER),
    ROW(BUDGET_STALE, CHECK_BUDGET),
    ROW(UNKNOWN_FREE, CHECK_BUDGET),
    ROW(NUMBER_KEPT, CHECK_MONOTONE),
    ROW(SEQ_REUSED, CHECK_MONOTONE),
    ROW(FLOORS_IGNORED, CHECK_MONOTONE),
    ROW(FROM_STORED, CHECK_AIM),
    ROW(TICKET_NOT_RESENT, CHECK_PROGRESS),
    ROW(OUTCOME_DROPPED, CHECK_OUTCOME),
    ROW(SUSPEND_UNSTORED, CHECK_INTENT),
    ROW(UNDO_WITHOUT_HOLD, CHECK_INTENT),
    ROW(LAG_OFF, CHECK_STALENESS),
    ROW(BLOCKED_LIES, CHECK_REASON),
    ROW(VERSION_FORGOTTEN, CHECK_RETENTION),
    ROW(ROLL_ENDS_EARLY, CHECK_REASON),
    ROW(PAUSE_FORGOTTEN, CHECK_INTENT),
    ROW(SLEEPER_TICKETED, CHECK_INTENT),
    ROW(SLEEPER_ROUTED, CHECK_ADMISSION),
    ROW(SLEEPER_COUNTED, CHECK_REASON),
    ROW(SLEEPER_PRESENT, CHECK_BUDGET),
    ROW(WOKEN_AS_NEW, CHECK_BUDGET),
    ROW(ASLEEP_OF_BEFORE, CHECK_SLEEP),
    ROW(READY_WITH_TICKET, CHECK_ADMISSION),
    ROW(SLOTS_UNBOUNDED, CHECK_ADMISSION),
    ROW(CORDON_IGNORED, CHECK_INTENT),
    ROW(CHANGE_UNMARKED, CHECK_STORE),
    ROW(VERSION_OF_ANY, CHECK_MODELS),
    ROW(READY_FOR_ANY, CHECK_MODELS),
    ROW(SLEEP_OF_ALL, CHECK_MODELS),
    ROW(BUDGET_OF_ALL, CHECK_BUDGET),
    ROW(SAMPLES_UNSTORED, CHECK_SAMPLES),
    ROW(SAMPLES_STALE, CHECK_SAMPLES),
    ROW(TIMER_STUCK, CHECK_TIME),
    ROW(STORE_EPOCH_FREE, CHECK_FENCING),
    ROW(STORE_REVISION_FREE, CHECK_STORE),
    ROW(UNANSWERED_SENT, CHECK_ORDER),
    ROW(DEPOSED_GOES_ON, CHECK_ORDER),
    ROW(TORN_READ, CHECK_STORE),
    ROW(DOUBT_BELIEVED, CHECK_STORE),
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };
_Static_assert((int)ROWS == (int)MUTANT_COUNT - 1, "each mutant has its row");

/* What a hunter shares with its parent. */
struct hunt {
    uint64_t seed; /* In work. */
    bool found;
    char why[SIM_WHY];
};

void sim_assert(const char *file, int line, const char *condition)
{
    struct world *world = world_running;
    if (world == NULL) {
        baton_assert_failed(file, line, condition);
    }
    if ((world->checks_off >> CHECK_ASSERT & 1U) != 0) {
        return;
    }
    world_break(world, CHECK_ASSERT, "%s:%d: %s", file, line, condition);
    longjmp(world->out, 1);
}

static void search(const struct row *row, struct hunt *hunt, uint64_t last)
{
    struct world *world = calloc(1, sizeof(*world));
    baton_assert(world != NULL);
    baton_mutant = row->mutant;
    for (; hunt->seed <= last && !hunt->found; hunt->seed++) {
        world->checks_off = ~(UINT32_C(1) << row->check);
        if (world_run(world, hunt->seed, NULL, NULL) != NULL) {
            hunt->found = true;
            memcpy(hunt->why, world->why, sizeof(hunt->why));
        }
    }
}

/* A failing seed comes down to what it needs: fewer disturbances, the same check, and a story. */
static void search_and_shrink(const struct row *row, struct hunt *hunt, uint64_t last)
{
    struct world *world = calloc(1, sizeof(*world));
    baton_assert(world != NULL);
    baton_mutant = row->mutant;
    world->checks_off = ~(UINT32_C(1) << row->check);
    for (; hunt->seed <= last && !hunt->found; hunt->seed++) {
        bool mask[SIM_FATES];
        const char *broken = world_run(world, hunt->seed, NULL, NULL);
        uint32_t before = world->fates_count;
        if (broken == NULL || before < FATES_OF_A_LONG_STORY) {
            continue;
        }
        FILE *story = tmpfile();
        baton_assert(story != NULL);
        uint32_t left = shrink(world, hunt->seed, mask);
        bool fails = world_run(world, hunt->seed, mask, story) == broken;
        hunt->found = fails && left > 0 && left <= before / 2 && ftell(story) > 0;
        (void)snprintf(hunt->why, sizeof(hunt->why), "of %u disturbances %u are left: %.100s",
                       before, left, world->why);
        (void)fclose(story);
    }
}

/* A core whose assertions are loose may fall over a fault: the hunt goes on with the next seed. */
static bool hunt_one(const struct row *row, uint64_t first, uint64_t last, bool shrinks)
{
    struct hunt *hunt =
        mmap(NULL, sizeof(*hunt), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    baton_assert(hunt != MAP_FAILED);
    hunt->seed = first;
    for (int falls = 0; falls < FALLS_MAX && !hunt->found && hunt->seed <= last; falls++) {
        int status = 0;
        pid_t pid = fork();
        if (pid == 0) {
            (void)alarm(SECONDS_OF_A_HUNT);
            (shrinks ? search_and_shrink : search)(row, hunt, last);
            _exit(0);
        }
        (void)waitpid(pid, &status, 0);
        hunt->seed += WIFSIGNALED(status) ? 1 : 0;
    }
    printf("%s - mutant %s is found by check \"%s\" alone%s", hunt->found ? "ok" : "not ok",
           row->name, check_name((int)row->check), shrinks ? ", and its seed is shrunk" : "");
    if (hunt->found) {
        printf(" (seed %llu: %.150s)", (unsigned long long)hunt->seed - 1, hunt->why);
    }
    printf("\n");
    (void)fflush(stdout);
    return hunt->found;
}

/* A check that finds no fault might as well not be there.  A core's assertions are not the simulator's. */
static int count_checks(void)
{
    int missing = 0;
    for (int check = CHECK_ASSERT + 1; check < CHECK_COUNT; check++) {
        bool finds = false;
        for (size_t i = 0; i < ROWS; i++) {
            finds |= (int)rows[i].check == check;
        }
        if (!finds) {
            printf("not ok - check \"%s\" has no mutant that it must find\n", check_name(check));
        }
        missing += !finds;
    }
    return missing;
}

int mutants_hunt(const char *only, uint64_t first, uint64_t last, uint32_t jobs)
{
    pid_t pids[ROWS];
    int failed = count_checks();
    bool shrinks = only == NULL || strstr(only, "SHRINK") != NULL;
    failed += shrinks && !hunt_one(&rows[0], first, last, true);
    (void)fflush(stdout);
    for (uint32_t job = 0; job < jobs && job < ROWS; job++) {
        pids[job] = fork();
        if (pids[job] == 0) {
            int lost = 0;
            for (uint32_t i = job; i < ROWS; i += jobs) {
                bool wanted = only == NULL || strstr(only, rows[i].name) != NULL;
                lost += wanted && !hunt_one(&rows[i], first, last, false);
            }
            _exit(lost);
        }
    }
    for (uint32_t job = 0; job < jobs && job < ROWS; job++) {
        int status = 0;
        (void)waitpid(pids[job], &status, 0);
        failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    return failed != 0;
}

#else

int mutants_hunt(const char *only, uint64_t first, uint64_t last, uint32_t jobs)
{
    (void)only;
    (void)first;
    (void)last;
    (void)jobs;
    fputs("this build has no mutants; use the program sim_mutants\n", stderr);
    return 2;
}

#endif
