/* connections.h -- the sockets that a server's core accepts: from where, and not too many of one address; private to api/rpc.
 *
 * The core offers no hook for it but its socket mutator, which sees each accepted socket before anything is read from it.
 * A socket too many is shut down there: the core finds its end and closes it, without a handshake.  What is open is not
 * counted up and down (the core tells of no end) but looked up: which of the descriptors that came from this address are
 * still the same sockets.  The mutator's layout is the core's own (the public header has only its argument): with another
 * version of the core than the one it was read from nothing is seen or bounded, rpc_sees_connections().
 *
 * An address is an IPv4 address or the /64 of an IPv6 address.  Unix sockets have none, and are not bounded.
 *
 * Depends on: gRPC C core, rpc.h.  Threads: any.  Ownership: counted; the core and each handshake hold references. */
#ifndef BATON_RPC_CONNECTIONS_H
#define BATON_RPC_CONNECTIONS_H

#include <grpc/grpc.h>

#include "api/rpc/rpc.h"

enum { CONNECTIONS_ADDRESS_BYTES = 64 };

struct connections;

struct connections *connections_create(const struct rpc_server_options *options);
struct connections *connections_ref(struct connections *connections); /* Returns it. */
void connections_unref(struct connections *connections);
/* The server is gone: reports nothing any more, and gives up the creator's reference. */
void connections_end(struct connections *connections);

/* The channel argument of the server; its key is null where this core cannot be watched. */
grpc_arg connections_arg(struct connections *connections);

/* Tells the server's owner, if it wants to hear. */
void connections_refused(struct connections *connections, const struct rpc_refused *refused);

/* On the thread that accepted a socket, once: whether there is one whose handshake is to be watched, and from where. */
bool connections_is_beginning(const struct connections *connections);
void connections_take_address(char out[CONNECTIONS_ADDRESS_BYTES]);

#endif /* connections.h */
