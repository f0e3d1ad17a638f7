/* lander.c -- see lander.h. */
#include "agent/shell/lander.h"

#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "agent/shell/exchange.h"
#include "api/base/bytes.h"
#include "api/base/clock.h"
#include "api/base/log.h"
#include "transport/landing/landing.h"
#include "transport/model/manifest.h"

enum { AT_ONCE_MAX = 2, LIST_MAX = 256, DROPS_MAX = 64, SOURCE_TIMEOUT_S = 30 };

/* One landing, from its start until the loop was told of its end; or one deletion, of which nobody is
 * told. */
struct flight {
    struct flight *next;
    struct lander *lander;
    struct agent_version_goal goal;
    struct agent_source sources[BATON_SOURCES_PER_VERSION_MAX];
    struct agent_holder holders[BATON_HOLDERS_MAX];
    struct digest digest;
    struct landing_progress progress;
    pthread_t thread;
    bool started;
    _Atomic bool told; /* Its end is in the mailbox: a new landing of the digest may start. */
    _Atomic bool gone; /* Its thread needs nothing any more: joining does not wait. */
};

struct lander {
    struct lander_options options;
    struct landing_root *root;
    struct flight *flights;
    pthread_mutex_t lock;
    pthread_cond_t freed;
    /* Under the lock. */
    unsigned running; /* Landings. */
    struct digest drops[DROPS_MAX];
    unsigned drops_count;
};

static bool read_digest(const char *text, struct digest *out)
{
    return baton_hex_decode(text, out->bytes, sizeof(out->bytes));
}

/* --- a flight's thread --- */

/* {"directory": "..."}: the file backend's configuration; the caller frees it. */
static char *source_config(const struct agent_source *source)
{
    json_t *json = json_pack("{s:s}", "directory", source->location);
    char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    return text;
}

static struct baton_status land_from(struct flight *flight, const struct agent_source *source)
{
    struct manifest *manifest = NULL;
    char *config = source_config(source);
    if (config == NULL) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "source '%.200s' is no text", source->location);
    }
    struct landing_source from = { .backend = source->backend, .config = config };
    struct landing_options options = { .timeout_ns = SOURCE_TIMEOUT_S * BATON_NS_PER_S };
    struct baton_status st =
        landing_fetch_manifest(&from, &flight->digest, options.timeout_ns, &manifest);
    if (baton_ok(&st)) {
        st = landing_land(flight->lander->root, manifest, &from, &options, &flight->progress);
    }
    manifest_destroy(manifest);
    free(config);
    return baton_status_in(st, "from %s:%.160s", source->backend, source->location);
}

/* Nobody else could do better. */
static bool is_final(const struct baton_status *st)
{
    return baton_ok(st) || st->code == BATON_CANCELLED || st->reason == BATON_REASON_NO_SPACE;
}

/* What was counted goes for the next one, which counts what is there already, too. */
static void count_anew(struct flight *flight)
{
    flight->progress.bytes_done = 0;
    flight->progress.bytes_total = 0;
    flight->progress.bytes_resumed = 0;
}

static struct baton_status land_from_sources(struct flight *flight)
{
    struct baton_status st = baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE,
                                               "the version has no source");
    for (uint32_t i = 0; i < flight->goal.sources_count; i++) {
        count_anew(flight);
        st = land_from(flight, &flight->sources[i]);
        if (is_final(&st)) {
            break;
        }
    }
    return st;
}

static struct baton_status land(struct flight *flight)
{
    struct exchange *exchange = flight->lander->options.exchange;
    if (exchange == NULL || flight->goal.holders_count == 0) {
        return land_from_sources(flight);
    }
    struct baton_status peers =
        exchange_pull(exchange, flight->lander->root, &flight->goal, &flight->progress);
    if (is_final(&peers)) {
        return peers;
    }
    baton_log_status(BATON_LOG_WARN, "landing", "peers did not give it; trying its sources",
                     &peers);
    struct baton_status st = land_from_sources(flight);
    return baton_status_in(st, "%.130s", peers.message);
}

static struct lander_event *end_of(struct flight *flight, const struct baton_status *st)
{
    struct lander_event *event = calloc(1, sizeof(*event));
    baton_assert(event != NULL);
    memcpy(event->landing.digest, flight->goal.version.digest, sizeof(event->landing.digest));
    event->landing.state = baton_ok(st) ? AGENT_LANDING_DONE : AGENT_LANDING_FAILED;
    event->landing.bytes = flight->progress.bytes_done;
    event->landing.used_bytes = landing_used_bytes(flight->lander->root);
    event->landing.status = *st;
    flight->told = true;
    return event;
}

/* With the lock held. */
static bool is_dropping(const struct lander *lander, struct digest digest)
{
    for (unsigned i = 0; i < lander->drops_count; i++) {
        if (digest_equal(lander->drops[i], digest)) {
            return true;
        }
    }
    return false;
}

static void remove_version(struct lander *lander, struct digest digest)
{
    struct baton_status st = landing_remove(lander->root, digest);
    (void)st; /* NOT_FOUND is what was wanted, and a pinned one is asked for again. */
}

static void *drop(void *argument)
{
    struct flight *flight = argument;
    struct lander *lander = flight->lander;
    remove_version(lander, flight->digest);
    (void)pthread_mutex_lock(&lander->lock);
    for (unsigned i = 0; i < lander->drops_count; i++) {
        if (digest_equal(lander->drops[i], flight->digest)) {
            lander->drops[i] = lander->drops[--lander->drops_count];
            break;
        }
    }
    (void)pthread_cond_broadcast(&lander->freed);
    (void)pthread_mutex_unlock(&lander->lock);
    flight->gone = true;
    return NULL;
}

static void *fly(void *argument)
{
    struct flight *flight = argument;
    struct lander *lander = flight->lander;
    (void)pthread_mutex_lock(&lander->lock);
    while (lander->running == AT_ONCE_MAX || is_dropping(lander, flight->digest)) {
        (void)pthread_cond_wait(&lander->freed, &lander->lock);
    }
    lander->running++;
    (void)pthread_mutex_unlock(&lander->lock);
    struct baton_status st =
        flight->progress.cancel
            ? baton_status_make(BATON_CANCELLED, BATON_REASON_NONE, "cancelled before it began")
            : land(flight);
    (void)pthread_mutex_lock(&lander->lock);
    lander->running--;
    (void)pthread_cond_broadcast(&lander->freed);
    (void)pthread_mutex_unlock(&lander->lock);
    baton_mailbox_post_sure(lander->options.mailbox, lander->options.tell, end_of(flight, &st));
    flight->gone = true;
    return NULL;
}

/* --- the loop's side --- */

static void join(struct flight *flight)
{
    if (flight->started) {
        (void)pthread_join(flight->thread, NULL);
    }
    free(flight);
}

/* Frees the flights that ended. */
static void sweep(struct lander *lander)
{
    for (struct flight **at = &lander->flights; *at != NULL;) {
        struct flight *flight = *at;
        if (flight->gone) {
            *at = flight->next;
            join(flight);
        } else {
            at = &flight->next;
        }
    }
}

static struct flight *find(struct lander *lander, const char *digest)
{
    for (struct flight *f = lander->flights; f != NULL; f = f->next) {
        if (!f->told && strcmp(f->goal.version.digest, digest) == 0) {
            return f;
        }
    }
    return NULL;
}

void lander_land(struct lander *lander, const struct agent_version_goal *goal)
{
    sweep(lander);
    if (find(lander, goal->version.digest) != NULL) {
        return;
    }
    struct flight *flight = calloc(1, sizeof(*flight));
    baton_assert(flight != NULL);
    flight->lander = lander;
    flight->goal = *goal;
    memcpy(flight->sources, goal->sources, goal->sources_count * sizeof(*goal->sources));
    if (goal->holders_count > 0) {
        memcpy(flight->holders, goal->holders, goal->holders_count * sizeof(*goal->holders));
    }
    flight->goal.holders = flight->holders;
    flight->next = lander->flights;
    lander->flights = flight;
    struct baton_status st = baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                               "'%s' is no digest", goal->version.digest);
    if (read_digest(goal->version.digest, &flight->digest)) {
        flight->started = pthread_create(&flight->thread, NULL, fly, flight) == 0;
        st = baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                               "no thread to land with");
    }
    if (!flight->started) {
        baton_mailbox_post_own(lander->options.mailbox, lander->options.tell, end_of(flight, &st));
        flight->gone = true;
    }
}

struct landing_root *lander_root(struct lander *lander)
{
    return lander->root;
}

void lander_cancel(struct lander *lander, const char *digest)
{
    struct flight *flight = find(lander, digest);
    if (flight != NULL) {
        flight->progress.cancel = true;
    }
}

/* False if too many are under way. */
static bool note_drop(struct lander *lander, struct digest digest)
{
    (void)pthread_mutex_lock(&lander->lock);
    bool fits = lander->drops_count < DROPS_MAX && !is_dropping(lander, digest);
    if (fits) {
        lander->drops[lander->drops_count++] = digest;
    }
    (void)pthread_mutex_unlock(&lander->lock);
    return fits;
}

void lander_drop(struct lander *lander, const char *digest)
{
    struct digest wanted;
    sweep(lander);
    if (!read_digest(digest, &wanted) || !note_drop(lander, wanted)) {
        return; /* The controller lists it again. */
    }
    struct flight *flight = calloc(1, sizeof(*flight));
    baton_assert(flight != NULL);
    flight->lander = lander;
    flight->digest = wanted;
    flight->told = true;
    flight->next = lander->flights;
    lander->flights = flight;
    flight->started = pthread_create(&flight->thread, NULL, drop, flight) == 0;
    if (!flight->started) {
        (void)drop(flight);
    }
}

bool lander_is_busy(const struct lander *lander)
{
    for (const struct flight *f = lander->flights; f != NULL; f = f->next) {
        if (!f->told) {
            return true;
        }
    }
    return false;
}

void lander_progress(struct lander *lander,
                     void (*visit)(void *context, const struct agent_landing_event *event),
                     void *context)
{
    uint64_t used_bytes = landing_used_bytes(lander->root);
    size_t count = 0;
    for (const struct flight *f = lander->flights; f != NULL; f = f->next) {
        count++;
    }
    /* The visitor may start and sweep landings, so the list is read before anybody hears of it. */
    struct agent_landing_event *events = calloc(count + 1, sizeof(*events));
    baton_assert(events != NULL);
    count = 0;
    for (const struct flight *f = lander->flights; f != NULL; f = f->next) {
        if (!f->told) {
            struct agent_landing_event *event = &events[count++];
            *event = (struct agent_landing_event){ .state = AGENT_LANDING_PROGRESS,
                                                   .bytes = f->progress.bytes_done,
                                                   .used_bytes = used_bytes,
                                                   .status = baton_status_ok() };
            memcpy(event->digest, f->goal.version.digest, sizeof(event->digest));
        }
    }
    for (size_t i = 0; i < count; i++) {
        visit(context, &events[i]);
    }
    free(events);
}

void lander_list(struct lander *lander,
                 void (*visit)(void *context, const struct agent_landing_event *event),
                 void *context)
{
    struct landing_version versions[LIST_MAX];
    size_t count = landing_list(lander->root, versions, LIST_MAX);
    for (size_t i = 0; i < count && i < LIST_MAX; i++) {
        struct agent_landing_event event = { .state = AGENT_LANDING_DONE,
                                             .bytes = versions[i].bytes,
                                             .used_bytes = landing_used_bytes(lander->root),
                                             .status = baton_status_ok() };
        baton_hex_encode(versions[i].digest.bytes, sizeof(versions[i].digest.bytes), event.digest);
        visit(context, &event);
    }
}

bool lander_path(struct lander *lander, const char *digest, char out[BATON_PATH_BYTES])
{
    struct digest wanted;
    if (!read_digest(digest, &wanted) || !landing_has(lander->root, wanted)) {
        return false;
    }
    landing_path(lander->root, wanted, out);
    return true;
}

struct baton_status lander_compare(struct lander *lander, const char *from, const char *to)
{
    struct digest digests[2];
    struct manifest *manifests[2] = { NULL, NULL };
    if (!read_digest(from, &digests[0]) || !read_digest(to, &digests[1])) {
        return baton_status_ok();
    }
    struct baton_status st = landing_load_manifest(lander->root, digests[0], &manifests[0]);
    if (baton_ok(&st)) {
        st = landing_load_manifest(lander->root, digests[1], &manifests[1]);
    }
    st = baton_ok(&st) ? manifest_compare_layout(manifests[0], manifests[1]) : baton_status_ok();
    manifest_destroy(manifests[0]);
    manifest_destroy(manifests[1]);
    return st;
}

struct baton_status lander_create(const struct lander_options *options, struct lander **out)
{
    struct landing_root_options root = { options->directory, options->budget_bytes };
    struct lander *lander = calloc(1, sizeof(*lander));
    baton_assert(lander != NULL);
    lander->options = *options;
    (void)pthread_mutex_init(&lander->lock, NULL);
    (void)pthread_cond_init(&lander->freed, NULL);
    struct baton_status st = landing_root_open(&root, &lander->root);
    if (!baton_ok(&st)) {
        lander_destroy(lander);
        return baton_status_in(st, "landing");
    }
    *out = lander;
    return st;
}

void lander_destroy(struct lander *lander)
{
    if (lander == NULL) {
        return;
    }
    for (struct flight *f = lander->flights; f != NULL; f = f->next) {
        f->progress.cancel = true;
    }
    while (lander->flights != NULL) {
        struct flight *flight = lander->flights;
        lander->flights = flight->next;
        join(flight);
    }
    if (lander->root != NULL) {
        landing_root_close(lander->root);
    }
    (void)pthread_cond_destroy(&lander->freed);
    (void)pthread_mutex_destroy(&lander->lock);
    free(lander);
}
