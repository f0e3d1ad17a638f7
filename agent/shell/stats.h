/* stats.h -- the agent's metrics page (api/metrics): what runs, and when its certificates end.
 *
 * To add a number: count it where it happens, write its family here, name it in deploy/docs/metrics.md.
 *
 * Depends on: api/metrics, api/rpc.  Threads: the owner's.  Ownership: main creates and destroys it. */
#ifndef AGENT_SHELL_STATS_H
#define AGENT_SHELL_STATS_H

#include "agent/shell/config.h"
#include "api/metrics/metrics.h"

/* Serves the page where the file says so; else '*out' is null.  'config' must outlive it. */
BATON_MUST_USE struct baton_status stats_create(const struct shell_config *config,
                                                struct metrics **out);

#endif /* stats.h */
