/* audit.c -- the writing half; see audit.h. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/base/bytes.h"
#include "api/base/clock.h"
#include "api/base/log.h"
#include "api/wire/wire.h"
#include "baton/v1/audit.pb-c.h"
#include "controller/shell/audit_file.h"

/* What failed, of one caller: so many lines at once, and one more each so many seconds. */
enum {
    QUESTIONS_MAX = 8,
    TAIL_BYTES = 64 << 10,
    REPEAT_S = 10,
    FAILED_MAX = 200,
    FAILED_EACH_S = 2
};

static const uint64_t HASH_START = UINT64_C(0xcbf29ce484222325);

void audit_path(const struct audit *audit, uint32_t age, char out[AUDIT_PATH_BYTES])
{
    if (age == 0) {
        (void)snprintf(out, AUDIT_PATH_BYTES, "%s", audit->path);
    } else {
        (void)snprintf(out, AUDIT_PATH_BYTES, "%s.%u", audit->path, age);
    }
}

/* --- opening --- */

/* Number of the last whole line of the file's last bytes; 0: there is none. */
static uint64_t number_in(char *tail)
{
    uint64_t number = 0;
    char *line = tail;
    for (char *end = strchr(line, '\n'); end != NULL; line = end + 1, end = strchr(line, '\n')) {
        *end = '\0';
        const char *at = strstr(line, "\"number\":\"");
        if (at != NULL) {
            number = strtoull(at + strlen("\"number\":\""), NULL, 10);
        }
    }
    return number;
}

/* Reads the end of a file; true if its last line is torn. */
static bool read_tail(int fd, uint64_t size, uint64_t *number)
{
    char *tail = calloc(1, TAIL_BYTES + 1);
    baton_assert(tail != NULL);
    off_t from = size > TAIL_BYTES ? (off_t)(size - TAIL_BYTES) : 0;
    ssize_t got = pread(fd, tail, TAIL_BYTES, from);
    bool torn = got > 0 && tail[got - 1] != '\n';
    *number = got > 0 ? number_in(tail) : 0;
    free(tail);
    return torn;
}

static struct baton_status open_file(struct audit *audit)
{
    struct stat st;
    audit->fd = open(audit->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    bool opened = audit->fd >= 0 && fstat(audit->fd, &st) == 0;
    if (!opened || (S_ISREG(st.st_mode) && fchmod(audit->fd, 0600) != 0)) {
        return baton_status_in(baton_status_errno(errno, "open", audit->path), "audit.file");
    }
    audit->bytes = (uint64_t)st.st_size;
    return baton_status_ok();
}

/* Numbers go on where the last process ended, in this file or in the one before it. */
static void find_number(struct audit *audit)
{
    char path[AUDIT_PATH_BYTES];
    struct stat st;
    if (read_tail(audit->fd, audit->bytes, &audit->last_number)) {
        audit->bytes += (uint64_t)(write(audit->fd, "\n", 1) == 1);
    }
    audit_path(audit, 1, path);
    int before = audit->last_number == 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (before >= 0) {
        if (fstat(before, &st) == 0) {
            (void)read_tail(before, (uint64_t)st.st_size, &audit->last_number);
        }
        (void)close(before);
    }
}

struct baton_status audit_create(const struct audit_options *options, struct audit **out)
{
    *out = NULL;
    if (options == NULL || options->file == NULL) {
        return baton_status_ok();
    }
    struct audit *audit = calloc(1, sizeof(*audit));
    baton_assert(audit != NULL);
    audit->fd = -1;
    audit->rotate_bytes = options->rotate_bytes;
    audit->keep = options->keep;
    pthread_mutex_init(&audit->mutex, NULL);
    struct baton_status st = baton_status_ok();
    if (!baton_text_copy(audit->path, sizeof(audit->path), options->file)) {
        st = baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT, "audit.file: too long");
    }
    if (baton_ok(&st)) {
        st = open_file(audit);
    }
    if (baton_ok(&st)) {
        find_number(audit);
        st = baton_mailbox_create(QUESTIONS_MAX, &audit->mailbox);
    }
    if (baton_ok(&st)) {
        int error = pthread_create(&audit->thread, NULL, audit_read_thread, audit);
        st = error != 0 ? baton_status_errno(error, "pthread_create", "audit") : st;
    }
    if (!baton_ok(&st)) {
        baton_mailbox_destroy(audit->mailbox);
        audit->mailbox = NULL;
        audit_destroy(audit);
        return st;
    }
    *out = audit;
    return st;
}

static void stop_work(void *target, void *argument)
{
    (void)argument;
    ((struct audit *)target)->stopping = true;
}

void audit_destroy(struct audit *audit)
{
    if (audit == NULL) {
        return;
    }
    if (audit->mailbox != NULL) {
        baton_mailbox_post_sure(audit->mailbox, stop_work, NULL);
        (void)pthread_join(audit->thread, NULL);
        baton_mailbox_destroy(audit->mailbox);
    }
    if (audit->fd >= 0) {
        (void)close(audit->fd);
    }
    pthread_mutex_destroy(&audit->mutex);
    free(audit);
}

/* --- writing --- */

static void rotate(struct audit *audit)
{
    char from[AUDIT_PATH_BYTES];
    char to[AUDIT_PATH_BYTES];
    for (uint32_t age = audit->keep; age > 0; age--) {
        audit_path(audit, age - 1, from);
        audit_path(audit, age, to);
        (void)rename(from, to); /* What is not there yet, need not move. */
    }
    if (audit->keep == 0) {
        (void)unlink(audit->path);
    }
    (void)close(audit->fd);
    audit->fd = -1;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; text != NULL && *text != '\0'; text++) { /* FNV-1a. */
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    }
    return (hash ^ 0xff) * UINT64_C(0x100000001b3);
}

static bool is_refusal(enum baton_code code)
{
    return code == BATON_PERMISSION_DENIED || code == BATON_RESOURCE_EXHAUSTED ||
           code == BATON_UNAUTHENTICATED || code == BATON_UNAVAILABLE;
}

/* True for a refusal that was written moments ago; else gives how often it was not. */
static bool is_repeated(struct audit *audit, const struct audit_entry *entry, uint64_t now,
                        uint64_t *repeated)
{
    if (!is_refusal(entry->status->code)) {
        return false;
    }
    const char *const same[] = { entry->principal, entry->requested_by, entry->method,
                                 entry->object,    entry->model,        entry->status->message };
    uint64_t hash = HASH_START;
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        hash = hash_text(hash, same[i]);
    }
    struct audit_recent *recent = &audit->recent[hash % AUDIT_RECENT];
    if (recent->hash == hash && recent->written_ns != 0 &&
        now - recent->written_ns < REPEAT_S * BATON_NS_PER_S) {
        recent->repeated++;
        return true;
    }
    *repeated = recent->hash == hash ? recent->repeated : 0;
    *recent = (struct audit_recent){ .hash = hash, .written_ns = now };
    return false;
}

/* True where this caller failed so often that its lines would push others' out; else gives how often that was so. */
static bool is_flood(struct audit *audit, const struct audit_entry *entry, uint64_t now,
                     uint64_t *left_out)
{
    if (baton_ok(entry->status)) {
        return false;
    }
    const char *who = entry->told_by != NULL ? entry->told_by : entry->principal;
    struct audit_caller *caller = &audit->callers[hash_text(HASH_START, who) % AUDIT_CALLERS];
    uint64_t back = (now - caller->seen_ns) / (FAILED_EACH_S * BATON_NS_PER_S);
    caller->seen_ns += back * FAILED_EACH_S * BATON_NS_PER_S;
    caller->spent -= back < caller->spent ? back : caller->spent;
    if (caller->spent == FAILED_MAX) {
        caller->left_out++;
        return true;
    }
    caller->spent++;
    *left_out = caller->left_out;
    caller->left_out = 0;
    return false;
}

/* Whether it is told with another line; else how many were told so before it. */
static bool is_left_out(struct audit *audit, const struct audit_entry *entry, uint64_t *before)
{
    uint64_t now = baton_clock_monotonic_ns();
    uint64_t repeated = 0;
    uint64_t left_out = 0;
    bool out = is_repeated(audit, entry, now, &repeated) || is_flood(audit, entry, now, &left_out);
    *before = repeated + left_out;
    return out;
}

static char *text_of(void *root, const char *text)
{
    return baton_wire_text(root, text != NULL ? text : "");
}

/* The line, with its end; to be freed. */
static char *render(const struct audit_entry *entry, uint64_t number, uint64_t repeated)
{
    Baton__V1__AuditEntry *message = baton_wire_new(&baton__v1__audit_entry__descriptor);
    json_t *json = NULL;
    message->number = number;
    message->at = baton_wire_timestamp(message, baton_clock_wall_ns());
    message->principal = text_of(message, entry->principal);
    message->address = text_of(message, entry->address);
    message->requested_by = text_of(message, entry->requested_by);
    message->method = text_of(message, entry->method);
    message->object = text_of(message, entry->object);
    message->model = text_of(message, entry->model);
    message->reason = text_of(message, entry->reason);
    message->request_id = text_of(message, entry->request_id);
    message->revision_before = entry->revision_before;
    message->revision_after = entry->revision_after;
    message->outcome = text_of(message, baton_code_name(entry->status->code));
    message->message = text_of(message, entry->status->message);
    message->repeated_before = repeated;
    struct baton_status st = baton_wire_to_json(message, &json);
    baton_wire_free(message);
    char *line = baton_ok(&st) ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    return line;
}

/* A file to write to; what was not moved aside once, is not moved again. */
static struct baton_status ready_file(struct audit *audit, size_t size)
{
    if (audit->fd >= 0 && audit->bytes > 0 && audit->bytes + size > audit->rotate_bytes) {
        rotate(audit);
    }
    return audit->fd >= 0 ? baton_status_ok() : open_file(audit);
}

static struct baton_status append(struct audit *audit, char *line)
{
    size_t size = strlen(line) + 1;
    struct baton_status st = ready_file(audit, size);
    if (!baton_ok(&st)) {
        return st;
    }
    line[size - 1] = '\n'; /* In place of its end: one write is one line. */
    ssize_t written = write(audit->fd, line, size);
    if (written == (ssize_t)size) {
        audit->bytes += size;
        return st;
    }
    st = baton_status_errno(written < 0 ? errno : ENOSPC, "write", audit->path);
    if (written > 0 && ftruncate(audit->fd, (off_t)audit->bytes) != 0) {
        audit->bytes += (uint64_t)written; /* The next line is glued to a torn one. */
    }
    return st;
}

static struct baton_status write_line(struct audit *audit, const struct audit_entry *entry,
                                      uint64_t before)
{
    char *line = render(entry, audit->last_number + 1, before);
    struct baton_status st =
        line != NULL ? append(audit, line)
                     : baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT, "no memory");
    free(line);
    return st;
}

void audit_write(struct audit *audit, const struct audit_entry *entry)
{
    uint64_t before = 0;
    if (audit == NULL) {
        return;
    }
    pthread_mutex_lock(&audit->mutex);
    if (!is_left_out(audit, entry, &before)) {
        struct baton_status st = write_line(audit, entry, before);
        audit->last_number += baton_ok(&st);
        if (!baton_ok(&st) && !audit->failing) { /* Once, until it works again. */
            baton_log_status(BATON_LOG_ERROR, "audit", "entries are lost", &st);
        }
        audit->failing = !baton_ok(&st);
    }
    pthread_mutex_unlock(&audit->mutex);
}
