/* journal.c -- frames and walk; see journal.h.  Payloads are journal_payload.c's. */
#include "agent/core/journal.h"

#include <string.h>

#include "agent/core/journal_payload.h"

static const uint8_t MAGIC[8] = { 'B', 'A', 'T', 'O', 'N', 'J', 'R', 'N' };

static const char LATER_HINT[] = "run the release of baton-agent that wrote it";

/* Header: magic, u32le format, u32le CRC-32C of what is before it. */
void journal_header_encode(uint8_t out[JOURNAL_HEADER_BYTES])
{
    struct baton_writer writer = baton_writer_of(out, JOURNAL_HEADER_BYTES);
    baton_write_bytes(&writer, (struct baton_bytes){ MAGIC, sizeof MAGIC });
    baton_write_u32le(&writer, JOURNAL_FORMAT);
    baton_write_u32le(&writer, baton_crc32c(0, out, 12));
}

/* The CRC covers index and payload, so that a frame cannot be taken for another one. */
static uint32_t frame_crc(uint64_t index, const uint8_t *payload, size_t size)
{
    uint8_t bytes[8];
    struct baton_writer writer = baton_writer_of(bytes, sizeof bytes);
    baton_write_u64le(&writer, index);
    return baton_crc32c(baton_crc32c(0, bytes, sizeof bytes), payload, size);
}

size_t journal_record_encode(const struct journal_record *record, uint64_t index, uint8_t *out,
                             size_t capacity)
{
    if (capacity < JOURNAL_FRAME_BYTES) {
        return 0;
    }
    size_t size =
        journal_payload_encode(record, out + JOURNAL_FRAME_BYTES, capacity - JOURNAL_FRAME_BYTES);
    if (size == 0 || size > JOURNAL_RECORD_BYTES_MAX - JOURNAL_FRAME_BYTES) {
        return 0;
    }
    struct baton_writer writer = baton_writer_of(out, JOURNAL_FRAME_BYTES);
    baton_write_u32le(&writer, (uint32_t)size);
    baton_write_u32le(&writer, frame_crc(index, out + JOURNAL_FRAME_BYTES, size));
    baton_write_u64le(&writer, index);
    return JOURNAL_FRAME_BYTES + size;
}

struct baton_status journal_cursor_init(struct journal_cursor *cursor, struct baton_bytes file)
{
    *cursor = (struct journal_cursor){ .file = file };
    if (file.size < JOURNAL_HEADER_BYTES) {
        cursor->torn = file.size != 0;
        return baton_status_ok();
    }
    struct baton_reader reader = baton_reader_of(file);
    struct baton_bytes magic = baton_read_bytes(&reader, sizeof MAGIC);
    uint32_t format = baton_read_u32le(&reader);
    uint32_t crc = baton_read_u32le(&reader);
    if (memcmp(magic.data, MAGIC, sizeof MAGIC) != 0 || crc != baton_crc32c(0, file.data, 12)) {
        return baton_status_hint(
            baton_status_make(BATON_DATA_LOSS, BATON_REASON_MALFORMED,
                              "journal: offset 0: this is not the header of a journal"),
            "put back a copy of the file, or move it away: the agent then starts with an empty one "
            "and its groups join anew");
    }
    if (format == 0 || format > JOURNAL_FORMAT) {
        return baton_status_hint(baton_status_make(BATON_FAILED_PRECONDITION,
                                                   BATON_REASON_INCOMPATIBLE,
                                                   "journal: format %u; this agent reads up to %d",
                                                   format, JOURNAL_FORMAT),
                                 "%s", LATER_HINT);
    }
    cursor->offset = JOURNAL_HEADER_BYTES;
    return baton_status_ok();
}

/* One frame at 'offset', if its numbers hold; false otherwise. */
static bool read_frame(const struct journal_cursor *cursor, uint64_t offset, uint64_t *index,
                       struct baton_bytes *payload)
{
    if (cursor->file.size - offset < JOURNAL_FRAME_BYTES) {
        return false;
    }
    struct baton_reader reader = baton_reader_of(
        (struct baton_bytes){ cursor->file.data + offset, (size_t)(cursor->file.size - offset) });
    uint32_t size = baton_read_u32le(&reader);
    uint32_t crc = baton_read_u32le(&reader);
    *index = baton_read_u64le(&reader);
    if (size == 0 || size > JOURNAL_RECORD_BYTES_MAX - JOURNAL_FRAME_BYTES) {
        return false;
    }
    *payload = baton_read_bytes(&reader, size);
    return !reader.failed && crc == frame_crc(*index, payload->data, payload->size);
}

/* True if a whole frame of a later index starts anywhere behind 'offset': then the bytes at
 * 'offset' were written and fsynced once, and are damaged now; a torn write has nothing behind
 * it. */
static bool has_later_frame(const struct journal_cursor *cursor)
{
    struct baton_bytes payload;
    uint64_t index;
    for (uint64_t at = cursor->offset + 1; at + JOURNAL_FRAME_BYTES <= cursor->file.size; at++) {
        if (read_frame(cursor, at, &index, &payload) && index > cursor->index) {
            return true;
        }
    }
    return false;
}

/* Reserved space behind the last record reads as zeros. */
static bool is_zero_from(const struct journal_cursor *cursor, uint64_t offset)
{
    for (uint64_t i = offset; i < cursor->file.size; i++) {
        if (cursor->file.data[i] != 0) {
            return false;
        }
    }
    return true;
}

static struct baton_status damaged(const struct journal_cursor *cursor, const char *what)
{
    return baton_status_hint(
        baton_status_make(
            BATON_DATA_LOSS, BATON_REASON_MALFORMED, "journal: offset %llu, after record %llu: %s",
            (unsigned long long)cursor->offset, (unsigned long long)cursor->index, what),
        "put back a copy of the file, or move it away: the agent then starts with an empty one and "
        "its groups join anew, with the gates shut until verified");
}

struct baton_status journal_cursor_next(struct journal_cursor *cursor,
                                        struct journal_record *record, bool *more)
{
    *more = false;
    if (cursor->torn || cursor->offset >= cursor->file.size ||
        is_zero_from(cursor, cursor->offset)) {
        return baton_status_ok();
    }
    struct baton_bytes payload;
    uint64_t index;
    if (!read_frame(cursor, cursor->offset, &index, &payload)) {
        if (has_later_frame(cursor)) {
            return damaged(cursor, "the checksum of a record does not hold");
        }
        cursor->torn = true;
        return baton_status_ok();
    }
    if (index != cursor->index + 1) {
        return damaged(cursor, "a record is missing: the index does not rise by 1");
    }
    if (!journal_payload_decode(payload, record)) {
        return baton_status_hint(
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                              "journal: offset %llu, after record %llu: a record has a good "
                              "checksum and contents that this release cannot read",
                              (unsigned long long)cursor->offset,
                              (unsigned long long)cursor->index),
            "%s", LATER_HINT);
    }
    cursor->offset += JOURNAL_FRAME_BYTES + payload.size;
    cursor->index = index;
    *more = true;
    return baton_status_ok();
}

const char *journal_kind_name(enum journal_kind kind)
{
    static const char *const names[] = {
        [0] = "UNKNOWN",
        [JOURNAL_INCARNATION] = "INCARNATION",
        [JOURNAL_EPOCH] = "EPOCH",
        [JOURNAL_SEQ] = "SEQ",
        [JOURNAL_FLOORS] = "FLOORS",
        [JOURNAL_ACCEPT] = "ACCEPT",
        [JOURNAL_REFUSE] = "REFUSE",
        [JOURNAL_INTENT] = "INTENT",
        [JOURNAL_COMMIT] = "COMMIT",
        [JOURNAL_OUTCOME] = "OUTCOME",
        [JOURNAL_OUTCOME_STORED] = "OUTCOME_STORED",
        [JOURNAL_TAINT] = "TAINT",
        [JOURNAL_BARRIER] = "BARRIER",
        [JOURNAL_LIFE] = "LIFE",
        [JOURNAL_OPERATE] = "OPERATE",
        [JOURNAL_SLEEP] = "SLEEP",
        [JOURNAL_LIVE_INTENT] = "LIVE_INTENT",
    };
    bool known = kind > 0 && kind < JOURNAL_KIND_END && names[kind] != NULL;
    return known ? names[kind] : names[0];
}
