#include "api/http/http.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "api/base/bytes.h"
#include "api/base/clock.h"

enum { BODY_BYTES_FIRST = 4096, URL_BYTES = 4 * BATON_PATH_BYTES, WAIT_MS_MAX = 1000 };

struct http {
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers; /* With the token. */
    struct curl_slist *plain;   /* Without. */
    _Atomic bool aborted;
    bool remote_allowed;
    bool address_refused; /* In the call under way. */
    bool stale;           /* The last call met the end of a kept connection. */
    bool body_full;
    size_t body_bytes_max;
    size_t body_capacity;
    size_t body_bytes;
    char *body;
    char version[HTTP_VERSION_TEXT_BYTES];
    char url[BATON_PATH_BYTES];
    char error[CURL_ERROR_SIZE];
};

static pthread_once_t library_once = PTHREAD_ONCE_INIT;

static void library_init(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof v4);
        return (ntohl(v4.sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof v6);
        return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
    }
    return false;
}

/* Here, after the name was resolved, is the one place where the real address is known. */
static curl_socket_t on_socket(void *self, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct http *http = self;
    (void)purpose;
    if (!http->remote_allowed && !is_loopback(&address->addr)) {
        http->address_refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static bool body_reserve(struct http *http, size_t bytes)
{
    if (bytes <= http->body_capacity) {
        return true;
    }
    size_t capacity = http->body_capacity;
    while (capacity < bytes) {
        capacity *= 2;
    }
    char *grown = realloc(http->body, capacity);
    if (grown == NULL) {
        return false;
    }
    http->body = grown;
    http->body_capacity = capacity;
    return true;
}

static size_t on_body(char *data, size_t size, size_t count, void *self)
{
    struct http *http = self;
    size_t bytes = size * count;
    if (bytes > http->body_bytes_max - http->body_bytes ||
        !body_reserve(http, http->body_bytes + bytes + 1)) {
        http->body_full = true;
        return 0;
    }
    memcpy(http->body + http->body_bytes, data, bytes);
    http->body_bytes += bytes;
    http->body[http->body_bytes] = '\0';
    return bytes;
}

static size_t on_header(char *data, size_t size, size_t count, void *self)
{
    static const char NAME[] = "x-baton-version:";
    struct http *http = self;
    size_t bytes = size * count;
    size_t at = sizeof NAME - 1;
    if (bytes <= at || strncasecmp(data, NAME, at) != 0) {
        return bytes;
    }
    size_t out = 0;
    for (; at < bytes && out + 1 < sizeof http->version; at++) {
        if (data[at] > ' ') {
            http->version[out++] = data[at];
        }
    }
    http->version[out] = '\0';
    return bytes;
}

static bool is_given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static bool header_add(struct curl_slist **headers, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*headers, line);
    if (longer == NULL) {
        return false;
    }
    *headers = longer;
    return true;
}

static bool headers_make(struct http *http, const char *token, bool bearer)
{
    /* An empty Expect: libcurl would otherwise wait for a "100 Continue" before a long body. */
    if (!header_add(&http->headers, "Content-Type: application/json") ||
        !header_add(&http->headers, "Expect:") ||
        !header_add(&http->plain, "Content-Type: application/json") ||
        !header_add(&http->plain, "Expect:")) {
        return false;
    }
    if (!is_given(token)) {
        return true;
    }
    char line[HTTP_TOKEN_BYTES + 32];
    (void)snprintf(line, sizeof line, "x-baton-token: %s", token);
    bool added = header_add(&http->headers, line);
    if (bearer) {
        (void)snprintf(line, sizeof line, "Authorization: Bearer %s", token);
        added = header_add(&http->headers, line) && added;
    }
    explicit_bzero(line, sizeof line);
    return added;
}

/* What is the same in all requests. */
static bool easy_configure(struct http *http)
{
    CURL *easy = http->easy;
    CURLcode rc = CURLE_OK;
    rc |= curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    rc |= curl_easy_setopt(easy, CURLOPT_PROXY, "");
    rc |= curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    rc |= curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http");
    rc |= curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    rc |= curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    rc |= curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    rc |= curl_easy_setopt(easy, CURLOPT_HTTPHEADER, http->headers);
    rc |= curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, http->error);
    rc |= curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_socket);
    rc |= curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, http);
    rc |= curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    rc |= curl_easy_setopt(easy, CURLOPT_WRITEDATA, http);
    rc |= curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    rc |= curl_easy_setopt(easy, CURLOPT_HEADERDATA, http);
    return rc == CURLE_OK;
}

/* libcurl copies the names; the files are read with each connection, so that new ones are taken. */
static bool tls_configure(CURL *easy, const struct http_tls *tls)
{
    CURLcode rc = CURLE_OK;
    rc |= curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    rc |= curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    rc |= curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    rc |= curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    if (is_given(tls->ca)) { /* Alone: the system's folder would count beside it. */
        rc |= curl_easy_setopt(easy, CURLOPT_CAINFO, tls->ca);
        rc |= curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
        rc |= curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 0L);
    }
    if (is_given(tls->cert)) {
        rc |= curl_easy_setopt(easy, CURLOPT_SSLCERT, tls->cert);
        rc |= curl_easy_setopt(easy, CURLOPT_SSLKEY, tls->key);
    }
    return rc == CURLE_OK;
}

/* The host of a URL of an allowed scheme; null for another. */
static const char *host_of(const char *url, bool tls)
{
    static const char PLAIN[] = "http://";
    static const char SECURE[] = "https://";
    if (strncmp(url, PLAIN, sizeof PLAIN - 1) == 0) {
        return url + sizeof PLAIN - 1;
    }
    return tls && strncmp(url, SECURE, sizeof SECURE - 1) == 0 ? url + sizeof SECURE - 1 : NULL;
}

/* An allowed scheme and a host; userinfo would end up in messages. */
static struct baton_status url_check(const char *url, bool tls)
{
    const char *host = host_of(url, tls);
    if (host == NULL || host[strcspn(host, "@?# ")] != '\0' || host[0] == '\0' || host[0] == '/' ||
        host[0] == ':') {
        return baton_status_hint(
            baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                              "url \"%s\" is not of the form http%s://HOST:PORT", url,
                              tls ? "[s]" : ""),
            "give the server's own address, e.g. http://127.0.0.1:8000");
    }
    return baton_status_ok();
}

static struct baton_status fields_check(const struct http_options *options)
{
    if (strlen(options->url) >= BATON_PATH_BYTES) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "url is longer than %d bytes", BATON_PATH_BYTES - 1);
    }
    if (options->token != NULL && strlen(options->token) >= HTTP_TOKEN_BYTES) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "token is longer than %d bytes", HTTP_TOKEN_BYTES - 1);
    }
    return url_check(options->url, options->tls != NULL);
}

static void url_keep(struct http *http, const char *url)
{
    (void)baton_text_copy(http->url, sizeof http->url, url);
    size_t length = strlen(http->url);
    while (length > 0 && http->url[length - 1] == '/') {
        http->url[--length] = '\0';
    }
}

struct baton_status http_open(const struct http_options *options, struct http **out)
{
    struct baton_status st = fields_check(options);
    if (!baton_ok(&st)) {
        return st;
    }
    (void)pthread_once(&library_once, library_init);
    struct http *http = calloc(1, sizeof *http);
    if (http == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT, "no memory");
    }
    url_keep(http, options->url);
    http->remote_allowed = options->remote_allowed;
    http->body_bytes_max =
        options->body_bytes_max > 0 ? options->body_bytes_max : HTTP_BODY_BYTES_MAX;
    http->body_capacity = BODY_BYTES_FIRST;
    http->body = calloc(1, http->body_capacity);
    http->multi = curl_multi_init();
    http->easy = curl_easy_init();
    if (http->body == NULL || http->multi == NULL || http->easy == NULL ||
        !headers_make(http, options->token, options->bearer) || !easy_configure(http) ||
        (options->tls != NULL && !tls_configure(http->easy, options->tls))) {
        http_close(http);
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "libcurl cannot make a handle for %s", options->url);
    }
    *out = http;
    return baton_status_ok();
}

static void headers_wipe(struct curl_slist *headers)
{
    for (struct curl_slist *each = headers; each != NULL; each = each->next) {
        explicit_bzero(each->data, strlen(each->data));
    }
    curl_slist_free_all(headers);
}

void http_close(struct http *http)
{
    if (http == NULL) {
        return;
    }
    curl_easy_cleanup(http->easy);
    (void)curl_multi_cleanup(http->multi);
    headers_wipe(http->headers);
    headers_wipe(http->plain);
    free(http->body);
    free(http);
}

void http_begin(struct http *http)
{
    atomic_store(&http->aborted, false);
}

void http_abort(struct http *http)
{
    atomic_store(&http->aborted, true);
    (void)curl_multi_wakeup(http->multi);
}

bool http_aborted(const struct http *http)
{
    return atomic_load(&http->aborted);
}

/* Milliseconds to wait, rounded up so that the last of them is not spent spinning. */
static int wait_ms(uint64_t until_ns)
{
    uint64_t now = baton_clock_monotonic_ns();
    if (now >= until_ns) {
        return 0;
    }
    uint64_t ms = (until_ns - now + BATON_NS_PER_MS - 1) / BATON_NS_PER_MS;
    return ms > WAIT_MS_MAX ? WAIT_MS_MAX : (int)ms;
}

void http_wait(struct http *http, uint64_t until_ns)
{
    while (!http_aborted(http) && baton_clock_monotonic_ns() < until_ns) {
        (void)curl_multi_poll(http->multi, NULL, 0, wait_ms(until_ns), NULL);
    }
}

static bool request_set(struct http *http, const struct http_request *request, bool fresh)
{
    char url[URL_BYTES];
    int length = snprintf(url, sizeof url, "%s%s", http->url, request->path);
    if (length < 0 || (size_t)length >= sizeof url) {
        return false;
    }
    CURLcode rc = curl_easy_setopt(http->easy, CURLOPT_URL, url);
    rc |= curl_easy_setopt(http->easy, CURLOPT_CUSTOMREQUEST, request->method);
    rc |= curl_easy_setopt(http->easy, CURLOPT_HTTPHEADER,
                           request->plain ? http->plain : http->headers);
    /* A connection of its own for what must not be sent twice: see the header. */
    rc |= curl_easy_setopt(http->easy, CURLOPT_FRESH_CONNECT, fresh ? 1L : 0L);
    rc |= curl_easy_setopt(http->easy, CURLOPT_FORBID_REUSE, request->repeatable ? 0L : 1L);
    if (strcmp(request->method, "GET") == 0) {
        rc |= curl_easy_setopt(http->easy, CURLOPT_HTTPGET, 1L);
        return rc == CURLE_OK;
    }
    const char *body = request->body != NULL ? request->body : "";
    rc |= curl_easy_setopt(http->easy, CURLOPT_POST, 1L);
    rc |= curl_easy_setopt(http->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
    rc |= curl_easy_setopt(http->easy, CURLOPT_POSTFIELDS, body);
    return rc == CURLE_OK;
}

static void answer_clear(struct http *http, struct http_answer *answer)
{
    http->body_bytes = 0;
    http->body[0] = '\0';
    http->body_full = false;
    http->address_refused = false;
    http->version[0] = '\0';
    http->error[0] = '\0';
    *answer = (struct http_answer){ .outcome = HTTP_NOT_SENT, .body = http->body };
}

enum drive_end { DRIVE_DONE, DRIVE_LATE, DRIVE_ABORTED, DRIVE_BROKEN };

/* Moves the request on until libcurl is done with it, time is up, or somebody aborts. */
static enum drive_end drive(struct http *http, uint64_t deadline_ns)
{
    for (;;) {
        int running = 0;
        if (http_aborted(http)) {
            return DRIVE_ABORTED;
        }
        if (curl_multi_perform(http->multi, &running) != CURLM_OK) {
            return DRIVE_BROKEN;
        }
        if (running == 0) {
            return DRIVE_DONE;
        }
        int ms = wait_ms(deadline_ns);
        if (ms == 0) {
            return DRIVE_LATE;
        }
        if (curl_multi_poll(http->multi, NULL, 0, ms, NULL) != CURLM_OK) {
            return DRIVE_BROKEN;
        }
    }
}

static CURLcode result_take(struct http *http)
{
    int left = 0;
    CURLcode result = CURLE_RECV_ERROR;
    for (CURLMsg *message = curl_multi_info_read(http->multi, &left); message != NULL;
         message = curl_multi_info_read(http->multi, &left)) {
        if (message->msg == CURLMSG_DONE) {
            result = message->data.result;
        }
    }
    return result;
}

/* Once a connection stood, bytes may have gone out: only its absence proves that none did. */
static bool was_connected(struct http *http)
{
    curl_off_t connect_us = 0;
    return curl_easy_getinfo(http->easy, CURLINFO_CONNECT_TIME_T, &connect_us) != CURLE_OK ||
           connect_us > 0;
}

static struct baton_status unreachable(enum baton_code code, const struct http *http,
                                       const struct http_request *request, const char *what)
{
    return baton_status_make(code, BATON_REASON_ENGINE_UNREACHABLE, "%s %s%s: %s", request->method,
                             http->url, request->path, what);
}

static struct baton_status failure_of(const struct http *http, const struct http_request *request,
                                      CURLcode result)
{
    if (http->address_refused) {
        return baton_status_hint(
            unreachable(BATON_PERMISSION_DENIED, http, request, "is not a loopback address"),
            "control routes are not encrypted; run the agent beside the engine");
    }
    if (http->body_full) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "%s %s%s: the answer is longer than %zu bytes", request->method,
                                 http->url, request->path, http->body_bytes_max);
    }
    const char *what = http->error[0] != '\0' ? http->error : curl_easy_strerror(result);
    return unreachable(BATON_UNAVAILABLE, http, request, what);
}

/* The server ended a kept connection while the request was on its way over it. */
static bool was_stale(struct http *http, CURLcode result)
{
    long connects = 1;
    long code = 0;
    (void)curl_easy_getinfo(http->easy, CURLINFO_NUM_CONNECTS, &connects);
    (void)curl_easy_getinfo(http->easy, CURLINFO_RESPONSE_CODE, &code);
    bool ended =
        result == CURLE_RECV_ERROR || result == CURLE_SEND_ERROR || result == CURLE_GOT_NOTHING;
    return ended && connects == 0 && code == 0;
}

static struct baton_status finish(struct http *http, const struct http_request *request,
                                  struct http_answer *answer)
{
    CURLcode result = result_take(http);
    http->stale = was_stale(http, result);
    if (result != CURLE_OK) {
        return failure_of(http, request, result);
    }
    long code = 0;
    (void)curl_easy_getinfo(http->easy, CURLINFO_RESPONSE_CODE, &code);
    answer->outcome = HTTP_ANSWERED;
    answer->code = (uint32_t)code;
    answer->body = http->body;
    answer->body_bytes = http->body_bytes;
    memcpy(answer->version, http->version, sizeof answer->version);
    return baton_status_ok();
}

static struct baton_status conclude(struct http *http, const struct http_request *request,
                                    enum drive_end end, struct http_answer *answer)
{
    answer->outcome = was_connected(http) ? HTTP_NO_ANSWER : HTTP_NOT_SENT;
    switch (end) {
    case DRIVE_DONE: return finish(http, request, answer);
    case DRIVE_ABORTED: return unreachable(BATON_CANCELLED, http, request, "aborted");
    case DRIVE_BROKEN: return unreachable(BATON_UNAVAILABLE, http, request, "libcurl gave up");
    case DRIVE_LATE: break;
    }
    return unreachable(BATON_DEADLINE_EXCEEDED, http, request,
                       answer->outcome == HTTP_NOT_SENT ? "no connection within the deadline"
                                                        : "no answer within the deadline");
}

static struct baton_status call_once(struct http *http, const struct http_request *request,
                                     bool fresh, uint64_t deadline_ns, struct http_answer *answer)
{
    answer_clear(http, answer);
    if (http_aborted(http)) {
        return unreachable(BATON_CANCELLED, http, request, "aborted before it was sent");
    }
    if (baton_clock_monotonic_ns() >= deadline_ns) {
        return unreachable(BATON_DEADLINE_EXCEEDED, http, request, "no time left to send it");
    }
    if (!request_set(http, request, fresh) ||
        curl_multi_add_handle(http->multi, http->easy) != CURLM_OK) {
        return unreachable(BATON_INTERNAL, http, request, "libcurl refuses the request");
    }
    enum drive_end end = drive(http, deadline_ns);
    struct baton_status st = conclude(http, request, end, answer);
    (void)curl_multi_remove_handle(http->multi, http->easy);
    return st;
}

/* libcurl sends again what met the end of a kept connection, but not what met its reset. */
struct baton_status http_call(struct http *http, const struct http_request *request,
                              uint64_t deadline_ns, struct http_answer *answer)
{
    http->stale = false;
    struct baton_status st = call_once(http, request, !request->repeatable, deadline_ns, answer);
    if (http->stale && request->repeatable) {
        st = call_once(http, request, true, deadline_ns, answer);
    }
    return st;
}
