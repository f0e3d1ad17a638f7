/* etcd_http.h -- one POST to one member of etcd, with a deadline of ours; or one whose answer goes on.
 *
 * The only user of libcurl in the controller.  Connections are kept.  No proxy, no redirect.  The
 * token goes out as the Authorization header and is printed nowhere; bodies are not printed either.
 *
 * Depends on: etcd_address.h, etcd_answer.h (bounds).  Threads: one at a time.
 * Ownership: etcd_http_open/close, etcd_stream_open/close; a reply's body belongs to the handle until its next call. */
#ifndef CONTROLLER_STORE_ETCD_HTTP_H
#define CONTROLLER_STORE_ETCD_HTTP_H

#include "api/base/bytes.h"
#include "controller/store/etcd_address.h"

enum etcd_sent {
    ETCD_NOT_SENT,  /* Surely: no connection was made for it, and none was kept. */
    ETCD_NO_ANSWER, /* It may have been sent, and may still take effect. */
    ETCD_ANSWERED,  /* A whole answer, of whatever code. */
    ETCD_TOO_LONG,  /* An answer of more than ETCD_ANSWER_BYTES_MAX. */
};

struct etcd_reply {
    enum etcd_sent sent;
    long code; /* HTTP's; 0 unless ANSWERED. */
    struct baton_bytes body;
};

struct etcd_http;

BATON_MUST_USE struct baton_status etcd_http_open(const struct etcd_address *address,
                                                  struct etcd_http **out);
void etcd_http_close(struct etcd_http *http);

/* The token of all calls from now on; empty: none. */
BATON_MUST_USE struct baton_status etcd_http_set_token(struct etcd_http *http, const char *token);

/* Posts 'body' to "<endpoint>/v3/<path>" and waits for the answer.  OK means that one came, whatever
 * its code.  Otherwise UNAVAILABLE STORE_UNAVAILABLE, FAILED_PRECONDITION (the certificates do not
 * fit) or RESOURCE_EXHAUSTED LIMIT (TOO_LONG). */
BATON_MUST_USE struct baton_status etcd_http_post(struct etcd_http *http, uint32_t endpoint,
                                                  const char *path, struct baton_bytes body,
                                                  uint64_t timeout_ms, struct etcd_reply *reply);

/* --- an answer that goes on: one JSON object a line --- */

struct etcd_stream;

enum etcd_stream_next {
    ETCD_STREAM_LINE, /* 'line', borrowed until the next call; what comes last may have no end of line. */
    ETCD_STREAM_QUIET, /* Nothing came in time, or somebody woke it. */
    ETCD_STREAM_END,   /* 'why' is a failure, also when etcd ended it well. */
};

/* Posts 'body', which is copied, to "<endpoint>/v3/<path>", over a connection of its own, with the token of now.
 * Nothing is sent before etcd_stream_next(). */
BATON_MUST_USE struct baton_status etcd_stream_open(const struct etcd_http *http, uint32_t endpoint,
                                                    const char *path, struct baton_bytes body,
                                                    struct etcd_stream **out);
/* Waits at most 'wait_ms' for a line.  More than ETCD_ANSWER_BYTES_MAX that was not taken ends it with
 * RESOURCE_EXHAUSTED LIMIT. */
enum etcd_stream_next etcd_stream_next(struct etcd_stream *stream, uint64_t wait_ms,
                                       struct baton_bytes *line, struct baton_status *why);
/* From any thread, before the close: whoever waits in etcd_stream_next() returns soon. */
void etcd_stream_wake(struct etcd_stream *stream);
/* Accepts null. */
void etcd_stream_close(struct etcd_stream *stream);

#endif /* etcd_http.h */
