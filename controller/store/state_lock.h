/* state_lock.h -- one process at a time for a state file.
 *
 * "<path>.lock" is locked with flock() and holds the owner's process id, for the message that a
 * second one gets.  The lock ends with the process, however it ends; the file stays.
 *
 * Depends on: api/base/status.h.  Threads: any.  Ownership: the caller releases. */
#ifndef CONTROLLER_STORE_STATE_LOCK_H
#define CONTROLLER_STORE_STATE_LOCK_H

#include "api/base/status.h"

/* FAILED_PRECONDITION IN_USE while another one holds it.  '*out_fd' is for state_lock_release(). */
BATON_MUST_USE struct baton_status state_lock_take(const char *path, int *out_fd);
void state_lock_release(int fd);

#endif /* state_lock.h */
