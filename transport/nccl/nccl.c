/* nccl.c -- backend "nccl": GPU memory of the ranks of one communicator, over NVLink or the network.
 *
 * Two-sided, unlike the others: a put() meets the get() of the peer, in the order in which both
 * sides ask; a broadcast is a put() to all ranks, and each of them gets from the root.  Addresses
 * carry the communicator's unique id, which the first rank makes and the control plane passes on. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/bytes.h"
#include "api/base/clock.h"
#include "transport/nccl/nccl_state.h"

enum { TIMEOUT_MS_DEFAULT = 60000, TIMEOUT_MS_MAX = 3600000, DEVICES_MAX = 64 };

/* Keys: which kind of transfer meets which. */
static const char KEY_PAIR[] = "pair";
static const char KEY_BROADCAST[] = "broadcast";

struct options {
    const char *library;
    const char *cuda;
    const char *unique_id; /* Hexadecimal; null: this rank makes one. */
    int64_t device;
    int64_t rank;
    int64_t ranks;
    int64_t timeout_ms;
};

void nccl_log(const struct baton_tp *tp, int32_t level, const char *what, const char *why)
{
    char line[512];
    if (tp->host != NULL && tp->host->log != NULL) {
        (void)snprintf(line, sizeof(line), "%.150s: %.300s", what, why);
        tp->host->log(tp->host->self, level, line);
    }
}

bool nccl_cuda_ok(const struct baton_tp *tp, int result, const char *what)
{
    if (result != BATON_CUDA_OK) {
        nccl_log(tp, 1, what, tp->cuda->describe(result));
    }
    return result == BATON_CUDA_OK;
}

/* Returns the key that is wrong, or null. */
static const char *read_config(json_t *top, struct options *out)
{
    const struct {
        const char *key;
        const char **text;
        int64_t *number;
        int64_t limit;
    } rows[] = {
        { "library", &out->library, NULL, 0 },
        { "cuda", &out->cuda, NULL, 0 },
        { "uniqueId", &out->unique_id, NULL, 0 },
        { "device", NULL, &out->device, DEVICES_MAX },
        { "rank", NULL, &out->rank, NCCL_RANKS_MAX },
        { "ranks", NULL, &out->ranks, NCCL_RANKS_MAX },
        { "timeoutMs", NULL, &out->timeout_ms, TIMEOUT_MS_MAX },
    };
    const char *key;
    json_t *value;
    json_object_foreach(top, key, value)
    {
        bool is_taken = false;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && !is_taken; i++) {
            bool is_it = strcmp(key, rows[i].key) == 0;
            if (is_it && rows[i].text != NULL && json_is_string(value)) {
                *rows[i].text = json_string_value(value);
                is_taken = true;
            } else if (is_it && rows[i].number != NULL && json_is_integer(value) &&
                       json_integer_value(value) >= 0 &&
                       json_integer_value(value) <= rows[i].limit) {
                *rows[i].number = json_integer_value(value);
                is_taken = true;
            }
        }
        if (!is_taken) {
            return key;
        }
    }
    if (out->cuda == NULL) {
        return "cuda";
    }
    return out->ranks < 1 || out->rank >= out->ranks ? "rank, ranks" : NULL;
}

static int open_libraries(struct baton_tp *tp, const struct options *options)
{
    char why[NCCL_LIBRARY_TEXT_BYTES];
    if (library_open(options->library, &tp->nccl, why) != 0) {
        nccl_log(tp, 1, "no NCCL for this transport", why);
        return BATON_TP_E_UNSUPPORTED;
    }
    struct baton_status st = cuda_open(options->cuda, &tp->cuda);
    if (!baton_ok(&st)) {
        nccl_log(tp, 1, "no GPU for this transport", st.message);
        return BATON_TP_E_UNSUPPORTED;
    }
    return BATON_TP_OK;
}

static int set_id(struct baton_tp *tp, const struct options *options)
{
    if (options->unique_id != NULL) {
        return baton_hex_decode(options->unique_id, (uint8_t *)&tp->address.id,
                                sizeof(tp->address.id))
                   ? BATON_TP_OK
                   : BATON_TP_E_INVALID;
    }
    ncclResult_t result = tp->nccl.get_unique_id(&tp->address.id);
    if (result != ncclSuccess) {
        nccl_log(tp, 1, "a unique id", tp->nccl.describe(result));
        return BATON_TP_E_INTERNAL;
    }
    return BATON_TP_OK;
}

static void close_device(struct baton_tp *tp)
{
    for (size_t i = 0; i < NCCL_SLOTS; i++) {
        if (tp->landed[i] != NULL) {
            (void)nccl_cuda_ok(tp, tp->cuda->event_destroy(tp->landed[i]), "an event");
        }
    }
    if (tp->stream != NULL) {
        (void)nccl_cuda_ok(tp, tp->cuda->stream_destroy(tp->stream), "a stream");
    }
}

static int open_device(struct baton_tp *tp)
{
    if (!nccl_cuda_ok(tp, tp->cuda->use(tp->device), "the device") ||
        !nccl_cuda_ok(tp, tp->cuda->stream_create(&tp->stream), "a stream")) {
        return BATON_TP_E_UNSUPPORTED;
    }
    for (size_t i = 0; i < NCCL_SLOTS; i++) {
        if (!nccl_cuda_ok(tp, tp->cuda->event_create(&tp->landed[i]), "an event")) {
            return BATON_TP_E_INTERNAL;
        }
    }
    return BATON_TP_OK;
}

static int open_parts(struct baton_tp *tp, const struct options *options)
{
    tp->device = (int)options->device;
    tp->ranks = (int)options->ranks;
    tp->address.rank = (int32_t)options->rank;
    tp->timeout_ns = (uint64_t)options->timeout_ms * BATON_NS_PER_MS;
    int result = open_libraries(tp, options);
    if (result != BATON_TP_OK) {
        return result;
    }
    result = open_device(tp);
    if (result == BATON_TP_OK) {
        result = set_id(tp, options);
    }
    if (result == BATON_TP_OK) {
        result = comm_begin(tp, baton_clock_monotonic_ns());
    }
    if (result != BATON_TP_OK) {
        close_device(tp);
    }
    return result;
}

static int nccl_open(const struct baton_tp_host *host, const char *config, struct baton_tp **out)
{
    struct options options = { .library = "libnccl.so.2",
                               .ranks = 0,
                               .timeout_ms = TIMEOUT_MS_DEFAULT };
    struct baton_tp *tp = calloc(1, sizeof(*tp));
    json_t *top = json_loads(config == NULL ? "{}" : config, JSON_REJECT_DUPLICATES, NULL);
    int result = BATON_TP_E_INTERNAL;
    if (tp != NULL) {
        tp->host = host;
        const char *wrong = json_is_object(top) ? read_config(top, &options) : "not a JSON object";
        result = wrong == NULL ? open_parts(tp, &options) : BATON_TP_E_INVALID;
        if (wrong != NULL) {
            nccl_log(tp, 1, "config: missing, unknown, out of range or of another type", wrong);
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

/* Always by abort: a communicator that is finalised waits for its peers. */
static void nccl_close(struct baton_tp *tp)
{
    (void)nccl_cuda_ok(tp, tp->cuda->use(tp->device), "the device");
    if (tp->state == COMM_FORMING || tp->state == COMM_READY) {
        comm_abort(tp, baton_clock_monotonic_ns(), BATON_TP_E_CANCELLED, "it is closed");
    }
    if (!comm_end(tp)) {
        nccl_log(tp, 0, "closing",
                 "an abort does not end; its memory is not given back before "
                 "this process ends");
        return;
    }
    while (tp->mems != NULL) {
        struct baton_tp_mem *next = tp->mems->next;
        free(tp->mems);
        tp->mems = next;
    }
    close_device(tp);
    free(tp);
}

static int nccl_query(const struct baton_tp *tp, struct baton_tp_attr *attr)
{
    (void)tp;
    if (attr->size < sizeof(*attr)) {
        return BATON_TP_E_INVALID;
    }
    *attr = (struct baton_tp_attr){
        .size = sizeof(*attr),
        .caps = BATON_TP_CAP_PUT | BATON_TP_CAP_GET | BATON_TP_CAP_MULTICAST |
                BATON_TP_CAP_CROSS_HOST | BATON_TP_CAP_CUDA_MEMORY,
        .transfer_bytes_max = NCCL_TRANSFER_BYTES_MAX,
        .transfers_max = NCCL_SLOTS,
        .address_bytes = sizeof(struct nccl_address),
    };
    return BATON_TP_OK;
}

static int nccl_address(const struct baton_tp *tp, uint8_t *out, uint32_t *out_bytes)
{
    if (*out_bytes < sizeof(tp->address)) {
        return BATON_TP_E_INVALID;
    }
    memcpy(out, &tp->address, sizeof(tp->address));
    *out_bytes = sizeof(tp->address);
    return BATON_TP_OK;
}

static int nccl_mem_register(struct baton_tp *tp, const struct baton_tp_memory *memory,
                             struct baton_tp_mem **out)
{
    struct baton_cuda_place place;
    if (memory->size < sizeof(*memory) || memory->base == NULL) {
        return BATON_TP_E_INVALID;
    }
    if (memory->access != 0 || !nccl_cuda_ok(tp, tp->cuda->use(tp->device), "the device") ||
        !nccl_cuda_ok(tp, tp->cuda->locate(memory->base, &place), "registering memory") ||
        place.kind != BATON_CUDA_DEVICE || place.device != tp->device) {
        nccl_log(tp, 1, "registering memory", "it is not of this transport's GPU");
        return BATON_TP_E_UNSUPPORTED;
    }
    struct baton_tp_mem *mem = malloc(sizeof(*mem));
    if (mem == NULL) {
        return BATON_TP_E_INTERNAL;
    }
    *mem = (struct baton_tp_mem){ tp->mems, memory->base, memory->bytes };
    tp->mems = mem;
    *out = mem;
    return BATON_TP_OK;
}

static void nccl_mem_release(struct baton_tp *tp, struct baton_tp_mem *mem)
{
    struct baton_tp_mem **link = &tp->mems;
    while (*link != NULL && *link != mem) {
        link = &(*link)->next;
    }
    if (*link == mem) {
        *link = mem->next;
        free(mem);
    }
}

static bool is_key(const struct baton_tp_transfer *transfer, const char *key)
{
    return transfer->key_bytes == strlen(key) &&
           memcmp(transfer->key, key, transfer->key_bytes) == 0;
}

/* What the transfer is for NCCL; false: nothing that this communicator has. */
static bool take_target(const struct baton_tp *tp, const struct baton_tp_transfer *transfer,
                        bool is_put, struct op *op)
{
    struct nccl_address peer;
    if (transfer->peer_bytes != sizeof(peer)) {
        return false;
    }
    memcpy(&peer, transfer->peer, sizeof(peer));
    bool is_rank = peer.rank >= 0 && peer.rank < tp->ranks;
    bool is_other = is_rank && peer.rank != tp->address.rank;
    if (memcmp(&peer.id, &tp->address.id, sizeof(peer.id)) != 0) {
        return false;
    }
    if (is_key(transfer, KEY_BROADCAST)) {
        op->kind = OP_BROADCAST;
        op->rank = is_put ? tp->address.rank : peer.rank;
        return is_put ? peer.rank == NCCL_ALL_RANKS : is_other;
    }
    op->kind = is_put ? OP_SEND : OP_RECV;
    op->rank = peer.rank;
    return is_key(transfer, KEY_PAIR) && is_other;
}

static int enqueue(struct baton_tp *tp, const struct baton_tp_transfer *transfer, bool is_put)
{
    struct op op = { .op_id = transfer->op_id, .state = OP_QUEUED };
    if (transfer->size < sizeof(*transfer) || transfer->mem == NULL ||
        transfer->bytes > NCCL_TRANSFER_BYTES_MAX || transfer->remote_offset != 0 ||
        transfer->local_offset > transfer->mem->bytes ||
        transfer->bytes > transfer->mem->bytes - transfer->local_offset ||
        !take_target(tp, transfer, is_put, &op)) {
        return BATON_TP_E_INVALID;
    }
    if (tp->state == COMM_ABORTING || tp->state == COMM_GONE) {
        return tp->failure;
    }
    if (tp->count == NCCL_SLOTS) {
        return BATON_TP_AGAIN;
    }
    if (tp->count == 0 && tp->state == COMM_READY) {
        tp->since_ns = baton_clock_monotonic_ns();
    }
    op.bytes = transfer->mem->base + transfer->local_offset;
    op.size = transfer->bytes;
    tp->queue[(tp->first + tp->count) % NCCL_SLOTS] = op;
    tp->count++;
    return BATON_TP_PENDING;
}

static int nccl_put(struct baton_tp *tp, const struct baton_tp_transfer *transfer)
{
    return enqueue(tp, transfer, true);
}

static int nccl_get(struct baton_tp *tp, const struct baton_tp_transfer *transfer)
{
    return enqueue(tp, transfer, false);
}

static ncclResult_t call(struct baton_tp *tp, const struct op *op)
{
    if (op->kind == OP_SEND) {
        return tp->nccl.send(op->bytes, op->size, ncclUint8, op->rank, tp->comm, tp->stream);
    }
    if (op->kind == OP_RECV) {
        return tp->nccl.recv(op->bytes, op->size, ncclUint8, op->rank, tp->comm, tp->stream);
    }
    return tp->nccl.broadcast(op->bytes, op->bytes, op->size, ncclUint8, op->rank, tp->comm,
                              tp->stream);
}

/* False: nothing further can be launched yet. */
static bool launch(struct baton_tp *tp, struct op *op, void *landed, uint64_t now_ns)
{
    ncclResult_t error = ncclSuccess;
    if (op->state == OP_QUEUED) {
        error = call(tp, op);
        op->state = OP_LAUNCHED;
    } else if (tp->nccl.comm_get_async_error(tp->comm, &error) != ncclSuccess) {
        error = ncclInternalError;
    }
    if (error == ncclInProgress) {
        return false;
    }
    if (error != ncclSuccess ||
        !nccl_cuda_ok(tp, tp->cuda->event_record(landed, tp->stream), "recording an event")) {
        comm_abort(tp, now_ns, BATON_TP_E_PEER_LOST, tp->nccl.describe(error));
        return false;
    }
    op->state = OP_FLYING;
    return true;
}

/* Keeps a few on the stream, one behind the other. */
static void launch_some(struct baton_tp *tp, uint64_t now_ns)
{
    bool goes_on = true;
    for (uint32_t i = 0; goes_on && i < tp->count && i < NCCL_FLIGHTS; i++) {
        uint32_t place = (tp->first + i) % NCCL_SLOTS;
        struct op *op = &tp->queue[place];
        goes_on = op->state == OP_FLYING || launch(tp, op, tp->landed[place], now_ns);
    }
}

/* Whether the oldest has ended, and how. */
static bool has_ended(struct baton_tp *tp, uint64_t now_ns, int32_t *result)
{
    int busy = 1;
    *result = tp->failure;
    if (tp->state == COMM_GONE) {
        return true;
    }
    if (tp->state != COMM_READY || tp->queue[tp->first].state != OP_FLYING) {
        return false;
    }
    if (!nccl_cuda_ok(tp, tp->cuda->event_query(tp->landed[tp->first], &busy), "a transfer")) {
        comm_abort(tp, now_ns, BATON_TP_E_INTERNAL, "the device failed");
        return false;
    }
    *result = BATON_TP_OK;
    return !busy;
}

static int nccl_poll(struct baton_tp *tp, uint64_t now_ns, struct baton_tp_completion *out,
                     uint32_t out_max, uint32_t *out_count)
{
    *out_count = 0;
    if (!nccl_cuda_ok(tp, tp->cuda->use(tp->device), "the device")) {
        return BATON_TP_E_INTERNAL;
    }
    comm_step(tp, now_ns);
    if (tp->state == COMM_READY) {
        launch_some(tp, now_ns);
    }
    int32_t result = BATON_TP_OK;
    while (tp->count > 0 && *out_count < out_max && has_ended(tp, now_ns, &result)) {
        const struct op *op = &tp->queue[tp->first];
        uint64_t moved = result == BATON_TP_OK ? op->size : 0;
        out[(*out_count)++] = (struct baton_tp_completion){ op->op_id, moved, result, 0 };
        tp->first = (tp->first + 1) % NCCL_SLOTS;
        tp->count--;
        tp->since_ns = now_ns;
    }
    return BATON_TP_OK;
}

static const struct baton_transport_plugin table = {
    .size = sizeof(table),
    .abi_major = BATON_TP_ABI_MAJOR,
    .abi_minor = BATON_TP_ABI_MINOR,
    .name = "nccl",
    .version = "1",
    .open = nccl_open,
    .close = nccl_close,
    .query = nccl_query,
    .address = nccl_address,
    .mem_register = nccl_mem_register,
    .mem_release = nccl_mem_release,
    .put = nccl_put,
    .get = nccl_get,
    .poll = nccl_poll,
};

__attribute__((visibility("default"))) baton_transport_plugin_v1_fn baton_transport_plugin_v1;

const struct baton_transport_plugin *baton_transport_plugin_v1(void)
{
    return &table;
}
