/* batch.h -- calls that are stored together: one transaction for all that wait.
 *
 * A call that is added joins those that came before it and were not begun; the batch runs after the
 * work that is already in the mailbox, so that callers who come at the same time share one fsync.
 * Each call gets its own answer.
 *
 * Depends on: daemon.h, service.h.  Threads: the loop's.  Ownership: a batch holds its calls, and what
 * their requests point to through them. */
#ifndef CONTROLLER_SHELL_BATCH_H
#define CONTROLLER_SHELL_BATCH_H

#include "controller/shell/service.h"

/* Takes the reference of 'call'.  The texts of 'request' must live as long as the call. */
void batch_add(struct daemon *daemon, struct rpc_call *call,
               const Baton__V1__MutationOptions *options, const struct request *request,
               pending_answer_fn *answer);
/* Drops what was not begun; its calls are finished with 'status'. */
void batch_end_all(struct daemon *daemon, const struct baton_status *status);

#endif /* batch.h */
