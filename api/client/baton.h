/* baton.h -- libbaton: how a trainer publishes new weights through the agent on its node.
 *
 * A program connects to the local agent's Unix socket and publishes a checkpoint directory, or tensors
 * that lie in its own memory.  The agent keeps the bytes, computes the digests and announces the
 * version to the controller; this library holds no state beyond the connection.
 *
 * Safe inside a trainer: it starts no thread or process, installs no signal handler, raises no
 * SIGPIPE, links neither gRPC nor protobuf, and all its descriptors are close-on-exec.  After fork()
 * the child must connect anew: a call on an inherited connection is refused, and closing it leaves
 * the parent's connection alone.
 *
 * Not here: reading checkpoints, digests, the controller's API.
 *
 * Depends on: the C library.  Threads: one at a time for each connection; different connections are
 * independent.  Ownership: opaque objects belong to the caller until closed; arguments are borrowed
 * for the call; results are copied into the caller's structs.
 *
 * Errors: a function that can fail returns 0, or a gRPC status code (5: not found, 14: retry), and
 * then fills 'error' if that is not null.  No call blocks longer than its timeout.
 *
 * Growth: each struct begins with its size, which its initialiser sets; members are only appended. */
#ifndef BATON_H
#define BATON_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BATON_API __attribute__((visibility("default")))

/* Rises when a function or a member is added (minor) or changes its meaning (major). */
#define BATON_ABI_MAJOR 1
#define BATON_ABI_MINOR 0

/* Where the agent listens unless its configuration says otherwise. */
#define BATON_DEFAULT_AGENT "unix:/run/baton/agent.sock"

struct baton_agent;   /* A connection to an agent. */
struct baton_publish; /* A publish from tensors that is under way. */

/* Why a call failed. */
struct baton_error {
    uint32_t size;     /* sizeof(struct baton_error). */
    int32_t code;      /* gRPC's number; 0 after success. */
    char reason[32];   /* For programs: "CHECKPOINT_INVALID", "NO_SPACE", ... */
    char message[320]; /* For people: names the file, tensor, field or socket. */
    char hint[184];    /* What to do next; may be empty. */
};
#define BATON_ERROR_INIT                                                                           \
    {                                                                                              \
        sizeof(struct baton_error), 0, "", "", ""                                                  \
    }

/* A version as the controller knows it. */
struct baton_published {
    uint32_t size;     /* sizeof(struct baton_published). */
    uint32_t repeated; /* 1: this request id had been published before; nothing was done again. */
    char model[64];
    uint64_t seq;
    char uid[33];
    char digest[33];
    uint64_t bytes;   /* Of all tensors and files. */
    uint64_t tensors; /* Tensors of the whole version, inherited ones included. */
    uint64_t files;
    uint64_t bytes_carried; /* What this publish itself brought; the rest was inherited. */
    char directory[512];    /* Where the source keeps it. */
};
#define BATON_PUBLISHED_INIT                                                                       \
    {                                                                                              \
        sizeof(struct baton_published), 0, "", 0, "", "", 0, 0, 0, 0, ""                           \
    }

/* What a publish is doing. */
#define BATON_PHASE_QUEUED   1u /* Waits for another publish, or for the controller. */
#define BATON_PHASE_SENDING  2u /* Tensors go from this process to the agent. */
#define BATON_PHASE_COPYING  3u /* The agent copies and digests into its store. */
#define BATON_PHASE_SEALING  4u /* The agent makes the copy durable. */
#define BATON_PHASE_ANNOUNCE 5u /* The manifest goes to the controller. */

/* How far a publish is: enough for a line with rate and time left. */
struct baton_progress {
    uint32_t size;          /* sizeof(struct baton_progress). */
    uint32_t phase;         /* BATON_PHASE_*; numbers may be added. */
    uint64_t bytes_done;    /* In this phase. */
    uint64_t bytes_total;   /* 0: not known. */
    uint64_t bytes_per_s;   /* Of the last seconds; 0: not known yet. */
    uint64_t remaining_ms;  /* To the end of this phase; UINT64_MAX: not known. */
    uint64_t elapsed_ms;    /* Since the publish began. */
    const char *phase_name; /* "copying", ...; static. */
    const char *detail;     /* The file or tensor at hand, may be empty; valid in the callback. */
};

/* Runs on the calling thread, about five times a second while a call waits, also without news.  A
 * value other than 0 cancels the publish: the call ends with code 1 (cancelled). */
typedef int baton_progress_fn(const struct baton_progress *progress, void *context);

/* What to publish.  Only 'model' is required. */
struct baton_publish_options {
    uint32_t size;          /* sizeof(struct baton_publish_options). */
    uint32_t partial;       /* 1: some tensors only; the rest is inherited from the parent. */
    const char *model;      /* Name of the model; it must exist at the controller. */
    const char *request_id; /* Same id, same version: retry with it.  Null: a random one. */
    uint64_t optimizer_step;
    uint64_t rollout_iteration;
    uint64_t samples_trained;
    uint64_t parent_seq;         /* 0: the newest version. */
    uint64_t bytes_expected;     /* Of all tensors to come, for progress; 0: not known. */
    const char *reason;          /* Goes to the audit; null: none. */
    uint64_t timeout_ms;         /* For the whole publish.  0: one hour. */
    uint32_t inline_bytes;       /* 1: send bytes through the socket instead of shared memory. */
    uint32_t reserved;           /* 0. */
    baton_progress_fn *progress; /* Null: none. */
    void *context;               /* For 'progress'. */
};
#define BATON_PUBLISH_OPTIONS_INIT                                                                 \
    {                                                                                              \
        sizeof(struct baton_publish_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0             \
    }

/* A whole tensor in host memory, in row-major order without gaps. */
struct baton_tensor {
    uint32_t size;     /* sizeof(struct baton_tensor). */
    uint32_t rank;     /* 0: a scalar; at most 8. */
    const char *name;  /* As in the checkpoint: "model.layers.0.mlp.up_proj.weight". */
    const char *dtype; /* As in safetensors: "BF16", "F32", "F8_E4M3", ... */
    const uint64_t *shape;
    const void *data;
    uint64_t bytes; /* Must follow from dtype and shape. */
};

/* Who answers on the other side. */
struct baton_agent_info {
    uint32_t size;      /* sizeof(struct baton_agent_info). */
    uint32_t connected; /* 1: the agent has a session with its controller. */
    char name[64];
    char version[32];
    char controller[256]; /* Address. */
    char directory[512];  /* Where it keeps published versions; empty: it cannot be a source. */
    uint32_t publishing;  /* Publishes under way. */
    uint32_t reserved;
};
#define BATON_AGENT_INFO_INIT                                                                      \
    {                                                                                              \
        sizeof(struct baton_agent_info), 0, "", "", "", "", 0, 0                                   \
    }

/* BATON_ABI_MAJOR << 16 | BATON_ABI_MINOR of the library that is loaded. */
BATON_API uint32_t baton_abi_version(void);
/* "0.1.0"; static. */
BATON_API const char *baton_version(void);
/* "NOT_FOUND" for 5, and so on; "UNKNOWN" for other numbers; static. */
BATON_API const char *baton_strerror(int code);

/* Connects to "unix:/path" (or a plain absolute path; null: BATON_AGENT from the environment, else
 * BATON_DEFAULT_AGENT) and agrees on the protocol.  Code 14, with the command that starts an agent as
 * the hint, where nobody listens. */
BATON_API int baton_connect(const char *address, uint64_t timeout_ms, struct baton_agent **out,
                            struct baton_error *error);
/* Null is fine.  A publish of this connection that was not committed is dropped by the agent. */
BATON_API void baton_close(struct baton_agent *agent);

BATON_API int baton_get_agent_info(struct baton_agent *agent, uint64_t timeout_ms,
                                   struct baton_agent_info *out, struct baton_error *error);
/* A round trip. */
BATON_API int baton_ping(struct baton_agent *agent, uint64_t timeout_ms, struct baton_error *error);

/* Publishes a checkpoint directory that the agent can read (an absolute path on its node) and waits
 * for the result. */
BATON_API int baton_publish_directory(struct baton_agent *agent,
                                      const struct baton_publish_options *options,
                                      const char *directory, struct baton_published *out,
                                      struct baton_error *error);

/* The same without waiting: goes on with baton_publish_wait() and ends with baton_publish_end().  The
 * agent publishes by itself from here on, also if this process dies. */
BATON_API int baton_publish_directory_start(struct baton_agent *agent,
                                            const struct baton_publish_options *options,
                                            const char *directory, struct baton_publish **out,
                                            struct baton_error *error);

/* Starts a publish from tensors; one at a time for each connection. 'options' may go once this
 * returned, but for 'context'.  Ends with baton_publish_end(), whatever happened. */
BATON_API int baton_publish_begin(struct baton_agent *agent,
                                  const struct baton_publish_options *options,
                                  struct baton_publish **out, struct baton_error *error);
/* Copies the tensor into memory that the agent maps (or sends it inline where that is not possible);
 * its own memory may change as soon as this returns.  A tensor that the agent refuses fails this or a
 * later call. */
BATON_API int baton_publish_tensor(struct baton_publish *publish, const struct baton_tensor *tensor,
                                   struct baton_error *error);
/* Copies a file of the checkpoint (config.json, tokenizer.json).  Files that are not given are
 * inherited from the parent, but for BATON_REFERENCES_FILE: what engines should answer under these
 * weights, for a canary's Probe check (deploy/docs/configuration.md has its format). */
#define BATON_REFERENCES_FILE "baton.references.json"
BATON_API int baton_publish_file(struct baton_publish *publish, const char *name, const void *data,
                                 uint64_t bytes, struct baton_error *error);
/* Says that all was given, and does not wait: the agent publishes by itself from here on, also if
 * this process dies. */
BATON_API int baton_publish_send(struct baton_publish *publish, struct baton_error *error);
/* Waits for the result.  Code 4: not within 'timeout_ms' (0: what is left of the publish's own
 * timeout); the publish goes on and the call may be repeated. */
BATON_API int baton_publish_wait(struct baton_publish *publish, uint64_t timeout_ms,
                                 struct baton_published *out, struct baton_error *error);
/* Send and wait. */
BATON_API int baton_publish_commit(struct baton_publish *publish, struct baton_published *out,
                                   struct baton_error *error);
/* How far it is, as last heard: for callers that wait in small steps rather than with a callback.
 * 'detail' is valid until the next call on this publish. */
BATON_API void baton_publish_get_progress(const struct baton_publish *publish,
                                          struct baton_progress *out);
/* Asks the agent to give up; a publish that reached the controller stays published, and
 * baton_publish_wait() says which it was. */
BATON_API int baton_publish_cancel(struct baton_publish *publish, struct baton_error *error);
/* Frees the handle; null is fine.  A publish that was not sent is cancelled first; afterwards the
 * connection may be used again unless it broke. */
BATON_API void baton_publish_end(struct baton_publish *publish);
/* The request id of a publish, to retry with; valid until its end. */
BATON_API const char *baton_publish_request_id(const struct baton_publish *publish);

/* The last version that this connection published; code 5 if none. */
BATON_API int baton_last_result(const struct baton_agent *agent, struct baton_published *out,
                                struct baton_error *error);

#ifdef __cplusplus
}
#endif

#endif /* baton.h */
