/* backoff.h -- how long to wait before the next try: doubling, capped, with jitter.
 *
 * Pure: time and randomness are arguments.  Full jitter in the upper half of the step, so that a
 * fleet that lost its controller does not come back in one instant.
 *
 * Depends on: random.h.  Threads: an object belongs to one thread.  Ownership: none. */
#ifndef BATON_BASE_BACKOFF_H
#define BATON_BASE_BACKOFF_H

#include <stdint.h>

struct baton_random;

struct baton_backoff {
    uint64_t first_ns;
    uint64_t max_ns;
    uint32_t failures; /* Since the last success. */
};

struct baton_backoff baton_backoff_of(uint64_t first_ns, uint64_t max_ns);
/* Notes a failure and returns how long to wait: within [step / 2, step], step = first * 2^n, capped. */
uint64_t baton_backoff_next_ns(struct baton_backoff *backoff, struct baton_random *random);
/* Notes a success. */
void baton_backoff_reset(struct baton_backoff *backoff);

#endif /* backoff.h */
