/* source.h -- the agent as a source: it keeps published versions and announces them.
 *
 * The store is a directory that agents share.  <store>/<agent> is this agent's own root of sealed
 * checkpoint directories (transport/landing), named by digest, which other agents read with the 'file'
 * backend.  A publish is: check the headers; Versions.Open; copy and digest into the root in one pass,
 * sealed by a rename; AddManifestPart, Seal; Publish.  Each step is repeatable under the publish's
 * request id, so that a retry after a crash of anybody ends in the same version.
 *
 * A partial publish, and files that a trainer does not send, are completed from the parent's directory:
 * tensors that the parent lacks, or has with another dtype or shape, are refused by name.
 *
 * Not here: the socket (local_server.h), who needs which version (agent/core).
 *
 * Depends on: api/base, api/wire, api/rpc, api/client/local_protocol.h, transport.
 * Threads: any; publishes run on their callers' threads.  Ownership: the caller owns the rpc client,
 * which outlives the source. */
#ifndef AGENT_SHELL_SOURCE_H
#define AGENT_SHELL_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/shell/local_server.h"
#include "api/base/status.h"

struct digest;
struct landing_root;
struct rpc_client;
struct source;

/* Zero members mean the default in brackets. */
struct source_options {
    const char *agent;      /* Name of this agent, as in its configuration. */
    const char *directory;  /* versions.directory: absolute, shared by agents; made if missing. */
    const char *controller; /* Address, for messages. */
    struct rpc_client *client;   /* To the controller. */
    uint64_t snapshot_bytes_max; /* Of all uploads' tensors in memory.  [half of the RAM] */
    uint64_t
        controller_wait_ns;  /* How long a step is retried while the controller is away.  [60 s] */
    uint64_t budget_bytes;   /* Of the root.  [what the file system has] */
    uint32_t retain_grace_s; /* [600] */
    uint32_t publishes_max;  /* At one time; others wait.  [4] */
};

/* Opens the store and removes what a crash of this agent left half-written there. */
BATON_MUST_USE struct baton_status source_create(const struct source_options *options,
                                                 struct source **out);
/* After the local server is gone.  Null is fine. */
void source_destroy(struct source *source);

/* What peers are served from; the source's. */
struct landing_root *source_root(struct source *source);

/* The functions for local_server_create(). */
struct local_sink source_sink(struct source *source);

/* What info answers as 'connected'. */
void source_set_connected(struct source *source, bool is_connected);

/* Deletes from the root what is not in the list, which must hold the digests of all versions of all
 * models that the controller still knows.  Kept in any case: what a publish works on or was made within
 * 'retain_grace_s', and the newest directory.  Returns how many were deleted through 'deleted', which
 * may be null.  Does nothing while a publish copies; the next call does. */
BATON_MUST_USE struct baton_status source_retain(struct source *source, const struct digest *kept,
                                                 size_t kept_count, size_t *deleted);

#endif /* source.h */
