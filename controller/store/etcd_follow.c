/* etcd_follow.c -- the copy of a store in etcd that a watch keeps; see follow.h. */
#include "controller/store/follow.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/base/clock.h"
#include "api/base/log.h"
#include "controller/store/etcd_http.h"
#include "controller/store/etcd_store.h"
#include "controller/store/mirror.h"

enum {
    TIMEOUT_MS = 3000, /* Of a read with all its tries; a try lasts a third. */
    CHECK_MS = 1000,
    CREATED_MS = 3000, /* A member must have begun the watch. */
    LAG_MS = 2000,     /* What a read saw must have come by the watch. */
    PAUSE_FIRST_MS = 50,
    PAUSE_MAX_MS = 1000,
};

static const char scheme[] = "etcd:";

struct store_follower {
    struct etcd_store *reader; /* The thread's. */
    uint32_t endpoint;         /* Of the watch; the thread's. */
    uint32_t pause_ms;         /* Before the next try; the thread's. */
    uint64_t next; /* Revision of etcd that the watch goes on from; 0: list first.  The thread's. */
    uint64_t check_ns; /* When to ask; the thread's. */
    bool said;         /* The problem was logged; the thread's. */
    pthread_t thread;
    bool started;
    pthread_mutex_t mutex;
    pthread_cond_t poked;
    /* Under the mutex. */
    bool on;
    bool stop;
    bool anew;                  /* It was off meanwhile: what the thread is at is of no use. */
    struct etcd_stream *stream; /* To be woken. */
    struct mirror mirror;
    struct store_copy copy;
    bool touched;        /* By the message at hand. */
    bool redo;           /* A large commit is applied by parts. */
    uint64_t mod;        /* Revision of etcd at which the store's revision was written. */
    uint64_t wanted_mod; /* That a read saw, and the watch did not bring yet; 0: none. */
    uint64_t wanted_ns;  /* When that read was sent. */
};

static bool is_over(struct store_follower *f)
{
    pthread_mutex_lock(&f->mutex);
    bool over = f->stop || !f->on || f->anew;
    pthread_mutex_unlock(&f->mutex);
    return over;
}

/* --- the copy, under the mutex --- */

static void settle_copy(struct store_follower *f)
{
    f->copy.whole = f->mod != 0 && !f->redo;
    f->copy.changes++;
    if (f->copy.whole && f->wanted_mod != 0 && f->mod >= f->wanted_mod) {
        f->copy.confirmed_ns = f->wanted_ns;
        f->wanted_mod = 0;
    }
}

static void forget(struct store_follower *f)
{
    struct store_copy before = f->copy;
    mirror_free(&f->mirror);
    f->copy = (struct store_copy){ .changes = before.changes,
                                   .lists = before.lists,
                                   .problem = before.problem };
    f->redo = false;
    f->mod = 0;
    f->wanted_mod = 0;
    settle_copy(f);
}

/* Name behind "PREFIX/"; null: it is not there. */
static const char *name_of(const struct store_follower *f, const struct etcd_pair *pair)
{
    const char *prefix = f->reader->address.prefix;
    size_t bytes = strlen(prefix);
    return strncmp(pair->key, prefix, bytes) == 0 && pair->key[bytes] == '/' ? pair->key + bytes + 1
                                                                             : NULL;
}

static struct baton_status apply_fence(struct store_follower *f, const char *name,
                                       const struct etcd_pair *pair)
{
    struct baton_status st = baton_status_ok();
    f->touched = true;
    if (strcmp(name, "redo") == 0) {
        f->redo = !pair->removed;
    } else if (strncmp(name, "log/", 4) == 0 && !pair->removed) {
        f->copy.log_next_number = strtoull(name + 4, NULL, 10) + 1;
    } else if (strcmp(name, "revision") == 0) {
        struct etcd_revision revision = { 0 };
        st = pair->removed ? etcd_gone(f->reader) : etcd_revision_parse(pair->value, &revision);
        f->copy.revision = revision.revision;
        f->mod = baton_ok(&st) ? pair->mod_revision : 0;
    } else if (strcmp(name, "epoch") == 0) {
        struct etcd_epoch epoch = { 0 };
        st = pair->removed ? etcd_gone(f->reader) : etcd_epoch_parse(pair->value, &epoch);
        f->copy.epoch = epoch.epoch;
    } else {
        f->touched = false; /* The leader's record, parts of a commit. */
    }
    return st;
}

static struct baton_status apply_pair(struct store_follower *f, const struct etcd_pair *pair)
{
    static const char records[] = "records/";
    const char *name = name_of(f, pair);
    bool touched = f->touched;
    f->next = pair->mod_revision >= f->next ? pair->mod_revision + 1 : f->next;
    if (name == NULL) {
        return baton_status_ok();
    }
    if (strncmp(name, records, sizeof(records) - 1) != 0) {
        struct baton_status st = apply_fence(f, name, pair);
        f->touched = f->touched || touched;
        return st;
    }
    f->touched = true;
    name += sizeof(records) - 1;
    if (pair->removed) {
        mirror_remove(&f->mirror, name);
        return baton_status_ok();
    }
    return mirror_put(&f->mirror, name, pair->value);
}

/* All that one message brings is of whole transactions of etcd. */
static struct baton_status apply(struct store_follower *f, const struct etcd_answer *answer)
{
    struct baton_status st = baton_status_ok();
    pthread_mutex_lock(&f->mutex);
    bool wanted = f->on && !f->anew;
    f->touched = false;
    for (size_t i = 0; wanted && baton_ok(&st) && i < answer->pairs_count; i++) {
        st = apply_pair(f, &answer->pairs[i]);
    }
    if (!baton_ok(&st)) { /* Of no use any more: it is listed again. */
        f->mod = 0;
        f->next = 0;
    }
    if (f->touched || !baton_ok(&st)) {
        settle_copy(f);
    }
    pthread_mutex_unlock(&f->mutex);
    return st;
}

/* --- listing and checking --- */

static struct baton_status list_text(void *context, const char *kind, const char *key,
                                     const char *text)
{
    char name[ETCD_KEY_BYTES];
    int length = snprintf(name, sizeof(name), "%s/%s", kind, key);
    return length > 0 && (size_t)length < sizeof(name)
               ? mirror_put(context, name, text)
               : baton_status_make(BATON_DATA_LOSS, BATON_REASON_MALFORMED,
                                   "store: a record's name is too long");
}

/* Under the mutex; false: it was off meanwhile. */
static bool install(struct store_follower *f, const struct mirror *fresh,
                    const struct store_start *start, uint64_t sent_ns)
{
    if (!f->on || f->anew) {
        return false;
    }
    mirror_free(&f->mirror);
    f->mirror = *fresh;
    f->copy.epoch = start->epoch;
    f->copy.revision = start->revision;
    f->copy.log_next_number = start->log_next_number;
    f->copy.confirmed_ns = sent_ns;
    f->copy.lists++;
    f->redo = false;
    f->mod = f->reader->revision_mod;
    f->wanted_mod = 0;
    settle_copy(f);
    return true;
}

static struct baton_status list(struct store_follower *f)
{
    struct mirror fresh = { 0 };
    struct store_start start;
    uint64_t sent_ns = baton_clock_monotonic_ns();
    struct baton_status st = etcd_take_snapshot(f->reader, &start);
    if (baton_ok(&st)) {
        st = store_scan(&f->reader->base, list_text, &fresh);
    }
    if (!baton_ok(&st)) {
        mirror_free(&fresh);
        return st;
    }
    pthread_mutex_lock(&f->mutex);
    bool installed = install(f, &fresh, &start, sent_ns);
    pthread_mutex_unlock(&f->mutex);
    if (!installed) {
        mirror_free(&fresh);
        return st;
    }
    f->next = f->reader->snapshot + 1;
    f->check_ns = sent_ns + CHECK_MS * BATON_NS_PER_MS;
    return st;
}

static struct baton_status lags(const struct store_follower *f)
{
    return baton_status_hint(baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
                                               "etcd %s: the watch lags behind what a read sees",
                                               f->reader->address.endpoints[f->endpoint]),
                             "another member is tried; is this one cut off or overloaded?");
}

/* Compares the copy with the store as a read sees it. */
static struct baton_status compare(struct store_follower *f, const struct etcd_found *found,
                                   uint64_t sent_ns)
{
    bool late = false;
    pthread_mutex_lock(&f->mutex);
    bool behind = f->mod < found->revision_mod || (f->redo && !found->redo);
    if (!behind && !f->redo) {
        f->copy.confirmed_ns = sent_ns;
        f->wanted_mod = 0;
    } else if (behind && f->wanted_mod == 0) {
        f->wanted_mod = found->revision_mod;
        f->wanted_ns = sent_ns;
    } else if (behind) {
        late = sent_ns - f->wanted_ns > LAG_MS * BATON_NS_PER_MS;
    }
    pthread_mutex_unlock(&f->mutex);
    return late ? lags(f) : baton_status_ok();
}

/* What the copy is worth at present; logged when that changes. */
static void note(struct store_follower *f, const struct baton_status *problem)
{
    pthread_mutex_lock(&f->mutex);
    f->copy.problem = *problem;
    struct baton_log_field revision = BATON_LOG_NUMBER("revision", f->copy.revision);
    pthread_mutex_unlock(&f->mutex);
    if (!baton_ok(problem) && !f->said) {
        baton_log_status(BATON_LOG_WARN, "store", "the store is not followed", problem);
    } else if (baton_ok(problem) && f->said) {
        baton_log_fields(BATON_LOG_INFO, "store", "the store is followed again", &revision, 1);
    }
    f->said = !baton_ok(problem);
}

/* Gives a failure only if the watch must begin anew. */
static struct baton_status check(struct store_follower *f)
{
    struct etcd_found found;
    uint64_t sent_ns = baton_clock_monotonic_ns();
    struct baton_status st =
        etcd_find(f->reader, etcd_client_deadline_ns(f->reader->client), &found);
    f->check_ns = baton_clock_monotonic_ns() + CHECK_MS * BATON_NS_PER_MS;
    if (baton_ok(&st) && !found.exists) {
        st = etcd_gone(f->reader);
    }
    if (!baton_ok(&st)) {
        note(f, &st);
        return baton_status_ok();
    }
    st = compare(f, &found, sent_ns);
    if (baton_ok(&st)) {
        note(f, &st);
    }
    return st;
}

/* --- the watch --- */

static struct baton_status open_watch(struct store_follower *f, struct etcd_stream **out)
{
    const char *prefix = f->reader->address.prefix;
    char key[ETCD_KEY_BYTES];
    struct etcd_text body = { 0 };
    etcd_key(f->reader, "", key);
    etcd_text_add(&body, "{\"create_request\":{\"key\":");
    etcd_text_base64(&body, key, strlen(key));
    etcd_text_add(&body, ",\"range_end\":");
    (void)snprintf(key, sizeof(key), "%s0", prefix); /* '0' comes behind '/'. */
    etcd_text_base64(&body, key, strlen(key));
    etcd_text_format(&body, ",\"start_revision\":\"%llu\",\"progress_notify\":true}}",
                     (unsigned long long)f->next);
    struct baton_status st = baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
                                               "store: out of memory");
    if (!body.failed) {
        struct baton_bytes bytes = { (const uint8_t *)body.data, body.size };
        st = etcd_client_watch(f->reader->client, f->endpoint, bytes, out);
    }
    etcd_text_free(&body);
    return st;
}

static struct baton_status cancelled(struct store_follower *f, const struct etcd_answer *answer)
{
    const char *endpoint = f->reader->address.endpoints[f->endpoint];
    if (answer->compacted != 0) {
        f->next = 0;
        return baton_status_make(BATON_OUT_OF_RANGE, BATON_REASON_COMPACTED,
                                 "etcd %s was compacted up to revision %llu; reading it anew",
                                 endpoint, (unsigned long long)answer->compacted);
    }
    return baton_status_hint(baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
                                               "etcd %s ended the watch: %s", endpoint,
                                               answer->message),
                             "the user's role needs to read the store's prefix");
}

static struct baton_status take(struct store_follower *f, struct etcd_answer *answer, bool *created)
{
    struct baton_status st = baton_status_ok();
    const char *endpoint = f->reader->address.endpoints[f->endpoint];
    if (etcd_answer_judge(answer, 200, &st) != ETCD_FINE) {
        return baton_status_in(st, "%s", endpoint);
    }
    if (answer->cluster_id != etcd_client_cluster(f->reader->client)) {
        return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                                 "etcd %s belongs to another cluster, %llx", endpoint,
                                 (unsigned long long)answer->cluster_id);
    }
    if (answer->canceled) {
        return cancelled(f, answer);
    }
    *created = *created || answer->created;
    if (answer->pairs_count > 0) {
        return apply(f, answer);
    }
    if (!answer->created && answer->revision >= f->next) { /* A progress notification. */
        f->next = answer->revision + 1;
    }
    return st;
}

/* One turn: the next line, if one comes, and a check if it is time. */
static struct baton_status turn(struct store_follower *f, struct etcd_stream *stream, bool *created)
{
    struct baton_bytes line;
    struct etcd_answer answer;
    struct baton_status st = baton_status_ok();
    uint64_t now_ns = baton_clock_monotonic_ns();
    uint64_t wait_ms = now_ns >= f->check_ns ? 0 : (f->check_ns - now_ns) / BATON_NS_PER_MS + 1;
    switch (etcd_stream_next(stream, wait_ms, &line, &st)) {
    case ETCD_STREAM_LINE:
        st = etcd_answer_parse(line, &answer);
        st = baton_ok(&st) ? take(f, &answer, created) : st;
        etcd_answer_free(&answer);
        break;
    case ETCD_STREAM_QUIET: break;
    case ETCD_STREAM_END: return st;
    }
    bool due = baton_clock_monotonic_ns() >= f->check_ns;
    return baton_ok(&st) && due ? check(f) : st;
}

static void set_stream(struct store_follower *f, struct etcd_stream *stream)
{
    pthread_mutex_lock(&f->mutex);
    f->stream = stream;
    f->wanted_mod = 0; /* The next watch has its own time for it. */
    pthread_mutex_unlock(&f->mutex);
}

static struct baton_status silent(const struct store_follower *f)
{
    return baton_status_hint(baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
                                               "etcd %s does not begin the watch",
                                               f->reader->address.endpoints[f->endpoint]),
                             "another member is tried; is this one cut off or overloaded?");
}

/* Watches one member until that ends; says why. */
static struct baton_status watch(struct store_follower *f)
{
    struct etcd_stream *stream = NULL;
    bool created = false;
    uint64_t created_ns = baton_clock_monotonic_ns() + CREATED_MS * BATON_NS_PER_MS;
    struct baton_status st = open_watch(f, &stream);
    if (!baton_ok(&st)) {
        return st;
    }
    set_stream(f, stream);
    while (baton_ok(&st) && !is_over(f)) {
        st = turn(f, stream, &created);
        if (created) {
            f->pause_ms = PAUSE_FIRST_MS;
        } else if (baton_ok(&st) && baton_clock_monotonic_ns() > created_ns) {
            st = silent(f);
        }
    }
    set_stream(f, NULL);
    etcd_stream_close(stream);
    f->endpoint = (f->endpoint + 1) % f->reader->address.endpoints_count;
    return st;
}

/* --- the thread --- */

/* Waits until it is on; false: it is to stop. */
static bool wait_on(struct store_follower *f)
{
    pthread_mutex_lock(&f->mutex);
    while (!f->on && !f->stop) {
        (void)pthread_cond_wait(&f->poked, &f->mutex);
    }
    f->next = f->anew ? 0 : f->next;
    f->anew = false;
    bool goes_on = !f->stop;
    pthread_mutex_unlock(&f->mutex);
    return goes_on;
}

static void pause_a_while(struct store_follower *f)
{
    uint64_t wake_ns = baton_clock_monotonic_ns() + f->pause_ms * BATON_NS_PER_MS;
    struct timespec wake = { .tv_sec = (time_t)(wake_ns / BATON_NS_PER_S),
                             .tv_nsec = (long)(wake_ns % BATON_NS_PER_S) };
    pthread_mutex_lock(&f->mutex);
    while (f->on && !f->anew && !f->stop && baton_clock_monotonic_ns() < wake_ns) {
        (void)pthread_cond_timedwait(&f->poked, &f->mutex, &wake);
    }
    pthread_mutex_unlock(&f->mutex);
    f->pause_ms = f->pause_ms * 2 < PAUSE_MAX_MS ? f->pause_ms * 2 : PAUSE_MAX_MS;
}

static void *run(void *argument)
{
    struct store_follower *f = argument;
    while (wait_on(f)) {
        struct baton_status st = f->next != 0 ? baton_status_ok() : list(f);
        if (baton_ok(&st) && !is_over(f)) {
            st = watch(f);
        }
        if (!baton_ok(&st) && !is_over(f)) {
            baton_log_status(BATON_LOG_DEBUG, "store", "a watch of etcd ended", &st);
            if (f->next == 0 && st.reason != BATON_REASON_COMPACTED) {
                note(f, &st); /* Else the copy is good as long as it can be compared. */
            }
            pause_a_while(f);
            if (baton_clock_monotonic_ns() >= f->check_ns && f->next != 0) {
                st = check(f);
            }
        }
    }
    return NULL;
}

/* --- life --- */

static struct baton_status open_reader(const char *address, uint64_t cluster,
                                       struct etcd_store **out)
{
    if (strncmp(address, scheme, sizeof(scheme) - 1) != 0) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "store: %.200s cannot be followed; only etcd can", address);
    }
    struct baton_status st = etcd_open_client(address + sizeof(scheme) - 1, out);
    if (baton_ok(&st)) {
        uint32_t timeout_ms = (*out)->address.timeout_ms;
        (*out)->address.timeout_ms = timeout_ms < TIMEOUT_MS ? timeout_ms : TIMEOUT_MS;
        etcd_client_pin((*out)->client, cluster);
    }
    return st;
}

struct baton_status store_follower_open(const char *address, uint64_t cluster,
                                        struct store_follower **out)
{
    pthread_condattr_t attributes;
    struct store_follower *f = calloc(1, sizeof(*f));
    baton_assert(f != NULL);
    struct baton_status st = open_reader(address, cluster, &f->reader);
    if (!baton_ok(&st)) {
        store_close(f->reader == NULL ? NULL : &f->reader->base);
        free(f);
        return st;
    }
    f->pause_ms = PAUSE_FIRST_MS;
    f->copy.problem = baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
                                        "the store was not read yet");
    pthread_mutex_init(&f->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&f->poked, &attributes);
    pthread_condattr_destroy(&attributes);
    *out = f;
    return st;
}

struct baton_status store_follower_start(struct store_follower *f)
{
    int error = pthread_create(&f->thread, NULL, run, f);
    f->started = error == 0;
    return error == 0 ? baton_status_ok()
                      : baton_status_errno(error, "pthread_create", "store follower");
}

/* Under the mutex. */
static void poke(struct store_follower *f)
{
    if (f->stream != NULL) {
        etcd_stream_wake(f->stream);
    }
    pthread_cond_signal(&f->poked);
}

void store_follower_set(struct store_follower *f, bool on)
{
    pthread_mutex_lock(&f->mutex);
    if (f->on && !on) {
        forget(f);
        f->anew = true;
    }
    f->on = on;
    poke(f);
    pthread_mutex_unlock(&f->mutex);
}

void store_follower_look(struct store_follower *f, struct store_copy *out)
{
    pthread_mutex_lock(&f->mutex);
    *out = f->copy;
    pthread_mutex_unlock(&f->mutex);
}

struct loading {
    store_visit_fn visit;
    void *context;
};

static struct baton_status load_text(void *context, const char *name, const char *text)
{
    const struct loading *loading = context;
    char kind[ETCD_KEY_BYTES];
    const char *slash = strchr(name, '/');
    size_t bytes = slash == NULL ? strlen(name) : (size_t)(slash - name);
    memcpy(kind, name, bytes);
    kind[bytes] = '\0';
    return store_decode(kind, slash == NULL ? "" : slash + 1, text, loading->visit,
                        loading->context);
}

struct baton_status store_follower_load(struct store_follower *f, store_visit_fn visit,
                                        void *context, struct store_copy *out)
{
    struct loading loading = { visit, context };
    pthread_mutex_lock(&f->mutex);
    *out = f->copy;
    struct baton_status st =
        out->whole ? mirror_visit(&f->mirror, load_text, &loading)
                   : baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
                                       "there is no whole copy of the store here");
    pthread_mutex_unlock(&f->mutex);
    return st;
}

void store_follower_close(struct store_follower *f)
{
    if (f == NULL) {
        return;
    }
    pthread_mutex_lock(&f->mutex);
    f->stop = true;
    poke(f);
    pthread_mutex_unlock(&f->mutex);
    if (f->started) {
        (void)pthread_join(f->thread, NULL);
    }
    mirror_free(&f->mirror);
    store_close(&f->reader->base);
    pthread_cond_destroy(&f->poked);
    pthread_mutex_destroy(&f->mutex);
    free(f);
}
