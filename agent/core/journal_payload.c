/* journal_payload.c -- see journal_payload.h. */
#include "agent/core/journal_payload.h"

#include <string.h>

/* Either direction: exactly one of the two is not null. */
struct codec {
    struct baton_writer *writer;
    struct baton_reader *reader;
    bool bad; /* A value was out of range. */
};

static void field_u64(struct codec *codec, uint64_t *value)
{
    if (codec->writer != NULL) {
        baton_write_u64le(codec->writer, *value);
    } else {
        *value = baton_read_u64le(codec->reader);
    }
}

static void field_u32(struct codec *codec, uint32_t *value)
{
    if (codec->writer != NULL) {
        baton_write_u32le(codec->writer, *value);
    } else {
        *value = baton_read_u32le(codec->reader);
    }
}

/* A small number that must be at most 'max'; all enums travel as one byte. */
static unsigned field_small(struct codec *codec, unsigned value, unsigned max)
{
    if (codec->writer != NULL) {
        baton_write_u8(codec->writer, (uint8_t)value);
    } else {
        value = baton_read_u8(codec->reader);
    }
    if (value > max) {
        codec->bad = true;
        value = 0;
    }
    return value;
}

static void field_bool(struct codec *codec, bool *value)
{
    *value = field_small(codec, *value ? 1 : 0, 1) == 1;
}

static void field_double(struct codec *codec, double *value)
{
    uint64_t bits;
    memcpy(&bits, value, sizeof bits);
    field_u64(codec, &bits);
    memcpy(value, &bits, sizeof bits);
}

/* A text of at most 'size' - 1 bytes without an end inside. */
static void field_text(struct codec *codec, char *text, size_t size)
{
    if (codec->writer != NULL) {
        size_t length = strnlen(text, size);
        codec->bad |= length == size;
        baton_write_framed(codec->writer, (struct baton_bytes){ (const uint8_t *)text, length });
        return;
    }
    struct baton_bytes bytes = baton_read_framed(codec->reader, size - 1);
    if (bytes.size > 0 && memchr(bytes.data, 0, bytes.size) != NULL) {
        codec->bad = true;
        return;
    }
    if (bytes.size > 0) {
        memcpy(text, bytes.data, bytes.size);
    }
    text[bytes.size] = '\0';
}

static void field_epoch(struct codec *codec, struct agent_epoch *epoch)
{
    field_u64(codec, &epoch->generation);
    field_u64(codec, &epoch->n);
}

static void field_version(struct codec *codec, struct agent_version *version)
{
    field_u64(codec, &version->seq);
    field_text(codec, version->digest, sizeof version->digest);
}

static void field_level(struct codec *codec, enum agent_level *level)
{
    *level = (enum agent_level)field_small(codec, *level, AGENT_LEVEL_RESIDENT);
}

static void field_members(struct codec *codec, struct journal_members *members)
{
    members->count = field_small(codec, members->count, BATON_ENGINES_PER_GROUP_MAX);
    for (uint32_t i = 0; i < members->count; i++) {
        field_text(codec, members->incarnations[i], sizeof members->incarnations[i]);
    }
}

static void field_policy(struct codec *codec, struct agent_policy *policy)
{
    policy->in_flight =
        (enum agent_in_flight)field_small(codec, policy->in_flight, AGENT_IN_FLIGHT_ABORT);
    policy->arrivals =
        (enum agent_arrivals)field_small(codec, policy->arrivals, AGENT_ARRIVALS_REFUSE);
    field_u64(codec, &policy->swap_deadline_ns);
    field_u64(codec, &policy->drain_deadline_ns);
    field_bool(codec, &policy->allow_recreate);
}

static void field_ticket(struct codec *codec, struct agent_ticket *ticket)
{
    field_text(codec, ticket->uid, sizeof ticket->uid);
    field_u64(codec, &ticket->number);
    field_epoch(codec, &ticket->epoch);
    field_u64(codec, &ticket->owner_term);
    field_text(codec, ticket->group, sizeof ticket->group);
    field_version(codec, &ticket->from);
    field_version(codec, &ticket->to);
    field_policy(codec, &ticket->policy);
    field_bool(codec, &ticket->rejoin);
    field_u64(codec, &ticket->queue_ns);
}

static void field_phases(struct codec *codec, struct agent_phases *phases)
{
    uint64_t *const fields[] = {
        &phases->queue_ns,    &phases->stage_ns,   &phases->pause_ns,      &phases->apply_ns,
        &phases->finalize_ns, &phases->verify_ns,  &phases->invalidate_ns, &phases->commit_ns,
        &phases->label_ns,    &phases->probe_ns,   &phases->open_ns,       &phases->shut_ns,
        &phases->engine_ns,   &phases->journal_ns,
    };
    _Static_assert(sizeof *phases == sizeof fields / sizeof fields[0] * sizeof(uint64_t),
                   "each phase is a field of the record");
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        field_u64(codec, fields[i]);
    }
}

static void field_swap_record(struct codec *codec, struct agent_swap_record *record)
{
    field_text(codec, record->ticket_uid, sizeof record->ticket_uid);
    field_u64(codec, &record->ticket_number);
    field_epoch(codec, &record->epoch);
    field_version(codec, &record->from);
    field_version(codec, &record->to);
    record->outcome = (enum agent_outcome)field_small(codec, record->outcome, AGENT_OUTCOME_OUT);
    field_text(codec, record->message, sizeof record->message);
    field_phases(codec, &record->phases);
    field_u64(codec, &record->bytes);
    field_level(codec, &record->level);
    field_u64(codec, &record->ended_wall_ns);
    field_u32(codec, &record->requests_held);
    field_double(codec, &record->probe_logprob);
    field_text(codec, record->probe_text, sizeof record->probe_text);
    field_version(codec, &record->committed);
}

/* Members that came later stand at a record's end: an older journal ends before them. */
static bool has_more(const struct codec *codec)
{
    return codec->writer != NULL || codec->reader->left.size > 0;
}

static void field_accept_more(struct codec *codec, struct agent_ticket *ticket)
{
    if (!has_more(codec)) {
        return;
    }
    struct agent_policy *policy = &ticket->policy;
    field_bool(codec, &ticket->barrier);
    field_u64(codec, &policy->barrier_deadline_ns);
    policy->drain_expiry =
        (enum agent_drain_expiry)field_small(codec, policy->drain_expiry, AGENT_DRAIN_KEEP);
    policy->kv = (enum agent_kv)field_small(codec, policy->kv, AGENT_KV_KEEP);
    policy->hooks_count = field_small(codec, policy->hooks_count, BATON_HOOKS_MAX);
    for (uint32_t i = 0; i < policy->hooks_count; i++) {
        struct agent_hook *hook = &policy->hooks[i];
        hook->when = (enum agent_hook_when)field_small(codec, hook->when, AGENT_HOOK_AFTER_PROBE);
        field_text(codec, hook->url, sizeof hook->url);
        field_u64(codec, &hook->deadline_ns);
    }
    if (has_more(codec)) {
        field_bool(codec, &policy->live);
    }
}

static void field_outcome_more(struct codec *codec, struct agent_swap_record *record)
{
    if (!has_more(codec)) {
        return;
    }
    field_u64(codec, &record->barrier_ns);
    field_u32(codec, &record->requests_inside);
    field_u32(codec, &record->requests_kept);
    field_u32(codec, &record->requests_aborted);
    field_bool(codec, &record->drain_expired);
    field_bool(codec, &record->router_not_drained);
    if (!has_more(codec)) {
        return;
    }
    field_u32(codec, &record->references);
    field_u32(codec, &record->references_missed);
    field_double(codec, &record->reference_away);
    field_text(codec, record->reference_message, sizeof record->reference_message);
}

static void field_barrier(struct codec *codec, struct journal_record *record)
{
    field_text(codec, record->barrier.ticket_uid, sizeof record->barrier.ticket_uid);
    record->barrier.mark =
        (enum journal_barrier)field_small(codec, record->barrier.mark, JOURNAL_BARRIER_OPEN);
}

static void field_intent(struct codec *codec, struct journal_record *record)
{
    field_text(codec, record->intent.ticket_uid, sizeof record->intent.ticket_uid);
    field_u64(codec, &record->intent.step);
    if (record->kind == JOURNAL_LIVE_INTENT) {
        field_version(codec, &record->intent.from);
        field_version(codec, &record->intent.to);
    }
}

/* The fields of records about one group. */
static void group_fields(struct codec *codec, struct journal_record *record)
{
    field_text(codec, record->group, sizeof record->group);
    if (record->kind == JOURNAL_FLOORS) {
        field_u64(codec, &record->floors.ticket_number);
        field_u64(codec, &record->floors.owner_term);
    } else if (record->kind == JOURNAL_ACCEPT) {
        field_ticket(codec, &record->accept.ticket);
        field_members(codec, &record->accept.members);
        field_accept_more(codec, &record->accept.ticket);
    } else if (record->kind == JOURNAL_INTENT || record->kind == JOURNAL_LIVE_INTENT) {
        field_intent(codec, record);
    } else if (record->kind == JOURNAL_COMMIT) {
        field_text(codec, record->commit.ticket_uid, sizeof record->commit.ticket_uid);
        field_version(codec, &record->commit.version);
        field_level(codec, &record->commit.level);
        field_members(codec, &record->commit.members);
        if (has_more(codec)) {
            field_bool(codec, &record->commit.salted);
        }
    } else if (record->kind == JOURNAL_OUTCOME || record->kind == JOURNAL_REFUSE) {
        field_swap_record(codec, &record->outcome.record);
        field_bool(codec, &record->outcome.needs_ticket);
        field_outcome_more(codec, &record->outcome.record);
    } else if (record->kind == JOURNAL_OUTCOME_STORED) {
        field_text(codec, record->ticket_uid, sizeof record->ticket_uid);
    } else if (record->kind == JOURNAL_BARRIER) {
        field_barrier(codec, record);
    } else if (record->kind == JOURNAL_OPERATE) {
        record->operate.verb =
            (enum agent_verb)field_small(codec, record->operate.verb, AGENT_VERB_DETACH);
        field_text(codec, record->operate.by, sizeof record->operate.by);
        field_u64(codec, &record->operate.wall_ns);
    } else if (record->kind == JOURNAL_SLEEP) {
        record->sleep.mark =
            (enum journal_sleep)field_small(codec, record->sleep.mark, JOURNAL_SLEEP_AWAKE);
        field_members(codec, &record->sleep.members);
    } else if (record->kind == JOURNAL_TAINT) {
        field_text(codec, record->taint.engine, sizeof record->taint.engine);
        field_text(codec, record->taint.incarnation, sizeof record->taint.incarnation);
    } else {
        codec->bad = true; /* A number that means nothing. */
    }
}

static void fields(struct codec *codec, struct journal_record *record)
{
    record->kind = (enum journal_kind)field_small(codec, record->kind, JOURNAL_KIND_END - 1);
    if (record->kind == 0) {
        codec->bad = true;
    } else if (record->kind == JOURNAL_INCARNATION) {
        field_text(codec, record->incarnation, sizeof record->incarnation);
    } else if (record->kind == JOURNAL_EPOCH) {
        field_epoch(codec, &record->epoch);
    } else if (record->kind == JOURNAL_LIFE) {
        field_u64(codec, &record->life);
    } else if (record->kind == JOURNAL_SEQ) {
        field_text(codec, record->seq.model, sizeof record->seq.model);
        field_version(codec, &record->seq.version);
    } else {
        group_fields(codec, record);
    }
}

size_t journal_payload_encode(const struct journal_record *record, uint8_t *out, size_t capacity)
{
    struct journal_record copy = *record;
    struct baton_writer writer = baton_writer_of(out, capacity);
    struct codec codec = { &writer, NULL, false };
    fields(&codec, &copy);
    return codec.bad || !baton_writer_ok(&writer) ? 0 : writer.size;
}

bool journal_payload_decode(struct baton_bytes payload, struct journal_record *record)
{
    memset(record, 0, sizeof *record);
    struct baton_reader reader = baton_reader_of(payload);
    struct codec codec = { NULL, &reader, false };
    fields(&codec, record);
    return !codec.bad && !reader.failed && reader.left.size == 0;
}
