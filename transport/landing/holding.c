/* holding.c -- see holding.h. */
#include "transport/landing/holding.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "transport/landing/job.h"
#include "transport/model/file_io.h"

/* One tensor or file. */
struct holding_item {
    uint64_t bytes;
    uint64_t offset; /* In its file. */
    size_t out;
    uint64_t chunks_first;
};

struct holding {
    struct landing_root *root;
    struct digest digest;
    struct holding *next; /* Under the root's lock, as 'refs'. */
    unsigned refs;
    int dir_fd;
    struct baton_bytes text;
    struct manifest *manifest;
    struct shard_plan *plan;
    struct holding_item *items;
    size_t items_count;
    size_t outs_count;
    struct digest *table;
    uint64_t chunks_count;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Under the lock. */
    int *fds;      /* Of each file; -1: not open yet. */
    uint8_t *have; /* A bit for each chunk, until it is whole. */
    bool whole;
    bool gone;
};

static const char *out_name(const struct holding *holding, size_t out)
{
    return out < holding->plan->shards_count
               ? holding->plan->shards[out].file
               : holding->manifest->files[out - holding->plan->shards_count].name;
}

static void destroy(struct holding *holding)
{
    for (size_t i = 0; holding->fds != NULL && i < holding->outs_count; i++) {
        if (holding->fds[i] >= 0) {
            close(holding->fds[i]);
        }
    }
    if (holding->dir_fd >= 0) {
        close(holding->dir_fd);
    }
    shard_plan_destroy(holding->plan);
    manifest_destroy(holding->manifest);
    free((void *)(uintptr_t)holding->text.data);
    free(holding->items);
    free(holding->table);
    free(holding->fds);
    free(holding->have);
    (void)pthread_mutex_destroy(&holding->lock);
    (void)pthread_cond_destroy(&holding->changed);
    free(holding);
}

/* Takes over 'dir_fd' and 'text', also when it fails. */
static struct holding *make(struct landing_root *root, struct digest digest, int dir_fd,
                            struct baton_bytes text)
{
    pthread_condattr_t attributes;
    struct holding *holding = calloc(1, sizeof(*holding));
    baton_assert(holding != NULL);
    holding->root = root;
    holding->digest = digest;
    holding->dir_fd = dir_fd;
    holding->text = text;
    holding->refs = 1;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&holding->lock, NULL);
    (void)pthread_cond_init(&holding->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    return holding;
}

static void fill_items(struct holding *holding)
{
    const struct manifest *manifest = holding->manifest;
    for (size_t i = 0; i < holding->items_count; i++) {
        struct holding_item *item = &holding->items[i];
        size_t file = i - manifest->tensors_count;
        if (i < manifest->tensors_count) {
            item->bytes = manifest->tensors[i].bytes;
            item->out = holding->plan->places[i].shard;
            item->offset = holding->plan->places[i].offset;
        } else {
            item->bytes = manifest->files[file].bytes;
            item->out = holding->plan->shards_count + file;
        }
        item->chunks_first = holding->chunks_count;
        holding->chunks_count += digest_chunks_count(item->bytes);
    }
}

/* The places of all chunks, as every landing lays them out. */
static struct baton_status lay_out(struct holding *holding)
{
    struct baton_status st = manifest_decode_json(holding->text, &holding->manifest);
    if (baton_ok(&st)) {
        st = shard_plan_create(holding->manifest, &holding->plan);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    holding->items_count = holding->manifest->tensors_count + holding->manifest->files_count;
    holding->outs_count = holding->plan->shards_count + holding->manifest->files_count;
    holding->items = calloc(holding->items_count + 1, sizeof(*holding->items));
    holding->fds = calloc(holding->outs_count + 1, sizeof(*holding->fds));
    baton_assert(holding->items != NULL && holding->fds != NULL);
    for (size_t i = 0; i < holding->outs_count; i++) {
        holding->fds[i] = -1;
    }
    fill_items(holding);
    holding->table = calloc(holding->chunks_count + 1, sizeof(*holding->table));
    holding->have = calloc(holding->chunks_count / 8 + 1, 1);
    baton_assert(holding->table != NULL && holding->have != NULL);
    return st;
}

/* Under the root's lock. */
static struct holding *find(struct landing_root *root, struct digest digest)
{
    for (struct holding *h = root->holdings; h != NULL; h = h->next) {
        if (digest_equal(h->digest, digest)) {
            return h;
        }
    }
    return NULL;
}

/* Under the root's lock: nobody new finds it. */
static void unlink_holding(struct holding *holding)
{
    for (struct holding **at = &holding->root->holdings; *at != NULL; at = &(*at)->next) {
        if (*at == holding) {
            *at = holding->next;
            return;
        }
    }
}

/* Under the root's lock. */
static void put_in_list(struct holding *holding)
{
    holding->next = holding->root->holdings;
    holding->root->holdings = holding;
}

static void enlist(struct holding *holding)
{
    (void)pthread_mutex_lock(&holding->root->lock);
    put_in_list(holding);
    (void)pthread_mutex_unlock(&holding->root->lock);
}

/* Enlists what was read without the lock, unless its directory is not the version's any more: it was removed meanwhile (a rename,
 * under the lock), and nobody would tell this one that it is gone. */
static bool enlist_sealed(struct holding *holding)
{
    char name[BATON_DIGEST_TEXT_BYTES];
    struct stat ours;
    struct stat now;
    struct landing_root *root = holding->root;
    digest_format(holding->digest, name);
    (void)pthread_mutex_lock(&root->lock);
    bool is_there = fstat(holding->dir_fd, &ours) == 0 &&
                    fstatat(root->dir_fd, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
                    ours.st_ino == now.st_ino;
    if (is_there) {
        put_in_list(holding);
    }
    (void)pthread_mutex_unlock(&root->lock);
    return is_there;
}

/* The directory of a sealed version, its manifest and its chunk table. */
static struct baton_status load(struct landing_root *root, struct digest digest,
                                struct holding **out)
{
    char name[BATON_DIGEST_TEXT_BYTES];
    struct baton_bytes text = { NULL, 0 };
    struct baton_bytes table = { NULL, 0 };
    digest_format(digest, name);
    int dir_fd = openat(root->dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (dir_fd < 0) {
        return baton_status_errno(errno, "open directory in", root->dir);
    }
    struct baton_status st = file_read_all(dir_fd, MANIFEST_FILE_NAME, MANIFEST_JSON_BYTES_MAX,
                                           MANIFEST_FILE_NAME, &text);
    if (!baton_ok(&st)) {
        close(dir_fd);
        return st;
    }
    struct holding *holding = make(root, digest, dir_fd, text);
    st = lay_out(holding);
    uint64_t bytes = holding->chunks_count * sizeof(*holding->table);
    if (baton_ok(&st)) {
        st = file_read_all(dir_fd, LANDING_CHUNKS_NAME, bytes, LANDING_CHUNKS_NAME, &table);
    }
    if (baton_ok(&st) && table.size != bytes) {
        st = baton_status_make(BATON_DATA_LOSS, BATON_REASON_TRUNCATED,
                               "%s: is not of this version", LANDING_CHUNKS_NAME);
    }
    if (baton_ok(&st)) {
        memcpy(holding->table, table.data, bytes);
        holding->whole = true;
        *out = holding;
    } else {
        destroy(holding);
    }
    free((void *)(uintptr_t)table.data);
    return st;
}

static struct baton_status not_here(void)
{
    return baton_status_make(BATON_NOT_FOUND, BATON_REASON_NONE, "the version is not here");
}

struct baton_status holding_open(struct landing_root *root, struct digest digest,
                                 struct holding **out)
{
    (void)pthread_mutex_lock(&root->lock);
    struct holding *holding = find(root, digest);
    if (holding != NULL) {
        holding->refs++;
    }
    (void)pthread_mutex_unlock(&root->lock);
    if (holding != NULL) {
        *out = holding;
        return baton_status_ok();
    }
    if (!landing_has(root, digest)) {
        return not_here();
    }
    /* Two that open it at once read it twice; each has its own. */
    struct baton_status st = load(root, digest, &holding);
    if (baton_ok(&st) && !enlist_sealed(holding)) {
        destroy(holding);
        return not_here();
    }
    if (baton_ok(&st)) {
        *out = holding;
    }
    return st;
}

void holding_close(struct holding *holding)
{
    if (holding == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&holding->root->lock);
    bool last = --holding->refs == 0;
    if (last) {
        unlink_holding(holding);
    }
    (void)pthread_mutex_unlock(&holding->root->lock);
    if (last) {
        destroy(holding);
    }
}

struct baton_bytes holding_manifest(const struct holding *holding)
{
    return holding->text;
}

const struct digest *holding_table(const struct holding *holding, uint64_t *out_count)
{
    *out_count = holding->chunks_count;
    return holding->table;
}

/* The last item that begins at or before the chunk and has chunks. */
static const struct holding_item *item_of(const struct holding *holding, uint64_t chunk)
{
    size_t low = 0;
    size_t high = holding->items_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (holding->items[middle].chunks_first <= chunk) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return &holding->items[low];
}

/* Under the lock. */
static bool has(const struct holding *holding, uint64_t chunk)
{
    return holding->whole || (holding->have[chunk / 8] & (1U << chunk % 8)) != 0;
}

/* Under the lock. */
static struct baton_status wait_for(struct holding *holding, uint64_t chunk, uint64_t deadline_ns)
{
    struct timespec until = { (time_t)(deadline_ns / BATON_NS_PER_S),
                              (long)(deadline_ns % BATON_NS_PER_S) };
    while (!holding->gone && !has(holding, chunk)) {
        if (baton_clock_monotonic_ns() >= deadline_ns) {
            return baton_status_make(BATON_UNAVAILABLE, BATON_REASON_NONE,
                                     "the chunk is not here yet");
        }
        (void)pthread_cond_timedwait(&holding->changed, &holding->lock, &until);
    }
    return holding->gone ? baton_status_make(BATON_NOT_FOUND, BATON_REASON_NONE,
                                             "the version is not here any more")
                         : baton_status_ok();
}

/* Under the lock. */
static struct baton_status use_file(struct holding *holding, size_t out)
{
    if (holding->fds[out] < 0) {
        holding->fds[out] =
            openat(holding->dir_fd, out_name(holding, out), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    }
    return holding->fds[out] >= 0 ? baton_status_ok()
                                  : baton_status_errno(errno, "open", out_name(holding, out));
}

struct baton_status holding_find(struct holding *holding, uint64_t chunk, uint64_t deadline_ns,
                                 struct holding_piece *out)
{
    if (chunk >= holding->chunks_count) {
        return baton_status_make(BATON_OUT_OF_RANGE, BATON_REASON_NONE, "there is no such chunk");
    }
    const struct holding_item *item = item_of(holding, chunk);
    uint64_t offset = (chunk - item->chunks_first) * BATON_CHUNK_BYTES;
    uint64_t left = item->bytes - offset;
    (void)pthread_mutex_lock(&holding->lock);
    struct baton_status st = wait_for(holding, chunk, deadline_ns);
    if (baton_ok(&st)) {
        st = use_file(holding, item->out);
    }
    int fd = baton_ok(&st) ? holding->fds[item->out] : -1;
    (void)pthread_mutex_unlock(&holding->lock);
    *out = (struct holding_piece){ fd, item->offset + offset,
                                   left < BATON_CHUNK_BYTES ? (size_t)left : BATON_CHUNK_BYTES };
    return st;
}

struct holding *holding_begin(struct job *job, const struct digest *table)
{
    char *text = NULL;
    size_t bytes = 0;
    int dir_fd = fcntl(job->claim.dir_fd, F_DUPFD_CLOEXEC, 0);
    struct baton_status st = manifest_encode_json(job->manifest, &text, &bytes);
    if (!baton_ok(&st) || dir_fd < 0) {
        free(text);
        if (dir_fd >= 0) {
            close(dir_fd);
        }
        return NULL;
    }
    struct holding *holding = make(job->root, job->manifest->digest, dir_fd,
                                   (struct baton_bytes){ (const uint8_t *)text, bytes });
    st = lay_out(holding);
    if (!baton_ok(&st)) {
        destroy(holding);
        return NULL;
    }
    baton_assert(holding->chunks_count == job->chunks_count);
    memcpy(holding->table, table, holding->chunks_count * sizeof(*table));
    enlist(holding);
    return holding;
}

void holding_note(struct holding *holding, uint64_t chunk)
{
    if (holding != NULL) {
        (void)pthread_mutex_lock(&holding->lock);
        holding->have[chunk / 8] |= (uint8_t)(1U << chunk % 8);
        (void)pthread_cond_broadcast(&holding->changed);
        (void)pthread_mutex_unlock(&holding->lock);
    }
}

/* Whoever waits is told. */
static void lose(struct holding *holding)
{
    (void)pthread_mutex_lock(&holding->lock);
    holding->gone = true;
    (void)pthread_cond_broadcast(&holding->changed);
    (void)pthread_mutex_unlock(&holding->lock);
}

void holding_end(struct holding *holding, bool sealed)
{
    if (holding == NULL) {
        return;
    }
    if (sealed) {
        (void)pthread_mutex_lock(&holding->lock);
        holding->whole = true;
        (void)pthread_cond_broadcast(&holding->changed);
        (void)pthread_mutex_unlock(&holding->lock);
    } else {
        lose(holding);
        (void)pthread_mutex_lock(&holding->root->lock);
        unlink_holding(holding);
        (void)pthread_mutex_unlock(&holding->root->lock);
    }
    holding_close(holding);
}

void holding_lose(struct landing_root *root, struct digest digest)
{
    (void)pthread_mutex_lock(&root->lock);
    for (struct holding **at = &root->holdings; *at != NULL;) {
        struct holding *holding = *at;
        if (digest_equal(holding->digest, digest)) {
            *at = holding->next;
            lose(holding);
        } else {
            at = &holding->next;
        }
    }
    (void)pthread_mutex_unlock(&root->lock);
}
