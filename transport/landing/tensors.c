/* tensors.c -- a version whose tensors a trainer hands over in memory. */
#include <stdlib.h>
#include <string.h>

#include "transport/landing/directory_source.h"

/* Indexes into the job's origins. */
enum { ORIGIN_PARENT = 0, ORIGIN_FILES = 1, ORIGIN_MEMORY = 2 };

struct landing_session {
    struct job *job;
    struct manifest *manifest;
    struct directory_source parent;
    struct directory_source files;
    struct manifest *parent_manifest;
    size_t *item_of; /* The caller's index -> the job's item. */
    size_t tensors_count;
};

static struct baton_status no_memory(void)
{
    return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                             "landing: out of memory");
}

/* The tensors that are handed over, as a manifest of their own. */
static struct baton_status list_tensors(const struct landing_tensors *tensors,
                                        struct manifest *manifest)
{
    struct baton_status st = baton_status_ok();
    for (size_t i = 0; baton_ok(&st) && i < tensors->tensors_count; i++) {
        const struct landing_tensor *from = &tensors->tensors[i];
        struct manifest_tensor tensor = { .name = from->name,
                                          .atomic_set = from->atomic_set,
                                          .dtype = from->dtype,
                                          .shape = from->shape };
        st = manifest_name_check(MANIFEST_KIND_TENSOR, baton_bytes_of(from->name));
        if (baton_ok(&st)) {
            st = manifest_add_tensor(manifest, &tensor);
        }
    }
    return st;
}

static struct baton_status list_files(const struct checkpoint *checkpoint,
                                      struct manifest *manifest)
{
    struct baton_status st = baton_status_ok();
    for (size_t i = 0; baton_ok(&st) && i < checkpoint->files_count; i++) {
        struct manifest_file file = { .name = checkpoint->files[i].name,
                                      .bytes = checkpoint->files[i].bytes };
        st = manifest_add_file(manifest, &file);
    }
    return st;
}

static struct baton_status open_sources(const struct landing_tensors *tensors,
                                        struct landing_session *session)
{
    struct baton_status st = baton_status_ok();
    if (tensors->files_dir != NULL) {
        st = directory_source_open(tensors->files_dir, CHECKPOINT_FILES, &session->files);
    }
    if (baton_ok(&st) && tensors->parent_dir != NULL) {
        st = directory_source_open(tensors->parent_dir, CHECKPOINT_PARTIAL, &session->parent);
    }
    if (baton_ok(&st) && tensors->parent_dir != NULL) {
        st = directory_source_manifest(tensors->parent_dir, &session->parent_manifest);
    }
    return st;
}

/* The manifest of the whole: the given tensors alone, or over the parent's. */
static struct baton_status make_manifest(const struct landing_tensors *tensors,
                                         struct landing_session *session)
{
    struct manifest *given = manifest_create();
    struct baton_status st = given == NULL ? no_memory() : list_tensors(tensors, given);
    if (baton_ok(&st) && session->files.checkpoint != NULL) {
        st = list_files(session->files.checkpoint, given);
    }
    if (baton_ok(&st)) {
        st = manifest_sort(given);
    }
    if (baton_ok(&st) && session->parent_manifest != NULL) {
        st = manifest_merge(session->parent_manifest, given, &session->manifest);
    } else if (baton_ok(&st)) {
        uint64_t limit = tensors->shard_bytes_max;
        st = shard_plan_assign(given, limit == 0 ? UINT64_C(4) << 30 : limit);
        session->manifest = given;
        return st;
    }
    manifest_destroy(given);
    return st;
}

static struct baton_status map_tensors(const struct landing_tensors *tensors,
                                       struct landing_session *session)
{
    session->tensors_count = tensors->tensors_count;
    session->item_of = calloc(tensors->tensors_count + 1, sizeof(*session->item_of));
    if (session->item_of == NULL) {
        return no_memory();
    }
    for (size_t i = 0; i < tensors->tensors_count; i++) {
        const struct manifest_tensor *tensor =
            manifest_find_tensor(session->manifest, tensors->tensors[i].name);
        session->item_of[i] = (size_t)(tensor - session->manifest->tensors);
    }
    return baton_status_ok();
}

/* Everything comes from the parent or from 'files_dir' but the tensors that are handed over. */
static void place_items(struct landing_session *session)
{
    struct job *job = session->job;
    size_t tensors = job->manifest->tensors_count;
    if (session->parent.checkpoint != NULL) {
        directory_source_place(&session->parent, job, ORIGIN_PARENT);
    }
    for (size_t i = 0; i < job->items_count; i++) {
        job->items[i].has_digest = session->parent.checkpoint != NULL;
        job->items[i].digest = i < tensors ? job->manifest->tensors[i].digest
                                           : job->manifest->files[i - tensors].digest;
    }
    for (size_t i = 0; i < session->tensors_count; i++) {
        struct job_item *item = &job->items[session->item_of[i]];
        item->origin = ORIGIN_MEMORY;
        item->has_digest = false;
        item->skip = true;
    }
}

/* Config and tokenizer of 'files_dir' go before the parent's. */
static void place_files(struct landing_session *session)
{
    struct job *job = session->job;
    directory_source_place(&session->files, job, ORIGIN_FILES);
    for (size_t i = job->manifest->tensors_count; i < job->items_count; i++) {
        if (job->items[i].origin == ORIGIN_FILES) {
            job->items[i].has_digest = false;
        }
    }
}

static struct baton_status begin(struct landing_root *root, const struct landing_tensors *tensors,
                                 const struct landing_options *options,
                                 struct landing_session *session)
{
    struct baton_status st = open_sources(tensors, session);
    if (baton_ok(&st)) {
        st = make_manifest(tensors, session);
    }
    if (baton_ok(&st)) {
        st = map_tensors(tensors, session);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    struct job_options job_options = { root, session->manifest, NULL, options, NULL };
    st = job_create(&job_options, &session->job);
    if (!baton_ok(&st)) {
        return st;
    }
    uint64_t timeout_ns = job_timeout_ns(options);
    if (session->parent.checkpoint != NULL) {
        session->job->origins[ORIGIN_PARENT] =
            directory_source_origin(&session->parent, timeout_ns);
    }
    if (session->files.checkpoint != NULL) {
        session->job->origins[ORIGIN_FILES] = directory_source_origin(&session->files, timeout_ns);
    }
    place_items(session);
    if (session->files.checkpoint != NULL) {
        place_files(session);
    }
    return st;
}

struct baton_status landing_begin_tensors(struct landing_root *root,
                                          const struct landing_tensors *tensors,
                                          const struct landing_options *options,
                                          struct landing_session **out)
{
    if (tensors->tensors_count == 0) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "landing: no tensor is handed over");
    }
    struct landing_session *session = calloc(1, sizeof(*session));
    struct baton_status st = session == NULL ? no_memory() : begin(root, tensors, options, session);
    if (!baton_ok(&st)) {
        landing_abandon_tensors(session);
        return st;
    }
    *out = session;
    return st;
}

struct baton_status landing_put_tensor(struct landing_session *session, size_t index,
                                       struct baton_bytes data)
{
    baton_assert(index < session->tensors_count);
    struct job_item *item = &session->job->items[session->item_of[index]];
    if (!item->skip) {
        return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_BAD_FIELD,
                                 "tensor '%.200s': handed over twice", item->name);
    }
    if (data.size != item->bytes) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "tensor '%.150s': %zu bytes were handed over; dtype and shape "
                                 "need %llu",
                                 item->name, data.size, (unsigned long long)item->bytes);
    }
    item->place.data = data.data;
    item->skip = false;
    struct baton_status st = job_run(session->job, session->item_of[index], 1);
    item->place.data = NULL;
    return st;
}

static struct baton_status finish(struct landing_session *session,
                                  struct landing_progress *progress)
{
    struct job *job = session->job;
    if (progress != NULL) {
        atomic_store(&progress->bytes_total, atomic_load(&job->progress->bytes_total));
        atomic_store(&progress->bytes_done, atomic_load(&job->progress->bytes_done));
        job->progress = progress;
    }
    for (size_t i = 0; i < session->tensors_count; i++) {
        const struct job_item *item = &job->items[session->item_of[i]];
        if (item->skip || atomic_load(&item->chunks_left) != 0) {
            return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_TRUNCATED,
                                     "tensor '%.200s': its bytes were not handed over", item->name);
        }
    }
    struct baton_status st = job_run(job, 0, job->items_count);
    return baton_ok(&st) ? job_seal(job, NULL) : st;
}

struct baton_status landing_finish_tensors(struct landing_session *session,
                                           struct landing_progress *progress, struct manifest **out)
{
    struct baton_status st = finish(session, progress);
    if (baton_ok(&st)) {
        *out = session->manifest;
        session->manifest = NULL;
    }
    landing_abandon_tensors(session);
    return st;
}

void landing_abandon_tensors(struct landing_session *session)
{
    if (session == NULL) {
        return;
    }
    job_destroy(session->job, false);
    directory_source_close(&session->parent);
    directory_source_close(&session->files);
    manifest_destroy(session->parent_manifest);
    manifest_destroy(session->manifest);
    free(session->item_of);
    free(session);
}
