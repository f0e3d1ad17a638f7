/* prometheus.h -- metrics of canary checks, read from Prometheus.
 *
 * While a step waits for a metric that has a query, the query is asked every 'interval': an instant
 * query over HTTP(S), by a thread of its own, so that the loop never waits for it.  Each has a deadline
 * and a bound on its answer.  What comes of it, a number or why there is none, is posted to the loop and
 * given to the core.  After a query to which nobody answered the rest of the turn is not tried.
 *
 * Depends on: daemon.h, api/http.  Threads: the loop's; prometheus_read() any.  Ownership: the daemon
 * creates and destroys; options are borrowed for as long. */
#ifndef CONTROLLER_SHELL_PROMETHEUS_H
#define CONTROLLER_SHELL_PROMETHEUS_H

#include <stdint.h>

#include "api/base/bytes.h"
#include "api/base/status.h"
#include "api/http/http.h"

struct daemon;
struct prometheus;

struct prometheus_options {
    const char *url; /* Null: there is none, and every query is answered so. */
    uint64_t interval_ns;
    uint64_t deadline_ns; /* Of one query. */
    struct http_tls tls;
};

/* Fails for a URL that cannot be one. */
BATON_MUST_USE struct baton_status prometheus_create(const struct prometheus_options *options,
                                                     struct daemon *daemon,
                                                     struct prometheus **out);
/* Ends what is under way.  Null is fine. */
void prometheus_destroy(struct prometheus *prometheus);

/* When to call prometheus_run() again. */
uint64_t prometheus_deadline_ns(const struct prometheus *prometheus);
/* Hands over what the core, which is there, wants to know now, unless the last turn still lasts. */
void prometheus_run(struct prometheus *prometheus, uint64_t now_ns);

/* The number in an answer of /api/v1/query: a scalar, or a vector of one sample.  Otherwise why there
 * is none, in Prometheus' words where it gave some. */
BATON_MUST_USE struct baton_status prometheus_read(uint32_t code, struct baton_bytes body,
                                                   double *out);

#endif /* prometheus.h */
