/* p2p_world.c -- see p2p_world.h. */
#include "tests/unit/p2p_world.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "tests/unit/checkpoint_maker.h"

static size_t keys(void *context, struct capability_key out[P2P_KEYS_MAX])
{
    const struct node *node = context;
    out[0] = node->world->key;
    return 1;
}

static void on_refused(void *context, const struct p2p_refusal *refusal)
{
    struct node *node = context;
    node->refused++;
    (void)snprintf(node->why, sizeof(node->why), "%.120s", refusal->status->message);
    (void)snprintf(node->whose, sizeof(node->whose), "%.63s", refusal->node);
}

static uint64_t now_s(void *context)
{
    const struct node *node = context;
    return node->world->now_s;
}

static void on_poison(void *context, const struct puller_poison *poison)
{
    struct world *world = context;
    cr_assert_lt(world->told, TOLD_MAX);
    world->poisons[world->told++] = *poison;
}

void world_serve(struct node *node, struct channel_tls *tls)
{
    struct p2p_server_options options = { .listen = "127.0.0.1:0",
                                          .tls = tls,
                                          .roots = { node->root },
                                          .roots_count = 1,
                                          .keys = keys,
                                          .refused = on_refused,
                                          .wall_s = now_s,
                                          .context = node };
    struct baton_status st = p2p_server_create(&options, &node->server);
    cr_assert(baton_ok(&st), "%s", st.message);
    (void)snprintf(node->peer.address, sizeof(node->peer.address), "127.0.0.1:%u",
                   (unsigned)p2p_server_port(node->server));
}

static void open_node(struct world *world, unsigned i)
{
    struct node *node = &world->nodes[i];
    char name[16];
    (void)snprintf(name, sizeof(name), "n%u", i);
    node->world = world;
    node->dir = maker_join(world->dir, name);
    (void)snprintf(node->peer.agent, sizeof(node->peer.agent), "%s", name);
    struct landing_root_options options = { node->dir, 0 };
    struct baton_status st = landing_root_open(&options, &node->root);
    cr_assert(baton_ok(&st), "%s", st.message);
}

void world_grant(struct world *world, const struct capability_signer *signer, const char *node,
                 const char *identity)
{
    struct capability capability = { .version = world->version, .issued_s = 5000, .ends_s = 5600 };
    (void)snprintf(capability.node, sizeof(capability.node), "%s", node);
    (void)snprintf(capability.identity, sizeof(capability.identity), "%s", identity);
    world->capability_size = capability_sign(signer, &capability, world->capability);
}

struct world *world_open(void)
{
    struct world *world = calloc(1, sizeof(*world));
    cr_assert_not_null(world);
    (void)signal(SIGPIPE, SIG_IGN);
    world->dir = maker_directory();
    world->now_s = 5100;
    world->patience_s = 2;
    char *checkpoint = maker_join(world->dir, "checkpoint");
    cr_assert_eq(mkdir(checkpoint, 0755), 0);
    maker_checkpoint(checkpoint, 0);
    for (unsigned i = 0; i < NODES; i++) {
        open_node(world, i);
    }
    struct baton_status st =
        landing_import_directory(world->nodes[0].root, checkpoint, NULL, NULL, &world->manifest);
    cr_assert(baton_ok(&st), "%s", st.message);
    free(checkpoint);
    world->version = world->manifest->digest;
    world->signer = capability_signer_create();
    world->key = capability_signer_key(world->signer);
    world_grant(world, world->signer, "a1", "");
    return world;
}

void world_close(struct world *world)
{
    for (unsigned i = 0; i < NODES; i++) {
        p2p_server_destroy(world->nodes[i].server);
        landing_root_close(world->nodes[i].root);
        free(world->nodes[i].dir);
    }
    channel_tls_destroy(world->tls);
    capability_signer_destroy(world->signer);
    manifest_destroy(world->manifest);
    maker_remove(world->dir);
    free(world);
}

struct puller *world_puller(struct world *world, const struct puller_peer *peers, uint32_t count)
{
    struct puller_options options = { .peers = peers,
                                      .peers_count = count,
                                      .version = world->version,
                                      .capability = { world->capability, world->capability_size },
                                      .tls = world->tls,
                                      .patience_ns = world->patience_s * BATON_NS_PER_S,
                                      .told = on_poison,
                                      .context = world };
    return puller_create(&options);
}

struct pulled world_pull(struct world *world, const struct puller_peer *peers, uint32_t count)
{
    struct pulled pulled = { .resumed = 0 };
    struct manifest *manifest = NULL;
    struct digest *table = NULL;
    struct landing_progress progress = { .bytes_done = 0 };
    struct landing_options options = { .workers = 4 };
    struct puller *puller = world_puller(world, peers, count);
    struct landing_supplier supplier = puller_supplier(puller);
    pulled.status = puller_fetch(puller, &manifest, &table);
    if (baton_ok(&pulled.status)) {
        pulled.status =
            landing_pull(world->nodes[2].root, manifest, table, &supplier, &options, &progress);
    }
    for (uint32_t i = 0; i < count; i++) {
        pulled.bytes[i] = puller_bytes(puller, i);
    }
    pulled.resumed = progress.bytes_resumed;
    free(table);
    manifest_destroy(manifest);
    puller_destroy(puller);
    return pulled;
}

void world_expect_landed(struct world *world, unsigned node)
{
    cr_assert(landing_has(world->nodes[node].root, world->version));
    struct baton_status st = landing_verify(world->nodes[node].root, world->version, NULL);
    cr_assert(baton_ok(&st), "%s", st.message);
}

static struct baton_status slow_open(void *context, unsigned worker, void **out)
{
    (void)worker;
    *out = context;
    return baton_status_ok();
}

static void slow_close(void *reader)
{
    (void)reader;
}

static void slow_expect(void *reader, uint64_t chunk)
{
    (void)reader;
    (void)chunk;
}

static struct baton_status slow_read(void *reader, uint64_t chunk, uint8_t *out, size_t size)
{
    struct slow *slow = reader;
    struct holding_piece piece;
    struct baton_status st = holding_find(slow->holding, chunk, 0, &piece);
    cr_assert(baton_ok(&st) && piece.size == size);
    while (chunk > 0 && !slow->go) {
        (void)usleep(1000);
    }
    cr_assert_eq(pread(piece.fd, out, size, (off_t)piece.offset), (ssize_t)size);
    slow->given++;
    return st;
}

static void slow_reject(void *reader, uint64_t chunk)
{
    (void)reader;
    cr_assert(false, "chunk %llu", (unsigned long long)chunk);
}

void *world_land_slowly(void *argument)
{
    struct world *world = argument;
    struct slow *slow = (struct slow *)(void *)world->poisons[0].peer;
    struct landing_supplier supplier = { slow,        slow_open, slow_close,
                                         slow_expect, slow_read, slow_reject };
    struct landing_options options = { .workers = 1 };
    uint64_t count = 0;
    struct baton_status st =
        landing_pull(world->nodes[1].root, world->manifest, holding_table(slow->holding, &count),
                     &supplier, &options, NULL);
    cr_assert(baton_ok(&st), "%s", st.message);
    return NULL;
}
