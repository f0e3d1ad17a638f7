/* local_session.h -- one client of the local server: its thread's whole life.
 *
 * Private to local_server.c.  A session is a small state machine (idle, upload,
 * discarding) over local_protocol.h; what a publish does is the sink's.
 *
 * Depends on: local_server.h, api/client.  Threads: runs on the caller's thread; 'is_stopping' may be
 * set from any.  Ownership: takes the socket. */
#ifndef AGENT_SHELL_LOCAL_SESSION_H
#define AGENT_SHELL_LOCAL_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/shell/local_server.h"

/* What all sessions of a server share. */
struct local_session_context {
    const struct local_server_options *options; /* With defaults filled in. */
    int stop_fd;                                /* Readable once the server stops. */
    const atomic_bool *is_stopping;
};

/* Serves the client at 'fd' until it goes or the server stops.  'is_refused': answer that there are
 * too many connections. */
void local_session_run(const struct local_session_context *context, int fd, bool is_refused);

#endif /* local_session.h */
