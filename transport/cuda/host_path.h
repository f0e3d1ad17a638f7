/* host_path.h -- pageable host memory, or a file on tmpfs, to a GPU at the speed of its link.
 *
 * A copy from memory that is not pinned goes at a fifth of the link's speed: one thread of the
 * driver copies it into pinned memory first.  Here several threads do, each with two pinned slots:
 * it fills one while the link empties the other.  Memory that stays, a landing say, can be pinned
 * itself (host_register()) and then copied straight; this is for memory that does not pay for that.
 *
 * Depends on: cuda_open.h, api/base.  Threads: one call at a time for each path; send() blocks its
 * caller and runs threads of its own, so it belongs on a worker thread.  Ownership: a path owns its
 * slots and streams. */
#ifndef TRANSPORT_CUDA_HOST_PATH_H
#define TRANSPORT_CUDA_HOST_PATH_H

#include "transport/cuda/cuda_open.h"

enum { HOST_PATH_WORKERS_MAX = 32, HOST_PATH_SLOTS = 2 };

struct host_path_options {
    int32_t device;
    uint32_t workers;    /* A thread copies about 10 GB/s. */
    uint64_t slot_bytes; /* Each worker pins HOST_PATH_SLOTS of these; 4 MiB is enough. */
};

struct host_path_piece {
    const void *host; /* Null: the file's bytes from 'offset' on. */
    void *device;
    uint64_t bytes;
    uint64_t offset;
    int32_t fd; /* Read with pread(): mapping it would cost more than copying it. */
    uint32_t unused;
};

struct host_path;

/* INVALID_ARGUMENT: options out of range.  INTERNAL: the device's refusal, in its words. */
BATON_MUST_USE struct baton_status host_path_create(const struct baton_cuda *cuda,
                                                    struct host_path_options options,
                                                    struct host_path **out);
/* Null is fine.  Slots of a lost path stay: the device may still read them. */
void host_path_destroy(struct host_path *path);
/* When it returns OK all bytes are on the device.  DEADLINE_EXCEEDED: not all of them in time (of
 * CLOCK_MONOTONIC); if the device did not even finish what was under way, the path is lost: later
 * calls answer FAILED_PRECONDITION, and the targets must not be freed.  INTERNAL: the device refused
 * a piece; DATA_LOSS: a file ends before its piece does, or UNAVAILABLE IO cannot be read; then none
 * is under way any more. */
BATON_MUST_USE struct baton_status host_path_send(struct host_path *path,
                                                  const struct host_path_piece *pieces,
                                                  uint32_t pieces_count, uint64_t deadline_ns);

#endif /* host_path.h */
