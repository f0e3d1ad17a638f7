/* controller_played.h -- the agents of controller_world.h: what they do with messages.
 *
 * Depends on: controller_world.h.  Ownership: the world's. */
#ifndef TESTS_UNIT_CONTROLLER_PLAYED_H
#define TESTS_UNIT_CONTROLLER_PLAYED_H

#include "tests/unit/controller_world.h"

void played_receive(struct world *world, const struct action_send *send);
void played_closed(struct world *world, const struct action_close *close);
/* An empty report. */
void played_renew(struct world *world, struct played_agent *agent);

#endif /* controller_played.h */
