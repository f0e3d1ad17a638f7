/* puller.h -- takes one version from peers: who is asked for which chunk, and what is done with those that fail.
 *
 * Peers are tried in their order.  Those that have the version whole share the work among the streams; those that
 * are landing it themselves give chunks as they come.  A peer that is away, hangs or ends is left for the next one
 * and tried again after a while; one that gave bytes that are not the chunk's is told of and never asked again.
 * Those marked 'last' (they read from the source that all share) are asked only while no other can.
 *
 * Depends on: channel.h (struct channel_tls), transport/landing.  Threads: fetch, then the supplier's readers from
 * the landing's workers; 'told' comes from them.  Ownership: the caller's; what the options point to outlives it. */
#ifndef TRANSPORT_P2P_PULLER_H
#define TRANSPORT_P2P_PULLER_H

#include "api/base/limits.h"
#include "transport/landing/landing.h"
#include "transport/p2p/channel.h"

struct manifest;
struct puller;

struct puller_peer {
    char agent[BATON_NAME_BYTES];
    char address[BATON_ADDRESS_BYTES];
    bool last;
};

/* A chunk (or a chunk table, 'chunk' UINT64_MAX) that was not what its digest says. */
struct puller_poison {
    const struct puller_peer *peer;
    uint64_t chunk;
};

struct puller_options {
    const struct puller_peer *peers; /* At most BATON_HOLDERS_MAX. */
    uint32_t peers_count;
    struct digest version;
    struct baton_bytes capability;
    struct channel_tls *tls;                 /* Null: plain. */
    uint64_t patience_ns;                    /* Without a chunk from anybody; 0: 15 s. */
    uint64_t stall_ns;                       /* For one answer of one peer; 0: 10 s. */
    const struct landing_progress *progress; /* Its 'cancel' ends waiting; null: nothing does. */
    void (*told)(void *context, const struct puller_poison *poison);
    void *context;
};

struct puller *puller_create(const struct puller_options *options);
void puller_destroy(struct puller *puller);

/* The version's manifest and its bound chunk table (free()), from the first peer that has them.  UNAVAILABLE: nobody
 * gave them in time; the message says what each peer said last. */
BATON_MUST_USE struct baton_status puller_fetch(struct puller *puller, struct manifest **out,
                                                struct digest **out_table);

/* For landing_pull(). */
struct landing_supplier puller_supplier(struct puller *puller);

/* Bytes of chunks that a peer gave. */
uint64_t puller_bytes(struct puller *puller, uint32_t peer);

#endif /* puller.h */
