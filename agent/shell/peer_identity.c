/* peer_identity.c -- see peer_identity.h. */
#include "agent/shell/peer_identity.h"

#include <string.h>

static const char SPIFFE[] = "spiffe://";
static const char PLACE[] = "{leader}";

bool peer_identity_is_pattern(const char *pattern)
{
    const char *place = strstr(pattern, PLACE);
    return place != NULL && strstr(place + 1, PLACE) == NULL;
}

/* Takes 'part' off the front; null: it is not there. */
static const char *after(const char *text, const char *part, size_t size)
{
    return text != NULL && strncmp(text, part, size) == 0 ? text + size : NULL;
}

static bool matches(const struct rpc_peer_name *name, const char *pattern, const char *leader)
{
    const char *place = strstr(pattern, PLACE);
    enum rpc_name_kind kind =
        strncmp(pattern, SPIFFE, sizeof(SPIFFE) - 1) == 0 ? RPC_NAME_SPIFFE : RPC_NAME_DNS;
    if (place == NULL || kind != name->kind) {
        return false;
    }
    const char *rest = after(name->text, pattern, (size_t)(place - pattern));
    rest = after(rest, leader, strlen(leader));
    return rest != NULL && strcmp(rest, place + sizeof(PLACE) - 1) == 0;
}

/* Not by a DNS name: certificates of any role may have the node's besides. */
static bool is_named(const struct rpc_peer_name *name, const char *leader)
{
    const char *rest =
        name->kind == RPC_NAME_SPIFFE ? after(name->text, SPIFFE, sizeof(SPIFFE) - 1) : NULL;
    rest = rest != NULL ? strchr(rest, '/') : NULL;
    rest = after(rest, "/agent/", strlen("/agent/"));
    return rest != NULL && strcmp(rest, leader) == 0;
}

bool peer_identity_is_leader(const struct rpc_peer *peer, const char *pattern, const char *leader,
                             bool insecure)
{
    switch (peer->principal) {
    case RPC_PRINCIPAL_LOCAL: return true;
    case RPC_PRINCIPAL_TOKEN: return false; /* Agents take none. */
    case RPC_PRINCIPAL_ANONYMOUS: return insecure;
    case RPC_PRINCIPAL_CERTIFICATE: break;
    }
    for (size_t i = 0; i < peer->names_count; i++) {
        const struct rpc_peer_name *name = &peer->names[i];
        if (pattern[0] != '\0' ? matches(name, pattern, leader) : is_named(name, leader)) {
            return true;
        }
    }
    return false;
}

struct baton_status peer_identity_refusal(const struct rpc_peer *peer, const char *leader)
{
    return baton_status_hint(
        baton_status_make(BATON_PERMISSION_DENIED, BATON_REASON_NOT_ALLOWED,
                          "%.120s may not speak as leader '%.63s'", peer->identity, leader),
        "its certificate must name that agent: spiffe://.../agent/%.63s, or as "
        "listenTls.leaderIdentity of the member says (\"{leader}\": a DNS name)",
        leader);
}
