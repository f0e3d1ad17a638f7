/* trainer.h -- a process that stands for a trainer: its weights are on the GPU, and it exports them
 * with backend "ipc", as a real one does through the same calls.
 *
 * Weights of a step are one pattern of the step's, repeated.  An order is one byte; each is answered
 * with an offer.
 *
 * Depends on: transport, transport/cuda.  Threads: one.  Ownership: trainer_start() gives,
 * trainer_end() takes. */
#ifndef TESTS_GPU_TRAINER_H
#define TESTS_GPU_TRAINER_H

#include <sys/types.h>

#include "tests/gpu/rig.h"
#include "transport/include/baton/transport.h"

enum { TRAINER_PATTERN_BYTES = 16 << 20, TRAINER_SMALL_BYTES = 100001, TRAINER_STEPS = 2 };

enum trainer_order {
    TRAINER_STEP =
        's', /* Trains: enqueues slow work, then the other step's weights; exports at once. */
    TRAINER_AGAIN = 'a',    /* Exports the same again. */
    TRAINER_WITHDRAW = 'w', /* Releases and frees the weights. */
    TRAINER_TELL = 't',     /* Tells the first byte of its weights. */
};

struct trainer_offer {
    uint8_t address[BATON_TP_ADDRESS_BYTES_MAX];
    uint8_t weights[BATON_TP_KEY_BYTES_MAX];
    uint8_t small[BATON_TP_KEY_BYTES_MAX];   /* An odd range of a small allocation. */
    uint8_t handle[BATON_CUDA_HANDLE_BYTES]; /* Of the weights, as CUDA has it: for anchors. */
    uint32_t address_bytes;
    uint32_t key_bytes;
    uint32_t step; /* Whose pattern it is. */
    uint8_t first;
};

struct trainer {
    pid_t pid;
    int orders;
    int answers;
    struct trainer_offer offer;
};

/* The paths of the two plug-ins. */
struct trainer_paths {
    const char *cuda;
    const char *ipc;
};

/* Byte i of the pattern of a step. */
uint8_t trainer_byte(uint32_t step, uint64_t i);
/* A transport of backend "ipc" with the GPU; ends the program if there is none. */
struct baton_transport *trainer_transport(const struct trainer_paths *paths);

struct trainer trainer_start(const struct trainer_paths *paths, uint64_t bytes);
void trainer_order(struct trainer *trainer, enum trainer_order order);
void trainer_kill(struct trainer *trainer);
void trainer_end(struct trainer *trainer);

void check_ipc(struct rig *rig, const struct trainer_paths *paths);
void figures_ipc(struct rig *rig, const struct trainer_paths *paths);

/* What such a process runs: gpu_suite trainer CUDA IPC BYTES. */
int trainer_main(const struct trainer_paths *paths, uint64_t bytes);

#endif /* trainer.h */
