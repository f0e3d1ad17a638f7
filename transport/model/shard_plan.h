/* shard_plan.h -- where each tensor of a manifest lies in the safetensors files that we write.
 *
 * Deterministic: the same tensors in the same files give the same bytes on every node.  Within a
 * file, tensors with wider elements come first, then by name, so that each begins at a multiple of
 * its element size; the header is padded with spaces to a multiple of 64 bytes.  Every header has
 * __metadata__ {"format": "pt"}, which some readers ask for.
 *
 * Depends on: manifest.h, jansson (private).  Allocates: not for cores.  Threads: read-only once
 * made.  Ownership: a plan owns its headers; file names borrow from the manifest. */
#ifndef TRANSPORT_MODEL_SHARD_PLAN_H
#define TRANSPORT_MODEL_SHARD_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "api/base/status.h"
#include "transport/model/manifest.h"

struct shard {
    const char *file;
    uint8_t *header; /* Length field included: the file's first bytes. */
    size_t header_bytes;
    uint64_t file_bytes;
};

struct shard_place {
    size_t shard;    /* Index into 'shards'. */
    uint64_t offset; /* Of the tensor's first byte, from the file's. */
};

struct shard_plan {
    struct shard *shards; /* Sorted bytewise by file. */
    size_t shards_count;
    struct shard_place *places; /* One for each of the manifest's tensors, same order. */
    size_t places_count;
};

/* Plans for a manifest after manifest_sort(). */
BATON_MUST_USE struct baton_status shard_plan_create(const struct manifest *manifest,
                                                     struct shard_plan **out);
void shard_plan_destroy(struct shard_plan *plan);

/* True if readers need model.safetensors.index.json: any but one file "model.safetensors". */
bool shard_plan_needs_index(const struct shard_plan *plan);
/* Its text, on the heap (free()). */
BATON_MUST_USE struct baton_status shard_plan_index_json(const struct shard_plan *plan,
                                                         const struct manifest *manifest,
                                                         char **out, size_t *out_bytes);

/* Gives each tensor of a sorted manifest a file: "model.safetensors" if all fit into
 * 'shard_bytes_max', else "model-00001-of-0000N.safetensors", filled in order of names. */
BATON_MUST_USE struct baton_status shard_plan_assign(struct manifest *manifest,
                                                     uint64_t shard_bytes_max);

#endif /* shard_plan.h */
