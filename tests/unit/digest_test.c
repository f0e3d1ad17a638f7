/* digest_test.c -- digests against vectors of another implementation, and in pieces. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/checkpoint_maker.h"
#include "transport/model/digest.h"
#include "transport/model/digest_kernel.h"
#include "transport/model/dtype.h"

static struct digest chunked_of(const uint8_t *data, size_t size, size_t piece)
{
    struct chunk_digester digester;
    chunk_digester_init(&digester);
    for (size_t done = 0; done < size;) {
        size_t next = size - done < piece ? size - done : piece;
        chunk_digester_add(&digester, (struct baton_bytes){ data + done, next });
        done += next;
    }
    return chunk_digester_finish(&digester);
}

/* The numbers that Python's xxhash and xxhsum -H2 agreed on are ours too. */
Test(digest, equals_the_golden_vectors)
{
    FILE *file = fopen(BATON_TEST_DATA "/digest/vectors.txt", "r");
    char line[256];
    unsigned compared = 0;
    cr_assert_not_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        char kind[16];
        char text[64];
        char got[BATON_DIGEST_TEXT_BYTES];
        size_t size = 0;
        if (sscanf(line, "%15s %zu %63s", kind, &size, text) != 3) {
            continue;
        }
        uint8_t *data = maker_bytes(size);
        bool plain = strcmp(kind, "plain") == 0;
        digest_format(plain ? digest_of((struct baton_bytes){ data, size })
                            : chunked_of(data, size, SIZE_MAX),
                      got);
        cr_expect_str_eq(got, text, "%s %zu", kind, size);
        free(data);
        compared++;
    }
    fclose(file);
    cr_assert_eq(compared, 30);
}

/* How the bytes were cut on their way must not matter. */
Test(digest, is_the_same_for_any_pieces)
{
    size_t size = 2 * BATON_CHUNK_BYTES + 12345;
    uint8_t *data = maker_bytes(size);
    struct digest whole = chunked_of(data, size, SIZE_MAX);
    static const size_t pieces[] = { 1021, 4096, 65536, 1000003, BATON_CHUNK_BYTES };
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        cr_expect(digest_equal(chunked_of(data, size, pieces[i]), whole), "pieces of %zu",
                  pieces[i]);
    }
    free(data);
}

/* A streamed plain digest is that of the bytes at once, and asking does not end the stream. */
Test(digest, streams)
{
    uint8_t *data = maker_bytes(100000);
    struct digest_stream stream;
    digest_stream_init(&stream);
    for (size_t at = 0; at < 100000; at += 777) {
        size_t next = 100000 - at < 777 ? 100000 - at : 777;
        digest_stream_add(&stream, (struct baton_bytes){ data + at, next });
        (void)digest_stream_finish(&stream);
    }
    cr_assert(digest_equal(digest_stream_finish(&stream),
                           digest_of((struct baton_bytes){ data, 100000 })));
    free(data);
}

/* Whatever instruction set the processor has, the digest is that of the plain C kernel. */
Test(digest, kernels_agree)
{
    static const size_t sizes[] = { 0, 1, 17, 240, 241, 4096, 70001, BATON_CHUNK_BYTES };
    uint8_t *data = maker_bytes(BATON_CHUNK_BYTES);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct digest base;
        digest_kernel_base.hash(data, sizes[i], base.bytes);
        cr_expect(digest_equal(base, digest_of((struct baton_bytes){ data, sizes[i] })), "%zu",
                  sizes[i]);
    }
    free(data);
}

Test(digest, counts_chunks)
{
    cr_expect_eq(digest_chunks_count(0), 0);
    cr_expect_eq(digest_chunks_count(1), 1);
    cr_expect_eq(digest_chunks_count(BATON_CHUNK_BYTES), 1);
    cr_expect_eq(digest_chunks_count(BATON_CHUNK_BYTES + 1), 2);
    cr_expect_eq(digest_chunks_count(UINT64_MAX), UINT64_C(1) << 44);
}

/* One spelling: 32 lower-case digits. */
Test(digest, parses_one_spelling)
{
    struct digest digest;
    cr_expect(digest_parse("99aa06d3014798d86001c324468d497f", &digest));
    cr_expect_not(digest_parse("99AA06d3014798d86001c324468d497f", &digest));
    cr_expect_not(digest_parse("99aa06d3014798d86001c324468d497", &digest));
    cr_expect_not(digest_parse("99aa06d3014798d86001c324468d497f0", &digest));
    cr_expect_not(digest_parse("g9aa06d3014798d86001c324468d497f", &digest));
    cr_expect_not(digest_parse("", &digest));
}

/* All names of the format, and none but these. */
Test(dtype, knows_the_format_s_names)
{
    static const char names[] = "BOOL F4 F6_E2M3 F6_E3M2 U8 I8 F8_E5M2 F8_E4M3 F8_E8M0 F8_E4M3FNUZ "
                                "F8_E5M2FNUZ I16 U16 F16 BF16 I32 U32 F32 C64 F64 I64 U64";
    char copy[sizeof(names)];
    unsigned known = 0;
    memcpy(copy, names, sizeof(names));
    for (char *name = strtok(copy, " "); name != NULL; name = strtok(NULL, " ")) {
        enum tensor_dtype dtype;
        cr_expect(tensor_dtype_parse(baton_bytes_of(name), &dtype), "%s", name);
        cr_expect_str_eq(tensor_dtype_name(dtype), name);
        known++;
    }
    enum tensor_dtype dtype;
    cr_expect_eq(known, TENSOR_DTYPE_COUNT);
    cr_expect_not(tensor_dtype_parse(baton_bytes_of("bf16"), &dtype));
    cr_expect_not(tensor_dtype_parse(baton_bytes_of("I4"), &dtype));
    cr_expect_not(tensor_dtype_parse(baton_bytes_of(""), &dtype));
}

/* Sizes are checked: overflow, also behind a zero dimension, and bits that do not fill a byte. */
Test(dtype, computes_sizes)
{
    uint64_t bytes = 1;
    struct tensor_shape scalar = { 0, { 0 } };
    struct tensor_shape matrix = { 2, { 3, 5 } };
    struct tensor_shape empty = { 2, { 3, 0 } };
    struct tensor_shape huge = { 2, { UINT64_C(1) << 40, UINT64_C(1) << 40 } };
    struct tensor_shape hidden = { 3, { UINT64_C(1) << 40, UINT64_C(1) << 40, 0 } };
    cr_expect(tensor_shape_bytes(&scalar, TENSOR_DTYPE_F64, &bytes) && bytes == 8);
    cr_expect(tensor_shape_bytes(&matrix, TENSOR_DTYPE_BF16, &bytes) && bytes == 30);
    cr_expect(tensor_shape_bytes(&empty, TENSOR_DTYPE_F32, &bytes) && bytes == 0);
    cr_expect_not(tensor_shape_bytes(&huge, TENSOR_DTYPE_U8, &bytes));
    cr_expect_not(tensor_shape_bytes(&hidden, TENSOR_DTYPE_U8, &bytes));
    cr_expect_not(tensor_shape_bytes(&matrix, TENSOR_DTYPE_F4, &bytes));
    matrix.dims[1] = 4;
    cr_expect(tensor_shape_bytes(&matrix, TENSOR_DTYPE_F4, &bytes) && bytes == 6);
    cr_expect(tensor_shape_bytes(&matrix, TENSOR_DTYPE_F6_E2M3, &bytes) && bytes == 9);
}

Test(dtype, prints_shapes)
{
    char text[TENSOR_SHAPE_TEXT_BYTES];
    struct tensor_shape scalar = { 0, { 0 } };
    struct tensor_shape wide = { 8,
                                 { UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
                                   UINT64_MAX, UINT64_MAX, UINT64_MAX } };
    tensor_shape_format(&scalar, text);
    cr_expect_str_eq(text, "[]");
    tensor_shape_format(&wide, text);
    cr_expect_eq(strlen(text), 8 * 20 + 7 * 2 + 2);
}
