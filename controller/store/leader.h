/* leader.h -- the record that says which controller leads, kept beside the store's records.
 *
 * It is written by whoever leads, again and again, and read by those who wait to take over.  Each write
 * names the place of the record that it replaces, so two writers never both succeed.  It does not fence:
 * store_acquire_epoch() does; neither the store's revision nor its epoch changes with it.  It has a
 * connection of its own, so a slow commit delays no renewal.  Who leads by it, and when:
 * controller/shell/election.h.
 *
 * Only in etcd: the file of "sqlite:" has one process anyway (state_lock.h), "memory:" lives in one.
 *
 * Depends on: api/base.  Threads: one at a time for each.  Ownership: open and close; an open one
 * borrows nothing.
 * Errors: UNAVAILABLE STORE_UNAVAILABLE (surely not done), DEADLINE_EXCEEDED STORE_UNAVAILABLE (of a
 * write: it may have been done, now or later), DATA_LOSS or FAILED_PRECONDITION INCOMPATIBLE (what is
 * there was not written by this program), and those of an address (store.h). */
#ifndef CONTROLLER_STORE_LEADER_H
#define CONTROLLER_STORE_LEADER_H

#include <stdint.h>

#include "api/base/status.h"

enum { LEADER_HOLDER_BYTES = 33, LEADER_ADDRESS_BYTES = 272 };

struct leader_record {
    char holder
        [LEADER_HOLDER_BYTES]; /* One life of a controller, hexadecimal; empty: nobody leads. */
    char address[LEADER_ADDRESS_BYTES]; /* Where callers reach it. */
    uint64_t count;                     /* Of this holder's writes: tells them apart. */
    uint64_t lease_ms;                  /* How long nobody else takes over after it. */
    uint64_t place; /* The store's: another one after each write; 0: there is no record yet. */
};

struct leader_store;

/* 'address' as store_open()'s, of a store in etcd.  One try at one member lasts at most 'try_ms'; after a late answer or none,
 * until the call's deadline (is_late() in etcd_client.c). */
BATON_MUST_USE struct baton_status leader_store_open(const char *address, uint32_t try_ms,
                                                     struct leader_store **out);
/* Believes answers of this cluster of etcd only (store_cluster()): who leads is decided where the records are. */
void leader_store_pin(struct leader_store *store, uint64_t cluster);
/* Accepts null. */
void leader_store_close(struct leader_store *store);

BATON_MUST_USE struct baton_status leader_store_read(struct leader_store *store,
                                                     uint64_t deadline_ns,
                                                     struct leader_record *out);
/* Replaces the record at 'next->place' by 'next'.  OK: out->place is the new place.  ABORTED
 * STALE_REVISION: another record is there, and it is in 'out'. */
BATON_MUST_USE struct baton_status leader_store_write(struct leader_store *store,
                                                      const struct leader_record *next,
                                                      uint64_t deadline_ns,
                                                      struct leader_record *out);

#endif /* leader.h */
