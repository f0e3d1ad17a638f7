/* etcd_upkeep.c -- a store in etcd while operators look after the cluster, and while it is slow: defragmentation under load,
 * compaction under load, commits of many parts.
 *
 * A plain program: prints one line a case and exits 0 when all hold. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "api/base/clock.h"
#include "tests/conformance/etcd_bench.h"
#include "tests/conformance/etcd_parts.h"
#include "tests/conformance/etcd_rig.h"

enum { MEMBERS = 3, JUNK_BYTES = 600000, JUNK = 40, ROUNDS = 3 };

static unsigned long long number_in(const char *text, const char *name)
{
    unsigned long long number = 0;
    const char *at = strstr(text, name);
    CHECK(at != NULL && sscanf(at + strlen(name), "%llu", &number) == 1);
    return number;
}

/* --- upkeep under load --- */

/* Overwrites one key again and again: a database that is mostly holes once it is compacted. */
static void write_junk(struct etcd_rig *rig)
{
    static char body[JUNK_BYTES + 64];
    int used = snprintf(body, sizeof(body), "{\"key\":\"AAE=\",\"value\":\"");
    memset(body + used, 'A', JUNK_BYTES);
    (void)snprintf(body + used + JUNK_BYTES, 8, "\"}");
    for (int i = 0; i < JUNK; i++) {
        CHECK(strstr(etcd_rig_post(rig, 0, "kv/put", body), "header") != NULL);
    }
}

static void compact(struct etcd_rig *rig)
{
    char body[96];
    unsigned long long now =
        number_in(etcd_rig_post(rig, 0, "kv/range", "{\"key\":\"AA==\"}"), "\"revision\":\"");
    (void)snprintf(body, sizeof(body), "{\"revision\":\"%llu\",\"physical\":true}", now);
    CHECK(strstr(etcd_rig_post(rig, 0, "kv/compaction", body), "header") != NULL);
}

static unsigned long long size_of(struct etcd_rig *rig, int i)
{
    return number_in(etcd_rig_post(rig, i, "maintenance/status", "{}"), "\"dbSize\":\"");
}

/* Until it helps: a member compacts in its own time. */
static void defragment(struct etcd_rig *rig, int i)
{
    unsigned long long before = size_of(rig, i);
    int tries = 0;
    do {
        CHECK(tries++ < 100);
        CHECK(strstr(etcd_rig_post(rig, i, "maintenance/defragment", "{}"), "error") == NULL);
        baton_clock_sleep_ns(20 * BATON_NS_PER_MS);
    } while (size_of(rig, i) > before / 2);
}

struct upkeep {
    struct etcd_rig *rig;
    _Atomic bool over;
};

/* Each member is compacted and defragmented, one after the other, several times. */
static void *look_after(void *argument)
{
    struct upkeep *upkeep = argument;
    struct etcd_rig *rig = upkeep->rig;
    for (int round = 0; round < ROUNDS; round++) {
        write_junk(rig);
        compact(rig);
        for (int i = 0; i < MEMBERS; i++) {
            defragment(rig, i);
        }
    }
    atomic_store(&upkeep->over, true);
    return NULL;
}

/* Small and large commits and whole reads go on all the while, and each is done. */
static void compaction_and_defragmentation(void)
{
    static struct etcd_rig rig;
    struct upkeep upkeep = { .rig = &rig };
    char address[ADDRESS_BYTES];
    pthread_t thread;
    uint64_t value = 1;
    etcd_rig_init(&rig, MEMBERS);
    etcd_rig_start(&rig);
    etcd_rig_address(&rig, "/upkeep?maxTxnOps=8", address);
    struct bench bench = lead(address);
    must(commit(&bench, value, RECORDS));
    CHECK(pthread_create(&thread, NULL, look_after, &upkeep) == 0);
    while (!atomic_load(&upkeep.over)) {
        must(commit(&bench, ++value, RECORDS));
        CHECK(value_of(&bench, RECORDS) == value);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    printf("# %llu commits while members were looked after\n", (unsigned long long)value);
    CHECK(store_revision(bench.store) == value);
    store_close(bench.store);
    etcd_rig_stop(&rig);
}

/* --- slow --- */

/* Records of a commit that takes so many requests that they cannot be applied, or not even be written, in time; with six
 * operations a part, and six parts a request. */
enum { MANY = 400, ENORMOUS = 3000 };

struct slow {
    struct etcd_relay *relay;
    struct bench bench;
};

/* Through a relay, and with so short a timeout that slowness tells: a try lasts 300 ms, an operation 7.2 s. */
static struct slow slow_start(const struct etcd_rig *rig)
{
    char address[ADDRESS_BYTES];
    struct slow slow = { .relay = etcd_relay_start(rig->members[0].port) };
    (void)snprintf(address, sizeof(address),
                   "etcd:http://127.0.0.1:%d/slow?timeoutMs=900&maxTxnOps=8",
                   etcd_relay_port(slow.relay));
    slow.bench = lead(address);
    return slow;
}

/* Gives 'count' records this value. */
static struct baton_status commit_many(struct bench *bench, int count, uint64_t value)
{
    static struct request_record requests[ENORMOUS];
    static struct record_op ops[ENORMOUS];
    for (int i = 0; i < count; i++) {
        (void)snprintf(requests[i].id, sizeof(requests[i].id), "r%04d", i);
        requests[i].stored_wall_ns = value;
        ops[i].record = (struct record_ref){ RECORD_REQUEST, &requests[i] };
        record_key(ops[i].record, ops[i].key);
    }
    struct transaction transaction = { .epoch = bench->start.epoch,
                                       .revision = store_revision(bench->store) + 1,
                                       .sync = true,
                                       .ops = ops,
                                       .ops_count = (size_t)count };
    return store_commit(bench->store, &transaction);
}

struct counted {
    int count;
    uint64_t value;
};

static struct baton_status count_record(void *context, struct record_ref record)
{
    struct counted *counted = context;
    const struct request_record *request = record.body;
    CHECK(counted->count == 0 || counted->value == request->stored_wall_ns);
    counted->value = request->stored_wall_ns;
    counted->count++;
    return baton_status_ok();
}

/* The records all have one value, which is returned. */
static uint64_t value_of_many(struct bench *bench, int count)
{
    struct counted counted = { 0 };
    must(store_load(bench->store, count_record, &counted));
    CHECK(counted.count == count);
    return counted.value;
}

/* The same; each try applies more of what was decided. */
static uint64_t value_when_applied(struct bench *bench, int count)
{
    struct counted counted = { 0 };
    struct baton_status st = baton_status_ok();
    uint64_t end = now_ms() + 60000;
    do {
        CHECK(now_ms() < end);
        counted = (struct counted){ 0 };
        st = store_load(bench->store, count_record, &counted);
    } while (!baton_ok(&st));
    CHECK(counted.count == count);
    return counted.value;
}

/* Requests that an operation of 8 timeouts has time for, and one that was begun before its end. */
enum { REQUESTS_MAX = 8 * 900 / RELAY_SLOW_MS + 1 };

/* A commit whose parts cannot be written in time is given up, in time, and leaves nothing behind. */
static void slow_parts_are_given_up(struct etcd_rig *rig)
{
    struct slow slow = slow_start(rig);
    must(commit_many(&slow.bench, 1, 1));
    etcd_relay_set(slow.relay, RELAY_SLOW);
    struct baton_status st = commit_many(&slow.bench, ENORMOUS, 2);
    etcd_relay_set(slow.relay, RELAY_PASS);
    printf("# %d requests: %s\n", etcd_relay_slowed(slow.relay), st.message);
    must_fail(st, BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE, "parts of a large change");
    CHECK(etcd_relay_slowed(slow.relay) <= REQUESTS_MAX);
    CHECK(value_of_many(&slow.bench, 1) == 1);
    must(commit_many(&slow.bench, 1, 3));
    CHECK(value_of_many(&slow.bench, 1) == 3);
    CHECK(strstr(etcd_rig_post(rig, 0, "kv/range",
                               "{\"key\":\"L3Nsb3cvcGFydHMv\",\"range_end\":\"L3Nsb3cvcGFydHMw\"}"),
                 "kvs") == NULL);
    store_close(slow.bench.store);
    etcd_relay_stop(slow.relay);
}

/* One that is decided in time is done, also when its parts cannot be applied in time: the next operation, or the next leader,
 * applies the rest before anything else. */
static void slow_application_goes_on_later(struct etcd_rig *rig)
{
    struct slow slow = slow_start(rig);
    must(commit_many(&slow.bench, 1, 1));
    etcd_relay_set(slow.relay, RELAY_SLOW);
    struct baton_status st = commit_many(&slow.bench, MANY, 2);
    etcd_relay_set(slow.relay, RELAY_PASS);
    must(st);
    /* "/slow/redo" is there: a part is not applied yet. */
    CHECK(strstr(etcd_rig_post(rig, 0, "kv/range", "{\"key\":\"L3Nsb3cvcmVkbw==\"}"), "kvs") !=
          NULL);
    CHECK(etcd_relay_slowed(slow.relay) <= REQUESTS_MAX);
    CHECK(value_when_applied(&slow.bench, MANY) == 2);
    store_close(slow.bench.store);
    etcd_relay_stop(slow.relay);
}

static const struct etcd_part parts[] = {
    { "compaction_and_defragmentation", NULL, compaction_and_defragmentation },
    { "slow_parts_are_given_up", slow_parts_are_given_up, NULL },
    { "slow_application_goes_on_later", slow_application_goes_on_later, NULL },
};

int main(int argc, char **argv)
{
    return etcd_parts_run("etcd_upkeep", parts, sizeof(parts) / sizeof(parts[0]), argc, argv);
}
