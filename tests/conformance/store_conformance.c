/* store_conformance.c -- what every store must do, run against each backend.
 *
 * A plain program (also for ThreadSanitizer builds): prints one line a case and exits 0 when all
 * hold. The last cases are of SQLite only: a full disk, a second owner, files that are not ours; what
 * can befall etcd is in etcd_faults.c. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/base/random.h"
#include "controller/store/store.h"
#include "tests/conformance/etcd_rig.h"
#include "tests/conformance/patience.h"

#define CHECK(condition_)                                                                          \
    do {                                                                                           \
        if (!(condition_)) {                                                                       \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition_);                       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define WALL_NS (UINT64_C(1700000000) * 1000000000)

enum { KILL_ROUNDS = 25, KILL_RECORDS = 16, SKIPPED = 77 };

static char folder[] = P_tmpdir "/baton-store-XXXXXX";
static struct etcd_rig etcd; /* One member; where etcd is installed. */

enum kind { MEMORY, SQLITE, ETCD, ETCD_SMALL };
static const char *const kind_names[] = { "memory", "sqlite", "etcd", "etcd in parts" };

/* One store under test; reopens it where the backend is durable. */
struct bench {
    char address[1024];
    enum kind kind;
    struct store *store;
    struct store_start start;
};

static void must(struct baton_status st)
{
    if (!baton_ok(&st)) {
        fprintf(stderr, "%s %s: %s\n", baton_code_name(st.code), baton_reason_name(st.reason),
                st.message);
    }
    CHECK(baton_ok(&st));
}

static void lead(struct bench *bench)
{
    must(store_acquire_epoch(bench->store, &bench->start));
}

static struct bench bench_of(enum kind kind, const char *name)
{
    struct bench bench = { .kind = kind };
    char tail[128];
    switch (kind) {
    case MEMORY: (void)snprintf(bench.address, sizeof(bench.address), "memory:"); break;
    case SQLITE:
        (void)snprintf(bench.address, sizeof(bench.address), "sqlite:%s/%s.db", folder, name);
        break;
    case ETCD:
    case ETCD_SMALL: /* Larger commits take several requests. */
        (void)snprintf(tail, sizeof(tail), "/%s/%d%s", name, (int)kind,
                       kind == ETCD ? "" : "?maxTxnOps=8&maxRequestBytes=131072");
        etcd_rig_address(&etcd, tail, bench.address);
        break;
    }
    must(store_open(bench.address, WALL_NS, &bench.store));
    lead(&bench);
    return bench;
}

static void reopen(struct bench *bench)
{
    if (bench->kind != MEMORY) {
        store_close(bench->store);
        must(store_open(bench->address, WALL_NS, &bench->store));
    }
    lead(bench);
}

static struct model_record model_of(const char *name, uint64_t revision)
{
    struct model_record model = { .revision = revision, .newest_seq = revision };
    (void)snprintf(model.name, sizeof(model.name), "%s", name);
    return model;
}

static struct record_op put_model(const struct model_record *model)
{
    struct record_op op = { .record = { RECORD_MODEL, model } };
    record_key(op.record, op.key);
    return op;
}

static struct record_op remove_model(const char *name)
{
    struct record_op op = { .remove = true, .record = { RECORD_MODEL, NULL } };
    (void)snprintf(op.key, sizeof(op.key), "%s", name);
    return op;
}

static struct transaction transaction_of(const struct bench *bench, uint64_t revision,
                                         const struct record_op *ops, size_t count)
{
    return (struct transaction){ .epoch = bench->start.epoch,
                                 .revision = revision,
                                 .sync = true,
                                 .ops = ops,
                                 .ops_count = count };
}

struct loaded {
    size_t count;
    union record_body last;
    enum record_kind last_kind;
    uint64_t models_seq[64]; /* newest_seq of model "m<i>". */
};

static struct baton_status note(void *context, struct record_ref record)
{
    struct loaded *loaded = context;
    loaded->count++;
    loaded->last_kind = record.kind;
    if (record.kind == RECORD_MODEL) {
        const struct model_record *model = record.body;
        loaded->last.model = *model;
        int place = atoi(model->name + 1);
        loaded->models_seq[place >= 0 && place < 64 ? place : 0] = model->newest_seq;
    } else if (record.kind == RECORD_VERSION) {
        memcpy(&loaded->last.version, record.body, sizeof(loaded->last.version));
    }
    return baton_status_ok();
}

static struct loaded load(const struct bench *bench)
{
    struct loaded loaded = { 0 };
    must(store_load(bench->store, note, &loaded));
    return loaded;
}

/* What was put is there, changed by a second put, gone after a delete; also after reopening. */
static void put_change_delete(enum kind kind)
{
    struct bench bench = bench_of(kind, "put");
    struct model_record model = model_of("m1", 1);
    struct record_op op = put_model(&model);
    struct transaction transaction = transaction_of(&bench, 1, &op, 1);
    must(store_commit(bench.store, &transaction));
    reopen(&bench);
    struct loaded loaded = load(&bench);
    CHECK(loaded.count == 1 && loaded.models_seq[1] == 1);
    CHECK(memcmp(&loaded.last.model, &model, sizeof(model)) == 0);
    model.newest_seq = 5;
    transaction = transaction_of(&bench, 2, &op, 1);
    must(store_commit(bench.store, &transaction));
    reopen(&bench);
    loaded = load(&bench);
    CHECK(loaded.count == 1 && loaded.models_seq[1] == 5);
    struct record_op gone = remove_model("m1");
    transaction = transaction_of(&bench, 3, &gone, 1);
    must(store_commit(bench.store, &transaction));
    reopen(&bench);
    CHECK(load(&bench).count == 0);
    CHECK(store_revision(bench.store) == 3);
    store_close(bench.store);
}

/* A version with sources and numbers at the edges comes back as it was. */
static void edges_round_trip(enum kind kind)
{
    struct bench bench = bench_of(kind, "edges");
    struct version_record version = { .seq = UINT64_MAX,
                                      .bytes = UINT64_C(1) << 63,
                                      .state = VERSION_STATE_PUBLISHED,
                                      .sources_count = BATON_SOURCES_PER_VERSION_MAX };
    memset(version.uid, 'a', sizeof(version.uid) - 1);
    memset(version.model, 'm', sizeof(version.model) - 1);
    (void)snprintf(version.reason, sizeof(version.reason), "a \"quoted\" line\n\xc3\xa9 and \x01");
    for (int i = 0; i < BATON_SOURCES_PER_VERSION_MAX; i++) {
        memset(version.sources[i].location, '/' + i, BATON_PATH_BYTES - 1);
        (void)snprintf(version.sources[i].backend, RECORD_WORD_BYTES, "b%d", i);
    }
    struct record_op op = { .record = { RECORD_VERSION, &version } };
    record_key(op.record, op.key);
    struct transaction transaction = transaction_of(&bench, 1, &op, 1);
    must(store_commit(bench.store, &transaction));
    reopen(&bench);
    struct loaded loaded = load(&bench);
    CHECK(loaded.last_kind == RECORD_VERSION);
    CHECK(memcmp(&loaded.last.version, &version, sizeof(version)) == 0);
    store_close(bench.store);
}

/* Epochs rise with each leadership, generations when they are raised; both outlive the process. */
static void epochs_rise(enum kind kind)
{
    struct bench bench = bench_of(kind, "epoch");
    struct epoch first = bench.start.epoch;
    CHECK(first.generation == 1700000000 && first.n == 1);
    reopen(&bench);
    CHECK(bench.start.epoch.generation == first.generation && bench.start.epoch.n == 2);
    must(store_raise_generation(bench.store, first.generation + 10));
    reopen(&bench);
    CHECK(bench.start.epoch.generation == first.generation + 11 && bench.start.epoch.n == 1);
    must(store_raise_generation(bench.store, 3));
    reopen(&bench);
    CHECK(bench.start.epoch.generation == first.generation + 12);
    store_close(bench.store);
}

/* Fencing: a write of an earlier leadership is refused and changes nothing. */
static void stale_epoch_is_refused(enum kind kind)
{
    struct bench bench = bench_of(kind, "fence");
    struct model_record model = model_of("m1", 1);
    struct record_op op = put_model(&model);
    struct transaction old = transaction_of(&bench, 1, &op, 1);
    lead(&bench);
    struct baton_status st = store_commit(bench.store, &old);
    CHECK(st.code == BATON_ABORTED && st.reason == BATON_REASON_STALE_EPOCH);
    CHECK(load(&bench).count == 0 && store_revision(bench.store) == 0);
    struct transaction mine = transaction_of(&bench, 1, &op, 1);
    must(store_commit(bench.store, &mine));
    st = store_commit(bench.store, &mine);
    CHECK(st.code == BATON_ABORTED && st.reason == BATON_REASON_STALE_REVISION);
    must(store_raise_generation(bench.store, 0));
    mine.revision = 9;
    st = store_commit(bench.store, &mine);
    CHECK(st.reason == BATON_REASON_STALE_EPOCH);
    store_close(bench.store);
}

struct listed {
    uint64_t first;
    uint64_t last;
    size_t count;
    char message[BATON_TEXT_BYTES];
};

static void note_entry(void *context, const struct log_entry *entry)
{
    struct listed *listed = context;
    listed->first = listed->count == 0 ? entry->number : listed->first;
    CHECK(listed->count == 0 || entry->number == listed->last + 1);
    listed->last = entry->number;
    listed->count++;
    (void)snprintf(listed->message, sizeof(listed->message), "%s", entry->message);
}

static struct listed list(const struct bench *bench, uint64_t after, uint32_t limit)
{
    struct listed listed = { 0 };
    must(store_list_log(bench->store, after, limit, note_entry, &listed));
    return listed;
}

static void write_log(struct bench *bench, uint64_t first, size_t count)
{
    struct log_entry *entries = calloc(count, sizeof(*entries));
    CHECK(entries != NULL);
    for (size_t i = 0; i < count; i++) {
        entries[i].number = first + i;
        (void)snprintf(entries[i].message, BATON_TEXT_BYTES, "entry %zu", (size_t)first + i);
    }
    struct transaction transaction = { .epoch = bench->start.epoch,
                                       .revision = store_revision(bench->store) + 1,
                                       .entries = entries,
                                       .entries_count = count };
    must(store_commit(bench->store, &transaction));
    free(entries);
}

/* The event log keeps its order, its numbers go on after a restart, and it is bounded. */
static void log_is_bounded(enum kind kind)
{
    struct bench bench = bench_of(kind, "log");
    CHECK(bench.start.log_next_number == 1 && list(&bench, 0, 100).count == 0);
    write_log(&bench, 1, 10);
    reopen(&bench);
    CHECK(bench.start.log_next_number == 11);
    struct listed listed = list(&bench, 4, 3);
    CHECK(listed.first == 5 && listed.last == 7 && strcmp(listed.message, "entry 7") == 0);
    for (uint64_t next = 11; next < 11 + BATON_EVENTS_KEPT_MAX; next += 1024) {
        write_log(&bench, next, 1024);
    }
    listed = list(&bench, 0, UINT32_MAX);
    CHECK(listed.count == BATON_EVENTS_KEPT_MAX && listed.last == BATON_EVENTS_KEPT_MAX + 10);
    CHECK(list(&bench, UINT64_MAX, 10).count == 0);
    store_close(bench.store);
}

static struct baton_status stop(void *context, struct record_ref record)
{
    (void)context;
    (void)record;
    return baton_status_make(BATON_INTERNAL, BATON_REASON_NONE, "enough");
}

/* A visitor may end a load with a failure of its own. */
static void visitor_may_stop(enum kind kind)
{
    struct bench bench = bench_of(kind, "visit");
    struct model_record model = model_of("m1", 1);
    struct record_op op = put_model(&model);
    struct transaction transaction = transaction_of(&bench, 1, &op, 1);
    must(store_commit(bench.store, &transaction));
    struct baton_status st = store_load(bench.store, stop, NULL);
    CHECK(st.code == BATON_INTERNAL && strcmp(st.message, "enough") == 0);
    store_close(bench.store);
}

/* The child commits one transaction after the other, each giving all records the same number, and
 * writes the number to shared memory once its commit was acknowledged. */
static void commit_for_ever(struct bench *bench, volatile uint64_t *acknowledged)
{
    for (uint64_t number = *acknowledged + 1;; number++) {
        struct model_record models[KILL_RECORDS];
        struct record_op ops[KILL_RECORDS];
        for (int i = 0; i < KILL_RECORDS; i++) {
            char name[8];
            (void)snprintf(name, sizeof(name), "m%d", i);
            models[i] = model_of(name, number);
            ops[i] = put_model(&models[i]);
        }
        uint64_t revision = store_revision(bench->store) + 1;
        struct transaction transaction = transaction_of(bench, revision, ops, KILL_RECORDS);
        struct baton_status st = store_commit(bench->store, &transaction);
        if (!baton_ok(&st)) {
            _exit(1);
        }
        *acknowledged = number;
    }
}

static void kill_one(const struct bench *of, volatile uint64_t *acknowledged,
                     struct baton_random *random)
{
    uint64_t wanted = *acknowledged + 1 + baton_random_below(random, 20);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct bench bench = *of;
        must(store_open(bench.address, WALL_NS, &bench.store));
        lead(&bench);
        commit_for_ever(&bench, acknowledged);
    }
    while (*acknowledged < wanted) {
        CHECK(waitpid(child, NULL, WNOHANG) == 0);
        (void)usleep((useconds_t)baton_random_below(random, 2000));
    }
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(waitpid(child, NULL, 0) == child);
}

/* kill -9 in the middle: no acknowledged commit is lost, no transaction is there by half. */
static void killed_writer_loses_nothing(enum kind kind)
{
    volatile uint64_t *acknowledged =
        mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(acknowledged != MAP_FAILED);
    struct bench bench = bench_of(kind, "kill");
    store_close(bench.store);
    struct baton_random random;
    baton_random_seed(&random, 7);
    for (int round = 0; round < KILL_ROUNDS; round++) {
        kill_one(&bench, acknowledged, &random);
        must(store_open(bench.address, WALL_NS, &bench.store));
        lead(&bench);
        struct loaded loaded = load(&bench);
        store_close(bench.store);
        CHECK(loaded.count == KILL_RECORDS);
        CHECK(loaded.models_seq[0] >= *acknowledged);
        for (int i = 1; i < KILL_RECORDS; i++) {
            CHECK(loaded.models_seq[i] == loaded.models_seq[0]);
        }
        *acknowledged = loaded.models_seq[0];
    }
    CHECK(munmap((void *)acknowledged, sizeof(uint64_t)) == 0);
}

/* Commits until it is refused; what it says, and that nothing was lost by it. */
static uint64_t fill_up(struct bench *bench)
{
    struct model_record model = model_of("m1", 0);
    struct record_op op = put_model(&model);
    struct baton_status st = baton_status_ok();
    uint64_t revision = store_revision(bench->store);
    for (size_t tries = 0; baton_ok(&st); tries++) {
        CHECK(tries < 20000);
        model.newest_seq = revision + 1;
        struct transaction transaction = transaction_of(bench, revision + 1, &op, 1);
        st = store_commit(bench->store, &transaction);
        revision += baton_ok(&st);
    }
    CHECK(st.code == BATON_RESOURCE_EXHAUSTED && st.reason == BATON_REASON_NO_SPACE);
    CHECK(strstr(st.message, "disk is full") != NULL && st.hint[0] != '\0');
    CHECK(store_revision(bench->store) == revision);
    CHECK(load(bench).models_seq[1] == revision);
    return revision;
}

static void commit_again(struct bench *bench, uint64_t revision)
{
    struct model_record model = model_of("m1", revision + 1);
    struct record_op op = put_model(&model);
    struct transaction transaction = transaction_of(bench, revision + 1, &op, 1);
    must(store_commit(bench->store, &transaction));
    reopen(bench);
    CHECK(load(bench).models_seq[1] == revision + 1);
}

/* A file system without room for the next page: a small one, in a mount namespace of our own; only
 * root may make one. */
static void in_small_file_system(void)
{
    char ballast[128];
    char page[4096] = { 0 };
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", folder, "tmpfs", 0, "size=192k") != 0) {
        _exit(SKIPPED);
    }
    struct bench bench = bench_of(SQLITE, "full");
    (void)snprintf(ballast, sizeof(ballast), "%s/ballast", folder);
    int fd = open(ballast, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    while (write(fd, page, sizeof(page)) == (ssize_t)sizeof(page)) {
    }
    (void)close(fd);
    uint64_t revision = fill_up(&bench);
    CHECK(unlink(ballast) == 0);
    commit_again(&bench, revision);
    store_close(bench.store);
    _exit(0);
}

static void full_file_system(void)
{
    int status = 0;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        in_small_file_system();
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == SKIPPED);
    bool ok = WEXITSTATUS(status) == 0;
    printf("%s sqlite full_file_system\n", ok ? "ok" : "skip (not root)");
}

/* A limit on the size of files: a clear refusal, nothing lost, and it works again without it. */
static void full_disk(void)
{
    struct bench bench = bench_of(SQLITE, "limit");
    struct rlimit before;
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    struct rlimit small = { 48 << 10, before.rlim_max };
    (void)signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    uint64_t revision = fill_up(&bench);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    commit_again(&bench, revision);
    store_close(bench.store);
}

/* A second process on the same state is refused with one line that names the first. */
static void second_owner(void)
{
    struct bench bench = bench_of(SQLITE, "owner");
    struct store *other = NULL;
    char pid[32];
    struct baton_status st = store_open(bench.address, WALL_NS, &other);
    CHECK(st.code == BATON_FAILED_PRECONDITION && st.reason == BATON_REASON_IN_USE);
    (void)snprintf(pid, sizeof(pid), "process %ld", (long)getpid());
    CHECK(strstr(st.message, pid) != NULL && strchr(st.message, '\n') == NULL);
    store_close(bench.store);
    must(store_open(bench.address, WALL_NS, &other));
    store_close(other);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* Runs the sqlite3 tool, so that the test does not link the library that only sqlite.c may know. */
static bool sql(const char *path, const char *statement)
{
    char command[512];
    (void)snprintf(command, sizeof(command), "sqlite3 '%s' \"%s\" >/dev/null 2>&1", path,
                   statement);
    return system(command) == 0;
}

static struct baton_status open_path(const char *path)
{
    char address[300];
    struct store *store = NULL;
    (void)snprintf(address, sizeof(address), "sqlite:%s", path);
    struct baton_status st = store_open(address, WALL_NS, &store);
    store_close(store);
    return st;
}

/* Files that are not ours, damaged, or of a later release: refused, and left alone. */
static void foreign_files(void)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/text.db", folder);
    write_file(path, "this is not a database, whatever its name says, and it is long enough\n"
                     "that nobody takes it for an empty file; more words to fill it up ....");
    struct baton_status st = open_path(path);
    CHECK(st.code == BATON_DATA_LOSS);
    struct stat facts;
    CHECK(stat(path, &facts) == 0 && facts.st_size > 100);
    (void)snprintf(path, sizeof(path), "%s/none/x.db", folder);
    st = open_path(path);
    CHECK(st.code == BATON_NOT_FOUND);
    if (!sql("/dev/null", "SELECT 1")) {
        printf("skip foreign schemas: there is no sqlite3 tool\n");
        return;
    }
    (void)snprintf(path, sizeof(path), "%s/foreign.db", folder);
    CHECK(sql(path, "CREATE TABLE t(x)"));
    st = open_path(path);
    CHECK(st.reason == BATON_REASON_INCOMPATIBLE && strstr(st.message, "not a Baton store"));
    (void)snprintf(path, sizeof(path), "%s/later.db", folder);
    st = open_path(path);
    must(st);
    CHECK(sql(path, "PRAGMA user_version=7"));
    st = open_path(path);
    CHECK(st.reason == BATON_REASON_INCOMPATIBLE && strstr(st.message, "schema 7"));
    CHECK(strstr(st.hint, "start the release") != NULL);
    CHECK(sql(path, "PRAGMA user_version=1; INSERT INTO records VALUES('model', 'm', '{')"));
    struct bench bench = { .kind = SQLITE };
    (void)snprintf(bench.address, sizeof(bench.address), "sqlite:%s", path);
    must(store_open(bench.address, WALL_NS, &bench.store));
    struct loaded loaded = { 0 };
    st = store_load(bench.store, note, &loaded);
    CHECK(st.code == BATON_DATA_LOSS && strstr(st.message, "model m") != NULL);
    store_close(bench.store);
}

static void bad_addresses(void)
{
    static const char *const addresses[] = {
        "", "sqlite", "sqlite:", "etcd:x", "etcd:", "/var/x.db"
    };
    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
        struct store *store = NULL;
        struct baton_status st = store_open(addresses[i], WALL_NS, &store);
        CHECK(st.code == BATON_INVALID_ARGUMENT && store == NULL && st.hint[0] != '\0');
    }
    store_close(NULL);
}

struct rule {
    const char *name;
    void (*check)(enum kind kind);
};

static const struct rule rules[] = {
    { "put_change_delete", put_change_delete },
    { "edges_round_trip", edges_round_trip },
    { "epochs_rise", epochs_rise },
    { "stale_epoch_is_refused", stale_epoch_is_refused },
    { "log_is_bounded", log_is_bounded },
    { "visitor_may_stop", visitor_may_stop },
};

static void all_rules(enum kind kind)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        rules[i].check(kind);
        printf("ok %s %s\n", kind_names[kind], rules[i].name);
    }
    if (kind != MEMORY) {
        killed_writer_loses_nothing(kind);
        printf("ok %s killed_writer_loses_nothing\n", kind_names[kind]);
    }
}

static void etcd_rules(void)
{
    etcd_rig_init(&etcd, 1);
    etcd_rig_start(&etcd);
    all_rules(ETCD);
    all_rules(ETCD_SMALL);
    etcd_rig_stop(&etcd);
}

static void clean_up(void)
{
    char command[64];
    (void)snprintf(command, sizeof(command), "rm -rf %s", folder);
    CHECK(system(command) == 0);
}

int main(void)
{
    CHECK(mkdtemp(folder) != NULL);
    all_rules(MEMORY);
    all_rules(SQLITE);
    if (etcd_rig_there()) {
        patience_run("etcd", etcd_rules);
    } else {
        printf("skip store_conformance, etcd: it is not installed (deploy/install.sh test)\n");
    }
    bad_addresses();
    full_disk();
    printf("ok sqlite full_disk\n");
    full_file_system();
    second_owner();
    printf("ok sqlite second_owner\n");
    foreign_files();
    printf("ok sqlite foreign_files\n");
    clean_up();
    return 0;
}
