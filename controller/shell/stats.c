/* stats.c -- see stats.h. */
#include "controller/shell/stats.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "controller/shell/fleet_stats.h"
#include "controller/shell/routes.h"

enum { CODES = 17 };

/* Of one method. */
struct calls {
    const char *method;
    atomic_uint_fast64_t ended[CODES];
    struct metrics_histogram took; /* Of those that do not stream. */
};

struct stats {
    const struct rates *rates;
    struct fleet_stats *fleet; /* Null: nothing looks at it. */
    const char *certificates[RPC_EXPIRY_FILES_MAX];
    size_t certificates_count;
    size_t methods_count;
    struct calls *calls; /* Sorted by method; the last is of all others. */
    atomic_uint_fast64_t refused[CODES];
    atomic_uint_fast64_t handshakes_told;
    atomic_uint_fast64_t handshakes_silent;
    struct metrics_histogram stored;
    atomic_uint_fast64_t not_stored;
    atomic_bool leads;
    atomic_uint_fast64_t leaderships;
    atomic_uint_fast64_t generation;
    atomic_uint_fast64_t epoch;
};

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct calls *)a)->method, ((const struct calls *)b)->method);
}

struct stats *stats_create(const struct rates *rates)
{
    struct stats *stats = calloc(1, sizeof(*stats));
    baton_assert(stats != NULL);
    stats->rates = rates;
    stats->methods_count = routes_count();
    stats->calls = calloc(stats->methods_count + 1, sizeof(*stats->calls));
    baton_assert(stats->calls != NULL);
    for (size_t i = 0; i < stats->methods_count; i++) {
        stats->calls[i].method = routes_all()[i].method;
    }
    qsort(stats->calls, stats->methods_count, sizeof(*stats->calls), compare);
    stats->calls[stats->methods_count].method = "other";
    return stats;
}

void stats_destroy(struct stats *stats)
{
    if (stats != NULL) {
        free(stats->calls);
        free(stats);
    }
}

void stats_set_fleet(struct stats *stats, struct fleet_stats *fleet)
{
    stats->fleet = fleet;
}

void stats_add_certificate(struct stats *stats, const char *file)
{
    if (file == NULL) {
        return;
    }
    for (size_t i = 0; i < stats->certificates_count; i++) {
        if (strcmp(stats->certificates[i], file) == 0) {
            return;
        }
    }
    baton_assert(stats->certificates_count < RPC_EXPIRY_FILES_MAX);
    stats->certificates[stats->certificates_count++] = file;
}

/* --- counting --- */

static void count(atomic_uint_fast64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static uint64_t look(const atomic_uint_fast64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static unsigned code_index(enum baton_code code)
{
    return (unsigned)code < CODES ? (unsigned)code : (unsigned)BATON_UNKNOWN;
}

void stats_call_ended(struct stats *stats, const char *method, enum baton_code code,
                      uint64_t took_ns)
{
    struct calls key = { .method = method };
    struct calls *calls =
        bsearch(&key, stats->calls, stats->methods_count, sizeof(*stats->calls), compare);
    calls = calls != NULL ? calls : &stats->calls[stats->methods_count];
    count(&calls->ended[code_index(code)]);
    if (took_ns > 0) {
        metrics_observe(&calls->took, took_ns);
    }
}

void stats_refused(struct stats *stats, enum baton_code code)
{
    count(&stats->refused[code_index(code)]);
}

void stats_handshake_refused(struct stats *stats, bool said_why)
{
    count(said_why ? &stats->handshakes_told : &stats->handshakes_silent);
}

void stats_stored(struct stats *stats, uint64_t ns, bool done)
{
    metrics_observe(&stats->stored, ns);
    if (!done) {
        count(&stats->not_stored);
    }
}

void stats_leads(struct stats *stats, bool leads, uint64_t generation, uint64_t epoch)
{
    if (leads) {
        count(&stats->leaderships);
    }
    atomic_store(&stats->leads, leads);
    atomic_store(&stats->generation, generation);
    atomic_store(&stats->epoch, epoch);
}

/* --- the page --- */

static void gauge(struct metrics_page *page, const char *name, const char *help, double value)
{
    metrics_family(page, name, METRICS_GAUGE, help);
    metrics_sample(page, NULL, 0, value);
}

static void counter(struct metrics_page *page, const char *name, const char *help, uint64_t value)
{
    metrics_family(page, name, METRICS_COUNTER, help);
    metrics_sample(page, NULL, 0, (double)value);
}

static void show_certificates(const struct stats *stats, struct metrics_page *page)
{
    metrics_family(page, "baton_certificate_expiration_timestamp_seconds", METRICS_GAUGE,
                   "When a certificate of this daemon ends.");
    for (size_t i = 0; i < stats->certificates_count; i++) {
        const struct metrics_label label = { "file", stats->certificates[i] };
        int64_t seconds = 0;
        struct baton_status st = rpc_certificate_ends(stats->certificates[i], &seconds);
        if (baton_ok(&st)) {
            metrics_sample(page, &label, 1, (double)(time(NULL) + seconds));
        }
    }
}

static void show_calls(const struct stats *stats, struct metrics_page *page)
{
    metrics_family(page, "baton_controller_calls", METRICS_COUNTER,
                   "Calls that ended, streams included, by method and gRPC code.");
    for (size_t i = 0; i <= stats->methods_count; i++) {
        for (unsigned code = 0; code < CODES; code++) {
            uint64_t value = look(&stats->calls[i].ended[code]);
            const struct metrics_label labels[] = { { "method", stats->calls[i].method },
                                                    { "code",
                                                      baton_code_name((enum baton_code)code) } };
            if (value > 0) {
                metrics_sample(page, labels, 2, (double)value);
            }
        }
    }
}

static void show_times(const struct stats *stats, struct metrics_page *page)
{
    metrics_family(page, "baton_controller_call_duration_seconds", METRICS_HISTOGRAM,
                   "Time of calls that do not stream, by method.");
    for (size_t i = 0; i <= stats->methods_count; i++) {
        const struct metrics_label label = { "method", stats->calls[i].method };
        if (metrics_histogram_count(&stats->calls[i].took) > 0) {
            metrics_histogram(page, &label, 1, &stats->calls[i].took);
        }
    }
}

static void show_refusals(const struct stats *stats, struct metrics_page *page)
{
    metrics_family(page, "baton_controller_refusals", METRICS_COUNTER,
                   "Calls that were refused to their caller, by gRPC code; the audit has them.");
    for (unsigned code = 0; code < CODES; code++) {
        const struct metrics_label label = { "code", baton_code_name((enum baton_code)code) };
        if (look(&stats->refused[code]) > 0) {
            metrics_sample(page, &label, 1, (double)look(&stats->refused[code]));
        }
    }
    counter(page, "baton_controller_calls_limited",
            "Calls and streams that were refused because their caller had too many.",
            rates_refused(stats->rates));
}

static void show_handshakes(const struct stats *stats, struct metrics_page *page)
{
    const struct metrics_label refused = { "reason", "refused" };
    const struct metrics_label silent = { "reason", "ended" };
    metrics_family(
        page, "baton_controller_handshake_failures", METRICS_COUNTER,
        "Connections over TLS that came to nothing: refused, or ended before they were done.");
    metrics_sample(page, &refused, 1, (double)look(&stats->handshakes_told));
    metrics_sample(page, &silent, 1, (double)look(&stats->handshakes_silent));
}

void stats_collect(struct metrics_page *page, void *context)
{
    const struct stats *stats = context;
    metrics_build(page, "controller", BATON_VERSION);
    gauge(page, "baton_controller_leader", "1 where this controller leads, else 0.",
          atomic_load(&stats->leads) ? 1 : 0);
    gauge(page, "baton_controller_epoch", "Number of its leadership; 0: it does not lead.",
          (double)look(&stats->epoch));
    gauge(page, "baton_controller_generation", "Generation of its store; 0: it does not lead.",
          (double)look(&stats->generation));
    counter(page, "baton_controller_leaderships", "How often this process began to lead.",
            look(&stats->leaderships));
    show_calls(stats, page);
    show_times(stats, page);
    show_refusals(stats, page);
    show_handshakes(stats, page);
    metrics_family(page, "baton_controller_store_write_duration_seconds", METRICS_HISTOGRAM,
                   "Time of one transaction in the store.");
    metrics_histogram(page, NULL, 0, &stats->stored);
    counter(page, "baton_controller_store_write_failures",
            "Transactions that the store did not take.", look(&stats->not_stored));
    show_certificates(stats, page);
    if (stats->fleet != NULL) {
        fleet_stats_collect(page, stats->fleet);
    }
}
