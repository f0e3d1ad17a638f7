/* xxh3_test.c -- XXH3 in steps, as the GPU's kernel has it, against xxhash itself. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "api/base/random.h"
#include "transport/cuda/xxh3.h"
#include "transport/model/digest.h"

static void check(const uint8_t *bytes, size_t size)
{
    struct digest got;
    xxh3_canonical(xxh3_128(bytes, size), got.bytes);
    cr_assert(digest_equal(got, digest_of((struct baton_bytes){ bytes, size })), "%zu bytes", size);
}

/* Every length that takes another way, at every alignment; and those around chunks. */
Test(xxh3, equals_the_library)
{
    size_t all = BATON_CHUNK_BYTES + 4096;
    uint8_t *bytes = malloc(all);
    struct baton_random random;
    baton_random_seed(&random, 20261201);
    cr_assert_not_null(bytes);
    for (size_t i = 0; i < all; i++) {
        bytes[i] = (uint8_t)baton_random_u64(&random);
    }
    for (size_t size = 0; size <= 2200; size++) {
        check(bytes + size % 17, size);
    }
    for (size_t i = 0; i <= 130; i++) {
        check(bytes + i % 5, BATON_CHUNK_BYTES - 65 + i);
    }
    free(bytes);
}
