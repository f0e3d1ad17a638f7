/* store.h -- where the controller's records are kept.
 *
 * One interface, three backends: "sqlite:PATH" (a file), "etcd:URL,..." (a cluster; etcd_address.h)
 * and "memory:" (lives with the process).  All pass tests/conformance/store_conformance.c.  A store
 * has one writer at a time, fenced by the epoch: a commit names the epoch that it was made under and
 * is refused once a later one was acquired.
 *
 * Not here: what records mean (controller/core), their text form (record_codec.h).
 *
 * Depends on: api/base, controller/core/record.h.  Threads: one at a time for each store.
 * Ownership: the caller closes what it opened; strings and records are borrowed for the call.
 * Errors: UNAVAILABLE STORE_UNAVAILABLE (try again), RESOURCE_EXHAUSTED NO_SPACE (disk or quota full;
 * nothing was changed) or LIMIT, ABORTED STALE_EPOCH (somebody else leads), DATA_LOSS (what is stored
 * is damaged), FAILED_PRECONDITION IN_USE (another process has it) or INCOMPATIBLE (another version's),
 * INVALID_ARGUMENT (bad address), UNAUTHENTICATED, PERMISSION_DENIED, OUT_OF_RANGE COMPACTED (read
 * again).  Every failed commit leaves the store as it was, but for one: DEADLINE_EXCEEDED says that it
 * is not known; with STORE_UNAVAILABLE the next store_acquire_epoch() decides it, with STALE_EPOCH
 * somebody else leads. */
#ifndef CONTROLLER_STORE_STORE_H
#define CONTROLLER_STORE_STORE_H

#include "api/base/status.h"
#include "controller/core/record.h"

struct store;

/* Opens (and creates where missing) the store at 'address'.  'wall_ns' becomes part of the
 * generation of a new store, so that a store that was lost and made again is above its former self.
 */
BATON_MUST_USE struct baton_status store_open(const char *address, uint64_t wall_ns,
                                              struct store **out);

/* The same in two steps, for who has something to do while a server is out of reach.  The first one looks at the address
 * and its files, and asks no server; until the second one said OK, only that and store_close() are for the store.  One call
 * tries each member of etcd once and lasts two seconds at most.  UNAVAILABLE STORE_UNAVAILABLE: out of reach; try again
 * later.  Any other failure stays until somebody sets it right. */
BATON_MUST_USE struct baton_status store_open_unreached(const char *address, uint64_t wall_ns,
                                                        struct store **out);
BATON_MUST_USE struct baton_status store_reach(struct store *store, uint64_t wall_ns);
/* Accepts null. */
void store_close(struct store *store);

/* What store_acquire_epoch() found. */
struct store_start {
    struct epoch epoch;
    uint64_t revision;
    uint64_t log_next_number;
};

/* Opens a store that is there for reading: everything stored as of now, one consistent snapshot until
 * store_close(), whatever its controller commits meanwhile.  Takes no lock and no epoch and writes
 * nothing, so it works beside a running controller.  Only store_scan(), store_load(),
 * store_list_log(), store_revision() and store_close() are for it; the others refuse it.  'out_start'
 * is what an acquired epoch would find, but for n, which is that of the last leadership.
 * NOT_FOUND: there is no store; INVALID_ARGUMENT: "memory:"; OUT_OF_RANGE COMPACTED, also later: etcd
 * has dropped the snapshot. */
BATON_MUST_USE struct baton_status store_open_reader(const char *address, struct store **out,
                                                     struct store_start *out_start);

/* Begins a leadership: n rises by 1 and is durable before this returns.  From now on commits of
 * lower epochs are refused. */
BATON_MUST_USE struct baton_status store_acquire_epoch(struct store *store,
                                                       struct store_start *out);

/* Of one of several controllers: from now on store_acquire_epoch() and store_raise_generation() take effect only while
 * the leader's record (leader.h) names 'holder', compared in their own transaction; else ABORTED NOT_LEADER.  So who lost
 * the leadership while it was in doubt about a write takes nothing back from who won it. */
void store_set_holder(struct store *store, const char *holder);

/* Id of the cluster that the store is in; 0: it is in none. */
uint64_t store_cluster(const struct store *store);

/* Makes the generation higher than 'floor' (and than it was); durable.  Acquire an epoch
 * afterwards. */
BATON_MUST_USE struct baton_status store_raise_generation(struct store *store, uint64_t floor);

/* Gives every record to 'visit', which may stop with a failure of its own.  The record is borrowed
 * for the call.  A record that cannot be decoded ends it with DATA_LOSS, naming record and field;
 * a store whose import was cut off (archive.h), with FAILED_PRECONDITION TRUNCATED.
 * STALE_EPOCH: an epoch was acquired here, and a later one elsewhere since; what was given is of no use.
 */
typedef struct baton_status (*store_visit_fn)(void *context, struct record_ref record);
BATON_MUST_USE struct baton_status store_load(struct store *store, store_visit_fn visit,
                                              void *context);

/* The same, as text and not decoded: what is damaged or unfinished comes along.  By kind's word and
 * key, in the order of their bytes ("memory:": in no order).  Where nobody leads and another process
 * commits, a large commit may be seen by half; a reader never does. */
typedef struct baton_status (*store_visit_text_fn)(void *context, const char *kind, const char *key,
                                                   const char *text);
BATON_MUST_USE struct baton_status store_scan(struct store *store, store_visit_text_fn visit,
                                              void *context);

/* Commits all of it or nothing; see struct transaction for durability. */
BATON_MUST_USE struct baton_status store_commit(struct store *store,
                                                const struct transaction *transaction);

/* Gives the log entries with a number above 'after', oldest first, at most 'limit' of them.  The
 * store keeps the last BATON_EVENTS_KEPT_MAX. */
typedef void (*store_visit_log_fn)(void *context, const struct log_entry *entry);
BATON_MUST_USE struct baton_status store_list_log(struct store *store, uint64_t after,
                                                  uint32_t limit, store_visit_log_fn visit,
                                                  void *context);

/* The store's revision as committed; 0: nothing yet. */
uint64_t store_revision(const struct store *store);

#endif /* store.h */
