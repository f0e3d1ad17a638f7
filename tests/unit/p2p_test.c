/* p2p_test.c -- versions from node to node: who is refused, who is left, what is passed on, what is never taken. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "tests/unit/checkpoint_maker.h"
#include "tests/unit/p2p_world.h"
#include "transport/p2p/frame.h"

/* What one pulled, the next one pulls from it. */
Test(p2p, from_node_to_node)
{
    struct world *world = world_open();
    world_serve(&world->nodes[0], NULL);
    struct pulled pulled = world_pull(world, &world->nodes[0].peer, 1);
    cr_assert(baton_ok(&pulled.status), "%s", pulled.status.message);
    cr_assert_eq(pulled.bytes[0], world->manifest->tensors_bytes + world->manifest->files_bytes);
    world_expect_landed(world, 2);
    cr_assert_eq(p2p_server_counts(world->nodes[0].server).bytes, pulled.bytes[0]);
    cr_assert_eq(world->nodes[0].refused, 0);
    world_close(world);
}

/* Who is away is left for the next one, and who reads from the source that all share is asked last. */
Test(p2p, the_dead_are_left_and_sources_come_last)
{
    struct world *world = world_open();
    world_serve(&world->nodes[0], NULL);
    struct pulled first = world_pull(world, &world->nodes[0].peer, 1);
    cr_assert(baton_ok(&first.status), "%s", first.status.message);
    world_serve(&world->nodes[2], NULL);
    struct puller_peer peers[3] = { world->nodes[0].peer,
                                    { "gone", "127.0.0.1:1", false },
                                    world->nodes[2].peer };
    peers[0].last = true;
    struct landing_root *root = world->nodes[2].root;
    world->nodes[2].root = world->nodes[1].root; /* Into node 1 this time. */
    struct pulled second = world_pull(world, peers, 3);
    world->nodes[2].root = root;
    cr_assert(baton_ok(&second.status), "%s", second.status.message);
    cr_assert_eq(second.bytes[0], 0);
    cr_assert_gt(second.bytes[2], 0);
    world_expect_landed(world, 1);
    world_close(world);
}

static void expect_refused(struct world *world, const char *why)
{
    struct node *node = &world->nodes[0];
    unsigned before = node->refused;
    struct pulled pulled = world_pull(world, &node->peer, 1);
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
    struct world *world = world_open();
    struct capability_signer *stranger = capability_signer_create();
    world_serve(&world->nodes[0], NULL);
    world->capability[4 + CAPABILITY_KEY_ID_BYTES + 4] ^=
        1; /* The node's name, behind magic, key and length. */
    expect_refused(world, "forged");
    world_grant(world, stranger, "a1", "");
    expect_refused(world, "did not tell of");
    cr_assert_str_eq(world->nodes[0].whose, "a1");
    world_grant(world, world->signer, "a1", "");
    world->now_s = 5600 + CAPABILITY_SKEW_S + 1;
    expect_refused(world, "expired");
    world->now_s = 5000 - CAPABILITY_SKEW_S - 1;
    expect_refused(world, "begins in");
    world->now_s = 5100;
    struct digest version = world->version;
    world->version.bytes[3] ^= 1;
    world_grant(world, world->signer, "a1", "");
    world->version = version;
    expect_refused(world, "another version");
    world->capability_size = 20;
    expect_refused(world, "malformed");
    capability_signer_destroy(stranger);
    world_close(world);
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
    struct world *world = world_open();
    make_certificates(world);
    struct channel_tls *tls = open_tls(world, "server", true);
    world_serve(&world->nodes[0], tls);
    become(world, "named"); /* a2 */
    world_grant(world, world->signer, "a1", "spiffe://baton.test/agent/a1");
    expect_refused(world, "not of who shows it");
    world_grant(world, world->signer, "a1",
                ""); /* The controller saw no certificate: the name counts. */
    expect_refused(world, "not of who shows it");
    become(world, "bare"); /* Without any name. */
    expect_refused(world, "not of who shows it");
    become(world, "client"); /* a1 */
    struct pulled pulled = world_pull(world, &world->nodes[0].peer, 1);
    cr_assert(baton_ok(&pulled.status), "%s", pulled.status.message);
    world_expect_landed(world, 2);
    p2p_server_destroy(world->nodes[0].server);
    world->nodes[0].server = NULL;
    channel_tls_destroy(tls);
    world_close(world);
}

/* Who has no certificate of the authority, or speaks plain, is not heard; nor is a server of another authority. */
Test(p2p, strangers_over_tls)
{
    struct world *world = world_open();
    make_certificates(world);
    struct channel_tls *tls = open_tls(world, "server", true);
    struct channel_tls *impostor = open_tls(world, "impostor", true);
    world_serve(&world->nodes[0], tls);
    world_serve(&world->nodes[1], impostor);
    struct pulled plain = world_pull(world, &world->nodes[0].peer, 1);
    cr_assert_eq(plain.status.code, BATON_UNAVAILABLE, "%s", plain.status.message);
    become(world, "impostor");
    struct pulled stranger = world_pull(world, &world->nodes[0].peer, 1);
    cr_assert_eq(stranger.status.code, BATON_UNAVAILABLE, "%s", stranger.status.message);
    cr_assert_eq(world->nodes[0].refused, 0, "it never came so far as to be refused");
    become(world, "client");
    struct pulled fooled = world_pull(world, &world->nodes[1].peer, 1);
    cr_assert_eq(fooled.status.code, BATON_UNAVAILABLE, "%s", fooled.status.message);
    cr_assert_not_null(strstr(fooled.status.message, "certificate"), "%s", fooled.status.message);
    for (unsigned i = 0; i < 2; i++) {
        p2p_server_destroy(world->nodes[i].server);
        world->nodes[i].server = NULL;
    }
    channel_tls_destroy(tls);
    channel_tls_destroy(impostor);
    world_close(world);
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
    struct world *world = world_open();
    world_serve(&world->nodes[0], NULL);
    struct pulled first = world_pull(world, &world->nodes[0].peer, 1);
    cr_assert(baton_ok(&first.status), "%s", first.status.message);
    world_serve(&world->nodes[2], NULL);
    poison(world, 2);
    struct landing_root *root = world->nodes[2].root;
    world->nodes[2].root = world->nodes[1].root;
    struct pulled alone = world_pull(world, &world->nodes[2].peer, 1);
    cr_assert_eq(alone.status.code, BATON_UNAVAILABLE, "%s", alone.status.message);
    cr_assert_not_null(strstr(alone.status.message, "not what their digest"), "%s",
                       alone.status.message);
    cr_assert_not(landing_has(world->nodes[1].root, world->version));
    cr_assert_eq(world->told, 1);
    struct puller_peer peers[2] = { world->nodes[2].peer, world->nodes[0].peer };
    peers[1].last = true; /* Not before the other one failed. */
    struct pulled both = world_pull(world, peers, 2);
    world->nodes[2].root = root;
    cr_assert(baton_ok(&both.status), "%s", both.status.message);
    cr_assert_gt(both.bytes[1], 0);
    cr_assert_eq(world->told, 2);
    cr_assert_str_eq(world->poisons[1].peer->agent, "n2");
    world_expect_landed(world, 1);
    world_close(world);
}

/* A version that is removed is no longer served, also to who is connected. */
Test(p2p, removed_while_it_is_served)
{
    struct world *world = world_open();
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
    world_close(world);
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
    struct world *world = world_open();
    struct channel *channels[P2P_STRANGERS_PER_HOST_MAX + 8];
    size_t count = sizeof(channels) / sizeof(channels[0]);
    world_serve(&world->nodes[0], NULL);
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
    world_close(world);
}

/* One node does not take all connections; what is no request ends its connection, and nothing else. */
Test(p2p, too_many_and_nonsense)
{
    struct world *world = world_open();
    struct channel *channels[P2P_CONNECTIONS_PER_NODE_MAX + 1];
    struct frame_answer answer;
    uint8_t hello[FRAME_BYTES + BATON_DIGEST_BYTES + CAPABILITY_BYTES_MAX];
    size_t size = FRAME_BYTES + BATON_DIGEST_BYTES + world->capability_size;
    world_serve(&world->nodes[0], NULL);
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
    world_close(world);
}
