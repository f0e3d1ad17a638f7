/* checkpoint.c -- directory, index and headers brought together and checked against each other. */
#include "transport/model/checkpoint.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/model/checkpoint_files.h"
#include "transport/model/file_io.h"
#include "transport/model/safetensors.h"

static struct baton_status invalid(const char *dir, const char *name, const char *what)
{
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID,
                             "%.120s: '%.100s': %s", dir, name, what);
}

static struct baton_status no_memory(const char *dir)
{
    return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT, "%.200s: out of memory",
                             dir);
}

static int compare_tensors(const void *a, const void *b)
{
    const struct checkpoint_tensor *left = a;
    const struct checkpoint_tensor *right = b;
    return strcmp(left->name, right->name);
}

/* Where the index, if there is one, wants the tensor. */
static struct baton_status check_place(const struct checkpoint *checkpoint,
                                       const struct safetensors_index *index, const char *shard,
                                       const char *tensor)
{
    if (index == NULL) {
        return baton_status_ok();
    }
    const char *wanted = safetensors_index_find(index, tensor);
    if (wanted == NULL) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID,
                                 "%.100s: %.60s: tensor '%.80s': not in the index's weight_map",
                                 checkpoint->dir, shard, tensor);
    }
    if (strcmp(wanted, shard) != 0) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID,
                                 "%.80s: %.60s: tensor '%.80s': the index says that it is in %.60s",
                                 checkpoint->dir, shard, tensor, wanted);
    }
    return baton_status_ok();
}

static bool make_room(struct checkpoint *checkpoint, size_t more)
{
    size_t needed = checkpoint->tensors_count + more;
    if (needed <= checkpoint->tensors_capacity) {
        return true;
    }
    size_t wanted =
        checkpoint->tensors_capacity * 2 > needed ? checkpoint->tensors_capacity * 2 : needed;
    void *grown = realloc(checkpoint->tensors, wanted * sizeof(*checkpoint->tensors));
    if (grown == NULL) {
        return false;
    }
    checkpoint->tensors = grown;
    checkpoint->tensors_capacity = wanted;
    return true;
}

static struct baton_status add_tensors(struct checkpoint *checkpoint,
                                       const struct safetensors_index *index, const char *shard,
                                       const struct safetensors *parsed)
{
    if (checkpoint->tensors_count + parsed->tensors_count > BATON_TENSORS_MAX) {
        return invalid(checkpoint->dir, shard, "more than 1048576 tensors (BATON_TENSORS_MAX)");
    }
    if (!make_room(checkpoint, parsed->tensors_count + 1)) {
        return no_memory(checkpoint->dir);
    }
    for (size_t i = 0; i < parsed->tensors_count; i++) {
        const struct safetensors_tensor *from = &parsed->tensors[i];
        struct baton_status st = check_place(checkpoint, index, shard, from->name);
        if (!baton_ok(&st)) {
            return st;
        }
        const char *name = text_pool_copy(&checkpoint->texts, from->name, strlen(from->name));
        if (name == NULL) {
            return no_memory(checkpoint->dir);
        }
        checkpoint->tensors[checkpoint->tensors_count++] = (struct checkpoint_tensor){
            name, from->dtype, from->shape, shard, from->begin, from->bytes,
        };
    }
    return baton_status_ok();
}

static struct baton_status parse_opened(struct file_opened file, const char *label,
                                        struct safetensors **out)
{
    uint8_t prefix[SAFETENSORS_PREFIX_BYTES] = { 0 };
    uint64_t header_bytes = 0;
    size_t prefix_bytes = file.bytes < sizeof(prefix) ? (size_t)file.bytes : sizeof(prefix);
    struct baton_status st = file_read_at(file.fd, prefix, prefix_bytes, 0, label);
    if (baton_ok(&st)) {
        st = safetensors_header_bytes(label, prefix, file.bytes, &header_bytes);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    uint8_t *header = malloc(header_bytes + 1);
    if (header == NULL) {
        return no_memory(label);
    }
    st = file_read_at(file.fd, header, header_bytes, sizeof(prefix), label);
    if (baton_ok(&st)) {
        st =
            safetensors_parse(label, (struct baton_bytes){ header, header_bytes }, file.bytes, out);
    }
    free(header);
    return st;
}

static struct baton_status read_shard(struct checkpoint *checkpoint, int dir_fd,
                                      const struct safetensors_index *index,
                                      struct checkpoint_file *shard)
{
    struct file_opened file;
    struct safetensors *parsed = NULL;
    struct baton_status st =
        file_open_read(dir_fd, shard->name, checkpoint->follows_links, shard->name, &file);
    if (!baton_ok(&st)) {
        return baton_status_in(st, "%.120s", checkpoint->dir);
    }
    st = parse_opened(file, shard->name, &parsed);
    close(file.fd);
    if (!baton_ok(&st)) {
        return baton_status_in(st, "%.120s", checkpoint->dir);
    }
    shard->bytes = file.bytes;
    st = add_tensors(checkpoint, index, shard->name, parsed);
    safetensors_destroy(parsed);
    return st;
}

static const struct checkpoint_file *find_shard(const struct checkpoint *checkpoint,
                                                const char *name)
{
    for (size_t i = 0; i < checkpoint->shards_count; i++) {
        if (strcmp(checkpoint->shards[i].name, name) == 0) {
            return &checkpoint->shards[i];
        }
    }
    return NULL;
}

static bool index_has_shard(const struct safetensors_index *index, const char *name)
{
    for (size_t i = 0; i < index->shards_count; i++) {
        if (strcmp(index->shards[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static struct baton_status missing_shard(const struct checkpoint *checkpoint,
                                         const struct safetensors_index *index, const char *shard)
{
    size_t count = 0;
    const char *first = "";
    for (size_t i = 0; i < index->places_count; i++) {
        if (strcmp(index->places[i].shard, shard) == 0) {
            first = count++ == 0 ? index->places[i].tensor : first;
        }
    }
    struct baton_status st = baton_status_make(
        BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID,
        "%.100s: shard '%.60s' is missing; the index puts %zu tensors into it, the first '%.80s'",
        checkpoint->dir, shard, count, first);
    return baton_status_hint(st, "copy the missing file, or publish another directory");
}

/* The index and the directory must name the same shards. */
static struct baton_status check_shards(const struct checkpoint *checkpoint,
                                        const struct safetensors_index *index)
{
    for (size_t i = 0; i < index->shards_count; i++) {
        if (find_shard(checkpoint, index->shards[i]) == NULL) {
            return missing_shard(checkpoint, index, index->shards[i]);
        }
    }
    for (size_t i = 0; i < checkpoint->shards_count; i++) {
        if (!index_has_shard(index, checkpoint->shards[i].name)) {
            struct baton_status st = invalid(checkpoint->dir, checkpoint->shards[i].name,
                                             "a safetensors file that the index does not name");
            return baton_status_hint(st, "remove the stray file, or correct the index");
        }
    }
    return baton_status_ok();
}

static struct baton_status check_single(const struct checkpoint *checkpoint)
{
    if (checkpoint->shards_count == 0) {
        struct baton_status st = invalid(checkpoint->dir, "model.safetensors",
                                         "missing, and there is no " CHECKPOINT_INDEX_NAME);
        return baton_status_hint(st, "name a directory that holds a safetensors checkpoint");
    }
    for (size_t i = 0; i < checkpoint->shards_count; i++) {
        const char *name = checkpoint->shards[i].name;
        if (strcmp(name, "model.safetensors") != 0) {
            return invalid(checkpoint->dir, name,
                           "a safetensors file besides model.safetensors needs an index, and "
                           "there is no " CHECKPOINT_INDEX_NAME);
        }
    }
    return baton_status_ok();
}

/* After all headers: no name twice, and every row of the index was met. */
static struct baton_status check_complete(const struct checkpoint *checkpoint,
                                          const struct safetensors_index *index)
{
    for (size_t i = 1; i < checkpoint->tensors_count; i++) {
        const struct checkpoint_tensor *a = &checkpoint->tensors[i - 1];
        const struct checkpoint_tensor *b = &checkpoint->tensors[i];
        if (strcmp(a->name, b->name) == 0) {
            return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID,
                                     "%.80s: tensor '%.80s' is in two shards: %.60s and %.60s",
                                     checkpoint->dir, a->name, a->shard, b->shard);
        }
    }
    for (size_t i = 0; index != NULL && i < index->places_count; i++) {
        if (checkpoint_find(checkpoint, index->places[i].tensor) == NULL) {
            return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID,
                                     "%.80s: tensor '%.80s': the index says that it is in %.60s, "
                                     "whose header lacks it",
                                     checkpoint->dir, index->places[i].tensor,
                                     index->places[i].shard);
        }
    }
    return baton_status_ok();
}

static struct baton_status read_index(struct checkpoint *checkpoint, int dir_fd,
                                      struct safetensors_index **out)
{
    struct baton_bytes text;
    if (faccessat(dir_fd, CHECKPOINT_INDEX_NAME, F_OK, 0) != 0) {
        return check_single(checkpoint);
    }
    struct baton_status st = file_read_all(
        dir_fd, CHECKPOINT_INDEX_NAME, SAFETENSORS_INDEX_BYTES_MAX, CHECKPOINT_INDEX_NAME, &text);
    if (!baton_ok(&st)) {
        return baton_status_in(st, "%.120s", checkpoint->dir);
    }
    st = safetensors_index_parse(CHECKPOINT_INDEX_NAME, text, out);
    free((void *)(uintptr_t)text.data);
    if (!baton_ok(&st)) {
        return baton_status_in(st, "%.120s", checkpoint->dir);
    }
    return check_shards(checkpoint, *out);
}

static struct baton_status read_shards(struct checkpoint *checkpoint, int dir_fd,
                                       const struct safetensors_index *index)
{
    for (size_t i = 0; i < checkpoint->shards_count; i++) {
        struct baton_status st = read_shard(checkpoint, dir_fd, index, &checkpoint->shards[i]);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    if (checkpoint->tensors_count > 0) {
        qsort(checkpoint->tensors, checkpoint->tensors_count, sizeof(*checkpoint->tensors),
              compare_tensors);
    }
    return check_complete(checkpoint, index);
}

static struct baton_status read_directory(struct checkpoint *checkpoint, int dir_fd,
                                          enum checkpoint_kind kind)
{
    struct safetensors_index *index = NULL;
    struct baton_status st = checkpoint_list_files(checkpoint, dir_fd);
    if (kind == CHECKPOINT_FILES) {
        checkpoint->shards_count = 0;
        return st;
    }
    if (baton_ok(&st)) {
        st = read_index(checkpoint, dir_fd, &index);
    }
    if (baton_ok(&st)) {
        st = read_shards(checkpoint, dir_fd, index);
    }
    safetensors_index_destroy(index);
    if (baton_ok(&st) && kind == CHECKPOINT_WHOLE &&
        !checkpoint_has_file(checkpoint, "config.json")) {
        st = invalid(checkpoint->dir, "config.json", "missing");
    }
    return st;
}

struct baton_status checkpoint_open(const char *dir, enum checkpoint_kind kind,
                                    struct checkpoint **out)
{
    int dir_fd = -1;
    bool follows_links = kind != CHECKPOINT_FOREIGN;
    struct baton_status st = follows_links ? file_open_directory(dir, &dir_fd)
                                           : file_open_directory_itself(dir, &dir_fd);
    if (!baton_ok(&st)) {
        return st;
    }
    struct checkpoint *checkpoint = calloc(1, sizeof(*checkpoint));
    if (checkpoint != NULL) {
        checkpoint->follows_links = follows_links;
        checkpoint->dir = text_pool_copy(&checkpoint->texts, dir, strlen(dir));
    }
    st = checkpoint == NULL || checkpoint->dir == NULL ? no_memory(dir)
                                                       : read_directory(checkpoint, dir_fd, kind);
    close(dir_fd);
    if (!baton_ok(&st)) {
        checkpoint_close(checkpoint);
        return st;
    }
    *out = checkpoint;
    return st;
}

void checkpoint_close(struct checkpoint *checkpoint)
{
    if (checkpoint != NULL) {
        text_pool_deinit(&checkpoint->texts);
        free(checkpoint->tensors);
        free(checkpoint->files);
        free(checkpoint->shards);
        free(checkpoint);
    }
}

const struct checkpoint_tensor *checkpoint_find(const struct checkpoint *checkpoint,
                                                const char *name)
{
    struct checkpoint_tensor key = { .name = name };
    if (checkpoint->tensors_count == 0) {
        return NULL;
    }
    return bsearch(&key, checkpoint->tensors, checkpoint->tensors_count, sizeof(key),
                   compare_tensors);
}

struct baton_status checkpoint_to_manifest(const struct checkpoint *checkpoint,
                                           struct manifest **out)
{
    struct manifest *manifest = manifest_create();
    struct baton_status st = manifest == NULL ? no_memory(checkpoint->dir) : baton_status_ok();
    for (size_t i = 0; baton_ok(&st) && i < checkpoint->tensors_count; i++) {
        const struct checkpoint_tensor *from = &checkpoint->tensors[i];
        struct manifest_tensor tensor = {
            .name = from->name, .file = from->shard, .dtype = from->dtype, .shape = from->shape
        };
        st = manifest_add_tensor(manifest, &tensor);
    }
    for (size_t i = 0; baton_ok(&st) && i < checkpoint->files_count; i++) {
        struct manifest_file file = { .name = checkpoint->files[i].name,
                                      .bytes = checkpoint->files[i].bytes };
        st = manifest_add_file(manifest, &file);
    }
    if (baton_ok(&st)) {
        st = manifest_sort(manifest);
    }
    if (!baton_ok(&st)) {
        manifest_destroy(manifest);
        return st;
    }
    *out = manifest;
    return st;
}
