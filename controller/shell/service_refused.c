/* service_refused.c -- connections that end before their first call: counted, noted in the audit and the log; see service.h. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/base/log.h"
#include "controller/shell/service.h"

enum { OBJECT_BYTES = 96, LOG_EACH_S = 1 };

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

/* At most one line in so long; the audit and the metrics have them all. */
static void log_refused(const struct rpc_refused *refused)
{
    static atomic_uint_fast64_t logged_ns;
    uint64_t now = baton_clock_monotonic_ns();
    uint64_t before = atomic_load(&logged_ns);
    bool is_due = before == 0 || now - before > LOG_EACH_S * BATON_NS_PER_S;
    if (is_due && atomic_compare_exchange_strong(&logged_ns, &before, now)) {
        struct baton_log_field fields[] = { BATON_LOG_TEXT("address", refused->address),
                                            BATON_LOG_TEXT("why", refused->why),
                                            BATON_LOG_TEXT("says", refused->name) };
        baton_log_fields(BATON_LOG_WARN, "controller", "a connection was refused", fields,
                         refused->name[0] != '\0' ? 3 : 2);
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
    struct baton_status st = baton_status_make(BATON_UNAUTHENTICATED, BATON_REASON_NOT_ALLOWED,
                                               "the connection is refused: %s", refused->why);
    name_address(refused->address, object);
    struct audit_entry entry = { .principal = "anonymous",
                                 .address = refused->address,
                                 .requested_by = refused->name,
                                 .method = "handshake",
                                 .object = object,
                                 .status = &st };
    audit_write(daemon->audit, &entry);
    log_refused(refused);
}
