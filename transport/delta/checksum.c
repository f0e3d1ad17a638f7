/* checksum.c -- one running sum of three kinds. */
#include "transport/delta/checksum.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

void delta_summer_init(struct delta_summer *summer, enum delta_checksum kind)
{
    summer->kind = kind;
    summer->adler = 1;
    if (kind == DELTA_CHECKSUM_XXH3_128) {
        digest_stream_init(&summer->xxh3);
    } else if (kind == DELTA_CHECKSUM_BLAKE3) {
        blake3_init(&summer->blake3);
    }
}

void delta_summer_add(struct delta_summer *summer, struct baton_bytes bytes)
{
    if (summer->kind == DELTA_CHECKSUM_XXH3_128) {
        digest_stream_add(&summer->xxh3, bytes);
    } else if (summer->kind == DELTA_CHECKSUM_BLAKE3) {
        blake3_add(&summer->blake3, bytes.data, bytes.size);
    } else {
        summer->adler = (uint32_t)adler32_z(summer->adler, bytes.data, bytes.size);
    }
}

void delta_summer_finish(const struct delta_summer *summer, char out[DELTA_CHECKSUM_TEXT_BYTES])
{
    uint8_t hash[BLAKE3_OUT_BYTES];
    if (summer->kind == DELTA_CHECKSUM_XXH3_128) {
        digest_format(digest_stream_finish(&summer->xxh3), out);
    } else if (summer->kind == DELTA_CHECKSUM_BLAKE3) {
        blake3_finish(&summer->blake3, hash);
        baton_hex_encode(hash, sizeof(hash), out);
    } else {
        (void)snprintf(out, DELTA_CHECKSUM_TEXT_BYTES, "%08x", summer->adler);
    }
}

bool delta_checksum_is_text(enum delta_checksum kind, const char *text)
{
    static const size_t lengths[DELTA_CHECKSUM_COUNT] = { 32, 64, 8 };
    return strlen(text) == lengths[kind] && strspn(text, "0123456789abcdef") == lengths[kind];
}
