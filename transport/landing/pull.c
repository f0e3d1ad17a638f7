/* pull.c -- landing a version chunk by chunk from a supplier; and what every landing of a known digest does. */
#include <stdlib.h>
#include <string.h>

#include "transport/landing/holding.h"
#include "transport/landing/job.h"

struct baton_status job_copy_manifest(const struct manifest *manifest, struct manifest **out)
{
    struct manifest *copy = manifest_create();
    struct baton_status st = copy == NULL
                                 ? baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                                     "landing: out of memory")
                                 : baton_status_ok();
    for (size_t i = 0; baton_ok(&st) && i < manifest->tensors_count; i++) {
        st = manifest_add_tensor(copy, &manifest->tensors[i]);
    }
    for (size_t i = 0; baton_ok(&st) && i < manifest->files_count; i++) {
        st = manifest_add_file(copy, &manifest->files[i]);
    }
    if (baton_ok(&st)) {
        st = manifest_seal(copy);
    }
    if (!baton_ok(&st)) {
        manifest_destroy(copy);
        return st;
    }
    *out = copy;
    return st;
}

void job_expect_digests(struct job *job)
{
    const struct manifest *manifest = job->manifest;
    for (size_t i = 0; i < job->items_count; i++) {
        bool tensor = i < manifest->tensors_count;
        job->items[i].has_digest = true;
        job->items[i].digest = tensor ? manifest->tensors[i].digest
                                      : manifest->files[i - manifest->tensors_count].digest;
    }
}

/* True if the next chunks of the table give the digest; moves on to those after them. */
static bool takes(const struct digest **table, uint64_t bytes, struct digest expected)
{
    size_t count = (size_t)digest_chunks_count(bytes);
    struct digest digest = digest_of_chunks(*table, count);
    *table += count;
    return digest_equal(digest, expected);
}

bool landing_table_is_bound(const struct manifest *manifest, const struct digest *table)
{
    bool bound = true;
    for (size_t i = 0; bound && i < manifest->tensors_count; i++) {
        bound = takes(&table, manifest->tensors[i].bytes, manifest->tensors[i].digest);
    }
    for (size_t i = 0; bound && i < manifest->files_count; i++) {
        bound = takes(&table, manifest->files[i].bytes, manifest->files[i].digest);
    }
    return bound;
}

struct baton_status job_complete(struct job *job, const struct digest *chunks)
{
    struct digest expected = job->manifest->digest;
    job->chunks_expected = chunks;
    job->holding = chunks != NULL ? holding_begin(job, chunks) : NULL;
    struct baton_status st = job_run(job, 0, job->items_count);
    job->chunks_expected = NULL;
    if (baton_ok(&st)) {
        struct digest sealed;
        st = job_seal(job, &sealed);
        baton_assert(!baton_ok(&st) || digest_equal(sealed, expected));
    }
    holding_end(job->holding, baton_ok(&st));
    job->holding = NULL;
    return st;
}

uint64_t landing_chunks_count(const struct manifest *manifest)
{
    uint64_t chunks = 0;
    for (size_t i = 0; i < manifest->tensors_count; i++) {
        chunks += digest_chunks_count(manifest->tensors[i].bytes);
    }
    for (size_t i = 0; i < manifest->files_count; i++) {
        chunks += digest_chunks_count(manifest->files[i].bytes);
    }
    return chunks;
}

struct baton_status landing_pull(struct landing_root *root, const struct manifest *manifest,
                                 const struct digest *table,
                                 const struct landing_supplier *supplier,
                                 const struct landing_options *options,
                                 struct landing_progress *progress)
{
    struct manifest *copy = NULL;
    struct job *job = NULL;
    if (landing_has(root, manifest->digest)) {
        return baton_status_ok();
    }
    if (!landing_table_is_bound(manifest, table)) {
        return baton_status_make(BATON_DATA_LOSS, BATON_REASON_DIGEST_MISMATCH,
                                 "the chunk table is not of this version");
    }
    struct baton_status st = job_copy_manifest(manifest, &copy);
    if (!baton_ok(&st)) {
        return st;
    }
    struct job_options job_options = { root, copy, &copy->digest, options, progress };
    st = job_create(&job_options, &job);
    if (baton_ok(&st)) {
        job->origins[0] = (struct origin){ .supplier = supplier };
        job_expect_digests(job);
        st = job_complete(job, table);
        job_destroy(job, job_can_resume(job, &st));
    }
    manifest_destroy(copy);
    return st;
}
