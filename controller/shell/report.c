/* report.c -- see report.h. */
#include "controller/shell/report.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/bytes.h"
#include "api/wire/wire.h"
#include "baton/v1/agent_session.pb-c.h"
#include "controller/core/words.h"

struct report_block {
    struct report_block *next;
    max_align_t room[];
};

void report_memory_free(struct report_memory *memory)
{
    while (memory->blocks != NULL) {
        struct report_block *block = memory->blocks;
        memory->blocks = block->next;
        free(block);
    }
}

/* Zeroed room that lives as long as the report.  Callers bound 'count'; one that came from a message without a bound is
 * still below the message's bytes. */
static void *take(struct report_memory *memory, size_t count, size_t size)
{
    struct report_block *block = calloc(1, sizeof(*block) + count * size);
    baton_assert(block != NULL);
    block->next = memory->blocks;
    memory->blocks = block;
    return block->room;
}

static struct baton_status too_long(const char *field, size_t limit)
{
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                             "%s: longer than %zu characters", field, limit - 1);
}

static struct baton_status too_many(const char *field, size_t limit)
{
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT, "%s: more than %zu", field,
                             limit);
}

/* A text to copy, and where to. */
struct text_row {
    const char *field;
    char *out;
    size_t out_bytes;
    const char *text;
};
#define TEXT(field, member, from)                                                                  \
    {                                                                                              \
        (field), (member), sizeof(member), (from)                                                  \
    }

static struct baton_status copy_texts(const struct text_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!baton_text_copy(rows[i].out, rows[i].out_bytes, rows[i].text)) {
            return too_long(rows[i].field, rows[i].out_bytes);
        }
    }
    return baton_status_ok();
}
#define COPY_TEXTS(rows) copy_texts((rows), sizeof(rows) / sizeof((rows)[0]))

/* Messages for people are cut rather than refused, between characters. */
static void copy_message(char *out, size_t out_bytes, const char *text)
{
    size_t size = strnlen(text, out_bytes - 1);
    while (size > 0 && ((unsigned char)text[size] & 0xC0U) == 0x80U) {
        size--;
    }
    memcpy(out, text, size);
    out[size] = '\0';
}

static struct epoch epoch_of(const Baton__V1__Epoch *epoch)
{
    return epoch != NULL ? (struct epoch){ epoch->generation, epoch->n } : (struct epoch){ 0, 0 };
}

/* A level that only a newer agent knows claims nothing here. */
static enum verify_level level_of(int level)
{
    bool known = level >= VERIFY_LEVEL_NONE && level <= VERIFY_LEVEL_RESIDENT;
    return known ? (enum verify_level)level : VERIFY_LEVEL_NONE;
}

static enum barrier_stand stand_of(int stand)
{
    bool known = stand >= BARRIER_STAND_NONE && stand <= BARRIER_STAND_COMMITTED;
    return known ? (enum barrier_stand)stand : BARRIER_STAND_NONE;
}

static struct baton_status engine_from(const Baton__V1__Engine *from, struct engine_info *out)
{
    const struct text_row rows[] = {
        TEXT("engines.name", out->name, from->name),
        TEXT("engines.kind", out->kind, from->kind),
        TEXT("engines.endpoint", out->endpoint, from->endpoint),
        TEXT("engines.software", out->software, from->software),
        TEXT("engines.way_in", out->way_in, from->way_in),
        TEXT("engines.incarnation", out->incarnation, from->incarnation),
        TEXT("engines.gate", out->gate, from->gate),
        TEXT("engines.recreate", out->recreate, from->recreate),
        TEXT("engines.agent", out->agent, from->agent),
    };
    copy_message(out->way_in_reason, sizeof(out->way_in_reason), from->way_in_reason);
    copy_message(out->label, sizeof(out->label), from->label);
    out->world_size = from->world_size;
    out->recreates = from->recreates;
    out->reachable = from->reachable;
    return COPY_TEXTS(rows);
}

static struct baton_status engines_from(const Baton__V1__GroupReport *from,
                                        struct group_report *out, struct report_memory *memory)
{
    if (from->n_engines > BATON_ENGINES_PER_GROUP_MAX) {
        return too_many("groups.engines", BATON_ENGINES_PER_GROUP_MAX);
    }
    struct engine_info *engines = take(memory, from->n_engines, sizeof(*engines));
    out->engines = engines;
    out->engines_count = (uint32_t)from->n_engines;
    for (size_t i = 0; i < from->n_engines; i++) {
        struct baton_status st = engine_from(from->engines[i], &engines[i]);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    return baton_status_ok();
}

static struct baton_status members_from(const Baton__V1__GroupReport *from,
                                        struct group_report *out)
{
    if (from->n_members > BATON_FOLLOWERS_PER_GROUP_MAX) {
        return too_many("groups.members", BATON_FOLLOWERS_PER_GROUP_MAX);
    }
    for (size_t i = 0; i < from->n_members; i++) {
        const struct text_row rows[] = { TEXT("groups.members", out->members[i],
                                              from->members[i]) };
        struct baton_status st = COPY_TEXTS(rows);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    return baton_status_ok();
}

static struct baton_status told_from(const Baton__V1__VersionGoal *from, struct group_report *out,
                                     struct report_memory *memory)
{
    if (from == NULL) {
        return baton_status_ok();
    }
    if (from->n_sources > BATON_SOURCES_PER_VERSION_MAX) {
        return too_many("groups.committed_version.sources", BATON_SOURCES_PER_VERSION_MAX);
    }
    struct version_told *told = take(memory, 1, sizeof(*told));
    const struct text_row rows[] = { TEXT("groups.committed_version.uid", told->uid, from->uid) };
    struct baton_status st = COPY_TEXTS(rows);
    told->bytes = from->bytes;
    told->sources_count = (uint32_t)from->n_sources;
    for (size_t i = 0; baton_ok(&st) && i < from->n_sources; i++) {
        const struct text_row source[] = {
            TEXT("sources.backend", told->sources[i].backend, from->sources[i]->backend),
            TEXT("sources.location", told->sources[i].location, from->sources[i]->location),
            TEXT("sources.agent", told->sources[i].agent, from->sources[i]->agent),
        };
        st = COPY_TEXTS(source);
    }
    out->told = told;
    return st;
}

static struct baton_status group_from(const Baton__V1__GroupReport *from, struct group_report *out,
                                      struct report_memory *memory)
{
    const struct text_row rows[] = {
        TEXT("groups.group", out->group, from->group),
        TEXT("groups.model", out->model, from->model),
        TEXT("groups.committed_digest", out->committed_digest, from->committed_digest),
        TEXT("groups.ticket_uid", out->ticket_uid, from->ticket_uid),
        TEXT("groups.blocked", out->blocked, from->blocked),
    };
    copy_message(out->message, sizeof(out->message), from->message);
    copy_message(out->live_reason, sizeof(out->live_reason), from->live_reason);
    out->can_swap_live = from->can_swap_live;
    out->state = (enum group_state)from->state;
    out->committed_seq = from->committed_seq;
    out->staging_seq = from->staging_seq;
    out->staged_bytes = from->staged_bytes;
    out->gate_open = from->gate_open;
    out->verify_level = level_of((int)from->verify_level);
    out->highest_ticket = from->highest_ticket;
    out->owner_term = from->owner_term;
    out->can_restore = from->can_restore;
    out->advisory = from->advisory;
    out->barrier = stand_of((int)from->barrier);
    if (words_get(&words_group_state, (uint32_t)from->state)[0] == '\0') {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "groups.state: %d is unknown", (int)from->state);
    }
    struct baton_status st = COPY_TEXTS(rows);
    if (baton_ok(&st)) {
        st = told_from(from->committed_version, out, memory);
    }
    if (baton_ok(&st)) {
        st = members_from(from, out);
    }
    return baton_ok(&st) ? engines_from(from, out, memory) : st;
}

static struct baton_status groups_from(Baton__V1__GroupReport *const *from, size_t count,
                                       const struct group_report **out,
                                       struct report_memory *memory)
{
    if (count > BATON_GROUPS_PER_AGENT_MAX) {
        return too_many("groups", BATON_GROUPS_PER_AGENT_MAX);
    }
    struct group_report *groups = take(memory, count, sizeof(*groups));
    *out = groups;
    for (size_t i = 0; i < count; i++) {
        struct baton_status st = group_from(from[i], &groups[i], memory);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    return baton_status_ok();
}

static struct baton_status floors_from(const Baton__V1__Hello *hello, struct session_hello *out,
                                       struct report_memory *memory)
{
    if (hello->n_seq_floors > BATON_MODELS_MAX) {
        return too_many("seq_floors", BATON_MODELS_MAX);
    }
    struct seq_floor *floors = take(memory, hello->n_seq_floors, sizeof(*floors));
    out->floors = floors;
    out->floors_count = hello->n_seq_floors;
    for (size_t i = 0; i < hello->n_seq_floors; i++) {
        const struct text_row rows[] = {
            TEXT("seq_floors.model", floors[i].model, hello->seq_floors[i]->model),
            TEXT("seq_floors.digest", floors[i].digest, hello->seq_floors[i]->digest),
        };
        floors[i].seq = hello->seq_floors[i]->seq;
        struct baton_status st = COPY_TEXTS(rows);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    return baton_status_ok();
}

static struct baton_status check_length(const char *field, const char *name)
{
    return strlen(name) < BATON_NAME_BYTES
               ? baton_status_ok()
               : baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                   "%s: a name is longer than %d", field, BATON_NAME_BYTES - 1);
}

static struct baton_status follows_from(const Baton__V1__Hello *hello, struct session_hello *out)
{
    if (hello->n_follows > BATON_GROUPS_PER_AGENT_MAX) {
        return too_many("follows", BATON_GROUPS_PER_AGENT_MAX);
    }
    out->follows = (const char *const *)hello->follows;
    out->follows_count = hello->n_follows;
    for (size_t i = 0; i < hello->n_follows; i++) {
        struct baton_status st = check_length("follows", hello->follows[i]);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    return check_length("peer_zone", hello->peer_zone);
}

struct baton_status report_from_hello(const Baton__V1__Hello *hello, struct session_hello *out,
                                      struct report_memory *memory)
{
    out->agent = hello->agent;
    out->protocol = hello->protocol;
    out->software = hello->software;
    out->journal_incarnation = hello->journal_incarnation;
    out->highest_epoch = epoch_of(hello->highest_epoch);
    out->address = hello->address;
    out->landing_budget_bytes = hello->landing_budget_bytes;
    out->peer_address = hello->peer_address;
    out->peer_zone = hello->peer_zone;
    out->groups_count = hello->n_groups;
    struct baton_status st = groups_from(hello->groups, hello->n_groups, &out->groups, memory);
    if (baton_ok(&st)) {
        st = follows_from(hello, out);
    }
    return baton_ok(&st) ? floors_from(hello, out, memory) : st;
}

static void phases_from(const Baton__V1__SwapPhases *from, struct swap_phases *out)
{
    if (from == NULL) {
        return;
    }
    *out = (struct swap_phases){
        .queue_ns = from->queue_ns,
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
        .journal_ns = from->journal_ns,
        .barrier_ns = from->barrier_ns,
    };
}

static struct baton_status swap_from(const Baton__V1__SwapRecord *from, struct swap_record *out)
{
    uint64_t ended_ns = 0;
    struct baton_status st =
        baton_wire_timestamp_ns(from->ended_at, "outcomes.record.ended_at", &ended_ns);
    if (!baton_ok(&st)) {
        return st;
    }
    if (words_get(&words_swap_outcome, (uint32_t)from->outcome)[0] == '\0') {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "outcomes.record.outcome: %d is unknown", (int)from->outcome);
    }
    const struct text_row rows[] = { TEXT("outcomes.record.ticket_uid", out->ticket_uid,
                                          from->ticket_uid) };
    copy_message(out->message, sizeof(out->message), from->message);
    copy_message(out->probe_text, sizeof(out->probe_text), from->probe_text);
    out->ticket_number = from->ticket_number;
    out->from_seq = from->from_seq;
    out->to_seq = from->to_seq;
    out->outcome = (enum swap_outcome)from->outcome;
    out->bytes = from->bytes;
    out->verify_level = level_of((int)from->verify_level);
    out->ended_wall_ns = ended_ns;
    out->requests_held = from->requests_held;
    out->probe_logprob = from->probe_logprob;
    out->references = from->references;
    out->references_missed = from->references_missed;
    out->reference_away = from->reference_away;
    copy_message(out->reference_message, sizeof(out->reference_message), from->reference_message);
    out->requests_inside = from->requests_inside;
    out->requests_kept = from->requests_kept;
    out->requests_aborted = from->requests_aborted;
    out->drain_expired = from->drain_expired;
    out->router_not_drained = from->router_not_drained;
    phases_from(from->phases, &out->phases);
    return COPY_TEXTS(rows);
}

static struct baton_status outcome_from(const Baton__V1__TicketOutcome *from,
                                        struct ticket_outcome *out)
{
    const struct text_row rows[] = {
        TEXT("outcomes.group", out->group, from->group),
        TEXT("outcomes.committed_digest", out->committed_digest, from->committed_digest),
    };
    out->epoch = epoch_of(from->epoch);
    out->committed_seq = from->committed_seq;
    if (from->record == NULL) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "outcomes.record: missing");
    }
    struct baton_status st = COPY_TEXTS(rows);
    return baton_ok(&st) ? swap_from(from->record, &out->record) : st;
}

static struct baton_status outcomes_from(const Baton__V1__Report *report,
                                         struct session_report *out, struct report_memory *memory)
{
    if (report->n_outcomes > BATON_GROUPS_PER_AGENT_MAX) {
        return too_many("outcomes", BATON_GROUPS_PER_AGENT_MAX);
    }
    struct ticket_outcome *outcomes = take(memory, report->n_outcomes, sizeof(*outcomes));
    out->outcomes = outcomes;
    out->outcomes_count = report->n_outcomes;
    for (size_t i = 0; i < report->n_outcomes; i++) {
        struct baton_status st = outcome_from(report->outcomes[i], &outcomes[i]);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    return baton_status_ok();
}

static void events_from(const Baton__V1__Report *report, struct session_report *out,
                        struct report_memory *memory)
{
    struct agent_event *events = take(memory, report->n_events, sizeof(*events));
    out->events = events;
    out->events_count = report->n_events;
    for (size_t i = 0; i < report->n_events; i++) {
        const Baton__V1__AgentEvent *from = report->events[i];
        events[i] = (struct agent_event){ from->object, strcmp(from->type, "Warning") == 0,
                                          from->reason, from->message };
    }
}

struct baton_status report_from_message(const Baton__V1__Report *report, struct session_report *out,
                                        struct report_memory *memory)
{
    out->groups_count = report->n_groups;
    out->landing_told = true; /* Agents list all of them in each report. */
    out->landed_digests = (const char *const *)report->landed_digests;
    out->landed_count = report->n_landed_digests;
    out->landing_used_bytes = report->landing_used_bytes;
    events_from(report, out, memory);
    struct baton_status st = groups_from(report->groups, report->n_groups, &out->groups, memory);
    return baton_ok(&st) ? outcomes_from(report, out, memory) : st;
}
