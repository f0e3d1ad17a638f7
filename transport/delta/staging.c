/* staging.c -- hidden directory, flushes, one rename. */
#include "transport/delta/staging.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/base/random.h"
#include "transport/model/file_io.h"

#define PREFIX ".baton-delta."

enum { NAME_BYTES = 256, RANDOM_DIGITS = 17, SUBDIRECTORIES_MAX = 2, TRIES_MAX = 16 };

struct staging {
    int parent_fd;
    int dir_fd;
    bool committed;
    unsigned subdirectories_count;
    char subdirectories[SUBDIRECTORIES_MAX][NAME_BYTES];
    char name[NAME_BYTES];
    char hidden[NAME_BYTES + sizeof(PREFIX) + RANDOM_DIGITS];
};

/* Deletes what is in a directory, with one level of subdirectories: deeper ones are not ours. */
static void clear(int dir_fd, unsigned levels)
{
    int own_fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = own_fd < 0 ? NULL : fdopendir(own_fd);
    const struct dirent *entry;
    if (dir == NULL && own_fd >= 0) {
        close(own_fd);
    }
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            unlinkat(dir_fd, entry->d_name, 0) == 0 || levels == 0) {
            continue;
        }
        int sub_fd = openat(dir_fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (sub_fd >= 0) {
            clear(sub_fd, levels - 1);
            close(sub_fd);
            (void)unlinkat(dir_fd, entry->d_name, AT_REMOVEDIR);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

static struct baton_status open_hidden(struct staging *staging)
{
    if (mkdirat(staging->parent_fd, staging->hidden, 0755) != 0 && errno != EEXIST) {
        return baton_status_errno(errno, "create directory", staging->hidden);
    }
    staging->dir_fd = openat(staging->parent_fd, staging->hidden,
                             O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (staging->dir_fd < 0) {
        return baton_status_errno(errno, "open directory", staging->hidden);
    }
    return baton_status_ok();
}

/* Where directories cannot be locked (NFS), a name that nobody else has does instead. */
static struct baton_status take_own_name(struct staging *staging)
{
    uint8_t random[8];
    char digits[2 * sizeof(random) + 1];
    (void)unlinkat(staging->parent_fd, staging->hidden, AT_REMOVEDIR);
    baton_random_secure(random, sizeof(random));
    baton_hex_encode(random, sizeof(random), digits);
    (void)snprintf(staging->hidden, sizeof(staging->hidden), PREFIX "%s.%s", staging->name, digits);
    return open_hidden(staging);
}

/* Whether the hidden name still leads to the directory that was opened by it. */
static bool is_still_hidden(const struct staging *staging)
{
    struct stat opened, named;
    return fstat(staging->dir_fd, &opened) == 0 &&
           fstatat(staging->parent_fd, staging->hidden, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/* The lock is on the directory itself, so it ends with the process.  NOT_FOUND: between opening
 * and locking, another process put the directory in its place, or removed it. */
static struct baton_status take_hidden(struct staging *staging)
{
    struct baton_status st = open_hidden(staging);
    if (!baton_ok(&st)) {
        return st;
    }
    bool is_locked = flock(staging->dir_fd, LOCK_EX | LOCK_NB) == 0;
    bool is_taken = !is_locked && errno == EWOULDBLOCK;
    if (is_locked && is_still_hidden(staging)) {
        clear(staging->dir_fd, 1);
        return st;
    }
    close(staging->dir_fd);
    staging->dir_fd = -1;
    if (is_locked) {
        return baton_status_make(BATON_NOT_FOUND, BATON_REASON_IN_USE,
                                 "%.100s: other processes keep moving it", staging->hidden);
    }
    return is_taken ? baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_IN_USE,
                                        "%.100s: another process is writing it", staging->name)
                    : take_own_name(staging);
}

static struct baton_status begin(struct staging *staging, const char *parent, const char *name)
{
    if (strchr(name, '/') != NULL || name[0] == '.' ||
        !baton_text_copy(staging->name, sizeof(staging->name), name) || name[0] == '\0') {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "'%.100s' is not a plain name of a directory", name);
    }
    (void)snprintf(staging->hidden, sizeof(staging->hidden), PREFIX "%s", staging->name);
    struct baton_status st = file_open_directory(parent, &staging->parent_fd);
    if (!baton_ok(&st)) {
        return st;
    }
    for (unsigned tries = 1;; tries++) {
        if (faccessat(staging->parent_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
            return baton_status_make(BATON_ALREADY_EXISTS, BATON_REASON_IN_USE,
                                     "%.120s/%.120s exists", parent, name);
        }
        st = take_hidden(staging);
        if (st.code != BATON_NOT_FOUND || tries == TRIES_MAX) {
            return baton_status_in(st, "%.120s", parent);
        }
    }
}

struct baton_status staging_open(const char *parent, const char *name, struct staging **out)
{
    struct staging *staging = calloc(1, sizeof(*staging));
    if (staging == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT, "out of memory");
    }
    staging->parent_fd = -1;
    staging->dir_fd = -1;
    struct baton_status st = begin(staging, parent, name);
    if (!baton_ok(&st)) {
        staging_close(staging);
        return st;
    }
    *out = staging;
    return st;
}

void staging_close(struct staging *staging)
{
    if (staging == NULL) {
        return;
    }
    if (staging->dir_fd >= 0) {
        if (!staging->committed) {
            clear(staging->dir_fd, 1);
            (void)unlinkat(staging->parent_fd, staging->hidden, AT_REMOVEDIR);
        }
        close(staging->dir_fd);
    }
    if (staging->parent_fd >= 0) {
        close(staging->parent_fd);
    }
    free(staging);
}

int staging_fd(const struct staging *staging)
{
    return staging->dir_fd;
}

struct baton_status staging_create(struct staging *staging, const char *name, int *out)
{
    int fd =
        openat(staging->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0) {
        return baton_status_errno(errno, "create", name);
    }
    *out = fd;
    return baton_status_ok();
}

struct baton_status staging_reopen(struct staging *staging, const char *name, int *out)
{
    int fd = openat(staging->dir_fd, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return baton_status_errno(errno, "open", name);
    }
    *out = fd;
    return baton_status_ok();
}

struct baton_status staging_end_file(int fd, const char *name)
{
    struct baton_status st =
        fsync(fd) == 0 ? baton_status_ok() : baton_status_errno(errno, "fsync", name);
    if (close(fd) != 0 && baton_ok(&st)) {
        st = baton_status_errno(errno, "close", name);
    }
    return st;
}

struct baton_status staging_write(struct staging *staging, const char *name,
                                  struct baton_bytes bytes)
{
    int fd = -1;
    struct baton_status st = staging_create(staging, name, &fd);
    if (!baton_ok(&st)) {
        return st;
    }
    st = file_write_at(fd, bytes, 0, name);
    if (!baton_ok(&st)) {
        close(fd);
        return st;
    }
    return staging_end_file(fd, name);
}

struct baton_status staging_subdirectory(struct staging *staging, const char *name)
{
    baton_assert(staging->subdirectories_count < SUBDIRECTORIES_MAX);
    if (mkdirat(staging->dir_fd, name, 0755) != 0) {
        return baton_status_errno(errno, "create directory", name);
    }
    (void)baton_text_copy(staging->subdirectories[staging->subdirectories_count++], NAME_BYTES,
                          name);
    return baton_status_ok();
}

struct baton_status staging_rename(struct staging *staging, const char *from, const char *to)
{
    return renameat(staging->dir_fd, from, staging->dir_fd, to) == 0
               ? baton_status_ok()
               : baton_status_errno(errno, "rename", from);
}

static struct baton_status flush_directory(int at_fd, const char *name)
{
    int fd = openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct baton_status st = baton_status_ok();
    /* EINVAL: a file system that has no such thing for directories. */
    if (fd < 0 || (fsync(fd) != 0 && errno != EINVAL)) {
        st = baton_status_errno(errno, "fsync", name);
    }
    if (fd >= 0) {
        close(fd);
    }
    return st;
}

/* NFS knows no flags; a rename replaces no directory that holds something, and ours never is
 * empty. */
static int put_in_place(const struct staging *staging)
{
    int result = renameat2(staging->parent_fd, staging->hidden, staging->parent_fd, staging->name,
                           RENAME_NOREPLACE);
    return result != 0 && (errno == EINVAL || errno == ENOSYS)
               ? renameat(staging->parent_fd, staging->hidden, staging->parent_fd, staging->name)
               : result;
}

struct baton_status staging_commit(struct staging *staging)
{
    struct baton_status st = baton_status_ok();
    for (unsigned i = 0; baton_ok(&st) && i < staging->subdirectories_count; i++) {
        st = flush_directory(staging->dir_fd, staging->subdirectories[i]);
    }
    if (baton_ok(&st)) {
        st = flush_directory(staging->dir_fd, ".");
    }
    if (!baton_ok(&st)) {
        return st;
    }
    if (put_in_place(staging) != 0) {
        return baton_status_errno(errno, "rename", staging->hidden);
    }
    staging->committed = true;
    return flush_directory(staging->parent_fd, ".");
}
