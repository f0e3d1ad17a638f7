/* blake3.c -- the tree of chunks, over the best kernel of this processor. */
#include "transport/delta/blake3.h"

#include <string.h>

#include "transport/delta/blake3_kernel.h"

enum { BLOCK_BYTES = 64 };

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are read as they lie");

/* A node that is not hashed yet: as the root it takes one more flag. */
struct node {
    uint32_t cv[8];
    uint32_t block[16];
    uint64_t counter;
    uint32_t bytes;
    uint32_t flags;
};

static blake3_kernel_fn *kernel(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        return blake3_kernel_avx512;
    }
    if (__builtin_cpu_supports("avx2")) {
        return blake3_kernel_avx2;
    }
#endif
    return blake3_kernel_base;
}

static uint32_t rotate(uint32_t x, int bits)
{
    return (x >> bits) | (x << (32 - bits));
}

static void mix(uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d, const uint32_t xy[2])
{
    *a += *b + xy[0];
    *d = rotate(*d ^ *a, 16);
    *c += *d;
    *b = rotate(*b ^ *c, 12);
    *a += *b + xy[1];
    *d = rotate(*d ^ *a, 8);
    *c += *d;
    *b = rotate(*b ^ *c, 7);
}

static void one_round(uint32_t v[16], const uint32_t m[16], const uint8_t s[16])
{
    for (int i = 0; i < 4; i++) {
        uint32_t xy[2] = { m[s[2 * i]], m[s[2 * i + 1]] };
        mix(&v[i], &v[4 + i], &v[8 + i], &v[12 + i], xy);
    }
    for (int i = 0; i < 4; i++) {
        uint32_t xy[2] = { m[s[8 + 2 * i]], m[s[9 + 2 * i]] };
        mix(&v[i], &v[4 + (i + 1) % 4], &v[8 + (i + 2) % 4], &v[12 + (i + 3) % 4], xy);
    }
}

static void hash_node(const struct node *node, uint32_t extra_flags, uint32_t out[8])
{
    uint32_t v[16];
    memcpy(v, node->cv, sizeof(node->cv));
    memcpy(v + 8, blake3_iv, 4 * sizeof(*v));
    v[12] = (uint32_t)node->counter;
    v[13] = (uint32_t)(node->counter >> 32);
    v[14] = node->bytes;
    v[15] = node->flags | extra_flags;
    for (int i = 0; i < 7; i++) {
        one_round(v, node->block, blake3_schedule[i]);
    }
    for (int i = 0; i < 8; i++) {
        out[i] = v[i] ^ v[i + 8];
    }
}

/* The chunk's last block, with the ones before it hashed in. */
static struct node chunk_node(const uint8_t *chunk, size_t size, uint64_t counter)
{
    struct node node = { .counter = counter, .bytes = BLOCK_BYTES, .flags = BLAKE3_CHUNK_START };
    memcpy(node.cv, blake3_iv, sizeof(node.cv));
    while (size > BLOCK_BYTES) {
        memcpy(node.block, chunk, BLOCK_BYTES);
        hash_node(&node, 0, node.cv);
        node.flags = 0;
        chunk += BLOCK_BYTES;
        size -= BLOCK_BYTES;
    }
    memset(node.block, 0, sizeof(node.block));
    memcpy(node.block, chunk, size);
    node.bytes = (uint32_t)size;
    node.flags |= BLAKE3_CHUNK_END;
    return node;
}

static struct node parent_node(const uint32_t left[8], const uint32_t right[8])
{
    struct node node = { .bytes = BLOCK_BYTES, .flags = BLAKE3_PARENT };
    memcpy(node.cv, blake3_iv, sizeof(node.cv));
    memcpy(node.block, left, 8 * sizeof(*left));
    memcpy(node.block + 8, right, 8 * sizeof(*right));
    return node;
}

/* Takes in the value of the next whole chunk, and closes every subtree that it completes. */
static void push(struct blake3 *hash, const uint32_t cv[8])
{
    uint32_t value[8];
    memcpy(value, cv, sizeof(value));
    hash->chunks++;
    for (uint64_t total = hash->chunks; total % 2 == 0; total /= 2) {
        struct node node = parent_node(hash->stack[--hash->depth], value);
        hash_node(&node, 0, value);
    }
    memcpy(hash->stack[hash->depth++], value, sizeof(value));
}

void blake3_init(struct blake3 *hash)
{
    hash->filled = 0;
    hash->chunks = 0;
    hash->depth = 0;
}

/* Hashes many chunks at once while more than they are there: the last chunk is kept for the end. */
static size_t add_wide(struct blake3 *hash, const uint8_t *data, size_t size)
{
    uint32_t values[BLAKE3_LANES][8];
    size_t done = 0;
    while (size - done > (size_t)BLAKE3_LANES * BLAKE3_CHUNK_BYTES) {
        kernel()(data + done, hash->chunks, values);
        for (unsigned i = 0; i < BLAKE3_LANES; i++) {
            push(hash, values[i]);
        }
        done += (size_t)BLAKE3_LANES * BLAKE3_CHUNK_BYTES;
    }
    return done;
}

static void end_chunk(struct blake3 *hash)
{
    uint32_t value[8];
    struct node node = chunk_node(hash->chunk, hash->filled, hash->chunks);
    hash_node(&node, 0, value);
    push(hash, value);
    hash->filled = 0;
}

void blake3_add(struct blake3 *hash, const uint8_t *data, size_t size)
{
    while (size > 0) {
        if (hash->filled == BLAKE3_CHUNK_BYTES) {
            end_chunk(hash);
        }
        size_t wide = hash->filled == 0 ? add_wide(hash, data, size) : 0;
        size_t room = BLAKE3_CHUNK_BYTES - hash->filled;
        size_t left = size - wide;
        size_t now = left < room ? left : room;
        memcpy(hash->chunk + hash->filled, data + wide, now);
        hash->filled += now;
        data += wide + now;
        size -= wide + now;
    }
}

void blake3_finish(const struct blake3 *hash, uint8_t out[BLAKE3_OUT_BYTES])
{
    uint32_t value[8];
    struct node node = chunk_node(hash->chunk, hash->filled, hash->chunks);
    for (unsigned i = hash->depth; i > 0; i--) {
        hash_node(&node, 0, value);
        node = parent_node(hash->stack[i - 1], value);
    }
    hash_node(&node, BLAKE3_ROOT, value);
    memcpy(out, value, BLAKE3_OUT_BYTES);
}
