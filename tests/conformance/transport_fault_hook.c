/* transport_fault_hook.c -- a backend that wraps any other one and makes one transfer go wrong.
 *
 * Config: {"backend": "file", "config": {...}, "fault": "none|fail|damage|hang|again", "at": n,
 * "result": r}.  The n-th get() (from 1) of this opened transport fails with result r, arrives
 * with one bit flipped, is never reported until cancelled, or is answered AGAIN once.  Without a
 * fault it passes everything through, and so passes the conformance suite itself. */
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "transport/host/registry.h"

enum fault { FAULT_NONE, FAULT_FAIL, FAULT_DAMAGE, FAULT_HANG, FAULT_AGAIN };

struct baton_tp_mem {
    struct baton_tp_mem *next;      /* In its transport's list. */
    struct baton_tp_mem *inner_mem; /* The wrapped backend's. */
    uint8_t *base;
};

struct baton_tp {
    const struct baton_transport_plugin *inner;
    struct baton_tp *inner_tp;
    struct baton_tp_mem *mems;
    enum fault fault;
    uint64_t at;
    int result;
    uint64_t gets;
    bool armed;      /* The n-th transfer is under way. */
    bool cancelled;  /* It hung and was cancelled. */
    uint64_t op_id;  /* Which. */
    uint8_t *victim; /* Its first byte. */
    uint64_t bytes;
};

static enum fault parse_fault(const char *name)
{
    static const char *const names[] = { "none", "fail", "damage", "hang", "again" };
    for (int i = 0; i < 5; i++) {
        if (name != NULL && strcmp(name, names[i]) == 0) {
            return (enum fault)i;
        }
    }
    return FAULT_NONE;
}

static int open_inner(const struct baton_tp_host *host, const char *backend, const char *config,
                      struct baton_tp *tp)
{
    struct baton_status st = registry_find(backend, &tp->inner);
    return baton_ok(&st) ? tp->inner->open(host, config, &tp->inner_tp) : BATON_TP_E_UNREACHABLE;
}

static int hook_open(const struct baton_tp_host *host, const char *config, struct baton_tp **out)
{
    const char *backend = NULL;
    json_t *inner = NULL;
    const char *fault = NULL;
    json_int_t at = 0;
    int result = BATON_TP_E_PEER_LOST;
    json_t *top = json_loads(config, 0, NULL);
    if (json_unpack(top, "{s:s, s:o, s?s, s?I, s?i !}", "backend", &backend, "config", &inner,
                    "fault", &fault, "at", &at, "result", &result) != 0) {
        json_decref(top);
        return BATON_TP_E_INVALID;
    }
    struct baton_tp *tp = calloc(1, sizeof(*tp));
    char *inner_config = json_dumps(inner, 0);
    tp->fault = parse_fault(fault);
    tp->at = (uint64_t)at;
    tp->result = result;
    int opened = open_inner(host, backend, inner_config, tp);
    free(inner_config);
    json_decref(top);
    if (opened < 0) {
        free(tp);
        return opened;
    }
    *out = tp;
    return opened;
}

static void hook_close(struct baton_tp *tp)
{
    tp->inner->close(tp->inner_tp);
    while (tp->mems != NULL) {
        struct baton_tp_mem *next = tp->mems->next;
        free(tp->mems);
        tp->mems = next;
    }
    free(tp);
}

static int hook_query(const struct baton_tp *tp, struct baton_tp_attr *attr)
{
    return tp->inner->query(tp->inner_tp, attr);
}

static int hook_address(const struct baton_tp *tp, uint8_t *out, uint32_t *out_bytes)
{
    return BATON_TP_HAS(tp->inner, address) ? tp->inner->address(tp->inner_tp, out, out_bytes)
                                            : BATON_TP_E_UNSUPPORTED;
}

static int hook_mem_register(struct baton_tp *tp, const struct baton_tp_memory *memory,
                             struct baton_tp_mem **out)
{
    struct baton_tp_mem *mem = calloc(1, sizeof(*mem));
    mem->base = memory->base;
    int result = tp->inner->mem_register(tp->inner_tp, memory, &mem->inner_mem);
    if (result < 0) {
        free(mem);
        return result;
    }
    mem->next = tp->mems;
    tp->mems = mem;
    *out = mem;
    return result;
}

static void hook_mem_release(struct baton_tp *tp, struct baton_tp_mem *mem)
{
    struct baton_tp_mem **link = &tp->mems;
    while (*link != mem) {
        link = &(*link)->next;
    }
    *link = mem->next;
    tp->inner->mem_release(tp->inner_tp, mem->inner_mem);
    free(mem);
}

static int hook_key(const struct baton_tp *tp, const struct baton_tp_mem *mem, uint8_t *out,
                    uint32_t *out_bytes)
{
    return BATON_TP_HAS(tp->inner, key)
               ? tp->inner->key(tp->inner_tp, mem->inner_mem, out, out_bytes)
               : BATON_TP_E_UNSUPPORTED;
}

static struct baton_tp_transfer unwrap(const struct baton_tp_transfer *transfer)
{
    struct baton_tp_transfer inner = *transfer;
    inner.mem = transfer->mem == NULL ? NULL : transfer->mem->inner_mem;
    return inner;
}

static int hook_put(struct baton_tp *tp, const struct baton_tp_transfer *transfer)
{
    struct baton_tp_transfer inner = unwrap(transfer);
    return BATON_TP_HAS(tp->inner, put) ? tp->inner->put(tp->inner_tp, &inner)
                                        : BATON_TP_E_UNSUPPORTED;
}

static int hook_length(struct baton_tp *tp, const struct baton_tp_transfer *transfer)
{
    struct baton_tp_transfer inner = unwrap(transfer);
    return BATON_TP_HAS(tp->inner, length) ? tp->inner->length(tp->inner_tp, &inner)
                                           : BATON_TP_E_UNSUPPORTED;
}

static int hook_get(struct baton_tp *tp, const struct baton_tp_transfer *transfer)
{
    struct baton_tp_transfer inner = unwrap(transfer);
    bool chosen = tp->fault != FAULT_NONE && ++tp->gets == tp->at;
    if (chosen && tp->fault == FAULT_AGAIN) {
        return BATON_TP_AGAIN;
    }
    if (chosen) {
        tp->armed = true;
        tp->op_id = transfer->op_id;
        tp->victim = transfer->mem == NULL ? NULL : transfer->mem->base + transfer->local_offset;
        tp->bytes = transfer->bytes;
    }
    if (chosen && tp->fault == FAULT_HANG) {
        return BATON_TP_PENDING;
    }
    return tp->inner->get(tp->inner_tp, &inner);
}

static int hook_cancel(struct baton_tp *tp, uint64_t op_id)
{
    if (tp->armed && tp->fault == FAULT_HANG && tp->op_id == op_id) {
        tp->cancelled = true;
        return BATON_TP_OK;
    }
    return tp->inner->cancel(tp->inner_tp, op_id);
}

/* What the fault makes of the completion. */
static void spoil(struct baton_tp *tp, struct baton_tp_completion *done)
{
    if (!tp->armed || tp->op_id != done->op_id) {
        return;
    }
    tp->armed = false;
    if (tp->fault == FAULT_FAIL) {
        done->result = tp->result;
        done->bytes = 0;
    } else if (tp->fault == FAULT_DAMAGE && tp->bytes > 0) {
        tp->victim[tp->bytes / 2] ^= 1;
    }
}

static int hook_poll(struct baton_tp *tp, uint64_t now_ns, struct baton_tp_completion *out,
                     uint32_t out_max, uint32_t *out_count)
{
    if (tp->cancelled && out_max > 0) {
        tp->cancelled = false;
        tp->armed = false;
        out[0] = (struct baton_tp_completion){ tp->op_id, 0, BATON_TP_E_CANCELLED, 0 };
        *out_count = 1;
        return BATON_TP_OK;
    }
    int result = tp->inner->poll(tp->inner_tp, now_ns, out, out_max, out_count);
    for (uint32_t i = 0; result >= 0 && i < *out_count; i++) {
        spoil(tp, &out[i]);
    }
    return result;
}

static const struct baton_transport_plugin table = {
    .size = sizeof(table),
    .abi_major = BATON_TP_ABI_MAJOR,
    .abi_minor = BATON_TP_ABI_MINOR,
    .name = "fault_hook",
    .version = "1",
    .open = hook_open,
    .close = hook_close,
    .query = hook_query,
    .address = hook_address,
    .mem_register = hook_mem_register,
    .mem_release = hook_mem_release,
    .key = hook_key,
    .put = hook_put,
    .get = hook_get,
    .length = hook_length,
    .cancel = hook_cancel,
    .poll = hook_poll,
};

__attribute__((visibility("default"))) baton_transport_plugin_v1_fn baton_transport_plugin_v1;

const struct baton_transport_plugin *baton_transport_plugin_v1(void)
{
    return &table;
}
