/* stats.h -- what the controller counts about itself, and how its metrics page shows it (api/metrics).
 *
 * To add a number: a member here, its count where it happens, a family in stats.c, a row in deploy/docs/metrics.md.
 *
 * Depends on: api/metrics, api/rpc, rates.h.  Threads: any, but for create and destroy.  Ownership: the daemon's. */
#ifndef CONTROLLER_SHELL_STATS_H
#define CONTROLLER_SHELL_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "api/metrics/metrics.h"
#include "api/rpc/rpc.h"
#include "controller/shell/rates.h"

struct stats;

/* 'rates' must outlive it. */
struct stats *stats_create(const struct rates *rates);
void stats_destroy(struct stats *stats); /* Null is fine. */

struct fleet_stats;
/* Before the first page; must outlive it. */
void stats_set_fleet(struct stats *stats, struct fleet_stats *fleet);

/* A certificate file whose end is shown; at most RPC_EXPIRY_FILES_MAX, before the first page. */
void stats_add_certificate(struct stats *stats, const char *file);

/* 'took_ns' 0: it streamed, and its time says nothing. */
void stats_call_ended(struct stats *stats, const char *method, enum baton_code code,
                      uint64_t took_ns);
/* A refusal that the audit was told, written there or not. */
void stats_refused(struct stats *stats, enum baton_code code);
/* A connection that ended before it was ready for calls; 'said_why': for a reason that is known. */
void stats_handshake_refused(struct stats *stats, bool said_why);
void stats_stored(struct stats *stats, uint64_t ns, bool done);
/* Whether this controller leads, and since when: zeros where it does not. */
void stats_leads(struct stats *stats, bool leads, uint64_t generation, uint64_t epoch);

/* The page; 'context' is the stats.  The fleet's numbers, if it has them, come behind. */
void stats_collect(struct metrics_page *page, void *context);

#endif /* stats.h */
