/* puller.c -- which peer is asked; see puller.h. */
#include "transport/p2p/puller.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/base/clock.h"
#include "transport/model/manifest.h"
#include "transport/p2p/puller_state.h"

enum {
    PATIENCE_S = 15,
    REFUSALS_MAX = 3, /* Then it is not asked again. */
    STALL_S = 10,
    BODY_WAIT_MS = 1000,
    RETRY_MS = 250,
    RETRY_MAX_MS = 4000,
    PAUSE_MS = 20
};

/* --- peers --- */

static void note_gift(struct puller *puller, uint32_t peer, uint64_t bytes)
{
    (void)pthread_mutex_lock(&puller->lock);
    puller->states[peer].failures = 0;
    puller->states[peer].bytes += bytes;
    puller->gave_ns = baton_clock_monotonic_ns();
    (void)pthread_mutex_unlock(&puller->lock);
}

static void note_failure(struct puller *puller, uint32_t peer, const struct baton_status *why)
{
    (void)pthread_mutex_lock(&puller->lock);
    struct peer_state *state = &puller->states[peer];
    uint64_t wait_ms = (uint64_t)RETRY_MS << (state->failures < 4 ? state->failures : 4);
    state->failures++;
    state->refused += why->code == BATON_PERMISSION_DENIED;
    state->retry_ns = baton_clock_monotonic_ns() +
                      (wait_ms < RETRY_MAX_MS ? wait_ms : RETRY_MAX_MS) * BATON_NS_PER_MS;
    (void)snprintf(state->said, sizeof(state->said), "%.159s", why->message);
    (void)pthread_mutex_unlock(&puller->lock);
}

static void note_poison(struct puller *puller, uint32_t peer, uint64_t chunk)
{
    struct puller_poison poison = { &puller->options.peers[peer], chunk };
    (void)pthread_mutex_lock(&puller->lock);
    bool known = puller->states[peer].poisoned;
    puller->states[peer].poisoned = true;
    (void)snprintf(puller->states[peer].said, sizeof(puller->states[peer].said),
                   "gave bytes that are not what their digest says");
    (void)pthread_mutex_unlock(&puller->lock);
    if (!known) {
        puller->options.told(puller->options.context, &poison);
    }
}

/* What may be asked now. */
enum standing { STANDING_NEVER, STANDING_LATER, STANDING_NOW };

/* Under the lock. */
static enum standing standing_of(const struct puller *puller, uint32_t peer, uint64_t now_ns)
{
    const struct peer_state *state = &puller->states[peer];
    if (state->poisoned || state->refused >= REFUSALS_MAX) {
        return STANDING_NEVER;
    }
    return state->retry_ns <= now_ns ? STANDING_NOW : STANDING_LATER;
}

/* The first peer from 'from' on, around, that may be asked now; those that are 'last' only where no other will ever
 * be, or where nobody gave anything for half the patience.  False: none now; '*out_hope' false: nor later. */
static bool choose(struct puller *puller, uint32_t from, uint32_t *out, bool *out_hope)
{
    const struct puller_options *options = &puller->options;
    uint64_t now_ns = baton_clock_monotonic_ns();
    bool found = false;
    *out_hope = false;
    (void)pthread_mutex_lock(&puller->lock);
    bool pressed = now_ns - puller->gave_ns > options->patience_ns / 2;
    for (int round = 0; round < 2 && !found && (round == 0 || !*out_hope || pressed); round++) {
        for (uint32_t i = 0; i < options->peers_count && !found; i++) {
            uint32_t peer = (from + i) % options->peers_count;
            if (options->peers[peer].last != (round == 1)) {
                continue;
            }
            enum standing standing = standing_of(puller, peer, now_ns);
            *out_hope |= standing != STANDING_NEVER;
            if (standing == STANDING_NOW) {
                found = true;
                *out = peer;
            }
        }
    }
    (void)pthread_mutex_unlock(&puller->lock);
    return found;
}

static bool is_cancelled(const struct puller *puller)
{
    return puller->options.progress != NULL && atomic_load(&puller->options.progress->cancel);
}

/* Fails once nobody gave anything for too long, or nobody is left. */
static struct baton_status check_hope(struct puller *puller, bool hope)
{
    char said[280] = "";
    size_t used = 0;
    (void)pthread_mutex_lock(&puller->lock);
    uint64_t since_ns = baton_clock_monotonic_ns() - puller->gave_ns;
    for (uint32_t i = 0; i < puller->options.peers_count && used < sizeof(said); i++) {
        int written =
            snprintf(said + used, sizeof(said) - used, "%s%.24s: %.110s", i > 0 ? "; " : "",
                     puller->options.peers[i].agent, puller->states[i].said);
        used += written > 0 ? (size_t)written : 0;
    }
    (void)pthread_mutex_unlock(&puller->lock);
    if (is_cancelled(puller)) {
        return baton_status_make(BATON_CANCELLED, BATON_REASON_NONE, "landing: cancelled");
    }
    return hope && since_ns < puller->options.patience_ns
               ? baton_status_ok()
               : baton_status_make(BATON_UNAVAILABLE, BATON_REASON_NONE, "no peer gave it: %s",
                                   said);
}

/* Streams are spread over the peers that have all of it; for the others the first in the list counts. */
static uint32_t share_of(const struct puller *puller, unsigned worker)
{
    uint32_t ordinary = 0;
    for (uint32_t i = 0; i < puller->options.peers_count; i++) {
        ordinary += !puller->options.peers[i].last;
    }
    return ordinary > 0 ? worker % ordinary : worker % puller->options.peers_count;
}

static struct baton_status dial_next(struct feed *feed, uint32_t from)
{
    struct puller *puller = feed->puller;
    bool hope = false;
    for (;;) {
        uint32_t peer = 0;
        struct baton_status st;
        if (choose(puller, from, &peer, &hope)) {
            st = feed_dial(feed, peer);
            if (baton_ok(&st)) {
                return st;
            }
            note_failure(puller, peer, &st);
        } else {
            struct timespec pause = { 0, PAUSE_MS * (long)BATON_NS_PER_MS };
            (void)nanosleep(&pause, NULL);
        }
        st = check_hope(puller, hope);
        if (!baton_ok(&st)) {
            return st;
        }
    }
}

/* Connects if it is not.  'from': which peer is liked best. */
static struct baton_status use(struct feed *feed, uint32_t from)
{
    if (feed->channel != NULL) {
        return baton_status_ok();
    }
    struct baton_status st = dial_next(feed, from);
    if (baton_ok(&st) && !feed->whole && from != 0 && feed->peer != 0) {
        feed_hang_up(feed); /* It is on its way there, too: the first in the list is nearer. */
        st = dial_next(feed, 0);
    }
    return st;
}

/* A peer that is landing it, too, gets the chunk a moment later: as long as things move it is asked again, so that
 * everybody's bytes go down one line. */
static bool may_come(struct puller *puller, const struct frame_answer *answer, uint64_t asked_ns)
{
    uint64_t now_ns = baton_clock_monotonic_ns();
    (void)pthread_mutex_lock(&puller->lock);
    uint64_t last_ns = puller->gave_ns > asked_ns ? asked_ns : puller->gave_ns;
    (void)pthread_mutex_unlock(&puller->lock);
    return answer->code == FRAME_NOT_YET && now_ns - last_ns < puller->options.patience_ns / 4;
}

/* --- manifest and table --- */

static struct baton_status fetch_body(struct feed *feed, enum frame_verb verb, uint64_t limit,
                                      struct baton_bytes *out)
{
    struct frame_request request = { verb, BODY_WAIT_MS, 0 };
    struct frame_answer answer;
    struct baton_status st = feed_ask(feed, &request, &answer);
    if (!baton_ok(&st)) {
        return st;
    }
    if (answer.number > limit) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "%llu bytes, above the limit of %llu",
                                 (unsigned long long)answer.number, (unsigned long long)limit);
    }
    uint8_t *data = malloc(answer.number + 1);
    if (data == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT, "out of memory");
    }
    st = feed_read(feed, data, answer.number);
    data[answer.number] = '\0';
    if (!baton_ok(&st)) {
        free(data);
        return st;
    }
    *out = (struct baton_bytes){ data, answer.number };
    return st;
}

static struct baton_status poisoned(const char *what)
{
    return baton_status_make(BATON_DATA_LOSS, BATON_REASON_DIGEST_MISMATCH,
                             "its %s is not of this version", what);
}

static struct baton_status fetch_manifest(struct feed *feed, struct manifest **out)
{
    struct baton_bytes text = { NULL, 0 };
    struct manifest *manifest = NULL;
    struct baton_status st = fetch_body(feed, FRAME_MANIFEST, MANIFEST_JSON_BYTES_MAX, &text);
    if (!baton_ok(&st)) {
        return st;
    }
    st = manifest_decode_json(text, &manifest);
    free((void *)(uintptr_t)text.data);
    if (!baton_ok(&st) || !digest_equal(manifest->digest, feed->puller->options.version)) {
        manifest_destroy(manifest);
        return poisoned("manifest");
    }
    *out = manifest;
    return st;
}

static struct baton_status fetch_table(struct feed *feed, const struct manifest *manifest,
                                       struct digest **out)
{
    struct baton_bytes bytes = { NULL, 0 };
    uint64_t expected = landing_chunks_count(manifest) * sizeof(**out);
    struct baton_status st = fetch_body(feed, FRAME_TABLE, expected, &bytes);
    if (!baton_ok(&st)) {
        return st;
    }
    struct digest *table = (struct digest *)(uintptr_t)bytes.data;
    if (bytes.size != expected || !landing_table_is_bound(manifest, table)) {
        free(table);
        return poisoned("chunk table");
    }
    *out = table;
    return st;
}

static struct baton_status fetch_from(struct feed *feed, struct manifest **out,
                                      struct digest **out_table)
{
    struct manifest *manifest = NULL;
    struct baton_status st = fetch_manifest(feed, &manifest);
    if (baton_ok(&st)) {
        st = fetch_table(feed, manifest, out_table);
    }
    if (!baton_ok(&st)) {
        manifest_destroy(manifest);
        return st;
    }
    *out = manifest;
    return st;
}

struct baton_status puller_fetch(struct puller *puller, struct manifest **out,
                                 struct digest **out_table)
{
    struct feed feed = { .puller = puller };
    for (;;) {
        struct baton_status st = use(&feed, 0);
        if (!baton_ok(&st)) {
            return st;
        }
        uint32_t peer = feed.peer;
        st = fetch_from(&feed, out, out_table);
        feed_hang_up(&feed);
        if (baton_ok(&st)) {
            note_gift(puller, peer, 0);
            return st;
        }
        note_failure(puller, peer, &st);
        if (st.reason == BATON_REASON_DIGEST_MISMATCH) {
            note_poison(puller, peer, UINT64_MAX);
        }
    }
}

/* --- chunks --- */

static struct baton_status open_feed(void *context, unsigned worker, void **out)
{
    struct feed *feed = calloc(1, sizeof(*feed));
    baton_assert(feed != NULL);
    feed->puller = context;
    feed->worker = worker;
    feed->ahead = FEED_NONE;
    feed->asked = FEED_NONE;
    feed->held_chunk = FEED_NONE;
    *out = feed;
    return baton_status_ok();
}

static void close_feed(void *reader)
{
    struct feed *feed = reader;
    feed_hang_up(feed);
    free(feed->held);
    free(feed);
}

static void expect_chunk(void *reader, uint64_t chunk)
{
    struct feed *feed = reader;
    feed->ahead = chunk;
}

static struct baton_status read_chunk(void *reader, uint64_t chunk, uint8_t *out, size_t size)
{
    struct feed *feed = reader;
    struct puller *puller = feed->puller;
    uint32_t from = share_of(puller, feed->worker);
    for (;;) {
        struct frame_answer answer = { .code = FRAME_FAILED };
        struct baton_status st = use(feed, from);
        uint64_t asked_ns = baton_clock_monotonic_ns();
        while (baton_ok(&st)) {
            st = feed_chunk(feed, chunk, (struct puller_room){ out, size }, &answer);
            if (baton_ok(&st)) {
                note_gift(puller, feed->peer, size);
                return st;
            }
            if (may_come(puller, &answer, asked_ns) && !is_cancelled(puller)) {
                st = baton_status_ok();
            }
        }
        if (feed->channel == NULL) {
            return st; /* Nobody is left. */
        }
        from = feed->peer + 1;
        note_failure(puller, feed->peer, &st);
        feed_hang_up(feed);
        st = check_hope(puller, true);
        if (!baton_ok(&st)) {
            return st;
        }
    }
}

static void reject_chunk(void *reader, uint64_t chunk)
{
    struct feed *feed = reader;
    note_poison(feed->puller, feed->peer, chunk);
    feed_hang_up(feed);
}

struct landing_supplier puller_supplier(struct puller *puller)
{
    return (struct landing_supplier){ puller,       open_feed,  close_feed,
                                      expect_chunk, read_chunk, reject_chunk };
}

/* --- life --- */

struct puller *puller_create(const struct puller_options *options)
{
    struct puller *puller = calloc(1, sizeof(*puller));
    baton_assert(puller != NULL && options->peers_count > 0 &&
                 options->peers_count <= BATON_HOLDERS_MAX);
    puller->options = *options;
    if (puller->options.patience_ns == 0) {
        puller->options.patience_ns = PATIENCE_S * BATON_NS_PER_S;
    }
    if (puller->options.stall_ns == 0) {
        puller->options.stall_ns = STALL_S * BATON_NS_PER_S;
    }
    puller->gave_ns = baton_clock_monotonic_ns();
    (void)pthread_mutex_init(&puller->lock, NULL);
    return puller;
}

void puller_destroy(struct puller *puller)
{
    if (puller != NULL) {
        (void)pthread_mutex_destroy(&puller->lock);
        free(puller);
    }
}

uint64_t puller_bytes(struct puller *puller, uint32_t peer)
{
    (void)pthread_mutex_lock(&puller->lock);
    uint64_t bytes = puller->states[peer].bytes;
    (void)pthread_mutex_unlock(&puller->lock);
    return bytes;
}
