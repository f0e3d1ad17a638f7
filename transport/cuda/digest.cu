/* digest.cu -- XXH3-128 of chunks: one thread block a chunk.
 *
 * The gains of XXH3's blocks of 1 KiB do not depend on the accumulators, so
 * eight warps read the chunk and add up the gains of 32 blocks a round; a ninth
 * walks the chain of additions and scramblings through the round before.  That
 * chain (1,024 steps a MiB) is a few times shorter than the time that reading
 * the chunk takes when several chunks share a multiprocessor. */
#include "transport/cuda/kernels.h"
#include "transport/cuda/xxh3.h"

enum {
    READERS = 8,
    WARP_BLOCKS = 4, /* Of XXH3, that a warp reads in a round. */
    ROUND_BLOCKS = READERS * WARP_BLOCKS,
    DIGEST_THREADS = (READERS + 1) * WARP,
    DIGEST_RESIDENT = 3, /* Thread blocks of a multiprocessor. */
};

struct chunk {
    const uint8_t *bytes;
    uint64_t size;
    uint64_t blocks; /* Those after which the accumulators are scrambled. */
};

struct round_sums {
    uint64_t gains[2][ROUND_BLOCKS][XXH3_LANES];
};

/* The range that a chunk belongs to is the last that begins at or before it:
 * those without bytes begin where the next one does. */
static __device__ struct chunk chunk_find(const struct baton_cuda_range *ranges,
                                          uint32_t ranges_count, uint64_t chunk)
{
    uint32_t low = 0;
    uint32_t high = ranges_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (ranges[middle].first_chunk <= chunk) {
            low = middle;
        } else {
            high = middle;
        }
    }
    uint64_t offset = (chunk - ranges[low].first_chunk) * BATON_CUDA_CHUNK_BYTES;
    uint64_t left = ranges[low].size - offset;
    struct chunk found;
    found.bytes = (const uint8_t *)ranges[low].bytes + offset;
    found.size = left < BATON_CUDA_CHUNK_BYTES ? left : BATON_CUDA_CHUNK_BYTES;
    found.blocks = found.size > 0 ? (found.size - 1) / XXH3_BLOCK : 0;
    return found;
}

/* Two words from an address that is a multiple of ALIGNMENT. */
template <int ALIGNMENT> static __device__ __forceinline__ ulonglong2 load_pair(const uint8_t *at)
{
    if (ALIGNMENT == 16) {
        return __ldcs((const ulonglong2 *)at);
    }
    if (ALIGNMENT == 4) {
        const uint32_t *words = (const uint32_t *)at;
        return make_ulonglong2(words[0] | (uint64_t)words[1] << 32,
                               words[2] | (uint64_t)words[3] << 32);
    }
    return make_ulonglong2(xxh3_read(at, 8), xxh3_read(at + 8, 8));
}

/* Lane t of a warp has words of stripes t / 4 and t / 4 + 8, of accumulators 2
 * (t % 4) and the next: its 16 bytes of each half of a block. */
static __device__ __forceinline__ void lane_keys(unsigned lane, uint64_t keys[2][2])
{
    for (unsigned half = 0; half < 2; half++) {
        unsigned offset = 8 * (lane / 4 + 8 * half) + 16 * (lane % 4);
        keys[half][0] = xxh3_key(offset);
        keys[half][1] = xxh3_key(offset + 8);
    }
}

/* The sums of four blocks over the eight lanes that share accumulators, so that
 * each lane ends with one: exchange half of what one has, add, thrice. */
static __device__ __forceinline__ uint64_t scatter_sums(uint64_t gains[WARP_BLOCKS][2],
                                                        unsigned lane)
{
    uint64_t half[2][2];
    uint64_t pair[2];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint64_t low = gains[i / 2][i % 2];
        uint64_t high = gains[i / 2 + 2][i % 2];
        uint64_t got = __shfl_xor_sync(WHOLE_WARP, lane & 16 ? low : high, 16);
        half[i / 2][i % 2] = (lane & 16 ? high : low) + got;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint64_t got = __shfl_xor_sync(WHOLE_WARP, lane & 8 ? half[0][i] : half[1][i], 8);
        pair[i] = (lane & 8 ? half[1][i] : half[0][i]) + got;
    }
    uint64_t got = __shfl_xor_sync(WHOLE_WARP, lane & 4 ? pair[0] : pair[1], 4);
    return (lane & 4 ? pair[1] : pair[0]) + got;
}

/* A reader's share of a round: four blocks that lie behind one another. */
template <int ALIGNMENT>
static __device__ __forceinline__ void read_blocks(struct chunk chunk, uint64_t first,
                                                   const uint64_t keys[2][2],
                                                   uint64_t sums[WARP_BLOCKS][XXH3_LANES])
{
    unsigned lane = threadIdx.x % WARP;
    const uint8_t *at = chunk.bytes + first * XXH3_BLOCK + 16 * lane;
    ulonglong2 words[WARP_BLOCKS][2];
    uint64_t gains[WARP_BLOCKS][2];
#pragma unroll
    for (int b = 0; b < WARP_BLOCKS; b++) {
        bool is_there = first + b < chunk.blocks;
        words[b][0] = is_there ? load_pair<ALIGNMENT>(at + b * XXH3_BLOCK) : make_ulonglong2(0, 0);
        words[b][1] = is_there ? load_pair<ALIGNMENT>(at + b * XXH3_BLOCK + XXH3_BLOCK / 2)
                               : make_ulonglong2(0, 0);
    }
#pragma unroll
    for (int b = 0; b < WARP_BLOCKS; b++) {
        gains[b][0] = 0;
        gains[b][1] = 0;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint64_t pair[2] = { words[b][half].x, words[b][half].y };
            xxh3_gain(pair, keys[half], gains[b]);
        }
    }
    uint64_t sum = scatter_sums(gains, lane);
    sums[lane / 16 * 2 + lane / 8 % 2][lane % 4 * 2 + lane / 4 % 2] = sum;
}

/* What the stripes after the last whole block give, the final one among them,
 * for accumulator 'lane' of the first eight lanes; loaded before the chain
 * needs it. */
static __device__ uint64_t tail_gain(struct chunk chunk, unsigned lane)
{
    const uint8_t *tail = chunk.bytes + chunk.blocks * XXH3_BLOCK;
    unsigned stripes = (unsigned)(chunk.size - 1 - chunk.blocks * XXH3_BLOCK) / XXH3_STRIPE;
    unsigned word = 16 * (lane % 4);
    uint64_t gains[2] = { 0, 0 };
    for (unsigned stripe = lane / 4; stripe <= stripes; stripe += 8) {
        bool is_last = stripe == stripes;
        const uint8_t *at =
            is_last ? chunk.bytes + chunk.size - XXH3_STRIPE : tail + stripe * XXH3_STRIPE;
        unsigned secret = (is_last ? (unsigned)XXH3_SECRET_LAST : 8 * stripe) + word;
        uint64_t words[2] = { xxh3_read(at + word, 8), xxh3_read(at + word + 8, 8) };
        uint64_t keys[2] = { xxh3_key(secret), xxh3_key(secret + 8) };
        xxh3_gain(words, keys, gains);
    }
    for (unsigned step = 4; step < WARP; step *= 2) {
        gains[0] += __shfl_xor_sync(WHOLE_WARP, gains[0], step);
        gains[1] += __shfl_xor_sync(WHOLE_WARP, gains[1], step);
    }
    uint64_t even = __shfl_sync(WHOLE_WARP, gains[0], lane / 2 % 4);
    uint64_t odd = __shfl_sync(WHOLE_WARP, gains[1], lane / 2 % 4);
    return lane % 2 ? odd : even;
}

static __device__ __forceinline__ uint64_t chain_round(uint64_t value, uint64_t key,
                                                       uint64_t sums[ROUND_BLOCKS][XXH3_LANES],
                                                       uint64_t blocks)
{
    unsigned lane = threadIdx.x % XXH3_LANES;
    unsigned count = blocks < ROUND_BLOCKS ? (unsigned)blocks : ROUND_BLOCKS;
#pragma unroll 8
    for (unsigned b = 0; b < count; b++) {
        value = xxh3_scramble(value + sums[b][lane], key);
    }
    return value;
}

static __device__ void write_digest(struct xxh3_hash hash, uint8_t *out)
{
    uint8_t canonical[BATON_CUDA_DIGEST_BYTES];
    xxh3_canonical(hash, canonical);
    for (int i = 0; i < BATON_CUDA_DIGEST_BYTES; i++) {
        out[i] = canonical[i];
    }
}

static __device__ void read_round(struct chunk chunk, uint64_t round, const uint64_t keys[2][2],
                                  struct round_sums *sums)
{
    unsigned warp = threadIdx.x / WARP;
    uint64_t first = round * ROUND_BLOCKS + warp * WARP_BLOCKS;
    uint64_t(*out)[XXH3_LANES] = &sums->gains[round % 2][warp * WARP_BLOCKS];
    if ((uintptr_t)chunk.bytes % 16 == 0) {
        read_blocks<16>(chunk, first, keys, out);
    } else if ((uintptr_t)chunk.bytes % 4 == 0) {
        read_blocks<4>(chunk, first, keys, out);
    } else {
        read_blocks<1>(chunk, first, keys, out);
    }
}

/* One chunk of more than XXH3_SHORT_MAX bytes. */
static __device__ void digest_long(struct chunk chunk, struct round_sums *sums, uint8_t *out)
{
    unsigned lane = threadIdx.x % WARP;
    bool is_reader = threadIdx.x / WARP < READERS;
    uint64_t rounds = (chunk.blocks + ROUND_BLOCKS - 1) / ROUND_BLOCKS;
    uint64_t keys[2][2];
    uint64_t value = xxh3_start[lane % XXH3_LANES];
    uint64_t key = xxh3_key(XXH3_SECRET_SCRAMBLE + 8 * (lane % XXH3_LANES));
    uint64_t tail = is_reader ? 0 : tail_gain(chunk, lane);
    lane_keys(lane, keys);
    for (uint64_t round = 0; round <= rounds; round++) {
        if (is_reader && round < rounds) {
            read_round(chunk, round, keys, sums);
        } else if (!is_reader && round > 0) {
            value = chain_round(value, key, sums->gains[(round - 1) % 2],
                                chunk.blocks - (round - 1) * ROUND_BLOCKS);
        }
        __syncthreads();
    }
    if (!is_reader) {
        uint64_t lanes[XXH3_LANES];
        for (int i = 0; i < XXH3_LANES; i++) {
            lanes[i] = __shfl_sync(WHOLE_WARP, value + tail, i);
        }
        if (lane == 0) {
            write_digest(xxh3_end(lanes, chunk.size), out);
        }
    }
}

static __global__ void __launch_bounds__(DIGEST_THREADS, DIGEST_RESIDENT)
    digest_chunks(const struct baton_cuda_range *ranges, uint32_t ranges_count, uint8_t *digests)
{
    __shared__ struct round_sums sums;
    __shared__ struct chunk shared;
    if (threadIdx.x == 0) {
        shared = chunk_find(ranges, ranges_count, blockIdx.x);
    }
    __syncthreads();
    struct chunk chunk = shared;
    uint8_t *out = digests + (uint64_t)blockIdx.x * BATON_CUDA_DIGEST_BYTES;
    if (chunk.size > XXH3_SHORT_MAX) {
        digest_long(chunk, &sums, out);
    } else if (threadIdx.x == 0) {
        write_digest(xxh3_short(chunk.bytes, (unsigned)chunk.size), out);
    }
}

int kernel_digest(const struct baton_cuda_range *ranges, uint32_t ranges_count, uint64_t chunks,
                  void *digests, void *stream)
{
    if (chunks == 0) {
        return BATON_CUDA_OK;
    }
    if (ranges == NULL || ranges_count == 0 || digests == NULL || !fits_grid(chunks)) {
        return BATON_CUDA_E_INVALID;
    }
    digest_chunks<<<(unsigned)chunks, DIGEST_THREADS, 0, (cudaStream_t)stream>>>(
        ranges, ranges_count, (uint8_t *)digests);
    return launched();
}
