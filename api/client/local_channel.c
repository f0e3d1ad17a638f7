/* local_channel.c -- poll, sendmsg and recvmsg behind local_channel.h. */
#include "api/client/local_channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "api/base/clock.h"

/* How long to wait when the kernel counts too many descriptors in flight. */
enum { IN_FLIGHT_PAUSE_MS = 1 };

struct baton_status local_address_parse(const char *address, struct sockaddr_un *out)
{
    const char *path = address;
    if (strncmp(path, "unix:", 5) == 0) {
        path += 5;
    }
    if (path[0] != '/') {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "agent address '%.200s': want unix:/absolute/path", address);
    }
    memset(out, 0, sizeof(*out));
    out->sun_family = AF_UNIX;
    if (!baton_text_copy(out->sun_path, sizeof(out->sun_path), path)) {
        struct baton_status st = baton_status_make(
            BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
            "socket path '%.160s' has %zu characters, a Unix socket's limit is %zu", path,
            strlen(path), sizeof(out->sun_path) - 1);
        return baton_status_hint(st, "Use a shorter directory, such as /run/baton");
    }
    return baton_status_ok();
}

struct baton_status local_channel_init(struct local_channel *channel, int fd)
{
    *channel = (struct local_channel){ .fd = fd, .passed_fd = -1 };
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
        struct baton_status st = baton_status_errno(errno, "fcntl", "socket");
        local_channel_deinit(channel, false);
        return st;
    }
    channel->body = malloc(LOCAL_BODY_BYTES_MAX);
    channel->out = malloc(LOCAL_MESSAGE_BYTES_MAX);
    if (channel->body == NULL || channel->out == NULL) {
        local_channel_deinit(channel, false);
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "no memory for a connection");
    }
    return baton_status_ok();
}

void local_channel_deinit(struct local_channel *channel, bool shut)
{
    if (channel->body == NULL && channel->fd <= 0) {
        return;
    }
    if (channel->passed_fd >= 0) {
        (void)close(channel->passed_fd);
    }
    if (channel->fd >= 0) {
        if (shut) {
            (void)shutdown(channel->fd, SHUT_RDWR);
        }
        (void)close(channel->fd);
    }
    free(channel->body);
    free(channel->out);
    *channel = (struct local_channel){ .fd = -1, .passed_fd = -1 };
}

/* --- waiting --- */

/* Milliseconds until the deadline, rounded up, for poll(). */
static int poll_timeout(uint64_t deadline_ns)
{
    uint64_t now_ns = baton_clock_monotonic_ns();
    if (deadline_ns <= now_ns) {
        return 0;
    }
    uint64_t left_ms = (deadline_ns - now_ns + BATON_NS_PER_MS - 1) / BATON_NS_PER_MS;
    return left_ms > 60000 ? 60000 : (int)left_ms;
}

/* Waits for events on up to two descriptors; false at the deadline. */
static bool wait_for(struct pollfd *fds, nfds_t count, uint64_t deadline_ns)
{
    for (;;) {
        int ready = poll(fds, count, poll_timeout(deadline_ns));
        if (ready > 0) {
            return true;
        }
        if (ready < 0 && errno != EINTR && errno != EAGAIN) {
            return true; /* The next read or write tells what is wrong. */
        }
        if (baton_clock_monotonic_ns() >= deadline_ns) {
            return false;
        }
    }
}

enum local_wait local_channel_wait(const struct local_channel *channel, int wake_fd,
                                   uint64_t deadline_ns)
{
    struct pollfd fds[2] = { { channel->fd, POLLIN, 0 }, { wake_fd, POLLIN, 0 } };
    if (!wait_for(fds, 2, deadline_ns)) {
        return LOCAL_WAIT_TIMEOUT;
    }
    return fds[1].revents != 0 ? LOCAL_WAIT_WOKEN : LOCAL_WAIT_READABLE;
}

bool local_channel_is_writable(const struct local_channel *channel)
{
    struct pollfd pfd = { channel->fd, POLLOUT, 0 };
    return poll(&pfd, 1, 0) == 1 && pfd.revents == POLLOUT;
}

static struct baton_status gone(struct local_channel *channel, const char *what)
{
    channel->is_broken = true;
    return baton_status_make(BATON_UNAVAILABLE, BATON_REASON_IO, "%s", what);
}

static struct baton_status too_late(struct local_channel *channel, const char *what)
{
    channel->is_broken =
        true; /* Part of a frame may have gone; nobody can tell where the next begins. */
    return baton_status_make(BATON_DEADLINE_EXCEEDED, BATON_REASON_IO, "%s", what);
}

static struct baton_status usable(const struct local_channel *channel)
{
    if (channel->fd < 0 || channel->is_broken) {
        return baton_status_make(BATON_UNAVAILABLE, BATON_REASON_IO, "the connection is closed");
    }
    return baton_status_ok();
}

/* --- sending --- */

/* One sendmsg(); the count that went, or -1 and errno. */
static ssize_t send_some(int fd, struct iovec *parts, size_t parts_count, int pass_fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct msghdr msg = { .msg_iov = parts, .msg_iovlen = parts_count };
    if (pass_fd >= 0) {
        memset(&control, 0, sizeof(control));
        msg.msg_control = control.bytes;
        msg.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(head), &pass_fd, sizeof(int));
    }
    return sendmsg(fd, &msg, MSG_NOSIGNAL);
}

/* Takes 'sent' bytes off the front of the parts. */
static void skip_sent(struct iovec *parts, size_t parts_count, size_t sent)
{
    for (size_t i = 0; i < parts_count && sent > 0; i++) {
        size_t here = sent < parts[i].iov_len ? sent : parts[i].iov_len;
        parts[i].iov_base = (uint8_t *)parts[i].iov_base + here;
        parts[i].iov_len -= here;
        sent -= here;
    }
}

/* Decides on errno after a send that did not go: OK means try again. */
static struct baton_status after_failed_send(struct local_channel *channel, uint64_t deadline_ns)
{
    int error_number = errno;
    if (error_number == EINTR) {
        return baton_status_ok();
    }
    if (error_number == ETOOMANYREFS) {
        (void)poll(NULL, 0, IN_FLIGHT_PAUSE_MS);
        return baton_clock_monotonic_ns() < deadline_ns
                   ? baton_status_ok()
                   : too_late(channel, "the other side took no descriptor in time");
    }
    if (error_number == EAGAIN) {
        struct pollfd pfd = { channel->fd, POLLOUT, 0 };
        return wait_for(&pfd, 1, deadline_ns)
                   ? baton_status_ok()
                   : too_late(channel, "the other side read nothing in time");
    }
    if (error_number == EPIPE || error_number == ECONNRESET) {
        return gone(channel, "the other side closed the connection");
    }
    channel->is_broken = true;
    return baton_status_errno(error_number, "sendmsg", "local socket");
}

static struct baton_status send_parts(struct local_channel *channel, struct iovec *parts,
                                      size_t parts_count, int pass_fd, uint64_t deadline_ns)
{
    struct baton_status st = usable(channel);
    size_t left = 0;
    for (size_t i = 0; i < parts_count; i++) {
        left += parts[i].iov_len;
    }
    while (baton_ok(&st) && left > 0) {
        ssize_t sent = send_some(channel->fd, parts, parts_count, pass_fd);
        if (sent < 0) {
            st = after_failed_send(channel, deadline_ns);
            continue;
        }
        pass_fd = -1; /* It went with the first byte. */
        skip_sent(parts, parts_count, (size_t)sent);
        left -= (size_t)sent;
    }
    return st;
}

struct baton_status local_channel_send(struct local_channel *channel,
                                       const struct local_message *message, int pass_fd,
                                       uint64_t deadline_ns)
{
    struct baton_status st = usable(channel);
    if (!baton_ok(&st)) {
        return st;
    }
    struct iovec parts[2] = { { channel->out, local_message_encode(message, channel->out) } };
    size_t parts_count = 1;
    if (message->kind == LOCAL_KIND_DATA) {
        /* sendmsg() does not write to it; iovec has no const. */
        parts[1].iov_base = (void *)(uintptr_t)message->as.data.data;
        parts[1].iov_len = message->as.data.size;
        parts_count = 2;
    }
    return send_parts(channel, parts, parts_count, pass_fd, deadline_ns);
}

struct baton_status local_channel_send_encoded(struct local_channel *channel,
                                               struct baton_bytes frames, uint64_t deadline_ns)
{
    struct iovec part = { (void *)(uintptr_t)frames.data, frames.size };
    return send_parts(channel, &part, 1, -1, deadline_ns);
}

/* --- receiving --- */

/* Keeps the first descriptor that came and closes any other. */
static void keep_fds(struct local_channel *channel, struct msghdr *msg)
{
    for (struct cmsghdr *head = CMSG_FIRSTHDR(msg); head != NULL; head = CMSG_NXTHDR(msg, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd = -1;
            memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(int));
            if (channel->passed_fd < 0) {
                channel->passed_fd = fd;
            } else {
                (void)close(fd);
            }
        }
    }
}

static ssize_t receive_some(struct local_channel *channel, void *out, size_t size)
{
    union {
        char bytes[CMSG_SPACE(4 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = { out, size };
    struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1 };
    msg.msg_control = control.bytes;
    msg.msg_controllen = sizeof(control.bytes);
    ssize_t got = recvmsg(channel->fd, &msg, MSG_CMSG_CLOEXEC);
    if (got >= 0) {
        keep_fds(channel, &msg);
    }
    return got;
}

static struct baton_status receive_bytes(struct local_channel *channel, uint8_t *out, size_t size,
                                         uint64_t deadline_ns)
{
    size_t have = 0;
    while (have < size) {
        ssize_t got = receive_some(channel, out + have, size - have);
        if (got > 0) {
            have += (size_t)got;
            continue;
        }
        if (got == 0 || errno == ECONNRESET) {
            return gone(channel, "the other side closed the connection");
        }
        if (errno == EINTR) {
            continue;
        }
        if (errno != EAGAIN) {
            channel->is_broken = true;
            return baton_status_errno(errno, "recvmsg", "local socket");
        }
        struct pollfd pfd = { channel->fd, POLLIN, 0 };
        if (!wait_for(&pfd, 1, deadline_ns)) {
            return too_late(channel, "the other side sent no whole message in time");
        }
    }
    return baton_status_ok();
}

struct baton_status local_channel_receive(struct local_channel *channel, struct local_message *out,
                                          uint64_t deadline_ns)
{
    struct baton_status st = usable(channel);
    if (baton_ok(&st) && channel->is_deaf) {
        st = baton_status_make(BATON_UNAVAILABLE, BATON_REASON_IO, "the connection is closed");
    }
    if (!baton_ok(&st)) {
        return st;
    }
    int stale_fd = local_channel_take_fd(channel);
    if (stale_fd >= 0) {
        (void)close(stale_fd);
    }
    uint8_t header_bytes[LOCAL_HEADER_BYTES];
    st = receive_bytes(channel, header_bytes, sizeof(header_bytes), deadline_ns);
    struct local_header header = { 0 };
    if (baton_ok(&st)) {
        st = local_header_decode(header_bytes, &header);
    }
    if (baton_ok(&st)) {
        st = receive_bytes(channel, channel->body, header.body_bytes, deadline_ns);
    }
    if (baton_ok(&st)) {
        struct baton_bytes body = { channel->body, header.body_bytes };
        st = local_message_decode(header.kind, body, out);
    }
    channel->is_deaf = !baton_ok(&st);
    return st;
}

int local_channel_take_fd(struct local_channel *channel)
{
    int fd = channel->passed_fd;
    channel->passed_fd = -1;
    return fd;
}
