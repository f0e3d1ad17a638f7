/* memory.c -- backend "memory": transports of one process reach each other's registered memory.
 *
 * The reference: the smallest backend that can do everything, and the example to copy.  Its
 * "network" is one table of open transports for the whole process, behind one lock; an address is a
 * number in that table which is never given twice, so that a closed peer is told from a new one.
 * get(), put() and length() only queue; poll() serves one operation a call. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "transport/memory/memory_plugin.h"

enum {
    PEERS_MAX = 256,
    SLOTS = 64,
    ADDRESS_BYTES = 8,
    TRANSFER_BYTES_MAX = 64 << 20,
};

struct baton_tp_mem {
    struct baton_tp_mem *next; /* In its transport's list. */
    uint8_t *base;
    uint64_t bytes;
    uint32_t access;
    uint32_t key_bytes;
    uint8_t key[BATON_TP_KEY_BYTES_MAX];
};

enum op_kind { OP_GET, OP_PUT, OP_LENGTH };

struct op {
    uint64_t op_id;
    uint64_t peer;
    uint8_t *local;
    uint64_t offset;
    uint64_t bytes;
    enum op_kind kind;
    bool cancelled;
    uint32_t key_bytes;
    uint8_t key[BATON_TP_KEY_BYTES_MAX];
};

struct baton_tp {
    uint64_t address;
    uint64_t next_key;         /* For memory without a name. */
    struct baton_tp_mem *mems; /* Read by peers: under the lock. */
    struct op queue[SLOTS];    /* A ring. */
    uint32_t first;
    uint32_t count;
};

static struct {
    pthread_mutex_t lock;
    uint64_t next_address;
    struct baton_tp *peers[PEERS_MAX]; /* Null: free. */
} network = { .lock = PTHREAD_MUTEX_INITIALIZER, .next_address = 1 };

/* Under the lock. */
static struct baton_tp *find_peer(uint64_t address)
{
    for (size_t i = 0; i < PEERS_MAX; i++) {
        if (network.peers[i] != NULL && network.peers[i]->address == address) {
            return network.peers[i];
        }
    }
    return NULL;
}

/* Under the lock. */
static bool join(struct baton_tp *tp)
{
    for (size_t i = 0; i < PEERS_MAX; i++) {
        if (network.peers[i] == NULL) {
            network.peers[i] = tp;
            tp->address = network.next_address++;
            return true;
        }
    }
    return false;
}

/* Takes "{}" or nothing: there is nothing to configure. */
static bool is_empty_config(const char *config)
{
    return config == NULL || config[strspn(config, " \t\r\n{}")] == '\0';
}

static int memory_open(const struct baton_tp_host *host, const char *config, struct baton_tp **out)
{
    (void)host;
    if (!is_empty_config(config)) {
        return BATON_TP_E_INVALID;
    }
    struct baton_tp *tp = calloc(1, sizeof(*tp));
    if (tp == NULL) {
        return BATON_TP_E_INTERNAL;
    }
    pthread_mutex_lock(&network.lock);
    bool joined = join(tp);
    pthread_mutex_unlock(&network.lock);
    if (!joined) {
        free(tp);
        return BATON_TP_E_UNREACHABLE;
    }
    *out = tp;
    return BATON_TP_OK;
}

static void memory_close(struct baton_tp *tp)
{
    pthread_mutex_lock(&network.lock);
    for (size_t i = 0; i < PEERS_MAX; i++) {
        if (network.peers[i] == tp) {
            network.peers[i] = NULL;
        }
    }
    pthread_mutex_unlock(&network.lock);
    while (tp->mems != NULL) {
        struct baton_tp_mem *next = tp->mems->next;
        free(tp->mems);
        tp->mems = next;
    }
    free(tp);
}

static int memory_query(const struct baton_tp *tp, struct baton_tp_attr *attr)
{
    (void)tp;
    if (attr->size < sizeof(*attr)) {
        return BATON_TP_E_INVALID;
    }
    *attr = (struct baton_tp_attr){
        .size = sizeof(*attr),
        .caps = BATON_TP_CAP_PUT | BATON_TP_CAP_GET | BATON_TP_CAP_CANCEL | BATON_TP_CAP_NAMED |
                BATON_TP_CAP_LENGTH | BATON_TP_CAP_EXPORT | BATON_TP_CAP_CHECKSUM,
        .transfer_bytes_max = TRANSFER_BYTES_MAX,
        .transfers_max = SLOTS,
        .address_bytes = ADDRESS_BYTES,
    };
    return BATON_TP_OK;
}

static int memory_address(const struct baton_tp *tp, uint8_t *out, uint32_t *out_bytes)
{
    if (*out_bytes < ADDRESS_BYTES) {
        return BATON_TP_E_INVALID;
    }
    memcpy(out, &tp->address, ADDRESS_BYTES);
    *out_bytes = ADDRESS_BYTES;
    return BATON_TP_OK;
}

/* Under the lock. */
static struct baton_tp_mem *find_mem(const struct baton_tp *tp, const uint8_t *key,
                                     uint32_t key_bytes)
{
    for (struct baton_tp_mem *mem = tp->mems; mem != NULL; mem = mem->next) {
        if (mem->key_bytes == key_bytes && memcmp(mem->key, key, key_bytes) == 0) {
            return mem;
        }
    }
    return NULL;
}

/* Under the lock: a name, or a number of our own behind a zero byte, which no name has. */
static bool set_key(struct baton_tp *tp, const struct baton_tp_memory *memory,
                    struct baton_tp_mem *mem)
{
    if (memory->name_bytes > 0) {
        memcpy(mem->key, memory->name, memory->name_bytes);
        mem->key_bytes = memory->name_bytes;
    } else {
        mem->key[0] = 0;
        memcpy(mem->key + 1, &tp->next_key, sizeof(tp->next_key));
        mem->key_bytes = 1 + sizeof(tp->next_key);
        tp->next_key++;
    }
    return find_mem(tp, mem->key, mem->key_bytes) == NULL;
}

static int memory_mem_register(struct baton_tp *tp, const struct baton_tp_memory *memory,
                               struct baton_tp_mem **out)
{
    if (memory->size < sizeof(*memory) || (memory->base == NULL && memory->bytes > 0) ||
        memory->name_bytes > BATON_TP_KEY_BYTES_MAX ||
        (memory->name_bytes > 0 && memchr(memory->name, 0, memory->name_bytes) != NULL)) {
        return BATON_TP_E_INVALID;
    }
    struct baton_tp_mem *mem = calloc(1, sizeof(*mem));
    if (mem == NULL) {
        return BATON_TP_E_INTERNAL;
    }
    mem->base = memory->base;
    mem->bytes = memory->bytes;
    mem->access = memory->access;
    pthread_mutex_lock(&network.lock);
    bool fresh = set_key(tp, memory, mem);
    if (fresh) {
        mem->next = tp->mems;
        tp->mems = mem;
    }
    pthread_mutex_unlock(&network.lock);
    if (!fresh) {
        free(mem);
        return BATON_TP_E_INVALID;
    }
    *out = mem;
    return BATON_TP_OK;
}

static void memory_mem_release(struct baton_tp *tp, struct baton_tp_mem *mem)
{
    pthread_mutex_lock(&network.lock);
    struct baton_tp_mem **link = &tp->mems;
    while (*link != NULL && *link != mem) {
        link = &(*link)->next;
    }
    bool found = *link == mem;
    if (found) {
        *link = mem->next;
    }
    pthread_mutex_unlock(&network.lock);
    if (found) {
        free(mem);
    }
}

static int memory_key(const struct baton_tp *tp, const struct baton_tp_mem *mem, uint8_t *out,
                      uint32_t *out_bytes)
{
    (void)tp;
    if (mem->access == 0 || *out_bytes < mem->key_bytes) {
        return BATON_TP_E_INVALID;
    }
    memcpy(out, mem->key, mem->key_bytes);
    *out_bytes = mem->key_bytes;
    return BATON_TP_OK;
}

static int enqueue(struct baton_tp *tp, const struct baton_tp_transfer *transfer, enum op_kind kind,
                   uint8_t *local)
{
    if (transfer->peer_bytes != ADDRESS_BYTES || transfer->key_bytes == 0 ||
        transfer->key_bytes > BATON_TP_KEY_BYTES_MAX) {
        return BATON_TP_E_INVALID;
    }
    if (tp->count == SLOTS) {
        return BATON_TP_AGAIN;
    }
    struct op *op = &tp->queue[(tp->first + tp->count) % SLOTS];
    op->op_id = transfer->op_id;
    memcpy(&op->peer, transfer->peer, ADDRESS_BYTES);
    op->local = local;
    op->offset = transfer->remote_offset;
    op->bytes = transfer->bytes;
    op->kind = kind;
    op->cancelled = false;
    op->key_bytes = transfer->key_bytes;
    memcpy(op->key, transfer->key, transfer->key_bytes);
    tp->count++;
    return BATON_TP_PENDING;
}

static int move(struct baton_tp *tp, const struct baton_tp_transfer *transfer, enum op_kind kind)
{
    if (transfer->size < sizeof(*transfer) || transfer->mem == NULL ||
        transfer->bytes > TRANSFER_BYTES_MAX || transfer->local_offset > transfer->mem->bytes ||
        transfer->bytes > transfer->mem->bytes - transfer->local_offset) {
        return BATON_TP_E_INVALID;
    }
    return enqueue(tp, transfer, kind, transfer->mem->base + transfer->local_offset);
}

static int memory_put(struct baton_tp *tp, const struct baton_tp_transfer *transfer)
{
    return move(tp, transfer, OP_PUT);
}

static int memory_get(struct baton_tp *tp, const struct baton_tp_transfer *transfer)
{
    return move(tp, transfer, OP_GET);
}

static int memory_length(struct baton_tp *tp, const struct baton_tp_transfer *transfer)
{
    if (transfer->size < sizeof(*transfer)) {
        return BATON_TP_E_INVALID;
    }
    return enqueue(tp, transfer, OP_LENGTH, NULL);
}

static int memory_cancel(struct baton_tp *tp, uint64_t op_id)
{
    for (uint32_t i = 0; i < tp->count; i++) {
        struct op *op = &tp->queue[(tp->first + i) % SLOTS];
        if (op->op_id == op_id) {
            op->cancelled = true;
            return BATON_TP_OK;
        }
    }
    return BATON_TP_E_INVALID;
}

/* Under the lock: moves what the range has; less than asked is CORRUPT. */
static int copy(const struct op *op, const struct baton_tp_mem *mem, uint64_t *moved)
{
    uint32_t needed = op->kind == OP_PUT ? BATON_TP_ACCESS_WRITE : BATON_TP_ACCESS_READ;
    if ((mem->access & needed) == 0) {
        return BATON_TP_E_DENIED;
    }
    uint64_t there = op->offset < mem->bytes ? mem->bytes - op->offset : 0;
    uint64_t bytes = op->bytes < there ? op->bytes : there;
    if (bytes > 0 && op->kind == OP_PUT) {
        memcpy(mem->base + op->offset, op->local, bytes);
    } else if (bytes > 0) {
        memcpy(op->local, mem->base + op->offset, bytes);
    }
    *moved = bytes;
    return bytes < op->bytes ? BATON_TP_E_CORRUPT : BATON_TP_OK;
}

static struct baton_tp_completion serve(const struct op *op)
{
    struct baton_tp_completion done = { op->op_id, 0, BATON_TP_E_CANCELLED, 0 };
    if (op->cancelled) {
        return done;
    }
    pthread_mutex_lock(&network.lock);
    const struct baton_tp *peer = find_peer(op->peer);
    const struct baton_tp_mem *mem = peer == NULL ? NULL : find_mem(peer, op->key, op->key_bytes);
    if (mem == NULL || mem->access == 0) {
        done.result = BATON_TP_E_UNREACHABLE;
    } else if (op->kind == OP_LENGTH) {
        done.bytes = mem->bytes;
        done.result = BATON_TP_OK;
    } else {
        done.result = copy(op, mem, &done.bytes);
    }
    pthread_mutex_unlock(&network.lock);
    return done;
}

static int memory_poll(struct baton_tp *tp, uint64_t now_ns, struct baton_tp_completion *out,
                       uint32_t out_max, uint32_t *out_count)
{
    (void)now_ns;
    *out_count = 0;
    if (tp->count > 0 && out_max > 0) {
        out[0] = serve(&tp->queue[tp->first]);
        tp->first = (tp->first + 1) % SLOTS;
        tp->count--;
        *out_count = 1;
    }
    return BATON_TP_OK;
}

static const struct baton_transport_plugin table = {
    .size = sizeof(table),
    .abi_major = BATON_TP_ABI_MAJOR,
    .abi_minor = BATON_TP_ABI_MINOR,
    .name = "memory",
    .version = "1",
    .open = memory_open,
    .close = memory_close,
    .query = memory_query,
    .address = memory_address,
    .mem_register = memory_mem_register,
    .mem_release = memory_mem_release,
    .key = memory_key,
    .put = memory_put,
    .get = memory_get,
    .length = memory_length,
    .cancel = memory_cancel,
    .poll = memory_poll,
};

const struct baton_transport_plugin *memory_plugin(void)
{
    return &table;
}
