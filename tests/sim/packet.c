/* packet.c -- the translation between the cores; see packet.h. */
#include "tests/sim/packet.h"

#include <stdlib.h>
#include <string.h>

#include "api/base/bytes.h"

static void *take(struct packet *packet, size_t count, size_t size)
{
    void *block = calloc(count > 0 ? count : 1, size);
    bool room = packet->blocks_count < sizeof(packet->blocks) / sizeof(packet->blocks[0]);
    baton_assert(block != NULL && room);
    packet->blocks[packet->blocks_count++] = block;
    return block;
}

static struct packet *new_packet(bool is_up)
{
    struct packet *packet = calloc(1, sizeof(*packet));
    baton_assert(packet != NULL);
    packet->is_up = is_up;
    return packet;
}

void packet_free(struct packet *packet)
{
    for (uint32_t i = 0; packet != NULL && i < packet->blocks_count; i++) {
        free(packet->blocks[i]);
    }
    free(packet);
}

static const char *keep(struct packet *packet, const char *text)
{
    size_t size = strlen(text) + 1;
    return memcpy(take(packet, size, 1), text, size);
}

/* Texts that do not fit are cut, as the controller's shell does with messages for people. */
static void copy(char *out, size_t out_bytes, const char *text)
{
    size_t size = strnlen(text, out_bytes - 1);
    memcpy(out, text, size);
    out[size] = '\0';
}
#define COPY(member, text) copy((member), sizeof(member), (text))

/* --- up --- */

static void engine_up(const struct agent_engine_report *from, struct engine_info *out)
{
    static const char *const ways[] = { "none", "plugin", "reload" };
    COPY(out->name, from->config->name);
    COPY(out->kind, from->config->kind);
    COPY(out->endpoint, from->config->endpoint);
    COPY(out->software, from->facts->software);
    COPY(out->way_in, ways[from->facts->way_in]);
    COPY(out->way_in_reason, from->facts->way_in_reason);
    COPY(out->incarnation, from->facts->incarnation);
    COPY(out->label, from->label);
    COPY(out->gate, from->gate);
    COPY(out->agent, from->agent != NULL ? from->agent : "");
    COPY(out->recreate, from->config->recreate == AGENT_RECREATE_EXEC ? "exec" : "none");
    out->world_size = from->facts->world_size;
    out->recreates = from->recreates;
    out->reachable = from->reachable;
}

static void group_up(struct packet *packet, const struct agent_group_report *from,
                     struct group_report *out)
{
    struct engine_info *engines = take(packet, from->engines_count, sizeof(*engines));
    COPY(out->group, from->group);
    COPY(out->live_reason, from->live_reason);
    out->can_swap_live = from->can_swap_live;
    COPY(out->model, from->model);
    COPY(out->message, from->message);
    COPY(out->committed_digest, from->committed.digest);
    COPY(out->ticket_uid, from->ticket_uid);
    COPY(out->blocked, from->blocked);
    out->state = (enum group_state)from->state;
    out->committed_seq = from->committed.seq;
    out->staging_seq = from->staging_seq;
    out->staged_bytes = from->staged_bytes;
    out->gate_open = from->gate_open;
    out->verify_level = (enum verify_level)from->level;
    out->highest_ticket = from->highest_ticket;
    out->owner_term = from->owner_term;
    out->can_restore = from->can_restore;
    out->advisory = from->advisory;
    out->barrier = (enum barrier_stand)from->barrier;
    for (uint32_t i = 0; i < from->members_count; i++) {
        COPY(out->members[i], from->members[i].agent);
    }
    out->engines_count = from->engines_count;
    out->engines = engines;
    for (uint32_t i = 0; i < from->engines_count; i++) {
        engine_up(&from->engines[i], &engines[i]);
    }
}

static const struct group_report *groups_up(struct packet *packet,
                                            const struct agent_group_report *from, uint32_t count)
{
    struct group_report *groups = take(packet, count, sizeof(*groups));
    for (uint32_t i = 0; i < count; i++) {
        group_up(packet, &from[i], &groups[i]);
    }
    return groups;
}

struct packet *packet_of_hello(const struct agent_hello *hello)
{
    struct packet *packet = new_packet(true);
    struct session_hello *out = &packet->up.body.hello;
    struct seq_floor *floors = take(packet, hello->seq_floors_count, sizeof(*floors));
    packet->up.kind = EVENT_SESSION_HELLO;
    out->agent = keep(packet, hello->agent);
    out->protocol = CONTROLLER_PROTOCOL;
    out->software = keep(packet, hello->software);
    out->journal_incarnation = keep(packet, hello->journal_incarnation);
    out->highest_epoch = (struct epoch){ hello->highest_epoch.generation, hello->highest_epoch.n };
    out->address = keep(packet, hello->address);
    out->peer_address = keep(packet, hello->peer_address);
    out->peer_zone = keep(packet, hello->peer_zone);
    out->landing_budget_bytes = hello->landing_budget_bytes;
    out->groups = groups_up(packet, hello->groups, hello->groups_count);
    out->groups_count = hello->groups_count;
    out->floors = floors;
    out->floors_count = hello->seq_floors_count;
    const char **follows = take(packet, hello->follows_count, sizeof(*follows));
    out->follows = follows;
    out->follows_count = hello->follows_count;
    for (uint32_t i = 0; i < hello->follows_count; i++) {
        follows[i] = keep(packet, hello->follows[i]);
    }
    for (uint32_t i = 0; i < hello->seq_floors_count; i++) {
        COPY(floors[i].model, hello->seq_floors[i].model);
        COPY(floors[i].digest, hello->seq_floors[i].version.digest);
        floors[i].seq = hello->seq_floors[i].version.seq;
    }
    return packet;
}

static void phases_up(const struct agent_phases *from, struct swap_phases *out)
{
    *out = (struct swap_phases){ .queue_ns = from->queue_ns,
                                 .stage_ns = from->stage_ns,
                                 .pause_ns = from->pause_ns,
                                 .apply_ns = from->apply_ns,
                                 .finalize_ns = from->finalize_ns,
                                 .verify_ns = from->verify_ns,
                                 .invalidate_ns = from->invalidate_ns,
                                 .commit_ns = from->commit_ns,
                                 .label_ns = from->label_ns,
                                 .probe_ns = from->probe_ns,
                                 .open_ns = from->open_ns,
                                 .shut_ns = from->shut_ns,
                                 .engine_ns = from->engine_ns,
                                 .journal_ns = from->journal_ns };
}

static void outcome_up(const struct agent_outcome_report *from, struct ticket_outcome *out)
{
    const struct agent_swap_record *record = from->record;
    COPY(out->group, from->group);
    COPY(out->committed_digest, record->committed.digest);
    out->epoch = (struct epoch){ record->epoch.generation, record->epoch.n };
    out->committed_seq = record->committed.seq;
    COPY(out->record.ticket_uid, record->ticket_uid);
    COPY(out->record.message, record->message);
    COPY(out->record.probe_text, record->probe_text);
    out->record.ticket_number = record->ticket_number;
    out->record.from_seq = record->from.seq;
    out->record.to_seq = record->to.seq;
    out->record.outcome = (enum swap_outcome)record->outcome;
    out->record.bytes = record->bytes;
    out->record.verify_level = (enum verify_level)record->level;
    out->record.ended_wall_ns = record->ended_wall_ns;
    out->record.requests_held = record->requests_held;
    out->record.probe_logprob = record->probe_logprob;
    out->record.references = record->references;
    out->record.references_missed = record->references_missed;
    out->record.reference_away = record->reference_away;
    COPY(out->record.reference_message, record->reference_message);
    phases_up(&record->phases, &out->record.phases);
    out->record.router_not_drained = record->router_not_drained;
    out->record.phases.barrier_ns = record->barrier_ns;
}

static void landed_up(struct packet *packet, const struct agent_report *report,
                      struct session_report *out)
{
    char(*texts)[BATON_DIGEST_TEXT_BYTES] =
        take(packet, report->landed_digests_count, sizeof(*texts));
    const char **digests = take(packet, report->landed_digests_count, sizeof(*digests));
    for (uint32_t i = 0; i < report->landed_digests_count; i++) {
        COPY(texts[i], report->landed_digests[i]);
        digests[i] = texts[i];
    }
    out->landing_told = true;
    out->landed_digests = digests;
    out->landed_count = report->landed_digests_count;
    out->landing_used_bytes = report->landing_used_bytes;
}

static void events_up(struct packet *packet, const struct agent_report *report,
                      struct session_report *out)
{
    struct agent_log_event *kept = take(packet, report->events_count, sizeof(*kept));
    struct told_agent_event *events = take(packet, report->events_count, sizeof(*events));
    for (uint32_t i = 0; i < report->events_count; i++) {
        kept[i] = report->events[i];
        events[i] = (struct told_agent_event){ kept[i].object, kept[i].warning, kept[i].reason,
                                               kept[i].message };
    }
    out->events = events;
    out->events_count = report->events_count;
}

struct packet *packet_of_report(const struct agent_report *report)
{
    struct packet *packet = new_packet(true);
    struct session_report *out = &packet->up.body.report;
    struct ticket_outcome *outcomes = take(packet, report->outcomes_count, sizeof(*outcomes));
    packet->up.kind = EVENT_SESSION_REPORT;
    out->groups = groups_up(packet, report->groups, report->groups_count);
    out->groups_count = report->groups_count;
    for (uint32_t i = 0; i < report->outcomes_count; i++) {
        outcome_up(&report->outcomes[i], &outcomes[i]);
    }
    out->outcomes = outcomes;
    out->outcomes_count = report->outcomes_count;
    landed_up(packet, report, out);
    events_up(packet, report, out);
    return packet;
}

struct packet *packet_of_ack(uint64_t revision, const char *refusal)
{
    struct packet *packet = new_packet(true);
    packet->up.kind = EVENT_SESSION_ACK;
    packet->up.body.ack.revision = revision;
    packet->up.body.ack.refused = refusal != NULL;
    packet->up.body.ack.message = keep(packet, refusal != NULL ? refusal : "");
    return packet;
}

/* --- down --- */

static struct agent_epoch epoch_down(struct epoch epoch)
{
    return (struct agent_epoch){ epoch.generation, epoch.n };
}

static void holders_down(struct packet *packet, const struct holders *from,
                         struct agent_version_goal *out)
{
    struct agent_holder *holders = take(packet, from->count, sizeof(*holders));
    out->holders = holders;
    out->holders_count = from->count;
    for (uint32_t i = 0; i < from->count; i++) {
        COPY(holders[i].agent, from->items[i].agent);
        COPY(holders[i].address, from->items[i].address);
        holders[i].last = from->items[i].last;
    }
}

static void version_down(struct packet *packet, const struct version_record *from,
                         const struct holders *holders, struct agent_version_goal *out)
{
    if (from == NULL) {
        return;
    }
    struct agent_source *sources = take(packet, from->sources_count, sizeof(*sources));
    out->version.seq = from->seq;
    COPY(out->version.digest, from->digest);
    COPY(out->uid, from->uid);
    out->bytes = from->bytes;
    out->sources = sources;
    out->sources_count = from->sources_count;
    holders_down(packet, holders, out);
    for (uint32_t i = 0; i < from->sources_count; i++) {
        COPY(sources[i].backend, from->sources[i].backend);
        COPY(sources[i].location, from->sources[i].location);
        COPY(sources[i].agent, from->sources[i].agent);
    }
}

static void goals_down(struct packet *packet, const struct goals *from)
{
    struct agent_goals *out = take(packet, 1, sizeof(*out));
    struct agent_group_goal *groups = take(packet, from->groups_count, sizeof(*groups));
    char(*droppable)[BATON_DIGEST_TEXT_BYTES] =
        take(packet, from->droppable_count, sizeof(*droppable));
    for (size_t i = 0; i < from->groups_count; i++) {
        COPY(groups[i].group, from->groups[i].group);
        groups[i].owner_term = from->groups[i].owner_term;
        groups[i].drain = from->groups[i].drain;
        groups[i].sleep = from->groups[i].sleep;
        groups[i].sleep_drain_ns = from->groups[i].sleep_drain_ms * MS;
        const struct group_goal *goal = &from->groups[i];
        version_down(packet, goal->target, &goal->target_holders, &groups[i].target);
        version_down(packet, goal->stage, &goal->stage_holders, &groups[i].stage);
        version_down(packet, goal->restore, &goal->restore_holders, &groups[i].restore);
    }
    if (from->droppable_count > 0) {
        memcpy(droppable, from->droppable, from->droppable_count * sizeof(*droppable));
    }
    struct agent_version_goal *follows = take(packet, from->follows_count, sizeof(*follows));
    for (size_t i = 0; i < from->follows_count; i++) {
        follows[i].version.seq = from->follows[i].version->seq;
        COPY(follows[i].version.digest, from->follows[i].version->digest);
        holders_down(packet, &from->follows[i].holders, &follows[i]);
    }
    *out = (struct agent_goals){ from->revision,
                                 epoch_down(from->epoch),
                                 groups,
                                 (uint32_t)from->groups_count,
                                 (const char(*)[BATON_DIGEST_TEXT_BYTES])droppable,
                                 (uint32_t)from->droppable_count,
                                 follows,
                                 (uint32_t)from->follows_count };
    packet->down.kind = AGENT_EVENT_GOALS;
    packet->down.goals = out;
}

static void ticket_down(struct packet *packet, const struct ticket_send *send)
{
    const struct ticket_record *from = send->ticket;
    struct agent_ticket *out = take(packet, 1, sizeof(*out));
    COPY(out->uid, from->uid);
    COPY(out->group, send->group);
    COPY(out->from.digest, from->from_digest);
    COPY(out->to.digest, from->to_digest);
    out->number = from->number;
    out->epoch = epoch_down(from->epoch);
    out->owner_term = from->owner_term;
    out->from.seq = from->from_seq;
    out->to.seq = from->to_seq;
    out->rejoin = from->rejoin;
    out->barrier = from->barrier;
    out->resolve = from->resolve;
    out->policy = (struct agent_policy){
        .in_flight = (enum agent_in_flight)(from->policy.in_flight - POLICY_IN_FLIGHT_KEEP),
        .arrivals = (enum agent_arrivals)(from->policy.arrivals - POLICY_ARRIVALS_HOLD),
        .swap_deadline_ns = from->policy.swap_deadline_ms * MS,
        .drain_deadline_ns = from->policy.drain_deadline_ms * MS,
        .allow_recreate = from->policy.allow_recreate,
        .drain_expiry =
            (enum agent_drain_expiry)(from->policy.drain_expiry - POLICY_DRAIN_EXPIRY_GIVE_UP),
        .kv = (enum agent_kv)(from->policy.kv - POLICY_KV_FLUSH),
        .barrier_deadline_ns = from->policy.barrier_deadline_ms * MS,
        .live = from->policy.mode == POLICY_MODE_LIVE
    };
    out->policy.hooks_count = from->policy.hooks_count;
    for (uint32_t i = 0; i < from->policy.hooks_count; i++) {
        const struct hook_policy *hook = &from->policy.hooks[i];
        out->policy.hooks[i].when = (enum agent_hook_when)(hook->when - POLICY_HOOK_BEFORE_PAUSE);
        out->policy.hooks[i].deadline_ns = hook->deadline_ms * MS;
        COPY(out->policy.hooks[i].url, hook->url);
    }
    packet->down.kind = AGENT_EVENT_TICKET;
    packet->down.ticket = out;
}

static void welcome_down(struct packet *packet, const struct welcome *from)
{
    struct agent_group_floor *floors = take(packet, from->floors_count, sizeof(*floors));
    for (size_t i = 0; i < from->floors_count; i++) {
        COPY(floors[i].group, from->floors[i].group);
        floors[i].ticket_number = from->floors[i].ticket_number;
        floors[i].owner_term = from->floors[i].owner_term;
    }
    packet->down.kind = AGENT_EVENT_WELCOME;
    packet->down.welcome.epoch = epoch_down(from->epoch);
    packet->down.welcome.lease_ns = from->lease_ms * MS;
    packet->down.welcome.floors = floors;
    packet->down.welcome.floors_count = (uint32_t)from->floors_count;
}

struct packet *packet_of_send(const struct action_send *send)
{
    struct packet *packet = new_packet(false);
    switch (send->kind) {
    case SEND_WELCOME: welcome_down(packet, &send->message.welcome); break;
    case SEND_GOALS: goals_down(packet, &send->message.goals); break;
    case SEND_TICKET: ticket_down(packet, &send->message.ticket); break;
    case SEND_REVOKE:
        packet->down.kind = AGENT_EVENT_REVOKE;
        packet->down.revoke.group = keep(packet, send->message.revoke.group);
        packet->down.revoke.ticket_uid = keep(packet, send->message.revoke.ticket_uid);
        packet->down.revoke.epoch = epoch_down(send->message.revoke.epoch);
        break;
    case SEND_OUTCOME_STORED:
        packet->down.kind = AGENT_EVENT_OUTCOME_STORED;
        packet->down.outcome_stored.group = keep(packet, send->message.stored.group);
        packet->down.outcome_stored.ticket_uid = keep(packet, send->message.stored.ticket_uid);
        break;
    case SEND_BARRIER:
        packet->down.kind = AGENT_EVENT_BARRIER;
        packet->down.barrier.group = keep(packet, send->message.barrier.group);
        packet->down.barrier.ticket_uid = keep(packet, send->message.barrier.ticket_uid);
        packet->down.barrier.epoch = epoch_down(send->message.barrier.epoch);
        packet->down.barrier.word = (enum agent_barrier_word)send->message.barrier.word;
        break;
    }
    return packet;
}

struct packet *packet_of_close(void)
{
    struct packet *packet = new_packet(false);
    packet->is_close = true;
    return packet;
}

const char *packet_name(const struct packet *packet)
{
    if (packet->is_close) {
        return "end of session";
    }
    if (packet->is_up) {
        return packet->up.kind == EVENT_SESSION_HELLO    ? "HELLO"
               : packet->up.kind == EVENT_SESSION_REPORT ? "REPORT"
                                                         : "ACK";
    }
    return packet->down.kind == AGENT_EVENT_WELCOME   ? "WELCOME"
           : packet->down.kind == AGENT_EVENT_GOALS   ? "GOALS"
           : packet->down.kind == AGENT_EVENT_TICKET  ? "TICKET"
           : packet->down.kind == AGENT_EVENT_REVOKE  ? "REVOKE"
           : packet->down.kind == AGENT_EVENT_BARRIER ? "BARRIER"
                                                      : "OUTCOME_STORED";
}
