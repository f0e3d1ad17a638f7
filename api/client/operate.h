/* operate.h -- break-glass at the local agent, for batonctl; no part of libbaton's ABI.
 *
 * Depends on: api/base, local_protocol.h.  Threads: any.  Ownership: all borrowed for the call. */
#ifndef BATON_CLIENT_OPERATE_H
#define BATON_CLIENT_OPERATE_H

#include "api/base/status.h"
#include "api/client/local_protocol.h"

/* One line of the answer. */
typedef void operate_line_fn(void *context, const char *text);

/* Connects to the agent at "unix:/path", asks, and gives each line of the answer to 'line'.
 * PERMISSION_DENIED: not root and not the agent's own user; FAILED_PRECONDITION: the agent's checks
 * speak against it; UNAVAILABLE: no agent answers there; UNIMPLEMENTED, INVALID_ARGUMENT: an older agent. */
BATON_MUST_USE struct baton_status operate_agent(const char *address,
                                                 const struct local_operate *operate,
                                                 operate_line_fn *line, void *context);

#endif /* operate.h */
