/* channel_tls.c -- certificates from files that may change, handshakes, bytes over TLS.  See channel.h. */
#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/file_mark.h"
#include "transport/p2p/channel_state.h"

enum { FILES = 3 };

struct channel_tls {
    bool is_server;
    char files[FILES][BATON_PATH_BYTES]; /* CA, certificate, key; empty: none. */
    pthread_mutex_t lock;
    /* Under the lock. */
    SSL_CTX *context;
    struct baton_file_mark marks[FILES];
};

/* The newest error of this thread's queue, which is emptied. */
static struct baton_status tls_failure(enum baton_code code, const char *what)
{
    char text[160] = "the connection ended";
    unsigned long error = ERR_peek_last_error();
    if (error != 0) {
        ERR_error_string_n(error, text, sizeof(text));
    }
    ERR_clear_error();
    return baton_status_make(code, BATON_REASON_IO, "tls: %.100s: %s", what, text);
}

/* Notes how the files are now; true if one is another than before. */
static bool has_changed(struct channel_tls *tls)
{
    bool changed = false;
    for (int i = 0; i < FILES; i++) {
        changed |=
            tls->files[i][0] != '\0' && baton_file_has_changed(tls->files[i], &tls->marks[i]);
    }
    return changed;
}

static struct baton_status load_pair(SSL_CTX *context, const struct channel_tls *tls)
{
    if (tls->files[1][0] == '\0') {
        return baton_status_ok();
    }
    if (SSL_CTX_use_certificate_chain_file(context, tls->files[1]) != 1) {
        return tls_failure(BATON_INVALID_ARGUMENT, tls->files[1]);
    }
    if (SSL_CTX_use_PrivateKey_file(context, tls->files[2], SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(context) != 1) {
        return tls_failure(BATON_INVALID_ARGUMENT, tls->files[2]);
    }
    return baton_status_ok();
}

static struct baton_status load_authority(SSL_CTX *context, const struct channel_tls *tls)
{
    if (tls->files[0][0] == '\0') {
        return baton_status_ok();
    }
    if (SSL_CTX_load_verify_locations(context, tls->files[0], NULL) != 1) {
        return tls_failure(BATON_INVALID_ARGUMENT, tls->files[0]);
    }
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return baton_status_ok();
}

static struct baton_status load(const struct channel_tls *tls, SSL_CTX **out)
{
    SSL_CTX *context = SSL_CTX_new(tls->is_server ? TLS_server_method() : TLS_client_method());
    baton_assert(context != NULL);
    (void)SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    /* Every connection verifies the certificates anew: no tickets, no cache. */
    (void)SSL_CTX_set_num_tickets(context, 0);
    (void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_mode(context,
                           SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    struct baton_status st = load_pair(context, tls);
    if (baton_ok(&st)) {
        st = load_authority(context, tls);
    }
    if (!baton_ok(&st)) {
        SSL_CTX_free(context);
        return st;
    }
    *out = context;
    return st;
}

/* A connection of its own with the present files; bad new ones leave the last good ones in use. */
static SSL *new_connection(struct channel_tls *tls)
{
    SSL_CTX *fresh = NULL;
    (void)pthread_mutex_lock(&tls->lock);
    if (has_changed(tls)) {
        struct baton_status st = load(tls, &fresh);
        if (baton_ok(&st)) {
            SSL_CTX_free(tls->context);
            tls->context = fresh;
        }
    }
    SSL *ssl = SSL_new(tls->context);
    (void)pthread_mutex_unlock(&tls->lock);
    baton_assert(ssl != NULL);
    return ssl;
}

static bool set_file(struct channel_tls *tls, int i, const char *path)
{
    return baton_text_copy(tls->files[i], sizeof(tls->files[i]), path != NULL ? path : "");
}

struct baton_status channel_tls_create(const struct channel_tls_files *files,
                                       struct channel_tls **out)
{
    struct channel_tls *tls = calloc(1, sizeof(*tls));
    baton_assert(tls != NULL);
    tls->is_server = files->is_server;
    (void)pthread_mutex_init(&tls->lock, NULL);
    bool fits = set_file(tls, 0, files->ca) && set_file(tls, 1, files->cert) &&
                set_file(tls, 2, files->key);
    struct baton_status st = baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                               "tls: a path is too long, or a file is missing");
    if (fits && (tls->files[1][0] == '\0') == (tls->files[2][0] == '\0') &&
        (tls->is_server ? tls->files[1][0] != '\0' : tls->files[0][0] != '\0')) {
        (void)has_changed(tls);
        st = load(tls, &tls->context);
    }
    if (!baton_ok(&st)) {
        channel_tls_destroy(tls);
        return st;
    }
    *out = tls;
    return st;
}

void channel_tls_destroy(struct channel_tls *tls)
{
    if (tls != NULL) {
        SSL_CTX_free(tls->context);
        (void)pthread_mutex_destroy(&tls->lock);
        free(tls);
    }
}

/* --- one connection --- */

/* After a call that did not go through: waits for what it needs, or says why not. */
static struct baton_status await(struct channel *channel, int result, uint64_t deadline_ns)
{
    switch (SSL_get_error(channel->ssl, result)) {
    case SSL_ERROR_WANT_READ: return channel_wait(channel, POLLIN, deadline_ns);
    case SSL_ERROR_WANT_WRITE: return channel_wait(channel, POLLOUT, deadline_ns);
    default: return tls_failure(BATON_UNAVAILABLE, channel->remote);
    }
}

/* As in api/rpc/peer.c: only printable ASCII without spaces is a name. */
static bool is_name(const unsigned char *data, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (data[i] <= ' ' || data[i] > '~') {
            return false;
        }
    }
    return size > 0 && size < BATON_TEXT_BYTES;
}

static unsigned count_uris(const GENERAL_NAMES *all)
{
    unsigned count = 0;
    for (int i = 0; i < sk_GENERAL_NAME_num(all); i++) {
        count += sk_GENERAL_NAME_value(all, i)->type == GEN_URI;
    }
    return count;
}

/* SPIFFE ids first: they are what identities are, where there is one.  As for the controller (rpc_peer) a URI counts only if
 * it is the one, and a DNS name is none that could pass for a URI. */
static void note_names(struct channel *channel, const GENERAL_NAMES *all, int type)
{
    if (type == GEN_URI && count_uris(all) != 1) {
        return;
    }
    for (int i = 0; i < sk_GENERAL_NAME_num(all); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(all, i);
        if (name->type != type || channel->names_count == CHANNEL_NAMES_MAX) {
            continue;
        }
        const ASN1_IA5STRING *text = name->d.ia5;
        size_t size = (size_t)ASN1_STRING_length(text);
        const unsigned char *data = ASN1_STRING_get0_data(text);
        bool is_taken = is_name(data, size) && (type == GEN_URI || memchr(data, '/', size) == NULL);
        if (is_taken) {
            char *out = channel->names[channel->names_count++];
            memcpy(out, data, size);
            out[size] = '\0';
        }
    }
}

static void note_certificate(struct channel *channel)
{
    X509 *certificate = SSL_get0_peer_certificate(channel->ssl);
    if (certificate == NULL || SSL_get_verify_result(channel->ssl) != X509_V_OK) {
        return;
    }
    channel->has_certificate = true;
    GENERAL_NAMES *all = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    if (all != NULL) {
        note_names(channel, all, GEN_URI);
        note_names(channel, all, GEN_DNS);
        GENERAL_NAMES_free(all);
    }
}

/* The certificate must be for this host or address. */
static bool expect_host(SSL *ssl, const char *host)
{
    struct in6_addr any;
    if (inet_pton(AF_INET, host, &any) == 1 || inet_pton(AF_INET6, host, &any) == 1) {
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    }
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

struct baton_status channel_start_tls(struct channel *channel, struct channel_tls *tls,
                                      const char *host, uint64_t deadline_ns)
{
    channel->ssl = new_connection(tls);
    ERR_clear_error();
    if (SSL_set_fd(channel->ssl, channel->fd) != 1 ||
        (host != NULL && !expect_host(channel->ssl, host))) {
        return tls_failure(BATON_UNAVAILABLE, channel->remote);
    }
    for (;;) {
        int result = host != NULL ? SSL_connect(channel->ssl) : SSL_accept(channel->ssl);
        if (result == 1) {
            note_certificate(channel);
            return baton_status_ok();
        }
        struct baton_status st = await(channel, result, deadline_ns);
        if (!baton_ok(&st)) {
            return st;
        }
    }
}

struct baton_status channel_tls_read(struct channel *channel, void *out, size_t size,
                                     uint64_t deadline_ns, size_t *out_size)
{
    for (;;) {
        ERR_clear_error();
        int result = SSL_read_ex(channel->ssl, out, size, out_size);
        if (result == 1) {
            return baton_status_ok();
        }
        struct baton_status st = await(channel, result, deadline_ns);
        if (!baton_ok(&st)) {
            return st;
        }
    }
}

struct baton_status channel_tls_write(struct channel *channel, struct baton_bytes bytes,
                                      uint64_t deadline_ns, size_t *out_size)
{
    for (;;) {
        ERR_clear_error();
        int result = SSL_write_ex(channel->ssl, bytes.data, bytes.size, out_size);
        if (result == 1) {
            return baton_status_ok();
        }
        struct baton_status st = await(channel, result, deadline_ns);
        if (!baton_ok(&st)) {
            return st;
        }
    }
}
