/* load_store.h -- what a commit of the store costs by itself, on the same disk: the part of a latency that is the fsync's.
 *
 * Depends on: controller/store.  Threads: one. */
#ifndef TESTS_BENCH_LOAD_STORE_H
#define TESTS_BENCH_LOAD_STORE_H

#include <stdint.h>

/* Seconds of 'count' durable transactions of one group and one log entry each, in a store of its own in 'folder'. */
void load_store_commits(const char *folder, double *seconds, uint32_t count);

#endif /* load_store.h */
