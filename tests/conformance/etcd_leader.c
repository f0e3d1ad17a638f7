/* etcd_leader.c -- the leader's record on a real etcd: who writes it, lost and late answers, and that the
 * store beside it does not notice.
 *
 * A plain program: prints one line a case and exits 0 when all hold. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "api/base/clock.h"
#include "controller/store/leader.h"
#include "tests/conformance/etcd_bench.h"
#include "tests/conformance/etcd_parts.h"
#include "tests/conformance/etcd_rig.h"

enum { TRY_MS = 1000, CALL_MS = 3000 };

static uint64_t soon(void)
{
    return baton_clock_monotonic_ns() + CALL_MS * BATON_NS_PER_MS;
}

static struct leader_store *open_at(const char *address)
{
    struct leader_store *store = NULL;
    must(leader_store_open(address, TRY_MS, &store));
    return store;
}

static struct leader_record read_of(struct leader_store *store)
{
    struct leader_record record;
    must(leader_store_read(store, soon(), &record));
    return record;
}

static struct leader_record of(const char *holder, uint64_t count, uint64_t place)
{
    struct leader_record record = { .count = count, .lease_ms = 2000, .place = place };
    (void)snprintf(record.holder, sizeof(record.holder), "%s", holder);
    (void)snprintf(record.address, sizeof(record.address), "127.0.0.1:70%llu",
                   (unsigned long long)count);
    return record;
}

/* A relay before the only member, and the address through it. */
static struct etcd_relay *relay_to(const struct etcd_rig *rig, const char *prefix,
                                   char out[ADDRESS_BYTES])
{
    struct etcd_relay *relay = etcd_relay_start(rig->members[0].port);
    (void)snprintf(out, ADDRESS_BYTES, "etcd:http://127.0.0.1:%d%s", etcd_relay_port(relay),
                   prefix);
    return relay;
}

/* The epoch is not this controller's to take. */
static void must_not_lead(struct baton_status st)
{
    CHECK(st.code == BATON_ABORTED && st.reason == BATON_REASON_NOT_LEADER);
}

/* The first write makes it, the next one replaces it, one that knows only an older one is refused and told
 * what is there. */
static void one_writer(struct etcd_rig *rig)
{
    char address[ADDRESS_BYTES];
    struct leader_record seen;
    etcd_rig_address(rig, "/one", address);
    struct leader_store *a = open_at(address);
    struct leader_store *b = open_at(address);
    struct leader_record first = read_of(a);
    CHECK(first.place == 0 && first.holder[0] == '\0' && first.count == 0);
    struct leader_record mine = of("aa", 1, 0);
    must(leader_store_write(a, &mine, soon(), &mine));
    CHECK(mine.place != 0);
    struct leader_record theirs = of("bb", 1, 0);
    struct baton_status st = leader_store_write(b, &theirs, soon(), &seen);
    CHECK(st.code == BATON_ABORTED && st.reason == BATON_REASON_STALE_REVISION);
    CHECK(strcmp(seen.holder, "aa") == 0 && seen.place == mine.place && seen.lease_ms == 2000);
    theirs = of("bb", 2, seen.place);
    must(leader_store_write(b, &theirs, soon(), &theirs));
    CHECK(theirs.place > mine.place);
    st = leader_store_write(a, &mine, soon(), &seen);
    CHECK(st.code == BATON_ABORTED && strcmp(seen.holder, "bb") == 0);
    CHECK(strcmp(seen.address, "127.0.0.1:702") == 0);
    struct leader_record nobody = { .lease_ms = 2000, .place = seen.place };
    must(leader_store_write(b, &nobody, soon(), &nobody));
    seen = read_of(a);
    CHECK(seen.holder[0] == '\0' && seen.address[0] == '\0' && seen.place == nobody.place);
    leader_store_close(a);
    leader_store_close(b);
}

/* Renewals raise neither revision nor epoch, and commits go on between them. */
static void the_store_does_not_notice(struct etcd_rig *rig)
{
    char address[ADDRESS_BYTES];
    etcd_rig_address(rig, "/beside", address);
    struct bench bench = lead(address);
    struct leader_store *leader = open_at(address);
    struct leader_record record = of("aa", 0, 0);
    for (uint64_t i = 1; i <= 5; i++) {
        record.count = i;
        must(leader_store_write(leader, &record, soon(), &record));
        must(commit(&bench, i, 2));
        CHECK(store_revision(bench.store) == i && value_of(&bench, 2) == i);
    }
    struct bench next = lead(address);
    CHECK(next.start.epoch.n == bench.start.epoch.n + 1 && next.start.revision == 5);
    CHECK(read_of(leader).place == record.place);
    must(leader_store_write(leader, &record, soon(), &record));
    leader_store_close(leader);
    store_close(bench.store);
    store_close(next.store);
}

/* The answer of a renewal is lost: it may have been done, and reading tells that it was. */
static void lost_answer(struct etcd_rig *rig)
{
    char address[ADDRESS_BYTES];
    struct leader_record out = { .place = 7 };
    struct etcd_relay *relay = relay_to(rig, "/lost", address);
    struct leader_store *store = open_at(address);
    struct leader_record record = of("aa", 1, 0);
    must(leader_store_write(store, &record, soon(), &record));
    etcd_relay_set(relay, RELAY_DEAF);
    record.count = 2;
    struct baton_status st = leader_store_write(store, &record, soon(), &out);
    CHECK(st.code == BATON_DEADLINE_EXCEEDED && st.reason == BATON_REASON_STORE_UNAVAILABLE);
    CHECK(out.place == 7);
    st = leader_store_read(store, soon(), &out);
    CHECK(st.code == BATON_UNAVAILABLE && st.reason == BATON_REASON_STORE_UNAVAILABLE);
    etcd_relay_set(relay, RELAY_PASS);
    out = read_of(store);
    CHECK(out.count == 2 && out.place > record.place && strcmp(out.holder, "aa") == 0);
    st = leader_store_write(store, &record, soon(), &out);
    CHECK(st.code == BATON_ABORTED && out.count == 2);
    leader_store_close(store);
    etcd_relay_stop(relay);
}

/* A renewal that was given up arrives when somebody else took over: it changes nothing. */
static void late_request(struct etcd_rig *rig)
{
    char address[ADDRESS_BYTES];
    struct leader_record out;
    struct etcd_relay *relay = relay_to(rig, "/late", address);
    struct leader_store *old = open_at(address);
    struct leader_record record = of("aa", 1, 0);
    must(leader_store_write(old, &record, soon(), &record));
    etcd_relay_set(relay, RELAY_HOLD);
    record.count = 2;
    struct baton_status st = leader_store_write(old, &record, soon(), &out);
    CHECK(st.code == BATON_DEADLINE_EXCEEDED);
    etcd_rig_address(rig, "/late", address);
    struct leader_store *new = open_at(address);
    out = read_of(new);
    CHECK(out.count == 1);
    struct leader_record theirs = of("bb", 1, out.place);
    must(leader_store_write(new, &theirs, soon(), &theirs));
    etcd_relay_set(relay, RELAY_PASS);
    uint64_t end = now_ms() + 60000;
    while (etcd_relay_late(relay) == 0) {
        CHECK(now_ms() < end);
        baton_clock_sleep_ns(5 * BATON_NS_PER_MS);
    }
    out = read_of(old);
    CHECK(strcmp(out.holder, "bb") == 0 && out.place == theirs.place);
    leader_store_close(old);
    leader_store_close(new);
    etcd_relay_stop(relay);
}

/* What cannot be: a store of one process, an address with quotes, a key that something else wrote. */
static void refused(struct etcd_rig *rig)
{
    char address[ADDRESS_BYTES];
    struct leader_store *store = NULL;
    struct leader_record out;
    must_fail(leader_store_open("sqlite:/tmp/x.db", TRY_MS, &store), BATON_INVALID_ARGUMENT,
              BATON_REASON_BAD_FIELD, "belongs to one controller");
    etcd_rig_address(rig, "/refused", address);
    store = open_at(address);
    struct leader_record record = of("aa", 1, 0);
    record.address[3] = '"';
    struct baton_status st = leader_store_write(store, &record, soon(), &out);
    CHECK(st.code == BATON_INVALID_ARGUMENT);
    CHECK(read_of(store).place == 0);
    /* "/refused/leader" and "someone else's". */
    const char *text = etcd_rig_post(
        rig, 0, "kv/put", "{\"key\":\"L3JlZnVzZWQvbGVhZGVy\",\"value\":\"c29tZW9uZSBlbHNlJ3M=\"}");
    CHECK(strstr(text, "header") != NULL);
    must_fail(leader_store_read(store, soon(), &out), BATON_DATA_LOSS, BATON_REASON_MALFORMED,
              "leader was not written by Baton");
    leader_store_close(store);
}

/* An epoch is taken by whom the record names, and by nobody else: not by who led before and is still in doubt about a
 * write, and not by its request that arrives late. */
static void epochs_go_with_the_record(struct etcd_rig *rig)
{
    char direct[ADDRESS_BYTES];
    char relayed[ADDRESS_BYTES];
    struct bench old = { 0 };
    struct bench new = { 0 };
    struct etcd_relay *relay = relay_to(rig, "/epochs?timeoutMs=900", relayed);
    etcd_rig_address(rig, "/epochs", direct);
    struct leader_store *leader = open_at(direct);
    must(store_open(relayed, WALL_NS, &old.store));
    must(store_open(direct, WALL_NS, &new.store));
    CHECK(store_cluster(old.store) != 0 && store_cluster(old.store) == store_cluster(new.store));
    store_set_holder(old.store, "aa");
    store_set_holder(new.store, "bb");
    must_not_lead(store_acquire_epoch(old.store, &old.start));
    struct leader_record record = of("aa", 1, 0);
    must(leader_store_write(leader, &record, soon(), &record));
    must(store_acquire_epoch(old.store, &old.start));
    must(commit(&old, 1, 1));
    etcd_relay_hold(relay, "mod_revision"); /* What compares; reads pass. */
    struct baton_status st = store_acquire_epoch(old.store, &old.start);
    CHECK(st.code == BATON_UNAVAILABLE && etcd_relay_held(relay) > 0);
    record = of("bb", 1, record.place);
    must(leader_store_write(leader, &record, soon(), &record));
    int held = etcd_relay_held(relay);
    etcd_relay_set(relay, RELAY_PASS);
    uint64_t end = now_ms() + 60000;
    while (etcd_relay_late(relay) < held) {
        CHECK(now_ms() < end);
        baton_clock_sleep_ns(5 * BATON_NS_PER_MS);
    }
    must(store_acquire_epoch(new.store, &new.start));
    CHECK(new.start.epoch.n == old.start.epoch.n + 1);
    must_not_lead(store_acquire_epoch(old.store, &old.start));
    must_not_lead(store_raise_generation(old.store, new.start.epoch.generation));
    must(commit(&new, 2, 1));
    record.count = 2;
    record.holder[0] = '\0'; /* It is released: nobody takes one. */
    must(leader_store_write(leader, &record, soon(), &record));
    must_not_lead(store_acquire_epoch(new.store, &new.start));
    leader_store_close(leader);
    store_close(old.store);
    store_close(new.store);
    etcd_relay_stop(relay);
}

/* Who leads is decided in the cluster that the records are in, and in that which the address names. */
static void another_cluster(struct etcd_rig *rig)
{
    char address[ADDRESS_BYTES];
    struct leader_record out;
    struct store *store = NULL;
    etcd_rig_address(rig, "/pinned", address);
    must(store_open(address, WALL_NS, &store));
    uint64_t cluster = store_cluster(store);
    store_close(store);
    struct leader_store *leader = open_at(address);
    leader_store_pin(leader, cluster + 1);
    must_fail(leader_store_read(leader, soon(), &out), BATON_FAILED_PRECONDITION,
              BATON_REASON_INCOMPATIBLE, "belongs to another cluster");
    leader_store_close(leader);
    size_t used = strlen(address);
    (void)snprintf(address + used, sizeof(address) - used, "?cluster=%llx",
                   (unsigned long long)cluster + 1);
    must_fail(store_open(address, WALL_NS, &store), BATON_FAILED_PRECONDITION,
              BATON_REASON_INCOMPATIBLE, "belongs to another cluster");
    (void)snprintf(address + used, sizeof(address) - used, "?cluster=%llx",
                   (unsigned long long)cluster);
    must(store_open(address, WALL_NS, &store));
    store_close(store);
}

/* Answers that come later than a try may last are waited for: else a slow etcd would have no leader for ever. */
static void slow_answers(struct etcd_rig *rig)
{
    char address[ADDRESS_BYTES];
    struct leader_record seen;
    struct leader_store *store = NULL;
    struct etcd_relay *relay = relay_to(rig, "/slow", address);
    must(leader_store_open(address, RELAY_SLOW_MS / 3, &store));
    etcd_relay_set(relay, RELAY_SLOW);
    struct baton_status st = leader_store_read(store, soon(), &seen);
    CHECK(baton_ok(&st) || st.code == BATON_UNAVAILABLE);
    struct leader_record mine = of("aa", 1, read_of(store).place);
    for (uint64_t count = 1; count < 6; count++) {
        mine.count = count;
        must(leader_store_write(store, &mine, soon(), &mine));
        CHECK(read_of(store).count == count);
    }
    CHECK(etcd_relay_slowed(relay) > 10);
    etcd_relay_set(relay, RELAY_PASS);
    CHECK(read_of(store).count == 5);
    leader_store_close(store);
    etcd_relay_stop(relay);
}

static const struct etcd_part parts[] = {
    { "one_writer", one_writer, NULL },
    { "the_store_does_not_notice", the_store_does_not_notice, NULL },
    { "lost_answer", lost_answer, NULL },
    { "late_request", late_request, NULL },
    { "slow_answers", slow_answers, NULL },
    { "refused", refused, NULL },
    { "epochs_go_with_the_record", epochs_go_with_the_record, NULL },
    { "another_cluster", another_cluster, NULL },
};

int main(int argc, char **argv)
{
    return etcd_parts_run("etcd_leader", parts, sizeof(parts) / sizeof(parts[0]), argc, argv);
}
