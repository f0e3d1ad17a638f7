/* channel_state.h -- what channel.c and channel_tls.c share.
 *
 * Depends on: channel.h, OpenSSL.  Threads, ownership: as channel.h. */
#ifndef TRANSPORT_P2P_CHANNEL_STATE_H
#define TRANSPORT_P2P_CHANNEL_STATE_H

#include <openssl/ssl.h>

#include "api/base/limits.h"
#include "transport/p2p/channel.h"

enum { CHANNEL_NAMES_MAX = 8 };

struct channel {
    int fd;
    SSL *ssl;        /* Null: plain. */
    uint8_t *buffer; /* For files over TLS; made when needed. */
    char remote[BATON_NAME_BYTES];
    bool has_certificate;
    char names[CHANNEL_NAMES_MAX][BATON_TEXT_BYTES];
    unsigned names_count;
};

/* Waits for one side of the socket: POLLIN or POLLOUT. */
BATON_MUST_USE struct baton_status channel_wait(const struct channel *channel, short events,
                                                uint64_t deadline_ns);
/* Makes 'ssl' with the present certificates; 'host' null: the server's side. */
BATON_MUST_USE struct baton_status channel_start_tls(struct channel *channel,
                                                     struct channel_tls *tls, const char *host,
                                                     uint64_t deadline_ns);
/* As channel_read() and channel_write(), of some bytes: how many. */
BATON_MUST_USE struct baton_status channel_tls_read(struct channel *channel, void *out, size_t size,
                                                    uint64_t deadline_ns, size_t *out_size);
BATON_MUST_USE struct baton_status channel_tls_write(struct channel *channel,
                                                     struct baton_bytes bytes, uint64_t deadline_ns,
                                                     size_t *out_size);

#endif /* channel_state.h */
