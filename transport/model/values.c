/* values.c -- NaN, infinity and change, over the best kernel of this processor. */
#include "transport/model/values.h"

#include "transport/model/values_kernel.h"

static const struct values_kernel *kernel(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        return &values_kernel_avx512;
    }
    if (__builtin_cpu_supports("avx2")) {
        return &values_kernel_avx2;
    }
#endif
    return &values_kernel_base;
}

/* An 8-bit format: sign, exponent, mantissa; which patterns are special.  Those are the ones whose
 * (pattern ^ flip) & mask is at least 'limit'. */
struct small_float {
    uint32_t mantissa_bits;
    int bias;
    bool has_inf; /* IEEE's top exponent; else only all ones are NaN. */
    bool is_fnuz; /* No negative zero: its pattern is the only NaN. */
    uint8_t flip;
    uint8_t mask;
    uint8_t limit;
};

static const struct small_float e5m2 = { 2, 15, true, false, 0, 0x7f, 0x7c };
static const struct small_float e4m3 = { 3, 7, false, false, 0, 0x7f, 0x7f };
static const struct small_float e5m2fnuz = { 2, 16, false, true, 0x7f, 0xff, 0xff };
static const struct small_float e4m3fnuz = { 3, 8, false, true, 0x7f, 0xff, 0xff };
/* No sign, no mantissa: a power of 2, with one NaN. */
static const struct small_float e8m0 = { 0, 127, false, false, 0, 0xff, 0xff };

static double power_of_2(int exponent)
{
    double value = 1;
    for (int i = 0; i < (exponent < 0 ? -exponent : exponent); i++) {
        value *= exponent < 0 ? 0.5 : 2;
    }
    return value;
}

static float value_of(const struct small_float *format, uint32_t pattern)
{
    uint32_t magnitude = pattern & 0x7f;
    uint32_t mantissa = magnitude & ((1U << format->mantissa_bits) - 1);
    int exponent = (int)(magnitude >> format->mantissa_bits);
    bool is_special = ((pattern ^ format->flip) & format->mask) >= format->limit;
    if (is_special) {
        return format->has_inf && magnitude == 0x7c ? __builtin_inff() : __builtin_nanf("");
    }
    if (format == &e8m0) {
        return (float)power_of_2((int)pattern - format->bias);
    }
    double unit = power_of_2((exponent == 0 ? 1 : exponent) - format->bias) /
                  (double)(1U << format->mantissa_bits);
    double whole = exponent == 0 ? 0 : (double)(1U << format->mantissa_bits);
    double value = (whole + (double)mantissa) * unit;
    return (float)((pattern & 0x80) != 0 ? -value : value);
}

static const struct small_float *small_float_of(enum tensor_dtype dtype)
{
    switch ((int)dtype) {
    case TENSOR_DTYPE_F8_E5M2: return &e5m2;
    case TENSOR_DTYPE_F8_E4M3: return &e4m3;
    case TENSOR_DTYPE_F8_E5M2FNUZ: return &e5m2fnuz;
    case TENSOR_DTYPE_F8_E4M3FNUZ: return &e4m3fnuz;
    case TENSOR_DTYPE_F8_E8M0: return &e8m0;
    default: return NULL;
    }
}

static void fill_table(const struct small_float *format, float table[256])
{
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = value_of(format, i);
    }
}

bool values_are_float(enum tensor_dtype dtype)
{
    switch ((int)dtype) {
    case TENSOR_DTYPE_F16:
    case TENSOR_DTYPE_BF16:
    case TENSOR_DTYPE_F32:
    case TENSOR_DTYPE_C64:
    case TENSOR_DTYPE_F64: return true;
    default: return small_float_of(dtype) != NULL;
    }
}

static void scan8(const struct small_float *format, struct baton_bytes bytes,
                  struct values_found *found)
{
    if (kernel()->largest8(bytes.data, bytes.size, format->flip, format->mask) < format->limit) {
        return;
    }
    float table[256];
    fill_table(format, table);
    for (size_t i = 0; i < bytes.size; i++) {
        found->nans += __builtin_isnan(table[bytes.data[i]]) ? 1 : 0;
        found->infs += __builtin_isinf(table[bytes.data[i]]) ? 1 : 0;
    }
}

void values_scan(enum tensor_dtype dtype, struct baton_bytes bytes, struct values_found *found)
{
    switch ((int)dtype) {
    case TENSOR_DTYPE_F16: kernel()->scan16(bytes.data, bytes.size / 2, 0x7c00, found); return;
    case TENSOR_DTYPE_BF16: kernel()->scan16(bytes.data, bytes.size / 2, 0x7f80, found); return;
    case TENSOR_DTYPE_C64:
    case TENSOR_DTYPE_F32: kernel()->scan32(bytes.data, bytes.size / 4, found); return;
    case TENSOR_DTYPE_F64: kernel()->scan64(bytes.data, bytes.size / 8, found); return;
    default:
        if (small_float_of(dtype) != NULL) {
            scan8(small_float_of(dtype), bytes, found);
        }
    }
}

void values_compare(enum tensor_dtype dtype, struct baton_bytes bytes, struct baton_bytes base,
                    struct values_change *change)
{
    float table[256];
    if (!values_are_float(dtype)) {
        return;
    }
    size_t element = tensor_dtype_bits(dtype) / 8;
    if (element == 1) {
        fill_table(small_float_of(dtype), table);
    }
    size_t count = bytes.size / element * (dtype == TENSOR_DTYPE_C64 ? 2 : 1);
    kernel()->compare(dtype, bytes.data, base.data, count, table, change);
}

double values_change_relative(const struct values_change *change)
{
    if (!__builtin_isfinite(change->delta) || !__builtin_isfinite(change->base)) {
        return VALUES_CHANGE_MAX;
    }
    if (change->delta == 0) {
        return 0;
    }
    return change->base == 0 ? 1 : __builtin_sqrt(change->delta / change->base);
}
