/* root_files.c -- what lies in a root's directory: measuring, deleting, taking stock at start. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/base/log.h"
#include "transport/landing/root.h"
#include "transport/model/manifest.h"

static DIR *open_directory_at(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL && fd >= 0) {
        close(fd);
    }
    return dir;
}

static bool is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

void root_delete_directory(const struct landing_root *root, const char *name)
{
    DIR *dir = open_directory_at(root->dir_fd, name);
    const struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (!is_dot(entry->d_name)) {
            unlinkat(dirfd(dir), entry->d_name, 0);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    if (unlinkat(root->dir_fd, name, AT_REMOVEDIR) != 0 && errno != ENOENT) {
        baton_log(BATON_LOG_WARN, "landing", "%s/%s cannot be removed: %s", root->dir, name,
                  strerror(errno));
    }
}

uint64_t root_measure_directory(const struct landing_root *root, const char *name)
{
    DIR *dir = open_directory_at(root->dir_fd, name);
    const struct dirent *entry;
    uint64_t bytes = 0;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        struct stat info;
        if (fstatat(dirfd(dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(info.st_mode)) {
            bytes += (uint64_t)info.st_size;
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return bytes;
}

static bool has_file(const struct landing_root *root, const char *dir, const char *file)
{
    char path[512];
    int length = snprintf(path, sizeof(path), "%s/%s", dir, file);
    return length > 0 && (size_t)length < sizeof(path) &&
           faccessat(root->dir_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* One entry of the root: a sealed version is listed, a landing that can go on is left, other
 * hidden directories of ours are removed, and what is not ours is left alone. */
static struct baton_status restore_entry(struct landing_root *root, const char *name)
{
    struct digest digest;
    if (digest_parse(name, &digest) && has_file(root, name, MANIFEST_FILE_NAME)) {
        return root_list_version(root, digest, root_measure_directory(root, name));
    }
    bool unfinished = starts_with(name, ROOT_RESUMABLE_PREFIX);
    if (unfinished && has_file(root, name, LANDING_CHUNKS_NAME)) {
        return baton_status_ok();
    }
    if (unfinished || starts_with(name, ROOT_IMPORT_PREFIX) ||
        starts_with(name, ROOT_TRASH_PREFIX)) {
        root_delete_directory(root, name);
    }
    return baton_status_ok();
}

struct baton_status root_restore(struct landing_root *root)
{
    DIR *dir = open_directory_at(root->dir_fd, ".");
    const struct dirent *entry;
    struct baton_status st = baton_status_ok();
    if (dir == NULL) {
        return baton_status_errno(errno, "list directory", root->dir);
    }
    while (baton_ok(&st) && (entry = readdir(dir)) != NULL) {
        st = restore_entry(root, entry->d_name);
    }
    closedir(dir);
    return st;
}

static bool is_active(struct landing_root *root, const char *name)
{
    bool found = false;
    pthread_mutex_lock(&root->lock);
    for (size_t i = 0; i < ROOT_ACTIVE_MAX; i++) {
        found = found || strcmp(root->active[i], name) == 0;
    }
    pthread_mutex_unlock(&root->lock);
    return found;
}

void landing_discard_unfinished(struct landing_root *root, const struct digest *keep)
{
    char kept[ROOT_NAME_BYTES] = "";
    DIR *dir = open_directory_at(root->dir_fd, ".");
    const struct dirent *entry;
    if (keep != NULL) {
        memcpy(kept, ROOT_RESUMABLE_PREFIX, sizeof(ROOT_RESUMABLE_PREFIX));
        digest_format(*keep, kept + strlen(ROOT_RESUMABLE_PREFIX));
    }
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (starts_with(entry->d_name, ROOT_RESUMABLE_PREFIX) && strcmp(entry->d_name, kept) != 0 &&
            !is_active(root, entry->d_name)) {
            root_delete_directory(root, entry->d_name);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}
