/* p2p_chunks_test.c -- in which order chunks are asked for, what is passed on meanwhile, and what is not asked for twice. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/p2p_world.h"
#include "transport/p2p/frame.h"

static void *go_later(void *argument)
{
    struct slow *slow = argument;
    (void)usleep(1500000); /* Longer than a server waits for a chunk. */
    slow->go = true;
    return NULL;
}

static size_t size_of_chunk(const struct manifest *manifest, uint64_t chunk)
{
    for (size_t i = 0;; i++) {
        uint64_t bytes = manifest->tensors[i].bytes;
        uint64_t count = digest_chunks_count(bytes);
        if (chunk + 1 < count) {
            return BATON_CHUNK_BYTES;
        }
        if (chunk + 1 == count) {
            return (size_t)(bytes - chunk * BATON_CHUNK_BYTES);
        }
        chunk -= count;
    }
}

static void expect_chunk(const struct world *world, const struct landing_supplier *supplier,
                         void *reader, uint64_t chunk, struct digest digest)
{
    uint8_t *data = malloc(BATON_CHUNK_BYTES);
    size_t size = size_of_chunk(world->manifest, chunk);
    struct baton_status st = supplier->read(reader, chunk, data, size);
    cr_assert(baton_ok(&st), "chunk %llu: %s", (unsigned long long)chunk, st.message);
    cr_assert(digest_equal(digest_of((struct baton_bytes){ data, size }), digest),
              "chunk %llu is another one", (unsigned long long)chunk);
    free(data);
}

/* What has arrived is passed on while the rest is still on its way; what has not is waited for. */
Test(p2p, passed_on_while_it_arrives)
{
    struct world *world = world_open();
    struct slow slow = { .given = 0 };
    pthread_t thread;
    struct baton_status st = holding_open(world->nodes[0].root, world->version, &slow.holding);
    cr_assert(baton_ok(&st), "%s", st.message);
    world->poisons[0].peer = (const struct puller_peer *)(const void *)&slow;
    cr_assert_eq(pthread_create(&thread, NULL, world_land_slowly, world), 0);
    world_serve(&world->nodes[1], NULL);
    struct puller *puller = world_puller(world, &world->nodes[1].peer, 1);
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
    struct pulled pulled = world_pull(world, &world->nodes[1].peer, 1);
    cr_assert(baton_ok(&pulled.status), "%s", pulled.status.message);
    world_expect_landed(world, 2);
    free(table);
    free(chunk);
    manifest_destroy(manifest);
    world_close(world);
}

/* Chunk 0, asked for ahead, arrives while chunk 1 is still to come; then 2 is asked for ahead, and 3 is read. */
Test(p2p, asked_ahead_and_read_in_another_order)
{
    struct world *world = world_open();
    struct slow slow = { .given = 0 };
    struct manifest *manifest = NULL;
    struct digest *table = NULL;
    void *reader = NULL;
    pthread_t threads[2];
    world->patience_s = 60;
    struct baton_status st = holding_open(world->nodes[0].root, world->version, &slow.holding);
    cr_assert(baton_ok(&st), "%s", st.message);
    world->poisons[0].peer = (const struct puller_peer *)(const void *)&slow;
    cr_assert_eq(pthread_create(&threads[0], NULL, world_land_slowly, world), 0);
    world_serve(&world->nodes[1], NULL);
    struct puller *puller = world_puller(world, &world->nodes[1].peer, 1);
    struct landing_supplier supplier = puller_supplier(puller);
    st = puller_fetch(puller, &manifest, &table);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = supplier.open(supplier.context, 0, &reader);
    cr_assert(baton_ok(&st));
    cr_assert_eq(pthread_create(&threads[1], NULL, go_later, &slow), 0);
    supplier.expect(reader, 0);
    expect_chunk(world, &supplier, reader, 1, table[1]);
    supplier.expect(reader, 2);
    expect_chunk(world, &supplier, reader, 0, table[0]);
    expect_chunk(world, &supplier, reader, 3, table[3]);
    expect_chunk(world, &supplier, reader, 2, table[2]);
    cr_assert_eq(pthread_join(threads[0], NULL) + pthread_join(threads[1], NULL), 0);
    supplier.close(reader);
    puller_destroy(puller);
    holding_close(slow.holding);
    free(table);
    manifest_destroy(manifest);
    world_close(world);
}

/* A peer that answers no request for a chunk before it has read the next one. */
struct hoarder {
    struct world *world;
    struct holding *holding;
    int listen_fd;
};

static void read_exactly(int fd, void *out, size_t size)
{
    cr_assert_eq(recv(fd, out, size, MSG_WAITALL), (ssize_t)size, "the puller sent no more");
}

static void answer_ok(int fd, uint64_t number)
{
    uint8_t head[FRAME_BYTES];
    struct frame_answer answer = { FRAME_OK, 0, number };
    frame_write_answer(&answer, head);
    cr_assert_eq(send(fd, head, sizeof(head), MSG_NOSIGNAL), (ssize_t)sizeof(head));
}

static void give_chunk(const struct hoarder *hoarder, int fd, const uint8_t head[FRAME_BYTES])
{
    struct frame_request request;
    struct holding_piece piece;
    struct baton_status st = frame_read_request(head, &request);
    cr_assert(baton_ok(&st) && request.verb == FRAME_CHUNK, "%s", st.message);
    st = holding_find(hoarder->holding, request.number, 0, &piece);
    cr_assert(baton_ok(&st), "%s", st.message);
    answer_ok(fd, piece.size);
    off_t at = (off_t)piece.offset;
    for (size_t left = piece.size; left > 0;) {
        ssize_t sent = sendfile(fd, piece.fd, &at, left);
        cr_assert_gt(sent, 0);
        left -= (size_t)sent;
    }
}

static void *hoard(void *argument)
{
    struct hoarder *hoarder = argument;
    uint8_t hello[FRAME_BYTES + BATON_DIGEST_BYTES + CAPABILITY_BYTES_MAX];
    uint8_t heads[2][FRAME_BYTES];
    int fd = accept4(hoarder->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    cr_assert_geq(fd, 0);
    read_exactly(fd, hello, FRAME_BYTES + BATON_DIGEST_BYTES + hoarder->world->capability_size);
    answer_ok(fd, FRAME_WHOLE);
    read_exactly(fd, heads, sizeof(heads));
    give_chunk(hoarder, fd, heads[0]);
    give_chunk(hoarder, fd, heads[1]);
    close(fd);
    return NULL;
}

/* While a chunk is on its way the next one is asked for: who is far away is not waited for between any two. */
Test(p2p, the_next_chunk_is_asked_for_ahead)
{
    struct world *world = world_open();
    struct hoarder hoarder = { .world = world };
    struct puller_peer peer = { "hoarder", "", false };
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(address);
    pthread_t thread;
    void *reader = NULL;
    uint64_t count = 0;
    struct baton_status st = holding_open(world->nodes[0].root, world->version, &hoarder.holding);
    cr_assert(baton_ok(&st), "%s", st.message);
    hoarder.listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(hoarder.listen_fd, (struct sockaddr *)&address, size), 0);
    cr_assert_eq(listen(hoarder.listen_fd, 1), 0);
    cr_assert_eq(getsockname(hoarder.listen_fd, (struct sockaddr *)&address, &size), 0);
    (void)snprintf(peer.address, sizeof(peer.address), "127.0.0.1:%u",
                   (unsigned)ntohs(address.sin_port));
    cr_assert_eq(pthread_create(&thread, NULL, hoard, &hoarder), 0);
    world->patience_s = 60;
    struct puller *puller = world_puller(world, &peer, 1);
    struct landing_supplier supplier = puller_supplier(puller);
    st = supplier.open(supplier.context, 0, &reader);
    cr_assert(baton_ok(&st));
    const struct digest *table = holding_table(hoarder.holding, &count);
    supplier.expect(reader, 1);
    expect_chunk(world, &supplier, reader, 0, table[0]);
    expect_chunk(world, &supplier, reader, 1, table[1]);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    supplier.close(reader);
    puller_destroy(puller);
    close(hoarder.listen_fd);
    holding_close(hoarder.holding);
    world_close(world);
}

/* What came before the last peer was lost is not asked for again. */
Test(p2p, goes_on_where_it_was)
{
    struct world *world = world_open();
    struct slow slow = { .given = 0 };
    pthread_t thread;
    struct baton_status st = holding_open(world->nodes[0].root, world->version, &slow.holding);
    cr_assert(baton_ok(&st), "%s", st.message);
    world->poisons[0].peer = (const struct puller_peer *)(const void *)&slow;
    cr_assert_eq(pthread_create(&thread, NULL, world_land_slowly, world), 0);
    world_serve(&world->nodes[1], NULL);
    struct pulled stuck = world_pull(world, &world->nodes[1].peer, 1);
    cr_assert_eq(stuck.status.code, BATON_UNAVAILABLE, "%s", stuck.status.message);
    world_serve(&world->nodes[0], NULL);
    struct pulled rest = world_pull(world, &world->nodes[0].peer, 1);
    cr_assert(baton_ok(&rest.status), "%s", rest.status.message);
    cr_assert_gt(rest.resumed, 0);
    cr_assert_eq(rest.resumed + rest.bytes[0],
                 world->manifest->tensors_bytes + world->manifest->files_bytes);
    world_expect_landed(world, 2);
    slow.go = true;
    cr_assert_eq(pthread_join(thread, NULL), 0);
    holding_close(slow.holding);
    world_close(world);
}
