/* etcd_batch.h -- the operations of a commit, cut into parts that etcd takes.
 *
 * A part is the text of a list of etcd's operations, without its brackets; it has at most 'ops_max' of
 * them, no key twice, and at most 'bytes_max' bytes, of which one operation may take all.  Order is
 * kept.
 *
 * Depends on: etcd_text.h.  Threads: an object belongs to one thread.
 * Ownership: a batch owns its parts; etcd_batch_free(). */
#ifndef CONTROLLER_STORE_ETCD_BATCH_H
#define CONTROLLER_STORE_ETCD_BATCH_H

#include "controller/store/etcd_text.h"

struct etcd_batch {
    uint32_t ops_max;
    size_t bytes_max;
    struct etcd_text *parts;
    size_t parts_count;
    uint64_t *keys; /* Hashes of those in the last part. */
    uint32_t keys_count;
    struct baton_status status; /* The first failure; the steps after it do nothing. */
};

struct etcd_batch etcd_batch_of(uint32_t ops_max, size_t bytes_max);
void etcd_batch_put(struct etcd_batch *batch, const char *key, const char *value);
/* Removes 'key', or with 'end' all from 'key' to before 'end'. */
void etcd_batch_remove(struct etcd_batch *batch, const char *key, const char *end);
void etcd_batch_free(struct etcd_batch *batch);

/* One operation of a part. */
void etcd_op_put(struct etcd_text *text, const char *key, const char *value);
void etcd_op_remove(struct etcd_text *text, const char *key, const char *end);

#endif /* etcd_batch.h */
