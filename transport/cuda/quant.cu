/* quant.cu -- bf16 to fp8 e4m3, bit for bit as transport/quant.
 *
 * CHANNEL and BLOCK read what shares a scale into registers once, find its
 * amax, convert and write. TENSOR reads twice: the amax of all, then,
 * backwards, so that what the first pass read last is still in the cache, the
 * values.
 *
 * An amax is found on the bits of pairs of values.  What is not finite is the
 * largest there, so one comparison tells whether the slow way, which leaves it
 * out and counts it, must be gone. */
#include <cuda_fp8.h>

#include "transport/cuda/kernels.h"

enum {
    SCALE_TENSOR = 0, /* enum quant_scaling. */
    SCALE_CHANNEL = 1,
    SCALE_BLOCK = 2,
    QUANT_THREADS = 256,
    QUANT_WARPS = QUANT_THREADS / WARP,
    PIECE = 8,  /* Values that a thread loads at once. */
    PIECES = 8, /* That a thread holds. */
    EDGE = 128,
    EDGE_THREADS = EDGE / PIECE, /* In a row of a block. */
    INF_BITS = 0x7F80,
};
#define CODE_MAX 448.0F

struct piece {
    uint32_t pairs[PIECE / 2];
};

struct job {
    const uint16_t *values;
    uint8_t *codes;
    float *scales;
    unsigned long long *counts;
    uint64_t rows;
    uint64_t columns;
};

/* Values from 'column' on of a row; 0 beyond its end.  VECTOR: rows and pieces
 * are aligned, so that a piece is wholly inside or outside. */
template <bool VECTOR>
static __device__ __forceinline__ struct piece load_piece(const uint16_t *row, uint64_t columns,
                                                          uint64_t column)
{
    struct piece piece = { { 0, 0, 0, 0 } };
    if constexpr (VECTOR) {
        if (column < columns) {
            uint4 bits = __ldcs((const uint4 *)(row + column));
            piece = { { bits.x, bits.y, bits.z, bits.w } };
        }
    } else {
#pragma unroll
        for (int i = 0; i < PIECE; i++) {
            uint32_t bits = column + i < columns ? row[column + i] : 0;
            piece.pairs[i / 2] |= bits << (16 * (i % 2));
        }
    }
    return piece;
}

template <bool VECTOR>
static __device__ __forceinline__ void store_piece(uint8_t *row, uint64_t columns, uint64_t column,
                                                   uint2 codes)
{
    if constexpr (VECTOR) {
        if (column < columns) {
            __stcs((uint2 *)(row + column), codes);
        }
    } else {
#pragma unroll
        for (int i = 0; i < PIECE; i++) {
            if (column + i < columns) {
                row[column + i] = (uint8_t)((i < 4 ? codes.x : codes.y) >> (8 * (i % 4)));
            }
        }
    }
}

/* The largest magnitude of these finite values, as bf16 bits; others are
 * counted. */
static __device__ __noinline__ unsigned amax_of_finite(struct piece piece,
                                                       unsigned long long *counts)
{
    unsigned amax = 0;
    for (int i = 0; i < PIECE; i++) {
        unsigned bits = piece.pairs[i / 2] >> (16 * (i % 2)) & 0x7FFF;
        if (bits < INF_BITS) {
            amax = max(amax, bits);
        } else {
            atomicAdd(&counts[bits == INF_BITS], 1ULL);
        }
    }
    return amax;
}

static __device__ __forceinline__ unsigned piece_amax(struct piece piece,
                                                      unsigned long long *counts)
{
    unsigned pairs = 0;
#pragma unroll
    for (int i = 0; i < PIECE / 2; i++) {
        pairs = __vmaxu2(pairs, piece.pairs[i] & 0x7FFF7FFF);
    }
    unsigned amax = max(pairs & 0xFFFF, pairs >> 16);
    return amax < INF_BITS ? amax : amax_of_finite(piece, counts);
}

static __device__ __forceinline__ float amax_value(unsigned bits)
{
    return __uint_as_float(bits << 16);
}

/* quant_scale() of transport/quant. */
template <int SCALING> static __device__ __forceinline__ float scale_of(float amax)
{
    if (SCALING == SCALE_BLOCK) {
        return __fdiv_rn(fmaxf(amax, 1e-4F), CODE_MAX);
    }
    float scale = __fdiv_rn(amax, CODE_MAX);
    if (SCALING == SCALE_CHANNEL) {
        return fmaxf(scale, 1.0F / (CODE_MAX * 512.0F));
    }
    return amax > 0 ? fmaxf(scale, 0x1p-126F) : 1.0F;
}

/* value / scale, rounded once, from scale's rounded reciprocal: one step makes
 * the quotient right to a last place, the next rounds it (Markstein's theorem).
 * It needs a scale and a quotient that are neither tiny nor infinite: CHANNEL's
 * floor and e4m3's range see to that.  copysign: -0. */
static __device__ __forceinline__ float divided(float value, float scale, float reciprocal)
{
    float quotient = value * reciprocal;
    float left = fmaf(-quotient, scale, value);
    quotient = fmaf(left, reciprocal, quotient);
    left = fmaf(-quotient, scale, value);
    return isfinite(value) ? copysignf(fmaf(left, reciprocal, quotient), value) : value;
}

template <int SCALING>
static __device__ __forceinline__ unsigned code_pair(uint32_t pair, float scale, float reciprocal)
{
    float2 values = make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xFFFF0000));
    if (SCALING == SCALE_CHANNEL) {
        values.x = divided(values.x, scale, reciprocal);
        values.y = divided(values.y, scale, reciprocal);
    } else {
        values.x *= reciprocal;
        values.y *= reciprocal;
    }
    return __nv_cvt_float2_to_fp8x2(values, __NV_SATFINITE, __NV_E4M3);
}

template <int SCALING>
static __device__ __forceinline__ uint2 piece_codes(struct piece piece, float scale,
                                                    float reciprocal)
{
    uint2 codes;
    codes.x = code_pair<SCALING>(piece.pairs[0], scale, reciprocal) |
              code_pair<SCALING>(piece.pairs[1], scale, reciprocal) << 16;
    codes.y = code_pair<SCALING>(piece.pairs[2], scale, reciprocal) |
              code_pair<SCALING>(piece.pairs[3], scale, reciprocal) << 16;
    return codes;
}

/* The largest over the 'warps' warps that this thread's warp is one of. */
static __device__ unsigned warps_max(unsigned value, unsigned warps)
{
    __shared__ unsigned largest[QUANT_WARPS];
    unsigned first = threadIdx.x / WARP / warps * warps;
    value = __reduce_max_sync(WHOLE_WARP, value);
    if (threadIdx.x % WARP == 0) {
        largest[threadIdx.x / WARP] = value;
    }
    __syncthreads();
    for (unsigned i = 0; i < warps; i++) {
        value = max(value, largest[first + i]);
    }
    return value;
}

/* A thread has a piece of each 16th row of a block. */
template <bool VECTOR>
static __global__ void __launch_bounds__(QUANT_THREADS) quantise_blocks(struct job job)
{
    unsigned across = (unsigned)((job.columns + EDGE - 1) / EDGE);
    uint64_t row = (uint64_t)(blockIdx.x / across) * EDGE + threadIdx.x / EDGE_THREADS;
    uint64_t column = (uint64_t)(blockIdx.x % across) * EDGE + threadIdx.x % EDGE_THREADS * PIECE;
    const unsigned rows_apart = QUANT_THREADS / EDGE_THREADS;
    struct piece pieces[PIECES];
    unsigned amax = 0;
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
        uint64_t at = row + i * rows_apart;
        uint64_t columns = at < job.rows ? job.columns : 0;
        pieces[i] = load_piece<VECTOR>(job.values + at * job.columns, columns, column);
    }
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
        amax = max(amax, piece_amax(pieces[i], job.counts));
    }
    float scale = scale_of<SCALE_BLOCK>(amax_value(warps_max(amax, QUANT_WARPS)));
    float reciprocal = __frcp_rn(scale);
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
        uint64_t at = row + i * rows_apart;
        uint64_t columns = at < job.rows ? job.columns : 0;
        store_piece<VECTOR>(job.codes + at * job.columns, columns, column,
                            piece_codes<SCALE_BLOCK>(pieces[i], scale, reciprocal));
    }
    if (threadIdx.x == 0) {
        job.scales[blockIdx.x] = scale;
    }
}

/* 'warps' warps have a row; rows longer than they can hold are read again. */
template <bool VECTOR>
static __global__ void __launch_bounds__(QUANT_THREADS)
    quantise_channels(struct job job, unsigned warps)
{
    unsigned threads = warps * WARP;
    uint64_t row = (uint64_t)blockIdx.x * (blockDim.x / threads) + threadIdx.x / threads;
    uint64_t columns = row < job.rows ? job.columns : 0;
    const uint16_t *values = job.values + row * job.columns;
    uint8_t *codes = job.codes + row * job.columns;
    uint64_t slab = (uint64_t)threads * PIECE * PIECES;
    uint64_t column = threadIdx.x % threads * PIECE;
    struct piece pieces[PIECES];
    unsigned amax = 0;
    for (uint64_t first = 0; first < job.columns; first += slab) {
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            pieces[i] = load_piece<VECTOR>(values, columns, first + column + i * threads * PIECE);
        }
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            amax = max(amax, piece_amax(pieces[i], job.counts));
        }
    }
    float scale = scale_of<SCALE_CHANNEL>(amax_value(warps_max(amax, warps)));
    float reciprocal = __frcp_rn(scale);
    for (uint64_t first = 0; first < job.columns; first += slab) {
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            uint64_t at = first + column + i * threads * PIECE;
            if (at >= columns) {
                continue;
            }
            if (job.columns > slab) {
                pieces[i] = load_piece<VECTOR>(values, columns, at);
            }
            store_piece<VECTOR>(codes, columns, at,
                                piece_codes<SCALE_CHANNEL>(pieces[i], scale, reciprocal));
        }
    }
    if (columns > 0 && threadIdx.x % threads == 0) {
        job.scales[row] = scale;
    }
}

/* Of TENSOR, whose matrix is one row of 'columns' values: each thread block has
 * a stretch of it. */
enum { STRETCH = QUANT_THREADS * PIECE * PIECES };

/* scales[0] holds the bits of the amax until tensor_scale(). */
template <bool VECTOR>
static __global__ void __launch_bounds__(QUANT_THREADS) tensor_amax(struct job job)
{
    uint64_t column = (uint64_t)blockIdx.x * STRETCH + threadIdx.x * PIECE;
    struct piece pieces[PIECES];
    unsigned amax = 0;
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
        pieces[i] = load_piece<VECTOR>(job.values, job.columns, column + i * QUANT_THREADS * PIECE);
    }
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
        amax = max(amax, piece_amax(pieces[i], job.counts));
    }
    amax = warps_max(amax, QUANT_WARPS);
    if (threadIdx.x == 0) {
        atomicMax((unsigned *)job.scales, amax);
    }
}

static __global__ void tensor_scale(float *scale)
{
    *scale = scale_of<SCALE_TENSOR>(amax_value(*(const unsigned *)scale));
}

template <bool VECTOR>
static __global__ void __launch_bounds__(QUANT_THREADS) tensor_codes(struct job job)
{
    uint64_t column = (uint64_t)(gridDim.x - 1 - blockIdx.x) * STRETCH + threadIdx.x * PIECE;
    float scale = job.scales[0];
    float reciprocal = __frcp_rn(scale);
    struct piece pieces[PIECES];
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
        pieces[i] = load_piece<VECTOR>(job.values, job.columns, column + i * QUANT_THREADS * PIECE);
    }
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
        store_piece<VECTOR>(job.codes, job.columns, column + i * QUANT_THREADS * PIECE,
                            piece_codes<SCALE_TENSOR>(pieces[i], scale, reciprocal));
    }
}

template <bool VECTOR> static int quantise_tensor(struct job job, cudaStream_t on)
{
    job.columns *= job.rows;
    job.rows = 1;
    uint64_t stretches = (job.columns + STRETCH - 1) / STRETCH;
    if (cudaMemsetAsync(job.scales, 0, sizeof(float), on) != cudaSuccess) {
        return launched();
    }
    if (!fits_grid(stretches)) {
        return BATON_CUDA_E_INVALID;
    }
    tensor_amax<VECTOR><<<(unsigned)stretches, QUANT_THREADS, 0, on>>>(job);
    tensor_scale<<<1, 1, 0, on>>>(job.scales);
    tensor_codes<VECTOR><<<(unsigned)stretches, QUANT_THREADS, 0, on>>>(job);
    return launched();
}

template <bool VECTOR> static int quantise_job(struct job job, uint32_t scaling, cudaStream_t on)
{
    const uint64_t slab = WARP * PIECE * PIECES; /* That a warp holds. */
    uint64_t blocks = (job.rows + EDGE - 1) / EDGE * ((job.columns + EDGE - 1) / EDGE);
    uint64_t wanted = (job.columns + slab - 1) / slab;
    unsigned warps = wanted < QUANT_WARPS ? (unsigned)wanted : (unsigned)QUANT_WARPS;
    unsigned together = QUANT_WARPS / warps;
    uint64_t channels = (job.rows + together - 1) / together;
    if (scaling == SCALE_TENSOR) {
        return quantise_tensor<VECTOR>(job, on);
    }
    if (!fits_grid(scaling == SCALE_BLOCK ? blocks : channels)) {
        return BATON_CUDA_E_INVALID;
    }
    if (scaling == SCALE_BLOCK) {
        quantise_blocks<VECTOR><<<(unsigned)blocks, QUANT_THREADS, 0, on>>>(job);
    } else {
        quantise_channels<VECTOR>
            <<<(unsigned)channels, together * warps * WARP, 0, on>>>(job, warps);
    }
    return launched();
}

int kernel_quantise(const struct baton_cuda_quant *quant, void *stream)
{
    struct job job = { (const uint16_t *)quant->values,
                       (uint8_t *)quant->codes,
                       quant->scales,
                       (unsigned long long *)quant->counts,
                       quant->rows,
                       quant->columns };
    bool is_flat = quant->scaling == SCALE_TENSOR;
    uint64_t row = is_flat ? quant->rows * quant->columns : quant->columns;
    if (quant->scaling > SCALE_BLOCK || quant->counts == NULL || !is_aligned(job.values, 2)) {
        return BATON_CUDA_E_INVALID;
    }
    if (quant->rows == 0 || quant->columns == 0) {
        return BATON_CUDA_OK;
    }
    if (row % PIECE == 0 && is_aligned(job.values, 16) && is_aligned(job.codes, PIECE)) {
        return quantise_job<true>(job, quant->scaling, (cudaStream_t)stream);
    }
    return quantise_job<false>(job, quant->scaling, (cudaStream_t)stream);
}
