/* mailbox.h -- a bounded queue of work for the loop thread; the only thing that threads share.
 *
 * RPC threads put work in, the loop thread takes it out.  A full mailbox refuses, so that a flood
 * becomes RESOURCE_EXHAUSTED at the caller and never memory here.
 *
 * Depends on: api/base, pthread.  Threads: any may post; one takes, and it alone uses
 * baton_mailbox_post_own() and baton_mailbox_next_is().  Ownership: posting gives the argument away; a work item that was refused
 * stays the caller's; what is left at baton_mailbox_destroy() is not run. */
#ifndef BATON_BASE_MAILBOX_H
#define BATON_BASE_MAILBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "api/base/status.h"

struct baton_mailbox;

/* Runs on the loop thread.  'target' is what the loop was given. */
typedef void baton_mailbox_work_fn(void *target, void *argument);

struct baton_mailbox_item {
    baton_mailbox_work_fn *run;
    void *argument;
};

BATON_MUST_USE struct baton_status baton_mailbox_create(uint32_t capacity,
                                                        struct baton_mailbox **out);
void baton_mailbox_destroy(struct baton_mailbox *mailbox);

/* False if the mailbox is full or closed. */
BATON_MUST_USE bool baton_mailbox_post(struct baton_mailbox *mailbox, baton_mailbox_work_fn *run,
                                       void *argument);
/* For what must not get lost (the end of a call, a stop): takes one of the places that baton_mailbox_post()
 * leaves free, and waits for one if there is none. */
void baton_mailbox_post_sure(struct baton_mailbox *mailbox, baton_mailbox_work_fn *run,
                             void *argument);

/* By the taking thread for itself: never waits, since nobody else would make room.  Runs after what is
 * under way, before anything that others posted.  The caller bounds how much it gives itself. */
void baton_mailbox_post_own(struct baton_mailbox *mailbox, baton_mailbox_work_fn *run,
                            void *argument);

/* The next item; waits until 'deadline_ns' (monotonic; UINT64_MAX: for ever).  False: time is up. */
bool baton_mailbox_take(struct baton_mailbox *mailbox, uint64_t deadline_ns,
                        struct baton_mailbox_item *out);

/* How many items others posted so far, and how many of those were taken: all that is in it now has been
 * taken once the second is what the first is now. */
uint64_t baton_mailbox_posted(struct baton_mailbox *mailbox);
uint64_t baton_mailbox_taken(struct baton_mailbox *mailbox);

/* By the taking thread: whether the item that baton_mailbox_take() would give now runs 'run'.  So a taker can do
 * several of one kind at one cost. */
bool baton_mailbox_next_is(struct baton_mailbox *mailbox, baton_mailbox_work_fn *run);

#endif /* mailbox.h */
