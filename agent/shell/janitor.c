/* janitor.c -- see janitor.h. */
#include "agent/shell/janitor.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "agent/shell/source.h"
#include "api/base/clock.h"
#include "api/base/limits.h"
#include "api/base/log.h"
#include "api/rpc/rpc.h"
#include "baton/v1/versions.pb-c.h"
#include "transport/model/digest.h"

enum { INTERVAL_S = 60 };

struct janitor {
    struct rpc_client *client;
    struct source *source;
    uint64_t interval_ns;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool stop;
    struct digest kept[BATON_VERSIONS_MAX];
    size_t kept_count;
    uint64_t revision;     /* Of the list's last page. */
    uint64_t revision_max; /* Highest that was seen. */
};

static bool keep(struct janitor *janitor, const Baton__V1__Version *version)
{
    if (version->digest[0] == '\0') {
        return true; /* Not sealed: it has no directory yet. */
    }
    struct digest *place = &janitor->kept[janitor->kept_count];
    if (janitor->kept_count == BATON_VERSIONS_MAX ||
        !baton_hex_decode(version->digest, place->bytes, sizeof(place->bytes))) {
        return false;
    }
    janitor->kept_count++;
    return true;
}

/* One page; false if it could not be had whole.  '*token' becomes that of the next page. */
static bool read_page(struct janitor *janitor, char token[BATON_TEXT_BYTES])
{
    Baton__V1__ListVersionsRequest *request =
        baton_wire_new(&baton__v1__list_versions_request__descriptor);
    request->page_token = baton_wire_text(request, token);
    struct rpc_result result = rpc_unary(janitor->client, "baton.v1.Versions/List", request, NULL);
    baton_wire_free(request);
    if (!baton_ok(&result.status)) {
        return false;
    }
    const Baton__V1__ListVersionsResponse *page = result.message;
    janitor->revision = page->revision;
    bool good = baton_text_copy(token, BATON_TEXT_BYTES, page->next_page_token);
    for (size_t i = 0; good && i < page->n_versions; i++) {
        good = keep(janitor, page->versions[i]);
    }
    baton_wire_free(result.message);
    return good;
}

static bool is_stopped(struct janitor *janitor)
{
    (void)pthread_mutex_lock(&janitor->lock);
    bool stop = janitor->stop;
    (void)pthread_mutex_unlock(&janitor->lock);
    return stop;
}

/* False if the list may lack what somebody still needs. */
static bool is_trusted(struct janitor *janitor)
{
    if (janitor->revision < janitor->revision_max) {
        baton_log(
            BATON_LOG_WARN, "source",
            "the controller's store went back; no version is deleted here until it has caught "
            "up");
        return false;
    }
    janitor->revision_max = janitor->revision;
    return janitor->kept_count > 0;
}

static void clean(struct janitor *janitor)
{
    char token[BATON_TEXT_BYTES] = "";
    size_t deleted = 0;
    janitor->kept_count = 0;
    do {
        if (is_stopped(janitor) || !read_page(janitor, token)) {
            return;
        }
    } while (token[0] != '\0');
    if (!is_trusted(janitor)) {
        return;
    }
    struct baton_status st =
        source_retain(janitor->source, janitor->kept, janitor->kept_count, &deleted);
    if (!baton_ok(&st)) {
        baton_log_status(BATON_LOG_WARN, "source", "cannot delete old versions", &st);
    } else if (deleted > 0) {
        baton_log(BATON_LOG_INFO, "source", "deleted %zu versions that nobody names any more",
                  deleted);
    }
}

/* True: time to clean; false: stop. */
static bool wait_interval(struct janitor *janitor)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(janitor->interval_ns / BATON_NS_PER_S);
    until.tv_nsec += (long)(janitor->interval_ns % BATON_NS_PER_S);
    until.tv_sec += until.tv_nsec / (long)BATON_NS_PER_S;
    until.tv_nsec %= (long)BATON_NS_PER_S;
    (void)pthread_mutex_lock(&janitor->lock);
    int error = 0;
    while (!janitor->stop && error != ETIMEDOUT) {
        error = pthread_cond_timedwait(&janitor->woken, &janitor->lock, &until);
    }
    bool go = !janitor->stop;
    (void)pthread_mutex_unlock(&janitor->lock);
    return go;
}

static void *run(void *argument)
{
    struct janitor *janitor = argument;
    while (wait_interval(janitor)) {
        clean(janitor);
    }
    return NULL;
}

struct baton_status janitor_create(struct rpc_client *client, struct source *source,
                                   uint64_t interval_ns, struct janitor **out)
{
    struct janitor *janitor = calloc(1, sizeof(*janitor));
    pthread_condattr_t attributes;
    baton_assert(janitor != NULL);
    janitor->client = client;
    janitor->source = source;
    janitor->interval_ns = interval_ns != 0 ? interval_ns : INTERVAL_S * BATON_NS_PER_S;
    (void)pthread_mutex_init(&janitor->lock, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&janitor->woken, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    int error = pthread_create(&janitor->thread, NULL, run, janitor);
    if (error != 0) {
        free(janitor);
        return baton_status_errno(error, "pthread_create", "janitor");
    }
    *out = janitor;
    return baton_status_ok();
}

void janitor_destroy(struct janitor *janitor)
{
    if (janitor == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&janitor->lock);
    janitor->stop = true;
    (void)pthread_cond_signal(&janitor->woken);
    (void)pthread_mutex_unlock(&janitor->lock);
    (void)pthread_join(janitor->thread, NULL);
    (void)pthread_cond_destroy(&janitor->woken);
    (void)pthread_mutex_destroy(&janitor->lock);
    free(janitor);
}
