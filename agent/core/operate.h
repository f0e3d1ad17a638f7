/* operate.h -- break-glass: what an operator at this node may ask for when nobody else can help.
 *
 * Answered within the step by one OPERATED action (STATUS: by one STATUS action).  No verb passes a
 * check that a ticket would meet: 'resume' is a rejoin ticket of the agent's own making, to the
 * version that its journal committed; 'restore' is the open swap's own way back; 'detach' ends this
 * agent's driving until the group is resumed or the controller grants a higher owner term.  Every
 * verb that is carried out is journaled first, with who asked.
 *
 * Depends on: state.h.  Threads: one.  Ownership: none. */
#ifndef AGENT_CORE_OPERATE_H
#define AGENT_CORE_OPERATE_H

#include "agent/core/state.h"

/* Applies an OPERATE event. */
void operate_on_event(struct agent *agent, const struct agent_operate *operate);
/* In a wait for a rejoin ticket: makes one if an operator asked to resume; true if it was taken. */
bool operate_rejoin(struct agent *agent, struct group *group);
/* The wait of a detached group: left alone until the owner term rises. */
phase_fn operate_detached_wait;

#endif /* operate.h */
