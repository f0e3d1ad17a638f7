/* library.h -- libnccl, found when it is wanted.
 *
 * Depends on: nccl.h (types), dlopen.  Threads: any.  Ownership: a library that was loaded stays.
 * Private to this folder. */
#ifndef TRANSPORT_NCCL_LIBRARY_H
#define TRANSPORT_NCCL_LIBRARY_H

#include <nccl.h>

enum { NCCL_LIBRARY_TEXT_BYTES = 300 };

/* Same names and meanings as in nccl.h. */
struct nccl_library {
    const char *(*describe)(ncclResult_t result);
    ncclResult_t (*get_version)(int *version);
    ncclResult_t (*get_unique_id)(ncclUniqueId *id);
    ncclResult_t (*comm_init_rank_config)(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                          ncclConfig_t *config);
    ncclResult_t (*comm_abort)(ncclComm_t comm);
    ncclResult_t (*comm_get_async_error)(ncclComm_t comm, ncclResult_t *error);
    ncclResult_t (*broadcast)(const void *source, void *target, size_t count, ncclDataType_t type,
                              int root, ncclComm_t comm, cudaStream_t stream);
    ncclResult_t (*send)(const void *source, size_t count, ncclDataType_t type, int peer,
                         ncclComm_t comm, cudaStream_t stream);
    ncclResult_t (*recv)(void *target, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                         cudaStream_t stream);
};

/* 0, or -1 and why. */
int library_open(const char *path, struct nccl_library *out, char why[NCCL_LIBRARY_TEXT_BYTES]);

#endif /* library.h */
