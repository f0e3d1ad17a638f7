/* model_file_stale.h -- staleness, sessions and slots in a model's YAML file.
 *
 * Depends on: api/config, baton/v1/models.  Threads: one.  Ownership: as model_file.h. */
#ifndef CONTROLLER_CLI_MODEL_FILE_STALE_H
#define CONTROLLER_CLI_MODEL_FILE_STALE_H

#include "api/base/status.h"
#include "api/config/config.h"
#include "baton/v1/models.pb-c.h"

/* Texts, because a bound of 0 is not the same as none. */
struct file_staleness {
    char *bound, *warn, *unit;
};

struct file_sessions {
    char *max_hold, *ttl;
};

struct file_slots {
    uint32_t samples_per_publish, max_held;
    char *ttl;
};

extern const cyaml_schema_field_t file_staleness_fields[];
extern const cyaml_schema_field_t file_sessions_fields[];
extern const cyaml_schema_field_t file_slots_fields[];

/* Parts of 'root' for what the file gave; refused by key. */
BATON_MUST_USE struct baton_status file_staleness_fill(const struct file_staleness *file,
                                                       void *root, Baton__V1__UpdatePolicy *policy);
BATON_MUST_USE struct baton_status file_leases_fill(const struct file_sessions *sessions,
                                                    const struct file_slots *slots, void *root,
                                                    Baton__V1__UpdatePolicy *policy);

#endif /* model_file_stale.h */
