/* engine.h -- the engine's core: one thread that steps the model and, between two steps, performs
 * calls, as vLLM's engine core does.
 *
 * So a call that hangs stops generation, and a generation step that hangs stops calls.  HTTP
 * threads hand requests and calls in and wait.
 *
 * When a rank dies, a step breaks, or a fault says so, the engine is dead: everything that waits
 * gets an error at once, and 'death_fd' becomes readable so that the process can end.
 *
 * Depends on: scheduler.h, worker.h, ranks.h, faults.h.  Threads: all functions from any thread.
 * Ownership: engine_start/engine_stop; 'worker', 'ranks' and 'faults' are borrowed. */
#ifndef TESTS_MINIENGINE_ENGINE_H
#define TESTS_MINIENGINE_ENGINE_H

#include <jansson.h>
#include <pthread.h>

#include "tests/miniengine/scheduler.h"
#include "tests/miniengine/worker.h"

enum { ENGINE_MESSAGE_MAX = 800, ENGINE_LABEL_MAX = 4096, ENGINE_WAITS_MAX = 64 };

extern const char engine_dead_message[];

/* Calls and their arguments (a JSON object; the routes of the same names have checked it). */
enum engine_call {
    ENGINE_PAUSE, /* {"mode":"keep|wait|abort","clear_cache":bool} */
    ENGINE_RESUME,
    ENGINE_IS_PAUSED,  /* Gives a boolean. */
    ENGINE_ABORT,      /* {"request_ids":[...]} or {}; gives the number aborted. */
    ENGINE_RESET,      /* {"reset_running_requests":bool}; gives a boolean. */
    ENGINE_COLLECTIVE, /* {"method":..,"kwargs":{..}}; gives one value a rank. */
    ENGINE_FINISH,     /* As a collective finish_weight_update; {"weight_version":..} if good. */
    ENGINE_SET_LABEL,  /* {"new_version":..} */
    ENGINE_GET_LABEL,  /* Gives a string. */
    ENGINE_SLEEP,      /* {"level":0..2} */
    ENGINE_WAKE,       /* {"all":bool}; gives whether it is awake: all memory is there. */
    ENGINE_IS_ASLEEP,  /* Gives a boolean: paused counts, too. */
};

struct engine_result {
    int status;     /* 200 or 500. */
    json_t *result; /* The caller's; may be null. */
    char message[ENGINE_MESSAGE_MAX];
};

struct engine_op;

struct engine {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work; /* The engine's thread waits here. */
    pthread_cond_t done; /* Callers wait here. */
    struct worker *worker;
    struct ranks *ranks;
    struct faults *faults;
    int death_fd;

    /* Under the lock. */
    struct scheduler scheduler;
    struct engine_op *first, *last;            /* Calls to perform. */
    struct engine_op *waits[ENGINE_WAITS_MAX]; /* Pauses that wait for the drain. */
    uint32_t waits_count;
    char label[ENGINE_LABEL_MAX];
    bool dead;
    bool stopping;

    /* The engine's thread only. */
    bool asleep; /* Its ranks released memory. */
    struct model_batch *batch;
    struct scheduler_plan plan;
    float *logits;
};

struct engine_counts {
    uint32_t running, waiting;
    uint64_t prefix_queries, prefix_hits, prompt_tokens, generated_tokens;
    bool dead;
};

bool engine_start(struct engine *engine, struct worker *worker, struct ranks *ranks,
                  struct faults *faults, uint32_t blocks_count);

/* Ends all requests and calls with an error and the thread if it can be reached in a second. */
void engine_stop(struct engine *engine);

/* Marks the engine dead; see above. */
void engine_die(struct engine *engine);

/* Hands a request in and keeps a reference of its own.  False: dead or too many wait. */
bool engine_submit(struct engine *engine, struct request *request);

/* The client is gone: the request ends as soon as the engine's thread sees it. */
void engine_cancel(struct engine *engine, struct request *request);

/* Performs a call and waits for its end.  'arguments_taken' may be null. */
struct engine_result engine_perform(struct engine *engine, enum engine_call call,
                                    json_t *arguments_taken);

struct engine_counts engine_count(struct engine *engine);

#endif /* engine.h */
