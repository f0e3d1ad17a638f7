/* diff_kernel.c -- one instance of the loops; DIFF_KERNEL names it, the build sets the flags. */
#include "transport/delta/diff_kernel.h"

#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

enum { WORD = 64 };

#if defined(__AVX512BW__)

static uint64_t diff_word(const uint8_t *old, const uint8_t *now, uint8_t *out)
{
    __m512i x = _mm512_xor_si512(_mm512_loadu_si512(old), _mm512_loadu_si512(now));
    _mm512_storeu_si512(out, x);
    return _mm512_test_epi8_mask(x, x);
}

#elif defined(__AVX2__)

static uint64_t half(const uint8_t *old, const uint8_t *now, uint8_t *out)
{
    __m256i x = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)old),
                                 _mm256_loadu_si256((const __m256i *)now));
    _mm256_storeu_si256((__m256i *)out, x);
    __m256i zero = _mm256_cmpeq_epi8(x, _mm256_setzero_si256());
    return (uint32_t)~_mm256_movemask_epi8(zero);
}

static uint64_t diff_word(const uint8_t *old, const uint8_t *now, uint8_t *out)
{
    return half(old, now, out) | half(old + 32, now + 32, out + 32) << 32;
}

#elif defined(__SSE2__)

static uint64_t quarter(const uint8_t *old, const uint8_t *now, uint8_t *out)
{
    __m128i x =
        _mm_xor_si128(_mm_loadu_si128((const __m128i *)old), _mm_loadu_si128((const __m128i *)now));
    _mm_storeu_si128((__m128i *)out, x);
    __m128i zero = _mm_cmpeq_epi8(x, _mm_setzero_si128());
    return (uint16_t)~_mm_movemask_epi8(zero);
}

static uint64_t diff_word(const uint8_t *old, const uint8_t *now, uint8_t *out)
{
    return quarter(old, now, out) | quarter(old + 16, now + 16, out + 16) << 16 |
           quarter(old + 32, now + 32, out + 32) << 32 |
           quarter(old + 48, now + 48, out + 48) << 48;
}

#else

static uint64_t diff_word(const uint8_t *old, const uint8_t *now, uint8_t *out)
{
    uint64_t marks = 0;
    for (int i = 0; i < WORD; i++) {
        out[i] = old[i] ^ now[i];
        marks |= (uint64_t)(out[i] != 0) << i;
    }
    return marks;
}

#endif

static size_t diff(const uint8_t *old, const uint8_t *now, size_t size, uint8_t *out,
                   uint64_t *marks)
{
    size_t at = 0;
    size_t changed = 0;
    for (; at + WORD <= size; at += WORD) {
        uint64_t word = diff_word(old + at, now + at, out + at);
        marks[at / WORD] = word;
        changed += (size_t)__builtin_popcountll(word);
    }
    if (at < size) {
        uint8_t last[3][WORD] = { { 0 }, { 0 }, { 0 } };
        memcpy(last[0], old + at, size - at);
        memcpy(last[1], now + at, size - at);
        marks[at / WORD] = diff_word(last[0], last[1], last[2]);
        changed += (size_t)__builtin_popcountll(marks[at / WORD]);
        memcpy(out + at, last[2], size - at);
    }
    return changed;
}

static void patch(uint8_t *restrict bytes, const uint8_t *restrict with, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= with[i];
    }
}

const struct diff_kernel DIFF_KERNEL = { .diff = diff, .patch = patch };
