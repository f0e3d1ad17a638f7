/* etcd_http.c -- see etcd_http.h. */
#include "controller/store/etcd_http.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/store/etcd_answer.h"
#include "controller/store/etcd_text.h"

enum { URL_BYTES = ETCD_URL_BYTES + 64, CONNECT_MS_MAX = 1000, CONNECTIONS_MAX = 16 };

struct etcd_http {
    const struct etcd_address *address;
    CURL *easy;
    struct curl_slist *headers;
    struct etcd_text body;
    bool too_long;
    bool warm[ETCD_ENDPOINTS_MAX]; /* A connection may have been kept. */
    char error[CURL_ERROR_SIZE];
};

static pthread_once_t library_once = PTHREAD_ONCE_INIT;

static void library_init(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

static size_t on_body(char *data, size_t size, size_t count, void *self)
{
    struct etcd_http *http = self;
    size_t bytes = size * count;
    http->too_long = bytes > ETCD_ANSWER_BYTES_MAX - http->body.size;
    if (http->too_long) {
        return 0;
    }
    etcd_text_bytes(&http->body, data, bytes);
    return http->body.failed ? 0 : bytes;
}

static bool add_header(struct curl_slist **headers, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*headers, line);
    *headers = longer != NULL ? longer : *headers;
    return longer != NULL;
}

static void free_headers(struct curl_slist *headers)
{
    for (struct curl_slist *each = headers; each != NULL; each = each->next) {
        explicit_bzero(each->data, strlen(each->data));
    }
    curl_slist_free_all(headers);
}

struct baton_status etcd_http_set_token(struct etcd_http *http, const char *token)
{
    char line[ETCD_TOKEN_BYTES + 32];
    struct curl_slist *headers = NULL;
    (void)snprintf(line, sizeof(line), "Authorization: %s", token);
    /* hasleader: a member that sees no leader says so at once instead of letting us wait.
     * An empty Expect: libcurl would otherwise wait for a "100 Continue" before a long body. */
    bool ok = add_header(&headers, "Content-Type: application/json") &&
              add_header(&headers, "Grpc-Metadata-hasleader: true") &&
              add_header(&headers, "Expect:") && (token[0] == '\0' || add_header(&headers, line));
    explicit_bzero(line, sizeof(line));
    if (!ok || curl_easy_setopt(http->easy, CURLOPT_HTTPHEADER, headers) != CURLE_OK) {
        free_headers(headers);
        return baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
                                 "store: out of memory");
    }
    free_headers(http->headers);
    http->headers = headers;
    return baton_status_ok();
}

/* The file of a given authority alone, not also the system's folder of them; read at each connection, since it may be replaced. */
static CURLcode set_authority_rules(CURL *easy)
{
    CURLcode rc = curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    rc |= curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 0L);
    return rc;
}

static CURLcode set_file(CURL *easy, CURLoption option, const char *path)
{
    CURLcode rc = path[0] == '\0' ? CURLE_OK : curl_easy_setopt(easy, option, path);
    if (option == CURLOPT_CAINFO && path[0] != '\0') {
        rc |= set_authority_rules(easy);
    }
    return rc;
}

static bool configure(CURL *easy, const struct etcd_address *address, char *error)
{
    CURLcode rc = CURLE_OK;
    rc |= curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    rc |= curl_easy_setopt(easy, CURLOPT_PROXY, "");
    rc |= curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    rc |= curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    rc |= curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    rc |= curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    rc |= curl_easy_setopt(easy, CURLOPT_MAXCONNECTS, (long)CONNECTIONS_MAX);
    rc |= curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    rc |= curl_easy_setopt(easy, CURLOPT_POST, 1L);
    rc |= curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
    rc |= set_file(easy, CURLOPT_CAINFO, address->ca);
    rc |= set_file(easy, CURLOPT_SSLCERT, address->cert);
    rc |= set_file(easy, CURLOPT_SSLKEY, address->key);
    return rc == CURLE_OK;
}

static bool take_bodies(CURL *easy, curl_write_callback taker, void *self)
{
    CURLcode rc = curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, taker);
    return rc == CURLE_OK && curl_easy_setopt(easy, CURLOPT_WRITEDATA, self) == CURLE_OK;
}

struct baton_status etcd_http_open(const struct etcd_address *address, struct etcd_http **out)
{
    (void)pthread_once(&library_once, library_init);
    struct etcd_http *http = calloc(1, sizeof(*http));
    struct baton_status st = baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
                                               "store: libcurl cannot make a handle");
    if (http == NULL) {
        return st;
    }
    http->address = address;
    http->easy = curl_easy_init();
    if (http->easy != NULL && configure(http->easy, address, http->error) &&
        take_bodies(http->easy, on_body, http)) {
        st = etcd_http_set_token(http, "");
    }
    if (!baton_ok(&st)) {
        etcd_http_close(http);
        return st;
    }
    *out = http;
    return st;
}

void etcd_http_close(struct etcd_http *http)
{
    if (http != NULL) {
        curl_easy_cleanup(http->easy);
        free_headers(http->headers);
        etcd_text_free(&http->body);
        free(http);
    }
}

static bool prepare(struct etcd_http *http, const char *url, struct baton_bytes body,
                    uint64_t timeout_ms)
{
    long limit = (long)(timeout_ms == 0 ? 1 : timeout_ms);
    CURLcode rc = curl_easy_setopt(http->easy, CURLOPT_URL, url);
    rc |= curl_easy_setopt(http->easy, CURLOPT_TIMEOUT_MS, limit);
    rc |= curl_easy_setopt(http->easy, CURLOPT_CONNECTTIMEOUT_MS,
                           limit < CONNECT_MS_MAX ? limit : (long)CONNECT_MS_MAX);
    rc |= curl_easy_setopt(http->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.size);
    rc |= curl_easy_setopt(http->easy, CURLOPT_POSTFIELDS, (const char *)body.data);
    http->body.size = 0;
    http->body.failed = false;
    http->too_long = false;
    http->error[0] = '\0';
    return rc == CURLE_OK;
}

static bool is_certificate(CURLcode result)
{
    return result == CURLE_PEER_FAILED_VERIFICATION || result == CURLE_SSL_CERTPROBLEM ||
           result == CURLE_SSL_CACERT_BADFILE || result == CURLE_SSL_ISSUER_ERROR;
}

/* True if the request surely never left.  libcurl sends again over a new connection when a kept one
 * turns out to be dead, so after a warm start nothing is sure. */
static bool never_left(struct etcd_http *http, CURLcode result, bool warm)
{
    curl_off_t ready_us = 0;
    (void)curl_easy_getinfo(http->easy, CURLINFO_PRETRANSFER_TIME_T, &ready_us);
    return !warm && (ready_us == 0 || result == CURLE_COULDNT_CONNECT ||
                     result == CURLE_COULDNT_RESOLVE_HOST || is_certificate(result));
}

/* Over TLS 1.3 a member refuses the client's certificate after the client thinks that all is well: what libcurl then finds is a
 * connection that ended. */
static bool may_be_refused(const char *endpoint, CURLcode result)
{
    return strncmp(endpoint, "https:", 6) == 0 &&
           (result == CURLE_SEND_ERROR || result == CURLE_RECV_ERROR ||
            result == CURLE_GOT_NOTHING || result == CURLE_HTTP2);
}

static struct baton_status failure(const char *endpoint, CURLcode result, const char *error,
                                   bool too_long)
{
    const char *what = error[0] != '\0' ? error : curl_easy_strerror(result);
    if (too_long) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "etcd %s: an answer of more than %d bytes", endpoint,
                                 (int)ETCD_ANSWER_BYTES_MAX);
    }
    if (is_certificate(result)) {
        return baton_status_hint(baton_status_make(BATON_FAILED_PRECONDITION,
                                                   BATON_REASON_INCOMPATIBLE, "etcd %s: %s",
                                                   endpoint, what),
                                 "check ca=, cert= and key= of the store's address, and the names "
                                 "in etcd's certificate");
    }
    return baton_status_hint(baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
                                               "etcd %s: %s", endpoint, what),
                             may_be_refused(endpoint, result)
                                 ? "did etcd end there, or does it refuse the certificate of cert= "
                                   "(its --trusted-ca-file)?"
                                 : "is etcd running there, and is the address right?");
}

struct baton_status etcd_http_post(struct etcd_http *http, uint32_t endpoint, const char *path,
                                   struct baton_bytes body, uint64_t timeout_ms,
                                   struct etcd_reply *reply)
{
    char url[URL_BYTES];
    const char *base = http->address->endpoints[endpoint];
    bool warm = http->warm[endpoint];
    *reply = (struct etcd_reply){ .sent = ETCD_NOT_SENT };
    (void)snprintf(url, sizeof(url), "%s/v3/%s", base, path);
    if (!prepare(http, url, body, timeout_ms)) {
        return failure(base, CURLE_OUT_OF_MEMORY, "", false);
    }
    CURLcode result = curl_easy_perform(http->easy);
    http->warm[endpoint] = result == CURLE_OK;
    if (result != CURLE_OK) {
        bool left = !never_left(http, result, warm);
        reply->sent = http->too_long ? ETCD_TOO_LONG : (left ? ETCD_NO_ANSWER : ETCD_NOT_SENT);
        return failure(base, result, http->error, http->too_long);
    }
    (void)curl_easy_getinfo(http->easy, CURLINFO_RESPONSE_CODE, &reply->code);
    reply->sent = ETCD_ANSWERED;
    const char *data = http->body.size == 0 ? "" : http->body.data;
    reply->body = (struct baton_bytes){ (const uint8_t *)data, http->body.size };
    return baton_status_ok();
}

/* --- streams --- */

struct etcd_stream {
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers;
    struct etcd_text body; /* What came; up to 'at' it was given out. */
    size_t at;
    size_t searched; /* Up to there is no end of a line. */
    bool too_long;
    bool ended;
    CURLcode result; /* Of the end. */
    char endpoint[ETCD_URL_BYTES];
    char error[CURL_ERROR_SIZE];
};

static size_t on_stream(char *data, size_t size, size_t count, void *self)
{
    struct etcd_stream *stream = self;
    size_t bytes = size * count;
    size_t rest = stream->body.size - stream->at;
    if (stream->at > 0) {
        memmove(stream->body.data, stream->body.data + stream->at, rest);
        stream->body.size = rest;
        stream->searched -= stream->at;
        stream->at = 0;
    }
    stream->too_long = bytes > ETCD_ANSWER_BYTES_MAX - rest;
    if (stream->too_long) {
        return 0;
    }
    etcd_text_bytes(&stream->body, data, bytes);
    return stream->body.failed ? 0 : bytes;
}

static bool copy_headers(const struct curl_slist *from, struct curl_slist **out)
{
    bool ok = true;
    for (; ok && from != NULL; from = from->next) {
        ok = add_header(out, from->data);
    }
    return ok;
}

/* No time for the whole: it goes on.  That it says nothing is noticed elsewhere (etcd_follow.c). */
static bool prepare_stream(struct etcd_stream *stream, const struct etcd_http *http,
                           const char *path, struct baton_bytes body)
{
    char url[URL_BYTES];
    CURL *easy = stream->easy;
    (void)snprintf(url, sizeof(url), "%s/v3/%s", stream->endpoint, path);
    bool ok = configure(easy, http->address, stream->error) &&
              take_bodies(easy, on_stream, stream) && copy_headers(http->headers, &stream->headers);
    CURLcode rc = curl_easy_setopt(easy, CURLOPT_URL, url);
    rc |= curl_easy_setopt(easy, CURLOPT_HTTPHEADER, stream->headers);
    rc |= curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS_MAX);
    rc |= curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    rc |= curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.size);
    rc |= curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, (const char *)body.data);
    return ok && rc == CURLE_OK && curl_multi_add_handle(stream->multi, easy) == CURLM_OK;
}

struct baton_status etcd_stream_open(const struct etcd_http *http, uint32_t endpoint,
                                     const char *path, struct baton_bytes body,
                                     struct etcd_stream **out)
{
    struct etcd_stream *stream = calloc(1, sizeof(*stream));
    baton_assert(stream != NULL);
    (void)snprintf(stream->endpoint, sizeof(stream->endpoint), "%s",
                   http->address->endpoints[endpoint]);
    stream->multi = curl_multi_init();
    stream->easy = curl_easy_init();
    if (stream->multi == NULL || stream->easy == NULL ||
        !prepare_stream(stream, http, path, body)) {
        struct baton_status st = failure(stream->endpoint, CURLE_OUT_OF_MEMORY, "", false);
        etcd_stream_close(stream);
        return st;
    }
    *out = stream;
    return baton_status_ok();
}

/* Lets libcurl take what is there. */
static void perform(struct etcd_stream *stream)
{
    int running = 0;
    int left = 0;
    CURLMsg *message;
    CURLMcode code = curl_multi_perform(stream->multi, &running);
    if (code != CURLM_OK) {
        stream->ended = true;
        stream->result = CURLE_FAILED_INIT;
    }
    while ((message = curl_multi_info_read(stream->multi, &left)) != NULL) {
        if (message->msg == CURLMSG_DONE) {
            stream->ended = true;
            stream->result = message->data.result;
        }
    }
}

/* The next line without its end; what comes behind the last one when all came. */
static bool take_line(struct etcd_stream *stream, struct baton_bytes *line)
{
    char *data = stream->body.data;
    size_t size = stream->body.size;
    char *end = size > stream->searched
                    ? memchr(data + stream->searched, '\n', size - stream->searched)
                    : NULL;
    if (end == NULL && !(stream->ended && stream->at < size)) {
        stream->searched = size;
        return false;
    }
    size_t to = end == NULL ? size : (size_t)(end - data);
    *line = (struct baton_bytes){ (const uint8_t *)data + stream->at, to - stream->at };
    stream->at = end == NULL ? size : to + 1;
    stream->searched = stream->at;
    return true;
}

static struct baton_status end_of(const struct etcd_stream *stream)
{
    return stream->result != CURLE_OK
               ? failure(stream->endpoint, stream->result, stream->error, stream->too_long)
               : baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
                                   "etcd %s ended its answer", stream->endpoint);
}

enum etcd_stream_next etcd_stream_next(struct etcd_stream *stream, uint64_t wait_ms,
                                       struct baton_bytes *line, struct baton_status *why)
{
    enum { WAIT_MS_MAX = 1000 };
    int wait = (int)(wait_ms < WAIT_MS_MAX ? wait_ms : WAIT_MS_MAX);
    for (int tries = 0; tries < 2; tries++) {
        if (take_line(stream, line)) {
            return ETCD_STREAM_LINE;
        }
        if (!stream->ended) {
            perform(stream);
        }
        if (take_line(stream, line)) {
            return ETCD_STREAM_LINE;
        }
        if (stream->ended) {
            *why = end_of(stream);
            return ETCD_STREAM_END;
        }
        if (tries == 0) {
            (void)curl_multi_poll(stream->multi, NULL, 0, wait, NULL);
        }
    }
    return ETCD_STREAM_QUIET;
}

void etcd_stream_wake(struct etcd_stream *stream)
{
    (void)curl_multi_wakeup(stream->multi);
}

void etcd_stream_close(struct etcd_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    if (stream->multi != NULL && stream->easy != NULL) {
        (void)curl_multi_remove_handle(stream->multi, stream->easy);
    }
    curl_easy_cleanup(stream->easy);
    (void)curl_multi_cleanup(stream->multi);
    free_headers(stream->headers);
    etcd_text_free(&stream->body);
    free(stream);
}
