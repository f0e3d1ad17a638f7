/* local_server.h -- the agent's Unix socket: trainers and batonctl come here to publish.
 *
 * Speaks api/client/local_protocol.h.  One thread accepts; each connection has a thread of its own,
 * which does the publish that the connection asked for, so that a slow copy holds up nobody else.
 * What is done with a publish is behind 'struct local_sink': the source in production, a recorder in
 * unit tests.
 *
 * Not here: versions, stores, the controller.
 *
 * Depends on: api/base, api/client.  Threads: create and destroy from one thread; the sink's functions
 * run on the connections' threads, several at once.  Ownership: the caller owns the sink's context,
 * which outlives the server. */
#ifndef AGENT_SHELL_LOCAL_SERVER_H
#define AGENT_SHELL_LOCAL_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "api/base/bytes.h"
#include "api/base/status.h"
#include "api/client/local_protocol.h"

struct local_server;
struct local_upload; /* A publish from tensors under way; the sink's own. */

/* How a sink tells the client how far it is.  Call it often (once a chunk) and from the thread that
 * the sink was called on: it sends what is worth sending.  False: stop, the client gave up or the
 * agent shuts down; the sink then undoes what it can and returns CANCELLED.  'detail' may be null. */
struct local_feedback {
    bool (*report)(void *context, uint32_t phase, uint64_t bytes_done, uint64_t bytes_total,
                   const char *detail);
    void *context;
};

/* What happens to publishes.  Functions block as long as they must, below deadlines of their own. */
struct local_sink {
    void *context;
    void (*info)(void *context, struct local_info *out);
    /* Publishes request->directory. */
    struct baton_status (*directory)(void *context, const struct local_publish *request,
                                     const struct local_feedback *feedback,
                                     struct local_result *out);
    /* Starts an upload; after success ends with exactly one commit or drop. */
    struct baton_status (*begin)(void *context, const struct local_publish *request,
                                 const struct local_feedback *feedback, struct local_upload **out);
    /* Memory for the entries that follow: sealed, at least as long as 'bytes'.  'fd' is the server's
     * and is closed after the call. */
    struct baton_status (*segment)(struct local_upload *upload, int fd, uint64_t bytes);
    /* A tensor (has a dtype) or a file.  Inline ones are followed by data() until they are full. */
    struct baton_status (*entry)(struct local_upload *upload, const struct local_entry *entry);
    struct baton_status (*data)(struct local_upload *upload, struct baton_bytes bytes);
    /* Publishes; frees the upload whatever comes out. */
    struct baton_status (*commit)(struct local_upload *upload,
                                  const struct local_feedback *feedback, struct local_result *out);
    void (*drop)(struct local_upload *upload);
    /* Break-glass; null: not here.  'by' says who asks, by the kernel's word.  Calls 'say' for each
     * line of the answer. */
    struct baton_status (*operate)(void *context, const struct local_operate *request,
                                   const char *by, void (*say)(void *listener, const char *line),
                                   void *listener);
    void *operator_context; /* Of 'operate'. */
};

/* Zero members mean the default in brackets. */
struct local_server_options {
    const char *address; /* "unix:/path" or "/path". */
    const char *agent;   /* Name shown to clients. */
    struct local_sink sink;
    uint32_t connections_max;  /* [32]; one more is answered with RESOURCE_EXHAUSTED LIMIT. */
    uint64_t idle_ns;          /* Longest silence of a client inside an upload.  [10 min] */
    uint64_t write_timeout_ns; /* Longest time a client may leave an answer unread.  [10 s] */
};

/* Listens, with mode 0660, and starts to serve.  A socket file that nobody answers on is replaced.
 * FAILED_PRECONDITION IN_USE: another process answers there; INVALID_ARGUMENT BAD_FIELD: no path, not
 * absolute or too long for a socket; else what the system said.  The hint says what to do. */
BATON_MUST_USE struct baton_status local_server_create(const struct local_server_options *options,
                                                       struct local_server **out);

/* Stops: no new connections; publishes under way are told to stop, and their threads are waited for
 * (a sink function must return once report() said so).  Removes the socket.  Null is fine. */
void local_server_destroy(struct local_server *server);

#endif /* local_server.h */
