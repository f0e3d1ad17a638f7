/* etcd_state.h -- the two keys that fence a store in etcd, as text.
 *
 *   PREFIX/epoch     {"format":1,"generation":"..","n":"..","cluster":"..","writer":"..","fence":".."}
 *   PREFIX/revision  {"format":1,"revision":"..","writer":"..","write":".."}
 *
 * And the one that says who leads (leader.h), which fences nothing:
 *
 *   PREFIX/leader    {"format":1,"holder":"..","address":"..","count":"..","leaseMs":".."}
 *
 * 'writer' names one opening of a store at random; with 'fence' and 'write', which it counts, each
 * write is told apart from every other: so a write whose answer was lost is found, or not found, by
 * reading.  'cluster' is etcd's id when the epoch was written: another one means that the keys were
 * restored into another cluster.
 *
 * Depends on: controller/core/record.h; jansson inside.  Threads: any.  Ownership: plain data.
 * Errors: DATA_LOSS MALFORMED, FAILED_PRECONDITION INCOMPATIBLE (a later format). */
#ifndef CONTROLLER_STORE_ETCD_STATE_H
#define CONTROLLER_STORE_ETCD_STATE_H

#include "api/base/status.h"
#include "controller/core/record.h"
#include "controller/store/leader.h"

enum { ETCD_WRITER_BYTES = 33, ETCD_STATE_BYTES = 320, ETCD_LEADER_BYTES = 480 };

struct etcd_epoch {
    struct epoch epoch;
    uint64_t cluster;
    uint64_t fence;
    char writer[ETCD_WRITER_BYTES];
};

struct etcd_revision {
    uint64_t revision;
    uint64_t write;
    char writer[ETCD_WRITER_BYTES];
};

void etcd_epoch_format(const struct etcd_epoch *epoch, char out[ETCD_STATE_BYTES]);
void etcd_revision_format(const struct etcd_revision *revision, char out[ETCD_STATE_BYTES]);
BATON_MUST_USE struct baton_status etcd_epoch_parse(const char *text, struct etcd_epoch *out);
BATON_MUST_USE struct baton_status etcd_revision_parse(const char *text, struct etcd_revision *out);

/* 'place' is not part of the text.  The address holds nothing that JSON escapes. */
void etcd_leader_format(const struct leader_record *record, char out[ETCD_LEADER_BYTES]);
BATON_MUST_USE struct baton_status etcd_leader_parse(const char *text, struct leader_record *out);

#endif /* etcd_state.h */
