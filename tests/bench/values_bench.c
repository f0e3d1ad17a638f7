/* values_bench.c -- what looking at the values costs beside the digest, chunk by chunk, on one core.
 *
 * Ours: a chunk of BF16 is read, digested and scanned for NaN and infinity, as a publish does; then
 * ('values_change') also compared with its parent's.  The anchor is the digest alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/ratio.h"
#include "transport/model/digest.h"
#include "transport/model/values.h"

enum { DATA_BYTES = 256 << 20, PAIRS = 9, RUN_SECONDS_MAX = 300 };

/* Weights as they are: small numbers of both signs. */
static void fill(uint8_t *data)
{
    uint64_t state = 88172645463325252u;
    uint16_t *words = (uint16_t *)data;
    for (size_t i = 0; i < DATA_BYTES / 2; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        words[i] = (uint16_t)((state & 0x83ff) + 0x3800);
    }
}

enum look { LOOK_NONE, LOOK_SCAN, LOOK_CHANGE };

static double run(const uint8_t *data, uint8_t *chunk, enum look look)
{
    struct values_found found = { 0, 0 };
    struct values_change change = { 0, 0 };
    uint64_t sum = 0;
    double begin = ratio_now_s();
    for (size_t at = 0; at < DATA_BYTES; at += BATON_CHUNK_BYTES) {
        struct baton_bytes bytes = { chunk, BATON_CHUNK_BYTES };
        memcpy(chunk, data + at, BATON_CHUNK_BYTES); /* As read() from the page cache. */
        sum += digest_of(bytes).bytes[0];
        if (look != LOOK_NONE) {
            values_scan(TENSOR_DTYPE_BF16, bytes, &found);
        }
        if (look == LOOK_CHANGE) {
            struct baton_bytes base = { data + DATA_BYTES - BATON_CHUNK_BYTES - at,
                                        BATON_CHUNK_BYTES };
            values_compare(TENSOR_DTYPE_BF16, bytes, base, &change);
        }
    }
    double seconds = ratio_now_s() - begin;
    if (sum == 0 || found.nans + found.infs != 0 || (look == LOOK_CHANGE && change.base <= 0)) {
        fprintf(stderr, "values_bench: an unlikely digest, or a special value in clean data\n");
    }
    return seconds;
}

static int measure(struct ratio *ratio, enum look look, const uint8_t *data, uint8_t *chunk)
{
    run(data, chunk, look);
    for (unsigned i = 0; i < PAIRS; i++) {
        double ours = run(data, chunk, look);
        double anchor = run(data, chunk, LOOK_NONE);
        ratio_add(ratio, DATA_BYTES / 1e9 / ours, DATA_BYTES / 1e9 / anchor);
    }
    return ratio_print(ratio);
}

int main(void)
{
    struct ratio scan = {
        .name = "values", .unit = "GB/s per core", .anchor = "the digest alone", .target = 0.8
    };
    struct ratio change = scan;
    change.name = "values_change";
    change.target = 0.25;
    alarm(RUN_SECONDS_MAX);
    uint8_t *data = aligned_alloc(4096, DATA_BYTES);
    uint8_t *chunk = aligned_alloc(4096, BATON_CHUNK_BYTES);
    fill(data);
    int missed = measure(&scan, LOOK_SCAN, data, chunk);
    missed |= measure(&change, LOOK_CHANGE, data, chunk);
    free(chunk);
    free(data);
    return missed;
}
