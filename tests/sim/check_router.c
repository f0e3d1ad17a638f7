/* check_router.c -- the truth about routers that are told of swaps; see check.h. */
#include <string.h>

#include "tests/sim/check.h"

/* Bit of the hook in the open ticket's policy that a call is of. */
static uint32_t bit_of(uint32_t router, enum agent_hook_when when)
{
    return UINT32_C(1) << (2 * router + (when == AGENT_HOOK_AFTER_PROBE));
}

static uint32_t mask_of(enum agent_hook_when when)
{
    uint32_t mask = 0;
    for (uint32_t r = 0; r < SIM_ROUTERS; r++) {
        mask |= bit_of(r, when);
    }
    return mask;
}

void check_hooks_accepted(struct open_ticket *open, const struct agent_ticket *ticket)
{
    for (uint32_t i = 0; i < ticket->policy.hooks_count; i++) {
        const struct agent_hook *hook = &ticket->policy.hooks[i];
        open->hooks |= bit_of(router_of(hook->url), hook->when);
        open->hooks_ns += hook->deadline_ns + S;
    }
}

void check_hook_called(struct world *world, const struct node *node,
                       const struct agent_hook_call *call)
{
    struct group_model *group = node_part((struct node *)node, call->group->name);
    struct open_ticket *ticket = &group->ticket;
    if (!ticket->open || strcmp(ticket->uid, call->ticket_uid) != 0) {
        return; /* One that joins without a ticket tells whom the last one named. */
    }
    uint32_t bit = bit_of(router_of(call->url), call->when);
    if (call->when == AGENT_HOOK_BEFORE_PAUSE) {
        ticket->asked |= bit;
        ticket->told = 0;
        check_ticket_book(world, ticket->uid)->router_failed = true; /* Until it says yes. */
    } else {
        ticket->told |= bit;
    }
    ticket->hook_id = call->id;
    ticket->hook_bit = bit;
    if (call->serves_seq != group->journal_seq) {
        world_break(world, CHECK_ROUTER, "%s: a router is told of v%llu; v%llu was committed",
                    call->group->name, (unsigned long long)call->serves_seq,
                    (unsigned long long)group->journal_seq);
    }
}

void check_hook_ended(struct world *world, struct node *node, uint64_t id, bool ok)
{
    for (uint32_t g = 0; g < node->led_count; g++) {
        struct open_ticket *ticket = &node->groups[g].ticket;
        if (!ticket->open || ticket->hook_id != id) {
            continue;
        }
        ticket->acked |= ok ? ticket->hook_bit : 0;
        if (ok && (ticket->hook_bit & mask_of(AGENT_HOOK_BEFORE_PAUSE)) != 0) {
            check_ticket_book(world, ticket->uid)->router_failed = false;
        }
    }
}

/* No engine is paused before all routers that must have acknowledged that they send nobody. */
void check_drained(struct world *world, const struct group_model *group, const char *name)
{
    const struct open_ticket *ticket = &group->ticket;
    uint32_t must = ticket->hooks & mask_of(AGENT_HOOK_BEFORE_PAUSE);
    bool swaps = ticket->open && !ticket->rejoin && !group->follows && ticket->step == 0;
    if (swaps && (must & ~ticket->acked) != 0) {
        world_break(world, CHECK_ROUTER, "%s is paused before its routers send nobody any more",
                    name);
    }
}

/* Whom a swap asked to send nobody is told of the way back before it is over. */
void check_routers_told(struct world *world, const struct group_model *group, const char *name)
{
    const struct open_ticket *ticket = &group->ticket;
    uint32_t must = ticket->hooks & mask_of(AGENT_HOOK_AFTER_PROBE);
    if (!group->follows && (must & ~ticket->told) != 0) {
        world_break(world, CHECK_ROUTER, "%s serves again, and its routers were not told", name);
    }
}
