/* etcd_bench.h -- what the tests of the etcd store do with a store: lead, commit, load, judge.
 *
 * A failed check ends the program with a line.
 *
 * Depends on: controller/store.  Threads: one.  Ownership: the caller closes the store of a bench. */
#ifndef TESTS_CONFORMANCE_ETCD_BENCH_H
#define TESTS_CONFORMANCE_ETCD_BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "controller/store/follow.h"
#include "controller/store/store.h"

#define CHECK(condition_)                                                                          \
    do {                                                                                           \
        if (!(condition_)) {                                                                       \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition_);                       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define WALL_NS (UINT64_C(1700000000) * 1000000000)

enum { RECORDS = 20, SKIPPED = 77, ADDRESS_BYTES = 1024 };

struct bench {
    struct store *store;
    struct store_start start;
};

struct loaded {
    int count;
    uint64_t values[RECORDS];
};

void must(struct baton_status st);
/* A refusal of this code and reason whose message holds 'part', and that says what to do. */
void must_fail(struct baton_status st, enum baton_code code, enum baton_reason reason,
               const char *part);
/* Opens and acquires the epoch. */
struct bench lead(const char *address);
/* Gives the models m0 .. m<count - 1> the number 'value', and says so in the log. */
struct baton_status commit(struct bench *bench, uint64_t value, int count);
/* A visitor of store_load() for a struct loaded. */
struct baton_status note(void *context, struct record_ref record);
/* The first 'count' models all have one number, which is returned. */
uint64_t value_of(struct bench *bench, int count);
uint64_t now_ms(void);

/* Opens, starts and sets on a copy that follows. */
struct store_follower *follow(const char *address, uint64_t cluster);
/* Waits until the copy is whole, of this revision of the store, and confirmed after this call; what it then is. */
struct store_copy followed(struct store_follower *follower, uint64_t revision);

#endif /* etcd_bench.h */
