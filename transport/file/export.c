/* export.c -- backend "file" as a shared object of its own: the proof that the interface is enough,
 * and a pattern for a user's backend.  Not part of the built-in one. */
#include "transport/file/file_plugin.h"

__attribute__((visibility("default"))) baton_transport_plugin_v1_fn baton_transport_plugin_v1;

const struct baton_transport_plugin *baton_transport_plugin_v1(void)
{
    return file_plugin();
}
