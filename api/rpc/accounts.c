/* accounts.c -- see accounts.h. */
#include "api/rpc/accounts.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/file_mark.h"
#include "api/base/limits.h"
#include "api/base/log.h"
#include "api/rpc/jwt.h"

enum { LEEWAY_S = 10, NAMESPACE_MAX = 63 };

static const char SUBJECT[] = RPC_ACCOUNT_PREFIX;

struct rpc_accounts {
    char file[BATON_PATH_BYTES];
    char issuer[RPC_IDENTITY_BYTES];
    char audience[RPC_IDENTITY_BYTES];
    pthread_mutex_t mutex;
    /* Under the mutex. */
    struct jwks keys;
    struct baton_file_mark mark; /* Of the file when it was read last, good or not. */
};

/* --- the file --- */

static struct baton_status load(const char *file, struct jwks *out)
{
    FILE *stream = fopen(file, "re");
    if (stream == NULL) {
        return baton_status_in(baton_status_errno(errno, "open", file),
                               "access.serviceAccounts.keys");
    }
    uint8_t *text = malloc(JWKS_BYTES_MAX + 1);
    baton_assert(text != NULL);
    size_t size = fread(text, 1, JWKS_BYTES_MAX + 1, stream);
    struct baton_status st =
        ferror(stream) != 0 ? baton_status_errno(EIO, "read", file) : baton_status_ok();
    (void)fclose(stream);
    if (baton_ok(&st)) {
        st = jwks_parse((struct baton_bytes){ text, size }, out);
        st = baton_ok(&st) ? st : baton_status_in(st, "%s", file);
    }
    free(text);
    return st;
}

/* With the mutex. */
static void refresh(struct rpc_accounts *accounts)
{
    struct jwks keys;
    if (!baton_file_has_changed(accounts->file, &accounts->mark)) {
        return;
    }
    struct baton_status st = load(accounts->file, &keys);
    if (!baton_ok(&st)) {
        baton_log_status(BATON_LOG_WARN, "rpc", "keys of service accounts not reloaded", &st);
        return;
    }
    jwks_free(&accounts->keys);
    accounts->keys = keys;
    struct baton_log_field fields[] = { BATON_LOG_NUMBER("keys", keys.count) };
    baton_log_fields(BATON_LOG_INFO, "rpc", "keys of service accounts reloaded", fields, 1);
}

struct baton_status rpc_accounts_open(const struct rpc_accounts_options *options,
                                      struct rpc_accounts **out)
{
    struct rpc_accounts *accounts = calloc(1, sizeof(*accounts));
    baton_assert(accounts != NULL);
    *out = NULL;
    pthread_mutex_init(&accounts->mutex, NULL);
    struct baton_status st = baton_status_ok();
    if (!baton_text_copy(accounts->file, sizeof(accounts->file), options->keys_file) ||
        !baton_text_copy(accounts->issuer, sizeof(accounts->issuer), options->issuer) ||
        !baton_text_copy(accounts->audience, sizeof(accounts->audience), options->audience)) {
        st = rpc_status_field("access.serviceAccounts", "keys, issuer or audience is too long");
    }
    if (baton_ok(&st)) {
        (void)baton_file_has_changed(accounts->file, &accounts->mark);
        st = load(accounts->file, &accounts->keys);
    }
    if (!baton_ok(&st)) {
        rpc_accounts_close(accounts);
        return st;
    }
    *out = accounts;
    return st;
}

void rpc_accounts_close(struct rpc_accounts *accounts)
{
    if (accounts != NULL) {
        jwks_free(&accounts->keys);
        pthread_mutex_destroy(&accounts->mutex);
        free(accounts);
    }
}

/* --- a token --- */

static bool is_label(const char *text, size_t size, const char *more)
{
    for (size_t i = 0; i < size; i++) {
        bool is_plain = (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= '0' && text[i] <= '9');
        if (!is_plain && strchr(more, text[i]) == NULL) {
            return false;
        }
    }
    return size > 0;
}

/* "system:serviceaccount:NAMESPACE:NAME", as Kubernetes lets both be called. */
static bool is_account(const char *subject)
{
    if (strncmp(subject, SUBJECT, strlen(SUBJECT)) != 0) {
        return false;
    }
    const char *space = subject + strlen(SUBJECT);
    size_t size = strcspn(space, ":");
    return space[size] == ':' && size <= NAMESPACE_MAX && is_label(space, size, "-") &&
           is_label(space + size + 1, strlen(space + size + 1), "-.");
}

/* What is wrong with a token that a key of ours has signed; null: nothing. */
static const char *check_claims(const struct rpc_accounts *accounts, const struct jwt *jwt,
                                int64_t now_s)
{
    return strcmp(jwt->issuer, accounts->issuer) != 0 ? "it has another issuer"
           : !jwt->is_for_audience                    ? "it is for another audience"
           : now_s >= jwt->expires + LEEWAY_S         ? "it has expired"
           : now_s + LEEWAY_S < jwt->not_before       ? "it does not hold yet"
           : !is_account(jwt->subject)                ? "its subject is no service account"
                                                      : NULL;
}

struct baton_status rpc_accounts_find(struct rpc_accounts *accounts, struct baton_bytes token,
                                      int64_t now_s, struct rpc_peer_name *out)
{
    struct jwt jwt;
    const char *fault = jwt_parse(token, accounts->audience, &jwt);
    if (fault == NULL) {
        pthread_mutex_lock(&accounts->mutex);
        refresh(accounts);
        fault = jwt_is_signed(&jwt, token, &accounts->keys)
                    ? NULL
                    : "no key of access.serviceAccounts.keys has signed it";
        pthread_mutex_unlock(&accounts->mutex);
    }
    if (fault == NULL) {
        fault = check_claims(accounts, &jwt, now_s);
    }
    if (fault != NULL) {
        return baton_status_make(BATON_UNAUTHENTICATED, BATON_REASON_NOT_ALLOWED,
                                 "the service account's token is refused: %s", fault);
    }
    *out = (struct rpc_peer_name){ .kind = RPC_NAME_ACCOUNT };
    (void)snprintf(out->text, sizeof(out->text), "%s", jwt.subject);
    return baton_status_ok();
}
