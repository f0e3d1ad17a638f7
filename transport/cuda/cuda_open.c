/* cuda_open.c -- loading and checking baton_cuda.so. */
#include "transport/cuda/cuda_open.h"

#include <dlfcn.h>
#include <string.h>

static struct baton_status check_table(const char *path, const struct baton_cuda *cuda)
{
    if (cuda == NULL || cuda->major != BATON_CUDA_MAJOR || cuda->size < sizeof(*cuda)) {
        return baton_status_hint(
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                              "CUDA plug-in '%.200s': not this program's interface", path),
            "install the baton_cuda.so that was built with this program");
    }
    return baton_status_ok();
}

static struct baton_status check_devices(const char *path, const struct baton_cuda *cuda)
{
    int count = 0;
    int result = cuda->devices(&count);
    if (result != BATON_CUDA_OK) {
        return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE,
                                 "CUDA plug-in '%.150s': %.120s", path, cuda->describe(result));
    }
    return baton_status_ok();
}

struct baton_status cuda_open(const char *path, const struct baton_cuda **out)
{
    baton_cuda_plugin_v1_fn *entry = NULL;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == NULL) {
        return baton_status_make(BATON_NOT_FOUND, BATON_REASON_IO, "CUDA plug-in: %.250s",
                                 dlerror());
    }
    void *symbol = dlsym(handle, "baton_cuda_plugin_v1");
    /* ISO C has no conversion from an object's address to a function's. */
    memcpy(&entry, &symbol, sizeof(entry));
    struct baton_status st = check_table(path, entry == NULL ? NULL : entry());
    if (baton_ok(&st)) {
        st = check_devices(path, entry());
    }
    if (baton_ok(&st)) {
        *out = entry();
        return st;
    }
    dlclose(handle);
    return st;
}

struct baton_status cuda_status(const struct baton_cuda *cuda, int result, const char *what)
{
    if (result == BATON_CUDA_OK) {
        return baton_status_ok();
    }
    return baton_status_make(BATON_INTERNAL, BATON_REASON_NONE, "%.150s: %.150s", what,
                             cuda->describe(result));
}
