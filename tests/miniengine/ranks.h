/* ranks.h -- the processes of one tensor-parallel group and the channels between them.
 *
 * Rank 0 is the server's process; the others are started from the same program.  Each other rank
 * has three stream sockets to rank 0: commands (to it), replies (from it), and the exchange of
 * numbers during a step or an agreement.  Replies are a queue with no numbers on it, as in vLLM's
 * multi-process executor: a reply that nobody read answers the next question.
 *
 * Depends on: model.h, jansson.  Threads: one a process.  Ownership: ranks_start/stop in rank 0,
 * ranks_attach in the others. */
#ifndef TESTS_MINIENGINE_RANKS_H
#define TESTS_MINIENGINE_RANKS_H

#include <jansson.h>
#include <sys/types.h>

#include "tests/miniengine/model.h"

enum { RANKS_MAX = 8 };

struct ranks {
    uint32_t rank;
    uint32_t count;
    int command[RANKS_MAX]; /* Rank 0: one for each other rank; elsewhere only [0]. */
    int reply[RANKS_MAX];
    int exchange[RANKS_MAX];
    pid_t pids[RANKS_MAX];
    float *sum; /* Room for what another rank sends. */
    size_t sum_count;
};

enum ranks_command {
    RANKS_STEP,
    RANKS_CALL,
};

/* Starts ranks 1 .. count-1 from this very program: 'arguments' with "--worker=R" appended; they
 * find their sockets and the faults' memory at fixed descriptors.  'faults_fd' may be -1. */
bool ranks_start(struct ranks *ranks, uint32_t count, char *const *arguments, int faults_fd);

/* In a rank process.  Returns the faults' descriptor, or -1, in 'faults_fd'. */
bool ranks_attach(struct ranks *ranks, uint32_t rank, uint32_t count, int *faults_fd);

/* Kills and reaps the other ranks; any process may call it on its own view. */
void ranks_stop(struct ranks *ranks);

/* Everything below returns false if a peer is gone. */

/* A model_join_fn; 'self' is a struct ranks. */
bool ranks_join(void *self, float *values, size_t count);

/* Every rank gives 'bytes' and gets all of them, in rank order; at most 512 bytes each. */
bool ranks_gather(struct ranks *ranks, const void *mine, void *all, size_t bytes);

/* Rank 0 to all others. */
bool ranks_send_step(struct ranks *ranks, const struct model_batch *batch);
bool ranks_send_call(struct ranks *ranks, const json_t *call);

/* Rank 0: the next reply of a rank, whichever call it belongs to. */
bool ranks_read_reply(struct ranks *ranks, uint32_t rank, json_t **reply);

/* Other ranks: the next command; fills 'batch' or 'call'. */
bool ranks_receive(struct ranks *ranks, enum ranks_command *command, struct model_batch *batch,
                   json_t **call);
bool ranks_send_reply(struct ranks *ranks, const json_t *reply);

#endif /* ranks.h */
