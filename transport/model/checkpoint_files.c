/* checkpoint_files.c -- listing a checkpoint directory. */
#include "transport/model/checkpoint_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transport/model/checkpoint.h"
#include "transport/model/references.h"

static bool ends_in(const char *text, const char *end)
{
    size_t text_length = strlen(text);
    size_t end_length = strlen(end);
    return text_length >= end_length && strcmp(text + text_length - end_length, end) == 0;
}

/* What is in the directory but not in the version; checkpoint.h states the rule. */
static bool is_left_out(const char *name)
{
    static const char *const endings[] = { ".bin", ".pt",      ".pth",  ".ckpt", ".gguf",
                                           ".h5",  ".msgpack", ".onnx", ".md" };
    if (strcmp(name, REFERENCES_FILE_NAME) == 0) {
        return false;
    }
    if (name[0] == '.' || strncmp(name, "baton.", strlen("baton.")) == 0 ||
        strcmp(name, CHECKPOINT_INDEX_NAME) == 0) {
        return true;
    }
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        if (ends_in(name, endings[i])) {
            return true;
        }
    }
    return false;
}

static struct baton_status add(struct checkpoint *checkpoint, const char *name, uint64_t bytes)
{
    bool is_shard = ends_in(name, ".safetensors");
    struct checkpoint_file *list = is_shard ? checkpoint->shards : checkpoint->files;
    size_t *count = is_shard ? &checkpoint->shards_count : &checkpoint->files_count;
    size_t limit = is_shard ? BATON_SHARDS_MAX : CHECKPOINT_FILES_MAX;
    if (*count == limit) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "%.200s: more than %zu %s", checkpoint->dir, limit,
                                 is_shard ? "shards" : "files");
    }
    if (!is_shard && bytes > CHECKPOINT_FILE_BYTES_MAX) {
        return baton_status_make(
            BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
            "%.120s: '%.100s': a file besides the tensors is longer than 1 GiB", checkpoint->dir,
            name);
    }
    const char *copy = text_pool_copy(&checkpoint->texts, name, strlen(name));
    if (copy == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "%.200s: out of memory", checkpoint->dir);
    }
    list[(*count)++] = (struct checkpoint_file){ copy, bytes };
    return baton_status_ok();
}

static struct baton_status look_at(struct checkpoint *checkpoint, int dir_fd, const char *name)
{
    struct stat info;
    if (is_left_out(name)) {
        return baton_status_ok();
    }
    if (fstatat(dir_fd, name, &info, checkpoint->follows_links ? 0 : AT_SYMLINK_NOFOLLOW) != 0) {
        struct baton_status st = baton_status_errno(errno, "stat", name);
        return baton_status_in(st, "%.120s", checkpoint->dir);
    }
    if (S_ISLNK(info.st_mode)) {
        return baton_status_make(BATON_PERMISSION_DENIED, BATON_REASON_BAD_FIELD,
                                 "%.120s: %.100s: a symbolic link, which is not followed here",
                                 checkpoint->dir, name);
    }
    if (!S_ISREG(info.st_mode)) {
        return baton_status_ok();
    }
    struct baton_status st = manifest_name_check(MANIFEST_KIND_FILE, baton_bytes_of(name));
    if (!baton_ok(&st)) {
        return baton_status_in(st, "%.120s", checkpoint->dir);
    }
    return add(checkpoint, name, (uint64_t)info.st_size);
}

static int compare_files(const void *a, const void *b)
{
    const struct checkpoint_file *left = a;
    const struct checkpoint_file *right = b;
    return strcmp(left->name, right->name);
}

static struct baton_status list_opened(struct checkpoint *checkpoint, DIR *dir)
{
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        struct baton_status st = look_at(checkpoint, dirfd(dir), entry->d_name);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    qsort(checkpoint->files, checkpoint->files_count, sizeof(*checkpoint->files), compare_files);
    qsort(checkpoint->shards, checkpoint->shards_count, sizeof(*checkpoint->shards), compare_files);
    return baton_status_ok();
}

struct baton_status checkpoint_list_files(struct checkpoint *checkpoint, int dir_fd)
{
    checkpoint->files = calloc(CHECKPOINT_FILES_MAX, sizeof(*checkpoint->files));
    checkpoint->shards = calloc(BATON_SHARDS_MAX, sizeof(*checkpoint->shards));
    int own_fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = own_fd < 0 ? NULL : fdopendir(own_fd);
    if (checkpoint->files == NULL || checkpoint->shards == NULL || dir == NULL) {
        struct baton_status st = baton_status_errno(errno, "list directory", checkpoint->dir);
        if (dir != NULL) {
            closedir(dir);
        } else if (own_fd >= 0) {
            close(own_fd);
        }
        return st;
    }
    struct baton_status st = list_opened(checkpoint, dir);
    closedir(dir);
    return st;
}

bool checkpoint_has_file(const struct checkpoint *checkpoint, const char *name)
{
    for (size_t i = 0; i < checkpoint->files_count; i++) {
        if (strcmp(checkpoint->files[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}
