/* call_info.c -- what a server call knows about itself; see rpc.h. */
#include <stdio.h>
#include <string.h>

#include <grpc/support/alloc.h>

#include "api/rpc/server.h"

_Static_assert((int)BATON_OK == (int)GRPC_STATUS_OK, "codes are gRPC's");
_Static_assert((int)BATON_CANCELLED == (int)GRPC_STATUS_CANCELLED, "codes are gRPC's");
_Static_assert((int)BATON_INVALID_ARGUMENT == (int)GRPC_STATUS_INVALID_ARGUMENT,
               "codes are gRPC's");
_Static_assert((int)BATON_UNAVAILABLE == (int)GRPC_STATUS_UNAVAILABLE, "codes are gRPC's");
_Static_assert((int)BATON_UNAUTHENTICATED == (int)GRPC_STATUS_UNAUTHENTICATED, "codes are gRPC's");

const char *rpc_call_method(const struct rpc_call *call)
{
    return call->route == NULL ? "" : call->route->method->name;
}

const void *rpc_call_request(const struct rpc_call *call)
{
    return call->request;
}

void rpc_call_set_data(struct rpc_call *call, void *data)
{
    atomic_store(&call->data, data);
}

void *rpc_call_data(const struct rpc_call *call)
{
    return atomic_load(&call->data);
}

struct baton_bytes rpc_call_metadata(const struct rpc_call *call, const char *key)
{
    for (size_t i = 0; i < call->metadata.count; i++) {
        const grpc_metadata *item = &call->metadata.metadata[i];
        if (rpc_slice_is(item->key, key)) {
            return (struct baton_bytes){ GRPC_SLICE_START_PTR(item->value),
                                         GRPC_SLICE_LENGTH(item->value) };
        }
    }
    return (struct baton_bytes){ NULL, 0 };
}

const char *rpc_call_request_id(const struct rpc_call *call)
{
    return call->request_id;
}

uint64_t rpc_call_deadline_ns(const struct rpc_call *call)
{
    return call->deadline_ns;
}

bool rpc_call_is_cancelled(const struct rpc_call *call)
{
    struct rpc_call *locked = (struct rpc_call *)(uintptr_t)call;
    pthread_mutex_lock(&locked->mutex);
    bool is_cancelled = locked->is_cancelled;
    pthread_mutex_unlock(&locked->mutex);
    return is_cancelled;
}

const char *rpc_call_option(const struct rpc_call *call, uint32_t option_number)
{
    return call->route == NULL ? "" : rpc_method_option_text(call->route->method, option_number);
}

/* The first property of this name, cut to fit; false if there is none. */
static bool read_property(const grpc_auth_context *context, const char *name, char *out,
                          size_t out_bytes)
{
    grpc_auth_property_iterator at = grpc_auth_context_find_properties_by_name(context, name);
    const grpc_auth_property *property = grpc_auth_property_iterator_next(&at);
    if (property == NULL || property->value_length >= out_bytes) {
        return false;
    }
    memcpy(out, property->value, property->value_length);
    out[property->value_length] = '\0';
    return true;
}

static void read_identity(grpc_call *core, struct rpc_peer *out)
{
    static const char *const NAMES[] = { "peer_spiffe_id", "peer_uri", "peer_dns",
                                         "x509_common_name" };
    grpc_auth_context *context = grpc_call_auth_context(core);
    if (context == NULL) {
        return;
    }
    out->authenticated = grpc_auth_context_peer_is_authenticated(context) != 0;
    bool is_found = false;
    for (size_t i = 0; out->authenticated && !is_found && i < sizeof(NAMES) / sizeof(NAMES[0]);
         i++) {
        is_found = read_property(context, NAMES[i], out->identity, sizeof(out->identity));
    }
    grpc_auth_context_release(context);
}

void rpc_call_peer(const struct rpc_call *call, struct rpc_peer *out)
{
    struct rpc_call *locked = (struct rpc_call *)(uintptr_t)call;
    *out = (struct rpc_peer){ .authenticated = false };
    pthread_mutex_lock(&locked->mutex);
    if (locked->core != NULL) {
        read_identity(locked->core, out);
        char *address = grpc_call_get_peer(locked->core);
        (void)snprintf(out->address, sizeof(out->address), "%s", address);
        out->is_local = strncmp(address, "unix:", 5) == 0;
        gpr_free(address);
    }
    pthread_mutex_unlock(&locked->mutex);
}
