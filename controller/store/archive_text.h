/* archive_text.h -- a store's content as lines of text: what backups and moves between stores are.
 *
 *   {"generation":..,"n":..,"revision":..,"logNextNumber":..,...,"recordKind":"archive"}   first line
 *   {...,"recordKind":"group"}     a record each (record_codec.h), rising by kind's word, then by key
 *   {...,"recordKind":"event"}     an entry of the event log each, numbers rising
 *   {"records":..,"events":..,"digest":"..","recordKind":"end"}                            last line
 *
 * The digest (transport/model/digest.h, plain) is of all bytes before the last line.  So a file that
 * was cut off, altered or put together from two is told from a whole one; it is no signature.  A line
 * holds its key: record_key() makes it of the record.
 *
 * Not here: what is done with an archive (archive.h), whether its records fit each other (audit.h).
 *
 * Depends on: record_codec.h, transport/model/digest.h.  Threads: an object belongs to one thread.
 * Ownership: files are the caller's.
 * Errors of reading: DATA_LOSS MALFORMED, TRUNCATED or DIGEST_MISMATCH, RESOURCE_EXHAUSTED LIMIT (a
 * line too long), FAILED_PRECONDITION INCOMPATIBLE (a later format), each naming the line; those of
 * files (baton_status_errno). */
#ifndef CONTROLLER_STORE_ARCHIVE_TEXT_H
#define CONTROLLER_STORE_ARCHIVE_TEXT_H

#include <stdio.h>

#include "api/base/status.h"
#include "controller/core/record.h"
#include "transport/model/digest.h"

enum {
    ARCHIVE_FORMAT = 1,
    ARCHIVE_LINE_BYTES = 1 << 20, /* The longest line, its end included; records are far shorter. */
};

/* Of what store the rest is. */
struct archive_head {
    uint64_t archive_format;
    struct epoch epoch;
    uint64_t revision;
    uint64_t log_next_number;
    uint64_t written_wall_ns;
    char software[BATON_NAME_BYTES];
};

struct archive_end {
    uint64_t records;
    uint64_t events;
    char digest[BATON_DIGEST_TEXT_BYTES];
};

/* Where a record stands in the order of an archive. */
struct archive_place {
    char word[RECORD_WORD_BYTES];
    char key[RECORD_KEY_BYTES];
};

/* Writes one archive: head, records, events, end.  A failure stays: later calls return it again. */
struct archive_writer {
    FILE *file;
    struct baton_status status;
    struct digest_stream digest;
    struct archive_place last;
    struct archive_end end; /* Counted so far; whole after archive_write_end(). */
};

BATON_MUST_USE struct baton_status archive_write_head(struct archive_writer *writer, FILE *file,
                                                      const struct archive_head *head);
/* DATA_LOSS: two records of one key, or out of order. */
BATON_MUST_USE struct baton_status archive_write_record(struct archive_writer *writer,
                                                        struct record_ref record);
BATON_MUST_USE struct baton_status archive_write_event(struct archive_writer *writer,
                                                       const struct log_entry *entry);
/* Also flushes the file. */
BATON_MUST_USE struct baton_status archive_write_end(struct archive_writer *writer);

enum archive_kind { ARCHIVE_HEAD = 1, ARCHIVE_RECORD, ARCHIVE_EVENT, ARCHIVE_END };

/* One line. */
struct archive_line {
    enum archive_kind kind;
    enum record_kind record_kind; /* Of RECORD. */
    union {
        struct archive_head head;
        union record_body record;
        struct log_entry event;
        struct archive_end end;
    } body;
};

struct archive_reader;

/* Reads on from where 'file' stands.  Null: out of memory. */
struct archive_reader *archive_reader_create(FILE *file);
/* Accepts null. */
void archive_reader_destroy(struct archive_reader *reader);

/* The next line; it is valid until the next call.  The first is a HEAD, the last an END: it is given
 * only when counts and digest hold and nothing comes behind it.  Not to be called after that, nor
 * after a failure. */
BATON_MUST_USE struct baton_status archive_read(struct archive_reader *reader,
                                                const struct archive_line **out);

#endif /* archive_text.h */
