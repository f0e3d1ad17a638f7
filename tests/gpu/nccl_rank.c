/* nccl_rank.c -- one rank: its transport, its buffer, its rounds. */
#include "tests/gpu/nccl_rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/base/bytes.h"
#include "api/base/clock.h"

enum { BUCKET_BYTES = 128 << 20, ID_BYTES = 128, WAIT_S = 120, CHILD_TIMEOUT_MS = 5000 };

static void must_status(struct baton_status st, const char *what)
{
    if (!baton_ok(&st)) {
        printf("not ok - nccl: %s: %s\n", what, st.message);
        exit(2);
    }
}

static void open_transport(const struct nccl_paths *paths, const struct nccl_rank_options *options,
                           struct nccl_rank *rank)
{
    char config[2048];
    char id[2 * ID_BYTES + 32] = "";
    if (options->unique_id != NULL) {
        (void)snprintf(id, sizeof(id), "\"uniqueId\":\"%.256s\",", options->unique_id);
    }
    (void)snprintf(
        config, sizeof(config),
        "{%s\"cuda\":\"%.800s\",\"device\":%d,\"rank\":%d,\"ranks\":%d,\"timeoutMs\":%d}", id,
        paths->cuda, options->device, options->rank, options->ranks, options->timeout_ms);
    must_status(baton_transport_open(paths->nccl, config, &rank->transport), "open");
    must_status(baton_transport_address(rank->transport, rank->address, &rank->address_bytes),
                "address");
}

struct nccl_rank nccl_rank_open(const struct nccl_paths *paths, struct nccl_rank_options options)
{
    struct nccl_rank rank = { .bytes = options.bytes, .is_root = options.rank == 0 };
    must_status(cuda_open(paths->cuda, &rank.rig.cuda), "rank");
    rig_must(&rank.rig, rank.rig.cuda->use(options.device), "use");
    rig_must(&rank.rig, rank.rig.cuda->stream_create(&rank.rig.stream), "stream");
    rank.device = rig_device(&rank.rig, options.bytes);
    rig_wait(&rank.rig);
    open_transport(paths, &options, &rank);
    must_status(baton_transport_register(rank.transport, rank.device, options.bytes,
                                         (struct baton_bytes){ NULL, 0 }, 0, &rank.mem),
                "registering memory");
    return rank;
}

void nccl_rank_close(struct nccl_rank *rank)
{
    baton_transport_close(rank->transport);
    rig_free(&rank->rig, rank->device);
    rig_must(&rank->rig, rank->rig.cuda->stream_destroy(rank->rig.stream), "stream_destroy");
}

bool nccl_rank_fill(struct nccl_rank *rank, int round)
{
    rig_must(&rank->rig,
             rank->rig.cuda->fill(rank->device, round & 0xff, rank->bytes, rank->rig.stream),
             "fill");
    rig_wait(&rank->rig);
    return true;
}

bool nccl_rank_holds(struct nccl_rank *rank, int round)
{
    const uint64_t places[] = { 0, rank->bytes / 2, rank->bytes - 1 };
    bool holds = true;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        uint8_t *got = rig_download(&rank->rig, rank->device + places[i], 1);
        holds = *got == (round & 0xff) && holds;
        free(got);
    }
    return holds;
}

/* Rank 0's address ends with its rank: all ranks are -1. */
static struct baton_transport_range target_of(const struct nccl_rank *rank,
                                              uint8_t peer[BATON_TP_ADDRESS_BYTES_MAX])
{
    int32_t number = rank->is_root ? -1 : 0;
    memcpy(peer, rank->address, rank->address_bytes);
    memcpy(peer + ID_BYTES, &number, sizeof(number));
    return (struct baton_transport_range){ { peer, rank->address_bytes },
                                           baton_bytes_of("broadcast"),
                                           0 };
}

static struct baton_status start(struct nccl_rank *rank, uint64_t at)
{
    uint8_t peer[BATON_TP_ADDRESS_BYTES_MAX];
    bool accepted = false;
    uint64_t left = rank->bytes - at;
    struct baton_transport_local here = { rank->mem, at,
                                          left < BUCKET_BYTES ? left : BUCKET_BYTES };
    struct baton_transport_range there = target_of(rank, peer);
    struct baton_status st =
        rank->is_root ? baton_transport_put(rank->transport, there, here, at + 1, &accepted)
                      : baton_transport_get(rank->transport, there, here, at + 1, &accepted);
    if (baton_ok(&st) && !accepted) {
        printf("not ok - nccl: no slot for a bucket\n");
        exit(2);
    }
    return st;
}

int32_t nccl_rank_broadcast(struct nccl_rank *rank)
{
    unsigned under_way = 0;
    int32_t first = BATON_TP_OK;
    uint64_t deadline = baton_clock_monotonic_ns() + WAIT_S * BATON_NS_PER_S;
    for (uint64_t at = 0; at < rank->bytes; at += BUCKET_BYTES) {
        struct baton_status st = start(rank, at);
        if (!baton_ok(&st)) {
            return st.code == BATON_UNAVAILABLE ? BATON_TP_E_UNREACHABLE : BATON_TP_E_INVALID;
        }
        under_way++;
    }
    while (under_way > 0) {
        struct baton_tp_completion done;
        uint32_t count = 0;
        must_status(baton_transport_poll(rank->transport, &done, 1, &count), "poll");
        if (count == 1) {
            under_way--;
            first = first == BATON_TP_OK ? done.result : first;
        }
        if (baton_clock_monotonic_ns() > deadline) {
            printf("not ok - nccl: %u transfers do not end\n", under_way);
            exit(2);
        }
    }
    return first;
}

pid_t nccl_rank_start(const struct nccl_rank *root, const struct nccl_paths *paths, int device,
                      int rounds)
{
    char id[2 * ID_BYTES + 1];
    char numbers[3][32];
    baton_hex_encode(root->address, ID_BYTES, id);
    (void)snprintf(numbers[0], sizeof(numbers[0]), "%d", device);
    (void)snprintf(numbers[1], sizeof(numbers[1]), "%llu", (unsigned long long)root->bytes);
    (void)snprintf(numbers[2], sizeof(numbers[2]), "%d", rounds);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "gpu_suite", "rank", paths->cuda, paths->nccl, id, numbers[0],
              numbers[1], numbers[2], NULL);
        _exit(127);
    }
    return pid;
}

int nccl_rank_main(char **argv)
{
    struct nccl_paths paths = { argv[2], argv[3] };
    struct nccl_rank_options options = { .unique_id = argv[4],
                                         .rank = 1,
                                         .ranks = 2,
                                         .device = (int)strtol(argv[5], NULL, 10),
                                         .timeout_ms = CHILD_TIMEOUT_MS,
                                         .bytes = strtoull(argv[6], NULL, 10) };
    long rounds = strtol(argv[7], NULL, 10);
    struct nccl_rank rank = nccl_rank_open(&paths, options);
    int code = 0;
    for (int round = 1; code == 0 && round <= rounds; round++) {
        int32_t result = nccl_rank_broadcast(&rank);
        if (result != BATON_TP_OK) {
            code = result == BATON_TP_E_UNREACHABLE || result == BATON_TP_E_PEER_LOST
                       ? NCCL_RANK_FAILED
                       : NCCL_RANK_WRONG;
        } else if (!nccl_rank_holds(&rank, round)) {
            code = NCCL_RANK_WRONG;
        }
    }
    nccl_rank_close(&rank);
    return code;
}
