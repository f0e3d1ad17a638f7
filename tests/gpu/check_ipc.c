/* check_ipc.c -- backend "ipc" between two processes and one GPU: bytes, order, rights, death.
 *
 * What lands is held to digests that the CPU makes of the trainer's pattern: the same that a
 * manifest has. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "api/base/clock.h"
#include "tests/gpu/landing.h"
#include "transport/cuda/xxh3.h"

enum {
    BYTES = (768 << 20) + 4096 + 1,
    CHUNK = BATON_CUDA_CHUNK_BYTES,
    DIGEST = BATON_CUDA_DIGEST_BYTES,
    HOST_BYTES = 32 << 20,
    SWAPS = 1000,
    SWAP_BYTES = 64 << 20,
    STATE_WAIT_S = 60,
};

/* Digest of a chunk of the step's pattern, or of its start. */
static void digest_pattern(uint32_t step, uint64_t at, uint64_t size, uint8_t out[DIGEST])
{
    uint8_t *chunk = malloc(CHUNK);
    for (uint64_t i = 0; i < size; i++) {
        chunk[i] = trainer_byte(step, at + i);
    }
    xxh3_canonical(xxh3_128(chunk, size), out);
    free(chunk);
}

/* The weights of a step in the landing's memory, by digest on the device. */
static bool holds_step(struct rig *rig, const struct landing *landing, uint32_t step)
{
    uint8_t whole[TRAINER_PATTERN_BYTES / CHUNK][DIGEST];
    uint8_t *got = landing_digests(rig, landing);
    bool holds = true;
    for (uint64_t i = 0; i < TRAINER_PATTERN_BYTES / CHUNK; i++) {
        digest_pattern(step, i * CHUNK, CHUNK, whole[i]);
    }
    for (uint64_t at = 0; holds && at < landing->bytes; at += CHUNK) {
        uint8_t expected[DIGEST];
        memcpy(expected, whole[at % TRAINER_PATTERN_BYTES / CHUNK], DIGEST);
        if (landing->bytes - at < CHUNK) {
            digest_pattern(step, at, landing->bytes - at, expected);
        }
        holds = rig_equal("a digest", got + at / CHUNK * DIGEST, expected, DIGEST);
    }
    free(got);
    return holds;
}

static bool is_small(const uint8_t *bytes, uint32_t step)
{
    for (uint64_t i = 0; i < TRAINER_SMALL_BYTES; i++) {
        if (bytes[i] != trainer_byte(step, i)) {
            return false;
        }
    }
    return true;
}

/* The small range, to memory of the host. */
static bool reads_to_host(struct baton_transport *transport, const struct trainer *trainer,
                          uint8_t *host, uint64_t bytes)
{
    struct baton_tp_mem *mem = NULL;
    struct baton_status st =
        baton_transport_register(transport, host, bytes, (struct baton_bytes){ NULL, 0 }, 0, &mem);
    memset(host, RIG_POISON, bytes);
    struct baton_transport_range from = landing_range(trainer, trainer->offer.small, 0);
    struct baton_transport_local to = { mem, 3, TRAINER_SMALL_BYTES };
    if (baton_ok(&st)) {
        st = baton_transport_get_wait(transport, from, to, LANDING_WAIT_NS);
    }
    baton_transport_release(transport, mem);
    return baton_ok(&st) && host[2] == RIG_POISON && host[3 + TRAINER_SMALL_BYTES] == RIG_POISON &&
           is_small(host + 3, trainer->offer.step);
}

static void check_bytes(struct rig *rig, struct landing *landing, struct trainer *trainer)
{
    struct baton_status st = landing_take(rig, landing, trainer);
    rig_verdict(rig, "ipc: weights of another process land; the device's digests are the CPU's",
                baton_ok(&st) && holds_step(rig, landing, trainer->offer.step));
    uint8_t *pageable = malloc(HOST_BYTES);
    uint8_t *pages =
        mmap(NULL, HOST_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    rig_verdict(rig, "ipc: an odd range of a small allocation, to pageable memory",
                reads_to_host(landing->transport, trainer, pageable, TRAINER_SMALL_BYTES + 100));
    rig_verdict(rig, "ipc: the same, to memory that is pinned for it",
                pages != MAP_FAILED &&
                    reads_to_host(landing->transport, trainer, pages, HOST_BYTES));
    free(pageable);
    (void)munmap(pages, HOST_BYTES);
    struct baton_transport_range beyond =
        landing_range(trainer, trainer->offer.weights, landing->bytes - 10);
    st = baton_transport_get_wait(landing->transport, beyond,
                                  (struct baton_transport_local){ landing->mem, 0, 20 },
                                  LANDING_WAIT_NS);
    rig_verdict(rig, "ipc: a range beyond the end is refused", st.code == BATON_DATA_LOSS);
}

/* The trainer exports while its device still works on the weights. */
static void check_order(struct rig *rig, struct landing *landing, struct trainer *trainer)
{
    bool holds = true;
    for (int i = 0; i < 4; i++) {
        trainer_order(trainer, TRAINER_STEP);
        struct baton_status st = landing_take(rig, landing, trainer);
        holds = baton_ok(&st) && holds && holds_step(rig, landing, trainer->offer.step);
    }
    rig_verdict(rig, "ipc: what was enqueued before the export is waited for", holds);
}

static void check_put(struct rig *rig, struct landing *landing, struct trainer *trainer)
{
    uint8_t mark = 0xC3;
    bool accepted = false;
    rig_must(rig, rig->cuda->copy(landing->device, &mark, 1, rig->stream), "copy");
    rig_wait(rig);
    struct baton_status st =
        baton_transport_put(landing->transport, landing_range(trainer, trainer->offer.weights, 0),
                            (struct baton_transport_local){ landing->mem, 0, 1 }, 1, &accepted);
    bool holds = baton_ok(&st) && accepted && landing_drain(landing, 1) == 1;
    trainer_order(trainer, TRAINER_TELL);
    rig_verdict(rig, "ipc: put() writes another process's weights",
                holds && trainer->offer.first == mark);
}

static uint64_t free_bytes(struct rig *rig)
{
    struct baton_cuda_device device;
    rig_must(rig, rig->cuda->device(0, &device), "device 0");
    return device.free_bytes;
}

/* Polls until the device has as much free as that, but for a few allocations' rounding. */
static bool gives_back(struct rig *rig, struct landing *landing, uint64_t free_before)
{
    uint64_t deadline = baton_clock_monotonic_ns() + STATE_WAIT_S * BATON_NS_PER_S;
    while (free_bytes(rig) + (64U << 20) < free_before) {
        (void)landing_drain(landing, 0);
        if (baton_clock_monotonic_ns() > deadline) {
            printf("  %llu bytes are not given back\n",
                   (unsigned long long)(free_before - free_bytes(rig)));
            return false;
        }
        baton_clock_sleep_ns(BATON_NS_PER_MS);
    }
    return true;
}

static void check_withdrawal(struct rig *rig, struct landing *landing, struct trainer *trainer)
{
    uint64_t before = free_bytes(rig);
    trainer_order(trainer, TRAINER_WITHDRAW);
    struct baton_status st = landing_take(rig, landing, trainer);
    rig_verdict(rig, "ipc: withdrawn weights are not read, and their memory is given back",
                st.code == BATON_UNAVAILABLE && gives_back(rig, landing, before + BYTES));
}

/* Killed at once, after its weights were opened, and with copies under way. */
static void check_death(struct rig *rig, struct landing *landing, const struct trainer_paths *paths)
{
    uint64_t before = free_bytes(rig);
    bool holds = true;
    for (int i = 0; i < 6; i++) {
        struct trainer trainer = trainer_start(paths, BYTES);
        if (i % 3 > 0) {
            struct baton_status st = landing_take(rig, landing, &trainer);
            holds = holds && baton_ok(&st);
        }
        unsigned started = i % 3 == 2 ? landing_start(landing, &trainer) : 0;
        trainer_kill(&trainer);
        (void)landing_drain(landing, started);
        struct baton_status st = landing_take(rig, landing, &trainer);
        holds = holds && st.code == BATON_UNAVAILABLE;
    }
    rig_verdict(rig, "ipc: a trainer that was killed is told, never read", holds);
    rig_verdict(rig, "ipc: memory of killed trainers is given back",
                gives_back(rig, landing, before));
    struct trainer trainer = trainer_start(paths, BYTES);
    struct baton_status st = landing_take(rig, landing, &trainer);
    rig_verdict(rig, "ipc: it works on after them",
                baton_ok(&st) && holds_step(rig, landing, trainer.offer.step));
    trainer_end(&trainer);
}

static unsigned descriptors(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir != NULL && readdir(dir) != NULL) {
        count++;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return count;
}

/* A thousand versions from one trainer leave nothing behind. */
static void check_many(struct rig *rig, const struct trainer_paths *paths)
{
    struct landing landing = landing_open(rig, paths, SWAP_BYTES, LANDING_BUCKET_BYTES);
    struct trainer trainer = trainer_start(paths, SWAP_BYTES);
    struct baton_status st = landing_take(rig, &landing, &trainer);
    uint64_t before = free_bytes(rig);
    unsigned files = descriptors();
    bool holds = baton_ok(&st);
    for (int i = 0; i < SWAPS && holds; i++) {
        trainer_order(&trainer, TRAINER_AGAIN);
        st = landing_take(rig, &landing, &trainer);
        holds = baton_ok(&st);
    }
    rig_verdict(rig, "ipc: 1,000 versions; device memory and descriptors stay as they were",
                holds && descriptors() == files && gives_back(rig, &landing, before));
    trainer_end(&trainer);
    landing_close(rig, &landing);
}

void check_ipc(struct rig *rig, const struct trainer_paths *paths)
{
    struct landing landing = landing_open(rig, paths, BYTES, LANDING_BUCKET_BYTES);
    struct trainer trainer = trainer_start(paths, BYTES);
    check_bytes(rig, &landing, &trainer);
    check_order(rig, &landing, &trainer);
    check_put(rig, &landing, &trainer);
    check_withdrawal(rig, &landing, &trainer);
    trainer_end(&trainer);
    check_death(rig, &landing, paths);
    landing_close(rig, &landing);
    check_many(rig, paths);
}
