/* job.h -- one landing in the making: which bytes go where, what is verified, and the seal.
 *
 * Private to transport/landing.  Life: job_create() lays out the files of a sorted manifest in a
 * hidden directory; the caller says for each item where its bytes are and, if known, which digest
 * they must have; job_run() moves chunks with worker threads, any number of times; job_seal()
 * checks that nothing is missing, seals the manifest and publishes the directory.
 *
 * The chunk table (baton.chunks in the directory) is also the ledger: an entry is written after
 * its chunk's bytes, all zero means "not there".  A job that continues an interrupted one trusts
 * an entry only if the bytes on disk still have that digest.
 *
 * Threads: one caller; workers are inside job_run().  Ownership: job_destroy() frees all; the
 * manifest is the caller's and must outlive the job. */
#ifndef TRANSPORT_LANDING_JOB_H
#define TRANSPORT_LANDING_JOB_H

#include "transport/landing/origin.h"
#include "transport/landing/root.h"
#include "transport/model/manifest.h"
#include "transport/model/shard_plan.h"

enum { JOB_ORIGINS_MAX = 4, JOB_ORIGIN_BASE = 3 };

struct holding;
struct survey;

struct job_item {
    /* What and where to. */
    const char *name;
    enum manifest_kind kind;
    uint64_t bytes;
    size_t out; /* Index into 'outs'. */
    uint64_t out_offset;
    uint64_t chunks_first;
    uint64_t chunks_count;

    /* Where from; set by the caller before job_run(). */
    size_t origin; /* Index into 'origins'. */
    struct origin_place place;
    bool skip;       /* job_run() leaves it alone. */
    bool has_digest; /* 'digest' is what the bytes must have. */

    /* Written by workers. */
    struct digest digest;
    _Atomic uint64_t chunks_left;
};

struct job {
    struct landing_root *root;
    struct manifest *manifest;
    struct root_claim claim;
    bool claimed;
    bool resumable; /* The digest is known: a failed job may be continued. */
    uint32_t workers;

    struct shard_plan *plan;
    const char **outs; /* File names: the plan's shards, then the manifest's files. */
    size_t outs_count;
    struct job_item *items; /* The manifest's tensors, then its files. */
    size_t items_count;
    struct digest *chunks; /* The chunk table. */
    uint64_t chunks_count;
    const struct digest *chunks_expected; /* From a bound sidecar, or null. */
    int ledger_fd;

    struct survey *survey;   /* Null: nobody asked for it. */
    struct holding *holding; /* What peers get meanwhile; null: nothing. */
    struct origin origins[JOB_ORIGINS_MAX];
    struct landing_progress *progress; /* Never null: 'own_progress' stands in. */
    struct landing_progress own_progress;
};

/* What to lay out, and under which name. */
struct job_options {
    struct landing_root *root;
    struct manifest *manifest;   /* Sorted; every tensor has a file. */
    const struct digest *digest; /* Of the version, if known. */
    const struct landing_options *landing;
    struct landing_progress *progress; /* May be null. */
};

BATON_MUST_USE struct baton_status job_create(const struct job_options *options, struct job **out);
/* Leaves an interrupted job for a later one if 'keep' and it can be continued; else removes it. */
void job_destroy(struct job *job, bool keep);

/* Moves the chunks of items [first, first + count) that are not marked 'skip' and not done yet. */
BATON_MUST_USE struct baton_status job_run(struct job *job, size_t first, size_t count);

/* Ends the job with a sealed version.  'out' (may be null) gets its digest. */
BATON_MUST_USE struct baton_status job_seal(struct job *job, struct digest *out);

/* True if a job that failed so may go on later from what it has. */
bool job_can_resume(const struct job *job, const struct baton_status *failure);

/* --- Between the verbs --- */

/* The job fills digests into its manifest, so it gets a copy of the caller's. */
BATON_MUST_USE struct baton_status job_copy_manifest(const struct manifest *manifest,
                                                     struct manifest **out);
/* Every item must have the digest that the manifest says. */
void job_expect_digests(struct job *job);
/* Moves all chunks, judged by the table (null: by the items' digests only), and seals; peers may have them meanwhile. */
BATON_MUST_USE struct baton_status job_complete(struct job *job, const struct digest *chunks);

/* --- Between job.c and job_run.c --- */

/* Ends an item whose chunks are all there: computes, checks or records its digest. */
BATON_MUST_USE struct baton_status job_finish_item(struct job *job, struct job_item *item);
uint64_t job_timeout_ns(const struct landing_options *options);

#endif /* job.h */
