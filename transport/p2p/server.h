/* server.h -- serves the verified chunks of landing roots to nodes that show a capability.
 *
 * A thread a connection, at most 'connections_max', CONNECTIONS_PER_NODE_MAX of one node, and STRANGERS_PER_HOST_MAX of one
 * address before they said who they are: a host that only connects takes no places from others.  Nothing of a version is
 * said before the capability was checked: its signature against the controller's keys, the version, the time, and
 * the node: over TLS the certificate must bear the identity that the capability names (or, where it names none, the
 * agent's SPIFFE id).  A refusal is counted and told, then answered.
 *
 * Depends on: channel.h (struct channel_tls), transport/landing, transport/capability.  Threads: any; callbacks come
 * from the connections' threads.  Ownership: the caller's; roots and TLS outlive it. */
#ifndef TRANSPORT_P2P_SERVER_H
#define TRANSPORT_P2P_SERVER_H

#include "transport/capability/capability.h"
#include "transport/landing/landing.h"
#include "transport/p2p/channel.h"

enum {
    P2P_ROOTS_MAX = 2,
    P2P_KEYS_MAX = 8,
    P2P_CONNECTIONS_DEFAULT = 128,
    P2P_CONNECTIONS_PER_NODE_MAX = 16,
    P2P_STRANGERS_PER_HOST_MAX = 32, /* That have not shown a good capability yet. */
};

struct p2p_server;

/* Who was refused, and why.  Texts live during the call. */
struct p2p_refusal {
    const char *node;     /* As the capability claims; empty: it could not be read. */
    const char *identity; /* Of the certificate; empty: none. */
    const char *remote;
    struct digest version; /* That was asked for. */
    const struct baton_status *status;
};

struct p2p_server_options {
    const char *listen;
    struct channel_tls
        *tls; /* Null: plain; then whoever has a capability is believed to be its node. */
    struct landing_root *roots[P2P_ROOTS_MAX];
    size_t roots_count;
    uint32_t connections_max; /* 0: P2P_CONNECTIONS_DEFAULT. */
    /* The keys that count now; at most P2P_KEYS_MAX. */
    size_t (*keys)(void *context, struct capability_key out[P2P_KEYS_MAX]);
    void (*refused)(void *context, const struct p2p_refusal *refusal);
    uint64_t (*wall_s)(void *context); /* Null: the wall clock. */
    void *context;
};

struct p2p_server_counts {
    uint64_t connections; /* Now. */
    uint64_t accepted;
    uint64_t refused;
    uint64_t chunks;
    uint64_t bytes; /* Of chunks. */
};

BATON_MUST_USE struct baton_status p2p_server_create(const struct p2p_server_options *options,
                                                     struct p2p_server **out);
/* Ends all connections and waits for their threads.  Null is fine. */
void p2p_server_destroy(struct p2p_server *server);

uint16_t p2p_server_port(const struct p2p_server *server);
struct p2p_server_counts p2p_server_counts(struct p2p_server *server);

#endif /* server.h */
