/* peer.c -- who called, and whether an address is of this machine; see rpc.h. */
#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/support/alloc.h>

#include "api/base/clock.h"
#include "api/rpc/server.h"

enum { HOST_BYTES = 64 };

/* --- addresses --- */

/* One host without its port. */
static bool is_local_host(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, &v4) == 1) {
        return (ntohl(v4.s_addr) >> 24) == 127;
    }
    return strcmp(host, "localhost") == 0 ||
           (inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6));
}

/* "host:port", "[v6]:port", or gRPC's "%5Bv6%5D:port"; 'size' bytes of 'text'. */
static bool is_local_endpoint(const char *text, size_t size)
{
    char host[HOST_BYTES];
    const char *open = "";
    const char *close = ":";
    if (size > 0 && text[0] == '[') {
        open = "[";
        close = "]";
    } else if (size > 2 && memcmp(text, "%5B", 3) == 0) {
        open = "%5B";
        close = "%5D";
    }
    if (size < strlen(open) || size - strlen(open) >= sizeof(host)) {
        return false;
    }
    memcpy(host, text + strlen(open), size - strlen(open));
    host[size - strlen(open)] = '\0';
    char *end = strstr(host, close);
    if (end == NULL) {
        return false;
    }
    *end = '\0';
    return is_local_host(host);
}

bool rpc_address_is_local(const char *address)
{
    static const char *const SCHEMES[] = { "ipv4:", "ipv6:", "dns:///", "dns:" };
    if (strncmp(address, "unix:", 5) == 0 || strncmp(address, "unix-abstract:", 14) == 0) {
        return true;
    }
    for (size_t i = 0; i < sizeof(SCHEMES) / sizeof(SCHEMES[0]); i++) {
        if (strncmp(address, SCHEMES[i], strlen(SCHEMES[i])) == 0) {
            address += strlen(SCHEMES[i]);
            break;
        }
    }
    for (;;) {
        size_t size = strcspn(address, ",");
        if (!is_local_endpoint(address, size)) {
            return false;
        }
        if (address[size] == '\0') {
            return true;
        }
        address += size + 1;
    }
}

/* --- identity --- */

/* A property's value, if it is a name: a NUL or a line's end inside would let one name pass for another. */
static bool copy_name(const grpc_auth_property *property, char out[RPC_IDENTITY_BYTES])
{
    size_t size = property->value_length;
    if (size == 0 || size >= RPC_IDENTITY_BYTES) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        if (property->value[i] <= ' ' || property->value[i] > '~') {
            return false;
        }
    }
    memcpy(out, property->value, size);
    out[size] = '\0';
    return true;
}

static void read_names(const grpc_auth_context *context, const char *property_name,
                       enum rpc_name_kind kind, struct rpc_peer *out)
{
    grpc_auth_property_iterator at =
        grpc_auth_context_find_properties_by_name(context, property_name);
    const grpc_auth_property *property;
    while (out->names_count < RPC_NAMES_MAX &&
           (property = grpc_auth_property_iterator_next(&at)) != NULL) {
        struct rpc_peer_name *name = &out->names[out->names_count];
        name->kind = kind;
        out->names_count += copy_name(property, name->text);
    }
}

/* Under a mark of its own, since whoever signs may write "local" or another's SPIFFE id there. */
static void show_common_name(const grpc_auth_context *context, char out[RPC_IDENTITY_BYTES])
{
    static const char MARK[] = "cn:";
    char name[RPC_IDENTITY_BYTES];
    grpc_auth_property_iterator at =
        grpc_auth_context_find_properties_by_name(context, "x509_common_name");
    const grpc_auth_property *common = grpc_auth_property_iterator_next(&at);
    if (common == NULL || !copy_name(common, name)) {
        (void)snprintf(out, RPC_IDENTITY_BYTES, "unnamed");
    } else {
        (void)snprintf(out, RPC_IDENTITY_BYTES, "%s%.*s", MARK,
                       RPC_IDENTITY_BYTES - (int)sizeof(MARK), name);
    }
}

static void show(const grpc_auth_context *context, struct rpc_peer *out)
{
    if (out->names_count > 0) {
        memcpy(out->identity, out->names[0].text, sizeof(out->identity));
    } else {
        show_common_name(context, out->identity);
    }
}

/* Up to its last name: most callers have one, and each open call keeps its own. */
static size_t peer_bytes(const struct rpc_peer *peer)
{
    return offsetof(struct rpc_peer, names) + peer->names_count * sizeof(peer->names[0]);
}

static bool is_encrypted(const grpc_auth_context *context)
{
    grpc_auth_property_iterator at =
        grpc_auth_context_find_properties_by_name(context, "transport_security_type");
    const grpc_auth_property *type = grpc_auth_property_iterator_next(&at);
    return type != NULL && (strcmp(type->value, "ssl") == 0 || strcmp(type->value, "tls") == 0);
}

static void read_identity(grpc_call *core, struct rpc_peer *out)
{
    grpc_auth_context *context = grpc_call_auth_context(core);
    if (context == NULL) {
        return;
    }
    out->is_private = is_encrypted(context);
    if (grpc_auth_context_peer_is_authenticated(context) != 0) {
        out->principal = RPC_PRINCIPAL_CERTIFICATE;
        read_names(context, "peer_spiffe_id", RPC_NAME_SPIFFE, out);
        read_names(context, "peer_dns", RPC_NAME_DNS, out);
        show(context, out);
    }
    grpc_auth_context_release(context);
}

static void keep_peer(struct rpc_call *call, const struct rpc_peer *peer)
{
    free(call->peer);
    call->peer = malloc(peer_bytes(peer));
    baton_assert(call->peer != NULL);
    memcpy(call->peer, peer, peer_bytes(peer));
}

/* Where the call came from; one from inside the process says itself on whose behalf it is. */
static void read_address(const struct rpc_call *call, struct rpc_peer *out)
{
    char *address = grpc_call_get_peer(call->accepted);
    struct baton_bytes caller = rpc_call_metadata(call, RPC_CALLER_KEY);
    if (!inside_is_address(address)) {
        (void)snprintf(out->address, sizeof(out->address), "%s", address);
    } else if (caller.data != NULL) {
        (void)snprintf(out->address, sizeof(out->address), "%.*s", (int)caller.size,
                       (const char *)caller.data);
    }
    gpr_free(address);
}

void call_read_peer(struct rpc_call *call)
{
    struct rpc_peer peer = { .principal = RPC_PRINCIPAL_ANONYMOUS, .identity = "anonymous" };
    read_address(call, &peer);
    read_identity(call->accepted, &peer);
    bool is_local = rpc_address_is_local(peer.address);
    if (peer.principal == RPC_PRINCIPAL_ANONYMOUS && is_local) {
        peer.principal = RPC_PRINCIPAL_LOCAL;
        (void)snprintf(peer.identity, sizeof(peer.identity), "local");
    }
    peer.is_private |= is_local;
    keep_peer(call, &peer);
}

void rpc_call_set_token_name(struct rpc_call *call, const struct rpc_peer_name *name)
{
    struct rpc_peer peer;
    rpc_call_peer(call, &peer);
    baton_assert(peer.principal != RPC_PRINCIPAL_CERTIFICATE);
    peer.principal = RPC_PRINCIPAL_TOKEN;
    peer.names[0] = *name;
    peer.names_count = 1;
    memcpy(peer.identity, name->text, sizeof(peer.identity));
    keep_peer(call, &peer);
}

int64_t rpc_call_certificate_ends(struct rpc_call *call)
{
    int64_t seconds = 0;
    pthread_mutex_lock(&call->mutex);
    grpc_auth_context *context = call->core != NULL ? grpc_call_auth_context(call->core) : NULL;
    if (context != NULL) {
        grpc_auth_property_iterator at =
            grpc_auth_context_find_properties_by_name(context, "x509_pem_cert");
        const grpc_auth_property *pem = grpc_auth_property_iterator_next(&at);
        if (pem != NULL && expiry_of_pem(pem->value, pem->value_length, &seconds)) {
            seconds += (int64_t)(baton_clock_wall_ns() / BATON_NS_PER_S);
        }
        grpc_auth_context_release(context);
    }
    pthread_mutex_unlock(&call->mutex);
    return seconds;
}

void rpc_call_peer(const struct rpc_call *call, struct rpc_peer *out)
{
    memcpy(out, call->peer, peer_bytes(call->peer));
}
