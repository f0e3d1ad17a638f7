/* flow_drain.c -- an operator wants a group shut: its gates close, what runs ends by itself, and it
 * stays away until the goal no longer says so.  No engine is paused and no weight is touched, so it
 * comes back through the comparison with its target; see flow.h. */
#include <string.h>

#include "agent/core/flow.h"
#include "agent/core/ops.h"
#include "agent/core/tickets.h"

void flow_drain(struct agent *agent, struct group *group)
{
    group_note(agent, group, false, "Draining", "its gate is shut because an operator asked");
    group->message[0] = '\0';
    group->deadline_ns = agent->now_ns + agent->config.times.restore_bound;
    phase_enter(agent, group, PHASE_DRAIN_SHUT);
}

void flow_drain_shut(struct agent *agent, struct group *group)
{
    (void)agent;
    group->deadline_ns = AGENT_NEVER;
    group->changed = true;
    phase_enter(agent, group, PHASE_DRAINED);
}

static void show(struct group *group)
{
    char text[BATON_TEXT_BYTES] = "drained";
    uint32_t active = 0;
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        active += group->engines[i].facts.guarded ? group->engines[i].facts.active : 0;
    }
    if (active > 0) {
        text_print(text, sizeof text, "drains: %u requests in progress", active);
    }
    if (strcmp(group->message, text) != 0 || strcmp(group->blocked, "GROUP_CORDONED") != 0) {
        memcpy(group->message, text, sizeof text);
        group->blocked = "GROUP_CORDONED";
        group->changed = true;
    }
}

void flow_drained_wait(struct agent *agent, struct group *group)
{
    flow_look(agent, group);
    if (group->entered) {
        return;
    }
    if (group->offered) {
        tickets_refuse_offer(agent, group, "the group is drained");
    }
    if (flow_wants_sleep(group)) {
        flow_sleep(agent, group);
        return;
    }
    if (group->goal.drain) {
        show(group);
        return;
    }
    group_note(agent, group, false, "Undrained",
               "it may serve again once its weights are verified");
    group->message[0] = '\0';
    group->blocked = "";
    group->changed = true;
    group->deadline_ns = agent->now_ns + agent->config.times.restore_bound;
    phase_enter(agent, group, PHASE_SHUT);
}
