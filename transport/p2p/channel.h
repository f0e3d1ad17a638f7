/* channel.h -- one connection between two nodes: TCP, with TLS or without, every wait with a deadline.
 *
 * Private to transport/p2p, but for channel_tls, which its users make.  The process must ignore or block SIGPIPE.
 *
 * Depends on: api/base, OpenSSL (private).  Threads: a channel belongs to one thread; channel_stop() may come from
 * any; a channel_tls from any.  Ownership: channel_dial() and _accept() give, channel_close() takes; a channel_tls
 * outlives its channels. */
#ifndef TRANSPORT_P2P_CHANNEL_H
#define TRANSPORT_P2P_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/bytes.h"
#include "api/base/status.h"

struct channel;
struct channel_tls;

/* PEM files; they are read again when they change. */
struct channel_tls_files {
    const char *ca;   /* Who signs the other side.  A server without one asks for no certificate. */
    const char *cert; /* Empty or null: none, clients only. */
    const char *key;
    bool is_server;
};

/* Reads everything once: bad files fail here, by name. */
BATON_MUST_USE struct baton_status channel_tls_create(const struct channel_tls_files *files,
                                                      struct channel_tls **out);
/* Null is fine. */
void channel_tls_destroy(struct channel_tls *tls);

/* "host:port", "[v6]:port"; port 0: any that is free. */
BATON_MUST_USE struct baton_status channel_listen(const char *address, int *out_fd);
uint16_t channel_listen_port(int fd);

/* 'tls' null: plain.  With TLS the other side's certificate must be for the address's host. */
BATON_MUST_USE struct baton_status channel_dial(const char *address, struct channel_tls *tls,
                                                uint64_t deadline_ns, struct channel **out);
/* Over an accepted socket, which it takes over. */
struct channel *channel_of_socket(int fd);
/* The server's side of the handshake; nothing without 'tls'. */
BATON_MUST_USE struct baton_status channel_handshake(struct channel *channel,
                                                     struct channel_tls *tls, uint64_t deadline_ns);
/* Null is fine. */
void channel_close(struct channel *channel);
/* Whatever it waits for fails at once. */
void channel_stop(struct channel *channel);

/* Exactly 'size' bytes.  UNAVAILABLE: the other side ended; DEADLINE_EXCEEDED. */
BATON_MUST_USE struct baton_status channel_read(struct channel *channel, void *out, size_t size,
                                                uint64_t deadline_ns);
BATON_MUST_USE struct baton_status channel_write(struct channel *channel, struct baton_bytes bytes,
                                                 uint64_t deadline_ns);
/* A part of a file: by the kernel alone where there is no TLS. */
BATON_MUST_USE struct baton_status channel_send_file(struct channel *channel, int fd,
                                                     uint64_t offset, size_t size,
                                                     uint64_t deadline_ns);

/* Who the other side is, for records: the first name of its certificate, else "". */
const char *channel_identity(const struct channel *channel);
const char *channel_remote(const struct channel *channel);
/* It showed a certificate that was verified. */
bool channel_has_certificate(const struct channel *channel);
/* One of its certificate's names (SPIFFE ids, DNS names) is this. */
bool channel_has_name(const struct channel *channel, const char *name);
/* One of them is that of an agent: spiffe://<any trust domain>/agent/<agent>. */
bool channel_is_agent(const struct channel *channel, const char *agent);

#endif /* channel.h */
