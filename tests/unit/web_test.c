/* web_test.c -- the HTTP server: answers now and later, bodies, streams, its end; see api/web/web.h. */
#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/web/web_server.h"

enum { ANSWER_BYTES = 1 << 16 };

struct fixture {
    struct web_server *server;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct web_request *kept; /* Under the mutex; of /later and /stream. */
    atomic_uint drained;
    atomic_uint ended;
};

static void on_drained(void *context)
{
    atomic_fetch_add(&((struct fixture *)context)->drained, 1);
}

static void on_ended(void *context)
{
    struct fixture *fixture = context;
    pthread_mutex_lock(&fixture->mutex);
    atomic_fetch_add(&fixture->ended, 1);
    pthread_cond_broadcast(&fixture->changed);
    pthread_mutex_unlock(&fixture->mutex);
}

static void keep(struct fixture *fixture, struct web_request *request)
{
    pthread_mutex_lock(&fixture->mutex);
    fixture->kept = web_request_ref(request);
    pthread_cond_broadcast(&fixture->changed);
    pthread_mutex_unlock(&fixture->mutex);
}

static void handle(struct web_request *request, void *context)
{
    static const struct web_stream_events events = { on_drained, on_ended };
    static const struct web_answer head = { .type = "text/event-stream" };
    if (strcmp(web_path(request), "/echo") == 0) {
        const struct web_answer answer = { .code = 200,
                                           .type = web_header(request, "X-Type"),
                                           .body = web_body(request) };
        (void)web_answer(request, &answer);
    } else if (strcmp(web_path(request), "/stream") == 0) {
        web_stream_offer(request, &head, &events, context);
        keep(context, request);
    } else {
        keep(context, request);
    }
}

static struct web_request *take_kept(struct fixture *fixture)
{
    pthread_mutex_lock(&fixture->mutex);
    while (fixture->kept == NULL) {
        pthread_cond_wait(&fixture->changed, &fixture->mutex);
    }
    struct web_request *kept = fixture->kept;
    fixture->kept = NULL;
    pthread_mutex_unlock(&fixture->mutex);
    return kept;
}

static void wait_ended(struct fixture *fixture, unsigned count)
{
    pthread_mutex_lock(&fixture->mutex);
    while (atomic_load(&fixture->ended) < count) {
        pthread_cond_wait(&fixture->changed, &fixture->mutex);
    }
    pthread_mutex_unlock(&fixture->mutex);
}

static void wait_drained(struct fixture *fixture)
{
    for (int i = 0; atomic_load(&fixture->drained) == 0 && i < 60000; i++) {
        (void)usleep(1000);
    }
    cr_assert_geq(atomic_load(&fixture->drained), 1);
}

static void start(struct fixture *fixture, const char *alive)
{
    const struct web_options options = { .listen = "127.0.0.1:0",
                                         .field = "test.listen",
                                         .handler = handle,
                                         .context = fixture,
                                         .body_bytes_max = 100,
                                         .stream_bytes_max = 1000,
                                         .alive = alive };
    memset(fixture, 0, sizeof(*fixture));
    pthread_mutex_init(&fixture->mutex, NULL);
    pthread_cond_init(&fixture->changed, NULL);
    struct baton_status st = web_create(&options, &fixture->server);
    cr_assert(baton_ok(&st), "%s", st.message);
}

static int ask(const struct fixture *fixture, const char *text)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons(web_port(fixture->server)),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    cr_assert_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    return fd;
}

/* Reads until 'wanted' came, or the end. */
static const char *read_until(int fd, char out[ANSWER_BYTES], const char *wanted)
{
    size_t size = 0;
    out[0] = '\0';
    while (wanted == NULL || strstr(out, wanted) == NULL) {
        ssize_t got = recv(fd, out + size, ANSWER_BYTES - 1 - size, 0);
        if (got <= 0) {
            break;
        }
        size += (size_t)got;
        out[size] = '\0';
    }
    return out;
}

static struct baton_bytes bytes_of(const char *text)
{
    return (struct baton_bytes){ (const uint8_t *)text, strlen(text) };
}

static char got[ANSWER_BYTES];

Test(web, answers_now_with_what_was_sent)
{
    static struct fixture fixture;
    start(&fixture, NULL);
    int fd = ask(&fixture, "POST /echo HTTP/1.1\r\nHost: x\r\nX-Type: a/b\r\nConnection: close\r\n"
                           "Content-Length: 5\r\n\r\nhello");
    read_until(fd, got, NULL);
    cr_assert_eq(strncmp(got, "HTTP/1.1 200", 12), 0, "%s", got);
    cr_assert_not_null(strstr(got, "Content-Type: a/b\r\n"));
    cr_assert_str_eq(got + strlen(got) - 5, "hello");
    close(fd);
    web_destroy(fixture.server);
}

Test(web, answers_later_and_once)
{
    static struct fixture fixture;
    start(&fixture, NULL);
    int fd = ask(&fixture, "GET /later HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    struct web_request *request = take_kept(&fixture);
    web_answer_text(request, 202, "first");
    web_answer_text(request, 500, "second");
    web_request_unref(request);
    read_until(fd, got, NULL);
    cr_assert_eq(strncmp(got, "HTTP/1.1 202", 12), 0, "%s", got);
    cr_assert_null(strstr(got, "second"));
    close(fd);
    web_destroy(fixture.server);
}

Test(web, bodies_are_bounded)
{
    static struct fixture fixture;
    start(&fixture, NULL);
    int fd = ask(&fixture, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n");
    cr_assert_eq(strncmp(read_until(fd, got, "\r\n\r\n"), "HTTP/1.1 413", 12), 0, "%s", got);
    close(fd);
    char chunk[160];
    (void)snprintf(chunk, sizeof(chunk), "65\r\n%0101d\r\n0\r\n\r\n", 7); /* 101 bytes unsaid. */
    fd = ask(&fixture, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    (void)send(fd, chunk, strlen(chunk), MSG_NOSIGNAL);
    cr_assert_str_eq(read_until(fd, got, NULL), "");
    close(fd);
    web_destroy(fixture.server);
}

Test(web, a_stream_gives_its_pieces_and_ends)
{
    static struct fixture fixture;
    start(&fixture, NULL);
    int fd = ask(&fixture, "GET /stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    struct web_request *request = take_kept(&fixture);
    cr_assert(web_stream_push(request, bytes_of("one")));
    cr_assert_not_null(strstr(read_until(fd, got, "one"), "text/event-stream"));
    wait_drained(
        &fixture); /* Before more is pushed: else nothing may ever be left for the reader to tell of. */
    cr_assert(web_stream_push(request, bytes_of("two")));
    cr_assert_not_null(strstr(read_until(fd, got, "two"), "two"));
    while (atomic_load(&fixture.drained) == 0) { /* It is told when all was taken. */
        usleep(1000);
    }
    web_stream_finish(request);
    web_drain(fixture.server, UINT64_C(60000000000));
    cr_assert_eq(atomic_load(&fixture.ended), 1, "it was taken");
    read_until(fd, got, NULL);
    cr_assert_not(web_stream_push(request, bytes_of("late")));
    web_request_unref(request);
    close(fd);
    web_destroy(fixture.server);
    cr_assert_eq(atomic_load(&fixture.ended), 1);
}

Test(web, a_caller_that_leaves_ends_its_stream)
{
    static struct fixture fixture;
    start(&fixture, NULL);
    int fd = ask(&fixture, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    struct web_request *request = take_kept(&fixture);
    close(fd);
    while (web_stream_push(request, bytes_of("is anybody there?"))) {
        usleep(1000);
    }
    wait_ended(&fixture, 1);
    web_request_unref(request);
    web_destroy(fixture.server);
}

Test(web, what_waits_in_a_stream_is_bounded)
{
    static struct fixture fixture;
    static char piece[1001];
    start(&fixture, NULL);
    int fd = ask(&fixture, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    struct web_request *request = take_kept(&fixture);
    memset(piece, 'x', sizeof(piece) - 1);
    cr_assert(web_stream_push(request, bytes_of("a")));
    read_until(fd, got, "a");
    memset(piece, 'x', sizeof(piece));
    cr_assert_not(web_stream_push(request, (struct baton_bytes){ (uint8_t *)piece, 1001 }));
    wait_ended(&fixture, 1);
    web_request_unref(request);
    close(fd);
    web_destroy(fixture.server);
}

/* libmicrohttpd sees no end of a connection that stands still: a caller that left would keep its place for ever. */
Test(web, a_caller_of_a_stream_that_says_nothing_is_missed_when_it_leaves)
{
    static struct fixture fixture;
    start(&fixture, ": alive\n\n");
    int fd = ask(&fixture, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    struct web_request *request = take_kept(&fixture);
    web_tick(request);
    web_tick(request);
    cr_assert_not_null(strstr(read_until(fd, got, "alive"), "HTTP/1.1 200"), "%s", got);
    close(fd);
    for (int i = 0; atomic_load(&fixture.ended) == 0 && i < 60000; i++) {
        web_tick(request);
        (void)usleep(1000);
    }
    wait_ended(&fixture, 1);
    web_request_unref(request);
    web_destroy(fixture.server);
}

Test(web, another_answer_may_come_before_a_stream_begins)
{
    static struct fixture fixture;
    static const struct web_answer late = { .code = 200, .type = "text/plain" };
    start(&fixture, ": alive\n\n");
    int fd = ask(&fixture, "GET /stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    struct web_request *request = take_kept(&fixture);
    web_answer_text(request, 404, "none");
    cr_assert_not(web_stream_push(request, bytes_of("late")));
    web_tick(request);
    web_tick(request);
    read_until(fd, got, NULL);
    cr_assert_eq(strncmp(got, "HTTP/1.1 404", 12), 0, "%s", got);
    cr_assert_str_eq(got + strlen(got) - 4, "none");
    wait_ended(&fixture, 1);
    web_request_unref(request);
    close(fd);
    fd = ask(&fixture, "GET /stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    request = take_kept(&fixture);
    cr_assert(web_stream_push(request, bytes_of("first")));
    cr_assert_not(web_answer(request, &late));
    web_stream_finish(request);
    cr_assert_not_null(strstr(read_until(fd, got, NULL), "first"));
    wait_ended(&fixture, 2);
    web_request_unref(request);
    close(fd);
    web_destroy(fixture.server);
    cr_assert_eq(atomic_load(&fixture.ended), 2);
}

/* Only what waits is kept, also of a stream whose caller takes as much as comes and so never all. */
Test(web, what_was_taken_is_not_kept)
{
    static const uint8_t piece[100];
    struct web_server server = { .options.stream_bytes_max = 1000 };
    struct web_request request = { .server = &server,
                                   .connection = (struct MHD_Connection *)&server };
    pthread_mutex_init(&request.mutex, NULL);
    cr_assert(web_stream_push(&request, (struct baton_bytes){ piece, sizeof(piece) }));
    for (int i = 0; i < 1000; i++) {
        cr_assert(web_stream_push(&request, (struct baton_bytes){ piece, sizeof(piece) }));
        request.taken += sizeof(piece); /* As its reader does. */
    }
    cr_assert_eq(request.queued - request.taken, sizeof(piece));
    cr_assert_leq(request.room, 6 * 1000, "%zu", request.room);
    pthread_mutex_destroy(&request.mutex);
    free(request.queue);
}

Test(web, it_ends_whatever_stands_still)
{
    static struct fixture fixture;
    start(&fixture, ": alive\n\n");
    int later = ask(&fixture, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
    struct web_request *request = take_kept(&fixture);
    int stream = ask(&fixture, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    struct web_request *pieces = take_kept(&fixture);
    int silent = ask(&fixture, "POST /echo HTTP/1.1\r\nHo");
    web_destroy(fixture.server);
    cr_assert_eq(atomic_load(&fixture.ended), 1);
    web_answer_text(request, 200, "too late"); /* Dropped. */
    cr_assert_not(web_stream_push(pieces, bytes_of("too late")));
    cr_assert_null(strstr(read_until(later, got, NULL), "too late"));
    web_request_unref(request);
    web_request_unref(pieces);
    close(later);
    close(stream);
    close(silent);
}

Test(web, addresses)
{
    struct web_server *server = NULL;
    const struct web_options options = { .listen = "example.org:80", .field = "test.listen" };
    struct baton_status st = web_create(&options, &server);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    cr_assert_eq(strncmp(st.message, "test.listen: 'example.org:80'", 29), 0, "%s", st.message);
    static const char *const local[] = { "127.0.0.1:1", "127.9.9.9:0", "localhost:80", "[::1]:80" };
    static const char *const others[] = { "0.0.0.0:80", "[::]:80", "10.0.0.1:80", "", "nonsense" };
    for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++) {
        cr_assert(web_listen_is_local(local[i]), "%s", local[i]);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        cr_assert_not(web_listen_is_local(others[i]), "%s", others[i]);
    }
}
