/* etcd_follow.c -- a copy that follows a store in a real etcd: whole at every instant, current, and honest about it when
 * it is not: after a compaction, over a connection that says no more, when members die, without a majority.
 *
 * A plain program: prints one line a case and exits 0 when all hold. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "api/base/clock.h"
#include "tests/conformance/etcd_bench.h"
#include "tests/conformance/etcd_parts.h"
#include "tests/conformance/etcd_rig.h"

enum { WAIT_MS = 60000 };

/* The number of the first 'count' models of the copy, which is one and the same. */
static uint64_t copied_value(struct store_follower *follower, int count)
{
    struct loaded loaded = { 0 };
    struct store_copy copy;
    must(store_follower_load(follower, note, &loaded, &copy));
    CHECK(loaded.count == count);
    for (int i = 1; i < count; i++) {
        CHECK(loaded.values[i] == loaded.values[0]);
    }
    return loaded.values[0];
}

static struct store_copy look(struct store_follower *follower)
{
    struct store_copy copy;
    store_follower_look(follower, &copy);
    return copy;
}

/* Until the copy has a problem; its reason. */
static struct store_copy wait_problem(struct store_follower *follower)
{
    uint64_t end = now_ms() + WAIT_MS;
    struct store_copy copy = look(follower);
    while (baton_ok(&copy.problem)) {
        CHECK(now_ms() < end);
        baton_clock_sleep_ns(5 * BATON_NS_PER_MS);
        copy = look(follower);
    }
    return copy;
}

static atomic_bool loading;
static atomic_uint loads;

static void *load_all_the_time(void *argument)
{
    struct store_follower *follower = argument;
    while (atomic_load(&loading)) {
        struct loaded loaded = { 0 };
        struct store_copy copy;
        struct baton_status st = store_follower_load(follower, note, &loaded, &copy);
        CHECK(baton_ok(&st) == copy.whole);
        for (int i = 0; baton_ok(&st) && loaded.count > 0 && i < RECORDS; i++) {
            CHECK(loaded.count == RECORDS && loaded.values[i] == copy.revision);
        }
        (void)atomic_fetch_add(&loads, 1);
    }
    return NULL;
}

/* Each commit arrives, small ones and those in parts; whoever loads meanwhile sees one commit, and not half of two. */
static void whole(struct etcd_rig *rig)
{
    char address[ADDRESS_BYTES];
    pthread_t thread;
    etcd_rig_address(rig, "/whole?maxTxnOps=8", address);
    struct bench bench = lead(address);
    struct store_follower *follower = follow(address, store_cluster(bench.store));
    (void)followed(follower, 0);
    atomic_store(&loading, true);
    CHECK(pthread_create(&thread, NULL, load_all_the_time, follower) == 0);
    for (uint64_t i = 1; i <= 60; i++) {
        must(commit(&bench, i, RECORDS));
    }
    struct store_copy copy = followed(follower, 60);
    CHECK(copy.epoch.n == bench.start.epoch.n && baton_ok(&copy.problem));
    CHECK(copy.log_next_number == 61);
    atomic_store(&loading, false);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(atomic_load(&loads) > 60 && copied_value(follower, RECORDS) == 60);
    store_follower_close(follower);
    store_close(bench.store);
}

static struct baton_status remove_one(struct bench *bench, const char *name)
{
    struct model_record model = { 0 };
    struct record_op op = { .record = { RECORD_MODEL, &model }, .remove = true };
    (void)snprintf(model.name, sizeof(model.name), "%s", name);
    record_key(op.record, op.key);
    struct transaction transaction = { .epoch = bench->start.epoch,
                                       .revision = store_revision(bench->store) + 1,
                                       .ops = &op,
                                       .ops_count = 1 };
    return store_commit(bench->store, &transaction);
}

/* A record that is removed goes; off, the copy is forgotten; on again, it is a new one. */
static void removed_and_forgotten(struct etcd_rig *rig)
{
    char address[ADDRESS_BYTES];
    struct loaded loaded = { 0 };
    struct store_copy copy;
    etcd_rig_address(rig, "/removed", address);
    struct bench bench = lead(address);
    must(commit(&bench, 1, 3));
    struct store_follower *follower = follow(address, 0);
    (void)followed(follower, 1);
    must(remove_one(&bench, "m2"));
    (void)followed(follower, 2);
    CHECK(copied_value(follower, 2) == 1);
    for (int i = 0; i < 20; i++) {
        uint64_t changes = look(follower).changes;
        store_follower_set(follower, false);
        copy = look(follower);
        CHECK(!copy.whole && copy.confirmed_ns == 0 && copy.changes != changes);
        struct baton_status st = store_follower_load(follower, note, &loaded, &copy);
        CHECK(st.code == BATON_UNAVAILABLE && loaded.count == 0);
        store_follower_set(follower, true);
        must(commit(&bench, (uint64_t)i + 2, 2));
        CHECK(i % 4 != 0 || followed(follower, (uint64_t)i + 3).whole);
        copy = look(follower);
        CHECK(!copy.whole || copied_value(follower, 2) >= (uint64_t)i + 1);
    }
    (void)followed(follower, 22);
    CHECK(copied_value(follower, 2) == 21);
    store_follower_close(follower);
    store_close(bench.store);
}

static struct etcd_relay *relay_to(const struct etcd_rig *rig, const char *prefix,
                                   char out[ADDRESS_BYTES])
{
    struct etcd_relay *relay = etcd_relay_start(rig->members[0].port);
    (void)snprintf(out, ADDRESS_BYTES, "etcd:http://127.0.0.1:%d%s", etcd_relay_port(relay),
                   prefix);
    return relay;
}

static void compact(struct etcd_rig *rig)
{
    char body[96];
    unsigned long long number = 0;
    const char *at =
        strstr(etcd_rig_post(rig, 0, "kv/range", "{\"key\":\"AA==\"}"), "\"revision\":\"");
    CHECK(at != NULL && sscanf(at + 12, "%llu", &number) == 1);
    (void)snprintf(body, sizeof(body), "{\"revision\":\"%llu\",\"physical\":true}", number);
    CHECK(strstr(etcd_rig_post(rig, 0, "kv/compaction", body), "error") == NULL);
}

/* While the watch is cut off, etcd drops what it would have gone on from: it is read anew.  Until then the copy is what
 * it was, and says since when. */
static void compacted(struct etcd_rig *rig)
{
    char direct[ADDRESS_BYTES];
    char relayed[ADDRESS_BYTES];
    struct etcd_relay *relay = relay_to(rig, "/compacted?timeoutMs=900", relayed);
    etcd_rig_address(rig, "/compacted", direct);
    struct bench bench = lead(direct);
    must(commit(&bench, 1, 3));
    struct store_follower *follower = follow(relayed, 0);
    (void)followed(follower, 1);
    etcd_relay_set(relay, RELAY_DEAF);
    for (uint64_t i = 2; i <= 6; i++) {
        must(commit(&bench, i, 3));
    }
    compact(rig);
    struct store_copy copy = wait_problem(follower);
    CHECK(copy.whole && copy.revision <= 6 && copied_value(follower, 3) == copy.revision);
    uint64_t confirmed_ns = copy.confirmed_ns;
    CHECK(look(follower).confirmed_ns == confirmed_ns);
    etcd_relay_set(relay, RELAY_PASS);
    CHECK(copy.lists == 1 && followed(follower, 6).lists == 2);
    CHECK(copied_value(follower, 3) == 6);
    must(commit(&bench, 7, 3)); /* And it goes on from there. */
    (void)followed(follower, 7);
    store_follower_close(follower);
    store_close(bench.store);
    etcd_relay_stop(relay);
}

/* The watch's connection says no more, and nobody hangs up: reads by another way show that there is more, and the watch
 * goes there.  Without another way the copy is not confirmed until the connection goes on. */
static void stalled(struct etcd_rig *rig)
{
    char direct[ADDRESS_BYTES];
    char address[ADDRESS_BYTES];
    struct etcd_relay *relay = relay_to(rig, "/stalled?timeoutMs=900", address);
    struct store_follower *alone = follow(address, 0);
    etcd_rig_address(rig, "/stalled", direct);
    (void)snprintf(address, sizeof(address),
                   "etcd:http://127.0.0.1:%d,http://127.0.0.1:%d/stalled?timeoutMs=900",
                   etcd_relay_port(relay), rig->members[0].port);
    struct bench bench = lead(direct);
    must(commit(&bench, 1, 3));
    struct store_follower *follower = follow(address, 0);
    (void)followed(follower, 1);
    (void)followed(alone, 1);
    etcd_relay_set(relay, RELAY_STALL);
    must(commit(&bench, 2, 3));
    (void)followed(follower, 2);
    CHECK(copied_value(follower, 3) == 2);
    struct store_copy copy = wait_problem(alone);
    CHECK(copy.whole && copy.revision == 1 && copied_value(alone, 3) == 1);
    etcd_relay_set(relay, RELAY_PASS);
    (void)followed(alone, 2);
    store_follower_close(alone);
    store_follower_close(follower);
    store_close(bench.store);
    etcd_relay_stop(relay);
}

/* What another cluster says is not believed. */
static void another_cluster(struct etcd_rig *rig)
{
    char address[ADDRESS_BYTES];
    struct store_follower *follower = NULL;
    etcd_rig_address(rig, "/another", address);
    struct bench bench = lead(address);
    must(commit(&bench, 1, 3));
    follower = follow(address, store_cluster(bench.store) + 1);
    uint64_t end = now_ms() + WAIT_MS;
    while (look(follower).problem.reason != BATON_REASON_INCOMPATIBLE) {
        CHECK(now_ms() < end);
        baton_clock_sleep_ns(5 * BATON_NS_PER_MS);
    }
    CHECK(!look(follower).whole);
    store_follower_close(follower);
    struct baton_status st = store_follower_open("sqlite:/tmp/x.db", 0, &follower);
    CHECK(st.code == BATON_INVALID_ARGUMENT);
    store_close(bench.store);
}

/* Nothing happens under the prefix while etcd's revision rises beside it: notices of progress move the place that the watch
 * begins anew from, so that a compaction up to now costs no fresh list when the member starts again. */
static void progress(void)
{
    static struct etcd_rig rig;
    char address[ADDRESS_BYTES];
    uint64_t value = 1;
    etcd_rig_init(&rig, 1);
    rig.args[0] = "--experimental-watch-progress-notify-interval=1s";
    etcd_rig_start(&rig);
    etcd_rig_address(&rig, "/progress", address);
    struct bench bench = lead(address);
    must(commit(&bench, value, 3));
    struct store_follower *follower = follow(address, 0);
    bool kept = false;
    for (int round = 0; round < 10 && !kept; round++) { /* A notice may come late. */
        uint64_t lists = followed(follower, value).lists;
        for (int i = 0; i < 3; i++) {
            const char *text =
                etcd_rig_post(&rig, 0, "kv/put", "{\"key\":\"eA==\",\"value\":\"eQ==\"}");
            CHECK(strstr(text, "header") != NULL);
        }
        baton_clock_sleep_ns(2500 * BATON_NS_PER_MS);
        compact(&rig);
        etcd_rig_kill(&rig, 0);
        etcd_rig_start_member(&rig, 0, "new");
        etcd_rig_wait_member(&rig, 0);
        must(commit(&bench, ++value, 3)); /* Brought by the watch, or by a list. */
        kept = followed(follower, value).lists == lists;
        CHECK(copied_value(follower, 3) == value);
    }
    CHECK(kept);
    store_follower_close(follower);
    store_close(bench.store);
    etcd_rig_stop(&rig);
}

/* Commits go on while members die under the watch, one after the other; without a majority the copy is what it was. */
static void three_members(void)
{
    static struct etcd_rig rig;
    char address[ADDRESS_BYTES];
    etcd_rig_init(&rig, 3);
    etcd_rig_start(&rig);
    etcd_rig_address(&rig, "/three", address);
    struct bench bench = lead(address);
    struct store_follower *follower = follow(address, store_cluster(bench.store));
    uint64_t value = 0;
    for (int i = 0; i < rig.count; i++) {
        must(commit(&bench, ++value, 3));
        (void)followed(follower, value);
        etcd_rig_kill(&rig, i);
        struct baton_status st;
        do { /* An election may take longer than a commit. */
            st = commit(&bench, ++value, 3);
            value = baton_ok(&st) ? value : 0;
            if (!baton_ok(&st)) {
                st = store_acquire_epoch(bench.store, &bench.start);
                value = baton_ok(&st) ? value_of(&bench, 3) : 0;
                st.code = BATON_UNAVAILABLE;
            }
        } while (!baton_ok(&st));
        (void)followed(follower, store_revision(bench.store));
        CHECK(copied_value(follower, 3) == value);
        etcd_rig_start_member(&rig, i, "new");
        etcd_rig_wait_member(&rig, i);
    }
    int survivor = etcd_rig_leader(&rig);
    for (int i = 0; i < rig.count; i++) {
        if (i != survivor) {
            etcd_rig_kill(&rig, i);
        }
    }
    struct store_copy copy = wait_problem(follower);
    CHECK(copy.whole && copied_value(follower, 3) == value);
    uint64_t confirmed_ns = look(follower).confirmed_ns;
    baton_clock_sleep_ns(2500 * BATON_NS_PER_MS); /* Some more checks. */
    CHECK(look(follower).confirmed_ns == confirmed_ns && look(follower).whole);
    for (int i = 0; i < rig.count; i++) {
        if (i != survivor) {
            etcd_rig_start_member(&rig, i, "new");
        }
    }
    (void)followed(follower, store_revision(bench.store));
    store_follower_close(follower);
    store_close(bench.store);
    etcd_rig_stop(&rig);
}

static const struct etcd_part parts[] = {
    { "whole", whole, NULL },
    { "removed_and_forgotten", removed_and_forgotten, NULL },
    { "compacted", compacted, NULL },
    { "stalled", stalled, NULL },
    { "another_cluster", another_cluster, NULL },
    { "progress", NULL, progress },
    { "three_members", NULL, three_members },
};

int main(int argc, char **argv)
{
    return etcd_parts_run("etcd_follow", parts, sizeof(parts) / sizeof(parts[0]), argc, argv);
}
