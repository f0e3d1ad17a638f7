/* local_recorder.h -- a sink that keeps what clients publish in memory, for tests of the local server.
 *
 * Threads: any.  Ownership: the test owns the recorder and destroys it after the server. */
#ifndef TESTS_UNIT_LOCAL_RECORDER_H
#define TESTS_UNIT_LOCAL_RECORDER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/shell/local_server.h"

enum { RECORDER_ENTRIES_MAX = 4096 };

struct recorded_entry {
    struct local_entry entry;
    uint8_t *bytes;
    uint64_t have; /* Of an inline entry. */
};

struct recorder {
    /* Set before the server starts. */
    const char *refused_entry; /* An entry of this name is refused. */
    bool refuses_begin;
    _Atomic bool
        blocks; /* directory() and commit() report until this is false or they are stopped. */

    /* Read once a call returned. */
    pthread_mutex_t lock;
    struct local_publish request;  /* The last. */
    struct local_operate operated; /* The last. */
    char operated_by[BATON_NAME_BYTES];
    struct recorded_entry entries[RECORDER_ENTRIES_MAX]; /* Of the last upload. */
    size_t entries_count;
    _Atomic uint32_t begun;
    _Atomic uint32_t working; /* Calls of directory() and commit(). */
    _Atomic uint32_t committed;
    _Atomic uint32_t dropped;
    _Atomic uint32_t cancelled;

    uint8_t *segment; /* The upload's; mapped. */
    uint64_t segment_bytes;
};

struct recorder *recorder_create(void);
void recorder_destroy(struct recorder *recorder);
struct local_sink recorder_sink(struct recorder *recorder);
/* Waits, at most 10 s, for a counter to reach a value; false if it did not. */
bool recorder_wait(const _Atomic uint32_t *counter, uint32_t value);
const struct recorded_entry *recorder_find(const struct recorder *recorder, const char *name);

#endif /* local_recorder.h */
