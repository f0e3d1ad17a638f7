/* registry.c -- built-in backends, and a user's shared objects. */
#include "transport/host/registry.h"

#include <dlfcn.h>
#include <string.h>

#include "transport/file/file_plugin.h"
#include "transport/memory/memory_plugin.h"

enum { PLUGIN_NAME_BYTES_MAX = 32 };

static struct baton_status incompatible(const char *label, const char *what)
{
    return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                             "transport '%.150s': %s", label, what);
}

static bool has_proper_name(const struct baton_transport_plugin *plugin)
{
    size_t i = 0;
    if (plugin->name == NULL) {
        return false;
    }
    for (; i < PLUGIN_NAME_BYTES_MAX && plugin->name[i] != '\0'; i++) {
        char c = plugin->name[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_') {
            return false;
        }
    }
    return i > 0 && i < PLUGIN_NAME_BYTES_MAX;
}

struct baton_status registry_check(const struct baton_transport_plugin *plugin, const char *label)
{
    if (plugin == NULL) {
        return incompatible(label, "gives no table");
    }
    if (plugin->size < offsetof(struct baton_transport_plugin, open) ||
        plugin->abi_major != BATON_TP_ABI_MAJOR) {
        return incompatible(label, "its interface is not major 1; build it against this header");
    }
    if (!has_proper_name(plugin)) {
        return incompatible(label, "its name is not 1 to 31 of [a-z0-9_]");
    }
    if (!BATON_TP_HAS(plugin, open) || !BATON_TP_HAS(plugin, close) ||
        !BATON_TP_HAS(plugin, query) || !BATON_TP_HAS(plugin, mem_register) ||
        !BATON_TP_HAS(plugin, mem_release) || !BATON_TP_HAS(plugin, poll)) {
        return incompatible(label, "its table lacks open, close, query, mem_register, mem_release "
                                   "or poll");
    }
    return baton_status_ok();
}

struct baton_status registry_check_caps(const struct baton_transport_plugin *plugin, uint64_t caps)
{
    if ((caps & BATON_TP_CAP_PUT) != 0 && !BATON_TP_HAS(plugin, put)) {
        return incompatible(plugin->name, "promises PUT and has no put()");
    }
    if ((caps & BATON_TP_CAP_GET) != 0 && !BATON_TP_HAS(plugin, get)) {
        return incompatible(plugin->name, "promises GET and has no get()");
    }
    if ((caps & BATON_TP_CAP_LENGTH) != 0 && !BATON_TP_HAS(plugin, length)) {
        return incompatible(plugin->name, "promises LENGTH and has no length()");
    }
    if ((caps & BATON_TP_CAP_CANCEL) != 0 && !BATON_TP_HAS(plugin, cancel)) {
        return incompatible(plugin->name, "promises CANCEL and has no cancel()");
    }
    if ((caps & BATON_TP_CAP_EXPORT) != 0 &&
        (!BATON_TP_HAS(plugin, key) || !BATON_TP_HAS(plugin, address))) {
        return incompatible(plugin->name, "promises EXPORT and has no key() or address()");
    }
    return baton_status_ok();
}

static struct baton_status load(const char *path, const struct baton_transport_plugin **out)
{
    /* All symbols now: a missing one must be an answer here, not a crash in a transfer. */
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == NULL) {
        return baton_status_make(BATON_NOT_FOUND, BATON_REASON_IO, "transport: %.300s", dlerror());
    }
    baton_transport_plugin_v1_fn *entry = NULL;
    void *symbol = dlsym(handle, BATON_TRANSPORT_PLUGIN_SYMBOL);
    if (symbol == NULL) {
        return incompatible(path, "does not export " BATON_TRANSPORT_PLUGIN_SYMBOL);
    }
    /* ISO C has no conversion from an object pointer to a function's; POSIX promises this one. */
    memcpy(&entry, &symbol, sizeof(entry));
    *out = entry();
    return registry_check(*out, path);
}

struct baton_status registry_find(const char *name, const struct baton_transport_plugin **out)
{
    if (strcmp(name, "memory") == 0) {
        *out = memory_plugin();
        return registry_check(*out, name);
    }
    if (strcmp(name, "file") == 0) {
        *out = file_plugin();
        return registry_check(*out, name);
    }
    if (strchr(name, '/') != NULL) {
        return load(name, out);
    }
    return baton_status_make(BATON_NOT_FOUND, BATON_REASON_BAD_FIELD,
                             "transport '%.100s': unknown; built in are memory and file, a backend "
                             "of your own is named by its path",
                             name);
}
