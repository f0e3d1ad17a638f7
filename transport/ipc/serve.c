/* serve.c -- one operation, step by step: find, wait for the exporter's work, copy, ask again.
 *
 * Whatever happens to the exporter, an operation is OK only if the range was still shown after the
 * last byte was copied: memory that was withdrawn may hold anything by then. */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "transport/ipc/ipc_state.h"

static void finish(struct op *op, int result)
{
    op->result = result;
    op->state = OP_DONE;
}

/* What it was is still there. */
static bool is_shown(const struct op *op)
{
    return board_is_alive(op->peer->board) && board_has(op->peer->board, op->key);
}

/* All that the range has was moved. */
static void finish_moved(struct op *op)
{
    if (!is_shown(op)) {
        finish(op, BATON_TP_E_PEER_LOST);
    } else {
        finish(op, op->moved < op->bytes ? BATON_TP_E_CORRUPT : BATON_TP_OK);
    }
}

void serve_end(struct baton_tp *tp, struct op *op)
{
    if (op->event != NULL) {
        (void)ipc_cuda_ok(tp, tp->cuda->event_destroy(op->event), "closing a peer's event");
        op->event = NULL;
    }
    if (op->mapping != NULL) {
        op->mapping->uses--;
        op->mapping = NULL;
    }
    if (op->peer != NULL) {
        op->peer->uses--;
        op->peer = NULL;
    }
}

static bool can_pair(const struct baton_tp *tp, const struct op *op)
{
    if (op->entry.kind == BOARD_DEVICE) {
        return tp->cuda != NULL;
    }
    return op->entry.kind == BOARD_HOST && op->mem->kind != BATON_CUDA_DEVICE;
}

/* Finds the range and what may be done with it. */
static void begin(struct baton_tp *tp, struct op *op)
{
    struct peer *peer = NULL;
    int result = peers_find(tp, &op->address, &peer);
    if (result != BATON_TP_OK) {
        finish(op, result);
        return;
    }
    op->peer = peer;
    peer->uses++;
    if (!op->has_key || !board_read(peer->board, op->key, &op->entry)) {
        finish(op, BATON_TP_E_UNREACHABLE);
        return;
    }
    if (op->kind == OP_LENGTH) {
        op->moved = op->entry.bytes;
        finish(op, BATON_TP_OK);
        return;
    }
    uint32_t needed = op->kind == OP_PUT ? BATON_TP_ACCESS_WRITE : BATON_TP_ACCESS_READ;
    if ((op->entry.access & needed) == 0) {
        finish(op, BATON_TP_E_DENIED);
        return;
    }
    if (!can_pair(tp, op)) {
        ipc_log(tp, 1, "not supported",
                op->entry.kind == BOARD_DEVICE
                    ? "a peer's GPU memory, by a transport whose configuration has no \"cuda\""
                    : "a peer's host memory and GPU memory here; land in host memory first");
        finish(op, BATON_TP_E_UNSUPPORTED);
        return;
    }
    uint64_t there = op->offset < op->entry.bytes ? op->entry.bytes - op->offset : 0;
    op->there = op->bytes < there ? op->bytes : there;
    op->state = op->entry.kind == BOARD_DEVICE ? OP_WAITING : OP_HOST;
}

static int result_of_errno(struct baton_tp *tp, const struct op *op, int number)
{
    if (number == EPERM) {
        if (!tp->has_told_denial) {
            ipc_log(tp, 1, "a peer's memory is not open to this process",
                    "same user, and kernel.yama.ptrace_scope 0, or CAP_SYS_PTRACE, are needed");
        }
        tp->has_told_denial = true;
        return BATON_TP_E_DENIED;
    }
    return is_shown(op) && number != ESRCH ? BATON_TP_E_CORRUPT : BATON_TP_E_PEER_LOST;
}

/* A slice between two processes' memory: one copy, by the kernel. */
static void step_host(struct baton_tp *tp, struct op *op)
{
    uint64_t left = op->there - op->moved;
    size_t size = left < IPC_SLICE_BYTES ? (size_t)left : IPC_SLICE_BYTES;
    struct iovec here = { op->mem->base + op->local_offset + op->moved, size };
    struct iovec far = { (void *)(uintptr_t)(op->entry.base + op->offset + op->moved), size };
    ssize_t got = 0;
    if (!is_shown(op)) { /* The exporter may use that memory for something else by now. */
        finish(op, BATON_TP_E_PEER_LOST);
        return;
    }
    if (size > 0) {
        got = op->kind == OP_GET ? process_vm_readv(op->address.pid, &here, 1, &far, 1, 0)
                                 : process_vm_writev(op->address.pid, &here, 1, &far, 1, 0);
    }
    if (got < 0 || (size > 0 && got == 0)) {
        finish(op, result_of_errno(tp, op, got < 0 ? errno : EFAULT));
        return;
    }
    op->moved += (uint64_t)got;
    if (op->moved == op->there) {
        finish_moved(op);
    }
}

/* True once the work is done that the exporter had given to its device before it exported. */
static bool is_ready(struct baton_tp *tp, struct op *op)
{
    int busy = 0;
    if (board_is_own(op->peer->board) || op->peer->ready[op->key.slot] == op->key.generation) {
        return true;
    }
    if (!is_shown(op)) {
        finish(op, BATON_TP_E_PEER_LOST);
        return false;
    }
    if (op->event == NULL && !ipc_cuda_ok(tp, tp->cuda->ipc_event_open(op->entry.event, &op->event),
                                          "opening a peer's event")) {
        op->event = NULL;
        finish(op, BATON_TP_E_UNREACHABLE);
        return false;
    }
    /* Asked, not waited for on the stream: a peer that dies would stop that for ever. */
    if (!ipc_cuda_ok(tp, tp->cuda->event_query(op->event, &busy), "a peer's event")) {
        finish(op, BATON_TP_E_INTERNAL);
        return false;
    }
    if (busy) {
        return false;
    }
    op->peer->ready[op->key.slot] = op->key.generation;
    return true;
}

/* Where the range is in this address space. */
static int find_range(struct baton_tp *tp, struct op *op, uint8_t **out)
{
    if (board_is_own(op->peer->board)) {
        *out = (uint8_t *)(uintptr_t)op->entry.base + op->offset;
        return BATON_TP_OK;
    }
    if (op->mapping == NULL) {
        int result = peers_map(tp, op->peer, op->entry.memory, &op->mapping);
        if (result != BATON_TP_OK) {
            return result;
        }
        op->mapping->uses++;
    }
    *out = op->mapping->base + op->entry.offset + op->offset;
    return BATON_TP_OK;
}

/* Within one process no event is shared: what the default stream has now is waited for. */
static bool follow_own(struct baton_tp *tp, const struct op *op, void *event, void *stream)
{
    return !board_is_own(op->peer->board) ||
           (ipc_cuda_ok(tp, tp->cuda->event_record(event, NULL), "recording an event") &&
            ipc_cuda_ok(tp, tp->cuda->stream_after(stream, event), "following an event"));
}

/* Gives the device its copy: all of it, or, of pageable memory, a slice. */
static void launch(struct baton_tp *tp, struct op *op, uint32_t place)
{
    void *landed = tp->landed[place];
    void *stream = tp->streams[place % IPC_STREAMS];
    uint8_t *far = NULL;
    uint8_t *here = op->mem->base + op->local_offset + op->moved;
    int result = is_shown(op) ? find_range(tp, op, &far) : BATON_TP_E_PEER_LOST;
    if (result != BATON_TP_OK) {
        finish(op, result);
        return;
    }
    uint64_t size = op->there - op->moved;
    if (op->mem->kind == BATON_CUDA_PAGEABLE && size > IPC_SLICE_BYTES) {
        size = IPC_SLICE_BYTES;
    }
    far += op->moved;
    void *target = op->kind == OP_GET ? here : far;
    const void *source = op->kind == OP_GET ? far : here;
    if (!follow_own(tp, op, landed, stream) ||
        (size > 0 && !ipc_cuda_ok(tp, tp->cuda->copy(target, source, size, stream), "copying")) ||
        !ipc_cuda_ok(tp, tp->cuda->event_record(landed, stream), "recording an event")) {
        finish(op, BATON_TP_E_INTERNAL);
        return;
    }
    op->moved += size;
    op->state = OP_FLYING;
}

static void land(struct baton_tp *tp, struct op *op, void *landed)
{
    int busy = 0;
    if (!ipc_cuda_ok(tp, tp->cuda->event_query(landed, &busy), "a copy")) {
        finish(op, BATON_TP_E_INTERNAL);
    } else if (!busy && op->moved < op->there) {
        op->state = OP_SLICED;
    } else if (!busy) {
        finish_moved(op);
    }
}

void serve_step(struct baton_tp *tp, uint32_t place, bool is_front)
{
    struct op *op = &tp->queue[place];
    if (op->is_cancelled && op->state != OP_FLYING && op->state != OP_DONE) {
        finish(op, BATON_TP_E_CANCELLED);
    }
    if (op->state == OP_NEW) {
        begin(tp, op);
    }
    if (op->state == OP_HOST && is_front) {
        step_host(tp, op);
    }
    bool may_launch = op->state == OP_SLICED || (op->state == OP_WAITING && is_ready(tp, op));
    /* A copy from or to pageable memory makes its caller wait. */
    if (may_launch && (is_front || op->mem->kind != BATON_CUDA_PAGEABLE)) {
        launch(tp, op, place);
    }
    if (op->state == OP_FLYING) {
        land(tp, op, tp->landed[place]);
    }
}
