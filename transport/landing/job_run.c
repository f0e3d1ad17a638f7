/* job_run.c -- worker threads that move chunks: read, digest, check, write, note in the ledger. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/landing/holding.h"
#include "transport/landing/survey.h"
#include "transport/model/file_io.h"

/* Shared by the workers of one job_run(). */
struct run {
    struct job *job;
    uint64_t chunks_end;
    _Atomic uint64_t next; /* The next chunk to take. */
    _Atomic bool stop;     /* A worker failed. */
    pthread_mutex_t lock;
    struct baton_status failure; /* The first; under the lock. */
};

struct worker {
    struct run *run;
    unsigned number;
    pthread_t thread;
    uint64_t ahead; /* The chunk that this worker has taken, to be moved after the present one; */
    size_t ahead_item; /* its item: chunks only rise; */
    bool ends;         /* there is none. */
    struct origin_reader *readers[JOB_ORIGINS_MAX];
    size_t out; /* Which file 'out_fd' is. */
    int out_fd;
    uint8_t *spare; /* For reading back; made when needed. */
};

static void fail(struct run *run, struct baton_status st)
{
    pthread_mutex_lock(&run->lock);
    if (baton_ok(&run->failure)) {
        run->failure = st;
    }
    pthread_mutex_unlock(&run->lock);
    atomic_store(&run->stop, true);
}

static struct baton_status use_out(struct worker *worker, size_t out)
{
    const struct job *job = worker->run->job;
    if (worker->out_fd >= 0 && worker->out == out) {
        return baton_status_ok();
    }
    if (worker->out_fd >= 0) {
        close(worker->out_fd);
    }
    worker->out = out;
    worker->out_fd = openat(job->claim.dir_fd, job->outs[out], O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    return worker->out_fd < 0 ? baton_status_errno(errno, "open", job->outs[out])
                              : baton_status_ok();
}

static struct baton_status use_reader(struct worker *worker, size_t origin,
                                      struct origin_reader **out)
{
    struct baton_status st = baton_status_ok();
    if (worker->readers[origin] == NULL) {
        st = origin_open(&worker->run->job->origins[origin], worker->number,
                         &worker->readers[origin]);
    }
    *out = worker->readers[origin];
    return st;
}

static bool is_noted(const struct digest *digest)
{
    static const struct digest none;
    return !digest_equal(*digest, none);
}

/* True if an interrupted job wrote this chunk and its bytes still have the noted digest. */
static bool is_there(struct worker *worker, const struct job_item *item, uint64_t chunk,
                     size_t size)
{
    const struct job *job = worker->run->job;
    const struct digest *noted = &job->chunks[chunk];
    uint64_t offset = item->out_offset + (chunk - item->chunks_first) * BATON_CHUNK_BYTES;
    if (!job->resumable || !is_noted(noted)) {
        return false;
    }
    if (job->chunks_expected != NULL && !digest_equal(*noted, job->chunks_expected[chunk])) {
        return false;
    }
    if (worker->spare == NULL) {
        worker->spare = malloc(BATON_CHUNK_BYTES);
    }
    if (worker->spare == NULL) {
        return false;
    }
    struct baton_status st =
        file_read_at(worker->out_fd, worker->spare, size, offset, job->outs[item->out]);
    return baton_ok(&st) &&
           digest_equal(digest_of((struct baton_bytes){ worker->spare, size }), *noted);
}

static struct baton_status bad_chunk(const struct job_item *item, uint64_t chunk)
{
    return baton_status_make(BATON_DATA_LOSS, BATON_REASON_DIGEST_MISMATCH,
                             "%s '%.150s': chunk %llu of %llu arrived damaged",
                             item->kind == MANIFEST_KIND_FILE ? "file" : "tensor", item->name,
                             (unsigned long long)(chunk - item->chunks_first),
                             (unsigned long long)item->chunks_count);
}

/* The base is read for the survey's sake only: where it cannot be, the survey says so, and the
 * landing goes on. */
static void survey_base(struct worker *worker, size_t item, uint64_t offset,
                        struct baton_bytes bytes)
{
    struct survey *survey = worker->run->job->survey;
    const struct origin_place *place = survey_base_place(worker->run->job, item);
    struct origin_reader *reader = NULL;
    const uint8_t *base = NULL;
    if (place == NULL) {
        return;
    }
    struct baton_status st = use_reader(worker, JOB_ORIGIN_BASE, &reader);
    if (baton_ok(&st)) {
        st = origin_read(reader, place, offset, bytes.size, &base);
    }
    if (baton_ok(&st)) {
        survey_add_change(survey, item, bytes, (struct baton_bytes){ base, bytes.size });
    } else {
        survey_lose_base(survey, &st);
    }
}

/* A chunk that arrives damaged costs that chunk: it is asked for elsewhere, until the supplier knows nobody more. */
static struct baton_status pull_chunk(struct origin_reader *reader, uint64_t chunk, size_t size,
                                      const struct digest *expected, const uint8_t **out)
{
    for (;;) {
        struct baton_status st = origin_pull(reader, chunk, size, out);
        if (!baton_ok(&st) ||
            digest_equal(digest_of((struct baton_bytes){ *out, size }), *expected)) {
            return st;
        }
        origin_reject(reader, chunk);
    }
}

/* Tells the supplier what it will be asked for next, unless it may be here already. */
static void expect_ahead(const struct worker *worker, struct origin_reader *reader, size_t origin)
{
    const struct job *job = worker->run->job;
    bool comes = !worker->ends && job->items[worker->ahead_item].origin == origin &&
                 !is_noted(&job->chunks[worker->ahead]);
    if (comes) {
        origin_expect(reader, worker->ahead);
    }
}

/* One pass: the chunk is digested and written while it is in the cache.  The ledger's entry is
 * written after the bytes that it vouches for. */
static struct baton_status move_chunk(struct worker *worker, const struct job_item *item,
                                      uint64_t chunk, size_t size)
{
    struct job *job = worker->run->job;
    struct origin_reader *reader = NULL;
    const uint8_t *data = NULL;
    uint64_t offset = (chunk - item->chunks_first) * BATON_CHUNK_BYTES;
    bool pulls = job->origins[item->origin].supplier != NULL;
    struct baton_status st = use_reader(worker, item->origin, &reader);
    if (baton_ok(&st) && pulls) {
        expect_ahead(worker, reader, item->origin);
    }
    if (baton_ok(&st)) {
        st = pulls ? pull_chunk(reader, chunk, size, &job->chunks_expected[chunk], &data)
                   : origin_read(reader, &item->place, offset, size, &data);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    struct digest digest =
        pulls ? job->chunks_expected[chunk] : digest_of((struct baton_bytes){ data, size });
    if (job->chunks_expected != NULL && !digest_equal(digest, job->chunks_expected[chunk])) {
        return bad_chunk(item, chunk);
    }
    if (job->survey != NULL && item->kind == MANIFEST_KIND_TENSOR) {
        size_t place = (size_t)(item - job->items);
        survey_add_chunk(job->survey, place, (struct baton_bytes){ data, size });
        survey_base(worker, place, offset, (struct baton_bytes){ data, size });
    }
    st = file_write_at(worker->out_fd, (struct baton_bytes){ data, size },
                       item->out_offset + offset, job->outs[item->out]);
    if (!baton_ok(&st)) {
        return st;
    }
    job->chunks[chunk] = digest;
    return file_write_at(job->ledger_fd, (struct baton_bytes){ digest.bytes, sizeof(digest.bytes) },
                         chunk * sizeof(digest), LANDING_CHUNKS_NAME);
}

static struct baton_status do_chunk(struct worker *worker, struct job_item *item, uint64_t chunk)
{
    struct job *job = worker->run->job;
    uint64_t offset = (chunk - item->chunks_first) * BATON_CHUNK_BYTES;
    uint64_t left = item->bytes - offset;
    size_t size = left < BATON_CHUNK_BYTES ? (size_t)left : BATON_CHUNK_BYTES;
    struct baton_status st = use_out(worker, item->out);
    if (!baton_ok(&st)) {
        return st;
    }
    if (is_there(worker, item, chunk, size)) {
        atomic_fetch_add(&job->progress->bytes_resumed, size);
    } else {
        st = move_chunk(worker, item, chunk, size);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    holding_note(job->holding, chunk);
    atomic_fetch_add(&job->progress->bytes_done, size);
    /* Whoever finishes the last chunk sees all entries of the item: the counter orders them. */
    if (atomic_fetch_sub(&item->chunks_left, 1) == 1) {
        return job_finish_item(job, item);
    }
    return st;
}

/* Takes the next chunk that is to be moved; its item is searched for forward from the last one. */
static void take(struct worker *worker)
{
    struct run *run = worker->run;
    struct job_item *items = run->job->items;
    for (;;) {
        uint64_t chunk = atomic_fetch_add(&run->next, 1);
        if (chunk >= run->chunks_end) {
            worker->ends = true;
            return;
        }
        while (chunk >=
               items[worker->ahead_item].chunks_first + items[worker->ahead_item].chunks_count) {
            worker->ahead_item++;
        }
        const struct job_item *item = &items[worker->ahead_item];
        if (!item->skip && atomic_load(&item->chunks_left) > 0) {
            worker->ahead = chunk;
            return;
        }
    }
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct run *run = worker->run;
    take(worker);
    while (!worker->ends && !atomic_load(&run->stop)) {
        if (atomic_load(&run->job->progress->cancel)) {
            fail(run, baton_status_make(BATON_CANCELLED, BATON_REASON_NONE, "landing: cancelled"));
            break;
        }
        uint64_t chunk = worker->ahead;
        struct job_item *item = &run->job->items[worker->ahead_item];
        take(worker);
        struct baton_status st = do_chunk(worker, item, chunk);
        if (!baton_ok(&st)) {
            fail(run, st);
        }
    }
    return NULL;
}

static void end_worker(struct worker *worker)
{
    for (size_t i = 0; i < JOB_ORIGINS_MAX; i++) {
        origin_close(worker->readers[i]);
    }
    if (worker->out_fd >= 0) {
        close(worker->out_fd);
    }
    free(worker->spare);
}

/* Items without bytes have no chunk that would finish them. */
static struct baton_status finish_empty(struct job *job, size_t first, size_t count)
{
    struct baton_status st = baton_status_ok();
    for (size_t i = first; baton_ok(&st) && i < first + count; i++) {
        if (job->items[i].chunks_count == 0 && !job->items[i].skip) {
            st = job_finish_item(job, &job->items[i]);
        }
    }
    return st;
}

/* The caller is the first worker; the others are threads.  A thread that cannot be started is done
 * without. */
static void run_workers(struct run *run, uint32_t count, size_t first_item)
{
    struct worker workers[64];
    bool started[64] = { false };
    for (uint32_t i = 0; i < count; i++) {
        workers[i] =
            (struct worker){ .run = run, .number = i, .ahead_item = first_item, .out_fd = -1 };
        started[i] = i > 0 && pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0;
    }
    work(&workers[0]);
    for (uint32_t i = 0; i < count; i++) {
        if (started[i]) {
            pthread_join(workers[i].thread, NULL);
        }
        end_worker(&workers[i]);
    }
}

struct baton_status job_run(struct job *job, size_t first, size_t count)
{
    struct baton_status st = finish_empty(job, first, count);
    if (!baton_ok(&st) || count == 0) {
        return st;
    }
    const struct job_item *last = &job->items[first + count - 1];
    struct run run = { .job = job,
                       .chunks_end = last->chunks_first + last->chunks_count,
                       .failure = baton_status_ok() };
    atomic_store(&run.next, job->items[first].chunks_first);
    pthread_mutex_init(&run.lock, NULL);
    uint64_t chunks = run.chunks_end - job->items[first].chunks_first;
    uint32_t workers = chunks < job->workers ? (uint32_t)chunks : job->workers;
    run_workers(&run, workers == 0 ? 1 : workers, first);
    pthread_mutex_destroy(&run.lock);
    if (run.failure.reason == BATON_REASON_NO_SPACE) {
        return root_no_space(job->root, job->claim.bytes);
    }
    return run.failure;
}
