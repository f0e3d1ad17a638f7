/* version_digest.h -- a manifest's entries in canonical bytes, and the digest of a whole version.
 *
 * Canonical bytes of a tensor entry: framed name, framed dtype name ("BF16"), u32le rank, u64le
 * per dimension, framed atomic set, 16 bytes of chunked digest.  Of a file entry (config,
 * tokenizer): framed name, u64le bytes, 16 bytes of chunked digest.  Framed: u32le length, then as
 * many bytes. The version's digest is the plain digest of all tensor entries, sorted bytewise by
 * name, followed by all file entries, sorted likewise.  How tensors are spread over shards is not
 * part of it.
 *
 * A *part* carries entries over the wire: for each a byte of kind (1 tensor, 2 file), then its
 * canonical bytes.  A part holds whole entries and at most BATON_MANIFEST_PART_BYTES_MAX bytes.
 * The version_digester takes parts in order and keeps only a running state: a controller checks a
 * manifest of any length without keeping it.
 *
 * Depends on: api/base, digest.h, dtype.h.  Pure: cores may include it; nothing here allocates.
 * Threads: an object belongs to one thread.  Ownership: views borrow from what was decoded. */
#ifndef TRANSPORT_MODEL_VERSION_DIGEST_H
#define TRANSPORT_MODEL_VERSION_DIGEST_H

#include <stdint.h>

#include "api/base/bytes.h"
#include "api/base/status.h"
#include "transport/model/digest.h"
#include "transport/model/dtype.h"

enum manifest_kind {
    MANIFEST_KIND_TENSOR = 1,
    MANIFEST_KIND_FILE = 2,
};

struct manifest_entry {
    enum manifest_kind kind;
    struct baton_bytes
        name; /* 1 .. BATON_TENSOR_NAME_BYTES - 1 bytes, UTF-8, no control characters. */
    struct baton_bytes atomic_set; /* Tensors only; empty: none. */
    enum tensor_dtype dtype;       /* Tensors only. */
    struct tensor_shape shape;     /* Tensors only. */
    uint64_t bytes;                /* Of a tensor: follows from dtype and shape. */
    struct digest digest;          /* Chunked. */
};

struct version_digester {
    struct digest_stream stream;
    uint64_t tensors_count;
    uint64_t files_count;
    uint64_t bytes; /* Of all tensors and files so far. */
    uint32_t last_name_bytes;
    uint8_t last_name[BATON_TENSOR_NAME_BYTES];
};

/* Fails for a name that no manifest may hold: empty, too long, not UTF-8, with control characters;
 * for a file also one that is not a plain name ("..", "a/b", "a\b").  'kind' is named in the
 * message. */
BATON_MUST_USE struct baton_status manifest_name_check(enum manifest_kind kind,
                                                       struct baton_bytes name);

/* Fails for what no manifest may hold: a bad name, a size that overflows or belies dtype and
 * shape. */
BATON_MUST_USE struct baton_status manifest_entry_check(const struct manifest_entry *entry);

/* Writes the canonical bytes of an entry that passes manifest_entry_check(). */
void manifest_entry_write(struct baton_writer *writer, const struct manifest_entry *entry);

/* Writes an entry as it stands in a part: kind, then canonical bytes. */
void manifest_part_write(struct baton_writer *writer, const struct manifest_entry *entry);

/* Reads the next entry of a part and checks it. */
BATON_MUST_USE struct baton_status manifest_part_read(struct baton_reader *reader,
                                                      struct manifest_entry *out);

void version_digester_init(struct version_digester *digester);

/* Adds the next entry.  Fails, and changes nothing, for one that fails the check, repeats a name,
 * or is out of order (names bytewise; tensors before files). */
BATON_MUST_USE struct baton_status version_digester_add(struct version_digester *digester,
                                                        const struct manifest_entry *entry);

/* Adds all entries of a part.  After a failure the digester is of no more use: the sender starts
 * over with init. */
BATON_MUST_USE struct baton_status version_digester_add_part(struct version_digester *digester,
                                                             struct baton_bytes part);

/* The digest of what was added so far. */
struct digest version_digester_finish(const struct version_digester *digester);

#endif /* version_digest.h */
