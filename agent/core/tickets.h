/* tickets.h -- which permissions are taken, and which are refused for good.
 *
 * Depends on: state.h.  Threads: one.  Ownership: none. */
#ifndef AGENT_CORE_TICKETS_H
#define AGENT_CORE_TICKETS_H

#include "agent/core/state.h"

/* Applies a TICKET event: a known one is answered by its outcome, a stale or hopeless one by a
 * durable REFUSE, another one is offered to the group. */
void tickets_on_ticket(struct agent *agent, const struct agent_ticket *ticket);

/* Applies a REVOKE event: honoured only for a ticket that was not accepted. */
void tickets_on_revoke(struct agent *agent, const char *group, const char *ticket_uid,
                       struct agent_epoch epoch);

/* Applies an OUTCOME_STORED event. */
void tickets_on_stored(struct agent *agent, const char *group, const char *ticket_uid);

/* The group can decide on what it was offered: accepts or refuses; true if it accepted. */
bool tickets_consider(struct agent *agent, struct group *group);

/* Refuses what the group was offered. */
void tickets_refuse_offer(struct agent *agent, struct group *group, const char *why);

/* True if the bytes of 'version' can be put back into every engine (rule 7): landed, or the boot
 * checkpoint of each. */
bool tickets_can_restore(const struct agent *agent, const struct group *group,
                         const struct agent_version *version);

#endif /* tickets.h */
