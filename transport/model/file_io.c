/* file_io.c -- whole reads and writes of regular files. */
#include "transport/model/file_io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct baton_status file_open_read(int dir_fd, const char *name, bool follow_links,
                                   const char *label, struct file_opened *out)
{
    struct stat info;
    /* O_NONBLOCK: opening a pipe must not wait for a writer. */
    int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (follow_links ? 0 : O_NOFOLLOW);
    int fd = openat(dir_fd, name, flags);
    if (fd < 0 && errno == ELOOP && !follow_links) {
        return baton_status_make(BATON_PERMISSION_DENIED, BATON_REASON_BAD_FIELD,
                                 "%.200s: a symbolic link, which is not followed here", label);
    }
    if (fd < 0) {
        return baton_status_errno(errno, "open", label);
    }
    if (fstat(fd, &info) != 0) {
        struct baton_status st = baton_status_errno(errno, "fstat", label);
        close(fd);
        return st;
    }
    if (!S_ISREG(info.st_mode)) {
        close(fd);
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "%.200s: not a regular file", label);
    }
    *out = (struct file_opened){ fd, (uint64_t)info.st_size };
    return baton_status_ok();
}

struct baton_status file_open_directory(const char *path, int *out)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return baton_status_errno(errno, "open directory", path);
    }
    *out = fd;
    return baton_status_ok();
}

struct baton_status file_open_directory_itself(const char *path, int *out)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        *out = fd;
        return baton_status_ok();
    }
    int error = errno;
    if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode)) {
        return baton_status_make(BATON_PERMISSION_DENIED, BATON_REASON_BAD_FIELD,
                                 "%.200s: a symbolic link, which is not followed here", path);
    }
    return baton_status_errno(error, "open directory", path);
}

struct baton_status file_read_at(int fd, void *out, size_t size, uint64_t offset, const char *label)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = pread(fd, (char *)out + done, size - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return baton_status_errno(errno, "read", label);
        }
        if (n == 0) {
            return baton_status_make(BATON_DATA_LOSS, BATON_REASON_TRUNCATED,
                                     "%.200s: ends at byte %llu; %zu more were expected", label,
                                     (unsigned long long)(offset + done), size - done);
        }
        done += (size_t)n;
    }
    return baton_status_ok();
}

struct baton_status file_write_at(int fd, struct baton_bytes bytes, uint64_t offset,
                                  const char *label)
{
    size_t done = 0;
    while (done < bytes.size) {
        ssize_t n = pwrite(fd, bytes.data + done, bytes.size - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return baton_status_errno(errno, "write", label);
        }
        done += (size_t)n;
    }
    return baton_status_ok();
}

static struct baton_status read_opened(struct file_opened file, size_t limit, const char *label,
                                       struct baton_bytes *out)
{
    if (file.bytes > limit) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "%.200s: %llu bytes, above the limit of %zu", label,
                                 (unsigned long long)file.bytes, limit);
    }
    uint8_t *data = malloc(file.bytes + 1);
    if (data == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "%.200s: out of memory", label);
    }
    struct baton_status st = file_read_at(file.fd, data, file.bytes, 0, label);
    if (!baton_ok(&st)) {
        free(data);
        return st;
    }
    data[file.bytes] = '\0';
    *out = (struct baton_bytes){ data, file.bytes };
    return st;
}

struct baton_status file_read_all(int dir_fd, const char *name, size_t limit, const char *label,
                                  struct baton_bytes *out)
{
    struct file_opened file;
    struct baton_status st = file_open_read(dir_fd, name, true, label, &file);
    if (!baton_ok(&st)) {
        return st;
    }
    st = read_opened(file, limit, label, out);
    close(file.fd);
    return st;
}
