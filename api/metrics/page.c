/* page.c -- writing families and samples; see metrics.h. */
#include "api/metrics/metrics_page.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/clock.h"

enum { ROOM_FIRST = 8192, PIECE_BYTES = 512 };

static const double bounds_s[METRICS_BUCKETS] = { 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                  0.05,   0.1,   0.25,   0.5,   1,    2.5,
                                                  5,      10,    30,     60 };

static void add_bytes(struct metrics_page *page, const char *text, size_t size)
{
    if (page->size + size + 1 > page->room) {
        page->room = 2 * (page->size + size + 1) + ROOM_FIRST;
        page->text = realloc(page->text, page->room);
        baton_assert(page->text != NULL);
    }
    memcpy(page->text + page->size, text, size);
    page->size += size;
    page->text[page->size] = '\0';
}

static void add(struct metrics_page *page, const char *text)
{
    add_bytes(page, text, strlen(text));
}

BATON_PRINTF(2, 3)
static void add_format(struct metrics_page *page, const char *format, ...)
{
    char piece[PIECE_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(piece, sizeof(piece), format, args);
    va_end(args);
    add(page, piece);
}

void page_end(struct metrics_page *page)
{
    if (page->is_openmetrics) {
        add(page, "# EOF\n");
    }
}

void page_free(struct metrics_page *page)
{
    free(page->text);
}

/* What a sample's name has behind the family's. */
static const char *suffix_of(enum metrics_type type)
{
    return type == METRICS_COUNTER ? "_total" : type == METRICS_INFO ? "_info" : "";
}

static const char *type_name(const struct metrics_page *page, enum metrics_type type)
{
    switch (type) {
    case METRICS_GAUGE: break;
    case METRICS_COUNTER: return "counter";
    case METRICS_HISTOGRAM: return "histogram";
    case METRICS_INFO: return page->is_openmetrics ? "info" : "gauge";
    }
    return "gauge";
}

void metrics_family(struct metrics_page *page, const char *name, enum metrics_type type,
                    const char *help)
{
    const char *suffix =
        page->is_openmetrics ? "" : suffix_of(type); /* The older format's habit. */
    page->family = name;
    page->type = type;
    add_format(page, "# HELP %s%s %s\n", name, suffix, help);
    add_format(page, "# TYPE %s%s %s\n", name, suffix, type_name(page, type));
}

static void add_escaped(struct metrics_page *page, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\n') {
            add(page, "\\n");
            continue;
        }
        if (*text == '"' || *text == '\\') {
            add(page, "\\");
        }
        add_bytes(page, text, 1);
    }
}

/* 'bound': of a histogram's bucket, else null. */
static void add_labels(struct metrics_page *page, const struct metrics_label *labels, size_t count,
                       const char *bound)
{
    for (size_t i = 0; i < count; i++) {
        add_format(page, "%s%s=\"", i == 0 ? "{" : ",", labels[i].name);
        add_escaped(page, labels[i].value);
        add(page, "\"");
    }
    if (bound != NULL) {
        add_format(page, "%sle=\"%s\"", count == 0 ? "{" : ",", bound);
    }
    add(page, count > 0 || bound != NULL ? "} " : " ");
}

static void add_value(struct metrics_page *page, double value)
{
    if (isfinite(value) == 0) {
        add(page, isnan(value) != 0 ? "NaN\n" : value > 0 ? "+Inf\n" : "-Inf\n");
    } else {
        add_format(page, "%.17g\n", value);
    }
}

void metrics_sample(struct metrics_page *page, const struct metrics_label *labels,
                    size_t labels_count, double value)
{
    add_format(page, "%s%s", page->family, suffix_of(page->type));
    add_labels(page, labels, labels_count, NULL);
    add_value(page, value);
}

void metrics_build(struct metrics_page *page, const char *daemon, const char *version)
{
    const struct metrics_label labels[] = { { "daemon", daemon }, { "version", version } };
    metrics_family(page, "baton_build", METRICS_INFO, "What runs.");
    metrics_sample(page, labels, 2, 1);
}

/* --- histograms --- */

void metrics_observe(struct metrics_histogram *histogram, uint64_t ns)
{
    int bucket = 0;
    while (bucket < METRICS_BUCKETS && (double)ns > bounds_s[bucket] * BATON_NS_PER_S) {
        bucket++;
    }
    atomic_fetch_add_explicit(&histogram->buckets[bucket], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->sum_ns, ns, memory_order_relaxed);
}

static uint64_t bucket_of(const struct metrics_histogram *histogram, int i)
{
    return atomic_load_explicit(&histogram->buckets[i], memory_order_relaxed);
}

uint64_t metrics_histogram_count(const struct metrics_histogram *histogram)
{
    uint64_t count = 0;
    for (int i = 0; i <= METRICS_BUCKETS; i++) {
        count += bucket_of(histogram, i);
    }
    return count;
}

void metrics_histogram(struct metrics_page *page, const struct metrics_label *labels,
                       size_t labels_count, const struct metrics_histogram *histogram)
{
    uint64_t count = 0;
    for (int i = 0; i <= METRICS_BUCKETS; i++) {
        char bound[32] = "+Inf";
        if (i < METRICS_BUCKETS) {
            (void)snprintf(bound, sizeof(bound), "%g", bounds_s[i]);
        }
        count += bucket_of(histogram, i);
        add_format(page, "%s_bucket", page->family);
        add_labels(page, labels, labels_count, bound);
        add_format(page, "%llu\n", (unsigned long long)count);
    }
    add_format(page, "%s_sum", page->family);
    add_labels(page, labels, labels_count, NULL);
    add_value(page, (double)atomic_load_explicit(&histogram->sum_ns, memory_order_relaxed) /
                        BATON_NS_PER_S);
    add_format(page, "%s_count", page->family);
    add_labels(page, labels, labels_count, NULL);
    add_format(page, "%llu\n", (unsigned long long)count);
}
