/* nccl_state.h -- what the files of backend "nccl" share.  Private.
 *
 * Depends on: library.h, transport/cuda.  Threads: as the plugin's interface; an abort has a thread
 * of its own. */
#ifndef TRANSPORT_NCCL_NCCL_STATE_H
#define TRANSPORT_NCCL_NCCL_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/cuda/cuda_open.h"
#include "transport/include/baton/transport_plugin.h"
#include "transport/nccl/library.h"

enum {
    NCCL_SLOTS = 64,
    NCCL_FLIGHTS =
        4, /* Buckets that the stream has at once: one on the wire, the next behind it. */
    NCCL_TRANSFER_BYTES_MAX = 1 << 30,
    NCCL_RANKS_MAX = 65536,
    NCCL_ALL_RANKS = -1,
};

/* An address: the communicator, and who in it. */
struct nccl_address {
    ncclUniqueId id;
    int32_t rank; /* NCCL_ALL_RANKS: a broadcast's target. */
};

struct baton_tp_mem {
    struct baton_tp_mem *next;
    uint8_t *base;
    uint64_t bytes;
};

enum op_kind { OP_SEND, OP_RECV, OP_BROADCAST };
enum op_state { OP_QUEUED, OP_LAUNCHED, OP_FLYING };

struct op {
    uint64_t op_id;
    enum op_kind kind;
    enum op_state state;
    int rank; /* The peer, or the broadcast's root. */
    uint8_t *bytes;
    uint64_t size;
};

enum comm_state { COMM_FORMING, COMM_READY, COMM_ABORTING, COMM_GONE };

/* An abort under way: ncclCommAbort() may take long, and belongs to nobody's poll(). */
struct abort_work;

struct baton_tp {
    const struct baton_tp_host *host;
    const struct baton_cuda *cuda;
    struct nccl_library nccl;
    int device;
    int ranks;
    struct nccl_address address;
    uint64_t timeout_ns;
    ncclComm_t comm;
    enum comm_state state;
    int32_t failure;   /* What pending operations are told once the communicator is gone. */
    uint64_t since_ns; /* When what is waited for began: forming, the oldest transfer, an abort. */
    struct abort_work *abort;
    void *stream;
    void *landed[NCCL_SLOTS]; /* Events, one a place in the queue. */
    struct baton_tp_mem *mems;
    struct op queue[NCCL_SLOTS]; /* A ring. */
    uint32_t first;
    uint32_t count;
};

void nccl_log(const struct baton_tp *tp, int32_t level, const char *what, const char *why);
bool nccl_cuda_ok(const struct baton_tp *tp, int result, const char *what);

/* comm.c: begins to form the communicator, without waiting.  A transfer result. */
int comm_begin(struct baton_tp *tp, uint64_t now_ns);
/* Forms, watches, gives up; never waits. */
void comm_step(struct baton_tp *tp, uint64_t now_ns);
/* From now on nothing works; 'failure' is what pending operations will be told. */
void comm_abort(struct baton_tp *tp, uint64_t now_ns, int32_t failure, const char *why);
/* Waits for an abort, but not for ever; false: it has not ended. */
bool comm_end(struct baton_tp *tp);

#endif /* nccl_state.h */
