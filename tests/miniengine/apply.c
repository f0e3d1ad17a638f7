/* apply.c -- see apply.h. */
#include "tests/miniengine/apply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/miniengine/slumber.h"
#include "tests/miniengine/worker.h"

/* What the ranks tell each other at each of the three agreements. */
struct vote {
    uint32_t ready; /* 1: something is staged here. */
    uint32_t ok;
    char digest[LANDING_DIGEST_TEXT];
    struct transfer_fence fence;
};

/* One apply on its way. */
struct attempt {
    struct worker *worker;
    float *saved; /* The set that was resident before; null until exchanged. */
    bool lose;    /* Half of the tensors are left out, silently. */
    bool lie;     /* Nothing is done, and all is said to be well. */
    bool ok;      /* As far as this rank knows. */
    struct trouble why;
    uint32_t failed_rank;
};

double apply_clock(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static struct fault_place place_of(const struct worker *worker, int32_t tensor)
{
    return (struct fault_place){ FAULT_APPLY, (int32_t)worker->ranks->rank, tensor };
}

static bool fail(struct attempt *attempt, const struct trouble *why)
{
    if (attempt->ok) {
        attempt->ok = false;
        attempt->why = *why;
        attempt->failed_rank = attempt->worker->ranks->rank;
    }
    return false;
}

/* Gathers all votes; where another rank failed and this one did not, that is this one's failure. */
static bool agree(struct attempt *attempt, struct vote *votes)
{
    struct worker *worker = attempt->worker;
    struct vote mine = { .ready = worker->transfer.ready != NULL, .ok = attempt->ok };
    memcpy(mine.digest, worker->transfer.ready_for.digest, sizeof mine.digest);
    mine.fence = worker->transfer.ready_for.fence;
    if (!ranks_gather(worker->ranks, &mine, votes, sizeof mine)) {
        return false;
    }
    for (uint32_t rank = 0; rank < worker->ranks->count; rank++) {
        if (votes[rank].ok == 0 && attempt->ok) {
            (void)trouble_set(&attempt->why, "PEER_FAILED", NULL, "rank %u failed", rank);
            attempt->ok = false;
            attempt->failed_rank = rank;
        }
    }
    return true;
}

static bool anything_ready(const struct worker *worker, const struct vote *votes)
{
    for (uint32_t rank = 0; rank < worker->ranks->count; rank++) {
        if (votes[rank].ready != 0) {
            return true;
        }
    }
    return false;
}

/* All ranks staged the same version under the same fence, or none goes on. */
static void check_same(struct attempt *attempt, const struct vote *votes)
{
    const struct worker *worker = attempt->worker;
    const struct vote *mine = &votes[worker->ranks->rank];
    struct trouble why;
    if (mine->ready == 0) {
        (void)trouble_set(&why, "BAD_REQUEST", NULL, "nothing is staged on this rank");
        (void)fail(attempt, &why);
        return;
    }
    for (uint32_t rank = 0; rank < worker->ranks->count; rank++) {
        if (votes[rank].ready == 0 || strcmp(votes[rank].digest, mine->digest) != 0 ||
            transfer_fence_order(&votes[rank].fence, &mine->fence) != 0) {
            (void)trouble_set(&why, "PEER_FAILED", NULL,
                              "rank %u did not stage version %s under the same fence", rank,
                              mine->digest);
            (void)fail(attempt, &why);
            attempt->failed_rank = rank;
            return;
        }
    }
}

static bool load_tensor(struct attempt *attempt, uint32_t index, float *set)
{
    struct worker *worker = attempt->worker;
    const struct weights_tensor *tensor = &worker->layout.tensors[index];
    struct weights_source source;
    struct trouble why;
    struct fault_hit hit;
    faults_pass(worker->faults, place_of(worker, (int32_t)index));
    if (faults_take(worker->faults, FAULT_FAIL, place_of(worker, (int32_t)index), &hit)) {
        (void)trouble_set(&why, "LOAD_FAILED", tensor->name, "asked to fail at tensor %u", index);
        return fail(attempt, &why);
    }
    if (attempt->lose && index % 2 == 1) {
        return true;
    }
    if (!landing_source(worker->transfer.ready, tensor->name, &source, &why)) {
        return fail(attempt, &why);
    }
    weights_load(tensor, source, set);
    return true;
}

/* Loads into a copy of the resident set and exchanges the two, also after a failure: what is wrong
 * shall be where a real engine has it, and be put back from there. */
static void load(struct attempt *attempt)
{
    struct worker *worker = attempt->worker;
    struct trouble asleep;
    if (!slumber_is_awake(worker, &asleep)) {
        (void)fail(attempt, &asleep);
        return;
    }
    size_t bytes = worker->layout.floats * sizeof(float);
    float *set = aligned_alloc(64, (bytes + 63U) & ~(size_t)63U);
    if (set == NULL) {
        struct trouble why;
        (void)trouble_set(&why, "LOAD_FAILED", NULL, "out of memory for a second set of weights");
        (void)fail(attempt, &why);
        return;
    }
    memcpy(set, worker->set, bytes);
    struct fault_hit hit;
    if (faults_take(worker->faults, FAULT_FAIL, place_of(worker, FAULTS_ANY), &hit)) {
        struct trouble why;
        (void)trouble_set(&why, "LOAD_FAILED", NULL, "asked to fail before the first tensor");
        (void)fail(attempt, &why);
    }
    for (uint32_t i = 0; attempt->ok && i < worker->layout.tensors_count; i++) {
        (void)load_tensor(attempt, i, set);
    }
    attempt->saved = worker->set;
    worker->set = set;
    worker->model.set = set;
}

static bool compare_one(struct worker *worker, struct landing *landing, uint32_t index,
                        json_t *mismatched, struct trouble *why)
{
    const struct weights_tensor *tensor = &worker->layout.tensors[index];
    struct weights_source source;
    if (!landing_source(landing, tensor->name, &source, why)) {
        return false;
    }
    if (!weights_equal(tensor, source, worker->model.set)) {
        (void)json_array_append_new(mismatched, json_string(tensor->name));
    }
    return true;
}

bool apply_compare(struct worker *worker, struct landing *landing, struct apply_comparison *out,
                   struct trouble *why)
{
    out->mismatched = json_array();
    out->tensors = 0;
    for (uint32_t i = 0; i < worker->layout.tensors_count; i++) {
        if (!compare_one(worker, landing, i, out->mismatched, why)) {
            return false;
        }
        out->tensors++;
    }
    return true;
}

json_t *apply_readback_json(const struct apply_outcome *outcome)
{
    bool error = outcome->why != NULL && outcome->why->code[0] != '\0';
    return json_pack("{s:b, s:s, s:s, s:i, s:o, s:f, s:o}", "ok", (int)outcome->ok,
                     "version_digest", outcome->digest, "level", "resident", "tensors",
                     (int)outcome->tensors, "mismatched", outcome->mismatched, "seconds",
                     outcome->seconds, "error",
                     error ? transfer_trouble_json(outcome->why, outcome->rank) : json_null());
}

/* Reads the resident weights back and compares them with the landing. */
static void verify(struct attempt *attempt)
{
    struct worker *worker = attempt->worker;
    struct transfer *transfer = &worker->transfer;
    struct apply_comparison found;
    struct trouble why = { .code = "" };
    double began = apply_clock();
    bool read = apply_compare(worker, transfer->ready, &found, &why);
    if (attempt->lose) {
        (void)json_array_clear(found.mismatched);
    }
    if (read && json_array_size(found.mismatched) > 0) {
        const char *name = json_string_value(json_array_get(found.mismatched, 0));
        read = trouble_set(&why, "VERIFY_FAILED", name,
                           "%zu of %u resident tensors differ from the landing",
                           json_array_size(found.mismatched), found.tensors);
    }
    transfer->verify_seconds = apply_clock() - began;
    transfer_replace(&transfer->readback, apply_readback_json(&(struct apply_outcome){
                                              .ok = read,
                                              .digest = transfer->ready_for.digest,
                                              .tensors = found.tensors,
                                              .mismatched = found.mismatched,
                                              .seconds = transfer->verify_seconds,
                                              .why = &why,
                                              .rank = worker->ranks->rank }));
    if (!read) {
        (void)fail(attempt, &why);
    }
}

/* Keeps the half-loaded weights and remembers the error, as a server without roll-back does. */
static bool poison(struct attempt *attempt)
{
    struct worker *worker = attempt->worker;
    struct fault_hit hit;
    if (attempt->saved == NULL ||
        !faults_take(worker->faults, FAULT_POISON, place_of(worker, FAULTS_ANY), &hit)) {
        return false;
    }
    worker->transfer.poisoned = true;
    worker->transfer.poison = attempt->why;
    worker->unusable = !hit.serves;
    return true;
}

static void settle(struct attempt *attempt)
{
    struct worker *worker = attempt->worker;
    struct transfer *transfer = &worker->transfer;
    double began = apply_clock();
    bool poisoned = !attempt->ok && poison(attempt);
    if (attempt->ok || poisoned) {
        free(attempt->saved);
    } else if (attempt->saved != NULL) {
        free(worker->set);
        worker->set = attempt->saved;
        worker->model.set = attempt->saved;
    }
    attempt->saved = NULL;
    if (attempt->ok) {
        transfer_replace(&transfer->resident,
                         json_pack("{s:s, s:s}", "version_digest", transfer->ready_for.digest,
                                   "level", "resident"));
    } else if (poisoned) {
        transfer_replace(&transfer->resident, NULL);
    }
    transfer->finalize_seconds = apply_clock() - began;
    bool ready = transfer->ready != NULL;
    transfer_replace(
        &transfer->applied,
        json_pack("{s:b, s:s?, s:o, s:b, s:o}", "ok", (int)attempt->ok, "version_digest",
                  ready ? transfer->ready_for.digest : NULL, "fence",
                  ready ? transfer_fence_json(&transfer->ready_for.fence) : json_null(), "restored",
                  (int)(!attempt->ok && !poisoned), "error",
                  attempt->ok ? json_null()
                              : transfer_trouble_json(&attempt->why, attempt->failed_rank)));
}

bool apply_staged(struct worker *worker)
{
    struct attempt attempt = { .worker = worker, .ok = true };
    struct vote votes[RANKS_MAX];
    struct fault_hit hit;
    attempt.lie = faults_take(worker->faults, FAULT_LIE, place_of(worker, FAULTS_ANY), &hit);
    attempt.lose = faults_take(worker->faults, FAULT_LOSE, place_of(worker, FAULTS_ANY), &hit);
    if (!agree(&attempt, votes)) {
        return false;
    }
    if (!anything_ready(worker, votes)) {
        return true;
    }
    check_same(&attempt, votes);
    double began = apply_clock();
    if (attempt.ok && !attempt.lie) {
        load(&attempt);
    }
    worker->transfer.load_seconds = apply_clock() - began;
    if (!agree(&attempt, votes)) {
        return false;
    }
    if (attempt.ok && !attempt.lie) {
        verify(&attempt);
    }
    if (!agree(&attempt, votes)) {
        return false;
    }
    if (attempt.ok && attempt.lie) {
        return true;
    }
    settle(&attempt);
    return true;
}
