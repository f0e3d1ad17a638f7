/* dashboard.h -- the dashboard: a page for browsers, and the JSON bridge that it and `curl` speak with.
 *
 * POST /api/v1/Fleet/ListGroups with the request message as JSON calls baton.v1.Fleet/ListGroups and answers with its message
 * as JSON (the proto3 mapping, as batonctl's -o json); an RPC that streams answers with server-sent events.  Each call goes
 * through the gRPC server of the process, on behalf of who asked, so that roles, rates, the audit, deadlines and numbers are
 * the same ones.  GET gives the files of the page.  deploy/docs/dashboard.md has the rules.
 *
 * Not here: what an RPC means, who may call it, TLS.
 *
 * Depends on: api/web, api/rpc, api/wire.  Threads: its own; create and destroy are the owner's.  Ownership: options are
 * borrowed for the life of the dashboard, the server outlives it. */
#ifndef CONTROLLER_DASHBOARD_DASHBOARD_H
#define CONTROLLER_DASHBOARD_DASHBOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/status.h"

struct dashboard;
struct rpc_route;
struct rpc_server;

struct dashboard_options {
    const char *listen; /* "127.0.0.1:9480"; an address, not a name; port 0 picks a free one. */
    /* Other machines may reach it, without TLS.  Else such an address is refused. */
    bool insecure;
    struct rpc_server *server;
    const struct rpc_route *routes; /* What can be asked for. */
    size_t routes_count;
};

/* Serves at once; calls are answered UNAVAILABLE as long as the server does not run.  FAILED_PRECONDITION NOT_ALLOWED for an
 * address that other machines reach, IN_USE for a taken one, INVALID_ARGUMENT for none. */
BATON_MUST_USE struct baton_status dashboard_create(const struct dashboard_options *options,
                                                    struct dashboard **out);
uint16_t dashboard_port(const struct dashboard *dashboard);
/* Ends all calls and streams.  Null is fine. */
void dashboard_destroy(struct dashboard *dashboard);

#endif /* dashboard.h */
