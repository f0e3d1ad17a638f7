/* rpc_alive_test.c -- peers that are there but silent: no call waits for them for ever. */
#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "tests/unit/rpc_fixture.h"

extern char **environ;

#define WAIT_NS (20 * BATON_NS_PER_S)

/* The test server as a process of its own. */
struct process {
    pid_t pid;
    int input; /* Closing it ends the process. */
    unsigned port;
};

static void process_start(struct process *process)
{
    int in[2];
    int out[2];
    cr_assert(pipe(in) == 0 && pipe(out) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, in[1]);
    char *words[] = { RPC_PEER_SERVER, NULL };
    cr_assert_eq(posix_spawn(&process->pid, words[0], &actions, NULL, words, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    (void)close(in[0]);
    (void)close(out[1]);
    FILE *lines = fdopen(out[0], "r");
    cr_assert_eq(fscanf(lines, "%u", &process->port), 1);
    (void)fclose(lines);
    process->input = in[1];
}

static void process_stop(struct process *process)
{
    (void)kill(process->pid, SIGCONT);
    (void)close(process->input);
    int status = -1;
    cr_assert_eq(waitpid(process->pid, &status, 0), process->pid);
    cr_assert_eq(status, 0);
}

/* A server that stops (here by a signal) is noticed by keepalive, though its stream has no deadline. */
Test(rpc_alive, stopped_server)
{
    struct process process;
    struct rpc_fixture fixture = { .client = NULL };
    process_start(&process);
    (void)snprintf(fixture.address, sizeof(fixture.address), "127.0.0.1:%u", process.port);
    struct rpc_client_options options = { .target = fixture.address,
                                          .keepalive_ns = BATON_NS_PER_S,
                                          .keepalive_timeout_ns = BATON_NS_PER_S };
    struct baton_status st = rpc_client_create(&options, &fixture.client);
    cr_assert(baton_ok(&st));
    struct rpc_stream *stream = rpc_fixture_events(&fixture, "quiet", 0, NULL, NULL);
    struct rpc_result result = rpc_fixture_get(&fixture, "m", NULL);
    cr_assert(baton_ok(&result.status), "%s", result.status.message);
    baton_wire_free(result.message);
    cr_assert_eq(kill(process.pid, SIGSTOP), 0);
    struct rpc_next next = rpc_stream_next(stream, WAIT_NS);
    cr_assert_eq(next.kind, RPC_NEXT_END);
    cr_assert_eq(next.status.code, BATON_UNAVAILABLE, "%s", next.status.message);
    rpc_stream_unref(stream);
    rpc_client_destroy(fixture.client);
    process_stop(&process);
}

static int connect_to(unsigned port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval limit = { .tv_sec = 20 };
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    return fd;
}

/* A client that says hello in HTTP/2 and then never answers a ping is disconnected. */
Test(rpc_alive, silent_client)
{
    static const char HELLO[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    struct rpc_fixture fixture;
    rpc_fixture_start_with(&fixture,
                           (struct rpc_server_options){ .keepalive_ns = BATON_NS_PER_S,
                                                        .keepalive_timeout_ns = BATON_NS_PER_S },
                           (struct rpc_client_options){ .target = NULL });
    int fd = connect_to(rpc_server_port(fixture.server, 0));
    cr_assert_eq(write(fd, HELLO, sizeof(HELLO) - 1), (ssize_t)sizeof(HELLO) - 1);
    char bytes[256];
    ssize_t got;
    do {
        got = read(fd, bytes, sizeof(bytes));
    } while (got > 0 || (got < 0 && errno == EINTR)); /* Also of a process that was stopped. */
    cr_assert_eq(got, 0, "the server keeps a client that does not answer");
    (void)close(fd);
    rpc_fixture_stop(&fixture);
}

/* A peer that accepts connections and says nothing: the call ends at its deadline. */
Test(rpc_alive, silent_server)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = { .sin_family = AF_INET };
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(at);
    cr_assert(bind(fd, (struct sockaddr *)&at, size) == 0 && listen(fd, 8) == 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    struct rpc_fixture fixture = { .client = NULL };
    (void)snprintf(fixture.address, sizeof(fixture.address), "127.0.0.1:%u",
                   (unsigned)ntohs(at.sin_port));
    struct rpc_client_options options = { .target = fixture.address };
    struct baton_status st = rpc_client_create(&options, &fixture.client);
    cr_assert(baton_ok(&st));
    struct rpc_call_options call = { .timeout_ns = 200 * BATON_NS_PER_MS };
    struct rpc_result result = rpc_fixture_get(&fixture, "m", &call);
    cr_assert_eq(result.status.code, BATON_DEADLINE_EXCEEDED, "%s", result.status.message);
    rpc_client_destroy(fixture.client);
    (void)close(fd);
}

/* One of a name's addresses is taken: refused, rather than half a listener. */
Test(rpc_alive, half_taken_name)
{
    struct rpc_fixture fixture;
    rpc_fixture_start(&fixture);
    char address[32];
    (void)snprintf(address, sizeof(address), "localhost:%u",
                   (unsigned)rpc_server_port(fixture.server, 0));
    struct rpc_listener listener = { .address = address };
    struct rpc_server_options options = { .listeners = &listener, .listeners_count = 1 };
    struct rpc_server *server = NULL;
    struct baton_status st = rpc_server_create(&options, &server);
    cr_assert_eq(st.reason, BATON_REASON_IN_USE, "%s", st.message);
    rpc_fixture_stop(&fixture);
}
