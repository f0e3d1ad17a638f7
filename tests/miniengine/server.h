/* server.h -- the HTTP server: connections, bodies, the guard, the table of routes.
 *
 * One thread a connection.  A request's body is read whole (bounded), then the guard is asked
 * (which may mean waiting), then the route's handler runs and queues one answer.
 *
 * Depends on: libmicrohttpd, jansson, guard.h, engine.h, tokenizer.h.  Threads: handlers run on
 * connection threads; struct server is read-only after start but for its counters.
 * Ownership: server_start/server_stop; engine, guard, faults and tokenizer are borrowed. */
#ifndef TESTS_MINIENGINE_SERVER_H
#define TESTS_MINIENGINE_SERVER_H

#include <jansson.h>
#include <microhttpd.h>
#include <stdatomic.h>

#include "tests/miniengine/engine.h"
#include "tests/miniengine/guard.h"
#include "tests/miniengine/tokenizer.h"

enum { SERVER_BODY_BYTES_MAX = 1 << 20, SERVER_NAME_MAX = 256 };

struct server {
    struct MHD_Daemon *daemon;
    struct engine *engine;
    struct guard *guard;
    struct faults *faults; /* Null: the faults' route does not exist. */
    const struct tokenizer *tokenizer;
    char model[SERVER_NAME_MAX];
    char dir[4096];
    char instance_id[8];
    char backend[16];
    bool sleep_mode;
    uint32_t ranks;
    uint32_t vocab;
    uint32_t length_max; /* Prompt and output together. */
    int64_t created;
    _Atomic uint32_t active;   /* Requests that are being answered. */
    _Atomic uint32_t requests; /* Since the start: makes ids. */
    _Atomic bool stopping;
};

/* One HTTP request on its way. */
struct exchange {
    struct server *server;
    struct MHD_Connection *connection;
    const char *method;
    const char *path;
    char *body;
    size_t body_bytes;
    bool too_long;
    struct guard_ticket ticket;
};

typedef enum MHD_Result server_handler_fn(struct exchange *exchange);

struct server_route {
    const char *method;
    const char *path;
    server_handler_fn *run;
};

/* The tables; each ends with a null path. */
extern const struct server_route server_control_routes[];
extern const struct server_route server_public_routes[];

/* Listens on host and port (0: a free one) and returns the port, or 0 with the reason. */
uint16_t server_start(struct server *server, const char *host, uint16_t port, struct trouble *why);

/* Takes no new connections any more. */
void server_quiesce(struct server *server);

#endif /* server.h */
