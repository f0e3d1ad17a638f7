/* ipc.c -- backend "ipc": memory of other processes of this machine, host memory and a GPU's.
 *
 * Everything is one-sided: the exporter writes what it exports on its board (board.h) and is never
 * asked again.  Host memory is copied by the kernel from address space to address space; a GPU's is
 * opened once for each allocation (CUDA IPC) and copied by the device, many copies at a time. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "transport/ipc/ipc_state.h"

enum { PIN_BYTES_MIN = 1 << 20, CLOSE_WAIT_MS = 10000, CLOSE_POLL_US = 100, CONFIG_DEVICES = 64 };

void ipc_log(const struct baton_tp *tp, int32_t level, const char *what, const char *why)
{
    char line[512];
    if (tp->host != NULL && tp->host->log != NULL) {
        (void)snprintf(line, sizeof(line), "%.150s: %.300s", what, why);
        tp->host->log(tp->host->self, level, line);
    }
}

bool ipc_cuda_ok(const struct baton_tp *tp, int result, const char *what)
{
    if (result != BATON_CUDA_OK) {
        ipc_log(tp, 1, what, tp->cuda->describe(result));
    }
    return result == BATON_CUDA_OK;
}

/* Returns what is wrong with the configuration, or null. */
static const char *read_config(json_t *top, const char **cuda, int *device)
{
    const char *key;
    json_t *value;
    json_object_foreach(top, key, value)
    {
        if (strcmp(key, "cuda") == 0 && json_is_string(value)) {
            *cuda = json_string_value(value);
        } else if (strcmp(key, "device") == 0 && json_is_integer(value) &&
                   json_integer_value(value) >= 0 && json_integer_value(value) < CONFIG_DEVICES) {
            *device = (int)json_integer_value(value);
        } else {
            return key;
        }
    }
    return NULL;
}

/* The streams, and an event for each place in the queue. */
static int open_device(struct baton_tp *tp)
{
    if (!ipc_cuda_ok(tp, tp->cuda->use(tp->device), "the device")) {
        return BATON_TP_E_UNSUPPORTED;
    }
    for (size_t i = 0; i < IPC_STREAMS; i++) {
        if (!ipc_cuda_ok(tp, tp->cuda->stream_create(&tp->streams[i]), "a stream")) {
            return BATON_TP_E_INTERNAL;
        }
    }
    for (size_t i = 0; i < IPC_SLOTS; i++) {
        if (!ipc_cuda_ok(tp, tp->cuda->event_create(&tp->landed[i]), "an event")) {
            return BATON_TP_E_INTERNAL;
        }
    }
    return BATON_TP_OK;
}

static void close_device(struct baton_tp *tp)
{
    for (size_t i = 0; i < IPC_SLOTS; i++) {
        if (tp->landed[i] != NULL) {
            (void)ipc_cuda_ok(tp, tp->cuda->event_destroy(tp->landed[i]), "an event");
        }
    }
    for (size_t i = 0; i < IPC_STREAMS; i++) {
        if (tp->streams[i] != NULL) {
            (void)ipc_cuda_ok(tp, tp->cuda->stream_destroy(tp->streams[i]), "a stream");
        }
    }
}

static int open_parts(struct baton_tp *tp, const char *cuda)
{
    if (cuda != NULL) {
        struct baton_status st = cuda_open(cuda, &tp->cuda);
        if (!baton_ok(&st)) {
            ipc_log(tp, 1, "no GPU for this transport", st.message);
            return BATON_TP_E_UNSUPPORTED;
        }
        int result = open_device(tp);
        if (result != BATON_TP_OK) {
            close_device(tp);
            return result;
        }
    }
    int result = board_create(&tp->board);
    if (result != BATON_TP_OK && tp->cuda != NULL) {
        close_device(tp);
    }
    return result;
}

static int ipc_open(const struct baton_tp_host *host, const char *config, struct baton_tp **out)
{
    const char *cuda = NULL;
    struct baton_tp *tp = calloc(1, sizeof(*tp));
    json_t *top = json_loads(config == NULL ? "{}" : config, JSON_REJECT_DUPLICATES, NULL);
    int result = BATON_TP_E_INTERNAL;
    if (tp != NULL) {
        tp->host = host;
        const char *wrong =
            json_is_object(top) ? read_config(top, &cuda, &tp->device) : "not a JSON object";
        result = wrong == NULL ? open_parts(tp, cuda) : BATON_TP_E_INVALID;
        if (wrong != NULL) {
            ipc_log(tp, 1, "config: unknown or of another type", wrong);
        }
    }
    json_decref(top);
    if (result != BATON_TP_OK) {
        free(tp);
        return result;
    }
    *out = tp;
    return BATON_TP_OK;
}

static bool is_busy(struct baton_tp *tp)
{
    for (size_t i = 0; i < IPC_STREAMS; i++) {
        int busy = 0;
        /* A context that is lost copies nothing any more. */
        if (tp->cuda->stream_query(tp->streams[i], &busy) == BATON_CUDA_OK && busy) {
            return true;
        }
    }
    return false;
}

/* Until the device has no copy of ours; false: it does not come to an end. */
static bool wait_idle(struct baton_tp *tp)
{
    uint64_t deadline_ns = baton_clock_monotonic_ns() + CLOSE_WAIT_MS * BATON_NS_PER_MS;
    while (is_busy(tp)) {
        if (baton_clock_monotonic_ns() > deadline_ns) {
            return false;
        }
        baton_clock_sleep_ns((uint64_t)CLOSE_POLL_US * 1000);
    }
    return true;
}

static void free_mem(struct baton_tp *tp, struct baton_tp_mem *mem)
{
    if (mem->key.generation != 0) {
        board_withdraw(tp->board, mem->key);
    }
    if (mem->event != NULL) {
        (void)ipc_cuda_ok(tp, tp->cuda->event_destroy(mem->event), "an event");
    }
    if (mem->is_pinned_here) {
        (void)ipc_cuda_ok(tp, tp->cuda->host_unregister(mem->base), "unpinning");
    }
    free(mem);
}

static void ipc_close(struct baton_tp *tp)
{
    bool is_idle = true;
    if (tp->cuda != NULL) {
        (void)ipc_cuda_ok(tp, tp->cuda->use(tp->device), "the device");
        is_idle = wait_idle(tp);
    }
    if (!is_idle) {
        /* The device may still read and write all of it: it stays as it is, but peers begin nothing new. */
        board_destroy(tp->board);
        ipc_log(tp, 0, "closing",
                "the device does not finish its copies; its memory is not given "
                "back before this process ends");
        return;
    }
    for (uint32_t i = 0; i < tp->count; i++) {
        serve_end(tp, &tp->queue[(tp->first + i) % IPC_SLOTS]);
    }
    peers_close(tp);
    while (tp->mems != NULL) {
        struct baton_tp_mem *mem = tp->mems;
        tp->mems = mem->next;
        free_mem(tp, mem);
    }
    if (tp->cuda != NULL) {
        close_device(tp);
    }
    board_destroy(tp->board);
    free(tp);
}

static int ipc_query(const struct baton_tp *tp, struct baton_tp_attr *attr)
{
    if (attr->size < sizeof(*attr)) {
        return BATON_TP_E_INVALID;
    }
    *attr = (struct baton_tp_attr){
        .size = sizeof(*attr),
        .caps = BATON_TP_CAP_PUT | BATON_TP_CAP_GET | BATON_TP_CAP_CANCEL | BATON_TP_CAP_LENGTH |
                BATON_TP_CAP_EXPORT | (tp->cuda == NULL ? 0 : BATON_TP_CAP_CUDA_MEMORY),
        .transfer_bytes_max = IPC_TRANSFER_BYTES_MAX,
        .transfers_max = IPC_SLOTS,
        .address_bytes = sizeof(struct board_address),
    };
    return BATON_TP_OK;
}

static int ipc_address(const struct baton_tp *tp, uint8_t *out, uint32_t *out_bytes)
{
    struct board_address address = board_address(tp->board);
    if (*out_bytes < sizeof(address)) {
        return BATON_TP_E_INVALID;
    }
    memcpy(out, &address, sizeof(address));
    *out_bytes = sizeof(address);
    return BATON_TP_OK;
}

/* Learns what memory it is; pins what stays pinned cheaply: whole pages of one mapping. */
static int place_mem(struct baton_tp *tp, struct baton_tp_mem *mem, struct board_entry *entry)
{
    struct baton_cuda_place place = { .kind = BATON_CUDA_PAGEABLE };
    entry->kind = BOARD_HOST;
    entry->base = (uint64_t)(uintptr_t)mem->base;
    if (tp->cuda == NULL || mem->bytes == 0) {
        return BATON_TP_OK;
    }
    if (!ipc_cuda_ok(tp, tp->cuda->use(tp->device), "the device") ||
        !ipc_cuda_ok(tp, tp->cuda->locate(mem->base, &place), "registering memory")) {
        return BATON_TP_E_INVALID;
    }
    mem->kind = place.kind;
    if (place.kind == BATON_CUDA_DEVICE) {
        entry->kind = BOARD_DEVICE;
        entry->offset = (uint64_t)(mem->base - (uint8_t *)place.base);
        return mem->bytes > place.bytes - entry->offset ? BATON_TP_E_INVALID : BATON_TP_OK;
    }
    bool is_whole = (uintptr_t)mem->base % (uintptr_t)sysconf(_SC_PAGESIZE) == 0;
    if (place.kind == BATON_CUDA_PAGEABLE && is_whole && mem->bytes >= PIN_BYTES_MIN &&
        tp->cuda->host_register(mem->base, mem->bytes) == BATON_CUDA_OK) {
        mem->is_pinned_here = true;
        mem->kind = BATON_CUDA_PINNED;
    }
    return BATON_TP_OK;
}

/* The handles by which another process opens it, and the event that says when it may. */
static int export_device(struct baton_tp *tp, struct baton_tp_mem *mem, struct board_entry *entry)
{
    struct baton_cuda_place place;
    if (!ipc_cuda_ok(tp, tp->cuda->locate(mem->base, &place), "exporting memory")) {
        return BATON_TP_E_UNSUPPORTED;
    }
    if (place.device != tp->device) { /* The event below would not follow that device's work. */
        ipc_log(tp, 1, "exporting memory", "it is of another GPU than this transport's \"device\"");
        return BATON_TP_E_UNSUPPORTED;
    }
    if (!ipc_cuda_ok(tp, tp->cuda->ipc_export(place.base, entry->memory), "exporting memory")) {
        return BATON_TP_E_UNSUPPORTED;
    }
    /* On the default stream: it comes after all that was given to it and to streams that follow it. */
    return ipc_cuda_ok(tp, tp->cuda->ipc_event_create(&mem->event, entry->event), "an event") &&
                   ipc_cuda_ok(tp, tp->cuda->event_record(mem->event, NULL), "recording an event")
               ? BATON_TP_OK
               : BATON_TP_E_INTERNAL;
}

static int fill_mem(struct baton_tp *tp, struct baton_tp_mem *mem)
{
    struct board_entry entry = { .access = mem->access, .bytes = mem->bytes };
    int result = place_mem(tp, mem, &entry);
    if (result == BATON_TP_OK && mem->access != 0 && entry.kind == BOARD_DEVICE) {
        result = export_device(tp, mem, &entry);
    }
    return result == BATON_TP_OK && mem->access != 0 ? board_publish(tp->board, &entry, &mem->key)
                                                     : result;
}

static int ipc_mem_register(struct baton_tp *tp, const struct baton_tp_memory *memory,
                            struct baton_tp_mem **out)
{
    if (memory->size < sizeof(*memory) || (memory->base == NULL && memory->bytes > 0)) {
        return BATON_TP_E_INVALID;
    }
    if (memory->access != 0 && memory->name_bytes > 0) {
        return BATON_TP_E_UNSUPPORTED;
    }
    struct baton_tp_mem *mem = calloc(1, sizeof(*mem));
    if (mem == NULL) {
        return BATON_TP_E_INTERNAL;
    }
    mem->base = memory->base;
    mem->bytes = memory->bytes;
    mem->access = memory->access;
    int result = fill_mem(tp, mem);
    if (result != BATON_TP_OK) {
        free_mem(tp, mem);
        return result;
    }
    mem->next = tp->mems;
    tp->mems = mem;
    *out = mem;
    return BATON_TP_OK;
}

static void ipc_mem_release(struct baton_tp *tp, struct baton_tp_mem *mem)
{
    struct baton_tp_mem **link = &tp->mems;
    while (*link != NULL && *link != mem) {
        link = &(*link)->next;
    }
    if (*link == mem) {
        *link = mem->next;
        free_mem(tp, mem);
    }
}

static int ipc_key(const struct baton_tp *tp, const struct baton_tp_mem *mem, uint8_t *out,
                   uint32_t *out_bytes)
{
    (void)tp;
    if (mem->access == 0 || *out_bytes < sizeof(mem->key)) {
        return BATON_TP_E_INVALID;
    }
    memcpy(out, &mem->key, sizeof(mem->key));
    *out_bytes = sizeof(mem->key);
    return BATON_TP_OK;
}

static int enqueue(struct baton_tp *tp, const struct baton_tp_transfer *transfer, enum op_kind kind)
{
    if (transfer->peer_bytes != sizeof(struct board_address) || transfer->key_bytes == 0 ||
        transfer->key_bytes > BATON_TP_KEY_BYTES_MAX) {
        return BATON_TP_E_INVALID;
    }
    if (tp->count == IPC_SLOTS) {
        return BATON_TP_AGAIN;
    }
    struct op *op = &tp->queue[(tp->first + tp->count) % IPC_SLOTS];
    *op = (struct op){
        .op_id = transfer->op_id,
        .kind = kind,
        .mem = transfer->mem,
        .local_offset = transfer->local_offset,
        .offset = transfer->remote_offset,
        .bytes = transfer->bytes,
        .has_key = transfer->key_bytes == sizeof(op->key),
    };
    memcpy(&op->address, transfer->peer, sizeof(op->address));
    if (op->has_key) {
        memcpy(&op->key, transfer->key, sizeof(op->key));
    }
    tp->count++;
    return BATON_TP_PENDING;
}

static int move(struct baton_tp *tp, const struct baton_tp_transfer *transfer, enum op_kind kind)
{
    if (transfer->size < sizeof(*transfer) || transfer->mem == NULL ||
        transfer->bytes > IPC_TRANSFER_BYTES_MAX || transfer->local_offset > transfer->mem->bytes ||
        transfer->bytes > transfer->mem->bytes - transfer->local_offset) {
        return BATON_TP_E_INVALID;
    }
    return enqueue(tp, transfer, kind);
}

static int ipc_put(struct baton_tp *tp, const struct baton_tp_transfer *transfer)
{
    return move(tp, transfer, OP_PUT);
}

static int ipc_get(struct baton_tp *tp, const struct baton_tp_transfer *transfer)
{
    return move(tp, transfer, OP_GET);
}

static int ipc_length(struct baton_tp *tp, const struct baton_tp_transfer *transfer)
{
    return transfer->size < sizeof(*transfer) ? BATON_TP_E_INVALID
                                              : enqueue(tp, transfer, OP_LENGTH);
}

static int ipc_cancel(struct baton_tp *tp, uint64_t op_id)
{
    for (uint32_t i = 0; i < tp->count; i++) {
        struct op *op = &tp->queue[(tp->first + i) % IPC_SLOTS];
        if (op->op_id == op_id) {
            op->is_cancelled = true;
            return BATON_TP_OK;
        }
    }
    return BATON_TP_E_INVALID;
}

/* Hands out the oldest if it is done. */
static bool pop(struct baton_tp *tp, struct baton_tp_completion *out)
{
    struct op *op = &tp->queue[tp->first];
    if (tp->count == 0 || op->state != OP_DONE) {
        return false;
    }
    serve_end(tp, op);
    *out = (struct baton_tp_completion){ op->op_id, op->moved, op->result, 0 };
    tp->first = (tp->first + 1) % IPC_SLOTS;
    tp->count--;
    return true;
}

/* At most one slice is copied here; a device has several copies under way. */
static int ipc_poll(struct baton_tp *tp, uint64_t now_ns, struct baton_tp_completion *out,
                    uint32_t out_max, uint32_t *out_count)
{
    *out_count = 0;
    if (tp->cuda != NULL && !ipc_cuda_ok(tp, tp->cuda->use(tp->device), "the device")) {
        return BATON_TP_E_INTERNAL;
    }
    peers_sweep(tp, now_ns);
    for (uint32_t i = 0; i < tp->count && i < IPC_FLIGHTS; i++) {
        serve_step(tp, (tp->first + i) % IPC_SLOTS, i == 0);
    }
    while (*out_count < out_max && pop(tp, &out[*out_count])) {
        (*out_count)++;
    }
    return BATON_TP_OK;
}

static const struct baton_transport_plugin table = {
    .size = sizeof(table),
    .abi_major = BATON_TP_ABI_MAJOR,
    .abi_minor = BATON_TP_ABI_MINOR,
    .name = "ipc",
    .version = "1",
    .open = ipc_open,
    .close = ipc_close,
    .query = ipc_query,
    .address = ipc_address,
    .mem_register = ipc_mem_register,
    .mem_release = ipc_mem_release,
    .key = ipc_key,
    .put = ipc_put,
    .get = ipc_get,
    .length = ipc_length,
    .cancel = ipc_cancel,
    .poll = ipc_poll,
};

__attribute__((visibility("default"))) baton_transport_plugin_v1_fn baton_transport_plugin_v1;

const struct baton_transport_plugin *baton_transport_plugin_v1(void)
{
    return &table;
}
