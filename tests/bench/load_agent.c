/* load_agent.c -- what a played agent does; see load_agent.h. */
#include "tests/bench/load_agent.h"

#include <stdio.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/base/status.h"
#include "api/wire/wire.h"

enum { BACKOFF_FIRST_MS = 200, BACKOFF_MAX_MS = 5000, SWAP_STEPS = 3 }; /* As agent/shell/link.c. */

#define STATE(name) BATON__V1__GROUP_STATE__GROUP_STATE_##name

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void note_due(struct load_agent *agent)
{
    uint64_t session = least(agent->open_ns, agent->report_ns);
    atomic_store(&agent->due_ns, least(session, agent->step_ns));
}

static void send_up(struct load_agent *agent, void *message)
{
    if (agent->stream != NULL) {
        struct baton_status st = rpc_stream_send(agent->stream, message);
        (void)st; /* What ends the stream, its end tells. */
    }
    baton_wire_free(message);
}

static void report(struct load_agent *agent, bool group)
{
    if (agent->welcomed) {
        send_up(agent, load_message_report(agent, group));
        agent->report_ns = baton_clock_monotonic_ns() + agent->lease_ns / 3;
    }
}

static void change(struct load_agent *agent, Baton__V1__GroupState state)
{
    agent->state = state;
    if (state == STATE(SERVING)) {
        atomic_store(&agent->serving_seq, agent->committed.seq);
    } else if (state != STATE(STAGING) && state != STATE(STAGED)) {
        atomic_store(&agent->serving_seq, 0);
    }
    if (state == STATE(STAGED)) {
        atomic_store(&agent->times.staged_ns, baton_clock_monotonic_ns());
    }
    report(agent, true);
}

/* --- down --- */

static void take_version(const Baton__V1__VersionGoal *goal, struct load_version *out)
{
    *out = (struct load_version){ .seq = 0 };
    if (goal != NULL) {
        out->seq = goal->seq;
        out->bytes = goal->bytes;
        (void)snprintf(out->digest, sizeof(out->digest), "%s", goal->digest);
    }
}

static void land(struct load_agent *agent, const struct load_version *version)
{
    uint64_t wait_ns = (uint64_t)agent->shape->land_ms * BATON_NS_PER_MS;
    agent->landed = *version;
    agent->step_ns = baton_clock_monotonic_ns() + baton_random_below(&agent->random, wait_ns + 1);
}

/* Begins what the goals ask for, if the group is free for it. */
static void follow_goals(struct load_agent *agent)
{
    bool joins = agent->state == STATE(JOINING);
    bool serves = agent->state == STATE(SERVING) || agent->state == STATE(STAGING) ||
                  agent->state == STATE(STAGED);
    if (joins && agent->target.seq != 0 && agent->landed.seq != agent->target.seq) {
        land(agent, &agent->target);
    } else if (serves && agent->stage.seq != 0 && agent->stage.seq != agent->landed.seq &&
               agent->stage.seq != agent->committed.seq) {
        land(agent, &agent->stage);
        change(agent, STATE(STAGING));
    }
}

static void take_goals(struct load_agent *agent, const Baton__V1__Goals *goals)
{
    uint64_t before = agent->stage.seq;
    agent->epoch = *goals->epoch;
    for (size_t i = 0; i < goals->n_groups; i++) {
        const Baton__V1__GroupGoal *goal = goals->groups[i];
        if (strcmp(goal->group, agent->group) == 0) {
            take_version(goal->target, &agent->target);
            take_version(goal->stage, &agent->stage);
            agent->owner_term = goal->owner_term;
        }
    }
    if (agent->stage.seq > before) {
        atomic_store(&agent->times.staged_ns, 0);
        atomic_store(&agent->times.ticket_ns, 0);
        atomic_store(&agent->times.goal_ns, baton_clock_monotonic_ns());
    }
    send_up(agent, load_message_ack(goals->revision));
    follow_goals(agent);
}

static void take_ticket(struct load_agent *agent, const Baton__V1__Ticket *ticket)
{
    if (strcmp(ticket->uid, agent->ticket_uid) == 0) {
        report(agent, true); /* A known one; its outcome goes along once there is one. */
        return;
    }
    atomic_store(&agent->times.ticket_ns, baton_clock_monotonic_ns());
    (void)snprintf(agent->ticket_uid, sizeof(agent->ticket_uid), "%s", ticket->uid);
    agent->ticket_number = ticket->number;
    agent->ticket_from = ticket->from_seq;
    agent->ticket_epoch = *ticket->epoch;
    agent->ticket_to = (struct load_version){ .seq = ticket->to_seq, .bytes = agent->landed.bytes };
    (void)snprintf(agent->ticket_to.digest, sizeof(agent->ticket_to.digest), "%s",
                   ticket->to_digest);
    agent->step_ns =
        baton_clock_monotonic_ns() + (uint64_t)agent->shape->swap_ms * BATON_NS_PER_MS / SWAP_STEPS;
    change(agent, ticket->rejoin ? STATE(APPLYING) : STATE(PAUSING));
}

static void take(struct load_agent *agent, const Baton__V1__SessionResponse *response)
{
    switch (response->message_case) {
    case BATON__V1__SESSION_RESPONSE__MESSAGE_WELCOME:
        agent->welcomed = true;
        agent->lease_ns = response->welcome->lease_ms * BATON_NS_PER_MS;
        agent->epoch = *response->welcome->epoch;
        atomic_fetch_add(&agent->welcomes, 1);
        baton_backoff_reset(&agent->backoff);
        report(agent, false);
        break;
    case BATON__V1__SESSION_RESPONSE__MESSAGE_GOALS: take_goals(agent, response->goals); break;
    case BATON__V1__SESSION_RESPONSE__MESSAGE_TICKET: take_ticket(agent, response->ticket); break;
    case BATON__V1__SESSION_RESPONSE__MESSAGE_OUTCOME_STORED:
        agent->outcome_due = agent->outcome_due &&
                             strcmp(response->outcome_stored->ticket_uid, agent->ticket_uid) != 0;
        break;
    case BATON__V1__SESSION_RESPONSE__MESSAGE_REVOKE: /* A ticket's swap begins at once: too late. */
    case BATON__V1__SESSION_RESPONSE__MESSAGE_BARRIER:     /* No model here has one. */
    case BATON__V1__SESSION_RESPONSE__MESSAGE_PEER_ACCESS: /* It serves no peers. */
    case BATON__V1__SESSION_RESPONSE__MESSAGE__NOT_SET:
    case _BATON__V1__SESSION_RESPONSE__MESSAGE__CASE_IS_INT_SIZE: break;
    }
}

static void on_message(struct rpc_stream *stream, void *message, void *context)
{
    struct load_agent *agent = context;
    (void)pthread_mutex_lock(&agent->mutex);
    if (agent->stream == stream) {
        take(agent, message);
        note_due(agent);
    }
    (void)pthread_mutex_unlock(&agent->mutex);
    baton_wire_free(message);
    rpc_stream_read_next(stream);
}

static void on_end(struct rpc_stream *stream, const struct baton_status *status, void *context)
{
    struct load_agent *agent = context;
    (void)status;
    (void)pthread_mutex_lock(&agent->mutex);
    agent->stream = NULL;
    agent->welcomed = false;
    agent->report_ns = UINT64_MAX;
    agent->open_ns =
        atomic_load(&agent->stopping)
            ? UINT64_MAX
            : baton_clock_monotonic_ns() + baton_backoff_next_ns(&agent->backoff, &agent->random);
    note_due(agent);
    (void)pthread_mutex_unlock(&agent->mutex);
    rpc_stream_unref(stream);
}

/* --- by itself --- */

static void open_session(struct load_agent *agent)
{
    static const struct rpc_stream_events events = { NULL, on_message, NULL, on_end };
    struct rpc_call_options options = { .wait_for_ready = true };
    agent->open_ns = UINT64_MAX;
    agent->stream = rpc_stream_open(agent->client, "baton.v1.AgentSession/Session", NULL, &options,
                                    &events, agent);
    send_up(agent, load_message_hello(agent));
}

static void commit(struct load_agent *agent)
{
    agent->committed = agent->ticket_to;
    agent->landed = (struct load_version){ .seq = 0 };
    agent->outcome_due = true;
    agent->step_ns = UINT64_MAX;
    change(agent, STATE(SERVING));
    follow_goals(agent);
}

/* The group's next state on its way. */
static void step(struct load_agent *agent, uint64_t now_ns)
{
    agent->step_ns = now_ns + (uint64_t)agent->shape->swap_ms * BATON_NS_PER_MS / SWAP_STEPS;
    if (agent->state == STATE(JOINING)) {
        agent->step_ns = UINT64_MAX;
        report(agent, true); /* Landed: the rejoin ticket may come. */
    } else if (agent->state == STATE(STAGING)) {
        agent->step_ns = UINT64_MAX;
        change(agent, STATE(STAGED));
    } else if (agent->state == STATE(PAUSING)) {
        change(agent, STATE(APPLYING));
    } else if (agent->state == STATE(APPLYING)) {
        change(agent, STATE(RESUMING));
    } else {
        commit(agent);
    }
}

void load_agent_tick(struct load_agent *agent, uint64_t now_ns)
{
    if (now_ns < atomic_load_explicit(&agent->due_ns, memory_order_relaxed)) {
        return;
    }
    (void)pthread_mutex_lock(&agent->mutex);
    if (now_ns >= agent->open_ns) {
        open_session(agent);
    }
    if (now_ns >= agent->step_ns) {
        step(agent, now_ns);
    }
    if (now_ns >= agent->report_ns) {
        report(agent, false);
    }
    note_due(agent);
    (void)pthread_mutex_unlock(&agent->mutex);
}

void load_agent_init(struct load_agent *agent, const struct load_shape *shape,
                     struct rpc_client *client, uint32_t place)
{
    memset(agent, 0, sizeof(*agent));
    agent->shape = shape;
    agent->client = client;
    (void)snprintf(agent->name, sizeof(agent->name), "node-%05u", place);
    (void)snprintf(agent->group, sizeof(agent->group), "g-%05u", place);
    (void)pthread_mutex_init(&agent->mutex, NULL);
    baton_random_seed(&agent->random, place);
    agent->backoff =
        baton_backoff_of(BACKOFF_FIRST_MS * BATON_NS_PER_MS, BACKOFF_MAX_MS * BATON_NS_PER_MS);
    baton__v1__epoch__init(&agent->epoch);
    baton__v1__epoch__init(&agent->ticket_epoch);
    agent->state = STATE(JOINING);
    agent->report_ns = UINT64_MAX;
    agent->step_ns = UINT64_MAX;
}

void load_agent_deinit(struct load_agent *agent)
{
    (void)pthread_mutex_destroy(&agent->mutex);
}
