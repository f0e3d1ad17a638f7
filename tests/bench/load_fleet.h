/* load_fleet.h -- many played agents, each with a connection of its own, and readers of watches.
 *
 * Depends on: load_agent.h.  Threads: all functions on one; the agents' run on RPC threads and on one of the fleet's own. */
#ifndef TESTS_BENCH_LOAD_FLEET_H
#define TESTS_BENCH_LOAD_FLEET_H

#include "tests/bench/load_agent.h"

struct load_fleet;

struct load_fleet *load_fleet_create(const char *target, uint32_t agents,
                                     const struct load_shape *shape);
void load_fleet_destroy(struct load_fleet *fleet);

uint32_t load_fleet_count(const struct load_fleet *fleet);
struct load_agent *load_fleet_agent(struct load_fleet *fleet, uint32_t place);

/* Agents whose gate is open at 'seq'. */
uint32_t load_fleet_serving(const struct load_fleet *fleet, uint64_t seq);
/* Agents that were greeted at least 'welcomes' times. */
uint32_t load_fleet_welcomed(const struct load_fleet *fleet, uint64_t welcomes);

/* --- watches --- */

struct load_watches;

/* 'count' readers of the rolls of model "m". */
struct load_watches *load_watches_open(const char *target, uint32_t count);
void load_watches_close(struct load_watches *watches);
/* Readers that saw the roll to 'seq' completed; those that were cut; messages so far. */
uint32_t load_watches_done(const struct load_watches *watches, uint64_t seq);
uint32_t load_watches_cut(const struct load_watches *watches);
uint64_t load_watches_messages(const struct load_watches *watches);
/* Readers that heard their first bookmark. */
uint32_t load_watches_ready(const struct load_watches *watches);

#endif /* load_fleet.h */
