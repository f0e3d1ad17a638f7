/* config.h -- YAML files into structs, with errors that name file, line and key.
 *
 * libcyaml does the work from a schema that the caller gives (camelCase keys); this header turns its
 * trace into one status, and reads the texts that YAML has no type for: durations and sizes.
 *
 * Depends on: status.h, libcyaml.  Threads: any.  Ownership: what baton_config_load() gives belongs to
 * the caller, who frees it with baton_config_free() and the same schema. */
#ifndef BATON_CONFIG_CONFIG_H
#define BATON_CONFIG_CONFIG_H

#include <cyaml/cyaml.h>
#include <stdint.h>

#include "api/base/status.h"

/* Reads 'path' by 'schema' (a mapping with CYAML_FLAG_POINTER).  INVALID_ARGUMENT BAD_FIELD:
 * "<path>:<line>: <key path>: <what is wrong>"; NOT_FOUND or PERMISSION_DENIED for the file itself. */
BATON_MUST_USE struct baton_status baton_config_load(const char *path,
                                                     const cyaml_schema_value_t *schema,
                                                     void **out);

/* The same from memory; 'name' stands for the path in errors. */
BATON_MUST_USE struct baton_status baton_config_parse(const char *name, const char *text,
                                                      const cyaml_schema_value_t *schema,
                                                      void **out);
/* The refusal of what the schema cannot say: "<path>:<line>: <key>: <what>".  'key' is as in the schema's own
 * refusals, "access.identities[2].models[0]"; of a key that the file leaves out, its nearest parent's line. */
BATON_MUST_USE struct baton_status baton_config_fault(const char *path, const char *key,
                                                      const char *what);
void baton_config_free(const cyaml_schema_value_t *schema, void *config);

/* "250ms", "30s", "10m", "2h" (a number and one unit; fractions are taken) to nanoseconds.  'key' is
 * named in the refusal.  A null 'text' gives 'otherwise_ns'. */
BATON_MUST_USE struct baton_status baton_config_duration(const char *key, const char *text,
                                                         uint64_t otherwise_ns, uint64_t *out_ns);

/* "4096", "512MiB", "8GiB", "2TB" to bytes; decimal and binary units.  As above. */
BATON_MUST_USE struct baton_status baton_config_bytes(const char *key, const char *text,
                                                      uint64_t otherwise, uint64_t *out);

/* True for 1 to 63 of [a-z0-9.-], first and last a letter or digit: what names of objects are. */
bool baton_config_is_name(const char *text);

#endif /* config.h */
