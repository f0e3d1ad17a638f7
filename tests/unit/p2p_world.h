/* p2p_world.h -- three nodes with a landing each, of which the first has a version; for tests of transport/p2p.
 *
 * Depends on: Criterion, transport/p2p.  Threads: one, unless said otherwise.  Ownership: world_open() gives,
 * world_close() takes.  What goes wrong fails the test. */
#ifndef TESTS_UNIT_P2P_WORLD_H
#define TESTS_UNIT_P2P_WORLD_H

#include "transport/landing/holding.h"
#include "transport/model/manifest.h"
#include "transport/p2p/puller.h"
#include "transport/p2p/server.h"

enum { NODES = 3, TOLD_MAX = 8 };

/* One node: a landing root and a server over it. */
struct node {
    struct world *world;
    char *dir;
    struct landing_root *root;
    struct p2p_server *server;
    struct puller_peer peer;
    unsigned refused;
    char why[128]; /* Of the last refusal. */
    char whose[BATON_NAME_BYTES];
};

/* Node 0 has a version; the others have nothing. */
struct world {
    char *dir;
    struct node nodes[NODES];
    struct capability_signer *signer;
    struct capability_key key;
    struct digest version;
    struct manifest *manifest;
    uint8_t capability[CAPABILITY_BYTES_MAX];
    size_t capability_size;
    struct channel_tls *tls; /* Of pullers. */
    uint64_t now_s;
    uint64_t patience_s; /* Of pullers. */
    unsigned told;
    struct puller_poison poisons[TOLD_MAX];
};

/* What a pull came to. */
struct pulled {
    struct baton_status status;
    uint64_t bytes[BATON_HOLDERS_MAX];
    uint64_t resumed;
};

struct world *world_open(void);
void world_close(struct world *world);
/* The node serves from now on; 'tls' null: plain. */
void world_serve(struct node *node, struct channel_tls *tls);
/* The capability that pullers show from now on. */
void world_grant(struct world *world, const struct capability_signer *signer, const char *node,
                 const char *identity);
struct puller *world_puller(struct world *world, const struct puller_peer *peers, uint32_t count);
/* Pulls into node 2 from peers of the list. */
struct pulled world_pull(struct world *world, const struct puller_peer *peers, uint32_t count);
void world_expect_landed(struct world *world, unsigned node);

/* A supplier that gives the first chunks of node 0 and then waits. */
struct slow {
    struct holding *holding;
    _Atomic unsigned given;
    _Atomic bool go;
};

/* A thread: lands the version on node 1 from the 'struct slow' to which world->poisons[0].peer points. */
void *world_land_slowly(void *world);

#endif /* p2p_world.h */
