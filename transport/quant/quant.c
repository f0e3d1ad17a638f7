/* quant.c -- the reference quantisers, one element at a time. */
#include "transport/quant/quant.h"

#include <math.h>
#include <string.h>

#define E4M3_MAX 448.0F
#define E4M3_NAN 0x7FU

/* Part of a matrix that shares a scale. */
struct part {
    uint64_t row;
    uint64_t rows;
    uint64_t column;
    uint64_t columns;
};

static uint64_t edges_in(uint64_t elements)
{
    return elements / QUANT_BLOCK_EDGE + (elements % QUANT_BLOCK_EDGE != 0);
}

uint64_t quant_scales_count(enum quant_scaling scaling, uint64_t rows, uint64_t columns)
{
    if (rows == 0 || columns == 0) {
        return 0;
    }
    switch (scaling) {
    case QUANT_TENSOR: return 1;
    case QUANT_CHANNEL: return rows;
    case QUANT_BLOCK: return edges_in(rows) * edges_in(columns);
    }
    return 0;
}

float quant_bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value = 0;
    memcpy(&value, &wide, sizeof(value));
    return value;
}

static float max_of(float a, float b)
{
    return a > b ? a : b;
}

float quant_scale(enum quant_scaling scaling, float amax)
{
    switch (scaling) {
    case QUANT_TENSOR: return amax > 0 ? max_of(amax / E4M3_MAX, 0x1p-126F) : 1;
    case QUANT_CHANNEL: return max_of(amax / E4M3_MAX, 1 / (E4M3_MAX * 512));
    case QUANT_BLOCK: return max_of(amax, 1e-4F) / E4M3_MAX;
    }
    return 1;
}

/* Of a magnitude below the first that rounds past 448: in units of the lowest bit that e4m3 has
 * there, rounded to even; a carry into the next power of two gives the right code by itself. */
static uint8_t magnitude_code(float magnitude)
{
    int exponent = 0;
    (void)frexpf(magnitude, &exponent);
    int power = magnitude < 0x1p-6F ? -6 : exponent - 1;
    int units = (int)rintf(ldexpf(magnitude, 3 - power));
    return (uint8_t)(units + (power + 6) * 8);
}

uint8_t quant_e4m3(float value)
{
    uint8_t sign = signbit(value) ? 0x80 : 0;
    if (isnan(value)) {
        return E4M3_NAN;
    }
    float magnitude = fabsf(value);
    return sign | magnitude_code(magnitude < E4M3_MAX ? magnitude : E4M3_MAX);
}

static struct part part_of(enum quant_scaling scaling, struct quant_matrix m, uint64_t scale)
{
    struct part part = { 0, m.rows, 0, m.columns };
    if (scaling == QUANT_CHANNEL) {
        part.row = scale;
        part.rows = 1;
    } else if (scaling == QUANT_BLOCK) {
        part.row = scale / edges_in(m.columns) * QUANT_BLOCK_EDGE;
        part.column = scale % edges_in(m.columns) * QUANT_BLOCK_EDGE;
        part.rows = m.rows - part.row < QUANT_BLOCK_EDGE ? m.rows - part.row : QUANT_BLOCK_EDGE;
        part.columns =
            m.columns - part.column < QUANT_BLOCK_EDGE ? m.columns - part.column : QUANT_BLOCK_EDGE;
    }
    return part;
}

static float part_amax(struct quant_matrix m, struct part part, struct quant_counts *counts)
{
    float amax = 0;
    for (uint64_t row = part.row; row < part.row + part.rows; row++) {
        for (uint64_t i = 0; i < part.columns; i++) {
            float value = quant_bf16(m.values[row * m.columns + part.column + i]);
            counts->nans += isnan(value) != 0;
            counts->infinities += isinf(value) != 0;
            amax = isfinite(value) ? max_of(amax, fabsf(value)) : amax;
        }
    }
    return amax;
}

struct quant_counts quant_fp8(enum quant_scaling scaling, struct quant_matrix matrix,
                              uint8_t *values, float *scales)
{
    struct quant_counts counts = { 0, 0 };
    uint64_t scales_count = quant_scales_count(scaling, matrix.rows, matrix.columns);
    for (uint64_t s = 0; s < scales_count; s++) {
        struct part part = part_of(scaling, matrix, s);
        scales[s] = quant_scale(scaling, part_amax(matrix, part, &counts));
        float reciprocal = 1 / scales[s];
        for (uint64_t row = part.row; row < part.row + part.rows; row++) {
            for (uint64_t i = 0; i < part.columns; i++) {
                uint64_t at = row * matrix.columns + part.column + i;
                float value = quant_bf16(matrix.values[at]);
                values[at] =
                    quant_e4m3(scaling == QUANT_CHANNEL ? value / scales[s] : value * reciprocal);
            }
        }
    }
    return counts;
}
