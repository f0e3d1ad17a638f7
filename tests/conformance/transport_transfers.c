/* transport_transfers.c -- rows on reading, lengths, back pressure, cancelling and closing. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conformance/transport_conformance.h"

static const char *reads_any_range(struct bench *bench)
{
    static const struct {
        uint64_t offset;
        uint64_t bytes;
    } ranges[] = { { 0, 1 },           { 1, 4095 },
                   { 4096, 65536 },    { (1 << 20) - 1, 3 },
                   { 777, 1 << 20 },   { OBJECT_BYTES - 1, 1 },
                   { 0, OBJECT_BYTES } };
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        uint64_t bytes = ranges[i].bytes;
        if (bytes > bench->attr.transfer_bytes_max) {
            continue;
        }
        memset(bench->buffer, 0xee, OBJECT_BYTES);
        struct baton_tp_transfer transfer = bench_transfer(bench, ranges[i].offset, bytes, i + 1);
        struct baton_tp_completion done = bench_do(bench, bench->plugin->get, &transfer);
        if (done.result != BATON_TP_OK || done.bytes != bytes || done.op_id != i + 1) {
            return "a range did not complete with OK, its bytes and its op_id";
        }
        if (memcmp(bench->buffer, bench->object + ranges[i].offset, bytes) != 0) {
            return "a range came with other bytes";
        }
        if (bytes < OBJECT_BYTES && bench->buffer[bytes] != 0xee) {
            return "wrote beyond the range";
        }
    }
    return NULL;
}

static const char *reads_nothing(struct bench *bench)
{
    struct baton_tp_transfer transfer = bench_transfer(bench, 0, 0, 7);
    struct baton_tp_completion done = bench_do(bench, bench->plugin->get, &transfer);
    return done.result == BATON_TP_OK && done.bytes == 0 ? NULL : "zero bytes are not OK";
}

static const char *writes_at_the_local_offset(struct bench *bench)
{
    struct baton_tp_transfer transfer = bench_transfer(bench, 10, 20, 8);
    transfer.local_offset = 100;
    memset(bench->buffer, 0, 200);
    struct baton_tp_completion done = bench_do(bench, bench->plugin->get, &transfer);
    if (done.result != BATON_TP_OK || memcmp(bench->buffer + 100, bench->object + 10, 20) != 0) {
        return "the bytes are not at the local offset";
    }
    return bench->buffer[99] == 0 && bench->buffer[120] == 0 ? NULL : "wrote beside the range";
}

static const char *reports_a_short_read(struct bench *bench)
{
    struct baton_tp_transfer transfer = bench_transfer(bench, OBJECT_BYTES - 10, 20, 9);
    struct baton_tp_completion done = bench_do(bench, bench->plugin->get, &transfer);
    return done.result == BATON_TP_E_CORRUPT && done.bytes == 10
               ? NULL
               : "a range beyond the end is not CORRUPT with the bytes that were there";
}

static const char *reports_a_missing_object(struct bench *bench)
{
    struct baton_tp_transfer transfer = bench_transfer(bench, 0, 1, 10);
    transfer.key = (const uint8_t *)"not-there";
    transfer.key_bytes = 9;
    struct baton_tp_completion done = bench_do(bench, bench->plugin->get, &transfer);
    return done.result == BATON_TP_E_UNREACHABLE ? NULL : "a missing object is not UNREACHABLE";
}

static const char *refuses_keys_that_are_no_names(struct bench *bench)
{
    static const char *const keys[] = { "..", ".", "../object", "/etc/hostname", "a/b" };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        struct baton_tp_transfer transfer = bench_transfer(bench, 0, 1, 11);
        transfer.key = (const uint8_t *)keys[i];
        transfer.key_bytes = (uint32_t)strlen(keys[i]);
        if (bench_do(bench, bench->plugin->get, &transfer).result >= 0) {
            return keys[i];
        }
    }
    return NULL;
}

static bool is_idle(struct bench *bench)
{
    struct baton_tp_completion done;
    uint32_t count = 1;
    int result = bench->plugin->poll(bench->reader, 1, &done, 1, &count);
    return result >= 0 && count == 0;
}

static const char *refuses_bad_arguments(struct bench *bench)
{
    struct baton_tp_transfer beyond = bench_transfer(bench, 0, 2, 12);
    beyond.local_offset = OBJECT_BYTES - 1;
    struct baton_tp_transfer wrapping = bench_transfer(bench, 0, 2, 12);
    wrapping.local_offset = UINT64_MAX;
    struct baton_tp_transfer big = bench_transfer(bench, 0, UINT64_MAX, 12);
    struct baton_tp_transfer keyless = bench_transfer(bench, 0, 1, 12);
    keyless.key_bytes = 0;
    struct baton_tp_transfer memless = bench_transfer(bench, 0, 1, 12);
    memless.mem = NULL;
    struct baton_tp_transfer old = bench_transfer(bench, 0, 1, 12);
    old.size = 8;
    const struct baton_tp_transfer *const bad[] = { &beyond,  &wrapping, &big,
                                                    &keyless, &memless,  &old };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (bench->plugin->get(bench->reader, bad[i]) != BATON_TP_E_INVALID) {
            return "a bad argument is not INVALID";
        }
    }
    return is_idle(bench) ? NULL : "a refused transfer was reported";
}

/* Fills all slots; AGAIN starts nothing; each accepted one is reported once. */
static const char *pushes_back(struct bench *bench)
{
    uint32_t accepted = 0;
    uint8_t seen[4096] = { 0 };
    int result = BATON_TP_OK;
    while (accepted < sizeof(seen)) {
        struct baton_tp_transfer transfer = bench_transfer(bench, accepted, 1, accepted);
        result = bench->plugin->get(bench->reader, &transfer);
        if (result != BATON_TP_OK && result != BATON_TP_PENDING) {
            break;
        }
        accepted++;
    }
    if (result != BATON_TP_AGAIN || accepted < bench->attr.transfers_max) {
        return "did not accept as many as it promises, and then AGAIN";
    }
    for (uint32_t i = 0; i < accepted; i++) {
        struct baton_tp_completion done;
        if (!bench_poll(bench->reader, bench, &done) || done.op_id >= accepted ||
            seen[done.op_id]++ != 0 || done.result != BATON_TP_OK) {
            return "an accepted transfer was not reported once, with OK";
        }
    }
    return is_idle(bench) ? NULL : "more was reported than accepted";
}

static const char *polls_into_no_room(struct bench *bench)
{
    struct baton_tp_transfer transfer = bench_transfer(bench, 0, 10, 13);
    struct baton_tp_completion done;
    uint32_t count = 1;
    if (bench->plugin->get(bench->reader, &transfer) < 0 ||
        bench->plugin->poll(bench->reader, 1, &done, 0, &count) < 0 || count != 0) {
        return "poll() without room is not OK with nothing";
    }
    return bench_poll(bench->reader, bench, &done) && done.op_id == 13 ? NULL
                                                                       : "the completion was lost";
}

static const char *cancels(struct bench *bench)
{
    for (uint64_t op = 1; op <= 3; op++) {
        struct baton_tp_transfer transfer = bench_transfer(bench, 0, 1 << 20, op);
        if (bench->plugin->get(bench->reader, &transfer) < 0) {
            return "a transfer was not accepted";
        }
    }
    if (bench->plugin->cancel(bench->reader, 2) != BATON_TP_OK ||
        bench->plugin->cancel(bench->reader, 99) != BATON_TP_E_INVALID) {
        return "cancel() is not OK for what is under way, and INVALID for what is not";
    }
    for (uint64_t i = 1; i <= 3; i++) {
        struct baton_tp_completion done;
        if (!bench_poll(bench->reader, bench, &done)) {
            return "a transfer was not reported";
        }
        bool may_be_cancelled = done.op_id == 2 && done.result == BATON_TP_E_CANCELLED;
        if (done.result != BATON_TP_OK && !may_be_cancelled) {
            return "a transfer that was not cancelled failed";
        }
    }
    return is_idle(bench) ? NULL : "a cancelled transfer was reported twice";
}

static const char *closes_with_transfers_under_way(struct bench *bench)
{
    struct baton_tp *tp = NULL;
    struct baton_tp_mem *mem = NULL;
    struct baton_tp_memory memory = { sizeof(memory), bench->buffer, OBJECT_BYTES, NULL, 0, 0 };
    if (bench->plugin->open(NULL, bench->config, &tp) < 0 ||
        bench->plugin->mem_register(tp, &memory, &mem) < 0) {
        return "a second transport was not opened";
    }
    struct baton_tp_transfer transfer = bench_transfer(bench, 0, 1 << 20, 1);
    transfer.mem = mem;
    /* The memory stays registered: with a transfer under way only close() may release it. */
    bool accepted = bench->plugin->get(tp, &transfer) >= 0;
    bench->plugin->close(tp);
    return accepted ? NULL : "the transfer was not accepted";
}

static const char *tells_lengths(struct bench *bench)
{
    struct baton_tp_transfer transfer = bench_transfer(bench, 0, 0, 14);
    transfer.mem = NULL;
    struct baton_tp_completion done = bench_do(bench, bench->plugin->length, &transfer);
    if (done.result != BATON_TP_OK || done.bytes != OBJECT_BYTES) {
        return "the length of an object is wrong";
    }
    transfer.key = (const uint8_t *)"not-there";
    transfer.key_bytes = 9;
    done = bench_do(bench, bench->plugin->length, &transfer);
    return done.result == BATON_TP_E_UNREACHABLE ? NULL : "a missing object has a length";
}

/* One of several transports that read at once. */
static void *read_alone(void *argument)
{
    struct bench *shared = argument;
    struct bench own = *shared;
    const char *wrong = "a transport of its own was not opened";
    own.buffer = malloc(OBJECT_BYTES);
    struct baton_tp_memory memory = { sizeof(memory), own.buffer, OBJECT_BYTES, NULL, 0, 0 };
    if (own.plugin->open(NULL, own.config, &own.reader) == BATON_TP_OK) {
        if (own.plugin->mem_register(own.reader, &memory, &own.mem) == BATON_TP_OK) {
            wrong = reads_any_range(&own);
            own.plugin->mem_release(own.reader, own.mem);
        }
        own.plugin->close(own.reader);
    }
    free(own.buffer);
    return (void *)(uintptr_t)wrong;
}

static const char *serves_transports_in_parallel(struct bench *bench)
{
    pthread_t threads[4];
    const char *wrong = NULL;
    for (size_t i = 0; i < 4; i++) {
        if (pthread_create(&threads[i], NULL, read_alone, bench) != 0) {
            abort();
        }
    }
    for (size_t i = 0; i < 4; i++) {
        void *said = NULL;
        pthread_join(threads[i], &said);
        wrong = said != NULL ? said : wrong;
    }
    return wrong;
}

const struct row transfer_rows[] = {
    { "reads any range", BATON_TP_CAP_GET, reads_any_range },
    { "reads nothing", BATON_TP_CAP_GET, reads_nothing },
    { "writes at the local offset", BATON_TP_CAP_GET, writes_at_the_local_offset },
    { "reports a short read", BATON_TP_CAP_GET, reports_a_short_read },
    { "reports a missing object", BATON_TP_CAP_GET, reports_a_missing_object },
    { "refuses keys that are no names", BATON_TP_CAP_GET | BATON_TP_CAP_NAMED,
      refuses_keys_that_are_no_names },
    { "refuses bad arguments", BATON_TP_CAP_GET, refuses_bad_arguments },
    { "pushes back", BATON_TP_CAP_GET, pushes_back },
    { "polls into no room", BATON_TP_CAP_GET, polls_into_no_room },
    { "cancels", BATON_TP_CAP_GET | BATON_TP_CAP_CANCEL, cancels },
    { "closes with transfers under way", BATON_TP_CAP_GET, closes_with_transfers_under_way },
    { "tells lengths", BATON_TP_CAP_LENGTH, tells_lengths },
    { "serves transports in parallel", BATON_TP_CAP_GET, serves_transports_in_parallel },
    { NULL, 0, NULL },
};
