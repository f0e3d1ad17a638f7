/* bridge.h -- the inside of the dashboard: from an HTTP request to a call, and back; private to controller/dashboard.
 *
 * Depends on: dashboard.h, api/web, api/rpc.  Threads: requests come in on the web server's thread, answers on the client's.
 * Ownership: stated per function. */
#ifndef CONTROLLER_DASHBOARD_BRIDGE_H
#define CONTROLLER_DASHBOARD_BRIDGE_H

#include "api/rpc/rpc.h"
#include "api/web/web.h"
#include "controller/dashboard/dashboard.h"

struct dashboard {
    struct dashboard_options options;
    bool is_local; /* Only this machine reaches it. */
    struct rpc_client *client;
    struct web_server *web;
};

enum { BRIDGE_METHOD_BYTES = 96, BRIDGE_CALLER_BYTES = 80, BRIDGE_PAIRS = 2 };

/* One request, understood. */
struct bridge_call {
    char method[BRIDGE_METHOD_BYTES]; /* "baton.v1.Fleet/ListGroups" */
    struct rpc_shape shape;
    ProtobufCMessage *message; /* Free it with baton_wire_free(). */
    char caller[BRIDGE_CALLER_BYTES];
    struct rpc_metadata pairs[BRIDGE_PAIRS]; /* Borrow from 'caller' and the request. */
    size_t pairs_count;
};

/* --- caller.c --- */

/* Whether a page of another origin, or of a name that somebody made point here, might be behind this request: a browser on
 * this machine would call with this machine's rights.  Not OK: why it is refused. */
BATON_MUST_USE struct baton_status bridge_check_origin(const char *host, const char *origin,
                                                       bool is_local);
/* On whose behalf a request with these headers comes from 'peer': nobody's, where a proxy says that it only passes it on. */
void bridge_caller(const char *peer, bool is_passed_on, char out[BRIDGE_CALLER_BYTES]);

/* --- bridge.c --- */

/* "/api/v1/Fleet/ListGroups" to its method; false: it is no such path. */
bool bridge_method_of(const char *path, char out[BRIDGE_METHOD_BYTES]);
/* A body as a message of 'type': JSON, "" for {}. */
BATON_MUST_USE struct baton_status bridge_read_body(struct baton_bytes body,
                                                    const ProtobufCMessageDescriptor *type,
                                                    ProtobufCMessage **out);
/* The web server's handler. */
void bridge_handle(struct web_request *request, void *context);

/* --- answers.c --- */

/* A failure as JSON, and the HTTP status that goes with its code; the text is the caller's, from malloc().  False: it was answered
 * before. */
char *bridge_failure_text(const struct baton_status *status);
unsigned bridge_http_code(enum baton_code code);
bool bridge_answer_failure(struct web_request *request, const struct baton_status *status);
/* A message as JSON; takes it. */
void bridge_answer_message(struct web_request *request, void *message);
/* {"version": "v1", "methods": [...]} */
void bridge_answer_methods(struct web_request *request, const struct dashboard_options *options);
/* One server-sent event, from malloc(): of a message with its revision as id, or of an end. */
char *bridge_event_text(const void *message);
char *bridge_end_text(const struct baton_status *status);

/* --- stream.c --- */

/* Opens a stream whose messages become events; takes the message. */
void bridge_stream(struct dashboard *dashboard, struct web_request *request,
                   struct bridge_call *call);

/* --- files.c --- */

/* A file of the page, or 404. */
void bridge_answer_file(struct web_request *request);

#endif /* bridge.h */
