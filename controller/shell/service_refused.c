/* service_refused.c -- connections that end before their first call: counted, noted in the audit and the log; see service.h. */
#include <stdio.h>
#include <string.h>

#include "controller/shell/service.h"

enum { OBJECT_BYTES = 96 };

/* "address/10.0.0.7" of "ipv4:10.0.0.7:41234": the port says nothing. */
static void name_address(const char *address, char out[OBJECT_BYTES])
{
    const char *host = strchr(address, ':');
    const char *port = strrchr(address, ':');
    if (host == NULL || port <= host) {
        (void)snprintf(out, OBJECT_BYTES, "address/unknown");
    } else {
        (void)snprintf(out, OBJECT_BYTES, "address/%.*s", (int)(port - host - 1), host + 1);
    }
}

void service_refused(const struct rpc_refused *refused, void *context)
{
    struct daemon *daemon = context;
    char object[OBJECT_BYTES];
    stats_handshake_refused(daemon->stats, refused->why[0] != '\0');
    if (refused->why[0] == '\0') {
        return; /* A probe of the port, a scanner, a client that changed its mind. */
    }
    struct baton_status st =
        refused->is_limit
            ? baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                "the connection is refused: %s (connections.perAddress)",
                                refused->why)
            : baton_status_make(BATON_UNAUTHENTICATED, BATON_REASON_NOT_ALLOWED,
                                "the connection is refused: %s", refused->why);
    name_address(refused->address, object);
    struct audit_entry entry = { .principal = "anonymous",
                                 .address = refused->address,
                                 .requested_by = refused->name,
                                 .method = "handshake",
                                 .object = object,
                                 .status = &st };
    audit_write(daemon->audit, &entry);
    rpc_refused_log(refused, "controller");
}
