/* p2p_test.c -- versions from node to node: who is refused, who is left, what is passed on, what is never taken. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "tests/unit/checkpoint_maker.h"
#include "transport/landing/holding.h"
#include "transport/model/manifest.h"
#include "transport/p2p/frame.h"
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
    unsigned told;
    struct puller_poison poisons[TOLD_MAX];
};

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

static void serve(struct node *node, struct channel_tls *tls)
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

/* The capability that pullers show from now on. */
static void grant(struct world *world, const struct capability_signer *signer, const char *node,
                  const char *identity)
{
    struct capability capability = { .version = world->version, .issued_s = 5000, .ends_s = 5600 };
    (void)snprintf(capability.node, sizeof(capability.node), "%s", node);
    (void)snprintf(capability.identity, sizeof(capability.identity), "%s", identity);
    world->capability_size = capability_sign(signer, &capability, world->capability);
}

static struct world *open_world(void)
{
    struct world *world = calloc(1, sizeof(*world));
    cr_assert_not_null(world);
    (void)signal(SIGPIPE, SIG_IGN);
    world->dir = maker_directory();
    world->now_s = 5100;
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
    grant(world, world->signer, "a1", "");
    return world;
}

static void close_world(struct world *world)
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

/* What a pull came to. */
struct pulled {
    struct baton_status status;
    uint64_t bytes[BATON_HOLDERS_MAX];
    uint64_t resumed;
};

static struct puller *new_puller(struct world *world, const struct puller_peer *peers,
                                 uint32_t count)
{
    struct puller_options options = { .peers = peers,
                                      .peers_count = count,
                                      .version = world->version,
                                      .capability = { world->capability, world->capability_size },
                                      .tls = world->tls,
                                      .patience_ns = 2 * BATON_NS_PER_S,
                                      .told = on_poison,
                                      .context = world };
    return puller_create(&options);
}

/* Pulls into node 2 from peers of the list. */
static struct pulled pull(struct world *world, const struct puller_peer *peers, uint32_t count)
{
    struct pulled pulled = { .resumed = 0 };
    struct manifest *manifest = NULL;
    struct digest *table = NULL;
    struct landing_progress progress = { .bytes_done = 0 };
    struct landing_options options = { .workers = 4 };
    struct puller *puller = new_puller(world, peers, count);
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

static void expect_landed(struct world *world, unsigned node)
{
    cr_assert(landing_has(world->nodes[node].root, world->version));
    struct baton_status st = landing_verify(world->nodes[node].root, world->version, NULL);
    cr_assert(baton_ok(&st), "%s", st.message);
}

/* What one pulled, the next one pulls from it. */
Test(p2p, from_node_to_node)
{
    struct world *world = open_world();
    serve(&world->nodes[0], NULL);
    struct pulled pulled = pull(world, &world->nodes[0].peer, 1);
    cr_assert(baton_ok(&pulled.status), "%s", pulled.status.message);
    cr_assert_eq(pulled.bytes[0], world->manifest->tensors_bytes + world->manifest->files_bytes);
    expect_landed(world, 2);
    cr_assert_eq(p2p_server_counts(world->nodes[0].server).bytes, pulled.bytes[0]);
    cr_assert_eq(world->nodes[0].refused, 0);
    close_world(world);
}

/* Who is away is left for the next one, and who reads from the source that all share is asked last. */
Test(p2p, the_dead_are_left_and_sources_come_last)
{
    struct world *world = open_world();
    serve(&world->nodes[0], NULL);
    struct pulled first = pull(world, &world->nodes[0].peer, 1);
    cr_assert(baton_ok(&first.status), "%s", first.status.message);
    serve(&world->nodes[2], NULL);
    struct puller_peer peers[3] = { world->nodes[0].peer,
                                    { "gone", "127.0.0.1:1", false },
                                    world->nodes[2].peer };
    peers[0].last = true;
    struct landing_root *root = world->nodes[2].root;
    world->nodes[2].root = world->nodes[1].root; /* Into node 1 this time. */
    struct pulled second = pull(world, peers, 3);
    world->nodes[2].root = root;
    cr_assert(baton_ok(&second.status), "%s", second.status.message);
    cr_assert_eq(second.bytes[0], 0);
    cr_assert_gt(second.bytes[2], 0);
    expect_landed(world, 1);
    close_world(world);
}

static void expect_refused(struct world *world, const char *why)
{
    struct node *node = &world->nodes[0];
    unsigned before = node->refused;
    struct pulled pulled = pull(world, &node->peer, 1);
    cr_assert_eq(pulled.status.code, BATON_UNAVAILABLE, "%s", pulled.status.message);
    cr_assert_not_null(strstr(pulled.status.message, why), "%s", pulled.status.message);
    cr_assert_gt(node->refused, before);
    cr_assert_not_null(strstr(node->why, why), "%s", node->why);
    cr_assert_not(landing_has(world->nodes[2].root, world->version));
    cr_assert_eq(p2p_server_counts(node->server).chunks, 0);
}

/* Nothing of a version is given for a capability that is forged, old, early, of another version or another key. */
Test(p2p, capabilities_that_do_not_hold)
{
    struct world *world = open_world();
    struct capability_signer *stranger = capability_signer_create();
    serve(&world->nodes[0], NULL);
    world->capability[4 + CAPABILITY_KEY_ID_BYTES + 4] ^=
        1; /* The node's name, behind magic, key and length. */
    expect_refused(world, "forged");
    grant(world, stranger, "a1", "");
    expect_refused(world, "did not tell of");
    cr_assert_str_eq(world->nodes[0].whose, "a1");
    grant(world, world->signer, "a1", "");
    world->now_s = 5600 + CAPABILITY_SKEW_S + 1;
    expect_refused(world, "expired");
    world->now_s = 5000 - CAPABILITY_SKEW_S - 1;
    expect_refused(world, "begins in");
    world->now_s = 5100;
    struct digest version = world->version;
    world->version.bytes[3] ^= 1;
    grant(world, world->signer, "a1", "");
    world->version = version;
    expect_refused(world, "another version");
    world->capability_size = 20;
    expect_refused(world, "malformed");
    capability_signer_destroy(stranger);
    close_world(world);
}

static void make_certificates(struct world *world)
{
    pid_t pid = fork();
    if (pid == 0) {
        (void)execl(RPC_CERTS, RPC_CERTS, world->dir, (char *)NULL);
        _exit(127);
    }
    int code = 1;
    cr_assert_eq(waitpid(pid, &code, 0), pid);
    cr_assert_eq(code, 0);
}

static struct channel_tls *open_tls(const struct world *world, const char *name, bool is_server)
{
    char files[3][300];
    struct channel_tls *tls = NULL;
    (void)snprintf(files[0], sizeof(files[0]), "%s/ca.pem", world->dir);
    (void)snprintf(files[1], sizeof(files[1]), "%s/%s.pem", world->dir, name);
    (void)snprintf(files[2], sizeof(files[2]), "%s/%s.key", world->dir, name);
    struct channel_tls_files options = { files[0], files[1], files[2], is_server };
    struct baton_status st = channel_tls_create(&options, &tls);
    cr_assert(baton_ok(&st), "%s", st.message);
    return tls;
}

static void become(struct world *world, const char *name)
{
    channel_tls_destroy(world->tls);
    world->tls = open_tls(world, name, false);
}

/* Over mutual TLS a capability is of use to its own node only: one that was taken from it, or sent on by it, is not. */
Test(p2p, replayed_by_another_node)
{
    struct world *world = open_world();
    make_certificates(world);
    struct channel_tls *tls = open_tls(world, "server", true);
    serve(&world->nodes[0], tls);
    become(world, "named"); /* a2 */
    grant(world, world->signer, "a1", "spiffe://baton.test/agent/a1");
    expect_refused(world, "not of who shows it");
    grant(world, world->signer, "a1", ""); /* The controller saw no certificate: the name counts. */
    expect_refused(world, "not of who shows it");
    become(world, "bare"); /* Without any name. */
    expect_refused(world, "not of who shows it");
    become(world, "client"); /* a1 */
    struct pulled pulled = pull(world, &world->nodes[0].peer, 1);
    cr_assert(baton_ok(&pulled.status), "%s", pulled.status.message);
    expect_landed(world, 2);
    p2p_server_destroy(world->nodes[0].server);
    world->nodes[0].server = NULL;
    channel_tls_destroy(tls);
    close_world(world);
}

/* Who has no certificate of the authority, or speaks plain, is not heard; nor is a server of another authority. */
Test(p2p, strangers_over_tls)
{
    struct world *world = open_world();
    make_certificates(world);
    struct channel_tls *tls = open_tls(world, "server", true);
    struct channel_tls *impostor = open_tls(world, "impostor", true);
    serve(&world->nodes[0], tls);
    serve(&world->nodes[1], impostor);
    struct pulled plain = pull(world, &world->nodes[0].peer, 1);
    cr_assert_eq(plain.status.code, BATON_UNAVAILABLE, "%s", plain.status.message);
    become(world, "impostor");
    struct pulled stranger = pull(world, &world->nodes[0].peer, 1);
    cr_assert_eq(stranger.status.code, BATON_UNAVAILABLE, "%s", stranger.status.message);
    cr_assert_eq(world->nodes[0].refused, 0, "it never came so far as to be refused");
    become(world, "client");
    struct pulled fooled = pull(world, &world->nodes[1].peer, 1);
    cr_assert_eq(fooled.status.code, BATON_UNAVAILABLE, "%s", fooled.status.message);
    cr_assert_not_null(strstr(fooled.status.message, "certificate"), "%s", fooled.status.message);
    for (unsigned i = 0; i < 2; i++) {
        p2p_server_destroy(world->nodes[i].server);
        world->nodes[i].server = NULL;
    }
    channel_tls_destroy(tls);
    channel_tls_destroy(impostor);
    close_world(world);
}

/* Changes one byte of the largest tensor behind the server's back. */
static void poison(struct world *world, unsigned node)
{
    char path[BATON_PATH_BYTES];
    landing_path(world->nodes[node].root, world->version, path);
    maker_damage(path, world->manifest->tensors[0].file, 100000);
}

/* A wrong chunk costs that chunk: it comes from elsewhere, and who gave it is named and asked for nothing more. */
Test(p2p, poison_is_attributed_and_never_taken)
{
    struct world *world = open_world();
    serve(&world->nodes[0], NULL);
    struct pulled first = pull(world, &world->nodes[0].peer, 1);
    cr_assert(baton_ok(&first.status), "%s", first.status.message);
    serve(&world->nodes[2], NULL);
    poison(world, 2);
    struct landing_root *root = world->nodes[2].root;
    world->nodes[2].root = world->nodes[1].root;
    struct pulled alone = pull(world, &world->nodes[2].peer, 1);
    cr_assert_eq(alone.status.code, BATON_UNAVAILABLE, "%s", alone.status.message);
    cr_assert_not_null(strstr(alone.status.message, "not what their digest"), "%s",
                       alone.status.message);
    cr_assert_not(landing_has(world->nodes[1].root, world->version));
    cr_assert_eq(world->told, 1);
    struct puller_peer peers[2] = { world->nodes[2].peer, world->nodes[0].peer };
    peers[1].last = true; /* Not before the other one failed. */
    struct pulled both = pull(world, peers, 2);
    world->nodes[2].root = root;
    cr_assert(baton_ok(&both.status), "%s", both.status.message);
    cr_assert_gt(both.bytes[1], 0);
    cr_assert_eq(world->told, 2);
    cr_assert_str_eq(world->poisons[1].peer->agent, "n2");
    expect_landed(world, 1);
    close_world(world);
}

/* A supplier that gives the first chunks of node 0 and then waits. */
struct slow {
    struct holding *holding;
    _Atomic unsigned given;
    _Atomic bool go;
};

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

static void *land_slowly(void *argument)
{
    struct world *world = argument;
    struct slow *slow = (struct slow *)(void *)world->poisons[0].peer;
    struct landing_supplier supplier = { slow, slow_open, slow_close, slow_read, slow_reject };
    struct landing_options options = { .workers = 1 };
    uint64_t count = 0;
    struct baton_status st =
        landing_pull(world->nodes[1].root, world->manifest, holding_table(slow->holding, &count),
                     &supplier, &options, NULL);
    cr_assert(baton_ok(&st), "%s", st.message);
    return NULL;
}

/* What has arrived is passed on while the rest is still on its way; what has not is waited for. */
Test(p2p, passed_on_while_it_arrives)
{
    struct world *world = open_world();
    struct slow slow = { .given = 0 };
    pthread_t thread;
    struct baton_status st = holding_open(world->nodes[0].root, world->version, &slow.holding);
    cr_assert(baton_ok(&st), "%s", st.message);
    world->poisons[0].peer = (const struct puller_peer *)(const void *)&slow;
    cr_assert_eq(pthread_create(&thread, NULL, land_slowly, world), 0);
    serve(&world->nodes[1], NULL);
    struct puller *puller = new_puller(world, &world->nodes[1].peer, 1);
    struct landing_supplier supplier = puller_supplier(puller);
    struct manifest *manifest = NULL;
    struct digest *table = NULL;
    void *reader = NULL;
    uint8_t *chunk = malloc(BATON_CHUNK_BYTES);
    st = puller_fetch(puller, &manifest, &table);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = supplier.open(supplier.context, 0, &reader);
    cr_assert(baton_ok(&st));
    size_t size = manifest->tensors[0].bytes < BATON_CHUNK_BYTES
                      ? (size_t)manifest->tensors[0].bytes
                      : BATON_CHUNK_BYTES;
    st = supplier.read(reader, 0, chunk, size);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert(digest_equal(digest_of((struct baton_bytes){ chunk, size }), table[0]));
    cr_assert_not(landing_has(world->nodes[1].root, world->version), "only a part is there");
    st = supplier.read(reader, 1, chunk, BATON_CHUNK_BYTES);
    cr_assert_eq(st.code, BATON_UNAVAILABLE, "it cannot be there: %s", st.message);
    slow.go = true;
    cr_assert_eq(pthread_join(thread, NULL), 0);
    supplier.close(reader);
    puller_destroy(puller);
    holding_close(slow.holding);
    struct pulled pulled = pull(world, &world->nodes[1].peer, 1);
    cr_assert(baton_ok(&pulled.status), "%s", pulled.status.message);
    expect_landed(world, 2);
    free(table);
    free(chunk);
    manifest_destroy(manifest);
    close_world(world);
}

/* What came before the last peer was lost is not asked for again. */
Test(p2p, goes_on_where_it_was)
{
    struct world *world = open_world();
    struct slow slow = { .given = 0 };
    pthread_t thread;
    struct baton_status st = holding_open(world->nodes[0].root, world->version, &slow.holding);
    cr_assert(baton_ok(&st), "%s", st.message);
    world->poisons[0].peer = (const struct puller_peer *)(const void *)&slow;
    cr_assert_eq(pthread_create(&thread, NULL, land_slowly, world), 0);
    serve(&world->nodes[1], NULL);
    struct pulled stuck = pull(world, &world->nodes[1].peer, 1);
    cr_assert_eq(stuck.status.code, BATON_UNAVAILABLE, "%s", stuck.status.message);
    serve(&world->nodes[0], NULL);
    struct pulled rest = pull(world, &world->nodes[0].peer, 1);
    cr_assert(baton_ok(&rest.status), "%s", rest.status.message);
    cr_assert_gt(rest.resumed, 0);
    cr_assert_eq(rest.resumed + rest.bytes[0],
                 world->manifest->tensors_bytes + world->manifest->files_bytes);
    expect_landed(world, 2);
    slow.go = true;
    cr_assert_eq(pthread_join(thread, NULL), 0);
    holding_close(slow.holding);
    close_world(world);
}

/* A version that is removed is no longer served, also to who is connected. */
Test(p2p, removed_while_it_is_served)
{
    struct world *world = open_world();
    struct holding *holding = NULL;
    struct holding_piece piece;
    struct baton_status st = holding_open(world->nodes[0].root, world->version, &holding);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = holding_find(holding, 0, 0, &piece);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = holding_find(holding, UINT64_MAX / 2, 0, &piece);
    cr_assert_eq(st.code, BATON_OUT_OF_RANGE);
    st = landing_remove(world->nodes[0].root, world->version);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = holding_find(holding, 0, UINT64_MAX, &piece);
    cr_assert_eq(st.code, BATON_NOT_FOUND);
    holding_close(holding);
    st = holding_open(world->nodes[0].root, world->version, &holding);
    cr_assert_eq(st.code, BATON_NOT_FOUND);
    close_world(world);
}

/* Frames come back as they were; those of nobody are refused. */
Test(p2p, frames)
{
    uint8_t bytes[FRAME_BYTES];
    struct frame_request request = { FRAME_CHUNK, 700, 123456789012345 };
    struct frame_request got;
    struct frame_answer answer;
    frame_write_request(&request, bytes);
    struct baton_status st = frame_read_request(bytes, &got);
    cr_assert(baton_ok(&st) && got.verb == request.verb && got.wait_ms == 700 &&
              got.number == request.number);
    st = frame_read_answer(bytes, &answer);
    cr_assert_eq(st.reason, BATON_REASON_MALFORMED);
    frame_write_request(&(struct frame_request){ FRAME_HELLO, 0, 5000 }, bytes);
    st = frame_read_request(bytes, &got);
    cr_assert_eq(st.reason, BATON_REASON_MALFORMED);
    frame_write_answer(&(struct frame_answer){ FRAME_REFUSED, FRAME_TEXT_MAX + 1, 0 }, bytes);
    st = frame_read_answer(bytes, &answer);
    cr_assert_eq(st.reason, BATON_REASON_MALFORMED);
}

/* Who connects and says nothing takes a bounded part of the places, for as long as it may say nothing. */
Test(p2p, silent_connections_are_bounded)
{
    struct world *world = open_world();
    struct channel *channels[P2P_STRANGERS_PER_HOST_MAX + 8];
    size_t count = sizeof(channels) / sizeof(channels[0]);
    serve(&world->nodes[0], NULL);
    uint64_t deadline_ns = baton_clock_monotonic_ns() + 20 * BATON_NS_PER_S;
    for (size_t i = 0; i < count; i++) {
        struct baton_status st =
            channel_dial(world->nodes[0].peer.address, NULL, deadline_ns, &channels[i]);
        cr_assert(baton_ok(&st), "%s", st.message);
    }
    uint8_t byte = 0; /* The last one is ended at once. */
    struct baton_status st = channel_read(channels[count - 1], &byte, 1,
                                          baton_clock_monotonic_ns() + 5 * BATON_NS_PER_S);
    cr_assert_eq(st.code, BATON_UNAVAILABLE, "%s", st.message);
    cr_assert_eq(p2p_server_counts(world->nodes[0].server).connections, P2P_STRANGERS_PER_HOST_MAX);
    for (size_t i = 0; i < count; i++) {
        channel_close(channels[i]);
    }
    close_world(world);
}

/* One node does not take all connections; what is no request ends its connection, and nothing else. */
Test(p2p, too_many_and_nonsense)
{
    struct world *world = open_world();
    struct channel *channels[P2P_CONNECTIONS_PER_NODE_MAX + 1];
    struct frame_answer answer;
    uint8_t hello[FRAME_BYTES + BATON_DIGEST_BYTES + CAPABILITY_BYTES_MAX];
    size_t size = FRAME_BYTES + BATON_DIGEST_BYTES + world->capability_size;
    serve(&world->nodes[0], NULL);
    frame_write_request(&(struct frame_request){ FRAME_HELLO, 0, size - FRAME_BYTES }, hello);
    memcpy(hello + FRAME_BYTES, world->version.bytes, BATON_DIGEST_BYTES);
    memcpy(hello + FRAME_BYTES + BATON_DIGEST_BYTES, world->capability, world->capability_size);
    for (unsigned i = 0; i <= P2P_CONNECTIONS_PER_NODE_MAX; i++) {
        uint8_t head[FRAME_BYTES];
        uint64_t deadline_ns = baton_clock_monotonic_ns() + 20 * BATON_NS_PER_S;
        struct baton_status st =
            channel_dial(world->nodes[0].peer.address, NULL, deadline_ns, &channels[i]);
        cr_assert(baton_ok(&st), "%s", st.message);
        st = channel_write(channels[i], (struct baton_bytes){ hello, size }, deadline_ns);
        cr_assert(baton_ok(&st), "%s", st.message);
        st = channel_read(channels[i], head, sizeof(head), deadline_ns);
        cr_assert(baton_ok(&st), "%s", st.message);
        st = frame_read_answer(head, &answer);
        cr_assert(baton_ok(&st), "%s", st.message);
        cr_assert_eq(answer.code, i < P2P_CONNECTIONS_PER_NODE_MAX ? FRAME_OK : FRAME_BUSY);
    }
    uint64_t deadline_ns = baton_clock_monotonic_ns() + 20 * BATON_NS_PER_S;
    uint8_t end[FRAME_BYTES];
    memset(end, 'x', sizeof(end));
    struct baton_status st =
        channel_write(channels[0], (struct baton_bytes){ end, sizeof(end) }, deadline_ns);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = channel_read(channels[0], end, sizeof(end), deadline_ns);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = frame_read_answer(end, &answer);
    cr_assert(baton_ok(&st) && answer.code == FRAME_BAD);
    for (unsigned i = 0; i <= P2P_CONNECTIONS_PER_NODE_MAX; i++) {
        channel_close(channels[i]);
    }
    close_world(world);
}
