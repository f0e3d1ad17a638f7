/* etcd_members.c -- a store in a cluster of three real members that die, hang, lose their majority, are
 * replaced, or turn out to be another cluster.
 *
 * A plain program: prints one line a case and exits 0 when all hold. */
#include <signal.h>
#include <string.h>

#include "api/base/clock.h"
#include "tests/conformance/etcd_bench.h"
#include "tests/conformance/etcd_rig.h"
#include "tests/conformance/patience.h"

enum { TIMEOUT_MS = 4000, AGAIN_MS = 60000 };

/* Leads again as soon as there is a majority; what the store holds then. */
static uint64_t lead_again(struct bench *bench)
{
    struct baton_status st;
    struct loaded loaded;
    uint64_t end = now_ms() + AGAIN_MS;
    do {
        CHECK(now_ms() < end);
        memset(&loaded, 0, sizeof(loaded));
        st = store_acquire_epoch(bench->store, &bench->start);
        if (baton_ok(&st)) {
            st = store_load(bench->store, note, &loaded);
        }
    } while (!baton_ok(&st));
    return loaded.values[0];
}

/* A commit that members die under goes through, or all of its time was used: an election may take
 * longer than that where etcd gets few processors.  Then it is there whole or not at all. */
static void commit_through(struct bench *bench, uint64_t value, uint64_t before)
{
    uint64_t from = now_ms();
    struct baton_status st = commit(bench, value, 3);
    if (baton_ok(&st)) {
        return;
    }
    printf("# a commit got no majority in time: %s\n", st.message);
    CHECK(st.reason == BATON_REASON_STORE_UNAVAILABLE && now_ms() - from >= TIMEOUT_MS * 9 / 10);
    uint64_t found = lead_again(bench);
    CHECK(found == before || found == value);
    must(commit(bench, value, 3));
}

/* The leader dies, then hangs: commits go on through the others. */
static void fail_over(struct etcd_rig *rig, struct bench *bench)
{
    uint64_t longest = 0;
    for (uint64_t value = 1; value <= 40; value++) {
        int leader = value == 10 || value == 25 ? etcd_rig_leader(rig) : -1;
        if (value == 10) {
            etcd_rig_kill(rig, leader);
        } else if (value == 25) {
            etcd_rig_signal(rig, leader, SIGSTOP);
        }
        uint64_t from = now_ms();
        commit_through(bench, value, value - 1);
        longest = now_ms() - from > longest ? now_ms() - from : longest;
        CHECK(value_of(bench, 3) == value);
        for (int i = 0; value == 20 && i < rig->count; i++) {
            if (rig->members[i].pid == 0) {
                etcd_rig_start_member(rig, i, "new");
                etcd_rig_wait_member(rig, i);
            }
        }
        if (value == 35) {
            for (int i = 0; i < rig->count; i++) {
                etcd_rig_signal(rig, i, SIGCONT);
            }
        }
    }
    printf("# fail_over: the longest commit took %llu ms\n", (unsigned long long)longest);
}

/* No majority: refused in time, with what to do; it goes on when there is one again. */
static void lost_quorum(struct etcd_rig *rig, struct bench *bench)
{
    int survivor = etcd_rig_leader(rig);
    uint64_t before = value_of(bench, 3);
    for (int i = 0; i < rig->count; i++) {
        if (i != survivor) {
            etcd_rig_kill(rig, i);
        }
    }
    uint64_t from = now_ms();
    struct baton_status st = commit(bench, before + 1, 3);
    CHECK(!baton_ok(&st) && st.reason == BATON_REASON_STORE_UNAVAILABLE);
    CHECK(now_ms() - from < 10000); /* Twice timeoutMs, and a little. */
    st = store_acquire_epoch(bench->store, &bench->start);
    must_fail(st, BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE, "none of 3 endpoints");
    for (int i = 0; i < rig->count; i++) {
        if (i != survivor) {
            etcd_rig_start_member(rig, i, "new");
        }
    }
    for (int i = 0; i < rig->count; i++) {
        etcd_rig_wait_member(rig, i);
    }
    must(store_acquire_epoch(bench->store, &bench->start));
    uint64_t after = value_of(bench, 3);
    CHECK(after == before || after == before + 1);
    must(commit(bench, before + 2, 3));
}

/* A member is removed for good, and a new one joins in its place. */
static void replaced(struct etcd_rig *rig, struct bench *bench)
{
    char body[128];
    unsigned long long id = 0;
    const char *at = strstr(etcd_rig_post(rig, 1, "maintenance/status", "{}"), "\"member_id\":\"");
    CHECK(at != NULL && sscanf(at + 13, "%llu", &id) == 1);
    etcd_rig_kill(rig, 1);
    etcd_rig_wipe(rig, 1);
    (void)snprintf(body, sizeof(body), "{\"ID\":\"%llu\"}", id);
    const char *text = "";
    for (int i = 0; i < 100 && strstr(text, "members") == NULL; i++) {
        text = etcd_rig_post(rig, 0, "cluster/member/remove", body);
        baton_clock_sleep_ns(100 * BATON_NS_PER_MS);
    }
    CHECK(strstr(text, "members") != NULL);
    commit_through(bench, 100, 1);
    (void)snprintf(body, sizeof(body), "{\"peerURLs\":[\"http://127.0.0.1:%d\"]}",
                   rig->members[1].peer_port);
    text = "";
    for (int i = 0; i < 100 && strstr(text, "\"member\":{") == NULL; i++) {
        text = etcd_rig_post(rig, 0, "cluster/member/add", body);
        baton_clock_sleep_ns(100 * BATON_NS_PER_MS);
    }
    CHECK(strstr(text, "\"member\":{") != NULL);
    etcd_rig_start_member(rig, 1, "existing");
    etcd_rig_wait_member(rig, 1);
    must(commit(bench, 101, 3));
    CHECK(value_of(bench, 3) == 101);
}

/* One endpoint is a cluster of its own (a member that was set up anew): it is not believed. */
static void foreign_cluster(struct etcd_rig *rig, struct bench *unused)
{
    static struct etcd_rig other;
    char address[ADDRESS_BYTES];
    (void)unused;
    etcd_rig_init(&other, 1);
    etcd_rig_start(&other);
    (void)snprintf(address, sizeof(address),
                   "etcd:http://127.0.0.1:%d,http://127.0.0.1:%d/cluster?timeoutMs=3000",
                   rig->members[0].port, other.members[0].port);
    struct bench bench = lead(address);
    must(commit(&bench, 1, 1));
    etcd_rig_kill(rig, 0);
    struct baton_status st = store_acquire_epoch(bench.store, &bench.start);
    CHECK(!baton_ok(&st));
    struct loaded loaded = { 0 };
    st = store_load(bench.store, note, &loaded);
    CHECK(!baton_ok(&st) && loaded.count == 0);
    CHECK(strstr(etcd_rig_post(&other, 0, "kv/range", "{\"key\":\"AA==\",\"range_end\":\"AA==\"}"),
                 "kvs") == NULL);
    store_close(bench.store);
    etcd_rig_start_member(rig, 0, "new");
    etcd_rig_wait_member(rig, 0);
    etcd_rig_stop(&other);
}

/* What a cluster is asked, each on one of its own. */
static void (*asked)(struct etcd_rig *rig, struct bench *bench);

static void cluster(void)
{
    static struct etcd_rig rig;
    char address[ADDRESS_BYTES];
    etcd_rig_init(&rig, 3);
    etcd_rig_start(&rig);
    etcd_rig_address(&rig, "/three", address);
    struct bench bench = lead(address);
    must(commit(&bench, 1, 3));
    asked(&rig, &bench);
    store_close(bench.store);
    etcd_rig_stop(&rig);
}

static void run(const char *name, void (*asks)(struct etcd_rig *rig, struct bench *bench))
{
    asked = asks;
    patience_run(name, cluster);
    printf("ok %s\n", name);
}

int main(void)
{
    if (!etcd_rig_there()) {
        printf("skip etcd_members: etcd is not installed (deploy/install.sh test)\n");
        return SKIPPED;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    run("fail_over", fail_over);
    run("lost_quorum", lost_quorum);
    run("replaced", replaced);
    run("foreign_cluster", foreign_cluster);
    return 0;
}
