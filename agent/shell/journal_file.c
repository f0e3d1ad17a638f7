/* journal_file.c -- see journal_file.h. */
#include "agent/shell/journal_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "api/base/log.h"
#include "api/base/random.h"

#define MODULE "journal"
/* Version of the state directory as a whole. */
static const char DIRECTORY_FORMAT[] = "1\n";

enum {
    KIB = 1 << 10,
    MIB = 1 << 20,
    FILE_BYTES_MAX = 256 * MIB,
    RESERVE_BYTES = 2 * MIB, /* Kept allocated behind the last record. */
    ROOM_BYTES = 1 * MIB,    /* Swaps of all groups, 64 times 8 records, fit twice. */
    LOW_BYTES = 896 * KIB,   /* What lies above is for refusals, what lies below for open swaps. */
    COMPACT_BYTES_MIN = 1 * MIB,
};

struct journal_file {
    char directory[BATON_PATH_BYTES];
    int directory_fd;
    int lock_fd;
    int fd;
    uint64_t index;     /* Of the last record. */
    uint64_t size;      /* End of the last record. */
    uint64_t allocated; /* Bytes of the file that are on the disk. */
    uint64_t compacted; /* Size after the last compaction. */
    bool failed;        /* An append failed: nothing more is accepted. */
};

static struct baton_status failed(const struct journal_file *journal, int error, const char *call,
                                  const char *name)
{
    char path[BATON_PATH_BYTES + 32];
    (void)snprintf(path, sizeof path, "%s/%s", journal->directory, name);
    return baton_status_errno(error, call, path);
}

static struct baton_status write_at(const struct journal_file *journal, int fd, const void *data,
                                    size_t size, uint64_t offset)
{
    const uint8_t *bytes = data;
    size_t done = 0;
    while (done < size) {
        ssize_t n = pwrite(fd, bytes + done, size - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return failed(journal, n < 0 ? errno : EIO, "write", "journal");
        }
        done += (size_t)n;
    }
    return baton_status_ok();
}

/* One running agent a directory; the lock goes with the process, however it ends. */
static struct baton_status lock(struct journal_file *journal)
{
    char pid[32] = "";
    journal->lock_fd = openat(journal->directory_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (journal->lock_fd < 0) {
        return failed(journal, errno, "open", "lock");
    }
    if (flock(journal->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) {
            return failed(journal, errno, "flock", "lock");
        }
        (void)!pread(journal->lock_fd, pid, sizeof pid - 1, 0);
        pid[strcspn(pid, "\n")] = '\0';
        return baton_status_hint(
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_IN_USE,
                              "state directory %s is in use by the agent with pid %s",
                              journal->directory, pid),
            "stop that agent, or give this one a stateDir of its own");
    }
    int length = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    if (ftruncate(journal->lock_fd, 0) != 0 ||
        pwrite(journal->lock_fd, pid, (size_t)length, 0) != length) {
        return failed(journal, errno, "write", "lock");
    }
    return baton_status_ok();
}

static struct baton_status write_format(struct journal_file *journal)
{
    int fd = openat(journal->directory_fd, "format", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return failed(journal, errno, "open", "format");
    }
    size_t length = strlen(DIRECTORY_FORMAT);
    bool ok = write(fd, DIRECTORY_FORMAT, length) == (ssize_t)length && fsync(fd) == 0;
    int error = errno;
    (void)close(fd);
    return ok ? baton_status_ok() : failed(journal, error, "write", "format");
}

static struct baton_status check_format(struct journal_file *journal)
{
    char text[16] = "";
    int fd = openat(journal->directory_fd, "format", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? write_format(journal) : failed(journal, errno, "open", "format");
    }
    ssize_t n = read(fd, text, sizeof text - 1);
    (void)close(fd);
    if (n == 0) { /* A crash at its creation. */
        return write_format(journal);
    }
    if (n < 0 || strcmp(text, DIRECTORY_FORMAT) != 0) {
        text[strcspn(text, "\n")] = '\0';
        return baton_status_hint(
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                              "state directory %s has format %s; this agent reads format 1",
                              journal->directory, text),
            "run the version of baton-agent that made it, or give this one another stateDirectory");
    }
    return baton_status_ok();
}

static struct baton_status open_directory(struct journal_file *journal, const char *directory)
{
    if (!baton_text_copy(journal->directory, sizeof journal->directory, directory)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "stateDir: longer than %d bytes", BATON_PATH_BYTES - 1);
    }
    if (mkdir(directory, 0700) != 0 && errno != EEXIST) {
        return baton_status_errno(errno, "mkdir", directory);
    }
    journal->directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (journal->directory_fd < 0) {
        return baton_status_errno(errno, "open", directory);
    }
    return baton_status_ok();
}

/* The whole file in memory; '*out' is the caller's to free. */
static struct baton_status read_all(struct journal_file *journal, uint8_t **out, size_t *out_size)
{
    struct stat info;
    if (fstat(journal->fd, &info) != 0) {
        return failed(journal, errno, "stat", "journal");
    }
    if (info.st_size > FILE_BYTES_MAX) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "journal: %jd bytes; at most %d are read", (intmax_t)info.st_size,
                                 FILE_BYTES_MAX);
    }
    size_t size = (size_t)info.st_size;
    uint8_t *data = malloc(size + 1);
    if (data == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "journal: no memory for its %zu bytes", size);
    }
    size_t done = 0;
    while (done < size) {
        ssize_t n = pread(journal->fd, data + done, size - done, (off_t)done);
        if (n <= 0 && !(n < 0 && errno == EINTR)) {
            int error = n < 0 ? errno : EIO;
            free(data);
            return failed(journal, error, "read", "journal");
        }
        done += n > 0 ? (size_t)n : 0;
    }
    journal->allocated = size;
    *out = data;
    *out_size = size;
    return baton_status_ok();
}

static struct baton_status replay_all(struct journal_cursor *cursor, struct baton_bytes file,
                                      journal_replay_fn *replay, void *context)
{
    bool more = true;
    struct baton_status st = journal_cursor_init(cursor, file);
    while (baton_ok(&st) && more) {
        struct journal_record record;
        st = journal_cursor_next(cursor, &record, &more);
        if (baton_ok(&st) && more) {
            replay(context, &record);
        }
    }
    return st;
}

/* A torn write never had an effect; it goes, so that nothing is appended behind it. */
static struct baton_status cut_torn(struct journal_file *journal, uint64_t offset)
{
    baton_log(BATON_LOG_WARN, MODULE,
              "%s/journal: a write that was torn by a crash is cut off at offset %" PRIu64,
              journal->directory, offset);
    if (ftruncate(journal->fd, (off_t)offset) != 0 || fsync(journal->fd) != 0) {
        return failed(journal, errno, "truncate", "journal");
    }
    journal->allocated = offset;
    return baton_status_ok();
}

static struct baton_status start_new(struct journal_file *journal, journal_replay_fn *replay,
                                     void *context)
{
    uint8_t header[JOURNAL_HEADER_BYTES];
    uint8_t uid[BATON_UID_BYTES];
    struct journal_record record = { .kind = JOURNAL_INCARNATION };
    if (journal->size < JOURNAL_HEADER_BYTES) {
        journal_header_encode(header);
        struct baton_status st = write_at(journal, journal->fd, header, sizeof header, 0);
        if (!baton_ok(&st)) {
            return st;
        }
        journal->size = JOURNAL_HEADER_BYTES;
    }
    baton_random_secure(uid, sizeof uid);
    baton_hex_encode(uid, sizeof uid, record.incarnation);
    struct baton_status st = journal_file_append(journal, &record, NULL);
    if (baton_ok(&st) && fsync(journal->directory_fd) != 0) {
        st = failed(journal, errno, "fsync", ".");
    }
    if (baton_ok(&st)) {
        replay(context, &record);
    }
    return st;
}

static struct baton_status recover(struct journal_file *journal, journal_replay_fn *replay,
                                   void *context)
{
    uint8_t *data = NULL;
    size_t size = 0;
    struct journal_cursor cursor;
    (void)unlinkat(journal->directory_fd, "journal.new",
                   0); /* Of a compaction that a crash ended. */
    journal->fd = openat(journal->directory_fd, "journal", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (journal->fd < 0) {
        return failed(journal, errno, "open", "journal");
    }
    struct baton_status st = read_all(journal, &data, &size);
    if (!baton_ok(&st)) {
        return st;
    }
    st = replay_all(&cursor, (struct baton_bytes){ data, size }, replay, context);
    free(data);
    if (!baton_ok(&st)) {
        return baton_status_in(st, "%s", journal->directory);
    }
    journal->index = cursor.index;
    journal->size = cursor.offset;
    journal->compacted = cursor.offset;
    if (cursor.torn) {
        st = cut_torn(journal, cursor.offset);
    }
    if (baton_ok(&st) && journal->index == 0) {
        st = start_new(journal, replay, context);
    }
    return st;
}

struct baton_status journal_file_open(const char *directory, journal_replay_fn *replay,
                                      void *context, struct journal_file **out)
{
    struct journal_file *journal = calloc(1, sizeof *journal);
    if (journal == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "journal: no memory");
    }
    journal->directory_fd = journal->lock_fd = journal->fd = -1;
    struct baton_status st = open_directory(journal, directory);
    if (baton_ok(&st)) {
        st = lock(journal);
    }
    if (baton_ok(&st)) {
        st = check_format(journal);
    }
    if (baton_ok(&st)) {
        st = recover(journal, replay, context);
    }
    if (!baton_ok(&st)) {
        journal_file_close(journal);
        return st;
    }
    *out = journal;
    return baton_status_ok();
}

static void close_fd(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}

void journal_file_close(struct journal_file *journal)
{
    if (journal == NULL) {
        return;
    }
    close_fd(journal->fd);
    close_fd(journal->lock_fd);
    close_fd(journal->directory_fd);
    free(journal);
}

struct baton_status journal_file_append(struct journal_file *journal,
                                        const struct journal_record *record, uint64_t *took_ns)
{
    uint8_t bytes[JOURNAL_RECORD_BYTES_MAX];
    uint64_t began_ns = baton_clock_monotonic_ns();
    if (journal->failed) {
        return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_IO,
                                 "journal: an earlier write failed; nothing is appended after it");
    }
    size_t size = journal_record_encode(record, journal->index + 1, bytes, sizeof bytes);
    baton_assert(size > 0); /* The core made it. */
    struct baton_status st = write_at(journal, journal->fd, bytes, size, journal->size);
    if (baton_ok(&st) && fdatasync(journal->fd) != 0) {
        st = failed(journal, errno, "fdatasync", "journal");
    }
    if (!baton_ok(&st)) {
        /* What is on the disk now is unknown: only a restart, which reads it, may go on. */
        journal->failed = true;
        return st;
    }
    journal->index++;
    journal->size += size;
    if (journal->size > journal->allocated) {
        journal->allocated = journal->size;
    }
    if (took_ns != NULL) {
        *took_ns = baton_clock_monotonic_ns() - began_ns;
    }
    return baton_status_ok();
}

enum agent_journal_space journal_file_space(struct journal_file *journal)
{
    uint64_t left = journal->allocated - journal->size;
    if (left < ROOM_BYTES) {
        off_t end = (off_t)(journal->size + RESERVE_BYTES);
        int error = posix_fallocate(journal->fd, 0, end);
        if (error == 0 && fsync(journal->fd) == 0) {
            journal->allocated = (uint64_t)end;
            left = RESERVE_BYTES;
        }
    }
    if (left >= ROOM_BYTES) {
        return AGENT_JOURNAL_ROOM;
    }
    return left >= LOW_BYTES ? AGENT_JOURNAL_LOW : AGENT_JOURNAL_NONE;
}

bool journal_file_wants_compaction(const struct journal_file *journal)
{
    return journal->size > COMPACT_BYTES_MIN && journal->size > 2 * journal->compacted;
}

/* Writes all records of 'source' into 'fd'; '*index' and '*size' become those of the new file. */
static struct baton_status write_snapshot(struct journal_file *journal, int fd,
                                          journal_source_fn *source, void *context,
                                          struct journal_file *fresh)
{
    uint8_t bytes[JOURNAL_RECORD_BYTES_MAX];
    struct journal_record record;
    journal_header_encode(bytes);
    struct baton_status st = write_at(journal, fd, bytes, JOURNAL_HEADER_BYTES, 0);
    fresh->size = JOURNAL_HEADER_BYTES;
    for (uint32_t i = 0; baton_ok(&st) && source(context, i, &record); i++) {
        size_t size = journal_record_encode(&record, ++fresh->index, bytes, sizeof bytes);
        baton_assert(size > 0);
        st = write_at(journal, fd, bytes, size, fresh->size);
        fresh->size += size;
    }
    if (baton_ok(&st) && fsync(fd) != 0) {
        st = failed(journal, errno, "fsync", "journal.new");
    }
    return st;
}

struct baton_status journal_file_compact(struct journal_file *journal, journal_source_fn *source,
                                         void *context)
{
    struct journal_file fresh = { .index = 0 };
    int fd =
        openat(journal->directory_fd, "journal.new", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        return failed(journal, errno, "open", "journal.new");
    }
    struct baton_status st = write_snapshot(journal, fd, source, context, &fresh);
    if (baton_ok(&st) &&
        renameat(journal->directory_fd, "journal.new", journal->directory_fd, "journal") != 0) {
        st = failed(journal, errno, "rename", "journal.new");
    }
    if (!baton_ok(&st)) {
        (void)close(fd);
        (void)unlinkat(journal->directory_fd, "journal.new", 0);
        return st;
    }
    (void)close(journal->fd);
    journal->fd = fd;
    journal->index = fresh.index;
    journal->size = journal->allocated = journal->compacted = fresh.size;
    if (fsync(journal->directory_fd) != 0) {
        /* A crash could bring the old file back, without what is appended from now on. */
        journal->failed = true;
        return failed(journal, errno, "fsync", ".");
    }
    return baton_status_ok();
}

uint64_t journal_file_size(const struct journal_file *journal)
{
    return journal->size;
}
