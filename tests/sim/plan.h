/* plan.h -- the disturbances of a world: drawn from its seed beforehand, so that each can be left out.
 *
 * Depends on: world.h.  Ownership: none. */
#ifndef TESTS_SIM_PLAN_H
#define TESTS_SIM_PLAN_H

#include "tests/sim/world.h"

/* Draws the plan of this world's storm. */
void plan_draw(struct world *world);
/* The fate happens. */
void plan_strike(struct world *world, uint32_t place);
/* Ends all that still disturbs. */
void plan_calm(struct world *world);
/* What a fate is called, and how many kinds there are. */
const char *plan_name(uint32_t kind);
uint32_t plan_kinds(void);
/* The kind of this name; plan_kinds() if there is none. */
uint32_t plan_find(const char *name);

#endif /* plan.h */
