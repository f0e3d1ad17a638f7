/* version.h -- one version of a publication directory, read and checked before a byte is unpacked.
 *
 * A version is a delta (its index has metadata.delta_encoding) or full (an ordinary checkpoint).
 * Opening a delta checks all that the format says and other readers leave unchecked: the index's
 * version is the directory's number and base_version the one before; the shards are exactly those
 * of the weight_map, regular files of the directory itself (no links), as long as their headers
 * say; every tensor is a U8 vector with one well-formed checksum, in the shard that the weight_map
 * names, in no second one.  Every message names directory, file and tensor.
 *
 * Depends on: index.h, safetensors.h, file_io.h.  Does I/O: not for cores.  Threads: an object
 * belongs to one thread.  Ownership: a version owns its strings until delta_version_close(). */
#ifndef TRANSPORT_DELTA_VERSION_H
#define TRANSPORT_DELTA_VERSION_H

#include "api/base/status.h"
#include "transport/delta/index.h"
#include "transport/model/text_pool.h"

struct delta_version {
    const char *dir; /* Path of the version's directory. */
    int dir_fd;
    uint64_t number;
    struct delta_index index; /* 'is_delta' false: a full version; the rest is then empty. */
    bool has_digests;
    struct delta_digests digests;
    struct delta_tensor *tensors; /* Sorted bytewise by name. */
    size_t tensors_count;

    /* Private. */
    struct text_pool texts;
    struct safetensors_index *map;
};

/* Opens version 'number', whose directory may be no link.  NOT_FOUND: there is no such directory; a file missing in it is
 * INVALID_ARGUMENT. */
BATON_MUST_USE struct baton_status delta_version_open(const char *publication, uint64_t number,
                                                      struct delta_version **out);
void delta_version_close(struct delta_version *version);

/* Null if the version leaves the tensor as it is. */
const struct delta_tensor *delta_version_find(const struct delta_version *version,
                                              const char *name);

#endif /* version.h */
