/* comm.c -- one communicator: formed without blocking, watched, aborted on every failure.
 *
 * No communicator is ever left hanging: what does not form or does not move in time is aborted.  The
 * abort runs on a thread of its own, because it waits for threads and kernels of NCCL's; operations
 * are reported when it is over, since until then the device may still write their memory. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "api/base/clock.h"
#include "transport/nccl/nccl_state.h"

enum { ABORT_WAIT_MS = 10000, ABORT_POLL_MS = 1 };

struct abort_work {
    const struct baton_cuda *cuda;
    ncclResult_t (*run)(ncclComm_t comm);
    ncclComm_t comm;
    int device;
    _Atomic int holders; /* The thread and the transport; the last one frees. */
    _Atomic bool is_done;
};

static void drop(struct abort_work *work)
{
    if (atomic_fetch_sub(&work->holders, 1) == 1) {
        free(work);
    }
}

static void *run_abort(void *argument)
{
    struct abort_work *work = argument;
    (void)work->cuda->use(work->device);
    (void)work->run(work->comm);
    atomic_store(&work->is_done, true);
    drop(work);
    return NULL;
}

int comm_begin(struct baton_tp *tp, uint64_t now_ns)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclResult_t result = tp->nccl.comm_init_rank_config(&tp->comm, tp->ranks, tp->address.id,
                                                         tp->address.rank, &config);
    if (result != ncclSuccess && result != ncclInProgress) {
        nccl_log(tp, 1, "forming the communicator", tp->nccl.describe(result));
        if (tp->comm != NULL) {
            comm_abort(tp, now_ns, BATON_TP_E_UNREACHABLE, "it does not begin to form");
            (void)comm_end(tp);
        }
        return BATON_TP_E_UNSUPPORTED;
    }
    tp->state = COMM_FORMING;
    tp->since_ns = now_ns;
    return BATON_TP_OK;
}

void comm_abort(struct baton_tp *tp, uint64_t now_ns, int32_t failure, const char *why)
{
    pthread_t thread;
    nccl_log(tp, 1, "the communicator is aborted", why);
    tp->failure = failure;
    tp->since_ns = now_ns;
    tp->state = COMM_ABORTING;
    struct abort_work *work = calloc(1, sizeof(*work));
    if (work == NULL) {
        return; /* As an abort that does not end. */
    }
    work->cuda = tp->cuda;
    work->run = tp->nccl.comm_abort;
    work->comm = tp->comm;
    work->device = tp->device;
    atomic_store(&work->holders, 2);
    if (pthread_create(&thread, NULL, run_abort, work) != 0) {
        free(work);
        return;
    }
    pthread_detach(thread);
    tp->abort = work;
    tp->comm = NULL;
}

static bool is_aborted(struct baton_tp *tp)
{
    if (tp->abort == NULL || !atomic_load(&tp->abort->is_done)) {
        return false;
    }
    drop(tp->abort);
    tp->abort = NULL;
    tp->state = COMM_GONE;
    return true;
}

static bool is_late(const struct baton_tp *tp, uint64_t now_ns, uint64_t limit_ns)
{
    return now_ns > tp->since_ns && now_ns - tp->since_ns > limit_ns;
}

void comm_step(struct baton_tp *tp, uint64_t now_ns)
{
    ncclResult_t error = ncclSuccess;
    if (tp->state == COMM_ABORTING) {
        if (!is_aborted(tp) && is_late(tp, now_ns, ABORT_WAIT_MS * BATON_NS_PER_MS)) {
            nccl_log(tp, 0, "the communicator",
                     "its abort does not end; memory that it used "
                     "must not be used before this process ends");
            tp->state = COMM_GONE;
        }
        return;
    }
    if (tp->state == COMM_GONE) {
        return;
    }
    bool is_forming = tp->state == COMM_FORMING;
    int32_t failure = is_forming ? BATON_TP_E_UNREACHABLE : BATON_TP_E_PEER_LOST;
    ncclResult_t asked = tp->nccl.comm_get_async_error(tp->comm, &error);
    if (asked != ncclSuccess || (error != ncclSuccess && error != ncclInProgress)) {
        comm_abort(tp, now_ns, failure, tp->nccl.describe(asked != ncclSuccess ? asked : error));
    } else if (is_forming && error == ncclSuccess) {
        tp->state = COMM_READY;
        tp->since_ns = now_ns;
    } else if ((is_forming || tp->count > 0) && is_late(tp, now_ns, tp->timeout_ns)) {
        comm_abort(tp, now_ns, failure,
                   is_forming ? "not all ranks came in time" : "a transfer does not end in time");
    }
}

bool comm_end(struct baton_tp *tp)
{
    uint64_t deadline_ns = baton_clock_monotonic_ns() + ABORT_WAIT_MS * BATON_NS_PER_MS;
    while (tp->state == COMM_ABORTING && !is_aborted(tp)) {
        if (baton_clock_monotonic_ns() > deadline_ns || tp->abort == NULL) {
            return false;
        }
        baton_clock_sleep_ns(ABORT_POLL_MS * BATON_NS_PER_MS);
    }
    return tp->state == COMM_GONE && tp->abort == NULL && tp->comm == NULL;
}
