/* check.h -- the invariants of design 3, as far as a core can know them, asserted after each step.
 *
 * Depends on: state.h.  Threads: one.  Ownership: none. */
#ifndef AGENT_CORE_CHECK_H
#define AGENT_CORE_CHECK_H

#include "agent/core/state.h"

/* What must not have gone back; taken before a step. */
struct check_before {
    struct agent_epoch epoch;
    uint64_t highest_tickets[BATON_GROUPS_PER_AGENT_MAX];
    uint64_t owner_terms[BATON_GROUPS_PER_AGENT_MAX];
};

struct check_before check_begin(const struct agent *agent);

/* Aborts with the condition that does not hold. */
void check_end(const struct agent *agent, const struct check_before *before);

#endif /* check.h */
