/* landing.h -- the versions that lie on this node as sealed checkpoint directories.
 *
 * A landing root is one directory, usually on tmpfs; the source's durable store is another root,
 * on a disk.  Each sealed version is <root>/<32 hexadecimal digits of its digest>/, a valid
 * Hugging Face checkpoint with baton.manifest.json and baton.chunks (the plain digest of every 1
 * MiB chunk, 16 bytes each, tensors in manifest order, then files) beside it.  Bytes are written
 * once, under a hidden name, each chunk digested and checked while it is in the cache; a version
 * appears by one rename when all of it is there, verified and synced.  What is not sealed is never
 * visible under a version's name.
 *
 * An interrupted landing of a known digest is kept and continued by the next landing_land() of
 * that digest: chunks that are there and still have their digest are not fetched again.
 * Everything else that was left behind is removed by landing_root_open().
 *
 * Depends on: transport/model, transport.h.  Threads: a root may be used by many threads; a call
 * that moves bytes blocks its caller and uses 'workers' threads of its own; every wait has a
 * deadline.  One process holds a root at a time.  Ownership: manifests returned through '**out' go
 * to the caller (manifest_destroy()). */
#ifndef TRANSPORT_LANDING_LANDING_H
#define TRANSPORT_LANDING_LANDING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/bytes.h"
#include "api/base/limits.h"
#include "api/base/status.h"
#include "transport/model/digest.h"
#include "transport/model/dtype.h"

struct landing_root;
struct landing_session;
struct manifest;

#define LANDING_CHUNKS_NAME "baton.chunks"

struct landing_root_options {
    const char *dir; /* Made if it is not there (its parent must be). */
    uint64_t
        budget_bytes; /* Of all versions, sealed and in the making; 0: only the file system's. */
};

struct landing_version {
    struct digest digest;
    uint64_t bytes; /* Of all files of the directory. */
    uint32_t pins;
};

/* A tensor's change against the base: values.h. */
struct landing_change {
    char name[BATON_TENSOR_LABEL_BYTES];
    double change;
};

/* What the values of a version are like, seen while its tensors were digested.  Names that are too
 * long lose their end. */
struct landing_survey {
    /* Given. */
    const char *base_dir; /* A sealed directory to compare with; null: none. */
    bool refuse;          /* NaN or infinity: FAILED_PRECONDITION NON_FINITE, nothing is sealed. */

    /* Found; start from zero. */
    uint64_t nans;
    uint64_t infs;
    uint64_t bad_tensors;                     /* That hold one of them. */
    char first_bad[BATON_TENSOR_LABEL_BYTES]; /* By name. */
    bool compared;                            /* The base could be read to its end. */
    uint64_t changed;                         /* Tensors: other bytes than the base's, */
    uint64_t unchanged;                       /* the same, */
    uint64_t added;                           /* or none of this name, dtype and shape there. */
    uint32_t largest_count;                   /* Largest first. */
    struct landing_change largest[BATON_LARGEST_CHANGES_MAX];
};

struct landing_options {
    uint32_t workers;              /* 0: as many as processors, at most 4. */
    uint64_t timeout_ns;           /* Without progress of one transfer; 0: 30 s. */
    struct landing_survey *survey; /* Filled by the calls that make a manifest; null: no look. */
};

/* Written by the landing, read by any thread; 'cancel' the other way.  Start from zero. */
struct landing_progress {
    _Atomic uint64_t bytes_done;
    _Atomic uint64_t bytes_total;
    _Atomic uint64_t bytes_resumed; /* Of bytes_done: were there already. */
    _Atomic bool cancel;            /* Set it: the call ends with CANCELLED within a chunk. */
};

/* Where a version's bytes are: the objects of 'backend' are the files of a sealed directory. */
struct landing_source {
    const char *backend;     /* As baton_transport_open(). */
    const char *config;      /* Likewise, e.g. {"directory": "..."} for "file". */
    struct baton_bytes peer; /* Empty where the backend needs none. */
};

/* Opens a root, takes its lock, removes leftovers, lists sealed versions.  FAILED_PRECONDITION
 * IN_USE: another process has it. */
BATON_MUST_USE struct baton_status landing_root_open(const struct landing_root_options *options,
                                                     struct landing_root **out);
/* No call may be under way. */
void landing_root_close(struct landing_root *root);

/* Copies at most 'out_max' versions; returns how many there are. */
size_t landing_list(struct landing_root *root, struct landing_version *out, size_t out_max);
bool landing_has(struct landing_root *root, struct digest digest);
/* The directory of a version, whether sealed or not; BATON_PATH_BYTES holds it (checked at
 * open). */
void landing_path(const struct landing_root *root, struct digest digest,
                  char out[BATON_PATH_BYTES]);
/* Bytes of all sealed versions and of what is being landed. */
uint64_t landing_used_bytes(struct landing_root *root);

/* A pinned version cannot be removed.  Pins count, and end with the process: the holder pins again
 * at start.  NOT_FOUND: not sealed here. */
BATON_MUST_USE struct baton_status landing_pin(struct landing_root *root, struct digest digest);
void landing_unpin(struct landing_root *root, struct digest digest);

/* Deletes a sealed version: hidden by one rename first.  FAILED_PRECONDITION HELD: it is pinned.
 * An engine that has the files open keeps what it has. */
BATON_MUST_USE struct baton_status landing_remove(struct landing_root *root, struct digest digest);

/* Removes interrupted landings, except of 'keep' (null: all) and of what is under way. */
void landing_discard_unfinished(struct landing_root *root, const struct digest *keep);

/* Reads the manifest of a sealed version (its digest is checked). */
BATON_MUST_USE struct baton_status landing_load_manifest(struct landing_root *root,
                                                         struct digest digest,
                                                         struct manifest **out);

/* Reads every byte of a sealed version again and compares.  DATA_LOSS names the first tensor or
 * file that differs. 'progress' may be null here and below. */
BATON_MUST_USE struct baton_status landing_verify(struct landing_root *root, struct digest digest,
                                                  struct landing_progress *progress);

/* Fetches a sealed directory's manifest through a backend.  'expected' (null: any) must be its
 * digest. */
BATON_MUST_USE struct baton_status landing_fetch_manifest(const struct landing_source *source,
                                                          const struct digest *expected,
                                                          uint64_t timeout_ns,
                                                          struct manifest **out);

/* Lands a whole version through a backend.  OK at once if it is sealed here already. */
BATON_MUST_USE struct baton_status landing_land(struct landing_root *root,
                                                const struct manifest *manifest,
                                                const struct landing_source *source,
                                                const struct landing_options *options,
                                                struct landing_progress *progress);

/* --- From whoever holds single chunks, e.g. other nodes --- */

/* Gives chunks by their number in baton.chunks.  Each worker opens a reader of its own; a reader is used by one
 * thread. */
struct landing_supplier {
    void *context;
    struct baton_status (*open)(void *context, unsigned worker, void **out_reader);
    void (*close)(void *reader);
    /* The chunk that will be read after the next one: it may be asked for before it is read, so that nobody waits for
     * the way there and back. */
    void (*expect)(void *reader, uint64_t chunk);
    /* Blocks, with a deadline of its own.  A failure ends the landing; UNAVAILABLE: it may go on later. */
    struct baton_status (*read)(void *reader, uint64_t chunk, uint8_t *out, size_t size);
    /* What read() gave last was not that chunk: it must not come from the same place again. */
    void (*reject)(void *reader, uint64_t chunk);
};

/* How many chunks a version has. */
uint64_t landing_chunks_count(const struct manifest *manifest);
/* True if the chunks give each tensor's and file's digest: only then may single chunks be judged by the table. */
bool landing_table_is_bound(const struct manifest *manifest, const struct digest *table);

/* Lands a whole version chunk by chunk.  'table' are the digests of all chunks; DATA_LOSS unless they give the
 * manifest's.  What an interrupted landing of the version has is not asked for.  OK at once if it is sealed here. */
BATON_MUST_USE struct baton_status landing_pull(struct landing_root *root,
                                                const struct manifest *manifest,
                                                const struct digest *table,
                                                const struct landing_supplier *supplier,
                                                const struct landing_options *options,
                                                struct landing_progress *progress);

/* Copies any Hugging Face checkpoint directory into the root, in one pass, and makes its
 * manifest. */
BATON_MUST_USE struct baton_status landing_import_directory(struct landing_root *root,
                                                            const char *dir,
                                                            const struct landing_options *options,
                                                            struct landing_progress *progress,
                                                            struct manifest **out);

/* Makes the whole of a partial version: the tensors (and files) of 'partial_dir' over those of the
 * sealed directory 'parent_dir', whose bytes are verified as they are copied. */
BATON_MUST_USE struct baton_status landing_compose(struct landing_root *root,
                                                   const char *parent_dir, const char *partial_dir,
                                                   const struct landing_options *options,
                                                   struct landing_progress *progress,
                                                   struct manifest **out);

/* --- Tensors handed over in memory, by a trainer --- */

struct landing_tensor {
    const char *name;
    const char *atomic_set; /* Null or empty: none. */
    enum tensor_dtype dtype;
    struct tensor_shape shape;
};

struct landing_tensors {
    const struct landing_tensor *tensors;
    size_t tensors_count;
    const char *parent_dir; /* A sealed directory: the rest is inherited from it.  Null: none. */
    const char *files_dir;  /* Whose config and tokenizer go along.  Null: the parent's, or none. */
    uint64_t shard_bytes_max; /* Without a parent: bytes of tensors in one file; 0: 4 GiB. */
};

/* Starts a version.  With a parent, names, dtypes and shapes must be the parent's. */
BATON_MUST_USE struct baton_status landing_begin_tensors(struct landing_root *root,
                                                         const struct landing_tensors *tensors,
                                                         const struct landing_options *options,
                                                         struct landing_session **out);
/* Copies and digests one tensor, given whole; order is free, each once. 'index' counts as in
 * landing_begin_tensors().  'data' is read only during the call. */
BATON_MUST_USE struct baton_status landing_put_tensor(struct landing_session *session, size_t index,
                                                      struct baton_bytes data);
/* Copies what is inherited, seals, and ends the session whatever comes back.  Fails if a tensor was
 * not put. */
BATON_MUST_USE struct baton_status landing_finish_tensors(struct landing_session *session,
                                                          struct landing_progress *progress,
                                                          struct manifest **out);
/* Ends the session; nothing of it remains.  Null is fine. */
void landing_abandon_tensors(struct landing_session *session);

#endif /* landing.h */
