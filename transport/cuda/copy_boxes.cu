/* copy_boxes.cu -- strided copies: one thread block a tile of a box.
 *
 * A box is counted in units, innermost first.  A thread takes every 256th unit
 * of its tile: it finds its first place by division, and the next ones by
 * adding the digits of 256 with carries. */
#include "transport/cuda/kernels.h"

enum { COPY_THREADS = 256, COPY_BATCH = 4, COPY_LEVELS = BATON_CUDA_BOX_LEVELS };

/* A place in a box, or a distance: a digit a level, and units within the run.
 */
struct place {
    uint64_t digits[COPY_LEVELS];
    uint64_t unit;
};

static __device__ struct place place_of(const struct baton_cuda_box *box, uint64_t run,
                                        uint64_t units)
{
    struct place place;
    place.unit = units % run;
    units /= run;
#pragma unroll
    for (int level = COPY_LEVELS - 1; level >= 0; level--) {
        place.digits[level] = level == 0 ? units : units % box->counts[level];
        units /= box->counts[level];
    }
    return place;
}

static __device__ __forceinline__ void place_add(struct place *place, const struct place *distance,
                                                 const struct baton_cuda_box *box, uint64_t run)
{
    place->unit += distance->unit;
    uint64_t carry = place->unit >= run;
    place->unit -= carry ? run : 0;
#pragma unroll
    for (int level = COPY_LEVELS - 1; level >= 0; level--) {
        place->digits[level] += distance->digits[level] + carry;
        carry = level > 0 && place->digits[level] >= box->counts[level];
        place->digits[level] -= carry ? box->counts[level] : 0;
    }
}

static __device__ __forceinline__ uint64_t place_offset(const struct place *place,
                                                        const uint64_t steps[COPY_LEVELS],
                                                        unsigned unit_bytes)
{
    uint64_t offset = place->unit * unit_bytes;
#pragma unroll
    for (int level = 0; level < COPY_LEVELS; level++) {
        offset += place->digits[level] * steps[level];
    }
    return offset;
}

/* COPY_BATCH loads are under way before the first store. */
template <typename UNIT>
static __device__ void copy_tile(const struct baton_cuda_box *box, uint64_t first)
{
    uint64_t run = box->run_bytes / sizeof(UNIT);
    uint64_t units = run * box->counts[0] * box->counts[1] * box->counts[2];
    uint64_t end = units - first < BATON_CUDA_BOX_TILE ? units : first + BATON_CUDA_BOX_TILE;
    struct place distance = place_of(box, run, COPY_THREADS);
    struct place place = place_of(box, run, first + threadIdx.x);
    for (uint64_t at = first + threadIdx.x; at < end; at += COPY_THREADS * COPY_BATCH) {
        UNIT values[COPY_BATCH];
        uint64_t targets[COPY_BATCH];
#pragma unroll
        for (int i = 0; i < COPY_BATCH; i++) {
            if (at + i * COPY_THREADS < end) {
                uint64_t source = place_offset(&place, box->source_steps, sizeof(UNIT));
                values[i] = *(const UNIT *)((const uint8_t *)box->source + source);
                targets[i] = place_offset(&place, box->target_steps, sizeof(UNIT));
                place_add(&place, &distance, box, run);
            }
        }
#pragma unroll
        for (int i = 0; i < COPY_BATCH; i++) {
            if (at + i * COPY_THREADS < end) {
                *(UNIT *)((uint8_t *)box->target + targets[i]) = values[i];
            }
        }
    }
}

static __device__ struct baton_cuda_box box_find(const struct baton_cuda_box *boxes,
                                                 uint32_t boxes_count, uint64_t tile)
{
    uint32_t low = 0;
    uint32_t high = boxes_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (boxes[middle].first_tile <= tile) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return boxes[low];
}

static __global__ void __launch_bounds__(COPY_THREADS)
    copy_tiles(const struct baton_cuda_box *boxes, uint32_t boxes_count)
{
    __shared__ struct baton_cuda_box box;
    if (threadIdx.x == 0) {
        box = box_find(boxes, boxes_count, blockIdx.x);
    }
    __syncthreads();
    uint64_t first = (blockIdx.x - box.first_tile) * BATON_CUDA_BOX_TILE;
    switch (box.unit_bytes) {
    case 16: copy_tile<uint4>(&box, first); break;
    case 8: copy_tile<uint2>(&box, first); break;
    case 4: copy_tile<uint32_t>(&box, first); break;
    case 2: copy_tile<uint16_t>(&box, first); break;
    default: copy_tile<uint8_t>(&box, first); break;
    }
}

int kernel_copy_boxes(const struct baton_cuda_box *boxes, uint32_t boxes_count, uint64_t tiles,
                      void *stream)
{
    if (tiles == 0) {
        return BATON_CUDA_OK;
    }
    if (boxes == NULL || boxes_count == 0 || !fits_grid(tiles)) {
        return BATON_CUDA_E_INVALID;
    }
    copy_tiles<<<(unsigned)tiles, COPY_THREADS, 0, (cudaStream_t)stream>>>(boxes, boxes_count);
    return launched();
}
