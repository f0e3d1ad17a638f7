/* link_send.c -- the core's reports as messages; see link_message.h. */
#include "agent/shell/link_message.h"

#include "agent/shell/exchange.h"
#include "api/base/clock.h"
#include "api/wire/wire.h"
#include "baton/v1/agent_session.pb-c.h"

static Baton__V1__Epoch *epoch_message(struct agent_epoch epoch, void *root)
{
    Baton__V1__Epoch *message = baton_wire_part(root, &baton__v1__epoch__descriptor);
    message->generation = epoch.generation;
    message->n = epoch.n;
    return message;
}

static const char *way_in_name(enum agent_way_in way)
{
    switch (way) {
    case AGENT_WAY_IN_NONE: return "none";
    case AGENT_WAY_IN_PLUGIN: return "plugin";
    case AGENT_WAY_IN_RELOAD: return "reload";
    }
    return "";
}

void *link_engine_message(const char *group, const struct agent_engine_report *engine, void *root)
{
    Baton__V1__Engine *message = baton_wire_part(root, &baton__v1__engine__descriptor);
    const struct agent_engine_facts *facts = engine->facts;
    message->name = baton_wire_text(root, engine->config->name);
    message->group = baton_wire_text(root, group);
    message->agent = baton_wire_text(root, engine->agent != NULL ? engine->agent : "");
    message->kind = baton_wire_text(root, engine->config->kind);
    message->endpoint =
        baton_wire_textf(root, "%.*s", BATON_TEXT_BYTES - 1, engine->config->endpoint);
    message->software = baton_wire_text(root, facts->software);
    message->world_size = facts->world_size;
    message->way_in = baton_wire_text(root, way_in_name(facts->way_in));
    message->way_in_reason = baton_wire_text(root, facts->way_in_reason);
    message->incarnation = baton_wire_text(root, facts->incarnation);
    message->label = baton_wire_text(root, engine->label);
    message->gate = baton_wire_text(root, engine->gate);
    message->owner_term = engine->owner_term;
    message->recreate =
        baton_wire_text(root, engine->config->recreate == AGENT_RECREATE_EXEC ? "exec" : "none");
    message->recreates = engine->recreates;
    message->reachable = engine->reachable;
    return message;
}

static void add_hooks(const struct agent_policy *policy, Baton__V1__SwapPolicy *message, void *root)
{
    static const char *const when[] = { "beforePause", "afterProbe" };
    message->n_hooks = policy->hooks_count;
    message->hooks = baton_wire_take(root, policy->hooks_count, sizeof(*message->hooks));
    for (uint32_t i = 0; i < policy->hooks_count; i++) {
        const struct agent_hook *hook = &policy->hooks[i];
        Baton__V1__RouterHook *part = baton_wire_part(root, &baton__v1__router_hook__descriptor);
        part->when = baton_wire_text(root, when[hook->when]);
        part->url = baton_wire_text(root, hook->url);
        part->deadline = baton_wire_duration(root, hook->deadline_ns);
        message->hooks[i] = part;
    }
}

/* All of it: a follower knows the policy from its leader's ticket only. */
static Baton__V1__SwapPolicy *policy_message(const struct agent_policy *policy, void *root)
{
    static const char *const in_flight[] = { "keep", "wait", "abort" };
    static const char *const arrivals[] = { "hold", "refuse" };
    static const char *const kv[] = { "flush", "salt", "keep" };
    static const char *const drain_expiry[] = { "giveUp", "abort", "keep" };
    Baton__V1__SwapPolicy *message = baton_wire_part(root, &baton__v1__swap_policy__descriptor);
    message->in_flight = baton_wire_text(root, in_flight[policy->in_flight]);
    message->arrivals = baton_wire_text(root, arrivals[policy->arrivals]);
    message->kv = baton_wire_text(root, kv[policy->kv]);
    message->drain_expiry = baton_wire_text(root, drain_expiry[policy->drain_expiry]);
    message->swap_deadline_ms = policy->swap_deadline_ns / BATON_NS_PER_MS;
    message->drain_deadline_ms = policy->drain_deadline_ns / BATON_NS_PER_MS;
    message->barrier_deadline_ms = policy->barrier_deadline_ns / BATON_NS_PER_MS;
    message->allow_recreate = policy->allow_recreate;
    message->mode = baton_wire_text(root, policy->live ? "live" : "pause");
    add_hooks(policy, message, root);
    return message;
}

void *link_ticket_message(const struct agent_ticket *ticket, void *root)
{
    Baton__V1__Ticket *message = baton_wire_part(root, &baton__v1__ticket__descriptor);
    message->uid = baton_wire_text(root, ticket->uid);
    message->number = ticket->number;
    message->epoch = epoch_message(ticket->epoch, root);
    message->owner_term = ticket->owner_term;
    message->group = baton_wire_text(root, ticket->group);
    message->from_seq = ticket->from.seq;
    message->from_digest = baton_wire_text(root, ticket->from.digest);
    message->to_seq = ticket->to.seq;
    message->to_digest = baton_wire_text(root, ticket->to.digest);
    message->policy = policy_message(&ticket->policy, root);
    message->rejoin = ticket->rejoin;
    message->resolve = ticket->resolve;
    message->barrier = ticket->barrier;
    return message;
}

void *link_goal_message(const struct agent_version_goal *goal, void *root)
{
    Baton__V1__VersionGoal *message = baton_wire_part(root, &baton__v1__version_goal__descriptor);
    message->seq = goal->version.seq;
    message->digest = baton_wire_text(root, goal->version.digest);
    message->uid = baton_wire_text(root, goal->uid);
    message->bytes = goal->bytes;
    message->n_sources = goal->sources_count;
    message->sources = baton_wire_take(root, goal->sources_count, sizeof(*message->sources));
    for (uint32_t i = 0; i < goal->sources_count; i++) {
        Baton__V1__Source *source = baton_wire_part(root, &baton__v1__source__descriptor);
        source->backend = baton_wire_text(root, goal->sources[i].backend);
        source->location = baton_wire_text(root, goal->sources[i].location);
        source->agent = baton_wire_text(root, goal->sources[i].agent);
        message->sources[i] = source;
    }
    return message;
}

static Baton__V1__GroupReport *group_message(const struct agent_group_report *group, void *root)
{
    Baton__V1__GroupReport *message = baton_wire_part(root, &baton__v1__group_report__descriptor);
    message->group = baton_wire_text(root, group->group);
    message->model = baton_wire_text(root, group->model);
    message->state = (Baton__V1__GroupState)group->state;
    message->message = baton_wire_text(root, group->message);
    message->committed_seq = group->committed.seq;
    message->committed_digest = baton_wire_text(root, group->committed.digest);
    message->staging_seq = group->staging_seq;
    message->staged_bytes = group->staged_bytes;
    message->gate_open = group->gate_open;
    message->verify_level = (Baton__V1__VerifyLevel)group->level;
    message->ticket_uid = baton_wire_text(root, group->ticket_uid);
    message->highest_ticket = group->highest_ticket;
    message->owner_term = group->owner_term;
    message->blocked = baton_wire_text(root, group->blocked);
    message->can_restore = group->can_restore;
    message->advisory = group->advisory;
    message->can_swap_live = group->can_swap_live;
    message->live_reason = baton_wire_text(root, group->live_reason);
    message->barrier = (Baton__V1__BarrierStand)group->barrier;
    message->committed_version =
        group->committed_goal != NULL ? link_goal_message(group->committed_goal, root) : NULL;
    message->n_members = group->members_count;
    message->members = baton_wire_take(root, group->members_count, sizeof(*message->members));
    for (uint32_t i = 0; i < group->members_count; i++) {
        message->members[i] = baton_wire_text(root, group->members[i].agent);
    }
    message->n_engines = group->engines_count;
    message->engines = baton_wire_take(root, group->engines_count, sizeof(*message->engines));
    for (uint32_t i = 0; i < group->engines_count; i++) {
        message->engines[i] = link_engine_message(group->group, &group->engines[i], root);
    }
    return message;
}

static Baton__V1__GroupReport **groups_message(const struct agent_group_report *groups,
                                               uint32_t count, void *root)
{
    Baton__V1__GroupReport **list = baton_wire_take(root, count, sizeof(*list));
    for (uint32_t i = 0; i < count; i++) {
        list[i] = group_message(&groups[i], root);
    }
    return list;
}

static Baton__V1__SwapPhases *phases_message(const struct agent_phases *phases, void *root)
{
    Baton__V1__SwapPhases *message = baton_wire_part(root, &baton__v1__swap_phases__descriptor);
    message->queue_ns = phases->queue_ns;
    message->stage_ns = phases->stage_ns;
    message->pause_ns = phases->pause_ns;
    message->apply_ns = phases->apply_ns;
    message->finalize_ns = phases->finalize_ns;
    message->verify_ns = phases->verify_ns;
    message->invalidate_ns = phases->invalidate_ns;
    message->commit_ns = phases->commit_ns;
    message->label_ns = phases->label_ns;
    message->probe_ns = phases->probe_ns;
    message->open_ns = phases->open_ns;
    message->shut_ns = phases->shut_ns;
    message->engine_ns = phases->engine_ns;
    message->journal_ns = phases->journal_ns;
    return message;
}

static Baton__V1__SwapRecord *swap_message(const struct agent_swap_record *swap, void *root)
{
    Baton__V1__SwapRecord *message = baton_wire_part(root, &baton__v1__swap_record__descriptor);
    message->ticket_uid = baton_wire_text(root, swap->ticket_uid);
    message->ticket_number = swap->ticket_number;
    message->from_seq = swap->from.seq;
    message->to_seq = swap->to.seq;
    message->outcome = (Baton__V1__SwapOutcome)swap->outcome;
    message->message = baton_wire_text(root, swap->message);
    message->phases = phases_message(&swap->phases, root);
    message->phases->barrier_ns = swap->barrier_ns;
    message->requests_inside = swap->requests_inside;
    message->requests_kept = swap->requests_kept;
    message->requests_aborted = swap->requests_aborted;
    message->drain_expired = swap->drain_expired;
    message->router_not_drained = swap->router_not_drained;
    message->bytes = swap->bytes;
    message->verify_level = (Baton__V1__VerifyLevel)swap->level;
    message->ended_at = baton_wire_timestamp(root, swap->ended_wall_ns);
    message->requests_held = swap->requests_held;
    message->probe_text = baton_wire_text(root, swap->probe_text);
    message->probe_logprob = swap->probe_logprob;
    message->references = swap->references;
    message->references_missed = swap->references_missed;
    message->reference_away = swap->reference_away;
    message->reference_message = baton_wire_text(root, swap->reference_message);
    return message;
}

static Baton__V1__TicketOutcome *outcome_message(const struct agent_outcome_report *outcome,
                                                 void *root)
{
    Baton__V1__TicketOutcome *message =
        baton_wire_part(root, &baton__v1__ticket_outcome__descriptor);
    message->group = baton_wire_text(root, outcome->group);
    message->record = swap_message(outcome->record, root);
    message->epoch = epoch_message(outcome->record->epoch, root);
    message->committed_seq = outcome->record->committed.seq;
    message->committed_digest = baton_wire_text(root, outcome->record->committed.digest);
    return message;
}

static Baton__V1__AgentEvent *event_message(const struct agent_log_event *event, void *root)
{
    Baton__V1__AgentEvent *message = baton_wire_part(root, &baton__v1__agent_event__descriptor);
    message->object = baton_wire_text(root, event->object);
    message->type = baton_wire_text(root, event->warning ? "Warning" : "Normal");
    message->reason = baton_wire_text(root, event->reason);
    message->message = baton_wire_text(root, event->message);
    return message;
}

static Baton__V1__SessionRequest *new_request(void)
{
    return baton_wire_new(&baton__v1__session_request__descriptor);
}

static void fill_floors(const struct agent_hello *hello, Baton__V1__Hello *message, void *root)
{
    message->n_seq_floors = hello->seq_floors_count;
    message->seq_floors =
        baton_wire_take(root, hello->seq_floors_count, sizeof(*message->seq_floors));
    for (uint32_t i = 0; i < hello->seq_floors_count; i++) {
        Baton__V1__SeqFloor *floor = baton_wire_part(root, &baton__v1__seq_floor__descriptor);
        floor->model = baton_wire_text(root, hello->seq_floors[i].model);
        floor->seq = hello->seq_floors[i].version.seq;
        floor->digest = baton_wire_text(root, hello->seq_floors[i].version.digest);
        message->seq_floors[i] = floor;
    }
}

static void fill_follows(const struct agent_hello *hello, Baton__V1__Hello *message, void *root)
{
    message->n_follows = hello->follows_count;
    message->follows = baton_wire_take(root, hello->follows_count, sizeof(*message->follows));
    for (uint32_t i = 0; i < hello->follows_count; i++) {
        message->follows[i] = baton_wire_text(root, hello->follows[i]);
    }
}

void *link_hello(const struct agent_hello *hello)
{
    Baton__V1__SessionRequest *request = new_request();
    Baton__V1__Hello *message = baton_wire_part(request, &baton__v1__hello__descriptor);
    request->message_case = BATON__V1__SESSION_REQUEST__MESSAGE_HELLO;
    request->hello = message;
    message->agent = baton_wire_text(request, hello->agent);
    message->protocol = 1;
    message->software = baton_wire_text(request, hello->software);
    message->journal_incarnation = baton_wire_text(request, hello->journal_incarnation);
    message->highest_epoch = epoch_message(hello->highest_epoch, request);
    message->address = baton_wire_textf(request, "%.*s", BATON_TEXT_BYTES - 1, hello->address);
    message->landing_budget_bytes = hello->landing_budget_bytes;
    message->peer_address = baton_wire_text(request, hello->peer_address);
    message->peer_zone = baton_wire_text(request, hello->peer_zone);
    message->n_groups = hello->groups_count;
    message->groups = groups_message(hello->groups, hello->groups_count, request);
    fill_floors(hello, message, request);
    fill_follows(hello, message, request);
    return request;
}

void *link_ack(uint64_t revision)
{
    Baton__V1__SessionRequest *request = new_request();
    request->message_case = BATON__V1__SESSION_REQUEST__MESSAGE_ACK;
    request->ack = baton_wire_part(request, &baton__v1__ack__descriptor);
    request->ack->revision = revision;
    return request;
}

void *link_peer_trouble(const struct exchange_trouble *trouble)
{
    Baton__V1__SessionRequest *request = new_request();
    Baton__V1__PeerTrouble *message =
        baton_wire_part(request, &baton__v1__peer_trouble__descriptor);
    request->message_case = BATON__V1__SESSION_REQUEST__MESSAGE_PEER_TROUBLE;
    request->peer_trouble = message;
    message->kind = trouble->poisoned ? BATON__V1__PEER_TROUBLE_KIND__PEER_TROUBLE_KIND_POISONED
                                      : BATON__V1__PEER_TROUBLE_KIND__PEER_TROUBLE_KIND_REFUSED;
    message->peer = baton_wire_text(request, trouble->peer);
    message->identity = baton_wire_text(request, trouble->identity);
    message->address = baton_wire_text(request, trouble->address);
    message->digest = baton_wire_text(request, trouble->digest);
    message->message = baton_wire_text(request, trouble->message);
    message->count = trouble->count;
    return request;
}

void *link_nack(uint64_t revision, const char *message)
{
    Baton__V1__SessionRequest *request = new_request();
    request->message_case = BATON__V1__SESSION_REQUEST__MESSAGE_NACK;
    request->nack = baton_wire_part(request, &baton__v1__nack__descriptor);
    request->nack->revision = revision;
    request->nack->message = baton_wire_text(request, message);
    return request;
}

static void fill_landed(const struct agent_report *report, Baton__V1__Report *message, void *root)
{
    message->landing_used_bytes = report->landing_used_bytes;
    message->n_landed_digests = report->landed_digests_count;
    message->landed_digests =
        baton_wire_take(root, report->landed_digests_count, sizeof(*message->landed_digests));
    for (uint32_t i = 0; i < report->landed_digests_count; i++) {
        message->landed_digests[i] = baton_wire_text(root, report->landed_digests[i]);
    }
}

static void fill_outcomes(const struct agent_report *report, uint32_t first,
                          Baton__V1__Report *message, void *root)
{
    uint32_t count = report->outcomes_count - first;
    count = count < LINK_OUTCOMES_MAX ? count : LINK_OUTCOMES_MAX;
    message->n_outcomes = count;
    message->outcomes = baton_wire_take(root, count, sizeof(*message->outcomes));
    for (uint32_t i = 0; i < count; i++) {
        message->outcomes[i] = outcome_message(&report->outcomes[first + i], root);
    }
}

static void fill_rest(const struct agent_report *report, Baton__V1__Report *message, void *root)
{
    message->n_groups = report->groups_count;
    message->groups = groups_message(report->groups, report->groups_count, root);
    message->n_events = report->events_count;
    message->events = baton_wire_take(root, report->events_count, sizeof(*message->events));
    for (uint32_t i = 0; i < report->events_count; i++) {
        message->events[i] = event_message(&report->events[i], root);
    }
    fill_landed(report, message, root);
}

void *link_report(const struct agent_report *report, uint32_t first)
{
    Baton__V1__SessionRequest *request = new_request();
    Baton__V1__Report *message = baton_wire_part(request, &baton__v1__report__descriptor);
    request->message_case = BATON__V1__SESSION_REQUEST__MESSAGE_REPORT;
    request->report = message;
    fill_outcomes(report, first, message, request);
    if (first == 0) {
        fill_rest(report, message, request);
    }
    return request;
}
