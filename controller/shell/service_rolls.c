/* service_rolls.c -- baton.v1.Rolls. */
#include <stdlib.h>
#include <string.h>

#include "api/wire/wire.h"
#include "controller/shell/routes.h"
#include "controller/shell/service.h"

SERVICE_HANDLER(serve_rolls_start, Baton__V1__StartRollRequest)
SERVICE_HANDLER(serve_rolls_get, Baton__V1__GetRollRequest)
SERVICE_HANDLER(serve_rolls_list, Baton__V1__ListRollsRequest)
SERVICE_STREAM_HANDLER(serve_rolls_watch, Baton__V1__WatchRollsRequest)
SERVICE_HANDLER(serve_rolls_pause, Baton__V1__PauseRollRequest)
SERVICE_HANDLER(serve_rolls_resume, Baton__V1__ResumeRollRequest)
SERVICE_HANDLER(serve_rolls_undo, Baton__V1__UndoRollRequest)
SERVICE_HANDLER(serve_rolls_history, Baton__V1__RollHistoryRequest)
SERVICE_STREAM_HANDLER(serve_rolls_wait, Baton__V1__WaitRollRequest)

static void serve_rolls_start_work(struct daemon *daemon, struct rpc_call *call,
                                   const Baton__V1__StartRollRequest *request)
{
    char order[BATON_PATH_BYTES + BATON_NAME_BYTES];
    service_join_names(request->order, request->n_order, order, sizeof(order));
    struct request mutation = { .kind = REQUEST_ROLL_START,
                                .model = request->model,
                                .to_seq = request->to_seq,
                                .body.start = { order } };
    service_mutate(daemon, call, request->options, &mutation);
}

static void serve_rolls_pause_work(struct daemon *daemon, struct rpc_call *call,
                                   const Baton__V1__PauseRollRequest *request)
{
    struct request mutation = { .kind = REQUEST_ROLL_PAUSE, .model = request->model };
    service_mutate(daemon, call, request->options, &mutation);
}

static void serve_rolls_resume_work(struct daemon *daemon, struct rpc_call *call,
                                    const Baton__V1__ResumeRollRequest *request)
{
    struct request mutation = { .kind = REQUEST_ROLL_RESUME, .model = request->model };
    service_mutate(daemon, call, request->options, &mutation);
}

static void serve_rolls_undo_work(struct daemon *daemon, struct rpc_call *call,
                                  const Baton__V1__UndoRollRequest *request)
{
    struct request mutation = { .kind = REQUEST_ROLL_UNDO,
                                .model = request->model,
                                .to_seq = request->to_seq };
    service_mutate(daemon, call, request->options, &mutation);
}

static void serve_rolls_get_work(struct daemon *daemon, struct rpc_call *call,
                                 const Baton__V1__GetRollRequest *request)
{
    char name[2 * BATON_NAME_BYTES];
    const struct roll_record *roll = view_roll_find(daemon->core, request->model, request->number);
    if (roll == NULL && view_model_find(daemon->core, request->model) == NULL) {
        service_not_found(call, "model", request->model);
    } else if (roll == NULL) {
        (void)snprintf(name, sizeof(name), "%.60s-%llu", request->model,
                       (unsigned long long)request->number);
        service_not_found(call, "roll", name);
    } else {
        service_reply(call, render_roll(daemon->core, roll, true, NULL));
    }
}

static uint32_t list_start(const struct controller *core, const Baton__V1__ListRollsRequest *r)
{
    const char *parts[2];
    if (r->page_token[0] == '\0') {
        return r->model[0] != '\0' ? view_rolls_lower_bound(core, r->model, 0) : 0;
    }
    service_token_split(r->page_token, parts, 2);
    return view_rolls_lower_bound(core, parts[0], strtoull(parts[1], NULL, 10));
}

static void serve_rolls_list_work(struct daemon *daemon, struct rpc_call *call,
                                  const Baton__V1__ListRollsRequest *request)
{
    Baton__V1__ListRollsResponse *reply =
        baton_wire_new(&baton__v1__list_rolls_response__descriptor);
    struct service_page page = service_page_begin(request->page_size);
    uint32_t count = view_rolls_count(daemon->core);
    const struct roll_record *last = NULL;
    reply->rolls = baton_wire_take(reply, page.items_max, sizeof(*reply->rolls));
    reply->revision = view_revision(daemon->core);
    for (uint32_t index = list_start(daemon->core, request); index < count; index++) {
        const struct roll_record *roll = view_roll_at(daemon->core, index);
        if (request->model[0] != '\0' && strcmp(roll->model, request->model) != 0) {
            break;
        }
        Baton__V1__Roll *item = render_roll(daemon->core, roll, false, reply);
        if (!service_page_add(&page, item)) {
            reply->next_page_token =
                baton_wire_textf(reply, "%s/%llu", last->model, (unsigned long long)last->number);
            break;
        }
        reply->rolls[reply->n_rolls++] = item;
        last = roll;
    }
    service_reply(call, reply);
}

static void serve_rolls_history_work(struct daemon *daemon, struct rpc_call *call,
                                     const Baton__V1__RollHistoryRequest *request)
{
    const struct controller *core = daemon->core;
    if (view_model_find(core, request->model) == NULL) {
        service_not_found(call, "model", request->model);
        return;
    }
    Baton__V1__RollHistoryResponse *reply =
        baton_wire_new(&baton__v1__roll_history_response__descriptor);
    struct service_page page = service_page_begin(0);
    reply->rolls = baton_wire_take(reply, page.items_max, sizeof(*reply->rolls));
    for (uint32_t i = view_rolls_lower_bound(core, request->model, 0); i < view_rolls_count(core);
         i++) {
        const struct roll_record *roll = view_roll_at(core, i);
        if (strcmp(roll->model, request->model) != 0) {
            break;
        }
        Baton__V1__Roll *item = render_roll(core, roll, false, reply);
        if (!service_page_add(&page, item)) {
            break;
        }
        reply->rolls[reply->n_rolls++] = item;
    }
    service_reply(call, reply);
}

static void serve_rolls_watch_work(struct daemon *daemon, struct rpc_call *call,
                                   const Baton__V1__WatchRollsRequest *request)
{
    struct watch_request watch = { OBJECT_ROLL, request->from_revision, request->model };
    watch_start(daemon, call, &watch);
}

static void serve_rolls_wait_work(struct daemon *daemon, struct rpc_call *call,
                                  const Baton__V1__WaitRollRequest *request)
{
    struct request wait = { .kind = REQUEST_WAIT,
                            .model = request->model,
                            .body.wait = { request->condition, request->seq } };
    daemon_request(daemon, call, &wait, NULL, NULL);
}
