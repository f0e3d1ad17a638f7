/* library.c -- loading libnccl and what is called of it. */
#include "transport/nccl/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* The first with communicators that do not block. */
enum { VERSION_MIN = 21400 };

/* ISO C has no conversion from an object's address to a function's; POSIX promises this one. */
#define FIND(handle, name, out) find((handle), (name), &(out), sizeof(out))

static int find(void *handle, const char *name, void *out, size_t out_bytes)
{
    void *symbol = dlsym(handle, name);
    memcpy(out, &symbol, out_bytes);
    return symbol == NULL ? -1 : 0;
}

static int find_all(void *handle, struct nccl_library *out)
{
    return FIND(handle, "ncclGetErrorString", out->describe) |
           FIND(handle, "ncclGetVersion", out->get_version) |
           FIND(handle, "ncclGetUniqueId", out->get_unique_id) |
           FIND(handle, "ncclCommInitRankConfig", out->comm_init_rank_config) |
           FIND(handle, "ncclCommAbort", out->comm_abort) |
           FIND(handle, "ncclCommGetAsyncError", out->comm_get_async_error) |
           FIND(handle, "ncclBroadcast", out->broadcast) | FIND(handle, "ncclSend", out->send) |
           FIND(handle, "ncclRecv", out->recv);
}

int library_open(const char *path, struct nccl_library *out, char why[NCCL_LIBRARY_TEXT_BYTES])
{
    int version = 0;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == NULL) {
        (void)snprintf(why, NCCL_LIBRARY_TEXT_BYTES, "%.250s", dlerror());
        return -1;
    }
    if (find_all(handle, out) != 0 || out->get_version(&version) != ncclSuccess ||
        version < VERSION_MIN) {
        (void)snprintf(why, NCCL_LIBRARY_TEXT_BYTES,
                       "%.150s: is no NCCL of version 2.14 or later (%d)", path, version);
        return -1;
    }
    return 0;
}
