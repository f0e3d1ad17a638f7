/* handshakes.h -- connections over TLS that end before they are ready for calls: from where, and why; private to api/rpc.
 *
 * gRPC's core tells nobody but its log, and there without an address.  Three hooks, in this order and on one thread for each
 * connection, give the rest: the core's socket mutator hears of the socket, the certificate's fetcher says whose handshake
 * begins, and OpenSSL tells of the new SSL, whose alerts, verdicts and end it then reports.  Nothing is decided here.
 * The mutator's layout is the core's own (the public header has only its argument): with another version of the core
 * than the one it was read from, or with OpenSSL 3.2 or later, which makes an SSL in another order, nothing is watched.
 *
 * Depends on: gRPC C core, OpenSSL, rpc.h.  Threads: any.  Ownership: counted; each connection holds one. */
#ifndef BATON_RPC_HANDSHAKES_H
#define BATON_RPC_HANDSHAKES_H

#include <grpc/grpc.h>

#include "api/rpc/rpc.h"

struct handshakes;

typedef void handshakes_fn(const struct rpc_refused *refused, void *context);

/* Null 'on_refused': null, and nothing is watched. */
struct handshakes *handshakes_create(handshakes_fn *on_refused, void *context);
/* Reports nothing any more; null is fine. */
void handshakes_destroy(struct handshakes *handshakes);

/* The channel argument of a server that watches; its key is null where this core cannot be watched. */
grpc_arg handshakes_arg(void);

/* In the fetcher of certificates: the handshake that begins on this thread is of this server.  Null is fine. */
void handshakes_begin(struct handshakes *handshakes);

#endif /* handshakes.h */
