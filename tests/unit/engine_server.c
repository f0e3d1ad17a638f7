#include "tests/unit/engine_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "api/base/status.h"

enum { REQUEST_BYTES = 16 << 10, ROWS_MAX = 64, SEEN_MAX = 256, AWAIT_S = 10 };

struct seen {
    char name[128];
    char *text;
};

struct script {
    const struct script_row *rows;
    size_t rows_count;
    unsigned used[ROWS_MAX];
    int listener;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    struct seen seen[SEEN_MAX];
    size_t seen_count;
    char url[64];
};

static void send_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
        if (sent <= 0) {
            return;
        }
        data += sent;
        size -= (size_t)sent;
    }
}

/* Until the client closes its end. */
static void read_to_end(int fd)
{
    char scrap[256];
    while (recv(fd, scrap, sizeof scrap, 0) > 0) {
    }
}

/* Head and body of one request; false if the client left before. */
static bool request_read(int fd, char *out)
{
    size_t used = 0;
    size_t wanted = SIZE_MAX;
    while (used < wanted) {
        ssize_t got = recv(fd, out + used, REQUEST_BYTES - 1 - used, 0);
        if (got <= 0) {
            return false;
        }
        used += (size_t)got;
        out[used] = '\0';
        const char *end = strstr(out, "\r\n\r\n");
        const char *length = strcasestr(out, "content-length:");
        if (end != NULL) {
            wanted = (size_t)(end + 4 - out) +
                     (length != NULL && length < end ? strtoul(length + 15, NULL, 10) : 0);
        }
    }
    return true;
}

/* "POST /pause?mode=keep", or "RPC method" for a collective_rpc. */
static void request_name(const char *request, char out[128])
{
    static const char METHOD[] = "\"method\":\"";
    const char *rpc = strstr(request, METHOD);
    if (strncmp(request, "POST /collective_rpc", 20) == 0 && rpc != NULL) {
        rpc += sizeof METHOD - 1;
        (void)snprintf(out, 128, "RPC %.*s", (int)strcspn(rpc, "\""), rpc);
        return;
    }
    const char *end = strstr(request, " HTTP/");
    (void)snprintf(out, 128, "%.*s", end != NULL ? (int)(end - request) : 0, request);
}

/* A row without a query stands for every query. */
static bool name_fits(const char *name, const char *wanted)
{
    size_t length = strlen(wanted);
    return strncmp(name, wanted, length) == 0 && (name[length] == '\0' || name[length] == '?');
}

static void request_note(struct script *script, const char *name, const char *text)
{
    if (script->seen_count < SEEN_MAX) {
        struct seen *seen = &script->seen[script->seen_count++];
        (void)snprintf(seen->name, sizeof seen->name, "%s", name);
        seen->text = strdup(text);
    }
    (void)pthread_cond_broadcast(&script->arrived);
}

/* The first unused row for the request, else the last one of them. */
static struct script_row row_take(struct script *script, const char *name)
{
    struct script_row found = { name, 404, "{\"detail\":\"Not Found\"}", SCRIPT_ANSWER, NULL };
    for (size_t i = 0; i < script->rows_count; i++) {
        if (!name_fits(name, script->rows[i].request)) {
            continue;
        }
        found = script->rows[i];
        if (script->used[i]++ == 0) {
            break;
        }
    }
    return found;
}

static void answer(int fd, const struct script_row *row)
{
    char head[512];
    size_t length = strlen(row->body);
    int size = snprintf(head, sizeof head,
                        "HTTP/1.1 %d X\r\nContent-Type: application/json\r\n%s%sContent-Length: "
                        "%zu\r\n\r\n",
                        row->code, row->header != NULL ? row->header : "",
                        row->header != NULL ? "\r\n" : "", length);
    send_all(fd, head, (size_t)size);
    send_all(fd, row->body, row->mode == SCRIPT_CUT ? length / 2 : length);
}

static void endless(int fd)
{
    static const char HEAD[] = "HTTP/1.1 200 X\r\nConnection: close\r\n\r\n";
    char block[4096];
    memset(block, ' ', sizeof block);
    send_all(fd, HEAD, sizeof HEAD - 1);
    while (send(fd, block, sizeof block, MSG_NOSIGNAL) > 0) {
    }
}

static void act(int fd, const struct script_row *row)
{
    switch (row->mode) {
    case SCRIPT_ANSWER:
    case SCRIPT_KEEP:
    case SCRIPT_CUT: answer(fd, row); break;
    case SCRIPT_HANG: read_to_end(fd); break;
    case SCRIPT_CLOSE: break;
    case SCRIPT_ENDLESS: endless(fd); break;
    case SCRIPT_NO_HTTP: send_all(fd, "\x01\x02 what?\n", 9); break;
    }
}

/* Reads a request, notes it, and gives its row; false if none came. */
static bool request_take(struct script *script, int fd, char *request, struct script_row *row)
{
    char name[128];
    if (!request_read(fd, request)) {
        return false;
    }
    request_name(request, name);
    (void)pthread_mutex_lock(&script->lock);
    *row = row_take(script, name);
    request_note(script, name, request);
    (void)pthread_mutex_unlock(&script->lock);
    return true;
}

static void serve(struct script *script, int fd)
{
    struct script_row row;
    char *request = malloc(REQUEST_BYTES);
    if (request != NULL && request_take(script, fd, request, &row)) {
        act(fd, &row);
        if (row.mode == SCRIPT_KEEP) {
            (void)request_take(script, fd, request, &row);
        }
    }
    free(request);
}

static void *run(void *self)
{
    struct script *script = self;
    for (;;) {
        int fd = accept4(script->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) {
            return NULL;
        }
        serve(script, fd);
        (void)close(fd);
    }
}

struct script *script_start(const struct script_row *rows, size_t rows_count)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t length = sizeof address;
    struct script *script = calloc(1, sizeof *script);
    if (script == NULL || rows_count > ROWS_MAX) {
        abort();
    }
    script->rows = rows;
    script->rows_count = rows_count;
    (void)pthread_mutex_init(&script->lock, NULL);
    (void)pthread_cond_init(&script->arrived, NULL);
    script->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (script->listener < 0 ||
        bind(script->listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(script->listener, 8) != 0 ||
        getsockname(script->listener, (struct sockaddr *)&address, &length) != 0 ||
        pthread_create(&script->thread, NULL, run, script) != 0) {
        abort();
    }
    (void)snprintf(script->url, sizeof script->url, "http://127.0.0.1:%u", ntohs(address.sin_port));
    return script;
}

void script_stop(struct script *script)
{
    (void)shutdown(script->listener, SHUT_RDWR);
    (void)pthread_join(script->thread, NULL);
    (void)close(script->listener);
    for (size_t i = 0; i < script->seen_count; i++) {
        free(script->seen[i].text);
    }
    (void)pthread_cond_destroy(&script->arrived);
    (void)pthread_mutex_destroy(&script->lock);
    free(script);
}

const char *script_url(const struct script *script)
{
    return script->url;
}

static unsigned count_locked(const struct script *script, const char *request)
{
    unsigned count = 0;
    for (size_t i = 0; i < script->seen_count; i++) {
        count += name_fits(script->seen[i].name, request);
    }
    return count;
}

unsigned script_count(struct script *script, const char *request)
{
    (void)pthread_mutex_lock(&script->lock);
    unsigned count = count_locked(script, request);
    (void)pthread_mutex_unlock(&script->lock);
    return count;
}

bool script_last_has(struct script *script, const char *request, const char *text)
{
    bool has = false;
    (void)pthread_mutex_lock(&script->lock);
    for (size_t i = 0; i < script->seen_count; i++) {
        if (name_fits(script->seen[i].name, request)) {
            has = strstr(script->seen[i].text, text) != NULL;
        }
    }
    (void)pthread_mutex_unlock(&script->lock);
    return has;
}

bool script_await(struct script *script, const char *request)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += AWAIT_S;
    (void)pthread_mutex_lock(&script->lock);
    int rc = 0;
    while (count_locked(script, request) == 0 && rc == 0) {
        rc = pthread_cond_timedwait(&script->arrived, &script->lock, &until);
    }
    bool came = count_locked(script, request) > 0;
    (void)pthread_mutex_unlock(&script->lock);
    return came;
}

struct guard_page *script_page(char *path, size_t path_bytes)
{
    (void)snprintf(path, path_bytes, "/tmp/engine_page_XXXXXX");
    int fd = mkstemp(path);
    baton_assert(fd >= 0 && ftruncate(fd, GUARD_PAGE_BYTES) == 0);
    void *memory = mmap(NULL, GUARD_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    baton_assert(memory != MAP_FAILED);
    (void)close(fd);
    struct guard_page *page = memory;
    page->magic = GUARD_PAGE_MAGIC;
    page->layout = GUARD_PAGE_LAYOUT;
    page->boots = 3;
    page->boot_id[0] = 0xab;
    return page;
}
