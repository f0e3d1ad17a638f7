/* figures.c -- rates of the kernels, each beside the rate of a plain copy in the same run.
 *
 * Data are weights: bf16, random signs and mantissas, exponents of trained models. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/gpu/rig.h"
#include "transport/cuda/boxes.h"
#include "transport/quant/quant.h"

#define GIB (UINT64_C(1) << 30)
enum { RUNS = 11, PATTERN_BYTES = 64 << 20, RANGES = 399, COLUMNS = 4096 };

/* Two buffers of weights, one of codes, and what the kernels need beside them. */
struct bench {
    uint64_t bytes;
    uint8_t *a;
    uint8_t *b;
    uint8_t *out; /* Digests, marks, changes, codes. */
    void *table;
    uint32_t table_count;
    uint64_t units; /* Chunks or tiles. */
    struct baton_cuda_delta delta;
    struct baton_cuda_changes changes;
    struct baton_cuda_quant quant;
};

static const char *const ANCHOR = "copy on the device, read + write";

static void fill_weights(struct rig *rig, uint8_t *device, uint64_t bytes)
{
    uint8_t *pattern = rig_host(rig, PATTERN_BYTES);
    for (uint64_t i = 1; i < PATTERN_BYTES; i += 2) {
        /* Exponents 112 to 127: magnitudes of 2^-15 to 2. */
        pattern[i] = (uint8_t)((pattern[i] & 0x87) | 0x38);
    }
    for (uint64_t at = 0; at < bytes; at += PATTERN_BYTES) {
        uint64_t part = bytes - at < PATTERN_BYTES ? bytes - at : PATTERN_BYTES;
        rig_must(rig, rig->cuda->copy(device + at, pattern, part, rig->stream), "copy");
    }
    rig_wait(rig);
    free(pattern);
}

static void work_copy(struct rig *rig, void *self)
{
    struct bench *bench = self;
    rig_must(rig, rig->cuda->copy(bench->b, bench->a, bench->bytes, rig->stream), "copy");
}

static void work_digest(struct rig *rig, void *self)
{
    struct bench *bench = self;
    rig_must(
        rig,
        rig->cuda->digest(bench->table, bench->table_count, bench->units, bench->out, rig->stream),
        "digest");
}

static void work_boxes(struct rig *rig, void *self)
{
    struct bench *bench = self;
    rig_must(rig,
             rig->cuda->copy_boxes(bench->table, bench->table_count, bench->units, rig->stream),
             "copy_boxes");
}

static void work_scan(struct rig *rig, void *self)
{
    struct bench *bench = self;
    rig_must(rig, rig->cuda->delta_scan(&bench->delta, rig->stream), "delta_scan");
}

static void work_compact(struct rig *rig, void *self)
{
    struct bench *bench = self;
    rig_must(rig, rig->cuda->delta_compact(&bench->delta, &bench->changes, rig->stream),
             "delta_compact");
}

static void work_quantise(struct rig *rig, void *self)
{
    struct bench *bench = self;
    rig_must(rig, rig->cuda->quantise(&bench->quant, rig->stream), "quantise");
}

static double copy_rate(struct rig *rig, struct bench *bench)
{
    return 2 * (double)bench->bytes / rig_time(rig, work_copy, bench, RUNS) / 1e12;
}

/* 'bytes' moved a run, in TB/s; the anchor just before it. */
static void measure(struct rig *rig, struct bench *bench, const char *name, double bytes,
                    double target, void (*work)(struct rig *, void *))
{
    double anchor = copy_rate(rig, bench);
    double seconds = rig_time(rig, work, bench, RUNS);
    rig_figure(rig,
               (struct figure){ name, "TB/s", ANCHOR, bytes / seconds / 1e12, anchor, target });
}

static void set_ranges(struct rig *rig, struct bench *bench, uint32_t count, uint64_t bytes)
{
    struct baton_cuda_range ranges[RANGES];
    uint64_t each = bytes / count / 512 * 512;
    bench->units = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t size = i + 1 < count ? each : bytes - each * i;
        ranges[i] = (struct baton_cuda_range){ bench->a + each * i, size, bench->units };
        bench->units += (size + BATON_CUDA_CHUNK_BYTES - 1) / BATON_CUDA_CHUNK_BYTES;
    }
    bench->table = rig_upload(rig, ranges, count * sizeof(ranges[0]));
    bench->table_count = count;
}

static void digests(struct rig *rig, struct bench *bench)
{
    static const struct {
        const char *name;
        uint64_t bytes;
        uint32_t ranges;
        double target;
    } cases[] = { { "digest_399_tensors", 8 * GIB, RANGES, 3 },
                  { "digest_1_gib", GIB, 1, 0 },
                  { "digest_64_mib", GIB / 16, 1, 0 },
                  { "digest_1_mib", GIB / 1024, 1, 0 } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        set_ranges(rig, bench, cases[i].ranges, cases[i].bytes);
        measure(rig, bench, cases[i].name, (double)cases[i].bytes, cases[i].target, work_digest);
        rig_free(rig, bench->table);
    }
}

/* Half of the columns of a matrix, as a row-parallel weight is cut for two ranks; 'run' bytes. */
static struct layout_strides half_columns(uint64_t bytes, uint64_t run)
{
    return (struct layout_strides){ .run_elements = run / 2,
                                    .source_bits = 16,
                                    .target_bits = 16,
                                    .levels = 1,
                                    .counts = { bytes / (2 * run) },
                                    .source_steps = { 2 * run },
                                    .target_steps = { run } };
}

static void boxes(struct rig *rig, struct bench *bench)
{
    static const struct {
        const char *name;
        uint64_t run; /* 0: all in one. */
        double target;
    } cases[] = { { "boxes_whole", 0, 0 },
                  { "boxes_runs_8_kib", 8192, 0 },
                  { "boxes_runs_256", 256, 0 },
                  { "boxes_runs_16", 16, 0 },
                  { "boxes_runs_2", 2, 0 } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct baton_cuda_box item;
        struct boxes list = { &item, 0, 1, 0 };
        bool is_whole = cases[i].run == 0;
        uint64_t bytes = is_whole ? bench->bytes : bench->bytes / 2;
        struct layout_strides strides =
            half_columns(bench->bytes, is_whole ? bench->bytes / 2 : cases[i].run);
        if (is_whole) {
            strides.run_elements = bench->bytes / 2;
        }
        struct baton_status st = boxes_add(&list, &strides, bench->a, bench->b);
        if (!baton_ok(&st)) {
            abort();
        }
        bench->table = rig_upload(rig, &item, sizeof(item));
        bench->table_count = list.count;
        bench->units = list.tiles;
        measure(rig, bench, cases[i].name, 2 * (double)bytes, cases[i].target, work_boxes);
        rig_free(rig, bench->table);
    }
}

/* 'b' becomes 'a' with two words of a hundred changed. */
static uint64_t change_words(struct rig *rig, struct bench *bench)
{
    uint64_t words = bench->bytes / 2;
    uint64_t count = words / 50;
    uint32_t *indices = malloc(count * sizeof(*indices));
    uint8_t *values = rig_host(rig, count * 2);
    for (uint64_t i = 0; i < count; i++) {
        indices[i] = (uint32_t)(i * 50 + baton_random_below(&rig->random, 50));
    }
    work_copy(rig, bench);
    struct baton_cuda_changes changes = { .indices = rig_upload(rig, indices, count * 4),
                                          .words = rig_upload(rig, values, count * 2),
                                          .capacity = count };
    void *refused = rig_device(rig, sizeof(uint64_t));
    rig_must(rig, rig->cuda->delta_apply(bench->b, &bench->delta, &changes, refused, rig->stream),
             "delta_apply");
    rig_wait(rig);
    rig_free(rig, changes.indices);
    rig_free(rig, changes.words);
    rig_free(rig, refused);
    free(indices);
    free(values);
    return count;
}

/* Times of one run without an anchor between: the copy would undo the changes. */
static void measure_delta(struct rig *rig, struct bench *bench, const char *name, double target,
                          void (*work)(struct rig *, void *))
{
    double anchor = copy_rate(rig, bench);
    uint64_t changes = change_words(rig, bench);
    double seconds = rig_time(rig, work, bench, RUNS);
    double bytes = work == work_scan ? 2 * (double)bench->bytes : 8 * (double)changes;
    rig_figure(rig,
               (struct figure){ name, "TB/s", ANCHOR, bytes / seconds / 1e12, anchor, target });
}

static void deltas(struct rig *rig, struct bench *bench)
{
    uint64_t segments = baton_cuda_segments(bench->bytes);
    uint64_t words = bench->bytes / 2;
    bench->delta = (struct baton_cuda_delta){ .old = bench->a,
                                              .now = bench->b,
                                              .size = bench->bytes,
                                              .word_bytes = 2,
                                              .counts = rig_device(rig, segments * 4) };
    measure_delta(rig, bench, "delta_scan", 4.4, work_scan);
    bench->delta.marks = rig_device(rig, baton_cuda_marks_bytes(bench->bytes, 2));
    measure_delta(rig, bench, "delta_scan_marks", 0, work_scan);
    bench->changes = (struct baton_cuda_changes){ .offsets = rig_device(rig, (segments + 1) * 8),
                                                  .indices = rig_device(rig, words / 50 * 4),
                                                  .words = rig_device(rig, words / 50 * 2),
                                                  .capacity = words / 50 };
    rig_must(rig, rig->cuda->delta_scan(&bench->delta, rig->stream), "delta_scan");
    measure_delta(rig, bench, "delta_compact_2_percent", 0, work_compact);
    rig_free(rig, bench->delta.counts);
    rig_free(rig, bench->delta.marks);
    rig_free(rig, bench->changes.offsets);
    rig_free(rig, bench->changes.indices);
    rig_free(rig, bench->changes.words);
}

static void quantisers(struct rig *rig, struct bench *bench)
{
    static const struct {
        const char *name;
        enum quant_scaling scaling;
        uint64_t columns;
        double passes; /* Bytes a value. */
        double target;
    } cases[] = { { "quantise_block", QUANT_BLOCK, COLUMNS, 3, 3.6 },
                  { "quantise_channel_4096", QUANT_CHANNEL, COLUMNS, 3, 3.6 },
                  { "quantise_channel_12288", QUANT_CHANNEL, 12288, 3, 3.6 },
                  { "quantise_tensor", QUANT_TENSOR, COLUMNS, 5, 3.6 } };
    uint64_t elements = bench->bytes / 2;
    bench->quant = (struct baton_cuda_quant){ .values = bench->a,
                                              .codes = bench->out,
                                              .scales = rig_device(rig, elements / 256),
                                              .counts = rig_device(rig, 16) };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bench->quant.columns = cases[i].columns;
        bench->quant.rows = elements / cases[i].columns;
        bench->quant.scaling = (uint32_t)cases[i].scaling;
        double values = (double)(bench->quant.rows * bench->quant.columns);
        measure(rig, bench, cases[i].name, cases[i].passes * values, cases[i].target,
                work_quantise);
    }
    rig_free(rig, bench->quant.scales);
    rig_free(rig, bench->quant.counts);
}

void figures(struct rig *rig)
{
    struct bench bench = { .bytes = 8 * GIB };
    bench.a = rig_device(rig, bench.bytes);
    bench.b = rig_device(rig, bench.bytes);
    bench.out = rig_device(rig, bench.bytes / 2);
    fill_weights(rig, bench.a, bench.bytes);
    digests(rig, &bench);
    boxes(rig, &bench);
    bench.bytes = 4 * GIB;
    deltas(rig, &bench);
    quantisers(rig, &bench);
    rig_free(rig, bench.a);
    rig_free(rig, bench.b);
    rig_free(rig, bench.out);
}
