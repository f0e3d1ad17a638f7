/* web.h -- a small HTTP/1.1 server: a request in, an answer out, now or later, whole or as a stream of pieces.
 *
 * One thread speaks with all callers and runs the handler, which must not wait for anything: a request that is not
 * answered when the handler returns stands still until somebody answers it, from any thread.  Connections, headers,
 * bodies and what waits in a stream are bounded; a caller that takes nothing is left.
 *
 * Not here: what a path means, who may ask, TLS.
 *
 * Depends on: api/base, libmicrohttpd.  Threads: as said; the functions of a request are for any thread, but for what its
 * caller sent, which is for the handler alone.  Ownership: requests are counted; the handler's is borrowed. */
#ifndef BATON_WEB_WEB_H
#define BATON_WEB_WEB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/bytes.h"
#include "api/base/status.h"

struct web_server;
struct web_request;

/* Runs once for each request, when its body is there. */
typedef void web_handler_fn(struct web_request *request, void *context);

/* Zero members mean the default in brackets. */
struct web_options {
    /* "127.0.0.1:9470", "[::1]:9470"; an address, not a name; port 0 picks a free one. */
    const char *listen;
    const char *field; /* What errors call it: "metrics.listen". */
    web_handler_fn *handler;
    void *context;
    unsigned connections_max;        /* [32] */
    unsigned connections_of_one_max; /* Of one address.  [8] */
    size_t body_bytes_max;           /* Larger ones are answered 413.  [1024] */
    size_t stream_bytes_max; /* What may wait in a stream for its caller to take it.  [1 MiB] */
    const char *alive;       /* Sent into streams that say nothing for 10 s.  [nothing] */
};

/* Serves until destroyed.  INVALID_ARGUMENT for what is no address, FAILED_PRECONDITION IN_USE for a taken one. */
BATON_MUST_USE struct baton_status web_create(const struct web_options *options,
                                              struct web_server **out);
uint16_t web_port(const struct web_server *server);
/* Waits until nobody is being answered, at most so long: for what ends by itself to be taken.  Not on the server's thread. */
void web_drain(struct web_server *server, uint64_t timeout_ns);
/* Ends all connections; streams hear of it by their 'ended'.  Not on the server's thread.  Null is fine. */
void web_destroy(struct web_server *server);

/* Whether an address to listen at can be reached from this machine alone; false also for what is no address. */
bool web_listen_is_local(const char *listen);

/* --- what the caller sent --- */

const char *web_method(const struct web_request *request);
const char *web_path(const struct web_request *request);
/* Null: it is not there. */
const char *web_header(const struct web_request *request, const char *name);
struct baton_bytes web_body(const struct web_request *request);
/* "127.0.0.1:4711", "[::1]:4711". */
const char *web_peer(const struct web_request *request);

/* --- answering --- */

struct web_request *web_request_ref(struct web_request *request); /* Returns 'request'. */
void web_request_unref(struct web_request *request);              /* Null is fine. */

struct web_field {
    const char *name;
    const char *value;
};

struct web_answer {
    unsigned code;
    const char *type;
    struct baton_bytes body;        /* Copied. */
    const struct web_field *fields; /* More headers. */
    size_t fields_count;
};

/* The first answer counts; false: it is a later one, or its caller left, and it is dropped. */
bool web_answer(struct web_request *request, const struct web_answer *answer);
/* The same with one line of text. */
void web_answer_text(struct web_request *request, unsigned code, const char *text);

/* How a stream tells its owner of it, on the server's thread.  Members may be null. */
struct web_stream_events {
    void (*drained)(void *context); /* The caller took all that was pushed. */
    /* Exactly once: the caller left, the answer was taken (the stream's end or another one), or the server ends. */
    void (*ended)(void *context);
};

/* In the handler, before an answer: answers 200 with pieces to come, as soon as there is one, it is finished, or nothing was said for
 * 10 s ('alive'), from when on a caller that left is noticed.  Until then web_answer() may give another answer. */
void web_stream_offer(struct web_request *request, const struct web_answer *head,
                      const struct web_stream_events *events, void *context);
/* Copies.  False: the caller left, or takes too little; the stream ends. */
bool web_stream_push(struct web_request *request, struct baton_bytes piece);
/* Whether so little waits that more may be pushed at once; else 'drained' says when. */
bool web_stream_has_room(struct web_request *request);
/* After what was pushed. */
void web_stream_finish(struct web_request *request);

#endif /* web.h */
