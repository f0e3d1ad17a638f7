#include "agent/engine/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/base/bytes.h"
#include "api/base/clock.h"
#include "api/base/random.h"

#define LOCK_PATIENCE_NS (2 * BATON_NS_PER_S)
#define LOCK_RETRY_NS    (2 * BATON_NS_PER_MS)

struct engine_guard {
    struct guard_page *page;
};

static struct baton_status not_ours(const char *path, const char *what)
{
    return baton_status_hint(baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                                               "guard page %s: %s", path, what),
                             "stop the engine, remove the file, and start both again");
}

/* Guards hold this lock for the moment of their start; it is never waited for without an end. */
static struct baton_status lock_take(int fd, const char *path)
{
    uint64_t deadline = baton_clock_monotonic_ns() + LOCK_PATIENCE_NS;
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            return baton_status_errno(errno, "flock", path);
        }
        if (baton_clock_monotonic_ns() >= deadline) {
            return baton_status_make(BATON_UNAVAILABLE, BATON_REASON_IN_USE,
                                     "guard page %s: another process keeps it locked", path);
        }
        baton_clock_sleep_ns(LOCK_RETRY_NS);
    }
    return baton_status_ok();
}

/* Gives a new file its size and head; a page of all zeroes has its gate shut. */
static struct baton_status page_size(int fd, const char *path)
{
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return baton_status_errno(errno, "stat", path);
    }
    if (!S_ISREG(info.st_mode)) {
        return not_ours(path, "is not a file");
    }
    if (info.st_size == 0) {
        if (ftruncate(fd, GUARD_PAGE_BYTES) != 0) {
            return baton_status_errno(errno, "ftruncate", path);
        }
        return baton_status_ok();
    }
    if (info.st_size != GUARD_PAGE_BYTES) {
        return not_ours(path, "has not 4096 bytes");
    }
    return baton_status_ok();
}

static struct baton_status page_map(int fd, const char *path, struct guard_page **out)
{
    void *memory = mmap(NULL, GUARD_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        return baton_status_errno(errno, "mmap", path);
    }
    struct guard_page *page = memory;
    if (page->magic == 0 && page->layout == 0) {
        page->layout = GUARD_PAGE_LAYOUT;
        page->magic = GUARD_PAGE_MAGIC;
    }
    if (page->magic != GUARD_PAGE_MAGIC || page->layout != GUARD_PAGE_LAYOUT) {
        (void)munmap(memory, GUARD_PAGE_BYTES);
        return not_ours(path, "has another magic number or layout");
    }
    *out = page;
    return baton_status_ok();
}

static struct baton_status page_open(int fd, const char *path, struct guard_page **out)
{
    struct baton_status st = lock_take(fd, path);
    if (!baton_ok(&st)) {
        return st;
    }
    st = page_size(fd, path);
    if (baton_ok(&st)) {
        st = page_map(fd, path, out);
    }
    (void)flock(fd, LOCK_UN);
    return st;
}

struct baton_status engine_guard_open(const char *path, struct engine_guard **out)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return baton_status_errno(errno, "open guard page", path);
    }
    struct guard_page *page = NULL;
    struct baton_status st = page_open(fd, path, &page);
    (void)close(fd);
    if (!baton_ok(&st)) {
        return st;
    }
    struct engine_guard *guard = calloc(1, sizeof *guard);
    if (guard == NULL) {
        (void)munmap(page, GUARD_PAGE_BYTES);
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT, "no memory");
    }
    guard->page = page;
    *out = guard;
    return baton_status_ok();
}

void engine_guard_close(struct engine_guard *guard)
{
    if (guard == NULL) {
        return;
    }
    (void)munmap(guard->page, GUARD_PAGE_BYTES);
    free(guard);
}

void engine_guard_write(struct engine_guard *guard, const struct engine_gate_order *order)
{
    struct guard_page *page = guard->page;
    uint64_t odd = atomic_load_explicit(&page->sequence, memory_order_relaxed) | 1;
    atomic_store_explicit(&page->sequence, odd, memory_order_relaxed);
    /* Release stores: whoever sees one of these sees the odd sequence too. */
    __atomic_store_n(&page->gate, (uint32_t)order->gate, __ATOMIC_RELEASE);
    __atomic_store_n(&page->hold_max, order->hold_max, __ATOMIC_RELEASE);
    __atomic_store_n(&page->hold_ms, order->hold_ms, __ATOMIC_RELEASE);
    __atomic_store_n(&page->opened_for, order->boots, __ATOMIC_RELEASE);
    __atomic_store_n(&page->version, order->version, __ATOMIC_RELEASE);
    __atomic_store_n(&page->salt, order->salt ? 1U : 0U, __ATOMIC_RELEASE);
    atomic_store_explicit(&page->sequence, odd + 1, memory_order_release);
}

const struct guard_page *engine_guard_page(const struct engine_guard *guard)
{
    return guard->page;
}

void engine_guard_read(const struct engine_guard *guard, struct engine_guard_view *out)
{
    const struct guard_page *page = guard->page;
    uint8_t boot_id[sizeof page->boot_id];
    *out = (struct engine_guard_view){ 0 };
    out->boots = atomic_load_explicit(&page->boots, memory_order_acquire);
    memcpy(boot_id, page->boot_id, sizeof boot_id);
    baton_hex_encode(boot_id, sizeof boot_id, out->incarnation);
    out->pid = page->pid;
    out->held = atomic_load_explicit(&page->held, memory_order_relaxed);
    out->active = atomic_load_explicit(&page->active, memory_order_relaxed);
}

/* Makes the file under its own name only when it is whole: a reader never sees half of a token. */
static struct baton_status token_make(const char *path)
{
    uint8_t secret[(ENGINE_TOKEN_TEXT_BYTES - 1) / 2];
    char text[ENGINE_TOKEN_TEXT_BYTES + 1];
    char temporary[BATON_PATH_BYTES + 16];
    baton_random_secure(secret, sizeof secret);
    baton_hex_encode(secret, sizeof secret, text);
    text[ENGINE_TOKEN_TEXT_BYTES - 1] = '\n';
    int length = snprintf(temporary, sizeof temporary, "%s.new", path);
    if (length < 0 || (size_t)length >= sizeof temporary) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "token file: the path is too long");
    }
    (void)unlink(temporary);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return baton_status_errno(errno, "make token file", temporary);
    }
    ssize_t written = write(fd, text, ENGINE_TOKEN_TEXT_BYTES);
    int error = written == ENGINE_TOKEN_TEXT_BYTES ? 0 : (written < 0 ? errno : ENOSPC);
    explicit_bzero(text, sizeof text);
    explicit_bzero(secret, sizeof secret);
    if (error == 0 && fsync(fd) != 0) {
        error = errno;
    }
    (void)close(fd);
    /* link, not rename: where two start at once, the first one's token stands. */
    if (error == 0 && link(temporary, path) != 0 && errno != EEXIST) {
        error = errno;
    }
    (void)unlink(temporary);
    return error == 0 ? baton_status_ok() : baton_status_errno(error, "write token file", path);
}

static struct baton_status token_refused(const char *path, const char *what)
{
    return baton_status_hint(baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_BAD_FIELD,
                                               "token file %s: %s", path, what),
                             "remove it to have a new one made, and restart the engine");
}

static bool token_is_line(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (text[i] <= ' ' || text[i] > '~') {
            return false;
        }
    }
    return length > 0;
}

static struct baton_status token_read(int fd, const char *path, char out[ENGINE_TOKEN_BYTES_MAX])
{
    struct stat info;
    char text[ENGINE_TOKEN_BYTES_MAX + 1];
    if (fstat(fd, &info) != 0) {
        return baton_status_errno(errno, "stat token file", path);
    }
    if (!S_ISREG(info.st_mode) || (info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return token_refused(path, "others may read or write it (mode must be 0600)");
    }
    ssize_t length = read(fd, text, sizeof text);
    if (length < 0) {
        return baton_status_errno(errno, "read token file", path);
    }
    if (length > 0 && text[length - 1] == '\n') {
        length--;
    }
    if (length >= ENGINE_TOKEN_BYTES_MAX || !token_is_line(text, (size_t)length)) {
        explicit_bzero(text, sizeof text);
        return token_refused(path, "is not one line of 1 to 128 printable characters");
    }
    memcpy(out, text, (size_t)length);
    out[length] = '\0';
    explicit_bzero(text, sizeof text);
    return baton_status_ok();
}

struct baton_status engine_token_load(const char *path, char out[ENGINE_TOKEN_BYTES_MAX])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) {
        struct baton_status st = token_make(path);
        if (!baton_ok(&st)) {
            return st;
        }
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    }
    if (fd < 0) {
        return baton_status_errno(errno, "open token file", path);
    }
    struct baton_status st = token_read(fd, path, out);
    (void)close(fd);
    return st;
}
