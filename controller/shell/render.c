/* render.c -- models, versions, agents, events and what all renderers share; see render.h. */
#include "controller/shell/render.h"

#include "api/base/clock.h"
#include "api/wire/wire.h"
#include "controller/core/words.h"
#include "controller/shell/render_stale.h"

void *render_new(void *root, const ProtobufCMessageDescriptor *type)
{
    return root != NULL ? baton_wire_part(root, type) : baton_wire_new(type);
}

Baton__V1__ObjectMeta *render_meta(const struct render_meta_facts *facts, void *root)
{
    Baton__V1__ObjectMeta *meta = baton_wire_part(root, &baton__v1__object_meta__descriptor);
    meta->name = baton_wire_text(root, facts->name);
    meta->uid = baton_wire_text(root, facts->uid);
    meta->revision = facts->revision;
    meta->generation = facts->generation;
    meta->created_at = baton_wire_timestamp(root, facts->created_wall_ns);
    return meta;
}

static Baton__V1__Condition *render_condition(const char *type, const struct condition *condition,
                                              void *root)
{
    Baton__V1__Condition *message = baton_wire_part(root, &baton__v1__condition__descriptor);
    message->type = baton_wire_text(root, type);
    message->status = baton_wire_text(root, condition->status != NULL ? condition->status : "");
    message->reason = baton_wire_text(root, condition->reason != NULL ? condition->reason : "");
    message->message = baton_wire_text(root, condition->message);
    message->last_transition_at = baton_wire_timestamp(root, condition->last_transition_wall_ns);
    return message;
}

Baton__V1__Condition **render_conditions(const struct conditions *conditions, size_t *count,
                                         void *root)
{
    if (conditions->ready.status == NULL) { /* Only a leader knows them. */
        *count = 0;
        return NULL;
    }
    Baton__V1__Condition **list = baton_wire_take(root, 3, sizeof(*list));
    list[0] = render_condition("Ready", &conditions->ready, root);
    list[1] = render_condition("Progressing", &conditions->progressing, root);
    list[2] = render_condition("Degraded", &conditions->degraded, root);
    *count = 3;
    return list;
}

Baton__V1__Epoch *render_epoch(struct epoch epoch, void *root)
{
    Baton__V1__Epoch *message = baton_wire_part(root, &baton__v1__epoch__descriptor);
    message->generation = epoch.generation;
    message->n = epoch.n;
    return message;
}

Baton__V1__Source *render_source(const struct version_source *source, void *root)
{
    Baton__V1__Source *message = baton_wire_part(root, &baton__v1__source__descriptor);
    message->backend = baton_wire_text(root, source->backend);
    message->location = baton_wire_text(root, source->location);
    message->agent = baton_wire_text(root, source->agent);
    return message;
}

static Baton__V1__UpdatePolicy *render_policy(const struct update_policy *policy, void *root)
{
    Baton__V1__UpdatePolicy *message = baton_wire_part(root, &baton__v1__update_policy__descriptor);
    message->trigger = baton_wire_text(root, words_get(&words_trigger, policy->trigger));
    message->strategy = baton_wire_text(root, words_get(&words_strategy, policy->strategy));
    message->max_unavailable = baton_wire_textf(root, "%u%s", policy->max_unavailable,
                                                policy->max_unavailable_is_percent ? "%" : "");
    uint32_t loss = policy->mass_loss != 0 ? policy->mass_loss : 50;
    message->mass_loss = baton_wire_textf(
        root, "%u%s", loss, policy->mass_loss == 0 || policy->mass_loss_is_percent ? "%" : "");
    message->non_finite = baton_wire_text(
        root, words_get(&words_non_finite, policy->non_finite == POLICY_NON_FINITE_ALLOW
                                               ? POLICY_NON_FINITE_ALLOW
                                               : POLICY_NON_FINITE_REFUSE));
    message->in_flight = baton_wire_text(root, words_get(&words_in_flight, policy->swap.in_flight));
    message->kv = baton_wire_text(root, words_get(&words_kv, policy->swap.kv));
    message->arrivals = baton_wire_text(root, words_get(&words_arrivals, policy->swap.arrivals));
    message->progress_deadline =
        baton_wire_duration(root, policy->progress_deadline_ms * BATON_NS_PER_MS);
    message->swap_deadline =
        baton_wire_duration(root, policy->swap.swap_deadline_ms * BATON_NS_PER_MS);
    message->drain_deadline =
        baton_wire_duration(root, policy->swap.drain_deadline_ms * BATON_NS_PER_MS);
    message->allow_recreate = policy->swap.allow_recreate;
    message->drain_expiry =
        baton_wire_text(root, words_get(&words_drain_expiry, policy->swap.drain_expiry));
    message->swap_mode = baton_wire_text(root, render_mode(policy->swap.mode));
    message->hooks = render_hooks(&policy->swap, &message->n_hooks, root);
    message->barrier = baton_wire_part(root, &baton__v1__barrier_policy__descriptor);
    message->barrier->quorum = baton_wire_textf(root, "%u%s", policy->barrier_quorum,
                                                policy->barrier_quorum_is_percent ? "%" : "");
    message->barrier->deadline =
        baton_wire_duration(root, policy->swap.barrier_deadline_ms * BATON_NS_PER_MS);
    render_stale_policy(policy, message, root);
    render_policy_roll(&policy->roll, message, root);
    return message;
}

static Baton__V1__ModelStatus *render_model_status(const struct controller *core,
                                                   const struct model_record *model, void *root)
{
    struct model_status status;
    Baton__V1__ModelStatus *message = baton_wire_part(root, &baton__v1__model_status__descriptor);
    view_model_status(core, model, baton_clock_wall_ns(), &status);
    message->observed_generation = model->generation;
    message->newest_seq = model->newest_seq;
    message->promoted_seq = model->promoted_seq;
    message->held = model->held;
    message->hold_reason = baton_wire_text(root, model->hold_reason);
    message->suspended = model->suspended;
    message->active_roll = baton_wire_text(root, status.active_roll);
    message->groups = status.groups;
    message->groups_converged = status.groups_converged;
    message->groups_unavailable = status.groups_unavailable;
    message->max_lag_publishes = status.max_lag_publishes;
    message->newest_published_at = baton_wire_timestamp(root, model->newest_published_wall_ns);
    message->conditions = render_conditions(&status.conditions, &message->n_conditions, root);
    render_convergence(&status.convergence, message, root);
    return message;
}

Baton__V1__Model *render_model(const struct controller *core, const struct model_record *model,
                               void *root)
{
    Baton__V1__Model *message = render_new(root, &baton__v1__model__descriptor);
    root = root != NULL ? root : message;
    message->meta =
        render_meta(&(struct render_meta_facts){ model->name, model->uid, model->revision,
                                                 model->generation, model->created_wall_ns },
                    root);
    message->spec = baton_wire_part(root, &baton__v1__model_spec__descriptor);
    message->spec->update = render_policy(&model->policy, root);
    message->status = render_model_status(core, model, root);
    return message;
}

static void render_sources(const struct version_record *version, Baton__V1__Version *message,
                           void *root)
{
    message->n_sources = version->sources_count;
    message->sources = baton_wire_take(root, version->sources_count, sizeof(*message->sources));
    for (uint32_t i = 0; i < version->sources_count; i++) {
        message->sources[i] = render_source(&version->sources[i], root);
    }
}

static Baton__V1__ObjectMeta *version_meta(const struct version_record *version, void *root)
{
    const char *name =
        version->seq != 0
            ? baton_wire_textf(root, "%s@%llu", version->model, (unsigned long long)version->seq)
            : baton_wire_textf(root, "%s@%s", version->model, version->uid);
    return render_meta(&(struct render_meta_facts){ name, version->uid, version->revision, 1,
                                                    version->created_wall_ns },
                       root);
}

static Baton__V1__VersionValues *render_values(const struct version_values *values, void *root)
{
    Baton__V1__VersionValues *message =
        baton_wire_part(root, &baton__v1__version_values__descriptor);
    message->nans = values->nans;
    message->infs = values->infs;
    message->bad_tensors = values->bad_tensors;
    message->first_bad = baton_wire_text(root, values->first_bad);
    message->base_seq = values->base_seq;
    message->compared = values->compared;
    message->changed = values->changed;
    message->unchanged = values->unchanged;
    message->added = values->added;
    message->n_largest = values->largest_count;
    message->largest = baton_wire_take(root, values->largest_count, sizeof(*message->largest));
    for (uint32_t i = 0; i < values->largest_count; i++) {
        message->largest[i] = baton_wire_part(root, &baton__v1__tensor_change__descriptor);
        message->largest[i]->name = baton_wire_text(root, values->largest[i].name);
        message->largest[i]->change = values->largest[i].change;
    }
    return message;
}

Baton__V1__Version *render_version(const struct controller *core,
                                   const struct version_record *version, void *root)
{
    struct version_status status;
    Baton__V1__Version *message = render_new(root, &baton__v1__version__descriptor);
    root = root != NULL ? root : message;
    view_version_status(core, version, &status);
    message->meta = version_meta(version, root);
    message->model = baton_wire_text(root, version->model);
    message->seq = version->seq;
    message->digest = baton_wire_text(root, version->digest);
    message->bytes = version->bytes;
    message->tensors = version->tensors;
    message->files = version->files;
    message->state = (Baton__V1__VersionState)version->state;
    message->optimizer_step = version->optimizer_step;
    message->rollout_iteration = version->rollout_iteration;
    message->samples_trained = version->samples_trained;
    message->published_at = baton_wire_timestamp(root, version->published_wall_ns);
    message->parent_seq = version->parent_seq;
    message->partial = version->partial;
    message->quarantined = version->quarantined;
    message->quarantine_reason = baton_wire_text(root, version->quarantine_reason);
    message->pinned = version->pinned;
    if (version->values.scanned) {
        message->values = render_values(&version->values, root);
    }
    message->bytes_ready = status.bytes_ready;
    message->groups_serving = status.groups_serving;
    render_sources(version, message, root);
    return message;
}

static void render_landed(const struct agent_status *status, Baton__V1__Agent *message, void *root)
{
    message->n_landed_digests = status->landed_count;
    message->landed_digests =
        baton_wire_take(root, status->landed_count, sizeof(*message->landed_digests));
    for (uint32_t i = 0; i < status->landed_count; i++) {
        message->landed_digests[i] = baton_wire_text(root, status->landed[i]);
    }
}

Baton__V1__Agent *render_agent(const struct controller *core, const struct agent_record *agent,
                               void *root)
{
    struct agent_status status;
    Baton__V1__Agent *message = render_new(root, &baton__v1__agent__descriptor);
    root = root != NULL ? root : message;
    view_agent_status(core, agent, &status);
    message->meta =
        render_meta(&(struct render_meta_facts){ agent->name, agent->uid, agent->revision, 1,
                                                 agent->created_wall_ns },
                    root);
    message->connected = status.connected;
    message->last_seen_at = baton_wire_timestamp(root, status.last_seen_wall_ns);
    message->journal_incarnation = baton_wire_text(root, agent->journal_incarnation);
    message->software = baton_wire_text(root, agent->software);
    message->groups = status.groups;
    message->landing_used_bytes = status.landing_used_bytes;
    message->landing_budget_bytes = status.landing_budget_bytes;
    message->address = baton_wire_text(root, agent->address);
    render_landed(&status, message, root);
    return message;
}

Baton__V1__Event *render_event(const struct log_entry *entry, void *root)
{
    Baton__V1__Event *message = render_new(root, &baton__v1__event__descriptor);
    root = root != NULL ? root : message;
    message->number = entry->number;
    message->at = baton_wire_timestamp(root, entry->wall_ns);
    message->type = baton_wire_text(root, entry->warning ? "Warning" : "Normal");
    message->object = baton_wire_text(root, entry->object);
    message->reason = baton_wire_text(root, entry->reason);
    message->message = baton_wire_text(root, entry->message);
    message->by = baton_wire_text(root, entry->by);
    return message;
}

static void *gone_version(const struct object_ref *object, const char *model)
{
    Baton__V1__Version *message = baton_wire_new(&baton__v1__version__descriptor);
    const char *name = baton_wire_textf(message, "%s@%s", model, object->uid);
    message->meta =
        render_meta(&(struct render_meta_facts){ .name = name, .uid = object->uid }, message);
    message->model = baton_wire_text(message, model);
    return message;
}

static void *gone_roll(const struct object_ref *object, const char *model)
{
    Baton__V1__Roll *message = baton_wire_new(&baton__v1__roll__descriptor);
    const char *name =
        baton_wire_textf(message, "%s-%llu", model, (unsigned long long)object->number);
    message->meta =
        render_meta(&(struct render_meta_facts){ .name = name, .uid = object->uid }, message);
    message->model = baton_wire_text(message, model);
    message->number = object->number;
    return message;
}

static void *gone_group(const struct object_ref *object, const char *model)
{
    Baton__V1__Group *message = baton_wire_new(&baton__v1__group__descriptor);
    message->meta = render_meta(
        &(struct render_meta_facts){ .name = object->name, .uid = object->uid }, message);
    message->model = baton_wire_text(message, model);
    return message;
}

static void *gone_model(const struct object_ref *object)
{
    Baton__V1__Model *message = baton_wire_new(&baton__v1__model__descriptor);
    message->meta = render_meta(
        &(struct render_meta_facts){ .name = object->name, .uid = object->uid }, message);
    return message;
}

void *render_gone(const struct object_ref *object, const char *model)
{
    switch (object->kind) {
    case OBJECT_MODEL: return gone_model(object);
    case OBJECT_VERSION: return gone_version(object, model);
    case OBJECT_ROLL: return gone_roll(object, model);
    case OBJECT_GROUP: return gone_group(object, model);
    case OBJECT_NONE:
    case OBJECT_AGENT: break;
    }
    return NULL;
}

void *render_object(const struct controller *core, const struct object_ref *object)
{
    const void *record = NULL;
    switch (object->kind) {
    case OBJECT_NONE: return NULL;
    case OBJECT_MODEL:
        record = view_model_find(core, object->name);
        return record != NULL ? render_model(core, record, NULL) : NULL;
    case OBJECT_VERSION:
        record = view_version_find_uid(core, object->uid);
        return record != NULL ? render_version(core, record, NULL) : NULL;
    case OBJECT_ROLL:
        record = view_roll_find(core, object->name, object->number);
        return record != NULL ? render_roll(core, record, true, NULL) : NULL;
    case OBJECT_GROUP:
        record = view_group_find(core, object->name);
        return record != NULL ? render_group(core, record, NULL) : NULL;
    case OBJECT_AGENT:
        record = view_agent_find(core, object->name);
        return record != NULL ? render_agent(core, record, NULL) : NULL;
    }
    return NULL;
}
