/* flow_member.c -- a group that another agent leads; see member.h and peer.h.
 *
 * A command is checked (who speaks, its fence, where this member stands), what must be durable
 * before it is written, then its row of the table runs on this agent's engines.  What was read back
 * is the answer.  Nothing here opens a gate that was not told to be opened. */
#include <string.h>

#include "agent/core/flow.h"
#include "agent/core/member.h"
#include "agent/core/ops.h"
#include "agent/core/session.h"
#include "agent/core/tickets.h"
#include "api/base/mutant.h"

enum { LIFE_SHIFT = 32 };

/* The row that a command runs; ATTACH: none. */
static const enum phase ROWS[AGENT_PEER_VERBS] = {
    [AGENT_PEER_SHUT] = PHASE_SHUT,
    [AGENT_PEER_COMPARE] = PHASE_COMPARE,
    [AGENT_PEER_CLOSE] = PHASE_CLOSE,
    [AGENT_PEER_PAUSE] = PHASE_PAUSE,
    [AGENT_PEER_FENCE] = PHASE_FENCE,
    [AGENT_PEER_KNOW] = PHASE_KNOW,
    [AGENT_PEER_UPDATE] = PHASE_UPDATE,
    [AGENT_PEER_VERIFY] = PHASE_VERIFY,
    [AGENT_PEER_INVALIDATE] = PHASE_INVALIDATE,
    [AGENT_PEER_CONFIRM] = PHASE_CONFIRM,
    [AGENT_PEER_LABEL] = PHASE_LABEL,
    [AGENT_PEER_MARK] = PHASE_MARK,
    [AGENT_PEER_RESUME] = PHASE_RESUME,
    [AGENT_PEER_PROBE] = PHASE_PROBE,
    [AGENT_PEER_OPEN] = PHASE_OPEN_REST,
    [AGENT_PEER_BACK_SHUT] = PHASE_BACK_SHUT,
    [AGENT_PEER_BACK_FENCE] = PHASE_BACK_FENCE,
    [AGENT_PEER_BACK_UPDATE] = PHASE_BACK_UPDATE,
    [AGENT_PEER_BACK_VERIFY] = PHASE_BACK_VERIFY,
    [AGENT_PEER_REOPEN_RESUME] = PHASE_REOPEN_RESUME,
    [AGENT_PEER_BACK_PROBE] = PHASE_BACK_PROBE,
    [AGENT_PEER_REOPEN] = PHASE_REOPEN_REST,
    [AGENT_PEER_SLEEP] = PHASE_SLEEP,
    [AGENT_PEER_WAKE] = PHASE_WAKE,
};

bool member_follows(const struct group *group)
{
    return group->config->leader[0] != '\0';
}

bool member_is_in_doubt(const struct group *group)
{
    const struct ledger_group *ledger = group->ledger;
    return member_follows(group) && ledger->open && ledger->step > 0 && !ledger->ticket_committed;
}

bool member_hears_leader(const struct agent *agent, const struct group *group)
{
    return agent->now_ns < group->member.heard_ns + agent->config.times.engine_lost;
}

/* --- what a command needs --- */

/* Who speaks; null: the right one. */
static const char *wrong_sender(struct agent *agent, const struct group *group,
                                const struct agent_peer_command *command)
{
    char *why = agent_scratch(agent, 1, BATON_TEXT_BYTES);
    if (group == NULL) {
        text_print(why, BATON_TEXT_BYTES, "agent %s has no group %s in its file",
                   agent->config.agent, command->group);
    } else if (!member_follows(group)) {
        text_print(why, BATON_TEXT_BYTES,
                   "agent %s leads group %s itself: name its leader in its file",
                   agent->config.agent, command->group);
    } else if (strcmp(group->config->leader, command->leader) != 0) {
        text_print(why, BATON_TEXT_BYTES, "agent %s has agent %s as leader of group %s, not %s",
                   agent->config.agent, group->config->leader, command->group, command->leader);
    } else if (strcmp(group->config->model, command->model) != 0) {
        text_print(why, BATON_TEXT_BYTES, "agent %s has model %s for group %s, not %s",
                   agent->config.agent, group->config->model, command->group, command->model);
    } else {
        return NULL;
    }
    return why;
}

static bool is_open_here(const struct group *group, const struct agent_peer_command *command)
{
    return group->ledger->open && strcmp(group->ledger->ticket.uid, command->ticket.uid) == 0;
}

/* Rule 2, and rule 4's fence: durable numbers of the highest ticket that was seen. */
static const char *stale(const struct group *group, const struct agent_peer_command *command)
{
    const struct ledger_group *ledger = group->ledger;
    if (command->verb == AGENT_PEER_SHUT) {
        return NULL; /* Whoever leads may always shut. */
    }
    if (command->fence.owner_term < ledger->owner_term) {
        return "its owner term is lower than one seen before";
    }
    if (command->fence.ticket < ledger->highest_ticket) {
        return "a later ticket has fenced it";
    }
    if (ledger->open && !is_open_here(group, command) && command->verb != AGENT_PEER_ASK) {
        return "a ticket is open here, without an outcome";
    }
    return NULL;
}

/* A ticket's first command. */
static const char *begin_objection(const struct agent *agent, const struct group *group,
                                   const struct agent_ticket *ticket)
{
    const struct ledger_group *ledger = group->ledger;
    if (agent_epoch_compare(ticket->epoch, agent->ledger.epoch) < 0) {
        return "its epoch is lower than one seen before";
    }
    if (ticket->number <= ledger->highest_ticket) {
        return "its number does not rise";
    }
    if (agent->space != AGENT_JOURNAL_ROOM) {
        return "the disk of the member's journal is full";
    }
    if (ticket->policy.unreadable[0] != '\0') {
        return ticket->policy.unreadable;
    }
    if (!landings_has(&agent->landings, ticket->to.digest)) {
        return "the version to swap to is not landed and verified here";
    }
    if (ticket->rejoin) {
        return group->phase == PHASE_MEMBER_SHUT ? NULL
                                                 : "it serves; a rejoin is for one that does not";
    }
    if (group->phase != PHASE_SERVING) {
        return "it does not serve";
    }
    if (!agent_version_equal(&ledger->committed, &ticket->from)) {
        return "the version to swap from is not the one that this member committed";
    }
    if (!tickets_can_restore(agent, group, &ledger->committed) && !ticket->policy.allow_recreate) {
        return "the present version could not be put back after a failure";
    }
    return NULL;
}

static bool begins(const struct agent_peer_command *command)
{
    return command->verb == AGENT_PEER_CLOSE ||
           (command->verb == AGENT_PEER_PAUSE && command->ticket.rejoin);
}

static bool is_within_swap(enum agent_peer_verb verb)
{
    return (verb >= AGENT_PEER_CLOSE && verb <= AGENT_PEER_CONFIRM);
}

static bool is_way_back(enum agent_peer_verb verb)
{
    return verb >= AGENT_PEER_BACK_SHUT && verb <= AGENT_PEER_BACK_VERIFY;
}

static bool serves_again(enum agent_peer_verb verb)
{
    return (verb >= AGENT_PEER_LABEL && verb <= AGENT_PEER_OPEN) ||
           (verb >= AGENT_PEER_REOPEN_RESUME && verb <= AGENT_PEER_REOPEN);
}

/* What is to serve must be what is committed, verified in this life. */
static const char *serving_objection(const struct group *group,
                                     const struct agent_peer_command *command)
{
    const struct ledger_group *ledger = group->ledger;
    bool reopens = command->verb >= AGENT_PEER_BACK_SHUT;
    if (ledger->open && !reopens && !ledger->ticket_committed) {
        return "its ticket is not committed here";
    }
    if (ledger->open && reopens && ledger->ticket_committed) {
        return "its ticket is committed here";
    }
    if (ledger->open && reopens && !flow_same_incarnations(group, &ledger->ticket_members)) {
        return "an engine was restarted since its ticket began";
    }
    if (ledger->needs_ticket || !flow_all_resident(group, ledger->committed.digest)) {
        return "its engines are not verified to hold the committed version";
    }
    return NULL;
}

/* Where this member stands; null: the command may run. */
static const char *objection(const struct agent *agent, const struct group *group,
                             const struct agent_peer_command *command)
{
    bool fresh = begins(command) && !is_open_here(group, command);
    if (!member_is_ready(group)) {
        return group->message[0] != '\0' ? group->message : "its engines are not all attached";
    }
    if (fresh) {
        return begin_objection(agent, group, &command->ticket);
    }
    bool sleeps = command->verb == AGENT_PEER_SLEEP || command->verb == AGENT_PEER_WAKE;
    if (sleeps && group->phase != PHASE_MEMBER_SHUT) {
        return "its gates are not shut";
    }
    bool needs_open = is_within_swap(command->verb) || is_way_back(command->verb);
    if (needs_open && !is_open_here(group, command)) {
        return "it has not accepted this ticket";
    }
    if (needs_open && group->ledger->ticket_committed) {
        return "it has committed this ticket";
    }
    if (is_within_swap(command->verb) && group->recovering) {
        return "its agent was restarted while the swap was open";
    }
    if (command->verb >= AGENT_PEER_UPDATE && command->verb <= AGENT_PEER_CONFIRM &&
        group->ledger->step == 0) {
        return "it is not prepared";
    }
    return serves_again(command->verb) ? serving_objection(group, command) : NULL;
}

/* --- what must be durable before --- */

static void accept(struct agent *agent, struct group *group, const struct agent_ticket *ticket)
{
    struct journal_record record = group_record(group, JOURNAL_ACCEPT);
    session_raise_epoch(agent, ticket->epoch);
    record.accept.ticket = *ticket;
    record.accept.members = flow_members(group);
    agent_write(agent, &record);
    group->recovering = false;
    group->verdict = AGENT_OUTCOME_NONE;
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        group->engines[i].touched = false;
        group->engines[i].restored = false;
    }
    group_note(agent, group, false, "TicketFollowed",
               "ticket %llu of agent %s: version %llu to %llu", (unsigned long long)ticket->number,
               group->config->leader, (unsigned long long)ticket->from.seq,
               (unsigned long long)ticket->to.seq);
}

/* PREPARED; on the way back it raises the step (rule 2). */
static void prepare(struct agent *agent, struct group *group, uint64_t step)
{
    struct journal_record record = group_record(group, JOURNAL_INTENT);
    memcpy(record.intent.ticket_uid, group->ledger->ticket.uid, sizeof record.intent.ticket_uid);
    record.intent.step = step;
    agent_write(agent, &record);
}

static void commit(struct agent *agent, struct group *group)
{
    const struct ledger_group *ledger = group->ledger;
    struct journal_record record = group_record(group, JOURNAL_COMMIT);
    memcpy(record.commit.ticket_uid, ledger->ticket.uid, sizeof record.commit.ticket_uid);
    record.commit.version = ledger->ticket.to;
    record.commit.level = AGENT_LEVEL_RESIDENT;
    record.commit.members =
        ledger->ticket_members; /* As confirmed; who came later is not verified. */
    record.commit.salted = ledger->ticket.policy.kv == AGENT_KV_SALT;
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        const struct engine *engine = &group->engines[i];
        record.commit.level =
            engine->level < record.commit.level ? engine->level : record.commit.level;
    }
    agent_write(agent, &record);
}

static void end_ticket(struct agent *agent, struct group *group, enum agent_outcome outcome)
{
    flow_end_ticket(agent, group, outcome);
    group->recovering = false;
}

/* --- commands without a row --- */

static void on_commit(struct agent *agent, struct group *group,
                      const struct agent_peer_command *command)
{
    struct ledger_group *ledger = group->ledger;
    const struct ledger_outcome *ended = ledger_outcome_find(ledger, command->ticket.uid);
    if (is_open_here(group, command) && ledger->step > 0) {
        bool verified = !group->recovering && flow_all_resident(group, ledger->ticket.to.digest) &&
                        flow_same_incarnations(group, &ledger->ticket_members);
        if (!ledger->ticket_committed) {
            commit(agent, group);
        }
        member_answer(agent, group, verified, !verified, "it was restarted since it had prepared");
        return;
    }
    bool known = ended != NULL && agent_version_equal(&ledger->committed, &command->version);
    member_answer(agent, group, known, !known, "it has not prepared this ticket");
}

static void on_ask(struct agent *agent, struct group *group,
                   const struct agent_peer_command *command)
{
    const struct ledger_group *ledger = group->ledger;
    const struct ledger_outcome *ended = ledger_outcome_find(group->ledger, command->asked);
    struct journal_record record = group_record(group, JOURNAL_FLOORS);
    record.floors.ticket_number = command->fence.ticket;
    record.floors.owner_term = command->fence.owner_term;
    agent_write(agent, &record);
    enum agent_peer_outcome outcome = AGENT_PEER_OUTCOME_UNSEEN;
    if (ledger->open && strcmp(ledger->ticket.uid, command->asked) == 0) {
        outcome = ledger->ticket_committed ? AGENT_PEER_OUTCOME_COMMITTED
                  : ledger->step > 0       ? AGENT_PEER_OUTCOME_PREPARED
                                           : AGENT_PEER_OUTCOME_UNSEEN;
    } else if (ended != NULL) {
        outcome = ended->record.outcome == AGENT_OUTCOME_COMMITTED ? AGENT_PEER_OUTCOME_COMMITTED
                                                                   : AGENT_PEER_OUTCOME_RESTORED;
    }
    group->member.asked = outcome;
    member_answer(agent, group, true, false, "");
}

/* The ticket ended at the leader.  What is resident is in doubt unless it was committed, and then it
 * is compared before it serves.  Without PREPARED here it cannot have been committed anywhere. */
static void on_end(struct agent *agent, struct group *group,
                   const struct agent_peer_command *command)
{
    const struct ledger_group *ledger = group->ledger;
    if (!is_open_here(group, command)) {
        return;
    }
    if (group->member.busy) {
        phase_interrupt(agent, group);
    }
    if (command->committed && ledger->step > 0 && !ledger->ticket_committed &&
        agent_version_equal(&command->version, &ledger->ticket.to)) {
        commit(agent, group);
    }
    group->message[0] = '\0';
    end_ticket(agent, group, AGENT_OUTCOME_OUT);
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        group->engines[i].resident[0] = '\0';
    }
    if (group->phase == PHASE_MEMBER_SHUT || group->phase == PHASE_MEMBER_UP) {
        phase_enter(agent, group, PHASE_SHUT);
    }
}

static void on_watch(struct agent *agent, struct group *group,
                     const struct agent_peer_command *command)
{
    struct agent_group_goal goal = { .owner_term = group->ledger->owner_term,
                                     .sleep = command->sleep };
    memcpy(goal.group, group->config->name, sizeof goal.group);
    if (command->target != NULL) {
        goal.target = *command->target;
    }
    if (command->stage != NULL) {
        goal.stage = *command->stage;
    }
    if (command->restore != NULL) {
        goal.restore = *command->restore;
    }
    bool taken = session_take_goal(agent, &goal, command->fence.epoch);
    if (!taken && !group->member.outdated_noted) {
        group_note(agent, group, true, "GoalsOutdated",
                   "agent %s, which leads the group, tells goals of epoch %llu.%llu; %llu.%llu was "
                   "seen here, so a version that is new here may be another one by now",
                   group->config->leader, (unsigned long long)command->fence.epoch.generation,
                   (unsigned long long)command->fence.epoch.n,
                   (unsigned long long)agent->ledger.epoch.generation,
                   (unsigned long long)agent->ledger.epoch.n);
    }
    group->member.outdated_noted = !taken;
    member_tell(agent, group, false);
}

/* --- commands with a row --- */

/* The old bytes are not on this node: only a recreated engine gets them back. */
static bool cannot_go_back(struct agent *agent, struct group *group)
{
    bool touched = false;
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        touched |= group->engines[i].touched;
    }
    if (!touched || landings_has(&agent->landings, group->ledger->ticket.from.digest)) {
        return false;
    }
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        if (group->engines[i].touched) {
            flow_taint(agent, group, &group->engines[i]);
        }
    }
    return true;
}

static void start_row(struct agent *agent, struct group *group,
                      const struct agent_peer_command *command)
{
    struct member *member = &group->member;
    member->busy = true;
    member->verb = command->verb;
    memset(&member->times, 0, sizeof member->times);
    group->message[0] = '\0';
    group->deadline_ns = agent->now_ns + command->timeout_ns;
    if (command->verb == AGENT_PEER_CLOSE) {
        group->closed_ns = agent->now_ns;
        group->held = 0;
    }
    /* The leader's word, when the drain took too long. */
    group->drain_expired =
        command->verb == AGENT_PEER_PAUSE &&
        command->ticket.policy.in_flight != group->ledger->ticket.policy.in_flight;
    phase_enter(agent, group, ROWS[command->verb]);
}

/* Writes what must be durable before the row; false: it cannot be run after all. */
static bool write_before(struct agent *agent, struct group *group,
                         const struct agent_peer_command *command)
{
    bool opens = command->verb == AGENT_PEER_OPEN || command->verb == AGENT_PEER_REOPEN;
    if (begins(command) && !is_open_here(group, command)) {
        accept(agent, group, &command->ticket);
    } else if (command->verb == AGENT_PEER_FENCE) {
        prepare(agent, group, command->fence.step);
    } else if (command->verb == AGENT_PEER_BACK_FENCE) {
        prepare(agent, group, command->fence.step);
        if (cannot_go_back(agent, group)) {
            return false;
        }
    } else if (command->verb == AGENT_PEER_SLEEP) {
        group->goal.sleep = true; /* The next heartbeat may come after an engine's death. */
        group->goal.sleep_drain_ns = command->drain_ns;
        flow_sleep_mark(agent, group, JOURNAL_SLEEP_FALLING);
    } else if (command->verb == AGENT_PEER_WAKE) {
        group->goal.sleep = false;
        flow_sleep_mark(agent, group, JOURNAL_SLEEP_WAKING);
    } else if (command->verb == AGENT_PEER_COMPARE) {
        group->goal.target = command->version;
        group->compared = command->version;
    } else if (opens && group->ledger->open) {
        end_ticket(agent, group,
                   group->ledger->ticket_committed ? AGENT_OUTCOME_COMMITTED : command->outcome);
    }
    return true;
}

static void obey(struct agent *agent, struct group *group, const struct agent_peer_command *command)
{
    const char *why = stale(group, command);
    if (why == NULL && command->verb == AGENT_PEER_ASK) {
        on_ask(agent, group, command);
        return;
    }
    if (why == NULL && command->verb == AGENT_PEER_COMMIT && member_is_ready(group)) {
        on_commit(agent, group, command);
        return;
    }
    why = why != NULL ? why : objection(agent, group, command);
    if (why != NULL) {
        member_answer(agent, group, false, member_is_out(group), why);
        return;
    }
    if (!write_before(agent, group, command)) {
        group_trouble(group, "the old version is not landed here");
        flow_out(agent, group);
        member_answer(agent, group, false, true, "the old version is not landed here");
        return;
    }
    start_row(agent, group, command);
}

/* A step is obeyed once: the last one is answered again, an earlier one is not heard. */
static bool is_new_step(struct agent *agent, struct group *group, uint64_t step)
{
    struct member *member = &group->member;
    bool passed = step >> LIFE_SHIFT < member->seen >> LIFE_SHIFT || step < member->step;
    if (passed && !MUTANT(MEMBER_STEP_FREE)) {
        member_tell(agent, group, false);
        return false;
    }
    member->heard_ns = agent->now_ns;
    member->alone_noted = false;
    member->seen = step > member->seen ? step : member->seen;
    if (step == member->step) {
        member_tell(agent, group, !member->busy);
        return false;
    }
    return true;
}

void member_on_command(struct agent *agent, const struct agent_peer_command *command)
{
    struct group *group = agent_group_find(agent, command->group);
    const char *why = wrong_sender(agent, group, command);
    if (why != NULL) {
        struct agent_peer_result *result = member_push_answer(agent, command->leader);
        memcpy(result->group, command->group, sizeof result->group);
        result->step = command->fence.step;
        text_print(result->message, sizeof result->message, "%s", why);
        if (strcmp(agent->refused_peer, why) != 0) { /* It asks each second. */
            text_print(agent->refused_peer, sizeof agent->refused_peer, "%s", why);
            agent_note(agent, true, "agent/peer", "PeerRefused", "%s", why);
        }
        return;
    }
    if (!agent->started || !is_new_step(agent, group, command->fence.step)) {
        return;
    }
    if (command->verb == AGENT_PEER_WATCH) {
        on_watch(agent, group, command);
        return;
    }
    if (command->verb == AGENT_PEER_END) {
        on_end(agent, group, command);
        return;
    }
    if (group->member.busy) {
        phase_interrupt(agent, group);
    }
    group->member.step = command->fence.step;
    group->member.asked = AGENT_PEER_OUTCOME_NONE;
    obey(agent, group, command);
}

/* --- where it goes --- */

void member_decide(struct agent *agent, struct group *group)
{
    const struct ledger_group *ledger = group->ledger;
    bool fits =
        flow_same_incarnations(group, ledger->open ? &ledger->ticket_members : &ledger->members);
    group->deadline_ns = AGENT_NEVER;
    if (flow_sleep_doubted(agent, group)) {
        return;
    }
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        struct engine *engine = &group->engines[i];
        engine->touched = ledger->open && ledger->step > 0;
        engine->restored = false;
        if (member_is_in_doubt(group) && engine->facts.way_in != AGENT_WAY_IN_PLUGIN) {
            group_trouble(group, "the agent was restarted while weights were changing");
            flow_taint(agent, group, engine);
            fits = false;
        }
    }
    if (ledger->open && !fits) {
        group_trouble(group, "an engine was restarted while a swap was open");
        flow_out(agent, group);
        return;
    }
    bool known = ledger->committed.seq != 0 && !ledger->needs_ticket && fits &&
                 !(ledger->open && (ledger->step > 0 || ledger->ticket.rejoin));
    if (known) {
        flow_trust(group, &ledger->committed);
    }
    if (known && !ledger->open && flow_all_gates_open(group)) {
        flow_serve(agent, group);
    } else {
        phase_enter(agent, group, PHASE_SHUT);
    }
}

static bool compared_well(const struct group *group)
{
    const struct ledger_group *ledger = group->ledger;
    return flow_all_resident(group, group->compared.digest) && !ledger->needs_ticket &&
           !ledger->open && agent_version_equal(&ledger->committed, &group->compared) &&
           flow_same_incarnations(group, &ledger->members);
}

static void rest(struct agent *agent, struct group *group)
{
    bool up = phase_row(group->phase)->gate == PHASE_GATE_MAY_OPEN;
    group->deadline_ns = AGENT_NEVER;
    /* One that did not answer is not given up before the leader's next command could have come. */
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        struct engine *engine = &group->engines[i];
        if (!engine->reachable) {
            engine->heard_ns = agent->now_ns;
            engine->next_look_ns = agent->now_ns + agent->config.times.health_interval;
        }
    }
    phase_enter(agent, group, up ? PHASE_MEMBER_UP : PHASE_MEMBER_SHUT);
}

static void ended_badly(struct agent *agent, struct group *group, bool out)
{
    const struct phase_row *row = phase_row(group->phase);
    char why[BATON_TEXT_BYTES];
    bool back = is_way_back(group->member.verb) || group->member.verb == AGENT_PEER_BACK_PROBE;
    out |= row->failed == flow_out || back;
    if (back) {
        for (uint32_t i = 0; i < group->config->engines_count; i++) {
            if (group->engines[i].part == PART_FAILED) {
                flow_taint(agent, group, &group->engines[i]);
            }
        }
    }
    group_trouble(group, "not all engines were reached");
    memcpy(why, group->message, sizeof why);
    if (out) {
        flow_out(agent, group);
    } else {
        rest(agent, group);
    }
    member_answer(agent, group, false, out, why);
}

void member_ended(struct agent *agent, struct group *group, bool failed, bool out)
{
    struct member *member = &group->member;
    if (!failed && !out && member->verb == AGENT_PEER_OPEN && group->phase == PHASE_OPEN_REST) {
        phase_enter(agent, group, PHASE_OPEN_FIRST);
        return;
    }
    if (!failed && !out && member->verb == AGENT_PEER_REOPEN && group->phase == PHASE_REOPEN_REST) {
        phase_enter(agent, group, PHASE_REOPEN_FIRST);
        return;
    }
    member->busy = false;
    member->times.stage_ns = group->phases.apply_ns;
    member->times.finalize_ns = group->phases.finalize_ns;
    member->times.verify_ns = group->phases.verify_ns;
    memset(&group->phases, 0, sizeof group->phases);
    if (member->verb == AGENT_PEER_COMPARE && !out) {
        failed = !compared_well(group);
    }
    if (member->verb == AGENT_PEER_CONFIRM && !failed && !out) {
        failed = !flow_same_incarnations(group, &group->ledger->ticket_members) ||
                 !flow_all_resident(group, group->ledger->ticket.to.digest);
    }
    if (failed || out) {
        ended_badly(agent, group, out);
        return;
    }
    if (member->verb == AGENT_PEER_SLEEP || member->verb == AGENT_PEER_WAKE) {
        bool slept = member->verb == AGENT_PEER_SLEEP;
        flow_sleep_mark(agent, group, slept ? JOURNAL_SLEEP_ASLEEP : JOURNAL_SLEEP_AWAKE);
    }
    if (member->verb == AGENT_PEER_OPEN || member->verb == AGENT_PEER_REOPEN) {
        flow_serve(agent, group);
    } else {
        rest(agent, group);
    }
    member_answer(agent, group, true, false, "");
}

void flow_member_wait(struct agent *agent, struct group *group)
{
    flow_look(agent, group);
}

/* --- each step --- */

static void note_alone(struct agent *agent, struct group *group)
{
    if (group->member.alone_noted || !group->ledger->open || member_hears_leader(agent, group)) {
        return;
    }
    group->member.alone_noted = true;
    group_note(agent, group, true, member_is_in_doubt(group) ? "InDoubt" : "LeaderSilent",
               "ticket %llu is open and agent %s, which leads the group, is silent: the gates stay "
               "shut until it says how it ended",
               (unsigned long long)group->ledger->ticket.number, group->config->leader);
}

void member_advance(struct agent *agent, struct group *group)
{
    if (!member_follows(group)) {
        return;
    }
    note_alone(agent, group);
    bool due = agent->now_ns >= group->member.told_ns + agent->config.times.health_interval;
    if (group->changed || due ||
        (group->progressed &&
         agent->now_ns >= group->member.told_ns + agent->config.times.report_interval)) {
        member_tell(agent, group, false);
    }
}

uint64_t member_deadline_ns(const struct agent *agent, const struct group *group)
{
    return member_follows(group) ? group->member.told_ns + agent->config.times.health_interval
                                 : AGENT_NEVER;
}
