/* check_sent.c -- the truth about what controllers send; see check.h. */
#include <string.h>

#include "tests/sim/check.h"

/* Also of a deposed one: what it sends was durable before somebody else led. */
static void check_ticket(struct world *world, const struct head *head,
                         const struct ticket_send *send)
{
    const struct group_record *group = disk_find(&world->disk, RECORD_GROUP, send->group);
    bool stands =
        group != NULL && group->ticket_open && strcmp(group->ticket.uid, send->ticket->uid) == 0;
    if (send->ticket->resolve) {
        check_ticket_book(world, send->ticket->uid)->resolves = true;
        world_group(world, send->group, NULL)->asks = true;
    }
    if (head->deposed ? !check_ticket_book(world, send->ticket->uid)->stored : !stands) {
        world_break(world, CHECK_ORDER, "%s is sent a ticket that is not stored", send->group);
    }
}

static void check_stored(struct world *world, const struct outcome_stored *sent)
{
    const struct group_record *group = disk_find(&world->disk, RECORD_GROUP, sent->group);
    if (group != NULL && group->ticket_open && strcmp(group->ticket.uid, sent->ticket_uid) == 0) {
        world_break(world, CHECK_OUTCOME, "%s is told that its outcome is stored; it is not",
                    sent->group);
    }
}

void check_send(struct world *world, struct head *head, const struct action_send *send)
{
    check_models_sent(world, send);
    if (send->kind == SEND_TICKET) {
        check_ticket(world, head, &send->message.ticket);
    } else if (send->kind == SEND_OUTCOME_STORED) {
        check_stored(world, &send->message.stored);
    }
}
