/* fleet_stats.h -- what the fleet is like, in numbers for the metrics page (api/metrics).
 *
 * The loop looks through the core every few seconds and leaves numbers, by model and by things of which there are few; the page
 * shows the last ones, so that whoever asks for it never waits for the loop, nor the loop for them.  Without a core (it does not
 * lead) there are none, or 0.  Swaps are counted that end while it has one: not those of before, nor another leader's.
 *
 * To add a number: a member, its count, a family in fleet_stats_collect(), a row in deploy/docs/metrics.md.
 *
 * Depends on: controller/core, api/metrics.  Threads: fleet_stats_collect() any, the rest the loop's.  Ownership: the daemon's. */
#ifndef CONTROLLER_SHELL_FLEET_STATS_H
#define CONTROLLER_SHELL_FLEET_STATS_H

#include <stdint.h>

#include "api/metrics/metrics.h"

struct controller;
struct fleet_stats;

struct fleet_stats *fleet_stats_create(void);
void fleet_stats_destroy(struct fleet_stats *stats); /* Null is fine. */

/* When fleet_stats_run() has something to do. */
uint64_t fleet_stats_deadline_ns(const struct fleet_stats *stats);
/* Looks, if it is time; 'core' null: forgets what it saw. */
void fleet_stats_run(struct fleet_stats *stats, const struct controller *core, uint64_t now_ns);

/* Its families; 'context' is the fleet_stats. */
void fleet_stats_collect(struct metrics_page *page, void *context);

#endif /* fleet_stats.h */
