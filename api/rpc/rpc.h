/* rpc.h -- remote procedure calls: servers, clients, and errors that keep their reason.
 *
 * The one place that knows gRPC C core.  Services are tables of routes: to add an RPC, write it in a
 * proto, add one line to the table of its daemon and one handler function.  Whether it streams comes
 * from the proto.  Messages are generated structs (api/wire/wire.h); 'const void *message' is any of
 * them.
 *
 * Not here: what an RPC means, who may call it (an authorize hook is called), retries.
 *
 * Depends on: api/base, api/wire, gRPC C core, the C library.
 * Threads: each server and each client runs its own threads ("rpc threads").  Callbacks and handlers
 * run on them, one at a time per call, and must not block: hand work over.  Every function of this
 * header may be called from any thread unless its comment says otherwise.
 * Ownership: references are counted; every pointer given to a callback is borrowed for the callback
 * unless its comment says otherwise.
 * Signals: all are blocked in rpc threads; block SIGTERM and SIGINT before the first create. */
#ifndef BATON_RPC_RPC_H
#define BATON_RPC_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/bytes.h"
#include "api/base/status.h"
#include "api/wire/wire.h"

struct rpc_call;
struct rpc_client;
struct rpc_server;
struct rpc_stream;

/* ------------------------------------------------------------------------------------------------
 * Both sides
 */

/* Files in PEM.  Null members are not used.  Servers read the files again at the first handshake
 * after a change; a file that does not parse leaves the last good one in use. */
struct rpc_tls {
    const char *cert_file; /* Server: required.  Client: its own certificate, with 'key_file'. */
    const char *key_file;
    const char *ca_file; /* Who signs the other side.  Client: required. */
    bool require_client; /* Server: refuse clients without a certificate signed by 'ca_file'. */
    const char
        *server_name; /* Client: the name to look for in the certificate; else the target's. */
};

/* Seconds until the first certificate of a file ends; negative: it has. */
BATON_MUST_USE struct baton_status rpc_certificate_ends(const char *file, int64_t *seconds);

/* Looks at a daemon's certificates now and every hour, on a thread of its own, and logs those that end within 14 days or
 * have ended.  Null and empty names are passed over. */
struct rpc_expiry;
enum { RPC_EXPIRY_FILES_MAX = 4 };
BATON_MUST_USE struct baton_status rpc_expiry_create(const char *const *files, size_t count,
                                                     struct rpc_expiry **out);
void rpc_expiry_destroy(struct rpc_expiry *expiry); /* Null is fine. */

/* The refusal of a request whose field 'field' (a path, "update.maxUnavailable") is wrong:
 * INVALID_ARGUMENT BAD_FIELD, "<field>: <what>".  It travels with google.rpc.BadRequest. */
BATON_MUST_USE BATON_PRINTF(2, 3) struct baton_status
    rpc_status_field(const char *field, const char *fmt, ...);

/* What a controller that stands by says of an answer: that it is of the store and not of a leader, at which revision,
 * and how long ago the store was at it for sure.  Travels as trailing metadata (NotLeader in common.proto). */
struct rpc_stored {
    bool is_stored; /* False: the answer is a leader's, and nothing is said. */
    uint64_t revision;
    uint64_t age_ns;
};

/* What may go along with a failure. Zero is "nothing more". */
struct rpc_error_details {
    const char *subject; /* FAILED_PRECONDITION: which object, "group/g1" (PreconditionFailure). */
    uint64_t retry_after_ns; /* When to try again (RetryInfo). */
    const char *leader; /* NOT_LEADER: who is asked instead, "host:port" (baton.v1.NotLeader). */
};

/* ------------------------------------------------------------------------------------------------
 * Server
 *
 * Life of a call: the handler runs once, then the call is answered by exactly one of rpc_reply() and
 * rpc_finish(), from any thread.  Who keeps a call beyond the handler takes a reference.
 */

/* Unary and server-streaming: 'request' is the decoded message and stays valid as long as the call
 * is referenced.  Client-streaming and bidirectional: 'request' is null; the handler calls
 * rpc_call_receive() (or rpc_finish()). 'context' is rpc_server_options.context. */
typedef void rpc_handler_fn(struct rpc_call *call, const void *request, void *context);

struct rpc_route {
    const char *method; /* "baton.v1.Models/Apply". */
    rpc_handler_fn *handler;
    /* At one time; more are refused with RESOURCE_EXHAUSTED; 0: no limit of its own. */
    uint32_t calls_max;
};

struct rpc_listener {
    const char *address; /* "host:port", "[::1]:port", "unix:/path"; port 0 picks a free one. */
    const struct rpc_tls *tls; /* Null: plain. */
};

/* A connection that was one too many, or one over TLS that ended before it was ready for calls.  Nothing of it is proved. */
struct rpc_refused {
    const char *address; /* As rpc_peer's. */
    const char *name;    /* What the certificate that was refused says of its holder; else "". */
    const char *why;     /* What is wrong with it; "": it just ended. */
    bool is_limit;       /* One too many of its address. */
};

/* Zero members mean the default in brackets. */
struct rpc_server_options {
    /* Must outlive the server.  A name that no proto has, or that comes twice, is refused by
     * rpc_server_create(). */
    const struct rpc_route *routes;
    size_t routes_count;
    void *context; /* Passed to handlers and 'authorize'. */
    /* Runs for each call, also of health and reflection, before its request is read; anything but OK ends the call
     * with it and '*details', which are zero before.  May be null. */
    struct baton_status (*admit)(struct rpc_call *call, void *context,
                                 struct rpc_error_details *details);
    /* Runs once when a call that 'admit' saw is over, with the code that it ended with (CANCELLED: by the client, its
     * deadline or a lost connection).  May be null. */
    void (*ended)(struct rpc_call *call, enum baton_code code, void *context);
    /* Told of each refused connection, on a thread of the core, which must not be held up.  May be null. */
    void (*on_refused)(const struct rpc_refused *refused, void *context);
    /* Runs before the handler, with the request where there is one (rpc_call_request()); anything but OK ends the
     * call with it.  Not for health and reflection.  May be null. */
    struct baton_status (*authorize)(struct rpc_call *call, void *context);
    const struct rpc_listener *listeners;
    size_t listeners_count;
    uint32_t threads;                    /* [1] */
    uint32_t calls_max;                  /* Open calls, all methods together.  [16384] */
    uint32_t streams_per_connection_max; /* [4096] */
    size_t message_bytes_max;            /* [BATON_MESSAGE_BYTES_MAX] */
    size_t send_queue_bytes_max;  /* Per call, sent but not yet taken by the network.  [4 MiB] */
    size_t send_queues_bytes_max; /* Of all calls: beyond it who waits longest is cut.  [256 MiB] */
    /* Open TCP connections of one IPv4 address or IPv6 /64; more are ended before a handshake.  [not bounded] */
    uint32_t connections_per_address_max;
    uint64_t handshake_ns; /* From a connection to HTTP/2's settings; else it is ended.  [20 s] */
    uint64_t connection_idle_ns;      /* Connections without a call are ended.  [never] */
    uint64_t keepalive_ns;            /* Silence after which a peer is probed.  [20 s] */
    uint64_t keepalive_timeout_ns;    /* [10 s] */
    uint64_t client_ping_min_ns;      /* Clients that ping more often are cut.  [1 s] */
    uint64_t connection_age_max_ns;   /* Ends connections, so that rotated certificates count. */
    uint64_t connection_age_grace_ns; /* [never; 30 s] */
    bool no_reflection;               /* Default: v1 and v1alpha are served. */
};

/* Whether connections_per_address_max holds with this version of gRPC, and whether on_refused is told of handshakes with it and
 * this version of OpenSSL: connections.h and handshakes.h have why. */
bool rpc_sees_connections(void);
bool rpc_sees_handshakes(void);

/* Logs one, a second at most, whatever their number. */
void rpc_refused_log(const struct rpc_refused *refused, const char *component);

/* Binds all listeners; nothing is accepted before rpc_server_start().  A taken port gives
 * FAILED_PRECONDITION IN_USE with what to do. */
BATON_MUST_USE struct baton_status rpc_server_create(const struct rpc_server_options *options,
                                                     struct rpc_server **out);
void rpc_server_start(struct rpc_server *server);
/* Port of the listener 'index'; 0 for a Unix socket. */
uint16_t rpc_server_port(const struct rpc_server *server, size_t index);

/* Stops: new calls are refused (UNAVAILABLE SHUTTING_DOWN), health says NOT_SERVING, open
 * server and bidi streams are finished with UNAVAILABLE SHUTTING_DOWN, other calls may end until
 * 'grace_ns' is over, then what is left is cancelled.  Returns when no call is left.  Blocks: not on an rpc thread.  Once. */
void rpc_server_drain(struct rpc_server *server, uint64_t grace_ns);
/* Drains with no grace if that was not done, then frees.  All references to calls must be back
 * before; null is fine. */
void rpc_server_destroy(struct rpc_server *server);

/* grpc.health.v1.  Service "" is the whole server.  All routed services and "" begin NOT_SERVING: a
 * daemon says SERVING when it really can. */
enum rpc_health { RPC_HEALTH_NOT_SERVING, RPC_HEALTH_SERVING };
void rpc_health_set(struct rpc_server *server, const char *service, enum rpc_health health);
void rpc_health_set_all(struct rpc_server *server, enum rpc_health health);

/* --- the call --- */

struct rpc_call *rpc_call_ref(struct rpc_call *call); /* Returns 'call'. */
void rpc_call_unref(struct rpc_call *call);           /* Null is fine. */

/* "baton.v1.Models/Apply"; static. */
const char *rpc_call_method(const struct rpc_call *call);
/* The route's message for unary and server-streaming calls. */
const void *rpc_call_request(const struct rpc_call *call);
/* A free slot for the owner of the call. */
void rpc_call_set_data(struct rpc_call *call, void *data);
void *rpc_call_data(const struct rpc_call *call);
/* A number for the owner of the server, 0 before: see 'admit' and 'ended'. */
void rpc_call_set_mark(struct rpc_call *call, uint32_t mark);
uint32_t rpc_call_mark(const struct rpc_call *call);
/* Whether its method streams, either way. */
bool rpc_call_is_stream(const struct rpc_call *call);
/* Value of a metadata key (lower case) that the client sent; data is null if absent.  Valid as long
 * as the call is referenced. */
struct baton_bytes rpc_call_metadata(const struct rpc_call *call, const char *key);
/* "x-baton-request-id" if sent, else ""; at most BATON_REQUEST_ID_BYTES - 1 are kept. */
const char *rpc_call_request_id(const struct rpc_call *call);
/* Since it came in. */
uint64_t rpc_call_age_ns(const struct rpc_call *call);
/* Monotonic time at which the client stops waiting; UINT64_MAX if never. */
uint64_t rpc_call_deadline_ns(const struct rpc_call *call);
/* True when the client gave the call up.  Unary calls hear of it only after rpc_call_receive(). */
bool rpc_call_is_cancelled(const struct rpc_call *call);

enum { RPC_IDENTITY_BYTES = 256, RPC_NAMES_MAX = 8 };

/* What a caller proved about itself. */
enum rpc_principal {
    RPC_PRINCIPAL_ANONYMOUS, /* Nothing: another machine, without a certificate. */
    RPC_PRINCIPAL_LOCAL,     /* That it is on this machine: a Unix socket or a loopback address. */
    RPC_PRINCIPAL_CERTIFICATE, /* That it holds the key of a certificate signed by 'ca_file'. */
    RPC_PRINCIPAL_TOKEN, /* That it knows a token: by the server's owner, rpc_call_set_token_name(). */
};

/* What a name is comes from where it was proved, never from how it looks. */
enum rpc_name_kind {
    RPC_NAME_DNS,
    RPC_NAME_SPIFFE,
    RPC_NAME_ACCOUNT, /* "system:serviceaccount:NAMESPACE:NAME" of a Kubernetes token. */
};

#define RPC_ACCOUNT_PREFIX "system:serviceaccount:"

/* A name that the certificate or token proves.  Never empty, and only printable ASCII without spaces. */
struct rpc_peer_name {
    enum rpc_name_kind kind;
    char text[RPC_IDENTITY_BYTES];
};

struct rpc_peer {
    enum rpc_principal principal;
    /* For people, logs and the audit: the SPIFFE id, else the first DNS name, else "cn:" and the common name of a
     * certificate ("unnamed" if it has none of them), so that it passes for nothing else; else "local" or
     * "anonymous".  Decide by 'names': a common name proves nothing. */
    char identity[RPC_IDENTITY_BYTES];
    char address[128]; /* For logs only. */
    bool is_private;   /* Nobody on the way reads along: TLS, or this machine. */
    size_t names_count;
    /* Of a token: its row's.  Of a certificate: its SPIFFE id (only if that is its one URI) and its DNS names.  What is longer than the
     * room here, has other characters, or comes after the last place is left out: it gives no rights. */
    struct rpc_peer_name names[RPC_NAMES_MAX];
};
/* Who called, as it was when the call came in: the same as long as the call is referenced.  A certificate counts
 * also on a Unix socket or a loopback address: who shows one is held to it. */
void rpc_call_peer(const struct rpc_call *call, struct rpc_peer *out);

/* In 'admit' only, for a caller without a certificate: it has shown the token of this name. */
void rpc_call_set_token_name(struct rpc_call *call, const struct rpc_peer_name *name);

/* When the caller's certificate ends, in wall seconds; 0: it showed none, or the call is over. */
int64_t rpc_call_certificate_ends(struct rpc_call *call);

/* What the protos say of a method ("baton.v1.Fleet/Watch"); false: there is none. */
struct rpc_shape {
    const ProtobufCMessageDescriptor *input;
    bool client_streams;
    bool server_streams;
};
bool rpc_shape_find(const char *method, struct rpc_shape *out);

/* True if a listener's or target's address ("host:port", "unix:/path", "ipv4:a:p1,b:p2", "[::1]:port") cannot be
 * reached from, or reach, another machine: each host in it is a Unix socket, 127.0.0.0/8, ::1 or "localhost". */
bool rpc_address_is_local(const char *address);

/* Text of the string method option with this field number ("required role"), "" if the method has
 * none.  Static. */
const char *rpc_call_option(const struct rpc_call *call, uint32_t option_number);

/* Answers a unary or client-streaming call with 'message' and OK.  The message is encoded before
 * this returns. */
void rpc_reply(struct rpc_call *call, const void *message);

/* Before the answer: marks it. */
void rpc_call_mark_stored(struct rpc_call *call, const struct rpc_stored *stored);

/* Queues one message of a server or bidi stream; encoded before this returns.  A full queue cuts the
 * stream: the caller gets RESOURCE_EXHAUSTED LIMIT and so does the client.  CANCELLED after the
 * call's end.  After a failure nothing more can be sent; rpc_finish() is not needed. */
struct baton_status rpc_send(struct rpc_call *call, const void *message);

/* One message for many streams: encoded once, and its bytes are shared by all that it is sent to. */
struct rpc_encoded;
struct rpc_encoded *rpc_encode(const void *message);
size_t rpc_encoded_bytes(const struct rpc_encoded *encoded);
/* As rpc_send(). */
struct baton_status rpc_send_encoded(struct rpc_call *call, const struct rpc_encoded *encoded);
void rpc_encoded_free(
    struct rpc_encoded *encoded); /* What was sent still goes out; null is fine. */

/* Bytes in the send queue; to pause a producer before the queue is full. */
size_t rpc_call_queued_bytes(const struct rpc_call *call);

/* Ends the call after what was sent.  The first of reply and finish wins, later ones do nothing. */
void rpc_finish(struct rpc_call *call, const struct baton_status *status);
void rpc_finish_with(struct rpc_call *call, const struct baton_status *status,
                     const struct rpc_error_details *details);

/* Messages of a client or bidi stream, and the end of any call.  Members may be null. */
struct rpc_receiver {
    /* 'message' becomes the receiver's, who frees it with baton_wire_free().  The next one comes only
     * after rpc_call_read_next(): not asking slows the client down. */
    void (*on_message)(struct rpc_call *call, void *message, void *context);
    /* The client has no more messages. */
    void (*on_half_close)(struct rpc_call *call, void *context);
    /* The last callback of a call, exactly once: it is over.  'cancelled': by the client, its
     * deadline, a lost connection or a cut, rather than by our rpc_finish(). */
    void (*on_done)(struct rpc_call *call, bool cancelled, void *context);
};
/* In the handler only.  For streams of messages asks for the first one.  A unary call that may take
 * long calls it for on_done: without, it does not hear that the client went away. */
void rpc_call_receive(struct rpc_call *call, const struct rpc_receiver *receiver, void *context);
/* Asks for one more message; call it once per on_message, from any thread. */
void rpc_call_read_next(struct rpc_call *call);

/* ------------------------------------------------------------------------------------------------
 * Client
 */

struct rpc_client_options {
    /* To this server of the same process rather than to 'target', which is not looked at: over a pair of sockets that nobody
     * else can reach, one for each call.  Each call says with RPC_CALLER_KEY on whose behalf it is.  The server outlives the
     * client.  Null: to 'target'. */
    struct rpc_server *inside;
    /* "host:port", "unix:/path", "ipv4:10.0.0.1:7070,10.0.0.2:7070"; or a list, "a:7070,b:7070,c:7070",
     * of servers of which one leads.  Calls go to one of them.  When a call ends because nobody
     * answers there, or it stops, or does not lead (NOT_LEADER), the next call goes to the next one,
     * or to the leader that was named, also if it is not in the list.  No call is sent twice: who
     * made it tries again. */
    const char *target;
    const struct rpc_tls *tls;     /* Null: plain. */
    size_t message_bytes_max;      /* [BATON_MESSAGE_BYTES_MAX] */
    size_t send_queue_bytes_max;   /* Per stream.  [4 MiB] */
    uint64_t keepalive_ns;         /* [20 s; with a list 5 s] */
    uint64_t keepalive_timeout_ns; /* [10 s; with a list 5 s] */
    uint64_t backoff_first_ns;     /* Between attempts to connect.  [200 ms] */
    uint64_t backoff_max_ns;       /* [2 s] */
    const char *user_agent;        /* Put before gRPC's own.  [none] */
    /* Sent with each call as "authorization: Bearer ..."; only over TLS, or to this machine.  [none] */
    const char *bearer_token;
};

/* Connects lazily.  A target that cannot be one is refused. */
BATON_MUST_USE struct baton_status rpc_client_create(const struct rpc_client_options *options,
                                                     struct rpc_client **out);
/* Cancels what is open, waits for its callbacks, frees.  Not on an rpc thread; null is fine.
 * Streams stay valid until their last unref. */
void rpc_client_destroy(struct rpc_client *client);
/* Whether its target is a list. */
bool rpc_client_has_choice(const struct rpc_client *client);

/* Of a call from inside the process: the address of its caller, "127.0.0.1:4711", who then counts as if the call had come from
 * there without a certificate.  Without it nobody called.  Calls from elsewhere may send it in vain. */
#define RPC_CALLER_KEY "x-baton-caller"

struct rpc_metadata {
    const char *key; /* Lower case; "-bin" at the end for bytes. */
    const char *value;
};

#define RPC_NO_TIMEOUT UINT64_MAX

struct rpc_call_options {
    uint64_t timeout_ns; /* 0: 10 s for unary calls, none for streams. */
    /* Wait for a connection until the deadline rather than fail at once; not with a list of targets. */
    bool wait_for_ready;
    const struct rpc_metadata *metadata;
    size_t metadata_count;
};

struct rpc_result {
    struct baton_status status; /* With the peer's reason and hint. */
    void *message;              /* The caller's, free with baton_wire_free(); null if not OK. */
    struct rpc_stored stored;   /* Of an answer that is OK. */
};

/* One request, one reply; blocks until the deadline at most.  Not on an rpc thread.  'options' may
 * be null. */
BATON_MUST_USE struct rpc_result rpc_unary(struct rpc_client *client, const char *method,
                                           const void *request,
                                           const struct rpc_call_options *options);

/* The same without waiting: 'done' runs exactly once on the rpc thread and owns result->message.
 * 'request' is encoded before this returns. */
typedef void rpc_done_fn(const struct rpc_result *result, void *context);
void rpc_unary_start(struct rpc_client *client, const char *method, const void *request,
                     const struct rpc_call_options *options, rpc_done_fn *done, void *context);

/* --- streams --- */

/* What a stream tells its owner, on the rpc thread.  Members may be null. */
struct rpc_stream_events {
    /* The server accepted the stream, before its first message at the latest.  Our servers say so at
     * once for client and bidi streams. */
    void (*on_open)(struct rpc_stream *stream, void *context);
    /* 'message' becomes the owner's.  The next one comes only after rpc_stream_read_next(). */
    void (*on_message)(struct rpc_stream *stream, void *message, void *context);
    /* The send queue became empty. */
    void (*on_drained)(struct rpc_stream *stream, void *context);
    /* The last event, exactly once: OK if the server finished it well. */
    void (*on_end)(struct rpc_stream *stream, const struct baton_status *status, void *context);
};

/* Opens a stream of any shape.  'request' is sent at once where it is not null (server streams need
 * it).  With 'events' the stream calls them and asks for the first message by itself; without, it is
 * read by rpc_stream_next().  Never null: what fails, ends the stream with a status.  The caller has
 * one reference. */
struct rpc_stream *rpc_stream_open(struct rpc_client *client, const char *method,
                                   const void *request, const struct rpc_call_options *options,
                                   const struct rpc_stream_events *events, void *context);
struct rpc_stream *rpc_stream_ref(struct rpc_stream *stream);
/* The last one cancels a stream that is still open; null is fine. */
void rpc_stream_unref(struct rpc_stream *stream);

/* Queues a message.  RESOURCE_EXHAUSTED LIMIT if the queue is full: nothing was queued, the stream
 * goes on.  CANCELLED after the end. */
BATON_MUST_USE struct baton_status rpc_stream_send(struct rpc_stream *stream, const void *message);
/* Waits for room first; DEADLINE_EXCEEDED if there was none in time.  Not on an rpc thread. */
BATON_MUST_USE struct baton_status rpc_stream_send_wait(struct rpc_stream *stream,
                                                        const void *message, uint64_t timeout_ns);
/* No more messages from us. */
void rpc_stream_send_done(struct rpc_stream *stream);
/* Asks for one more message: once per on_message. */
void rpc_stream_read_next(struct rpc_stream *stream);
/* Ends the stream with CANCELLED; on_end follows. */
void rpc_stream_cancel(struct rpc_stream *stream);

enum rpc_next_kind {
    RPC_NEXT_MESSAGE, /* 'message' is the caller's. */
    RPC_NEXT_TIMEOUT, /* Nothing came in time; the stream goes on. */
    RPC_NEXT_END,     /* 'status' says how; so does every further call. */
};

struct rpc_next {
    enum rpc_next_kind kind;
    void *message;
    struct baton_status status; /* OK unless END. */
};

/* Waits for the next message of a stream without events.  Not on an rpc thread; one reader. */
BATON_MUST_USE struct rpc_next rpc_stream_next(struct rpc_stream *stream, uint64_t timeout_ns);

#endif /* rpc.h */
