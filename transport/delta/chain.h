/* chain.h -- which versions lead from a checkpoint to a version of a publication.
 *
 * A checkpoint that was pulled or applied says its version in .weight_sync/state.json, as the
 * format's readers write it; one without that folder is version 0, the engine's own base.  From
 * the target back, deltas are collected until the checkpoint's version or a full version is met.
 *
 * The format's readers change a checkpoint in place, under an exclusive lock of .weight_sync/lock.
 * A chain holds that lock shared where the file is there, so the bytes stay while they are read.
 *
 * Depends on: version.h.  Does I/O: not for cores.  Threads: an object belongs to one thread.
 * Ownership: a chain owns its versions until delta_chain_close(). */
#ifndef TRANSPORT_DELTA_CHAIN_H
#define TRANSPORT_DELTA_CHAIN_H

#include "transport/delta/version.h"

#define DELTA_STATE_DIR  ".weight_sync"
#define DELTA_STATE_NAME DELTA_STATE_DIR "/state.json"
#define DELTA_LOCK_NAME  DELTA_STATE_DIR "/lock"
/* Ours beside it: the digest of what the checkpoint holds. */
#define DELTA_IDENTITY_NAME DELTA_STATE_DIR "/baton.json"

struct delta_state {
    bool has_version; /* False: it says none, and counts as version 0. */
    uint64_t version;
    bool has_digest;
    struct digest digest; /* Of the whole checkpoint, as DELTA_IDENTITY_NAME has it. */
};

/* What the checkpoint says about itself.  FAILED_PRECONDITION: a reader left it half changed. */
BATON_MUST_USE struct baton_status delta_state_read(const char *checkpoint,
                                                    struct delta_state *out);

/* Locks the checkpoint against readers that change it, until '*out' is closed; -1: nobody locks this
 * checkpoint.  FAILED_PRECONDITION IN_USE: a reader changes it. */
BATON_MUST_USE struct baton_status delta_state_lock(const char *checkpoint, int *out);

struct delta_chain {
    int lock_fd;                /* -1: nobody locks this checkpoint. */
    struct delta_state from;    /* Of the checkpoint. */
    const char *start_dir;      /* The checkpoint, or a full version on the way. */
    uint64_t start;             /* Its version. */
    struct delta_version *full; /* Null: the checkpoint is the start. */
    struct delta_version *deltas[DELTA_CHAIN_MAX]; /* In the order of applying. */
    size_t deltas_count;
};

/* ALREADY_EXISTS: the checkpoint is at 'target'; FAILED_PRECONDITION: past it, or its digest is not
 * the one that the first delta is for, or (IN_USE) a reader changes it; NOT_FOUND: a version on the
 * way is missing. */
BATON_MUST_USE struct baton_status delta_chain_open(const char *publication, const char *checkpoint,
                                                    uint64_t target, struct delta_chain **out);
void delta_chain_close(struct delta_chain *chain);

#endif /* chain.h */
