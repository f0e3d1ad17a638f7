/* journal_file_test.c -- the journal on a real disk: reopened, torn, locked, compacted, full. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/shell/journal_file.h"

static char directory[64];

static void make_directory(void)
{
    strcpy(directory, "journal-test-XXXXXX");
    cr_assert_not_null(mkdtemp(directory));
}

static char *path_of(const char *name)
{
    static char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void remove_directory(void)
{
    const char *names[] = { "journal", "journal.new", "lock", "format" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)unlink(path_of(names[i]));
    }
    (void)rmdir(directory);
}

TestSuite(journal_file, .init = make_directory, .fini = remove_directory);

struct seen {
    uint32_t count;
    struct journal_record last;
    char incarnation[BATON_UID_TEXT_BYTES];
};

static void replay(void *context, const struct journal_record *record)
{
    struct seen *seen = context;
    seen->count++;
    seen->last = *record;
    if (record->kind == JOURNAL_INCARNATION) {
        memcpy(seen->incarnation, record->incarnation, sizeof seen->incarnation);
    }
}

static struct journal_file *open_journal(struct seen *seen)
{
    struct journal_file *journal = NULL;
    memset(seen, 0, sizeof *seen);
    struct baton_status st = journal_file_open(directory, replay, seen, &journal);
    cr_assert(baton_ok(&st), "%s", st.message);
    return journal;
}

static struct journal_record epoch(uint64_t n)
{
    return (struct journal_record){ .kind = JOURNAL_EPOCH, .epoch = { 1, n } };
}

static void append(struct journal_file *journal, uint64_t n)
{
    struct journal_record record = epoch(n);
    uint64_t took_ns = 0;
    struct baton_status st = journal_file_append(journal, &record, &took_ns);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_gt(took_ns, 0);
}

/* A new journal has an incarnation of its own; what was appended is there after a restart. */
Test(journal_file, keeps_what_was_appended)
{
    struct seen seen;
    struct seen again;
    struct journal_file *journal = open_journal(&seen);
    cr_assert_eq(seen.count, 1);
    cr_assert_eq(strlen(seen.incarnation), 32);
    append(journal, 1);
    append(journal, 2);
    cr_assert_eq(journal_file_space(journal), AGENT_JOURNAL_ROOM);
    append(journal, 3); /* Into reserved space. */
    journal_file_close(journal);
    journal = open_journal(&again);
    cr_assert_eq(again.count, 4);
    cr_assert_eq(again.last.epoch.n, 3);
    cr_assert_str_eq(again.incarnation, seen.incarnation);
    append(journal, 4);
    journal_file_close(journal);
    journal = open_journal(&again);
    cr_assert_eq(again.last.epoch.n, 4);
    journal_file_close(journal);
}

/* Two journals never share an incarnation. */
Test(journal_file, new_journal_is_a_new_incarnation)
{
    struct seen first;
    struct seen second;
    journal_file_close(open_journal(&first));
    cr_assert_eq(unlink(path_of("journal")), 0);
    journal_file_close(open_journal(&second));
    cr_assert_str_neq(first.incarnation, second.incarnation);
}

Test(journal_file, torn_tail_is_cut)
{
    struct seen seen;
    struct journal_file *journal = open_journal(&seen);
    append(journal, 1);
    uint64_t whole = journal_file_size(journal);
    append(journal, 2);
    uint64_t size = journal_file_size(journal);
    journal_file_close(journal);
    for (uint64_t cut = size - 1; cut > whole; cut -= 3) {
        cr_assert_eq(truncate(path_of("journal"), (off_t)cut), 0);
        journal = open_journal(&seen);
        cr_assert_eq(seen.count, 2);
        cr_assert_eq(journal_file_size(journal), whole);
        append(journal, 2);
        journal_file_close(journal);
    }
    journal_file_close(open_journal(&seen));
    cr_assert_eq(seen.count, 3);
}

/* A crash at the creation of the file leaves less than a header. */
Test(journal_file, torn_header_starts_anew)
{
    struct seen seen;
    journal_file_close(open_journal(&seen));
    cr_assert_eq(truncate(path_of("journal"), 5), 0);
    journal_file_close(open_journal(&seen));
    cr_assert_eq(seen.count, 1);
    cr_assert_eq(truncate(path_of("journal"), JOURNAL_HEADER_BYTES), 0);
    journal_file_close(open_journal(&seen));
    cr_assert_eq(seen.count, 1);
}

Test(journal_file, damage_is_refused_with_its_place)
{
    struct seen seen;
    struct journal_file *journal = open_journal(&seen);
    append(journal, 1);
    append(journal, 2);
    journal_file_close(journal);
    int fd = open(path_of("journal"), O_RDWR);
    uint8_t byte = 0;
    cr_assert_eq(pread(fd, &byte, 1, JOURNAL_HEADER_BYTES + 20), 1);
    byte ^= 1;
    cr_assert_eq(pwrite(fd, &byte, 1, JOURNAL_HEADER_BYTES + 20), 1);
    (void)close(fd);
    struct baton_status st = journal_file_open(directory, replay, &seen, &journal);
    cr_assert_eq(st.code, BATON_DATA_LOSS);
    cr_assert(strstr(st.message, "offset 16") != NULL, "%s", st.message);
    cr_assert(strstr(st.message, directory) != NULL, "%s", st.message);
}

/* A second agent on the directory is refused, and told who is there. */
Test(journal_file, second_agent_is_refused)
{
    struct seen seen;
    struct journal_file *journal = open_journal(&seen);
    struct journal_file *other = NULL;
    struct baton_status st = journal_file_open(directory, replay, &seen, &other);
    char pid[32];
    (void)snprintf(pid, sizeof pid, "pid %ld", (long)getpid());
    cr_assert_eq(st.reason, BATON_REASON_IN_USE);
    cr_assert(strstr(st.message, pid) != NULL, "%s", st.message);
    journal_file_close(journal);
    journal_file_close(open_journal(&seen)); /* The lock went with the first one. */
}

Test(journal_file, other_directory_format_is_refused)
{
    struct seen seen;
    journal_file_close(open_journal(&seen));
    int fd = open(path_of("format"), O_WRONLY | O_TRUNC);
    cr_assert_eq(write(fd, "2\n", 2), 2);
    (void)close(fd);
    struct journal_file *journal = NULL;
    struct baton_status st = journal_file_open(directory, replay, &seen, &journal);
    cr_assert_eq(st.reason, BATON_REASON_INCOMPATIBLE);
    cr_assert_neq(st.hint[0], '\0');
}

Test(journal_file, unwritable_directory_is_named)
{
    struct seen seen;
    struct journal_file *journal = NULL;
    struct baton_status st =
        journal_file_open("/proc/no-such-directory/state", replay, &seen, &journal);
    cr_assert(!baton_ok(&st));
    cr_assert(strstr(st.message, "/proc/no-such-directory/state") != NULL, "%s", st.message);
}

static bool source(void *context, uint32_t index, struct journal_record *record)
{
    const struct seen *seen = context;
    memset(record, 0, sizeof *record);
    record->kind = index == 0 ? JOURNAL_INCARNATION : JOURNAL_EPOCH;
    if (index == 0) {
        memcpy(record->incarnation, seen->incarnation, sizeof record->incarnation);
    }
    record->epoch = index == 0 ? record->epoch : (struct agent_epoch){ 1, 77 };
    return index < 2;
}

/* Compaction keeps the live state, the incarnation, and room to append. */
Test(journal_file, compaction_keeps_the_live_state)
{
    struct seen seen;
    struct seen again;
    struct journal_file *journal = open_journal(&seen);
    cr_assert(!journal_file_wants_compaction(journal));
    for (uint64_t n = 1; n <= 50; n++) {
        append(journal, n);
    }
    uint64_t before = journal_file_size(journal);
    struct baton_status st = journal_file_compact(journal, source, &seen);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_lt(journal_file_size(journal), before);
    append(journal, 78);
    cr_assert_eq(journal_file_space(journal), AGENT_JOURNAL_ROOM);
    journal_file_close(journal);
    journal = open_journal(&again);
    cr_assert_eq(again.count, 3);
    cr_assert_eq(again.last.epoch.n, 78);
    cr_assert_str_eq(again.incarnation, seen.incarnation);
    journal_file_close(journal);
}

/* A crash in the middle of a compaction leaves the old file; what was begun goes. */
Test(journal_file, half_a_compaction_is_dropped)
{
    struct seen seen;
    struct journal_file *journal = open_journal(&seen);
    append(journal, 5);
    journal_file_close(journal);
    int fd = open(path_of("journal.new"), O_WRONLY | O_CREAT, 0600);
    cr_assert_eq(write(fd, "BATONJRN", 8), 8);
    (void)close(fd);
    journal_file_close(open_journal(&seen));
    cr_assert_eq(seen.last.epoch.n, 5);
    cr_assert_neq(access(path_of("journal.new"), F_OK), 0);
}

static void limit_files_to(uint64_t bytes)
{
    struct rlimit limit = { bytes, bytes };
    cr_assert_neq(signal(SIGXFSZ, SIG_IGN), SIG_ERR);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* No room for the reserve: it is told before any append fails, and those that end swaps still
 * fit. */
Test(journal_file, full_disk_is_told_ahead)
{
    struct seen seen;
    struct journal_file *journal = open_journal(&seen);
    limit_files_to(64 << 10);
    cr_assert_eq(journal_file_space(journal), AGENT_JOURNAL_NONE);
    append(journal, 1);
    journal_file_close(journal);
}

/* The reserve that was there is used up slowly: LOW, then NONE, and appends go on. */
Test(journal_file, reserve_runs_low)
{
    struct seen seen;
    struct journal_file *journal = open_journal(&seen);
    cr_assert_eq(journal_file_space(journal), AGENT_JOURNAL_ROOM);
    struct stat info;
    cr_assert_eq(stat(path_of("journal"), &info), 0);
    limit_files_to((uint64_t)info.st_size);
    struct journal_record record = { .kind = JOURNAL_OUTCOME };
    memset(record.group, 'g', sizeof record.group - 1);
    memset(record.outcome.record.message, 'm', sizeof record.outcome.record.message - 1);
    memset(record.outcome.record.probe_text, 'm', sizeof record.outcome.record.probe_text - 1);
    enum agent_journal_space space = AGENT_JOURNAL_ROOM;
    enum agent_journal_space lowest = space;
    bool low = false;
    for (int i = 0; i < 1600 && lowest != AGENT_JOURNAL_NONE; i++) {
        struct baton_status st = journal_file_append(journal, &record, NULL);
        cr_assert(baton_ok(&st), "%s", st.message);
        space = journal_file_space(journal);
        cr_assert_geq(space, lowest, "nothing is given back");
        lowest = space;
        low |= space == AGENT_JOURNAL_LOW;
    }
    cr_assert(low);
    cr_assert_eq(lowest, AGENT_JOURNAL_NONE);
    append(journal, 9); /* An open swap still ends. */
    journal_file_close(journal);
}

/* After a write that failed nothing more is accepted: what is on the disk is not known. */
Test(journal_file, nothing_after_a_failed_append)
{
    struct seen seen;
    struct journal_file *journal = open_journal(&seen);
    struct journal_record record = epoch(1);
    limit_files_to(journal_file_size(journal) + 10);
    struct baton_status st = journal_file_append(journal, &record, NULL);
    cr_assert(!baton_ok(&st));
    cr_assert(strstr(st.message, "journal") != NULL, "%s", st.message);
    st = journal_file_append(journal, &record, NULL);
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION);
    journal_file_close(journal);
    journal = open_journal(&seen); /* The torn record is cut, the rest is there. */
    cr_assert_eq(seen.count, 1);
    journal_file_close(journal);
}
