/* manifest.h -- a version's list of tensors and files in memory; its JSON; its parts on the wire.
 *
 * Built in two steps: manifest_add_*() in any order, then manifest_sort(), which sorts bytewise by
 * name and refuses doubles, and manifest_seal(), which computes the digest of the whole once every
 * entry has its own.  What a decoder returns is sealed.
 *
 * Depends on: api/base, version_digest.h, jansson (manifest_json.c).  Allocates: not for cores.
 * Threads: an object belongs to one thread, or to many readers once sealed.
 * Ownership: a manifest owns its entries and their strings until manifest_destroy(); arguments are
 * copied. */
#ifndef TRANSPORT_MODEL_MANIFEST_H
#define TRANSPORT_MODEL_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "api/base/bytes.h"
#include "api/base/status.h"
#include "transport/model/text_pool.h"
#include "transport/model/version_digest.h"

/* The file of a sealed checkpoint directory that holds this manifest. */
#define MANIFEST_FILE_NAME "baton.manifest.json"

/* Longest baton.manifest.json that is read: a million tensors take about 250 MiB. */
enum { MANIFEST_JSON_BYTES_MAX = 512 << 20, MANIFEST_JSON_FORMAT = 1 };

struct manifest_tensor {
    const char *name;
    const char *atomic_set; /* Empty: none. */
    const char *file;       /* The safetensors file that holds it; not part of the digest. */
    enum tensor_dtype dtype;
    struct tensor_shape shape;
    uint64_t bytes;
    struct digest digest;
};

struct manifest_file {
    const char *name;
    uint64_t bytes;
    struct digest digest;
};

struct manifest {
    struct manifest_tensor *tensors; /* Sorted bytewise by name after manifest_sort(). */
    size_t tensors_count;
    struct manifest_file *files; /* Sorted likewise. */
    size_t files_count;
    uint64_t tensors_bytes;
    uint64_t files_bytes;
    struct digest digest; /* Of the version, after manifest_seal(). */

    /* Private. */
    size_t tensors_capacity;
    size_t files_capacity;
    struct text_pool texts;
};

/* Null without memory. */
struct manifest *manifest_create(void);
void manifest_destroy(struct manifest *manifest);

/* Adds one entry; 'bytes' of a tensor is computed here.  A null atomic set or file counts as
 * empty. */
BATON_MUST_USE struct baton_status manifest_add_tensor(struct manifest *manifest,
                                                       const struct manifest_tensor *tensor);
BATON_MUST_USE struct baton_status manifest_add_file(struct manifest *manifest,
                                                     const struct manifest_file *file);

/* Sorts and refuses a name that is there twice. */
BATON_MUST_USE struct baton_status manifest_sort(struct manifest *manifest);
/* Sorts, checks every entry, sums up, and computes the version's digest. */
BATON_MUST_USE struct baton_status manifest_seal(struct manifest *manifest);

/* Null if there is none; only after manifest_sort(). */
const struct manifest_tensor *manifest_find_tensor(const struct manifest *manifest,
                                                   const char *name);
const struct manifest_file *manifest_find_file(const struct manifest *manifest, const char *name);

/* Fails with INCOMPATIBLE, naming the first difference, unless both have the same tensors with the
 * same dtypes and shapes: whether an engine that serves 'from' can take 'to'. */
BATON_MUST_USE struct baton_status manifest_compare_layout(const struct manifest *from,
                                                           const struct manifest *to);

/* Makes the whole of a partial version: the parent's entries, replaced where 'partial' has them.
 * Refuses a tensor that the parent lacks or has with another dtype or shape.  Replaced tensors keep
 * the parent's file and atomic set.  The result is sealed. */
BATON_MUST_USE struct baton_status manifest_merge(const struct manifest *parent,
                                                  const struct manifest *partial,
                                                  struct manifest **out);

/* The entry at 'index' (tensors first, then files) as a view into the manifest. */
struct manifest_entry manifest_get_entry(const struct manifest *manifest, size_t index);

/* Fills 'out' with as many whole entries as fit, starting at entry '*cursor', and moves the cursor.
 * Returns the bytes used; 0 when nothing is left.  'capacity' must be at least 4096. */
size_t manifest_encode_part(const struct manifest *manifest, size_t *cursor, uint8_t *out,
                            size_t capacity);
/* Adds a part's entries to an unsealed manifest; tensors get an empty file. */
BATON_MUST_USE struct baton_status manifest_decode_part(struct manifest *manifest,
                                                        struct baton_bytes part);

/* The text of baton.manifest.json of a sealed manifest, on the heap (free()), not terminated by
 * contract: 'out_bytes' counts. */
BATON_MUST_USE struct baton_status manifest_encode_json(const struct manifest *manifest, char **out,
                                                        size_t *out_bytes);
/* Strict: known keys only, none missing or double, sorted, no double names, bounded, and the digest
 * computed from the entries must be the one that stands there. */
BATON_MUST_USE struct baton_status manifest_decode_json(struct baton_bytes text,
                                                        struct manifest **out);

#endif /* manifest.h */
