/* rpc_connections_test.c -- not too many connections of one address; see api/rpc/connections.h. */
#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "tests/unit/rpc_fixture.h"

enum { MAX = 3 };

static atomic_uint refused_count;
static atomic_uint other_count; /* Refusals that are told in another way than these. */

static void note_refused(const struct rpc_refused *refused, void *context)
{
    (void)context;
    bool is_right =
        refused->is_limit && strncmp(refused->address, "ipv4:127.0.0.1:", 15) == 0 &&
        refused->name[0] == '\0' &&
        strcmp(refused->why, "its address has 3 connections here, as many as one may have") == 0;
    atomic_fetch_add(is_right ? &refused_count : &other_count, 1);
}

static void start(struct rpc_fixture *fixture)
{
    rpc_fixture_start_with(fixture,
                           (struct rpc_server_options){ .connections_per_address_max = MAX,
                                                        .on_refused = note_refused },
                           (struct rpc_client_options){ .target = NULL });
}

static int connect_from(const struct rpc_fixture *fixture, const char *host)
{
    struct sockaddr_in from = { .sin_family = AF_INET };
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(rpc_server_port(fixture->server, 0)),
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    cr_assert_eq(inet_pton(AF_INET, host, &from.sin_addr), 1);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_geq(fd, 0);
    cr_assert_eq(bind(fd, (const struct sockaddr *)&from, sizeof(from)), 0);
    cr_assert_eq(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* A server of HTTP/2 speaks first: whoever hears a byte was let in, the others hear the end. */
static bool is_let_in(int fd)
{
    char byte = 0;
    return read(fd, &byte, 1) == 1;
}

static bool is_seen(void)
{
    if (!rpc_sees_connections()) {
        cr_skip_test("this version of gRPC shows no connections: api/rpc/connections.h");
    }
    return true;
}

/* As many as may be, not one more, whatever another address has; and one again for each that ends. */
Test(rpc_connections, one_address_has_so_many)
{
    struct rpc_fixture fixture;
    int fds[MAX];
    cr_assert(is_seen());
    start(&fixture);
    for (int i = 0; i < MAX; i++) {
        fds[i] = connect_from(&fixture, "127.0.0.1");
        cr_assert(is_let_in(fds[i]), "number %d", i);
    }
    for (unsigned i = 1; i <= MAX; i++) {
        int more = connect_from(&fixture, "127.0.0.1");
        cr_assert_not(is_let_in(more));
        (void)close(more);
        cr_assert_eq(atomic_load(&refused_count), i);
    }
    int other = connect_from(&fixture, "127.0.0.2");
    cr_assert(is_let_in(other));
    (void)close(other);
    (void)close(fds[0]);
    uint64_t end = baton_clock_monotonic_ns() + 60 * BATON_NS_PER_S;
    bool is_in = false;
    while (!is_in &&
           baton_clock_monotonic_ns() < end) { /* The core finds that end after a moment. */
        int again = connect_from(&fixture, "127.0.0.1");
        is_in = is_let_in(again);
        (void)close(again);
    }
    cr_assert(is_in);
    cr_assert_eq(atomic_load(&other_count), 0);
    for (int i = 1; i < MAX; i++) {
        (void)close(fds[i]);
    }
    rpc_fixture_stop(&fixture);
}

/* A client whose address is full hears UNAVAILABLE, as of any server that ends a connection, and comes through later. */
Test(rpc_connections, a_client_comes_through_when_there_is_room)
{
    struct rpc_fixture fixture;
    int fds[MAX];
    struct rpc_call_options options = { .timeout_ns = 20 * BATON_NS_PER_S };
    cr_assert(is_seen());
    start(&fixture);
    for (int i = 0; i < MAX; i++) {
        fds[i] = connect_from(&fixture, "127.0.0.1");
        cr_assert(is_let_in(fds[i]), "number %d", i);
    }
    struct rpc_result result = rpc_fixture_get(&fixture, "m", &options);
    cr_assert_eq(result.status.code, BATON_UNAVAILABLE, "%s", result.status.message);
    baton_wire_free(result.message);
    cr_assert_geq(atomic_load(&refused_count), 1);
    for (int i = 0; i < MAX; i++) {
        (void)close(fds[i]);
    }
    uint64_t end = baton_clock_monotonic_ns() + 60 * BATON_NS_PER_S;
    do {
        result = rpc_fixture_get(&fixture, "m", &options);
        baton_wire_free(result.message);
    } while (!baton_ok(&result.status) && baton_clock_monotonic_ns() < end);
    cr_assert(baton_ok(&result.status), "%s", result.status.message);
    rpc_fixture_stop(&fixture);
}
