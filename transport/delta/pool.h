/* pool.h -- the same work for many tensors, on several threads; private to this folder.
 *
 * Items are begun in order.  After a failure no new one is begun, and the failure of the lowest
 * item is what comes back: the same whatever the number of threads.
 *
 * Depends on: api/base, threads.  Threads: the call returns once all of its own have ended.
 * Ownership: none. */
#ifndef TRANSPORT_DELTA_POOL_H
#define TRANSPORT_DELTA_POOL_H

#include <stddef.h>

#include "api/base/status.h"
#include "transport/delta/format.h"

/* Works on one item; 'worker' is this thread's own. */
typedef struct baton_status delta_pool_fn(void *worker, size_t item);

/* Runs 'run' for items 0 to count - 1 with one thread a worker; the first is the caller's own.
 * Fewer threads than asked for do when the system has no more. */
BATON_MUST_USE struct baton_status delta_pool_run(void *const *workers, unsigned workers_count,
                                                  size_t count, delta_pool_fn *run);

#endif /* pool.h */
