/* archive_conformance.c -- export and import against real stores: SQLite files, and etcd where it is installed.
 *
 * A plain program: prints one line a case and exits 0 when all hold.  An import that dies in the middle
 * kills itself where a planned part of the archive was read. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "controller/store/archive.h"
#include "controller/store/audit.h"
#include "tests/conformance/etcd_rig.h"
#include "tests/conformance/patience.h"
#include "tests/unit/record_filler.h"

#define CHECK(condition_)                                                                          \
    do {                                                                                           \
        if (!(condition_)) {                                                                       \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition_);                       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define WALL_NS (UINT64_C(1700000000) * 1000000000)

/* More than some transactions of an import. */
enum { REQUESTS = 400, EVENTS = 700, ADDRESS_BYTES = 1024 };

static char folder[] = P_tmpdir "/baton-archive-XXXXXX";
static struct etcd_rig etcd;

static void must(struct baton_status st)
{
    if (!baton_ok(&st)) {
        fprintf(stderr, "%s %s: %s\n", baton_code_name(st.code), baton_reason_name(st.reason),
                st.message);
    }
    CHECK(baton_ok(&st));
}

static void sqlite_address(const char *name, char out[ADDRESS_BYTES])
{
    (void)snprintf(out, ADDRESS_BYTES, "sqlite:%s/%s.db", folder, name);
}

static struct store *lead(const char *address, struct store_start *start)
{
    struct store *store = NULL;
    must(store_open(address, WALL_NS, &store));
    must(store_acquire_epoch(store, start));
    return store;
}

static void commit(struct store *store, struct epoch epoch, const struct record_op *ops,
                   size_t count)
{
    struct transaction transaction = { .epoch = epoch,
                                       .revision = store_revision(store) + 1,
                                       .sync = true,
                                       .ops = ops,
                                       .ops_count = count };
    must(store_commit(store, &transaction));
}

static struct record_op put(struct record_ref record)
{
    struct record_op op = { .record = record };
    record_key(record, op.key);
    return op;
}

static void put_request(struct store *store, struct epoch epoch, const char *id)
{
    struct request_record request = { .stored_wall_ns = 1 };
    (void)snprintf(request.id, sizeof(request.id), "%s", id);
    struct record_op op = put((struct record_ref){ RECORD_REQUEST, &request });
    commit(store, epoch, &op, 1);
}

/* A record of every kind with every member set, many requests, and events. */
static void put_everything(struct store *store, struct epoch epoch)
{
    static union record_body bodies[RECORD_KINDS_END];
    static struct request_record requests[REQUESTS];
    static struct record_op ops[RECORD_KINDS_END + REQUESTS];
    static struct log_entry events[EVENTS];
    size_t count = 0;
    for (int kind = 1; kind < RECORD_KINDS_END; kind++) {
        record_fill((enum record_kind)kind, &bodies[kind]);
        if (kind == RECORD_CLUSTER) {
            bodies[kind].cluster = (struct cluster_record){ .generation = 77 };
        }
        ops[count++] = put((struct record_ref){ (enum record_kind)kind, &bodies[kind] });
    }
    for (int i = 0; i < REQUESTS; i++) {
        (void)snprintf(requests[i].id, sizeof(requests[i].id), "request-%d", i);
        ops[count++] = put((struct record_ref){ RECORD_REQUEST, &requests[i] });
    }
    for (int i = 0; i < EVENTS; i++) {
        events[i].number = (uint64_t)i + 1;
        (void)snprintf(events[i].message, sizeof(events[i].message), "event %d", i);
    }
    struct transaction transaction = { .epoch = epoch,
                                       .revision = store_revision(store) + 1,
                                       .sync = true,
                                       .ops = ops,
                                       .ops_count = count,
                                       .entries = events,
                                       .entries_count = EVENTS };
    must(store_commit(store, &transaction));
}

static FILE *export_reader(struct store *reader, struct store_start start)
{
    struct archive_report report;
    struct archive_note note = { start, WALL_NS, "test" };
    FILE *file = tmpfile();
    CHECK(file != NULL);
    must(store_export(reader, &note, file, &report));
    rewind(file);
    return file;
}

static FILE *export_of(const char *address)
{
    struct store *reader = NULL;
    struct store_start start;
    must(store_open_reader(address, &reader, &start));
    FILE *file = export_reader(reader, start);
    store_close(reader);
    return file;
}

/* Equal but for the first line and the digest, which is of the first line too. */
static bool same_content(FILE *a, FILE *b)
{
    static char line_a[ARCHIVE_LINE_BYTES];
    static char line_b[ARCHIVE_LINE_BYTES];
    bool same = true;
    rewind(a);
    rewind(b);
    for (int number = 1; same; number++) {
        char *got_a = fgets(line_a, sizeof(line_a), a);
        char *got_b = fgets(line_b, sizeof(line_b), b);
        if (got_a == NULL || got_b == NULL) {
            same = got_a == got_b && number > REQUESTS + EVENTS;
            break;
        }
        bool end = strstr(line_a, "\"recordKind\":\"end\"") != NULL;
        same = number == 1 || end || strcmp(line_a, line_b) == 0;
    }
    rewind(a);
    rewind(b);
    return same;
}

static struct baton_status import_to(FILE *file, const char *address, struct archive_report *out)
{
    rewind(file);
    return store_import(file, address, WALL_NS, out);
}

static struct baton_status ignore(void *context, struct record_ref record)
{
    (void)context;
    (void)record;
    return baton_status_ok();
}

/* The archive in a new store is what it was, under a generation above all of before. */
static void round_trip(FILE *archive, const char *address)
{
    struct archive_report report;
    struct store_start start;
    must(import_to(archive, address, &report));
    CHECK(report.end.records == RECORD_KINDS_END - 1 + REQUESTS && report.end.events == EVENTS);
    FILE *again = export_of(address);
    CHECK(same_content(archive, again));
    struct store *store = lead(address, &start);
    CHECK(start.epoch.generation == report.generation && start.log_next_number == EVENTS + 1);
    /* The ticket of the filled group names the highest generation. */
    union record_body group;
    record_fill(RECORD_GROUP, &group);
    CHECK(start.epoch.generation > group.group.ticket.epoch.generation);
    CHECK(start.epoch.generation > 1700000000);
    must(store_load(store, ignore, NULL));
    put_request(store, start.epoch, "afterwards");
    store_close(store);
    (void)fclose(again);
}

struct damaged {
    uint64_t findings;
};

static void count_finding(void *context, const char *object, const char *field, const char *text)
{
    struct damaged *damaged = context;
    damaged->findings += object[0] != '\0' && field[0] != '\0' && text[0] != '\0';
}

/* A reader sees one state, whatever is committed beside it; it writes nothing. */
static void reader_beside_a_writer(const char *address)
{
    struct store_start start;
    struct store_start seen;
    struct store_start ignored;
    struct store *reader = NULL;
    struct store *store = lead(address, &start);
    put_everything(store, start.epoch);
    must(store_open_reader(address, &reader, &seen));
    CHECK(seen.revision == store_revision(store) && seen.log_next_number == EVENTS + 1);
    CHECK(seen.epoch.generation == start.epoch.generation && seen.epoch.n == start.epoch.n);
    FILE *before = export_reader(reader, seen);
    put_request(store, start.epoch, "beside");
    FILE *still = export_reader(reader, seen);
    CHECK(same_content(before, still));
    struct transaction none = { .epoch = seen.epoch, .revision = 99 };
    struct baton_status st = store_commit(reader, &none);
    CHECK(st.code == BATON_FAILED_PRECONDITION);
    st = store_acquire_epoch(reader, &ignored);
    CHECK(st.code == BATON_FAILED_PRECONDITION);
    st = store_raise_generation(reader, 1);
    CHECK(st.code == BATON_FAILED_PRECONDITION);
    struct damaged damaged = { 0 };
    struct audit_report report;
    must(store_audit(reader, &seen, count_finding, &damaged, &report));
    CHECK(report.findings == damaged.findings && report.records > REQUESTS);
    store_close(reader);
    FILE *after = export_of(address);
    CHECK(!same_content(before, after));
    (void)fclose(before);
    (void)fclose(still);
    (void)fclose(after);
    put_request(store, start.epoch, "still leads");
    store_close(store);
}

/* A store with something in it is refused by name, and its controller goes on. */
static void full_store_is_refused(FILE *archive, const char *address)
{
    struct store_start start;
    struct archive_report report;
    struct store *store = lead(address, &start);
    put_request(store, start.epoch, "mine");
    bool file = strncmp(address, "sqlite:", 7) == 0;
    struct baton_status st = import_to(archive, address, &report);
    CHECK(st.code == BATON_FAILED_PRECONDITION && st.reason == BATON_REASON_IN_USE);
    CHECK(strstr(st.message, file ? "in use by process" : "request mine") != NULL);
    put_request(store, start.epoch, "still");
    store_close(store);
    st = import_to(archive, address, &report);
    CHECK(st.reason == BATON_REASON_IN_USE && strstr(st.message, "not empty: 2 records") != NULL);
}

/* A file that ends the process when so much of it was read the second time. */
struct deadly {
    FILE *file;
    long at;
    int rewinds;
    long deadly;
};

static ssize_t deadly_read(void *cookie, char *out, size_t size)
{
    struct deadly *deadly = cookie;
    long left = deadly->deadly - deadly->at;
    if (deadly->rewinds > 0 && left <= 0) {
        (void)kill(getpid(), SIGKILL);
    }
    size_t wanted = size < 512 ? size : 512; /* So that what is read is not far ahead. */
    size_t got = fread(out, 1, wanted, deadly->file);
    deadly->at += (long)got;
    return (ssize_t)got;
}

static int deadly_seek(void *cookie, off64_t *offset, int whence)
{
    struct deadly *deadly = cookie;
    CHECK(whence == SEEK_SET && *offset == 0);
    rewind(deadly->file);
    deadly->rewinds++;
    deadly->at = 0;
    return 0;
}

/* Imports in a process that dies when 'part' of the archive is read, in hundredths. */
static void import_and_die(FILE *archive, const char *address, long part)
{
    struct archive_report report;
    int status = 0;
    CHECK(fseek(archive, 0, SEEK_END) == 0);
    long size = ftell(archive);
    rewind(archive);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct deadly deadly = { archive, 0, 0, size * part / 100 };
        cookie_io_functions_t functions = { .read = deadly_read, .seek = deadly_seek };
        FILE *file = fopencookie(&deadly, "r", functions);
        CHECK(file != NULL);
        struct baton_status st = store_import(file, address, WALL_NS, &report);
        fprintf(stderr, "it lived: %s\n", st.message);
        _exit(1);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static FILE *other_archive(void)
{
    char address[ADDRESS_BYTES];
    struct store_start start;
    sqlite_address("other", address);
    struct store *store = lead(address, &start);
    struct cluster_record cluster = { .generation = 3 };
    struct record_op op = put((struct record_ref){ RECORD_CLUSTER, &cluster });
    commit(store, start.epoch, &op, 1);
    store_close(store);
    return export_of(address);
}

/* Killed in the middle: never loaded, not taken by another archive, finished by the same one. */
static void killed_import(FILE *archive, FILE *other, const char *address, long part)
{
    struct archive_report report;
    struct store_start start;
    import_and_die(archive, address, part);
    struct store *store = lead(address, &start);
    struct baton_status st = store_load(store, ignore, NULL);
    CHECK(st.code == BATON_FAILED_PRECONDITION && st.reason == BATON_REASON_TRUNCATED);
    CHECK(strstr(st.hint, "same archive") != NULL);
    store_close(store);
    struct store *reader = NULL;
    struct damaged damaged = { 0 };
    struct audit_report audit;
    must(store_open_reader(address, &reader, &start));
    must(store_audit(reader, &start, count_finding, &damaged, &audit));
    CHECK(damaged.findings > 0);
    store_close(reader);
    st = import_to(other, address, &report);
    CHECK(st.code == BATON_FAILED_PRECONDITION && st.reason == BATON_REASON_TRUNCATED);
    import_and_die(archive, address, part + 20);
    round_trip(archive, address);
}

/* A file that is not whole makes no store. */
static void damaged_archive(FILE *archive)
{
    char address[ADDRESS_BYTES];
    char line[256];
    struct archive_report report;
    struct stat facts;
    sqlite_address("never", address);
    FILE *half = tmpfile();
    CHECK(half != NULL);
    rewind(archive);
    for (int i = 0; i < 100; i++) {
        CHECK(fgets(line, sizeof(line), archive) != NULL && fputs(line, half) >= 0);
    }
    struct baton_status st = import_to(half, address, &report);
    CHECK(st.code == BATON_DATA_LOSS && st.reason == BATON_REASON_TRUNCATED);
    CHECK(stat(address + strlen("sqlite:"), &facts) != 0);
    (void)fclose(half);
}

static void bad_readers(void)
{
    static const char *const addresses[] = { "", "sqlite:", "etcd:", "memory:", "etcd:x" };
    char address[ADDRESS_BYTES];
    struct store *reader = NULL;
    struct store_start start;
    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
        struct baton_status st = store_open_reader(addresses[i], &reader, &start);
        CHECK(st.code == BATON_INVALID_ARGUMENT && reader == NULL);
    }
    sqlite_address("nowhere", address);
    struct baton_status st = store_open_reader(address, &reader, &start);
    CHECK(st.code == BATON_NOT_FOUND && reader == NULL);
    FILE *file = fopen(address + strlen("sqlite:"), "we");
    CHECK(file != NULL &&
          fputs("not a database, but long enough to be looked at ......", file) > 0);
    CHECK(fclose(file) == 0);
    st = store_open_reader(address, &reader, &start);
    CHECK(st.code == BATON_DATA_LOSS && reader == NULL);
}

static FILE *archive_of_everything(void)
{
    char address[ADDRESS_BYTES];
    struct store_start start;
    sqlite_address("source", address);
    struct store *store = lead(address, &start);
    put_everything(store, start.epoch);
    FILE *archive = export_of(address); /* While the writer has it. */
    store_close(store);
    FILE *closed = export_of(address);
    CHECK(same_content(archive, closed));
    (void)fclose(closed);
    return archive;
}

static void sqlite_rules(void)
{
    char address[ADDRESS_BYTES];
    FILE *archive = archive_of_everything();
    FILE *other = other_archive();
    sqlite_address("beside", address);
    reader_beside_a_writer(address);
    printf("ok sqlite reader_beside_a_writer\n");
    sqlite_address("target", address);
    round_trip(archive, address);
    printf("ok sqlite round_trip\n");
    sqlite_address("full", address);
    full_store_is_refused(archive, address);
    printf("ok sqlite full_store_is_refused\n");
    for (long part = 10; part < 80; part += 30) {
        char name[32];
        (void)snprintf(name, sizeof(name), "killed%ld", part);
        sqlite_address(name, address);
        killed_import(archive, other, address, part);
    }
    printf("ok sqlite killed_import\n");
    damaged_archive(archive);
    bad_readers();
    printf("ok sqlite damaged_archive, bad_readers\n");
    (void)fclose(archive);
    (void)fclose(other);
}

static void etcd_path(const char *name, const char *options, char out[ADDRESS_BYTES])
{
    char tail[128];
    (void)snprintf(tail, sizeof(tail), "/%s%s", name, options);
    etcd_rig_address(&etcd, tail, out);
}

static void etcd_rules_with(FILE *archive, FILE *other, const char *prefix, const char *options)
{
    char address[ADDRESS_BYTES];
    char name[64];
    (void)snprintf(name, sizeof(name), "%s/beside", prefix);
    etcd_path(name, options, address);
    reader_beside_a_writer(address);
    (void)snprintf(name, sizeof(name), "%s/target", prefix);
    etcd_path(name, options, address);
    round_trip(archive, address);
    (void)snprintf(name, sizeof(name), "%s/full", prefix);
    etcd_path(name, options, address);
    full_store_is_refused(archive, address);
    (void)snprintf(name, sizeof(name), "%s/killed", prefix);
    etcd_path(name, options, address);
    killed_import(archive, other, address, 40);
    printf("ok etcd %s: all of these\n", prefix);
}

static void etcd_rules(void)
{
    char address[ADDRESS_BYTES];
    struct store *reader = NULL;
    struct store_start start;
    sqlite_address("source", address);
    FILE *archive = export_of(address);
    sqlite_address("other", address);
    FILE *other = export_of(address);
    etcd_rig_init(&etcd, 1);
    etcd_rig_start(&etcd);
    etcd_path("nothing", "", address);
    struct baton_status st = store_open_reader(address, &reader, &start);
    CHECK(st.code == BATON_NOT_FOUND && reader == NULL);
    etcd_rules_with(archive, other, "whole", "");
    etcd_rules_with(archive, other, "parts", "?maxTxnOps=8&maxRequestBytes=131072");
    etcd_rig_stop(&etcd);
    (void)fclose(archive);
    (void)fclose(other);
}

int main(void)
{
    CHECK(mkdtemp(folder) != NULL);
    sqlite_rules();
    if (etcd_rig_there()) {
        patience_run("etcd", etcd_rules);
    } else {
        printf("skip archive_conformance, etcd: it is not installed (deploy/install.sh test)\n");
    }
    char command[64];
    (void)snprintf(command, sizeof(command), "rm -rf %s", folder);
    CHECK(system(command) == 0);
    return 0;
}
