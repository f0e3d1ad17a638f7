/* agent.h -- the decision core of the node agent.
 *
 * What happened goes in as an event; what to do comes out as a list of actions.  The core performs
 * no I/O, reads no clock, starts no thread and allocates nothing after agent_init(): time comes
 * with the events and randomness from the seed, so equal events give equal actions.
 *
 * It coordinates the swaps of its groups by itself once it holds their tickets (design 3): the
 * states are the table in phase.c, the durable facts are ledger.h, their order on disk is rule 1. 
 * It never knows how an engine, a transport or a controller is reached.
 *
 * Start: one RECOVERED for each record of the journal (a new journal's INCARNATION included), one
 * LANDING DONE for each landed version, one ENGINE_EXITED for each EXEC engine without a process,
 * then STARTED.
 *
 * Depends on: api/base.  Called by: agent/shell (production), tests.
 * Threads: one caller at a time.
 * Ownership: the caller owns the memory given to agent_init() and every event; the actions belong
 * to the core and stay valid until the next agent_step(). */
#ifndef AGENT_CORE_AGENT_H
#define AGENT_CORE_AGENT_H

#include "agent/core/action.h"
#include "agent/core/config.h"
#include "agent/core/event.h"

struct agent;

/* Bytes that agent_init() needs for this configuration. */
size_t agent_size(const struct agent_config *config);

/* Builds a core inside 'memory', which must hold agent_size(config) bytes and be aligned for
 * max_align_t.  'config' must have passed agent_config_check(); it is copied.  'seed' starts the
 * core's own random numbers (jitter of waits). */
struct agent *agent_init(void *memory, const struct agent_config *config, uint64_t seed);

/* Applies one event and returns what must now be done.  Cannot fail: what is refused (a stale
 * epoch, an unknown group) is answered by an action or a line of log. */
struct agent_actions agent_step(struct agent *agent, const struct agent_event *event);

/* When to deliver a TIMER event if nothing else happens before; UINT64_MAX: never. */
uint64_t agent_deadline_ns(const struct agent *agent);

/* Enumerates the records that rebuild the durable state in an empty journal, for compaction:
 * writes the index-th into 'out', false past the last.  The state is the one after the last
 * agent_step(), so compact only after all its actions are performed. */
bool agent_snapshot(const struct agent *agent, uint32_t index, struct journal_record *out);

/* How many swaps are open; 0: the journal needs no reserve now. */
uint32_t agent_open_swaps(const struct agent *agent);

#endif /* agent.h */
