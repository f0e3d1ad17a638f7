/* kernels.h -- the arithmetic of the forward pass, in float32.
 *
 * Each output row depends only on its own input row and is summed in one fixed order, so a token
 * gives the same bits alone, in a batch, and when its KV is computed again.
 *
 * A weight matrix is kept *packed*: [in][out], so that the inner loop runs over outputs.  That is
 * not the checkpoint's [out][in]; weights.h converts.
 *
 * Depends on: libm.  Threads: pure functions.  Ownership: none. */
#ifndef TESTS_MINIENGINE_KERNELS_H
#define TESTS_MINIENGINE_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* A packed matrix. */
struct kernels_matrix {
    const float *packed;
    size_t in;
    size_t out;
};

/* y[rows][out] = x[rows][in] * w.  'y' may not overlap 'x'. */
void kernels_matmul(const float *x, size_t rows, struct kernels_matrix w, float *y);

/* y = x / rms(x) * gain, for one row of 'count' values.  'y' may be 'x'. */
void kernels_norm(const float *x, const float *gain, size_t count, float epsilon, float *y);

/* The rotation of one position: dim/2 cosines, then dim/2 sines. */
void kernels_rope_angles(float *angles, size_t dim, uint32_t position, float theta);

/* Rotates one head of 'dim' values (halves form: pairs are i and i + dim/2). */
void kernels_rope(float *head, const float *angles, size_t dim);

/* out[i] = silu(gate_up[i]) * gate_up[count + i]. */
void kernels_swiglu(const float *gate_up, size_t count, float *out);

/* In place; returns log(sum(exp(x))) of the values before. */
double kernels_softmax(float *x, size_t count);

/* log(sum(exp(x))), without changing x. */
double kernels_logsumexp(const float *x, size_t count);

float kernels_dot(const float *a, const float *b, size_t count);

/* y += scale * x. */
void kernels_add_scaled(float *y, const float *x, float scale, size_t count);

/* Conversions of the checkpoint's words; exact. */
float kernels_from_bf16(uint16_t word);
float kernels_from_f16(uint16_t word);

#endif /* kernels.h */
