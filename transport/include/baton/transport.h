/* transport.h -- the host of transport backends: open one by name, move bytes, wait with a
 * deadline.
 *
 * Built in: "memory" and "file".  Any other name must be the path of a shared object ('/' in it)
 * that keeps transport_plugin.h; it is loaded with local symbols, all resolved, and never
 * unloaded. The host checks every table and every capability before use and turns results into
 * statuses; a plugin that breaks its rules is refused by name, never trusted.
 *
 * Depends on: api/base, transport_plugin.h.  Threads: one at a time for each opened transport;
 * different ones may run in parallel.  Ownership: baton_transport_open() gives, _close() takes;
 * memory is released before its transport is closed. */
#ifndef BATON_TRANSPORT_H
#define BATON_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "api/base/bytes.h"
#include "api/base/status.h"
#include "transport/include/baton/transport_plugin.h"

struct baton_transport;

/* The remote side of a transfer, borrowed for the call. */
struct baton_transport_range {
    struct baton_bytes peer; /* Empty where the backend needs no address. */
    struct baton_bytes key;
    uint64_t offset;
};

/* The local side. */
struct baton_transport_local {
    struct baton_tp_mem *mem;
    uint64_t offset;
    uint64_t bytes;
};

/* Opens by name or path.  NOT_FOUND: no such backend; INVALID_ARGUMENT: 'config' is not what the
 * backend takes; UNIMPLEMENTED: what it needs is not on this machine; FAILED_PRECONDITION
 * INCOMPATIBLE: not a plugin of this major, or its table is not whole. */
BATON_MUST_USE struct baton_status baton_transport_open(const char *name, const char *config,
                                                        struct baton_transport **out);
/* The same for a table at hand, which must outlive the transport. */
BATON_MUST_USE struct baton_status baton_transport_open_plugin(
    const struct baton_transport_plugin *plugin, const char *config, struct baton_transport **out);
void baton_transport_close(struct baton_transport *transport);

const char *baton_transport_name(const struct baton_transport *transport);
struct baton_tp_attr baton_transport_attr(const struct baton_transport *transport);
/* Copies this transport's address; '*out_bytes' is 0 where it needs none. */
BATON_MUST_USE struct baton_status baton_transport_address(const struct baton_transport *transport,
                                                           uint8_t out[BATON_TP_ADDRESS_BYTES_MAX],
                                                           uint32_t *out_bytes);

/* Registers memory; 'name' may be empty; 'access' is BATON_TP_ACCESS_* or 0. */
BATON_MUST_USE struct baton_status baton_transport_register(struct baton_transport *transport,
                                                            void *base, uint64_t bytes,
                                                            struct baton_bytes name,
                                                            uint32_t access,
                                                            struct baton_tp_mem **out);
void baton_transport_release(struct baton_transport *transport, struct baton_tp_mem *mem);
/* Copies the key by which peers reach exported memory. */
BATON_MUST_USE struct baton_status baton_transport_key(const struct baton_transport *transport,
                                                       const struct baton_tp_mem *mem,
                                                       uint8_t out[BATON_TP_KEY_BYTES_MAX],
                                                       uint32_t *out_bytes);

/* Start a transfer.  OK with '*accepted': the end comes from poll.  OK without: no slot; poll, then
 * try again.  UNIMPLEMENTED: the backend cannot. */
BATON_MUST_USE struct baton_status baton_transport_get(struct baton_transport *transport,
                                                       struct baton_transport_range from,
                                                       struct baton_transport_local to,
                                                       uint64_t op_id, bool *accepted);
BATON_MUST_USE struct baton_status baton_transport_put(struct baton_transport *transport,
                                                       struct baton_transport_range to,
                                                       struct baton_transport_local from,
                                                       uint64_t op_id, bool *accepted);
/* Asks for the size of an object; it comes as 'bytes' of the completion. */
BATON_MUST_USE struct baton_status baton_transport_length(struct baton_transport *transport,
                                                          struct baton_transport_range of,
                                                          uint64_t op_id, bool *accepted);
BATON_MUST_USE struct baton_status baton_transport_cancel(struct baton_transport *transport,
                                                          uint64_t op_id);

/* Makes progress; '*out_count' completions are written, at most 'out_max'. */
BATON_MUST_USE struct baton_status baton_transport_poll(struct baton_transport *transport,
                                                        struct baton_tp_completion *out,
                                                        uint32_t out_max, uint32_t *out_count);

/* What a completion's result means: OK, or UNAVAILABLE (UNREACHABLE, PEER_LOST), DATA_LOSS
 * (CORRUPT), CANCELLED, ...; 'what' names the object in the message. */
BATON_MUST_USE struct baton_status baton_transport_result(const struct baton_transport *transport,
                                                          int32_t result, const char *what);

/* The two calls below serve transports on which nothing else is in flight.  They wait at most
 * 'timeout_ns', then cancel and fail with DEADLINE_EXCEEDED; after that failure the transport must
 * be closed before the registered memory is used again. */
BATON_MUST_USE struct baton_status baton_transport_get_wait(struct baton_transport *transport,
                                                            struct baton_transport_range from,
                                                            struct baton_transport_local to,
                                                            uint64_t timeout_ns);
BATON_MUST_USE struct baton_status baton_transport_length_wait(struct baton_transport *transport,
                                                               struct baton_transport_range of,
                                                               uint64_t timeout_ns, uint64_t *out);

#endif /* transport.h */
