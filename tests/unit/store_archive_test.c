/* store_archive_test.c -- the lines of an archive: read as written; what is not whole is refused with its line. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/store/archive_text.h"

enum { ARCHIVE_BYTES = 16384 };

/* Five lines: head, a group, a model, an event, the end. */
static size_t make(char out[ARCHIVE_BYTES])
{
    struct archive_writer writer;
    struct archive_head head = { .archive_format = 1,
                                 .epoch = { 7, 2 },
                                 .revision = 9,
                                 .log_next_number = 4,
                                 .software = "1.2" };
    struct group_record group = { .name = "g", .revision = 3 };
    struct model_record model = { .name = "m", .revision = 4 };
    struct log_entry entry = { .number = 3, .message = "a\nb" };
    FILE *file = fmemopen(out, ARCHIVE_BYTES, "w");
    cr_assert_not_null(file);
    struct baton_status st = archive_write_head(&writer, file, &head);
    cr_assert(baton_ok(&st));
    st = archive_write_record(&writer, (struct record_ref){ RECORD_GROUP, &group });
    cr_assert(baton_ok(&st));
    st = archive_write_record(&writer, (struct record_ref){ RECORD_MODEL, &model });
    cr_assert(baton_ok(&st));
    st = archive_write_event(&writer, &entry);
    cr_assert(baton_ok(&st));
    st = archive_write_end(&writer);
    cr_assert(baton_ok(&st));
    long size = ftell(file);
    cr_assert(size > 0 && fclose(file) == 0);
    return (size_t)size;
}

struct read {
    struct baton_status status;
    int lines;
    struct archive_line last;
};

static struct read read_all(const char *text, size_t size)
{
    struct read read = { .lines = 0 };
    FILE *file = size == 0 ? tmpfile() : fmemopen((char *)(uintptr_t)text, size, "r");
    cr_assert_not_null(file);
    struct archive_reader *reader = archive_reader_create(file);
    const struct archive_line *line = NULL;
    do {
        read.status = archive_read(reader, &line);
        if (baton_ok(&read.status)) {
            read.lines++;
            read.last = *line;
        }
    } while (baton_ok(&read.status) && line->kind != ARCHIVE_END);
    archive_reader_destroy(reader);
    (void)fclose(file);
    return read;
}

Test(archive, is_read_as_written)
{
    static char text[ARCHIVE_BYTES];
    size_t size = make(text);
    struct read read = read_all(text, size);
    cr_assert(baton_ok(&read.status), "%s", read.status.message);
    cr_assert_eq(read.lines, 5);
    cr_assert_eq(read.last.body.end.records, 2);
    cr_assert_eq(read.last.body.end.events, 1);
}

/* Wherever it is cut off, the file is refused; before a line's end that line is named. */
Test(archive, every_cut_is_found)
{
    static char text[ARCHIVE_BYTES];
    size_t size = make(text);
    for (size_t cut = 0; cut < size; cut++) {
        struct read read = read_all(text, cut);
        cr_assert_eq(read.status.code, BATON_DATA_LOSS, "cut at %zu", cut);
        cr_assert_eq(read.status.reason, BATON_REASON_TRUNCATED, "cut at %zu: %s", cut,
                     read.status.message);
        char line[32];
        (void)snprintf(line, sizeof(line), "line %d:", read.lines + 1);
        cr_assert_not_null(strstr(read.status.message, line), "%s", read.status.message);
    }
}

/* No byte can become another one unseen. */
Test(archive, every_altered_byte_is_found)
{
    static char text[ARCHIVE_BYTES];
    size_t size = make(text);
    for (size_t at = 0; at < size; at++) {
        text[at] ^= 1;
        struct read read = read_all(text, size);
        cr_assert(!baton_ok(&read.status), "byte %zu", at);
        cr_assert_not_null(strstr(read.status.message, "line "), "%s", read.status.message);
        text[at] ^= 1;
    }
}

static char *line_at(char *text, int number)
{
    for (int i = 1; i < number; i++) {
        text = strchr(text, '\n') + 1;
    }
    return text;
}

/* The lines of 'order' ('1' is the head), put together to a file. */
static struct read reordered(const char *order)
{
    static char text[ARCHIVE_BYTES];
    static char out[2 * ARCHIVE_BYTES];
    (void)make(text);
    size_t size = 0;
    for (const char *at = order; *at != '\0'; at++) {
        const char *line = line_at(text, *at - '0');
        size_t bytes = strcspn(line, "\n") + 1;
        memcpy(out + size, line, bytes);
        size += bytes;
    }
    return read_all(out, size);
}

Test(archive, lines_have_their_places)
{
    static const struct {
        const char *order;
        const char *says;
        enum baton_reason reason;
    } rows[] = {
        { "2345", "line 1: this is no archive", BATON_REASON_MALFORMED },
        { "1134", "line 2: records of kind \"archive\"", BATON_REASON_MALFORMED },
        { "12245", "line 3: group g is there twice", BATON_REASON_MALFORMED },
        { "13245", "line 3: group g is there twice, or not in its place", BATON_REASON_MALFORMED },
        { "12435", "line 4: a record behind the events", BATON_REASON_MALFORMED },
        { "123445", "line 5: an event's number", BATON_REASON_MALFORMED },
        { "1235", "line 4: its digest is of other lines", BATON_REASON_DIGEST_MISMATCH },
        { "123455", "line 6: there is something behind", BATON_REASON_MALFORMED },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct read read = reordered(rows[i].order);
        cr_assert_eq(read.status.reason, rows[i].reason, "%s: %s", rows[i].order,
                     read.status.message);
        cr_assert_not_null(strstr(read.status.message, rows[i].says), "%s: %s", rows[i].order,
                           read.status.message);
    }
}

Test(archive, foreign_files_are_refused)
{
    static const struct {
        const char *text;
        const char *says;
    } rows[] = {
        { "hello\n", "line 1: this is no line of an archive" },
        { "{}\n", "line 1: this is no line" },
        { "{\"recordKind\":\"model\",\"format\":1}\n", "line 1: this is no archive" },
        { "{\"recordKind\":\"archive\",\"format\":1,\"archiveFormat\":2,\"software\":\"9.1\"}\n",
          "archive format 2, this release knows up to 1" },
        { "{\"recordKind\":\"archive\",\"format\":1,\"revision\":-1}\n", "revision" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct read read = read_all(rows[i].text, strlen(rows[i].text));
        cr_assert(!baton_ok(&read.status) && read.lines == 0);
        cr_assert_not_null(strstr(read.status.message, rows[i].says), "%s", read.status.message);
    }
}

Test(archive, a_line_is_bounded)
{
    size_t size = 3 * (size_t)ARCHIVE_LINE_BYTES;
    char *text = malloc(size);
    cr_assert_not_null(text);
    memset(text, 'x', size);
    struct read read = read_all(text, size);
    cr_assert_eq(read.status.reason, BATON_REASON_LIMIT);
    cr_assert_not_null(strstr(read.status.message, "line 1:"));
    memset(text, '\0', size);
    text[5] = '\n';
    read = read_all(text, size);
    cr_assert_not_null(strstr(read.status.message, "line 1: a NUL byte"), "%s",
                       read.status.message);
    free(text);
}

/* A writer makes nothing that a reader refuses. */
Test(archive, a_record_twice_is_not_written)
{
    static char text[ARCHIVE_BYTES];
    struct archive_writer writer;
    struct archive_head head = { .archive_format = 1 };
    struct group_record group = { .name = "g" };
    struct record_ref record = { RECORD_GROUP, &group };
    FILE *file = fmemopen(text, sizeof(text), "w");
    struct baton_status st = archive_write_head(&writer, file, &head);
    cr_assert(baton_ok(&st));
    st = archive_write_record(&writer, record);
    cr_assert(baton_ok(&st));
    st = archive_write_record(&writer, record);
    cr_assert_eq(st.code, BATON_DATA_LOSS);
    st = archive_write_end(&writer);
    cr_assert_eq(st.code, BATON_DATA_LOSS, "it stays");
    (void)fclose(file);
}

/* A full disk is an error of the export, not a short archive. */
Test(archive, a_full_disk_is_told)
{
    FILE *file = fopen("/dev/full", "we");
    cr_assert_not_null(file);
    struct archive_writer writer;
    struct archive_head head = { .archive_format = 1 };
    struct baton_status st = archive_write_head(&writer, file, &head);
    st = baton_ok(&st) ? archive_write_end(&writer) : st;
    cr_assert(!baton_ok(&st));
    (void)fclose(file);
}
