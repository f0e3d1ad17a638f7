/* land.c -- landing a whole version through a transport backend. */
#include <stdlib.h>
#include <string.h>

#include "transport/landing/job.h"
#include "transport/model/checkpoint.h"
#include "transport/model/safetensors.h"

static struct origin origin_of(const struct landing_source *source, uint64_t timeout_ns)
{
    return (struct origin){ .source = *source, .timeout_ns = timeout_ns };
}

static struct baton_status check_expected(const struct manifest *manifest,
                                          const struct digest *expected)
{
    char is[BATON_DIGEST_TEXT_BYTES];
    char should[BATON_DIGEST_TEXT_BYTES];
    if (expected == NULL || digest_equal(manifest->digest, *expected)) {
        return baton_status_ok();
    }
    digest_format(manifest->digest, is);
    digest_format(*expected, should);
    return baton_status_make(BATON_DATA_LOSS, BATON_REASON_DIGEST_MISMATCH,
                             "the source has version %s, not %s", is, should);
}

struct baton_status landing_fetch_manifest(const struct landing_source *source,
                                           const struct digest *expected, uint64_t timeout_ns,
                                           struct manifest **out)
{
    struct landing_options options = { .timeout_ns = timeout_ns };
    struct origin origin = origin_of(source, job_timeout_ns(&options));
    struct origin_reader *reader = NULL;
    struct baton_bytes text = { NULL, 0 };
    struct manifest *manifest = NULL;
    struct baton_status st = origin_open(&origin, 0, &reader);
    if (!baton_ok(&st)) {
        return st;
    }
    st = origin_read_all(reader, MANIFEST_FILE_NAME, MANIFEST_JSON_BYTES_MAX, &text);
    origin_close(reader);
    if (!baton_ok(&st)) {
        return st;
    }
    st = manifest_decode_json(text, &manifest);
    free((void *)(uintptr_t)text.data);
    if (baton_ok(&st)) {
        st = check_expected(manifest, expected);
    }
    if (!baton_ok(&st)) {
        manifest_destroy(manifest);
        return st;
    }
    *out = manifest;
    return st;
}

/* Reads and parses the header of one of the source's shards. */
static struct baton_status fetch_header(struct origin_reader *reader, const char *file,
                                        struct safetensors **out)
{
    struct baton_bytes head;
    uint64_t file_bytes = 0;
    uint64_t header_bytes = 0;
    uint8_t prefix[SAFETENSORS_PREFIX_BYTES] = { 0 };
    struct baton_status st = origin_length(reader, file, &file_bytes);
    if (!baton_ok(&st)) {
        return st;
    }
    uint64_t prefix_bytes = file_bytes < sizeof(prefix) ? file_bytes : sizeof(prefix);
    st = origin_read_first(reader, file, prefix_bytes, &head);
    if (!baton_ok(&st)) {
        return st;
    }
    memcpy(prefix, head.data, head.size);
    free((void *)(uintptr_t)head.data);
    st = safetensors_header_bytes(file, prefix, file_bytes, &header_bytes);
    if (baton_ok(&st)) {
        st = origin_read_first(reader, file, sizeof(prefix) + header_bytes, &head);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    struct baton_bytes json = { head.data + sizeof(prefix), header_bytes };
    st = safetensors_parse(file, json, file_bytes, out);
    free((void *)(uintptr_t)head.data);
    return st;
}

static struct baton_status place_tensor(const struct job *job, const char *file,
                                        const struct safetensors_tensor *from)
{
    const struct manifest *manifest = job->manifest;
    const struct manifest_tensor *tensor = manifest_find_tensor(manifest, from->name);
    if (tensor == NULL || strcmp(tensor->file, file) != 0) {
        return baton_status_make(BATON_DATA_LOSS, BATON_REASON_DIGEST_MISMATCH,
                                 "source: %.100s: tensor '%.120s': not there by the manifest", file,
                                 from->name);
    }
    if (tensor->dtype != from->dtype || !tensor_shape_equal(&tensor->shape, &from->shape)) {
        return baton_status_make(BATON_DATA_LOSS, BATON_REASON_DIGEST_MISMATCH,
                                 "source: %.100s: tensor '%.120s': another dtype or shape than in "
                                 "the manifest",
                                 file, from->name);
    }
    struct job_item *item = &job->items[tensor - manifest->tensors];
    item->place = (struct origin_place){ tensor->file, from->begin, NULL };
    return baton_status_ok();
}

/* Where each tensor of one shard lies at the source. */
static struct baton_status place_shard(const struct job *job, struct origin_reader *reader,
                                       const char *file)
{
    struct safetensors *parsed = NULL;
    struct baton_status st = fetch_header(reader, file, &parsed);
    for (size_t i = 0; baton_ok(&st) && i < parsed->tensors_count; i++) {
        st = place_tensor(job, file, &parsed->tensors[i]);
    }
    safetensors_destroy(parsed);
    return st;
}

static struct baton_status place_items(struct job *job, struct origin_reader *reader)
{
    const struct manifest *manifest = job->manifest;
    struct baton_status st = baton_status_ok();
    job_expect_digests(job);
    for (size_t i = 0; i < manifest->files_count; i++) {
        job->items[manifest->tensors_count + i].place.file = manifest->files[i].name;
    }
    for (size_t i = 0; baton_ok(&st) && i < job->plan->shards_count; i++) {
        st = place_shard(job, reader, job->plan->shards[i].file);
    }
    for (size_t i = 0; baton_ok(&st) && i < job->items_count; i++) {
        if (job->items[i].place.file == NULL) {
            st = baton_status_make(BATON_DATA_LOSS, BATON_REASON_TRUNCATED,
                                   "source: tensor '%.200s' is in no shard", job->items[i].name);
        }
    }
    return st;
}

/* The source's chunk table, if it has one that fits.  Without it damage is found at a tensor's end
 * rather than at the chunk. */
static struct digest *fetch_chunks(const struct job *job, struct origin_reader *reader)
{
    struct baton_bytes table = { NULL, 0 };
    uint64_t bytes = job->chunks_count * sizeof(struct digest);
    struct baton_status st = origin_read_all(reader, LANDING_CHUNKS_NAME, bytes, &table);
    if (!baton_ok(&st)) {
        return NULL;
    }
    struct digest *chunks = (struct digest *)(uintptr_t)table.data;
    if (table.size == bytes && landing_table_is_bound(job->manifest, chunks)) {
        return chunks;
    }
    free(chunks);
    return NULL;
}

static struct baton_status prepare(struct job *job, struct digest **chunks)
{
    struct origin_reader *reader = NULL;
    struct baton_status st = origin_open(&job->origins[0], 0, &reader);
    if (baton_ok(&st)) {
        st = place_items(job, reader);
    }
    if (baton_ok(&st)) {
        *chunks = fetch_chunks(job, reader);
    }
    origin_close(reader);
    return st;
}

static struct baton_status land(struct job *job)
{
    struct digest *chunks = NULL;
    struct baton_status st = prepare(job, &chunks);
    if (baton_ok(&st)) {
        st = job_complete(job, chunks);
    }
    free(chunks);
    return st;
}

struct baton_status landing_land(struct landing_root *root, const struct manifest *manifest,
                                 const struct landing_source *source,
                                 const struct landing_options *options,
                                 struct landing_progress *progress)
{
    struct manifest *copy = NULL;
    struct job *job = NULL;
    if (landing_has(root, manifest->digest)) {
        return baton_status_ok();
    }
    struct baton_status st = job_copy_manifest(manifest, &copy);
    if (!baton_ok(&st)) {
        return st;
    }
    struct job_options job_options = { root, copy, &copy->digest, options, progress };
    st = job_create(&job_options, &job);
    if (baton_ok(&st)) {
        job->origins[0] = origin_of(source, job_timeout_ns(options));
        st = land(job);
        job_destroy(job, job_can_resume(job, &st));
    }
    manifest_destroy(copy);
    return st;
}
