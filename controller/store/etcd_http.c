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

static bool configure(struct etcd_http *http)
{
    CURL *easy = http->easy;
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
    rc |= curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, http->error);
    rc |= curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    rc |= curl_easy_setopt(easy, CURLOPT_WRITEDATA, http);
    rc |= set_file(easy, CURLOPT_CAINFO, http->address->ca);
    rc |= set_file(easy, CURLOPT_SSLCERT, http->address->cert);
    rc |= set_file(easy, CURLOPT_SSLKEY, http->address->key);
    return rc == CURLE_OK;
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
    if (http->easy != NULL && configure(http)) {
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

static struct baton_status failure(struct etcd_http *http, const char *endpoint, CURLcode result)
{
    const char *what = http->error[0] != '\0' ? http->error : curl_easy_strerror(result);
    if (http->too_long) {
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
                             "is etcd running there, and is the address right?");
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
        return failure(http, base, CURLE_OUT_OF_MEMORY);
    }
    CURLcode result = curl_easy_perform(http->easy);
    http->warm[endpoint] = result == CURLE_OK;
    if (result != CURLE_OK) {
        bool left = !never_left(http, result, warm);
        reply->sent = http->too_long ? ETCD_TOO_LONG : (left ? ETCD_NO_ANSWER : ETCD_NOT_SENT);
        return failure(http, base, result);
    }
    (void)curl_easy_getinfo(http->easy, CURLINFO_RESPONSE_CODE, &reply->code);
    reply->sent = ETCD_ANSWERED;
    const char *data = http->body.size == 0 ? "" : http->body.data;
    reply->body = (struct baton_bytes){ (const uint8_t *)data, http->body.size };
    return baton_status_ok();
}
