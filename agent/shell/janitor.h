/* janitor.h -- keeps the source's store in step with the controller: what no version names any more goes.
 *
 * A thread of its own asks for all versions now and then, and gives their digests to source_retain().
 * While the controller is away nothing is deleted, and neither is it when the controller knows no version
 * or its store went back: what it lost may have to be told to it again.
 *
 * Depends on: api/rpc, source.h.  Threads: its own.  Ownership: client and source outlive it. */
#ifndef AGENT_SHELL_JANITOR_H
#define AGENT_SHELL_JANITOR_H

#include <stdint.h>

#include "api/base/status.h"

struct janitor;
struct rpc_client;
struct source;

/* Cleans every 'interval_ns'; 0: every minute. */
BATON_MUST_USE struct baton_status janitor_create(struct rpc_client *client, struct source *source,
                                                  uint64_t interval_ns, struct janitor **out);
/* Null is fine. */
void janitor_destroy(struct janitor *janitor);

#endif /* janitor.h */
