/* blake3.h -- BLAKE3, unkeyed, 32 bytes of output: one of the format's checksums.
 *
 * Written from the paper ("BLAKE3: one function, fast everywhere", 2020, section 2), because the
 * distributions that we build on have no library of it.  Sixteen chunks are hashed side by side in
 * vectors, built once for each instruction set and picked at run time as the digests are.
 *
 * Depends on: nothing.  Pure.  Threads: an object belongs to one thread.  Ownership: none. */
#ifndef TRANSPORT_DELTA_BLAKE3_H
#define TRANSPORT_DELTA_BLAKE3_H

#include <stddef.h>
#include <stdint.h>

enum {
    BLAKE3_OUT_BYTES = 32,
    BLAKE3_CHUNK_BYTES = 1024,
    BLAKE3_DEPTH_MAX = 54, /* 2^64 bytes are 2^54 chunks. */
};

struct blake3 {
    uint8_t chunk[BLAKE3_CHUNK_BYTES]; /* The chunk at hand; never left empty once bytes came. */
    size_t filled;
    uint64_t chunks; /* Finished ones. */
    uint32_t stack[BLAKE3_DEPTH_MAX][8];
    unsigned depth;
};

void blake3_init(struct blake3 *hash);
void blake3_add(struct blake3 *hash, const uint8_t *data, size_t size);
/* Leaves the hash as it is: more may be added. */
void blake3_finish(const struct blake3 *hash, uint8_t out[BLAKE3_OUT_BYTES]);

#endif /* blake3.h */
