/* transfer.h -- the 'baton' weight-transfer backend in one rank (engine-contract.md, section 2).
 *
 * Staging opens and checks a landing and touches nothing.  Applying, after the ranks agreed, loads
 * a second set of weights, makes it resident, compares what the kernels now use with the landing,
 * and puts the saved set back if any rank failed.  Fences make late calls harmless.
 *
 * Depends on: worker.h (the rank), landing.h, faults.h, ranks.h.  Threads: one.
 * Ownership: part of struct worker; transfer_deinit frees. */
#ifndef TESTS_MINIENGINE_TRANSFER_H
#define TESTS_MINIENGINE_TRANSFER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/miniengine/landing.h"
#include "tests/miniengine/trouble.h"

enum { TRANSFER_FENCE_PARTS = 5 };

struct worker;
struct worker_answer;

struct transfer_fence {
    uint64_t part[TRANSFER_FENCE_PARTS];
};

/* What a call asks for. */
struct transfer_target {
    const char *landing;              /* Borrowed from the call. */
    char digest[LANDING_DIGEST_TEXT]; /* Empty: not understood. */
    bool fenced;                      /* 'fence' was given and understood. */
    struct transfer_fence fence;
};

struct transfer {
    bool initialized; /* With the right protocol. */
    bool session;     /* Between start and finish. */
    bool fenced;      /* 'highest' holds a fence. */
    struct transfer_fence highest;
    struct landing *ready; /* Staged, not yet applied. */
    struct transfer_target ready_for;
    json_t *staged, *applied, *resident, *readback; /* The report's parts; null: none yet. */
    double stage_seconds, load_seconds, finalize_seconds, verify_seconds;
    bool poisoned; /* A failed apply was left as it was; 'poison' comes back every time. */
    bool poison_serves;
    struct trouble poison;
};

void transfer_deinit(struct transfer *transfer);

/* The calls.  'kwargs' may be null. */
struct worker_answer transfer_init(struct worker *worker, const json_t *kwargs);
struct worker_answer transfer_start(struct worker *worker, const json_t *kwargs);
struct worker_answer transfer_update(struct worker *worker, const json_t *kwargs);
struct worker_answer transfer_finish(struct worker *worker, const json_t *kwargs);
struct worker_answer transfer_raise_fence(struct worker *worker, const json_t *kwargs);
struct worker_answer transfer_report(struct worker *worker, const json_t *kwargs);
struct worker_answer transfer_readback(struct worker *worker, const json_t *kwargs);
/* Stages without a session; the engine serves on. */
struct worker_answer transfer_prepare(struct worker *worker, const json_t *kwargs);
/* Applies what was prepared under the same ticket; raises only where a peer is gone. */
struct worker_answer transfer_live(struct worker *worker, const json_t *kwargs);

#endif /* transfer.h */
