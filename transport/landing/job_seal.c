/* job_seal.c -- the end of a landing: index, manifest, fsync, rename. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/landing/survey.h"
#include "transport/model/checkpoint.h"
#include "transport/model/file_io.h"

/* Every item done; their digests go into the manifest, which is sealed. */
static struct baton_status seal_manifest(struct job *job)
{
    struct manifest *manifest = job->manifest;
    for (size_t i = 0; i < job->items_count; i++) {
        const struct job_item *item = &job->items[i];
        if (item->skip || atomic_load(&item->chunks_left) != 0) {
            return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_TRUNCATED,
                                     "%s '%.200s': its bytes were not handed over",
                                     item->kind == MANIFEST_KIND_FILE ? "file" : "tensor",
                                     item->name);
        }
        if (i < manifest->tensors_count) {
            manifest->tensors[i].digest = item->digest;
        } else {
            manifest->files[i - manifest->tensors_count].digest = item->digest;
        }
    }
    return manifest_seal(manifest);
}

/* Writes a small file from its start. */
static struct baton_status write_whole(const struct job *job, const char *name,
                                       struct baton_bytes text)
{
    int fd = openat(job->claim.dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
                    0644);
    if (fd < 0) {
        return baton_status_errno(errno, "create", name);
    }
    struct baton_status st = file_write_at(fd, text, 0, name);
    if (baton_ok(&st) && fsync(fd) != 0) {
        st = baton_status_errno(errno, "fsync", name);
    }
    close(fd);
    return st;
}

static struct baton_status write_index(const struct job *job)
{
    char *text = NULL;
    size_t bytes = 0;
    if (job->plan->shards_count == 0 || !shard_plan_needs_index(job->plan)) {
        return baton_status_ok();
    }
    struct baton_status st = shard_plan_index_json(job->plan, job->manifest, &text, &bytes);
    if (baton_ok(&st)) {
        st = write_whole(job, CHECKPOINT_INDEX_NAME,
                         (struct baton_bytes){ (const uint8_t *)text, bytes });
    }
    free(text);
    return st;
}

static struct baton_status write_manifest(const struct job *job)
{
    char *text = NULL;
    size_t bytes = 0;
    struct baton_status st = manifest_encode_json(job->manifest, &text, &bytes);
    if (baton_ok(&st)) {
        st = write_whole(job, MANIFEST_FILE_NAME,
                         (struct baton_bytes){ (const uint8_t *)text, bytes });
    }
    free(text);
    return st;
}

static struct baton_status sync_file(const struct job *job, const char *name)
{
    int fd = openat(job->claim.dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return baton_status_errno(errno, "open", name);
    }
    struct baton_status st =
        fsync(fd) == 0 ? baton_status_ok() : baton_status_errno(errno, "fsync", name);
    close(fd);
    return st;
}

/* All bytes are on their medium before the name that vouches for them is. */
static struct baton_status sync_all(const struct job *job)
{
    struct baton_status st = baton_status_ok();
    for (size_t i = 0; baton_ok(&st) && i < job->outs_count; i++) {
        st = sync_file(job, job->outs[i]);
    }
    if (baton_ok(&st) && fsync(job->ledger_fd) != 0) {
        st = baton_status_errno(errno, "fsync", LANDING_CHUNKS_NAME);
    }
    if (baton_ok(&st) && fsync(job->claim.dir_fd) != 0) {
        st = baton_status_errno(errno, "fsync", job->root->dir);
    }
    return st;
}

struct baton_status job_seal(struct job *job, struct digest *out)
{
    struct baton_status st = seal_manifest(job);
    if (baton_ok(&st)) {
        st = survey_finish(job);
    }
    if (baton_ok(&st)) {
        st = write_index(job);
    }
    if (baton_ok(&st)) {
        st = write_manifest(job);
    }
    if (baton_ok(&st)) {
        st = sync_all(job);
    }
    if (st.reason == BATON_REASON_NO_SPACE) {
        return root_no_space(job->root, job->claim.bytes);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    job->claimed = false;
    st = root_publish(job->root, &job->claim, job->manifest->digest);
    if (baton_ok(&st) && out != NULL) {
        *out = job->manifest->digest;
    }
    return st;
}
