/* mutants.h -- deliberate protocol faults of the cores (api/base/mutant.h) and the checks that find
 * them. */
#ifndef TESTS_SIM_MUTANTS_H
#define TESTS_SIM_MUTANTS_H

#include <stdint.h>

/* Lets worlds of the seeds run with each fault, with the one check alone that must find it.  Prints
 * a line for each; 0 if all were found.  'only': names of some; null: all.  Without mutants in this build: says so, 2. */
int mutants_hunt(const char *only, uint64_t first, uint64_t last, uint32_t jobs);

/* An assertion of a core failed, in the build with mutants: ends the world, or passes. */
void sim_assert(const char *file, int line, const char *condition);

#endif /* mutants.h */
