/* http.h -- requests to one server, each with a deadline of ours.
 *
 * Over libcurl.  A request that changes something goes over a connection of its own:
 * libcurl sends a request again when a kept connection turns out to be dead, and a call that changes
 * weights must never be sent twice.  No proxy, no redirect, and only loopback addresses unless told
 * otherwise (an engine's control routes have no encryption).  The token is sent and never printed.
 * Over https the server must show a certificate of its name, signed by the authority.
 *
 * It knows no route and reads no body.
 *
 * Depends on: api/base.
 * Threads: one caller at a time; http_abort() and http_aborted() from any thread.
 * Ownership: http_open/close; an answer's body belongs to the handle, until its next call. */
#ifndef API_HTTP_HTTP_H
#define API_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/limits.h"
#include "api/base/status.h"

enum { HTTP_TOKEN_BYTES = 129, HTTP_BODY_BYTES_MAX = 8 << 20, HTTP_VERSION_TEXT_BYTES = 24 };

/* Files of https, PEM; null or empty: see each. */
struct http_tls {
    const char *ca;   /* Whom to believe; none: the system's authorities. */
    const char *cert; /* Shown to the server; none: nothing is shown. */
    const char *key;  /* Of 'cert'. */
};

struct http_options {
    const char *url;       /* "http://127.0.0.1:8000"; a path in it comes before every request's. */
    const char *token;     /* Sent as x-baton-token; null or empty: none. */
    bool bearer;           /* The token is sent as "authorization: Bearer", too. */
    bool remote_allowed;   /* Addresses other than loopback. */
    size_t body_bytes_max; /* Of an answer; 0: HTTP_BODY_BYTES_MAX. */
    const struct http_tls *tls; /* Allows https; null: plain http only. */
};

/* How far a request came.  Only NOT_SENT, of one that is not repeatable, proves that the engine did
 * nothing. */
enum http_outcome {
    HTTP_NOT_SENT,  /* No connection was made. */
    HTTP_NO_ANSWER, /* It may have been sent, and may still take effect. */
    HTTP_ANSWERED,  /* A whole answer, of whatever code. */
};

struct http_request {
    const char *method; /* "GET", "POST", "DELETE" */
    const char *path;   /* Begins with '/'; with its query. */
    const char *body;   /* JSON; null: none. */
    bool plain;         /* Without the token. */
    bool repeatable;    /* It changes nothing: it may use a kept connection, and be sent twice. */
};

struct http_answer {
    enum http_outcome outcome;
    uint32_t code;    /* 0 unless ANSWERED. */
    const char *body; /* Terminated; never null. */
    size_t body_bytes;
    char version[HTTP_VERSION_TEXT_BYTES]; /* Header x-baton-version; empty: none. */
};

struct http;

/* INVALID_ARGUMENT for a URL that is not of an allowed scheme or names no host. */
BATON_MUST_USE struct baton_status http_open(const struct http_options *options, struct http **out);
void http_close(struct http *http);

/* Sends one request and waits for its answer until 'deadline_ns' (monotonic).  OK means that an answer
 * came, whatever its code.  Otherwise CANCELLED (aborted), DEADLINE_EXCEEDED, UNAVAILABLE (refused,
 * reset, cut short), PERMISSION_DENIED (not a loopback address) or RESOURCE_EXHAUSTED (answer longer
 * than allowed), with 'outcome' saying what may have happened at the engine. */
BATON_MUST_USE struct baton_status http_call(struct http *http, const struct http_request *request,
                                             uint64_t deadline_ns, struct http_answer *answer);

/* Forgets an earlier abort: a new operation begins. */
void http_begin(struct http *http);
/* Ends the call or wait under way and all that follow until http_begin(). */
void http_abort(struct http *http);
bool http_aborted(const struct http *http);

/* Waits until 'until_ns' or an abort, whichever is first. */
void http_wait(struct http *http, uint64_t until_ns);

#endif /* http.h */
