#include "agent/engine/process_proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "api/base/bytes.h"
#include "api/base/limits.h"

enum { STAT_BYTES = 1024, PID_MAX_DIGITS = 10 };

/* Reads what fits of a small file; false if it cannot be read. */
static bool text_read(const char *path, char *out, size_t out_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t length = read(fd, out, out_bytes - 1);
    (void)close(fd);
    if (length < 0) {
        return false;
    }
    out[length] = '\0';
    return true;
}

/* "pid (name) state ppid pgrp session ...": the name may hold anything, so fields are counted from the
 * last ')'.  20th field: threads; 22nd: start time. */
static bool stat_parse(char *text, struct proc_info *out)
{
    char state = 'X';
    int session = 0;
    long threads = 0;
    char *open_at = strchr(text, '(');
    char *close_at = strrchr(text, ')');
    if (open_at == NULL || close_at == NULL || close_at < open_at) {
        return false;
    }
    *close_at = '\0';
    (void)snprintf(out->name, sizeof out->name, "%.16s", open_at + 1);
    if (sscanf(
            close_at + 1,
            " %c %*d %*d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %" SCNu64,
            &state, &session, &threads, &out->start_ticks) != 4) {
        return false;
    }
    /* A zombie whose other threads still run is not dead. */
    out->alive = (state != 'Z' && state != 'X') || threads > 1;
    out->session = session;
    return true;
}

bool proc_read(pid_t pid, struct proc_info *out)
{
    char path[64];
    char text[STAT_BYTES];
    *out = (struct proc_info){ .pid = pid };
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    return pid > 0 && text_read(path, text, sizeof text) && stat_parse(text, out);
}

/* The next living process of the session in an open listing of /proc. */
static bool session_next(DIR *listing, pid_t session, struct proc_info *out)
{
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        size_t digits = strspn(entry->d_name, "0123456789");
        if (digits == 0 || digits > PID_MAX_DIGITS || entry->d_name[digits] != '\0') {
            continue;
        }
        if (proc_read((pid_t)strtol(entry->d_name, NULL, 10), out) && out->alive &&
            out->session == session) {
            return true;
        }
    }
    return false;
}

bool proc_session_find(pid_t session, struct proc_info *out)
{
    DIR *listing = opendir("/proc");
    if (listing == NULL) {
        return false;
    }
    bool found = session_next(listing, session, out);
    (void)closedir(listing);
    return found;
}

/* Through a pidfd: between a look and a kill() the number could have been given to somebody else. */
static void signal_one(const struct proc_info *wanted, int number)
{
    struct proc_info again;
    int fd = pidfd_open(wanted->pid, 0);
    if (fd < 0) {
        return;
    }
    if (proc_read(wanted->pid, &again) && again.start_ticks == wanted->start_ticks) {
        (void)pidfd_send_signal(fd, number, NULL, 0);
    }
    (void)close(fd);
}

void proc_session_signal(pid_t session, int number)
{
    struct proc_info each;
    DIR *listing = opendir("/proc");
    if (listing == NULL) {
        return;
    }
    while (session_next(listing, session, &each)) {
        signal_one(&each, number);
    }
    (void)closedir(listing);
}

struct baton_status proc_boot(char out[PROC_BOOT_BYTES])
{
    static const char PATH[] = "/proc/sys/kernel/random/boot_id";
    if (!text_read(PATH, out, PROC_BOOT_BYTES)) {
        return baton_status_errno(errno, "read", PATH);
    }
    out[strcspn(out, "\n")] = '\0';
    return baton_status_ok();
}

struct baton_status proc_file_read(const char *path, struct proc_file *out)
{
    char text[BATON_TEXT_BYTES];
    char end = '\0';
    *out = (struct proc_file){ 0 };
    errno = 0;
    if (!text_read(path, text, sizeof text)) {
        return baton_status_errno(errno, "read pid file", path);
    }
    if (sscanf(text, "%d %" SCNu64 " %39[0-9a-f-]%c", &out->pid, &out->start_ticks, out->boot,
               &end) != 4 ||
        end != '\n' || out->pid <= 0) {
        return baton_status_hint(
            baton_status_make(BATON_DATA_LOSS, BATON_REASON_MALFORMED,
                              "pid file %s does not hold one pid, start time and boot", path),
            "end the engine by hand if it runs, then remove the file");
    }
    return baton_status_ok();
}

static struct baton_status file_write(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return baton_status_errno(errno, "make pid file", path);
    }
    size_t length = strlen(text);
    ssize_t written = write(fd, text, length);
    int error = written < 0 ? errno : ENOSPC;
    (void)close(fd);
    if (written != (ssize_t)length) {
        return baton_status_errno(error, "write pid file", path);
    }
    return baton_status_ok();
}

/* Not synced to disk: a pid means nothing after the machine's next boot. */
struct baton_status proc_file_write(const char *path, const struct proc_file *file)
{
    char text[BATON_TEXT_BYTES];
    char temporary[BATON_PATH_BYTES + 8];
    (void)snprintf(text, sizeof text, "%d %" PRIu64 " %s\n", (int)file->pid, file->start_ticks,
                   file->boot);
    (void)snprintf(temporary, sizeof temporary, "%s.new", path);
    struct baton_status st = file_write(temporary, text);
    if (baton_ok(&st) && rename(temporary, path) != 0) {
        st = baton_status_errno(errno, "write pid file", path);
    }
    return st;
}
