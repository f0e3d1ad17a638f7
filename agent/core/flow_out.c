/* flow_out.c -- out of service, and engines that come back; see flow.h. */
#include <string.h>

#include "agent/core/flow.h"
#include "agent/core/member.h"
#include "agent/core/ops.h"
#include "agent/core/tickets.h"

/* Where a pause may still come to work late, each such look asks whether the engine is paused; after
 * so many looks none is to be expected any more. */
enum { LOOKS_A_WHOLE = 5, LOOKS_IN_DOUBT = 300 };
/* An engine that answers and fails so often in a row is recreated. */
enum { FAILURES_MAX = 3 };

void flow_taint(struct agent *agent, struct group *group, struct engine *engine)
{
    const struct ledger_group *ledger = group->ledger;
    const char *incarnation = engine->facts.incarnation;
    const struct journal_members *then =
        group->sleep_doubt ? &ledger->sleep_members : &ledger->ticket_members;
    if (incarnation[0] == '\0' && engine->id.engine < then->count) {
        incarnation = then->incarnations[engine->id.engine];
    }
    engine->needs_recreate = true;
    if (incarnation[0] == '\0' || strcmp(ledger->taints[engine->id.engine], incarnation) == 0) {
        return;
    }
    struct journal_record record = group_record(group, JOURNAL_TAINT);
    memcpy(record.taint.engine, engine->config->name, sizeof record.taint.engine);
    (void)baton_text_copy(record.taint.incarnation, sizeof record.taint.incarnation, incarnation);
    agent_write(agent, &record);
    group_note(agent, group, true, "EngineTainted", "engine %s must be recreated: %s",
               engine->config->name, group->message);
}

/* Between INTENT and COMMIT an earlier life of the agent may have left a call on its way in an engine that is
 * still the same one: a fence makes it void, and nothing else does (rule 2). */
static bool may_work_unfenced(const struct group *group, const struct engine *engine)
{
    const struct journal_members *then = &group->ledger->ticket_members;
    return group->recovering && engine->known && engine->facts.way_in != AGENT_WAY_IN_PLUGIN &&
           engine->id.engine < then->count &&
           strcmp(engine->facts.incarnation, then->incarnations[engine->id.engine]) == 0;
}

/* An engine in which a call of the earlier life may still be under way; also one that nobody could reach since
 * INTENT, or since it was told to sleep or to wake: without an answer nobody knows of what kind it is. */
static void taint_feared(struct agent *agent, struct group *group)
{
    const struct ledger_group *ledger = group->ledger;
    bool changing = ledger->open && ledger->step > 0 && !ledger->ticket_committed;
    if (!changing && !group->sleep_doubt) {
        return;
    }
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        struct engine *engine = &group->engines[i];
        bool lost = !engine->known && engine->fate != FATE_GONE && !engine->exited;
        if (lost || (changing && may_work_unfenced(group, engine))) {
            flow_taint(agent, group, engine);
        }
    }
}

/* What was believed of an engine that failed is read back anew; one that keeps failing although it
 * answers will not get better by trying. */
static void count_failures(struct agent *agent, struct group *group)
{
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        struct engine *engine = &group->engines[i];
        if (engine->part != PART_FAILED || !engine->reachable || engine->fate >= FATE_STRAY) {
            continue;
        }
        engine->resident[0] = '\0';
        if (++engine->failures >= FAILURES_MAX) {
            flow_taint(agent, group, engine);
        }
    }
}

void flow_out(struct agent *agent, struct group *group)
{
    group_trouble(group, "not all engines were reached");
    taint_feared(agent, group);
    count_failures(agent, group);
    group_note(agent, group, true, "GroupOut", "%s", group->message);
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        struct engine *engine = &group->engines[i];
        if (engine->op.kind == AGENT_OP_READBACK) {
            ops_abandon(agent, group, engine, "the group is out of service");
        }
        engine->fate = FATE_NONE;
        engine->unproved = false;
        engine->known &= engine->reachable; /* Else it is attached anew. */
    }
    if (group->ledger->open && !member_follows(group)) { /* Else its leader says how it ended. */
        flow_end_ticket(agent, group, AGENT_OUTCOME_OUT);
    }
    if (group->offered || group->resolving) {
        group->resolving = false;
        tickets_refuse_offer(agent, group, group->message);
    }
    group->deadline_ns = AGENT_NEVER;
    group->closed_ns = 0;
    group->recovering = false;
    group->changed = true;
    group->blocked = "";
    group->rest_until_ns = agent->now_ns + baton_backoff_next_ns(&group->rest, &agent->random);
    phase_enter(agent, group, PHASE_OUT_SHUT);
}

void flow_out_recreate(struct agent *agent, struct group *group)
{
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        if (group->engines[i].part == PART_FAILED) {
            flow_taint(agent, group, &group->engines[i]);
        }
    }
    flow_out(agent, group);
}

void flow_out_shut(struct agent *agent, struct group *group)
{
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        /* One that is gone by now is attached anew: taken as known it would be shut again and again, and the
         * members would hear of nothing else. */
        group->engines[i].known &= group->engines[i].reachable;
    }
    phase_enter(agent, group, PHASE_OUT);
}

bool flow_is_left_dead(const struct group *group, const struct engine *engine)
{
    return engine->exited && !engine->recreating && flow_wants_sleep(group);
}

/* Rule 8: bounded attempts; then somebody must act. */
static bool can_recreate(const struct agent *agent, const struct group *group,
                         const struct engine *engine)
{
    return !flow_is_left_dead(group, engine) && engine->config->recreate == AGENT_RECREATE_EXEC &&
           engine->attempts < agent->config.recreate_attempts;
}

/* An engine that starts on a landed version waits for one; waiting is no attempt. */
static bool can_boot(const struct agent *agent, const struct group *group,
                     const struct engine *engine)
{
    return !engine->config->boots_from_landing ||
           (group->goal.given && group->goal.target.seq != 0 &&
            landings_has(&agent->landings, group->goal.target.digest));
}

static void show_out(struct agent *agent, struct group *group)
{
    const char *blocked = "";
    const struct engine *stuck = NULL;
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        const struct engine *engine = &group->engines[i];
        if (!engine->known && blocked[0] == '\0') {
            blocked = can_boot(agent, group, engine) ? "ENGINE_UNREACHABLE"
                      : group->goal.target.seq == 0  ? "NO_VERSION"
                                                     : "STAGING";
        }
        bool acts = engine->recreating ? engine->recreate_at_ns != AGENT_NEVER
                                       : can_recreate(agent, group, engine);
        if (engine->needs_recreate && !acts) {
            stuck = engine;
        }
    }
    if (blocked[0] == '\0' && !peers_are_gathered(group)) {
        blocked = "RANK_MISSING";
    }
    if (stuck != NULL && flow_is_left_dead(group, stuck)) {
        blocked = "GROUP_ASLEEP";
        stuck = NULL;
    }
    const struct peer *stuck_peer = stuck == NULL ? peers_need_recreate(group) : NULL;
    bool is_stuck = stuck != NULL || stuck_peer != NULL;
    blocked = is_stuck ? "ENGINE_NEEDS_RECREATE" : group->in_doubt ? "IN_DOUBT" : blocked;
    if (strcmp(blocked, group->blocked) == 0) {
        return;
    }
    group->blocked = blocked;
    group->changed = true;
    if (strcmp(blocked, "RANK_MISSING") == 0) { /* What took it out is over. */
        group->message[0] = '\0';
        peers_name_missing(group);
    }
    if (group->in_doubt) {
        group->message[0] = '\0';
        peers_name_missing(group);
        group_trouble(group, "the journal of its leader is a new one; the members are to be asked");
        group_note(agent, group, true, "InDoubt", "%s", group->message);
    }
    if (stuck_peer != NULL) {
        group->message[0] = '\0';
        group_trouble(group, "member %s: %s", stuck_peer->config->agent, stuck_peer->state.message);
    }
    if (stuck != NULL) {
        char why[BATON_TEXT_BYTES];
        memcpy(why, group->message, sizeof why);
        text_print(group->message, sizeof group->message, "%.140s; recreate engine %s: %s", why,
                   stuck->config->name,
                   stuck->config->recreate_command[0] != '\0' ? stuck->config->recreate_command
                                                              : "restart its process");
        group_note(agent, group, true, "EngineNeedsRecreate", "%s", group->message);
    }
}

/* A gate that was open when its engine could be reached again: of a live swap whose end nobody saw. */
static bool finds_open_gate(const struct group *group)
{
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        const struct engine *engine = &group->engines[i];
        if (engine->known && engine->facts.guarded && engine->maybe_open && !engine->recreating) {
            return true;
        }
    }
    return false;
}

void flow_out_wait(struct agent *agent, struct group *group)
{
    bool gathered = flow_gather(agent, group);
    group->in_doubt = resolve_is_needed(group);
    show_out(agent, group);
    if (!gathered && agent->now_ns >= group->shut_again_ns && finds_open_gate(group)) {
        group->shut_again_ns = agent->now_ns + agent->config.times.health_interval;
        phase_enter(agent, group, PHASE_OUT_SHUT);
    } else if (group->in_doubt && group->offered && group->offer.resolve) {
        resolve_begin(agent, group);
    } else if (group->offered) {
        tickets_refuse_offer(agent, group, group->message);
    } else if (!group->in_doubt && gathered && agent->now_ns >= group->rest_until_ns) {
        phase_enter(agent, group, PHASE_SHUT);
    }
}

static void recreate_failed(struct agent *agent, struct group *group, struct engine *engine,
                            const char *why)
{
    engine->recreating = false;
    engine->boot_by_ns = 0;
    engine->needs_recreate = true;
    engine->recreate_at_ns =
        agent->now_ns + baton_backoff_next_ns(&engine->backoff, &agent->random);
    group->changed = true;
    group_note(agent, group, true, "RecreateFailed", "engine %s, attempt %u: %s",
               engine->config->name, engine->attempts, why);
}

static void recreate(struct agent *agent, struct group *group, struct engine *engine)
{
    if (agent->now_ns < engine->recreate_at_ns || !ops_is_idle(engine) ||
        !can_boot(agent, group, engine)) {
        return;
    }
    engine->recreating = true;
    engine->attempts++;
    engine->recreates++;
    engine->recreate_at_ns = agent->now_ns + agent->config.times.recreate_deadline;
    group->changed = true;
    agent_push(agent, AGENT_ACTION_RECREATE)->recreate = engine->id;
    group_note(agent, group, false, "Recreating", "engine %s, attempt %u", engine->config->name,
               engine->attempts);
}

void flow_on_recreated(struct agent *agent, struct group *group, struct engine *engine,
                       const struct baton_status *status)
{
    if (!engine->recreating) {
        return;
    }
    if (!baton_ok(status)) {
        recreate_failed(agent, group, engine, status->message);
        return;
    }
    engine->recreating = false;
    engine->needs_recreate = false;
    engine->exited = false;
    engine->known = false;
    engine->maybe_open = false;
    engine->heard_ns = agent->now_ns;
    engine->boot_by_ns = agent->now_ns + agent->config.times.boot;
    /* Should it die again soon, the next attempt waits for this, not for the action's deadline. */
    engine->recreate_at_ns =
        agent->now_ns + baton_backoff_next_ns(&engine->backoff, &agent->random);
    engine->next_look_ns = agent->now_ns;
}

void flow_on_exited(struct agent *agent, struct group *group, struct engine *engine)
{
    if (engine->recreating || engine->exited) {
        return;
    }
    if (engine->boot_by_ns != 0 && agent->started) {
        recreate_failed(agent, group, engine, "its process ended while it started");
    }
    engine->exited = true;
    engine->needs_recreate = true;
    engine->maybe_open = false;
    ops_lose(agent, group, engine, "its process has ended");
}

/* No other one is begun: it would wait for this one's end, and the answers could not be told apart. */
static void recreate_is_late(struct agent *agent, struct group *group, struct engine *engine)
{
    engine->recreate_at_ns = AGENT_NEVER;
    group->changed = true;
    group_note(agent, group, true, "RecreateFailed",
               "engine %s, attempt %u: the recreate action did not end in time",
               engine->config->name, engine->attempts);
}

/* An engine that does not answer for so long is not coming back by itself. */
static void give_up_on(struct agent *agent, struct group *group, struct engine *engine)
{
    const struct agent_times *times = &agent->config.times;
    bool exec = engine->config->recreate == AGENT_RECREATE_EXEC;
    if (engine->boot_by_ns != 0) {
        if (agent->now_ns >= engine->boot_by_ns) {
            recreate_failed(agent, group, engine, "it did not answer in time after its start");
        }
    } else if (exec &&
               agent->now_ns >= engine->heard_ns + times->engine_lost + times->recreate_after) {
        engine->needs_recreate = true;
    }
}

static bool is_gathered(const struct engine *engine)
{
    return engine->known && !engine->needs_recreate && !engine->recreating;
}

/* One engine on its way back. */
static void gather(struct agent *agent, struct group *group, struct engine *engine)
{
    if (engine->recreating) {
        if (agent->now_ns >= engine->recreate_at_ns) {
            recreate_is_late(agent, group, engine);
        }
        return;
    }
    if (!engine->needs_recreate) {
        give_up_on(agent, group, engine);
    }
    if (engine->needs_recreate && can_recreate(agent, group, engine)) {
        if (group->phase == PHASE_OUT) {
            recreate(agent, group, engine);
        }
        return;
    }
    if (ops_is_idle(engine) && agent->now_ns >= engine->next_look_ns) {
        ops_start_aside(agent, engine, AGENT_OP_ATTACH);
    }
}

bool flow_gather(struct agent *agent, struct group *group)
{
    bool gathered = true;
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        struct engine *engine = &group->engines[i];
        if (!is_gathered(engine)) {
            gather(agent, group, engine);
        }
        /* One left dead must have been looked for: somebody else may have started it. */
        gathered &=
            (flow_is_left_dead(group, engine) || is_gathered(engine)) && ops_is_idle(engine);
    }
    return gathered && peers_are_gathered(group);
}

static enum agent_op_kind look_kind(struct engine *engine)
{
    if (!engine->known) {
        return AGENT_OP_ATTACH; /* Left dead, unless somebody started it. */
    }
    if (!engine->pause_doubt) {
        engine->looks = 0;
        return AGENT_OP_HEALTH;
    }
    engine->pause_doubt = engine->looks < LOOKS_IN_DOUBT;
    return engine->looks++ % LOOKS_A_WHOLE == 0 ? AGENT_OP_ATTACH : AGENT_OP_HEALTH;
}

void flow_look(struct agent *agent, struct group *group)
{
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        struct engine *engine = &group->engines[i];
        if (!ops_is_idle(engine)) {
            continue;
        }
        bool lost = !engine->reachable && !engine->exited &&
                    agent->now_ns >= engine->heard_ns + agent->config.times.engine_lost;
        if (lost) {
            ops_lose(agent, group, engine, "it cannot be reached");
        } else if (engine->exited && !flow_is_left_dead(group, engine)) {
            ops_lose(agent, group, engine, "its process has ended"); /* Woken: it is started. */
        } else if (agent->now_ns >= engine->next_look_ns) {
            ops_start_aside(agent, engine, look_kind(engine));
        }
    }
}

uint64_t flow_look_deadline_ns(const struct agent *agent, const struct group *group,
                               const struct engine *engine)
{
    bool gathers = group->phase == PHASE_ATTACH || group->phase == PHASE_OUT;
    if (group->phase == PHASE_SETTLE || group->phase == PHASE_DETACHED ||
        (gathers && is_gathered(engine))) {
        return AGENT_NEVER;
    }
    if (engine->recreating) {
        return engine->recreate_at_ns;
    }
    if (engine->needs_recreate && can_recreate(agent, group, engine)) {
        return ops_is_idle(engine) && can_boot(agent, group, engine) ? engine->recreate_at_ns
                                                                     : AGENT_NEVER;
    }
    return ops_is_idle(engine) ? engine->next_look_ns : AGENT_NEVER;
}
