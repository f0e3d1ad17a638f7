/* board.h -- what a transport exports, where other processes can read it without asking.
 *
 * A board is a page of slots in a sealed memory file.  A peer opens it once, through the exporter's
 * /proc/PID/fd, and keeps the mapping: what it reads there after the exporter's death is old, never
 * a fault.  No file is left behind by a process that is killed.  A slot's generation is 0 while it
 * is empty or being written, and never given twice; a key names slot and generation, so that what
 * was withdrawn is told from what took its place.
 *
 * Depends on: transport_plugin.h (results), Linux (memfd, pidfd).  Threads: one for each object;
 * boards of one process may be read while they are written.  Ownership: _create and _connect give,
 * _destroy and _disconnect take. */
#ifndef TRANSPORT_IPC_BOARD_H
#define TRANSPORT_IPC_BOARD_H

#include <stdbool.h>
#include <stdint.h>

enum { BOARD_SLOTS = 4096, BOARD_HANDLE_BYTES = 64 };

enum board_kind { BOARD_HOST = 1, BOARD_DEVICE = 2 };

/* One exported range. */
struct board_entry {
    uint32_t kind;   /* enum board_kind. */
    uint32_t access; /* BATON_TP_ACCESS_*. */
    uint64_t base;   /* In the exporter's address space. */
    uint64_t offset; /* DEVICE: of the range in its allocation. */
    uint64_t bytes;
    uint8_t memory[BOARD_HANDLE_BYTES]; /* DEVICE: the allocation's handle. */
    uint8_t event[BOARD_HANDLE_BYTES];  /* DEVICE: the range may be used once this is done. */
};

/* Both cross as they are: the two sides are processes of one machine. */
struct board_address {
    int32_t pid;
    int32_t fd;
    uint64_t start_time; /* Of the process: tells a number that was given again. */
    uint64_t nonce[2];
};
struct board_key {
    uint64_t slot;
    uint64_t generation;
};

/* The own board.  Results are enum baton_tp_result. */
struct board;
int board_create(struct board **out);
/* In a forked child this and board_withdraw() change nothing for peers. */
void board_destroy(struct board *board);
struct board_address board_address(const struct board *board);
/* INTERNAL: no slot is free. */
int board_publish(struct board *board, const struct board_entry *entry, struct board_key *out);
void board_withdraw(struct board *board, struct board_key key);

/* Another's.  UNREACHABLE: no such process, or it has no such board (any more); DENIED: it is
 * another user's. */
struct board_peer;
int board_connect(const struct board_address *address, struct board_peer **out);
void board_disconnect(struct board_peer *peer);
/* False once its process has ended or its transport was closed. */
bool board_is_alive(const struct board_peer *peer);
/* Of this process. */
bool board_is_own(const struct board_peer *peer);
/* False: it is not there (any more). */
bool board_read(const struct board_peer *peer, struct board_key key, struct board_entry *out);
bool board_has(const struct board_peer *peer, struct board_key key);
/* Whether any slot still shows this allocation. */
bool board_shows(const struct board_peer *peer, const uint8_t memory[BOARD_HANDLE_BYTES]);

#endif /* board.h */
