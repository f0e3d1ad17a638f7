/* archive_text.c -- see archive_text.h. */
#include "controller/store/archive_text.h"

#include <errno.h>
#include <jansson.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/bytes.h"
#include "controller/store/record_codec.h"
#include "controller/store/record_fields.h"

#define MEMBER(type_, member_, name_, kind_)                                                       \
    {                                                                                              \
        .name = (name_), .kind = (kind_), .offset = offsetof(type_, member_),                      \
        .size = sizeof(((type_ *)0)->member_)                                                      \
    }
#define HEAD(member_, name_, kind_) MEMBER(struct archive_head, member_, name_, kind_)
#define END(member_, name_, kind_)  MEMBER(struct archive_end, member_, name_, kind_)

static const struct field head_rows[] = {
    HEAD(archive_format, "archiveFormat", FIELD_U64),
    HEAD(epoch.generation, "generation", FIELD_U64),
    HEAD(epoch.n, "n", FIELD_U64),
    HEAD(revision, "revision", FIELD_U64),
    HEAD(log_next_number, "logNextNumber", FIELD_U64),
    HEAD(written_wall_ns, "writtenWallNs", FIELD_U64),
    HEAD(software, "software", FIELD_TEXT),
};
static const struct field_table head_fields = { head_rows, sizeof(head_rows) / sizeof(struct field),
                                                sizeof(struct archive_head) };

static const struct field end_rows[] = {
    END(records, "records", FIELD_U64),
    END(events, "events", FIELD_U64),
    END(digest, "digest", FIELD_TEXT),
};
static const struct field_table end_fields = { end_rows, sizeof(end_rows) / sizeof(struct field),
                                               sizeof(struct archive_end) };

static const char head_word[] = "archive";
static const char event_word[] = "event";
static const char end_word[] = "end";

static struct archive_place place_of(struct record_ref record)
{
    struct archive_place place = { .word = "" };
    (void)baton_text_copy(place.word, sizeof(place.word), record_kind_word(record.kind));
    record_key(record, place.key);
    return place;
}

/* 'next' comes behind 'last'; the very first one does. */
static bool rises(const struct archive_place *last, const struct archive_place *next)
{
    int order = strcmp(last->word, next->word);
    return order < 0 || (order == 0 && strcmp(last->key, next->key) < 0);
}

/* --- writing --- */

/* Takes over 'text'. */
static struct baton_status write_line(struct archive_writer *writer, char *text)
{
    size_t size = text == NULL ? 0 : strlen(text);
    if (text == NULL) {
        writer->status = baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_NONE,
                                           "archive: out of memory");
    } else if (size >= ARCHIVE_LINE_BYTES) {
        writer->status = baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                           "archive: a record of %zu bytes is too long", size);
    } else {
        text[size] = '\n'; /* In place of the end; the size is known from here. */
        digest_stream_add(&writer->digest, (struct baton_bytes){ (uint8_t *)text, size + 1 });
        if (fwrite(text, 1, size + 1, writer->file) != size + 1) {
            writer->status = baton_status_errno(errno, "write", "the archive");
        }
    }
    free(text);
    return writer->status;
}

struct baton_status archive_write_head(struct archive_writer *writer, FILE *file,
                                       const struct archive_head *head)
{
    *writer = (struct archive_writer){ .file = file, .status = baton_status_ok() };
    digest_stream_init(&writer->digest);
    return write_line(writer, fields_encode(&head_fields, head, head_word));
}

struct baton_status archive_write_record(struct archive_writer *writer, struct record_ref record)
{
    struct archive_place place = place_of(record);
    if (baton_ok(&writer->status) && !rises(&writer->last, &place)) {
        writer->status = baton_status_make(BATON_DATA_LOSS, BATON_REASON_MALFORMED,
                                           "archive: %s %.80s is stored twice, or under a key that "
                                           "is not its own",
                                           place.word, place.key);
    }
    if (!baton_ok(&writer->status)) {
        return writer->status;
    }
    writer->last = place;
    writer->end.records++;
    return write_line(writer, record_encode(record));
}

struct baton_status archive_write_event(struct archive_writer *writer,
                                        const struct log_entry *entry)
{
    if (!baton_ok(&writer->status)) {
        return writer->status;
    }
    writer->end.events++;
    return write_line(writer, log_entry_encode(entry));
}

struct baton_status archive_write_end(struct archive_writer *writer)
{
    if (!baton_ok(&writer->status)) {
        return writer->status;
    }
    digest_format(digest_stream_finish(&writer->digest), writer->end.digest);
    struct baton_status st = write_line(writer, fields_encode(&end_fields, &writer->end, end_word));
    if (baton_ok(&st) && fflush(writer->file) != 0) {
        writer->status = baton_status_errno(errno, "write", "the archive");
    }
    return writer->status;
}

/* --- reading --- */

struct archive_reader {
    FILE *file;
    uint64_t number; /* Of the line at hand, from 1. */
    size_t size;     /* Of its text, without its end. */
    struct digest_stream digest;
    struct archive_place last;
    uint64_t last_event;
    struct archive_head head;
    struct archive_end counted;
    struct archive_line item;
    char line[ARCHIVE_LINE_BYTES + 1];
};

struct archive_reader *archive_reader_create(FILE *file)
{
    struct archive_reader *reader = aligned_alloc(alignof(struct archive_reader), sizeof(*reader));
    if (reader != NULL) {
        memset(reader, 0, sizeof(*reader));
        reader->file = file;
        digest_stream_init(&reader->digest);
    }
    return reader;
}

void archive_reader_destroy(struct archive_reader *reader)
{
    free(reader);
}

BATON_PRINTF(4, 5)
static struct baton_status bad(const struct archive_reader *reader, enum baton_code code,
                               enum baton_reason reason, const char *fmt, ...)
{
    char what[BATON_STATUS_MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    return baton_status_make(code, reason, "archive: line %llu: %s",
                             (unsigned long long)reader->number, what);
}

static struct baton_status malformed(const struct archive_reader *reader, const char *what)
{
    return bad(reader, BATON_DATA_LOSS, BATON_REASON_MALFORMED, "%s", what);
}

/* The next line without its end; at the end of the file *out_end. */
static struct baton_status next_line(struct archive_reader *reader, bool *out_end)
{
    int byte = getc_unlocked(reader->file);
    reader->number++;
    reader->size = 0;
    *out_end = byte == EOF;
    while (byte != EOF && byte != '\n' && reader->size < ARCHIVE_LINE_BYTES) {
        reader->line[reader->size++] = (char)byte;
        byte = getc_unlocked(reader->file);
    }
    reader->line[reader->size] = '\0';
    if (ferror_unlocked(reader->file) != 0) {
        return baton_status_errno(errno, "read", "the archive");
    }
    if (reader->size == ARCHIVE_LINE_BYTES) {
        return bad(reader, BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                   "longer than %d bytes; this is no archive of a store", (int)ARCHIVE_LINE_BYTES);
    }
    if (byte == EOF && reader->size > 0) {
        return bad(reader, BATON_DATA_LOSS, BATON_REASON_TRUNCATED, "the file is cut off in it");
    }
    if (strlen(reader->line) != reader->size) {
        return malformed(reader, "a NUL byte");
    }
    return baton_status_ok();
}

static void digest_line(struct archive_reader *reader)
{
    struct baton_bytes text = { (const uint8_t *)reader->line, reader->size };
    digest_stream_add(&reader->digest, text);
    digest_stream_add(&reader->digest, (struct baton_bytes){ (const uint8_t *)"\n", 1 });
}

/* What the line says that it is. */
static bool line_word(const struct archive_reader *reader, char out[RECORD_WORD_BYTES])
{
    json_error_t error;
    json_t *object = json_loads(reader->line, JSON_REJECT_DUPLICATES, &error);
    const char *word = json_string_value(json_object_get(object, "recordKind"));
    bool ok = word != NULL && baton_text_copy(out, RECORD_WORD_BYTES, word);
    json_decref(object);
    return ok;
}

/* A decoder's refusal, with the line's number. */
static struct baton_status at_line(const struct archive_reader *reader, struct baton_status st)
{
    return baton_ok(&st) ? st : bad(reader, st.code, st.reason, "%s", st.message);
}

static struct baton_status take_head(struct archive_reader *reader, const char *word)
{
    struct archive_head *head = &reader->item.body.head;
    if (strcmp(word, head_word) != 0) {
        return malformed(reader, "this is no archive of a store (batonctl store export)");
    }
    struct baton_status st = fields_decode(&head_fields, head_word, reader->line, head);
    if (!baton_ok(&st)) {
        return at_line(reader, st);
    }
    if (head->archive_format == 0 || head->archive_format > ARCHIVE_FORMAT) {
        st = bad(reader, BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                 "archive format %llu, this release knows up to %d",
                 (unsigned long long)head->archive_format, (int)ARCHIVE_FORMAT);
        return baton_status_hint(st, "use the release that wrote it: %.60s", head->software);
    }
    reader->item.kind = ARCHIVE_HEAD;
    reader->head = *head;
    digest_line(reader);
    return st;
}

static struct baton_status take_event(struct archive_reader *reader)
{
    struct log_entry *entry = &reader->item.body.event;
    struct baton_status st = log_entry_decode(reader->line, entry);
    if (!baton_ok(&st)) {
        return at_line(reader, st);
    }
    if (entry->number <= reader->last_event || entry->number >= reader->head.log_next_number) {
        return malformed(reader, "an event's number does not rise, or is above the first line's");
    }
    reader->item.kind = ARCHIVE_EVENT;
    reader->last_event = entry->number;
    reader->counted.events++;
    digest_line(reader);
    return st;
}

static struct baton_status take_record(struct archive_reader *reader, const char *word)
{
    enum record_kind kind = RECORD_KINDS_END;
    if (!record_kind_find(word, &kind)) {
        return bad(reader, BATON_DATA_LOSS, BATON_REASON_MALFORMED,
                   "records of kind \"%.30s\" are not known to this build", word);
    }
    if (reader->last_event != 0) {
        return malformed(reader, "a record behind the events");
    }
    struct baton_status st = record_decode(kind, "", reader->line, &reader->item.body.record);
    if (!baton_ok(&st)) {
        return at_line(reader, st);
    }
    struct archive_place place = place_of((struct record_ref){ kind, &reader->item.body.record });
    if (!rises(&reader->last, &place)) {
        return bad(reader, BATON_DATA_LOSS, BATON_REASON_MALFORMED,
                   "%s %.80s is there twice, or not in its place", place.word, place.key);
    }
    reader->item.kind = ARCHIVE_RECORD;
    reader->item.record_kind = kind;
    reader->last = place;
    reader->counted.records++;
    digest_line(reader);
    return st;
}

static struct baton_status take_end(struct archive_reader *reader)
{
    struct archive_end *end = &reader->item.body.end;
    struct baton_status st = fields_decode(&end_fields, end_word, reader->line, end);
    if (!baton_ok(&st)) {
        return at_line(reader, st);
    }
    digest_format(digest_stream_finish(&reader->digest), reader->counted.digest);
    if (strcmp(end->digest, reader->counted.digest) != 0) {
        return bad(reader, BATON_DATA_LOSS, BATON_REASON_DIGEST_MISMATCH,
                   "its digest is of other lines: the file was altered");
    }
    if (end->records != reader->counted.records || end->events != reader->counted.events) {
        return malformed(reader, "its counts are of other lines");
    }
    if (getc_unlocked(reader->file) != EOF) {
        reader->number++;
        return malformed(reader, "there is something behind the last line");
    }
    reader->item.kind = ARCHIVE_END;
    return st;
}

struct baton_status archive_read(struct archive_reader *reader, const struct archive_line **out)
{
    char word[RECORD_WORD_BYTES];
    bool end = false;
    struct baton_status st = next_line(reader, &end);
    if (!baton_ok(&st)) {
        return st;
    }
    if (end) {
        return bad(reader, BATON_DATA_LOSS, BATON_REASON_TRUNCATED,
                   "the file ends before it, without an archive's last line");
    }
    memset(&reader->item, 0, sizeof(reader->item));
    if (!line_word(reader, word)) {
        return malformed(reader, "this is no line of an archive");
    }
    if (reader->number == 1) {
        st = take_head(reader, word);
    } else if (strcmp(word, event_word) == 0) {
        st = take_event(reader);
    } else {
        st = strcmp(word, end_word) == 0 ? take_end(reader) : take_record(reader, word);
    }
    if (baton_ok(&st)) {
        *out = &reader->item;
    }
    return st;
}
