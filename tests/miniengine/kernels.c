/* kernels.c -- see kernels.h.  Plain loops that the compiler turns into vector code. */
#include "tests/miniengine/kernels.h"

#include <math.h>
#include <string.h>

enum { TILE_ROWS = 4, TILE_COLUMNS = 64 };

/* Four rows share each load of the weights; the sums of one tile stay in the first cache. */
static void matmul_tile(const float *x, size_t rows, struct kernels_matrix w, size_t column,
                        float *y)
{
    float sum[TILE_ROWS][TILE_COLUMNS] = { { 0 } };
    size_t columns = w.out - column < TILE_COLUMNS ? w.out - column : TILE_COLUMNS;
    for (size_t i = 0; i < w.in; i++) {
        const float *weights = w.packed + i * w.out + column;
        for (size_t r = 0; r < rows; r++) {
            kernels_add_scaled(sum[r], weights, x[r * w.in + i], columns);
        }
    }
    for (size_t r = 0; r < rows; r++) {
        memcpy(y + r * w.out + column, sum[r], columns * sizeof(float));
    }
}

void kernels_matmul(const float *x, size_t rows, struct kernels_matrix w, float *y)
{
    for (size_t row = 0; row < rows; row += TILE_ROWS) {
        size_t tile = rows - row < TILE_ROWS ? rows - row : TILE_ROWS;
        for (size_t column = 0; column < w.out; column += TILE_COLUMNS) {
            matmul_tile(x + row * w.in, tile, w, column, y + row * w.out);
        }
    }
}

void kernels_norm(const float *x, const float *gain, size_t count, float epsilon, float *y)
{
    float square = kernels_dot(x, x, count) / (float)count;
    float scale = 1.0F / sqrtf(square + epsilon);
    for (size_t i = 0; i < count; i++) {
        y[i] = x[i] * scale * gain[i];
    }
}

void kernels_rope_angles(float *angles, size_t dim, uint32_t position, float theta)
{
    size_t half = dim / 2;
    for (size_t i = 0; i < half; i++) {
        float frequency = 1.0F / powf(theta, (float)(2 * i) / (float)dim);
        angles[i] = cosf((float)position * frequency);
        angles[half + i] = sinf((float)position * frequency);
    }
}

void kernels_rope(float *head, const float *angles, size_t dim)
{
    size_t half = dim / 2;
    for (size_t i = 0; i < half; i++) {
        float a = head[i];
        float b = head[i + half];
        head[i] = a * angles[i] - b * angles[half + i];
        head[i + half] = b * angles[i] + a * angles[half + i];
    }
}

void kernels_swiglu(const float *gate_up, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++) {
        float gate = gate_up[i];
        out[i] = gate / (1.0F + expf(-gate)) * gate_up[count + i];
    }
}

static float max_of(const float *x, size_t count)
{
    float max = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        max = x[i] > max ? x[i] : max;
    }
    return max;
}

double kernels_softmax(float *x, size_t count)
{
    float max = max_of(x, count);
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        x[i] = expf(x[i] - max);
        sum += (double)x[i];
    }
    float scale = (float)(1.0 / sum);
    for (size_t i = 0; i < count; i++) {
        x[i] *= scale;
    }
    return (double)max + log(sum);
}

double kernels_logsumexp(const float *x, size_t count)
{
    float max = max_of(x, count);
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += exp((double)x[i] - (double)max);
    }
    return (double)max + log(sum);
}

float kernels_dot(const float *a, const float *b, size_t count)
{
    float part[8] = { 0 };
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        for (size_t k = 0; k < 8; k++) {
            part[k] += a[i + k] * b[i + k];
        }
    }
    for (; i < count; i++) {
        part[0] += a[i] * b[i];
    }
    return ((part[0] + part[4]) + (part[1] + part[5])) +
           ((part[2] + part[6]) + (part[3] + part[7]));
}

void kernels_add_scaled(float *restrict y, const float *restrict x, float scale, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        y[i] += scale * x[i];
    }
}

float kernels_from_bf16(uint16_t word)
{
    uint32_t bits = (uint32_t)word << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float kernels_from_f16(uint16_t word)
{
    uint32_t sign = (uint32_t)(word >> 15);
    uint32_t exponent = (uint32_t)(word >> 10) & 31U;
    uint32_t fraction = (uint32_t)word & 1023U;
    float value = 0;
    if (exponent == 31) {
        value = fraction != 0 ? NAN : INFINITY;
    } else if (exponent == 0) {
        value = ldexpf((float)fraction, -24);
    } else {
        value = ldexpf((float)(fraction + 1024U), (int)exponent - 25);
    }
    return sign != 0 ? -value : value;
}
