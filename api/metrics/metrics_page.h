/* metrics_page.h -- a page that is being written; private to api/metrics.
 *
 * Depends on: metrics.h.  Threads: one.  Ownership: 'text' is freed by page_free(). */
#ifndef BATON_METRICS_METRICS_PAGE_H
#define BATON_METRICS_METRICS_PAGE_H

#include <stdbool.h>

#include "api/metrics/metrics.h"

struct metrics_page {
    bool is_openmetrics;
    char *text;
    size_t size;
    size_t room;
    const char *family;
    enum metrics_type type;
};

void page_end(struct metrics_page *page); /* Nothing may follow. */
void page_free(struct metrics_page *page);

#endif /* metrics_page.h */
