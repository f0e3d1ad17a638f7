/* patience.c -- see patience.h. */
#include "tests/conformance/patience.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/base/clock.h"

/* The shortest try of the stores that are tested is 300 ms; a write of etcd waits for the disk. */
enum { STALL_MS = 200, LOOK_MS = 20, LOOKS_A_WRITE = 5, TRIES = 8 };

/* Shared with the part's process: the longest stall that it saw. */
static _Atomic uint64_t *stall_ms;

static void note_stall(uint64_t since_ns, uint64_t expected_ms)
{
    uint64_t took_ms = (baton_clock_monotonic_ns() - since_ns) / BATON_NS_PER_MS;
    uint64_t more_ms = took_ms > expected_ms ? took_ms - expected_ms : 0;
    if (more_ms > atomic_load(stall_ms)) {
        atomic_store(stall_ms, more_ms);
    }
}

static void *watch(void *unused)
{
    char path[] = P_tmpdir "/baton-patience-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    (void)unlink(path);
    for (int looks = 0;; looks++) {
        uint64_t since_ns = baton_clock_monotonic_ns();
        if (looks % LOOKS_A_WRITE == 0 && pwrite(fd, "x", 1, 0) == 1) {
            (void)fdatasync(fd);
            note_stall(since_ns, 0);
            since_ns = baton_clock_monotonic_ns();
        }
        baton_clock_sleep_ns(LOOK_MS * BATON_NS_PER_MS);
        note_stall(since_ns, LOOK_MS);
    }
    return unused;
}

static _Noreturn void run_here(void (*part)(void))
{
    pthread_t thread;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (pthread_create(&thread, NULL, watch, NULL) != 0) {
        perror("patience");
        exit(1);
    }
    (void)pthread_detach(thread);
    part();
    exit(0);
}

void patience_run(const char *name, void (*part)(void))
{
    stall_ms =
        mmap(NULL, sizeof(*stall_ms), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int tries = 1; stall_ms != MAP_FAILED; tries++) {
        int status = 0;
        atomic_store(stall_ms, 0);
        (void)fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            run_here(part);
        }
        if (child < 0 || waitpid(child, &status, 0) != child) {
            break;
        }
        if (status == 0) {
            (void)munmap((void *)stall_ms, sizeof(*stall_ms));
            return;
        }
        if (atomic_load(stall_ms) < STALL_MS || tries == TRIES) {
            fprintf(stderr, "%s failed (status %d, try %d)\n", name, status, tries);
            exit(1);
        }
        printf("# %s: failed, and the machine had stood still for %llu ms; again\n", name,
               (unsigned long long)atomic_load(stall_ms));
    }
    perror("patience");
    exit(1);
}
