/* delta.cu -- changed words: found and marked in one pass over both versions,
 * gathered from the marks, and put into another copy.
 *
 * A thread block has one segment.  Gathering reads the marks and, of the new
 * version, only what changed; each segment's place in the result comes from a
 * running sum of the counts, so the order is that of the words. */
#include "transport/cuda/kernels.h"

enum {
    DELTA_THREADS = 256,
    DELTA_WARPS = DELTA_THREADS / WARP,
    UNIT = 16, /* Bytes that a thread compares at once. */
    UNITS = BATON_CUDA_SEGMENT_BYTES / UNIT,
    SUM_THREADS = 1024,
    SUM_ITEMS = 8, /* Counts that a thread adds up before threads are. */
};

static __device__ uint64_t segment_bytes(uint64_t size, uint64_t segment)
{
    uint64_t left = size - segment * BATON_CUDA_SEGMENT_BYTES;
    return left < BATON_CUDA_SEGMENT_BYTES ? left : BATON_CUDA_SEGMENT_BYTES;
}

/* Bit i: word i of these four bytes is not zero. */
template <int WORD> static __device__ __forceinline__ unsigned changed_in(uint32_t bits)
{
    if (WORD == 4) {
        return bits != 0;
    }
    if (WORD == 2) {
        return ((bits & 0xFFFF) != 0) | ((bits >> 16) != 0) << 1;
    }
    return ((bits & 0xFF) != 0) | ((bits >> 8 & 0xFF) != 0) << 1 | ((bits >> 16 & 0xFF) != 0) << 2 |
           ((bits >> 24) != 0) << 3;
}

template <int WORD> static __device__ __forceinline__ unsigned changed_words(uint4 a, uint4 b)
{
    const int each = 4 / WORD;
    return changed_in<WORD>(a.x ^ b.x) | changed_in<WORD>(a.y ^ b.y) << each |
           changed_in<WORD>(a.z ^ b.z) << 2 * each | changed_in<WORD>(a.w ^ b.w) << 3 * each;
}

/* Units of a thread that are under way at once. */
enum { BATCH = 4 };

/* Unit 'unit' of a segment and BATCH - 1 more, DELTA_THREADS apart. */
static __device__ __forceinline__ void load_units(const uint8_t *segment, unsigned unit,
                                                  uint4 out[BATCH])
{
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
        out[i] = __ldcs((const uint4 *)segment + unit + i * DELTA_THREADS);
    }
}

/* The same of a segment that is not whole: what lies beyond its end is 0. */
static __device__ void load_last_units(const uint8_t *segment, uint64_t bytes, unsigned unit,
                                       uint4 out[BATCH])
{
    for (int i = 0; i < BATCH; i++) {
        unsigned at = (unit + i * DELTA_THREADS) * UNIT;
        uint32_t words[UNIT / 4] = { 0, 0, 0, 0 };
        for (int b = 0; b < UNIT && at + b < bytes; b++) {
            words[b / 4] |= (uint32_t)segment[at + b] << (8 * (b % 4));
        }
        out[i] = make_uint4(words[0], words[1], words[2], words[3]);
    }
}

/* The marks of unit 'unit'.  Of words of 4 bytes a unit has half a byte of
 * marks: the even thread writes its neighbour's too. */
template <int WORD>
static __device__ __forceinline__ void write_marks(uint8_t *marks, unsigned unit, unsigned changed)
{
    if (WORD == 1) {
        ((uint16_t *)marks)[unit] = (uint16_t)changed;
    } else if (WORD == 2) {
        marks[unit] = (uint8_t)changed;
    } else {
        unsigned next = __shfl_down_sync(WHOLE_WARP, changed, 1);
        if (unit % 2 == 0) {
            marks[unit / 2] = (uint8_t)(changed | next << 4);
        }
    }
}

static __device__ unsigned block_sum(unsigned value)
{
    __shared__ unsigned sums[DELTA_WARPS];
    value = __reduce_add_sync(WHOLE_WARP, value);
    if (threadIdx.x % WARP == 0) {
        sums[threadIdx.x / WARP] = value;
    }
    __syncthreads();
    unsigned sum = 0;
    for (int i = 0; i < DELTA_WARPS; i++) {
        sum += sums[i];
    }
    return sum;
}

template <int WORD>
static __global__ void __launch_bounds__(DELTA_THREADS) scan_segments(struct baton_cuda_delta delta)
{
    uint64_t segment = blockIdx.x;
    uint64_t bytes = segment_bytes(delta.size, segment);
    const uint8_t *old = (const uint8_t *)delta.old + segment * BATON_CUDA_SEGMENT_BYTES;
    const uint8_t *now = (const uint8_t *)delta.now + segment * BATON_CUDA_SEGMENT_BYTES;
    uint8_t *marks = delta.marks + segment * (BATON_CUDA_SEGMENT_BYTES / 8 / WORD);
    unsigned count = 0;
    for (unsigned unit = threadIdx.x; unit < UNITS; unit += DELTA_THREADS * BATCH) {
        uint4 before[BATCH];
        uint4 after[BATCH];
        if (bytes == BATON_CUDA_SEGMENT_BYTES) {
            load_units(old, unit, before);
            load_units(now, unit, after);
        } else {
            load_last_units(old, bytes, unit, before);
            load_last_units(now, bytes, unit, after);
        }
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            unsigned changed = changed_words<WORD>(before[i], after[i]);
            count += __popc(changed);
            if (delta.marks != NULL) {
                write_marks<WORD>(marks, unit + i * DELTA_THREADS, changed);
            }
        }
    }
    count = block_sum(count);
    if (threadIdx.x == 0) {
        delta.counts[segment] = count;
    }
}

/* What the threads before this one have, over a block of up to 32 warps; '*all'
 * of all of them. */
static __device__ unsigned block_before(unsigned value, unsigned *all)
{
    __shared__ unsigned sums[WARP];
    unsigned lane = threadIdx.x % WARP;
    unsigned warp = threadIdx.x / WARP;
    unsigned sum = value;
    for (unsigned step = 1; step < WARP; step *= 2) {
        unsigned other = __shfl_up_sync(WHOLE_WARP, sum, step);
        sum += lane >= step ? other : 0;
    }
    __syncthreads();
    if (lane == WARP - 1) {
        sums[warp] = sum;
    }
    __syncthreads();
    unsigned before = 0;
    *all = 0;
    for (unsigned i = 0; i < blockDim.x / WARP; i++) {
        before += i < warp ? sums[i] : 0;
        *all += sums[i];
    }
    return before + sum - value;
}

/* offsets[i] = changes before segment i.  One thread block: the sum of a
 * round's counts fits 32 bits, since a segment has at most 2^16 words. */
static __global__ void __launch_bounds__(SUM_THREADS)
    sum_counts(const uint32_t *counts, uint64_t segments, uint64_t *offsets)
{
    uint64_t base = 0;
    for (uint64_t first = 0; first < segments; first += SUM_THREADS * SUM_ITEMS) {
        uint64_t at = first + threadIdx.x * SUM_ITEMS;
        unsigned items[SUM_ITEMS];
        unsigned own = 0;
        unsigned all = 0;
        for (int i = 0; i < SUM_ITEMS; i++) {
            items[i] = at + i < segments ? counts[at + i] : 0;
            own += items[i];
        }
        uint64_t before = base + block_before(own, &all);
        for (int i = 0; i < SUM_ITEMS && at + i < segments; i++) {
            offsets[at + i] = before;
            before += items[i];
        }
        base += all;
    }
    if (threadIdx.x == 0) {
        offsets[segments] = base;
    }
}

template <typename WORD>
static __global__ void __launch_bounds__(DELTA_THREADS)
    gather_changes(struct baton_cuda_delta delta, struct baton_cuda_changes changes)
{
    const unsigned segment_words = BATON_CUDA_SEGMENT_BYTES / sizeof(WORD);
    const unsigned rows = segment_words / 64 / DELTA_THREADS; /* Of 64 marks, a thread. */
    uint64_t segment = blockIdx.x;
    const uint64_t *marks =
        (const uint64_t *)(delta.marks + segment * (segment_words / 8)) + threadIdx.x * rows;
    uint64_t index = segment * segment_words + threadIdx.x * rows * 64;
    unsigned own = 0;
    unsigned all = 0;
    if (delta.counts[segment] == 0) {
        return;
    }
    for (unsigned row = 0; row < rows; row++) {
        own += __popcll(marks[row]);
    }
    uint64_t at = changes.offsets[segment] + block_before(own, &all);
    for (unsigned row = 0; row < rows; row++, index += 64) {
        for (uint64_t left = marks[row]; left != 0 && at < changes.capacity; left &= left - 1) {
            uint64_t word = index + __ffsll((long long)left) - 1;
            changes.indices[at] = (uint32_t)word;
            ((WORD *)changes.words)[at] = ((const WORD *)delta.now)[word];
            at++;
        }
    }
}

template <typename WORD>
static __global__ void __launch_bounds__(DELTA_THREADS)
    apply_changes(WORD *target, uint64_t words, struct baton_cuda_changes changes,
                  uint64_t *refused)
{
    uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < changes.capacity;
         i += step) {
        uint32_t index = changes.indices[i];
        if (index < words) {
            target[index] = ((const WORD *)changes.words)[i];
        } else {
            atomicAdd((unsigned long long *)refused, 1ULL);
        }
    }
}

static bool is_valid(const struct baton_cuda_delta *delta)
{
    uint32_t word = delta->word_bytes;
    return (word == 1 || word == 2 || word == 4) && delta->size % word == 0 &&
           delta->size / word <= UINT32_MAX;
}

int kernel_delta_scan(const struct baton_cuda_delta *delta, void *stream)
{
    unsigned segments = (unsigned)baton_cuda_segments(delta->size);
    cudaStream_t on = (cudaStream_t)stream;
    if (!is_valid(delta) || !is_aligned(delta->old, UNIT) || !is_aligned(delta->now, UNIT) ||
        !is_aligned(delta->marks, 8)) {
        return BATON_CUDA_E_INVALID;
    }
    if (segments == 0) {
        return BATON_CUDA_OK;
    }
    switch (delta->word_bytes) {
    case 1: scan_segments<1><<<segments, DELTA_THREADS, 0, on>>>(*delta); break;
    case 2: scan_segments<2><<<segments, DELTA_THREADS, 0, on>>>(*delta); break;
    default: scan_segments<4><<<segments, DELTA_THREADS, 0, on>>>(*delta); break;
    }
    return launched();
}

int kernel_delta_compact(const struct baton_cuda_delta *delta,
                         const struct baton_cuda_changes *changes, void *stream)
{
    unsigned segments = (unsigned)baton_cuda_segments(delta->size);
    cudaStream_t on = (cudaStream_t)stream;
    if (!is_valid(delta) || delta->marks == NULL || !is_aligned(delta->marks, 8)) {
        return BATON_CUDA_E_INVALID;
    }
    sum_counts<<<1, SUM_THREADS, 0, on>>>(delta->counts, segments, changes->offsets);
    if (segments == 0) {
        return launched();
    }
    switch (delta->word_bytes) {
    case 1: gather_changes<uint8_t><<<segments, DELTA_THREADS, 0, on>>>(*delta, *changes); break;
    case 2: gather_changes<uint16_t><<<segments, DELTA_THREADS, 0, on>>>(*delta, *changes); break;
    default: gather_changes<uint32_t><<<segments, DELTA_THREADS, 0, on>>>(*delta, *changes); break;
    }
    return launched();
}

template <typename WORD>
static int apply_words(void *target, const struct baton_cuda_delta *delta,
                       const struct baton_cuda_changes *changes, uint64_t *refused, void *stream)
{
    const uint64_t blocks_max = 1 << 16;
    uint64_t blocks = (changes->capacity + DELTA_THREADS - 1) / DELTA_THREADS;
    apply_changes<WORD>
        <<<(unsigned)(blocks < blocks_max ? blocks : blocks_max), DELTA_THREADS, 0,
           (cudaStream_t)stream>>>((WORD *)target, delta->size / sizeof(WORD), *changes, refused);
    return launched();
}

int kernel_delta_apply(void *target, const struct baton_cuda_delta *delta,
                       const struct baton_cuda_changes *changes, uint64_t *refused, void *stream)
{
    if (!is_valid(delta) || !is_aligned(target, delta->word_bytes)) {
        return BATON_CUDA_E_INVALID;
    }
    if (changes->capacity == 0) {
        return BATON_CUDA_OK;
    }
    switch (delta->word_bytes) {
    case 1: return apply_words<uint8_t>(target, delta, changes, refused, stream);
    case 2: return apply_words<uint16_t>(target, delta, changes, refused, stream);
    default: return apply_words<uint32_t>(target, delta, changes, refused, stream);
    }
}
