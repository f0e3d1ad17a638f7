/* rpc_tls_test.c -- TLS both ways, identities, certificates that change; see api/rpc/rpc.h. */
#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "baton/v1/models.pb-c.h"
#include "tests/unit/rpc_fixture.h"

enum { PATH = 96 };

extern char **environ;

/* A folder of certificates and the TLS options of both sides. */
struct rig {
    char folder[32];
    char ca[PATH];
    char server_cert[PATH];
    char server_key[PATH];
    char client_cert[PATH];
    char client_key[PATH];
    char stranger[PATH];
    struct rpc_tls server;
    struct rpc_tls client;
    struct rpc_listener listener;
    struct rpc_fixture fixture;
};

static void run(char *const *words)
{
    pid_t child;
    cr_assert_eq(posix_spawnp(&child, words[0], NULL, NULL, words, environ), 0);
    int status = -1;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0, "%s failed", words[0]);
}

static void path_of(const struct rig *rig, const char *name, char out[PATH])
{
    (void)snprintf(out, PATH, "%s/%s", rig->folder, name);
}

static void rig_init(struct rig *rig)
{
    *rig = (struct rig){ .folder = "/tmp/baton-tls-XXXXXX" };
    cr_assert_not_null(mkdtemp(rig->folder));
    char *words[] = { RPC_CERTS, rig->folder, NULL };
    run(words);
    path_of(rig, "ca.pem", rig->ca);
    path_of(rig, "server.pem", rig->server_cert);
    path_of(rig, "server.key", rig->server_key);
    path_of(rig, "client.pem", rig->client_cert);
    path_of(rig, "client.key", rig->client_key);
    path_of(rig, "stranger.pem", rig->stranger);
    rig->server = (struct rpc_tls){ .cert_file = rig->server_cert,
                                    .key_file = rig->server_key,
                                    .ca_file = rig->ca,
                                    .require_client = true };
    rig->client = (struct rpc_tls){ .cert_file = rig->client_cert,
                                    .key_file = rig->client_key,
                                    .ca_file = rig->ca };
    rig->listener = (struct rpc_listener){ .address = "127.0.0.1:0", .tls = &rig->server };
}

static void rig_start(struct rig *rig)
{
    rpc_fixture_start_with(
        &rig->fixture,
        (struct rpc_server_options){ .listeners = &rig->listener, .listeners_count = 1 },
        (struct rpc_client_options){ .tls = &rig->client });
}

static void rig_remove(struct rig *rig)
{
    char *words[] = { "rm", "-rf", rig->folder, NULL };
    run(words);
}

static void rig_stop(struct rig *rig)
{
    rpc_fixture_stop(&rig->fixture);
    rig_remove(rig);
}

/* Another client of the same server. */
static void reconnect(struct rig *rig)
{
    rpc_client_destroy(rig->fixture.client);
    struct rpc_client_options options = { .target = rig->fixture.address, .tls = &rig->client };
    struct baton_status st = rpc_client_create(&options, &rig->fixture.client);
    cr_assert(baton_ok(&st), "%s", st.message);
}

/* Asks who the server takes us for; the status says whether the connection came about. */
static struct baton_status ask_peer(struct rig *rig, char out[RPC_IDENTITY_BYTES])
{
    struct rpc_call_options options = { .timeout_ns = 5 * BATON_NS_PER_S };
    struct rpc_result result = rpc_fixture_get(&rig->fixture, "peer", &options);
    out[0] = '\0';
    if (baton_ok(&result.status)) {
        (void)snprintf(out, RPC_IDENTITY_BYTES, "%s",
                       ((Baton__V1__Model *)result.message)->meta->name);
    }
    baton_wire_free(result.message);
    return result.status;
}

/* Both sides prove who they are; the handler sees the client's SPIFFE id. */
Test(rpc_tls, mutual)
{
    struct rig rig;
    char peer[RPC_IDENTITY_BYTES];
    rig_init(&rig);
    rig_start(&rig);
    struct baton_status st = ask_peer(&rig, peer);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_str_eq(peer, "2 1 spiffe://baton.test/agent/a1");
    rig_stop(&rig);
}

/* The caller's names with a certificate of this name. */
static void expect_peer(struct rig *rig, const char *certificate, const char *expected)
{
    char name[32];
    char peer[RPC_IDENTITY_BYTES];
    (void)snprintf(name, sizeof(name), "%s.pem", certificate);
    path_of(rig, name, rig->client_cert);
    (void)snprintf(name, sizeof(name), "%s.key", certificate);
    path_of(rig, name, rig->client_key);
    reconnect(rig);
    struct baton_status st = ask_peer(rig, peer);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_str_eq(peer, expected, "%s: %s", certificate, peer);
}

/* What gives rights: one SPIFFE id and the DNS names, without those that are no names; several URIs are no SPIFFE
 * id; a common name is shown, and proves nothing. */
Test(rpc_tls, names_of_a_certificate)
{
    struct rig rig;
    rig_init(&rig);
    rig_start(&rig);
    expect_peer(&rig, "named", "2 3 spiffe://baton.test/agent/a2");
    expect_peer(&rig, "twofold", "2 1 a3.test");
    expect_peer(&rig, "bare", "2 0 cn:bare");
    expect_peer(&rig, "pretender", "2 0 cn:local");
    rig_stop(&rig);
}

static void forget(const struct rpc_result *result, void *context)
{
    (void)context;
    baton_wire_free(result->message);
}

/* Who called stays known after the call's end: messages that still wait are judged by it. */
Test(rpc_tls, a_peer_outlives_its_call)
{
    struct rig rig;
    struct rpc_peer peer;
    rig_init(&rig);
    rig_start(&rig);
    Baton__V1__SuspendModelRequest request;
    baton__v1__suspend_model_request__init(&request);
    request.name = "watched";
    rpc_unary_start(rig.fixture.client, "baton.v1.Models/Suspend", &request, NULL, forget, NULL);
    struct rpc_call *call = rpc_fixture_take_held(&rig.fixture);
    cr_assert_not_null(call);
    struct baton_status st = rpc_status_field("name", "is not wanted");
    rpc_finish(call, &st);
    cr_assert(rpc_fixture_wait(&rig.fixture, &rig.fixture.dones, 1));
    rpc_call_peer(call, &peer);
    rpc_call_unref(call);
    cr_assert_eq(peer.principal, RPC_PRINCIPAL_CERTIFICATE, "%s", peer.identity);
    cr_assert_eq(peer.names_count, 1);
    cr_assert_str_eq(peer.names[0].text, "spiffe://baton.test/agent/a1");
    cr_assert_str_eq(peer.identity, "spiffe://baton.test/agent/a1");
    cr_assert_neq(peer.address[0], '\0');
    rig_stop(&rig);
}

/* Addresses that no other machine can reach, and those that only look so. */
Test(rpc_tls, local_addresses)
{
    static const char *const LOCAL[] = { "unix:/run/b.sock",  "127.0.0.1:7070",
                                         "127.8.9.1:0",       "localhost:7070",
                                         "[::1]:7070",        "ipv4:127.0.0.1:1,127.0.0.2:2",
                                         "ipv6:%5B::1%5D:80", "dns:///localhost:1" };
    static const char *const OPEN[] = { "0.0.0.0:7070",
                                        "[::]:7070",
                                        "10.0.0.1:7070",
                                        "127.example.com:7070",
                                        "localhost.example.com:7070",
                                        "ipv4:127.0.0.1:1,10.0.0.2:2",
                                        "127.0.0.1",
                                        "[::1",
                                        "%5B",
                                        ":7070",
                                        "" };
    for (size_t i = 0; i < sizeof(LOCAL) / sizeof(LOCAL[0]); i++) {
        cr_assert(rpc_address_is_local(LOCAL[i]), "%s", LOCAL[i]);
    }
    for (size_t i = 0; i < sizeof(OPEN) / sizeof(OPEN[0]); i++) {
        cr_assert_not(rpc_address_is_local(OPEN[i]), "%s", OPEN[i]);
    }
}

/* Without a certificate a client is refused where one is required, and only of this machine where not. */
Test(rpc_tls, client_without_certificate)
{
    struct rig rig;
    char peer[RPC_IDENTITY_BYTES];
    rig_init(&rig);
    rig.client.cert_file = NULL;
    rig.client.key_file = NULL;
    rig_start(&rig);
    struct baton_status st = ask_peer(&rig, peer);
    cr_assert_eq(st.code, BATON_UNAVAILABLE, "%s", st.message);
    rpc_fixture_stop(&rig.fixture);
    rig.server.require_client = false;
    rig_start(&rig);
    st = ask_peer(&rig, peer);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_str_eq(peer, "1 0 local");
    rig_stop(&rig);
}

/* A server that the client's CA did not sign, or of another name, is refused by the client. */
Test(rpc_tls, client_checks_the_server)
{
    struct rig rig;
    char peer[RPC_IDENTITY_BYTES];
    rig_init(&rig);
    rig.client.ca_file = rig.stranger;
    rig_start(&rig);
    struct baton_status st = ask_peer(&rig, peer);
    cr_assert_eq(st.code, BATON_UNAVAILABLE, "%s", st.message);
    rig.client.ca_file = rig.ca;
    rig.client.server_name = "somebody.test";
    reconnect(&rig);
    st = ask_peer(&rig, peer);
    cr_assert_eq(st.code, BATON_UNAVAILABLE, "%s", st.message);
    rig.client.server_name = "controller.test";
    reconnect(&rig);
    st = ask_peer(&rig, peer);
    cr_assert(baton_ok(&st), "%s", st.message);
    rig_stop(&rig);
}

static void replace(struct rig *rig, const char *from, const char *to)
{
    char from_path[PATH];
    char to_path[PATH];
    path_of(rig, from, from_path);
    path_of(rig, to, to_path);
    char *words[] = { "cp", from_path, to_path, NULL };
    run(words);
}

/* --- connections that come to nothing --- */

/* What the server was told last; each test is a process of its own. */
static struct told {
    pthread_mutex_t mutex;
    unsigned count;
    char address[RPC_IDENTITY_BYTES];
    char name[RPC_IDENTITY_BYTES];
    char why[RPC_IDENTITY_BYTES];
} told = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static void note_refused(const struct rpc_refused *refused, void *context)
{
    (void)context;
    pthread_mutex_lock(&told.mutex);
    (void)snprintf(told.address, sizeof(told.address), "%s", refused->address);
    (void)snprintf(told.name, sizeof(told.name), "%s", refused->name);
    (void)snprintf(told.why, sizeof(told.why), "%s", refused->why);
    told.count++;
    pthread_mutex_unlock(&told.mutex);
}

/* Waits until so many were told of. */
static struct told wait_told(unsigned count)
{
    uint64_t end = baton_clock_monotonic_ns() + 20 * BATON_NS_PER_S;
    for (;;) {
        pthread_mutex_lock(&told.mutex);
        struct told now = told;
        pthread_mutex_unlock(&told.mutex);
        if (now.count >= count || baton_clock_monotonic_ns() > end) {
            cr_assert_geq(now.count, count, "nobody was told");
            return now;
        }
        (void)usleep(1000);
    }
}

static void rig_start_told(struct rig *rig)
{
    if (!rpc_sees_handshakes()) {
        rig_remove(rig);
        cr_skip_test("these versions of gRPC and OpenSSL show no handshakes: api/rpc/handshakes.h");
    }
    rpc_fixture_start_with(&rig->fixture,
                           (struct rpc_server_options){ .listeners = &rig->listener,
                                                        .listeners_count = 1,
                                                        .on_refused = note_refused },
                           (struct rpc_client_options){ .tls = &rig->client });
}

static unsigned told_count(void)
{
    pthread_mutex_lock(&told.mutex);
    unsigned count = told.count;
    pthread_mutex_unlock(&told.mutex);
    return count;
}

/* A certificate of another authority: told with its address, what it says of its holder, and what is wrong. */
Test(rpc_tls, a_foreign_certificate_is_told_of)
{
    struct rig rig;
    char peer[RPC_IDENTITY_BYTES];
    rig_init(&rig);
    rig_start_told(&rig);
    struct baton_status st = ask_peer(&rig, peer);
    cr_assert(baton_ok(&st), "%s", st.message);
    reconnect(&rig);
    st = ask_peer(&rig, peer);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(told_count(), 0, "a good one is not told of");
    path_of(&rig, "impostor.pem", rig.client_cert);
    path_of(&rig, "impostor.key", rig.client_key);
    reconnect(&rig);
    st = ask_peer(&rig, peer);
    cr_assert_eq(st.code, BATON_UNAVAILABLE, "%s", st.message);
    struct told now = wait_told(1);
    cr_assert_str_eq(now.name, "controller.test");
    cr_assert_eq(strncmp(now.address, "ipv4:127.0.0.1:", 15), 0, "%s", now.address);
    cr_assert_not_null(strstr(now.why, "its certificate is refused: unable to get local issuer"),
                       "%s", now.why);
    rig_stop(&rig);
}

/* No certificate at all, and a client that does not believe the server. */
Test(rpc_tls, who_shows_nothing_and_who_believes_nothing_is_told_of)
{
    struct rig rig;
    char peer[RPC_IDENTITY_BYTES];
    rig_init(&rig);
    rig_start_told(&rig);
    rig.client.cert_file = NULL;
    rig.client.key_file = NULL;
    reconnect(&rig);
    struct baton_status st = ask_peer(&rig, peer);
    cr_assert_eq(st.code, BATON_UNAVAILABLE, "%s", st.message);
    struct told now = wait_told(1);
    cr_assert_str_eq(now.why, "it shows no certificate");
    cr_assert_str_eq(now.name, "");
    rig.client.ca_file = rig.stranger;
    reconnect(&rig);
    unsigned before = told_count();
    st = ask_peer(&rig, peer);
    cr_assert_eq(st.code, BATON_UNAVAILABLE, "%s", st.message);
    now = wait_told(before + 1); /* gRPC's own client ends without an alert. */
    cr_assert_str_eq(now.name, "");
    rig_stop(&rig);
}

/* Who says nothing, and ends: without a reason, since nobody gave one. */
Test(rpc_tls, who_ends_without_a_word_is_told_of_without_a_reason)
{
    struct rig rig;
    rig_init(&rig);
    rig_start_told(&rig);
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons(rpc_server_port(rig.fixture.server, 0)),
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
    (void)close(fd);
    struct told now = wait_told(1);
    cr_assert_str_eq(now.why, "");
    cr_assert_neq(now.address[0], '\0');
    rig_stop(&rig);
}

/* New files count from the next connection on; files that are none leave the last good ones. */
Test(rpc_tls, certificates_change)
{
    struct rig rig;
    char peer[RPC_IDENTITY_BYTES];
    rig_init(&rig);
    rig_start(&rig);
    struct baton_status st = ask_peer(&rig, peer);
    cr_assert(baton_ok(&st), "%s", st.message);
    replace(&rig, "log", "server.pem"); /* No PEM at all. */
    reconnect(&rig);
    st = ask_peer(&rig, peer);
    cr_assert(baton_ok(&st), "%s", st.message);
    replace(&rig, "impostor.pem", "server.pem");
    replace(&rig, "impostor.key", "server.key");
    rig.client.ca_file = rig.stranger;
    reconnect(&rig);
    st = ask_peer(&rig, peer);
    cr_assert(baton_ok(&st), "%s", st.message);
    rig_stop(&rig);
}

/* Files that are missing or no PEM stop the start, by name, on both sides. */
Test(rpc_tls, bad_files)
{
    struct rig rig;
    rig_init(&rig);
    struct rpc_server_options options = { .listeners = &rig.listener, .listeners_count = 1 };
    struct rpc_server *server = NULL;
    rig.server.cert_file = "/nonexistent/server.pem";
    struct baton_status st = rpc_server_create(&options, &server);
    cr_assert_eq(st.code, BATON_NOT_FOUND);
    cr_assert_not_null(strstr(st.message, "/nonexistent/server.pem"));
    char log[PATH];
    path_of(&rig, "log", log);
    rig.server.cert_file = log;
    st = rpc_server_create(&options, &server);
    cr_assert_eq(st.reason, BATON_REASON_MALFORMED);
    cr_assert_not_null(strstr(st.message, log));
    rig.server.cert_file = NULL;
    st = rpc_server_create(&options, &server);
    cr_assert_eq(st.reason, BATON_REASON_BAD_FIELD);
    struct rpc_client *client = NULL;
    struct rpc_client_options client_options = { .target = "127.0.0.1:1", .tls = &rig.client };
    rig.client.ca_file = log;
    st = rpc_client_create(&client_options, &client);
    cr_assert_eq(st.reason, BATON_REASON_MALFORMED);
    rig.client.ca_file = rig.ca;
    rig.client.key_file = NULL;
    st = rpc_client_create(&client_options, &client);
    cr_assert_eq(st.reason, BATON_REASON_BAD_FIELD);
    char *words[] = { "rm", "-rf", rig.folder, NULL };
    run(words);
}

/* How long a certificate holds is read from its file; what is none is told by name. */
Test(rpc_tls, ends_of_certificates)
{
    struct rig rig;
    int64_t seconds = 0;
    rig_init(&rig);
    struct baton_status st = rpc_certificate_ends(rig.server_cert, &seconds);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_gt(seconds, 86400);
    cr_assert_leq(seconds, 2 * 86400);
    st = rpc_certificate_ends(rig.server_key, &seconds);
    cr_assert_eq(st.reason, BATON_REASON_MALFORMED);
    st = rpc_certificate_ends("/nonexistent/server.pem", &seconds);
    cr_assert_eq(st.code, BATON_NOT_FOUND);
    struct rpc_expiry *expiry = NULL;
    const char *const files[] = { rig.server_cert, NULL, "", rig.server_key };
    st = rpc_expiry_create(files, 4, &expiry);
    cr_assert(baton_ok(&st), "%s", st.message);
    rpc_expiry_destroy(expiry);
    rpc_expiry_destroy(NULL);
    char *words[] = { "rm", "-rf", rig.folder, NULL };
    run(words);
}
