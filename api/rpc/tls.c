/* tls.c -- credentials from files, and the files that change; see rpc.h and server.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/base/file_mark.h"
#include "api/base/log.h"
#include "api/rpc/handshakes.h"
#include "api/rpc/server.h"

enum { PEM_BYTES_MAX = 1 << 20, CLIENT_REFRESH_S = 10, TLS_PATH_BYTES = BATON_PATH_BYTES };

enum tls_file { TLS_CERT, TLS_KEY, TLS_CA, TLS_FILES };

struct tls_files {
    pthread_mutex_t mutex; /* Handshakes come from several threads of the core. */
    char path[TLS_FILES][TLS_PATH_BYTES];
    struct baton_file_mark marks[TLS_FILES];
    struct connections *connections; /* Of the server. */
};

/* A file as text; 'out' is to be freed. */
static struct baton_status read_pem(const char *path, char **out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return baton_status_errno(errno, "open", path);
    }
    char *text = malloc(PEM_BYTES_MAX + 1);
    baton_assert(text != NULL);
    size_t size = 0;
    ssize_t got = 0;
    do {
        got = read(fd, text + size, PEM_BYTES_MAX - size);
        size += got > 0 ? (size_t)got : 0;
    } while (got > 0 || (got < 0 && errno == EINTR));
    int error = errno;
    (void)close(fd);
    text[size] = '\0';
    struct baton_status st = baton_status_ok();
    if (got < 0) {
        st = baton_status_errno(error, "read", path);
    } else if (strstr(text, "-----BEGIN ") == NULL) {
        st = baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                               "%s: is not a PEM file", path);
    }
    if (!baton_ok(&st)) {
        free(text);
        return st;
    }
    *out = text;
    return st;
}

/* True if a file is another one than at the last look; notes how all are now. */
static bool has_changed(struct tls_files *files)
{
    bool is_changed = false;
    for (int i = 0; i < TLS_FILES; i++) {
        is_changed |=
            files->path[i][0] != '\0' && baton_file_has_changed(files->path[i], &files->marks[i]);
    }
    return is_changed;
}

static struct baton_status read_files(const struct tls_files *files, char *text[TLS_FILES])
{
    struct baton_status st = baton_status_ok();
    for (int i = 0; i < TLS_FILES && baton_ok(&st); i++) {
        if (files->path[i][0] != '\0') {
            st = read_pem(files->path[i], &text[i]);
        }
    }
    return st;
}

static void free_texts(char *text[TLS_FILES])
{
    for (int i = 0; i < TLS_FILES; i++) {
        free(text[i]);
    }
}

static struct baton_status load(const struct tls_files *files,
                                grpc_ssl_server_certificate_config **out)
{
    char *text[TLS_FILES] = { NULL };
    struct baton_status st = read_files(files, text);
    if (baton_ok(&st)) {
        grpc_ssl_pem_key_cert_pair pair = { .private_key = text[TLS_KEY],
                                            .cert_chain = text[TLS_CERT] };
        *out = grpc_ssl_server_certificate_config_create(text[TLS_CA], &pair, 1);
    }
    free_texts(text);
    return st;
}

/* The core asks at the start and at every handshake.  A failure keeps the last good files in use. */
static grpc_ssl_certificate_config_reload_status on_handshake(
    void *user_data, grpc_ssl_server_certificate_config **config)
{
    struct tls_files *files = user_data;
    grpc_ssl_certificate_config_reload_status answer = GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    handshakes_begin(files->connections);
    pthread_mutex_lock(&files->mutex);
    if (has_changed(files)) {
        struct baton_status st = load(files, config);
        answer = baton_ok(&st) ? GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW
                               : GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_FAIL;
        if (!baton_ok(&st)) {
            baton_log_status(BATON_LOG_WARN, "rpc", "certificate not reloaded", &st);
        }
    }
    pthread_mutex_unlock(&files->mutex);
    return answer;
}

static struct baton_status set_path(struct tls_files *files, enum tls_file file, const char *path)
{
    if (path != NULL && !baton_text_copy(files->path[file], TLS_PATH_BYTES, path)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "tls: a path is longer than %d bytes", TLS_PATH_BYTES - 1);
    }
    return baton_status_ok();
}

static struct baton_status set_paths(struct tls_files *files, const struct rpc_tls *tls)
{
    struct baton_status st = set_path(files, TLS_CERT, tls->cert_file);
    if (baton_ok(&st)) {
        st = set_path(files, TLS_KEY, tls->key_file);
    }
    if (baton_ok(&st)) {
        st = set_path(files, TLS_CA, tls->ca_file);
    }
    return st;
}

static struct baton_status check_server(const struct rpc_tls *tls)
{
    if (tls->cert_file == NULL || tls->key_file == NULL) {
        return rpc_status_field("tls", "a server needs a certificate and its key");
    }
    if (tls->require_client && tls->ca_file == NULL) {
        return rpc_status_field("tls", "to require clients' certificates, name the CA that signs "
                                       "them");
    }
    return baton_status_ok();
}

/* Reads everything once, so that a start with bad files fails with their names. */
static struct baton_status try_files(const struct tls_files *files)
{
    char *text[TLS_FILES] = { NULL };
    struct baton_status st = read_files(files, text);
    free_texts(text);
    return st;
}

struct baton_status tls_server_credentials(const struct rpc_tls *tls,
                                           struct connections *connections,
                                           struct tls_files **out_files,
                                           grpc_server_credentials **out)
{
    struct baton_status st = check_server(tls);
    if (!baton_ok(&st)) {
        return st;
    }
    struct tls_files *files = calloc(1, sizeof(*files));
    baton_assert(files != NULL);
    pthread_mutex_init(&files->mutex, NULL);
    files->connections = connections;
    *out_files = files; /* Freed with the server, also after a failure here. */
    st = set_paths(files, tls);
    if (baton_ok(&st)) {
        st = try_files(files);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    grpc_ssl_client_certificate_request_type request =
        tls->require_client    ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
        : tls->ca_file != NULL ? GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY
                               : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
    *out = grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(request, on_handshake,
                                                                        files));
    return st;
}

void tls_files_destroy(struct tls_files *files)
{
    if (files != NULL) {
        pthread_mutex_destroy(&files->mutex);
        free(files);
    }
}

struct baton_status tls_client_credentials(const struct rpc_tls *tls,
                                           grpc_channel_credentials **out)
{
    bool has_pair = tls->cert_file != NULL && tls->key_file != NULL;
    if (tls->ca_file == NULL || has_pair != (tls->cert_file != NULL || tls->key_file != NULL)) {
        return rpc_status_field("tls", "a client needs the CA that signs servers, and a key with "
                                       "each certificate");
    }
    struct tls_files files = { .path = { "" } };
    struct baton_status st = set_paths(&files, tls);
    if (baton_ok(&st)) {
        st = try_files(&files);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    grpc_tls_certificate_provider *provider = grpc_tls_certificate_provider_file_watcher_create(
        tls->key_file, tls->cert_file, tls->ca_file, CLIENT_REFRESH_S);
    grpc_tls_credentials_options *options = grpc_tls_credentials_options_create();
    grpc_tls_credentials_options_set_certificate_provider(options, provider);
    grpc_tls_credentials_options_watch_root_certs(options);
    if (has_pair) {
        grpc_tls_credentials_options_watch_identity_key_cert_pairs(options);
    }
    *out = grpc_tls_credentials_create(options);
    grpc_tls_certificate_provider_release(provider);
    return baton_status_ok();
}
