/* model_file.c -- the schema of a model's YAML file, and its request; see model_file.h.
 *
 * The words of the policy are checked by the controller, which refuses them by name. */
#include "controller/cli/model_file.h"

#include <string.h>

#include "api/base/limits.h"
#include "api/config/config.h"
#include "api/wire/wire.h"
#include "baton/v1/models.pb-c.h"
#include "controller/cli/model_file_stale.h"

struct file_barrier {
    char *quorum, *deadline;
};

struct file_every {
    uint64_t n;
    char *unit;
};

struct file_check {
    char *name, *kind, *compare, *window, *query;
    double threshold, tolerance, max_change;
    uint64_t min_changed;
};

struct file_step {
    char *groups, *soak;
    char **checks;
    unsigned checks_count;
    bool hold;
};

struct file_hook {
    char *when, *url, *deadline;
};

struct file_update {
    struct file_hook *hooks;
    unsigned hooks_count;
    struct file_barrier barrier;
    struct file_every every;
    char *order, *progress_action, *soak;
    struct file_check *checks;
    struct file_step *canary;
    unsigned checks_count, canary_count;
    char *trigger, *strategy, *max_unavailable, *progress_deadline, *in_flight, *kv, *arrivals;
    char *swap_deadline, *drain_deadline, *mass_loss, *drain_expiry, *non_finite, *swap_mode;
    bool allow_recreate;
    struct file_staleness staleness;
    struct file_sessions sessions;
    struct file_slots slots;
};

struct file_metadata {
    char *name;
};

struct file_spec {
    struct file_update update;
};

struct file_model {
    char *api_version, *kind;
    struct file_metadata metadata;
    struct file_spec spec;
};

#define TEXT(key, type, member)                                                                    \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, member, 0, 255)

static const cyaml_schema_field_t barrier_fields[] = {
    TEXT("quorum", struct file_barrier, quorum), TEXT("deadline", struct file_barrier, deadline),
    CYAML_FIELD_END
};

static const cyaml_schema_field_t hook_fields[] = { TEXT("when", struct file_hook, when),
                                                    TEXT("url", struct file_hook, url),
                                                    TEXT("deadline", struct file_hook, deadline),
                                                    CYAML_FIELD_END };

static const cyaml_schema_value_t hook_schema = { CYAML_VALUE_MAPPING(
    CYAML_FLAG_DEFAULT, struct file_hook, hook_fields) };

static const cyaml_schema_field_t every_fields[] = {
    CYAML_FIELD_UINT("n", CYAML_FLAG_DEFAULT, struct file_every, n),
    TEXT("unit", struct file_every, unit), CYAML_FIELD_END
};

static const cyaml_schema_field_t check_fields[] = {
    CYAML_FIELD_STRING_PTR("name", CYAML_FLAG_POINTER, struct file_check, name, 1, 63),
    TEXT("kind", struct file_check, kind),
    TEXT("compare", struct file_check, compare),
    TEXT("window", struct file_check, window),
    CYAML_FIELD_STRING_PTR("query", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct file_check,
                           query, 0, 4096),
    CYAML_FIELD_FLOAT("threshold", CYAML_FLAG_OPTIONAL, struct file_check, threshold),
    CYAML_FIELD_FLOAT("tolerance", CYAML_FLAG_OPTIONAL, struct file_check, tolerance),
    CYAML_FIELD_FLOAT("maxChange", CYAML_FLAG_OPTIONAL, struct file_check, max_change),
    CYAML_FIELD_UINT("minChanged", CYAML_FLAG_OPTIONAL, struct file_check, min_changed),
    CYAML_FIELD_END
};

static const cyaml_schema_value_t name_schema = { CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char *, 1,
                                                                     63) };

static const cyaml_schema_field_t step_fields[] = {
    CYAML_FIELD_STRING_PTR("groups", CYAML_FLAG_POINTER, struct file_step, groups, 1, 63),
    TEXT("soak", struct file_step, soak),
    CYAML_FIELD_SEQUENCE("checks", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct file_step,
                         checks, &name_schema, 0, BATON_CHECKS_MAX),
    CYAML_FIELD_BOOL("hold", CYAML_FLAG_OPTIONAL, struct file_step, hold), CYAML_FIELD_END
};

static const cyaml_schema_value_t check_schema = { CYAML_VALUE_MAPPING(
    CYAML_FLAG_DEFAULT, struct file_check, check_fields) };
static const cyaml_schema_value_t step_schema = { CYAML_VALUE_MAPPING(
    CYAML_FLAG_DEFAULT, struct file_step, step_fields) };

static const cyaml_schema_field_t update_fields[] = {
    CYAML_FIELD_MAPPING("every", CYAML_FLAG_OPTIONAL, struct file_update, every, every_fields),
    TEXT("order", struct file_update, order),
    TEXT("progressAction", struct file_update, progress_action),
    TEXT("soak", struct file_update, soak),
    CYAML_FIELD_SEQUENCE("checks", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct file_update,
                         checks, &check_schema, 0, BATON_CHECKS_MAX),
    CYAML_FIELD_SEQUENCE("canary", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct file_update,
                         canary, &step_schema, 0, BATON_CANARY_STEPS_MAX),
    CYAML_FIELD_SEQUENCE("hooks", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct file_update,
                         hooks, &hook_schema, 0, CYAML_UNLIMITED),
    CYAML_FIELD_MAPPING("barrier", CYAML_FLAG_OPTIONAL, struct file_update, barrier,
                        barrier_fields),
    TEXT("trigger", struct file_update, trigger),
    TEXT("strategy", struct file_update, strategy),
    TEXT("maxUnavailable", struct file_update, max_unavailable),
    TEXT("progressDeadline", struct file_update, progress_deadline),
    TEXT("inFlight", struct file_update, in_flight),
    TEXT("kv", struct file_update, kv),
    TEXT("arrivals", struct file_update, arrivals),
    TEXT("swapDeadline", struct file_update, swap_deadline),
    TEXT("drainDeadline", struct file_update, drain_deadline),
    TEXT("massLoss", struct file_update, mass_loss),
    TEXT("drainExpiry", struct file_update, drain_expiry),
    TEXT("nonFinite", struct file_update, non_finite),
    TEXT("swapMode", struct file_update, swap_mode),
    CYAML_FIELD_BOOL("allowRecreate", CYAML_FLAG_OPTIONAL, struct file_update, allow_recreate),
    CYAML_FIELD_MAPPING("staleness", CYAML_FLAG_OPTIONAL, struct file_update, staleness,
                        file_staleness_fields),
    CYAML_FIELD_MAPPING("sessions", CYAML_FLAG_OPTIONAL, struct file_update, sessions,
                        file_sessions_fields),
    CYAML_FIELD_MAPPING("slots", CYAML_FLAG_OPTIONAL, struct file_update, slots, file_slots_fields),
    CYAML_FIELD_END
};

static const cyaml_schema_field_t spec_fields[] = {
    CYAML_FIELD_MAPPING("update", CYAML_FLAG_OPTIONAL, struct file_spec, update, update_fields),
    CYAML_FIELD_END
};

static const cyaml_schema_field_t metadata_fields[] = {
    CYAML_FIELD_STRING_PTR("name", CYAML_FLAG_POINTER, struct file_metadata, name, 1, 63),
    CYAML_FIELD_END
};

static const cyaml_schema_field_t model_fields[] = {
    TEXT("apiVersion", struct file_model, api_version), TEXT("kind", struct file_model, kind),
    CYAML_FIELD_MAPPING("metadata", CYAML_FLAG_DEFAULT, struct file_model, metadata,
                        metadata_fields),
    CYAML_FIELD_MAPPING("spec", CYAML_FLAG_OPTIONAL, struct file_model, spec, spec_fields),
    CYAML_FIELD_END
};

static const cyaml_schema_value_t model_schema = { CYAML_VALUE_MAPPING(
    CYAML_FLAG_POINTER, struct file_model, model_fields) };

static char *text_of(void *root, const char *text)
{
    return baton_wire_text(root, text != NULL ? text : "");
}

static struct baton_status fill_deadlines(void *root, const struct file_update *file,
                                          Baton__V1__UpdatePolicy *policy)
{
    struct {
        const char *key, *text;
        Google__Protobuf__Duration **out;
    } rows[] = {
        { "spec.update.progressDeadline", file->progress_deadline, &policy->progress_deadline },
        { "spec.update.swapDeadline", file->swap_deadline, &policy->swap_deadline },
        { "spec.update.drainDeadline", file->drain_deadline, &policy->drain_deadline },
        { "spec.update.barrier.deadline", file->barrier.deadline, &policy->barrier->deadline },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t ns = 0;
        struct baton_status st = baton_config_duration(rows[i].key, rows[i].text, 0, &ns);
        if (!baton_ok(&st)) {
            return st;
        }
        *rows[i].out = rows[i].text != NULL ? baton_wire_duration(root, ns) : NULL;
    }
    return baton_status_ok();
}

static struct baton_status fill_duration(void *root, const char *key, const char *text,
                                         Google__Protobuf__Duration **out)
{
    uint64_t ns = 0;
    struct baton_status st = baton_config_duration(key, text, 0, &ns);
    *out = text != NULL && baton_ok(&st) ? baton_wire_duration(root, ns) : NULL;
    return st;
}

static struct baton_status fill_checks(void *root, const struct file_update *file,
                                       Baton__V1__UpdatePolicy *policy)
{
    struct baton_status st = baton_status_ok();
    policy->n_checks = file->checks_count;
    policy->checks = baton_wire_take(root, file->checks_count, sizeof(*policy->checks));
    for (unsigned i = 0; i < file->checks_count && baton_ok(&st); i++) {
        const struct file_check *from = &file->checks[i];
        Baton__V1__Check *check = baton_wire_part(root, &baton__v1__check__descriptor);
        policy->checks[i] = check;
        check->name = text_of(root, from->name);
        check->kind = text_of(root, from->kind);
        check->compare = text_of(root, from->compare);
        check->threshold = from->threshold;
        check->tolerance = from->tolerance;
        check->max_change = from->max_change;
        check->min_changed = from->min_changed;
        check->query = text_of(root, from->query);
        st = fill_duration(root, "spec.update.checks.window", from->window, &check->window);
    }
    return st;
}

static struct baton_status fill_canary(void *root, const struct file_update *file,
                                       Baton__V1__UpdatePolicy *policy)
{
    struct baton_status st = baton_status_ok();
    policy->n_canary = file->canary_count;
    policy->canary = baton_wire_take(root, file->canary_count, sizeof(*policy->canary));
    for (unsigned i = 0; i < file->canary_count && baton_ok(&st); i++) {
        const struct file_step *from = &file->canary[i];
        Baton__V1__CanaryStep *step = baton_wire_part(root, &baton__v1__canary_step__descriptor);
        policy->canary[i] = step;
        step->groups = text_of(root, from->groups);
        step->hold = from->hold;
        step->n_checks = from->checks_count;
        step->checks = baton_wire_take(root, from->checks_count, sizeof(*step->checks));
        for (unsigned k = 0; k < from->checks_count; k++) {
            step->checks[k] = text_of(root, from->checks[k]);
        }
        st = fill_duration(root, "spec.update.canary.soak", from->soak, &step->soak);
    }
    return st;
}

static struct baton_status fill_rolls(void *root, const struct file_update *file,
                                      Baton__V1__UpdatePolicy *policy)
{
    policy->order = text_of(root, file->order);
    policy->progress_action = text_of(root, file->progress_action);
    if (file->every.n != 0 || file->every.unit != NULL) {
        policy->every = baton_wire_part(root, &baton__v1__trigger_every__descriptor);
        policy->every->n = file->every.n;
        policy->every->unit = text_of(root, file->every.unit);
    }
    struct baton_status st = fill_duration(root, "spec.update.soak", file->soak, &policy->soak);
    if (baton_ok(&st)) {
        st = fill_checks(root, file, policy);
    }
    return baton_ok(&st) ? fill_canary(root, file, policy) : st;
}

static struct baton_status fill_hooks(void *root, const struct file_update *file,
                                      Baton__V1__UpdatePolicy *policy)
{
    policy->n_hooks = file->hooks_count;
    policy->hooks = baton_wire_take(root, file->hooks_count, sizeof(*policy->hooks));
    for (unsigned i = 0; i < file->hooks_count; i++) {
        const struct file_hook *from = &file->hooks[i];
        Baton__V1__RouterHook *hook = baton_wire_part(root, &baton__v1__router_hook__descriptor);
        uint64_t ns = 0;
        policy->hooks[i] = hook;
        struct baton_status st =
            baton_config_duration("spec.update.hooks.deadline", from->deadline, 0, &ns);
        if (!baton_ok(&st)) {
            return st;
        }
        hook->when = text_of(root, from->when);
        hook->url = text_of(root, from->url);
        hook->deadline = from->deadline != NULL ? baton_wire_duration(root, ns) : NULL;
    }
    return baton_status_ok();
}

static struct baton_status check_head(const struct file_model *file)
{
    if (file->api_version != NULL && strcmp(file->api_version, "baton/v1") != 0) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "apiVersion: '%s' is unknown; write baton/v1", file->api_version);
    }
    if (file->kind != NULL && strcmp(file->kind, "Model") != 0) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "kind: '%s' is unknown; write Model", file->kind);
    }
    return baton_status_ok();
}

static struct baton_status fill(const struct file_model *file,
                                Baton__V1__ApplyModelRequest *request)
{
    const struct file_update *update = &file->spec.update;
    Baton__V1__ModelSpec *spec = baton_wire_part(request, &baton__v1__model_spec__descriptor);
    Baton__V1__UpdatePolicy *policy =
        baton_wire_part(request, &baton__v1__update_policy__descriptor);
    request->name = baton_wire_text(request, file->metadata.name);
    request->spec = spec;
    spec->update = policy;
    policy->trigger = text_of(request, update->trigger);
    policy->strategy = text_of(request, update->strategy);
    policy->max_unavailable = text_of(request, update->max_unavailable);
    policy->mass_loss = text_of(request, update->mass_loss);
    policy->in_flight = text_of(request, update->in_flight);
    policy->kv = text_of(request, update->kv);
    policy->arrivals = text_of(request, update->arrivals);
    policy->drain_expiry = text_of(request, update->drain_expiry);
    policy->non_finite = text_of(request, update->non_finite);
    policy->swap_mode = text_of(request, update->swap_mode);
    policy->allow_recreate = update->allow_recreate;
    policy->barrier = baton_wire_part(request, &baton__v1__barrier_policy__descriptor);
    policy->barrier->quorum = text_of(request, update->barrier.quorum);
    struct baton_status st = fill_rolls(request, update, policy);
    if (baton_ok(&st)) {
        st = file_staleness_fill(&update->staleness, request, policy);
    }
    if (baton_ok(&st)) {
        st = file_leases_fill(&update->sessions, &update->slots, request, policy);
    }
    if (baton_ok(&st)) {
        st = fill_hooks(request, update, policy);
    }
    return baton_ok(&st) ? fill_deadlines(request, update, policy) : st;
}

struct baton_status cli_model_file_read(const char *path, Baton__V1__ApplyModelRequest **out)
{
    void *loaded = NULL;
    struct baton_status st = baton_config_load(path, &model_schema, &loaded);
    if (!baton_ok(&st)) {
        return st;
    }
    const struct file_model *file = loaded;
    Baton__V1__ApplyModelRequest *request =
        baton_wire_new(&baton__v1__apply_model_request__descriptor);
    st = check_head(file);
    if (baton_ok(&st)) {
        st = fill(file, request);
    }
    baton_config_free(&model_schema, loaded);
    if (!baton_ok(&st)) {
        baton_wire_free(request);
        return baton_status_in(st, "%s", path);
    }
    *out = request;
    return st;
}
