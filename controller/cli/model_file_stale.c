/* model_file_stale.c -- see model_file_stale.h. */
#include "controller/cli/model_file_stale.h"

#include <errno.h>
#include <stdlib.h>

#include "api/wire/wire.h"

#define TEXT(key, type, member)                                                                    \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, member, 0, 255)

const cyaml_schema_field_t file_staleness_fields[] = { TEXT("bound", struct file_staleness, bound),
                                                       TEXT("warn", struct file_staleness, warn),
                                                       TEXT("unit", struct file_staleness, unit),
                                                       CYAML_FIELD_END };

const cyaml_schema_field_t file_sessions_fields[] = {
    TEXT("maxHold", struct file_sessions, max_hold), TEXT("ttl", struct file_sessions, ttl),
    CYAML_FIELD_END
};

const cyaml_schema_field_t file_slots_fields[] = {
    CYAML_FIELD_UINT("samplesPerPublish", CYAML_FLAG_OPTIONAL, struct file_slots,
                     samples_per_publish),
    CYAML_FIELD_UINT("maxHeld", CYAML_FLAG_OPTIONAL, struct file_slots, max_held),
    TEXT("ttl", struct file_slots, ttl), CYAML_FIELD_END
};

static struct baton_status read_number(const char *key, const char *text, uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "%s: '%s' is not a whole number from 0", key, text);
    }
    *out = number;
    return baton_status_ok();
}

struct baton_status file_staleness_fill(const struct file_staleness *file, void *root,
                                        Baton__V1__UpdatePolicy *policy)
{
    struct baton_status st = baton_status_ok();
    Baton__V1__StalenessPolicy *staleness =
        baton_wire_part(root, &baton__v1__staleness_policy__descriptor);
    staleness->unit = baton_wire_text(root, file->unit != NULL ? file->unit : "");
    if (file->bound != NULL) {
        st = read_number("spec.update.staleness.bound", file->bound, &staleness->bound);
        staleness->_bound_case = BATON__V1__STALENESS_POLICY___BOUND_BOUND;
    }
    if (baton_ok(&st) && file->warn != NULL) {
        st = read_number("spec.update.staleness.warn", file->warn, &staleness->warn);
        staleness->_warn_case = BATON__V1__STALENESS_POLICY___WARN_WARN;
    }
    policy->staleness = staleness;
    return st;
}

static struct baton_status fill_time(const char *key, const char *text, void *root,
                                     Google__Protobuf__Duration **out)
{
    uint64_t ns = 0;
    struct baton_status st = baton_config_duration(key, text, 0, &ns);
    *out = baton_ok(&st) && text != NULL ? baton_wire_duration(root, ns) : NULL;
    return st;
}

struct baton_status file_leases_fill(const struct file_sessions *sessions,
                                     const struct file_slots *slots, void *root,
                                     Baton__V1__UpdatePolicy *policy)
{
    policy->sessions = baton_wire_part(root, &baton__v1__session_policy__descriptor);
    policy->slots = baton_wire_part(root, &baton__v1__slot_policy__descriptor);
    policy->slots->samples_per_publish = slots->samples_per_publish;
    policy->slots->max_held = slots->max_held;
    struct baton_status st = fill_time("spec.update.sessions.maxHold", sessions->max_hold, root,
                                       &policy->sessions->max_hold);
    if (baton_ok(&st)) {
        st = fill_time("spec.update.sessions.ttl", sessions->ttl, root, &policy->sessions->ttl);
    }
    if (baton_ok(&st)) {
        st = fill_time("spec.update.slots.ttl", slots->ttl, root, &policy->slots->ttl);
    }
    return st;
}
