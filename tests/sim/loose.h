/* loose.h -- included before everything else in the simulator's own build of the cores: assertions
 * ask sim_assert(), which may let them pass, so that a check is seen to find a fault by itself. */
#ifndef TESTS_SIM_LOOSE_H
#define TESTS_SIM_LOOSE_H

#include "api/base/status.h"

void sim_assert(const char *file, int line, const char *condition);
#undef baton_assert
#define baton_assert(condition) ((condition) ? (void)0 : sim_assert(__FILE__, __LINE__, #condition))

#endif /* loose.h */
