/* load_store.c -- see load_store.h. */
#include "tests/bench/load_store.h"

#include <stdio.h>

#include "api/base/clock.h"
#include "controller/store/store.h"
#include "tests/bench/load_must.h"
#include "tests/bench/ratio.h"

static void commit(struct store *store, const struct store_start *start, uint32_t number)
{
    static struct group_record group;
    (void)snprintf(group.name, sizeof(group.name), "g-00001");
    (void)snprintf(group.model, sizeof(group.model), "m");
    group.ticket_number = number;
    struct record_op op = { .record = { RECORD_GROUP, &group } };
    record_key(op.record, op.key);
    struct log_entry entry = { .number = start->log_next_number + number, .wall_ns = 1 };
    (void)snprintf(entry.object, sizeof(entry.object), "group/g-00001");
    struct transaction transaction = { .epoch = start->epoch,
                                       .revision = start->revision + number + 1,
                                       .sync = true,
                                       .ops = &op,
                                       .ops_count = 1,
                                       .entries = &entry,
                                       .entries_count = 1 };
    struct baton_status st = store_commit(store, &transaction);
    load_must(baton_ok(&st), st.message);
}

void load_store_commits(const char *folder, double *seconds, uint32_t count)
{
    char address[512];
    struct store *store = NULL;
    struct store_start start;
    (void)snprintf(address, sizeof(address), "sqlite:%s/alone.db", folder);
    struct baton_status st = store_open(address, baton_clock_wall_ns(), &store);
    load_must(baton_ok(&st), st.message);
    st = store_acquire_epoch(store, &start);
    load_must(baton_ok(&st), st.message);
    for (uint32_t i = 0; i < count; i++) {
        double began = ratio_now_s();
        commit(store, &start, i);
        seconds[i] = ratio_now_s() - began;
    }
    store_close(store);
}
