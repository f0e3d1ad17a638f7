/* sim.h -- what the program offers besides running seeds: shrinking, small worlds, mutants.
 *
 * Depends on: world.h.  Ownership: none. */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include "tests/sim/world.h"

/* Leaves out what a failing seed does not need to fail in the same way; 'mask' has the rest.  How
 * many disturbances are left; 0: it does not fail. */
uint32_t shrink(struct world *world, uint64_t seed, bool mask[SIM_FATES]);
/* Runs a seed and tells it; a failing one without what it does not need, unless 'whole'. */
bool shrink_tell(struct world *world, uint64_t seed, bool whole, FILE *out);

/* A worker's part of many runs. */
struct share {
    uint32_t job;
    uint32_t jobs;
    FILE *out;
};

/* Runs the small worlds of this share; how many failed.  '*runs' counts them. */
uint32_t exhaust(struct world *world, const struct share *share, uint64_t *runs);

/* Prints what one crash comes to: for each daemon the outcomes of all swaps, as the controller logs
 * them, over all small worlds in which it dies once while a version is rolled out; "agent COMMITTED
 * OUT".  tests/chaos holds real fleets to it.  How many of these worlds failed. */
uint32_t predict(struct world *world, FILE *out);

#endif /* sim.h */
