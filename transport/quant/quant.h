/* quant.h -- bf16 to fp8 e4m3 with float32 scales, as vLLM, SGLang and compressed-tensors do it.
 *
 * The reference: transport/cuda's kernels give the same bits.  A matrix is quantised in one of
 * three ways; values and scales are one atomic set, so one call makes both.
 *
 *   scaling   scales               scale of an amax                  value
 *   TENSOR    1                    amax / 448                        x * (1 / scale)
 *   CHANNEL   1 a row              max(amax / 448, 1 / (448 * 512))  x / scale
 *   BLOCK     1 a 128 x 128 block  max(amax, 1e-4) / 448             x * (1 / scale)
 *
 * All in float32, each step rounded once; the value is then rounded to the nearest e4m3, ties to
 * even, and saturates at 448.  TENSOR and CHANNEL are what vLLM's CUDA kernels compute for a
 * tensor and for a token (CHANNEL also compressed-tensors', whose amax is rarely below 1 / 512);
 * BLOCK is DeepGEMM's; SGLang reads all three.  Blocks at the right and lower edge may be cut.
 *
 * What those leave undefined is defined here:
 * - amax is that of the finite values; of none it is 0.
 * - a TENSOR scale is at least 2^-126, so that its reciprocal is finite; of amax 0 it is 1.
 * - infinity becomes 448 with its sign, NaN 0x7f whatever its sign; both are counted, and who must
 *   not serve such weights looks at the counts.
 *
 * Depends on: the C library.  Pure.  Threads: pure functions.  Ownership: none. */
#ifndef TRANSPORT_QUANT_QUANT_H
#define TRANSPORT_QUANT_QUANT_H

#include <stdint.h>

enum quant_scaling { QUANT_TENSOR, QUANT_CHANNEL, QUANT_BLOCK };
enum { QUANT_BLOCK_EDGE = 128 };

/* Row after row, without gaps. */
struct quant_matrix {
    const uint16_t *values; /* bf16 */
    uint64_t rows;
    uint64_t columns;
};

struct quant_counts {
    uint64_t nans;
    uint64_t infinities;
};

/* Row after row of blocks; 0 for a matrix without elements. */
uint64_t quant_scales_count(enum quant_scaling scaling, uint64_t rows, uint64_t columns);
/* 'values': rows x columns bytes; 'scales': quant_scales_count() of them. */
struct quant_counts quant_fp8(enum quant_scaling scaling, struct quant_matrix matrix,
                              uint8_t *values, float *scales);

/* The parts. */
float quant_bf16(uint16_t bits);
/* Of a finite 'amax' that is not negative. */
float quant_scale(enum quant_scaling scaling, float amax);
uint8_t quant_e4m3(float value);

#endif /* quant.h */
