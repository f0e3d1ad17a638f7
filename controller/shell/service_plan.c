/* service_plan.c -- what a roll would do (baton.v1.Rolls), and what swaps did (baton.v1.Fleet). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire/wire.h"
#include "controller/shell/routes.h"
#include "controller/shell/service.h"

enum { PLAN_GROUPS_IN_FULL = 1024, PLAN_GROUPS_MAX = 6900 };
_Static_assert(PLAN_GROUPS_IN_FULL * 710 < BATON_MESSAGE_BYTES_MAX, "a plan is one message");
_Static_assert(PLAN_GROUPS_MAX * 150 < BATON_MESSAGE_BYTES_MAX, "the largest one, too");

SERVICE_HANDLER(serve_rolls_plan, Baton__V1__PlanRollRequest)
SERVICE_HANDLER(serve_fleet_list_swaps, Baton__V1__ListSwapsRequest)

void service_join_names(char *const *names, size_t count, char *out, size_t out_bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < count && used < out_bytes; i++) {
        int wrote = snprintf(out + used, out_bytes - used, "%s%s", i == 0 ? "" : ",", names[i]);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}

static Baton__V1__PlanGroup *render_group_plan(const struct plan_group *group, bool brief,
                                               void *root)
{
    Baton__V1__PlanGroup *message = baton_wire_part(root, &baton__v1__plan_group__descriptor);
    message->group = baton_wire_text(root, group->group->name);
    message->wave = group->wave;
    message->canary_step = group->step;
    message->from_seq = group->from_seq;
    message->blocked_reason = (Baton__V1__BlockedReason)group->blocked_reason;
    message->blocked_message = baton_wire_text(root, brief ? "" : group->blocked_message);
    message->restore = (Baton__V1__PlanRestore)group->restore;
    message->memory = (Baton__V1__PlanMemory)group->memory;
    message->free_bytes = group->free_bytes;
    message->pause = render_measured(root, group->pause_ns);
    message->stage = render_measured(root, group->stage_ns);
    message->estimated_by_model = group->estimated_by_model;
    message->mode = baton_wire_text(root, render_mode(group->mode));
    message->route = baton_wire_text(root, brief ? "" : group->route);
    return message;
}

static Baton__V1__PlanRollResponse *render_plan(const struct model_record *model,
                                                const struct plan *plan,
                                                const struct plan_group *items)
{
    Baton__V1__PlanRollResponse *reply = baton_wire_new(&baton__v1__plan_roll_response__descriptor);
    reply->model = baton_wire_text(reply, model->name);
    reply->to_seq = plan->version != NULL ? plan->version->seq : 0;
    reply->bytes = plan->version != NULL ? plan->version->bytes : 0;
    reply->waves = plan->waves;
    reply->max_unavailable = plan->max_unavailable;
    reply->total = render_measured(reply, plan->total_ns);
    reply->roll_interval = render_measured(reply, plan->convergence.interval_ns);
    reply->swap_time = render_measured(reply, plan->convergence.swap_ns);
    reply->refusal = baton_wire_text(reply, plan->refusal);
    reply->convergence_message = baton_wire_text(reply, plan->convergence.message);
    reply->n_groups = plan->groups;
    reply->groups = baton_wire_take(reply, plan->groups, sizeof(*reply->groups));
    for (uint32_t i = 0; i < plan->groups; i++) {
        reply->groups[i] = render_group_plan(&items[i], plan->groups > PLAN_GROUPS_IN_FULL, reply);
    }
    return reply;
}

static void serve_rolls_plan_work(struct daemon *daemon, struct rpc_call *call,
                                  const Baton__V1__PlanRollRequest *request)
{
    char order[BATON_PATH_BYTES];
    const struct model_record *model = view_model_find(daemon->core, request->model);
    if (model == NULL) {
        service_not_found(call, "model", request->model);
        return;
    }
    service_join_names(request->order, request->n_order, order, sizeof(order));
    struct plan plan;
    struct plan_request asked = { request->to_seq, order };
    struct plan_group *items = calloc(PLAN_GROUPS_MAX, sizeof(*items));
    baton_assert(items != NULL);
    view_plan(daemon->core, model, &asked, &plan, items, PLAN_GROUPS_MAX);
    service_reply(call, render_plan(model, &plan, items));
    free(items);
}

static Baton__V1__SwapEntry *render_entry(const struct history_record *swap, void *root)
{
    Baton__V1__SwapEntry *message = baton_wire_part(root, &baton__v1__swap_entry__descriptor);
    message->group = baton_wire_text(root, swap->group);
    message->model = baton_wire_text(root, swap->model);
    message->roll_number = swap->roll_number;
    message->issued_at = baton_wire_timestamp(root, swap->issued_wall_ns);
    message->slot = render_measured(root, swap->slot_ns);
    message->swap = render_swap(&swap->swap, root);
    return message;
}

static bool is_asked(const struct history_record *swap, const Baton__V1__ListSwapsRequest *request)
{
    return (request->model[0] == '\0' || strcmp(swap->model, request->model) == 0) &&
           (request->group[0] == '\0' || strcmp(swap->group, request->group) == 0) &&
           (request->roll_number == 0 || swap->roll_number == request->roll_number);
}

static uint32_t swaps_start(const struct controller *core, const Baton__V1__ListSwapsRequest *r)
{
    const char *parts[2];
    if (r->page_token[0] == '\0') {
        return 0;
    }
    service_token_split(r->page_token, parts, 2);
    return view_swaps_lower_bound(core, strtoull(parts[0], NULL, 10), parts[1]);
}

static void serve_fleet_list_swaps_work(struct daemon *daemon, struct rpc_call *call,
                                        const Baton__V1__ListSwapsRequest *request)
{
    const struct controller *core = daemon->core;
    Baton__V1__ListSwapsResponse *reply =
        baton_wire_new(&baton__v1__list_swaps_response__descriptor);
    struct service_page page = service_page_begin(request->page_size);
    const struct history_record *last = NULL;
    reply->swaps = baton_wire_take(reply, page.items_max, sizeof(*reply->swaps));
    reply->revision = view_revision(core);
    for (uint32_t i = swaps_start(core, request); i < view_swaps_count(core); i++) {
        const struct history_record *swap = view_swap_at(core, i);
        if (!is_asked(swap, request)) {
            continue;
        }
        Baton__V1__SwapEntry *item = render_entry(swap, reply);
        if (!service_page_add(&page, item)) {
            reply->next_page_token = baton_wire_textf(
                reply, "%llu/%s", (unsigned long long)last->closed_wall_ns, last->swap.ticket_uid);
            break;
        }
        reply->swaps[reply->n_swaps++] = item;
        last = swap;
    }
    service_reply(call, reply);
}
