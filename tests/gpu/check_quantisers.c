/* check_quantisers.c -- codes, scales and counts on the device, bit for bit those of
 * transport/quant. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/rig.h"
#include "transport/quant/quant.h"

enum kind { KIND_WEIGHTS, KIND_ANY_BITS, KIND_FINITE, KIND_ZEROS, KIND_TINY, KINDS };

/* Rows of weights differ in size by up to 2^24, so that scales take many values. */
static uint16_t value_of(struct rig *rig, enum kind kind, uint64_t row)
{
    uint64_t bits = baton_random_u64(&rig->random);
    uint16_t sign = (uint16_t)(bits & 0x8000);
    switch (kind) {
    case KIND_WEIGHTS:
        return (uint16_t)(sign | ((100 + row * 7 % 24 + (bits >> 16 & 7)) << 7) | (bits & 0x7F));
    case KIND_ANY_BITS: return (uint16_t)bits;
    case KIND_FINITE: return (bits & 0x7F80) == 0x7F80 ? sign : (uint16_t)bits;
    case KIND_TINY: return (uint16_t)(bits & 0x81FF);
    case KIND_ZEROS:
    case KINDS: break;
    }
    return sign;
}

struct matrix {
    uint64_t rows;
    uint64_t columns;
    uint64_t shift; /* Values from the start of the allocation: what is not aligned is slower. */
    enum kind kind;
};

struct result {
    uint8_t *codes;
    float *scales;
    struct quant_counts counts;
};

static struct result on_cpu(enum quant_scaling scaling, const struct matrix *m,
                            const uint16_t *values, uint64_t scales)
{
    struct result result = { malloc(m->rows * m->columns + 1),
                             malloc((scales + 1) * sizeof(float)),
                             { 0, 0 } };
    result.counts = quant_fp8(scaling, (struct quant_matrix){ values, m->rows, m->columns },
                              result.codes, result.scales);
    return result;
}

static struct result on_device(struct rig *rig, enum quant_scaling scaling, const struct matrix *m,
                               const uint16_t *values, uint64_t scales)
{
    struct result result;
    struct quant_counts zero = { 0, 0 };
    uint64_t elements = m->rows * m->columns;
    uint16_t *shifted = calloc(elements + m->shift, sizeof(uint16_t));
    memcpy(shifted + m->shift, values, elements * sizeof(uint16_t));
    uint16_t *input = rig_upload(rig, shifted, (elements + m->shift) * sizeof(uint16_t));
    uint8_t *codes = rig_device(rig, elements + m->shift);
    struct baton_cuda_quant quant = {
        .values = input + m->shift,
        .codes = codes + m->shift,
        .scales = rig_device(rig, scales * sizeof(float)),
        .counts = rig_upload(rig, &zero, sizeof(zero)),
        .rows = m->rows,
        .columns = m->columns,
        .scaling = (uint32_t)scaling,
    };
    rig_must(rig, rig->cuda->quantise(&quant, rig->stream), "quantise");
    result.codes = rig_download(rig, quant.codes, elements);
    result.scales = rig_download(rig, quant.scales, scales * sizeof(float));
    struct quant_counts *counts = rig_download(rig, quant.counts, sizeof(*counts));
    result.counts = *counts;
    rig_free(rig, input);
    rig_free(rig, codes);
    rig_free(rig, quant.scales);
    rig_free(rig, quant.counts);
    free(counts);
    free(shifted);
    return result;
}

static bool check(struct rig *rig, enum quant_scaling scaling, struct matrix m)
{
    uint64_t elements = m.rows * m.columns;
    uint64_t scales = quant_scales_count(scaling, m.rows, m.columns);
    uint16_t *values = malloc(elements * sizeof(uint16_t));
    for (uint64_t i = 0; i < elements; i++) {
        values[i] = value_of(rig, m.kind, i / m.columns);
    }
    struct result expected = on_cpu(scaling, &m, values, scales);
    struct result got = on_device(rig, scaling, &m, values, scales);
    bool holds = rig_equal("scales", got.scales, expected.scales, scales * sizeof(float)) &&
                 rig_equal("codes", got.codes, expected.codes, elements) &&
                 rig_equal("counts", &got.counts, &expected.counts, sizeof(got.counts));
    if (!holds) {
        printf("  scaling %d of %llu x %llu, shift %llu, kind %d\n", (int)scaling,
               (unsigned long long)m.rows, (unsigned long long)m.columns,
               (unsigned long long)m.shift, (int)m.kind);
    }
    free(expected.codes);
    free(expected.scales);
    free(got.codes);
    free(got.scales);
    free(values);
    return holds;
}

static void check_scaling(struct rig *rig, enum quant_scaling scaling, const char *name)
{
    static const uint64_t shapes[][2] = { { 1, 1 },      { 1, 8 },       { 3, 5 },
                                          { 127, 129 },  { 128, 128 },   { 130, 136 },
                                          { 257, 1000 }, { 300, 4096 },  { 65, 2056 },
                                          { 17, 9000 },  { 9, 16384 },   { 5, 16400 },
                                          { 4, 40007 },  { 2048, 2048 }, { 7, 6144 } };
    bool holds = true;
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        for (int kind = 0; kind < KINDS; kind++) {
            struct matrix m = { shapes[s][0], shapes[s][1], 0, (enum kind)kind };
            holds = check(rig, scaling, m) && holds;
            m.shift = 3;
            holds = check(rig, scaling, m) && holds;
        }
    }
    rig_verdict(rig, name, holds);
}

void check_quantisers(struct rig *rig)
{
    struct baton_cuda_quant unknown = { .scaling = 3, .rows = 1, .columns = 1 };
    check_scaling(rig, QUANT_TENSOR, "quantisers: tensor");
    check_scaling(rig, QUANT_CHANNEL, "quantisers: channel");
    check_scaling(rig, QUANT_BLOCK, "quantisers: block");
    rig_verdict(rig, "an unknown scaling is refused",
                rig->cuda->quantise(&unknown, rig->stream) == BATON_CUDA_E_INVALID);
}
