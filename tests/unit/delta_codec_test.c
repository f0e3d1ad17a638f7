/* delta_codec_test.c -- one tensor's delta: round trips, checksums, and frames that lie. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "api/base/random.h"
#include "tests/unit/checkpoint_maker.h"
#include "transport/delta/blake3.h"
#include "transport/delta/blake3_kernel.h"
#include "transport/delta/checksum.h"
#include "transport/delta/decoder.h"
#include "transport/delta/diff_kernel.h"
#include "transport/delta/encoder.h"

/* The bytes that the published test vectors of BLAKE3 hash. */
static uint8_t *counting_bytes(size_t size)
{
    uint8_t *bytes = malloc(size + 1);
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t)(i % 251);
    }
    return bytes;
}

static void blake3_text(const uint8_t *bytes, size_t size, size_t piece, char out[65])
{
    struct blake3 hash;
    uint8_t digest[BLAKE3_OUT_BYTES];
    blake3_init(&hash);
    for (size_t at = 0; at < size; at += piece) {
        blake3_add(&hash, bytes + at, size - at < piece ? size - at : piece);
    }
    blake3_finish(&hash, digest);
    baton_hex_encode(digest, sizeof(digest), out);
}

/* Vectors of the reference implementation, whole and in pieces: around blocks, chunks, subtrees,
 * and the sixteen chunks that are hashed side by side. */
Test(delta_codec, blake3_vectors)
{
    static const struct {
        size_t size;
        const char *hash;
    } vectors[] = {
        { 0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262" },
        { 1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213" },
        { 1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7" },
        { 1025, "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444" },
        { 2048, "e776b6028c7cd22a4d0ba182a8bf62205d2ef576467e838ed6f2529b85fba24a" },
        { 31744, "62b6960e1a44bcc1eb1a611a8d6235b6b4b78f32e7abc4fb4c6cdcce94895c47" },
        { 102400, "bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085" },
    };
    static const size_t pieces[] = { 1 << 20, 1, 63, 1024, 16 * 1024, 16 * 1024 + 1 };
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        uint8_t *bytes = counting_bytes(vectors[i].size);
        for (size_t j = 0; j < sizeof(pieces) / sizeof(pieces[0]); j++) {
            char text[65];
            blake3_text(bytes, vectors[i].size, pieces[j], text);
            cr_expect_str_eq(text, vectors[i].hash, "%zu bytes in pieces of %zu", vectors[i].size,
                             pieces[j]);
        }
        free(bytes);
    }
}

static const char *checksum_of(enum delta_checksum kind, const char *text)
{
    static char out[DELTA_CHECKSUM_TEXT_BYTES];
    struct delta_summer summer;
    delta_summer_init(&summer, kind);
    delta_summer_add(&summer, baton_bytes_of(text));
    delta_summer_finish(&summer, out);
    return out;
}

Test(delta_codec, checksums_as_text)
{
    cr_expect_str_eq(checksum_of(DELTA_CHECKSUM_XXH3_128, "abc"),
                     "06b05ab6733a618578af5f94892f3950");
    cr_expect_str_eq(checksum_of(DELTA_CHECKSUM_ADLER32, "abc"), "024d0127");
    cr_expect_str_eq(checksum_of(DELTA_CHECKSUM_ADLER32, ""), "00000001");
    cr_expect(delta_checksum_is_text(DELTA_CHECKSUM_ADLER32, "024d0127"));
    cr_expect_not(delta_checksum_is_text(DELTA_CHECKSUM_ADLER32, "024D0127"));
    cr_expect_not(delta_checksum_is_text(DELTA_CHECKSUM_ADLER32, "024d012"));
    cr_expect_not(delta_checksum_is_text(DELTA_CHECKSUM_BLAKE3, "024d0127"));
}

/* Which instances this processor can run. */
static unsigned instances(const struct diff_kernel *diffs[3], blake3_kernel_fn *hashes[3])
{
    unsigned count = 0;
    diffs[count] = &diff_kernel_base;
    hashes[count++] = blake3_kernel_base;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        diffs[count] = &diff_kernel_avx2;
        hashes[count++] = blake3_kernel_avx2;
    }
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) {
        diffs[count] = &diff_kernel_avx512;
        hashes[count++] = blake3_kernel_avx512;
    }
#endif
    return count;
}

static void fill_pair(struct baton_random *random, uint8_t *old, uint8_t *now, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        old[i] = (uint8_t)baton_random_u64(random);
        now[i] = (uint8_t)(old[i] + (baton_random_below(random, 4) == 0));
    }
}

/* Every instance finds the same, at every length around its vectors and at any alignment. */
Test(delta_codec, kernels_agree)
{
    const struct diff_kernel *diffs[3];
    blake3_kernel_fn *hashes[3];
    struct baton_random random;
    uint8_t old[400], now[400], x[400];
    unsigned count = instances(diffs, hashes);
    baton_random_seed(&random, 1);
    for (size_t size = 0; size < 300; size++) {
        size_t from = size % 7;
        fill_pair(&random, old, now, sizeof(old));
        for (unsigned k = 0; k < count; k++) {
            uint64_t marks[8] = { 0 };
            size_t wanted = 0;
            size_t changed = diffs[k]->diff(old + from, now + from, size, x, marks);
            for (size_t i = 0; i < size; i++) {
                bool differs = old[from + i] != now[from + i];
                wanted += differs;
                cr_assert_eq(marks[i / 64] >> i % 64 & 1, (uint64_t)differs);
            }
            cr_assert_eq(marks[size / 64] >> size % 64, 0u);
            cr_assert_eq(changed, wanted);
            diffs[k]->patch(x, old + from, size);
            cr_assert_eq(memcmp(x, now + from, size), 0);
        }
    }
}

Test(delta_codec, blake3_kernels_agree)
{
    const struct diff_kernel *diffs[3];
    blake3_kernel_fn *hashes[3];
    uint32_t values[3][BLAKE3_LANES][8];
    unsigned count = instances(diffs, hashes);
    uint8_t *bytes = counting_bytes((size_t)BLAKE3_LANES * BLAKE3_CHUNK_BYTES);
    for (unsigned k = 0; k < count; k++) {
        hashes[k](bytes, UINT64_C(0xfffffffa), values[k]); /* The counter passes 32 bits. */
        cr_assert_eq(memcmp(values[k], values[0], sizeof(values[0])), 0);
    }
    free(bytes);
}

struct tensor {
    size_t size;
    uint8_t *old;
    uint8_t *now;
};

static struct tensor tensor_make(size_t size)
{
    struct tensor tensor = { size, maker_bytes(size), maker_bytes(size) };
    return tensor;
}

static void tensor_free(struct tensor *tensor)
{
    free(tensor->old);
    free(tensor->now);
}

/* Encodes in pieces of 'piece', decodes in other ones, and compares. */
static void round_trip(const struct tensor *tensor, enum delta_encoding encoding,
                       enum delta_checksum checksum, size_t piece)
{
    struct delta_encoder *encoder = delta_encoder_create();
    struct delta_decoder *decoder = delta_decoder_create();
    struct delta_encoded encoded;
    struct baton_status st = delta_encoder_begin(encoder, encoding, checksum, tensor->size);
    for (size_t at = 0; baton_ok(&st) && at < tensor->size; at += piece) {
        size_t size = tensor->size - at < piece ? tensor->size - at : piece;
        st = delta_encoder_add(encoder, tensor->old + at, tensor->now + at, size);
    }
    cr_assert(baton_ok(&st), "%s", st.message);
    st = delta_encoder_finish(encoder, &encoded);
    cr_assert(baton_ok(&st), "%s", st.message);
    uint64_t changed = 0;
    for (size_t i = 0; i < tensor->size; i++) {
        changed += tensor->old[i] != tensor->now[i];
    }
    cr_assert_eq(encoded.changed_bytes, changed);
    cr_assert_eq(encoded.frame.size == 0, changed == 0);
    if (changed > 0) {
        uint8_t *bytes = malloc(tensor->size);
        memcpy(bytes, tensor->old, tensor->size);
        st = delta_decoder_begin(decoder, encoding, checksum, encoded.frame, tensor->size);
        for (size_t at = 0; baton_ok(&st) && at < tensor->size; at += piece + 7) {
            size_t size = tensor->size - at < piece + 7 ? tensor->size - at : piece + 7;
            st = delta_decoder_next(decoder, bytes + at, size);
        }
        cr_assert(baton_ok(&st), "%s", st.message);
        st = delta_decoder_finish(decoder, encoded.checksum);
        cr_assert(baton_ok(&st), "%s", st.message);
        cr_assert_eq(memcmp(bytes, tensor->now, tensor->size), 0);
        free(bytes);
    }
    delta_encoder_destroy(encoder);
    delta_decoder_destroy(decoder);
}

/* A change at the first, the last, all, no byte; sizes around every border of a frame's header, a
 * zstd block and our pieces. */
Test(delta_codec, round_trips_at_borders)
{
    static const size_t sizes[] = { 1,     2,      7,      8,      9,      255,    256,    65791,
                                    65792, 131071, 131072, 131073, 262144, 524288, 524289, 700001 };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int encoding = 0; encoding < DELTA_ENCODING_COUNT; encoding++) {
            struct tensor tensor = tensor_make(sizes[i]);
            round_trip(&tensor, (enum delta_encoding)encoding, DELTA_CHECKSUM_XXH3_128, 131072);
            tensor.now[sizes[i] - 1] ^= 1;
            round_trip(&tensor, (enum delta_encoding)encoding, DELTA_CHECKSUM_ADLER32, 131072);
            tensor.now[0] ^= 0x80;
            round_trip(&tensor, (enum delta_encoding)encoding, DELTA_CHECKSUM_BLAKE3, 100000);
            for (size_t j = 0; j < sizes[i]; j++) {
                tensor.now[j] = (uint8_t)~tensor.old[j];
            }
            round_trip(&tensor, (enum delta_encoding)encoding, DELTA_CHECKSUM_XXH3_128, 131072);
            tensor_free(&tensor);
        }
    }
}

/* Seeded: random sizes, densities from none to all, runs of every length, random pieces. */
Test(delta_codec, round_trips_at_random)
{
    struct baton_random random;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        baton_random_seed(&random, seed);
        struct tensor tensor = tensor_make(1 + baton_random_below(&random, 400000));
        uint64_t gap = UINT64_C(1) << baton_random_below(&random, 18);
        for (size_t at = baton_random_below(&random, gap + 1); at < tensor.size;
             at += 1 + baton_random_below(&random, gap)) {
            tensor.now[at] = (uint8_t)baton_random_u64(&random);
        }
        round_trip(&tensor, (enum delta_encoding)(seed % DELTA_ENCODING_COUNT),
                   (enum delta_checksum)(seed % DELTA_CHECKSUM_COUNT),
                   1 + baton_random_below(&random, 200000));
        tensor_free(&tensor);
    }
}

/* The whole frame unpacks in one call of zstd's, with its size in front: what other readers do. */
Test(delta_codec, frame_is_plain_zstd)
{
    struct tensor tensor = tensor_make(600000);
    struct delta_encoder *encoder = delta_encoder_create();
    struct delta_encoded encoded;
    uint8_t *out = malloc(tensor.size);
    for (size_t i = 1000; i < 590000; i += 97) {
        tensor.now[i] ^= (uint8_t)(1 + i % 3);
    }
    struct baton_status st =
        delta_encoder_begin(encoder, DELTA_ENCODING_XOR, DELTA_CHECKSUM_XXH3_128, tensor.size);
    cr_assert(baton_ok(&st));
    st = delta_encoder_add(encoder, tensor.old, tensor.now, tensor.size);
    cr_assert(baton_ok(&st));
    st = delta_encoder_finish(encoder, &encoded);
    cr_assert(baton_ok(&st));
    cr_assert_eq(ZSTD_getFrameContentSize(encoded.frame.data, encoded.frame.size), tensor.size);
    cr_assert_eq(ZSTD_findFrameCompressedSize(encoded.frame.data, encoded.frame.size),
                 encoded.frame.size);
    cr_assert_eq(ZSTD_decompress(out, tensor.size, encoded.frame.data, encoded.frame.size),
                 tensor.size);
    for (size_t i = 0; i < tensor.size; i++) {
        cr_assert_eq(out[i], tensor.old[i] ^ tensor.now[i]);
    }
    /* Better than zstd's own search, which is what the runs are handed over for. */
    cr_assert_lt(encoded.frame.size, ZSTD_compressBound(tensor.size) / 10);
    free(out);
    delta_encoder_destroy(encoder);
    tensor_free(&tensor);
}

Test(delta_codec, overwrite_refuses_what_32_bits_cannot_say)
{
    struct delta_encoder *encoder = delta_encoder_create();
    struct baton_status st = delta_encoder_begin(encoder, DELTA_ENCODING_OVERWRITE,
                                                 DELTA_CHECKSUM_XXH3_128, (UINT64_C(1) << 32) + 1);
    cr_expect_eq(st.code, BATON_INVALID_ARGUMENT);
    cr_expect_str_eq(st.hint, "encode with xor");
    delta_encoder_destroy(encoder);
}

/* --- frames that lie --- */

enum { SMALL = 1000 };

/* Runs a frame against SMALL bytes of the pattern; the first failure. */
static struct baton_status decode(enum delta_encoding encoding, struct baton_bytes frame)
{
    struct delta_decoder *decoder = delta_decoder_create();
    uint8_t *bytes = maker_bytes(SMALL);
    struct baton_status st =
        delta_decoder_begin(decoder, encoding, DELTA_CHECKSUM_ADLER32, frame, SMALL);
    if (baton_ok(&st)) {
        st = delta_decoder_next(decoder, bytes, SMALL);
    }
    if (baton_ok(&st)) {
        st = delta_decoder_finish(decoder, "00000000");
    }
    free(bytes);
    delta_decoder_destroy(decoder);
    return st;
}

/* Packs a payload, decodes it, and wants this message. */
static void expect_payload(enum delta_encoding encoding, struct baton_bytes payload,
                           const char *message)
{
    uint8_t frame[16384];
    size_t size = ZSTD_compress(frame, sizeof(frame), payload.data, payload.size, 1);
    struct baton_status st = decode(encoding, (struct baton_bytes){ frame, size });
    cr_expect(strstr(st.message, message) != NULL, "wanted '%s', got '%s'", message, st.message);
}

static void expect_frame(const uint8_t *frame, size_t size, const char *message)
{
    struct baton_status st = decode(DELTA_ENCODING_XOR, (struct baton_bytes){ frame, size });
    cr_expect_neq(st.code, BATON_OK);
    cr_expect(strstr(st.message, message) != NULL, "wanted '%s', got '%s'", message, st.message);
}

Test(delta_codec, refuses_frames_that_lie)
{
    uint8_t payload[SMALL] = { 1, 2, 3 };
    uint8_t frame[4096];
    size_t size = ZSTD_compress(frame, sizeof(frame), payload, SMALL, 1);
    expect_frame(frame, 3, "not a zstd frame: cut");
    expect_frame(frame, size - 1, "zstd frame:");
    memset(frame + size, 0, 16);
    expect_frame(frame, size + 16, "16 bytes follow the zstd frame");
    memcpy(frame + size, frame, size);
    expect_frame(frame, 2 * size, "bytes follow the zstd frame");
    static const uint8_t skippable[] = { 0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4 };
    expect_frame(skippable, sizeof(skippable), "skippable");
    static const uint8_t garbage[] = "these are no frame's bytes";
    expect_frame(garbage, sizeof(garbage), "not a zstd frame");
}

Test(delta_codec, refuses_frames_without_size_or_with_a_wide_window)
{
    uint8_t payload[SMALL] = { 1, 2, 3 };
    uint8_t frame[4096];
    ZSTD_CCtx *context = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
    size_t size = ZSTD_compress2(context, frame, sizeof(frame), payload, SMALL);
    expect_frame(frame, size, "without its content's size");
    ZSTD_freeCCtx(context);
    /* Magic, 4 bytes of size, window of 2^28: no byte of it is allocated. */
    static const uint8_t wide[] = { 0x28, 0xb5, 0x2f, 0xfd, 0x80, 18 << 3, 0xe8, 3, 0, 0, 3, 0, 0 };
    expect_frame(wide, sizeof(wide), "at most 128 MiB");
}

/* A few bytes that claim a terabyte, and some that unpack to more or less than they say. */
Test(delta_codec, refuses_bombs)
{
    static const uint8_t terabyte[] = { 0x28, 0xb5, 0x2f, 0xfd, 0xc0, 0x48, 0, 0, 0,
                                        0,    0,    1,    0,    0,    3,    0, 0, 0 };
    expect_frame(terabyte, sizeof(terabyte), "an xor payload of 1099511627776 bytes");
    struct baton_status st =
        decode(DELTA_ENCODING_OVERWRITE, (struct baton_bytes){ terabyte, sizeof(terabyte) });
    cr_expect(strstr(st.message, "does not fit a tensor") != NULL, "%s", st.message);
    /* Says 1000 bytes; a block of 128 KiB of one byte, and a block of nothing. */
    static const uint8_t more[] = { 0x28, 0xb5, 0x2f, 0xfd, 0x60, 0xe8, 2, 3, 0, 0x10, 7 };
    static const uint8_t less[] = { 0x28, 0xb5, 0x2f, 0xfd, 0x60, 0xe8, 2, 1, 0, 0 };
    expect_frame(more, sizeof(more), "");
    expect_frame(less, sizeof(less), "");
}

Test(delta_codec, refuses_payloads_of_another_size)
{
    uint8_t payload[SMALL + 1] = { 0 };
    expect_payload(DELTA_ENCODING_XOR, (struct baton_bytes){ payload, SMALL - 1 },
                   "an xor payload of 999 bytes for a tensor of 1000");
    expect_payload(DELTA_ENCODING_XOR, (struct baton_bytes){ payload, SMALL + 1 },
                   "an xor payload of 1001 bytes");
    expect_payload(DELTA_ENCODING_OVERWRITE, (struct baton_bytes){ payload, 3 }, "does not fit");
    expect_payload(DELTA_ENCODING_OVERWRITE, (struct baton_bytes){ payload, 10 }, "does not fit");
    expect_payload(DELTA_ENCODING_XOR, (struct baton_bytes){ payload, SMALL },
                   "adler32 of the new bytes is");
}

Test(delta_codec, refuses_positions_that_lie)
{
    static const uint8_t count[] = { 2, 0, 0, 0, 1, 0, 0, 0, 9 };
    static const uint8_t outside[] = { 1, 0, 0, 0, 0xe8, 3, 0, 0, 9 };
    static const uint8_t falling[] = { 2, 0, 0, 0, 9, 0, 0, 0, 8, 0, 0, 0, 1, 2 };
    static const uint8_t twice[] = { 2, 0, 0, 0, 9, 0, 0, 0, 9, 0, 0, 0, 1, 2 };
    static const uint8_t sound[] = { 2, 0, 0, 0, 0, 0, 0, 0, 0xe7, 3, 0, 0, 1, 2 };
    expect_payload(DELTA_ENCODING_OVERWRITE, (struct baton_bytes){ count, sizeof(count) },
                   "the payload counts 2 changes, its size says 1");
    expect_payload(DELTA_ENCODING_OVERWRITE, (struct baton_bytes){ outside, sizeof(outside) },
                   "position 1000 lies past the tensor's 1000 bytes");
    expect_payload(DELTA_ENCODING_OVERWRITE, (struct baton_bytes){ falling, sizeof(falling) },
                   "position 8 follows 9: they must ascend");
    expect_payload(DELTA_ENCODING_OVERWRITE, (struct baton_bytes){ twice, sizeof(twice) },
                   "position 9 follows 9");
    expect_payload(DELTA_ENCODING_OVERWRITE, (struct baton_bytes){ sound, sizeof(sound) },
                   "adler32 of the new bytes is");
}

/* Every bit of a small frame turned, one after the other: refused, or the same bytes come out. */
Test(delta_codec, every_bit_of_a_frame)
{
    struct tensor tensor = tensor_make(SMALL);
    struct delta_encoder *encoder = delta_encoder_create();
    struct delta_decoder *decoder = delta_decoder_create();
    struct delta_encoded encoded;
    for (size_t i = 0; i < SMALL; i += 61) {
        tensor.now[i] ^= (uint8_t)(i | 1);
    }
    struct baton_status st =
        delta_encoder_begin(encoder, DELTA_ENCODING_XOR, DELTA_CHECKSUM_XXH3_128, SMALL);
    cr_assert(baton_ok(&st));
    st = delta_encoder_add(encoder, tensor.old, tensor.now, SMALL);
    cr_assert(baton_ok(&st));
    st = delta_encoder_finish(encoder, &encoded);
    cr_assert(baton_ok(&st));
    unsigned refused = 0;
    for (size_t bit = 0; bit < encoded.frame.size * 8; bit++) {
        uint8_t bytes[SMALL];
        uint8_t *frame = (uint8_t *)(uintptr_t)encoded.frame.data;
        memcpy(bytes, tensor.old, SMALL);
        frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
        st = delta_decoder_begin(decoder, DELTA_ENCODING_XOR, DELTA_CHECKSUM_XXH3_128,
                                 encoded.frame, SMALL);
        if (baton_ok(&st)) {
            st = delta_decoder_next(decoder, bytes, SMALL);
        }
        if (baton_ok(&st)) {
            st = delta_decoder_finish(decoder, encoded.checksum);
        }
        frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
        refused += !baton_ok(&st);
        cr_expect(!baton_ok(&st) || memcmp(bytes, tensor.now, SMALL) == 0, "bit %zu", bit);
    }
    cr_expect_gt(refused, encoded.frame.size * 7);
    delta_encoder_destroy(encoder);
    delta_decoder_destroy(decoder);
    tensor_free(&tensor);
}
