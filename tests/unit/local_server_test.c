/* local_server_test.c -- the agent's socket: its file, its limits, clients that break the protocol. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "api/client/baton.h"
#include "api/client/local_channel.h"
#include "api/client/operate.h"
#include "tests/unit/local_recorder.h"

static char dir[64];
static char address[128];
static struct recorder *recorder;
static struct local_server *server;
static struct baton_error error = BATON_ERROR_INIT;

static void start_server(void)
{
    struct local_server_options options = { .address = address,
                                            .agent = "agent-1",
                                            .sink = recorder_sink(recorder) };
    struct baton_status st = local_server_create(&options, &server);
    cr_assert(baton_ok(&st), "%s", st.message);
}

static void set_up(void)
{
    (void)snprintf(dir, sizeof(dir), "/tmp/baton-client-XXXXXX");
    cr_assert_not_null(mkdtemp(dir));
    (void)snprintf(address, sizeof(address), "unix:%s/agent.sock", dir);
    recorder = recorder_create();
    start_server();
}

static void tear_down(void)
{
    local_server_destroy(server);
    recorder_destroy(recorder);
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
    cr_assert_eq(system(command), 0);
}

TestSuite(server, .init = set_up, .fini = tear_down, .timeout = 60);

static struct baton_agent *connect_now(void)
{
    struct baton_agent *agent = NULL;
    cr_assert_eq(baton_connect(address, 5000, &agent, &error), 0, "%s", error.message);
    return agent;
}

/* --- the server's socket --- */

static struct baton_status try_second(const char *where, struct local_server **out)
{
    struct local_server_options options = { .address = where,
                                            .agent = "second",
                                            .sink = recorder_sink(recorder) };
    return local_server_create(&options, out);
}

Test(server, socket_in_use)
{
    struct local_server *second = NULL;
    struct baton_status st = try_second(address, &second);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION);
    cr_assert_eq(st.reason, BATON_REASON_IN_USE);
    baton_close(connect_now());
}

/* What a killed agent left is replaced; what is no socket, or answers without our lock, is not. */
Test(server, stale_and_foreign_files)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/other.sock", dir);
    struct sockaddr_un where;
    struct baton_status st = local_address_parse(path, &where);
    cr_assert(baton_ok(&st));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&where, sizeof(where)), 0);
    cr_assert_eq(listen(fd, 1), 0);
    struct local_server *second = NULL;
    st = try_second(path, &second);
    cr_assert_eq(st.reason, BATON_REASON_IN_USE, "somebody answers there");
    (void)close(fd);
    st = try_second(path, &second);
    cr_assert(baton_ok(&st), "%s", st.message);
    struct stat info;
    cr_assert_eq(stat(path, &info), 0);
    cr_assert_eq(info.st_mode & 0777, 0660);
    local_server_destroy(second);
    cr_assert_neq(stat(path, &info), 0, "the socket goes with its server");
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    (void)close(fd);
    st = try_second(path, &second);
    cr_assert_eq(st.reason, BATON_REASON_IN_USE, "a regular file stays");
    cr_assert_eq(stat(path, &info), 0);
}

Test(server, bad_addresses)
{
    struct local_server *second = NULL;
    char long_path[256];
    (void)snprintf(long_path, sizeof(long_path), "%s/%0150d", dir, 1);
    struct baton_status st = try_second(long_path, &second);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    cr_assert(strstr(st.message, "limit is 107") != NULL, "%s", st.message);
    st = try_second("relative.sock", &second);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    (void)snprintf(long_path, sizeof(long_path), "%s/none/agent.sock", dir);
    st = try_second(long_path, &second);
    cr_assert_eq(st.code, BATON_NOT_FOUND);
    struct baton_agent *agent = NULL;
    cr_assert_eq(baton_connect("tcp:1", 100, &agent, &error), 3);
}

/* Whoever listens but never answers costs no more than the timeout. */
Test(server, silent_listener)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/silent.sock", dir);
    struct sockaddr_un where;
    struct baton_status st = local_address_parse(path, &where);
    cr_assert(baton_ok(&st));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&where, sizeof(where)), 0);
    cr_assert_eq(listen(fd, 8), 0);
    struct baton_agent *agent = NULL;
    cr_assert_eq(baton_connect(path, 50, &agent, &error), 4, "%s", error.message);
    (void)close(fd);
}

Test(server, too_many_connections)
{
    local_server_destroy(server);
    struct local_server_options options = { .address = address,
                                            .agent = "agent-1",
                                            .sink = recorder_sink(recorder),
                                            .connections_max = 2 };
    struct baton_status st = local_server_create(&options, &server);
    cr_assert(baton_ok(&st), "%s", st.message);
    struct baton_agent *first = connect_now();
    struct baton_agent *second = connect_now();
    struct baton_agent *third = NULL;
    cr_assert_eq(baton_connect(address, 5000, &third, &error), 8);
    cr_assert_str_eq(error.reason, "LIMIT");
    baton_close(second);
    /* The slot is free once the server noticed; that is soon, but not at once. */
    int code = 8;
    for (int i = 0; i < 60000 && code == 8; i++) {
        code = baton_connect(address, 5000, &third, &error);
        baton_clock_sleep_ns(BATON_NS_PER_MS);
    }
    cr_assert_eq(code, 0, "%s", error.message);
    baton_close(third);
    baton_close(first);
}

/* --- clients that do not keep to the protocol --- */

static struct local_channel raw_connect(void)
{
    struct sockaddr_un where;
    struct baton_status st = local_address_parse(address, &where);
    cr_assert(baton_ok(&st));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&where, sizeof(where)), 0);
    struct local_channel channel;
    st = local_channel_init(&channel, fd);
    cr_assert(baton_ok(&st));
    return channel;
}

static uint64_t soon(void)
{
    return baton_clock_monotonic_ns() + 60 * BATON_NS_PER_S;
}

static void say(struct local_channel *channel, const struct local_message *message, int fd)
{
    struct baton_status st = local_channel_send(channel, message, fd, soon());
    cr_assert(baton_ok(&st), "%s", st.message);
}

/* Reads up to the RESULT and returns it. */
static struct local_result hear_result(struct local_channel *channel)
{
    struct local_message m = { 0 };
    for (;;) {
        struct baton_status st = local_channel_receive(channel, &m, soon());
        cr_assert(baton_ok(&st), "%s", st.message);
        if (m.kind == LOCAL_KIND_RESULT) {
            return m.as.result;
        }
    }
}

static void raw_hello(struct local_channel *channel)
{
    struct local_message m = { .kind = LOCAL_KIND_HELLO };
    m.as.hello = (struct local_hello){ LOCAL_MAGIC, 1, 1, "raw" };
    say(channel, &m, -1);
    struct baton_status st = local_channel_receive(channel, &m, soon());
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(m.kind, LOCAL_KIND_WELCOME);
}

static struct local_channel raw_upload(void)
{
    struct local_channel channel = raw_connect();
    raw_hello(&channel);
    struct local_message m = { .kind = LOCAL_KIND_PUBLISH_BEGIN };
    (void)snprintf(m.as.publish.model, sizeof(m.as.publish.model), "m");
    (void)snprintf(m.as.publish.request_id, sizeof(m.as.publish.request_id), "r");
    say(&channel, &m, -1);
    do {
        struct baton_status st = local_channel_receive(&channel, &m, soon());
        cr_assert(baton_ok(&st), "%s", st.message);
    } while (m.kind == LOCAL_KIND_PROGRESS);
    cr_assert_eq(m.kind, LOCAL_KIND_ACCEPTED);
    return channel;
}

Test(server, other_protocol)
{
    struct local_channel channel = raw_connect();
    cr_assert_eq(write(channel.fd, "GET / HTTP/1.1\r\n\r\n", 18), 18);
    struct local_result result = hear_result(&channel);
    cr_assert_eq(result.code, BATON_INVALID_ARGUMENT);
    local_channel_deinit(&channel, true);
    baton_close(connect_now());
}

Test(server, other_version)
{
    struct local_channel channel = raw_connect();
    struct local_message m = { .kind = LOCAL_KIND_HELLO };
    m.as.hello = (struct local_hello){ LOCAL_MAGIC, 2, 3, "newer" };
    say(&channel, &m, -1);
    struct local_result result = hear_result(&channel);
    cr_assert_eq(result.code, BATON_UNIMPLEMENTED);
    cr_assert(strstr(result.message, "2 to 3") != NULL, "%s", result.message);
    local_channel_deinit(&channel, true);
}

/* Memory that its sender could still shorten would be SIGBUS in the agent: refused. */
Test(server, unsealed_segment)
{
    struct local_channel channel = raw_upload();
    struct local_message m = { .kind = LOCAL_KIND_SEGMENT };
    m.as.segment.bytes = 4096;
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert_eq(ftruncate(fd, 4096), 0);
    say(&channel, &m, fd);
    struct local_result result = hear_result(&channel);
    cr_assert(strstr(result.message, "not sealed") != NULL, "%s", result.message);
    local_channel_deinit(&channel, true);

    channel = raw_upload();
    cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK), 0);
    m.as.segment.bytes = 4097;
    say(&channel, &m, fd);
    result = hear_result(&channel);
    cr_assert(strstr(result.message, "shorter") != NULL, "%s", result.message);
    local_channel_deinit(&channel, true);

    channel = raw_upload();
    say(&channel, &m, -1);
    result = hear_result(&channel);
    cr_assert(strstr(result.message, "without its memory") != NULL, "%s", result.message);
    local_channel_deinit(&channel, true);
    (void)close(fd);
}

/* An entry must be whole before the next one or the end. */
Test(server, cut_inline_entry)
{
    struct local_channel channel = raw_upload();
    struct local_message m = { .kind = LOCAL_KIND_FILE };
    m.as.entry.is_inline = true;
    m.as.entry.bytes = 10;
    (void)snprintf(m.as.entry.name, sizeof(m.as.entry.name), "config.json");
    say(&channel, &m, -1);
    struct local_message data = { .kind = LOCAL_KIND_DATA };
    data.as.data = baton_bytes_of("12345");
    say(&channel, &data, -1);
    struct local_message commit = { .kind = LOCAL_KIND_COMMIT };
    say(&channel, &commit, -1);
    struct local_result result = hear_result(&channel);
    cr_assert(strstr(result.message, "5 bytes are missing") != NULL, "%s", result.message);
    cr_assert_eq(atomic_load(&recorder->dropped), 1);
    local_channel_deinit(&channel, true);

    channel = raw_upload();
    say(&channel, &m, -1);
    data.as.data = baton_bytes_of("12345678901");
    say(&channel, &data, -1);
    result = hear_result(&channel);
    cr_assert_eq(result.code, BATON_INVALID_ARGUMENT);
    local_channel_deinit(&channel, true);
}

/* A message that has no place in the conversation ends it. */
Test(server, message_out_of_place)
{
    struct local_channel channel = raw_connect();
    raw_hello(&channel);
    struct local_message m = { .kind = LOCAL_KIND_COMMIT };
    say(&channel, &m, -1);
    struct local_result result = hear_result(&channel);
    cr_assert(strstr(result.message, "does not belong") != NULL, "%s", result.message);
    struct baton_status st = local_channel_receive(&channel, &m, soon());
    cr_assert_eq(st.code, BATON_UNAVAILABLE);
    local_channel_deinit(&channel, true);
}

/* --- break-glass --- */

static void count_line(void *context, const char *text)
{
    uint32_t *lines = context;
    cr_assert_eq(text[0], '{');
    (*lines)++;
}

/* Lines come in order and end with the result; who asked is the kernel's word. */
Test(server, break_glass)
{
    uint32_t lines = 0;
    struct local_operate operate = { "status", "", "on call" };
    struct baton_status st = operate_agent(address, &operate, count_line, &lines);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(lines, 2);
    char by[BATON_NAME_BYTES];
    (void)snprintf(by, sizeof(by), "uid %ld (pid %ld)", (long)getuid(), (long)getpid());
    cr_assert_str_eq(recorder->operated_by, by);
    cr_assert_str_eq(recorder->operated.by, "on call");
    operate = (struct local_operate){ "restore", "g0", "" };
    st = operate_agent(address, &operate, count_line, &lines);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION);
    cr_assert(strstr(st.message, "no swap is open") != NULL, "%s", st.message);
    cr_assert_eq(lines, 2);
}
