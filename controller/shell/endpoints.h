/* endpoints.h -- watches of the groups that are ready for a query.
 *
 * A watch begins with everything that is ready (a reset), or, resumed from a revision that the ring
 * of past changes still covers, with what changed since.  Afterwards changes are put together for
 * ENDPOINTS_COALESCE_MS and only what differs from what the watch was told is sent: a group that
 * shuts and opens within that time is not mentioned.  A publish matters only to queries by lag.
 * Silence is broken by a message without content, a bookmark.
 *
 * Cost of a change: for each watch of the model O(log endpoints), and one look at the group.
 *
 * Depends on: daemon.h.  Threads: the loop's.  Ownership: a watch holds its call. */
#ifndef CONTROLLER_SHELL_ENDPOINTS_H
#define CONTROLLER_SHELL_ENDPOINTS_H

#include "controller/core/admission.h"
#include "controller/shell/daemon.h"

enum { ENDPOINTS_COALESCE_MS = 20 };

/* Starts a watch; takes the reference of 'call'.  'query' was checked. */
void endpoints_watch(struct daemon *daemon, struct rpc_call *call,
                     const struct admission_query *query, uint64_t from_revision);
/* Something changed: watches look at it soon. */
void endpoints_changed(struct daemon *daemon);
/* When endpoints_run() has something to do; UINT64_MAX: never. */
uint64_t endpoints_deadline_ns(const struct daemon *daemon);
void endpoints_run(struct daemon *daemon, uint64_t now_ns, uint64_t silence_ns);
/* Forgets a call that ended. */
void endpoints_end(struct daemon *daemon, struct rpc_call *call);
void endpoints_end_all(struct daemon *daemon, const struct baton_status *status);

#endif /* endpoints.h */
