/* core_fleet.h -- a fleet of played agents around the controller's real core, in one thread and without a store, so that the time of
 * its steps can be measured.
 *
 * Each agent leads 'groups_per_agent' groups of model "m" and does at once what it is told: it lands what it should stage, commits what
 * it gets a ticket for (with a barrier: by the words).  What the core wants stored counts as stored; time stands still but for a
 * microsecond a step, unless only time brings a roll on.
 *
 * Depends on: controller/core.  Threads: one.  Aborts if the core refuses something. */
#ifndef TESTS_BENCH_CORE_FLEET_H
#define TESTS_BENCH_CORE_FLEET_H

#include <stdint.h>

#include "controller/core/event.h"

struct core_fleet;

struct core_fleet_options {
    uint32_t agents;
    uint32_t groups_per_agent;
    struct policy_spec policy;
    uint32_t sessions; /* Of them hold the version before each roll. */
};

/* A fleet whose groups all serve version 1. */
struct core_fleet *core_fleet_make(const struct core_fleet_options *options);
void core_fleet_free(struct core_fleet *fleet);

/* Steps of the core so far. */
uint64_t core_fleet_steps(const struct core_fleet *fleet);

/* Every agent renews its lease once. */
void core_fleet_heartbeat(struct core_fleet *fleet);
/* Every group reports some more landed bytes, twice of which the second is the same. */
void core_fleet_progress(struct core_fleet *fleet);
/* Publishes a version and plays the roll to its end. */
void core_fleet_roll(struct core_fleet *fleet);

#endif /* core_fleet.h */
