/* Arithmetic of the small model: against plain loops, and the promise that a row does not depend on
 * its company. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/miniengine/kernels.h"

static void fill(float *x, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525U + 1013904223U;
        x[i] = (float)(seed >> 8) / (float)(1 << 23) - 1.0F;
    }
}

/* Sizes on both sides of the tiles' edges. */
Test(kernels, matmul_equals_plain_loops)
{
    static const size_t sizes[][3] = { { 1, 1, 1 }, { 5, 7, 64 }, { 3, 128, 65 }, { 9, 33, 200 } };
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        size_t rows = sizes[s][0], in = sizes[s][1], out = sizes[s][2];
        float *x = calloc(rows * in, sizeof *x);
        float *w = calloc(in * out, sizeof *w);
        float *y = calloc(rows * out, sizeof *y);
        fill(x, rows * in, 1);
        fill(w, in * out, 2);
        kernels_matmul(x, rows, (struct kernels_matrix){ .packed = w, .in = in, .out = out }, y);
        for (size_t r = 0; r < rows; r++) {
            for (size_t o = 0; o < out; o++) {
                double sum = 0;
                for (size_t i = 0; i < in; i++) {
                    sum += (double)x[r * in + i] * (double)w[i * out + o];
                }
                cr_assert_float_eq(y[r * out + o], sum, 1e-4, "row %zu column %zu", r, o);
            }
        }
        free(x);
        free(w);
        free(y);
    }
}

/* Recomputed KV and batched requests must give the same bits as alone. */
Test(kernels, a_row_gives_the_same_bits_in_any_batch)
{
    enum { ROWS = 7, IN = 50, OUT = 90 };
    float x[ROWS * IN], w[IN * OUT], all[ROWS * OUT], one[OUT];
    struct kernels_matrix matrix = { .packed = w, .in = IN, .out = OUT };
    fill(x, ROWS * IN, 3);
    fill(w, IN * OUT, 4);
    kernels_matmul(x, ROWS, matrix, all);
    for (size_t r = 0; r < ROWS; r++) {
        kernels_matmul(x + r * IN, 1, matrix, one);
        cr_assert_eq(memcmp(one, all + r * OUT, sizeof one), 0, "row %zu", r);
    }
}

Test(kernels, bf16_and_f16_are_exact)
{
    cr_assert_eq(kernels_from_bf16(0x3F80), 1.0F);
    cr_assert_eq(kernels_from_bf16(0xC0A0), -5.0F);
    static const struct {
        uint16_t word;
        float value;
    } rows[] = { { 0x3C00, 1.0F },       { 0xC000, -2.0F },    { 0x7BFF, 65504.0F },
                 { 0x0400, 0x1p-14F },   { 0x0001, 0x1p-24F }, { 0x83FF, -0x1.FF8p-15F },
                 { 0x3555, 0x1.554p-2F } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_assert_eq(kernels_from_f16(rows[i].word), rows[i].value, "word %04x", rows[i].word);
    }
    cr_assert(isinf(kernels_from_f16(0x7C00)));
    cr_assert(isnan(kernels_from_f16(0x7C01)));
    cr_assert(signbit(kernels_from_f16(0x8000)));
}

Test(kernels, softmax_survives_large_numbers)
{
    float x[] = { 1000.0F, 1001.0F, -1e30F };
    double norm = kernels_logsumexp(x, 3);
    cr_assert_float_eq(norm, 1001.0 + log1p(exp(-1.0)), 1e-6);
    double same = kernels_softmax(x, 3);
    cr_assert_float_eq(same, norm, 1e-6);
    cr_assert_float_eq(x[0] + x[1], 1.0F, 1e-6);
    cr_assert_eq(x[2], 0.0F);
}

Test(kernels, norm_and_rope_keep_their_promises)
{
    float x[] = { 3, 4, 0, 0 };
    float gain[] = { 1, 2, 1, 1 };
    float y[4];
    kernels_norm(x, gain, 4, 0.0F, y);
    cr_assert_float_eq(y[0], 1.2F, 1e-6);
    cr_assert_float_eq(y[1], 3.2F, 1e-6);
    float angles[4];
    float head[] = { 1, 2, 3, 4 };
    kernels_rope_angles(angles, 4, 0, 10000.0F);
    kernels_rope(head, angles, 4);
    cr_assert_eq(head[0], 1.0F, "position 0 does not turn");
    kernels_rope_angles(angles, 4, 5, 10000.0F);
    kernels_rope(head, angles, 4);
    cr_assert_float_eq(head[0], cosf(5) - 3 * sinf(5), 1e-5);
    cr_assert_float_eq(head[0] * head[0] + head[2] * head[2], 10.0F, 1e-4, "length is kept");
}
