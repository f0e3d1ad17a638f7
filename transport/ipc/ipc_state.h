/* ipc_state.h -- what the files of backend "ipc" share: transports, operations, cached peers.
 *
 * Depends on: board.h, transport/cuda.  Threads: as the plugin's interface.  Private. */
#ifndef TRANSPORT_IPC_IPC_STATE_H
#define TRANSPORT_IPC_IPC_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/cuda/cuda_open.h"
#include "transport/include/baton/transport_plugin.h"
#include "transport/ipc/board.h"

enum {
    IPC_SLOTS = 64,
    IPC_PEERS_MAX = 64,     /* No fewer than IPC_SLOTS, so that one is always free to go. */
    IPC_MAPPINGS_MAX = 256, /* Likewise. */
    IPC_FLIGHTS = 16,       /* Copies that a device has at once. */
    IPC_SLICE_BYTES = 8 << 20,
    IPC_STREAMS = 2, /* The end of a copy and the start of the next overlap. */
    IPC_TRANSFER_BYTES_MAX = 1 << 30,
};

struct baton_tp_mem {
    struct baton_tp_mem *next; /* In its transport's list. */
    uint8_t *base;
    uint64_t bytes;
    uint32_t access;
    uint32_t kind; /* enum baton_cuda_kind. */
    bool is_pinned_here;
    void *event; /* DEVICE and exported. */
    struct board_key key;
};

/* A peer's board, opened once. */
struct peer {
    struct board_address address;
    struct board_peer *board; /* Null: free. */
    uint32_t uses;            /* By operations. */
    uint64_t *ready;          /* By slot: the generation whose event was seen done. */
};

/* An allocation of a peer's, opened once. */
struct mapping {
    struct peer *peer; /* Null: free. */
    uint8_t *base;
    uint32_t uses;
    uint8_t memory[BOARD_HANDLE_BYTES];
};

enum op_kind { OP_GET, OP_PUT, OP_LENGTH };
enum op_state {
    OP_NEW,
    OP_HOST,    /* Is copied slice by slice. */
    OP_WAITING, /* For the exporter's event. */
    OP_SLICED,  /* A device's memory and pageable memory: slice by slice too. */
    OP_FLYING,  /* A device copies it. */
    OP_DONE,
};

struct op {
    uint64_t op_id;
    enum op_kind kind;
    enum op_state state;
    bool is_cancelled;
    bool has_key; /* False: what came as key is none of this backend's. */
    struct board_address address;
    struct board_key key;
    const struct baton_tp_mem *mem;
    uint64_t local_offset;
    uint64_t offset;
    uint64_t bytes;
    uint64_t there; /* Of them, how many the range has. */
    uint64_t moved;
    int32_t result;
    struct peer *peer;
    struct mapping *mapping;
    struct board_entry entry;
    void *event; /* The exporter's, while it is waited for. */
};

struct baton_tp {
    const struct baton_tp_host *host;
    const struct baton_cuda *cuda; /* Null: host memory only. */
    int device;
    void *streams[IPC_STREAMS];
    void *landed[IPC_SLOTS]; /* Events, one a place in the queue. */
    struct board *board;
    struct baton_tp_mem *mems;
    struct op queue[IPC_SLOTS]; /* A ring. */
    uint32_t first;
    uint32_t count;
    uint64_t swept_ns;
    bool has_told_denial;
    struct peer peers[IPC_PEERS_MAX];
    struct mapping mappings[IPC_MAPPINGS_MAX];
};

void ipc_log(const struct baton_tp *tp, int32_t level, const char *what, const char *why);
/* True if 'result' is none; else it is logged. */
bool ipc_cuda_ok(const struct baton_tp *tp, int result, const char *what);

/* peers.c: finds or opens; 'uses' are counted by the caller.  A transfer result. */
int peers_find(struct baton_tp *tp, const struct board_address *address, struct peer **out);
int peers_map(struct baton_tp *tp, struct peer *peer, const uint8_t memory[BOARD_HANDLE_BYTES],
              struct mapping **out);
/* Lets go of what is not used and whose exporter is gone, or shows it no more. */
void peers_sweep(struct baton_tp *tp, uint64_t now_ns);
/* Lets go of all that no operation uses. */
void peers_close(struct baton_tp *tp);

/* serve.c: goes on with the operation at 'place' of the ring, without waiting.  'is_front': it may
 * take the time of a slice. */
void serve_step(struct baton_tp *tp, uint32_t place, bool is_front);
/* Lets go of what it holds. */
void serve_end(struct baton_tp *tp, struct op *op);

#endif /* ipc_state.h */
