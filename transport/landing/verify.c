/* verify.c -- reading a sealed version again, byte for byte. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/landing/root.h"
#include "transport/model/checkpoint.h"
#include "transport/model/file_io.h"
#include "transport/model/manifest.h"

/* One pass over a sealed directory. */
struct reading {
    int dir_fd;
    uint8_t *buffer; /* One chunk. */
    struct landing_progress *progress;
    struct landing_progress own_progress;
};

/* What must be where. */
struct expected {
    const char *name;
    const char *file;
    uint64_t offset;
    uint64_t bytes;
    struct digest digest;
};

static struct baton_status digest_range(struct reading *reading, int fd,
                                        const struct expected *expected, struct digest *out)
{
    struct chunk_digester digester;
    chunk_digester_init(&digester);
    for (uint64_t done = 0; done < expected->bytes;) {
        uint64_t left = expected->bytes - done;
        size_t size = left < BATON_CHUNK_BYTES ? (size_t)left : BATON_CHUNK_BYTES;
        if (atomic_load(&reading->progress->cancel)) {
            return baton_status_make(BATON_CANCELLED, BATON_REASON_NONE, "verify: cancelled");
        }
        struct baton_status st =
            file_read_at(fd, reading->buffer, size, expected->offset + done, expected->file);
        if (!baton_ok(&st)) {
            return st;
        }
        chunk_digester_add(&digester, (struct baton_bytes){ reading->buffer, size });
        atomic_fetch_add(&reading->progress->bytes_done, size);
        done += size;
    }
    *out = chunk_digester_finish(&digester);
    return baton_status_ok();
}

static struct baton_status verify_range(struct reading *reading, const struct expected *expected)
{
    struct file_opened file;
    struct digest digest;
    struct baton_status st =
        file_open_read(reading->dir_fd, expected->file, false, expected->file, &file);
    if (!baton_ok(&st)) {
        return st;
    }
    st = digest_range(reading, file.fd, expected, &digest);
    close(file.fd);
    if (baton_ok(&st) && !digest_equal(digest, expected->digest)) {
        st = baton_status_make(BATON_DATA_LOSS, BATON_REASON_DIGEST_MISMATCH,
                               "%.100s: '%.150s': its bytes are no longer those of the manifest",
                               expected->file, expected->name);
    }
    return st;
}

static struct baton_status verify_tensors(struct reading *reading, const struct manifest *manifest,
                                          const struct checkpoint *checkpoint)
{
    struct baton_status st = baton_status_ok();
    if (checkpoint->tensors_count != manifest->tensors_count) {
        return baton_status_make(BATON_DATA_LOSS, BATON_REASON_DIGEST_MISMATCH,
                                 "%zu tensors are there, the manifest lists %zu",
                                 checkpoint->tensors_count, manifest->tensors_count);
    }
    for (size_t i = 0; baton_ok(&st) && i < manifest->tensors_count; i++) {
        const struct manifest_tensor *tensor = &manifest->tensors[i];
        const struct checkpoint_tensor *at = &checkpoint->tensors[i];
        if (strcmp(at->name, tensor->name) != 0 || at->dtype != tensor->dtype ||
            !tensor_shape_equal(&at->shape, &tensor->shape)) {
            return baton_status_make(BATON_DATA_LOSS, BATON_REASON_DIGEST_MISMATCH,
                                     "%.80s: tensor '%.100s' is not '%.100s' of the manifest",
                                     at->shard, at->name, tensor->name);
        }
        st = verify_range(reading, &(struct expected){ tensor->name, at->shard, at->offset,
                                                       tensor->bytes, tensor->digest });
    }
    return st;
}

static struct baton_status verify_files(struct reading *reading, const struct manifest *manifest)
{
    struct baton_status st = baton_status_ok();
    for (size_t i = 0; baton_ok(&st) && i < manifest->files_count; i++) {
        const struct manifest_file *file = &manifest->files[i];
        st = verify_range(
            reading, &(struct expected){ file->name, file->name, 0, file->bytes, file->digest });
    }
    return st;
}

static struct baton_status verify_directory(struct reading *reading, const char *dir,
                                            const struct manifest *manifest)
{
    struct checkpoint *checkpoint = NULL;
    struct baton_status st = checkpoint_open(dir, CHECKPOINT_PARTIAL, &checkpoint);
    if (!baton_ok(&st)) {
        return st;
    }
    st = verify_tensors(reading, manifest, checkpoint);
    checkpoint_close(checkpoint);
    return baton_ok(&st) ? verify_files(reading, manifest) : st;
}

static struct baton_status run_reading(struct reading *reading, const char *dir,
                                       const struct manifest *manifest)
{
    struct baton_status st = file_open_directory(dir, &reading->dir_fd);
    if (!baton_ok(&st)) {
        return st;
    }
    reading->buffer = malloc(BATON_CHUNK_BYTES);
    st = reading->buffer == NULL ? baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                                     "verify: out of memory")
                                 : verify_directory(reading, dir, manifest);
    free(reading->buffer);
    close(reading->dir_fd);
    return st;
}

struct baton_status landing_verify(struct landing_root *root, struct digest digest,
                                   struct landing_progress *progress)
{
    char dir[BATON_PATH_BYTES];
    struct manifest *manifest = NULL;
    struct reading reading = { .dir_fd = -1 };
    struct baton_status st = landing_load_manifest(root, digest, &manifest);
    if (!baton_ok(&st)) {
        return st;
    }
    reading.progress = progress != NULL ? progress : &reading.own_progress;
    atomic_fetch_add(&reading.progress->bytes_total,
                     manifest->tensors_bytes + manifest->files_bytes);
    landing_path(root, digest, dir);
    st = run_reading(&reading, dir, manifest);
    manifest_destroy(manifest);
    return baton_status_in(st, "verify %.150s", dir);
}
