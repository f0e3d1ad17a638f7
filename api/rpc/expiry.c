/* expiry.c -- certificates that are about to end; see rpc.h. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/pem.h>
#include <openssl/x509.h>

#include "api/base/clock.h"
#include "api/base/limits.h"
#include "api/base/log.h"
#include "api/rpc/server.h"

enum { LOOK_S = 3600, WARN_DAYS = 14, DAY_S = 86400 };

struct rpc_expiry {
    char files[RPC_EXPIRY_FILES_MAX][BATON_PATH_BYTES];
    size_t count;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t woken;
    bool stop;
};

/* Takes the certificate. */
static bool seconds_left(X509 *certificate, int64_t *seconds)
{
    int days = 0;
    int rest = 0;
    bool known = certificate != NULL &&
                 ASN1_TIME_diff(&days, &rest, NULL, X509_get0_notAfter(certificate)) == 1;
    X509_free(certificate);
    *seconds = known ? (int64_t)days * DAY_S + rest : 0;
    return known;
}

bool expiry_of_pem(const char *text, size_t size, int64_t *seconds)
{
    BIO *bio = BIO_new_mem_buf(text, (int)size);
    X509 *certificate = bio != NULL ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    (void)BIO_free(bio);
    return seconds_left(certificate, seconds);
}

struct baton_status rpc_certificate_ends(const char *file, int64_t *seconds)
{
    FILE *stream = fopen(file, "re");
    if (stream == NULL) {
        return baton_status_errno(errno, "open", file);
    }
    X509 *certificate = PEM_read_X509(stream, NULL, NULL, NULL);
    (void)fclose(stream);
    if (!seconds_left(certificate, seconds)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                 "%s: holds no certificate", file);
    }
    return baton_status_ok();
}

static void look_at(const char *file)
{
    int64_t seconds = 0;
    struct baton_status st = rpc_certificate_ends(file, &seconds);
    struct baton_log_field fields[] = { BATON_LOG_TEXT("file", file),
                                        BATON_LOG_NUMBER("days", (uint64_t)(seconds / DAY_S)) };
    if (!baton_ok(&st)) {
        baton_log_status(BATON_LOG_WARN, "rpc", "a certificate cannot be read", &st);
    } else if (seconds <= 0) {
        baton_log_fields(BATON_LOG_ERROR, "rpc",
                         "a certificate has expired: nobody accepts it; renew it, it is read again "
                         "without a restart",
                         fields, 1);
    } else if (seconds < (int64_t)WARN_DAYS * DAY_S) {
        baton_log_fields(BATON_LOG_WARN, "rpc",
                         "a certificate expires soon: renew it, it is read again without a restart",
                         fields, 2);
    }
}

/* False: stop. */
static bool wait_for_next(struct rpc_expiry *expiry)
{
    struct timespec until;
    int error = 0;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += LOOK_S;
    pthread_mutex_lock(&expiry->mutex);
    while (!expiry->stop && error != ETIMEDOUT) {
        error = pthread_cond_timedwait(&expiry->woken, &expiry->mutex, &until);
    }
    bool go_on = !expiry->stop;
    pthread_mutex_unlock(&expiry->mutex);
    return go_on;
}

static void *run(void *argument)
{
    struct rpc_expiry *expiry = argument;
    do {
        for (size_t i = 0; i < expiry->count; i++) {
            look_at(expiry->files[i]);
        }
    } while (wait_for_next(expiry));
    return NULL;
}

struct baton_status rpc_expiry_create(const char *const *files, size_t count,
                                      struct rpc_expiry **out)
{
    pthread_condattr_t attributes;
    struct rpc_expiry *expiry = calloc(1, sizeof(*expiry));
    baton_assert(expiry != NULL && count <= RPC_EXPIRY_FILES_MAX);
    for (size_t i = 0; i < count; i++) {
        if (files[i] != NULL && files[i][0] != '\0') {
            (void)snprintf(expiry->files[expiry->count++], BATON_PATH_BYTES, "%s", files[i]);
        }
    }
    (void)pthread_mutex_init(&expiry->mutex, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&expiry->woken, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    *out = NULL;
    int error = pthread_create(&expiry->thread, NULL, run, expiry);
    if (error != 0) {
        free(expiry);
        return baton_status_errno(error, "pthread_create", "certificates");
    }
    *out = expiry;
    return baton_status_ok();
}

void rpc_expiry_destroy(struct rpc_expiry *expiry)
{
    if (expiry == NULL) {
        return;
    }
    pthread_mutex_lock(&expiry->mutex);
    expiry->stop = true;
    pthread_cond_signal(&expiry->woken);
    pthread_mutex_unlock(&expiry->mutex);
    (void)pthread_join(expiry->thread, NULL);
    pthread_cond_destroy(&expiry->woken);
    pthread_mutex_destroy(&expiry->mutex);
    free(expiry);
}
