/* guard.c -- see guard.h. */
#include "tests/miniengine/guard.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/engine/guard_page.h"

enum { READ_TRIES = 1000 };

static bool token_read(struct guard *guard, const char *path, struct trouble *why)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return errno == ENOENT ||
               trouble_set(why, "INTERNAL", NULL, "%s: %s", path, strerror(errno));
    }
    if (fgets(guard->token, sizeof guard->token, file) != NULL) {
        guard->token_length = strcspn(guard->token, "\r\n");
        guard->token[guard->token_length] = '\0';
    }
    (void)fclose(file);
    return true;
}

/* Under the file's lock: two guards that start at once get different boots. */
static bool incarnate(struct guard *guard)
{
    struct guard_page *page = guard->page;
    if (page->magic == 0 && page->layout == 0) {
        page->layout = GUARD_PAGE_LAYOUT;
        page->magic = GUARD_PAGE_MAGIC;
    }
    if (page->magic != GUARD_PAGE_MAGIC || page->layout != GUARD_PAGE_LAYOUT) {
        return true; /* Another layout: nothing of it is ours to write, and the gate stays shut. */
    }
    if (getrandom(page->boot_id, sizeof page->boot_id, 0) != (ssize_t)sizeof page->boot_id) {
        return false;
    }
    page->pid = (uint32_t)getpid();
    atomic_store(&page->held, 0);
    atomic_store(&page->active, 0);
    atomic_fetch_add(&page->boots, 1);
    return true;
}

static bool page_map(struct guard *guard, int fd)
{
    struct stat info;
    if (flock(fd, LOCK_EX) != 0 || fstat(fd, &info) != 0) {
        return false;
    }
    if (info.st_size < GUARD_PAGE_BYTES && ftruncate(fd, GUARD_PAGE_BYTES) != 0) {
        return false;
    }
    void *memory = mmap(NULL, GUARD_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        return false;
    }
    guard->page = memory;
    bool done = incarnate(guard);
    /* By hand: the mapping keeps the open file, and with it the lock, alive after close(). */
    (void)flock(fd, LOCK_UN);
    return done;
}

bool guard_open(struct guard *guard, const char *page_path, const char *token_path,
                struct trouble *why)
{
    memset(guard, 0, sizeof *guard);
    if (token_path != NULL && !token_read(guard, token_path, why)) {
        return false;
    }
    int fd = open(page_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && page_map(guard, fd);
    int error = errno;
    if (fd >= 0) {
        close(fd);
    }
    return ok ||
           trouble_set(why, "INTERNAL", NULL, "guard page %s: %s", page_path, strerror(error));
}

void guard_close(struct guard *guard)
{
    if (guard->page != NULL) {
        (void)munmap(guard->page, GUARD_PAGE_BYTES);
    }
    memset(guard, 0, sizeof *guard);
}

/* One try at the agent's section; false while it is being written.  Each field is loaded with
 * acquire order, so the second look at 'sequence' cannot come before it. */
static bool view_try(const struct guard_page *page, struct guard_view *view)
{
    uint64_t before = atomic_load_explicit(&page->sequence, memory_order_acquire);
    uint32_t gate = __atomic_load_n(&page->gate, __ATOMIC_ACQUIRE);
    uint64_t opened_for = __atomic_load_n(&page->opened_for, __ATOMIC_ACQUIRE);
    view->hold_max = __atomic_load_n(&page->hold_max, __ATOMIC_ACQUIRE);
    view->hold_ms = __atomic_load_n(&page->hold_ms, __ATOMIC_ACQUIRE);
    view->version = __atomic_load_n(&page->version, __ATOMIC_ACQUIRE);
    view->salt = __atomic_load_n(&page->salt, __ATOMIC_ACQUIRE) == 1;
    uint64_t after = atomic_load_explicit(&page->sequence, memory_order_relaxed);
    bool counts = opened_for == atomic_load(&page->boots) &&
                  (gate == GUARD_GATE_OPEN || gate == GUARD_GATE_HOLD);
    view->gate = counts ? gate : GUARD_GATE_SHUT;
    return before == after && before % 2 == 0;
}

struct guard_view guard_read(const struct guard *guard)
{
    struct guard_view view = { .gate = GUARD_GATE_SHUT };
    const struct guard_page *page = guard->page;
    if (page->magic != GUARD_PAGE_MAGIC || page->layout != GUARD_PAGE_LAYOUT) {
        return view;
    }
    for (int i = 0; i < READ_TRIES; i++) {
        if (view_try(page, &view)) {
            return view;
        }
    }
    return (struct guard_view){ .gate = GUARD_GATE_SHUT };
}

/* Takes as long for a wrong token as for a right one. */
static bool token_right(const struct guard *guard, const char *token)
{
    if (guard->token_length == 0 || token == NULL) {
        return false;
    }
    size_t length = strlen(token);
    unsigned difference = length == guard->token_length ? 0 : 1;
    for (size_t i = 0; i < guard->token_length; i++) {
        unsigned char given = i < length ? (unsigned char)token[i] : 0;
        difference |= (unsigned)given ^ (unsigned char)guard->token[i];
    }
    return difference == 0;
}

static bool is_open_path(const char *path)
{
    static const char *const paths[] = { "/health",  "/ping",      "/metrics",
                                         "/version", "/v1/models", "/load" };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        if (strcmp(path, paths[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_generation(const char *path)
{
    static const char *const paths[] = { "/generate",    "/tokenize", "/detokenize",
                                         "/invocations", "/pooling",  "/classify",
                                         "/score",       "/rerank",   "/embeddings" };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        if (strcmp(path, paths[i]) == 0) {
            return true;
        }
    }
    return strncmp(path, "/v1/", 4) == 0 || strncmp(path, "/inference/", 11) == 0;
}

static bool decimal(const char *text, uint64_t *value)
{
    if (text[0] == '\0' || strlen(text) > 20) {
        return false;
    }
    for (const char *c = text; *c != '\0'; c++) {
        if (isdigit((unsigned char)*c) == 0) {
            return false;
        }
    }
    errno = 0;
    *value = strtoull(text, NULL, 10);
    return errno == 0;
}

__attribute__((format(printf, 3, 4))) static enum guard_verdict refuse(struct guard_ticket *ticket,
                                                                       int code, const char *fmt,
                                                                       ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(ticket->message, sizeof ticket->message, fmt, args);
    va_end(args);
    ticket->code = code;
    return GUARD_REFUSES;
}

static void stop_waiting(struct guard *guard, struct guard_ticket *ticket)
{
    if (ticket->waiting) {
        ticket->waiting = false;
        atomic_fetch_sub(&guard->page->held, 1);
    }
}

/* Takes a place in the queue if there is one. */
static bool start_waiting(struct guard *guard, const struct guard_view *view, uint64_t now_ms,
                          struct guard_ticket *ticket)
{
    uint32_t held = atomic_load(&guard->page->held);
    do {
        if (held >= view->hold_max) {
            return false;
        }
    } while (!atomic_compare_exchange_weak(&guard->page->held, &held, held + 1));
    ticket->waiting = true;
    ticket->since_ms = now_ms;
    return true;
}

static enum guard_verdict ask_gate(struct guard *guard, const struct guard_view *view,
                                   uint64_t now_ms, struct guard_ticket *ticket)
{
    if (view->gate == GUARD_GATE_OPEN || ticket->trusted) {
        return GUARD_PASSES;
    }
    if (view->gate != GUARD_GATE_HOLD) {
        return refuse(ticket, 503, "the engine is not open for generation; try again");
    }
    if (!ticket->waiting && !start_waiting(guard, view, now_ms, ticket)) {
        return refuse(ticket, 503, "%u requests wait already; try again", view->hold_max);
    }
    if (now_ms - ticket->since_ms >= view->hold_ms) {
        return refuse(ticket, 503, "waited %" PRIu64 " ms for a swap to end; try again",
                      view->hold_ms);
    }
    return GUARD_WAITS;
}

static enum guard_verdict ask_version(const struct guard_request *request,
                                      struct guard_ticket *ticket)
{
    uint64_t wanted = 0;
    if (request->min_version != NULL && decimal(request->min_version, &wanted) &&
        ticket->version < wanted) {
        return refuse(ticket, 409, "version %" PRIu64 " is served, at least %" PRIu64 " is wanted",
                      ticket->version, wanted);
    }
    if (request->exact_version != NULL && decimal(request->exact_version, &wanted) &&
        ticket->version != wanted) {
        return refuse(ticket, 409, "version %" PRIu64 " is served, exactly %" PRIu64 " is wanted",
                      ticket->version, wanted);
    }
    return GUARD_PASSES;
}

/* Counted first, then looked again: an agent that shuts the gate and then reads 'active' misses
 * nobody. */
static enum guard_verdict enter(struct guard *guard, const struct guard_view *seen,
                                struct guard_ticket *ticket)
{
    atomic_fetch_add(&guard->page->active, 1);
    struct guard_view now = guard_read(guard);
    if (now.version != seen->version || (now.gate != GUARD_GATE_OPEN && !ticket->trusted)) {
        atomic_fetch_sub(&guard->page->active, 1);
        return GUARD_WAITS;
    }
    ticket->entered = true;
    return GUARD_PASSES;
}

static enum guard_verdict ask_generation(struct guard *guard, const struct guard_request *request,
                                         uint64_t now_ms, struct guard_ticket *ticket)
{
    uint64_t ignored = 0;
    struct guard_view view = guard_read(guard);
    ticket->generation = true;
    ticket->version = view.version;
    ticket->salted = view.salt;
    if ((request->min_version != NULL && !decimal(request->min_version, &ignored)) ||
        (request->exact_version != NULL && !decimal(request->exact_version, &ignored))) {
        return refuse(ticket, 400, "x-baton-%s-version is not an unsigned decimal",
                      request->min_version != NULL && !decimal(request->min_version, &ignored)
                          ? "min"
                          : "exact");
    }
    enum guard_verdict verdict = ask_gate(guard, &view, now_ms, ticket);
    if (verdict == GUARD_WAITS) {
        return verdict;
    }
    stop_waiting(guard, ticket);
    verdict = verdict == GUARD_PASSES ? ask_version(request, ticket) : verdict;
    return verdict == GUARD_PASSES ? enter(guard, &view, ticket) : verdict;
}

enum guard_verdict guard_ask(struct guard *guard, const struct guard_request *request,
                             uint64_t now_ms, struct guard_ticket *ticket)
{
    if (guard->page == NULL) {
        ticket->trusted = true;
        return GUARD_PASSES;
    }
    ticket->trusted = token_right(guard, request->token);
    if (is_open_path(request->path)) {
        return GUARD_PASSES;
    }
    if (is_generation(request->path)) {
        return ask_generation(guard, request, now_ms, ticket);
    }
    if (!ticket->trusted) {
        return refuse(ticket, 403, "this route is the agent's; x-baton-token is missing or wrong");
    }
    return strcmp(request->path, "/baton/guard") == 0 && strcmp(request->method, "GET") == 0
               ? GUARD_ANSWERS
               : GUARD_PASSES;
}

void guard_leave(struct guard *guard, struct guard_ticket *ticket)
{
    if (guard->page == NULL) {
        return;
    }
    stop_waiting(guard, ticket);
    if (ticket->entered) {
        ticket->entered = false;
        atomic_fetch_sub(&guard->page->active, 1);
    }
}

void guard_describe(const struct guard *guard, char *out, size_t out_bytes)
{
    static const char *const gates[] = { "shut", "open", "hold" };
    struct guard_view view = guard_read(guard);
    const struct guard_page *page = guard->page;
    char boot_id[2 * sizeof page->boot_id + 1];
    for (size_t i = 0; i < sizeof page->boot_id; i++) {
        (void)snprintf(boot_id + 2 * i, 3, "%02x", page->boot_id[i]);
    }
    (void)snprintf(
        out, out_bytes,
        "{\"guard\":1,\"gate\":\"%s\",\"boots\":%" PRIu64 ",\"bootId\":\"%s\",\"version\":%" PRIu64
        ",\"salt\":%s,\"held\":%u,\"active\":%u}",
        gates[view.gate], atomic_load(&page->boots), boot_id, view.version,
        view.salt ? "true" : "false", atomic_load(&page->held), atomic_load(&page->active));
}
