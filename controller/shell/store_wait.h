/* store_wait.h -- the thread that tries to reach the store, for one of several controllers that starts without it.
 *
 * It tries again and again, at growing distances, until the store answers or says what no waiting mends.  Meanwhile the
 * store is this thread's.
 *
 * Depends on: controller/store/store.h.  Threads: functions from any thread; one thread of its own.
 * Ownership: open and close; the store is borrowed and outlives it. */
#ifndef CONTROLLER_SHELL_STORE_WAIT_H
#define CONTROLLER_SHELL_STORE_WAIT_H

#include <stdbool.h>

#include "controller/store/store.h"

struct store_wait;

/* 'ended' is told on the thread, once, that it has ended by itself. */
struct store_wait *store_wait_open(struct store *store, void (*ended)(void *context),
                                   void *context);
BATON_MUST_USE struct baton_status store_wait_start(struct store_wait *wait);
/* True: it has ended by itself, and 'out' says how: OK is reached. */
bool store_wait_ended(struct store_wait *wait, struct baton_status *out);
/* Returns at once; it ends by itself no more. */
void store_wait_stop(struct store_wait *wait);
/* Stops and waits for the thread, two seconds at most.  Accepts null. */
void store_wait_close(struct store_wait *wait);

/* Of store_reach(): it may come to something later. */
bool store_wait_helps(const struct baton_status *status);

#endif /* store_wait.h */
