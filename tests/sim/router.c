/* router.c -- routers that are told of swaps, and sometimes answer late, refuse, keep silent or are gone.
 *
 * As agent/shell: one POST for each call, and an answer at the latest at its deadline. */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/check.h"
#include "tests/sim/cover.h"

struct posted {
    uint64_t id;
    struct baton_status status;
};

uint32_t router_of(const char *url)
{
    return (uint32_t)(url[strlen("http://router-")] - '0') % SIM_ROUTERS;
}

static enum router_fault take_fault(const struct world *world, struct router *router)
{
    if (router->down_until_ns > world->now_ns) {
        return RF_GONE;
    }
    if (router->fault_left == 0) {
        return RF_NONE;
    }
    router->fault_left--;
    return router->fault;
}

static struct baton_status status_of(enum router_fault fault)
{
    switch (fault) {
    case RF_REFUSES:
        return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE, "answers 503");
    case RF_GONE:
        return baton_status_make(BATON_UNAVAILABLE, BATON_REASON_NONE, "connection refused");
    case RF_LATE:
    case RF_SILENT:
        return baton_status_make(BATON_DEADLINE_EXCEEDED, BATON_REASON_NONE, "no answer in time");
    case RF_NONE:
    case RF_KINDS: break;
    }
    return baton_status_ok();
}

void router_call(struct world *world, struct node *node, const struct agent_hook_call *call)
{
    struct router *router = &world->routers[router_of(call->url)];
    if (node_boundary(world, node, "before it calls a router")) {
        return;
    }
    enum router_fault fault = take_fault(world, router);
    check_hook_called(world, node, call);
    cover(COVER_ROUTER, (uint32_t)fault * 2 + (uint32_t)call->when);
    tell(world, "%s calls %s of %s, %s: fault %d", node->config.agent, call->url, call->group->name,
         call->when == AGENT_HOOK_BEFORE_PAUSE ? "before the pause" : "to open", (int)fault);
    struct posted *posted = calloc(1, sizeof(*posted));
    baton_assert(posted != NULL);
    posted->id = call->id;
    posted->status = status_of(fault);
    uint64_t took_ns = (2 + world_below(&node->random, 80)) * MS;
    bool waits =
        fault == RF_LATE || fault == RF_SILENT || world->now_ns + took_ns > call->deadline_ns;
    /* The shell's own timer may be a little late. */
    uint64_t due_ns =
        waits ? call->deadline_ns + world_below(&node->random, 700) * MS : world->now_ns + took_ns;
    struct item *item = world_post(world, due_ns, ITEM_ROUTER, node->index);
    item->life = node->life;
    item->payload = posted;
    (void)node_boundary(world, node, "after it called a router");
}

void router_answers(struct world *world, const struct item *item)
{
    struct node *node = &world->nodes[item->who];
    const struct posted *posted = item->payload;
    if (!node->up || node->life != item->life) {
        return;
    }
    check_hook_ended(world, node, posted->id, baton_ok(&posted->status));
    struct agent_event event = { .kind = AGENT_EVENT_HOOK_ENDED };
    event.hook.id = posted->id;
    event.hook.status = &posted->status;
    node_event(world, node, &event);
}
