/* service_models.c -- baton.v1.Models. */
#include <string.h>

#include "api/wire/wire.h"
#include "controller/shell/render_stale.h"
#include "controller/shell/routes.h"
#include "controller/shell/service.h"

SERVICE_HANDLER(serve_models_apply, Baton__V1__ApplyModelRequest)
SERVICE_HANDLER(serve_models_get, Baton__V1__GetModelRequest)
SERVICE_HANDLER(serve_models_list, Baton__V1__ListModelsRequest)
SERVICE_STREAM_HANDLER(serve_models_watch, Baton__V1__WatchModelsRequest)
SERVICE_HANDLER(serve_models_suspend, Baton__V1__SuspendModelRequest)
SERVICE_HANDLER(serve_models_hold, Baton__V1__HoldModelRequest)
SERVICE_HANDLER(serve_models_resume, Baton__V1__ResumeModelRequest)

/* A deadline in milliseconds; what is given must not round to "not given". */
static struct baton_status read_deadline(const Google__Protobuf__Duration *duration,
                                         const char *field, int64_t *out_ms)
{
    uint64_t ns = 0;
    struct baton_status st = baton_wire_duration_ns(duration, field, &ns);
    if (baton_ok(&st) && duration != NULL && ns < 1000000) {
        st = rpc_status_field(field, "must be at least 1 ms");
    }
    *out_ms = (int64_t)(ns / 1000000);
    return st;
}

/* 'out' has room for BATON_HOOKS_MAX; how many there are is checked by the core. */
static struct baton_status read_hooks(const Baton__V1__UpdatePolicy *from,
                                      struct policy_hook_spec *out)
{
    struct baton_status st = baton_status_ok();
    for (size_t i = 0; baton_ok(&st) && i < from->n_hooks && i < BATON_HOOKS_MAX; i++) {
        out[i].when = from->hooks[i]->when;
        out[i].url = from->hooks[i]->url;
        st = read_deadline(from->hooks[i]->deadline, "spec.update.hooks.deadline",
                           &out[i].deadline_ms);
    }
    return st;
}

static struct baton_status read_policy(const Baton__V1__UpdatePolicy *from,
                                       struct policy_room *room, struct policy_spec *out)
{
    struct {
        const Google__Protobuf__Duration *duration;
        const char *field;
        int64_t *out;
    } rows[] = {
        { from->progress_deadline, "spec.update.progress_deadline", &out->progress_deadline_ms },
        { from->swap_deadline, "spec.update.swap_deadline", &out->swap_deadline_ms },
        { from->drain_deadline, "spec.update.drain_deadline", &out->drain_deadline_ms },
        { from->barrier != NULL ? from->barrier->deadline : NULL, "spec.update.barrier.deadline",
          &out->barrier_deadline_ms },
    };
    out->trigger = from->trigger;
    out->strategy = from->strategy;
    out->max_unavailable = from->max_unavailable;
    out->mass_loss = from->mass_loss;
    out->non_finite = from->non_finite;
    out->in_flight = from->in_flight;
    out->kv = from->kv;
    out->arrivals = from->arrivals;
    out->allow_recreate = from->allow_recreate;
    out->drain_expiry = from->drain_expiry;
    out->swap_mode = from->swap_mode;
    out->barrier_quorum = from->barrier != NULL ? from->barrier->quorum : NULL;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct baton_status st = read_deadline(rows[i].duration, rows[i].field, rows[i].out);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    struct baton_status st = read_stale_policy(from, out);
    return baton_ok(&st) ? service_policy_read(from, room, &out->roll) : st;
}

static void serve_models_apply_work(struct daemon *daemon, struct rpc_call *call,
                                    const Baton__V1__ApplyModelRequest *request)
{
    struct request mutation = { .kind = REQUEST_MODEL_APPLY, .model = request->name };
    struct policy_room room;
    struct policy_hook_spec hooks[BATON_HOOKS_MAX] = { 0 };
    if (request->spec != NULL && request->spec->update != NULL) {
        struct baton_status st = read_policy(request->spec->update, &room, &mutation.body.apply);
        mutation.body.apply.hooks = hooks;
        mutation.body.apply.hooks_count = request->spec->update->n_hooks;
        st = baton_ok(&st) ? read_hooks(request->spec->update, hooks) : st;
        if (!baton_ok(&st)) {
            service_fail(call, st);
            return;
        }
    }
    service_mutate(daemon, call, request->options, &mutation);
}

static void serve_models_suspend_work(struct daemon *daemon, struct rpc_call *call,
                                      const Baton__V1__SuspendModelRequest *request)
{
    struct request mutation = { .kind = REQUEST_MODEL_SUSPEND, .model = request->name };
    service_mutate(daemon, call, request->options, &mutation);
}

static void serve_models_hold_work(struct daemon *daemon, struct rpc_call *call,
                                   const Baton__V1__HoldModelRequest *request)
{
    struct request mutation = { .kind = REQUEST_MODEL_HOLD, .model = request->name };
    service_mutate(daemon, call, request->options, &mutation);
}

static void serve_models_resume_work(struct daemon *daemon, struct rpc_call *call,
                                     const Baton__V1__ResumeModelRequest *request)
{
    struct request mutation = { .kind = REQUEST_MODEL_RESUME, .model = request->name };
    service_mutate(daemon, call, request->options, &mutation);
}

static void serve_models_get_work(struct daemon *daemon, struct rpc_call *call,
                                  const Baton__V1__GetModelRequest *request)
{
    const struct model_record *model = view_model_find(daemon->core, request->name);
    if (model == NULL) {
        service_not_found(call, "model", request->name);
        return;
    }
    service_reply(call, render_model(daemon->core, model, NULL));
}

static void serve_models_list_work(struct daemon *daemon, struct rpc_call *call,
                                   const Baton__V1__ListModelsRequest *request)
{
    Baton__V1__ListModelsResponse *reply =
        baton_wire_new(&baton__v1__list_models_response__descriptor);
    struct service_page page = service_page_begin(request->page_size);
    uint32_t count = view_models_count(daemon->core);
    uint32_t index = request->page_token[0] != '\0'
                         ? view_models_lower_bound(daemon->core, request->page_token)
                         : 0;
    reply->models = baton_wire_take(reply, page.items_max, sizeof(*reply->models));
    reply->revision = view_revision(daemon->core);
    for (; index < count; index++) {
        Baton__V1__Model *model =
            render_model(daemon->core, view_model_at(daemon->core, index), reply);
        if (!service_page_add(&page, model)) {
            reply->next_page_token =
                baton_wire_text(reply, view_model_at(daemon->core, index - 1)->name);
            break;
        }
        reply->models[reply->n_models++] = model;
    }
    service_reply(call, reply);
}

static void serve_models_watch_work(struct daemon *daemon, struct rpc_call *call,
                                    const Baton__V1__WatchModelsRequest *request)
{
    struct watch_request watch = { OBJECT_MODEL, request->from_revision, request->name };
    watch_start(daemon, call, &watch);
}
