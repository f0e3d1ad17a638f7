/* host_path.c -- workers that fill pinned slots in turn. */
#include "transport/cuda/host_path.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/base/clock.h"

enum { POLL_NS = 10000 };

struct slot {
    void *memory;
    void *stream; /* Of its own, so that idle means free. */
};

struct worker {
    struct host_path *path;
    pthread_t thread;
    struct slot slots[HOST_PATH_SLOTS];
};

/* Where in the pieces. */
struct cursor {
    uint32_t piece;
    uint64_t offset;
};

struct host_path {
    const struct baton_cuda *cuda;
    struct host_path_options options;
    struct worker workers[HOST_PATH_WORKERS_MAX];
    bool is_lost;
    /* Of the send at hand. */
    const struct host_path_piece *pieces;
    uint32_t pieces_count;
    uint64_t deadline_ns;
    pthread_mutex_t lock; /* Guards the rest, and 'is_lost' meanwhile. */
    struct cursor next;
    struct baton_status failure;
};

static void fail(struct host_path *path, struct baton_status st, bool is_lost)
{
    pthread_mutex_lock(&path->lock);
    if (baton_ok(&path->failure)) {
        path->failure = st;
    }
    path->is_lost = path->is_lost || is_lost;
    pthread_mutex_unlock(&path->lock);
}

static struct baton_status late(void)
{
    return baton_status_make(BATON_DEADLINE_EXCEEDED, BATON_REASON_IO,
                             "host memory to a GPU: not all bytes were copied in time");
}

/* Moves on by at most 'bytes', to the end of the piece at most; how many that were. */
static uint64_t cursor_step(const struct host_path *path, struct cursor *cursor, uint64_t bytes)
{
    uint64_t left = path->pieces[cursor->piece].bytes - cursor->offset;
    if (left > bytes) {
        cursor->offset += bytes;
        return bytes;
    }
    cursor->piece++;
    cursor->offset = 0;
    return left;
}

/* Takes the next slotful; false: there is none, or it is not wanted any more. */
static bool claim(struct host_path *path, struct cursor *out)
{
    bool is_late = baton_clock_monotonic_ns() >= path->deadline_ns;
    pthread_mutex_lock(&path->lock);
    bool is_there = path->next.piece < path->pieces_count && baton_ok(&path->failure);
    if (is_there && is_late) {
        path->failure = late();
        is_there = false;
    }
    *out = path->next;
    uint64_t room = path->options.slot_bytes;
    while (is_there && path->next.piece < path->pieces_count && room > 0) {
        room -= cursor_step(path, &path->next, room);
    }
    pthread_mutex_unlock(&path->lock);
    return is_there;
}

/* Until the slot's last copies are done. */
static bool wait_free(struct host_path *path, const struct slot *slot)
{
    for (;;) {
        int is_busy = 0;
        int result = path->cuda->stream_query(slot->stream, &is_busy);
        if (result != BATON_CUDA_OK) {
            fail(path, cuda_status(path->cuda, result, "host memory to a GPU"), true);
            return false;
        }
        if (!is_busy) {
            return true;
        }
        if (baton_clock_monotonic_ns() >= path->deadline_ns) {
            fail(path, late(), true);
            return false;
        }
        baton_clock_sleep_ns(POLL_NS);
    }
}

static struct baton_status read_file(const struct host_path_piece *piece, uint64_t offset,
                                     uint8_t *out, uint64_t bytes)
{
    while (bytes > 0) {
        ssize_t got = pread(piece->fd, out, bytes, (off_t)(piece->offset + offset));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return baton_status_errno(errno, "pread", "a landing's file");
        }
        if (got == 0) {
            return baton_status_make(BATON_DATA_LOSS, BATON_REASON_TRUNCATED,
                                     "a landing's file ends at byte %llu",
                                     (unsigned long long)(piece->offset + offset));
        }
        out += got;
        offset += (uint64_t)got;
        bytes -= (uint64_t)got;
    }
    return baton_status_ok();
}

/* Part of a piece into pinned memory, and on to the device. */
static struct baton_status send_part(struct host_path *path, struct cursor at, uint8_t *memory,
                                     uint64_t bytes, void *stream)
{
    const struct host_path_piece *piece = &path->pieces[at.piece];
    uint8_t *target = (uint8_t *)piece->device + at.offset;
    struct baton_status st = baton_status_ok();
    if (bytes == 0) {
        return st;
    }
    if (piece->host == NULL) {
        st = read_file(piece, at.offset, memory, bytes);
    } else {
        memcpy(memory, (const uint8_t *)piece->host + at.offset, bytes);
    }
    if (baton_ok(&st)) {
        st = cuda_status(path->cuda, path->cuda->copy(target, memory, bytes, stream),
                         "host memory to a GPU");
    }
    if (!baton_ok(&st)) {
        st = baton_status_in(st, "piece %u of %u", at.piece, path->pieces_count);
    }
    return st;
}

static bool send_slot(struct host_path *path, const struct slot *slot, struct cursor at)
{
    uint8_t *memory = slot->memory;
    uint64_t room = path->options.slot_bytes;
    while (at.piece < path->pieces_count && room > 0) {
        struct cursor begin = at;
        uint64_t bytes = cursor_step(path, &at, room);
        struct baton_status st = send_part(path, begin, memory, bytes, slot->stream);
        if (!baton_ok(&st)) {
            fail(path, st, false);
            return false;
        }
        memory += bytes;
        room -= bytes;
    }
    return true;
}

static void *work(void *self)
{
    struct worker *worker = self;
    struct host_path *path = worker->path;
    struct cursor at;
    int result = path->cuda->use(path->options.device);
    bool goes_on = result == BATON_CUDA_OK;
    if (!goes_on) {
        fail(path, cuda_status(path->cuda, result, "the worker's device"), false);
    }
    for (uint32_t turn = 0; goes_on && claim(path, &at); turn++) {
        const struct slot *slot = &worker->slots[turn % HOST_PATH_SLOTS];
        goes_on = wait_free(path, slot) && send_slot(path, slot, at);
    }
    for (uint32_t i = 0; i < HOST_PATH_SLOTS; i++) {
        (void)wait_free(path, &worker->slots[i]);
    }
    return NULL;
}

struct baton_status host_path_send(struct host_path *path, const struct host_path_piece *pieces,
                                   uint32_t pieces_count, uint64_t deadline_ns)
{
    bool started[HOST_PATH_WORKERS_MAX] = { false };
    if (path->is_lost) {
        return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_IO,
                                 "host memory to a GPU: device %d did not answer before",
                                 path->options.device);
    }
    path->pieces = pieces;
    path->pieces_count = pieces_count;
    path->deadline_ns = deadline_ns;
    path->next = (struct cursor){ 0, 0 };
    path->failure = baton_status_ok();
    /* The first worker is the caller: without any other thread it only takes longer. */
    for (uint32_t i = 1; i < path->options.workers; i++) {
        struct worker *worker = &path->workers[i];
        started[i] = pthread_create(&worker->thread, NULL, work, worker) == 0;
    }
    (void)work(&path->workers[0]);
    for (uint32_t i = 1; i < path->options.workers; i++) {
        if (started[i]) {
            pthread_join(path->workers[i].thread, NULL);
        }
    }
    return path->failure;
}

static int create_slots(struct host_path *path)
{
    int result = path->cuda->use(path->options.device);
    for (uint32_t i = 0; i < path->options.workers; i++) {
        path->workers[i].path = path;
        for (uint32_t s = 0; s < HOST_PATH_SLOTS && result == BATON_CUDA_OK; s++) {
            struct slot *slot = &path->workers[i].slots[s];
            result = path->cuda->host_alloc(&slot->memory, path->options.slot_bytes);
            if (result == BATON_CUDA_OK) {
                result = path->cuda->stream_create(&slot->stream);
            }
        }
    }
    return result;
}

struct baton_status host_path_create(const struct baton_cuda *cuda,
                                     struct host_path_options options, struct host_path **out)
{
    if (options.workers == 0 || options.workers > HOST_PATH_WORKERS_MAX ||
        options.slot_bytes == 0) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "host path: %u workers (1 to %d) with slots of %llu bytes",
                                 options.workers, HOST_PATH_WORKERS_MAX,
                                 (unsigned long long)options.slot_bytes);
    }
    struct host_path *path = calloc(1, sizeof(*path));
    if (path == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "host path: no memory");
    }
    path->cuda = cuda;
    path->options = options;
    pthread_mutex_init(&path->lock, NULL);
    struct baton_status st = cuda_status(cuda, create_slots(path), "host path: pinned slots");
    if (!baton_ok(&st)) {
        host_path_destroy(path);
        return st;
    }
    *out = path;
    return st;
}

void host_path_destroy(struct host_path *path)
{
    if (path == NULL) {
        return;
    }
    for (uint32_t i = 0; i < path->options.workers && !path->is_lost; i++) {
        for (uint32_t s = 0; s < HOST_PATH_SLOTS; s++) {
            struct slot *slot = &path->workers[i].slots[s];
            if (slot->stream != NULL) {
                (void)path->cuda->stream_destroy(slot->stream);
            }
            (void)path->cuda->host_free(slot->memory);
        }
    }
    pthread_mutex_destroy(&path->lock);
    free(path);
}
