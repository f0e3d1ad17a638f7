/* transport_plugin.h -- the binary interface between Baton and a transport backend, major 1.
 *
 * A backend moves bytes between registered memory here and *ranges* elsewhere.  A range is named by
 * the address of its peer and a key, both opaque bytes that the control plane carries: the key of
 * memory that a peer registered, or, where the backend has NAMED, the name of an object (a file).
 *
 * Rules, each checked by tests/conformance/transport_conformance.c or by the host:
 * - A plugin is a shared object with one exported symbol, baton_transport_plugin_v1, which returns
 *   a constant table.  Within major 1 members are only appended; the host asks for size and pointer
 *   (BATON_TP_HAS) before it calls one.
 * - Every struct that crosses begins with its size, except completions, which never grow.
 * - Nothing blocks but open() and close().  put(), get() and length() answer OK, PENDING or AGAIN;
 *   progress happens only inside poll(), which does a bounded amount of work.
 * - Exactly one completion for each operation that answered OK or PENDING, also after cancel() or
 *   the loss of the peer.  close() completes or discards all of them, then releases the memory that
 *   is still registered, before it returns.
 * - One thread at a time for each opened transport; different ones may run in parallel.
 * - No callback but log().  No signal handler, no exit, no reading of the environment.
 * - Missing hardware is an answer of open(): UNSUPPORTED.
 * - A partial transfer is a failure; 'bytes' of its completion says how far it came.
 * - Strings and bytes given to a call are read during the call only.
 *
 * Self-contained: needs the C library's stddef.h and stdint.h only.  C11 and C++14.
 * Ownership: what a plugin allocates, it frees. */
#ifndef BATON_TRANSPORT_PLUGIN_H
#define BATON_TRANSPORT_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { BATON_TP_ABI_MAJOR = 1, BATON_TP_ABI_MINOR = 0 };
enum { BATON_TP_ADDRESS_BYTES_MAX = 256, BATON_TP_KEY_BYTES_MAX = 1024 };

/* Results.  Not negative: no failure.  The set may grow; a host reads an unknown negative one as
 * INTERNAL. */
enum baton_tp_result {
    BATON_TP_OK = 0,      /* Done or accepted. */
    BATON_TP_PENDING = 1, /* Accepted; poll() will report this op_id. */
    BATON_TP_AGAIN = 2,   /* Not accepted, no slot; nothing started; call again after poll(). */
    BATON_TP_E_INVALID = -1,
    BATON_TP_E_UNREACHABLE = -2, /* The peer or the object is not there; later it may be. */
    BATON_TP_E_PEER_LOST = -3,   /* It was there and went away during the transfer. */
    BATON_TP_E_CORRUPT = -4,     /* Fewer or other bytes than must be there. */
    BATON_TP_E_UNSUPPORTED = -5,
    BATON_TP_E_INTERNAL = -6,
    BATON_TP_E_CANCELLED = -7,
    BATON_TP_E_DENIED = -8, /* The peer does not allow it. */
};

/* Capabilities.  A set bit promises that the operations it names are in the table. */
#define BATON_TP_CAP_PUT         (UINT64_C(1) << 0)
#define BATON_TP_CAP_GET         (UINT64_C(1) << 1)
#define BATON_TP_CAP_MULTICAST   (UINT64_C(1) << 2)
#define BATON_TP_CAP_CROSS_HOST  (UINT64_C(1) << 3)
#define BATON_TP_CAP_CUDA_MEMORY (UINT64_C(1) << 4)
#define BATON_TP_CAP_CHECKSUM    (UINT64_C(1) << 5) /* Damage on the way is found by the backend. */
#define BATON_TP_CAP_CANCEL      (UINT64_C(1) << 6)
#define BATON_TP_CAP_NAMED       (UINT64_C(1) << 7) /* Keys may be names of objects. */
#define BATON_TP_CAP_LENGTH      (UINT64_C(1) << 8) /* length() tells an object's size. */
#define BATON_TP_CAP_EXPORT      (UINT64_C(1) << 9) /* Peers reach memory of this side. */

/* Access to registered memory by peers (struct baton_tp_memory). */
#define BATON_TP_ACCESS_READ  (UINT32_C(1) << 0)
#define BATON_TP_ACCESS_WRITE (UINT32_C(1) << 1)

struct baton_tp;     /* One opened transport; the plugin's. */
struct baton_tp_mem; /* One registered range; the plugin's. */

/* What the host lends; valid from open() to the return of close(). */
struct baton_tp_host {
    size_t size;
    void *self;
    void (*log)(void *self, int32_t level,
                const char *line); /* 0 error, 1 warn, 2 info, 3 debug. */
};

struct baton_tp_attr {
    size_t size; /* In: bytes that the host knows.  Out: bytes that the plugin filled. */
    uint64_t caps;
    uint64_t transfer_bytes_max;
    uint32_t transfers_max; /* Accepted and not yet reported, at once. */
    uint32_t address_bytes; /* Of address(); at most BATON_TP_ADDRESS_BYTES_MAX; 0: needs none. */
};

/* A range of local memory to register.  With EXPORT and 'access' peers reach it, by the key that
 * key() gives; with NAMED and a name, that name is its key. */
struct baton_tp_memory {
    size_t size;
    void *base;
    uint64_t bytes;
    const uint8_t *name;
    uint32_t name_bytes;
    uint32_t access; /* BATON_TP_ACCESS_*; 0: for local use only. */
};

struct baton_tp_transfer {
    size_t size;
    const uint8_t *peer;
    const uint8_t *key;
    struct baton_tp_mem *mem; /* The local side; null for length(). */
    uint64_t remote_offset;
    uint64_t local_offset;
    uint64_t bytes;
    uint64_t op_id; /* The host's; unique among those not yet reported. */
    uint32_t peer_bytes;
    uint32_t key_bytes;
};

struct baton_tp_completion {
    uint64_t op_id;
    uint64_t bytes; /* Moved; of length(): the object's size. */
    int32_t result; /* enum baton_tp_result; never PENDING or AGAIN. */
    uint32_t reserved;
};

struct baton_transport_plugin {
    size_t size;
    uint32_t abi_major;
    uint32_t abi_minor;
    const char *name;    /* Lower case, [a-z0-9_], stable: it appears in the API and in logs. */
    const char *version; /* For people. */

    /* Minor 0.  'config' is a JSON object as text; unknown keys are refused. */
    int (*open)(const struct baton_tp_host *host, const char *config, struct baton_tp **out);
    void (*close)(struct baton_tp *tp);
    int (*query)(const struct baton_tp *tp, struct baton_tp_attr *attr);
    /* In: room.  Out: used. */
    int (*address)(const struct baton_tp *tp, uint8_t *out, uint32_t *out_bytes);
    int (*mem_register)(struct baton_tp *tp, const struct baton_tp_memory *memory,
                        struct baton_tp_mem **out);
    /* Valid until mem_release(), which the host calls when no operation uses it. */
    void (*mem_release)(struct baton_tp *tp, struct baton_tp_mem *mem);
    int (*key)(const struct baton_tp *tp, const struct baton_tp_mem *mem, uint8_t *out,
               uint32_t *out_bytes);
    int (*put)(struct baton_tp *tp, const struct baton_tp_transfer *transfer);
    int (*get)(struct baton_tp *tp, const struct baton_tp_transfer *transfer);
    int (*length)(struct baton_tp *tp, const struct baton_tp_transfer *transfer);
    /* OK: the operation will be reported, as CANCELLED unless it was done before.  INVALID: no such
     * operation (reported already). */
    int (*cancel)(struct baton_tp *tp, uint64_t op_id);
    /* Makes progress and hands out up to 'out_max' completions.  'now_ns' is a monotonic time. */
    int (*poll)(struct baton_tp *tp, uint64_t now_ns, struct baton_tp_completion *out,
                uint32_t out_max, uint32_t *out_count);
};

/* True if 'plugin' is new enough to have 'op' and fills it in. */
#define BATON_TP_HAS(plugin, op)                                                                   \
    ((plugin)->size >= offsetof(struct baton_transport_plugin, op) + sizeof((plugin)->op) &&       \
     (plugin)->op != NULL)

/* The one exported symbol of a plugin. */
typedef const struct baton_transport_plugin *baton_transport_plugin_v1_fn(void);
#define BATON_TRANSPORT_PLUGIN_SYMBOL "baton_transport_plugin_v1"

#ifdef __cplusplus
}
#endif

#endif /* transport_plugin.h */
