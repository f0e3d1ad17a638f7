/* grants.c -- see grants.h. */
#include "controller/shell/grants.h"

#include <stdlib.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/wire/wire.h"
#include "baton/v1/agent_session.pb-c.h"
#include "transport/capability/capability.h"

enum {
    /* Target, stage and restore of each group; and of those that it follows. */
    GRANTS_MAX = 3 * BATON_GROUPS_PER_AGENT_MAX + BATON_FOLLOWED_VERSIONS_MAX,
    KEY_LIFE_S = 24 * 3600,
    ANNOUNCED_S = 60, /* Agents know a key for so long before it signs. */
};

struct grants {
    struct capability_signer *signer;
    struct capability_signer *next; /* Told already, does not sign yet; null: none. */
    uint64_t made_ns;
    uint64_t next_made_ns;
    uint64_t turn; /* Rises when agents have to hear of a key. */
};

/* Which versions a session may pull. */
struct session_grants {
    char digests[GRANTS_MAX][BATON_DIGEST_TEXT_BYTES];
    size_t count;
    uint64_t renew_ns;
    uint64_t turn; /* Of the keys that it was told. */
};

struct grants *grants_create(void)
{
    struct grants *grants = calloc(1, sizeof(*grants));
    baton_assert(grants != NULL);
    grants->signer = capability_signer_create();
    grants->made_ns = baton_clock_monotonic_ns();
    grants->turn = 1;
    return grants;
}

void grants_destroy(struct grants *grants)
{
    if (grants != NULL) {
        capability_signer_destroy(grants->signer);
        capability_signer_destroy(grants->next);
        free(grants);
    }
}

/* A new key is told of first, and signs once everybody heard of it. */
static void rotate(struct grants *grants, uint64_t now_ns)
{
    if (grants->next == NULL && now_ns - grants->made_ns > KEY_LIFE_S * BATON_NS_PER_S) {
        grants->next = capability_signer_create();
        grants->next_made_ns = now_ns;
        grants->turn++;
    }
    if (grants->next != NULL && now_ns - grants->next_made_ns > ANNOUNCED_S * BATON_NS_PER_S) {
        capability_signer_destroy(grants->signer);
        grants->signer = grants->next;
        grants->made_ns = grants->next_made_ns;
        grants->next = NULL;
    }
}

/* --- messages --- */

static Baton__V1__PeerKey *render_key(const struct capability_signer *signer, void *root)
{
    Baton__V1__PeerKey *message = baton_wire_part(root, &baton__v1__peer_key__descriptor);
    struct capability_key key = capability_signer_key(signer);
    message->id = baton_wire_bytes(root, key.id, sizeof(key.id));
    message->public_key = baton_wire_bytes(root, key.public_key, sizeof(key.public_key));
    return message;
}

static void render_keys(const struct grants *grants, Baton__V1__PeerAccess *message, void *root)
{
    message->keys = baton_wire_take(root, 2, sizeof(*message->keys));
    message->keys[message->n_keys++] = render_key(grants->signer, root);
    if (grants->next != NULL) {
        message->keys[message->n_keys++] = render_key(grants->next, root);
    }
}

/* Of the certificate that the session came with; empty: none. */
static void name_identity(const struct session *session, char out[BATON_TEXT_BYTES])
{
    struct rpc_peer peer;
    rpc_call_peer(session->call, &peer);
    bool has = peer.principal == RPC_PRINCIPAL_CERTIFICATE;
    if (!has || !baton_text_copy(out, BATON_TEXT_BYTES, peer.identity)) {
        out[0] = '\0';
    }
}

static Baton__V1__PeerGrant *render_grant(const struct grants *grants,
                                          const struct session *session, const char *digest,
                                          void *root)
{
    uint8_t bytes[CAPABILITY_BYTES_MAX];
    struct capability capability = { .issued_s = baton_clock_wall_ns() / BATON_NS_PER_S };
    Baton__V1__PeerGrant *message = baton_wire_part(root, &baton__v1__peer_grant__descriptor);
    capability.ends_s = capability.issued_s + GRANT_TTL_S;
    (void)baton_text_copy(capability.node, sizeof(capability.node), session->agent);
    name_identity(session, capability.identity);
    bool is_digest = baton_hex_decode(digest, capability.version.bytes, BATON_DIGEST_BYTES);
    baton_assert(is_digest);
    size_t size = capability_sign(grants->signer, &capability, bytes);
    message->digest = baton_wire_text(root, digest);
    message->capability = baton_wire_bytes(root, bytes, size);
    return message;
}

static void send(struct daemon *daemon, struct session *session)
{
    struct session_grants *granted = session->grants;
    struct grants *grants = daemon->grants;
    rotate(grants, baton_clock_monotonic_ns());
    Baton__V1__SessionResponse *response = baton_wire_new(&baton__v1__session_response__descriptor);
    Baton__V1__PeerAccess *message = baton_wire_part(response, &baton__v1__peer_access__descriptor);
    response->message_case = BATON__V1__SESSION_RESPONSE__MESSAGE_PEER_ACCESS;
    response->peer_access = message;
    render_keys(grants, message, response);
    message->grants = baton_wire_take(response, granted->count, sizeof(*message->grants));
    for (size_t i = 0; i < granted->count; i++) {
        message->grants[message->n_grants++] =
            render_grant(grants, session, granted->digests[i], response);
    }
    granted->turn = grants->turn;
    granted->renew_ns = baton_clock_monotonic_ns() + GRANT_TTL_S / 2 * BATON_NS_PER_S;
    struct baton_status st = rpc_send(session->call, response);
    baton_wire_free(response);
    session->open = baton_ok(&st);
}

/* --- what a session is granted --- */

void grants_send_keys(struct daemon *daemon, struct session *session)
{
    if (session->serves_peers) {
        session->grants = calloc(1, sizeof(*session->grants));
        baton_assert(session->grants != NULL);
        send(daemon, session);
    }
}

static bool is_granted(const struct session_grants *granted, const char *digest)
{
    for (size_t i = 0; i < granted->count; i++) {
        if (strcmp(granted->digests[i], digest) == 0) {
            return true;
        }
    }
    return false;
}

static void grant(struct session_grants *granted, const struct version_record *version,
                  const struct holders *holders)
{
    bool wanted = version != NULL && holders->count > 0 && !is_granted(granted, version->digest);
    if (wanted && granted->count < GRANTS_MAX) {
        memcpy(granted->digests[granted->count++], version->digest, BATON_DIGEST_TEXT_BYTES);
    }
}

void grants_send(struct daemon *daemon, struct session *session, const struct goals *goals)
{
    struct session_grants *granted = session->grants;
    if (granted == NULL) {
        return;
    }
    granted->count = 0;
    for (size_t i = 0; i < goals->groups_count; i++) {
        const struct group_goal *goal = &goals->groups[i];
        grant(granted, goal->target, &goal->target_holders);
        grant(granted, goal->stage, &goal->stage_holders);
        grant(granted, goal->restore, &goal->restore_holders);
    }
    for (size_t i = 0; i < goals->follows_count; i++) {
        grant(granted, goals->follows[i].version, &goals->follows[i].holders);
    }
    if (granted->count > 0) {
        send(daemon, session);
    }
}

void grants_renew(struct daemon *daemon, struct session *session)
{
    const struct session_grants *granted = session->grants;
    if (granted == NULL) {
        return;
    }
    uint64_t now_ns = baton_clock_monotonic_ns();
    rotate(daemon->grants, now_ns);
    bool ends = granted->count > 0 && now_ns >= granted->renew_ns;
    if (ends || granted->turn != daemon->grants->turn) {
        send(daemon, session);
    }
}

void grants_forget(struct session *session)
{
    free(session->grants);
    session->grants = NULL;
}
