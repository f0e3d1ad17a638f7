/* index.h -- the texts of a version directory: its index, our digests beside it, a shard's header.
 *
 * Reading is strict and bounded (json_input.h); writing gives the same bytes as the format's other
 * writers: the index is one line as Python's json.dumps writes it, the header is the one of the
 * safetensors library with its __metadata__ sorted.
 *
 * Depends on: format.h, safetensors.h, digest.h, jansson (private).  Allocates: not for cores.
 * Threads: an object belongs to one thread.  Ownership: as named. */
#ifndef TRANSPORT_DELTA_INDEX_H
#define TRANSPORT_DELTA_INDEX_H

#include <stdio.h>

#include "api/base/bytes.h"
#include "api/base/status.h"
#include "transport/delta/format.h"
#include "transport/model/digest.h"
#include "transport/model/safetensors.h"

struct delta_index {
    bool is_delta; /* Has 'delta_encoding'; otherwise nothing else is filled in. */
    uint64_t version;
    uint64_t base_version;
    enum delta_encoding encoding;
    enum delta_checksum checksum;
};

struct delta_digests {
    struct digest base;   /* Of the version that the delta is for, with config and tokenizer. */
    struct digest result; /* Of the version that it gives. */
};

/* A tensor of a delta version. */
struct delta_tensor {
    const char *name;
    const char *shard;
    uint64_t offset; /* Of its frame, from the shard's first byte. */
    uint64_t frame_bytes;
    char checksum[DELTA_CHECKSUM_TEXT_BYTES];
};

/* Reads "metadata" of an index; 'weight_map' is read with safetensors_index_parse(). */
BATON_MUST_USE struct baton_status delta_index_parse(const char *file, struct baton_bytes text,
                                                     struct delta_index *out);
/* Writes an index. */
void delta_index_write(FILE *out, const struct delta_index *index,
                       const struct delta_tensor *tensors, size_t tensors_count);

BATON_MUST_USE struct baton_status delta_digests_parse(const char *file, struct baton_bytes text,
                                                       struct delta_digests *out);
void delta_digests_write(FILE *out, const struct delta_digests *digests);

/* Finds the checksums of a shard's tensors in its header's __metadata__: exactly one for each of
 * 'tensors', which belong to this shard, and none besides. */
BATON_MUST_USE struct baton_status delta_header_checksums(const char *file,
                                                          struct baton_bytes header,
                                                          enum delta_checksum kind,
                                                          struct delta_tensor *const *tensors,
                                                          size_t tensors_count);
/* Length field and header of a shard whose frames follow in this order, on the heap (free()). */
BATON_MUST_USE struct baton_status delta_header_make(const struct delta_tensor *tensors,
                                                     size_t tensors_count, char **out,
                                                     size_t *out_bytes);

#endif /* index.h */
