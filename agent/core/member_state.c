/* member_state.c -- what a follower tells its leader: its part of the group, and what came of a command. */
#include <string.h>

#include "agent/core/flow.h"
#include "agent/core/member.h"
#include "agent/core/ops.h"
#include "agent/core/report.h"
#include "agent/core/tickets.h"

bool member_is_ready(const struct group *group)
{
    return group->member.busy || group->phase == PHASE_MEMBER_SHUT ||
           group->phase == PHASE_MEMBER_UP || group->phase == PHASE_SERVING;
}

bool member_is_out(const struct group *group)
{
    return group->phase == PHASE_OUT || group->phase == PHASE_OUT_SHUT;
}

static void fill_engines(struct agent *agent, const struct group *group,
                         struct agent_peer_state *out)
{
    struct agent_group_report report = { 0 };
    report_engines(agent, group, &report);
    out->engines = report.engines;
    out->engines_count = report.engines_count;
    out->level = report.level;
    out->advisory = report.advisory;
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        out->busy |= group->engines[i].op_aside && group->engines[i].op.kind == AGENT_OP_READBACK;
    }
}

/* What is landed of target and next version; one that does not fit is as good as not landed. */
static void fill_landed(const struct agent *agent, const struct group *group,
                        struct agent_peer_state *out)
{
    const struct agent_version *const versions[2] = { &group->goal.target, &group->goal.stage };
    for (int i = 0; i < 2; i++) {
        const struct landing *row = landings_find(&agent->landings, versions[i]->digest);
        if (versions[i]->seq == 0 || row == NULL) {
            continue;
        }
        if (agent_group_is_unfit(group, versions[i]->digest)) {
            text_print(out->blocked, sizeof out->blocked, "INCOMPATIBLE_LAYOUT");
            memcpy(out->message, group->unfit_message, sizeof out->message);
        } else if (row->state == LANDING_HERE) {
            memcpy(out->landed[i], versions[i]->digest, sizeof out->landed[i]);
        } else if (row->backoff.failures >= LANDING_TRIES) {
            text_print(out->blocked, sizeof out->blocked, "%s",
                       row->no_room ? "NO_MEMORY" : "STAGE_FAILED");
            memcpy(out->message, row->trouble, sizeof out->message);
        }
        out->staged_bytes = row->landed_bytes;
    }
}

static void fill_state(struct agent *agent, const struct group *group, struct agent_peer_state *out)
{
    const struct ledger_group *ledger = group->ledger;
    memset(out, 0, sizeof *out);
    out->known = true;
    out->fence = (struct agent_fence){ agent->ledger.epoch, ledger->owner_term,
                                       ledger->highest_ticket, group->member.seen };
    out->committed = ledger->committed;
    out->needs_ticket = ledger->needs_ticket;
    out->may_sleep = flow_may_sleep(group);
    if (ledger->open) {
        memcpy(out->open_uid, ledger->ticket.uid, sizeof out->open_uid);
        out->open_from = ledger->ticket.from;
        out->open_to = ledger->ticket.to;
        out->prepared = ledger->step > 0;
        out->open_committed = ledger->ticket_committed;
    }
    out->ready = member_is_ready(group);
    out->serving = group->phase == PHASE_SERVING;
    out->out = member_is_out(group);
    out->can_restore = tickets_can_restore(agent, group, &ledger->committed);
    memcpy(out->message, group->message, sizeof out->message);
    fill_landed(agent, group, out);
    if (strcmp(group->blocked, "ENGINE_NEEDS_RECREATE") == 0) {
        text_print(out->blocked, sizeof out->blocked, "%s", group->blocked);
        memcpy(out->message, group->message, sizeof out->message);
    }
    fill_engines(agent, group, out);
}

struct agent_peer_result *member_push_answer(struct agent *agent, const char *leader)
{
    struct agent_peer_result *result = agent_scratch(agent, 1, sizeof *result);
    struct agent_action *action = agent_push(agent, AGENT_ACTION_PEER_ANSWER);
    action->peer_answer.leader = leader;
    action->peer_answer.result = result;
    return result;
}

void member_tell(struct agent *agent, struct group *group, bool last)
{
    struct agent_peer_result *result = member_push_answer(agent, group->config->leader);
    if (last) {
        *result = group->member.last;
    }
    memcpy(result->group, group->config->name, sizeof result->group);
    fill_state(agent, group, &result->state);
    group->member.told_ns = agent->now_ns;
    group->changed = false;
    group->progressed = false;
}

void member_answer(struct agent *agent, struct group *group, bool ok, bool gone, const char *why)
{
    struct member *member = &group->member;
    memset(&member->last, 0, sizeof member->last);
    member->last.step = member->step;
    member->last.ok = ok;
    member->last.gone = gone;
    member->last.times = member->times;
    member->last.asked = member->asked;
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        member->last.held += group->engines[i].facts.held;
    }
    if (!ok) {
        text_print(member->last.message, sizeof member->last.message, "%s", why);
    }
    member_tell(agent, group, true);
}
