/* etcd_faults.c -- what can befall a store in etcd, on real members: lost and late messages, a full quota,
 * compaction, wrong credentials and certificates; a cluster's faults are in etcd_members.c.
 *
 * A plain program: prints one line a case and exits 0 when all hold. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "api/base/random.h"
#include "controller/store/etcd_batch.h"
#include "tests/conformance/etcd_bench.h"
#include "tests/conformance/etcd_parts.h"
#include "tests/conformance/etcd_rig.h"

enum { STORM_COMMITS = 150 };

static void wait_for(int (*counter)(const struct etcd_relay *relay), const struct etcd_relay *relay)
{
    uint64_t end = now_ms() + 60000;
    while (counter(relay) == 0) {
        CHECK(now_ms() < end);
        baton_clock_sleep_ns(5 * BATON_NS_PER_MS);
    }
}

static void put(struct etcd_rig *rig, const char *key, const char *value)
{
    struct etcd_text body = { 0 };
    etcd_text_add(&body, "{\"key\":");
    etcd_text_base64(&body, key, strlen(key));
    etcd_text_add(&body, ",\"value\":");
    etcd_text_base64(&body, value, strlen(value));
    etcd_text_add(&body, "}");
    CHECK(!body.failed && strstr(etcd_rig_post(rig, 0, "kv/put", body.data), "header") != NULL);
    etcd_text_free(&body);
}

/* --- one member, and relays before it --- */

/* The answer of a commit is lost: it is found by reading, and counts once. */
static void lost_answer(struct etcd_rig *rig)
{
    char address[ADDRESS_BYTES];
    struct etcd_relay *relay = etcd_relay_start(rig->members[0].port);
    (void)snprintf(address, sizeof(address),
                   "etcd:http://127.0.0.1:%d,http://127.0.0.1:%d/lost?timeoutMs=4000",
                   etcd_relay_port(relay), rig->members[0].port);
    struct bench bench = lead(address);
    must(commit(&bench, 1, 1));
    etcd_relay_set(relay, RELAY_DEAF);
    must(commit(&bench, 2, 1));
    CHECK(etcd_relay_dropped(relay) >= 1 && value_of(&bench, 1) == 2);
    must(commit(&bench, 3, 1));
    CHECK(value_of(&bench, 1) == 3 && store_revision(bench.store) == 3);
    store_close(bench.store);
    etcd_relay_stop(relay);
}

/* A commit that was given up and done again by another way arrives after all, when there is a later one:
 * it changes nothing. */
static void late_request_of_the_leader(struct etcd_rig *rig)
{
    char address[ADDRESS_BYTES];
    struct etcd_relay *relay = etcd_relay_start(rig->members[0].port);
    (void)snprintf(address, sizeof(address),
                   "etcd:http://127.0.0.1:%d,http://127.0.0.1:%d/late?timeoutMs=4000",
                   etcd_relay_port(relay), rig->members[0].port);
    struct bench bench = lead(address);
    must(commit(&bench, 1, 1));
    etcd_relay_set(relay, RELAY_HOLD);
    must(commit(&bench, 2, 1));
    must(commit(&bench, 3, 1));
    etcd_relay_set(relay, RELAY_PASS);
    wait_for(etcd_relay_late, relay);
    CHECK(value_of(&bench, 1) == 3);
    must(commit(&bench, 4, 1));
    store_close(bench.store);
    etcd_relay_stop(relay);
}

/* A leader is cut off with a commit on its way; another one takes over; then the commit arrives.  The
 * first leader was told that it is not known; nobody sees its commit, and it can write no more. */
static void late_request_of_the_deposed(struct etcd_rig *rig)
{
    char address[ADDRESS_BYTES];
    struct etcd_relay *relay = etcd_relay_start(rig->members[0].port);
    (void)snprintf(address, sizeof(address), "etcd:http://127.0.0.1:%d/deposed?timeoutMs=2400",
                   etcd_relay_port(relay));
    struct bench old = lead(address);
    must(commit(&old, 1, 1));
    etcd_relay_set(relay, RELAY_HOLD);
    struct baton_status st = commit(&old, 2, 1);
    CHECK(st.code == BATON_DEADLINE_EXCEEDED && st.reason == BATON_REASON_STORE_UNAVAILABLE);
    CHECK(strstr(st.message, "not known") != NULL);
    etcd_rig_address(rig, "/deposed", address);
    struct bench new = lead(address);
    CHECK(new.start.epoch.n == old.start.epoch.n + 1 && value_of(&new, 1) == 1);
    must(commit(&new, 3, 1));
    etcd_relay_set(relay, RELAY_PASS);
    wait_for(etcd_relay_late, relay);
    CHECK(value_of(&new, 1) == 3);
    must_fail(commit(&old, 4, 1), BATON_ABORTED, BATON_REASON_STALE_EPOCH, "");
    must(commit(&new, 5, 1));
    must(store_acquire_epoch(old.store, &old.start));
    CHECK(value_of(&old, 1) == 5);
    struct loaded loaded = { 0 };
    must_fail(store_load(new.store, note, &loaded), BATON_ABORTED, BATON_REASON_STALE_EPOCH,
              "the store is at epoch");
    must_fail(commit(&new, 6, 1), BATON_ABORTED, BATON_REASON_STALE_EPOCH, "the store is at epoch");
    store_close(old.store);
    store_close(new.store);
    etcd_relay_stop(relay);
}

struct usurper {
    struct etcd_relay *relays[2];
    const char *address;
    struct bench bench;
};

static void *usurp(void *argument)
{
    struct usurper *usurper = argument;
    wait_for(etcd_relay_held, usurper->relays[0]);
    usurper->bench = lead(usurper->address);
    must(commit(&usurper->bench, 3, 1));
    etcd_relay_set(usurper->relays[1], RELAY_PASS);
    return NULL;
}

/* As above, but the first leader reaches etcd again within its commit, when the other one has committed
 * already: it is not known whether its own commit came before that, but that somebody else leads. */
static void deposed_within_a_commit(struct etcd_rig *rig)
{
    char address[ADDRESS_BYTES];
    pthread_t thread;
    struct usurper new = { .relays = { etcd_relay_start(rig->members[0].port),
                                       etcd_relay_start(rig->members[0].port) } };
    (void)snprintf(address, sizeof(address), "etcd:http://127.0.0.1:%d,http://127.0.0.1:%d/hidden",
                   etcd_relay_port(new.relays[0]), etcd_relay_port(new.relays[1]));
    struct bench old = lead(address);
    must(commit(&old, 1, 1));
    etcd_relay_set(new.relays[0], RELAY_HOLD);
    etcd_relay_set(new.relays[1], RELAY_HOLD);
    etcd_rig_address(rig, "/hidden", address);
    new.address = address;
    CHECK(pthread_create(&thread, NULL, usurp, &new) == 0);
    must_fail(commit(&old, 2, 1), BATON_DEADLINE_EXCEEDED, BATON_REASON_STALE_EPOCH,
              "the store is at epoch");
    CHECK(pthread_join(thread, NULL) == 0);
    must_fail(commit(&old, 2, 1), BATON_ABORTED, BATON_REASON_STALE_EPOCH, "");
    CHECK(value_of(&new.bench, 1) == 3);
    must(commit(&new.bench, 4, 1));
    store_close(old.store);
    store_close(new.bench.store);
    etcd_relay_stop(new.relays[0]);
    etcd_relay_stop(new.relays[1]);
}

/* --- duplicates within large commits --- */

/* The first way holds back the requests that have one text, so that they are done by the second way;
 * when one that has the other text comes there, they arrive, and it goes on after them. */
struct trap {
    struct etcd_relay *relays[2];
    char texts[2][ADDRESS_BYTES];
    char address[ADDRESS_BYTES];
    pthread_t thread;
};

static void *spring(void *argument)
{
    struct trap *trap = argument;
    wait_for(etcd_relay_held, trap->relays[1]);
    CHECK(etcd_relay_held(trap->relays[0]) >= 1);
    etcd_relay_set(trap->relays[0], RELAY_PASS);
    wait_for(etcd_relay_late, trap->relays[0]);
    etcd_relay_set(trap->relays[1], RELAY_PASS);
    return NULL;
}

/* The beginning of an operation of etcd on the keys that begin so. */
static void operation(const char *word, const char *key, char out[ADDRESS_BYTES])
{
    struct etcd_text quoted = { 0 };
    etcd_text_base64(&quoted, key, strlen(key) / 3 * 3);
    CHECK(!quoted.failed);
    (void)snprintf(out, ADDRESS_BYTES, "\"%s\":{\"key\":%.*s", word, (int)quoted.size - 1,
                   quoted.data);
    etcd_text_free(&quoted);
}

static void trap_set(struct trap *trap, const struct etcd_rig *rig, const char *prefix)
{
    for (int i = 0; i < 2; i++) {
        trap->relays[i] = etcd_relay_start(rig->members[0].port);
        etcd_relay_hold(trap->relays[i], trap->texts[i]);
    }
    (void)snprintf(trap->address, sizeof(trap->address),
                   "etcd:http://127.0.0.1:%d,http://127.0.0.1:%d%s?maxTxnOps=8",
                   etcd_relay_port(trap->relays[0]), etcd_relay_port(trap->relays[1]), prefix);
    CHECK(pthread_create(&trap->thread, NULL, spring, trap) == 0);
}

/* What the store holds now, and for whoever leads next. */
static void trap_end(struct trap *trap, struct bench *bench, uint64_t value)
{
    CHECK(pthread_join(trap->thread, NULL) == 0);
    CHECK(value_of(bench, RECORDS) == value);
    store_close(bench->store);
    *bench = lead(trap->address);
    CHECK(value_of(bench, RECORDS) == value);
    store_close(bench->store);
    etcd_relay_stop(trap->relays[0]);
    etcd_relay_stop(trap->relays[1]);
}

/* The request that ends a large commit arrives once more when the next one's parts are written, but not
 * decided: it leaves them alone. */
static void late_end_of_a_large_commit(struct etcd_rig *rig)
{
    struct trap trap;
    operation("request_delete_range", "/end/redo", trap.texts[0]);
    operation("request_put", "/end/redo", trap.texts[1]);
    trap_set(&trap, rig, "/end");
    struct bench bench = lead(trap.address);
    must(commit(&bench, 1, RECORDS));
    must(commit(&bench, 2, RECORDS));
    trap_end(&trap, &bench, 2);
}

/* The same of the request that removes what an undecided commit left behind. */
static void late_removal_of_garbage(struct etcd_rig *rig)
{
    struct trap trap;
    operation("request_delete_range", "/old/parts/", trap.texts[0]);
    operation("request_put", "/old/redo", trap.texts[1]);
    trap_set(&trap, rig, "/old");
    put(rig, "/old/parts/00-1/000000", "{}");
    struct bench bench = lead(trap.address);
    must(commit(&bench, 1, RECORDS));
    trap_end(&trap, &bench, 1);
}

/* A model is removed and made again in one step: in two parts of it.  The first part arrives once more
 * before the last one: it does not remove the model again. */
static void late_part(struct etcd_rig *rig)
{
    struct trap trap;
    operation("request_delete_range", "/piece/records/model/m0", trap.texts[0]);
    operation("request_put", "/piece/records/model/m19", trap.texts[1]);
    trap_set(&trap, rig, "/piece");
    struct bench bench = lead(trap.address);
    struct model_record models[RECORDS] = { 0 };
    struct record_op ops[RECORDS + 1] = { 0 };
    for (int i = 0; i < RECORDS; i++) {
        (void)snprintf(models[i].name, sizeof(models[i].name), "m%d", i);
        models[i].newest_seq = 7;
        ops[i + 1].record = (struct record_ref){ RECORD_MODEL, &models[i] };
        record_key(ops[i + 1].record, ops[i + 1].key);
    }
    ops[0] = ops[1];
    ops[0].remove = true;
    struct transaction transaction = {
        .epoch = bench.start.epoch, .revision = 1, .ops = ops, .ops_count = RECORDS + 1
    };
    must(store_commit(bench.store, &transaction));
    trap_end(&trap, &bench, 7);
}

struct storm {
    struct etcd_relay *relays[2];
    _Atomic bool over;
};

static void *blow(void *argument)
{
    struct storm *storm = argument;
    struct baton_random random;
    baton_random_seed(&random, 11);
    while (!atomic_load(&storm->over)) {
        int which = (int)baton_random_below(&random, 2);
        bool deaf = baton_random_below(&random, 2) == 0;
        uint64_t most_ms = deaf ? 40 : 400; /* A try lasts 100. */
        etcd_relay_set(storm->relays[which], deaf ? RELAY_DEAF : RELAY_HOLD);
        if (baton_random_below(&random, 8) == 0) {
            etcd_relay_set(storm->relays[1 - which], RELAY_HOLD);
            most_ms = 1500;
        }
        baton_clock_sleep_ns((1 + baton_random_below(&random, most_ms)) * BATON_NS_PER_MS);
        etcd_relay_set(storm->relays[1 - which], RELAY_PASS);
        etcd_relay_set(storm->relays[which], RELAY_PASS);
        baton_clock_sleep_ns(baton_random_below(&random, 10) * BATON_NS_PER_MS);
    }
    return NULL;
}

/* Opens and leads through the storm, however long it takes. */
static struct bench lead_in_storm(const struct storm *storm)
{
    char address[ADDRESS_BYTES];
    struct bench bench = { 0 };
    struct baton_status st;
    (void)snprintf(address, sizeof(address),
                   "etcd:http://127.0.0.1:%d,http://127.0.0.1:%d/storm?timeoutMs=300&maxTxnOps=8",
                   etcd_relay_port(storm->relays[0]), etcd_relay_port(storm->relays[1]));
    do {
        st = store_open(address, WALL_NS, &bench.store);
    } while (!baton_ok(&st));
    do {
        st = store_acquire_epoch(bench.store, &bench.start);
    } while (!baton_ok(&st));
    return bench;
}

/* Both ways to the member lose answers and hold requests back at random, while one writer commits small
 * and large changes.  What was acknowledged is there, whole; what was refused is not; what is not known
 * is there whole or not at all. */
static void storm(struct etcd_rig *rig)
{
    char calm[ADDRESS_BYTES];
    struct storm storm = { .relays = { etcd_relay_start(rig->members[0].port),
                                       etcd_relay_start(rig->members[0].port) } };
    pthread_t thread;
    uint64_t value = 1;
    int unknown = 0;
    etcd_rig_address(rig, "/storm?maxTxnOps=8", calm);
    struct bench bench = lead(calm);
    must(commit(&bench, value, RECORDS));
    store_close(bench.store);
    CHECK(pthread_create(&thread, NULL, blow, &storm) == 0);
    bench = lead_in_storm(&storm);
    for (int i = 0; i < STORM_COMMITS; i++) {
        struct baton_status st = commit(&bench, value + 1, RECORDS);
        store_close(baton_ok(&st) ? NULL : bench.store);
        if (baton_ok(&st)) {
            value++;
            continue;
        }
        bench = lead(calm);
        uint64_t found = value_of(&bench, RECORDS);
        CHECK(found == value || (st.code == BATON_DEADLINE_EXCEEDED && found == value + 1));
        unknown += st.code == BATON_DEADLINE_EXCEEDED;
        value = found;
        store_close(bench.store);
        bench = lead_in_storm(&storm);
    }
    atomic_store(&storm.over, true);
    CHECK(pthread_join(thread, NULL) == 0);
    store_close(bench.store);
    baton_clock_sleep_ns(100 * BATON_NS_PER_MS); /* All that was held back arrives. */
    int late = etcd_relay_late(storm.relays[0]) + etcd_relay_late(storm.relays[1]);
    int dropped = etcd_relay_dropped(storm.relays[0]) + etcd_relay_dropped(storm.relays[1]);
    bench = lead(calm);
    printf("# storm: %d commits, %d unknown, %d requests late, %d answers lost\n", STORM_COMMITS,
           unknown, late, dropped);
    CHECK(value_of(&bench, RECORDS) == value);
    CHECK(late > 0 && dropped > 0);
    store_close(bench.store);
    etcd_relay_stop(storm.relays[0]);
    etcd_relay_stop(storm.relays[1]);
}

/* --- one member --- */

static struct baton_status compact_once(void *context, struct record_ref record)
{
    struct etcd_rig *rig = context;
    char body[64];
    unsigned long long revision = 0;
    (void)record;
    const char *at =
        strstr(etcd_rig_post(rig, 0, "kv/range", "{\"key\":\"AA==\"}"), "\"revision\":\"");
    CHECK(at != NULL && sscanf(at + 12, "%llu", &revision) == 1);
    /* One more revision, so that the one that is read may be compacted. */
    (void)etcd_rig_post(rig, 0, "kv/put", "{\"key\":\"AA==\",\"value\":\"AA==\"}");
    (void)snprintf(body, sizeof(body), "{\"revision\":\"%llu\"}", revision + 1);
    CHECK(strstr(etcd_rig_post(rig, 0, "kv/compaction", body), "error") == NULL);
    return baton_status_ok();
}

/* Compaction between two pages of a load: it says so, and the next load is whole.  Otherwise compaction
 * does not matter: nothing reads the past. */
static void compaction(struct etcd_rig *rig)
{
    char address[ADDRESS_BYTES];
    enum { MANY = 300 }; /* More than a page. */
    static struct request_record requests[MANY];
    static struct record_op ops[MANY];
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(requests[i].id, sizeof(requests[i].id), "r%03d", i);
        ops[i].record = (struct record_ref){ RECORD_REQUEST, &requests[i] };
        record_key(ops[i].record, ops[i].key);
    }
    etcd_rig_address(rig, "/compact", address);
    struct bench bench = lead(address);
    struct transaction transaction = {
        .epoch = bench.start.epoch, .revision = 1, .ops = ops, .ops_count = MANY
    };
    must(store_commit(bench.store, &transaction));
    must_fail(store_load(bench.store, compact_once, rig), BATON_OUT_OF_RANGE,
              BATON_REASON_COMPACTED, "compacted");
    transaction.revision = 2;
    transaction.ops_count = 1;
    must(store_commit(bench.store, &transaction));
    store_close(bench.store);
}

/* Keys that others wrote under our prefix, or a later release: refused, and left alone. */
static void foreign_keys(struct etcd_rig *rig)
{
    char address[ADDRESS_BYTES];
    struct store *store = NULL;
    etcd_rig_address(rig, "/foreign", address);
    /* "/foreign/epoch" and "/foreign/revision": "{}" */
    (void)etcd_rig_post(rig, 0, "kv/put", "{\"key\":\"L2ZvcmVpZ24vZXBvY2g=\",\"value\":\"e30=\"}");
    must_fail(store_open(address, WALL_NS, &store), BATON_DATA_LOSS, BATON_REASON_MALFORMED,
              "only one of the keys");
    (void)etcd_rig_post(rig, 0, "kv/put",
                        "{\"key\":\"L2ZvcmVpZ24vcmV2aXNpb24=\",\"value\":\"e30=\"}");
    must_fail(store_open(address, WALL_NS, &store), BATON_DATA_LOSS, BATON_REASON_MALFORMED,
              "not written by Baton");
    /* {"format":9} */
    (void)etcd_rig_post(rig, 0, "kv/put",
                        "{\"key\":\"L2ZvcmVpZ24vZXBvY2g=\",\"value\":\"eyJmb3JtYXQiOjl9\"}");
    must_fail(store_open(address, WALL_NS, &store), BATON_FAILED_PRECONDITION,
              BATON_REASON_INCOMPATIBLE, "format 9");
    CHECK(store == NULL);
}

/* A change that was decided by a release whose mark did not say which part is next. */
static void older_mark(struct etcd_rig *rig)
{
    char address[ADDRESS_BYTES];
    struct etcd_text part = { 0 };
    struct loaded loaded = { 0 };
    etcd_rig_address(rig, "/older", address);
    struct bench bench = lead(address);
    must(commit(&bench, 1, RECORDS));
    store_close(bench.store);
    etcd_op_remove(&part, "/older/records/model/m1", "/older/records/model/n");
    put(rig, "/older/parts/00-1/000000", part.data);
    put(rig, "/older/redo", "00-1 1");
    etcd_text_free(&part);
    bench = lead(address);
    must(store_load(bench.store, note, &loaded));
    CHECK(loaded.count == 1);
    must(commit(&bench, 2, RECORDS));
    CHECK(value_of(&bench, RECORDS) == 2);
    store_close(bench.store);
}

/* etcd's quota is full: refused without a change; it goes on after compaction and disarming. */
static void no_space(void)
{
    static struct etcd_rig rig;
    static char value[700000];
    char address[ADDRESS_BYTES];
    char body[128];
    etcd_rig_init(&rig, 1);
    rig.args[0] = "--quota-backend-bytes=3000000";
    etcd_rig_start(&rig);
    etcd_rig_address(&rig, "", address);
    struct bench bench = lead(address);
    must(commit(&bench, 1, 1));
    int used = snprintf(value, sizeof(value), "{\"key\":\"AAE=\",\"value\":\"");
    memset(value + used, 'A', 600000);
    (void)snprintf(value + used + 600000, 8, "\"}");
    const char *text = "";
    for (int i = 0; i < 20 && strstr(text, "space exceeded") == NULL; i++) {
        text = etcd_rig_post(&rig, 0, "kv/put", value);
    }
    CHECK(strstr(text, "space exceeded") != NULL);
    must_fail(commit(&bench, 2, 1), BATON_RESOURCE_EXHAUSTED, BATON_REASON_NO_SPACE,
              "space exceeded");
    CHECK(value_of(&bench, 1) == 1 && store_revision(bench.store) == 1);
    unsigned long long number = 0;
    const char *at =
        strstr(etcd_rig_post(&rig, 0, "kv/range", "{\"key\":\"AA==\"}"), "\"revision\":\"");
    CHECK(at != NULL && sscanf(at + 12, "%llu", &number) == 1);
    (void)snprintf(body, sizeof(body), "{\"revision\":\"%llu\",\"physical\":true}", number);
    (void)etcd_rig_post(&rig, 0, "kv/compaction", body);
    (void)etcd_rig_post(&rig, 0, "maintenance/defragment", "{}");
    at = strstr(etcd_rig_post(&rig, 0, "maintenance/status", "{}"), "\"member_id\":\"");
    CHECK(at != NULL && sscanf(at + 13, "%llu", &number) == 1);
    (void)snprintf(body, sizeof(body),
                   "{\"action\":\"DEACTIVATE\",\"memberID\":\"%llu\",\"alarm\":\"NOSPACE\"}",
                   number);
    (void)etcd_rig_post(&rig, 0, "maintenance/alarm", body);
    must(commit(&bench, 3, 1));
    CHECK(value_of(&bench, 1) == 3);
    store_close(bench.store);
    etcd_rig_stop(&rig);
}

static void write_file(const struct etcd_rig *rig, const char *name, const char *text)
{
    char path[RIG_PATH_BYTES + 32];
    (void)snprintf(path, sizeof(path), "%s/%s", rig->folder, name);
    FILE *file = fopen(path, "we");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0 && chmod(path, 0600) == 0);
}

static void enable_users(struct etcd_rig *rig)
{
    static const char *const steps[][2] = {
        { "auth/user/add", "{\"name\":\"root\",\"password\":\"root\"}" },
        { "auth/role/add", "{\"name\":\"root\"}" },
        { "auth/user/grant", "{\"user\":\"root\",\"role\":\"root\"}" },
        { "auth/user/add", "{\"name\":\"baton\",\"password\":\"s3cret \\\"x\\\"\"}" },
        { "auth/role/add", "{\"name\":\"baton\"}" },
        { "auth/user/grant", "{\"user\":\"baton\",\"role\":\"baton\"}" },
        /* "/baton/" to "/baton0" */
        { "auth/role/grant", "{\"name\":\"baton\",\"perm\":{\"permType\":\"READWRITE\","
                             "\"key\":\"L2JhdG9uLw==\",\"range_end\":\"L2JhdG9uMA==\"}}" },
        { "auth/enable", "{}" },
    };
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        const char *text = etcd_rig_post(rig, 0, steps[i][0], steps[i][1]);
        CHECK(strstr(text, "header") != NULL);
    }
}

static void address_with(const struct etcd_rig *rig, const char *prefix, const char *user,
                         const char *file, char out[ADDRESS_BYTES])
{
    char tail[512];
    (void)snprintf(tail, sizeof(tail), "%s?user=%s&passwordFile=%s/%s&timeoutMs=4000", prefix, user,
                   rig->folder, file);
    etcd_rig_address(rig, tail, out);
}

/* More members than a login is tried again at do not serve: it goes on to the one that does. */
static void login_past_dead_members(const struct etcd_rig *rig)
{
    char address[ADDRESS_BYTES];
    (void)snprintf(address, sizeof(address),
                   "etcd:http://127.0.0.1:%d,http://127.0.0.1:%d,http://127.0.0.1:%d,"
                   "http://127.0.0.1:%d/baton?user=baton&passwordFile=%s/good",
                   etcd_rig_free_port(), etcd_rig_free_port(), etcd_rig_free_port(),
                   rig->members[0].port, rig->folder);
    struct bench bench = lead(address);
    must(commit(&bench, 3, 1));
    store_close(bench.store);
}

/* Users: none, a wrong password, no right to the prefix; a token that ends, users that change. */
static void credentials(void)
{
    static struct etcd_rig rig;
    char address[ADDRESS_BYTES];
    struct store *store = NULL;
    etcd_rig_init(&rig, 1);
    rig.args[0] = "--auth-token-ttl=2";
    etcd_rig_start(&rig);
    write_file(&rig, "good", "s3cret \"x\"\n");
    write_file(&rig, "bad", "s3cret\n");
    address_with(&rig, "/baton", "baton", "good", address);
    must_fail(store_open(address, WALL_NS, &store), BATON_FAILED_PRECONDITION,
              BATON_REASON_BAD_FIELD, "authentication is not enabled");
    enable_users(&rig);
    etcd_rig_address(&rig, "/baton", address);
    must_fail(store_open(address, WALL_NS, &store), BATON_UNAUTHENTICATED, BATON_REASON_BAD_FIELD,
              "user name is empty");
    address_with(&rig, "/baton", "baton", "bad", address);
    must_fail(store_open(address, WALL_NS, &store), BATON_UNAUTHENTICATED, BATON_REASON_BAD_FIELD,
              "authentication failed");
    address_with(&rig, "/baton", "baton", "none", address);
    must_fail(baton_status_hint(store_open(address, WALL_NS, &store), "x"), BATON_NOT_FOUND,
              BATON_REASON_IO, "passwordFile");
    address_with(&rig, "/elsewhere", "baton", "good", address);
    must_fail(store_open(address, WALL_NS, &store), BATON_PERMISSION_DENIED, BATON_REASON_BAD_FIELD,
              "permission denied");
    address_with(&rig, "/baton", "baton", "good", address);
    struct bench bench = lead(address);
    must(commit(&bench, 1, 1));
    baton_clock_sleep_ns(3500 * BATON_NS_PER_MS); /* The token is over. */
    must(commit(&bench, 2, 1));
    CHECK(value_of(&bench, 1) == 2);
    struct store_follower *follower = follow(address, 0); /* With a login of its own. */
    must(commit(&bench, 3, 1));
    (void)followed(follower, 3);
    store_follower_close(follower);
    store_close(bench.store);
    login_past_dead_members(&rig);
    etcd_rig_stop(&rig);
}

/* The last member's certificate is wrong: as long as another one is away, that is no reason to give up. */
static void reach_beside_a_dead_member(const char *wrong)
{
    char address[ADDRESS_BYTES];
    struct store *store = NULL;
    (void)snprintf(address, sizeof(address), "etcd:https://127.0.0.1:%d,%.900s",
                   etcd_rig_free_port(), wrong + strlen("etcd:"));
    must(store_open_unreached(address, WALL_NS, &store));
    must_fail(store_reach(store, WALL_NS), BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
              "no endpoint served, of 2");
    store_close(store);
}

/* TLS: members and client know each other by certificates of one CA; others are refused. */
static void certificates(void)
{
    static struct etcd_rig rig;
    char address[ADDRESS_BYTES];
    char tail[700];
    struct store *store = NULL;
    const char *f = rig.folder;
    etcd_rig_init(&rig, 1);
    etcd_rig_certificates(&rig);
    etcd_rig_start(&rig);
    (void)snprintf(tail, sizeof(tail), "/tls?ca=%s/ca.pem&cert=%s/client.pem&key=%s/client.key.pem",
                   f, f, f);
    etcd_rig_address(&rig, tail, address);
    struct bench bench = lead(address);
    must(commit(&bench, 1, RECORDS));
    CHECK(value_of(&bench, RECORDS) == 1);
    struct store_follower *follower = follow(address, store_cluster(bench.store));
    must(commit(&bench, 2, RECORDS));
    (void)followed(follower, 2);
    store_follower_close(follower);
    store_close(bench.store);
    struct store *waited = NULL; /* In two steps. */
    must(store_open_unreached(address, WALL_NS, &waited));
    must(store_reach(waited, WALL_NS));
    store_close(waited);
    (void)snprintf(tail, sizeof(tail), "/tls?timeoutMs=3000&ca=%s/other.pem", f);
    etcd_rig_address(&rig, tail, address);
    must(store_open_unreached(address, WALL_NS, &waited));
    must_fail(store_reach(waited, WALL_NS), BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
              "SSL");
    store_close(waited);
    reach_beside_a_dead_member(address);
    must_fail(store_open(address, WALL_NS, &store), BATON_FAILED_PRECONDITION,
              BATON_REASON_INCOMPATIBLE, "SSL");
    (void)snprintf(tail, sizeof(tail),
                   "/tls?timeoutMs=3000&ca=%s/ca.pem&cert=%s/other.pem&key=%s/other.key.pem", f, f,
                   f);
    etcd_rig_address(&rig, tail, address);
    struct baton_status st = store_open(address, WALL_NS, &store);
    for (int i = 0; i < 20 && strstr(st.message, "time-out") != NULL; i++) { /* Too busy for TLS. */
        st = store_open(address, WALL_NS, &store);
    }
    must_fail(st, BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE, "none of 1 endpoints");
    CHECK(strstr(st.hint, "does it refuse the certificate of cert=") != NULL);
    etcd_rig_stop(&rig);
}

/* Nobody listens: the start is refused in time; one that waits is told, and a file that is not there at once. */
static void nobody(void)
{
    char address[ADDRESS_BYTES];
    struct store *store = NULL;
    uint64_t from = now_ms();
    (void)snprintf(address, sizeof(address), "etcd:http://127.0.0.1:%d?timeoutMs=900",
                   etcd_rig_free_port());
    must_fail(store_open(address, WALL_NS, &store), BATON_UNAVAILABLE,
              BATON_REASON_STORE_UNAVAILABLE, "none of 1 endpoints");
    CHECK(now_ms() - from < 2500);
    must(store_open_unreached(address, WALL_NS, &store));
    must_fail(store_reach(store, WALL_NS), BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
              "no endpoint served, of 1");
    store_close(store);
    must_fail(store_open_unreached("etcd:https://127.0.0.1:1?ca=/none.pem", WALL_NS, &store),
              BATON_NOT_FOUND, BATON_REASON_IO, "store: ca: open /none.pem");
}

static const struct etcd_part parts[] = {
    { "nobody", NULL, nobody },
    { "lost_answer", lost_answer, NULL },
    { "late_request_of_the_leader", late_request_of_the_leader, NULL },
    { "late_request_of_the_deposed", late_request_of_the_deposed, NULL },
    { "deposed_within_a_commit", deposed_within_a_commit, NULL },
    { "late_end_of_a_large_commit", late_end_of_a_large_commit, NULL },
    { "late_removal_of_garbage", late_removal_of_garbage, NULL },
    { "late_part", late_part, NULL },
    { "storm", storm, NULL },
    { "older_mark", older_mark, NULL },
    { "compaction", compaction, NULL },
    { "foreign_keys", foreign_keys, NULL },
    { "no_space", NULL, no_space },
    { "credentials", NULL, credentials },
    { "certificates", NULL, certificates },
};

int main(int argc, char **argv)
{
    return etcd_parts_run("etcd_faults", parts, sizeof(parts) / sizeof(parts[0]), argc, argv);
}
