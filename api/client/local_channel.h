/* local_channel.h -- frames over one connected Unix socket, each call below a deadline.
 *
 * The socket is non-blocking; waiting is done in poll(), so a peer that stalls costs the caller its
 * deadline and no more.  Frames are read exactly, never beyond: a descriptor that the kernel hands
 * out belongs to the frame whose header came with it.
 *
 * Depends on: api/base, local_protocol.h.  Threads: one at a time for each channel.
 * Ownership: a channel owns its socket and a received descriptor until it is taken. */
#ifndef BATON_CLIENT_LOCAL_CHANNEL_H
#define BATON_CLIENT_LOCAL_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

#include "api/base/bytes.h"
#include "api/base/status.h"
#include "api/client/local_protocol.h"

struct local_channel {
    int fd;         /* -1: closed. */
    int passed_fd;  /* Came with the last message; -1: none. */
    bool is_deaf;   /* What came is no frame: nothing more can be read, but an answer may go. */
    bool is_broken; /* A frame was cut: nothing more can be said. */
    uint8_t *body;  /* LOCAL_BODY_BYTES_MAX bytes. */
    uint8_t *out;   /* LOCAL_MESSAGE_BYTES_MAX bytes. */
};

enum local_wait {
    LOCAL_WAIT_READABLE, /* A message begins, or the other side is gone. */
    LOCAL_WAIT_TIMEOUT,
    LOCAL_WAIT_WOKEN, /* 'wake_fd' is readable. */
};

/* Fills 'out' from "unix:/path" or "/path"; INVALID_ARGUMENT BAD_FIELD otherwise. */
BATON_MUST_USE struct baton_status local_address_parse(const char *address,
                                                       struct sockaddr_un *out);

/* Takes 'fd' over (also on failure) and makes it non-blocking and close-on-exec. */
BATON_MUST_USE struct baton_status local_channel_init(struct local_channel *channel, int fd);
/* Closes.  With 'shut', also for processes that inherited the socket by fork.  A zeroed or closed
 * channel is fine. */
void local_channel_deinit(struct local_channel *channel, bool shut);

/* Sends a message; DATA with its bytes.  'pass_fd' goes along unless it is -1, and stays the
 * caller's.  DEADLINE_EXCEEDED, or UNAVAILABLE where the other side is gone. */
BATON_MUST_USE struct baton_status local_channel_send(struct local_channel *channel,
                                                      const struct local_message *message,
                                                      int pass_fd, uint64_t deadline_ns);
/* Sends frames that are encoded already. */
BATON_MUST_USE struct baton_status local_channel_send_encoded(struct local_channel *channel,
                                                              struct baton_bytes frames,
                                                              uint64_t deadline_ns);

/* True if a small message would go without waiting. */
bool local_channel_is_writable(const struct local_channel *channel);

/* Waits for something to read; 'wake_fd' may be -1. */
enum local_wait local_channel_wait(const struct local_channel *channel, int wake_fd,
                                   uint64_t deadline_ns);

/* Reads one message; DATA borrows from the channel until the next receive.  UNAVAILABLE: the other
 * side closed; INVALID_ARGUMENT: it does not speak the protocol; DEADLINE_EXCEEDED. */
BATON_MUST_USE struct baton_status local_channel_receive(struct local_channel *channel,
                                                         struct local_message *out,
                                                         uint64_t deadline_ns);

/* The descriptor that came with the last message, now the caller's; -1: none came. */
int local_channel_take_fd(struct local_channel *channel);

#endif /* local_channel.h */
