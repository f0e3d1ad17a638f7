/* sqlite.c -- the durable store: one SQLite file.  The only place that knows SQLite.
 *
 * WAL with synchronous FULL: a commit that was acknowledged survives a power cut; transactions of
 * log entries only are written with NORMAL, which survives a crash of the process.  Readers come
 * beside the one writer, by memory that they share: so the file is on a local file system.  Tables:
 *   meta(key, value)          generation, n (the epoch), revision
 *   records(kind, key, body)  body: record_codec.h
 *   log(number, body)
 * The schema's version is user_version; migrations[] brings an older file up, step by step, each in
 * a transaction of its own.  application_id tells our files from others'. */
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "controller/store/backend.h"
#include "controller/store/record_codec.h"
#include "controller/store/record_fields.h"
#include "controller/store/state_lock.h"

enum {
    APPLICATION_ID = 0x4241544e, /* "BATN" */
    BUSY_MS = 2000,
    SQL_BYTES = 256,
};

/* migrations[i] brings a file from version i to i + 1. */
static const char *const migrations[] = {
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE records(kind TEXT NOT NULL, key TEXT NOT NULL, body TEXT NOT NULL,"
    " PRIMARY KEY(kind, key)) WITHOUT ROWID;"
    "CREATE TABLE log(number INTEGER PRIMARY KEY, body TEXT NOT NULL);"
    "INSERT INTO meta VALUES('generation', 0), ('n', 0), ('revision', 0);",
};
enum { SCHEMA_VERSION = sizeof(migrations) / sizeof(migrations[0]) };

enum statement {
    STATEMENT_META_GET,
    STATEMENT_META_SET,
    STATEMENT_PUT,
    STATEMENT_DELETE,
    STATEMENT_LOG_PUT,
    STATEMENT_LOG_TRIM,
    STATEMENT_COUNT
};

static const char *const statements[STATEMENT_COUNT] = {
    [STATEMENT_META_GET] = "SELECT value FROM meta WHERE key = ?1",
    [STATEMENT_META_SET] = "UPDATE meta SET value = ?2 WHERE key = ?1",
    [STATEMENT_PUT] = "INSERT OR REPLACE INTO records(kind, key, body) VALUES(?1, ?2, ?3)",
    [STATEMENT_DELETE] = "DELETE FROM records WHERE kind = ?1 AND key = ?2",
    [STATEMENT_LOG_PUT] = "INSERT OR REPLACE INTO log(number, body) VALUES(?1, ?2)",
    [STATEMENT_LOG_TRIM] = "DELETE FROM log WHERE number <= ?1",
};

struct sqlite_store {
    struct store base;
    sqlite3 *db;
    int lock_fd;
    bool full; /* synchronous is FULL now; else NORMAL. */
    uint64_t revision;
    sqlite3_stmt *prepared[STATEMENT_COUNT];
};

static struct sqlite_store *of(struct store *store)
{
    return (struct sqlite_store *)store;
}

/* SQLite tells ENOSPC by a code of its own.  For the others (a quota, a limit on the file's size)
 * only errno is left: run() and finish() clear it first. */
static bool is_no_space(int code)
{
    int number = errno;
    bool io = code == SQLITE_IOERR || code == SQLITE_CANTOPEN;
    return code == SQLITE_FULL || (io && (number == ENOSPC || number == EDQUOT || number == EFBIG));
}

/* What a failed call of SQLite means to us; one place for all of them. */
static struct baton_status failure(sqlite3 *db, const char *what)
{
    int code = sqlite3_errcode(db) & 0xff;
    bool no_space = is_no_space(code);
    const char *message = sqlite3_errmsg(db);
    if (no_space) {
        return baton_status_hint(baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_NO_SPACE,
                                                   "store: %s: the disk is full (%s)", what,
                                                   message),
                                 "make room on the store's disk; nothing was changed");
    }
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) {
        return baton_status_hint(baton_status_make(BATON_DATA_LOSS, BATON_REASON_MALFORMED,
                                                   "store: %s: the file is damaged, or not a Baton "
                                                   "store (%s)",
                                                   what, message),
                                 "restore it from a backup, or move it away to start anew");
    }
    return baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE, "store: %s: %s",
                             what, message);
}

static struct baton_status run(sqlite3 *db, const char *sql, const char *what)
{
    errno = 0;
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? baton_status_ok()
                                                                : failure(db, what);
}

static struct baton_status read_number(sqlite3 *db, const char *sql, int64_t *out)
{
    sqlite3_stmt *statement = NULL;
    struct baton_status st = baton_status_ok();
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW) {
        st = failure(db, "read");
    } else {
        *out = sqlite3_column_int64(statement, 0);
    }
    (void)sqlite3_finalize(statement);
    return st;
}

/* Runs a prepared statement that gives no row. */
static struct baton_status finish(struct sqlite_store *store, enum statement which,
                                  const char *what)
{
    sqlite3_stmt *statement = store->prepared[which];
    errno = 0;
    struct baton_status st =
        sqlite3_step(statement) == SQLITE_DONE ? baton_status_ok() : failure(store->db, what);
    (void)sqlite3_reset(statement);
    (void)sqlite3_clear_bindings(statement);
    return st;
}

static struct baton_status meta_get(struct sqlite_store *store, const char *key, uint64_t *out)
{
    sqlite3_stmt *statement = store->prepared[STATEMENT_META_GET];
    struct baton_status st = baton_status_ok();
    (void)sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
    if (sqlite3_step(statement) == SQLITE_ROW) {
        *out = (uint64_t)sqlite3_column_int64(statement, 0);
    } else {
        st = failure(store->db, "read meta");
        if (sqlite3_errcode(store->db) == SQLITE_DONE) {
            st = baton_status_make(BATON_DATA_LOSS, BATON_REASON_MALFORMED, "store: meta has no %s",
                                   key);
        }
    }
    (void)sqlite3_reset(statement);
    return st;
}

static struct baton_status meta_set(struct sqlite_store *store, const char *key, uint64_t value)
{
    sqlite3_stmt *statement = store->prepared[STATEMENT_META_SET];
    (void)sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(statement, 2, (sqlite3_int64)value);
    return finish(store, STATEMENT_META_SET, "write meta");
}

static struct baton_status meta_epoch(struct sqlite_store *store, struct epoch *out)
{
    struct baton_status st = meta_get(store, "generation", &out->generation);
    if (baton_ok(&st)) {
        st = meta_get(store, "n", &out->n);
    }
    return st;
}

static struct baton_status set_synchronous(struct sqlite_store *store, bool full)
{
    if (store->full == full) {
        return baton_status_ok();
    }
    store->full = full;
    return run(store->db, full ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL",
               "set synchronous");
}

static struct baton_status begin(struct sqlite_store *store, bool full)
{
    struct baton_status st = set_synchronous(store, full);
    return baton_ok(&st) ? run(store->db, "BEGIN IMMEDIATE", "begin") : st;
}

/* Ends the transaction: commits if 'st' is OK, else takes everything back.  Durable with FULL. */
static struct baton_status end(struct sqlite_store *store, struct baton_status st)
{
    if (baton_ok(&st)) {
        st = run(store->db, "COMMIT", "commit");
    }
    if (!baton_ok(&st) && !sqlite3_get_autocommit(store->db)) {
        (void)sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
    }
    return st;
}

static void sqlite_close(struct store *base)
{
    struct sqlite_store *store = of(base);
    for (int i = 0; i < STATEMENT_COUNT; i++) {
        (void)sqlite3_finalize(store->prepared[i]);
    }
    (void)sqlite3_close(store->db);
    if (store->lock_fd >= 0) {
        state_lock_release(store->lock_fd);
    }
    free(store);
}

static struct baton_status log_next(struct sqlite_store *store, uint64_t *out)
{
    int64_t last = 0;
    struct baton_status st =
        read_number(store->db, "SELECT coalesce(max(number), 0) FROM log", &last);
    *out = (uint64_t)last + 1;
    return st;
}

static struct baton_status sqlite_acquire_epoch(struct store *base, struct store_start *out)
{
    struct sqlite_store *store = of(base);
    struct store_start start = { .revision = store->revision };
    struct baton_status st = begin(store, true);
    if (!baton_ok(&st)) {
        return st;
    }
    st = meta_epoch(store, &start.epoch);
    start.epoch.n++;
    if (baton_ok(&st)) {
        st = meta_set(store, "n", start.epoch.n);
    }
    if (baton_ok(&st)) {
        st = log_next(store, &start.log_next_number);
    }
    st = end(store, st);
    if (baton_ok(&st)) {
        *out = start;
    }
    return st;
}

static struct baton_status sqlite_raise_generation(struct store *base, uint64_t floor)
{
    struct sqlite_store *store = of(base);
    struct epoch epoch = { 0 };
    struct baton_status st = begin(store, true);
    if (!baton_ok(&st)) {
        return st;
    }
    st = meta_epoch(store, &epoch);
    if (baton_ok(&st)) {
        uint64_t above = floor > epoch.generation ? floor : epoch.generation;
        st = meta_set(store, "generation", above + 1);
    }
    if (baton_ok(&st)) {
        st = meta_set(store, "n", 0);
    }
    return end(store, st);
}

static struct baton_status scan_row(sqlite3_stmt *statement, store_visit_text_fn visit,
                                    void *context)
{
    const char *word = (const char *)sqlite3_column_text(statement, 0);
    const char *key = (const char *)sqlite3_column_text(statement, 1);
    const char *text = (const char *)sqlite3_column_text(statement, 2);
    return visit(context, word == NULL ? "" : word, key == NULL ? "" : key,
                 text == NULL ? "" : text);
}

static struct baton_status sqlite_scan(struct store *base, store_visit_text_fn visit, void *context)
{
    struct sqlite_store *store = of(base);
    sqlite3_stmt *statement = NULL;
    struct baton_status st = baton_status_ok();
    const char *sql = "SELECT kind, key, body FROM records ORDER BY kind, key";
    if (sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL) != SQLITE_OK) {
        return failure(store->db, "load");
    }
    int code = sqlite3_step(statement);
    while (baton_ok(&st) && code == SQLITE_ROW) {
        st = scan_row(statement, visit, context);
        code = sqlite3_step(statement);
    }
    if (baton_ok(&st) && code != SQLITE_DONE) {
        st = failure(store->db, "load");
    }
    (void)sqlite3_finalize(statement);
    return st;
}

static struct baton_status no_memory(void)
{
    return baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
                             "store: out of memory");
}

static struct baton_status write_op(struct sqlite_store *store, const struct record_op *op)
{
    enum statement which = op->remove ? STATEMENT_DELETE : STATEMENT_PUT;
    sqlite3_stmt *statement = store->prepared[which];
    char *text = NULL;
    (void)sqlite3_bind_text(statement, 1, record_kind_word(op->record.kind), -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(statement, 2, op->key, -1, SQLITE_STATIC);
    if (!op->remove) {
        text = record_encode(op->record);
        if (text == NULL) {
            (void)sqlite3_clear_bindings(statement);
            return no_memory();
        }
        (void)sqlite3_bind_text(statement, 3, text, -1, SQLITE_STATIC);
    }
    struct baton_status st = finish(store, which, "write a record");
    free(text);
    return st;
}

static struct baton_status write_entry(struct sqlite_store *store, const struct log_entry *entry)
{
    sqlite3_stmt *statement = store->prepared[STATEMENT_LOG_PUT];
    char *text = log_entry_encode(entry);
    if (text == NULL) {
        return no_memory();
    }
    (void)sqlite3_bind_int64(statement, 1, (sqlite3_int64)entry->number);
    (void)sqlite3_bind_text(statement, 2, text, -1, SQLITE_STATIC);
    struct baton_status st = finish(store, STATEMENT_LOG_PUT, "write an event");
    free(text);
    return st;
}

static struct baton_status trim_log(struct sqlite_store *store, uint64_t last)
{
    if (last <= BATON_EVENTS_KEPT_MAX) {
        return baton_status_ok();
    }
    (void)sqlite3_bind_int64(store->prepared[STATEMENT_LOG_TRIM], 1,
                             (sqlite3_int64)(last - BATON_EVENTS_KEPT_MAX));
    return finish(store, STATEMENT_LOG_TRIM, "trim the events");
}

static struct baton_status write_all(struct sqlite_store *store,
                                     const struct transaction *transaction)
{
    struct baton_status st = baton_status_ok();
    for (size_t i = 0; baton_ok(&st) && i < transaction->ops_count; i++) {
        st = write_op(store, &transaction->ops[i]);
    }
    size_t entries = transaction->entries_count;
    for (size_t i = 0; baton_ok(&st) && i < entries; i++) {
        st = write_entry(store, &transaction->entries[i]);
    }
    if (baton_ok(&st) && entries > 0) {
        st = trim_log(store, transaction->entries[entries - 1].number);
    }
    return baton_ok(&st) ? meta_set(store, "revision", transaction->revision) : st;
}

/* Invariant 9: the epoch is compared inside the transaction that writes. */
static struct baton_status sqlite_commit(struct store *base, const struct transaction *transaction)
{
    struct sqlite_store *store = of(base);
    struct epoch stored = { 0 };
    struct baton_status st = begin(store, transaction->sync);
    if (!baton_ok(&st)) {
        return st;
    }
    st = meta_epoch(store, &stored);
    if (baton_ok(&st)) {
        st = store_check(stored, store->revision, transaction);
    }
    if (baton_ok(&st)) {
        st = write_all(store, transaction);
    }
    st = end(store, st);
    if (baton_ok(&st)) {
        store->revision = transaction->revision;
    }
    return st;
}

static struct baton_status sqlite_list_log(struct store *base, uint64_t after, uint32_t limit,
                                           store_visit_log_fn visit, void *context)
{
    struct sqlite_store *store = of(base);
    sqlite3_stmt *statement = NULL;
    struct baton_status st = baton_status_ok();
    const char *sql = "SELECT body FROM log WHERE number > ?1 ORDER BY number LIMIT ?2";
    if (sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL) != SQLITE_OK) {
        return failure(store->db, "list events");
    }
    (void)sqlite3_bind_int64(statement, 1, after > INT64_MAX ? INT64_MAX : (sqlite3_int64)after);
    (void)sqlite3_bind_int64(statement, 2, limit);
    int code = sqlite3_step(statement);
    for (; baton_ok(&st) && code == SQLITE_ROW; code = sqlite3_step(statement)) {
        struct log_entry entry;
        const char *text = (const char *)sqlite3_column_text(statement, 0);
        st = log_entry_decode(text == NULL ? "" : text, &entry);
        if (baton_ok(&st)) {
            visit(context, &entry);
        }
    }
    if (baton_ok(&st) && code != SQLITE_DONE) {
        st = failure(store->db, "list events");
    }
    (void)sqlite3_finalize(statement);
    return st;
}

static uint64_t sqlite_revision(const struct store *base)
{
    return ((const struct sqlite_store *)base)->revision;
}

static const struct store_backend backend = {
    .close = sqlite_close,
    .acquire_epoch = sqlite_acquire_epoch,
    .raise_generation = sqlite_raise_generation,
    .scan = sqlite_scan,
    .commit = sqlite_commit,
    .list_log = sqlite_list_log,
    .revision = sqlite_revision,
};

static struct baton_status configure(struct sqlite_store *store)
{
    (void)sqlite3_busy_timeout(store->db, BUSY_MS);
    /* Not locking_mode=EXCLUSIVE: readers come along (state_lock.c keeps other writers away). */
    struct baton_status st = run(store->db, "PRAGMA journal_mode=WAL", "set WAL");
    if (baton_ok(&st)) {
        /* The cache (KiB) holds the records of some thousands of groups, else each commit reads pages again. */
        st = run(store->db,
                 "PRAGMA synchronous=FULL; PRAGMA journal_size_limit=4194304;"
                 "PRAGMA cache_size=-32768",
                 "set synchronous");
    }
    store->full = true;
    return st;
}

static struct baton_status check_whole(struct sqlite_store *store)
{
    sqlite3_stmt *statement = NULL;
    struct baton_status st = baton_status_ok();
    if (sqlite3_prepare_v2(store->db, "PRAGMA quick_check(1)", -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW) {
        st = failure(store->db, "check");
    } else {
        const char *text = (const char *)sqlite3_column_text(statement, 0);
        if (text == NULL || strcmp(text, "ok") != 0) {
            st = baton_status_hint(baton_status_make(BATON_DATA_LOSS, BATON_REASON_MALFORMED,
                                                     "store: the file is damaged: %.200s",
                                                     text == NULL ? "" : text),
                                   "restore it from a backup, or move it away to start anew");
        }
    }
    (void)sqlite3_finalize(statement);
    return st;
}

/* Whose file it is, and of which version. */
static struct baton_status check_version(struct sqlite_store *store, const char *path,
                                         int64_t *out_version)
{
    int64_t tables = 0;
    int64_t application = 0;
    struct baton_status st = read_number(store->db, "SELECT count(*) FROM sqlite_master", &tables);
    if (baton_ok(&st)) {
        st = read_number(store->db, "PRAGMA application_id", &application);
    }
    if (baton_ok(&st)) {
        st = read_number(store->db, "PRAGMA user_version", out_version);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    if (tables > 0 && application != APPLICATION_ID) {
        return baton_status_hint(baton_status_make(BATON_FAILED_PRECONDITION,
                                                   BATON_REASON_INCOMPATIBLE,
                                                   "store: %.200s is not a Baton store", path),
                                 "give another path; the file was left alone");
    }
    if (*out_version > SCHEMA_VERSION) {
        return baton_status_hint(
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                              "store: %.200s has schema %lld, this release knows up to %d", path,
                              (long long)*out_version, (int)SCHEMA_VERSION),
            "start the release that wrote it, or move the file away to start anew");
    }
    return st;
}

static struct baton_status migrate(struct sqlite_store *store, int64_t version)
{
    struct baton_status st = baton_status_ok();
    for (; baton_ok(&st) && version < SCHEMA_VERSION; version++) {
        char sql[SQL_BYTES];
        st = begin(store, true);
        if (!baton_ok(&st)) {
            return st;
        }
        st = run(store->db, migrations[version], "migrate");
        (void)snprintf(sql, sizeof(sql), "PRAGMA user_version=%lld; PRAGMA application_id=%d",
                       (long long)version + 1, (int)APPLICATION_ID);
        if (baton_ok(&st)) {
            st = run(store->db, sql, "migrate");
        }
        st = end(store, st);
    }
    return st;
}

static struct baton_status prepare(struct sqlite_store *store)
{
    for (int i = 0; i < STATEMENT_COUNT; i++) {
        if (sqlite3_prepare_v3(store->db, statements[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &store->prepared[i], NULL) != SQLITE_OK) {
            return failure(store->db, "prepare");
        }
    }
    return baton_status_ok();
}

/* A store that was just made gets its generation. */
static struct baton_status start_generation(struct sqlite_store *store, uint64_t wall_ns)
{
    struct epoch epoch = { 0 };
    struct baton_status st = meta_epoch(store, &epoch);
    if (!baton_ok(&st) || epoch.generation != 0) {
        return st;
    }
    st = begin(store, true);
    if (!baton_ok(&st)) {
        return st;
    }
    return end(store, meta_set(store, "generation", store_first_generation(wall_ns)));
}

static struct baton_status open_all(struct sqlite_store *store, const char *path, uint64_t wall_ns)
{
    int64_t version = 0;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    struct baton_status st = state_lock_take(path, &store->lock_fd);
    if (!baton_ok(&st)) {
        return st;
    }
    if (sqlite3_open_v2(path, &store->db, flags, NULL) != SQLITE_OK) {
        return store->db == NULL ? no_memory() : failure(store->db, path);
    }
    st = check_version(store, path, &version);
    if (baton_ok(&st)) {
        st = configure(store);
    }
    if (baton_ok(&st)) {
        st = check_whole(store);
    }
    if (baton_ok(&st)) {
        st = migrate(store, version);
    }
    if (baton_ok(&st)) {
        st = prepare(store);
    }
    if (baton_ok(&st)) {
        st = start_generation(store, wall_ns);
    }
    return baton_ok(&st) ? meta_get(store, "revision", &store->revision) : st;
}

struct baton_status sqlite_store_open(const char *path, uint64_t wall_ns, struct store **out)
{
    struct sqlite_store *store = calloc(1, sizeof(*store));
    if (store == NULL) {
        return no_memory();
    }
    store->base.backend = &backend;
    store->lock_fd = -1;
    struct baton_status st = open_all(store, path, wall_ns);
    if (!baton_ok(&st)) {
        sqlite_close(&store->base);
        return st;
    }
    *out = &store->base;
    return st;
}

/* --- a reader --- */

/* The snapshot is that of the first read after BEGIN. */
static struct baton_status begin_reading(struct sqlite_store *store, struct store_start *out)
{
    struct baton_status st = run(store->db, "BEGIN", "begin");
    if (baton_ok(&st)) {
        st = meta_epoch(store, &out->epoch);
    }
    if (baton_ok(&st)) {
        st = meta_get(store, "revision", &store->revision);
    }
    if (baton_ok(&st)) {
        st = log_next(store, &out->log_next_number);
    }
    out->revision = store->revision;
    return st;
}

static struct baton_status open_reading(struct sqlite_store *store, const char *path,
                                        struct store_start *out)
{
    int64_t version = 0;
    if (access(path, F_OK) != 0) {
        return baton_status_errno(errno, "open", path);
    }
    if (sqlite3_open_v2(path, &store->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) !=
        SQLITE_OK) {
        return store->db == NULL ? no_memory() : failure(store->db, path);
    }
    (void)sqlite3_busy_timeout(store->db, BUSY_MS);
    struct baton_status st = check_version(store, path, &version);
    if (baton_ok(&st) && version < SCHEMA_VERSION) {
        return baton_status_hint(
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                              "store: %.200s has schema %lld, and this release reads only %d", path,
                              (long long)version, (int)SCHEMA_VERSION),
            "start this release's controller on it once");
    }
    if (baton_ok(&st)) {
        st = check_whole(store);
    }
    if (baton_ok(&st)) {
        st = prepare(store);
    }
    return baton_ok(&st) ? begin_reading(store, out) : st;
}

struct baton_status sqlite_store_open_reader(const char *path, struct store **out,
                                             struct store_start *out_start)
{
    struct sqlite_store *store = calloc(1, sizeof(*store));
    if (store == NULL) {
        return no_memory();
    }
    store->base.backend = &backend;
    store->lock_fd = -1;
    struct baton_status st = open_reading(store, path, out_start);
    if (!baton_ok(&st)) {
        sqlite_close(&store->base);
        return st;
    }
    *out = &store->base;
    return st;
}
