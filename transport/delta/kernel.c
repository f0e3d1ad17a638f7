/* kernel.c -- which instance of diff_kernel.c this processor takes. */
#include "transport/delta/diff_kernel.h"

const struct diff_kernel *delta_kernel(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512f")) {
        return &diff_kernel_avx512;
    }
    if (__builtin_cpu_supports("avx2")) {
        return &diff_kernel_avx2;
    }
#endif
    return &diff_kernel_base;
}
