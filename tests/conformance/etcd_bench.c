/* etcd_bench.c -- see etcd_bench.h. */
#include "tests/conformance/etcd_bench.h"

#include <string.h>

#include "api/base/clock.h"

void must(struct baton_status st)
{
    if (!baton_ok(&st)) {
        fprintf(stderr, "%s %s: %s (%s)\n", baton_code_name(st.code), baton_reason_name(st.reason),
                st.message, st.hint);
    }
    CHECK(baton_ok(&st));
}

void must_fail(struct baton_status st, enum baton_code code, enum baton_reason reason,
               const char *part)
{
    if (st.code != code || st.reason != reason || strstr(st.message, part) == NULL) {
        fprintf(stderr, "%s %s: %s (%s)\n", baton_code_name(st.code), baton_reason_name(st.reason),
                st.message, st.hint);
    }
    CHECK(st.code == code && st.reason == reason && strstr(st.message, part) != NULL);
    CHECK(st.hint[0] != '\0' && strstr(st.message, "s3cret") == NULL);
}

struct bench lead(const char *address)
{
    struct bench bench = { 0 };
    must(store_open(address, WALL_NS, &bench.store));
    must(store_acquire_epoch(bench.store, &bench.start));
    return bench;
}

struct baton_status commit(struct bench *bench, uint64_t value, int count)
{
    struct model_record models[RECORDS];
    struct record_op ops[RECORDS];
    struct log_entry entry = { .number = store_revision(bench->store) + 1 };
    memset(models, 0, sizeof(models));
    memset(ops, 0, sizeof(ops));
    for (int i = 0; i < count; i++) {
        (void)snprintf(models[i].name, sizeof(models[i].name), "m%d", i);
        models[i].newest_seq = value;
        ops[i].record = (struct record_ref){ RECORD_MODEL, &models[i] };
        record_key(ops[i].record, ops[i].key);
    }
    struct transaction transaction = { .epoch = bench->start.epoch,
                                       .revision = store_revision(bench->store) + 1,
                                       .sync = true,
                                       .ops = ops,
                                       .ops_count = (size_t)count,
                                       .entries = &entry,
                                       .entries_count = 1 };
    return store_commit(bench->store, &transaction);
}

struct baton_status note(void *context, struct record_ref record)
{
    struct loaded *loaded = context;
    const struct model_record *model = record.body;
    CHECK(record.kind == RECORD_MODEL);
    loaded->values[atoi(model->name + 1) % RECORDS] = model->newest_seq;
    loaded->count++;
    return baton_status_ok();
}

uint64_t value_of(struct bench *bench, int count)
{
    struct loaded loaded = { 0 };
    must(store_load(bench->store, note, &loaded));
    for (int i = 1; i < count; i++) {
        CHECK(loaded.values[i] == loaded.values[0]);
    }
    return loaded.values[0];
}

uint64_t now_ms(void)
{
    return baton_clock_monotonic_ns() / BATON_NS_PER_MS;
}

struct store_follower *follow(const char *address, uint64_t cluster)
{
    struct store_follower *follower = NULL;
    must(store_follower_open(address, cluster, &follower));
    must(store_follower_start(follower));
    store_follower_set(follower, true);
    return follower;
}

struct store_copy followed(struct store_follower *follower, uint64_t revision)
{
    enum { WAIT_MS = 60000 };
    struct store_copy copy;
    uint64_t from_ns = baton_clock_monotonic_ns();
    for (;;) {
        store_follower_look(follower, &copy);
        if (copy.whole && copy.revision == revision && copy.confirmed_ns >= from_ns) {
            return copy;
        }
        CHECK(baton_clock_monotonic_ns() - from_ns < WAIT_MS * BATON_NS_PER_MS);
        baton_clock_sleep_ns(5 * BATON_NS_PER_MS);
    }
}
