/* address.c -- addresses to listen at, and of callers; see web_server.h. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/web/web_server.h"

enum { HOST_BYTES = 64 };

/* "host:port" or "[v6]:port" in its parts; false if it is neither. */
static bool split(const char *listen, char host[HOST_BYTES], long *port)
{
    const char *colon = strrchr(listen, ':');
    char *end = NULL;
    size_t size = colon != NULL ? (size_t)(colon - listen) : 0;
    if (size >= 2 && listen[0] == '[' && listen[size - 1] == ']') {
        listen++;
        size -= 2;
    }
    if (size == 0 || size >= HOST_BYTES) {
        return false;
    }
    memcpy(host, listen, size);
    host[size] = '\0';
    *port = strtol(colon + 1, &end, 10);
    return end != colon + 1 && *end == '\0' && *port >= 0 && *port <= 65535;
}

bool web_address_parse(const char *listen, struct web_address *out)
{
    char host[HOST_BYTES];
    long port = 0;
    struct sockaddr_in *v4 = (struct sockaddr_in *)&out->at;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&out->at;
    memset(out, 0, sizeof(*out));
    if (!split(listen, host, &port)) {
        return false;
    }
    const char *number = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
    if (inet_pton(AF_INET, number, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        out->is_local = ntohl(v4->sin_addr.s_addr) >> 24 == 127;
        return true;
    }
    out->is_v6 = inet_pton(AF_INET6, number, &v6->sin6_addr) == 1;
    out->is_local = out->is_v6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons((uint16_t)port);
    return out->is_v6;
}

bool web_listen_is_local(const char *listen)
{
    struct web_address address;
    return web_address_parse(listen, &address) && address.is_local;
}

void web_address_write(const struct sockaddr *at, char out[WEB_PEER_BYTES])
{
    char host[INET6_ADDRSTRLEN] = "";
    out[0] = '\0';
    if (at != NULL && at->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)at;
        (void)inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
        (void)snprintf(out, WEB_PEER_BYTES, "%s:%u", host, ntohs(v4->sin_port));
    } else if (at != NULL && at->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)at;
        (void)inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
        (void)snprintf(out, WEB_PEER_BYTES, "[%s]:%u", host, ntohs(v6->sin6_port));
    }
}
