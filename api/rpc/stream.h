/* stream.h -- the inside of a client's stream; private to api/rpc.
 *
 * Batches: SEND (one at a time: headers first, then messages, then the half-close), HEADERS, READ
 * (one at a time) and END, which the core gives back last.  The stream is over when END came and no
 * batch is pending.
 *
 * Depends on: client.h.  Threads: the mutex guards what its comment says.
 * Ownership: the library holds one reference until the stream is over. */
#ifndef BATON_RPC_STREAM_H
#define BATON_RPC_STREAM_H

#include <stdatomic.h>

#include "api/rpc/client.h"

struct stream_outgoing {
    struct stream_outgoing *next;
    grpc_byte_buffer *buffer;
    size_t bytes;
};

struct rpc_stream {
    atomic_uint references;      /* Of all kinds. */
    atomic_uint user_references; /* The last one to go cancels. */
    struct client_entry entry;
    struct rpc_client *client;
    struct client_call call;
    bool has_events;
    struct rpc_stream_events events;
    void *context;
    struct rpc_tag send_tag;
    struct rpc_tag headers_tag;
    struct rpc_tag read_tag;
    struct rpc_tag end_tag;
    grpc_metadata_array headers;
    struct client_end end;
    grpc_byte_buffer *incoming;
    bool is_open; /* on_open ran; the loop's own. */

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Under the mutex. */
    unsigned pending; /* Batches that the core has. */
    bool is_ended;    /* END came. */
    bool is_over;
    bool is_sending;
    bool has_sent_headers;
    bool is_send_done; /* No more messages from us. */
    bool has_sent_close;
    bool is_reading;
    bool is_read_done;           /* The server has no more messages. */
    struct baton_status failure; /* Ours: a message that does not decode. */
    struct baton_status status;  /* When over. */
    struct stream_outgoing *first;
    struct stream_outgoing *last;
    struct stream_outgoing *flying;
    size_t queued_bytes;
    ProtobufCMessage *ready; /* For rpc_stream_next(). */
};

/* --- stream_send.c; all with the mutex --- */

void stream_pump(struct rpc_stream *stream);
void stream_drop_queue(struct rpc_stream *stream);
void stream_on_sent(struct rpc_tag *tag, bool ok);
void stream_push(struct rpc_stream *stream, const void *message);

/* --- stream.c --- */

/* With the mutex: one more batch; its tag ends in stream_batch_end(). */
void stream_batch_begin(struct rpc_stream *stream);
/* Without it. */
void stream_batch_end(struct rpc_stream *stream);
/* With the mutex: asks for a message unless that is not possible. */
void stream_read(struct rpc_stream *stream);

#endif /* stream.h */
