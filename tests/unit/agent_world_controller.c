/* agent_world_controller.c -- the controller's side of the agent's test world; see agent_world.h.
 * */
#include <stdio.h>
#include <string.h>

#include "tests/unit/agent_world_engine.h"

struct agent_version world_version(uint64_t seq)
{
    struct agent_version version = { .seq = seq };
    if (seq != 0) {
        (void)snprintf(version.digest, sizeof version.digest, "%032llx", (unsigned long long)seq);
    }
    return version;
}

static uint32_t find_group(const struct world *world, const char *name)
{
    uint32_t i = 0;
    while (i + 1 < world->config.groups_count && strcmp(world->groups_config[i].name, name) != 0) {
        i++;
    }
    return i;
}

static void take_group(struct world *world, const struct agent_group_report *report)
{
    struct world_group *group = &world->groups[find_group(world, report->group)];
    group->report = *report;
    world->barrier.promised[find_group(world, report->group)] |=
        report->barrier == AGENT_BARRIER_STAND_SHUT;
    (void)snprintf(group->message, sizeof group->message, "%s", report->message);
    (void)snprintf(group->blocked, sizeof group->blocked, "%s", report->blocked);
    /* A group's target is what it committed last. */
    bool joins_barrier = world->barrier.open && report->committed.seq < world->barrier.to_seq;
    if (report->committed.seq != 0 && report->committed.seq != group->target_seq &&
        !joins_barrier && !group->as_new) {
        group->target_seq = report->committed.seq;
        world->goals_due = true;
    }
}

static void take_outcome(struct world *world, const struct agent_outcome_report *outcome)
{
    struct world_group *group = &world->groups[find_group(world, outcome->group)];
    if (!group->ticket_open || strcmp(group->ticket.uid, outcome->record->ticket_uid) != 0) {
        return;
    }
    group->ticket_open = false;
    group->ticket_due = false;
    group->outcome = *outcome->record;
    group->outcomes++;
    group->stored_due = !group->withhold_stored;
}

static void take_report(struct world *world, const struct agent_report *report)
{
    world->reports++;
    world->outcomes_told += report->outcomes_count;
    for (uint32_t i = 0; i < report->groups_count; i++) {
        take_group(world, &report->groups[i]);
    }
    for (uint32_t i = 0; i < report->outcomes_count; i++) {
        take_outcome(world, &report->outcomes[i]);
    }
}

static void take_hello(struct world *world, const struct agent_hello *hello)
{
    world->hellos++;
    world->welcome_due = true;
    world->hello_open_tickets = 0;
    world->hello_seq = hello->seq_floors_count == 0 ? 0 : hello->seq_floors[0].version.seq;
    (void)snprintf(world->hello_incarnation, sizeof world->hello_incarnation, "%s",
                   hello->journal_incarnation);
    for (uint32_t i = 0; i < hello->groups_count; i++) {
        take_group(world, &hello->groups[i]);
        world->hello_open_tickets += hello->groups[i].ticket_uid[0] != '\0';
    }
}

static void close_session(struct world *world)
{
    world->session_open = false;
    world->closes++;
    world->controller_wakes_ns = world->now_ns + S;
}

void world_controller_perform(struct world *world, const struct agent_action *action)
{
    if (action->kind == AGENT_ACTION_HELLO) {
        take_hello(world, action->hello);
    } else if (action->kind == AGENT_ACTION_REPORT) {
        take_report(world, action->report);
    } else if (action->kind == AGENT_ACTION_NACK) {
        world->nacks++;
    } else if (action->kind == AGENT_ACTION_OPEN_SESSION) {
        world->session_wanted = true;
    } else if (action->kind == AGENT_ACTION_CLOSE_SESSION) {
        close_session(world);
    }
}

static struct agent_version_goal goal_of(uint64_t seq)
{
    static const struct agent_source source = { "file", "/checkpoint", "a0" };
    struct agent_version_goal goal = { .version = world_version(seq) };
    if (seq != 0) {
        goal.bytes = 1000;
        goal.sources = &source;
        goal.sources_count = 1;
    }
    return goal;
}

static void send_goals(struct world *world)
{
    struct agent_group_goal groups[WORLD_GROUPS];
    char droppable[16][BATON_DIGEST_TEXT_BYTES];
    struct agent_goals goals = { .revision = ++world->goals_revision,
                                 .epoch = world->epoch,
                                 .groups = groups,
                                 .groups_count = world->follows ? 0 : world->config.groups_count };
    memset(groups, 0, sizeof groups);
    for (uint32_t i = 0; i < goals.groups_count; i++) {
        (void)snprintf(groups[i].group, sizeof groups[i].group, "%s", world->groups_config[i].name);
        groups[i].drain = world->groups[i].drain;
        groups[i].sleep = world->groups[i].sleep;
        groups[i].sleep_drain_ns = 2 * S;
        groups[i].target = goal_of(world->groups[i].target_seq);
        groups[i].stage = goal_of(world->groups[i].stage_seq);
        groups[i].restore = goal_of(world->groups[i].restore_seq);
        groups[i].owner_term = world->groups[i].owner_term;
    }
    for (uint64_t seq = 1; seq < 16; seq++) {
        if (world->droppable[seq]) {
            memcpy(droppable[goals.droppable_count++], world_version(seq).digest,
                   sizeof droppable[0]);
        }
    }
    goals.droppable = (const char(*)[BATON_DIGEST_TEXT_BYTES])droppable;
    world_event(world, (struct agent_event){ .kind = AGENT_EVENT_GOALS, .goals = &goals });
}

static void send_welcome(struct world *world)
{
    world_event(world, (struct agent_event){ .kind = AGENT_EVENT_WELCOME,
                                             .welcome = { world->epoch, 6 * S, world->floors,
                                                          world->floors_count } });
    world->goals_due = true;
    memset(world->barrier.answered, 0, sizeof world->barrier.answered);
    for (uint32_t i = 0; i < world->config.groups_count; i++) {
        world->groups[i].ticket_due = world->groups[i].ticket_open;
    }
}

static void send_stored(struct world *world, uint32_t group)
{
    world_event(world, (struct agent_event){
                           .kind = AGENT_EVENT_OUTCOME_STORED,
                           .outcome_stored = { world->groups_config[group].name,
                                               world->groups[group].outcome.ticket_uid } });
}

static void rejoin(struct world *world, uint32_t index)
{
    struct world_group *group = &world->groups[index];
    bool waits = group->report.state == AGENT_GROUP_JOINING && group->blocked[0] == '\0' &&
                 strcmp(group->message, "waits for a rejoin ticket") == 0;
    bool undecided = world->barrier.on && !world->barrier.open && !world->barrier.cancelled;
    if (group->auto_rejoin && waits && !undecided && !group->ticket_open && world->session_open &&
        !world->welcome_due) {
        group->report.state = AGENT_GROUP_OUT; /* Until the next report. */
        world_ticket(world, index, group->target_seq, true);
    }
    if (group->auto_rejoin && !group->ticket_open && world->session_open && !world->welcome_due &&
        strcmp(group->blocked, "IN_DOUBT") == 0) {
        group->blocked[0] = '\0'; /* Until the next report. */
        world_resolve(world, index);
    }
}

void world_controller_run(struct world *world)
{
    if (!world->running || !world->controller_up || world->now_ns < world->controller_wakes_ns) {
        return;
    }
    if (world->session_wanted && !world->session_open) {
        world->session_open = true;
        world_event(world, (struct agent_event){ .kind = AGENT_EVENT_SESSION_OPENED });
    }
    if (world->welcome_due) {
        world->welcome_due = false;
        send_welcome(world);
    }
    if (world->goals_due && world->session_open) {
        world->goals_due = false;
        send_goals(world);
    }
    world_barrier_run(world);
    for (uint32_t i = 0; i < world->config.groups_count && world->session_open; i++) {
        struct world_group *group = &world->groups[i];
        rejoin(world, i);
        if (group->ticket_due) {
            group->ticket_due = false;
            world_event(world, (struct agent_event){ .kind = AGENT_EVENT_TICKET,
                                                     .ticket = &group->ticket });
        }
        if (group->stored_due && world->running) {
            group->stored_due = false;
            send_stored(world, i);
        }
    }
}

void world_goals(struct world *world, uint32_t group, uint64_t target_seq, uint64_t stage_seq)
{
    world->groups[group].target_seq = target_seq;
    world->groups[group].stage_seq = stage_seq;
    world->goals_due = true;
}

void world_ticket(struct world *world, uint32_t group, uint64_t to_seq, bool rejoin)
{
    struct world_group *of = &world->groups[group];
    struct agent_ticket *ticket = &of->ticket;
    struct agent_policy policy = ticket->policy;
    memset(ticket, 0, sizeof *ticket);
    ticket->number = ++of->number;
    (void)snprintf(ticket->uid, sizeof ticket->uid, "%08x%024llx", group,
                   (unsigned long long)ticket->number);
    memcpy(ticket->group, world->groups_config[group].name, sizeof ticket->group);
    ticket->epoch = world->epoch;
    ticket->owner_term = of->owner_term;
    ticket->from = of->report.committed;
    ticket->to = world_version(to_seq);
    ticket->rejoin = rejoin;
    ticket->policy = policy;
    of->ticket_open = true;
    of->ticket_due = true;
    memset(&of->outcome, 0, sizeof of->outcome);
}

void world_resolve(struct world *world, uint32_t group)
{
    world_ticket(world, group, world->groups[group].target_seq, true);
    world->groups[group].ticket.resolve = true;
}

void world_resend(struct world *world, uint32_t group)
{
    world->groups[group].ticket_due = true;
}
