/* xxh3.h -- XXH3-128, seed 0, default secret, in steps that a GPU can take
 * apart.
 *
 * The digest kernel needs the algorithm's parts: the products of a stripe, the
 * scrambling between blocks, the end.  xxhash.h has them for CPUs only, so they
 * are here once for both; the unit test compares xxh3_128() with
 * transport/model's digests (xxhash itself) at every length that takes another
 * way, and the GPU suite compares the kernel with both.
 *
 * Input longer than XXH3_SHORT_MAX: eight accumulators; blocks of 1024 bytes,
 * each of 16 stripes of 64 bytes.  Within a block the stripes only add, in any
 * order; between blocks the accumulators are scrambled.  The last block is not
 * scrambled, and the last 64 bytes are a stripe of their own.
 *
 * Compiles as C and as CUDA.  Threads: pure functions.  Ownership: none. */
#ifndef TRANSPORT_CUDA_XXH3_H
#define TRANSPORT_CUDA_XXH3_H

#include <stdint.h>

#ifdef __CUDACC__
#define XXH3_FN           static __device__ __forceinline__
#define XXH3_TABLE        static __constant__ const
#define XXH3_HIGH64(a, b) __umul64hi(a, b)
#else
#define XXH3_FN           static inline
#define XXH3_TABLE        static const
__extension__ typedef unsigned __int128 xxh3_wide;
#define XXH3_HIGH64(a, b) ((uint64_t)((xxh3_wide)(a) * (b) >> 64))
#endif

enum {
    XXH3_LANES = 8,
    XXH3_STRIPE = 64,
    XXH3_BLOCK_STRIPES = 16,
    XXH3_BLOCK = XXH3_STRIPE * XXH3_BLOCK_STRIPES,
    XXH3_SHORT_MAX = 240,
    XXH3_SECRET_SCRAMBLE = 128, /* Offsets in the secret. */
    XXH3_SECRET_LAST = 121,
    XXH3_SECRET_LOW = 11,
    XXH3_SECRET_HIGH = 117,
};

#define XXH3_P32_1 UINT32_C(0x9E3779B1)
#define XXH3_P32_2 UINT32_C(0x85EBCA77)
#define XXH3_P32_3 UINT32_C(0xC2B2AE3D)
#define XXH3_P64_1 UINT64_C(0x9E3779B185EBCA87)
#define XXH3_P64_2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define XXH3_P64_3 UINT64_C(0x165667B19E3779F9)
#define XXH3_P64_4 UINT64_C(0x85EBCA77C2B2AE63)
#define XXH3_P64_5 UINT64_C(0x27D4EB2F165667C5)

struct xxh3_hash {
    uint64_t low;
    uint64_t high;
};

XXH3_TABLE uint8_t xxh3_secret[192] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

XXH3_TABLE uint64_t xxh3_start[XXH3_LANES] = {
    XXH3_P32_3, XXH3_P64_1, XXH3_P64_2, XXH3_P64_3, XXH3_P64_4, XXH3_P32_2, XXH3_P64_5, XXH3_P32_1,
};

/* Little endian, from any address. */
XXH3_FN uint64_t xxh3_read(const uint8_t *at, unsigned bytes)
{
    uint64_t word = 0;
    for (unsigned i = 0; i < bytes; i++) {
        word |= (uint64_t)at[i] << (8 * i);
    }
    return word;
}

XXH3_FN uint64_t xxh3_key(unsigned offset)
{
    return xxh3_read(xxh3_secret + offset, 8);
}

/* The two words of a pair of lanes as they stand in the input, and their keys:
 * what 'even' and 'odd' accumulators gain. */
XXH3_FN void xxh3_gain(uint64_t words[2], const uint64_t keys[2], uint64_t gains[2])
{
    uint64_t even = words[0] ^ keys[0];
    uint64_t odd = words[1] ^ keys[1];
    gains[0] += words[1] + (uint64_t)(uint32_t)even * (even >> 32);
    gains[1] += words[0] + (uint64_t)(uint32_t)odd * (odd >> 32);
}

XXH3_FN uint64_t xxh3_scramble(uint64_t lane, uint64_t key)
{
    return (lane ^ lane >> 47 ^ key) * XXH3_P32_1;
}

XXH3_FN uint64_t xxh3_fold(uint64_t a, uint64_t b)
{
    return a * b ^ XXH3_HIGH64(a, b);
}

XXH3_FN uint64_t xxh3_avalanche(uint64_t hash)
{
    hash ^= hash >> 37;
    hash *= UINT64_C(0x165667919E3779F9);
    return hash ^ hash >> 32;
}

XXH3_FN uint64_t xxh3_avalanche_tiny(uint64_t hash)
{
    hash ^= hash >> 33;
    hash *= XXH3_P64_2;
    hash ^= hash >> 29;
    hash *= XXH3_P64_3;
    return hash ^ hash >> 32;
}

XXH3_FN uint64_t xxh3_merge(const uint64_t lanes[XXH3_LANES], unsigned secret, uint64_t start)
{
    for (unsigned i = 0; i < XXH3_LANES; i += 2) {
        start += xxh3_fold(lanes[i] ^ xxh3_key(secret + 8 * i),
                           lanes[i + 1] ^ xxh3_key(secret + 8 * i + 8));
    }
    return xxh3_avalanche(start);
}

/* The hash of 'size' bytes, more than XXH3_SHORT_MAX, whose accumulators are
 * these at the end. */
XXH3_FN struct xxh3_hash xxh3_end(const uint64_t lanes[XXH3_LANES], uint64_t size)
{
    struct xxh3_hash hash;
    hash.low = xxh3_merge(lanes, XXH3_SECRET_LOW, size * XXH3_P64_1);
    hash.high = xxh3_merge(lanes, XXH3_SECRET_HIGH, ~(size * XXH3_P64_2));
    return hash;
}

/* 1 to 3 bytes: first, middle, last and length in a word. */
XXH3_FN struct xxh3_hash xxh3_to3(const uint8_t *at, unsigned size)
{
    uint32_t low = (uint32_t)at[0] << 16 | (uint32_t)at[size >> 1] << 24 | at[size - 1] | size << 8;
    uint32_t swapped = low >> 24 | (low >> 8 & 0xFF00) | (low << 8 & 0xFF0000) | low << 24;
    uint32_t high = swapped << 13 | swapped >> 19;
    struct xxh3_hash hash;
    hash.low = xxh3_avalanche_tiny(low ^ xxh3_read(xxh3_secret, 4) ^ xxh3_read(xxh3_secret + 4, 4));
    hash.high =
        xxh3_avalanche_tiny(high ^ xxh3_read(xxh3_secret + 8, 4) ^ xxh3_read(xxh3_secret + 12, 4));
    return hash;
}

XXH3_FN struct xxh3_hash xxh3_to8(const uint8_t *at, unsigned size)
{
    uint64_t word = xxh3_read(at, 4) | xxh3_read(at + size - 4, 4) << 32;
    uint64_t keyed = word ^ xxh3_key(16) ^ xxh3_key(24);
    uint64_t factor = XXH3_P64_1 + (size << 2);
    struct xxh3_hash hash;
    hash.low = keyed * factor;
    hash.high = XXH3_HIGH64(keyed, factor) + (hash.low << 1);
    hash.low ^= hash.high >> 3;
    hash.low ^= hash.low >> 35;
    hash.low *= UINT64_C(0x9FB21C651E98DF25);
    hash.low ^= hash.low >> 28;
    hash.high = xxh3_avalanche(hash.high);
    return hash;
}

XXH3_FN uint64_t xxh3_swapped(uint64_t word)
{
    uint64_t out = 0;
    for (unsigned i = 0; i < 8; i++) {
        out |= (word >> (8 * i) & 0xFF) << (56 - 8 * i);
    }
    return out;
}

XXH3_FN struct xxh3_hash xxh3_to16(const uint8_t *at, unsigned size)
{
    uint64_t first = xxh3_read(at, 8);
    uint64_t last = xxh3_read(at + size - 8, 8);
    uint64_t mixed = first ^ last ^ xxh3_key(32) ^ xxh3_key(40);
    uint64_t low = mixed * XXH3_P64_1 + ((uint64_t)(size - 1) << 54);
    struct xxh3_hash hash;
    last ^= xxh3_key(48) ^ xxh3_key(56);
    uint64_t high =
        XXH3_HIGH64(mixed, XXH3_P64_1) + last + (uint64_t)(uint32_t)last * (XXH3_P32_2 - 1);
    low ^= xxh3_swapped(high);
    hash.low = xxh3_avalanche(low * XXH3_P64_2);
    hash.high = xxh3_avalanche(XXH3_HIGH64(low, XXH3_P64_2) + high * XXH3_P64_2);
    return hash;
}

/* Adds 16 bytes of each end to a running hash of up to 240 bytes. */
XXH3_FN void xxh3_mix(struct xxh3_hash *acc, const uint8_t *a, const uint8_t *b, unsigned secret)
{
    uint64_t a0 = xxh3_read(a, 8);
    uint64_t a1 = xxh3_read(a + 8, 8);
    uint64_t b0 = xxh3_read(b, 8);
    uint64_t b1 = xxh3_read(b + 8, 8);
    acc->low += xxh3_fold(a0 ^ xxh3_key(secret), a1 ^ xxh3_key(secret + 8));
    acc->low ^= b0 + b1;
    acc->high += xxh3_fold(b0 ^ xxh3_key(secret + 16), b1 ^ xxh3_key(secret + 24));
    acc->high ^= a0 + a1;
}

XXH3_FN struct xxh3_hash xxh3_mix_end(struct xxh3_hash acc, unsigned size)
{
    struct xxh3_hash hash;
    hash.low = xxh3_avalanche(acc.low + acc.high);
    hash.high =
        0 - xxh3_avalanche(acc.low * XXH3_P64_1 + acc.high * XXH3_P64_4 + size * XXH3_P64_2);
    return hash;
}

/* Pairs of pieces from both ends, the middle ones first. */
XXH3_FN struct xxh3_hash xxh3_to128(const uint8_t *at, unsigned size)
{
    struct xxh3_hash acc = { size * XXH3_P64_1, 0 };
    for (unsigned i = (size - 1) / 32 + 1; i-- > 0;) {
        xxh3_mix(&acc, at + 16 * i, at + size - 16 * (i + 1), 32 * i);
    }
    return xxh3_mix_end(acc, size);
}

XXH3_FN struct xxh3_hash xxh3_to240(const uint8_t *at, unsigned size)
{
    struct xxh3_hash acc = { size * XXH3_P64_1, 0 };
    for (unsigned i = 0; i < size / 32; i++) {
        if (i == 4) {
            acc.low = xxh3_avalanche(acc.low);
            acc.high = xxh3_avalanche(acc.high);
        }
        xxh3_mix(&acc, at + 32 * i, at + 32 * i + 16, i < 4 ? 32 * i : 3 + 32 * (i - 4));
    }
    if (size / 32 == 4) {
        acc.low = xxh3_avalanche(acc.low);
        acc.high = xxh3_avalanche(acc.high);
    }
    xxh3_mix(&acc, at + size - 16, at + size - 32, 103);
    return xxh3_mix_end(acc, size);
}

/* Of at most XXH3_SHORT_MAX bytes. */
XXH3_FN struct xxh3_hash xxh3_short(const uint8_t *at, unsigned size)
{
    struct xxh3_hash nothing;
    nothing.low = xxh3_avalanche_tiny(xxh3_key(64) ^ xxh3_key(72));
    nothing.high = xxh3_avalanche_tiny(xxh3_key(80) ^ xxh3_key(88));
    return size > 128  ? xxh3_to240(at, size)
           : size > 16 ? xxh3_to128(at, size)
           : size > 8  ? xxh3_to16(at, size)
           : size > 3  ? xxh3_to8(at, size)
           : size > 0  ? xxh3_to3(at, size)
                       : nothing;
}

/* 16 bytes, high word first, big endian: as digests are written everywhere. */
XXH3_FN void xxh3_canonical(struct xxh3_hash hash, uint8_t out[16])
{
    for (unsigned i = 0; i < 8; i++) {
        out[i] = (uint8_t)(hash.high >> (56 - 8 * i));
        out[8 + i] = (uint8_t)(hash.low >> (56 - 8 * i));
    }
}

#ifndef __CUDACC__
static inline void xxh3_stripe(uint64_t lanes[XXH3_LANES], const uint8_t *at, unsigned secret)
{
    for (unsigned i = 0; i < XXH3_LANES; i += 2) {
        uint64_t words[2] = { xxh3_read(at + 8 * i, 8), xxh3_read(at + 8 * i + 8, 8) };
        uint64_t keys[2] = { xxh3_key(secret + 8 * i), xxh3_key(secret + 8 * i + 8) };
        xxh3_gain(words, keys, lanes + i);
    }
}

/* The whole, on a CPU: what the kernel must give. */
static inline struct xxh3_hash xxh3_128(const uint8_t *at, uint64_t size)
{
    uint64_t lanes[XXH3_LANES];
    if (size <= XXH3_SHORT_MAX) {
        return xxh3_short(at, (unsigned)size);
    }
    for (unsigned i = 0; i < XXH3_LANES; i++) {
        lanes[i] = xxh3_start[i];
    }
    uint64_t stripes = (size - 1) / XXH3_STRIPE;
    for (uint64_t s = 0; s < stripes; s++) {
        xxh3_stripe(lanes, at + s * XXH3_STRIPE, 8 * (unsigned)(s % XXH3_BLOCK_STRIPES));
        for (unsigned i = 0; i < XXH3_LANES && s % XXH3_BLOCK_STRIPES == 15; i++) {
            lanes[i] = xxh3_scramble(lanes[i], xxh3_key(XXH3_SECRET_SCRAMBLE + 8 * i));
        }
    }
    xxh3_stripe(lanes, at + size - XXH3_STRIPE, XXH3_SECRET_LAST);
    return xxh3_end(lanes, size);
}
#endif

#endif /* xxh3.h */
