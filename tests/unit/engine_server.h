/* engine_server.h -- a small HTTP server that answers by a script, for tests of agent/engine.
 *
 * Real sockets on loopback, one connection at a time.  A row says what to answer to one request;
 * several rows for the same request are used in order, and the last of them again and again.  A
 * request without a row is answered 404.
 *
 * Threads: one of its own; queries from any.  Ownership: script_start/stop; rows are borrowed. */
#ifndef TESTS_UNIT_ENGINE_SERVER_H
#define TESTS_UNIT_ENGINE_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/engine/guard_page.h"

enum script_mode {
    SCRIPT_ANSWER,
    SCRIPT_HANG,    /* Reads the request and answers nothing until the client leaves. */
    SCRIPT_CLOSE,   /* Reads the request and closes. */
    SCRIPT_CUT,     /* Promises the whole body, sends half, closes. */
    SCRIPT_ENDLESS, /* Sends a body until the client leaves. */
    SCRIPT_KEEP,    /* Answers, and closes only when another request came on the same connection. */
    SCRIPT_NO_HTTP, /* Answers with bytes that are no HTTP. */
};

struct script_row {
    const char *request; /* "GET /is_paused", "POST /pause?mode=keep", or "RPC baton_report". */
    int code;
    const char *body;
    enum script_mode mode;
    const char *header; /* One more header line without its end; may be null. */
};

struct script;

struct script *script_start(const struct script_row *rows, size_t rows_count);
void script_stop(struct script *script);

/* "http://127.0.0.1:PORT"; belongs to the script. */
const char *script_url(const struct script *script);
/* How often this request came; names as in rows. */
unsigned script_count(struct script *script, const char *request);
/* True if the last one of this kind held 'text' anywhere in head or body. */
bool script_last_has(struct script *script, const char *request, const char *text);
/* Waits (bounded) until a request of this kind has come. */
bool script_await(struct script *script, const char *request);

/* A new page that a guard has already started with, of boot 3; the caller unmaps it and removes 'path'. */
struct guard_page *script_page(char *path, size_t path_bytes);

#endif /* engine_server.h */
