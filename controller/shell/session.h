/* session.h -- the agents' streams: messages up become events, the core's sends become messages down.
 *
 * Depends on: daemon.h, render.h.  Threads: serve_session() on an RPC thread, the rest on the loop's.
 * Ownership: the daemon's table holds each session's call. */
#ifndef CONTROLLER_SHELL_SESSION_H
#define CONTROLLER_SHELL_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "controller/core/action.h"

struct daemon;
struct rpc_call;

/* Handler of AgentSession.Session. */
void serve_session(struct rpc_call *call, const void *request, void *context);

/* Whether an agent's message is the next thing that the loop does. */
bool session_is_next(const struct daemon *daemon);

void session_deliver(struct daemon *daemon, const struct action_send *send);
/* When the certificate ends with which the session was opened, in wall nanoseconds; 0: it has none, or is over. */
uint64_t session_certificate_ends(struct daemon *daemon, uint64_t id);
void session_finish(struct daemon *daemon, uint64_t id, const struct baton_status *status);
void session_finish_all(struct daemon *daemon, const struct baton_status *status);

#endif /* session.h */
