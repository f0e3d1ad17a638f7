/* memory_plugin.h -- the table of backend "memory"; see memory.c.
 *
 * Depends on: transport_plugin.h.  Threads: any.  Ownership: constant. */
#ifndef TRANSPORT_MEMORY_MEMORY_PLUGIN_H
#define TRANSPORT_MEMORY_MEMORY_PLUGIN_H

#include "transport/include/baton/transport_plugin.h"

const struct baton_transport_plugin *memory_plugin(void);

#endif /* memory_plugin.h */
