/* journal_test.c -- the journal's bytes: every kind there and back, torn ends, damage. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "agent/core/journal.h"

enum { RECORDS = 15 };

static void text(char *out, size_t size, const char *value)
{
    cr_assert(baton_text_copy(out, size, value));
}

static struct agent_ticket ticket(void)
{
    struct agent_ticket ticket = { .number = 7,
                                   .epoch = { 1, 2 },
                                   .owner_term = 3,
                                   .from = { 1, "00000000000000000000000000000001" },
                                   .to = { 2, "00000000000000000000000000000002" },
                                   .policy = { AGENT_IN_FLIGHT_WAIT, AGENT_ARRIVALS_REFUSE, 60, 30,
                                               true, .live = true },
                                   .rejoin = true,
                                   .queue_ns = 9 };
    text(ticket.uid, sizeof ticket.uid, "0123456789abcdef0123456789abcdef");
    text(ticket.group, sizeof ticket.group, "g0");
    return ticket;
}

static struct agent_swap_record swap_record(void)
{
    struct agent_swap_record record = { .ticket_number = 7,
                                        .epoch = { 1, 2 },
                                        .outcome = AGENT_OUTCOME_APPLY_FAILED,
                                        .phases = { .queue_ns = 1, .journal_ns = 14 },
                                        .bytes = 1000,
                                        .level = AGENT_LEVEL_COPIED,
                                        .ended_wall_ns = 123456789,
                                        .requests_held = 5,
                                        .probe_logprob = -12.25,
                                        .references = 3,
                                        .references_missed = 1,
                                        .reference_away = 0.75 };
    text(record.message, sizeof record.message, "engine e1: UPDATE: no answer");
    text(record.probe_text, sizeof record.probe_text, "a text");
    text(record.reference_message, sizeof record.reference_message, "reference 0, token 1");
    return record;
}

static struct journal_members members(void)
{
    struct journal_members members = { .count = 2 };
    text(members.incarnations[0], sizeof members.incarnations[0], "aa");
    text(members.incarnations[1], sizeof members.incarnations[1], "bb");
    return members;
}

/* One record of each kind; REFUSE and OUTCOME twice. */
static struct journal_record make(uint32_t index)
{
    static const enum journal_kind LATER[] = { JOURNAL_BARRIER, JOURNAL_LIFE, JOURNAL_OPERATE,
                                               JOURNAL_SLEEP, JOURNAL_LIVE_INTENT };
    uint32_t at = index % (JOURNAL_TAINT + sizeof LATER / sizeof LATER[0]);
    struct journal_record record = { .kind = at < JOURNAL_TAINT ? (enum journal_kind)(at + 1)
                                                                : LATER[at - JOURNAL_TAINT] };
    if (record.kind > JOURNAL_SEQ && record.kind != JOURNAL_LIFE) {
        text(record.group, sizeof record.group, "g0");
    }
    switch (record.kind) {
    case JOURNAL_INCARNATION: text(record.incarnation, sizeof record.incarnation, "abc"); break;
    case JOURNAL_EPOCH: record.epoch = (struct agent_epoch){ 4, 5 }; break;
    case JOURNAL_SEQ:
        text(record.seq.model, sizeof record.seq.model, "m");
        record.seq.version.seq = 6;
        break;
    case JOURNAL_FLOORS: record.floors.ticket_number = 41; break;
    case JOURNAL_ACCEPT:
        record.accept.ticket = ticket();
        record.accept.members = members();
        break;
    case JOURNAL_INTENT: record.intent.step = 2; break;
    case JOURNAL_COMMIT:
        record.commit.version.seq = 2;
        record.commit.level = AGENT_LEVEL_RESIDENT;
        record.commit.members = members();
        break;
    case JOURNAL_REFUSE:
    case JOURNAL_OUTCOME:
        record.outcome.record = swap_record();
        record.outcome.needs_ticket = true;
        break;
    case JOURNAL_OUTCOME_STORED: text(record.ticket_uid, sizeof record.ticket_uid, "u"); break;
    case JOURNAL_TAINT: text(record.taint.engine, sizeof record.taint.engine, "e1"); break;
    case JOURNAL_BARRIER:
        text(record.barrier.ticket_uid, sizeof record.barrier.ticket_uid, "u");
        record.barrier.mark = JOURNAL_BARRIER_GO;
        break;
    case JOURNAL_LIFE: record.life = 7; break;
    case JOURNAL_OPERATE:
        record.operate.verb = AGENT_VERB_DETACH;
        record.operate.wall_ns = 77;
        text(record.operate.by, sizeof record.operate.by, "root (pid 4711)");
        break;
    case JOURNAL_SLEEP:
        record.sleep.mark = JOURNAL_SLEEP_WAKING;
        record.sleep.members = members();
        break;
    case JOURNAL_LIVE_INTENT:
        text(record.intent.ticket_uid, sizeof record.intent.ticket_uid, "u");
        record.intent.step = 3;
        record.intent.from.seq = 1;
        record.intent.to.seq = 2;
        break;
    case JOURNAL_KIND_END: break;
    }
    return record;
}

struct image {
    uint8_t data[RECORDS * JOURNAL_RECORD_BYTES_MAX];
    size_t size;
    size_t ends[RECORDS + 1]; /* Of the header and of each record. */
};

static void build(struct image *image)
{
    journal_header_encode(image->data);
    image->size = JOURNAL_HEADER_BYTES;
    image->ends[0] = image->size;
    for (uint32_t i = 0; i < RECORDS; i++) {
        struct journal_record record = make(i);
        size_t size = journal_record_encode(&record, i + 1, image->data + image->size,
                                            sizeof image->data - image->size);
        cr_assert_gt(size, 0);
        image->size += size;
        image->ends[i + 1] = image->size;
    }
}

/* Walks to the end; returns how many records there were. */
static uint32_t walk(const uint8_t *data, size_t size, struct journal_cursor *cursor,
                     struct baton_status *st)
{
    struct journal_record record;
    uint32_t count = 0;
    bool more = true;
    *st = journal_cursor_init(cursor, (struct baton_bytes){ data, size });
    while (baton_ok(st) && more) {
        *st = journal_cursor_next(cursor, &record, &more);
        count += baton_ok(st) && more ? 1 : 0;
    }
    return count;
}

Test(journal, each_kind_comes_back_as_it_was)
{
    static struct image image;
    build(&image);
    struct journal_cursor cursor;
    struct journal_record record;
    bool more = true;
    struct baton_status st =
        journal_cursor_init(&cursor, (struct baton_bytes){ image.data, image.size });
    cr_assert(baton_ok(&st));
    for (uint32_t i = 0; i < RECORDS; i++) {
        uint8_t left[JOURNAL_RECORD_BYTES_MAX];
        uint8_t right[JOURNAL_RECORD_BYTES_MAX];
        struct journal_record made = make(i);
        st = journal_cursor_next(&cursor, &record, &more);
        cr_assert(baton_ok(&st) && more);
        cr_assert_eq(record.kind, made.kind);
        cr_assert_str_eq(record.group, made.group);
        size_t size = journal_record_encode(&made, 1, left, sizeof left);
        cr_assert_eq(journal_record_encode(&record, 1, right, sizeof right), size);
        cr_assert_eq(memcmp(left, right, size), 0, "%s", journal_kind_name(record.kind));
    }
    st = journal_cursor_next(&cursor, &record, &more);
    cr_assert(baton_ok(&st) && !more && !cursor.torn);
}

/* Cut anywhere: the whole records before the cut are there, and the rest is torn, not damaged. */
Test(journal, torn_at_any_byte)
{
    static struct image image;
    build(&image);
    uint32_t whole = 0;
    for (size_t size = JOURNAL_HEADER_BYTES; size <= image.size; size++) {
        struct journal_cursor cursor;
        struct baton_status st;
        while (whole < RECORDS && image.ends[whole + 1] <= size) {
            whole++;
        }
        cr_assert_eq(walk(image.data, size, &cursor, &st), whole);
        cr_assert(baton_ok(&st), "cut at %zu: %s", size, st.message);
        cr_assert(!cursor.torn || size != image.ends[whole]);
        cr_assert_eq(cursor.offset, image.ends[whole]);
    }
}

/* A torn write inside reserved space: what was not written reads as zeros. */
Test(journal, torn_inside_reserved_space)
{
    static struct image image;
    build(&image);
    struct journal_cursor cursor;
    struct baton_status st;
    size_t start = image.ends[RECORDS - 1];
    for (size_t cut = start; cut < image.size; cut += 7) {
        static uint8_t data[sizeof image.data];
        memset(data, 0, sizeof data);
        memcpy(data, image.data, cut);
        uint32_t count = walk(data, sizeof data, &cursor, &st);
        cr_assert(baton_ok(&st), "%s", st.message);
        cr_assert_geq(count, RECORDS - 1);
        cr_assert_eq(cursor.offset, image.ends[count]);
    }
}

/* A flipped bit anywhere before the last record is damage, and the message says where. */
Test(journal, flipped_bit_in_the_middle_is_data_loss)
{
    static struct image image;
    build(&image);
    uint32_t record = 0;
    for (size_t at = JOURNAL_HEADER_BYTES; at < image.ends[RECORDS - 1]; at++) {
        struct journal_cursor cursor;
        struct baton_status st;
        while (image.ends[record + 1] <= at) {
            record++;
        }
        image.data[at] ^= 0x10;
        (void)walk(image.data, image.size, &cursor, &st);
        cr_assert_eq(st.code, BATON_DATA_LOSS, "byte %zu is not found", at);
        char offset[64];
        (void)snprintf(offset, sizeof offset, "offset %zu", image.ends[record]);
        cr_assert(strstr(st.message, offset) != NULL, "byte %zu: %s", at, st.message);
        cr_assert_neq(st.hint[0], '\0');
        image.data[at] ^= 0x10;
    }
}

Test(journal, foreign_file_is_refused)
{
    static struct image image;
    build(&image);
    struct journal_cursor cursor;
    struct baton_status st;
    image.data[0] = 'X';
    (void)walk(image.data, image.size, &cursor, &st);
    cr_assert_eq(st.code, BATON_DATA_LOSS);
    build(&image);
    image.data[8] = 2; /* Another format, with a good checksum. */
    struct baton_writer writer = baton_writer_of(image.data + 12, 4);
    baton_write_u32le(&writer, baton_crc32c(0, image.data, 12));
    (void)walk(image.data, image.size, &cursor, &st);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION);
    cr_assert_eq(st.reason, BATON_REASON_INCOMPATIBLE);
}

/* A record of a kind that only a later release knows: not damage, and nobody is told to move the file away. */
Test(journal, record_of_a_later_release)
{
    static struct image image;
    build(&image);
    uint8_t *frame = image.data + image.ends[RECORDS - 1];
    size_t size = image.size - image.ends[RECORDS - 1] - JOURNAL_FRAME_BYTES;
    frame[JOURNAL_FRAME_BYTES] = 200; /* Its kind. */
    struct baton_writer writer = baton_writer_of(frame + 4, 4);
    baton_write_u32le(
        &writer, baton_crc32c(baton_crc32c(0, frame + 8, 8), frame + JOURNAL_FRAME_BYTES, size));
    struct journal_cursor cursor;
    struct baton_status st;
    cr_assert_eq(walk(image.data, image.size, &cursor, &st), RECORDS - 1);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION);
    cr_assert_eq(st.reason, BATON_REASON_INCOMPATIBLE);
    cr_assert_str_eq(st.hint, "run the release of baton-agent that wrote it");
}

/* An index that does not rise by 1 is damage: a record was taken out. */
Test(journal, missing_record_is_data_loss)
{
    static struct image image;
    build(&image);
    size_t hole = image.ends[4] - image.ends[3];
    memmove(image.data + image.ends[3], image.data + image.ends[4], image.size - image.ends[4]);
    struct journal_cursor cursor;
    struct baton_status st;
    cr_assert_eq(walk(image.data, image.size - hole, &cursor, &st), 3);
    cr_assert_eq(st.code, BATON_DATA_LOSS);
}

/* What does not fit a record is refused when it is written, not found when it is read. */
Test(journal, unterminated_text_is_not_written)
{
    uint8_t out[JOURNAL_RECORD_BYTES_MAX];
    struct journal_record record = make(0);
    memset(record.incarnation, 'a', sizeof record.incarnation);
    cr_assert_eq(journal_record_encode(&record, 1, out, sizeof out), 0);
    record = make(1);
    cr_assert_eq(journal_record_encode(&record, 1, out, 20), 0);
}

/* The largest records fit their bound. */
Test(journal, largest_record_fits)
{
    uint8_t out[JOURNAL_RECORD_BYTES_MAX];
    struct journal_record record = make(JOURNAL_ACCEPT - 1);
    record.accept.members.count = BATON_ENGINES_PER_GROUP_MAX;
    for (uint32_t i = 0; i < BATON_ENGINES_PER_GROUP_MAX; i++) {
        memset(record.accept.members.incarnations[i], 'a', BATON_UID_TEXT_BYTES - 1);
    }
    memset(record.group, 'g', sizeof record.group - 1);
    cr_assert_gt(journal_record_encode(&record, 1, out, sizeof out), 0);
    record = make(JOURNAL_OUTCOME - 1);
    memset(record.outcome.record.message, 'm', sizeof record.outcome.record.message - 1);
    memset(record.outcome.record.probe_text, 't', sizeof record.outcome.record.probe_text - 1);
    cr_assert_gt(journal_record_encode(&record, 1, out, sizeof out), 0);
}
