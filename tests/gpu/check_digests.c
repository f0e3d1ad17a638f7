/* check_digests.c -- chunk digests on the device against XXH3 on the CPU and the golden vectors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/rig.h"
#include "transport/cuda/xxh3.h"

enum { RANGES_MAX = 4096, CHUNK = BATON_CUDA_CHUNK_BYTES, DIGEST = BATON_CUDA_DIGEST_BYTES };

struct ranges {
    struct baton_cuda_range items[RANGES_MAX];
    uint64_t offsets[RANGES_MAX]; /* In the buffer. */
    uint32_t count;
    uint64_t chunks;
};

static void add(struct ranges *ranges, uint64_t offset, uint64_t size)
{
    ranges->offsets[ranges->count] = offset;
    ranges->items[ranges->count].size = size;
    ranges->items[ranges->count].first_chunk = ranges->chunks;
    ranges->chunks += (size + CHUNK - 1) / CHUNK;
    ranges->count++;
}

/* The digests that the device makes of ranges of a buffer, in host memory. */
static uint8_t *digest(struct rig *rig, struct ranges *ranges, const uint8_t *device)
{
    for (uint32_t i = 0; i < ranges->count; i++) {
        ranges->items[i].bytes = device + ranges->offsets[i];
    }
    void *table = rig_upload(rig, ranges->items, ranges->count * sizeof(ranges->items[0]));
    void *digests = rig_device(rig, ranges->chunks * DIGEST);
    rig_must(rig, rig->cuda->digest(table, ranges->count, ranges->chunks, digests, rig->stream),
             "digest");
    uint8_t *out = rig_download(rig, digests, ranges->chunks * DIGEST);
    rig_free(rig, table);
    rig_free(rig, digests);
    return out;
}

static bool equals_cpu(const struct ranges *ranges, const uint8_t *host, const uint8_t *got)
{
    for (uint32_t i = 0; i < ranges->count; i++) {
        uint64_t size = ranges->items[i].size;
        for (uint64_t at = 0; at < size; at += CHUNK, got += DIGEST) {
            uint8_t expected[DIGEST];
            uint64_t bytes = size - at < CHUNK ? size - at : CHUNK;
            xxh3_canonical(xxh3_128(host + ranges->offsets[i] + at, bytes), expected);
            if (!rig_equal("a digest", got, expected, DIGEST)) {
                printf("  range %u: %llu bytes at %llu, chunk at %llu\n", i,
                       (unsigned long long)size, (unsigned long long)ranges->offsets[i],
                       (unsigned long long)at);
                return false;
            }
        }
    }
    return true;
}

static void check(struct rig *rig, const char *name, struct ranges *ranges, uint64_t bytes)
{
    uint8_t *host = rig_host(rig, bytes);
    void *device = rig_upload(rig, host, bytes);
    uint8_t *got = digest(rig, ranges, device);
    rig_verdict(rig, name, ranges->chunks > 0 && equals_cpu(ranges, host, got));
    rig_free(rig, device);
    free(got);
    free(host);
}

/* Every length up to 2,200, at every alignment, with empty ranges between them. */
static void check_lengths(struct rig *rig)
{
    struct ranges *ranges = calloc(1, sizeof(*ranges));
    for (uint64_t size = 0; size <= 2200; size++) {
        add(ranges, size % 37, size);
        if (size % 100 == 0) {
            add(ranges, 0, 0);
        }
    }
    check(rig, "digests of every length to 2,200", ranges, 4096);
    free(ranges);
}

/* Around every border of the kernel's rounds and of a chunk; several chunks; all alignments. */
static void check_borders(struct rig *rig)
{
    static const uint64_t near[] = { 32 << 10, 64 << 10, 96 << 10, CHUNK, 2 * CHUNK, 3 * CHUNK };
    struct ranges *ranges = calloc(1, sizeof(*ranges));
    for (size_t i = 0; i < sizeof(near) / sizeof(near[0]); i++) {
        for (uint64_t k = 0; k < 66; k++) {
            add(ranges, k % 17 + 16 * (k % 2), near[i] + k * (k % 3 == 0 ? 17 : 1) - 33);
        }
    }
    check(rig, "digests around borders", ranges, 4 * CHUNK);
    free(ranges);
}

static void check_random(struct rig *rig)
{
    struct ranges *ranges = calloc(1, sizeof(*ranges));
    for (int i = 0; i < 300; i++) {
        uint64_t offset = baton_random_below(&rig->random, 4 * CHUNK) & ~(uint64_t)(i % 2 ? 15 : 0);
        add(ranges, offset, baton_random_below(&rig->random, 12 * CHUNK));
    }
    check(rig, "digests of random ranges", ranges, 16 * CHUNK);
    free(ranges);
}

static uint8_t pattern(uint64_t i)
{
    return (uint8_t)(7 * i + 13 * (i >> 8) + 29 * (i >> 16));
}

/* The numbers that transport/model is held to, made by another implementation. */
static void check_golden(struct rig *rig, const char *golden)
{
    FILE *file = fopen(golden, "r");
    uint8_t *host = malloc(2 * CHUNK);
    char line[256];
    unsigned compared = 0;
    bool holds = file != NULL;
    for (uint64_t i = 0; i < 2 * CHUNK; i++) {
        host[i] = pattern(i);
    }
    void *device = rig_upload(rig, host, 2 * CHUNK);
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        char text[64];
        char got_text[2 * DIGEST + 1];
        unsigned long long size = 0;
        if (sscanf(line, "plain %llu %63s", &size, text) == 2 && size > 0 && size <= CHUNK) {
            struct ranges *ranges = calloc(1, sizeof(*ranges));
            add(ranges, 0, size);
            uint8_t *got = digest(rig, ranges, device);
            for (int i = 0; i < DIGEST; i++) {
                (void)snprintf(got_text + 2 * i, 3, "%02x", got[i]);
            }
            holds = strcmp(got_text, text) == 0 && holds;
            compared++;
            free(got);
            free(ranges);
        }
    }
    rig_verdict(rig, "digests equal the golden vectors", holds && compared == 19);
    if (file != NULL) {
        fclose(file);
    }
    rig_free(rig, device);
    free(host);
}

void check_digests(struct rig *rig, const char *golden)
{
    check_lengths(rig);
    check_borders(rig);
    check_random(rig);
    check_golden(rig, golden);
    rig_verdict(rig, "digests of no range are nothing",
                rig->cuda->digest(NULL, 0, 0, NULL, rig->stream) == BATON_CUDA_OK);
    rig_verdict(rig, "digests without a table are refused",
                rig->cuda->digest(NULL, 0, 1, NULL, rig->stream) == BATON_CUDA_E_INVALID);
}
