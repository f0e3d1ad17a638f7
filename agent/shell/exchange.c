/* exchange.c -- see exchange.h. */
#include "agent/shell/exchange.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/log.h"
#include "api/rpc/rpc.h"
#include "baton/v1/agent_session.pb-c.h"
#include "transport/model/manifest.h"
#include "transport/p2p/puller.h"
#include "transport/p2p/server.h"

enum {
    GRANTS_MAX = 3 * BATON_GROUPS_PER_AGENT_MAX + BATON_FOLLOWED_VERSIONS_MAX,
    TROUBLES_MAX = 32,
    STREAMS = 4, /* Connections of one landing. */
};

struct grant {
    struct digest version;
    uint8_t bytes[CAPABILITY_BYTES_MAX];
    size_t size;
};

struct exchange {
    struct exchange_options options;
    struct channel_tls *server_tls; /* Null: plain. */
    struct channel_tls *client_tls; /* Likewise. */
    struct p2p_server *server;      /* Null: serves nobody. */

    pthread_mutex_t lock;
    /* Under the lock. */
    struct capability_key keys[P2P_KEYS_MAX]; /* The newest first. */
    size_t keys_count;
    struct grant *grants;
    size_t grants_count;
    struct exchange_trouble troubles[TROUBLES_MAX]; /* The oldest first. */
    size_t troubles_count;
    bool is_telling; /* A tell is in the mailbox. */
};

/* --- what the controller says --- */

/* Under the lock. */
static void take_key(struct exchange *exchange, const Baton__V1__PeerKey *from)
{
    struct capability_key key;
    if (from->id.len != sizeof(key.id) || from->public_key.len != sizeof(key.public_key)) {
        return;
    }
    memcpy(key.id, from->id.data, sizeof(key.id));
    memcpy(key.public_key, from->public_key.data, sizeof(key.public_key));
    for (size_t i = 0; i < exchange->keys_count; i++) {
        if (memcmp(&exchange->keys[i], &key, sizeof(key)) == 0) {
            return;
        }
    }
    size_t kept = exchange->keys_count < P2P_KEYS_MAX ? exchange->keys_count : P2P_KEYS_MAX - 1;
    memmove(exchange->keys + 1, exchange->keys, kept * sizeof(key));
    exchange->keys[0] = key;
    exchange->keys_count = kept + 1;
}

/* Under the lock: the place of a version's grant, or of a new one; null: there is no room. */
static struct grant *grant_place(struct exchange *exchange, struct digest version)
{
    for (size_t i = 0; i < exchange->grants_count; i++) {
        if (digest_equal(exchange->grants[i].version, version)) {
            return &exchange->grants[i];
        }
    }
    if (exchange->grants_count == GRANTS_MAX) { /* The oldest one goes. */
        exchange->grants_count--;
        memmove(exchange->grants, exchange->grants + 1,
                exchange->grants_count * sizeof(*exchange->grants));
    }
    return &exchange->grants[exchange->grants_count++];
}

/* Under the lock. */
static void take_grant(struct exchange *exchange, const Baton__V1__PeerGrant *from)
{
    struct digest version;
    if (from->capability.len <= CAPABILITY_BYTES_MAX &&
        baton_hex_decode(from->digest, version.bytes, sizeof(version.bytes))) {
        struct grant *grant = grant_place(exchange, version);
        grant->version = version;
        grant->size = from->capability.len;
        memcpy(grant->bytes, from->capability.data, grant->size);
    }
}

void exchange_take_access(struct exchange *exchange, const void *message)
{
    const Baton__V1__PeerAccess *access = message;
    (void)pthread_mutex_lock(&exchange->lock);
    for (size_t i = 0; i < access->n_keys; i++) {
        take_key(exchange, access->keys[i]);
    }
    for (size_t i = 0; i < access->n_grants; i++) {
        take_grant(exchange, access->grants[i]);
    }
    (void)pthread_mutex_unlock(&exchange->lock);
}

static size_t copy_keys(void *context, struct capability_key out[P2P_KEYS_MAX])
{
    struct exchange *exchange = context;
    (void)pthread_mutex_lock(&exchange->lock);
    size_t count = exchange->keys_count;
    memcpy(out, exchange->keys, count * sizeof(*out));
    (void)pthread_mutex_unlock(&exchange->lock);
    return count;
}

/* --- troubles --- */

static bool is_same(const struct exchange_trouble *a, const struct exchange_trouble *b)
{
    return a->poisoned == b->poisoned && strcmp(a->peer, b->peer) == 0 &&
           strcmp(a->identity, b->identity) == 0 && strcmp(a->digest, b->digest) == 0 &&
           strcmp(a->message, b->message) == 0;
}

/* Under the lock.  Beyond the room the newest are only counted, at the last one. */
static void note(struct exchange *exchange, const struct exchange_trouble *trouble)
{
    for (size_t i = 0; i < exchange->troubles_count; i++) {
        if (is_same(&exchange->troubles[i], trouble) || i == TROUBLES_MAX - 1) {
            exchange->troubles[i].count++;
            return;
        }
    }
    exchange->troubles[exchange->troubles_count++] = *trouble;
}

static void report(struct exchange *exchange, struct exchange_trouble *trouble)
{
    struct baton_log_field fields[] = { BATON_LOG_TEXT("peer", trouble->peer),
                                        BATON_LOG_TEXT("identity", trouble->identity),
                                        BATON_LOG_TEXT("address", trouble->address),
                                        BATON_LOG_TEXT("version", trouble->digest) };
    baton_log_fields(BATON_LOG_WARN, "peers", trouble->message, fields, 4);
    trouble->count = 1;
    (void)pthread_mutex_lock(&exchange->lock);
    note(exchange, trouble);
    bool is_first = !exchange->is_telling;
    exchange->is_telling = true;
    (void)pthread_mutex_unlock(&exchange->lock);
    if (is_first) {
        baton_mailbox_post_sure(exchange->options.mailbox, exchange->options.tell, NULL);
    }
}

void exchange_heard(struct exchange *exchange)
{
    (void)pthread_mutex_lock(&exchange->lock);
    exchange->is_telling = false;
    (void)pthread_mutex_unlock(&exchange->lock);
}

static void on_refused(void *context, const struct p2p_refusal *refusal)
{
    struct exchange_trouble trouble = { .poisoned = false };
    (void)snprintf(trouble.peer, sizeof(trouble.peer), "%s", refusal->node);
    (void)snprintf(trouble.identity, sizeof(trouble.identity), "%s", refusal->identity);
    (void)snprintf(trouble.address, sizeof(trouble.address), "%s", refusal->remote);
    (void)snprintf(trouble.message, sizeof(trouble.message), "%.200s", refusal->status->message);
    digest_format(refusal->version, trouble.digest);
    report(context, &trouble);
}

bool exchange_take_trouble(struct exchange *exchange, struct exchange_trouble *out)
{
    (void)pthread_mutex_lock(&exchange->lock);
    bool is_there = exchange->troubles_count > 0;
    if (is_there) {
        *out = exchange->troubles[0];
        exchange->troubles_count--;
        memmove(exchange->troubles, exchange->troubles + 1,
                exchange->troubles_count * sizeof(*exchange->troubles));
    }
    (void)pthread_mutex_unlock(&exchange->lock);
    return is_there;
}

/* --- pulling --- */

/* One landing from peers. */
struct pull {
    struct exchange *exchange;
    struct digest version;
    struct puller_peer peers[BATON_HOLDERS_MAX];
    uint32_t peers_count;
    uint8_t capability[CAPABILITY_BYTES_MAX];
    size_t capability_size;
};

static void on_poison(void *context, const struct puller_poison *poison)
{
    const struct pull *pull = context;
    struct exchange_trouble trouble = { .poisoned = true };
    (void)snprintf(trouble.peer, sizeof(trouble.peer), "%s", poison->peer->agent);
    (void)snprintf(trouble.address, sizeof(trouble.address), "%s", poison->peer->address);
    digest_format(pull->version, trouble.digest);
    if (poison->chunk == UINT64_MAX) {
        (void)snprintf(trouble.message, sizeof(trouble.message),
                       "it gave a manifest or a chunk table of another version; it is not asked "
                       "again");
    } else {
        (void)snprintf(trouble.message, sizeof(trouble.message),
                       "it gave a damaged chunk %llu; it is not asked again",
                       (unsigned long long)poison->chunk);
    }
    report(pull->exchange, &trouble);
}

static bool find_grant(struct exchange *exchange, struct pull *pull)
{
    bool found = false;
    (void)pthread_mutex_lock(&exchange->lock);
    for (size_t i = 0; i < exchange->grants_count && !found; i++) {
        const struct grant *grant = &exchange->grants[i];
        found = digest_equal(grant->version, pull->version);
        if (found) {
            pull->capability_size = grant->size;
            memcpy(pull->capability, grant->bytes, grant->size);
        }
    }
    (void)pthread_mutex_unlock(&exchange->lock);
    return found;
}

/* Other machines are dialled with certificates only, unless the file says otherwise. */
static void list_peers(const struct exchange *exchange, const struct agent_version_goal *goal,
                       struct pull *pull)
{
    bool anywhere = exchange->client_tls != NULL || exchange->options.config->insecure;
    for (uint32_t i = 0; i < goal->holders_count && i < BATON_HOLDERS_MAX; i++) {
        const struct agent_holder *holder = &goal->holders[i];
        if (anywhere || rpc_address_is_local(holder->address)) {
            struct puller_peer *peer = &pull->peers[pull->peers_count++];
            memcpy(peer->agent, holder->agent, sizeof(peer->agent));
            memcpy(peer->address, holder->address, sizeof(peer->address));
            peer->last = holder->last;
        }
    }
}

static void log_shares(const struct pull *pull, struct puller *puller)
{
    struct baton_log_field fields[BATON_HOLDERS_MAX + 1];
    char digest[BATON_DIGEST_TEXT_BYTES];
    digest_format(pull->version, digest);
    fields[0] = BATON_LOG_TEXT("version", digest);
    for (uint32_t i = 0; i < pull->peers_count; i++) {
        fields[i + 1] = BATON_LOG_NUMBER(pull->peers[i].agent, puller_bytes(puller, i));
    }
    baton_log_fields(BATON_LOG_INFO, "peers", "pulled a version; bytes from each peer", fields,
                     pull->peers_count + 1);
}

static struct baton_status run_pull(struct pull *pull, struct landing_root *root,
                                    struct landing_progress *progress)
{
    struct manifest *manifest = NULL;
    struct digest *table = NULL;
    struct puller_options options = {
        .peers = pull->peers,
        .peers_count = pull->peers_count,
        .version = pull->version,
        .capability = { pull->capability, pull->capability_size },
        .tls = pull->exchange->client_tls,
        .progress = progress,
        .told = on_poison,
        .context = pull,
    };
    struct puller *puller = puller_create(&options);
    struct landing_supplier supplier = puller_supplier(puller);
    struct landing_options landing = { .workers = STREAMS };
    struct baton_status st = puller_fetch(puller, &manifest, &table);
    if (baton_ok(&st)) {
        st = landing_pull(root, manifest, table, &supplier, &landing, progress);
    }
    if (baton_ok(&st)) {
        log_shares(pull, puller);
    }
    free(table);
    manifest_destroy(manifest);
    puller_destroy(puller);
    return st;
}

struct baton_status exchange_pull(struct exchange *exchange, struct landing_root *root,
                                  const struct agent_version_goal *goal,
                                  struct landing_progress *progress)
{
    struct pull pull = { .exchange = exchange };
    bool is_digest =
        baton_hex_decode(goal->version.digest, pull.version.bytes, sizeof(pull.version.bytes));
    list_peers(exchange, goal, &pull);
    if (!is_digest || pull.peers_count == 0) {
        return baton_status_make(BATON_UNAVAILABLE, BATON_REASON_NONE,
                                 "no peer may be dialled without peerTls");
    }
    if (!find_grant(exchange, &pull)) {
        return baton_status_make(BATON_UNAVAILABLE, BATON_REASON_NONE,
                                 "the controller gave no capability for the version yet");
    }
    return run_pull(&pull, root, progress);
}

/* --- life --- */

static struct baton_status open_tls(struct exchange *exchange)
{
    const struct shell_config *config = exchange->options.config;
    struct channel_tls_files server = { config->listen_client_ca, config->listen_cert,
                                        config->listen_key, true };
    struct channel_tls_files client = { config->peer_ca, config->peer_cert, config->peer_key,
                                        false };
    struct baton_status st = baton_status_ok();
    if (config->listen_cert[0] != '\0') {
        st = baton_status_in(channel_tls_create(&server, &exchange->server_tls), "listenTls");
    }
    if (baton_ok(&st) && config->peer_ca[0] != '\0') {
        st = baton_status_in(channel_tls_create(&client, &exchange->client_tls), "peerTls");
    }
    return st;
}

struct baton_status exchange_create(const struct exchange_options *options, struct exchange **out)
{
    struct exchange *exchange = calloc(1, sizeof(*exchange));
    baton_assert(exchange != NULL);
    exchange->options = *options;
    exchange->grants = calloc(GRANTS_MAX, sizeof(*exchange->grants));
    baton_assert(exchange->grants != NULL);
    (void)pthread_mutex_init(&exchange->lock, NULL);
    struct baton_status st = open_tls(exchange);
    if (!baton_ok(&st)) {
        exchange_destroy(exchange);
        return st;
    }
    *out = exchange;
    return st;
}

struct baton_status exchange_serve(struct exchange *exchange, struct landing_root *landing,
                                   struct landing_root *versions)
{
    struct p2p_server_options options = { .listen = exchange->options.config->peers_listen,
                                          .tls = exchange->server_tls,
                                          .roots = { landing, versions },
                                          .roots_count = versions != NULL ? 2 : 1,
                                          .keys = copy_keys,
                                          .refused = on_refused,
                                          .context = exchange };
    return p2p_server_create(&options, &exchange->server);
}

void exchange_stop(struct exchange *exchange)
{
    if (exchange != NULL) {
        p2p_server_destroy(exchange->server);
        exchange->server = NULL;
    }
}

void exchange_destroy(struct exchange *exchange)
{
    if (exchange == NULL) {
        return;
    }
    exchange_stop(exchange);
    channel_tls_destroy(exchange->server_tls);
    channel_tls_destroy(exchange->client_tls);
    (void)pthread_mutex_destroy(&exchange->lock);
    free(exchange->grants);
    free(exchange);
}
