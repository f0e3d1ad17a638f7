/* delta_crash.c -- the process dies, or the disk fails, at each write of publishing and applying.
 *
 * Linked with --wrap for every call that changes the disk, so each is counted.  For every n, until
 * a run needs fewer calls: the n-th one ends the process (a write half done), or fails.  After it
 * the version is not there, or whole; and doing it again succeeds. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/checkpoint_maker.h"
#include "transport/delta/apply.h"
#include "transport/delta/publish.h"

enum { EXIT_DIED = 42, CALLS_MAX = 1000 };

enum fault { FAULT_DIE, FAULT_ERROR };

static enum fault fault;
static bool is_bare;        /* As NFS: no locks on directories, no flags of rename. */
static char *moved_from;    /* Before the next lock another process moves this ... */
static char *moved_to;      /* ... there. */
static unsigned calls_left; /* Until the fault; 0: none is to come. */

ssize_t __real_pwrite(int fd, const void *data, size_t size, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *data, size_t size, off_t offset);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_renameat(int from_fd, const char *from, int to_fd, const char *to);
int __wrap_renameat(int from_fd, const char *from, int to_fd, const char *to);
int __real_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __real_mkdirat(int fd, const char *name, mode_t mode);
int __wrap_mkdirat(int fd, const char *name, mode_t mode);
int __real_openat(int fd, const char *name, int flags, mode_t mode);
int __wrap_openat(int fd, const char *name, int flags, ...);
int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);

/* Whether this call is the one that goes wrong. */
static bool is_due(void)
{
    return calls_left > 0 && --calls_left == 0;
}

/* Ends the process, or makes the call fail. */
static int go_wrong(void)
{
    if (fault == FAULT_DIE) {
        _exit(EXIT_DIED);
    }
    errno = ENOSPC;
    return -1;
}

ssize_t __wrap_pwrite(int fd, const void *data, size_t size, off_t offset)
{
    if (is_due()) {
        (void)__real_pwrite(fd, data, size / 2, offset);
        return go_wrong();
    }
    return __real_pwrite(fd, data, size, offset);
}

int __wrap_fsync(int fd)
{
    return is_due() ? go_wrong() : __real_fsync(fd);
}

int __wrap_renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    return is_due() ? go_wrong() : __real_renameat(from_fd, from, to_fd, to);
}

int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    if (is_bare) {
        errno = EINVAL;
        return -1;
    }
    return is_due() ? go_wrong() : __real_renameat2(from_fd, from, to_fd, to, flags);
}

int __wrap_mkdirat(int fd, const char *name, mode_t mode)
{
    return is_due() ? go_wrong() : __real_mkdirat(fd, name, mode);
}

int __wrap_openat(int fd, const char *name, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = (flags & O_CREAT) != 0 ? (mode_t)va_arg(arguments, int) : 0;
    va_end(arguments);
    return (flags & O_CREAT) != 0 && is_due() ? go_wrong() : __real_openat(fd, name, flags, mode);
}

int __wrap_flock(int fd, int operation)
{
    if (is_bare) {
        errno = EBADF;
        return -1;
    }
    if (moved_from != NULL) {
        (void)rename(moved_from, moved_to);
        moved_from = NULL;
    }
    return __real_flock(fd, operation);
}

static char *dir;
static char *base;
static char *next;
static char *publication;
static char *out;

static void stop(const char *what, const struct baton_status *st)
{
    printf("not ok - %s: %s\n", what, st->message);
    exit(1);
}

static struct baton_status do_publish(void)
{
    struct delta_published published;
    struct delta_publish_options options = { .publication = publication,
                                             .base_dir = base,
                                             .next_dir = next,
                                             .version = 1,
                                             .shard_bytes_max = 1 };
    return delta_publish(&options, &published);
}

static struct baton_status do_apply(void)
{
    struct delta_applied applied;
    struct delta_apply_options options = { publication, base, 1, out, 0 };
    struct baton_status st = delta_apply(&options, &applied);
    return baton_ok(&st) && !applied.digest_checked
               ? baton_status_make(BATON_INTERNAL, BATON_REASON_NONE, "no digest was checked")
               : st;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static void remove_all(const char *path)
{
    maker_remove(maker_join(path, ""));
}

/* Runs in a child that the fault may end; false once the fault's number was not reached. */
static bool run_with_fault(struct baton_status (*run)(void), unsigned n, bool *ok)
{
    pid_t pid = fork();
    if (pid == 0) {
        calls_left = n;
        struct baton_status st = run();
        _exit(calls_left > 0 ? 2 : baton_ok(&st) ? 0 : 1);
    }
    int status = 0;
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) {
        printf("not ok - the child with fault %u crashed by itself\n", n);
        exit(1);
    }
    *ok = WEXITSTATUS(status) == 0;
    return WEXITSTATUS(status) != 2;
}

/* What stands under the final name is whole: the next step takes it, digest and all. */
static void check_publication(unsigned n)
{
    char *version = maker_join(publication, "weight_v000001");
    struct baton_status st;
    if (!exists(version)) {
        st = do_publish();
        if (!baton_ok(&st)) {
            stop("publish again", &st);
        }
    }
    st = do_apply();
    if (!baton_ok(&st)) {
        printf("after fault %u: ", n);
        stop("apply what was published", &st);
    }
    remove_all(out);
    remove_all(version);
    free(version);
}

static void check_image(unsigned n)
{
    struct delta_state state;
    struct baton_status st = baton_status_ok();
    if (!exists(out)) {
        st = do_apply();
    }
    if (baton_ok(&st)) {
        st = delta_state_read(out, &state);
    }
    if (!baton_ok(&st) || state.version != 1 || !state.has_digest) {
        printf("after fault %u: ", n);
        stop("apply again", &st);
    }
    remove_all(out);
}

/* An error leaves no hidden directory behind. */
static void check_no_litter(const char *parent, bool ok)
{
    DIR *list = opendir(parent);
    const struct dirent *entry;
    while (list != NULL && (entry = readdir(list)) != NULL) {
        if (!ok && fault == FAULT_ERROR && strncmp(entry->d_name, ".baton-delta.", 13) == 0) {
            printf("not ok - an error left %s in %s\n", entry->d_name, parent);
            exit(1);
        }
    }
    if (list != NULL) {
        closedir(list);
    }
}

static void run_all(const char *what, struct baton_status (*run)(void), void (*check)(unsigned))
{
    unsigned n = 1;
    bool ok = false;
    while (n < CALLS_MAX && run_with_fault(run, n, &ok)) {
        check_no_litter(publication, ok);
        check_no_litter(dir, ok);
        check(n);
        n++;
    }
    check(n);
    if (n < 10 || n == CALLS_MAX) {
        printf("not ok - %s: %u calls were counted\n", what, n);
        exit(1);
    }
    printf("ok - %s: %u places\n", what, n - 1);
}

/* Another process puts its version in place after ours opened the hidden directory, before ours
 * locked it: the version stays whole. */
static void run_overtaken(void)
{
    char *version = maker_join(publication, "weight_v000001");
    char *hidden = maker_join(publication, ".baton-delta.weight_v000001");
    struct baton_status st = do_publish();
    if (!baton_ok(&st) || rename(version, hidden) != 0) {
        stop("publish", &st);
    }
    moved_from = hidden;
    moved_to = version;
    st = do_publish();
    if (st.code != BATON_ALREADY_EXISTS || moved_from != NULL) {
        stop("the version of the other process is not seen", &st);
    }
    st = do_apply();
    if (!baton_ok(&st)) {
        stop("the version of the other process is damaged", &st);
    }
    printf("ok - overtaken between opening and locking\n");
    remove_all(out);
    remove_all(version);
    free(hidden);
    free(version);
}

int main(void)
{
    dir = maker_directory();
    base = maker_join(dir, "base");
    next = maker_join(dir, "next");
    publication = maker_join(dir, "publication");
    out = maker_join(dir, "out");
    mkdir(base, 0755);
    mkdir(next, 0755);
    mkdir(publication, 0755);
    maker_checkpoint(base, 0);
    maker_checkpoint(next, 1);
    run_overtaken();
    for (int i = 0; i < 3; i++) {
        fault = i == 0 ? FAULT_DIE : FAULT_ERROR;
        is_bare = i == 2;
        run_all(i == 2   ? "publish, each write fails, without locks"
                : i == 0 ? "publish, killed at each write"
                         : "publish, each write fails",
                do_publish, check_publication);
    }
    is_bare = false;
    struct baton_status st = do_publish();
    if (!baton_ok(&st)) {
        stop("publish", &st);
    }
    for (int i = 0; i < 2; i++) {
        fault = i == 0 ? FAULT_DIE : FAULT_ERROR;
        run_all(i == 0 ? "apply, killed at each write" : "apply, each write fails", do_apply,
                check_image);
    }
    free(base);
    free(next);
    free(publication);
    free(out);
    maker_remove(dir);
    return 0;
}
