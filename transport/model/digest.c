/* digest.c -- plain and chunked digests over the best kernel of this processor. */
#include "transport/model/digest.h"

#include <string.h>

#include "transport/model/digest_kernel.h"

static const struct digest_kernel *kernel(void)
{
#if defined(__x86_64__)
    /* Reads a word that the C runtime filled at start: no call, nothing to initialise. */
    if (__builtin_cpu_supports("avx512f")) {
        return &digest_kernel_avx512;
    }
    if (__builtin_cpu_supports("avx2")) {
        return &digest_kernel_avx2;
    }
#endif
    return &digest_kernel_base;
}

bool digest_equal(struct digest a, struct digest b)
{
    return memcmp(a.bytes, b.bytes, sizeof(a.bytes)) == 0;
}

void digest_format(struct digest digest, char out[BATON_DIGEST_TEXT_BYTES])
{
    baton_hex_encode(digest.bytes, sizeof(digest.bytes), out);
}

bool digest_parse(const char *text, struct digest *out)
{
    struct digest parsed;
    char again[BATON_DIGEST_TEXT_BYTES];
    if (!baton_hex_decode(text, parsed.bytes, sizeof(parsed.bytes))) {
        return false;
    }
    /* One spelling only: digests are compared as names of directories too. */
    digest_format(parsed, again);
    if (strcmp(again, text) != 0) {
        return false;
    }
    *out = parsed;
    return true;
}

struct digest digest_of(struct baton_bytes bytes)
{
    struct digest out;
    kernel()->hash(bytes.data, bytes.size, out.bytes);
    return out;
}

struct digest digest_of_chunks(const struct digest *chunks, size_t chunks_count)
{
    return digest_of(
        (struct baton_bytes){ (const uint8_t *)chunks, chunks_count * sizeof(*chunks) });
}

uint64_t digest_chunks_count(uint64_t bytes)
{
    return bytes / BATON_CHUNK_BYTES + (bytes % BATON_CHUNK_BYTES != 0);
}

void digest_stream_init(struct digest_stream *stream)
{
    kernel()->reset(stream->state);
}

void digest_stream_add(struct digest_stream *stream, struct baton_bytes bytes)
{
    if (bytes.size > 0) {
        kernel()->update(stream->state, bytes.data, bytes.size);
    }
}

struct digest digest_stream_finish(const struct digest_stream *stream)
{
    struct digest out;
    kernel()->finish(stream->state, out.bytes);
    return out;
}

void chunk_digester_init(struct chunk_digester *digester)
{
    digest_stream_init(&digester->whole);
    digester->filled = 0;
}

static void add_chunk_digest(struct chunk_digester *digester, struct digest digest)
{
    digest_stream_add(&digester->whole, (struct baton_bytes){ digest.bytes, sizeof(digest.bytes) });
}

/* Adds to the chunk at hand and ends it when it is full. */
static void add_to_chunk(struct chunk_digester *digester, struct baton_bytes piece)
{
    if (digester->filled == 0) {
        digest_stream_init(&digester->chunk);
    }
    digest_stream_add(&digester->chunk, piece);
    digester->filled += piece.size;
    if (digester->filled == BATON_CHUNK_BYTES) {
        add_chunk_digest(digester, digest_stream_finish(&digester->chunk));
        digester->filled = 0;
    }
}

void chunk_digester_add(struct chunk_digester *digester, struct baton_bytes bytes)
{
    while (bytes.size > 0) {
        size_t room = BATON_CHUNK_BYTES - digester->filled;
        struct baton_bytes piece = { bytes.data, bytes.size < room ? bytes.size : room };
        if (piece.size == BATON_CHUNK_BYTES) {
            add_chunk_digest(digester, digest_of(piece));
        } else {
            add_to_chunk(digester, piece);
        }
        bytes.data += piece.size;
        bytes.size -= piece.size;
    }
}

struct digest chunk_digester_finish(struct chunk_digester *digester)
{
    if (digester->filled > 0) {
        add_chunk_digest(digester, digest_stream_finish(&digester->chunk));
        digester->filled = 0;
    }
    return digest_stream_finish(&digester->whole);
}
