/* source_upload.c -- tensors and files from a client's memory: kept until commit, then landed.
 *
 * A safetensors file begins with a header that lists all of its tensors, so nothing can be written
 * before the last one is known: segments stay mapped (the client shares them and goes on), inline bytes
 * are kept in memory of our own, all within snapshot_bytes_max. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/shell/source_work.h"
#include "api/client/baton.h"
#include "transport/model/dtype.h"
#include "transport/model/references.h"

static const char config_name[] = "config.json";

struct upload_segment {
    uint8_t *data; /* Null for an empty one. */
    uint64_t bytes;
};

/* A tensor or a file.  Its bytes are in a segment, or are its own. */
struct upload_entry {
    char *name;
    bool is_tensor;
    enum tensor_dtype dtype;
    struct tensor_shape shape;
    uint64_t bytes;
    const uint8_t *data;
    uint8_t *own;  /* Null unless inline. */
    uint64_t have; /* Of an inline one. */
};

struct local_upload {
    struct source_work work;
    struct local_publish request;
    struct manifest *parent; /* Of a partial version. */
    struct upload_segment *segments;
    size_t segments_count;
    size_t segments_capacity;
    struct upload_entry *entries;
    size_t entries_count;
    size_t entries_capacity;
    uint64_t bytes;    /* Of all entries. */
    uint64_t snapshot; /* Our share of source->snapshot_bytes. */
};

static struct baton_status no_memory(void)
{
    return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                             "the agent has no memory for the upload");
}

/* Makes room for one more item; null without memory.  Sizes double. */
static void *grow(void *items, size_t count, size_t *capacity, size_t item_bytes)
{
    if (count < *capacity) {
        return items;
    }
    size_t more = *capacity == 0 ? 64 : *capacity * 2;
    void *grown = reallocarray(items, more, item_bytes);
    if (grown != NULL) {
        *capacity = more;
    }
    return grown;
}

/* --- life --- */

static void free_upload(struct local_upload *upload)
{
    for (size_t i = 0; i < upload->segments_count; i++) {
        if (upload->segments[i].data != NULL) {
            (void)munmap(upload->segments[i].data, upload->segments[i].bytes);
        }
    }
    for (size_t i = 0; i < upload->entries_count; i++) {
        free(upload->entries[i].name);
        free(upload->entries[i].own);
    }
    struct source *source = upload->work.source;
    atomic_fetch_sub(&source->snapshot_bytes, upload->snapshot);
    atomic_fetch_sub(&source->publishing, 1);
    source_release_parent(&upload->work);
    manifest_destroy(upload->parent);
    free(upload->segments);
    free(upload->entries);
    free(upload);
}

void source_upload_drop(struct local_upload *upload)
{
    free_upload(upload);
}

/* What can be known before the first byte: the model, and what is inherited from. */
static struct baton_status begin_step(struct source_work *work)
{
    source_set_phase(work, BATON_PHASE_QUEUED);
    struct baton_status st = source_find_model(work);
    if (baton_ok(&st) && work->request->partial) {
        st = source_find_parent(work, work->request->parent_seq, true);
    }
    if (baton_ok(&st) && work->request->partial) {
        st = source_load_parent(&work->parent, &work->upload->parent);
    }
    return st;
}

struct baton_status source_upload_begin(void *context, const struct local_publish *request,
                                        const struct local_feedback *feedback,
                                        struct local_upload **out)
{
    struct source *source = context;
    struct local_upload *upload = calloc(1, sizeof(*upload));
    if (upload == NULL) {
        return no_memory();
    }
    upload->request = *request;
    upload->work.source = source;
    upload->work.request = &upload->request;
    upload->work.upload = upload;
    atomic_fetch_add(&source->publishing, 1);
    struct baton_status st = source_run(&upload->work, begin_step, feedback, NULL);
    if (!baton_ok(&st)) {
        free_upload(upload);
        return st;
    }
    *out = upload;
    return st;
}

/* --- bytes --- */

static struct baton_status reserve(struct local_upload *upload, uint64_t bytes)
{
    struct source *source = upload->work.source;
    uint64_t limit = source->snapshot_bytes_max;
    uint64_t before = atomic_fetch_add(&source->snapshot_bytes, bytes);
    if (before > limit || bytes > limit - before) {
        atomic_fetch_sub(&source->snapshot_bytes, bytes);
        struct baton_status st = baton_status_make(
            BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
            "uploads hold %llu bytes in memory, %llu more would exceed the agent's limit of %llu",
            (unsigned long long)before, (unsigned long long)bytes, (unsigned long long)limit);
        return baton_status_hint(
            st, "Raise the agent's snapshot limit, or publish a checkpoint directory");
    }
    upload->snapshot += bytes;
    return baton_status_ok();
}

struct baton_status source_upload_segment(struct local_upload *upload, int fd, uint64_t bytes)
{
    void *grown = grow(upload->segments, upload->segments_count, &upload->segments_capacity,
                       sizeof(*upload->segments));
    if (grown == NULL) {
        return no_memory();
    }
    upload->segments = grown;
    struct baton_status st = reserve(upload, bytes);
    if (!baton_ok(&st)) {
        return st;
    }
    void *data = bytes == 0 ? NULL : mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) {
        return baton_status_errno(errno, "mmap", "a client's tensors");
    }
    upload->segments[upload->segments_count++] = (struct upload_segment){ data, bytes };
    return st;
}

/* Points an entry to its bytes in the last segment, or gives it memory of its own. */
static struct baton_status place_entry(struct local_upload *upload, const struct local_entry *from,
                                       struct upload_entry *entry)
{
    if (from->is_inline) {
        struct baton_status st = reserve(upload, from->bytes);
        if (!baton_ok(&st)) {
            return st;
        }
        entry->own = malloc(from->bytes + 1);
        entry->data = entry->own;
        return entry->own == NULL ? no_memory() : st;
    }
    const struct upload_segment *last =
        upload->segments_count == 0 ? NULL : &upload->segments[upload->segments_count - 1];
    if (last == NULL || from->offset + from->bytes > last->bytes) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                 "'%.160s' lies outside of its segment", from->name);
    }
    entry->data = last->data == NULL ? (const uint8_t *)"" : last->data + from->offset;
    entry->have = from->bytes;
    return baton_status_ok();
}

/* --- entries --- */

static struct baton_status wrong_bytes(const struct local_entry *from,
                                       const struct upload_entry *entry, uint64_t bytes)
{
    char shape[TENSOR_SHAPE_TEXT_BYTES];
    tensor_shape_format(&entry->shape, shape);
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                             "tensor '%.120s': %llu bytes were given, %s %s has %llu", from->name,
                             (unsigned long long)from->bytes, tensor_dtype_name(entry->dtype),
                             shape, (unsigned long long)bytes);
}

static struct baton_status read_tensor(const struct local_entry *from, struct upload_entry *entry)
{
    entry->is_tensor = true;
    entry->shape.rank = from->rank;
    memcpy(entry->shape.dims, from->dims, from->rank * sizeof(from->dims[0]));
    if (!tensor_dtype_parse(baton_bytes_of(from->dtype), &entry->dtype)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "tensor '%.160s': dtype '%s' is not one of safetensors",
                                 from->name, from->dtype);
    }
    uint64_t bytes = 0;
    if (!tensor_shape_bytes(&entry->shape, entry->dtype, &bytes)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "tensor '%.160s': shape: its size overflows or is no whole bytes",
                                 from->name);
    }
    return bytes == from->bytes ? baton_status_ok() : wrong_bytes(from, entry, bytes);
}

/* A tensor of a partial version must be the parent's in all but its bytes. */
static struct baton_status check_parent(const struct local_upload *upload,
                                        const struct upload_entry *entry, const char *name)
{
    if (upload->parent == NULL || !entry->is_tensor) {
        return baton_status_ok();
    }
    unsigned long long seq = upload->work.parent.seq;
    const struct manifest_tensor *parent = manifest_find_tensor(upload->parent, name);
    if (parent == NULL) {
        return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                                 "tensor '%.160s': the parent, %s@%llu, has none of this name",
                                 name, upload->request.model, seq);
    }
    if (parent->dtype == entry->dtype && tensor_shape_equal(&parent->shape, &entry->shape)) {
        return baton_status_ok();
    }
    char given[TENSOR_SHAPE_TEXT_BYTES];
    char wanted[TENSOR_SHAPE_TEXT_BYTES];
    tensor_shape_format(&entry->shape, given);
    tensor_shape_format(&parent->shape, wanted);
    return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                             "tensor '%.100s': %s %.60s, but in the parent, %s@%llu, %s %.60s",
                             name, tensor_dtype_name(entry->dtype), given, upload->request.model,
                             seq, tensor_dtype_name(parent->dtype), wanted);
}

static struct baton_status read_entry(struct local_upload *upload, const struct local_entry *from,
                                      struct upload_entry *entry)
{
    bool is_tensor = from->dtype[0] != '\0';
    struct baton_status st = manifest_name_check(
        is_tensor ? MANIFEST_KIND_TENSOR : MANIFEST_KIND_FILE, baton_bytes_of(from->name));
    if (baton_ok(&st) && is_tensor) {
        st = read_tensor(from, entry);
    }
    if (baton_ok(&st)) {
        st = check_parent(upload, entry, from->name);
    }
    if (baton_ok(&st)) {
        st = place_entry(upload, from, entry);
    }
    entry->bytes = from->bytes;
    return st;
}

struct baton_status source_upload_entry(struct local_upload *upload,
                                        const struct local_entry *entry)
{
    void *grown = grow(upload->entries, upload->entries_count, &upload->entries_capacity,
                       sizeof(*upload->entries));
    if (grown == NULL) {
        return no_memory();
    }
    upload->entries = grown;
    if (upload->entries_count >= BATON_TENSORS_MAX) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "'%.160s' would be one more than %d entries", entry->name,
                                 BATON_TENSORS_MAX);
    }
    struct upload_entry read = { .name = strdup(entry->name) };
    struct baton_status st = read.name == NULL ? no_memory() : read_entry(upload, entry, &read);
    if (!baton_ok(&st)) {
        free(read.own);
        free(read.name);
        return st;
    }
    upload->entries[upload->entries_count++] = read;
    upload->bytes += entry->bytes;
    return st;
}

struct baton_status source_upload_data(struct local_upload *upload, struct baton_bytes bytes)
{
    /* The session lets no more bytes through than the entry has. */
    struct upload_entry *entry = &upload->entries[upload->entries_count - 1];
    memcpy(entry->own + entry->have, bytes.data, bytes.size);
    entry->have += bytes.size;
    return baton_status_ok();
}

/* --- commit --- */

struct baton_status source_upload_commit(struct local_upload *upload,
                                         const struct local_feedback *feedback,
                                         struct local_result *out)
{
    struct baton_status st = source_run(&upload->work, source_publish, feedback, out);
    free_upload(upload);
    return st;
}

static bool has_config(const struct local_upload *upload)
{
    for (size_t i = 0; i < upload->entries_count; i++) {
        if (!upload->entries[i].is_tensor && strcmp(upload->entries[i].name, config_name) == 0) {
            return true;
        }
    }
    return false;
}

static size_t count_tensors(const struct local_upload *upload)
{
    size_t count = 0;
    for (size_t i = 0; i < upload->entries_count; i++) {
        count += upload->entries[i].is_tensor ? 1 : 0;
    }
    return count;
}

/* What the trainer says that engines should answer must be readable before it becomes part of a version. */
static struct baton_status check_references(const struct local_upload *upload)
{
    struct baton_status st = baton_status_ok();
    for (size_t i = 0; baton_ok(&st) && i < upload->entries_count; i++) {
        const struct upload_entry *entry = &upload->entries[i];
        if (!entry->is_tensor && strcmp(entry->name, REFERENCES_FILE_NAME) == 0) {
            struct references *references = NULL;
            st = references_parse((struct baton_bytes){ entry->data, entry->bytes }, &references);
            references_destroy(references);
        }
    }
    return st;
}

struct baton_status source_upload_check(struct source_work *work)
{
    struct local_upload *upload = work->upload;
    if (count_tensors(upload) == 0) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "the publish has no tensor");
    }
    struct baton_status checked = check_references(upload);
    if (!baton_ok(&checked)) {
        return checked;
    }
    work->bytes_carried = upload->bytes;
    if (upload->parent != NULL || has_config(upload)) {
        return baton_status_ok();
    }
    struct baton_status st = source_find_parent(work, 0, false);
    if (baton_ok(&st) && work->parent.seq == 0) {
        st = baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                               "%s: the model's first version needs it, and a tokenizer",
                               config_name);
        st = baton_status_hint(st, "Give the checkpoint's files with the tensors");
    }
    return st;
}

/* --- files --- */

static struct baton_status write_file(const char *directory, const struct upload_entry *entry)
{
    char path[2 * BATON_PATH_BYTES + BATON_TENSOR_NAME_BYTES];
    (void)snprintf(path, sizeof(path), "%s/%s", directory, entry->name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) {
        return errno == EEXIST ? baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                                   "file '%.160s' was given twice", entry->name)
                               : baton_status_errno(errno, "open", path);
    }
    struct baton_status st = baton_status_ok();
    for (uint64_t at = 0; at < entry->bytes && baton_ok(&st);) {
        ssize_t written = write(fd, entry->data + at, entry->bytes - at);
        if (written < 0 && errno != EINTR) {
            st = baton_status_errno(errno, "write", path);
        }
        at += written > 0 ? (uint64_t)written : 0;
    }
    (void)close(fd);
    return st;
}

static struct baton_status write_files(const struct local_upload *upload, const char *directory)
{
    struct baton_status st = baton_status_ok();
    for (size_t i = 0; i < upload->entries_count && baton_ok(&st); i++) {
        if (!upload->entries[i].is_tensor) {
            st = write_file(directory, &upload->entries[i]);
        }
    }
    return st;
}

/* Files that the parent has and the upload has not: links to the parent's. */
static struct baton_status link_parent_files(const struct source_parent *parent,
                                             const char *directory)
{
    struct checkpoint *checkpoint = NULL;
    struct baton_status st = checkpoint_open(parent->directory, CHECKPOINT_FILES, &checkpoint);
    for (size_t i = 0; baton_ok(&st) && i < checkpoint->files_count; i++) {
        char from[2 * BATON_PATH_BYTES];
        char to[2 * BATON_PATH_BYTES + BATON_TENSOR_NAME_BYTES];
        if (strcmp(checkpoint->files[i].name, REFERENCES_FILE_NAME) == 0) {
            continue; /* Of other weights. */
        }
        (void)snprintf(from, sizeof(from), "%s/%s", parent->directory, checkpoint->files[i].name);
        (void)snprintf(to, sizeof(to), "%s/%s", directory, checkpoint->files[i].name);
        if (symlink(from, to) != 0 && errno != EEXIST) {
            st = baton_status_errno(errno, "symlink", to);
        }
    }
    checkpoint_close(checkpoint);
    return st;
}

/* What is no part of a version (hidden files, weights, texts for people) must not get lost silently. */
static struct baton_status check_files(const struct local_upload *upload, const char *directory)
{
    struct checkpoint *checkpoint = NULL;
    struct baton_status st = checkpoint_open(directory, CHECKPOINT_FILES, &checkpoint);
    for (size_t i = 0; i < upload->entries_count && baton_ok(&st); i++) {
        const struct upload_entry *entry = &upload->entries[i];
        bool is_listed = entry->is_tensor;
        for (size_t j = 0; j < checkpoint->files_count && !is_listed; j++) {
            is_listed = strcmp(checkpoint->files[j].name, entry->name) == 0;
        }
        if (!is_listed) {
            st = baton_status_make(
                BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                "file '%.160s' is no part of a version: hidden, weights, text for "
                "people, or Baton's own",
                entry->name);
        }
    }
    checkpoint_close(checkpoint);
    return st;
}

static struct baton_status make_files(struct source_work *work, const char *directory)
{
    struct baton_status st = write_files(work->upload, directory);
    if (baton_ok(&st) && work->parent.seq != 0) {
        st = link_parent_files(&work->parent, directory);
    }
    return baton_ok(&st) ? check_files(work->upload, directory) : st;
}

/* --- landing --- */

static void fill_tensors(const struct local_upload *upload, struct landing_tensor *out)
{
    for (size_t i = 0; i < upload->entries_count; i++) {
        const struct upload_entry *entry = &upload->entries[i];
        if (entry->is_tensor) {
            *out++ = (struct landing_tensor){ entry->name, NULL, entry->dtype, entry->shape };
        }
    }
}

static struct baton_status put_tensors(struct source_work *work, struct landing_session *session)
{
    const struct local_upload *upload = work->upload;
    struct baton_status st = baton_status_ok();
    size_t index = 0;
    for (size_t i = 0; i < upload->entries_count && baton_ok(&st); i++) {
        const struct upload_entry *entry = &upload->entries[i];
        if (!entry->is_tensor) {
            continue;
        }
        st =
            landing_put_tensor(session, index++, (struct baton_bytes){ entry->data, entry->bytes });
        atomic_fetch_add(&work->progress.bytes_done, entry->bytes);
        if (baton_ok(&st)) {
            st = source_check_cancel(work);
        }
    }
    return st;
}

static struct baton_status land(struct source_work *work, const struct landing_tensors *tensors)
{
    struct landing_session *session = NULL;
    struct baton_status st =
        landing_begin_tensors(work->source->root, tensors, &work->landing, &session);
    if (!baton_ok(&st)) {
        return st;
    }
    atomic_store(&work->progress.bytes_total, work->bytes_carried);
    st = put_tensors(work, session);
    if (!baton_ok(&st)) {
        landing_abandon_tensors(session);
        return st;
    }
    return landing_finish_tensors(session, &work->progress, &work->manifest);
}

static struct baton_status land_with_files(struct source_work *work, const char *files)
{
    struct baton_status st = make_files(work, files);
    size_t count = count_tensors(work->upload);
    struct landing_tensor *tensors = calloc(count, sizeof(*tensors));
    if (baton_ok(&st) && tensors == NULL) {
        st = no_memory();
    }
    if (baton_ok(&st)) {
        fill_tensors(work->upload, tensors);
        struct landing_tensors all = { .tensors = tensors,
                                       .tensors_count = count,
                                       .parent_dir = work->upload->parent != NULL
                                                         ? work->parent.directory
                                                         : NULL,
                                       .files_dir = files };
        st = land(work, &all);
    }
    free(tensors);
    return st;
}

struct baton_status source_upload_land(struct source_work *work)
{
    char files[2 * BATON_PATH_BYTES];
    (void)snprintf(files, sizeof(files), "%s/.files-%s-XXXXXX", work->source->directory,
                   work->source->agent);
    if (mkdtemp(files) == NULL) {
        return baton_status_errno(errno, "mkdtemp", files);
    }
    struct baton_status st = land_with_files(work, files);
    source_remove_directory(files);
    return st;
}
