/* publish.h -- from two checkpoint directories to a delta version in a publication directory.
 *
 * Both are read in one pass, tensor by tensor in pieces, so memory is that of one shard of frames,
 * and of one frame a thread.  The number of threads changes nothing in what is written.
 *
 * The version appears whole or not at all (staging.h), also for readers that know only the files
 * of the format.  Refused: tensors that are not the same by name, dtype and shape, and other files
 * (config, tokenizer) that differ, since a delta carries changed bytes of tensors and nothing
 * else; a base that is not what the version before gives, where that one tells
 * (DELTA_DIGESTS_NAME); a base whose .weight_sync says another version than the one before, or a
 * next whose says another than the version (without that folder any directory is taken); either
 * while a reader changes it or if one left it half changed.
 *
 * Depends on: chain.h, encoder.h, pool.h, staging.h, checkpoint.h, manifest.h.  Does I/O: not
 * for cores.  Threads: calls for different versions may run at once; each ends the threads that it
 * started.  Ownership: none. */
#ifndef TRANSPORT_DELTA_PUBLISH_H
#define TRANSPORT_DELTA_PUBLISH_H

#include "api/base/status.h"
#include "transport/delta/index.h"

struct delta_publish_options {
    const char *publication; /* Exists. */
    const char *base_dir;    /* Checkpoint of version - 1. */
    const char *next_dir;    /* Checkpoint of the version. */
    uint64_t version;        /* At least 1. */
    enum delta_encoding encoding;
    enum delta_checksum checksum;
    uint64_t shard_bytes_max; /* Frames of a shard before the next begins; 0: 1 GiB. */
    unsigned threads;         /* At most DELTA_THREADS_MAX; 0: one, the caller's own. */
};

struct delta_published {
    uint64_t tensors_count;
    uint64_t changed_tensors;
    uint64_t bytes; /* Of all tensors. */
    uint64_t changed_bytes;
    uint64_t delta_bytes; /* Of all frames. */
    unsigned shards_count;
    struct delta_digests digests;
};

/* ALREADY_EXISTS: the version is there.  INCOMPATIBLE: no delta can lead from base to next. */
BATON_MUST_USE struct baton_status delta_publish(const struct delta_publish_options *options,
                                                 struct delta_published *out);

#endif /* publish.h */
