/* handshakes.h -- connections over TLS that end before they are ready for calls: why; private to api/rpc.
 *
 * gRPC's core tells nobody but its log, and there without an address.  Three hooks, in this order and on one thread for each
 * connection, give the rest: the core's socket mutator hears of the socket (connections.h), the certificate's fetcher says whose
 * handshake begins, and OpenSSL tells of the new SSL, whose alerts, verdicts and end it then reports.  Nothing is decided here.
 * With OpenSSL 3.2 or later, which makes an SSL in another order, nothing is watched: rpc_sees_handshakes().
 *
 * Depends on: OpenSSL, connections.h.  Threads: any.  Ownership: each connection holds a reference. */
#ifndef BATON_RPC_HANDSHAKES_H
#define BATON_RPC_HANDSHAKES_H

#include "api/rpc/connections.h"

/* In the fetcher of certificates: the handshake that begins on this thread is of this server. */
void handshakes_begin(struct connections *connections);

#endif /* handshakes.h */
