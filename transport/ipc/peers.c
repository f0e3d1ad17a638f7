/* peers.c -- boards and allocations of peers, opened once and kept while they are there.
 *
 * A mapping keeps the exporter's memory on the device, also after that freed it or died; so what is
 * shown no more is closed soon, whether it is asked for again or not. */
#include <stdlib.h>
#include <string.h>

#include "api/base/clock.h"
#include "transport/ipc/ipc_state.h"

enum { SWEEP_MS = 50 };

static void unmap(struct baton_tp *tp, struct mapping *mapping)
{
    (void)ipc_cuda_ok(tp, tp->cuda->ipc_close(mapping->base), "closing a peer's memory");
    memset(mapping, 0, sizeof(*mapping));
}

/* With its mappings, if none is in use. */
static bool forget(struct baton_tp *tp, struct peer *peer)
{
    if (peer->uses > 0) {
        return false;
    }
    for (size_t i = 0; i < IPC_MAPPINGS_MAX; i++) {
        if (tp->mappings[i].peer == peer) {
            unmap(tp, &tp->mappings[i]);
        }
    }
    board_disconnect(peer->board);
    free(peer->ready);
    memset(peer, 0, sizeof(*peer));
    return true;
}

/* A free place; made free if need be. */
static struct peer *peer_place(struct baton_tp *tp)
{
    for (size_t i = 0; i < IPC_PEERS_MAX; i++) {
        if (tp->peers[i].board == NULL) {
            return &tp->peers[i];
        }
    }
    for (size_t i = 0; i < IPC_PEERS_MAX; i++) {
        if (forget(tp, &tp->peers[i])) {
            return &tp->peers[i];
        }
    }
    return NULL;
}

int peers_find(struct baton_tp *tp, const struct board_address *address, struct peer **out)
{
    for (size_t i = 0; i < IPC_PEERS_MAX; i++) {
        struct peer *peer = &tp->peers[i];
        if (peer->board != NULL && memcmp(&peer->address, address, sizeof(*address)) == 0) {
            *out = peer;
            return board_is_alive(peer->board) ? BATON_TP_OK : BATON_TP_E_UNREACHABLE;
        }
    }
    struct board_peer *board = NULL;
    int result = board_connect(address, &board);
    if (result != BATON_TP_OK) {
        return result;
    }
    struct peer *peer = peer_place(tp);
    uint64_t *ready = calloc(BOARD_SLOTS, sizeof(*ready));
    if (peer == NULL || ready == NULL) {
        board_disconnect(board);
        free(ready);
        return BATON_TP_E_INTERNAL;
    }
    *peer = (struct peer){ .address = *address, .board = board, .ready = ready };
    *out = peer;
    return BATON_TP_OK;
}

static struct mapping *mapping_place(struct baton_tp *tp)
{
    for (size_t i = 0; i < IPC_MAPPINGS_MAX; i++) {
        if (tp->mappings[i].peer == NULL) {
            return &tp->mappings[i];
        }
    }
    for (size_t i = 0; i < IPC_MAPPINGS_MAX; i++) {
        if (tp->mappings[i].uses == 0) {
            unmap(tp, &tp->mappings[i]);
            return &tp->mappings[i];
        }
    }
    return NULL;
}

int peers_map(struct baton_tp *tp, struct peer *peer, const uint8_t memory[BOARD_HANDLE_BYTES],
              struct mapping **out)
{
    for (size_t i = 0; i < IPC_MAPPINGS_MAX; i++) {
        struct mapping *mapping = &tp->mappings[i];
        if (mapping->peer == peer && memcmp(mapping->memory, memory, BOARD_HANDLE_BYTES) == 0) {
            *out = mapping;
            return BATON_TP_OK;
        }
    }
    struct mapping *mapping = mapping_place(tp);
    void *base = NULL;
    if (mapping == NULL) {
        return BATON_TP_E_INTERNAL;
    }
    if (!ipc_cuda_ok(tp, tp->cuda->ipc_open(memory, &base), "opening a peer's memory")) {
        return board_is_alive(peer->board) ? BATON_TP_E_UNREACHABLE : BATON_TP_E_PEER_LOST;
    }
    *mapping = (struct mapping){ .peer = peer, .base = base };
    memcpy(mapping->memory, memory, BOARD_HANDLE_BYTES);
    *out = mapping;
    return BATON_TP_OK;
}

void peers_sweep(struct baton_tp *tp, uint64_t now_ns)
{
    if (now_ns - tp->swept_ns < SWEEP_MS * BATON_NS_PER_MS) {
        return;
    }
    tp->swept_ns = now_ns;
    for (size_t i = 0; i < IPC_MAPPINGS_MAX; i++) {
        struct mapping *mapping = &tp->mappings[i];
        if (mapping->peer != NULL && mapping->uses == 0 &&
            !board_shows(mapping->peer->board, mapping->memory)) {
            unmap(tp, mapping);
        }
    }
    for (size_t i = 0; i < IPC_PEERS_MAX; i++) {
        if (tp->peers[i].board != NULL && !board_is_alive(tp->peers[i].board)) {
            (void)forget(tp, &tp->peers[i]);
        }
    }
}

void peers_close(struct baton_tp *tp)
{
    for (size_t i = 0; i < IPC_PEERS_MAX; i++) {
        if (tp->peers[i].board != NULL) {
            (void)forget(tp, &tp->peers[i]);
        }
    }
}
