/* plugin.c -- the table of baton_cuda.so: CUDA's runtime behind plain C
 * functions. */
#include <stdio.h>
#include <string.h>

#include "transport/cuda/kernels.h"

/* The oldest that the kernels are built for. */
enum { CAPABILITY_MIN = 80 };

static const char *describe(int result)
{
    switch (result) {
    case BATON_CUDA_OK: return "done";
    case BATON_CUDA_E_INVALID: return "an argument is not what the call's contract asks for";
    case BATON_CUDA_E_NO_DEVICE: return "no NVIDIA driver or no GPU that the kernels run on";
    default: return cudaGetErrorString((cudaError_t)result);
    }
}

/* CUDA remembers a thread's last failure and would blame the next launch for it. */
static int answer(cudaError_t error)
{
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
    }
    return (int)error;
}

static int devices(int *count)
{
    cudaError_t error = cudaGetDeviceCount(count);
    if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ||
        (error == cudaSuccess && *count == 0)) {
        *count = 0;
        (void)answer(error);
        return BATON_CUDA_E_NO_DEVICE;
    }
    return answer(error);
}

static int device(int which, struct baton_cuda_device *out)
{
    struct cudaDeviceProp properties;
    size_t free_bytes = 0;
    size_t all_bytes = 0;
    cudaError_t error = cudaGetDeviceProperties(&properties, which);
    if (error == cudaSuccess) {
        error = cudaSetDevice(which);
    }
    if (error == cudaSuccess) {
        error = cudaMemGetInfo(&free_bytes, &all_bytes);
    }
    if (error != cudaSuccess) {
        return answer(error);
    }
    memset(out, 0, sizeof(*out));
    out->memory_bytes = all_bytes;
    out->free_bytes = free_bytes;
    out->capability = properties.major * 10 + properties.minor;
    out->processors = properties.multiProcessorCount;
    (void)snprintf(out->name, sizeof(out->name), "%.127s", properties.name);
    return out->capability < CAPABILITY_MIN ? BATON_CUDA_E_NO_DEVICE : BATON_CUDA_OK;
}

static int use(int which)
{
    return answer(cudaSetDevice(which));
}

static int alloc(void **out, uint64_t bytes)
{
    return answer(cudaMalloc(out, bytes));
}

static int free_device(void *memory)
{
    return answer(cudaFree(memory));
}

static int host_alloc(void **out, uint64_t bytes)
{
    return answer(cudaHostAlloc(out, bytes, cudaHostAllocPortable));
}

static int host_free(void *memory)
{
    return answer(cudaFreeHost(memory));
}

static int host_register(void *memory, uint64_t bytes)
{
    return answer(cudaHostRegister(memory, bytes, cudaHostRegisterPortable));
}

static int host_unregister(void *memory)
{
    return answer(cudaHostUnregister(memory));
}

static int stream_create(void **out)
{
    return answer(cudaStreamCreateWithFlags((cudaStream_t *)out, cudaStreamNonBlocking));
}

static int stream_destroy(void *stream)
{
    return answer(cudaStreamDestroy(stream));
}

static int stream_wait(void *stream)
{
    return answer(cudaStreamSynchronize(stream));
}

static int stream_query(void *stream, int *busy)
{
    cudaError_t error = cudaStreamQuery(stream);
    int result = answer(error);
    *busy = error == cudaErrorNotReady;
    return *busy ? BATON_CUDA_OK : result;
}

static int stream_after(void *stream, void *event)
{
    return answer(cudaStreamWaitEvent(stream, event, 0));
}

static int event_create(void **out)
{
    return answer(cudaEventCreateWithFlags((cudaEvent_t *)out, cudaEventBlockingSync));
}

static int event_destroy(void *event)
{
    return answer(cudaEventDestroy(event));
}

static int event_record(void *event, void *stream)
{
    return answer(cudaEventRecord(event, stream));
}

static int event_wait(void *event)
{
    return answer(cudaEventSynchronize(event));
}

static int event_seconds(void *begin, void *end, double *seconds)
{
    float milliseconds = 0;
    cudaError_t error = cudaEventElapsedTime(&milliseconds, begin, end);
    *seconds = (double)milliseconds / 1e3;
    return answer(error);
}

static int copy(void *target, const void *source, uint64_t bytes, void *stream)
{
    return answer(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, stream));
}

static int fill(void *target, int byte, uint64_t bytes, void *stream)
{
    return answer(cudaMemsetAsync(target, byte, bytes, stream));
}

/* The runtime does not tell where an allocation begins; the driver does. */
static int allocation_of(const void *memory, void **base, uint64_t *bytes)
{
    typedef int range_fn(unsigned long long *base, size_t *bytes, unsigned long long at);
    enum cudaDriverEntryPointQueryResult found;
    void *symbol = NULL;
    range_fn *get_range = NULL;
    unsigned long long first = 0;
    size_t size = 0;
    cudaError_t error = cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &symbol, 12000,
                                                         cudaEnableDefault, &found);
    if (error != cudaSuccess || found != cudaDriverEntryPointSuccess) {
        return error != cudaSuccess ? answer(error) : (int)cudaErrorSymbolNotFound;
    }
    memcpy(&get_range, &symbol, sizeof(get_range));
    if (get_range(&first, &size, (unsigned long long)(uintptr_t)memory) != 0) {
        return (int)cudaErrorInvalidDevicePointer;
    }
    *base = (void *)(uintptr_t)first;
    *bytes = size;
    return BATON_CUDA_OK;
}

static int locate(const void *memory, struct baton_cuda_place *out)
{
    struct cudaPointerAttributes attributes;
    cudaError_t error = cudaPointerGetAttributes(&attributes, memory);
    if (error != cudaSuccess) {
        return answer(error);
    }
    *out = (struct baton_cuda_place){ .kind = BATON_CUDA_PAGEABLE, .device = -1 };
    if (attributes.type == cudaMemoryTypeHost) {
        out->kind = BATON_CUDA_PINNED;
    } else if (attributes.type == cudaMemoryTypeDevice) {
        out->kind = BATON_CUDA_DEVICE;
        out->device = attributes.device;
        return allocation_of(memory, &out->base, &out->bytes);
    } else if (attributes.type == cudaMemoryTypeManaged) {
        return BATON_CUDA_E_INVALID;
    }
    return BATON_CUDA_OK;
}

_Static_assert(sizeof(cudaIpcMemHandle_t) == BATON_CUDA_HANDLE_BYTES, "handle of memory");
_Static_assert(sizeof(cudaIpcEventHandle_t) == BATON_CUDA_HANDLE_BYTES, "handle of an event");

static int ipc_export(void *base, uint8_t handle[BATON_CUDA_HANDLE_BYTES])
{
    return answer(cudaIpcGetMemHandle((cudaIpcMemHandle_t *)(void *)handle, base));
}

static int ipc_open(const uint8_t handle[BATON_CUDA_HANDLE_BYTES], void **out)
{
    cudaIpcMemHandle_t copy_of_it;
    memcpy(&copy_of_it, handle, sizeof(copy_of_it));
    return answer(cudaIpcOpenMemHandle(out, copy_of_it, cudaIpcMemLazyEnablePeerAccess));
}

static int ipc_close(void *base)
{
    return answer(cudaIpcCloseMemHandle(base));
}

static int ipc_event_create(void **out, uint8_t handle[BATON_CUDA_HANDLE_BYTES])
{
    cudaEvent_t event = NULL;
    cudaError_t error =
        cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming);
    if (error == cudaSuccess) {
        error = cudaIpcGetEventHandle((cudaIpcEventHandle_t *)(void *)handle, event);
    }
    if (error != cudaSuccess && event != NULL) {
        (void)cudaEventDestroy(event);
        event = NULL;
    }
    *out = event;
    return answer(error);
}

static int ipc_event_open(const uint8_t handle[BATON_CUDA_HANDLE_BYTES], void **out)
{
    cudaIpcEventHandle_t copy_of_it;
    memcpy(&copy_of_it, handle, sizeof(copy_of_it));
    return answer(cudaIpcOpenEventHandle((cudaEvent_t *)out, copy_of_it));
}

static int event_query(void *event, int *busy)
{
    cudaError_t error = cudaEventQuery(event);
    int result = answer(error);
    *busy = error == cudaErrorNotReady;
    return *busy ? BATON_CUDA_OK : result;
}

static const struct baton_cuda table = {
    .size = sizeof(table),
    .major = BATON_CUDA_MAJOR,
    .describe = describe,
    .devices = devices,
    .device = device,
    .use = use,
    .alloc = alloc,
    .free = free_device,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .host_register = host_register,
    .host_unregister = host_unregister,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_wait = stream_wait,
    .stream_query = stream_query,
    .stream_after = stream_after,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_seconds = event_seconds,
    .copy = copy,
    .fill = fill,
    .digest = kernel_digest,
    .copy_boxes = kernel_copy_boxes,
    .delta_scan = kernel_delta_scan,
    .delta_compact = kernel_delta_compact,
    .delta_apply = kernel_delta_apply,
    .quantise = kernel_quantise,
    .locate = locate,
    .ipc_export = ipc_export,
    .ipc_open = ipc_open,
    .ipc_close = ipc_close,
    .ipc_event_create = ipc_event_create,
    .ipc_event_open = ipc_event_open,
    .event_query = event_query,
};

__attribute__((visibility("default"))) const struct baton_cuda *baton_cuda_plugin_v1(void);

const struct baton_cuda *baton_cuda_plugin_v1(void)
{
    return &table;
}
