/* call_info.c -- what a server call knows about itself; see rpc.h. */
#include "api/base/clock.h"
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

uint64_t rpc_call_age_ns(const struct rpc_call *call)
{
    return baton_clock_monotonic_ns() - call->began_ns;
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

void rpc_call_set_mark(struct rpc_call *call, uint32_t mark)
{
    call->mark = mark;
}

uint32_t rpc_call_mark(const struct rpc_call *call)
{
    return call->mark;
}

bool rpc_call_is_stream(const struct rpc_call *call)
{
    return call->route != NULL &&
           (call->route->method->client_streams || call->route->method->server_streams);
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
