/* request.h -- one generation request, shared by the HTTP thread that answers it and the engine.
 *
 * The first part is fixed when it is made.  The second belongs to the engine's scheduler.  The
 * third is written by the engine and read by the HTTP thread, both under the engine's lock; after
 * each change the engine writes to 'event_fd', so that a waiter can poll it beside its socket.
 *
 * Depends on: libc.  Threads: as above.  Ownership: counted; request_release frees the last one. */
#ifndef TESTS_MINIENGINE_REQUEST_H
#define TESTS_MINIENGINE_REQUEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REQUEST_ID_MAX = 96, REQUEST_TOPS_MAX = 20 };

struct request_params {
    uint32_t tokens_max; /* To generate. */
    double temperature;  /* 0: greedy. */
    double top_p;
    uint32_t top_k; /* 0: no bound. */
    uint64_t seed;
    int logprobs; /* How many runners-up are told; -1: no log-probabilities. */
    bool ignore_eos;
    bool probe; /* Came with the agent's token. */
};

struct request_top {
    uint32_t token;
    float logprob;
};

enum request_state {
    REQUEST_GOES, /* Waiting or running. */
    REQUEST_STOPPED,
    REQUEST_LENGTH,
    REQUEST_ABORTED,
    REQUEST_FAILED, /* The engine died. */
};

struct request {
    /* Fixed. */
    char id[REQUEST_ID_MAX];
    struct request_params params;
    char *salt;
    uint32_t prompt_count;
    int event_fd;

    /* The scheduler's. */
    uint64_t number;   /* Order of arrival. */
    uint32_t computed; /* Tokens whose KV is there. */
    uint32_t *blocks;  /* KV blocks, in order. */
    uint32_t blocks_count;
    uint64_t key[2];    /* Of the last published block. */
    uint32_t published; /* Blocks whose key is known. */
    bool started;       /* Was scheduled before (and preempted since, if it waits). */
    uint64_t random;

    /* Under the engine's lock. */
    uint32_t *tokens; /* The prompt, then what was generated. */
    uint32_t tokens_count;
    float *logprobs;          /* Of the generated tokens. */
    struct request_top *tops; /* 'params.logprobs' for each generated token. */
    enum request_state state;
    bool cancelled;

    _Atomic uint32_t references;
};

/* Copies prompt and salt; null if memory or descriptors are short.  One reference. */
struct request *request_create(const struct request_params *params, const uint32_t *prompt,
                               uint32_t prompt_count, const char *salt);
struct request *request_retain(struct request *request);
void request_release(struct request *request); /* Accepts null. */

/* Tells whoever polls 'event_fd'. */
void request_notify(struct request *request);

static inline uint32_t request_generated(const struct request *request)
{
    return request->tokens_count - request->prompt_count;
}

#endif /* request.h */
