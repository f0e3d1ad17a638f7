/* web_server.h -- the inside of the server; private to api/web.
 *
 * A request lives from its first line until libmicrohttpd says that it is completed, and longer where somebody keeps it.
 * Its connection is null when it is over: nothing of libmicrohttpd is touched any more.  A connection stands still
 * ('suspended') while there is nothing to say on it.
 *
 * Depends on: web.h.  Threads: a request's mutex guards what its comment says; the rest is the server's thread's.
 * Ownership: the server has one reference of each open request. */
#ifndef BATON_WEB_WEB_SERVER_H
#define BATON_WEB_WEB_SERVER_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

#include "api/web/web.h"

enum { WEB_PEER_BYTES = 64 };

struct web_server {
    struct web_options options; /* With the defaults filled in. */
    struct MHD_Daemon *daemon;
    uint16_t port;
    pthread_t ticker; /* Says that streams live. */
    bool has_ticker;
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* It stops. */
    pthread_cond_t left;    /* A request is over. */
    /* Under the mutex. */
    struct web_request *requests;
    bool is_stopping;
};

struct web_request {
    atomic_uint references;
    struct web_server *server;
    struct web_request *previous; /* In the server's list, under its mutex. */
    struct web_request *next;
    const char *method; /* Until the handler returned. */
    const char *path;
    uint8_t *body;
    size_t body_bytes;
    bool was_handled;
    char peer[WEB_PEER_BYTES];

    pthread_mutex_t mutex;
    /* Under the mutex. */
    struct MHD_Connection *connection; /* Null: it is over. */
    bool is_suspended;
    bool is_stopping;              /* It may not stand still any more. */
    struct MHD_Response *response; /* Set: answered, not queued yet. */
    struct MHD_Response *offered;  /* Set: a stream that has not begun. */
    unsigned code;
    bool is_answered;
    bool is_stream; /* One was offered. */
    bool is_finished;
    bool was_quiet; /* Nothing was pushed since the ticker's last look. */
    struct web_stream_events events;
    void *context;
    uint8_t *queue; /* Of a stream: bytes from 'taken' to 'queued'. */
    size_t queued;
    size_t taken;
    size_t room;
};

/* --- address.c --- */

struct web_address {
    struct sockaddr_storage at;
    bool is_v6;
    bool is_local;
};
bool web_address_parse(const char *listen, struct web_address *out);
void web_address_write(const struct sockaddr *at, char out[WEB_PEER_BYTES]);

/* --- answer.c --- */

/* Lets a connection go on that stands still; with the request's mutex. */
void web_wake(struct web_request *request);
/* Says that a stream lives, if it was quiet; one that was only offered begins by that. */
void web_tick(struct web_request *request);

#endif /* web_server.h */
