/* values_kernel.c -- one instance of the loops; VALUES_KERNEL names it, the build sets the flags.
 *
 * Without its sign bit a float's pattern orders as its magnitude does, with infinity above all numbers
 * and NaN above infinity.  So the largest pattern of a block tells whether the block is clean, which is
 * what almost every block is; only another one is counted. */
#include "transport/model/values_kernel.h"

#include <string.h>

enum { BLOCK = 1024, LANES = 16 };

/* Elements as they lie in a chunk: at any alignment. */
typedef uint16_t word16 __attribute__((aligned(1), may_alias));
typedef uint32_t word32 __attribute__((aligned(1), may_alias));
typedef uint64_t word64 __attribute__((aligned(1), may_alias));

/* Independent sums, which the compiler keeps in vector registers whatever their width is. */
typedef float floats __attribute__((vector_size(LANES * sizeof(float))));

#define DEFINE_SCAN(bits_)                                                                         \
    static void count##bits_(const word##bits_ *words, size_t count, uint##bits_##_t inf,          \
                             struct values_found *found)                                           \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            uint##bits_##_t magnitude = words[i] & (UINT##bits_##_MAX >> 1);                       \
            found->nans += magnitude > inf;                                                        \
            found->infs += magnitude == inf;                                                       \
        }                                                                                          \
    }                                                                                              \
    static void blocks##bits_(const word##bits_ *words, size_t count, uint##bits_##_t inf,         \
                              struct values_found *found)                                          \
    {                                                                                              \
        for (size_t at = 0; at < count; at += BLOCK) {                                             \
            size_t now = count - at < BLOCK ? count - at : BLOCK;                                  \
            uint##bits_##_t largest = 0;                                                           \
            for (size_t i = 0; i < now; i++) {                                                     \
                uint##bits_##_t magnitude = words[at + i] & (UINT##bits_##_MAX >> 1);              \
                largest = magnitude > largest ? magnitude : largest;                               \
            }                                                                                      \
            if (largest >= inf) {                                                                  \
                count##bits_(words + at, now, inf, found);                                         \
            }                                                                                      \
        }                                                                                          \
    }

DEFINE_SCAN(16)
DEFINE_SCAN(32)
DEFINE_SCAN(64)

static uint8_t largest8(const void *data, size_t count, uint8_t flip, uint8_t mask)
{
    const uint8_t *bytes = data;
    uint8_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        uint8_t pattern = (uint8_t)((bytes[i] ^ flip) & mask);
        largest = pattern > largest ? pattern : largest;
    }
    return largest;
}

static void scan16(const void *data, size_t count, uint16_t inf, struct values_found *found)
{
    blocks16(data, count, inf, found);
}

static void scan32(const void *data, size_t count, struct values_found *found)
{
    blocks32(data, count, UINT32_C(0x7f800000), found);
}

static void scan64(const void *data, size_t count, struct values_found *found)
{
    blocks64(data, count, UINT64_C(0x7ff0000000000000), found);
}

/* --- change --- */

static float float_of(uint32_t pattern)
{
    float value;
    memcpy(&value, &pattern, sizeof(value));
    return value;
}

static void read_bf16(const word16 *words, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = float_of((uint32_t)words[i] << 16);
    }
}

/* The exponent is moved by a multiplication, which is right for subnormal numbers too. */
static void read_f16(const word16 *words, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t magnitude = words[i] & UINT32_C(0x7fff);
        uint32_t sign = (words[i] & UINT32_C(0x8000)) << 16;
        float value = float_of(sign | magnitude << 13) * 0x1p112F;
        float special = float_of(UINT32_C(0x7f800000) | magnitude << 13);
        out[i] = magnitude >= 0x7c00 ? special : value;
    }
}

static void read_table(const uint8_t *bytes, size_t count, const float *table, float *out)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = table[bytes[i]];
    }
}

/* All formats but F64. */
static void read_floats(enum tensor_dtype dtype, const uint8_t *bytes, size_t count,
                        const float *table, float *out)
{
    switch ((int)dtype) {
    case TENSOR_DTYPE_BF16: read_bf16((const word16 *)bytes, count, out); return;
    case TENSOR_DTYPE_F16: read_f16((const word16 *)bytes, count, out); return;
    case TENSOR_DTYPE_C64:
    case TENSOR_DTYPE_F32: memcpy(out, bytes, count * sizeof(*out)); return;
    default: read_table(bytes, count, table, out); return;
    }
}

static void add_double(double now, double base, struct values_change *change)
{
    change->delta += (now - base) * (now - base);
    change->base += base * base;
}

/* Squares of a block in single precision; false if they left its range. */
static bool add_fast(const float *now, const float *base, size_t count,
                     struct values_change *change)
{
    floats deltas = { 0 };
    floats norms = { 0 };
    size_t whole = count / LANES * LANES;
    for (size_t at = 0; at < whole; at += LANES) {
        floats a;
        floats b;
        memcpy(&a, now + at, sizeof(a));
        memcpy(&b, base + at, sizeof(b));
        deltas += (a - b) * (a - b);
        norms += b * b;
    }
    struct values_change block = { 0, 0 };
    for (size_t k = 0; k < LANES; k++) {
        block.delta += (double)deltas[k];
        block.base += (double)norms[k];
    }
    /* Beyond these a square may have become infinite, or nothing. */
    static const double least = 1e-24;
    static const double most = 1e30;
    if (!(block.base > least && block.base < most && block.delta < most) ||
        (block.delta > 0 && block.delta < least)) {
        return false;
    }
    for (size_t at = whole; at < count; at++) {
        add_double((double)now[at], (double)base[at], &block);
    }
    change->delta += block.delta;
    change->base += block.base;
    return true;
}

static void add_block(const float *now, const float *base, size_t count,
                      struct values_change *change)
{
    if (add_fast(now, base, count, change)) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        add_double((double)now[i], (double)base[i], change);
    }
}

static void compare_doubles(const uint8_t *now, const uint8_t *base, size_t count,
                            struct values_change *change)
{
    for (size_t i = 0; i < count; i++) {
        double a;
        double b;
        memcpy(&a, now + i * sizeof(a), sizeof(a));
        memcpy(&b, base + i * sizeof(b), sizeof(b));
        add_double(a, b, change);
    }
}

static void compare(enum tensor_dtype dtype, const uint8_t *now, const uint8_t *base, size_t count,
                    const float *table, struct values_change *change)
{
    float a[BLOCK];
    float b[BLOCK];
    if (dtype == TENSOR_DTYPE_F64) {
        compare_doubles(now, base, count, change);
        return;
    }
    size_t bytes = tensor_dtype_bits(dtype) / 8 / (dtype == TENSOR_DTYPE_C64 ? 2 : 1);
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t some = count - at < BLOCK ? count - at : BLOCK;
        read_floats(dtype, now + at * bytes, some, table, a);
        read_floats(dtype, base + at * bytes, some, table, b);
        add_block(a, b, some, change);
    }
}

const struct values_kernel VALUES_KERNEL = {
    .largest8 = largest8,
    .scan16 = scan16,
    .scan32 = scan32,
    .scan64 = scan64,
    .compare = compare,
};
