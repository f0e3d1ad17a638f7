/* cuda_open.h -- finds the CUDA plug-in, where there is one and a GPU for it.
 *
 * Depends on: api/base, dlopen.  Threads: any.  Ownership: the table is the
 * plug-in's and valid until the process ends: a loaded plug-in stays, since
 * CUDA does not survive being unloaded. */
#ifndef TRANSPORT_CUDA_CUDA_OPEN_H
#define TRANSPORT_CUDA_CUDA_OPEN_H

#include "api/base/status.h"
#include "transport/cuda/cuda_plugin.h"

/* 'path': of baton_cuda.so.  FAILED_PRECONDITION: no driver, no GPU, or none
 * that the kernels run on.  NOT_FOUND: no such file, or it cannot be loaded.
 * FAILED_PRECONDITION INCOMPATIBLE: another major, or an older table than this
 * program needs.  All are reasons to do without a GPU. */
BATON_MUST_USE struct baton_status cuda_open(const char *path, const struct baton_cuda **out);
/* INTERNAL with 'what' and the plug-in's words for 'result'; OK for 0. */
BATON_MUST_USE struct baton_status cuda_status(const struct baton_cuda *cuda, int result,
                                               const char *what);

#endif /* cuda_open.h */
