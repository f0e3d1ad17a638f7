/* metrics.c -- the HTTP server; see metrics.h. */
#include "api/metrics/metrics.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/log.h"
#include "api/metrics/metrics_page.h"

enum {
    HOST_BYTES = 64,
    CONNECTIONS_MAX = 32,
    CONNECTIONS_OF_ONE_MAX = 8,
    IDLE_S = 15,
    REQUEST_BYTES_MAX = 16 << 10
};

struct metrics {
    struct metrics_options options;
    struct MHD_Daemon *daemon;
    uint16_t port;
};

/* --- addresses --- */

struct address {
    struct sockaddr_storage at;
    bool is_v6;
};

/* "host:port" or "[v6]:port" in its parts; false if it is neither. */
static bool split(const char *listen, char host[HOST_BYTES], long *port)
{
    const char *colon = strrchr(listen, ':');
    char *end = NULL;
    size_t size = colon != NULL ? (size_t)(colon - listen) : 0;
    if (size >= 2 && listen[0] == '[' && listen[size - 1] == ']') {
        listen++;
        size -= 2;
    }
    if (size == 0 || size >= HOST_BYTES) {
        return false;
    }
    memcpy(host, listen, size);
    host[size] = '\0';
    *port = strtol(colon + 1, &end, 10);
    return end != colon + 1 && *end == '\0' && *port >= 0 && *port <= 65535;
}

static bool parse(const char *listen, struct address *out)
{
    char host[HOST_BYTES];
    long port = 0;
    struct sockaddr_in *v4 = (struct sockaddr_in *)&out->at;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&out->at;
    memset(out, 0, sizeof(*out));
    if (!split(listen, host, &port)) {
        return false;
    }
    const char *number = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
    if (inet_pton(AF_INET, number, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        return true;
    }
    out->is_v6 = inet_pton(AF_INET6, number, &v6->sin6_addr) == 1;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons((uint16_t)port);
    return out->is_v6;
}

static bool is_loopback(const struct address *address)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address->at;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address->at;
    return address->is_v6 ? IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) != 0
                          : ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

static void warn_of_others(const char *listen)
{
    struct baton_log_field fields[] = { BATON_LOG_TEXT("listen", listen) };
    baton_log_fields(BATON_LOG_WARN, "metrics",
                     "other machines reach this page, and it asks nobody who they are; "
                     "deploy/docs/metrics.md says what it tells",
                     fields, 1);
}

/* --- answers --- */

static enum MHD_Result answer_text(struct MHD_Connection *connection, unsigned code,
                                   const char *text)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT);
    enum MHD_Result result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

static bool wants_openmetrics(struct MHD_Connection *connection)
{
    const char *accept = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Accept");
    return accept != NULL && strstr(accept, "application/openmetrics-text") != NULL;
}

static enum MHD_Result answer_page(const struct metrics *metrics, struct MHD_Connection *connection)
{
    struct metrics_page page = { .is_openmetrics = wants_openmetrics(connection) };
    metrics->options.collect(&page, metrics->options.context);
    page_end(&page);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(page.size, page.text, MHD_RESPMEM_MUST_COPY);
    page_free(&page);
    (void)MHD_add_response_header(response, "Content-Type",
                                  page.is_openmetrics
                                      ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                      : "text/plain; version=0.0.4; charset=utf-8");
    enum MHD_Result result = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **state)
{
    (void)version;
    (void)upload;
    (void)state;
    if (*upload_size > 0 || strcmp(method, MHD_HTTP_METHOD_GET) != 0) {
        *upload_size = 0;
        return answer_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET\n");
    }
    return strcmp(url, "/metrics") == 0
               ? answer_page(context, connection)
               : answer_text(connection, MHD_HTTP_NOT_FOUND, "there is only /metrics\n");
}

/* --- life --- */

static struct baton_status cannot_listen(const char *listen, int error)
{
    struct baton_status st =
        error == EADDRINUSE
            ? baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_IN_USE,
                                "metrics.listen %.80s: another process has it", listen)
            : baton_status_in(baton_status_errno(error != 0 ? error : EIO, "listen", listen),
                              "metrics.listen");
    return baton_status_hint(st, "choose another address, or leave metrics out");
}

static struct baton_status start(struct metrics *metrics, const struct address *address)
{
    unsigned flags =
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL | (address->is_v6 ? MHD_USE_IPv6 : 0);
    errno = 0;
    metrics->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, answer, metrics, MHD_OPTION_SOCK_ADDR, &address->at,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS_OF_ONE_MAX, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES_MAX, MHD_OPTION_END);
    if (metrics->daemon == NULL) {
        return cannot_listen(metrics->options.listen, errno);
    }
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(metrics->daemon, MHD_DAEMON_INFO_BIND_PORT);
    metrics->port = info != NULL ? info->port : 0;
    return baton_status_ok();
}

struct baton_status metrics_create(const struct metrics_options *options, struct metrics **out)
{
    struct address address;
    *out = NULL;
    if (!parse(options->listen, &address)) {
        return baton_status_hint(baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                                   "metrics.listen: '%.80s' is no address",
                                                   options->listen),
                                 "write 127.0.0.1:PORT, 0.0.0.0:PORT or [v6 address]:PORT");
    }
    struct metrics *metrics = calloc(1, sizeof(*metrics));
    baton_assert(metrics != NULL);
    metrics->options = *options;
    struct baton_status st = start(metrics, &address);
    if (!baton_ok(&st)) {
        free(metrics);
        return st;
    }
    if (!is_loopback(&address)) {
        warn_of_others(options->listen);
    }
    *out = metrics;
    return st;
}

uint16_t metrics_port(const struct metrics *metrics)
{
    return metrics->port;
}

void metrics_destroy(struct metrics *metrics)
{
    if (metrics != NULL) {
        MHD_stop_daemon(metrics->daemon);
        free(metrics);
    }
}
