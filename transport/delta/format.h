/* format.h -- the words and numbers of the disk-delta format: encodings, checksums, names.
 *
 * The format is the one that the publishers of Miles and slime write and that SGLang's pull_weights
 * reads (deploy/docs/delta.md).  Version N is the directory weight_vNNNNNN of a publication
 * directory, N at least six digits.  A delta version holds model.safetensors.index.json and shards,
 * numbered from 00000, of one U8 vector a changed tensor: one zstd frame.  Unpacked, a frame holds
 *   xor        new XOR old, as many bytes as the tensor has;
 *   overwrite  u32le count, count u32le byte positions (ascending), count new bytes.
 * A checksum covers all bytes of the new tensor.
 *
 * Depends on: api/base.  Pure: no I/O, no allocation.  Threads: values only.  Ownership: none. */
#ifndef TRANSPORT_DELTA_FORMAT_H
#define TRANSPORT_DELTA_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

enum delta_encoding { DELTA_ENCODING_XOR, DELTA_ENCODING_OVERWRITE, DELTA_ENCODING_COUNT };

enum delta_checksum {
    DELTA_CHECKSUM_XXH3_128,
    DELTA_CHECKSUM_BLAKE3,
    DELTA_CHECKSUM_ADLER32,
    DELTA_CHECKSUM_COUNT
};

/* The only compression that a reader of the format takes. */
#define DELTA_COMPRESSION "zstd"
/* Ours beside the index: digests of the version before and after.  Other readers ignore it. */
#define DELTA_DIGESTS_NAME "baton.delta.json"

/* Positions of 'overwrite' have 32 bits. */
#define DELTA_OVERWRITE_TENSOR_BYTES_MAX (UINT64_C(1) << 32)
#define DELTA_VERSION_MAX                UINT64_C(999999999999)

enum {
    DELTA_CHECKSUM_TEXT_BYTES = 65, /* 64 digits of blake3, and the end. */
    DELTA_NAME_BYTES = 48,          /* Of a version's directory or a shard, with its end. */
    DELTA_CHAIN_MAX = 256,          /* Versions that are applied at once. */
    DELTA_THREADS_MAX = 64,
    DELTA_PIECE_BYTES = 128 << 10, /* A zstd block: tensors are worked on in such pieces. */
};

/* As the index spells them ("xor", "xxh3-128"); "?" for a number outside of the enum. */
const char *delta_encoding_name(enum delta_encoding encoding);
const char *delta_checksum_name(enum delta_checksum checksum);
/* Exact; false for another word. */
bool delta_encoding_parse(const char *name, enum delta_encoding *out);
bool delta_checksum_parse(const char *name, enum delta_checksum *out);

/* "000042". */
void delta_version_text(uint64_t version, char out[DELTA_NAME_BYTES]);
/* Decimal digits, at least one, at most DELTA_VERSION_MAX; false for anything else. */
bool delta_version_parse(const char *text, uint64_t *out);
/* "weight_v000042". */
void delta_version_name(uint64_t version, char out[DELTA_NAME_BYTES]);
/* "model-00000-of-00002.safetensors"; 'index' counts from 0. */
void delta_shard_name(unsigned index, unsigned count, char out[DELTA_NAME_BYTES]);

#endif /* format.h */
