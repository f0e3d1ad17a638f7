/* holders.h -- whom an agent may pull a version from.
 *
 * Depends on: core.h.  Threads, ownership: as core.h. */
#ifndef CONTROLLER_CORE_HOLDERS_H
#define CONTROLLER_CORE_HOLDERS_H

#include "controller/core/core.h"

/* Gives the agent its place in the line; 'zone' null: none. */
void holders_place(struct controller *core, struct agent *agent, const char *zone);
/* Whom the agent may pull the version from, in the order in which it should ask; none if it has it. */
void holders_of(const struct controller *core, const struct agent *agent,
                const struct version *version, struct holders *out);
/* How the version would come to the agent if it were rolled, and why so, in words. */
void holders_explain(const struct controller *core, const struct agent *agent,
                     const struct version *version, char out[BATON_TEXT_BYTES]);
/* An agent that serves peers is there: others may pull from it now. */
void holders_note(struct controller *core, const struct agent *agent);

#endif /* holders.h */
