/* blake3_kernel.c -- one instance of the vector loop; BLAKE3_KERNEL names it, the build sets
 * flags. */
#include "transport/delta/blake3_kernel.h"

#include <string.h>

enum { CHUNK_BYTES = 1024, BLOCK_BYTES = 64, BLOCKS = CHUNK_BYTES / BLOCK_BYTES };

/* The same word of every lane; the compiler splits it to the width that the processor has. */
typedef uint32_t lanes __attribute__((vector_size(BLAKE3_LANES * sizeof(uint32_t))));

static inline lanes rotate(lanes x, int bits)
{
    return (x >> bits) | (x << (32 - bits));
}

static inline void mix(lanes v[16], const int at[4], lanes x, lanes y)
{
    lanes a = v[at[0]], b = v[at[1]], c = v[at[2]], d = v[at[3]];
    a += b + x;
    d = rotate(d ^ a, 16);
    c += d;
    b = rotate(b ^ c, 12);
    a += b + y;
    d = rotate(d ^ a, 8);
    c += d;
    b = rotate(b ^ c, 7);
    v[at[0]] = a;
    v[at[1]] = b;
    v[at[2]] = c;
    v[at[3]] = d;
}

static inline void one_round(lanes v[16], const lanes m[16], const uint8_t s[16])
{
    static const int at[8][4] = { { 0, 4, 8, 12 },  { 1, 5, 9, 13 },  { 2, 6, 10, 14 },
                                  { 3, 7, 11, 15 }, { 0, 5, 10, 15 }, { 1, 6, 11, 12 },
                                  { 2, 7, 8, 13 },  { 3, 4, 9, 14 } };
    for (int i = 0; i < 8; i++) {
        mix(v, at[i], m[s[2 * i]], m[s[2 * i + 1]]);
    }
}

/* Block 'block' of every lane, word by word. */
static void load(const uint8_t *chunks, int block, lanes m[16])
{
    uint32_t words[16][BLAKE3_LANES];
    for (int lane = 0; lane < BLAKE3_LANES; lane++) {
        uint32_t row[16];
        memcpy(row, chunks + lane * CHUNK_BYTES + block * BLOCK_BYTES, sizeof(row));
        for (int i = 0; i < 16; i++) {
            words[i][lane] = row[i];
        }
    }
    memcpy(m, words, sizeof(words));
}

static void compress(lanes cv[8], const lanes m[16], const lanes counter[2], uint32_t flags)
{
    lanes zero = { 0 };
    lanes v[16];
    for (int i = 0; i < 8; i++) {
        v[i] = cv[i];
        v[i + 8] = zero + blake3_iv[i & 3];
    }
    v[12] = counter[0];
    v[13] = counter[1];
    v[14] = zero + (uint32_t)BLOCK_BYTES;
    v[15] = zero + flags;
    for (int i = 0; i < 7; i++) {
        one_round(v, m, blake3_schedule[i]);
    }
    for (int i = 0; i < 8; i++) {
        cv[i] = v[i] ^ v[i + 8];
    }
}

void BLAKE3_KERNEL(const uint8_t *chunks, uint64_t first, uint32_t out[BLAKE3_LANES][8])
{
    lanes zero = { 0 };
    lanes cv[8], m[16], counter[2];
    for (int i = 0; i < 8; i++) {
        cv[i] = zero + blake3_iv[i];
    }
    for (unsigned lane = 0; lane < BLAKE3_LANES; lane++) {
        counter[0][lane] = (uint32_t)(first + lane);
        counter[1][lane] = (uint32_t)((first + lane) >> 32);
    }
    for (int block = 0; block < BLOCKS; block++) {
        uint32_t flags = block == 0            ? (uint32_t)BLAKE3_CHUNK_START
                         : block == BLOCKS - 1 ? (uint32_t)BLAKE3_CHUNK_END
                                               : 0;
        load(chunks, block, m);
        compress(cv, m, counter, flags);
    }
    for (unsigned lane = 0; lane < BLAKE3_LANES; lane++) {
        for (int i = 0; i < 8; i++) {
            out[lane][i] = cv[i][lane];
        }
    }
}
