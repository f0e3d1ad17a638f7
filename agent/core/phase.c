/* phase.c -- see phase.h. */
#include "agent/core/phase.h"

#include <string.h>

#include "agent/core/flow.h"
#include "agent/core/member.h"
#include "agent/core/operate.h"
#include "agent/core/ops.h"
#include "api/base/mutant.h"

static bool all(const struct group *group, const struct engine *engine)
{
    (void)group;
    return engine->config != NULL;
}

static bool guarded(const struct group *group, const struct engine *engine)
{
    (void)group;
    return engine->facts.guarded;
}

static bool guarded_alive(const struct group *group, const struct engine *engine)
{
    return guarded(group, engine) && !flow_is_left_dead(group, engine);
}

static bool alive(const struct group *group, const struct engine *engine)
{
    return !flow_is_left_dead(group, engine);
}

/* An engine that was never reached has no gate that this life opened, and its guard boots shut.  An
 * earlier life's live swap may have left it open: flow_out_wait() looks once it is reached. */
static bool guarded_or_lost(const struct group *group, const struct engine *engine)
{
    (void)group;
    return engine->facts.guarded && (engine->maybe_open || engine->known);
}

static bool guarded_rest(const struct group *group, const struct engine *engine)
{
    return guarded(group, engine) && engine->id.engine != 0;
}

static bool guarded_first(const struct group *group, const struct engine *engine)
{
    return guarded(group, engine) && engine->id.engine == 0;
}

static bool fenced(const struct group *group, const struct engine *engine)
{
    (void)group;
    return engine->facts.way_in == AGENT_WAY_IN_PLUGIN;
}

/* A rejoin reads first what is resident: an engine that holds the version already is left alone. */
static bool rejoins(const struct group *group, const struct engine *engine)
{
    return group->ledger->ticket.rejoin && fenced(group, engine);
}

static bool lacks_to(const struct group *group, const struct engine *engine)
{
    if (MUTANT(ONE_ENGINE) && engine->id.engine != 0) {
        return false;
    }
    return strcmp(engine->resident, group->ledger->ticket.to.digest) != 0;
}

/* What an update says of itself is the engine's word: it is read back by a call of its own. */
static bool unproved(const struct group *group, const struct engine *engine)
{
    return fenced(group, engine) && (engine->touched || engine->level < AGENT_LEVEL_RESIDENT);
}

/* Old KV may not be found after the swap, and a cache that had it before shows whether it is. */
static bool proves_kv(const struct group *group, const struct engine *engine)
{
    return all(group, engine) && group->ledger->ticket.policy.kv != AGENT_KV_KEEP;
}

/* A rejoin knows nothing of the cache.  What a salted version leaves behind cannot be matched, but
 * what was there before it could be. */
static bool flushes(const struct group *group, const struct engine *engine)
{
    const struct ledger_group *ledger = group->ledger;
    bool leaves = ledger->ticket.policy.kv == AGENT_KV_SALT ||
                  (ledger->ticket.policy.kv == AGENT_KV_KEEP && !ledger->salted);
    return all(group, engine) && (ledger->ticket.rejoin || !leaves);
}

static bool must_go_back(const struct group *group, const struct engine *engine)
{
    (void)group;
    return engine->touched && !engine->restored;
}

static bool was_touched(const struct group *group, const struct engine *engine)
{
    (void)group;
    return engine->touched;
}

/* The table of states (design 3).  A wait has no
 * operation; all other rows are one operation by all engines that take part, at the same time.
 *
 * JOINING: gates shut, or being looked at.  ATTACH waits for the engines' first answers, then the
 *   journal decides; SHUT makes sure of the gates; AWAIT_TARGET waits for the goal and its landing;
 *   COMPARE reads residents back; AWAIT_TICKET waits for a rejoin ticket, since they are not (or
 *   not provably) what this journal committed in this incarnation.
 * SERVING: gates open, residents are the committed version.  Landing the next one goes on beside it
 *   (STAGING, STAGED, STAGE_FAILED) and never costs availability.
 * PAUSING: a ticket is accepted.  DRAIN asks the routers to send nobody any more, while the gates are
 *   open; SETTLE waits for the engines' other calls; WARM leaves something in
 *   the caches that must not be found later; CLOSE holds or shuts
 *   the gates; PAUSE stops the engines and reads that back.  A failure reopens: no weight was
 *   touched.  BARRIER_SHUT, of a barrier only: shut until the controller says GO or CANCEL.
 * APPLYING: INTENT is durable.  FENCE makes calls of earlier steps void; KNOW, for a rejoin, reads
 *   what is there; UPDATE, VERIFY, INVALIDATE change and prove; CONFIRM reads incarnations once
 *   more, and COMMIT is its end.  A failure restores.
 * RESUMING: committed.  LABEL names the version in the engines, MARK in their pages, while nothing
 *   runs: what goes on after RESUME ends under the new name.  BARRIER_OPEN, of a barrier only: shut
 *   until all others committed, too.  PROBE, then TELL tells the routers, then
 *   the gates, the first engine's last.  A failure is OUT: going back would be a second version change.
 * RESTORING: BACK_SHUT after a restart of the agent, while arrivals go on waiting; BACK_FENCE
 *   raises the step, so that a call that hangs does nothing when it wakes up; BACK_UPDATE,
 *   BACK_VERIFY; the REOPEN rows serve the old version again, with BACK_PROBE where weights were touched.
 *   They follow a failed PAUSE too.  A failure is OUT, and the engine is recreated.
 * APPLYING, of a live swap: the gates stay open.  LIVE_PREPARE has all ranks hold the version beside the
 *   one that serves; a failure ends the ticket, since no weight was touched.  LIVE_INTENT is durable.
 *   LIVE_SWAP is the one call; LIVE_VERIFY reads back; LIVE_CONFIRM reads the incarnation, and COMMIT is its
 *   end.  Then LIVE_MARK (the page names the version, gates open), LABEL, PROBE and on as above.  Whatever
 *   fails before COMMIT, and a restart of the agent: LIVE_FENCE makes a call that is still on its way
 *   void, LIVE_KNOW_TO reads whether the ranks hold the new version (then LIVE_CONFIRM), LIVE_KNOW_FROM
 *   whether they hold the old one (then it serves on, and the ticket ends).  Neither: RESTORING, where
 *   BACK_SHUT and BACK_PAUSE come before INTENT.
 * OUT: OUT_SHUT shuts what can be shut; OUT waits for engines to be recreated or to come back.
 *   DRAIN_SHUT and DRAINED are away by an operator's will: nothing is paused, nothing is touched.
 *   DETACHED: this agent does not drive the group; engines and gates are as they were left.
 * ASLEEP: somebody else uses the device.  SLEEP_SHUT shuts the gates; SLEEP drains and puts the engines to
 *   sleep (both are OUT, as nothing proves yet that memory is free); ASLEEP waits until it is wanted again;
 *   SLEEPLESS for the next try, after an engine said no.  WAKE gives memory back; then it joins.
 *
 * Several agents: each row with an operation goes to the followers, too (peer.c).  COMMIT tells them
 * that it is durable; ASK asks them about a ticket of which this journal knows nothing.  A follower
 * waits for its leader's next command in MEMBER_SHUT, in MEMBER_UP where its gates may be open, or in
 * SERVING. */
static const struct phase_row ROWS[PHASE_COUNT] = {
    [PHASE_ATTACH] = { "ATTACH", AGENT_GROUP_JOINING, PHASE_GATE_UNKNOWN, AGENT_OP_NONE, 0, 0, NULL,
                       flow_attach_wait, NULL, NULL },
    [PHASE_SHUT] = { "SHUT", AGENT_GROUP_JOINING, PHASE_GATE_UNKNOWN, AGENT_OP_SET_GATE,
                     AGENT_GATE_SHUT, 3, guarded_alive, NULL, flow_join, flow_out },
    [PHASE_AWAIT_TARGET] = { "AWAIT_TARGET", AGENT_GROUP_JOINING, PHASE_GATE_SHUT, AGENT_OP_NONE, 0,
                             0, NULL, flow_ticket_wait, NULL, NULL },
    [PHASE_COMPARE] = { "COMPARE", AGENT_GROUP_JOINING, PHASE_GATE_SHUT, AGENT_OP_READBACK, 0, 1,
                        fenced, NULL, flow_compare_ended, flow_compare_ended },
    [PHASE_AWAIT_TICKET] = { "AWAIT_TICKET", AGENT_GROUP_JOINING, PHASE_GATE_SHUT, AGENT_OP_NONE, 0,
                             0, NULL, flow_ticket_wait, NULL, NULL },
    [PHASE_SERVING] = { "SERVING", AGENT_GROUP_SERVING, PHASE_GATE_MAY_OPEN, AGENT_OP_NONE, 0, 0,
                        NULL, flow_serving_wait, NULL, NULL },
    [PHASE_DRAIN] = { "DRAIN", AGENT_GROUP_PAUSING, PHASE_GATE_MAY_OPEN, AGENT_OP_NONE, 0, 0, NULL,
                      flow_drain_wait, NULL, NULL },
    [PHASE_SETTLE] = { "SETTLE", AGENT_GROUP_PAUSING, PHASE_GATE_MAY_OPEN, AGENT_OP_NONE, 0, 0,
                       NULL, flow_settle_wait, NULL, NULL },
    [PHASE_WARM] = { "WARM", AGENT_GROUP_PAUSING, PHASE_GATE_MAY_OPEN, AGENT_OP_WARM, 0, 1,
                     proves_kv, NULL, flow_warmed, flow_warmed },
    [PHASE_CLOSE] = { "CLOSE", AGENT_GROUP_PAUSING, PHASE_GATE_MAY_OPEN, AGENT_OP_SET_GATE,
                      AGENT_GATE_HOLD, 1, guarded, NULL, flow_closed, flow_pause_failed },
    [PHASE_PAUSE] = { "PAUSE", AGENT_GROUP_PAUSING, PHASE_GATE_SHUT, AGENT_OP_PAUSE, 0, 1, all,
                      NULL, flow_paused, flow_pause_failed },
    [PHASE_BARRIER_SHUT] = { "BARRIER_SHUT", AGENT_GROUP_PAUSING, PHASE_GATE_SHUT, AGENT_OP_NONE, 0,
                             0, NULL, flow_barrier_shut_wait, NULL, NULL },
    [PHASE_FENCE] = { "FENCE", AGENT_GROUP_APPLYING, PHASE_GATE_SHUT, AGENT_OP_RAISE_FENCE, 0, 2,
                      fenced, NULL, flow_fenced, flow_apply_failed },
    [PHASE_KNOW] = { "KNOW", AGENT_GROUP_APPLYING, PHASE_GATE_SHUT, AGENT_OP_READBACK, 0, 1,
                     rejoins, NULL, flow_known, flow_known },
    [PHASE_UPDATE] = { "UPDATE", AGENT_GROUP_APPLYING, PHASE_GATE_SHUT, AGENT_OP_UPDATE, 0, 1,
                       lacks_to, NULL, flow_updated, flow_apply_failed },
    [PHASE_VERIFY] = { "VERIFY", AGENT_GROUP_APPLYING, PHASE_GATE_SHUT, AGENT_OP_READBACK, 0, 1,
                       unproved, NULL, flow_verified, flow_apply_failed },
    [PHASE_INVALIDATE] = { "INVALIDATE", AGENT_GROUP_APPLYING, PHASE_GATE_SHUT, AGENT_OP_INVALIDATE,
                           0, 2, flushes, NULL, flow_invalidated, flow_apply_failed },
    [PHASE_CONFIRM] = { "CONFIRM", AGENT_GROUP_APPLYING, PHASE_GATE_SHUT, AGENT_OP_HEALTH, 0, 2,
                        all, NULL, flow_confirmed, flow_apply_failed },
    [PHASE_LABEL] = { "LABEL", AGENT_GROUP_RESUMING, PHASE_GATE_MAY_OPEN, AGENT_OP_LABEL, 0, 3, all,
                      NULL, flow_labelled, flow_out },
    [PHASE_MARK] = { "MARK", AGENT_GROUP_RESUMING, PHASE_GATE_MAY_OPEN, AGENT_OP_SET_GATE,
                     AGENT_GATE_HOLD, 3, guarded, NULL, flow_marked, flow_out },
    [PHASE_BARRIER_OPEN] = { "BARRIER_OPEN", AGENT_GROUP_RESUMING, PHASE_GATE_SHUT, AGENT_OP_NONE,
                             0, 0, NULL, flow_barrier_open_wait, NULL, NULL },
    [PHASE_RESUME] = { "RESUME", AGENT_GROUP_RESUMING, PHASE_GATE_MAY_OPEN, AGENT_OP_RESUME, 0, 3,
                       all, NULL, flow_resumed, flow_out },
    [PHASE_PROBE] = { "PROBE", AGENT_GROUP_RESUMING, PHASE_GATE_MAY_OPEN, AGENT_OP_PROBE, 0, 3, all,
                      NULL, flow_probed, flow_out },
    [PHASE_TELL] = { "TELL", AGENT_GROUP_RESUMING, PHASE_GATE_MAY_OPEN, AGENT_OP_NONE, 0, 0, NULL,
                     flow_tell_wait, NULL, NULL },
    [PHASE_OPEN_REST] = { "OPEN_REST", AGENT_GROUP_RESUMING, PHASE_GATE_MAY_OPEN, AGENT_OP_SET_GATE,
                          AGENT_GATE_OPEN, 3, guarded_rest, NULL, flow_opened_rest, flow_out },
    [PHASE_OPEN_FIRST] = { "OPEN_FIRST", AGENT_GROUP_RESUMING, PHASE_GATE_MAY_OPEN,
                           AGENT_OP_SET_GATE, AGENT_GATE_OPEN, 3, guarded_first, NULL, flow_opened,
                           flow_out },
    [PHASE_BACK_SHUT] = { "BACK_SHUT", AGENT_GROUP_RESTORING, PHASE_GATE_UNKNOWN, AGENT_OP_SET_GATE,
                          AGENT_GATE_HOLD, 3, guarded, NULL, flow_back_shut, flow_back_failed },
    [PHASE_BACK_FENCE] = { "BACK_FENCE", AGENT_GROUP_RESTORING, PHASE_GATE_SHUT,
                           AGENT_OP_RAISE_FENCE, 0, 3, fenced, NULL, flow_back_fenced,
                           flow_back_failed },
    [PHASE_BACK_UPDATE] = { "BACK_UPDATE", AGENT_GROUP_RESTORING, PHASE_GATE_SHUT, AGENT_OP_UPDATE,
                            0, 1, must_go_back, NULL, flow_back_updated, flow_back_failed },
    [PHASE_BACK_VERIFY] = { "BACK_VERIFY", AGENT_GROUP_RESTORING, PHASE_GATE_SHUT,
                            AGENT_OP_READBACK, 0, 2, was_touched, NULL, flow_back_verified,
                            flow_back_failed },
    [PHASE_REOPEN_RESUME] = { "REOPEN_RESUME", AGENT_GROUP_RESTORING, PHASE_GATE_MAY_OPEN,
                              AGENT_OP_RESUME, 0, 3, all, NULL, flow_reopen_resumed, flow_out },
    [PHASE_BACK_PROBE] = { "BACK_PROBE", AGENT_GROUP_RESTORING, PHASE_GATE_MAY_OPEN, AGENT_OP_PROBE,
                           0, 3, was_touched, NULL, flow_back_probed, flow_back_failed },
    [PHASE_BACK_TELL] = { "BACK_TELL", AGENT_GROUP_RESTORING, PHASE_GATE_MAY_OPEN, AGENT_OP_NONE, 0,
                          0, NULL, flow_back_tell_wait, NULL, NULL },
    [PHASE_REOPEN_REST] = { "REOPEN_REST", AGENT_GROUP_RESTORING, PHASE_GATE_MAY_OPEN,
                            AGENT_OP_SET_GATE, AGENT_GATE_OPEN, 3, guarded_rest, NULL,
                            flow_reopened_rest, flow_out },
    [PHASE_REOPEN_FIRST] = { "REOPEN_FIRST", AGENT_GROUP_RESTORING, PHASE_GATE_MAY_OPEN,
                             AGENT_OP_SET_GATE, AGENT_GATE_OPEN, 3, guarded_first, NULL,
                             flow_reopened, flow_out },
    [PHASE_OUT_SHUT] = { "OUT_SHUT", AGENT_GROUP_OUT, PHASE_GATE_UNKNOWN, AGENT_OP_SET_GATE,
                         AGENT_GATE_SHUT, 2, guarded_or_lost, NULL, flow_out_shut, flow_out_shut },
    [PHASE_OUT] = { "OUT", AGENT_GROUP_OUT, PHASE_GATE_UNKNOWN, AGENT_OP_NONE, 0, 0, NULL,
                    flow_out_wait, NULL, NULL },
    [PHASE_COMMIT] = { "COMMIT", AGENT_GROUP_RESUMING, PHASE_GATE_MAY_OPEN, AGENT_OP_NONE, 0, 0,
                       NULL, NULL, flow_committed, flow_out },
    [PHASE_ASK] = { "ASK", AGENT_GROUP_OUT, PHASE_GATE_UNKNOWN, AGENT_OP_NONE, 0, 0, NULL, NULL,
                    resolve_answered, resolve_failed },
    [PHASE_MEMBER_SHUT] = { "MEMBER_SHUT", AGENT_GROUP_JOINING, PHASE_GATE_SHUT, AGENT_OP_NONE, 0,
                            0, NULL, flow_member_wait, NULL, NULL },
    [PHASE_MEMBER_UP] = { "MEMBER_UP", AGENT_GROUP_JOINING, PHASE_GATE_MAY_OPEN, AGENT_OP_NONE, 0,
                          0, NULL, flow_member_wait, NULL, NULL },
    [PHASE_DRAIN_SHUT] = { "DRAIN_SHUT", AGENT_GROUP_OUT, PHASE_GATE_UNKNOWN, AGENT_OP_SET_GATE,
                           AGENT_GATE_SHUT, 3, guarded, NULL, flow_drain_shut, flow_out },
    [PHASE_DRAINED] = { "DRAINED", AGENT_GROUP_OUT, PHASE_GATE_SHUT, AGENT_OP_NONE, 0, 0, NULL,
                        flow_drained_wait, NULL, NULL },
    [PHASE_DETACHED] = { "DETACHED", AGENT_GROUP_OUT, PHASE_GATE_UNKNOWN, AGENT_OP_NONE, 0, 0, NULL,
                         operate_detached_wait, NULL, NULL },
    [PHASE_SLEEP_SHUT] = { "SLEEP_SHUT", AGENT_GROUP_OUT, PHASE_GATE_UNKNOWN, AGENT_OP_SET_GATE,
                           AGENT_GATE_SHUT, 3, guarded_alive, NULL, flow_sleep_shut, flow_out },
    [PHASE_SLEEP] = { "SLEEP", AGENT_GROUP_OUT, PHASE_GATE_SHUT, AGENT_OP_SLEEP, 0, 1, alive, NULL,
                      flow_slept, flow_sleep_failed },
    [PHASE_SLEEPLESS] = { "SLEEPLESS", AGENT_GROUP_OUT, PHASE_GATE_SHUT, AGENT_OP_NONE, 0, 0, NULL,
                          flow_sleepless_wait, NULL, NULL },
    [PHASE_ASLEEP] = { "ASLEEP", AGENT_GROUP_ASLEEP, PHASE_GATE_SHUT, AGENT_OP_NONE, 0, 0, NULL,
                       flow_asleep_wait, NULL, NULL },
    [PHASE_WAKE] = { "WAKE", AGENT_GROUP_JOINING, PHASE_GATE_SHUT, AGENT_OP_WAKE, 0, 2, all, NULL,
                     flow_woken, flow_out },
    [PHASE_LIVE_PREPARE] = { "LIVE_PREPARE", AGENT_GROUP_APPLYING, PHASE_GATE_MAY_OPEN,
                             AGENT_OP_PREPARE, 0, 1, all, NULL, flow_live_prepared,
                             flow_live_unready },
    [PHASE_LIVE_SWAP] = { "LIVE_SWAP", AGENT_GROUP_APPLYING, PHASE_GATE_LIVE, AGENT_OP_LIVE, 0, 1,
                          all, NULL, flow_live_swapped, flow_live_doubted },
    [PHASE_LIVE_VERIFY] = { "LIVE_VERIFY", AGENT_GROUP_APPLYING, PHASE_GATE_LIVE, AGENT_OP_READBACK,
                            0, 1, all, NULL, flow_live_verified, flow_live_doubted },
    [PHASE_LIVE_CONFIRM] = { "LIVE_CONFIRM", AGENT_GROUP_APPLYING, PHASE_GATE_LIVE, AGENT_OP_HEALTH,
                             0, 2, all, NULL, flow_live_confirmed, flow_live_doubted },
    [PHASE_LIVE_MARK] = { "LIVE_MARK", AGENT_GROUP_RESUMING, PHASE_GATE_MAY_OPEN, AGENT_OP_SET_GATE,
                          AGENT_GATE_OPEN, 3, guarded, NULL, flow_live_marked, flow_out },
    [PHASE_LIVE_FENCE] = { "LIVE_FENCE", AGENT_GROUP_APPLYING, PHASE_GATE_LIVE,
                           AGENT_OP_RAISE_FENCE, 0, 2, all, NULL, flow_live_fenced,
                           flow_live_unknown },
    [PHASE_LIVE_KNOW_TO] = { "LIVE_KNOW_TO", AGENT_GROUP_APPLYING, PHASE_GATE_LIVE,
                             AGENT_OP_READBACK, 0, 1, all, NULL, flow_live_verified,
                             flow_live_not_to },
    [PHASE_LIVE_KNOW_FROM] = { "LIVE_KNOW_FROM", AGENT_GROUP_RESTORING, PHASE_GATE_LIVE,
                               AGENT_OP_READBACK, 0, 1, all, NULL, flow_live_kept,
                               flow_live_unknown },
    [PHASE_BACK_PAUSE] = { "BACK_PAUSE", AGENT_GROUP_RESTORING, PHASE_GATE_SHUT, AGENT_OP_PAUSE, 0,
                           2, all, NULL, flow_back_paused, flow_back_failed },
};

const struct phase_row *phase_row(enum phase phase)
{
    return &ROWS[phase];
}

void phase_enter(struct agent *agent, struct group *group, enum phase phase)
{
    const struct phase_row *row = &ROWS[phase];
    group->phase = phase;
    group->phase_began_ns = agent->now_ns;
    group->phase_engine_ns = 0;
    group->entered = true;
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        struct engine *engine = &group->engines[i];
        bool takes_part = row->op != AGENT_OP_NONE && row->part(group, engine);
        engine->part = takes_part ? PART_WAITING : PART_NONE;
        engine->fate = engine->fate >= FATE_STRAY ? engine->fate : FATE_NONE;
        engine->tries = 0;
        engine->retry_ns = agent->now_ns;
    }
    peers_enter(agent, group, phase);
}

/* The time that a phase took, into the swap's record. */
static void account(struct agent *agent, struct group *group)
{
    struct agent_phases *phases = &group->phases;
    uint64_t *const spans[PHASE_COUNT] = {
        [PHASE_CLOSE] = &phases->pause_ns,
        [PHASE_PAUSE] = &phases->pause_ns,
        [PHASE_KNOW] = &phases->verify_ns,
        [PHASE_VERIFY] = &phases->verify_ns,
        [PHASE_INVALIDATE] = &phases->invalidate_ns,
        [PHASE_LABEL] = &phases->label_ns,
        [PHASE_MARK] = &phases->label_ns,
        [PHASE_RESUME] = &phases->probe_ns,
        [PHASE_PROBE] = &phases->probe_ns,
        [PHASE_OPEN_REST] = &phases->open_ns,
        [PHASE_OPEN_FIRST] = &phases->open_ns,
        [PHASE_COMMIT] = &phases->commit_ns,
        [PHASE_LIVE_PREPARE] = &phases->stage_ns,
        [PHASE_LIVE_VERIFY] = &phases->verify_ns,
        [PHASE_LIVE_KNOW_TO] = &phases->verify_ns,
        [PHASE_LIVE_MARK] = &phases->label_ns,
    };
    if (spans[group->phase] != NULL) {
        *spans[group->phase] += agent->now_ns - group->phase_began_ns;
    }
    if (group->closed_ns != 0) {
        phases->engine_ns += group->phase_engine_ns;
    }
}

static bool start_parts(struct agent *agent, struct group *group)
{
    bool ended = true;
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        struct engine *engine = &group->engines[i];
        if (engine->part == PART_WAITING && agent->now_ns >= group->deadline_ns) {
            group_trouble(group, "engine %s: %s: the deadline passed", engine->config->name,
                          agent_op_name(ROWS[group->phase].op));
            engine->part = PART_FAILED;
        }
        if (engine->part == PART_WAITING && ops_is_idle(engine) &&
            agent->now_ns >= engine->retry_ns) {
            ops_start_part(agent, group, engine);
        }
        ended &= engine->part != PART_WAITING && engine->part != PART_RUNNING;
    }
    return peers_run(agent, group) && ended;
}

static bool is_unfenced(const struct group *group, const struct engine *engine)
{
    return !fenced(group, engine) || group->phase == PHASE_LABEL || group->phase == PHASE_SLEEP ||
           group->phase == PHASE_WAKE;
}

/* Without a fence, a mutating call whose effect is unknown rules out any further use of the
 * incarnation (rule 2). */
static bool is_beyond_restore(const struct group *group, const struct engine *engine)
{
    if (MUTANT(TAINT_FORGOTTEN)) {
        return false;
    }
    bool silent = engine->fate == FATE_SILENT && is_unfenced(group, engine);
    return silent || engine->fate == FATE_STRAY;
}

/* The worst that happened decides: a lost engine before a refusal. */
static void end_phase(struct agent *agent, struct group *group)
{
    const struct phase_row *row = &ROWS[group->phase];
    bool failed = false;
    bool out = false;
    account(agent, group);
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        struct engine *engine = &group->engines[i];
        failed |= engine->part == PART_FAILED;
        if (is_beyond_restore(group, engine)) {
            flow_taint(agent, group, engine);
            out = true;
        }
        out |= engine->fate == FATE_GONE;
    }
    peers_judge(group, &failed, &out);
    if (group->member.busy) {
        member_ended(agent, group, failed, out);
    } else if (out && group->phase != PHASE_OUT_SHUT) {
        flow_out(agent, group);
    } else if (failed) {
        row->failed(agent, group);
    } else {
        row->done(agent, group);
    }
}

/* In a wait, an engine that was lost takes the group out; where engines are gathered, it is one
 * more to wait for. */
static bool lost_one(struct agent *agent, struct group *group)
{
    bool lost = false;
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        struct engine *engine = &group->engines[i];
        if (engine->fate == FATE_STRAY) {
            flow_taint(agent, group, engine);
        }
        lost |= engine->fate >= FATE_STRAY;
    }
    lost |= peers_lost(agent, group);
    if (group->phase == PHASE_ATTACH || group->phase == PHASE_OUT ||
        group->phase == PHASE_DETACHED) {
        for (uint32_t i = 0; i < group->config->engines_count; i++) {
            group->engines[i].fate = FATE_NONE;
        }
        return false;
    }
    return lost;
}

/* A lost engine ends the phase for the others too: the sooner are their gates shut.  Calls that may
 * change weights, KV or label are waited for, so that it is known what they did. */
static void hurry(struct agent *agent, struct group *group)
{
    bool lost = false;
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        lost |= group->engines[i].fate == FATE_GONE;
    }
    if (!lost || agent_op_is_mutating(ROWS[group->phase].op) || group->phase == PHASE_OUT_SHUT) {
        return;
    }
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        struct engine *engine = &group->engines[i];
        if (engine->part == PART_RUNNING) {
            ops_abandon(agent, group, engine, "another engine of the group was lost");
        }
        if (engine->part == PART_WAITING) {
            engine->part = PART_FAILED;
        }
    }
}

void phase_interrupt(struct agent *agent, struct group *group)
{
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        struct engine *engine = &group->engines[i];
        if (engine->part == PART_RUNNING) {
            ops_abandon(agent, group, engine, "the group's leader gave it up");
        }
        if (engine->part == PART_WAITING) {
            engine->part = PART_FAILED;
        }
    }
    end_phase(agent, group);
}

static void run(struct agent *agent, struct group *group)
{
    const struct phase_row *row = &ROWS[group->phase];
    ops_expire(agent, group);
    if (row->op != AGENT_OP_NONE || row->wait == NULL) {
        hurry(agent, group);
        if (start_parts(agent, group)) {
            end_phase(agent, group);
        }
    } else if (lost_one(agent, group)) {
        flow_out(agent, group);
    } else {
        row->wait(agent, group);
    }
}

void phase_advance(struct agent *agent, struct group *group)
{
    /* Each phase is entered a few times at most within one step. */
    uint32_t left = 4 * PHASE_COUNT;
    do {
        baton_assert(left-- > 0);
        group->entered = false;
        run(agent, group);
    } while (group->entered);
    enum agent_group_state state = group_state(agent, group);
    if (state != group->reported) {
        group->reported = state;
        group->changed = true;
    }
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t phase_deadline_ns(const struct agent *agent, const struct group *group)
{
    /* Once it has passed, the operations' grace is what is left. */
    uint64_t deadline = group->deadline_ns > agent->now_ns ? group->deadline_ns : AGENT_NEVER;
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        const struct engine *engine = &group->engines[i];
        if (!ops_is_idle(engine)) {
            /* Sooner than its deadline: only who is called often can tell own absence from silence. */
            deadline = least(deadline, agent->now_ns + agent->config.times.health_interval);
            deadline = least(deadline, engine->op.deadline_ns + agent->config.times.op_grace);
        } else if (engine->part == PART_WAITING) {
            deadline = least(deadline, engine->retry_ns);
        }
        if (ROWS[group->phase].wait != NULL) {
            deadline = least(deadline, flow_look_deadline_ns(agent, group, engine));
        }
    }
    deadline = least(deadline, flow_hooks_deadline_ns(group));
    bool rests = group->phase == PHASE_OUT || group->phase == PHASE_SLEEPLESS;
    if (rests && group->rest_until_ns > agent->now_ns) {
        deadline = least(deadline, group->rest_until_ns);
    }
    deadline = least(deadline, peers_deadline_ns(agent, group));
    return least(deadline, member_deadline_ns(agent, group));
}

static enum agent_group_state staging_state(const struct agent *agent, const struct group *group)
{
    const struct landing *row = landings_find(&agent->landings, group->goal.stage.digest);
    if (group->goal.stage.seq == 0 || row == NULL) {
        return AGENT_GROUP_SERVING;
    }
    if (row->state == LANDING_HERE) {
        bool unfit = agent_group_is_unfit(group, row->goal.version.digest);
        if (!peers_have(group, row->goal.version.digest)) {
            return peers_cannot_land(group) ? AGENT_GROUP_STAGE_FAILED : AGENT_GROUP_STAGING;
        }
        return unfit ? AGENT_GROUP_STAGE_FAILED : AGENT_GROUP_STAGED;
    }
    return row->backoff.failures >= LANDING_TRIES ? AGENT_GROUP_STAGE_FAILED : AGENT_GROUP_STAGING;
}

static bool needs_recreate(const struct group *group)
{
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        if (group->engines[i].needs_recreate) {
            return true;
        }
    }
    return false;
}

enum agent_group_state group_state(const struct agent *agent, const struct group *group)
{
    enum agent_group_state state = ROWS[group->phase].state;
    if (state == AGENT_GROUP_SERVING) {
        return staging_state(agent, group);
    }
    /* A group that never served is not lost but new. */
    if (state == AGENT_GROUP_OUT && group->ledger->committed.seq == 0 && !needs_recreate(group) &&
        !group->in_doubt) {
        return AGENT_GROUP_JOINING;
    }
    return state;
}
