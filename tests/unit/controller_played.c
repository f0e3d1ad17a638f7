/* controller_played.c -- see controller_world.h: agents that land versions and carry out tickets.
 */
#include "tests/unit/controller_played.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "api/base/bytes.h"

static void copy(char *out, size_t out_bytes, const char *text)
{
    cr_assert(baton_text_copy(out, out_bytes, text));
}

struct played_agent *world_agent(struct world *world, const char *name)
{
    for (uint32_t i = 0; i < world->agents_count; i++) {
        if (strcmp(world->agents[i].name, name) == 0) {
            return &world->agents[i];
        }
    }
    cr_assert_lt(world->agents_count, WORLD_AGENTS_MAX);
    struct played_agent *agent = &world->agents[world->agents_count];
    world->agents_count++;
    copy(agent->name, sizeof(agent->name), name);
    copy(agent->incarnation, sizeof(agent->incarnation), "life-1");
    return agent;
}

struct played_group *world_add_group(struct played_agent *agent, const char *name,
                                     const char *model)
{
    cr_assert_lt(agent->groups_count, WORLD_GROUPS_MAX);
    struct played_group *group = &agent->groups[agent->groups_count];
    agent->groups_count++;
    copy(group->report.group, sizeof(group->report.group), name);
    copy(group->report.model, sizeof(group->report.model), model);
    copy(group->engine.name, sizeof(group->engine.name), "e0");
    copy(group->engine.kind, sizeof(group->engine.kind), "vllm");
    group->report.state = GROUP_STATE_JOINING;
    group->report.can_restore = true;
    group->report.engines = &group->engine;
    group->report.engines_count = 1;
    return group;
}

struct played_group *world_group(struct world *world, const char *name)
{
    for (uint32_t i = 0; i < world->agents_count; i++) {
        for (uint32_t k = 0; k < world->agents[i].groups_count; k++) {
            if (strcmp(world->agents[i].groups[k].report.group, name) == 0) {
                return &world->agents[i].groups[k];
            }
        }
    }
    cr_assert_fail("no played group %s", name);
    return NULL;
}

static struct played_agent *agent_of(struct world *world, const struct played_group *group)
{
    for (uint32_t i = 0; i < world->agents_count; i++) {
        struct played_agent *agent = &world->agents[i];
        if (group >= agent->groups && group < agent->groups + WORLD_GROUPS_MAX) {
            return agent;
        }
    }
    cr_assert_fail("a group of nobody");
    return NULL;
}

static struct played_agent *agent_of_session(struct world *world, uint64_t session)
{
    for (uint32_t i = 0; i < world->agents_count; i++) {
        if (world->agents[i].session == session) {
            return &world->agents[i];
        }
    }
    return NULL;
}

bool world_hello(struct world *world, struct played_agent *agent)
{
    struct group_report reports[WORLD_GROUPS_MAX];
    for (uint32_t i = 0; i < agent->groups_count; i++) {
        reports[i] = agent->groups[i].report;
    }
    struct event event = { .kind = EVENT_SESSION_HELLO };
    world->session++;
    agent->session = world->session;
    agent->was_welcomed = false;
    agent->floors_told_count = 0;
    event.body.hello =
        (struct session_hello){ .session = world->session,
                                .agent = agent->name,
                                .protocol = (uint32_t)(CONTROLLER_PROTOCOL + agent->protocol_away),
                                .software = "test",
                                .journal_incarnation = agent->incarnation,
                                .highest_epoch = agent->highest_epoch,
                                .peer_address = agent->peer_address,
                                .peer_zone = agent->peer_zone,
                                .groups = reports,
                                .groups_count = agent->groups_count,
                                .floors = agent->floors,
                                .floors_count = agent->floors_count,
                                .follows = agent->follows,
                                .follows_count = (size_t)(agent->follows[0] != NULL) +
                                                 (agent->follows[1] != NULL) };
    world_step(world, &event);
    return agent->was_welcomed;
}

bool world_connect(struct world *world, struct played_agent *agent)
{
    bool welcomed = world_hello(world, agent);
    if (welcomed) {
        world_report(world, agent, NULL, 0);
    }
    return welcomed;
}

void world_disconnect(struct world *world, struct played_agent *agent)
{
    struct event event = { .kind = EVENT_SESSION_GONE };
    event.body.session_gone = agent->session;
    agent->session = 0;
    world_step(world, &event);
}

/* As agents do: taken over, then the states of then. */
static void ack_goals(struct world *world, struct played_agent *agent)
{
    struct event event = { .kind = EVENT_SESSION_ACK };
    if (agent->goals_acked == agent->goals_revision) {
        return;
    }
    agent->goals_acked = agent->goals_revision;
    event.body.ack =
        (struct session_ack){ .session = agent->session, .revision = agent->goals_revision };
    world_step(world, &event);
}

void world_report(struct world *world, struct played_agent *agent,
                  const struct ticket_outcome *outcomes, size_t count)
{
    struct group_report reports[WORLD_GROUPS_MAX];
    const char *landed[WORLD_LANDED_MAX];
    for (uint32_t i = 0; i < agent->groups_count; i++) {
        reports[i] = agent->groups[i].report;
    }
    for (uint32_t i = 0; i < agent->landed_count; i++) {
        landed[i] = agent->landed[i];
    }
    struct event event = { .kind = EVENT_SESSION_REPORT };
    event.body.report = (struct session_report){ .session = agent->session,
                                                 .groups = reports,
                                                 .groups_count = agent->groups_count,
                                                 .outcomes = outcomes,
                                                 .outcomes_count = count,
                                                 .landing_told = true,
                                                 .landed_digests = landed,
                                                 .landed_count = agent->landed_count };
    agent->dirty = false;
    ack_goals(world, agent);
    world_step(world, &event);
}

void played_renew(struct world *world, struct played_agent *agent)
{
    if (agent->session == 0) {
        return;
    }
    struct event event = { .kind = EVENT_SESSION_REPORT };
    event.body.report.session = agent->session;
    world_step(world, &event);
}

static void land(struct played_agent *agent, const struct version_record *version)
{
    for (uint32_t i = 0; i < agent->landed_count; i++) {
        if (strcmp(agent->landed[i], version->digest) == 0) {
            return;
        }
    }
    cr_assert_lt(agent->landed_count, WORLD_LANDED_MAX);
    copy(agent->landed[agent->landed_count], BATON_DIGEST_TEXT_BYTES, version->digest);
    agent->landed_count++;
    agent->dirty = true;
}

static bool serves(const struct played_group *group)
{
    return group->report.state == GROUP_STATE_SERVING ||
           group->report.state == GROUP_STATE_STAGED || group->report.state == GROUP_STATE_STAGING;
}

/* Shuts the gate, or opens it again on the weights that it committed. */
static void play_drain(struct played_agent *agent, struct played_group *group)
{
    bool drained = strcmp(group->report.blocked, "GROUP_CORDONED") == 0;
    bool joins = group->report.state == GROUP_STATE_JOINING;
    if (group->goal.drain && (serves(group) || joins)) {
        group->report.state = GROUP_STATE_OUT;
        group->report.gate_open = false;
        copy(group->report.blocked, sizeof(group->report.blocked), "GROUP_CORDONED");
        agent->dirty = true;
    } else if (!group->goal.drain && drained) {
        bool same = group->report.committed_seq != 0 &&
                    group->report.committed_seq == group->goal_target_seq;
        group->report.state = same ? GROUP_STATE_SERVING : GROUP_STATE_JOINING;
        group->report.gate_open = same;
        group->report.blocked[0] = '\0';
        agent->dirty = true;
    }
}

/* Releases memory behind a shut gate, and joins again; a swap ends first. */
static void play_sleep(struct played_agent *agent, struct played_group *group)
{
    bool asleep = group->report.state == GROUP_STATE_ASLEEP;
    if (group->goal.sleep && !asleep && !group->has_ticket) {
        group->report.state = GROUP_STATE_ASLEEP;
        group->report.gate_open = false;
        copy(group->report.blocked, sizeof(group->report.blocked), "GROUP_ASLEEP");
        agent->dirty = true;
    } else if (!group->goal.sleep && asleep) {
        group->report.state = GROUP_STATE_JOINING;
        group->report.blocked[0] = '\0';
        agent->dirty = true;
    }
}

static void print_holders(const struct holders *holders, char out[BATON_TEXT_BYTES])
{
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < holders->count; i++) {
        used += (size_t)snprintf(out + used, BATON_TEXT_BYTES - used, "%s%s%s", i > 0 ? " " : "",
                                 holders->items[i].agent, holders->items[i].last ? "!" : "");
    }
}

static void note_follows(struct played_agent *agent, const struct goals *goals)
{
    size_t used = 0;
    agent->followed[0] = '\0';
    for (size_t i = 0; i < goals->follows_count; i++) {
        char text[BATON_TEXT_BYTES];
        print_holders(&goals->follows[i].holders, text);
        used += (size_t)snprintf(agent->followed + used, sizeof(agent->followed) - used,
                                 "%s%llu: %.60s", i > 0 ? ", " : "",
                                 (unsigned long long)goals->follows[i].version->seq, text);
    }
}

static void take_goal(struct played_agent *agent, const struct group_goal *goal)
{
    for (uint32_t i = 0; i < agent->groups_count; i++) {
        struct played_group *group = &agent->groups[i];
        if (strcmp(group->report.group, goal->group) != 0) {
            continue;
        }
        group->goal_target_seq = goal->target == NULL ? 0 : goal->target->seq;
        group->goal_stage_seq = goal->stage == NULL ? 0 : goal->stage->seq;
        group->goal_restore_seq = goal->restore == NULL ? 0 : goal->restore->seq;
        print_holders(goal->stage != NULL ? &goal->stage_holders : &goal->target_holders,
                      agent->holders);
        group->goal.owner_term = goal->owner_term;
        group->report.owner_term = goal->owner_term;
        group->goal.drain = goal->drain;
        group->goal.sleep = goal->sleep;
        if (agent->by_hand) {
            return;
        }
        play_drain(agent, group);
        play_sleep(agent, group);
        if (goal->target != NULL) {
            land(agent, goal->target);
        }
        if (goal->stage != NULL) {
            land(agent, goal->stage);
        }
        if (serves(group)) {
            group->report.state = goal->stage == NULL ? GROUP_STATE_SERVING : GROUP_STATE_STAGED;
            group->report.staging_seq = group->goal_stage_seq;
            group->report.staged_bytes = goal->stage == NULL ? 0 : goal->stage->bytes;
            agent->dirty = true;
        }
    }
}

/* An agent that takes droppable at its word: whatever one of its groups still needs must not be
 * there. */
static void drop(struct world *world, struct played_agent *agent, const char *digest)
{
    for (uint32_t i = 0; i < agent->groups_count; i++) {
        const struct played_group *group = &agent->groups[i];
        cr_assert_str_neq(group->report.committed_digest, digest, "%s: what it serves is droppable",
                          group->report.group);
        if (group->has_ticket && strcmp(group->ticket.to_digest, digest) == 0) {
            /* Its own journal names it.  The controller does so too, unless it closed the ticket. */
            const struct group_record *record = view_group_find(world->core, group->report.group);
            cr_assert(!record->ticket_open || strcmp(record->ticket.uid, group->ticket.uid) != 0);
            return;
        }
    }
    for (uint32_t i = 0; i < agent->landed_count; i++) {
        if (strcmp(agent->landed[i], digest) == 0) {
            agent->landed_count--;
            memmove(agent->landed[i], agent->landed[agent->landed_count], sizeof(agent->landed[i]));
            agent->dirty = true;
            return;
        }
    }
}

static void take_goals(struct world *world, struct played_agent *agent, const struct goals *goals)
{
    cr_assert_gt(goals->revision, agent->goals_revision, "goals' revisions rise");
    agent->goals_revision = goals->revision;
    agent->goals_seen++;
    agent->droppable_count = 0;
    for (size_t i = 0; i < goals->droppable_count; i++) {
        copy(agent->droppable[agent->droppable_count++], BATON_DIGEST_TEXT_BYTES,
             goals->droppable[i]);
        if (!agent->by_hand) {
            drop(world, agent, goals->droppable[i]);
        }
    }
    note_follows(agent, goals);
    for (size_t i = 0; i < goals->groups_count; i++) {
        take_goal(agent, &goals->groups[i]);
    }
}

static void take_ticket(struct world *world, const struct ticket_send *send)
{
    struct played_group *group = world_group(world, send->group);
    group->tickets_seen++;
    if (send->ticket->number > group->report.highest_ticket) {
        cr_assert_geq(send->ticket->owner_term, group->report.owner_term);
        group->has_ticket = true;
        group->ticket = *send->ticket;
        group->revoked = false;
        group->word = BARRIER_WORD_NONE;
        agent_of(world, group)->dirty = true;
    }
}

/* A group goes on only as its own stand allows: words that come too early or too late do nothing. */
static void take_word(struct world *world, const struct barrier_order *order)
{
    struct played_group *group = world_group(world, order->group);
    enum barrier_stand stand = group->report.barrier;
    bool about = group->has_ticket && strcmp(group->ticket.uid, order->ticket_uid) == 0;
    bool fits = (order->word == BARRIER_WORD_GO && stand == BARRIER_STAND_SHUT) ||
                (order->word == BARRIER_WORD_CANCEL && stand <= BARRIER_STAND_SHUT) ||
                (order->word == BARRIER_WORD_OPEN && stand == BARRIER_STAND_COMMITTED);
    if (about && fits) {
        group->word = order->word;
        agent_of(world, group)->dirty = true;
    }
}

void played_receive(struct world *world, const struct action_send *send)
{
    struct played_agent *agent = agent_of_session(world, send->session);
    cr_assert_not_null(agent, "a message down a session that is not open");
    switch (send->kind) {
    case SEND_WELCOME:
        agent->was_welcomed = true;
        agent->highest_epoch = send->message.welcome.epoch;
        for (size_t i = 0; i < send->message.welcome.floors_count; i++) {
            agent->floors_told[agent->floors_told_count++] = send->message.welcome.floors[i];
        }
        break;
    case SEND_GOALS:
        cr_assert(agent->was_welcomed, "the welcome comes first");
        take_goals(world, agent, &send->message.goals);
        break;
    case SEND_TICKET: take_ticket(world, &send->message.ticket); break;
    case SEND_REVOKE: world_group(world, send->message.revoke.group)->revoked = true; break;
    case SEND_BARRIER: take_word(world, &send->message.barrier); break;
    case SEND_OUTCOME_STORED: agent->outcomes_stored++; break;
    }
}

void played_closed(struct world *world, const struct action_close *close)
{
    struct played_agent *agent = agent_of_session(world, close->session);
    if (agent != NULL) {
        agent->session = 0;
        agent->closed = close->status;
    }
}

struct ticket_outcome world_outcome(const struct played_group *group, enum swap_outcome outcome)
{
    const struct ticket_record *ticket = &group->ticket;
    struct ticket_outcome told = { .epoch = ticket->epoch };
    copy(told.group, sizeof(told.group), group->report.group);
    copy(told.record.ticket_uid, sizeof(told.record.ticket_uid), ticket->uid);
    told.record.ticket_number = ticket->number;
    told.record.outcome = outcome;
    bool committed = outcome == SWAP_OUTCOME_COMMITTED;
    told.committed_seq = committed ? ticket->to_seq : group->report.committed_seq;
    copy(told.committed_digest, sizeof(told.committed_digest),
         committed ? ticket->to_digest : group->report.committed_digest);
    return told;
}

void world_finish(struct world *world, const char *name, enum swap_outcome outcome)
{
    struct played_group *group = world_group(world, name);
    struct played_agent *agent = agent_of(world, group);
    cr_assert(group->has_ticket, "%s has no ticket", name);
    struct ticket_outcome told = world_outcome(group, outcome);
    struct group_report *report = &group->report;
    report->highest_ticket = group->ticket.number;
    report->committed_seq = told.committed_seq;
    copy(report->committed_digest, sizeof(report->committed_digest), told.committed_digest);
    bool joins = report->state == GROUP_STATE_JOINING || report->state == GROUP_STATE_OUT;
    report->barrier = BARRIER_STAND_NONE;
    report->ticket_uid[0] = '\0';
    bool away = outcome == SWAP_OUTCOME_OUT || (joins && outcome != SWAP_OUTCOME_COMMITTED);
    if (away) {
        report->state = outcome == SWAP_OUTCOME_OUT ? GROUP_STATE_OUT : report->state;
    } else if (outcome == SWAP_OUTCOME_COMMITTED) {
        report->state = GROUP_STATE_SERVING;
        report->staging_seq = 0;
    } else if (group->ticket.barrier) {
        report->state = GROUP_STATE_STAGED;
    }
    report->gate_open = !away;
    group->has_ticket = false;
    world_report(world, agent, &told, 1);
}

void world_stand(struct world *world, const char *name, enum barrier_stand stand)
{
    struct played_group *group = world_group(world, name);
    struct group_report *report = &group->report;
    cr_assert(group->has_ticket && group->ticket.barrier);
    report->barrier = stand;
    report->state = stand == BARRIER_STAND_COMMITTED ? GROUP_STATE_RESUMING : GROUP_STATE_PAUSING;
    report->gate_open = false;
    copy(report->ticket_uid, sizeof(report->ticket_uid), group->ticket.uid);
    report->highest_ticket = group->ticket.number;
    if (stand == BARRIER_STAND_COMMITTED) {
        report->committed_seq = group->ticket.to_seq;
        copy(report->committed_digest, sizeof(report->committed_digest), group->ticket.to_digest);
    }
    world_report(world, agent_of(world, group), NULL, 0);
}

/* One step of a group in a barrier; false if it waits for a word. */
static bool play_barrier(struct world *world, struct played_group *group)
{
    const char *name = group->report.group;
    enum barrier_stand stand = group->report.barrier;
    if (group->word == BARRIER_WORD_CANCEL || (group->revoked && stand == BARRIER_STAND_NONE)) {
        world_finish(world, name, SWAP_OUTCOME_PAUSE_TIMEOUT);
    } else if (group->word == BARRIER_WORD_OPEN) {
        world_finish(world, name, SWAP_OUTCOME_COMMITTED);
    } else if (stand == BARRIER_STAND_NONE) {
        world_stand(world, name, BARRIER_STAND_SHUT);
    } else if (group->word == BARRIER_WORD_GO && stand == BARRIER_STAND_SHUT) {
        world_stand(world, name, BARRIER_STAND_GOING);
    } else if (stand == BARRIER_STAND_GOING) {
        world_stand(world, name, BARRIER_STAND_COMMITTED);
    } else {
        return false;
    }
    return true;
}

static bool play_agent(struct world *world, struct played_agent *agent)
{
    if (agent->session == 0 || agent->by_hand) {
        return false;
    }
    if (agent->dirty) {
        world_report(world, agent, NULL, 0);
        return true;
    }
    for (uint32_t i = 0; i < agent->groups_count; i++) {
        struct played_group *group = &agent->groups[i];
        if (group->has_ticket && group->ticket.barrier) {
            if (play_barrier(world, group)) {
                return true;
            }
        } else if (group->has_ticket) {
            world_finish(world, group->report.group,
                         group->revoked ? SWAP_OUTCOME_REFUSED : SWAP_OUTCOME_COMMITTED);
            return true;
        }
    }
    return false;
}

bool world_play_once(struct world *world, uint32_t agent)
{
    return play_agent(world, &world->agents[agent]);
}

void world_play(struct world *world)
{
    bool more = true;
    for (int rounds = 0; more; rounds++) {
        cr_assert_lt(rounds, 10000, "the world does not come to rest: %s", world->last_log);
        more = false;
        for (uint32_t i = 0; i < world->agents_count; i++) {
            more = play_agent(world, &world->agents[i]) || more;
        }
    }
}

void world_fleet(struct world *world, const char *model, uint32_t groups)
{
    for (uint32_t i = 0; i < groups; i++) {
        char name[BATON_NAME_BYTES];
        (void)snprintf(name, sizeof(name), "a%u", i);
        struct played_agent *agent = world_agent(world, name);
        (void)snprintf(name, sizeof(name), "g%u", i);
        (void)world_add_group(agent, name, model);
        cr_assert(world_connect(world, agent), "%s", agent->closed.message);
    }
}
