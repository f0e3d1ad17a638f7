/* file_plugin.h -- the table of backend "file"; see file.c.
 *
 * Depends on: transport_plugin.h.  Threads: any.  Ownership: constant. */
#ifndef TRANSPORT_FILE_FILE_PLUGIN_H
#define TRANSPORT_FILE_FILE_PLUGIN_H

#include "transport/include/baton/transport_plugin.h"

const struct baton_transport_plugin *file_plugin(void);

#endif /* file_plugin.h */
