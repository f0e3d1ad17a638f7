/* channel.c -- sockets; TLS is in channel_tls.c.  See channel.h. */
#include "transport/p2p/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "transport/p2p/channel_state.h"

enum { BACKLOG = 128, FILE_PIECE = 256 << 10, HOST_BYTES = 256 };

struct baton_status channel_wait(const struct channel *channel, short events, uint64_t deadline_ns)
{
    struct pollfd item = { .fd = channel->fd, .events = events };
    for (;;) {
        uint64_t now_ns = baton_clock_monotonic_ns();
        uint64_t left_ms = deadline_ns > now_ns ? (deadline_ns - now_ns) / BATON_NS_PER_MS + 1 : 0;
        if (left_ms == 0) {
            return baton_status_make(BATON_DEADLINE_EXCEEDED, BATON_REASON_IO,
                                     "%s did not answer in time", channel->remote);
        }
        int ready = poll(&item, 1, left_ms > 60000 ? 60000 : (int)left_ms);
        if (ready > 0) {
            return baton_status_ok();
        }
        if (ready < 0 && errno != EINTR) {
            return baton_status_errno(errno, "poll", channel->remote);
        }
    }
}

/* --- addresses --- */

/* Takes "host:port" or "[v6]:port" apart. */
static bool split(const char *address, char host[HOST_BYTES], const char **out_port)
{
    const char *colon = strrchr(address, ':');
    const char *from = address[0] == '[' ? address + 1 : address;
    const char *to = address[0] == '[' ? strchr(address, ']') : colon;
    if (colon == NULL || to == NULL || to == from || colon[1] == '\0' ||
        (size_t)(to - from) >= HOST_BYTES || (address[0] == '[' && to + 1 != colon)) {
        return false;
    }
    memcpy(host, from, (size_t)(to - from));
    host[to - from] = '\0';
    *out_port = colon + 1;
    return true;
}

static struct baton_status resolve(const char *address, int flags, char host[HOST_BYTES],
                                   struct addrinfo **out)
{
    struct addrinfo hints = { .ai_flags = AI_NUMERICSERV | flags, .ai_socktype = SOCK_STREAM };
    const char *port = NULL;
    if (!split(address, host, &port)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "'%.120s' is no address; write host:port", address);
    }
    int error = getaddrinfo(host, port, &hints, out);
    return error == 0 ? baton_status_ok()
                      : baton_status_make(BATON_UNAVAILABLE, BATON_REASON_IO, "%.120s: %s", address,
                                          gai_strerror(error));
}

struct baton_status channel_listen(const char *address, int *out_fd)
{
    char host[HOST_BYTES];
    struct addrinfo *found = NULL;
    int one = 1;
    struct baton_status st = resolve(address, AI_PASSIVE, host, &found);
    if (!baton_ok(&st)) {
        return st;
    }
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        st = baton_status_errno(errno, "socket", address);
    } else if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
               bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        st = baton_status_errno(errno, "listen at", address);
        close(fd);
    } else {
        *out_fd = fd;
    }
    freeaddrinfo(found);
    return st;
}

uint16_t channel_listen_port(int fd)
{
    struct sockaddr_storage address = { 0 };
    socklen_t size = sizeof(address);
    char port[16] = "0";
    (void)getsockname(fd, (struct sockaddr *)&address, &size);
    (void)getnameinfo((struct sockaddr *)&address, size, NULL, 0, port, sizeof(port),
                      NI_NUMERICSERV);
    return (uint16_t)strtoul(port, NULL, 10);
}

/* --- life --- */

struct channel *channel_of_socket(int fd)
{
    struct sockaddr_storage address = { 0 };
    socklen_t size = sizeof(address);
    char host[NI_MAXHOST] = "?";
    char port[16] = "?";
    int one = 1;
    struct channel *channel = calloc(1, sizeof(*channel));
    baton_assert(channel != NULL);
    channel->fd = fd;
    if (getpeername(fd, (struct sockaddr *)&address, &size) == 0) {
        (void)getnameinfo((struct sockaddr *)&address, size, host, sizeof(host), port, sizeof(port),
                          NI_NUMERICHOST | NI_NUMERICSERV);
    }
    (void)snprintf(channel->remote, sizeof(channel->remote), "%.45s:%.8s", host, port);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return channel;
}

static struct baton_status connect_one(struct channel *channel, const struct addrinfo *to,
                                       uint64_t deadline_ns)
{
    int error = 0;
    socklen_t size = sizeof(error);
    if (connect(channel->fd, to->ai_addr, to->ai_addrlen) == 0) {
        return baton_status_ok();
    }
    if (errno != EINPROGRESS) {
        return baton_status_errno(errno, "connect to", channel->remote);
    }
    struct baton_status st = channel_wait(channel, POLLOUT, deadline_ns);
    if (baton_ok(&st) &&
        (getsockopt(channel->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)) {
        st = baton_status_errno(error != 0 ? error : errno, "connect to", channel->remote);
    }
    return st;
}

struct baton_status channel_dial(const char *address, struct channel_tls *tls, uint64_t deadline_ns,
                                 struct channel **out)
{
    char host[HOST_BYTES];
    struct addrinfo *found = NULL;
    struct baton_status st = resolve(address, 0, host, &found);
    if (!baton_ok(&st)) {
        return st;
    }
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        st = baton_status_errno(errno, "socket", address);
        freeaddrinfo(found);
        return st;
    }
    struct channel *channel = channel_of_socket(fd);
    (void)snprintf(channel->remote, sizeof(channel->remote), "%.63s", address);
    st = connect_one(channel, found, deadline_ns);
    freeaddrinfo(found);
    if (baton_ok(&st) && tls != NULL) {
        st = channel_start_tls(channel, tls, host, deadline_ns);
    }
    if (!baton_ok(&st)) {
        channel_close(channel);
        return st;
    }
    *out = channel;
    return st;
}

struct baton_status channel_handshake(struct channel *channel, struct channel_tls *tls,
                                      uint64_t deadline_ns)
{
    return tls != NULL ? channel_start_tls(channel, tls, NULL, deadline_ns) : baton_status_ok();
}

void channel_close(struct channel *channel)
{
    if (channel != NULL) {
        SSL_free(channel->ssl);
        close(channel->fd);
        free(channel->buffer);
        free(channel);
    }
}

void channel_stop(struct channel *channel)
{
    (void)shutdown(channel->fd, SHUT_RDWR);
}

/* --- bytes --- */

static struct baton_status ended(const struct channel *channel)
{
    return baton_status_make(BATON_UNAVAILABLE, BATON_REASON_IO, "%s ended the connection",
                             channel->remote);
}

/* After a call on the socket that moved nothing. */
static struct baton_status after_failure(const struct channel *channel, short events,
                                         uint64_t deadline_ns)
{
    if (errno == EAGAIN || errno == EINTR) {
        return channel_wait(channel, events, deadline_ns);
    }
    return baton_status_make(BATON_UNAVAILABLE, BATON_REASON_IO, "%s: %s", channel->remote,
                             strerrordesc_np(errno));
}

static struct baton_status read_some(struct channel *channel, void *out, size_t size,
                                     uint64_t deadline_ns, size_t *out_size)
{
    if (channel->ssl != NULL) {
        return channel_tls_read(channel, out, size, deadline_ns, out_size);
    }
    for (;;) {
        ssize_t got = recv(channel->fd, out, size, 0);
        if (got > 0) {
            *out_size = (size_t)got;
            return baton_status_ok();
        }
        struct baton_status st =
            got == 0 ? ended(channel) : after_failure(channel, POLLIN, deadline_ns);
        if (!baton_ok(&st)) {
            return st;
        }
    }
}

struct baton_status channel_read(struct channel *channel, void *out, size_t size,
                                 uint64_t deadline_ns)
{
    for (size_t done = 0; done < size;) {
        size_t got = 0;
        struct baton_status st =
            read_some(channel, (uint8_t *)out + done, size - done, deadline_ns, &got);
        if (!baton_ok(&st)) {
            return st;
        }
        done += got;
    }
    return baton_status_ok();
}

static struct baton_status write_some(struct channel *channel, struct baton_bytes bytes,
                                      uint64_t deadline_ns, size_t *out_size)
{
    if (channel->ssl != NULL) {
        return channel_tls_write(channel, bytes, deadline_ns, out_size);
    }
    for (;;) {
        ssize_t sent = send(channel->fd, bytes.data, bytes.size, MSG_NOSIGNAL);
        if (sent > 0) {
            *out_size = (size_t)sent;
            return baton_status_ok();
        }
        struct baton_status st = after_failure(channel, POLLOUT, deadline_ns);
        if (!baton_ok(&st)) {
            return st;
        }
    }
}

struct baton_status channel_write(struct channel *channel, struct baton_bytes bytes,
                                  uint64_t deadline_ns)
{
    while (bytes.size > 0) {
        size_t sent = 0;
        struct baton_status st = write_some(channel, bytes, deadline_ns, &sent);
        if (!baton_ok(&st)) {
            return st;
        }
        bytes = (struct baton_bytes){ bytes.data + sent, bytes.size - sent };
    }
    return baton_status_ok();
}

static struct baton_status short_file(const struct channel *channel)
{
    return baton_status_make(BATON_DATA_LOSS, BATON_REASON_TRUNCATED,
                             "a file ends before what %s asked for", channel->remote);
}

static struct baton_status copy_file(struct channel *channel, int fd, uint64_t offset, size_t size,
                                     uint64_t deadline_ns)
{
    if (channel->buffer == NULL) {
        channel->buffer = malloc(FILE_PIECE);
        baton_assert(channel->buffer != NULL);
    }
    while (size > 0) {
        ssize_t got =
            pread(fd, channel->buffer, size < FILE_PIECE ? size : FILE_PIECE, (off_t)offset);
        if (got <= 0) {
            return got == 0 ? short_file(channel) : baton_status_errno(errno, "read", "a chunk");
        }
        struct baton_status st = channel_write(
            channel, (struct baton_bytes){ channel->buffer, (size_t)got }, deadline_ns);
        if (!baton_ok(&st)) {
            return st;
        }
        offset += (uint64_t)got;
        size -= (size_t)got;
    }
    return baton_status_ok();
}

struct baton_status channel_send_file(struct channel *channel, int fd, uint64_t offset, size_t size,
                                      uint64_t deadline_ns)
{
    off_t at = (off_t)offset;
    if (channel->ssl != NULL) {
        return copy_file(channel, fd, offset, size, deadline_ns);
    }
    while (size > 0) {
        ssize_t sent = sendfile(channel->fd, fd, &at, size);
        if (sent > 0) {
            size -= (size_t)sent;
            continue;
        }
        struct baton_status st =
            sent == 0 ? short_file(channel) : after_failure(channel, POLLOUT, deadline_ns);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    return baton_status_ok();
}

/* --- names --- */

const char *channel_identity(const struct channel *channel)
{
    return channel->names_count > 0 ? channel->names[0] : "";
}

const char *channel_remote(const struct channel *channel)
{
    return channel->remote;
}

bool channel_has_certificate(const struct channel *channel)
{
    return channel->has_certificate;
}

bool channel_has_name(const struct channel *channel, const char *name)
{
    for (unsigned i = 0; i < channel->names_count; i++) {
        if (strcmp(channel->names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

bool channel_is_agent(const struct channel *channel, const char *agent)
{
    static const char scheme[] = "spiffe://";
    static const char role[] = "/agent/";
    for (unsigned i = 0; i < channel->names_count; i++) {
        const char *name = channel->names[i];
        const char *path = strncmp(name, scheme, sizeof(scheme) - 1) == 0
                               ? strchr(name + sizeof(scheme) - 1, '/')
                               : NULL;
        bool spiffe = path != NULL && strncmp(path, role, sizeof(role) - 1) == 0 &&
                      strcmp(path + sizeof(role) - 1, agent) == 0;
        if (spiffe) {
            return true;
        }
    }
    return false;
}
