/* summaries.h -- watches of a model's staleness.
 *
 * A watch gets the summary at once, and then whenever it changed, at most once in its interval.  What
 * only grows with time (the age) does not count as a change.  Silence is broken every 10 s.
 *
 * Depends on: daemon.h.  Threads: the loop's.  Ownership: a watch holds its call. */
#ifndef CONTROLLER_SHELL_SUMMARIES_H
#define CONTROLLER_SHELL_SUMMARIES_H

#include "controller/shell/daemon.h"

enum { SUMMARIES_INTERVAL_MS = 1000, SUMMARIES_INTERVAL_MS_MIN = 100 };

/* Starts a watch of 'model', which exists; takes the reference of 'call'. */
void summaries_watch(struct daemon *daemon, struct rpc_call *call, const char *model,
                     uint64_t interval_ns);
/* When summaries_run() has something to do; UINT64_MAX: never. */
uint64_t summaries_deadline_ns(const struct daemon *daemon);
void summaries_run(struct daemon *daemon, uint64_t now_ns);
/* Forgets a call that ended. */
void summaries_end(struct daemon *daemon, struct rpc_call *call);
void summaries_end_all(struct daemon *daemon, const struct baton_status *status);

#endif /* summaries.h */
