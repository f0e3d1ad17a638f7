/* check_told.c -- the truth about what an agent deletes and tells; see check.h. */
#include <stdio.h>
#include <string.h>

#include "tests/sim/check.h"
#include "tests/sim/cover.h"

void check_drop(struct world *world, struct node *node, uint32_t content)
{
    if (!node->droppable[content]) {
        world_break(world, CHECK_RETENTION, "%s deletes content %u, which nobody allowed",
                    node->config.agent, content);
    }
    for (uint32_t g = 0; g < node->groups_count; g++) {
        const struct group_model *group = &node->groups[g];
        bool ticketed =
            group->ticket.open && (group->ticket.from == content || group->ticket.to == content);
        if (content == 0 || group->journal_content == content || ticketed) {
            world_break(world, CHECK_RETENTION, "%s deletes content %u, which %s needs",
                        node->config.agent, content, node->groups_config[g].name);
        }
    }
}

void check_told(struct world *world, struct node *node, const struct agent_group_report *report)
{
    struct group_model *group = world_group(world, report->group, NULL);
    cover(COVER_GROUP_STATE, (uint32_t)report->state);
    check_models_told(world, report);
    (void)node;
    group->state = report->state;
    (void)snprintf(group->told_blocked, sizeof(group->told_blocked), "%s", report->blocked);
    if (report->committed.seq != group->journal_seq) {
        world_break(world, CHECK_COMMIT, "%s reports v%llu as committed; its journal says v%llu",
                    report->group, (unsigned long long)report->committed.seq,
                    (unsigned long long)group->journal_seq);
    }
    bool open = group->ticket.open;
    if (open != (report->ticket_uid[0] != '\0')) {
        world_break(world, CHECK_OUTCOME, "%s reports %s ticket; its journal says otherwise",
                    report->group, open ? "no" : "a");
    }
}

void check_lost(struct group_model *group)
{
    const struct open_ticket was = group->ticket;
    memset(&group->ticket, 0, sizeof(group->ticket));
    if (was.live && (was.open || was.lost || was.out_ns != 0)) {
        group->ticket = (struct open_ticket){ .lost = true,
                                              .live = true,
                                              .live_intent = was.live_intent,
                                              .committed = was.committed,
                                              .from_seq = was.from_seq,
                                              .to_seq = was.to_seq,
                                              .from = was.from,
                                              .to = was.to };
    }
}
