/* caller.c -- who is behind an HTTP request; see bridge.h. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "controller/dashboard/bridge.h"

enum { HOST_BYTES = 80 };

/* The host without its port and brackets; false: there is none. */
static bool read_host(const char *header, char out[HOST_BYTES])
{
    const char *from = header[0] == '[' ? header + 1 : header;
    size_t size = strcspn(from, from != header ? "]" : ":");
    if (size == 0 || size >= HOST_BYTES) {
        return false;
    }
    memcpy(out, from, size);
    out[size] = '\0';
    return true;
}

static bool is_address(const char *host)
{
    uint8_t room[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, room) == 1 || inet_pton(AF_INET6, host, room) == 1;
}

/* A name can be made to point anywhere; a number cannot, and who says "localhost" is here. */
static bool names_this_server(const char *header, bool is_local)
{
    char host[HOST_BYTES];
    char address[HOST_BYTES + sizeof("[]:0")];
    if (!read_host(header, host)) {
        return false;
    }
    /* Not the header itself: "unix:80" is a host and its port here, and a socket there. */
    (void)snprintf(address, sizeof(address), "[%s]:0", host);
    return strcmp(host, "localhost") == 0 ||
           (is_address(host) && (!is_local || rpc_address_is_local(address)));
}

struct baton_status bridge_check_origin(const char *host, const char *origin, bool is_local)
{
    static const char HTTP[] = "http://";
    if (host == NULL || !names_this_server(host, is_local)) {
        return baton_status_hint(
            baton_status_make(BATON_PERMISSION_DENIED, BATON_REASON_NOT_ALLOWED,
                              "the host '%.80s' is not this server's", host != NULL ? host : ""),
            "ask for it by its address or as localhost, not by a name; deploy/docs/dashboard.md");
    }
    if (origin != NULL && (strncmp(origin, HTTP, sizeof(HTTP) - 1) != 0 ||
                           strcmp(origin + sizeof(HTTP) - 1, host) != 0)) {
        return baton_status_make(BATON_PERMISSION_DENIED, BATON_REASON_NOT_ALLOWED,
                                 "a page of %.80s may not call this server", origin);
    }
    return baton_status_ok();
}

void bridge_caller(const char *peer, bool is_passed_on, char out[BRIDGE_CALLER_BYTES])
{
    (void)snprintf(out, BRIDGE_CALLER_BYTES, "%s%s", is_passed_on ? "proxy " : "", peer);
}
