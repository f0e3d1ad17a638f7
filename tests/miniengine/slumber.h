/* slumber.h -- a rank that gives its memory away, and gets some back.
 *
 * Level 1 keeps the weights aside, level 2 drops them, as vLLM's sleep mode does; the KV cache goes
 * at both.  Asleep there is no set of weights: whatever needs one says so.  After level 2 the set is
 * memory that nobody wrote, and 'resident' is unknown.
 *
 * Depends on: worker.h.  Threads: the rank's own.  Ownership: none. */
#ifndef TESTS_MINIENGINE_SLUMBER_H
#define TESTS_MINIENGINE_SLUMBER_H

#include "tests/miniengine/worker.h"

/* Worker calls "sleep" {"level": 1|2} and "wake_up". */
struct worker_answer slumber_sleep(struct worker *worker, const json_t *kwargs);
struct worker_answer slumber_wake(struct worker *worker, const json_t *kwargs);

/* False, with the reason, while the rank sleeps. */
bool slumber_is_awake(const struct worker *worker, struct trouble *why);

#endif /* slumber.h */
