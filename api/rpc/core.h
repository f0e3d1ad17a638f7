/* core.h -- what server and client share of gRPC C core; private to api/rpc.
 *
 * A tag is what comes back from a completion queue: a struct inside the object that waits, with the
 * function to run.  A loop is one completion queue and the one thread that sits in it all the time
 * (the core does its I/O only there).
 *
 * Depends on: gRPC C core, api/wire.  Threads: stated per function.  Ownership: stated per function. */
#ifndef BATON_RPC_CORE_H
#define BATON_RPC_CORE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/support/time.h>

#include "api/wire/wire.h"

#define RPC_CONTAINER(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

/* In the trailers of an answer of a standby: decimal numbers. */
#define RPC_STORED_REVISION_KEY "x-baton-stored-revision"
#define RPC_STORED_AGE_KEY      "x-baton-stored-age-ms"

/* In the headers of an accepted stream. */
#define RPC_ACCEPTED_KEY "x-baton-accepted"

struct rpc_tag {
    void (*run)(struct rpc_tag *tag, bool ok); /* On the loop's thread. */
};

struct rpc_loop {
    grpc_completion_queue *queue;
    pthread_t thread;
    bool has_thread;
};

/* Counted: the core lives from the first acquire to the last release.  Its log goes to api/base. */
void rpc_core_acquire(void);
void rpc_core_release(void);
/* Keeps what the core says on this thread to itself, where the caller reports better. */
void rpc_core_hush(bool is_hushed);

void rpc_loop_init(struct rpc_loop *loop);
/* 'name' is the thread's, at most 15 characters. */
void rpc_loop_start(struct rpc_loop *loop, const char *name);
/* Ends the queue after what is pending, waits for the thread.  Nothing new may be started. */
void rpc_loop_deinit(struct rpc_loop *loop);
/* True on a thread of any loop: blocking there would never end. */
bool rpc_is_loop_thread(void);

/* Starts a batch whose end runs 'tag'.  Asserts that the core takes it: ours are well-formed. */
void rpc_batch(grpc_call *call, const grpc_op *ops, size_t count, struct rpc_tag *tag);

/* Tells the thread sanitizer, which does not see into the core, that what was written before a tag was
 * handed over is read after it comes back. */
void rpc_tag_released(struct rpc_tag *tag);

/* Monotonic nanoseconds as the core's time; UINT64_MAX never comes. */
gpr_timespec rpc_time(uint64_t monotonic_ns);
uint64_t rpc_time_ns(gpr_timespec time);
/* 'timeout_ns' from now, UINT64_MAX for no end. */
uint64_t rpc_deadline_after(uint64_t timeout_ns);

/* The message in the core's form; the caller's. */
grpc_byte_buffer *rpc_buffer_of(const void *message);
BATON_MUST_USE struct baton_status rpc_buffer_decode(grpc_byte_buffer *buffer,
                                                     const ProtobufCMessageDescriptor *type,
                                                     size_t bytes_max, ProtobufCMessage **out);

bool rpc_slice_is(grpc_slice slice, const char *text);
/* Copies as text, cut to fit. */
void rpc_slice_text(grpc_slice slice, char *out, size_t out_bytes);

/* Channel arguments of both sides. */
grpc_arg rpc_arg(const char *key, int value);
/* 'ns' in milliseconds, 'fallback_ns' for 0; at least 1, at most INT_MAX. */
int rpc_ms(uint64_t ns, uint64_t fallback_ns);

#endif /* core.h */
