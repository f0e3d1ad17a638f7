/* worker.h -- what one rank is: its weights, its model, and the calls that it answers.
 *
 * A call has a name and keyword arguments and gives a value, or *raises* a text, as a worker of
 * vLLM does.  The calls of the 'baton' backend never raise once their arguments are understood:
 * they record and baton_report tells (engine-contract.md, section 2).
 *
 * Depends on: model.h, landing.h, ranks.h, faults.h, transfer.h.  Threads: one.
 * Ownership: worker_open/worker_close; 'ranks' and 'faults' are borrowed. */
#ifndef TESTS_MINIENGINE_WORKER_H
#define TESTS_MINIENGINE_WORKER_H

#include <jansson.h>

#include "tests/miniengine/faults.h"
#include "tests/miniengine/landing.h"
#include "tests/miniengine/model.h"
#include "tests/miniengine/ranks.h"
#include "tests/miniengine/transfer.h"

struct worker {
    struct model_config config;
    struct weights_layout layout;
    struct model model;
    float *set;                        /* The resident weights. */
    char (*dtypes)[LANDING_DTYPE_MAX]; /* Of each tensor of the layout, as booted. */
    float *aside;                      /* The weights of a light sleep; else null. */
    uint32_t asleep;                   /* Level; 0: awake. */
    bool unusable; /* Left without weights by a failed load: the next step ends the engine. */
    bool backend;  /* The 'baton' backend is configured. */
    struct ranks *ranks;
    struct faults *faults;
    struct transfer transfer;
};

struct worker_options {
    const char *dir;
    uint32_t rank, ranks_count;
    uint32_t blocks_count;
    bool backend;
};

enum { WORKER_RAISED_MAX = 600 };

/* 'result' is the caller's; null if the call raised 'raised'. */
struct worker_answer {
    json_t *result;
    char raised[WORKER_RAISED_MAX];
};

bool worker_open(struct worker *worker, const struct worker_options *options, struct ranks *ranks,
                 struct faults *faults, struct trouble *why);
void worker_close(struct worker *worker);

struct worker_answer worker_call(struct worker *worker, const char *method, const json_t *kwargs);

/* One forward step of this rank.  False: the engine is broken. */
bool worker_step(struct worker *worker, const struct model_batch *batch, float *logits);

/* The life of a rank above 0: answers commands until rank 0 is gone.  Returns the exit status. */
int worker_run(struct worker *worker);

/* Builders of answers. */
struct worker_answer worker_returns(json_t *result_taken);
__attribute__((format(printf, 1, 2))) struct worker_answer worker_raises(const char *fmt, ...);

#endif /* worker.h */
