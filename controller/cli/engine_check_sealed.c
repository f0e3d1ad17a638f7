/* engine_check_sealed.c -- a checkpoint directory as the plug-in takes it; see engine_check.h.
 *
 * A landing is taken as it is.  Of any other checkpoint a folder of links is made, with the manifest that its
 * bytes give: nothing is written into a directory that is the user's. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/base/bytes.h"
#include "controller/cli/engine_check.h"
#include "transport/model/checkpoint.h"
#include "transport/model/file_io.h"

enum { PIECE_BYTES = 1 << 20 };

/* --- the digests of a checkpoint --- */

static struct baton_status digest_pieces(int fd, const struct checkpoint_tensor *range,
                                         uint8_t *piece, struct digest *out)
{
    struct chunk_digester digester;
    struct baton_status st = baton_status_ok();
    chunk_digester_init(&digester);
    for (uint64_t done = 0; done < range->bytes && baton_ok(&st);) {
        uint64_t left = range->bytes - done;
        size_t size = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
        st = file_read_at(fd, piece, size, range->offset + done, range->shard);
        if (baton_ok(&st)) {
            chunk_digester_add(&digester, (struct baton_bytes){ piece, size });
        }
        done += size;
    }
    *out = chunk_digester_finish(&digester);
    return st;
}

/* Of 'range': its shard, offset and bytes. */
static struct baton_status digest_range(int dir, const struct checkpoint_tensor *range,
                                        uint8_t *piece, struct digest *out)
{
    struct file_opened file = { .fd = -1 };
    struct baton_status st = file_open_read(dir, range->shard, true, range->shard, &file);
    if (baton_ok(&st)) {
        st = digest_pieces(file.fd, range, piece, out);
        (void)close(file.fd);
    }
    return st;
}

static struct baton_status fill_digests(const struct checkpoint *checkpoint, int dir,
                                        uint8_t *piece, struct manifest *manifest)
{
    struct baton_status st = baton_status_ok();
    for (size_t i = 0; baton_ok(&st) && i < manifest->tensors_count; i++) {
        st = digest_range(dir, checkpoint_find(checkpoint, manifest->tensors[i].name), piece,
                          &manifest->tensors[i].digest);
    }
    for (size_t i = 0; baton_ok(&st) && i < manifest->files_count; i++) {
        struct manifest_file *file = &manifest->files[i];
        struct checkpoint_tensor whole = { .shard = file->name, .bytes = file->bytes };
        st = digest_range(dir, &whole, piece, &file->digest);
    }
    return baton_ok(&st) ? manifest_seal(manifest) : st;
}

static struct baton_status manifest_make(const char *path, int dir, struct manifest **out)
{
    struct checkpoint *checkpoint = NULL;
    uint8_t *piece = malloc(PIECE_BYTES);
    if (piece == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT, "no memory");
    }
    struct baton_status st = checkpoint_open(path, CHECKPOINT_WHOLE, &checkpoint);
    if (baton_ok(&st)) {
        st = checkpoint_to_manifest(checkpoint, out);
    }
    if (baton_ok(&st)) {
        st = fill_digests(checkpoint, dir, piece, *out);
    }
    checkpoint_close(checkpoint);
    free(piece);
    return st;
}

/* --- the folder of links --- */

static struct baton_status folder_make(char out[BATON_PATH_BYTES])
{
    const char *parent = getenv("TMPDIR");
    int length = snprintf(out, BATON_PATH_BYTES, "%s/baton-check-XXXXXX",
                          parent != NULL && parent[0] == '/' ? parent : "/tmp");
    if (length < 0 || length >= BATON_PATH_BYTES) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "TMPDIR: longer than %d bytes", BATON_PATH_BYTES - 1);
    }
    if (mkdtemp(out) == NULL) {
        return baton_status_errno(errno, "make folder", out);
    }
    /* The engine may be another user's. */
    return chmod(out, S_IRWXU | S_IRGRP | S_IXGRP | S_IROTH | S_IXOTH) == 0
               ? baton_status_ok()
               : baton_status_errno(errno, "chmod", out);
}

/* What is hidden or ours is no part of a checkpoint. */
static bool is_linked(const char *name)
{
    return name[0] != '.' && strncmp(name, "baton.", 6) != 0;
}

static struct baton_status link_one(const char *from, const char *name, int folder)
{
    char target[PATH_MAX];
    int length = snprintf(target, sizeof target, "%s/%s", from, name);
    if (length < 0 || (size_t)length >= sizeof target) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "%s: the path is too long", name);
    }
    return symlinkat(target, folder, name) == 0 ? baton_status_ok()
                                                : baton_status_errno(errno, "link", target);
}

static struct baton_status link_all(const char *from, int folder)
{
    DIR *list = opendir(from);
    struct baton_status st =
        list != NULL ? baton_status_ok() : baton_status_errno(errno, "open", from);
    while (baton_ok(&st)) {
        const struct dirent *entry = readdir(list);
        if (entry == NULL) {
            break;
        }
        st = is_linked(entry->d_name) ? link_one(from, entry->d_name, folder) : st;
    }
    if (list != NULL) {
        (void)closedir(list);
    }
    return st;
}

static struct baton_status manifest_write(const struct manifest *manifest, int folder)
{
    char *text = NULL;
    size_t bytes = 0;
    struct baton_status st = manifest_encode_json(manifest, &text, &bytes);
    if (!baton_ok(&st)) {
        return st;
    }
    int fd = openat(folder, MANIFEST_FILE_NAME, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    st = fd >= 0 ? file_write_at(fd, (struct baton_bytes){ (const uint8_t *)text, bytes }, 0,
                                 MANIFEST_FILE_NAME)
                 : baton_status_errno(errno, "make", MANIFEST_FILE_NAME);
    if (fd >= 0) {
        (void)close(fd);
    }
    free(text);
    return st;
}

static struct baton_status folder_fill(const char *from, const struct manifest *manifest,
                                       struct check_sealed *out)
{
    int folder = -1;
    struct baton_status st = folder_make(out->path);
    if (!baton_ok(&st)) {
        return st;
    }
    out->made = true;
    st = file_open_directory(out->path, &folder);
    if (baton_ok(&st)) {
        st = link_all(from, folder);
    }
    if (baton_ok(&st)) {
        st = manifest_write(manifest, folder);
    }
    if (folder >= 0) {
        (void)close(folder);
    }
    return st;
}

/* --- both kinds --- */

static struct baton_status manifest_read(int dir, struct manifest **out)
{
    struct baton_bytes text = { 0 };
    struct baton_status st =
        file_read_all(dir, MANIFEST_FILE_NAME, MANIFEST_JSON_BYTES_MAX, MANIFEST_FILE_NAME, &text);
    if (baton_ok(&st)) {
        st = manifest_decode_json(text, out);
        free((void *)(uintptr_t)text.data);
    }
    return st;
}

static struct baton_status sealed_fill(const char *real, struct check_sealed *out)
{
    struct manifest *manifest = NULL;
    int dir = -1;
    struct baton_status st = file_open_directory(real, &dir);
    if (!baton_ok(&st)) {
        return st;
    }
    if (faccessat(dir, MANIFEST_FILE_NAME, F_OK, 0) == 0) {
        st = manifest_read(dir, &manifest);
        (void)baton_text_copy(out->path, sizeof out->path, real);
    } else {
        st = manifest_make(real, dir, &manifest);
        st = baton_ok(&st) ? folder_fill(real, manifest, out) : st;
    }
    if (baton_ok(&st)) {
        digest_format(manifest->digest, out->digest);
    }
    manifest_destroy(manifest);
    (void)close(dir);
    return st;
}

struct baton_status check_sealed_open(const char *dir, struct check_sealed *out)
{
    char real[PATH_MAX];
    *out = (struct check_sealed){ .made = false };
    if (realpath(dir, real) == NULL) {
        return baton_status_errno(errno, "open", dir);
    }
    if (strlen(real) >= BATON_PATH_BYTES) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "%.64s...: the path is too long", real);
    }
    struct baton_status st = sealed_fill(real, out);
    if (!baton_ok(&st)) {
        check_sealed_close(out);
        return baton_status_in(st, "%s", dir);
    }
    return st;
}

void check_sealed_close(struct check_sealed *sealed)
{
    DIR *list = sealed->made ? opendir(sealed->path) : NULL;
    if (list == NULL) {
        return;
    }
    for (const struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list)) {
        (void)unlinkat(dirfd(list), entry->d_name, 0); /* "." and ".." refuse. */
    }
    (void)closedir(list);
    (void)rmdir(sealed->path);
    sealed->made = false;
}
