/* dtype.c -- the table of element types and checked sizes. */
#include "transport/model/dtype.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t bits;
} dtypes[TENSOR_DTYPE_COUNT] = {
    [TENSOR_DTYPE_BOOL] = { "BOOL", 8 },
    [TENSOR_DTYPE_F4] = { "F4", 4 },
    [TENSOR_DTYPE_F6_E2M3] = { "F6_E2M3", 6 },
    [TENSOR_DTYPE_F6_E3M2] = { "F6_E3M2", 6 },
    [TENSOR_DTYPE_U8] = { "U8", 8 },
    [TENSOR_DTYPE_I8] = { "I8", 8 },
    [TENSOR_DTYPE_F8_E5M2] = { "F8_E5M2", 8 },
    [TENSOR_DTYPE_F8_E4M3] = { "F8_E4M3", 8 },
    [TENSOR_DTYPE_F8_E8M0] = { "F8_E8M0", 8 },
    [TENSOR_DTYPE_F8_E4M3FNUZ] = { "F8_E4M3FNUZ", 8 },
    [TENSOR_DTYPE_F8_E5M2FNUZ] = { "F8_E5M2FNUZ", 8 },
    [TENSOR_DTYPE_I16] = { "I16", 16 },
    [TENSOR_DTYPE_U16] = { "U16", 16 },
    [TENSOR_DTYPE_F16] = { "F16", 16 },
    [TENSOR_DTYPE_BF16] = { "BF16", 16 },
    [TENSOR_DTYPE_I32] = { "I32", 32 },
    [TENSOR_DTYPE_U32] = { "U32", 32 },
    [TENSOR_DTYPE_F32] = { "F32", 32 },
    [TENSOR_DTYPE_C64] = { "C64", 64 },
    [TENSOR_DTYPE_F64] = { "F64", 64 },
    [TENSOR_DTYPE_I64] = { "I64", 64 },
    [TENSOR_DTYPE_U64] = { "U64", 64 },
};

const char *tensor_dtype_name(enum tensor_dtype dtype)
{
    return (unsigned)dtype < TENSOR_DTYPE_COUNT ? dtypes[dtype].name : "?";
}

bool tensor_dtype_parse(struct baton_bytes name, enum tensor_dtype *out)
{
    for (unsigned i = 0; i < TENSOR_DTYPE_COUNT; i++) {
        if (baton_bytes_equal(name, baton_bytes_of(dtypes[i].name))) {
            *out = (enum tensor_dtype)i;
            return true;
        }
    }
    return false;
}

uint32_t tensor_dtype_bits(enum tensor_dtype dtype)
{
    return dtypes[dtype].bits;
}

bool tensor_shape_equal(const struct tensor_shape *a, const struct tensor_shape *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof(a->dims[0])) == 0;
}

void tensor_shape_format(const struct tensor_shape *shape, char out[TENSOR_SHAPE_TEXT_BYTES])
{
    size_t used = 0;
    out[used++] = '[';
    for (uint32_t i = 0; i < shape->rank; i++) {
        int n = snprintf(out + used, TENSOR_SHAPE_TEXT_BYTES - used, i == 0 ? "%llu" : ", %llu",
                         (unsigned long long)shape->dims[i]);
        used += (size_t)n;
    }
    out[used++] = ']';
    out[used] = '\0';
}

bool tensor_shape_bytes(const struct tensor_shape *shape, enum tensor_dtype dtype, uint64_t *out)
{
    uint64_t bits = tensor_dtype_bits(dtype);
    bool empty = false;
    for (uint32_t i = 0; i < shape->rank; i++) {
        /* A zero makes the tensor empty, but must not hide an overflow of the others. */
        empty = empty || shape->dims[i] == 0;
        uint64_t dim = shape->dims[i] == 0 ? 1 : shape->dims[i];
        if (__builtin_mul_overflow(bits, dim, &bits)) {
            return false;
        }
    }
    if (empty) {
        *out = 0;
        return true;
    }
    if (bits % 8 != 0 || bits > INT64_MAX) {
        return false;
    }
    *out = bits / 8;
    return true;
}
