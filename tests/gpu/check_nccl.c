/* check_nccl.c -- backend "nccl": what one GPU can show, and the rest where there are two.
 *
 * One GPU: a communicator of one rank; peers that do not come; ranks that NCCL refuses, because they
 * share a GPU; communicators closed while they form.  Two: broadcasts, and a rank that is killed. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "tests/gpu/nccl_rank.h"

enum {
    BYTES = 600 << 20,
    TIMEOUT_MS = 5000,
    ENOUGH_MS = 60000,
    /* An abort has its time, too; far below it a rank would count as hanging. */
    ANSWER_MS = TIMEOUT_MS + 20000,
    CLOSES = 3,
    ROUNDS = 3,
    MANY_ROUNDS = 1000000,
};

static uint64_t milliseconds_since(uint64_t begin_ns)
{
    return (baton_clock_monotonic_ns() - begin_ns) / BATON_NS_PER_MS;
}

static void check_alone(struct rig *rig, const struct nccl_paths *paths)
{
    struct nccl_rank rank = nccl_rank_open(
        paths, (struct nccl_rank_options){ .ranks = 1, .timeout_ms = ENOUGH_MS, .bytes = BYTES });
    bool holds = true;
    for (int round = 1; round <= ROUNDS; round++) {
        holds = nccl_rank_fill(&rank, round) && nccl_rank_broadcast(&rank) == BATON_TP_OK &&
                nccl_rank_holds(&rank, round) && holds;
    }
    rig_verdict(rig, "nccl: a communicator of one rank broadcasts in buckets", holds);
    nccl_rank_close(&rank);
}

/* The other rank never comes: an answer in time, no hanging communicator, a device that works on. */
static void check_absent(struct rig *rig, const struct nccl_paths *paths)
{
    struct nccl_rank rank = nccl_rank_open(
        paths, (struct nccl_rank_options){ .ranks = 2, .timeout_ms = TIMEOUT_MS, .bytes = BYTES });
    uint64_t begin = baton_clock_monotonic_ns();
    int32_t result = nccl_rank_broadcast(&rank);
    uint64_t took = milliseconds_since(begin);
    printf("  it took %llu ms of %d allowed to form\n", (unsigned long long)took, TIMEOUT_MS);
    rig_verdict(rig, "nccl: a peer that does not come is UNREACHABLE in time",
                result == BATON_TP_E_UNREACHABLE && took < ANSWER_MS);
    rig_verdict(rig, "nccl: after an abort nothing is taken, and the device works",
                nccl_rank_broadcast(&rank) == BATON_TP_E_UNREACHABLE && nccl_rank_fill(&rank, 7) &&
                    nccl_rank_holds(&rank, 7));
    nccl_rank_close(&rank);
}

static void check_closing(struct rig *rig, const struct nccl_paths *paths)
{
    uint64_t begin = baton_clock_monotonic_ns();
    for (int i = 0; i < CLOSES; i++) {
        struct nccl_rank rank = nccl_rank_open(
            paths, (struct nccl_rank_options){ .ranks = 2, .timeout_ms = ENOUGH_MS, .bytes = 1 });
        nccl_rank_close(&rank);
    }
    rig_verdict(rig, "nccl: communicators are closed while they form",
                milliseconds_since(begin) < CLOSES * (uint64_t)ANSWER_MS);
}

/* The result of broadcasts to rank 1 in a process of its own, and what that process ends with. */
static int32_t broadcast_to(const struct nccl_paths *paths, int device, int kill_after, int *status)
{
    struct nccl_rank rank = nccl_rank_open(
        paths, (struct nccl_rank_options){ .ranks = 2, .timeout_ms = TIMEOUT_MS, .bytes = BYTES });
    pid_t pid = nccl_rank_start(&rank, paths, device, kill_after > 0 ? MANY_ROUNDS : ROUNDS);
    int32_t result = BATON_TP_OK;
    int rounds = kill_after > 0 ? MANY_ROUNDS : ROUNDS;
    for (int round = 1; result == BATON_TP_OK && round <= rounds; round++) {
        if (round == kill_after) {
            (void)kill(pid, SIGKILL);
        }
        result = nccl_rank_fill(&rank, round) ? nccl_rank_broadcast(&rank) : BATON_TP_E_INTERNAL;
    }
    if (waitpid(pid, status, 0) != pid) {
        *status = -1;
    }
    nccl_rank_close(&rank);
    return result;
}

static void check_same_device(struct rig *rig, const struct nccl_paths *paths)
{
    int status = 0;
    int32_t result = broadcast_to(paths, 0, 0, &status);
    rig_verdict(rig, "nccl: two ranks on one GPU are refused on both sides, and neither hangs",
                result == BATON_TP_E_UNREACHABLE && WIFEXITED(status) &&
                    WEXITSTATUS(status) == NCCL_RANK_FAILED);
}

static void check_pair(struct rig *rig, const struct nccl_paths *paths)
{
    int status = 0;
    int32_t result = broadcast_to(paths, 1, 0, &status);
    rig_verdict(rig, "nccl: broadcasts reach the second GPU",
                result == BATON_TP_OK && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    result = broadcast_to(paths, 1, ROUNDS, &status);
    rig_verdict(rig, "nccl: a rank that was killed is PEER_LOST",
                result == BATON_TP_E_PEER_LOST && WIFSIGNALED(status));
}

void check_nccl(struct rig *rig, const struct nccl_paths *paths)
{
    int devices = 0;
    rig_must(rig, rig->cuda->devices(&devices), "devices");
    check_alone(rig, paths);
    check_absent(rig, paths);
    check_closing(rig, paths);
    check_same_device(rig, paths);
    if (devices > 1) {
        check_pair(rig, paths);
    } else {
        printf("skip - nccl: broadcasts between GPUs: this machine has one\n");
    }
    rig_must(rig, rig->cuda->use(0), "use");
}
