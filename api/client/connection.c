/* connection.c -- connect, ask, close: the part of baton.h that is not publishing. */
#include "api/client/connection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/base/clock.h"

enum { CONNECT_RETRY_MS = 5 };

/* --- errors and structs --- */

int connection_error(const struct baton_status *st, struct baton_error *error)
{
    if (error != NULL) {
        struct baton_error full = BATON_ERROR_INIT;
        full.code = (int32_t)st->code;
        if (!baton_ok(st)) {
            (void)snprintf(full.reason, sizeof(full.reason), "%s", baton_reason_name(st->reason));
        }
        (void)snprintf(full.message, sizeof(full.message), "%s", st->message);
        (void)snprintf(full.hint, sizeof(full.hint), "%s", st->hint);
        connection_fill(error, &full, sizeof(full));
    }
    return (int)st->code;
}

void connection_fill(void *out, const void *value, size_t value_bytes)
{
    uint32_t room = 0;
    memcpy(&room, out, sizeof(room));
    if (room == 0) {
        room = (uint32_t)value_bytes; /* A zeroed struct of a caller compiled with this header. */
    }
    size_t bytes = room < value_bytes ? room : value_bytes;
    memcpy(out, value, bytes);
    memcpy(out, &room, sizeof(room));
}

void connection_fill_published(struct baton_published *out, const struct local_result *result)
{
    struct baton_published full = BATON_PUBLISHED_INIT;
    full.repeated = result->repeated ? 1 : 0;
    memcpy(full.model, result->model, sizeof(full.model));
    full.seq = result->seq;
    memcpy(full.uid, result->uid, sizeof(full.uid));
    memcpy(full.digest, result->digest, sizeof(full.digest));
    full.bytes = result->bytes;
    full.tensors = result->tensors;
    full.files = result->files;
    full.bytes_carried = result->bytes_carried;
    memcpy(full.directory, result->directory, sizeof(full.directory));
    connection_fill(out, &full, sizeof(full));
}

uint32_t baton_abi_version(void)
{
    return (uint32_t)BATON_ABI_MAJOR << 16 | (uint32_t)BATON_ABI_MINOR;
}

const char *baton_version(void)
{
    return BATON_VERSION;
}

const char *baton_strerror(int code)
{
    return code < 0 ? "UNKNOWN" : baton_code_name((enum baton_code)code);
}

/* --- helpers --- */

uint64_t connection_deadline_ns(uint64_t timeout_ms)
{
    uint64_t now_ns = baton_clock_monotonic_ns();
    uint64_t most_ms = (UINT64_MAX - now_ns) / BATON_NS_PER_MS;
    return timeout_ms >= most_ms ? UINT64_MAX : now_ns + timeout_ms * BATON_NS_PER_MS;
}

void connection_describe_caller(char *out, size_t out_bytes)
{
    char text[96];
    (void)snprintf(text, sizeof(text), "%.48s (pid %ld, uid %ld)", program_invocation_short_name,
                   (long)getpid(), (long)getuid());
    if (!local_text_is_valid(baton_bytes_of(text))) {
        (void)snprintf(text, sizeof(text), "pid %ld, uid %ld", (long)getpid(), (long)getuid());
    }
    (void)snprintf(out, out_bytes, "%s", text);
}

struct baton_status connection_check(const struct baton_agent *agent)
{
    if (agent == NULL) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "agent: no connection was given");
    }
    if (agent->owner != getpid()) {
        struct baton_status st = baton_status_make(
            BATON_FAILED_PRECONDITION, BATON_REASON_BAD_FIELD,
            "this connection belongs to process %ld, which forked", (long)agent->owner);
        return baton_status_hint(st, "Connect again in the child process");
    }
    return baton_status_ok();
}

struct baton_status connection_ask(struct baton_agent *agent, const struct local_message *question,
                                   enum local_kind wanted, uint64_t timeout_ms,
                                   struct local_message *out)
{
    struct baton_status st = connection_check(agent);
    if (baton_ok(&st) && agent->publish != NULL) {
        st = baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_IN_USE,
                               "a publish is under way on this connection");
        st = baton_status_hint(st, "End it first, or connect a second time");
    }
    uint64_t deadline_ns = connection_deadline_ns(timeout_ms);
    if (baton_ok(&st)) {
        st = local_channel_send(&agent->channel, question, -1, deadline_ns);
    }
    if (baton_ok(&st)) {
        st = local_channel_receive(&agent->channel, out, deadline_ns);
    }
    if (baton_ok(&st) && out->kind == LOCAL_KIND_RESULT && out->as.result.code != 0) {
        return local_result_status(&out->as.result);
    }
    if (baton_ok(&st) && out->kind != wanted) {
        agent->channel.is_broken = true;
        st = baton_status_make(BATON_INTERNAL, BATON_REASON_MALFORMED,
                               "the agent answered %s with %s", local_kind_name(question->kind),
                               local_kind_name(out->kind));
    }
    return baton_status_in(st, "agent at %s", agent->address.sun_path);
}

/* --- connect --- */

static struct baton_status nobody(const struct sockaddr_un *address, int error_number)
{
    struct baton_status st;
    if (error_number == EACCES || error_number == EPERM) {
        st = baton_status_errno(error_number, "connect", address->sun_path);
        return baton_status_hint(st, "Join the socket's group, see: ls -l %.120s",
                                 address->sun_path);
    }
    char cause[64];
    st = baton_status_make(BATON_UNAVAILABLE, BATON_REASON_IO, "no agent answers at %s: %s",
                           address->sun_path, strerror_r(error_number, cause, sizeof(cause)));
    return baton_status_hint(
        st, "Start one: baton-agent --config agent.yaml, whose 'socket' is unix:%.100s",
        address->sun_path);
}

/* connect() of a Unix socket answers at once, but EAGAIN while the listener's queue is full. */
static struct baton_status connect_within(int fd, const struct sockaddr_un *address,
                                          uint64_t deadline_ns)
{
    for (;;) {
        if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0) {
            return baton_status_ok();
        }
        if (errno != EAGAIN && errno != EINTR) {
            return nobody(address, errno);
        }
        if (baton_clock_monotonic_ns() >= deadline_ns) {
            return baton_status_make(BATON_DEADLINE_EXCEEDED, BATON_REASON_IO,
                                     "the agent at %s accepts no connection", address->sun_path);
        }
        baton_clock_sleep_ns(CONNECT_RETRY_MS * BATON_NS_PER_MS);
    }
}

static struct baton_status shake_hands(struct baton_agent *agent, uint64_t timeout_ms)
{
    struct local_message hello = { .kind = LOCAL_KIND_HELLO };
    hello.as.hello.magic = LOCAL_MAGIC;
    hello.as.hello.version_min = LOCAL_VERSION;
    hello.as.hello.version_max = LOCAL_VERSION;
    connection_describe_caller(hello.as.hello.client, sizeof(hello.as.hello.client));
    struct local_message answer;
    struct baton_status st = connection_ask(agent, &hello, LOCAL_KIND_WELCOME, timeout_ms, &answer);
    if (!baton_ok(&st)) {
        return st;
    }
    agent->welcome = answer.as.welcome;
    if (agent->welcome.version != LOCAL_VERSION) {
        return baton_status_make(BATON_UNIMPLEMENTED, BATON_REASON_INCOMPATIBLE,
                                 "the agent at %s speaks version %u of the local protocol, not %d",
                                 agent->address.sun_path, agent->welcome.version, LOCAL_VERSION);
    }
    return baton_status_ok();
}

static struct baton_status open_socket(struct baton_agent *agent, uint64_t deadline_ns)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return baton_status_errno(errno, "socket", "AF_UNIX");
    }
    struct baton_status st = connect_within(fd, &agent->address, deadline_ns);
    if (!baton_ok(&st)) {
        (void)close(fd);
        return st;
    }
    return local_channel_init(&agent->channel, fd);
}

static const char *default_address(void)
{
    const char *address = getenv("BATON_AGENT");
    return address != NULL && address[0] != '\0' ? address : BATON_DEFAULT_AGENT;
}

static struct baton_status connect_agent(const char *address, uint64_t timeout_ms,
                                         struct baton_agent **out)
{
    struct baton_agent *agent = calloc(1, sizeof(*agent));
    if (agent == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "no memory for a connection");
    }
    agent->owner = getpid();
    agent->channel.fd = -1;
    struct baton_status st =
        local_address_parse(address != NULL ? address : default_address(), &agent->address);
    if (baton_ok(&st)) {
        st = open_socket(agent, connection_deadline_ns(timeout_ms));
    }
    if (baton_ok(&st)) {
        st = shake_hands(agent, timeout_ms);
    }
    if (!baton_ok(&st)) {
        baton_close(agent);
        return st;
    }
    *out = agent;
    return st;
}

int baton_connect(const char *address, uint64_t timeout_ms, struct baton_agent **out,
                  struct baton_error *error)
{
    struct baton_status st = connect_agent(address, timeout_ms, out);
    return connection_error(&st, error);
}

/* --- questions --- */

int baton_get_agent_info(struct baton_agent *agent, uint64_t timeout_ms,
                         struct baton_agent_info *out, struct baton_error *error)
{
    struct local_message ask = { .kind = LOCAL_KIND_ASK_INFO };
    struct local_message answer;
    struct baton_status st = connection_ask(agent, &ask, LOCAL_KIND_INFO, timeout_ms, &answer);
    if (baton_ok(&st)) {
        const struct local_info *info = &answer.as.info;
        struct baton_agent_info full = BATON_AGENT_INFO_INIT;
        full.connected = info->connected ? 1 : 0;
        full.publishing = info->publishing;
        memcpy(full.name, info->agent, sizeof(full.name));
        memcpy(full.version, info->software, sizeof(full.version));
        memcpy(full.controller, info->controller, sizeof(full.controller));
        memcpy(full.directory, info->directory, sizeof(full.directory));
        connection_fill(out, &full, sizeof(full));
    }
    return connection_error(&st, error);
}

int baton_ping(struct baton_agent *agent, uint64_t timeout_ms, struct baton_error *error)
{
    struct local_message ping = { .kind = LOCAL_KIND_PING };
    ping.as.token = baton_clock_monotonic_ns();
    struct local_message pong;
    struct baton_status st = connection_ask(agent, &ping, LOCAL_KIND_PONG, timeout_ms, &pong);
    if (baton_ok(&st) && pong.as.token != ping.as.token) {
        agent->channel.is_broken = true;
        st = baton_status_make(BATON_INTERNAL, BATON_REASON_MALFORMED,
                               "the agent answered another ping");
    }
    return connection_error(&st, error);
}

int baton_last_result(const struct baton_agent *agent, struct baton_published *out,
                      struct baton_error *error)
{
    struct baton_status st = baton_status_ok();
    if (agent == NULL || !agent->has_last) {
        st = baton_status_make(BATON_NOT_FOUND, BATON_REASON_BAD_FIELD,
                               "this connection has not published anything yet");
    } else {
        connection_fill_published(out, &agent->last);
    }
    return connection_error(&st, error);
}
