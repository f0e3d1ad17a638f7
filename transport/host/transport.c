/* transport.c -- the checked way into a backend's table. */
#include "transport/include/baton/transport.h"

#include <stdlib.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/base/log.h"
#include "transport/host/registry.h"

struct baton_transport {
    const struct baton_transport_plugin *plugin;
    struct baton_tp *tp;
    struct baton_tp_attr attr;
    struct baton_tp_host host; /* The plugin keeps a pointer to it. */
};

static void log_line(void *self, int32_t level, const char *line)
{
    static const enum baton_log_level levels[] = { BATON_LOG_ERROR, BATON_LOG_WARN, BATON_LOG_INFO,
                                                   BATON_LOG_DEBUG };
    const struct baton_transport *transport = self;
    enum baton_log_level known = level < 0 || level > 3 ? BATON_LOG_DEBUG : levels[level];
    struct baton_log_field field = BATON_LOG_TEXT("backend", transport->plugin->name);
    baton_log_fields(known, "transport", line, &field, 1);
}

struct baton_status baton_transport_result(const struct baton_transport *transport, int32_t result,
                                           const char *what)
{
    static const struct {
        enum baton_code code;
        enum baton_reason reason;
        const char *text;
    } meanings[] = {
        { BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD, "the backend finds the request invalid" },
        { BATON_UNAVAILABLE, BATON_REASON_IO, "not reachable" },
        { BATON_UNAVAILABLE, BATON_REASON_IO, "the peer was lost during the transfer" },
        { BATON_DATA_LOSS, BATON_REASON_TRUNCATED, "fewer or other bytes than announced" },
        { BATON_UNIMPLEMENTED, BATON_REASON_INCOMPATIBLE, "the backend cannot do this here" },
        { BATON_INTERNAL, BATON_REASON_IO, "the backend failed" },
        { BATON_CANCELLED, BATON_REASON_NONE, "cancelled" },
        { BATON_PERMISSION_DENIED, BATON_REASON_IO, "the peer does not allow it" },
    };
    if (result >= 0) {
        return baton_status_ok();
    }
    size_t index = result < BATON_TP_E_DENIED ? 5 : (size_t)(-(result + 1));
    return baton_status_make(meanings[index].code, meanings[index].reason,
                             "transport '%s': %.200s: %s", transport->plugin->name, what,
                             meanings[index].text);
}

static struct baton_status query(struct baton_transport *transport)
{
    transport->attr.size = sizeof(transport->attr);
    int result = transport->plugin->query(transport->tp, &transport->attr);
    if (result < 0) {
        return baton_transport_result(transport, result, "query");
    }
    if (transport->attr.size < sizeof(transport->attr) || transport->attr.transfers_max == 0 ||
        transport->attr.transfer_bytes_max == 0 ||
        transport->attr.address_bytes > BATON_TP_ADDRESS_BYTES_MAX) {
        return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                                 "transport '%s': query() gives attributes out of bounds",
                                 transport->plugin->name);
    }
    return registry_check_caps(transport->plugin, transport->attr.caps);
}

struct baton_status baton_transport_open_plugin(const struct baton_transport_plugin *plugin,
                                                const char *config, struct baton_transport **out)
{
    struct baton_status st = registry_check(plugin, "given table");
    if (!baton_ok(&st)) {
        return st;
    }
    struct baton_transport *transport = calloc(1, sizeof(*transport));
    if (transport == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "transport '%s': out of memory", plugin->name);
    }
    transport->plugin = plugin;
    transport->host = (struct baton_tp_host){ sizeof(transport->host), transport, log_line };
    int result = plugin->open(&transport->host, config, &transport->tp);
    if (result < 0 || transport->tp == NULL) {
        st = baton_transport_result(transport, result < 0 ? result : BATON_TP_E_INTERNAL, "open");
        free(transport);
        return st;
    }
    st = query(transport);
    if (!baton_ok(&st)) {
        baton_transport_close(transport);
        return st;
    }
    *out = transport;
    return st;
}

struct baton_status baton_transport_open(const char *name, const char *config,
                                         struct baton_transport **out)
{
    const struct baton_transport_plugin *plugin = NULL;
    struct baton_status st = registry_find(name, &plugin);
    return baton_ok(&st) ? baton_transport_open_plugin(plugin, config, out) : st;
}

void baton_transport_close(struct baton_transport *transport)
{
    if (transport != NULL) {
        transport->plugin->close(transport->tp);
        free(transport);
    }
}

const char *baton_transport_name(const struct baton_transport *transport)
{
    return transport->plugin->name;
}

struct baton_tp_attr baton_transport_attr(const struct baton_transport *transport)
{
    return transport->attr;
}

struct baton_status baton_transport_address(const struct baton_transport *transport,
                                            uint8_t out[BATON_TP_ADDRESS_BYTES_MAX],
                                            uint32_t *out_bytes)
{
    uint32_t used = BATON_TP_ADDRESS_BYTES_MAX;
    if (transport->attr.address_bytes == 0 || !BATON_TP_HAS(transport->plugin, address)) {
        *out_bytes = 0;
        return baton_status_ok();
    }
    int result = transport->plugin->address(transport->tp, out, &used);
    if (result >= 0) {
        *out_bytes = used;
    }
    return baton_transport_result(transport, result, "address");
}

struct baton_status baton_transport_register(struct baton_transport *transport, void *base,
                                             uint64_t bytes, struct baton_bytes name,
                                             uint32_t access, struct baton_tp_mem **out)
{
    if (access != 0 && (transport->attr.caps & BATON_TP_CAP_EXPORT) == 0) {
        return baton_transport_result(transport, BATON_TP_E_UNSUPPORTED, "exporting memory");
    }
    struct baton_tp_memory memory = {
        sizeof(memory), base, bytes, name.data, (uint32_t)name.size, access,
    };
    int result = transport->plugin->mem_register(transport->tp, &memory, out);
    return baton_transport_result(transport, result, "registering memory");
}

void baton_transport_release(struct baton_transport *transport, struct baton_tp_mem *mem)
{
    if (mem != NULL) {
        transport->plugin->mem_release(transport->tp, mem);
    }
}

struct baton_status baton_transport_key(const struct baton_transport *transport,
                                        const struct baton_tp_mem *mem,
                                        uint8_t out[BATON_TP_KEY_BYTES_MAX], uint32_t *out_bytes)
{
    uint32_t used = BATON_TP_KEY_BYTES_MAX;
    if (!BATON_TP_HAS(transport->plugin, key)) {
        return baton_transport_result(transport, BATON_TP_E_UNSUPPORTED, "key");
    }
    int result = transport->plugin->key(transport->tp, mem, out, &used);
    if (result >= 0) {
        *out_bytes = used;
    }
    return baton_transport_result(transport, result, "key");
}

static struct baton_tp_transfer make_transfer(struct baton_transport_range range,
                                              struct baton_transport_local local, uint64_t op_id)
{
    return (struct baton_tp_transfer){
        .size = sizeof(struct baton_tp_transfer),
        .peer = range.peer.data,
        .key = range.key.data,
        .mem = local.mem,
        .remote_offset = range.offset,
        .local_offset = local.offset,
        .bytes = local.bytes,
        .op_id = op_id,
        .peer_bytes = (uint32_t)range.peer.size,
        .key_bytes = (uint32_t)range.key.size,
    };
}

typedef int start_fn(struct baton_tp *tp, const struct baton_tp_transfer *transfer);

/* Checks what the rules bind the host to, then starts. */
static struct baton_status start(struct baton_transport *transport, start_fn *fn,
                                 const struct baton_tp_transfer *transfer, bool *accepted)
{
    char what[64];
    size_t shown = transfer->key_bytes < sizeof(what) ? transfer->key_bytes : sizeof(what) - 1;
    if (shown > 0) {
        memcpy(what, transfer->key, shown);
    }
    what[shown] = '\0';
    if (transfer->bytes > transport->attr.transfer_bytes_max ||
        transfer->peer_bytes > BATON_TP_ADDRESS_BYTES_MAX ||
        transfer->key_bytes > BATON_TP_KEY_BYTES_MAX) {
        return baton_transport_result(transport, BATON_TP_E_INVALID, what);
    }
    int result = fn(transport->tp, transfer);
    *accepted = result == BATON_TP_OK || result == BATON_TP_PENDING;
    return baton_transport_result(transport, result, what);
}

struct baton_status baton_transport_get(struct baton_transport *transport,
                                        struct baton_transport_range from,
                                        struct baton_transport_local to, uint64_t op_id,
                                        bool *accepted)
{
    struct baton_tp_transfer transfer = make_transfer(from, to, op_id);
    *accepted = false;
    if ((transport->attr.caps & BATON_TP_CAP_GET) == 0) {
        return baton_transport_result(transport, BATON_TP_E_UNSUPPORTED, "get");
    }
    return start(transport, transport->plugin->get, &transfer, accepted);
}

struct baton_status baton_transport_put(struct baton_transport *transport,
                                        struct baton_transport_range to,
                                        struct baton_transport_local from, uint64_t op_id,
                                        bool *accepted)
{
    struct baton_tp_transfer transfer = make_transfer(to, from, op_id);
    *accepted = false;
    if ((transport->attr.caps & BATON_TP_CAP_PUT) == 0) {
        return baton_transport_result(transport, BATON_TP_E_UNSUPPORTED, "put");
    }
    return start(transport, transport->plugin->put, &transfer, accepted);
}

struct baton_status baton_transport_length(struct baton_transport *transport,
                                           struct baton_transport_range of, uint64_t op_id,
                                           bool *accepted)
{
    struct baton_tp_transfer transfer =
        make_transfer(of, (struct baton_transport_local){ NULL, 0, 0 }, op_id);
    *accepted = false;
    if ((transport->attr.caps & BATON_TP_CAP_LENGTH) == 0) {
        return baton_transport_result(transport, BATON_TP_E_UNSUPPORTED, "length");
    }
    return start(transport, transport->plugin->length, &transfer, accepted);
}

struct baton_status baton_transport_cancel(struct baton_transport *transport, uint64_t op_id)
{
    if ((transport->attr.caps & BATON_TP_CAP_CANCEL) == 0) {
        return baton_transport_result(transport, BATON_TP_E_UNSUPPORTED, "cancel");
    }
    int result = transport->plugin->cancel(transport->tp, op_id);
    return baton_transport_result(transport, result, "cancel");
}

struct baton_status baton_transport_poll(struct baton_transport *transport,
                                         struct baton_tp_completion *out, uint32_t out_max,
                                         uint32_t *out_count)
{
    *out_count = 0;
    int result =
        transport->plugin->poll(transport->tp, baton_clock_monotonic_ns(), out, out_max, out_count);
    if (result >= 0 && *out_count > out_max) {
        result = BATON_TP_E_INTERNAL;
    }
    return baton_transport_result(transport, result, "poll");
}
