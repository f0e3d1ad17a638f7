/* nccl_rank.h -- one rank of a communicator of backend "nccl", here or in a process of its own.
 *
 * A round is one broadcast of a buffer that is filled with the round's number.
 *
 * Depends on: rig.h, transport.  Threads: one.  Ownership: nccl_rank_open() gives, _close() takes. */
#ifndef TESTS_GPU_NCCL_RANK_H
#define TESTS_GPU_NCCL_RANK_H

#include <sys/types.h>

#include "tests/gpu/rig.h"
#include "transport/include/baton/transport.h"

/* What the process of a rank ends with, besides 0. */
enum { NCCL_RANK_WRONG = 1, NCCL_RANK_FAILED = 3 };

/* Paths of the plug-ins. */
struct nccl_paths {
    const char *cuda;
    const char *nccl;
};

struct nccl_rank_options {
    const char *unique_id; /* Null: this one makes it. */
    int rank;
    int ranks;
    int device;
    int timeout_ms;
    uint64_t bytes;
};

struct nccl_rank {
    struct rig rig;
    struct baton_transport *transport;
    struct baton_tp_mem *mem;
    uint8_t *device;
    uint64_t bytes;
    uint8_t address[BATON_TP_ADDRESS_BYTES_MAX];
    uint32_t address_bytes;
    bool is_root;
};

struct nccl_rank nccl_rank_open(const struct nccl_paths *paths, struct nccl_rank_options options);
void nccl_rank_close(struct nccl_rank *rank);

bool nccl_rank_fill(struct nccl_rank *rank, int round);
/* First, middle and last byte are the round's. */
bool nccl_rank_holds(struct nccl_rank *rank, int round);
/* Gives to all, or takes from rank 0; the first result that is not OK. */
int32_t nccl_rank_broadcast(struct nccl_rank *rank);

/* Starts rank 1 of 2 in another process. */
pid_t nccl_rank_start(const struct nccl_rank *root, const struct nccl_paths *paths, int device,
                      int rounds);
/* What it runs: gpu_suite rank CUDA NCCL ID DEVICE BYTES ROUNDS. */
int nccl_rank_main(char **argv);

void check_nccl(struct rig *rig, const struct nccl_paths *paths);

#endif /* nccl_rank.h */
