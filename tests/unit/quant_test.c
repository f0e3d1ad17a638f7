/* quant_test.c -- the reference quantisers against golden files made with torch and
 * compressed-tensors, e4m3 against its definition, and what is defined beyond them. */
#include <criterion/criterion.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/quant/quant.h"

struct golden {
    uint32_t head[4]; /* Scaling, rows, columns, scales. */
    uint16_t *input;
    float *scales;
    uint8_t *values;
};

static void *read_part(FILE *file, size_t count, size_t size)
{
    void *part = malloc(count * size + 1);
    cr_assert_not_null(part);
    cr_assert_eq(fread(part, size, count, file), count, "a golden file is short");
    return part;
}

static struct golden golden_read(const char *path)
{
    struct golden golden;
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file, "%s", path);
    cr_assert_eq(fread(golden.head, sizeof(uint32_t), 4, file), 4);
    size_t elements = (size_t)golden.head[1] * golden.head[2];
    golden.input = read_part(file, elements, sizeof(uint16_t));
    golden.scales = read_part(file, golden.head[3], sizeof(float));
    golden.values = read_part(file, elements, 1);
    cr_assert_eq(fgetc(file), EOF, "%s: longer than its head says", path);
    fclose(file);
    return golden;
}

static void golden_check(const char *path)
{
    struct golden golden = golden_read(path);
    enum quant_scaling scaling = (enum quant_scaling)golden.head[0];
    struct quant_matrix matrix = { golden.input, golden.head[1], golden.head[2] };
    size_t elements = matrix.rows * matrix.columns;
    uint8_t *values = calloc(elements, 1);
    float *scales = calloc(golden.head[3], sizeof(float));
    cr_assert_eq(quant_scales_count(scaling, matrix.rows, matrix.columns), golden.head[3]);
    struct quant_counts counts = quant_fp8(scaling, matrix, values, scales);
    cr_expect_eq(counts.nans + counts.infinities, 0);
    cr_expect_arr_eq(scales, golden.scales, golden.head[3] * sizeof(float), "%s: scales", path);
    for (size_t i = 0; i < elements; i++) {
        cr_assert_eq(values[i], golden.values[i], "%s: element %zu (%g): %02x, not %02x", path, i,
                     (double)quant_bf16(golden.input[i]), values[i], golden.values[i]);
    }
    free(values);
    free(scales);
    free(golden.input);
    free(golden.scales);
    free(golden.values);
}

/* Bit for bit what torch makes of the formulas of vLLM, DeepGEMM and compressed-tensors. */
Test(quant, equals_the_golden_files)
{
    glob_t found;
    cr_assert_eq(glob(BATON_TEST_DATA "/quant/*.bin", 0, NULL, &found), 0);
    cr_assert_eq(found.gl_pathc, 11);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        golden_check(found.gl_pathv[i]);
    }
    globfree(&found);
}

/* e4m3: 4 bits of exponent with bias 7, 3 of mantissa, no infinity, 0x7f is NaN. */
static double e4m3_value(unsigned code)
{
    unsigned exponent = code >> 3 & 15;
    double mantissa = (code & 7) / 8.0;
    return exponent == 0 ? ldexp(mantissa, -6) : ldexp(1 + mantissa, (int)exponent - 7);
}

/* Each code is itself; just below, at and just above each middle the nearest one, ties to even. */
Test(quant, rounds_to_the_nearest_code)
{
    for (unsigned code = 0; code < 0x7e; code++) {
        float value = (float)e4m3_value(code);
        float middle = (float)((e4m3_value(code) + e4m3_value(code + 1)) / 2);
        cr_expect_eq(quant_e4m3(value), code);
        cr_expect_eq(quant_e4m3(-value), code | 0x80);
        cr_expect_eq(quant_e4m3(nextafterf(middle, 0)), code);
        cr_expect_eq(quant_e4m3(nextafterf(middle, INFINITY)), code + 1);
        cr_expect_eq(quant_e4m3(middle), code + (code & 1), "the middle after %02x", code);
    }
    cr_expect_eq(quant_e4m3(448), 0x7e);
    cr_expect_eq(quant_e4m3(1e30F), 0x7e);
    cr_expect_eq(quant_e4m3(-INFINITY), 0xfe);
    cr_expect_eq(quant_e4m3(NAN), 0x7f);
    cr_expect_eq(quant_e4m3(-NAN), 0x7f);
    cr_expect_eq(quant_e4m3(1e-40F), 0);
}

enum { NAN_BITS = 0x7fc0, MINUS_NAN_BITS = 0xffc1, INF_BITS = 0x7f80, ONE_BITS = 0x3f80 };

/* What is not finite is counted, has its code, and does not move the scale of the rest. */
Test(quant, keeps_what_is_not_finite_apart)
{
    static const uint16_t input[8] = {
        NAN_BITS,       ONE_BITS,          INF_BITS, INF_BITS | 0x8000,
        MINUS_NAN_BITS, ONE_BITS | 0x8000, 0,        0x8000
    };
    static const uint8_t expected[8] = { 0x7f, 0x7e, 0x7e, 0xfe, 0x7f, 0xfe, 0, 0x80 };
    static const enum quant_scaling all[] = { QUANT_TENSOR, QUANT_CHANNEL, QUANT_BLOCK };
    for (size_t i = 0; i < 3; i++) {
        uint8_t values[8] = { 0 };
        float scales[2] = { 0, 0 };
        struct quant_counts counts =
            quant_fp8(all[i], (struct quant_matrix){ input, 2, 4 }, values, scales);
        cr_expect_eq(counts.nans, 2);
        cr_expect_eq(counts.infinities, 2);
        cr_expect_float_eq(scales[0], 1 / 448.0F, 0);
        cr_expect_arr_eq(values, expected, sizeof(expected));
    }
}

/* Matrices of zeros, of nothing finite and of the smallest numbers have finite scales. */
Test(quant, has_a_scale_for_every_amax)
{
    cr_expect_eq(quant_scale(QUANT_TENSOR, 0), 1);
    cr_expect_eq(quant_scale(QUANT_TENSOR, quant_bf16(1)), 0x1p-126F);
    cr_expect_eq(quant_scale(QUANT_CHANNEL, 0), 1 / (448.0F * 512));
    cr_expect_eq(quant_scale(QUANT_BLOCK, 0), 1e-4F / 448);
    cr_expect(isfinite(1 / quant_scale(QUANT_TENSOR, quant_bf16(1))));
    static const uint16_t nothing_finite[2] = { NAN_BITS, INF_BITS };
    uint8_t values[2];
    float scale = 0;
    (void)quant_fp8(QUANT_TENSOR, (struct quant_matrix){ nothing_finite, 1, 2 }, values, &scale);
    cr_expect_eq(scale, 1);
    cr_expect_eq(values[1], 0x7e);
}

Test(quant, counts_scales)
{
    cr_expect_eq(quant_scales_count(QUANT_TENSOR, 3, 0), 0);
    cr_expect_eq(quant_scales_count(QUANT_CHANNEL, 0, 3), 0);
    cr_expect_eq(quant_scales_count(QUANT_CHANNEL, 7, 3), 7);
    cr_expect_eq(quant_scales_count(QUANT_BLOCK, 128, 128), 1);
    cr_expect_eq(quant_scales_count(QUANT_BLOCK, 129, 257), 6);
}
