/* check_deltas.c -- scan, compaction and apply on the device against plain loops. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/rig.h"

/* One word in 'one_in' changes; 0: none. */
struct world {
    uint64_t size;
    uint32_t word;
    uint64_t one_in;
    uint8_t *old_bytes;
    uint8_t *now;
    uint8_t *marks; /* What must come out. */
    uint32_t *counts;
    uint32_t *indices;
    uint8_t *words;
    uint64_t changes;
};

static void note_change(struct world *world, uint64_t index)
{
    uint64_t at = index * world->word;
    world->marks[index / 8] |= (uint8_t)(1u << index % 8);
    world->counts[at / BATON_CUDA_SEGMENT_BYTES]++;
    world->indices[world->changes] = (uint32_t)index;
    memcpy(world->words + world->changes * world->word, world->now + at, world->word);
    world->changes++;
}

static struct world world_create(struct rig *rig, uint64_t size, uint32_t word, uint64_t one_in)
{
    struct world world = { .size = size, .word = word, .one_in = one_in };
    uint64_t words = size / word;
    world.old_bytes = rig_host(rig, size);
    world.now = malloc(size + 1);
    world.marks = calloc(baton_cuda_marks_bytes(size, word) + 1, 1);
    world.counts = calloc(baton_cuda_segments(size) + 1, sizeof(uint32_t));
    world.indices = calloc(words + 1, sizeof(uint32_t));
    world.words = calloc(words + 1, word);
    memcpy(world.now, world.old_bytes, size);
    for (uint64_t i = 0; i < words; i++) {
        if (one_in > 0 && baton_random_below(&rig->random, one_in) == 0) {
            /* Any one byte of the word: each must be seen. */
            uint64_t at = i * word + baton_random_below(&rig->random, word);
            world.now[at] ^= (uint8_t)(1u << baton_random_below(&rig->random, 8));
            note_change(&world, i);
        }
    }
    return world;
}

static void world_free(struct world *world)
{
    free(world->old_bytes);
    free(world->now);
    free(world->marks);
    free(world->counts);
    free(world->indices);
    free(world->words);
}

struct on_device {
    struct baton_cuda_delta delta;
    struct baton_cuda_changes changes;
    void *old_bytes;
    void *now;
    uint64_t *refused;
};

static struct on_device upload(struct rig *rig, const struct world *world, uint64_t capacity)
{
    struct on_device d;
    uint64_t segments = baton_cuda_segments(world->size);
    uint64_t zero = 0;
    d.old_bytes = rig_upload(rig, world->old_bytes, world->size);
    d.now = rig_upload(rig, world->now, world->size);
    d.refused = rig_upload(rig, &zero, sizeof(zero));
    d.delta = (struct baton_cuda_delta){
        .old = d.old_bytes,
        .now = d.now,
        .size = world->size,
        .word_bytes = world->word,
        .counts = rig_device(rig, segments * sizeof(uint32_t)),
        .marks = rig_device(rig, baton_cuda_marks_bytes(world->size, world->word)),
    };
    d.changes = (struct baton_cuda_changes){
        .offsets = rig_device(rig, (segments + 1) * sizeof(uint64_t)),
        .indices = rig_device(rig, (world->changes + 8) * sizeof(uint32_t)),
        .words = rig_device(rig, (world->changes + 8) * world->word),
        .capacity = capacity,
    };
    return d;
}

static void unload(struct rig *rig, struct on_device *d)
{
    rig_free(rig, d->old_bytes);
    rig_free(rig, d->now);
    rig_free(rig, d->refused);
    rig_free(rig, d->delta.counts);
    rig_free(rig, d->delta.marks);
    rig_free(rig, d->changes.offsets);
    rig_free(rig, d->changes.indices);
    rig_free(rig, d->changes.words);
}

static bool same(struct rig *rig, const char *what, const void *device, const void *expected,
                 uint64_t bytes)
{
    void *got = rig_download(rig, device, bytes);
    bool holds = rig_equal(what, got, expected, bytes);
    free(got);
    return holds;
}

static bool scan_and_compact(struct rig *rig, const struct world *world, struct on_device *d)
{
    uint64_t segments = baton_cuda_segments(world->size);
    uint64_t fit = world->changes < d->changes.capacity ? world->changes : d->changes.capacity;
    uint32_t beyond = RIG_POISON * 0x01010101u;
    rig_must(rig, rig->cuda->delta_scan(&d->delta, rig->stream), "delta_scan");
    rig_must(rig, rig->cuda->delta_compact(&d->delta, &d->changes, rig->stream), "delta_compact");
    return same(rig, "counts", d->delta.counts, world->counts, segments * sizeof(uint32_t)) &&
           same(rig, "marks", d->delta.marks, world->marks,
                baton_cuda_marks_bytes(world->size, world->word)) &&
           same(rig, "total", d->changes.offsets + segments, &world->changes, sizeof(uint64_t)) &&
           same(rig, "indices", d->changes.indices, world->indices, fit * sizeof(uint32_t)) &&
           same(rig, "words", d->changes.words, world->words, fit * world->word) &&
           same(rig, "beyond the capacity", d->changes.indices + fit, &beyond, sizeof(beyond));
}

static bool apply(struct rig *rig, const struct world *world, struct on_device *d)
{
    uint64_t none = 0;
    d->changes.capacity = world->changes;
    rig_must(rig,
             rig->cuda->delta_apply(d->old_bytes, &d->delta, &d->changes, d->refused, rig->stream),
             "delta_apply");
    return same(rig, "applied", d->old_bytes, world->now, world->size) &&
           same(rig, "refused", d->refused, &none, sizeof(none));
}

static bool check_world(struct rig *rig, struct world *world)
{
    struct on_device d = upload(rig, world, world->changes);
    bool holds = scan_and_compact(rig, world, &d) && apply(rig, world, &d);
    unload(rig, &d);
    d = upload(rig, world, world->changes / 2);
    holds = holds && scan_and_compact(rig, world, &d);
    unload(rig, &d);
    if (!holds) {
        printf("  %llu bytes in words of %u, one in %llu changed\n",
               (unsigned long long)world->size, world->word, (unsigned long long)world->one_in);
    }
    return holds;
}

/* What does not lie in the range is left alone and counted. */
static void check_refused(struct rig *rig)
{
    struct world world = world_create(rig, 4096, 2, 1);
    struct on_device d = upload(rig, &world, world.changes);
    bool holds = scan_and_compact(rig, &world, &d);
    uint64_t refused = world.changes - 1000;
    d.delta.size = 2000;
    rig_must(rig, rig->cuda->delta_apply(d.old_bytes, &d.delta, &d.changes, d.refused, rig->stream),
             "delta_apply");
    memcpy(world.old_bytes, world.now, 2000);
    holds = holds && same(rig, "cut", d.old_bytes, world.old_bytes, world.size) &&
            same(rig, "refused", d.refused, &refused, sizeof(refused));
    rig_verdict(rig, "changes beyond the range are refused", holds);
    d.delta.word_bytes = 3;
    rig_verdict(rig, "a scan of words of 3 bytes is refused",
                rig->cuda->delta_scan(&d.delta, rig->stream) == BATON_CUDA_E_INVALID);
    d.delta.word_bytes = 2;
    d.delta.old = (const uint8_t *)d.old_bytes + 2;
    rig_verdict(rig, "a scan from an odd address is refused",
                rig->cuda->delta_scan(&d.delta, rig->stream) == BATON_CUDA_E_INVALID);
    unload(rig, &d);
    world_free(&world);
}

void check_deltas(struct rig *rig)
{
    static const uint64_t sizes[] = { 0, 4, 60, 64, 65532, 65536, 65540, 1000000, 8 << 20 };
    static const uint64_t rates[] = { 0, 1, 3, 50, 5000 };
    bool holds = true;
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (uint32_t word = 1; word <= 4; word *= 2) {
            for (size_t r = 0; r < sizeof(rates) / sizeof(rates[0]); r++) {
                struct world world = world_create(rig, sizes[s], word, rates[r]);
                holds = check_world(rig, &world) && holds;
                world_free(&world);
            }
        }
    }
    rig_verdict(rig, "scans, compactions and applications of 135 deltas", holds);
    check_refused(rig);
}
