/* etcd_store.h -- inside of the etcd backend: its state, and the fenced write that all changes use.
 *
 * Keys under the address's prefix:
 *   epoch, revision           etcd_state.h
 *   records/KIND/KEY          one record each (record_codec.h)
 *   log/NUMBER                events, one a line; NUMBER (20 digits) is that of the last line
 *   redo                      a large commit that is decided and not wholly applied: the name of its
 *                             parts, how many there are, which one is next
 *   parts/NAME/PLACE          those parts: lists of etcd's operations
 *
 * A commit that fits into one request is one transaction of etcd.  A larger one is written as parts
 * first; then one transaction puts the revision and 'redo': that decides it.  Then one part after the
 * other is applied, each by a transaction that compares 'redo' and steps it on; the last one removes
 * 'redo' and the parts of this commit.  Whoever acquires the epoch applies what is decided before it
 * reads; parts without 'redo' are garbage.  So a commit is seen whole or not at all.
 *
 * Every transaction compares the epoch key (its mod revision and its value) and the revision key's mod
 * revision.  So nothing of a deposed leader takes effect, however late; and of the present leader
 * nothing that was overtaken by a later commit.  Until that is decided, late duplicates pass: they
 * find another 'redo', or only touch parts under a name that is not used any more.
 *
 * Depends on: etcd_client.h, etcd_state.h.  Threads, ownership: as store.h. */
#ifndef CONTROLLER_STORE_ETCD_STORE_H
#define CONTROLLER_STORE_ETCD_STORE_H

#include "controller/store/backend.h"
#include "controller/store/etcd_client.h"
#include "controller/store/etcd_state.h"
#include "controller/store/etcd_text.h"

enum { ETCD_KEY_BYTES = 448 };

struct etcd_store {
    struct store base;
    struct etcd_address address;
    struct etcd_client *client;
    uint64_t wall_ns;
    char writer[ETCD_WRITER_BYTES]; /* Of this opening. */
    char holder
        [LEADER_HOLDER_BYTES]; /* The leadership that epochs are acquired under; empty: none. */
    uint64_t count;            /* Of fences and writes of this writer. */
    bool leads;                /* The epoch key was written by us, and nothing is in doubt since. */
    bool redo; /* A commit is decided and perhaps not applied, or parts of another lie about. */
    struct etcd_epoch epoch;
    uint64_t epoch_mod;
    uint64_t revision;
    uint64_t revision_mod;
    uint64_t log_next_number; /* 0: not known. */
    uint64_t snapshot;        /* Revision of etcd that a reader reads at; 0: of no reader. */
    uint64_t end_ns; /* Of the operation under way: it begins no further request after it. */
};

/* What the fencing keys hold now. */
struct etcd_found {
    bool exists; /* There is a store under the prefix. */
    struct etcd_epoch epoch;
    uint64_t epoch_mod;
    struct etcd_revision revision;
    uint64_t revision_mod;
    bool redo;
    bool parts;  /* There are some. */
    uint64_t at; /* Revision of etcd. */
    uint64_t log_last;
    uint64_t leader_mod; /* Of the leader's record; it is read where the store has a holder. */
    char holder[LEADER_HOLDER_BYTES];
};

/* An operation begins: all that it takes ends within ETCD_STORE_OPERATION_TRIES times timeoutMs, and
 * each request within timeoutMs. */
enum { ETCD_STORE_OPERATION_TRIES = 8 };
void etcd_begin(struct etcd_store *store);
/* Until when a request that begins now may last; monotonic. */
uint64_t etcd_deadline_ns(const struct etcd_store *store);

void etcd_key(const struct etcd_store *store, const char *name, char out[ETCD_KEY_BYTES]);

/* Reads the fencing keys, and what else lies about. */
BATON_MUST_USE struct baton_status etcd_find(struct etcd_store *store, uint64_t deadline_ns,
                                             struct etcd_found *out);

/* The client only; 'out' is also set on failure, unless there was no memory. */
BATON_MUST_USE struct baton_status etcd_open_client(const char *address, struct etcd_store **out);
/* Reads at the present revision of etcd from now on, once no large commit is applied by half. */
BATON_MUST_USE struct baton_status etcd_take_snapshot(struct etcd_store *store,
                                                      struct store_start *out);
/* The fencing keys are gone. */
BATON_MUST_USE struct baton_status etcd_gone(const struct etcd_store *store);

/* Adds '{"request_range":...}'; 'more' is what else the range says, e.g. ",\"limit\":\"1\"". */
void etcd_op_range(struct etcd_text *text, const char *key, const char *end, const char *more);

/* Sends one transaction, "kv/txn"; takes over 'body'. */
BATON_MUST_USE struct baton_status etcd_txn(struct etcd_store *store, enum etcd_call_kind kind,
                                            struct etcd_text *body, uint64_t deadline_ns,
                                            struct etcd_answer *out);

/* A write that changes the revision key to 'revision' (the store's commits): done exactly once or not
 * at all.  When its answer is lost, it is withdrawn by changing the epoch key under the same
 * comparisons, which either shows that it was done or makes sure that it never will be; then it is
 * tried again.  DEADLINE_EXCEEDED STORE_UNAVAILABLE: it could not be found out; the store is not led
 * any more.  UNAVAILABLE: surely not done.  ABORTED STALE_EPOCH: somebody else leads;
 * DEADLINE_EXCEEDED STALE_EPOCH: and its commits hide whether this one came before them. */
BATON_MUST_USE struct baton_status etcd_write_revision(struct etcd_store *store, const char *ops,
                                                       uint64_t revision);

/* A write that is fenced alike, and tried until it is done or time is up.  It may be done twice, unless
 * 'redo' (or null) is given: what the key 'redo' holds until then, and what 'ops' change. */
BATON_MUST_USE struct baton_status etcd_write_again(struct etcd_store *store, const char *ops,
                                                    const char *redo);

/* Applies a commit that is decided, removes parts of those that were not, where there are some ('redo').
 * When time is up it has come further all the same, and the next call goes on from there. */
BATON_MUST_USE struct baton_status etcd_redo_finish(struct etcd_store *store);
/* Writes the parts, decides, applies.  OK: it is decided; what could not be applied in time, the next
 * operation does first. */
struct etcd_batch;
BATON_MUST_USE struct baton_status etcd_redo_commit(struct etcd_store *store,
                                                    const struct etcd_batch *batch,
                                                    uint64_t revision);

#endif /* etcd_store.h */
