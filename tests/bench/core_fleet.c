/* core_fleet.c -- see core_fleet.h. */
#include "tests/bench/core_fleet.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "api/base/arena.h"
#include "controller/core/action.h"
#include "controller/core/controller.h"
#include "controller/core/event.h"
#include "controller/core/view.h"

#define PATIENCE_NS (UINT64_C(5) * 1000 * 1000 * 1000) /* Below the agents' lease. */

enum { STEP_NS = 1000, VERSION_BYTES = 1 << 20, LANDED_KEPT = 2 };

struct played_group {
    struct group_report report;
    struct engine_info engine;
    struct ticket_outcome outcome;
    uint32_t agent;
    bool staged;
    bool swapped; /* Its outcome is to be told. */
    bool queued;
};

struct core_fleet {
    struct core_fleet_options options;
    struct controller *core;
    void *memory;
    size_t memory_bytes;
    uint64_t now_ns;
    uint64_t steps;
    uint64_t seq;
    struct played_group *groups; /* By agent. */
    uint32_t groups_count;
    uint32_t *queue; /* Groups that have something to say. */
    uint32_t queue_count;
    struct baton_status replied;
    char answered_uid[BATON_UID_TEXT_BYTES];
    char digests[LANDED_KEPT][BATON_DIGEST_TEXT_BYTES];
};

static void require(bool holds, const char *what)
{
    if (!holds) {
        (void)fprintf(stderr, "core_fleet: %s\n", what);
        abort();
    }
}

static void digest_of(uint64_t seq, char out[BATON_DIGEST_TEXT_BYTES])
{
    (void)snprintf(out, BATON_DIGEST_TEXT_BYTES, "%032llx", (unsigned long long)seq);
}

static struct played_group *find(struct core_fleet *fleet, const char *name)
{
    uint32_t place = (uint32_t)strtoul(name + 1, NULL, 10);
    require(place < fleet->groups_count, "a message is about an unknown group");
    return &fleet->groups[place];
}

static void queue(struct core_fleet *fleet, struct played_group *group)
{
    if (!group->queued) {
        group->queued = true;
        fleet->queue[fleet->queue_count++] = (uint32_t)(group - fleet->groups);
    }
}

/* --- what the core says --- */

static void take_goal(struct core_fleet *fleet, const struct group_goal *goal)
{
    struct played_group *group = find(fleet, goal->group);
    const struct version_record *stage = goal->stage;
    bool joins = group->report.state == GROUP_STATE_JOINING && goal->target != NULL;
    group->report.owner_term = goal->owner_term;
    if (joins && !group->staged) {
        group->staged = true;
        queue(fleet, group);
    } else if (stage != NULL && group->report.staging_seq != stage->seq) {
        group->report.state = GROUP_STATE_STAGED;
        group->report.staging_seq = stage->seq;
        group->report.staged_bytes = stage->bytes;
        queue(fleet, group);
    }
}

/* Shut, and promises to stay so. */
static void promise(struct core_fleet *fleet, struct played_group *group)
{
    group->report.state = GROUP_STATE_PAUSING;
    group->report.gate_open = false;
    group->report.barrier = BARRIER_STAND_SHUT;
    queue(fleet, group);
}

static void commit(struct core_fleet *fleet, struct played_group *group)
{
    struct group_report *report = &group->report;
    report->state = GROUP_STATE_RESUMING;
    report->barrier = BARRIER_STAND_COMMITTED;
    report->committed_seq = group->outcome.committed_seq;
    memcpy(report->committed_digest, group->outcome.committed_digest,
           sizeof(report->committed_digest));
    queue(fleet, group);
}

static void end_ticket(struct core_fleet *fleet, struct played_group *group)
{
    commit(fleet, group);
    group->report.state = GROUP_STATE_SERVING;
    group->report.gate_open = true;
    group->report.barrier = BARRIER_STAND_NONE;
    group->swapped = true;
}

static void take_ticket(struct core_fleet *fleet, const struct ticket_send *send)
{
    struct played_group *group = find(fleet, send->group);
    const struct ticket_record *ticket = send->ticket;
    struct ticket_outcome *outcome = &group->outcome;
    memset(outcome, 0, sizeof(*outcome));
    memcpy(outcome->group, group->report.group, sizeof(outcome->group));
    memcpy(outcome->record.ticket_uid, ticket->uid, sizeof(ticket->uid));
    outcome->record.outcome = SWAP_OUTCOME_COMMITTED;
    outcome->epoch = ticket->epoch;
    outcome->committed_seq = ticket->to_seq;
    memcpy(outcome->committed_digest, ticket->to_digest, sizeof(ticket->to_digest));
    group->report.highest_ticket = ticket->number;
    memcpy(group->report.ticket_uid, ticket->uid, sizeof(ticket->uid));
    (ticket->barrier ? promise : end_ticket)(fleet, group);
}

static void take_word(struct core_fleet *fleet, const struct barrier_order *order)
{
    struct played_group *group = find(fleet, order->group);
    require(order->word != BARRIER_WORD_CANCEL, "a barrier was cancelled");
    if (order->word == BARRIER_WORD_GO && group->report.barrier == BARRIER_STAND_SHUT) {
        commit(fleet, group);
    } else if (order->word == BARRIER_WORD_OPEN && !group->report.gate_open) {
        end_ticket(fleet, group);
    }
}

static void take(struct core_fleet *fleet, const struct action *action)
{
    const struct action_send *send = &action->body.send;
    if (action->kind == ACTION_REPLY) {
        fleet->replied = action->body.reply->status;
        memcpy(fleet->answered_uid, action->body.reply->object.uid, sizeof(fleet->answered_uid));
    } else if (action->kind == ACTION_CLOSE_SESSION) {
        require(false, action->body.close->status.message);
    } else if (action->kind == ACTION_SEND && send->kind == SEND_GOALS) {
        for (size_t i = 0; i < send->message.goals.groups_count; i++) {
            take_goal(fleet, &send->message.goals.groups[i]);
        }
    } else if (action->kind == ACTION_SEND && send->kind == SEND_TICKET) {
        take_ticket(fleet, &send->message.ticket);
    } else if (action->kind == ACTION_SEND && send->kind == SEND_BARRIER) {
        take_word(fleet, &send->message.barrier);
    }
}

static void step(struct core_fleet *fleet, struct event *event)
{
    fleet->now_ns += STEP_NS;
    fleet->steps++;
    event->now_ns = fleet->now_ns;
    event->wall_ns = fleet->now_ns;
    struct actions actions = controller_step(fleet->core, event);
    for (size_t i = 0; i < actions.count; i++) {
        take(fleet, &actions.items[i]);
    }
}

/* --- what agents say --- */

static void report(struct core_fleet *fleet, struct played_group *group)
{
    const char *landed[LANDED_KEPT] = { fleet->digests[0], fleet->digests[1] };
    struct event event = { .kind = EVENT_SESSION_REPORT };
    struct session_report *body = &event.body.report;
    struct ticket_outcome outcome = group->outcome;
    struct group_report copy = group->report;
    body->session = group->agent + 1;
    body->groups = &copy;
    body->groups_count = 1;
    body->outcomes = &outcome;
    body->outcomes_count = group->swapped;
    body->landing_told = true;
    body->landed_digests = landed;
    body->landed_count = LANDED_KEPT;
    group->swapped = false;
    step(fleet, &event);
}

static void run(struct core_fleet *fleet)
{
    /* First come, first served; what a step adds comes behind. */
    for (uint32_t at = 0; at < fleet->queue_count; at++) {
        struct played_group *group = &fleet->groups[fleet->queue[at]];
        group->queued = false;
        report(fleet, group);
        if (at >= fleet->groups_count) {
            memmove(fleet->queue, fleet->queue + at + 1,
                    (fleet->queue_count - at - 1) * sizeof(*fleet->queue));
            fleet->queue_count -= at + 1;
            at = UINT32_MAX;
        }
    }
    fleet->queue_count = 0;
}

static void ask(struct core_fleet *fleet, struct request *request)
{
    static uint64_t handle;
    struct event event = { .kind = EVENT_REQUEST };
    request->handle = ++handle;
    event.body.request = *request;
    step(fleet, &event);
    require(fleet->replied.code == BATON_OK, fleet->replied.message);
}

static void publish(struct core_fleet *fleet)
{
    char uid[BATON_UID_TEXT_BYTES];
    char digest[BATON_DIGEST_TEXT_BYTES];
    struct version_source source = { .backend = "file", .location = "/v" };
    fleet->seq++;
    digest_of(fleet->seq, digest);
    memcpy(fleet->digests[fleet->seq % LANDED_KEPT], digest, sizeof(digest));
    struct request open = { .kind = REQUEST_VERSION_OPEN, .model = "m" };
    ask(fleet, &open);
    memcpy(uid, fleet->answered_uid, sizeof(uid));
    struct request manifest = { .kind = REQUEST_VERSION_MANIFEST, .version_uid = uid };
    manifest.body.manifest = (struct request_version_manifest){ digest, 1, 0, VERSION_BYTES };
    ask(fleet, &manifest);
    struct request seal = { .kind = REQUEST_VERSION_SEAL, .version_uid = uid };
    seal.body.seal = (struct request_version_seal){ .digest = digest, .bytes = VERSION_BYTES };
    ask(fleet, &seal);
    struct request publish = { .kind = REQUEST_VERSION_PUBLISH, .version_uid = uid };
    publish.body.publish = (struct request_version_publish){ &source, 1 };
    ask(fleet, &publish);
}

static void hold_sessions(struct core_fleet *fleet)
{
    char name[BATON_NAME_BYTES];
    for (uint32_t i = 0; i < fleet->options.sessions; i++) {
        (void)snprintf(name, sizeof(name), "s%u", i);
        struct request request = { .kind = REQUEST_SESSION_RESOLVE, .model = "m" };
        request.body.session =
            (struct request_session){ .query = { .model = "m" }, .name = name, .restart = true };
        ask(fleet, &request);
    }
}

static bool is_promoted(const struct core_fleet *fleet)
{
    return view_model_find(fleet->core, "m")->promoted_seq == fleet->seq;
}

void core_fleet_roll(struct core_fleet *fleet)
{
    if (fleet->seq > 0) {
        hold_sessions(fleet);
    }
    publish(fleet);
    run(fleet);
    uint64_t patience_ns = fleet->now_ns + PATIENCE_NS;
    while (!is_promoted(fleet)) {
        struct event event = { .kind = EVENT_TIMER };
        uint64_t due_ns = controller_deadline_ns(fleet->core);
        require(due_ns < patience_ns, "the roll did not complete");
        fleet->now_ns = due_ns > fleet->now_ns ? due_ns : fleet->now_ns;
        step(fleet, &event);
        run(fleet);
    }
}

void core_fleet_heartbeat(struct core_fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->options.agents; i++) {
        struct event event = { .kind = EVENT_SESSION_REPORT };
        event.body.report.session = i + 1;
        step(fleet, &event);
    }
}

void core_fleet_progress(struct core_fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->groups_count; i++) {
        fleet->groups[i].report.staged_bytes++;
        report(fleet, &fleet->groups[i]);
        report(fleet, &fleet->groups[i]);
    }
}

uint64_t core_fleet_steps(const struct core_fleet *fleet)
{
    return fleet->steps;
}

/* --- life --- */

static void make_group(struct core_fleet *fleet, uint32_t place)
{
    struct played_group *group = &fleet->groups[place];
    group->agent = place / fleet->options.groups_per_agent;
    (void)snprintf(group->report.group, sizeof(group->report.group), "g%06u", place);
    (void)snprintf(group->report.model, sizeof(group->report.model), "m");
    (void)snprintf(group->engine.name, sizeof(group->engine.name), "e0");
    group->engine.world_size = 8;
    group->engine.reachable = true;
    group->report.state = GROUP_STATE_JOINING;
    group->report.verify_level = VERIFY_LEVEL_RESIDENT;
    group->report.can_restore = true;
    group->report.engines = &group->engine;
    group->report.engines_count = 1;
}

static void hello(struct core_fleet *fleet, uint32_t agent)
{
    char name[BATON_NAME_BYTES];
    struct group_report groups[BATON_GROUPS_PER_AGENT_MAX];
    uint32_t count = fleet->options.groups_per_agent;
    (void)snprintf(name, sizeof(name), "a%06u", agent);
    for (uint32_t i = 0; i < count; i++) {
        groups[i] = fleet->groups[(size_t)agent * count + i].report;
    }
    struct event event = { .kind = EVENT_SESSION_HELLO };
    event.body.hello = (struct session_hello){ .session = agent + 1,
                                               .agent = name,
                                               .protocol = CONTROLLER_PROTOCOL,
                                               .journal_incarnation = name,
                                               .landing_budget_bytes = UINT64_C(1) << 40,
                                               .groups = groups,
                                               .groups_count = count };
    step(fleet, &event);
}

static void start(struct core_fleet *fleet)
{
    struct controller_limits limits = controller_limits_default();
    uint8_t seed[CONTROLLER_SEED_BYTES] = { 7 };
    fleet->memory_bytes = controller_bytes(&limits);
    fleet->memory = mmap(NULL, fleet->memory_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(fleet->memory != MAP_FAILED, "no memory for the core");
    struct baton_arena arena = baton_arena_of(fleet->memory, fleet->memory_bytes);
    fleet->core = controller_init(&arena, &limits, seed);
    struct event event = { .kind = EVENT_STARTED,
                           .body.started = { .epoch = { 1, 1 }, .log_next_number = 1 } };
    step(fleet, &event);
}

struct core_fleet *core_fleet_make(const struct core_fleet_options *options)
{
    struct core_fleet *fleet = calloc(1, sizeof(*fleet));
    require(fleet != NULL, "no memory");
    fleet->options = *options;
    fleet->groups_count = options->agents * options->groups_per_agent;
    fleet->groups = calloc(fleet->groups_count, sizeof(*fleet->groups));
    fleet->queue = calloc((size_t)fleet->groups_count * 2 + 1, sizeof(*fleet->queue));
    require(fleet->groups != NULL && fleet->queue != NULL, "no memory");
    digest_of(0, fleet->digests[0]);
    digest_of(0, fleet->digests[1]);
    start(fleet);
    struct request apply = { .kind = REQUEST_MODEL_APPLY, .model = "m" };
    apply.body.apply = options->policy;
    ask(fleet, &apply);
    for (uint32_t i = 0; i < fleet->groups_count; i++) {
        make_group(fleet, i);
    }
    for (uint32_t i = 0; i < options->agents; i++) {
        hello(fleet, i);
    }
    core_fleet_roll(fleet);
    return fleet;
}

void core_fleet_free(struct core_fleet *fleet)
{
    (void)munmap(fleet->memory, fleet->memory_bytes);
    free(fleet->queue);
    free(fleet->groups);
    free(fleet);
}
