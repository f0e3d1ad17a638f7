/* manifest.c -- building, sealing, looking up; parts on the wire. */
#include "transport/model/manifest.h"

#include <stdlib.h>
#include <string.h>

struct manifest *manifest_create(void)
{
    return calloc(1, sizeof(struct manifest));
}

void manifest_destroy(struct manifest *manifest)
{
    if (manifest != NULL) {
        text_pool_deinit(&manifest->texts);
        free(manifest->tensors);
        free(manifest->files);
        free(manifest);
    }
}

static struct baton_status no_memory(void)
{
    return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                             "manifest: out of memory");
}

static const char *copy_text(struct manifest *manifest, const char *text)
{
    if (text == NULL || text[0] == '\0') {
        return "";
    }
    return text_pool_copy(&manifest->texts, text, strlen(text));
}

/* Shards hold thousands of tensors each: the same name is kept once when it repeats in a row. */
static const char *copy_file_name(struct manifest *manifest, const char *file)
{
    if (file != NULL && manifest->tensors_count > 0) {
        const char *last = manifest->tensors[manifest->tensors_count - 1].file;
        if (strcmp(last, file) == 0) {
            return last;
        }
    }
    return copy_text(manifest, file);
}

/* Makes room for one more record of 'size' bytes; false without memory. */
static bool make_room(void **items, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity) {
        return true;
    }
    size_t wanted = *capacity == 0 ? 64 : *capacity * 2;
    void *grown = realloc(*items, wanted * size);
    if (grown == NULL) {
        return false;
    }
    *items = grown;
    *capacity = wanted;
    return true;
}

static struct baton_status check_room(const struct manifest *manifest)
{
    if (manifest->tensors_count + manifest->files_count >= BATON_TENSORS_MAX) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "manifest: more than %d entries (BATON_TENSORS_MAX)",
                                 (int)BATON_TENSORS_MAX);
    }
    return baton_status_ok();
}

struct baton_status manifest_add_tensor(struct manifest *manifest,
                                        const struct manifest_tensor *tensor)
{
    struct baton_status st = check_room(manifest);
    if (!baton_ok(&st)) {
        return st;
    }
    struct manifest_tensor copy = *tensor;
    if (copy.shape.rank > BATON_TENSOR_RANK_MAX ||
        !tensor_shape_bytes(&copy.shape, copy.dtype, &copy.bytes)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                 "manifest: tensor '%.200s': shape: its size overflows or ends "
                                 "within a byte",
                                 copy.name);
    }
    copy.name = copy_text(manifest, tensor->name);
    copy.atomic_set = copy_text(manifest, tensor->atomic_set);
    copy.file = copy_file_name(manifest, tensor->file);
    void *items = manifest->tensors;
    if (copy.name == NULL || copy.atomic_set == NULL || copy.file == NULL ||
        !make_room(&items, manifest->tensors_count, &manifest->tensors_capacity, sizeof(copy))) {
        return no_memory();
    }
    manifest->tensors = items;
    manifest->tensors[manifest->tensors_count++] = copy;
    return baton_status_ok();
}

struct baton_status manifest_add_file(struct manifest *manifest, const struct manifest_file *file)
{
    struct baton_status st = check_room(manifest);
    if (!baton_ok(&st)) {
        return st;
    }
    struct manifest_file copy = *file;
    copy.name = copy_text(manifest, file->name);
    void *items = manifest->files;
    if (copy.name == NULL ||
        !make_room(&items, manifest->files_count, &manifest->files_capacity, sizeof(copy))) {
        return no_memory();
    }
    manifest->files = items;
    manifest->files[manifest->files_count++] = copy;
    return baton_status_ok();
}

/* Both records begin with their name; strcmp compares as unsigned bytes. */
static int compare_tensors(const void *a, const void *b)
{
    const struct manifest_tensor *left = a;
    const struct manifest_tensor *right = b;
    return strcmp(left->name, right->name);
}

static int compare_files(const void *a, const void *b)
{
    const struct manifest_file *left = a;
    const struct manifest_file *right = b;
    return strcmp(left->name, right->name);
}

static struct baton_status twice(const char *kind, const char *name)
{
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                             "manifest: %s '%.200s': the name is there twice", kind, name);
}

struct baton_status manifest_sort(struct manifest *manifest)
{
    if (manifest->tensors_count > 0) {
        qsort(manifest->tensors, manifest->tensors_count, sizeof(*manifest->tensors),
              compare_tensors);
    }
    if (manifest->files_count > 0) {
        qsort(manifest->files, manifest->files_count, sizeof(*manifest->files), compare_files);
    }
    for (size_t i = 1; i < manifest->tensors_count; i++) {
        if (compare_tensors(&manifest->tensors[i - 1], &manifest->tensors[i]) == 0) {
            return twice("tensor", manifest->tensors[i].name);
        }
    }
    for (size_t i = 1; i < manifest->files_count; i++) {
        if (compare_files(&manifest->files[i - 1], &manifest->files[i]) == 0) {
            return twice("file", manifest->files[i].name);
        }
    }
    return baton_status_ok();
}

struct manifest_entry manifest_get_entry(const struct manifest *manifest, size_t index)
{
    struct manifest_entry entry;
    memset(&entry, 0, sizeof(entry));
    if (index < manifest->tensors_count) {
        const struct manifest_tensor *tensor = &manifest->tensors[index];
        entry.kind = MANIFEST_KIND_TENSOR;
        entry.name = baton_bytes_of(tensor->name);
        entry.atomic_set = baton_bytes_of(tensor->atomic_set);
        entry.dtype = tensor->dtype;
        entry.shape = tensor->shape;
        entry.bytes = tensor->bytes;
        entry.digest = tensor->digest;
        return entry;
    }
    const struct manifest_file *file = &manifest->files[index - manifest->tensors_count];
    entry.kind = MANIFEST_KIND_FILE;
    entry.name = baton_bytes_of(file->name);
    entry.bytes = file->bytes;
    entry.digest = file->digest;
    return entry;
}

static void sum_up(struct manifest *manifest)
{
    manifest->tensors_bytes = 0;
    manifest->files_bytes = 0;
    for (size_t i = 0; i < manifest->tensors_count; i++) {
        manifest->tensors_bytes += manifest->tensors[i].bytes;
    }
    for (size_t i = 0; i < manifest->files_count; i++) {
        manifest->files_bytes += manifest->files[i].bytes;
    }
}

struct baton_status manifest_seal(struct manifest *manifest)
{
    struct version_digester digester;
    struct baton_status st = manifest_sort(manifest);
    version_digester_init(&digester);
    size_t count = manifest->tensors_count + manifest->files_count;
    for (size_t i = 0; baton_ok(&st) && i < count; i++) {
        struct manifest_entry entry = manifest_get_entry(manifest, i);
        st = version_digester_add(&digester, &entry);
    }
    if (baton_ok(&st)) {
        sum_up(manifest);
        manifest->digest = version_digester_finish(&digester);
    }
    return st;
}

const struct manifest_tensor *manifest_find_tensor(const struct manifest *manifest,
                                                   const char *name)
{
    struct manifest_tensor key = { .name = name };
    if (manifest->tensors_count == 0) {
        return NULL;
    }
    return bsearch(&key, manifest->tensors, manifest->tensors_count, sizeof(key), compare_tensors);
}

const struct manifest_file *manifest_find_file(const struct manifest *manifest, const char *name)
{
    struct manifest_file key = { .name = name };
    if (manifest->files_count == 0) {
        return NULL;
    }
    return bsearch(&key, manifest->files, manifest->files_count, sizeof(key), compare_files);
}

size_t manifest_encode_part(const struct manifest *manifest, size_t *cursor, uint8_t *out,
                            size_t capacity)
{
    struct baton_writer writer = baton_writer_of(out, capacity);
    size_t count = manifest->tensors_count + manifest->files_count;
    size_t fitted = 0;
    while (*cursor < count) {
        struct manifest_entry entry = manifest_get_entry(manifest, *cursor);
        manifest_part_write(&writer, &entry);
        if (!baton_writer_ok(&writer)) {
            break;
        }
        fitted = writer.size;
        (*cursor)++;
    }
    baton_assert(fitted > 0 || *cursor == count);
    return fitted;
}

/* Views of a part are not terminated; the pool's copies are. */
static struct baton_status add_entry(struct manifest *manifest, const struct manifest_entry *entry)
{
    struct text_pool *pool = &manifest->texts;
    const char *name = text_pool_copy(pool, (const char *)entry->name.data, entry->name.size);
    if (name == NULL) {
        return no_memory();
    }
    if (entry->kind == MANIFEST_KIND_FILE) {
        return manifest_add_file(manifest,
                                 &(struct manifest_file){ name, entry->bytes, entry->digest });
    }
    const char *set = "";
    if (entry->atomic_set.size > 0) {
        set = text_pool_copy(pool, (const char *)entry->atomic_set.data, entry->atomic_set.size);
    }
    if (set == NULL) {
        return no_memory();
    }
    struct manifest_tensor tensor = { .name = name,
                                      .atomic_set = set,
                                      .dtype = entry->dtype,
                                      .shape = entry->shape,
                                      .digest = entry->digest };
    return manifest_add_tensor(manifest, &tensor);
}

struct baton_status manifest_decode_part(struct manifest *manifest, struct baton_bytes part)
{
    struct baton_reader reader = baton_reader_of(part);
    while (reader.left.size > 0) {
        struct manifest_entry entry;
        struct baton_status st = manifest_part_read(&reader, &entry);
        if (baton_ok(&st)) {
            st = add_entry(manifest, &entry);
        }
        if (!baton_ok(&st)) {
            return st;
        }
    }
    return baton_status_ok();
}
