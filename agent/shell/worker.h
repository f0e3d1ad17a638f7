/* worker.h -- one thread for one engine: runs its operations and its process, one at a time.
 *
 * The loop submits work and gets the end as an event in its mailbox.  A call that hangs holds up this
 * thread only; worker_abandon() ends it.  While idle the thread watches the engine's process and tells
 * the loop when it has ended and nothing of its session is left, which it kills.
 *
 * Depends on: agent/core/op.h, agent/engine, config.h, api/base/mailbox.h.
 * Threads: submit, abandon and recreate from the loop's.  Ownership: the loop creates and destroys. */
#ifndef AGENT_SHELL_WORKER_H
#define AGENT_SHELL_WORKER_H

#include "agent/core/op.h"
#include "agent/shell/config.h"
#include "api/base/mailbox.h"

struct worker;

/* What a worker tells the loop, as the argument of 'tell'; the receiver frees it. */
enum worker_news { WORKER_OP_ENDED, WORKER_RECREATED, WORKER_EXITED };

struct worker_event {
    enum worker_news news;
    struct agent_engine_id engine;
    struct agent_op_result result; /* OP_ENDED. */
    struct baton_status status;    /* RECREATED. */
};

struct worker_options {
    struct agent_engine_id engine;
    const struct engine_setup *setup;
    struct baton_mailbox *mailbox;
    baton_mailbox_work_fn *tell;
};

/* Opens adapter and process, and starts the thread.  '*alive' is false if the engine is an EXEC one and
 * no process of it lives. */
BATON_MUST_USE struct baton_status worker_create(const struct worker_options *options,
                                                 struct worker **out, bool *alive);
/* Ends what is under way; leaves the engine running unless 'kill'. */
void worker_destroy(struct worker *worker, bool kill);

/* Queues an operation. 'landing' is the directory of op->digest, or empty. */
void worker_submit(struct worker *worker, const struct agent_op *op, const char *landing);
/* Ends the operation with this id if it is under way, and forgets it if it did not begin; an ended one
 * is left alone, and so are all others. */
void worker_abandon(struct worker *worker, uint64_t op_id);
/* Queues: kill the old process, prove it dead, start on 'checkpoint'. */
void worker_recreate(struct worker *worker, const char *checkpoint, uint64_t deadline_ns);

#endif /* worker.h */
