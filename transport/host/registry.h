/* registry.h -- finds a backend's table by name or path, and refuses one that breaks the rules.
 *
 * Depends on: transport_plugin.h, api/base.  Threads: any (dlopen has its own lock).
 * Ownership: tables are constant and live as long as the process. */
#ifndef TRANSPORT_HOST_REGISTRY_H
#define TRANSPORT_HOST_REGISTRY_H

#include "api/base/status.h"
#include "transport/include/baton/transport_plugin.h"

/* By the name of a built-in backend (memory, file) or the path of a shared object. */
BATON_MUST_USE struct baton_status registry_find(const char *name,
                                                 const struct baton_transport_plugin **out);

/* Fails unless the table is of this major, has a proper name and all that every backend needs. */
BATON_MUST_USE struct baton_status registry_check(const struct baton_transport_plugin *plugin,
                                                  const char *label);

/* Fails if 'caps' promises what the table lacks. */
BATON_MUST_USE struct baton_status registry_check_caps(const struct baton_transport_plugin *plugin,
                                                       uint64_t caps);

#endif /* registry.h */
