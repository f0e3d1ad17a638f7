/* state_lock.c -- see state_lock.h. */
#include "controller/store/state_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, PID_TEXT_BYTES = 32 };

static struct baton_status refuse_locked(const char *path, int fd)
{
    char pid[PID_TEXT_BYTES] = { 0 };
    ssize_t size = pread(fd, pid, sizeof(pid) - 1, 0);
    pid[size > 0 ? strcspn(pid, "\n") : 0] = '\0';
    return baton_status_hint(baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_IN_USE,
                                               "%.200s is in use by process %s", path,
                                               pid[0] == '\0' ? "?" : pid),
                             "stop that process, or give this one another state directory");
}

static struct baton_status write_pid(const char *path, int fd)
{
    char pid[PID_TEXT_BYTES];
    int length = snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, pid, (size_t)length, 0) != length) {
        return baton_status_errno(errno, "write", path);
    }
    return baton_status_ok();
}

struct baton_status state_lock_take(const char *path, int *out_fd)
{
    char lock[PATH_BYTES];
    int length = snprintf(lock, sizeof(lock), "%s.lock", path);
    if (length < 0 || (size_t)length >= sizeof(lock)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "store: the path is too long");
    }
    int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return baton_status_errno(errno, "open", lock);
    }
    struct baton_status st = baton_status_ok();
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        st = errno == EWOULDBLOCK ? refuse_locked(path, fd)
                                  : baton_status_errno(errno, "flock", lock);
    } else {
        st = write_pid(lock, fd);
    }
    if (!baton_ok(&st)) {
        (void)close(fd);
        return st;
    }
    *out_fd = fd;
    return st;
}

void state_lock_release(int fd)
{
    (void)close(fd);
}
