/* gate.h -- the guard of an engine, as it answers over HTTP: what all guarded adapters share.
 *
 * The page is written through guard.h; here is read back what the guard made of it.
 *
 * Depends on: exchange.h, guard.h, answer.h.  Threads and ownership: the exchange's. */
#ifndef AGENT_ENGINE_GATE_H
#define AGENT_ENGINE_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/engine/engine.h"
#include "agent/engine/exchange.h"
#include "agent/engine/guard.h"
#include "api/base/status.h"

/* GET /baton/guard as the guard reads it. */
BATON_MUST_USE struct baton_status gate_read(struct exchange *exchange, uint64_t deadline_ns,
                                             struct engine_gate_state *out);

/* Writes the order into the page and compares it with what the guard then reads.  UNIMPLEMENTED without
 * a page ('guard' is null). */
BATON_MUST_USE struct baton_status gate_set(struct exchange *exchange, struct engine_guard *guard,
                                            const struct engine_gate_order *order,
                                            uint64_t deadline_ns, struct engine_gate_state *out);

/* Looks for the guard at attach: fills gate, boots, salt, incarnation and 'guarded' of 'facts'.  A guard
 * of another page than ours, and one that refuses the token, are a reason against any way in; an engine
 * that answers without a guard is not guarded.  Fails only where nothing answered. */
BATON_MUST_USE struct baton_status gate_find(struct exchange *exchange, struct engine_guard *guard,
                                             const char *page, uint64_t deadline_ns,
                                             struct engine_facts *facts);

/* Nobody who passed the guard is left inside, by the deadline; 'state' is what it answered last. */
BATON_MUST_USE struct baton_status gate_empty(struct exchange *exchange,
                                              struct engine_gate_state *state,
                                              uint64_t deadline_ns);

#endif /* gate.h */
