/* landing.c -- buckets from a trainer's memory into the device's, digested as they land. */
#include "tests/gpu/landing.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/base/clock.h"

enum { CHUNK = BATON_CUDA_CHUNK_BYTES, DIGEST = BATON_CUDA_DIGEST_BYTES, REPORTS = 16 };

static uint64_t chunks_of(uint64_t bytes)
{
    return (bytes + CHUNK - 1) / CHUNK;
}

static uint64_t buckets_of(const struct landing *landing)
{
    return (landing->bytes + landing->bucket - 1) / landing->bucket;
}

static uint64_t bucket_bytes(const struct landing *landing, uint64_t bucket)
{
    uint64_t left = landing->bytes - bucket * landing->bucket;
    return left < landing->bucket ? left : landing->bucket;
}

struct landing landing_open(struct rig *rig, const struct trainer_paths *paths, uint64_t bytes,
                            uint64_t bucket)
{
    struct landing landing = { .bytes = bytes,
                               .bucket = bucket,
                               .transport = trainer_transport(paths) };
    landing.device = rig_device(rig, bytes);
    struct baton_status st = baton_transport_register(
        landing.transport, landing.device, bytes, (struct baton_bytes){ NULL, 0 }, 0, &landing.mem);
    if (!baton_ok(&st)) {
        printf("not ok - a landing on the device: %s\n", st.message);
        exit(2);
    }
    struct baton_cuda_range *ranges = calloc(buckets_of(&landing), sizeof(*ranges));
    for (uint64_t i = 0; i < buckets_of(&landing); i++) {
        ranges[i].bytes = landing.device + i * bucket;
        ranges[i].size = bucket_bytes(&landing, i);
    }
    landing.ranges = rig_upload(rig, ranges, buckets_of(&landing) * sizeof(*ranges));
    landing.digests = rig_device(rig, chunks_of(bytes) * DIGEST);
    free(ranges);
    return landing;
}

void landing_close(struct rig *rig, struct landing *landing)
{
    baton_transport_release(landing->transport, landing->mem);
    baton_transport_close(landing->transport);
    rig_free(rig, landing->device);
    rig_free(rig, landing->ranges);
    rig_free(rig, landing->digests);
}

struct baton_transport_range landing_range(const struct trainer *trainer, const uint8_t *key,
                                           uint64_t offset)
{
    return (struct baton_transport_range){
        { trainer->offer.address, trainer->offer.address_bytes },
        { key, trainer->offer.key_bytes },
        offset,
    };
}

/* Digests of one bucket, on the rig's stream: a bucket is a whole number of chunks. */
static void digest(struct rig *rig, const struct landing *landing, uint64_t bucket)
{
    uint64_t first = bucket * (landing->bucket / CHUNK);
    rig_must(rig,
             rig->cuda->digest(landing->ranges + bucket, 1,
                               chunks_of(bucket_bytes(landing, bucket)),
                               landing->digests + first * DIGEST, rig->stream),
             "digest");
}

static bool start(struct landing *landing, const struct trainer *trainer, uint64_t bucket)
{
    bool accepted = false;
    uint64_t at = bucket * landing->bucket;
    struct baton_transport_local to = { landing->mem, at, bucket_bytes(landing, bucket) };
    struct baton_status st =
        baton_transport_get(landing->transport, landing_range(trainer, trainer->offer.weights, at),
                            to, bucket, &accepted);
    if (!baton_ok(&st)) {
        printf("not ok - a bucket is refused: %s\n", st.message);
        exit(2);
    }
    return accepted;
}

/* One poll; how many were reported. */
static uint32_t poll_once(struct landing *landing, struct baton_tp_completion *out, uint32_t room)
{
    uint32_t count = 0;
    struct baton_status st = baton_transport_poll(landing->transport, out, room, &count);
    if (!baton_ok(&st)) {
        printf("not ok - poll: %s\n", st.message);
        exit(2);
    }
    return count;
}

struct baton_status landing_take(struct rig *rig, struct landing *landing,
                                 const struct trainer *trainer)
{
    struct baton_status first = baton_status_ok();
    uint64_t started = 0;
    uint64_t deadline = baton_clock_monotonic_ns() + LANDING_WAIT_NS;
    for (uint64_t ended = 0; ended < buckets_of(landing);) {
        struct baton_tp_completion done[REPORTS];
        while (started < buckets_of(landing) && start(landing, trainer, started)) {
            started++;
        }
        uint32_t count = poll_once(landing, done, REPORTS);
        for (uint32_t i = 0; i < count; i++) {
            struct baton_status st =
                baton_transport_result(landing->transport, done[i].result, "a bucket");
            first = baton_ok(&first) ? st : first;
            if (baton_ok(&st) && landing->is_digested) {
                digest(rig, landing, done[i].op_id);
            }
        }
        ended += count;
        if (baton_clock_monotonic_ns() > deadline) {
            printf("not ok - buckets do not end\n");
            exit(2);
        }
    }
    rig_wait(rig);
    return first;
}

unsigned landing_start(struct landing *landing, const struct trainer *trainer)
{
    unsigned started = 0;
    while (started < buckets_of(landing) && start(landing, trainer, started)) {
        started++;
    }
    /* Copies begin; none is reported. */
    (void)poll_once(landing, NULL, 0);
    return started;
}

unsigned landing_drain(struct landing *landing, unsigned count)
{
    unsigned ended = 0;
    unsigned good = 0;
    uint64_t deadline = baton_clock_monotonic_ns() + LANDING_WAIT_NS;
    do {
        struct baton_tp_completion done;
        if (poll_once(landing, &done, 1) == 1) {
            ended++;
            good += done.result == BATON_TP_OK;
        }
        if (baton_clock_monotonic_ns() > deadline) {
            printf("not ok - %u of %u transfers do not end\n", count - ended, count);
            exit(2);
        }
    } while (ended < count);
    return good;
}

uint8_t *landing_digests(struct rig *rig, const struct landing *landing)
{
    for (uint64_t i = 0; i < buckets_of(landing); i++) {
        digest(rig, landing, i);
    }
    return rig_download(rig, landing->digests, chunks_of(landing->bytes) * DIGEST);
}
