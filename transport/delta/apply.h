/* apply.h -- from a checkpoint and the deltas of a publication to a new checkpoint directory.
 *
 * The current checkpoint is only read.  Tensors go through all deltas of the way in one pass,
 * piece by piece, into a second directory; every version's checksums are checked, and the digest
 * of the whole where the publisher wrote one (DELTA_DIGESTS_NAME), which covers also what no delta
 * touches.  Only when all of it matches does the new directory appear, in one rename (staging.h).
 * It has the shards, index and other files of its start (the checkpoint, or a full version on the
 * way), and says its version as the format's readers do, who can go on from it.  Memory, for each
 * thread and each version of the chain: the frame of one tensor, and twice its window: some MiB for
 * our frames, up to 256 MiB for foreign ones (decoder.h).  Nothing bounds the sum but the number of
 * threads and DELTA_CHAIN_MAX.
 *
 * Depends on: chain.h, decoder.h, pool.h, staging.h, tensor_input.h.  Does I/O: not for cores.
 * Threads: calls may run at once; each ends the threads that it started.  Ownership: none. */
#ifndef TRANSPORT_DELTA_APPLY_H
#define TRANSPORT_DELTA_APPLY_H

#include "api/base/status.h"
#include "transport/delta/chain.h"

struct delta_apply_options {
    const char *publication;
    const char *checkpoint; /* What is there now. */
    uint64_t version;       /* To come to. */
    const char *out_dir;    /* Does not exist, its parent does.  Null: only verify. */
    unsigned threads;       /* At most DELTA_THREADS_MAX; 0: one, the caller's own. */
};

struct delta_applied {
    uint64_t from;  /* The checkpoint's version. */
    uint64_t start; /* Where it began: 'from', or a full version on the way. */
    unsigned deltas_count;
    uint64_t changed_tensors; /* That at least one delta changes. */
    uint64_t bytes;           /* Of all tensors. */
    struct digest digest;     /* Of the result. */
    bool digest_checked;      /* The publisher wrote it down, and it is the same. */
};

/* Besides the errors of delta_chain_open(): DATA_LOSS for bytes that are not what they should be,
 * INVALID_ARGUMENT for a delta that breaks the format or names a tensor that the checkpoint lacks.
 * Messages name the version's directory, and file and tensor. */
BATON_MUST_USE struct baton_status delta_apply(const struct delta_apply_options *options,
                                               struct delta_applied *out);

#endif /* apply.h */
