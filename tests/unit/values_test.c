/* values_test.c -- NaN, infinity and change: each format's special patterns, and each kernel. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/checkpoint_maker.h"
#include "transport/model/values.h"
#include "transport/model/values_kernel.h"

static struct values_found scan(enum tensor_dtype dtype, const void *data, size_t size)
{
    struct values_found found = { 0, 0 };
    values_scan(dtype, (struct baton_bytes){ data, size }, &found);
    return found;
}

/* What one element is, by its square: the change from zero. */
static double square_of(enum tensor_dtype dtype, const void *element, size_t size)
{
    static const uint8_t zero[8];
    struct values_change change = { 0, 0 };
    values_compare(dtype, (struct baton_bytes){ element, size }, (struct baton_bytes){ zero, size },
                   &change);
    return change.delta;
}

static void expect_small(enum tensor_dtype dtype, uint8_t pattern, double value)
{
    cr_expect_eq(square_of(dtype, &pattern, 1), value * value, "%s 0x%02x is not %g",
                 tensor_dtype_name(dtype), pattern, value);
}

/* The largest, the smallest and one number of each 8-bit format, as its paper has them. */
Test(values, knows_the_8_bit_formats)
{
    expect_small(TENSOR_DTYPE_F8_E4M3, 0x7e, 448);
    expect_small(TENSOR_DTYPE_F8_E4M3, 0x01, 0x1p-9);
    expect_small(TENSOR_DTYPE_F8_E4M3, 0xbc, -1.5);
    expect_small(TENSOR_DTYPE_F8_E5M2, 0x7b, 57344);
    expect_small(TENSOR_DTYPE_F8_E5M2, 0x01, 0x1p-16);
    expect_small(TENSOR_DTYPE_F8_E4M3FNUZ, 0x7f, 240);
    expect_small(TENSOR_DTYPE_F8_E4M3FNUZ, 0x01, 0x1p-10);
    expect_small(TENSOR_DTYPE_F8_E5M2FNUZ, 0x7f, 57344);
    expect_small(TENSOR_DTYPE_F8_E8M0, 0x80, 2);
}

struct special {
    enum tensor_dtype dtype;
    unsigned nans; /* Of the 256 patterns. */
    unsigned infs;
};

Test(values, counts_the_special_patterns_of_8_bit_formats)
{
    static const struct special rows[] = {
        { TENSOR_DTYPE_F8_E4M3, 2, 0 },     { TENSOR_DTYPE_F8_E5M2, 6, 2 },
        { TENSOR_DTYPE_F8_E4M3FNUZ, 1, 0 }, { TENSOR_DTYPE_F8_E5M2FNUZ, 1, 0 },
        { TENSOR_DTYPE_F8_E8M0, 1, 0 },
    };
    uint8_t all[256];
    for (unsigned i = 0; i < 256; i++) {
        all[i] = (uint8_t)i;
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct values_found found = scan(rows[i].dtype, all, sizeof(all));
        cr_expect_eq(found.nans, rows[i].nans, "%s", tensor_dtype_name(rows[i].dtype));
        cr_expect_eq(found.infs, rows[i].infs, "%s", tensor_dtype_name(rows[i].dtype));
    }
}

/* All 65,536 patterns: as many are special as the format's mantissa has bits for. */
Test(values, counts_the_special_patterns_of_16_bit_formats)
{
    uint16_t *all = malloc(65536 * sizeof(*all));
    for (unsigned i = 0; i < 65536; i++) {
        all[i] = (uint16_t)i;
    }
    struct values_found bf16 = scan(TENSOR_DTYPE_BF16, all, 65536 * sizeof(*all));
    struct values_found f16 = scan(TENSOR_DTYPE_F16, all, 65536 * sizeof(*all));
    cr_expect_eq(bf16.nans, 2 * 127);
    cr_expect_eq(bf16.infs, 2);
    cr_expect_eq(f16.nans, 2 * 1023);
    cr_expect_eq(f16.infs, 2);
    free(all);
}

Test(values, counts_in_wide_formats_wherever_they_lie)
{
    for (size_t at = 0; at < 3000; at += 149) {
        float f32[3000] = { 0 };
        double f64[3000] = { 0 };
        f32[at] = NAN;
        f32[2999 - at] = -INFINITY;
        f64[at] = INFINITY;
        f64[2999 - at] = NAN;
        struct values_found narrow = scan(TENSOR_DTYPE_F32, f32, sizeof(f32));
        struct values_found wide = scan(TENSOR_DTYPE_F64, f64, sizeof(f64));
        cr_expect(narrow.nans == 1 && narrow.infs == 1 && wide.nans == 1 && wide.infs == 1, "%zu",
                  at);
        struct values_found pairs = scan(TENSOR_DTYPE_C64, f32, sizeof(f32));
        cr_expect(pairs.nans == 1 && pairs.infs == 1);
    }
}

Test(values, integers_are_never_special)
{
    uint8_t ones[64];
    memset(ones, 0xff, sizeof(ones));
    struct values_found found = scan(TENSOR_DTYPE_I64, ones, sizeof(ones));
    cr_expect(found.nans == 0 && found.infs == 0);
    cr_expect_not(values_are_float(TENSOR_DTYPE_I8));
    cr_expect(values_are_float(TENSOR_DTYPE_F8_E8M0));
}

/* --- change --- */

Test(values, halves_are_read_with_their_subnormals)
{
    static const uint16_t halves[] = { 0x3c00, 0xc500, 0x0001, 0x7bff, 0x03ff };
    static const double values[] = { 1, -5, 0x1p-24, 65504, 1023 * 0x1p-24 };
    for (size_t i = 0; i < 5; i++) {
        cr_expect_eq(square_of(TENSOR_DTYPE_F16, &halves[i], 2), values[i] * values[i], "%zu", i);
    }
    uint16_t brain = 0xc0a0;
    cr_expect_eq(square_of(TENSOR_DTYPE_BF16, &brain, 2), 25);
}

static double change_of_f32(float from, float to, size_t count)
{
    float base[5000];
    float now[5000];
    for (size_t i = 0; i < count; i++) {
        base[i] = from;
        now[i] = to;
    }
    struct values_change change = { 0, 0 };
    values_compare(TENSOR_DTYPE_F32, (struct baton_bytes){ (uint8_t *)now, count * 4 },
                   (struct baton_bytes){ (uint8_t *)base, count * 4 }, &change);
    return values_change_relative(&change);
}

Test(values, change_is_relative_to_the_base)
{
    cr_expect_eq(change_of_f32(2, 2, 5000), 0);
    cr_expect_float_eq(change_of_f32(2, 3, 4999), 0.5, 1e-12);
    cr_expect_float_eq(change_of_f32(1e-3F, 1e3F, 17), 999999, 1);
    cr_expect_eq(change_of_f32(0, 0, 3), 0);
    cr_expect_eq(change_of_f32(0, 7, 3), 1, "from all zero any change is whole");
    cr_expect_float_eq(change_of_f32(1e-30F, 3e-30F, 100), 2, 1e-5, "squares do not vanish");
    cr_expect_float_eq(change_of_f32(1e30F, 3e30F, 100), 2, 1e-5, "nor overflow");
    cr_expect_eq(change_of_f32(1, NAN, 2), VALUES_CHANGE_MAX);
    cr_expect_eq(change_of_f32(INFINITY, 1, 2), VALUES_CHANGE_MAX);
}

/* --- kernels --- */

static void expect_same(const struct values_kernel *kernel, const char *name)
{
    size_t size = BATON_CHUNK_BYTES + 2 * 77;
    uint8_t *data = maker_bytes(size); /* Bytes of all kinds: specials among them. */
    uint8_t *base = malloc(size);
    memset(base, 0x3c, size);
    struct values_found want = { 0, 0 };
    struct values_found got = { 0, 0 };
    values_kernel_base.scan16(data, size / 2, 0x7c00, &want);
    values_kernel_base.scan32(data, size / 4, &want);
    values_kernel_base.scan64(data, size / 8, &want);
    kernel->scan16(data, size / 2, 0x7c00, &got);
    kernel->scan32(data, size / 4, &got);
    kernel->scan64(data, size / 8, &got);
    cr_expect(want.nans > 0 && want.nans == got.nans && want.infs == got.infs, "%s", name);
    memset(data, 0x21, size);
    struct values_change a = { 0, 0 };
    struct values_change b = { 0, 0 };
    values_kernel_base.compare(TENSOR_DTYPE_F16, data, base, size / 2, NULL, &a);
    kernel->compare(TENSOR_DTYPE_F16, data, base, size / 2, NULL, &b);
    cr_expect_float_eq(a.delta / b.delta, 1, 1e-12, "%s", name);
    cr_expect_eq(kernel->largest8(data, size, 0x7f, 0xff), 0x21 ^ 0x7f, "%s", name);
    free(base);
    free(data);
}

Test(values, kernels_agree)
{
    expect_same(&values_kernel_base, "base");
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        expect_same(&values_kernel_avx2, "avx2");
    }
    if (__builtin_cpu_supports("avx512f")) {
        expect_same(&values_kernel_avx512, "avx512");
    }
#endif
}
