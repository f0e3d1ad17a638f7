/* figures_ipc.c -- weights of an 8B model from another process on the same GPU: landed, landed and
 * verified, and to the host; each beside a plain copy of as many bytes in the same run.
 *
 * Landed is what a trainer waits for when its weights are snapshotted: from the first bucket asked
 * for to the last one reported, on the host's clock. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "api/base/clock.h"
#include "tests/gpu/landing.h"

#define MODEL_BYTES UINT64_C(16380000000)
#define HOST_BYTES  (UINT64_C(4) << 30)
enum { RUNS = 7 };

struct copies {
    uint8_t *target;
    const uint8_t *source;
    uint64_t bytes;
};

static void work_copy(struct rig *rig, void *self)
{
    struct copies *copies = self;
    rig_must(rig, rig->cuda->copy(copies->target, copies->source, copies->bytes, rig->stream),
             "copy");
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double take_seconds(struct rig *rig, struct landing *landing, const struct trainer *trainer)
{
    double times[RUNS];
    for (int i = -1; i < RUNS; i++) {
        uint64_t begin = baton_clock_monotonic_ns();
        struct baton_status st = landing_take(rig, landing, trainer);
        if (!baton_ok(&st)) {
            printf("not ok - figures of ipc: %s\n", st.message);
            exit(2);
        }
        times[i < 0 ? 0 : i] = (double)(baton_clock_monotonic_ns() - begin) / 1e9;
    }
    qsort(times, RUNS, sizeof(times[0]), by_value);
    return times[RUNS / 2];
}

/* GB/s of one copy of all weights, without the transport. */
static double mapped_rate(struct rig *rig, const struct landing *landing,
                          const struct trainer *trainer)
{
    void *mapped = NULL;
    rig_must(rig, rig->cuda->ipc_open(trainer->offer.handle, &mapped), "ipc_open");
    struct copies copies = { landing->device, mapped, MODEL_BYTES };
    double rate = (double)MODEL_BYTES / rig_time(rig, work_copy, &copies, RUNS) / 1e9;
    rig_must(rig, rig->cuda->ipc_close(mapped), "ipc_close");
    return rate;
}

static void to_device(struct rig *rig, const struct trainer_paths *paths)
{
    static const struct {
        const char *name;
        const char *digested_name;
        uint64_t bucket;
        double target; /* Of the ceiling, in the same run. */
    } cases[] = {
        { "ipc_8b_landed", "ipc_8b_landed_and_digested", UINT64_C(1) << 30, 0.95 },
        { "ipc_8b_landed_256_mib", "ipc_8b_landed_and_digested_256_mib", UINT64_C(256) << 20, 0 },
        { "ipc_8b_landed_64_mib", "ipc_8b_landed_and_digested_64_mib", UINT64_C(64) << 20, 0 },
    };
    const char *what = "one copy out of the mapping, bytes counted once";
    struct trainer trainer = trainer_start(paths, MODEL_BYTES);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct landing landing = landing_open(rig, paths, MODEL_BYTES, cases[i].bucket);
        double anchor = mapped_rate(rig, &landing, &trainer);
        double rate = (double)MODEL_BYTES / take_seconds(rig, &landing, &trainer) / 1e9;
        rig_figure(rig, (struct figure){ cases[i].name, "GB/s", what, rate, anchor,
                                         cases[i].target * anchor });
        landing.is_digested = true;
        rate = (double)MODEL_BYTES / take_seconds(rig, &landing, &trainer) / 1e9;
        rig_figure(rig, (struct figure){ cases[i].digested_name, "GB/s", what, rate, anchor, 0 });
        landing_close(rig, &landing);
    }
    trainer_end(&trainer);
}

/* A transfer after the other into memory that the transport pinned, as a snapshot into a landing. */
static double to_host_seconds(struct baton_transport *transport, const struct trainer *trainer,
                              struct baton_tp_mem *mem)
{
    double times[RUNS];
    for (int i = -1; i < RUNS; i++) {
        uint64_t begin = baton_clock_monotonic_ns();
        for (uint64_t at = 0; at < HOST_BYTES; at += LANDING_BUCKET_BYTES) {
            struct baton_status st = baton_transport_get_wait(
                transport, landing_range(trainer, trainer->offer.weights, at),
                (struct baton_transport_local){ mem, at, LANDING_BUCKET_BYTES }, LANDING_WAIT_NS);
            if (!baton_ok(&st)) {
                printf("not ok - figures of ipc: %s\n", st.message);
                exit(2);
            }
        }
        times[i < 0 ? 0 : i] = (double)(baton_clock_monotonic_ns() - begin) / 1e9;
    }
    qsort(times, RUNS, sizeof(times[0]), by_value);
    return times[RUNS / 2];
}

static void to_host(struct rig *rig, const struct trainer_paths *paths)
{
    struct baton_transport *transport = trainer_transport(paths);
    struct trainer trainer = trainer_start(paths, HOST_BYTES);
    struct baton_tp_mem *mem = NULL;
    uint8_t *host =
        mmap(NULL, HOST_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct baton_status st = baton_status_make(BATON_INTERNAL, BATON_REASON_NONE, "no host memory");
    if (host != MAP_FAILED) {
        st = baton_transport_register(transport, host, HOST_BYTES, (struct baton_bytes){ NULL, 0 },
                                      0, &mem);
    }
    if (!baton_ok(&st)) {
        printf("not ok - figures of ipc: %s\n", st.message);
        exit(2);
    }
    uint8_t *device = rig_device(rig, HOST_BYTES);
    struct copies copies = { host, device, HOST_BYTES };
    double anchor = (double)HOST_BYTES / rig_time(rig, work_copy, &copies, RUNS) / 1e9;
    double seconds = to_host_seconds(transport, &trainer, mem);
    /* 90 % of the link. */
    rig_figure(rig, (struct figure){ "ipc_to_pinned_host", "GB/s",
                                     "copy from the device to pinned memory",
                                     (double)HOST_BYTES / seconds / 1e9, anchor, 49.8 });
    rig_free(rig, device);
    baton_transport_close(transport);
    trainer_end(&trainer);
    (void)munmap(host, HOST_BYTES);
}

void figures_ipc(struct rig *rig, const struct trainer_paths *paths)
{
    to_device(rig, paths);
    to_host(rig, paths);
}
