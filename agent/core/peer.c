/* peer.c -- the followers of a group that this agent leads; see member.h. */
#include "agent/core/peer.h"

#include <string.h>

#include "agent/core/flow.h"
#include "agent/core/member.h"
#include "agent/core/ops.h"
#include "agent/core/session.h"
#include "api/base/mutant.h"

enum { LIFE_SHIFT = 32 };

/* What a row of the table is to a follower.  The leader's first gate opens last, by itself. */
static const enum agent_peer_verb VERBS[PHASE_COUNT] = {
    [PHASE_SHUT] = AGENT_PEER_SHUT,
    [PHASE_COMPARE] = AGENT_PEER_COMPARE,
    [PHASE_CLOSE] = AGENT_PEER_CLOSE,
    [PHASE_PAUSE] = AGENT_PEER_PAUSE,
    [PHASE_FENCE] = AGENT_PEER_FENCE,
    [PHASE_KNOW] = AGENT_PEER_KNOW,
    [PHASE_UPDATE] = AGENT_PEER_UPDATE,
    [PHASE_VERIFY] = AGENT_PEER_VERIFY,
    [PHASE_INVALIDATE] = AGENT_PEER_INVALIDATE,
    [PHASE_CONFIRM] = AGENT_PEER_CONFIRM,
    [PHASE_COMMIT] = AGENT_PEER_COMMIT,
    [PHASE_LABEL] = AGENT_PEER_LABEL,
    [PHASE_MARK] = AGENT_PEER_MARK,
    [PHASE_RESUME] = AGENT_PEER_RESUME,
    [PHASE_PROBE] = AGENT_PEER_PROBE,
    [PHASE_OPEN_REST] = AGENT_PEER_OPEN,
    [PHASE_BACK_SHUT] = AGENT_PEER_BACK_SHUT,
    [PHASE_BACK_FENCE] = AGENT_PEER_BACK_FENCE,
    [PHASE_BACK_UPDATE] = AGENT_PEER_BACK_UPDATE,
    [PHASE_BACK_VERIFY] = AGENT_PEER_BACK_VERIFY,
    [PHASE_REOPEN_RESUME] = AGENT_PEER_REOPEN_RESUME,
    [PHASE_BACK_PROBE] = AGENT_PEER_BACK_PROBE,
    [PHASE_REOPEN_REST] = AGENT_PEER_REOPEN,
    [PHASE_OUT_SHUT] = AGENT_PEER_SHUT,
    [PHASE_DRAIN_SHUT] = AGENT_PEER_SHUT,
    [PHASE_SLEEP_SHUT] = AGENT_PEER_SHUT,
    [PHASE_SLEEP] = AGENT_PEER_SLEEP,
    [PHASE_WAKE] = AGENT_PEER_WAKE,
    [PHASE_ASK] = AGENT_PEER_ASK,
};

const char *agent_peer_verb_name(enum agent_peer_verb verb)
{
    static const char *const names[AGENT_PEER_VERBS] = {
        "NONE",          "WATCH",      "ASK",       "END",        "COMMIT",      "SHUT",
        "COMPARE",       "CLOSE",      "PAUSE",     "FENCE",      "KNOW",        "UPDATE",
        "VERIFY",        "INVALIDATE", "CONFIRM",   "LABEL",      "MARK",        "RESUME",
        "PROBE",         "OPEN",       "BACK_SHUT", "BACK_FENCE", "BACK_UPDATE", "BACK_VERIFY",
        "REOPEN_RESUME", "BACK_PROBE", "REOPEN",    "SLEEP",      "WAKE",
    };
    return verb < AGENT_PEER_VERBS ? names[verb] : names[0];
}

/* --- sending --- */

static uint64_t next_step(struct agent *agent)
{
    return agent->ledger.life << LIFE_SHIFT | ++agent->peer_steps;
}

static void live_on(struct agent *agent, uint64_t life)
{
    struct journal_record record = { .kind = JOURNAL_LIFE, .life = life };
    agent_write(agent, &record);
}

void peers_start(struct agent *agent)
{
    bool leads = false;
    for (uint32_t i = 0; i < agent->config.groups_count; i++) {
        struct group *group = &agent->groups[i];
        group->member.heard_ns = agent->now_ns;
        for (uint32_t k = 0; k < group->config->followers_count; k++) {
            group->peers[k].heard_ns = agent->now_ns;
            group->peers[k].good_ns = agent->now_ns;
            leads = true;
        }
    }
    if (leads) {
        live_on(agent, agent->ledger.life + 1);
    }
}

/* Between tickets the fence is what was seen last. */
static struct agent_fence fence_of(const struct agent *agent, const struct group *group,
                                   uint64_t step)
{
    const struct ledger_group *ledger = group->ledger;
    const struct agent_ticket *ticket = group->resolving ? &group->offer : &ledger->ticket;
    if (ledger->open || group->resolving) {
        return (struct agent_fence){ ticket->epoch, ticket->owner_term, ticket->number, step };
    }
    return (struct agent_fence){ agent->ledger.epoch, ledger->owner_term, ledger->highest_ticket,
                                 step };
}

static struct agent_peer_command *push_command(struct agent *agent, const struct group *group,
                                               const struct peer *peer, enum agent_peer_verb verb,
                                               uint64_t step)
{
    struct agent_peer_command *command = agent_scratch(agent, 1, sizeof *command);
    struct agent_action *action = agent_push(agent, AGENT_ACTION_PEER_SEND);
    action->peer_send.agent = peer->config->agent;
    action->peer_send.command = command;
    command->verb = verb;
    command->fence = fence_of(agent, group, step);
    command->timeout_ns = agent->config.times.op_short;
    memcpy(command->leader, agent->config.agent, sizeof command->leader);
    memcpy(command->group, group->config->name, sizeof command->group);
    memcpy(command->model, group->config->model, sizeof command->model);
    return command;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* How long the phase's command may take; a return to service has no deadline of its own. */
static uint64_t timeout_ns(const struct agent *agent, const struct group *group)
{
    const struct agent_times *times = &agent->config.times;
    if (group->deadline_ns == AGENT_NEVER) {
        return times->readback + times->op_long;
    }
    return group->deadline_ns > agent->now_ns ? group->deadline_ns - agent->now_ns : 0;
}

static void send_part(struct agent *agent, struct group *group, struct peer *peer)
{
    const struct ledger_group *ledger = group->ledger;
    enum agent_peer_verb verb = VERBS[group->phase];
    struct agent_peer_command *command = push_command(agent, group, peer, verb, peer->step);
    command->timeout_ns = timeout_ns(agent, group);
    command->drain_ns = group->goal.sleep_drain_ns;
    command->outcome = ledger->ticket_committed ? AGENT_OUTCOME_COMMITTED : group->verdict;
    command->version = verb == AGENT_PEER_COMPARE ? group->compared : ledger->committed;
    memcpy(command->asked, group->asked, sizeof command->asked);
    if (ledger->open) {
        command->ticket = ledger->ticket;
        command->ticket.policy.in_flight = flow_in_flight(group);
    }
}

/* --- parts of a phase --- */

void peers_enter(const struct agent *agent, struct group *group, enum phase phase)
{
    for (uint32_t i = 0; i < group->config->followers_count; i++) {
        struct peer *peer = &group->peers[i];
        peer->good_ns = agent->now_ns;
        peer->part = VERBS[phase] != AGENT_PEER_NONE ? PART_WAITING : PART_NONE;
        peer->gone = false;
        peer->step = 0;
    }
}

static void fail_part(struct group *group, struct peer *peer, bool gone, const char *why)
{
    group_trouble(group, "member %s: %s: %s", peer->config->agent,
                  agent_peer_verb_name(VERBS[group->phase]), why);
    peer->part = PART_FAILED;
    peer->gone = gone;
    peer->asked = AGENT_PEER_OUTCOME_NONE;
}

static bool is_silent(const struct agent *agent, const struct peer *peer)
{
    return agent->now_ns >= peer->heard_ns + agent->config.times.engine_lost;
}

static bool is_there(const struct peer *peer)
{
    return peer->up && peer->known;
}

/* A command that is under way when the link goes down is sent again over the next one; the follower
 * answers a known step with what came of it. */
static void run_part(struct agent *agent, struct group *group, struct peer *peer)
{
    uint64_t timeout = timeout_ns(agent, group);
    bool waits = peer->part == PART_WAITING;
    if (waits && peer->up && !peer->known && peer->trouble[0] != '\0') {
        fail_part(group, peer, true, peer->trouble);
    } else if (waits && group->deadline_ns == AGENT_NEVER && !is_there(peer) &&
               agent->now_ns >= group->phase_began_ns + agent->config.times.engine_lost) {
        fail_part(group, peer, true, "it is not there");
    } else if (waits && timeout == 0) {
        fail_part(group, peer, false, "the deadline passed");
    } else if (waits && is_there(peer)) {
        peer->part = PART_RUNNING;
        peer->step = next_step(agent);
        peer->give_up_ns = agent->now_ns + timeout + 2 * agent->config.times.op_grace;
        send_part(agent, group, peer);
    } else if (peer->part == PART_RUNNING && agent->now_ns >= peer->give_up_ns) {
        fail_part(group, peer, false, "no answer by the deadline");
    } else if ((peer->part == PART_WAITING || peer->part == PART_RUNNING) &&
               group->deadline_ns == AGENT_NEVER && is_silent(agent, peer)) {
        fail_part(group, peer, true, "it is silent");
    }
}

bool peers_run(struct agent *agent, struct group *group)
{
    bool ended = true;
    for (uint32_t i = 0; i < group->config->followers_count; i++) {
        struct peer *peer = &group->peers[i];
        run_part(agent, group, peer);
        ended &= (peer->part != PART_WAITING && peer->part != PART_RUNNING) ||
                 MUTANT(MEMBERS_NOT_AWAITED);
    }
    return ended;
}

void peers_judge(const struct group *group, bool *failed, bool *out)
{
    for (uint32_t i = 0; i < group->config->followers_count; i++) {
        const struct peer *peer = &group->peers[i];
        *failed |= peer->part == PART_FAILED;
        *out |= peer->part == PART_FAILED && peer->gone && group->phase != PHASE_ASK;
    }
}

/* --- links and results --- */

static struct peer *find(struct group *group, const char *name)
{
    for (uint32_t i = 0; i < group->config->followers_count; i++) {
        if (strcmp(group->peers[i].config->agent, name) == 0) {
            return &group->peers[i];
        }
    }
    return NULL;
}

void peers_on_link(struct agent *agent, const char *name, bool up)
{
    for (uint32_t i = 0; i < agent->config.groups_count; i++) {
        struct group *group = &agent->groups[i];
        struct peer *peer = find(group, name);
        if (peer == NULL) {
            continue;
        }
        peer->up = up;
        peer->known = false;
        peer->watch_ns = agent->now_ns;
        group->changed = true;
    }
}

static void absorb_engines(struct peer *peer, const struct agent_peer_state *state)
{
    uint32_t count = state->engines_count < BATON_ENGINES_PER_GROUP_MAX
                         ? state->engines_count
                         : BATON_ENGINES_PER_GROUP_MAX;
    for (uint32_t i = 0; i < count; i++) {
        struct peer_engine *texts = &peer->engine_texts[i];
        texts->config = *state->engines[i].config;
        texts->facts = *state->engines[i].facts;
        text_print(texts->label, sizeof texts->label, "%s", state->engines[i].label);
        text_print(texts->gate, sizeof texts->gate, "%s", state->engines[i].gate);
        peer->engines[i] = state->engines[i];
        peer->engines[i].config = &texts->config;
        peer->engines[i].facts = &texts->facts;
        peer->engines[i].label = texts->label;
        peer->engines[i].gate = texts->gate;
        peer->engines[i].agent = peer->config->agent;
    }
    peer->state.engines = peer->engines;
    peer->state.engines_count = count;
}

/* Numbers that only rise: where this agent's disk was lost and the store went back besides, the members alone
 * know them, and obey nobody below (rules 5, 6); the controller takes them from the report.  A detached group
 * learns them later: a higher owner term would end that. */
static void learn_floors(struct agent *agent, struct group *group, const struct agent_fence *seen)
{
    const struct ledger_group *ledger = group->ledger;
    bool higher = seen->owner_term > ledger->owner_term || seen->ticket > ledger->highest_ticket;
    if (!higher || ledger->detached) {
        return;
    }
    struct journal_record record = group_record(group, JOURNAL_FLOORS);
    record.floors.ticket_number = seen->ticket;
    record.floors.owner_term = seen->owner_term;
    agent_write(agent, &record);
    group->changed = true;
}

static void absorb(struct agent *agent, struct group *group, struct peer *peer,
                   const struct agent_peer_state *state)
{
    group->changed |= !peer->known || peer->state.serving != state->serving ||
                      peer->state.ready != state->ready ||
                      strcmp(peer->state.landed[1], state->landed[1]) != 0;
    group->progressed |= peer->state.staged_bytes != state->staged_bytes;
    peer->state = *state;
    peer->known = true;
    peer->trouble[0] = '\0';
    absorb_engines(peer, state);
    learn_floors(agent, group, &state->fence);
    if (state->fence.step > (agent->ledger.life << LIFE_SHIFT | agent->peer_steps)) {
        /* An earlier journal of this agent was lost. */
        live_on(agent, (state->fence.step >> LIFE_SHIFT) + 1);
        peer->part = peer->part == PART_RUNNING ? PART_WAITING : peer->part;
    }
}

static void end_part(struct group *group, struct peer *peer, const struct agent_peer_result *result)
{
    struct agent_phases *phases = &group->phases;
    uint64_t apply_ns = result->times.stage_ns + result->times.load_ns;
    peer->asked = result->asked;
    /* An agent of a release that knows no BACK_PROBE refuses it; who refuses for another reason does so again at
     * REOPEN, and who fails is gone. */
    bool unprobed = group->phase == PHASE_BACK_PROBE && !result->gone;
    if (!result->ok && !unprobed) {
        fail_part(group, peer, result->gone, result->message);
        return;
    }
    peer->part = PART_DONE;
    if (group->phase == PHASE_UPDATE) {
        phases->apply_ns = apply_ns > phases->apply_ns ? apply_ns : phases->apply_ns;
        phases->finalize_ns = result->times.finalize_ns > phases->finalize_ns
                                  ? result->times.finalize_ns
                                  : phases->finalize_ns;
        phases->verify_ns = result->times.verify_ns > phases->verify_ns ? result->times.verify_ns
                                                                        : phases->verify_ns;
    }
    if (group->phase == PHASE_OPEN_REST || group->phase == PHASE_MARK) {
        group->held += result->held;
    }
}

void peers_on_result(struct agent *agent, const char *name, const struct agent_peer_result *result)
{
    struct group *group = agent_group_find(agent, result->group);
    struct peer *peer = group != NULL ? find(group, name) : NULL;
    if (peer == NULL || !peer->up) {
        return;
    }
    peer->heard_ns = agent->now_ns;
    if (result->state.known) {
        absorb(agent, group, peer, &result->state);
    } else { /* It will have nothing to do with this group, or with this leader. */
        group->changed |= strcmp(peer->trouble, result->message) != 0;
        peer->known = false;
        text_print(peer->trouble, sizeof peer->trouble, "%s", result->message);
    }
    if (peer->part == PART_RUNNING && result->step == peer->step) {
        end_part(group, peer, result);
    }
}

/* --- what the group needs of them --- */

static bool is_open_elsewhere(const struct group *group, const struct peer *peer)
{
    const struct ledger_group *ledger = group->ledger;
    return peer->state.open_uid[0] != '\0' &&
           !(ledger->open && strcmp(ledger->ticket.uid, peer->state.open_uid) == 0);
}

/* An engine's name says which one it is in the whole group. */
static const char *clash(const struct group *group, const struct peer *peer)
{
    for (uint32_t i = 0; i < peer->state.engines_count; i++) {
        const char *name = peer->state.engines[i].config->name;
        for (uint32_t k = 0; k < group->config->engines_count; k++) {
            if (strcmp(group->config->engines[k].name, name) == 0) {
                return name;
            }
        }
        for (const struct peer *before = group->peers; before < peer; before++) {
            for (uint32_t k = 0; k < before->state.engines_count; k++) {
                if (strcmp(before->state.engines[k].config->name, name) == 0) {
                    return name;
                }
            }
        }
    }
    return NULL;
}

static bool is_gathered(const struct group *group, const struct peer *peer)
{
    return peer->up && peer->known && peer->state.ready && !is_open_elsewhere(group, peer) &&
           clash(group, peer) == NULL;
}

bool peers_are_gathered(const struct group *group)
{
    bool gathered = true;
    for (uint32_t i = 0; i < group->config->followers_count; i++) {
        gathered &= is_gathered(group, &group->peers[i]);
    }
    return gathered;
}

static bool serves(const struct group *group, const struct peer *peer)
{
    return is_gathered(group, peer) && peer->state.serving &&
           agent_version_equal(&peer->state.committed, &group->ledger->committed);
}

bool peers_agree(const struct group *group)
{
    bool agree = true;
    for (uint32_t i = 0; i < group->config->followers_count; i++) {
        agree &= group->peers[i].part != PART_FAILED;
    }
    return agree;
}

bool peers_may_sleep(const struct group *group)
{
    for (uint32_t i = 0; i < group->config->followers_count; i++) {
        if (group->peers[i].known && group->peers[i].state.may_sleep) {
            return true;
        }
    }
    return false;
}

bool peers_serve(const struct group *group)
{
    bool all = true;
    for (uint32_t i = 0; i < group->config->followers_count; i++) {
        all &= serves(group, &group->peers[i]);
    }
    return all;
}

bool peers_are_busy(const struct group *group)
{
    bool busy = false;
    for (uint32_t i = 0; i < group->config->followers_count; i++) {
        busy |= group->peers[i].known && group->peers[i].state.busy;
    }
    return busy;
}

static void name_missing(struct group *group, const struct peer *peer)
{
    const char *name = peer->config->agent;
    if (!peer->up) {
        group_trouble(group, "member %s cannot be reached at %s", name, peer->config->address);
    } else if (!peer->known) {
        group_trouble(group, "member %s: %s", name,
                      peer->trouble[0] != '\0' ? peer->trouble : "has not answered yet");
    } else if (clash(group, peer) != NULL) {
        group_trouble(
            group,
            "member %s has an engine %s, and so has another agent of the group: give each "
            "a name of its own",
            name, clash(group, peer));
    } else if (is_open_elsewhere(group, peer)) {
        group_trouble(group, "member %s has ticket %s open, without an outcome", name,
                      peer->state.open_uid);
    } else {
        group_trouble(group, "member %s: %s", name,
                      peer->state.message[0] != '\0' ? peer->state.message
                                                     : "it is not ready, or does not serve");
    }
}

void peers_name_missing(struct group *group)
{
    for (uint32_t i = 0; i < group->config->followers_count; i++) {
        if (!is_gathered(group, &group->peers[i])) {
            name_missing(group, &group->peers[i]);
        }
    }
}

/* A follower's agent may be restarted without harm; what takes longer, or is told, is a loss. */
bool peers_lost(struct agent *agent, struct group *group)
{
    bool lost = false;
    bool serving = group->phase == PHASE_SERVING || group->phase == PHASE_DRAIN ||
                   group->phase == PHASE_SETTLE || group->phase == PHASE_WARM;
    if (group->phase == PHASE_ATTACH || group->phase == PHASE_OUT) {
        return false;
    }
    for (uint32_t i = 0; i < group->config->followers_count; i++) {
        struct peer *peer = &group->peers[i];
        bool good = serving ? serves(group, peer) : is_gathered(group, peer);
        peer->good_ns = good ? agent->now_ns : peer->good_ns;
        bool told = peer->up && peer->known && (peer->state.out || is_open_elsewhere(group, peer));
        if (told || agent->now_ns >= peer->good_ns + agent->config.times.engine_lost) {
            name_missing(group, peer);
            lost = true;
        }
    }
    return lost;
}

static bool has_landed(const struct peer *peer, const char *digest)
{
    return strcmp(peer->state.landed[0], digest) == 0 || strcmp(peer->state.landed[1], digest) == 0;
}

bool peers_have(const struct group *group, const char *digest)
{
    bool have = true;
    for (uint32_t i = 0; i < group->config->followers_count; i++) {
        have &= group->peers[i].known && has_landed(&group->peers[i], digest);
    }
    return have;
}

/* Somebody else must start an engine of this member anew. */
static bool needs_recreate(const struct peer *peer)
{
    return strcmp(peer->state.blocked, "ENGINE_NEEDS_RECREATE") == 0;
}

const struct peer *peers_cannot_land(const struct group *group)
{
    for (uint32_t i = 0; i < group->config->followers_count; i++) {
        const struct peer *peer = &group->peers[i];
        if (peer->known && peer->state.blocked[0] != '\0' && !needs_recreate(peer)) {
            return peer;
        }
    }
    return NULL;
}

const struct peer *peers_need_recreate(const struct group *group)
{
    for (uint32_t i = 0; i < group->config->followers_count; i++) {
        if (group->peers[i].known && needs_recreate(&group->peers[i])) {
            return &group->peers[i];
        }
    }
    return NULL;
}

bool peers_can_restore(const struct group *group)
{
    bool can = true;
    for (uint32_t i = 0; i < group->config->followers_count; i++) {
        can &= group->peers[i].known && group->peers[i].state.can_restore;
    }
    return can;
}

const char *peers_objection(const struct group *group, const struct agent_ticket *ticket)
{
    if (!peers_are_gathered(group)) {
        return "a member of the group is not ready; see the group's message";
    }
    if (!peers_have(group, ticket->to.digest)) {
        return "the version to swap to is not landed and verified on every member";
    }
    if (!ticket->rejoin && !peers_serve(group)) {
        return "a member of the group does not serve";
    }
    if (!ticket->rejoin && !ticket->policy.allow_recreate && !peers_can_restore(group)) {
        return "a member cannot put the present version back";
    }
    return NULL;
}

/* --- heartbeats --- */

static const struct agent_version_goal *goal_of(const struct agent *agent,
                                                const struct agent_version *version)
{
    const struct landing *row = landings_find(&agent->landings, version->digest);
    return version->seq != 0 && row != NULL ? &row->goal : NULL;
}

static void watch(struct agent *agent, struct group *group, struct peer *peer)
{
    struct agent_peer_command *command =
        push_command(agent, group, peer, AGENT_PEER_WATCH, next_step(agent));
    command->fence.epoch = group->goal.epoch;
    command->target = goal_of(agent, &group->goal.target);
    command->stage = goal_of(agent, &group->goal.stage);
    command->restore = goal_of(agent, &group->goal.restore);
    command->sleep = flow_wants_sleep(group);
    peer->watch_ns = agent->now_ns + agent->config.times.health_interval;
}

/* The follower has a ticket open that ended here.  A group that went out after COMMIT shows by its version; where the member
 * had that one before, it proves nothing. */
static void tell_end(struct agent *agent, struct group *group, struct peer *peer)
{
    const struct ledger_outcome *ended = ledger_outcome_find(group->ledger, peer->state.open_uid);
    if (ended == NULL) {
        return;
    }
    const struct agent_swap_record *record = &ended->record;
    struct agent_peer_command *command =
        push_command(agent, group, peer, AGENT_PEER_END, next_step(agent));
    memcpy(command->ticket.uid, record->ticket_uid, sizeof command->ticket.uid);
    command->ticket.from = peer->state.open_from;
    command->ticket.to = peer->state.open_to;
    command->outcome = record->outcome;
    command->version = record->committed;
    command->committed = record->outcome == AGENT_OUTCOME_COMMITTED ||
                         (agent_version_equal(&record->committed, &record->to) &&
                          !agent_version_equal(&record->from, &record->to) &&
                          !agent_version_equal(&peer->state.committed, &record->to));
}

/* Commands of a phase come first: one that was sent again must not be older than a heartbeat. */
static bool is_at_work(const struct peer *peer)
{
    return peer->part == PART_RUNNING || peer->part == PART_WAITING;
}

void peers_advance(struct agent *agent, struct group *group)
{
    for (uint32_t i = 0; i < group->config->followers_count; i++) {
        struct peer *peer = &group->peers[i];
        if (!peer->up || agent->now_ns < peer->watch_ns) {
            continue;
        }
        if (peer->part == PART_RUNNING) {
            send_part(agent, group, peer); /* Again: it may have been lost with a link. */
            peer->watch_ns = agent->now_ns + agent->config.times.health_interval;
            continue;
        }
        if (peer->known && is_open_elsewhere(group, peer)) {
            tell_end(agent, group, peer);
        }
        watch(agent, group, peer);
    }
}

uint64_t peers_deadline_ns(const struct agent *agent, const struct group *group)
{
    uint64_t deadline = AGENT_NEVER;
    for (uint32_t i = 0; i < group->config->followers_count; i++) {
        const struct peer *peer = &group->peers[i];
        if (peer->up) {
            deadline = least(deadline, peer->watch_ns);
        }
        if (peer->part == PART_RUNNING) {
            deadline = least(deadline, peer->give_up_ns);
        }
        uint64_t late_ns = group->phase_began_ns + agent->config.times.engine_lost;
        uint64_t lost_ns = peer->good_ns + agent->config.times.engine_lost;
        uint64_t silent_ns = peer->heard_ns + agent->config.times.engine_lost;
        deadline = late_ns > agent->now_ns ? least(deadline, late_ns) : deadline;
        deadline = lost_ns > agent->now_ns ? least(deadline, lost_ns) : deadline;
        deadline =
            silent_ns > agent->now_ns && is_at_work(peer) ? least(deadline, silent_ns) : deadline;
    }
    return deadline;
}
