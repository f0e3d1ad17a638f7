/* metrics.h -- numbers for Prometheus, over HTTP: OpenMetrics, or the older text format for who does not ask for it.
 *
 * At each GET of /metrics a function of the daemon writes its families, one after the other, into a page.  Counters and
 * histograms live where they are counted; here is only how they are shown, and the histogram.  Names follow Prometheus'
 * conventions: baton_DAEMON_THING_UNIT in base units (seconds, bytes); a counter's family is named without its "_total".
 *
 * Depends on: api/base, api/web.  Threads: 'collect' runs on the server's thread, one call at a time, and must not
 * wait for anything; metrics_observe() may be called from any thread; the rest belongs to the owner.
 * Ownership: the owner creates and destroys; pages live during 'collect'. */
#ifndef BATON_METRICS_METRICS_H
#define BATON_METRICS_METRICS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/status.h"

struct metrics;
struct metrics_page;

typedef void metrics_collect_fn(struct metrics_page *page, void *context);

struct metrics_options {
    const char *
        listen; /* "127.0.0.1:9470", "[::1]:9470"; an address, not a name; port 0 picks a free one. */
    metrics_collect_fn *collect;
    void *context;
};

/* Serves until destroyed.  INVALID_ARGUMENT for what is no address, FAILED_PRECONDITION IN_USE for a taken one. */
BATON_MUST_USE struct baton_status metrics_create(const struct metrics_options *options,
                                                  struct metrics **out);
uint16_t metrics_port(const struct metrics *metrics);
void metrics_destroy(struct metrics *metrics); /* Null is fine. */

/* --- pages --- */

enum metrics_type { METRICS_GAUGE, METRICS_COUNTER, METRICS_HISTOGRAM, METRICS_INFO };

struct metrics_label {
    const char *name;
    const char *value; /* Any text: it is escaped. */
};

/* Begins a family; what follows is of it.  'help' is a sentence. */
void metrics_family(struct metrics_page *page, const char *name, enum metrics_type type,
                    const char *help);
/* One sample of the family; of an info the value is 1. */
void metrics_sample(struct metrics_page *page, const struct metrics_label *labels,
                    size_t labels_count, double value);
/* The family baton_build: what runs. */
void metrics_build(struct metrics_page *page, const char *daemon, const char *version);

/* --- histograms of seconds --- */

enum { METRICS_BUCKETS = 16 };

/* All zero is empty. */
struct metrics_histogram {
    atomic_uint_fast64_t
        buckets[METRICS_BUCKETS + 1]; /* Not summed up; the last is beyond all bounds. */
    atomic_uint_fast64_t sum_ns;
};

void metrics_observe(struct metrics_histogram *histogram, uint64_t ns);
/* The samples of one histogram of the family, with these labels. */
void metrics_histogram(struct metrics_page *page, const struct metrics_label *labels,
                       size_t labels_count, const struct metrics_histogram *histogram);
/* What it has seen so far. */
uint64_t metrics_histogram_count(const struct metrics_histogram *histogram);

#endif /* metrics.h */
