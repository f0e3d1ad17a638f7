/* dtype.h -- element types and shapes of tensors, as the safetensors format names them.
 *
 * Sizes are computed in bits first: F4 and the F6 types pack several elements into a byte.  Every
 * product is checked; a shape whose size does not fit or does not fill whole bytes is refused.
 *
 * Depends on: api/base.  Pure: cores may include it.  Threads: values only.  Ownership: none. */
#ifndef TRANSPORT_MODEL_DTYPE_H
#define TRANSPORT_MODEL_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "api/base/bytes.h"
#include "api/base/limits.h"

enum tensor_dtype {
    TENSOR_DTYPE_BOOL,
    TENSOR_DTYPE_F4,
    TENSOR_DTYPE_F6_E2M3,
    TENSOR_DTYPE_F6_E3M2,
    TENSOR_DTYPE_U8,
    TENSOR_DTYPE_I8,
    TENSOR_DTYPE_F8_E5M2,
    TENSOR_DTYPE_F8_E4M3,
    TENSOR_DTYPE_F8_E8M0,
    TENSOR_DTYPE_F8_E4M3FNUZ,
    TENSOR_DTYPE_F8_E5M2FNUZ,
    TENSOR_DTYPE_I16,
    TENSOR_DTYPE_U16,
    TENSOR_DTYPE_F16,
    TENSOR_DTYPE_BF16,
    TENSOR_DTYPE_I32,
    TENSOR_DTYPE_U32,
    TENSOR_DTYPE_F32,
    TENSOR_DTYPE_C64,
    TENSOR_DTYPE_F64,
    TENSOR_DTYPE_I64,
    TENSOR_DTYPE_U64,
    TENSOR_DTYPE_COUNT
};

struct tensor_shape {
    uint32_t rank; /* 0: a scalar, one element. */
    uint64_t dims[BATON_TENSOR_RANK_MAX];
};

/* Room for "[d, d, ...]" of any shape, with its end. */
enum { TENSOR_SHAPE_TEXT_BYTES = BATON_TENSOR_RANK_MAX * 22 + 3 };

/* The name in safetensors ("BF16"); "?" for a number outside of the enum. */
const char *tensor_dtype_name(enum tensor_dtype dtype);
/* Exact, upper case; false for another word. */
bool tensor_dtype_parse(struct baton_bytes name, enum tensor_dtype *out);
/* Bits of one element. */
uint32_t tensor_dtype_bits(enum tensor_dtype dtype);

bool tensor_shape_equal(const struct tensor_shape *a, const struct tensor_shape *b);
void tensor_shape_format(const struct tensor_shape *shape, char out[TENSOR_SHAPE_TEXT_BYTES]);

/* Bytes of a tensor; false if the number overflows 63 bits or the bits do not fill whole bytes. */
bool tensor_shape_bytes(const struct tensor_shape *shape, enum tensor_dtype dtype, uint64_t *out);

#endif /* dtype.h */
