/* landing.h -- device memory into which a trainer's weights are taken, bucket after bucket.
 *
 * Depends on: trainer.h.  Threads: one.  Ownership: landing_open() gives, landing_close() takes. */
#ifndef TESTS_GPU_LANDING_H
#define TESTS_GPU_LANDING_H

#include "tests/gpu/trainer.h"

#define LANDING_WAIT_NS      (UINT64_C(60) * 1000000000)
#define LANDING_BUCKET_BYTES (UINT64_C(256) << 20)

struct landing {
    struct baton_transport *transport;
    struct baton_tp_mem *mem;
    uint8_t *device;
    uint64_t bytes;
    uint64_t bucket;                 /* Bytes of each but the last; whole chunks. */
    struct baton_cuda_range *ranges; /* Device: one a bucket. */
    uint8_t *digests;                /* Device. */
    bool is_digested;                /* Each bucket is digested as it lands. */
};

/* 'bucket': LANDING_BUCKET_BYTES, say. */
struct landing landing_open(struct rig *rig, const struct trainer_paths *paths, uint64_t bytes,
                            uint64_t bucket);
void landing_close(struct rig *rig, struct landing *landing);

struct baton_transport_range landing_range(const struct trainer *trainer, const uint8_t *key,
                                           uint64_t offset);
/* All weights, many buckets under way.  The first failure. */
struct baton_status landing_take(struct rig *rig, struct landing *landing,
                                 const struct trainer *trainer);
/* The same, only begun: how many buckets are under way. */
unsigned landing_start(struct landing *landing, const struct trainer *trainer);
/* Polls until 'count' are reported (or once, for 0); how many of them are OK. */
unsigned landing_drain(struct landing *landing, unsigned count);
/* Chunk digests of the whole, made on the device; host memory of the caller. */
uint8_t *landing_digests(struct rig *rig, const struct landing *landing);

#endif /* landing.h */
