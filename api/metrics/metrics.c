/* metrics.c -- the page over HTTP; see metrics.h. */
#include "api/metrics/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "api/base/log.h"
#include "api/metrics/metrics_page.h"
#include "api/web/web.h"

enum { OK = 200, NOT_FOUND = 404, METHOD_NOT_ALLOWED = 405 };

struct metrics {
    struct metrics_options options;
    struct web_server *web;
};

static void warn_of_others(const char *listen)
{
    struct baton_log_field fields[] = { BATON_LOG_TEXT("listen", listen) };
    baton_log_fields(BATON_LOG_WARN, "metrics",
                     "other machines reach this page, and it asks nobody who they are; "
                     "deploy/docs/metrics.md says what it tells",
                     fields, 1);
}

static bool wants_openmetrics(const struct web_request *request)
{
    const char *accept = web_header(request, "Accept");
    return accept != NULL && strstr(accept, "application/openmetrics-text") != NULL;
}

static void answer_page(const struct metrics *metrics, struct web_request *request)
{
    struct metrics_page page = { .is_openmetrics = wants_openmetrics(request) };
    metrics->options.collect(&page, metrics->options.context);
    page_end(&page);
    const struct web_answer answer = {
        .code = OK,
        .type = page.is_openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                    : "text/plain; version=0.0.4; charset=utf-8",
        .body = { (const uint8_t *)page.text, page.size }
    };
    (void)web_answer(request, &answer);
    page_free(&page);
}

static void handle(struct web_request *request, void *context)
{
    if (web_body(request).size > 0 || strcmp(web_method(request), "GET") != 0) {
        web_answer_text(request, METHOD_NOT_ALLOWED, "only GET\n");
    } else if (strcmp(web_path(request), "/metrics") != 0) {
        web_answer_text(request, NOT_FOUND, "there is only /metrics\n");
    } else {
        answer_page(context, request);
    }
}

struct baton_status metrics_create(const struct metrics_options *options, struct metrics **out)
{
    struct metrics *metrics = calloc(1, sizeof(*metrics));
    baton_assert(metrics != NULL);
    metrics->options = *options;
    const struct web_options web = {
        .listen = options->listen, .field = "metrics.listen", .handler = handle, .context = metrics
    };
    struct baton_status st = web_create(&web, &metrics->web);
    if (!baton_ok(&st)) {
        free(metrics);
        metrics = NULL;
    } else if (!web_listen_is_local(options->listen)) {
        warn_of_others(options->listen);
    }
    *out = metrics;
    return st;
}

uint16_t metrics_port(const struct metrics *metrics)
{
    return web_port(metrics->web);
}

void metrics_destroy(struct metrics *metrics)
{
    if (metrics != NULL) {
        web_destroy(metrics->web);
        free(metrics);
    }
}
