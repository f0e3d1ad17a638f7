/* digest.h -- digests of bytes, tensors and files: XXH3-128, seed 0, canonical (big endian).
 *
 * Two kinds.  A *plain* digest is XXH3-128 of the bytes.  A *chunked* digest, used for tensors and
 * files, is XXH3-128 over the canonical digests of its 1 MiB chunks in order (the first chunk
 * starts at the first byte, the last may be short); of nothing it is XXH3-128 of nothing.  So
 * chunks can be verified in any order as they arrive, and one number still stands for the whole.
 *
 * This guards against damage and mix-ups, not against an adversary.
 *
 * Depends on: api/base, xxhash (inline).  Pure: cores may include it; nothing here allocates.
 * Threads: an object belongs to one thread.  Ownership: none. */
#ifndef TRANSPORT_MODEL_DIGEST_H
#define TRANSPORT_MODEL_DIGEST_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/bytes.h"
#include "api/base/limits.h"

struct digest {
    uint8_t bytes[BATON_DIGEST_BYTES];
};

/* A running plain digest.  The state is xxhash's own; its size is asserted in digest.c. */
struct digest_stream {
    alignas(64) uint8_t state[576];
};

/* A running chunked digest. */
struct chunk_digester {
    struct digest_stream chunk; /* The chunk at hand. */
    struct digest_stream whole; /* Over the digests of the finished chunks. */
    size_t filled;              /* Bytes of the chunk at hand. */
};

bool digest_equal(struct digest a, struct digest b);
/* 32 lower-case digits. */
void digest_format(struct digest digest, char out[BATON_DIGEST_TEXT_BYTES]);
/* Exactly 32 lower-case digits and the end; false otherwise. */
bool digest_parse(const char *text, struct digest *out);

/* The plain digest of 'bytes'. */
struct digest digest_of(struct baton_bytes bytes);
/* The chunked digest of the bytes whose chunks have these plain digests. */
struct digest digest_of_chunks(const struct digest *chunks, size_t chunks_count);
/* How many chunks 'bytes' bytes have: 0 for 0. */
uint64_t digest_chunks_count(uint64_t bytes);

void digest_stream_init(struct digest_stream *stream);
void digest_stream_add(struct digest_stream *stream, struct baton_bytes bytes);
/* Leaves the stream as it is: more may be added. */
struct digest digest_stream_finish(const struct digest_stream *stream);

/* Bytes may come in pieces of any size; whole chunks in one piece are the fast way. */
void chunk_digester_init(struct chunk_digester *digester);
void chunk_digester_add(struct chunk_digester *digester, struct baton_bytes bytes);
/* Ends the digest; init before the next use. */
struct digest chunk_digester_finish(struct chunk_digester *digester);

#endif /* digest.h */
