/* follow.h -- a copy of a store in etcd, kept near by a watch: for a controller that stands by.
 *
 * A thread lists the store once, at one revision of etcd, and watches all its keys from there: first one
 * member, another one when that ends, lags or says nothing.  After a compaction it lists anew.  A commit is
 * in the copy whole or not at all.
 *
 * A watch that says nothing may be one that nobody serves.  So every second the store's revision is asked
 * for by a read that needs a majority of etcd's members: what the copy had, or got later, of that revision
 * is how the store was when the read was sent, for sure.  That time is 'confirmed'.  Progress notifications
 * only move the place where a watch begins anew (etcd below 3.4.25 sends those that are asked for before
 * events that they claim to follow).
 *
 * Depends on: store.h; etcd_*.h inside.  Threads: functions from any thread; one thread of its own.
 * Ownership: open and close.  Errors: those of an address (store.h). */
#ifndef CONTROLLER_STORE_FOLLOW_H
#define CONTROLLER_STORE_FOLLOW_H

#include "controller/store/store.h"

struct store_follower;

struct store_copy {
    bool whole; /* There is one, and no commit is applied by half. */
    struct epoch epoch;
    uint64_t revision; /* The store's. */
    uint64_t log_next_number;
    uint64_t changes;            /* Another number, another content. */
    uint64_t lists;              /* How often the store was read in whole. */
    uint64_t confirmed_ns;       /* Monotonic; 0: never. */
    struct baton_status problem; /* Why it is not confirmed at present; OK: it is. */
};

/* 'address' as store_open()'s, of a store in etcd; another cluster than 'cluster' (store_cluster()) is not
 * believed; 0: than the first that answers. */
BATON_MUST_USE struct baton_status store_follower_open(const char *address, uint64_t cluster,
                                                       struct store_follower **out);
BATON_MUST_USE struct baton_status store_follower_start(struct store_follower *follower);
/* Begins, or ends and forgets the copy; returns at once. */
void store_follower_set(struct store_follower *follower, bool on);
void store_follower_look(struct store_follower *follower, struct store_copy *out);
/* Gives every record of the copy that 'out' describes, as store_load() does.  UNAVAILABLE
 * STORE_UNAVAILABLE: there is no whole one. */
BATON_MUST_USE struct baton_status store_follower_load(struct store_follower *follower,
                                                       store_visit_fn visit, void *context,
                                                       struct store_copy *out);
/* Waits for the thread, three seconds at most.  Accepts null. */
void store_follower_close(struct store_follower *follower);

#endif /* follow.h */
