/* kernels.h -- the kernels' side of cuda_plugin.h; private to the plug-in's
 * files in this folder.
 *
 * Each launches on a stream and answers a result of cuda_plugin.h.  Contracts
 * are there. */
#ifndef TRANSPORT_CUDA_KERNELS_H
#define TRANSPORT_CUDA_KERNELS_H

#include <cuda_runtime.h>
#include <stdbool.h>

#include "transport/cuda/cuda_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { WARP = 32 };
#define WHOLE_WARP 0xFFFFFFFFU

int kernel_digest(const struct baton_cuda_range *ranges, uint32_t ranges_count, uint64_t chunks,
                  void *digests, void *stream);
int kernel_copy_boxes(const struct baton_cuda_box *boxes, uint32_t boxes_count, uint64_t tiles,
                      void *stream);
int kernel_delta_scan(const struct baton_cuda_delta *delta, void *stream);
int kernel_delta_compact(const struct baton_cuda_delta *delta,
                         const struct baton_cuda_changes *changes, void *stream);
int kernel_delta_apply(void *target, const struct baton_cuda_delta *delta,
                       const struct baton_cuda_changes *changes, uint64_t *refused, void *stream);
int kernel_quantise(const struct baton_cuda_quant *quant, void *stream);

/* What the launch just made says. */
static inline int launched(void)
{
    return (int)cudaGetLastError();
}

static inline bool is_aligned(const void *at, uintptr_t bytes)
{
    return (uintptr_t)at % bytes == 0;
}

/* Most blocks of a launch. */
static inline bool fits_grid(uint64_t blocks)
{
    return blocks <= INT32_MAX;
}

#ifdef __cplusplus
}
#endif

#endif /* kernels.h */
