/* job.c -- laying out a landing's files; see job_run.c for moving, job_seal.c for the end. */
#include "transport/landing/job.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "transport/landing/survey.h"
#include "transport/model/file_io.h"

static struct baton_status no_memory(void)
{
    return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                             "landing: out of memory");
}

uint64_t job_timeout_ns(const struct landing_options *options)
{
    return options == NULL || options->timeout_ns == 0 ? 30 * BATON_NS_PER_S : options->timeout_ns;
}

static uint32_t count_workers(const struct landing_options *options)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t workers = options == NULL ? 0 : options->workers;
    if (workers == 0) {
        workers = online < 1 ? 1 : online > 4 ? 4 : (uint32_t)online;
    }
    return workers > 64 ? 64 : workers;
}

static struct baton_status check_files(const struct manifest *manifest)
{
    for (size_t i = 0; i < manifest->tensors_count; i++) {
        struct baton_bytes file = baton_bytes_of(manifest->tensors[i].file);
        struct baton_status st = manifest_name_check(MANIFEST_KIND_FILE, file);
        if (!baton_ok(&st)) {
            return baton_status_in(st, "tensor '%.100s': file", manifest->tensors[i].name);
        }
        if (manifest_find_file(manifest, manifest->tensors[i].file) != NULL) {
            return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                     "tensor '%.100s': '%.100s' is both a shard and a file",
                                     manifest->tensors[i].name, manifest->tensors[i].file);
        }
    }
    return baton_status_ok();
}

/* The places of all items in the files and in the chunk table. */
static void fill_items(struct job *job)
{
    const struct manifest *manifest = job->manifest;
    uint64_t chunks = 0;
    for (size_t i = 0; i < job->items_count; i++) {
        struct job_item *item = &job->items[i];
        size_t file = i - manifest->tensors_count;
        if (i < manifest->tensors_count) {
            item->kind = MANIFEST_KIND_TENSOR;
            item->name = manifest->tensors[i].name;
            item->bytes = manifest->tensors[i].bytes;
            item->out = job->plan->places[i].shard;
            item->out_offset = job->plan->places[i].offset;
        } else {
            item->kind = MANIFEST_KIND_FILE;
            item->name = manifest->files[file].name;
            item->bytes = manifest->files[file].bytes;
            item->out = job->plan->shards_count + file;
        }
        item->chunks_first = chunks;
        item->chunks_count = digest_chunks_count(item->bytes);
        atomic_store(&item->chunks_left, item->chunks_count);
        chunks += item->chunks_count;
        atomic_fetch_add(&job->progress->bytes_total, item->bytes);
    }
    job->chunks_count = chunks;
}

static struct baton_status lay_out(struct job *job)
{
    struct baton_status st = check_files(job->manifest);
    if (baton_ok(&st)) {
        st = shard_plan_create(job->manifest, &job->plan);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    job->outs_count = job->plan->shards_count + job->manifest->files_count;
    job->items_count = job->manifest->tensors_count + job->manifest->files_count;
    job->outs = calloc(job->outs_count + 1, sizeof(*job->outs));
    job->items = calloc(job->items_count + 1, sizeof(*job->items));
    if (job->outs == NULL || job->items == NULL) {
        return no_memory();
    }
    for (size_t i = 0; i < job->outs_count; i++) {
        job->outs[i] = i < job->plan->shards_count
                           ? job->plan->shards[i].file
                           : job->manifest->files[i - job->plan->shards_count].name;
    }
    fill_items(job);
    job->chunks = calloc(job->chunks_count + 1, sizeof(*job->chunks));
    return job->chunks == NULL ? no_memory() : baton_status_ok();
}

/* All bytes that the directory will hold, with room for manifest and index. */
static uint64_t measure(const struct job *job)
{
    uint64_t bytes = job->chunks_count * sizeof(*job->chunks) + 4096;
    for (size_t i = 0; i < job->plan->shards_count; i++) {
        bytes += job->plan->shards[i].file_bytes;
    }
    for (size_t i = 0; i < job->manifest->files_count; i++) {
        bytes += job->manifest->files[i].bytes;
    }
    return bytes + job->items_count * 512;
}

static bool is_ours(const struct job *job, const char *name)
{
    for (size_t i = 0; i < job->outs_count; i++) {
        if (strcmp(job->outs[i], name) == 0) {
            return true;
        }
    }
    return name[0] == '.' || strcmp(name, LANDING_CHUNKS_NAME) == 0;
}

/* An interrupted job of the same digest may have spread its tensors over other files; none of them
 * may end up in the sealed directory. */
static struct baton_status drop_strays(const struct job *job)
{
    int fd = openat(job->claim.dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    if (dir == NULL) {
        return baton_status_errno(errno, "list directory", job->claim.name);
    }
    while ((entry = readdir(dir)) != NULL) {
        if (!is_ours(job, entry->d_name)) {
            unlinkat(job->claim.dir_fd, entry->d_name, 0);
        }
    }
    closedir(dir);
    return baton_status_ok();
}

static struct baton_status make_file(const struct job *job, const char *name,
                                     struct baton_bytes head, uint64_t bytes)
{
    int fd = openat(job->claim.dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) {
        return baton_status_errno(errno, "create", name);
    }
    struct baton_status st = file_write_at(fd, head, 0, name);
    /* A file of the right size from the start: writing order is free, and a continued job finds
     * whatever it wrote before. */
    if (baton_ok(&st) && ftruncate(fd, (off_t)bytes) != 0) {
        st = baton_status_errno(errno, "size", name);
    }
    close(fd);
    return st;
}

static struct baton_status make_files(const struct job *job)
{
    struct baton_status st = baton_status_ok();
    for (size_t i = 0; baton_ok(&st) && i < job->plan->shards_count; i++) {
        const struct shard *shard = &job->plan->shards[i];
        struct baton_bytes head = { shard->header, shard->header_bytes };
        st = make_file(job, shard->file, head, shard->file_bytes);
    }
    for (size_t i = 0; baton_ok(&st) && i < job->manifest->files_count; i++) {
        const struct manifest_file *file = &job->manifest->files[i];
        st = make_file(job, file->name, (struct baton_bytes){ NULL, 0 }, file->bytes);
    }
    return st;
}

/* Opens the ledger; what an interrupted job wrote into it is taken over, to be checked chunk by
 * chunk.  A ledger of another length belongs to another layout and counts for nothing. */
static struct baton_status open_ledger(struct job *job)
{
    struct stat info;
    uint64_t bytes = job->chunks_count * sizeof(*job->chunks);
    job->ledger_fd = openat(job->claim.dir_fd, LANDING_CHUNKS_NAME,
                            O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (job->ledger_fd < 0 || fstat(job->ledger_fd, &info) != 0) {
        return baton_status_errno(errno, "open", LANDING_CHUNKS_NAME);
    }
    if ((uint64_t)info.st_size == bytes) {
        return file_read_at(job->ledger_fd, job->chunks, bytes, 0, LANDING_CHUNKS_NAME);
    }
    if (ftruncate(job->ledger_fd, 0) != 0 || ftruncate(job->ledger_fd, (off_t)bytes) != 0) {
        return baton_status_errno(errno, "size", LANDING_CHUNKS_NAME);
    }
    return baton_status_ok();
}

static struct baton_status start(struct job *job, const struct job_options *options)
{
    struct baton_status st = lay_out(job);
    if (!baton_ok(&st)) {
        return st;
    }
    uint64_t bytes = measure(job);
    st = root_claim(job->root, options->digest, bytes, &job->claim);
    if (!baton_ok(&st)) {
        return st;
    }
    job->claimed = true;
    st = drop_strays(job);
    if (baton_ok(&st)) {
        st = make_files(job);
    }
    if (baton_ok(&st)) {
        st = open_ledger(job);
    }
    return st.reason == BATON_REASON_NO_SPACE ? root_no_space(job->root, bytes) : st;
}

struct baton_status job_create(const struct job_options *options, struct job **out)
{
    struct job *job = calloc(1, sizeof(*job));
    if (job == NULL) {
        return no_memory();
    }
    job->root = options->root;
    job->manifest = options->manifest;
    job->resumable = options->digest != NULL;
    job->workers = count_workers(options->landing);
    job->ledger_fd = -1;
    job->progress = options->progress != NULL ? options->progress : &job->own_progress;
    struct baton_status st = start(job, options);
    if (baton_ok(&st) && options->landing != NULL && options->landing->survey != NULL) {
        st = survey_create(job, options->landing->survey, job_timeout_ns(options->landing));
    }
    if (!baton_ok(&st)) {
        job_destroy(job, false);
        return st;
    }
    *out = job;
    return st;
}

void job_destroy(struct job *job, bool keep)
{
    if (job == NULL) {
        return;
    }
    if (job->ledger_fd >= 0) {
        close(job->ledger_fd);
    }
    if (job->claimed) {
        root_unclaim(job->root, &job->claim, keep && job->resumable);
    }
    survey_destroy(job->survey);
    shard_plan_destroy(job->plan);
    free(job->outs);
    free(job->items);
    free(job->chunks);
    free(job);
}

bool job_can_resume(const struct job *job, const struct baton_status *failure)
{
    /* Damage, a full disk and our own faults start over; what may heal by itself goes on. */
    return job->resumable &&
           (failure->code == BATON_UNAVAILABLE || failure->code == BATON_DEADLINE_EXCEEDED ||
            failure->code == BATON_CANCELLED);
}

static struct baton_status mismatch(const struct job_item *item, const struct digest *is)
{
    char was[BATON_DIGEST_TEXT_BYTES];
    char should[BATON_DIGEST_TEXT_BYTES];
    digest_format(*is, was);
    digest_format(item->digest, should);
    return baton_status_make(BATON_DATA_LOSS, BATON_REASON_DIGEST_MISMATCH,
                             "%s '%.120s': its bytes have digest %s, the manifest says %s",
                             item->kind == MANIFEST_KIND_FILE ? "file" : "tensor", item->name, was,
                             should);
}

struct baton_status job_finish_item(struct job *job, struct job_item *item)
{
    struct digest digest =
        digest_of_chunks(job->chunks + item->chunks_first, (size_t)item->chunks_count);
    if (item->has_digest && !digest_equal(digest, item->digest)) {
        return mismatch(item, &digest);
    }
    item->digest = digest;
    return baton_status_ok();
}
